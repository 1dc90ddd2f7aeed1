/*
 * engine_table.c
 *	  Building the table of a join: a line a bucket, crowded buckets beside them.
 *
 * The build side is partitioned into pieces that a second-level cache holds; a
 * slot sorts a piece by bucket into memory of its own by one counting sort, writes
 * the lines from there, and puts the tuples of crowded buckets back to where the
 * piece was.  All steps are stable, so a bucket holds its tuples by ascending build
 * row number.
 *
 * A line a bucket costs memory, 16 to 32 bytes a row for 4-byte keys where tuples
 * without gaps and their index need 10, and saves a dependent cache miss a probe row:
 * 5M x 20M rows on 4 threads, straight probing, go from 377M rows/s to 538M.
 *
 * Skew.  A partition that is more than its share (giant) is sorted by bucket in
 * place by all slots together, with a second buffer of its size, and so is a giant
 * bucket.  A bucket of one key only, the usual giant, is recognised by its bits and
 * not sorted at all.
 */
#include "engine/hjg_engine_internal.h"

/* Buckets of up to this many tuples are sorted by insertion. */
#define INSERTION_TUPLES 64

#define DIGIT_BITS 8

typedef struct TableTask
{
	HjgTask		task;
	HjgTable   *table;
	const hjg_u32 *part_start;
	hjg_u64		giant_part_rows;	/* partitions ... */
	hjg_u64		giant_rows;		/* ... and buckets of more than this are left to all slots */
	int			width;
	hjg_u32		part_buckets;	/* of a partition */
	hjg_u8	   *slots;
	size_t		slot_bytes;

	/* of a giant partition */
	hjg_u8	   *scratch;
	hjg_u32		part_begin;
	hjg_u32		first_bucket;
	const hjg_u32 *bucket_start;	/* relative to part_begin */
	hjg_u32		nunits;
} TableTask;

/* --- sizes --- */

/*
 * 4, 2.5 or 1.25 tuples a bucket: random keys crowd one bucket in 20 to 25.  Measured with 4 threads, 5M x
 * 20M rows, million rows a second: with 4-byte keys 345 at 2.4 tuples, 373 at 3.5, 348 at 4, and half of that at
 * 4.8; with 8-byte keys 255 at 2, 225 at 2.5, 216 at 3.  (Streaming stores of the lines changed nothing.)
 * In a corner of the second-level cache there is room for twice the lines: an eighth faster, 1K to 50K rows.
 */
static hjg_u32
wanted_buckets(int width, hjg_u64 nrows)
{
	const hjg_u64 eighths = width == 4 ? 32 : width == 8 ? 20 : 10;
	hjg_u64		n = (8 * nrows + eighths - 1) / eighths;

	if (2 * n * HJG_LINE_BYTES <= hjg_l2_bytes() / 4)
		n *= 2;
	return n < 1 ? 1 : n < 1u << 31 ? (hjg_u32) n : 1u << 31;
}

int
hjg_table_radix_bits(int width, hjg_u64 nrows)
{
	int			bits = hjg_radix_bits(nrows, 2 * (size_t) hjg_tuple_bytes(width) + 2, hjg_l2_bytes() / 8);

	while (wanted_buckets(width, nrows) >> bits == 0)
		bits--;
	return bits;
}

/* Each partition has the same number. */
hjg_u32
hjg_table_nbuckets(int width, hjg_u64 nrows)
{
	const hjg_u32 below = (1u << hjg_table_radix_bits(width, nrows)) - 1;

	return (wanted_buckets(width, nrows) + below) & ~below;
}

static size_t
tuples_block_bytes(int width, hjg_u64 nrows)
{
	return HJG_LINE_BYTES + hjg_align64((size_t) (nrows + HJG_TABLE_PAD) * (size_t) hjg_tuple_bytes(width));
}

static size_t
lines_block_bytes(int width, hjg_u64 nrows)
{
	return HJG_LINE_BYTES * (size_t) hjg_table_nbuckets(width, nrows);
}

