/*
 * hjg_parallel.h
 *	  The state that participants of a join share, and each participant's own part.
 *
 * Private to node_parallel.c, which has the protocol, node_share.c and node_table.c.
 */
#ifndef HJG_PARALLEL_H
#define HJG_PARALLEL_H

#include "postgres.h"

#include "storage/barrier.h"
#include "storage/condition_variable.h"
#include "storage/dsm.h"
#include "storage/lwlock.h"
#include "storage/sharedfileset.h"
#include "utils/dsa.h"

#include "node/hjg_build.h"
#include "node/hjg_node.h"

/* Rows of a range whose keys are not in slabs, for few rows and for many; a range in a slab fills the slab. */
#define HJG_LEAST_RANGE_ROWS 1024
#define HJG_RANGE_ROWS 16384

/* Build rows that a participant claims at a time to find unmatched ones: few, as nodes above may take long for each. */
#define HJG_UNMATCHED_RANGE_ROWS 8192

/* Phases of the barrier; see node_parallel.c. */
typedef enum HjgParallelPhase
{
	HJG_PARALLEL_READ,
	HJG_PARALLEL_SHARE,
	HJG_PARALLEL_ROUTE,
	HJG_PARALLEL_JOIN,
	HJG_PARALLEL_OVER
} HjgParallelPhase;

typedef enum HjgTableState
{
	HJG_TABLE_NONE,
	HJG_TABLE_BUILDING,
	HJG_TABLE_BUILT
} HjgTableState;

/* A participant's entry, written by that participant alone; others read it behind the barrier, the leader at the end. */
typedef struct HjgMember
{
	dsa_pointer blocks;			/* chain of all blocks that it allocated */
	dsa_pointer published;
	uint64		reported_bytes;		/* its part of `bytes` below */
	bool		reported;
	HjgReport	report;
} HjgMember;

/* The table that the backends themselves probe (node_table.c). */
typedef struct HjgSharedTable
{
	pg_atomic_uint32 state;		/* HjgTableState */
	ConditionVariable built;
	dsa_pointer parts[HJG_TABLE_NPARTS];	/* set by the participant that builds it */
} HjgSharedTable;

/* A build side in memory; set by the participant that is elected in SHARE. */
typedef struct HjgSharedBuild
{
	bool		in_job;
	uint64		nrows;
	dsa_pointer range_nrows;	/* uint32 for each range: its rows */
	dsa_pointer matched;		/* bits, if they are kept; those of holes are set */
	dsa_pointer filter;			/* of the build keys, if there is one */
	size_t		filter_bytes;	/* of this filter, or of the partitions' one */
} HjgSharedBuild;

typedef struct HjgSharedPartitions
{
	pg_atomic_uint32 n;			/* 0: all is in memory */
	dsa_pointer places;			/* of shared spill files: build, probe, build, ... */
	dsa_pointer filter;			/* of the build keys in partitions, or invalid */
	pg_atomic_uint32 next;		/* next partition to be claimed */
} HjgSharedPartitions;

/* The comparison with core's join (node_verify.c). */
typedef struct HjgSharedVerify
{
	bool		wanted;
	pg_atomic_uint32 entered;	/* participants that may read rows, */
	pg_atomic_uint32 left;		/* and that have returned their last one; */
	pg_atomic_uint64 nrows;		/* rows that all have returned, and their sum */
	pg_atomic_uint64 sum;
	pg_atomic_uint32 compared;	/* 1: a participant compares, or has compared */
} HjgSharedVerify;

