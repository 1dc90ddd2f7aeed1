/*
 * hjg_marshal.h
 *	  From rows to key batches and back: heap pages read in place, key encoding,
 *	  the row store, spill files.
 *
 * Room "marshal".  A row that enters a join is split in two: its key goes,
 * encoded, to where the engine reads it; the columns that anything above the
 * join needs (the carried columns) stay in a row store of the
 * backend, where the engine's answer, a row number, finds them again.
 *
 * Rows come one by one, as datums, or as vectors: the rows of a heap page, column
 * by column, which saves the slot, the datum and the function call of each
 * row.  Both ways encode the same keys and fill the same stores.
 *
 * Key encoding.  An exact key holds all key columns, normalised so that equality
 * of the SQL operators is equality of bytes, packed into 4, 8 or 16 bytes.
 * Everything else travels as a 64-bit hash of all key columns, and the executor
 * rechecks every pair.
 *
 * Memory.  A store and the datums in it belong to the memory context it was
 * created in.  hjg_store_bytes() is what its rows take at the moment.
 *
 * Sharing.  Processes of one parallel query may fill and read one row store, and one
 * spill file, together: each through a handle of its own, to memory and files that all of
 * them reach.  Nobody reads before all have stopped writing, which the executor sees to.
 */
#ifndef HJG_MARSHAL_H
#define HJG_MARSHAL_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/relscan.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "port/atomics.h"
#include "storage/buffile.h"
#include "storage/bufpage.h"
#include "storage/sharedfileset.h"
#include "utils/array.h"

#include "layout/hjg_layout.h"

/* The type of a column that is carried or read. */
typedef struct HjgColumn
{
	int16		attlen;
	bool		attbyval;
	int16		inline_bytes;	/* in a store, values of variable length up to this size lie in the row; 0: none does */
} HjgColumn;

/* What inline_bytes may be. */
#define HJG_LEAST_INLINE_BYTES 16
#define HJG_MOST_INLINE_BYTES 32

/* ---------- vectors ---------- */

/*
 * Rows of a vector: what a page can hold, and where nothing points into pages, of several: what
 * is done once a vector, and the cache misses at its start that nothing hides, are then few.
 * 20M rows probe a table of 5M, one thread: 11 ns a row in batches of 1,024 rows, 18 in those of 128.
 */
#define HJG_MAX_VECTOR_ROWS 1024

StaticAssertDecl(HJG_MAX_VECTOR_ROWS >= MaxHeapTuplesPerPage, "a page's rows fit in a vector");

/*
 * One column of up to HJG_MAX_VECTOR_ROWS rows.  By-value columns lie side by side
 * at their own width; of others there are pointers, which go no further than the
 * page that they point into.  The value of a NULL is undefined.
 */
typedef struct HjgVector
{
	HjgColumn	column;
	void	   *values;			/* NULL: the column was not asked for */
	bool	   *isnull;			/* says nothing unless has_nulls */
	bool		has_nulls;
} HjgVector;

/* The integer in a by-value datum of so many bytes. */
static inline int64
hjg_datum_to_int(Datum value, int width)
{
	switch (width)
	{
		case 1:
			return (int8) DatumGetChar(value);
		case 2:
			return DatumGetInt16(value);
		case 4:
			return DatumGetInt32(value);
		default:
			return DatumGetInt64(value);
	}
}

/* A value as core makes its datums: sign-extended, as Int16GetDatum() and the like do. */
static inline Datum
hjg_vector_datum(const HjgVector *vector, int row)
{
	if (!vector->column.attbyval)
		return PointerGetDatum(((char **) vector->values)[row]);
	switch (vector->column.attlen)
	{
		case 1:
			return CharGetDatum(((char *) vector->values)[row]);
		case 2:
			return Int16GetDatum(((int16 *) vector->values)[row]);
		case 4:
			return Int32GetDatum(((int32 *) vector->values)[row]);
		default:
			return ((Datum *) vector->values)[row];
	}
}

static inline bool
hjg_vector_isnull(const HjgVector *vector, int row)
{
	return vector->has_nulls && vector->isnull[row];
}

/*
 * marshal_vector.c.  Gather nrows rows of a vector as datums: row rows[i] goes to
 * values[i * stride] and isnull[i * stride].
 */
extern void hjg_vector_gather(const HjgVector *vector, const uint32 *rows, int nrows, int stride, Datum *values,
							  bool *isnull);
