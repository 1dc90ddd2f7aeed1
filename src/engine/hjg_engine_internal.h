/*
 * hjg_engine_internal.h
 *	  What the files of the cpu engine share.  Nothing outside engine_*.c of the
 *	  cpu engine includes it, except tests that need a corner of it.
 *
 * Terms
 *	  tuple		a mixed key (hjg_hash.h) and a 4-byte row number, packed without
 *				padding: key width + 4 bytes.
 *	  bucket	all tuples whose mixed keys lie in the same of nbuckets equal ranges.
 *	  slot		one strand of a task; scratch memory is kept per slot.  A task
 *				runs on at most as many slots as the pool has threads.
 *	  unit		what a slot takes at a time, from one atomic counter a task.
 *
 * The table is the same for every strategy: a cache line a bucket, which says how
 * many tuples the bucket has and holds them, in order of build row, if they fit.
 * The tuples of a crowded bucket lie together elsewhere; those of a bucket of more
 * than HJG_HEAVY_BUCKET are ordered by mixed key first and build row second and are
 * searched by bisection.  So most probes wait for one line, and none costs more
 * than a short scan or a logarithm besides its own output.
 * Partitions are ranges of bucket numbers.  Partitioning a probe batch is
 * therefore nothing but sorting it for locality: any fan-out suits the table,
 * and a work unit is any range of the sorted batch, however skewed the keys.
 */
#ifndef HJG_ENGINE_INTERNAL_H
#define HJG_ENGINE_INTERNAL_H

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "engine/hjg_engine.h"
#include "layout/hjg_hash.h"

#define HJG_ALWAYS_INLINE static inline __attribute__((always_inline))

/* Most slots of a task. */
#define HJG_MAX_SLOTS 128

/* Buckets up to this size are scanned, larger ones are sorted and bisected. */
#define HJG_HEAVY_BUCKET 32

/* A bucket's line; see hjg_line_tuples(). */
#define HJG_LINE_BYTES 64

/* Rows between two calls of poll(); at most 100 ns each, cold misses included. */
#define HJG_POLL_ROWS 4096

/* Tuples that may be read, not used, after the last one of crowded buckets. */
#define HJG_TABLE_PAD 16

/* Largest fan-out of one partitioning pass. */
#define HJG_MAX_RADIX_BITS 11

/* Pairs that a slot claims at a time in the result of a round. */
#define HJG_RESULT_CHUNK 1024

#if defined(__x86_64__)
#define HJG_NISAS 3
#define HJG_TARGET_AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define HJG_TARGET_AVX512 \
	__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi,bmi2,popcnt")))
#else
#define HJG_NISAS 1
#endif

/* Instruction sets that kernels are compiled for; the machine's best is used. */
typedef enum HjgIsa
{
	HJG_ISA_BASE = 0,
	HJG_ISA_AVX2,
	HJG_ISA_AVX512
} HjgIsa;

/*
 * Sizes by which the engine cuts its work.  Tests make them small to reach every
 * path with few rows, the bench tries others.  To be changed while no join exists.
 */
typedef struct HjgTuning
{
	HjgIsa		isa_limit;		/* best instruction set to use */
	size_t		l2_bytes;		/* 0: ask the system */
	hjg_u32		slot_rows;		/* rows that make a further slot worthwhile */
	hjg_u32		chunk_rows;		/* least rows of a chunk of a partitioning pass */
	hjg_u32		unit_rows;		/* probe rows of a work unit */
	hjg_u32		giant_rows;		/* least rows of a partition or bucket that all slots build together */
	hjg_u32		min_fast_rows;	/* least part of a batch for the fast path */
} HjgTuning;

extern HjgTuning hjg_engine_tuning;

extern HjgIsa hjg_engine_isa(void);

/* A block from env->alloc. */
typedef struct HjgBlock
{
	void	   *ptr;
	size_t		bytes;
} HjgBlock;

/* Segments as the scans want them: ascending, with prefix sums of their rows. */
typedef struct HjgRun
{
	const hjg_u8 *keys;
	hjg_u64		begin;			/* rows before this one */
	hjg_u32		nrows;
	hjg_u32		first_row;
} HjgRun;

typedef struct HjgRuns
{
	HjgRun	   *runs;
	int			nruns;
	hjg_u64		nrows;
	bool		packed;			/* keys are packed batches, opened and as long as nrows says */
} HjgRuns;

