/*
 * hjg_coupled_bench.h
 *	  Declarations that the files of the coupled engine's benchmark share.  Internal to the room "lab".
 *
 *		lab_coupled_bench.c	options, tables of strategies and pipelines
 *		lab_coupled_input.c	generated rows, packed on request, and one join of them
 *		lab_coupled_model.c	--model: the papers' Monte Carlo test
 *		lab_coupled_pairs.c	--pairs: each design choice against its absence
 *		lab_coupled_rows.c	--rows: every system of the papers by its name
 *		lab_coupled_engines.c	--engines: losses of choices against the best one
 *		lab_coupled_selection.c	a selection through the engine's pipelines
 *		lab_coupled_select_step.c	its step on a thread
 *		lab_coupled_column.c	its input
 *		lab_coupled_plans.c	--plans: compression plans
 *		lab_coupled_counts.c	cache misses and stalls, where they are counted
 *		lab_coupled_points.c	medians of runs in random order
 *		lab_coupled_figures.c	--figures: figures of the papers
 *		lab_coupled_tradeoffs.c	of these, random ratios, trade-offs and whole joins
 *		lab_coupled_further.c	of these, BasicUnit, and steps by themselves
 *		lab_coupled_coarse.c	of these, steps of pairs of partitions
 *		lab_coupled_incache.c	of these, in-cache co-processing
 *		lab_coupled_tpch.c		keys of TPC-H's joins, and the columns of Q6
 */
#ifndef HJG_COUPLED_BENCH_H
#define HJG_COUPLED_BENCH_H

#include "device/hjg_opencl.h"
#include "kernels/lab/hjg_select.h"
#include "lab/hjg_lab.h"

/* Bytes of keys, 4 or 8 (--key-width).  Values are of 4 bytes, whatever keys have. */
extern int	hjg_bench_key_width;

/* Most batches of probe rows. */
#define HJG_BENCH_BATCHES 64

typedef struct HjgBenchOptions
{
	const char *device;
	const char *strategy;		/* NULL: all */
	const char *pipeline;		/* NULL: e; "all" */
	int			min_log;
	int			max_log;
	int			nreps;
	int			units;			/* of the device; 0: half */
	int			model_runs;		/* 0: no --model */
	int			draws;			/* random runs of figure 9 */
	bool		plans;			/* --plans */
	const char *figures;		/* part of a figure's name, "": all; NULL: no --figures */
	const char *rows;			/* a system's name, "": all; NULL: no --rows */
	bool		engines;		/* --engines */
	const char *pairs;			/* part of a set's name, "": all; NULL: no --pairs */
	double		skew;
	double		selectivity;
	bool		steps;			/* print each step's time */
	bool		each;			/* of --model: print each setting's run */
	bool		calibrate;		/* otherwise every step is halved */
	bool		packed;			/* keys are packed */
	const HjgPackPlan *plan;	/* with this plan; NULL: the planner's */
	bool		ordered;		/* keys of both sides ascend, like those of orders and order lines */
	HjgCoupledConfig config;
} HjgBenchOptions;

/* A selection of rows of the build side, which is its column, in place of a join; nrows 0: a join. */
typedef struct HjgBenchSelect
{
	HjgSelect	predicate;
	hjg_u32		nselected;		/* expected */
	hjg_u64		rows_sum;		/* expected sum of the mixed numbers of these rows */
	hjg_u64		products_sum;	/* and of their products; 0 where there is one column */
	bool		has_ratio;
	double		ratio;			/* the CPU's share with which E was fastest, with all units of both */
} HjgBenchSelect;

/* Both sides of a join, or a column to select from; the arrays are aligned for devices. */
typedef struct HjgBenchInput
{
	hjg_u32		nrows;			/* rows of the build side */
	hjg_u32		nprobe;
	hjg_u32    *build;			/* values */
	hjg_u32    *probe;
	hjg_u8	   *build_keys;		/* the same in hjg_bench_key_width bytes; the values where that is 4 */
	hjg_u8	   *probe_keys;
	HjgPair    *pairs;
	hjg_u64		npairs;			/* expected */
	hjg_u64		pairs_sum;		/* sum of the mixed numbers of the probe rows with a match */
	HjgSegment	packed_build;	/* with options->packed */
	HjgSegment	packed_probe[HJG_BENCH_BATCHES];
	size_t		packed_room;
	char		plans[2][64];	/* build, probe */
	HjgBenchSelect select;
} HjgBenchInput;

/* ---- lab_coupled_counts.c ---- */

/* Events that processors count. */
typedef enum HjgBenchEvent
{
	HJG_EVENT_CYCLES = 0,
	HJG_EVENT_STALLED_CYCLES,	/* without an instruction done, for want of data or units */
	HJG_EVENT_REFERENCES,		/* of the last cache */
	HJG_EVENT_MISSES,			/* of these */
	HJG_BENCH_EVENTS
} HjgBenchEvent;

