/*
 * device_opencl_pool.c
 *	  Buffers of devices with their own memory, kept between joins.
 *
 * A driver allocates a buffer's memory at its first use, which takes longer than the first step of a small
 * join.  So a returned buffer waits here for the next join of about its size.  It is released when it was
 * idle for some time, when others are more recent, or when the device has no memory left.  Sizes are
 * rounded up by at most an eighth.  Buffers are not cleared: steps read only what they, or a copy, have
 * written before.
 */
#include "device/hjg_opencl.h"

#ifdef HJG_HAVE_OPENCL

#include <pthread.h>
#include <stdlib.h>

#define LEAST_STEP ((size_t) 64 * 1024)
#define MOST_KEPT 64
#define MOST_KEPT_BYTES ((size_t) 1 << 30)

typedef struct Kept
{
	cl_mem		buffer;
	size_t		bytes;
	hjg_u64		given_ns;
} Kept;

/* Ordered by the time of their return. */
struct HjgClPool
{
	pthread_mutex_t lock;
	int			n;
	size_t		bytes;
	Kept		kept[MOST_KEPT];
};

HjgClPool *
hjg_cl_pool_create(void)
{
	HjgClPool  *pool = calloc(1, sizeof(HjgClPool));

	if (pool != NULL)
		pthread_mutex_init(&pool->lock, NULL);
	return pool;
}

static size_t
rounded_size(const HjgClDevice *device, size_t bytes)
{
	const size_t most = (size_t) device->facts.max_alloc_bytes;
	size_t		step = LEAST_STEP;
	size_t		up;

	while (step * 16 < bytes)
		step *= 2;
	up = (bytes + step - 1) / step * step;
	return up <= most ? up : bytes;
}

/* Take entry i out; the caller has the lock. */
static Kept
take_out(HjgClPool *pool, int i)
{
	const Kept	kept = pool->kept[i];

	pool->bytes -= kept.bytes;
	pool->n--;
	for (; i < pool->n; i++)
		pool->kept[i] = pool->kept[i + 1];
	return kept;
}

/* Release the oldest buffers until at most most_bytes are kept and none was returned before before_ns. */
static void
release_oldest(const HjgClDevice *device, size_t most_bytes, hjg_u64 before_ns)
{
	HjgClPool  *pool = device->pool;

	for (;;)
	{
		Kept		kept = {.buffer = NULL};

		pthread_mutex_lock(&pool->lock);
		if (pool->n > 0 && (pool->bytes > most_bytes || pool->kept[0].given_ns < before_ns))
			kept = take_out(pool, 0);
		pthread_mutex_unlock(&pool->lock);
		if (kept.buffer == NULL)
			return;
		device->api->release_mem(kept.buffer);
	}
}

void
hjg_cl_pool_destroy(const HjgClDevice *device)
{
	if (device->pool == NULL)
		return;
	release_oldest(device, 0, 0);
	pthread_mutex_destroy(&device->pool->lock);
	free(device->pool);
}

cl_mem
hjg_cl_pool_take(const HjgClDevice *device, size_t bytes, cl_int *error)
{
	HjgClPool  *pool = device->pool;
	const size_t wanted = rounded_size(device, bytes);
	cl_mem		buffer = NULL;

	*error = CL_SUCCESS;
	pthread_mutex_lock(&pool->lock);
	for (int i = pool->n - 1; i >= 0 && buffer == NULL; i--)
		if (pool->kept[i].bytes == wanted)
			buffer = take_out(pool, i).buffer;
	pthread_mutex_unlock(&pool->lock);
	if (buffer != NULL)
		return buffer;
	buffer = device->api->create_buffer(device->context, CL_MEM_READ_WRITE, wanted, NULL, error);
	if (*error == CL_SUCCESS)
		return buffer;
	release_oldest(device, 0, 0);
	buffer = device->api->create_buffer(device->context, CL_MEM_READ_WRITE, wanted, NULL, error);
	return *error == CL_SUCCESS ? buffer : NULL;
}

void
hjg_cl_pool_give(const HjgClDevice *device, cl_mem buffer, size_t bytes)
{
	HjgClPool  *pool = device->pool;
	Kept		oldest = {.buffer = NULL};

	pthread_mutex_lock(&pool->lock);
	if (pool->n == MOST_KEPT)
		oldest = take_out(pool, 0);
	pool->kept[pool->n++] = (Kept) {buffer, rounded_size(device, bytes), hjg_now_ns()};
	pool->bytes += rounded_size(device, bytes);
	pthread_mutex_unlock(&pool->lock);
	if (oldest.buffer != NULL)
		device->api->release_mem(oldest.buffer);
	release_oldest(device, MOST_KEPT_BYTES, 0);
}

size_t
hjg_cl_pool_trim(const HjgClDevice *device, unsigned idle_ms)
{
	const hjg_u64 now_ns = hjg_now_ns();
	const hjg_u64 idle_ns = (hjg_u64) idle_ms * 1000000;
	size_t		left;

	release_oldest(device, MOST_KEPT_BYTES, now_ns > idle_ns ? now_ns - idle_ns : 0);
	pthread_mutex_lock(&device->pool->lock);
	left = device->pool->bytes;
	pthread_mutex_unlock(&device->pool->lock);
	return left;
}

#endif							/* HJG_HAVE_OPENCL */
