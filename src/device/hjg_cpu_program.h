/*
 * hjg_cpu_program.h
 *	  Programs on the processor's threads: declarations that the files device_cpu_program.c, _launch.c, _plan.c, _steps.c, _codes.c,
 *	  _sink.c, _ranks.c and _filter.c share.
 *
 * A thread takes a piece of rows after the other, and of these HJG_CPU_ROWS at a time through one step after the other: the registers of
 * so many rows lie in its cache.  Rows that do not go on are taken out, so that later steps have only the others, side by side.
 */
#ifndef HJG_CPU_PROGRAM_H
#define HJG_CPU_PROGRAM_H

#include "device/hjg_device_program_run.h"
#include "engine/hjg_engine_bloom.h"
#include "kernels/hjg_program_steps.h"

#define HJG_CPU_ROWS 1024

#if defined(__x86_64__)
#define HJG_CPU_WIDE __attribute__((target("avx2,bmi,bmi2,popcnt")))
#endif

/* Rows that are worked on together. */
/* Records of groups, at most, that a thread adds many rows to before it adds them up for the others. */
#define HJG_CPU_BUSY_RECORDS 4

typedef struct HjgCpuRows
{
	hjg_u32		n;
	hjg_u32		nullable;		/* a bit for each register that is NULL in some row; the bits of others mean nothing */
	hjg_u32		segment;		/* number of the segment that they come from */
	hjg_u32		flags;			/* HJG_K_STRING_UNKNOWN: so it was for a row of this launch */
	bool		consecutive;	/* numbers[i] = numbers[0] + i */
	hjg_u32		numbers[HJG_CPU_ROWS];	/* in the segment; of groups slots, or distances of keys */
	hjg_u32		nulls[HJG_CPU_ROWS];	/* a bit for each register */
	union
	{
		hjg_u64    *records[HJG_CPU_ROWS];	/* of the table that is probed or filled, */
		hjg_u8	   *packed[HJG_CPU_ROWS];	/* of ranks */
	};
	hjg_u64		hashes[HJG_CPU_ROWS];
	hjg_u64    *busy[HJG_CPU_BUSY_RECORDS]; /* records of groups that many of the last rows were added to; or NULL, */
	hjg_u32		look_at;		/* and the row whose record is looked at next */
	hjg_u16		chosen[HJG_CPU_ROWS + HJG_BLOOM_ROWS_PAD];	/* places of rows that go on */
	hjg_u32		tested[HJG_PROGRAM_MAX_PIPELINES];	/* rows that the filter of each table has tested in this launch, */
	hjg_u32		passed[HJG_PROGRAM_MAX_PIPELINES];	/* and passed */
	int64_t		regs[HJG_PROGRAM_REGISTERS][HJG_CPU_ROWS];
} HjgCpuRows;

/* A hash table, or groups, of keys that are close together (device_cpu_ranks.c). */
typedef struct HjgCpuRankWord
{
	hjg_u64		bits;			/* of 64 values, which are there */
	hjg_u64		before;			/* bits of the words before it */
} HjgCpuRankWord;

#define HJG_CPU_NULL_BYTES (HJG_PROGRAM_MAX_PAYLOAD / 8)

/* A value in a record: the least one, and the unsigned number in these bytes. */
typedef struct HjgCpuField
{
	int64_t		least;
	hjg_u8		width;			/* 0, 1, 2, 4 or 8 */
	hjg_u8		offset;
} HjgCpuField;

typedef struct HjgCpuRanks
{
	HjgCpuRankWord *words;		/* NULL: the table is another one */
	size_t		words_bytes;
	int64_t		least;			/* value */
	hjg_u64		nvalues;		/* from the least to the greatest one */
	bool		complete;		/* all of them are there: the rank of each is its distance from the least one */
	hjg_u8	   *records;		/* of each value that is there: bits of NULLs, and the payload, or NULL if it has none; of groups, their totals */
	size_t		records_bytes;
	hjg_u32		record_bytes;
	hjg_u32		null_bytes;		/* of the bits of NULLs: HJG_CPU_NULL_BYTES, or 0 where no value is NULL */
	HjgCpuField fields[HJG_PROGRAM_MAX_PAYLOAD];
} HjgCpuRanks;

