/*
 * lab_cuda_stream.c
 *	  Copies within a device, and events that outlast the call that records them.
 */
#include "lab/hjg_lab_stream.h"

HjgStatus
hjg_lab_copy_within(HjgCudaStream *stream, HjgCudaPtr to, HjgCudaPtr from, size_t bytes)
{
	if (bytes == 0)
		return HJG_OK;
	stream->busy = true;
	return hjg_cuda_check(stream, hjg_cuda.copy_within(to, from, bytes, stream->handle), "copy_within");
}

HjgStatus
hjg_lab_note_open(HjgCudaStream *stream, HjgCudaEvent *event)
{
	return hjg_cuda_check(stream, hjg_cuda.event_create(event, HJG_CUDA_EVENT_NO_TIMING), "event_create");
}

void
hjg_lab_note_close(HjgCudaStream *stream, HjgCudaEvent *event)
{
	if (*event != NULL)
		(void) hjg_cuda_check(stream, hjg_cuda.event_destroy(*event), "event_destroy");
	*event = NULL;
}

HjgStatus
hjg_lab_note(HjgCudaStream *stream, HjgCudaEvent event)
{
	stream->busy = true;
	return hjg_cuda_check(stream, hjg_cuda.event_record(event, stream->handle), "event_record");
}

HjgStatus
hjg_lab_follow_note(HjgCudaStream *stream, HjgCudaEvent event)
{
	stream->busy = true;
	return hjg_cuda_check(stream, hjg_cuda.stream_wait(stream->handle, event, 0), "stream_wait");
}
