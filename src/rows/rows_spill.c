/*
 * rows_spill.c
 *	  Spill files: sequences of rows, such as a join's partitions, in a temporary file.
 *
 * A record is a word, the encoded key (so that it is computed once), and a minimal tuple of the payload columns without its
 * first bytes, as core's tuplestores write it. The word is the tuple's length, with a mark if there is no key.
 *
 * A shared file consists of a file for each participant that writes. Because one participant alone reads a sequence, it needs
 * neither the chunks by which core's SharedTuplestore distributes rows, nor the memory to fill them.
 */
#include "postgres.h"

#include <fcntl.h>

#include "access/htup_details.h"
#include "executor/executor.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

#include "rows/hjg_blocks.h"
#include "rows/hjg_rows.h"

/* A sequence of a shared file. */
typedef struct SharedSequence
{
	pg_atomic_uint64 nrows;		/* of participants that have ended their writing */
	int64		ends[FLEXIBLE_ARRAY_MEMBER];	/* by participant: where reading begins, or 0 */
} SharedSequence;

/* The part of a shared file in shared memory, before its sequences. */
typedef struct SharedSpillFile
{
	int			nparticipants;
	int			nsequences;
	char		name[NAMEDATALEN];
} SharedSpillFile;

struct HjgSpillFile
{
	MemoryContext context;
	HjgBlockFile *written;		/* by this process */
	int			nusers;			/* sequences that were made here and not freed */

	/* a shared file */
	SharedSpillFile *shared;	/* NULL: private */
	SharedFileSet *files;
	int			participant;
	int			nparticipants;
	BufFile   **read;			/* [nparticipants], NULL where not open */
};

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
	HjgSpillFile *file;
	int			number;			/* in the file */
	TupleDesc	desc;
	int			key_width;
	bool		writing;
	uint64		nrows;			/* written here */
	uint64		bytes;
	int64		end;			/* of a private file: where reading begins, or 0 */

	uint64		nread;			/* rows since the last rewind */
	int			participant;	/* that is read; -1: none yet */
	int64		at;				/* its next block, or 0 */
	HjgFileBlock block;
	const char *next;			/* record of the block */
	char		key[HJG_MAX_KEY_BYTES];
	char	   *record;			/* memory of the last row that was read */
	size_t		record_bytes;	/* its allocated size */
};

/* ---------- files ---------- */

HjgSpillFile *
hjg_rows_spill_file_create(int nsequences, size_t block_bytes)
{
	HjgSpillFile *file = palloc0(sizeof(HjgSpillFile));

	file->context = CurrentMemoryContext;
	file->written = hjg_rows_blocks_create(nsequences, block_bytes, NULL, NULL);
	return file;
}

static size_t
sequence_bytes(int nparticipants)
{
	return MAXALIGN(add_size(offsetof(SharedSequence, ends), mul_size(sizeof(int64), nparticipants)));
}

static SharedSequence *
shared_sequence(SharedSpillFile *shared, int number)
{
	return (SharedSequence *) ((char *) shared + MAXALIGN(sizeof(SharedSpillFile)) + number * sequence_bytes(shared->nparticipants));
}

size_t
hjg_rows_spill_shared_bytes(int nparticipants, int nsequences)
{
	return add_size(MAXALIGN(sizeof(SharedSpillFile)), mul_size(nsequences, sequence_bytes(nparticipants)));
}

void
hjg_rows_spill_shared_init(void *place, int nparticipants, int nsequences, const char *name)
{
	SharedSpillFile *shared = place;

	shared->nparticipants = nparticipants;
	shared->nsequences = nsequences;
	strlcpy(shared->name, name, sizeof(shared->name));
	for (int i = 0; i < nsequences; i++)
	{
		SharedSequence *sequence = shared_sequence(shared, i);

		pg_atomic_init_u64(&sequence->nrows, 0);
		memset(sequence->ends, 0, nparticipants * sizeof(int64));
	}
}

static void
part_name(const SharedSpillFile *shared, int participant, char name[NAMEDATALEN])
{
	snprintf(name, NAMEDATALEN, "%s.%d", shared->name, participant);
}

HjgSpillFile *
hjg_rows_spill_file_attach(void *place, int participant, SharedFileSet *files, size_t block_bytes)
{
	HjgSpillFile *file = palloc0(sizeof(HjgSpillFile));
	char		name[NAMEDATALEN];

	file->context = CurrentMemoryContext;
	file->shared = place;
	file->files = files;
	file->participant = participant;
	file->nparticipants = file->shared->nparticipants;
	file->read = palloc0(file->nparticipants * sizeof(BufFile *));
	part_name(file->shared, participant, name);
	file->written = hjg_rows_blocks_create(file->shared->nsequences, block_bytes, files, name);
	return file;
}

