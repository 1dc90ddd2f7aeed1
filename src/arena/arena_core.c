/*
 * arena_core.c
 *	  Creating, mapping and checking the shared memory itself.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "arena/hjg_arena.h"

#define ROUND_UP(n, unit) (((n) + (unit) - 1) / (unit) * (unit))

/* Compute the bytes in front of the slabs, with nslabs in each half. */
static size_t
server_head_bytes(size_t nslabs)
{
	return ROUND_UP(sizeof(HjgControl) + HJG_MAX_JOBS * sizeof(HjgJobSlot) + 2 * nslabs * sizeof(HjgSlab),
					(size_t) HJG_SLAB_BYTES);
}

static size_t
device_head_bytes(size_t nslabs)
{
	return ROUND_UP(sizeof(HjgDeviceBlock) + HJG_MAX_JOBS * sizeof(HjgJobReport) + 2 * nslabs * sizeof(hjg_u32),
					(size_t) HJG_SLAB_BYTES);
}

char *
hjg_arena_map_file(int fd, size_t bytes, int protection)
{
	char	   *reserved = mmap(NULL, bytes + HJG_SLAB_BYTES, PROT_NONE,
								MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char	   *base;
	size_t		front;

	if (reserved == MAP_FAILED)
		return NULL;
	base = (char *) ROUND_UP((size_t) reserved, (size_t) HJG_SLAB_BYTES);
	front = base - reserved;
	if (mmap(base, bytes, protection, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0) == MAP_FAILED)
	{
		int			saved = errno;

		munmap(reserved, bytes + HJG_SLAB_BYTES);
		errno = saved;
		return NULL;
	}
	/* holds keys of all users: keep it out of core dumps */
	(void) madvise(base, bytes, MADV_DONTDUMP);
	if (front > 0)
		munmap(reserved, front);
	if (front < HJG_SLAB_BYTES)
		munmap(base + bytes, HJG_SLAB_BYTES - front);
#ifdef MADV_HUGEPAGE
	(void) madvise(base, bytes, MADV_HUGEPAGE);
#endif
	return base;
}

static void
set_view(HjgArenaView *view, const char *server_base, char *device_base, hjg_u32 nslabs)
{
	const size_t jobs_off = sizeof(HjgControl);
	const size_t table_off = jobs_off + HJG_MAX_JOBS * sizeof(HjgJobSlot);
	const size_t reports_off = sizeof(HjgDeviceBlock);
	const size_t holds_off = reports_off + HJG_MAX_JOBS * sizeof(HjgJobReport);

	view->server_base = server_base;
	view->server_bytes = server_head_bytes(nslabs) + (size_t) nslabs * HJG_SLAB_BYTES;
	view->control = (const HjgControl *) server_base;
	view->jobs = (const HjgJobSlot *) (server_base + jobs_off);
	view->slabs = (const HjgSlab *) (server_base + table_off);
	view->inputs = server_base + server_head_bytes(nslabs);
	view->device_base = device_base;
	view->device_bytes = device_head_bytes(nslabs) + (size_t) nslabs * HJG_SLAB_BYTES;
	view->block = (HjgDeviceBlock *) device_base;
	view->reports = (HjgJobReport *) (device_base + reports_off);
	view->holds = (hjg_u32 *) (device_base + holds_off);
	view->results = device_base + device_head_bytes(nslabs);
	view->nslabs = nslabs;
}

/* Create a memfd that cannot be executed, which the system may require (vm.memfd_noexec), with these further flags. */
static int
make_memfd(const char *name, unsigned flags)
{
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3 */
#endif
	int			fd;

	flags |= MFD_CLOEXEC | MFD_ALLOW_SEALING;
	fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
	return fd >= 0 || errno != EINVAL ? fd : memfd_create(name, flags);
}

int
hjg_arena_make_file(const char *name, size_t bytes, unsigned flags, const char **step)
{
	int			saved;
	int			fd;

	*step = "memfd_create";
	fd = make_memfd(name, flags);
	if (fd < 0)
		return -1;
	*step = "ftruncate";
	if (ftruncate(fd, (off_t) bytes) == 0)
	{
		*step = "fcntl(F_ADD_SEALS)";
		if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
			return fd;
	}
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

bool
hjg_arena_populate(char *base, size_t bytes, int fd, size_t off)
{
	int			result;

#ifdef MADV_POPULATE_WRITE
	do
		result = madvise(base, bytes, MADV_POPULATE_WRITE);
	while (result != 0 && errno == EINTR);
	if (result != 0 && errno == EFAULT)
		errno = ENOMEM;			/* where an access would raise SIGBUS */
	if (result == 0 || errno != EINVAL)
		return result == 0;
#endif
	/* before Linux 5.14: allocates the pages without mapping them */
	do
		result = fallocate(fd, 0, (off_t) off, (off_t) bytes);
	while (result != 0 && errno == EINTR);
	return result == 0;
}

/* Create both halves and allocate the memory of their heads; 0 or an errno. */
static int
make_halves(HjgArena *arena, hjg_u32 nslabs, const char **step)
{
	const size_t heads[] = {server_head_bytes(nslabs), device_head_bytes(nslabs)};
	const size_t bytes[] = {heads[0] + (size_t) nslabs * HJG_SLAB_BYTES, heads[1] + (size_t) nslabs * HJG_SLAB_BYTES};
	char	   *device_base;

	arena->server_fd = hjg_arena_make_file("hjoin_gpu server half", bytes[0], 0, step);
	if (arena->server_fd < 0)
		return errno;
	arena->device_fd = hjg_arena_make_file("hjoin_gpu device half", bytes[1], 0, step);
	if (arena->device_fd < 0)
		return errno;
	/* the holder of the read-only descriptor cannot reopen the file for writing */
	*step = "fchmod";
	if (fchmod(arena->server_fd, S_IRUSR) != 0)
		return errno;
	*step = "mmap";
	arena->base = hjg_arena_map_file(arena->server_fd, bytes[0], PROT_READ | PROT_WRITE);
	if (arena->base == NULL)
		return errno;
	device_base = hjg_arena_map_file(arena->device_fd, bytes[1], PROT_READ | PROT_WRITE);
	if (device_base == NULL)
		return errno;
	set_view(&arena->view, arena->base, device_base, nslabs);
	*step = "reserving memory";
	if (!hjg_arena_populate(arena->base, heads[0], arena->server_fd, 0) ||
		!hjg_arena_populate(device_base, heads[1], arena->device_fd, 0))
		return errno;
	return 0;
}

int
hjg_arena_create(HjgArena *arena, size_t bytes, const char **step)
{
	size_t		nslabs = bytes / HJG_SLAB_BYTES;
	HjgControl *control;
	int			error;

	memset(arena, 0, sizeof(*arena));
	arena->server_fd = arena->device_fd = -1;
	if (nslabs > HJG_MAX_SLABS)
		nslabs = HJG_MAX_SLABS;
	while (nslabs > 1 && server_head_bytes(nslabs) + device_head_bytes(nslabs) + nslabs * HJG_SLAB_BYTES > bytes)
		nslabs--;
	if (nslabs < 1)
		nslabs = 1;

	error = make_halves(arena, (hjg_u32) nslabs, step);
	if (error != 0)
	{
		hjg_arena_detach(arena);
		return error;
	}

	/* a new memfd reads as zeros: states FREE, stacks empty */
	control = arena->control = (HjgControl *) arena->base;
	arena->jobs = (HjgJobSlot *) (arena->base + ((const char *) arena->view.jobs - arena->base));
	arena->slabs = (HjgSlab *) (arena->base + ((const char *) arena->view.slabs - arena->base));
	arena->inputs = arena->base + (arena->view.inputs - arena->base);
	control->layout_version = HJG_LAYOUT_VERSION;
	control->control_bytes = sizeof(HjgControl);
	control->job_bytes = sizeof(HjgJobSlot);
	control->device_block_bytes = sizeof(HjgDeviceBlock);
	control->report_bytes = sizeof(HjgJobReport);
	control->nslabs = (hjg_u32) nslabs;
	control->server_bytes = arena->view.server_bytes;
	control->device_bytes = arena->view.device_bytes;
	control->epoch = 1;
	control->reset_us = hjg_wall_us();
	for (hjg_u32 ix = 0; ix < 2 * nslabs; ix++)
		arena->slabs[ix].next_ref = (ix + 1) % nslabs != 0 ? ix + 2 : 0;
	for (hjg_u32 use = 0; use < HJG_SLAB_USES; use++)
	{
		control->cold[use].head = use * nslabs + 1;
		control->cold[use].nslabs = (hjg_u32) nslabs;
	}
	__atomic_store_n(&control->magic, HJG_ARENA_MAGIC, __ATOMIC_SEQ_CST);
	return 0;
}

int
hjg_arena_open_readonly(const HjgArena *arena)
{
	char		path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", arena->server_fd);
	return open(path, O_RDONLY | O_CLOEXEC);
}

void
hjg_arena_detach(HjgArena *arena)
{
	hjg_view_detach(&arena->view);
	if (arena->server_fd >= 0)
		close(arena->server_fd);
	if (arena->device_fd >= 0)
		close(arena->device_fd);
	memset(arena, 0, sizeof(*arena));
	arena->server_fd = arena->device_fd = -1;
}

int
hjg_view_attach(HjgArenaView *view, int server_fd, int device_fd, const char **step)
{
	struct stat server;
	struct stat device;
	const HjgControl *control;
	char	   *server_base;
	char	   *device_base;
	hjg_u32		nslabs;
	int			error = EINVAL;

	memset(view, 0, sizeof(*view));
	*step = "fstat";
	if (fstat(server_fd, &server) != 0 || fstat(device_fd, &device) != 0)
		return errno;
	*step = "arena size";
	if (server.st_size < (off_t) (server_head_bytes(1) + HJG_SLAB_BYTES) ||
		device.st_size < (off_t) (device_head_bytes(1) + HJG_SLAB_BYTES))
		return EINVAL;
	*step = "mmap";
	server_base = hjg_arena_map_file(server_fd, server.st_size, PROT_READ);
	if (server_base == NULL)
		return errno;

	control = (const HjgControl *) server_base;
	nslabs = control->nslabs;
	*step = "arena magic number";
	if (__atomic_load_n(&control->magic, __ATOMIC_SEQ_CST) != HJG_ARENA_MAGIC)
		goto unfit;
	*step = "arena layout version";
	if (control->layout_version != HJG_LAYOUT_VERSION || control->control_bytes != sizeof(HjgControl) ||
		control->job_bytes != sizeof(HjgJobSlot) || control->device_block_bytes != sizeof(HjgDeviceBlock) ||
		control->report_bytes != sizeof(HjgJobReport))
		goto unfit;
	*step = "arena geometry";
	if (nslabs < 1 || nslabs > HJG_MAX_SLABS ||
		control->server_bytes != server_head_bytes(nslabs) + (size_t) nslabs * HJG_SLAB_BYTES ||
		control->device_bytes != device_head_bytes(nslabs) + (size_t) nslabs * HJG_SLAB_BYTES ||
		control->server_bytes != (hjg_u64) server.st_size || control->device_bytes != (hjg_u64) device.st_size)
		goto unfit;
	*step = "mmap";
	device_base = hjg_arena_map_file(device_fd, device.st_size, PROT_READ | PROT_WRITE);
	error = errno;
	if (device_base == NULL)
		goto unfit;
	set_view(view, server_base, device_base, nslabs);
	return 0;

unfit:
	munmap(server_base, server.st_size);
	return error;
}

void
hjg_view_detach(HjgArenaView *view)
{
	if (view->server_base != NULL)
		munmap((void *) (size_t) view->server_base, view->server_bytes);
	if (view->device_base != NULL)
		munmap(view->device_base, view->device_bytes);
	memset(view, 0, sizeof(*view));
}

void *
hjg_arena_slab_at(const HjgArena *arena, hjg_u32 slab_ix)
{
	if (slab_ix >= arena->view.nslabs)
		return hjg_view_result(&arena->view, slab_ix);
	return arena->inputs + (size_t) slab_ix * HJG_SLAB_BYTES;
}

const void *
hjg_view_input(const HjgArenaView *view, hjg_u32 slab_ix)
{
	return slab_ix < view->nslabs ? view->inputs + (size_t) slab_ix * HJG_SLAB_BYTES : NULL;
}

void *
hjg_view_result(const HjgArenaView *view, hjg_u32 slab_ix)
{
	if (slab_ix < view->nslabs || slab_ix - view->nslabs >= view->nslabs)
		return NULL;
	return view->results + (size_t) (slab_ix - view->nslabs) * HJG_SLAB_BYTES;
}

bool
hjg_arena_calibration(const HjgControl *control, double values[HJG_CALIBRATION_VALUES])
{
	for (int attempt = 0; attempt < 1000; attempt++)
	{
		hjg_u64		seq = __atomic_load_n(&control->calibration_seq, __ATOMIC_SEQ_CST);

		if (seq == 0)
			return false;
		for (int i = 0; i < HJG_CALIBRATION_VALUES; i++)
		{
			hjg_u64		bits = __atomic_load_n(&control->calibration[i], __ATOMIC_SEQ_CST);

			memcpy(&values[i], &bits, sizeof(bits));
		}
		if (seq % 2 == 0 && __atomic_load_n(&control->calibration_seq, __ATOMIC_SEQ_CST) == seq)
			return true;
	}
	return false;
}
