/*
 * calibrate_scan.c
 *	  hjoin_gpu_calibrate(): the time of reading tables, for rows of several forms.
 *
 * It makes pages like those of two tables: rows of about sixty and about two hundred bytes, with some columns at fixed
 * places, and others after values of unpredictable lengths. It reads them as a scan does (scan_heap.c), with conditions in
 * vectors (vector_filter.c) and by core's expression code. A page's time without its rows, and that of core's scan, are
 * measured on a catalog table that every database has.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "storage/bufpage.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "base/hjg_base.h"
#include "calibrate/hjg_calibrate.h"
#include "kept/hjg_kept.h"
#include "model/hjg_measured.h"
#include "scan/hjg_scan_filter.h"

/* Pages that stay in a second-level cache, and pages most of which no cache holds. */
#define CACHED_PAGES 64
#define MEMORY_PAGES (HJG_CALIBRATE_BYTES / BLCKSZ)

/* Pages whose rows core's code tests, which takes longer than memory does. */
#define CORE_PAGES (MEMORY_PAGES / 4)

/* Rounds, each of as many pages as stay in the cache: so short that few are disturbed; their median counts. */
#define ROUNDS (MEMORY_PAGES / CACHED_PAGES)

/* Attributes of a row. */
enum
{
	LAST_INT = 4,
	LAST_NUMERIC = 8,
	WORD,						/* one of a few words */
	FIRST_TEXT,					/* letters */
	LAST_TEXT = 16
};

/* Shorter times cannot be measured; a test of codes is shorter, but of many rows. */
#define LEAST_NS 0.1
#define LEAST_CODE_NS 0.01

/* Rows of a round whose codes are tested. */
#define CODED_ROWS (128 * 1024)

/* About half of the numerics are below this. */
#define LEAST_PASSING 1000

/* Factor of a scan's rows over these rows, for pins and counters. */
#define MORE_OF_SCAN 1.5

/* The longest text; a value of some kilobytes would be stored outside its row. */
#define MOST_TEXT 40

typedef struct HjgScanSample
{
	TupleDesc	desc;
	char	   *memory;
	int			npages;
	double		lines;			/* cache lines of a row */
	OffsetNumber rows[MaxHeapTuplesPerPage];	/* the same in each page */
	int			nrows;
} HjgScanSample;

/* Draw a number below n. */
static uint32
draw_number(uint32 *state, uint32 n)
{
	*state = *state * 1664525u + 1013904223u;
	return (*state >> 8) % n;
}

static TupleDesc
describe_rows(int natts)
{
	TupleDesc	desc = CreateTemplateTupleDesc(natts);

	for (int a = 1; a <= natts; a++)
		TupleDescInitEntry(desc, a, "column", a <= LAST_INT ? INT4OID : a <= LAST_NUMERIC ? NUMERICOID : TEXTOID, -1, 0);
	return desc;
}

static HeapTuple
make_row(TupleDesc desc, uint32 *state)
{
	Datum		values[LAST_TEXT];
	bool		nulls[LAST_TEXT] = {0};
	char		letters[MOST_TEXT];
	static const char *const words[] = {"air", "mail", "rail", "ship", "text", "truck"};

	for (int i = 0; i < MOST_TEXT; i++)
		letters[i] = 'a' + draw_number(state, 26);
	for (int a = 1; a <= desc->natts; a++)
		values[a - 1] = a <= LAST_INT ? Int32GetDatum(draw_number(state, 1000)) :
			a <= LAST_NUMERIC ? NumericGetDatum(int64_to_numeric(draw_number(state, 1 << (3 + draw_number(state, 20))))) :
			a == WORD ? CStringGetTextDatum(words[draw_number(state, lengthof(words))]) :
			PointerGetDatum(cstring_to_text_with_len(letters, draw_number(state, MOST_TEXT)));
	return heap_form_tuple(desc, values, nulls);
}

