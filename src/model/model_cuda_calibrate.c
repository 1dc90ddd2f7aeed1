/*
 * model_cuda_calibrate.c
 *	  Joins on a GPU: unit costs from measured joins.
 *
 * Each trial yields one or two costs, after the parts of its times that are already known are subtracted.
 * The large table is several times as large as any GPU's cache.
 */
#include "model/hjg_cuda_model.h"

#include <math.h>

#define KEY_BYTES 4.0
#define PART_ROW_BYTES 8.0			/* a key and its row number, as partitions hold them */
#define LEAST_SMALL_ROWS 65536.0
#define LARGE_ROWS 16000000.0
#define PROBE_ROWS (4.0 * HJG_CUDA_TRIAL_CHUNK)

/* Replaces a difference of measured times that is not positive. */
#define LEAST_NS 1e-4

void
hjg_model_cuda_plan_trials(HjgCudaTrial trials[HJG_CUDA_NTRIALS], double l2_bytes)
{
	const double small_rows = fmin(fmax(l2_bytes / 4 / HJG_CUDA_TABLE_BYTES(1), LEAST_SMALL_ROWS), LARGE_ROWS / 8);

	for (int i = 0; i < HJG_CUDA_NTRIALS; i++)
		trials[i] = (HjgCudaTrial) {.strategy = HJG_CUDA_TABLE, .build_rows = LARGE_ROWS, .probe_rows = PROBE_ROWS};
	trials[HJG_CUDA_TRIAL_SMALL].build_rows = floor(small_rows);
	trials[HJG_CUDA_TRIAL_PAIRS].build_rows = floor(small_rows);
	trials[HJG_CUDA_TRIAL_PAIRS].matching = true;
	trials[HJG_CUDA_TRIAL_PARTITIONED].strategy = HJG_CUDA_RADIX1;
	trials[HJG_CUDA_TRIAL_SORTED].strategy = HJG_CUDA_CSR;
}

static double
bounded_ns(double ns)
{
	return fmax(ns, LEAST_NS);
}

static double
count_chunks(const HjgCudaTrial *trial)
{
	return ceil(trial->probe_rows / HJG_CUDA_TRIAL_CHUNK);
}

/* Compute the time for the rows of a probe side and of a build side, without launches. */
static double
probing_ns(const HjgCudaTrial *trial)
{
	return bounded_ns(trial->times.probe_ns - count_chunks(trial) * trial->idle.probe_ns);
}

static double
building_ns(const HjgCudaTrial *trial)
{
	return bounded_ns((double) trial->times.build_ns - (double) trial->idle.build_ns);
}

void
hjg_model_cuda_calibrate(HjgCudaUnitCosts *costs, const HjgCudaTrial *trials, double l2_bytes)
{
	const HjgCudaTrial *small = &trials[HJG_CUDA_TRIAL_SMALL];
	const HjgCudaTrial *pairs = &trials[HJG_CUDA_TRIAL_PAIRS];
	const HjgCudaTrial *large = &trials[HJG_CUDA_TRIAL_LARGE];
	const HjgCudaTrial *parts = &trials[HJG_CUDA_TRIAL_PARTITIONED];
	const HjgCudaTrial *sorted = &trials[HJG_CUDA_TRIAL_SORTED];
	const double small_bytes = HJG_CUDA_TABLE_BYTES(small->build_rows);
	const double large_bytes = HJG_CUDA_TABLE_BYTES(large->build_rows);
	const double passes = ceil(log2(sorted->build_rows) / HJG_MODEL_SORT_BITS);
	double		stream_ns;

	costs->in_mb_ns = bounded_ns(large->times.transfer_ns / ((large->build_rows + large->probe_rows) * KEY_BYTES)) * HJG_MODEL_MB;
	costs->out_mb_ns = bounded_ns((pairs->times.transfer_ns -
								   (pairs->build_rows + pairs->probe_rows) * KEY_BYTES * costs->in_mb_ns / HJG_MODEL_MB) /
								  (pairs->probe_rows * HJG_MODEL_PAIR_BYTES)) * HJG_MODEL_MB;

	/* both sides of one row are partitioned, so each counts half */
	stream_ns = bounded_ns((parts->times.partition_ns - parts->idle.partition_ns * (1 + count_chunks(parts)) / 2) /
						   ((parts->build_rows + parts->probe_rows) * HJG_CUDA_PASS_BYTES(KEY_BYTES, 1)));
	costs->stream_mb_ns = stream_ns * HJG_MODEL_MB;
	/* each chunk meets the whole build side */
	costs->part_row_ns = bounded_ns(probing_ns(parts) / (parts->probe_rows + count_chunks(parts) * parts->build_rows) -
									PART_ROW_BYTES * stream_ns);
	costs->sort_row_ns = bounded_ns((sorted->times.partition_ns - passes * sorted->idle.partition_ns) /
									(passes * sorted->build_rows));

	costs->gather_l2_ns = bounded_ns(probing_ns(small) / small->probe_rows - KEY_BYTES * stream_ns);
	costs->gather_ns = hjg_model_cuda_beyond_ns(large_bytes, l2_bytes, costs->gather_l2_ns,
										  bounded_ns(probing_ns(large) / large->probe_rows - KEY_BYTES * stream_ns));
	costs->insert_l2_ns = bounded_ns((building_ns(small) - small_bytes * stream_ns) / small->build_rows - KEY_BYTES * stream_ns);
	costs->insert_ns = hjg_model_cuda_beyond_ns(large_bytes, l2_bytes, costs->insert_l2_ns,
										  bounded_ns((building_ns(large) - large_bytes * stream_ns) / large->build_rows -
													 KEY_BYTES * stream_ns));
}
