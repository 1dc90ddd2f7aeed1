/*
 * hjg_csr_steps.h
 *	  The work of a thread in the kernels of cuda_csr.cu, as functions in the common subset of CUDA and
 *	  C, so that a device emulated on the host runs the same code.
 *
 * width is a constant in all calls and vanishes by inlining.
 */
#ifndef HJG_CSR_STEPS_H
#define HJG_CSR_STEPS_H

#include "layout/hjg_csr.h"
#include "layout/hjg_hash.h"

#ifdef __CUDACC__
#define HJG_STEP static __forceinline__ __host__ __device__
#else
#define HJG_STEP static inline __attribute__((always_inline))
#endif

/* A mixed key; low is 0 except for 16-byte keys. */
typedef struct HjgCsrKey
{
	hjg_u64		high;
	hjg_u64		low;
} HjgCsrKey;

HJG_STEP HjgCsrKey
hjg_step_load(int width, const void *keys, hjg_u64 i)
{
	HjgCsrKey	key;

	key.low = 0;
	if (width == 4)
		key.high = ((const hjg_u32 *) keys)[i];
	else if (width == 8)
		key.high = ((const hjg_u64 *) keys)[i];
	else
	{
		key.high = ((const hjg_u64 *) keys)[2 * i];
		key.low = ((const hjg_u64 *) keys)[2 * i + 1];
	}
	return key;
}

HJG_STEP void
hjg_step_store(int width, void *keys, hjg_u64 i, HjgCsrKey key)
{
	if (width == 4)
		((hjg_u32 *) keys)[i] = (hjg_u32) key.high;
	else if (width == 8)
		((hjg_u64 *) keys)[i] = key.high;
	else
	{
		((hjg_u64 *) keys)[2 * i] = key.high;
		((hjg_u64 *) keys)[2 * i + 1] = key.low;
	}
}

/* Mix a raw key. */
HJG_STEP HjgCsrKey
hjg_step_mix(int width, HjgCsrKey raw)
{
	if (width == 4)
		raw.high = hjg_mix32(hjg_hash_seed, (hjg_u32) raw.high);
	else if (width == 8)
		raw.high = hjg_mix64(hjg_hash_seed, raw.high);
	else
		raw.high = hjg_mix128(hjg_hash_seed, raw.high, raw.low);
	return raw;
}

HJG_STEP int
hjg_step_equal(int width, HjgCsrKey a, HjgCsrKey b)
{
	return a.high == b.high && (width < 16 || a.low == b.low);
}

HJG_STEP int
hjg_step_less(HjgCsrKey a, HjgCsrKey b)
{
	return a.high < b.high || (a.high == b.high && a.low < b.low);
}

HJG_STEP hjg_u32
hjg_step_bucket(int width, HjgCsrKey key, hjg_u32 bits)
{
	return (hjg_u32) (key.high >> ((width == 4 ? 32 : 64) - bits));
}

HJG_STEP hjg_u32
hjg_step_digit(HjgCsrKey key, HjgCsrDigit digit)
{
	return (hjg_u32) ((digit.word == 0 ? key.high : key.low) >> digit.shift) & ((1u << digit.nbits) - 1);
}

/*
 * Find the first tuple in [begin, end) of a sorted bucket that is not less than the key, or with after,
 * greater than the key.
 */
HJG_STEP hjg_u32
hjg_step_bisect(int width, const HjgCsrTable *table, HjgCsrKey key, hjg_u32 begin, hjg_u32 end, int after)
{
	while (begin < end)
	{
		hjg_u32		mid = begin + (end - begin) / 2;
		HjgCsrKey	at = hjg_step_load(width, table->keys, mid);

		if (after ? !hjg_step_less(key, at) : hjg_step_less(at, key))
			begin = mid + 1;
		else
			end = mid;
	}
	return begin;
}

