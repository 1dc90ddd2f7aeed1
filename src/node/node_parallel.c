/*
 * node_parallel.c
 *	  A join that the leader of a parallel query and its workers share.
 *
 * Each participant reads its share of both children; all share one build side and one job. Shared state is in
 * HjgParallelShared, in the query's DSM segment, and in blocks that the participants allocate in the query's DSA area.
 *
 * Phases. A participant passes through the barrier's phases in hjg_parallel_build(), before it returns its first row:
 *		READ	each participant reads its share of the inner child. It takes row numbers in
 *				ranges from a counter; the keys of a range go to a slab of the job, or, without
 *				a job, to a block. At the end it publishes the memory that it has filled.
 *		SHARE	in memory: each adds its slabs to the job, and the elected one
 *				counts the rows and makes the bits of build rows. Partitioned: each
 *				moves its rows that are still in memory to the partitions.
 *		ROUTE	in memory: the elected one submits the build, and each adds the
 *				keys that it has read to the filter. Partitioned: each reads its share of
 *				the outer child into the partitions.
 *		JOIN	in memory: each attaches to all published memory and probes with its own
 *				batches of its share of the outer child. Partitioned: each claims partitions
 *				one by one and joins them like those of an unshared join.
 *		OVER	all participants have finished
 * A participant that comes late enters at the current phase; if that is OVER, it has nothing to do.
 *
 * Deadlocks. In JOIN a participant waits only for one that builds the common table (node_table.c), and no participant emits
 * rows before JOIN. So a process that waits at the barrier waits for processes that read, never for one whose rows nobody
 * fetches.
 *
 * Unmatched build rows are known when the last participant has left JOIN. The last one returns them without waiting, and
 * other participants that are still there claim ranges of them, too. One that finishes earlier stays for that, detached
 * from the barrier, so that no process waits for it, and only for a limited time (patience_ms()): the process that it waits
 * for may be waiting for it, through nodes above that need its next row or its arrival (Gather Merge, or a Parallel Hash that
 * grows). The leader stays for a shorter time, because workers may wait for it to fetch their rows.
 *
 * Private to a participant: match states of probe rows, and rows with a NULL key, which are emitted by the participant that
 * read them. All share one table of the build keys: in the device process, or, without a job or after the device process is
 * lost, in blocks.
 *
 * Memory. The build side may use hash_mem times the participants, as core's Parallel Hash does. The participant that finds it
 * full makes partitions, to which the others change at their next check.
 *
 * Ownership. Blocks belong to the query's DSA area and are freed when the leader resets the shared state or the area ends.
 * The leader owns the job; each participant has a handle that is released with its run. Both ReInitializeDSM and ReScan,
 * which come in either order, drop the leader's local state.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_bitutils.h"

#include "base/hjg_base.h"
#include "node/hjg_node.h"
#include "node/hjg_parallel.h"

/* Milliseconds that a row takes core's nodes at least. */
#define LEAST_ROW_MS 0.001

/* The longest that the leader waits for workers, which may wait for it to fetch their rows. */
#define LEADER_PATIENCE_MS 10

/* ---------- making and resetting the shared state ---------- */

Size
hjg_parallel_estimate(const ParallelContext *pcxt)
{
	const int	nmembers = pcxt->nworkers + 1;

	return add_size(hjg_parallel_members_bytes(nmembers), mul_size(HJG_SIDES, hjg_rows_spill_shared_bytes(nmembers)));
}

