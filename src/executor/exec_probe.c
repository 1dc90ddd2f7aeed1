/*
 * exec_probe.c
 *	  Filling probe batches and having them joined.
 */
#include "postgres.h"

#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "executor/hjg_node.h"

/*
 * Rows of the first batch and of the largest.  Batches start small so that the first
 * row comes early, and grow, because every batch costs a round through the device
 * process.  Of the largest, pairs of one match a row fill a slab; twice as many rows were
 * no faster (20M x 5M rows) and took half as much again of the arena.
 */
#define FIRST_BATCH_ROWS 2048
#define LAST_BATCH_ROWS ((int) (HJG_SLAB_BYTES / sizeof(HjgPair)))
#define BATCH_GROWTH 4

/* The backend's own engine gains nothing from more rows, unless it is to partition them. */
#define LAST_EMBEDDED_BATCH_ROWS 8192

/*
 * Participants of a shared load come to its end together, and there one with rows left in a batch keeps
 * all others waiting.  Where a GPU joins, whose rounds cost next to nothing, their batches are at most such a
 * part of what each is to read, or so many rows.  Rounds of an engine on the processors take them from
 * the participants: few large ones are the better there (leader and 15 workers on 16 cores, 20M x 5M rows,
 * batches of 83K rows rather than 512K: 70 ms rather than 82 with a GPU, 176 rather than 135 with the cpu engine).
 */
#define SHARED_BATCHES 16
#define SHARED_BATCH_ROWS (64 * 1024)

/*
 * The batches of several participants are much memory beside a small build side: they have a part of its
 * rows, from half of the largest batch up.
 */
#define BUILD_BATCHES 8

/* However little memory there is, a batch has so many rows, unless they take so many times what it may take. */
#define MIN_BATCH_ROWS 256
#define MOST_OVERDRAFT 8

/* ---------- filling ---------- */

static HjgProbeBatch *
empty_batch(HjgJoinState *state)
{
	HjgProbeBatch *batch;

	if (state->nspare > 0)
		return state->spare[--state->nspare];
	batch = hjg_run_batch_create(state->build.run);
	batch->rows = hjg_store_create(state->build.run->context, state->outer.ncarried, state->outer.columns,
								   hjg_side_chunk_rows(&state->outer, state->outer.plan->plan->plan_rows));
	return batch;
}

/*
 * Are the rows probed where they lie, instead of being collected?  Without a job: the backend's own
 * engine gains nothing from batches larger than a vector.  And for a small build side: the device process takes
 * longer than it saves.
 */
static bool
in_place(const HjgJoinState *state)
{
	const HjgRun *run = state->build.run;

	return state->partitions.current == NULL && hjg_side_has_vectors(&state->outer) &&
		(run->job == NULL || run->job_lost || (int64) run->build.nrows < hjg_embedded_rows);
}

/* The filter's verdict on the rows of a view. */
static void
filter_view(HjgJoinState *state, HjgView *view)
{
	uint16		rows[HJG_MAX_VECTOR_ROWS + HJG_BLOOM_ROWS_PAD];
	int			n = hjg_probe_filter_rows(&state->filter, view->keys, view->nrows, rows);

	if (n < view->nrows)
		hjg_side_narrow_view(&state->outer, view, rows, n);
}

/* The next rows of the outer side that may come to something, or none at its end. */
static void
fill_view(HjgJoinState *state, HjgProbeBatch *batch)
{
	HjgView    *view = &batch->view;

	batch->viewed = true;
	do
	{
		CHECK_FOR_INTERRUPTS();
		if (!hjg_side_next_view(&state->outer, view))
		{
			view->nrows = view->nnull_rows = 0;
			state->probe_done = true;
		}
		else if (state->filter.open && view->nrows > 0)
			filter_view(state, view);
		if (!state->outer.preserved)
			view->nnull_rows = 0;
	} while (view->nrows + view->nnull_rows == 0 && !state->probe_done);
	hjg_run_batch_borrow(state->build.run, batch, batch->view.keys, batch->view.nrows);
}

static bool
next_probe_row(HjgJoinState *state, HjgRow *row)
{
	if (state->partitions.current != NULL)
		return hjg_side_next_spilled(&state->outer, state->partitions.current->probe, row);
	return hjg_side_next(&state->outer, row);
}

static void
keep_null_probe(HjgJoinState *state, HjgProbeBatch *batch, const HjgRow *row)
{
	if (!state->outer.preserved)
		return;
	if (batch->null_rows == NULL)
		batch->null_rows = hjg_store_create(state->build.run->context, state->outer.ncarried,
											state->outer.columns, 1);
	hjg_store_append(batch->null_rows, row->source, row->values, row->isnull);
}