/* Count the matches of a mixed key and find the index of the first; with any, at most one is sought. */
HJG_STEP hjg_u32
hjg_step_find(int width, const HjgCsrTable *table, HjgCsrKey key, int any, hjg_u32 *first)
{
	const hjg_u32 bucket = hjg_step_bucket(width, key, table->bucket_bits);
	hjg_u32		begin = table->start[bucket];
	const hjg_u32 end = table->start[bucket + 1];
	hjg_u32		n = 0;

	*first = HJG_NO_ROW;
	if (end - begin > HJG_CSR_HEAVY)
	{
		begin = hjg_step_bisect(width, table, key, begin, end, 0);
		if (begin == end || !hjg_step_equal(width, hjg_step_load(width, table->keys, begin), key))
			return 0;
		*first = begin;
		return any ? 1 : hjg_step_bisect(width, table, key, begin, end, 1) - begin;
	}
	for (; begin < end; begin++)
		if (hjg_step_equal(width, hjg_step_load(width, table->keys, begin), key))
		{
			if (n++ == 0)
				*first = begin;
			if (any)
				break;
		}
	return n;
}

/* Count the pairs that the mode emits for a row with n matches. */
HJG_STEP hjg_u32
hjg_step_npairs(int mode, hjg_u32 n)
{
	switch (mode)
	{
		case HJG_MATCH_LEFT:
			return n + (n == 0);
		case HJG_MATCH_SEMI:
			return n > 0;
		case HJG_MATCH_ANTI:
			return n == 0;
		default:
			return n;
	}
}

/* Find the tuple of match k, counted from tuple first. */
HJG_STEP hjg_u32
hjg_step_tuple(int width, const HjgCsrTable *table, hjg_u32 first, hjg_u32 k)
{
	HjgCsrKey	key;

	if (k == 0 || table->sorted)
		return first + k;
	key = hjg_step_load(width, table->keys, first);
	while (k > 0)
	{
		first++;
		k -= hjg_step_equal(width, hjg_step_load(width, table->keys, first), key);
	}
	return first;
}

/* Return the build row of match k, counted from tuple first. */
HJG_STEP hjg_u32
hjg_step_match(int width, const HjgCsrTable *table, hjg_u32 first, hjg_u32 k)
{
	return first == HJG_NO_ROW ? HJG_NO_ROW : table->rows[hjg_step_tuple(width, table, first, k)];
}

/*
 * Count a row's matches in the slice.  The row has n matches from tuple *first; *first becomes the first
 * match in the slice.
 */
HJG_STEP hjg_u32
hjg_step_slice(int width, const HjgCsrTable *table, HjgCsrSlice slice, hjg_u32 n, hjg_u32 *first)
{
	hjg_u32		left;
	hjg_u32		count;

	if (slice.most == 0)
		return n;
	left = slice.skip < n ? n - (hjg_u32) slice.skip : 0;
	count = slice.most < left ? (hjg_u32) slice.most : left;
	if (count > 0)
		*first = hjg_step_tuple(width, table, *first, left - count);
	return count;
}

/* Find the last of offsets[lo..hi] that is not above pair, where offsets[lo] is not. */
HJG_STEP hjg_u64
hjg_step_row_of(const hjg_u64 *offsets, hjg_u64 lo, hjg_u64 hi, hjg_u64 pair)
{
	while (lo < hi)
	{
		hjg_u64		mid = lo + (hi - lo + 1) / 2;

		if (offsets[mid] <= pair)
			lo = mid;
		else
			hi = mid - 1;
	}
	return lo;
}

/*
 * Cut a window.  offsets[i] pairs precede row i, offsets[nrows] is their total.  skip pairs of row 0 were
 * emitted before (more than it has means all of them); room is the number of pairs that may be written.
 */
HJG_STEP HjgCsrCut
hjg_step_cut(const hjg_u64 *offsets, hjg_u64 nrows, hjg_u64 skip, hjg_u64 room)
{
	HjgCsrCut	cut;

	cut.total = offsets[nrows];
	cut.begin = skip < offsets[1] ? skip : offsets[1];
	cut.end = cut.total - cut.begin <= room ? cut.total : cut.begin + room;
	if (cut.end == cut.total)
	{
		cut.row = nrows;
		cut.skip = 0;
		return cut;
	}
	cut.row = hjg_step_row_of(offsets, 0, nrows, cut.end);
	cut.skip = cut.end - offsets[cut.row];
	return cut;
}

#endif							/* HJG_CSR_STEPS_H */
