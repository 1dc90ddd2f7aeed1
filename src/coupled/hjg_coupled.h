/*
 * hjg_coupled.h
 *	  The coupled engine: CPU threads and a device that shares their memory work on
 *	  one join together, step by step.
 *
 * After He, Lu and He, "Revisiting Co-Processing for Hash Joins on the Coupled
 * CPU-GPU Architecture" (VLDB 2013): a join is a series of steps over rows
 * (kernels/hjg_steps.h), and of each step the CPU takes the first part of the rows, in the
 * ratio that a cost model chose, and the device the rest.
 *
 * The engine does not know what the device is.  It hands launches to a runner,
 * which runs them in order and beside the CPU: coupled_threads.c has one made of
 * plain threads, the room "device" has one for OpenCL.
 *
 * Pipelines.  After He, Zhang and He, "In-Cache Query Co-Processing on Coupled CPU-GPU
 * Architectures" (VLDB 2015) the units (CPU threads, work groups of the device) may have
 * different tasks: prefetching (P) what executing (E) will touch next, and decompression (D)
 * of keys that come packed, block after block ahead of E (coupled_feed.c, coupled_prefetch.c).
 *
 * Room "coupled": pure C, no postgres.h; linked into the device program only.
 * Contract, life of a join and ownership are those of hjg_engine.h, results and
 * cursors included, so a batch may be begun here and finished by the cpu engine.  The
 * join holds its runner between calls and never calls it from two threads at
 * once.  poll() must not leave by a long jump: the device may be at work.
 */
#ifndef HJG_COUPLED_H
#define HJG_COUPLED_H

#include "coupled/hjg_coupled_model.h"
#include "coupled/hjg_incache_model.h"
#include "coupled/hjg_pack.h"
#include "engine/hjg_engine.h"
#include "kernels/hjg_steps.h"

/* ---- runners ---- */

/* One launch: a step over rows [begin, end) of the regions described by args. */
typedef struct HjgStepLaunch
{
	HjgStep		step;
	int			width;
	hjg_u32		begin;
	hjg_u32		end;
	hjg_u32		dst_rows;		/* N3: among which it scatters */
	HjgStepArgs args;
	hjg_u8	   *table;
	size_t		table_bytes;
	hjg_u8	   *work;
	size_t		work_bytes;
	void	   *user;			/* HASH: keys; P4: a page of pairs; otherwise NULL */
	size_t		user_bytes;
	const void *packed;			/* what the first args.unpack_workers unpack; HJG_STEP_UNPACK: nothing else is done */
	size_t		packed_bytes;
	HjgStep		ahead_of;		/* HJG_STEP_PREFETCH, which threads alone take: whose memory is fetched */
} HjgStepLaunch;

/* A region that is lent to a device. */
typedef struct HjgMemory
{
	hjg_u8	   *base;
	size_t		bytes;
} HjgMemory;

/* A part of it that is about to be used. */
typedef struct HjgRange
{
	hjg_u64		off;
	size_t		bytes;
	bool		reads;
	bool		writes;
} HjgRange;

/* Figures of launches that were waited for; times in nanoseconds. */
typedef struct HjgRunnerTimes
{
	hjg_u64		busy_ns;		/* the device was at work on them, on copies before them not included */
	hjg_u64		nbegun;			/* had no copies and found it with nothing to do */
	hjg_u64		begin_ns;		/* of these, until it was at work */
	hjg_u64		nfollowed;		/* had no copies and were queued behind another one */
	hjg_u64		gap_ns;			/* of these, from the end of that one until it was at work again */
	/* where the device has memory of its own */
	hjg_u64		ncopies[HJG_PROCESSORS];	/* to a processor, of regions and keys */
	hjg_u64		crossed_bytes[HJG_PROCESSORS];	/* by these, and pairs */
	hjg_u64		ncopied;		/* launches with copies before them */
	hjg_u64		copy_ns;		/* of these, the device had nothing to do but to wait for them */
	hjg_u64		copy_call_ns;	/* of the calling thread's time, to queue these */
} HjgRunnerTimes;

/*
 * A device.  Launches run one after the other in the order given.  The memory of a
 * launch stays valid until it is done; memory that is about to be freed is
 * announced by forget().
 *
 * A device with memory of its own works on copies: it has move() and fetch(), and copies only what crosses.  It knows of each
 * byte of a region whose copy is the good one: what a launch reads of work's arrays comes to it before (coupled_copies.c says
 * which rows of which), and what it writes stays there until move() takes it to the host.  A table is moved as a whole, by the engine,
 * before a series that uses it.  What steps scatter (N2, N3, B2, B3, B4) is on one side alone: all rows of a series are the
 * device's or the CPU's then.
 */
