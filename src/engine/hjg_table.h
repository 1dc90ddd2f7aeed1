/*
 * hjg_table.h
 *	  The layout of the table of a join: buckets, or an array by key.
 *
 * A bucket is all tuples whose mixed keys lie in the same of nbuckets equal ranges.  Each bucket has a
 * cache line, which holds the number of its tuples and, if they fit, the tuples in order of build row.
 * The tuples of a crowded bucket lie together elsewhere.  A bucket of more than HJG_HEAVY_BUCKET tuples is
 * ordered by mixed key, then by build row, and is searched by bisection.  So most probes wait for one
 * line, and none costs more than a short scan or a logarithm besides its own output.  Partitions are
 * ranges of bucket numbers.  Partitioning a probe batch therefore only sorts it for locality: any fan-out
 * suits the table, and a work unit is any range of the sorted batch, however skewed the keys.
 *
 * Dense keys have an array by key instead.
 */
#ifndef HJG_TABLE_H
#define HJG_TABLE_H

#include "engine/hjg_tuple.h"

/* Buckets up to this size are scanned, larger ones are sorted and bisected. */
#define HJG_HEAVY_BUCKET 32

/* A bucket's line; see hjg_line_tuples(). */
#define HJG_LINE_BYTES 64

/* Tuples that may be read, not used, after the last tuple of crowded buckets. */
#define HJG_TABLE_PAD 16

/* Buckets, or an array by key. */
typedef struct HjgTable
{
	hjg_u64		nrows;
	hjg_u8	   *lines;			/* nbuckets */
	hjg_u8	   *tuples;			/* of crowded buckets; a line before and HJG_TABLE_PAD tuples behind are
								 * readable */
	hjg_u32		nbuckets;		/* a multiple of the number of partitions, at most 2^31 */
	hjg_u64		ncrowded;		/* rows in crowded buckets, except those of giant partitions */

	/*
	 * Array by key: not NULL.  For nplaces neighbouring keys from first_key on it holds each key's build
	 * row or HJG_NO_ROW, and HJG_NO_ROW behind them.
	 */
	hjg_u32	   *rows;
	hjg_u64		nplaces;
	hjg_u64		first_key;

	/*
	 * Not NULL where keys are repeated: rows[starts[place]] to rows[starts[place + 1] - 1] have the
	 * place's key, in order.  Behind the places follows one without rows, and HJG_TABLE_PAD more rows may
	 * be read.
	 */
	hjg_u32	   *starts;
} HjgTable;

/* --- buckets --- */

/* The tuples of a bucket, in its line or elsewhere. */
typedef struct HjgBucket
{
	const hjg_u8 *tuples;
	hjg_u32		ntuples;
} HjgBucket;

/* Compute the bytes before a line's tuples: their number, and padding that aligns 8-byte tuples. */
HJG_ALWAYS_INLINE int
hjg_line_header_bytes(int width)
{
	return width == 4 ? 8 : 4;
}

/* Count the tuples that fit in a line: 7, 5 or 3. */
HJG_ALWAYS_INLINE hjg_u32
hjg_line_tuples(int width)
{
	return (hjg_u32) ((HJG_LINE_BYTES - hjg_line_header_bytes(width)) / hjg_tuple_bytes(width));
}

/*
 * Find a bucket without a branch.  The line of a crowded bucket holds, behind the number, the index of the
 * bucket's first tuple in table->tuples.
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

	/* gallop: most keys have few matches, some have the whole bucket */
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

/* Split table->rows of a table with repeated keys into starts and the rows behind them. */
HJG_ALWAYS_INLINE void
hjg_direct_place_rows(HjgTable *table)
{
	table->starts = table->rows;
	table->rows = table->starts + table->nplaces + 2;
}

/* Compute the shift that moves the greatest place's highest bit to the word's first bit. */
HJG_ALWAYS_INLINE int
hjg_direct_shift(const HjgTable *table)
{
	return table->nplaces <= 1 ? 31 : __builtin_clz((hjg_u32) (table->nplaces - 1));
}

/* Find the place of a key in the array; nplaces when it has none. */
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