/* Copy them to the first rows of another vector of the same type. */
extern void hjg_vector_select(const HjgVector *vector, const uint32 *rows, int nrows, HjgVector *to);

/*
 * How many of nrows rows from first on to copy before a look at the memory that the copies take: those
 * whose values in the columns take max_bytes, the one included that goes beyond.
 */
extern int	hjg_vector_rows_within(const HjgVector *vectors, int ncolumns, const int *columns, int first, int nrows,
								   size_t max_bytes);
/* Set a row, and forget about NULLs in rows before the first. */
extern void hjg_vector_put(HjgVector *vector, int row, Datum value, bool isnull);
/* Make all rows NULL. */
extern void hjg_vector_put_nulls(HjgVector *vector, int nrows);

/* ---------- heap pages (marshal_heap_page.c, marshal_heap_reader.c, marshal_heap.c) ---------- */

/* A page of a sequential scan, pinned by the scan. */
typedef struct HjgHeapPage
{
	Page		page;
	Buffer		buffer;
	BlockNumber block;
	BlockNumber npages;			/* of the scan */
	int			nrows;			/* visible to the scan's snapshot */
	const OffsetNumber *rows;	/* their line pointers */
	Page		next;			/* the page behind it, or NULL: not pinned, to be fetched into the cache, no more */
	Buffer		next_buffer;	/* hjg_heap_next_page()'s own: where the next page is likely to be, */
	bool		streamed;		/* and whether core's stream of pages reads on */
} HjgHeapPage;

/* Can pages of this relation be read in place? */
extern bool hjg_heap_readable(Relation relation);

/*
 * Go to the next page of a forward sequential scan, parallel or not, and find its visible
 * rows; what core does with a page, its locks, checks and statistics included.
 * Returns false at the end, with nothing pinned any more.  The caller must not mix
 * this with core's own ways to get a row, and must rescan after the end.  It keeps *page, zeroed
 * before the first page, from one call to the next.
 */
extern bool hjg_heap_next_page(TableScanDesc scan, HjgHeapPage *page);

/* Extracts columns of rows of pages; all of it lives in the context of its creation. */
typedef struct HjgHeapReader HjgHeapReader;

/*
 * attnos[c] is the attribute that goes to vectors[c]; several may be the same, and
 * InvalidAttrNumber stands for a column that nobody wants.  Makes the vectors, of
 * max_rows rows, which are MaxHeapTuplesPerPage or more.
 */
extern HjgHeapReader *hjg_heap_reader_create(TupleDesc desc, int ncolumns, const AttrNumber *attnos, int max_rows,
											 HjgVector *vectors);

/* Put the rows of a page into the vectors, behind those first ones that are there. */
extern void hjg_heap_read(HjgHeapReader *reader, const HjgHeapPage *page, int first);
/* Are the vectors good for longer than the page?  No wanted column is by reference. */
extern bool hjg_heap_reader_copies(const HjgHeapReader *reader);

/* ---------- operators (marshal_operator.c) ---------- */

/* How a column's values become ordinals, 64-bit integers in the order of its type. */
typedef enum HjgOrdinal
{
	HJG_ORDINAL_INT,			/* signed integers of 1, 2, 4 or 8 bytes, and what is stored as such */
	HJG_ORDINAL_UINT,			/* unsigned ones of 1, 4 or 8 bytes; ordinals of one width are comparable */
	HJG_ORDINAL_FLOAT,
	HJG_ORDINAL_NONE			/* values by reference, which are equal when their bytes are */
} HjgOrdinal;

typedef enum HjgComparison
{
	HJG_COMPARE_EQ,
	HJG_COMPARE_NE,
	HJG_COMPARE_LT,
	HJG_COMPARE_LE,
	HJG_COMPARE_GT,
	HJG_COMPARE_GE
} HjgComparison;

typedef struct HjgSimpleOperator
{
	Oid			function;
	HjgComparison comparison;
	HjgOrdinal	ordinal;
	int16		left_width;		/* bytes of the operands */
	int16		right_width;
} HjgSimpleOperator;

/* Find the operator behind a function; NULL when it is not simple. */
extern const HjgSimpleOperator *hjg_simple_operator(Oid function);

/* One whose operands, of variable width, are equal when their bytes are. */
typedef struct HjgBytesOperator
{
	Oid			function;
	HjgComparison comparison;	/* EQ or NE */
	bool		collated;		/* under a deterministic collation */
	bool		padded;			/* but for spaces at the end */
} HjgBytesOperator;

