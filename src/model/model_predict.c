/*
 * model_predict.c
 *	  Unit costs times sizes, for each phase.
 *
 * The backend is one thread that marshals and emits while the engine works.  So the engine's probe time
 * counts only as far as it exceeds the backend's, but the backend waits for the build.
 *
 * The participants of a shared join marshal and emit side by side.  The model assumes that they leave the
 * engine no processor of its own, so no engine time is hidden.  Without a device process each participant
 * builds a table of all build rows.
 *
 * A row that a join of ours below hands over in a vector costs about as much as a payload column, for both
 * joins: the emit_tuple in that join's price is not spent.
 */
#include "model/hjg_model.h"

#include <math.h>
#include <stddef.h>


/* Keys up to which a filter, of 12 bits a key, stays in a second-level cache. */
#define BLOOM_CACHED_KEYS 131072

/* Joins over which the cost of the context is spread: it lives as long as the process. */
#define CONTEXT_JOINS 16

/* A column of fixed width in a row that is copied with others; at most column_ns. */
#define BULK_COLUMN_NS 1.0

const HjgUnitCosts hjg_model_default_costs = {
	.small_unit_ns = 6000,
	.large_unit_ns = 22000,
	.startup_ns = 40000,
	.job_ns = 250000,
	.marshal_tuple_ns = 18,
	.hash_key_ns = 25,
	.column_ns = 5,
	.varlena_ns = 35,
	.build_tuple_ns = 20,
	.probe_tuple_ns = 14,
	.dense_build_ns = 8,
	.dense_probe_ns = 6,
	.emit_tuple_ns = 18,
	.spill_tuple_ns = 180,
	.spill_mb_ns = 800000,
	.transfer_mb_ns = 0,
	.scan_tuple_ns = 30,
	.direct_tuple_ns = 4,
	.page_ns = 150,
	.fixed_column_ns = 0.6,
	.walk_ns = 1,
	.far_walk_ns = 0.8,
	.test_ns = {
		[HJG_TEST_FIXED] = 1.5,
		[HJG_TEST_BYTES] = 6,
		[HJG_TEST_LIKE] = 25,
		[HJG_TEST_NUMERIC] = 5,
	},
	.code_test_ns = 0.45,
	.check_mb_ns = 100000,
	.core_row_ns = 45,
	.core_operator_ns = 30,
	.memory_mb_ns = 250000,
	.line_ns = 10,
	.map_mb_ns = 50000,
	.bloom_add_ns = 8,
	.bloom_test_ns = 4.5,
	.bloom_cached_ns = 1.5,
	.lookup_ns = 900,
	.fetch_ns = 120,
	.miss_ns = 90,
	.launch_ns = 1500000,
	.program_row_ns = 7.5,
	/* an older GPU on PCIe 3: an unmeasured GPU must not look better than it is */
	.cuda = {
		.context_ns = 300e6,
		.call_ns = 10000,
		.in_mb_ns = 87000,
		.out_mb_ns = 87000,
		.stream_mb_ns = 4200,
		.gather_l2_ns = 0.06,
		.gather_ns = 0.3,
		.insert_l2_ns = 0.3,
		.insert_ns = 0.8,
		.sort_row_ns = 0.2,
		.part_row_ns = 0.05,
	},
};

/* Choose the larger number; fmax() is a call, because it treats NaNs specially. */
static inline double
larger_of(double a, double b)
{
	return a > b ? a : b;
}

static inline double
smaller_of(double a, double b)
{
	return a < b ? a : b;
}

static bool
is_plausible(double value, double reference)
{
	if (!isfinite(value) || value < 0)
		return false;
	return reference == 0 ? value < 1e9 : value > reference / 1000 && value < reference * 1000;
}

int
hjg_model_implausible_cost(const HjgUnitCosts *costs)
{
	const double *value = (const double *) costs;
	const double *reference = (const double *) &hjg_model_default_costs;

	for (int i = 0; i < HJG_MODEL_NCOSTS; i++)
		if (!is_plausible(value[i], reference[i]))
			return i;
	return -1;
}

bool
hjg_model_costs_valid(const HjgUnitCosts *costs)
{
	return hjg_model_implausible_cost(costs) < 0;
}

double
hjg_gpu_identity(const char *description)
{
	hjg_u32		hash = 2166136261u; /* FNV-1a */

	for (; *description != '\0'; description++)
		hash = (hash ^ (unsigned char) *description) * 16777619u;
	return 1.0 + hash;
}