/* Events of the threads of both parts; 0 where none are counted. */
typedef struct HjgBenchCounts
{
	double		n[HJG_PROCESSORS][HJG_BENCH_EVENTS];
} HjgBenchCounts;

/*
 * Begin to count.  Threads that run besides the calling one are taken for the device's; those that the calling
 * thread starts from now on, for the CPU part's.
 */
extern void hjg_bench_counts_open(void);
/* Get the counts, without those before *since unless it is NULL. */
extern HjgBenchCounts hjg_bench_counts(const HjgBenchCounts *since);
extern void hjg_bench_counts_add(HjgBenchCounts *sum, const HjgBenchCounts *counts);
/* Print what was counted, to the end of the line. */
extern void hjg_bench_counts_print(const HjgBenchCounts *counts, double nrows);
/* Print a line that tells why something is not counted, if that is so. */
extern void hjg_bench_counts_explain(void);

typedef struct HjgBenchTimes
{
	double		total_ns;
	double		build_ns;		/* part of it, until the first probe */
	HjgCoupledStats stats;
	HjgBenchCounts counts;
	bool		good;
} HjgBenchTimes;

extern void *hjg_bench_alloc(void *arg, size_t bytes);
extern void hjg_bench_free(void *arg, void *ptr, size_t bytes);
extern hjg_u64 hjg_bench_random(hjg_u64 *state);

/* Make an input of 2^log rows on both sides. */
extern bool hjg_bench_input_create(HjgBenchInput *in, const HjgBenchOptions *options, int log);
extern bool hjg_bench_input_sized(HjgBenchInput *in, const HjgBenchOptions *options, hjg_u32 nbuild, hjg_u32 nprobe);
/* Make an input of these keys; those of the build side are unique. */
extern bool hjg_bench_input_keys(HjgBenchInput *in, const HjgBenchOptions *options, const hjg_u32 *build, hjg_u32 nbuild,
								 const hjg_u32 *probe, hjg_u32 nprobe);
/* Make a column of these values, as the build side. */
extern bool hjg_bench_input_column(HjgBenchInput *in, const HjgBenchOptions *options, const hjg_u32 *values, hjg_u32 nrows);
extern void hjg_bench_input_destroy(HjgBenchInput *in);
/*
 * Run one join; config NULL: the cpu engine.  False if a result is wrong: each pair is checked, outside
 * the measured time.
 */
extern bool hjg_bench_run(const HjgEnv *env, const HjgCoupledConfig *config, const HjgRunner *runner,
						  const HjgBenchInput *in, HjgBenchTimes *times);

/* Distributions of the probe side used by sweeps. */
typedef struct HjgBenchShape
{
	const char *name;
	double		skew;
	double		selectivity;
} HjgBenchShape;

#define HJG_BENCH_SHAPES 6
extern const HjgBenchShape hjg_bench_shapes[HJG_BENCH_SHAPES];

extern const char *const hjg_bench_step_names[HJG_STEP_COUNT];

/* ---- lab_coupled_model.c ---- */

/* Compare random ratios with the model's; false if a result is wrong.  options->config has the costs. */
extern bool hjg_bench_model(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner);

/* ---- lab_coupled_pairs.c ---- */

/* Compare design choices with their absence; false if a result is wrong. */
extern bool hjg_bench_pairs(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner);

/* ---- lab_coupled_rows.c ---- */

/* Run all systems of the papers, or one; false if a result is wrong. */
extern bool hjg_bench_rows(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner);

/* ---- lab_coupled_engines.c ---- */

/* Measure the loss of PL, and of the cpu engine, against the best; false if a result is wrong. */
extern bool hjg_bench_engines(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner);

/* ---- lab_coupled_select_step.c ---- */

/* A thread's memory in work, at unpack_scratch_off: a block's keys, and memory to unpack them. */
#define HJG_SELECT_SCRATCH_BYTES (HJG_PACK_BLOCK_ROWS * 8 + HJG_UNPACK_SCRATCH_BYTES)

extern const HjgOwnStep hjg_select_step;

/* Add the selection's kernel to the programs of OpenCL devices, before these are opened. */
extern void hjg_select_open(void);

/* ---- lab_coupled_selection.c ---- */

/* True if values of a packed column are read in place: bits under NS, with or without FOR. */
extern bool hjg_select_reads_in_place(const HjgPackHeader *header);
/*
 * Run the selection once.  The configuration's strategy means nothing, nor do the options of tables and partitions;
 * was_bytes 0: no P, whose thread has the pipeline's other task.  False if the rows are not those of a plain loop;
 * they are checked outside the measured time.
 */
extern bool hjg_select_run(const HjgEnv *env, const HjgCoupledConfig *config, const HjgRunner *runner, const HjgBenchInput *in,
						   HjgBenchTimes *times);

/* ---- lab_coupled_column.c ---- */

