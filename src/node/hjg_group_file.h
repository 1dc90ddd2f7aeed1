/*
 * hjg_group_file.h
 *	  Records of groups in a temporary file, by partition.
 *
 * Internal to the node GpuAggregate. A process writes one file for all partitions. The file consists of blocks; each belongs
 * to one partition and has the offset of that partition's previous block. So a partition needs memory for one block while it
 * is written, and no file of its own.
 */
#ifndef HJG_GROUP_FILE_H
#define HJG_GROUP_FILE_H

#include "postgres.h"

#include "storage/buffile.h"
#include "storage/sharedfileset.h"

#include "node/hjg_group_pack.h"

/* Memory that a partition takes while it is written: an eighth of HJG_MODEL_GROUP_PARTITION_BYTES. */
#define HJG_GROUP_BLOCK_BYTES BLCKSZ

typedef struct HjgGroupFile HjgGroupFile;

/*
 * Make a file in the current memory context. files and name: the file's place in a shared set, for other processes to read;
 * files NULL: private.
 */
extern HjgGroupFile *hjg_group_file_create(int npartitions, SharedFileSet *files, const char *name);
/* Add a record of nbytes, a multiple of 8, to a partition. */
extern void hjg_group_file_add(HjgGroupFile *file, int partition, const void *record, size_t nbytes);
/* End writing; ends[partition] gets the offset from which the partition is read, 0 if it is empty. */
extern void hjg_group_file_end_write(HjgGroupFile *file, int64 *ends);
extern uint64 hjg_group_file_bytes(const HjgGroupFile *file);
/* Get the file below, to read a private file. */
extern BufFile *hjg_group_file_buffile(HjgGroupFile *file);
extern void hjg_group_file_free(HjgGroupFile *file);

/* The records of one block. */
typedef struct HjgGroupBlock
{
	char	   *data;			/* or NULL */
	size_t		space;			/* bytes allocated */
	HjgUnpack	records;		/* those that were not read */
} HjgGroupBlock;

/* Read the block of a partition at *at, the last block first; sets *at to the previous block, 0 if there is none. */
extern void hjg_group_file_read(BufFile *file, int64 *at, HjgGroupBlock *block);

#endif							/* HJG_GROUP_FILE_H */
