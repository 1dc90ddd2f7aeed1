/*
 * rows_spill.c
 *	  Spill files: rows of a partition in a temporary file.
 *
 * A record is a word, the encoded key (so that it is computed once), and a minimal tuple of the payload columns without its
 * first bytes, as core's tuplestores write it. The word is the tuple's length, with a mark if there is no key. The files are
 * core's BufFiles, subject to temp_tablespaces, temp_file_limit, log_temp_files and pg_stat_database.
 *
 * A shared file consists of a file for each participant that writes. Because one participant alone reads its rows, it needs
 * neither the chunks by which core's SharedTuplestore distributes rows, nor the memory to fill them.
 */
#include "postgres.h"

#include <fcntl.h>

#include "access/htup_details.h"
#include "executor/executor.h"
#include "storage/buffile.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "rows/hjg_rows.h"

/* The part of a shared file in shared memory. */
typedef struct SharedPart
{
	pg_atomic_uint64 nrows;		/* of participants that have ended their writing */
	int			nparticipants;
	char		name[NAMEDATALEN];
	bool		has_file[FLEXIBLE_ARRAY_MEMBER];	/* by participant */
} SharedPart;

/* Mark in the first word of a record. */
#define NO_KEY 0x80000000u

/* Offset of the tuple in a record's memory: aligned, with space for the parts before it. */
#define TUPLE_OFF MAXALIGN(sizeof(uint32) + HJG_MAX_KEY_BYTES)

/* Bytes at the beginning of a minimal tuple that are not written. */
#define TUPLE_SKIPPED offsetof(MinimalTupleData, t_infomask2)

/* Records up to this size are assembled on the stack. */
#define SMALL_RECORD_BYTES 4096

struct HjgSpill
{
	/* a shared file */
	SharedPart *part;			/* NULL: not shared */
	SharedFileSet *files;
	int			participant;
	bool		writing;
	int			next_part;		/* participant whose file is read next */

	/* any file; nrows and bytes count rows written here */
	BufFile    *file;			/* NULL until the first row, and between the files of participants */
	TupleDesc	desc;
	int			key_width;
	uint64		nrows;
	uint64		bytes;
	uint64		nread;			/* rows since the last rewind */
	char		key[HJG_MAX_KEY_BYTES];
	char	   *record;			/* memory of the last row that was read */
	size_t		record_bytes;	/* its allocated size */
};

HjgSpill *
hjg_rows_spill_create(TupleDesc desc, int key_width)
{
	HjgSpill   *spill = palloc0(sizeof(HjgSpill));

	spill->desc = desc;
	spill->key_width = key_width;
	return spill;
}

static void
part_file_name(const HjgSpill *spill, int participant, char name[MAXPGPATH])
{
	snprintf(name, MAXPGPATH, "%s.%d", spill->part->name, participant);
}

static void
create_file(HjgSpill *spill)
{
	MemoryContext old = MemoryContextSwitchTo(GetMemoryChunkContext(spill));

	if (spill->part != NULL)
	{
		char		name[MAXPGPATH];

		Assert(spill->writing);
		part_file_name(spill, spill->participant, name);
		spill->file = BufFileCreateFileSet(&spill->files->fs, name);
		spill->part->has_file[spill->participant] = true;
	}
	else
		spill->file = BufFileCreateTemp(false);
	MemoryContextSwitchTo(old);
}

