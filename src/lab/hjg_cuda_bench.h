/*
 * hjg_cuda_bench.h
 *	  Benchmark of the resident joins: the measured cases.  Internal to the room "lab".
 */
#ifndef HJG_CUDA_BENCH_H
#define HJG_CUDA_BENCH_H

#include <stdio.h>

#include "device/hjg_cuda.h"
#include "lab/hjg_cuda_paper.h"
#include "layout/hjg_cuda_args.h"

/* A pair of inputs. */
typedef struct HjgBenchCase
{
	const char *name;
	int			width;
	bool		wide_rows;
	double		nbuild;			/* rows, millions (2^20) */
	double		nprobe;
	int			duplicates;		/* build rows a key */
	HjgKDraw	draw;			/* of the probe side */
	double		theta;
	unsigned	match_permille;
	bool		dense;
	bool		sum_only;		/* too many pairs to be written */
	bool		from_host;		/* sides begin in host memory */
} HjgBenchCase;

/* A comparison in a paper. */
#define HJG_BENCH_STRATEGIES 12
#define HJG_BENCH_CASES 8

typedef struct HjgBenchTable
{
	const char *paper;			/* of --paper */
	const char *title;
	HjgCudaKind kind;
	const char *strategies[HJG_BENCH_STRATEGIES + 1];	/* "best": the one chosen first */
	const char *cases[HJG_BENCH_CASES + 1];
	hjg_u32		sides;			/* sides whose columns of 4 to 128 bytes are also fetched by row number:
								 * HJG_SIDE_BIT() */
} HjgBenchTable;

/* ---- lab_cuda_bench_cases.c ---- */

extern const HjgBenchCase hjg_bench_cases[];	/* end with a name of NULL */
extern const HjgBenchTable hjg_bench_tables[];	/* end with a paper of NULL */
extern const HjgBenchCase *hjg_bench_case_named(const char *name);

/*
 * List the strategies that text stands for: names, and names of sets, separated by commas; ends with NULL.
 * False for any other word.
 */
#define HJG_BENCH_MOST 64
extern bool hjg_bench_names_of(const char *text, const char *names[HJG_BENCH_MOST]);
extern bool hjg_bench_has_paper(const char *paper);

/* ---- lab_cuda_bench_moved.c ---- */

typedef struct HjgBenchMoved
{
	HjgLabMoving moving;
	int			key_width;
	HjgCudaSide build;			/* the joined sides, with rows of 4 bytes */
	HjgCudaSide probe;
	HjgCudaPtr	block;			/* of both */
	size_t		bytes;
	void	   *host;			/* with copies: the same bytes, pinned */
} HjgBenchMoved;

/* Open moved, to be closed even after an error. */
extern HjgStatus hjg_bench_moved_open(HjgCudaStream *stream, HjgLabMoving moving, int key_width, hjg_u64 nbuild, hjg_u64 nprobe,
									  HjgBenchMoved *moved);
extern void hjg_bench_moved_close(HjgCudaStream *stream, HjgBenchMoved *moved);
/* Move the sides from device memory to where the join expects them: host memory; waits. */
extern HjgStatus hjg_bench_moved_reset(HjgCudaStream *stream, const HjgBenchMoved *moved, const HjgCudaSide *build,
									   const HjgCudaSide *probe);
/* Queue the move of a side to the device, if it needs one. */
extern HjgStatus hjg_bench_moved_bring(HjgCudaStream *stream, const HjgBenchMoved *moved, const HjgCudaSide *side);

/* ---- lab_cuda_bench_payload.c ---- */

/* Columns fetched by the pairs of a join; none if sides is 0. */
typedef struct HjgBenchColumns
{
	hjg_u32		sides;
	hjg_u32		bytes;			/* of a row, of each side */
	hjg_u64		nrows[HJG_SIDES];
	HjgCudaPtr	from[HJG_SIDES];
	HjgCudaPtr	to[HJG_SIDES];	/* beside npairs pairs */
} HjgBenchColumns;

