/*
 * hjg_model.h
 *	  The cost model: unit costs measured on this machine, and what they predict for a join.
 *
 * Room "model": pure C, no postgres.h.  Times are nanoseconds of wall clock as the backend sees them; the
 * planner converts them into PostgreSQL's cost units with hjg_model_cost_unit_ns().  That unit is
 * calibrated on core's hash join, not on scans: our rival is core's price for the same join, and core's
 * price ignores whether its hash table is in cache, although the join takes several times as long when it
 * is not.
 */
#ifndef HJG_MODEL_H
#define HJG_MODEL_H

#include <stdbool.h>

#include "model/hjg_cuda_model.h"

/* Kinds of conditions evaluated in vectors, by their cost a row. */
typedef enum HjgTestKind
{
	HJG_TEST_FIXED,				/* a value of fixed width compared with others */
	HJG_TEST_BYTES,				/* equality of strings */
	HJG_TEST_LIKE,				/* literals searched in a string */
	HJG_TEST_NUMERIC,			/* a numeric compared with others */
	HJG_NTESTS
} HjgTestKind;

/* Kinds of work, by how much longer they take a process while others do the same. */
typedef enum HjgWork
{
	HJG_WORK_MAPPING,			/* reading shared memory that the process has not read before */
	HJG_WORK_PAGES,				/* reading rows of pages that come from memory */
	HJG_WORK_CACHED,			/* computing on what caches hold, kept columns included */
	HJG_WORK_TABLES,			/* building and probing tables larger than a core's caches */
	HJG_NWORKS
} HjgWork;

/* One struct, because the arena, the calibration file, views and overrides use it as an array of doubles. */
typedef struct HjgUnitCosts
{
	double		small_unit_ns;	/* time that core takes for a cost of 1.0 in a join of 2^13 build rows */
	double		large_unit_ns;	/* the same, with 2^20 build rows */
	double		startup_ns;		/* a join in the backend, besides its rows */
	double		job_ns;			/* added when the device process runs it */
	double		marshal_tuple_ns;	/* a row from slot to batch, one exact key */
	double		hash_key_ns;	/* added for each key that is sent as a hash */
	double		column_ns;		/* added for each payload column of a row */
	double		varlena_ns;		/* added for each payload value of variable length */
	double		build_tuple_ns; /* engine, one thread */
	double		probe_tuple_ns; /* engine, one thread */
	double		dense_build_ns; /* the same for a table that is an array by key */
	double		dense_probe_ns;
	double		emit_tuple_ns;	/* a pair from result batch to executor */
	double		spill_tuple_ns; /* a narrow row to a temporary file and back */
	double		spill_mb_ns;	/* 1 MB of wider rows */
	double		transfer_mb_ns; /* 1 MB between host and device, one way; 0 for the cpu engine */
	double		scan_tuple_ns;	/* a row handed over by core's sequential scan */
	double		direct_tuple_ns;	/* a row from heap page to batch, one exact key: replaces scan_tuple
									 * and marshal_tuple */
	double		page_ns;		/* added for each page */
	double		fixed_column_ns;	/* added for each column at a fixed place in the row */
	double		walk_ns;		/* added for each attribute of variable width up to the last wanted one */
	double		far_walk_ns;	/* added for such an attribute of a row that comes from memory, beside the time in which memory supplies
								 * the row */
	double		test_ns[HJG_NTESTS];	/* added for each condition evaluated in vectors */
	double		code_test_ns;	/* a range of codes tested, of a row of kept columns */
	double		check_mb_ns;	/* 1 MB of kept columns compared with the checksums, which brings it from memory */
	double		core_row_ns;	/* added for each row that core's expression code sees, with the columns it
								 * reads */
	double		core_operator_ns;	/* added for each operator that it evaluates, on values of variable
									 * width */
	double		memory_mb_ns;	/* 1 MB of memory that the process touches for the first time */
	double		line_ns;		/* a cache line of a long row that comes from memory, besides the first */
	double		map_mb_ns;		/* 1 MB of shared memory that a process reads for the first time */
	double		bloom_add_ns;	/* a key added to a Bloom filter larger than any second-level cache */
	double		bloom_test_ns;	/* a row tested with such a filter */
	double		bloom_cached_ns;	/* a row tested with a filter in cache */
	double		lookup_ns;		/* core's nested loop: an index searched for a key, in cache, ... */
	double		fetch_ns;		/* ... and a row that it found */
	double		miss_ns;		/* an unpredictable read of memory that is in no cache */
	double		launch_ns;		/* a parallel worker started and ended */
	double		program_row_ns; /* a thread of the device process, while all are at work: a row of a small program */
	double		crowding[HJG_NWORKS];	/* part by which work takes longer for each further process at work */
	HjgCudaUnitCosts cuda;
} HjgUnitCosts;