/* Bounds of the values of a register that a worker has seen, but for NULLs. */
typedef struct HjgCpuBounds
{
	int64_t		least;
	int64_t		greatest;		/* less: there are none */
	bool		has_nulls;
} HjgCpuBounds;

#define HJG_CPU_NO_BOUNDS ((HjgCpuBounds) {.least = INT64_MAX, .greatest = INT64_MIN})

/* Is a value there, told by its distance from the least one? */
static inline __attribute__((always_inline)) bool
hjg_device_is_ranked(const HjgCpuRanks *ranks, hjg_u64 distance)
{
	return distance < ranks->nvalues && (ranks->complete || (ranks->words[distance / 64].bits >> distance % 64 & 1) != 0);
}

/* Count the values before one that is there, told by its distance from the least one. */
static inline __attribute__((always_inline)) hjg_u64
hjg_device_rank(const HjgCpuRanks *ranks, hjg_u64 distance)
{
	const HjgCpuRankWord *word = &ranks->words[distance / 64];

	if (ranks->complete)
		return distance;
	return word->before + (hjg_u64) __builtin_popcountll(word->bits & ((1ull << distance % 64) - 1));
}

/* Facts of a launch about its steps. */
typedef struct HjgCpuPlan
{
	const HjgKPipeline *a;
	bool		passed;			/* rows come once more that have passed all steps */
	const HjgProgramStep *steps;
	const HjgCpuRanks *ranks;	/* of each table, */
	const HjgBloom *filters;	/* and a filter of its hashes */
	const HjgCpuRanks *source;	/* the groups that are read; NULL: they have hashes, or there are none */
	hjg_u32		unset;			/* registers that are read before they are set */
	hjg_u32		live[HJG_PROGRAM_MAX_STEPS];	/* registers that are read after a step, before they are set again */
	bool		dead[HJG_PROGRAM_MAX_STEPS];	/* nothing reads what the step sets */
	hjg_u32		tested[HJG_PROGRAM_MAX_STEPS];	/* steps from this one on that test a column, or 0 */
} HjgCpuPlan;

/* Bits for the rows of a piece. */
#define HJG_CPU_MARK_WORDS (HJG_K_PIECE_ROWS / 64)

/* A thread's memory. */
typedef struct HjgCpuWorker
{
	HjgCpuRows	rows;
	hjg_u64		nnoted;			/* rows that ranks are made of, in this launch, */
	HjgCpuBounds bounds[HJG_PROGRAM_MAX_PAYLOAD];	/* and of their payload */
	hjg_u64    *marks;			/* of the piece's rows, if the launch has marks, */
	hjg_u32		first_row;		/* the first of which is the piece's first row */
	bool		started;		/* its own memory is zeroed, in this launch */
	_Alignas(64) hjg_u64 own[HJG_K_ORDER_BINS];	/* its own table of groups, or its own bins */
} HjgCpuWorker;

/* A program that runs on threads. */
typedef struct HjgCpuRun
{
	HjgMachineRun run;			/* first */
	HjgCpuWorker *workers;
	HjgCpuRanks ranks[HJG_PROGRAM_MAX_PIPELINES];	/* of the tables that are made of them */
	HjgBloom	filters[HJG_PROGRAM_MAX_PIPELINES];	/* of hashes of the others, or without words */
	size_t		used_bytes;
	size_t		peak_bytes;
	hjg_u64		build_ns;
	hjg_u64		probe_ns;
} HjgCpuRun;

/* A sink of the worker's rows in the place of the kernel's; returns flags. */
typedef hjg_u32 (*HjgCpuSink) (void *arg, const HjgKPipeline *a, HjgCpuWorker *worker);

