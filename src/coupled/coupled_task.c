/*
 * coupled_task.c
 *	  Basics of the coupled engine: properties of strategies, a join's memory, work of the CPU's threads.
 */
#include "coupled/hjg_coupled_internal.h"

bool
hjg_coupled_is_partitioned(const HjgCoupled *join)
{
	return join->config.strategy >= HJG_COUPLED_PHJ_OL;
}

bool
hjg_coupled_is_basic_unit(const HjgCoupled *join)
{
	return join->config.strategy == HJG_COUPLED_SHJ_BASIC_UNIT || join->config.strategy == HJG_COUPLED_PHJ_BASIC_UNIT;
}

HjgScheme
hjg_coupled_scheme(const HjgCoupled *join)
{
	switch (join->config.strategy)
	{
		case HJG_COUPLED_SHJ_OL:
		case HJG_COUPLED_PHJ_OL:
			return HJG_SCHEME_OL;
		case HJG_COUPLED_SHJ_DD:
		case HJG_COUPLED_PHJ_DD:
			return HJG_SCHEME_DD;
		default:
			return HJG_SCHEME_PL;
	}
}

/* ---- memory ---- */

HjgStatus
hjg_region_reserve(HjgCoupled *join, HjgRegion *region, size_t bytes)
{
	if (region->bytes >= bytes)
		return HJG_OK;
	if (region->block.ptr != NULL && join->runner != NULL)
		join->runner->forget(join->runner->arg, region->base);
	region->bytes = 0;
	if (!hjg_block_reserve(&join->base, &region->block, bytes + HJG_COUPLED_ALIGN))
		return HJG_ERR_MEMORY;
	region->base = (hjg_u8 *) (((size_t) region->block.ptr + HJG_COUPLED_ALIGN - 1) /
							   HJG_COUPLED_ALIGN * HJG_COUPLED_ALIGN);
	region->bytes = bytes;
	return HJG_OK;
}

size_t
hjg_coupled_buffer_limit(const HjgCoupled *join)
{
	size_t		limit = join->runner != NULL ? join->runner->max_bytes : (size_t) 1 << 40;

	return join->config.buffer_bytes > 0 && join->config.buffer_bytes < limit ? join->config.buffer_bytes : limit;
}

void
hjg_coupled_free_region(HjgCoupled *join, HjgRegion *region)
{
	if (region->block.ptr != NULL && join->runner != NULL)
		join->runner->forget(join->runner->arg, region->base);
	hjg_block_free(&join->base, &region->block);
	*region = (HjgRegion) {.bytes = 0};
}

static void *
counted_alloc(void *arg, size_t bytes)
{
	HjgCoupled *join = arg;
	void	   *memory = join->base.env.alloc(join->base.env.arg, bytes);

	if (memory != NULL)
		join->base.live_bytes += bytes;
	if (join->base.live_bytes > join->base.stats.workspace_bytes)
		join->base.stats.workspace_bytes = join->base.live_bytes;
	return memory;
}

static void
counted_free(void *arg, void *memory, size_t bytes)
{
	HjgCoupled *join = arg;

	join->base.live_bytes -= bytes;
	join->base.env.free(join->base.env.arg, memory, bytes);
}

static bool
counted_poll(void *arg)
{
	const HjgCoupled *join = arg;

	return join->base.env.poll != NULL && join->base.env.poll(join->base.env.arg);
}

HjgEnv
hjg_coupled_env(HjgCoupled *join)
{
	return (HjgEnv) {.arg = join, .alloc = counted_alloc, .free = counted_free, .poll = counted_poll};
}

hjg_u64
hjg_coupled_lay(size_t *bytes, hjg_u64 n, size_t item_bytes)
{
	hjg_u64		off = *bytes;

	*bytes += hjg_align64(n * item_bytes);
	return off;
}

/* ---- work of the CPU's threads ---- */

typedef struct CpuTask
{
	HjgTask		task;
	hjg_u32		begin;
	hjg_u32		end;
	hjg_u32		unit_rows;
	HjgRowsFn	fn;
	void	   *arg;
} CpuTask;

static void
run_unit(HjgTask *task, hjg_u32 unit, int slot)
{
	CpuTask    *cpu = (CpuTask *) task;
	hjg_u32		begin = cpu->begin + unit * cpu->unit_rows;
	hjg_u32		end = cpu->end - begin > cpu->unit_rows ? begin + cpu->unit_rows : cpu->end;

	if (!hjg_task_poll(task))
		cpu->fn(cpu->arg, begin, end, slot);
}

HjgStatus
hjg_coupled_on_cpu(HjgCoupled *join, hjg_u32 begin, hjg_u32 end, hjg_u32 unit_rows, HjgRowsFn fn, void *arg)
{
	CpuTask		cpu = {.task.unit_fn = run_unit, .begin = begin, .end = end, .unit_rows = unit_rows, .fn = fn, .arg = arg};

	if (begin >= end)
		return HJG_OK;
	return hjg_task_run(&cpu.task, &join->base, (end - begin + unit_rows - 1) / unit_rows, join->cpu_threads);
}
