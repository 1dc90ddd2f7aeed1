/*
 * hjg_arena.h
 *	  The memory that PostgreSQL's processes and the device process share: two
 *	  memfds with control blocks, jobs and slabs.
 *
 * Room "arena": pure C but for the files that end in _pg.c.  The same functions
 * serve backends, the supervisor, the device process and the unit tests.
 *
 * Owner.  The postmaster makes the arena; it lives as long as someone maps it
 * and has no name, so nothing is left behind after a crash.
 *
 * Two halves.  A driver that goes wild may write to all that its process can
 * write to, so that process cannot write to what PostgreSQL's processes rely on:
 *
 *	server half		What decides over memory and jobs (free stacks, slab table, job
 *					slots, what operations ask for), and the input slabs.  Written
 *					by PostgreSQL's processes only.  The device process has a
 *					descriptor that is open for reading only, and the system refuses
 *					it any other mapping.
 *	device half		What the device process says (its life, devices, states and
 *					results of operations), and the result slabs.  Both write it.
 *
 * So a server process may believe the server half as it believes its own shared
 * memory, whatever the device process does: free stacks need no check, and keys
 * that were read once read the same again, which the engines in a backend rely on
 * when they count keys and then place them, also after a result was refused.  A
 * server process that ends in the middle of something takes the server with it,
 * and the postmaster makes a new arena.
 *
 * Of the device half a server process believes nothing: a word is read once and
 * bounded, results are checked, and whatever stands there, nobody waits for ever,
 * no slab is lost and none is given twice.  Where it makes no sense, the server
 * process says so (hjg_slot_distrust()), and the supervisor ends the device process.
 * The device process itself checks what it reads of either half, for a crash of it
 * costs all joins under way.
 *
 * Rules.  No lock, no pointer and nothing that a dead process could hold
 * for ever lies in the arena.  Only PostgreSQL's processes take slabs from the
 * free stacks or put them back, and only they free jobs; the device process
 * reads inputs, writes results, and moves operations as the table in
 * arena_job.c allows.
 *
 * Forbidden here: postgres.h (outside _pg.c), and waiting, but for the device process's
 * own sleep in arena_doorbell.c.
 */
#ifndef HJG_ARENA_H
#define HJG_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "layout/hjg_clock.h"
#include "layout/hjg_control.h"

/*
 * The arena as the device process has it, and as everybody may read it.
 * Process-local, as is the geometry that indexes are compared with.
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
	hjg_u32    *holds;			/* of each slab: a driver has its memory */
	char	   *results;
	hjg_u32		nslabs;			/* of each half */
} HjgArenaView;

/* The arena as PostgreSQL's processes have it: they also write to the server half. */
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
 * Make an arena of at least one slab within about bytes, with descriptors that are close-on-exec
 * and sealed against resizing.  Returns 0, or an errno with the name of the call that failed in *step.
 */
extern int	hjg_arena_create(HjgArena *arena, size_t bytes, const char **step);
extern void hjg_arena_detach(HjgArena *arena);
/* Open another descriptor of the server half, for the device process: open for reading only.  -1 and errno where /proc is missing. */
extern int	hjg_arena_open_readonly(const HjgArena *arena);

/*
 * Map an arena that another process made.  Returns 0, an errno, or EINVAL with a
 * step that says what does not fit (magic, version, geometry).
 */
extern int	hjg_view_attach(HjgArenaView *view, int server_fd, int device_fd, const char **step);
extern void hjg_view_detach(HjgArenaView *view);

/* Give a part of a half, at off in its descriptor, memory; false with an errno when the system has none. */
extern bool hjg_arena_populate(char *base, size_t bytes, int fd, size_t off);

/* Find a slab; NULL for an index that is out of range, or is no input's, or no result's. */
extern void *hjg_arena_slab_at(const HjgArena *arena, hjg_u32 slab_ix);
extern const void *hjg_view_input(const HjgArenaView *view, hjg_u32 slab_ix);
extern void *hjg_view_result(const HjgArenaView *view, hjg_u32 slab_ix);

/* Choose the size of the arena where the settings name none; root stands before the paths of the system's files ("" but in tests). */
extern size_t hjg_arena_default_bytes(const char *root);

/* Copy the calibrated values; false when nothing was set, or they do not stay still. */
extern bool hjg_arena_calibration(const HjgControl *control, double values[HJG_CALIBRATION_VALUES]);

/* ---- arena_slab.c: free slabs ---- */

static inline hjg_u64
hjg_slab_owner(hjg_u32 job_ix, hjg_u32 generation)
{
	return (hjg_u64) (job_ix + 1) << 32 | generation;
}

/*
 * Take a free slab, warm ones first, with its memory reserved.  A slab for input is zero; one for results
 * may hold what the same role left in it.  HJG_NO_SLAB when there is none, or no memory for it.
 */
extern hjg_u32 hjg_slab_lease(const HjgArena *arena, hjg_u64 owner, hjg_u32 role, HjgSlabUse use);

