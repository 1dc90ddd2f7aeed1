/*
 * hjg_cuda_paper.h
 *	  Resident joins of the literature, and the pieces that they are composed of.  Internal to the room
 *	  "lab".
 *
 * These strategies exist to repeat published comparisons with each other and with ours, on the same data,
 * hashes and checks; no query runs them.  They keep the designs of their papers, but not their gaps: they
 * take any keys, duplicates, skew and match modes, or suits() or build() refuses.
 *
 * None of them is shared (HjgCudaStrategy.shared), so the driver joins one batch of a job at a time.  As they
 * take duplicates, a batch may meet rows with very many matches, for which the driver gives up the table; it
 * cannot while other batches probe it.  Benchmarks of streaming (lab_host_flow.c) have one stream for joins,
 * as in the papers, and copies beside it.
 *
 *		nop_chain, nop_open		lab_cuda_nop.c	table in global memory
 *		smj						lab_cuda_smj.c	merge sort and merge join
 *		pth, wsh, bsh, prbc		lab_cuda_designs.c	radix joins: a partitioner (lab_cuda_histogram.c,
 *								_chains.c), a join of co-partitions (_match.c) and an output (_sink.c) each
 */
#ifndef HJG_CUDA_PAPER_H
#define HJG_CUDA_PAPER_H

#include "device/hjg_cuda_join.h"
#include "lab/hjg_cuda_paper_args.h"

#define HJG_CUDA_WIDTHS 3

/* ---- lab_cuda_strategies.c: the joins by number and name ---- */

/* LAB_STRATEGY(id, name): joins of the literature, in the order of their numbers; each is a HjgCudaStrategy hjg_cuda_<name>. */
#define HJG_LAB_STRATEGIES(LAB_STRATEGY) \
	LAB_STRATEGY(NOP_CHAIN, nop_chain) \
	LAB_STRATEGY(NOP_OPEN, nop_open) \
	LAB_STRATEGY(SMJ, smj) \
	LAB_STRATEGY(PTH, pth) \
	LAB_STRATEGY(WSH, wsh) \
	LAB_STRATEGY(BSH, bsh) \
	LAB_STRATEGY(BSH_VT1, bsh_vt1) \
	LAB_STRATEGY(BSH_HASH, bsh_hash) \
	LAB_STRATEGY(BSH_HASH_COUNT, bsh_hash_count) \
	LAB_STRATEGY(BSH_HASH_EXACT, bsh_hash_exact) \
	LAB_STRATEGY(BSH_HASH_BLOCK, bsh_hash_block) \
	LAB_STRATEGY(BSH_HASH_WARP, bsh_hash_warp) \
	LAB_STRATEGY(BSH_HASH_EST, bsh_hash_est) \
	LAB_STRATEGY(BSH_HASH_WORST, bsh_hash_worst) \
	LAB_STRATEGY(BSH_QUEUE, bsh_queue) \
	LAB_STRATEGY(BSH_WHOLE, bsh_whole) \
	LAB_STRATEGY(PRBC, prbc) \
	LAB_STRATEGY(PRBC_256, prbc_256) \
	LAB_STRATEGY(PRBC_2048, prbc_2048) \
	LAB_STRATEGY(PRBC_NESTED, prbc_nested) \
	LAB_STRATEGY(PRBC_DEVICE, prbc_device) \
	LAB_STRATEGY(PRBC_WIDE, prbc_wide) \
	LAB_STRATEGY(UMJ, umj) \
	LAB_STRATEGY(UMJ_PF, umj_pf)

/*
 * Numbers by which a join of the driver "cuda" can be requested, behind the product's, the only ones that
 * it reports.
 */
typedef enum HjgLabStrategyId
{
	HJG_LAB_CSR = HJG_CUDA_LAST,	/* the driver's own, which is also a resident join here: lab_cuda_csr.c */
#define LAB_STRATEGY(id, name) HJG_LAB_##id,
	HJG_LAB_STRATEGIES(LAB_STRATEGY)
#undef LAB_STRATEGY
	HJG_LAB_END
} HjgLabStrategyId;

#define HJG_LAB_LAST (HJG_LAB_END - 1)

extern const HjgCudaStrategy hjg_cuda_csr;
#define LAB_STRATEGY(id, name) extern const HjgCudaStrategy hjg_cuda_##name;
HJG_LAB_STRATEGIES(LAB_STRATEGY)
#undef LAB_STRATEGY

/* Find a strategy by name, or NULL. */
extern const HjgCudaStrategy *hjg_lab_strategy_named(const char *name);

