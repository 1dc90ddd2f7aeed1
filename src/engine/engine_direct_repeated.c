/*
 * engine_direct_repeated.c
 *	  Builds an array by key where keys are repeated: the rows of each key side by side, and for each
 *	  key where they begin.
 *
 * This is a counting sort by place, in two steps that keep the written memory in the cache: rows are
 * partitioned by the first bits of their places, and a slot sorts a partition.  Both steps are stable, so
 * the rows of a key ascend.  While a partition is sorted, starts[place + 1] first counts the rows of a
 * place, then is the position of its next row, and in the end the end of its rows, where the next place's
 * rows begin.  So slots that sort neighbouring partitions write to no common word.
 *
 * Skew.  A partition larger than its share (giant) is left to all slots: each counts and writes the rows
 * of a chunk of it, with its own counts, as a partitioning pass does.
 */
#include "engine/hjg_engine_internal.h"

/* Width of a tuple's word: places have 32 bits, whatever keys have. */
#define WORD 4

typedef struct RepeatedTask
{
	HjgTask		task;
	HjgTable   *table;
	const hjg_u8 *tuples;		/* partitioned */
	const hjg_u32 *part_start;
	int			shift;
	int			part_bits;		/* a partition has 2^part_bits places */
	hjg_u64		giant_rows;		/* partitions of more rows are left to all slots */

	/* of a giant partition */
	hjg_u32		giant;
	hjg_u32		nchunks;
	hjg_u32    *histogram;		/* [nchunks][2^part_bits]: counts, then positions of the next row */
} RepeatedTask;

/* --- sizes --- */

/* Compute the bytes of a partition that a slot may touch: its rows as tuples and sorted, and its places. */
static size_t
target_bytes(void)
{
	return hjg_l2_bytes() / 4;
}

static int
radix_bits(hjg_u64 nrows, hjg_u64 nplaces)
{
	const int	tuple_and_row_bytes = hjg_tuple_bytes(WORD) + (int) sizeof(hjg_u32);

	return hjg_radix_bits(nrows * (hjg_u64) tuple_and_row_bytes + nplaces * sizeof(hjg_u32), 1, target_bytes());
}

/* Compute the bytes of the table's starts and rows, which lie in place of its lines. */
static size_t
repeated_rows_bytes(hjg_u64 nrows, hjg_u64 nplaces)
{
	return hjg_align64(sizeof(hjg_u32) * (size_t) (nplaces + 2 + nrows + HJG_TABLE_PAD));
}

/* Choose the number of chunks of a giant partition: one a slot, but none with fewer rows than places. */
static hjg_u32
giant_chunks(hjg_u64 nrows, int part_bits, int nslots)
{
	const hjg_u64 most = nrows >> part_bits;

	return most < 1 ? 1 : most < (hjg_u64) nslots ? (hjg_u32) most : (hjg_u32) nslots;
}

/*
 * Bound the bytes of a giant partition's counts, for any array of at most nplaces: a count a row, or a
 * place.
 */
static size_t
giant_histogram_bytes(hjg_u64 nrows, hjg_u64 nplaces, int nslots)
{
	const size_t row_counts = sizeof(hjg_u32) * (size_t) nrows;
	size_t		all = sizeof(hjg_u32);
	size_t		most;

	while (all < nplaces * sizeof(hjg_u32))
		all *= 2;
	/* there are enough partitions for the target, or as many as possible */
	most = all >> HJG_MAX_RADIX_BITS > 2 * target_bytes() ? all >> HJG_MAX_RADIX_BITS : 2 * target_bytes();
	if (all > most)
		all = most;
	return nslots > 1 ? (all > row_counts ? all : row_counts) : 0;
}

size_t
hjg_direct_repeated_bytes(hjg_u64 nrows, hjg_u64 nplaces, int nslots)
{
	const int	bits = radix_bits(nrows, nplaces);
	const size_t histogram = hjg_engine_partition_keys_histogram_bytes(nrows, bits, nslots);
	const size_t giant = giant_histogram_bytes(nrows, nplaces, nslots);

	return HJG_LINE_BYTES + repeated_rows_bytes(nrows, nplaces) + hjg_align64((size_t) nrows * (size_t) hjg_tuple_bytes(WORD)) +
		(histogram > giant ? histogram : giant) + hjg_engine_partition_keys_slots_bytes(WORD, bits, nslots) +
		sizeof(hjg_u32) * (((size_t) 1 << bits) + 1);
}

/* --- sorting --- */

HJG_ALWAYS_INLINE hjg_u64
tuple_place(const RepeatedTask *repeated, const hjg_u8 *tuple)
{
	return hjg_load32(tuple) >> repeated->shift;
}

