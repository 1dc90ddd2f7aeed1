/*
 * hjg_blocks.h
 *	  Records in a temporary file, by partition.
 *
 * A process writes one file for all partitions, as making a file takes longer than writing some blocks, also to the other
 * processes that make files in the same directory. The file consists of blocks; each belongs to one partition and has the
 * offset of that partition's previous block. So a partition needs memory for one block while it is written.
 */
#ifndef HJG_BLOCKS_H
#define HJG_BLOCKS_H

#include "postgres.h"

#include "storage/buffile.h"
#include "storage/sharedfileset.h"

/* Memory of a block at least. */
#define HJG_BLOCK_BYTES BLCKSZ

typedef struct HjgBlockFile HjgBlockFile;

/*
 * Make a file in the current memory context, with block_bytes of memory for each partition. files and name: the file's place in
 * a shared set, for other processes to read; files NULL: private. The temporary file belongs to the CurrentResourceOwner of the
 * first block's write.
 */
extern HjgBlockFile *hjg_rows_blocks_create(int npartitions, size_t block_bytes, SharedFileSet *files, const char *name);
/* Add a record of nbytes to a partition. */
extern void hjg_rows_blocks_add(HjgBlockFile *file, int partition, const void *record, size_t nbytes);
/*
 * End writing a partition, and free its memory; returns the offset from which it is read, 0 if it is empty. When all partitions of a
 * shared file have ended, other processes can read it.
 */
extern int64 hjg_rows_blocks_end(HjgBlockFile *file, int partition);
extern uint64 hjg_rows_blocks_bytes(const HjgBlockFile *file);
/* Get the file below, to read blocks of a private file until the next record is added. */
extern BufFile *hjg_rows_blocks_buffile(HjgBlockFile *file);
extern void hjg_rows_blocks_free(HjgBlockFile *file);

/* The records of one block that was read. */
typedef struct HjgFileBlock
{
	char	   *data;			/* or NULL */
	size_t		space;			/* bytes allocated */
	size_t		nbytes;
} HjgFileBlock;

/*
 * Read the block of a partition at *at, the last block first, into memory of the current context; sets *at to the previous
 * block, 0 if there is none.
 */
extern void hjg_rows_blocks_read(BufFile *file, int64 *at, HjgFileBlock *block);

#endif							/* HJG_BLOCKS_H */
