/*
 * hjg_rows.h
 *	  Rows of a join's sides: encoded keys, the row store, spill files.
 *
 * Room "rows". A row that enters a join is split in two: its encoded key goes to the engine; the columns that are needed
 * above the join (the payload columns) stay in a row store of the backend, where they are found by row number, which is the
 * engine's answer.
 *
 * Rows come one by one, as datums, or as vectors (hjg_vector.h). Both ways encode the same keys and fill the same stores.
 *
 * Key encoding. An exact key has all key columns, normalised so that equality of the SQL operators is equality of bytes,
 * packed into 4, 8 or 16 bytes. All other keys are a 64-bit hash of all key columns, and the node rechecks every pair.
 *
 * Memory. A store and its datums belong to the memory context in which it was created. hjg_rows_store_bytes() is the memory
 * of its current rows.
 *
 * Sharing. Processes of one parallel query may fill and read one row store, and one spill file, together: each through a
 * handle of its own, to memory and files that all of them can access. The node makes sure that reading begins after all have
 * stopped writing.
 */
#ifndef HJG_ROWS_H
#define HJG_ROWS_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "fmgr.h"
#include "port/atomics.h"
#include "storage/buffile.h"
#include "storage/sharedfileset.h"

#include "layout/hjg_layout.h"
#include "vector/hjg_vector_pg.h"

/* ---------- keys (rows_key.c, rows_key_encode.c) ---------- */

#define HJG_MAX_KEY_BYTES 16

typedef enum HjgKeyKind
{
	HJG_KEY_INT,				/* fixed-width by-value, sign-extended to its packed width */
	HJG_KEY_FLOAT,				/* float4/8: one zero, one NaN, then as the wider type's bits */
	HJG_KEY_BYTES,				/* fixed-width by-reference, compared bytewise */
	HJG_KEY_VARLENA,			/* variable width, compared bytewise: hashed here */
	HJG_KEY_HASHED				/* any hashable type */
} HjgKeyKind;

/* Encoding of one key column of one side. */
typedef struct HjgKeyColumn
{
	HjgKeyKind	kind;
	int16		width;			/* bytes of the SQL value */
	int16		packed_width;	/* bytes in the key; equal on both sides */
	int16		packed_off;
	bool		extended;		/* hash_fn is a 64-bit hash function with seed */
	Oid			collation;
	FmgrInfo	hash_fn;
} HjgKeyColumn;

typedef struct HjgKeyCodec
{
	int			ncolumns;
	int			key_width;		/* 4, 8 or 16 */
	bool		exact;			/* equal bytes if and only if equal keys */
	HjgKeyColumn columns[FLEXIBLE_ARRAY_MEMBER];
} HjgKeyCodec;

/*
 * Can equality operator op under this collation serve as a key? If not, *why is a constant text that completes "declined: ".
 * Reads the catalogs.
 */
extern bool hjg_rows_key_supported(Oid op, Oid collation, const char **why);

/* Are the operands of this equality function of variable width, and equal if and only if their bytes are? */
extern bool hjg_rows_key_is_varlena(Oid function);

/* Get the bytes that the operator's operands take in an exact key; 0 if they are hashed. */
extern int	hjg_rows_key_exact_bytes(Oid op);

/* Make the codec of the left (outer) or right (inner) inputs of the operators; palloc'd. */
extern HjgKeyCodec *hjg_rows_key_codec(int nkeys, const Oid *ops, const Oid *collations, bool left);

/*
 * Encode a key into dst[codec->key_width]. Returns false, with dst undefined, if any column is NULL. May allocate in
 * CurrentMemoryContext (detoasting, hash functions); may throw what a hash function throws.
 */
extern bool hjg_rows_key_encode(HjgKeyCodec *codec, const Datum *values, const bool *isnull, void *dst);

/* Is a vector of this column its own encoded key? */
extern bool hjg_rows_key_is_vector(const HjgKeyCodec *codec, const HjgColumn *column);

/*
 * Encode the keys of nrows rows into dst[nrows][codec->key_width]; key column i is vectors[source[i]]. Returns whether any
 * key has a NULL: then isnull[] marks these, and dst is undefined there. Hash functions allocate in scratch, which is reset
 * after each row.
 */