/* Values of a selection's column. */
typedef enum HjgSelectColumn
{
	HJG_SELECT_RANDOM,			/* of a fourth of a key's bits, in any order: packed to a fourth by NS */
	HJG_SELECT_ASCENDING		/* with random gaps of 8 bits at most: packed by Delta, NS */
} HjgSelectColumn;

/*
 * Make a selection from 2^log rows, of options->selectivity of these, or where that is 1 of one in a hundred.  Where
 * options have costs it also searches the ratio, by measuring some.
 */
extern bool hjg_select_create(HjgBenchInput *in, const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log,
							  HjgSelectColumn column);
/* Count the values of so many rows, in whole blocks. */
extern size_t hjg_select_values_of(hjg_u32 nrows, hjg_u32 ncolumns);
/* Make a selection from these values; those of several columns are in whole blocks, a block of each column behind one of the other. */
extern bool hjg_select_rows(HjgBenchInput *in, const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner,
							const HjgSelect *predicate, const hjg_u32 *values);
/* Print the rows that are selected, and options that change nothing. */
extern void hjg_select_explain(const HjgBenchInput *in, const HjgBenchOptions *options);

/* ---- lab_coupled_points.c ---- */

#define HJG_BENCH_MAX_POINTS 16
#define HJG_BENCH_MAX_TURNS 15

/* A setting that a figure compares with others. */
typedef struct HjgBenchPoint
{
	HjgCoupledConfig config;
	HjgBenchTimes turns[HJG_BENCH_MAX_TURNS];
} HjgBenchPoint;

extern HjgBenchPoint hjg_bench_points[HJG_BENCH_MAX_POINTS];

/*
 * Make the options' setting with another strategy and without units of its own; alone: every step on one
 * processor.
 */
extern HjgCoupledConfig hjg_bench_config(const HjgBenchOptions *options, HjgCoupledStrategy strategy);
extern HjgCoupledConfig hjg_bench_config_alone(const HjgBenchOptions *options, HjgCoupledStrategy strategy, int processor);

/*
 * Run the first npoints once a turn, in random order; then each point's turns are ordered by time.  False
 * if a result is wrong.
 */
extern bool hjg_bench_run_points(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner,
								 const HjgBenchInput *in, int npoints);
/* Print how much the turns of a point differ, of all points since the last call. */
extern void hjg_bench_print_spread(const HjgBenchOptions *options);
extern const HjgBenchTimes *hjg_bench_median(const HjgBenchOptions *options, int point);

/* ---- lab_coupled_figures.c ---- */

typedef struct HjgBenchFigure
{
	const char *name;
	const char *claim;			/* of the paper */
	const char *reason;			/* why a machine may show otherwise; NULL: it should not */
	bool		(*run) (const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log);
	bool		one_size;		/* it has its own sizes, from the least one on */
} HjgBenchFigure;

/* Print figures of the papers; false if a result is wrong. */
extern bool hjg_bench_figures(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner);

/* ---- lab_coupled_tradeoffs.c, lab_coupled_further.c, lab_coupled_incache.c ---- */

/* Each ends with a figure without a name. */
extern const HjgBenchFigure hjg_bench_tradeoff_figures[];
extern const HjgBenchFigure hjg_bench_further_figures[];
extern const HjgBenchFigure hjg_bench_incache_figures[];

/* ---- lab_coupled_coarse.c ---- */

/* Compare fine and coarse steps (HjgBenchFigure.run). */
extern bool hjg_bench_table_3(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log);

/* ---- lab_coupled_tpch.c ---- */

#define HJG_TPCH_QUERIES 4
#define HJG_TPCH_Q6 3			/* the last one, which has no join */
#define HJG_TPCH_JOINS 4		/* of a query at most */

typedef struct HjgTpchKeys
{
	hjg_u32    *keys;
	hjg_u32		n;
} HjgTpchKeys;

/* Both sides of a join; without rows where a query has fewer joins. */
typedef struct HjgTpchJoin
{
	HjgTpchKeys build;
	HjgTpchKeys probe;
} HjgTpchJoin;

typedef struct HjgTpch
{
	HjgTpchJoin joins[HJG_TPCH_Q6][HJG_TPCH_JOINS];
	HjgSelect	q6;
	hjg_u32    *q6_values;		/* of its columns, for hjg_select_rows() */
} HjgTpch;

extern const char *const hjg_tpch_names[HJG_TPCH_QUERIES];

/* Make the keys of the queries' joins, and Q6's columns, with 2^log rows of lineitem; false, to be destroyed as well, if there is too little memory. */
extern bool hjg_tpch_create(HjgTpch *tpch, int log);
extern void hjg_tpch_destroy(HjgTpch *tpch);

/* ---- lab_coupled_plans.c ---- */

/* Measure compression plans on one thread, without a device. */
extern bool hjg_bench_plans(const HjgBenchOptions *options);

#endif							/* HJG_COUPLED_BENCH_H */
