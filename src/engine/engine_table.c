/*
 * engine_table.c
 *	  Building the table of a join: tuples in bucket order, heavy buckets sorted.
 *
 * The build side is partitioned into pieces that a second-level cache holds;
 * each is then sorted by bucket in the cache by one counting sort.  Both steps
 * are stable, so a bucket holds its tuples by ascending build row number.  The
 * partitioned copy lies in scratch at the same indexes as the table's tuples,
 * hence serves again as the second buffer of sorts.
 *
 * Skew.  A partition that is more than its share (giant) is sorted by bucket by
 * all slots together, and so is a giant bucket.  A bucket of one key only, the
 * usual giant, is recognised by its bits and not sorted at all.
 */
#include "engine/hjg_engine_internal.h"

/* Buckets of up to this many tuples are sorted by insertion. */
#define INSERTION_TUPLES 64

#define DIGIT_BITS 8

typedef struct TableTask
{
	HjgTask		task;
	HjgTable   *table;
	hjg_u8	   *scratch;		/* partitioned tuples, nrows */
	const hjg_u32 *part_start;
	hjg_u64		giant_rows;		/* partitions and buckets from here on are left to all slots */
	int			width;
	int			local_bits;		/* bucket bits below a partition's */
	hjg_u32		first_bucket;	/* of a giant partition */
	hjg_u32		nunits;
} TableTask;

/* --- sizes --- */

/*
 * Two to four rows a bucket on average: a scan of a few tuples costs less than
 * the cache misses of more bucket places.
 */
int
hjg_table_bucket_bits(hjg_u64 nrows)
{
	int			bits = 1;

	while (bits < 31 && (nrows >> bits) >= 4)
		bits++;
	return bits;
}

int
hjg_table_radix_bits(int width, hjg_u64 nrows)
{
	int			bits = hjg_radix_bits(nrows, 2 * (size_t) hjg_tuple_bytes(width) + 2, hjg_l2_bytes() / 8);
	int			bucket_bits = hjg_table_bucket_bits(nrows);

	return bits < bucket_bits ? bits : bucket_bits;
}

static size_t
tuples_block_bytes(int width, hjg_u64 nrows)
{
	return hjg_align64((size_t) (nrows + HJG_TABLE_PAD) * (size_t) hjg_tuple_bytes(width));
}

static size_t
start_block_bytes(hjg_u64 nrows)
{
	return sizeof(hjg_u32) * (((size_t) 1 << hjg_table_bucket_bits(nrows)) + 1);
}

/* Everything that hjg_table_build() allocates; nslots is an upper limit. */
size_t
hjg_table_build_bytes(int width, hjg_u64 nrows, int nslots)
{
	const int	radix_bits = hjg_table_radix_bits(width, nrows);
	const int	local_bits = hjg_table_bucket_bits(nrows) - radix_bits;
	const int	digit_bits = local_bits > DIGIT_BITS ? local_bits : DIGIT_BITS;
	size_t		histogram = hjg_partition_keys_histogram_bytes(nrows, radix_bits, nslots);
	size_t		giant;

	giant = hjg_partition_tuples_histogram_bytes(nrows, digit_bits, nslots);
	return 2 * tuples_block_bytes(width, nrows) + start_block_bytes(nrows) +
		(histogram > giant ? histogram : giant) +
		hjg_partition_keys_slots_bytes(width, radix_bits, nslots) +
		sizeof(hjg_u32) * (((size_t) 1 << radix_bits) + 1 + ((size_t) 1 << digit_bits) + 1) + 256;
}

/* --- sorting a bucket --- */

HJG_ALWAYS_INLINE void
sort_by_insertion(int width, hjg_u8 *tuples, hjg_u32 n)
{
	const int	tb = hjg_tuple_bytes(width);

	for (hjg_u32 i = 1; i < n; i++)
	{
		HjgMixed	key = hjg_tuple_key(width, tuples + (size_t) i * tb);
		hjg_u32		row = hjg_tuple_row(width, tuples + (size_t) i * tb);
		hjg_u32		j = i;

		while (j > 0 && hjg_mixed_less(width, key, hjg_tuple_key(width, tuples + (size_t) (j - 1) * tb)))
		{
			memcpy(tuples + (size_t) j * tb, tuples + (size_t) (j - 1) * tb, (size_t) tb);
			j--;
		}
		hjg_tuple_store(width, tuples + (size_t) j * tb, key, row);
	}
}

