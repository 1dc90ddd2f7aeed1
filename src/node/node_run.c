/*
 * node_run.c
 *	  The keys of one build pass and the engine that joins them: a job of the device process, or the backend's own engine.
 *
 * A run starts with its keys in local memory. When the build side is complete and either side has enough rows, it leases a
 * job, moves its build keys to the arena and fills slabs from then on. If the device process fails, is missing or runs out of
 * arena, the backend's own engine continues: the job is kept for its inputs, the keys are read in their slabs, and each batch
 * goes on from its last complete round.
 *
 * The run of a shared build side (node_parallel.c) begins with a handle of the shared job, if there is one, and writes its
 * build keys where all participants can read them.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "node/hjg_run_private.h"

/* ---------- jobs ---------- */

/* Copy the build keys from local memory to slabs of the new job. */
static void
move_build_keys(HjgRun *run)
{
	HjgKeyBuffer local = run->build;

	memset(&run->build, 0, sizeof(run->build));
	for (int i = 0; i < local.nsegments; i++)
		hjg_keys_append(run, &run->build, local.segments[i].keys, local.segments[i].nrows);
	hjg_keys_empty(run, &local);
	if (local.segments != NULL)
		pfree(local.segments);
}

static void
submit_build(HjgRun *run)
{
	hjg_payload_fill(run, HJG_SIDE_BUILD, &run->build, run->build_rows);
	hjg_run_add_build(run);
	hjg_job_build_submit(run->job);
}

HjgJob *
hjg_run_lease_job(int key_width, HjgMatchMode mode, const HjgJobHints *hints, HjgJoinSpec *spec, HjgReason *reason)
{
	*spec = (HjgJoinSpec) {
		.key_width = key_width,
		.mode = mode,
		.strategy = hjg_strategy,
		.pipeline = hjg_pipeline,
		.build_rows = (uint64) Max(hints->all_build_rows, 0),
		.probe_rows = (uint64) Max(hints->probe_rows, 0),
		.payload = hints->payload,
		.nthreads = hjg_cpu_threads,
	};
	return hjg_job_lease(spec, hints->device, reason);
}

/* Lease a job for the run and give it the build side. */
static void
start_job(HjgRun *run)
{
	HjgJobHints hints = run->execution->terms->hints;
	HjgJoinSpec spec;
	HjgReason	reason;

	run->reason = HJG_REASON_NONE;
	hints.payload = hjg_payload_choose(&hints, run->build.nrows, 1);
	run->job = hjg_run_lease_job(run->key_width, run->mode, &hints, &spec, &reason);
	if (run->job == NULL)
	{
		hjg_run_fall_back(run, reason);
		return;
	}
	hjg_job_hold(run->job, run->execution->node, run->execution->estate);
	run->payload = spec.payload;
	run->execution->report->device = hjg_job_device(run->job);
	move_build_keys(run);
	if (hjg_run_job_usable(run))
		submit_build(run);
}

/* May the run still get a job? Not if the plan expects an in-backend join, and was not far wrong. */
static inline bool
job_undecided(const HjgRun *run)
{
	const HjgJobHints *hints = &run->execution->terms->hints;

	return run->job == NULL && run->share == NULL && run->reason == HJG_REASON_SMALL && hjg_in_backend_rows >= 0 &&
		!(hjg_in_backend_rows > 0 && hints->in_backend && run->build.nrows <= hints->most_in_backend_rows);
}

/* ---------- shared build sides ---------- */

void
hjg_run_attach(HjgRun *run, HjgJobName name, const HjgJoinSpec *spec)
{
	HjgReason	reason;

	run->job = hjg_job_attach(name, spec, &reason);
	if (run->job == NULL)
	{
		hjg_run_fall_back(run, reason);
		return;
	}
	hjg_job_hold(run->job, run->execution->node, run->execution->estate);
	run->reason = HJG_REASON_NONE;
	run->payload = spec->payload;
	run->execution->report->device = hjg_job_device(run->job);
}

void
hjg_run_no_job(HjgRun *run, HjgReason reason)
{
	run->reason = reason;
	if (run->job != NULL)
		run->job_lost = true;
	if (reason != HJG_REASON_SMALL)
		run->execution->report->fallback = reason;
}

void
hjg_run_add_build(HjgRun *run)
{
	for (int i = 0; i < run->build.nsegments && run->job != NULL; i++)
	{
		HjgKeySegment *segment = &run->build.segments[i];

		CHECK_FOR_INTERRUPTS();
		if (segment->slab_ix != HJG_NO_SLAB)
			hjg_job_build_add(run->job, segment->slab_ix, segment->nrows, segment->first_row, segment->has_payload);
	}
}

bool
hjg_run_submit_build(HjgRun *run)
{
	if (!hjg_run_job_usable(run))
		return false;
	hjg_job_build_submit(run->job);
	return true;
}