/*
 * List the strategies that are worth a try for a join of exact sizes, best first; ends with NULL.  At most
 * HJG_LAB_CHOICES entries.
 */
#define HJG_LAB_CHOICES 4
extern void hjg_lab_strategy_choose(const HjgCudaDevice *device, const HjgCudaShape *shape,
									const HjgCudaStrategy *choices[HJG_LAB_CHOICES]);

/* ---- lab_cuda_traffic.c ---- */

/*
 * Count the bytes that build and probe read and write in device memory, with rows in columns, without the
 * output.
 */
extern hjg_u64 hjg_lab_traffic(const HjgCudaStrategy *strategy, const HjgCudaDevice *device, const HjgCudaShape *shape);
/* Count the bytes of "table" and "packed" that a probe reads at random and the L2 cache should hold. */
extern size_t hjg_lab_table_probed(int key_width, hjg_u64 nrows);
extern size_t hjg_lab_packed_probed(hjg_u64 nrows);
/* True if the strategy writes only pairs and refuses other outputs with HJG_ERR_INPUT. */
static inline bool
hjg_lab_pairs_only(const HjgCudaStrategy *strategy)
{
	return strategy == &hjg_cuda_csr;
}

/* Count the bytes of one strategy; those of the literature are in their files. */
extern hjg_u64 hjg_lab_traffic_csr(const HjgCudaDevice *device, const HjgCudaShape *shape);
#define LAB_STRATEGY(id, name) extern hjg_u64 hjg_lab_traffic_##name(const HjgCudaDevice *device, const HjgCudaShape *shape);
HJG_LAB_STRATEGIES(LAB_STRATEGY)
#undef LAB_STRATEGY

/* ---- lab_cuda_managed.c ---- */

/* Means by which a side gets to the device. */
typedef enum HjgLabMoving
{
	HJG_LAB_BY_COPY,
	HJG_LAB_BY_FAULT,			/* in managed memory, by page faults of the kernels */
	HJG_LAB_BY_PREFETCH,		/* in managed memory, prefetched */
	HJG_LAB_BY_UVA_LOAD,		/* kernels copy it from pinned host memory, over unified addresses */
	HJG_LAB_BY_UVA,				/* the join reads it there */
	HJG_LAB_MOVINGS
} HjgLabMoving;

/* True if the side lies in managed memory. */
static inline bool
hjg_lab_is_managed(HjgLabMoving moving)
{
	return moving == HJG_LAB_BY_FAULT || moving == HJG_LAB_BY_PREFETCH;
}

/* True if the strategy takes a side as its pieces come in (lab_cuda_designs.c). */
extern bool hjg_lab_takes_pieces(const HjgCudaStrategy *strategy);
/* Find how a strategy has its sides moved; moved by copies, umj and umj_pf are the same as prbc. */
extern HjgLabMoving hjg_lab_moving(const HjgCudaStrategy *strategy);
/*
 * Allocate managed memory, outside the pool; an error if the device has none, or not as much free memory:
 * a program that moves more can stall the device.
 */
extern HjgStatus hjg_lab_managed_take(HjgCudaStream *stream, size_t bytes, HjgCudaPtr *ptr);
extern void hjg_lab_managed_give(HjgCudaStream *stream, HjgCudaPtr ptr);
/* Queue the move of managed memory to the device of the stream, or to the host. */
extern HjgStatus hjg_lab_prefetch(HjgCudaStream *stream, HjgCudaPtr ptr, size_t bytes, bool to_host);
/*
 * Move bytes of a side from host memory to the side: queue a copy, or write them into managed memory,
 * whose last readers must have been waited for, and queue its prefetch.
 */
extern HjgStatus hjg_lab_bring(HjgCudaStream *stream, HjgLabMoving moving, HjgCudaPtr to, const void *from, size_t bytes);

/* Find a GPU and make its context current; NULL, with a message on stderr, when that fails (lab_cuda_paper.c). */
extern HjgCudaDevice *hjg_lab_enter(int number);
/* Make the laboratory's strategies known to the driver (hjg_cuda_further_strategies). */
extern void hjg_lab_strategies_open(void);

/*
 * Exclude joins that none of these strategies takes: no build rows, more rows than positions, the wide
 * rows of benchmarks.
 */
static inline bool
hjg_lab_paper_suits(const HjgCudaShape *shape)
{
	return shape->build_rows > 0 && shape->build_rows <= HJG_K_MAX_ROWS && shape->probe_rows <= HJG_K_MAX_ROWS &&
		!shape->wide_rows;
}