/* Bits in which the mixed keys differ. */
HJG_ALWAYS_INLINE HjgMixed
differing_bits(int width, HjgTask *task, const hjg_u8 *tuples, hjg_u64 n)
{
	const HjgMixed first = hjg_tuple_key(width, tuples);
	HjgMixed	diff = {0, 0};

	for (hjg_u64 i = 0; i < n; i++)
	{
		HjgMixed	key = hjg_tuple_key(width, tuples + i * (hjg_u64) hjg_tuple_bytes(width));

		diff.high |= key.high ^ first.high;
		diff.low |= key.low ^ first.low;
		if (i % HJG_POLL_ROWS == HJG_POLL_ROWS - 1 && hjg_task_poll(task))
			break;
	}
	return diff;
}

/*
 * The next digit of a least-significant-digit radix sort that is worth a pass,
 * from *digit on: digits count from the low word's end.  False: none is left.
 */
static bool
next_digit(HjgMixed diff, int *digit, bool *low_word, int *shift)
{
	for (; *digit < 128 / DIGIT_BITS; ++*digit)
	{
		hjg_u64		word = *digit < 64 / DIGIT_BITS ? diff.low : diff.high;

		*low_word = *digit < 64 / DIGIT_BITS;
		*shift = *digit % (64 / DIGIT_BITS) * DIGIT_BITS;
		if (word >> *shift & ((1u << DIGIT_BITS) - 1))
			return true;
	}
	return false;
}

/* One slot sorts a bucket stably by mixed key; scratch has room for n tuples. */
HJG_ALWAYS_INLINE void
sort_bucket(int width, HjgTask *task, hjg_u8 *tuples, hjg_u8 *scratch, hjg_u32 n)
{
	const int	tb = hjg_tuple_bytes(width);
	hjg_u8	   *src = tuples;
	hjg_u8	   *dst = scratch;
	HjgMixed	diff = differing_bits(width, task, tuples, n);
	int			digit = 0;
	bool		low_word;
	int			shift;

	if (diff.high == 0 && diff.low == 0)
		return;
	if (n <= INSERTION_TUPLES)
	{
		sort_by_insertion(width, tuples, n);
		return;
	}
	for (; next_digit(diff, &digit, &low_word, &shift); digit++)
	{
		hjg_u32		place[1 << DIGIT_BITS] = {0};
		hjg_u32		sum = 0;
		hjg_u8	   *t;

		for (hjg_u32 i = 0; i < n; i++)
		{
			HjgMixed	key = hjg_tuple_key(width, src + (size_t) i * tb);

			place[(low_word ? key.low : key.high) >> shift & ((1u << DIGIT_BITS) - 1)]++;
			if (i % HJG_POLL_ROWS == HJG_POLL_ROWS - 1 && hjg_task_poll(task))
				return;
		}
		for (int d = 0; d < 1 << DIGIT_BITS; d++)
		{
			hjg_u32		count = place[d];

			place[d] = sum;
			sum += count;
		}
		for (hjg_u32 i = 0; i < n; i++)
		{
			HjgMixed	key = hjg_tuple_key(width, src + (size_t) i * tb);
			hjg_u32		o = place[(low_word ? key.low : key.high) >> shift & ((1u << DIGIT_BITS) - 1)]++;

			memcpy(dst + (size_t) o * tb, src + (size_t) i * tb, (size_t) tb);
			if (i % HJG_POLL_ROWS == HJG_POLL_ROWS - 1 && hjg_task_poll(task))
				return;
		}
		t = src;
		src = dst;
		dst = t;
	}
	if (src != tuples)
	{
		for (hjg_u32 i = 0; i < n; i += HJG_POLL_ROWS)
		{
			hjg_u32		m = n - i < HJG_POLL_ROWS ? n - i : HJG_POLL_ROWS;

			memcpy(tuples + (size_t) i * tb, src + (size_t) i * tb, (size_t) m * tb);
			if (hjg_task_poll(task))
				return;
		}
	}
}

