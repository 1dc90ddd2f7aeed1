/*
 * device_cuda_stream.c
 *	  One stream: copies, launches, and waiting for them.
 *
 * Waiting polls an event, so that the job's cancellation is noticed and the beater sees progress.  A queue
 * that does not drain within STALL_MS no longer counts as progress: env is not polled any more, the
 * heartbeat stops, and the supervisor ends the process after hjoin_gpu.device_timeout.  Without a
 * supervisor the process ends itself after GIVE_UP_MS.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "device/hjg_cuda.h"

#define SPIN_NS 40000			/* polls without a pause at first */
#define PAUSE_NS 20000
#define STALL_MS 2000
#define GIVE_UP_MS 60000

/* ---- errors ---- */

/* True if the context still works after this error; unknown for all other errors. */
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
hjg_cuda_check(HjgCudaStream *stream, HjgCudaResult result, const char *what)
{
	const char *text = NULL;

	if (result == HJG_CUDA_SUCCESS)
		return HJG_OK;
	if (hjg_cuda.error_text(result, &text) != HJG_CUDA_SUCCESS || text == NULL)
		text = "unknown error";
	snprintf(stream->error, sizeof(stream->error), "%s: %s (%d)", what, text, result);
	if (result == HJG_CUDA_ERROR_OUT_OF_MEMORY)
		return HJG_ERR_MEMORY;
	if (!is_harmless(result))
		hjg_health_fatal(stream->device->name.text, stream->error);
	return HJG_ERR_DEVICE;
}