/* Most rows of a partition that one slot builds: chance alone never makes four times the average. */
static hjg_u64
slot_rows(hjg_u64 nrows, int radix_bits)
{
	const hjg_u64 average = (nrows >> radix_bits) + 1;
	const hjg_u64 most = 4 * average + 1024;

	if (most > hjg_engine_tuning.giant_rows)
		return 2 * average > hjg_engine_tuning.giant_rows ? 2 * average : hjg_engine_tuning.giant_rows;
	return most;
}

/* Per slot: places of a partition's buckets, and its tuples. */
static size_t
place_bytes(hjg_u32 part_buckets)
{
	return hjg_align64(sizeof(hjg_u32) * ((size_t) part_buckets + 1));
}

static size_t
slot_bytes(int width, hjg_u64 nrows, int radix_bits)
{
	return place_bytes(hjg_table_nbuckets(width, nrows) >> radix_bits) +
		hjg_align64((size_t) (slot_rows(nrows, radix_bits) + HJG_TABLE_PAD) * (size_t) hjg_tuple_bytes(width));
}

/* Least bits of a number below n, or of a digit of a sort. */
static int
digit_bits(hjg_u32 n)
{
	int			bits = DIGIT_BITS;

	while (1u << bits < n)
		bits++;
	return bits;
}

/* Of the partitions' beginnings, those of a giant one's buckets, and of digits. */
static size_t
counts_bytes(size_t nparts, hjg_u32 part_buckets)
{
	return sizeof(hjg_u32) * (nparts + 1 + ((size_t) 1 << digit_bits(part_buckets)) + 1 + (1 << DIGIT_BITS) + 1);
}

