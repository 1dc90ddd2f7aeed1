/*
 * hjg_strategy.h
 *	  Strategies of all engines, and pipelines of the coupled engine: one row each.
 *
 * Made from these rows: the values of hjoin_gpu.strategy and hjoin_gpu.pipeline (base_guc.c), names in
 * EXPLAIN, the CUDA driver's table of implementations (device_cuda_strategies.c: hjg_cuda_<name>), and the strategies that the
 * planner can expect.  The model (model_cuda.c) has a switch with a case for each, which the compiler checks.
 */
#ifndef HJG_STRATEGY_H
#define HJG_STRATEGY_H

#include <stddef.h>

#include "layout/hjg_layout.h"

/* Joins that a strategy is limited to. */
#define HJG_NEEDS_UNIQUE 1u		/* no build key twice, in modes ALL and LEFT */
#define HJG_NEEDS_DENSE 2u		/* build keys of a small range */
#define HJG_NEEDS_4 4u			/* keys of 4 bytes */

/*
 * STRATEGY(engine, number, id, name, needs)
 * The constant is HJG_<engine>_<id>, which job specifications and statistics use; numbers of an engine are consecutive.
 *
 * The cpu engine has a table of buckets, built by partitions where that is faster, or, where AUTO finds keys to be dense, an array
 * by key; probe rows go through as they come (engine_probe.c).
 */
#define HJG_CPU_STRATEGIES(STRATEGY) \
	STRATEGY(CPU, 0, AUTO, auto, 0)	/* of any engine: the one that is expected to be the fastest */ \
	STRATEGY(CPU, 1, NOP, nop, 0)	/* a table of buckets */

/* Strategies that SQL cannot ask for. */
#define HJG_CPU_FURTHER_STRATEGIES(STRATEGY) \
	STRATEGY(CPU, 2, DIRECT, direct, HJG_NEEDS_DENSE)	/* an array by key */

#define HJG_COUPLED_STRATEGIES(STRATEGY) \
	STRATEGY(COUPLED, 32, SHJ_OL, shj_ol, 0)	/* no partitioning; each step on one processor */ \
	STRATEGY(COUPLED, 33, SHJ_DD, shj_dd, 0)	/* one ratio a phase */ \
	STRATEGY(COUPLED, 34, SHJ_PL, shj_pl, 0)	/* one ratio a step, pipelined */ \
	STRATEGY(COUPLED, 35, SHJ_BASIC_UNIT, shj_basic_unit, 0)	/* each processor takes chunks as it gets free */ \
	STRATEGY(COUPLED, 36, PHJ_OL, phj_ol, 0)	/* the same after radix partitioning */ \
	STRATEGY(COUPLED, 37, PHJ_DD, phj_dd, 0) \
	STRATEGY(COUPLED, 38, PHJ_PL, phj_pl, 0) \
	STRATEGY(COUPLED, 39, PHJ_BASIC_UNIT, phj_basic_unit, 0)

/* Resident joins of the driver "cuda", each a HjgCudaStrategy. */
#define HJG_CUDA_RESIDENT_STRATEGIES(STRATEGY) \
	STRATEGY(CUDA, 64, DIRECT, direct, HJG_NEEDS_UNIQUE | HJG_NEEDS_DENSE)	/* array by key */ \
	STRATEGY(CUDA, 65, PACKED, packed, HJG_NEEDS_UNIQUE | HJG_NEEDS_4)	/* open addressing, 36 bits a slot */ \
	STRATEGY(CUDA, 66, TABLE, table, HJG_NEEDS_UNIQUE)	/* open addressing */ \
	STRATEGY(CUDA, 67, RADIX1, radix1, 0)	/* one pass of partitions, joined in shared memory */ \
	STRATEGY(CUDA, 68, RADIX2, radix2, 0)	/* two */

/* All joins of that driver; the last one takes joins that no resident one does. */
#define HJG_CUDA_STRATEGIES(STRATEGY) \
	HJG_CUDA_RESIDENT_STRATEGIES(STRATEGY) \
	STRATEGY(CUDA, 69, CSR, csr, 0)	/* sorted by bucket: duplicates in any number, bounded output */

/* Those that SQL can ask for, in the order that it shows them. */
#define HJG_ASKED_STRATEGIES(STRATEGY) \
	HJG_CPU_STRATEGIES(STRATEGY) \
	HJG_COUPLED_STRATEGIES(STRATEGY) \
	HJG_CUDA_STRATEGIES(STRATEGY)

