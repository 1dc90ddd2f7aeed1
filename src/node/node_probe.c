/*
 * node_probe.c
 *	  Fills probe batches and returns the rows of their join.
 */
#include "postgres.h"

#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "node/hjg_probe.h"

/*
 * Rows of the first and the largest batch. Batches start small, so that the first row comes early, and grow, because each
 * costs a round through the device process. The pairs of a largest batch, one for each row, fill a slab; twice as many rows
 * were no faster (20M x 5M rows) and took half as much again of the arena.
 */
#define FIRST_BATCH_ROWS 2048
#define LAST_BATCH_ROWS ((int) HJG_LARGEST_BATCH_ROWS)
#define BATCH_GROWTH 4

/* The backend's own engine gains nothing from larger batches. */
#define LAST_IN_BACKEND_BATCH_ROWS 8192

/*
 * Participants of a shared build side reach its end together, and a participant with rows left in a batch then delays all
 * others. With a GPU, whose rounds are cheap, a batch has at most this part of the rows that a participant will read, or
 * SHARED_BATCH_ROWS. Rounds of an engine on the CPU take processors from the participants, so there few large batches are
 * better (leader and 15 workers on 16 cores, 20M x 5M rows, batches of 83K rows rather than 512K: 70 ms rather than 82 with a
 * GPU, 176 rather than 135 with the cpu engine).
 */
#define SHARED_BATCHES 16
#define SHARED_BATCH_ROWS (64 * 1024)

/*
 * The batches of several participants take much memory compared with a small build side. Without a GPU a batch has at most
 * this part of the build rows, but no less than half of the largest batch.
 */
#define BUILD_BATCHES 8

/* Rows that a batch holds even when memory is short, unless they exceed its limit by HJG_MOST_OVERDRAFT. */
#define MIN_BATCH_ROWS 256

/* Does the join return probe rows without a match? */
static inline bool
is_preserved(const HjgProbe *probe)
{
	return probe->execution->terms->preserved[HJG_SIDE_PROBE];
}

/* ---------- filling ---------- */

static HjgProbeBatch *
empty_batch(HjgProbe *probe)
{
	HjgProbeBatch *batch;

	if (probe->nspare > 0)
		return probe->spare[--probe->nspare];
	batch = hjg_run_batch_create(probe->build->run);
	batch->rows = hjg_rows_store_create(probe->build->run->context, probe->side->payload.n, probe->side->payload.columns,
										hjg_side_chunk_rows(probe->side, probe->side->plan->plan->plan_rows));
	return batch;
}

/*
 * Are rows probed in place, not collected? Yes without a job, because the backend's own engine gains nothing from batches
 * larger than a vector; and for a small build side, for which the device process takes longer than it saves.
 */
static bool
in_place(const HjgProbe *probe)
{
	const HjgRun *run = probe->build->run;

	return probe->spill == NULL && hjg_side_has_vectors(probe->side) &&
		(run->job == NULL || run->job_lost || (int64) run->build.nrows < hjg_in_backend_rows);
}

/* Drop the rows of a view that do not pass the filter. */
static void
filter_view(HjgProbe *probe, HjgView *view)
{
	uint16		rows[HJG_MAX_VECTOR_ROWS + HJG_BLOOM_ROWS_PAD];
	int			n = hjg_probe_filter_rows(probe->filter, view->keys, NULL, view->nrows, rows);

	if (n < view->nrows)
		hjg_side_narrow_view(probe->side, view, rows, n);
}

/* Read the next rows of the outer side that may have a result, or none at its end. */
static void
fill_view(HjgProbe *probe, HjgProbeBatch *batch)
{
	HjgView    *view = &batch->view;

	batch->viewed = true;
	do
	{
		CHECK_FOR_INTERRUPTS();
		if (!hjg_side_next_view(probe->side, view))
		{
			view->nrows = view->nnull_rows = 0;
			probe->done = true;
		}
		else if (hjg_probe_filter_is_here(probe->filter) && view->nrows > 0)
			filter_view(probe, view);
		if (!is_preserved(probe))
			view->nnull_rows = 0;
	} while (view->nrows + view->nnull_rows == 0 && !probe->done);
	hjg_run_batch_borrow(probe->build->run, batch, batch->view.keys, batch->view.nrows);
}

