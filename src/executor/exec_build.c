/*
 * exec_build.c
 *	  Loads: reading the build side into memory, all of it, a partition of it,
 *	  or a chunk of a partition.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "executor/hjg_executor.h"

/* However little memory there is, a load has so many rows, unless they take so many times as much. */
#define MIN_LOAD_ROWS 64
#define MOST_OVERDRAFT 8

/* Partitioning stops at this level; what does not fit then is joined in chunks. */
#define MAX_PARTITION_LEVEL 5

/* Rows between two looks at the memory used, when they come one by one. */
#define CHECK_ROWS 16

size_t
hjg_stored_bytes(const HjgSide *side)
{
	size_t		bytes = 1;

	for (int c = 0; c < side->ncarried; c++)
		bytes += 1 + (side->columns[c].attlen > 0 ? side->columns[c].attlen :
					  Max((int) sizeof(char *), side->columns[c].inline_bytes));
	return bytes;
}

double
hjg_chunk_rows(const HjgSide *side, double rows)
{
	double		most = get_hash_memory_limit() / 32 / hjg_stored_bytes(side);

	return Max(Min(rows, most), 1);
}

void
hjg_load_start(HjgJoinState *state, double expected_rows, HjgParallel *share)
{
	EState	   *estate = state->css.ss.ps.state;

	state->load_context = AllocSetContextCreate(estate->es_query_cxt, "GpuHashJoin load",
												ALLOCSET_DEFAULT_SIZES);
	state->run = hjg_run_create(state->load_context, state->inner.codec->key_width, &state->report,
								hjg_exec_timing(state));
	state->run->hints = state->hints;
	state->run->share = share;
	state->run->holder = state;
	state->run->query = estate;
	if (share != NULL)
		hjg_parallel_open_load(share, state);
	else
		state->build_rows = hjg_store_create(state->load_context, state->inner.ncarried, state->inner.columns,
											 hjg_chunk_rows(&state->inner, expected_rows));
	state->run->build_rows = state->build_rows;
	state->probe_done = false;
	state->probe_row = 0;
	state->batch_rows = 0;
	state->pair_next = 0;
	state->tail_next = 0;
	state->null_next = 0;
	state->unmatched_next = 0;
	state->unmatched_end = 0;
	state->vector_n = state->vector_next = 0;
}

void
hjg_load_free(HjgJoinState *state)
{
	if (state->run != NULL)
		hjg_run_free(state->run);
	state->run = NULL;
	state->build_rows = NULL;	/* its memory goes with the context, or is shared */
	state->build_matched = NULL;
	/* that of rows on their way to partitions stays */
	if (state->partition_context == NULL)
		hjg_probe_filter_forget(state);
	state->nbatches = state->nspare = 0;
	state->vector_n = state->vector_next = 0;
	if (state->load_context != NULL)
		MemoryContextDelete(state->load_context);
	state->load_context = NULL;
}

static inline void
add_build_row(HjgJoinState *state, const HjgRow *row)
{
	memcpy(hjg_run_build_key(state->run), row->key, state->run->key_width);
	hjg_store_append(state->build_rows, row->source, row->values, row->isnull);
}

/* Memory of the load; what its engine will allocate is counted in advance. */
static size_t
load_bytes(const HjgJoinState *state)
{
	return hjg_store_bytes(state->build_rows) + hjg_run_bytes(state->run);
}

static bool
load_is_full(const HjgJoinState *state)
{
	uint32		nrows = state->run->build.nrows;

	if (nrows < MIN_LOAD_ROWS && load_bytes(state) / MOST_OVERDRAFT <= get_hash_memory_limit())
		return false;
	if (state->run->share != NULL)
		return hjg_parallel_is_full(state->run->share, load_bytes(state));
	return load_bytes(state) > get_hash_memory_limit() || nrows >= HJG_MAX_BUILD_ROWS - HJG_MAX_VECTOR_ROWS;
}

/* Does the load still fit after the row added last?  Looks only now and then. */
static inline bool
is_full_now(const HjgJoinState *state)
{
	return state->run->build.nrows % CHECK_ROWS == 0 && load_is_full(state);
}

