/*
 * node_fallback.c
 *	  Reports and counters of joins that the device process does not run, or runs on another engine.
 */
#include "postgres.h"

#include "base/hjg_base.h"
#include "node/hjg_aggregate.h"
#include "node/hjg_run_private.h"

StaticAssertDecl(HJG_REASON_COUNT <= 32, "a bit for each reason");

/* Raise an error, or log that the backend goes on. */
static void
say_reason(const char *what, HjgReason reason, const char *goes_on)
{
	const HjgReasonFacts *facts = &hjg_reasons[reason];

	ereport(hjg_on_fallback == HJG_FALLBACK_ERROR ? ERROR : LOG,
			(errcode(facts->sqlstate),
			 errmsg("%s could not run in the device process: %s", what, facts->text),
			 hjg_on_fallback == HJG_FALLBACK_ERROR ?
			 errdetail("hjoin_gpu.on_fallback is \"error\".") :
			 errdetail("%s", goes_on),
			 errhint("%s", facts->hint)));
}

/* Count a fallback each time, but log each reason once: a join may have a thousand build passes and executions. */
static void
report_reason(HjgReport *report, HjgReason reason, const char *goes_on)
{
	const uint32 bit = (uint32) 1 << reason;

	report->fallback = reason;
	hjg_service_count_fallback(reason);
	if (hjg_on_fallback == HJG_FALLBACK_SILENT || (hjg_on_fallback == HJG_FALLBACK_LOG && (report->told & bit) != 0))
		return;
	report->told |= bit;
	say_reason("hash join", reason, goes_on);
}

void
hjg_program_report_fallback(HjgReason reason, bool in_device_process)
{
	hjg_service_count_fallback(reason);
	if (hjg_on_fallback != HJG_FALLBACK_SILENT)
		say_reason("grouping", reason, in_device_process ? "The device process goes on with its threads." :
				   "The query goes on with the plan that has no program.");
}

void
hjg_run_report_fallback(HjgReport *report, HjgReason reason)
{
	report_reason(report, reason, "The backend goes on with its own engine.");
}

void
hjg_run_fall_back(HjgRun *run, HjgReason reason)
{
	run->reason = reason;
	if (run->job != NULL)
		run->job_lost = true;
	hjg_run_report_fallback(run->execution->report, reason);
}

void
hjg_run_note_device_fallback(HjgRun *run)
{
	HjgReason	reason = hjg_job_device_fallback(run->job);

	if (run->device_fallback || reason == HJG_REASON_NONE)
		return;
	run->device_fallback = true;
	report_reason(run->execution->report, reason, "The device process goes on with its cpu engine.");
}
