/*
 * hjg_test_vector.h
 *	  Random numbers and TAP lines of the tests of vectors. Each test is one file, whose arguments are [SEED [ROUNDS]].
 */
#ifndef HJG_TEST_VECTOR_H
#define HJG_TEST_VECTOR_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "vector/hjg_vector.h"

static int	test_rounds;
static int	ntests;
static int	nfailed;
static uint64_t random_state;

static uint64_t
next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static int
below(int n)
{
	return (int) (next_random() % (unsigned) n);
}

static inline __int128
power(int places)
{
	__int128	result = 1;

	while (places-- > 0)
		result *= 10;
	return result;
}

/* Read the arguments. */
static void
start_tests(int argc, char **argv, int rounds)
{
	const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t) time(NULL);

	test_rounds = argc > 2 ? atoi(argv[2]) : rounds;
	printf("# seed %llu\n", (unsigned long long) seed);
	random_state = seed * 2654435761u + 88172645463325252u;
}

static void
repeat(bool (*check) (void), const char *claim)
{
	int			nwrong = 0;

	for (int i = 0; i < test_rounds; i++)
		nwrong += !check();
	if (nwrong > 0)
		printf("# %d of %d rounds\n", nwrong, test_rounds);
	ntests++;
	nfailed += nwrong > 0;
	printf("%s %d - %s\n", nwrong == 0 ? "ok" : "not ok", ntests, claim);
}

/* Returns the exit status. */
static int
end_tests(void)
{
	printf("1..%d\n", ntests);
	return nfailed > 0;
}

#endif							/* HJG_TEST_VECTOR_H */
