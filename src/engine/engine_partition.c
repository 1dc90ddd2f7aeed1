/*
 * engine_partition.c
 *	  Stable radix partitioning of keys and of tuples.
 *
 * Two passes over the rows, divided into chunks: each chunk counts its rows a partition; a prefix sum over
 * partitions and, within them, chunks gives each chunk its place in each partition; then each chunk
 * scatters its rows.  The order of chunks keeps the partitioning stable.
 *
 * The scatter collects tuples in one write-combining group a partition and writes a full group with
 * streaming stores (Balkesen et al., ICDE 2013, section 4.2, after Wassenberg and Sanders): a TLB entry is
 * needed once a group instead of once a tuple, and no line is read before it is written.
 */
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "engine/hjg_engine_internal.h"

/*
 * Tuples of a write-combining group, 2, 3 or 5 lines.  Half as many would suit 4-byte keys too, but the
 * branch predictor cannot foresee a full group.
 */
#define GROUP_TUPLES 16

/* Rows that are mixed together before they are scattered. */
#define BLOCK_ROWS 256

/* Chunks a slot, so that others can take over a slow thread's share. */
#define CHUNKS_PER_SLOT 4

/* Most bytes that are written through the caches instead of around them: they are read again soon. */
#define STREAM_BYTES (4u << 20)

typedef struct PartitionTask
{
	HjgTask		task;
	const HjgRuns *runs;		/* keys ... */
	const HjgTable *places;		/* ... whose tuples get the places in this array; NULL: mixed keys */
	const hjg_u8 *src;			/* ... or tuples */
	hjg_u64		begin;
	hjg_u64		end;
	hjg_u32		nchunks;
	int			bits;
	int			shift;			/* of tuples: the digit's place, */
	hjg_u32		nbuckets;		/* or, if not 0, the bucket among nbuckets, from first_bucket on */
	hjg_u32		first_bucket;
	bool		low_word;
	bool		stream;
	hjg_u8	   *dst;
	hjg_u32    *histogram;		/* [nchunks][2^bits]: counts, then places */
	hjg_u8	   *slots;
	size_t		slot_bytes;
} PartitionTask;

/* --- sizes --- */

/* Choose the fewest bits whose partitions have at most target_bytes. */
int
hjg_radix_bits(hjg_u64 nrows, size_t bytes_per_row, size_t target_bytes)
{
	int			bits = 0;

	while (bits < HJG_MAX_RADIX_BITS && (nrows * bytes_per_row) >> bits > target_bytes)
		bits++;
	return bits;
}

/* Compute the bytes of a write-combining group: whole cache lines for each key width. */
HJG_ALWAYS_INLINE int
group_bytes(int width)
{
	return GROUP_TUPLES * hjg_tuple_bytes(width);
}

static hjg_u32
chunks_of(hjg_u64 nrows, int nslots)
{
	hjg_u64		most = nslots == 1 ? 1 : (hjg_u64) nslots * CHUNKS_PER_SLOT;
	hjg_u64		n = 1 + nrows / hjg_engine_tuning.chunk_rows;

	return (hjg_u32) (n < most ? n : most);
}

static hjg_u32
tuple_chunks_of(hjg_u64 n, int nslots)
{
	hjg_u64		chunks = 1 + n / hjg_engine_tuning.chunk_rows;

	return chunks < (hjg_u64) nslots ? (hjg_u32) chunks : (hjg_u32) nslots;
}

size_t
hjg_engine_partition_keys_histogram_bytes(hjg_u64 nrows, int bits, int nslots)
{
	return sizeof(hjg_u32) * ((size_t) chunks_of(nrows, nslots) << bits);
}

size_t
hjg_engine_partition_tuples_histogram_bytes(hjg_u64 n, int bits, int nslots)
{
	return sizeof(hjg_u32) * ((size_t) tuple_chunks_of(n, nslots) << bits);
}

/* Compute the bytes of a slot: a group and a place for each partition. */
static size_t
key_slot_bytes(int width, int bits)
{
	return hjg_align64(((size_t) group_bytes(width) + sizeof(hjg_u32)) << bits);
}

size_t
hjg_engine_partition_keys_slots_bytes(int width, int bits, int nslots)
{
	return key_slot_bytes(width, bits) * (size_t) nslots;
}

