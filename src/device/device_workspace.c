/*
 * device_workspace.c
 *	  Private memory of the engines: large blocks that stay warm.
 *
 * The first touch of memory takes several times as long as a join's work on it.  So a freed block waits
 * here for the next join of about its size, and is returned to the system when it was idle for some time.
 * Small requests go to malloc.
 *
 * A fresh block is touched before the engine gets it, by all threads and with polls.  Left to the engine,
 * a thread that scatters rows over hundreds of partitions would take hundreds of faults of huge pages
 * between two polls; that took up to 0.9 s when the system had to make room for them first.
 */
#define _GNU_SOURCE

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "device/hjg_device.h"

#define BLOCK_UNIT ((size_t) 2 * 1024 * 1024)
#define SMALL_BYTES (BLOCK_UNIT / 4)
#define MAX_CACHED 64
#define TOUCH_BYTES (4 * BLOCK_UNIT)

typedef struct CachedBlock
{
	void	   *ptr;
	size_t		bytes;
	hjg_u64		freed_ns;
} CachedBlock;

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static CachedBlock cached_blocks[MAX_CACHED];
static int	ncached_blocks;
static size_t cached_bytes;
static size_t used_bytes;

/* Round a request up to an eighth of a power of two, so that requests of about the same size share blocks. */
static size_t
workspace_block_bytes(size_t bytes)
{
	size_t		step = BLOCK_UNIT;

	while (step * 16 < bytes)
		step *= 2;
	return (bytes + step - 1) / step * step;
}

static void *
map_block(size_t bytes)
{
	/* aligned to the size of a huge page */
	char	   *reserved = mmap(NULL, bytes + BLOCK_UNIT, PROT_READ | PROT_WRITE,
								MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char	   *base;
	size_t		front;

	if (reserved == MAP_FAILED)
		return NULL;
	base = (char *) (((size_t) reserved + BLOCK_UNIT - 1) / BLOCK_UNIT * BLOCK_UNIT);
	front = base - reserved;
	if (front > 0)
		munmap(reserved, front);
	munmap(base + bytes, BLOCK_UNIT - front);
#ifdef MADV_HUGEPAGE
	(void) madvise(base, bytes, MADV_HUGEPAGE);
#endif
	return base;
}

typedef struct WorkspaceTouch
{
	char	   *base;
	size_t		bytes;
	bool		(*poll) (void *);
	void	   *arg;
} WorkspaceTouch;

/* Allocate the memory of one piece of a fresh block. */
static void
touch_piece(void *arg, int piece, int worker)
{
	WorkspaceTouch	   *touch = arg;
	char	   *base = touch->base + (size_t) piece * TOUCH_BYTES;
	size_t		bytes = touch->bytes - (size_t) piece * TOUCH_BYTES;

	if (bytes > TOUCH_BYTES)
		bytes = TOUCH_BYTES;
	if (touch->poll(touch->arg))
		return;
#ifdef MADV_POPULATE_WRITE
	if (madvise(base, bytes, MADV_POPULATE_WRITE) == 0)
		return;
#endif
	for (size_t off = 0; off < bytes; off += 4096)
		*(volatile char *) (base + off) = 0;
}

void
hjg_workspace_touch(void *ptr, size_t bytes, HjgPool *pool, bool (*poll) (void *), void *arg)
{
	WorkspaceTouch		touch = {ptr, bytes, poll, arg};

	hjg_pool_run(pool, (int) ((bytes + TOUCH_BYTES - 1) / TOUCH_BYTES), touch_piece, &touch);
}

void *
hjg_workspace_alloc(size_t bytes, bool *fresh)
{
	void	   *ptr = NULL;

	*fresh = false;
	if (bytes <= SMALL_BYTES)
		return aligned_alloc(64, (bytes + 64) / 64 * 64);

	bytes = workspace_block_bytes(bytes);
	pthread_mutex_lock(&cache_lock);
	/* the most recent block of this class */
	for (int i = ncached_blocks - 1; i >= 0 && ptr == NULL; i--)
		if (cached_blocks[i].bytes == bytes)
		{
			ptr = cached_blocks[i].ptr;
			cached_bytes -= bytes;
			ncached_blocks--;
			for (; i < ncached_blocks; i++)
				cached_blocks[i] = cached_blocks[i + 1];
		}
	used_bytes += bytes;
	pthread_mutex_unlock(&cache_lock);
	if (ptr == NULL)
	{
		ptr = map_block(bytes);
		*fresh = true;
	}
	if (ptr == NULL)
	{
		pthread_mutex_lock(&cache_lock);
		used_bytes -= bytes;
		pthread_mutex_unlock(&cache_lock);
	}
	return ptr;
}

void
hjg_workspace_free(void *ptr, size_t bytes)
{
	CachedBlock oldest = {0};

	if (ptr == NULL)
		return;
	if (bytes <= SMALL_BYTES)
	{
		free(ptr);
		return;
	}
	bytes = workspace_block_bytes(bytes);
	pthread_mutex_lock(&cache_lock);
	used_bytes -= bytes;
	if (ncached_blocks == MAX_CACHED)
	{
		oldest = cached_blocks[0];
		cached_bytes -= oldest.bytes;
		ncached_blocks--;
		for (int i = 0; i < ncached_blocks; i++)
			cached_blocks[i] = cached_blocks[i + 1];
	}
	cached_blocks[ncached_blocks++] = (CachedBlock) {ptr, bytes, hjg_now_ns()};
	cached_bytes += bytes;
	pthread_mutex_unlock(&cache_lock);
	if (oldest.ptr != NULL)
		munmap(oldest.ptr, oldest.bytes);
}

size_t
hjg_workspace_trim(unsigned idle_ms)
{
	hjg_u64		now = hjg_now_ns();
	size_t		left;

	/* blocks are in the order of their release */
	for (;;)
	{
		CachedBlock block = {0};

		pthread_mutex_lock(&cache_lock);
		/* a block may have been freed since now was read */
		if (ncached_blocks > 0 && cached_blocks[0].freed_ns + (hjg_u64) idle_ms * 1000000 <= now)
		{
			block = cached_blocks[0];
			cached_bytes -= block.bytes;
			ncached_blocks--;
			for (int i = 0; i < ncached_blocks; i++)
				cached_blocks[i] = cached_blocks[i + 1];
		}
		left = cached_bytes;
		pthread_mutex_unlock(&cache_lock);
		if (block.ptr == NULL)
			return left;
		munmap(block.ptr, block.bytes);
	}
}

size_t
hjg_workspace_bytes(void)
{
	size_t		bytes;

	pthread_mutex_lock(&cache_lock);
	bytes = cached_bytes + used_bytes;
	pthread_mutex_unlock(&cache_lock);
	return bytes;
}
