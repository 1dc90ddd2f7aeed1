/*
 * hjg_test_model.h
 *	  Claims of the model's tests, counted and printed as TAP.
 */
#ifndef HJG_TEST_MODEL_H
#define HJG_TEST_MODEL_H

#include <stdbool.h>
#include <stdio.h>

static int	ntests = 0;
static int	nfailed = 0;

static void
ok(bool good, const char *claim)
{
	ntests++;
	if (!good)
		nfailed++;
	printf("%s %d - %s\n", good ? "ok" : "not ok", ntests, claim);
}

/* Print the plan at the end; returns the exit code. */
static int
done_testing(void)
{
	printf("1..%d\n", ntests);
	return nfailed > 0;
}

#endif							/* HJG_TEST_MODEL_H */
