/*
 * engine_probe.c
 *	  The fast path of probing: all pairs of a batch, in any order.
 *
 * Probe rows come either straight from the batch or, if the join's spec asks for
 * it, from a copy that is partitioned by mixed key, so that a stretch of it touches
 * a stretch of the table that the second-level cache holds.  Rows go through in
 * blocks in stages (group prefetching; Chen et al., TODS 2007): mix and prefetch
 * the bucket's line, read it and prefetch what a crowded bucket has elsewhere,
 * compare.
 *
 * Why partitioning has to be asked for: a row waits for one line, and a core
 * overlaps more than ten such waits; copying a row by partition costs as much.
 * Milliseconds of the probe side with 4 threads, 4-byte keys, straight and
 * partitioned, in batches of 8M rows and of 1M:
 *		 5M x 20M rows		34 and 50		33 and 48
 *		16M x 16M rows		43 and 45		43 and 54
 *		64M x 64M rows		219 and 239		(not taken)
 *
 * Results.  A slot gathers pairs in its own buffer and writes them chunkwise to
 * places of the result that it claims from one atomic counter.  Behind the
 * result's capacity lies a spill area of one chunk a slot.  Each slot leaves at
 * most one chunk partly filled, its last, so the spill area runs out only when
 * the pairs are more than the capacity; otherwise pairs from the end are moved
 * into the gaps, and the result is filled from its first page on.
 */
#include "engine/hjg_engine_internal.h"

/* Rows that go through the stages together; of a batch with few rows, as the vectors of a page are. */
#define BLOCK_ROWS 64
#define SMALL_BLOCK_ROWS 16
#define FEW_ROWS 512

/* A slot's buffer: a chunk, the most that one row adds between two looks, and a vector's width. */
#define BUFFER_PAIRS (HJG_RESULT_CHUNK + HJG_HEAVY_BUCKET + 16)

/* Scans look at this many tuples of a bucket without a branch; within HJG_TABLE_PAD. */
#define UNROLLED_TUPLES 3

typedef struct Slot
{
	HjgPair    *buffer;
	hjg_u32		npairs;			/* in the buffer */
	hjg_u32		partial_fill;	/* pairs in the chunk below; 0: none */
	hjg_u64		partial_chunk;
	char		pad[40];
} Slot;

typedef struct ProbeTask
{
	HjgTask		task;
	const HjgTable *table;
	HjgMatchMode mode;
	const HjgRuns *runs;		/* probe rows as they came, from row on ... */
	hjg_u64		row;
	const hjg_u8 *tuples;		/* ... or partitioned */
	hjg_u64		nrows;
	hjg_u32		unit_rows;
	HjgResult  *result;
	hjg_u64		base;			/* first place in the result */
	hjg_u64		capacity;		/* from base on */
	HjgPair    *spill;			/* one chunk a slot */
	hjg_u64		nchunks;		/* of the capacity */
	hjg_u64		nclaimable;		/* and with the spill area */
	hjg_u64		next_chunk;		/* atomic */
	bool		overflow;		/* atomic */
	Slot	   *slots;
	bool		(*probe) (struct ProbeTask *probe, Slot *slot, hjg_u64 begin, hjg_u64 end);
} ProbeTask;

typedef struct Block
{
	hjg_u64		high[BLOCK_ROWS];
	hjg_u64		low[BLOCK_ROWS];
	hjg_u32		row[BLOCK_ROWS];
	hjg_u32		bucket[BLOCK_ROWS]; /* its number */
	hjg_u32		ntuples[BLOCK_ROWS];
	const hjg_u8 *tuples[BLOCK_ROWS];
	hjg_u32		n;
} Block;

/* --- writing results --- */

static inline hjg_u32
chunk_pairs(const ProbeTask *probe, hjg_u64 chunk)
{
	hjg_u64		left;

	if (chunk >= probe->nchunks)
		return HJG_RESULT_CHUNK;
	left = probe->capacity - chunk * HJG_RESULT_CHUNK;
	return left < HJG_RESULT_CHUNK ? (hjg_u32) left : HJG_RESULT_CHUNK;
}

