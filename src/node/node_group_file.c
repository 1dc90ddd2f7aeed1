/*
 * node_group_file.c
 *	  Records of groups in a temporary file, by partition.
 *
 * A block is a page, or, for a record that is longer, as many pages as this record needs. The file is a BufFile of core's,
 * subject to temp_tablespaces, temp_file_limit, log_temp_files and pg_stat_database.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "node/hjg_group_file.h"

typedef struct BlockHeader
{
	int64		before;			/* page of the partition's previous block, plus one; 0: none */
	uint64		nbytes;			/* bytes used, this header included */
} BlockHeader;

struct HjgGroupFile
{
	MemoryContext context;
	SharedFileSet *files;		/* NULL: private */
	char		name[NAMEDATALEN];
	BufFile    *file;			/* NULL: no block was written */
	int64		npages;
	int			npartitions;
	BlockHeader **blocks;		/* being filled; NULL: none yet */
	int64	   *last;			/* the last block written: page plus one, or 0 */
	BlockHeader *large;			/* block of one large record, written next */
	int			large_partition;
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
	file->blocks = palloc0(npartitions * sizeof(BlockHeader *));
	file->last = palloc0(npartitions * sizeof(int64));
	return file;
}

/* ---------- writing ---------- */

static size_t
block_bytes(size_t nbytes)
{
	return TYPEALIGN(HJG_GROUP_BLOCK_BYTES, nbytes);
}

static void
write_block(HjgGroupFile *file, int partition, BlockHeader *block)
{
	const size_t bytes = block_bytes(block->nbytes);

	if (file->file == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(file->context);

		file->file = file->files != NULL ? BufFileCreateFileSet(&file->files->fs, file->name) : BufFileCreateTemp(false);
		MemoryContextSwitchTo(old);
	}
	block->before = file->last[partition];
	BufFileWrite(file->file, block, bytes);
	file->last[partition] = file->npages + 1;
	file->npages += (int64) (bytes / BLCKSZ);
	block->nbytes = sizeof(BlockHeader);
}

static void
write_large(HjgGroupFile *file)
{
	if (file->large == NULL)
		return;
	write_block(file, file->large_partition, file->large);
	pfree(file->large);
	file->large = NULL;
}

/* Make an empty block, zeroed, because its unused bytes are written, too. */
static BlockHeader *
make_file_block(HjgGroupFile *file, size_t bytes)
{
	BlockHeader *block = MemoryContextAllocExtended(file->context, bytes, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);

	block->nbytes = sizeof(BlockHeader);
	return block;
}

void *
hjg_group_file_add(HjgGroupFile *file, int partition, size_t nbytes)
{
	BlockHeader **place = &file->blocks[partition];
	BlockHeader *block = *place;
	char	   *record;

	write_large(file);
	if (sizeof(BlockHeader) + nbytes > HJG_GROUP_BLOCK_BYTES)
	{
		file->large = block = make_file_block(file, block_bytes(sizeof(BlockHeader) + nbytes));
		file->large_partition = partition;
	}
	else if (block == NULL)
		*place = block = make_file_block(file, HJG_GROUP_BLOCK_BYTES);
	else if (block->nbytes + nbytes > HJG_GROUP_BLOCK_BYTES)
		write_block(file, partition, block);
	record = (char *) block + block->nbytes;
	block->nbytes += nbytes;
	return record;
}

void
hjg_group_file_end_write(HjgGroupFile *file, int64 *ends)
{
	write_large(file);
	for (int p = 0; p < file->npartitions; p++)
	{
		if (file->blocks[p] != NULL && file->blocks[p]->nbytes > sizeof(BlockHeader))
			write_block(file, p, file->blocks[p]);
		if (file->blocks[p] != NULL)
			pfree(file->blocks[p]);
		file->blocks[p] = NULL;
		ends[p] = file->last[p];
	}
	if (file->files != NULL && file->file != NULL)
	{
		BufFileClose(file->file);
		file->file = NULL;
	}
}

uint64
hjg_group_file_bytes(const HjgGroupFile *file)
{
	return (uint64) file->npages * BLCKSZ;
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
	for (int p = 0; p < file->npartitions; p++)
		if (file->blocks[p] != NULL)
			pfree(file->blocks[p]);
	if (file->large != NULL)
		pfree(file->large);
	pfree(file->blocks);
	pfree(file->last);
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
	block->data = block->data == NULL ? MemoryContextAllocHuge(CurrentMemoryContext, bytes) : repalloc_huge(block->data, bytes);
	block->space = bytes;
}

void
hjg_group_file_read(BufFile *file, int64 *at, HjgGroupBlock *block)
{
	const BlockHeader *header;
	size_t		bytes;

	make_block_space(block, HJG_GROUP_BLOCK_BYTES);
	if (BufFileSeekBlock(file, *at - 1) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not seek in grouping temporary file")));
	read_file_bytes(file, block->data, HJG_GROUP_BLOCK_BYTES);
	header = (const BlockHeader *) block->data;
	bytes = header->nbytes;
	if (bytes < sizeof(BlockHeader) || bytes > MaxAllocHugeSize || header->before < 0 || header->before >= *at)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("grouping temporary file has a block of %zu bytes", bytes)));
	*at = header->before;
	if (bytes > HJG_GROUP_BLOCK_BYTES)
	{
		make_block_space(block, block_bytes(bytes));
		read_file_bytes(file, block->data + HJG_GROUP_BLOCK_BYTES, block_bytes(bytes) - HJG_GROUP_BLOCK_BYTES);
	}
	block->next = block->data + sizeof(BlockHeader);
	block->end = block->data + bytes;
}
