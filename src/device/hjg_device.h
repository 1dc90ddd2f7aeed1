/*
 * hjg_device.h
 *	  The program hjoin_gpu_device: declarations that its files share.
 *
 * Room "device": pure C, many threads, the only place where a device's driver may ever be loaded.  The
 * program serves one arena, whose descriptors its supervisor hands over, until the socket to the
 * supervisor closes.  Without these arguments it is a tool (--list, --self-test).
 *
 * Threads.  All threads block all signals from before the first one starts.  The main thread waits for the
 * end of the socket and for SIGTERM; runners claim operations and run them, sharing the engine pools; the
 * beater writes the heartbeat and trims idle memory; the watcher searches devices.
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
 * One family of devices.  The driver owns its joins; env and the keys of the build side are valid as long
 * as the join.  build and probe are as in hjg_engine.h; any runner may call them, but only one at a time
 * for a stream of a join.
 */
typedef struct HjgDriver
{
	HjgDeviceKind kind;
	int			room;			/* most devices that it lists */
	bool		staged;			/* probe() needs pages of private memory, because it computes no checksum
								 * (HjgResult.sum) */
	/*
	 * Fill in at most room devices; returns their number.  May be called again after changes; a device
	 * keeps its place.
	 */
	int			(*list) (HjgDeviceInfo *devices, int room);
	/*
	 * Not NULL: listing may take long, so the watcher does it, repeatedly, and then calls this for
	 * housekeeping; returns the ms until the next time.
	 */
	unsigned	(*tend) (void);
	HjgStatus	(*build) (int device, const HjgEnv *env, const HjgJoinSpec *spec,
						  const HjgSegment *segments, int nsegments, void **join);
	HjgStatus	(*probe) (void *join, const HjgSegment *segments, int nsegments,
						  HjgCursor *cursor, HjgResult *result);
	/*
	 * Not NULL: open a further stream of the join, which probe() takes in place of the join.  Calls with the
	 * join and its streams, fewer than HJG_MAX_STREAMS, may run at the same time.  env is for the stream's
	 * calls.  NULL when the join takes one call at a time, or memory is short.  free() of the join frees its
	 * streams; stats() includes them.
	 */
	void	   *(*open_stream) (void *join, const HjgEnv *env);
	/* Fill in the join's statistics; may be called during probes. */
	void		(*stats) (const void *join, HjgJobStats *stats);
	void		(*free) (void *join);
	/*
	 * Not NULL: the operations of programs (layout/hjg_program.h) on these devices.  build() runs the program, whose words are
	 * the build keys; probe(), without rows, gives the next words of the result.
	 */
	const struct HjgDriver *programs;
} HjgDriver;

/* Most operations of one job that run at a time. */
#define HJG_MAX_STREAMS 3

extern const HjgDriver hjg_opencl_driver;	/* device_opencl.c */
extern const HjgDriver hjg_cpu_driver;	/* device_cpu.c */

/* Count the processors that this process may use. */
extern int	hjg_device_cpus(void);

/*
 * Open all drivers and fill in a table of HJG_MAX_DEVICES entries, the arena's or another, at places that
 * belong to the drivers; entries between them are absent.  Slow listings are left to the watcher, unless
 * all is set.
 */
extern void hjg_drivers_open(HjgDeviceInfo *devices, bool all);
/* Start and stop the watcher, for drivers with tend(); false when it cannot start. */
extern bool hjg_drivers_watch(HjgDeviceInfo *devices);
extern void hjg_drivers_unwatch(void);
/* Find the driver of a listed device, and the device's number within it; or NULL. */
extern const HjgDriver *hjg_driver_of(int device_ix, int *number);

/* ---- device_workspace.c: memory of the engines ---- */

/*
 * Allocate and free as in HjgEnv; freed memory is kept for some time.  Fresh memory from the system should
 * be touched before it is used.
 */
extern void *hjg_workspace_alloc(size_t bytes, bool *fresh);
extern void hjg_workspace_touch(void *ptr, size_t bytes, HjgPool *pool, bool (*poll) (void *), void *arg);
extern void hjg_workspace_free(void *ptr, size_t bytes);
/* Give memory that was unused for idle_ms back to the system; returns the bytes kept. */
extern size_t hjg_workspace_trim(unsigned idle_ms);
extern size_t hjg_workspace_bytes(void);

