/*
 * service_client.c
 *	  A backend's jobs: adding inputs, submitting. service_share.c decides how much a backend may lease; jobs begin in
 *	  service_lease.c and end in service_release.c; service_wait.c waits.
 *
 * Order, so that no slab is lost on an error: the memory for the number of a slab is allocated before the slab is leased, and
 * nothing is reported before the number is stored, because sending a message may end in a cancel or an exit.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "service/hjg_service.h"
#include "service/hjg_service_private.h"

/* Make space for n more slabs. */
static void
held_reserve(HjgHeldList *list, int n)
{
	int			room = Max(list->room, 8);

	while (room < list->n + n)
		room *= 2;
	if (room == list->room)
		return;
	if (list->slabs == NULL)
		list->slabs = MemoryContextAlloc(TopMemoryContext, room * sizeof(uint32));
	else
		list->slabs = repalloc(list->slabs, room * sizeof(uint32));
	list->room = room;
}

static void
count_slabs(HjgJob *job, int n)
{
	uint32		nslabs = hjg_arena_share_count(hjg_service_share(), job->job_ix, n);

	if (n > 0)
		job->stats.max_slabs = Max(job->stats.max_slabs, nslabs);
}

/* Lease a slab into a list that has space for it; false and a reason if there is none. */
static bool
lease_slab(HjgJob *job, HjgHeldList *list, HjgSlabUse use, bool patient, HjgReason *reason)
{
	HjgTurn		turn = {.kind = HJG_SHARE_SLAB,.owner = job->owner,.shared = job->shared || job->attached,.patient = patient};
	uint32		slab_ix = HJG_NO_SLAB;

	while (slab_ix == HJG_NO_SLAB && hjg_turn_wait(&turn, reason))
		slab_ix = hjg_slab_lease(&hjg_arena_map, job->slab_owner, job->role, use);
	if (slab_ix != HJG_NO_SLAB)
	{
		/* the owner may write any part of it, until it sets the real size */
		hjg_arena_map.slabs[slab_ix].dirty_bytes = HJG_SLAB_BYTES;
		list->slabs[list->n++] = slab_ix;
		count_slabs(job, 1);
	}
	hjg_turn_end(&turn);
	return slab_ix != HJG_NO_SLAB;
}

void *
hjg_job_slab(HjgJob *job, uint32 *slab_ix, HjgReason *reason)
{
	held_reserve(&job->unassigned, 1);
	if (!lease_slab(job, &job->unassigned, HJG_SLAB_INPUT, true, reason))
		return NULL;
	*slab_ix = job->unassigned.slabs[job->unassigned.n - 1];
	return hjg_arena_slab_at(&hjg_arena_map, *slab_ix);
}

/* Move a slab from the unassigned ones to a list of inputs, and to the operation's chain. */
static void
add_input(HjgJob *job, HjgOp *op, HjgSideId side, HjgHeldList *list, uint32 slab_ix, uint32 nrows, uint32 first_row,
		  bool has_payload)
{
	uint32		key_width = job->spec.key_width;
	uint32		payload_bytes = job->spec.payload.bytes[side];
	int			i = job->unassigned.n - 1;

	while (i >= 0 && job->unassigned.slabs[i] != slab_ix)
		i--;
	if (i < 0)
		elog(ERROR, "hjoin_gpu: slab %u does not belong to the job", slab_ix);
	if (nrows > hjg_input_rows(key_width, payload_bytes))
		elog(ERROR, "hjoin_gpu: %u rows do not fit a slab", nrows);
	held_reserve(list, 1);
	job->unassigned.slabs[i] = job->unassigned.slabs[--job->unassigned.n];
	list->slabs[list->n++] = slab_ix;

	/* nothing reads beyond the last row, but slabs are leased zeroed */
	hjg_arena_map.slabs[slab_ix].dirty_bytes = has_payload ?
		hjg_input_payload_off(key_width, payload_bytes) + nrows * payload_bytes : nrows * key_width;
	if (!hjg_op_add_input(&hjg_arena_map, op, job->slab_owner, slab_ix, nrows, first_row, has_payload))
		elog(ERROR, "hjoin_gpu: slab %u was taken from the job", slab_ix);
}

void
hjg_job_build_add(HjgJob *job, uint32 slab_ix, uint32 nrows, uint32 first_row, bool has_payload)
{
	if ((uint64) first_row + nrows > HJG_MAX_BUILD_ROWS)
		elog(ERROR, "hjoin_gpu: too many build rows for one job");
	add_input(job, &job->slot->build, HJG_SIDE_BUILD, &job->build, slab_ix, nrows, first_row, has_payload);
	job->build_has_payload &= has_payload;
	job->build_limit = Max(job->build_limit, (uint64) first_row + nrows);
}

void
hjg_job_build_submit(HjgJob *job)
{
	HjgOp	   *op = &job->slot->build;

	op->queued_ns = hjg_now_ns();
	job->submitted = true;
	hjg_op_move(&job->report->build, job->generation, HJG_OP_FILLING, HJG_OP_QUEUED);
	hjg_doorbell_ring(&hjg_arena_map.view, job->job_ix);
}

void
hjg_job_build_facts(HjgJob *job, uint64 limit, bool has_payload)
{
	job->build_limit = limit;
	job->build_has_payload = has_payload && job->spec.payload.bytes[HJG_SIDE_BUILD] > 0;
}

static HjgBatch *
batch_at(HjgJob *job, int batch)
{
	if (batch < 0 || batch >= HJG_MAX_BATCHES || !job->batches[batch].open)
		elog(ERROR, "hjoin_gpu: batch %d is not open", batch);
	return &job->batches[batch];
}

