/*
 * test_slabs.c
 *	  Free slabs under contention, zeroing, trimming, and damaged free lists.
 */
#include <pthread.h>

#include "hjg_test.h"

#define NSLABS 48
#define NTHREADS 8
#define NROUNDS 4000
#define HOLD 5

static HjgArena arena;
static hjg_u32 nconflicts;
static bool stop_trimming;

/* Lease some, mark them, see that nobody else marked them, give them back. */
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
		hjg_slab_trim(&arena, 0, 3);
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
	test_claim(arena.control->broken == 0, "the free lists stayed sound");
	hjg_arena_use(&arena, &use);
	test_claim(use.leased_bytes == 0, "all slabs are counted as free afterwards");
	while (hjg_slab_lease(&arena, hjg_slab_owner(0, 1), 1, HJG_SLAB_RESULT) != HJG_NO_SLAB)
		n++;
	test_claim(n == arena.nslabs, "all slabs can be leased afterwards");
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
	slab_ix = hjg_slab_lease(&arena, owner, 10, HJG_SLAB_INPUT);
	test_claim(all_zero(slab_ix), "a fresh slab is zero");
	memset(hjg_arena_slab_at(&arena, slab_ix), 1, 1000);
	arena.slabs[slab_ix].dirty_bytes = 1000;
	hjg_slab_release(&arena, slab_ix, owner);

	again = hjg_slab_lease(&arena, owner, 10, HJG_SLAB_RESULT);
	test_claim(!all_zero(again), "a slab for results of the same role is taken as it is");
	hjg_slab_release(&arena, again, owner);
	again = hjg_slab_lease(&arena, owner, 11, HJG_SLAB_RESULT);
	test_claim(all_zero(again), "a slab for results of another role is zeroed");
	memset(hjg_arena_slab_at(&arena, again), 1, HJG_SLAB_BYTES);
	arena.slabs[again].dirty_bytes = 0xFFFFFFFF;
	hjg_slab_release(&arena, again, owner);
	again = hjg_slab_lease(&arena, owner, 11, HJG_SLAB_INPUT);
	test_claim(all_zero(again), "a slab for input is zeroed, whatever its entry says");
	memset(hjg_arena_slab_at(&arena, again), 1, HJG_SLAB_BYTES);
	arena.slabs[again].dirty_bytes = HJG_SLAB_BYTES;

	test_claim(!hjg_slab_release(&arena, again, owner + 1), "only the owner can give a slab back");
	test_claim(!hjg_slab_release(&arena, arena.nslabs, owner), "an index behind the last slab is refused");
	test_claim(hjg_slab_release(&arena, again, owner), "the owner gives it back");
	test_claim(!hjg_slab_release(&arena, again, owner), "but not twice");

	test_claim(hjg_slab_trim(&arena, 1000000, 0) == 0, "a slab that was used just now is not trimmed");
	test_claim(hjg_slab_trim(&arena, 0, arena.nslabs) == 0, "slabs to keep are not trimmed");
	test_claim(hjg_slab_trim(&arena, 0, 0) == 1 && hjg_slab_nwarm(&arena) == 0, "idle slabs are trimmed");
	again = hjg_slab_lease(&arena, owner, 11, HJG_SLAB_RESULT);
	test_claim(all_zero(again), "a trimmed slab reads as zeros");
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
	test_claim(hjg_slab_trim(&arena, 0, 2) == 2, "trimming leaves as many as it is to keep");
	test_claim(hjg_slab_lease(&arena, owner, 1, HJG_SLAB_INPUT) == held[3] &&
			   hjg_slab_lease(&arena, owner, 1, HJG_SLAB_INPUT) == held[2], "and those in their order");
	hjg_arena_detach(&arena);
}

/* A device process that writes where it must not damages a free list. */
static void
test_damage(void)
{
	hjg_u64		owner = hjg_slab_owner(3, 9);
	hjg_u32		slab_ix;
	hjg_u32		n;
	hjg_u32		job_ix;
	hjg_u32		generation;

	arena = test_arena(8);
	arena.control->cold.head = (hjg_u64) 5 << 32 | (arena.nslabs + 1);
	test_claim(hjg_slab_lease(&arena, owner, 1, HJG_SLAB_INPUT) == HJG_NO_SLAB && arena.control->broken,
			   "a head out of range is noticed");
	hjg_arena_detach(&arena);

	arena = test_arena(8);
	slab_ix = hjg_slab_lease(&arena, owner, 1, HJG_SLAB_INPUT);
	arena.control->warm[HJG_SLAB_INPUT].head = slab_ix + 1;
	test_claim(hjg_slab_lease(&arena, owner + 1, 1, HJG_SLAB_INPUT) == HJG_NO_SLAB && arena.control->broken,
			   "a free list that holds a leased slab is noticed");
	test_claim(arena.slabs[slab_ix].owner == owner, "and the slab stays with its owner");
	hjg_arena_detach(&arena);

	arena = test_arena(8);
	slab_ix = hjg_slab_lease(&arena, owner, 1, HJG_SLAB_INPUT);
	hjg_slab_release(&arena, slab_ix, owner);
	arena.slabs[slab_ix].next_ref = slab_ix + 1;
	arena.slabs[slab_ix].freed_ms -= 1000;
	hjg_slab_trim(&arena, 5, 0);
	n = 0;
	while (hjg_slab_lease(&arena, owner + n, 1, HJG_SLAB_INPUT) != HJG_NO_SLAB)
		n++;
	test_claim(arena.control->broken && n <= arena.nslabs, "a free list that runs in a circle is noticed");
	test_claim(hjg_slab_repair(&arena) && !arena.control->broken, "the free lists can be made anew");
	n = 0;
	while (hjg_slab_lease(&arena, owner, 1, HJG_SLAB_INPUT) != HJG_NO_SLAB)
		n++;
	test_claim(n == arena.nslabs && !arena.control->broken, "then all slabs can be leased");
	hjg_job_slot_lease(&arena, 0, 1, 1, &job_ix, &generation);
	test_claim(!hjg_slab_repair(&arena), "but they are not while a job is leased");
	hjg_arena_detach(&arena);

	arena = test_arena(8);
	slab_ix = hjg_slab_lease(&arena, owner, 1, HJG_SLAB_INPUT);
	arena.slabs[slab_ix].use = 77;
	test_claim(hjg_slab_release(&arena, slab_ix, owner), "an unknown use does no harm");
	hjg_arena_detach(&arena);
}

int
main(void)
{
	test_contention();
	test_zeroing();
	test_order();
	test_damage();
	return test_end();
}