/* ---- device_wait.c ---- */

/* Make a condition for hjg_wait_ms(). */
extern void hjg_wait_init(pthread_cond_t *cond);
/* Wait for the condition for at most ms, with the lock held. */
extern void hjg_wait_ms(pthread_cond_t *cond, pthread_mutex_t *lock, unsigned ms);

/* ---- device_health.c: failures of devices, kept in the device half ---- */

/*
 * Set the table; NULL: one of this process's own.  Counts a failure for each device that a dead process
 * was using.
 */
extern void hjg_health_open(HjgDeviceBlock *block);
/* Note that this process was told to end, so that devices in use do not count as failed. */
extern void hjg_health_excuse(void);
/* Called around each operation on the device. */
extern void hjg_health_enter(const char *device);
extern void hjg_health_leave(const char *device);
/* Note a failure, with a message on stderr. */
extern void hjg_health_note(const char *device, const char *text);
/* Note a failure where a retry is useless for now: the device rests at once, unless it rests already. */
extern void hjg_health_rest(const char *device, const char *text);
/* Note a failure after which the process cannot go on, and exit. */
extern void hjg_health_fatal(const char *device, const char *text) __attribute__((noreturn));
/* True if the device rests; the reason then has the time. */
extern bool hjg_health_resting(const char *device, char *reason, size_t room);

/* ---- device_confine.c: confinement of this process ---- */

/*
 * Confine this process, which has one thread, and its children for good: they cannot access the data
 * directory except for the cache directory in it.  Returns HJG_CONFINED_... for the methods that the
 * kernel supports.
 */
extern hjg_u32 hjg_confine(const char *data_dir, const char *cache_dir);
/* True if a GPU has appeared that the rules do not allow: only a new process can open it. */
extern bool hjg_confine_outdated(void);

/* ---- device_fault.c: injected faults, only in the program for tests ---- */

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
	HJG_SPOIL_LOSE,				/* drop a pair, before the checksums are computed */
	HJG_SPOIL_COLUMNS			/* change a gathered column */
} HjgSpoil;

/* Read the faults from the environment; false, with a message on stderr, when they cannot be parsed. */
extern bool hjg_fault_open(void);
extern void hjg_fault_help(void);
/* Read a variable of the environment that injects a fault for a test; NULL in the installed program. */
extern const char *hjg_fault_variable(const char *name);
/* Inject the fault due here: may not return (die, exit, hang), or take long with calls of poll (slow). */
extern HjgSpoil hjg_fault_here(HjgFaultPhase phase, bool (*poll) (void *), void *arg);

/* ---- device_kept.c: the file of kept columns ---- */

/* Memory of kept columns, or none. Backends write to it at any time: copies of it are checked, and it is not otherwise read. */
typedef struct HjgKeptFile
{
	const char *base;
	hjg_u64		nbytes;
} HjgKeptFile;

/* Map the file; false, with errno, when that fails or it could become shorter. */
extern bool hjg_device_map_kept(int fd, HjgKeptFile *file);

/* ---- device_scheduler.c ---- */

typedef struct HjgServe
{
	HjgArenaView view;
	HjgKeptFile kept;
	int			socket;			/* to the supervisor */
	hjg_u32		epoch;			/* number of this process in the arena's sequence of device processes */
	int			nthreads;		/* of the engine pool; 0 = one for each CPU */
	bool		list_all;		/* list all devices before the start, even if that takes long */
	bool		stopping;		/* atomic */
} HjgServe;

/* Start runners and beater.  False, with a message on stderr, when that fails. */
extern bool hjg_scheduler_start(HjgServe *serve);
extern void hjg_scheduler_stop(void);

/* ---- device_beat.c: the heartbeat ---- */

/* The operation that a runner works on; the beater reads the time of its last progress. */
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

/* ---- the tool: its commands, which return exit codes ---- */

/* device_tool.c: --list */
extern int	hjg_device_list(void);
/* device_selftest.c: --self-test */
extern int	hjg_device_self_test(int nthreads, const char *device);

#endif							/* HJG_DEVICE_H */