/* Of keys their own bytes count, not the slab that they begin to fill. */
static size_t
batch_bytes(const HjgRun *run, const HjgProbeBatch *batch)
{
	return hjg_store_bytes(batch->rows) + (size_t) batch->keys.nrows * run->key_width +
		(batch->null_rows != NULL ? hjg_store_bytes(batch->null_rows) : 0);
}

/* After so many rows, is it time to join them? */
static inline bool
batch_is_full(const HjgRun *run, const HjgProbeBatch *batch, uint32 nread, size_t max_bytes)
{
	return batch_bytes(run, batch) > (nread >= MIN_BATCH_ROWS ? max_bytes : max_bytes * MOST_OVERDRAFT);
}

/* Add those of n rows of the outer side's vectors that pass the filter. */
static void
add_filtered_vectors(HjgJoinState *state, HjgProbeBatch *batch, const char *keys, int first, int n)
{
	int			width = state->build.run->key_width;
	uint16		rows[HJG_MAX_VECTOR_ROWS + HJG_BLOOM_ROWS_PAD];
	char		passing[HJG_MAX_VECTOR_ROWS * HJG_MAX_KEY_BYTES];

	n = hjg_probe_filter_rows(&state->filter, keys, n, rows);
	for (int i = 0; i < n; i++)
	{
		memcpy(passing + i * width, keys + rows[i] * width, width);
		rows[i] += first;
	}
	hjg_run_batch_keys(state->build.run, batch, passing, n);
	hjg_store_append_selected(batch->rows, state->outer.child_ix, state->outer.vectors, rows, n);
}

/* Add the rows that the child has at once; 0 if it has to be asked for a single one. */
static int
add_probe_vectors(HjgJoinState *state, HjgProbeBatch *batch, uint32 max)
{
	const char *keys;
	int			first;
	int			n;

	if (state->partitions.current != NULL)
		return 0;
	n = hjg_side_next_vectors(&state->outer, Min(max, HJG_MAX_VECTOR_ROWS), &keys, &first);
	if (n > 0 && state->filter.open)
		add_filtered_vectors(state, batch, keys, first, n);
	else if (n > 0)
	{
		hjg_run_batch_keys(state->build.run, batch, keys, n);
		hjg_store_append_vectors(batch->rows, state->outer.child_ix, state->outer.vectors, first, n);
	}
	return n;
}

static uint32
largest_batch(const HjgJoinState *state)
{
	const HjgRun *run = state->build.run;
	double		part = state->outer.plan->plan->plan_rows / SHARED_BATCHES;

	if ((run->job == NULL || run->job_lost) && hjg_strategy != HJG_STRATEGY_RADIX)
		return LAST_EMBEDDED_BATCH_ROWS;
	if (run->share == NULL)
		return LAST_BATCH_ROWS;
	if (!hjg_run_on_gpu(run))
		return Max(Min(run->build.nrows / BUILD_BATCHES, LAST_BATCH_ROWS), LAST_BATCH_ROWS / 2);
	return (uint32) Min(Max(part, SHARED_BATCH_ROWS), LAST_BATCH_ROWS);
}

static void
collect_rows(HjgJoinState *state, HjgProbeBatch *batch)
{
	HjgRun	   *run = state->build.run;
	size_t		max_bytes = get_hash_memory_limit() / 8;
	uint32		nread = 0;
	HjgRow		row;

	state->batch_rows = state->batch_rows == 0 ? FIRST_BATCH_ROWS :
		Min(state->batch_rows * BATCH_GROWTH, largest_batch(state));
	hjg_run_consider_job(run, state->probe_row);

	batch->viewed = false;
	while (nread < state->batch_rows)
	{
		int			n = add_probe_vectors(state, batch, state->batch_rows - nread);

		if (n > 0)
		{
			nread += n;
			if (batch_is_full(run, batch, nread, max_bytes))
				break;
			continue;
		}
		if (!next_probe_row(state, &row))
		{
			state->probe_done = true;
			break;
		}
		nread++;
		if (row.key == NULL)
			keep_null_probe(state, batch, &row);
		else if (!state->filter.open || state->partitions.current != NULL || hjg_probe_filter_row(&state->filter, row.key))
		{
			memcpy(hjg_run_batch_key(run, batch), row.key, run->key_width);
			hjg_store_append(batch->rows, row.source, row.values, row.isnull);
		}
		if (nread % 64 == 0)
			CHECK_FOR_INTERRUPTS();
		if (batch_is_full(run, batch, nread, max_bytes))
			break;
	}
}