static inline HjgKSide
hjg_lab_kernel_side(const HjgCudaSide *side)
{
	return (HjgKSide) {.keys = side->keys, .rows = side->rows, .nrows = (hjg_u32) side->nrows};
}

static inline HjgKOutput
hjg_lab_kernel_output(const HjgCudaOutput *output)
{
	return (HjgKOutput) {
		.counters = output->counters, .pairs = output->pairs, .keys = output->keys,
		.build_rows = output->build_rows, .probe_rows = output->probe_rows, .capacity = output->capacity
	};
}

/* ---- lab_cuda_paper.c ---- */

/* Rows of a mixed key and a row number, as kernels use them (HjgKRows). */
typedef struct HjgCudaRows
{
	HjgCudaPtr	keys;			/* keys, and with keys of 4 bytes the row numbers */
	HjgCudaPtr	rows;			/* 0 with keys of 4 bytes */
	hjg_u64		nrows;
} HjgCudaRows;

extern size_t hjg_lab_rows_bytes(int key_width, hjg_u64 nrows);
/* Allocate rows. _free() frees them, even after an error, and accepts any rows that were zeroed first. */
extern HjgStatus hjg_lab_rows_alloc(HjgCudaStream *stream, int key_width, hjg_u64 nrows, HjgCudaRows *rows);
extern void hjg_lab_rows_free(HjgCudaStream *stream, HjgCudaRows *rows);
/* Free the host memory of rows that lay there (tuning.rows_on_host). */
extern void hjg_lab_rows_drop(HjgCudaStream *stream);

static inline HjgKRows
hjg_lab_kernel_rows(const HjgCudaRows *rows)
{
	return (HjgKRows) {.keys = rows->keys, .rows = rows->rows};
}

/* ---- lab_cuda_sort.c ---- */

/* Sort a side by mixed key; the caller frees *sorted. */
extern HjgStatus hjg_lab_merge_sort(HjgCudaStream *stream, int key_width, const HjgCudaSide *side, HjgCudaRows *sorted);
/* Count the device memory at one time, including the sorted rows. */
extern size_t hjg_lab_merge_sort_bytes(int key_width, hjg_u64 nrows);
/* Count the bytes read and written. */
extern hjg_u64 hjg_lab_merge_sort_traffic(int key_width, hjg_u64 nrows);
/* Choose the rows of a tile of sorts and merges. */
extern hjg_u32 hjg_lab_merge_tile(int key_width);

/* ---- one side in partitions ---- */

/* Settings chosen by tests and benchmarks, while no join exists; 0: as the strategy has it. */
typedef struct HjgCudaPaperTuning
{
	hjg_u32		part_rows;		/* average build rows of a partition */
	hjg_u32		bits;			/* 2^bits partitions, whatever the sizes */
	hjg_u32		page_pairs;		/* of a thread's page of the output */
	hjg_u32		bucket_bits;	/* of chains; 2^bucket_bits rows */
	hjg_u32		between_bits;	/* of the chains between two passes */
	hjg_u32		full_blocks;	/* passes of chains by blocks of 1024 threads */
	hjg_u32		vt;				/* 4: so many probe rows of a thread are read before the first is used */
	hjg_u32		rows_on_host;	/* partitions lie in pinned host memory */
	hjg_u32		one_stream;		/* sides from host memory come in one after the other, before they are used */
	HjgLabMoving moving;		/* of sides from host memory, unless the strategy determines it */
} HjgCudaPaperTuning;

extern HjgCudaPaperTuning hjg_cuda_paper_tuning;

/* ---- lab_cuda_arrival.c: sides that come in while they are used ---- */

#define HJG_LAB_PIECES 16

/* The pieces of a side, each with the event that it has come in. */
typedef struct HjgLabArrival
{
	HjgCudaPtr	keys;			/* of the side; 0: none */
	hjg_u64		nrows;
	int			npieces;
	hjg_u64		piece_rows;		/* a multiple of 4; the last piece may have fewer */
	HjgCudaEvent come[HJG_LAB_PIECES];
} HjgLabArrival;

/* Make the arrival of a side known, or forget those of all sides (NULL).  It must stay as long. */
extern void hjg_lab_arrival_note(const HjgLabArrival *arrival);
/* Find the arrival of a side; NULL if it lies in place. */
extern const HjgLabArrival *hjg_lab_arrival_of(const HjgCudaSide *side);
/* Let later work wait until the whole side has come in. */
extern HjgStatus hjg_lab_arrival_wait(HjgCudaStream *stream, const HjgCudaSide *side);

