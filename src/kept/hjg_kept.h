/*
 * hjg_kept.h
 *	  Kept columns: columns of tables that stay in memory between queries, as vectors are made of them.
 *
 * Room "kept". A table is kept in segments of HJG_KEPT_BLOCKS heap blocks; of a segment some columns, each in one piece of memory
 * that all processes read. When a kept block may be used is in kept_valid.c, who may hold what in kept_store.c, its memory in kept_evict.c and kept_memory.c,
 * the codes of a column in kept_build.c. The room "scan" reads blocks to be kept, and rows that are kept.
 * A library of the tests calls the functions that are PGDLLEXPORT in the headers of both (test/t/kept_collected.c).
 */
#ifndef HJG_KEPT_H
#define HJG_KEPT_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "storage/block.h"
#include "storage/buf.h"
#include "storage/bufpage.h"
#include "utils/dsa.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

#include "vector/hjg_vector.h"

/* ---------- segments ---------- */

/* Heap blocks of a segment, except for the last one before the end of a page of the visibility map, where it is cut. */
#define HJG_KEPT_BLOCKS 256

/* Heap blocks of a page of the visibility map, which core declares nowhere public: two bits a block. */
#define HJG_MAP_BLOCKS ((BlockNumber) (BLCKSZ - MAXALIGN(SizeOfPageHeaderData)) * 4)
#define HJG_MAP_SEGMENTS ((HJG_MAP_BLOCKS + HJG_KEPT_BLOCKS - 1) / HJG_KEPT_BLOCKS)

/* Most columns of a segment; a query that needs more reads pages. */
#define HJG_KEPT_MAX_COLUMNS 64

/* Most words of a column of a segment. */
#define HJG_KEPT_MOST_WORDS 4096

/* Attributes behind this one are not kept. */
#define HJG_KEPT_MAX_ATTNO 128

/*
 * Segments that have one patch: another segment, of blocks of theirs that have changed since they were made. Its number is that of the
 * group of segments, marked.
 */
#define HJG_KEPT_PATCHED 16
#define HJG_KEPT_PATCH (UINT32_C(1) << 31)

StaticAssertDecl(HJG_MAP_SEGMENTS % HJG_KEPT_PATCHED == 0, "a patch is of one page of the map");

static inline uint32
hjg_kept_count_patches(uint32 nsegments)
{
	return (nsegments + HJG_KEPT_PATCHED - 1) / HJG_KEPT_PATCHED;
}

/* Get the number of a segment's patch. */
static inline uint32
hjg_kept_patch(uint32 number)
{
	return HJG_KEPT_PATCH | number / HJG_KEPT_PATCHED;
}

/* Get the first block that a segment, or a patch, might have. */
static inline BlockNumber
hjg_kept_first_block(uint32 number)
{
	if ((number & HJG_KEPT_PATCH) != 0)
		number = (number & ~HJG_KEPT_PATCH) * HJG_KEPT_PATCHED;
	return number / HJG_MAP_SEGMENTS * HJG_MAP_BLOCKS + number % HJG_MAP_SEGMENTS * HJG_KEPT_BLOCKS;
}

/* Count the blocks of a segment of a table of so many. */
static inline int
hjg_kept_count_blocks(uint32 number, BlockNumber nblocks)
{
	const BlockNumber first = hjg_kept_first_block(number);
	const BlockNumber end = Min(nblocks, (number / HJG_MAP_SEGMENTS + 1) * HJG_MAP_BLOCKS);

	return first >= end ? 0 : (int) Min(end - first, HJG_KEPT_BLOCKS);
}

static inline uint32
hjg_kept_count_segments(BlockNumber nblocks)
{
	return nblocks / HJG_MAP_BLOCKS * HJG_MAP_SEGMENTS + (nblocks % HJG_MAP_BLOCKS + HJG_KEPT_BLOCKS - 1) / HJG_KEPT_BLOCKS;
}

/* Blocks of a segment: a bit for each, counted from its first block. */
#define HJG_KEPT_BLOCK_WORDS (HJG_KEPT_BLOCKS / 64)

typedef struct HjgKeptBlocks
{
	uint64		words[HJG_KEPT_BLOCK_WORDS];
} HjgKeptBlocks;

static inline void
hjg_kept_blocks_add(HjgKeptBlocks *blocks, int block)
{
	blocks->words[block / 64] |= UINT64CONST(1) << block % 64;
}

static inline void
hjg_kept_blocks_remove(HjgKeptBlocks *blocks, int block)
{
	blocks->words[block / 64] &= ~(UINT64CONST(1) << block % 64);
}

