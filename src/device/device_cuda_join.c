/*
 * device_cuda_join.c
 *	  The driver "cuda": its face to the scheduler, and the buffers that chunks go through.
 *
 * What a round may ask for is in HjgCursor; which of the ways to probe gives it is decided in hjg_cuda_probe_rows().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/hjg_cuda_join.h"

/* How often to look for what is new: without the driver's library, with it, with a context. */
#define ABSENT_MS 30000
#define QUIET_MS 5000
#define BUSY_MS 1000

#define MEMORY_IDLE_MS 10000
#define REGION_IDLE_MS 60000

/* Bytes of a build side that are queued before the job's cancellation is looked at. */
#define COPY_STEP_BYTES ((size_t) 128 * 1024 * 1024)

HjgCudaTuning hjg_cuda_tuning = {.most_chunk_rows = 1u << 20, .least_chunk_rows = 1u << 16};

/* ---- copies from the arena ---- */

HjgStatus
hjg_cuda_bring_rows(HjgCudaLane *lane, HjgCudaOfRow what, size_t width, HjgCudaPtr to, const HjgSegment *segments, int nsegments,
				    hjg_u64 row, hjg_u64 n)
{
	HjgStatus	status = HJG_OK;

	for (int i = 0; i < nsegments && n > 0 && status == HJG_OK; i++)
	{
		const char *from = what == HJG_CUDA_CARRIED ? segments[i].carried : segments[i].keys;
		const hjg_u64 end = (hjg_u64) segments[i].first_row + segments[i].nrows;
		hjg_u64		m;

		if (row >= end)
			continue;
		m = end - row < n ? end - row : n;
		hjg_cuda_region_pin(from);
		status = hjg_cuda_copy_in(lane, to, from + (row - segments[i].first_row) * width, m * width);
		to += m * width;
		row += m;
		n -= m;
	}
	return status;
}

HjgStatus
hjg_cuda_pace(HjgCudaLane *lane, size_t *queued_bytes, size_t more_bytes)
{
	HjgStatus	status;

	*queued_bytes += more_bytes;
	if (*queued_bytes < COPY_STEP_BYTES)
		return HJG_OK;
	*queued_bytes = 0;
	status = hjg_cuda_wait(lane);
	return status == HJG_OK ? hjg_cuda_mark(lane, HJG_CUDA_TRANSFER_IN) : status;
}

/* ---- memory ---- */

size_t
hjg_cuda_chunk_bytes(int width, hjg_u32 rows)
{
	return 2 * hjg_cuda_block_bytes((size_t) rows * width) +
		HJG_CUDA_OUTS * hjg_cuda_block_bytes((size_t) rows * sizeof(HjgPair)) +
		hjg_cuda_block_bytes(sizeof(HjgCudaMail));
}

size_t
hjg_cuda_window_bytes(hjg_u32 rows)
{
	return hjg_cuda_block_bytes(((size_t) rows + 1) * sizeof(hjg_u64)) +
		hjg_cuda_block_bytes((size_t) rows * sizeof(hjg_u32)) +
		hjg_cuda_block_bytes(hjg_cuda_scan_entries((hjg_u64) rows + 1) * sizeof(hjg_u64));
}

HjgStatus
hjg_cuda_alloc_chunks(HjgCudaJoin *join)
{
	HjgCudaLane *lane = &join->lanes->work;
	const size_t rows = join->chunk_rows;
	HjgStatus	status;

	if (join->chunks)
		return HJG_OK;
	status = hjg_cuda_alloc(lane, sizeof(HjgCudaMail), &join->small);
	for (int i = 0; i < 2 && status == HJG_OK; i++)
		status = hjg_cuda_alloc(lane, rows * join->spec.key_width, &join->keys[i]);
	for (int i = 0; i < HJG_CUDA_OUTS && status == HJG_OK; i++)
		status = hjg_cuda_alloc(lane, rows * sizeof(HjgPair), &join->pairs[i]);
	if (status == HJG_OK && join->strategy != NULL)
		status = hjg_cuda_alloc(lane, rows * sizeof(hjg_u32), &join->numbers);
	if (status == HJG_OK)
		status = hjg_cuda_carry_alloc(join);
	join->chunks = status == HJG_OK;
	return status;
}

