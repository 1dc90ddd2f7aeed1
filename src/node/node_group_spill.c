/*
 * node_group_spill.c
 *	  Groups of the node GpuAggregate in temporary files, partitioned by their hash.
 *
 * When the table of groups has grown to hash_mem, all groups are written with their totals so far, and the table is emptied;
 * so a group may be written several times. The groups of a partition are merged when the partition is read; if they are too
 * many again, they are divided by the next bits of the hash. Rows are not written: those that were added to a group in the
 * table are one record.
 *
 * In a shared grouping all groups are first written to the share's partitions (node_group_share.c). A claimed partition is
 * then read and divided as if it were private.
 *
 * A record is: its length, a NULL bit for each column, a word for each column, the totals, and the values by reference, whose
 * offset in the record is in the column's word. All parts are aligned, so that a record is used where it is read.
 */
#include "postgres.h"

#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "node/hjg_aggregate.h"
#include "node/hjg_group_file.h"
#include "planner/hjg_planner.h"

/* Bits of a hash for partitions, the low half; the table uses the high half. */
#define HASH_BITS 32

#define NULL_BITS 32

/* A private partition that waits to be read. */
typedef struct Waiting
{
	HjgGroupFile *file;
	bool		last;			/* the last one of its file to be read */
	int64		end;			/* where reading begins */
	int			level;			/* level of hash bits that would divide it */
} Waiting;

/* The partition that is being read. */
typedef struct Reading
{
	BufFile    *file;			/* NULL: none */
	HjgGroupFile *own;			/* the file, if this is its last partition; or NULL */
	int			partition;		/* of the share */
	int			member;			/* next participant whose file is read; -1: the partition is private */
	int64		at;				/* next block, or 0 */
	HjgGroupBlock block;
} Reading;

struct HjgGroupSpill
{
	MemoryContext context;
	HjgGroupShare *share;		/* or NULL */
	HjgGroupFile *dealt;		/* file of this process's groups for the share; NULL: complete */
	int			first_bit;		/* lower bits are the share's */
	int			bits;			/* hash bits for each level */
	HjgGroupFile *written;		/* NULL: nothing is being written */
	int			level;			/* level of the groups being written */
	List	   *waiting;		/* of Waiting */
	uint64		nread;			/* partitions read */
	uint64		bytes;			/* written to files that were freed */

	int			nkept;
	const int  *kept;
	size_t		words_at;		/* in a record */
	size_t		totals_at;

	/* groups that were read */
	Reading		reading;
	HjgVector  *vectors;		/* [nkept] */
	const char *totals[HJG_VECTOR_ROWS];
	int			nrows;
	int			next;			/* first group behind those that were returned */
};

