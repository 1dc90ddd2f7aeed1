/*
 * hjg_cuda_spill.h
 *	  A join that the device partitions, as it goes on: which rows stay on the device, and where the others went.
 *	  Internal to the room "lab".
 *
 * lab_host_spill.c			the flow: sides that come in, and what was spilled and comes back
 * lab_host_spill_rows.c		the decision: partitions that stay, are spilled or are evicted
 */
#ifndef HJG_CUDA_SPILL_H
#define HJG_CUDA_SPILL_H

#include "lab/hjg_cuda_host.h"

/* Spilled rows of a chunk, ordered by partition. */
typedef struct HjgCudaPiece
{
	const char *keys;
	const hjg_u32 *rows;
	hjg_u32		counts[HJG_CUDA_MOST_PARTS];
} HjgCudaPiece;

typedef struct HjgCudaPieces
{
	HjgCudaPiece *pieces;
	int			n;
	int			max;
} HjgCudaPieces;

typedef struct HjgCudaSpilling
{
	HjgCudaSpill *spec;
	HjgCudaStreams *streams;
	HjgCudaPasses passes;		/* builds[0]: the rows that stay */
	HjgCudaSplit split;
	HjgCudaPieces build;
	HjgCudaPieces probe;
	bool		behind[HJG_CUDA_MOST_PARTS];	/* partitions that are spilled */
	int			set_of[HJG_CUDA_MOST_PARTS];
	hjg_u64		seen[HJG_CUDA_MOST_PARTS];	/* build rows that were counted */
	hjg_u64		nseen;
	hjg_u64		next_row;		/* of the side that comes in */
} HjgCudaSpilling;

/* Count the bytes of an array in the spill memory, of which the next one starts at a cache line. */
static inline size_t
hjg_lab_spill_aligned(size_t bytes)
{
	return (bytes + 63) & ~(size_t) 63;
}

static inline int
hjg_lab_spill_parts(const HjgCudaSpilling *spill)
{
	return 1 << spill->spec->bits;
}

/* ---- lab_host_spill_rows.c ---- */

/* Build rows of a chunk were counted: see to it that those of them that stay have room, evicting partitions if need be. */
extern HjgStatus hjg_lab_spill_make_room(HjgCudaSpilling *spill, const hjg_u64 *counts);
/* Order rows that were counted, and send those back that do not stay; the first *nstay ordered rows do. */
extern HjgStatus hjg_lab_spill_split(HjgCudaSpilling *spill, const HjgCudaSide *side, hjg_u64 first_row,
									  const hjg_u64 *counts, HjgCudaPieces *pieces, hjg_u64 *nstay);
/* Queue the first nstay ordered rows behind the first `at` rows that stay. */
extern HjgStatus hjg_lab_spill_keep(HjgCudaSpilling *spill, hjg_u64 at, hjg_u64 nstay);
/* Pack, when all build rows came in, the partitions that were spilled. */
extern void hjg_lab_spill_pack(HjgCudaSpilling *spill);

#endif							/* HJG_CUDA_SPILL_H */