void
hjg_rows_spill_write(HjgSpill *spill, const void *key, const Datum *values, const bool *isnull)
{
	union
	{
		char		bytes[SMALL_RECORD_BYTES];
		int64		aligned;
	}			small;
	const int	ncolumns = spill->desc->natts;
	const size_t key_bytes = key != NULL ? spill->key_width : 0;
	bool		has_nulls = false;
	size_t		head_bytes;
	size_t		data_bytes;
	size_t		tuple_bytes;
	size_t		written;
	char	   *record = small.bytes;
	MinimalTuple tuple;
	uint32		word;

	Assert(spill->part == NULL || key != NULL);
	if (spill->file == NULL)
		create_file(spill);
	for (int c = 0; c < ncolumns; c++)
		has_nulls |= isnull[c];
	head_bytes = MAXALIGN(SizeofMinimalTupleHeader + (has_nulls ? BITMAPLEN(ncolumns) : 0));
	data_bytes = heap_compute_data_size(spill->desc, unconstify(Datum *, values), unconstify(bool *, isnull));
	tuple_bytes = head_bytes + data_bytes;
	if (tuple_bytes > MaxAllocSize)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row of %zu bytes is too large for a hash join temporary file", tuple_bytes)));
	if (TUPLE_OFF + tuple_bytes > sizeof(small))
		record = MemoryContextAllocHuge(CurrentMemoryContext, TUPLE_OFF + tuple_bytes);

	/* alignment padding must be zero */
	tuple = (MinimalTuple) (record + TUPLE_OFF);
	memset(tuple, 0, tuple_bytes);
	HeapTupleHeaderSetNatts(tuple, ncolumns);
	tuple->t_hoff = (uint8) (head_bytes + MINIMAL_TUPLE_OFFSET);
	heap_fill_tuple(spill->desc, unconstify(Datum *, values), unconstify(bool *, isnull), (char *) tuple + head_bytes,
					data_bytes, &tuple->t_infomask, has_nulls ? tuple->t_bits : NULL);

	written = sizeof(word) + key_bytes + tuple_bytes - TUPLE_SKIPPED;
	word = (uint32) tuple_bytes | (key != NULL ? 0 : NO_KEY);
	record += TUPLE_OFF + TUPLE_SKIPPED - key_bytes - sizeof(word);
	memcpy(record, &word, sizeof(word));
	if (key != NULL)
		memcpy(record + sizeof(word), key, key_bytes);
	BufFileWrite(spill->file, record, written);
	spill->nrows++;
	spill->bytes += written;
	if (TUPLE_OFF + tuple_bytes > sizeof(small))
		pfree((char *) tuple - TUPLE_OFF);
}

void
hjg_rows_spill_rewind(HjgSpill *spill)
{
	spill->nread = 0;
	if (spill->part != NULL)
	{
		Assert(!spill->writing);
		if (spill->file != NULL)
			BufFileClose(spill->file);
		spill->file = NULL;
		spill->next_part = 0;
		return;
	}
	if (spill->file != NULL && BufFileSeek(spill->file, 0, 0L, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not rewind hash join temporary file")));
}

/* Read bytes; fewer than requested only at the end of the file, or of a participant's part of a shared file. */
static size_t
read_bytes(HjgSpill *spill, void *ptr, size_t bytes)
{
	return spill->file != NULL ? BufFileRead(spill->file, ptr, bytes) : 0;
}

static void
check_bytes(size_t got, size_t bytes)
{
	if (got != bytes)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read from hash join temporary file: read only %zu of %zu bytes",
						got, bytes)));
}

/* Close a participant's file after reading and open the next one; false at the end. */
static bool
open_next_part(HjgSpill *spill)
{
	SharedPart *part = spill->part;

	if (part == NULL)
		return false;
	if (spill->file != NULL)
		BufFileClose(spill->file);
	spill->file = NULL;
	while (spill->next_part < part->nparticipants && !part->has_file[spill->next_part])
		spill->next_part++;
	if (spill->next_part < part->nparticipants)
	{
		char		name[MAXPGPATH];
		MemoryContext old = MemoryContextSwitchTo(GetMemoryChunkContext(spill));

		part_file_name(spill, spill->next_part++, name);
		spill->file = BufFileOpenFileSet(&spill->files->fs, name, O_RDONLY, false);
		MemoryContextSwitchTo(old);
	}
	return spill->file != NULL;
}

