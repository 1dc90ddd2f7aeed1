/*
 * scan_collect.c
 *	  Collects all rows of a sequential scan for a program: the valid blocks of kept columns as runs of their segments and patches, and the
 *	  rows of all other blocks as segments that are made for this purpose alone. Fetches further columns of single rows later.
 *
 * The blocks that must be read are known before the first of them is read, so a table with too many of them costs little time.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/hjg_base.h"
#include "huge/hjg_huge.h"
#include "scan/hjg_scan_filter.h"
#include "scan/hjg_scan_heap.h"
#include "scan/hjg_scan_kept.h"

/* Reasons for which rows cannot be collected. */
#define NO_PAGES "rows are not read from pages"
#define NOT_KEPT "columns are not kept"
#define NO_VALUES "values of a column cannot be kept"
#define MANY_LIVE "too many blocks have to be read"

/* Most blocks that are read, whatever the size of the table: their columns take memory of this process, and of the program. */
#define MOST_LIVE_BLOCKS (HJG_PROGRAM_MAX_BYTES / BLCKSZ)

/* A patch, and the blocks of its segments that must be read. */
typedef struct CollectedPatch
{
	HjgOpenSegment open;
	HjgKeptBlocks needed;		/* its valid blocks that are not in the segments */
	uint64		nread;			/* blocks that were read live, with those of this scan, since the segments were made */
	uint32		first_live;		/* of Collector.live */
} CollectedPatch;

typedef struct Collector
{
	TableScanDesc scan;
	HjgKeptOpener *opener;
	HjgCollection *to;
	int			max_segments;	/* for which there is space */
	uint32		nlive;
	uint32		most_live;
	BlockNumber *live;			/* [most_live]: to be read; ascending */
	CollectedPatch *patches;	/* one for each HJG_KEPT_PATCHED segments, from the first ones on */
	uint16		patched[HJG_KEPT_BLOCKS];	/* of the open segment: the blocks of its patch */
} Collector;

/* Have all columns values? */
static bool
are_kept(const HjgKeptColumn *const *columns, int ncolumns)
{
	for (int c = 0; c < ncolumns; c++)
		if (columns[c]->code == HJG_KEPT_NOT)
			return false;
	return true;
}

/* Add a segment, if it has rows; returns why it cannot be used, or NULL. */
static const char *
add_segment(Collector *collector, const HjgCollectedSegment *segment)
{
	HjgCollection *to = collector->to;
	uint64		nrows = 0;

	for (int r = 0; r < segment->nruns; r++)
		nrows += segment->runs[r].end_row - segment->runs[r].first_row;
	if (nrows == 0)
		return NULL;
	if (!are_kept(segment->columns, to->ncolumns))
		return NO_VALUES;
	if (to->nsegments == collector->max_segments)
	{
		collector->max_segments *= 2;
		to->segments = repalloc_huge(to->segments, collector->max_segments * sizeof(HjgCollectedSegment));
	}
	to->segments[to->nsegments++] = *segment;
	to->nrows += nrows;
	return NULL;
}

/* ---------- kept columns ---------- */

/* Find the rows of the valid blocks; returns the number of runs. */
static int
find_runs(const HjgOpenSegment *open, HjgProgramRun *runs)
{
	const uint32 *first_row = open->segment->first_row;
	int			n = 0;
	int			end;

	for (int b = hjg_kept_blocks_next(&open->valid, 0, open->nblocks, true); b < open->nblocks;
		 b = hjg_kept_blocks_next(&open->valid, end, open->nblocks, true))
	{
		end = hjg_kept_blocks_next(&open->valid, b, open->nblocks, false);
		if (first_row[b] == first_row[end])
			continue;
		if (n > 0 && runs[n - 1].end_row == first_row[b])
			runs[n - 1].end_row = first_row[end];
		else
			runs[n++] = (HjgProgramRun) {first_row[b], first_row[end]};
	}
	return n;
}

/* List the blocks of the open segment, which is a patch. */
static BlockNumber *
list_blocks(const HjgOpenSegment *open)
{
	BlockNumber *blocks = palloc(open->nblocks * sizeof(BlockNumber));

	for (int b = 0; b < open->nblocks; b++)
		blocks[b] = hjg_kept_block(open->segment, b);
	return blocks;
}