/* Buckets, or an array by key. */
typedef struct HjgTable
{
	hjg_u64		nrows;
	hjg_u8	   *lines;			/* nbuckets */
	hjg_u8	   *tuples;			/* of crowded buckets; a line before and HJG_TABLE_PAD behind are readable */
	hjg_u32		nbuckets;		/* a multiple of the partitions' number, at most 2^31 */

	/*
	 * An array by key: not NULL.  Of nplaces neighbouring keys from first_key on, either the build row of
	 * each, or HJG_NO_ROW, and HJG_NO_ROW behind them;
	 */
	hjg_u32	   *rows;
	hjg_u64		nplaces;
	hjg_u64		first_key;

	/*
	 * or, where keys are repeated and this is not NULL, rows from starts[place] to starts[place + 1] have the key of
	 * a place, in order; behind the places there is one without rows, and HJG_TABLE_PAD rows may be read.
	 */
	hjg_u32	   *starts;
} HjgTable;

struct HjgJoin
{
	HjgEnv		env;
	HjgJoinSpec spec;
	HjgIsa		isa;
	int			width_ix;		/* 0, 1, 2 for 4, 8, 16 bytes */
	HjgTable	table;
	HjgJoinStats stats;
	size_t		live_bytes;

	/* the table's memory; both without bytes when it is env->alloc_table()'s or another join's */
	HjgBlock	lines_block;
	HjgBlock	tuples_block;

	/* scratch, kept between calls and grown on demand */
	HjgBlock	runs_block;
	HjgBlock	partition_block;	/* tuples in partition order */
	HjgBlock	histogram_block;
	HjgBlock	slots_block;	/* what the slots of a task need */
	HjgBlock	counts_block;	/* of the ordered path */

	/* what earlier rounds say about matches a row; see engine_join.c */
	double		seen_rows;
	double		seen_pairs;
	int			overflow_penalty;
	int			ordered_rounds;
};

/*
 * A task: units that the slots take one by one.  finish (may be NULL) is called
 * once for each slot when no unit is left, not after a stop.
 */
typedef struct HjgTask HjgTask;
typedef void (*HjgUnitFn) (HjgTask *task, hjg_u32 unit, int slot);
typedef void (*HjgFinishFn) (HjgTask *task, int slot);

struct HjgTask
{
	const HjgEnv *env;
	HjgUnitFn	unit_fn;
	HjgFinishFn finish_fn;
	hjg_u32		nunits;
	hjg_u32		next_unit;		/* atomic */
	bool		cancelled;		/* atomic */
	bool		stopped;		/* atomic; cancelled, or the work is void */
};

extern HjgStatus hjg_task_run(HjgTask *task, HjgJoin *join, hjg_u32 nunits, int nslots);

static inline void
hjg_task_stop(HjgTask *task)
{
	__atomic_store_n(&task->stopped, true, __ATOMIC_RELAXED);
}

/* True when the slot is to return at once.  May leave by a long jump. */
static inline bool
hjg_task_poll(HjgTask *task)
{
	if (__atomic_load_n(&task->stopped, __ATOMIC_RELAXED))
		return true;
	if (task->env->poll && task->env->poll(task->env->arg))
	{
		__atomic_store_n(&task->cancelled, true, __ATOMIC_RELAXED);
		hjg_task_stop(task);
		return true;
	}
	return false;
}

extern int	hjg_task_nslots(const HjgJoin *join, hjg_u64 nrows);
extern hjg_u64 hjg_now_ns(void);

/* Memory: a block that is too small is given back and replaced; contents are lost. */
extern bool hjg_block_reserve(HjgJoin *join, HjgBlock *block, size_t bytes);
extern void hjg_block_free(HjgJoin *join, HjgBlock *block);

static inline size_t
hjg_align64(size_t bytes)
{
	return (bytes + 63) & ~(size_t) 63;
}

/* --- mixed keys and tuples; width is a constant in every caller that matters --- */

typedef struct HjgMixed
{
	hjg_u64		high;			/* for 4-byte keys the 32 bits of the mix */
	hjg_u64		low;			/* 16-byte keys only, otherwise 0 */
} HjgMixed;

HJG_ALWAYS_INLINE hjg_u32
hjg_load32(const void *p)
{
	hjg_u32		v;

	memcpy(&v, p, sizeof(v));
	return v;
}

