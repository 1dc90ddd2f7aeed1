/*
 * hjg_coupled.h
 *	  The coupled engine: CPU threads and a device that shares their memory work on one join together,
 *	  step by step.
 *
 * After He, Lu and He, "Revisiting Co-Processing for Hash Joins on the Coupled CPU-GPU Architecture" (VLDB
 * 2013): a join is a series of steps over rows (kernels/hjg_steps.h).  In each step the CPU works on the
 * first part of the rows and the device on the rest, in a ratio that a cost model chooses.
 *
 * The engine knows nothing of the device itself.  It gives launches to a runner, which runs them in order
 * while the CPU works: coupled_threads.c has a runner made of plain threads, the room "device" one for
 * OpenCL.
 *
 * Pipelines.  After He, Zhang and He, "In-Cache Query Co-Processing on Coupled CPU-GPU Architectures"
 * (VLDB 2015), the units (CPU threads, work groups of the device) may have different tasks: execution (E),
 * prefetching (P) of the memory that E will touch next, and decompression (D) of packed keys, block by
 * block ahead of E (coupled_feed.c, coupled_prefetch.c).
 *
 * Room "coupled": pure C, no postgres.h; linked into the device program only.  Contract, life of a join
 * and ownership are those of hjg_engine.h, results and cursors included, so the cpu engine can finish a
 * batch that was begun here.  The join holds its runner between calls and never calls it from two threads
 * at once.  poll() must not leave by a long jump, because the device may be at work.
 */
#ifndef HJG_COUPLED_H
#define HJG_COUPLED_H

#include "coupled/hjg_coupled_model.h"
#include "coupled/hjg_incache_model.h"
#include "coupled/hjg_pack.h"
#include "engine/hjg_engine.h"
#include "kernels/hjg_steps.h"

/* ---- runners ---- */

typedef struct HjgStepLaunch HjgStepLaunch;

/*
 * A step of the laboratory, over units that it defines: begin and end of its launches count these.  Threads run
 * its loop, and an OpenCL device its kernel, a unit by a work group at a time; the kernel has the arguments of
 * hjg_k_merged and is in the text that hjg_cl_set_text() added.
 */
typedef struct HjgOwnStep
{
	void		(*run) (const HjgStepLaunch *launch, hjg_u32 begin, hjg_u32 end, hjg_u32 worker);
	const char *kernel;
} HjgOwnStep;

/* One launch: a step over rows [begin, end) of the regions described by args. */
struct HjgStepLaunch
{
	HjgStep		step;
	int			width;
	hjg_u32		begin;
	hjg_u32		end;
	hjg_u32		dst_rows;		/* N3: rows of the destination */
	HjgStepArgs args;
	hjg_u8	   *table;
	size_t		table_bytes;
	hjg_u8	   *work;
	size_t		work_bytes;
	void	   *user;			/* HASH: keys; P4: a page of pairs; otherwise NULL */
	size_t		user_bytes;
	const void *packed;			/* blocks unpacked by the first args.unpack_workers work groups;
								 * HJG_STEP_UNPACK does nothing else */
	size_t		packed_bytes;
	HjgStep		ahead_of;		/* HJG_STEP_PREFETCH, in runners made of threads: the launch whose memory
								 * is fetched */
	const HjgOwnStep *own;		/* HJG_STEP_OWN */
};

/* A region lent to a device. */
typedef struct HjgMemory
{
	hjg_u8	   *base;
	size_t		bytes;
} HjgMemory;

/* A part of a region that is about to be used. */
typedef struct HjgRange
{
	hjg_u64		off;
	size_t		bytes;
	bool		reads;
	bool		writes;
} HjgRange;

/* Statistics of finished launches; times in nanoseconds. */
typedef struct HjgRunnerTimes
{
	hjg_u64		busy_ns;		/* time that the device worked on them, without the copies before them */
	hjg_u64		nbegun;			/* launches without copies that found the device idle */
	hjg_u64		begin_ns;		/* for these, from queueing to the start of work */
	hjg_u64		nfollowed;		/* launches without copies that were queued behind another launch */
	hjg_u64		gap_ns;			/* for these, from the end of the other launch to the start of work */
	/* for a device with its own memory */
	hjg_u64		ncopies[HJG_PROCESSORS];	/* to each processor, of regions and keys */
	hjg_u64		crossed_bytes[HJG_PROCESSORS];	/* bytes of these copies, and of pairs */
	hjg_u64		ncopied;		/* launches with copies before them */
	hjg_u64		copy_ns;		/* for these, time that an idle device waited for the copies */
	hjg_u64		copy_call_ns;	/* the calling thread's time to queue these copies */
} HjgRunnerTimes;

