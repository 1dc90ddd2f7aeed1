/*
 * engine_ordered.c
 *	  The bounded path of probing: pairs in canonical order, up to a capacity.
 *
 * When the pairs of a batch do not fit in the result of a round, a window of probe rows is counted first
 * (pairs a row, and sums over groups of rows).  The sums give the place where the capacity cuts the
 * window, and the pairs up to the cut are written, each to its final place.  Slots divide the pairs among
 * them, not the rows: all slots write a row with millions of matches.  Nothing is kept between rounds, so
 * a round costs its output and at most one window of counting.
 *
 * Canonical order is by probe row, then by build row number: bucket order and the order of equal keys in
 * sorted buckets (engine_table.c) give it for free.
 */
#include "engine/hjg_engine_internal.h"
#include "layout/hjg_checksum.h"

/* Rows that pass through the stages together, and whose counts are summed. */
#define GROUP_ROWS 64

/* Rows of a counting unit, pairs of a writing unit. */
#define COUNT_UNIT_GROUPS 32
#define WRITE_UNIT_PAIRS 16384

typedef struct WindowTask
{
	HjgTask		task;
	const HjgTable *table;
	int			width;
	HjgMatchMode mode;
	const HjgRuns *runs;
	hjg_u32		row;			/* the window's first */
	hjg_u32		nrows;
	bool		slice;			/* of each row, only matches [first, first + most), from its last down */
	hjg_u32		first;
	hjg_u32		most;
	hjg_u32    *counts;			/* pairs of each row */
	hjg_u64    *sums;			/* of each group: its pairs, then the pairs before it; one more at the end */
	HjgResult  *result;
	hjg_u64		base;			/* place of the window's pair skip in the result */
	hjg_u64		skip;			/* pairs of the window that were emitted before */
	hjg_u64		npairs;			/* to be written */
	hjg_u64		checksum;		/* of the written pairs, if the result wants it; atomic */
} WindowTask;

typedef struct Group
{
	HjgMixed	key[GROUP_ROWS];
	hjg_u32		number[GROUP_ROWS]; /* of the bucket */
	HjgBucket	bucket[GROUP_ROWS];	/* for an array by key: the key's rows, not tuples */
} Group;

static hjg_u32
groups_of(hjg_u32 nrows)
{
	return (nrows + GROUP_ROWS - 1) / GROUP_ROWS;
}

size_t
hjg_engine_probe_window_bytes(hjg_u32 nrows)
{
	return hjg_align64(sizeof(hjg_u32) * (size_t) nrows) + sizeof(hjg_u64) * ((size_t) groups_of(nrows) + 1);
}

HJG_ALWAYS_INLINE HjgBucket
rows_of_key(int width, const HjgTable *table, const hjg_u8 *key)
{
	const hjg_u64 place = hjg_direct_place(width, table, key);
	const hjg_u32 *row = table->rows + place;

	if (table->starts == NULL)
		return (HjgBucket) {(const hjg_u8 *) row, *row != HJG_NO_ROW};
	row = table->rows + table->starts[place];
	return (HjgBucket) {(const hjg_u8 *) row, table->starts[place + 1] - table->starts[place]};
}

/* Find the buckets of rows [first, first + n) of the window; n <= GROUP_ROWS. */
HJG_ALWAYS_INLINE void
locate_buckets(int width, const WindowTask *window, hjg_u32 first, hjg_u32 n, Group *group)
{
	const HjgTable *table = window->table;
	HjgKeyScan	scan;
	const hjg_u8 *keys;
	hjg_u32		row;
	hjg_u32		m;
	hjg_u32		done = 0;

	hjg_engine_scan_begin(&scan, window->runs, (hjg_u64) window->row + first, (hjg_u64) window->row + first + n);
	while ((m = hjg_engine_scan_next(&scan, width, n, &keys, &row)) > 0)
	{
		for (hjg_u32 i = 0; i < m; i++)
		{
			group->key[done + i] = hjg_mix_key(width, keys + (size_t) i * width);
			if (width != 16 && table->rows != NULL)
				group->bucket[done + i] = rows_of_key(width, table, keys + (size_t) i * width);
		}
		done += m;
	}
	if (table->rows != NULL)
		return;
	for (hjg_u32 i = 0; i < n; i++)
	{
		group->number[i] = hjg_mixed_range(width, group->key[i].high, table->nbuckets);
		__builtin_prefetch(table->lines + (size_t) group->number[i] * HJG_LINE_BYTES);
	}
	for (hjg_u32 i = 0; i < n; i++)
	{
		group->bucket[i] = hjg_table_bucket(width, table, group->number[i]);
		__builtin_prefetch(group->bucket[i].tuples);
	}
}

