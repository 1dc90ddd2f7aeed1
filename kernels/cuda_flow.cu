/*
 * cuda_flow.cu
 *	  Answers to the host that do not wait for copies.
 *
 * A copy engine executes the copies of all streams one after another: a copy of 8 bytes would wait for the
 * 64 megabytes of pairs before it, and then the host would have nothing to copy for a while (on an H200 a
 * fifth of the time of a streamed join).  A kernel's store to pinned memory does not wait.
 */
#include "layout/hjg_layout.h"

/* Copy a word.  One block of one thread; from: device memory, to: pinned host memory. */
extern "C" __global__ void
hjg_k_post_count(const hjg_u64 *from, volatile hjg_u64 *to)
{
	*to = *from;
	__threadfence_system();
}