const HjgCudaUnitCosts *
hjg_model_gpu_costs(const HjgCalibration *calibration, int number, double identity)
{
	HjgUnitCosts costs = hjg_model_default_costs;

	if (number < 0 || number >= HJG_MODEL_GPUS || calibration->gpus[number].identity != identity)
		return NULL;
	costs.cuda = calibration->gpus[number].costs;
	return hjg_model_costs_valid(&costs) ? &calibration->gpus[number].costs : NULL;
}

double
hjg_model_cost_unit_ns(const HjgUnitCosts *costs, double build_rows)
{
	const double small_log = 13;
	const double large_log = 20;
	double		rows_log;
	double		slope;

	/* most calls of the planner end here */
	if (build_rows <= 8192)
		return costs->small_unit_ns;
	rows_log = smaller_of(log2(build_rows), large_log + 2);
	slope = (costs->large_unit_ns - costs->small_unit_ns) / (large_log - small_log);
	return larger_of(costs->small_unit_ns + slope * (rows_log - small_log), costs->small_unit_ns / 2);
}

/* True if the table will be an array by key; without a job, several participants never share one. */
static bool
is_array(const HjgJoinShape *shape)
{
	return shape->dense && (shape->nthreads > 0 || shape->participants <= 1);
}

static double
build_tuple_ns(const HjgUnitCosts *costs, const HjgJoinShape *shape)
{
	return is_array(shape) ? costs->dense_build_ns : costs->build_tuple_ns;
}

static double
probe_tuple_ns(const HjgUnitCosts *costs, const HjgJoinShape *shape)
{
	return is_array(shape) ? costs->dense_probe_ns : costs->probe_tuple_ns;
}

/* Predict a row's time through temporary files. */
static double
spill_row_ns(const HjgUnitCosts *costs, const HjgJoinShape *shape, double width)
{
	return shape->spill_passes * (costs->spill_tuple_ns + costs->spill_mb_ns * width / (1024.0 * 1024.0));
}

/* Predict the time of rows from the child to the batch. */
static double
marshal_ns(const HjgUnitCosts *costs, const HjgJoinShape *shape, double rows, const HjgScanTimes *scan,
		   bool vectors, int ncolumns, int nvarlenas, double width)
{
	double		take_ns = vectors ? costs->column_ns : costs->marshal_tuple_ns;
	double		row_ns = costs->hash_key_ns * shape->nhashed_keys +
		costs->column_ns * (shape->nkeys > 1 ? shape->nkeys - 1 : 0) +
		costs->column_ns * ncolumns + costs->varlena_ns * nvarlenas +
		spill_row_ns(costs, shape, width);

	return rows * row_ns + (scan->own_ns > 0 ? scan->own_ns : rows * take_ns);
}

/* Compute the part of a child join's price that is not spent when its rows come in vectors. */
static double
saved_ns(const HjgUnitCosts *costs, double rows, bool vectors)
{
	return vectors ? rows * larger_of(costs->emit_tuple_ns - costs->column_ns, 0) : 0;
}

/* Count the probe rows that pass the filter. */
static double
passing_rows(const HjgJoinShape *shape)
{
	return shape->probe_rows * smaller_of(shape->partnered + HJG_BLOOM_FALSE_SHARE, 1);
}

/*
 * Predict the part of marshalling a probe row that a dropped row saves.  Columns of vectors are copied
 * many rows at a time.
 */
static double
payload_row_ns(const HjgUnitCosts *costs, const HjgJoinShape *shape)
{
	const bool	vectors = shape->probe_scan.own_ns > 0 || shape->probe_vectors;
	const double column_ns = vectors ? smaller_of(costs->column_ns, BULK_COLUMN_NS) : costs->column_ns;

	return column_ns * shape->probe_columns + costs->varlena_ns * shape->probe_varlenas +
		spill_row_ns(costs, shape, shape->probe_width);
}

/* Predict the time in which a participant adds the keys that it reads to the filter. */
static double
bloom_add_ns(const HjgUnitCosts *costs, const HjgJoinShape *shape)
{
	return shape->build_rows * costs->bloom_add_ns;
}

/*
 * Predict the time in which it tests its rows with the filter, in a table's scan after reading the keys of a page's rows, or of kept
 * columns.
 */
