/*
 * hjg_coupled_internal.h
 *	  Declarations that the files of the coupled engine share.
 *
 * A join begins with an HjgJoin of its own (engine/hjg_engine_work.h) and has two regions: table and work
 * (kernels/hjg_steps.h).  Files:
 *		coupled_task.c			basics: memory, work of the CPU's threads
 *		coupled_steps.c			the steps as loops of one CPU thread
 *		coupled_series.c		a series of steps over two processors
 *		coupled_series_piece.c	one piece of a series on one processor
 *		coupled_series_shape.c	description of a series for the model
 *		coupled_series_plan.c	division of a series' rows
 *		coupled_series_sides.c	the same for a device that works on copies
 *		coupled_join.c			building, and the interface
 *		coupled_partition.c		the arrays of the rows in work, and partitioning
 *		coupled_table.c			tables: layout, building, merging
 *		coupled_copies.c		places of memory while the device works on copies
 *		coupled_large.c			build sides larger than the device's largest buffer
 *		coupled_probe.c			windows of probe rows, and bounded results
 *		coupled_cut.c			rows that the end of a result cuts
 *		coupled_threads.c		a runner of plain threads
 *		coupled_calibrate.c		joins that measure costs
 *		coupled_costs.c			unit costs from these joins
 *		coupled_units.c			division of units among tasks
 *		coupled_feed_calibrate.c	unit costs of the next three
 *		coupled_feed.c			decompression ahead of a series (D)
 *		coupled_feed_hash.c		hashing of packed keys without decompression
 *		coupled_prefetch.c		fetching ahead of a piece (P)
 */
#ifndef HJG_COUPLED_INTERNAL_H
#define HJG_COUPLED_INTERNAL_H

#include "coupled/hjg_coupled.h"
#include "engine/hjg_engine_work.h"
#include "layout/hjg_clock.h"

/* Allocator states: CPU threads first, then the device's work groups. */
#define HJG_COUPLED_CPU_WORKERS HJG_MAX_SLOTS
#define HJG_COUPLED_WORKERS (HJG_COUPLED_CPU_WORKERS + HJG_RUNNER_MAX_WORKERS)

/* Bits of a partitioning pass; more are shared by two. */
#define HJG_COUPLED_PASS_BITS 8

/* Bytes that a row of a random access step touches. */
#define HJG_COUPLED_LINE_BYTES 64

/* Rows that a CPU thread takes at a time. */
#define HJG_COUPLED_UNIT_ROWS 4096

/* Both regions begin at multiples of this, which suits every device. */
#define HJG_COUPLED_ALIGN 4096

typedef struct HjgRegion
{
	HjgBlock	block;
	hjg_u8	   *base;			/* aligned, within the block */
	size_t		bytes;
} HjgRegion;

/* Arrays of work for the feed: two windows of keys, and scratch memory of the units that unpack. */
typedef struct HjgFeedPlace
{
	hjg_u64		keys_off[2];
	hjg_u64		cpu_scratch_off;
	hjg_u64		device_scratch_off;
} HjgFeedPlace;

/* Threads and memory of a join with prefetching (P) or decompression (D). */
typedef struct HjgPipe
{
	HjgRunner  *fetcher;		/* P; NULL without P */
	HjgRunner  *feeder;			/* D of the CPU's side; NULL: the threads of E unpack between windows */
	hjg_u64		fetch_ticket;
	hjg_u32		was_rows;		/* keys of a window of D */
	HjgFeedPlace place;
	HjgRegion	packed[2];		/* packed by the join itself */
	bool		has_plans;
	HjgPackPlan plans[2];
} HjgPipe;

/* A table of all build rows, or of one partition's (coupled_large.c). */
typedef struct HjgCoupledPart
{
	HjgRegion	table;
	HjgStepArgs args;			/* of the table; the members for work are set for each use */
	hjg_u64		nrows;
	hjg_u32		bucket_bits;
	size_t		missing_bytes[HJG_PROCESSORS];	/* bytes of the table that each processor's copy lacks, for
												 * a device that works on copies */
} HjgCoupledPart;

/* Ascending build rows of the key whose pairs the end of a result cut last. */
typedef struct HjgSortedRows
{
	HjgBlock	block;
	hjg_u32		node;			/* reference of the key node, 0: none */
	const HjgCoupledPart *part;
} HjgSortedRows;

