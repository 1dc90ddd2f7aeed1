/*
 * device_cuda_memory.c
 *	  Device memory: a budget to which jobs are admitted, and blocks within it.
 *
 * Admission.  A job declares before it starts how much it will hold at one time, and waits in a queue
 * until that is free.  So no job fails in the middle because of another one.  The cpu engine joins for a
 * job that is not admitted in time.
 *
 * Blocks.  cuMemAlloc and cuMemFree wait for the whole device, so freed blocks are kept for the next job
 * of about their size.  Kept blocks use budget only while no job needs it: they are freed first.  If
 * another program has taken the device's memory, cuMemAlloc fails within the budget, and the job fails
 * before it has returned a pair.
 *
 * Memory that is held for later alone (device_cuda_resident.c) is granted like a job's, and given up when one needs it.
 */
#include <pthread.h>
#include <stdlib.h>

#include "device/hjg_cuda.h"

#define LEAST_BLOCK ((size_t) 64 * 1024)
#define MAX_WAITING 4			/* most runners in the queue */
#define WAIT_STEP_MS 5

/* Percent of the memory, free when the context is made, that is left to the driver. */
#define RESERVE_PERCENT 6

typedef struct PoolBlock
{
	HjgCudaPtr	ptr;
	size_t		bytes;
	bool		used;
	hjg_u64		freed_ns;
} PoolBlock;

struct HjgCudaPool
{
	pthread_mutex_t lock;
	pthread_cond_t changed;
	HjgCudaReclaim reclaim;		/* or NULL */
	void	   *reclaim_arg;
	size_t		budget_bytes;
	size_t		granted_bytes;
	hjg_u64		next_ticket;	/* of the queue */
	hjg_u64		serving;
	int			nwaiting;
	size_t		held_bytes;		/* blocks, used or kept */
	PoolBlock  *blocks;
	int			nblocks;
	int			max_blocks;
};

/* Round up to an eighth of a power of two, so that requests of about the same size share blocks. */
size_t
hjg_cuda_block_bytes(size_t bytes)
{
	size_t		step = LEAST_BLOCK;

	while (step * 16 < bytes)
		step *= 2;
	return bytes == 0 ? LEAST_BLOCK : (bytes + step - 1) / step * step;
}

HjgCudaPool *
hjg_cuda_pool_create(size_t budget_bytes)
{
	HjgCudaPool *pool = calloc(1, sizeof(HjgCudaPool));
	size_t		free_bytes = 0;
	size_t		total_bytes;

	if (pool == NULL)
		return NULL;
	if (hjg_cuda.memory_info(&free_bytes, &total_bytes) == HJG_CUDA_SUCCESS)
		free_bytes -= free_bytes / 100 * RESERVE_PERCENT;
	if (budget_bytes == 0 || budget_bytes > free_bytes)
		budget_bytes = free_bytes;
	pool->budget_bytes = budget_bytes;
	pthread_mutex_init(&pool->lock, NULL);
	hjg_wait_init(&pool->changed);
	return pool;
}

size_t
hjg_cuda_pool_budget(const HjgCudaPool *pool)
{
	return pool->budget_bytes;
}

void
hjg_cuda_pool_reclaim(HjgCudaPool *pool, HjgCudaReclaim reclaim, void *arg)
{
	pthread_mutex_lock(&pool->lock);
	pool->reclaim = reclaim;
	pool->reclaim_arg = arg;
	pthread_mutex_unlock(&pool->lock);
}

/* Let granted memory be given up; called with the lock, which is free meanwhile.  False when there is none. */
static bool
reclaim_granted(HjgCudaPool *pool, size_t bytes)
{
	const HjgCudaReclaim reclaim = pool->reclaim;
	void	   *arg = pool->reclaim_arg;
	bool		freed;

	if (reclaim == NULL)
		return false;
	pthread_mutex_unlock(&pool->lock);
	freed = reclaim(arg, bytes);
	pthread_mutex_lock(&pool->lock);
	return freed;
}

