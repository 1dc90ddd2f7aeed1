/*
 * hjg_build.h
 *	  The build side of a join: all that is done with its rows before the first probe row is joined.
 *
 * Room "node".  A build pass (HjgBuild) has as many build rows as fit in memory, in a row store, and their keys, in an HjgRun
 * (hjg_run.h). A join that fits has one pass. Otherwise both sides are written to temporary files by a hash of their keys
 * (HjgPartitions). A partition is one pass, or is partitioned again, or, if hashing cannot divide its keys, has several passes,
 * each joined with all of its probe rows.
 *
 * A pass has a match state (hjg_match.h).
 *
 * If the join drops probe rows without a partner, the plan may ask for a Bloom filter of the build keys (HjgProbeFilter),
 * which drops most such rows as they are read.
 *
 * A build side that several processes share is the same, in memory and files that all of them can access; HjgBuildShare is the
 * interface to the code that shares it (node_parallel.c). Nothing here depends on probing, or on the node.
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

/* Keys of single rows that are added together, because each takes a cache miss. */
#define HJG_FILTER_WAITING 128

typedef struct HjgProbeFilter
{
	const HjgExecution *execution;
	int			key_width;

	HjgBloom	bloom;			/* no words: there is no filter */
	bool		travels;		/* rows are tested by a scan, not by the join (node_travel.c), */
	bool		far;			/* one that is not the outer child itself */
	bool		kept;			/* not given up, because the rows are grouped on the way */
	bool		shared;			/* other processes add keys, too; its memory is theirs */
	bool		open;			/* complete, and still worthwhile; */
	bool		used;			/* it was so in this execution */
	double		most_passing;	/* from this share of passing rows on it is not worthwhile */
	uint64		ntested;		/* since the last check */
	uint64		npassed;
	uint32		nwaiting;		/* keys that are not added yet */
	char		waiting[HJG_FILTER_WAITING * HJG_MAX_KEY_BYTES];
} HjgProbeFilter;

extern void hjg_probe_filter_forget(HjgProbeFilter *filter);
/* Make the filter of a complete build pass, if the plan asks for one. */
extern void hjg_probe_filter_make(HjgProbeFilter *filter, const HjgRun *run);
/* Make the filter of a shared build side; use one that was made; add the run's keys; start testing. */
extern void hjg_probe_filter_share(HjgProbeFilter *filter, void *memory, size_t bytes);
extern void hjg_probe_filter_attach(HjgProbeFilter *filter, void *memory, size_t bytes);
extern void hjg_probe_filter_add_run(HjgProbeFilter *filter, const HjgRun *run);
extern void hjg_probe_filter_open_shared(HjgProbeFilter *filter);
/* Compute the memory of a filter for so many keys that go to partitions, of all participants. */
extern size_t hjg_probe_filter_bytes(double nkeys, int participants);
/*
 * Filter rows that go to partitions: expect nkeys build rows; add one; add those that wait to be added together, after
 * the last; start testing when all are added; end with the probe rows.
 */
extern void hjg_probe_filter_start_partitions(HjgProbeFilter *filter, MemoryContext context, double nkeys);
extern void hjg_probe_filter_add_key(HjgProbeFilter *filter, const void *key);
extern void hjg_probe_filter_add_waiting(HjgProbeFilter *filter);
extern void hjg_probe_filter_open_partitions(HjgProbeFilter *filter);
extern void hjg_probe_filter_end_partitions(HjgProbeFilter *filter);
/*
 * Get the numbers of the rows that pass, in rows[nrows + HJG_BLOOM_ROWS_PAD]; returns how many there are.  isnull: which keys are NULL, or
 * NULL if none is.
 */
extern int	hjg_probe_filter_rows(HjgProbeFilter *filter, const char *keys, const bool *isnull, int nrows, uint16 *rows);
extern bool hjg_probe_filter_row(HjgProbeFilter *filter, const void *key);	/* NULL: the key is NULL */

/* True if the join tests the rows that it reads. */
static inline bool
hjg_probe_filter_is_here(const HjgProbeFilter *filter)
{
	return filter->open && !filter->travels;
}

/* ---------- a build pass (node_build.c) ---------- */

typedef struct HjgBuild
{
	const HjgExecution *execution;
	HjgSide    *side;
	HjgMatch   *match;

	MemoryContext context;		/* of the current pass: */
	HjgRun	   *run;			/* its keys; NULL: there is none */
	HjgStore   *rows;
	uint32		unmatched_next; /* next build row to be checked for a match, */
	uint32		unmatched_end;	/* and the end of the rows that were claimed for that */
	Tuplestorestate *null_rows; /* of all passes: preserved rows with a NULL key */
} HjgBuild;