static bool
poll_at(RepeatedTask *repeated, hjg_u64 i)
{
	return i % HJG_POLL_ROWS == HJG_POLL_ROWS - 1 && hjg_task_poll(&repeated->task);
}

/* Find the places [*first, *last) of a partition; none when it lies behind all places. */
static void
places_of(const RepeatedTask *repeated, hjg_u32 partition, hjg_u64 *first, hjg_u64 *last)
{
	const hjg_u64 nplaces = repeated->table->nplaces;

	*first = (hjg_u64) partition << repeated->part_bits;
	*last = ((hjg_u64) partition + 1) << repeated->part_bits;
	*first = *first < nplaces ? *first : nplaces;
	*last = *last < nplaces ? *last : nplaces;
}

static void
sort_unit(HjgTask *task, hjg_u32 unit, int slot)
{
	RepeatedTask *repeated = (RepeatedTask *) task;
	const size_t tb = (size_t) hjg_tuple_bytes(WORD);
	hjg_u32    *rows = repeated->table->rows;
	hjg_u32    *ends = repeated->table->starts + 1;
	hjg_u32		sum = repeated->part_start[unit];
	const hjg_u64 n = repeated->part_start[unit + 1] - sum;
	const hjg_u8 *tuples = repeated->tuples + sum * tb;
	hjg_u64		first;
	hjg_u64		last;

	(void) slot;
	if (n > repeated->giant_rows || hjg_task_poll(task))
		return;
	places_of(repeated, unit, &first, &last);
	memset(ends + first, 0, sizeof(hjg_u32) * (last - first));
	for (hjg_u64 i = 0; i < n; i++)
	{
		ends[tuple_place(repeated, tuples + i * tb)]++;
		if (poll_at(repeated, i))
			return;
	}
	for (hjg_u64 place = first; place < last; place++)
	{
		hjg_u32		count = ends[place];

		ends[place] = sum;
		sum += count;
		if (poll_at(repeated, place))
			return;
	}
	for (hjg_u64 i = 0; i < n; i++)
	{
		rows[ends[tuple_place(repeated, tuples + i * tb)]++] = hjg_tuple_row(WORD, tuples + i * tb);
		if (poll_at(repeated, i))
			return;
	}
}

/* --- giant partitions --- */

/* Find the tuples [*begin, *end) of a chunk of the giant partition, and the chunk's counts. */
static hjg_u32 *
chunk_of(const RepeatedTask *repeated, hjg_u32 chunk, hjg_u64 *begin, hjg_u64 *end)
{
	const hjg_u64 first = repeated->part_start[repeated->giant];
	const hjg_u64 n = repeated->part_start[repeated->giant + 1] - first;

	*begin = first + n * chunk / repeated->nchunks;
	*end = first + n * (chunk + 1) / repeated->nchunks;
	return repeated->histogram + ((size_t) chunk << repeated->part_bits);
}

static void
count_repeated_unit(HjgTask *task, hjg_u32 unit, int slot)
{
	RepeatedTask *repeated = (RepeatedTask *) task;
	const size_t tb = (size_t) hjg_tuple_bytes(WORD);
	const hjg_u64 first = (hjg_u64) repeated->giant << repeated->part_bits;
	hjg_u64		begin;
	hjg_u64		end;
	hjg_u32    *counts = chunk_of(repeated, unit, &begin, &end);

	(void) slot;
	memset(counts, 0, sizeof(hjg_u32) << repeated->part_bits);
	for (hjg_u64 i = begin; i < end; i++)
	{
		counts[tuple_place(repeated, repeated->tuples + i * tb) - first]++;
		if (poll_at(repeated, i))
			return;
	}
}

static void
write_repeated_unit(HjgTask *task, hjg_u32 unit, int slot)
{
	RepeatedTask *repeated = (RepeatedTask *) task;
	const size_t tb = (size_t) hjg_tuple_bytes(WORD);
	const hjg_u64 first = (hjg_u64) repeated->giant << repeated->part_bits;
	hjg_u32    *rows = repeated->table->rows;
	hjg_u64		begin;
	hjg_u64		end;
	hjg_u32    *next = chunk_of(repeated, unit, &begin, &end);

	(void) slot;
	for (hjg_u64 i = begin; i < end; i++)
	{
		const hjg_u8 *tuple = repeated->tuples + i * tb;

		rows[next[tuple_place(repeated, tuple) - first]++] = hjg_tuple_row(WORD, tuple);
		if (poll_at(repeated, i))
			return;
	}
}

