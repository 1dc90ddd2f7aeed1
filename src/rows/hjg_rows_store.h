/*
 * hjg_rows_store.h
 *	  Declarations that the files of the row store, rows_store*.c, share.
 *	  Internal to the room "rows".
 *
 * rows_store.c layout of a row, a store's life rows_store_append.c appends rows, one by one or as vectors rows_store_data.c
 * values of variable length: data blocks, private and shared rows_store_piece.c chunks and shared data blocks by their
 * numbers rows_store_gather.c gathers rows, by number
 */
#ifndef HJG_ROWS_STORE_H
#define HJG_ROWS_STORE_H

#include "rows/hjg_rows.h"

/* Rows begin at a cache line. */
#define HJG_CHUNK_HEADER_BYTES 64

/* Layout of a column's value in a row. */
typedef enum HjgColumnForm
{
	HJG_FORM_BYTE,
	HJG_FORM_INT16,
	HJG_FORM_INT32,
	HJG_FORM_INT64,
	HJG_FORM_INLINE,				/* attlen bytes, by reference */
	HJG_FORM_POINTER,				/* variable length, in a data block */
	HJG_FORM_PLACE,					/* the same in a shared store: number of the block, offset */
	HJG_FORM_SHORT					/* variable length, in the row if it fits; else apart, see below */
} HjgColumnForm;

/*
 * A value of the form SHORT that is apart: the row has a toast pointer of a kind that core does not have, with the content of
 * POINTER or PLACE.
 */
#define HJG_APART_TAG 0xFF
#define HJG_APART_OFF 8

StaticAssertDecl(HJG_APART_OFF + sizeof(uint64) <= HJG_LEAST_INLINE_BYTES, "a value that is apart has its place in the row");

static inline bool
hjg_rows_store_is_apart(const char *value)
{
	return VARATT_IS_EXTERNAL(value) && VARTAG_EXTERNAL(value) == HJG_APART_TAG;
}

typedef struct HjgStoreColumn
{
	HjgColumn	column;
	HjgColumnForm	form;
	int			width;			/* bytes of a value in a row */
	int			row_off;
} HjgStoreColumn;

typedef struct HjgChunkHeader
{
	bool		has_nulls;		/* NULL bits of this chunk are valid */
} HjgChunkHeader;

typedef struct HjgDataBlock
{
	struct HjgDataBlock *next;
	size_t		bytes;			/* of data[] */
	char		data[FLEXIBLE_ARRAY_MEMBER];
} HjgDataBlock;

/* The blocks of a shared store, used instead of the private ones. */
typedef struct HjgSharedStore
{
	const HjgSharing *sharing;	/* NULL: the store is private */
	char	  **blocks;			/* by number */
	int			max_blocks;
	char	   *block;			/* being filled, up to the store's block_used */
	uint32		block_ix;
	size_t		block_bytes;
	HjgStorePiece *pieces;		/* filled by this handle */
	int			npieces;
	int			max_pieces;
	size_t		piece_bytes;	/* of all of them */
} HjgSharedStore;

struct HjgStore
{
	MemoryContext context;		/* this struct, chunks and data blocks */
	int			ncolumns;
	int			chunk_shift;
	uint32		nrows;
	int			nchunks;		/* allocated */
	int			max_chunks;		/* length of chunks[] */
	int			row_bytes;
	int			null_bytes;		/* of a row */
	size_t		nulls_off;		/* offset of the NULL bits in a chunk */
	size_t		chunk_bytes;
	char	  **chunks;
	HjgDataBlock  *blocks;			/* in use, the one being filled first */
	HjgDataBlock  *spare_blocks;	/* left by a reset */
	size_t		block_used;		/* bytes used of the block being filled */
	size_t		data_bytes;		/* of all blocks in use */

	HjgSharedStore shared;
	HjgStoreColumn columns[FLEXIBLE_ARRAY_MEMBER];
};

/* ---- rows_store.c ---- */

static inline char *
hjg_rows_store_chunk(const HjgStore *store, uint32 row)
{
	return store->chunks[row >> store->chunk_shift];
}

/* Find the place of a row in its chunk. */
static inline uint32
hjg_rows_store_position(const HjgStore *store, uint32 row)
{
	return row & ((1u << store->chunk_shift) - 1);
}

static inline char *
hjg_rows_store_place(const HjgStore *store, char *chunk, uint32 position)
{
	return chunk + HJG_CHUNK_HEADER_BYTES + (size_t) position * store->row_bytes;
}

static inline uint8 *
hjg_rows_store_null_bits(const HjgStore *store, char *chunk, uint32 position)
{
	return (uint8 *) chunk + store->nulls_off + (size_t) position * store->null_bytes;
}

/* ---- rows_store_data.c ---- */

/*
 * Copy a variable-length datum into the store; toast pointers are kept unchanged. Returns the row's value: a pointer, or in a
 * shared store a place.
 */
extern uint64 hjg_rows_store_copy_value(HjgStore *store, Datum value, int16 attlen);
/* Keep blocks of usual size for later rows. */
extern void hjg_rows_store_reset_data(HjgStore *store);
extern void hjg_rows_store_free_data(HjgStore *store);

/* ---- rows_store_piece.c ---- */

/* Make sure that a row's chunk exists; the row is the chunk's first. */
extern void hjg_rows_store_begin_chunk(HjgStore *store, uint32 row);
/* Add a new chunk (number ix) or data block of a shared store. */
extern char *hjg_rows_store_add_own_piece(HjgStore *store, uint32 ix, bool is_block, size_t bytes);

#endif							/* HJG_ROWS_STORE_H */