/* n pairs to or from a place within a chunk; pages may end anywhere. */
static void
copy_chunk(const ProbeTask *probe, hjg_u64 chunk, hjg_u32 offset, HjgPair *pairs, hjg_u32 n, bool write)
{
	const HjgResult *result = probe->result;
	hjg_u64		pos = probe->base + chunk * HJG_RESULT_CHUNK + offset;
	hjg_u64		page;
	hjg_u32		in_page;

	if (chunk >= probe->nchunks)
	{
		HjgPair    *place = probe->spill + (chunk - probe->nchunks) * HJG_RESULT_CHUNK + offset;

		memcpy(write ? place : pairs, write ? pairs : place, sizeof(HjgPair) * n);
		return;
	}
	page = pos / result->page_pairs;
	in_page = (hjg_u32) (pos % result->page_pairs);
	while (n > 0)
	{
		hjg_u32		m = result->page_pairs - in_page < n ? result->page_pairs - in_page : n;
		HjgPair    *place = result->pages[page] + in_page;

		memcpy(write ? place : pairs, write ? pairs : place, sizeof(HjgPair) * m);
		pairs += m;
		n -= m;
		page++;
		in_page = 0;
	}
}

/*
 * Write the buffer out while it holds a whole chunk, or all of it at the end.
 * False: the slot is to return.
 */
static bool
write_out(ProbeTask *probe, Slot *slot, bool all)
{
	hjg_u32		done = 0;

	while (slot->npairs - done >= HJG_RESULT_CHUNK || (all && slot->npairs > done))
	{
		hjg_u32		n = slot->npairs - done;
		hjg_u64		chunk = __atomic_fetch_add(&probe->next_chunk, 1, __ATOMIC_RELAXED);
		hjg_u32		room;

		if (chunk >= probe->nclaimable)
		{
			__atomic_store_n(&probe->overflow, true, __ATOMIC_RELAXED);
			hjg_task_stop(&probe->task);
			return false;
		}
		room = chunk_pairs(probe, chunk);
		if (n < room)
		{
			slot->partial_chunk = chunk;
			slot->partial_fill = n;
		}
		else
			n = room;
		copy_chunk(probe, chunk, 0, slot->buffer + done, n, true);
		done += n;
	}
	slot->npairs -= done;
	memmove(slot->buffer, slot->buffer + done, sizeof(HjgPair) * slot->npairs);
	return true;
}

/*
 * The number of pairs; unless they are more than the capacity, pairs from the
 * last chunks are moved into the gaps of partly filled ones.
 */
static hjg_u64
close_gaps(ProbeTask *probe, int nslots)
{
	Slot	   *partial[HJG_MAX_SLOTS]; /* by chunk */
	int			npartial = 0;
	int			first = 0;
	hjg_u64		nclaimed = probe->next_chunk;
	hjg_u64		total;

	if (nclaimed < probe->nchunks)
		total = nclaimed * HJG_RESULT_CHUNK;
	else
		total = probe->capacity + (nclaimed - probe->nchunks) * HJG_RESULT_CHUNK;
	for (int i = 0; i < nslots; i++)
	{
		Slot	   *slot = &probe->slots[i];
		int			j = npartial;

		if (slot->partial_fill == 0)
			continue;
		total -= chunk_pairs(probe, slot->partial_chunk) - slot->partial_fill;
		for (; j > 0 && partial[j - 1]->partial_chunk > slot->partial_chunk; j--)
			partial[j] = partial[j - 1];
		partial[j] = slot;
		npartial++;
	}
	if (total > probe->capacity)
		return total;

	for (hjg_u64 from = nclaimed; from-- > 0;)
	{
		bool		from_partial = npartial > first && partial[npartial - 1]->partial_chunk == from;
		hjg_u32		fill = from_partial ? partial[npartial - 1]->partial_fill : chunk_pairs(probe, from);

		while (fill > 0 && first < npartial && partial[first]->partial_chunk < from)
		{
			Slot	   *to = partial[first];
			hjg_u32		room = chunk_pairs(probe, to->partial_chunk) - to->partial_fill;
			hjg_u32		n = fill < room ? fill : room;
			HjgPair    *bounce = probe->slots[0].buffer;

			fill -= n;
			copy_chunk(probe, from, fill, bounce, n, false);
			copy_chunk(probe, to->partial_chunk, to->partial_fill, bounce, n, true);
			to->partial_fill += n;
			if (n == room)
				first++;
		}
		if (fill > 0)
			break;				/* all before it are full */
		if (from_partial)
			npartial--;
	}
	return total;
}

