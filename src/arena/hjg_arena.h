/*
 * hjg_arena.h
 *	  The memory that PostgreSQL's processes and the device process share: two memfds with control
 *	  blocks, jobs and slabs.
 *
 * Room "arena": pure C except for the files that end in _pg.c.  Backends, the supervisor, the device
 * process and the unit tests use the same functions.
 *
 * Owner.  The postmaster creates the arena.  It has no name and lives as long as a process maps it, so a
 * crash leaves nothing behind.
 *
 * Two halves.  A wild driver may write to everything its process can write to, so the device process
 * cannot write to what PostgreSQL's processes rely on:
 *
 *	server half		Everything that decides about memory and jobs (free stacks, slab table, job
 *					slots, inputs of operations), and the input slabs. Only PostgreSQL's
 *					processes write it. The device process has a read-only descriptor, and
 *					the system refuses it any other mapping.
 *	device half		Everything the device process reports (its life, devices, states and
 *					results of operations), and the result slabs. Both sides write it.
 *
 * A server process therefore trusts the server half as it trusts its own shared memory, whatever the
 * device process does: free stacks need no check, and a key reads the same twice.  The engines in a
 * backend rely on that when they count keys and then place them, also after a refused result.  A server
 * process that dies in the middle of an operation restarts the server, and the postmaster creates a new
 * arena.
 *
 * A server process trusts nothing in the device half: it reads a word once, bounds it, and checks results.
 * No process waits for ever, no slab is lost and none is leased twice, whatever the device half holds.
 * When the contents make no sense, the server process reports it (hjg_slot_distrust()) and the supervisor
 * ends the device process.  The device process checks what it reads from either half, because its crash
 * costs all running joins.
 *
 * Rules.  The arena holds no lock, no pointer and nothing that a dead process could hold for ever.  Only
 * PostgreSQL's processes take slabs from the free stacks, put them back and free jobs.  The device process
 * reads inputs, writes results, and moves operations as the table in arena_job.c allows.
 *
 * Forbidden here: postgres.h (outside _pg.c), and waiting, except for the device process's sleep in
 * arena_doorbell.c.
 */
#ifndef HJG_ARENA_H
#define HJG_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "layout/hjg_clock.h"
#include "layout/hjg_control.h"

/*
 * The arena as the device process maps it; every process may read it.  Process-local, and so is the
 * geometry that indexes are checked against.
 */
typedef struct HjgArenaView
{
	const char *server_base;	/* NULL: not mapped */
	size_t		server_bytes;
	const HjgControl *control;
	const HjgJobSlot *jobs;
	const HjgSlab *slabs;
	const char *inputs;
	char	   *device_base;
	size_t		device_bytes;
	HjgDeviceBlock *block;
	HjgJobReport *reports;
	hjg_u32    *holds;			/* by slab: not 0 while a driver has its memory registered */
	char	   *results;
	hjg_u32		nslabs;			/* in each half */
} HjgArenaView;

/* The arena as PostgreSQL's processes map it: they also write to the server half. */
typedef struct HjgArena
{
	HjgArenaView view;
	char	   *base;			/* NULL: not mapped */
	HjgControl *control;
	HjgJobSlot *jobs;
	HjgSlab    *slabs;
	char	   *inputs;
	int			server_fd;
	int			device_fd;
} HjgArena;

/* ---- arena_core.c: making and mapping ---- */

/*
 * Create an arena of at least one slab and about this many bytes.  Its descriptors are close-on-exec and
 * sealed against resizing.  Returns 0, or an errno and the failed call in *step.
 */
extern int	hjg_arena_create(HjgArena *arena, size_t bytes, const char **step);
extern void hjg_arena_detach(HjgArena *arena);
/*
 * Open a read-only descriptor of the server half for the device process; -1 and errno where /proc is
 * missing.
 */
extern int	hjg_arena_open_readonly(const HjgArena *arena);

/*
 * Map an arena that another process created.  Returns 0, an errno, or EINVAL; *step says what failed or
 * does not fit (magic, version, geometry).
 */