typedef struct HjgRunner
{
	void	   *arg;
	int			nworkers;		/* work groups of a launch, at most HJG_RUNNER_MAX_WORKERS */
	int			ncores;			/* of them, that run at once */
	size_t		align_bytes;	/* user memory must be aligned so, or is left to the CPU */
	size_t		max_bytes;		/* largest region */
	/* Queue a launch; on HJG_OK *ticket names it. */
	HjgStatus	(*launch) (void *arg, const HjgStepLaunch *launch, hjg_u64 *ticket);
	bool		(*done) (void *arg, hjg_u64 ticket);
	/* Returns when the launch has ended; its outcome. */
	HjgStatus	(*wait) (void *arg, hjg_u64 ticket);
	void		(*forget) (void *arg, const void *memory);
	void		(*times) (void *arg, HjgRunnerTimes *times);
	/* NULL: the device works on host memory in place.  Otherwise what is read of the ranges comes to a processor, and what is written is its own from then on. */
	HjgStatus	(*move) (void *arg, HjgProcessor to, const HjgMemory *memory, const HjgRange *ranges, int nranges);
	/* Bytes of its copy of a region, wherever the good one is. */
	HjgStatus	(*fetch) (void *arg, const void *memory, size_t off, size_t bytes, void *into);
} HjgRunner;

#define HJG_RUNNER_MAX_WORKERS 256

/* ---- coupled_copies.c ---- */

#define HJG_STEP_MAX_RANGES (HJG_ARRAYS + 2)

/* Ranges of the work memory that a step uses. */
typedef struct HjgStepRanges
{
	int			n;
	HjgRange	ranges[HJG_STEP_MAX_RANGES];
} HjgStepRanges;

/* Find out what rows [begin, end) of a launch read and write of work. */
extern void hjg_step_ranges(const HjgStepLaunch *launch, HjgStepRanges *ranges);
extern bool hjg_step_uses_table(HjgStep step);

/* Make a runner of nthreads plain threads, one that feeds them included; NULL on failure. */
extern HjgRunner *hjg_threads_runner_create(int nthreads);
extern void hjg_threads_runner_destroy(HjgRunner *runner);
/* Count the nanoseconds that it has spent on launches. */
extern hjg_u64 hjg_threads_runner_busy_ns(const HjgRunner *runner);

/* ---- joins ---- */

/*
 * Ratios that were found for series: looking for them takes up to a millisecond, and windows and joins of about one size
 * follow each other.  Of one device and its costs; starts as zeros.  Joins may share it: who finds another one at it goes without.
 */
#define HJG_SERIES_MEMOS 64

typedef struct HjgSeriesMemo
{
	HjgCoupledStrategy strategy;
	HjgUnits	units;
	double		bus_ns;			/* for a row that changes its processor */
	bool		building;
	HjgPlaces	places;
	bool		is_missing[HJG_PROCESSORS];	/* the table, or parts of it */
	int			nsteps;
	HjgStep		first_step;
	HjgStep		last_step;
	hjg_u32		nrows;
	hjg_u64		table_rows;
	double		ratios[HJG_SERIES_STEPS];
	HjgSeriesTimes predicted;
} HjgSeriesMemo;

typedef struct HjgSeriesMemos
{
	bool		busy;			/* atomic */
	unsigned	next;
	HjgSeriesMemo memos[HJG_SERIES_MEMOS];
} HjgSeriesMemos;

typedef struct HjgCoupledConfig
{
	HjgCoupledStrategy strategy;
	int			cpu_threads;	/* of env->pool; 0: all of them */
	bool		separate_tables;	/* one for each processor, merged after the build; not with BasicUnit */
	bool		grouping;		/* p3: rows of like work together */
	hjg_u32		block_bytes;	/* allocator block; 0: one global pointer */
	hjg_u32		chunk_rows;		/* of a launch, of a basic unit; 0: as suits the device */
	int			queue_depth;	/* launches that the device has at most */
	hjg_u32		window_rows;	/* probe rows at a time */
	HjgPipeline pipeline;
	size_t		was_bytes;		/* work-ahead set: most that P fetches and D unpacks ahead of E */
	int			boundary;		/* units that decompress, from the CPU's on; 0: as the pipeline and the model say */
	size_t		buffer_bytes;	/* largest region (zero-copy buffer), beyond which the build side is partitioned; 0: the runner's limit */
	double		bus_latency_ns; /* emulated bus; bandwidth 0: none */
	double		bus_bytes_per_ns;
	const HjgStepCosts *costs;	/* calibrated unit costs; NULL: fixed_ratios */
	HjgSeriesMemos *memos;		/* of joins under these costs; NULL: the join's own */
	double		fixed_ratios[HJG_STEP_COUNT];	/* the CPU's share of each step */
	bool		keep_ratios;	/* the fixed ones even with costs, which then only predict */
	hjg_u64		calibration_ns; /* no more than the least number of runs after that; 0: as many as are worth while */
} HjgCoupledConfig;

