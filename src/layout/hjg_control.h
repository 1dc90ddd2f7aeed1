/*
 * hjg_control.h
 *	  The arena but for its slabs: control blocks, jobs, slab table.
 *	  Shared by backends, the supervisor and the device process.
 *
 * Plain integers only, read and written with the __atomic builtins wherever
 * another process may look at the same time.  No pointers: a slab is named by
 * its index, a chain of slabs by references (index + 1, 0 ends the chain).
 *
 * The arena is two mappings:
 *		server half: HjgControl | HjgJobSlot[HJG_MAX_JOBS] | HjgSlab[2 * nslabs] | pad to 2 MiB | nslabs input slabs
 *		device half: HjgDeviceBlock | HjgJobReport[HJG_MAX_JOBS] | hold[2 * nslabs] | pad to 2 MiB | nslabs result slabs
 * Input slabs have the indexes 0 to nslabs - 1, result slabs those that follow.
 *
 * The server half is written by PostgreSQL's processes only, and mapped for
 * reading by the device process; the device half is written by both
 * (hjg_arena.h).  Who writes what is said at each group.  The states of jobs and
 * of their operations are described at the top of arena_job.c.
 */
#ifndef HJG_CONTROL_H
#define HJG_CONTROL_H

#include "layout/hjg_device_id.h"
#include "layout/hjg_job.h"
#include "layout/hjg_layout.h"
#include "layout/hjg_share.h"

#define HJG_ARENA_MAGIC 0x31414E4552414748ull	/* "HGARENA1" */

#define HJG_MAX_PARTICIPANTS 32 /* processes that work on one job */
#define HJG_MAX_DEVICES 16
#define HJG_MAX_SLABS (1u << 20)	/* 2 TiB */
#define HJG_CONTROL_COUNTERS 32
#define HJG_CONTROL_FALLBACKS 24

#define HJG_CACHE_ALIGNED __attribute__((aligned(64)))

/* State words hold a generation in the upper half and a state in the lower. */
#define HJG_WORD(generation, state) (((hjg_u64) (generation) << 32) | (hjg_u32) (state))
#define HJG_WORD_STATE(word) ((hjg_u32) (word))
#define HJG_WORD_GENERATION(word) ((hjg_u32) ((word) >> 32))

typedef enum HjgJobState
{
	HJG_JOB_FREE = 0,
	HJG_JOB_LEASED,
	HJG_JOB_ABANDONED,
	HJG_JOB_SWEEPING
} HjgJobState;

typedef enum HjgOpState
{
	HJG_OP_FREE = 0,
	HJG_OP_FILLING,
	HJG_OP_QUEUED,
	HJG_OP_RUNNING,
	HJG_OP_READY,
	HJG_OP_DRAINING
} HjgOpState;

/*
 * One operation of a job, its build, or the current round of a probe batch: what
 * the client asks for, written before it queues the operation.
 */
typedef struct HjgOp
{
	hjg_u32		input_ref;		/* chain of key slabs, newest first */
	hjg_u32		ninputs;
	hjg_u64		nrows;
	hjg_u32		result_ref;		/* chain of result slabs, first page first */
	hjg_u32		nresults;
	hjg_u32		round;			/* counts the submits */
	hjg_u32		pad;
	HjgCursor	cursor_in;
	hjg_u64		queued_ns;
} HJG_CACHE_ALIGNED HjgOp;

/*
 * The same operation in the device half: its state, which both sides move, and
 * what the device process writes before it declares the operation ready.
 */
typedef struct HjgOpReport
{
	hjg_u64		word;			/* generation of the job, HjgOpState */
	hjg_u64		npairs;
	hjg_u64		checksum;		/* hjg_checksum.h, over all pairs of the round */
	hjg_u64		payload_sum;	/* likewise over the payload columns that were gathered: hjg_check_payload() */
	hjg_u32		gathered;		/* sides whose payload columns stand beside the pairs: HJG_SIDE_BIT() */
	hjg_u32		status;			/* HjgStatus of the engine */
	HjgCursor	cursor_out;
	hjg_u32		round_done;		/* echo of round */
	hjg_u64		started_ns;
	hjg_u64		ended_ns;
} HJG_CACHE_ALIGNED HjgOpReport;

/* A process that takes part in a job and may wait for it. */
typedef struct HjgParticipant
{
	hjg_u32		pid;			/* 0 = free entry; claimed by CAS */
	hjg_u32		pgprocno;		/* whose latch the supervisor sets */
	hjg_u32		waiting;		/* set around each wait by the process itself */
	hjg_u32		pad;
} HjgParticipant;

