/*
 * exec_run.c
 *	  The keys of one load and the engine that joins them: a job of the device
 *	  process, or the engine that is linked into the backend.
 *
 * A run starts with its keys in local memory.  Once the build side is complete
 * and rows enough have been seen it leases a job, moves its build keys into the
 * arena and fills slabs from then on.  When the device process fails, is missing or runs out of arena, the
 * backend's own engine takes over: the job is kept for its inputs, build
 * segments and filled batches are read where they lie, and each batch goes on
 * from its last complete round.
 *
 * The run of a shared load (exec_parallel.c) begins with a handle of the shared job, if
 * there is one, and writes its build keys where all participants can read them.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "executor/hjg_run.h"

/*
 * Most result slabs that a batch asks for when a probe row has many matches.  On a GPU a round should be worth the
 * copies; elsewhere it takes hundreds of times less than the rows of two slabs, and memory is what counts, that of
 * several participants above all.
 */
#define MAX_RESULT_PAIRS (2 * MAX_SHARED_RESULT_PAIRS)
#define MAX_SHARED_RESULT_PAIRS (HJG_SLAB_BYTES / sizeof(HjgPair))
#define MAX_GPU_RESULT_PAIRS (8 * (HJG_SLAB_BYTES / sizeof(HjgPair)))

/* ---------- jobs ---------- */

/* For the device process, whose device may have strategies of its own. */
static HjgCpuStrategy
job_strategy(void)
{
	StaticAssertStmt(HJG_STRATEGY_CSR - HJG_STRATEGY_DIRECT == HJG_CUDA_LAST - HJG_CUDA_FIRST, "the same strategies");

	if (hjg_strategy >= HJG_STRATEGY_DIRECT)
		return (HjgCpuStrategy) (HJG_CUDA_FIRST + (hjg_strategy - HJG_STRATEGY_DIRECT));
	if (hjg_strategy >= HJG_STRATEGY_SHJ_OL)
		return (HjgCpuStrategy) (HJG_COUPLED_FIRST + (hjg_strategy - HJG_STRATEGY_SHJ_OL));
	return hjg_run_engine_strategy();
}

/* Copy the build keys that are in local memory into slabs of the new job. */
static void
move_build_keys(HjgRun *run)
{
	HjgKeyBuffer local = run->build;

	memset(&run->build, 0, sizeof(run->build));
	for (int i = 0; i < local.nsegments; i++)
		hjg_keys_append(run, &run->build, local.segments[i].keys, local.segments[i].nrows);
	hjg_keys_empty(&local);
	if (local.segments != NULL)
		pfree(local.segments);
}

static void
submit_build(HjgRun *run)
{
	hjg_carry_fill(run, HJG_SIDE_BUILD, &run->build, run->build_rows);
	for (int i = 0; i < run->build.nsegments; i++)
	{
		HjgKeySegment *segment = &run->build.segments[i];

		hjg_job_build_add(run->job, segment->slab_ix, segment->nrows, segment->first_row, segment->carried);
	}
	hjg_job_build_submit(run->job);
}

HjgJob *
hjg_run_lease_job(int key_width, HjgMatchMode mode, const HjgJobHints *hints, HjgJobSpec *spec, HjgReason *reason)
{
	memset(spec, 0, sizeof(*spec));
	spec->gpu = hints->gpu;
	spec->join.probe_rows = (uint64) Max(hints->probe_rows, 0);
	spec->join.key_width = key_width;
	spec->join.mode = mode;
	spec->join.strategy = job_strategy();
	/* the settings' order is the engine's */
	spec->join.pipeline = (HjgPipeline) hjg_pipeline;
	spec->join.carried = hints->carried;
	spec->nthreads = hjg_cpu_threads;
	spec->max_probe_rows = HJG_MAX_PROBE_ROWS;
	return hjg_job_lease(spec, reason);
}

/*
 * Hand the run to the device process, if it is there.  Called when enough rows
 * have been seen, and the match mode may not be known yet.
 */
static void
start_job(HjgRun *run)
{
	HjgJobHints hints = run->hints;
	HjgJobSpec	spec;
	HjgReason	reason;

	run->reason = HJG_REASON_NONE;
	hints.carried = hjg_carry_choose(&hints, run->build.nrows, 1);
	run->job = hjg_run_lease_job(run->key_width, run->mode, &hints, &spec, &reason);
	if (run->job == NULL)
	{
		hjg_run_fall_back(run, reason);
		return;
	}
	run->carried = spec.join.carried;
	strlcpy(run->report->device, hjg_job_device(run->job), sizeof(run->report->device));
	move_build_keys(run);
	if (run->build_complete && hjg_run_job_usable(run))
		submit_build(run);
}