/* Add the rows that the child has at once; false if it has to be asked for a single one. */
static bool
add_build_vectors(HjgJoinState *state)
{
	const char *keys;
	int			first;
	int			n = hjg_side_next_vectors(state, &state->inner, HJG_MAX_VECTOR_ROWS, &keys, &first);

	if (n == 0)
		return false;
	while (n > 0)
	{
		/* in a shared load row numbers jump where a segment ends */
		int			part = (int) Min((uint32) n, hjg_run_build_room(state->run));

		hjg_run_build_keys(state->run, keys, part);
		hjg_store_append_vectors(state->build_rows, state->inner.child_ix, state->inner.vectors, first, part);
		keys += (size_t) part * state->run->key_width;
		first += part;
		n -= part;
	}
	return true;
}

HjgMatchMode
hjg_load_mode(HjgJoinState *state)
{
	const bool	candidates = state->recheck != NULL || state->residual;
	HjgMatchMode mode = HJG_MATCH_ALL;

	state->decisive = (candidates || state->chunk_matched != NULL) &&
		(state->jointype == JOIN_SEMI || state->jointype == JOIN_ANTI || state->inner_unique);
	state->host_fate = state->decisive || ((candidates || state->chunk_matched != NULL) && state->outer.preserved);
	if (!state->host_fate)
	{
		switch (state->jointype)
		{
			case JOIN_LEFT:
			case JOIN_FULL:
				mode = HJG_MATCH_LEFT;
				break;
			case JOIN_SEMI:
				mode = HJG_MATCH_SEMI;
				break;
			case JOIN_ANTI:
				mode = HJG_MATCH_ANTI;
				break;
			default:
				mode = state->inner_unique && !candidates ? HJG_MATCH_SEMI : HJG_MATCH_ALL;
		}
	}
	return mode;
}

/* The build side of the load is complete: decide who decides fates, and build. */
static void
finish_load(HjgJoinState *state)
{
	HjgRun	   *run = state->run;
	HjgMatchMode mode = hjg_load_mode(state);

	if (state->track_build)
		state->build_matched = MemoryContextAllocExtended(state->load_context,
														  ((Size) run->build.nrows / 64 + 1) * sizeof(uint64),
														  MCXT_ALLOC_ZERO | MCXT_ALLOC_HUGE);
	hjg_run_build_done(run, mode);
	if (state->partition_context == NULL)
		hjg_probe_filter_load(state);
	state->report.build_rows += run->build.nrows;
	state->report.peak_bytes = Max(state->report.peak_bytes, load_bytes(state) + state->report.filter_bytes);
}

/* A build row with a NULL key is emitted at the very end, if at all. */
static void
keep_null_build(HjgJoinState *state, const HjgRow *row)
{
	HjgSide    *side = &state->inner;
	const Datum *values;
	const bool *isnull;
	MemoryContext old;

	if (!side->preserved)
		return;
	if (state->null_build == NULL)
	{
		old = MemoryContextSwitchTo(state->css.ss.ps.state->es_query_cxt);
		state->null_build = tuplestore_begin_heap(false, false, work_mem);
		MemoryContextSwitchTo(old);
	}
	hjg_side_carried(side, row, &values, &isnull);
	tuplestore_putvalues(state->null_build, side->spill_desc, unconstify(Datum *, values),
						 unconstify(bool *, isnull));
}

bool
hjg_build_read(HjgJoinState *state)
{
	HjgSide    *side = &state->inner;
	double		plan_rows = side->plan->plan->plan_rows;
	bool		timing = hjg_exec_timing(state);
	bool		partitioned = false;
	uint64		start = timing ? hjg_now_ns() : 0;
	HjgRow		row;

	hjg_load_start(state, plan_rows, state->parallel);
	for (;;)
	{
		bool		full;

		if (!partitioned && add_build_vectors(state))
			full = load_is_full(state);
		else if (!hjg_side_next(state, side, &row))
			break;
		else if (row.key == NULL)
		{
			keep_null_build(state, &row);
			continue;
		}
		else if (partitioned)
		{
			hjg_partition_add_build(state, &row);
			continue;
		}
		else
		{
			add_build_row(state, &row);
			full = is_full_now(state);
		}
		if (full)
		{
			size_t		bytes = load_bytes(state);

			state->report.peak_bytes = Max(state->report.peak_bytes, bytes);
			hjg_partition_start(state, plan_rows, bytes);
			partitioned = true;
		}
	}
	if (!partitioned)
		state->report.peak_bytes = Max(state->report.peak_bytes, load_bytes(state));
	if (timing)
		state->report.times.marshal_build_ns += hjg_now_ns() - start;
	return partitioned;
}

/*
 * Does nothing come of the join because its probe side has no row?  As core's hash join, look
 * only where a first row is cheaper than the build side, all of which may be in vain.
 */