/* Take the open segment over, with its pin. */
static const char *
take_segment(Collector *collector, uint32 number)
{
	HjgKeptOpener *opener = collector->opener;
	HjgProgramRun runs[HJG_KEPT_BLOCKS];
	HjgCollectedSegment segment = {
		.number = number, .nrows = opener->open.segment->nrows, .nruns = find_runs(&opener->open, runs),
		.nblocks = opener->open.nblocks, .first_block = opener->open.first_block, .first_row = opener->open.segment->first_row,
		.blocks = (number & HJG_KEPT_PATCH) != 0 ? list_blocks(&opener->open) : NULL
	};
	const HjgKeptColumn **columns = palloc(opener->nwishes * sizeof(HjgKeptColumn *));

	for (int c = 0; c < opener->nwishes; c++)
		columns[c] = opener->views[opener->wishes[c].attno].column;
	segment.columns = columns;
	segment.runs = memcpy(palloc(Max(segment.nruns, 1) * sizeof(HjgProgramRun)), runs, segment.nruns * sizeof(HjgProgramRun));
	opener->open.segment = NULL;
	return add_segment(collector, &segment);
}

/* Open the patch of the segments from this one on. */
static void
open_patch(Collector *collector, uint32 number)
{
	HjgKeptOpener *opener = collector->opener;

	hjg_scan_kept_open_patch(opener, hjg_kept_patch(number), ((HeapScanDesc) collector->scan)->rs_strategy);
	collector->patches[number / HJG_KEPT_PATCHED] = (CollectedPatch) {.open = opener->open, .first_live = collector->nlive};
	opener->open.segment = NULL;
}

/* Find the blocks of a segment that its patch has. */
static void
find_patched(Collector *collector, uint32 number)
{
	const HjgOpenSegment *patch = &collector->patches[number / HJG_KEPT_PATCHED].open;
	HjgKeptBlocks *patched = &collector->opener->patched;

	*patched = (HjgKeptBlocks) {0};
	for (int p = -1; (p = hjg_kept_blocks_next(&patch->valid, p + 1, patch->nblocks, true)) < patch->nblocks;)
	{
		const uint16 offset = patch->segment->offset[p];

		if (offset / HJG_KEPT_BLOCKS == number % HJG_KEPT_PATCHED)
		{
			hjg_kept_blocks_add(patched, offset % HJG_KEPT_BLOCKS);
			collector->patched[offset % HJG_KEPT_BLOCKS] = p;
		}
	}
}

/* Note the blocks of the open segment that must be read, and those that its patch has; false if the former are too many. */
static bool
note_other_blocks(Collector *collector, uint32 number)
{
	const HjgOpenSegment *open = &collector->opener->open;

	for (int b = -1; (b = hjg_kept_blocks_next(&open->valid, b + 1, open->nblocks, false)) < open->nblocks;)
		if (hjg_kept_blocks_has(&collector->opener->patched, b))
			hjg_kept_blocks_add(&collector->patches[number / HJG_KEPT_PATCHED].needed, collector->patched[b]);
		else if (collector->nlive == collector->most_live)
			return false;
		else
			collector->live[collector->nlive++] = open->first_block + b;
	return true;
}

/* Has a patch blocks that are valid, none of which is needed? Its segments were made anew, and have them. */
static bool
is_needless(const CollectedPatch *patch)
{
	return hjg_kept_blocks_count(&patch->open.valid) > 0 && hjg_kept_blocks_count(&patch->needed) == 0;
}

/* Take the patches over, as far as they are needed; blocks that must be read come into them. Returns why a column cannot be used, or NULL. */
static const char *
take_patches(Collector *collector, uint32 npatches)
{
	HjgKeptOpener *opener = collector->opener;
	const uint32 nbefore = collector->nlive;
	const char *refusal = NULL;

	collector->nlive = 0;
	for (uint32 p = 0; p < npatches && refusal == NULL; p++)
	{
		const CollectedPatch *patch = &collector->patches[p];
		BlockNumber *live = collector->live + patch->first_live;
		uint32		nlive = (p + 1 < npatches ? patch[1].first_live : nbefore) - patch->first_live;

		/* otherwise all of its pages would be asked each time */
		if (is_needless(patch))
			hjg_kept_drop(opener->hold, patch->open.segment);
		opener->open = patch->open;
		opener->open.valid = patch->needed;
		hjg_scan_kept_extend_patch(opener, HJG_KEPT_PATCH | p, patch->nread, live, &nlive, ((HeapScanDesc) collector->scan)->rs_strategy);
		memmove(collector->live + collector->nlive, live, nlive * sizeof(BlockNumber));
		collector->nlive += nlive;
		if (opener->open.impossible)
			refusal = NO_VALUES;
		else if (opener->open.segment != NULL && !opener->open.excluded)
			refusal = take_segment(collector, HJG_KEPT_PATCH | p);
		else
			hjg_scan_kept_unpin(opener);
	}
	return refusal;
}

