/*
 * hjg_group_share.h
 *	  State that the participants of a shared GpuAggregate have in common, and each one's part of it.
 *
 * Internal to the files of that node; node_group_share.c has the protocol.
 */
#ifndef HJG_GROUP_SHARE_H
#define HJG_GROUP_SHARE_H

#include "postgres.h"

#include "access/parallel.h"
#include "node/hjg_group_file.h"

/* Figures of EXPLAIN ANALYZE, of one participant or added up. */
typedef struct HjgGroupReport
{
	uint64		nfull;			/* times that the table was full before the end */
	uint64		npartitions;	/* that were read back, */
	uint64		spilled_bytes;	/* of all that was written */
	size_t		peak_bytes;
} HjgGroupReport;

typedef struct HjgGroupShare HjgGroupShare;

/* Memory for the participants of a query that expects so many groups. */
extern Size hjg_group_share_bytes(const ParallelContext *pcxt, double ngroups);
/* Begin to share: the leader, before there are workers; and a worker. */
extern HjgGroupShare *hjg_group_share_create(MemoryContext context, ParallelContext *pcxt, void *place, double ngroups);
extern HjgGroupShare *hjg_group_share_attach(MemoryContext context, void *place);
/* Leader, between two executions: no worker is left. */
extern void hjg_group_share_reinit(HjgGroupShare *share);
/* The shared memory may be gone by now. */
extern void hjg_group_share_free(HjgGroupShare *share);

/* Take part; false: the child was read by others. */
extern bool hjg_group_share_enter(HjgGroupShare *share);
/*
 * Wait until the child was read by all.  any: are there groups here; written: were some written?  Returns whether all
 * are to be written: then, when this one's are, hjg_group_share_leave() waits for those of others.
 */
extern bool hjg_group_share_all_read(HjgGroupShare *share, bool any, bool written);
extern void hjg_group_share_leave(HjgGroupShare *share);

/* By so many bits of the hash, the lowest ones, groups are dealt out. */
extern int	hjg_group_share_bits(const HjgGroupShare *share);
/* Make the file for this participant's groups, in the current memory context; and where the ends of its partitions go. */
extern HjgGroupFile *hjg_group_share_create_file(HjgGroupShare *share);
extern int64 *hjg_group_share_ends(HjgGroupShare *share);
/* Claim a partition to put together; false: none is left. */
extern bool hjg_group_share_claim(HjgGroupShare *share, int *partition);
/*
 * Find the file of the next participant, from *member on, that has groups of the partition, and where to begin to read; *member goes behind
 * it.  NULL: nobody has more.
 */
extern BufFile *hjg_group_share_file(HjgGroupShare *share, int partition, int *member, int64 *at);

/* At the end of an execution: a worker leaves its figures there, the leader adds those of others to *others. */
extern void hjg_group_share_tell(HjgGroupShare *share, const HjgGroupReport *report);
extern void hjg_group_share_collect(HjgGroupShare *share, HjgGroupReport *others);
extern void hjg_group_report_add(HjgGroupReport *to, const HjgGroupReport *from);

#endif							/* HJG_GROUP_SHARE_H */