#define HJG_CUDA_MOST_PART_BITS 17

/*
 * Rows by partition, and the places of the partitions.  With bucket chains, positions refer to a page
 * table: pages[i >> bucket_bits] of the rows; otherwise pages is 0.
 */
typedef struct HjgCudaParted
{
	HjgCudaRows rows;
	HjgCudaPtr	pages;
	HjgCudaPtr	numbers;		/* block of the following members */
	HjgCudaPtr	sizes;			/* hjg_u32[1 << bits] */
	HjgCudaPtr	largest;		/* hjg_u32, then the ticket of a join */
	HjgCudaPtr	ticket;
	HjgKParts	parts;
	HjgCudaPtr	unit_first;		/* hjg_u32[(1 << bits) + 1], then the largest of the build side's partitions */
	HjgCudaPtr	cursors;		/* two cursors that nothing reads */
	hjg_u64		nrows;
	int			bits;
	int			bucket_bits;
	int			between_bits;	/* of chains: of the buckets between two passes */
	bool		full_blocks;	/* of chains: blocks of 1024 threads */
} HjgCudaParted;

/*
 * Allocate the numbers of 2^bits partitions, with largest and ticket zeroed; _free() frees them and all
 * the rest.
 */
extern HjgStatus hjg_lab_parted_begin(HjgCudaStream *stream, hjg_u64 nrows, int bits, HjgCudaParted *parted);
/*
 * Turn sizes into places; units: NULL, or the units of a join with this side as probe side, completed
 * here.
 */
extern HjgStatus hjg_lab_parted_place(HjgCudaStream *stream, HjgCudaParted *parted, HjgKUnits *units);
extern void hjg_lab_parted_free(HjgCudaStream *stream, HjgCudaParted *parted);
extern size_t hjg_lab_parted_bytes(int bits);

/* ---- lab_cuda_histogram.c ---- */

/* The owner of a histogram. */
typedef enum HjgCudaSharing
{
	HJG_CUDA_OF_THREAD,				/* a thread */
	HJG_CUDA_OF_WARP,				/* a warp */
	HJG_CUDA_OF_BLOCK,				/* a block */
	HJG_CUDA_OF_BLOCK_VT1,			/* a block, one row a thread at a time */
	HJG_CUDA_SHARINGS
} HjgCudaSharing;

/* Partition a side; parted has begun, and the rest of it is filled in, with units as for _place(). */
extern HjgStatus hjg_lab_histogram_partition(HjgCudaStream *stream, HjgCudaSharing sharing, int key_width,
											  const HjgCudaSide *side, HjgCudaParted *parted, HjgKUnits *units);
/* Count the device memory at one time, including the partitioned rows, and the bytes moved. */
extern size_t hjg_lab_histogram_bytes(const HjgCudaDevice *device, HjgCudaSharing sharing, int key_width, hjg_u64 nrows,
									   int bits);
extern hjg_u64 hjg_lab_histogram_traffic(const HjgCudaDevice *device, HjgCudaSharing sharing, int key_width, hjg_u64 nrows,
										int bits);

/* ---- lab_cuda_chains.c ---- */

/*
 * Partition a side into chains, with the bits of buckets and full_blocks of parted set; sets the places too,
 * with units as for _place().  The first pass takes a side that comes in by pieces as they come.
 */
extern HjgStatus hjg_lab_chain_partition(HjgCudaStream *stream, int key_width, const HjgCudaSide *side,
										  HjgCudaParted *parted, HjgKUnits *units);
extern size_t hjg_lab_chain_bytes(int key_width, hjg_u64 nrows, int bits, int bucket_bits, int between_bits);
extern hjg_u64 hjg_lab_chain_traffic(int key_width, hjg_u64 nrows, int bits);

/* ---- lab_cuda_match.c ---- */

/* The output of pairs. */
typedef enum HjgCudaPutting
{
	HJG_CUDA_PUT_WARP,			/* buffers of warps */
	HJG_CUDA_PUT_BLOCK,			/* chunks of blocks */
	HJG_CUDA_PUT_PAGE,			/* pages of threads */
	HJG_CUDA_PUT_TWICE,			/* count, sum, write */
	HJG_CUDA_PUT_GROUPS,		/* groups of partitions whose pairs are estimated to fill a buffer */
	HJG_CUDA_PUT_WORST,			/* as many partitions at a time as fit a buffer with any pairs */
	HJG_CUDA_PUT_EXACT			/* count, sum, write by groups of partitions whose pairs fill a buffer */
} HjgCudaPutting;

