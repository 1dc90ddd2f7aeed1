/*
 * kept_valid.c
 *	  When a kept block may be used in place of the heap page.
 *
 * There is no trigger, no hook and no message: what is kept is compared with what core itself maintains, the visibility map and the
 * LSNs of pages.
 *
 * Keeping. A block is read while its page is marked all-visible, seen under the page's share lock, after its bit in the
 * visibility map was seen to be set. With it the page's LSN is kept, and with the segment the LSN of the map's page, read with the
 * bits and before any heap page.
 *
 * Using. A scan looks at the map after its snapshot was taken: bits and LSN of the map's page under one share lock.
 *
 *	1. The bit is clear: the page is read live.
 *	2. The bit is set and the map's LSN is the kept one: used. Whoever changes rows of a page clears the bit before, under the page's
 *	   exclusive lock, and so before its transaction commits, and before any snapshot that sees the change. Setting a bit is logged
 *	   and stamps the map's page with a newer LSN (visibilitymap_set()). So the bit was not cleared, and the page's rows are as they
 *	   were.
 *	3. The bit is set and the map's LSN is another one: some bit of the page's 32,672 was set meanwhile. The heap page itself is
 *	   asked: if it is marked all-visible and has the kept LSN, nothing that is logged has changed it. When all blocks of the segment
 *	   whose bits are set have been asked, the segment takes over the map's LSN; a page with another LSN makes its block stale for
 *	   good.
 *
 * A change that comes after the look belongs to a transaction that the snapshot does not see, as with index-only scans, or to a later
 * command of the same query, which the snapshot does not see either. Rows that vacuum removes after the look, or freezes, were
 * dead to all snapshots, or alive to all, this one among them, as the snapshot holds back vacuum's horizon. For the same reason an
 * old snapshot sees the same rows of an all-visible page as a new one: the bit could only be set when all snapshots did. That is
 * not so in two cases, where nothing is kept and nothing is served: on a standby, whose snapshots do not hold back the primary, and
 * with old_snapshot_threshold (until 16).
 *
 * LSNs say that two states are the same only where all changes are logged:
 *	- temporary and unlogged tables are never kept;
 *	- a table that was created or rewritten by the current transaction is neither kept nor served: with wal_level = minimal its
 *	  changes may be unlogged. Nobody else can read it before that transaction ends;
 *	- an LSN of 0 is never trusted: such a page was written without being logged.
 *
 * The file. What is kept belongs to a file (tablespace, database, file number), not to a table. A rewrite, TRUNCATE, CLUSTER, ALTER
 * TYPE or a move makes a new one. If the number of a dropped file is used again, all of its pages and those of its map have newer
 * LSNs. The end of a table that vacuum has cut off is not asked for, because a scan stops at the table's length; when it grows again,
 * its pages are new ones. Dropped columns are not asked for; a column that is added has another number; its default, which rows
 * from before have, does not change as long as the column is there. The number of a column whose addition was rolled back is used
 * again, so a column is neither kept nor served in the transaction that adds it. A column of another type is another one, even if no row was rewritten.
 * If pg_truncate_visibility_map() removes the map, all bits are clear; bits that are set afterwards come with newer LSNs.
 *
 * Crash and restart: the store is gone with the server's shared memory.
 *
 * Serializable transactions read pages. A writer looks for predicate locks and changes the row under one lock of the page; a reader
 * that takes its predicate lock between the two must meet the change on the page, and the map may not show it yet.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/visibilitymap.h"
#include "access/xact.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "base/hjg_compat.h"
#include "kept/hjg_kept.h"

bool
hjg_kept_may_serve(Relation relation, Snapshot snapshot)
{
	return IsMVCCSnapshot(snapshot) && !snapshot->takenDuringRecovery && !IsolationIsSerializable() && hjg_kept_allows(relation);
}

bool
hjg_kept_is_new(Relation relation, AttrNumber attno)
{
	HeapTuple	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(RelationGetRelid(relation)), Int16GetDatum(attno));
	bool		is_new;

	if (!HeapTupleIsValid(tuple))
		return true;
	is_new = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
	ReleaseSysCache(tuple);
	return is_new;
}

/* Is a block's bit set in a page of the map? As visibilitymap_get_status() finds it, without a call for each block. */
static bool
is_all_visible(const uint8 *bits, BlockNumber block_of_page)
{
	const BlockNumber per_byte = BITS_PER_BYTE / BITS_PER_HEAPBLOCK;

	return (bits[block_of_page / per_byte] >> block_of_page % per_byte * BITS_PER_HEAPBLOCK & VISIBILITYMAP_ALL_VISIBLE) != 0;
}

void
hjg_kept_look(Relation relation, uint32 number, BlockNumber nblocks, HjgKeptLook *look)
{
	const BlockNumber first = hjg_kept_first_block(number);
	Buffer		map = InvalidBuffer;
	const uint8 *bits;

	look->map_lsn = InvalidXLogRecPtr;
	look->nblocks = hjg_kept_count_blocks(number, nblocks);
	look->nvisible = 0;
	memset(look->visible, false, sizeof(look->visible));
	if (look->nblocks == 0)
		return;
	(void) visibilitymap_get_status(relation, first, &map);	/* pins the page, if there is one */
	if (!BufferIsValid(map))
		return;
	/* bits and LSN must be of one moment */
	LockBuffer(map, BUFFER_LOCK_SHARE);
	look->map_lsn = PageGetLSN(BufferGetPage(map));
	bits = (const uint8 *) PageGetContents(BufferGetPage(map));
	for (int b = 0; b < look->nblocks; b++)
	{
		look->visible[b] = is_all_visible(bits, first % HJG_MAP_BLOCKS + b);
		look->nvisible += look->visible[b];
	}
	UnlockReleaseBuffer(map);
	if (XLogRecPtrIsInvalid(look->map_lsn))
	{
		memset(look->visible, false, sizeof(look->visible));
		look->nvisible = 0;
	}
}

bool
hjg_kept_is_page_fit(Page page, XLogRecPtr *lsn)
{
	*lsn = PageGetLSN(page);
	return PageIsAllVisible(page) && !XLogRecPtrIsInvalid(*lsn);
}

/* Is the heap page as it was? */
static bool
is_page_same(Relation relation, BlockNumber block, XLogRecPtr kept_lsn, BufferAccessStrategy strategy)
{
	Buffer		buffer = ReadBufferExtended(relation, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
	XLogRecPtr	lsn;
	bool		same;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	same = hjg_kept_is_page_fit(BufferGetPage(buffer), &lsn) && lsn == kept_lsn;
	UnlockReleaseBuffer(buffer);
	return same;
}

int
hjg_kept_validate(Relation relation, HjgKeptSegment *segment, const HjgKeptLook *look, BufferAccessStrategy strategy, bool *valid)
{
	const BlockNumber first = hjg_kept_first_block(segment->number);
	const int	nblocks = Min(look->nblocks, segment->nblocks);
	const bool	same_map = pg_atomic_read_u64(&segment->map_lsn) == look->map_lsn;
	int			nvalid = 0;

	memset(valid, false, HJG_KEPT_BLOCKS * sizeof(bool));
	for (int b = 0; b < nblocks; b++)
	{
		if (!look->visible[b] || !segment->kept[b] || segment->stale[b])
			continue;
		valid[b] = same_map || is_page_same(relation, first + b, segment->lsn[b], strategy);
		if (!valid[b])
			segment->stale[b] = true;
		nvalid += valid[b];
	}
	if (!same_map)
		pg_atomic_write_u64(&segment->map_lsn, look->map_lsn);
	return nvalid;
}