HjgGroupSpill *
hjg_group_spill_create(MemoryContext context, TupleDesc columns, int nkept, const int *kept, HjgGroupShare *share)
{
	MemoryContext own = AllocSetContextCreate(context, "GpuAggregate files", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(own);
	HjgGroupSpill *spill = palloc0(sizeof(HjgGroupSpill));

	spill->context = own;
	spill->bits = HJG_MODEL_GROUP_LEAST_BITS;
	while (spill->bits < HJG_MODEL_GROUP_MOST_BITS && (size_t) HJG_MODEL_GROUP_PARTITION_BYTES << (spill->bits + 1) <= get_hash_memory_limit())
		spill->bits++;
	spill->nkept = nkept;
	spill->kept = kept;
	spill->words_at = MAXALIGN(sizeof(uint32) * (1 + (nkept + NULL_BITS - 1) / NULL_BITS));
	spill->totals_at = spill->words_at + nkept * sizeof(Datum);
	spill->vectors = palloc0(Max(nkept, 1) * sizeof(HjgVector));
	for (int i = 0; i < nkept; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(columns, kept[i]);

		spill->vectors[i].column.attlen = attribute->attlen;
		spill->vectors[i].column.attbyval = attribute->attbyval;
		spill->vectors[i].values = palloc(HJG_VECTOR_ROWS * sizeof(Datum));
		spill->vectors[i].isnull = palloc(HJG_VECTOR_ROWS * sizeof(bool));
	}
	spill->share = share;
	if (share != NULL)
	{
		spill->first_bit = hjg_group_share_bits(share);
		spill->dealt = hjg_group_share_create_file(share);
	}
	MemoryContextSwitchTo(old);
	return spill;
}

/* ---------- writing ---------- */

bool
hjg_group_spill_writing(const HjgGroupSpill *spill)
{
	return spill->written != NULL;
}

static size_t
value_bytes(const HjgVector *vector, Datum value, bool isnull)
{
	return isnull || vector->column.attbyval ? 0 : MAXALIGN(datumGetSize(value, false, vector->column.attlen));
}

/* Add a record to the partition of this hash; returns its memory. */
static char *
add_record(HjgGroupSpill *spill, uint64 hash, size_t nbytes)
{
	if (spill->dealt != NULL)
		return hjg_group_file_add(spill->dealt, (int) (hash & ((1 << spill->first_bit) - 1)), nbytes);
	if (spill->written == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(spill->context);

		spill->written = hjg_group_file_create(1 << spill->bits, NULL, NULL);
		MemoryContextSwitchTo(old);
	}
	hash >>= spill->first_bit + spill->level * spill->bits;
	return hjg_group_file_add(spill->written, (int) (hash & ((1 << spill->bits) - 1)), nbytes);
}

void
hjg_group_spill_write(HjgGroupSpill *spill, uint64 hash, const Datum *kept, const bool *isnull, const StringInfoData *totals)
{
	size_t		nbytes = spill->totals_at + MAXALIGN(totals->len);
	size_t		at = nbytes;
	char	   *record;
	uint32	   *nulls;
	Datum	   *words;

	for (int i = 0; i < spill->nkept; i++)
		nbytes += value_bytes(&spill->vectors[i], kept[i], isnull[i]);
	if (nbytes > PG_UINT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("group of %zu bytes is too large for a grouping temporary file", nbytes)));
	record = add_record(spill, hash, nbytes);
	*(uint32 *) record = (uint32) nbytes;
	nulls = (uint32 *) record + 1;
	memset(nulls, 0, spill->words_at - sizeof(uint32));
	words = (Datum *) (record + spill->words_at);
	for (int i = 0; i < spill->nkept; i++)
	{
		const HjgVector *vector = &spill->vectors[i];

		words[i] = isnull[i] ? (Datum) 0 : kept[i];
		if (isnull[i])
			nulls[i / NULL_BITS] |= 1u << i % NULL_BITS;
		else if (!vector->column.attbyval)
		{
			memcpy(record + at, DatumGetPointer(kept[i]), datumGetSize(kept[i], false, vector->column.attlen));
			words[i] = (Datum) at;
			at += value_bytes(vector, kept[i], false);
		}
	}
	memcpy(record + spill->totals_at, totals->data, totals->len);
}

static void
free_file(HjgGroupSpill *spill, HjgGroupFile *file)
{
	spill->bytes += hjg_group_file_bytes(file);
	hjg_group_file_free(file);
}

void
hjg_group_spill_end_dealing(HjgGroupSpill *spill)
{
	if (spill->dealt == NULL)
		return;
	hjg_group_file_end_write(spill->dealt, hjg_group_share_ends(spill->share));
	free_file(spill, spill->dealt);
	spill->dealt = NULL;
}

/* ---------- partitions ---------- */

/* Queue the partitions that were written. */
static void
queue_written(HjgGroupSpill *spill)
{
	int64		ends[1 << HJG_MODEL_GROUP_MOST_BITS];
	bool		last = true;

	if (spill->written == NULL)
		return;
	hjg_group_file_end_write(spill->written, ends);
	for (int p = 0; p < 1 << spill->bits; p++)
	{
		Waiting    *next;

		if (ends[p] == 0)
			continue;
		next = palloc(sizeof(Waiting));
		*next = (Waiting) {.file = spill->written,.last = last,.end = ends[p],.level = spill->level + 1};
		spill->waiting = lappend(spill->waiting, next);
		last = false;
	}
	spill->written = NULL;
}

static void
end_reading(HjgGroupSpill *spill)
{
	if (spill->reading.own != NULL)
		free_file(spill, spill->reading.own);
	spill->reading.own = NULL;
	spill->reading.file = NULL;
	spill->reading.block.next = spill->reading.block.end = NULL;
	spill->nrows = spill->next = 0;
}

/* Start reading the last partition in the queue, so that the queue stays short. */
static void
take_waiting(HjgGroupSpill *spill)
{
	Waiting    *next = llast(spill->waiting);

	spill->waiting = list_delete_last(spill->waiting);
	spill->reading.file = hjg_group_file_buffile(next->file);
	spill->reading.own = next->last ? next->file : NULL;
	spill->reading.member = -1;
	spill->reading.at = next->end;
	spill->level = next->level;
	pfree(next);
}

/* Go to the file of the next participant with groups of the current partition; false at the end. */
static bool
next_member(HjgGroupSpill *spill)
{
	Reading    *reading = &spill->reading;

	if (reading->member < 0)
		return false;
	reading->file = hjg_group_share_file(spill->share, reading->partition, &reading->member, &reading->at);
	return reading->file != NULL;
}