/* Kernels of further outputs: the write of TWICE and EXACT, whose count has their number, and a checksum. */
#define HJG_CUDA_SINK_PLACE (HJG_CUDA_PUT_EXACT + 1)
#define HJG_CUDA_SINK_SUM (HJG_CUDA_PUT_EXACT + 2)
#define HJG_CUDA_SINK_END (HJG_CUDA_PUT_EXACT + 3)

/* The join of a pair of co-partitions. */
typedef enum HjgCudaMethod
{
	HJG_CUDA_NESTED,			/* nested loops with ballots */
	HJG_CUDA_HASHED,			/* a hash table in shared memory */
	HJG_CUDA_HASHED_VT4,		/* the same, four probe rows of a thread at a time */
	HJG_CUDA_HASHED_DEVICE,		/* a hash table in device memory */
	HJG_CUDA_METHODS
} HjgCudaMethod;

typedef struct HjgCudaMatch
{
	int			key_width;
	HjgMatchMode mode;
	HjgCudaMethod method;
	bool		queue;			/* the kernel cuts large partitions */
	HjgCudaPutting putting;
	hjg_u32		build_limit;	/* build rows of a unit */
	hjg_u64		most_rows;		/* of a build partition; with more the output's count becomes HJG_CUDA_UNSUITED */
	const HjgCudaParted *build;
	const HjgCudaParted *probe;
	HjgKUnits	units;
} HjgCudaMatch;

/* Bound the build rows of a unit; 0 if the device has too little shared memory. */
extern hjg_u32 hjg_lab_match_limit(const HjgCudaDevice *device, int key_width, HjgCudaMethod method);
extern HjgStatus hjg_lab_match(HjgCudaStream *stream, const HjgCudaMatch *match, const HjgCudaOutput *output);
/* Bound the device memory held at one time, for at most nunits units. */
extern size_t hjg_lab_match_bytes(const HjgCudaDevice *device, HjgCudaMethod method, HjgCudaPutting putting, bool queue,
								  hjg_u64 probe_rows, hjg_u64 nunits);

/* The units to be launched. */
typedef struct HjgCudaUnits
{
	const HjgCudaMatch *match;
	HjgKMatch	args;
	hjg_u64		nunits;
	unsigned	nblocks;
	unsigned	shared;
	/* Joins units [from, to) with the kernel of a sink. */
	HjgStatus	(*launch) (HjgCudaStream *stream, struct HjgCudaUnits *units, int sink, hjg_u64 from, hjg_u64 to);
} HjgCudaUnits;

/* ---- lab_cuda_groups.c ---- */

/*
 * Join by groups. *too_small: a unit has more pairs than the buffer, or may have; the output is then void
 * and its counter unchanged.
 */
extern HjgStatus hjg_lab_match_groups(HjgCudaStream *stream, HjgCudaUnits *units, const HjgCudaOutput *output, bool *too_small);
extern HjgStatus hjg_lab_match_worst(HjgCudaStream *stream, HjgCudaUnits *units, bool *too_small);
extern HjgStatus hjg_lab_match_exact(HjgCudaStream *stream, HjgCudaUnits *units, const HjgCudaOutput *output);
/* Bound the device memory of the buffer and its tables. */
extern size_t hjg_lab_groups_bytes(hjg_u64 probe_rows, hjg_u64 nblocks, hjg_u64 nunits);
extern size_t hjg_lab_worst_bytes(const HjgCudaDevice *device);

/* ---- lab_cuda_sink.c ---- */

/* The state of pages and chunks during a join. */
typedef struct HjgCudaPages
{
	HjgKHoles	args;
	HjgCudaPtr	numbers;		/* taken, nholes */
} HjgCudaPages;

/*
 * Begin for nblocks blocks of threads; _end() closes the holes and writes the number of pairs; _free()
 * must be called in any case.
 */
extern HjgStatus hjg_lab_pages_begin(HjgCudaStream *stream, HjgCudaPutting putting, unsigned nblocks, unsigned threads,
									  const HjgCudaOutput *output, HjgCudaPages *pages);
extern HjgStatus hjg_lab_pages_end(HjgCudaStream *stream, HjgCudaPages *pages);
extern void hjg_lab_pages_free(HjgCudaStream *stream, HjgCudaPages *pages);
extern size_t hjg_lab_pages_bytes(HjgCudaPutting putting, hjg_u64 nblocks, unsigned threads);

#endif							/* HJG_CUDA_PAPER_H */
