/*
 * node_group_share.c
 *	  A grouping that the leader of a parallel query and its workers share.
 *
 * Each participant reads its share of the child into a table of its own. Then it writes its groups to a file of its own,
 * divided into partitions by their hash. A participant that claims a partition reads it from all files, and merges, finishes
 * and returns its groups.
 *
 * The barrier's phases, which a participant passes through before it returns its first row:
 *		READ	each participant reads its share of the child, and writes its table whenever it is full
 *		WRITE	each writes the rest, unless only one participant has groups and has them all in memory
 *		MERGE	partitions are claimed one by one
 * A participant that comes late enters at the current phase and has nothing to write.
 *
 * Deadlocks. No participant is attached to the barrier when it has a row to emit. So a participant that waits there waits
 * only for processes that read or write, never for one whose rows nobody fetches.
 *
 * All processes have inherited their hash seed from the same postmaster, so a group has the same hash in all of them.
 */
#include "postgres.h"

#include <fcntl.h>

#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_bitutils.h"
#include "storage/barrier.h"
#include "storage/dsm.h"
#include "storage/sharedfileset.h"

#include "base/hjg_base.h"
#include "node/hjg_group_share.h"
#include "planner/hjg_planner.h"

/* Groups of a partition, which should fit together in a core's cache. */
#define PARTITION_GROUPS 16384

/* Least partitions for each participant, so that none is left alone with the last one; most in all, as a power of two. */
#define PARTITIONS_EACH 4
#define MOST_BITS 9

typedef enum Phase
{
	PHASE_READ,
	PHASE_WRITE,
	PHASE_MERGE
} Phase;

/* Written by its participant alone; the leader reads it at the end. */
typedef struct Member
{
	bool		told;
	HjgGroupReport report;
} Member;

typedef struct Shared
{
	/* set by the leader */
	int			nmembers;		/* the leader and all workers that were planned */
	int			bits;
	dsm_handle	segment;
	SharedFileSet files;

	Barrier		barrier;
	pg_atomic_uint32 nholders;	/* participants with groups in memory at the end of the child */
	pg_atomic_uint32 nwriters;	/* participants that wrote some before that */
	pg_atomic_uint32 next;		/* partition to claim */
	Member		members[FLEXIBLE_ARRAY_MEMBER];
	/* then, for each member and partition, an int64: where reading begins */
} Shared;

struct HjgGroupShare
{
	Shared	   *shared;
	int			me;
	int			nmembers;
	MemoryContext context;		/* of files */
	BufFile   **files;			/* [nmembers], open for reading, or NULL */
	Phase		phase;
	bool		writing;		/* all groups are to be written */
};

/* ---------- shared memory ---------- */

static int
partition_bits(int nmembers, double ngroups)
{
	const int	least = pg_ceil_log2_32(nmembers * PARTITIONS_EACH);
	int			bits = least;

	while (bits < MOST_BITS && ngroups > (double) PARTITION_GROUPS * (1 << bits) &&
		   (size_t) HJG_MODEL_GROUP_PARTITION_BYTES << (bits + 1) <= get_hash_memory_limit())
		bits++;
	return bits;
}

static Size
members_bytes(int nmembers)
{
	return MAXALIGN(add_size(offsetof(Shared, members), mul_size(nmembers, sizeof(Member))));
}

static size_t
ends_bytes(int bits)
{
	return sizeof(int64) << bits;
}

static int64 *
ends_of(Shared *shared, int member)
{
	return (int64 *) ((char *) shared + members_bytes(shared->nmembers) + member * ends_bytes(shared->bits));
}

Size
hjg_group_share_bytes(const ParallelContext *pcxt, double ngroups)
{
	const int	nmembers = pcxt->nworkers + 1;

	return add_size(members_bytes(nmembers), mul_size(nmembers, ends_bytes(partition_bits(nmembers, ngroups))));
}

static void
init_share(Shared *shared)
{
	BarrierInit(&shared->barrier, 0);
	pg_atomic_init_u32(&shared->nholders, 0);
	pg_atomic_init_u32(&shared->nwriters, 0);
	pg_atomic_init_u32(&shared->next, 0);
	for (int i = 0; i < shared->nmembers; i++)
		shared->members[i].told = false;
	memset(ends_of(shared, 0), 0, shared->nmembers * ends_bytes(shared->bits));
}

static HjgGroupShare *
make_share(MemoryContext context, Shared *shared, int me)
{
	HjgGroupShare *share = MemoryContextAllocZero(context, sizeof(HjgGroupShare));

	share->shared = shared;
	share->me = me;
	share->nmembers = shared->nmembers;
	share->context = context;
	share->files = MemoryContextAllocZero(context, shared->nmembers * sizeof(BufFile *));
	return share;
}

HjgGroupShare *
hjg_group_share_create(MemoryContext context, ParallelContext *pcxt, void *place, double ngroups)
{
	Shared	   *shared = place;

	/* without a segment there are no workers */
	if (pcxt->seg == NULL)
		return NULL;
	shared->nmembers = pcxt->nworkers + 1;
	shared->bits = partition_bits(shared->nmembers, ngroups);
	shared->segment = dsm_segment_handle(pcxt->seg);
	SharedFileSetInit(&shared->files, pcxt->seg);
	init_share(shared);
	return make_share(context, shared, 0);
}

