/*
 * engine_probe.c
 *	  The fast path of probing: all pairs of a batch, in any order.
 *
 * Probe rows are taken in the order of the batch and in blocks (group prefetching; Chen et al., TODS
 * 2007), and no branch depends on a key: hjg_probe_kernels.h.  For a table in the cache nothing is
 * prefetched.
 *
 * The rows are not partitioned first to keep the touched stretch of the table in the cache: a row waits
 * for one line, a core overlaps more than ten such waits, and copying a row by partition costs as much.
 * On 16 cores partitions took 1.15 to 2 times as long in each of 22 cases (test/bench/RESULTS.md).
 */
#include "engine/hjg_probe_internal.h"

/* Rows whose lines are fetched while as many are compared. */
#define BLOCK_ROWS 64

typedef struct ProbeBlock
{
	hjg_u64		high[BLOCK_ROWS];
	hjg_u64		low[BLOCK_ROWS];
	hjg_u32		row[BLOCK_ROWS];
	hjg_u32		bucket[BLOCK_ROWS]; /* the bucket's number */
	HjgBucket	found[BLOCK_ROWS];	/* the bucket, where most are crowded */
	hjg_u32		crowded[BLOCK_ROWS];	/* rows with crowded buckets */
	hjg_u32		n;
	hjg_u32		ncrowded;
} ProbeBlock;

/* The kind of table that decides how rows are probed. */
typedef enum Source
{
	SOURCE_KEYS,				/* lines are fetched ahead */
	SOURCE_CACHED,				/* the table is in the cache */
	SOURCE_CROWDED,				/* most rows are in crowded buckets */
	NSOURCES
} Source;

/* --- comparing --- */

/* Emit the pairs of one row with tuples [begin, end), however many. */
HJG_ALWAYS_INLINE bool
emit_run(int width, HjgProbeTask *probe, HjgProbeSlot *slot, hjg_u32 probe_row, const hjg_u8 *tuples, hjg_u32 begin,
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
			(!hjg_engine_probe_write_out(probe, slot, false) || hjg_task_poll(&probe->task)))
			return false;
	}
	return true;
}

