/*
 * model_cuda.c
 *	  Joins on a GPU: unit costs times sizes, for each strategy.
 *
 * An H100 80GB HBM3 with 50 MB of L2 cache reads 8 bytes at random 131 times a nanosecond up to 24 MiB, 84
 * at 40, 53 at 64, 32 from 1 GiB on; hence the share of a table that counts as cached.
 */
#include "model/hjg_cuda_model.h"

#include <math.h>

/* Share of the L2 cache that holds a table read at random. */
#define L2_SHARE 0.75

/* Bytes of a sector of "packed" with its share of the spare ones, and of the table. */
#define PACKED_SECTOR_BYTES (HJG_K_SECTOR_BYTES * (1 + 1.0 / HJG_K_PACKED_SPARE_SHARE))
#define PACKED_BYTES(rows) \
	(fmax((rows) * 100 / (HJG_K_PACKED_PERCENT * HJG_K_PACKED_SLOTS), HJG_K_PACKED_LEAST) * PACKED_SECTOR_BYTES)
#define ROW_BYTES 4.0			/* a row number */

/*
 * Cost of an insert into an array by key as a share of one into a table, at most (an eighth on an H200, 5M
 * rows): it needs no search.
 */
#define DIRECT_INSERT_SHARE 0.25

/* Calls of the driver for a build side; a chunk of probe rows needs HJG_CUDA_ROUND_CALLS and partitioning. */
#define DIRECT_CALLS 5.0
#define TABLE_CALLS 4.0
#define RADIX_CALLS 4.0			/* for a side and a pass */
#define SORT_CALLS 4.0			/* for a pass */

/* Compute the part of a table that is in the cache. */
static double
cached_part(double table_bytes, double l2_bytes)
{
	return fmin(1, l2_bytes * L2_SHARE / fmax(table_bytes, 1));
}

/* Compute the average cost of a random access of a table, in the cache and beyond it. */
static double
table_access_ns(double table_bytes, double l2_bytes, double cached_ns, double beyond_ns)
{
	const double cached = cached_part(table_bytes, l2_bytes);

	return cached * cached_ns + (1 - cached) * beyond_ns;
}

double
hjg_model_cuda_beyond_ns(double table_bytes, double l2_bytes, double cached_ns, double access_ns)
{
	const double cached = cached_part(table_bytes, l2_bytes);

	return cached < 1 ? fmax((access_ns - cached * cached_ns) / (1 - cached), cached_ns) : cached_ns;
}

bool
hjg_model_cuda_predict(const HjgCudaUnitCosts *costs, const HjgCudaJoinSize *size, HjgCudaStrategyId strategy,
				 HjgCudaPrediction *prediction)
{
	const double b = size->build_rows;
	const double p = size->probe_rows;
	const double w = size->key_width;
	const double nchunks = ceil(fmax(p, 1) / fmax(size->chunk_rows, 1));
	const double stream_ns = costs->stream_mb_ns / HJG_MODEL_MB;
	double		npasses = 1;
	double		bytes = 0;
	double		build_ns = 0;
	double		probe_ns = 0;
	double		build_calls = 0;
	double		chunk_calls = HJG_CUDA_ROUND_CALLS;

	if (!hjg_is_cuda_strategy(strategy))
		return false;
	/* no default: the compiler reports a missing case */
	switch (strategy)
	{
		case HJG_CUDA_DIRECT:
			bytes = b * ROW_BYTES;
			build_ns = b * (2 * w + ROW_BYTES) * stream_ns + b * DIRECT_INSERT_SHARE *
				table_access_ns(bytes, size->l2_bytes, costs->insert_l2_ns, costs->insert_ns);
			probe_ns = p * table_access_ns(bytes, size->l2_bytes, costs->gather_l2_ns, costs->gather_ns);
			build_calls = DIRECT_CALLS;
			break;
		case HJG_CUDA_PACKED:
			bytes = PACKED_BYTES(b);
			/* one pass of partitioning; the partitions are then written as parts of the table */
			build_ns = (b * HJG_CUDA_PASS_BYTES(w, 1) + b * (w + ROW_BYTES) + bytes) * stream_ns + b * costs->part_row_ns;
			probe_ns = p * table_access_ns(bytes, size->l2_bytes, costs->gather_l2_ns, costs->gather_ns);
			build_calls = TABLE_CALLS;
			break;
		case HJG_CUDA_TABLE:
			bytes = HJG_CUDA_TABLE_BYTES(b);
			build_ns = (b * w + bytes) * stream_ns +
				b * table_access_ns(bytes, size->l2_bytes, costs->insert_l2_ns, costs->insert_ns);
			probe_ns = p * table_access_ns(bytes, size->l2_bytes, costs->gather_l2_ns, costs->gather_ns);
			/* for wider keys the table holds a tag, and the key lies in its column */
			if (size->key_width > HJG_KEY_WIDTH_4)
				probe_ns += p * table_access_ns(bytes + b * w, size->l2_bytes, costs->gather_l2_ns, costs->gather_ns);
			build_calls = TABLE_CALLS;
			break;
		case HJG_CUDA_RADIX2:
			npasses = 2;
			/* FALLTHROUGH */
		case HJG_CUDA_RADIX1:
			bytes = w + ROW_BYTES;
			build_ns = b * HJG_CUDA_PASS_BYTES(w, npasses) * stream_ns;
			/* each chunk meets the whole build side */
			probe_ns = p * ((HJG_CUDA_PASS_BYTES(w, npasses) + bytes) * stream_ns + costs->part_row_ns) +
				nchunks * b * (bytes * stream_ns + costs->part_row_ns);
			build_calls = npasses * RADIX_CALLS;
			chunk_calls += npasses * RADIX_CALLS;
			break;
		case HJG_CUDA_CSR:
			npasses = ceil(log2(fmax(b, 2)) / HJG_MODEL_SORT_BITS);
			bytes = b * (w + 2 * ROW_BYTES);
			build_ns = npasses * b * costs->sort_row_ns + 2 * bytes * stream_ns;
			/* reads the directory, a key and a row number */
			probe_ns = 3 * p * table_access_ns(bytes, size->l2_bytes, costs->gather_l2_ns, costs->gather_ns);
			build_calls = npasses * SORT_CALLS + DIRECT_CALLS;
			break;
	}
	prediction->in_ns = (b + p) * w * costs->in_mb_ns / HJG_MODEL_MB;
	prediction->build_ns = build_ns;
	prediction->probe_ns = probe_ns + p * w * stream_ns;
	prediction->build_calls_ns = build_calls * costs->call_ns;
	prediction->probe_calls_ns = nchunks * chunk_calls * costs->call_ns;
	prediction->out_ns = size->pairs * HJG_MODEL_PAIR_BYTES * costs->out_mb_ns / HJG_MODEL_MB;
	return true;
}