#define HJG_MODEL_NCOSTS ((int) (sizeof(HjgUnitCosts) / sizeof(double)))

/*
 * Times of joins of 4-byte keys on an engine of the device process, measured as a whole, with 2^16 and
 * with 2^20 build rows.
 */
#define HJG_ENGINE_SMALL_LOG 16
#define HJG_ENGINE_LARGE_LOG 20

typedef struct HjgEngineCosts
{
	double		start_ns;		/* a join, besides its rows */
	double		build_ns[2];	/* a row, all threads together */
	double		probe_ns[2];
} HjgEngineCosts;

/* OpenCL devices that share joins with the CPU, identified as GPUs are. */
#define HJG_MODEL_COUPLED 4

typedef struct HjgCoupledDeviceCosts
{
	double		identity;		/* hjg_gpu_identity(); 0: not measured */
	HjgEngineCosts costs;
} HjgCoupledDeviceCosts;

/* Everything that hjoin_gpu_calibrate() measures, kept in the arena as an array of doubles. */
typedef struct HjgCalibration
{
	HjgUnitCosts machine;		/* its cuda: of a GPU that is not listed below */
	HjgGpuCosts gpus[HJG_MODEL_GPUS];
	HjgEngineCosts cpu_engine;	/* measured like the devices that follow; meaningless without them */
	HjgCoupledDeviceCosts coupled[HJG_MODEL_COUPLED];
} HjgCalibration;

_Static_assert(sizeof(HjgCalibration) <= HJG_CALIBRATION_VALUES * sizeof(double), "calibration area too small");

/* ---- model_scan.c ---- */

#define HJG_MODEL_LINE_BYTES 64

/* Length of the strings that test_ns[HJG_TEST_LIKE] is measured on. */
#define HJG_MODEL_LIKE_BYTES 20.0

/* Columns read of a row, as hjg_scan_heap_count() counts them. */
typedef struct HjgColumnsRead
{
	int			nfixed;			/* at fixed places */
	int			nsteps;			/* attributes of fixed width that are stepped over, behind the first of
								 * variable width */
	int			nvarlenas;		/* attributes of variable width that are stepped over */
} HjgColumnsRead;

/* A table that the node reads directly. */
typedef struct HjgTableScan
{
	double		pages;
	double		lines;			/* cache lines of a row */
	double		unmapped_mb;	/* size of the pages, if new processes read them, which map memory as they read it; else 0 */
	double		kept_unmapped_mb;	/* the same of the kept columns that are read */
	double		nranges;		/* distant ranges of blocks whose pages lie in a piece of memory that the system maps at once; */
	double		mappers;		/* processes that map such a piece; 0: the one that reads it */
	double		rows;			/* visible ones */
	double		passing;		/* fraction that passes all conditions */
	HjgColumnsRead tested;		/* of each row, for conditions in vectors */
	HjgColumnsRead wanted;		/* of the rows that pass */
	double		tests[HJG_NTESTS];	/* conditions in vectors evaluated for a row, on average */
	double		code_tests;		/* those on codes of kept columns, relative to one of a range of them; */
	double		kept_tests;		/* and on values that are decoded first, relative to one on values of fixed width */
	double		core_share;		/* fraction of the rows that core's expression code sees; 0: it has no
								 * conditions */
	double		core_operators; /* operators that it evaluates for such a row */
	HjgColumnsRead core_columns;	/* columns that it reads of such a row */
	double		all_tests;		/* operators that core's scan evaluates for a row: on values of fixed width */
	double		all_operators;	/* others */
	bool		conditions_wait;	/* they come after a filter on columns at fixed places */
	int			nbefore;		/* attributes at such places, if no column before is NULL */
	bool		keys_fixed;		/* the join's keys are among them */
	double		kept_share;		/* part whose rows come from kept columns; */
	double		coded_share;	/* and in which strings of conditions are codes */
	int			nwanted;		/* columns of the rows that pass */
	int			nread;			/* these and those of conditions */
} HjgTableScan;

/* Size of a kept value, on average: three bytes. */
#define HJG_MODEL_KEPT_MB (3.0 / (1024 * 1024))

