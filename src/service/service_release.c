/*
 * service_release.c
 *	  Releases jobs, for their user or from the callbacks of errors and exits.
 *
 * If the device process cannot access the job any more, slabs and slot are released at once. Otherwise the job is marked
 * abandoned: the engine sees the cancel flag at its next poll, the device process tells the supervisor that it has stopped,
 * and the supervisor releases everything. The backend does not wait for that.
 *
 * An attached handle releases its own batches and the slabs that it has not added to an operation. A running round and the
 * build side must stay, and are released with the job; so the owner of a shared job releases all slabs of the job.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"

#include "service/hjg_service.h"
#include "service/hjg_service_private.h"

/* All jobs of this process. */
static dlist_head leased_jobs = DLIST_STATIC_INIT(leased_jobs);

static void
release_slabs(HjgJob *job, HjgHeldList *list)
{
	for (int i = 0; i < list->n; i++)
		hjg_slab_release(&hjg_arena_map, list->slabs[i], job->slab_owner);
	list->n = 0;
}

static void
free_list(HjgHeldList *list)
{
	if (list->slabs != NULL)
		pfree(list->slabs);
	list->slabs = NULL;
}

/* Release the job itself. */
static void
release_owned(HjgJob *job)
{
	if (hjg_slot_quiesce(&hjg_arena_map, job->slot, job->generation))
	{
		if (job->shared)
			hjg_slab_release_all(&hjg_arena_map, job->slab_owner);
		release_slabs(job, &job->unassigned);
		release_slabs(job, &job->build);
		for (int b = 0; b < HJG_MAX_BATCHES; b++)
		{
			release_slabs(job, &job->batches[b].inputs);
			release_slabs(job, &job->batches[b].results);
		}
		hjg_arena_share_clear(hjg_service_share(), job->job_ix);
		hjg_slot_free(&hjg_arena_map, job->slot, job->generation, HJG_JOB_SWEEPING);
		hjg_wake_next();
		/* the device process may keep a hash table for it */
		if (job->submitted || job->shared)
			hjg_doorbell_ring(&hjg_arena_map.view, job->job_ix);
	}
	else if (hjg_slot_abandon(&hjg_arena_map, job->slot, job->generation))
	{
		hjg_service_count(HJG_COUNT_CANCELLED_JOBS, 1);
		hjg_supervisor_wake();
	}
}

void
hjg_job_release(HjgJob *job)
{
	if (job == NULL)
		return;
	dlist_delete(&job->node);
	if (job->attached)
	{
		for (int b = 0; b < HJG_MAX_BATCHES; b++)
			if (job->batches[b].open)
				hjg_job_batch_close(job, b);
		hjg_arena_share_count(hjg_service_share(), job->job_ix, -job->unassigned.n);
		release_slabs(job, &job->unassigned);
	}
	hjg_slot_leave(job->slot, job->participant, (uint32) MyProcPid);
	if (!job->attached)
		release_owned(job);
	else if (!hjg_slot_leased(job->slot, job->generation))
		hjg_supervisor_wake();	/* the supervisor may wait for this handle only */

	free_list(&job->unassigned);
	free_list(&job->build);
	for (int b = 0; b < HJG_MAX_BATCHES; b++)
	{
		free_list(&job->batches[b].inputs);
		free_list(&job->batches[b].results);
		if (job->batches[b].pages != NULL)
			pfree(job->batches[b].pages);
	}
	pfree(job);
}

/* Release the jobs of a transaction or subtransaction that aborts, or of a portal that ends. */
static void
release_of_owner(ResourceReleasePhase phase, bool isCommit, bool isTopLevel, void *arg)
{
	dlist_mutable_iter iter;

	if (phase != RESOURCE_RELEASE_BEFORE_LOCKS)
		return;
	dlist_foreach_modify(iter, &leased_jobs)
	{
		HjgJob	   *job = dlist_container(HjgJob, node, iter.cur);

		if (job->resowner != CurrentResourceOwner)
			continue;
		if (isCommit)
			elog(WARNING, "hjoin_gpu: job slot %u was not released", job->job_ix);
		hjg_job_release(job);
	}
}

/* Release all jobs at the end of the process, normal or by a FATAL error. */
static void
release_all(int code, Datum arg)
{
	hjg_turn_leave();
	while (!dlist_is_empty(&leased_jobs))
		hjg_job_release(dlist_head_element(HjgJob, node, &leased_jobs));
}

/* Add a job with a slot to the list; cannot fail after the first time. */
void
hjg_service_track(HjgJob *job)
{
	job->resowner = CurrentResourceOwner;
	dlist_push_head(&leased_jobs, &job->node);
}

bool
hjg_service_has_jobs(void)
{
	return !dlist_is_empty(&leased_jobs);
}

HjgJob *
hjg_job_of_query(const void *query, HjgJob *after)
{
	dlist_node *node = after == NULL ? &leased_jobs.head : &after->node;

	while ((node = node->next) != &leased_jobs.head)
	{
		HjgJob	   *job = dlist_container(HjgJob, node, node);

		if (job->suspension.query == query)
			return job;
	}
	return NULL;
}

/* Register callbacks before the first lease of this process. */
void
hjg_service_register_callbacks(void)
{
	static bool registered = false;

	if (registered)
		return;
	RegisterResourceReleaseCallback(release_of_owner, NULL);
	before_shmem_exit(release_all, (Datum) 0);
	registered = true;
}
