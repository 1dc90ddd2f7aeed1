/*
 * engine_table_sort.c
 *	  Sorts the tuples of a bucket by mixed key for bisection.
 *
 * Small buckets are sorted by insertion, others by a radix sort from the least significant digit, which
 * skips digits in which no keys differ.  A bucket with a single key, the usual large one, is therefore not
 * sorted at all.  Both sorts are stable: tuples of one key stay in order of build row.
 */
#include "engine/hjg_table_build.h"

/* Buckets of up to this many tuples are sorted by insertion. */
#define INSERTION_TUPLES 64

/* --- by one slot --- */

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

/* Compute the bits in which the mixed keys differ. */
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
 * Find the next digit, from *digit on, that a least-significant-digit radix sort needs: one in which keys
 * differ.  Digits count from the low word's end.  False: none is left.
 */
static bool
next_digit(HjgMixed diff, int *digit, bool *low_word, int *shift)
{
	for (; *digit < 128 / HJG_DIGIT_BITS; ++*digit)
	{
		hjg_u64		word = *digit < 64 / HJG_DIGIT_BITS ? diff.low : diff.high;

		*low_word = *digit < 64 / HJG_DIGIT_BITS;
		*shift = *digit % (64 / HJG_DIGIT_BITS) * HJG_DIGIT_BITS;
		if (word >> *shift & ((1u << HJG_DIGIT_BITS) - 1))
			return true;
	}
	return false;
}

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
		hjg_u32		place[1 << HJG_DIGIT_BITS] = {0};
		hjg_u32		sum = 0;
		hjg_u8	   *t;

		for (hjg_u32 i = 0; i < n; i++)
		{
			HjgMixed	key = hjg_tuple_key(width, src + (size_t) i * tb);

			place[(low_word ? key.low : key.high) >> shift & ((1u << HJG_DIGIT_BITS) - 1)]++;
			if (i % HJG_POLL_ROWS == HJG_POLL_ROWS - 1 && hjg_task_poll(task))
				return;
		}
		for (int d = 0; d < 1 << HJG_DIGIT_BITS; d++)
		{
			hjg_u32		count = place[d];

			place[d] = sum;
			sum += count;
		}
		for (hjg_u32 i = 0; i < n; i++)
		{
			HjgMixed	key = hjg_tuple_key(width, src + (size_t) i * tb);
			hjg_u32		o = place[(low_word ? key.low : key.high) >> shift & ((1u << HJG_DIGIT_BITS) - 1)]++;

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

void
hjg_table_sort_bucket(int width, HjgTask *task, hjg_u8 *tuples, hjg_u8 *scratch, hjg_u32 n)
{
	switch (width)
	{
		case HJG_KEY_WIDTH_4:
			sort_bucket(4, task, tuples, scratch, n);
			break;
		case HJG_KEY_WIDTH_8:
			sort_bucket(8, task, tuples, scratch, n);
			break;
		default:
			sort_bucket(16, task, tuples, scratch, n);
			break;
	}
}

/* --- by all slots --- */

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

HjgStatus
hjg_table_sort_giant(HjgJoin *join, hjg_u8 *tuples, hjg_u8 *scratch, hjg_u32 n, hjg_u32 *digit_start)
{
	hjg_u8	   *src = tuples;
	hjg_u8	   *dst = scratch;
	DiffTask	diff = {.task.unit_fn = diff_unit, .tuples = tuples, .n = n, .width = join->spec.key_width};
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

		status = hjg_engine_partition_tuples(join, src, dst, n, low_word, shift, HJG_DIGIT_BITS, digit_start);
		src = dst;
		dst = t;
	}
	if (status == HJG_OK && src != tuples)
		status = hjg_engine_partition_tuples(join, src, tuples, n, false, 0, 0, digit_start);	/* a copy */
	return status;
}
