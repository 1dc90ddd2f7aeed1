/*
 * node_batch.c
 *	  Probe batches of a run: they are filled with keys, joined round by round, narrowed to rows without a match, and emptied.
 *
 * The device process joins a batch if all of its keys are in slabs of the run's job and the job is usable. Otherwise, and as
 * soon as the device process is lost, the backend's own engine joins it (node_engine.c): the batch's keys stay until the last
 * round, and its cursor is behind the last pair of the last complete round.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "node/hjg_run_private.h"

/*
 * Most result pairs that a batch asks for when a probe row has many matches. On a GPU a round must be worth its copies.
 * Elsewhere its overhead is hundreds of times less than the time for two slabs of rows, and memory counts more, above all
 * with several participants.
 */
#define MAX_RESULT_PAIRS (2 * MAX_SHARED_RESULT_PAIRS)
#define MAX_SHARED_RESULT_PAIRS (HJG_SLAB_BYTES / sizeof(HjgPair))
#define MAX_GPU_RESULT_PAIRS (8 * (HJG_SLAB_BYTES / sizeof(HjgPair)))

/* ---------- filling ---------- */

HjgProbeBatch *
hjg_run_batch_create(HjgRun *run)
{
	HjgProbeBatch *batch = MemoryContextAllocZero(run->context, sizeof(HjgProbeBatch));

	batch->job_batch = -1;
	return batch;
}

void *
hjg_run_batch_key(HjgRun *run, HjgProbeBatch *batch)
{
	return hjg_keys_next(run, &batch->keys);
}

void
hjg_run_batch_keys(HjgRun *run, HjgProbeBatch *batch, const void *keys, uint32 nrows)
{
	hjg_keys_append(run, &batch->keys, keys, nrows);
}

void
hjg_run_batch_borrow(HjgRun *run, HjgProbeBatch *batch, const void *keys, uint32 nrows)
{
	HjgKeyBuffer *buffer = &batch->keys;

	if (nrows == 0)
		return;
	hjg_keys_next_segment(run, buffer);
	buffer->segments[0].keys = unconstify(void *, keys);
	buffer->segments[0].slab_ix = HJG_NOT_OURS;
	buffer->segments[0].nrows = buffer->segments[0].capacity = nrows;
	buffer->segments[0].first_row = 0;
	buffer->nsegments = 1;
	buffer->nrows = nrows;
}

/* ---------- rounds ---------- */

/* Are all segments of the batch slabs of the job? */
static bool
batch_in_arena(const HjgProbeBatch *batch)
{
	for (int i = 0; i < batch->keys.nsegments; i++)
		if (batch->keys.segments[i].slab_ix >= HJG_NOT_OURS)
			return false;
	return true;
}

void
hjg_run_batch_submit(HjgRun *run, HjgProbeBatch *batch)
{
	HjgReason	reason;
	uint64		pairs = batch->keys.nrows;
	uint64		most;

	if (batch->keys.nrows == 0)
		batch->finished = true;
	if (batch->finished || !hjg_run_job_usable(run) || !batch_in_arena(batch))
		return;
	most = hjg_run_on_gpu(run) ? MAX_GPU_RESULT_PAIRS : run->share != NULL ? MAX_SHARED_RESULT_PAIRS : MAX_RESULT_PAIRS;
	if (batch->slice.most > 1)
		pairs = Min(pairs * batch->slice.most, most);
	else if (batch->slice.most == 0 && run->expansion > 1)
		pairs = Max(pairs, Min((uint64) (pairs * run->expansion * 1.1), most));
	batch->job_batch = hjg_job_batch_open(run->job, pairs, &reason);
	if (batch->job_batch < 0)
	{
		hjg_run_fall_back(run, reason == HJG_REASON_NONE ? HJG_REASON_ARENA_FULL : reason);
		return;
	}
	/* columns are sent with a whole batch only, and not for rows in vectors */
	if (batch->keys.nrows == batch->nrows && !batch->viewed)
		hjg_payload_fill(run, HJG_SIDE_PROBE, &batch->keys, batch->rows);
	for (int i = 0; i < batch->keys.nsegments; i++)
		hjg_job_batch_add(run->job, batch->job_batch, batch->keys.segments[i].slab_ix,
						  batch->keys.segments[i].nrows, batch->keys.segments[i].has_payload);
	hjg_job_batch_seek(run->job, batch->job_batch, batch->cursor);
	hjg_job_batch_submit(run->job, batch->job_batch);
	batch->submitted = true;
}

