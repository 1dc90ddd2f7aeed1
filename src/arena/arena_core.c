/*
 * arena_core.c
 *	  Making, mapping and checking the shared memory itself.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "arena/hjg_arena.h"

#define ROUND_UP(n, unit) (((n) + (unit) - 1) / (unit) * (unit))

/* Everything in front of the slabs, for so many of them. */
static size_t
head_bytes(size_t nslabs)
{
	return ROUND_UP(sizeof(HjgControl) + HJG_MAX_JOBS * sizeof(HjgJobSlot) + nslabs * sizeof(HjgSlab),
					(size_t) HJG_SLAB_BYTES);
}

/*
 * Map the descriptor at an address that is a multiple of 2 MiB, so that the
 * system can use huge pages.
 */
static void *
map_aligned(int fd, size_t bytes)
{
	char	   *reserved = mmap(NULL, bytes + HJG_SLAB_BYTES, PROT_NONE,
								MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char	   *base;
	size_t		front;

	if (reserved == MAP_FAILED)
		return NULL;
	base = (char *) ROUND_UP((size_t) reserved, (size_t) HJG_SLAB_BYTES);
	front = base - reserved;
	if (mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0) == MAP_FAILED)
	{
		int			saved = errno;

		munmap(reserved, bytes + HJG_SLAB_BYTES);
		errno = saved;
		return NULL;
	}
	if (front > 0)
		munmap(reserved, front);
	if (front < HJG_SLAB_BYTES)
		munmap(base + bytes, HJG_SLAB_BYTES - front);
	return base;
}

static void
set_pointers(HjgArena *arena, char *base, size_t bytes, hjg_u32 nslabs)
{
	size_t		jobs_off = sizeof(HjgControl);
	size_t		table_off = jobs_off + HJG_MAX_JOBS * sizeof(HjgJobSlot);

	arena->base = base;
	arena->bytes = bytes;
	arena->control = (HjgControl *) base;
	arena->jobs = (HjgJobSlot *) (base + jobs_off);
	arena->slabs = (HjgSlab *) (base + table_off);
	arena->slab_base = base + head_bytes(nslabs);
	arena->nslabs = nslabs;
}