/* Define a sink once more, for wide registers, and choose among both; it must be inline. */
#ifdef HJG_CPU_WIDE
#define HJG_CPU_DEFINE_WIDE(sink) \
	HJG_CPU_WIDE static hjg_u32 sink##_wide(void *arg, const HjgKPipeline *a, HjgCpuWorker *worker) { return sink(arg, a, worker); }
#define HJG_CPU_SINK(sink) (__builtin_cpu_supports("avx2") ? sink##_wide : sink)
#else
#define HJG_CPU_DEFINE_WIDE(sink)
#define HJG_CPU_SINK(sink) (sink)
#endif

/* A kernel that runs on pieces of rows. */
typedef struct HjgCpuLaunch
{
	HjgCpuRun  *run;
	HjgProgramKernel kernel;
	const HjgKPipeline *a;
	const HjgKResult *result;	/* of kernels that have one, or NULL */
	HjgCpuSink	sink;			/* or NULL */
	void	   *sink_arg;
	hjg_u64    *marks;			/* HJG_CPU_MARK_WORDS words of bits for each piece; or NULL */
	bool		marked_only;	/* only the rows that have one are run */
	const HjgKPiece *pieces;
	hjg_u32		npieces;
	HjgCpuPlan	plan;			/* out */
	bool		cancelled;		/* out; atomic */
} HjgCpuLaunch;

/* Bits of n registers. */
static inline hjg_u32
hjg_device_register_range(hjg_u32 first, hjg_u32 n)
{
	return (hjg_u32) (((1ull << n) - 1) << first);
}

/* Find the totals of a key that is there, in groups, told by its distance from the least one; behind all others is NULL. */
static inline __attribute__((always_inline)) hjg_u64 *
hjg_device_totals(const HjgCpuRanks *ranks, hjg_u64 distance)
{
	return (hjg_u64 *) (void *) (ranks->records + hjg_device_rank(ranks, distance) * ranks->record_bytes);
}

/* Find a group that a pipeline reads, told by its slot, or its key's distance; *key is memory for its key. */
static inline __attribute__((always_inline)) HjgProgramGroup
hjg_device_group(const HjgCpuPlan *plan, hjg_u32 number, hjg_u64 *key)
{
	const HjgKRecords *table = &plan->a->source;
	const HjgCpuRanks *ranks = plan->source;

	if (ranks == NULL)
		return hjg_program_group(table, hjg_program_record(table, number));
	*key = number < ranks->nvalues ? (hjg_u64) ranks->least + number : 0;
	return (HjgProgramGroup) {.keys = key, .values = hjg_device_totals(ranks, number), .nulls = number == ranks->nvalues};
}

/* Rows of one place, for functions that work row by row (kernels/hjg_program_records.h). */
static inline HjgProgramRow
hjg_device_row(HjgCpuRows *rows, hjg_u32 i)
{
	return (HjgProgramRow) {
		.regs = &rows->regs[0][i], .stride = HJG_CPU_ROWS, .nulls = rows->nulls[i] & rows->nullable, .segment = rows->segment
	};
}

/* Compute the hash of each row's key, in these registers; nulls: a NULL is a key, too. */
static inline __attribute__((always_inline)) void
hjg_device_hash_keys(HjgCpuRows *rows, const hjg_u8 *keys, hjg_u32 nkeys, bool nulls)
{
	for (hjg_u32 i = 0; i < rows->n; i++)
		rows->hashes[i] = 0;
	for (hjg_u32 k = 0; k < nkeys && nulls && rows->nullable != 0; k++)
		for (hjg_u32 i = 0; i < rows->n; i++)
			rows->hashes[i] |= (hjg_u64) ((rows->nulls[i] & rows->nullable) >> keys[k] & 1) << k;
	for (hjg_u32 k = 0; k < nkeys; k++)
	{
		const int64_t *key = rows->regs[keys[k]];

		for (hjg_u32 i = 0; i < rows->n; i++)
			rows->hashes[i] = hjg_program_hash_next(rows->hashes[i], (hjg_u64) key[i], k);
	}
}

