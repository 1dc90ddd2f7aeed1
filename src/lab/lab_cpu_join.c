/*
 * lab_cpu_join.c
 *	  The cpu engine as a contestant of a GPU's joins, and the warm memory of its benchmarks.
 *
 * Timed, by the host's clock, are the building of the table and all probe rounds, from keys in host memory
 * to pairs in host memory.  The papers' CPU joins (PRO and NPO of Balkesen et al.) are not here: "cpu" is our
 * partitioned engine, "cpu_nop" the same without partitions.
 */
#include <stdlib.h>

#include "lab/hjg_engine_bench_input.h"
#include "layout/hjg_checksum.h"

#define CPU_PAGES 128
#define CPU_PAGE_PAIRS (HJG_SLAB_BYTES / sizeof(HjgPair))

/* ---- warm memory ---- */

void *
hjg_lab_warm_alloc(void *arg, size_t bytes)
{
	HjgLabWarm *warm = arg;
	int			best = -1;

	for (int i = 0; i < HJG_LAB_WARM_BLOCKS; i++)
		if (warm->blocks[i].ptr != NULL && !warm->blocks[i].used && warm->blocks[i].bytes >= bytes &&
			warm->blocks[i].bytes / 2 <= bytes && (best < 0 || warm->blocks[i].bytes < warm->blocks[best].bytes))
			best = i;
	for (int i = 0; i < HJG_LAB_WARM_BLOCKS && best < 0; i++)
	{
		if (warm->blocks[i].used || (i < HJG_LAB_WARM_BLOCKS - 1 && warm->blocks[i].ptr != NULL))
			continue;
		free(warm->blocks[i].ptr);
		/* small blocks need no separate pages */
		warm->blocks[i].ptr = bytes < HJG_SLAB_BYTES / 4 ? aligned_alloc(64, hjg_align64(bytes)) :
			hjg_cpu_bench_map(bytes, warm->huge_pages);
		warm->blocks[i].bytes = bytes;
		if (warm->blocks[i].ptr == NULL)
			return NULL;
		best = i;
	}
	if (best < 0)
		return NULL;
	warm->blocks[best].used = true;
	return warm->blocks[best].ptr;
}

void
hjg_lab_warm_free(void *arg, void *ptr, size_t bytes)
{
	HjgLabWarm *warm = arg;

	(void) bytes;
	for (int i = 0; i < HJG_LAB_WARM_BLOCKS; i++)
		if (warm->blocks[i].ptr == ptr)
			warm->blocks[i].used = false;
}

void
hjg_lab_warm_drop(HjgLabWarm *warm)
{
	for (int i = 0; i < HJG_LAB_WARM_BLOCKS; i++)
	{
		free(warm->blocks[i].ptr);
		warm->blocks[i].ptr = NULL;
		warm->blocks[i].used = false;
	}
}

/* ---- joins ---- */

struct HjgLabCpu
{
	HjgPool    *pool;
	HjgLabWarm	warm;
	HjgEnv		env;
	HjgPair    *memory;
	HjgPair    *pages[CPU_PAGES];
	HjgResult	result;
	/* of the round that is checked */
	hjg_u64		first_row;
	hjg_u64		sum;			/* atomic */
};

HjgLabCpu *
hjg_lab_cpu_open(int nthreads)
{
	HjgLabCpu  *cpu = calloc(1, sizeof(HjgLabCpu));

	if (cpu == NULL)
		return NULL;
	cpu->warm.huge_pages = true;
	cpu->memory = hjg_cpu_bench_map((size_t) CPU_PAGES * HJG_SLAB_BYTES, true);
	cpu->pool = hjg_pool_create(nthreads);
	cpu->env = (HjgEnv) {.pool = cpu->pool, .arg = &cpu->warm, .alloc = hjg_lab_warm_alloc, .free = hjg_lab_warm_free};
	if (cpu->memory == NULL || cpu->pool == NULL)
	{
		hjg_lab_cpu_close(cpu);
		return NULL;
	}
	for (int i = 0; i < CPU_PAGES; i++)
		cpu->pages[i] = cpu->memory + (size_t) i * CPU_PAGE_PAIRS;
	cpu->result = (HjgResult) {.pages = cpu->pages, .npages = CPU_PAGES, .page_pairs = CPU_PAGE_PAIRS};
	return cpu;
}

void
hjg_lab_cpu_close(HjgLabCpu *cpu)
{
	if (cpu == NULL)
		return;
	hjg_pool_destroy(cpu->pool);
	hjg_lab_warm_drop(&cpu->warm);
	free(cpu->memory);
	free(cpu);
}

static void
sum_cpu_page(void *arg, int piece, int worker)
{
	HjgLabCpu  *cpu = arg;
	const hjg_u64 begin = (hjg_u64) piece * CPU_PAGE_PAIRS;
	const hjg_u64 left = cpu->result.npairs - begin;
	hjg_u64		sum = 0;

	(void) worker;
	for (hjg_u64 i = 0; i < left && i < CPU_PAGE_PAIRS; i++)
		sum += hjg_checksum_pair((hjg_u32) cpu->first_row + cpu->pages[piece][i].probe_row, cpu->pages[piece][i].build_row);
	__atomic_fetch_add(&cpu->sum, sum, __ATOMIC_RELAXED);
}

/* Probe one batch, in as many rounds as its pairs need. */
static HjgStatus
probe_cpu_batch(HjgLabCpu *cpu, HjgLabCpuJoin *join, HjgJoin *table, hjg_u64 row)
{
	const hjg_u64 left = join->probe_rows - row;
	const HjgSegment probe = {
		.keys = (const char *) join->probe_keys + row * (hjg_u64) join->key_width,
		.nrows = (hjg_u32) (left < HJG_MAX_PROBE_ROWS ? left : HJG_MAX_PROBE_ROWS)
	};
	HjgCursor	cursor = {0, 0, 0};
	HjgStatus	status = HJG_OK;

	while (status == HJG_OK && cursor.row < probe.nrows)
	{
		const hjg_u64 started = hjg_now_ns();

		status = hjg_join_probe(table, &probe, 1, &cursor, &cpu->result);
		join->ms += (double) (hjg_now_ns() - started) / 1e6;
		if (status != HJG_OK)
			break;
		join->npairs += cpu->result.npairs;
		cpu->first_row = row;
		if (join->check)
			hjg_pool_run(cpu->pool, (int) ((cpu->result.npairs + CPU_PAGE_PAIRS - 1) / CPU_PAGE_PAIRS), sum_cpu_page, cpu);
	}
	return status;
}

HjgStatus
hjg_lab_cpu_join(HjgLabCpu *cpu, HjgLabCpuJoin *join)
{
	const HjgJoinSpec spec = {.key_width = join->key_width, .mode = HJG_MATCH_ALL, .strategy = join->strategy};
	const HjgSegment build = {.keys = join->build_keys, .nrows = (hjg_u32) join->build_rows};
	hjg_u64		started = hjg_now_ns();
	HjgJoin    *table = NULL;
	HjgStatus	status = hjg_join_build(&cpu->env, &spec, &build, 1, &table);

	join->ms = (double) (hjg_now_ns() - started) / 1e6;
	join->npairs = cpu->sum = 0;
	for (hjg_u64 row = 0; row < join->probe_rows && status == HJG_OK; row += HJG_MAX_PROBE_ROWS)
		status = probe_cpu_batch(cpu, join, table, row);
	started = hjg_now_ns();
	hjg_join_free(table);
	join->ms += (double) (hjg_now_ns() - started) / 1e6;
	join->checksum = cpu->sum;
	return status;
}
