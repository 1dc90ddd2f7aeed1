/*
 * scan_filter_rows.c
 *	  Applies the conditions of a scan to rows of pages and of kept columns.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"

#include "kept/hjg_kept.h"
#include "scan/hjg_scan_filter.h"

static HjgKeptTests *
need_kept_tests(HjgScanFilter *scan)
{
	/* operands that cannot fail need not wait for a row */
	if (scan->conditions.nfallible == 0)
		hjg_scan_conditions_bind(&scan->conditions);
	if (scan->kept_tests == NULL)
		scan->kept_tests = hjg_scan_kept_tests_create(GetMemoryChunkContext(scan), scan->filter, scan->columns.attnos);
	return scan->kept_tests;
}

bool
hjg_scan_filter_excludes(HjgScanFilter *scan, const HjgKeptView *views, uint64 source)
{
	return hjg_scan_kept_tests_exclude(need_kept_tests(scan), views, source);
}

void
hjg_scan_filter_count_removed(HjgScanFilter *scan, uint64 nrows)
{
	InstrCountFiltered1(&scan->seq->ss, nrows);
}

/* Put the rows with pass[i] into passed[], which may be page->rows; returns their number. */
static int
collect_passed(const HjgHeapPage *page, const bool *pass, OffsetNumber *passed)
{
	int			n = 0;

	for (int i = 0; i < page->nrows; i += sizeof(uint64))
	{
		const int	end = Min(i + (int) sizeof(uint64), page->nrows);
		uint64		some;

		memcpy(&some, pass + i, sizeof(some));
		if (some == 0 && end - i == sizeof(uint64))
			continue;
		for (int row = i; row < end; row++)
		{
			passed[n] = page->rows[row];
			n += pass[row] ? 1 : 0;
		}
	}
	return n;
}

int
hjg_scan_filter_rows(HjgScanFilter *scan, const HjgHeapPage *page, OffsetNumber *passed)
{
	bool		pass[MaxHeapTuplesPerPage + sizeof(uint64)];	/* read in words */
	HjgFilter  *filter = scan->filter;
	HjgHeapPage left = *page;

	memset(pass, true, page->nrows * sizeof(bool));
	if (page->kept != NULL)
	{
		filter = hjg_scan_kept_tests_eval(need_kept_tests(scan), page, pass);
		left.nrows = collect_passed(page, pass, passed);
		left.rows = passed;
		memset(pass, true, left.nrows * sizeof(bool));
	}
	if (left.nrows > 0 && filter->nargs > 0)
	{
		hjg_scan_page_columns_read(&scan->columns, &left);
		check_stack_depth();
		hjg_vector_filter_eval(filter, scan->columns.vectors, left.nrows, pass);
		left.nrows = collect_passed(&left, pass, passed);
	}
	InstrCountFiltered1(&scan->seq->ss, page->nrows - left.nrows);
	return left.nrows;
}
