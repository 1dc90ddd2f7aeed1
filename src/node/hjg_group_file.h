/*
 * hjg_group_file.h
 *	  Records of groups in a temporary file, by partition.
 *
 * Internal to the node GpuAggregate.  A process writes one file, however many partitions it has, in blocks that each belong to one partition and know
 * the one before; so a partition costs a block of memory while it is written, and no file.
 */
#ifndef HJG_GROUP_FILE_H
#define HJG_GROUP_FILE_H

#include "postgres.h"

#include "storage/buffile.h"
#include "storage/sharedfileset.h"

/* Memory of a partition while it is written. */
#define HJG_GROUP_BLOCK_BYTES BLCKSZ

typedef struct HjgGroupFile HjgGroupFile;

/* In the current memory context.  files and name: it is one of these, for others to read; NULL: private. */
extern HjgGroupFile *hjg_group_file_create(int npartitions, SharedFileSet *files, const char *name);
/* Add a record of so many bytes, a multiple of 8, to a partition; returns where it goes, before the next call. */
extern void *hjg_group_file_add(HjgGroupFile *file, int partition, size_t nbytes);
/* End writing; ends[partition] becomes where to begin to read it, 0 if it is empty. */
extern void hjg_group_file_end_write(HjgGroupFile *file, int64 *ends);
extern uint64 hjg_group_file_bytes(const HjgGroupFile *file);
/* To read a private file. */
extern BufFile *hjg_group_file_buffile(HjgGroupFile *file);
extern void hjg_group_file_free(HjgGroupFile *file);

/* Records of a block, as they were added. */
typedef struct HjgGroupBlock
{
	char	   *data;			/* or NULL */
	size_t		space;			/* bytes allocated */
	const char *next;
	const char *end;
} HjgGroupBlock;

/* Read a block of a partition, from its end on: *at goes to the one before, 0 at the last. */
extern void hjg_group_file_read(BufFile *file, int64 *at, HjgGroupBlock *block);

#endif							/* HJG_GROUP_FILE_H */