HJG_ALWAYS_INLINE hjg_u32
count_matches(int width, const HjgTable *table, HjgBucket bucket, HjgMixed key)
{
	const size_t tb = (size_t) hjg_tuple_bytes(width);
	hjg_u32		matches = 0;

	if (table->rows != NULL)
		return bucket.ntuples;
	if (bucket.ntuples > HJG_HEAVY_BUCKET)
	{
		hjg_u32		first;
		hjg_u32		last;

		hjg_bucket_bisect(width, bucket, key, &first, &last);
		return last - first;
	}
	for (hjg_u32 i = 0; i < bucket.ntuples; i++)
		matches += (hjg_u32) hjg_mixed_equal(width, hjg_tuple_key(width, bucket.tuples + i * tb), key);
	return matches;
}

HJG_ALWAYS_INLINE void
count_unit(int width, WindowTask *window, hjg_u32 unit)
{
	const hjg_u32 ngroups = groups_of(window->nrows);
	hjg_u32		g = unit * COUNT_UNIT_GROUPS;
	const hjg_u32 last = ngroups - g < COUNT_UNIT_GROUPS ? ngroups : g + COUNT_UNIT_GROUPS;
	Group		group;

	for (; g < last; g++)
	{
		const hjg_u32 row = g * GROUP_ROWS;
		const hjg_u32 n = window->nrows - row < GROUP_ROWS ? window->nrows - row : GROUP_ROWS;
		hjg_u64		sum = 0;

		locate_buckets(width, window, row, n, &group);
		for (hjg_u32 i = 0; i < n; i++)
		{
			hjg_u32		count = count_matches(width, window->table, group.bucket[i], group.key[i]);

			if (window->mode == HJG_MATCH_LEFT)
				count += count == 0;
			else if (window->mode == HJG_MATCH_SEMI)
				count = count > 0;
			else if (window->mode == HJG_MATCH_ANTI)
				count = count == 0;
			else if (window->slice)
			{
				count = count > window->first ? count - window->first : 0;
				count = count < window->most ? count : window->most;
			}
			window->counts[row + i] = count;
			sum += count;
		}
		window->sums[g] = sum;
		if (g % 8 == 7 && hjg_task_poll(&window->task))
			return;
	}
}

/* A place in the result, with the room left in its page. */
typedef struct OrderedWriter
{
	const HjgResult *result;
	HjgPair    *out;
	hjg_u64		page;
	hjg_u32		room;
	hjg_u64		checksum;
} OrderedWriter;

static void
writer_begin(OrderedWriter *writer, const HjgResult *result, hjg_u64 pos)
{
	hjg_u32		in_page = (hjg_u32) (pos % result->page_pairs);

	writer->result = result;
	writer->page = pos / result->page_pairs;
	writer->out = result->pages[writer->page] + in_page;
	writer->room = result->page_pairs - in_page;
	writer->checksum = 0;
}

/* Make room for at least one pair; called only when there is a pair to write. */
static inline void
writer_turn(OrderedWriter *writer)
{
	if (writer->room == 0)
	{
		writer->out = writer->result->pages[++writer->page];
		writer->room = writer->result->page_pairs;
	}
}

static inline void
write_pair(OrderedWriter *writer, hjg_u32 probe_row, hjg_u32 build_row)
{
	writer_turn(writer);
	*writer->out++ = (HjgPair) {probe_row, build_row};
	writer->room--;
	if (writer->result->sum)
		writer->checksum += hjg_checksum_pair(probe_row, build_row);
}

/* Emit pairs of one row with n build rows that lie step bytes apart. */
HJG_ALWAYS_INLINE bool
write_rows(size_t step, WindowTask *window, OrderedWriter *writer, hjg_u32 probe_row, const hjg_u8 *build_rows, hjg_u32 n)
{
	while (n > 0)
	{
		hjg_u32		m = n < HJG_POLL_ROWS ? n : HJG_POLL_ROWS;

		writer_turn(writer);
		m = m < writer->room ? m : writer->room;
		for (hjg_u32 i = 0; i < m; i++)
			writer->out[i] = (HjgPair) {probe_row, hjg_load32(build_rows + i * step)};
		for (hjg_u32 i = 0; i < m && writer->result->sum; i++)
			writer->checksum += hjg_checksum_pair(probe_row, hjg_load32(build_rows + i * step));
		writer->out += m;
		writer->room -= m;
		build_rows += m * step;
		n -= m;
		if (m == HJG_POLL_ROWS && hjg_task_poll(&window->task))
			return false;
	}
	return true;
}

