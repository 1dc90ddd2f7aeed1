/*
 * rows_store_data.c
 *	  Values of variable length in a row store: data blocks.
 *
 * Data blocks are filled from the front, and kept over a reset, like chunks.
 *
 * In a shared store each process has chunks and blocks at other addresses, so a row has a place instead of a pointer: the
 * number of the block, and the offset in it. The arrays of chunks and blocks may then have holes, for row numbers that were
 * not used.
 */
#include "postgres.h"

#include "utils/datum.h"
#include "utils/expandeddatum.h"
#include "utils/memutils.h"

#include "rows/hjg_rows_store.h"

/* Data blocks grow from the first to the second size; a value of OWN_BLOCK_BYTES or more has a block of its own. */
#define FIRST_BLOCK_BYTES 8192
#define LAST_BLOCK_BYTES (1024 * 1024)
#define OWN_BLOCK_BYTES (LAST_BLOCK_BYTES / 8)

void
hjg_rows_store_reset_data(HjgStore *store)
{
	while (store->blocks != NULL)
	{
		HjgDataBlock  *block = store->blocks;

		store->blocks = block->next;
		if (block->bytes > LAST_BLOCK_BYTES)
			pfree(block);
		else
		{
			block->next = store->spare_blocks;
			store->spare_blocks = block;
		}
	}
	store->block_used = 0;
	store->data_bytes = 0;
}

static void
free_blocks(HjgDataBlock *block)
{
	while (block != NULL)
	{
		HjgDataBlock  *next = block->next;

		pfree(block);
		block = next;
	}
}

void
hjg_rows_store_free_data(HjgStore *store)
{
	free_blocks(store->blocks);
	free_blocks(store->spare_blocks);
	if (store->shared.blocks != NULL)
		pfree(store->shared.blocks);
	if (store->shared.pieces != NULL)
		pfree(store->shared.pieces);
}

/* ---------- space for values ---------- */

static HjgDataBlock *
make_block(HjgStore *store, size_t bytes)
{
	HjgDataBlock  *block = MemoryContextAllocHuge(store->context, offsetof(HjgDataBlock, data) + bytes);

	block->bytes = bytes;
	return block;
}

/* Find a spare block with space for so many bytes; NULL: none. Frees smaller ones, which would hide it otherwise. */
static HjgDataBlock *
take_spare_block(HjgStore *store, size_t bytes)
{
	HjgDataBlock  *block;

	while ((block = store->spare_blocks) != NULL)
	{
		store->spare_blocks = block->next;
		if (block->bytes >= bytes)
			return block;
		pfree(block);
	}
	return NULL;
}

/* Start filling an empty block with space for so many bytes. */
static void
start_block(HjgStore *store, size_t bytes)
{
	HjgDataBlock  *block = take_spare_block(store, bytes);

	if (block == NULL)
		block = make_block(store, Max(Max(Min(store->data_bytes, LAST_BLOCK_BYTES), FIRST_BLOCK_BYTES), bytes));
	block->next = store->blocks;
	store->blocks = block;
	store->block_used = 0;
	store->data_bytes += block->bytes;
}

/* Allocate space for a value in the data blocks. */
static char *
data_alloc(HjgStore *store, size_t bytes)
{
	char	   *place;

	if (store->blocks == NULL || store->blocks->bytes - store->block_used < bytes)
	{
		if (bytes >= OWN_BLOCK_BYTES && store->blocks != NULL)
		{
			HjgDataBlock  *own = take_spare_block(store, bytes);

			if (own == NULL)
				own = make_block(store, bytes);
			own->next = store->blocks->next;
			store->blocks->next = own;
			store->data_bytes += own->bytes;
			return own->data;
		}
		start_block(store, bytes);
	}
	place = store->blocks->data + store->block_used;
	store->block_used += Min(MAXALIGN(bytes), store->blocks->bytes - store->block_used);
	return place;
}

/* Allocate space for a value in the blocks of a shared store. */
static char *
shared_data_alloc(HjgStore *store, size_t bytes, uint64 *place)
{
	char	   *address;

	if (store->shared.block_bytes - store->block_used < bytes)
	{
		uint32		ix = pg_atomic_fetch_add_u32(store->shared.sharing->next_block, 1);
		size_t		block_bytes = Max(Min(store->shared.piece_bytes, LAST_BLOCK_BYTES), FIRST_BLOCK_BYTES);

		*place = (uint64) ix << 32;
		/* for a large value the block being filled is not abandoned */
		if (bytes >= OWN_BLOCK_BYTES)
			return hjg_rows_store_add_own_piece(store, ix, true, bytes);
		store->shared.block_bytes = Max(block_bytes, bytes);
		store->shared.block = hjg_rows_store_add_own_piece(store, ix, true, store->shared.block_bytes);
		store->shared.block_ix = ix;
		store->block_used = 0;
	}
	address = store->shared.block + store->block_used;
	*place = (uint64) store->shared.block_ix << 32 | store->block_used;
	store->block_used += Min(MAXALIGN(bytes), store->shared.block_bytes - store->block_used);
	return address;
}

uint64
hjg_rows_store_copy_value(HjgStore *store, Datum value, int16 attlen)
{
	ExpandedObjectHeader *object = NULL;
	char	   *copy;
	Size		bytes;
	uint64		kept;

	if (attlen == -1 && VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value)))
	{
		object = DatumGetEOHP(value);
		bytes = EOH_get_flat_size(object);
	}
	else
		bytes = attlen == -1 ? VARSIZE_ANY(DatumGetPointer(value)) : datumGetSize(value, false, attlen);

	if (store->shared.sharing != NULL)
		copy = shared_data_alloc(store, bytes, &kept);
	else
	{
		copy = data_alloc(store, bytes);
		kept = (uint64) (uintptr_t) copy;
	}
	if (object != NULL)
		EOH_flatten_into(object, copy, bytes);
	else
		memcpy(copy, DatumGetPointer(value), bytes);
	return kept;
}
