/*
 * device_cuda_probe.c
 *	  The driver "cuda": chooses the method that gives what a round asks for (HjgCursor).
 */
#include "device/hjg_cuda_join.h"

/* True if no probe row has more than one match. */
static bool
is_unique(const HjgCudaJoin *join)
{
	return join->strategy != NULL ? join->strategy->unique : join->csr.unique;
}

HjgStatus
hjg_cuda_probe_rows(HjgCudaJoin *join, const HjgSegment *segments, int nsegments, hjg_u64 nrows, HjgCursor *at,
					HjgResult *result)
{
	/* one match of each row, any one, is mode SEMI, unless the table was made for another mode */
	const HjgMatchMode mode = at->most == 1 ? HJG_MATCH_SEMI : join->spec.mode;
	const bool	single = mode == HJG_MATCH_SEMI || mode == HJG_MATCH_ANTI || is_unique(join);
	HjgStatus	status = hjg_cuda_alloc_chunks(join);

	if (status == HJG_OK)
		status = hjg_cuda_send_begin(join, result);
	if (status != HJG_OK)
		return status;
	if (join->strategy != NULL && !join->strategy->unique && (at->most > 0 || (!single && at->skip > 0)))
		status = HJG_ERR_INPUT;
	else if (single && at->skip > 0)
	{
		/* the earlier slice had all matches of the row, or of every row */
		at->row = at->most > 0 ? (hjg_u32) nrows : at->row + 1;
		at->skip = 0;
		return HJG_OK;
	}
	else if (single || join->strategy != NULL)
		status = hjg_cuda_probe_once(join, mode, single, segments, nsegments, nrows, at, result);
	else
	{
		status = hjg_cuda_alloc_windows(join);
		return status == HJG_OK ? hjg_cuda_probe_windows(join, segments, nsegments, nrows, at, result) : status;
	}
	if (status != HJG_ERR_INPUT || join->strategy == NULL || join->strategy->shared)
		return status;
	status = hjg_cuda_use_csr(join);
	return status == HJG_OK ? hjg_cuda_probe_rows(join, segments, nsegments, nrows, at, result) : status;
}