/* Go through all segments; returns why their columns cannot be used, or NULL. */
static const char *
collect_kept(Collector *collector)
{
	HjgKeptOpener *opener = collector->opener;
	HjgCollection *to = collector->to;
	const uint32 nsegments = hjg_kept_count_segments(opener->nblocks);
	const char *refusal = NULL;

	for (uint32 number = 0; number < nsegments && refusal == NULL; number++)
	{
		const HjgOpenSegment *open = &opener->open;
		uint32		nlive = collector->nlive;

		CHECK_FOR_INTERRUPTS();
		if (number % HJG_KEPT_PATCHED == 0)
			open_patch(collector, number);
		find_patched(collector, number);
		hjg_scan_kept_open(opener, number, ((HeapScanDesc) collector->scan)->rs_strategy);
		if (open->impossible)
			return NO_VALUES;
		if (!note_other_blocks(collector, number))
			return MANY_LIVE;
		nlive = collector->nlive - nlive;
		collector->patches[number / HJG_KEPT_PATCHED].nread += open->segment != NULL ? pg_atomic_read_u32(&open->segment->nread) : nlive;
		to->counts.live += nlive;
		if (open->excluded)
			to->counts.skipped += open->nblocks - nlive;
		else
			to->counts.served += open->nblocks - nlive;
		if (open->segment != NULL && !open->excluded)
			refusal = take_segment(collector, number);
		else
			hjg_scan_kept_unpin(opener);
	}
	if (refusal == NULL)
		refusal = take_patches(collector, hjg_kept_count_patches(nsegments));
	hjg_scan_segment_maker_rest(opener->maker);
	/* a segment that was taken before another one showed a difference */
	return refusal == NULL && !hjg_kept_trusted() ? NOT_KEPT : refusal;
}

/* ---------- other blocks ---------- */

/* Make a segment of the builder's rows, and empty it: those of these blocks, of which each has its first row. */
static const char *
take_built(Collector *collector, HjgKeptBuilder *builder, int nblocks, const BlockNumber *blocks, const uint32 *first_row)
{
	const int	ncolumns = collector->opener->nwishes;
	HjgKeptView *views = palloc(ncolumns * sizeof(HjgKeptView));
	const HjgKeptColumn **columns = palloc(ncolumns * sizeof(HjgKeptColumn *));
	const char **memory = palloc(ncolumns * sizeof(char *));
	HjgProgramRun *run = palloc(sizeof(HjgProgramRun));
	const uint32 nrows = hjg_kept_builder_write(builder, views);

	*run = (HjgProgramRun) {0, nrows};
	for (int c = 0; c < ncolumns; c++)
	{
		columns[c] = views[c].column;
		memory[c] = views[c].memory;
	}
	pfree(views);
	hjg_kept_builder_reset(builder);
	return add_segment(collector, &(HjgCollectedSegment) {
		.columns = columns, .memory = memory, .number = collector->to->nsegments, .nrows = nrows, .nruns = 1, .runs = run,
		.nblocks = nblocks, .blocks = blocks, .first_row = memcpy(palloc((nblocks + 1) * sizeof(uint32)), first_row, (nblocks + 1) * sizeof(uint32))
	});
}

