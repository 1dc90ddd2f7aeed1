/*
 * marshal_spill.c
 *	  Rows that wait for their partition's turn in a temporary file.
 *
 * A record is its length, the encoded key (so that it is computed once), and
 * a minimal tuple of the carried columns.  The files are core's BufFiles, so
 * temp_tablespaces, temp_file_limit, log_temp_files and pg_stat_database hold.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "executor/executor.h"
#include "storage/buffile.h"
#include "utils/resowner.h"

#include "marshal/hjg_marshal.h"

struct HjgSpill
{
	BufFile    *file;			/* NULL until the first row */
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
	bool		has_key = key != NULL;

	if (spill->file == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(GetMemoryChunkContext(spill));

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

void
hjg_spill_rewind(HjgSpill *spill)
{
	spill->nread = 0;
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
	if (spill->nread == spill->nrows)
		return false;
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
	return spill->nread == spill->nrows;
}

uint64
hjg_spill_nrows(const HjgSpill *spill)
{
	return spill->nrows;
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
	if (spill->file != NULL)
		BufFileClose(spill->file);
	if (spill->tuple != NULL)
		pfree(spill->tuple);
	pfree(spill);
}
