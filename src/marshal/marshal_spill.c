/*
 * marshal_spill.c
 *	  Rows that wait for their partition's turn in a temporary file.
 *
 * A record is its length, the encoded key (so that it is computed once), and
 * a minimal tuple of the carried columns.  The files are core's BufFiles, so
 * temp_tablespaces, temp_file_limit, log_temp_files and pg_stat_database hold.
 *
 * Of a shared file every participant writes a part of its own; core's SharedTuplestore
 * is that set of files.  Here its rows are read by one participant alone.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "executor/executor.h"
#include "storage/buffile.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/sharedtuplestore.h"

#include "marshal/hjg_marshal.h"

/* What lies in shared memory of a shared file; the SharedTuplestore follows. */
typedef struct SharedPart
{
	pg_atomic_uint64 nrows;		/* of those who have ended their writing */
} SharedPart;

#define SHARED_STORE(part) ((SharedTuplestore *) ((char *) (part) + MAXALIGN(sizeof(SharedPart))))

struct HjgSpill
{
	/* a shared file */
	SharedPart *part;			/* NULL: not shared */
	SharedTuplestoreAccessor *accessor; /* in a context of its own */
	MemoryContext accessor_context;
	SharedFileSet *files;
	int			participant;
	bool		writing;

	/* any file; nrows and bytes are what was written here */
	BufFile    *file;			/* NULL until the first row, and of a shared file */
	TupleDesc	desc;
	int			key_width;
	uint64		nrows;
	uint64		bytes;
	uint64		nread;			/* rows since the last rewind */
	char		key[HJG_MAX_KEY_BYTES];
	MinimalTuple tuple;			/* buffer of the row read last */
	uint32		tuple_bytes;	/* its allocated size */
};

HjgSpill *
hjg_spill_create(TupleDesc desc, int key_width)
{
	HjgSpill   *spill = palloc0(sizeof(HjgSpill));

	spill->desc = desc;
	spill->key_width = key_width;
	return spill;
}

void
hjg_spill_write(HjgSpill *spill, const void *key, const Datum *values, const bool *isnull)
{
	MinimalTuple tuple;
	MemoryContext old;
	bool		has_key = key != NULL;

	if (spill->part != NULL)
	{
		Assert(has_key && spill->writing);
		tuple = heap_form_minimal_tuple(spill->desc, unconstify(Datum *, values), unconstify(bool *, isnull));
		old = MemoryContextSwitchTo(spill->accessor_context);
		sts_puttuple(spill->accessor, unconstify(void *, key), tuple);
		MemoryContextSwitchTo(old);
		spill->nrows++;
		spill->bytes += spill->key_width + tuple->t_len;
		heap_free_minimal_tuple(tuple);
		return;
	}
	if (spill->file == NULL)
	{
		old = MemoryContextSwitchTo(GetMemoryChunkContext(spill));
		spill->file = BufFileCreateTemp(false);
		MemoryContextSwitchTo(old);
	}
	tuple = heap_form_minimal_tuple(spill->desc, unconstify(Datum *, values), unconstify(bool *, isnull));
	BufFileWrite(spill->file, &has_key, sizeof(has_key));
	if (has_key)
		BufFileWrite(spill->file, unconstify(void *, key), spill->key_width);
	BufFileWrite(spill->file, tuple, tuple->t_len);
	spill->nrows++;
	spill->bytes += sizeof(has_key) + (has_key ? spill->key_width : 0) + tuple->t_len;
	heap_free_minimal_tuple(tuple);
}

/* A new accessor: an old one remembers how far it had read. */
static void
open_accessor(HjgSpill *spill)
{
	MemoryContext old;

	MemoryContextReset(spill->accessor_context);
	old = MemoryContextSwitchTo(spill->accessor_context);
	spill->accessor = sts_attach(SHARED_STORE(spill->part), spill->participant, spill->files);
	MemoryContextSwitchTo(old);
}