/*
 * A device.  Launches run one after the other in the order given.  The memory of a launch stays valid
 * until the launch is done; forget() announces memory that is about to be freed.
 *
 * A device with its own memory works on copies: it has move() and fetch(), and copies only data that
 * changes sides.  For each byte of a region the runner knows the side with the valid copy.  The parts of
 * work's arrays that a launch reads are copied to the device before it (coupled_copies.c determines the
 * rows of each array); the parts that it writes stay there until move() takes them to the host.  The
 * engine moves a table as a whole, before a series that uses it.  A series whose steps scatter (N2, N3,
 * B2, B3, B4) runs on one side: the device or the CPU has all of its rows.
 */
typedef struct HjgRunner
{
	void	   *arg;
	int			nworkers;		/* work groups of a launch, at most HJG_RUNNER_MAX_WORKERS */
	int			ncores;			/* work groups of these that run at once */
	size_t		align_bytes;	/* the CPU works on user memory without this alignment */
	size_t		max_bytes;		/* largest region */
	/* Queue a launch; on HJG_OK *ticket identifies it. */
	HjgStatus	(*launch) (void *arg, const HjgStepLaunch *launch, hjg_u64 *ticket);
	bool		(*done) (void *arg, hjg_u64 ticket);
	/* Wait for the end of a launch; returns its outcome. */
	HjgStatus	(*wait) (void *arg, hjg_u64 ticket);
	void		(*forget) (void *arg, const void *memory);
	void		(*times) (void *arg, HjgRunnerTimes *times);
	/*
	 * NULL: the device works on host memory in place.  Otherwise copies to a processor the parts of the
	 * read ranges that it lacks, and notes that written ranges are valid only there.
	 */
	HjgStatus	(*move) (void *arg, HjgProcessor to, const HjgMemory *memory, const HjgRange *ranges, int nranges);
	/* Read bytes of the device's copy of a region, valid or not. */
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

/* Find the ranges of work that rows [begin, end) of a launch read and write. */
extern void hjg_step_ranges(const HjgStepLaunch *launch, HjgStepRanges *ranges);
extern bool hjg_step_uses_table(HjgStep step);

/* Make a runner of nthreads plain threads, including one that feeds them; NULL on failure. */
extern HjgRunner *hjg_threads_runner_create(int nthreads);
extern void hjg_threads_runner_destroy(HjgRunner *runner);
/* Get the nanoseconds that a runner has spent on launches. */
extern hjg_u64 hjg_threads_runner_busy_ns(const HjgRunner *runner);

/* ---- coupled_units.c ---- */

/*
 * Divide the units of a pipeline on ncpu threads and ngroups work groups.  boundary units decompress,
 * counted from the CPU's first after the fetcher; 0 means half of the threads (C), or a quarter of the
 * work groups (G).  With too few threads the fetcher is left out first, and then the CPU's share of E.
 */
extern HjgUnits hjg_units_of(HjgPipeline pipeline, int ncpu, int ngroups, int boundary);

/* ---- joins ---- */

/*
 * Ratios found for series, of one device and its costs.  The search takes up to a millisecond, and windows
 * and joins of about the same size follow each other.  It starts as zeros.  Joins may share it; a join
 * that finds it in use by another join does without it.
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
	bool		grouping;		/* p3: rows with similar work are neighbours */
	hjg_u32		block_bytes;	/* allocator block; 0: one global pointer */
	hjg_u32		chunk_rows;		/* rows of a launch, and of a basic unit; 0: chosen for the device */
	int			queue_depth;	/* most launches queued on the device */
	hjg_u32		window_rows;	/* probe rows of a window */
	HjgPipeline pipeline;
	size_t		was_bytes;		/* work-ahead set: most bytes that P fetches and D unpacks ahead of E */
	int			boundary;		/* units that decompress, the CPU's first; 0: chosen by pipeline and model */
	size_t		buffer_bytes;	/* largest region (zero-copy buffer); a larger build side is partitioned;
								 * 0: the runner's limit */
	double		bus_latency_ns; /* emulated bus; bandwidth 0: none */
	double		bus_bytes_per_ns;
	const HjgStepCosts *costs;	/* calibrated unit costs; NULL: fixed_ratios */
	HjgSeriesMemos *memos;		/* shared by joins with these costs; NULL: the join has its own */
	double		fixed_ratios[HJG_STEP_COUNT];	/* the CPU's share of each step */
	bool		keep_ratios;	/* use fixed_ratios even with costs, which then only predict */
	hjg_u64		calibration_ns; /* limit after which only the least number of runs is made; 0: none */
} HjgCoupledConfig;

