/*
 * hjg_cuda_bench.h
 *	  Benchmark of the resident joins: what is measured.  Internal to the room "lab".
 */
#ifndef HJG_CUDA_BENCH_H
#define HJG_CUDA_BENCH_H

#include <stdio.h>

#include "device/hjg_cuda.h"
#include "lab/hjg_cuda_paper.h"
#include "layout/hjg_cuda_args.h"

/* One pair of inputs. */
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
	bool		sum_only;		/* more pairs than one would write */
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
	const char *strategies[HJG_BENCH_STRATEGIES + 1];	/* "best": what is chosen first */
	const char *cases[HJG_BENCH_CASES + 1];
	hjg_u32		sides;			/* whose columns of 4 to 128 bytes are fetched by row number, too: HJG_SIDE_BIT() */
} HjgBenchTable;

/* ---- lab_cuda_bench_cases.c ---- */

extern const HjgBenchCase hjg_bench_cases[];	/* end with a name of NULL */
extern const HjgBenchTable hjg_bench_tables[];	/* end with a paper of NULL */
extern const HjgBenchCase *hjg_bench_case_named(const char *name);

/*
 * Names of the strategies that text stands for, names and sets of them separated by commas; ends with NULL.  False where
 * text has any other word.
 */
#define HJG_BENCH_MOST 64
extern bool hjg_bench_names_of(const char *text, const char *names[HJG_BENCH_MOST]);
extern bool hjg_bench_has_paper(const char *paper);

/* ---- lab_cuda_bench_moved.c ---- */

typedef struct HjgBenchMoved
{
	HjgLabMoving moving;
	int			key_width;
	HjgCudaSide build;			/* what is joined, with rows of 4 bytes */
	HjgCudaSide probe;
	HjgCudaPtr	block;			/* of both */
	size_t		bytes;
	void	   *host;			/* with copies: the same, pinned */
} HjgBenchMoved;

/* Closed in any case. */
extern HjgStatus hjg_bench_moved_open(HjgCudaStream *stream, HjgLabMoving moving, int key_width, hjg_u64 nbuild, hjg_u64 nprobe,
									  HjgBenchMoved *moved);
extern void hjg_bench_moved_close(HjgCudaStream *stream, HjgBenchMoved *moved);
/* Move the sides, which are in device memory, as they are to be joined: to host memory; waits. */
extern HjgStatus hjg_bench_moved_reset(HjgCudaStream *stream, const HjgBenchMoved *moved, const HjgCudaSide *build,
									   const HjgCudaSide *probe);
/* Queue what brings one of them to the device, if anything does. */
extern HjgStatus hjg_bench_moved_bring(HjgCudaStream *stream, const HjgBenchMoved *moved, const HjgCudaSide *side);

/* ---- lab_cuda_bench_payload.c ---- */

/* Columns that are fetched by the pairs of a join; none where sides is 0. */
typedef struct HjgBenchColumns
{
	hjg_u32		sides;
	hjg_u32		bytes;			/* of a row, of each side */
	hjg_u64		nrows[HJG_SIDES];
	HjgCudaPtr	from[HJG_SIDES];
	HjgCudaPtr	to[HJG_SIDES];	/* beside npairs pairs */
} HjgBenchColumns;

/* After an error what there is must be freed, too. */
extern HjgStatus hjg_bench_columns_make(HjgCudaStream *stream, HjgBenchColumns *columns, hjg_u64 nbuild, hjg_u64 nprobe,
										hjg_u64 npairs);
extern void hjg_bench_columns_free(HjgCudaStream *stream, HjgBenchColumns *columns);
/* Queue what is measured. */
extern HjgStatus hjg_bench_columns_gather(HjgCudaStream *stream, const HjgBenchColumns *columns, HjgCudaPtr pairs, hjg_u64 npairs);
/* Gather, and compare; facts: room for a hjg_u64.  *good becomes false where anything is wrong. */
extern HjgStatus hjg_bench_columns_check(HjgCudaStream *stream, const HjgBenchColumns *columns, HjgCudaPtr pairs, hjg_u64 npairs,
										 HjgCudaPtr facts, bool *good);
extern hjg_u64 hjg_bench_columns_moved(const HjgBenchColumns *columns, hjg_u64 npairs);

/* ---- lab_cuda_bench_run.c ---- */

/* Sets of inputs that a case is measured on in turn. */
#define HJG_BENCH_SETS 2
#define HJG_BENCH_MAX_REPS 101

/* One set of inputs, and what its join must give. */
typedef struct HjgBenchInputs
{
	HjgCudaSide build;
	HjgCudaSide probe;
	hjg_u64		npairs;
	hjg_u64		checksum;
} HjgBenchInputs;

/* The benchmark as it runs. */
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
	double		copy_gbs;		/* of a copy in device memory: what is read and written, 10^9 bytes a second */
	bool		wrong;			/* a result was */
} HjgBench;

/* A case joined by one strategy, with one kind of output. */
typedef struct HjgBenchRun
{
	const HjgBenchCase *c;
	const HjgCudaStrategy *strategy;
	HjgCudaKind kind;
	HjgCudaShape shape;
	HjgBenchInputs *sets;		/* HJG_BENCH_SETS */
	const HjgBenchMoved *moved;	/* or NULL: the inputs are joined where they are */
	HjgCudaOutput output;
	HjgCudaPtr	block;			/* of the output */
	size_t		block_bytes;
	HjgBenchColumns columns;
} HjgBenchRun;

/* Take the time on the device from here to there; waits. */
extern HjgStatus hjg_bench_start_clock(HjgBench *bench);
extern HjgStatus hjg_bench_stop_clock(HjgBench *bench, float *ms);
/* Compare for qsort(). */
extern int	hjg_bench_compare_ms(const void *a, const void *b);
/* After an error what there is must be freed, too. */
extern HjgStatus hjg_bench_inputs_make(HjgBench *bench, const HjgBenchCase *c, hjg_u64 seed, HjgBenchInputs *inputs);
extern void hjg_bench_inputs_free(HjgBench *bench, HjgBenchInputs *inputs);
/* Check, measure, and print a line; nothing where the strategy turns out not to suit the rows. */
extern HjgStatus hjg_bench_run_time(HjgBench *bench, const HjgBenchRun *run);

#endif							/* HJG_CUDA_BENCH_H */