HJG_ALWAYS_INLINE hjg_u64
hjg_load64(const void *p)
{
	hjg_u64		v;

	memcpy(&v, p, sizeof(v));
	return v;
}

HJG_ALWAYS_INLINE int
hjg_tuple_bytes(int width)
{
	return width + 4;
}

HJG_ALWAYS_INLINE HjgMixed
hjg_mix_key(int width, const hjg_u8 *key)
{
	HjgMixed	m = {0, 0};

	if (width == 4)
		m.high = hjg_mix32(hjg_load32(key));
	else if (width == 8)
		m.high = hjg_mix64(hjg_load64(key));
	else
	{
		m.low = hjg_load64(key + 8);
		m.high = hjg_mix128(hjg_load64(key), m.low);
	}
	return m;
}

HJG_ALWAYS_INLINE HjgMixed
hjg_tuple_key(int width, const hjg_u8 *tuple)
{
	HjgMixed	m = {0, 0};

	if (width == 4)
		m.high = hjg_load32(tuple);
	else
		m.high = hjg_load64(tuple);
	if (width == 16)
		m.low = hjg_load64(tuple + 8);
	return m;
}

HJG_ALWAYS_INLINE hjg_u32
hjg_tuple_row(int width, const hjg_u8 *tuple)
{
	return hjg_load32(tuple + width);
}

HJG_ALWAYS_INLINE void
hjg_tuple_store(int width, hjg_u8 *tuple, HjgMixed key, hjg_u32 row)
{
	if (width == 4)
	{
		hjg_u64		both = key.high | (hjg_u64) row << 32;

		memcpy(tuple, &both, 8);
	}
	else
	{
		memcpy(tuple, &key.high, 8);
		if (width == 16)
			memcpy(tuple + 8, &key.low, 8);
		memcpy(tuple + width, &row, 4);
	}
}

HJG_ALWAYS_INLINE bool
hjg_mixed_equal(int width, HjgMixed a, HjgMixed b)
{
	return a.high == b.high && (width != 16 || a.low == b.low);
}

HJG_ALWAYS_INLINE bool
hjg_mixed_less(int width, HjgMixed a, HjgMixed b)
{
	return a.high < b.high || (width == 16 && a.high == b.high && a.low < b.low);
}

/* The first bits (0 to 31) of a mixed key. */
HJG_ALWAYS_INLINE hjg_u32
hjg_mixed_prefix(int width, hjg_u64 high, int bits)
{
	if (width == 4)
		return (hjg_u32) (high >> (32 - bits));
	return (hjg_u32) (high >> 1 >> (63 - bits));
}

/* Where a mixed key lies among n <= 2^31 equal ranges of all keys; its prefix, if n is a power of two. */
HJG_ALWAYS_INLINE hjg_u32
hjg_mixed_range(int width, hjg_u64 high, hjg_u32 n)
{
	return (hjg_u32) ((width == 4 ? high : high >> 32) * n >> 32);
}

/* --- walking over rows --- */

typedef struct HjgScan
{
	const HjgRun *run;
	hjg_u64		pos;
	hjg_u64		end;
} HjgScan;

extern HjgStatus hjg_runs_set(HjgJoin *join, HjgRuns *runs, const HjgSegment *segments, int nsegments,
							  bool contiguous);
extern void hjg_scan_begin(HjgScan *scan, const HjgRuns *runs, hjg_u64 begin, hjg_u64 end);

/* Next up to max rows that lie together; their number, 0 at the end. */
HJG_ALWAYS_INLINE hjg_u32
hjg_scan_next(HjgScan *scan, int width, hjg_u32 max, const hjg_u8 **keys, hjg_u32 *first_row)
{
	hjg_u64		in_run;
	hjg_u64		n;

	if (scan->pos >= scan->end)
		return 0;
	while ((in_run = scan->pos - scan->run->begin) >= scan->run->nrows)
		scan->run++;
	n = scan->run->nrows - in_run;
	if (n > scan->end - scan->pos)
		n = scan->end - scan->pos;
	if (n > max)
		n = max;
	*keys = scan->run->keys + in_run * (hjg_u64) width;
	*first_row = scan->run->first_row + (hjg_u32) in_run;
	scan->pos += n;
	return (hjg_u32) n;
}

/* --- engine_partition.c --- */

extern int	hjg_radix_bits(hjg_u64 nrows, size_t bytes_per_row, size_t target_bytes);
extern size_t hjg_l2_bytes(void);

