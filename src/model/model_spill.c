/*
 * model_spill.c
 *	  Build sides larger than memory: the number of partitions, and how often rows are written.
 *
 * The executor makes as many partitions as computed here, so the planner knows its passes.
 */
#include "model/hjg_model.h"

#include <math.h>

#define MIN_PARTITIONS 4
#define MAX_PARTITIONS 256

/* Allowance for partitions of different size. */
#define PARTITION_ROOM 1.1

double
hjg_model_key_bytes(int key_width)
{
	return key_width == 4 ? 37 : key_width == 8 ? 59 : 97;
}

int
hjg_model_partitions(double build_bytes, double memory_bytes, double buffer_bytes)
{
	/* file buffers may take half of the memory */
	const double most = memory_bytes / 2 / (2 * buffer_bytes);
	const double want =
		fmax(fmin(fmin(build_bytes * PARTITION_ROOM / memory_bytes, most), MAX_PARTITIONS), MIN_PARTITIONS);

	return 1 << (int) ceil(log2(want));
}

int
hjg_model_spill_passes(double build_bytes, double memory_bytes, double first_buffer_bytes,
					   double buffer_bytes)
{
	int passes = 0;

	while (build_bytes > memory_bytes && passes < HJG_MODEL_MOST_PASSES)
	{
		build_bytes /=
			hjg_model_partitions(build_bytes, memory_bytes, passes == 0 ? first_buffer_bytes : buffer_bytes);
		passes++;
	}
	return passes;
}
