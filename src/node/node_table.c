/*
 * node_table.c
 *	  The table of a shared build side that its participants probe themselves: without a job, or after one of them has lost
 *	  the device process.
 *
 * The first participant that needs it builds it, in blocks that all can access, and others wait for it. From then on it is
 * only read: each participant has an engine of its own with the addresses of the table's parts.
 *
 * The process that builds it computes and waits for nothing itself, neither for its rows to be fetched nor for a lock. If
 * that process fails, the error reaches the leader (or is the leader's), which ends the query for the processes that wait.
 */
#include "postgres.h"

#include "pgstat.h"

#include "base/hjg_base.h"
#include "node/hjg_parallel.h"
#include "node/hjg_run_private.h"

/* Parts start at a cache line, whatever the block's address: segments of the area are mapped to pages. */
#define PART_ALIGNMENT 64

static void *
part_at(HjgParallel *parallel, uint64 name)
{
	return (void *) TYPEALIGN(PART_ALIGNMENT, hjg_share_at(parallel, name));
}

static void *
alloc_part(void *arg, HjgTablePart part, size_t bytes)
{
	HjgParallel *parallel = hjg_parallel_of(((HjgRun *) arg)->share);
	uint64		name;

	hjg_share_alloc(parallel, bytes + PART_ALIGNMENT, &name);
	parallel->shared->table.parts[part] = name;
	return part_at(parallel, name);
}

/* Build the table of the complete build side, which is the same in all participants. */
static void
build_shared_table(HjgRun *run)
{
	HjgSegment *segments = hjg_keys_segments(&run->build);

	hjg_run_engine_build(run, segments, run->build.nsegments, alloc_part);
	pfree(segments);
}

static void
attach_table(HjgRun *run)
{
	HjgParallel *parallel = hjg_parallel_of(run->share);
	HjgParallelShared *shared = parallel->shared;
	const void *parts[HJG_TABLE_NPARTS];

	for (int i = 0; i < HJG_TABLE_NPARTS; i++)
		parts[i] = part_at(parallel, shared->table.parts[i]);
	hjg_run_engine_attach(run, shared->build.nrows, parts);
}

void
hjg_share_table(HjgRun *run)
{
	HjgParallelShared *shared = hjg_parallel_of(run->share)->shared;
	uint32		none = HJG_TABLE_NONE;

	if (pg_atomic_compare_exchange_u32(&shared->table.state, &none, HJG_TABLE_BUILDING))
	{
		build_shared_table(run);
		pg_write_barrier();
		pg_atomic_write_u32(&shared->table.state, HJG_TABLE_BUILT);
		ConditionVariableBroadcast(&shared->table.built);
		return;
	}
	ConditionVariablePrepareToSleep(&shared->table.built);
	while (pg_atomic_read_u32(&shared->table.state) != HJG_TABLE_BUILT)
		ConditionVariableSleep(&shared->table.built, hjg_base_wait_event(HJG_WAIT_BUILD));
	ConditionVariableCancelSleep();
	pg_read_barrier();
	attach_table(run);
}
