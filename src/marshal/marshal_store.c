/*
 * marshal_store.c
 *	  The row store: carried columns of one side, in chunks.
 *
 * A chunk is a header, a power of two of rows, and the rows' NULL bits.  All
 * columns of a row lie side by side, because rows are fetched in any order and
 * a row should cost one cache miss, however many columns it has.  By-value columns
 * are kept at their own width, fixed-width by-reference ones in place, everything
 * else as a pointer to a copy in the store's data blocks.  NULL bits count only once
 * the chunk's header says that it has any.
 *
 * Data blocks are filled from the front, and kept over a reset, as chunks are.
 *
 * In a shared store every process has chunks and blocks elsewhere, so instead of a pointer
 * a row holds a place: the number of the block, and the offset in it.  The arrays of chunks
 * and blocks may have holes then, of row numbers that nobody used.
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "utils/datum.h"
#include "utils/expandeddatum.h"
#include "utils/memutils.h"

#include "marshal/hjg_marshal.h"

#define MIN_CHUNK_SHIFT 8
#define MAX_CHUNK_SHIFT 16

StaticAssertDecl(HJG_STORE_MAX_CHUNK_ROWS == 1 << MAX_CHUNK_SHIFT, "largest chunk of a row store");

/* Rows start at a cache line of their own. */
#define CHUNK_HEADER_BYTES 64

/* Data blocks grow from the first to the second size; a value of OWN_BLOCK_BYTES has one of its own. */
#define FIRST_BLOCK_BYTES 8192
#define LAST_BLOCK_BYTES (1024 * 1024)
#define OWN_BLOCK_BYTES (LAST_BLOCK_BYTES / 8)

/* Rows whose places are looked up, and fetched into the cache, at a time. */
#define GATHER_ROWS 256

/* How a column's value lies in a row. */
typedef enum ColumnForm
{
	FORM_BYTE,
	FORM_INT16,
	FORM_INT32,
	FORM_INT64,
	FORM_INLINE,				/* attlen bytes, by reference */
	FORM_POINTER,				/* variable length, in a data block */
	FORM_PLACE					/* the same in a shared store: number of the block, offset */
} ColumnForm;

typedef struct StoreColumn
{
	HjgColumn	column;
	ColumnForm	form;
	int			width;			/* bytes of a value in a row */
	int			row_off;
} StoreColumn;

typedef struct ChunkHeader
{
	bool		has_nulls;		/* NULL bits of this chunk are valid */
} ChunkHeader;

typedef struct DataBlock
{
	struct DataBlock *next;
	size_t		bytes;			/* of data[] */
	char		data[FLEXIBLE_ARRAY_MEMBER];
} DataBlock;

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
	size_t		nulls_off;		/* of the NULL bits in a chunk */
	size_t		chunk_bytes;
	char	  **chunks;
	DataBlock  *blocks;			/* those in use, the one being filled first */
	DataBlock  *spare_blocks;	/* left by a reset */
	size_t		block_used;		/* bytes of the one being filled */
	size_t		data_bytes;		/* of all blocks in use */

	/* of a shared store, in place of the blocks above */
	const HjgSharing *sharing;	/* NULL: private */
	char	  **shared_blocks;	/* by number */
	int			max_shared_blocks;
	char	   *block;			/* that is being filled, up to block_used */
	uint32		block_ix;
	size_t		block_bytes;
	HjgStorePiece *pieces;		/* that this handle fills */
	int			npieces;
	int			max_pieces;
	size_t		piece_bytes;	/* of all of them */
	StoreColumn columns[FLEXIBLE_ARRAY_MEMBER];
};

static ColumnForm
column_form(const HjgColumn *column, bool shared)
{
	if (!column->attbyval)
		return column->attlen > 0 ? FORM_INLINE : shared ? FORM_PLACE : FORM_POINTER;
	switch (column->attlen)
	{
		case 1:
			return FORM_BYTE;
		case 2:
			return FORM_INT16;
		case 4:
			return FORM_INT32;
		default:
			return FORM_INT64;
	}
}