/* Allocate the columns, to be freed even after an error. */
extern HjgStatus hjg_bench_columns_make(HjgCudaStream *stream, HjgBenchColumns *columns, hjg_u64 nbuild, hjg_u64 nprobe,
										hjg_u64 npairs);
extern void hjg_bench_columns_free(HjgCudaStream *stream, HjgBenchColumns *columns);
/* Queue the measured gathering. */
extern HjgStatus hjg_bench_columns_gather(HjgCudaStream *stream, const HjgBenchColumns *columns, HjgCudaPtr pairs, hjg_u64 npairs);
/* Gather and compare; facts: room for a hjg_u64. *good becomes false if anything is wrong. */
extern HjgStatus hjg_bench_columns_check(HjgCudaStream *stream, const HjgBenchColumns *columns, HjgCudaPtr pairs, hjg_u64 npairs,
										 HjgCudaPtr facts, bool *good);
extern hjg_u64 hjg_bench_columns_moved(const HjgBenchColumns *columns, hjg_u64 npairs);

/* ---- lab_cuda_bench_run.c ---- */

/* Sets of inputs, so that no join finds its own in the caches. */
#define HJG_BENCH_SETS 2
#define HJG_BENCH_MAX_REPS 101

/* One set of inputs, and the expected result of its join. */
typedef struct HjgBenchInputs
{
	HjgCudaSide build;
	HjgCudaSide probe;
	hjg_u64		npairs;
	hjg_u64		checksum;
} HjgBenchInputs;

/* The state of the benchmark. */
typedef struct HjgBench
{
	FILE	   *out;
	HjgCudaStream stream;
	HjgCudaGrant grant;
	HjgCudaEvent from;
	HjgCudaEvent to;
	HjgCudaPtr	counters;		/* of a join, then of a check: hjg_u64[4] */
	double		factor;			/* of all sizes */
	int			nreps;
	double		copy_gbs;		/* of a copy in device memory: bytes read and written, 10^9 a second */
	bool		wrong;			/* a result was wrong */
} HjgBench;

/* A case joined by one strategy, with one kind of output. */
typedef struct HjgBenchRun
{
	const HjgBenchCase *c;
	const HjgCudaStrategy *strategy;
	HjgCudaKind kind;
	HjgCudaShape shape;
	HjgBenchInputs *sets;		/* HJG_BENCH_SETS */
	const HjgBenchMoved *moved;	/* or NULL: the inputs are joined in place */
	HjgCudaOutput output;
	HjgCudaPtr	block;			/* of the output */
	size_t		block_bytes;
	HjgBenchColumns columns;
} HjgBenchRun;

/* Measure the device's time between these calls; the second one waits. */
extern HjgStatus hjg_bench_start_clock(HjgBench *bench);
extern HjgStatus hjg_bench_stop_clock(HjgBench *bench, float *ms);
/* Compare for qsort(). */
extern int	hjg_bench_compare_ms(const void *a, const void *b);
/* Make the inputs, to be freed even after an error. */
extern HjgStatus hjg_bench_inputs_make(HjgBench *bench, const HjgBenchCase *c, hjg_u64 seed, HjgBenchInputs *inputs);
extern void hjg_bench_inputs_free(HjgBench *bench, HjgBenchInputs *inputs);
/* Measured turns of a run. */
typedef struct HjgBenchTurns
{
	float		ms[HJG_BENCH_MAX_REPS];
	bool		good;
} HjgBenchTurns;

/* Measure one turn, or check the results (turn -1): HJG_ERR_INPUT if the strategy turns out not to suit the rows. */
extern HjgStatus hjg_bench_run_turn(HjgBench *bench, const HjgBenchRun *run, int turn, HjgBenchTurns *turns);
/* Print the line of a run, whose turns are ordered by time then. */
extern void hjg_bench_run_print(HjgBench *bench, const HjgBenchRun *run, HjgBenchTurns *turns);

#endif							/* HJG_CUDA_BENCH_H */
