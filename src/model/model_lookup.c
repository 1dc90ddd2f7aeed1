/*
 * model_lookup.c
 *	  The cost of the rival of a join that an index answers: a nested loop that searches the index for
 *	  each outer row.
 *
 * Calibration measures a search and a row that it finds on a small table, which is in cache.  In a larger
 * table each also reads memory in unpredictable places.  A new process has to map that, too: the system
 * does it with the pages around, when the first of them is read.
 */
#include "model/hjg_model.h"

#include <math.h>

/* Size up to which a table and its index stay in cache between searches. */
#define CACHED_MB 2.0

/*
 * Cache misses of a search in the lower pages of the index (the buffer's hash entry and header, some steps
 * of the binary search), and of a row elsewhere (the buffer's entry and header, line pointer, row).
 */
#define SEARCH_MISSES 8
#define ROW_MISSES 4

/* Memory that is mapped at a time. */
#define MAPPED_MB (64.0 / 1024)

/* Predict the time in which a new process maps this many scattered places. */
static double
map_scattered_ns(const HjgUnitCosts *costs, double mb, double nplaces)
{
	const double all = mb / MAPPED_MB;

	return all > 0 ? mb * costs->map_mb_ns * (1 - exp(-nplaces / all)) : 0;
}

double
hjg_model_lookups_ns(const HjgUnitCosts *costs, const HjgLookups *lookups)
{
	const double scattered_rows =
		lookups->rows <= 1 ? lookups->rows : 1 + (lookups->rows - 1) * lookups->scattered;
	const double misses = lookups->mb > CACHED_MB ? SEARCH_MISSES + ROW_MISSES * scattered_rows : 0;

	return lookups->nlookups * (costs->lookup_ns + lookups->rows * costs->fetch_ns + misses * costs->miss_ns) +
		(lookups->unmapped ? map_scattered_ns(costs, lookups->mb, lookups->nlookups * scattered_rows) : 0);
}
