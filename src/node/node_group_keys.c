/*
 * node_group_keys.c
 *	  Keys of rows and of groups: ordinals of by-value types, bytes of strings; other types by core's functions.
 *
 * The hash includes this process's seed (rows_hash.c), so that nobody can choose colliding keys. Core's hash functions have
 * no seed; core's own tables trust them, too.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "node/hjg_group_keys.h"

/* Toasted keys of a vector are fetched together up to this size. */
#define MOST_TOASTED_BYTES (256 * 1024)

/* Strings are kept in blocks of this size; a long string has its own. */
#define BLOCK_BYTES 8192

/* ---------- arrays ---------- */

static HjgGroupKeyValues
make_values(MemoryContext context, const HjgGroupKeyState *key, size_t n)
{
	HjgGroupKeyValues	values = {NULL};

	switch (key->form)
	{
		case HJG_GROUP_KEY_ORDINAL:
			values.ordinals = MemoryContextAllocHuge(context, n * sizeof(int64));
			break;
		case HJG_GROUP_KEY_BYTES:
			values.bytes = MemoryContextAllocHuge(context, n * sizeof(HjgBytes));
			break;
		case HJG_GROUP_KEY_DATUM:
			values.datums = MemoryContextAllocHuge(context, n * sizeof(Datum));
			break;
	}
	values.isnull = MemoryContextAllocHuge(context, n * sizeof(bool));
	return values;
}

void
hjg_group_key_init(HjgGroupKeyState *key, const HjgGroupKey *from, const HjgColumn *columns)
{
	const Oid	function = get_opcode(from->operator);
	const HjgSimpleOperator *simple = hjg_vector_simple_operator(function);
	const HjgBytesOperator *strings = hjg_vector_bytes_operator(function);

	*key = (HjgGroupKeyState) {.column = from->column, .slice = from->slice, .type = columns[from->column], .collation = from->collation};
	if (simple != NULL && simple->ordinal != HJG_ORDINAL_NONE)
	{
		key->form = HJG_GROUP_KEY_ORDINAL;
		key->ordinal = simple->ordinal;
	}
	else if (simple != NULL || strings != NULL)
	{
		key->form = HJG_GROUP_KEY_BYTES;
		key->padded = strings != NULL && strings->padded;
	}
	else
	{
		key->form = HJG_GROUP_KEY_DATUM;
		key->codec = hjg_rows_key_codec(1, &from->operator, &from->collation, true);
		fmgr_info(function, &key->equal);
	}
}

size_t
hjg_group_key_make(HjgGroupKeyState *key, MemoryContext context, size_t ngroups)
{
	key->rows = make_values(context, key, HJG_VECTOR_ROWS);
	key->groups = make_values(context, key, ngroups);
	return sizeof(bool) + (key->form == HJG_GROUP_KEY_BYTES ? sizeof(HjgBytes) : sizeof(int64));
}

void
hjg_group_key_grow(HjgGroupKeyState *key, size_t ngroups)
{
	HjgGroupKeyValues *values = &key->groups;

	if (values->ordinals != NULL)
		values->ordinals = repalloc_huge(values->ordinals, ngroups * sizeof(int64));
	if (values->bytes != NULL)
		values->bytes = repalloc_huge(values->bytes, ngroups * sizeof(HjgBytes));
	if (values->datums != NULL)
		values->datums = repalloc_huge(values->datums, ngroups * sizeof(Datum));
	values->isnull = repalloc_huge(values->isnull, ngroups * sizeof(bool));
}

/* ---------- keys of the rows ---------- */

int
hjg_group_key_rows_at_once(const HjgGroupKeyState *key, const HjgVector *vector, int nrows)
{
	const int32 reach = key->slice != NULL ? hjg_vector_slice_reach(key->slice) : -1;
	Size		bytes = 0;

	if (vector->column.attlen != -1)
		return nrows;
	for (int i = 0; i < nrows; i++)
	{
		struct varlena *value = ((struct varlena **) vector->values)[i];

		if (hjg_vector_isnull(vector, i) || !VARATT_IS_EXTENDED(value) || VARATT_IS_SHORT(value))
			continue;
		bytes += reach >= 0 ? reach : toast_raw_datum_size(PointerGetDatum(value));
		if (bytes > MOST_TOASTED_BYTES)
			return i + 1;
	}
	return nrows;
}

static void
load_key_ordinals(HjgGroupKeyState *key, const HjgVector *vector, int nrows)
{
	hjg_vector_ordinals(key->ordinal, vector, nrows, key->rows.ordinals);
	if (vector->has_nulls)
		for (int i = 0; i < nrows; i++)
			key->rows.ordinals[i] &= (int64) vector->isnull[i] - 1;
}