typedef struct HjgParallelShared
{
	/* set by the leader */
	int			nmembers;		/* the leader and all workers that were planned */
	dsm_handle	segment;
	bool		has_job;
	HjgJobName	job;
	HjgJoinSpec spec;
	HjgReason	no_job;			/* reason for having none */
	int			key_width;
	uint32		range_rows;
	double		chunk_rows;		/* rows of a chunk of the row store */
	SharedFileSet files;

	Barrier		barrier;
	pg_atomic_uint32 next_range;
	pg_atomic_uint32 next_block;	/* of variable-length values */
	pg_atomic_uint64 bytes;		/* memory of all participants */
	HjgSharedTable table;
	ConditionVariable all_probed;	/* signalled when the phase is OVER */
	pg_atomic_uint32 next_unmatched;	/* next range of build rows to be checked for a match */
	HjgSharedBuild build;
	LWLock		lock;			/* held while a participant makes the partitions */
	HjgSharedPartitions partitions;
	HjgSharedVerify verify;

	HjgMember	members[FLEXIBLE_ARRAY_MEMBER];
	/* then, for each side, a shared spill file of the rows that are kept for a comparison */
} HjgParallelShared;

static inline size_t
hjg_parallel_members_bytes(int nmembers)
{
	return MAXALIGN(offsetof(HjgParallelShared, members) + nmembers * sizeof(HjgMember));
}

static inline void *
hjg_parallel_kept_place(HjgParallelShared *shared, HjgSideId side)
{
	return (char *) shared + hjg_parallel_members_bytes(shared->nmembers) + side * hjg_rows_spill_shared_bytes(shared->nmembers);
}

/* A participant's own part. */
struct HjgParallel
{
	HjgBuildShare	share;			/* must be first */
	HjgParallelShared *shared;
	dsa_area   *area;
	MemoryContext context;		/* this struct's */
	int			me;				/* the leader is 0 */
	bool		attached;		/* to the barrier */
	uint64		join_started_ns;	/* start of a pass that all join */
	HjgJob	   *owned;			/* leader */
	HjgStore   *store;			/* of the pass that is being read */
	HjgSharing	sharing;
	HjgPartition **partitions;	/* NULL where claimed; in the partitions' context */
	int			npartitions;
};

static inline HjgParallel *
hjg_parallel_of(HjgBuildShare *share)
{
	return (HjgParallel *) share;
}

/* node_share.c: blocks of memory that all participants can access */
extern void *hjg_share_alloc(void *arg, size_t bytes, uint64 *name);
extern void *hjg_share_at(HjgParallel *parallel, uint64 name);
/* Prepare the shared state in the leader, before the side is read. */
extern void hjg_share_prepare(HjgParallel *parallel, const HjgSide *side);
/* Free all that a member allocated. */
extern void hjg_share_free(HjgParallel *parallel, HjgMember *member);

/* node_share.c: the build side */
extern void hjg_share_open_build(HjgBuildShare *share, HjgBuild *build);
extern void hjg_share_next_range(HjgBuildShare *share, HjgKeySegment *segment, size_t *bytes);
extern bool hjg_share_is_full(HjgBuildShare *share, size_t build_bytes);
extern void hjg_share_spilled(HjgBuildShare *share);
/* Publish the memory that this participant has filled. */
extern void hjg_share_publish(HjgParallel *parallel, const HjgBuild *build);
/* Count the rows, make the bits of build rows and an empty filter of keys, after all participants have published. */
extern void hjg_share_sum_up(HjgParallel *parallel, HjgProbeFilter *filter);
/* Add the keys that this participant has read to the filter, if there is one. */
extern void hjg_share_add_keys(HjgParallel *parallel, const HjgRun *run, HjgProbeFilter *filter);
/* Attach to all that was published, which then is a build pass like any other. */
extern void hjg_share_take_in(HjgParallel *parallel, HjgBuild *build, HjgProbeFilter *filter);

/* node_share.c: the partitions */
extern void hjg_share_route(HjgBuildShare *share, HjgPartitions *partitions, double row_bytes);
/* Make this process's view of the partitions; rows are then routed to them. */
extern void hjg_share_attach_partitions(HjgParallel *parallel, HjgPartitions *partitions);
extern void hjg_share_routed(HjgBuildShare *share, HjgPartitions *partitions);
extern bool hjg_share_claim_partition(HjgBuildShare *share, HjgPartitions *partitions);

/* node_table.c */
extern void hjg_share_table(HjgRun *run);

#endif							/* HJG_PARALLEL_H */