/* Read probe rows into a batch; it may end up empty. */
static HjgProbeBatch *
fill_batch(HjgJoinState *state)
{
	HjgRun	   *run = state->build.run;
	HjgProbeBatch *batch = empty_batch(state);
	bool		timing = state->execution.timing;
	uint64		start = timing ? hjg_now_ns() : 0;

	batch->first_row = state->probe_row;
	if (in_place(state))
		fill_view(state, batch);
	else
		collect_rows(state, batch);
	state->probe_row += batch->keys.nrows;
	state->report.probe_rows += batch->keys.nrows;

	/* chunk_matched has the bits when a partition is joined in chunks */
	if (state->match.on_host && state->match.probe_bits == NULL)
	{
		if (batch->matched != NULL)
			pfree(batch->matched);
		batch->matched = MemoryContextAllocZero(run->context,
												((Size) batch->keys.nrows / 64 + 1) * sizeof(uint64));
	}
	if (timing)
		state->report.times.marshal_probe_ns += hjg_now_ns() - start;
	return batch;
}

/*
 * Keep the device process busy: fill and submit as many batches as may be under
 * way.  The backend's own engine joins one at a time, and a side has one view at a time.
 */
static void
fill_pipeline(HjgJoinState *state)
{
	HjgRun	   *run = state->build.run;
	const bool	in_view = state->nbatches > 0 && state->batches[0]->viewed; /* settings may have changed since */
	const bool	job = run->job != NULL && !run->job_lost && !in_view && !in_place(state);

	while (!state->probe_done && state->nbatches < (job ? hjg_run_max_batches(run) : 1))
	{
		HjgProbeBatch *batch = fill_batch(state);

		state->batches[state->nbatches++] = batch;
		batch->nrows = batch->keys.nrows;
		hjg_slice_first(state, batch);
		hjg_run_batch_submit(run, batch);
	}
}

/* The oldest batch is done with. */
static void
retire_batch(HjgJoinState *state)
{
	HjgProbeBatch *batch = state->batches[0];

	hjg_run_batch_reset(state->build.run, batch);
	hjg_store_reset(batch->rows);
	if (batch->null_rows != NULL)
		hjg_store_reset(batch->null_rows);
	state->nbatches--;
	memmove(&state->batches[0], &state->batches[1], state->nbatches * sizeof(state->batches[0]));
	state->spare[state->nspare++] = batch;
	state->pair_next = 0;
	state->tail_next = 0;
	state->null_next = 0;
}

void
hjg_probe_open(HjgJoinState *state)
{
	state->probe_done = false;
	state->probe_row = 0;
	state->batch_rows = 0;
	state->pair_next = 0;
	state->tail_next = 0;
	state->null_next = 0;
}

void
hjg_probe_rescan(HjgJoinState *state)
{
	while (state->nbatches > 0)
		retire_batch(state);
	state->vector_n = state->vector_next = 0;
	hjg_probe_open(state);
}

void
hjg_probe_close(HjgJoinState *state)
{
	state->nbatches = state->nspare = 0;
	state->vector_n = state->vector_next = 0;
}

void
hjg_probe_give_up(HjgJoinState *state)
{
	hjg_run_give_up(state->build.run, state->batches, state->nbatches);
}

/* ---------- joining ---------- */

/* Rows of the oldest batch, or of the next one with any, become the vector; false at the end. */
bool
hjg_probe_next(HjgJoinState *state)
{
	/* nothing can come of the probe side then; do not even read it */
	if (state->build.run->build.nrows == 0 && !state->outer.preserved)
		return false;

	for (;;)
	{
		HjgProbeBatch *batch;

		fill_pipeline(state);
		if (state->nbatches == 0)
			return false;
		batch = state->batches[0];
		hjg_emit_prepare(state);

		if (hjg_emit_pairs(state, batch))
			return true;
		if (state->match.first_match && hjg_slice_next(state, batch))
			continue;
		if (!batch->finished)
		{
			hjg_run_batch_round(state->build.run, batch, hjg_emit_counts_only(state), !state->match.first_match);
			state->pair_next = 0;
			continue;
		}
		if (state->match.on_host && state->outer.preserved && state->match.last_pass &&
			hjg_emit_unmatched_probe(state, batch))
			return true;
		if (hjg_emit_null_keys(state, batch))
			return true;
		retire_batch(state);
	}
}