int
hjg_arena_create(HjgArena *arena, size_t bytes, int *fd, const char **step)
{
	size_t		nslabs = bytes / HJG_SLAB_BYTES;
	HjgControl *control;
	char	   *base;
	int			saved;

	memset(arena, 0, sizeof(*arena));
	while (nslabs > 1 && (nslabs > HJG_MAX_SLABS || head_bytes(nslabs) + nslabs * HJG_SLAB_BYTES > bytes))
		nslabs -= nslabs > HJG_MAX_SLABS ? nslabs - HJG_MAX_SLABS : 1;
	if (nslabs < 1)
		nslabs = 1;
	bytes = head_bytes(nslabs) + nslabs * HJG_SLAB_BYTES;

	*step = "memfd_create";
	*fd = memfd_create("hjoin_gpu arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0)
		return errno;
	*step = "ftruncate";
	if (ftruncate(*fd, (off_t) bytes) != 0)
		goto fail;
	*step = "fcntl(F_ADD_SEALS)";
	if (fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
		goto fail;
	*step = "mmap";
	base = map_aligned(*fd, bytes);
	if (base == NULL)
		goto fail;
	set_pointers(arena, base, bytes, (hjg_u32) nslabs);
#ifdef MADV_HUGEPAGE
	(void) madvise(arena->slab_base, nslabs * HJG_SLAB_BYTES, MADV_HUGEPAGE);
#endif

	/* a new memfd reads as zeros: states FREE, stacks empty */
	control = arena->control;
	control->layout_version = HJG_LAYOUT_VERSION;
	control->control_bytes = sizeof(HjgControl);
	control->job_bytes = sizeof(HjgJobSlot);
	control->nslabs = arena->nslabs;
	control->arena_bytes = bytes;
	control->jobs_off = (char *) arena->jobs - base;
	control->slab_table_off = (char *) arena->slabs - base;
	control->slabs_off = arena->slab_base - base;
	control->epoch = 1;
	control->reset_us = hjg_arena_now_us();
	for (hjg_u32 ix = 0; ix + 1 < arena->nslabs; ix++)
		arena->slabs[ix].next_ref = ix + 2;
	control->cold.head = 1;
	control->cold.nslabs = arena->nslabs;
	__atomic_store_n(&control->magic, HJG_ARENA_MAGIC, __ATOMIC_SEQ_CST);
	return 0;

fail:
	saved = errno;
	close(*fd);
	*fd = -1;
	return saved;
}

int
hjg_arena_attach(HjgArena *arena, int fd, const char **step)
{
	struct stat st;
	HjgControl *control;
	char	   *base;

	memset(arena, 0, sizeof(*arena));
	*step = "fstat";
	if (fstat(fd, &st) != 0)
		return errno;
	*step = "arena size";
	if (st.st_size < (off_t) (head_bytes(1) + HJG_SLAB_BYTES))
		return EINVAL;
	*step = "mmap";
	base = map_aligned(fd, st.st_size);
	if (base == NULL)
		return errno;

	control = (HjgControl *) base;
	*step = "arena magic number";
	if (__atomic_load_n(&control->magic, __ATOMIC_SEQ_CST) != HJG_ARENA_MAGIC)
		goto unfit;
	*step = "arena layout version";
	if (control->layout_version != HJG_LAYOUT_VERSION || control->control_bytes != sizeof(HjgControl) ||
		control->job_bytes != sizeof(HjgJobSlot))
		goto unfit;
	*step = "arena geometry";
	if (control->nslabs < 1 || control->nslabs > HJG_MAX_SLABS ||
		(off_t) (head_bytes(control->nslabs) + (size_t) control->nslabs * HJG_SLAB_BYTES) != st.st_size)
		goto unfit;
	set_pointers(arena, base, st.st_size, control->nslabs);
	if (control->arena_bytes != arena->bytes || control->jobs_off != (hjg_u64) ((char *) arena->jobs - base) ||
		control->slab_table_off != (hjg_u64) ((char *) arena->slabs - base) ||
		control->slabs_off != (hjg_u64) (arena->slab_base - base))
		goto unfit;
#ifdef MADV_HUGEPAGE
	(void) madvise(arena->slab_base, (size_t) arena->nslabs * HJG_SLAB_BYTES, MADV_HUGEPAGE);
#endif
	return 0;

unfit:
	munmap(base, st.st_size);
	memset(arena, 0, sizeof(*arena));
	return EINVAL;
}

void
hjg_arena_detach(HjgArena *arena)
{
	if (arena->base != NULL)
		munmap(arena->base, arena->bytes);
	memset(arena, 0, sizeof(*arena));
}

void *
hjg_arena_slab_at(const HjgArena *arena, hjg_u32 slab_ix)
{
	if (slab_ix >= arena->nslabs)
		return NULL;
	return arena->slab_base + (size_t) slab_ix * HJG_SLAB_BYTES;
}

hjg_u64
hjg_arena_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (hjg_u64) ts.tv_sec * 1000000000u + (hjg_u64) ts.tv_nsec;
}

hjg_u64
hjg_arena_now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (hjg_u64) ts.tv_sec * 1000000u + (hjg_u64) ts.tv_nsec / 1000;
}

bool
hjg_arena_calibration(const HjgControl *control, double values[HJG_CONTROL_CALIBRATION])
{
	for (int attempt = 0; attempt < 1000; attempt++)
	{
		hjg_u64		seq = __atomic_load_n(&control->calibration_seq, __ATOMIC_SEQ_CST);

		if (seq == 0)
			return false;
		for (int i = 0; i < HJG_CONTROL_CALIBRATION; i++)
		{
			hjg_u64		bits = __atomic_load_n(&control->calibration[i], __ATOMIC_SEQ_CST);

			memcpy(&values[i], &bits, sizeof(bits));
		}
		if (seq % 2 == 0 && __atomic_load_n(&control->calibration_seq, __ATOMIC_SEQ_CST) == seq)
			return true;
	}
	return false;
}