/* Sort the heavy buckets of [first, last), the first of which begins at begin; leave giant ones. */
HJG_ALWAYS_INLINE void
sort_heavy_buckets(int width, TableTask *build, hjg_u32 first, hjg_u32 last, hjg_u32 begin)
{
	const hjg_u32 *start = build->table->start;
	const size_t tb = (size_t) hjg_tuple_bytes(width);

	for (hjg_u32 b = first; b < last; b++)
	{
		hjg_u32		end = start[b + 1];

		if (end - begin > HJG_HEAVY_BUCKET && end - begin < build->giant_rows)
		{
			sort_bucket(width, &build->task, build->table->tuples + begin * tb, build->scratch + begin * tb,
						end - begin);
			if (hjg_task_poll(&build->task))
				return;
		}
		else if (b % HJG_POLL_ROWS == 0 && hjg_task_poll(&build->task))
			return;
		begin = end;
	}
}

/*
 * One partition into bucket order.  start[b + 1] serves as the count, then as
 * the next place, and so ends as the end of bucket b; start[first] is the
 * neighbour's to write.
 */
HJG_ALWAYS_INLINE void
build_partition(int width, TableTask *build, hjg_u32 partition)
{
	const int	tb = hjg_tuple_bytes(width);
	const int	bucket_bits = build->table->bucket_bits;
	const hjg_u32 first = partition << build->local_bits;
	const hjg_u32 last = (partition + 1) << build->local_bits;
	const hjg_u32 begin = build->part_start[partition];
	const hjg_u32 end = build->part_start[partition + 1];
	hjg_u32    *start = build->table->start;
	hjg_u8	   *tuples = build->table->tuples;
	const hjg_u8 *src = build->scratch;
	hjg_u32		sum = begin;
	hjg_u32		most = 0;

	if (end - begin >= build->giant_rows)
		return;
	if (hjg_task_poll(&build->task))
		return;
	memset(start + first + 1, 0, sizeof(hjg_u32) * (last - first));
	for (hjg_u32 i = begin; i < end; i++)
	{
		start[hjg_mixed_prefix(width, hjg_tuple_key(width, src + (size_t) i * tb).high, bucket_bits) + 1]++;
		if (i % HJG_POLL_ROWS == 0 && hjg_task_poll(&build->task))
			return;
	}
	for (hjg_u32 b = first; b < last; b++)
	{
		hjg_u32		count = start[b + 1];

		start[b + 1] = sum;
		sum += count;
		most = count > most ? count : most;
		if (b % HJG_POLL_ROWS == 0 && hjg_task_poll(&build->task))
			return;
	}
	for (hjg_u32 i = begin; i < end; i++)
	{
		HjgMixed	key = hjg_tuple_key(width, src + (size_t) i * tb);
		hjg_u32		o = start[hjg_mixed_prefix(width, key.high, bucket_bits) + 1]++;

		hjg_tuple_store(width, tuples + (size_t) o * tb, key, hjg_tuple_row(width, src + (size_t) i * tb));
		if (i % HJG_POLL_ROWS == 0 && hjg_task_poll(&build->task))
			return;
	}
	if (most > HJG_HEAVY_BUCKET)
		sort_heavy_buckets(width, build, first, last, begin);
}

static void
partition_unit(HjgTask *task, hjg_u32 unit, int slot)
{
	TableTask  *build = (TableTask *) task;

	(void) slot;
	switch (build->width)
	{
		case HJG_KEY_WIDTH_4:
			build_partition(4, build, unit);
			break;
		case HJG_KEY_WIDTH_8:
			build_partition(8, build, unit);
			break;
		default:
			build_partition(16, build, unit);
			break;
	}
}

/* A range of buckets of a giant partition that is in bucket order already. */
static void
heavy_unit(HjgTask *task, hjg_u32 unit, int slot)
{
	TableTask  *build = (TableTask *) task;
	const hjg_u64 nbuckets = (hjg_u64) 1 << build->local_bits;
	const hjg_u32 first = build->first_bucket + (hjg_u32) (nbuckets * unit / build->nunits);
	const hjg_u32 last = build->first_bucket + (hjg_u32) (nbuckets * (unit + 1) / build->nunits);
	const hjg_u32 begin = build->table->start[first];

	(void) slot;
	switch (build->width)
	{
		case HJG_KEY_WIDTH_4:
			sort_heavy_buckets(4, build, first, last, begin);
			break;
		case HJG_KEY_WIDTH_8:
			sort_heavy_buckets(8, build, first, last, begin);
			break;
		default:
			sort_heavy_buckets(16, build, first, last, begin);
			break;
	}
}

