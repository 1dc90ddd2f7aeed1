/*
 * scan_kept_open.c
 *	  Opens the segments of a table for a scan: finds out which of their blocks may be used, and makes segments.
 *
 * A segment that is not kept, or much of which is out of date, is made anew by the very scan that comes by, from pages that it would
 * read anyway, if its columns have been read before by another statement.
 *
 * Reading a block live costs about as much as making it from its page, and several times as much as copying it from the old segment. So a
 * segment is made anew when reading its blocks live has cost, since it was made, as much as making it will: a few that have changed are
 * put up with for some queries. A table that changes all the time is not made anew for ever: the more often a segment was made, the more
 * blocks must have been read.
 *
 * A program takes little time for what is kept, and its one process reads all other blocks. So what it reads is kept at once, in a patch for
 * each group of segments (hjg_kept.h), as far as all snapshots see it alike: that takes little more time than reading it. A patch that has
 * some blocks already is made anew when reading others has cost as much as copying these will.
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/visibilitymap.h"
#include "access/xact.h"
#include "catalog/pg_type_d.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/hjg_base.h"
#include "scan/hjg_scan_filter.h"
#include "scan/hjg_scan_heap.h"
#include "scan/hjg_scan_kept.h"

/* Least part of the blocks that are not kept that must be such that they can be. */
#define LEAST_PART 0.5

/* Pages that are asked for that, of those that are not all-visible. */
#define MOST_ASKED 8

/* A query is not to wait for what others gain: making segments may cost this part of what a process does anyway. */
#define MOST_MAKING (1.0 / 16)

/* Part of what a process does anyway that asking pages in vain may cost. */
#define MOST_ASKING (1.0 / 128)

/* Kept blocks that are read, or copied from an old segment, in the time in which one is read live. */
#define KEPT_PER_READ 8

/* Blocks that are read live in the time that a patch takes beside that for its blocks. */
#define LEAST_PATCHED 24

/* Blocks of the largest table whose all-visible ones are counted: more would take longer than a tenth of a millisecond. */
#define MOST_COUNTED_BLOCKS (4 * 1024 * 1024)

/* No two scans give words the same number. */
static uint64 segments_opened = 0;

/* May what is kept of these columns be used, and more of it be kept? */
static bool
may_use(Relation relation, Snapshot snapshot, const Bitmapset *attnos)
{
	if (!hjg_kept_may_serve(relation, snapshot))
		return false;
	for (int attno = -1; (attno = bms_next_member(attnos, attno)) >= 0;)
		if (hjg_kept_is_new(relation, attno))
			return false;
	return true;
}

/* Is there space in the store for so many columns, up to the last attribute? */
static bool
can_be_kept(const Bitmapset *attnos)
{
	const int	n = bms_num_members(attnos);

	return n > 0 && n <= HJG_KEPT_MAX_COLUMNS && bms_prev_member(attnos, -1) <= HJG_KEPT_MAX_ATTNO;
}

HjgKeptOpener *
hjg_scan_kept_opener_create(Relation relation, Snapshot snapshot, const Bitmapset *attnos, HjgScanFilter *filter)
{
	HjgKeptHold *hold;
	HjgKeptOpener *opener;

	if (!can_be_kept(attnos))
		return NULL;
	hold = may_use(relation, snapshot, attnos) ? hjg_kept_hold(relation) : NULL;
	if (hold == NULL && !IsInParallelMode())
		return NULL;
	opener = palloc0(sizeof(HjgKeptOpener));
	opener->relation = relation;
	opener->filter = filter;
	opener->hold = hold;
	opener->wishes = palloc(bms_num_members(attnos) * sizeof(HjgKeptWish));
	for (int attno = -1; (attno = bms_next_member(attnos, attno)) >= 0;)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(relation), attno - 1);

		opener->wishes[opener->nwishes++] = (HjgKeptWish) {
			.attno = attno, .type = att->atttypid, .attlen = att->attlen, .attbyval = att->attbyval,
			.numeric = getBaseType(att->atttypid) == NUMERICOID
		};
	}
	opener->look.context = CurrentMemoryContext;
	opener->attnos = palloc(opener->nwishes * sizeof(AttrNumber));
	for (int c = 0; c < opener->nwishes; c++)
		opener->attnos[c] = opener->wishes[c].attno;
	opener->places = palloc0(opener->nwishes * sizeof(int));
	opener->views = palloc0((bms_prev_member(attnos, -1) + 1) * sizeof(HjgKeptView));
	opener->maker = hjg_scan_segment_maker_create(relation, opener->nwishes, opener->wishes);
	return opener;
}

