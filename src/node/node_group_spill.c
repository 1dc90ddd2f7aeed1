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
 * A record has up to a vector of groups, column by column (node_group_pack.c): the kept columns, then the totals.
 */
#include "postgres.h"

#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "node/hjg_aggregate.h"
#include "node/hjg_group_file.h"
#include "planner/hjg_planner.h"

/* Bits of a hash for partitions, the low half; the table uses the high half. */
#define HASH_BITS 32

/* Groups that are divided among partitions at a time, so that their keys and totals stay in the cache meanwhile. */
#define WINDOW_GROUPS 16384

/* Values of a record, unless one is larger. */
#define RECORD_VALUE_BYTES (64 * 1024)

typedef struct RecordHeader
{
	uint32		nbytes;			/* of the record, this header included; a multiple of 8 */
	uint16		ngroups;
	uint16		narrow;			/* totals are */
} RecordHeader;

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
	HjgAggregation *aggregation;
	int		   *vector_ix;		/* 0, 1, ... */

	/* groups that are written, also while some that were read are left */
	HjgVector  *written_vectors;	/* [nkept] */
	HjgPack		pack;
	uint32	   *ends;			/* [partitions], in order */
	uint32	   *order;			/* [WINDOW_GROUPS]: groups by partition */

	/* groups that were read */
	HjgVector  *vectors;		/* [nkept] */
	Reading		reading;
	bool		narrow;			/* their totals are */
	int			nrows;
	int			next;			/* first group behind those that were returned */
};

/* Make vectors for the kept columns. */
static HjgVector *
make_kept_vectors(const HjgGroupSpill *spill, TupleDesc columns)
{
	HjgVector  *vectors = palloc0(Max(spill->nkept, 1) * sizeof(HjgVector));

	for (int i = 0; i < spill->nkept; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(columns, spill->kept[i]);

		vectors[i].column.attlen = attribute->attlen;
		vectors[i].column.attbyval = attribute->attbyval;
		vectors[i].values = palloc(HJG_VECTOR_ROWS * sizeof(Datum));
		vectors[i].isnull = palloc(HJG_VECTOR_ROWS * sizeof(bool));
	}
	return vectors;
}

HjgGroupSpill *
hjg_group_spill_create(MemoryContext context, TupleDesc columns, int nkept, const int *kept, HjgAggregation *aggregation,
					   HjgGroupShare *share)
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
	spill->aggregation = aggregation;
	spill->vectors = make_kept_vectors(spill, columns);
	spill->written_vectors = make_kept_vectors(spill, columns);
	spill->vector_ix = palloc(Max(nkept, 1) * sizeof(int));
	for (int i = 0; i < nkept; i++)
		spill->vector_ix[i] = i;
	spill->share = share;
	if (share != NULL)
	{
		spill->first_bit = hjg_group_share_bits(share);
		spill->dealt = hjg_group_share_create_file(share);
	}
	spill->ends = palloc(sizeof(uint32) << Max(spill->first_bit, spill->bits));
	spill->order = palloc(WINDOW_GROUPS * sizeof(uint32));
	MemoryContextSwitchTo(old);
	return spill;
}

/* ---------- writing ---------- */

bool
hjg_group_spill_writing(const HjgGroupSpill *spill)
{
	return spill->written != NULL;
}

/* The partitions that are being written: 1 << bits of them, chosen by the hash's bits from `shift` on. */
typedef struct Division
{
	HjgGroupFile *file;
	int			shift;
	int			bits;
} Division;

static Division
find_division(HjgGroupSpill *spill)
{
	if (spill->dealt != NULL)
		return (Division) {spill->dealt, 0, spill->first_bit};
	if (spill->written == NULL)
		spill->written = hjg_group_file_create(1 << spill->bits, NULL, NULL);
	return (Division) {spill->written, spill->first_bit + spill->level * spill->bits, spill->bits};
}

static inline int
partition_of(const Division *division, uint64 hash)
{
	return (int) (hash >> division->shift & ((1 << division->bits) - 1));
}

/* Write the first of n groups as a record; returns how many. */
static int
write_record(HjgGroupSpill *spill, const HjgGroups *groups, const uint32 *numbers, int n, const Division *division, int partition)
{
	HjgPack    *pack = &spill->pack;
	RecordHeader header = {0};

	n = Min(n, HJG_VECTOR_ROWS);
	hjg_groups_gather_vectors(groups, numbers, n, spill->written_vectors);
	if (spill->nkept > 0)
		n = hjg_vector_rows_within(spill->written_vectors, spill->nkept, spill->vector_ix, 0, n, RECORD_VALUE_BYTES);
	pack->nbytes = 0;
	(void) hjg_group_pack_add(pack, sizeof(header));
	for (int i = 0; i < spill->nkept; i++)
		hjg_group_pack_vector(pack, &spill->written_vectors[i], n);
	header.ngroups = (uint16) n;
	header.narrow = hjg_aggregation_write(spill->aggregation, numbers, n, pack);
	if (pack->nbytes > PG_UINT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("groups of %zu bytes are too large for a grouping temporary file", pack->nbytes)));
	header.nbytes = (uint32) pack->nbytes;
	memcpy(pack->data, &header, sizeof(header));
	hjg_group_file_add(division->file, partition, pack->data, pack->nbytes);
	return n;
}

