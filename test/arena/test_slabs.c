/*
 * test_slabs.c
 *	  Free slabs under contention, zeroing, trimming, the limit of both uses, and a system without
 *	  memory.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "hjg_test.h"

#define NSLABS 48
#define NTHREADS 8
#define NROUNDS 4000
#define HOLD 5

static HjgArena arena;
static hjg_u32 nconflicts;
static bool stop_trimming;
static int	refusal;			/* the system's answer to a request for memory; 0: it succeeds */

/* Replace the system's calls for the arena. */
int
madvise(void *base, size_t bytes, int advice)
{
#ifdef MADV_POPULATE_WRITE
	if (refusal != 0 && advice == MADV_POPULATE_WRITE)
	{
		errno = refusal;
		return -1;
	}
#endif
	return (int) syscall(SYS_madvise, base, bytes, advice);
}

int
fallocate(int fd, int mode, off_t off, off_t bytes)
{
	static int	ninterrupted;

	if (refusal == EINVAL)
	{
		/* if the first call is missing: a signal, then no space */
		errno = ninterrupted++ % 2 == 0 ? EINTR : ENOSPC;
		return -1;
	}
	return (int) syscall(SYS_fallocate, fd, mode, off, bytes);
}

/* Lease slabs, mark them, check that no other thread marked them, return them. */
static void *
contend(void *arg)
{
	hjg_u64		owner = hjg_slab_owner((hjg_u32) (size_t) arg, 7);

	for (int round = 0; round < NROUNDS; round++)
	{
		hjg_u32		held[HOLD];
		int			n = 0;

		while (n < HOLD && (held[n] = hjg_slab_lease(&arena, owner, 1, round % 2)) != HJG_NO_SLAB)
		{
			arena.slabs[held[n]].dirty_bytes = sizeof(owner);
			memcpy(hjg_arena_slab_at(&arena, held[n]), &owner, sizeof(owner));
			n++;
		}
		for (int i = 0; i < n; i++)
		{
			if (memcmp(hjg_arena_slab_at(&arena, held[i]), &owner, sizeof(owner)) != 0)
				__atomic_fetch_add(&nconflicts, 1, __ATOMIC_RELAXED);
			if (!hjg_slab_release(&arena, held[i], owner))
				__atomic_fetch_add(&nconflicts, 1, __ATOMIC_RELAXED);
		}
	}
	return NULL;
}

static void *
trim(void *arg)
{
	(void) arg;
	while (!__atomic_load_n(&stop_trimming, __ATOMIC_RELAXED))
		hjg_slab_trim(&arena, 0, 3, 5);
	return NULL;
}

static void
test_contention(void)
{
	pthread_t	threads[NTHREADS];
	pthread_t	trimmer;
	HjgArenaUse use;
	hjg_u32		n = 0;

	arena = test_arena(NSLABS);
	pthread_create(&trimmer, NULL, trim, NULL);
	for (size_t i = 0; i < NTHREADS; i++)
		pthread_create(&threads[i], NULL, contend, (void *) i);
	for (int i = 0; i < NTHREADS; i++)
		pthread_join(threads[i], NULL);
	__atomic_store_n(&stop_trimming, true, __ATOMIC_RELAXED);
	pthread_join(trimmer, NULL);

	test_claim(nconflicts == 0, "no slab belonged to two owners at a time");
	hjg_arena_use(&arena, &use);
	test_claim(use.leased_bytes == 0, "all slabs are counted as free afterwards");
	while (hjg_slab_lease(&arena, hjg_slab_owner(0, 1), 1, HJG_SLAB_RESULT) != HJG_NO_SLAB)
		n++;
	test_claim(n == arena.view.nslabs, "all memory can be leased afterwards, whatever it was last used for");
	test_claim(hjg_slab_release_all(&arena, hjg_slab_owner(0, 1)) == n, "a sweep gives all of them back");
	hjg_arena_detach(&arena);
}

static bool
all_zero(hjg_u32 slab_ix)
{
	const char *bytes = hjg_arena_slab_at(&arena, slab_ix);

	return bytes[0] == 0 && memcmp(bytes, bytes + 1, HJG_SLAB_BYTES - 1) == 0;
}