/*
 * Make pages of rows with natts attributes, at least those that stay in a cache, and copies of them that do not; all pages have as many rows
 * as the least filled one.
 */
static void
make_pages(HjgScanSample *pages, int npages, int natts)
{
	const Size	page_bytes = BLCKSZ;
	uint32		state = 1;

	pages->desc = describe_rows(natts);
	pages->memory = (char *) TYPEALIGN(BLCKSZ, MemoryContextAllocHuge(CurrentMemoryContext, (npages + 1) * page_bytes));
	pages->npages = npages;
	pages->nrows = MaxHeapTuplesPerPage;
	for (int i = 0; i < CACHED_PAGES; i++)
	{
		char	   *page = pages->memory + i * page_bytes;
		HeapTuple	tuple = make_row(pages->desc, &state);
		int			n;

		PageInit(page, BLCKSZ, 0);
		for (n = 0; n < pages->nrows && PageGetFreeSpace(page) >= MAXALIGN(tuple->t_len); n++)
		{
			pages->rows[n] = PageAddItem(page, (Item) tuple->t_data, tuple->t_len, InvalidOffsetNumber, false, true);
			tuple = make_row(pages->desc, &state);
		}
		pages->nrows = n;
	}
	for (int i = CACHED_PAGES; i + CACHED_PAGES <= npages; i += CACHED_PAGES)
		memcpy(pages->memory + i * page_bytes, pages->memory, CACHED_PAGES * page_bytes);
	pages->lines = (double) BLCKSZ / pages->nrows / HJG_MODEL_LINE_BYTES;
}

static HjgHeapPage
page_of(const HjgScanSample *pages, int i)
{
	char	   *page = pages->memory + (Size) i * BLCKSZ;

	return (HjgHeapPage) {.page = page, .nrows = pages->nrows, .rows = pages->rows, .next = i + 1 < pages->npages ? page + BLCKSZ : NULL};
}

const HjgScanSample *
hjg_calibrate_sample(int npages)
{
	HjgScanSample *sample = palloc(sizeof(HjgScanSample));

	make_pages(sample, npages, LAST_TEXT);
	return sample;
}

void
hjg_calibrate_sample_read(const HjgScanSample *sample, int npages, bool cached)
{
	static const AttrNumber far[] = {1, LAST_TEXT};
	HjgVector	vectors[2];
	HjgHeapReader *reader = hjg_scan_heap_reader_create(sample->desc, lengthof(far), far, HJG_MAX_VECTOR_ROWS, vectors);

	for (int i = 0; i < (cached ? CACHED_PAGES : npages); i++)
	{
		const HjgHeapPage page = page_of(sample, i);

		hjg_scan_heap_read(reader, &page, 0);
	}
}

static inline void
evict_line(const char *line)
{
#if defined(__x86_64__)
	_mm_clflush(line);
#elif defined(__aarch64__)
	__asm__ __volatile__("dc civac, %0" : : "r"(line) : "memory");
#endif
}

static inline void
wait_for_evictions(void)
{
#if defined(__x86_64__)
	_mm_mfence();
#elif defined(__aarch64__)
	__asm__ __volatile__("dsb ish" : : : "memory");
#endif
}

void
hjg_calibrate_sample_evict(const HjgScanSample *sample, int first, int npages)
{
	const char *start = sample->memory + (Size) first * BLCKSZ;

	for (Size at = 0; at < (Size) npages * BLCKSZ; at += HJG_MODEL_LINE_BYTES)
		evict_line(start + at);
	wait_for_evictions();
}