static double
bloom_test_ns(const HjgUnitCosts *costs, const HjgJoinShape *shape)
{
	const HjgScanTimes *scan = &shape->probe_scan;
	const bool	cached = shape->build_rows * larger_of(shape->participants, 1) <= BLOOM_CACHED_KEYS;
	const double test_ns = cached ? costs->bloom_cached_ns : costs->bloom_test_ns;

	if (scan->own_ns <= 0)
		return shape->probe_rows * test_ns;
	return scan->filter_rows *
		((1 - scan->kept_share) * costs->direct_tuple_ns + scan->kept_share * shape->nkeys * costs->fixed_column_ns + test_ns);
}

static double
dropped_share(const HjgJoinShape *shape)
{
	return 1 - passing_rows(shape) / larger_of(shape->probe_rows, 1);
}

/* Predict what the filter saves of marshalling. */
static double
unmarshalled_ns(const HjgUnitCosts *costs, const HjgJoinShape *shape)
{
	return shape->in_place ? 0 : dropped_share(shape) * shape->probe_rows * payload_row_ns(costs, shape);
}

double
hjg_model_filtering_ns(const HjgUnitCosts *costs, const HjgJoinShape *shape)
{
	const HjgScanTimes *scan = &shape->probe_scan;
	const double dropped = dropped_share(shape);
	const int	nothers = scan->nwanted > shape->nkeys ? scan->nwanted - shape->nkeys : 0;

	return bloom_test_ns(costs, shape) - dropped * scan->late_ns +
		hjg_model_sparse_ns(costs, scan->kept_rows, scan->kept_passing * (1 - dropped), nothers) -
		hjg_model_sparse_ns(costs, scan->kept_rows, scan->kept_passing, nothers);
}

/*
 * A dropped row saves the reading of its columns, its marshalling, unless it is probed in place, and the engine's time where the
 * backend waits for the engine: in the backend, or with several participants.  Milliseconds without a
 * filter and with one, 5M x 250K rows, one in 20 with a partner: an int4 as payload 130 and 140, by four
 * participants 75 and 63; a text 245 and 190, by four 111 and 79; through temporary files 955 and 312.
 */
bool
hjg_model_bloom_pays(const HjgUnitCosts *costs, const HjgJoinShape *shape)
{
	double		kept_row_ns = 0;

	if (shape->nthreads == 0 || shape->participants > 1)
		kept_row_ns = costs->transfer_mb_ns * shape->key_width / (1024.0 * 1024.0) +
			probe_tuple_ns(costs, shape) / larger_of(shape->nthreads, 1);
	return bloom_add_ns(costs, shape) + hjg_model_filtering_ns(costs, shape) < unmarshalled_ns(costs, shape) + (shape->probe_rows - passing_rows(shape)) * kept_row_ns;
}

/*
 * Predict the GPU's part of a join.  It works beside the backends and needs none of their threads.  A
 * batch is copied, joined and copied back as a whole.
 */
static void
predict_gpu(const HjgUnitCosts *costs, const HjgJoinShape *shape, double build_rows, double probe_rows, double pairs,
			HjgPrediction *prediction, double *build_ns, double *probe_ns)
{
	/* the density of keys is unknown */
	const hjg_u32 met = (shape->build_unique ? HJG_NEEDS_UNIQUE : 0) | (shape->key_width == HJG_KEY_WIDTH_4 ? HJG_NEEDS_4 : 0);
	const HjgCudaJoinSize size = {
		.key_width = shape->key_width, .build_rows = build_rows, .probe_rows = probe_rows,
		.chunk_rows = HJG_LARGEST_BATCH_ROWS, .pairs = pairs, .l2_bytes = shape->gpu_l2_bytes
	};
	HjgCudaPrediction best = {0};
	bool		found = false;
	double		build_in;

	for (int id = HJG_CUDA_FIRST; id <= HJG_CUDA_LAST; id++)
	{
		HjgCudaPrediction own;

		if ((hjg_strategy_needs(id) & ~met) != 0 || !hjg_model_cuda_predict(&costs->cuda, &size, (HjgCudaStrategyId) id, &own) ||
			(found && hjg_model_cuda_joining_ns(&own) >= hjg_model_cuda_joining_ns(&best)))
			continue;
		best = own;
		found = true;
	}
	build_in = best.in_ns * build_rows / larger_of(build_rows + probe_rows, 1);
	*build_ns = build_in + best.build_ns + best.build_calls_ns +
		(shape->gpu_cold ? costs->cuda.context_ns / CONTEXT_JOINS : 0);
	*probe_ns = best.in_ns - build_in + best.probe_ns + best.probe_calls_ns + best.out_ns;
	prediction->transfer_ns = best.in_ns + best.out_ns;
	prediction->gpu_build_ns = best.build_ns;
	prediction->gpu_probe_ns = best.probe_ns;
}

