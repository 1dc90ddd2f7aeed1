/*
 * marshal_key.c
 *	  Which operators make keys, and how their values are encoded.
 *
 * An operator counts as exact by the function behind it, never by its type or
 * name: a user's operator class over int4 may mean anything.
 */
#include "postgres.h"

#include <math.h>

#include "access/hash.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/transam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_amop.h"
#include "common/hashfn.h"
#include "utils/catcache.h"
#include "utils/float.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "marshal/hjg_marshal.h"

/* Seed of all 64-bit hash functions; any constant will do, both sides share it. */
#define KEY_HASH_SEED UINT64CONST(0x6a09e667f3bcc908)

typedef struct ExactOperator
{
	Oid			function;
	HjgKeyKind	kind;
	int16		left_width;
	int16		right_width;
} ExactOperator;

/* Equality functions whose operands are equal just when their normalised bytes are. */
static const ExactOperator exact_operators[] = {
	{F_BOOLEQ, HJG_KEY_INT, 1, 1},
	{F_CASH_EQ, HJG_KEY_INT, 8, 8},
	{F_CHAREQ, HJG_KEY_INT, 1, 1},
	{F_CIDEQ, HJG_KEY_INT, 4, 4},
	{F_DATE_EQ, HJG_KEY_INT, 4, 4},
	{F_ENUM_EQ, HJG_KEY_INT, 4, 4},
	{F_FLOAT4EQ, HJG_KEY_FLOAT, 4, 4},
	{F_FLOAT48EQ, HJG_KEY_FLOAT, 4, 8},
	{F_FLOAT84EQ, HJG_KEY_FLOAT, 8, 4},
	{F_FLOAT8EQ, HJG_KEY_FLOAT, 8, 8},
	{F_INT2EQ, HJG_KEY_INT, 2, 2},
	{F_INT24EQ, HJG_KEY_INT, 2, 4},
	{F_INT28EQ, HJG_KEY_INT, 2, 8},
	{F_INT4EQ, HJG_KEY_INT, 4, 4},
	{F_INT42EQ, HJG_KEY_INT, 4, 2},
	{F_INT48EQ, HJG_KEY_INT, 4, 8},
	{F_INT8EQ, HJG_KEY_INT, 8, 8},
	{F_INT82EQ, HJG_KEY_INT, 8, 2},
	{F_INT84EQ, HJG_KEY_INT, 8, 4},
	{F_OIDEQ, HJG_KEY_INT, 4, 4},
	{F_PG_LSN_EQ, HJG_KEY_INT, 8, 8},
	{F_TIMESTAMP_EQ, HJG_KEY_INT, 8, 8},
	{F_TIMESTAMPTZ_EQ, HJG_KEY_INT, 8, 8},
	{F_TIME_EQ, HJG_KEY_INT, 8, 8},
	{F_UUID_EQ, HJG_KEY_BYTES, 16, 16},
	{F_XID8EQ, HJG_KEY_INT, 8, 8},
	{F_XIDEQ, HJG_KEY_INT, 4, 4},
};

bool
hjg_key_is_varlena(Oid function)
{
	return function == F_TEXTEQ || function == F_BYTEAEQ;
}

/* Operators that were asked for lately; those that the server comes with have the same function for ever. */
typedef struct KnownOperator
{
	Oid			op;
	const ExactOperator *exact;
} KnownOperator;

static const ExactOperator *
find_exact(Oid op)
{
	static KnownOperator known[16];
	KnownOperator *place = &known[op % lengthof(known)];
	const ExactOperator *exact = NULL;
	Oid			function;

	if (place->op == op && OidIsValid(op))
		return place->exact;
	function = get_opcode(op);
	for (int i = 0; i < lengthof(exact_operators) && exact == NULL; i++)
		if (exact_operators[i].function == function)
			exact = &exact_operators[i];
	if (op < FirstGenbkiObjectId)
		*place = (KnownOperator) {op, exact};
	return exact;
}

/*
 * Find hash functions for both inputs of op in one operator family.  64-bit
 * functions are taken only where a type always has one: the extended functions
 * of containers fail at run time on elements that have just a 32-bit one.
 */
