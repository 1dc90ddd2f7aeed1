/*
 * test_attach.c
 *	  The device process maps an arena only if every number in its head fits.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "hjg_test.h"

static HjgArena arena;
static int	fd;

/* Is a mapping refused while a field holds a wrong value? */
static bool
refused(void *field, size_t size, hjg_u64 value)
{
	HjgArena	other;
	const char *step;
	char		saved[8];
	int			error;

	memcpy(saved, field, size);
	memcpy(field, &value, size);
	error = hjg_arena_attach(&other, fd, &step);
	if (error == 0)
		hjg_arena_detach(&other);
	memcpy(field, saved, size);
	return error == EINVAL && other.base == NULL;
}

int
main(void)
{
	HjgControl *control;
	HjgArena	other;
	const char *step;
	int			small;

	if (hjg_arena_create(&arena, (size_t) 32 << 20, &fd, &step) != 0)
	{
		printf("Bail out! %s failed\n", step);
		return 1;
	}
	control = arena.control;
	test_claim(hjg_arena_attach(&other, fd, &step) == 0 && other.nslabs == arena.nslabs, "a sound arena is mapped");
	hjg_arena_detach(&other);
	test_claim(((size_t) arena.slab_base) % HJG_SLAB_BYTES == 0, "slabs are aligned to their size");
	test_claim(arena.bytes <= (size_t) 32 << 20, "the arena keeps to the size asked for");
	test_claim(refused(&control->magic, 8, control->magic + 1), "a wrong magic number is refused");
	test_claim(refused(&control->layout_version, 4, HJG_LAYOUT_VERSION + 1), "another layout version is refused");
	test_claim(refused(&control->control_bytes, 4, sizeof(HjgControl) + 8), "another control block is refused");
	test_claim(refused(&control->job_bytes, 4, sizeof(HjgJobSlot) + 8), "another job slot is refused");
	test_claim(refused(&control->nslabs, 4, 0), "no slabs are refused");
	test_claim(refused(&control->nslabs, 4, arena.nslabs + 1), "one slab too many is refused");
	test_claim(refused(&control->nslabs, 4, 0xFFFFFFFF), "very many slabs are refused");
	test_claim(refused(&control->arena_bytes, 8, arena.bytes + 1), "a wrong size is refused");
	test_claim(refused(&control->jobs_off, 8, control->jobs_off + 64), "a wrong offset of the jobs is refused");
	test_claim(refused(&control->slab_table_off, 8, 0), "a wrong offset of the slab table is refused");
	test_claim(refused(&control->slabs_off, 8, control->slabs_off + 4096), "a wrong offset of the slabs is refused");
	test_claim(ftruncate(fd, 4096) != 0, "the arena cannot be shrunk");

	small = memfd_create("small", MFD_CLOEXEC);
	test_claim(ftruncate(small, 4096) == 0 && hjg_arena_attach(&other, small, &step) == EINVAL,
			   "a file that is too small is refused");
	close(small);
	test_claim(hjg_arena_attach(&other, -1, &step) == EBADF, "a descriptor that is not open is refused");
	test_claim(hjg_arena_slab_at(&arena, arena.nslabs) == NULL, "an index behind the last slab has no address");
	test_claim(hjg_job_at(&arena, HJG_MAX_JOBS) == NULL, "an index behind the last job has no address");
	hjg_arena_detach(&arena);
	close(fd);
	return test_end();
}