/* --- comparing --- */

/* All tuples [begin, end) of one key, however many. */
HJG_ALWAYS_INLINE bool
emit_run(int width, ProbeTask *probe, Slot *slot, hjg_u32 probe_row, const hjg_u8 *tuples, hjg_u32 begin,
		 hjg_u32 end)
{
	const size_t tb = (size_t) hjg_tuple_bytes(width);

	while (begin < end)
	{
		hjg_u32		room = HJG_RESULT_CHUNK - slot->npairs; /* never 0 here */
		hjg_u32		n = end - begin < room ? end - begin : room;
		HjgPair    *out = slot->buffer + slot->npairs;

		for (hjg_u32 i = 0; i < n; i++)
			out[i] = (HjgPair) {probe_row, hjg_tuple_row(width, tuples + (begin + i) * tb)};
		slot->npairs += n;
		begin += n;
		if (slot->npairs >= HJG_RESULT_CHUNK &&
			(!write_out(probe, slot, false) || hjg_task_poll(&probe->task)))
			return false;
	}
	return true;
}

HJG_ALWAYS_INLINE bool
probe_heavy(int width, HjgMatchMode mode, ProbeTask *probe, Slot *slot, HjgMixed key, hjg_u32 probe_row,
			HjgBucket bucket)
{
	hjg_u32		first;
	hjg_u32		last;

	hjg_bucket_bisect(width, bucket, key, &first, &last);
	if (mode == HJG_MATCH_SEMI || mode == HJG_MATCH_ANTI)
	{
		if ((first < last) == (mode == HJG_MATCH_SEMI))
		{
			HjgPair		pair = {probe_row, HJG_NO_ROW};

			if (mode == HJG_MATCH_SEMI)
				pair.build_row = hjg_tuple_row(width, bucket.tuples + (size_t) first * hjg_tuple_bytes(width));
			slot->buffer[slot->npairs++] = pair;
		}
		return true;
	}
	if (mode == HJG_MATCH_LEFT && first == last)
	{
		slot->buffer[slot->npairs++] = (HjgPair) {probe_row, HJG_NO_ROW};
		return true;
	}
	return emit_run(width, probe, slot, probe_row, bucket.tuples, first, last);
}

/*
 * The pairs of one row whose bucket is scanned, to out, which has room for the
 * bucket and one more; their number.  Branches on the bucket's size only.
 */