static hjg_u64
chunk_begin(const PartitionTask *part, hjg_u32 chunk)
{
	return part->begin + (hjg_u64) ((unsigned __int128) (part->end - part->begin) * chunk / part->nchunks);
}

/* --- keys --- */

/* Compute the first word of a key's tuple; its first bits partition it. */
HJG_ALWAYS_INLINE hjg_u64
tuple_word(int width, bool placed, const PartitionTask *part, const hjg_u8 *key)
{
	if (placed)
		return hjg_direct_place(width, part->places, key) << hjg_direct_shift(part->places);
	return hjg_mix_key(width, key).high;
}

HJG_ALWAYS_INLINE void
count_keys(int width, bool placed, PartitionTask *part, hjg_u32 chunk)
{
	hjg_u32    *counts = part->histogram + ((size_t) chunk << part->bits);
	const int	bits = part->bits;
	hjg_u32		digits[BLOCK_ROWS];
	hjg_u32		until_poll = HJG_POLL_ROWS / BLOCK_ROWS;
	HjgKeyScan	scan;
	const hjg_u8 *keys;
	hjg_u32		row;
	hjg_u32		n;

	memset(counts, 0, sizeof(hjg_u32) << bits);
	hjg_engine_scan_begin(&scan, part->runs, chunk_begin(part, chunk), chunk_begin(part, chunk + 1));
	while ((n = hjg_engine_scan_next(&scan, width, BLOCK_ROWS, &keys, &row)) > 0)
	{
		for (hjg_u32 i = 0; i < n; i++)
			digits[i] = hjg_mixed_prefix(placed ? 4 : width, tuple_word(width, placed, part, keys + (size_t) i * width), bits);
		for (hjg_u32 i = 0; i < n; i++)
			counts[digits[i]]++;
		if (--until_poll == 0)
		{
			if (hjg_task_poll(&part->task))
				return;
			until_poll = HJG_POLL_ROWS / BLOCK_ROWS;
		}
	}
}

HJG_ALWAYS_INLINE void
stream_lines(hjg_u8 *dst, const hjg_u8 *src, int bytes)
{
#if defined(__x86_64__)
	for (int i = 0; i < bytes; i += 16)
		_mm_stream_si128((__m128i *) (dst + i), _mm_load_si128((const __m128i *) (src + i)));
#else
	memcpy(dst, src, (size_t) bytes);
#endif
}

HJG_ALWAYS_INLINE void
scatter_keys(int width, bool placed, PartitionTask *part, hjg_u32 chunk, int slot)
{
	const int	bits = part->bits;
	const hjg_u32 nparts = 1u << bits;
	const int	tuple_width = placed ? 4 : width;
	const int	tb = hjg_tuple_bytes(tuple_width);
	const int	gb = group_bytes(tuple_width);
	const hjg_u32 group_mask = GROUP_TUPLES - 1;
	const hjg_u32 *first = part->histogram + ((size_t) chunk << bits);
	hjg_u8	   *groups = part->slots + part->slot_bytes * (size_t) slot;
	hjg_u32    *place = (hjg_u32 *) (groups + ((size_t) gb << bits));
	hjg_u8	   *dst = part->dst;
	const bool	stream = part->stream;
	hjg_u64		words[BLOCK_ROWS];
	hjg_u32		until_poll = HJG_POLL_ROWS / BLOCK_ROWS;
	HjgKeyScan	scan;
	const hjg_u8 *keys;
	hjg_u32		row;
	hjg_u32		n;

	memcpy(place, first, sizeof(hjg_u32) << bits);
	hjg_engine_scan_begin(&scan, part->runs, chunk_begin(part, chunk), chunk_begin(part, chunk + 1));
	while ((n = hjg_engine_scan_next(&scan, width, BLOCK_ROWS, &keys, &row)) > 0)
	{
		for (hjg_u32 i = 0; i < n; i++)
			words[i] = tuple_word(width, placed, part, keys + (size_t) i * width);
		for (hjg_u32 i = 0; i < n; i++)
		{
			HjgMixed	key = {words[i], 0};
			hjg_u32		p = hjg_mixed_prefix(tuple_width, key.high, bits);
			hjg_u32		o = place[p];
			hjg_u8	   *group = groups + (size_t) p * gb;

			if (width == 16)
				key.low = hjg_load64(keys + (size_t) i * width + 8);
			hjg_tuple_store(tuple_width, group + (o & group_mask) * tb, key, row + i);
			place[p] = ++o;
			if ((o & group_mask) == 0)
			{
				hjg_u32		base = o - (group_mask + 1);

				if (base < first[p])	/* the group began in another chunk or partition */
					memcpy(dst + (size_t) first[p] * tb, group + (first[p] & group_mask) * tb,
						   (size_t) (o - first[p]) * tb);
				else if (stream)
					stream_lines(dst + (size_t) base * tb, group, gb);
				else
					memcpy(dst + (size_t) base * tb, group, (size_t) gb);
			}
		}
		if (--until_poll == 0)
		{
			if (hjg_task_poll(&part->task))
				return;
			until_poll = HJG_POLL_ROWS / BLOCK_ROWS;
		}
	}
	for (hjg_u32 p = 0; p < nparts; p++)
	{
		hjg_u32		base = place[p] & ~group_mask;

		if (base < first[p])
			base = first[p];
		if (base < place[p])
			memcpy(dst + (size_t) base * tb, groups + (size_t) p * gb + (base & group_mask) * tb,
				   (size_t) (place[p] - base) * tb);
	}
#if defined(__x86_64__)
	_mm_sfence();
#endif
}