static inline void
hjg_kept_blocks_unite(HjgKeptBlocks *blocks, const HjgKeptBlocks *others)
{
	for (int w = 0; w < HJG_KEPT_BLOCK_WORDS; w++)
		blocks->words[w] |= others->words[w];
}

static inline bool
hjg_kept_blocks_has(const HjgKeptBlocks *blocks, int block)
{
	return (blocks->words[block / 64] >> block % 64 & 1) != 0;
}

static inline int
hjg_kept_blocks_count(const HjgKeptBlocks *blocks)
{
	int			n = 0;

	for (int w = 0; w < HJG_KEPT_BLOCK_WORDS; w++)
		n += pg_popcount64(blocks->words[w]);
	return n;
}

/* Find the first block from this one on, and before `end`, that is among them, or is not; returns `end` if there is none. */
static inline int
hjg_kept_blocks_next(const HjgKeptBlocks *blocks, int block, int end, bool among)
{
	while (block < end)
	{
		const uint64 word = (among ? blocks->words[block / 64] : ~blocks->words[block / 64]) >> block % 64;

		if (word != 0)
			return Min(block + pg_rightmost_one_pos64(word), end);
		block = (block / 64 + 1) * 64;
	}
	return end;
}

typedef enum HjgKeptCode
{
	HJG_KEPT_NOT,				/* the segment's values cannot be kept */
	HJG_KEPT_INTEGERS,			/* values of fixed width, as codes */
	HJG_KEPT_NUMBERS,			/* numerics of one scale, as codes of integers */
	HJG_KEPT_WORDS,				/* codes of the different values, which follow */
	HJG_KEPT_BYTES				/* the places of the values, which follow */
} HjgKeptCode;

/*
 * A column of a segment. Its memory holds, each from a multiple of 8 bytes on: a bit for each row that is NULL, if there are any;
 * codes[nrows], or places[nrows] as uint32; for words, places[nwords] as uint32; the bytes that places point into.
 */
typedef struct HjgKeptColumn
{
	AttrNumber	attno;
	uint8		code;			/* HjgKeptCode */
	uint8		width;			/* bytes of a code of HjgCodes; of a word's number: 1 or 2 */
	int16		scale;
	bool		has_nulls;
	bool		has_packed;		/* of bytes: some are compressed */
	Oid			type;
	uint32		nwords;
	int64		least;			/* of integers and numbers, */
	int64		greatest;		/* both of 0 if there are none */
	uint64		id;				/* of this column alone, for as long as the server runs; 0: it is not in the store */
	dsa_pointer place;			/* InvalidDsaPointer: nothing is kept, or it takes no memory */
	Size		nbytes;
	uint64		checksum;		/* of the memory, */
	uint64		words_checksum; /* and of the words' part of it, from their places on */
} HjgKeptColumn;

/*
 * A segment. What a reader sees of it does not change, except for map_lsn, log_end, fit, the counts, and hints on buffers. What every
 * use looks at is together, in few cache lines; what is before it belongs to single blocks.
 */
typedef struct HjgKeptSegment
{
	XLogRecPtr	lsn[HJG_KEPT_BLOCKS];	/* of the heap page */
	uint32		first_row[HJG_KEPT_BLOCKS + 1];
	uint16		offset[HJG_KEPT_BLOCKS];	/* of each block, from the first one that it might have; of a patch they need not ascend */
	Buffer		likely[HJG_KEPT_BLOCKS];	/* that the block was last seen in; InvalidBuffer: not yet */
	uint32		nfills;			/* how often it was made */
	dsa_pointer next_orphan;

	uint32		number;
	uint16		nblocks;
	uint16		ncolumns;
	uint16		max_columns;	/* for which it has space */
	uint32		nrows;
	pg_atomic_uint32 pins;
	pg_atomic_uint32 recent;	/* uses that eviction has not yet forgotten */
	pg_atomic_uint32 nread;		/* blocks of it that were read live since it was made */
	pg_atomic_uint64 map_lsn;	/* see kept_valid.c */
	pg_atomic_uint64 log_end;	/* likewise; 0: pages were not asked yet */
	pg_atomic_uint64 fit[HJG_KEPT_BLOCK_WORDS]; /* HjgKeptBlocks: the same to all when it was made, and not known to have changed since */
	HjgKeptBlocks settled;		/* those that were not all-visible */
	HjgKeptColumn columns[FLEXIBLE_ARRAY_MEMBER];
} HjgKeptSegment;

