/*
 * hjg_chain.h
 *	  The chains of slabs that an operation names.
 */
#ifndef HJG_CHAIN_H
#define HJG_CHAIN_H

#include "arena/hjg_arena.h"

typedef struct HjgInput
{
	const void *keys;
	const void *payload;		/* or NULL */
	hjg_u32		nrows;
	hjg_u32		first_row;
} HjgInput;

/*
 * Collect an operation's inputs by ascending first row into an array of room entries.  False when the chain
 * is unsound or longer.  Payload columns, of payload_bytes a row, count only if all slabs have them.
 */
extern bool hjg_device_chain_inputs(const HjgArenaView *view, const HjgOp *op, hjg_u64 owner, hjg_u32 key_width,
									hjg_u32 payload_bytes, HjgInput *inputs, hjg_u32 room, hjg_u32 *ninputs);
/* Collect the pages for an operation's results.  False when there is none, or the chain is unsound or longer. */
extern bool hjg_device_chain_results(const HjgArenaView *view, const HjgOp *op, hjg_u64 owner,
									 HjgPair **pages, hjg_u32 room, hjg_u32 *npages);

#endif							/* HJG_CHAIN_H */
