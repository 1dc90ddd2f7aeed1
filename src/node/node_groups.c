/*
 * node_groups.c
 *	  The table of groups of the node GpuAggregate: finds the group of a row by its keys.
 *
 * The keys of a vector are converted to a form that is hashed and compared without a call: ordinals of by-value types, bytes
 * of strings. Other types use core's functions. NULLs are equal to each other. Rows are then looked up one by one in an open
 * hash table of group numbers; a group has its hash, and its keys in the same form. Where all keys are ordinals and none is
 * NULL, these alone are compared.
 *
 * Keys that are words (HjgVector), or parts of these, need no look-up where the same words came before (node_group_memo.c).
 *
 * The hash includes this process's seed (rows_hash.c), so that nobody can choose colliding keys. Core's hash functions have
 * no seed; core's own tables trust them, too.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "node/hjg_aggregate.h"
#include "node/hjg_group_memo.h"
#include "node/hjg_totals.h"
#include "rows/hjg_rows.h"

/* Initial groups and buckets of a table. */
#define FIRST_GROUPS 256
#define FIRST_BUCKETS 1024

/* An empty table keeps its arrays if it had at least one group for so many buckets. */
#define MOST_BUCKETS_OF_GROUP 16

/* Keys that are compared as ordinals alone. */
#define MOST_PLAIN_KEYS 2

/* Toasted keys of a vector are fetched together up to this size. */
#define MOST_TOASTED_BYTES (256 * 1024)

/* Strings are kept in blocks of this size; a long string has its own. */
#define BLOCK_BYTES 8192

typedef enum KeyForm
{
	KEY_ORDINAL,
	KEY_BYTES,
	KEY_DATUM					/* any hashable type, by core's functions */
} KeyForm;

/* Values of one key, of rows or of groups. */
typedef struct KeyValues
{
	int64	   *ordinals;		/* NULL for forms other than the key's */
	HjgBytes   *bytes;
	Datum	   *datums;
	bool	   *isnull;
} KeyValues;

typedef struct Key
{
	KeyForm		form;
	int			column;
	HjgColumn	type;
	HjgOrdinal	ordinal;
	bool		padded;			/* spaces at the end of strings do not count */
	const HjgSlice *slice;		/* the part of strings that counts; NULL: all of it */
	Oid			collation;
	HjgKeyCodec *codec;			/* for KEY_DATUM, */
	FmgrInfo	equal;			/* and its equality */
	KeyValues	rows;			/* [HJG_VECTOR_ROWS], of the current vector */
	KeyValues	groups;			/* [max_groups] */
	bool		any_null;		/* a group's key is NULL */
} Key;

struct HjgGroups
{
	int			nkeys;
	Key		   *keys;
	int			nkept;
	int		   *kept;
	HjgColumn  *kept_columns;
	int		   *kept_target;	/* 0, 1, ... */
	uint64		row_hashes[HJG_VECTOR_ROWS];
	MemoryContext scratch;		/* detoasted values of a vector */
	HjgGroupMemo memo;			/* of keys that are words */
	int			key_columns[HJG_MEMO_KEYS]; /* the first ones */

	/* rows, and what keys point to */
	MemoryContext row_context;
	HjgStore   *store;			/* NULL: there are no groups */
	char	   *block;			/* block for strings */
	size_t		block_left;

	/* arrays, which an empty table may keep */
	MemoryContext context;
	uint32		ngroups;
	uint32		max_groups;
	size_t		group_bytes;	/* bytes of a group in all arrays */
	uint64	   *hashes;			/* of the groups; NULL: there are no arrays */
	uint32		nbuckets;		/* a power of two */
	uint32	   *buckets;		/* number of a group plus one; 0: none */
};

/* ---------- set-up ---------- */

static KeyValues
make_values(MemoryContext context, const Key *key, size_t n)
{
	KeyValues	values = {NULL};

	switch (key->form)
	{
		case KEY_ORDINAL:
			values.ordinals = MemoryContextAllocHuge(context, n * sizeof(int64));
			break;
		case KEY_BYTES:
			values.bytes = MemoryContextAllocHuge(context, n * sizeof(HjgBytes));
			break;
		case KEY_DATUM:
			values.datums = MemoryContextAllocHuge(context, n * sizeof(Datum));
			break;
	}
	values.isnull = MemoryContextAllocHuge(context, n * sizeof(bool));
	return values;
}

