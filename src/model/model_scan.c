/*
 * model_scan.c
 *	  The cost of reading a table whose pages the node reads directly (scan_heap.c), and of core's scan
 *	  of it.
 *
 * Each page costs, and each visible row: it is found, and its columns at fixed places are copied.  To
 * reach a wanted column behind one of variable width, every row is walked attribute by attribute.
 * Conditions come before the other columns: first those in vectors, for all rows; core's expression code
 * then sees the surviving rows one by one.  A filter of the join above, if there is one, is tested before
 * or after the conditions (scan_table.c); only rows that pass it are read further.
 */
#include "model/hjg_model.h"

/* A prefetched line of a row, and a line behind these, relative to their average. */
#define LINE_AHEAD 0.4
#define LINE_WALKED 1.4

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

HjgScanTimes
hjg_model_scan(const HjgUnitCosts *costs, const HjgTableScan *scan, double share)
{
	const bool	filter_first = scan->keys_fixed && scan->conditions_wait;
	const double walked_ns = costs->line_ns * scan->walked_lines * LINE_WALKED;
	double		wanted_ns = scan->passing * (costs->direct_tuple_ns + columns_ns(costs, &scan->wanted));
	double		tested_ns = is_any(&scan->tested) ? costs->direct_tuple_ns + columns_ns(costs, &scan->tested) : 0;
	double		core_ns = costs->scan_tuple_ns + CORE_STEP * columns_ns(costs, &scan->wanted) + costs->core_operator_ns * (scan->all_operators + FIXED_OPERATOR * scan->all_tests);

	for (int i = 0; i < HJG_NTESTS; i++)
		tested_ns += scan->tests[i] * costs->test_ns[i];
	tested_ns += scan->core_share * (costs->core_row_ns + scan->core_operators * costs->core_operator_ns +
									 CORE_STEP * columns_ns(costs, &scan->core_columns));
	return (HjgScanTimes) {
		.own_ns = share * (scan->pages * costs->page_ns + scan->rows * (wanted_ns + tested_ns)),
		.read_ns = share * scan->rows * (costs->line_ns * scan->lines * LINE_AHEAD + walked_ns),
		.core_ns = share * scan->rows * core_ns,
		.filter_rows = share * scan->rows * (filter_first ? 1 : scan->passing),
		.late_ns = share * scan->rows * ((scan->keys_fixed ? wanted_ns : 0) + (filter_first ? tested_ns + walked_ns : 0))
	};
}