void
hjg_model_predict(const HjgUnitCosts *costs, const HjgJoinShape *shape, HjgPrediction *prediction)
{
	double		participants = larger_of(shape->participants, 1);
	double		threads = shape->nthreads > 0 ? larger_of(shape->nthreads, participants) : 1;
	double		kept_rows = shape->bloom ? passing_rows(shape) : shape->probe_rows;
	double		total_kept_rows = kept_rows * (shape->nthreads > 0 ? participants : 1);
	double		mb = 1024.0 * 1024.0;
	double		engine_ns;
	double		backend_ns;

	/* participants that wait for one another take about as long as a job's messages */
	prediction->startup_ns = costs->startup_ns + (shape->nthreads > 0 || participants > 1 ? costs->job_ns : 0);
	prediction->marshal_build_ns = marshal_ns(costs, shape, shape->build_rows, &shape->build_scan,
											  shape->build_vectors, shape->build_columns,
											  shape->build_varlenas, shape->build_width);
	prediction->build_ns = shape->build_rows * participants *
		(build_tuple_ns(costs, shape) / threads + costs->transfer_mb_ns * shape->key_width / mb) +
		costs->memory_mb_ns * shape->build_bytes / mb;
	prediction->marshal_probe_ns = marshal_ns(costs, shape, shape->probe_rows, &shape->probe_scan,
											  shape->probe_vectors,
											  shape->in_place ? 0 : shape->probe_columns,
											  shape->in_place ? 0 : shape->probe_varlenas, shape->probe_width);
	if (shape->bloom)
		prediction->marshal_probe_ns += bloom_add_ns(costs, shape) + hjg_model_filtering_ns(costs, shape) - unmarshalled_ns(costs, shape);
	prediction->wait_build_ns = hjg_model_wait_ns(&shape->build_scan, 0);
	prediction->wait_probe_ns = hjg_model_wait_ns(&shape->probe_scan, shape->bloom ? hjg_model_filtering_ns(costs, shape) : 0);
	prediction->emit_ns = shape->pairs *
		(costs->emit_tuple_ns + costs->column_ns * (shape->build_columns + shape->probe_columns));

	engine_ns = total_kept_rows * probe_tuple_ns(costs, shape) / threads +
		costs->transfer_mb_ns * participants * (kept_rows * shape->key_width + shape->pairs * 8) / mb;
	backend_ns = prediction->marshal_probe_ns + prediction->wait_probe_ns + prediction->emit_ns;
	prediction->transfer_ns = prediction->gpu_build_ns = prediction->gpu_probe_ns = 0;
	if (shape->gpu)
	{
		double		build_ns;

		predict_gpu(costs, shape, shape->build_rows * participants, total_kept_rows,
					shape->pairs * participants, prediction, &build_ns, &engine_ns);
		prediction->build_ns = build_ns + costs->memory_mb_ns * shape->build_bytes / mb;
	}
	else if (shape->engine != NULL)
	{
		const double build_rows = shape->build_rows * participants;

		prediction->build_ns = hjg_model_engine_build_ns(shape->engine, build_rows) + costs->memory_mb_ns * shape->build_bytes / mb;
		engine_ns = hjg_model_engine_probe_ns(shape->engine, build_rows, total_kept_rows);
	}
	if (shape->gpu || (shape->nthreads > 0 && participants == 1))
		prediction->probe_ns = engine_ns > backend_ns ? engine_ns - backend_ns : 0;
	else
		prediction->probe_ns = engine_ns;

	prediction->total_ns = prediction->startup_ns + prediction->marshal_build_ns + prediction->build_ns +
		prediction->marshal_probe_ns + prediction->probe_ns + prediction->emit_ns +
		prediction->wait_build_ns + prediction->wait_probe_ns;
	prediction->saved_build_ns = saved_ns(costs, shape->build_rows, shape->build_vectors);
	prediction->saved_probe_ns = saved_ns(costs, shape->probe_rows, shape->probe_vectors);
}
