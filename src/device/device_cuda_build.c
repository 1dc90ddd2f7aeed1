/*
 * device_cuda_build.c
 *	  The driver "cuda": memory of a join, its build side, and the choice of its strategy.
 *
 * A join is admitted to the device's memory before it starts, with the most that it will hold at one time:
 * the build side with a strategy's table and the probe chunks, or the build side while it is sorted for
 * the csr table, whichever is more.  For a small budget the chunks are made smaller, then strategies are
 * left out.  A join that cannot be admitted is HJG_ERR_MEMORY, and the scheduler takes the cpu engine.
 *
 * Strategies are tried in the order of their predicted times (model_cuda.c), with exact build rows and the
 * probe rows that the planner expects.  Keys are not examined before: a strategy notices during the build
 * that they are not dense or not unique, which costs less than a pass over all rows.
 */
#include <string.h>

#include "device/hjg_cuda_join.h"
#include "model/hjg_model.h"

#define IMAGE "cuda_csr"
#define ADMISSION_WAIT_MS 200

static const HjgControl *control;

HJG_CUDA_KERNELS(mix_keys, IMAGE, "hjg_k_mix_keys");
HJG_CUDA_KERNEL(hjg_k_number_rows, IMAGE);

/* The plan of a build. */
typedef struct BuildPlan
{
	hjg_u64		nrows;
	bool		numbered;		/* row numbers differ from positions */
	const HjgCudaStrategy *tries[1 + HJG_CUDA_NRESIDENT];	/* in this order, then the csr table */
	int			ntries;
} BuildPlan;

HjgStatus
hjg_cuda_number_rows(HjgCudaStream *stream, HjgCudaPtr rows, hjg_u64 n, hjg_u32 first_row)
{
	return hjg_cuda_launch(stream, &hjg_k_number_rows, hjg_cuda_blocks(n, HJG_CUDA_BLOCK), HJG_CUDA_BLOCK, 0,
						   (void *[]) {&rows, &n, &first_row});
}

void
hjg_cuda_costs_open(const HjgControl *with)
{
	control = with;
}

/* Read the calibrated costs; each join reads them again. */
HjgUnitCosts
hjg_cuda_costs(const HjgCudaDevice *device)
{
	double		values[HJG_CALIBRATION_VALUES];
	HjgCalibration calibration;
	HjgUnitCosts costs = hjg_model_default_costs;
	const HjgCudaUnitCosts *own;

	if (control == NULL || !hjg_arena_calibration(control, values))
		return costs;
	memcpy(&calibration, values, sizeof(calibration));
	if (hjg_model_costs_valid(&calibration.machine))
		costs = calibration.machine;
	own = hjg_model_gpu_costs(&calibration, device->number, device->identity);
	if (own != NULL)
		costs.cuda = *own;
	return costs;
}

/* ---- memory ---- */

static size_t
numbers_bytes(const HjgCudaJoin *join)
{
	return hjg_cuda_block_bytes((size_t) join->chunk_rows * sizeof(hjg_u32));
}

/* Count the bytes of the csr table, built at once or after a strategy was dropped. */
static size_t
csr_bytes(const HjgCudaJoin *join, const BuildPlan *plan, bool late)
{
	const int	width = join->spec.key_width;
	const size_t chunks = hjg_cuda_chunk_bytes(width, join->chunk_rows) + (late ? numbers_bytes(join) : 0);
	const size_t building = hjg_cuda_csr_build_bytes(width, plan->nrows) + (late ? chunks : 0);
	const size_t probing = hjg_cuda_csr_bytes(width, plan->nrows) + chunks + hjg_cuda_window_bytes(join->chunk_rows);

	return building > probing ? building : probing;
}

static HjgCudaShape
shape_of(const HjgCudaJoin *join, const BuildPlan *plan)
{
	return (HjgCudaShape) {
		.key_width = join->spec.key_width, .mode = join->spec.mode, .build_rows = plan->nrows,
		.probe_rows = join->chunk_rows
	};
}

static bool
at_most_one(const HjgCudaJoin *join, const HjgCudaStrategy *strategy)
{
	return strategy->unique || join->spec.mode == HJG_MATCH_SEMI || join->spec.mode == HJG_MATCH_ANTI;
}

static size_t
strategy_bytes(const HjgCudaJoin *join, const BuildPlan *plan, const HjgCudaStrategy *strategy)
{
	const HjgCudaShape shape = shape_of(join, plan);
	const size_t late = at_most_one(join, strategy) ? 0 : csr_bytes(join, plan, true);
	const size_t bytes = hjg_cuda_block_bytes(plan->nrows * (size_t) shape.key_width) +
		(plan->numbered ? hjg_cuda_block_bytes(plan->nrows * sizeof(hjg_u32)) : 0) +
		strategy->bytes(join->device, &shape) +
		hjg_cuda_chunk_bytes(shape.key_width, join->chunk_rows) + numbers_bytes(join);

	return late > bytes ? late : bytes;
}