/* Get the part of a table's blocks that are all-visible now. */
static double
visible_share(Relation relation, BlockNumber nblocks)
{
	/* as the last VACUUM or ANALYZE found it */
	BlockNumber nvisible = relation->rd_rel->relallvisible;
	BlockNumber counted_of = relation->rd_rel->relpages;

	if (nblocks <= MOST_COUNTED_BLOCKS)
	{
		visibilitymap_count(relation, &nvisible, NULL);
		counted_of = nblocks;
	}
	return Min((double) nvisible / Max(counted_of, 1), 1);
}

/* Estimate the parts of a table that are kept; all 0 if they cannot be used. */
static HjgKeptShares
kept_shares(Relation relation, BlockNumber nblocks, const Bitmapset *attnos, bool coded)
{
	AttrNumber	array[HJG_KEPT_MAX_COLUMNS];
	int			n = 0;

	if (!hjg_kept_columns || !can_be_kept(attnos) || IsolationIsSerializable())
		return (HjgKeptShares) {0};
	for (int attno = -1; (attno = bms_next_member(attnos, attno)) >= 0;)
		array[n++] = attno;
	return hjg_kept_shares(relation, nblocks, n, array, coded);
}

double
hjg_scan_kept_share(Relation relation, BlockNumber nblocks, const Bitmapset *attnos, bool coded)
{
	return kept_shares(relation, nblocks, attnos, coded).kept;
}

double
hjg_scan_served_share(Relation relation, BlockNumber nblocks, const Bitmapset *attnos)
{
	const HjgKeptShares shares = kept_shares(relation, nblocks, attnos, false);

	/* blocks that have changed since their last use are neither all-visible nor known to be unfit; settled ones may be all-visible by now */
	return shares.kept > 0 ? shares.kept * Min(shares.fit, visible_share(relation, nblocks) + shares.settled) : 0;
}

bool
hjg_scan_kept_opener_begin(HjgKeptOpener *opener, BlockNumber nblocks)
{
	opener->nblocks = nblocks;
	opener->look.end = 0;
	opener->nvisited = opener->nfound = opener->nmade = 0;
	opener->work = opener->made_work = opener->vain_work = 0;
	opener->made_none = false;
	opener->fills = opener->hold != NULL &&
		hjg_kept_note_read(opener->hold, opener->nwishes, opener->attnos, GetCurrentStatementStartTimestamp());
	return opener->fills && hjg_kept_promises(opener->hold, opener->relation, nblocks, opener->nwishes, opener->attnos);
}

void
hjg_scan_kept_opener_end(HjgKeptOpener *opener)
{
	const bool	useful = opener->nmade > 0 || opener->nfound > HJG_KEPT_LEAST_SHARE * opener->nvisited;

	if (opener->hold != NULL && (useful || opener->made_none))
		hjg_kept_note_scan(opener->hold, opener->nwishes, opener->attnos, !useful);
	hjg_scan_segment_maker_rest(opener->maker);
}

/* Find the columns in the open segment. */
static HjgKeptFound
find_columns(HjgKeptOpener *opener)
{
	HjgKeptFound worst = HJG_KEPT_FOUND;

	for (int c = 0; c < opener->nwishes; c++)
	{
		const HjgKeptWish *wish = &opener->wishes[c];

		worst = Max(worst, hjg_kept_view(opener->open.segment, wish->attno, wish->type, &opener->places[c], &opener->views[wish->attno]));
	}
	return worst;
}

/* Do no rows of the open segment pass the filter? checked: the columns' words may be read, too. */
static bool
is_excluded(const HjgKeptOpener *opener, bool checked)
{
	return opener->filter != NULL && hjg_scan_filter_excludes(opener->filter, opener->views, checked ? opener->open.source : 0);
}

/* Is the memory of the columns as it was written, as far as this process is going to read it? */
static bool
are_columns_whole(const HjgKeptOpener *opener)
{
	const bool	words_only = opener->reads_words_only && hjg_verify_share == 0;

	for (int c = 0; c < opener->nwishes; c++)
	{
		const HjgKeptView *view = &opener->views[opener->wishes[c].attno];

		if (!(words_only ? hjg_kept_check_words(view) : hjg_kept_check(view)))
			return false;
	}
	return true;
}