/* Likewise. */
extern const HjgBytesOperator *hjg_bytes_operator(Oid function);
/* Is the function LIKE, or NOT LIKE, of text or char(n)? */
extern bool hjg_like_operator(Oid function, bool *negated);

/* ---------- conditions on vectors (marshal_filter.c) ---------- */

typedef enum HjgFilterKind
{
	HJG_FILTER_CONSTANT,		/* passes all, or none if negated */
	HJG_FILTER_RANGE,			/* low <= value <= high */
	HJG_FILTER_SET,				/* value is in a list */
	HJG_FILTER_BYTES,			/* likewise, of variable width; looks at the rows that ask only, as values may have to be fetched */
	HJG_FILTER_LIKE,			/* value begins with the first of bytes, ends with the last, and has the others between, in their order */
	HJG_FILTER_COLUMNS,			/* value against another column's */
	HJG_FILTER_IS_NULL,
	HJG_FILTER_ALL,				/* conditions one after the other; who does not pass one asks no further */
	HJG_FILTER_AND,				/* who does not pass an argument, but for a NULL, asks on */
	HJG_FILTER_OR
} HjgFilterKind;

typedef struct HjgBytes
{
	const char *data;
	int32		nbytes;
} HjgBytes;

/*
 * A condition; whoever makes it owns it.  negated turns a leaf round, except that NULLs never pass a RANGE, SET, BYTES, LIKE or COLUMNS.
 * A leaf whose operand is not known yet has bind, which is called when a row asks the leaf, makes it one of the
 * other kinds for good and clears bind; it may throw.
 */
typedef struct HjgFilter
{
	HjgFilterKind kind;
	void		(*bind) (struct HjgFilter *leaf);
	bool		negated;
	bool		null;			/* CONSTANT: it is NULL, and passes none; SET: a NULL is in it */
	HjgOrdinal	ordinal;
	int			column;			/* leaves: which vector */
	int			other;			/* COLUMNS: and which one it is compared with, */
	HjgComparison comparison;	/* and how */
	int64		low;
	int64		high;			/* not below low */
	int			nset;
	int64	   *set;			/* sorted */
	HjgBytes   *bytes;			/* nset of these: BYTES: sorted by hjg_bytes_compare(); LIKE: two at least */
	bool		padded;			/* values are compared but for spaces at the end, which those of the list do not have */
	int			nargs;
	struct HjgFilter **args;
} HjgFilter;

extern int64 hjg_filter_ordinal(HjgOrdinal ordinal, int width, Datum value);
/* Rows for which "left op right" is false lose their pass. */
extern void hjg_compare_ordinals(HjgComparison comparison, const int64 *left, const int64 *right, int nrows, bool *pass);
/* Width of what is compared as bytes. */
#define HJG_VARIABLE_WIDTH (-1)

/*
 * marshal_filter_bind.c.  Make a leaf of what its operand is: NULL; a value of so many bytes; a list of them, "column = ANY (array)"
 * or "column <> ALL (array)": a NULL in it never makes the first true, and never lets the second be, and an empty list
 * decides without a look at the column.  What has to be copied goes to the context, and is freed when the leaf is bound again.
 */
extern void hjg_filter_set_null(HjgFilter *leaf);
extern void hjg_filter_set_value(HjgFilter *leaf, MemoryContext context, HjgComparison comparison, int16 width, Datum value);
extern void hjg_filter_set_list(HjgFilter *leaf, MemoryContext context, HjgComparison comparison, int16 width, ArrayType *array);

/* Of a value that is neither compressed nor elsewhere. */
extern HjgBytes hjg_bytes_of(const struct varlena *value, bool padded);
extern int	hjg_bytes_compare(const void *a, const void *b);

/*
 * Ask the rows with pass[i]: those for which the condition is not true lose it.  An argument is asked by those
 * rows only that would ask it in core's expressions, as long as it makes a difference.
 */
extern void hjg_filter_eval(HjgFilter *filter, const HjgVector *vectors, int nrows, bool *pass);

/* ---------- keys (marshal_key.c, marshal_key_encode.c) ---------- */

#define HJG_MAX_KEY_BYTES 16

typedef enum HjgKeyKind
{
	HJG_KEY_INT,				/* fixed-width by-value, sign-extended to its packed width */
	HJG_KEY_FLOAT,				/* float4/8: one zero, one NaN, then as the wider type's bits */
	HJG_KEY_BYTES,				/* fixed-width by-reference, compared bytewise */
	HJG_KEY_VARLENA,			/* variable width, compared bytewise: hashed here */
	HJG_KEY_HASHED				/* anything hashable */
} HjgKeyKind;

