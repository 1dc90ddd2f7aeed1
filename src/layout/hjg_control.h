/*
 * hjg_control.h
 *	  The arena except its slabs: control blocks, jobs, slab table.  Shared by backends, the supervisor
 *	  and the device process.
 *
 * All fields are plain integers.  A field that another process may access at the same time is read and
 * written with the __atomic builtins.  There are no pointers: an index names a slab, and a chain of slabs
 * uses references (index + 1, 0 ends the chain).
 *
 * The arena is two mappings:
 *		server half: HjgControl | HjgJobSlot[HJG_MAX_JOBS] | HjgSlab[2 * nslabs] | pad to 2 MiB | nslabs input slabs
 *		device half: HjgDeviceBlock | HjgJobReport[HJG_MAX_JOBS] | hold[2 * nslabs] | pad to 2 MiB | nslabs result slabs
 * Input slabs have the indexes 0 to nslabs - 1, result slabs the indexes after them.
 *
 * Only PostgreSQL's processes write the server half; the device process maps it read-only.  Both write the
 * device half (hjg_arena.h).  Comments name the writer of each group of fields.  arena_job.c describes the
 * states of jobs and operations.
 */
#ifndef HJG_CONTROL_H
#define HJG_CONTROL_H

#include "layout/hjg_device_id.h"
#include "layout/hjg_job.h"
#include "layout/hjg_layout.h"
#include "layout/hjg_share.h"

#define HJG_ARENA_MAGIC 0x31414E4552414748ull	/* "HGARENA1" */

#define HJG_MAX_PARTICIPANTS 32 /* processes that work on a job */
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
 * The client's side of an operation, a build or the current round of a probe batch: its input, written
 * before it is queued.
 */
typedef struct HjgOp
{
	hjg_u32		input_ref;		/* chain of key slabs, newest first */
	hjg_u32		ninputs;
	hjg_u64		nrows;
	hjg_u32		result_ref;		/* chain of result slabs, first page first */
	hjg_u32		nresults;
	hjg_u32		round;			/* number of submits */
	hjg_u32		pad;
	HjgCursor	cursor_in;
	hjg_u64		queued_ns;
} HJG_CACHE_ALIGNED HjgOp;

/*
 * The device's side of an operation: its state, which both sides change, and its results, which the device
 * process writes before the state becomes READY.
 */
typedef struct HjgOpReport
{
	hjg_u64		word;			/* generation of the job, HjgOpState */
	hjg_u64		npairs;
	hjg_u64		checksum;		/* hjg_checksum.h, over all pairs of the round */
	hjg_u64		payload_sum;	/* checksum of the payload columns gathered: hjg_check_payload() */
	hjg_u32		gathered;		/* HJG_SIDE_BIT()s of the sides whose payload columns lie beside the pairs */
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
	hjg_u32		pgprocno;		/* the supervisor sets this process's latch */
	hjg_u32		waiting;		/* set by the process itself during each wait */
	hjg_u32		pad;
} HjgParticipant;

typedef struct HjgJobSlot
{
	hjg_u64		word;			/* generation, HjgJobState */

	/* written by the lessee before anything is queued */
	hjg_u32		owner_pid;
	hjg_u32		owner_role;		/* for views and for the zeroing of slabs */
	hjg_u32		epoch;			/* of the device process when the job was leased */
	hjg_u32		device_ix;
	HjgJoinSpec spec;
	hjg_u32		cancel;			/* set by any participant or the supervisor */
	hjg_u64		since_us;		/* microseconds since the Unix epoch */
	hjg_u64		abandoned_ns;	/* time of its final cancel */
	hjg_u64		probed_rows;	/* of batches that have been closed */

	HjgParticipant participants[HJG_MAX_PARTICIPANTS];
	HjgOp		build;
	HjgOp		batches[HJG_MAX_BATCHES];
} HJG_CACHE_ALIGNED HjgJobSlot;

/* The device half of a job.  The device process writes it, except the states of operations. */
typedef struct HjgJobReport
{
	hjg_u32		attended;		/* a thread of the device process works on the job and will look again */
	hjg_u32		pad;
	hjg_u64		beat;			/* grows while one of its operations makes progress */
	HjgJobStats stats;
	HjgOpReport build;
	HjgOpReport batches[HJG_MAX_BATCHES];
} HJG_CACHE_ALIGNED HjgJobReport;