void
hjg_run_import(HjgRun *run, const HjgKeySegment *segment)
{
	*hjg_keys_next_segment(run, &run->build) = *segment;
	run->build.has_payload = segment->has_payload && (run->build.nsegments == 0 || run->build.has_payload);
	run->build.nsegments++;
	run->build.nrows += segment->nrows;
	run->build.bytes += (size_t) segment->nrows * run->key_width;
	run->build_limit = Max(run->build_limit, segment->first_row + segment->nrows);
	if (run->job != NULL)
		hjg_job_build_facts(run->job, run->build_limit, run->build.has_payload);
}

/* ---------- building ---------- */

HjgRun *
hjg_run_create(const HjgExecution *execution, MemoryContext context, int key_width)
{
	HjgRun	   *run = MemoryContextAllocZero(context, sizeof(HjgRun));

	run->context = context;
	run->key_width = key_width;
	run->execution = execution;
	run->reason = HJG_REASON_SMALL;
	run->nmembers = 1;
	run->round.context = context;
	hjg_run_engine_env(run);
	return run;
}

void *
hjg_run_build_key(HjgRun *run)
{
	return hjg_keys_next(run, &run->build);
}

void
hjg_run_build_keys(HjgRun *run, const void *keys, uint32 nrows)
{
	hjg_keys_append(run, &run->build, keys, nrows);
}

uint32
hjg_run_build_room(const HjgRun *run)
{
	const HjgKeySegment *last;

	if (run->share == NULL || run->build.nsegments == 0)
		return PG_UINT32_MAX;
	last = &run->build.segments[run->build.nsegments - 1];
	return last->nrows < last->capacity ? last->capacity - last->nrows : PG_UINT32_MAX;
}

void
hjg_run_build_done(HjgRun *run, HjgMatchMode mode)
{
	run->mode = mode;
	run->build_complete = true;
	if (run->share == NULL)
		run->build_limit = run->build.nrows;
	if (job_undecided(run) && run->build.nrows >= (uint32) hjg_in_backend_rows)
		start_job(run);
}

void
hjg_run_consider_job(HjgRun *run, uint64 probe_rows)
{
	if (job_undecided(run) && probe_rows >= (uint64) hjg_in_backend_rows)
		start_job(run);
}

/* ---------- properties ---------- */

bool
hjg_run_on_gpu(const HjgRun *run)
{
	return run->job != NULL && hjg_job_device(run->job).kind == HJG_KIND_CUDA;
}

/*
 * Allow one batch until the first round is complete: a second one would only wait while the table is built, in memory that
 * building needs, and the number of its matches cannot be estimated yet.
 */
int
hjg_run_max_batches(const HjgRun *run)
{
	if (!run->answered)
		return 1;
	if (run->share == NULL && hjg_run_on_gpu(run))
		return HJG_GPU_BATCHES_IN_FLIGHT;
	return Max(1, Min(HJG_BATCHES_IN_FLIGHT, HJG_MAX_BATCHES / run->nmembers));
}

size_t
hjg_run_bytes(HjgRun *run)
{
	/* a small build side is asked several times at the same size, and an empty one has hardly any table */
	if (run->build.nrows != run->workspace_rows)
	{
		run->workspace_rows = run->build.nrows;
		/* as one thread makes the table: more threads need a part of a partition each */
		run->workspace_bytes = hjg_join_workspace_bytes(run->key_width, 1, run->build.nrows, 0);
	}
	return (size_t) run->build.nrows * run->key_width + run->workspace_bytes;
}

/* ---------- end ---------- */

static void
report_job(HjgRun *run)
{
	HjgReport  *report = run->execution->report;
	HjgJobStats stats;

	hjg_job_stats(run->job, &stats);
	/* the leader reports the rest of a shared job's statistics once */
	if (run->share != NULL)
		stats = (HjgJobStats) {.wait_ns = stats.wait_ns, .arena_bytes = stats.arena_bytes};
	report->device_passes++;
	hjg_report_add_job(report, &stats);
}

/* Report what the run's engine did, once. */
void
hjg_run_report(HjgRun *run)
{
	HjgReport  *report = run->execution->report;

	if (run->reported)
		return;
	run->reported = true;
	report->passes++;
	report->round_bytes = Max(report->round_bytes, run->round.used);
	if (run->job != NULL)
		report_job(run);
	if (run->engine != NULL)
	{
		HjgJobStats stats;

		/* the backend measures the times itself */
		hjg_join_stats(run->engine, &stats);
		stats = (HjgJobStats) {
			.strategy = stats.strategy, .npartitions = stats.npartitions, .workspace_bytes = stats.workspace_bytes
		};
		hjg_stats_add(&report->job, &stats);
	}
}

void
hjg_run_end_job(HjgRun *run)
{
	if (!run->reported)
		report_job(run);
	hjg_job_release(run->job);
	run->job = NULL;
	run->payload = (HjgPayloadBytes) {{0}};
}

void
hjg_run_free(HjgRun *run)
{
	hjg_run_report(run);
	if (run->job != NULL)
		hjg_job_release(run->job);
}