extern bool hjg_rows_key_encode_vectors(HjgKeyCodec *codec, const int *source, const HjgVector *vectors, int nrows,
										MemoryContext scratch, void *dst, bool *isnull);

/* Hash a string, with the seed of this process. */
extern uint64 hjg_rows_key_hash_bytes(const char *bytes, size_t nbytes);

/*
 * Add one more key of nrows rows to their hashes (rows_hash.c), which begin as 0: by its ordinals, by its bytes, or by a hash
 * function of core's.
 */
extern void hjg_rows_hash_ordinals(const int64 *ordinals, int nrows, uint64 *hashes);
extern void hjg_rows_hash_bytes(const HjgBytes *bytes, int nrows, uint64 *hashes);
extern void hjg_rows_hash_datums(HjgKeyColumn *column, const Datum *values, const bool *isnull, int nrows, uint64 *hashes);

/* Get bits for partitioning on the host; levels are independent of each other and of the engine's hash. */
extern uint32 hjg_rows_key_partition_hash(const void *key, int key_width, int level);

/* ---------- row store ---------- */

/* Bounds of a column's inline_bytes. */
#define HJG_LEAST_INLINE_BYTES 16
#define HJG_MOST_INLINE_BYTES 32

typedef struct HjgStore HjgStore;

/* Most rows of a store; a row number cannot be larger. */
#define HJG_STORE_MAX_ROWS HJG_MAX_BUILD_ROWS

extern HjgStore *hjg_rows_store_create(MemoryContext context, int ncolumns, const HjgColumn *columns,
									   double expected_rows);
/* Drop all rows, keep the memory for later ones. */
extern void hjg_rows_store_reset(HjgStore *store);
extern void hjg_rows_store_free(HjgStore *store);
extern uint32 hjg_rows_store_nrows(const HjgStore *store);
extern size_t hjg_rows_store_bytes(const HjgStore *store);

/*
 * Append a row and return its number (0, 1, ...). Column c is values[source[c]]; by-reference datums are copied, expanded
 * ones flattened, toasted ones kept unchanged.
 */
extern uint32 hjg_rows_store_append(HjgStore *store, const int *source, const Datum *values, const bool *isnull);

/*
 * Append rows [first, first + nrows) of vectors; column c is vectors[source[c]].
 */
extern void hjg_rows_store_append_vectors(HjgStore *store, const int *source, const HjgVector *vectors, int first,
										  int nrows);
/* Do the same for rows[0 .. nrows - 1] of the vectors. */
extern void hjg_rows_store_append_selected(HjgStore *store, const int *source, const HjgVector *vectors,
										   const uint16 *rows, int nrows);

/*
 * Gather nrows rows: column c of row rows[i] goes to values[i * stride + target[c]] and isnull[...], unless target[c] is
 * negative. rows[i] == HJG_NO_ROW gives NULLs. Datums point into the store.
 */
extern void hjg_rows_store_gather(const HjgStore *store, const uint32 *rows, int nrows, const int *target, int stride,
								  Datum *values, bool *isnull);

/* Do the same for nrows <= HJG_MAX_VECTOR_ROWS, into vectors that own their memory: column c to vectors[target[c]]. */
extern void hjg_rows_store_gather_vectors(const HjgStore *store, const uint32 *rows, int nrows, const int *target,
										  HjgVector *vectors);

/*
 * Get the bytes of a row whose columns are all passed by value, so that copies of rows can be read elsewhere; 0 if there is
 * any other column, or none.
 */
extern int	hjg_rows_store_plain_bytes(int ncolumns, const HjgColumn *columns);
/* Copy rows [first, first + nrows); false, with an unusable copy, if any of them may have a NULL. */
extern bool hjg_rows_store_copy_rows(const HjgStore *store, uint32 first, uint32 nrows, void *to);
/*
 * Gather as hjg_rows_store_gather() and hjg_rows_store_gather_vectors() do, from copies of nrows <= HJG_MAX_VECTOR_ROWS rows:
 * row i is at places[i], or missing if that is NULL. The store has the layout of the rows.
 */
extern void hjg_rows_store_gather_copies(const HjgStore *store, const char *const *places, int nrows, const int *target,
										 int stride, Datum *values, bool *isnull);