static void
load_key_bytes(HjgGroupKeyState *key, const HjgVector *vector, int nrows)
{
	for (int i = 0; i < nrows; i++)
	{
		HjgBytes	bytes = {NULL, 0};

		if (!hjg_vector_isnull(vector, i))
		{
			char	   *value = ((char **) vector->values)[i];

			if (key->type.attlen > 0)
				bytes = (HjgBytes) {value, key->type.attlen};
			else
			{
				const struct varlena *plain = VARATT_IS_COMPRESSED(value) || VARATT_IS_EXTERNAL(value) ?
					hjg_scan_slice_fetch((struct varlena *) value, key->slice) : (struct varlena *) value;

				bytes = (HjgBytes) {VARDATA_ANY(plain), VARSIZE_ANY_EXHDR(plain)};
				if (key->slice != NULL)
					bytes = hjg_vector_slice(bytes, key->slice);
				bytes = hjg_vector_bytes_trim(bytes, key->padded);
			}
		}
		key->rows.bytes[i] = bytes;
	}
}

static void
load_key_datums(HjgGroupKeyState *key, const HjgVector *vector, int nrows)
{
	for (int i = 0; i < nrows; i++)
		key->rows.datums[i] = hjg_vector_isnull(vector, i) ? (Datum) 0 : hjg_vector_datum(vector, i);
}

/* Add the key to the rows' hashes. */
static void
add_hashes(HjgGroupKeyState *key, uint64 *hashes, int nrows)
{
	switch (key->form)
	{
		case HJG_GROUP_KEY_ORDINAL:
			hjg_rows_hash_ordinals(key->rows.ordinals, nrows, hashes);
			break;
		case HJG_GROUP_KEY_BYTES:
			hjg_rows_hash_bytes(key->rows.bytes, nrows, hashes);
			break;
		case HJG_GROUP_KEY_DATUM:
			hjg_rows_hash_datums(&key->codec->columns[0], key->rows.datums, key->rows.isnull, nrows, hashes);
			break;
	}
}

void
hjg_group_key_load(HjgGroupKeyState *key, const HjgVector *vector, int nrows, uint64 *hashes)
{
	if (vector->has_nulls)
		memcpy(key->rows.isnull, vector->isnull, nrows * sizeof(bool));
	else
		memset(key->rows.isnull, false, nrows * sizeof(bool));
	if (key->form == HJG_GROUP_KEY_ORDINAL)
		load_key_ordinals(key, vector, nrows);
	else if (key->form == HJG_GROUP_KEY_BYTES)
		load_key_bytes(key, vector, nrows);
	else
		load_key_datums(key, vector, nrows);
	add_hashes(key, hashes, nrows);
}

/* ---------- keys of the groups ---------- */

static const char *
keep_bytes(HjgGroupKeyMemory *memory, HjgBytes bytes)
{
	char	   *copy;

	if ((size_t) bytes.nbytes > memory->left)
	{
		if (bytes.nbytes > BLOCK_BYTES / 8)
			return memcpy(MemoryContextAllocHuge(memory->context, bytes.nbytes), bytes.data, bytes.nbytes);
		memory->block = MemoryContextAlloc(memory->context, BLOCK_BYTES);
		memory->left = BLOCK_BYTES;
	}
	copy = memory->block;
	memory->block += bytes.nbytes;
	memory->left -= bytes.nbytes;
	return bytes.nbytes > 0 ? memcpy(copy, bytes.data, bytes.nbytes) : copy;
}

/* Copy a datum; one of variable length is detoasted, so that it does not depend on the row's page. */
static Datum
keep_datum(HjgGroupKeyMemory *memory, const HjgGroupKeyState *key, Datum value)
{
	MemoryContext old = MemoryContextSwitchTo(memory->context);

	value = key->type.attlen == -1 ? PointerGetDatum(PG_DETOAST_DATUM_COPY(value)) :
		datumCopy(value, key->type.attbyval, key->type.attlen);
	MemoryContextSwitchTo(old);
	return value;
}

void
hjg_group_key_keep(HjgGroupKeyState *key, HjgGroupKeyMemory *memory, int row, uint32 group)
{
	const bool	isnull = key->rows.isnull[row];

	key->groups.isnull[group] = isnull;
	key->any_null |= isnull;
	if (key->form == HJG_GROUP_KEY_ORDINAL)
		key->groups.ordinals[group] = key->rows.ordinals[row];
	else if (key->form == HJG_GROUP_KEY_BYTES)
		key->groups.bytes[group] = (HjgBytes) {isnull ? NULL : keep_bytes(memory, key->rows.bytes[row]), key->rows.bytes[row].nbytes};
	else
		key->groups.datums[group] = isnull ? (Datum) 0 : keep_datum(memory, key, key->rows.datums[row]);
}