HJG_ALWAYS_INLINE bool
probe_heavy(int width, HjgMatchMode mode, HjgProbeTask *probe, HjgProbeSlot *slot, HjgMixed key, hjg_u32 probe_row,
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

/* Turn a row's npairs matches into the mode's pairs; returns their number. */
HJG_ALWAYS_INLINE hjg_u32
keep_pairs(HjgMatchMode mode, hjg_u32 probe_row, HjgPair *out, hjg_u32 npairs)
{
	const hjg_u32 none = npairs == 0;

	if (mode == HJG_MATCH_SEMI)
		return !none;
	if (mode == HJG_MATCH_ANTI)
		npairs = 0;
	if (mode == HJG_MATCH_ANTI || mode == HJG_MATCH_LEFT)
	{
		out[npairs] = (HjgPair) {probe_row, HJG_NO_ROW};
		npairs += none;
	}
	return npairs;
}

/*
 * Emit the pairs of one row by scanning its bucket, to out, which has room for the bucket and one more;
 * returns their number.  Branches on the bucket's size only.
 */
HJG_ALWAYS_INLINE hjg_u32
scan_bucket(int width, HjgMatchMode mode, HjgBucket bucket, HjgMixed key, hjg_u32 probe_row, HjgPair *out)
{
	const hjg_u32 tb = (hjg_u32) hjg_tuple_bytes(width);
	hjg_u32		npairs = 0;

	for (hjg_u32 i = 0; i < bucket.ntuples; i++)
	{
		out[npairs] = (HjgPair) {probe_row, hjg_tuple_row(width, bucket.tuples + i * tb)};
		npairs += (hjg_u32) hjg_mixed_equal(width, hjg_tuple_key(width, bucket.tuples + i * tb), key);
	}
	return keep_pairs(mode, probe_row, out, npairs);
}

/*
 * Scan in the same way a bucket whose tuples are in its line, without a branch.  For a crowded bucket the
 * output is meaningless.
 */
HJG_ALWAYS_INLINE hjg_u32
scan_line(int width, HjgMatchMode mode, const hjg_u8 *line, hjg_u32 ntuples, HjgMixed key, hjg_u32 probe_row, HjgPair *out)
{
	const hjg_u32 tb = (hjg_u32) hjg_tuple_bytes(width);
	const hjg_u8 *t = line + hjg_line_header_bytes(width);
	hjg_u32		npairs = 0;

	for (hjg_u32 i = 0; i < hjg_line_tuples(width); i++)
	{
		out[npairs] = (HjgPair) {probe_row, hjg_tuple_row(width, t + i * tb)};
		npairs += (hjg_u32) hjg_mixed_equal(width, hjg_tuple_key(width, t + i * tb), key) & (hjg_u32) (i < ntuples);
	}
	return keep_pairs(mode, probe_row, out, npairs);
}

#if defined(__x86_64__)
/*
 * Find the matches among a line's worth of tuples with AVX-512 and compress them to the front, without a
 * branch on the keys.  Writes at most eight pairs.  Four-byte keys may come without a header: then there
 * may be eight, and nothing behind the last is read.  Other widths have a header, or readable bytes in its
 * place.
 */
HJG_TARGET_AVX512 HJG_ALWAYS_INLINE hjg_u32
match_avx512(int width, bool header, const hjg_u8 *line, hjg_u32 ntuples, HjgMixed key, hjg_u32 probe_row, HjgPair *out)
{
	const __m512i words = width == 4 && !header ? _mm512_maskz_loadu_epi64((__mmask8) _bzhi_u32(0xFF, ntuples), line) :
		_mm512_loadu_si512(line);
	__m512i		keys;
	__m512i		pairs;			/* build row in the upper half */
	__mmask8	equal;
	hjg_u32		npairs;

	if (width == 4)
	{
		/* the header occupies a tuple's place */
		pairs = words;
		keys = _mm512_and_si512(words, _mm512_set1_epi64(0xFFFFFFFF));
		equal = (__mmask8) (header ? _bzhi_u32(0xFF, ntuples + 1) & 0xFE : _bzhi_u32(0xFF, ntuples));
	}
	else
	{
		const __m512i key_words = _mm512_set_epi32(15, 15, 15, 15, 15, 15, 14, 13, 11, 10, 8, 7, 5, 4, 2, 1);
		const __m512i row_words = _mm512_set_epi32(15, 15, 15, 15, 15, 15, 15, 15, 12, 12, 9, 9, 6, 6, 3, 3);

		keys = _mm512_permutexvar_epi32(key_words, words);
		pairs = _mm512_permutexvar_epi32(row_words, words);
		equal = (__mmask8) _bzhi_u32(0x1F, ntuples);
	}
	pairs = _mm512_mask_set1_epi32(pairs, 0x5555, (int) probe_row);
	equal = _mm512_mask_cmpeq_epi64_mask(equal, keys, _mm512_set1_epi64((long long) key.high));
	npairs = (hjg_u32) _mm_popcnt_u32(equal);
	_mm512_storeu_si512(out, _mm512_maskz_compress_epi64(equal, pairs));
	return npairs;
}

HJG_TARGET_AVX512 HJG_ALWAYS_INLINE hjg_u32
scan_line_avx512(int width, HjgMatchMode mode, const hjg_u8 *line, hjg_u32 ntuples, HjgMixed key, hjg_u32 probe_row,
				 HjgPair *out)
{
	if (width == 16)
		return scan_line(width, mode, line, ntuples, key, probe_row, out);
	return keep_pairs(mode, probe_row, out, match_avx512(width, true, line, ntuples, key, probe_row, out));
}

HJG_TARGET_AVX512 HJG_ALWAYS_INLINE hjg_u32
scan_bucket_avx512(int width, HjgMatchMode mode, HjgBucket bucket, HjgMixed key, hjg_u32 probe_row, HjgPair *out)
{
	const hjg_u32 step = width == 4 ? 8 : hjg_line_tuples(width);
	const hjg_u8 *line = width == 4 ? bucket.tuples : bucket.tuples - hjg_line_header_bytes(width);
	hjg_u32		npairs = 0;

	if (width == 16)
		return scan_bucket(width, mode, bucket, key, probe_row, out);
	for (hjg_u32 left = bucket.ntuples; left > 0;)
	{
		const hjg_u32 n = left < step ? left : step;

		npairs += match_avx512(width, false, line, n, key, probe_row, out + npairs);
		line += step * (hjg_u32) hjg_tuple_bytes(width);
		left -= n;
	}
	return keep_pairs(mode, probe_row, out, npairs);
}
#endif

#define KERNEL(name) name##_plain
#define KERNEL_TARGET
#define SCAN_BUCKET scan_bucket
#define SCAN_LINE scan_line
#include "engine/hjg_probe_kernels.h"

#if defined(__x86_64__)
#define KERNEL(name) name##_avx512
#define KERNEL_TARGET HJG_TARGET_AVX512
#define SCAN_BUCKET scan_bucket_avx512
#define SCAN_LINE scan_line_avx512
#include "engine/hjg_probe_kernels.h"
#endif

/* --- instances --- */

#define SOURCE_OF_keys SOURCE_KEYS
#define SOURCE_OF_cached SOURCE_CACHED
#define SOURCE_OF_crowded SOURCE_CROWDED
#define DEFINE_PROBE(source, width, mode, isa, target, kernel) \
	target static bool probe_##source##_##width##_##mode##_##isa(HjgProbeTask *probe, HjgProbeSlot *slot, \
																 hjg_u64 begin, hjg_u64 end) \
	{ \
		if (SOURCE_OF_##source == SOURCE_CROWDED) \
			return probe_crowded_rows_##kernel(width, HJG_MATCH_##mode, probe, slot, begin, end); \
		return probe_rows_##kernel(width, HJG_MATCH_##mode, SOURCE_OF_##source, probe, slot, begin, end); \
	}
#define DEFINE_MODES(source, width, isa, target, kernel) \
	DEFINE_PROBE(source, width, ALL, isa, target, kernel) \
	DEFINE_PROBE(source, width, LEFT, isa, target, kernel) \
	DEFINE_PROBE(source, width, SEMI, isa, target, kernel) \
	DEFINE_PROBE(source, width, ANTI, isa, target, kernel)
#define DEFINE_WIDTHS(source, isa, target, kernel) \
	DEFINE_MODES(source, 4, isa, target, kernel) \
	DEFINE_MODES(source, 8, isa, target, kernel) \
	DEFINE_MODES(source, 16, isa, target, kernel)
#define DEFINE_ISA(isa, target, kernel) \
	DEFINE_WIDTHS(keys, isa, target, kernel) \
	DEFINE_WIDTHS(cached, isa, target, kernel) \
	DEFINE_WIDTHS(crowded, isa, target, kernel)
#define MODES(source, width, isa) \
	{probe_##source##_##width##_ALL_##isa, probe_##source##_##width##_LEFT_##isa, \
	 probe_##source##_##width##_SEMI_##isa, probe_##source##_##width##_ANTI_##isa}
#define WIDTHS(source, isa) {MODES(source, 4, isa), MODES(source, 8, isa), MODES(source, 16, isa)}
#define SOURCES(isa) {WIDTHS(keys, isa), WIDTHS(cached, isa), WIDTHS(crowded, isa)}
#define NO_TARGET

DEFINE_ISA(base, NO_TARGET, plain)
#if defined(__x86_64__)
DEFINE_ISA(avx2, HJG_TARGET_AVX2, plain)
DEFINE_ISA(avx512, HJG_TARGET_AVX512, avx512)
#endif

static const HjgProbeFn probe_fns[HJG_NISAS][NSOURCES][3][4] = {
	SOURCES(base),
#if defined(__x86_64__)
	SOURCES(avx2),
	SOURCES(avx512),
#endif
};

static void
probe_unit(HjgTask *task, hjg_u32 unit, int slot_ix)
{
	HjgProbeTask  *probe = (HjgProbeTask *) task;
	hjg_u64		begin = (hjg_u64) unit * probe->unit_rows;
	hjg_u64		end = begin + probe->unit_rows < probe->nrows ? begin + probe->unit_rows : probe->nrows;

	probe->probe(probe, &probe->slots[slot_ix], begin, end);
}

static void
probe_finish(HjgTask *task, int slot_ix)
{
	HjgProbeTask  *probe = (HjgProbeTask *) task;

	hjg_engine_probe_write_out(probe, &probe->slots[slot_ix], true);
}

/* --- the whole --- */

static size_t
probe_slot_bytes(void)
{
	return hjg_align64(sizeof(HjgProbeSlot)) + hjg_align64(sizeof(HjgPair) * HJG_BUFFER_PAIRS) +
		sizeof(HjgPair) * HJG_RESULT_CHUNK;
}

size_t
hjg_engine_probe_slots_bytes(int nslots)
{
	return probe_slot_bytes() * (size_t) nslots;
}

static void
set_slots(HjgProbeTask *probe, HjgJoin *join, int nslots)
{
	hjg_u8	   *p = join->slots_block.ptr;

	probe->slots = (HjgProbeSlot *) p;
	p += hjg_align64(sizeof(HjgProbeSlot) * (size_t) nslots);
	for (int i = 0; i < nslots; i++)
	{
		probe->slots[i] = (HjgProbeSlot) {.buffer = (HjgPair *) p};
		p += hjg_align64(sizeof(HjgPair) * HJG_BUFFER_PAIRS);
	}
	probe->spill = (HjgPair *) p;
}

static Source
source_of(const HjgTable *table)
{
	if (table->ncrowded > table->nrows / 2)
		return SOURCE_CROWDED;
	return (size_t) table->nbuckets * HJG_LINE_BYTES <= hjg_l2_bytes() / 2 ? SOURCE_CACHED : SOURCE_KEYS;
}

HjgStatus
hjg_engine_probe_all(HjgJoin *join, HjgMatchMode mode, const HjgRuns *runs, hjg_u32 row, hjg_u32 nrows,
					 HjgResult *result, hjg_u64 *npairs, bool *fits)
{
	const int	width = join->spec.key_width;
	const int	nslots = hjg_task_nslots(join, nrows);
	HjgProbeTask	probe = {.table = &join->table, .mode = mode, .runs = runs, .row = row,
		.nrows = nrows, .result = result, .base = *npairs};
	hjg_u64		started = hjg_now_ns();
	HjgStatus	status;

	if (!hjg_block_reserve(join, &join->slots_block, hjg_engine_probe_slots_bytes(nslots)))
		return HJG_ERR_MEMORY;
	set_slots(&probe, join, nslots);
	probe.capacity = (hjg_u64) result->npages * result->page_pairs - probe.base;
	probe.nchunks = (probe.capacity + HJG_RESULT_CHUNK - 1) / HJG_RESULT_CHUNK;
	probe.nclaimable = probe.nchunks + (hjg_u64) nslots;
	probe.unit_rows = hjg_engine_tuning.unit_rows;
	if (join->table.rows != NULL)
		probe.probe = hjg_direct_probe_fn(&join->table, width, mode);
	else
		probe.probe = probe_fns[join->isa][source_of(&join->table)][join->width_ix][mode];
	probe.task.unit_fn = probe_unit;
	probe.task.finish_fn = probe_finish;

	status = hjg_task_run(&probe.task, join,
						  (hjg_u32) (((hjg_u64) nrows + probe.unit_rows - 1) / probe.unit_rows), nslots);
	if (status == HJG_OK)
	{
		*fits = !probe.overflow;
		if (*fits)
		{
			hjg_u64		total = hjg_engine_probe_close_gaps(&probe, nslots);

			*fits = total <= probe.capacity;
			if (*fits)
			{
				*npairs += total;
				for (int i = 0; i < nslots; i++)
					result->checksum += probe.slots[i].checksum;
			}
		}
	}
	join->stats.probe_ns += hjg_now_ns() - started;
	return status;
}
