/*
 * kept_valid.c
 *	  Decides whether a kept block may be used in place of the heap page.
 *
 * There is no trigger, no hook and no message: what is kept is compared with what core itself maintains, the visibility map and the
 * LSNs of pages.
 *
 * Keeping. A block is kept if all snapshots of all sessions, and all that will be taken, see the same rows of its page. Either the
 * page is marked all-visible, seen under its share lock, after its bit in the visibility map was seen to be set; or vacuum's own test
 * says so of each row, with a horizon that no snapshot is behind: it is dead to all, or it was inserted by a transaction before the horizon
 * and nobody has deleted it. Then the page is settled: rows that were added since the last vacuum are, once no transaction is open
 * that began before they were committed. With the block the page's LSN is kept, and with the segment the LSN of the map's page, read
 * with the bits and before any heap page.
 *
 * Using. A scan looks at a page of the map after its snapshot was taken, once for all segments that the page covers: bits and LSN under
 * one share lock.
 *
 *	1. The bit is clear: the heap page itself is asked. If it has the kept LSN, nothing that is logged has changed it since it was
 *	   kept, and hint bits change no row. If not, the block is unfit for good.
 *	2. The bit is set and the map's LSN is the one that the segment knows: used. Whoever changes rows of a page clears the bit before,
 *	   under the page's exclusive lock, and so before its transaction commits, and before any snapshot that sees the change. Setting a
 *	   bit is logged and stamps the map's page with a newer LSN (visibilitymap_set()). So the bit was not cleared, and the page's rows
 *	   are as they were.
 *	3. The bit is set and the map's LSN is another one: some bit of the page's 32,672 was set meanwhile, or cleared, where that
 *	   stamps the page, too (it does in 17.12 and 18.6, not in 15.20). All heap pages are asked. If the look is newer than what the
 *	   segment knows, the segment takes over the map's LSN, after the blocks that have changed have become unfit.
 *
 * The blocks of a patch are from all over a group of segments; by 1 and 3, their pages are asked each time.
 *
 * Not asking. Where nothing was written to the log since the pages of a segment were asked, they are not asked again: 1 and 3 look for
 * changes that are logged. Where the log ends is read after the snapshot was taken, and before the map is looked at. A change is logged
 * under the page's exclusive lock, which is held until the page has its new LSN, and before its transaction commits. So one that a
 * snapshot sees is in the log before that end; and if it is there, who asks the page later meets the new LSN.
 *
 * By 2, a look from before a change, whose bit is set, may meet a block that was kept after it, as clearing a bit does not stamp the map.
 * The snapshot of that look was there when the block was kept, so it sees the rows that all see.
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
 *	- an LSN of 0 is trusted only if the page has no rows; else it was written without being logged. Adding pages to a table is not
 *	  logged, and from 16 on a bulk insert leaves some dozen at the end that it does not use. The first row of a page is
 *	  logged; but the next file of that number may have been filled without logging, so who asks such a page looks for rows, too.
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

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/transam.h"
#include "access/visibilitymap.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "storage/buf_internals.h"
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

/* Pages that are prefetched at a time, so that the processor finds several of them in the tables of pages at once. */
#define PREFETCH_BLOCKS 16

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

/* Take out all but the first so many blocks. */
static void
cut_off(HjgKeptBlocks *blocks, int nblocks)
{
	for (int w = nblocks / 64; w < HJG_KEPT_BLOCK_WORDS; w++)
		blocks->words[w] &= w == nblocks / 64 ? (UINT64CONST(1) << nblocks % 64) - 1 : 0;
}