static int
column_width(const HjgColumn *column)
{
	switch (column_form(column, false))
	{
		case FORM_INLINE:
			return (int) MAXALIGN(column->attlen);
		case FORM_POINTER:
			return (int) sizeof(char *);
		default:
			return column->attlen;
	}
}

/* Lay the columns out in a row, wide ones first so that all are aligned without gaps. */
static void
lay_out_row(HjgStore *store)
{
	int			widest = 1;
	int			off = 0;

	for (int alignment = MAXIMUM_ALIGNOF; alignment > 0; alignment /= 2)
	{
		for (int i = 0; i < store->ncolumns; i++)
		{
			StoreColumn *column = &store->columns[i];

			if (Min(column->width, MAXIMUM_ALIGNOF) != alignment)
				continue;
			column->row_off = off;
			off += column->width;
			widest = Max(widest, alignment);
		}
	}
	store->row_bytes = (int) TYPEALIGN(widest, off);
}

HjgStore *
hjg_store_create(MemoryContext context, int ncolumns, const HjgColumn *columns, double expected_rows)
{
	return hjg_store_create_shared(context, ncolumns, columns, expected_rows, NULL);
}

HjgStore *
hjg_store_create_shared(MemoryContext context, int ncolumns, const HjgColumn *columns, double expected_rows,
						const HjgSharing *sharing)
{
	HjgStore   *store;
	size_t		chunk_rows;

	store = MemoryContextAllocZero(context, offsetof(HjgStore, columns) + ncolumns * sizeof(StoreColumn));
	store->context = context;
	store->ncolumns = ncolumns;
	store->sharing = sharing;
	if (expected_rows < 1)
		expected_rows = 1;
	expected_rows = Min(expected_rows, 1 << MAX_CHUNK_SHIFT);
	store->chunk_shift = Max(pg_ceil_log2_32((uint32) expected_rows), MIN_CHUNK_SHIFT);
	chunk_rows = (size_t) 1 << store->chunk_shift;

	for (int i = 0; i < ncolumns; i++)
	{
		store->columns[i].column = columns[i];
		store->columns[i].form = column_form(&columns[i], sharing != NULL);
		store->columns[i].width = column_width(&columns[i]);
	}
	lay_out_row(store);
	store->null_bytes = (ncolumns + 7) / 8;
	store->nulls_off = CHUNK_HEADER_BYTES + MAXALIGN(chunk_rows * store->row_bytes);
	store->chunk_bytes = store->nulls_off + chunk_rows * store->null_bytes;
	return store;
}

/* Chunks that hold the rows so far. */
static inline uint32
chunks_in_use(const HjgStore *store)
{
	return store->ncolumns == 0 ? 0 : (uint32) (((uint64) store->nrows + (1u << store->chunk_shift) - 1) >> store->chunk_shift);
}