static void
init_key(Key *key, const HjgGroupKey *from, const HjgColumn *columns)
{
	const Oid	function = get_opcode(from->operator);
	const HjgSimpleOperator *simple = hjg_vector_simple_operator(function);
	const HjgBytesOperator *strings = hjg_vector_bytes_operator(function);

	*key = (Key) {.column = from->column, .slice = from->slice, .type = columns[from->column], .collation = from->collation};
	if (simple != NULL && simple->ordinal != HJG_ORDINAL_NONE)
	{
		key->form = KEY_ORDINAL;
		key->ordinal = simple->ordinal;
	}
	else if (simple != NULL || strings != NULL)
	{
		key->form = KEY_BYTES;
		key->padded = strings != NULL && strings->padded;
	}
	else
	{
		key->form = KEY_DATUM;
		key->codec = hjg_rows_key_codec(1, &from->operator, &from->collation, true);
		fmgr_info(function, &key->equal);
	}
}

static void
make_arrays(HjgGroups *groups)
{
	groups->max_groups = FIRST_GROUPS;
	groups->hashes = MemoryContextAlloc(groups->context, FIRST_GROUPS * sizeof(uint64));
	groups->group_bytes = sizeof(uint64);
	for (int k = 0; k < groups->nkeys; k++)
	{
		groups->keys[k].rows = make_values(groups->context, &groups->keys[k], HJG_VECTOR_ROWS);
		groups->keys[k].groups = make_values(groups->context, &groups->keys[k], FIRST_GROUPS);
		groups->group_bytes += sizeof(bool) + (groups->keys[k].form == KEY_BYTES ? sizeof(HjgBytes) : sizeof(int64));
	}
	groups->nbuckets = FIRST_BUCKETS;
	groups->buckets = MemoryContextAllocZero(groups->context, FIRST_BUCKETS * sizeof(uint32));
}

/* Make the table, before the first row. */
static void
make_table(HjgGroups *groups)
{
	if (groups->hashes == NULL)
		make_arrays(groups);
	groups->store = hjg_rows_store_create(groups->row_context, groups->nkept, groups->kept_columns, FIRST_GROUPS);
	groups->block_left = 0;
}

HjgGroups *
hjg_groups_create(MemoryContext context, int nkeys, const HjgGroupKey *keys, const HjgColumn *columns, int nkept,
				  const int *kept)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	HjgGroups  *groups = palloc0(sizeof(HjgGroups));

	groups->nkeys = nkeys;
	groups->keys = palloc(nkeys * sizeof(Key));
	for (int k = 0; k < nkeys; k++)
	{
		init_key(&groups->keys[k], &keys[k], columns);
		if (k < HJG_MEMO_KEYS)
			groups->key_columns[k] = keys[k].column;
	}
	groups->nkept = nkept;
	groups->kept = palloc(Max(nkept, 1) * sizeof(int));
	groups->kept_columns = palloc(Max(nkept, 1) * sizeof(HjgColumn));
	groups->kept_target = palloc(Max(nkept, 1) * sizeof(int));
	for (int i = 0; i < nkept; i++)
	{
		groups->kept[i] = kept[i];
		groups->kept_columns[i] = columns[kept[i]];
		groups->kept_target[i] = i;
	}
	groups->context = AllocSetContextCreate(context, "GpuAggregate groups", ALLOCSET_DEFAULT_SIZES);
	groups->row_context = AllocSetContextCreate(context, "GpuAggregate keys", ALLOCSET_DEFAULT_SIZES);
	groups->scratch = AllocSetContextCreate(context, "GpuAggregate values", ALLOCSET_SMALL_SIZES);
	MemoryContextSwitchTo(old);
	return groups;
}