/* --- what all slots build together --- */

typedef struct DiffTask
{
	HjgTask		task;
	const hjg_u8 *tuples;
	hjg_u64		n;
	int			width;
	hjg_u64		high;			/* atomic */
	hjg_u64		low;			/* atomic */
} DiffTask;

#define DIFF_UNIT_TUPLES 65536

static void
diff_unit(HjgTask *task, hjg_u32 unit, int slot)
{
	DiffTask   *diff = (DiffTask *) task;
	const hjg_u64 begin = (hjg_u64) unit * DIFF_UNIT_TUPLES;
	const hjg_u64 n = diff->n - begin < DIFF_UNIT_TUPLES ? diff->n - begin : DIFF_UNIT_TUPLES;
	const hjg_u8 *tuples = diff->tuples + begin * (hjg_u64) hjg_tuple_bytes(diff->width);
	HjgMixed	bits;
	HjgMixed	first;
	HjgMixed	mine;

	(void) slot;
	switch (diff->width)
	{
		case HJG_KEY_WIDTH_4:
			bits = differing_bits(4, task, tuples, n);
			break;
		case HJG_KEY_WIDTH_8:
			bits = differing_bits(8, task, tuples, n);
			break;
		default:
			bits = differing_bits(16, task, tuples, n);
			break;
	}
	first = hjg_tuple_key(diff->width, diff->tuples);
	mine = hjg_tuple_key(diff->width, tuples);
	__atomic_fetch_or(&diff->high, bits.high | (mine.high ^ first.high), __ATOMIC_RELAXED);
	__atomic_fetch_or(&diff->low, bits.low | (mine.low ^ first.low), __ATOMIC_RELAXED);
}

static HjgStatus
sort_giant_bucket(HjgJoin *join, TableTask *build, hjg_u32 begin, hjg_u32 end, hjg_u32 *digit_start)
{
	const size_t tb = (size_t) hjg_tuple_bytes(build->width);
	const hjg_u64 n = end - begin;
	hjg_u8	   *tuples = build->table->tuples + begin * tb;
	hjg_u8	   *src = tuples;
	hjg_u8	   *dst = build->scratch + begin * tb;
	DiffTask	diff = {.task.unit_fn = diff_unit, .tuples = tuples, .n = n, .width = build->width};
	HjgMixed	bits;
	int			digit = 0;
	bool		low_word;
	int			shift;
	HjgStatus	status;

	status = hjg_task_run(&diff.task, join, (hjg_u32) ((n + DIFF_UNIT_TUPLES - 1) / DIFF_UNIT_TUPLES),
						  hjg_task_nslots(join, n));
	bits.high = diff.high;
	bits.low = diff.low;
	for (; status == HJG_OK && next_digit(bits, &digit, &low_word, &shift); digit++)
	{
		hjg_u8	   *t = src;

		status = hjg_partition_tuples(join, src, dst, n, low_word, shift, DIGIT_BITS, digit_start);
		src = dst;
		dst = t;
	}
	if (status == HJG_OK && src != tuples)
		status = hjg_partition_tuples(join, src, tuples, n, false, 0, 0, digit_start);	/* a copy */
	return status;
}

static HjgStatus
build_giant(HjgJoin *join, TableTask *build, hjg_u32 partition, hjg_u32 *digit_start)
{
	HjgTable   *table = build->table;
	const int	local_bits = build->local_bits;
	const hjg_u32 nbuckets = 1u << local_bits;
	const hjg_u32 begin = build->part_start[partition];
	const hjg_u64 n = build->part_start[partition + 1] - begin;
	const size_t tb = (size_t) hjg_tuple_bytes(build->width);
	const int	high_bits = build->width == 4 ? 32 : 64;
	HjgStatus	status;

	status = hjg_partition_tuples(join, build->scratch + begin * tb, table->tuples + begin * tb, n, false,
								  high_bits - table->bucket_bits, local_bits, digit_start);
	if (status != HJG_OK)
		return status;
	build->first_bucket = partition << local_bits;
	for (hjg_u32 b = 0; b < nbuckets; b++)
		table->start[build->first_bucket + b + 1] = begin + digit_start[b + 1];
	table->start[build->first_bucket] = begin;

	build->task.unit_fn = heavy_unit;
	build->nunits = nbuckets < 256 ? nbuckets : 256;
	status = hjg_task_run(&build->task, join, build->nunits, hjg_task_nslots(join, n));
	for (hjg_u32 b = 0; status == HJG_OK && b < nbuckets; b++)
	{
		const hjg_u32 *start = table->start + build->first_bucket + b;

		if (start[1] - start[0] >= build->giant_rows)
			status = sort_giant_bucket(join, build, start[0], start[1], digit_start);
	}
	return status;
}