struct HjgCoupled
{
	HjgJoin		base;			/* env, memory, runs, statistics */
	HjgCoupledConfig config;
	const HjgRunner *runner;
	HjgRegion	work;
	HjgCoupledPart whole;		/* the only table in most joins */
	HjgCoupledPart *parts;		/* 1 << part_bits: by the first bits of mixed keys */
	HjgCoupledPart *part;		/* the current part: steps use its table */
	HjgBlock	parts_block;
	int			part_bits;
	int			radix_bits;		/* PHJ: bits that partition the rows of a part further */
	HjgPlaces	places;			/* of work's rows, for a device that works on copies; in a window of parts,
								 * of the current part */
	hjg_u32		window_rows;	/* probe rows at a time */
	hjg_u32		dst_rows;		/* rows of the current partitioning */
	hjg_u64		build_rows;
	int			cpu_threads;
	HjgCoupledStats stats;
	HjgSeriesMemos memos;		/* unless the configuration has memos */

	HjgUnits	units;
	HjgPipe		pipe;
	HjgJoin    *cpu_join;		/* not NULL: this join gave up, and the cpu engine's join does everything */
	HjgBlock	plain_block;	/* unpacked keys for cpu_join */
	HjgSortedRows sorted;
	double		pairs_per_row;	/* in the rounds so far */
};

/* ---- coupled_task.c ---- */

extern bool hjg_coupled_is_partitioned(const HjgCoupled *join);
extern bool hjg_coupled_is_basic_unit(const HjgCoupled *join);
extern HjgScheme hjg_coupled_scheme(const HjgCoupled *join);
/* Reserve bytes for a region; its contents are lost if it grows. */
extern HjgStatus hjg_region_reserve(HjgCoupled *join, HjgRegion *region, size_t bytes);
extern void hjg_coupled_free_region(HjgCoupled *join, HjgRegion *region);
/* Find the largest region that the device takes. */
extern size_t hjg_coupled_buffer_limit(const HjgCoupled *join);
/* Make the join's environment for others, without a pool: their allocations count as the join's. */
extern HjgEnv hjg_coupled_env(HjgCoupled *join);
/* Lay out the next array of a region: n items of item_bytes each; returns its offset. */
extern hjg_u64 hjg_coupled_lay(size_t *bytes, hjg_u64 n, size_t item_bytes);
/* Run fn over [0, nrows) in units on the CPU's threads; fn does not poll. */
typedef void (*HjgRowsFn) (void *arg, hjg_u32 begin, hjg_u32 end, int slot);
extern HjgStatus hjg_coupled_on_cpu(HjgCoupled *join, hjg_u32 begin, hjg_u32 end, hjg_u32 unit_rows,
									HjgRowsFn fn, void *arg);

/* ---- coupled_steps.c ---- */

/* Run rows [begin, end) of a launch, on this thread alone. */
extern void hjg_steps_run(const HjgStepLaunch *launch, hjg_u32 begin, hjg_u32 end, hjg_u32 worker);
extern void hjg_steps_unpack(const HjgStepLaunch *launch, hjg_u32 worker);

/* ---- coupled_feed_hash.c ---- */

/* True if packed keys of this width can be hashed without unpacking. */
extern bool hjg_steps_hashes_packed(int width);
/*
 * Run HASH on the rows [begin, end) of launch->packed that lie in block ix, on this thread; the first row
 * has index 0 in the arrays and row number args.first_row.  scratch: HJG_UNPACK_SCRATCH_BYTES.
 * HJG_ERR_INPUT: the block is damaged.
 */
extern HjgStatus hjg_steps_hash_packed(const HjgStepLaunch *launch, hjg_u32 ix, hjg_u8 *scratch);

/* ---- coupled_prefetch.c ---- */

/*
 * Fetch the memory that rows [begin, end) of launch->ahead_of will touch; without a step, the packed
 * bytes.
 */
extern void hjg_steps_prefetch(const HjgStepLaunch *launch);
/*
 * True if steps are fetched ahead.  Not for a device that works on copies, because the host may lack the
 * memory that its rows refer to.
 */
