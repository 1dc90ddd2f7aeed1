/*
 * hjg_group_pack.h
 *	  Columns of groups as they are written to temporary files: few bytes a value, many values at a time.
 *
 * Internal to the node GpuAggregate. Numbers are codes (vector/hjg_vector.h), so a column takes the bytes of the greatest distance
 * from its least number, and nothing where all are equal. Values by reference are written one behind the other.
 */
#ifndef HJG_GROUP_PACK_H
#define HJG_GROUP_PACK_H

#include "postgres.h"

#include "rows/hjg_rows.h"

/* Memory that columns are added to; empty when zeroed. Its user frees the data. */
typedef struct HjgPack
{
	char	   *data;
	size_t		nbytes;			/* a multiple of 8 */
	size_t		space;
} HjgPack;

/* Add nbytes, at an aligned place, which is valid until the next call; the bytes behind them are zeros. */
extern char *hjg_group_pack_add(HjgPack *pack, size_t nbytes);
extern void hjg_group_pack_numbers(HjgPack *pack, const int64 *numbers, int n);
extern void hjg_group_pack_vector(HjgPack *pack, const HjgVector *vector, int n);

/* Columns that are read from memory of this process. What does not fit in them is an error. */
typedef struct HjgUnpack
{
	const char *next;
	const char *end;
} HjgUnpack;

/* Get the next nbytes, which were added together. */
extern const char *hjg_group_unpack(HjgUnpack *from, size_t nbytes);
extern void hjg_group_unpack_numbers(HjgUnpack *from, int n, int64 *numbers);
/* Read n values into the rows of a vector from `first` on; values by reference stay where they are. */
extern void hjg_group_unpack_vector(HjgUnpack *from, int n, HjgVector *vector, int first);
/* Complain about what was read. */
extern void hjg_group_unpack_fail(void) __attribute__((noreturn));

#endif							/* HJG_GROUP_PACK_H */