typedef struct HjgScanTimes
{
	double		own_ns;			/* reading by the node, pages in cache; 0: not possible */
	double		memory_ns;		/* in which memory supplies the pages, beside most of that, */
	double		found_ns;		/* and part of own_ns that was in it when it was measured: rows are found, with columns at fixed places */
	double		map_ns;			/* in which a new process maps them, */
	double		map_others_ns;	/* and those beside them that other processes read */
	double		core_ns;		/* core's scan and its filter, pages in cache */
	double		filter_rows;	/* rows that a join's filter is tested for, */
	double		late_ns;		/* and the part of own_ns that only rows take which pass it */
	double		kept_share;		/* part of the pages that are not read, because their columns are kept; */
	double		kept_ns;		/* part of own_ns for that, */
	double		kept_rows;		/* its rows, */
	double		kept_passing;	/* fraction of these that pass all conditions */
	int			nwanted;		/* and their columns */
} HjgScanTimes;

/* Predict the time of reading a share of the table, up to rows in batches. */
extern HjgScanTimes hjg_model_scan(const HjgUnitCosts *costs, const HjgTableScan *scan, double share);
/*
 * Predict what reading columns of a fraction of all kept rows takes besides the columns themselves: their cache lines come from memory one by one, unless
 * most of them are read.
 */
extern double hjg_model_sparse_ns(const HjgUnitCosts *costs, double rows, double fraction, int ncolumns);
/* Predict the time that the reader waits for memory, if its own work takes so much longer than own_ns, or less: for prices, of a process alone. */
extern double hjg_model_wait_ns(const HjgScanTimes *scan, double added_ns);

/*
 * A join as the planner describes it.  When several processes share a build side, rows and pairs are one
 * participant's share, and the engine joins the rows of all.  One struct, because it is all of the model's
 * input.
 */
typedef struct HjgJoinShape
{
	double		participants;	/* 0 or 1: a join alone */
	double		build_rows;
	double		probe_rows;
	double		pairs;			/* rows that match on the keys */
	double		partnered;		/* fraction of the probe rows that have a match */
	int			nkeys;
	int			nhashed_keys;	/* keys of these that are sent as hashes */
	int			key_width;		/* bytes of the key of a row */
	int			build_columns;	/* payload columns */
	int			probe_columns;
	int			build_varlenas; /* of these, columns of variable length */
	int			probe_varlenas;
	HjgScanTimes build_scan;	/* of a table that the node reads directly; 0: rows come in slots */
	HjgScanTimes probe_scan;
	bool		build_vectors;	/* the child is a join of ours: rows come in vectors */
	bool		probe_vectors;
	bool		in_place;		/* probe rows are probed where they lie, without being collected */
	double		build_bytes;	/* memory for all build rows */
	int			nthreads;		/* engine threads beside the backends; 0: in the backends */
	int			spill_passes;	/* times that both sides are written to temporary files; 0: in memory */
	double		build_width;	/* bytes of the columns, for temporary files */
	double		probe_width;
	bool		bloom;			/* a Bloom filter of the build keys drops probe rows */
	bool		gpu;			/* the device process joins on a GPU */
	bool		gpu_cold;		/* ... that no join has used yet */
	double		gpu_l2_bytes;
	const HjgEngineCosts *engine;	/* the device process joins on an engine with these costs; NULL: use
									 * the unit costs */
	bool		build_unique;	/* build keys are unique, as far as is known */
	bool		dense;			/* also unique and so dense that the table will be an array by key */
} HjgJoinShape;

/* Most places for each build row in an array by key of unique keys. */
#define HJG_DENSE_PLACES_PER_ROW 4

/* Wall time by phase; the build phases come before the first row. */
typedef struct HjgPrediction
{
	double		startup_ns;
	double		marshal_build_ns;
	double		build_ns;
	double		marshal_probe_ns;
	double		probe_ns;		/* the part not hidden behind marshalling and emitting */
	double		emit_ns;
	double		wait_build_ns;	/* marshalling waits for memory */
	double		wait_probe_ns;
	double		total_ns;		/* sum of the above */
	double		saved_build_ns; /* part of a child's price for slots that are not needed */
	double		saved_probe_ns;
	double		transfer_ns;	/* on a GPU, whether waited for or not: the bus, */
	double		gpu_build_ns;	/* building with partitioning, */
	double		gpu_probe_ns;	/* and probing */
} HjgPrediction;

/* Costs of a machine that was never calibrated. */
extern const HjgUnitCosts hjg_model_default_costs;