/* Read these columns of all rows, of pages in cache or not; returns the time of a row. */
static double
time_reading(const HjgScanSample *pages, int ncolumns, const AttrNumber *attnos, bool cached)
{
	HjgVector	vectors[LAST_TEXT];
	HjgHeapReader *reader = hjg_scan_heap_reader_create(pages->desc, ncolumns, attnos, HJG_MAX_VECTOR_ROWS, vectors);
	double		ns[ROUNDS];

	for (int round = 0; round < ROUNDS; round++)
	{
		uint64		start;

		if (!cached)
			hjg_calibrate_sample_evict(pages, round * CACHED_PAGES, CACHED_PAGES);
		start = hjg_now_ns();
		for (int i = 0; i < CACHED_PAGES; i++)
		{
			const HjgHeapPage page = page_of(pages, cached ? i : round * CACHED_PAGES + i);

			hjg_scan_heap_read(reader, &page, 0);
		}
		ns[round] = hjg_now_ns() - start;
	}
	return hjg_median(ns, ROUNDS) / ((double) CACHED_PAGES * pages->nrows);
}

/* Measure columns at fixed places, and after others, in cache; and memory, which takes longer than reading the former. */
static void
measure_columns(const HjgScanSample *wide, HjgUnitCosts *costs)
{
	static const AttrNumber fixed[] = {1, 2, 3, 4};
	static const AttrNumber far[] = {1, LAST_TEXT};
	const double fixed_ns = time_reading(wide, LAST_INT, fixed, true);
	const double first_ns = time_reading(wide, 2, fixed, true);
	const double walk_ns = time_reading(wide, 2, far, true);
	const double memory_ns = time_reading(wide, 2, fixed, false);
	const double far_walk_ns = time_reading(wide, 2, far, false);

	costs->direct_tuple_ns = Max(first_ns, LEAST_NS);
	costs->fixed_column_ns = Max((fixed_ns - first_ns) / (LAST_INT - 2), LEAST_NS);
	costs->walk_ns = Max((walk_ns - first_ns) / (LAST_TEXT - LAST_INT), LEAST_NS);
	costs->far_walk_ns = Max((far_walk_ns - memory_ns) / (LAST_TEXT - LAST_INT), LEAST_NS);
	costs->line_ns = Max(memory_ns / (wide->lines - 1), LEAST_NS);
}

/* Evaluate a condition in vectors; returns the time of a row. */
static double
time_test(const HjgScanSample *pages, AttrNumber attno, HjgFilter *leaf)
{
	HjgVector	vector;
	HjgHeapReader *reader = hjg_scan_heap_reader_create(pages->desc, 1, &attno, HJG_MAX_VECTOR_ROWS, &vector);
	bool		pass[MaxHeapTuplesPerPage];
	double		ns[ROUNDS];

	for (int round = 0; round < ROUNDS; round++)
	{
		ns[round] = 0;
		for (int i = 0; i < CACHED_PAGES; i++)
		{
			const HjgHeapPage page = page_of(pages, i);
			uint64		start;

			hjg_scan_heap_read(reader, &page, 0);
			start = hjg_now_ns();
			memset(pass, true, sizeof(pass));
			hjg_vector_filter_eval(leaf, &vector, pages->nrows, pass);
			ns[round] += hjg_now_ns() - start;
		}
	}
	return Max(hjg_median(ns, ROUNDS) / ((double) CACHED_PAGES * pages->nrows), LEAST_NS);
}

