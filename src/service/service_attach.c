/*
 * service_attach.c
 *	  One job for several processes: its name, and attaching to it.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "service/hjg_service.h"
#include "service/hjg_service_private.h"

HjgJobName
hjg_job_share(HjgJob *job)
{
	job->shared = true;
	return (HjgJobName) {job->job_ix, job->generation};
}

HjgJob *
hjg_job_attach(HjgJobName name, const HjgJoinSpec *spec, HjgReason *reason)
{
	HjgJob	   *job;

	*reason = HJG_REASON_NO_ARENA;
	if (hjg_arena_map.base == NULL || hjg_slot_at(&hjg_arena_map, name.job_ix) == NULL)
		return NULL;
	hjg_service_reserve_job();
	job = hjg_service_make_job(spec, name.job_ix, name.generation);
	job->attached = true;

	/* check that the job exists only after this process is entered as a participant */
	*reason = HJG_REASON_NO_SLOT;
	if (job->participant < 0 || !hjg_slot_leased(job->slot, job->generation))
	{
		hjg_job_release(job);
		return NULL;
	}
	*reason = HJG_REASON_NONE;
	job->device = hjg_service_device_id(__atomic_load_n(&job->slot->device_ix, __ATOMIC_RELAXED));
	return job;
}

void *
hjg_job_slab_at(uint32 slab_ix)
{
	return hjg_arena_map.base != NULL ? hjg_arena_slab_at(&hjg_arena_map, slab_ix) : NULL;
}
