/*
 * model_cuda_calibrate.c
 *	  Joins on a GPU: unit costs from measured joins.
 *
 * Each trial is made for one or two of the costs; what else is in its times is known by then and is
 * taken off.  The large table is some times the cache of any GPU there is.
 */
#include "model/hjg_cuda_model.h"

#include <math.h>

#define MB (1024.0 * 1024.0)
#define KEY_BYTES 4.0
#define ROW_BYTES 8.0			/* a key and its row number, as partitions hold them */
#define PAIR_BYTES 8.0
#define SORT_BITS 8.0
#define SMALL_ROWS 65536
#define LARGE_ROWS 8000000
#define PROBE_ROWS 4000000

/* Where a difference of two measured times should be positive and is not. */
#define LEAST_NS 1e-4

const HjgCudaTrial hjg_cuda_trials[HJG_CUDA_NTRIALS] = {
	[HJG_CUDA_TRIAL_SMALL] = {.strategy = HJG_CUDA_TABLE, .build_rows = SMALL_ROWS, .probe_rows = PROBE_ROWS},
	[HJG_CUDA_TRIAL_PAIRS] = {.strategy = HJG_CUDA_TABLE, .build_rows = SMALL_ROWS, .probe_rows = PROBE_ROWS, .matching = true},
	[HJG_CUDA_TRIAL_LARGE] = {.strategy = HJG_CUDA_TABLE, .build_rows = LARGE_ROWS, .probe_rows = PROBE_ROWS},
	[HJG_CUDA_TRIAL_PARTITIONED] = {.strategy = HJG_CUDA_RADIX1, .build_rows = LARGE_ROWS, .probe_rows = PROBE_ROWS},
	[HJG_CUDA_TRIAL_SORTED] = {.strategy = HJG_CUDA_CSR, .build_rows = LARGE_ROWS, .probe_rows = PROBE_ROWS},
};

static double
positive(double ns)
{
	return fmax(ns, LEAST_NS);
}

void
hjg_cuda_calibrate(HjgCudaUnitCosts *costs, const HjgCudaTrial *trials, double l2_bytes)
{
	const HjgCudaTrial *small = &trials[HJG_CUDA_TRIAL_SMALL];
	const HjgCudaTrial *pairs = &trials[HJG_CUDA_TRIAL_PAIRS];
	const HjgCudaTrial *large = &trials[HJG_CUDA_TRIAL_LARGE];
	const HjgCudaTrial *parts = &trials[HJG_CUDA_TRIAL_PARTITIONED];
	const HjgCudaTrial *sorted = &trials[HJG_CUDA_TRIAL_SORTED];
	const double rows = parts->build_rows + parts->probe_rows;
	const double table_bytes = HJG_CUDA_TABLE_BYTES(large->build_rows);
	double		stream_ns;

	costs->in_mb_ns = positive(large->transfer_ns / ((large->build_rows + large->probe_rows) * KEY_BYTES)) * MB;
	costs->out_mb_ns = positive((pairs->transfer_ns - small->transfer_ns) / (pairs->probe_rows * PAIR_BYTES)) * MB;

	stream_ns = positive(parts->partition_ns / (rows * HJG_CUDA_PASS_BYTES(KEY_BYTES, 1)));
	costs->stream_mb_ns = stream_ns * MB;
	costs->part_row_ns = positive(parts->probe_ns / rows - ROW_BYTES * stream_ns);
	costs->sort_row_ns = positive(sorted->partition_ns / (ceil(log2(sorted->build_rows) / SORT_BITS) * sorted->build_rows));

	costs->gather_l2_ns = positive(small->probe_ns / small->probe_rows - KEY_BYTES * stream_ns);
	costs->gather_ns = hjg_cuda_beyond_ns(table_bytes, l2_bytes, costs->gather_l2_ns,
										  positive(large->probe_ns / large->probe_rows - KEY_BYTES * stream_ns));
	costs->insert_l2_ns = positive((small->build_ns - HJG_CUDA_TABLE_BYTES(small->build_rows) * stream_ns) /
								   small->build_rows - KEY_BYTES * stream_ns);
	costs->insert_ns = hjg_cuda_beyond_ns(table_bytes, l2_bytes, costs->insert_l2_ns,
										  positive((large->build_ns - table_bytes * stream_ns) / large->build_rows -
												   KEY_BYTES * stream_ns));
}