#define HJG_STRATEGIES(STRATEGY) \
	HJG_ASKED_STRATEGIES(STRATEGY) \
	HJG_CPU_FURTHER_STRATEGIES(STRATEGY)

#define STRATEGY(engine, number, id, name, needs) HJG_##engine##_##id = number,
typedef enum HjgCpuStrategy
{
	HJG_CPU_STRATEGIES(STRATEGY)
	HJG_CPU_FURTHER_STRATEGIES(STRATEGY)
} HjgCpuStrategy;

typedef enum HjgCoupledStrategy
{
	HJG_COUPLED_STRATEGIES(STRATEGY)
} HjgCoupledStrategy;

typedef enum HjgCudaStrategyId
{
	HJG_CUDA_STRATEGIES(STRATEGY)
} HjgCudaStrategyId;
#undef STRATEGY

/* HJG_<engine>_<id>_NEEDS */
enum
{
#define STRATEGY(engine, number, id, name, needs) HJG_##engine##_##id##_NEEDS = needs,
	HJG_STRATEGIES(STRATEGY)
#undef STRATEGY
};

#define HJG_COUPLED_FIRST HJG_COUPLED_SHJ_OL
#define HJG_COUPLED_LAST HJG_COUPLED_PHJ_BASIC_UNIT
#define HJG_CUDA_FIRST HJG_CUDA_DIRECT
#define HJG_CUDA_LAST HJG_CUDA_CSR
#define HJG_CUDA_NRESIDENT (HJG_CUDA_LAST - HJG_CUDA_FIRST)

#define STRATEGY(engine, number, id, name, needs) + 1
_Static_assert(HJG_COUPLED_LAST - HJG_COUPLED_FIRST + 1 == 0 HJG_COUPLED_STRATEGIES(STRATEGY) &&
			   HJG_CUDA_LAST - HJG_CUDA_FIRST + 1 == 0 HJG_CUDA_STRATEGIES(STRATEGY), "numbers follow on one another");
#undef STRATEGY

/* Name of a strategy, such as "phj_pl" or "table"; "auto" for HJG_CPU_AUTO, NULL for what is no strategy. */
static inline const char *
hjg_strategy_name(int strategy)
{
	switch (strategy)
	{
#define STRATEGY(engine, number, id, name, needs) case number: return #name;
		HJG_STRATEGIES(STRATEGY)
#undef STRATEGY
		default:
			return NULL;
	}
}

/* HJG_NEEDS_...; 0 for what is no strategy. */
static inline hjg_u32
hjg_strategy_needs(int strategy)
{
	switch (strategy)
	{
#define STRATEGY(engine, number, id, name, needs) case number: return needs;
		HJG_STRATEGIES(STRATEGY)
#undef STRATEGY
		default:
			return 0;
	}
}

static inline int
hjg_is_coupled_strategy(int strategy)
{
	return strategy >= HJG_COUPLED_FIRST && strategy <= HJG_COUPLED_LAST;
}

static inline int
hjg_is_cuda_strategy(int strategy)
{
	return strategy >= HJG_CUDA_FIRST && strategy <= HJG_CUDA_LAST;
}

/*
 * PIPELINE(id, name): the stages of a pipeline of the coupled engine.  All execute (E); a unit may prefetch (P), and some may
 * decompress (D): some CPU threads (c), all of them (b), or all of them and some work groups of the device (g).
 */
#define HJG_PIPELINES(PIPELINE) \
	PIPELINE(AUTO, auto) \
	PIPELINE(E, e) \
	PIPELINE(PE, pe) \
	PIPELINE(CPDE_C, cpde_c) \
	PIPELINE(CPDE_B, cpde_b) \
	PIPELINE(CPDE_G, cpde_g)

typedef enum HjgPipeline
{
#define PIPELINE(id, name) HJG_PIPELINE_##id,
	HJG_PIPELINES(PIPELINE)
#undef PIPELINE
	HJG_PIPELINE_COUNT
} HjgPipeline;

/* "auto", "cpde_c"; NULL for what is no pipeline. */
static inline const char *
hjg_pipeline_name(int pipeline)
{
	static const char *const names[HJG_PIPELINE_COUNT] = {
#define PIPELINE(id, name) #name,
		HJG_PIPELINES(PIPELINE)
#undef PIPELINE
	};

	return pipeline >= 0 && pipeline < HJG_PIPELINE_COUNT ? names[pipeline] : NULL;
}

#endif							/* HJG_STRATEGY_H */