HJG_ALWAYS_INLINE hjg_u32
scan_bucket(int width, HjgMatchMode mode, HjgBucket bucket, HjgMixed key, hjg_u32 probe_row, HjgPair *out)
{
	const int	tb = hjg_tuple_bytes(width);
	const hjg_u8 *t = bucket.tuples;
	const hjg_u32 n = bucket.ntuples;
	hjg_u32		npairs = 0;
	hjg_u32		found = 0;
	hjg_u32		build_row = HJG_NO_ROW;

#define SCAN_ONE(i, present) \
	do { \
		hjg_u32		row = hjg_tuple_row(width, t + (i) * (hjg_u32) tb); \
		hjg_u32		equal = (hjg_u32) hjg_mixed_equal(width, hjg_tuple_key(width, t + (i) * (hjg_u32) tb), key) & \
			(hjg_u32) (present); \
		if (mode == HJG_MATCH_ALL || mode == HJG_MATCH_LEFT) \
		{ \
			out[npairs] = (HjgPair) {probe_row, row}; \
			npairs += equal; \
		} \
		else \
		{ \
			build_row = equal ? row : build_row; \
			found |= equal; \
		} \
	} while (0)

	for (hjg_u32 i = 0; i < UNROLLED_TUPLES; i++)
		SCAN_ONE(i, i < n);
	for (hjg_u32 i = UNROLLED_TUPLES; i < n; i++)
		SCAN_ONE(i, 1);
#undef SCAN_ONE

	if (mode == HJG_MATCH_SEMI)
	{
		*out = (HjgPair) {probe_row, build_row};
		return found;
	}
	if (mode == HJG_MATCH_ANTI)
	{
		*out = (HjgPair) {probe_row, HJG_NO_ROW};
		return found ^ 1;
	}
	if (mode == HJG_MATCH_LEFT)
	{
		hjg_u32		none = npairs == 0;

		out[npairs].probe_row = probe_row;
		out[npairs].build_row = HJG_NO_ROW;
		npairs += none;
	}
	return npairs;
}

#if defined(__x86_64__)
/*
 * The same with AVX-512, a line's worth of tuples at a time: what matches is
 * compressed to the front, so that nothing branches on the keys.  The tuples of a
 * crowded bucket are read as if a line's header stood before them.  Writes eight
 * pairs at least.
 */
HJG_TARGET_AVX512 HJG_ALWAYS_INLINE hjg_u32
scan_bucket_avx512(int width, HjgMatchMode mode, HjgBucket bucket, HjgMixed key, hjg_u32 probe_row, HjgPair *out)
{
	const __m512i wanted = _mm512_set1_epi64((long long) key.high);
	const hjg_u32 step = hjg_line_tuples(width);
	const hjg_u8 *line = bucket.tuples - hjg_line_header_bytes(width);
	hjg_u32		left = bucket.ntuples;
	hjg_u32		npairs = 0;

	if (width == 16)
		return scan_bucket(width, mode, bucket, key, probe_row, out);
	for (;;)
	{
		const __m512i words = _mm512_loadu_si512(line);
		const hjg_u32 n = left < step ? left : step;
		__m512i		keys;
		__m512i		pairs;		/* build row in the upper half */
		__mmask8	equal;

		if (width == 4)
		{
			/* the header lies where a tuple would */
			pairs = words;
			keys = _mm512_and_si512(words, _mm512_set1_epi64(0xFFFFFFFF));
			equal = (__mmask8) (_bzhi_u32(0xFF, n + 1) & 0xFE);
		}
		else
		{
			const __m512i key_words = _mm512_set_epi32(15, 15, 15, 15, 15, 15, 14, 13, 11, 10, 8, 7, 5, 4, 2, 1);
			const __m512i row_words = _mm512_set_epi32(15, 15, 15, 15, 15, 15, 15, 15, 12, 12, 9, 9, 6, 6, 3, 3);

			keys = _mm512_permutexvar_epi32(key_words, words);
			pairs = _mm512_permutexvar_epi32(row_words, words);
			equal = (__mmask8) _bzhi_u32(0x1F, n);
		}
		pairs = _mm512_mask_set1_epi32(pairs, 0x5555, (int) probe_row);
		equal = _mm512_mask_cmpeq_epi64_mask(equal, keys, wanted);
		if (mode != HJG_MATCH_ANTI)
			_mm512_storeu_si512(out + npairs, _mm512_maskz_compress_epi64(equal, pairs));
		npairs += (hjg_u32) _mm_popcnt_u32(equal);
		left -= n;
		if (left == 0 || (mode == HJG_MATCH_SEMI && npairs > 0))
			break;
		line += step * (hjg_u32) hjg_tuple_bytes(width);
	}

	if (mode == HJG_MATCH_SEMI)
		return npairs > 0;
	if (mode == HJG_MATCH_ANTI || mode == HJG_MATCH_LEFT)
	{
		const hjg_u32 none = npairs == 0;

		if (mode == HJG_MATCH_ANTI)
			npairs = 0;
		out[npairs] = (HjgPair) {probe_row, HJG_NO_ROW};
		npairs += none;
	}
	return npairs;
}
#endif