/* Set sensible values; ratios of a half. */
extern void hjg_coupled_defaults(HjgCoupledConfig *config);

typedef struct HjgCoupled HjgCoupled;

/* Figures of copies to a processor. */
typedef struct HjgCopyTimes
{
	hjg_u64		n;
	hjg_u64		bytes;
	hjg_u64		ns;
} HjgCopyTimes;

typedef struct HjgCoupledStats
{
	HjgJobStats join;			/* strategy: HJG_CPU_NOP or _RADIX */
	bool		gave_up;		/* the cpu engine joined: colliding keys, or too large */
	int			nparts;			/* tables of a build side that does not fit a buffer; 0: it does */
	hjg_u64		copy_ns;		/* of its rows, out of the buffer and into it */
	HjgCopyTimes moved[HJG_PROCESSORS]; /* tables, to a processor whose copy was not the good one */
	hjg_u64		transfer_ns;	/* emulated bus */
	double		predicted_build_ns;
	double		predicted_probe_ns;	/* of the rows probed so far */
	hjg_u64		series_ns;		/* in series of steps, of all phases */
	hjg_u64		plan_ns;		/* looking for ratios */
	double		ratios[HJG_STEP_COUNT]; /* as used last */
	HjgPipeline pipeline;
	HjgUnits	units;
	hjg_u64		pack_ns;		/* of keys that came unpacked, where the pipeline wants them packed */
	hjg_u64		packed_bytes;
	hjg_u64		feed_rows;		/* keys that came packed */
	hjg_u64		hashed_rows;	/* of them, hashed without being unpacked into an array first */
	hjg_u64		feed_ns;		/* D was at work on the CPU's side */
	hjg_u64		feed_wait_ns;	/* E waited for it */
	hjg_u64		fetched_rows;	/* of pieces that P fetched */
	HjgInCacheTimes predicted;	/* of the build side, by the costs; 0 without */
	hjg_u64		step_rows[HJG_PROCESSORS][HJG_STEP_COUNT];
	hjg_u64		step_taken[HJG_PROCESSORS][HJG_STEP_COUNT]; /* of them, rows that the other processor had in the step before */
	hjg_u64		step_ns[HJG_PROCESSORS][HJG_STEP_COUNT];
	hjg_u64		step_pieces[HJG_PROCESSORS][HJG_STEP_COUNT];
	HjgCopyTimes copied[HJG_PROCESSORS][HJG_STEP_COUNT];	/* of the steps' time, for what the processor lacked */
	hjg_u64		call_ns;		/* of the CPU's time, to queue those to the device */
	double		predicted_step_ns[HJG_PROCESSORS][HJG_STEP_COUNT];
	double		predicted_delay_ns[HJG_PROCESSORS]; /* between the steps */
	hjg_u64		nqueued[2];		/* pieces of the device's: for one with nothing to do, and behind others */
	hjg_u64		queue_ns[2];	/* of the CPU's time, to queue them */
	hjg_u64		idle_ns;		/* the CPU had nothing to do in a series but to wait for the device */
} HjgCoupledStats;

/* runner NULL: the CPU does everything. */
extern HjgStatus hjg_coupled_build(const HjgEnv *env, const HjgCoupledConfig *config, const HjgRunner *runner,
								   int key_width, HjgMatchMode mode,
								   const HjgSegment *segments, int nsegments, HjgCoupled **join);
extern HjgStatus hjg_coupled_probe(HjgCoupled *join, const HjgSegment *segments, int nsegments,
								   HjgCursor *cursor, HjgResult *result);
extern void hjg_coupled_stats(const HjgCoupled *join, HjgCoupledStats *stats);
extern void hjg_coupled_free(HjgCoupled *join);

/*
 * Measure unit costs of all steps on both processors by joins of made-up rows of
 * the first nsizes calibration sizes.
 */
extern HjgStatus hjg_coupled_calibrate(const HjgEnv *env, const HjgCoupledConfig *config, const HjgRunner *runner,
									   int key_width, int nsizes, HjgStepCosts *costs);

#endif							/* HJG_COUPLED_H */
