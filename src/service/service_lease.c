/*
 * service_lease.c
 *	  The beginning of a backend's job: it leases a slot and makes a handle for it.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/memutils.h"

#include "service/hjg_service.h"
#include "service/hjg_service_private.h"

/* Memory for the next handle; an error before its use leaves it for a later job. */
static HjgJob *spare_job = NULL;

void
hjg_service_reserve_job(void)
{
	hjg_service_register_callbacks();
	if (spare_job == NULL)
		spare_job = MemoryContextAlloc(TopMemoryContext, sizeof(HjgJob));
}

HjgJob *
hjg_service_make_job(const HjgJoinSpec *spec, uint32 job_ix, uint32 generation)
{
	HjgJob	   *job = spare_job;

	spare_job = NULL;
	memset(job, 0, sizeof(HjgJob));
	job->role = GetUserId();
	job->job_ix = job_ix;
	job->generation = generation;
	job->slot = hjg_slot_at(&hjg_arena_map, job_ix);
	job->report = hjg_slot_report(&hjg_arena_map, job->slot);
	job->epoch = __atomic_load_n(&job->slot->epoch, __ATOMIC_RELAXED);
	job->slab_owner = hjg_slab_owner(job_ix, generation);
	job->spec = *spec;
	job->build_has_payload = spec->payload.bytes[HJG_SIDE_BUILD] > 0;
	job->owner = hjg_arena_share_owner(hjg_service_share(), job_ix);
	hjg_service_track(job);
	job->participant = hjg_slot_join(job->slot, (uint32) MyProcPid, HJG_MY_PROCNO);
	return job;
}

HjgJob *
hjg_job_lease(HjgJoinSpec *spec, HjgDeviceId wanted, HjgReason *reason)
{
	static uint32 hint = 0;
	HjgArena   *arena = &hjg_arena_map;
	HjgJob	   *job;
	uint32		job_ix;
	uint32		generation;
	HjgTurn		turn = {.kind = HJG_SHARE_SLOT,.owner = hjg_service_share_myself(),.patient = true};
	bool		leased = false;
	int			device_ix;

	if (!hjg_service_available(reason))
		return NULL;
	device_ix = hjg_service_find_device(wanted);
	if (device_ix < 0)
	{
		*reason = HJG_REASON_NO_DEVICE;
		return NULL;
	}
	if (hjg_service_device_id((uint32) device_ix).kind != HJG_KIND_CUDA)
		spec->payload = (HjgPayloadBytes) {{0}};

	hjg_service_reserve_job();
	if (hint == 0)
		hint = HJG_MY_PROCNO;	/* sessions start at different slots */
	while (!leased && hjg_turn_wait(&turn, reason))
		leased = hjg_slot_lease(arena, hint, (uint32) MyProcPid, GetUserId(), &job_ix, &generation);
	if (!leased)
	{
		hjg_turn_end(&turn);
		return NULL;
	}
	hjg_arena_share_enter(hjg_service_share(), job_ix, turn.owner);
	*reason = HJG_REASON_NONE;
	hint = job_ix;

	job = hjg_service_make_job(spec, job_ix, generation);
	hjg_turn_end(&turn);
	/*
	 * The device process may have died since it was seen ready, at the latest while this process waited for a slot. Until the
	 * next device process comes, nobody would run a job of the following epoch, nor would its epoch end.
	 */
	if (__atomic_load_n(&arena->control->ready_epoch, __ATOMIC_SEQ_CST) != job->epoch)
	{
		hjg_job_release(job);
		*reason = HJG_REASON_NO_DEVICE_PROCESS;
		return NULL;
	}
	job->device = hjg_service_device_id((uint32) device_ix);
	job->slot->device_ix = (uint32) device_ix;
	job->slot->spec = *spec;
	hjg_supervisor_watch();
	return job;
}

HjgDeviceId
hjg_job_device(const HjgJob *job)
{
	return job->device;
}
