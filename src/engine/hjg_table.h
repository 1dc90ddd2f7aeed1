/*
 * hjg_table.h
 *	  The layout of the table of a join: buckets, or an array by key.
 *
 * A bucket is all tuples whose mixed keys lie in the same of nbuckets equal ranges.
 * The table is the same for every strategy: a cache line a bucket, which says how
 * many tuples the bucket has and holds them, in order of build row, if they fit.
 * The tuples of a crowded bucket lie together elsewhere; those of a bucket of more
 * than HJG_HEAVY_BUCKET are ordered by mixed key first and build row second and are
 * searched by bisection.  So most probes wait for one line, and none costs more
 * than a short scan or a logarithm besides its own output.
 * Partitions are ranges of bucket numbers.  Partitioning a probe batch is
 * therefore nothing but sorting it for locality: any fan-out suits the table,
 * and a work unit is any range of the sorted batch, however skewed the keys.
 *
 * Where keys are dense there is an array by key in its place.
 */
#ifndef HJG_TABLE_H
#define HJG_TABLE_H

#include "engine/hjg_tuple.h"

/* Buckets up to this size are scanned, larger ones are sorted and bisected. */
#define HJG_HEAVY_BUCKET 32

/* A bucket's line; see hjg_line_tuples(). */
#define HJG_LINE_BYTES 64

/* Tuples that may be read, not used, after the last one of crowded buckets. */
#define HJG_TABLE_PAD 16

/* Buckets, or an array by key. */
typedef struct HjgTable
{
	hjg_u64		nrows;
	hjg_u8	   *lines;			/* nbuckets */
	hjg_u8	   *tuples;			/* of crowded buckets; a line before and HJG_TABLE_PAD behind are readable */
	hjg_u32		nbuckets;		/* a multiple of the partitions' number, at most 2^31 */
	hjg_u64		ncrowded;		/* rows in crowded buckets, but for those of giant partitions */

	/*
	 * An array by key: not NULL.  Of nplaces neighbouring keys from first_key on, either the build row of
	 * each, or HJG_NO_ROW, and HJG_NO_ROW behind them;
	 */
	hjg_u32	   *rows;
	hjg_u64		nplaces;
	hjg_u64		first_key;

	/*
	 * or, where keys are repeated and this is not NULL, rows from starts[place] to starts[place + 1] have the key of
	 * a place, in order; behind the places there is one without rows, and HJG_TABLE_PAD rows may be read.
	 */
	hjg_u32	   *starts;
} HjgTable;

/* --- buckets --- */

/* Tuples of a bucket, in its line or elsewhere. */
typedef struct HjgBucket
{
	const hjg_u8 *tuples;
	hjg_u32		ntuples;
} HjgBucket;

/* A line begins with the bucket's number of tuples; 8-byte tuples are aligned. */
HJG_ALWAYS_INLINE int
hjg_line_header_bytes(int width)
{
	return width == 4 ? 8 : 4;
}

/* Count the tuples that a line holds at most: 7, 5 or 3. */
HJG_ALWAYS_INLINE hjg_u32
hjg_line_tuples(int width)
{
	return (hjg_u32) ((HJG_LINE_BYTES - hjg_line_header_bytes(width)) / hjg_tuple_bytes(width));
}

/*
 * The line of a crowded bucket holds, behind the number, the index of the
 * bucket's first tuple in table->tuples.  Does not branch.
 */
HJG_ALWAYS_INLINE HjgBucket
hjg_table_bucket(int width, const HjgTable *table, hjg_u32 bucket)
{
	const hjg_u8 *line = table->lines + (size_t) bucket * HJG_LINE_BYTES;
	const hjg_u8 *crowded = table->tuples + (size_t) hjg_load32(line + 4) * (size_t) hjg_tuple_bytes(width);
	HjgBucket	b = {line + hjg_line_header_bytes(width), hjg_load32(line)};

	b.tuples = b.ntuples > hjg_line_tuples(width) ? crowded : b.tuples;
	return b;
}

/* Find the tuples [*first, *last) of a sorted bucket that have this key. */
HJG_ALWAYS_INLINE void
hjg_bucket_bisect(int width, HjgBucket bucket, HjgMixed key, hjg_u32 *first, hjg_u32 *last)
{
	const int	tb = hjg_tuple_bytes(width);
	const hjg_u8 *tuples = bucket.tuples;
	hjg_u32		lo = 0;
	hjg_u32		hi = bucket.ntuples;
	hjg_u32		step = 1;

	while (lo < hi)
	{
		hjg_u32		mid = lo + (hi - lo) / 2;

		if (hjg_mixed_less(width, hjg_tuple_key(width, tuples + (size_t) mid * tb), key))
			lo = mid + 1;
		else
			hi = mid;
	}
	*first = lo;

	/* gallop: most keys have few matches, some have all of the bucket */
	while (bucket.ntuples - lo > step &&
		   hjg_mixed_equal(width, hjg_tuple_key(width, tuples + (size_t) (lo + step) * tb), key))
	{
		lo += step;
		step *= 2;
	}
	hi = bucket.ntuples - lo > step ? lo + step : bucket.ntuples;
	while (lo < hi)
	{
		hjg_u32		mid = lo + (hi - lo) / 2;

		if (hjg_mixed_equal(width, hjg_tuple_key(width, tuples + (size_t) mid * tb), key))
			lo = mid + 1;
		else
			hi = mid;
	}
	*last = lo;
}

/* --- arrays by key --- */

/* Find the rows of a place in a table where keys are repeated, whose rows is the address of all: starts, and rows behind them. */
HJG_ALWAYS_INLINE void
hjg_direct_place_rows(HjgTable *table)
{
	table->starts = table->rows;
	table->rows = table->starts + table->nplaces + 2;
}

/* Compute by how many bits places are shifted so that the greatest begins with the word's first bit. */
HJG_ALWAYS_INLINE int
hjg_direct_shift(const HjgTable *table)
{
	return table->nplaces <= 1 ? 31 : __builtin_clz((hjg_u32) (table->nplaces - 1));
}

/* Find the place of a key in the array, or nplaces. */
HJG_ALWAYS_INLINE hjg_u64
hjg_direct_place(int width, const HjgTable *table, const hjg_u8 *key)
{
	hjg_u64		place;

	if (width == 4)
		place = hjg_load32(key) - (hjg_u32) table->first_key;
	else
		place = hjg_load64(key) - table->first_key;
	return place < table->nplaces ? place : table->nplaces;
}

#endif							/* HJG_TABLE_H */
