/*
 * hjg_group_keys.h
 *	  The keys of groups in a form that is hashed and compared without a call (node_group_keys.c), for node_groups.c.
 *	  Internal to the room "node".
 */
#ifndef HJG_GROUP_KEYS_H
#define HJG_GROUP_KEYS_H

#include "postgres.h"

#include "fmgr.h"

#include "node/hjg_aggregate.h"
#include "rows/hjg_rows.h"

typedef enum HjgGroupKeyForm
{
	HJG_GROUP_KEY_ORDINAL,
	HJG_GROUP_KEY_BYTES,
	HJG_GROUP_KEY_DATUM			/* any hashable type, by core's functions */
} HjgGroupKeyForm;

/* Values of one key, of rows or of groups. */
typedef struct HjgGroupKeyValues
{
	int64	   *ordinals;		/* NULL for forms other than the key's */
	HjgBytes   *bytes;
	Datum	   *datums;
	bool	   *isnull;
} HjgGroupKeyValues;

typedef struct HjgGroupKeyState
{
	HjgGroupKeyForm form;
	int			column;
	HjgColumn	type;
	HjgOrdinal	ordinal;
	bool		padded;			/* spaces at the end of strings do not count */
	const HjgSlice *slice;		/* the part of strings that counts; NULL: all of it */
	Oid			collation;
	HjgKeyCodec *codec;			/* for HJG_GROUP_KEY_DATUM, */
	FmgrInfo	equal;			/* and its equality */
	HjgGroupKeyValues rows;		/* [HJG_VECTOR_ROWS], of the current vector */
	HjgGroupKeyValues groups;	/* [max_groups] */
	bool		any_null;		/* a group's key is NULL */
} HjgGroupKeyState;

/* Memory for what keys of groups point to; empty when zeroed but for the context. */
typedef struct HjgGroupKeyMemory
{
	MemoryContext context;
	char	   *block;			/* block for strings */
	size_t		left;
} HjgGroupKeyMemory;

extern void hjg_group_key_init(HjgGroupKeyState *key, const HjgGroupKey *from, const HjgColumn *columns);
/* Make arrays for a vector of rows and for so many groups; returns the bytes of a group. */
extern size_t hjg_group_key_make(HjgGroupKeyState *key, MemoryContext context, size_t ngroups);
/* Enlarge the groups' arrays. */
extern void hjg_group_key_grow(HjgGroupKeyState *key, size_t ngroups);
/* Choose the number of rows that are looked up together, so that detoasted values of the key take little memory at a time. */
extern int	hjg_group_key_rows_at_once(const HjgGroupKeyState *key, const HjgVector *vector, int nrows);
/* Load the key's column of rows, in the current memory context, and add it to the rows' hashes. */
extern void hjg_group_key_load(HjgGroupKeyState *key, const HjgVector *vector, int nrows, uint64 *hashes);
/* Make the key of a row that of a new group. */
extern void hjg_group_key_keep(HjgGroupKeyState *key, HjgGroupKeyMemory *memory, int row, uint32 group);

static inline bool
hjg_group_key_is_same(HjgGroupKeyState *key, int row, uint32 group)
{
	if (key->rows.isnull[row] || key->groups.isnull[group])
		return key->rows.isnull[row] && key->groups.isnull[group];
	switch (key->form)
	{
		case HJG_GROUP_KEY_ORDINAL:
			return key->rows.ordinals[row] == key->groups.ordinals[group];
		case HJG_GROUP_KEY_BYTES:
			return key->rows.bytes[row].nbytes == key->groups.bytes[group].nbytes &&
				memcmp(key->rows.bytes[row].data, key->groups.bytes[group].data, key->rows.bytes[row].nbytes) == 0;
		default:
			return DatumGetBool(FunctionCall2Coll(&key->equal, key->collation, key->groups.datums[group], key->rows.datums[row]));
	}
}

/* Fetch what a comparison with a group touches. */
static inline void
hjg_group_key_prefetch(const HjgGroupKeyState *key, uint32 group)
{
	const HjgGroupKeyValues *values = &key->groups;

	__builtin_prefetch(&values->isnull[group]);
	if (values->ordinals != NULL)
		__builtin_prefetch(&values->ordinals[group]);
	else if (values->bytes != NULL)
		__builtin_prefetch(&values->bytes[group]);
	else
		__builtin_prefetch(&values->datums[group]);
}

#endif							/* HJG_GROUP_KEYS_H */