static void
release_list(HjgJob *job, HjgHeldList *list)
{
	for (int i = 0; i < list->n; i++)
		hjg_slab_release(&hjg_arena_map, list->slabs[i], job->slab_owner);
	count_slabs(job, -list->n);
	list->n = 0;
	hjg_wake_next();
}

int
hjg_job_batch_open(HjgJob *job, uint64 result_pairs, HjgReason *reason)
{
	uint32		page_pairs = hjg_page_pairs(job->spec.payload);
	int			nslabs;
	int			b = 0;
	HjgBatch   *batch;
	HjgOp	   *op;

	*reason = HJG_REASON_NONE;
	/* other handles of the job open batches at the same time */
	while (b < HJG_MAX_BATCHES &&
		   (job->batches[b].open ||
			!hjg_op_move(&job->report->batches[b], job->generation, HJG_OP_FREE, HJG_OP_FILLING)))
		b++;
	if (b == HJG_MAX_BATCHES)
		return -1;
	batch = &job->batches[b];
	op = &job->slot->batches[b];

	nslabs = (int) Min((result_pairs + page_pairs - 1) / page_pairs, hjg_arena_map.view.nslabs);
	nslabs = Max(nslabs, 1);
	held_reserve(&batch->results, nslabs);
	if (batch->pages != NULL)
		pfree(batch->pages);
	batch->pages = NULL;
	batch->pages = MemoryContextAlloc(TopMemoryContext, nslabs * sizeof(HjgPair *));
	/* less space for results only means more rounds */
	while (batch->results.n < nslabs && lease_slab(job, &batch->results, HJG_SLAB_RESULT, batch->results.n == 0, reason))
		;
	if (batch->results.n == 0)
	{
		hjg_op_move(&job->report->batches[b], job->generation, HJG_OP_FILLING, HJG_OP_FREE);
		return -1;
	}
	*reason = HJG_REASON_NONE;

	for (int i = batch->results.n - 1; i >= 0; i--)
	{
		uint32		slab_ix = batch->results.slabs[i];

		hjg_arena_map.slabs[slab_ix].next_ref =
			i + 1 < batch->results.n ? batch->results.slabs[i + 1] + 1 : 0;
		batch->pages[i] = hjg_arena_slab_at(&hjg_arena_map, slab_ix);
	}
	batch->open = true;
	batch->submitted = false;
	batch->nrows = 0;
	batch->has_payload = job->spec.payload.bytes[HJG_SIDE_PROBE] > 0;
	batch->round = 0;
	memset(&batch->cursor, 0, sizeof(batch->cursor));

	op->input_ref = 0;
	op->ninputs = 0;
	op->nrows = 0;
	op->result_ref = batch->results.slabs[0] + 1;
	op->nresults = (uint32) batch->results.n;
	op->round = 0;
	return b;
}

void
hjg_job_batch_add(HjgJob *job, int batch_no, uint32 slab_ix, uint32 nrows, bool has_payload)
{
	HjgBatch   *batch = batch_at(job, batch_no);

	if (batch->nrows + nrows > HJG_MAX_PROBE_ROWS)
		elog(ERROR, "hjoin_gpu: too many rows for one probe batch");
	add_input(job, &job->slot->batches[batch_no], HJG_SIDE_PROBE, &batch->inputs, slab_ix, nrows, (uint32) batch->nrows,
			  has_payload);
	batch->has_payload &= has_payload;
	batch->nrows += nrows;
}

void
hjg_job_batch_seek(HjgJob *job, int batch_no, HjgCursor cursor)
{
	batch_at(job, batch_no)->cursor = cursor;
}

void
hjg_job_batch_submit(HjgJob *job, int batch_no)
{
	HjgBatch   *batch = batch_at(job, batch_no);
	HjgOp	   *op = &job->slot->batches[batch_no];

	if (batch->submitted)
		elog(ERROR, "hjoin_gpu: a round of batch %d is under way", batch_no);
	op->cursor_in = batch->cursor;
	op->round = batch->round + 1;
	op->queued_ns = hjg_now_ns();
	job->submitted = true;
	batch->submitted = true;
	hjg_op_move(&job->report->batches[batch_no], job->generation, batch->round == 0 ? HJG_OP_FILLING : HJG_OP_DRAINING, HJG_OP_QUEUED);
	batch->round++;
	hjg_doorbell_ring(&hjg_arena_map.view, job->job_ix);
}

void
hjg_job_batch_close(HjgJob *job, int batch_no)
{
	HjgBatch   *batch = batch_at(job, batch_no);
	HjgOpReport *op = &job->report->batches[batch_no];
	bool		over = __atomic_load_n(&hjg_arena_map.control->epoch, __ATOMIC_SEQ_CST) != job->epoch;
	HjgOpState	state;

	if (batch->submitted && !hjg_op_move(op, job->generation, HJG_OP_QUEUED, HJG_OP_DRAINING) &&
		!hjg_op_move(op, job->generation, HJG_OP_READY, HJG_OP_DRAINING) && !over)
		return;					/* a round runs: its slabs are released with the job */

	state = (HjgOpState) hjg_op_state(op);
	hjg_op_move(op, job->generation, state, HJG_OP_FREE);
	release_list(job, &batch->inputs);
	release_list(job, &batch->results);
	__atomic_fetch_add(&job->slot->probed_rows, batch->nrows, __ATOMIC_RELAXED);
	batch->submitted = false;
	batch->open = false;
}

