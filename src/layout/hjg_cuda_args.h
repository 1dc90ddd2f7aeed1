/*
 * hjg_cuda_args.h
 *	  Arguments of the CUDA kernels, passed by value: set by src/device/device_cuda_*.c, read by
 *	  kernels/cuda_*.cu.
 *
 * Device addresses are hjg_u64.  Row counts and positions have 32 bits: a resident side has at most
 * HJG_K_MAX_ROWS rows.
 */
#ifndef HJG_CUDA_ARGS_H
#define HJG_CUDA_ARGS_H

#include "layout/hjg_layout.h"

/* Threads of a block of each kernel, fixed when it is compiled. */
#define HJG_K_COUNT_THREADS 1024
#define HJG_K_LIST_THREADS 1024
#define HJG_K_SCATTER_THREADS 512
#define HJG_K_ALIGNED_THREADS 1024
#define HJG_K_SPREAD_THREADS 1024
#define HJG_K_FILL_THREADS 1024
#define HJG_K_GATHER_THREADS 256

/* Most rows of a resident side; leaves room for padding and for strides past the end. */
#define HJG_K_MAX_ROWS 0x7FF00000u

/* Most partition bits: a block's counters lie in shared memory. */
#define HJG_K_MAX_BITS 15

/* Bytes that a random access of device memory moves. */
#define HJG_K_SECTOR_BYTES 32

/* The aligned scatter writes multiples of this many rows: one sector of 8-byte rows. */
#define HJG_K_SECTOR_ROWS (HJG_K_SECTOR_BYTES / 8)

/* Slots of a sector of the tables "table" and "packed", and the percentage of slots that is filled. */
#define HJG_K_TABLE_SLOTS 4
#define HJG_K_TABLE_PERCENT 60	/* fastest on an H100, with 2M and with 1M build rows */
#define HJG_K_PACKED_SLOTS 7
#define HJG_K_PACKED_PERCENT 60 /* fastest between 60 and 75 on an H100 with 2M build rows */

/* Compute the sectors of a table. */
#define HJG_K_SECTORS(nrows, slots, percent) ((nrows) * 100 / ((percent) * (slots)) + 1)

/* Least sectors of "packed": they make row numbers of 20 bits fit its slots. */
#define HJG_K_PACKED_LEAST 131072

/* Sectors of "packed" for each spare one: at its load one in ten has a row too many. */
#define HJG_K_PACKED_SPARE_SHARE 16

/* A side with raw keys; rows are row numbers, or 0 if position i is row i. */
typedef struct HjgKSide
{
	hjg_u64		keys;
	hjg_u64		rows;
	hjg_u32		nrows;
	hjg_u32		pad;
} HjgKSide;

/*
 * Rows after a scatter: mixed keys with their row numbers.  Keys and row numbers of 4 bytes each (or 8
 * bytes each) lie side by side in keys; otherwise row numbers are their own column.
 */
typedef struct HjgKRows
{
	hjg_u64		keys;
	hjg_u64		rows;
} HjgKRows;

/* Bounds of the partitions of a side: hjg_u32[2^bits] each. */
typedef struct HjgKParts
{
	hjg_u64		first;
	hjg_u64		last;			/* one past the last row */
} HjgKParts;

/*
 * The units of a join of co-partitions: unit_first[2^bits + 1].  A unit is one piece of at most
 * build_limit build rows with one piece of at most probe_limit probe rows; with lonely, partitions without
 * build rows have units too.
 */
typedef struct HjgKUnits
{
	HjgKParts	build;
	HjgKParts	probe;
	hjg_u64		unit_first;
	hjg_u32		bits;
	hjg_u32		build_limit;
	hjg_u32		probe_limit;
	hjg_u32		lonely;
} HjgKUnits;

/* hjg_k_count_keys_W: counts[2^bits], zeroed by the caller. */
typedef struct HjgKCount
{
	HjgKSide	side;
	hjg_u64		counts;
	hjg_u32		bits;
	hjg_u32		pad;
} HjgKCount;

