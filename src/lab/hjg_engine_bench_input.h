/*
 * hjg_engine_bench_input.h
 *	  A case of the cpu engine's benchmark, its input, and the check of its result (lab_cpu_input.c); the
 *	  cpu engine as a contestant of GPUs (lab_cpu_join.c).
 *	  Internal to the room "lab".
 */
#ifndef HJG_ENGINE_BENCH_INPUT_H
#define HJG_ENGINE_BENCH_INPUT_H

#include "engine/hjg_engine_internal.h"

typedef struct HjgCpuBenchCase
{
	const char *name;
	int			width;			/* of a key, bytes */
	HjgMatchMode mode;
	double		nbuild;			/* rows, millions */
	double		nprobe;
	int			duplicates;		/* build rows a key */
	double		theta;			/* zipf exponent of the probe side; 0: uniform */
	bool		one_hot;		/* all probe rows have one key */
	double		selectivity;	/* fraction of the probe rows that match */
	bool		dense;			/* keys are consecutive numbers */
} HjgCpuBenchCase;

typedef struct HjgCpuBenchInput
{
	const HjgCpuBenchCase *bc;
	hjg_u64		nbuild;
	hjg_u64		nprobe;
	hjg_u64		nids;			/* distinct ids of the build side */
	hjg_u32    *build_ids;
	hjg_u32    *probe_ids;
	hjg_u8	   *build_keys;
	hjg_u8	   *probe_keys;
	hjg_u64    *sums;			/* S, by id */
	hjg_u64		npairs;			/* expected */
	hjg_u64		checksum;		/* expected, of all rounds */
	hjg_u64		seed;
} HjgCpuBenchInput;

/*
 * Allocate zeroed and touched memory in separate pages, large or small ones; NULL without memory.  free()
 * does not accept it.
 */
extern void *hjg_cpu_bench_map(size_t bytes, bool huge_pages);
/* Make the case's input, with its sizes multiplied by factor; false without memory. */
extern bool hjg_cpu_bench_input_make(HjgCpuBenchInput *in, const HjgCpuBenchCase *bc, double factor, HjgPool *pool,
									 bool huge_pages);
extern void hjg_cpu_bench_input_free(HjgCpuBenchInput *in);
/* Compute the share of a round's pairs in the checksum; its batch begins at probe row first_row. */
extern hjg_u64 hjg_cpu_bench_checksum(const HjgResult *result, hjg_u64 first_row, HjgPool *pool);

/* ---- lab_cpu_join.c ---- */

#define HJG_LAB_WARM_BLOCKS 32

/* Memory of a join, which was touched before and is used again, as in a warm server. */
typedef struct HjgLabWarm
{
	bool		huge_pages;
	struct
	{
		void	   *ptr;
		size_t		bytes;
		bool		used;
	}			blocks[HJG_LAB_WARM_BLOCKS];
} HjgLabWarm;

/* HjgEnv.alloc and HjgEnv.free; arg: HjgLabWarm. */
extern void *hjg_lab_warm_alloc(void *arg, size_t bytes);
extern void hjg_lab_warm_free(void *arg, void *ptr, size_t bytes);
extern void hjg_lab_warm_drop(HjgLabWarm *warm);

/* The threads and the memory of joins by the cpu engine that take turns with a GPU's. */
typedef struct HjgLabCpu HjgLabCpu;

typedef struct HjgLabCpuJoin
{
	int			key_width;
	HjgCpuStrategy strategy;
	const void *build_keys;		/* in host memory */
	hjg_u64		build_rows;
	const void *probe_keys;
	hjg_u64		probe_rows;
	bool		check;			/* compute the checksum, which is not timed */
	/* out */
	hjg_u64		npairs;
	hjg_u64		checksum;		/* of hjg_checksum_pair() */
	double		ms;
} HjgLabCpuJoin;

/* Open the contestant with a thread for each CPU at most; NULL without memory. */
extern HjgLabCpu *hjg_lab_cpu_open(int nthreads);
extern void hjg_lab_cpu_close(HjgLabCpu *cpu);
/* Join; pairs go to pages that are used again, 256 MB of them. */
extern HjgStatus hjg_lab_cpu_join(HjgLabCpu *cpu, HjgLabCpuJoin *join);

#endif							/* HJG_ENGINE_BENCH_INPUT_H */