/*
 * An entry for each slab.  A free slab has owner 0 and is in exactly one of the stacks, or a process is
 * moving it there.
 *
 * Memory registered with a driver must keep its pages.  The device process marks such slabs in the device
 * half ("holds") and then reads "trimming"; a process that trims a slab sets "trimming" and then reads
 * "holds".  A process that finds the other's mark withdraws its own.
 */
typedef struct HjgSlab
{
	hjg_u64		owner;			/* hjg_slab_owner(), 0 = free */
	hjg_u32		next_ref;		/* in a stack, or in an operation's chain */
	hjg_u32		dirty_bytes;	/* from the start; the rest is zero */
	hjg_u32		role;			/* of the last owner */
	hjg_u32		freed_ms;		/* time when it was last freed */
	hjg_u32		nrows;			/* of an input slab: rows and first row number, ... */
	hjg_u32		first_row;
	hjg_u32		has_payload;		/* ... and whether it contains their payload columns */
	hjg_u32		trimming;		/* its memory is being given back to the system */
} HjgSlab;

/*
 * Input slabs lie in the server half and are zeroed when leased; result slabs lie in the device half and
 * are not zeroed.
 */
typedef enum HjgSlabUse
{
	HJG_SLAB_INPUT,
	HJG_SLAB_RESULT,
	HJG_SLAB_USES
} HjgSlabUse;

/* A stack of free slabs.  head: number of changes in the upper half, reference in the lower. */
typedef struct HjgSlabStack
{
	hjg_u64		head;
	hjg_u32		nslabs;			/* approximate, for views and trimming */
} HJG_CACHE_ALIGNED HjgSlabStack;

typedef enum HjgDeviceState
{
	HJG_DEVICE_ABSENT = 0,
	HJG_DEVICE_READY,
	HJG_DEVICE_FAILED			/* found, but unusable: see reason */
} HjgDeviceState;

/* A device.  The device process writes it at its start; texts end in a zero byte. */
typedef struct HjgDeviceInfo
{
	hjg_u32		state;			/* HjgDeviceState */
	hjg_u32		compute_units;
	HjgDeviceId id;				/* no number: a driver without a device */
	hjg_u64		memory_bytes;
	hjg_u64		l2_bytes;		/* of a GPU */
	/*
	 * of a GPU: its context exists, created by the first join; of OpenCL: HJG_WIDTH_BIT()s of the keys
	 * whose steps are measured
	 */
	hjg_u32		warm;
	hjg_u32		pad;
	char		description[128];
	char		reason[128];
} HjgDeviceInfo;

/* Flag in HjgDeviceHealth.in_use: the process's end is not the device's failure, or is counted already. */
#define HJG_HEALTH_EXCUSED 0x80000000u

/* A device's failures.  The device process writes them; a reset of the statistics zeroes them. */
typedef struct HjgDeviceHealth
{
	char		name[32];		/* of the device; empty = free entry */
	hjg_u32		failures;		/* in quick succession */
	hjg_u32		in_use;			/* number of its operations that run; and HJG_HEALTH_EXCUSED */
	hjg_u64		last_ns;		/* of the last failure */
	hjg_u64		rest_until_ns;	/* not used until then (monotonic clock) */
	char		text[128];		/* of the last failure */
} HjgDeviceHealth;

/*
 * Confinement of the device process (device_confine.c).  The version of Landlock, 0 for none, is above
 * these bits.
 */
#define HJG_CONFINED_NO_NEW_PRIVS 1u
#define HJG_CONFINED_SECCOMP 2u
#define HJG_CONFINED_LANDLOCK_SHIFT 8

/*
 * Head of the server half; one struct, because it is the layout of the mapping.  Each group of fields has
 * its own writers.
 */