static void
test_zeroing(void)
{
	hjg_u64		owner = hjg_slab_owner(3, 9);
	hjg_u32		slab_ix;
	hjg_u32		again;

	arena = test_arena(1);
	slab_ix = hjg_slab_lease(&arena, owner, 10, HJG_SLAB_RESULT);
	test_claim(all_zero(slab_ix), "a fresh slab is zero");
	memset(hjg_arena_slab_at(&arena, slab_ix), 1, 1000);
	arena.slabs[slab_ix].dirty_bytes = 1000;
	hjg_slab_release(&arena, slab_ix, owner);

	again = hjg_slab_lease(&arena, owner, 10, HJG_SLAB_RESULT);
	test_claim(again == slab_ix && !all_zero(again), "a slab for results of the same role is taken as it is");
	hjg_slab_release(&arena, again, owner);
	again = hjg_slab_lease(&arena, owner, 11, HJG_SLAB_RESULT);
	test_claim(again == slab_ix && all_zero(again), "a slab for results of another role is zeroed");
	hjg_slab_release(&arena, again, owner);

	slab_ix = hjg_slab_lease(&arena, owner, 11, HJG_SLAB_INPUT);
	memset(hjg_arena_slab_at(&arena, slab_ix), 1, HJG_SLAB_BYTES);
	arena.slabs[slab_ix].dirty_bytes = HJG_SLAB_BYTES;
	hjg_slab_release(&arena, slab_ix, owner);
	again = hjg_slab_lease(&arena, owner, 11, HJG_SLAB_INPUT);
	test_claim(again == slab_ix && all_zero(again), "a slab for input is zeroed");
	memset(hjg_arena_slab_at(&arena, again), 1, HJG_SLAB_BYTES);
	arena.slabs[again].dirty_bytes = HJG_SLAB_BYTES;

	test_claim(!hjg_slab_release(&arena, again, owner + 1), "only the owner can give a slab back");
	test_claim(!hjg_slab_release(&arena, 2 * arena.view.nslabs, owner), "an index behind the last slab is refused");
	test_claim(hjg_slab_release(&arena, again, owner), "the owner gives it back");
	test_claim(!hjg_slab_release(&arena, again, owner), "but not twice");

	test_claim(hjg_slab_trim(&arena, 1000000, 0, 9) == 0, "a slab that was used just now is not trimmed");
	test_claim(hjg_slab_trim(&arena, 0, arena.view.nslabs, 9) == 0, "slabs to keep are not trimmed");
	test_claim(hjg_slab_trim(&arena, 0, 0, 9) == 2 && hjg_slab_nwarm(&arena) == 0, "idle slabs are trimmed");
	again = hjg_slab_lease(&arena, owner, 11, HJG_SLAB_INPUT);
	test_claim(again == slab_ix && all_zero(again), "a trimmed slab reads as zeros");
	hjg_arena_detach(&arena);
}

static void
test_order(void)
{
	hjg_u64		owner = hjg_slab_owner(3, 9);
	hjg_u32		held[4];

	arena = test_arena(8);
	for (int i = 0; i < 4; i++)
		held[i] = hjg_slab_lease(&arena, owner, 1, HJG_SLAB_INPUT);
	for (int i = 0; i < 4; i++)
		hjg_slab_release(&arena, held[i], owner);
	test_claim(hjg_slab_lease(&arena, owner, 1, HJG_SLAB_INPUT) == held[3], "the last slab freed is leased first");
	hjg_slab_release(&arena, held[3], owner);
	test_claim(hjg_slab_trim(&arena, 0, 1, 1) == 1, "trimming takes no more than it is told");
	test_claim(hjg_slab_trim(&arena, 0, 2, 9) == 1, "and leaves as many as it is to keep");
	test_claim(hjg_slab_lease(&arena, owner, 1, HJG_SLAB_INPUT) == held[3] &&
			   hjg_slab_lease(&arena, owner, 1, HJG_SLAB_INPUT) == held[1], "the others stay in their order");
	hjg_arena_detach(&arena);
}