extern bool hjg_prefetch_is_on(const HjgCoupled *join);
/* True if the step touches memory that is worth fetching. */
extern bool hjg_prefetch_pays(HjgStep step);
/* Start P on a launch, unless P is still busy with another. */
extern void hjg_prefetch_start(HjgCoupled *join, HjgStepLaunch *launch);
/* Wait until P reads nothing more. */
extern void hjg_prefetch_stop(HjgCoupled *join);

/* ---- coupled_units.c ---- */

/* Choose the units for the build side, set everything that depends on them, and start the sets of threads. */
extern HjgStatus hjg_units_assign(HjgCoupled *join, const HjgRuns *runs, const HjgSegment *segments, int nsegments);
extern void hjg_units_release(HjgCoupled *join);
/* Set the units for the following keys, some of which are packed or will be. */
extern void hjg_units_feed(HjgCoupled *join);

/* ---- coupled_series.c ---- */

/*
 * A series over rows [0, nrows).  HASH takes its keys from runs, beginning with row first_run_row of all
 * runs; P4 writes to the pages of result.
 */
typedef struct HjgSeries
{
	int			nsteps;
	HjgStep		steps[HJG_SERIES_STEPS];
	double		ratios[HJG_SERIES_STEPS];
	HjgStepArgs args;
	hjg_u32		nrows;
	const HjgRuns *runs;
	hjg_u64		first_run_row;
	HjgResult  *result;
	bool		splits;			/* b3 puts the device's rows into a separate table */
	bool		building;		/* a series of the build side */
	struct HjgBeside *beside;	/* blocks that the device unpacks meanwhile; NULL: none */
} HjgSeries;

/* Blocks that some of the device's work groups unpack within the series' launches. */
typedef struct HjgBeside
{
	const HjgPackHeader *packed;
	hjg_u64		keys_off;
	hjg_u32		first;			/* block at keys_off */
	hjg_u32		next;			/* first block that is not begun */
	hjg_u32		end;
} HjgBeside;

extern HjgStatus hjg_series_run(HjgCoupled *join, HjgSeries *series);
/* Shift the offsets of work's arrays to row begin; order must count from there, too. */
extern void hjg_series_shift(const HjgCoupled *join, HjgStepArgs *args, hjg_u32 begin);
/* Make a series of rows [begin, begin + nrows) of another series, whose rows must not be reordered. */
extern HjgSeries hjg_series_part(const HjgCoupled *join, const HjgSeries *series, hjg_u32 begin, hjg_u32 nrows);
/* Bytes of a row that a piece takes over from the other processor, without its key. */
#define HJG_SERIES_EXCHANGE_BYTES 12

/* ---- coupled_series_piece.c ---- */

/* Rows [begin, end) of one step, on one processor. */
typedef struct HjgPiece
{
	int			step_ix;		/* in the series */
	hjg_u32		begin;
	hjg_u32		end;
	int			needs;			/* pieces of the other processor that must be done first */
	bool		crosses;		/* its input comes from the other processor or the host */
	hjg_u64		ticket;			/* of its last launch; 0: it has none */
} HjgPiece;

/* Run a piece on the CPU's threads; returns when it is done. */
extern HjgStatus hjg_piece_run(HjgCoupled *join, const HjgSeries *series, const HjgPiece *piece);
/* Queue a piece on the device; npieces: pieces of the device that are not queued yet, including this one. */
extern HjgStatus hjg_piece_queue(HjgCoupled *join, const HjgSeries *series, HjgPiece *piece, int npieces);
extern bool hjg_piece_done(const HjgCoupled *join, const HjgPiece *piece);
/* Wait for a queued piece, and count its time. */
extern HjgStatus hjg_piece_reap(HjgCoupled *join, const HjgSeries *series, const HjgPiece *piece);
/* Make an empty launch over the join's regions. */
extern HjgStepLaunch hjg_series_launch(const HjgCoupled *join, const HjgStepArgs *args, HjgStep step);
/* Wait for a launch, polling meanwhile for some seconds; returns its outcome. */
extern HjgStatus hjg_series_await(const HjgEnv *env, const HjgRunner *runner, hjg_u64 ticket);

/* ---- coupled_copies.c ---- */