/* Compare a share of the blocks that may be served with their pages; returns the number of one that differs, or -1. */
static int
find_difference(HjgKeptOpener *opener, BufferAccessStrategy strategy)
{
	uint64		nverified = 0;
	int			different = -1;

	for (int b = 0; b < opener->open.nblocks && different < 0; b++)
		if (hjg_kept_blocks_has(&opener->open.valid, b) && pg_prng_double(&pg_global_prng_state) < hjg_verify_share)
		{
			if (opener->verifier == NULL)
			{
				MemoryContext caller = MemoryContextSwitchTo(GetMemoryChunkContext(opener));

				opener->verifier = hjg_scan_kept_verifier_create(opener->relation, opener->nwishes, opener->wishes);
				MemoryContextSwitchTo(caller);
			}
			nverified++;
			if (!hjg_scan_kept_verify(opener->verifier, opener->open.segment, b, opener->views, strategy))
				different = b;
		}
	hjg_kept_count(opener->hold, 0, 0, nverified);
	return different;
}

/* May the open segment, which has the columns, be trusted? Otherwise it is dropped, or no process uses what is kept any more. */
static bool
is_trusted(HjgKeptOpener *opener, BufferAccessStrategy strategy)
{
	int			different;

	if (opener->open.excluded && hjg_verify_share == 0)
		return true;
	if (!are_columns_whole(opener))
	{
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("kept columns of table \"%s\" have changed in memory", RelationGetRelationName(opener->relation)),
				 errdetail("They are dropped; the table is read instead.")));
		hjg_kept_drop(opener->hold, opener->open.segment);
		return false;
	}
	different = hjg_verify_share > 0 ? find_difference(opener, strategy) : -1;
	if (different < 0)
		return true;
	hjg_kept_distrust();
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("kept columns of table \"%s\" differ from block %u: kept columns are switched off for all sessions",
					RelationGetRelationName(opener->relation), hjg_kept_block(opener->open.segment, different)),
			 errhint("Do not use the result of this statement. Kept columns are used again after a restart of the server.")));
	return false;
}

