/*
 * hjg_packed.h
 *	  The bytes of a packed batch: a column of join keys under lightweight compression.
 *
 * Room "layout": the common subset of C99 and OpenCL C.
 *
 * The schemes are those of He, Zhang and He, "In-Cache Query Co-Processing on Coupled
 * CPU-GPU Architectures" (VLDB 2015), section 3.2.2, after Fang, He and Luo, "Database
 * Compression on Graphics Processors" (VLDB 2010): NS, NSV, DICT and RLE, which stand
 * alone, and Delta, Scale and FOR, which prepare values for them.  All of their cascades
 * that are of use have one order:
 *
 *		Scale	a float becomes the integer that it is a 10^-n th of
 *		DICT	a value becomes its place in the batch's sorted dictionary
 *		RLE		a run of rows becomes one value and one length
 *		Delta	a value becomes its distance from the one before
 *		FOR		a value becomes its distance from the block's base
 *		NS		all values of the block in as many bits as the largest one needs, or
 *		NSV		each value in as many bytes as it needs, and that number in 4 bits
 *
 * each of which may be left out.  All arithmetic is modulo 2^32 or 2^64, the width of
 * the column, so that nothing overflows.  A 16-byte key is two columns of 8.
 *
 * Blocks and lanes.  A column is cut into blocks of HJG_PACK_BLOCK_ROWS rows, each of
 * which is unpacked by itself, and the values of a block into lanes of
 * HJG_PACK_LANE_ROWS, each of which one worker unpacks by itself: with Delta there
 * is a mark for each lane, its first value, and with NSV the place of its first byte.
 *
 * Checksums.  One over the head of the batch (header, dictionaries, directory) and one
 * over each block, so that a block is checked where and when it is unpacked.
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

/* The last step for the values of a stream. */
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
	hjg_u8		lengths_leaf;	/* the same of the run lengths */
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
	hjg_u32		starts_off;		/* NSV: byte of data where a lane begins, 32 bits each */
	hjg_u32		marks_off;		/* Delta: first value of a lane, in the column's width */
} HjgPackStream;

/*
 * The first stream has values, of rows or of runs, the second one run lengths.  Lengths
 * are the differences of the runs' ends, and so are unpacked as by Delta.
 */
typedef struct HjgPackBlock
{
	hjg_u64		checksum;		/* of all words behind this one */
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
	hjg_u64		dict_off;		/* from the header on; values in the column's width, ascending */
	hjg_u32		dict_count;
	hjg_u32		pad;
} HjgPackColumn;

/* Begins a batch.  The directory has the place of each block from here on, column by column for each. */
typedef struct HjgPackHeader
{
	hjg_u64		checksum;		/* of the words behind this one, up to head_bytes */
	hjg_u32		magic;
	hjg_u32		key_width;		/* 4, 8 or 16 */
	hjg_u32		nrows;
	hjg_u32		ncolumns;		/* 1, of 16-byte keys 2 */
	hjg_u64		bytes;			/* of all */
	hjg_u64		head_bytes;
	hjg_u64		directory_off;	/* hjg_u64[blocks * ncolumns] */
	HjgPackColumn columns[2];
} HjgPackHeader;

#endif							/* HJG_PACKED_H */