/*
 * hjg_k_place_parts: the places of the partitions, one thread for each.  Partitions start at multiples of
 * 2^align_bits.  up and down are copies of first and last, which scatters increment and decrement; coarse,
 * or 0, receives the starts of the partitions of the leading bits - fine_bits bits.  units.unit_first is 0
 * if no join follows.
 */
typedef struct HjgKPlace
{
	hjg_u64		counts;
	hjg_u64		largest;		/* hjg_u32, zeroed by the caller: most rows of a partition */
	HjgKParts	parts;
	hjg_u64		up;
	hjg_u64		down;
	hjg_u64		coarse;
	HjgKUnits	units;
	hjg_u32		bits;
	hjg_u32		fine_bits;
	hjg_u32		align_bits;
	hjg_u32		pad;
} HjgKPlace;

/* A tile of the second pass: rows [first, first + nrows) of one coarse partition. */
typedef struct HjgKTile
{
	hjg_u32		first;
	hjg_u32		nrows;
	hjg_u32		part;
	hjg_u32		pad;
} HjgKTile;

/* hjg_k_list_tiles: a warp for each coarse partition; ends[] are the coarse cursors after the first pass. */
typedef struct HjgKTiles
{
	HjgKParts	parts;			/* fine partitions */
	hjg_u64		ends;
	hjg_u64		tiles;			/* HjgKTile[] */
	hjg_u64		ntiles;			/* hjg_u32 */
	hjg_u32		coarse_bits;
	hjg_u32		fine_bits;
	hjg_u32		tile_rows;
	hjg_u32		pad;
} HjgKTiles;

/* Most rows of a tile of hjg_k_scatter_aligned_BITS, limited by shared memory. */
#define HJG_K_ALIGNED_ROOM_10 24576u
#define HJG_K_ALIGNED_ROOM_11 19968u
#define HJG_K_ALIGNED_ROOM_12 11520u

/* hjg_k_scatter_rows_W, hjg_k_scatter_again_W, hjg_k_scatter_aligned_BITS. */
typedef struct HjgKScatter
{
	HjgKSide	side;			/* first pass */
	HjgKRows	in;				/* second pass */
	HjgKRows	out;
	hjg_u64		up;				/* cursors */
	hjg_u64		down;			/* aligned scatter only */
	hjg_u64		tiles;			/* second pass */
	hjg_u64		ntiles;
	hjg_u32		bits;			/* of this pass */
	hjg_u32		shift;			/* of the digit in the top word of the mixed key */
	hjg_u32		tile_rows;		/* aligned scatter only; a multiple of 4 */
	hjg_u32		pad;
} HjgKScatter;

/* The output of a join; the kernel determines which pointers are set.  Columns are for benchmarks. */
typedef struct HjgKOutput
{
	hjg_u64		counters;		/* hjg_u64[2]: pairs, checksum */
	hjg_u64		pairs;			/* HjgPair[capacity] */
	hjg_u64		keys;			/* or columns of capacity values: key, build and probe row */
	hjg_u64		build_rows;
	hjg_u64		probe_rows;
	hjg_u64		capacity;
} HjgKOutput;

/* hjg_k_join_parts_W_OUTPUT. */
typedef struct HjgKJoin
{
	HjgKRows	build;
	HjgKRows	probe;
	HjgKUnits	units;
	hjg_u64		ticket;			/* hjg_u32, zeroed by the caller */
	HjgKOutput	output;
	hjg_u32		mode;			/* HjgMatchMode; in modes other than ALL a partition has one piece of build
								 * rows */
	hjg_u32		pad;
} HjgKJoin;

/* Flags set while a table is filled. */
#define HJG_K_REPEATED 1u		/* two build rows have the same key */
#define HJG_K_NO_ROOM 2u		/* no room for a row, or its number has more bits than a slot provides */

/* Flags that exclude a table from joins of the mode. */
#define HJG_K_UNSUITED(mode) \
	((mode) == HJG_MATCH_ALL || (mode) == HJG_MATCH_LEFT ? HJG_K_REPEATED | HJG_K_NO_ROOM : HJG_K_NO_ROOM)

