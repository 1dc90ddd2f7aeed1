/*
 * service_wait.c
 *	  Waits for a round, and checks what the device process reports.
 *
 * A backend sleeps only on its latch. A short round takes less time than the system call to fall asleep, so the backend polls
 * for a few microseconds first.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/pmsignal.h"
#include "storage/s_lock.h"

#include "base/hjg_base.h"
#include "service/hjg_service.h"
#include "service/hjg_service_private.h"

#define SPIN_NS 40000
/* The longest sleep without a check, which a lost wake-up can cost. */
#define LOOK_MS 100

static bool
is_job_lost(const HjgJob *job)
{
	return __atomic_load_n(&hjg_arena_map.control->epoch, __ATOMIC_SEQ_CST) != job->epoch;
}

/* State of an operation that this process waits for. */
typedef enum Progress
{
	QUEUED,						/* it will be run, as far as can be seen */
	RUNNING,
	READY,
	NONSENSE
} Progress;

/* Read each state once. A batch needs its build, and is never run if the state of the build leads nowhere. */
static Progress
progress_of(const HjgJob *job, const HjgOpReport *op)
{
	const uint64 word = __atomic_load_n(&op->word, __ATOMIC_SEQ_CST);
	const uint64 build = __atomic_load_n(&job->report->build.word, __ATOMIC_SEQ_CST);

	if (word == HJG_WORD(job->generation, HJG_OP_READY))
		return READY;
	if (word == HJG_WORD(job->generation, HJG_OP_RUNNING))
		return RUNNING;
	if (word != HJG_WORD(job->generation, HJG_OP_QUEUED))
		return NONSENSE;
	if (build == HJG_WORD(job->generation, HJG_OP_RUNNING))
		return RUNNING;
	return build == HJG_WORD(job->generation, HJG_OP_QUEUED) || build == HJG_WORD(job->generation, HJG_OP_READY) ?
		QUEUED : NONSENSE;
}

/*
 * Has there been no heartbeat for twice hjoin_gpu.device_timeout? That of the job if it is reported as running; otherwise
 * that of the process, which may be working on other jobs.
 */
static bool
is_silent(HjgJob *job, Progress progress)
{
	uint64		beat = __atomic_load_n(progress == RUNNING ? &job->report->beat : &hjg_arena_map.view.block->beat,
									   __ATOMIC_RELAXED);
	uint64		now = hjg_now_ns();

	if (beat != job->heartbeat.beat)
	{
		job->heartbeat.beat = beat;
		job->heartbeat.changed_ns = now;
	}
	return now - job->heartbeat.changed_ns > (uint64) hjg_device_timeout_ms * 2 * 1000000;
}

/* Request the end of a device process that breaks the protocol. */
static void
distrust_device_process(const HjgJob *job, HjgDistrust why)
{
	hjg_slot_distrust(&hjg_arena_map, job->slot, why);
	hjg_supervisor_wake();
}

/*
 * Poll for a short time without sleeping. After several sleeps in spite of that, because rounds are long or processors few,
 * polls are rare.
 */
static bool
spin_until_ready(const HjgOpReport *op, uint64 start_ns)
{
	static uint32 misses = 0;

	if (misses >= 4 && misses++ % 16 != 0)
		return hjg_op_state(op) == HJG_OP_READY;
	do
	{
		for (int i = 0; i < 32; i++)
		{
			if (hjg_op_state(op) == HJG_OP_READY)
			{
				misses = 0;
				return true;
			}
			SPIN_DELAY();
		}
	} while (hjg_now_ns() - start_ns < SPIN_NS);
	misses++;
	return false;
}

