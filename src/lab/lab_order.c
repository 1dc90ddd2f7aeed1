/*
 * lab_order.c
 *	  The random order in which contestants of a comparison run.
 *
 * In a fixed order each of them finds caches, clocks and threads as the same other one left them, which was
 * seen to move a time by a fifth and more.
 */
#include "lab/hjg_lab.h"

static hjg_u64 state;

void
hjg_lab_seed(hjg_u64 seed)
{
	state = seed;
}

hjg_u64
hjg_lab_draw(void)
{
	return hjg_mix64(HJG_HASH_NO_SEED, state += 0x9e3779b97f4a7c15u);
}

void
hjg_lab_order(int *order, int n)
{
	for (int i = 0; i < n; i++)
	{
		const int	k = (int) (hjg_lab_draw() % (hjg_u64) (i + 1));

		order[i] = order[k];
		order[k] = i;
	}
}