/* hjg_k_fill_table_W, hjg_k_probe_table_W_OUTPUT. */
typedef struct HjgKTable
{
	HjgKSide	build;
	HjgKSide	probe;
	hjg_u64		slots;			/* hjg_u64[4 * nsectors], all ones when empty */
	hjg_u64		flags;			/* hjg_u32: HJG_K_REPEATED, HJG_K_NO_ROOM */
	HjgKOutput	output;
	hjg_u32		nsectors;
	hjg_u32		mode;			/* HjgMatchMode */
} HjgKTable;

/* Limits of hjg_k_spread_packed_4: most regions, and rows of a tile. */
#define HJG_K_PACKED_REGIONS 1024u
#define HJG_K_PACKED_TILE 4096u

/*
 * hjg_k_spread_packed_4, hjg_k_fill_packed_4, hjg_k_probe_packed_4_OUTPUT (cuda_packed.cu).  The caller
 * zeroes flags and cursors; the kernels write the other arrays before they read them.
 */
typedef struct HjgKPacked
{
	HjgKSide	build;
	HjgKSide	probe;
	hjg_u64		flags;			/* hjg_u32: HJG_K_REPEATED, HJG_K_NO_ROOM */
	hjg_u64		cursors;		/* hjg_u32[nregions]: rows of each region */
	hjg_u64		spread;			/* mixed keys and row numbers, region_rows a region */
	hjg_u64		sectors;		/* of a region: region_sectors, then spare_sectors */
	HjgKOutput	output;
	hjg_u32		nregions;
	hjg_u32		region_sectors;
	hjg_u32		spare_sectors;
	hjg_u32		region_rows;
	hjg_u32		reach;			/* ceil(2^32 / (nregions * region_sectors)) */
	hjg_u32		row_bits;		/* of the 36 bits of a slot; the other bits hold any number below reach,
								 * and one more */
	hjg_u32		unsuited;		/* with any of these flags a probe counts ~0 pairs and does nothing else */
	hjg_u32		mode;			/* HjgMatchMode */
} HjgKPacked;

/* hjg_k_find_range_W, hjg_k_fill_direct_W, hjg_k_probe_direct_W_OUTPUT: keys of 4 or 8 bytes. */
typedef struct HjgKDirect
{
	HjgKSide	build;
	HjgKSide	probe;
	hjg_u64		range;			/* hjg_u64[2]: least and greatest key, initially all ones and 0 */
	hjg_u64		slots;			/* hjg_u32[nslots], HJG_NO_ROW when empty */
	hjg_u64		flags;			/* hjg_u32: HJG_K_REPEATED */
	HjgKOutput	output;
	hjg_u64		least;
	hjg_u64		nslots;
	hjg_u32		mode;
	hjg_u32		pad;
} HjgKDirect;

/*
 * hjg_k_gather_rows_N: rows of nwords words of 4 bytes.  Row i of to becomes row r of from, where r is the
 * build or the probe row of pair i, less first_row; it becomes zero if the pair has no row of the side.
 */
typedef struct HjgKGather
{
	hjg_u64		pairs;			/* HjgPair[npairs] */
	hjg_u64		from;			/* rows of a multiple of N bytes, aligned to N bytes */
	hjg_u64		to;
	hjg_u64		npairs;
	hjg_u32		nwords;
	hjg_u32		first_row;
	hjg_u32		build;			/* 1: build rows, 0: probe rows */
	hjg_u32		nrows;			/* of from */
} HjgKGather;

/* Threads of a block of cuda_sum.cu. */
#define HJG_K_SUM_THREADS 256

/*
 * hjg_k_sum_columns: rows of nwords words beside npairs pairs of a result; the first pair is number
 * in_page of page first_page.
 */
typedef struct HjgKSumColumns
{
	hjg_u64		words;			/* hjg_u32[npairs * nwords] */
	hjg_u64		sums;			/* hjg_u64[2] */
	hjg_u32		npairs;
	hjg_u32		nwords;
	hjg_u32		side;
	hjg_u32		page_pairs;
	hjg_u32		first_page;
	hjg_u32		in_page;
} HjgKSumColumns;

#endif							/* HJG_CUDA_ARGS_H */
