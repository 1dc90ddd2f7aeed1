/*
 * hjg_cuda_host_bench.h
 *	  Benchmark of joins of sides in host memory: what its files share.
 */
#ifndef HJG_CUDA_HOST_BENCH_H
#define HJG_CUDA_HOST_BENCH_H

#include "lab/hjg_cuda_host.h"

typedef enum HjgHostSystem
{
	HJG_HOST_STREAM,
	HJG_HOST_COPRO,
	HJG_HOST_SPILL,
	HJG_HOST_CHOSEN				/* of the two before */
} HjgHostSystem;

typedef struct HjgHostCase
{
	const char *name;
	int			width;
	double		nbuild;			/* rows, millions (2^20); each has a key of its own */
	double		nprobe;			/* each has one match */
	HjgHostSystem system;
} HjgHostCase;

typedef struct HjgHostBench
{
	FILE	   *out;
	HjgPool    *pool;			/* makes inputs and checks results */
	HjgPool    *stagers;		/* partition */
	int			nstagers;
	HjgCudaGrant grant;
	HjgCudaStreams *streams;
	double		factor;
	hjg_u64		chunk_rows;		/* 0: by the build side */
	int			copro_bits;		/* of the partitioning */
	int			spill_bits;
	hjg_u32		block_rows;
	double		set_part;		/* of the build side, that is on the device at a time */
	double		copy_gbs;		/* of the stagers into pinned memory */
	HjgCudaRates rates;
	int			nreps;
	const HjgCudaStrategy *strategy;
	bool		wrong;
} HjgHostBench;

/* Inputs and output of a case, and a task over pieces of its rows or pairs. */
typedef struct HjgHostData
{
	const HjgHostCase *c;
	HjgHostSystem system;		/* the case's, or what was chosen */
	HjgCudaHostJoin join;
	void	   *build_keys;
	void	   *probe_keys;
	HjgCudaHostResult result;
	void	   *memory;			/* for partitioned rows, without STREAM; filled */
	size_t		memory_bytes;
	HjgCudaCopro copro;			/* with COPRO */
	HjgStageMemory blocks;
	HjgCudaSpill spill;			/* with SPILL */
	hjg_u64		expected;		/* sum over the pairs */
	hjg_u64		checksum;		/* atomic */
	hjg_u64		nwrong;			/* atomic */
} HjgHostData;

/* ---- lab_host_bus.c ---- */

/* Measure bench->rates, and say so. */
extern HjgStatus hjg_host_measure_rates(HjgHostBench *bench);
/* Count what crossed the bus in the last join. */
extern size_t hjg_host_bytes_in(const HjgHostData *data);
extern size_t hjg_host_bytes_out(const HjgHostData *data);
/* Copies like the last join's, with four buffers in device memory, which are the caller's also after an error. */
extern HjgStatus hjg_host_replay_open(HjgHostBench *bench, const HjgHostData *data, HjgCudaPtr *buffers);
extern HjgStatus hjg_host_replay(HjgHostBench *bench, HjgHostData *data, const HjgCudaPtr *buffers);

/* ---- lab_host_data.c ---- */

#define HJG_HOST_POISON 0xAB

/* Registered memory that all threads have touched; NULL when there is none. */
extern void *hjg_host_pinned(HjgHostBench *bench, size_t bytes);
extern void hjg_host_unpin(void *ptr, size_t bytes);
extern void hjg_host_fill(HjgPool *pool, void *ptr, size_t bytes, int value);
/* Sides of a case and room for its result.  After an error what there is goes with _free(). */
extern HjgStatus hjg_host_data_make(HjgHostBench *bench, const HjgHostCase *c, HjgHostData *data);
extern void hjg_host_data_free(HjgHostData *data);
/* Are all pairs there, and only those? */
extern bool hjg_host_data_check(HjgHostBench *bench, HjgHostData *data);

#endif							/* HJG_CUDA_HOST_BENCH_H */
