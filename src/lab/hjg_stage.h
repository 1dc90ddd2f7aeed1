/*
 * hjg_stage.h
 *	  Radix partitioning of rows into blocks, in one pass, for a consumer that takes the blocks
 *	  meanwhile.
 *
 * Room "lab": pure C.  The counting partitioning of the cpu engine (engine_partition.c) knows each row's
 * place only after it has seen all rows.  Here a partition is a set of blocks of fixed size, and a block
 * is handed over as soon as it is full (paper 003, section IV B).
 *
 * A block holds up to block_rows keys, unchanged, and, behind the room for these, as many row numbers.
 * The number of a partition is the last bits of the first word of the mixed key: the leading bits are left
 * to a consumer that partitions further.
 *
 * Ownership: the memory of the blocks is the caller's, who pins it for the device if need be.
 */
#ifndef HJG_STAGE_H
#define HJG_STAGE_H

#include "engine/hjg_engine.h"

#define HJG_STAGE_MOST_BITS 8
#define HJG_STAGE_GROUP 16		/* block_rows is a multiple of it */

/* Memory for blocks, which several stages may share. */
typedef struct HjgStageMemory
{
	char	   *base;			/* 64-byte aligned */
	hjg_u32		nblocks;
	hjg_u32		next;			/* atomic; blocks are never returned */
} HjgStageMemory;

typedef struct HjgStageBlock
{
	hjg_u32		block;			/* of the memory */
	hjg_u32		nrows;
} HjgStageBlock;

/* Takes a block over; several workers may call it at the same time. */
typedef void (*HjgStageFn) (void *arg, int part, HjgStageBlock block);

typedef struct HjgStage HjgStage;

extern size_t hjg_stage_block_bytes(int key_width, hjg_u32 block_rows);
/* Bound the blocks of a stage of nrows rows. */
extern hjg_u32 hjg_stage_blocks(hjg_u64 nrows, int bits, hjg_u32 block_rows, int nworkers);

/* Create a stage; NULL without memory. */
extern HjgStage *hjg_stage_create(int key_width, int bits, hjg_u32 block_rows, int nworkers, HjgStageMemory *memory,
								  HjgStageFn take, void *arg);
/* Stage nrows rows; one call at a time for each worker.  False, for good, when no block is left. */
extern bool hjg_stage_rows(HjgStage *stage, int worker, const void *keys, hjg_u32 nrows, hjg_u32 first_row);
/* Hand over the partly filled blocks of all workers.  False like hjg_stage_rows(). */
extern bool hjg_stage_finish(HjgStage *stage);
extern void hjg_stage_free(HjgStage *stage);

/* Find the rows of a block. */
static inline char *
hjg_stage_keys(const HjgStageMemory *memory, int key_width, hjg_u32 block_rows, hjg_u32 block)
{
	return memory->base + (size_t) block * hjg_stage_block_bytes(key_width, block_rows);
}

static inline hjg_u32 *
hjg_stage_numbers(const HjgStageMemory *memory, int key_width, hjg_u32 block_rows, hjg_u32 block)
{
	return (hjg_u32 *) (hjg_stage_keys(memory, key_width, block_rows, block) + (size_t) block_rows * (size_t) key_width);
}

/* Find the partition of a key. */
extern int	hjg_stage_part(int key_width, int bits, const void *key);

#endif							/* HJG_STAGE_H */
