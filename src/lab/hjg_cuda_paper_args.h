/*
 * hjg_cuda_paper_args.h
 *	  Arguments of the laboratory's CUDA kernels, passed by value: the joins of the literature, and
 *	  benchmarks.
 *
 * As in hjg_cuda_args.h, device addresses are hjg_u64 and positions have 32 bits.
 */
#ifndef HJG_CUDA_PAPER_ARGS_H
#define HJG_CUDA_PAPER_ARGS_H

#include "layout/hjg_cuda_args.h"

/* ---- output ---- */

#define HJG_K_PAGE_PAIRS 32		/* of a thread's page, at most */
#define HJG_K_CHUNK_PAIRS 2048	/* of a block's */

/*
 * The output of joins of co-partitions (hjg_cuda_sink.h).  Pages of threads or blocks are handed out by
 * number; pages beyond the capacity go to spill, and holes are filled in the end.
 */
typedef struct HjgKSink
{
	HjgKOutput	output;
	hjg_u64		spill;			/* HjgPair[spill_pairs]: room for the holes of all pages */
	hjg_u64		spill_pairs;	/* slots: of each block */
	hjg_u64		taken;			/* hjg_u64: pages handed out */
	hjg_u64		open;			/* hjg_u64[owners]: page and 1 in the high word, its empty places in the low one */
	hjg_u64		unit_pairs;		/* hjg_u64[units + 1]: pairs of each unit, then the sum before it */
	hjg_u64		nchunks;		/* groups: number of chunks of the buffer, which is the spill */
	hjg_u64		chunk_unit;		/* hjg_u32[nchunks]: unit of a chunk's pairs */
	hjg_u64		chunk_pairs;	/* hjg_u32[nchunks]: pairs of a chunk */
	hjg_u64		unit_done;		/* hjg_u8[units] */
	hjg_u32		page_pairs;		/* of a thread's page or a block's chunk */
	hjg_u32		pad;
} HjgKSink;

/* hjg_k_measure_chunks, hjg_k_copy_chunks. */
typedef struct HjgKChunks
{
	HjgKSink	sink;
	hjg_u64		offsets;		/* hjg_u64[nchunks + 1]: pairs of each chunk, then the sum before it */
	hjg_u64		base;			/* pairs of earlier groups */
} HjgKChunks;

/* hjg_k_count_holes, hjg_k_list_holes, hjg_k_fill_holes. */
typedef struct HjgKHoles
{
	HjgKSink	sink;
	hjg_u64		nholes;			/* hjg_u64[3], zeroed: holes; holes below the number of pairs; pairs moved */
	hjg_u64		holes;			/* hjg_u64[spill_pairs]: places to be filled */
	hjg_u64		marks;			/* hjg_u8[spill_pairs], zeroed: holes from the number of pairs on */
	hjg_u32		nowners;
	hjg_u32		pad;
} HjgKHoles;

/* ---- joins without partitions ---- */

/*
 * Most steps of a search; a build side with longer ones does not suit.  They bound the walks of some
 * million probe rows to about 50 ms.
 */
#define HJG_K_NOP_MOST_STEPS 4096	/* from a row's home to its slot */
#define HJG_K_NOP_MOST_LINKS 4096	/* of a list */

/* hjg_k_insert_chains_W, hjg_k_measure_chains, hjg_k_probe_chains_W_SINK, and ..._slots_... */
typedef struct HjgKNop
{
	HjgKSide	build;
	HjgKSide	probe;
	hjg_u64		heads;			/* chains: hjg_u32[nslots], HJG_NO_ROW: no row */
	hjg_u64		next;			/* chains: hjg_u32[build.nrows] */
	hjg_u64		slots;			/* open addressing: hjg_u64[nslots], tag and position; all ones: free */
	hjg_u64		crowded;		/* hjg_u32: set if a search would take too many steps */
	HjgKSink	sink;
	hjg_u32		nslots;
	hjg_u32		mode;			/* HjgMatchMode */
} HjgKNop;

/* hjg_k_sort_tiles_W: sorts a side within tiles. */
typedef struct HjgKSortTiles
{
	HjgKSide	side;
	HjgKRows	out;
} HjgKSortTiles;

/* hjg_k_find_paths_W, hjg_k_merge_runs_W: merges runs of width rows in pairs. */
typedef struct HjgKMerge
{
	HjgKRows	in;
	HjgKRows	out;
	hjg_u64		paths;			/* hjg_u32[tiles + 1] */
	hjg_u32		nrows;
	hjg_u32		width;
} HjgKMerge;

/* hjg_k_find_meetings_W, hjg_k_count_below_W, hjg_k_count_matches_W, hjg_k_write_matches_W_OUTPUT. */
typedef struct HjgKMergeJoin
{
	HjgKRows	build;			/* sorted */
	HjgKRows	probe;			/* sorted */
	hjg_u64		paths;			/* hjg_u32[tiles + 1] */
	hjg_u64		below;			/* hjg_u32[probe_rows]: build rows with smaller keys */
	hjg_u64		offsets;		/* hjg_u64[probe_rows + 1]: pairs of each probe row, then the sum before it */
	HjgKOutput	output;
	hjg_u32		build_rows;
	hjg_u32		probe_rows;
	hjg_u32		mode;			/* HjgMatchMode */
	hjg_u32		behind;			/* hjg_k_find_meetings_W: equal build rows come before the probe row */
} HjgKMergeJoin;