void
hjg_store_reset(HjgStore *store)
{
	for (uint32 i = 0; i < chunks_in_use(store); i++)
		((ChunkHeader *) store->chunks[i])->has_nulls = false;
	store->nrows = 0;
	while (store->blocks != NULL)
	{
		DataBlock  *block = store->blocks;

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
free_blocks(DataBlock *block)
{
	while (block != NULL)
	{
		DataBlock  *next = block->next;

		pfree(block);
		block = next;
	}
}

void
hjg_store_free(HjgStore *store)
{
	if (store == NULL)
		return;
	for (int i = 0; i < store->nchunks && store->sharing == NULL; i++)
		pfree(store->chunks[i]);
	if (store->chunks != NULL)
		pfree(store->chunks);
	if (store->shared_blocks != NULL)
		pfree(store->shared_blocks);
	if (store->pieces != NULL)
		pfree(store->pieces);
	free_blocks(store->blocks);
	free_blocks(store->spare_blocks);
	pfree(store);
}

uint32
hjg_store_nrows(const HjgStore *store)
{
	return store->nrows;
}

size_t
hjg_store_bytes(const HjgStore *store)
{
	if (store->sharing != NULL)
		return store->piece_bytes;
	return chunks_in_use(store) * store->chunk_bytes + store->data_bytes;
}

/* Make place for element ix of an array of addresses; new ones are NULL. */
static void
reserve(HjgStore *store, char ***array, int *length, uint32 ix)
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

/* A new piece of a shared store. */
static char *
add_own_piece(HjgStore *store, uint32 ix, bool is_block, size_t bytes)
{
	HjgStorePiece *piece;
	char	   *address;

	if (store->npieces == store->max_pieces)
	{
		store->max_pieces = Max(16, store->max_pieces * 2);
		if (store->pieces == NULL)
			store->pieces = MemoryContextAlloc(store->context, store->max_pieces * sizeof(HjgStorePiece));
		else
			store->pieces = repalloc_huge(store->pieces, store->max_pieces * sizeof(HjgStorePiece));
	}
	piece = &store->pieces[store->npieces];
	*piece = (HjgStorePiece) {.ix = ix, .is_block = is_block};
	address = store->sharing->alloc(store->sharing->arg, bytes, &piece->name);
	store->npieces++;
	store->piece_bytes += bytes;
	hjg_store_add_piece(store, piece, address);
	return address;
}

/* The chunk for a row that is the first of one. */
static void
begin_chunk(HjgStore *store, uint32 ix)
{
	if (ix < (uint32) store->nchunks && store->chunks[ix] != NULL)
		return;					/* kept over a reset */
	if (store->sharing != NULL)
		add_own_piece(store, ix, false, store->chunk_bytes);
	else
	{
		reserve(store, &store->chunks, &store->max_chunks, ix);
		store->chunks[ix] = MemoryContextAllocHuge(store->context, store->chunk_bytes);
		store->nchunks = (int) ix + 1;
	}
	((ChunkHeader *) store->chunks[ix])->has_nulls = false;
}

void
hjg_store_seek(HjgStore *store, uint32 row)
{
	Assert((row & ((1u << store->chunk_shift) - 1)) == 0);
	store->nrows = row;
}

const HjgStorePiece *
hjg_store_pieces(const HjgStore *store, int *npieces)
{
	*npieces = store->npieces;
	return store->pieces;
}

void
hjg_store_add_piece(HjgStore *store, const HjgStorePiece *piece, void *address)
{
	if (piece->is_block)
	{
		reserve(store, &store->shared_blocks, &store->max_shared_blocks, piece->ix);
		store->shared_blocks[piece->ix] = address;
	}
	else
	{
		reserve(store, &store->chunks, &store->max_chunks, piece->ix);
		store->chunks[piece->ix] = address;
		store->nchunks = Max(store->nchunks, (int) piece->ix + 1);
	}
}

static DataBlock *
make_block(HjgStore *store, size_t bytes)
{
	DataBlock  *block = MemoryContextAllocHuge(store->context, offsetof(DataBlock, data) + bytes);

	block->bytes = bytes;
	return block;
}

/* An empty block with room for so many bytes becomes the one that is filled. */
static void
start_block(HjgStore *store, size_t bytes)
{
	DataBlock  *block = store->spare_blocks;

	if (block != NULL && block->bytes >= bytes)
		store->spare_blocks = block->next;
	else
		block = make_block(store, Max(Max(Min(store->data_bytes, LAST_BLOCK_BYTES), FIRST_BLOCK_BYTES), bytes));
	block->next = store->blocks;
	store->blocks = block;
	store->block_used = 0;
	store->data_bytes += block->bytes;
}

/* Room for a value in the data blocks. */
static char *
data_alloc(HjgStore *store, size_t bytes)
{
	char	   *place;

	if (store->blocks == NULL || store->blocks->bytes - store->block_used < bytes)
	{
		if (bytes >= OWN_BLOCK_BYTES && store->blocks != NULL)
		{
			DataBlock  *own = make_block(store, bytes);

			own->next = store->blocks->next;
			store->blocks->next = own;
			store->data_bytes += bytes;
			return own->data;
		}
		start_block(store, bytes);
	}
	place = store->blocks->data + store->block_used;
	store->block_used += Min(MAXALIGN(bytes), store->blocks->bytes - store->block_used);
	return place;
}

/* The same in the blocks of a shared store. */
static char *
shared_data_alloc(HjgStore *store, size_t bytes, uint64 *place)
{
	char	   *address;

	if (store->block_bytes - store->block_used < bytes)
	{
		uint32		ix = pg_atomic_fetch_add_u32(store->sharing->next_block, 1);
		size_t		block_bytes = Max(Min(store->piece_bytes, LAST_BLOCK_BYTES), FIRST_BLOCK_BYTES);

		*place = (uint64) ix << 32;
		/* a large value leaves the block that is being filled */
		if (bytes >= OWN_BLOCK_BYTES)
			return add_own_piece(store, ix, true, bytes);
		store->block_bytes = Max(block_bytes, bytes);
		store->block = add_own_piece(store, ix, true, store->block_bytes);
		store->block_ix = ix;
		store->block_used = 0;
	}
	address = store->block + store->block_used;
	*place = (uint64) store->block_ix << 32 | store->block_used;
	store->block_used += Min(MAXALIGN(bytes), store->block_bytes - store->block_used);
	return address;
}

/*
 * Copy a variable-length datum into the store; toast pointers are kept as they are.
 * Returns what the row keeps: a pointer, or in a shared store a place.
 */
static uint64
copy_value(HjgStore *store, Datum value, int16 attlen)
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

	if (store->sharing != NULL)
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

static inline uint8 *
null_bits(const HjgStore *store, char *chunk, uint32 position)
{
	return (uint8 *) chunk + store->nulls_off + (size_t) position * store->null_bytes;
}

uint32
hjg_store_append(HjgStore *store, const int *source, const Datum *values, const bool *isnull)
{
	uint32		row = store->nrows;
	uint32		position = row & ((1u << store->chunk_shift) - 1);
	ChunkHeader *header;
	char	   *chunk;
	char	   *place;

	if (row >= HJG_STORE_MAX_ROWS)
		elog(ERROR, "too many rows in a row store");
	store->nrows = row + 1;
	if (store->ncolumns == 0)
		return row;
	if (position == 0)
		begin_chunk(store, row >> store->chunk_shift);
	chunk = store->chunks[row >> store->chunk_shift];
	header = (ChunkHeader *) chunk;
	place = chunk + CHUNK_HEADER_BYTES + (size_t) position * store->row_bytes;
	if (unlikely(header->has_nulls))
		memset(null_bits(store, chunk, position), 0, store->null_bytes);

	for (int i = 0; i < store->ncolumns; i++)
	{
		const StoreColumn *column = &store->columns[i];
		char	   *to = place + column->row_off;
		Datum		value = values[source[i]];

		if (unlikely(isnull[source[i]]))
		{
			if (!header->has_nulls)
			{
				/* of the rows before this one, and of this one */
				memset(null_bits(store, chunk, 0), 0, (size_t) (position + 1) * store->null_bytes);
				header->has_nulls = true;
			}
			null_bits(store, chunk, position)[i / 8] |= 1 << (i % 8);
			continue;
		}
		switch (column->form)
		{
			case FORM_BYTE:
				*(uint8 *) to = (uint8) value;
				break;
			case FORM_INT16:
				*(uint16 *) to = (uint16) value;
				break;
			case FORM_INT32:
				*(uint32 *) to = (uint32) value;
				break;
			case FORM_INT64:
				*(uint64 *) to = (uint64) value;
				break;
			case FORM_INLINE:
				memcpy(to, DatumGetPointer(value), column->column.attlen);
				break;
			case FORM_POINTER:
			case FORM_PLACE:
				*(uint64 *) to = copy_value(store, value, column->column.attlen);
				break;
		}
	}
	return row;
}

/* ---------- many rows at a time ---------- */

/* Which rows of the vectors: some, or those from first on if rows is NULL. */
#define ROW(i) (rows != NULL ? rows[i] : first + (i))

/* By-value columns: value i goes to out + i * stride, NULLs as they are. */
#define APPEND(type) \
	for (int i = 0; i < nrows; i++) \
		*(type *) (out + (size_t) i * stride) = ((const type *) vector->values)[ROW(i)]; \
	break

/* One column of rows that go side by side to one chunk. */
static pg_attribute_always_inline void
append_column(HjgStore *store, const StoreColumn *column, char *out, const HjgVector *vector, const uint16 *rows,
			  int first, int nrows)
{
	int			stride = store->row_bytes;
	char	  **pointers = vector->values;

	switch (column->form)
	{
		case FORM_BYTE:
			APPEND(uint8);
		case FORM_INT16:
			APPEND(uint16);
		case FORM_INT32:
			APPEND(uint32);
		case FORM_INT64:
			APPEND(uint64);
		case FORM_INLINE:
			for (int i = 0; i < nrows; i++)
				if (!hjg_vector_isnull(vector, ROW(i)))
					memcpy(out + (size_t) i * stride, pointers[ROW(i)], column->column.attlen);
			break;
		case FORM_POINTER:
		case FORM_PLACE:
			for (int i = 0; i < nrows; i++)
				if (!hjg_vector_isnull(vector, ROW(i)))
					*(uint64 *) (out + (size_t) i * stride) =
						copy_value(store, PointerGetDatum(pointers[ROW(i)]), column->column.attlen);
			break;
	}
}
#undef APPEND

static pg_attribute_always_inline void
append_to_chunk(HjgStore *store, char *chunk, uint32 position, const int *source, const HjgVector *vectors,
				const uint16 *rows, int first, int nrows)
{
	ChunkHeader *header = (ChunkHeader *) chunk;
	char	   *place = chunk + CHUNK_HEADER_BYTES + (size_t) position * store->row_bytes;
	bool		have_nulls = false;

	for (int c = 0; c < store->ncolumns; c++)
	{
		append_column(store, &store->columns[c], place + store->columns[c].row_off, &vectors[source[c]], rows,
					  first, nrows);
		have_nulls |= vectors[source[c]].has_nulls;
	}
	if (have_nulls && !header->has_nulls)
	{
		memset(null_bits(store, chunk, 0), 0, (size_t) position * store->null_bytes);
		header->has_nulls = true;
	}
	if (!header->has_nulls)
		return;
	memset(null_bits(store, chunk, position), 0, (size_t) nrows * store->null_bytes);
	for (int c = 0; c < store->ncolumns; c++)
	{
		const HjgVector *vector = &vectors[source[c]];

		if (!vector->has_nulls)
			continue;
		for (int i = 0; i < nrows; i++)
			if (vector->isnull[ROW(i)])
				null_bits(store, chunk, position + i)[c / 8] |= 1 << (c % 8);
	}
}
#undef ROW

/* rows is NULL, or not, in every call. */
static pg_attribute_always_inline void
append_rows(HjgStore *store, const int *source, const HjgVector *vectors, const uint16 *rows, int first, int nrows)
{
	uint32		chunk_rows = 1u << store->chunk_shift;

	if (nrows > HJG_STORE_MAX_ROWS - store->nrows)
		elog(ERROR, "too many rows in a row store");
	if (store->ncolumns == 0)
	{
		store->nrows += nrows;
		return;
	}
	while (nrows > 0)
	{
		uint32		position = store->nrows & (chunk_rows - 1);
		int			n = Min(nrows, chunk_rows - position);

		if (position == 0)
			begin_chunk(store, store->nrows >> store->chunk_shift);
		append_to_chunk(store, store->chunks[store->nrows >> store->chunk_shift], position, source, vectors, rows,
						first, n);
		store->nrows += n;
		if (rows != NULL)
			rows += n;
		first += n;
		nrows -= n;
	}
}

void
hjg_store_append_vectors(HjgStore *store, const int *source, const HjgVector *vectors, int first, int nrows)
{
	append_rows(store, source, vectors, NULL, first, nrows);
}

void
hjg_store_append_selected(HjgStore *store, const int *source, const HjgVector *vectors, const uint16 *rows,
						  int nrows)
{
	append_rows(store, source, vectors, rows, 0, nrows);
}

/* ---------- gathering ---------- */

/* Datums as core makes them: sign-extended, as Int16GetDatum() and the like do. */
static pg_attribute_always_inline Datum
fetch_value(const HjgStore *store, ColumnForm form, const char *place)
{
	uint64		kept;

	switch (form)
	{
		case FORM_BYTE:
			return CharGetDatum(*(const char *) place);
		case FORM_INT16:
			return Int16GetDatum(*(const int16 *) place);
		case FORM_INT32:
			return Int32GetDatum(*(const int32 *) place);
		case FORM_INT64:
			return (Datum) *(const uint64 *) place;
		case FORM_INLINE:
			return PointerGetDatum(place);
		case FORM_PLACE:
			kept = *(const uint64 *) place;
			return PointerGetDatum(store->shared_blocks[kept >> 32] + (uint32) kept);
		default:
			return PointerGetDatum(*(char *const *) place);
	}
}

/* One column of rows that have no NULL; form is a constant in every call. */
static pg_attribute_always_inline void
gather_column(const HjgStore *store, ColumnForm form, int row_off, char *const *places, int nrows, int stride,
			  Datum *values, bool *isnull)
{
	for (int i = 0; i < nrows; i++)
	{
		values[(size_t) i * stride] = fetch_value(store, form, places[i] + row_off);
		isnull[(size_t) i * stride] = false;
	}
}

/* The same where rows may be missing or have NULLs: nulls[i] are the row's bits or NULL. */
static pg_attribute_always_inline void
gather_nullable(const HjgStore *store, ColumnForm form, int column_ix, int row_off, char *const *places,
				const uint8 *const *nulls, int nrows, int stride, Datum *values, bool *isnull)
{
	for (int i = 0; i < nrows; i++)
	{
		bool		null = places[i] == NULL ||
			(nulls[i] != NULL && (nulls[i][column_ix / 8] >> (column_ix % 8) & 1));

		values[(size_t) i * stride] = null ? 0 : fetch_value(store, form, places[i] + row_off);
		isnull[(size_t) i * stride] = null;
	}
}

/*
 * Where rows are, and their NULL bits where their chunk has any; NULL for a row that is
 * missing.  Fetches them into the cache.  Can there be a NULL?
 */
static bool
find_places(const HjgStore *store, const uint32 *rows, int nrows, char **places, const uint8 **nulls)
{
	uint32		mask = (1u << store->chunk_shift) - 1;
	bool		nullable = false;

	for (int i = 0; i < nrows; i++)
	{
		uint32		row = rows[i];
		char	   *chunk;

		places[i] = NULL;
		nulls[i] = NULL;
		if (row == HJG_NO_ROW)
		{
			nullable = true;
			continue;
		}
		chunk = store->chunks[row >> store->chunk_shift];
		places[i] = chunk + CHUNK_HEADER_BYTES + (size_t) (row & mask) * store->row_bytes;
		__builtin_prefetch(places[i]);
		if (((ChunkHeader *) chunk)->has_nulls)
		{
			nulls[i] = null_bits(store, chunk, row & mask);
			__builtin_prefetch(nulls[i]);
			nullable = true;
		}
	}
	return nullable;
}

/* At most GATHER_ROWS rows. */
static void
gather_block(const HjgStore *store, const uint32 *rows, int nrows, const int *target, int stride,
			 Datum *values, bool *isnull)
{
	char	   *places[GATHER_ROWS];
	const uint8 *nulls[GATHER_ROWS];
	bool		nullable = find_places(store, rows, nrows, places, nulls);

#define GATHER(form) \
	if (nullable) \
		gather_nullable(store, form, c, off, places, nulls, nrows, stride, values + target[c], isnull + target[c]); \
	else \
		gather_column(store, form, off, places, nrows, stride, values + target[c], isnull + target[c]); \
	break

	for (int c = 0; c < store->ncolumns; c++)
	{
		int			off = store->columns[c].row_off;

		switch (store->columns[c].form)
		{
			case FORM_BYTE:
				GATHER(FORM_BYTE);
			case FORM_INT16:
				GATHER(FORM_INT16);
			case FORM_INT32:
				GATHER(FORM_INT32);
			case FORM_INT64:
				GATHER(FORM_INT64);
			case FORM_INLINE:
				GATHER(FORM_INLINE);
			case FORM_POINTER:
				GATHER(FORM_POINTER);
			case FORM_PLACE:
				GATHER(FORM_PLACE);
		}
	}
#undef GATHER
}

void
hjg_store_gather(const HjgStore *store, const uint32 *rows, int nrows, const int *target, int stride,
				 Datum *values, bool *isnull)
{
	if (store->ncolumns == 0)
		return;
	for (int first = 0; first < nrows; first += GATHER_ROWS)
		gather_block(store, rows + first, Min(nrows - first, GATHER_ROWS), target, stride,
					 values + (size_t) first * stride, isnull + (size_t) first * stride);
}

/* Column column_ix of rows, any of which may be missing or have a NULL there. */
static void
gather_nulls(int column_ix, char *const *places, const uint8 *const *nulls, int nrows, bool *isnull)
{
	for (int i = 0; i < nrows; i++)
		isnull[i] = places[i] == NULL ||
			(nulls[i] != NULL && (nulls[i][column_ix / 8] >> (column_ix % 8) & 1));
}

/* Values of type as they lie; what stands for a NULL is undefined. */
#define GATHER(type, fetched) \
	for (int i = 0; i < nrows; i++) \
	{ \
		const char *place = places[i] + off; \
		((type *) to->values)[first + i] = nullable && places[i] == NULL ? 0 : (type) (fetched); \
	} \
	break

void
hjg_store_gather_vectors(const HjgStore *store, const uint32 *rows, int total, const int *target,
						 HjgVector *vectors)
{
	char	   *places[GATHER_ROWS];
	const uint8 *nulls[GATHER_ROWS];

	for (int c = 0; c < store->ncolumns; c++)
		vectors[target[c]].has_nulls = false;
	for (int first = 0; first < total && store->ncolumns > 0; first += GATHER_ROWS)
	{
		int			nrows = Min(total - first, GATHER_ROWS);
		bool		nullable = find_places(store, rows + first, nrows, places, nulls);

		for (int c = 0; c < store->ncolumns; c++)
		{
			HjgVector  *to = &vectors[target[c]];
			int			off = store->columns[c].row_off;

			if (nullable)
			{
				if (!to->has_nulls)
					memset(to->isnull, false, first * sizeof(bool));
				to->has_nulls = true;
				gather_nulls(c, places, nulls, nrows, to->isnull + first);
			}
			else if (to->has_nulls)
				memset(to->isnull + first, false, nrows * sizeof(bool));
			switch (store->columns[c].form)
			{
				case FORM_BYTE:
					GATHER(uint8, *(const uint8 *) place);
				case FORM_INT16:
					GATHER(uint16, *(const uint16 *) place);
				case FORM_INT32:
					GATHER(uint32, *(const uint32 *) place);
				case FORM_INT64:
					GATHER(uint64, *(const uint64 *) place);
				case FORM_INLINE:
					GATHER(uint64, PointerGetDatum(place));
				case FORM_POINTER:
					GATHER(uint64, fetch_value(store, FORM_POINTER, place));
				case FORM_PLACE:
					/* a NULL's place is undefined, and must not be looked up */
					for (int i = 0; i < nrows; i++)
						if (!nullable || !to->isnull[first + i])
							((Datum *) to->values)[first + i] = fetch_value(store, FORM_PLACE, places[i] + off);
					break;
			}
		}
	}
}
#undef GATHER

void
hjg_store_prefetch(const HjgStore *store, const uint32 *rows, int nrows)
{
	uint32		mask = (1u << store->chunk_shift) - 1;

	if (store->ncolumns == 0)
		return;
	for (int i = 0; i < nrows; i++)
	{
		if (rows[i] != HJG_NO_ROW)
			__builtin_prefetch(store->chunks[rows[i] >> store->chunk_shift] + CHUNK_HEADER_BYTES +
							   (size_t) (rows[i] & mask) * store->row_bytes);
	}
}
