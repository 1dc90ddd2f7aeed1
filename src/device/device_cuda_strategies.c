/*
 * device_cuda_strategies.c
 *	  The resident joins by name, and which of them to try.
 *
 * Measured (lab_cuda_bench.c): a table that stays in the L2 cache, with the
 * keys that its tags stand for, beats partitioning when the probe side is eight times the build side or
 * more (2M x 64M rows of 4 bytes, H100: 56 against 49 Gtuples/s, and 84 with packed slots); out of
 * the cache it falls far behind (17, keys of 8 bytes).  Else one pass of partitions does, up to the build rows that fit the
 * tables of its partitions; then two passes.
 */
#include <string.h>

#include "device/hjg_cuda.h"

#define TABLE_PROBE_FACTOR 8

static const HjgCudaStrategy *const strategies[] = {
	[HJG_CUDA_DIRECT - HJG_CUDA_FIRST] = &hjg_cuda_direct,
	[HJG_CUDA_PACKED - HJG_CUDA_FIRST] = &hjg_cuda_packed,
	[HJG_CUDA_TABLE - HJG_CUDA_FIRST] = &hjg_cuda_table,
	[HJG_CUDA_RADIX1 - HJG_CUDA_FIRST] = &hjg_cuda_radix1,
	[HJG_CUDA_RADIX2 - HJG_CUDA_FIRST] = &hjg_cuda_radix2,
};

#define NSTRATEGIES ((int) (sizeof(strategies) / sizeof(strategies[0])))

_Static_assert(NSTRATEGIES == HJG_CUDA_CSR - HJG_CUDA_FIRST && HJG_CUDA_CSR == HJG_CUDA_LAST, "all but the csr table");

const HjgCudaStrategy *const *hjg_cuda_further_strategies;

const HjgCudaStrategy *
hjg_cuda_strategy_at(int ix)
{
	if (ix < NSTRATEGIES)
		return ix >= 0 ? strategies[ix] : NULL;
	if (hjg_cuda_further_strategies == NULL)
		return NULL;
	for (int i = 0; i < ix - NSTRATEGIES; i++)
		if (hjg_cuda_further_strategies[i] == NULL)
			return NULL;
	return hjg_cuda_further_strategies[ix - NSTRATEGIES];
}

const HjgCudaStrategy *
hjg_cuda_strategy_named(const char *name)
{
	const HjgCudaStrategy *strategy;

	for (int i = 0; (strategy = hjg_cuda_strategy_at(i)) != NULL; i++)
		if (strcmp(strategy->name, name) == 0)
			return strategy;
	return NULL;
}

void
hjg_cuda_strategy_choose(const HjgCudaDevice *device, const HjgCudaShape *shape,
						 const HjgCudaStrategy *choices[HJG_CUDA_CHOICES])
{
	const HjgCudaStrategy *table = hjg_cuda_packed.suits(device, shape) ? &hjg_cuda_packed : &hjg_cuda_table;
	int			n = 0;

	if (shape->probe_rows / TABLE_PROBE_FACTOR >= shape->build_rows && table->suits(device, shape) &&
		table->probed(device, shape) <= device->l2_bytes / 3 * 2)
	{
		if (hjg_cuda_direct.suits(device, shape))
			choices[n++] = &hjg_cuda_direct;
		choices[n++] = table;
	}
	if (hjg_cuda_radix1.suits(device, shape))
		choices[n++] = &hjg_cuda_radix1;
	else if (hjg_cuda_radix2.suits(device, shape))
		choices[n++] = &hjg_cuda_radix2;
	choices[n] = NULL;
}