/* Lease a job for all participants, unless joins should stay in the backends. */
static void
lease_job(HjgJoinState *state, HjgParallelShared *shared)
{
	HjgParallel *parallel = state->parallel;
	HjgReason	reason = HJG_REASON_SMALL;
	int			key_width = state->inner.keys.codec->key_width;
	HjgJobHints hints = state->terms.hints;
	double		rows = state->inner.plan->plan->plan_rows;

	shared->has_job = false;
	if (hjg_in_backend_rows == 0 || (hjg_in_backend_rows > 0 && !hints.in_backend))
	{
		/* lease now: reading the children may take long, but a waiting job costs little */
		hints.probe_rows *= shared->nmembers;
		hints.build_rows *= shared->nmembers;
		hints.pairs *= shared->nmembers;
		hints.payload = hjg_payload_choose(&hints, hints.build_rows, shared->nmembers);
		parallel->owned = hjg_run_lease_job(key_width, hjg_match_start(&state->match), &hints, &shared->spec, &reason);
		if (parallel->owned != NULL)
		{
			hjg_job_hold(parallel->owned, state, state->css.ss.ps.state);
			shared->job = hjg_job_share(parallel->owned);
			shared->has_job = true;
			reason = HJG_REASON_NONE;
		}
		else
			hjg_run_report_fallback(&state->report, reason);
	}
	shared->no_job = reason;
	shared->key_width = key_width;
	shared->range_rows = shared->has_job ?
		hjg_input_rows((uint32) key_width, shared->spec.payload.bytes[HJG_SIDE_BUILD]) :
		pg_nextpower2_32((uint32) Min(Max(rows, HJG_LEAST_RANGE_ROWS), HJG_RANGE_ROWS));
	shared->chunk_rows = hjg_side_chunk_rows(&state->inner, rows);
	shared->chunk_rows = Min(shared->chunk_rows, Min(shared->range_rows, HJG_STORE_MAX_CHUNK_ROWS));
}

/* Set everything that an execution changes. */
static void
init_execution(HjgJoinState *state, HjgParallelShared *shared)
{
	BarrierInit(&shared->barrier, 0);
	pg_atomic_write_u32(&shared->next_range, 0);
	pg_atomic_write_u32(&shared->next_block, 0);
	pg_atomic_write_u64(&shared->bytes, 0);
	pg_atomic_write_u32(&shared->next_unmatched, 0);
	pg_atomic_write_u32(&shared->partitions.n, 0);
	pg_atomic_write_u32(&shared->partitions.next, 0);
	shared->build.in_job = false;
	shared->build.nrows = 0;
	shared->build.range_nrows = InvalidDsaPointer;
	shared->build.matched = InvalidDsaPointer;
	pg_atomic_write_u32(&shared->table.state, HJG_TABLE_NONE);
	shared->build.filter = InvalidDsaPointer;
	shared->partitions.places = InvalidDsaPointer;
	shared->partitions.filter = InvalidDsaPointer;
	for (int i = 0; i < shared->nmembers; i++)
	{
		shared->members[i].blocks = InvalidDsaPointer;
		shared->members[i].published = InvalidDsaPointer;
		shared->members[i].reported_bytes = 0;
		shared->members[i].reported = false;
	}
	shared->verify.wanted = state->verify != NULL;
	pg_atomic_init_u32(&shared->verify.entered, 0);
	pg_atomic_init_u32(&shared->verify.left, 0);
	pg_atomic_init_u64(&shared->verify.nrows, 0);
	pg_atomic_init_u64(&shared->verify.sum, 0);
	pg_atomic_init_u32(&shared->verify.compared, 0);
	hjg_rows_spill_shared_init(hjg_parallel_kept_place(shared, HJG_SIDE_BUILD), shared->nmembers, "kept_b");
	hjg_rows_spill_shared_init(hjg_parallel_kept_place(shared, HJG_SIDE_PROBE), shared->nmembers, "kept_p");
	lease_job(state, shared);
}

static bool
claim_shared_unmatched(HjgBuildShare *share, uint64 nrows, uint32 *first, uint32 *end)
{
	HjgParallelShared *shared = hjg_parallel_of(share)->shared;
	const uint64 from = (uint64) pg_atomic_fetch_add_u32(&shared->next_unmatched, 1) * HJG_UNMATCHED_RANGE_ROWS;

	if (from >= nrows)
		return false;
	*first = (uint32) from;
	*end = (uint32) Min(from + HJG_UNMATCHED_RANGE_ROWS, nrows);
	return true;
}