typedef struct HjgControl
{
	/* constant once the arena exists */
	hjg_u64		magic;
	hjg_u32		layout_version;
	hjg_u32		control_bytes;	/* sizes of the structs, which reveal a mismatch */
	hjg_u32		job_bytes;
	hjg_u32		device_block_bytes;
	hjg_u32		report_bytes;
	hjg_u32		nslabs;			/* of each half; at most as many slabs of both halves together have memory */
	hjg_u64		server_bytes;
	hjg_u64		device_bytes;

	/* free slabs */
	HjgSlabStack warm[HJG_SLAB_USES];	/* with memory, last freed first */
	HjgSlabStack cold[HJG_SLAB_USES];	/* without memory */
	hjg_u32		nresident HJG_CACHE_ALIGNED;	/* slabs with memory: all but the cold ones */
	hjg_u32		memory_wanted;	/* number of leases that failed because a driver holds the memory of free
								 * slabs */

	/* life of the device process, written by the supervisor */
	hjg_u32		epoch HJG_CACHE_ALIGNED;	/* incremented when a process is certainly dead */
	hjg_u32		device_pid;
	hjg_u32		down_cause;		/* HjgDownCause */
	hjg_u32		down_detail;	/* signal, exit code or errno */
	hjg_u64		device_started_us;
	hjg_u64		distrusted;		/* by any server process: epoch of a device process to be terminated,
								 * HjgDistrust */
	hjg_u32		distrusted_device;	/* the join's device */
	hjg_u32		ready_epoch;	/* by the supervisor: epoch whose device process has reported itself ready */

	/* the supervisor itself */
	hjg_u32		supervisor_pid HJG_CACHE_ALIGNED;
	hjg_u32		supervisor_pgprocno;
	hjg_u32		supervisor_asleep;	/* in a long sleep: wake it when work begins */
	hjg_u32		sweep_wanted;	/* a job was abandoned */

	hjg_u64		calibration_seq HJG_CACHE_ALIGNED;	/* odd while written, 0 = never set */
	hjg_u64		calibration[HJG_CALIBRATION_VALUES];	/* bits of doubles */

	hjg_u64		counters[HJG_CONTROL_COUNTERS] HJG_CACHE_ALIGNED;
	hjg_u64		fallbacks[HJG_CONTROL_FALLBACKS];
	hjg_u64		reset_us;		/* when the counters were set to zero */

	HjgShare	share HJG_CACHE_ALIGNED;	/* for PostgreSQL's processes only */
} HJG_CACHE_ALIGNED HjgControl;

/* Head of the device half. */
typedef struct HjgDeviceBlock
{
	/* doorbell, from clients to the device process */
	hjg_u32		doorbell;		/* futex; number of rings */
	hjg_u32		sleepers;		/* threads that wait on the futex */
	hjg_u32		pollers;		/* threads that are awake and poll for work */
	hjg_u64		submitted[HJG_MAX_JOBS / 64];	/* jobs with work */

	/* relay, from the device process to the supervisor */
	hjg_u32		relay_pending HJG_CACHE_ALIGNED;	/* a byte is in the pipe */
	hjg_u64		notify[HJG_MAX_JOBS / 64];	/* jobs whose waiters must be woken */

	/* life of the device process, written by itself */
	hjg_u32		says_ready_epoch HJG_CACHE_ALIGNED;	/* its epoch once it is ready; the supervisor reads it
													 * until then */
	hjg_u32		nthreads;
	hjg_u32		confined;		/* HJG_CONFINED_... */
	hjg_u64		beat HJG_CACHE_ALIGNED;
	hjg_u32		busy;			/* running operations */
	hjg_u64		workspace_bytes;	/* private memory of the engines */

	HjgDeviceInfo devices[HJG_MAX_DEVICES];
	HjgDeviceHealth health[HJG_MAX_DEVICES];
} HJG_CACHE_ALIGNED HjgDeviceBlock;

/* Reasons of a server process to have the device process terminated. */
typedef enum HjgDistrust
{
	HJG_DISTRUST_RESULT = 1,	/* a result failed its check, or an operation is in an impossible state */
	HJG_DISTRUST_SILENT			/* no progress in an operation that is reported as running */
} HjgDistrust;

typedef enum HjgDownCause
{
	HJG_DOWN_NOT_STARTED = 0,
	HJG_DOWN_STARTING,
	HJG_DOWN_NO_PROGRAM,		/* detail: errno */
	HJG_DOWN_EXITED,			/* detail: exit code */
	HJG_DOWN_SIGNALLED,			/* detail: signal */
	HJG_DOWN_HUNG,				/* killed by the supervisor as unresponsive */
	HJG_DOWN_DISTRUSTED			/* killed by the supervisor; detail: HjgDistrust */
} HjgDownCause;

#endif							/* HJG_CONTROL_H */
