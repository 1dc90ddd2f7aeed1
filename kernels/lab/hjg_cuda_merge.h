/*
 * hjg_cuda_merge.h
 *	  Merge paths, which cut a merge of two sorted sequences into parts of equal work.
 *
 * Rui and Tu, "Fast Equi-Join Algorithms on GPUs" (SSDBM 2017), 3.3.1: output d of a merge of A and B
 * takes i rows from A and d - i from B, and a binary search along the diagonal d finds i.  A merge join
 * can use any order of the keys; this one is the order of the mixed keys as unsigned numbers.
 */
#ifndef HJG_CUDA_MERGE_H
#define HJG_CUDA_MERGE_H

#include "hjg_cuda_kernel.h"

#define HJG_MERGE_THREADS 256

/* Rows a thread: 8 in the paper; fewer if they would not fit the registers. */
template <int W> HJG_FN constexpr hjg_u32
hjg_merge_items(void)
{
	return W == 16 ? 4 : 8;
}

template <int W> HJG_FN constexpr hjg_u32
hjg_merge_tile(void)
{
	return HJG_MERGE_THREADS * hjg_merge_items<W>();
}

HJG_FN bool hjg_less(hjg_u32 a, hjg_u32 b) { return a < b; }
HJG_FN bool hjg_less(hjg_u64 a, hjg_u64 b) { return a < b; }
HJG_FN bool hjg_less(ulonglong2 a, ulonglong2 b) { return a.x < b.x || (a.x == b.x && a.y < b.y); }

/* Does the next row come from A?  FIRST: A's come first among equal rows. */
template <bool FIRST, class Mixed> HJG_FN bool
hjg_takes_a(Mixed a, Mixed b)
{
	return FIRST ? !hjg_less(b, a) : hjg_less(a, b);
}

/* Count the rows of A among the first d of the merge; a(i) and b(j) return keys. */
template <bool FIRST, class A, class B> HJG_FN hjg_u32
hjg_merge_path(A a, hjg_u32 na, B b, hjg_u32 nb, hjg_u32 d)
{
	hjg_u32		low = d > nb ? d - nb : 0;
	hjg_u32		high = min(d, na);

	while (low < high)
	{
		hjg_u32		i = (low + high) / 2;

		if (hjg_takes_a<FIRST>(a(i), b(d - 1 - i)))
			low = i + 1;
		else
			high = i;
	}
	return low;
}

/* Pad places in shared memory, so that threads that stride by their items avoid bank conflicts. */
HJG_FN constexpr hjg_u32
hjg_padded(hjg_u32 i)
{
	return i + i / 32;
}

#endif							/* HJG_CUDA_MERGE_H */
