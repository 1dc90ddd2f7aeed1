/*
 * cuda_flow.cu
 *	  Answers to the host that do not wait behind copies.
 *
 * An engine copies out what streams ask for one by one: 8 bytes wait for the 64 megabytes of pairs before them, and
 * with them the host, which then has nothing to copy for a while (on an H200 a fifth of the time of
 * a streamed join). A store from a kernel to pinned memory goes past them.
 */
#include "layout/hjg_layout.h"

/* One block of one thread; from: device memory, to: pinned host memory. */
extern "C" __global__ void
hjg_k_post_count(const hjg_u64 *from, volatile hjg_u64 *to)
{
	*to = *from;
	__threadfence_system();
}