extern int	hjg_view_attach(HjgArenaView *view, int server_fd, int device_fd, const char **step);
extern void hjg_view_detach(HjgArenaView *view);

/* Create a memfd of this size, with these flags (MFD_HUGETLB), sealed against resizing; -1 and errno, and the failed call in *step. */
extern int	hjg_arena_make_file(const char *name, size_t bytes, unsigned flags, const char **step);
/* Map it at a multiple of 2 MiB, so that the system can use huge pages, and keep it out of core dumps; NULL and errno. */
extern char *hjg_arena_map_file(int fd, size_t bytes, int protection);
/*
 * Allocate the memory of whole pages, at off in the descriptor that is mapped there; false with an errno
 * when the system has none.
 */
extern bool hjg_arena_populate(char *base, size_t bytes, int fd, size_t off);

/* Find a slab; NULL for an index out of range, or for a slab of the other use. */
extern void *hjg_arena_slab_at(const HjgArena *arena, hjg_u32 slab_ix);
extern const void *hjg_view_input(const HjgArenaView *view, hjg_u32 slab_ix);
extern void *hjg_view_result(const HjgArenaView *view, hjg_u32 slab_ix);

/*
 * Choose the arena's size when the settings name none.  root precedes the paths of system files ("" except
 * in tests).
 */
extern size_t hjg_arena_default_bytes(const char *root);

/* Copy the calibrated values; false when none are set, or when they keep changing. */
extern bool hjg_arena_calibration(const HjgControl *control, double values[HJG_CALIBRATION_VALUES]);

/* ---- arena_slab.c: free slabs ---- */

static inline hjg_u64
hjg_slab_owner(hjg_u32 job_ix, hjg_u32 generation)
{
	return (hjg_u64) (job_ix + 1) << 32 | generation;
}

/*
 * Lease a free slab, a warm one first, with its memory allocated.  An input slab is zeroed; a result slab
 * may hold old rows of the same role.  HJG_NO_SLAB when there is no slab or no memory.
 */
extern hjg_u32 hjg_slab_lease(const HjgArena *arena, hjg_u64 owner, hjg_u32 role, HjgSlabUse use);

/* Return a slab; false without effect when it is not this owner's. */
extern bool hjg_slab_release(const HjgArena *arena, hjg_u32 slab_ix, hjg_u64 owner);

/* Return all slabs of the owner, and how many they were.  Reads the whole table. */
extern hjg_u32 hjg_slab_release_all(const HjgArena *arena, hjg_u64 owner);

/*
 * Give the memory of slabs that were free for idle_ms back to the system: at most `most` slabs of each
 * use, sparing the `keep` most recent ones.  Takes about 0.2 ms a slab.  Supervisor only.  Returns how
 * many.
 */
extern hjg_u32 hjg_slab_trim(const HjgArena *arena, hjg_u32 idle_ms, hjg_u32 keep, hjg_u32 most);

/* Clear the holds of all slabs, when no device process lives. */
extern void hjg_slab_clear_holds(const HjgArena *arena);

typedef struct HjgArenaUse
{
	hjg_u64		total_bytes;	/* limit of memory at any time */
	hjg_u64		leased_bytes;
	hjg_u64		warm_bytes;		/* free, with memory */
} HjgArenaUse;

extern void hjg_arena_use(const HjgArena *arena, HjgArenaUse *use);

/* Count the free slabs that have memory. */
extern hjg_u32 hjg_slab_nwarm(const HjgArena *arena);

/* ---- arena_job.c: jobs and their operations ---- */

/* Find a slot; NULL for an index that is out of range. */
static inline HjgJobSlot *
hjg_slot_at(const HjgArena *arena, hjg_u32 job_ix)
{
	return job_ix < HJG_MAX_JOBS ? &arena->jobs[job_ix] : NULL;
}

/* Find the job's report in the device half. */
static inline HjgJobReport *
hjg_slot_report(const HjgArena *arena, const HjgJobSlot *job)
{
	return &arena->view.reports[job - arena->jobs];
}

