/*
 * hjg_model.h
 *	  The cost model: unit costs measured on this machine, and what they
 *	  predict for a join.
 *
 * Room "model": pure C, no postgres.h.  Times are in nanoseconds of wall clock
 * as the backend sees them; the planner turns them into PostgreSQL's cost units
 * with hjg_model_cost_unit_ns().  That unit is calibrated on core's own hash join and
 * not on scans: what we compete with is core's price for the same join, and core
 * prices a join the same whether its hash table is in cache or not, though it then takes
 * several times as long.
 */
#ifndef HJG_MODEL_H
#define HJG_MODEL_H

#include <stdbool.h>

#include "model/hjg_cuda_model.h"

/* Kinds of conditions that are evaluated in vectors, by what a row takes. */
typedef enum HjgTestKind
{
	HJG_TEST_FIXED,				/* a value of fixed width against others */
	HJG_TEST_BYTES,				/* equality of strings */
	HJG_TEST_LIKE,				/* literals searched in a string */
	HJG_TEST_NUMERIC,			/* a numeric against others */
	HJG_NTESTS
} HjgTestKind;

/* One struct, because it is an array of doubles to the arena, the calibration file, views and overrides. */
typedef struct HjgUnitCosts
{
	double		small_unit_ns;	/* what core takes for a cost of 1.0 in a join of 2^13 build rows */
	double		large_unit_ns;	/* the same, of 2^20 build rows */
	double		startup_ns;		/* a join in the backend, beside its rows */
	double		job_ns;			/* more, when the device process runs it */
	double		marshal_tuple_ns;	/* a row from slot to batch, one exact key */
	double		hash_key_ns;	/* more for each key that travels as a hash */
	double		column_ns;		/* more for each payload column of a row */
	double		varlena_ns;		/* more for each payload value of variable length */
	double		build_tuple_ns; /* engine, one thread */
	double		probe_tuple_ns; /* engine, one thread */
	double		dense_build_ns; /* the same where the keys make the table an array by key */
	double		dense_probe_ns;
	double		emit_tuple_ns;	/* a pair from result batch to executor */
	double		spill_tuple_ns; /* a narrow row to a temporary file and back */
	double		spill_mb_ns;	/* 1 MB of wider ones */
	double		transfer_mb_ns; /* 1 MB between host and device, one way; 0 for the cpu engine */
	double		scan_tuple_ns;	/* a row that core's sequential scan hands over */
	double		direct_tuple_ns;	/* a row from heap page to batch, one exact key: instead of scan_tuple and marshal_tuple */
	double		page_ns;		/* more for each page, */
	double		fixed_column_ns;	/* each column at a fixed place in the row, */
	double		walk_ns;		/* each attribute of variable width that is stepped over, up to the last one that is wanted, */
	double		test_ns[HJG_NTESTS];	/* each condition that is evaluated in vectors, */
	double		core_row_ns;	/* each row that core's expression code sees, with what it takes out of it, */
	double		core_operator_ns;	/* and each operator that it evaluates, on values of variable width */
	double		memory_mb_ns;	/* 1 MB that the process touches for the first time */
	double		line_ns;		/* a cache line of a table's rows that comes from memory, on the average of long rows that are walked over */
	double		bloom_add_ns;	/* a key into a Bloom filter that no second-level cache holds */
	double		bloom_test_ns;	/* a row tested with such a filter */
	double		bloom_cached_ns;	/* a row tested with one that is in cache */
	double		lookup_ns;		/* core's nested loop: an index searched for a key, in cache, ... */
	double		fetch_ns;		/* ... and a row that it found */
	double		miss_ns;		/* a read of memory that no cache holds and nothing could foresee */
	HjgCudaUnitCosts cuda;
} HjgUnitCosts;

#define HJG_MODEL_NCOSTS ((int) (sizeof(HjgUnitCosts) / sizeof(double)))

/* Times of joins of 4-byte keys on an engine of the device process, measured as a whole: with 2^16 and with 2^20 build rows. */
#define HJG_ENGINE_SMALL_LOG 16
#define HJG_ENGINE_LARGE_LOG 20

typedef struct HjgEngineCosts
{
	double		start_ns;		/* a join, beside its rows */
	double		build_ns[2];	/* a row, all threads together */
	double		probe_ns[2];
} HjgEngineCosts;

/* OpenCL devices that joins are divided with, by their numbers, as GPUs are known. */
#define HJG_MODEL_COUPLED 4

typedef struct HjgCoupledDeviceCosts
{
	double		identity;		/* hjg_gpu_identity(); 0: nobody has measured it */
	HjgEngineCosts costs;
} HjgCoupledDeviceCosts;