static const HjgBuildShare share_methods = {
	.open_build = hjg_share_open_build,
	.next_range = hjg_share_next_range,
	.is_full = hjg_share_is_full,
	.make_table = hjg_share_table,
	.claim_unmatched = claim_shared_unmatched,
	.route = hjg_share_route,
	.spilled = hjg_share_spilled,
	.routed = hjg_share_routed,
	.claim_partition = hjg_share_claim_partition,
};

static void
make_local(HjgJoinState *state, HjgParallelShared *shared, int me)
{
	EState	   *estate = state->css.ss.ps.state;
	HjgParallel *parallel = MemoryContextAllocZero(estate->es_query_cxt, sizeof(HjgParallel));

	parallel->shared = shared;
	parallel->area = estate->es_query_dsa;
	parallel->context = estate->es_query_cxt;
	parallel->me = me;
	parallel->share = share_methods;
	parallel->sharing = (HjgSharing) {
		.arg = parallel,
		.alloc = hjg_share_alloc,
		.next_block = &shared->next_block,
	};
	state->parallel = parallel;
	state->partitions.share = &parallel->share;
}

/* Initialise the leader; called again for the same node when its Gather was shut down before a rescan. */
void
hjg_parallel_init_leader(HjgJoinState *state, ParallelContext *pcxt, void *coordinate)
{
	HjgParallelShared *shared = coordinate;

	hjg_parallel_end(state);
	/* without a segment there are no workers, and no memory to share */
	if (pcxt->seg == NULL)
		return;

	memset(shared, 0, offsetof(HjgParallelShared, members));
	shared->nmembers = pcxt->nworkers + 1;
	shared->segment = dsm_segment_handle(pcxt->seg);
	SharedFileSetInit(&shared->files, pcxt->seg);
	LWLockInitialize(&shared->lock, LWTRANCHE_PARALLEL_HASH_JOIN);
	pg_atomic_init_u32(&shared->next_range, 0);
	pg_atomic_init_u32(&shared->next_block, 0);
	pg_atomic_init_u64(&shared->bytes, 0);
	pg_atomic_init_u32(&shared->table.state, HJG_TABLE_NONE);
	ConditionVariableInit(&shared->table.built);
	ConditionVariableInit(&shared->all_probed);
	pg_atomic_init_u32(&shared->next_unmatched, 0);
	pg_atomic_init_u32(&shared->partitions.n, 0);
	pg_atomic_init_u32(&shared->partitions.next, 0);
	make_local(state, shared, 0);
	state->shut = false;
	init_execution(state, shared);
}

void
hjg_parallel_init_worker(HjgJoinState *state, void *coordinate)
{
	HjgParallelShared *shared = coordinate;

	if (ParallelWorkerNumber + 1 >= shared->nmembers)
		elog(ERROR, "more parallel workers than planned");
	SharedFileSetAttach(&shared->files, dsm_find_mapping(shared->segment));
	make_local(state, shared, ParallelWorkerNumber + 1);
	hjg_verify_attach(state);
}

/* Collect the figures of the workers, and of the shared job once for each lease. */
static void
collect_reports(HjgJoinState *state)
{
	HjgParallel *parallel = state->parallel;

	for (int i = 1; i < parallel->shared->nmembers; i++)
	{
		HjgMember	   *member = &parallel->shared->members[i];

		if (!member->reported)
			continue;
		member->reported = false;
		pg_read_barrier();
		hjg_report_add(&state->others, &member->report);
	}
	if (parallel->owned != NULL && state->others.device_passes + state->report.device_passes > 0)
	{
		HjgJobStats stats;

		hjg_job_stats(parallel->owned, &stats);
		hjg_report_add_job(&state->others, &stats);
	}
}