static bool
next_probe_row(HjgProbe *probe, HjgRow *row)
{
	if (probe->spill != NULL)
		return hjg_side_next_spilled(probe->side, probe->spill, row);
	return hjg_side_next(probe->side, row);
}

static void
keep_null_probe(HjgProbe *probe, HjgProbeBatch *batch, const HjgRow *row)
{
	if (!is_preserved(probe))
		return;
	if (batch->null_rows == NULL)
		batch->null_rows = hjg_rows_store_create(probe->build->run->context, probe->side->payload.n,
												 probe->side->payload.columns, 1);
	hjg_rows_store_append(batch->null_rows, row->source, row->values, row->isnull);
}

/* Compute the memory of a probe batch, with the keys it has, not the slab that they begin to fill. */
static size_t
batch_bytes(const HjgRun *run, const HjgProbeBatch *batch)
{
	return hjg_rows_store_bytes(batch->rows) + (size_t) batch->keys.nrows * run->key_width +
		(batch->null_rows != NULL ? hjg_rows_store_bytes(batch->null_rows) : 0);
}

/* Is the batch's memory full after so many rows? */
static inline bool
batch_is_full(const HjgRun *run, const HjgProbeBatch *batch, uint32 nread, size_t max_bytes)
{
	return batch_bytes(run, batch) > (nread >= MIN_BATCH_ROWS ? max_bytes : max_bytes * HJG_MOST_OVERDRAFT);
}

/* Add those of the n rows in the outer side's vectors that pass the filter. */
static void
add_filtered_vectors(HjgProbe *probe, HjgProbeBatch *batch, const char *keys, int first, int n)
{
	int			width = probe->build->run->key_width;
	uint16		rows[HJG_MAX_VECTOR_ROWS + HJG_BLOOM_ROWS_PAD];
	char		passing[HJG_MAX_VECTOR_ROWS * HJG_MAX_KEY_BYTES];

	n = hjg_probe_filter_rows(probe->filter, keys, NULL, n, rows);
	for (int i = 0; i < n; i++)
	{
		memcpy(passing + i * width, keys + rows[i] * width, width);
		rows[i] += first;
	}
	hjg_run_batch_keys(probe->build->run, batch, passing, n);
	hjg_rows_store_append_selected(batch->rows, probe->side->payload.child_ix, probe->side->page.vectors, rows, n);
}

/* Add rows that the child has in vectors; returns 0 if it must be asked for a single row. */
static int
add_probe_vectors(HjgProbe *probe, HjgProbeBatch *batch, uint32 max)
{
	const char *keys;
	int			first;
	int			n;

	if (probe->spill != NULL)
		return 0;
	n = hjg_side_next_vectors(probe->side, Min(max, HJG_MAX_VECTOR_ROWS), &keys, &first);
	if (n > 0 && hjg_probe_filter_is_here(probe->filter))
		add_filtered_vectors(probe, batch, keys, first, n);
	else if (n > 0)
	{
		hjg_run_batch_keys(probe->build->run, batch, keys, n);
		hjg_rows_store_append_vectors(batch->rows, probe->side->payload.child_ix, probe->side->page.vectors, first, n);
	}
	return n;
}

static uint32
largest_batch(const HjgProbe *probe)
{
	const HjgRun *run = probe->build->run;
	double		part = probe->side->plan->plan->plan_rows / SHARED_BATCHES;

	if (run->job == NULL || run->job_lost)
		return LAST_IN_BACKEND_BATCH_ROWS;
	if (run->share == NULL)
		return LAST_BATCH_ROWS;
	if (!hjg_run_on_gpu(run))
		return Max(Min(run->build.nrows / BUILD_BATCHES, LAST_BATCH_ROWS), LAST_BATCH_ROWS / 2);
	return (uint32) Min(Max(part, SHARED_BATCH_ROWS), LAST_BATCH_ROWS);
}