/*
 * Mixed tuples of rows [begin, end) of runs into dst, stably by their first
 * bits bits.  part_start (2^bits + 1 entries) may be NULL.
 */
extern HjgStatus hjg_partition_keys(HjgJoin *join, const HjgRuns *runs, hjg_u64 begin, hjg_u64 end,
									int bits, hjg_u8 *dst, hjg_u32 *part_start);
/*
 * The same by the place of keys in an array, whose size and first key are known: tuples of a 4-byte word,
 * the place shifted to the front by hjg_direct_shift(), and the row.
 */
extern HjgStatus hjg_partition_places(HjgJoin *join, const HjgRuns *runs, const HjgTable *places, int bits,
									  hjg_u8 *dst, hjg_u32 *part_start);
extern size_t hjg_partition_keys_histogram_bytes(hjg_u64 nrows, int bits, int nslots);
extern size_t hjg_partition_keys_slots_bytes(int width, int bits, int nslots);

/*
 * n tuples of src into dst, stably by (word >> shift) & (2^bits - 1), where word
 * is the high or the low one of the mixed key.  part_start is relative to dst.
 */
extern HjgStatus hjg_partition_tuples(HjgJoin *join, const hjg_u8 *src, hjg_u8 *dst, hjg_u64 n,
									  bool low_word, int shift, int bits, hjg_u32 *part_start);
/*
 * The same by bucket: those from first on, at most 2^bits, of a table with nbuckets.
 */
extern HjgStatus hjg_partition_buckets(HjgJoin *join, const hjg_u8 *src, hjg_u8 *dst, hjg_u64 n,
									   hjg_u32 nbuckets, hjg_u32 first, int bits, hjg_u32 *part_start);
extern size_t hjg_partition_tuples_histogram_bytes(hjg_u64 n, int bits, int nslots);

/* --- engine_table.c --- */

extern hjg_u32 hjg_table_nbuckets(int width, hjg_u64 nrows);
extern int	hjg_table_radix_bits(int width, hjg_u64 nrows);
extern HjgStatus hjg_table_build(HjgJoin *join, const HjgRuns *runs);
extern size_t hjg_table_build_bytes(int width, hjg_u64 nrows, int nslots);

/* --- engine_table_parts.c --- */

/* Memory of a part of join's table, in its block, where others are to reach it. */
extern bool hjg_table_reserve(HjgJoin *join, HjgTablePart part, size_t bytes);
/* The first bytes of lines_block, which is the join's alone, go where others are to reach them. */
extern HjgStatus hjg_table_publish_lines(HjgJoin *join, size_t bytes);
/* Join's table is an array by key, in lines_block: make it one that is found by its parts. */
extern HjgStatus hjg_table_keep_direct(HjgJoin *join);
/* The table of nrows rows that lies in these two parts. */
extern HjgTable hjg_table_at(int width, hjg_u64 nrows, const void *tuples, const void *lines);

/* Tuples of a bucket, in its line or elsewhere. */
typedef struct HjgBucket
{
	const hjg_u8 *tuples;
	hjg_u32		ntuples;
} HjgBucket;

/* A line begins with the bucket's number of tuples; 8-byte tuples are aligned. */
HJG_ALWAYS_INLINE int
hjg_line_header_bytes(int width)
{
	return width == 4 ? 8 : 4;
}

/* Most tuples that a line holds: 7, 5 or 3. */
HJG_ALWAYS_INLINE hjg_u32
hjg_line_tuples(int width)
{
	return (hjg_u32) ((HJG_LINE_BYTES - hjg_line_header_bytes(width)) / hjg_tuple_bytes(width));
}

/*
 * The line of a crowded bucket holds, behind the number, the index of the
 * bucket's first tuple in table->tuples.  Does not branch.
 */
HJG_ALWAYS_INLINE HjgBucket
hjg_table_bucket(int width, const HjgTable *table, hjg_u32 bucket)
{
	const hjg_u8 *line = table->lines + (size_t) bucket * HJG_LINE_BYTES;
	const hjg_u8 *crowded = table->tuples + (size_t) hjg_load32(line + 4) * (size_t) hjg_tuple_bytes(width);
	HjgBucket	b = {line + hjg_line_header_bytes(width), hjg_load32(line)};

	b.tuples = b.ntuples > hjg_line_tuples(width) ? crowded : b.tuples;
	return b;
}