/* --- the whole --- */

static HjgStatus
build_from_scratch(HjgJoin *join, TableTask *build, int radix_bits, hjg_u32 *digit_start)
{
	const hjg_u32 nparts = 1u << radix_bits;
	const int	nslots = hjg_task_nslots(join, build->table->nrows);
	HjgStatus	status;

	build->giant_rows = (hjg_u64) -1;
	if (nslots > 1)
	{
		build->giant_rows = build->table->nrows / (2 * (hjg_u64) nslots) + 1;
		if (build->giant_rows < hjg_engine_tuning.giant_rows)
			build->giant_rows = hjg_engine_tuning.giant_rows;
	}
	build->table->start[0] = 0;
	build->task.unit_fn = partition_unit;
	status = hjg_task_run(&build->task, join, nparts, nslots);
	for (hjg_u32 p = 0; status == HJG_OK && p < nparts; p++)
	{
		if (build->part_start[p + 1] - build->part_start[p] >= build->giant_rows)
			status = build_giant(join, build, p, digit_start);
	}
	return status;
}

HjgStatus
hjg_table_build(HjgJoin *join, const HjgRuns *runs)
{
	const int	width = join->spec.key_width;
	const hjg_u64 nrows = runs->nrows;
	const int	radix_bits = hjg_table_radix_bits(width, nrows);
	const int	bucket_bits = hjg_table_bucket_bits(nrows);
	const int	local_bits = bucket_bits - radix_bits;
	const size_t nparts = (size_t) 1 << radix_bits;
	const size_t ndigits = (size_t) 1 << (local_bits > DIGIT_BITS ? local_bits : DIGIT_BITS);
	HjgTable   *table = &join->table;
	TableTask	build = {.table = table, .width = width, .local_bits = local_bits};
	hjg_u64		started = hjg_now_ns();
	hjg_u64		partitioned;
	hjg_u32    *part_start;
	HjgStatus	status;

	if (!hjg_block_reserve(join, &join->tuples_block, tuples_block_bytes(width, nrows)) ||
		!hjg_block_reserve(join, &join->start_block, start_block_bytes(nrows)) ||
		!hjg_block_reserve(join, &join->partition_block, tuples_block_bytes(width, nrows)) ||
		!hjg_block_reserve(join, &join->counts_block, sizeof(hjg_u32) * (nparts + 1 + ndigits + 1)))
		return HJG_ERR_MEMORY;
	table->tuples = join->tuples_block.ptr;
	table->start = join->start_block.ptr;
	table->nrows = nrows;
	table->bucket_bits = bucket_bits;
	part_start = join->counts_block.ptr;
	build.scratch = join->partition_block.ptr;
	build.part_start = part_start;

	status = hjg_partition_keys(join, runs, 0, nrows, radix_bits, build.scratch, part_start);
	if (status != HJG_OK)
		return status;
	partitioned = hjg_now_ns();
	status = build_from_scratch(join, &build, radix_bits, part_start + nparts + 1);
	if (status != HJG_OK)
		return status;
	memset(table->tuples + nrows * (hjg_u64) hjg_tuple_bytes(width), 0,
		   HJG_TABLE_PAD * (size_t) hjg_tuple_bytes(width));

	join->stats.partition_ns += partitioned - started;
	join->stats.build_ns += hjg_now_ns() - partitioned;
	join->stats.npartitions = (int) nparts;
	hjg_block_free(join, &join->partition_block);
	hjg_block_free(join, &join->histogram_block);
	return HJG_OK;
}