/* Emit pairs [skip, skip + n) of one row; n > 0. */
HJG_ALWAYS_INLINE bool
write_row(int width, WindowTask *window, OrderedWriter *writer, hjg_u32 probe_row, HjgMixed key, HjgBucket bucket,
		  hjg_u32 skip, hjg_u32 n)
{
	const size_t tb = (size_t) hjg_tuple_bytes(width);
	const bool	by_key = window->table->rows != NULL;
	const hjg_u8 *tuples = bucket.tuples;
	hjg_u32		first = 0;
	hjg_u32		last = bucket.ntuples;

	if (by_key)
		;						/* all rows are the key's */
	else if (bucket.ntuples > HJG_HEAVY_BUCKET)
		hjg_bucket_bisect(width, bucket, key, &first, &last);
	else
	{
		while (first < last && !hjg_mixed_equal(width, hjg_tuple_key(width, tuples + first * tb), key))
			first++;
	}
	if (window->mode == HJG_MATCH_ANTI || (window->mode == HJG_MATCH_LEFT && first == last))
	{
		write_pair(writer, probe_row, HJG_NO_ROW);
		return true;
	}
	if (by_key)
		return write_rows(sizeof(hjg_u32), window, writer, probe_row, tuples + skip * sizeof(hjg_u32), n);
	if (bucket.ntuples > HJG_HEAVY_BUCKET)
		return write_rows(tb, window, writer, probe_row, tuples + (first + skip) * tb + width, n);
	for (; n > 0; first++)
	{
		const hjg_u8 *t = tuples + first * tb;

		if (!hjg_mixed_equal(width, hjg_tuple_key(width, t), key))
			continue;
		if (skip > 0)
		{
			skip--;
			continue;
		}
		write_pair(writer, probe_row, hjg_tuple_row(width, t));
		n--;
	}
	return true;
}

HJG_ALWAYS_INLINE void
write_unit(int width, WindowTask *window, hjg_u32 unit)
{
	const hjg_u64 first_pair = (hjg_u64) unit * WRITE_UNIT_PAIRS;
	hjg_u64		left = window->npairs - first_pair < WRITE_UNIT_PAIRS ? window->npairs - first_pair : WRITE_UNIT_PAIRS;
	hjg_u64		skip = window->skip + first_pair;
	hjg_u32		lo = 0;
	hjg_u32		hi = groups_of(window->nrows);
	OrderedWriter		writer;
	Group		group;

	/* the last group that begins at or before pair skip */
	while (hi - lo > 1)
	{
		hjg_u32		mid = lo + (hi - lo) / 2;

		if (window->sums[mid] <= skip)
			lo = mid;
		else
			hi = mid;
	}
	skip -= window->sums[lo];
	writer_begin(&writer, window->result, window->base + first_pair);
	for (; left > 0; lo++)
	{
		const hjg_u32 row = lo * GROUP_ROWS;
		const hjg_u32 n = window->nrows - row < GROUP_ROWS ? window->nrows - row : GROUP_ROWS;

		locate_buckets(width, window, row, n, &group);
		for (hjg_u32 i = 0; i < n && left > 0; i++)
		{
			hjg_u32		count = window->counts[row + i];
			hjg_u32		before = 0;
			hjg_u32		m;

			if (skip >= count)
			{
				skip -= count;
				continue;
			}
			if (window->slice)
				before = count_matches(width, window->table, group.bucket[i], group.key[i]) - window->first - count;
			m = count - (hjg_u32) skip < left ? count - (hjg_u32) skip : (hjg_u32) left;
			if (!write_row(width, window, &writer, window->row + row + i, group.key[i], group.bucket[i],
						   before + (hjg_u32) skip, m))
				return;
			left -= m;
			skip = 0;
		}
		if (lo % 8 == 7 && hjg_task_poll(&window->task))
			return;
	}
	if (writer.checksum != 0)
		__atomic_fetch_add(&window->checksum, writer.checksum, __ATOMIC_RELAXED);
}

