/*
 * rows_blocks.c
 *	  Records in a temporary file, by partition.
 *
 * A block takes as much as one memory block, which is read at once, or one record that is longer. The file is a BufFile of
 * core's, subject to temp_tablespaces, temp_file_limit, log_temp_files and pg_stat_database.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "rows/hjg_blocks.h"

typedef struct BlockHeader
{
	int64		before;			/* offset of the partition's previous block, plus one; 0: none */
	uint64		nbytes;			/* bytes of the records that follow */
} BlockHeader;

/* The records of a partition that are not in the file yet, and the place of those that are. */
typedef struct Tail
{
	char	   *records;		/* [most_bytes]; NULL: none yet */
	size_t		nbytes;
	int64		last;			/* offset of the last block written, plus one; 0: none */
} Tail;

struct HjgBlockFile
{
	MemoryContext context;
	SharedFileSet *files;		/* NULL: private */
	char		name[NAMEDATALEN];
	BufFile    *file;			/* NULL: no block was written, or other processes may read it */
	size_t		most_bytes;		/* bytes of a block's records, unless there is only one */
	int64		nbytes;
	bool		moved;			/* a block was read since the last one was written */
	int			npartitions;
	int			nended;			/* partitions that have ended */
	Tail	   *tails;
};

HjgBlockFile *
hjg_rows_blocks_create(int npartitions, size_t block_bytes, SharedFileSet *files, const char *name)
{
	HjgBlockFile *file = palloc0(sizeof(HjgBlockFile));

	file->context = CurrentMemoryContext;
	file->files = files;
	if (files != NULL)
		strlcpy(file->name, name, sizeof(file->name));
	file->most_bytes = block_bytes - sizeof(BlockHeader);
	file->npartitions = npartitions;
	file->tails = palloc0(npartitions * sizeof(Tail));
	return file;
}

/* ---------- writing ---------- */

static void
create_temp_file(HjgBlockFile *file)
{
	MemoryContext old = MemoryContextSwitchTo(file->context);

	file->file = file->files != NULL ? BufFileCreateFileSet(&file->files->fs, file->name) : BufFileCreateTemp(false);
	MemoryContextSwitchTo(old);
}

static void
move_to(BufFile *file, int64 offset)
{
	if (BufFileSeek(file, 0, offset, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not seek in temporary file")));
}

/* BufFileWrite() does not write to the data, but has not always said so. */
static void
write_block(HjgBlockFile *file, Tail *tail, const void *records, size_t nbytes)
{
	BlockHeader header = {tail->last, nbytes};

	if (file->file == NULL)
		create_temp_file(file);
	if (file->moved)
		move_to(file->file, file->nbytes);
	file->moved = false;
	BufFileWrite(file->file, &header, sizeof(header));
	BufFileWrite(file->file, unconstify(void *, records), nbytes);
	tail->last = file->nbytes + 1;
	file->nbytes += (int64) (sizeof(header) + nbytes);
}

static void
write_tail(HjgBlockFile *file, Tail *tail)
{
	if (tail->nbytes > 0)
		write_block(file, tail, tail->records, tail->nbytes);
	tail->nbytes = 0;
}

void
hjg_rows_blocks_add(HjgBlockFile *file, int partition, const void *record, size_t nbytes)
{
	Tail	   *tail = &file->tails[partition];

	if (tail->nbytes + nbytes > file->most_bytes)
		write_tail(file, tail);
	if (nbytes > file->most_bytes)
	{
		write_block(file, tail, record, nbytes);
		return;
	}
	if (tail->records == NULL)
		tail->records = MemoryContextAlloc(file->context, file->most_bytes);
	memcpy(tail->records + tail->nbytes, record, nbytes);
	tail->nbytes += nbytes;
}

static void
free_tail(Tail *tail)
{
	if (tail->records != NULL)
		pfree(tail->records);
	tail->records = NULL;
}

int64
hjg_rows_blocks_end(HjgBlockFile *file, int partition)
{
	Tail	   *tail = &file->tails[partition];

	write_tail(file, tail);
	free_tail(tail);
	if (++file->nended == file->npartitions && file->files != NULL && file->file != NULL)
	{
		BufFileClose(file->file);
		file->file = NULL;
	}
	return tail->last;
}

uint64
hjg_rows_blocks_bytes(const HjgBlockFile *file)
{
	return (uint64) file->nbytes;
}

BufFile *
hjg_rows_blocks_buffile(HjgBlockFile *file)
{
	file->moved = true;
	return file->file;
}

void
hjg_rows_blocks_free(HjgBlockFile *file)
{
	if (file->file != NULL)
		BufFileClose(file->file);
	for (int p = 0; p < file->npartitions; p++)
		free_tail(&file->tails[p]);
	pfree(file->tails);
	pfree(file);
}

/* ---------- reading ---------- */

static void
read_file_bytes(BufFile *file, char *to, size_t bytes)
{
	const size_t got = BufFileRead(file, to, bytes);

	if (got != bytes)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read from temporary file: read only %zu of %zu bytes", got, bytes)));
}

static void
make_block_space(HjgFileBlock *block, size_t bytes)
{
	if (block->space >= bytes)
		return;
	bytes = Max(bytes, HJG_BLOCK_BYTES);
	block->data = block->data == NULL ? MemoryContextAllocHuge(CurrentMemoryContext, bytes) : repalloc_huge(block->data, bytes);
	block->space = bytes;
}

void
hjg_rows_blocks_read(BufFile *file, int64 *at, HjgFileBlock *block)
{
	BlockHeader header;

	move_to(file, *at - 1);
	read_file_bytes(file, (char *) &header, sizeof(header));
	if (header.nbytes == 0 || header.nbytes > MaxAllocHugeSize || header.before < 0 || header.before >= *at)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("temporary file has a block of %zu bytes", (size_t) header.nbytes)));
	*at = header.before;
	make_block_space(block, header.nbytes);
	read_file_bytes(file, block->data, header.nbytes);
	block->nbytes = header.nbytes;
}
