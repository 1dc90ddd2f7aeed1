/*
 * hjg_cuda_bench.h
 *	  Benchmark of the resident joins: the measured cases.  Internal to the room "lab".
 */
#ifndef HJG_CUDA_BENCH_H
#define HJG_CUDA_BENCH_H

#include <stdio.h>

#include "device/hjg_cuda.h"
#include "lab/hjg_cuda_paper.h"
#include "lab/hjg_engine_bench_input.h"
#include "layout/hjg_cuda_args.h"

/* The memory where the sides of a case begin and its pairs end. */
typedef enum HjgBenchPlace
{
	HJG_BENCH_IN_DEVICE,
	HJG_BENCH_FROM_HOST,		/* sides begin in host memory */
	HJG_BENCH_AND_BACK			/* and pairs end there */
} HjgBenchPlace;

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
	HjgBenchPlace place;
	HjgKDraw	build_draw;		/* ZIPF, or 0: all ids in turn */
	double		build_theta;
} HjgBenchCase;

/* A comparison in a paper. */
#define HJG_BENCH_STRATEGIES 18
#define HJG_BENCH_CASES 10
#define HJG_BENCH_KIND(kind) (1u << (kind))

typedef struct HjgBenchTable
{
	const char *paper;			/* of --paper */
	const char *figures;		/* of --figure: words, e.g. "7 8" */
	const char *title;
	const char *claim;			/* of the paper, or NULL */
	const char *differs;		/* of our experiment from the paper's, or NULL */
	hjg_u32		kinds;			/* of the output: HJG_BENCH_KIND() */
	const char *strategies[HJG_BENCH_STRATEGIES + 1];	/* HjgBenchEntrant */
	const char *cases[HJG_BENCH_CASES + 1];
	hjg_u32		sides;			/* sides whose columns of 4 to 128 bytes are also fetched by row number:
								 * HJG_SIDE_BIT() */
	bool		phases;			/* with the times of the phases */
	bool		kernels;		/* with the resources of the kernels */
} HjgBenchTable;

/* A paper, and what it was measured on. */
typedef struct HjgBenchPaper
{
	const char *paper;
	const char *reference;
	const char *hardware;
} HjgBenchPaper;

/* ---- lab_cuda_bench_cases.c ---- */

extern const HjgBenchCase hjg_bench_cases[];	/* end with a name of NULL */
extern const HjgBenchCase *hjg_bench_case_named(const char *name);

/* ---- lab_cuda_bench_tables.c ---- */

extern const HjgBenchTable hjg_bench_tables[];	/* end with a paper of NULL */
extern const HjgBenchPaper hjg_bench_papers[];	/* end with a paper of NULL */
extern bool hjg_bench_has_paper(const char *paper);
/* True if the words of figures have the wanted one, or none is wanted (NULL). */
extern bool hjg_bench_has_figure(const char *figures, const char *wanted);

/* ---- lab_cuda_bench_names.c ---- */

/* A name of a contestant: of a strategy, "best", "cpu" or "cpu_nop", with settings behind slashes. */
typedef struct HjgBenchEntrant
{
	const HjgCudaStrategy *strategy;	/* NULL: of "best", or of the CPU */
	bool		best;			/* the strategy that would be chosen first */
	bool		on_cpu;
	HjgCpuStrategy cpu;
	HjgCudaPaperTuning tuning;
} HjgBenchEntrant;

#define HJG_BENCH_SETTINGS \
	"part=ROWS, bits=N, page=PAIRS, bucket=BITS, between=BITS, full, vt=4, one_stream, uva_load, uva, uva_all"

/* Read a name; false if it, or a setting, does not exist. */
extern bool hjg_bench_entrant_of(const char *name, HjgBenchEntrant *entrant);
/*
 * List the contestants that text stands for: names, and names of sets, separated by commas; ends with NULL.
 * False for any other word.
 */
