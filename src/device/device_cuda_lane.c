/*
 * device_cuda_lane.c
 *	  One stream: copies, launches, and waiting for them.
 *
 * Waiting is polling an event, so that the job's cancellation is noticed and the
 * beater sees progress.  A queue that does not drain within STALL_MS is no longer
 * called progress: env is polled no more, the sign of life stops, and the supervisor
 * ends the process after hjoin_gpu.device_timeout.  Where there is no supervisor the process
 * ends itself after GIVE_UP_MS.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "device/hjg_cuda.h"

#define SPIN_NS 40000			/* poll without a pause so long */
#define PAUSE_NS 20000
#define STALL_MS 2000
#define GIVE_UP_MS 60000

/* ---- errors ---- */

/* After these the context works on; of any other one that is not known. */
static bool
is_harmless(HjgCudaResult result)
{
	switch (result)
	{
		case HJG_CUDA_ERROR_INVALID_VALUE:
		case HJG_CUDA_ERROR_OUT_OF_MEMORY:
		case HJG_CUDA_ERROR_INVALID_IMAGE:
		case HJG_CUDA_ERROR_NO_BINARY:
		case HJG_CUDA_ERROR_INVALID_PTX:
		case HJG_CUDA_ERROR_NOT_FOUND:
		case HJG_CUDA_ERROR_LAUNCH_RESOURCES:
		case HJG_CUDA_ERROR_HOST_REGISTERED:
		case HJG_CUDA_ERROR_HOST_NOT_REGISTERED:
		case HJG_CUDA_ERROR_NOT_SUPPORTED:
			return true;
		default:
			return false;
	}
}

HjgStatus
hjg_cuda_check(HjgCudaLane *lane, HjgCudaResult result, const char *what)
{
	const char *text = NULL;

	if (result == HJG_CUDA_SUCCESS)
		return HJG_OK;
	if (hjg_cuda.error_text(result, &text) != HJG_CUDA_SUCCESS || text == NULL)
		text = "unknown error";
	snprintf(lane->error, sizeof(lane->error), "%s: %s (%d)", what, text, result);
	if (result == HJG_CUDA_ERROR_OUT_OF_MEMORY)
		return HJG_ERR_MEMORY;
	if (!is_harmless(result))
		hjg_health_fatal(lane->device->name.text, lane->error);
	return HJG_ERR_DEVICE;
}