extern void hjg_rows_store_gather_copied_vectors(const HjgStore *store, const char *const *places, int nrows,
												 const int *target, HjgVector *vectors);

/* Gather the datums of one column of rows without NULL there; the values that they point to may not be in the cache yet. */
extern void hjg_rows_store_gather_column(const HjgStore *store, int column, const uint32 *rows, int nrows, Datum *values);

/*
 * A shared store. Row numbers are assigned outside: a writer takes a range of them, calls hjg_rows_store_seek(), and appends
 * rows until the range is full. Ranges start at a multiple of the chunk size and are not smaller, so that a chunk has one
 * writer. The chunks and blocks that a writer has filled are its pieces; each reader, and each other writer, adds them to its
 * own handle.
 */
typedef struct HjgSharing
{
	void	   *arg;
	/* Allocate memory for a piece, not zeroed, and its name for other processes. */
	void	   *(*alloc) (void *arg, size_t bytes, uint64 *name);
	pg_atomic_uint32 *next_block;	/* in shared memory: next number of a block */
} HjgSharing;

typedef struct HjgStorePiece
{
	uint64		name;
	uint32		ix;
	bool		is_block;		/* of variable-length values; else a chunk of rows */
} HjgStorePiece;

/* Most rows of a chunk. */
#define HJG_STORE_MAX_CHUNK_ROWS 65536

/* Create a handle; all handles of a store need the same columns and number of rows in a chunk. */
extern HjgStore *hjg_rows_store_create_shared(MemoryContext context, int ncolumns, const HjgColumn *columns,
											  double chunk_rows, const HjgSharing *sharing);
/* Give the next row this number. */
extern void hjg_rows_store_seek(HjgStore *store, uint32 row);
/* Get the pieces that this handle has filled. */
extern const HjgStorePiece *hjg_rows_store_pieces(const HjgStore *store, int *npieces);
/* Add another handle's piece, at its address in this process. */
extern void hjg_rows_store_add_piece(HjgStore *store, const HjgStorePiece *piece, void *address);

/* ---------- spill files ---------- */

/*
 * A sequence of (key, payload columns) in a temporary file of core's; a key may be NULL. The file belongs to the
 * CurrentResourceOwner of its first write.
 */
typedef struct HjgSpill HjgSpill;

/* Memory of a file while it is written: core's buffer. Only one side's shared files are written at a time. */
#define HJG_SPILL_BUFFER_BYTES BLCKSZ
#define HJG_SHARED_SPILL_BUFFER_BYTES (BLCKSZ / 2)

extern HjgSpill *hjg_rows_spill_create(TupleDesc desc, int key_width);
/* Write a record; columns are desc's, in its order. key NULL: a key column is NULL. */
extern void hjg_rows_spill_write(HjgSpill *spill, const void *key, const Datum *values, const bool *isnull);
extern void hjg_rows_spill_rewind(HjgSpill *spill);
/* Read the next row; false at the end. *key points to the key or is NULL; the slot's values are valid until the next call. */
extern bool hjg_rows_spill_read(HjgSpill *spill, const void **key, TupleTableSlot *slot);
/* Were all rows read since the last rewind? */
extern bool hjg_rows_spill_at_end(const HjgSpill *spill);
extern uint64 hjg_rows_spill_nrows(const HjgSpill *spill);
extern uint64 hjg_rows_spill_bytes(const HjgSpill *spill);
extern void hjg_rows_spill_free(HjgSpill *spill);

/*
 * A shared spill file: place is shared memory of hjg_rows_spill_shared_bytes(), which one process initializes; then each
 * participant, a number from 0, attaches. Rows must have a key. All participants write and end their writing; after that any
 * one participant may read, and nrows counts all rows.
 */
extern size_t hjg_rows_spill_shared_bytes(int nparticipants);
extern void hjg_rows_spill_shared_init(void *place, int nparticipants, const char *name);
extern HjgSpill *hjg_rows_spill_attach(void *place, int participant, SharedFileSet *files, TupleDesc desc,
									   int key_width);
extern void hjg_rows_spill_end_write(HjgSpill *spill);

#endif							/* HJG_ROWS_H */
