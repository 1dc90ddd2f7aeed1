/*
 * hjg_cuda_host_bench.h
 *	  Declarations that the files of the benchmark of joins of sides in host memory share.
 */
#ifndef HJG_CUDA_HOST_BENCH_H
#define HJG_CUDA_HOST_BENCH_H

#include "lab/hjg_cuda_host.h"

typedef enum HjgHostSystem
{
	HJG_HOST_STREAM,
	HJG_HOST_COPRO,
	HJG_HOST_SPILL,
	HJG_HOST_CHOSEN,			/* the faster of the two above */
	HJG_HOST_CPU				/* the cpu engine */
} HjgHostSystem;

typedef struct HjgHostCase
{
	const char *name;
	int			width;
	double		nbuild;			/* rows, millions (2^20), with unique keys */
	double		nprobe;			/* rows with one match each */
	HjgHostSystem system;
	double		build_theta;	/* exponent of a zipf distribution; 0: the build side has each key as often */
	double		probe_theta;
	int			duplicates;		/* build rows a key; 0: one */
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
	hjg_u64		chunk_rows;		/* 0: chosen by the build side */
	int			copro_bits;		/* of the partitioning */
	int			spill_bits;
	hjg_u32		block_rows;
	double		set_part;		/* share of the build side that is on the device at a time */
	double		copy_gbs;		/* of copies by the stagers into pinned memory */
	HjgCudaRates rates;
	int			nreps;
	const HjgCudaStrategy *strategy;
	bool		wrong;
} HjgHostBench;

/* The settings that no option changes. */
#define HJG_HOST_BENCH_INIT \
	{.factor = 1, .nreps = 5, .copro_bits = 4, .spill_bits = 6, .block_rows = 1u << 18, .set_part = 0.51}

/* Inputs and output of a case, and a task over pieces of its rows or pairs. */
typedef struct HjgHostData
{
	const HjgHostCase *c;
	HjgHostSystem system;		/* the case's, or the chosen one */
	HjgCudaHostJoin join;
	void	   *build_keys;
	void	   *probe_keys;
	HjgCudaHostResult result;
	hjg_u64		npairs;			/* expected */
	hjg_u32    *counts;			/* build rows of each key, if they are not as many; or NULL */
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

/* Measure bench->rates, and print them. */
extern HjgStatus hjg_host_measure_rates(HjgHostBench *bench);
/* Count the bytes that crossed the bus in the last join. */
extern size_t hjg_host_bytes_in(const HjgHostData *data);
extern size_t hjg_host_bytes_out(const HjgHostData *data);
/*
 * Replay the last join's copies, with four buffers in device memory, which the caller frees even after an
 * error.
 */
extern HjgStatus hjg_host_replay_open(HjgHostBench *bench, const HjgHostData *data, HjgCudaPtr *buffers);
extern HjgStatus hjg_host_replay(HjgHostBench *bench, HjgHostData *data, const HjgCudaPtr *buffers);

/* ---- lab_host_run.c ---- */

/* Take the device, start the threads, and measure the machine's rates. */
extern HjgStatus hjg_host_bench_open(HjgHostBench *bench, HjgCudaDevice *device);
extern void hjg_host_bench_close(HjgHostBench *bench);
/* Count the device memory of the planned system. */
extern size_t hjg_host_device_bytes(const HjgHostBench *bench, const HjgHostData *data);
/* Join by the planned system, which is not CPU. */
extern HjgStatus hjg_host_join(HjgHostBench *bench, HjgHostData *data);

/* ---- lab_host_paper.c ---- */

/* Run the comparisons of a paper with sides in host memory; returns an exit status as the benchmarks. */
extern int	hjg_lab_host_paper(FILE *out, HjgCudaDevice *device, const char *paper, const char *figure, double factor, int nreps);

/* ---- lab_host_data.c ---- */

#define HJG_HOST_POISON 0xAB

/* Allocate registered memory that all threads have touched; NULL without memory. */
extern void *hjg_host_pinned(HjgHostBench *bench, size_t bytes);
extern void hjg_host_unpin(void *ptr, size_t bytes);
extern void hjg_host_fill(HjgPool *pool, void *ptr, size_t bytes, int value);
/* Begin a case: the sizes of its sides. */
extern void hjg_host_data_begin(const HjgHostBench *bench, const HjgHostCase *c, HjgHostData *data);
/* Plan a system, its chunks and its blocks; returns its memory for partitioned rows.  Once more when the data is made. */
extern size_t hjg_host_data_plan(const HjgHostBench *bench, HjgHostSystem system, HjgHostData *data);
/* Make the sides, memory for partitioned rows, and room for the result.  After an error _free() frees the parts. */
extern HjgStatus hjg_host_data_make(HjgHostBench *bench, size_t memory_bytes, bool with_pairs, HjgHostData *data);
extern void hjg_host_data_free(HjgHostData *data);
/* Check that all pairs are there, and no others. */
extern bool hjg_host_data_check(HjgHostBench *bench, HjgHostData *data);

#endif							/* HJG_CUDA_HOST_BENCH_H */