/* Find the first cost that is not plausible, that is, finite, positive, within a factor of 1000 of the default; -1: all are. */
extern int	hjg_model_implausible_cost(const HjgUnitCosts *costs);
extern bool hjg_model_costs_valid(const HjgUnitCosts *costs);
/* Find the costs of this GPU, if they are plausible and were measured on it; NULL otherwise. */
extern const HjgCudaUnitCosts *hjg_model_gpu_costs(const HjgCalibration *calibration, int number, double identity);

/* ---- model_engine.c ---- */

/*
 * Times of measured joins: of one row with one, and for each of the two sizes n rows with one and n rows
 * with n.
 */
typedef struct HjgEngineTimes
{
	double		one_row_ns;
	double		build_ns[2];
	double		join_ns[2];
} HjgEngineTimes;

extern void hjg_model_engine_costs_of(const HjgEngineTimes *times, HjgEngineCosts *costs);
/*
 * Check that the costs are plausible: finite, a start of less than a second, a row between 0.01 ns and 0.1
 * ms.
 */
extern bool hjg_model_engine_costs_valid(const HjgEngineCosts *costs);
extern double hjg_model_engine_build_ns(const HjgEngineCosts *costs, double build_rows);
extern double hjg_model_engine_probe_ns(const HjgEngineCosts *costs, double build_rows, double probe_rows);
/* Find the costs of this OpenCL device, if they are plausible and were measured on it; NULL otherwise. */
extern const HjgEngineCosts *hjg_model_coupled_costs(const HjgCalibration *calibration, int number, double identity);
/* True if the engine is expected to be clearly faster than the cpu engine. */
extern bool hjg_model_engine_pays(const HjgEngineCosts *costs, const HjgEngineCosts *cpu, double build_rows, double probe_rows);

/*
 * Compute the time of 1.0 in core's price for a hash join of build_rows: a line through the two measured
 * points over the logarithm of the rows, level before the first point and from 2^22 rows on.
 */
extern double hjg_model_cost_unit_ns(const HjgUnitCosts *costs, double build_rows);

/* A nested loop over an index, as its inner side sees it. */
typedef struct HjgLookups
{
	double		nlookups;
	double		rows;			/* found by each look-up */
	double		mb;				/* pages of the table and the index */
	double		scattered;		/* 0: rows of neighbouring keys lie side by side; 1: anywhere */
	bool		unmapped;		/* by a new process, which maps memory as it reads it */
} HjgLookups;

/* Predict the time of the look-ups with all pages in memory. */
extern double hjg_model_lookups_ns(const HjgUnitCosts *costs, const HjgLookups *lookups);

/* Memory of a build row's key, and of the engine's table of it (hjg_join_workspace_bytes()), for keys of 4, 8 or 16 bytes. */
extern double hjg_model_key_bytes(int key_width);

/*
 * Choose the number of partitions, a power of two, for a build side of build_bytes of which memory_bytes
 * fit at a time, with two file buffers each; and count how often rows are written until each partition
 * fits.
 */
#define HJG_MODEL_MOST_PASSES 6	/* then partitions that do not fit are joined in several build passes */
extern int	hjg_model_partitions(double build_bytes, double memory_bytes, double buffer_bytes);
extern int	hjg_model_spill_passes(double build_bytes, double memory_bytes, double first_buffer_bytes,
								   double buffer_bytes);

/* Fraction of the unmatched rows that a Bloom filter passes; and fraction of all rows above which it is given up (node_bloom.c). */
#define HJG_BLOOM_FALSE_SHARE 0.02
#define HJG_BLOOM_MOST_PASSING 0.65

/* Predict what testing the probe rows adds to reading them; less than 0 if it saves time. */
extern double hjg_model_filtering_ns(const HjgUnitCosts *costs, const HjgJoinShape *shape);
/* True if a Bloom filter saves more than it costs. */
extern bool hjg_model_bloom_pays(const HjgUnitCosts *costs, const HjgJoinShape *shape);

/*
 * Predict the time of a participant that aggregates joined rows instead of emitting them, with ncolumns
 * columns gathered from both sides and nsteps operations on the values of a row.
 */
extern double hjg_model_aggregate_ns(const HjgUnitCosts *costs, double rows, int ncolumns, int nsteps);
/* Rows of a process that are grouped. */
typedef struct HjgGroupedRows
{
	double		rows;
	double		ngroups;		/* that are made of them */
	int			nkeys;
	int			ncolumns;		/* that are read; */
	int			nvarlenas;		/* strings among them */
	double		scattered;		/* from 0, if the rows of a group follow each other, to 1, at random */
	double		remembered;		/* fraction of the rows whose keys are words of kept columns, whose groups are remembered without a look at their bytes */
} HjgGroupedRows;