#define DEFINE_UNITS(verb) \
	static void verb##_dispatch(HjgTask *task, hjg_u32 unit, int slot) \
	{ \
		WindowTask *window = (WindowTask *) task; \
		(void) slot; \
		if (window->width == HJG_KEY_WIDTH_4) \
			verb##_unit(4, window, unit); \
		else if (window->width == HJG_KEY_WIDTH_8) \
			verb##_unit(8, window, unit); \
		else \
			verb##_unit(16, window, unit); \
	}

DEFINE_UNITS(count)
DEFINE_UNITS(write)

/* Find the cursor behind the window's pair end, counted from the first pair of its first row. */
static HjgCursor
cursor_behind(const WindowTask *window, hjg_u64 end)
{
	HjgCursor	cursor = {window->row, 0, 0};
	hjg_u32		lo = 0;
	hjg_u32		hi = groups_of(window->nrows);
	hjg_u32		row;

	while (hi - lo > 1)
	{
		hjg_u32		mid = lo + (hi - lo) / 2;

		if (window->sums[mid] <= end)
			lo = mid;
		else
			hi = mid;
	}
	end -= window->sums[lo];
	for (row = lo * GROUP_ROWS; row < window->nrows && window->counts[row] <= end; row++)
		end -= window->counts[row];
	cursor.row += row;
	cursor.skip = end;
	return cursor;
}

HjgStatus
hjg_engine_probe_window(HjgJoin *join, HjgMatchMode mode, const HjgRuns *runs, hjg_u32 nrows, HjgCursor *cursor,
				 HjgResult *result, hjg_u64 *npairs)
{
	const hjg_u64 room = (hjg_u64) result->npages * result->page_pairs - *npairs;
	const hjg_u32 ngroups = groups_of(nrows);
	const bool	slice = cursor->most > 1;
	WindowTask	window = {.table = &join->table, .width = join->spec.key_width, .mode = mode,
		.runs = runs, .row = cursor->row, .nrows = nrows, .slice = slice, .most = cursor->most, .result = result,
		.base = *npairs};
	HjgCursor	end;
	hjg_u64		started = hjg_now_ns();
	hjg_u64		total = 0;
	HjgStatus	status;

	if (!hjg_block_reserve(join, &join->counts_block, hjg_engine_probe_window_bytes(nrows)))
		return HJG_ERR_MEMORY;
	window.counts = join->counts_block.ptr;
	window.sums = (hjg_u64 *) ((hjg_u8 *) join->counts_block.ptr + hjg_align64(sizeof(hjg_u32) * (size_t) nrows));

	if (slice)
		window.first = cursor->skip < HJG_NO_ROW ? (hjg_u32) cursor->skip : HJG_NO_ROW;
	window.task.unit_fn = count_dispatch;
	status = hjg_task_run(&window.task, join, (ngroups + COUNT_UNIT_GROUPS - 1) / COUNT_UNIT_GROUPS,
						  hjg_task_nslots(join, nrows));
	if (status != HJG_OK)
		return status;
	for (hjg_u32 g = 0; g < ngroups; g++)
	{
		hjg_u64		sum = window.sums[g];

		window.sums[g] = total;
		total += sum;
	}
	window.sums[ngroups] = total;

	/* no engine returns a skip beyond the first row's pairs; treat it as all of them */
	window.skip = slice ? 0 : cursor->skip < window.counts[0] ? cursor->skip : window.counts[0];
	window.npairs = total - window.skip < room ? total - window.skip : room;
	end = cursor_behind(&window, window.skip + window.npairs);
	end.most = cursor->most;
	if (slice)
	{
		/* no row is cut */
		window.npairs -= end.skip;
		end.skip = end.row < runs->nrows ? cursor->skip : 0;
	}
	window.task.unit_fn = write_dispatch;
	status = hjg_task_run(&window.task, join, (hjg_u32) ((window.npairs + WRITE_UNIT_PAIRS - 1) / WRITE_UNIT_PAIRS),
						  hjg_task_nslots(join, window.npairs));
	if (status != HJG_OK)
		return status;
	*cursor = end;
	*npairs += window.npairs;
	result->checksum += window.checksum;
	join->stats.probe_ns += hjg_now_ns() - started;
	return HJG_OK;
}