/* True if the device works on copies.  If not, the following functions do nothing. */
extern bool hjg_series_copies(const HjgCoupled *join);
/* Copy to the host the memory that the CPU's threads lack to run rows [begin, end) of the launch. */
extern HjgStatus hjg_copies_piece(HjgCoupled *join, const HjgStepLaunch *launch);
/*
 * Copy to the host a part of work that it uses outside a launch; the time counts as the CPU's for the
 * step.
 */
extern HjgStatus hjg_copies_host(HjgCoupled *join, hjg_u64 off, size_t bytes, bool reads, bool writes, HjgStep step);
/* Note that the host has emptied a table's headers. */
extern HjgStatus hjg_copies_new_table(const HjgCoupled *join, HjgCoupledPart *part, size_t header_bytes);
/* Move the table of join->part to a processor that is about to use or change it. */
extern HjgStatus hjg_copies_table(HjgCoupled *join, HjgProcessor to, bool writes);
/* Predict the time to copy bytes of a table for nrows rows, from the join's costs. */
extern double hjg_copies_table_ns(const HjgCoupled *join, HjgProcessor to, double nrows, double bytes);
/* Read the allocator's state of join->part after a series of b2 to b4. */
extern HjgStatus hjg_copies_flags(HjgCoupled *join);

/* ---- coupled_series_shape.c ---- */

/* Most pieces of a step on a processor, besides those at which its rows are cut. */
#define HJG_SERIES_MAX_CHUNKS 64
/* Rows below which a series takes less time than the search for ratios. */
#define HJG_SERIES_FEW_ROWS 4096

/* Count the rows of a piece of a series of nrows rows. */
extern hjg_u32 hjg_series_chunk_rows(const HjgCoupled *join, hjg_u32 nrows);
/* True if the step writes to memory that other rows of the series may write to. */
extern bool hjg_step_scatters(HjgStep step);
/* Find the index of the last step that scatters; -1: none. */
extern int	hjg_series_last_scatter(const HjgSeries *series);
/*
 * Compute the factor by which a processor is slower than its unit costs, which hold for all its units,
 * because some units have another task.
 */
extern double hjg_series_slowdown(const HjgCoupled *join, HjgProcessor processor);
/* Choose the scheme by which ratios of the series are searched. */
extern HjgScheme hjg_series_scheme(const HjgCoupled *join, const HjgSeries *series);
/* Describe the places of the series' rows, for a device that works on copies. */
extern HjgRowsShape hjg_series_rows_shape(const HjgCoupled *join, const HjgSeries *series);
/*
 * Note that a step of the series, or of the previous one, has run with this share of its rows on the CPU:
 * for a device that works on copies, rows have changed places.
 */
extern void hjg_series_passed(HjgCoupled *join, const HjgSeries *series, HjgStep step, double ratio);
/* Describe a series for the model. */
extern HjgSeriesShape hjg_series_shape(const HjgCoupled *join, const HjgSeries *series);
/* Compute the time on the emulated bus of a row that changes its processor. */
extern double hjg_series_bus_ns(const HjgCoupled *join);

/* ---- coupled_series_plan.c ---- */

/* Set the ratios by the model or as fixed; returns the predicted time, 0 without a model. */
extern double hjg_series_plan(HjgCoupled *join, HjgSeries *series);

/* ---- coupled_series_sides.c ---- */

/* Search ratios for a device that works on copies. */
extern void hjg_series_search_sides(const HjgCoupled *join, const HjgSeries *series, double *ratios);

/* ---- coupled_calibrate.c, coupled_feed_calibrate.c ---- */

/* Inputs of the joins that calibration runs. */
typedef struct HjgStepCalibration
{
	HjgBlock	block;
	hjg_u8	   *keys;
	hjg_u8	   *probe_keys;		/* in another order than the build keys */
	HjgPair    *pairs;
} HjgStepCalibration;

/*
 * Measure the costs of the feed and add them to costs, which has all steps; scratch has 2^log keys.
 * unpacks: also measure unpacking on the device, for which its driver may compile for seconds; otherwise
 * the device is assumed to unpack as fast as the CPU.
 */
extern HjgStatus hjg_coupled_calibrate_feed(const HjgEnv *env, const HjgCoupledConfig *config, const HjgRunner *runner,
											int key_width, const HjgStepCalibration *scratch, int log, bool unpacks,
											HjgStepCosts *costs);