typedef struct HjgJobSlot
{
	hjg_u64		word;			/* generation, HjgJobState */

	/* written by the lessee before anything is queued */
	hjg_u32		owner_pid;
	hjg_u32		owner_role;		/* for views and for the zeroing of slabs */
	hjg_u32		epoch;			/* of the device process it was leased under */
	hjg_u32		device_ix;
	HjgJoinSpec spec;
	hjg_u32		cancel;			/* any participant or the supervisor */
	hjg_u64		since_us;		/* microseconds since the Unix epoch */
	hjg_u64		abandoned_ns;	/* when it was cancelled for good */

	HjgParticipant participants[HJG_MAX_PARTICIPANTS];
	HjgOp		build;
	HjgOp		batches[HJG_MAX_BATCHES];
} HJG_CACHE_ALIGNED HjgJobSlot;

/* A job in the device half; but for the states of its operations, written by the device process. */
typedef struct HjgJobReport
{
	hjg_u32		attended;		/* a thread of the device process works on it, and will look again */
	hjg_u32		pad;
	hjg_u64		beat;			/* grows while an operation of it makes progress */
	HjgJobStats stats;
	HjgOpReport build;
	HjgOpReport batches[HJG_MAX_BATCHES];
} HJG_CACHE_ALIGNED HjgJobReport;

/*
 * One entry for each slab.  A free slab has owner 0 and is in exactly one of
 * the stacks, or on its way there in the hands of one process.
 *
 * A driver remembers the pages of memory that is registered with it, so such memory must stay.  The device process marks
 * these slabs in the device half ("holds") and then looks at "trimming"; a process that trims a slab sets "trimming" and then
 * looks at "holds".  The one that finds the other's mark takes its own back.
 */
typedef struct HjgSlab
{
	hjg_u64		owner;			/* hjg_slab_owner(), 0 = free */
	hjg_u32		next_ref;		/* in a stack, or in a chain of an operation */
	hjg_u32		dirty_bytes;	/* from the start; the rest is zero */
	hjg_u32		role;			/* of the last owner */
	hjg_u32		freed_ms;		/* when it was last given back */
	hjg_u32		nrows;			/* as an input: rows and first row number, ... */
	hjg_u32		first_row;
	hjg_u32		has_payload;		/* ... and whether their payload columns are there, too */
	hjg_u32		trimming;		/* its memory is being given back to the system */
} HjgSlab;

/* Inputs lie in the server half and are leased zeroed, results in the device half and are not. */
typedef enum HjgSlabUse
{
	HJG_SLAB_INPUT,
	HJG_SLAB_RESULT,
	HJG_SLAB_USES
} HjgSlabUse;

/* A stack of free slabs: change count in the upper half, reference in the lower. */
typedef struct HjgSlabStack
{
	hjg_u64		head;
	hjg_u32		nslabs;			/* approximate, for views and trimming */
} HJG_CACHE_ALIGNED HjgSlabStack;

typedef enum HjgDeviceState
{
	HJG_DEVICE_ABSENT = 0,
	HJG_DEVICE_READY,
	HJG_DEVICE_FAILED			/* found, but cannot be used: see reason */
} HjgDeviceState;

/* Written by the device process when it starts; texts end in a zero byte. */
typedef struct HjgDeviceInfo
{
	hjg_u32		state;			/* HjgDeviceState */
	hjg_u32		compute_units;
	HjgDeviceId id;				/* without a number: of a driver that has no device to show */
	hjg_u64		memory_bytes;
	hjg_u64		l2_bytes;		/* of a GPU */
	/* of a GPU: there is a context, made by a first join; of OpenCL: HJG_WIDTH_BIT()s of the keys for which steps are measured */
	hjg_u32		warm;
	hjg_u32		pad;
	char		description[128];
	char		reason[128];
} HjgDeviceInfo;

/* In in_use, beside the count: the end of the process is no failure, or is counted already. */
#define HJG_HEALTH_EXCUSED 0x80000000u

/*
 * A device's failures; written by the device process, and
 * set to zero by whoever resets the statistics.
 */
typedef struct HjgDeviceHealth
{
	char		name[32];		/* of the device; empty = free entry */
	hjg_u32		failures;		/* not long after one another */
	hjg_u32		in_use;			/* operations that run on it now; and HJG_HEALTH_EXCUSED */
	hjg_u64		last_ns;		/* of the last failure */
	hjg_u64		rest_until_ns;	/* not used until then, by the monotonic clock */
	char		text[128];		/* of the last failure */
} HjgDeviceHealth;

/* Confinement of the device process (device_confine.c); above these bits, the version of Landlock, 0 for none. */
#define HJG_CONFINED_NO_NEW_PRIVS 1u
#define HJG_CONFINED_SECCOMP 2u
#define HJG_CONFINED_LANDLOCK_SHIFT 8