HjgStatus
hjg_cuda_admit(HjgCudaPool *pool, size_t bytes, const HjgEnv *env, unsigned wait_ms, HjgCudaGrant *grant)
{
	const hjg_u64 until = hjg_now_ns() + (hjg_u64) wait_ms * 1000000;
	HjgStatus	status = HJG_OK;
	hjg_u64		ticket;

	*grant = (HjgCudaGrant) {.pool = pool};
	pthread_mutex_lock(&pool->lock);
	if (bytes > pool->budget_bytes || pool->nwaiting >= MAX_WAITING)
	{
		pthread_mutex_unlock(&pool->lock);
		return HJG_ERR_MEMORY;
	}
	ticket = pool->next_ticket++;
	pool->nwaiting++;
	while (pool->serving != ticket || bytes > pool->budget_bytes - pool->granted_bytes)
	{
		bool		stop;

		if (pool->serving == ticket && reclaim_granted(pool, bytes - (pool->budget_bytes - pool->granted_bytes)))
			continue;
		if (pool->serving == ticket && hjg_now_ns() >= until)
		{
			status = HJG_ERR_MEMORY;
			break;
		}
		hjg_wait_ms(&pool->changed, &pool->lock, WAIT_STEP_MS);
		pthread_mutex_unlock(&pool->lock);
		stop = env != NULL && env->poll != NULL && env->poll(env->arg);
		pthread_mutex_lock(&pool->lock);
		/* a runner leaves the queue only at its head, where the wait is short */
		if (stop && pool->serving == ticket)
		{
			status = HJG_ERR_CANCELLED;
			break;
		}
	}
	pool->serving++;
	pool->nwaiting--;
	if (status == HJG_OK)
	{
		pool->granted_bytes += bytes;
		grant->bytes = bytes;
	}
	pthread_cond_broadcast(&pool->changed);
	pthread_mutex_unlock(&pool->lock);
	return status;
}

HjgStatus
hjg_cuda_admit_spare(HjgCudaPool *pool, size_t bytes, HjgCudaGrant *grant)
{
	HjgStatus	status = HJG_ERR_MEMORY;

	*grant = (HjgCudaGrant) {.pool = pool};
	pthread_mutex_lock(&pool->lock);
	while (pool->nwaiting == 0 && bytes > (pool->budget_bytes - pool->granted_bytes) / 2 &&
		   bytes <= pool->budget_bytes / 2 && reclaim_granted(pool, bytes))
		;
	if (pool->nwaiting == 0 && bytes <= (pool->budget_bytes - pool->granted_bytes) / 2)
	{
		pool->granted_bytes += bytes;
		grant->bytes = bytes;
		status = HJG_OK;
	}
	pthread_mutex_unlock(&pool->lock);
	return status;
}

HjgStatus
hjg_cuda_admit_more(HjgCudaGrant *grant, size_t bytes, const HjgEnv *env, unsigned wait_ms)
{
	HjgCudaGrant more;
	HjgStatus	status = hjg_cuda_admit(grant->pool, bytes, env, wait_ms, &more);

	grant->bytes += more.bytes;
	return status;
}

void
hjg_cuda_dismiss(HjgCudaGrant *grant)
{
	HjgCudaPool *pool = grant->pool;

	if (pool == NULL)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->granted_bytes -= grant->bytes;
	pthread_cond_broadcast(&pool->changed);
	pthread_mutex_unlock(&pool->lock);
	grant->pool = NULL;
	grant->bytes = 0;
}

/* ---- blocks; called with the lock ---- */

/* Free the kept block that was idle longest, if that is at least idle_ns; false when there is none. */
static bool
drop_oldest(HjgCudaPool *pool, hjg_u64 idle_ns)
{
	const hjg_u64 now = hjg_now_ns();
	int			oldest = -1;

	for (int i = 0; i < pool->nblocks; i++)
		if (!pool->blocks[i].used && (oldest < 0 || pool->blocks[i].freed_ns < pool->blocks[oldest].freed_ns))
			oldest = i;
	if (oldest < 0 || now - pool->blocks[oldest].freed_ns < idle_ns)
		return false;
	(void) hjg_cuda.memory_free(pool->blocks[oldest].ptr);
	pool->held_bytes -= pool->blocks[oldest].bytes;
	pool->blocks[oldest] = pool->blocks[--pool->nblocks];
	return true;
}