/* Everything that hjg_table_build() allocates; nslots is an upper limit. */
size_t
hjg_table_build_bytes(int width, hjg_u64 nrows, int nslots)
{
	const int	radix_bits = hjg_table_radix_bits(width, nrows);
	const hjg_u32 part_buckets = hjg_table_nbuckets(width, nrows) >> radix_bits;
	const size_t histogram = hjg_partition_keys_histogram_bytes(nrows, radix_bits, nslots);
	const size_t giant = hjg_partition_tuples_histogram_bytes(nrows, digit_bits(part_buckets), nslots);
	const size_t partition_slots = hjg_partition_keys_slots_bytes(width, radix_bits, nslots);
	const size_t table_slots = slot_bytes(width, nrows, radix_bits) * (size_t) nslots;

	return 2 * tuples_block_bytes(width, nrows) +
		lines_block_bytes(width, nrows) +
		(histogram > giant ? histogram : giant) +
		(partition_slots > table_slots ? partition_slots : table_slots) +
		counts_bytes((size_t) 1 << radix_bits, part_buckets) + 256;
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

/* --- writing lines --- */

/*
 * The line of a bucket of n tuples, which begin at index begin of table->tuples if it
 * is crowded.  padded: a line's bytes may be read from tuples on, which makes the
 * copy one of constant size; what lies behind the tuples is never looked at.
 */
HJG_ALWAYS_INLINE void
put_line(int width, bool padded, TableTask *build, hjg_u32 bucket, const hjg_u8 *tuples, hjg_u32 n, hjg_u32 begin)
{
	const int	header_bytes = hjg_line_header_bytes(width);
	_Alignas(HJG_LINE_BYTES) hjg_u8 line[HJG_LINE_BYTES];

	if (padded)
		memcpy(line + header_bytes, tuples, (size_t) (HJG_LINE_BYTES - header_bytes));
	else
	{
		memset(line, 0, HJG_LINE_BYTES);
		if (n <= hjg_line_tuples(width))
			memcpy(line + header_bytes, tuples, (size_t) n * (size_t) hjg_tuple_bytes(width));
	}
	memcpy(line, &n, 4);
	if (width == 4 || n > hjg_line_tuples(width))
		memcpy(line + 4, &begin, 4);
	memcpy(build->table->lines + (size_t) bucket * HJG_LINE_BYTES, line, HJG_LINE_BYTES);
}

/* One partition; slot memory is as slot_bytes() says. */
HJG_ALWAYS_INLINE void
build_partition(int width, TableTask *build, hjg_u32 partition, hjg_u8 *slot)
{
	const int	tb = hjg_tuple_bytes(width);
	const hjg_u32 all_buckets = build->table->nbuckets;
	const hjg_u32 nbuckets = build->part_buckets;
	const hjg_u32 first_bucket = partition * nbuckets;
	const hjg_u32 part_begin = build->part_start[partition];
	const hjg_u32 n = build->part_start[partition + 1] - part_begin;
	hjg_u8	   *src = build->table->tuples + (size_t) part_begin * tb;
	hjg_u32    *end = (hjg_u32 *) slot;	/* of bucket b: end[b + 1] */
	hjg_u8	   *sorted = slot + place_bytes(build->part_buckets);
	hjg_u32		sum = 0;
	hjg_u32		ncrowded = 0;	/* their tuples */

	if (n > build->giant_part_rows || hjg_task_poll(&build->task))
		return;
	/* end[b + 1] serves as the count, then as the next place */
	memset(end, 0, sizeof(hjg_u32) * (nbuckets + 1));
	for (hjg_u32 i = 0; i < n; i++)
	{
		end[hjg_mixed_range(width, hjg_tuple_key(width, src + (size_t) i * tb).high, all_buckets) - first_bucket + 1]++;
		if (i % HJG_POLL_ROWS == HJG_POLL_ROWS - 1 && hjg_task_poll(&build->task))
			return;
	}
	for (hjg_u32 b = 1; b <= nbuckets; b++)
	{
		hjg_u32		count = end[b];

		end[b] = sum;
		sum += count;
		if (b % HJG_POLL_ROWS == 0 && hjg_task_poll(&build->task))
			return;
	}
	for (hjg_u32 i = 0; i < n; i++)
	{
		HjgMixed	key = hjg_tuple_key(width, src + (size_t) i * tb);
		hjg_u32		o = end[hjg_mixed_range(width, key.high, all_buckets) - first_bucket + 1]++;

		hjg_tuple_store(width, sorted + (size_t) o * tb, key, hjg_tuple_row(width, src + (size_t) i * tb));
		if (i % HJG_POLL_ROWS == HJG_POLL_ROWS - 1 && hjg_task_poll(&build->task))
			return;
	}
	/* the last bucket's line is copied whole, and scans compare before they count */
	memset(sorted + (size_t) n * tb, 0, HJG_LINE_BYTES);
	for (hjg_u32 b = 0; b < nbuckets; b++)
	{
		hjg_u8	   *tuples = sorted + (size_t) end[b] * tb;
		const hjg_u32 ntuples = end[b + 1] - end[b];

		if (b % HJG_POLL_ROWS == HJG_POLL_ROWS - 1 && hjg_task_poll(&build->task))
			return;
		put_line(width, true, build, first_bucket + b, tuples, ntuples, part_begin + ncrowded);
		if (__builtin_expect(ntuples <= hjg_line_tuples(width), 1))
			continue;
		memcpy(src + (size_t) ncrowded * tb, tuples, (size_t) ntuples * tb);
		if (ntuples > HJG_HEAVY_BUCKET)
			sort_bucket(width, &build->task, src + (size_t) ncrowded * tb, tuples, ntuples);
		ncrowded += ntuples;
	}
}

static void
partition_unit(HjgTask *task, hjg_u32 unit, int slot)
{
	TableTask  *build = (TableTask *) task;
	hjg_u8	   *memory = build->slots + build->slot_bytes * (size_t) slot;

	switch (build->width)
	{
		case HJG_KEY_WIDTH_4:
			build_partition(4, build, unit, memory);
			break;
		case HJG_KEY_WIDTH_8:
			build_partition(8, build, unit, memory);
			break;
		default:
			build_partition(16, build, unit, memory);
			break;
	}
}

/* Lines of local buckets [first, last) of a giant partition that is in bucket order; giant buckets stay unsorted. */
HJG_ALWAYS_INLINE void
finish_buckets(int width, TableTask *build, hjg_u32 first, hjg_u32 last)
{
	const size_t tb = (size_t) hjg_tuple_bytes(width);
	hjg_u8	   *part = build->table->tuples + build->part_begin * tb;

	for (hjg_u32 b = first; b < last; b++)
	{
		const hjg_u32 begin = build->bucket_start[b];
		const hjg_u32 ntuples = build->bucket_start[b + 1] - begin;

		if (b % HJG_POLL_ROWS == 0 && hjg_task_poll(&build->task))
			return;
		put_line(width, false, build, build->first_bucket + b, part + begin * tb, ntuples, build->part_begin + begin);
		if (ntuples <= HJG_HEAVY_BUCKET || ntuples > build->giant_rows)
			continue;
		sort_bucket(width, &build->task, part + begin * tb, build->scratch + begin * tb, ntuples);
		if (hjg_task_poll(&build->task))
			return;
	}
}

static void
finish_unit(HjgTask *task, hjg_u32 unit, int slot)
{
	TableTask  *build = (TableTask *) task;
	const hjg_u64 nbuckets = build->part_buckets;
	const hjg_u32 first = (hjg_u32) (nbuckets * unit / build->nunits);
	const hjg_u32 last = (hjg_u32) (nbuckets * (unit + 1) / build->nunits);

	(void) slot;
	switch (build->width)
	{
		case HJG_KEY_WIDTH_4:
			finish_buckets(4, build, first, last);
			break;
		case HJG_KEY_WIDTH_8:
			finish_buckets(8, build, first, last);
			break;
		default:
			finish_buckets(16, build, first, last);
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

/* The bucket's tuples [begin, begin + n) of the partition. */
static HjgStatus
sort_giant_bucket(HjgJoin *join, TableTask *build, hjg_u32 begin, hjg_u32 n, hjg_u32 *digit_start)
{
	const size_t tb = (size_t) hjg_tuple_bytes(build->width);
	hjg_u8	   *tuples = build->table->tuples + (build->part_begin + (size_t) begin) * tb;
	hjg_u8	   *src = tuples;
	hjg_u8	   *dst = build->scratch + begin * tb;
	DiffTask	diff = {.task.unit_fn = diff_unit, .tuples = tuples, .n = n, .width = build->width};
	HjgMixed	bits;
	int			digit = 0;
	bool		low_word;
	int			shift;
	HjgStatus	status;

	status = hjg_task_run(&diff.task, join, (hjg_u32) (((hjg_u64) n + DIFF_UNIT_TUPLES - 1) / DIFF_UNIT_TUPLES),
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

/* bucket_start has room for 2^digit_bits() of a partition's buckets and one more, digit_start for 2^DIGIT_BITS + 1. */
static HjgStatus
build_giant(HjgJoin *join, TableTask *build, hjg_u32 partition, hjg_u32 *bucket_start, hjg_u32 *digit_start)
{
	HjgTable   *table = build->table;
	const hjg_u32 nbuckets = build->part_buckets;
	const hjg_u32 begin = build->part_start[partition];
	const hjg_u64 n = build->part_start[partition + 1] - begin;
	hjg_u8	   *part = table->tuples + (size_t) begin * (size_t) hjg_tuple_bytes(build->width);
	HjgStatus	status;

	build->first_bucket = partition * nbuckets;
	status = hjg_partition_buckets(join, part, build->scratch, n, table->nbuckets, build->first_bucket,
								   digit_bits(nbuckets), bucket_start);
	if (status == HJG_OK)
		status = hjg_partition_tuples(join, build->scratch, part, n, false, 0, 0, digit_start);	/* a copy */
	if (status != HJG_OK)
		return status;

	build->task.unit_fn = finish_unit;
	build->part_begin = begin;
	build->bucket_start = bucket_start;
	build->nunits = nbuckets < 256 ? nbuckets : 256;
	status = hjg_task_run(&build->task, join, build->nunits, hjg_task_nslots(join, n));
	for (hjg_u32 b = 0; status == HJG_OK && b < nbuckets; b++)
	{
		const hjg_u32 ntuples = bucket_start[b + 1] - bucket_start[b];

		if (ntuples > HJG_HEAVY_BUCKET && ntuples > build->giant_rows)
			status = sort_giant_bucket(join, build, bucket_start[b], ntuples, digit_start);
	}
	return status;
}

/* --- the whole --- */

/* Lines of partitioned tuples. */
static HjgStatus
build_partitions(HjgJoin *join, TableTask *build, int radix_bits, hjg_u32 *bucket_start, hjg_u32 *digit_start)
{
	const hjg_u64 nrows = build->table->nrows;
	const hjg_u32 nparts = 1u << radix_bits;
	const int	nslots = hjg_task_nslots(join, nrows);
	hjg_u64		largest = 0;
	HjgStatus	status;

	build->giant_rows = (hjg_u64) -1;
	if (nslots > 1)
	{
		build->giant_rows = nrows / (2 * (hjg_u64) nslots);
		if (build->giant_rows < hjg_engine_tuning.giant_rows)
			build->giant_rows = hjg_engine_tuning.giant_rows;
	}
	build->giant_part_rows = slot_rows(nrows, radix_bits);
	build->slot_bytes = slot_bytes(build->width, nrows, radix_bits);
	if (!hjg_block_reserve(join, &join->slots_block, build->slot_bytes * (size_t) nslots))
		return HJG_ERR_MEMORY;
	build->slots = join->slots_block.ptr;
	build->task.unit_fn = partition_unit;
	status = hjg_task_run(&build->task, join, nparts, nslots);
	if (status != HJG_OK)
		return status;

	for (hjg_u32 p = 0; p < nparts; p++)
	{
		const hjg_u64 n = build->part_start[p + 1] - build->part_start[p];

		largest = n > largest ? n : largest;
	}
	if (largest <= build->giant_part_rows)
		return HJG_OK;
	if (!hjg_block_reserve(join, &join->partition_block, tuples_block_bytes(build->width, largest)))
		return HJG_ERR_MEMORY;
	build->scratch = join->partition_block.ptr;
	for (hjg_u32 p = 0; status == HJG_OK && p < nparts; p++)
	{
		if (build->part_start[p + 1] - build->part_start[p] > build->giant_part_rows)
			status = build_giant(join, build, p, bucket_start, digit_start);
	}
	return status;
}

HjgStatus
hjg_table_build(HjgJoin *join, const HjgRuns *runs)
{
	const int	width = join->spec.key_width;
	const hjg_u64 nrows = runs->nrows;
	const int	radix_bits = hjg_table_radix_bits(width, nrows);
	const size_t nparts = (size_t) 1 << radix_bits;
	const hjg_u32 part_buckets = hjg_table_nbuckets(width, nrows) >> radix_bits;
	HjgTable   *table = &join->table;
	TableTask	build = {.table = table, .width = width, .part_buckets = part_buckets};
	hjg_u64		started = hjg_now_ns();
	hjg_u64		partitioned;
	hjg_u32    *part_start;
	HjgStatus	status;

	if (!hjg_table_reserve(join, HJG_TABLE_TUPLES, tuples_block_bytes(width, nrows)) ||
		!hjg_table_reserve(join, HJG_TABLE_LINES, lines_block_bytes(width, nrows)) ||
		!hjg_block_reserve(join, &join->counts_block, counts_bytes(nparts, part_buckets)))
		return HJG_ERR_MEMORY;
	memset(join->tuples_block.ptr, 0, HJG_LINE_BYTES);
	*table = hjg_table_at(width, nrows, join->tuples_block.ptr, join->lines_block.ptr);
	memset(table->tuples + nrows * (hjg_u64) hjg_tuple_bytes(width), 0,
		   HJG_TABLE_PAD * (size_t) hjg_tuple_bytes(width));
	part_start = join->counts_block.ptr;
	build.part_start = part_start;

	status = hjg_partition_keys(join, runs, 0, nrows, radix_bits, table->tuples, part_start);
	if (status != HJG_OK)
		return status;
	partitioned = hjg_now_ns();
	status = build_partitions(join, &build, radix_bits, part_start + nparts + 1,
							  part_start + nparts + 1 + ((size_t) 1 << digit_bits(part_buckets)) + 1);
	if (status != HJG_OK)
		return status;

	join->stats.partition_ns += partitioned - started;
	join->stats.build_ns += hjg_now_ns() - partitioned;
	join->stats.npartitions = (int) nparts;
	hjg_block_free(join, &join->partition_block);
	hjg_block_free(join, &join->histogram_block);
	return HJG_OK;
}
