/*
 * rows_key_encode.c
 *	  Encodes the keys of a row or of a vector of rows: the bytes that an engine compares.
 */
#include "postgres.h"

#include <math.h>

#include "common/hashfn.h"
#include "utils/float.h"
#include "utils/memutils.h"

#include "layout/hjg_hash.h"
#include "rows/hjg_rows.h"

/* Seed of all 64-bit hash functions: both sides of a join, its workers and its files share it. */
#define KEY_HASH_SEED (hjg_hash_seed.flip)

/* Store the low bytes of value; packed keys stay on this machine. */
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

/* Store a float; -0 equals 0, and all NaNs are equal. */
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

/* Apply the finalizer of MurmurHash3 for 64 bits. */
static inline uint64
mix_word(uint64 h)
{
	h ^= h >> 33;
	h *= UINT64CONST(0xff51afd7ed558ccd);
	h ^= h >> 33;
	h *= UINT64CONST(0xc4ceb9fe1a85ec53);
	h ^= h >> 33;
	return h;
}

/*
 * Add a word to a hash. Both halves of the product are combined, so that every bit of the word affects all bits: numbers
 * written with leading zeros differ in the same bits of two adjacent words.
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

/* Hash words from the front, then the last bytes, which may overlap the word before. */
uint64
hjg_rows_key_hash_bytes(const char *bytes, size_t nbytes)
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
	return mix_word(hash);
}

static inline uint64
varlena_hash(Datum value)
{
	struct varlena *bytes = (struct varlena *) DatumGetPointer(value);

	if (unlikely(VARATT_IS_COMPRESSED(bytes) || VARATT_IS_EXTERNAL(bytes)))
		bytes = pg_detoast_datum_packed(bytes);
	return hjg_rows_key_hash_bytes(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
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
hjg_rows_key_encode(HjgKeyCodec *codec, const Datum *values, const bool *isnull, void *dst)
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
		store_int(out, hjg_vector_datum_to_int(values[0], codec->columns[0].width), codec->key_width);
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
				store_int(out + column->packed_off, hjg_vector_datum_to_int(values[i], column->width),
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
hjg_rows_key_is_vector(const HjgKeyCodec *codec, const HjgColumn *column)
{
	return codec->ncolumns == 1 && codec->columns[0].kind == HJG_KEY_INT && column->attbyval &&
		column->attlen == codec->columns[0].width && column->attlen == codec->key_width;
}

/* Encode a column of integers into keys; width and packed_width are constants in every call. */
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

/* Combine the hashes of a column's values with those of the columns before it. */
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
hjg_rows_key_encode_vectors(HjgKeyCodec *codec, const int *source, const HjgVector *vectors, int nrows,
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
hjg_rows_key_partition_hash(const void *key, int key_width, int level)
{
	uint64		low = 0;
	uint64		high = 0;

	if (key_width == 4)
		memcpy(&low, key, 4);
	else
		memcpy(&low, key, 8);
	if (key_width == 16)
		memcpy(&high, (const char *) key + 8, 8);
	high += UINT64CONST(0x9e3779b97f4a7c15) * level;
	return (uint32) (mix_word(hjg_mix128(hjg_hash_seed, low, high)) >> 32);
}
