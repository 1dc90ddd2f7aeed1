/*
 * engine_strategy.c
 *	  Names of the strategies of all engines and of the coupled engine's pipelines, as in hjoin_gpu.strategy,
 *	  hjoin_gpu.pipeline and EXPLAIN.
 */
#include "engine/hjg_engine.h"

#define NAMED(names, first, last) \
	_Static_assert(sizeof(names) / sizeof((names)[0]) == (last) - (first) + 1, "each has a name")

static const char *const cpu_names[] = {"auto", "nop", "radix", "direct"};
static const char *const coupled_names[] = {
	"shj_ol", "shj_dd", "shj_pl", "shj_basic_unit", "phj_ol", "phj_dd", "phj_pl", "phj_basic_unit"
};
static const char *const cuda_names[] = {"direct", "packed", "table", "radix1", "radix2", "csr"};

NAMED(cpu_names, HJG_CPU_AUTO, HJG_CPU_DIRECT);
NAMED(coupled_names, HJG_COUPLED_FIRST, HJG_COUPLED_LAST);
NAMED(cuda_names, HJG_CUDA_FIRST, HJG_CUDA_LAST);

const char *
hjg_coupled_strategy_name(int strategy)
{
	if (strategy < HJG_COUPLED_FIRST || strategy > HJG_COUPLED_LAST)
		return NULL;
	return coupled_names[strategy - HJG_COUPLED_FIRST];
}

const char *
hjg_cuda_strategy_name(int strategy)
{
	if (strategy < HJG_CUDA_FIRST || strategy > HJG_CUDA_LAST)
		return NULL;
	return cuda_names[strategy - HJG_CUDA_FIRST];
}

const char *
hjg_strategy_name(int strategy)
{
	if (strategy >= HJG_CPU_AUTO && strategy <= HJG_CPU_DIRECT)
		return cpu_names[strategy];
	if (hjg_coupled_strategy_name(strategy) != NULL)
		return hjg_coupled_strategy_name(strategy);
	return hjg_cuda_strategy_name(strategy);
}

const char *
hjg_pipeline_name(int pipeline)
{
	static const char *const names[HJG_PIPELINE_COUNT] = {"auto", "e", "pe", "cpde_c", "cpde_b", "cpde_g"};

	return pipeline >= 0 && pipeline < HJG_PIPELINE_COUNT ? names[pipeline] : NULL;
}