/* Find the first so many blocks that are all-visible by a segment's bytes of the map. */
static HjgKeptBlocks
find_all_visible(const uint8 *bytes, int nblocks)
{
	HjgKeptBlocks visible;

	for (int w = 0; w < HJG_KEPT_BLOCK_WORDS; w++)
		visible.words[w] = even_bits(bytes + w * 16) | even_bits(bytes + w * 16 + 8) << 32;
	cut_off(&visible, nblocks);
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
	look->log_end = GetXLogInsertRecPtr();
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

/* Do all snapshots see the row, or does none? Sets *seen. */
static bool
is_settled(HeapTuple tuple, Buffer buffer, TransactionId horizon, bool *seen)
{
	const HTSV_Result state = HeapTupleSatisfiesVacuum(tuple, horizon, buffer);

	*seen = state == HEAPTUPLE_LIVE;
	return state == HEAPTUPLE_DEAD || (*seen && TransactionIdPrecedes(HeapTupleHeaderGetXmin(tuple->t_data), horizon));
}

int
hjg_kept_collect_rows(Relation relation, Buffer buffer, bool all_visible, TransactionId horizon, OffsetNumber *rows, XLogRecPtr *lsn)
{
	const Page	page = BufferGetPage(buffer);
	const int	nlines = Min(PageGetMaxOffsetNumber(page), MaxHeapTuplesPerPage);
	const BlockNumber block = BufferGetBlockNumber(buffer);
	const bool	known = all_visible && PageIsAllVisible(page);
	HeapTupleData tuple = {.t_tableOid = RelationGetRelid(relation)};
	int			n = 0;

	for (OffsetNumber line = FirstOffsetNumber; line <= nlines; line++)
	{
		ItemId		item = PageGetItemId(page, line);
		bool		seen = true;

		if (!ItemIdIsNormal(item))
			continue;
		tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
		tuple.t_len = ItemIdGetLength(item);
		ItemPointerSet(&tuple.t_self, block, line);
		if (!known && !is_settled(&tuple, buffer, horizon, &seen))
			return -1;
		rows[n] = line;
		n += seen ? 1 : 0;
	}
	/* the test sets hint bits, which may be logged */
	*lsn = BufferGetLSNAtomic(buffer);
	return XLogRecPtrIsInvalid(*lsn) && nlines > 0 ? -1 : n;
}

/* Is a buffer's number one? Hints are not trusted. */
static bool
is_buffer(Buffer buffer)
{
	return buffer > 0 && buffer <= NBuffers;
}

/* Pin a block, which is probably in the buffer in which it was last seen; notes where it is. */
static Buffer
pin_likely(Relation relation, BlockNumber block, Buffer *likely, BufferAccessStrategy strategy)
{
	const Buffer buffer = *likely;

	if (is_buffer(buffer) && ReadRecentBuffer(HJG_LOCATOR(relation), MAIN_FORKNUM, block, buffer))
		return buffer;
	return *likely = ReadBufferExtended(relation, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
}

/* Have memory supply the buffers of the next PREFETCH_BLOCKS of these blocks, from b on; returns the one behind them. */
static int
prefetch_pages(const HjgKeptSegment *segment, const HjgKeptBlocks *asked, int b)
{
	for (int i = 0; i < PREFETCH_BLOCKS && b < HJG_KEPT_BLOCKS; i++)
	{
		const Buffer likely = segment->likely[b];

		if (is_buffer(likely))
		{
			__builtin_prefetch(GetBufferDescriptor(likely - 1), 1);
			__builtin_prefetch(BufferGetPage(likely));
		}
		b = hjg_kept_blocks_next(asked, b + 1, HJG_KEPT_BLOCKS, true);
	}
	return b;
}

/* Is the heap page of a segment's block as it was? */
static bool
is_page_same(Relation relation, HjgKeptSegment *segment, int b, BufferAccessStrategy strategy)
{
	const Buffer buffer = pin_likely(relation, hjg_kept_block(segment, b), &segment->likely[b], strategy);
	bool		same;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	same = BufferGetLSNAtomic(buffer) == segment->lsn[b] &&
		(!XLogRecPtrIsInvalid(segment->lsn[b]) || PageGetMaxOffsetNumber(BufferGetPage(buffer)) == 0);
	UnlockReleaseBuffer(buffer);
	return same;
}

/* Ask the pages of these blocks; those that have changed are unfit for good. Returns the others. */
static HjgKeptBlocks
ask_pages(Relation relation, HjgKeptSegment *segment, const HjgKeptBlocks *asked, BufferAccessStrategy strategy)
{
	HjgKeptBlocks same = *asked;
	int			next = 0;

	for (int b = -1; (b = hjg_kept_blocks_next(asked, b + 1, HJG_KEPT_BLOCKS, true)) < HJG_KEPT_BLOCKS;)
	{
		if (b >= next)
			next = prefetch_pages(segment, asked, b);
		if (!is_page_same(relation, segment, b, strategy))
			hjg_kept_blocks_remove(&same, b);
	}
	for (int w = 0; w < HJG_KEPT_BLOCK_WORDS; w++)
		if (same.words[w] != asked->words[w])
			pg_atomic_fetch_and_u64(&segment->fit[w], ~(asked->words[w] & ~same.words[w]));
	return same;
}

/*
 * Were all blocks that are fit valid when the log ended where it did before the look? To be asked before what is fit is read: who notes
 * that has noted before what is unfit.
 */
static bool
is_log_same(const HjgKeptSegment *segment, const HjgKeptLook *look)
{
	const bool	same = pg_atomic_read_u64(unconstify(pg_atomic_uint64 *, &segment->log_end)) == look->log_end;

	pg_read_barrier();
	return same;
}

/* Note that all blocks that are fit were valid after the look. */
static void
note_log_end(HjgKeptSegment *segment, const HjgKeptLook *look)
{
	pg_memory_barrier();
	pg_atomic_write_u64(&segment->log_end, look->log_end);
}

void
hjg_kept_validate_patch(Relation relation, HjgKeptSegment *patch, const HjgKeptLook *look, BufferAccessStrategy strategy, HjgKeptBlocks *valid)
{
	const bool	asks = !is_log_same(patch, look);
	bool		longer = false;

	*valid = hjg_kept_fit_blocks(patch);
	for (int b = 0; b < patch->nblocks; b++)
		if (hjg_kept_block(patch, b) >= look->nblocks)
		{
			hjg_kept_blocks_remove(valid, b);
			longer = true;
		}
	if (!asks)
		return;
	*valid = ask_pages(relation, patch, valid, strategy);
	/* blocks behind the table's end were not asked */
	if (!longer)
		note_log_end(patch, look);
}

int
hjg_kept_validate(Relation relation, HjgKeptSegment *segment, const HjgKeptLook *look, BufferAccessStrategy strategy, HjgKeptBlocks *valid)
{
	const HjgKeptBlocks *visible = &look->visible[segment->number - look->first];
	const bool	asks = !is_log_same(segment, look);
	uint64		map_lsn = pg_atomic_read_u64(&segment->map_lsn);
	HjgKeptBlocks fit;
	HjgKeptBlocks asked;
	HjgKeptBlocks same;

	pg_read_barrier();
	fit = *valid = hjg_kept_fit_blocks(segment);
	/* the table may have become shorter */
	cut_off(valid, hjg_kept_count_blocks(segment->number, look->nblocks));
	asked = *valid;
	for (int w = 0; w < HJG_KEPT_BLOCK_WORDS && map_lsn == look->map_lsn; w++)
		asked.words[w] &= ~visible->words[w];
	if (!asks || hjg_kept_blocks_count(&asked) == 0)
		return hjg_kept_blocks_count(valid);

	same = ask_pages(relation, segment, &asked, strategy);
	/* blocks behind the table's end were not asked */
	if (memcmp(&fit, valid, sizeof(fit)) == 0)
		note_log_end(segment, look);
	for (int w = 0; w < HJG_KEPT_BLOCK_WORDS; w++)
		valid->words[w] &= ~asked.words[w] | same.words[w];
	/* a process that sees the new LSN must not see blocks that are unfit: the compare-and-exchange is a barrier */
	if (look->map_lsn > map_lsn)
		pg_atomic_compare_exchange_u64(&segment->map_lsn, &map_lsn, look->map_lsn);
	return hjg_kept_blocks_count(valid);
}