/* --- tuples --- */

HJG_ALWAYS_INLINE hjg_u32
tuple_digit(int width, const PartitionTask *part, const hjg_u8 *tuple)
{
	HjgMixed	key = hjg_tuple_key(width, tuple);
	hjg_u64		word = width == 16 && part->low_word ? key.low : key.high;

	if (part->nbuckets > 0)
		return hjg_mixed_range(width, key.high, part->nbuckets) - part->first_bucket;
	return (hjg_u32) (word >> part->shift) & ((1u << part->bits) - 1);
}

HJG_ALWAYS_INLINE void
count_tuples(int width, PartitionTask *part, hjg_u32 chunk)
{
	hjg_u32    *counts = part->histogram + ((size_t) chunk << part->bits);
	const hjg_u64 end = chunk_begin(part, chunk + 1);

	memset(counts, 0, sizeof(hjg_u32) << part->bits);
	for (hjg_u64 i = chunk_begin(part, chunk); i < end; i++)
	{
		counts[tuple_digit(width, part, part->src + i * (hjg_u64) hjg_tuple_bytes(width))]++;
		if (i % HJG_POLL_ROWS == 0 && hjg_task_poll(&part->task))
			return;
	}
}

HJG_ALWAYS_INLINE void
scatter_tuples(int width, PartitionTask *part, hjg_u32 chunk)
{
	const int	tb = hjg_tuple_bytes(width);
	hjg_u32    *place = part->histogram + ((size_t) chunk << part->bits);
	const hjg_u64 end = chunk_begin(part, chunk + 1);

	for (hjg_u64 i = chunk_begin(part, chunk); i < end; i++)
	{
		const hjg_u8 *tuple = part->src + i * (hjg_u64) tb;
		hjg_u32		o = place[tuple_digit(width, part, tuple)]++;

		memcpy(part->dst + (size_t) o * tb, tuple, (size_t) tb);
		if (i % HJG_POLL_ROWS == 0 && hjg_task_poll(&part->task))
			return;
	}
}

/* --- instances --- */

typedef void (*CountFn) (PartitionTask *part, hjg_u32 chunk);
typedef void (*ScatterFn) (PartitionTask *part, hjg_u32 chunk, int slot);

#define DEFINE_WORDS(width, placed, suffix, target) \
	target static void count_keys_##suffix(PartitionTask *part, hjg_u32 chunk) \
	{ \
		count_keys(width, placed, part, chunk); \
	} \
	target static void scatter_keys_##suffix(PartitionTask *part, hjg_u32 chunk, int slot) \
	{ \
		scatter_keys(width, placed, part, chunk, slot); \
	}
#define DEFINE_KEYS(width, isa, target) DEFINE_WORDS(width, false, width##_##isa, target)
#define DEFINE_TUPLES(width) \
	static void count_tuples_##width(PartitionTask *part, hjg_u32 chunk) \
	{ \
		count_tuples(width, part, chunk); \
	} \
	static void scatter_tuples_##width(PartitionTask *part, hjg_u32 chunk, int slot) \
	{ \
		(void) slot; \
		scatter_tuples(width, part, chunk); \
	}