/* Read the noted blocks; returns why their rows cannot be used, or NULL. */
static const char *
collect_live(Collector *collector)
{
	const HjgKeptOpener *opener = collector->opener;
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "hjoin_gpu collected blocks", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(work);
	HjgVector  *vectors = palloc(opener->nwishes * sizeof(HjgVector));
	HjgHeapReader *reader = hjg_scan_heap_reader_create(RelationGetDescr(opener->relation), opener->nwishes, collector->to->attnos,
														MaxHeapTuplesPerPage, vectors);
	HjgKeptBuilder *builder = hjg_kept_builder_create(opener->nwishes, opener->wishes);
	HjgHeapPage page = {0};
	uint32		first_row[HJG_KEPT_BLOCKS + 1] = {0};
	const char *refusal = NULL;

	MemoryContextSwitchTo(caller);
	for (uint32 i = 0; i < collector->nlive && refusal == NULL; i++)
	{
		int			nblocks;

		hjg_scan_heap_go_to(collector->scan, collector->live[i], i + 1 < collector->nlive ? collector->live[i + 1] : InvalidBlockNumber, &page);
		hjg_scan_heap_read(reader, &page, 0);
		hjg_kept_builder_add(builder, 0, InvalidXLogRecPtr, false, vectors, page.nrows);
		nblocks = hjg_kept_builder_blocks(builder);
		first_row[nblocks] = first_row[nblocks - 1] + page.nrows;
		if (nblocks == HJG_KEPT_BLOCKS || i + 1 == collector->nlive)
			refusal = take_built(collector, builder, nblocks, collector->live + i + 1 - nblocks, first_row);
	}
	hjg_scan_heap_leave(collector->scan);
	MemoryContextDelete(work);
	return refusal;
}

/* ---------- the whole ---------- */

/* Get the descriptor of the scan, made now if there is none yet. */
static TableScanDesc
need_scan(SeqScanState *seq)
{
	EState	   *estate = seq->ss.ps.state;

	if (seq->ss.ss_currentScanDesc == NULL)
	{
		MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);

		seq->ss.ss_currentScanDesc = table_beginscan(seq->ss.ss_currentRelation, estate->es_snapshot, 0, NULL);
		MemoryContextSwitchTo(caller);
	}
	return seq->ss.ss_currentScanDesc;
}

/* Begin with an empty collection; returns why the columns cannot be used at all, or NULL. */
static const char *
begin_collection(Collector *collector, double most_live)
{
	HjgKeptOpener *opener = collector->opener;
	HjgCollection *to = collector->to;

	opener->reads_words_only = true;
	if (!hjg_scan_kept_opener_begin(opener, ((HeapScanDesc) collector->scan)->rs_nblocks))
		return NOT_KEPT;
	to->hold = opener->hold;
	to->ncolumns = opener->nwishes;
	to->attnos = opener->attnos;
	collector->patches = palloc_extended(Max(hjg_kept_count_patches(hjg_kept_count_segments(opener->nblocks)), 1) * sizeof(CollectedPatch), MCXT_ALLOC_HUGE);
	collector->max_segments = hjg_kept_count_segments(opener->nblocks) + 1;
	to->segments = palloc_extended(collector->max_segments * sizeof(HjgCollectedSegment), MCXT_ALLOC_HUGE);
	collector->most_live = (uint32) Min(Min(most_live, 1.0) * opener->nblocks, MOST_LIVE_BLOCKS);
	collector->live = palloc_extended(Max(collector->most_live, 1) * sizeof(BlockNumber), MCXT_ALLOC_HUGE);
	return NULL;
}

const char *
hjg_scan_collect(SeqScanState *seq, const Bitmapset *attnos, HjgScanFilter *filter, double most_live, HjgCollection *collection)
{
	Collector	collector = {.to = collection};
	Bitmapset  *columns = bms_copy(attnos);
	const char *refusal;

	*collection = (HjgCollection) {0};
	hjg_huge_look();
	if (!hjg_kept_columns || !hjg_scan_reads_pages(&seq->ss.ps))
		return NO_PAGES;
	collector.scan = need_scan(seq);
	if (collector.scan->rs_parallel != NULL)
		return NO_PAGES;
	if (filter != NULL)
		columns = hjg_scan_filter_add_columns(filter, columns);
	collector.opener = hjg_scan_kept_opener_create(collector.scan->rs_rd, collector.scan->rs_snapshot, columns, filter);
	if (collector.opener == NULL || collector.opener->hold == NULL)
		return NOT_KEPT;
	refusal = begin_collection(&collector, most_live);
	if (refusal == NULL)
		refusal = collect_kept(&collector);
	if (refusal == NULL && collector.nlive > 0)
		refusal = collect_live(&collector);
	if (refusal == NULL)
		hjg_kept_count(collection->hold, collection->counts.served + collection->counts.skipped, collection->counts.live, 0);
	else
		hjg_scan_collect_end(collection);
	return refusal;
}