#define KERNEL(name) name##_plain
#define KERNEL_TARGET
#define SCAN_BUCKET scan_bucket
#include "engine/hjg_probe_kernels.h"

#if defined(__x86_64__)
#define KERNEL(name) name##_avx512
#define KERNEL_TARGET HJG_TARGET_AVX512
#define SCAN_BUCKET scan_bucket_avx512
#include "engine/hjg_probe_kernels.h"
#endif

/* --- instances --- */

typedef bool (*ProbeFn) (ProbeTask *probe, Slot *slot, hjg_u64 begin, hjg_u64 end);

#define PARTITIONED_keys false
#define PARTITIONED_tuples true
#define DEFINE_PROBE(source, width, mode, isa, target, kernel) \
	target static bool probe_##source##_##width##_##mode##_##isa(ProbeTask *probe, Slot *slot, \
																 hjg_u64 begin, hjg_u64 end) \
	{ \
		return probe_rows_##kernel(width, HJG_MATCH_##mode, PARTITIONED_##source, probe, slot, begin, end); \
	}
#define DEFINE_MODES(source, width, isa, target, kernel) \
	DEFINE_PROBE(source, width, ALL, isa, target, kernel) \
	DEFINE_PROBE(source, width, LEFT, isa, target, kernel) \
	DEFINE_PROBE(source, width, SEMI, isa, target, kernel) \
	DEFINE_PROBE(source, width, ANTI, isa, target, kernel)
#define DEFINE_ISA(isa, target, kernel) \
	DEFINE_MODES(keys, 4, isa, target, kernel) \
	DEFINE_MODES(keys, 8, isa, target, kernel) \
	DEFINE_MODES(keys, 16, isa, target, kernel) \
	DEFINE_MODES(tuples, 4, isa, target, kernel) \
	DEFINE_MODES(tuples, 8, isa, target, kernel) \
	DEFINE_MODES(tuples, 16, isa, target, kernel)