/* All that hjoin_gpu_calibrate() measures: an array of doubles, as the arena keeps it. */
typedef struct HjgCalibration
{
	HjgUnitCosts machine;		/* its cuda: of a GPU that is none of those below */
	HjgGpuCosts gpus[HJG_MODEL_GPUS];
	HjgEngineCosts cpu_engine;	/* by the measure of those that follow; meaningless without them */
	HjgCoupledDeviceCosts coupled[HJG_MODEL_COUPLED];
} HjgCalibration;

_Static_assert(sizeof(HjgCalibration) <= HJG_CALIBRATION_VALUES * sizeof(double), "calibration area too small");

/* ---- model_scan.c ---- */

#define HJG_MODEL_LINE_BYTES 64
#define HJG_MODEL_LINES_AHEAD 2.0

/* Columns that are read of a row, as hjg_scan_heap_way() counts them. */
typedef struct HjgColumnsRead
{
	int			nfixed;			/* at fixed places */
	int			nsteps;			/* attributes of fixed width behind the first of variable width that are stepped over, */
	int			nvarlenas;		/* and those of variable width */
} HjgColumnsRead;

/* A table that the node reads itself. */
typedef struct HjgTableScan
{
	double		pages;
	double		lines;			/* cache lines of a row that are fetched ahead, HJG_MODEL_LINES_AHEAD at most, */
	double		walked_lines;	/* and those behind them that are walked over */
	double		rows;			/* visible ones */
	double		passing;		/* share that passes all conditions */
	HjgColumnsRead tested;		/* of each row, for conditions in vectors */
	HjgColumnsRead wanted;		/* of the rows that pass */
	double		tests[HJG_NTESTS];	/* conditions in vectors that a row is asked, on the average */
	double		core_share;		/* share of the rows that core's expression code sees; 0: there are no such conditions */
	double		core_operators; /* that it evaluates for one of these, */
	HjgColumnsRead core_columns;	/* and what it takes out of it */
	double		all_tests;		/* what core's scan evaluates, a row: operators on values of fixed width, */
	double		all_operators;	/* and others */
} HjgTableScan;

typedef struct HjgScanTimes
{
	double		own_ns;			/* reading by the node, pages in cache; 0: it does not */
	double		read_ns;		/* more for what comes from memory */
	double		core_ns;		/* core's scan and its filter, pages in cache */
} HjgScanTimes;

/* Predict the time of reading a share of the table, rows to batches. */
extern HjgScanTimes hjg_model_scan(const HjgUnitCosts *costs, const HjgTableScan *scan, double share);

/*
 * A join as the planner describes it.  Where several processes share one build side, rows and
 * pairs are one participant's share, and the engine has all of them to join.  One struct, because it is all of the model's input.
 */
typedef struct HjgJoinShape
{
	double		participants;	/* 0 or 1: a join alone */
	double		build_rows;
	double		probe_rows;
	double		pairs;			/* rows that match on the keys */
	double		partnered;		/* share of the probe rows that have a match */
	int			nkeys;
	int			nhashed_keys;	/* of these, keys that do not travel exactly */
	int			key_width;		/* bytes that travel for a row */
	int			build_columns;	/* payload columns */
	int			probe_columns;
	int			build_varlenas; /* of these, columns of variable length */
	int			probe_varlenas;
	HjgScanTimes build_scan;	/* of a table that the node reads itself; 0: rows come through slots */
	HjgScanTimes probe_scan;
	bool		build_vectors;	/* the child is a join of ours: rows come as vectors */
	bool		probe_vectors;
	bool		in_place;		/* probe rows are not collected, but probed where they lie */
	double		build_bytes;	/* memory for all build rows */
	int			nthreads;		/* engine threads beside the backends; 0: in the backends */
	int			spill_passes;	/* times that both sides go through temporary files; 0: in memory */
	double		build_width;	/* bytes of the columns, for files */
	double		probe_width;
	bool		bloom;			/* a Bloom filter of the build keys drops probe rows */
	bool		gpu;			/* the device process joins on a GPU */
	bool		gpu_cold;		/* ... that no join has used yet */
	double		gpu_l2_bytes;
	const HjgEngineCosts *engine;	/* the device process joins on an engine of these costs; NULL: by the unit costs */
	bool		build_unique;	/* no key twice on the build side, as far as is known */
	bool		dense;			/* likewise; and so dense that the table will be an array by key */
} HjgJoinShape;

/* An array by key, of keys that each occur once, has at most so many places for each build row. */
#define HJG_DENSE_PLACES_PER_ROW 4

