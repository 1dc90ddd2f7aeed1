/*
 * hjg_build.h
 *	  The build side of a join: what its rows become before the first probe row is joined.
 *
 * Room "node".  What is joined at a time is a build pass (HjgBuild): as many build rows as memory allows, in a row
 * store, and their keys, in an HjgRun (hjg_run.h).  A join that fits has one pass.  Otherwise both sides go to temporary
 * files by a hash of their keys (HjgPartitions); a partition is one pass, or is partitioned once more, or, when its keys
 * cannot be told apart by hashing, is several passes, each joined with all of its probe rows.
 *
 * With the pass comes the match state (hjg_match.h).
 *
 * Where a probe row without a partner is nothing to the join, the plan may ask for a Bloom filter of the build keys
 * (HjgProbeFilter), by which most such rows are dropped as they are read.
 *
 * A build side that several processes share is the same, over memory and files that all of them reach: HjgBuildShare is what
 * is asked of whoever shares it (node_parallel.c).  Nothing here knows of probing, or of the node.
 */
#ifndef HJG_BUILD_H
#define HJG_BUILD_H

#include "postgres.h"

#include "utils/tuplestore.h"

#include "engine/hjg_engine_bloom.h"
#include "node/hjg_execution.h"
#include "node/hjg_match.h"
#include "node/hjg_run.h"
#include "node/hjg_side.h"

/* ---------- the filter of the build keys (node_bloom.c) ---------- */

typedef struct HjgProbeFilter
{
	const HjgExecution *execution;
	int			key_width;

	HjgBloom	bloom;			/* without words: there is none */
	bool		shared;			/* other processes add keys, too; its memory is theirs */
	bool		open;			/* complete, and still worth its while */
	double		most_passing;	/* share of rows from which on it is not */
	uint64		ntested;		/* since it was looked at last */
	uint64		npassed;
} HjgProbeFilter;

extern void hjg_probe_filter_forget(HjgProbeFilter *filter);
/* Make the filter of a build pass that is complete, if there is to be one. */
extern void hjg_probe_filter_load(HjgProbeFilter *filter, const HjgRun *run);
/* Make the filter of a shared build side; use one that was made; add the run's keys; start testing. */
extern void hjg_probe_filter_share(HjgProbeFilter *filter, void *memory, size_t bytes);
extern void hjg_probe_filter_attach(HjgProbeFilter *filter, void *memory, size_t bytes);
extern void hjg_probe_filter_add_run(HjgProbeFilter *filter, const HjgRun *run);
extern void hjg_probe_filter_open_shared(HjgProbeFilter *filter);
/* Count the memory for a filter of so many keys on their way to partitions, of all participants. */
extern size_t hjg_probe_filter_bytes(double nkeys, int participants);
/* Filter rows on their way to partitions: expect nkeys build rows; add one; start testing when all are there; end with the probe rows. */
extern void hjg_probe_filter_start_partitions(HjgProbeFilter *filter, MemoryContext context, double nkeys);
extern void hjg_probe_filter_add_key(HjgProbeFilter *filter, const void *key);
extern void hjg_probe_filter_open_partitions(HjgProbeFilter *filter);
extern void hjg_probe_filter_end_partitions(HjgProbeFilter *filter);
/* Numbers of the rows that pass, into rows[nrows + HJG_BLOOM_ROWS_PAD]; returns how many. */
extern int	hjg_probe_filter_rows(HjgProbeFilter *filter, const char *keys, int nrows, uint16 *rows);
extern bool hjg_probe_filter_row(HjgProbeFilter *filter, const void *key);

/* ---------- a build pass (node_build.c) ---------- */

typedef struct HjgBuild
{
	const HjgExecution *execution;
	HjgSide    *side;
	HjgMatch   *match;

	MemoryContext context;		/* of the pass at hand: */
	HjgRun	   *run;			/* its keys; NULL: there is none */
	HjgStore   *rows;
	uint32		unmatched_next; /* next build row to look at for unmatched ones, */
	uint32		unmatched_end;	/* and where those end that were claimed */
	Tuplestorestate *null_rows; /* of all passes: preserved rows with a NULL key */
} HjgBuild;

/* Open an empty pass, of a build side of this process's own, or of a shared one. */
extern void hjg_build_open(HjgBuild *build, double expected_rows, HjgBuildShare *share);
/* Add a row with a key; the rows that the child has at once, or false if it has to be asked for a single one. */
extern void hjg_build_add_row(HjgBuild *build, const HjgRow *row);
extern bool hjg_build_add_vectors(HjgBuild *build);
/* Set a row with a NULL key aside, if it comes out at all. */
extern void hjg_build_add_null(HjgBuild *build, const HjgRow *row);
/* Count the memory of the pass; what its engine will allocate is counted in advance. */
extern size_t hjg_build_bytes(const HjgBuild *build);
extern bool hjg_build_is_full(const HjgBuild *build);
/* Start building: its rows are complete. */
extern void hjg_build_finish(HjgBuild *build);
/* Numbers of the next build rows without a match, at most max; returns how many, 0 at the end. */
extern int	hjg_build_next_unmatched(HjgBuild *build, uint32 *rows, int max);
/* Read the next row that was set aside, in the side's spill slot; false at the end. */
extern bool hjg_build_next_null(HjgBuild *build);
/* Join the same build side once more. */
extern void hjg_build_rescan(HjgBuild *build);
/* Give back the pass; and what goes beyond one. */
extern void hjg_build_close(HjgBuild *build);
extern void hjg_build_reset(HjgBuild *build);