/* Head of the server half; one struct, because it is the layout of the mapping.  Its groups have a writer each. */
typedef struct HjgControl
{
	/* never changes after the arena is made */
	hjg_u64		magic;
	hjg_u32		layout_version;
	hjg_u32		control_bytes;	/* sizes of the structs, so that a mismatch is noticed */
	hjg_u32		job_bytes;
	hjg_u32		device_block_bytes;
	hjg_u32		report_bytes;
	hjg_u32		nslabs;			/* of each half; and the most slabs of both together that may have memory */
	hjg_u64		server_bytes;
	hjg_u64		device_bytes;

	/* free slabs */
	HjgSlabStack warm[HJG_SLAB_USES];	/* memory is there, last freed first */
	HjgSlabStack cold[HJG_SLAB_USES];	/* given back to the system, or never touched */
	hjg_u32		nresident HJG_CACHE_ALIGNED;	/* slabs that have memory: all but the cold ones */
	hjg_u32		memory_wanted;	/* counts leases that failed because a driver has the memory of free slabs */

	/* life of the device process, as the supervisor sees it */
	hjg_u32		epoch HJG_CACHE_ALIGNED;	/* one up when a process is surely dead */
	hjg_u32		device_pid;
	hjg_u32		down_cause;		/* HjgDownCause */
	hjg_u32		down_detail;	/* signal, exit code or errno */
	hjg_u64		device_started_us;
	hjg_u64		distrusted;		/* any server process: epoch of a device process to be ended, HjgDistrust */
	hjg_u32		distrusted_device;	/* device that the join was on */
	hjg_u32		ready_epoch;	/* supervisor: epoch whose device process has said that it is ready, once */

	/* the supervisor itself */
	hjg_u32		supervisor_pid HJG_CACHE_ALIGNED;
	hjg_u32		supervisor_pgprocno;
	hjg_u32		supervisor_asleep;	/* sleeps long: wake it when work begins */
	hjg_u32		sweep_wanted;	/* a job was abandoned */

	hjg_u64		calibration_seq HJG_CACHE_ALIGNED;	/* odd while written, 0 = never set */
	hjg_u64		calibration[HJG_CALIBRATION_VALUES];	/* bits of doubles */

	hjg_u64		counters[HJG_CONTROL_COUNTERS] HJG_CACHE_ALIGNED;
	hjg_u64		fallbacks[HJG_CONTROL_FALLBACKS];
	hjg_u64		reset_us;		/* when the counters were set to zero */

	HjgShare	share HJG_CACHE_ALIGNED;	/* PostgreSQL's processes only */
} HJG_CACHE_ALIGNED HjgControl;

/* Head of the device half. */
typedef struct HjgDeviceBlock
{
	/* doorbell, clients to the device process */
	hjg_u32		doorbell;		/* futex; counts rings */
	hjg_u32		sleepers;		/* threads that wait on it */
	hjg_u32		pollers;		/* threads that are awake and look for work */
	hjg_u64		submitted[HJG_MAX_JOBS / 64];	/* jobs with something to do */

	/* relay, the device process to the supervisor */
	hjg_u32		relay_pending HJG_CACHE_ALIGNED;	/* a byte is on its way */
	hjg_u64		notify[HJG_MAX_JOBS / 64];	/* jobs whose waiters are to be woken */

	/* life of the device process, as it reports it */
	hjg_u32		says_ready_epoch HJG_CACHE_ALIGNED;	/* epoch when it is ready; the supervisor looks at it till then */
	hjg_u32		nthreads;
	hjg_u32		confined;		/* HJG_CONFINED_... */
	hjg_u64		beat HJG_CACHE_ALIGNED;
	hjg_u32		busy;			/* operations that run */
	hjg_u64		workspace_bytes;	/* private memory of the engines */

	HjgDeviceInfo devices[HJG_MAX_DEVICES];
	HjgDeviceHealth health[HJG_MAX_DEVICES];
} HJG_CACHE_ALIGNED HjgDeviceBlock;

/* Why a server process wants the device process ended. */
typedef enum HjgDistrust
{
	HJG_DISTRUST_RESULT = 1,	/* a result failed its check, or an operation is in no state that it can be in */
	HJG_DISTRUST_SILENT			/* it makes no progress with an operation that it says is running */
} HjgDistrust;

typedef enum HjgDownCause
{
	HJG_DOWN_NOT_STARTED = 0,
	HJG_DOWN_STARTING,
	HJG_DOWN_NO_PROGRAM,		/* detail: errno */
	HJG_DOWN_EXITED,			/* detail: exit code */
	HJG_DOWN_SIGNALLED,			/* detail: signal */
	HJG_DOWN_HUNG,				/* killed by the supervisor for its silence */
	HJG_DOWN_DISTRUSTED			/* likewise; detail: HjgDistrust */
} HjgDownCause;

#endif							/* HJG_CONTROL_H */