/* ---- partitions by histograms ---- */

/* Consecutive rows of one partition of the previous pass; their counters lie among those of the partition. */
typedef struct HjgKStretch
{
	hjg_u32		first;
	hjg_u32		nrows;
	hjg_u32		before;			/* stretches of earlier partitions */
	hjg_u32		nstretches;		/* of its partition */
} HjgKStretch;

/*
 * hjg_k_list_stretches, hjg_k_find_starts, hjg_k_count_digits_SHARING_W, hjg_k_scatter_digits_SHARING_W:
 * one pass.  A worker has its own histogram: a thread, a warp or a block.  The counter of digit d and
 * worker u of stretch t is ((before << bits) + d * nstretches + (t - before)) * workers + u, so the sums
 * of the counters are places.
 */
typedef struct HjgKPass
{
	HjgKSide	side;			/* first pass: side.keys is not 0 */
	HjgKRows	in;				/* other passes */
	HjgKRows	out;
	hjg_u64		starts;			/* hjg_u32[nparts + 1]: of the current partitions */
	hjg_u64		stretches;		/* HjgKStretch[] */
	hjg_u64		nstretches;		/* hjg_u32 */
	hjg_u64		firsts;			/* hjg_u32[nparts + 1]: stretches before each partition */
	hjg_u64		counts;			/* hjg_u64[]: counters, then their sums */
	hjg_u64		new_starts;		/* hjg_u32[(nparts << bits) + 1] */
	hjg_u64		sizes;			/* hjg_u32[nparts << bits], or 0 */
	hjg_u32		nparts;
	hjg_u32		nrows;
	hjg_u32		stretch_rows;
	hjg_u32		workers;		/* of a stretch */
	hjg_u32		bits;			/* of this pass */
	hjg_u32		shift;			/* of its digit in the mixed key's top word */
} HjgKPass;

/* ---- partitions of bucket chains ---- */

/*
 * hjg_k_begin_chains, hjg_k_scatter_chains_W, hjg_k_measure_parts, hjg_k_list_pages.  A bucket is
 * 2^bucket_bits rows; a chain is the buckets with its number as owner, in the order of their ordinals.  All
 * but the last two are full, the last one is empty.  The first pass may take its side in pieces, one launch
 * each.
 */
typedef struct HjgKChains
{
	HjgKSide	side;			/* first pass: side.keys is not 0 */
	HjgKRows	in;				/* second pass, with its input's chains: */
	hjg_u64		in_owner;		/* hjg_u32[buckets] */
	hjg_u64		in_cursors;		/* hjg_u64[partitions] */
	hjg_u64		in_used;		/* hjg_u32: buckets */
	HjgKRows	out;
	hjg_u64		cursors;		/* hjg_u64[1 << all_bits]: HJG_K_CURSOR() */
	hjg_u64		nfull;			/* hjg_u32[1 << all_bits]: full buckets */
	hjg_u64		used;			/* hjg_u32: owned buckets */
	hjg_u64		owner;			/* hjg_u32[buckets] */
	hjg_u64		ordinal;		/* hjg_u32[buckets]: of a full bucket in its chain */
	hjg_u64		next;			/* hjg_u32[buckets]: the bucket that is to be opened after it */
	hjg_u64		sizes;			/* last pass: hjg_u32[1 << all_bits] */
	hjg_u64		first;			/* hjg_u32[1 << all_bits]: virtual positions */
	hjg_u64		pages;			/* hjg_u32[]: bucket at virtual position i << bucket_bits */
	hjg_u32		bits;			/* of this pass */
	hjg_u32		all_bits;		/* of this pass and earlier ones */
	hjg_u32		bucket_bits;
	hjg_u32		in_bucket_bits; /* second pass: of its input; at most a tile */
	hjg_u32		first_row;		/* first pass: of the piece, if it has no row numbers */
	hjg_u32		nbuckets;
} HjgKChains;

/* A chain's cursor: the open bucket, the next one, and the places taken of the open one and, while it is full, behind it. */
#define HJG_K_BUCKET_BITS 21
#define HJG_K_CURSOR_ROWS_BITS (64 - 2 * HJG_K_BUCKET_BITS)
#define HJG_K_CURSOR(open, next, rows) \
	((hjg_u64) (open) << (64 - HJG_K_BUCKET_BITS) | (hjg_u64) (next) << HJG_K_CURSOR_ROWS_BITS | (hjg_u64) (rows))
#define HJG_K_CURSOR_OPEN(cursor) ((hjg_u32) ((cursor) >> (64 - HJG_K_BUCKET_BITS)))
#define HJG_K_CURSOR_NEXT(cursor) ((hjg_u32) ((cursor) >> HJG_K_CURSOR_ROWS_BITS) & ((1u << HJG_K_BUCKET_BITS) - 1))
#define HJG_K_CURSOR_ROWS(cursor) ((hjg_u32) (cursor) & ((1u << HJG_K_CURSOR_ROWS_BITS) - 1))

