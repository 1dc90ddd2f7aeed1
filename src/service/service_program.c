/*
 * service_program.c
 *	  Runs programs (hjg_program.h) in the device process: sends their blocks, and receives the words of their results.
 *
 * All programs are sent before the first result is awaited, so they run at the same time. A job that is released while its program runs
 * is cancelled.
 */
#include "postgres.h"

#include "base/hjg_base.h"
#include "service/hjg_service.h"
#include "service/hjg_service_private.h"

#define WORD_BYTES sizeof(hjg_u64)

StaticAssertDecl(sizeof(HjgPair) == WORD_BYTES, "a pair is a word");

/* Result slabs of a batch, at most; a longer result comes in several rounds. */
#define MOST_SLABS 8

/* Send the program as the build side; false and a reason if there is no slab. */
static bool
send_program(HjgJob *job, const HjgProgramTask *task, HjgReason *reason)
{
	const uint32 slab_words = hjg_input_rows(job->spec.key_width, 0);
	uint64	   *slab = NULL;
	uint32		slab_ix = 0;
	uint32		used = 0;		/* words of the slab, */
	uint32		first = 0;		/* and of those before it */

	for (int p = 0; p < task->nparts; p++)
		for (uint64 done = 0, n; done < task->parts[p].nwords; done += n)
		{
			if (slab == NULL)
				slab = hjg_job_slab(job, &slab_ix, reason);
			if (slab == NULL)
				return false;
			n = Min(task->parts[p].nwords - done, slab_words - used);
			memcpy(slab + used, task->parts[p].words + done, n * WORD_BYTES);
			used += n;
			if (used < slab_words)
				continue;
			hjg_job_build_add(job, slab_ix, used, first, false);
			first += used;
			used = 0;
			slab = NULL;
		}
	if (slab != NULL)
		hjg_job_build_add(job, slab_ix, used, first, false);
	hjg_job_build_submit(job);
	return true;
}

/* Find the number of words from the first one, which is the number of groups; 0 if there are too many. */
static uint64
total_words(const HjgProgramTask *task, uint64 ngroups)
{
	return ngroups > task->head.max_groups || ngroups > (PG_UINT32_MAX - 1) / task->group_words ? 0 : 1 + ngroups * task->group_words;
}

/* Receive the result, whose first round was submitted; false and a reason if there is none. */
static bool
receive_words(HjgJob *job, int batch, HjgProgramTask *task, HjgReason *reason)
{
	HjgRoundMemory memory = {.context = CurrentMemoryContext};
	uint64		n = 0;

	for (;;)
	{
		HjgBatchResult result;

		*reason = hjg_job_batch_wait(job, batch, &memory, &result);
		if (*reason != HJG_REASON_NONE)
			return false;
		if (task->words == NULL && result.npairs > 0)
		{
			task->nwords = total_words(task, *(const uint64 *) result.pairs);
			if (task->nwords == 0)
			{
				*reason = HJG_REASON_PROGRAM_REFUSED;
				return false;
			}
			task->words = MemoryContextAllocHuge(CurrentMemoryContext, task->nwords * WORD_BYTES);
		}
		/* the check of a round knows nothing of the total */
		if (result.npairs == 0 || result.npairs > task->nwords - n)
		{
			*reason = HJG_REASON_BAD_RESULT;
			return false;
		}
		memcpy(task->words + n, result.pairs, result.npairs * WORD_BYTES);
		n += result.npairs;
		if (n == task->nwords)
			break;
		hjg_job_batch_submit(job, batch);
	}
	pfree(memory.space);
	return true;
}

/* Estimate the words of the result. */
static uint64
expected_words(const HjgProgramTask *task)
{
	return 1 + Min(task->expected_groups, HJG_MAX_PROBE_ROWS) * task->group_words;
}

/* Lease a job, which is released by the caller in any case, and start the program; false and a reason if that is not possible. */
static bool
start_program(const HjgProgramTask *task, HjgJob **job, int *batch, HjgReason *reason)
{
	HjgJoinSpec spec = {.key_width = WORD_BYTES, .mode = HJG_MATCH_PROGRAM, .nthreads = hjg_cpu_threads};

	*job = hjg_job_lease(&spec, task->device, reason);
	if (*job == NULL)
		return false;
	/* where a GPU is gone, threads run its program */
	if (hjg_job_device(*job).kind != HJG_KIND_CUDA && hjg_job_device(*job).kind != HJG_KIND_CPU)
	{
		*reason = HJG_REASON_NO_DEVICE;
		return false;
	}
	if (!send_program(*job, task, reason))
		return false;
	*batch = hjg_job_batch_open(*job, Min(expected_words(task), MOST_SLABS * (uint64) hjg_page_pairs(spec.payload)), reason);
	if (*batch < 0)
	{
		/* a new job has free batches, unless the device half is damaged */
		if (*reason == HJG_REASON_NONE)
			*reason = HJG_REASON_BAD_RESULT;
		return false;
	}
	hjg_job_batch_submit(*job, *batch);
	return true;
}

bool
hjg_job_run_programs(HjgProgramTask *tasks, int ntasks, HjgJobStats *stats, HjgReason *reason)
{
	HjgJob	   *jobs[HJG_MAX_DEVICES] = {NULL};
	int			batches[HJG_MAX_DEVICES];
	int			nstarted = 0;
	int			ndone = 0;

	*stats = (HjgJobStats) {0};
	while (nstarted < ntasks && start_program(&tasks[nstarted], &jobs[nstarted], &batches[nstarted], reason))
		nstarted++;
	while (nstarted == ntasks && ndone < ntasks && receive_words(jobs[ndone], batches[ndone], &tasks[ndone], reason))
		ndone++;
	for (int i = 0; i < ntasks && jobs[i] != NULL; i++)
	{
		HjgJobStats of_job;

		if (ndone == ntasks && *reason == HJG_REASON_NONE)
			*reason = hjg_job_device_fallback(jobs[i]);
		hjg_job_stats(jobs[i], &of_job);
		hjg_stats_add(stats, &of_job);
		hjg_job_release(jobs[i]);
	}
	return ndone == ntasks;
}