/* Is it still open whether this run gets a job?  Not where the plan is to do without, and was not far wrong. */
static inline bool
job_undecided(const HjgRun *run)
{
	return run->job == NULL && run->share == NULL && run->reason == HJG_REASON_SMALL && hjg_embedded_rows >= 0 &&
		!(hjg_embedded_rows > 0 && run->hints.embedded && run->build.nrows <= run->hints.most_embedded_rows);
}

/* ---------- shared loads ---------- */

void
hjg_run_attach(HjgRun *run, HjgJobName name, const HjgJobSpec *spec)
{
	HjgReason	reason;

	run->job = hjg_job_attach(name, spec, &reason);
	if (run->job == NULL)
	{
		hjg_run_fall_back(run, reason);
		return;
	}
	run->reason = HJG_REASON_NONE;
	run->carried = spec->join.carried;
	strlcpy(run->report->device, hjg_job_device(run->job), sizeof(run->report->device));
}

void
hjg_run_no_job(HjgRun *run, HjgReason reason)
{
	run->reason = reason;
	if (run->job != NULL)
		run->job_lost = true;
	if (reason != HJG_REASON_SMALL)
		run->report->fallback = reason;
}

void
hjg_run_add_build(HjgRun *run)
{
	for (int i = 0; i < run->build.nsegments && run->job != NULL; i++)
	{
		HjgKeySegment *segment = &run->build.segments[i];

		if (segment->slab_ix != HJG_NO_SLAB)
			hjg_job_build_add(run->job, segment->slab_ix, segment->nrows, segment->first_row, segment->carried);
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
	run->build.carried = segment->carried && (run->build.nsegments == 0 || run->build.carried);
	run->build.nsegments++;
	run->build.nrows += segment->nrows;
	run->build.bytes += (size_t) segment->nrows * run->key_width;
	run->build_limit = Max(run->build_limit, segment->first_row + segment->nrows);
	if (run->job != NULL)
		hjg_job_build_facts(run->job, run->build_limit, run->build.carried);
}

/* ---------- building ---------- */

HjgRun *
hjg_run_create(MemoryContext parent, int key_width, HjgReport *report, bool timing)
{
	MemoryContext context = AllocSetContextCreate(parent, "GpuHashJoin run", ALLOCSET_DEFAULT_SIZES);
	HjgRun	   *run = MemoryContextAllocZero(context, sizeof(HjgRun));

	run->context = context;
	run->engine_context = AllocSetContextCreate(context, "GpuHashJoin engine", ALLOCSET_DEFAULT_SIZES);
	run->key_width = key_width;
	run->report = report;
	run->timing = timing;
	run->reason = HJG_REASON_SMALL;
	run->nmembers = 1;
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
	if (job_undecided(run) && run->build.nrows >= (uint32) hjg_embedded_rows)
		start_job(run);
}

void
hjg_run_consider_job(HjgRun *run, uint64 probe_rows)
{
	if (job_undecided(run) && probe_rows >= (uint64) hjg_embedded_rows)
		start_job(run);
}

/* ---------- probing ---------- */

HjgProbeBatch *
hjg_run_batch_create(HjgRun *run)
{
	HjgProbeBatch *batch = MemoryContextAllocZero(run->context, sizeof(HjgProbeBatch));

	batch->job_batch = -1;
	return batch;
}

void *
hjg_run_batch_key(HjgRun *run, HjgProbeBatch *batch)
{
	return hjg_keys_next(run, &batch->keys);
}

void
hjg_run_batch_keys(HjgRun *run, HjgProbeBatch *batch, const void *keys, uint32 nrows)
{
	hjg_keys_append(run, &batch->keys, keys, nrows);
}

void
hjg_run_batch_borrow(HjgRun *run, HjgProbeBatch *batch, const void *keys, uint32 nrows)
{
	HjgKeyBuffer *buffer = &batch->keys;

	if (nrows == 0)
		return;
	hjg_keys_next_segment(run, buffer);
	buffer->segments[0].keys = unconstify(void *, keys);
	buffer->segments[0].slab_ix = HJG_NOT_OURS;
	buffer->segments[0].nrows = buffer->segments[0].capacity = nrows;
	buffer->segments[0].first_row = 0;
	buffer->nsegments = 1;
	buffer->nrows = nrows;
}

bool
hjg_run_on_gpu(const HjgRun *run)
{
	return run->job != NULL && strncmp(hjg_job_device(run->job), "cuda:", strlen("cuda:")) == 0;
}

/*
 * The first batch is alone: as long as the table is built a second one would only wait, in memory that building
 * needs, and of the matches that it will have nothing is known.
 */
int
hjg_run_max_batches(const HjgRun *run)
{
	if (!run->answered)
		return 1;
	if (run->share == NULL && hjg_run_on_gpu(run))
		return HJG_GPU_BATCHES_IN_FLIGHT;
	return Max(1, Min(HJG_BATCHES_IN_FLIGHT, HJG_JOB_BATCHES / run->nmembers));
}

/* All segments of the batch are slabs of the job. */
static bool
batch_in_arena(const HjgProbeBatch *batch)
{
	for (int i = 0; i < batch->keys.nsegments; i++)
		if (batch->keys.segments[i].slab_ix >= HJG_NOT_OURS)
			return false;
	return true;
}

void
hjg_run_batch_submit(HjgRun *run, HjgProbeBatch *batch)
{
	HjgReason	reason;
	uint64		pairs = batch->keys.nrows;
	uint64		most;

	if (batch->keys.nrows == 0)
		batch->finished = true;
	if (batch->finished || !hjg_run_job_usable(run) || !batch_in_arena(batch))
		return;
	most = hjg_run_on_gpu(run) ? MAX_GPU_RESULT_PAIRS : run->share != NULL ? MAX_SHARED_RESULT_PAIRS : MAX_RESULT_PAIRS;
	if (batch->slice.most > 1)
		pairs = Min(pairs * batch->slice.most, most);
	else if (batch->slice.most == 0 && run->expansion > 1)
		pairs = Max(pairs, Min((uint64) (pairs * run->expansion * 1.1), most));
	batch->job_batch = hjg_job_batch_open(run->job, pairs, &reason);
	if (batch->job_batch < 0)
	{
		hjg_run_fall_back(run, reason == HJG_REASON_NONE ? HJG_REASON_ARENA_FULL : reason);
		return;
	}
	/* of some of its rows columns are not sent again; of rows in vectors, never */
	if (batch->keys.nrows == batch->nrows && !batch->viewed)
		hjg_carry_fill(run, HJG_SIDE_PROBE, &batch->keys, batch->rows);
	for (int i = 0; i < batch->keys.nsegments; i++)
		hjg_job_batch_add(run->job, batch->job_batch, batch->keys.segments[i].slab_ix,
						  batch->keys.segments[i].nrows, batch->keys.segments[i].carried);
	hjg_job_batch_seek(run->job, batch->job_batch, batch->cursor);
	hjg_job_batch_submit(run->job, batch->job_batch);
	batch->submitted = true;
}

/* A round in the device process; false when the job was lost meanwhile. */
static bool
device_round(HjgRun *run, HjgProbeBatch *batch)
{
	HjgBatchResult result;
	HjgReason	reason;

	if (!batch->submitted)
	{
		hjg_job_batch_submit(run->job, batch->job_batch);
		batch->submitted = true;
	}
	reason = hjg_job_batch_wait(run->job, batch->job_batch, &result);
	if (reason != HJG_REASON_NONE)
	{
		hjg_run_fall_back(run, reason);
		return false;
	}
	batch->submitted = false;
	hjg_run_note_takeover(run);
	batch->pages = result.pages;
	batch->page_pairs = result.page_pairs;
	batch->npairs = result.npairs;
	batch->gathered = result.gathered;
	run->report->gathered |= result.gathered;
	batch->cursor = result.cursor;
	batch->finished = result.finished;
	return true;
}

/* All pairs are here: nobody will ask for the keys again, unless it is in slices. */
static void
drop_keys(HjgRun *run, HjgProbeBatch *batch)
{
	if (!batch->finished || batch->slice.most > 0 || batch->job_batch < 0 || !hjg_run_job_usable(run))
		return;
	hjg_job_batch_drop_inputs(run->job, batch->job_batch);
	batch->keys.nsegments = 0;	/* how many there were is asked still */
}

void
hjg_run_batch_round(HjgRun *run, HjgProbeBatch *batch)
{
	HjgReport  *report = run->report;

	batch->npairs = 0;
	if (batch->finished)
		return;
	if (batch->job_batch < 0 || !hjg_run_job_usable(run) || !device_round(run, batch))
	{
		if (batch->submitted)
		{
			batch->submitted = false;
			report->redone++;
			hjg_service_count(HJG_COUNT_REDONE_BATCHES, 1);
		}
		hjg_run_engine_round(run, batch);
	}
	run->answered = true;
	report->rounds++;
	report->pairs += batch->npairs;
	batch->pairs += batch->npairs;
	if (batch->keys.nrows > 0 && batch->slice.most == 0)
		run->expansion = Max(run->expansion, (double) batch->npairs / batch->keys.nrows);
	drop_keys(run, batch);
}

void
hjg_run_batch_narrow(HjgRun *run, HjgProbeBatch *batch, const uint32 *positions, uint32 n)
{
	HjgKeyBuffer old = batch->keys;
	int			s = 0;

	memset(&batch->keys, 0, sizeof(batch->keys));
	for (uint32 i = 0; i < n; i++)
	{
		while (positions[i] - old.segments[s].first_row >= old.segments[s].nrows)
			s++;
		memcpy(hjg_keys_next(run, &batch->keys),
			   old.segments[s].keys + (size_t) (positions[i] - old.segments[s].first_row) * run->key_width,
			   run->key_width);
	}
	if (batch->job_batch >= 0 && hjg_run_job_usable(run))
		hjg_job_batch_close(run->job, batch->job_batch);
	batch->job_batch = -1;
	hjg_keys_empty(&old);
	pfree(old.segments);

	batch->cursor = batch->slice;
	batch->finished = false;
	batch->npairs = 0;
	batch->pairs = 0;
	hjg_run_batch_submit(run, batch);
}

void
hjg_run_batch_reset(HjgRun *run, HjgProbeBatch *batch)
{
	if (batch->job_batch >= 0 && hjg_run_job_usable(run))
	{
		HjgBatchResult result;
		HjgReason	reason;

		/* the device process may still be writing to it */
		if (batch->submitted)
		{
			reason = hjg_job_batch_wait(run->job, batch->job_batch, &result);
			if (reason != HJG_REASON_NONE)
				hjg_run_fall_back(run, reason);
		}
		if (hjg_run_job_usable(run))
			hjg_job_batch_close(run->job, batch->job_batch);
	}
	batch->job_batch = -1;
	batch->submitted = false;
	hjg_keys_empty(&batch->keys);
	memset(&batch->cursor, 0, sizeof(batch->cursor));
	batch->finished = false;
	batch->npairs = 0;
	batch->pairs = 0;
}

/* ---------- end ---------- */

size_t
hjg_run_bytes(const HjgRun *run)
{
	HjgJoinSpec spec = {.key_width = run->key_width, .mode = run->mode, .strategy = hjg_run_engine_strategy()};

	return (size_t) run->build.nrows * run->key_width +
		hjg_join_workspace_bytes(&spec, run->build.nrows, 0);
}

/* Once for each run: what its engine did, for EXPLAIN. */
void
hjg_run_report(HjgRun *run)
{
	HjgReport  *report = run->report;

	if (run->reported)
		return;
	run->reported = true;
	report->loads++;
	if (run->job != NULL)
	{
		HjgJobTimes times;

		hjg_job_times(run->job, &times);
		report->device_loads++;
		report->job.wait_ns += times.wait_ns;
		report->job.arena_bytes = Max(report->job.arena_bytes, times.arena_bytes);
		/* of a shared job, the leader tells the rest once */
		if (run->share == NULL)
			hjg_report_add_job(report, &times);
	}
	if (run->engine != NULL)
	{
		HjgJoinStats stats;

		hjg_join_stats(run->engine, &stats);
		report->strategy = stats.strategy;
		report->engine_partitions = Max(report->engine_partitions, stats.npartitions);
		report->job.workspace_bytes = Max(report->job.workspace_bytes, stats.workspace_bytes);
	}
}

void
hjg_run_free(HjgRun *run)
{
	hjg_run_report(run);
	if (run->job != NULL)
		hjg_job_release(run->job);
	MemoryContextDelete(run->context);
}