/* [*first, *last) of the tuples of a sorted bucket that have this key. */
HJG_ALWAYS_INLINE void
hjg_bucket_bisect(int width, HjgBucket bucket, HjgMixed key, hjg_u32 *first, hjg_u32 *last)
{
	const int	tb = hjg_tuple_bytes(width);
	const hjg_u8 *tuples = bucket.tuples;
	hjg_u32		lo = 0;
	hjg_u32		hi = bucket.ntuples;
	hjg_u32		step = 1;

	while (lo < hi)
	{
		hjg_u32		mid = lo + (hi - lo) / 2;

		if (hjg_mixed_less(width, hjg_tuple_key(width, tuples + (size_t) mid * tb), key))
			lo = mid + 1;
		else
			hi = mid;
	}
	*first = lo;

	/* gallop: most keys have few matches, some have all of the bucket */
	while (bucket.ntuples - lo > step &&
		   hjg_mixed_equal(width, hjg_tuple_key(width, tuples + (size_t) (lo + step) * tb), key))
	{
		lo += step;
		step *= 2;
	}
	hi = bucket.ntuples - lo > step ? lo + step : bucket.ntuples;
	while (lo < hi)
	{
		hjg_u32		mid = lo + (hi - lo) / 2;

		if (hjg_mixed_equal(width, hjg_tuple_key(width, tuples + (size_t) mid * tb), key))
			lo = mid + 1;
		else
			hi = mid;
	}
	*last = lo;
}

/* --- engine_direct.c, engine_direct_repeated.c --- */

/* An array by key, where the keys are dense; otherwise *built is false and nothing is kept. */
extern HjgStatus hjg_direct_build(HjgJoin *join, const HjgRuns *runs, bool *built);
/* Most that it allocates at a time; nslots is an upper limit. */
extern size_t hjg_direct_build_bytes(hjg_u64 nrows, int nslots);

/* Rows by key, of table, whose places are known; and most that it allocates for so many. */
extern HjgStatus hjg_direct_build_repeated(HjgJoin *join, const HjgRuns *runs, HjgTable *table);
extern size_t hjg_direct_repeated_bytes(hjg_u64 nrows, hjg_u64 nplaces, int nslots);

/* Of a table where keys are repeated, whose rows is the address of all: starts, and rows behind them. */
HJG_ALWAYS_INLINE void
hjg_direct_place_rows(HjgTable *table)
{
	table->starts = table->rows;
	table->rows = table->starts + table->nplaces + 2;
}

/* By how many bits places are shifted so that the greatest begins with the word's first bit. */
HJG_ALWAYS_INLINE int
hjg_direct_shift(const HjgTable *table)
{
	return table->nplaces <= 1 ? 31 : __builtin_clz((hjg_u32) (table->nplaces - 1));
}

/* Place of a key in the array, or nplaces. */
HJG_ALWAYS_INLINE hjg_u64
hjg_direct_place(int width, const HjgTable *table, const hjg_u8 *key)
{
	hjg_u64		place;

	if (width == 4)
		place = hjg_load32(key) - (hjg_u32) table->first_key;
	else
		place = hjg_load64(key) - table->first_key;
	return place < table->nplaces ? place : table->nplaces;
}

/* --- engine_probe.c, engine_ordered.c --- */

/*
 * All pairs of probe rows [row, row + nrows) into result from position npairs
 * on, in any order.  *fits is false, and what lies from there on is void, when
 * they are more than the result holds; otherwise *npairs is advanced.
 */
extern HjgStatus hjg_probe_all(HjgJoin *join, HjgMatchMode mode, const HjgRuns *runs, hjg_u32 row, hjg_u32 nrows,
							   bool partitioned, HjgResult *result, hjg_u64 *npairs, bool *fits);
extern int	hjg_probe_radix_bits(int width, hjg_u64 build_rows, hjg_u64 probe_rows);
extern size_t hjg_probe_slots_bytes(int nslots);

/* One window of at most nrows rows from *cursor on, in canonical order, up to the result's capacity. */
extern HjgStatus hjg_probe_window(HjgJoin *join, HjgMatchMode mode, const HjgRuns *runs, hjg_u32 nrows,
								  HjgCursor *cursor, HjgResult *result, hjg_u64 *npairs);
extern size_t hjg_probe_window_bytes(hjg_u32 nrows);

#define HJG_MAX_WINDOW_ROWS 262144

#endif							/* HJG_ENGINE_INTERNAL_H */