void
hjg_scan_collect_end(HjgCollection *collection)
{
	if (collection->hold != NULL)
		hjg_kept_unpin_all(collection->hold);
	collection->nsegments = 0;
}

/* ---------- single rows ---------- */

struct HjgRowFetcher
{
	TableScanDesc scan;
	int			ncolumns;
	HjgVector  *vectors;		/* of the rows of a page */
	HjgHeapReader *reader;
	HjgHeapPage page;
	BlockNumber block;			/* that was read last; InvalidBlockNumber: none */
};

HjgRowFetcher *
hjg_scan_fetcher_create(SeqScanState *seq, int ncolumns, const AttrNumber *attnos)
{
	HjgRowFetcher *fetcher = palloc0(sizeof(HjgRowFetcher));

	fetcher->scan = need_scan(seq);
	fetcher->ncolumns = ncolumns;
	fetcher->vectors = palloc(ncolumns * sizeof(HjgVector));
	fetcher->reader = hjg_scan_heap_reader_create(RelationGetDescr(fetcher->scan->rs_rd), ncolumns, attnos, MaxHeapTuplesPerPage, fetcher->vectors);
	fetcher->block = InvalidBlockNumber;
	return fetcher;
}

/* Find the block of a segment's row, which has rows from *first on, before *end. */
static BlockNumber
find_block(const HjgCollectedSegment *segment, uint32 row, uint32 *first, uint32 *end)
{
	int			low = 0;
	int			high = segment->nblocks;

	/* the last block that begins at the row or before it */
	while (high - low > 1)
	{
		const int	middle = (low + high) / 2;

		if (segment->first_row[middle] <= row)
			low = middle;
		else
			high = middle;
	}
	*first = segment->first_row[low];
	*end = segment->first_row[low + 1];
	return segment->blocks != NULL ? segment->blocks[low] : segment->first_block + low;
}

bool
hjg_scan_fetch_row(HjgRowFetcher *fetcher, const HjgCollectedSegment *segment, uint32 row, Datum *values, bool *isnull)
{
	uint32		first;
	uint32		end;
	const BlockNumber block = find_block(segment, row, &first, &end);

	if (block != fetcher->block)
	{
		CHECK_FOR_INTERRUPTS();
		fetcher->block = InvalidBlockNumber;
		if (block >= ((HeapScanDesc) fetcher->scan)->rs_nblocks)
			return false;
		hjg_scan_heap_go_to(fetcher->scan, block, InvalidBlockNumber, &fetcher->page);
		hjg_scan_heap_read(fetcher->reader, &fetcher->page, 0);
		fetcher->block = block;
	}
	/* the rows that the snapshot sees of a page do not change, and were all of them when it was kept */
	if (row < first || row >= end || fetcher->page.nrows != (int) (end - first))
		return false;
	for (int c = 0; c < fetcher->ncolumns; c++)
	{
		const HjgVector *vector = &fetcher->vectors[c];
		const int	i = (int) (row - first);

		isnull[c] = hjg_vector_isnull(vector, i);
		values[c] = isnull[c] ? (Datum) 0 : hjg_vector_datum(vector, i);
	}
	return true;
}

void
hjg_scan_fetcher_end(HjgRowFetcher *fetcher)
{
	hjg_scan_heap_leave(fetcher->scan);
	fetcher->block = InvalidBlockNumber;
}

bool
hjg_scan_is_string(Form_pg_attribute attribute)
{
	return attribute->attlen == -1 && getBaseType(attribute->atttypid) != NUMERICOID;
}

bool
hjg_scan_program_refused(uint32 program)
{
	return hjg_kept_was_refused(program);
}

void
hjg_scan_collected_view(const HjgCollectedSegment *segment, int c, HjgKeptView *view)
{
	const HjgKeptColumn *column = segment->columns[c];
	const char *kept = segment->memory == NULL && column->nbytes > 0 ? hjg_kept_address(column->place) : NULL;

	hjg_kept_view_at(column, segment->nrows, segment->memory != NULL ? segment->memory[c] : kept, view);
}
