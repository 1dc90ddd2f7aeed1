/*
 * model_lookup.c
 *	  What the rival takes where an index answers a join: a nested loop that searches the
 *	  index for each row of its outer side.
 *
 * Calibration measures a search and a row that it finds on a small table, which is in cache.  In a
 * larger one each goes to memory as well, in places that nothing foresees.
 */
#include "model/hjg_model.h"

#include <math.h>

/* A table and an index of so many megabytes are in cache from one search to the next. */
#define CACHED_MB 2.0

/*
 * Reads that miss: of a search in the lower pages of the index (buffer's hash entry and header, some
 * steps of the binary search), and of a row elsewhere (buffer's entry and header, line pointer, row).
 */
#define SEARCH_MISSES 8
#define ROW_MISSES 4

double
hjg_model_lookups_ns(const HjgUnitCosts *costs, const HjgLookups *lookups)
{
	const double scattered_rows =
		lookups->rows <= 1 ? lookups->rows : 1 + (lookups->rows - 1) * lookups->scattered;
	const double misses = lookups->mb > CACHED_MB ? SEARCH_MISSES + ROW_MISSES * scattered_rows : 0;

	return lookups->nlookups * (costs->lookup_ns + lookups->rows * costs->fetch_ns + misses * costs->miss_ns);
}