/* Get the heap block of a segment's block. */
static inline BlockNumber
hjg_kept_block(const HjgKeptSegment *segment, int block)
{
	return hjg_kept_first_block(segment->number) + segment->offset[block];
}

/* Get the blocks that are fit at this moment. */
static inline HjgKeptBlocks
hjg_kept_fit_blocks(const HjgKeptSegment *segment)
{
	HjgKeptBlocks fit;

	for (int w = 0; w < HJG_KEPT_BLOCK_WORDS; w++)
		fit.words[w] = pg_atomic_read_u64(unconstify(pg_atomic_uint64 *, &segment->fit[w]));
	return fit;
}

static inline Size
hjg_kept_segment_bytes(int max_columns)
{
	return offsetof(HjgKeptSegment, columns) + max_columns * sizeof(HjgKeptColumn);
}

/* ---------- the store (kept_store.c) ---------- */

/* A table in the store. */
typedef struct HjgKeptTable HjgKeptTable;

/* Make the store when the postmaster makes its shared memory; -1: of the default size; 0: there is none. */
extern void hjg_kept_init(int size_mb);
/* May columns of this table be kept? */
extern bool hjg_kept_allows(Relation relation);

/*
 * A process's hold on a table of the store and on its segments, which keeps both from being dropped; it ends with the memory
 * context that it was made in, also after an error.
 */
typedef struct HjgKeptHold HjgKeptHold;

/* Find the table, or make its entry. NULL: there is no store, or no place in it. The hold is in the current context. */
extern PGDLLEXPORT HjgKeptHold *hjg_kept_hold(Relation relation);
/*
 * Note that a scan reads these columns; returns true if all of them were first read by another statement, and can be kept as far as
 * is known. Statements are known by the time of their start, which the processes of a parallel query have in common.
 */
extern bool hjg_kept_note_read(HjgKeptHold *hold, int ncolumns, const AttrNumber *attnos, TimestampTz statement);
/* Least part of a table's segments that must have a scan's columns for it to be of use to go by segments. */
#define HJG_KEPT_LEAST_SHARE 0.25
/* Estimate whether it is of use to go by segments for these columns of a table of so many blocks; now and then it is tried nevertheless. */
extern bool hjg_kept_promises(HjgKeptHold *hold, Relation relation, BlockNumber nblocks, int ncolumns, const AttrNumber *attnos);
/* Note how a scan of columns by segments went; in_vain: it found few that have them, and there was no memory to make any. */
extern void hjg_kept_note_scan(HjgKeptHold *hold, int ncolumns, const AttrNumber *attnos, bool in_vain);
/* Pin a segment; NULL if it is not kept, or there is no memory to note the pin. */
extern PGDLLEXPORT HjgKeptSegment *hjg_kept_pin(HjgKeptHold *hold, uint32 number);
/* Note that the segment's columns are used; one of which that was not noted lately makes room for others. */
extern void hjg_kept_note_use(HjgKeptSegment *segment);
/* Has a use of the segment been noted lately? */
extern bool hjg_kept_used_lately(HjgKeptSegment *segment);
/* Unpin a segment. One that was pinned lately is found at once, however many the hold has. */
extern PGDLLEXPORT void hjg_kept_unpin(HjgKeptHold *hold, HjgKeptSegment *segment);
/* Unpin all segments of the hold. */
extern void hjg_kept_unpin_all(HjgKeptHold *hold);
/* Parts of a table that are kept, by a sample of its segments. */
typedef struct HjgKeptShares
{
	double		kept;			/* segments that have the columns, of all */
	double		fit;			/* blocks that may be used, as far as is known, of those of kept segments, */
	double		settled;		/* and those of these that were not all-visible when they were kept */
} HjgKeptShares;

/* Estimate the parts of a table of so many blocks; coded: the columns are in codes, not bytes. */
extern HjgKeptShares hjg_kept_shares(Relation relation, BlockNumber nblocks, int ncolumns, const AttrNumber *attnos, bool coded);
/* Count blocks that were served, read live, and compared with pages. */
extern void hjg_kept_count(HjgKeptHold *hold, uint64 served, uint64 live, uint64 verified);
/* After a difference: let no process use what is kept, until the server starts anew. */
extern void hjg_kept_distrust(void);
/* May it be used? There is a store. */
extern bool hjg_kept_trusted(void);
/*
 * Note that the program with this number could not be run on these tables, whose rows are not as the planner expects; was one of this
 * number noted in the last ten minutes? Numbers are hashes of queries, so that another program may seem to have been.
 */