static inline hjg_u32
hjg_op_state(const HjgOpReport *op)
{
	return HJG_WORD_STATE(__atomic_load_n(&op->word, __ATOMIC_SEQ_CST));
}

/* Lease a slot, FREE to LEASED, searching from hint.  False when all slots are taken. */
extern bool hjg_slot_lease(const HjgArena *arena, hjg_u32 hint, hjg_u32 pid, hjg_u32 role,
							   hjg_u32 *job_ix, hjg_u32 *generation);

/* True while the job is leased under this generation. */
extern bool hjg_slot_leased(const HjgJobSlot *job, hjg_u32 generation);

/* Enter this process among the job's users, who are woken; -1 when the table is full. */
extern int	hjg_slot_join(HjgJobSlot *job, hjg_u32 pid, hjg_u32 pgprocno);
extern void hjg_slot_leave(HjgJobSlot *job, int participant, hjg_u32 pid);

/* Move an operation from one state to another; false when it is not in that state of that generation. */
extern bool hjg_op_move(HjgOpReport *op, hjg_u32 generation, HjgOpState from, HjgOpState to);

/*
 * Append a slab to a chain of inputs; several processes may do so at a time.  has_payload: the slab holds
 * its rows' payload columns, too.
 */
extern bool hjg_op_add_input(const HjgArena *arena, HjgOp *op, hjg_u64 owner, hjg_u32 slab_ix,
							 hjg_u32 nrows, hjg_u32 first_row, bool has_payload);

/*
 * End the lease, as the owner that has left.  True if neither the device process nor a participant can
 * touch the job any more: the owner then returns the slabs and frees the slot.  False if the job was
 * abandoned instead.
 */
extern bool hjg_slot_quiesce(const HjgArena *arena, HjgJobSlot *job, hjg_u32 generation);
extern bool hjg_slot_free(const HjgArena *arena, HjgJobSlot *job, hjg_u32 generation, HjgJobState from);
/* Abandon a job; false when this generation of it has ended. */
extern bool hjg_slot_abandon(const HjgArena *arena, HjgJobSlot *job, hjg_u32 generation);
extern bool hjg_slot_any_leased(const HjgArenaView *view);
/*
 * Find, in the supervisor, an operation that still runs more than age_ns after its job was abandoned and
 * so cancelled.
 */
extern bool hjg_slot_overdue(const HjgArena *arena, hjg_u64 age_ns);

/* Have the supervisor end the device process that damaged the job, unless a new one has replaced it. */
extern void hjg_slot_distrust(const HjgArena *arena, const HjgJobSlot *job, HjgDistrust why);

/*
 * Free, in the supervisor, abandoned jobs that no process touches any more.  With alive, also free the
 * jobs of dead owners and ignore dead participants.  Returns how many jobs still wait to be freed.
 */
typedef bool (*HjgAliveFn) (hjg_u32 pid, void *arg);
extern int	hjg_slot_sweep(const HjgArena *arena, HjgAliveFn alive, void *arg, int *nreturned);

/* ---- arena_doorbell.c: waking the device process and its clients ---- */

/* Mark a job that has work and wake the device process; called by clients. */
extern void hjg_doorbell_ring(const HjgArenaView *view, hjg_u32 job_ix);
/*
 * Ring again after a while without progress: always wakes a thread, whatever the device half says about
 * sleepers.
 */
extern void hjg_doorbell_ring_again(const HjgArenaView *view, hjg_u32 job_ix);

/* Mark a job again, in the device process, when it has more work than the caller takes. */
extern void hjg_doorbell_remark(const HjgArenaView *view, hjg_u32 job_ix);
/* Begin and end a poll for work, in the device process; found when the caller goes on to run something. */
extern void hjg_doorbell_poll_begin(const HjgArenaView *view);
extern void hjg_doorbell_poll_end(const HjgArenaView *view, bool found);

/*
 * Read the doorbell's count, in the device process; the caller then looks for work, and sleeps if there is
 * none.
 */