/* Turn the counts into the positions of each chunk's rows, place by place. */
static bool
sum_up(RepeatedTask *repeated)
{
	hjg_u32		sum = repeated->part_start[repeated->giant];
	hjg_u64		first;
	hjg_u64		last;

	places_of(repeated, repeated->giant, &first, &last);
	for (hjg_u64 place = first; place < last; place++)
	{
		hjg_u32    *cell = repeated->histogram + (place - first);

		for (hjg_u32 chunk = 0; chunk < repeated->nchunks; chunk++, cell += (size_t) 1 << repeated->part_bits)
		{
			hjg_u32		count = *cell;

			*cell = sum;
			sum += count;
		}
		repeated->table->starts[place + 1] = sum;
		/* a place has at most HJG_MAX_SLOTS cells */
		if (place % (HJG_POLL_ROWS / HJG_MAX_SLOTS) == 0 && hjg_task_poll(&repeated->task))
			return false;
	}
	return true;
}

static HjgStatus
sort_giant(HjgJoin *join, RepeatedTask *repeated, hjg_u32 partition)
{
	const int	nslots = hjg_task_nslots(join, repeated->table->nrows);
	HjgStatus	status;

	repeated->giant = partition;
	repeated->nchunks = giant_chunks(repeated->part_start[partition + 1] - repeated->part_start[partition], repeated->part_bits, nslots);
	if (!hjg_block_reserve(join, &join->histogram_block, (sizeof(hjg_u32) << repeated->part_bits) * repeated->nchunks))
		return HJG_ERR_MEMORY;
	repeated->histogram = join->histogram_block.ptr;
	repeated->task.unit_fn = count_repeated_unit;
	status = hjg_task_run(&repeated->task, join, repeated->nchunks, nslots);
	if (status != HJG_OK)
		return status;
	if (!sum_up(repeated))
		return HJG_ERR_CANCELLED;
	repeated->task.unit_fn = write_repeated_unit;
	return hjg_task_run(&repeated->task, join, repeated->nchunks, nslots);
}

/* --- the whole --- */

static HjgStatus
sort_partitions(HjgJoin *join, RepeatedTask *repeated, hjg_u32 nparts)
{
	const hjg_u64 nrows = repeated->table->nrows;
	const int	nslots = hjg_task_nslots(join, nrows);
	HjgStatus	status;

	repeated->giant_rows = (hjg_u64) -1;
	if (nslots > 1)
	{
		repeated->giant_rows = nrows / (2 * (hjg_u64) nslots);
		if (repeated->giant_rows < hjg_engine_tuning.giant_rows)
			repeated->giant_rows = hjg_engine_tuning.giant_rows;
	}
	repeated->task.unit_fn = sort_unit;
	status = hjg_task_run(&repeated->task, join, nparts, nslots);
	for (hjg_u32 p = 0; status == HJG_OK && p < nparts; p++)
	{
		if (repeated->part_start[p + 1] - repeated->part_start[p] > repeated->giant_rows)
			status = sort_giant(join, repeated, p);
	}
	return status;
}

HjgStatus
hjg_direct_build_repeated(HjgJoin *join, const HjgRuns *runs, HjgTable *table)
{
	const hjg_u64 nrows = runs->nrows;
	const int	shift = hjg_direct_shift(table);
	const int	most_bits = radix_bits(nrows, table->nplaces);
	const int	bits = most_bits < 32 - shift ? most_bits : 32 - shift;
	RepeatedTask repeated = {.table = table, .shift = shift, .part_bits = 32 - shift - bits};
	hjg_u64		started = hjg_now_ns();
	hjg_u64		partitioned;
	HjgStatus	status;

	if (!hjg_block_reserve(join, &join->partition_block, hjg_align64((size_t) nrows * (size_t) hjg_tuple_bytes(WORD))) ||
		!hjg_block_reserve(join, &join->counts_block, sizeof(hjg_u32) * (((size_t) 1 << bits) + 1)) ||
		!hjg_table_reserve(join, HJG_TABLE_LINES, repeated_rows_bytes(nrows, table->nplaces)))
		return HJG_ERR_MEMORY;
	status = hjg_engine_partition_places(join, runs, table, bits, join->partition_block.ptr, join->counts_block.ptr);
	if (status != HJG_OK)
		return status;
	partitioned = hjg_now_ns();

	table->rows = join->lines_block.ptr;
	hjg_direct_place_rows(table);
	table->starts[0] = 0;
	table->starts[table->nplaces + 1] = (hjg_u32) nrows;
	memset(table->rows + nrows, 0, sizeof(hjg_u32) * HJG_TABLE_PAD);
	repeated.tuples = join->partition_block.ptr;
	repeated.part_start = join->counts_block.ptr;
	status = sort_partitions(join, &repeated, 1u << bits);
	if (status != HJG_OK)
		return status;
	join->stats.partition_ns += partitioned - started;
	join->stats.build_ns += hjg_now_ns() - partitioned;
	join->stats.npartitions = 1 << bits;
	hjg_block_free(join, &join->partition_block);
	hjg_block_free(join, &join->histogram_block);
	return HJG_OK;
}