/* When first needed; after an error what there is goes with the join. */
static HjgStatus
alloc_windows(HjgCudaJoin *join)
{
	HjgCudaLane *lane = &join->lanes->work;
	const size_t rows = join->chunk_rows;
	HjgStatus	status;

	if (join->windows)
		return HJG_OK;
	status = hjg_cuda_alloc(lane, (rows + 1) * sizeof(hjg_u64), &join->offsets);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(lane, rows * sizeof(hjg_u32), &join->firsts);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(lane, hjg_cuda_scan_entries(rows + 1) * sizeof(hjg_u64), &join->sums);
	join->windows = status == HJG_OK;
	return status;
}

/* Give back what the join has of the device. */
static void
release_join(HjgCudaJoin *join)
{
	hjg_cuda_turns_close(join->turns);
	join->turns = NULL;
	if (join->lanes != NULL)
	{
		HjgCudaLane *lane = &join->lanes->work;

		/* nothing may be in flight on the other lanes when the blocks go */
		(void) hjg_cuda_lanes_wait(join->lanes);
		if (join->trunk == NULL)
			hjg_cuda_free_build(join);
		hjg_cuda_carry_free(join);
		hjg_cuda_free(lane, join->small);
		for (int i = 0; i < 2; i++)
			hjg_cuda_free(lane, join->keys[i]);
		for (int i = 0; i < HJG_CUDA_OUTS; i++)
			hjg_cuda_free(lane, join->pairs[i]);
		hjg_cuda_free(lane, join->numbers);
		hjg_cuda_free(lane, join->offsets);
		hjg_cuda_free(lane, join->firsts);
		hjg_cuda_free(lane, join->sums);
		hjg_cuda_lanes_give(join->lanes);
		join->lanes = NULL;
	}
	hjg_cuda_dismiss(&join->grant);
}

void
hjg_cuda_join_free(HjgCudaJoin *join)
{
	hjg_cuda_branches_free(join);
	release_join(join);
	free(join);
}

/* ---- building ---- */

static int
compare_segments(const void *a, const void *b)
{
	const HjgSegment *x = a;
	const HjgSegment *y = b;

	if (x->first_row != y->first_row)
		return x->first_row < y->first_row ? -1 : 1;
	return (x->nrows > y->nrows) - (x->nrows < y->nrows);
}

/* Note what is no fault of the job; the device rests after some of these. */
static void
note_error(const HjgCudaDevice *device, const HjgCudaJoin *join, HjgStatus status)
{
	const HjgCudaLanes *lanes = join->lanes;
	const char *text = "the driver refused";

	if (status != HJG_ERR_DEVICE)
		return;
	if (lanes != NULL)
		text = lanes->work.error[0] ? lanes->work.error : lanes->in.error[0] ? lanes->in.error :
			lanes->out[0].error[0] ? lanes->out[0].error : lanes->out[1].error;
	hjg_health_note(device->name.text, text);
}

static HjgStatus
cuda_build(int number, const HjgEnv *env, const HjgJoinSpec *spec, const HjgSegment *segments, int nsegments,
		   void **result)
{
	const HjgDeviceName name = hjg_device_name((HjgDeviceId) {HJG_KIND_CUDA, number});
	char		reason[128];
	HjgCudaDevice *device;
	HjgCudaJoin *join = calloc(1, sizeof(HjgCudaJoin));
	HjgSegment *sorted = malloc(((size_t) nsegments + 1) * sizeof(HjgSegment));
	HjgStatus	status;

	*result = NULL;
	if (join == NULL || sorted == NULL)
	{
		free(join);
		free(sorted);
		return HJG_ERR_MEMORY;
	}
	memcpy(sorted, segments, (size_t) nsegments * sizeof(HjgSegment));
	qsort(sorted, (size_t) nsegments, sizeof(HjgSegment), compare_segments);
	hjg_health_enter(name.text);
	device = hjg_cuda_enter(number, reason, sizeof(reason));
	if (device == NULL)
	{
		hjg_health_note(name.text, reason);
		free(join);
		join = NULL;
		status = HJG_ERR_DEVICE;
	}
	else
	{
		join->device = device;
		join->env = env;
		join->spec = *spec;
		hjg_cuda_region_enter();
		status = hjg_cuda_build_join(join, sorted, nsegments);
		note_error(device, join, status);
		if (status == HJG_ERR_MEMORY)
		{
			/* what it got of the memory may be what a turn needs */
			release_join(join);
			*join = (HjgCudaJoin) {.device = device, .env = env, .spec = *spec};
			status = hjg_cuda_turns_open(join, sorted, nsegments);
		}
		join->branching = join->turns == NULL && (join->strategy == NULL || join->strategy->shared);
		if (status != HJG_OK)
		{
			hjg_cuda_join_free(join);
			join = NULL;
		}
		hjg_cuda_region_leave();
	}
	hjg_health_leave(name.text);
	free(sorted);
	*result = join;
	return status;
}

