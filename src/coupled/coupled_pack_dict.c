/*
 * coupled_pack_dict.c
 *	  The dictionary of a column while it is packed: an open hash table of its values.
 */
#include <stdlib.h>
#include <string.h>

#include "coupled/hjg_pack_internal.h"
#include "layout/hjg_hash.h"

/* Twice the values: half of the table stays free. */
#define NSLOTS (2 * HJG_PACK_MAX_DICT)

bool
hjg_pack_dict_create(const HjgEnv *env, HjgPackDict *dict)
{
	hjg_u8	   *memory;

	*dict = (HjgPackDict) {.bytes = HJG_PACK_MAX_DICT * sizeof(hjg_u64) + NSLOTS * sizeof(hjg_u32)};
	memory = env->alloc(env->arg, dict->bytes);
	if (memory == NULL)
		return false;
	dict->values = (hjg_u64 *) memory;
	dict->slots = (hjg_u32 *) (dict->values + HJG_PACK_MAX_DICT);
	memset(dict->slots, 0, NSLOTS * sizeof(hjg_u32));
	return true;
}

void
hjg_pack_dict_destroy(const HjgEnv *env, HjgPackDict *dict)
{
	if (dict->values != NULL)
		env->free(env->arg, dict->values, dict->bytes);
	*dict = (HjgPackDict) {.count = 0};
}

/* Find the slot that has the value, or the free one where it belongs. */
static hjg_u32
find_slot(const HjgPackDict *dict, hjg_u64 value)
{
	hjg_u32		slot = (hjg_u32) (hjg_mix64(hjg_hash_seed, value) >> 32) % NSLOTS;

	while (dict->slots[slot] != 0 && dict->values[dict->slots[slot] - 1] != value)
		slot = (slot + 1) % NSLOTS;
	return slot;
}

bool
hjg_pack_dict_add(HjgPackDict *dict, hjg_u64 value)
{
	const hjg_u32 slot = find_slot(dict, value);

	if (dict->slots[slot] != 0)
		return true;
	if (dict->count == HJG_PACK_MAX_DICT)
		return false;
	dict->values[dict->count++] = value;
	dict->slots[slot] = dict->count;
	return true;
}

static int
compare_values(const void *a, const void *b)
{
	const hjg_u64 x = *(const hjg_u64 *) a;
	const hjg_u64 y = *(const hjg_u64 *) b;

	return (x > y) - (x < y);
}

/* Sort the values, which renumbers them, and refill the hash table. */
void
hjg_pack_dict_sort(HjgPackDict *dict)
{
	qsort(dict->values, dict->count, sizeof(hjg_u64), compare_values);
	memset(dict->slots, 0, NSLOTS * sizeof(hjg_u32));
	for (hjg_u32 i = 0; i < dict->count; i++)
		dict->slots[find_slot(dict, dict->values[i])] = i + 1;
}

hjg_u32
hjg_pack_dict_place(const HjgPackDict *dict, hjg_u64 value)
{
	return dict->slots[find_slot(dict, value)] - 1;
}