/* Check kept columns that come from memory, and test their codes, as many at a time as a page may have rows, as a scan does. */
static void
measure_codes(HjgUnitCosts *costs)
{
	const Size	nbytes = CODED_ROWS * sizeof(uint16);
	uint16	   *values = MemoryContextAllocHuge(CurrentMemoryContext, ROUNDS * nbytes);
	const HjgCodes codes = {.width = sizeof(uint16), .codes = values};
	bool		pass[MaxHeapTuplesPerPage];
	uint32		state = 1;
	double		check_ns[ROUNDS];
	double		test_ns[ROUNDS];
	volatile uint64 checksum;

	for (int i = 0; i < ROUNDS * CODED_ROWS; i++)
		values[i] = draw_number(&state, LEAST_PASSING);
	for (int round = 0; round < ROUNDS; round++)
	{
		const uint64 start = hjg_now_ns();
		uint64		checked;

		checksum = hjg_kept_checksum(values + round * CODED_ROWS, nbytes);
		checked = hjg_now_ns();
		for (int first = 0; first < CODED_ROWS; first += MaxHeapTuplesPerPage)
		{
			const int	n = Min(MaxHeapTuplesPerPage, CODED_ROWS - first);

			memset(pass, true, n * sizeof(bool));
			hjg_vector_codes_between(&codes, round * CODED_ROWS + first, n, 0, LEAST_PASSING / 2, false, pass);
		}
		check_ns[round] = checked - start;
		test_ns[round] = hjg_now_ns() - checked;
	}
	(void) checksum;
	pfree(values);
	costs->check_mb_ns = hjg_median(check_ns, ROUNDS) * (1024.0 * 1024.0) / nbytes;
	costs->code_test_ns = Max(hjg_median(test_ns, ROUNDS) / CODED_ROWS, LEAST_CODE_NS);
}

static void
measure_tests(const HjgScanSample *pages, HjgUnitCosts *costs)
{
	HjgFilter	fixed = {.ordinal = HJG_ORDINAL_INT};
	HjgFilter	equal = {0};
	HjgFilter	like = {0};
	HjgFilter	numeric = {0};
	HjgBytes	literals[] = {{"", 0}, {"text", 4}, {"", 0}};

	hjg_vector_filter_set_ordinal(&fixed, HJG_COMPARE_GE, 0);
	hjg_scan_filter_set_value(&equal, CurrentMemoryContext, HJG_COMPARE_EQ, HJG_VARIABLE_WIDTH, CStringGetTextDatum("text"));
	hjg_scan_filter_set_like(&like, literals, lengthof(literals), false);
	hjg_scan_filter_set_value(&numeric, CurrentMemoryContext, HJG_COMPARE_GE, HJG_NUMERIC_WIDTH, NumericGetDatum(int64_to_numeric(LEAST_PASSING)));
	costs->test_ns[HJG_TEST_NUMERIC] = time_test(pages, LAST_INT + 1, &numeric);
	costs->test_ns[HJG_TEST_FIXED] = time_test(pages, LAST_INT, &fixed);
	costs->test_ns[HJG_TEST_BYTES] = time_test(pages, WORD, &equal);
	costs->test_ns[HJG_TEST_LIKE] = time_test(pages, FIRST_TEXT, &like);
}

/*
 * Let core's expression code test each row noperators times whether a numeric is above the value that about half of them are
 * below; returns the time of a row.
 */
static double
time_core(const HjgScanSample *pages, int noperators, double *passing)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(pages->desc, &TTSOpsHeapTuple);
	ExprContext *econtext = CreateStandaloneExprContext();
	Var		   *var = makeVar(1, LAST_INT + 1, NUMERICOID, -1, InvalidOid, 0);
	Const	   *least = makeConst(NUMERICOID, -1, InvalidOid, -1, NumericGetDatum(int64_to_numeric(LEAST_PASSING)), false, false);
	HeapTupleData tuple = {0};
	uint64		npassed = 0;
	List	   *qual = NIL;
	ExprState  *state;
	double		ns[CORE_PAGES / CACHED_PAGES];

	for (int i = 0; i < noperators; i++)
		qual = lappend(qual, makeFuncExpr(F_NUMERIC_GT, BOOLOID, list_make2(var, least), InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL));
	state = ExecInitQual(qual, NULL);
	econtext->ecxt_scantuple = slot;
	for (int round = 0; round < lengthof(ns); round++)
	{
		uint64		start = hjg_now_ns();

		for (int i = 0; i < CACHED_PAGES * pages->nrows; i++)
		{
			const Page	page = page_of(pages, round * CACHED_PAGES + i / pages->nrows).page;
			ItemId		item = PageGetItemId(page, pages->rows[i % pages->nrows]);

			tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
			tuple.t_len = ItemIdGetLength(item);
			ExecStoreHeapTuple(&tuple, slot, false);
			ResetExprContext(econtext);
			npassed += ExecQual(state, econtext) ? 1 : 0;
		}
		ns[round] = hjg_now_ns() - start;
	}
	*passing = Max(npassed, 1) / ((double) CORE_PAGES * pages->nrows);
	ExecClearTuple(slot);
	ExecDropSingleTupleTableSlot(slot);
	FreeExprContext(econtext, true);
	return hjg_median(ns, lengthof(ns)) / ((double) CACHED_PAGES * pages->nrows);
}

