/*
 * hjg_cuda_spill.h
 *	  The state of a join that the device partitions: rows that stay on the device, and places of the
 *	  others.  Internal to the room "lab".
 *
 *	lab_host_spill.c			the flow: incoming sides, and spilled rows that come back
 *	lab_host_spill_rows.c		the decision: partitions that stay, are spilled or are evicted
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
	hjg_u64		seen[HJG_CUDA_MOST_PARTS];	/* build rows counted so far */
	hjg_u64		nseen;
	hjg_u64		next_row;		/* of the incoming side */
} HjgCudaSpilling;

/* Round up the bytes of an array in the spill memory, so that the next one starts at a cache line. */
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

/* Make room for the counted build rows of a chunk that stay, evicting partitions if necessary. */
extern HjgStatus hjg_lab_spill_make_room(HjgCudaSpilling *spill, const hjg_u64 *counts);
/* Order the counted rows, and send back those that do not stay; the first *nstay ordered rows stay. */
extern HjgStatus hjg_lab_spill_split(HjgCudaSpilling *spill, const HjgCudaSide *side, hjg_u64 first_row,
									  const hjg_u64 *counts, HjgCudaPieces *pieces, hjg_u64 *nstay);
/* Queue the first nstay ordered rows behind the first `at` rows that stay. */
extern HjgStatus hjg_lab_spill_keep(HjgCudaSpilling *spill, hjg_u64 at, hjg_u64 nstay);
/* Pack the spilled partitions, when all build rows have come in. */
extern void hjg_lab_spill_pack(HjgCudaSpilling *spill);

#endif							/* HJG_CUDA_SPILL_H */
