/*
 * hjg_pack.h
 *	  Lightweight compression of key columns: statistics, packing, unpacking.
 *
 * The format, its schemes and their order are in layout/hjg_packed.h; prices and the choice of a plan in
 * coupled/hjg_pack_model.h; the unpacking of a lane, for the CPU and for OpenCL devices, in
 * kernels/hjg_unpack.h.  Files:
 *		coupled_pack_stats.c		statistics of a column
 *		coupled_pack.c				packing
 *		coupled_unpack.c			checking and unpacking
 *		coupled_pack_calibrate.c	unit costs of unpacking
 *
 * A packed batch is one piece of memory without pointers, so it may be moved and shared.  It is opened
 * before use (hjg_packed_open() checks the header), and each block is checked when it is unpacked: a
 * damaged batch gives HJG_ERR_INPUT, never wrong keys.
 */
#ifndef HJG_PACK_H
#define HJG_PACK_H

#include "coupled/hjg_pack_model.h"
#include "engine/hjg_engine.h"
#include "kernels/hjg_unpack.h"

/* ---- packing ---- */

/* Count the columns of a key of this width. */
static inline int
hjg_pack_ncolumns(int key_width)
{
	return key_width == 16 ? 2 : 1;
}

/*
 * Collect statistics of a column of keys[nrows] from a sample of blocks; the number of distinct values
 * from all.
 */
extern HjgStatus hjg_pack_collect(const HjgEnv *env, int key_width, const void *keys, hjg_u32 nrows, int column,
								  HjgPackStats *stats);

/* Bound the bytes of any batch of nrows rows. */
extern size_t hjg_pack_bound(int key_width, hjg_u32 nrows);

/*
 * Pack keys[nrows] by one plan a column into packed, which is aligned to 8 bytes and has room for
 * hjg_pack_bound().  HJG_ERR_INPUT: the plan does not suit the data (Scale would change values, or a
 * dictionary cannot hold them).
 */
extern HjgStatus hjg_pack(const HjgEnv *env, int key_width, const HjgPackPlan *plans, const void *keys, hjg_u32 nrows,
						  void *packed, size_t *bytes);

/* ---- unpacking ---- */

/* Compute the checksum of words in their order (hjg_checksum.h). */
extern hjg_u64 hjg_pack_checksum(const hjg_u64 *words, size_t nwords);

/*
 * Open a batch of bytes.  HJG_ERR_INPUT unless its header is complete and undamaged and all offsets in it
 * are within the batch.
 */
extern HjgStatus hjg_packed_open(const void *packed, size_t bytes, const HjgPackHeader **header);

static inline hjg_u32
hjg_packed_nblocks(const HjgPackHeader *header)
{
	return (hjg_u32) (((hjg_u64) header->nrows + HJG_PACK_BLOCK_ROWS - 1) / HJG_PACK_BLOCK_ROWS);
}

/* Open and check a column's block ix; HJG_ERR_INPUT if it is damaged. */
extern HjgStatus hjg_packed_block(const HjgPackHeader *header, int column, hjg_u32 ix, const HjgPackBlock **block);

/*
 * Unpack all columns of block ix to keys, HJG_PACK_BLOCK_ROWS of them or fewer in the last block.
 * scratch: HJG_UNPACK_SCRATCH_BYTES, aligned to 8, private to this thread.
 */
extern HjgStatus hjg_unpack_block(const HjgPackHeader *header, hjg_u32 ix, void *keys, void *scratch);

/*
 * Decompress partially: write the runs of a column's block that has RLE.  values (in the column's width)
 * and ends have room for HJG_PACK_BLOCK_ROWS; rows [ends[i - 1], ends[i]) have values[i].
 */
extern HjgStatus hjg_unpack_runs(const HjgPackHeader *header, int column, hjg_u32 ix, void *values, hjg_u32 *ends,
								 hjg_u32 *nruns);

/* ---- coupled_pack_calibrate.c ---- */

/* Measure unit costs of unpacking on this thread, with generated columns; takes some milliseconds. */
extern HjgStatus hjg_pack_calibrate(const HjgEnv *env, HjgPackCosts *costs);

#endif							/* HJG_PACK_H */