/* Give back; false, and nothing happens, when the slab is not this owner's. */
extern bool hjg_slab_release(const HjgArena *arena, hjg_u32 slab_ix, hjg_u64 owner);

/* Give back whatever the owner still has; returns how many.  Reads the whole table. */
extern hjg_u32 hjg_slab_release_all(const HjgArena *arena, hjg_u64 owner);

/*
 * Give the memory of free slabs that were not used for idle_ms back to the
 * system, but for the keep most recent ones of each use, and at most so many of
 * each: it takes about 0.2 ms for one.  Supervisor only.  Returns how many.
 */
extern hjg_u32 hjg_slab_trim(const HjgArena *arena, hjg_u32 idle_ms, hjg_u32 keep, hjg_u32 most);

/* Let go of all slabs that a device process held, when none lives. */
extern void hjg_slab_unhold(const HjgArena *arena);

typedef struct HjgArenaUse
{
	hjg_u64		total_bytes;	/* that may have memory at a time */
	hjg_u64		leased_bytes;
	hjg_u64		warm_bytes;		/* free, memory still there */
} HjgArenaUse;

extern void hjg_arena_use(const HjgArena *arena, HjgArenaUse *use);

/* Count the free slabs whose memory is there. */
extern hjg_u32 hjg_slab_nwarm(const HjgArena *arena);

/* ---- arena_job.c: jobs and their operations ---- */

/* Find a slot; NULL for an index that is out of range. */
static inline HjgJobSlot *
hjg_slot_at(const HjgArena *arena, hjg_u32 job_ix)
{
	return job_ix < HJG_MAX_JOBS ? &arena->jobs[job_ix] : NULL;
}

/* Find the job's part of the device half. */
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

/* Lease a slot, FREE to LEASED.  False when all slots are taken; hint is where to look first. */
extern bool hjg_slot_lease(const HjgArena *arena, hjg_u32 hint, hjg_u32 pid, hjg_u32 role,
							   hjg_u32 *job_ix, hjg_u32 *generation);

/* Is the job still leased under this generation? */
extern bool hjg_slot_leased(const HjgJobSlot *job, hjg_u32 generation);

/*
 * Enter this process among those that use the job and are to be woken; -1 when the table
 * is full.
 */
extern int	hjg_slot_join(HjgJobSlot *job, hjg_u32 pid, hjg_u32 pgprocno);
extern void hjg_slot_leave(HjgJobSlot *job, int participant, hjg_u32 pid);

/* Move an operation; false when it is not (any more) in that state of that job. */
extern bool hjg_op_move(HjgOpReport *op, hjg_u32 generation, HjgOpState from, HjgOpState to);

/*
 * Append a slab to a chain of inputs; for several processes at the same time.  has_payload: its rows' payload columns
 * are there, too.
 */
extern bool hjg_op_add_input(const HjgArena *arena, HjgOp *op, hjg_u64 owner, hjg_u32 slab_ix,
							 hjg_u32 nrows, hjg_u32 first_row, bool has_payload);

/*
 * Owner, after it has left: end the lease.  True if neither the device process nor a
 * participant can touch the job any more: the owner gives the slabs back next, then
 * frees the slot.  False otherwise; then hjg_slot_abandon() it.
 */
extern bool hjg_slot_quiesce(const HjgArena *arena, HjgJobSlot *job, hjg_u32 generation);
extern bool hjg_slot_free(const HjgArena *arena, HjgJobSlot *job, hjg_u32 generation, HjgJobState from);
/* Abandon a job; false when it is not this generation's any more. */
extern bool hjg_slot_abandon(const HjgArena *arena, HjgJobSlot *job, hjg_u32 generation);
extern bool hjg_slot_any_leased(const HjgArenaView *view);
/* Supervisor: does an operation run of a job that was abandoned, and so cancelled, longer ago than that? */
extern bool hjg_slot_overdue(const HjgArena *arena, hjg_u64 age_ns);

/* Have the supervisor end the device process of a job for what it did to it, if it is still that one's turn. */
extern void hjg_slot_distrust(const HjgArena *arena, const HjgJobSlot *job, HjgDistrust why);

/*
 * Supervisor: return abandoned jobs that nobody touches any more; with alive, also those
 * whose owner is gone, and participants that are gone do not count.  Returns how many are still
 * waited for.
 */
typedef bool (*HjgAliveFn) (hjg_u32 pid, void *arg);
extern int	hjg_slot_sweep(const HjgArena *arena, HjgAliveFn alive, void *arg, int *nreturned);

/* ---- arena_doorbell.c: waking the device process, and being woken by it ---- */

/* Ring for a job that has something to do; called by clients. */
extern void hjg_doorbell_ring(const HjgArenaView *view, hjg_u32 job_ix);
/* Ring again where nothing has come of it for some time: this wakes a thread whatever the device half says of sleepers. */
extern void hjg_doorbell_ring_again(const HjgArenaView *view, hjg_u32 job_ix);

