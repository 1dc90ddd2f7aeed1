/*
 * model_cuda.c
 *	  Unit costs times sizes, strategy by strategy.
 *
 * The defaults were measured on an H100 80GB HBM3.  Random reads of 8 bytes: 131 G/s up to 24 MiB, 84 at 40, 53
 * at 64, 32 from 1 GiB on; hence the share of a table that counts as cached.
 */
#include "model/hjg_cuda_model.h"

#include <math.h>

#define MB (1024.0 * 1024.0)

/* Of the L2 cache, what a table that is read at random finds there. */
#define L2_SHARE 0.75

#define TABLE_SLOT_BYTES (8.0 / 0.6)	/* of "table": 8 bytes at a load of 60 % */
#define PACKED_SLOT_BYTES (32.0 / 5 / 0.6)	/* of "packed": five slots a sector */
#define ROW_BYTES 4.0			/* a row number */
#define PAIR_BYTES 8.0
#define SORT_BITS 8.0			/* of a pass */

/* Calls of the driver: for a build side, and for each chunk beside its copies. */
#define CHUNK_CALLS 4.0			/* two copies, a zeroed counter and its way back */
#define DIRECT_CALLS 5.0
#define TABLE_CALLS 4.0
#define RADIX_CALLS 4.0			/* of a side and a pass */
#define SORT_CALLS 4.0			/* of a pass */

const HjgCudaUnitCosts hjg_cuda_default_costs = {
	.context_ns = 250e6,
	.call_ns = 5000,
	.in_mb_ns = MB / 54.7,
	.out_mb_ns = MB / 55.1,
	.stream_mb_ns = MB / 3000.0,
	.gather_l2_ns = 1 / 120.0,
	.gather_ns = 1 / 32.0,
	.insert_l2_ns = 1 / 25.0,
	.insert_ns = 1 / 11.0,
	.sort_row_ns = 0.02,
	.part_row_ns = 0.005,
};

bool
hjg_cuda_costs_valid(const HjgCudaUnitCosts *costs)
{
	const double *value = (const double *) costs;
	const double *reference = (const double *) &hjg_cuda_default_costs;

	for (int i = 0; i < HJG_CUDA_MODEL_NCOSTS; i++)
		if (!isfinite(value[i]) || value[i] < reference[i] / 1000 || value[i] > reference[i] * 1000)
			return false;
	return true;
}

/* Of a table of so many bytes a part is in the cache. */
static double
mixed_ns(double bytes, double l2_bytes, double cached_ns, double beyond_ns)
{
	const double cached = fmin(1, l2_bytes * L2_SHARE / fmax(bytes, 1));

	return cached * cached_ns + (1 - cached) * beyond_ns;
}

bool
hjg_cuda_predict(const HjgCudaUnitCosts *costs, const HjgCudaJoinSize *size, HjgCudaStrategyId strategy,
				 HjgCudaPrediction *prediction)
{
	const double b = size->build_rows;
	const double p = size->probe_rows;
	const double w = size->key_width;
	const double nchunks = ceil(fmax(p, 1) / fmax(size->chunk_rows, 1));
	const double stream_ns = costs->stream_mb_ns / MB;
	double		npasses = 1;
	double		bytes;
	double		build_ns;
	double		probe_ns;
	double		build_calls;
	double		chunk_calls = CHUNK_CALLS + 1;

	switch (strategy)
	{
		case HJG_CUDA_DIRECT:
			bytes = b * ROW_BYTES;
			build_ns = b * (2 * w + ROW_BYTES) * stream_ns +
				b * mixed_ns(bytes, size->l2_bytes, costs->insert_l2_ns, costs->insert_ns);
			probe_ns = p * mixed_ns(bytes, size->l2_bytes, costs->gather_l2_ns, costs->gather_ns);
			build_calls = DIRECT_CALLS;
			break;
		case HJG_CUDA_PACKED:
		case HJG_CUDA_TABLE:
			bytes = b * (strategy == HJG_CUDA_PACKED ? PACKED_SLOT_BYTES : TABLE_SLOT_BYTES);
			build_ns = (b * w + bytes) * stream_ns +
				b * mixed_ns(bytes, size->l2_bytes, costs->insert_l2_ns, costs->insert_ns);
			probe_ns = p * mixed_ns(bytes, size->l2_bytes, costs->gather_l2_ns, costs->gather_ns);
			/* of wider keys there is a tag in the table, and the key in its column */
			if (size->key_width > HJG_KEY_WIDTH_4)
				probe_ns += p * mixed_ns(bytes + b * w, size->l2_bytes, costs->gather_l2_ns, costs->gather_ns);
			build_calls = TABLE_CALLS;
			break;
		case HJG_CUDA_RADIX2:
			npasses = 2;
			/* FALLTHROUGH */
		case HJG_CUDA_RADIX1:
			bytes = w + ROW_BYTES;
			build_ns = b * (w + 2 * npasses * bytes) * stream_ns;
			/* each chunk meets the whole build side */
			probe_ns = p * ((w + (2 * npasses + 1) * bytes) * stream_ns + costs->part_row_ns) +
				nchunks * b * (bytes * stream_ns + costs->part_row_ns);
			build_calls = npasses * RADIX_CALLS;
			chunk_calls += npasses * RADIX_CALLS;
			break;
		case HJG_CUDA_CSR:
			npasses = ceil(log2(fmax(b, 2)) / SORT_BITS);
			bytes = b * (w + 2 * ROW_BYTES);
			build_ns = npasses * b * costs->sort_row_ns + 2 * bytes * stream_ns;
			/* the directory, a key and a row number */
			probe_ns = 3 * p * mixed_ns(bytes, size->l2_bytes, costs->gather_l2_ns, costs->gather_ns);
			build_calls = npasses * SORT_CALLS + DIRECT_CALLS;
			break;
		default:
			return false;
	}
	prediction->in_ns = (b + p) * w * costs->in_mb_ns / MB + costs->call_ns;
	prediction->build_ns = build_ns + build_calls * costs->call_ns;
	prediction->probe_ns = probe_ns + p * w * stream_ns + nchunks * chunk_calls * costs->call_ns;
	prediction->out_ns = size->pairs * PAIR_BYTES * costs->out_mb_ns / MB;
	return true;
}
