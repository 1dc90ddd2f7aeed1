/*
 * rows_store_piece.c
 *	  Chunks and data blocks of a row store by their numbers: a store's own, and those of a shared store, which other handles
 *	  may have filled.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "rows/hjg_rows_store.h"

/* Make space for element ix of an array of addresses; new elements are NULL. */
static void
reserve_element(HjgStore *store, char ***array, int *length, uint32 ix)
{
	int			max = Max(16, *length);

	if (ix < (uint32) *length)
		return;
	while ((uint32) max <= ix)
		max *= 2;
	if (*array == NULL)
		*array = MemoryContextAllocHuge(store->context, max * sizeof(char *));
	else
		*array = repalloc_huge(*array, max * sizeof(char *));
	memset(*array + *length, 0, (max - *length) * sizeof(char *));
	*length = max;
}

void
hjg_rows_store_add_piece(HjgStore *store, const HjgStorePiece *piece, void *address)
{
	if (piece->is_block)
	{
		reserve_element(store, &store->shared.blocks, &store->shared.max_blocks, piece->ix);
		store->shared.blocks[piece->ix] = address;
	}
	else
	{
		reserve_element(store, &store->chunks, &store->max_chunks, piece->ix);
		store->chunks[piece->ix] = address;
		store->nchunks = Max(store->nchunks, (int) piece->ix + 1);
	}
}

char *
hjg_rows_store_add_own_piece(HjgStore *store, uint32 ix, bool is_block, size_t bytes)
{
	HjgStorePiece *piece;
	char	   *address;

	if (store->shared.npieces == store->shared.max_pieces)
	{
		store->shared.max_pieces = Max(16, store->shared.max_pieces * 2);
		if (store->shared.pieces == NULL)
			store->shared.pieces = MemoryContextAlloc(store->context, store->shared.max_pieces * sizeof(HjgStorePiece));
		else
			store->shared.pieces = repalloc_huge(store->shared.pieces, store->shared.max_pieces * sizeof(HjgStorePiece));
	}
	piece = &store->shared.pieces[store->shared.npieces];
	*piece = (HjgStorePiece) {.ix = ix, .is_block = is_block};
	address = store->shared.sharing->alloc(store->shared.sharing->arg, bytes, &piece->name);
	store->shared.npieces++;
	store->shared.piece_bytes += bytes;
	hjg_rows_store_add_piece(store, piece, address);
	return address;
}

const HjgStorePiece *
hjg_rows_store_pieces(const HjgStore *store, int *npieces)
{
	*npieces = store->shared.npieces;
	return store->shared.pieces;
}

void
hjg_rows_store_begin_chunk(HjgStore *store, uint32 row)
{
	uint32		ix = row >> store->chunk_shift;

	if (ix < (uint32) store->nchunks && store->chunks[ix] != NULL)
		return;					/* kept over a reset */
	if (store->shared.sharing != NULL)
		hjg_rows_store_add_own_piece(store, ix, false, store->chunk_bytes);
	else
	{
		reserve_element(store, &store->chunks, &store->max_chunks, ix);
		store->chunks[ix] = MemoryContextAllocHuge(store->context, store->chunk_bytes);
		store->nchunks = (int) ix + 1;
	}
	((HjgChunkHeader *) store->chunks[ix])->has_nulls = false;
}