/* ---- the choice ---- */

static void
add_try(HjgCudaJoin *join, BuildPlan *plan, const HjgCudaStrategy *strategy)
{
	const HjgCudaShape shape = shape_of(join, plan);

	for (int i = 0; i < plan->ntries; i++)
		if (plan->tries[i] == strategy)
			return;
	if (strategy->suits(join->device, &shape))
		plan->tries[plan->ntries++] = strategy;
}

/* List the requested strategy first, if any; then those predicted to be faster than the csr table. */
static void
choose_strategies(HjgCudaJoin *join, BuildPlan *plan)
{
	const HjgCudaStrategy *asked = hjg_cuda_strategy_at((int) join->spec.strategy - HJG_CUDA_FIRST);
	const HjgCudaUnitCosts costs = hjg_cuda_costs(join->device).cuda;
	const double expected = (double) join->spec.probe_rows;
	const HjgCudaJoinSize size = {
		.key_width = join->spec.key_width, .build_rows = (double) plan->nrows,
		.probe_rows = expected > join->chunk_rows ? expected : join->chunk_rows,
		.chunk_rows = join->chunk_rows, .l2_bytes = (double) join->device->l2_bytes
	};
	double		least = 0;
	double		times[HJG_CUDA_NRESIDENT];
	HjgCudaPrediction csr;

	if ((int) join->spec.strategy == HJG_CUDA_CSR)
		return;
	if (asked != NULL)
		add_try(join, plan, asked);
	hjg_model_cuda_predict(&costs, &size, HJG_CUDA_CSR, &csr);
	for (int id = HJG_CUDA_FIRST; id < HJG_CUDA_CSR; id++)
	{
		HjgCudaPrediction own;

		hjg_model_cuda_predict(&costs, &size, (HjgCudaStrategyId) id, &own);
		times[id - HJG_CUDA_FIRST] = hjg_model_cuda_joining_ns(&own);
	}
	for (;;)
	{
		int			best = -1;

		for (int i = 0; i < (int) HJG_CUDA_NRESIDENT; i++)
			if (times[i] > least && times[i] < hjg_model_cuda_joining_ns(&csr) && (best < 0 || times[i] < times[best]))
				best = i;
		if (best < 0)
			return;
		least = times[best];
		add_try(join, plan, hjg_cuda_strategy_at(best));
	}
}

bool
hjg_cuda_build_fits(HjgCudaJoin *join, hjg_u64 nrows)
{
	const BuildPlan	plan = {.nrows = nrows, .numbered = true};

	join->chunk_rows = hjg_cuda_tuning.least_chunk_rows;
	return csr_bytes(join, &plan, false) <= hjg_cuda_pool_budget(join->device->pool);
}

static HjgStatus
admit_join(HjgCudaJoin *join, BuildPlan *plan)
{
	const size_t budget = hjg_cuda_pool_budget(join->device->pool);
	size_t		most = 0;
	int			kept = 0;

	join->chunk_rows = hjg_cuda_tuning.most_chunk_rows;
	while (join->chunk_rows > hjg_cuda_tuning.least_chunk_rows && csr_bytes(join, plan, false) > budget)
		join->chunk_rows /= 2;
	join->bounded = csr_bytes(join, plan, false) <= budget;
	if (join->bounded)
		most = csr_bytes(join, plan, false);
	choose_strategies(join, plan);
	for (int i = 0; i < plan->ntries; i++)
	{
		const size_t bytes = strategy_bytes(join, plan, plan->tries[i]);

		if (bytes > budget)
			continue;
		plan->tries[kept++] = plan->tries[i];
		if (bytes > most)
			most = bytes;
	}
	plan->ntries = kept;
	if (kept == 0 && !join->bounded)
		return HJG_ERR_MEMORY;
	if (most + hjg_cuda_payload_bytes(join) > budget)
		hjg_cuda_payload_drop(join);
	most += hjg_cuda_payload_bytes(join);
	return hjg_cuda_admit(join->device->pool, most, join->env, ADMISSION_WAIT_MS, &join->grant);
}

/* ---- the build side ---- */

/* Copy the keys in, and number the rows if their numbers differ from their positions. */
static HjgStatus
load_build(HjgCudaJoin *join, const BuildPlan *plan, const HjgSegment *segments, int nsegments)
{
	HjgCudaStream *stream = &join->streams->work;
	const size_t width = (size_t) join->spec.key_width;
	HjgStatus	status = hjg_cuda_alloc(stream, plan->nrows * width, &join->build.keys);
	hjg_u64		row = 0;
	size_t		queued = 0;

	join->build.nrows = plan->nrows;
	if (status == HJG_OK && plan->numbered)
		status = hjg_cuda_alloc(stream, plan->nrows * sizeof(hjg_u32), &join->build.rows);
	if (status == HJG_OK)
		status = hjg_cuda_mark(stream, HJG_CUDA_TRANSFER_IN);
	for (int i = 0; i < nsegments && status == HJG_OK; i++)
	{
		const hjg_u32 n = segments[i].nrows;

		hjg_cuda_region_pin(segments[i].keys);
		status = hjg_cuda_copy_in(stream, join->build.keys + row * width, segments[i].keys, n * width);
		if (status == HJG_OK && plan->numbered)
			status = hjg_cuda_number_rows(stream, join->build.rows + row * sizeof(hjg_u32), n, segments[i].first_row);
		if (status == HJG_OK)
			status = hjg_cuda_pace(stream, &queued, n * width);
		row += n;
	}
	return status;
}