static void
collect_rows(HjgProbe *probe, HjgProbeBatch *batch)
{
	HjgRun	   *run = probe->build->run;
	size_t		max_bytes = get_hash_memory_limit() / 8;
	uint32		nread = 0;
	HjgRow		row;

	probe->batch_rows = probe->batch_rows == 0 ? FIRST_BATCH_ROWS :
		Min(probe->batch_rows * BATCH_GROWTH, largest_batch(probe));
	hjg_run_consider_job(run, probe->nrows);

	batch->viewed = false;
	while (nread < probe->batch_rows)
	{
		int			n = add_probe_vectors(probe, batch, probe->batch_rows - nread);

		if (n > 0)
		{
			nread += n;
			if (batch_is_full(run, batch, nread, max_bytes))
				break;
			continue;
		}
		if (!next_probe_row(probe, &row))
		{
			probe->done = true;
			break;
		}
		nread++;
		if (row.key == NULL)
			keep_null_probe(probe, batch, &row);
		else if (!hjg_probe_filter_is_here(probe->filter) || probe->spill != NULL || hjg_probe_filter_row(probe->filter, row.key))
		{
			memcpy(hjg_run_batch_key(run, batch), row.key, run->key_width);
			hjg_rows_store_append(batch->rows, row.source, row.values, row.isnull);
		}
		if (nread % 64 == 0)
			CHECK_FOR_INTERRUPTS();
		if (batch_is_full(run, batch, nread, max_bytes))
			break;
	}
}

/* Read probe rows into a batch, which may stay empty. */
static HjgProbeBatch *
fill_batch(HjgProbe *probe)
{
	HjgRun	   *run = probe->build->run;
	HjgProbeBatch *batch = empty_batch(probe);
	bool		timing = probe->execution->timing;
	uint64		start = timing ? hjg_now_ns() : 0;

	batch->first_row = probe->nrows;
	if (in_place(probe))
		fill_view(probe, batch);
	else
		collect_rows(probe, batch);
	probe->nrows += batch->keys.nrows;
	probe->execution->report->probe_rows += batch->keys.nrows;

	/* if a partition takes several passes, probe_bits has the bits */
	if (probe->match->on_host && probe->match->probe_bits == NULL)
	{
		if (batch->matched != NULL)
			pfree(batch->matched);
		batch->matched = MemoryContextAllocZero(run->context,
												((Size) batch->keys.nrows / 64 + 1) * sizeof(uint64));
	}
	if (timing)
		probe->execution->report->times.marshal_probe_ns += hjg_now_ns() - start;
	return batch;
}

/*
 * Keep the device process busy: fill and submit as many batches as may be in flight. The backend's own engine joins one at a
 * time, and a side has one view at a time.
 */
static void
fill_pipeline(HjgProbe *probe)
{
	HjgRun	   *run = probe->build->run;
	const bool	in_view = probe->nbatches > 0 && probe->batches[0]->viewed; /* settings may have changed since */
	const bool	job = run->job != NULL && !run->job_lost && !in_view && !in_place(probe);

	while (!probe->done && probe->nbatches < (job ? hjg_run_max_batches(run) : 1))
	{
		HjgProbeBatch *batch = fill_batch(probe);

		probe->batches[probe->nbatches++] = batch;
		batch->nrows = batch->keys.nrows;
		hjg_slice_first(probe, batch);
		hjg_run_batch_submit(run, batch);
	}
}

/* Retire the oldest batch, which is finished. */
static void
retire_batch(HjgProbe *probe)
{
	HjgProbeBatch *batch = probe->batches[0];

	hjg_run_batch_reset(probe->build->run, batch);
	hjg_rows_store_reset(batch->rows);
	if (batch->null_rows != NULL)
		hjg_rows_store_reset(batch->null_rows);
	probe->nbatches--;
	memmove(&probe->batches[0], &probe->batches[1], probe->nbatches * sizeof(probe->batches[0]));
	probe->spare[probe->nspare++] = batch;
	probe->pair_next = 0;
	probe->tail_next = 0;
	probe->null_next = 0;
}

void
hjg_probe_open(HjgProbe *probe, HjgSpill *spill)
{
	probe->spill = spill;
	probe->done = false;
	probe->nrows = 0;
	probe->batch_rows = 0;
	probe->pair_next = 0;
	probe->tail_next = 0;
	probe->null_next = 0;
}

void
hjg_probe_rescan(HjgProbe *probe)
{
	while (probe->nbatches > 0)
		retire_batch(probe);
	hjg_probe_open(probe, NULL);
}

void
hjg_probe_close(HjgProbe *probe)
{
	probe->nbatches = probe->nspare = 0;
}

void
hjg_probe_give_up(HjgProbe *probe)
{
	hjg_run_give_up(probe->build->run, probe->batches, probe->nbatches);
}

/* ---------- rows of the join, of the oldest batch ---------- */

