/*
 * hjg_stage.h
 *	  Radix partitioning of rows into blocks, in one pass, for who takes the blocks away meanwhile.
 *
 * Room "engine": pure C.  The counting partitioning of the cpu engine (engine_partition.c) knows where each
 * row goes only when all were seen; here a partition is a set of blocks of fixed size, and a block is
 * handed over as soon as it is full (paper 003, section IV B).
 *
 * A block holds up to block_rows keys as they came in and, behind the room for these, as many row numbers.  The
 * number of a partition is the last bits of the first word of the mixed key: the leading ones are left
 * to who partitions on.
 *
 * Who owns what: the memory of the blocks is the caller's, as good for the device as he made it.
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
	hjg_u32		next;			/* atomic; blocks are not given back */
} HjgStageMemory;

typedef struct HjgStageBlock
{
	hjg_u32		block;			/* of the memory */
	hjg_u32		nrows;
} HjgStageBlock;

/* Takes a block over; called by any worker, by several at the same time. */
typedef void (*HjgStageFn) (void *arg, int part, HjgStageBlock block);

typedef struct HjgStage HjgStage;

extern size_t hjg_stage_block_bytes(int key_width, hjg_u32 block_rows);
/* Bound the blocks that a stage of so many rows takes. */
extern hjg_u32 hjg_stage_blocks(hjg_u64 nrows, int bits, hjg_u32 block_rows, int nworkers);

/* NULL when memory is short. */
extern HjgStage *hjg_stage_create(int key_width, int bits, hjg_u32 block_rows, int nworkers, HjgStageMemory *memory,
								  HjgStageFn take, void *arg);
/* Stage nrows rows; one call at a time for each worker.  False, for good, when there is no block left. */
extern bool hjg_stage_rows(HjgStage *stage, int worker, const void *keys, hjg_u32 nrows, hjg_u32 first_row);
/* Hand over what is left of all workers.  False like hjg_stage_rows(). */
extern bool hjg_stage_finish(HjgStage *stage);
extern void hjg_stage_free(HjgStage *stage);

/* Find where the rows of a block lie. */
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
