/*
 * hjg_cuda_chunk.h
 *	  Allocation in linked chunks of a fixed size, for the output of a block.
 *
 * A cursor is one word: the open chunk's number in the upper half, the number of its places taken in the
 * lower.  The first thread whose places do not fit takes the rest of the chunk, allocates new chunks
 * (consecutive ones, if one is not enough) and opens the last of them; later threads wait until the open
 * chunk's number changes.  The first thread never waits, so the others do not wait long.  Threads of a
 * warp must not take from the same cursor at the same time.
 */
#ifndef HJG_CUDA_CHUNK_H
#define HJG_CUDA_CHUNK_H

#include "hjg_cuda_kernel.h"

/* n places: the first `here` at place at of a chunk, the others at the start of chunk next. */
struct HjgTaken
{
	hjg_u32		chunk;
	hjg_u32		at;
	hjg_u32		here;
	hjg_u32		next;

	/* number of the i-th place, counted over all chunks */
	__device__ __forceinline__ hjg_u64
	place(hjg_u32 i, hjg_u32 size) const
	{
		return i < here ? (hjg_u64) chunk * size + at + i : (hjg_u64) next * size + (i - here);
	}
};

/* Take n places.  get(k) returns the first of k new chunks. */
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
			const hjg_u32 next = get(k);

			atomicExch(cursor, (unsigned long long) (next + k - 1) << 32 | (rest - (k - 1) * size));
			return {chunk, at, size - at, next};
		}
		while ((hjg_u32) (atomicOr(cursor, 0ull) >> 32) == chunk)
			__nanosleep(100);
	}
}

#endif							/* HJG_CUDA_CHUNK_H */