#define NO_TARGET

DEFINE_KEYS(4, base, NO_TARGET)
DEFINE_KEYS(8, base, NO_TARGET)
DEFINE_KEYS(16, base, NO_TARGET)
DEFINE_WORDS(4, true, placed_4, NO_TARGET)
DEFINE_WORDS(8, true, placed_8, NO_TARGET)
DEFINE_TUPLES(4)
DEFINE_TUPLES(8)
DEFINE_TUPLES(16)
#if defined(__x86_64__)
DEFINE_KEYS(4, avx2, HJG_TARGET_AVX2)
DEFINE_KEYS(8, avx2, HJG_TARGET_AVX2)
DEFINE_KEYS(16, avx2, HJG_TARGET_AVX2)
DEFINE_KEYS(4, avx512, HJG_TARGET_AVX512)
DEFINE_KEYS(8, avx512, HJG_TARGET_AVX512)
DEFINE_KEYS(16, avx512, HJG_TARGET_AVX512)
#endif

static const CountFn count_keys_fns[HJG_NISAS][3] = {
	{count_keys_4_base, count_keys_8_base, count_keys_16_base},
#if defined(__x86_64__)
	{count_keys_4_avx2, count_keys_8_avx2, count_keys_16_avx2},
	{count_keys_4_avx512, count_keys_8_avx512, count_keys_16_avx512},
#endif
};
static const ScatterFn scatter_keys_fns[HJG_NISAS][3] = {
	{scatter_keys_4_base, scatter_keys_8_base, scatter_keys_16_base},
#if defined(__x86_64__)
	{scatter_keys_4_avx2, scatter_keys_8_avx2, scatter_keys_16_avx2},
	{scatter_keys_4_avx512, scatter_keys_8_avx512, scatter_keys_16_avx512},
#endif
};
static const CountFn count_placed_fns[2] = {count_keys_placed_4, count_keys_placed_8};
static const ScatterFn scatter_placed_fns[2] = {scatter_keys_placed_4, scatter_keys_placed_8};
static const CountFn count_tuples_fns[3] = {count_tuples_4, count_tuples_8, count_tuples_16};
static const ScatterFn scatter_tuples_fns[3] = {scatter_tuples_4, scatter_tuples_8, scatter_tuples_16};

typedef struct Dispatch
{
	PartitionTask part;
	CountFn		count;
	ScatterFn	scatter;
} Dispatch;

static void
count_tuples_unit(HjgTask *task, hjg_u32 unit, int slot)
{
	(void) slot;
	((Dispatch *) task)->count(&((Dispatch *) task)->part, unit);
}

static void
scatter_unit(HjgTask *task, hjg_u32 unit, int slot)
{
	((Dispatch *) task)->scatter(&((Dispatch *) task)->part, unit, slot);
}

/* Run the passes: count, prefix sum, scatter. */
static HjgStatus
run_passes(Dispatch *dispatch, HjgJoin *join, int nslots, hjg_u32 *part_start)
{
	PartitionTask *part = &dispatch->part;
	const hjg_u32 nparts = 1u << part->bits;
	hjg_u32		sum = 0;
	HjgStatus	status;

	part->task.unit_fn = count_tuples_unit;
	status = hjg_task_run(&part->task, join, part->nchunks, nslots);
	if (status != HJG_OK)
		return status;

	for (hjg_u32 p = 0; p < nparts; p++)
	{
		if (part_start)
			part_start[p] = sum;
		for (hjg_u32 chunk = 0; chunk < part->nchunks; chunk++)
		{
			hjg_u32    *cell = &part->histogram[((size_t) chunk << part->bits) + p];
			hjg_u32		count = *cell;

			*cell = sum;
			sum += count;
		}
		if (p % HJG_POLL_ROWS == HJG_POLL_ROWS - 1 && hjg_task_poll(&part->task))
			return HJG_ERR_CANCELLED;
	}
	if (part_start)
		part_start[nparts] = sum;

	part->task.unit_fn = scatter_unit;
	return hjg_task_run(&part->task, join, part->nchunks, nslots);
}

