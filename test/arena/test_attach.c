/*
 * test_attach.c
 *	  The device process maps an arena only if every number in its head fits, and one half read-only.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "hjg_test.h"

static HjgArena arena;
static int	readonly;			/* the server half, as the device process maps it */

/* True if mapping is refused while a field holds a wrong value. */
static bool
refused(void *field, size_t size, hjg_u64 value)
{
	HjgArenaView other;
	const char *step;
	char		saved[8];
	int			error;

	memcpy(saved, field, size);
	memcpy(field, &value, size);
	error = hjg_view_attach(&other, readonly, arena.device_fd, &step);
	if (error == 0)
		hjg_view_detach(&other);
	memcpy(field, saved, size);
	return error == EINVAL && other.server_base == NULL;
}

/* Places of the arena to which a process with the device process's mapping writes. */
typedef enum Place
{
	CONTROL, JOBS, TABLE, INPUTS, DEVICE_HALF
} Place;

static int
signal_of_write(Place place)
{
	int			status = 0;
	pid_t		child;

	fflush(stdout);
	child = fork();
	if (child == 0)
	{
		HjgArenaView view;
		const char *step;
		const void *at;

		/* keeps sanitizers from reporting */
		signal(SIGSEGV, SIG_DFL);
		if (hjg_view_attach(&view, readonly, arena.device_fd, &step) != 0)
			_exit(1);
		at = place == CONTROL ? (const void *) &view.control->cold[0].head : place == JOBS ? (const void *) &view.jobs[3].word :
			place == TABLE ? (const void *) &view.slabs[0].next_ref : place == INPUTS ? (const void *) view.inputs :
			(const void *) view.results;
		*(volatile char *) (size_t) at = 1;
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return -1;
	return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) == 0 ? 0 : -1;
}

static void
test_protection(void)
{
	HjgArenaView view;
	const char *step;
	char		path[64];

	test_claim(signal_of_write(CONTROL) == SIGSEGV, "a device process that writes to the free stacks is killed");
	test_claim(signal_of_write(JOBS) == SIGSEGV, "likewise to a job's slot");
	test_claim(signal_of_write(TABLE) == SIGSEGV, "likewise to the slab table");
	test_claim(signal_of_write(INPUTS) == SIGSEGV, "likewise to keys");
	test_claim(signal_of_write(DEVICE_HALF) == 0, "it may write results");
	if (hjg_view_attach(&view, readonly, arena.device_fd, &step) != 0)
	{
		test_claim(false, "the view is mapped");
		return;
	}
	test_claim(mprotect((void *) (size_t) view.server_base, 4096, PROT_READ | PROT_WRITE) != 0 && errno == EACCES,
			   "it cannot make its mapping one for writing");
	hjg_view_detach(&view);
	test_claim(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, readonly, 0) == MAP_FAILED && errno == EACCES,
			   "nor have another one through its descriptor");
	/* root may open everything */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", readonly);
	test_claim(geteuid() == 0 || (open(path, O_RDWR | O_CLOEXEC) < 0 && errno == EACCES), "nor open it again for writing");
	test_claim(fallocate(readonly, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) != 0, "nor take its memory away");
}

int
main(void)
{
	HjgControl *control;
	HjgArenaView other;
	const char *step;
	int			small;

	if (hjg_arena_create(&arena, (size_t) 32 << 20, &step) != 0 || (readonly = hjg_arena_open_readonly(&arena)) < 0)
	{
		printf("Bail out! %s failed\n", step);
		return 1;
	}
	control = arena.control;
	test_claim(hjg_view_attach(&other, readonly, arena.device_fd, &step) == 0 && other.nslabs == arena.view.nslabs,
			   "a sound arena is mapped");
	hjg_view_detach(&other);
	test_claim(((size_t) arena.inputs) % HJG_SLAB_BYTES == 0 && ((size_t) arena.view.results) % HJG_SLAB_BYTES == 0,
			   "slabs are aligned to their size");
	test_claim(refused(&control->magic, 8, control->magic + 1), "a wrong magic number is refused");
	test_claim(refused(&control->layout_version, 4, HJG_LAYOUT_VERSION + 1), "another layout version is refused");
	test_claim(refused(&control->control_bytes, 4, sizeof(HjgControl) + 8), "another control block is refused");
	test_claim(refused(&control->job_bytes, 4, sizeof(HjgJobSlot) + 8), "another job slot is refused");
	test_claim(refused(&control->device_block_bytes, 4, 0), "another head of the device half is refused");
	test_claim(refused(&control->report_bytes, 4, sizeof(HjgJobReport) + 8), "another report is refused");
	test_claim(refused(&control->nslabs, 4, 0), "no slabs are refused");
	test_claim(refused(&control->nslabs, 4, arena.view.nslabs + 1), "one slab too many is refused");
	test_claim(refused(&control->nslabs, 4, 0xFFFFFFFF), "very many slabs are refused");
	test_claim(refused(&control->server_bytes, 8, arena.view.server_bytes + 1), "a wrong size is refused");
	test_claim(refused(&control->device_bytes, 8, 0), "a wrong size of the other half is refused");
	test_claim(ftruncate(arena.server_fd, 4096) != 0 && ftruncate(arena.device_fd, 4096) != 0, "the arena cannot be shrunk");
	test_protection();

	small = memfd_create("small", MFD_CLOEXEC);
	test_claim(ftruncate(small, 4096) == 0 && hjg_view_attach(&other, small, arena.device_fd, &step) == EINVAL &&
			   hjg_view_attach(&other, readonly, small, &step) == EINVAL, "a file that is too small is refused");
	close(small);
	test_claim(hjg_view_attach(&other, -1, arena.device_fd, &step) == EBADF, "a descriptor that is not open is refused");
	test_claim(hjg_arena_slab_at(&arena, 2 * arena.view.nslabs) == NULL, "an index behind the last slab has no address");
	test_claim(hjg_view_input(&arena.view, arena.view.nslabs) == NULL && hjg_view_result(&arena.view, 0) == NULL,
			   "a result is no input, and an input no result");
	test_claim(hjg_slot_at(&arena, HJG_MAX_JOBS) == NULL, "an index behind the last job has no address");
	hjg_arena_detach(&arena);
	close(readonly);
	return test_end();
}
