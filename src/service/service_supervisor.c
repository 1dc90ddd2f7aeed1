/*
 * service_supervisor.c
 *	  The background worker that keeps a device process running.
 *
 * It starts the device process, passes wake-ups from it to the latches of waiting processes, notices its death or its
 * silence, and restarts it, with growing pauses while it keeps dying. It releases the resources of abandoned jobs, and
 * returns the memory of idle slabs to the system. It has no database connection, so it runs on a hot standby, too, and it
 * loads no driver.
 *
 * Death. The socket to the device process ends, the process is reaped, and only then the arena's epoch is incremented. From
 * then on nobody writes to the jobs of the old epoch, so their owners may release them.
 *
 * Sleep. While jobs are leased it checks a few times a second; otherwise it sleeps until a job is leased
 * (hjg_supervisor_watch()).
 */
#include "postgres.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/procsignal.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "arena/hjg_arena_pg.h"
#include "base/hjg_base.h"
#include "service/hjg_service.h"
#include "service/hjg_service_private.h"

#define BACKOFF_MIN_MS 100
#define BACKOFF_MAX_MS 30000
#define HEALTHY_MS 1000			/* a life of this length resets the pauses */
#define START_TIMEOUT_MS 60000	/* drivers may take long */
#define SLAB_IDLE_MS 5000
#define WARM_SLABS 16			/* of each use */
#define TRIM_MS 200				/* the interval, and the slabs that are trimmed in it: waiters must not wait for that */
#define TRIM_SLABS 32
#define TICK_MS 250
#define ASLEEP_MS 60000
#define OWNERS_MS 5000			/* between two searches for owners that have ended */

PGDLLEXPORT void hjg_supervisor_main(Datum arg);

static pid_t device_pid = 0;	/* 0: none */
static int	device_socket = -1;
static WaitEventSet *wait_set = NULL;
static bool device_ready;
static HjgDownCause killed_for; /* why it was killed from here; 0: it was not */
static uint32 killed_detail;
static uint64 started_ns;
static uint64 next_start_ns;
static uint64 backoff_ms = BACKOFF_MIN_MS;

/* heartbeat */
static uint64 last_beat;
static uint64 last_beat_ns;
static bool last_work;

const char *
hjg_down_text(HjgDownCause cause, uint32 detail)
{
	static char text[128];

	switch (cause)
	{
		case HJG_DOWN_NOT_STARTED:
			return "not started";
		case HJG_DOWN_STARTING:
			return "starting";
		case HJG_DOWN_NO_PROGRAM:
			snprintf(text, sizeof(text), "could not be started: %s", strerror((int) detail));
			return text;
		case HJG_DOWN_EXITED:
			snprintf(text, sizeof(text), "exited with exit code %u", detail);
			return text;
		case HJG_DOWN_SIGNALLED:
			snprintf(text, sizeof(text), "was terminated by signal %u: %s", detail, pg_strsignal((int) detail));
			return text;
		case HJG_DOWN_HUNG:
			return "was killed because it showed no sign of life";
		case HJG_DOWN_DISTRUSTED:
			return detail == HJG_DISTRUST_SILENT ? "was killed because it did not get on with a join" :
				"was killed because a result of it failed its check";
	}
	return "unknown";
}

static void
set_down(HjgDownCause cause, uint32 detail)
{
	__atomic_store_n(&hjg_arena_map.control->down_detail, detail, __ATOMIC_RELAXED);
	__atomic_store_n(&hjg_arena_map.control->down_cause, cause, __ATOMIC_RELAXED);
}

/* Begin the next epoch; the old process must be dead. */
static void
next_epoch(void)
{
	HjgControl *control = hjg_arena_map.control;

	__atomic_store_n(&control->device_pid, 0, __ATOMIC_RELAXED);
	hjg_slab_clear_holds(&hjg_arena_map);
	__atomic_fetch_add(&control->epoch, 1, __ATOMIC_SEQ_CST);
	for (uint32 ix = 0; ix < HJG_MAX_JOBS; ix++)
		hjg_wake_waiters(ix);
}