static bool
probe_side_is_empty(HjgJoinState *state)
{
	bool		timing = hjg_exec_timing(state);
	uint64		start = timing ? hjg_now_ns() : 0;
	bool		empty;

	if (state->inner.preserved ||
		state->outer.plan->plan->startup_cost >= state->inner.plan->plan->total_cost)
		return false;
	empty = !hjg_side_peek(&state->outer);
	if (timing)
		state->report.times.marshal_probe_ns += hjg_now_ns() - start;
	return empty;
}

void
hjg_build_first(HjgJoinState *state)
{
	if (probe_side_is_empty(state))
		state->phase = HJG_PHASE_DONE;
	else if (hjg_build_read(state))
	{
		/* without build rows to match, nothing comes of the probe side */
		hjg_partition_probe_side(state);
		state->phase = HJG_PHASE_NEXT_LOAD;
	}
	else
	{
		state->last_chunk = true;
		finish_load(state);
		state->phase = HJG_PHASE_PROBE;
	}
}

/* Can a partition contribute anything to the result? */
static bool
partition_matters(const HjgJoinState *state, const HjgPartition *partition)
{
	uint64		nbuild = hjg_spill_nrows(partition->build);
	uint64		nprobe = hjg_spill_nrows(partition->probe);

	return (nbuild > 0 && nprobe > 0) || (nprobe > 0 && state->outer.preserved) ||
		(nbuild > 0 && state->inner.preserved);
}

/*
 * Read build rows of the current partition until memory is full or the file
 * ends.  Returns false if rows are left.
 */
static bool
read_chunk(HjgJoinState *state)
{
	HjgSpill   *spill = state->current->build;
	bool		timing = hjg_exec_timing(state);
	bool		complete = true;
	uint64		start = timing ? hjg_now_ns() : 0;
	HjgRow		row;

	hjg_load_start(state, hjg_spill_nrows(spill), NULL);
	while (hjg_side_next_spilled(&state->inner, spill, &row))
	{
		add_build_row(state, &row);
		if ((state->run->build.nrows & 1023) == 0)
			CHECK_FOR_INTERRUPTS();
		if (is_full_now(state) && !hjg_spill_at_end(spill))
		{
			complete = false;
			break;
		}
	}
	if (timing)
		state->report.times.marshal_build_ns += hjg_now_ns() - start;
	return complete;
}

/* Bits for all probe rows of the current partition, which is joined in chunks. */
static void
start_chunks(HjgJoinState *state)
{
	if (state->outer.preserved || state->jointype == JOIN_SEMI)
		state->chunk_matched = MemoryContextAllocExtended(state->partition_context,
														  (hjg_spill_nrows(state->current->probe) / 64 + 1) *
														  sizeof(uint64),
														  MCXT_ALLOC_ZERO | MCXT_ALLOC_HUGE);
}

static void
finish_partition(HjgJoinState *state)
{
	hjg_partition_free(state->current);
	state->current = NULL;
	if (state->chunk_matched != NULL)
		pfree(state->chunk_matched);
	state->chunk_matched = NULL;
}

bool
hjg_load_next(HjgJoinState *state)
{
	if (state->partition_context == NULL)
		return false;			/* the only load stays for a rescan */
	hjg_load_free(state);

	if (state->current != NULL && !state->last_chunk)
	{
		state->last_chunk = read_chunk(state);
		hjg_spill_rewind(state->current->probe);
		finish_load(state);
		return true;
	}

	for (;;)
	{
		size_t		bytes;

		if (state->current != NULL)
			finish_partition(state);
		if (state->partitions == NIL && !hjg_parallel_claim(state))
			return false;
		state->current = llast(state->partitions);
		state->partitions = list_delete_last(state->partitions);
		if (!partition_matters(state, state->current))
			continue;

		hjg_spill_rewind(state->current->build);
		hjg_spill_rewind(state->current->probe);
		state->last_chunk = read_chunk(state);
		if (!state->last_chunk)
		{
			if (!state->current->indivisible && state->current->level < MAX_PARTITION_LEVEL)
			{
				bytes = load_bytes(state);
				bytes *= (double) hjg_spill_nrows(state->current->build) / state->run->build.nrows;
				hjg_load_free(state);
				hjg_partition_split(state, state->current, bytes);
				state->current = NULL;
				continue;
			}
			start_chunks(state);
		}
		finish_load(state);
		return true;
	}
}