void
hjg_spill_rewind(HjgSpill *spill)
{
	spill->nread = 0;
	if (spill->part != NULL)
	{
		Assert(!spill->writing);
		sts_end_parallel_scan(spill->accessor);
		open_accessor(spill);
		sts_reinitialize(spill->accessor);
		sts_begin_parallel_scan(spill->accessor);
		return;
	}
	if (spill->file != NULL && BufFileSeek(spill->file, 0, 0L, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not rewind hash join temporary file")));
}

static void
read_exactly(HjgSpill *spill, void *ptr, size_t bytes)
{
	size_t		got = BufFileRead(spill->file, ptr, bytes);

	if (got != bytes)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read from hash join temporary file: read only %zu of %zu bytes",
						got, bytes)));
}

bool
hjg_spill_read(HjgSpill *spill, const void **key, TupleTableSlot *slot)
{
	bool		has_key;
	uint32		len;

	ExecClearTuple(slot);
	if (hjg_spill_at_end(spill))
		return false;
	if (spill->part != NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(spill->accessor_context);
		MinimalTuple tuple = sts_parallel_scan_next(spill->accessor, spill->key);

		MemoryContextSwitchTo(old);
		if (tuple == NULL)
			elog(ERROR, "shared hash join temporary file ends too early");
		*key = spill->key;
		ExecStoreMinimalTuple(tuple, slot, false);
		slot_getallattrs(slot);
		spill->nread++;
		return true;
	}
	read_exactly(spill, &has_key, sizeof(has_key));
	if (has_key)
		read_exactly(spill, spill->key, spill->key_width);
	*key = has_key ? spill->key : NULL;

	read_exactly(spill, &len, sizeof(len));
	if (spill->tuple_bytes < len)
	{
		if (spill->tuple != NULL)
			pfree(spill->tuple);
		spill->tuple = MemoryContextAllocHuge(GetMemoryChunkContext(spill), len);
		spill->tuple_bytes = len;
	}
	spill->tuple->t_len = len;
	read_exactly(spill, (char *) spill->tuple + sizeof(len), len - sizeof(len));
	ExecStoreMinimalTuple(spill->tuple, slot, false);
	slot_getallattrs(slot);
	spill->nread++;
	return true;
}

bool
hjg_spill_at_end(const HjgSpill *spill)
{
	return spill->nread == hjg_spill_nrows(spill);
}

uint64
hjg_spill_nrows(const HjgSpill *spill)
{
	return spill->part != NULL ? pg_atomic_read_u64(&spill->part->nrows) : spill->nrows;
}

uint64
hjg_spill_bytes(const HjgSpill *spill)
{
	return spill->bytes;
}

void
hjg_spill_free(HjgSpill *spill)
{
	if (spill == NULL)
		return;
	if (spill->part != NULL)
	{
		/* shared memory may be gone by now; the file belongs to the set */
		sts_end_parallel_scan(spill->accessor);
		MemoryContextDelete(spill->accessor_context);
	}
	if (spill->file != NULL)
		BufFileClose(spill->file);
	if (spill->tuple != NULL)
		pfree(spill->tuple);
	pfree(spill);
}

size_t
hjg_spill_shared_bytes(int nparticipants)
{
	return MAXALIGN(sizeof(SharedPart)) + sts_estimate(nparticipants);
}

void
hjg_spill_shared_init(void *place, int nparticipants, int participant, int key_width, SharedFileSet *files,
					  const char *name)
{
	SharedPart *part = place;

	pg_atomic_init_u64(&part->nrows, 0);
	pfree(sts_initialize(SHARED_STORE(part), nparticipants, participant, key_width, 0, files, name));
}

HjgSpill *
hjg_spill_attach(void *place, int participant, SharedFileSet *files, TupleDesc desc, int key_width)
{
	HjgSpill   *spill = hjg_spill_create(desc, key_width);

	spill->part = place;
	spill->participant = participant;
	spill->files = files;
	spill->writing = true;
	spill->accessor_context = AllocSetContextCreate(CurrentMemoryContext, "GpuHashJoin shared file",
													ALLOCSET_SMALL_SIZES);
	open_accessor(spill);
	return spill;
}

void
hjg_spill_end_write(HjgSpill *spill)
{
	if (!spill->writing)
		return;
	spill->writing = false;
	sts_end_write(spill->accessor);
	pg_atomic_fetch_add_u64(&spill->part->nrows, spill->nrows);
}
