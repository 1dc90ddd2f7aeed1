/*
 * lab_cuda_strategies.c
 *	  The csr table as a resident join, and the joins of the literature, by number and name; and the
 *	  choice of the resident join to try.
 *
 * Measured (lab_cuda_bench.c): a table that stays in the L2 cache, with the keys of its tags, beats
 * partitioning when the probe side is at least eight times the build side (2M x 64M rows of 4 bytes, H100:
 * 56 against 49 Gtuples/s, and 84 with packed slots); out of the cache it falls far behind (17, keys of 8
 * bytes).  Otherwise one pass of partitions is best, up to the build rows that fit the tables of its
 * partitions; then two passes.
 */
#include <string.h>

#include "lab/hjg_cuda_paper.h"

#define TABLE_PROBE_FACTOR 8

static const HjgCudaStrategy *const strategies[] = {
	&hjg_cuda_csr,
#define LAB_STRATEGY(id, name) [HJG_LAB_##id - HJG_CUDA_LAST] = &hjg_cuda_##name,
	HJG_LAB_STRATEGIES(LAB_STRATEGY)
#undef LAB_STRATEGY
	[HJG_LAB_END - HJG_CUDA_LAST] = NULL
};

void
hjg_lab_strategies_open(void)
{
	hjg_cuda_further_strategies = strategies;
}

const HjgCudaStrategy *
hjg_lab_strategy_named(const char *name)
{
	const HjgCudaStrategy *strategy;

	for (int i = 0; (strategy = hjg_cuda_strategy_at(i)) != NULL; i++)
		if (strcmp(strategy->name, name) == 0)
			return strategy;
	return NULL;
}

void
hjg_lab_strategy_choose(const HjgCudaDevice *device, const HjgCudaShape *shape,
						const HjgCudaStrategy *choices[HJG_LAB_CHOICES])
{
	const bool	packs = hjg_cuda_packed.suits(device, shape);
	const HjgCudaStrategy *table = packs ? &hjg_cuda_packed : &hjg_cuda_table;
	const size_t probed_bytes = packs ? hjg_lab_packed_probed(shape->build_rows) :
		hjg_lab_table_probed(shape->key_width, shape->build_rows);
	int			n = 0;

	if (shape->probe_rows / TABLE_PROBE_FACTOR >= shape->build_rows && table->suits(device, shape) &&
		probed_bytes <= device->l2_bytes / 3 * 2)
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