/* Reset in the leader; all workers of the last execution have ended. */
void
hjg_parallel_reinit(HjgJoinState *state, void *coordinate)
{
	HjgParallel *parallel = state->parallel;
	HjgParallelShared *shared = coordinate;

	parallel->attached = false;
	if (!state->shut)
		collect_reports(state);
	hjg_job_release(parallel->owned);
	parallel->owned = NULL;
	for (int i = 0; i < shared->nmembers; i++)
		hjg_share_free(parallel, &shared->members[i]);
	if (DsaPointerIsValid(shared->partitions.places))
		dsa_free(parallel->area, shared->partitions.places);
	if (DsaPointerIsValid(shared->partitions.filter))
		dsa_free(parallel->area, shared->partitions.filter);
	SharedFileSetDeleteAll(&shared->files);
	init_execution(state, shared);
	state->shut = false;
}

/* ---------- the phases ---------- */

static void
arrive_and_wait(HjgParallel *parallel, bool *elected)
{
	*elected = BarrierArriveAndWait(&parallel->shared->barrier, hjg_base_wait_event(HJG_WAIT_BUILD));
}

/* Move all rows to the partitions: SHARE, partitioned. */
static void
share_partitions(HjgJoinState *state)
{
	HjgParallel *parallel = state->parallel;

	/* this participant may have read its last row before another found memory full */
	if (state->build.run != NULL)
		hjg_partitions_start(&state->partitions, state->inner.plan->plan->plan_rows, 0);
	else if (parallel->partitions == NULL)
		hjg_share_attach_partitions(parallel, &state->partitions);
	for (int i = 0; i < parallel->npartitions; i++)
		hjg_rows_spill_end_write(parallel->partitions[i]->build);
}

HjgFirstPass
hjg_parallel_build(HjgJoinState *state)
{
	HjgParallel *parallel = state->parallel;
	HjgParallelShared *shared = parallel->shared;
	HjgParallelPhase phase = BarrierAttach(&shared->barrier);
	bool		elected = false;
	bool		partitioned;

	parallel->attached = true;
	hjg_verify_enter(state);
	if (phase == HJG_PARALLEL_READ)
	{
		if (parallel->me == 0)
			hjg_share_prepare(parallel, &state->inner);
		if (!hjg_pass_read(&state->partitions))
			hjg_share_publish(parallel, &state->build);
		arrive_and_wait(parallel, &elected);
		phase = HJG_PARALLEL_SHARE;
	}
	partitioned = pg_atomic_read_u32(&shared->partitions.n) > 0;
	if (phase == HJG_PARALLEL_SHARE)
	{
		if (partitioned)
			share_partitions(state);
		else
		{
			if (state->build.run != NULL)
				hjg_run_add_build(state->build.run);
			if (elected)
				hjg_share_sum_up(parallel, &state->filter);
		}
		arrive_and_wait(parallel, &elected);
		phase = HJG_PARALLEL_ROUTE;
	}
	if (phase >= HJG_PARALLEL_OVER)
	{
		BarrierDetach(&shared->barrier);
		parallel->attached = false;
		return HJG_FIRST_PASS_NOTHING;
	}

	if (partitioned && parallel->partitions == NULL)
		share_partitions(state);
	if (!partitioned && state->build.run == NULL)
		hjg_build_open(&state->build, 1, &parallel->share);
	if (phase == HJG_PARALLEL_ROUTE)
	{
		if (partitioned)
			hjg_partitions_read_probe(&state->partitions);
		else
		{
			if (elected && shared->build.in_job && !hjg_run_submit_build(state->build.run))
				shared->build.in_job = false;
			hjg_share_add_keys(parallel, state->build.run, &state->filter);
		}
		arrive_and_wait(parallel, &elected);
	}
	else if (partitioned)
		hjg_share_routed(&parallel->share, &state->partitions);

	if (partitioned)
		return HJG_FIRST_PASS_SPILLED;
	hjg_share_take_in(parallel, &state->build, &state->filter);
	parallel->join_started_ns = hjg_now_ns();
	return HJG_FIRST_PASS_READY;
}

/* ---------- unmatched build rows ---------- */