static bool
find_hash_functions(Oid op, RegProcedure *left, RegProcedure *right, bool *extended)
{
	CatCList   *catlist;
	bool		found = false;

	catlist = SearchSysCacheList1(AMOPOPID, ObjectIdGetDatum(op));
	for (int i = 0; i < catlist->n_members && !found; i++)
	{
		Form_pg_amop amop = (Form_pg_amop) GETSTRUCT(&catlist->members[i]->tuple);

		if (amop->amopmethod != HASH_AM_OID || amop->amopstrategy != HTEqualStrategyNumber)
			continue;
		*left = get_opfamily_proc(amop->amopfamily, amop->amoplefttype, amop->amoplefttype,
								  HASHEXTENDED_PROC);
		*right = get_opfamily_proc(amop->amopfamily, amop->amoprighttype, amop->amoprighttype,
								   HASHEXTENDED_PROC);
		*extended = OidIsValid(*left) && OidIsValid(*right) &&
			*left < FirstNormalObjectId && *right < FirstNormalObjectId &&
			*left != F_HASH_ARRAY_EXTENDED && *left != F_HASH_RECORD_EXTENDED &&
			*left != F_HASH_RANGE_EXTENDED && *left != F_HASH_MULTIRANGE_EXTENDED;
		if (!*extended)
		{
			*left = get_opfamily_proc(amop->amopfamily, amop->amoplefttype, amop->amoplefttype,
									  HASHSTANDARD_PROC);
			*right = get_opfamily_proc(amop->amopfamily, amop->amoprighttype, amop->amoprighttype,
									   HASHSTANDARD_PROC);
		}
		found = OidIsValid(*left) && OidIsValid(*right);
	}
	ReleaseSysCacheList(catlist);
	return found;
}

bool
hjg_key_supported(Oid op, Oid collation, const char **why)
{
	RegProcedure left;
	RegProcedure right;
	bool		extended;

	/* their functions are strict and know no collations */
	if (find_exact(op) != NULL)
		return true;
	if (!op_strict(op))
	{
		*why = "an equality operator is not strict";
		return false;
	}
	if (OidIsValid(collation) && !get_collation_isdeterministic(collation))
	{
		*why = "a key has a nondeterministic collation";
		return false;
	}
	if (!find_hash_functions(op, &left, &right, &extended))
	{
		*why = "an equality operator has no hash functions";
		return false;
	}
	return true;
}

int
hjg_key_exact_bytes(Oid op)
{
	const ExactOperator *exact = find_exact(op);

	return exact == NULL ? 0 : Max(exact->left_width, exact->right_width);
}

HjgKeyCodec *
hjg_key_codec(int nkeys, const Oid *ops, const Oid *collations, bool left)
{
	HjgKeyCodec *codec = palloc0(offsetof(HjgKeyCodec, columns) + nkeys * sizeof(HjgKeyColumn));
	int			bytes = 0;

	codec->ncolumns = nkeys;
	codec->exact = true;
	for (int i = 0; i < nkeys; i++)
	{
		int			width = hjg_key_exact_bytes(ops[i]);

		if (width == 0)
			codec->exact = false;
		bytes += width;
	}
	if (bytes > HJG_MAX_KEY_BYTES)
		codec->exact = false;
	codec->key_width = !codec->exact ? HJG_KEY_WIDTH_8 :
		bytes <= 4 ? HJG_KEY_WIDTH_4 : bytes <= 8 ? HJG_KEY_WIDTH_8 : HJG_KEY_WIDTH_16;

	bytes = 0;
	for (int i = 0; i < nkeys; i++)
	{
		HjgKeyColumn *column = &codec->columns[i];
		const ExactOperator *exact = find_exact(ops[i]);

		column->collation = collations[i];
		if (codec->exact)
		{
			column->kind = exact->kind;
			column->width = left ? exact->left_width : exact->right_width;
			column->packed_width = Max(exact->left_width, exact->right_width);
			column->packed_off = bytes;
			bytes += column->packed_width;
		}
		else if (hjg_key_is_varlena(get_opcode(ops[i])))
			column->kind = HJG_KEY_VARLENA;
		else
		{
			RegProcedure left_fn;
			RegProcedure right_fn;

			if (!find_hash_functions(ops[i], &left_fn, &right_fn, &column->extended))
				elog(ERROR, "operator %u has no hash functions", ops[i]);
			column->kind = HJG_KEY_HASHED;
			fmgr_info(left ? left_fn : right_fn, &column->hash_fn);
		}
	}
	return codec;
}

/* Store the low bytes of value; packed keys never leave the machine. */
static inline void
store_int(char *dst, int64 value, int width)
{
	switch (width)
	{
		case 1:
			*dst = (char) value;
			break;
		case 2:
			{
				int16		narrow = (int16) value;

				memcpy(dst, &narrow, 2);
				break;
			}
		case 4:
			{
				int32		narrow = (int32) value;

				memcpy(dst, &narrow, 4);
				break;
			}
		default:
			memcpy(dst, &value, 8);
	}
}

