/*
 * hjg_group_share.h
 *	  The state that participants of a shared GpuAggregate have in common, and each participant's part of it.
 *
 * Internal to that node; node_group_share.c has the protocol.
 */
#ifndef HJG_GROUP_SHARE_H
#define HJG_GROUP_SHARE_H

#include "postgres.h"

#include "access/parallel.h"
#include "node/hjg_group_file.h"
#include "scan/hjg_scan.h"

/* Figures of EXPLAIN ANALYZE, of one participant or added up. */
typedef struct HjgGroupReport
{
	uint64		nfull;			/* times that the table was full before the child's end */
	uint64		npartitions;	/* partitions that were read back */
	uint64		spilled_bytes;	/* bytes written to files */
	size_t		peak_bytes;
	uint64		read_ns;		/* reading the child and grouping its rows, */
	uint64		write_ns;		/* writing groups to files, */
	uint64		wait_ns;		/* waiting until all participants have read, */
	uint64		merge_ns;		/* and grouping what is read back */
	HjgKeptCounts kept_blocks;
} HjgGroupReport;

typedef struct HjgGroupShare HjgGroupShare;

/* Compute the shared memory for a query that expects so many groups. */
extern Size hjg_group_share_bytes(const ParallelContext *pcxt, double ngroups);
/* Start sharing: in the leader, before there are workers; in a worker. */
extern HjgGroupShare *hjg_group_share_create(MemoryContext context, ParallelContext *pcxt, void *place, double ngroups);
extern HjgGroupShare *hjg_group_share_attach(MemoryContext context, void *place);
/* Reset the share in the leader between two executions; all workers have ended. */
extern void hjg_group_share_reinit(HjgGroupShare *share);
/* Free the participant's part; the shared memory may be gone. */
extern void hjg_group_share_free(HjgGroupShare *share);

/* Take part; false: others have read the child to its end. */
extern bool hjg_group_share_enter(HjgGroupShare *share);
/*
 * Wait until all participants have read the child to its end. any: this participant has groups; written: it has written some.
 * Returns whether all participants must write all of their groups; then hjg_group_share_leave() waits until they have.
 */
extern bool hjg_group_share_all_read(HjgGroupShare *share, bool any, bool written);
extern void hjg_group_share_leave(HjgGroupShare *share);

/* Get the number of low bits of the hash by which groups are divided among partitions. */
extern int	hjg_group_share_bits(const HjgGroupShare *share);
/* Make the file for this participant's groups, in the current memory context; get the array for the ends of its partitions. */
extern HjgGroupFile *hjg_group_share_create_file(HjgGroupShare *share);
extern int64 *hjg_group_share_ends(HjgGroupShare *share);
/* Claim a partition to be merged; false: none is left. */
extern bool hjg_group_share_claim(HjgGroupShare *share, int *partition);
/*
 * Find the file of the next participant, from *member on, that has groups of the partition, and the offset *at from which it
 * is read; *member is set behind it. NULL: no other participant has any.
 */
extern BufFile *hjg_group_share_file(HjgGroupShare *share, int partition, int *member, int64 *at);

/* Leave a worker's figures at the end of an execution; and add those of all workers to *others, in the leader. */
extern void hjg_group_share_report(HjgGroupShare *share, const HjgGroupReport *report);
extern void hjg_group_share_collect(HjgGroupShare *share, HjgGroupReport *others);
extern void hjg_group_report_add(HjgGroupReport *to, const HjgGroupReport *from);

#endif							/* HJG_GROUP_SHARE_H */
