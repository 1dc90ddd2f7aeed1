/*
 * hjg_table_build.h
 *	  Declarations that the files that build tables of buckets share: engine_table.c (the whole build,
 *	  and a slot's part), engine_table_sort.c (sorting a bucket), engine_table_giant.c (partitions that
 *	  all slots build together).
 */
#ifndef HJG_TABLE_BUILD_H
#define HJG_TABLE_BUILD_H

#include "engine/hjg_engine_internal.h"

/* Bits of one pass of a sort. */
#define HJG_DIGIT_BITS 8

typedef struct HjgTableTask
{
	HjgTask		task;
	HjgTable   *table;
	const hjg_u32 *part_start;
	hjg_u64		giant_part_rows;	/* partitions ... */
	hjg_u64		giant_rows;		/* ... and buckets of more rows than this are left to all slots */
	int			width;
	hjg_u32		part_buckets;	/* in a partition */
	hjg_u8	   *slots;
	size_t		slot_bytes;

	/* of a giant partition */
	hjg_u8	   *scratch;
	hjg_u32		part_begin;
	hjg_u32		first_bucket;
	const hjg_u32 *bucket_start;	/* relative to part_begin */
	hjg_u32		nunits;
} HjgTableTask;

/* Count the bits that number n buckets, at least those of a sort's digit. */
static inline int
hjg_digit_bits(hjg_u32 n)
{
	int			bits = HJG_DIGIT_BITS;

	while (1u << bits < n)
		bits++;
	return bits;
}

/*
 * Write the line of a bucket of n tuples, which begin at index begin of table->tuples if it is crowded.
 * padded: a whole line may be read from tuples on, which makes the copy one of constant size; bytes behind
 * the tuples are ignored.
 */
HJG_ALWAYS_INLINE void
hjg_table_put_line(int width, bool padded, HjgTableTask *build, hjg_u32 bucket, const hjg_u8 *tuples, hjg_u32 n, hjg_u32 begin)
{
	const int	header_bytes = hjg_line_header_bytes(width);
	_Alignas(HJG_LINE_BYTES) hjg_u8 line[HJG_LINE_BYTES];

	if (padded)
		memcpy(line + header_bytes, tuples, (size_t) (HJG_LINE_BYTES - header_bytes));
	else
	{
		memset(line, 0, HJG_LINE_BYTES);
		if (n <= hjg_line_tuples(width))
			memcpy(line + header_bytes, tuples, (size_t) n * (size_t) hjg_tuple_bytes(width));
	}
	memcpy(line, &n, 4);
	if (width == 4 || n > hjg_line_tuples(width))
		memcpy(line + 4, &begin, 4);
	memcpy(build->table->lines + (size_t) bucket * HJG_LINE_BYTES, line, HJG_LINE_BYTES);
}

/* --- engine_table_sort.c --- */

/*
 * Sort a bucket stably by mixed key, on one slot; scratch has room for n tuples.  Returns early when the
 * task is stopped.
 */
extern void hjg_table_sort_bucket(int width, HjgTask *task, hjg_u8 *tuples, hjg_u8 *scratch, hjg_u32 n);
/* Sort a giant bucket on all slots; digit_start has room for 2^HJG_DIGIT_BITS + 1 entries. */
extern HjgStatus hjg_table_sort_giant(HjgJoin *join, hjg_u8 *tuples, hjg_u8 *scratch, hjg_u32 n, hjg_u32 *digit_start);

/* --- engine_table_giant.c --- */

/*
 * Build a partition of more than build->giant_part_rows rows, with build->scratch.  bucket_start has room
 * for 2^hjg_digit_bits(build->part_buckets) + 1 entries, digit_start for 2^HJG_DIGIT_BITS + 1.
 */
extern HjgStatus hjg_table_build_giant(HjgJoin *join, HjgTableTask *build, hjg_u32 partition, hjg_u32 *bucket_start,
									   hjg_u32 *digit_start);

#endif							/* HJG_TABLE_BUILD_H */