#define TRY(lane, call) \
	do { \
		HjgStatus try_status = hjg_cuda_check(lane, hjg_cuda.call, #call); \
		if (try_status != HJG_OK) \
			return try_status; \
	} while (0)

/* ---- lanes ---- */

HjgStatus
hjg_cuda_lane_open(HjgCudaLane *lane, HjgCudaDevice *device, const HjgEnv *env, HjgCudaGrant *grant)
{
	HjgStatus	status;

	memset(lane, 0, sizeof(*lane));
	lane->device = device;
	lane->env = env;
	lane->grant = grant;
	status = hjg_cuda_check(lane, hjg_cuda.stream_create(&lane->stream, HJG_CUDA_STREAM_NON_BLOCKING), "stream");
	if (status == HJG_OK)
		status = hjg_cuda_check(lane, hjg_cuda.event_create(&lane->done, HJG_CUDA_EVENT_NO_TIMING), "event");
	if (status != HJG_OK)
		hjg_cuda_lane_close(lane);
	return status;
}

void
hjg_cuda_lane_close(HjgCudaLane *lane)
{
	if (lane->stream != NULL)
	{
		if (lane->busy)
			(void) hjg_cuda_wait(lane);
		(void) hjg_cuda_check(lane, hjg_cuda.stream_destroy(lane->stream), "stream");
	}
	if (lane->done != NULL)
		(void) hjg_cuda_check(lane, hjg_cuda.event_destroy(lane->done), "event");
	for (int i = 0; i < HJG_CUDA_MARKS && lane->marks[i] != NULL; i++)
		(void) hjg_cuda_check(lane, hjg_cuda.event_destroy(lane->marks[i]), "event");
	lane->stream = NULL;
	lane->done = NULL;
	memset(lane->marks, 0, sizeof(lane->marks));
}

/* ---- memory ---- */

static void
release_parked(HjgCudaLane *lane)
{
	for (int i = 0; i < lane->nparked; i++)
		hjg_cuda_block_give(lane->device->pool, lane->parked[i]);
	lane->nparked = 0;
}

HjgStatus
hjg_cuda_alloc(HjgCudaLane *lane, size_t bytes, HjgCudaPtr *ptr)
{
	const size_t wanted = hjg_cuda_block_bytes(bytes);
	HjgCudaResult result;
	HjgStatus	status;

	*ptr = 0;
	for (int i = 0; i < lane->nparked; i++)
		if (hjg_cuda_block_size(lane->device->pool, lane->parked[i]) == wanted &&
			wanted <= lane->grant->bytes - lane->grant->used_bytes)
		{
			*ptr = lane->parked[i];
			lane->parked[i] = lane->parked[--lane->nparked];
			hjg_cuda_grant_use(lane->grant, wanted);
			return HJG_OK;
		}
	result = hjg_cuda_block_take(lane->grant, bytes, ptr);
	if (result == HJG_CUDA_ERROR_OUT_OF_MEMORY && lane->nparked > 0)
	{
		status = hjg_cuda_wait(lane);
		if (status != HJG_OK)
			return status;
		result = hjg_cuda_block_take(lane->grant, bytes, ptr);
	}
	return hjg_cuda_check(lane, result, "device memory");
}

void
hjg_cuda_free(HjgCudaLane *lane, HjgCudaPtr ptr)
{
	if (ptr == 0)
		return;
	lane->grant->used_bytes -= hjg_cuda_block_size(lane->device->pool, ptr);
	if (lane->busy && lane->nparked == HJG_CUDA_PARKED)
		(void) hjg_cuda_wait(lane);
	if (lane->busy)
		lane->parked[lane->nparked++] = ptr;
	else
		hjg_cuda_block_give(lane->device->pool, ptr);
}

/* ---- queueing ---- */

HjgStatus
hjg_cuda_launch(HjgCudaLane *lane, HjgCudaKernel *kernel, unsigned blocks, unsigned block_threads,
				unsigned shared_bytes, void **params)
{
	HjgStatus	status;

	if (blocks == 0)
		return HJG_OK;
	status = hjg_cuda_check(lane, hjg_cuda_kernel_load(lane->device, kernel, shared_bytes), kernel->name);
	if (status != HJG_OK)
		return status;
	lane->busy = true;
	return hjg_cuda_check(lane, hjg_cuda.launch(kernel->functions[lane->device->number], blocks, 1, 1, block_threads,
												1, 1, shared_bytes, lane->stream, params, NULL), kernel->name);
}

HjgStatus
hjg_cuda_occupancy(HjgCudaLane *lane, HjgCudaKernel *kernel, unsigned block_threads, unsigned shared_bytes,
				   int *blocks)
{
	HjgStatus	status;

	*blocks = 0;
	status = hjg_cuda_check(lane, hjg_cuda_kernel_load(lane->device, kernel, shared_bytes), kernel->name);
	if (status != HJG_OK)
		return status;
	status = hjg_cuda_check(lane, hjg_cuda.occupancy(blocks, kernel->functions[lane->device->number],
													 (int) block_threads, shared_bytes), kernel->name);
	if (status == HJG_OK && *blocks < 1)
	{
		snprintf(lane->error, sizeof(lane->error), "%s: no block of %u threads fits the device", kernel->name, block_threads);
		return HJG_ERR_DEVICE;
	}
	return status;
}

HjgStatus
hjg_cuda_launch_filling(HjgCudaLane *lane, HjgCudaKernel *kernel, unsigned block_threads, unsigned shared_bytes,
						hjg_u64 most, void *args)
{
	int			blocks;
	HjgStatus	status = hjg_cuda_occupancy(lane, kernel, block_threads, shared_bytes, &blocks);
	hjg_u64		all = (hjg_u64) blocks * (hjg_u64) lane->device->multiprocessors;

	if (status != HJG_OK)
		return status;
	return hjg_cuda_launch(lane, kernel, (unsigned) (most < all ? most : all), block_threads, shared_bytes,
						   (void *[]) {args});
}

HjgStatus
hjg_cuda_copy_in(HjgCudaLane *lane, HjgCudaPtr to, const void *from, size_t bytes)
{
	if (bytes == 0)
		return HJG_OK;
	lane->busy = true;
	TRY(lane, copy_in(to, from, bytes, lane->stream));
	return HJG_OK;
}

HjgStatus
hjg_cuda_copy_out(HjgCudaLane *lane, void *to, HjgCudaPtr from, size_t bytes)
{
	if (bytes == 0)
		return HJG_OK;
	lane->busy = true;
	TRY(lane, copy_out(to, from, bytes, lane->stream));
	return HJG_OK;
}

HjgStatus
hjg_cuda_copy_within(HjgCudaLane *lane, HjgCudaPtr to, HjgCudaPtr from, size_t bytes)
{
	if (bytes == 0)
		return HJG_OK;
	lane->busy = true;
	TRY(lane, copy_within(to, from, bytes, lane->stream));
	return HJG_OK;
}

HjgStatus
hjg_cuda_zero(HjgCudaLane *lane, HjgCudaPtr ptr, size_t bytes)
{
	if (bytes == 0)
		return HJG_OK;
	lane->busy = true;
	TRY(lane, set_bytes(ptr, 0, bytes, lane->stream));
	return HJG_OK;
}

/* Without a free mark the time goes to the phase before. */
HjgStatus
hjg_cuda_mark(HjgCudaLane *lane, HjgCudaPhase phase)
{
	if (lane->nmarks == HJG_CUDA_MARKS - 1 && phase != HJG_CUDA_IDLE)
		return HJG_OK;
	if (lane->nmarks == HJG_CUDA_MARKS)
		return HJG_OK;
	if (lane->marks[lane->nmarks] == NULL)
		TRY(lane, event_create(&lane->marks[lane->nmarks], HJG_CUDA_EVENT_DEFAULT));
	lane->busy = true;
	TRY(lane, event_record(lane->marks[lane->nmarks], lane->stream));
	lane->mark_phase[lane->nmarks++] = phase;
	return HJG_OK;
}

HjgStatus
hjg_cuda_follow(HjgCudaLane *lane, HjgCudaLane *other)
{
	lane->busy = true;
	TRY(lane, event_record(other->done, other->stream));
	TRY(lane, stream_wait(lane->stream, other->done, 0));
	return HJG_OK;
}

HjgStatus
hjg_cuda_note_open(HjgCudaLane *lane, HjgCudaEvent *event)
{
	TRY(lane, event_create(event, HJG_CUDA_EVENT_NO_TIMING));
	return HJG_OK;
}

void
hjg_cuda_note_close(HjgCudaLane *lane, HjgCudaEvent *event)
{
	if (*event != NULL)
		(void) hjg_cuda_check(lane, hjg_cuda.event_destroy(*event), "event");
	*event = NULL;
}

HjgStatus
hjg_cuda_note(HjgCudaLane *lane, HjgCudaEvent event)
{
	lane->busy = true;
	TRY(lane, event_record(event, lane->stream));
	return HJG_OK;
}

HjgStatus
hjg_cuda_follow_note(HjgCudaLane *lane, HjgCudaEvent event)
{
	lane->busy = true;
	TRY(lane, stream_wait(lane->stream, event, 0));
	return HJG_OK;
}

/* ---- waiting ---- */

static HjgStatus
add_marks(HjgCudaLane *lane)
{
	const int	n = lane->nmarks;

	lane->nmarks = 0;
	for (int i = 1; i < n; i++)
	{
		float		ms = 0;

		TRY(lane, event_elapsed(&ms, lane->marks[i - 1], lane->marks[i]));
		/* read by whoever asks for the times of the join */
		__atomic_fetch_add(&lane->phase_ns[lane->mark_phase[i - 1]], (hjg_u64) ((double) ms * 1e6), __ATOMIC_RELAXED);
	}
	return HJG_OK;
}

/* Without this answer nobody knows when the device leaves the job's memory alone: no error is harmless. */
static void
must(HjgCudaLane *lane, HjgCudaResult result, const char *what)
{
	if (hjg_cuda_check(lane, result, what) != HJG_OK)
		hjg_health_fatal(lane->device->name.text, lane->error);
}

HjgStatus
hjg_cuda_wait(HjgCudaLane *lane)
{
	const hjg_u64 started = hjg_now_ns();
	bool		cancelled = false;
	HjgCudaResult result;
	HjgStatus	marked = lane->nmarks > 0 ? hjg_cuda_mark(lane, HJG_CUDA_IDLE) : HJG_OK;
	HjgStatus	status;

	if (lane->busy)
		must(lane, hjg_cuda.event_record(lane->done, lane->stream), "event_record");
	while (lane->busy && (result = hjg_cuda.event_query(lane->done)) != HJG_CUDA_SUCCESS)
	{
		const hjg_u64 waited = hjg_now_ns() - started;

		if (result != HJG_CUDA_ERROR_NOT_READY)
			must(lane, result, "work on the device");
		if (waited > (hjg_u64) GIVE_UP_MS * 1000000)
			hjg_health_fatal(lane->device->name.text, "work on the device does not end");
		if (waited < (hjg_u64) STALL_MS * 1000000 && lane->env != NULL && lane->env->poll != NULL)
			cancelled |= lane->env->poll(lane->env->arg);
		if (waited > SPIN_NS)
			nanosleep(&(struct timespec) {0, PAUSE_NS}, NULL);
	}
	lane->busy = false;
	release_parked(lane);
	status = add_marks(lane);
	if (marked != HJG_OK)
		status = marked;
	if (status == HJG_OK && !cancelled && lane->env != NULL && lane->env->poll != NULL)
		cancelled = lane->env->poll(lane->env->arg);
	return status == HJG_OK && cancelled ? HJG_ERR_CANCELLED : status;
}