static void
make_wait_set(void)
{
	if (wait_set != NULL)
		FreeWaitEventSet(wait_set);
	wait_set = HJG_WAIT_SET_CREATE(3);
	AddWaitEventToSet(wait_set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(wait_set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	if (device_socket >= 0)
		AddWaitEventToSet(wait_set, WL_SOCKET_READABLE, device_socket, NULL, NULL);
}

static void
close_socket(void)
{
	if (device_socket < 0)
		return;
	close(device_socket);
	device_socket = -1;
	make_wait_set();
}

/* Plan the next start, with growing pauses while it keeps failing. */
static void
plan_start(uint64 now)
{
	next_start_ns = now + backoff_ms * 1000000;
	backoff_ms = Min(backoff_ms * 2, BACKOFF_MAX_MS);
}

static void
start_device(uint64 now)
{
	static int	last_error = 0;
	HjgControl *control = hjg_arena_map.control;
	const char *step;
	int			error;
	pid_t		pid;

	pid = hjg_spawn_device(&device_socket, &step, &error);
	if (pid < 0)
	{
		set_down(HJG_DOWN_NO_PROGRAM, (uint32) error);
		if (error != last_error)
		{
			errno = error;
			ereport(LOG,
					(errcode_for_file_access(),
					 errmsg("could not %s the hjoin_gpu device process \"%s\": %m", step, hjg_spawn_path()),
					 errdetail("Joins run in the backends meanwhile."),
					 errhint("Install the program beside the server program, or set hjoin_gpu.device_program.")));
		}
		last_error = error;
		plan_start(now);
		return;
	}
	last_error = 0;
	device_pid = pid;
	device_ready = false;
	killed_for = 0;
	started_ns = last_beat_ns = now;
	set_down(HJG_DOWN_STARTING, 0);
	__atomic_store_n(&control->device_pid, (uint32) pid, __ATOMIC_RELAXED);
	__atomic_store_n(&control->device_started_us, hjg_wall_us(), __ATOMIC_RELAXED);
	hjg_service_count(HJG_COUNT_DEVICE_STARTS, 1);
	make_wait_set();
}

/* Report the end of the device process, if it has ended, and begin the next epoch. */
static void
reap_device(uint64 now)
{
	HjgDownCause cause;
	uint32		detail = 0;
	int			status;
	bool		missing;
	pid_t		pid = waitpid(device_pid, &status, WNOHANG);

	if (pid == 0 || (pid < 0 && errno == EINTR))
		return;
	if (pid < 0)
	{
		cause = HJG_DOWN_EXITED;	/* another process reaped it: cannot happen */
	}
	else if (WIFSIGNALED(status))
	{
		cause = killed_for != 0 ? killed_for : HJG_DOWN_SIGNALLED;
		detail = killed_for != 0 ? killed_detail : (uint32) WTERMSIG(status);
	}
	else
	{
		cause = HJG_DOWN_EXITED;
		detail = WEXITSTATUS(status);
	}
	missing = cause == HJG_DOWN_EXITED && (detail == 126 || detail == 127);
	set_down(cause, detail);
	hjg_service_count(HJG_COUNT_DEVICE_DEATHS, 1);
	if (cause == HJG_DOWN_DISTRUSTED)
		hjg_service_blame(__atomic_load_n(&hjg_arena_map.control->distrusted_device, __ATOMIC_RELAXED));
	close_socket();
	next_epoch();
	if (device_ready && now - started_ns > (uint64) HEALTHY_MS * 1000000)
		backoff_ms = BACKOFF_MIN_MS;
	ereport(LOG,
			(errmsg("hjoin_gpu device process (PID %d) %s", (int) device_pid, hjg_down_text(cause, detail)),
			 errdetail("It is started again in %llu ms; joins run in the backends meanwhile.",
					   (unsigned long long) backoff_ms),
			 missing ? errhint("Check that \"%s\" is a program for this system.", hjg_spawn_path()) : 0));
	device_pid = 0;
	device_ready = false;
	plan_start(now);
}

/*
 * Discard bytes of the device process, which only wake; its requests are in the arena. Reads once, because it may send
 * without end.
 */
static void
drain_socket(void)
{
	char		bytes[4096];
	ssize_t		n;

	if (device_socket < 0)
		return;
	n = recv(device_socket, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
	{
		/* it is ending; kill it to be sure */
		kill(device_pid, SIGKILL);
		close_socket();
	}
}

static void
check_ready(void)
{
	const uint32 epoch = __atomic_load_n(&hjg_arena_map.control->epoch, __ATOMIC_SEQ_CST);

	if (device_ready || __atomic_load_n(&hjg_arena_map.view.block->says_ready_epoch, __ATOMIC_SEQ_CST) != epoch)
		return;
	device_ready = true;
	__atomic_store_n(&hjg_arena_map.control->ready_epoch, epoch, __ATOMIC_SEQ_CST);
	ereport(LOG, (errmsg("hjoin_gpu device process (PID %d) is ready", (int) device_pid)));
}

static void
kill_device(HjgDownCause cause, uint32 detail)
{
	if (killed_for != 0)
		return;
	killed_for = cause;
	killed_detail = detail;
	hjg_service_count(HJG_COUNT_DEVICE_KILLS, 1);
	kill(device_pid, SIGKILL);
}

/*
 * Kill a device process that has work and makes no progress. The time counts from when the work was first seen here: before
 * that the supervisor may have slept.
 */
static void
check_beat(uint64 now)
{
	HjgDeviceBlock *block = hjg_arena_map.view.block;
	uint64		beat = __atomic_load_n(&block->beat, __ATOMIC_SEQ_CST);
	bool		work = !device_ready || hjg_doorbell_pending(&hjg_arena_map.view) ||
		__atomic_load_n(&block->busy, __ATOMIC_SEQ_CST) > 0;
	uint64		timeout_ms = device_ready ? hjg_device_timeout_ms : Max(START_TIMEOUT_MS, hjg_device_timeout_ms);
	bool		had_work = last_work;

	last_work = work;
	if (beat != last_beat || !work || !had_work)
	{
		last_beat = beat;
		last_beat_ns = now;
	}
	else if (now - last_beat_ns > timeout_ms * 1000000)
		kill_device(HJG_DOWN_HUNG, 0);
}

/*
 * Kill a device process that a backend distrusts, or that does not stop working on cancelled jobs: the memory that it writes
 * to may belong to another job soon.
 */
static void
check_distrust(int nabandoned)
{
	HjgControl *control = hjg_arena_map.control;
	uint64		word = __atomic_load_n(&control->distrusted, __ATOMIC_SEQ_CST);

	if (HJG_WORD_STATE(word) != 0 && HJG_WORD_GENERATION(word) == __atomic_load_n(&control->epoch, __ATOMIC_SEQ_CST))
		kill_device(HJG_DOWN_DISTRUSTED, HJG_WORD_STATE(word));
	else if (nabandoned > 0 && hjg_slot_overdue(&hjg_arena_map, (uint64) hjg_device_timeout_ms * 2 * 1000000))
		kill_device(HJG_DOWN_DISTRUSTED, HJG_DISTRUST_SILENT);
}

static bool
owner_alive(hjg_u32 pid, void *arg)
{
	return kill((pid_t) pid, 0) == 0 || errno != ESRCH;
}

/*
 * Release the jobs that nobody holds any more: abandoned jobs at once. Owners that ended without a release are possible only
 * after a crash of the server, so they are searched for now and then. Returns the number of abandoned jobs that must still
 * wait.
 */
static int
sweep_jobs(uint64 now)
{
	static uint64 owners_ns = 0;
	bool		owners = now - owners_ns > (uint64) OWNERS_MS * 1000000;
	int			nreturned;
	int			nleft;

	if (owners)
		owners_ns = now;
	else if (__atomic_load_n(&hjg_arena_map.control->sweep_wanted, __ATOMIC_SEQ_CST) == 0)
		return 0;
	nleft = hjg_slot_sweep(&hjg_arena_map, owners ? owner_alive : NULL, NULL, &nreturned);
	if (nreturned > 0)
		hjg_wake_next();
	return nleft;
}

/* Compute the time to sleep, and set the flag that asks backends for a wake-up when work begins. */
static long
sleep_limit_ms(uint64 now, int nabandoned)
{
	HjgControl *control = hjg_arena_map.control;
	long		ms = Min(TICK_MS, Max(hjg_device_timeout_ms / 8, 10));

	if (device_pid != 0 && device_socket < 0)
		return 5;				/* dying */
	if (device_pid == 0)
		return next_start_ns <= now ? 0 : Min(ms, (long) ((next_start_ns - now) / 1000000) + 1);
	if (nabandoned > 0)
		return 20;
	if (!device_ready || hjg_slab_nwarm(&hjg_arena_map) > WARM_SLABS * HJG_SLAB_USES)
		return ms;

	__atomic_store_n(&control->supervisor_asleep, 1, __ATOMIC_SEQ_CST);
	if (hjg_slot_any_leased(&hjg_arena_map.view) || hjg_doorbell_pending(&hjg_arena_map.view))
	{
		__atomic_store_n(&control->supervisor_asleep, 0, __ATOMIC_SEQ_CST);
		return ms;
	}
	return ASLEEP_MS;
}

static void
supervisor_exit(int code, Datum arg)
{
	__atomic_store_n(&hjg_arena_map.control->supervisor_pid, 0, __ATOMIC_SEQ_CST);
	if (device_pid != 0)
		kill(device_pid, SIGKILL);
}

/*
 * Wait until no device process of an earlier supervisor is left. The kernel ended it with that supervisor, which is no
 * failure of the device it worked on (device_health.c).
 */
static void
outlive_old_device(void)
{
	HjgControl *control = hjg_arena_map.control;
	uint32		old = __atomic_load_n(&control->device_pid, __ATOMIC_RELAXED);

	if (old == 0)
		return;
	while (!hjg_spawn_none_alive())
	{
		/* the kernel kills it, because its parent has ended */
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 10, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ShutdownRequestPending)
			proc_exit(1);
	}
	for (int i = 0; i < HJG_MAX_DEVICES; i++)
		__atomic_store_n(&hjg_arena_map.view.block->health[i].in_use, 0, __ATOMIC_SEQ_CST);
	next_epoch();
}

void
hjg_supervisor_main(Datum arg)
{
	HjgControl *control = hjg_arena_map.control;
	uint64		trim_ns = 0;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	if (hjg_arena_map.base == NULL)
		proc_exit(0);			/* do not restart: the postmaster has warned */

	before_shmem_exit(supervisor_exit, (Datum) 0);
	__atomic_store_n(&control->supervisor_pgprocno, HJG_MY_PROCNO, __ATOMIC_SEQ_CST);
	__atomic_store_n(&control->supervisor_pid, (uint32) MyProcPid, __ATOMIC_SEQ_CST);
	hjg_service_calibration_load();
	outlive_old_device();
	make_wait_set();

	for (;;)
	{
		WaitEvent	event;
		uint64		now = hjg_now_ns();
		int			nabandoned;

		__atomic_store_n(&control->supervisor_asleep, 0, __ATOMIC_SEQ_CST);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ShutdownRequestPending)
			proc_exit(1);
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}

		drain_socket();
		hjg_wake_relayed();
		if (device_pid != 0)
		{
			check_ready();
			check_beat(now);
			if (device_socket < 0)
				reap_device(now);
		}
		if (device_pid == 0 && next_start_ns <= now)
			start_device(now);
		nabandoned = sweep_jobs(now);
		if (device_pid != 0)
			check_distrust(nabandoned);
		if (now - trim_ns > (uint64) TRIM_MS * 1000000)
		{
			hjg_slab_trim(&hjg_arena_map, SLAB_IDLE_MS, WARM_SLABS, TRIM_SLABS);
			trim_ns = now;
		}
		if (device_ready)
			hjg_autocalibrate_look(now);

		(void) WaitEventSetWait(wait_set, sleep_limit_ms(now, nabandoned), &event, 1, PG_WAIT_EXTENSION);
	}
}

void
hjg_service_init(int (*open_kept) (void))
{
	BackgroundWorker worker;

	hjg_spawn_init(open_kept);
	hjg_arena_init(hjg_arena_size_mb);
	hjg_base_describe_worker(&worker, "hjoin_gpu supervisor", "hjg_supervisor_main", BgWorkerStart_PostmasterStart);
	worker.bgw_restart_time = 1;
	RegisterBackgroundWorker(&worker);
}