/* Wall time by phase; the build phases come before the first row. */
typedef struct HjgPrediction
{
	double		startup_ns;
	double		marshal_build_ns;
	double		build_ns;
	double		marshal_probe_ns;
	double		probe_ns;		/* what is not hidden behind marshalling and emitting */
	double		emit_ns;
	double		total_ns;		/* sum of the above */
	double		saved_build_ns; /* in a child's price: slots that are not needed */
	double		saved_probe_ns;
	double		transfer_ns;	/* on a GPU, whoever waits for it: the bus, ... */
	double		gpu_build_ns;	/* ... building, partitions included, ... */
	double		gpu_probe_ns;	/* ... and probing likewise */
} HjgPrediction;

/* Costs of a machine that nobody has calibrated yet. */
extern const HjgUnitCosts hjg_model_default_costs;

/* Are these plausible: finite, positive, within a factor of 1000 of the defaults? */
extern bool hjg_model_costs_valid(const HjgUnitCosts *costs);
/* Find the costs of GPU number number, if they are plausible and were measured on this one; NULL otherwise. */
extern const HjgCudaUnitCosts *hjg_model_gpu_costs(const HjgCalibration *calibration, int number, double identity);

/* ---- model_engine.c ---- */

/* Times of measured joins: one row with one, and of each of the two sizes n rows with one and n rows with n. */
typedef struct HjgEngineTimes
{
	double		one_row_ns;
	double		build_ns[2];
	double		join_ns[2];
} HjgEngineTimes;

extern void hjg_model_engine_costs_of(const HjgEngineTimes *times, HjgEngineCosts *costs);
/* Are these plausible: finite, a start of less than a second, and of a row between 0.01 ns and 0.1 ms? */
extern bool hjg_model_engine_costs_valid(const HjgEngineCosts *costs);
extern double hjg_model_engine_build_ns(const HjgEngineCosts *costs, double build_rows);
extern double hjg_model_engine_probe_ns(const HjgEngineCosts *costs, double build_rows, double probe_rows);
/* Find the costs of OpenCL device number number, if they are plausible and were measured on this one; NULL otherwise. */
extern const HjgEngineCosts *hjg_model_coupled_costs(const HjgCalibration *calibration, int number, double identity);
/* Is it clearly expected to be faster than the cpu engine? */
extern bool hjg_model_engine_pays(const HjgEngineCosts *costs, const HjgEngineCosts *cpu, double build_rows, double probe_rows);

/*
 * Compute the time of 1.0 in core's price for a hash join of build_rows: on the
 * logarithm of the rows, a line through the two points that are measured, level before
 * the first and from 2^22 rows on.
 */
extern double hjg_model_cost_unit_ns(const HjgUnitCosts *costs, double build_rows);

/* A nested loop over an index, as its inner side sees it. */
typedef struct HjgLookups
{
	double		nlookups;
	double		rows;			/* that each finds */
	double		mb;				/* pages of the table and the index */
	double		scattered;		/* 0: rows of neighbouring keys lie side by side; 1: anywhere */
} HjgLookups;

/* Predict the time of the look-ups, all pages in memory. */
extern double hjg_model_lookups_ns(const HjgUnitCosts *costs, const HjgLookups *lookups);

/*
 * Partitions, a power of two, for a build side of so many bytes of which memory_bytes fit at a time, with two file buffers
 * each; and how often rows are written until each partition fits.
 */
extern int	hjg_model_partitions(double build_bytes, double memory_bytes, double buffer_bytes);
extern int	hjg_model_spill_passes(double build_bytes, double memory_bytes, double first_buffer_bytes,
								   double buffer_bytes);

/* Does a Bloom filter save more than it costs? */
extern bool hjg_model_bloom_pays(const HjgUnitCosts *costs, const HjgJoinShape *shape);

/*
 * Predict the time of a participant that aggregates joined rows instead of handing them out: with ncolumns
 * columns of the two sides gathered, and nsteps operations on the values of a row.
 */
extern double hjg_model_aggregate_ns(const HjgUnitCosts *costs, double rows, int ncolumns, int nsteps);
/* More that it takes to group them by nkeys keys, in a table of ngroups groups of ncolumns columns, ... */
extern double hjg_model_group_ns(const HjgUnitCosts *costs, double rows, double ngroups, int nkeys, int ncolumns);
/* ... to have another process put groups together with its own, by way of files, ... */
extern double hjg_model_exchange_ns(double ngroups);
/* ... and to hand them out, finished or in partial form. */
extern double hjg_model_finish_ns(double ngroups, bool partial);

extern void hjg_model_predict(const HjgUnitCosts *costs, const HjgJoinShape *shape, HjgPrediction *prediction);

#endif							/* HJG_MODEL_H */