static void
free_build(HjgCudaJoin *join)
{
	HjgCudaStream *stream = &join->streams->work;

	if (join->strategy != NULL)
		join->strategy->free(stream, join->table);
	join->strategy = NULL;
	hjg_cuda_free(stream, join->build.keys);
	hjg_cuda_free(stream, join->build.rows);
	join->build = (HjgCudaSide) {0};
	hjg_cuda_csr_free(stream, &join->csr);
}

HjgStatus
hjg_cuda_use_csr(HjgCudaJoin *join)
{
	HjgCudaStream *stream = &join->streams->work;
	HjgCudaCsr *csr = &join->csr;
	hjg_u64		nrows = join->build.nrows;
	HjgStatus	status = hjg_cuda_streams_wait(join->streams);

	if (status != HJG_OK)
		return status;
	if (join->strategy != NULL)
		join->strategy->free(stream, join->table);
	join->strategy = NULL;
	csr->width = join->spec.key_width;
	csr->keys = join->build.keys;
	csr->rows = join->build.rows;
	join->build = (HjgCudaSide) {0};
	status = hjg_cuda_mark(stream, HJG_CUDA_BUILD);
	if (status == HJG_OK && csr->rows == 0)
	{
		status = hjg_cuda_alloc(stream, nrows * sizeof(hjg_u32), &csr->rows);
		if (status == HJG_OK)
			status = hjg_cuda_number_rows(stream, csr->rows, nrows, 0);
	}
	if (status == HJG_OK)
		status = hjg_cuda_launch(stream, &mix_keys[hjg_cuda_width_ix(csr->width)], hjg_cuda_blocks(nrows, HJG_CUDA_BLOCK),
								 HJG_CUDA_BLOCK, 0, (void *[]) {&csr->keys, &nrows});
	return status == HJG_OK ? hjg_cuda_csr_build(stream, &join->streams->header->facts, csr, nrows) : status;
}

HjgStatus
hjg_cuda_build_join(HjgCudaJoin *join, const HjgSegment *segments, int nsegments)
{
	BuildPlan		plan = {0};
	hjg_u64		next_row = 0;
	HjgCudaShape shape;
	HjgStatus	status;

	for (int i = 0; i < nsegments; i++)
	{
		if (segments[i].nrows == 0)
			continue;
		if (segments[i].first_row < next_row)
			return HJG_ERR_INPUT;
		plan.numbered |= segments[i].first_row != plan.nrows;
		next_row = (hjg_u64) segments[i].first_row + segments[i].nrows;
		plan.nrows += segments[i].nrows;
	}
	if (plan.nrows > HJG_MAX_BUILD_ROWS || next_row > HJG_NO_ROW)
		return HJG_ERR_INPUT;
	hjg_cuda_payload_plan(join, segments, nsegments, plan.nrows, next_row);
	status = admit_join(join, &plan);
	if (status != HJG_OK)
		return status;
	status = hjg_cuda_streams_take(join->device, join->env, &join->grant, &join->streams);
	if (status == HJG_OK)
		status = load_build(join, &plan, segments, nsegments);
	if (status == HJG_OK)
		status = hjg_cuda_payload_build(join, segments, nsegments);
	if (status != HJG_OK)
		return status;
	shape = shape_of(join, &plan);
	for (int i = 0; i < plan.ntries; i++)
	{
		status = hjg_cuda_strategy_build(plan.tries[i], &join->streams->work, &shape, &join->build, &join->table);
		if (status == HJG_OK)
		{
			join->strategy = plan.tries[i];
			return hjg_cuda_wait(&join->streams->work);
		}
		if (status != HJG_ERR_INPUT)
			return status;
	}
	return join->bounded ? hjg_cuda_use_csr(join) : HJG_ERR_MEMORY;
}

void
hjg_cuda_release(HjgCudaJoin *join)
{
	if (join->streams != NULL)
	{
		/* nothing may be in flight on other streams when the blocks are freed */
		(void) hjg_cuda_streams_wait(join->streams);
		if (join->owner == NULL)
			free_build(join);
		hjg_cuda_payload_free(join);
		hjg_cuda_free_chunks(join);
		hjg_cuda_streams_give(join->streams);
		join->streams = NULL;
	}
	hjg_cuda_dismiss(&join->grant);
}