/* Is the build pass this process's own? Passes of partitions are. */
static bool
is_own_pass(const HjgJoinState *state)
{
	return state->parallel == NULL || state->build.run->share == NULL;
}

static double
ms_since(uint64 started_ns)
{
	return (hjg_now_ns() - started_ns) / 1e6;
}

/*
 * Compute how long it is worthwhile to wait for the others: half of the estimated time to return the unmatched rows alone, and at most half
 * of the time of all probe rows. A row takes the nodes above at least as long as a probe row took here, and as core's fastest ones need.
 */
static double
patience_ms(const HjgJoinState *state)
{
	const uint64 nrows = state->build.run->build_limit;
	const uint64 nmatched = pg_popcount((const char *) state->match.build_bits, (int) (nrows / 64 * sizeof(uint64)));
	const double probe_ms = ms_since(state->parallel->join_started_ns);
	const double row_ms = Max(probe_ms / (double) Max(state->probe.nrows, 1), LEAST_ROW_MS);

	return Min((double) (nrows - nmatched) * row_ms, probe_ms) / 2;
}

/* Wait until all have finished; false if that takes too long. */
static bool
wait_for_others(HjgJoinState *state)
{
	HjgParallelShared *shared = state->parallel->shared;
	const double most_ms = state->parallel->me == 0 ? Min(patience_ms(state), LEADER_PATIENCE_MS) : patience_ms(state);
	const uint64 started_ns = hjg_now_ns();
	long		left_ms = (long) most_ms;

	ConditionVariablePrepareToSleep(&shared->all_probed);
	while (BarrierPhase(&shared->barrier) < HJG_PARALLEL_OVER && left_ms > 0)
	{
		(void) ConditionVariableTimedSleep(&shared->all_probed, left_ms, hjg_base_wait_event(HJG_WAIT_UNMATCHED));
		left_ms = (long) (most_ms - ms_since(started_ns));
	}
	ConditionVariableCancelSleep();
	return BarrierPhase(&shared->barrier) >= HJG_PARALLEL_OVER;
}

bool
hjg_parallel_has_unmatched(HjgJoinState *state)
{
	HjgParallel *parallel = state->parallel;

	if (is_own_pass(state))
		return true;
	parallel->attached = false;
	if (!BarrierArriveAndDetach(&parallel->shared->barrier))
		return wait_for_others(state);
	ConditionVariableBroadcast(&parallel->shared->all_probed);
	return true;
}

/* ---------- the end ---------- */

void
hjg_parallel_reset(HjgJoinState *state)
{
	HjgParallel *parallel = state->parallel;

	if (parallel == NULL || parallel->partitions == NULL)
		return;
	if (state->partitions.routes == parallel->partitions)
	{
		state->partitions.routes = NULL;
		state->partitions.nroutes = 0;
	}
	for (int i = 0; i < parallel->npartitions; i++)
		if (parallel->partitions[i] != NULL)
			hjg_partition_free(parallel->partitions[i]);
	parallel->partitions = NULL;
	parallel->npartitions = 0;
}

void
hjg_parallel_shutdown(HjgJoinState *state)
{
	HjgParallel *parallel = state->parallel;

	if (parallel == NULL)
		return;
	if (parallel->attached)
		BarrierDetach(&parallel->shared->barrier);
	parallel->attached = false;
	if (state->build.run != NULL)
		hjg_run_report(state->build.run);
	if (IsParallelWorker())
	{
		HjgMember	   *member = &parallel->shared->members[parallel->me];

		member->report = state->report;
		pg_write_barrier();
		member->reported = true;
	}
	else
		collect_reports(state);
}

void
hjg_parallel_end(HjgJoinState *state)
{
	if (state->parallel == NULL)
		return;
	/* workers have ended; if one has not, the job waits for it */
	hjg_job_release(state->parallel->owned);
	pfree(state->parallel);
	state->parallel = NULL;
	state->partitions.share = NULL;
}