/* Does the table of groups stay in a core's cache? */
extern bool hjg_model_groups_cached(double ngroups, int ncolumns);
/* Creating the node and its memory, however many rows there are. */
#define HJG_MODEL_GROUPING_START_NS 20000
/* Predict the time added by grouping them, with that of the start. */
extern double hjg_model_group_ns(const HjgUnitCosts *costs, const HjgGroupedRows *grouped);
/* Predict the time of merging groups with those of other processes, through files. */
extern double hjg_model_exchange_ns(const HjgUnitCosts *costs, const HjgGroupedRows *grouped);
/*
 * Predict the time of writing groups to files and reading them, until those of a partition fit into memory: by as many partitions at a time, a
 * power of two, as have this much of the memory each.
 */
#define HJG_MODEL_GROUP_PARTITION_BYTES (64 * 1024)
#define HJG_MODEL_GROUP_LEAST_BITS 2
#define HJG_MODEL_GROUP_MOST_BITS 5
extern double hjg_model_group_spill_ns(const HjgUnitCosts *costs, const HjgGroupedRows *grouped, double memory_bytes);
/* Predict the time of emitting the groups, finished or in partial form. */
extern double hjg_model_finish_ns(double ngroups, bool partial);
/* Predict the time of core's sort of values, nvalues of which differ; byval: they are not of variable length. */
extern double hjg_model_sort_ns(double rows, double nvalues, bool byval);

extern void hjg_model_predict(const HjgUnitCosts *costs, const HjgJoinShape *shape, HjgPrediction *prediction);

/* ---- model_crowding.c ---- */

/* Compute how much longer work takes each of so many processes at once than one alone. */
extern double hjg_model_crowding(const HjgUnitCosts *costs, HjgWork work, double nprocesses);
/* Fit that law to n measured times of numbers of processes, which begin with that of one: the least squares. */
extern double hjg_model_crowding_of(const double *nprocesses, const double *times, int n);
/*
 * Predict the time in which each of so many processes reads a table and handles its rows: marshal_ns by a process alone, with the
 * scan's own_ns, or what a filter leaves of it; the time in which it waits for memory; and the mapping of memory, if these are new processes.
 */
extern double hjg_model_crowded_reading_ns(const HjgUnitCosts *costs, const HjgScanTimes *scan, double marshal_ns, double nprocesses);
/*
 * Count the processes, of so many, that map a piece of memory, as the system maps it at once: nranges parts of it were given to one process each, by
 * chance.
 */
extern double hjg_model_mappers(double nprocesses, double nranges);

/* ---------- programs (model_program.c) ---------- */

/* A program, as far as the planner knows it; pages are those of all of its tables. */
typedef struct HjgProgramShape
{
	int			ntables;
	double		pages;
	double		column_pages;	/* pages times the columns that are read of them */
	double		values;			/* rows times columns */
	double		probes;			/* rows that are looked up in hash tables, */
	double		entered;		/* and rows that are entered into them */
	double		collected;		/* rows that are added to groups that another pipeline reads */
	double		divided_values; /* of each of these, what several GPUs divide; each of them does all of the rest */
	double		divided_probes;
	double		divided_entered;
	double		divided_collected;
	double		passed;			/* rows of divided tables that all of them read, as they come in another order than the key's */
	double		passed_pages;	/* of these */
	bool		whole_groups;	/* each group is on one of the GPUs */
	double		table_bytes;	/* all of which take so much memory, with the groups, on the processor's threads */
	double		strings;		/* that are tested one by one */
	double		word_pages;		/* pages times the columns of other strings */
	double		live_pages;		/* that are read, as they have changed, */
	double		live_rows;		/* and their rows */
	double		grouped;		/* rows that come to the groups of the result, */
	double		made;			/* of which there are so many, */
	double		ngroups;		/* and so many come back */
	int			nsteps;			/* of aggregates, for each of these rows */
} HjgProgramShape;

/*
 * Predict the time of a program, with that of the backend that writes it, on so many GPUs: each has a part of the rows that come to the groups, and does
 * all work for other rows that is not divided.
 */
extern double hjg_model_program_ns(const HjgProgramShape *shape, int ndevices, int nthreads);
/* Predict the time of a program, likewise, on so many threads of the processor. */
extern double hjg_model_program_threads_ns(const HjgUnitCosts *costs, const HjgProgramShape *shape, int nthreads);

#endif							/* HJG_MODEL_H */