/* Set the default values, with ratios of a half. */
extern void hjg_coupled_defaults(HjgCoupledConfig *config);

typedef struct HjgCoupled HjgCoupled;

/* Statistics of copies to a processor. */
typedef struct HjgCopyTimes
{
	hjg_u64		n;
	hjg_u64		bytes;
	hjg_u64		ns;
} HjgCopyTimes;

/* Statistics of a join, for benchmarks and calibration.  One struct, because they are copied and reported as a whole. */
typedef struct HjgCoupledStats
{
	HjgJobStats join;			/* strategy: that of the cpu engine, if it joined */
	bool		gave_up;		/* the cpu engine joined, because keys collide or a table is too large */
	int			nparts;			/* tables of a build side larger than a buffer; else 0 */
	hjg_u64		copy_ns;		/* time to copy the build side's rows out of the buffer and back */
	HjgCopyTimes moved[HJG_PROCESSORS]; /* tables, to a processor whose copy was not valid */
	hjg_u64		transfer_ns;	/* emulated bus */
	double		predicted_build_ns;
	double		predicted_probe_ns;	/* of the rows probed so far */
	hjg_u64		series_ns;		/* time in series of steps, of all phases */
	hjg_u64		plan_ns;		/* time to search ratios */
	double		ratios[HJG_STEP_COUNT]; /* last used */
	HjgPipeline pipeline;
	HjgUnits	units;
	hjg_u64		pack_ns;		/* time to pack unpacked keys, for pipelines with D */
	hjg_u64		packed_bytes;
	hjg_u64		feed_rows;		/* keys that came packed */
	hjg_u64		hashed_rows;	/* packed keys that were hashed without an array of unpacked keys */
	hjg_u64		feed_ns;		/* time that D worked on the CPU's side */
	hjg_u64		feed_wait_ns;	/* time that E waited for D */
	hjg_u64		fetched_rows;	/* rows of pieces that P fetched */
	HjgInCacheTimes predicted;	/* for the build side, by the costs; 0 without costs */
	hjg_u64		step_rows[HJG_PROCESSORS][HJG_STEP_COUNT];
	hjg_u64		step_taken[HJG_PROCESSORS][HJG_STEP_COUNT]; /* rows of each step that the other processor
															 * had in the previous step */
	hjg_u64		step_ns[HJG_PROCESSORS][HJG_STEP_COUNT];
	hjg_u64		step_pieces[HJG_PROCESSORS][HJG_STEP_COUNT];
	HjgCopyTimes copied[HJG_PROCESSORS][HJG_STEP_COUNT];	/* part of the steps' time: copies of data that
															 * the processor lacked */
	hjg_u64		call_ns;		/* the CPU's time to queue the copies to the device */
	double		predicted_step_ns[HJG_PROCESSORS][HJG_STEP_COUNT];
	double		predicted_delay_ns[HJG_PROCESSORS]; /* between the steps */
	hjg_u64		nqueued[2];		/* pieces queued on the device while it was idle, and behind others */
	hjg_u64		queue_ns[2];	/* the CPU's time to queue them */
	hjg_u64		idle_ns;		/* time that the CPU only waited for the device within series */
	/* effects of settings, some of which a device may not allow */
	hjg_u64		allocations;	/* blocks of key nodes that were taken from the global pointer */
	hjg_u64		merged_buckets; /* of separate tables */
	hjg_u64		grouped_rows;
	hjg_u64		unit_rows;		/* rows of steps that were divided chunk by chunk (BasicUnit) */
	hjg_u64		device_blocks;	/* packed blocks given to the device's units of D */
} HjgCoupledStats;

/* Build a join; runner NULL: the CPU does everything. */
extern HjgStatus hjg_coupled_build(const HjgEnv *env, const HjgCoupledConfig *config, const HjgRunner *runner,
								   int key_width, HjgMatchMode mode,
								   const HjgSegment *segments, int nsegments, HjgCoupled **join);
extern HjgStatus hjg_coupled_probe(HjgCoupled *join, const HjgSegment *segments, int nsegments,
								   HjgCursor *cursor, HjgResult *result);
extern void hjg_coupled_stats(const HjgCoupled *join, HjgCoupledStats *stats);
extern void hjg_coupled_free(HjgCoupled *join);

/*
 * Measure unit costs of all steps on both processors, with joins of generated rows in the first nsizes
 * calibration sizes.
 */
extern HjgStatus hjg_coupled_calibrate(const HjgEnv *env, const HjgCoupledConfig *config, const HjgRunner *runner,
									   int key_width, int nsizes, HjgStepCosts *costs);

#endif							/* HJG_COUPLED_H */