/* -0 equals 0 and every NaN equals every NaN. */
static inline void
store_float(char *dst, Datum value, int width, int packed_width)
{
	double		wide = width == 4 ? DatumGetFloat4(value) : DatumGetFloat8(value);

	if (wide == 0)
		wide = 0;
	else if (isnan(wide))
		wide = get_float8_nan();
	if (packed_width == 8)
		memcpy(dst, &wide, 8);
	else
	{
		float		narrow = isnan(wide) ? get_float4_nan() : (float) wide;

		memcpy(dst, &narrow, 4);
	}
}

/* Finalizer of MurmurHash3 for 64 bits. */
static inline uint64
mix64(uint64 h)
{
	h ^= h >> 33;
	h *= UINT64CONST(0xff51afd7ed558ccd);
	h ^= h >> 33;
	h *= UINT64CONST(0xc4ceb9fe1a85ec53);
	h ^= h >> 33;
	return h;
}

/*
 * Both halves of the product, so that every bit of the word counts in all of them: numbers written with
 * leading zeros differ in the same bits of two words side by side.
 */
static inline uint64
add_word(uint64 hash, uint64 word)
{
	uint128		product = (uint128) (hash ^ word) * UINT64CONST(0x9e3779b97f4a7c15);

	return (uint64) product ^ (uint64) (product >> 64);
}

static inline uint64
load_word(const char *bytes, size_t nbytes)
{
	uint64		word = 0;

	memcpy(&word, bytes, nbytes);
	return word;
}

/* Words from the front, then the last bytes, which may be those of the word before once more. */
static inline uint64
hash_bytes64(const char *bytes, size_t nbytes)
{
	uint64		hash = KEY_HASH_SEED ^ nbytes;
	size_t		off = 0;

	for (; off + 8 < nbytes; off += 8)
		hash = add_word(hash, load_word(bytes + off, 8));
	if (nbytes >= 8)
		hash = add_word(hash, load_word(bytes + nbytes - 8, 8));
	else if (nbytes >= 4)
		hash = add_word(hash, load_word(bytes, 4) << 32 | load_word(bytes + nbytes - 4, 4));
	else
		for (; off < nbytes; off++)
			hash = add_word(hash, (uint8) bytes[off]);
	return mix64(hash);
}

