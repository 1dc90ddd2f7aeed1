/*
 * exec_table.c
 *	  The table of a shared load that its participants probe themselves, without a job.
 *
 * One participant builds it, in blocks that all reach, and the others wait: no row can come
 * out before it is there.  From then on it is only read, so that each has an engine of its
 * own with nothing in it but the addresses of the table's parts.
 */
#include "postgres.h"

#include "executor/hjg_parallel.h"
#include "executor/hjg_run.h"

/* Parts start at a cache line, wherever the block starts: segments of the area are mapped to pages. */
#define PART_ALIGNMENT 64

static void *
part_at(HjgParallel *parallel, uint64 name)
{
	return (void *) TYPEALIGN(PART_ALIGNMENT, hjg_share_at(parallel, name));
}

static void *
alloc_part(void *arg, HjgTablePart part, size_t bytes)
{
	HjgParallel *parallel = ((HjgRun *) arg)->share;
	uint64		name;

	hjg_share_alloc(parallel, bytes + PART_ALIGNMENT, &name);
	parallel->shared->table[part] = name;
	return part_at(parallel, name);
}

void
hjg_share_build_table(HjgJoinState *state)
{
	HjgRun	   *run = state->run;
	HjgParallelShared *shared = run->share->shared;
	HjgSegment *segments;
	int			nsegments;

	if (shared->has_job || shared->nrows == 0)
		return;
	run->mode = hjg_load_mode(state);
	segments = hjg_share_segments(run->share, &nsegments);
	hjg_run_engine_build(run, segments, nsegments, alloc_part);
	pfree(segments);
	shared->has_table = true;
}

void
hjg_share_attach_table(HjgJoinState *state)
{
	HjgRun	   *run = state->run;
	HjgParallelShared *shared = run->share->shared;
	const void *parts[HJG_TABLE_NPARTS];

	if (!shared->has_table || run->engine != NULL)
		return;
	for (int i = 0; i < HJG_TABLE_NPARTS; i++)
		parts[i] = part_at(run->share, shared->table[i]);
	hjg_run_engine_attach(run, shared->nrows, parts);
}