#define HJG_BENCH_MOST 64
extern bool hjg_bench_names_of(const char *text, const char *names[HJG_BENCH_MOST]);

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
	HjgCudaStream in;			/* brings sides from host memory meanwhile */
	HjgCudaGrant grant;
	HjgCudaEvent from;
	HjgCudaEvent to;
	HjgCudaPtr	counters;		/* of a join, then of a check: hjg_u64[4] */
	double		factor;			/* of all sizes */
	int			nreps;
	int			nthreads;		/* of the cpu engine */
	double		copy_gbs;		/* of a copy in device memory: bytes read and written, 10^9 a second */
	bool		wrong;			/* a result was wrong */
	HjgLabCpu  *cpu;			/* NULL until there is a contestant */
	void	   *cpu_keys[HJG_SIDES];	/* of the first set of inputs, while a case has such a contestant */
} HjgBench;

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
	float		phase_ms[HJG_CUDA_PHASES][HJG_BENCH_MAX_REPS];
	bool		good;
} HjgBenchTurns;

/* A case joined by one strategy, with one kind of output. */
typedef struct HjgBenchRun
{
	const HjgBenchCase *c;
	const char *name;			/* of the contestant */
	HjgBenchEntrant entrant;	/* with a strategy, unless on_cpu */
	HjgCudaKind kind;
	HjgCudaShape shape;
	HjgBenchInputs *sets;		/* HJG_BENCH_SETS */
	struct HjgBenchMoved *moved;	/* or NULL: the inputs are joined in place */
	HjgCudaOutput output;
	HjgCudaPtr	block;			/* of the output */
	size_t		block_bytes;
	HjgBenchColumns columns;
} HjgBenchRun;

/* Measure one turn, or check the results (turn -1): HJG_ERR_INPUT if the strategy turns out not to suit the rows. */
extern HjgStatus hjg_bench_run_turn(HjgBench *bench, const HjgBenchRun *run, int turn, HjgBenchTurns *turns);
/*
 * Print the line of a run, whose turns are ordered by time then.  first_ms: the median of the table's first
 * contestant, or 0.
 */
extern void hjg_bench_run_print(HjgBench *bench, const HjgBenchRun *run, HjgBenchTurns *turns, bool phases, float first_ms);

/* ---- lab_cuda_bench_moved.c ---- */

typedef struct HjgBenchMoved
{
	HjgLabMoving moving;
	int			key_width;
	bool		one_stream;		/* each side comes in before the join asks for it, and not before it does */
	HjgCudaSide build;			/* the joined sides, with rows of 4 bytes */
	HjgCudaSide probe;
	HjgCudaPtr	block;			/* of both */
	size_t		bytes;
	char	   *host;			/* with copies and unified addresses: the same bytes, pinned */
	void	   *pairs;			/* pinned memory for pairs that go back, or NULL */
	HjgLabArrival arrivals[HJG_SIDES];
} HjgBenchMoved;

/* Open moved, to be closed even after an error; back_pairs: most pairs that go back to host memory, or 0. */
extern HjgStatus hjg_bench_moved_open(HjgBench *bench, const HjgBenchRun *run, hjg_u64 back_pairs, HjgBenchMoved *moved);
extern void hjg_bench_moved_close(HjgBench *bench, HjgBenchMoved *moved);
/* Free the pinned memory, which is kept between runs. */
extern void hjg_bench_moved_drop(HjgBench *bench);
/* Move the sides from device memory to where the join expects them: host memory; waits. */
extern HjgStatus hjg_bench_moved_reset(HjgBench *bench, HjgBenchMoved *moved, const HjgCudaSide *build, const HjgCudaSide *probe);
/* Begin to move both sides to the device, unless with one stream; then let the join's work wait for a side. */
extern HjgStatus hjg_bench_moved_begin(HjgBench *bench, HjgBenchMoved *moved);
extern HjgStatus hjg_bench_moved_bring(HjgBench *bench, HjgBenchMoved *moved, const HjgCudaStrategy *strategy, const HjgCudaSide *side);

/* ---- lab_cuda_bench_kernels.c ---- */

/* Note the names of kernels as they are loaded; before the first is. */
extern void hjg_bench_kernels_watch(void);
/* Note launches and their times from here on, and print the resources and the share of each kernel. */
extern void hjg_bench_kernels_begin(void);
extern void hjg_bench_kernels_print(HjgBench *bench, const char *name, const char *contestant);

#endif							/* HJG_CUDA_BENCH_H */
