/*
 * hjg_device.h
 *	  The program hjoin_gpu_device: what its files know of each other.
 *
 * Room "device": pure C, many threads, the only place where a driver of a device
 * may ever be loaded.  The program serves one arena, which its supervisor hands
 * over by descriptor, until the socket to the supervisor closes; without
 * arguments for that it is a tool of its own (--list, --self-test).
 *
 * Threads.  All signals are blocked in all of them from before the first one
 * starts.  The main thread waits for the socket's end and for SIGTERM; runners
 * claim operations and run them, sharing one engine pool; the beater says that
 * the process is alive and trims idle memory; the watcher looks for devices.
 */
#ifndef HJG_DEVICE_H
#define HJG_DEVICE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "arena/hjg_arena.h"
#include "engine/hjg_engine.h"

/* ---- device_drivers.c: the table of drivers ---- */

/*
 * One family of devices.  A driver's joins are its own; env and the keys of
 * the build side are valid as long as the join.  build and probe are as in hjg_engine.h and may be called from
 * any runner, for one join, or one branch of it, by one at a time.
 */
typedef struct HjgDriver
{
	HjgDeviceKind kind;
	int			room;			/* most devices that it lists */
	bool		staged;			/* probe() gets pages of private memory, as it does not add its pairs up (HjgResult.sum) */
	/*
	 * Fill in at most room devices; returns how many.  May be called again to see
	 * what has changed: a device keeps its place.
	 */
	int			(*list) (HjgDeviceInfo *devices, int room);
	/*
	 * Not NULL: listing may take long, so it is done by the watcher, again and again.
	 * Housekeeping after each time; returns when to come back, in ms.
	 */
	unsigned	(*tend) (void);
	HjgStatus	(*build) (int device, const HjgEnv *env, const HjgJoinSpec *spec,
						  const HjgSegment *segments, int nsegments, void **join);
	HjgStatus	(*probe) (void *join, const HjgSegment *segments, int nsegments,
						  HjgCursor *cursor, HjgResult *result);
	/*
	 * Not NULL: something else to call probe with, at the same time as with the join and with its other branches, of
	 * which there are less than HJG_MAX_WAYS; env is for these calls.  NULL where the join takes one call at a
	 * time, or there is no memory to spare.  free() of the join ends its branches; stats() of it counts them.
	 */
	void	   *(*branch) (void *join, const HjgEnv *env);
	/* Fill in what the driver knows of it; may be called while others probe. */
	void		(*stats) (const void *join, HjgJobStats *stats);
	void		(*free) (void *join);
} HjgDriver;

/* Operations of one job at a time. */
#define HJG_MAX_WAYS 3

extern const HjgDriver hjg_opencl_driver;	/* device_opencl.c */
extern const HjgDriver hjg_cpu_driver;	/* device_cpu.c */

/* Processors that this process may use. */
extern int	hjg_device_cpus(void);

/*
 * Open all drivers and fill in the arena's or another table of HJG_MAX_DEVICES entries, at
 * places that belong to the drivers; entries between them are absent.  What
 * takes long is left to the watcher, unless all is set.
 */
extern void hjg_drivers_open(HjgDeviceInfo *devices, bool all);
/* Start and stop the thread that looks after drivers with tend(); false when it cannot start. */
extern bool hjg_drivers_watch(HjgDeviceInfo *devices);
extern void hjg_drivers_unwatch(void);
/* Find the driver of a device that was listed, and the device's number within it; or NULL. */
extern const HjgDriver *hjg_driver_of(int device_ix, int *number);

/* ---- device_workspace.c: memory of the engines ---- */

/*
 * Allocate and free as in HjgEnv; freed memory stays with the process for a while.  Memory that
 * is fresh from the system should be touched before it is used.
 */
extern void *hjg_workspace_alloc(size_t bytes, bool *fresh);
extern void hjg_workspace_touch(void *ptr, size_t bytes, HjgPool *pool, bool (*poll) (void *), void *arg);
extern void hjg_workspace_free(void *ptr, size_t bytes);
/* Give back what was not used for idle_ms; returns the bytes still cached. */
extern size_t hjg_workspace_trim(unsigned idle_ms);
extern size_t hjg_workspace_bytes(void);

/* ---- device_wait.c ---- */

/* Make a condition for hjg_wait_ms(). */
extern void hjg_wait_init(pthread_cond_t *cond);
/* Wait for it, with the lock, for so long at most. */
extern void hjg_wait_ms(pthread_cond_t *cond, pthread_mutex_t *lock, unsigned ms);