bool
hjg_groups_reset(HjgGroups *groups, size_t most_bytes)
{
	const bool	keep = groups->hashes != NULL && MemoryContextMemAllocated(groups->context, false) <= most_bytes &&
		(size_t) groups->ngroups * MOST_BUCKETS_OF_GROUP >= groups->nbuckets;

	MemoryContextReset(groups->row_context);
	groups->store = NULL;
	for (int k = 0; k < groups->nkeys; k++)
		groups->keys[k].any_null = false;
	groups->ngroups = 0;
	groups->memo.words = 0;
	if (keep)
		memset(groups->buckets, 0, groups->nbuckets * sizeof(uint32));
	else
	{
		MemoryContextReset(groups->context);
		groups->hashes = NULL;
		groups->max_groups = 0;
	}
	return keep;
}

const uint64 *
hjg_groups_hashes(const HjgGroups *groups)
{
	return groups->hashes;
}

uint32
hjg_groups_count(const HjgGroups *groups)
{
	return groups->ngroups;
}

size_t
hjg_groups_bytes(const HjgGroups *groups, bool next)
{
	size_t		bytes = MemoryContextMemAllocated(groups->context, false) + MemoryContextMemAllocated(groups->row_context, false);

	if (!next || groups->hashes == NULL)
		return bytes;
	/* arrays grow to twice their size */
	if (groups->ngroups + HJG_VECTOR_ROWS > groups->max_groups)
		bytes += groups->max_groups * groups->group_bytes;
	if (groups->ngroups + HJG_VECTOR_ROWS > groups->nbuckets / 2)
		bytes += groups->nbuckets * sizeof(uint32);
	return bytes;
}

/* ---------- keys of the rows ---------- */

/* Choose the number of rows that are looked up together, so that detoasted keys take little memory at a time. */
static int
rows_at_once(const HjgGroups *groups, const HjgVector *vectors, int nrows)
{
	for (int k = 0; k < groups->nkeys; k++)
	{
		const HjgVector *vector = &vectors[groups->keys[k].column];
		const HjgSlice *slice = groups->keys[k].slice;
		const int32 reach = slice != NULL ? hjg_vector_slice_reach(slice) : -1;
		Size		bytes = 0;

		if (vector->column.attlen != -1)
			continue;
		for (int i = 0; i < nrows; i++)
		{
			struct varlena *value = ((struct varlena **) vector->values)[i];

			if (hjg_vector_isnull(vector, i) || !VARATT_IS_EXTENDED(value) || VARATT_IS_SHORT(value))
				continue;
			bytes += reach >= 0 ? reach : toast_raw_datum_size(PointerGetDatum(value));
			if (bytes > MOST_TOASTED_BYTES)
				nrows = i + 1;
		}
	}
	return nrows;
}

static void
load_key_ordinals(Key *key, const HjgVector *vector, int nrows)
{
	hjg_vector_ordinals(key->ordinal, vector, nrows, key->rows.ordinals);
	if (vector->has_nulls)
		for (int i = 0; i < nrows; i++)
			key->rows.ordinals[i] &= (int64) vector->isnull[i] - 1;
}

static void
load_key_bytes(Key *key, const HjgVector *vector, int nrows)
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
load_key_datums(Key *key, const HjgVector *vector, int nrows)
{
	for (int i = 0; i < nrows; i++)
		key->rows.datums[i] = hjg_vector_isnull(vector, i) ? (Datum) 0 : hjg_vector_datum(vector, i);
}

/* Add the key to the rows' hashes. */
static void
add_hashes(Key *key, uint64 *hashes, int nrows)
{
	switch (key->form)
	{
		case KEY_ORDINAL:
			hjg_rows_hash_ordinals(key->rows.ordinals, nrows, hashes);
			break;
		case KEY_BYTES:
			hjg_rows_hash_bytes(key->rows.bytes, nrows, hashes);
			break;
		case KEY_DATUM:
			hjg_rows_hash_datums(&key->codec->columns[0], key->rows.datums, key->rows.isnull, nrows, hashes);
			break;
	}
}

/* Are all keys ordinals that are compared alone? */
static bool
are_plain(const HjgGroups *groups, const HjgVector *vectors)
{
	bool		plain = groups->nkeys <= MOST_PLAIN_KEYS;

	for (int k = 0; k < groups->nkeys; k++)
		plain &= groups->keys[k].form == KEY_ORDINAL && !groups->keys[k].any_null && !vectors[groups->keys[k].column].has_nulls;
	return plain;
}