static void
measure_core_conditions(const HjgScanSample *pages, HjgUnitCosts *costs)
{
	double		passing;
	const double one_ns = time_core(pages, 1, &passing);
	const double four_ns = time_core(pages, 4, &passing);

	/* rows that pass the first condition are tested by the others */
	costs->core_operator_ns = Max((four_ns - one_ns) / 3 / passing, 1);
	costs->core_row_ns = Max(one_ns - costs->core_operator_ns, 1) * MORE_OF_SCAN;
}

/* Scan a table once through slots, up to attribute natts; returns the number of rows. */
static double
scan_slots(Relation relation, TupleTableSlot *slot, int natts)
{
	TableScanDesc scan = table_beginscan(relation, GetActiveSnapshot(), 0, NULL);
	double		nrows = 0;

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		slot_getsomeattrs(slot, natts);
		nrows++;
	}
	table_endscan(scan);
	return nrows;
}

/* Find the visible rows of a table's pages, without reading columns; returns the number of pages. */
static double
scan_pages(Relation relation)
{
	TableScanDesc scan = table_beginscan(relation, GetActiveSnapshot(), 0, NULL);
	HjgHeapPage page = {0};
	double		npages = 0;

	while (hjg_scan_heap_next_page(scan, &page))
		npages++;
	table_endscan(scan);
	return npages;
}

/* Measure core's scan of a table, and pages. The executor's own time for each row of a scan is not included. */
static void
measure_table(HjgUnitCosts *costs)
{
	Relation	relation = table_open(AttributeRelationId, AccessShareLock);

	if (hjg_scan_heap_readable(relation))
	{
		TupleTableSlot *slot = table_slot_create(relation, NULL);
		double		row_ns[ROUNDS];
		double		page_ns[ROUNDS];

		/* the first scan loads the pages and sets hint bits for the others */
		(void) scan_slots(relation, slot, Anum_pg_attribute_attnum);
		for (int round = 0; round < ROUNDS; round++)
		{
			uint64		start = hjg_now_ns();
			double		n = scan_slots(relation, slot, Anum_pg_attribute_attnum);

			row_ns[round] = (hjg_now_ns() - start) / n;
			start = hjg_now_ns();
			n = scan_pages(relation);
			page_ns[round] = (hjg_now_ns() - start) / n;
		}
		costs->scan_tuple_ns = hjg_median(row_ns, ROUNDS);
		costs->page_ns = hjg_median(page_ns, ROUNDS);
		ExecDropSingleTupleTableSlot(slot);
	}
	table_close(relation, AccessShareLock);
}

void
hjg_calibrate_scans(HjgUnitCosts *costs)
{
	HjgScanSample narrow;
	HjgScanSample wide;

	make_pages(&narrow, CORE_PAGES, LAST_NUMERIC);
	measure_core_conditions(&narrow, costs);
	MemoryContextReset(CurrentMemoryContext);
	make_pages(&wide, MEMORY_PAGES, LAST_TEXT);
	measure_columns(&wide, costs);
	measure_tests(&wide, costs);
	MemoryContextReset(CurrentMemoryContext);
	measure_codes(costs);
	measure_table(costs);
}