/* How one key column of one side is encoded. */
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
 * Can equality operator op under this collation serve as a key?  If not, *why
 * is a constant text that completes "declined: ".  Looks into the catalogs.
 */
extern bool hjg_key_supported(Oid op, Oid collation, const char **why);

/* Are the operands of this equality function values of variable width that are equal just when their bytes are? */
extern bool hjg_key_is_varlena(Oid function);

/* Bytes that the operator's sides take in an exact key, or 0 when they are hashed. */
extern int	hjg_key_exact_bytes(Oid op);

/* Codec of the left (outer) or right (inner) inputs of the operators; palloc'd. */
extern HjgKeyCodec *hjg_key_codec(int nkeys, const Oid *ops, const Oid *collations, bool left);

/*
 * Encode a key into dst[codec->key_width].  Returns false, with dst undefined,
 * if any column is NULL.  May allocate in CurrentMemoryContext (detoasting, hash
 * functions); may throw what a hash function throws.
 */
extern bool hjg_key_encode(HjgKeyCodec *codec, const Datum *values, const bool *isnull, void *dst);

/* Is such a column, as it lies in a vector, the encoded key? */
extern bool hjg_key_is_vector(const HjgKeyCodec *codec, const HjgColumn *column);

/*
 * Encode the keys of nrows rows into dst[nrows][codec->key_width]; key column i is
 * vectors[source[i]].  Returns whether some key has a NULL in it: then isnull[]
 * says which, and dst is undefined there.  What hash functions allocate goes to
 * scratch, which is reset as we go.
 */
extern bool hjg_key_encode_vectors(HjgKeyCodec *codec, const int *source, const HjgVector *vectors, int nrows,
								   MemoryContext scratch, void *dst, bool *isnull);

/* Bits for partitioning on the host; levels are independent of each other and of the engine's hash. */
extern uint32 hjg_key_partition_hash(const void *key, int key_width, int level);

/* ---------- row store ---------- */

typedef struct HjgStore HjgStore;

/* Row limit of one store; more does not fit a row number. */
#define HJG_STORE_MAX_ROWS HJG_MAX_BUILD_ROWS

extern HjgStore *hjg_store_create(MemoryContext context, int ncolumns, const HjgColumn *columns,
								  double expected_rows);
/* Forget all rows, keep the memory for the next ones. */
extern void hjg_store_reset(HjgStore *store);
extern void hjg_store_free(HjgStore *store);
extern uint32 hjg_store_nrows(const HjgStore *store);
extern size_t hjg_store_bytes(const HjgStore *store);

/*
 * Append a row and return its number (0, 1, ...).  Column c is taken from
 * values[source[c]]; by-reference datums are copied, expanded ones flattened,
 * toasted ones kept as they are.
 */
extern uint32 hjg_store_append(HjgStore *store, const int *source, const Datum *values, const bool *isnull);

/*
 * Append rows [first, first + nrows) of vectors; column c is vectors[source[c]].
 */
extern void hjg_store_append_vectors(HjgStore *store, const int *source, const HjgVector *vectors, int first,
									 int nrows);
/* The same for rows[0 .. nrows - 1] of the vectors. */
extern void hjg_store_append_selected(HjgStore *store, const int *source, const HjgVector *vectors,
									  const uint16 *rows, int nrows);

/*
 * Gather nrows rows: column c of row rows[i] goes to values[i * stride + target[c]]
 * and isnull[...], unless target[c] is negative.  rows[i] == HJG_NO_ROW gives NULLs.  Datums point into the store.
 */
extern void hjg_store_gather(const HjgStore *store, const uint32 *rows, int nrows, const int *target, int stride,
							 Datum *values, bool *isnull);

/* The same for nrows <= HJG_MAX_VECTOR_ROWS, into vectors that own their memory: column c to vectors[target[c]]. */
extern void hjg_store_gather_vectors(const HjgStore *store, const uint32 *rows, int nrows, const int *target,
									 HjgVector *vectors);

/*
 * Rows as they lie in a store, of columns passed by value alone: they can be copied elsewhere, and read there.
 * Bytes of a row of such columns, or 0 where there is any other column, or none.
 */
