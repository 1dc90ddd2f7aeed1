/*
 * engine_runs.c
 *	  The rows of a call: its segments as runs of keys in ascending order, and a scan over them.
 */
#include "engine/hjg_engine_internal.h"

static void
sift_down(HjgKeyRun *runs, int root, int n)
{
	HjgKeyRun		run = runs[root];
	int			child;

	while ((child = 2 * root + 1) < n)
	{
		if (child + 1 < n && runs[child + 1].first_row > runs[child].first_row)
			child++;
		if (runs[child].first_row <= run.first_row)
			break;
		runs[root] = runs[child];
		root = child;
	}
	runs[root] = run;
}

/* Sort with a heap, because qsort() would call malloc(). */
static void
sort_runs(HjgKeyRun *runs, int n)
{
	bool		sorted = true;

	for (int i = 1; i < n && sorted; i++)
		sorted = runs[i - 1].first_row <= runs[i].first_row;
	if (sorted)
		return;
	for (int i = n / 2 - 1; i >= 0; i--)
		sift_down(runs, i, n);
	for (int i = n - 1; i > 0; i--)
	{
		HjgKeyRun		last = runs[i];

		runs[i] = runs[0];
		runs[0] = last;
		sift_down(runs, 0, i);
	}
}

/*
 * Set join's runs to the segments: sorted, without empty ones, checked for overlaps.  contiguous: they
 * must already ascend and start at 0.
 */
HjgStatus
hjg_runs_set(HjgJoin *join, HjgRuns *runs, const HjgSegment *segments, int nsegments, bool contiguous)
{
	if (!hjg_block_reserve(join, &join->runs_block, sizeof(HjgKeyRun) * ((size_t) nsegments + 1)))
		return HJG_ERR_MEMORY;
	runs->runs = join->runs_block.ptr;
	runs->nruns = 0;
	runs->nrows = 0;
	runs->packed = nsegments > 0 && segments[0].packed_bytes > 0;
	for (int i = 0; i < nsegments; i++)
	{
		if (segments[i].nrows > 0)
			runs->runs[runs->nruns++] = (HjgKeyRun) {.keys = segments[i].keys, .nrows = segments[i].nrows,
				.first_row = segments[i].first_row};
	}
	if (!contiguous)
		sort_runs(runs->runs, runs->nruns);
	for (int i = 0; i < runs->nruns; i++)
	{
		HjgKeyRun	   *run = &runs->runs[i];

		if ((hjg_u64) run->first_row + run->nrows > HJG_NO_ROW)
			return HJG_ERR_INPUT;
		if (i > 0 && (hjg_u64) run[-1].first_row + run[-1].nrows > run->first_row)
			return HJG_ERR_INPUT;
		if (contiguous && run->first_row != runs->nrows)
			return HJG_ERR_INPUT;
		run->begin = runs->nrows;
		runs->nrows += run->nrows;
	}
	if (runs->nrows > (contiguous ? HJG_MAX_PROBE_ROWS : HJG_MAX_BUILD_ROWS))
		return HJG_ERR_INPUT;
	return HJG_OK;
}

/* Begin a scan of rows [begin, end), counted over all runs. */
void
hjg_engine_scan_begin(HjgKeyScan *scan, const HjgRuns *runs, hjg_u64 begin, hjg_u64 end)
{
	int			lo = 0;
	int			hi = runs->nruns;

	while (hi - lo > 1)
	{
		int			mid = lo + (hi - lo) / 2;

		if (runs->runs[mid].begin <= begin)
			lo = mid;
		else
			hi = mid;
	}
	scan->run = runs->runs + lo;
	scan->pos = begin;
	scan->end = end;
}
