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
 * Using. A scan looks at a page of the map after its snapshot was taken, once for all segments that the page covers: bits and LSN under
 * one share lock.
 *
 *	1. The bit is clear: the page is read live.
 *	2. The bit is set and the map's LSN is the one that the segment knows: used. Whoever changes rows of a page clears the bit before,
 *	   under the page's exclusive lock, and so before its transaction commits, and before any snapshot that sees the change. Setting a
 *	   bit is logged and stamps the map's page with a newer LSN (visibilitymap_set()). So the bit was not cleared, and the page's rows
 *	   are as they were.
 *	3. The bit is set and the map's LSN is another one: some bit of the page's 32,672 was set meanwhile, or cleared, where that
 *	   stamps the page, too (it does in 17.12 and 18.6, not in 15.20). The heap page itself is asked: if it is marked all-visible
 *	   and has the kept LSN, nothing that is logged has changed it. If the look is newer than what the segment knows, the segment
 *	   takes over the map's LSN, and each block that was not asked, as its bit was clear, or has another LSN, is unfit for good
 *	   before that: its bit may have been set when another process looked, whose look has the same LSN and comes to the segment
 *	   later.
 *
 * A look may be older than what it is used for. A change that comes after the look belongs to a transaction that the snapshot does
 * not see, as with index-only scans, or to a later command of the same query, which the snapshot does not see either. Rows that vacuum
 * removes after the look, or freezes, were dead to all snapshots, or alive to all, this one among them, as the snapshot holds back
 * vacuum's horizon. For the same reason an old snapshot sees the same rows of an all-visible page as a new one: the bit could only be
 * set when all snapshots did. So what another process has kept of a page after the look is as good as what was kept before. That is
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
#include "port/pg_bswap.h"
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

/* Bytes of the map that are a segment's. */
#define MAP_BYTES (HJG_KEPT_BLOCKS * BITS_PER_HEAPBLOCK / BITS_PER_BYTE)

StaticAssertDecl(BITS_PER_HEAPBLOCK == 2 && VISIBILITYMAP_ALL_VISIBLE == 1, "all-visible blocks are the map's even bits");

/* Gather the even bits of 8 bytes of the map. */
static uint64
even_bits(const uint8 *bytes)
{
	uint64		bits;

	memcpy(&bits, bytes, sizeof(bits));
#ifdef WORDS_BIGENDIAN
	bits = pg_bswap64(bits);
#endif
	bits &= UINT64CONST(0x5555555555555555);
	bits = (bits | bits >> 1) & UINT64CONST(0x3333333333333333);
	bits = (bits | bits >> 2) & UINT64CONST(0x0f0f0f0f0f0f0f0f);
	bits = (bits | bits >> 4) & UINT64CONST(0x00ff00ff00ff00ff);
	bits = (bits | bits >> 8) & UINT64CONST(0x0000ffff0000ffff);
	return (uint32) (bits | bits >> 16);
}

/* Find the first so many blocks that are all-visible by a segment's bytes of the map. */
static HjgKeptBlocks
find_all_visible(const uint8 *bytes, int nblocks)
{
	HjgKeptBlocks visible;

	for (int w = 0; w < HJG_KEPT_BLOCK_WORDS; w++)
	{
		const int	n = nblocks - w * 64;

		visible.words[w] = even_bits(bytes + w * 16) | even_bits(bytes + w * 16 + 8) << 32;
		if (n < 64)
			visible.words[w] &= n > 0 ? (UINT64CONST(1) << n) - 1 : 0;
	}
	return visible;
}

/* Make space for the segments of a look, and empty it. A small table has few. */
static void
make_room(HjgKeptLook *look)
{
	const int	n = look->end - look->first;

	if (n > look->room)
	{
		if (look->visible != NULL)
			pfree(look->visible);
		look->visible = MemoryContextAlloc(look->context, n * sizeof(HjgKeptBlocks));
		look->room = n;
	}
	memset(look->visible, 0, n * sizeof(HjgKeptBlocks));
}

/* Look at the page of the map that has the segment. */
static void
look_at_page(Relation relation, uint32 number, BlockNumber nblocks, HjgKeptLook *look)
{
	uint8		bytes[HJG_MAP_SEGMENTS * MAP_BYTES] = {0};
	Buffer		map = InvalidBuffer;

	look->first = number / HJG_MAP_SEGMENTS * HJG_MAP_SEGMENTS;
	look->end = Max(Min(look->first + HJG_MAP_SEGMENTS, hjg_kept_count_segments(nblocks)), number + 1);
	look->nblocks = nblocks;
	look->map_lsn = InvalidXLogRecPtr;
	make_room(look);
	(void) visibilitymap_get_status(relation, hjg_kept_first_block(number), &map);	/* pins the page, if there is one */
	if (!BufferIsValid(map))
		return;
	/* bits and LSN must be of one moment */
	LockBuffer(map, BUFFER_LOCK_SHARE);
	look->map_lsn = PageGetLSN(BufferGetPage(map));
	memcpy(bytes, PageGetContents(BufferGetPage(map)), HJG_MAP_BLOCKS * BITS_PER_HEAPBLOCK / BITS_PER_BYTE);
	UnlockReleaseBuffer(map);
	if (XLogRecPtrIsInvalid(look->map_lsn))
		return;
	for (uint32 s = 0; s < look->end - look->first; s++)
		look->visible[s] = find_all_visible(bytes + s * MAP_BYTES, hjg_kept_count_blocks(look->first + s, nblocks));
}

const HjgKeptBlocks *
hjg_kept_look(Relation relation, uint32 number, BlockNumber nblocks, HjgKeptLook *look)
{
	if (number < look->first || number >= look->end || nblocks != look->nblocks)
		look_at_page(relation, number, nblocks, look);
	return &look->visible[number - look->first];
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

/*
 * Take out the blocks whose pages are not as they were. If the look is newer than the one that the segment knows, which was at
 * map_lsn, the segment takes it over, and all other blocks are unfit for good.
 */
static void
compare_pages(Relation relation, HjgKeptSegment *segment, uint64 map_lsn, const HjgKeptLook *look, BufferAccessStrategy strategy, HjgKeptBlocks *valid)
{
	const BlockNumber first = hjg_kept_first_block(segment->number);

	for (int b = -1; (b = hjg_kept_blocks_next(valid, b + 1, segment->nblocks, true)) < segment->nblocks;)
		if (!is_page_same(relation, first + b, segment->lsn[b], strategy))
			hjg_kept_blocks_remove(valid, b);
	if (look->map_lsn < map_lsn)
		return;
	/* this order, as a process that sees the new LSN must not see the unfit blocks */
	for (int w = 0; w < HJG_KEPT_BLOCK_WORDS; w++)
		pg_atomic_fetch_and_u64(&segment->fit[w], valid->words[w]);
	pg_atomic_compare_exchange_u64(&segment->map_lsn, &map_lsn, look->map_lsn);
}

int
hjg_kept_validate(Relation relation, HjgKeptSegment *segment, const HjgKeptLook *look, BufferAccessStrategy strategy, HjgKeptBlocks *valid)
{
	const HjgKeptBlocks *visible = &look->visible[segment->number - look->first];
	const uint64 map_lsn = pg_atomic_read_u64(&segment->map_lsn);

	pg_read_barrier();
	*valid = hjg_kept_fit_blocks(segment);
	for (int w = 0; w < HJG_KEPT_BLOCK_WORDS; w++)
		valid->words[w] &= visible->words[w];
	if (map_lsn != look->map_lsn)
		compare_pages(relation, segment, map_lsn, look, strategy, valid);
	return hjg_kept_blocks_count(valid);
}