/* Put the numbers of n groups, from `first` on, in the order of their partitions; ends[] gets where each partition ends. */
static void
order_groups(HjgGroupSpill *spill, const uint64 *hashes, uint32 first, uint32 n, const Division *division)
{
	uint32		sum = 0;

	memset(spill->ends, 0, sizeof(uint32) << division->bits);
	for (uint32 i = 0; i < n; i++)
		spill->ends[partition_of(division, hashes[first + i])]++;
	for (int p = 0; p < 1 << division->bits; p++)
	{
		const uint32 count = spill->ends[p];

		spill->ends[p] = sum;
		sum += count;
	}
	for (uint32 i = 0; i < n; i++)
		spill->order[spill->ends[partition_of(division, hashes[first + i])]++] = first + i;
}

static void
deal_window(HjgGroupSpill *spill, const HjgGroups *groups, uint32 first, uint32 n, const Division *division)
{
	uint32		done = 0;

	order_groups(spill, hjg_groups_hashes(groups), first, n, division);
	for (int p = 0; p < 1 << division->bits; p++)
		while (done < spill->ends[p])
		{
			CHECK_FOR_INTERRUPTS();
			done += write_record(spill, groups, spill->order + done, (int) (spill->ends[p] - done), division, p);
		}
}

void
hjg_group_spill_write(HjgGroupSpill *spill, const HjgGroups *groups)
{
	MemoryContext old = MemoryContextSwitchTo(spill->context);
	const uint32 ngroups = hjg_groups_count(groups);

	if (ngroups > 0)
	{
		const Division division = find_division(spill);

		for (uint32 first = 0; first < ngroups; first += WINDOW_GROUPS)
			deal_window(spill, groups, first, Min(ngroups - first, WINDOW_GROUPS), &division);
	}
	MemoryContextSwitchTo(old);
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
	spill->reading.block.records = (HjgUnpack) {NULL, NULL};
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

/* Look at the next record of the block. */
static RecordHeader
peek_record(const HjgUnpack *records)
{
	RecordHeader header = {0};
	const size_t left = records->end - records->next;

	if (left >= sizeof(header))
		memcpy(&header, records->next, sizeof(header));
	if (header.nbytes < sizeof(header) || header.nbytes > left || header.nbytes % MAXIMUM_ALIGNOF != 0 ||
		header.ngroups == 0 || header.ngroups > HJG_VECTOR_ROWS)
		hjg_group_unpack_fail();
	return header;
}

/* Read a record behind the groups that were read. */
static void
load_record(HjgGroupSpill *spill, const RecordHeader *header)
{
	HjgUnpack  *records = &spill->reading.block.records;
	HjgUnpack	record = {records->next, records->next + header->nbytes};

	(void) hjg_group_unpack(&record, sizeof(*header));
	for (int i = 0; i < spill->nkept; i++)
		hjg_group_unpack_vector(&record, header->ngroups, &spill->vectors[i], spill->nrows);
	spill->narrow = header->narrow != 0;
	hjg_aggregation_read(spill->aggregation, &record, spill->narrow, spill->nrows, header->ngroups);
	spill->nrows += header->ngroups;
	records->next += header->nbytes;
}

/* Read the next records of the block, or of the next block, at most a vector of groups. */
static void
read_records(HjgGroupSpill *spill)
{
	HjgGroupBlock *block = &spill->reading.block;
	MemoryContext old = MemoryContextSwitchTo(spill->context);

	spill->nrows = spill->next = 0;
	if (block->records.next == block->records.end && (spill->reading.at != 0 || next_member(spill)))
		hjg_group_file_read(spill->reading.file, &spill->reading.at, block);
	while (block->records.next < block->records.end)
	{
		const RecordHeader header = peek_record(&block->records);

		if (spill->nrows > 0 && (spill->nrows + header.ngroups > HJG_VECTOR_ROWS || (header.narrow != 0) != spill->narrow))
			break;
		load_record(spill, &header);
	}
	MemoryContextSwitchTo(old);
}

int
hjg_group_spill_read(HjgGroupSpill *spill, HjgVector *vectors, int *first)
{
	if (spill->next == spill->nrows)
		read_records(spill);
	*first = spill->next;
	for (int i = 0; i < spill->nkept; i++)
		vectors[spill->kept[i]] = hjg_vector_from(&spill->vectors[i], *first);
	spill->next = spill->nrows;
	return spill->nrows - *first;
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
