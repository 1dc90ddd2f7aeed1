/*
 * model_scan.c
 *	  The cost of reading a table whose pages the node reads directly (scan_heap.c), and of core's scan
 *	  of it.
 *
 * Each page costs, and each visible row: it is found, and its columns at fixed places are copied.  To
 * reach a wanted column behind one of variable width, every row is walked attribute by attribute.
 * Conditions come before the other columns: first those in vectors, for all rows; core's expression code
 * then sees the surviving rows one by one.
 *
 * Meanwhile memory supplies the next page.  Of rows of about one cache line it does so as fast as they are
 * read, whatever their columns; of longer rows, of which the reader skips parts, more slowly.  A filter of the join above, if there is one, is tested before
 * or after the conditions (scan_table.c); only rows that pass it are read further.
 *
 * Kept columns (scan_kept.c) have no pages and no walk: they are checked, then each condition and each wanted column takes time. A condition on
 * strings takes as long as on pages, unless they are codes. Where few rows pass, their values are far from each other.
 */
#include "model/hjg_model.h"

/*
 * Part of the reader's work that goes on while memory supplies the next page, in prices. It is less (model_crowding.c), but core's price of a scan does
 * not tell a row that has to be fetched from one that is there.
 */
#define OVERLAP 0.8

/* Cache misses of a page besides its rows: the buffer's entry in the mapping table. */
#define PAGE_MISSES 1

/* Columns that are included in direct_tuple_ns. */
#define FREE_COLUMNS 2

/* A step over an attribute of fixed width, relative to one of variable width. */
#define FIXED_STEP 0.4

/* An attribute walked over by core's code, row by row, relative to one walked over in all rows of a page. */
#define CORE_STEP 3.0

/*
 * An operator on values of fixed width in core's expression code, relative to one on values of variable
 * width.
 */
#define FIXED_OPERATOR 0.3

/* Values in a cache line of a kept column, a power of two; and a miss there as a share of one that nothing else overlaps. */
#define KEPT_LINE_LOG 4
#define KEPT_MISS 0.5

static double
columns_ns(const HjgUnitCosts *costs, const HjgColumnsRead *columns)
{
	const int	nmore = columns->nfixed > FREE_COLUMNS ? columns->nfixed - FREE_COLUMNS : 0;

	return nmore * costs->fixed_column_ns + (columns->nvarlenas + columns->nsteps * FIXED_STEP) * costs->walk_ns;
}

static bool
is_any(const HjgColumnsRead *columns)
{
	return columns->nfixed > 0 || columns->nvarlenas > 0;
}

double
hjg_model_sparse_ns(const HjgUnitCosts *costs, double rows, double fraction, int ncolumns)
{
	double		unread = 1 - fraction;	/* fraction of the lines */

	for (int i = 0; i < KEPT_LINE_LOG; i++)
		unread *= unread;
	/* a line behind one that is read is fetched ahead */
	return ncolumns * rows / (1 << KEPT_LINE_LOG) * (1 - unread) * unread * KEPT_MISS * costs->miss_ns;
}

HjgScanTimes
hjg_model_scan(const HjgUnitCosts *costs, const HjgTableScan *scan, double share)
{
	const bool	filter_first = scan->keys_fixed && scan->conditions_wait;
	const double live = 1 - scan->kept_share;
	const double nothers = scan->mappers > 1 ? scan->mappers - 1 : 0;
	const double coded = scan->kept_share > 0 ? scan->coded_share / scan->kept_share : 1;
	const double core_tested_ns = scan->core_share * (costs->core_row_ns + scan->core_operators * costs->core_operator_ns);
	double		kept_tested_ns = core_tested_ns + scan->kept_tests * costs->test_ns[HJG_TEST_FIXED] + scan->code_tests * costs->code_test_ns;
	double		kept_wanted_ns;
	double		kept_ns;
	double		wanted_ns = scan->passing * (costs->direct_tuple_ns + columns_ns(costs, &scan->wanted));
	double		tested_ns = is_any(&scan->tested) ? costs->direct_tuple_ns + columns_ns(costs, &scan->tested) : 0;
	/* searching a string takes core no less */
	double		core_ns = costs->scan_tuple_ns + scan->tests[HJG_TEST_LIKE] * costs->test_ns[HJG_TEST_LIKE] + CORE_STEP * columns_ns(costs, &scan->wanted) + costs->core_operator_ns * (scan->all_operators + FIXED_OPERATOR * scan->all_tests);

	for (int i = 0; i < HJG_NTESTS; i++)
	{
		const double uncoded = i == HJG_TEST_BYTES || i == HJG_TEST_LIKE ? 1 - coded : 0;

		tested_ns += scan->tests[i] * costs->test_ns[i];
		kept_tested_ns += scan->tests[i] * uncoded * costs->test_ns[i];
	}
	tested_ns += core_tested_ns + scan->core_share * CORE_STEP * columns_ns(costs, &scan->core_columns);
	kept_wanted_ns = scan->passing * scan->nwanted * costs->fixed_column_ns;
	kept_ns = share * scan->kept_share * (scan->rows * (kept_wanted_ns + kept_tested_ns + scan->nread * HJG_MODEL_KEPT_MB * costs->check_mb_ns) +
										  hjg_model_sparse_ns(costs, scan->rows, scan->passing, scan->nwanted));
	return (HjgScanTimes) {
		.own_ns = share * live * (scan->pages * costs->page_ns + scan->rows * (wanted_ns + tested_ns)) + kept_ns,
		.memory_ns = live * share * (scan->pages * PAGE_MISSES * costs->miss_ns +
									 scan->rows * costs->line_ns * (scan->lines > 1 ? scan->lines - 1 : 0)),
		.found_ns = share * live * scan->rows * costs->direct_tuple_ns,
		.map_ns = share * (live * scan->unmapped_mb + scan->kept_share * scan->kept_unmapped_mb) * costs->map_mb_ns,
		.map_others_ns = share * live * scan->unmapped_mb * nothers * costs->map_mb_ns,
		.core_ns = share * scan->rows * core_ns,
		.filter_rows = share * scan->rows * (filter_first ? 1 : scan->passing),
		.late_ns = share * scan->rows * (live * ((scan->keys_fixed ? wanted_ns : 0) + (filter_first ? tested_ns : 0)) +
										 scan->kept_share * kept_wanted_ns),
		.kept_share = scan->kept_share,
		.kept_ns = kept_ns,
		.kept_rows = share * scan->rows * scan->kept_share,
		.kept_passing = scan->passing,
		.nwanted = scan->nwanted
	};
}

double
hjg_model_wait_ns(const HjgScanTimes *scan, double added_ns)
{
	const double ns = scan->memory_ns - OVERLAP * (scan->own_ns + added_ns);

	return ns > 0 ? ns : 0;
}