/* ---------- partitions in temporary files (node_partition.c, node_pass.c) ---------- */

typedef struct HjgPartition
{
	HjgSpill   *build;
	HjgSpill   *probe;
	int			level;			/* how often its rows were partitioned */
	bool		indivisible;	/* partitioning again would not help */
} HjgPartition;

typedef struct HjgPartitions
{
	const HjgExecution *execution;
	HjgBuild   *build;
	HjgSide    *outer;
	HjgProbeFilter *filter;
	HjgBuildShare   *share;			/* NULL: this process joins alone */

	MemoryContext context;		/* NULL: all is in memory */
	List	   *waiting;		/* of HjgPartition */
	HjgPartition *current;		/* whose rows are joined, or NULL */
	HjgPartition **routes;		/* while rows are being partitioned: by hash */
	int			nroutes;
	HjgSpill   *null_probe;		/* preserved probe rows with a NULL key */
} HjgPartitions;

/* Choose how many partitions for so many bytes of build side, with file buffers of that size. */
extern int	hjg_partition_count(double bytes, size_t buffer_bytes);
extern HjgPartition *hjg_partition_adopt(HjgSpill *build, HjgSpill *probe);
extern void hjg_partition_free(HjgPartition *partition);
/* The pass outgrew memory while the inner child is read: move its rows to partitions. */
extern void hjg_partitions_start(HjgPartitions *partitions, double total_rows, size_t build_bytes);
extern void hjg_partitions_add_build(HjgPartitions *partitions, const HjgRow *row);
/* Read the outer child into the partitions. */
extern void hjg_partitions_read_probe(HjgPartitions *partitions);
/* Replace a partition by its own partitions. */
extern void hjg_partitions_split(HjgPartitions *partitions, HjgPartition *partition, size_t build_bytes);
/* Read the next probe row with a NULL key; false at the end. */
extern bool hjg_partitions_next_null(HjgPartitions *partitions, HjgRow *row);
extern void hjg_partitions_reset(HjgPartitions *partitions);

typedef enum HjgFirstPass
{
	HJG_FIRST_PASS_READY,		/* the build side is in memory */
	HJG_FIRST_PASS_SPILLED,		/* both sides are in partitions */
	HJG_FIRST_PASS_NOTHING		/* nothing comes of the join */
} HjgFirstPass;

/* Read the inner child: one pass, or partitions of both sides. */
extern HjgFirstPass hjg_pass_first(HjgPartitions *partitions);
/*
 * Read what the inner child has for this process, into a pass or, once memory is full,
 * into partitions, which it then returns true for.
 */
extern bool hjg_pass_read(HjgPartitions *partitions);
/* Where there are partitions: the next build pass is at hand; false when there is none. */
extern bool hjg_pass_next(HjgPartitions *partitions);

/* ---------- who shares a build side (node_parallel.c) ---------- */

struct HjgBuildShare
{
	/* Give a new pass its store and its job. */
	void		(*open_build) (HjgBuildShare *share, HjgBuild *build);
	/* A range of row numbers and the memory for its keys, unless that is there already. */
	void		(*next_range) (HjgBuildShare *share, HjgKeySegment *segment, size_t *bytes);
	/* Is memory full, with so many bytes here, or has someone found it to be? */
	bool		(*is_full) (HjgBuildShare *share, size_t build_bytes);
	/* Give a run the engine with the table that all participants probe. */
	void		(*make_table) (HjgRun *run);
	/* Claim the next of so many build rows to look at for unmatched ones; false when there are none. */
	bool		(*claim_unmatched) (HjgBuildShare *share, uint64 nrows, uint32 *first, uint32 *end);
	/* Make or find the shared partitions for build rows of so many bytes, and route rows to them. */
	void		(*route) (HjgBuildShare *share, HjgPartitions *partitions, double row_bytes);
	/* Every row of the pass has gone to the partitions. */
	void		(*unload) (HjgBuildShare *share);
	/* This participant has written all its probe rows. */
	void		(*routed) (HjgBuildShare *share, HjgPartitions *partitions);
	/* Put a partition that nobody else has into the list; false when there is none. */
	bool		(*claim_partition) (HjgBuildShare *share, HjgPartitions *partitions);
};

#endif							/* HJG_BUILD_H */
