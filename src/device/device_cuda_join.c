/*
 * device_cuda_join.c
 *	  The driver "cuda": its interface to the scheduler.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/hjg_cuda_program.h"

/* Intervals of searching for new devices: without the driver's library, with it, with a context. */
#define ABSENT_MS 30000
#define QUIET_MS 5000
#define BUSY_MS 1000

#define MEMORY_IDLE_MS 10000
#define REGION_IDLE_MS 60000

/* Free a join with its further joins and passes; it may be incomplete. */
static void
free_join(HjgCudaJoin *join)
{
	hjg_cuda_concurrent_free(join);
	hjg_cuda_passes_close(join->passes);
	hjg_cuda_release(join);
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

/* Note a failure that is not the job's fault; the device rests after several. */
static void
note_error(const HjgCudaDevice *device, const HjgCudaJoin *join, HjgStatus status)
{
	const HjgCudaStreams *streams = join->streams;
	const char *text = "the driver refused";

	if (status != HJG_ERR_DEVICE)
		return;
	if (streams != NULL)
		text = streams->work.error[0] ? streams->work.error : streams->in.error[0] ? streams->in.error :
			streams->out[0].error[0] ? streams->out[0].error : streams->out[1].error;
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
			/* the passes may need the memory of this attempt */
			hjg_cuda_release(join);
			*join = (HjgCudaJoin) {.device = device, .env = env, .spec = *spec};
			status = hjg_cuda_passes_open(join, sorted, nsegments);
		}
		join->concurrent = join->passes == NULL && (join->strategy == NULL || join->strategy->shared);
		if (status != HJG_OK)
		{
			free_join(join);
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
	result->payload_sum = 0;
	if (at->row >= nrows)
		return HJG_OK;
	if (join->passes != NULL)
		return hjg_cuda_passes_probe(join->passes, segments, nsegments, nrows, at, result);
	result->gathered = hjg_cuda_payload_round(join, segments, nsegments);
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
		/* even after an error nothing may write to the pages any more */
		drained = join->streams != NULL ? hjg_cuda_streams_wait(join->streams) : HJG_OK;
		if (status == HJG_OK)
			status = drained;
		if (status == HJG_OK && join->passes == NULL)
			status = hjg_cuda_send_end(join, result);
		note_error(join->device, join, status);
		hjg_cuda_region_leave();
	}
	if (status == HJG_OK)
		*cursor = at;
	hjg_health_leave(join->device->name.text);
	return status;
}

static void
cuda_stats(const void *arg, HjgJobStats *stats)
{
	const HjgCudaJoin *join = arg;

	if (join->passes != NULL)
		hjg_cuda_passes_stats(join->passes, stats);
	else
		hjg_cuda_join_stats(join, stats);
}

static void *
cuda_open_stream(void *arg, const HjgEnv *env)
{
	HjgCudaJoin *join = arg;
	HjgCudaJoin *further = NULL;
	char		reason[128];

	hjg_health_enter(join->device->name.text);
	/* the next operation reports an error of the device */
	if (hjg_cuda_enter(join->device->number, reason, sizeof(reason)) != NULL)
		further = hjg_cuda_concurrent_open(join, env);
	hjg_health_leave(join->device->name.text);
	return further;
}

static void
cuda_free(void *arg)
{
	HjgCudaJoin *join = arg;
	char		reason[128];
	const HjgDeviceName name = join->device->name;

	hjg_health_enter(name.text);
	/* without the context its memory could never be freed */
	if (hjg_cuda_enter(join->device->number, reason, sizeof(reason)) == NULL)
		hjg_health_fatal(name.text, reason);
	free_join(join);
	hjg_health_leave(name.text);
}

/* Free memory that no join has used for some time. */
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
	.open_stream = cuda_open_stream,
	.stats = cuda_stats,
	.free = cuda_free,
	.programs = &hjg_cuda_program_driver,
};