/* Open an empty pass of a private build side, or of a shared one. */
extern void hjg_build_open(HjgBuild *build, double expected_rows, HjgBuildShare *share);
/* Add a row with a key; add all rows that the child has in vectors, or return false if it must be asked for a single row. */
extern void hjg_build_add_row(HjgBuild *build, const HjgRow *row);
extern bool hjg_build_add_vectors(HjgBuild *build);
/* Set a row with a NULL key aside, if the join preserves it. */
extern void hjg_build_add_null(HjgBuild *build, const HjgRow *row);
/* Compute the memory of the pass, including what its engine will allocate. */
extern size_t hjg_build_bytes(const HjgBuild *build);
extern bool hjg_build_is_full(const HjgBuild *build);
/* Start building the table, after the last row. */
extern void hjg_build_finish(HjgBuild *build);
/* Get the numbers of the next build rows without a match, at most max; returns how many there are, 0 at the end. */
extern int	hjg_build_next_unmatched(HjgBuild *build, uint32 *rows, int max);
/* Read the next row that was set aside, in the side's spill slot; false at the end. */
extern bool hjg_build_next_null(HjgBuild *build);
/* Join the same build side once more. */
extern void hjg_build_rescan(HjgBuild *build);
/* Free the pass; and all that lasts longer than a pass. */
extern void hjg_build_close(HjgBuild *build);
extern void hjg_build_reset(HjgBuild *build);

/* ---------- partitions in temporary files (node_partition.c, node_pass.c) ---------- */

typedef struct HjgPartition
{
	HjgSpill   *build;
	HjgSpill   *probe;
	int			level;			/* number of times that its rows were partitioned */
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
	HjgPartition *current;		/* the partition whose rows are joined, or NULL */
	HjgPartition **routes;		/* while rows are being partitioned: by hash */
	int			nroutes;
	HjgSpill   *null_probe;		/* preserved probe rows with a NULL key */
} HjgPartitions;

/* Choose the number of partitions for so many bytes of build side, with file buffers of that size. */
extern int	hjg_partition_count(double bytes, size_t buffer_bytes);
extern HjgPartition *hjg_partition_adopt(HjgSpill *build, HjgSpill *probe);
extern void hjg_partition_free(HjgPartition *partition);
/* Move the rows of a pass to partitions, when it outgrows memory while the inner child is read. */
extern void hjg_partitions_start(HjgPartitions *partitions, double total_rows, size_t build_bytes);
extern void hjg_partitions_add_build(HjgPartitions *partitions, const HjgRow *row);
/* Read the outer child into the partitions. */
extern void hjg_partitions_read_probe(HjgPartitions *partitions);
/* Replace a partition by its own partitions. */
extern void hjg_partitions_split(HjgPartitions *partitions, HjgPartition *partition, size_t build_bytes);
/* Add the bytes of partitions' files to the report, and note in the counters how large their build side is. */
extern void hjg_partitions_count(HjgPartition *const *partitions, int n, HjgReport *report);
/* Read the next probe row with a NULL key; false at the end. */
extern bool hjg_partitions_next_null(HjgPartitions *partitions, HjgRow *row);
extern void hjg_partitions_reset(HjgPartitions *partitions);

typedef enum HjgFirstPass
{
	HJG_FIRST_PASS_READY,		/* the build side is in memory */
	HJG_FIRST_PASS_SPILLED,		/* both sides are in partitions */
	HJG_FIRST_PASS_NOTHING		/* the join has no result */
} HjgFirstPass;

/* Read the inner child: one pass, or partitions of both sides. */
extern HjgFirstPass hjg_pass_first(HjgPartitions *partitions);
/*
 * Read this process's rows of the inner child into a pass or, once memory is full, into partitions; returns true for
 * partitions.
 */
extern bool hjg_pass_read(HjgPartitions *partitions);
/* Go to the next build pass of partitions; false when there is none. */
extern bool hjg_pass_next(HjgPartitions *partitions);

/* ---------- sharing of a build side (node_parallel.c) ---------- */

struct HjgBuildShare
{
	/* Give a new pass its store and its job. */
	void		(*open_build) (HjgBuildShare *share, HjgBuild *build);
	/* Get a range of row numbers, and the memory for its keys unless there is some already. */
	void		(*next_range) (HjgBuildShare *share, HjgKeySegment *segment, size_t *bytes);
	/* Is memory full, with so many bytes in this process, or has another process found it full? */
	bool		(*is_full) (HjgBuildShare *share, size_t build_bytes);
	/* Give a run the engine with the table that all participants probe. */
	void		(*make_table) (HjgRun *run);
	/* Claim the next of so many build rows to be checked for a match; false when there are none left. */
	bool		(*claim_unmatched) (HjgBuildShare *share, uint64 nrows, uint32 *first, uint32 *end);
	/* Make or find the shared partitions for build rows of so many bytes, and route rows to them. */
	void		(*route) (HjgBuildShare *share, HjgPartitions *partitions, double row_bytes);
	/* Note that all rows of the pass are in the partitions. */
	void		(*spilled) (HjgBuildShare *share);
	/* Note that this participant has written all of its probe rows. */
	void		(*routed) (HjgBuildShare *share, HjgPartitions *partitions);
	/* Put a partition that no other process has taken into the list; false when there is none. */
	bool		(*claim_partition) (HjgBuildShare *share, HjgPartitions *partitions);
};

#endif							/* HJG_BUILD_H */
