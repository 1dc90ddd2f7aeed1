/*
 * hjg_engine_work.h
 *	  The memory, rows and tasks of a join: the cpu engine's and the coupled engine's, whose joins begin with an
 *	  HjgJoin.
 *
 * Terms (tuple and bucket: hjg_tuple.h, hjg_table.h)
 *	  slot		one concurrent worker of a task; scratch memory is kept per slot. A task
 *				runs on at most as many slots as the pool has threads.
 *	  unit		the work that a slot takes at a time, from one atomic counter a task.
 */
#ifndef HJG_ENGINE_WORK_H
#define HJG_ENGINE_WORK_H

#include "engine/hjg_engine.h"
#include "engine/hjg_table.h"

/* Most slots of a task. */
#define HJG_MAX_SLOTS 128

/* Rows between two calls of poll(); at most 100 ns each, cache misses included. */
#define HJG_POLL_ROWS 4096

/* Instruction sets that kernels are compiled for; the machine's best is used. */
typedef enum HjgIsa
{
	HJG_ISA_BASE = 0,
	HJG_ISA_AVX2,
	HJG_ISA_AVX512
} HjgIsa;

/* A block from env->alloc. */
typedef struct HjgBlock
{
	void	   *ptr;
	size_t		bytes;
} HjgBlock;

/* The segments as runs: ascending, with prefix sums of their rows. */
typedef struct HjgKeyRun
{
	const hjg_u8 *keys;
	hjg_u64		begin;			/* rows before this one */
	hjg_u32		nrows;
	hjg_u32		first_row;
} HjgKeyRun;

typedef struct HjgRuns
{
	HjgKeyRun	   *runs;
	int			nruns;
	hjg_u64		nrows;
	bool		packed;			/* keys are packed batches; nrows is their length unpacked */
} HjgRuns;

struct HjgJoin
{
	HjgEnv		env;
	HjgJoinSpec spec;
	HjgIsa		isa;
	int			width_ix;		/* 0, 1, 2 for 4, 8, 16 bytes */
	HjgTable	table;
	HjgJobStats stats;
	size_t		live_bytes;

	/* the table's memory; 0 bytes when it comes from env->alloc_table() or belongs to another join */
	HjgBlock	lines_block;
	HjgBlock	tuples_block;

	/* scratch, kept between calls and grown on demand */
	HjgBlock	runs_block;
	HjgBlock	partition_block;	/* tuples in partition order */
	HjgBlock	histogram_block;
	HjgBlock	slots_block;	/* scratch of a task's slots */
	HjgBlock	counts_block;	/* of the ordered path */

	/* statistics of earlier rounds about matches a row; see engine_join.c */
	double		seen_rows;
	double		seen_pairs;
	int			overflow_penalty;
	int			ordered_rounds;
};

/*
 * A task: units that the slots take one by one.  finish (may be NULL) is called once for each slot when no
 * unit is left, but not after a stop.
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

/* True when the slot must return at once.  May leave by a long jump. */
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

/* --- engine_task.c --- */

/* Reserve memory; a block that is too small is freed and replaced, and its contents are lost. */
extern bool hjg_block_reserve(HjgJoin *join, HjgBlock *block, size_t bytes);
extern void hjg_block_free(HjgJoin *join, HjgBlock *block);

static inline size_t
hjg_align64(size_t bytes)
{
	return (bytes + 63) & ~(size_t) 63;
}

/* --- engine_runs.c: walking over rows --- */

typedef struct HjgKeyScan
{
	const HjgKeyRun *run;
	hjg_u64		pos;
	hjg_u64		end;
} HjgKeyScan;

extern HjgStatus hjg_runs_set(HjgJoin *join, HjgRuns *runs, const HjgSegment *segments, int nsegments,
							  bool contiguous);
extern void hjg_engine_scan_begin(HjgKeyScan *scan, const HjgRuns *runs, hjg_u64 begin, hjg_u64 end);

/* Get the next contiguous rows, at most max; returns their number, 0 at the end. */
HJG_ALWAYS_INLINE hjg_u32
hjg_engine_scan_next(HjgKeyScan *scan, int width, hjg_u32 max, const hjg_u8 **keys, hjg_u32 *first_row)
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

#endif							/* HJG_ENGINE_WORK_H */
