/*
 * service_program.c
 *	  Runs a program (hjg_program.h) in the device process: sends its block, and receives the words of its result.
 */
#include "postgres.h"

#include "service/hjg_service.h"
#include "service/hjg_service_private.h"

#define WORD_BYTES sizeof(hjg_u64)

StaticAssertDecl(sizeof(HjgPair) == WORD_BYTES, "a pair is a word");

/* Result slabs of a batch, at most; a longer result comes in several rounds. */
#define MOST_SLABS 8

/* Send the program as the build side; false and a reason if there is no slab. */
static bool
send_program(HjgJob *job, const HjgProgramPart *parts, HjgReason *reason)
{
	const uint32 slab_words = hjg_input_rows(job->spec.key_width, 0);
	uint64	   *slab = NULL;
	uint32		slab_ix = 0;
	uint32		used = 0;		/* words of the slab, */
	uint32		first = 0;		/* and of those before it */

	for (int p = 0; p < HJG_PROGRAM_PARTS; p++)
		for (uint64 done = 0, n; done < parts[p].nwords; done += n)
		{
			if (slab == NULL)
				slab = hjg_job_slab(job, &slab_ix, reason);
			if (slab == NULL)
				return false;
			n = Min(parts[p].nwords - done, slab_words - used);
			memcpy(slab + used, parts[p].words + done, n * WORD_BYTES);
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
total_words(const HjgProgram *head, uint64 ngroups)
{
	const uint64 group_words = hjg_program_group_words(head->nkeys, head->arguments.n);

	return ngroups > head->max_groups || ngroups > (PG_UINT32_MAX - 1) / group_words ? 0 : 1 + ngroups * group_words;
}

/* Receive the result; NULL and a reason if there is none. */
static uint64 *
receive_words(HjgJob *job, int batch, const HjgProgram *head, uint64 *nwords, HjgReason *reason)
{
	HjgRoundMemory memory = {.context = CurrentMemoryContext};
	uint64	   *words = NULL;
	uint64		total = 0;
	uint64		n = 0;

	do
	{
		HjgBatchResult result;

		hjg_job_batch_submit(job, batch);
		*reason = hjg_job_batch_wait(job, batch, &memory, &result);
		if (*reason != HJG_REASON_NONE)
			return NULL;
		if (words == NULL && result.npairs > 0)
		{
			total = total_words(head, *(const uint64 *) result.pairs);
			if (total == 0)
			{
				*reason = HJG_REASON_PROGRAM_REFUSED;
				return NULL;
			}
			words = MemoryContextAllocHuge(CurrentMemoryContext, total * WORD_BYTES);
		}
		/* the check of a round knows nothing of the total */
		if (result.npairs == 0 || result.npairs > total - n)
		{
			*reason = HJG_REASON_BAD_RESULT;
			return NULL;
		}
		memcpy(words + n, result.pairs, result.npairs * WORD_BYTES);
		n += result.npairs;
	} while (n < total);
	pfree(memory.space);
	*nwords = total;
	return words;
}

/* Estimate the words of the result. */
static uint64
expected_words(const HjgProgram *head)
{
	const uint64 ngroups = Min(head->expected_groups, HJG_MAX_PROBE_ROWS);

	return 1 + ngroups * hjg_program_group_words(head->nkeys, head->arguments.n);
}

uint64 *
hjg_job_run_program(const HjgProgramPart *parts, HjgDeviceId device, uint64 *nwords, HjgJobStats *stats, HjgReason *reason)
{
	const HjgProgram *head = (const HjgProgram *) parts[0].words;
	HjgJoinSpec spec = {.key_width = WORD_BYTES, .mode = HJG_MATCH_PROGRAM};
	HjgJob	   *job = hjg_job_lease(&spec, device, reason);
	uint64	   *words = NULL;

	*stats = (HjgJobStats) {0};
	if (job == NULL)
		return NULL;
	if (hjg_job_device(job).kind != HJG_KIND_CUDA)
		*reason = HJG_REASON_NO_DEVICE;
	else if (send_program(job, parts, reason))
	{
		const uint64 most_pairs = MOST_SLABS * (uint64) hjg_page_pairs(spec.payload);
		const int	batch = hjg_job_batch_open(job, Min(expected_words(head), most_pairs), reason);

		if (batch >= 0)
			words = receive_words(job, batch, head, nwords, reason);
		else if (*reason == HJG_REASON_NONE)
			*reason = HJG_REASON_BAD_RESULT;	/* a new job has free batches, unless the device half is damaged */
	}
	hjg_job_stats(job, stats);
	hjg_job_release(job);
	if (words != NULL)
		hjg_service_count(HJG_COUNT_PROGRAMS, 1);
	return words;
}