bool
hjg_rows_spill_read(HjgSpill *spill, const void **key, TupleTableSlot *slot)
{
	MinimalTuple tuple;
	uint32		word;
	uint32		tuple_bytes;
	size_t		key_bytes;
	size_t		got;

	ExecClearTuple(slot);
	if (hjg_rows_spill_at_end(spill))
		return false;
	do
		got = read_bytes(spill, &word, sizeof(word));
	while (got == 0 && open_next_part(spill));
	check_bytes(got, sizeof(word));
	tuple_bytes = word & ~NO_KEY;
	key_bytes = word & NO_KEY ? 0 : spill->key_width;
	if (tuple_bytes < SizeofMinimalTupleHeader)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("hash join temporary file has a row of %u bytes", tuple_bytes)));

	if (spill->record_bytes < TUPLE_OFF + tuple_bytes)
	{
		if (spill->record != NULL)
			pfree(spill->record);
		spill->record = NULL;
		spill->record_bytes = Max(TUPLE_OFF + tuple_bytes, 256);
		spill->record = MemoryContextAllocHuge(GetMemoryChunkContext(spill), spill->record_bytes);
	}
	tuple = (MinimalTuple) (spill->record + TUPLE_OFF);
	check_bytes(read_bytes(spill, (char *) tuple + TUPLE_SKIPPED - key_bytes, key_bytes + tuple_bytes - TUPLE_SKIPPED),
				key_bytes + tuple_bytes - TUPLE_SKIPPED);
	if (key_bytes > 0)
		memcpy(spill->key, (char *) tuple + TUPLE_SKIPPED - key_bytes, key_bytes);
	*key = key_bytes > 0 ? spill->key : NULL;
	tuple->t_len = tuple_bytes;
	ExecStoreMinimalTuple(tuple, slot, false);
	slot_getallattrs(slot);
	spill->nread++;
	return true;
}

bool
hjg_rows_spill_at_end(const HjgSpill *spill)
{
	return spill->nread == hjg_rows_spill_nrows(spill);
}

uint64
hjg_rows_spill_nrows(const HjgSpill *spill)
{
	return spill->part != NULL ? pg_atomic_read_u64(&spill->part->nrows) : spill->nrows;
}

uint64
hjg_rows_spill_bytes(const HjgSpill *spill)
{
	return spill->bytes;
}

void
hjg_rows_spill_free(HjgSpill *spill)
{
	if (spill == NULL)
		return;
	/* the shared memory of a shared file may be gone; its files belong to the set */
	if (spill->file != NULL)
		BufFileClose(spill->file);
	if (spill->record != NULL)
		pfree(spill->record);
	pfree(spill);
}

size_t
hjg_rows_spill_shared_bytes(int nparticipants)
{
	return MAXALIGN(add_size(offsetof(SharedPart, has_file), mul_size(sizeof(bool), nparticipants)));
}

void
hjg_rows_spill_shared_init(void *place, int nparticipants, const char *name)
{
	SharedPart *part = place;

	pg_atomic_init_u64(&part->nrows, 0);
	part->nparticipants = nparticipants;
	strlcpy(part->name, name, sizeof(part->name));
	memset(part->has_file, false, nparticipants * sizeof(bool));
}

HjgSpill *
hjg_rows_spill_attach(void *place, int participant, SharedFileSet *files, TupleDesc desc, int key_width)
{
	HjgSpill   *spill = hjg_rows_spill_create(desc, key_width);

	spill->part = place;
	spill->participant = participant;
	spill->files = files;
	spill->writing = true;
	return spill;
}

void
hjg_rows_spill_end_write(HjgSpill *spill)
{
	if (!spill->writing)
		return;
	spill->writing = false;
	if (spill->file != NULL)
		BufFileClose(spill->file);
	spill->file = NULL;
	pg_atomic_fetch_add_u64(&spill->part->nrows, spill->nrows);
}
