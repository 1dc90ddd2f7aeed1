/*
 * device_cuda_strategies.c
 *	  The resident joins by number, and the building of their tables.
 */
#include "device/hjg_cuda.h"

static const HjgCudaStrategy *const strategies[HJG_CUDA_NRESIDENT] = {
#define STRATEGY(engine, number, id, name, needs) [HJG_CUDA_##id - HJG_CUDA_FIRST] = &hjg_cuda_##name,
	HJG_CUDA_RESIDENT_STRATEGIES(STRATEGY)
#undef STRATEGY
};

const HjgCudaStrategy *const *hjg_cuda_further_strategies;

const HjgCudaStrategy *
hjg_cuda_strategy_at(int ix)
{
	if (ix < HJG_CUDA_NRESIDENT)
		return ix >= 0 ? strategies[ix] : NULL;
	if (hjg_cuda_further_strategies == NULL)
		return NULL;
	for (int i = 0; i < ix - HJG_CUDA_NRESIDENT; i++)
		if (hjg_cuda_further_strategies[i] == NULL)
			return NULL;
	return hjg_cuda_further_strategies[ix - HJG_CUDA_NRESIDENT];
}

HjgStatus
hjg_cuda_strategy_build(const HjgCudaStrategy *strategy, HjgCudaStream *stream, const HjgCudaShape *shape,
						const HjgCudaSide *build, void **table)
{
	HjgStatus	status = strategy->build(stream, shape, build, table);

	if (status != HJG_OK || strategy->verify == NULL)
		return status;
	status = strategy->verify(stream, *table);
	if (status != HJG_OK)
	{
		strategy->free(stream, *table);
		*table = NULL;
	}
	return status;
}