extern int	hjg_store_plain_bytes(int ncolumns, const HjgColumn *columns);
/* Copy rows [first, first + nrows) to a place; false, with the copy of no use, where any of them may have a NULL. */
extern bool hjg_store_copy_rows(const HjgStore *store, uint32 first, uint32 nrows, void *to);
/*
 * hjg_store_gather() and hjg_store_gather_vectors() for copies, of nrows <= HJG_MAX_VECTOR_ROWS rows: row i lies
 * at places[i], or is missing where that is NULL.  The store says what a row looks like.
 */
extern void hjg_store_gather_copies(const HjgStore *store, const char *const *places, int nrows, const int *target,
									int stride, Datum *values, bool *isnull);
extern void hjg_store_gather_copied_vectors(const HjgStore *store, const char *const *places, int nrows,
											const int *target, HjgVector *vectors);

/* Datums of one column of rows that have no NULL there; what they point to may still be on its way to the cache. */
extern void hjg_store_gather_column(const HjgStore *store, int column, const uint32 *rows, int nrows, Datum *values);

/*
 * A shared store.  Row numbers come from outside: a writer takes a range of them, says so
 * with hjg_store_seek(), and appends rows until the range is full.  Ranges start at a
 * multiple of the chunk size and are not smaller, so that a chunk has one writer.  What a
 * writer has filled are its pieces; every reader, the other writers included, adds them to
 * its own handle.
 */
typedef struct HjgSharing
{
	void	   *arg;
	/* Memory for a piece, not zeroed, and the name that other processes know it by. */
	void	   *(*alloc) (void *arg, size_t bytes, uint64 *name);
	pg_atomic_uint32 *next_block;	/* in shared memory: numbers for blocks */
} HjgSharing;

typedef struct HjgStorePiece
{
	uint64		name;
	uint32		ix;
	bool		is_block;		/* of variable-length values; else a chunk of rows */
} HjgStorePiece;

/* Most rows of a chunk. */
#define HJG_STORE_MAX_CHUNK_ROWS 65536

/* All handles of a store need the same columns and number of rows in a chunk. */
extern HjgStore *hjg_store_create_shared(MemoryContext context, int ncolumns, const HjgColumn *columns,
										 double chunk_rows, const HjgSharing *sharing);
/* The next row gets this number. */
extern void hjg_store_seek(HjgStore *store, uint32 row);
/* Pieces that this handle has filled. */
extern const HjgStorePiece *hjg_store_pieces(const HjgStore *store, int *npieces);
/* Another handle's piece, which lies here in this process. */
extern void hjg_store_add_piece(HjgStore *store, const HjgStorePiece *piece, void *address);

/* ---------- spill files ---------- */

/*
 * A sequence of (key, carried columns) in a temporary file of core's; a NULL key is
 * kept as such.  The file belongs to the CurrentResourceOwner of its first write.
 */
typedef struct HjgSpill HjgSpill;

/* Memory of a file while it is written: core's buffer.  Of shared ones those of one side only are written at a time. */
#define HJG_SPILL_BUFFER_BYTES BLCKSZ
#define HJG_SHARED_SPILL_BUFFER_BYTES (BLCKSZ / 2)

extern HjgSpill *hjg_spill_create(TupleDesc desc, int key_width);
/* Columns are desc's, in its order.  A key of NULL stands for one with a NULL in it. */
extern void hjg_spill_write(HjgSpill *spill, const void *key, const Datum *values, const bool *isnull);
extern void hjg_spill_rewind(HjgSpill *spill);
/*
 * Next row, or false at the end.  *key points to the key or is NULL; slot's
 * values stay valid until the next call.
 */
extern bool hjg_spill_read(HjgSpill *spill, const void **key, TupleTableSlot *slot);
/* Were all rows read since the last rewind? */
extern bool hjg_spill_at_end(const HjgSpill *spill);
extern uint64 hjg_spill_nrows(const HjgSpill *spill);
extern uint64 hjg_spill_bytes(const HjgSpill *spill);
extern void hjg_spill_free(HjgSpill *spill);

/*
 * A shared spill file: place is shared memory of hjg_spill_shared_bytes() that one process
 * initializes; then every participant, a number from 0, attaches.  Rows must have a key.
 * All participants write and end their writing; after that one participant, whichever,
 * may read, and nrows counts all rows.
 */
extern size_t hjg_spill_shared_bytes(int nparticipants);
extern void hjg_spill_shared_init(void *place, int nparticipants, const char *name);
extern HjgSpill *hjg_spill_attach(void *place, int participant, SharedFileSet *files, TupleDesc desc,
								  int key_width);
extern void hjg_spill_end_write(HjgSpill *spill);

#endif							/* HJG_MARSHAL_H */
