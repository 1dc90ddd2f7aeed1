/*
 * service_client.c
 *	  A backend's jobs: leasing, handing over inputs, submitting.  Which device a job is for is
 *	  decided in service_device.c, waiting is in service_wait.c, giving back in service_release.c.
 *
 * Order of things, so that nothing is lost on an error: memory that is needed to
 * remember a slab is allocated before the slab is leased.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "service/hjg_service.h"
#include "service/hjg_service_private.h"

/* How long to wait for a job slot or a slab in all, and between two tries. */
#define LEASE_WAIT_MS 100
#define LEASE_RETRY_MS 2

/*
 * After a wait in vain a process does not wait again for so long: an open cursor may hold for hours what each of a
 * join's thousand loads asks for.
 */
#define LEASE_REST_MS 2000

StaticAssertDecl(HJG_JOB_BATCHES == HJG_MAX_BATCHES, "batches of a job");

/*
 * Let others give something back.  Nobody wakes us for that: such waits are
 * short, rare and bounded.  False when the time since *since_ns is over.
 */
static bool
wait_for_lease(uint64 *since_ns)
{
	static uint64 rest_until_ns = 0;
	const uint64 now = hjg_arena_now_ns();

	if (*since_ns == 0)
	{
		if (now < rest_until_ns)
			return false;
		*since_ns = now;
		/* perhaps abandoned jobs hold what we need */
		hjg_supervisor_poke();
	}
	if (now - *since_ns > (uint64) LEASE_WAIT_MS * 1000000)
	{
		rest_until_ns = now + (uint64) LEASE_REST_MS * 1000000;
		return false;
	}
	if (WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, LEASE_RETRY_MS,
				  PG_WAIT_EXTENSION) & WL_LATCH_SET)
		ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	return true;
}

/* Make room for n more. */
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
	uint32		nslabs = __atomic_add_fetch(&job->slot->nslabs, (uint32) n, __ATOMIC_RELAXED);

	if (n > 0)
		job->max_slabs = Max(job->max_slabs, nslabs);
}

/* An error after this leaves the struct for the next job. */
static HjgJob *spare = NULL;

void
hjg_service_reserve_job(void)
{
	hjg_service_register_callbacks();
	if (spare == NULL)
		spare = MemoryContextAlloc(TopMemoryContext, sizeof(HjgJob));
}

HjgJob *
hjg_service_make_job(const HjgJobSpec *spec, uint32 job_ix, uint32 generation)
{
	HjgJob	   *job = spare;

	spare = NULL;
	memset(job, 0, sizeof(HjgJob));
	job->role = GetUserId();
	job->job_ix = job_ix;
	job->generation = generation;
	job->slot = hjg_job_at(&hjg_arena_map, job_ix);
	job->report = hjg_job_report(&hjg_arena_map, job->slot);
	job->epoch = __atomic_load_n(&job->slot->epoch, __ATOMIC_RELAXED);
	job->slab_owner = hjg_slab_owner(job_ix, generation);
	job->spec = *spec;
	job->build_carried = spec->join.carried.bytes[HJG_SIDE_BUILD] > 0;
	hjg_service_track(job);
	job->participant = hjg_job_join(job->slot, (uint32) MyProcPid, HJG_MY_PROCNO);
	return job;
}

