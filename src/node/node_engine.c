/*
 * node_engine.c
 *	  The backend's own engine, over the keys of a run.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "node/hjg_build.h"
#include "node/hjg_run_private.h"

/*
 * Least space for the pairs of a round; and of the first round of a small join, which should not allocate memory that
 * malloc() must get from the system: that takes longer than the join.
 */
#define MIN_ENGINE_PAIRS 8192
#define MIN_FEW_PAIRS 1024

#define ENGINE_ALIGNMENT 64

/* ---------- environment of the engine ---------- */

static void *
engine_alloc(void *arg, size_t bytes)
{
	HjgRun	   *run = arg;
	char	   *raw = MemoryContextAllocHuge(run->context, bytes + ENGINE_ALIGNMENT + sizeof(void *));
	char	   *aligned = (char *) TYPEALIGN(ENGINE_ALIGNMENT, raw + sizeof(void *));

	memcpy(aligned - sizeof(void *), &raw, sizeof(void *));
	return aligned;
}

static void
engine_free(void *arg, void *ptr, size_t bytes)
{
	void	   *raw;

	memcpy(&raw, (char *) ptr - sizeof(void *), sizeof(void *));
	pfree(raw);
}

static bool
engine_poll(void *arg)
{
	CHECK_FOR_INTERRUPTS();
	return false;
}

void
hjg_run_engine_env(HjgRun *run)
{
	run->env.arg = run;
	run->env.alloc = engine_alloc;
	run->env.free = engine_free;
	run->env.poll = engine_poll;
}

/* ---------- building and probing ---------- */

/* Get hjoin_gpu.strategy if the cpu engine has it; else AUTO. */
static HjgCpuStrategy
engine_strategy(void)
{
	return hjg_strategy <= HJG_CPU_NOP ? (HjgCpuStrategy) hjg_strategy : HJG_CPU_AUTO;
}

static void
engine_failed(HjgStatus status)
{
	ereport(ERROR,
			(errcode(status == HJG_ERR_MEMORY ? ERRCODE_OUT_OF_MEMORY : ERRCODE_INTERNAL_ERROR),
			 errmsg("hash join failed: %s", hjg_status_text(status))));
}

static HjgJoinSpec
engine_spec(const HjgRun *run)
{
	return (HjgJoinSpec) {.key_width = run->key_width, .mode = run->mode, .strategy = engine_strategy()};
}

/* nsegments of keys; alloc_table as in HjgEnv. */
void
hjg_run_engine_build(HjgRun *run, const HjgSegment *segments, int nsegments,
					 void *(*alloc_table) (void *arg, HjgTablePart part, size_t bytes))
{
	HjgJoinSpec spec = engine_spec(run);
	HjgStatus	status;
	uint64		start = run->execution->timing ? hjg_now_ns() : 0;

	run->env.alloc_table = alloc_table;
	status = hjg_join_build(&run->env, &spec, segments, nsegments, &run->engine);
	run->env.alloc_table = NULL;
	if (status != HJG_OK)
		engine_failed(status);
	if (run->execution->timing)
		run->execution->report->times.backend_build_ns += hjg_now_ns() - start;
}

void
hjg_run_engine_attach(HjgRun *run, uint64 nrows, const void *const parts[HJG_TABLE_NPARTS])
{
	HjgJoinSpec spec = engine_spec(run);
	HjgStatus	status = hjg_join_attach(&run->env, &spec, nrows, parts, &run->engine);

	if (status != HJG_OK)
		engine_failed(status);
}

void
hjg_run_engine_round(HjgRun *run, HjgProbeBatch *batch)
{
	HjgSegment *segments;
	HjgResult	result = {.npages = 1};
	HjgStatus	status;
	uint64		start;
	const bool	few = run->execution->terms->hints.probe_rows <= MIN_FEW_PAIRS / 2 && batch->pairs == 0 && batch->slice.most <= 1;
	const uint32 want = Max(batch->keys.nrows, few ? MIN_FEW_PAIRS : MIN_ENGINE_PAIRS);
	HjgPair    *pairs;

	if (run->engine == NULL && run->share != NULL)
		run->share->make_table(run);
	else if (run->engine == NULL)
	{
		segments = hjg_keys_segments(&run->build);
		hjg_run_engine_build(run, segments, run->build.nsegments, NULL);
		pfree(segments);
	}
	start = run->execution->timing ? hjg_now_ns() : 0;

	pairs = hjg_service_round_space(&run->round, (Size) want * sizeof(HjgPair), 0);
	result.pages = &pairs;
	result.page_pairs = (uint32) Min(run->round.bytes / sizeof(HjgPair), PG_UINT32_MAX);
	segments = hjg_keys_segments(&batch->keys);
	status = hjg_join_probe(run->engine, segments, batch->keys.nsegments, &batch->cursor, &result);
	pfree(segments);
	if (status != HJG_OK)
		engine_failed(status);
	batch->result = pairs;
	batch->npairs = result.npairs;
	batch->gathered = 0;
	batch->finished = batch->cursor.row >= batch->keys.nrows;

	if (run->execution->timing)
		run->execution->report->times.backend_probe_ns += hjg_now_ns() - start;
}
