/*
 * coupled_pack_calibrate.c
 *	  Unit costs of unpacking: generated columns, packed by plans that differ in one scheme.
 */
#include <math.h>
#include <string.h>

#include "coupled/hjg_pack_internal.h"
#include "layout/hjg_clock.h"

/* Enough rows for the clock's resolution, and few enough for the cache. */
#define NROWS 32768u
#define NRUNS 5

typedef struct PackBench
{
	const HjgEnv *env;
	hjg_u64    *keys;			/* small numbers; their decimals for measuring Scale */
	hjg_u64    *unpacked;
	hjg_u8	   *packed;
	void	   *scratch;
	hjg_u64		packed_bytes;
} PackBench;

/* Measure the nanoseconds to unpack a row packed by the plan. */
static HjgStatus
measure_plan(PackBench *bench, HjgPackPlan plan, double *ns)
{
	const HjgPackHeader *header;
	size_t		bytes = 0;
	HjgStatus	status = hjg_pack(bench->env, 8, &plan, bench->keys, NROWS, bench->packed, &bytes);

	bench->packed_bytes = bytes;
	*ns = HUGE_VAL;
	if (status == HJG_OK)
		status = hjg_packed_open(bench->packed, bytes, &header);
	for (int run = 0; run < NRUNS && status == HJG_OK; run++)
	{
		const hjg_u64 started = hjg_now_ns();

		for (hjg_u32 ix = 0; ix < hjg_packed_nblocks(header) && status == HJG_OK; ix++)
			status = hjg_unpack_block(header, ix, bench->unpacked + (size_t) ix * HJG_PACK_BLOCK_ROWS, bench->scratch);
		*ns = fmin(*ns, (double) (hjg_now_ns() - started) / NROWS);
	}
	return status;
}

/* Measure the checksum's nanoseconds a byte. */
static double
measure_check(const PackBench *bench)
{
	volatile hjg_u64 sum;
	double		ns = HUGE_VAL;

	for (int run = 0; run < NRUNS; run++)
	{
		const hjg_u64 started = hjg_now_ns();

		sum = hjg_pack_checksum(bench->keys, NROWS);
		ns = fmin(ns, (double) (hjg_now_ns() - started) / (NROWS * sizeof(hjg_u64)));
	}
	(void) sum;
	return ns;
}

static HjgStatus
measure_all(PackBench *bench, HjgPackCosts *costs)
{
	HjgStatus	status = HJG_OK;
	double		ns = 0;

	for (hjg_u32 i = 0; i < NROWS; i++)
		bench->keys[i] = i * 2654435761u % 1024;
	costs->check_ns = measure_check(bench);
	for (hjg_u8 leaf = HJG_PACK_PLAIN; leaf <= HJG_PACK_NSV && status == HJG_OK; leaf++)
	{
		status = measure_plan(bench, (HjgPackPlan) {.leaf = leaf}, &ns);
		costs->leaf_ns[leaf] = fmax(ns - costs->check_ns * (double) bench->packed_bytes / NROWS, 0.05);
	}
	if (status == HJG_OK)
		status = measure_plan(bench, (HjgPackPlan) {.leaf = HJG_PACK_NS, .delta = 1}, &ns);
	costs->delta_ns = fmax(ns - costs->check_ns * (double) bench->packed_bytes / NROWS - costs->leaf_ns[HJG_PACK_NS], 0);
	if (status == HJG_OK)
		status = measure_plan(bench, (HjgPackPlan) {.leaf = HJG_PACK_NS, .dict = 1}, &ns);
	costs->dict_ns = fmax(ns - costs->check_ns * (double) bench->packed_bytes / NROWS - costs->leaf_ns[HJG_PACK_NS], 0);
	for (hjg_u32 i = 0; i < NROWS; i++)
	{
		const double number = (double) (i * 2654435761u % 1024) / 100;

		memcpy(&bench->keys[i], &number, sizeof(number));
	}
	if (status == HJG_OK)
		status = measure_plan(bench, (HjgPackPlan) {.leaf = HJG_PACK_NS, .scale = 3}, &ns);
	costs->scale_ns = fmax(ns - costs->check_ns * (double) bench->packed_bytes / NROWS - costs->leaf_ns[HJG_PACK_NS], 0);
	/* runs so long that their own costs are negligible */
	for (hjg_u32 i = 0; i < NROWS; i++)
		bench->keys[i] = i / 512;
	if (status == HJG_OK)
		status = measure_plan(bench, (HjgPackPlan) {.leaf = HJG_PACK_NS, .runs = 1}, &ns);
	costs->row_ns = ns;
	return status;
}

HjgStatus
hjg_pack_calibrate(const HjgEnv *env, HjgPackCosts *costs)
{
	const size_t key_bytes = NROWS * sizeof(hjg_u64);
	const size_t bytes = 2 * key_bytes + HJG_UNPACK_SCRATCH_BYTES + hjg_pack_bound(8, NROWS);
	hjg_u8	   *memory = env->alloc(env->arg, bytes);
	PackBench		bench = {.env = env, .keys = (hjg_u64 *) memory};
	HjgStatus	status;

	*costs = (HjgPackCosts) {.check_ns = 0};
	if (memory == NULL)
		return HJG_ERR_MEMORY;
	bench.unpacked = (hjg_u64 *) (memory + key_bytes);
	bench.scratch = memory + 2 * key_bytes;
	bench.packed = memory + 2 * key_bytes + HJG_UNPACK_SCRATCH_BYTES;
	status = measure_all(&bench, costs);
	env->free(env->arg, memory, bytes);
	return status;
}
