/*
 * node_group_file.c
 *	  Records of groups in a temporary file, by partition.
 *
 * A block takes up to HJG_GROUP_BLOCK_BYTES, which are read at once, or as much as one record that is longer. The file is a
 * BufFile of core's, subject to temp_tablespaces, temp_file_limit, log_temp_files and pg_stat_database.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "node/hjg_group_file.h"

typedef struct BlockHeader
{
	int64		before;			/* offset of the partition's previous block, plus one; 0: none */
	uint64		nbytes;			/* bytes of the records that follow */
} BlockHeader;

/* Bytes of a block's records, unless there is only one. */
#define MOST_BYTES (HJG_GROUP_BLOCK_BYTES - sizeof(BlockHeader))

/* The records of a partition that are not in the file yet, and the place of those that are. */
typedef struct Tail
{
	char	   *records;		/* [MOST_BYTES]; NULL: none yet */
	size_t		nbytes;
	int64		last;			/* offset of the last block written, plus one; 0: none */
} Tail;

struct HjgGroupFile
{
	MemoryContext context;
	SharedFileSet *files;		/* NULL: private */
	char		name[NAMEDATALEN];
	BufFile    *file;			/* NULL: no block was written */
	int64		nbytes;
	int			npartitions;
	Tail	   *tails;
};

HjgGroupFile *
hjg_group_file_create(int npartitions, SharedFileSet *files, const char *name)
{
	HjgGroupFile *file = palloc0(sizeof(HjgGroupFile));

	file->context = CurrentMemoryContext;
	file->files = files;
	if (files != NULL)
		strlcpy(file->name, name, sizeof(file->name));
	file->npartitions = npartitions;
	file->tails = palloc0(npartitions * sizeof(Tail));
	return file;
}

/* ---------- writing ---------- */

static void
create_temp_file(HjgGroupFile *file)
{
	MemoryContext old = MemoryContextSwitchTo(file->context);

	file->file = file->files != NULL ? BufFileCreateFileSet(&file->files->fs, file->name) : BufFileCreateTemp(false);
	MemoryContextSwitchTo(old);
}

/* BufFileWrite() does not write to the data, but has not always said so. */
static void
write_block(HjgGroupFile *file, Tail *tail, const void *records, size_t nbytes)
{
	BlockHeader header = {tail->last, nbytes};

	if (file->file == NULL)
		create_temp_file(file);
	BufFileWrite(file->file, &header, sizeof(header));
	BufFileWrite(file->file, unconstify(void *, records), nbytes);
	tail->last = file->nbytes + 1;
	file->nbytes += (int64) (sizeof(header) + nbytes);
}

static void
write_tail(HjgGroupFile *file, Tail *tail)
{
	if (tail->nbytes > 0)
		write_block(file, tail, tail->records, tail->nbytes);
	tail->nbytes = 0;
}

void
hjg_group_file_add(HjgGroupFile *file, int partition, const void *record, size_t nbytes)
{
	Tail	   *tail = &file->tails[partition];

	if (tail->nbytes + nbytes > MOST_BYTES)
		write_tail(file, tail);
	if (nbytes > MOST_BYTES)
	{
		write_block(file, tail, record, nbytes);
		return;
	}
	if (tail->records == NULL)
		tail->records = MemoryContextAlloc(file->context, MOST_BYTES);
	memcpy(tail->records + tail->nbytes, record, nbytes);
	tail->nbytes += nbytes;
}

static void
free_tails(HjgGroupFile *file)
{
	for (int p = 0; p < file->npartitions; p++)
	{
		if (file->tails[p].records != NULL)
			pfree(file->tails[p].records);
		file->tails[p].records = NULL;
	}
}

void
hjg_group_file_end_write(HjgGroupFile *file, int64 *ends)
{
	for (int p = 0; p < file->npartitions; p++)
	{
		write_tail(file, &file->tails[p]);
		ends[p] = file->tails[p].last;
	}
	free_tails(file);
	if (file->files != NULL && file->file != NULL)
	{
		BufFileClose(file->file);
		file->file = NULL;
	}
}

uint64
hjg_group_file_bytes(const HjgGroupFile *file)
{
	return (uint64) file->nbytes;
}

BufFile *
hjg_group_file_buffile(HjgGroupFile *file)
{
	return file->file;
}

void
hjg_group_file_free(HjgGroupFile *file)
{
	if (file->file != NULL)
		BufFileClose(file->file);
	free_tails(file);
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
				 errmsg("could not read from grouping temporary file: read only %zu of %zu bytes", got, bytes)));
}

static void
make_block_space(HjgGroupBlock *block, size_t bytes)
{
	if (block->space >= bytes)
		return;
	bytes = Max(bytes, HJG_GROUP_BLOCK_BYTES);
	block->data = block->data == NULL ? MemoryContextAllocHuge(CurrentMemoryContext, bytes) : repalloc_huge(block->data, bytes);
	block->space = bytes;
}

void
hjg_group_file_read(BufFile *file, int64 *at, HjgGroupBlock *block)
{
	BlockHeader header;

	if (BufFileSeek(file, 0, *at - 1, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not seek in grouping temporary file")));
	read_file_bytes(file, (char *) &header, sizeof(header));
	if (header.nbytes == 0 || header.nbytes > MaxAllocHugeSize || header.before < 0 || header.before >= *at)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("grouping temporary file has a block of %zu bytes", (size_t) header.nbytes)));
	*at = header.before;
	make_block_space(block, header.nbytes);
	read_file_bytes(file, block->data, header.nbytes);
	block->records = (HjgUnpack) {block->data, block->data + header.nbytes};
}