static void
load_key_columns(HjgGroups *groups, const HjgVector *vectors, int nrows)
{
	memset(groups->row_hashes, 0, nrows * sizeof(uint64));
	for (int k = 0; k < groups->nkeys; k++)
	{
		Key		   *key = &groups->keys[k];
		const HjgVector *vector = &vectors[key->column];

		if (vector->has_nulls)
			memcpy(key->rows.isnull, vector->isnull, nrows * sizeof(bool));
		else
			memset(key->rows.isnull, false, nrows * sizeof(bool));
		if (key->form == KEY_ORDINAL)
			load_key_ordinals(key, vector, nrows);
		else if (key->form == KEY_BYTES)
			load_key_bytes(key, vector, nrows);
		else
			load_key_datums(key, vector, nrows);
		add_hashes(key, groups->row_hashes, nrows);
	}
}

/* ---------- the table ---------- */

static inline bool
same_key(Key *key, int row, uint32 group)
{
	if (key->rows.isnull[row] || key->groups.isnull[group])
		return key->rows.isnull[row] && key->groups.isnull[group];
	switch (key->form)
	{
		case KEY_ORDINAL:
			return key->rows.ordinals[row] == key->groups.ordinals[group];
		case KEY_BYTES:
			return key->rows.bytes[row].nbytes == key->groups.bytes[group].nbytes &&
				memcmp(key->rows.bytes[row].data, key->groups.bytes[group].data, key->rows.bytes[row].nbytes) == 0;
		default:
			return DatumGetBool(FunctionCall2Coll(&key->equal, key->collation, key->groups.datums[group], key->rows.datums[row]));
	}
}

static inline bool
same_keys(const HjgGroups *groups, int row, uint32 group)
{
	if (groups->hashes[group] != groups->row_hashes[row])
		return false;
	for (int k = 0; k < groups->nkeys; k++)
		if (!same_key(&groups->keys[k], row, group))
			return false;
	return true;
}

static const char *
keep_bytes(HjgGroups *groups, HjgBytes bytes)
{
	char	   *copy;

	if ((size_t) bytes.nbytes > groups->block_left)
	{
		if (bytes.nbytes > BLOCK_BYTES / 8)
			return memcpy(MemoryContextAllocHuge(groups->row_context, bytes.nbytes), bytes.data, bytes.nbytes);
		groups->block = MemoryContextAlloc(groups->row_context, BLOCK_BYTES);
		groups->block_left = BLOCK_BYTES;
	}
	copy = groups->block;
	groups->block += bytes.nbytes;
	groups->block_left -= bytes.nbytes;
	return bytes.nbytes > 0 ? memcpy(copy, bytes.data, bytes.nbytes) : copy;
}

/* Copy a datum; one of variable length is detoasted, so that it does not depend on the row's page. */
static Datum
keep_datum(HjgGroups *groups, const Key *key, Datum value)
{
	MemoryContext old = MemoryContextSwitchTo(groups->row_context);

	value = key->type.attlen == -1 ? PointerGetDatum(PG_DETOAST_DATUM_COPY(value)) :
		datumCopy(value, key->type.attbyval, key->type.attlen);
	MemoryContextSwitchTo(old);
	return value;
}

static uint32
add_group(HjgGroups *groups, int row)
{
	const uint32 group = groups->ngroups++;

	groups->hashes[group] = groups->row_hashes[row];
	for (int k = 0; k < groups->nkeys; k++)
	{
		Key		   *key = &groups->keys[k];
		const bool	isnull = key->rows.isnull[row];

		key->groups.isnull[group] = isnull;
		key->any_null |= isnull;
		if (key->form == KEY_ORDINAL)
			key->groups.ordinals[group] = key->rows.ordinals[row];
		else if (key->form == KEY_BYTES)
			key->groups.bytes[group] = (HjgBytes) {isnull ? NULL : keep_bytes(groups, key->rows.bytes[row]), key->rows.bytes[row].nbytes};
		else
			key->groups.datums[group] = isnull ? (Datum) 0 : keep_datum(groups, key, key->rows.datums[row]);
	}
	return group;
}

