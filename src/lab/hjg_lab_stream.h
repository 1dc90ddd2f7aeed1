/*
 * hjg_lab_stream.h
 *	  Work on a stream that the product does not need.  Internal to the room "lab".
 */
#ifndef HJG_LAB_STREAM_H
#define HJG_LAB_STREAM_H

#include "device/hjg_cuda.h"

extern HjgStatus hjg_lab_copy_within(HjgCudaStream *stream, HjgCudaPtr to, HjgCudaPtr from, size_t bytes);

/*
 * Do the same as hjg_cuda_follow() in two steps: note the work queued so far with an event, and wait for
 * the event later.  The caller owns the event, and opens and closes it here.
 */
extern HjgStatus hjg_lab_note_open(HjgCudaStream *stream, HjgCudaEvent *event);
extern void hjg_lab_note_close(HjgCudaStream *stream, HjgCudaEvent *event);
extern HjgStatus hjg_lab_note(HjgCudaStream *stream, HjgCudaEvent event);
/* Let later work wait for a noted event; an event that was never noted is not waited for. */
extern HjgStatus hjg_lab_follow_note(HjgCudaStream *stream, HjgCudaEvent event);

#endif							/* HJG_LAB_STREAM_H */
