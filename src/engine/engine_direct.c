/*
 * engine_direct.c
 *	  Tables that are an array by key, for dense keys of 4 or 8 bytes: decides whether keys are dense,
 *	  and stores the build row of each key where each key occurs once.
 *
 * Dimension tables have such keys, and tables that refer to them.  A probe row costs a subtraction and one
 * word of the array, or two where keys are repeated; no hash and no comparison of keys.  The array is no
 * larger than the lines that it replaces.  Keys are taken as signed numbers, so keys on both sides of zero
 * are neighbours.
 *
 * The least and the greatest key decide whether keys are dense; random keys fail within the first unit.
 * Repeated keys are noticed while the array is filled.  Slots that fill it together may both miss a
 * repeated key, so several slots count the filled places afterwards.  Repeated keys are left to
 * engine_direct_repeated.c.
 */
#include "engine/hjg_engine_internal.h"
#include "model/hjg_model.h"

/*
 * Most places of an array for each build row where keys are repeated (otherwise HJG_DENSE_PLACES_PER_ROW).
 * A probe row then waits for two words: at 4 places a row that takes as long as lines do, at 2 a fifth
 * less.  Fewer places than FEW_PLACES, a corner of the first-level cache, are always accepted.
 */
#define REPEATED_PLACES_PER_ROW 2
#define FEW_PLACES 4096

/* Rows or places of a unit. */
#define UNIT_ROWS 65536

/* Rows between prefetching a place and filling it: another core may have written its line last. */
#define AHEAD_ROWS 24

typedef struct DirectTask
{
	HjgTask		task;
	const HjgRuns *runs;
	HjgTable   *table;
	int			width;
	hjg_u64		most_places;
	hjg_u64		least;			/* atomic; ordered keys */
	hjg_u64		greatest;		/* atomic */
	hjg_u64		nfilled;		/* atomic */
} DirectTask;

/* --- building --- */

/* Map a key to an unsigned number that keeps the order of signed ones. */
HJG_ALWAYS_INLINE hjg_u64
ordered_key(int width, const hjg_u8 *key)
{
	if (width == 4)
		return hjg_load32(key) ^ 0x80000000u;
	return hjg_load64(key) ^ (hjg_u64) 1 << 63;
}

static hjg_u32
nunits_of(hjg_u64 n)
{
	return (hjg_u32) ((n + UNIT_ROWS - 1) / UNIT_ROWS);
}

/* Find the end of a unit of n rows or places. */
static hjg_u64
end_of(hjg_u32 unit, hjg_u64 n)
{
	const hjg_u64 end = ((hjg_u64) unit + 1) * UNIT_ROWS;

	return end < n ? end : n;
}

