/*
 * hjg_packed.h
 *	  The layout of a packed batch: a column of join keys with lightweight compression.
 *
 * Room "layout": the common subset of C99 and OpenCL C.
 *
 * The schemes are those of He, Zhang and He, "In-Cache Query Co-Processing on Coupled CPU-GPU
 * Architectures" (VLDB 2015), section 3.2.2, after Fang, He and Luo, "Database Compression on Graphics
 * Processors" (VLDB 2010): NS, NSV, DICT and RLE, which work alone, and Delta, Scale and FOR, which
 * prepare values for them.  All useful cascades apply them in this order, and each may be left out:
 *
 *		Scale	a float becomes an integer, its multiple of 10^-n
 *		DICT	a value becomes its place in the batch's sorted dictionary
 *		RLE		a run of rows becomes one value and one length
 *		Delta	a value becomes its difference from the previous value
 *		FOR		a value becomes its difference from the block's base
 *		NS		all values of the block in as many bits as the largest one needs, or
 *		NSV		each value in as many bytes as it needs, and their number in 4 bits
 *
 * All arithmetic is modulo 2^32 or 2^64, the width of the column, so nothing overflows.  A 16-byte key is
 * two columns of 8 bytes.
 *
 * Blocks and lanes.  A column is divided into blocks of HJG_PACK_BLOCK_ROWS rows, which are unpacked
 * independently, and the values of a block into lanes of HJG_PACK_LANE_ROWS, which workers unpack
 * independently: Delta stores the first value of each lane (its mark), NSV the place of its first byte.
 *
 * Checksums.  One covers the head of the batch (header, dictionaries, directory) and one each block, so
 * that a block is checked when it is unpacked.
 */
#ifndef HJG_PACKED_H
#define HJG_PACKED_H

#include "layout/hjg_layout.h"

#define HJG_PACK_MAGIC 0x4B504A48u
#define HJG_PACK_BLOCK_ROWS 8192u
#define HJG_PACK_LANE_ROWS 128u

/* Most entries of a dictionary, and most decimal digits of Scale. */
#define HJG_PACK_MAX_DICT 65536u
#define HJG_PACK_MAX_DIGITS 9

/* The last step of a stream's values. */
#define HJG_PACK_PLAIN 0		/* in the column's width */
#define HJG_PACK_NS 1
#define HJG_PACK_NSV 2

/* The transformations of a column; all zero: none. */
typedef struct HjgPackPlan
{
	hjg_u8		scale;			/* decimal digits + 1 */
	hjg_u8		dict;
	hjg_u8		runs;			/* RLE */
	hjg_u8		delta;
	hjg_u8		frame;			/* FOR */
	hjg_u8		leaf;			/* HJG_PACK_PLAIN, NS or NSV */
	hjg_u8		lengths_leaf;	/* the last step of the run lengths */
	hjg_u8		pad;
} HjgPackPlan;

/* A sequence of values of a block.  Offsets count from the block's start and are multiples of 8. */
typedef struct HjgPackStream
{
	hjg_u64		base;			/* FOR */
	hjg_u32		nvalues;
	hjg_u32		bits;			/* NS and plain: of each value; NSV: bytes of data */
	hjg_u32		data_off;
	hjg_u32		sizes_off;		/* NSV: bytes of each value, 4 bits each */
	hjg_u32		starts_off;		/* NSV: first byte of each lane, 32 bits each */
	hjg_u32		marks_off;		/* Delta: first value of each lane, in the column's width */
} HjgPackStream;

/*
 * A block.  Its first stream contains values, of rows or of runs; the second one contains run lengths.
 * Lengths are the differences of the runs' ends, so unpacking them as by Delta yields the ends.
 */
typedef struct HjgPackBlock
{
	hjg_u64		checksum;		/* of all following words */
	hjg_u32		bytes;			/* of the block, a multiple of 8 */
	hjg_u32		nrows;
	hjg_u32		nruns;			/* 0 without RLE */
	hjg_u32		pad;
	HjgPackStream values;
	HjgPackStream lengths;
} HjgPackBlock;

typedef struct HjgPackColumn
{
	HjgPackPlan plan;
	hjg_u64		dict_off;		/* from the header; values in the column's width, ascending */
	hjg_u32		dict_count;
	hjg_u32		pad;
} HjgPackColumn;

/*
 * The start of a batch.  The directory contains the offset of each block from this header; the columns'
 * entries of a block are adjacent.
 */
typedef struct HjgPackHeader
{
	hjg_u64		checksum;		/* of the following words, up to head_bytes */
	hjg_u32		magic;
	hjg_u32		key_width;		/* 4, 8 or 16 */
	hjg_u32		nrows;
	hjg_u32		ncolumns;		/* 1; for 16-byte keys 2 */
	hjg_u64		bytes;			/* of the whole batch */
	hjg_u64		head_bytes;
	hjg_u64		directory_off;	/* hjg_u64[blocks * ncolumns] */
	HjgPackColumn columns[2];
} HjgPackHeader;

#endif							/* HJG_PACKED_H */