HjgJob *
hjg_job_lease(HjgJobSpec *spec, HjgReason *reason)
{
	static uint32 hint = 0;
	HjgArena   *arena = &hjg_arena_map;
	HjgJob	   *job;
	uint32		job_ix;
	uint32		generation;
	uint64		since_ns = 0;
	int			device_ix;

	if (!hjg_service_available(reason))
		return NULL;
	device_ix = hjg_service_find_device(spec->gpu, spec->coupled);
	if (device_ix < 0)
	{
		*reason = HJG_REASON_NO_DEVICE;
		return NULL;
	}
	if (!hjg_service_is_gpu(device_ix))
		spec->join.carried = (HjgCarried) {{0}};

	hjg_service_reserve_job();
	if (hint == 0)
		hint = HJG_MY_PROCNO;	/* spread the sessions */
	while (!hjg_job_slot_lease(arena, hint, (uint32) MyProcPid, GetUserId(), &job_ix, &generation))
		if (!wait_for_lease(&since_ns))
		{
			*reason = HJG_REASON_NO_SLOT;
			return NULL;
		}
	hint = job_ix;

	job = hjg_service_make_job(spec, job_ix, generation);
	/*
	 * The device process may have died since it was seen ready, while we waited for a slot at the latest.  A job of
	 * the epoch that follows would have nobody to run it, and would not see its epoch end, until the next process comes.
	 */
	if (__atomic_load_n(&arena->view.block->ready_epoch, __ATOMIC_SEQ_CST) != job->epoch)
	{
		hjg_job_release(job);
		*reason = HJG_REASON_NO_DEVICE_PROCESS;
		return NULL;
	}
	hjg_check_text_copy(job->device, arena->view.block->devices[device_ix].name, sizeof(job->device));

	job->slot->device_ix = (uint32) device_ix;
	job->slot->key_width = (uint32) spec->join.key_width;
	job->slot->mode = (uint32) spec->join.mode;
	job->slot->strategy = (uint32) spec->join.strategy;
	job->slot->pipeline = (uint32) spec->join.pipeline;
	job->slot->nthreads = (uint32) Max(spec->nthreads, 0);
	job->slot->max_probe_rows = spec->max_probe_rows;
	job->slot->carried = spec->join.carried;
	job->slot->probe_rows = spec->join.probe_rows;
	hjg_supervisor_watch();
	return job;
}

/* One slab into a list that has room for it. */
static bool
lease_slab(HjgJob *job, HjgHeldList *list, HjgSlabUse use)
{
	uint64		since_ns = 0;
	uint32		slab_ix;

	while ((slab_ix = hjg_slab_lease(&hjg_arena_map, job->slab_owner, job->role, use)) == HJG_NO_SLAB)
		if (!wait_for_lease(&since_ns))
			return false;
	/* whatever the owner writes until it says how much it was */
	hjg_arena_map.slabs[slab_ix].dirty_bytes = HJG_SLAB_BYTES;
	list->slabs[list->n++] = slab_ix;
	count_slabs(job, 1);
	return true;
}

void *
hjg_job_slab(HjgJob *job, uint32 *slab_ix)
{
	held_reserve(&job->loose, 1);
	if (!lease_slab(job, &job->loose, HJG_SLAB_INPUT))
		return NULL;
	*slab_ix = job->loose.slabs[job->loose.n - 1];
	return hjg_arena_slab_at(&hjg_arena_map, *slab_ix);
}

/* Move a slab from the loose ones to a list of inputs, and to the operation's chain. */
static void
add_input(HjgJob *job, HjgOp *op, HjgSideId side, HjgHeldList *list, uint32 slab_ix, uint32 nrows, uint32 first_row,
		  bool carried)
{
	uint32		key_width = (uint32) job->spec.join.key_width;
	uint32		carried_bytes = job->spec.join.carried.bytes[side];
	int			i = job->loose.n - 1;

	while (i >= 0 && job->loose.slabs[i] != slab_ix)
		i--;
	if (i < 0)
		elog(ERROR, "hjoin_gpu: slab %u does not belong to the job", slab_ix);
	if (nrows > hjg_input_rows(key_width, carried_bytes))
		elog(ERROR, "hjoin_gpu: %u rows do not fit a slab", nrows);
	held_reserve(list, 1);
	job->loose.slabs[i] = job->loose.slabs[--job->loose.n];
	list->slabs[list->n++] = slab_ix;

	/* the keys are never looked at beyond the rows, but slabs are leased zeroed */
	hjg_arena_map.slabs[slab_ix].dirty_bytes = carried ?
		hjg_input_carried_off(key_width, carried_bytes) + nrows * carried_bytes : nrows * key_width;
	if (!hjg_op_add_input(&hjg_arena_map, op, job->slab_owner, slab_ix, nrows, first_row, carried))
		elog(ERROR, "hjoin_gpu: slab %u was taken from the job", slab_ix);
}