#define MODES(source, width, isa) \
	{probe_##source##_##width##_ALL_##isa, probe_##source##_##width##_LEFT_##isa, \
	 probe_##source##_##width##_SEMI_##isa, probe_##source##_##width##_ANTI_##isa}
#define SOURCES(isa) \
	{{MODES(keys, 4, isa), MODES(keys, 8, isa), MODES(keys, 16, isa)}, \
	 {MODES(tuples, 4, isa), MODES(tuples, 8, isa), MODES(tuples, 16, isa)}}
#define NO_TARGET

DEFINE_ISA(base, NO_TARGET, plain)
#if defined(__x86_64__)
DEFINE_ISA(avx2, HJG_TARGET_AVX2, plain)
DEFINE_ISA(avx512, HJG_TARGET_AVX512, avx512)
#endif

static const ProbeFn probe_fns[HJG_NISAS][2][3][4] = {
	SOURCES(base),
#if defined(__x86_64__)
	SOURCES(avx2),
	SOURCES(avx512),
#endif
};

static void
probe_unit(HjgTask *task, hjg_u32 unit, int slot_ix)
{
	ProbeTask  *probe = (ProbeTask *) task;
	hjg_u64		begin = (hjg_u64) unit * probe->unit_rows;
	hjg_u64		end = begin + probe->unit_rows < probe->nrows ? begin + probe->unit_rows : probe->nrows;

	probe->probe(probe, &probe->slots[slot_ix], begin, end);
}

static void
probe_finish(HjgTask *task, int slot_ix)
{
	ProbeTask  *probe = (ProbeTask *) task;

	write_out(probe, &probe->slots[slot_ix], true);
}

/* --- the whole --- */

static size_t
slot_bytes(void)
{
	return hjg_align64(sizeof(Slot)) + hjg_align64(sizeof(HjgPair) * BUFFER_PAIRS) +
		sizeof(HjgPair) * HJG_RESULT_CHUNK;
}

size_t
hjg_probe_slots_bytes(int nslots)
{
	return slot_bytes() * (size_t) nslots;
}

/* Fan-out for a probe batch by which slices of the table fit in the cache; 0: all of it does. */
int
hjg_probe_radix_bits(int width, hjg_u64 build_rows, hjg_u64 probe_rows)
{
	const hjg_u32 nbuckets = hjg_table_nbuckets(width, build_rows);
	int			bits = hjg_radix_bits(nbuckets, HJG_LINE_BYTES, hjg_l2_bytes() / 8);

	while (bits > 0 && (nbuckets >> bits == 0 || probe_rows >> bits < 64))
		bits--;
	return bits;
}

static void
set_slots(ProbeTask *probe, HjgJoin *join, int nslots)
{
	hjg_u8	   *p = join->slots_block.ptr;

	probe->slots = (Slot *) p;
	p += hjg_align64(sizeof(Slot) * (size_t) nslots);
	for (int i = 0; i < nslots; i++)
	{
		probe->slots[i] = (Slot) {.buffer = (HjgPair *) p};
		p += hjg_align64(sizeof(HjgPair) * BUFFER_PAIRS);
	}
	probe->spill = (HjgPair *) p;
}

HjgStatus
hjg_probe_all(HjgJoin *join, HjgMatchMode mode, const HjgRuns *runs, hjg_u32 row, hjg_u32 nrows,
			  bool partitioned, HjgResult *result, hjg_u64 *npairs, bool *fits)
{
	const int	width = join->spec.key_width;
	const int	nslots = hjg_task_nslots(join, nrows);
	ProbeTask	probe = {.table = &join->table, .mode = mode, .runs = runs, .row = row,
		.nrows = nrows, .result = result, .base = *npairs};
	hjg_u64		started = hjg_now_ns();
	HjgStatus	status;

	if (partitioned)
	{
		if (!hjg_block_reserve(join, &join->partition_block,
							   hjg_align64((size_t) nrows * (size_t) hjg_tuple_bytes(width))))
			return HJG_ERR_MEMORY;
		status = hjg_partition_keys(join, runs, row, (hjg_u64) row + nrows,
									hjg_probe_radix_bits(width, join->table.nrows, nrows),
									join->partition_block.ptr, NULL);
		if (status != HJG_OK)
			return status;
		probe.tuples = join->partition_block.ptr;
		join->stats.partition_ns += hjg_now_ns() - started;
		started = hjg_now_ns();
	}
	if (!hjg_block_reserve(join, &join->slots_block, hjg_probe_slots_bytes(nslots)))
		return HJG_ERR_MEMORY;
	set_slots(&probe, join, nslots);
	probe.capacity = (hjg_u64) result->npages * result->page_pairs - probe.base;
	probe.nchunks = (probe.capacity + HJG_RESULT_CHUNK - 1) / HJG_RESULT_CHUNK;
	probe.nclaimable = probe.nchunks + (hjg_u64) nslots;
	probe.unit_rows = hjg_engine_tuning.unit_rows;
	probe.probe = probe_fns[join->isa][partitioned][join->width_ix][mode];
	probe.task.unit_fn = probe_unit;
	probe.task.finish_fn = probe_finish;

	status = hjg_task_run(&probe.task, join,
						  (hjg_u32) (((hjg_u64) nrows + probe.unit_rows - 1) / probe.unit_rows), nslots);
	if (status == HJG_OK)
	{
		*fits = !probe.overflow;
		if (*fits)
		{
			hjg_u64		total = close_gaps(&probe, nslots);

			*fits = total <= probe.capacity;
			if (*fits)
				*npairs += total;
		}
	}
	join->stats.probe_ns += hjg_now_ns() - started;
	return status;
}