/* ---- joins of co-partitions ---- */

#define HJG_K_HEAD_BITS 12		/* lists of a hash table */
/* Bytes of heads and links, of 4 and 2 bytes, for build_limit rows. */
#define HJG_K_TABLE_BYTES(build_limit) ((4u << HJG_K_HEAD_BITS) + 2u * (build_limit))

/* hjg_k_match_JOIN_W_SINK. */
typedef struct HjgKMatch
{
	HjgKRows	build;
	HjgKRows	probe;
	hjg_u64		build_pages;	/* of bucket chains; else 0 */
	hjg_u64		probe_pages;
	HjgKUnits	units;
	HjgKSink	sink;
	hjg_u64		ticket;			/* hjg_u32, zeroed by the caller */
	hjg_u64		queue;			/* HjgKTask[]: pieces of large partitions; or 0 */
	hjg_u64		nqueued;		/* hjg_u32 */
	hjg_u64		tables;			/* JOIN device: hash tables of the blocks, HJG_K_TABLE_BYTES(build_limit) each */
	hjg_u32		from_queue;		/* 0: large partitions go to the queue, 1: the queue is processed */
	hjg_u32		piece_rows;		/* probe rows of a task */
	hjg_u32		first_unit;		/* of this launch */
	hjg_u32		nunits;
	hjg_u32		bucket_bits;
	hjg_u32		mode;			/* HjgMatchMode */
} HjgKMatch;

/* The task of a block: positions of build and probe rows. */
typedef struct HjgKTask
{
	hjg_u32		build_from;
	hjg_u32		build_to;
	hjg_u32		probe_from;
	hjg_u32		probe_to;
} HjgKTask;

/* ---- splits of sides in host memory (cuda_split.cu) ---- */

/* Most bits of a split (HJG_STAGE_MOST_BITS). */
#define HJG_K_SPLIT_BITS 8

/*
 * hjg_k_count_digits_W: counts[2^bits], zeroed by the caller.  hjg_k_split_rows_W: the rows of partition p
 * fill out (keys that are not mixed, and a column of row numbers) from base[p] on; cursors like counts.
 */
typedef struct HjgKSplit
{
	HjgKSide	side;
	HjgKRows	out;
	hjg_u64		counts;
	hjg_u64		cursors;
	hjg_u32		first_row;		/* of the side, if it has no row numbers */
	hjg_u32		bits;
	hjg_u32		base[1 << HJG_K_SPLIT_BITS];
} HjgKSplit;

/* ---- benchmarks (cuda_bench.cu) ---- */

/* The distribution of a benchmark's side: key numbers ("ids") below distinct. */
typedef enum HjgKDraw
{
	HJG_K_IN_TURN,				/* row modulo distinct: a build side */
	HJG_K_UNIFORM,
	HJG_K_ZIPF,
	HJG_K_ONE_KEY
} HjgKDraw;

/*
 * hjg_k_fill_side_W.  expected: 0, or hjg_u64[2], pairs and checksum of the join with a build side of
 * build_rows rows: with consecutive ids, or, if heads is not 0, with those that its fill has linked.
 */
typedef struct HjgKFillSide
{
	HjgKSide	side;
	hjg_u64		expected;
	hjg_u64		heads;			/* hjg_u32[distinct]: last build row of each id, HJG_NO_ROW: none; or 0 */
	hjg_u64		next;			/* hjg_u32[build_rows]: the row before with the same id */
	hjg_u64		seed;
	double		theta;			/* exponent of ZIPF */
	hjg_u32		draw;			/* HjgKDraw */
	hjg_u32		distinct;
	hjg_u32		build_rows;
	hjg_u32		dense;			/* keys are the ids */
	hjg_u32		wide_rows;
	hjg_u32		match_permille; /* of the rows; other rows get ids from distinct on */
} HjgKFillSide;

/* hjg_k_check_pairs_W: facts[0] += checksum, facts[1] += pairs with wrong rows or keys. */
typedef struct HjgKCheckPairs
{
	HjgKSide	build;
	HjgKSide	probe;
	HjgKOutput	output;
	hjg_u64		npairs;
	hjg_u64		facts;
	hjg_u32		wide_rows;
	hjg_u32		pad;
} HjgKCheckPairs;

/*
 * hjg_k_fill_columns: for the rows of a side.  hjg_k_check_columns: for the rows of pairs; *wrong += rows
 * with wrong columns.
 */
typedef struct HjgKColumns
{
	hjg_u64		columns;		/* nrows rows of nwords words */
	hjg_u64		pairs;
	hjg_u64		nrows;
	hjg_u64		wrong;			/* hjg_u64 */
	hjg_u32		nwords;
	hjg_u32		side;			/* HjgSideId */
} HjgKColumns;

#endif							/* HJG_CUDA_PAPER_ARGS_H */