/* Run a round in the device process; false if the job is lost meanwhile. */
static bool
device_round(HjgRun *run, HjgProbeBatch *batch, bool counted_only)
{
	HjgBatchResult result;
	HjgReason	reason;

	if (!batch->submitted)
	{
		hjg_job_batch_submit(run->job, batch->job_batch);
		batch->submitted = true;
	}
	reason = hjg_job_batch_wait(run->job, batch->job_batch, counted_only ? NULL : &run->round, &result);
	if (reason != HJG_REASON_NONE)
	{
		hjg_run_fall_back(run, reason);
		return false;
	}
	batch->submitted = false;
	hjg_run_note_device_fallback(run);
	batch->result = result.pairs;
	batch->npairs = result.npairs;
	batch->gathered = result.gathered;
	memcpy(batch->columns, result.columns, sizeof(batch->columns));
	run->execution->report->gathered |= result.gathered;
	batch->cursor = result.cursor;
	batch->finished = result.finished;
	return true;
}

/* Close the batch in the job once all pairs are here; slices need its keys for further rounds. */
static void
give_back_slabs(HjgRun *run, HjgProbeBatch *batch)
{
	if (!batch->finished || batch->slice.most > 0 || batch->job_batch < 0 || !hjg_run_job_usable(run))
		return;
	hjg_job_batch_close(run->job, batch->job_batch);
	batch->job_batch = -1;
	batch->keys.nsegments = 0;	/* keys.nrows is still used */
}

void
hjg_run_batch_round(HjgRun *run, HjgProbeBatch *batch, bool counted_only, bool ahead)
{
	HjgReport  *report = run->execution->report;

	batch->npairs = 0;
	if (batch->finished)
		return;
	if (batch->job_batch < 0 || !hjg_run_job_usable(run) || !device_round(run, batch, counted_only))
	{
		if (batch->submitted)
		{
			batch->submitted = false;
			report->redone++;
			hjg_service_count(HJG_COUNT_REDONE_BATCHES, 1);
		}
		hjg_run_engine_round(run, batch);
	}
	run->answered = true;
	report->rounds++;
	report->pairs += batch->npairs;
	batch->pairs += batch->npairs;
	if (batch->keys.nrows > 0 && batch->slice.most == 0)
		run->expansion = Max(run->expansion, (double) batch->npairs / batch->keys.nrows);
	give_back_slabs(run, batch);
	/* the pairs are in this process's own memory: the device process may overwrite its copy */
	if (ahead && !batch->finished && batch->job_batch >= 0 && hjg_run_job_usable(run))
	{
		hjg_job_batch_submit(run->job, batch->job_batch);
		batch->submitted = true;
	}
}

/* ---------- another use ---------- */

void
hjg_run_batch_narrow(HjgRun *run, HjgProbeBatch *batch, const uint32 *positions, uint32 n)
{
	HjgKeyBuffer old = batch->keys;
	int			s = 0;

	memset(&batch->keys, 0, sizeof(batch->keys));
	for (uint32 i = 0; i < n; i++)
	{
		while (positions[i] - old.segments[s].first_row >= old.segments[s].nrows)
			s++;
		memcpy(hjg_keys_next(run, &batch->keys),
			   old.segments[s].keys + (size_t) (positions[i] - old.segments[s].first_row) * run->key_width,
			   run->key_width);
	}
	if (batch->job_batch >= 0 && hjg_run_job_usable(run))
		hjg_job_batch_close(run->job, batch->job_batch);
	batch->job_batch = -1;
	hjg_keys_empty(run, &old);
	pfree(old.segments);

	batch->cursor = batch->slice;
	batch->finished = false;
	batch->npairs = 0;
	batch->pairs = 0;
	hjg_run_batch_submit(run, batch);
}

void
hjg_run_give_up(HjgRun *run, HjgProbeBatch *const *batches, int nbatches)
{
	hjg_keys_keep(run, &run->build);
	for (int i = 0; i < nbatches; i++)
	{
		hjg_keys_keep(run, &batches[i]->keys);
		batches[i]->job_batch = -1;
		batches[i]->submitted = false;
	}
	hjg_run_end_job(run);
	if (!run->job_lost)
		run->reason = run->execution->report->fallback = HJG_REASON_SUSPENDED;
}

void
hjg_run_batch_reset(HjgRun *run, HjgProbeBatch *batch)
{
	if (batch->job_batch >= 0 && hjg_run_job_usable(run))
	{
		HjgBatchResult result;
		HjgReason	reason;

		/* the device process may still be writing to it */
		if (batch->submitted)
		{
			reason = hjg_job_batch_wait(run->job, batch->job_batch, NULL, &result);
			if (reason != HJG_REASON_NONE)
				hjg_run_fall_back(run, reason);
		}
		if (hjg_run_job_usable(run))
			hjg_job_batch_close(run->job, batch->job_batch);
	}
	batch->job_batch = -1;
	batch->submitted = false;
	hjg_keys_empty(run, &batch->keys);
	memset(&batch->cursor, 0, sizeof(batch->cursor));
	batch->finished = false;
	batch->npairs = 0;
	batch->pairs = 0;
}