/* ---- device_health.c: failures of devices, remembered in the device half ---- */

/* NULL: a table of this process's own.  Counts a failure for what a dead process was using. */
extern void hjg_health_open(HjgDeviceBlock *block);
/* Note that this process was told to end: what it uses has not failed. */
extern void hjg_health_excuse(void);
/* Around each operation on the device. */
extern void hjg_health_enter(const char *device);
extern void hjg_health_leave(const char *device);
/* Note a failure, with a message on stderr. */
extern void hjg_health_note(const char *device, const char *text);
/* Do the same where another try would be no use for now: the device rests at once, unless it does so already. */
extern void hjg_health_rest(const char *device, const char *text);
/* Do the same after an error with which the process cannot go on: it ends here. */
extern void hjg_health_fatal(const char *device, const char *text) __attribute__((noreturn));
/* Is the device left alone for now?  Then the reason says how long. */
extern bool hjg_health_resting(const char *device, char *reason, size_t room);

/* ---- device_confine.c: what drivers cannot do in this process ---- */

/*
 * Confine this process, which has one thread, and its children for good: the data directory is out of reach but for
 * the cache directory in it.  Returns HJG_CONFINED_... of what the kernel could do.
 */
extern hjg_u32 hjg_confine(const char *data_dir, const char *cache_dir);
/* Has a GPU appeared that the rules do not know?  Only a new process can open it. */
extern bool hjg_confine_outdated(void);

/* ---- device_fault.c: faults on request, in the program for tests alone ---- */

typedef enum HjgFaultPhase
{
	HJG_FAULT_PHASE_START,
	HJG_FAULT_PHASE_BUILD,
	HJG_FAULT_PHASE_PROBE,
	HJG_FAULT_PHASE_RESULT,
	HJG_FAULT_PHASE_COUNT
} HjgFaultPhase;

typedef enum HjgSpoil
{
	HJG_SPOIL_NOTHING,
	HJG_SPOIL_CORRUPT,			/* change a pair */
	HJG_SPOIL_TRUNCATE,			/* drop a pair */
	HJG_SPOIL_LOSE,				/* the same, before the sums are made */
	HJG_SPOIL_COLUMNS			/* change a gathered column */
} HjgSpoil;

/* Take the faults of the environment; false, with a message on stderr, when they cannot be understood. */
extern bool hjg_fault_open(void);
extern void hjg_fault_help(void);
/* Read a variable of the environment that spoils something for a test; NULL in the program that is installed. */
extern const char *hjg_fault_variable(const char *name);
/* May not return (die, exit, hang) or take long (slow), then with calls of poll. */
extern HjgSpoil hjg_fault_here(HjgFaultPhase phase, bool (*poll) (void *), void *arg);

/* ---- device_scheduler.c ---- */

typedef struct HjgServe
{
	HjgArenaView view;
	int			socket;			/* to the supervisor */
	hjg_u32		epoch;			/* which process of this arena this is */
	int			nthreads;		/* of the engine pool; 0 = one for each CPU */
	bool		list_all;		/* know all devices before the start, however long it takes */
	bool		stopping;		/* atomic */
} HjgServe;

/* Start runners and beater.  False, with a message on stderr, when that fails. */
extern bool hjg_scheduler_start(HjgServe *serve);
extern void hjg_scheduler_stop(void);

/* ---- device_beat.c: the sign of life ---- */

/* The operation that a runner works on; the beater looks at the time of its last progress. */
typedef struct HjgBeatSource
{
	hjg_u32		job_ix;
	hjg_u32		running;
	hjg_u64		progress_ns;
} HjgBeatSource;

extern bool hjg_beat_start(const HjgArenaView *view, HjgBeatSource **sources, int nsources);
extern void hjg_beat_stop(void);
extern void hjg_beat_enter(HjgBeatSource *source);
extern void hjg_beat_leave(HjgBeatSource *source);
static inline void
hjg_beat_progress(HjgBeatSource *source)
{
	__atomic_store_n(&source->progress_ns, hjg_now_ns(), __ATOMIC_RELAXED);
}

/* ---- the tool: what the commands do; exit codes ---- */

/* device_tool.c: --list */
extern int	hjg_device_list(void);
/* device_selftest.c: --self-test */
extern int	hjg_device_self_test(int nthreads, const char *device);

#endif							/* HJG_DEVICE_H */