/* Claim a partition of the share that has groups; false if none is left. */
static bool
claim_partition(HjgGroupSpill *spill)
{
	while (hjg_group_share_claim(spill->share, &spill->reading.partition))
	{
		spill->reading.member = 0;
		if (next_member(spill))
			return true;
	}
	return false;
}

bool
hjg_group_spill_next_partition(HjgGroupSpill *spill)
{
	MemoryContext old = MemoryContextSwitchTo(spill->context);
	bool		found = true;

	Assert(spill->dealt == NULL);
	end_reading(spill);
	queue_written(spill);
	if (spill->waiting != NIL)
		take_waiting(spill);
	else
	{
		spill->level = 0;
		found = spill->share != NULL && claim_partition(spill);
	}
	spill->nread += found;
	MemoryContextSwitchTo(old);
	return found;
}

bool
hjg_group_spill_divisible(const HjgGroupSpill *spill)
{
	return spill->first_bit + (spill->level + 1) * spill->bits <= HASH_BITS;
}

/* ---------- reading ---------- */

static void
load_record(HjgGroupSpill *spill, int row, const char *record)
{
	const uint32 *nulls = (const uint32 *) record + 1;
	const Datum *words = (const Datum *) (record + spill->words_at);

	for (int i = 0; i < spill->nkept; i++)
	{
		HjgVector  *vector = &spill->vectors[i];

		hjg_vector_put(vector, row, vector->column.attbyval ? words[i] : PointerGetDatum(record + words[i]),
					   (nulls[i / NULL_BITS] >> i % NULL_BITS & 1) != 0);
	}
	spill->totals[row] = record + spill->totals_at;
}

/* Read the next records of the block, or of the next block, at most a vector of them. */
static void
read_records(HjgGroupSpill *spill)
{
	HjgGroupBlock *block = &spill->reading.block;

	spill->nrows = spill->next = 0;
	if (block->next == block->end && (spill->reading.at != 0 || next_member(spill)))
	{
		MemoryContext old = MemoryContextSwitchTo(spill->context);

		hjg_group_file_read(spill->reading.file, &spill->reading.at, block);
		MemoryContextSwitchTo(old);
	}
	while (spill->nrows < HJG_VECTOR_ROWS && block->next < block->end)
	{
		const uint32 nbytes = *(const uint32 *) block->next;

		if (nbytes < spill->totals_at || nbytes > block->end - block->next)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("grouping temporary file has a group of %u bytes", nbytes)));
		load_record(spill, spill->nrows++, block->next);
		block->next += nbytes;
	}
}

int
hjg_group_spill_read(HjgGroupSpill *spill, HjgVector *vectors, const char *const **totals)
{
	int			first;

	if (spill->next == spill->nrows)
		read_records(spill);
	first = spill->next;
	for (int i = 0; i < spill->nkept; i++)
		vectors[spill->kept[i]] = hjg_vector_from(&spill->vectors[i], first);
	*totals = &spill->totals[first];
	spill->next = spill->nrows;
	return spill->nrows - first;
}

void
hjg_group_spill_return(HjgGroupSpill *spill, int n)
{
	spill->next -= n;
}

/* ---------- the end ---------- */

static uint64
written_bytes(const HjgGroupSpill *spill)
{
	uint64		bytes = spill->bytes;
	ListCell   *lc;

	if (spill->dealt != NULL)
		bytes += hjg_group_file_bytes(spill->dealt);
	if (spill->written != NULL)
		bytes += hjg_group_file_bytes(spill->written);
	if (spill->reading.own != NULL)
		bytes += hjg_group_file_bytes(spill->reading.own);
	foreach(lc, spill->waiting)
		if (((const Waiting *) lfirst(lc))->last)
			bytes += hjg_group_file_bytes(((const Waiting *) lfirst(lc))->file);
	return bytes;
}

void
hjg_group_spill_report(const HjgGroupSpill *spill, HjgGroupReport *report)
{
	report->npartitions += spill->nread;
	report->spilled_bytes += written_bytes(spill);
}

void
hjg_group_spill_free(HjgGroupSpill *spill)
{
	ListCell   *lc;

	end_reading(spill);
	if (spill->dealt != NULL)
		hjg_group_file_free(spill->dealt);
	if (spill->written != NULL)
		hjg_group_file_free(spill->written);
	foreach(lc, spill->waiting)
		if (((const Waiting *) lfirst(lc))->last)
			hjg_group_file_free(((const Waiting *) lfirst(lc))->file);
	MemoryContextDelete(spill->context);
}