/* Sleep until the operation is ready, or the job has failed. */
static HjgReason
wait_ready(HjgJob *job, const HjgOpReport *op)
{
	HjgReason	reason = HJG_REASON_NONE;
	Progress	progress;
	uint64		start_ns = hjg_now_ns();
	HjgParticipant *me = job->participant >= 0 ? &job->slot->participants[job->participant] : NULL;

	CHECK_FOR_INTERRUPTS();
	if (!spin_until_ready(op, start_ns))
	{
		job->heartbeat.changed_ns = start_ns;
		if (me != NULL)
			__atomic_store_n(&me->waiting, 1, __ATOMIC_SEQ_CST);
		while ((progress = progress_of(job, op)) != READY)
		{
			int			events;

			if (is_job_lost(job))
			{
				/* the operation may have ended just before the process did */
				if (progress_of(job, op) != READY)
					reason = HJG_REASON_DEVICE_LOST;
				break;
			}
			/* the job's owner has ended, so nobody runs queued operations */
			if (!hjg_slot_leased(job->slot, job->generation))
			{
				reason = HJG_REASON_ENGINE_ERROR;
				break;
			}
			if (progress == NONSENSE)
			{
				distrust_device_process(job, HJG_DISTRUST_RESULT);
				reason = HJG_REASON_BAD_RESULT;
				break;
			}
			if (is_silent(job, progress))
			{
				distrust_device_process(job, HJG_DISTRUST_SILENT);
				reason = HJG_REASON_DEVICE_TIMEOUT;
				break;
			}
			events = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, LOOK_MS, hjg_base_wait_event(HJG_WAIT_RESULT));
			if (events & WL_LATCH_SET)
				ResetLatch(MyLatch);
			/* the device process may have lost the request */
			else if (progress == QUEUED)
				hjg_doorbell_ring_again(&hjg_arena_map.view, job->job_ix);
			CHECK_FOR_INTERRUPTS();
		}
		if (me != NULL)
			__atomic_store_n(&me->waiting, 0, __ATOMIC_SEQ_CST);
	}
	job->stats.wait_ns += hjg_now_ns() - start_ns;
	return reason;
}

void *
hjg_service_round_space(HjgRoundMemory *memory, size_t bytes, size_t most)
{
	if (memory->bytes < bytes)
	{
		if (memory->space != NULL)
			pfree(memory->space);
		memory->space = NULL;
		memory->bytes = 0;
		memory->space = MemoryContextAllocHuge(memory->context, Max(bytes, most));
		memory->bytes = Max(bytes, most);
	}
	memory->used = Max(memory->used, bytes);
	return memory->space;
}

/* Make space for the reported result; none if it will not pass the check anyway. */
static HjgRoundCopy
make_copy(const HjgExpected *expected, const HjgReported *reported, HjgRoundMemory *memory)
{
	const uint64 room = TYPEALIGN64(HJG_PAGE_ALIGNMENT_PAIRS, Max(reported->npairs, 1));
	HjgRoundCopy copy = {NULL};
	size_t		pair_bytes = sizeof(HjgPair);
	char	   *place;

	if (reported->npairs > (uint64) expected->npages * expected->page_pairs)
		return copy;
	for (int s = 0; s < HJG_SIDES; s++)
		pair_bytes += reported->gathered & HJG_SIDE_BIT(s) ? expected->payload.bytes[s] : 0;
	place = hjg_service_round_space(memory, room * pair_bytes, (size_t) expected->npages * HJG_SLAB_BYTES);
	copy.pairs = (HjgPair *) place;
	place += room * sizeof(HjgPair);
	for (int s = 0; s < HJG_SIDES; s++)
		if (reported->gathered & HJG_SIDE_BIT(s))
		{
			copy.columns[s] = place;
			place += room * expected->payload.bytes[s];
		}
	return copy;
}

/* Get the reason of a status that is not HJG_OK. */
static HjgReason
failure_reason(const HjgJob *job, uint32 status)
{
	if (job->spec.mode != HJG_MATCH_PROGRAM)
		return HJG_REASON_ENGINE_ERROR;
	switch (status)
	{
		case HJG_ERR_MEMORY:
			return HJG_REASON_DEVICE_MEMORY;
		case HJG_ERR_DEVICE:
			return HJG_REASON_DEVICE_REFUSED;
		case HJG_ERR_INPUT:
			return HJG_REASON_PROGRAM_REFUSED;
		default:
			return HJG_REASON_ENGINE_ERROR;
	}
}