/* ---- probing ---- */

/* Has no probe row more than one match? */
static bool
is_unique(const HjgCudaJoin *join)
{
	return join->strategy != NULL ? join->strategy->unique : join->csr.unique;
}

HjgStatus
hjg_cuda_probe_rows(HjgCudaJoin *join, const HjgSegment *segments, int nsegments, hjg_u64 nrows, HjgCursor *at,
					HjgResult *result)
{
	/* one match of each row, any one: that is a mode, but of a table that was not made for it */
	const HjgMatchMode mode = at->most == 1 ? HJG_MATCH_SEMI : join->spec.mode;
	const bool	single = mode == HJG_MATCH_SEMI || mode == HJG_MATCH_ANTI || is_unique(join);
	HjgStatus	status = hjg_cuda_alloc_chunks(join);

	if (status == HJG_OK)
		status = hjg_cuda_send_begin(join, result);
	if (status != HJG_OK)
		return status;
	if (join->strategy != NULL && !join->strategy->unique && (at->most > 0 || (!single && at->skip > 0)))
		status = HJG_ERR_INPUT;
	else if (single && at->skip > 0)
	{
		/* all that the row has, or all that any row has, was there before */
		at->row = at->most > 0 ? (hjg_u32) nrows : at->row + 1;
		at->skip = 0;
		return HJG_OK;
	}
	else if (single || join->strategy != NULL)
		status = hjg_cuda_probe_once(join, mode, single, segments, nsegments, nrows, at, result);
	else
	{
		status = alloc_windows(join);
		return status == HJG_OK ? hjg_cuda_probe_windows(join, segments, nsegments, nrows, at, result) : status;
	}
	if (status != HJG_ERR_INPUT || join->strategy == NULL || join->strategy->shared)
		return status;
	status = hjg_cuda_use_csr(join);
	return status == HJG_OK ? hjg_cuda_probe_rows(join, segments, nsegments, nrows, at, result) : status;
}

static HjgStatus
probe_join(HjgCudaJoin *join, const HjgSegment *segments, int nsegments, HjgCursor *at, HjgResult *result)
{
	const hjg_u64 capacity = result->npages > 0 ? (hjg_u64) result->npages * result->page_pairs : 0;
	hjg_u64		nrows = 0;

	for (int i = 0; i < nsegments; i++)
	{
		if (segments[i].nrows > 0 && segments[i].first_row != nrows)
			return HJG_ERR_INPUT;
		nrows += segments[i].nrows;
	}
	if (nrows > HJG_MAX_PROBE_ROWS || (at->row < nrows && capacity == 0) ||
		(at->most > 0 && (join->spec.mode != HJG_MATCH_ALL || at->most > capacity || (at->most == 1 && at->skip > 0))))
		return HJG_ERR_INPUT;
	result->npairs = 0;
	result->gathered = 0;
	result->summed = result->sum;
	result->checksum = 0;
	result->carried_sum = 0;
	if (at->row >= nrows)
		return HJG_OK;
	if (join->turns != NULL)
		return hjg_cuda_turns_probe(join->turns, segments, nsegments, nrows, at, result);
	result->gathered = hjg_cuda_carry_round(join, segments, nsegments);
	return hjg_cuda_probe_rows(join, segments, nsegments, nrows, at, result);
}

