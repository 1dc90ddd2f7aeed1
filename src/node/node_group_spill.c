/*
 * node_group_spill.c
 *	  Groups of the node GpuAggregate that wait in temporary files, partitioned by their hash.
 *
 * Where the table of groups has grown to hash_mem all of them are written, with their totals so far, and the table begins anew: a group
 * may be written several times.  Those of a partition are put together when its turn comes; if they are too many again, they are divided by the next
 * bits of the hash.  Groups, not rows, are written: rows of one group that lie together in the table are one record.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "miscadmin.h"

#include "utils/memutils.h"

#include "node/hjg_aggregate.h"

/* Partitions that are written at a time: files have a buffer each, which must not take more than a part of hash_mem. */
#define MOST_BITS 5
#define LEAST_BITS 2
#define BUFFERS_SHARE 8

/* The low half of a hash; the high half is the table's. */
#define HASH_BITS 32

/* A partition that waits. */
typedef struct Waiting
{
	HjgSpill   *file;
	int			level;			/* of the hash bits by which it would be divided */
} Waiting;

struct HjgGroupSpill
{
	MemoryContext context;
	TupleDesc	desc;			/* the columns, and the totals as bytea */
	Datum	   *values;
	bool	   *isnull;
	TupleTableSlot *slot;
	int			bits;			/* by which a level divides */
	bool		writing;
	HjgSpill   *written[1 << MOST_BITS];
	int			level;			/* of what is written */
	List	   *waiting;		/* of Waiting */
	HjgSpill   *reading;
	uint64		bytes;			/* written, of files that are gone */
};

HjgGroupSpill *
hjg_group_spill_create(MemoryContext context, TupleDesc columns)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	HjgGroupSpill *spill = palloc0(sizeof(HjgGroupSpill));
	const int	n = columns->natts;

	spill->context = context;
	spill->bits = LEAST_BITS;
	while (spill->bits < MOST_BITS && ((size_t) HJG_SPILL_BUFFER_BYTES << (spill->bits + 1)) * BUFFERS_SHARE <= get_hash_memory_limit())
		spill->bits++;
	spill->desc = CreateTemplateTupleDesc(n + 1);
	for (int c = 0; c < n; c++)
		TupleDescCopyEntry(spill->desc, c + 1, columns, c + 1);
	TupleDescInitEntry(spill->desc, n + 1, "totals", BYTEAOID, -1, 0);
	spill->values = palloc((n + 1) * sizeof(Datum));
	spill->isnull = palloc((n + 1) * sizeof(bool));
	spill->slot = MakeSingleTupleTableSlot(spill->desc, &TTSOpsMinimalTuple);
	MemoryContextSwitchTo(old);
	return spill;
}

bool
hjg_group_spill_writing(const HjgGroupSpill *spill)
{
	return spill->writing;
}

void
hjg_group_spill_write(HjgGroupSpill *spill, uint64 hash, const Datum *kept, const bool *isnull, StringInfo totals)
{
	const int	n = spill->desc->natts - 1;
	HjgSpill  **file = &spill->written[hash >> (spill->level * spill->bits) & ((1 << spill->bits) - 1)];
	MemoryContext old = MemoryContextSwitchTo(spill->context);

	spill->writing = true;
	if (*file == NULL)
		*file = hjg_rows_spill_create(spill->desc, HJG_KEY_WIDTH_8);
	MemoryContextSwitchTo(old);
	memcpy(spill->values, kept, n * sizeof(Datum));
	memcpy(spill->isnull, isnull, n * sizeof(bool));
	SET_VARSIZE(totals->data, totals->len);
	spill->values[n] = PointerGetDatum(totals->data);
	spill->isnull[n] = false;
	hjg_rows_spill_write(*file, &hash, spill->values, spill->isnull);
}

static void
free_file(HjgGroupSpill *spill, HjgSpill *file)
{
	spill->bytes += hjg_rows_spill_bytes(file);
	hjg_rows_spill_free(file);
}

bool
hjg_group_spill_next_partition(HjgGroupSpill *spill)
{
	MemoryContext old = MemoryContextSwitchTo(spill->context);
	Waiting    *next;

	ExecClearTuple(spill->slot);
	if (spill->reading != NULL)
		free_file(spill, spill->reading);
	spill->reading = NULL;
	for (int p = 0; p < 1 << MOST_BITS; p++)
	{
		if (spill->written[p] == NULL)
			continue;
		next = palloc(sizeof(Waiting));
		*next = (Waiting) {.file = spill->written[p],.level = spill->level + 1};
		spill->waiting = lappend(spill->waiting, next);
		spill->written[p] = NULL;
	}
	spill->writing = false;
	if (spill->waiting != NIL)
	{
		/* the last one first, so that few wait */
		next = llast(spill->waiting);
		spill->waiting = list_delete_last(spill->waiting);
		spill->reading = next->file;
		spill->level = next->level;
		pfree(next);
		hjg_rows_spill_rewind(spill->reading);
	}
	MemoryContextSwitchTo(old);
	return spill->reading != NULL;
}

bool
hjg_group_spill_divisible(const HjgGroupSpill *spill)
{
	return (spill->level + 1) * spill->bits <= HASH_BITS;
}

bool
hjg_group_spill_read(HjgGroupSpill *spill, const Datum **kept, const bool **isnull, const char **totals)
{
	const void *key;

	if (!hjg_rows_spill_read(spill->reading, &key, spill->slot))
		return false;
	slot_getallattrs(spill->slot);
	*kept = spill->slot->tts_values;
	*isnull = spill->slot->tts_isnull;
	*totals = VARDATA_ANY(DatumGetPointer(spill->slot->tts_values[spill->desc->natts - 1]));
	return true;
}

void
hjg_group_spill_reset(HjgGroupSpill *spill)
{
	while (hjg_group_spill_next_partition(spill))
		;
	spill->level = 0;
}

uint64
hjg_group_spill_bytes(const HjgGroupSpill *spill)
{
	uint64		bytes = spill->bytes;
	ListCell   *lc;

	for (int p = 0; p < 1 << MOST_BITS; p++)
		bytes += spill->written[p] != NULL ? hjg_rows_spill_bytes(spill->written[p]) : 0;
	foreach(lc, spill->waiting)
		bytes += hjg_rows_spill_bytes(((const Waiting *) lfirst(lc))->file);
	return bytes + (spill->reading != NULL ? hjg_rows_spill_bytes(spill->reading) : 0);
}