/* Can the block be kept, though it is not all-visible? */
static bool
can_keep(HjgKeptOpener *opener, BlockNumber block, TransactionId horizon, BufferAccessStrategy strategy)
{
	Buffer		buffer = ReadBufferExtended(opener->relation, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
	OffsetNumber rows[MaxHeapTuplesPerPage];
	XLogRecPtr	lsn;
	bool		can;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	can = hjg_kept_collect_rows(opener->relation, buffer, false, horizon, rows, &lsn) >= 0;
	UnlockReleaseBuffer(buffer);
	return can;
}

/* Can enough of the open segment's blocks that are not valid be kept now? Asks some pages; all of them, if one is enough. */
static bool
pays_to_make(HjgKeptOpener *opener, const HjgKeptBlocks *visible, BufferAccessStrategy strategy)
{
	const HjgOpenSegment *open = &opener->open;
	const TransactionId horizon = GetOldestNonRemovableTransactionId(opener->relation);
	BlockNumber others[HJG_KEPT_BLOCKS];
	int			nothers = 0;
	int			nvisible = 0;
	int			nasked = 0;
	int			nfit = 0;
	int			step;
	bool		pays;

	for (int b = -1; (b = hjg_kept_blocks_next(&open->valid, b + 1, open->nblocks, false)) < open->nblocks;)
		if (hjg_kept_blocks_has(visible, b))
			nvisible++;
		else
			others[nothers++] = open->first_block + b;
	step = opener->fills_all ? 1 : Max(nothers / MOST_ASKED, 1);
	for (int i = 0; i < nothers; i += step)
	{
		nasked++;
		nfit += can_keep(opener, others[i], horizon, strategy);
	}
	pays = nvisible + (double) nothers * nfit / Max(nasked, 1) > (opener->fills_all ? 0 : LEAST_PART * (nvisible + nothers));
	opener->vain_work += pays ? 0 : nasked;
	return pays;
}

/* Note that so many blocks are read live, as they are not in the segment; returns how many that were since it was made. */
static uint64
note_live(HjgKeptSegment *segment, int nlive)
{
	return pg_atomic_fetch_add_u32(&segment->nread, nlive) + (uint64) nlive;
}

/* Count the blocks of the open segment that must be read live. */
static int
count_live(const HjgKeptOpener *opener)
{
	HjgKeptBlocks kept = opener->open.valid;

	hjg_kept_blocks_unite(&kept, &opener->patched);
	return opener->open.nblocks - hjg_kept_blocks_count(&kept);
}

/* Estimate what it takes to make the open segment anew, in blocks that are read. */
static int
making_work(const HjgOpenSegment *open)
{
	const int	nvalid = hjg_kept_blocks_count(&open->valid);

	return open->nblocks - nvalid + nvalid / KEPT_PER_READ;
}

/* Have enough blocks of the open segment been read live since it was made? Notes those that will be now. */
static bool
is_outdated(const HjgKeptOpener *opener)
{
	const int	nlive = count_live(opener);

	return note_live(opener->open.segment, nlive) >= (uint64) making_work(&opener->open) * opener->open.segment->nfills && nlive > 0;
}

/* Add what this process does with the open segment. A program reads what is kept of it in little time. */
static void
count_work(HjgKeptOpener *opener)
{
	const int	nlive = count_live(opener);

	opener->work += nlive + (opener->reads_words_only ? 0 : (opener->open.nblocks - nlive) / KEPT_PER_READ);
}

/* May the process make a segment, for what it does anyway? While a transaction holds back what has changed, that cannot be kept. */
static bool
may_make(const HjgKeptOpener *opener)
{
	return opener->fills_all || (opener->made_work <= opener->work * MOST_MAKING && opener->vain_work <= opener->work * MOST_ASKING);
}

/* Has the open segment space for the columns that are wanted? Otherwise queries of other columns would drive each other's out. */
static bool
has_space(const HjgKeptOpener *opener)
{
	return opener->open.segment->ncolumns + opener->nwishes <= HJG_KEPT_MAX_COLUMNS || opener->fills_all;
}

void
hjg_scan_kept_unpin(HjgKeptOpener *opener)
{
	if (opener->open.segment != NULL)
		hjg_kept_unpin(opener->hold, opener->open.segment);
	opener->open.segment = NULL;
}

void
hjg_scan_kept_open(HjgKeptOpener *opener, uint32 number, BufferAccessStrategy strategy)
{
	HjgOpenSegment *open = &opener->open;
	const HjgKeptBlocks *visible;
	bool		makes;
	HjgKeptFound found = HJG_KEPT_MISSING;

	opener->nvisited++;
	open->segment = NULL;
	open->source = ++segments_opened;
	open->excluded = false;
	open->impossible = false;
	open->first_block = hjg_kept_first_block(number);
	open->nblocks = hjg_kept_count_blocks(number, opener->nblocks);
	open->valid = (HjgKeptBlocks) {0};
	if (opener->hold == NULL || !hjg_kept_trusted())
		return;

	visible = hjg_kept_look(opener->relation, number, opener->nblocks, &opener->look);
	makes = opener->fills;
	open->segment = hjg_kept_pin(opener->hold, number);
	if (open->segment != NULL)
	{
		int			nvalid = 0;
		bool		outdated = false;

		found = find_columns(opener);
		if (found == HJG_KEPT_FOUND)
			hjg_kept_note_use(open->segment);
		if (found != HJG_KEPT_MISSING)
		{
			nvalid = hjg_kept_validate(opener->relation, open->segment, &opener->look, strategy, &open->valid);
			outdated = is_outdated(opener);
		}
		open->excluded = found == HJG_KEPT_FOUND && is_excluded(opener, false);
		if (found == HJG_KEPT_FOUND && !is_trusted(opener, strategy))
		{
			found = HJG_KEPT_MISSING;
			makes &= hjg_kept_trusted();
		}
		makes &= (opener->fills_all ? nvalid < open->nblocks : outdated) || (found == HJG_KEPT_MISSING && has_space(opener));
	}
	if (found == HJG_KEPT_MISSING)
		open->valid = (HjgKeptBlocks) {0};
	count_work(opener);
	if (makes && may_make(opener) && pays_to_make(opener, visible, strategy))
	{
		const int	making = making_work(open);
		/* with the columns that it had, if anybody uses them */
		const HjgKeptSegment *old = open->segment != NULL && hjg_kept_used_lately(open->segment) ? open->segment : NULL;
		HjgKeptSegment *made = hjg_scan_segment_make(opener->maker, opener->hold, number, &opener->look, old, &open->valid, strategy);

		/* memory that is missing for this one is hardly there for the next */
		opener->fills = made != NULL;
		opener->nmade += made != NULL;
		opener->made_work += making;
		opener->made_none |= made == NULL;
		if (made != NULL)
		{
			hjg_scan_kept_unpin(opener);
			open->segment = made;
			open->valid = hjg_kept_fit_blocks(made);
			found = find_columns(opener);
			open->excluded = false;
		}
	}
	open->impossible = found == HJG_KEPT_IMPOSSIBLE;
	opener->nfound += found == HJG_KEPT_FOUND;
	if (found != HJG_KEPT_FOUND)
	{
		open->valid = (HjgKeptBlocks) {0};
		hjg_scan_kept_unpin(opener);
	}
	open->excluded = open->segment != NULL && (open->excluded || is_excluded(opener, true));
}

void
hjg_scan_kept_open_patch(HjgKeptOpener *opener, uint32 number, BufferAccessStrategy strategy)
{
	HjgOpenSegment *open = &opener->open;

	*open = (HjgOpenSegment) {.source = ++segments_opened, .first_block = hjg_kept_first_block(number)};
	open->segment = hjg_kept_trusted() ? hjg_kept_pin(opener->hold, number) : NULL;
	if (open->segment == NULL)
		return;
	open->nblocks = open->segment->nblocks;
	if (find_columns(opener) != HJG_KEPT_FOUND)
		return;
	hjg_kept_note_use(open->segment);
	(void) hjg_kept_look(opener->relation, (number & ~HJG_KEPT_PATCH) * HJG_KEPT_PATCHED, opener->nblocks, &opener->look);
	hjg_kept_validate_patch(opener->relation, open->segment, &opener->look, strategy, &open->valid);
	open->excluded = is_excluded(opener, false);
	if (!is_trusted(opener, strategy))
		open->valid = (HjgKeptBlocks) {0};
}

/* Is it worthwhile to make the open patch anew, with so many further blocks? */
static bool
pays_to_extend(const HjgKeptOpener *opener, uint64 nread, uint32 nblocks)
{
	HjgKeptSegment *patch = opener->open.segment;
	const int	nvalid = hjg_kept_blocks_count(&opener->open.valid);

	if (patch != NULL)
		nread = note_live(patch, nblocks);
	return opener->fills && nblocks > 0 && nvalid + nblocks <= HJG_KEPT_BLOCKS && nread >= LEAST_PATCHED + nvalid / KEPT_PER_READ;
}

void
hjg_scan_kept_extend_patch(HjgKeptOpener *opener, uint32 number, uint64 nread, BlockNumber *blocks, uint32 *nblocks, BufferAccessStrategy strategy)
{
	HjgOpenSegment *open = &opener->open;
	const uint32 nbefore = *nblocks;

	if (pays_to_extend(opener, nread, *nblocks))
	{
		const HjgKeptSegment *old = open->segment != NULL && hjg_kept_used_lately(open->segment) ? open->segment : NULL;
		HjgKeptSegment *made;

		(void) hjg_kept_look(opener->relation, (number & ~HJG_KEPT_PATCH) * HJG_KEPT_PATCHED, opener->nblocks, &opener->look);
		made = hjg_scan_patch_make(opener->maker, opener->hold, number, &opener->look, old, &open->valid, blocks, nblocks, strategy);
		/* columns that cannot be kept of this one can hardly be kept of the next */
		opener->fills = made != NULL && *nblocks <= nbefore / 2;
		if (made != NULL)
		{
			hjg_scan_kept_unpin(opener);
			open->segment = made;
			open->nblocks = made->nblocks;
			open->valid = hjg_kept_fit_blocks(made);
			open->excluded = false;
		}
	}
	if (hjg_kept_blocks_count(&open->valid) == 0)
	{
		hjg_scan_kept_unpin(opener);
		return;
	}
	open->impossible = find_columns(opener) == HJG_KEPT_IMPOSSIBLE;
	open->excluded = !open->impossible && (open->excluded || is_excluded(opener, true));
}

uint64
hjg_scan_kept_keep(HjgKeptOpener *opener, BlockNumber nblocks)
{
	const uint32 nsegments = hjg_kept_count_segments(nblocks);
	uint64		nkept = 0;

	if (opener->hold == NULL)
		return 0;
	(void) hjg_scan_kept_opener_begin(opener, nblocks);
	opener->fills = opener->fills_all = true;
	for (uint32 number = 0; number < nsegments; number++)
	{
		CHECK_FOR_INTERRUPTS();
		hjg_scan_kept_open(opener, number, NULL);
		hjg_scan_kept_unpin(opener);
	}
	/* a table that is larger than the store pushes its own segments out */
	for (uint32 number = 0; number < nsegments; number++)
	{
		const HjgKeptSegment *segment = opener->open.segment = hjg_kept_pin(opener->hold, number);
		HjgKeptBlocks fit;

		if (segment == NULL)
			continue;
		fit = hjg_kept_fit_blocks(segment);
		if (find_columns(opener) == HJG_KEPT_FOUND)
			nkept += hjg_kept_blocks_count(&fit);
		hjg_scan_kept_unpin(opener);
	}
	return nkept;
}
