/*
 * engine_task.c
 *	  Basics of the engine: the machine's properties, a join's memory, and tasks.
 */
#include <time.h>
#include <unistd.h>

#include "engine/hjg_engine_internal.h"

HjgTuning	hjg_engine_tuning = {
	.isa_limit = HJG_ISA_AVX512,
	.l2_bytes = 0,
	.slot_rows = 16384,
	.chunk_rows = 32768,
	.unit_rows = 16384,
	.giant_rows = 262144,
	.min_fast_rows = 4096,
};

/* --- the machine --- */

HjgIsa
hjg_engine_isa(void)
{
	HjgIsa		isa = HJG_ISA_BASE;

#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
		__builtin_cpu_supports("popcnt"))
	{
		isa = HJG_ISA_AVX2;
		if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
			__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
			isa = HJG_ISA_AVX512;
	}
#endif
	return isa < hjg_engine_tuning.isa_limit ? isa : hjg_engine_tuning.isa_limit;
}

size_t
hjg_l2_bytes(void)
{
	static long l2_bytes;		/* atomic; every thread finds the same value */
	long		bytes = __atomic_load_n(&l2_bytes, __ATOMIC_RELAXED);

	if (hjg_engine_tuning.l2_bytes > 0)
		return hjg_engine_tuning.l2_bytes;
	if (bytes == 0)
	{
#ifdef _SC_LEVEL2_CACHE_SIZE
		bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
		if (bytes <= 0)
			bytes = 1l << 20;
		if (bytes < 1l << 18)
			bytes = 1l << 18;
		if (bytes > 1l << 22)
			bytes = 1l << 22;
		__atomic_store_n(&l2_bytes, bytes, __ATOMIC_RELAXED);
	}
	return (size_t) bytes;
}

/* --- memory --- */

bool
hjg_block_reserve(HjgJoin *join, HjgBlock *block, size_t bytes)
{
	if (block->bytes >= bytes)
		return true;
	hjg_block_free(join, block);
	block->ptr = join->env.alloc(join->env.arg, bytes);
	if (block->ptr == NULL)
		return false;
	block->bytes = bytes;
	join->live_bytes += bytes;
	if (join->live_bytes > join->stats.workspace_bytes)
		join->stats.workspace_bytes = join->live_bytes;
	return true;
}

void
hjg_block_free(HjgJoin *join, HjgBlock *block)
{
	HjgBlock	old = *block;

	if (old.bytes == 0)
		return;
	*block = (HjgBlock) {NULL, 0};
	join->live_bytes -= old.bytes;
	join->env.free(join->env.arg, old.ptr, old.bytes);
}

/* --- tasks --- */

int
hjg_nslots_of(int nthreads, hjg_u64 nrows)
{
	hjg_u64		n = 1 + nrows / hjg_engine_tuning.slot_rows;

	if (nthreads > HJG_MAX_SLOTS)
		nthreads = HJG_MAX_SLOTS;
	return n < (hjg_u64) nthreads ? (int) n : nthreads;
}

int
hjg_task_nslots(const HjgJoin *join, hjg_u64 nrows)
{
	return hjg_nslots_of(hjg_pool_nthreads(join->env.pool), nrows);
}

static void
run_slot(void *arg, int piece, int worker)
{
	HjgTask    *task = arg;
	hjg_u32		unit;

	(void) worker;
	while (!__atomic_load_n(&task->stopped, __ATOMIC_RELAXED) &&
		   __atomic_load_n(&task->next_unit, __ATOMIC_RELAXED) < task->nunits &&
		   (unit = __atomic_fetch_add(&task->next_unit, 1, __ATOMIC_RELAXED)) < task->nunits)
		task->unit_fn(task, unit, piece);
	if (task->finish_fn && !__atomic_load_n(&task->stopped, __ATOMIC_RELAXED))
		task->finish_fn(task, piece);
}

/*
 * Run a task whose unit_fn (and finish_fn) are set.  A slot is a piece of the pool's run, so when the pool
 * is busy elsewhere the caller's piece does all units and the other pieces find none.
 */
HjgStatus
hjg_task_run(HjgTask *task, HjgJoin *join, hjg_u32 nunits, int nslots)
{
	task->env = &join->env;
	task->nunits = nunits;
	task->next_unit = 0;
	task->cancelled = false;
	task->stopped = false;
	if (hjg_task_poll(task))
		return HJG_ERR_CANCELLED;
	if (nslots > 1 && nunits > 1)
		hjg_pool_run(join->env.pool, nunits < (hjg_u32) nslots ? (int) nunits : nslots, run_slot, task);
	else
		run_slot(task, 0, 0);
	return task->cancelled ? HJG_ERR_CANCELLED : HJG_OK;
}