/* Get a participant's file for reading. */
static BufFile *
open_part(HjgSpillFile *file, int participant)
{
	if (file->shared == NULL)
		return hjg_rows_blocks_buffile(file->written);
	if (file->read[participant] == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(file->context);
		char		name[NAMEDATALEN];

		part_name(file->shared, participant, name);
		file->read[participant] = BufFileOpenFileSet(&file->files->fs, name, O_RDONLY, false);
		MemoryContextSwitchTo(old);
	}
	return file->read[participant];
}

/* The shared memory of a shared file may be gone. */
static void
free_spill_file(HjgSpillFile *file)
{
	for (int i = 0; i < file->nparticipants; i++)
		if (file->read[i] != NULL)
			BufFileClose(file->read[i]);
	if (file->read != NULL)
		pfree(file->read);
	hjg_rows_blocks_free(file->written);
	pfree(file);
}

/* ---------- writing ---------- */

HjgSpill *
hjg_rows_spill_create(HjgSpillFile *file, int number, TupleDesc desc, int key_width)
{
	HjgSpill   *spill = palloc0(sizeof(HjgSpill));

	spill->file = file;
	spill->number = number;
	spill->desc = desc;
	spill->key_width = key_width;
	spill->writing = true;
	spill->participant = -1;
	file->nusers++;
	return spill;
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

	Assert(spill->writing);
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
	hjg_rows_blocks_add(spill->file->written, spill->number, record, written);
	spill->nrows++;
	spill->bytes += written;
	if (TUPLE_OFF + tuple_bytes > sizeof(small))
		pfree((char *) tuple - TUPLE_OFF);
}

void
hjg_rows_spill_end_write(HjgSpill *spill)
{
	SharedSpillFile *shared = spill->file->shared;
	int64		end;

	if (!spill->writing)
		return;
	spill->writing = false;
	end = hjg_rows_blocks_end(spill->file->written, spill->number);
	if (shared != NULL)
	{
		SharedSequence *sequence = shared_sequence(shared, spill->number);

		sequence->ends[spill->file->participant] = end;
		pg_atomic_fetch_add_u64(&sequence->nrows, spill->nrows);
	}
	else
		spill->end = end;
}

/* ---------- reading ---------- */

void
hjg_rows_spill_rewind(HjgSpill *spill)
{
	hjg_rows_spill_end_write(spill);
	spill->nread = 0;
	spill->participant = -1;
	spill->at = 0;
	spill->block.nbytes = 0;
	spill->next = spill->block.data;
}

/* Go to the next participant that has written rows; false at the end. */
static bool
next_participant(HjgSpill *spill)
{
	SharedSpillFile *shared = spill->file->shared;
	const int	n = shared != NULL ? shared->nparticipants : 1;

	while (spill->at == 0 && ++spill->participant < n)
		spill->at = shared != NULL ? shared_sequence(shared, spill->number)->ends[spill->participant] : spill->end;
	return spill->at != 0;
}

static void
read_block(HjgSpill *spill)
{
	MemoryContext old = MemoryContextSwitchTo(GetMemoryChunkContext(spill));

	if (!next_participant(spill))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("hash join temporary file ends before its last row")));
	hjg_rows_blocks_read(open_part(spill->file, spill->participant), &spill->at, &spill->block);
	spill->next = spill->block.data;
	MemoryContextSwitchTo(old);
}

bool
hjg_rows_spill_read(HjgSpill *spill, const void **key, TupleTableSlot *slot)
{
	MinimalTuple tuple;
	uint32		word = 0;
	uint32		tuple_bytes;
	size_t		key_bytes;
	size_t		left;

	ExecClearTuple(slot);
	if (spill->writing)
		hjg_rows_spill_rewind(spill);
	if (hjg_rows_spill_at_end(spill))
		return false;
	if (spill->next == spill->block.data + spill->block.nbytes)
		read_block(spill);
	left = spill->block.data + spill->block.nbytes - spill->next;
	if (left >= sizeof(word))
		memcpy(&word, spill->next, sizeof(word));
	tuple_bytes = word & ~NO_KEY;
	key_bytes = word & NO_KEY ? 0 : spill->key_width;
	if (tuple_bytes < SizeofMinimalTupleHeader || sizeof(word) + key_bytes + tuple_bytes - TUPLE_SKIPPED > left)
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
	spill->next += sizeof(word);
	memcpy(spill->key, spill->next, key_bytes);
	*key = key_bytes > 0 ? spill->key : NULL;
	spill->next += key_bytes;
	tuple = (MinimalTuple) (spill->record + TUPLE_OFF);
	memcpy((char *) tuple + TUPLE_SKIPPED, spill->next, tuple_bytes - TUPLE_SKIPPED);
	spill->next += tuple_bytes - TUPLE_SKIPPED;
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
	SharedSpillFile *shared = spill->file->shared;

	return shared != NULL ? pg_atomic_read_u64(&shared_sequence(shared, spill->number)->nrows) : spill->nrows;
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
	if (--spill->file->nusers == 0)
		free_spill_file(spill->file);
	if (spill->block.data != NULL)
		pfree(spill->block.data);
	if (spill->record != NULL)
		pfree(spill->record);
	pfree(spill);
}
