/*
 * service_autocalibrate.c
 *	  The supervisor has the unit costs measured on a machine where that was never done, while the machine is idle.
 *
 * A background worker measures (calibrate_worker.c), because that takes a database and the supervisor has none. It is started
 * once a minute at most, and seldom if it does not come to an end, as on a machine that became busy meanwhile.
 */
#include "postgres.h"

#include <sched.h>
#include <stdlib.h>

#include "postmaster/bgworker.h"

#include "base/hjg_base.h"
#include "service/hjg_service.h"
#include "service/hjg_service_private.h"

#define LOOK_MS 60000			/* between two looks */
#define REPEAT_MS (15 * 60000)	/* from the first measurement that came to no end; doubles each time */
#define IDLE_LOAD 0.15			/* processes that run or wait for a processor, by processor, in the last minute */

/* A quarter of the machine's memory, at least: measuring takes 300 MB for a moment. */
#define LEAST_QUARTER_BYTES ((size_t) 512 * 1024 * 1024)

static BackgroundWorkerHandle *calibrator = NULL;

/* Start the worker; false if the server has no room for one. */
static bool
start_calibrator(void)
{
	BackgroundWorker worker;

	hjg_base_describe_worker(&worker, "hjoin_gpu calibration", "hjg_calibrator_main", BgWorkerStart_ConsistentState);
	worker.bgw_flags |= BGWORKER_BACKEND_DATABASE_CONNECTION;
	return RegisterDynamicBackgroundWorker(&worker, &calibrator);
}

static bool
is_running(void)
{
	pid_t		pid;

	if (calibrator == NULL)
		return false;
	if (GetBackgroundWorkerPid(calibrator, &pid) != BGWH_STOPPED)
		return true;
	pfree(calibrator);
	calibrator = NULL;
	return false;
}

/* Has the machine nothing to do, and memory to spare? */
static bool
is_idle(void)
{
	HjgMachine	machine;
	double		load;

	hjg_machine_here(&machine);
	return !hjg_slot_any_leased(&hjg_arena_map.view) && getloadavg(&load, 1) == 1 && load <= IDLE_LOAD * machine.cpus &&
		hjg_arena_default_bytes("") >= LEAST_QUARTER_BYTES;
}

void
hjg_autocalibrate_look(uint64 now_ns)
{
	static uint64 next_ns = 0;
	static uint64 repeat_ms = REPEAT_MS;
	const bool	at_start = hjg_auto_calibrate == HJG_AUTO_CALIBRATE_START;

	if (hjg_auto_calibrate == HJG_AUTO_CALIBRATE_OFF || !hjg_enabled || now_ns < next_ns || hjg_service_calibration_version() != 0)
		return;
	next_ns = now_ns + (uint64) LOOK_MS * 1000000;
	if (is_running() || !(at_start || is_idle()) || !start_calibrator())
		return;
	next_ns = now_ns + repeat_ms * 1000000;
	repeat_ms *= 2;
}
