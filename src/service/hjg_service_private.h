/*
 * hjg_service_private.h
 *	  Declarations that the files of the room "service" share; no other room includes it.
 */
#ifndef HJG_SERVICE_PRIVATE_H
#define HJG_SERVICE_PRIVATE_H

#include "postgres.h"

#include "lib/ilist.h"
#include "utils/resowner.h"

#include "arena/hjg_arena_pg.h"
#include "arena/hjg_arena_share.h"
#include "base/hjg_compat.h"
#include "service/hjg_service.h"

/* Slabs, by their numbers. */
typedef struct HjgHeldList
{
	uint32	   *slabs;			/* in TopMemoryContext */
	int			n;
	int			room;
} HjgHeldList;

/* A probe batch from its opening to its closing. Everything that decides about memory is kept here. */
typedef struct HjgBatch
{
	bool		open;
	bool		submitted;		/* a round was submitted, and nothing has waited for it yet */
	HjgHeldList inputs;
	HjgHeldList results;
	HjgPair   **pages;
	uint64		nrows;
	bool		has_payload;		/* all inputs have their payload columns */
	uint32		round;
	HjgCursor	cursor;			/* of the last good round */
} HjgBatch;

/* A job whose query waits for its next fetch. */
typedef struct HjgSuspension
{
	bool		marked;			/* marked in the arena as suspended */
	uint32		count;			/* of suspensions */
	int			idle_share;		/* bound within which the job was found */
	void	   *holder;			/* the owner that can do without the job */
	const void *query;			/* query of the job, or NULL */
} HjgSuspension;

/* The last heartbeat that was seen, of the job or of the device process. */
typedef struct HjgHeartbeat
{
	uint64		beat;
	uint64		changed_ns;
} HjgHeartbeat;

/* A handle's own part of HjgJobStats. */
typedef struct HjgClientStats
{
	uint64		wait_ns;
	uint32		max_slabs;		/* most slabs that the job was seen to hold at once */
} HjgClientStats;

struct HjgJob
{
	dlist_node	node;			/* in the list of this process's jobs */
	ResourceOwner resowner;
	HjgJoinSpec	spec;
	HjgJobSlot *slot;
	HjgJobReport *report;		/* in the device half */
	uint32		job_ix;
	uint32		generation;
	uint32		epoch;
	uint64		slab_owner;
	Oid			role;
	HjgShareOwner owner;
	int			participant;
	bool		attached;		/* another handle owns the job */
	bool		shared;			/* there may be attached handles */
	bool		submitted;		/* the device process may have seen it */
	HjgSuspension suspension;
	HjgReason	reason;			/* reason of its failure; final */
	HjgDeviceId device;

	HjgHeldList unassigned;			/* leased, and not added to an operation */
	HjgHeldList build;
	uint64		build_limit;	/* highest build row number + 1 */
	bool		build_has_payload;	/* all build inputs have their payload columns */
	HjgBatch	batches[HJG_MAX_BATCHES];

	HjgHeartbeat heartbeat;
	HjgClientStats stats;
};

/*
 * service_lease.c: make a handle for a leased slot, in the list of this process's jobs. hjg_service_reserve_job() makes sure
 * that the next one cannot fail for lack of memory.
 */
extern void hjg_service_reserve_job(void);
extern HjgJob *hjg_service_make_job(const HjgJoinSpec *spec, uint32 job_ix, uint32 generation);

/* service_share.c */
static inline HjgShare *
hjg_service_share(void)
{
	return &hjg_arena_map.control->share;
}

extern HjgShareOwner hjg_service_share_myself(void);

/* A wait for a slot or a slab, in a queue. */
typedef struct HjgTurn
{
	HjgShareKind kind;
	HjgShareOwner owner;
	bool		shared;			/* other processes hold resources that count as this owner's */
	bool		patient;		/* wait if necessary, for a short bounded time */
	bool		tried;			/* since the last check */
	bool		slept;
	uint64		since_ns;		/* start of the wait, and its end at the latest */
	uint64		until_ns;
} HjgTurn;

/*
 * Wait for the caller's turn to try. False and a reason if it can have nothing in time. After the last try, successful or
 * not, call hjg_turn_end().
 */
extern bool hjg_turn_wait(HjgTurn *turn, HjgReason *reason);
extern void hjg_turn_end(HjgTurn *turn);
/* Leave the queue. */
extern void hjg_turn_leave(void);

/* service_release.c */
extern void hjg_service_track(HjgJob *job);
extern void hjg_service_register_callbacks(void);

/* service_device.c */
/*
 * Find the index of the device that the settings name, or, under auto, of the wished device if it is ready, else of the cpu
 * engine; -1 if there is none.
 */
extern int	hjg_service_find_device(HjgDeviceId wanted);
/* Get the device at an index of the table; ANY beyond its end. */
extern HjgDeviceId hjg_service_device_id(uint32 device_ix);
/*
 * Let the next device process count a failure of the device, as if the last one had died in its driver; called by the
 * supervisor while no device process runs.
 */
extern void hjg_service_blame(uint32 device_ix);

/* service_supervisor.c */
/* Explain, for the log and for views, why there is no device process. Valid until the next call. */
extern const char *hjg_down_text(HjgDownCause cause, uint32 detail);

/* service_wake.c */
/* Wake the supervisor for a check now. */
extern void hjg_supervisor_wake(void);
/* Tell the supervisor that work begins, which it then watches. */
extern void hjg_supervisor_watch(void);
/* Wake the first in the queues for a slot and for a slab, after something was released. */
extern void hjg_wake_next(void);
/* Wake the processes that wait for the job; called by the supervisor. */
extern void hjg_wake_waiters(uint32 job_ix);
/* Wake the processes of all jobs for which the device process has requested it; called by the supervisor. */
extern void hjg_wake_relayed(void);

/* service_spawn.c; open_kept: see hjg_service_init() */
extern void hjg_spawn_init(int (*open_kept) (void));
extern pid_t hjg_spawn_device(int *sock, const char **step, int *error);
extern const char *hjg_spawn_path(void);
/* Has every process released the arena's lock? */
extern bool hjg_spawn_none_alive(void);

/* service_autocalibrate.c */
/* Start measuring the unit costs if that was never done on this machine and this is the time for it, as hjoin_gpu.auto_calibrate says. */
extern void hjg_autocalibrate_look(uint64 now_ns);

/* service_calibration.c */
extern void hjg_service_calibration_load(void);

/* service_machine.c */
typedef struct HjgMachine
{
	int			cpus;			/* CPUs that the server may use */
	int			memory_mb;
	char		model[128];		/* of the processors */
} HjgMachine;

extern void hjg_machine_here(HjgMachine *machine);
extern bool hjg_machine_same(const HjgMachine *a, const HjgMachine *b);

#endif							/* HJG_SERVICE_PRIVATE_H */
