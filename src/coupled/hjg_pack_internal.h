/*
 * hjg_pack_internal.h
 *	  Declarations that the files of packing share (no other room includes it): the schemes on the values of one block.
 *
 * While a block is packed, its values are 64-bit words modulo the column's width.
 */
#ifndef HJG_PACK_INTERNAL_H
#define HJG_PACK_INTERNAL_H

#include "coupled/hjg_pack.h"

#define HJG_PACK_LANES (HJG_PACK_BLOCK_ROWS / HJG_PACK_LANE_ROWS)

/* ---- coupled_pack_block.c ---- */

typedef struct HjgPackWork
{
	hjg_u64		values[HJG_PACK_BLOCK_ROWS];
	hjg_u64		ends[HJG_PACK_BLOCK_ROWS];	/* of runs */
	hjg_u64		marks[HJG_PACK_LANES];
} HjgPackWork;

static inline int
hjg_pack_column_width(int key_width)
{
	return key_width == 4 ? 4 : 8;
}

static inline hjg_u64
hjg_pack_mask(int width)
{
	return width == 4 ? 0xFFFFFFFFu : ~(hjg_u64) 0;
}

/* Count the bits that a value needs. */
static inline hjg_u32
hjg_pack_bits_of(hjg_u64 value)
{
	return value == 0 ? 0 : 64 - (hjg_u32) __builtin_clzll(value);
}

/* Gather a column's values of rows [begin, begin + n). */
extern void hjg_pack_gather(int key_width, const void *keys, int column, hjg_u32 begin, hjg_u32 n, hjg_u64 *values);
/* Find the integer that is the float value times 10^digits; false if there is none. */
extern bool hjg_pack_scale(int width, hjg_u64 value, int digits, hjg_u64 *scaled);
/* Apply RLE in place; returns the number of runs. */
extern hjg_u32 hjg_pack_runs(hjg_u64 *values, hjg_u32 n, hjg_u64 *ends);
/* Apply Delta in place; lane by lane, the first value goes to marks and leaves a 0. */
extern void hjg_pack_delta(int width, hjg_u64 *values, hjg_u32 n, hjg_u64 *marks);
/* Apply FOR in place; returns the base.  after_delta: the first value of each lane stays 0 and is ignored. */
extern hjg_u64 hjg_pack_frame(int width, hjg_u64 *values, hjg_u32 n, bool after_delta);

/* ---- coupled_pack_dict.c ---- */

/* The distinct values of a column, in the order of their arrival until the dictionary is sorted. */
typedef struct HjgPackDict
{
	hjg_u32		count;
	hjg_u32    *slots;			/* hash table: number of a value + 1, 0 is free */
	hjg_u64    *values;
	size_t		bytes;			/* of the single allocation behind both */
} HjgPackDict;

extern bool hjg_pack_dict_create(const HjgEnv *env, HjgPackDict *dict);
extern void hjg_pack_dict_destroy(const HjgEnv *env, HjgPackDict *dict);
/* Add a value; false when it is new and there is no room. */
extern bool hjg_pack_dict_add(HjgPackDict *dict, hjg_u64 value);
extern void hjg_pack_dict_sort(HjgPackDict *dict);
/* Find the place of an added value, after sorting. */
extern hjg_u32 hjg_pack_dict_place(const HjgPackDict *dict, hjg_u64 value);

#endif							/* HJG_PACK_INTERNAL_H */
