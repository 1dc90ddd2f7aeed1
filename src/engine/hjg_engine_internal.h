/*
 * hjg_engine_internal.h
 *	  Declarations that the files of the cpu engine share; no other room includes it but the laboratory, which
 *	  compares its parts.
 */
#ifndef HJG_ENGINE_INTERNAL_H
#define HJG_ENGINE_INTERNAL_H

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "engine/hjg_engine.h"
#include "engine/hjg_engine_work.h"
#include "engine/hjg_table.h"
#include "layout/hjg_clock.h"

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

/*
 * Sizes by which the engine divides its work.  Tests make them small to reach every path with few rows,
 * benches try others.  They may change only while no join exists.
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

/* --- engine_task.c --- */

extern HjgIsa hjg_engine_isa(void);
/* Find the size of a core's second-level cache. */
extern size_t hjg_l2_bytes(void);

/* Count the slots: one, and one more for every slot_rows rows, at most nthreads or the pool's threads. */
extern int	hjg_nslots_of(int nthreads, hjg_u64 nrows);
extern int	hjg_task_nslots(const HjgJoin *join, hjg_u64 nrows);

/* --- engine_partition.c --- */

extern int	hjg_radix_bits(hjg_u64 nrows, size_t bytes_per_row, size_t target_bytes);

/*
 * Partition rows [begin, end) of runs into dst as mixed tuples, stably by their first bits bits.
 * part_start (2^bits + 1 entries) may be NULL.
 */
extern HjgStatus hjg_engine_partition_keys(HjgJoin *join, const HjgRuns *runs, hjg_u64 begin, hjg_u64 end,
									int bits, hjg_u8 *dst, hjg_u32 *part_start);
/*
 * Partition by the place of keys in an array of known size and first key.  Tuples have a 4-byte word, the
 * place shifted to the front by hjg_direct_shift(), and the row.
 */
extern HjgStatus hjg_engine_partition_places(HjgJoin *join, const HjgRuns *runs, const HjgTable *places, int bits,
									  hjg_u8 *dst, hjg_u32 *part_start);
extern size_t hjg_engine_partition_keys_histogram_bytes(hjg_u64 nrows, int bits, int nslots);
extern size_t hjg_engine_partition_keys_slots_bytes(int width, int bits, int nslots);

/*
 * Partition n tuples of src into dst, stably by (word >> shift) & (2^bits - 1), where word is the high or
 * low word of the mixed key.  part_start is relative to dst.
 */
extern HjgStatus hjg_engine_partition_tuples(HjgJoin *join, const hjg_u8 *src, hjg_u8 *dst, hjg_u64 n,
									  bool low_word, int shift, int bits, hjg_u32 *part_start);
/* Partition by bucket, of a table with nbuckets: at most 2^bits buckets, from first on. */
extern HjgStatus hjg_engine_partition_buckets(HjgJoin *join, const hjg_u8 *src, hjg_u8 *dst, hjg_u64 n,
									   hjg_u32 nbuckets, hjg_u32 first, int bits, hjg_u32 *part_start);
extern size_t hjg_engine_partition_tuples_histogram_bytes(hjg_u64 n, int bits, int nslots);

/* --- engine_table.c --- */

extern HjgStatus hjg_table_build(HjgJoin *join, const HjgRuns *runs);
extern size_t hjg_table_build_bytes(int width, hjg_u64 nrows, int nslots);

/* --- engine_table_parts.c --- */

/* Choose the number of leading key bits that partition the rows of a table, and its number of buckets. */
extern int	hjg_table_radix_bits(int width, hjg_u64 nrows);
extern hjg_u32 hjg_table_nbuckets(int width, hjg_u64 nrows);
/* Reserve shareable memory for a part of join's table, in its block. */
extern bool hjg_table_reserve(HjgJoin *join, HjgTablePart part, size_t bytes);
/* Copy the first bytes of lines_block, which is private to the join, to shareable memory. */
extern HjgStatus hjg_table_publish_lines(HjgJoin *join, size_t bytes);
/* Write the head of join's finished table into the part that has tuples. */
extern void hjg_table_write_head(HjgJoin *join);
/* Make join's table, an array by key in lines_block, attachable by its parts. */
extern HjgStatus hjg_table_keep_direct(HjgJoin *join);
/* Find the table of nrows rows that lies in these two parts. */
extern HjgTable hjg_table_at(int width, hjg_u64 nrows, const void *tuples, const void *lines);

/* --- engine_direct.c, engine_direct_repeated.c --- */

/* Build an array by key, where the keys are dense; otherwise *built is false and nothing is kept. */
extern HjgStatus hjg_direct_build(HjgJoin *join, const HjgRuns *runs, bool *built);
/* Bound the bytes that it holds at a time; nslots is an upper limit. */
extern size_t hjg_direct_build_bytes(hjg_u64 nrows, int nslots);

/* Build table's rows by key, with its places known; and bound the bytes that this holds at a time. */
extern HjgStatus hjg_direct_build_repeated(HjgJoin *join, const HjgRuns *runs, HjgTable *table);
extern size_t hjg_direct_repeated_bytes(hjg_u64 nrows, hjg_u64 nplaces, int nslots);

/* --- engine_probe.c, engine_ordered.c --- */

/*
 * Emit all pairs of probe rows [row, row + nrows) into result from position npairs on, in any order.  If
 * they fit, *fits is true and *npairs is advanced; otherwise the result is void from there on.
 */
extern HjgStatus hjg_engine_probe_all(HjgJoin *join, HjgMatchMode mode, const HjgRuns *runs, hjg_u32 row, hjg_u32 nrows,
							   HjgResult *result, hjg_u64 *npairs, bool *fits);
extern size_t hjg_engine_probe_slots_bytes(int nslots);

/* Probe one window of at most nrows rows from *cursor on, in canonical order, up to the result's capacity. */
extern HjgStatus hjg_engine_probe_window(HjgJoin *join, HjgMatchMode mode, const HjgRuns *runs, hjg_u32 nrows,
								  HjgCursor *cursor, HjgResult *result, hjg_u64 *npairs);
extern size_t hjg_engine_probe_window_bytes(hjg_u32 nrows);

#define HJG_MAX_WINDOW_ROWS 262144

#endif							/* HJG_ENGINE_INTERNAL_H */