/* Mark a job again, in the device process, that has more to do than the caller takes. */
extern void hjg_doorbell_remark(const HjgArenaView *view, hjg_u32 job_ix);
/* Begin and end a poll for work, in the device process; found when it goes on to run something. */
extern void hjg_doorbell_poll_begin(const HjgArenaView *view);
extern void hjg_doorbell_poll_end(const HjgArenaView *view, bool found);

/* Read the current count, in the device process; then look for work; then sleep if there was none. */
extern hjg_u32 hjg_doorbell_count(const HjgArenaView *view);
extern void hjg_doorbell_sleep(const HjgArenaView *view, hjg_u32 count, int timeout_ms);
extern void hjg_doorbell_wake_all(const HjgArenaView *view);
extern bool hjg_doorbell_pending(const HjgArenaView *view);
/* Take the mark off a job before looking at it. */
extern bool hjg_doorbell_take(const HjgArenaView *view, hjg_u32 job_ix);

/*
 * Note, in the device process, that an operation of the job ended.  True when the caller must
 * send a byte to the supervisor.
 */
extern bool hjg_relay_notify(const HjgArenaView *view, hjg_u32 job_ix);

/* Take the jobs whose waiters are to be woken, in the supervisor. */
extern void hjg_relay_take(const HjgArenaView *view, hjg_u64 jobs[HJG_MAX_JOBS / 64]);

/* ---- arena_check.c: what the device process wrote ---- */

typedef enum HjgCheck
{
	HJG_CHECK_GOOD = 0,
	HJG_CHECK_ROUND,			/* result of another round */
	HJG_CHECK_COUNT,			/* more pairs than room or than the mode allows */
	HJG_CHECK_CURSOR,			/* out of range, or no progress */
	HJG_CHECK_ROW,				/* a row number that was not submitted */
	HJG_CHECK_CHECKSUM,
	HJG_CHECK_PAYLOAD			/* payload columns that were not asked for, or their checksum */
} HjgCheck;

extern const char *hjg_check_text(HjgCheck check);

/* The operation as the client submitted it, from the client's own memory. */
typedef struct HjgExpected
{
	hjg_u32		round;
	hjg_u32		mode;			/* HjgMatchMode */
	hjg_u64		probe_rows;
	hjg_u64		build_limit;	/* highest build row number + 1 */
	HjgCursor	cursor;
	HjgPair   **pages;
	hjg_u32		npages;
	hjg_u32		page_pairs;
	HjgPayloadBytes payload;		/* of the job: they say where in a page columns are */
	hjg_u32		may_gather;		/* sides that columns were sent of */
} HjgExpected;

/* The result as the client reads it back, copied first so that it cannot change meanwhile. */
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
 * Copy a struct of integers to the arena or from there, each word of 8 bytes written or read once: what was copied from it
 * cannot change any more, and is still to be checked.
 */
extern void hjg_words_copy(void *to, const void *from, size_t bytes);
extern void hjg_check_copy(const HjgOpReport *op, HjgReported *reported);
/* Copy a text that has room bytes in the arena, with its end or without one, to as many bytes; the copy ends. */
extern void hjg_check_text_copy(char *copy, const char *text, size_t room);
/*
 * Where a round goes that is checked: memory of the caller's own, for all pairs that were reported and for the columns of
 * the sides that were gathered, row by row.
 */
typedef struct HjgRoundCopy
{
	HjgPair    *pairs;
	char	   *columns[HJG_SIDES];
} HjgRoundCopy;

/*
 * Check a round.  With copy, what is checked is the copy: whoever goes on to use that need not care what becomes of the pages.  Without
 * one nothing but the number of pairs may be used.
 */
extern HjgCheck hjg_check_round(const HjgExpected *expected, const HjgReported *reported, const HjgRoundCopy *copy);

/* Sum up pairs [from, from + npairs) of a page. */
extern hjg_u64 hjg_check_sum(const HjgPair *pairs, hjg_u64 npairs);
/*
 * Compute the part of a round's checksum of payload columns that page number page_ix, with npairs pairs, has.  A word that
 * changes, and two words of a page that change places, change it.
 */
extern hjg_u64 hjg_check_payload(const HjgPair *page, hjg_u32 page_ix, hjg_u64 npairs, HjgPayloadBytes payload,
								 hjg_u32 gathered);

/*
 * Device process: collect an operation's inputs in ascending order of first
 * row, into an array with place for room of them.  False when the chain is not
 * sound or longer.  Payload columns, of payload_bytes a row, are there where all slabs say so.
 */
typedef struct HjgInput
{
	const void *keys;
	const void *payload;		/* or NULL */
	hjg_u32		nrows;
	hjg_u32		first_row;
} HjgInput;
extern bool hjg_check_inputs(const HjgArenaView *view, const HjgOp *op, hjg_u64 owner, hjg_u32 key_width,
							 hjg_u32 payload_bytes, HjgInput *inputs, hjg_u32 room, hjg_u32 *ninputs);
extern bool hjg_check_results(const HjgArenaView *view, const HjgOp *op, hjg_u64 owner,
							  HjgPair **pages, hjg_u32 room, hjg_u32 *npages);

#endif							/* HJG_ARENA_H */