void
hjg_job_build_add(HjgJob *job, uint32 slab_ix, uint32 nrows, uint32 first_row, bool carried)
{
	if ((uint64) first_row + nrows > HJG_MAX_BUILD_ROWS)
		elog(ERROR, "hjoin_gpu: too many build rows for one job");
	add_input(job, &job->slot->build, HJG_SIDE_BUILD, &job->build, slab_ix, nrows, first_row, carried);
	job->build_carried &= carried;
	job->build_limit = Max(job->build_limit, (uint64) first_row + nrows);
}

void
hjg_job_build_submit(HjgJob *job)
{
	HjgOp	   *op = &job->slot->build;

	op->queued_ns = hjg_arena_now_ns();
	job->submitted = true;
	hjg_op_move(&job->report->build, job->generation, HJG_OP_FILLING, HJG_OP_QUEUED);
	hjg_bell_ring(&hjg_arena_map.view, job->job_ix);
}

void
hjg_job_build_facts(HjgJob *job, uint64 limit, bool carried)
{
	job->build_limit = limit;
	job->build_carried = carried && job->spec.join.carried.bytes[HJG_SIDE_BUILD] > 0;
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
}

int
hjg_job_batch_open(HjgJob *job, uint64 result_pairs, HjgReason *reason)
{
	uint32		page_pairs = hjg_page_pairs(job->spec.join.carried);
	int			nslabs;
	int			b = 0;
	HjgBatch   *batch;
	HjgOp	   *op;

	*reason = HJG_REASON_NONE;
	/* other handles of the job take theirs at the same time */
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
	while (batch->results.n < nslabs && lease_slab(job, &batch->results, HJG_SLAB_RESULT))
		;
	/* a smaller place for results means more rounds, nothing worse */
	if (batch->results.n == 0)
	{
		hjg_op_move(&job->report->batches[b], job->generation, HJG_OP_FILLING, HJG_OP_FREE);
		*reason = HJG_REASON_ARENA_FULL;
		return -1;
	}

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
	batch->carried = job->spec.join.carried.bytes[HJG_SIDE_PROBE] > 0;
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
hjg_job_batch_add(HjgJob *job, int batch_no, uint32 slab_ix, uint32 nrows, bool carried)
{
	HjgBatch   *batch = batch_at(job, batch_no);

	if (batch->nrows + nrows > HJG_MAX_PROBE_ROWS)
		elog(ERROR, "hjoin_gpu: too many rows for one probe batch");
	add_input(job, &job->slot->batches[batch_no], HJG_SIDE_PROBE, &batch->inputs, slab_ix, nrows, (uint32) batch->nrows,
			  carried);
	batch->carried &= carried;
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
	op->queued_ns = hjg_arena_now_ns();
	job->submitted = true;
	batch->submitted = true;
	hjg_op_move(&job->report->batches[batch_no], job->generation, batch->round == 0 ? HJG_OP_FILLING : HJG_OP_DRAINING, HJG_OP_QUEUED);
	batch->round++;
	hjg_bell_ring(&hjg_arena_map.view, job->job_ix);
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
		return;					/* it runs: its slabs go back with the job */

	state = (HjgOpState) hjg_op_state(op);
	hjg_op_move(op, job->generation, state, HJG_OP_FREE);
	release_list(job, &batch->inputs);
	release_list(job, &batch->results);
	batch->submitted = false;
	batch->open = false;
}

const char *
hjg_job_device(HjgJob *job)
{
	return job->device;
}