/* Find a batch's rows with a key, or those with a NULL key. */
static HjgNumberedRows
batch_rows(const HjgProbeBatch *batch, bool with_key)
{
	if (!batch->viewed)
		return hjg_stored_rows(with_key ? batch->rows : batch->null_rows);
	return (HjgNumberedRows) {.vectors = batch->view.vectors,.places = with_key ? batch->view.rows : batch->view.null_rows};
}

/* Return the n rows in the vector, which have no partner and are results. */
static bool
take_unjoined(HjgProbe *probe, const HjgProbeBatch *batch, bool with_key, int n)
{
	HjgPairVector *pairs = probe->pairs;

	pairs->n = n;
	pairs->candidates = false;
	pairs->rows[HJG_SIDE_PROBE] = batch_rows(batch, with_key);
	pairs->rows[HJG_SIDE_BUILD] = (HjgNumberedRows) {NULL};
	return n > 0;
}

/* Are the pairs only counted? */
static inline bool
counts_only(const HjgProbe *probe)
{
	return probe->most_counted > 0 && !probe->match->on_host && probe->match->build_bits == NULL;
}

static bool
take_pairs(HjgProbe *probe, HjgProbeBatch *batch)
{
	HjgPairVector *pairs = probe->pairs;

	if (counts_only(probe))
	{
		CHECK_FOR_INTERRUPTS();
		pairs->n = (int) Min(batch->npairs - probe->pair_next, (uint64) probe->most_counted);
		probe->pair_next += pairs->n;
		return pairs->n > 0;
	}

	pairs->n = hjg_candidates_next(probe, batch);
	if (pairs->n == 0)
		return false;
	pairs->candidates = probe->execution->terms->residual;
	pairs->rows[HJG_SIDE_PROBE] = batch_rows(batch, true);
	pairs->rows[HJG_SIDE_BUILD] = hjg_stored_rows(probe->build->rows);
	for (int s = 0; s < HJG_SIDES; s++)
		if (batch->gathered & HJG_SIDE_BIT(s))
			pairs->rows[s].copies = pairs->places[s];
	return true;
}

static bool
take_unmatched(HjgProbe *probe, const HjgProbeBatch *batch)
{
	uint64		first;
	const uint64 *bits = hjg_match_bits(probe->match, batch, &first);
	int			n = 0;

	while (n < HJG_VECTOR_ROWS && probe->tail_next < batch->nrows)
	{
		if (!hjg_test_bit(bits, first + probe->tail_next))
			probe->pairs->probe[n++] = probe->tail_next;
		probe->tail_next++;
	}
	return take_unjoined(probe, batch, true, n);
}

static bool
take_null_keys(HjgProbe *probe, const HjgProbeBatch *batch)
{
	uint32		nrows = batch->viewed ? (uint32) batch->view.nnull_rows :
		batch->null_rows != NULL ? hjg_rows_store_nrows(batch->null_rows) : 0;
	int			n = 0;

	while (n < HJG_VECTOR_ROWS && probe->null_next < nrows)
		probe->pairs->probe[n++] = probe->null_next++;
	return take_unjoined(probe, batch, false, n);
}

/* ---------- joining ---------- */

/* Return rows of the oldest batch, or of the next batch that has any. */
bool
hjg_probe_next(HjgProbe *probe)
{
	/* without build rows the join has no result, so the probe side is not read */
	if (probe->build->run->build.nrows == 0 && !is_preserved(probe))
		return false;

	for (;;)
	{
		HjgProbeBatch *batch;

		if (!probe->done)
			probe->done = hjg_match_is_over(probe->match, probe->build->run->build_limit);
		fill_pipeline(probe);
		if (probe->nbatches == 0)
			return false;
		batch = probe->batches[0];
		hjg_pairs_prepare(probe->pairs, probe->execution->work_context);

		if (take_pairs(probe, batch))
			return true;
		if (probe->match->first_match && hjg_slice_next(probe, batch))
			continue;
		if (!batch->finished)
		{
			hjg_run_batch_round(probe->build->run, batch, counts_only(probe), !probe->match->first_match);
			probe->pair_next = 0;
			continue;
		}
		if (probe->match->on_host && is_preserved(probe) && probe->match->last_pass &&
			take_unmatched(probe, batch))
			return true;
		if (take_null_keys(probe, batch))
			return true;
		retire_batch(probe);
	}
}
