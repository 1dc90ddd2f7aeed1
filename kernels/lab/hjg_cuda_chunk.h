/*
 * hjg_cuda_chunk.h
 *	  Room in chunks of a fixed size that are linked up as they fill: for the bucket chains of partitions, and for
 *	  the output of a block.
 *
 * A cursor is one word: the open chunk's number above, the places taken in it below.  Whoever takes the places that
 * do not fit any more takes what is left, gets new chunks (consecutive ones, if one is not enough) and opens the last of
 * them; who comes in between waits until the open chunk's number is another.  The first never waits, so the others do not wait for long.  A
 * warp's threads must not take from one cursor at the same time.
 */
#ifndef HJG_CUDA_CHUNK_H
#define HJG_CUDA_CHUNK_H

#include "hjg_cuda_kernel.h"

/* n places: the first `here` from place at of a chunk on, the others from the start of chunk next on. */
struct HjgTaken
{
	hjg_u32		chunk;
	hjg_u32		at;
	hjg_u32		here;
	hjg_u32		next;

	/* the i-th of them, counted over all chunks */
	__device__ __forceinline__ hjg_u64
	place(hjg_u32 i, hjg_u32 size) const
	{
		return i < here ? (hjg_u64) chunk * size + at + i : (hjg_u64) next * size + (i - here);
	}
};

/* get(k, chunk): the first of k new chunks that follow chunk. */
template <class Get> HJG_FN HjgTaken
hjg_chunk_take(unsigned long long *cursor, hjg_u32 n, hjg_u32 size, Get get)
{
	for (;;)
	{
		const unsigned long long old = atomicAdd(cursor, (unsigned long long) n);
		const hjg_u32 chunk = (hjg_u32) (old >> 32);
		const hjg_u32 at = (hjg_u32) old;

		if (at + n <= size)
			return {chunk, at, n, 0};
		if (at <= size)
		{
			const hjg_u32 rest = n - (size - at);
			const hjg_u32 k = (rest + size - 1) / size;
			const hjg_u32 next = get(k, chunk);

			atomicExch(cursor, (unsigned long long) (next + k - 1) << 32 | (rest - (k - 1) * size));
			return {chunk, at, size - at, next};
		}
		while ((hjg_u32) (atomicOr(cursor, 0ull) >> 32) == chunk)
			__nanosleep(100);
	}
}

#endif							/* HJG_CUDA_CHUNK_H */
