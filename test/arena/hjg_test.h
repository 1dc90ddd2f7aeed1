/*
 * hjg_test.h
 *	  Helpers of the arena's unit tests: claims, counted and printed as TAP.
 */
#ifndef HJG_TEST_H
#define HJG_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arena/hjg_arena.h"

static int	test_count;
static int	test_failures;

static inline void
test_claim(bool holds, const char *claim)
{
	test_count++;
	test_failures += !holds;
	printf("%sok %d - %s\n", holds ? "" : "not ", test_count, claim);
}

static inline int
test_end(void)
{
	printf("1..%d\n", test_count);
	return test_failures > 0;
}

static inline HjgArena
test_arena(hjg_u32 nslabs)
{
	HjgArena	arena;
	const char *step;

	/* a little more, for the memory in front of the slabs */
	if (hjg_arena_create(&arena, (size_t) (nslabs + 4) * HJG_SLAB_BYTES, &step) != 0)
	{
		printf("Bail out! %s failed\n", step);
		exit(1);
	}
	return arena;
}

#endif							/* HJG_TEST_H */