extern hjg_u32 hjg_doorbell_count(const HjgArenaView *view);
extern void hjg_doorbell_sleep(const HjgArenaView *view, hjg_u32 count, int timeout_ms);
extern void hjg_doorbell_wake_all(const HjgArenaView *view);
extern bool hjg_doorbell_pending(const HjgArenaView *view);
/* Clear a job's mark before looking at the job. */
extern bool hjg_doorbell_take(const HjgArenaView *view, hjg_u32 job_ix);

/*
 * Note, in the device process, that an operation of the job ended.  True when the caller must send a byte
 * to the supervisor.
 */
extern bool hjg_relay_notify(const HjgArenaView *view, hjg_u32 job_ix);

/* Take the set of jobs whose waiters must be woken, in the supervisor. */
extern void hjg_relay_take(const HjgArenaView *view, hjg_u64 jobs[HJG_MAX_JOBS / 64]);

/* ---- arena_check.c: checking what the device process wrote ---- */

typedef enum HjgCheck
{
	HJG_CHECK_GOOD = 0,
	HJG_CHECK_ROUND,			/* result of another round */
	HJG_CHECK_COUNT,			/* more pairs than fit, or than the mode allows */
	HJG_CHECK_CURSOR,			/* out of range, or no progress */
	HJG_CHECK_ROW,				/* a row number that was not submitted */
	HJG_CHECK_CHECKSUM,
	HJG_CHECK_PAYLOAD			/* payload columns that were not requested, or their checksum */
} HjgCheck;

extern const char *hjg_check_text(HjgCheck check);

/* The operation as the client submitted it, from the client's own memory. */
typedef struct HjgExpected
{
	hjg_u32		round;
	hjg_u32		mode;			/* HjgMatchMode */
	hjg_u64		probe_rows;		/* of a program: words of the result that are known to come */
	hjg_u64		build_limit;	/* highest build row number plus 1 */
	HjgCursor	cursor;
	HjgPair   **pages;
	hjg_u32		npages;
	hjg_u32		page_pairs;
	HjgPayloadBytes payload;		/* of the job: locates the columns in a page */
	hjg_u32		may_gather;		/* sides whose columns were sent */
} HjgExpected;

/* The result as the client reads it, copied first so that it cannot change. */
typedef struct HjgReported
{
	hjg_u32		round;
	hjg_u32		status;
	hjg_u64		npairs;
	hjg_u64		checksum;
	hjg_u64		payload_sum;
	hjg_u32		gathered;
	HjgCursor	cursor;
} HjgReported;

/*
 * Copy a struct of integers to or from the arena, reading or writing each 8-byte word once.  The copy
 * cannot change any more, but still must be checked.
 */
extern void hjg_words_copy(void *to, const void *from, size_t bytes);
extern void hjg_check_copy(const HjgOpReport *op, HjgReported *reported);
/*
 * Copy a text of at most room bytes from the arena, terminated or not, to a buffer of room bytes.  The
 * copy is terminated, and non-printing bytes become '?'.
 */
extern void hjg_check_text_copy(char *copy, const char *text, size_t room);
/*
 * The caller's own memory for the copy of a checked round: all reported pairs, and row by row the columns
 * of the gathered sides.
 */
typedef struct HjgRoundCopy
{
	HjgPair    *pairs;
	char	   *columns[HJG_SIDES];
} HjgRoundCopy;

/*
 * Check a round.  With copy, the copy is checked, and its user need not care what happens to the pages.
 * Without it, the caller may use nothing but the number of pairs.
 */
extern HjgCheck hjg_check_round(const HjgExpected *expected, const HjgReported *reported, const HjgRoundCopy *copy);

/* Add up the checksums of a page's first npairs pairs. */
extern hjg_u64 hjg_check_sum(const HjgPair *pairs, hjg_u64 npairs);
/*
 * Compute the share of a round's payload checksum that page page_ix, with npairs pairs, has.  A changed
 * word, or two swapped words of a page, change the checksum.
 */
extern hjg_u64 hjg_check_payload(const HjgPair *page, hjg_u32 page_ix, hjg_u64 npairs, HjgPayloadBytes payload,
								 hjg_u32 gathered);

#endif							/* HJG_ARENA_H */