static hjg_u32
lease_all(hjg_u64 owner, HjgSlabUse use)
{
	hjg_u32		n = 0;

	while (hjg_slab_lease(&arena, owner, 1, use) != HJG_NO_SLAB)
		n++;
	return n;
}

/* Find the bytes of memory of a half's file. */
static hjg_u64
memory_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? (hjg_u64) st.st_blocks * 512 : 0;
}

static hjg_u64
memory(void)
{
	return memory_of(arena.server_fd) + memory_of(arena.device_fd);
}

/*
 * Test that memory goes to the use that asks for it, and that both uses together stay within the arena's
 * limit.
 */
static void
test_limit(void)
{
	hjg_u64		owner = hjg_slab_owner(3, 9);
	hjg_u64		heads;
	hjg_u64		most;
	hjg_u32		held;
	HjgArenaUse use;

	arena = test_arena(NSLABS);
	heads = memory();
	most = (hjg_u64) arena.view.nslabs * HJG_SLAB_BYTES;
	test_claim(lease_all(owner, HJG_SLAB_INPUT) == arena.view.nslabs, "inputs may have all memory");
	test_claim(memory() == heads + most, "which is there when a slab is leased");
	test_claim(hjg_slab_lease(&arena, owner, 1, HJG_SLAB_RESULT) == HJG_NO_SLAB, "then there is none for results");
	hjg_slab_release_all(&arena, owner);
	hjg_arena_use(&arena, &use);
	test_claim(use.total_bytes == most && use.leased_bytes == 0 && use.warm_bytes == most, "it stays with the inputs");
	test_claim(lease_all(owner, HJG_SLAB_RESULT) == arena.view.nslabs && memory() == heads + most,
			   "until results want it, and there is never more");
	hjg_arena_use(&arena, &use);
	test_claim(use.leased_bytes == most && use.warm_bytes == 0, "that is leased");
	hjg_slab_release_all(&arena, owner);

	for (hjg_u32 ix = arena.view.nslabs; ix < 2 * arena.view.nslabs; ix++)
		arena.view.holds[ix] = ix % 2;
	held = arena.view.nslabs / 2;
	test_claim(lease_all(owner, HJG_SLAB_INPUT) == arena.view.nslabs - held, "memory that a driver has stays where it is");
	test_claim(arena.control->memory_wanted > 0, "and the device process is told that it is wanted");
	hjg_slab_clear_holds(&arena);
	test_claim(lease_all(owner, HJG_SLAB_INPUT) == held, "when it lets go, that can be had, too");
	hjg_slab_release_all(&arena, owner);
	test_claim(hjg_slab_trim(&arena, 0, 0, 2 * NSLABS) == arena.view.nslabs && memory() == heads, "all goes back to the system");
	hjg_arena_detach(&arena);
}

/* Test a system without memory: no process may be killed for that later. */
static void
test_refusal(void)
{
	static const int refusals[] = {ENOMEM, EFAULT, EINVAL};
	hjg_u64		owner = hjg_slab_owner(3, 9);
	hjg_u64		heads;
	HjgArena	none;
	HjgArenaUse use;
	const char *step;

	arena = test_arena(8);
	heads = memory();
	for (int i = 0; i < 3; i++)
	{
		refusal = refusals[i];
		test_claim(hjg_slab_lease(&arena, owner, 1, HJG_SLAB_INPUT) == HJG_NO_SLAB &&
				   hjg_slab_lease(&arena, owner, 1, HJG_SLAB_RESULT) == HJG_NO_SLAB, "no slab is leased without memory");
		test_claim(hjg_arena_create(&none, (size_t) 16 << 20, &step) != 0, "and no arena made");
		refusal = 0;
	}
	hjg_arena_use(&arena, &use);
	test_claim(use.leased_bytes == 0 && memory() == heads, "nothing is lost by that");
	test_claim(lease_all(owner, HJG_SLAB_RESULT) == arena.view.nslabs, "when there is memory again, all slabs can be leased");
	hjg_arena_detach(&arena);
}

int
main(void)
{
	test_contention();
	test_zeroing();
	test_order();
	test_limit();
	test_refusal();
	return test_end();
}
