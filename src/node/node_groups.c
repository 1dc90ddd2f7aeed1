/*
 * node_groups.c
 *	  The table of groups of the node GpuAggregate: finds the group of a row by its keys.
 *
 * The keys of a vector are converted to a form that is hashed and compared without a call, if they can be (node_group_keys.c). NULLs
 * are equal to each other. Rows are then looked up one by one in an open hash table of group numbers; a group has its hash, and its
 * keys in the same form. Where all keys are ordinals and none is NULL, these alone are compared.
 *
 * Keys that are words (HjgVector), or parts of these, need no look-up where the same words came before (node_group_memo.c).
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "node/hjg_aggregate.h"
#include "node/hjg_group_keys.h"
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

struct HjgGroups
{
	int			nkeys;
	HjgGroupKeyState *keys;
	int			nkept;
	int		   *kept;
	HjgColumn  *kept_columns;
	int		   *kept_target;	/* 0, 1, ... */
	uint64		row_hashes[HJG_VECTOR_ROWS];
	MemoryContext scratch;		/* detoasted values of a vector */
	HjgGroupMemo memo;			/* of keys that are words */
	int			key_columns[HJG_MEMO_KEYS]; /* the first ones */

	/* rows, and what keys point to */
	HjgGroupKeyMemory memory;
	HjgStore   *store;			/* NULL: there are no groups */

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

static void
make_arrays(HjgGroups *groups)
{
	groups->max_groups = FIRST_GROUPS;
	groups->hashes = MemoryContextAlloc(groups->context, FIRST_GROUPS * sizeof(uint64));
	groups->group_bytes = sizeof(uint64);
	for (int k = 0; k < groups->nkeys; k++)
		groups->group_bytes += hjg_group_key_make(&groups->keys[k], groups->context, FIRST_GROUPS);
	groups->nbuckets = FIRST_BUCKETS;
	groups->buckets = MemoryContextAllocZero(groups->context, FIRST_BUCKETS * sizeof(uint32));
}

/* Make the table, before the first row. */
static void
make_table(HjgGroups *groups)
{
	if (groups->hashes == NULL)
		make_arrays(groups);
	groups->store = hjg_rows_store_create(groups->memory.context, groups->nkept, groups->kept_columns, FIRST_GROUPS);
	groups->memory.left = 0;
}

HjgGroups *
hjg_groups_create(MemoryContext context, int nkeys, const HjgGroupKey *keys, const HjgColumn *columns, int nkept,
				  const int *kept)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	HjgGroups  *groups = palloc0(sizeof(HjgGroups));

	groups->nkeys = nkeys;
	groups->keys = palloc(nkeys * sizeof(HjgGroupKeyState));
	for (int k = 0; k < nkeys; k++)
	{
		hjg_group_key_init(&groups->keys[k], &keys[k], columns);
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
	groups->memory.context = AllocSetContextCreate(context, "GpuAggregate keys", ALLOCSET_DEFAULT_SIZES);
	groups->scratch = AllocSetContextCreate(context, "GpuAggregate values", ALLOCSET_SMALL_SIZES);
	MemoryContextSwitchTo(old);
	return groups;
}

bool
hjg_groups_reset(HjgGroups *groups, size_t most_bytes)
{
	const bool	keep = groups->hashes != NULL && MemoryContextMemAllocated(groups->context, false) <= most_bytes &&
		(size_t) groups->ngroups * MOST_BUCKETS_OF_GROUP >= groups->nbuckets;

	MemoryContextReset(groups->memory.context);
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
	size_t		bytes = MemoryContextMemAllocated(groups->context, false) + MemoryContextMemAllocated(groups->memory.context, false);

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

/* Are all keys ordinals that are compared alone? */
static bool
are_plain(const HjgGroups *groups, const HjgVector *vectors)
{
	bool		plain = groups->nkeys <= MOST_PLAIN_KEYS;

	for (int k = 0; k < groups->nkeys; k++)
		plain &= groups->keys[k].form == HJG_GROUP_KEY_ORDINAL && !groups->keys[k].any_null && !vectors[groups->keys[k].column].has_nulls;
	return plain;
}

static void
load_key_columns(HjgGroups *groups, const HjgVector *vectors, int nrows)
{
	memset(groups->row_hashes, 0, nrows * sizeof(uint64));
	for (int k = 0; k < groups->nkeys; k++)
		hjg_group_key_load(&groups->keys[k], &vectors[groups->keys[k].column], nrows, groups->row_hashes);
}

/* ---------- the table ---------- */

static inline bool
same_keys(const HjgGroups *groups, int row, uint32 group)
{
	if (groups->hashes[group] != groups->row_hashes[row])
		return false;
	for (int k = 0; k < groups->nkeys; k++)
		if (!hjg_group_key_is_same(&groups->keys[k], row, group))
			return false;
	return true;
}

static uint32
add_group(HjgGroups *groups, int row)
{
	const uint32 group = groups->ngroups++;

	groups->hashes[group] = groups->row_hashes[row];
	for (int k = 0; k < groups->nkeys; k++)
		hjg_group_key_keep(&groups->keys[k], &groups->memory, row, group);
	return group;
}

static void
grow_groups(HjgGroups *groups)
{
	groups->max_groups *= 2;
	groups->hashes = repalloc_huge(groups->hashes, groups->max_groups * sizeof(uint64));
	for (int k = 0; k < groups->nkeys; k++)
		hjg_group_key_grow(&groups->keys[k], groups->max_groups);
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
		hjg_group_key_prefetch(&groups->keys[k], group);
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
	const HjgGroupKeyState  *first = &groups->keys[0];
	const HjgGroupKeyState  *second = &groups->keys[two ? 1 : 0];
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
	for (int k = 0; k < groups->nkeys; k++)
		nrows = hjg_group_key_rows_at_once(&groups->keys[k], &vectors[groups->keys[k].column], nrows);
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
