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

const HjgCudaStrategy *const hjg_cuda_strategies[] = {
	&hjg_cuda_direct,
	&hjg_cuda_packed,
	&hjg_cuda_table,
	&hjg_cuda_radix1,
	&hjg_cuda_radix2,
	&hjg_cuda_csr,
	&hjg_cuda_nop_chain,
	&hjg_cuda_nop_open,
	&hjg_cuda_smj,
	&hjg_cuda_pth,
	&hjg_cuda_wsh,
	&hjg_cuda_bsh,
	&hjg_cuda_bsh_vt1,
	&hjg_cuda_bsh_hash,
	&hjg_cuda_bsh_hash_count,
	&hjg_cuda_bsh_hash_block,
	&hjg_cuda_bsh_hash_warp,
	&hjg_cuda_bsh_hash_est,
	&hjg_cuda_bsh_hash_worst,
	&hjg_cuda_bsh_queue,
	&hjg_cuda_prbc,
	&hjg_cuda_prbc_256,
	&hjg_cuda_prbc_2048,
	&hjg_cuda_prbc_nested,
	&hjg_cuda_umj,
	&hjg_cuda_umj_pf,
	NULL
};

const HjgCudaStrategy *
hjg_cuda_strategy_named(const char *name)
{
	for (int i = 0; hjg_cuda_strategies[i] != NULL; i++)
		if (strcmp(hjg_cuda_strategies[i]->name, name) == 0)
			return hjg_cuda_strategies[i];
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