extern void hjg_kept_note_refused(uint32 program);
extern bool hjg_kept_was_refused(uint32 program);

/* A column of a table, in the segments that have it in one code. */
typedef struct HjgKeptUse
{
	Oid			database;
	Oid			tablespace;
	Oid			file;
	AttrNumber	attno;
	HjgKeptCode code;
	uint64		nsegments;
	uint64		nblocks;		/* that are not stale, as far as is known */
	uint64		nrows;
	uint64		nbytes;
	uint64		served;			/* blocks of the table, so far, */
	uint64		live;			/* and those that scans by segments read live; */
	uint64		verified;		/* blocks that were compared with pages */
} HjgKeptUse;

/* Call the function for what is kept, table by table. */
extern void hjg_kept_visit(void (*visit) (const HjgKeptUse *use, void *arg), void *arg);

/* Get memory; where there is none, segments that were not used lately go. InvalidDsaPointer if that does not help. */
extern dsa_pointer hjg_kept_allocate(HjgKeptHold *hold, Size nbytes);
extern void hjg_kept_free(dsa_pointer place, Size nbytes);
extern void *hjg_kept_address(dsa_pointer place);
/* Get the offset of kept memory in the file, as other processes that map it count. */
extern PGDLLEXPORT uint64 hjg_kept_offset(const void *memory);
/* Open another descriptor of the file, which can only read, for the device process; -1 if there is no file, or no /proc. */
extern PGDLLEXPORT int hjg_kept_open_readonly(void);
/* Take a new number for a column. */
extern uint64 hjg_kept_new_id(void);
/* Free a segment that is in no table, with its columns. */
extern void hjg_kept_free_segment(dsa_pointer place);
/*
 * Put a segment, which owns its columns' memory, in the place of the one with its number, and pin it. Returns NULL, with everything
 * freed, if there is no memory.
 */
extern HjgKeptSegment *hjg_kept_publish(HjgKeptHold *hold, dsa_pointer made);
/* Drop a segment that cannot be trusted, or a patch that is not needed any more. */
extern void hjg_kept_drop(HjgKeptHold *hold, const HjgKeptSegment *segment);

/* ---------- making a segment (kept_build.c) ---------- */

typedef struct HjgKeptBuilder HjgKeptBuilder;

/* A column to be kept. */
typedef struct HjgKeptWish
{
	AttrNumber	attno;
	Oid			type;
	int16		attlen;
	bool		attbyval;
	bool		numeric;		/* the type is numeric, or a domain over it */
} HjgKeptWish;

/* Make a builder of segments, in the current context. */
extern HjgKeptBuilder *hjg_kept_builder_create(int ncolumns, const HjgKeptWish *wishes);
/* Count the blocks that were added since it was empty, at most HJG_KEPT_BLOCKS. */
extern int	hjg_kept_builder_blocks(const HjgKeptBuilder *builder);
/* Does it make segments of these columns? False for NULL. */
extern bool hjg_kept_builder_makes(const HjgKeptBuilder *builder, int ncolumns, const HjgKeptWish *wishes);
/* Begin another segment. */
extern void hjg_kept_builder_reset(HjgKeptBuilder *builder);
/*
 * Add the rows of a block, of this LSN, with its offset from the segment's first one; nrows < 0: the block is not kept. settled: it is
 * not all-visible.
 */
extern void hjg_kept_builder_add(HjgKeptBuilder *builder, uint16 offset, XLogRecPtr lsn, bool settled, const HjgVector *vectors, int nrows);
/*
 * Make the segment, pinned by the caller, and publish it. map_lsn: read before the first block. nfills: how often this segment was
 * made, with this time. Returns NULL if there is no memory, or no block can be kept.
 */
extern HjgKeptSegment *hjg_kept_builder_finish(HjgKeptBuilder *builder, HjgKeptHold *hold, uint32 number, XLogRecPtr map_lsn, uint32 nfills);

/* ---------- reading a column (kept_read.c) ---------- */

/* The checksum of a column's memory. */
extern uint64 hjg_kept_checksum(const void *memory, Size nbytes);

/* A column of a pinned segment, or of rows of this process. */
typedef struct HjgKeptView
{
	const HjgKeptColumn *column;
	uint32		nrows;			/* of the segment */
	const char *memory;			/* or NULL */
	const uint8 *nulls;			/* or NULL */
	HjgCodes	codes;
	const uint32 *places;		/* of words, or of the rows' values */
	const char *bytes;
} HjgKeptView;