HjgReason
hjg_job_batch_wait(HjgJob *job, int batch_no, HjgRoundMemory *memory, HjgBatchResult *result)
{
	HjgBatch   *batch;
	HjgOpReport *op;
	HjgExpected expected;
	HjgReported reported;
	HjgRoundCopy copy = {NULL};
	HjgCheck	check;

	if (batch_no < 0 || batch_no >= HJG_MAX_BATCHES || !job->batches[batch_no].submitted)
		elog(ERROR, "hjoin_gpu: no round of batch %d is under way", batch_no);
	if (job->reason != HJG_REASON_NONE)
		return job->reason;
	batch = &job->batches[batch_no];
	op = &job->report->batches[batch_no];

	job->reason = wait_ready(job, op);
	if (job->reason != HJG_REASON_NONE)
	{
		/* the device process ends with the postmaster; redoing the join would delay the next start of the server */
		if (!PostmasterIsAlive())
			proc_exit(1);
		return job->reason;
	}
	if (!hjg_op_move(op, job->generation, HJG_OP_READY, HJG_OP_DRAINING))
	{
		distrust_device_process(job, HJG_DISTRUST_RESULT);
		return job->reason = HJG_REASON_BAD_RESULT;
	}
	batch->submitted = false;

	hjg_check_copy(op, &reported);
	if (reported.status != HJG_OK)
		return job->reason = failure_reason(job, reported.status);

	expected = (HjgExpected) {
		.round = batch->round,
		.mode = job->spec.mode,
		.probe_rows = batch->nrows,
		.build_limit = job->build_limit,
		.cursor = batch->cursor,
		.pages = batch->pages,
		.npages = (uint32) batch->results.n,
		.page_pairs = hjg_page_pairs(job->spec.payload),
		.payload = job->spec.payload,
		.may_gather = (job->build_has_payload ? HJG_SIDE_BIT(HJG_SIDE_BUILD) : 0) |
			(batch->has_payload ? HJG_SIDE_BIT(HJG_SIDE_PROBE) : 0),
	};
	if (memory != NULL)
		copy = make_copy(&expected, &reported, memory);
	check = hjg_check_round(&expected, &reported, memory != NULL ? &copy : NULL);
	if (check != HJG_CHECK_GOOD)
	{
		hjg_service_count(HJG_COUNT_BAD_RESULTS, 1);
		distrust_device_process(job, HJG_DISTRUST_RESULT);
		ereport(LOG,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("a result of the hjoin_gpu device process failed its check: %s", hjg_check_text(check)),
				 errdetail("Device \"%s\", job slot %u, batch %d, round %u, %llu pairs. The result is not used.",
						   hjg_device_name(job->device).text, job->job_ix, batch_no, batch->round,
						   (unsigned long long) reported.npairs)));
		return job->reason = HJG_REASON_BAD_RESULT;
	}

	/*
	 * The next round asks for the same slice of the remaining rows. But if the engine returns whole rows and has cut one,
	 * skip counts pairs of that row, and the batch goes on without slices.
	 */
	reported.cursor.most = reported.cursor.row < batch->nrows && reported.cursor.skip != batch->cursor.skip ?
		0 : batch->cursor.most;
	batch->cursor = reported.cursor;
	result->npairs = reported.npairs;
	result->pairs = copy.pairs;
	result->gathered = reported.gathered;
	for (int s = 0; s < HJG_SIDES; s++)
		result->columns[s] = copy.columns[s];
	result->cursor = reported.cursor;
	result->finished = job->spec.mode != HJG_MATCH_PROGRAM && reported.cursor.row >= batch->nrows;
	return HJG_REASON_NONE;
}

HjgReason
hjg_job_device_fallback(HjgJob *job)
{
	switch (__atomic_load_n(&job->report->stats.fallback, __ATOMIC_RELAXED))
	{
		case HJG_OK:
			return HJG_REASON_NONE;
		case HJG_ERR_MEMORY:
			return HJG_REASON_DEVICE_MEMORY;
		default:
			return HJG_REASON_DEVICE_REFUSED;
	}
}

void
hjg_job_stats(HjgJob *job, HjgJobStats *stats)
{
	hjg_words_copy(stats, &job->report->stats, sizeof(*stats));
	if (hjg_strategy_name((int) stats->strategy) == NULL)
		stats->strategy = HJG_CPU_AUTO;
	if (stats->pipeline >= HJG_PIPELINE_COUNT)
		stats->pipeline = HJG_PIPELINE_AUTO;
	stats->declined = stats->declined != 0;
	stats->wait_ns = job->stats.wait_ns;
	stats->arena_bytes = (uint64) job->stats.max_slabs * HJG_SLAB_BYTES;
}