static HjgStatus
cuda_probe(void *arg, const HjgSegment *segments, int nsegments, HjgCursor *cursor, HjgResult *result)
{
	HjgCudaJoin *join = arg;
	HjgCursor	at = *cursor;
	char		reason[128];
	HjgStatus	status;
	HjgStatus	drained;

	hjg_health_enter(join->device->name.text);
	if (hjg_cuda_enter(join->device->number, reason, sizeof(reason)) == NULL)
	{
		hjg_health_note(join->device->name.text, reason);
		status = HJG_ERR_DEVICE;
	}
	else
	{
		hjg_cuda_region_enter();
		status = probe_join(join, segments, nsegments, &at, result);
		/* after an error too nothing may write to the pages any more */
		drained = join->lanes != NULL ? hjg_cuda_lanes_wait(join->lanes) : HJG_OK;
		if (status == HJG_OK)
			status = drained;
		if (status == HJG_OK && join->turns == NULL)
			status = hjg_cuda_send_end(join, result);
		note_error(join->device, join, status);
		hjg_cuda_region_leave();
	}
	if (status == HJG_OK)
		*cursor = at;
	hjg_health_leave(join->device->name.text);
	return status;
}

void
hjg_cuda_join_stats(const HjgCudaJoin *join, HjgJobStats *stats)
{
	const int	asked = (int) join->spec.strategy;

	stats->partition_ns = hjg_cuda_branches_ns(join, HJG_CUDA_PARTITION);
	stats->build_ns = hjg_cuda_branches_ns(join, HJG_CUDA_BUILD);
	stats->probe_ns = hjg_cuda_branches_ns(join, HJG_CUDA_PROBE);
	stats->transfer_ns = hjg_cuda_branches_ns(join, HJG_CUDA_TRANSFER_IN) + hjg_cuda_branches_ns(join, HJG_CUDA_TRANSFER_OUT);
	stats->gather_ns = hjg_cuda_branches_ns(join, HJG_CUDA_GATHER);
	stats->workspace_bytes = hjg_cuda_branches_peak_bytes(join);
	/* those of a strategy are its own affair */
	stats->npartitions = join->strategy == NULL;
	stats->strategy = HJG_CUDA_CSR;
	for (int i = 0; i < HJG_CUDA_NRESIDENT; i++)
		if (hjg_cuda_strategy_at(i) == join->strategy)
			stats->strategy = (hjg_u32) (HJG_CUDA_FIRST + i);
	stats->declined = hjg_is_cuda_strategy(asked) && stats->strategy != (hjg_u32) asked;
}

static void
cuda_stats(const void *arg, HjgJobStats *stats)
{
	const HjgCudaJoin *join = arg;

	if (join->turns != NULL)
		hjg_cuda_turns_stats(join->turns, stats);
	else
		hjg_cuda_join_stats(join, stats);
}

static void *
cuda_branch(void *arg, const HjgEnv *env)
{
	HjgCudaJoin *join = arg;
	HjgCudaJoin *branch = NULL;
	char		reason[128];

	hjg_health_enter(join->device->name.text);
	/* what is wrong with the device its next operation finds out */
	if (hjg_cuda_enter(join->device->number, reason, sizeof(reason)) != NULL)
		branch = hjg_cuda_branch_make(join, env);
	hjg_health_leave(join->device->name.text);
	return branch;
}

static void
cuda_free(void *arg)
{
	HjgCudaJoin *join = arg;
	char		reason[128];
	const HjgDeviceName name = join->device->name;

	hjg_health_enter(name.text);
	/* without the context its memory could never be given back */
	if (hjg_cuda_enter(join->device->number, reason, sizeof(reason)) == NULL)
		hjg_health_fatal(name.text, reason);
	hjg_cuda_join_free(join);
	hjg_health_leave(name.text);
}

/* Give back what no join has used for a while. */
static unsigned
cuda_tend(void)
{
	unsigned	next_ms = hjg_cuda.init == NULL ? ABSENT_MS : QUIET_MS;

	for (int number = 0; number < HJG_CUDA_MAX_DEVICES; number++)
	{
		HjgCudaDevice *device = hjg_cuda_made(number);

		if (device == NULL)
			continue;
		(void) hjg_cuda_pool_trim(device->pool, MEMORY_IDLE_MS);
		hjg_cuda_region_trim(REGION_IDLE_MS);
		next_ms = BUSY_MS;
	}
	return next_ms;
}

const HjgDriver hjg_cuda_driver = {
	.kind = HJG_KIND_CUDA,
	.room = HJG_CUDA_MAX_DEVICES,
	.list = hjg_cuda_list,
	.tend = cuda_tend,
	.build = cuda_build,
	.probe = cuda_probe,
	.branch = cuda_branch,
	.stats = cuda_stats,
	.free = cuda_free,
};