static inline bool
hjg_kept_isnull(const HjgKeptView *view, uint32 row)
{
	return view->nulls != NULL && (view->nulls[row / 8] >> row % 8 & 1) != 0;
}

/* Clear pass[i] for rows first + i that are NULL. */
extern void hjg_kept_drop_nulls(const HjgKeptView *view, uint32 first, int nrows, bool *pass);

typedef enum HjgKeptFound
{
	HJG_KEPT_FOUND,
	HJG_KEPT_MISSING,			/* the segment does not have the column */
	HJG_KEPT_IMPOSSIBLE			/* it cannot have it */
} HjgKeptFound;

/* Find a column of this type. It is looked for at *place first, where it was in another segment; sets that. */
extern HjgKeptFound hjg_kept_view(const HjgKeptSegment *segment, AttrNumber attno, Oid type, int *place, HjgKeptView *view);
/* View a column of nrows rows in this memory, which is NULL if it takes none. */
extern void hjg_kept_view_at(const HjgKeptColumn *column, uint32 nrows, const char *memory, HjgKeptView *view);
/* Is the column's memory as it was written? To be asked before it is read. */
extern PGDLLEXPORT bool hjg_kept_check(const HjgKeptView *view);
/* Are the column's words as they were written? To be asked before they alone are read. */
extern bool hjg_kept_check_words(const HjgKeptView *view);
/*
 * Read rows[0 .. nrows - 1], each counted from the segment's row `first`, into the vector; rows NULL: those from first on.
 * numerics: space for values of kept numbers in core's form, or NULL: they become the vector's numbers.
 */
extern PGDLLEXPORT void hjg_kept_read(const HjgKeptView *view, uint32 first, const uint16 *rows, int nrows, HjgVector *vector, HjgNumericSpace *numerics);

/*
 * Write the columns of a builder's rows to memory of the current context, for this process alone (kept_build.c). Returns the number of
 * rows; a column that cannot be kept has HJG_KEPT_NOT. views: one for each wish.
 */
extern uint32 hjg_kept_builder_write(HjgKeptBuilder *builder, HjgKeptView *views);

/* ---------- validity (kept_valid.c) ---------- */

/* A look at a page of the visibility map, of the segments that it covers. All zeros but the context: none was looked at yet. */
typedef struct HjgKeptLook
{
	uint32		first;			/* the segments */
	uint32		end;
	BlockNumber nblocks;		/* of the table */
	XLogRecPtr	log_end;		/* of the server, before the look */
	XLogRecPtr	map_lsn;		/* of the page; InvalidXLogRecPtr: there is none */
	int			room;			/* segments for which there is space */
	HjgKeptBlocks *visible;
	MemoryContext context;		/* of these; set by the owner */
} HjgKeptLook;

/* May scans under the snapshot use what is kept of the table? */
extern bool hjg_kept_may_serve(Relation relation, Snapshot snapshot);
/* Did the current transaction make, or change, the column's row of the catalog? */
extern bool hjg_kept_is_new(Relation relation, AttrNumber attno);
/*
 * Get the all-visible blocks of a segment of a table of nblocks. Looks at the segment's page of the map, unless the look is one at
 * that page; it must be made after the snapshot was taken.
 */
extern PGDLLEXPORT const HjgKeptBlocks *hjg_kept_look(Relation relation, uint32 number, BlockNumber nblocks, HjgKeptLook *look);
/* Find the blocks of a segment that may be served. Returns how many they are. */
extern PGDLLEXPORT int hjg_kept_validate(Relation relation, HjgKeptSegment *segment, const HjgKeptLook *look, BufferAccessStrategy strategy,
										 HjgKeptBlocks *valid);
/* Find the blocks of a patch that may be served. The look is one at any page of the map. */
extern void hjg_kept_validate_patch(Relation relation, HjgKeptSegment *patch, const HjgKeptLook *look, BufferAccessStrategy strategy, HjgKeptBlocks *valid);
/*
 * Collect the rows of a heap page, under its share lock, if all snapshots see the same ones; returns how many they are, or -1. Gets the
 * page's LSN, which is 0 only if it has no rows. all_visible: the map said so before. horizon: of GetOldestNonRemovableTransactionId().
 */
extern int	hjg_kept_collect_rows(Relation relation, Buffer buffer, bool all_visible, TransactionId horizon, OffsetNumber *rows, XLogRecPtr *lsn);

#endif							/* HJG_KEPT_H */