/* Partition rows [begin, end) of runs into tuples of tuple_width; the caller sets the rest of dispatch. */
static HjgStatus
partition_rows(HjgJoin *join, Dispatch *dispatch, int tuple_width, const HjgRuns *runs, hjg_u64 begin, hjg_u64 end,
			   int bits, hjg_u8 *dst, hjg_u32 *part_start)
{
	const int	nslots = hjg_task_nslots(join, end - begin);
	PartitionTask *part = &dispatch->part;

	part->runs = runs;
	part->begin = begin;
	part->end = end;
	part->nchunks = chunks_of(end - begin, nslots);
	part->bits = bits;
	part->dst = dst;
	part->stream = (end - begin) * (hjg_u64) hjg_tuple_bytes(tuple_width) > STREAM_BYTES;
	part->slot_bytes = key_slot_bytes(tuple_width, bits);
	if (!hjg_block_reserve(join, &join->histogram_block,
						   hjg_engine_partition_keys_histogram_bytes(end - begin, bits, nslots)) ||
		!hjg_block_reserve(join, &join->slots_block, hjg_engine_partition_keys_slots_bytes(tuple_width, bits, nslots)))
		return HJG_ERR_MEMORY;
	part->histogram = join->histogram_block.ptr;
	part->slots = join->slots_block.ptr;
	return run_passes(dispatch, join, nslots, part_start);
}

HjgStatus
hjg_engine_partition_keys(HjgJoin *join, const HjgRuns *runs, hjg_u64 begin, hjg_u64 end, int bits,
				   hjg_u8 *dst, hjg_u32 *part_start)
{
	Dispatch	dispatch = {.count = count_keys_fns[join->isa][join->width_ix],
		.scatter = scatter_keys_fns[join->isa][join->width_ix]};

	return partition_rows(join, &dispatch, join->spec.key_width, runs, begin, end, bits, dst, part_start);
}

HjgStatus
hjg_engine_partition_places(HjgJoin *join, const HjgRuns *runs, const HjgTable *places, int bits, hjg_u8 *dst, hjg_u32 *part_start)
{
	Dispatch	dispatch = {.part.places = places, .count = count_placed_fns[join->width_ix],
		.scatter = scatter_placed_fns[join->width_ix]};

	return partition_rows(join, &dispatch, 4, runs, 0, runs->nrows, bits, dst, part_start);
}

/* Partition tuples by the digit that the caller sets in dispatch->part. */
static HjgStatus
partition_tuples(HjgJoin *join, Dispatch *dispatch, const hjg_u8 *src, hjg_u8 *dst, hjg_u64 n, int bits,
				 hjg_u32 *part_start)
{
	const int	nslots = hjg_task_nslots(join, n);
	PartitionTask *part = &dispatch->part;

	dispatch->count = count_tuples_fns[join->width_ix];
	dispatch->scatter = scatter_tuples_fns[join->width_ix];
	part->src = src;
	part->end = n;
	part->nchunks = tuple_chunks_of(n, nslots);
	part->bits = bits;
	part->dst = dst;
	if (!hjg_block_reserve(join, &join->histogram_block,
						   hjg_engine_partition_tuples_histogram_bytes(n, bits, nslots)))
		return HJG_ERR_MEMORY;
	part->histogram = join->histogram_block.ptr;
	return run_passes(dispatch, join, nslots, part_start);
}

HjgStatus
hjg_engine_partition_tuples(HjgJoin *join, const hjg_u8 *src, hjg_u8 *dst, hjg_u64 n, bool low_word, int shift,
					 int bits, hjg_u32 *part_start)
{
	Dispatch	dispatch = {.part = {.shift = shift, .low_word = low_word}};

	return partition_tuples(join, &dispatch, src, dst, n, bits, part_start);
}

HjgStatus
hjg_engine_partition_buckets(HjgJoin *join, const hjg_u8 *src, hjg_u8 *dst, hjg_u64 n, hjg_u32 nbuckets, hjg_u32 first,
					  int bits, hjg_u32 *part_start)
{
	Dispatch	dispatch = {.part = {.nbuckets = nbuckets, .first_bucket = first}};

	return partition_tuples(join, &dispatch, src, dst, n, bits, part_start);
}
