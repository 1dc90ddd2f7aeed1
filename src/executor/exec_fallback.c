/*
 * exec_fallback.c
 *	  What is said and counted when the device process does not join, or not as asked.
 */
#include "postgres.h"

#include "base/hjg_base.h"
#include "executor/hjg_run.h"

static int
reason_sqlstate(HjgReason reason)
{
	switch (reason)
	{
		case HJG_REASON_NO_SLOT:
			return ERRCODE_INSUFFICIENT_RESOURCES;
		case HJG_REASON_ARENA_FULL:
		case HJG_REASON_BACKEND_SHARE:
		case HJG_REASON_ROLE_SHARE:
			return ERRCODE_CONFIGURATION_LIMIT_EXCEEDED;
		case HJG_REASON_BAD_RESULT:
		case HJG_REASON_DISTRUSTED:
			return ERRCODE_DATA_CORRUPTED;
		case HJG_REASON_ENGINE_ERROR:
		case HJG_REASON_DEVICE_MEMORY:
			return ERRCODE_OUT_OF_MEMORY;
		case HJG_REASON_DEVICE_REFUSED:
			return ERRCODE_SYSTEM_ERROR;
		default:
			return ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
	}
}

static const char *
reason_hint(HjgReason reason)
{
	switch (reason)
	{
		case HJG_REASON_NO_ARENA:
			return "Add hjoin_gpu to shared_preload_libraries and restart the server.";
		case HJG_REASON_NO_DEVICE:
			return "See the view hjoin_gpu_devices for values of hjoin_gpu.device.";
		case HJG_REASON_ARENA_FULL:
			return "Raise hjoin_gpu.arena_size.";
		case HJG_REASON_BACKEND_SHARE:
			return "Raise hjoin_gpu.backend_share or hjoin_gpu.arena_size, or close cursors.";
		case HJG_REASON_ROLE_SHARE:
			return "Raise hjoin_gpu.role_share or hjoin_gpu.arena_size, or let fewer sessions of the role join at a time.";
		case HJG_REASON_DEVICE_MEMORY:
			return "Raise hjoin_gpu.device_memory, or let fewer sessions join at a time.";
		case HJG_REASON_DEVICE_REFUSED:
			return "See the view hjoin_gpu_devices and the server log.";
		case HJG_REASON_DISTRUSTED:
			return "The server log names the join; hjoin_gpu_stat_reset() switches joins on again.";
		case HJG_REASON_DEVICE_TIMEOUT:
			return "Raise hjoin_gpu.device_timeout if the machine is merely busy.";
		default:
			return "The server log says more about the device process.";
	}
}

StaticAssertDecl(HJG_REASON_COUNT <= 32, "a bit for each reason");

/* Counted each time, and logged once for each reason: a join may have a thousand loads, and be executed as often. */
static void
tell(HjgReport *report, HjgReason reason, const char *goes_on)
{
	const uint32 bit = (uint32) 1 << reason;

	report->fallback = reason;
	hjg_service_count_fallback(reason);
	if (hjg_on_fallback == HJG_FALLBACK_SILENT || (hjg_on_fallback == HJG_FALLBACK_LOG && (report->told & bit) != 0))
		return;
	report->told |= bit;
	ereport(hjg_on_fallback == HJG_FALLBACK_ERROR ? ERROR : LOG,
			(errcode(reason_sqlstate(reason)),
			 errmsg("hash join could not run in the device process: %s", hjg_reason_text(reason)),
			 hjg_on_fallback == HJG_FALLBACK_ERROR ?
			 errdetail("hjoin_gpu.on_fallback is \"error\".") :
			 errdetail("%s", goes_on),
			 errhint("%s", reason_hint(reason))));
}

void
hjg_run_tell_fallback(HjgReport *report, HjgReason reason)
{
	tell(report, reason, "The backend goes on with its own engine.");
}

void
hjg_run_fall_back(HjgRun *run, HjgReason reason)
{
	run->reason = reason;
	if (run->job != NULL)
		run->job_lost = true;
	hjg_run_tell_fallback(run->report, reason);
}

void
hjg_run_note_takeover(HjgRun *run)
{
	HjgReason	reason = hjg_job_takeover(run->job);

	if (run->takeover || reason == HJG_REASON_NONE)
		return;
	run->takeover = true;
	tell(run->report, reason, "The device process goes on with its cpu engine.");
}