static void
keep_least(hjg_u64 *least, hjg_u64 value)
{
	hjg_u64		seen = __atomic_load_n(least, __ATOMIC_RELAXED);

	while (value < seen && !__atomic_compare_exchange_n(least, &seen, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void
keep_greatest(hjg_u64 *greatest, hjg_u64 value)
{
	hjg_u64		seen = __atomic_load_n(greatest, __ATOMIC_RELAXED);

	while (value > seen && !__atomic_compare_exchange_n(greatest, &seen, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

HJG_ALWAYS_INLINE void
find_range(int width, DirectTask *direct, hjg_u32 unit)
{
	const hjg_u64 begin = (hjg_u64) unit * UNIT_ROWS;
	const hjg_u64 end = end_of(unit, direct->runs->nrows);
	hjg_u64		least = (hjg_u64) -1;
	hjg_u64		greatest = 0;
	const hjg_u8 *keys;
	hjg_u32		row;
	hjg_u32		n;
	HjgKeyScan	scan;

	hjg_engine_scan_begin(&scan, direct->runs, begin, end);
	while ((n = hjg_engine_scan_next(&scan, width, HJG_POLL_ROWS, &keys, &row)) > 0)
	{
		for (hjg_u32 i = 0; i < n; i++)
		{
			hjg_u64		key = ordered_key(width, keys + (size_t) i * (size_t) width);

			least = key < least ? key : least;
			greatest = key > greatest ? key : greatest;
		}
		if (greatest - least >= direct->most_places || hjg_task_poll(&direct->task))
			break;
	}
	keep_least(&direct->least, least);
	keep_greatest(&direct->greatest, greatest);
	least = __atomic_load_n(&direct->least, __ATOMIC_RELAXED);
	greatest = __atomic_load_n(&direct->greatest, __ATOMIC_RELAXED);
	if (greatest > least && greatest - least >= direct->most_places)
		hjg_task_stop(&direct->task);
}

/* Define a task's unit function, with constant key widths. */
#define DEFINE_UNIT(name, work) \
	static void name(HjgTask *task, hjg_u32 unit, int slot) \
	{ \
		DirectTask *direct = (DirectTask *) task; \
	\
		(void) slot; \
		if (direct->width == HJG_KEY_WIDTH_4) \
			work(4, direct, unit); \
		else \
			work(8, direct, unit); \
	}

DEFINE_UNIT(range_unit, find_range)

static void
clear_unit(HjgTask *task, hjg_u32 unit, int slot)
{
	DirectTask *direct = (DirectTask *) task;
	const hjg_u64 begin = (hjg_u64) unit * UNIT_ROWS;
	const hjg_u64 end = end_of(unit, direct->table->nplaces + 1);

	(void) slot;
	memset(direct->table->rows + begin, 0xFF, sizeof(hjg_u32) * (end - begin));
	hjg_task_poll(task);
}

HJG_ALWAYS_INLINE void
fill_places(int width, DirectTask *direct, hjg_u32 unit)
{
	const HjgTable *table = direct->table;
	const hjg_u64 begin = (hjg_u64) unit * UNIT_ROWS;
	const hjg_u64 end = end_of(unit, direct->runs->nrows);
	const hjg_u8 *keys;
	hjg_u32		row;
	hjg_u32		n;
	HjgKeyScan	scan;

	hjg_engine_scan_begin(&scan, direct->runs, begin, end);
	while ((n = hjg_engine_scan_next(&scan, width, HJG_POLL_ROWS, &keys, &row)) > 0)
	{
		hjg_u32		repeated = 0;

		for (hjg_u32 i = 0; i < n; i++)
		{
			hjg_u32    *place = table->rows + hjg_direct_place(width, table, keys + (size_t) i * (size_t) width);

			if (i + AHEAD_ROWS < n)
				__builtin_prefetch(table->rows + hjg_direct_place(width, table, keys + (size_t) (i + AHEAD_ROWS) * (size_t) width), 1);
			repeated |= ~__atomic_load_n(place, __ATOMIC_RELAXED);
			__atomic_store_n(place, row + i, __ATOMIC_RELAXED);
		}
		if (repeated != 0)
			hjg_task_stop(&direct->task);
		if (hjg_task_poll(&direct->task))
			return;
	}
}

DEFINE_UNIT(fill_unit, fill_places)

static void
count_places_unit(HjgTask *task, hjg_u32 unit, int slot)
{
	DirectTask *direct = (DirectTask *) task;
	const hjg_u64 begin = (hjg_u64) unit * UNIT_ROWS;
	const hjg_u64 end = end_of(unit, direct->table->nplaces);
	hjg_u32		nfilled = 0;

	(void) slot;
	for (hjg_u64 i = begin; i < end; i++)
		nfilled += direct->table->rows[i] != HJG_NO_ROW;
	__atomic_fetch_add(&direct->nfilled, nfilled, __ATOMIC_RELAXED);
	hjg_task_poll(task);
}

static HjgStatus
run_units(DirectTask *direct, HjgJoin *join, HjgUnitFn unit_fn, hjg_u64 n)
{
	direct->task.unit_fn = unit_fn;
	return hjg_task_run(&direct->task, join, nunits_of(n), hjg_task_nslots(join, n));
}

static hjg_u64
most_places(hjg_u64 nrows, hjg_u64 per_row)
{
	const hjg_u64 places = per_row * nrows > FEW_PLACES ? per_row * nrows : FEW_PLACES;

	/* the last place stands for no key, and 4-byte keys count places in 32 bits */
	return places < HJG_NO_ROW ? places : HJG_NO_ROW;
}

/* Compute the bytes of an array of keys that occur once. */
static size_t
once_bytes(hjg_u64 nplaces)
{
	return hjg_align64(sizeof(hjg_u32) * (size_t) (nplaces + 1));
}

size_t
hjg_direct_build_bytes(hjg_u64 nrows, int nslots)
{
	const size_t once = HJG_LINE_BYTES + once_bytes(most_places(nrows, HJG_DENSE_PLACES_PER_ROW));
	const size_t repeated = hjg_direct_repeated_bytes(nrows, most_places(nrows, REPEATED_PLACES_PER_ROW), nslots);

	return once > repeated ? once : repeated;
}

/* Fill table, whose size is known, in join's lines_block; *fits is false when a key is repeated. */
static HjgStatus
fill_table(HjgJoin *join, DirectTask *direct, bool *fits)
{
	HjgTable   *table = direct->table;
	const hjg_u64 nrows = direct->runs->nrows;
	HjgStatus	status;

	*fits = false;
	if (nrows > table->nplaces)
		return HJG_OK;
	if (!hjg_block_reserve(join, &join->lines_block, once_bytes(table->nplaces)))
		return HJG_ERR_MEMORY;
	table->rows = join->lines_block.ptr;
	status = run_units(direct, join, clear_unit, table->nplaces + 1);
	if (status == HJG_OK)
		status = run_units(direct, join, fill_unit, nrows);
	if (status != HJG_OK || direct->task.stopped)
		return status;
	if (hjg_task_nslots(join, nrows) > 1)
	{
		status = run_units(direct, join, count_places_unit, table->nplaces);
		*fits = direct->nfilled == nrows;
	}
	else
		*fits = true;
	return status;
}

HjgStatus
hjg_direct_build(HjgJoin *join, const HjgRuns *runs, bool *built)
{
	HjgTable	table = {.nrows = runs->nrows};
	DirectTask	direct = {.runs = runs, .table = &table, .width = join->spec.key_width,
		.most_places = most_places(runs->nrows, HJG_DENSE_PLACES_PER_ROW), .least = (hjg_u64) -1};
	hjg_u64		started = hjg_now_ns();
	bool		once;
	HjgStatus	status;

	*built = false;
	if (direct.width == HJG_KEY_WIDTH_16 || runs->nrows == 0 || join->spec.strategy == HJG_CPU_NOP)
		return HJG_OK;
	status = run_units(&direct, join, range_unit, runs->nrows);
	if (status != HJG_OK || direct.task.stopped)
		return status;
	table.nplaces = direct.greatest - direct.least + 1;
	table.first_key = direct.least ^ (direct.width == HJG_KEY_WIDTH_4 ? (hjg_u64) 0x80000000u : (hjg_u64) 1 << 63);
	status = fill_table(join, &direct, &once);
	if (status == HJG_OK && once)
	{
		join->stats.npartitions = 1;
		status = hjg_table_publish_lines(join, once_bytes(table.nplaces));
		table.rows = join->lines_block.ptr;
	}
	else
		hjg_block_free(join, &join->lines_block);
	join->stats.build_ns += hjg_now_ns() - started;
	if (status == HJG_OK && !once)
	{
		if (table.nplaces > most_places(table.nrows, REPEATED_PLACES_PER_ROW))
			return HJG_OK;
		status = hjg_direct_build_repeated(join, runs, &table);
	}
	if (status != HJG_OK)
		return status;
	join->table = table;
	*built = true;
	return hjg_table_keep_direct(join);
}
