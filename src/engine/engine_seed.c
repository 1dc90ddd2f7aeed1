/*
 * engine_seed.c
 *	  The secret seed with which this process mixes keys (hjg_hash.h).
 *
 * Backends and parallel workers inherit the postmaster's seed, so they share tables, Bloom filters and
 * spill files; the device process has its own.
 */
#include <errno.h>
#include <sys/random.h>

#include "engine/hjg_engine.h"
#include "layout/hjg_hash.h"

HjgHashSeed hjg_hash_seed = HJG_HASH_NO_SEED;

bool
hjg_engine_draw_seed(void)
{
	HjgHashSeed drawn;
	ssize_t		n;

	do
		n = getrandom(&drawn, sizeof(drawn), 0);
	while (n < 0 && errno == EINTR);
	if (n != sizeof(drawn))
		return false;
	drawn.factor |= 1;
	hjg_hash_seed = drawn;
	return true;
}