static bool
reserve_entry(HjgCudaPool *pool)
{
	int			max = pool->max_blocks == 0 ? 64 : pool->max_blocks * 2;
	PoolBlock	   *blocks;

	if (pool->nblocks < pool->max_blocks)
		return true;
	blocks = realloc(pool->blocks, (size_t) max * sizeof(PoolBlock));
	if (blocks == NULL)
		return false;
	pool->blocks = blocks;
	pool->max_blocks = max;
	return true;
}

static HjgCudaResult
take_block(HjgCudaPool *pool, size_t bytes, HjgCudaPtr *ptr)
{
	PoolBlock	   *latest = NULL;
	HjgCudaResult result;

	for (int i = 0; i < pool->nblocks; i++)
	{
		PoolBlock	   *block = &pool->blocks[i];

		if (!block->used && block->bytes == bytes && (latest == NULL || block->freed_ns > latest->freed_ns))
			latest = block;
	}
	if (latest != NULL)
	{
		latest->used = true;
		*ptr = latest->ptr;
		return HJG_CUDA_SUCCESS;
	}
	if (!reserve_entry(pool))
		return HJG_CUDA_ERROR_OUT_OF_MEMORY;
	while (pool->held_bytes + bytes > pool->budget_bytes && drop_oldest(pool, 0))
		;
	if (pool->held_bytes + bytes > pool->budget_bytes)
		return HJG_CUDA_ERROR_OUT_OF_MEMORY;
	do
		result = hjg_cuda.memory_alloc(ptr, bytes);
	while (result == HJG_CUDA_ERROR_OUT_OF_MEMORY && drop_oldest(pool, 0));
	if (result == HJG_CUDA_SUCCESS)
	{
		pool->blocks[pool->nblocks++] = (PoolBlock) {.ptr = *ptr, .bytes = bytes, .used = true};
		pool->held_bytes += bytes;
	}
	return result;
}

HjgCudaResult
hjg_cuda_block_take(HjgCudaGrant *grant, size_t bytes, HjgCudaPtr *ptr)
{
	HjgCudaPool *pool = grant->pool;
	HjgCudaResult result;

	*ptr = 0;
	bytes = hjg_cuda_block_bytes(bytes);
	if (bytes > grant->bytes - grant->used_bytes)
		return HJG_CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&pool->lock);
	do
		result = take_block(pool, bytes, ptr);
	while (result == HJG_CUDA_ERROR_OUT_OF_MEMORY && reclaim_granted(pool, bytes));
	pthread_mutex_unlock(&pool->lock);
	if (result != HJG_CUDA_SUCCESS)
		return result;
	hjg_cuda_grant_use(grant, bytes);
	return HJG_CUDA_SUCCESS;
}

size_t
hjg_cuda_block_size(HjgCudaPool *pool, HjgCudaPtr ptr)
{
	size_t		bytes = 0;

	pthread_mutex_lock(&pool->lock);
	for (int i = 0; i < pool->nblocks && bytes == 0; i++)
		if (pool->blocks[i].ptr == ptr)
			bytes = pool->blocks[i].bytes;
	pthread_mutex_unlock(&pool->lock);
	return bytes;
}

void
hjg_cuda_block_give(HjgCudaPool *pool, HjgCudaPtr ptr)
{
	pthread_mutex_lock(&pool->lock);
	for (int i = 0; i < pool->nblocks; i++)
		if (pool->blocks[i].ptr == ptr)
		{
			pool->blocks[i].used = false;
			pool->blocks[i].freed_ns = hjg_now_ns();
			break;
		}
	pthread_mutex_unlock(&pool->lock);
}

size_t
hjg_cuda_pool_trim(HjgCudaPool *pool, unsigned idle_ms)
{
	size_t		left;

	pthread_mutex_lock(&pool->lock);
	while (drop_oldest(pool, (hjg_u64) idle_ms * 1000000))
		;
	left = pool->held_bytes;
	pthread_mutex_unlock(&pool->lock);
	return left;
}