static void *
enlarge_array(void *array, size_t n, size_t bytes)
{
	return repalloc_huge(array, n * bytes);
}

static void
grow_groups(HjgGroups *groups)
{
	const size_t n = (size_t) groups->max_groups * 2;

	groups->hashes = enlarge_array(groups->hashes, n, sizeof(uint64));
	for (int k = 0; k < groups->nkeys; k++)
	{
		KeyValues  *values = &groups->keys[k].groups;

		if (values->ordinals != NULL)
			values->ordinals = enlarge_array(values->ordinals, n, sizeof(int64));
		if (values->bytes != NULL)
			values->bytes = enlarge_array(values->bytes, n, sizeof(HjgBytes));
		if (values->datums != NULL)
			values->datums = enlarge_array(values->datums, n, sizeof(Datum));
		values->isnull = enlarge_array(values->isnull, n, sizeof(bool));
	}
	groups->max_groups = n;
}

static inline uint32
first_bucket(const HjgGroups *groups, uint64 hash)
{
	return (uint32) (hash >> 32) & (groups->nbuckets - 1);
}

static void
grow_buckets(HjgGroups *groups)
{
	pfree(groups->buckets);
	groups->nbuckets *= 2;
	groups->buckets = MemoryContextAllocExtended(groups->context, (size_t) groups->nbuckets * sizeof(uint32), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (uint32 group = 0; group < groups->ngroups; group++)
	{
		uint32		b = first_bucket(groups, groups->hashes[group]);

		while (groups->buckets[b] != 0)
			b = (b + 1) & (groups->nbuckets - 1);
		groups->buckets[b] = group + 1;
	}
}

/* Fetch what comparisons with a group touch. */
static inline void
prefetch_group(const HjgGroups *groups, uint32 group)
{
	__builtin_prefetch(&groups->hashes[group]);
	for (int k = 0; k < groups->nkeys; k++)
	{
		const KeyValues *values = &groups->keys[k].groups;

		__builtin_prefetch(&values->isnull[group]);
		if (values->ordinals != NULL)
			__builtin_prefetch(&values->ordinals[group]);
		else if (values->bytes != NULL)
			__builtin_prefetch(&values->bytes[group]);
		else
			__builtin_prefetch(&values->datums[group]);
	}
}

/* Fetch what the look-ups of the rows will touch into the cache: all rows' buckets, then the groups in these. */
static void
prefetch_groups(const HjgGroups *groups, bool plain, int nrows)
{
	for (int i = 0; i < nrows; i++)
		__builtin_prefetch(&groups->buckets[first_bucket(groups, groups->row_hashes[i])]);
	for (int i = 0; i < nrows; i++)
	{
		const uint32 bucket = groups->buckets[first_bucket(groups, groups->row_hashes[i])];

		if (bucket == 0)
			continue;
		if (!plain)
			prefetch_group(groups, bucket - 1);
		for (int k = 0; plain && k < groups->nkeys; k++)
			__builtin_prefetch(&groups->keys[k].groups.ordinals[bucket - 1]);
	}
}

/* ---------- rows ---------- */

/*
 * Find or add the groups of rows by one or two plain keys; first_rows gets the rows that begin groups. `two` is a constant in each
 * call.
 */
static pg_attribute_always_inline void
find_plain(HjgGroups *groups, bool two, int nrows, uint32 *numbers, uint16 *first_rows)
{
	const Key  *first = &groups->keys[0];
	const Key  *second = &groups->keys[two ? 1 : 0];
	const int64 *first_ordinals = first->rows.ordinals;
	const int64 *second_ordinals = second->rows.ordinals;
	int64	   *first_kept = first->groups.ordinals;
	int64	   *second_kept = second->groups.ordinals;
	uint32	   *buckets = groups->buckets;
	const uint32 mask = groups->nbuckets - 1;
	const uint32 nold = groups->ngroups;
	uint32		ngroups = nold;

	for (int i = 0; i < nrows; i++)
	{
		uint32		b = first_bucket(groups, groups->row_hashes[i]);

		while (buckets[b] != 0 &&
			   (first_kept[buckets[b] - 1] != first_ordinals[i] || (two && second_kept[buckets[b] - 1] != second_ordinals[i])))
			b = (b + 1) & mask;
		if (buckets[b] == 0)
		{
			groups->hashes[ngroups] = groups->row_hashes[i];
			first_kept[ngroups] = first_ordinals[i];
			if (two)
				second_kept[ngroups] = second_ordinals[i];
			*first_rows++ = i;
			buckets[b] = ++ngroups;
		}
		numbers[i] = buckets[b] - 1;
	}
	memset(first->groups.isnull + nold, false, ngroups - nold);
	memset(second->groups.isnull + nold, false, ngroups - nold);
	groups->ngroups = ngroups;
}

/* Do the same by any keys. */
static void
find_any(HjgGroups *groups, int nrows, uint32 *numbers, uint16 *first_rows)
{
	for (int i = 0; i < nrows; i++)
	{
		uint32		b = first_bucket(groups, groups->row_hashes[i]);

		while (groups->buckets[b] != 0 && !same_keys(groups, i, groups->buckets[b] - 1))
			b = (b + 1) & (groups->nbuckets - 1);
		if (groups->buckets[b] == 0)
		{
			*first_rows++ = i;
			groups->buckets[b] = add_group(groups, i) + 1;
		}
		numbers[i] = groups->buckets[b] - 1;
	}
}

static int
look_up(HjgGroups *groups, const HjgVector *vectors, int nrows, uint32 *numbers)
{
	MemoryContext old = MemoryContextSwitchTo(groups->scratch);
	uint16		first_rows[HJG_VECTOR_ROWS];	/* of new groups */
	const uint32 nold = groups->ngroups;
	const bool	plain = are_plain(groups, vectors);

	if (groups->store == NULL)
		make_table(groups);
	nrows = rows_at_once(groups, vectors, nrows);
	load_key_columns(groups, vectors, nrows);
	/* each row may begin a group */
	while (groups->ngroups + nrows > groups->max_groups)
		grow_groups(groups);
	while (groups->ngroups + nrows > groups->nbuckets / 2)
		grow_buckets(groups);
	if (groups->ngroups >= HJG_MANY_GROUPS)
		prefetch_groups(groups, plain, nrows);
	if (!plain)
		find_any(groups, nrows, numbers, first_rows);
	else if (groups->nkeys == 1)
		find_plain(groups, false, nrows, numbers, first_rows);
	else
		find_plain(groups, true, nrows, numbers, first_rows);
	if (groups->nkept > 0 && groups->ngroups > nold)
		hjg_rows_store_append_selected(groups->store, groups->kept, vectors, first_rows, groups->ngroups - nold);
	MemoryContextSwitchTo(old);
	MemoryContextReset(groups->scratch);
	return nrows;
}

int
hjg_groups_find(HjgGroups *groups, const HjgVector *vectors, int nrows, uint32 *numbers)
{
	const bool	remembers = hjg_group_memo_serves(&groups->memo, groups->nkeys, groups->key_columns, vectors);

	if (remembers && hjg_group_memo_recall(&groups->memo, groups->nkeys, groups->key_columns, vectors, nrows, numbers))
		return nrows;
	nrows = look_up(groups, vectors, nrows, numbers);
	if (remembers)
		hjg_group_memo_add(&groups->memo, groups->nkeys, groups->key_columns, vectors, nrows, numbers);
	return nrows;
}

void
hjg_groups_gather(const HjgGroups *groups, uint32 first, int n, Datum *values, bool *isnull)
{
	uint32		numbers[HJG_VECTOR_ROWS];

	for (int i = 0; i < n; i++)
		numbers[i] = first + i;
	if (groups->nkept > 0)
		hjg_rows_store_gather(groups->store, numbers, n, groups->kept_target, groups->nkept, values, isnull);
}

void
hjg_groups_gather_vectors(const HjgGroups *groups, const uint32 *numbers, int n, HjgVector *vectors)
{
	if (groups->nkept > 0)
		hjg_rows_store_gather_vectors(groups->store, numbers, n, groups->kept_target, vectors);
}