HjgGroupShare *
hjg_group_share_attach(MemoryContext context, void *place)
{
	Shared	   *shared = place;

	if (ParallelWorkerNumber + 1 >= shared->nmembers)
		elog(ERROR, "more parallel workers than planned");
	SharedFileSetAttach(&shared->files, dsm_find_mapping(shared->segment));
	return make_share(context, shared, ParallelWorkerNumber + 1);
}

static void
close_files(HjgGroupShare *share)
{
	for (int i = 0; i < share->nmembers; i++)
	{
		if (share->files[i] != NULL)
			BufFileClose(share->files[i]);
		share->files[i] = NULL;
	}
}

void
hjg_group_share_free(HjgGroupShare *share)
{
	if (share == NULL)
		return;
	close_files(share);
	pfree(share->files);
	pfree(share);
}

void
hjg_group_share_reinit(HjgGroupShare *share)
{
	close_files(share);
	SharedFileSetDeleteAll(&share->shared->files);
	init_share(share->shared);
}

/* ---------- phases ---------- */

static void
arrive_at_barrier(HjgGroupShare *share)
{
	(void) BarrierArriveAndWait(&share->shared->barrier, hjg_base_wait_event(HJG_WAIT_GROUPS));
	share->phase++;
}

bool
hjg_group_share_enter(HjgGroupShare *share)
{
	share->phase = BarrierAttach(&share->shared->barrier);
	return share->phase == PHASE_READ;
}

bool
hjg_group_share_all_read(HjgGroupShare *share, bool any, bool written)
{
	Shared	   *shared = share->shared;

	if (share->phase == PHASE_READ)
	{
		if (any)
			pg_atomic_fetch_add_u32(&shared->nholders, 1);
		if (written)
			pg_atomic_fetch_add_u32(&shared->nwriters, 1);
		arrive_at_barrier(share);
	}
	share->writing = pg_atomic_read_u32(&shared->nholders) > 1 || pg_atomic_read_u32(&shared->nwriters) > 0;
	return share->writing;
}

void
hjg_group_share_leave(HjgGroupShare *share)
{
	if (share->phase == PHASE_WRITE && share->writing)
		arrive_at_barrier(share);
	BarrierDetach(&share->shared->barrier);
}

/* ---------- partitions ---------- */

int
hjg_group_share_bits(const HjgGroupShare *share)
{
	return share->shared->bits;
}

static void
file_name(int member, char name[NAMEDATALEN])
{
	snprintf(name, NAMEDATALEN, "groups.%d", member);
}

HjgGroupFile *
hjg_group_share_create_file(HjgGroupShare *share)
{
	char		name[NAMEDATALEN];

	file_name(share->me, name);
	return hjg_group_file_create(1 << share->shared->bits, &share->shared->files, name);
}

int64 *
hjg_group_share_ends(HjgGroupShare *share)
{
	return ends_of(share->shared, share->me);
}

bool
hjg_group_share_claim(HjgGroupShare *share, int *partition)
{
	*partition = (int) pg_atomic_fetch_add_u32(&share->shared->next, 1);
	return *partition < 1 << share->shared->bits;
}

BufFile *
hjg_group_share_file(HjgGroupShare *share, int partition, int *member, int64 *at)
{
	int			m = *member;

	while (m < share->shared->nmembers && ends_of(share->shared, m)[partition] == 0)
		m++;
	*member = m + 1;
	if (m >= share->shared->nmembers)
		return NULL;
	if (share->files[m] == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(share->context);
		char		name[NAMEDATALEN];

		file_name(m, name);
		share->files[m] = BufFileOpenFileSet(&share->shared->files.fs, name, O_RDONLY, false);
		MemoryContextSwitchTo(old);
	}
	*at = ends_of(share->shared, m)[partition];
	return share->files[m];
}

/* ---------- figures ---------- */

void
hjg_group_report_add(HjgGroupReport *to, const HjgGroupReport *from)
{
	to->nfull += from->nfull;
	to->npartitions += from->npartitions;
	to->spilled_bytes += from->spilled_bytes;
	to->peak_bytes += from->peak_bytes;
	to->read_ns += from->read_ns;
	to->write_ns += from->write_ns;
	to->wait_ns += from->wait_ns;
	to->merge_ns += from->merge_ns;
	to->kept_blocks.served += from->kept_blocks.served;
	to->kept_blocks.skipped += from->kept_blocks.skipped;
	to->kept_blocks.live += from->kept_blocks.live;
}

void
hjg_group_share_report(HjgGroupShare *share, const HjgGroupReport *report)
{
	Member	   *member = &share->shared->members[share->me];

	member->report = *report;
	pg_write_barrier();
	member->told = true;
}

void
hjg_group_share_collect(HjgGroupShare *share, HjgGroupReport *others)
{
	for (int i = 1; i < share->shared->nmembers; i++)
	{
		Member	   *member = &share->shared->members[i];

		if (!member->told)
			continue;
		member->told = false;
		pg_read_barrier();
		hjg_group_report_add(others, &member->report);
	}
}