#define TRY(stream, call) \
	do { \
		HjgStatus try_status = hjg_cuda_check(stream, hjg_cuda.call, #call); \
		if (try_status != HJG_OK) \
			return try_status; \
	} while (0)

/* ---- streams ---- */

HjgStatus
hjg_cuda_stream_open(HjgCudaStream *stream, HjgCudaDevice *device, const HjgEnv *env, HjgCudaGrant *grant)
{
	HjgStatus	status;

	memset(stream, 0, sizeof(*stream));
	stream->device = device;
	stream->env = env;
	stream->grant = grant;
	status = hjg_cuda_check(stream, hjg_cuda.stream_create(&stream->handle, HJG_CUDA_STREAM_NON_BLOCKING), "stream");
	if (status == HJG_OK)
		status = hjg_cuda_check(stream, hjg_cuda.event_create(&stream->done, HJG_CUDA_EVENT_NO_TIMING), "event");
	if (status != HJG_OK)
		hjg_cuda_stream_close(stream);
	return status;
}

void
hjg_cuda_stream_close(HjgCudaStream *stream)
{
	if (stream->handle != NULL)
	{
		if (stream->busy)
			(void) hjg_cuda_wait(stream);
		(void) hjg_cuda_check(stream, hjg_cuda.stream_destroy(stream->handle), "stream");
	}
	if (stream->done != NULL)
		(void) hjg_cuda_check(stream, hjg_cuda.event_destroy(stream->done), "event");
	for (int i = 0; i < HJG_CUDA_MARKS && stream->marks[i] != NULL; i++)
		(void) hjg_cuda_check(stream, hjg_cuda.event_destroy(stream->marks[i]), "event");
	stream->handle = NULL;
	stream->done = NULL;
	memset(stream->marks, 0, sizeof(stream->marks));
}

/* ---- memory ---- */

static void
release_parked(HjgCudaStream *stream)
{
	for (int i = 0; i < stream->nparked; i++)
		hjg_cuda_block_give(stream->device->pool, stream->parked[i]);
	stream->nparked = 0;
}

HjgStatus
hjg_cuda_alloc(HjgCudaStream *stream, size_t bytes, HjgCudaPtr *ptr)
{
	const size_t wanted = hjg_cuda_block_bytes(bytes);
	HjgCudaResult result;
	HjgStatus	status;

	*ptr = 0;
	for (int i = 0; i < stream->nparked; i++)
		if (hjg_cuda_block_size(stream->device->pool, stream->parked[i]) == wanted &&
			wanted <= stream->grant->bytes - stream->grant->used_bytes)
		{
			*ptr = stream->parked[i];
			stream->parked[i] = stream->parked[--stream->nparked];
			hjg_cuda_grant_use(stream->grant, wanted);
			return HJG_OK;
		}
	result = hjg_cuda_block_take(stream->grant, bytes, ptr);
	if (result == HJG_CUDA_ERROR_OUT_OF_MEMORY && stream->nparked > 0)
	{
		status = hjg_cuda_wait(stream);
		if (status != HJG_OK)
			return status;
		result = hjg_cuda_block_take(stream->grant, bytes, ptr);
	}
	return hjg_cuda_check(stream, result, "device memory");
}

void
hjg_cuda_free(HjgCudaStream *stream, HjgCudaPtr ptr)
{
	if (ptr == 0)
		return;
	stream->grant->used_bytes -= hjg_cuda_block_size(stream->device->pool, ptr);
	if (stream->busy && stream->nparked == HJG_CUDA_PARKED)
		(void) hjg_cuda_wait(stream);
	if (stream->busy)
		stream->parked[stream->nparked++] = ptr;
	else
		hjg_cuda_block_give(stream->device->pool, ptr);
}

/* ---- queueing ---- */

HjgStatus
hjg_cuda_launch(HjgCudaStream *stream, HjgCudaKernel *kernel, unsigned blocks, unsigned block_threads,
				unsigned shared_bytes, void **params)
{
	HjgStatus	status;

	if (blocks == 0)
		return HJG_OK;
	status = hjg_cuda_check(stream, hjg_cuda_kernel_load(stream->device, kernel, shared_bytes), kernel->name);
	if (status != HJG_OK)
		return status;
	stream->busy = true;
	return hjg_cuda_check(stream, hjg_cuda.launch(kernel->functions[stream->device->number], blocks, 1, 1, block_threads,
												1, 1, shared_bytes, stream->handle, params, NULL), kernel->name);
}

HjgStatus
hjg_cuda_occupancy(HjgCudaStream *stream, HjgCudaKernel *kernel, unsigned block_threads, unsigned shared_bytes,
				   int *blocks)
{
	HjgStatus	status;

	*blocks = 0;
	status = hjg_cuda_check(stream, hjg_cuda_kernel_load(stream->device, kernel, shared_bytes), kernel->name);
	if (status != HJG_OK)
		return status;
	status = hjg_cuda_check(stream, hjg_cuda.occupancy(blocks, kernel->functions[stream->device->number],
													 (int) block_threads, shared_bytes), kernel->name);
	if (status == HJG_OK && *blocks < 1)
	{
		snprintf(stream->error, sizeof(stream->error), "%s: no block of %u threads fits the device", kernel->name, block_threads);
		return HJG_ERR_DEVICE;
	}
	return status;
}

HjgStatus
hjg_cuda_launch_filling(HjgCudaStream *stream, HjgCudaKernel *kernel, unsigned block_threads, unsigned shared_bytes,
						hjg_u64 most, void *args)
{
	int			blocks;
	HjgStatus	status = hjg_cuda_occupancy(stream, kernel, block_threads, shared_bytes, &blocks);
	hjg_u64		all = (hjg_u64) blocks * (hjg_u64) stream->device->multiprocessors;

	if (status != HJG_OK)
		return status;
	return hjg_cuda_launch(stream, kernel, (unsigned) (most < all ? most : all), block_threads, shared_bytes,
						   (void *[]) {args});
}

HjgStatus
hjg_cuda_copy_in(HjgCudaStream *stream, HjgCudaPtr to, const void *from, size_t bytes)
{
	if (bytes == 0)
		return HJG_OK;
	stream->busy = true;
	TRY(stream, copy_in(to, from, bytes, stream->handle));
	return HJG_OK;
}

HjgStatus
hjg_cuda_copy_out(HjgCudaStream *stream, void *to, HjgCudaPtr from, size_t bytes)
{
	if (bytes == 0)
		return HJG_OK;
	stream->busy = true;
	TRY(stream, copy_out(to, from, bytes, stream->handle));
	return HJG_OK;
}

HjgStatus
hjg_cuda_zero(HjgCudaStream *stream, HjgCudaPtr ptr, size_t bytes)
{
	if (bytes == 0)
		return HJG_OK;
	stream->busy = true;
	TRY(stream, set_bytes(ptr, 0, bytes, stream->handle));
	return HJG_OK;
}

/* Mark the start of a phase; without a free mark the time goes to the previous phase. */
HjgStatus
hjg_cuda_mark(HjgCudaStream *stream, HjgCudaPhase phase)
{
	if (stream->nmarks == HJG_CUDA_MARKS - 1 && phase != HJG_CUDA_IDLE)
		return HJG_OK;
	if (stream->nmarks == HJG_CUDA_MARKS)
		return HJG_OK;
	if (stream->marks[stream->nmarks] == NULL)
		TRY(stream, event_create(&stream->marks[stream->nmarks], HJG_CUDA_EVENT_DEFAULT));
	stream->busy = true;
	TRY(stream, event_record(stream->marks[stream->nmarks], stream->handle));
	stream->mark_phase[stream->nmarks++] = phase;
	return HJG_OK;
}

HjgStatus
hjg_cuda_follow(HjgCudaStream *stream, HjgCudaStream *other)
{
	stream->busy = true;
	TRY(stream, event_record(other->done, other->handle));
	TRY(stream, stream_wait(stream->handle, other->done, 0));
	return HJG_OK;
}

/* ---- waiting ---- */

static HjgStatus
add_marks(HjgCudaStream *stream)
{
	const int	n = stream->nmarks;

	stream->nmarks = 0;
	for (int i = 1; i < n; i++)
	{
		float		ms = 0;

		TRY(stream, event_elapsed(&ms, stream->marks[i - 1], stream->marks[i]));
		/* other threads read it for statistics */
		__atomic_fetch_add(&stream->phase_ns[stream->mark_phase[i - 1]], (hjg_u64) ((double) ms * 1e6), __ATOMIC_RELAXED);
	}
	return HJG_OK;
}

/* Exit after any error: without this answer it is unknown when the device stops using the job's memory. */
static void
must_succeed(HjgCudaStream *stream, HjgCudaResult result, const char *what)
{
	if (hjg_cuda_check(stream, result, what) != HJG_OK)
		hjg_health_fatal(stream->device->name.text, stream->error);
}

HjgStatus
hjg_cuda_wait(HjgCudaStream *stream)
{
	const hjg_u64 started = hjg_now_ns();
	bool		cancelled = false;
	HjgCudaResult result;
	HjgStatus	marked = stream->nmarks > 0 ? hjg_cuda_mark(stream, HJG_CUDA_IDLE) : HJG_OK;
	HjgStatus	status;

	if (stream->busy)
		must_succeed(stream, hjg_cuda.event_record(stream->done, stream->handle), "event_record");
	while (stream->busy && (result = hjg_cuda.event_query(stream->done)) != HJG_CUDA_SUCCESS)
	{
		const hjg_u64 waited = hjg_now_ns() - started;

		if (result != HJG_CUDA_ERROR_NOT_READY)
			must_succeed(stream, result, "work on the device");
		if (waited > (hjg_u64) GIVE_UP_MS * 1000000)
			hjg_health_fatal(stream->device->name.text, "work on the device does not end");
		if (waited < (hjg_u64) STALL_MS * 1000000 && stream->env != NULL && stream->env->poll != NULL)
			cancelled |= stream->env->poll(stream->env->arg);
		if (waited > SPIN_NS)
			nanosleep(&(struct timespec) {0, PAUSE_NS}, NULL);
	}
	stream->busy = false;
	release_parked(stream);
	status = add_marks(stream);
	if (marked != HJG_OK)
		status = marked;
	if (status == HJG_OK && !cancelled && stream->env != NULL && stream->env->poll != NULL)
		cancelled = stream->env->poll(stream->env->arg);
	return status == HJG_OK && cancelled ? HJG_ERR_CANCELLED : status;
}