static inline uint64
varlena_hash(Datum value)
{
	struct varlena *bytes = (struct varlena *) DatumGetPointer(value);

	if (unlikely(VARATT_IS_COMPRESSED(bytes) || VARATT_IS_EXTERNAL(bytes)))
		bytes = pg_detoast_datum_packed(bytes);
	return hash_bytes64(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
}

static inline uint64
column_hash(HjgKeyColumn *column, Datum value)
{
	if (column->kind == HJG_KEY_VARLENA)
		return varlena_hash(value);
	if (column->extended)
		return DatumGetUInt64(FunctionCall2Coll(&column->hash_fn, column->collation, value,
												UInt64GetDatum(KEY_HASH_SEED)));
	return DatumGetUInt32(FunctionCall1Coll(&column->hash_fn, column->collation, value));
}

bool
hjg_key_encode(HjgKeyCodec *codec, const Datum *values, const bool *isnull, void *dst)
{
	char	   *out = dst;
	uint64		hash = 0;

	for (int i = 0; i < codec->ncolumns; i++)
		if (isnull[i])
			return false;

	/* by far the most frequent keys */
	if (codec->ncolumns == 1 && codec->columns[0].kind == HJG_KEY_INT &&
		codec->columns[0].packed_width == codec->key_width)
	{
		store_int(out, hjg_datum_to_int(values[0], codec->columns[0].width), codec->key_width);
		return true;
	}

	if (codec->exact)
		memset(out, 0, codec->key_width);
	for (int i = 0; i < codec->ncolumns; i++)
	{
		HjgKeyColumn *column = &codec->columns[i];

		switch (column->kind)
		{
			case HJG_KEY_INT:
				store_int(out + column->packed_off, hjg_datum_to_int(values[i], column->width),
						  column->packed_width);
				break;
			case HJG_KEY_FLOAT:
				store_float(out + column->packed_off, values[i], column->width, column->packed_width);
				break;
			case HJG_KEY_BYTES:
				memcpy(out + column->packed_off, DatumGetPointer(values[i]), column->width);
				break;
			case HJG_KEY_VARLENA:
			case HJG_KEY_HASHED:
				hash = i == 0 ? column_hash(column, values[i]) :
					hash_combine64(hash, column_hash(column, values[i]));
				break;
		}
	}
	if (!codec->exact)
		memcpy(out, &hash, sizeof(hash));
	return true;
}

/* ---------- many rows at a time ---------- */

bool
hjg_key_is_vector(const HjgKeyCodec *codec, const HjgColumn *column)
{
	return codec->ncolumns == 1 && codec->columns[0].kind == HJG_KEY_INT && column->attbyval &&
		column->attlen == codec->columns[0].width && column->attlen == codec->key_width;
}

/* A column of integers into keys; width and packed_width are constants in every call. */
static pg_attribute_always_inline void
encode_ints(const char *values, int width, char *dst, int stride, int packed_width, int nrows)
{
	for (int i = 0; i < nrows; i++)
	{
		int64		value;

		switch (width)
		{
			case 1:
				value = ((const int8 *) values)[i];
				break;
			case 2:
				value = ((const int16 *) values)[i];
				break;
			case 4:
				value = ((const int32 *) values)[i];
				break;
			default:
				value = ((const int64 *) values)[i];
		}
		store_int(dst + (size_t) i * stride, value, packed_width);
	}
}

static void
encode_int_column(const HjgKeyColumn *column, const HjgVector *vector, char *dst, int stride, int nrows)
{
	const char *values = vector->values;

	if (column->width == 4 && column->packed_width == 4)
		encode_ints(values, 4, dst, stride, 4, nrows);
	else if (column->width == 4 && column->packed_width == 8)
		encode_ints(values, 4, dst, stride, 8, nrows);
	else if (column->width == 8 && column->packed_width == 8)
		encode_ints(values, 8, dst, stride, 8, nrows);
	else
		encode_ints(values, column->width, dst, stride, column->packed_width, nrows);
}

/* Hashes of a column's values, combined with those of the columns before it. */
static void
hash_column(HjgKeyColumn *column, const HjgVector *vector, bool first, const bool *isnull, MemoryContext scratch,
			char *dst, int nrows)
{
	MemoryContext old = MemoryContextSwitchTo(scratch);

	for (int i = 0; i < nrows; i++)
	{
		Datum		value;
		uint64		hash;
		uint64		before;

		if (isnull != NULL && isnull[i])
			continue;
		value = hjg_vector_datum(vector, i);
		hash = column_hash(column, value);
		if (!first)
		{
			memcpy(&before, dst + (size_t) i * sizeof(hash), sizeof(hash));
			hash = hash_combine64(before, hash);
		}
		memcpy(dst + (size_t) i * sizeof(hash), &hash, sizeof(hash));
		if (!scratch->isReset)
			MemoryContextReset(scratch);
	}
	MemoryContextSwitchTo(old);
}

bool
hjg_key_encode_vectors(HjgKeyCodec *codec, const int *source, const HjgVector *vectors, int nrows,
					   MemoryContext scratch, void *dst, bool *isnull)
{
	int			stride = codec->key_width;
	bool		any_null = false;

	for (int c = 0; c < codec->ncolumns; c++)
	{
		const HjgVector *vector = &vectors[source[c]];

		if (!vector->has_nulls)
			continue;
		if (!any_null)
			memset(isnull, false, nrows * sizeof(bool));
		for (int i = 0; i < nrows; i++)
		{
			isnull[i] |= vector->isnull[i];
			any_null |= vector->isnull[i];
		}
	}

	if (codec->exact)
		memset(dst, 0, (size_t) nrows * stride);
	for (int c = 0; c < codec->ncolumns; c++)
	{
		HjgKeyColumn *column = &codec->columns[c];
		const HjgVector *vector = &vectors[source[c]];
		char	   *out = (char *) dst + column->packed_off;

		switch (column->kind)
		{
			case HJG_KEY_INT:
				encode_int_column(column, vector, out, stride, nrows);
				break;
			case HJG_KEY_FLOAT:
				for (int i = 0; i < nrows; i++)
					store_float(out + (size_t) i * stride, hjg_vector_datum(vector, i), column->width,
								column->packed_width);
				break;
			case HJG_KEY_BYTES:
				for (int i = 0; i < nrows; i++)
					if (!any_null || !isnull[i])
						memcpy(out + (size_t) i * stride, ((char **) vector->values)[i], column->width);
				break;
			case HJG_KEY_VARLENA:
			case HJG_KEY_HASHED:
				hash_column(column, vector, c == 0, any_null ? isnull : NULL, scratch, dst, nrows);
				break;
		}
	}
	return any_null;
}

uint32
hjg_key_partition_hash(const void *key, int key_width, int level)
{
	uint64		low = 0;
	uint64		high = 0;

	if (key_width == 4)
		memcpy(&low, key, 4);
	else
		memcpy(&low, key, 8);
	if (key_width == 16)
		memcpy(&high, (const char *) key + 8, 8);
	low ^= mix64(high + UINT64CONST(0x9e3779b97f4a7c15) * (level + 1));
	return (uint32) (mix64(low) >> 32);
}
