/*
 * hjg_strategy.h
 *	  Strategies of all engines, and pipelines of the coupled engine: one row each.
 *
 * These rows define the values of hjoin_gpu.strategy and hjoin_gpu.pipeline (base_guc.c), names in
 * EXPLAIN, the CUDA driver's table of implementations (device_cuda_strategies.c: hjg_cuda_<name>), and the
 * strategies that the planner can expect.  The model (model_cuda.c) has a switch with a case for each,
 * which the compiler checks.
 */
#ifndef HJG_STRATEGY_H
#define HJG_STRATEGY_H

#include <stddef.h>

#include "layout/hjg_layout.h"

/* Requirements of a strategy. */
#define HJG_NEEDS_UNIQUE 1u		/* unique build keys, in modes ALL and LEFT */
#define HJG_NEEDS_DENSE 2u		/* build keys of a small range */
#define HJG_NEEDS_4 4u			/* keys of 4 bytes */

/*
 * STRATEGY(engine, number, id, name, needs)
 *
 * The constant is HJG_<engine>_<id>, used by job specifications and statistics; the numbers of an engine
 * are consecutive.
 *
 * The cpu engine has a table of buckets, built by partitions if that is faster, or, if AUTO finds the keys
 * to be dense, an array indexed by key; probe rows are not partitioned (engine_probe.c).
 */
#define HJG_CPU_STRATEGIES(STRATEGY) \
	STRATEGY(CPU, 0, AUTO, auto, 0)	/* the fastest expected strategy of any engine */ \
	STRATEGY(CPU, 1, NOP, nop, 0)	/* a table of buckets */

/* Strategies without a value in SQL. */
#define HJG_CPU_FURTHER_STRATEGIES(STRATEGY) \
	STRATEGY(CPU, 2, DIRECT, direct, HJG_NEEDS_DENSE)	/* array indexed by key */

#define HJG_COUPLED_STRATEGIES(STRATEGY) \
	STRATEGY(COUPLED, 32, SHJ_OL, shj_ol, 0)	/* no partitioning; each step on one processor */ \
	STRATEGY(COUPLED, 33, SHJ_DD, shj_dd, 0)	/* one ratio a phase */ \
	STRATEGY(COUPLED, 34, SHJ_PL, shj_pl, 0)	/* one ratio a step, pipelined */ \
	STRATEGY(COUPLED, 35, SHJ_BASIC_UNIT, shj_basic_unit, 0)	/* a free processor takes the next piece */ \
	STRATEGY(COUPLED, 36, PHJ_OL, phj_ol, 0)	/* these four after radix partitioning */ \
	STRATEGY(COUPLED, 37, PHJ_DD, phj_dd, 0) \
	STRATEGY(COUPLED, 38, PHJ_PL, phj_pl, 0) \
	STRATEGY(COUPLED, 39, PHJ_BASIC_UNIT, phj_basic_unit, 0)

/* Resident joins of the driver "cuda", each a HjgCudaStrategy. */
#define HJG_CUDA_RESIDENT_STRATEGIES(STRATEGY) \
	STRATEGY(CUDA, 64, DIRECT, direct, HJG_NEEDS_UNIQUE | HJG_NEEDS_DENSE)	/* array indexed by key */ \
	STRATEGY(CUDA, 65, PACKED, packed, HJG_NEEDS_UNIQUE | HJG_NEEDS_4)	/* open addressing, 36 bits a slot */ \
	STRATEGY(CUDA, 66, TABLE, table, HJG_NEEDS_UNIQUE)	/* open addressing */ \
	STRATEGY(CUDA, 67, RADIX1, radix1, 0)	/* one pass of partitions, joined in shared memory */ \
	STRATEGY(CUDA, 68, RADIX2, radix2, 0)	/* two passes of partitions */

/* All joins of the driver "cuda"; the last one serves joins that no resident one can. */
#define HJG_CUDA_STRATEGIES(STRATEGY) \
	HJG_CUDA_RESIDENT_STRATEGIES(STRATEGY) \
	STRATEGY(CUDA, 69, CSR, csr, 0)	/* sorted by bucket: duplicates in any number, bounded output */

/* Strategies with a value in SQL, in its order. */
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

/*
 * Return the name of a strategy, such as "phj_pl" or "table", or "auto" for HJG_CPU_AUTO; NULL for an
 * unknown number.
 */
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

/* Return HJG_NEEDS_...; 0 for an unknown number. */
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
 * PIPELINE(id, name): the stages of a pipeline of the coupled engine.  All execute (E); a unit may
 * prefetch (P); some units may decompress (D): some CPU threads (c), all of them (b), or all of them and
 * some work groups of the device (g).
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

/* Return the name of a pipeline, such as "auto" or "cpde_c"; NULL for an unknown number. */
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
