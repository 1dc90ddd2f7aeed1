/*
 * hjg_engine_bench_input.h
 *	  A case of the cpu engine's benchmark, its input, and the check of its result (lab_cpu_input.c).
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

#endif							/* HJG_ENGINE_BENCH_INPUT_H */