/* ---- device_cpu_plan.c ---- */

/*
 * Plan the steps of a pipeline or a result, with the run's ranks and filters; wanted: a bit for each register that is read behind them; passed: of
 * rows that have passed all of them before.
 */
extern void hjg_device_plan_steps(HjgCpuPlan *plan, const HjgKPipeline *a, const HjgCpuRanks *ranks, const HjgBloom *filters, hjg_u32 wanted,
								  bool passed);
/* Find the registers that a step sets: a bit for each. */
extern hjg_u32 hjg_device_registers_set(const HjgKPipeline *a, const HjgProgramStep *step);
/* Can a table of about so many rows, or groups, be made by ranks, with less memory than by hashes? */
extern bool hjg_device_may_rank(const HjgCpuRun *run, const HjgTableFill *fill, hjg_u64 nrows);

/* ---- device_cpu_codes.c ---- */

/*
 * Choose the rows whose value of a column is in a step's range, or, of words, whose numbers are not 0; returns how many.  The column has
 * codes of 1, 2 or 4 bytes, and no NULL.
 */
extern hjg_u32 hjg_device_choose_codes(const HjgKColumn *column, const HjgProgramStep *step, HjgCpuRows *rows);

/* ---- device_cpu_steps.c ---- */

/* Apply the steps to rows whose numbers are set; columns: of their segment. */
extern void hjg_device_run_steps(const HjgCpuPlan *plan, const HjgKColumn *columns, HjgCpuRows *rows);

/* ---- device_cpu_ranks.c ---- */

/* Make a hash table of the pieces' rows, about so many, or groups; nothing of it is left if there are flags. */
extern HjgStatus hjg_device_make_ranks(HjgCpuRun *run, HjgCpuRanks *ranks, HjgTableFill *fill, hjg_u64 nrows, hjg_u32 *flags);
extern void hjg_device_free_ranks(HjgCpuRun *run, HjgCpuRanks *ranks);
/* Most bytes of bits that a worker has of its own, while a table is made. */
extern size_t hjg_device_own_bits_bytes;

/* ---- device_cpu_filter.c ---- */

/* Bytes of the smallest table that has one. */
extern size_t hjg_device_filtered_bytes;
/* Make filters of the tables that a pipeline looks up, where that may save time and there is memory. */
extern HjgStatus hjg_device_make_filters(HjgCpuRun *run, const HjgKPipeline *a);
extern void hjg_device_free_filters(HjgCpuRun *run);

/* ---- device_cpu_launch.c ---- */

/* Run a kernel. */
extern HjgStatus hjg_device_launch(HjgCpuLaunch *launch);

/* ---- device_cpu_sink.c ---- */

/* A bit for each register that a pipeline's sink reads. */
extern hjg_u32 hjg_device_sink_registers(const HjgKPipeline *a);
/* Enter rows into the hash table that the pipeline fills; returns flags. */
extern hjg_u32 hjg_device_fill_rows(const HjgKPipeline *a, HjgCpuRows *rows);
/* Add rows to groups whose totals are known, in the place of records, and which other threads add to, too. */
extern void hjg_device_add_rows(const HjgKPipeline *a, HjgCpuRows *rows);
/* Add rows to their groups, in the worker's own table where they find room there; returns flags. */
extern hjg_u32 hjg_device_group_rows(const HjgKPipeline *a, const HjgKRecords *near, HjgCpuRows *rows);
/* Count rows, which are groups, by the next digit of their numbers, in the worker's own bins. */
extern void hjg_device_count_groups(const HjgKResult *a, hjg_u64 *bins, HjgCpuRows *rows);
/* List those that are wanted. */
extern void hjg_device_list_groups(const HjgKResult *a, const HjgCpuPlan *plan, HjgCpuRows *rows);

#endif							/* HJG_CPU_PROGRAM_H */