/* ---- coupled_feed.c ---- */

/* Plan and run a series that begins with HASH; packed keys are unpacked within it. */
extern HjgStatus hjg_feed_run(HjgCoupled *join, HjgSeries *series, double *predicted_ns);
/* Lay out the feed's arrays behind those of work; returns the bytes of both. */
extern size_t hjg_feed_lay(HjgCoupled *join, size_t bytes);
/* Prepare the segments for the cpu engine; packed keys are unpacked into join->plain_block. */
extern HjgStatus hjg_feed_plain(HjgCoupled *join, const HjgSegment *segments, int nsegments, const HjgSegment **plain);
/* Check packed segments: undamaged headers, and the right numbers of rows. */
extern HjgStatus hjg_feed_open(int key_width, const HjgSegment *segments, int nsegments);

/* ---- coupled_partition.c ---- */

/*
 * Lay out the arrays of work for nrows rows: returns their bytes and sets their offsets in args.  bits: of
 * partition numbers, 0 without partitions.
 */
extern size_t hjg_coupled_lay_work(HjgCoupled *join, hjg_u32 nrows, int bits, HjgStepArgs *args);
/* Count the rows, at most most, for which work fits the largest buffer. */
extern hjg_u32 hjg_coupled_work_rows(HjgCoupled *join, int bits, hjg_u64 most);
/*
 * Partition nrows rows by bits bits of their mixed keys after the first args->skip_bits.  The rows come
 * from runs, or, with runs NULL, lie mixed in work.  On return they are at args->mixed_off and rows_off.
 */
extern HjgStatus hjg_coupled_partition(HjgCoupled *join, const HjgRuns *runs, hjg_u64 first_run_row, hjg_u32 nrows,
									   int bits, HjgStepArgs *args, bool building);
/* Find the first row of a partition; bits must be those of the last hjg_coupled_partition(). */
extern hjg_u32 hjg_coupled_partition_begin(const HjgCoupled *join, const HjgStepArgs *args, hjg_u32 nrows, hjg_u32 partition);

/* ---- coupled_table.c ---- */

/* Write zeros with the CPU's threads. */
extern HjgStatus hjg_coupled_zero(HjgCoupled *join, hjg_u8 *base, size_t bytes);
/* Choose the radix bits for nrows build rows. */
extern int	hjg_coupled_radix_bits(const HjgCoupled *join, hjg_u64 nrows);
extern size_t hjg_coupled_table_bytes(const HjgCoupled *join, hjg_u64 nrows, int part_bits);
/* Count the bytes of a table for all rows that must be zeroed before the build. */
extern size_t hjg_coupled_header_bytes(const HjgCoupled *join, hjg_u64 nrows);
/* Lay out and empty a table for part->nrows rows; HJG_ERR_INPUT when it exceeds the largest buffer. */
extern HjgStatus hjg_coupled_make_table(HjgCoupled *join, HjgCoupledPart *part);
/*
 * Run b1 to b4 into join->part, for rows that lie mixed in work, or in runs; HJG_ERR_INPUT when the table
 * refuses them.
 */
extern HjgStatus hjg_coupled_build_rows(HjgCoupled *join, const HjgStepArgs *work_args, const HjgRuns *runs,
										hjg_u64 first_run_row, hjg_u32 nrows);
/* Merge the device's table into the CPU's, if they are separate. */
extern HjgStatus hjg_coupled_merge_tables(HjgCoupled *join);

/* ---- coupled_cut.c ---- */

/* Emit pairs [skip, skip + n) of row i of work; at: position of the first in the round. */
extern HjgStatus hjg_coupled_emit_cut(HjgCoupled *join, const HjgStepArgs *args, hjg_u32 i, hjg_u64 skip, hjg_u32 n,
									  HjgResult *result, hjg_u64 at);

/* ---- coupled_large.c ---- */

/* Build a table for each partition; HJG_ERR_INPUT when a table does not fit a buffer. */
extern HjgStatus hjg_coupled_build_parts(HjgCoupled *join, const HjgRuns *runs);

#endif							/* HJG_COUPLED_INTERNAL_H */
