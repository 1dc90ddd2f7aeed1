/*
 * hjg_service.h
 *	  The backend's side of the device process: leasing a job, submitting batches, waiting, and releasing everything in all
 *	  cases.
 *
 * Room "service". A job is one join of one build side with a stream of probe batches. Nothing here loads a driver, starts a
 * thread or blocks anywhere but on the process's latch, so cancel, statement_timeout, termination and postmaster death always
 * work.
 *
 * Ownership. A job and its slabs belong to the CurrentResourceOwner of hjg_job_lease(). On error, subtransaction abort or
 * exit callbacks release them; a job that the device process may still be writing to is marked abandoned, and the supervisor
 * returns it. The HjgJob struct is in TopMemoryContext and is freed with the job.
 *
 * Failure. Functions that can fail because of the device process return a reason and never raise an error for it; the caller
 * decides whether to fall back, or to raise under hjoin_gpu.on_fallback = error. After any failure the input slabs of a job
 * stay valid and readable until hjg_job_release(), so that the caller can redo the unfinished batches.
 */
#ifndef HJG_SERVICE_H
#define HJG_SERVICE_H

#include "postgres.h"

#include "engine/hjg_engine.h"
#include "layout/hjg_control.h"
#include "layout/hjg_device_id.h"
#include "layout/hjg_job.h"
#include "layout/hjg_layout.h"
#include "layout/hjg_program.h"

/*
 * Reasons why a join, or the rest of one, runs in the backend itself:
 *		REASON(name, counter, text, sqlstate, hint)
 * counter: its row of hjoin_gpu_stat, NULL for a reason that is no fallback; text: for EXPLAIN, logs and views; sqlstate and
 * hint: of the error under hjoin_gpu.on_fallback = error.
 */
#define HJG_SEE_LOG "The server log says more about the device process."
#define HJG_REASONS(REASON) \
	REASON(NONE, NULL, "none", 0, NULL) \
	/* too few rows for a job; not a fallback */ \
	REASON(SMALL, NULL, "small join", 0, NULL) \
	/* not preloaded, or the arena could not be made */ \
	REASON(NO_ARENA, "fallback_no_arena", "no shared memory", ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, \
		   "Add hjoin_gpu to shared_preload_libraries and restart the server.") \
	/* never started, or being restarted */ \
	REASON(NO_DEVICE_PROCESS, "fallback_no_device_process", "device process not running", ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, HJG_SEE_LOG) \
	/* hjoin_gpu.device names an absent device */ \
	REASON(NO_DEVICE, "fallback_no_device", "device not found", ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, \
		   "See the view hjoin_gpu_devices for values of hjoin_gpu.device.") \
	/* all job slots busy during the bounded wait */ \
	REASON(NO_SLOT, "fallback_no_slot", "no job slot free", ERRCODE_INSUFFICIENT_RESOURCES, HJG_SEE_LOG) \
	/* no slab free during the bounded wait */ \
	REASON(ARENA_FULL, "fallback_arena_full", "shared memory full", ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, "Raise hjoin_gpu.arena_size.") \
	/* the device process died during the job */ \
	REASON(DEVICE_LOST, "fallback_device_lost", "device process lost", ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, HJG_SEE_LOG) \
	/* no heartbeat for hjoin_gpu.device_timeout */ \
	REASON(DEVICE_TIMEOUT, "fallback_device_timeout", "device process does not answer", ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, \
		   "Raise hjoin_gpu.device_timeout if the machine is merely busy.") \
	REASON(BAD_RESULT, "fallback_bad_result", "result failed its check", ERRCODE_DATA_CORRUPTED, HJG_SEE_LOG) \
	/* the engine reported an error, such as out of memory */ \
	REASON(ENGINE_ERROR, "fallback_engine_error", "engine error", ERRCODE_OUT_OF_MEMORY, HJG_SEE_LOG) \
	/* the cpu engine of the device process joins; or the node runs without a program, as of the next two */ \
	REASON(DEVICE_MEMORY, "fallback_device_memory", "device memory not available", ERRCODE_OUT_OF_MEMORY, \
		   "Raise hjoin_gpu.device_memory, or let fewer sessions join at a time.") \
	REASON(DEVICE_REFUSED, "fallback_device_error", "device driver error", ERRCODE_SYSTEM_ERROR, \
		   "See the view hjoin_gpu_devices and the server log.") \
	/* more groups than foreseen, a key that comes twice, or kept columns that have changed in memory */ \
	REASON(PROGRAM_REFUSED, "fallback_program_refused", "program could not be run on these rows", ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, \
		   "The query runs without it under hjoin_gpu.on_fallback = log.") \
	REASON(DISTRUSTED, "fallback_distrusted", "a join differed from core's", ERRCODE_DATA_CORRUPTED, \
		   "The server log names the join; hjoin_gpu_stat_reset() switches joins on again.") \
	/* the device joined, but not by the strategy of hjoin_gpu.strategy */ \
	REASON(STRATEGY, "fallback_strategy", "strategy does not suit the join", ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, HJG_SEE_LOG) \
	REASON(BACKEND_SHARE, "fallback_backend_share", "share of the backend used up", ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, \
		   "Raise hjoin_gpu.backend_share or hjoin_gpu.arena_size, or close cursors.") \
	/* during the bounded wait */ \
	REASON(ROLE_SHARE, "fallback_role_share", "share of the role used up", ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, \
		   "Raise hjoin_gpu.role_share or hjoin_gpu.arena_size, or let fewer sessions of the role join at a time.") \
	/* the job was released between two fetches; not a fallback */ \
	REASON(SUSPENDED, NULL, "query suspended", 0, NULL)

typedef enum HjgReason
{
#define REASON(name, counter, text, sqlstate, hint) HJG_REASON_##name,
	HJG_REASONS(REASON)
#undef REASON
	HJG_REASON_COUNT
} HjgReason;

typedef struct HjgReasonFacts
{
	const char *counter;
	const char *text;
	int			sqlstate;
	const char *hint;
} HjgReasonFacts;

extern const HjgReasonFacts hjg_reasons[HJG_REASON_COUNT];

typedef struct HjgJob HjgJob;

/*
 * Is the extension trusted? False after a join differed from core's in a comparison, until the statistics are reset; costs a
 * load.
 */
extern bool hjg_service_trusted(void);

/* Is there an arena, and a device process that is ready and trusted? Costs three loads. */
extern bool hjg_service_available(HjgReason *reason);

/* Facts of a GPU for the choice between devices. */
typedef struct HjgGpuFacts
{
	int			number;			/* N of cuda:N */
	double		l2_bytes;
	bool		cold;			/* no join has used it yet */
	char		description[128];
} HjgGpuFacts;

/*
 * Find the GPU that a job would get, if hjoin_gpu.device allows one and one is ready: the one it names, or under auto that
 * with the fewest jobs.
 */
extern bool hjg_service_gpu(HjgGpuFacts *facts);
/* Find the facts of cuda:number, if it is ready. */
extern bool hjg_service_gpu_at(int number, HjgGpuFacts *facts);
/* List the ready GPUs that hjoin_gpu.device allows, ids[HJG_MAX_DEVICES], always in the same order; returns how many. */
extern int	hjg_service_gpus(HjgDeviceId *ids);
/* Facts of an OpenCL device for divided joins. */
typedef struct HjgCoupledFacts
{
	uint32		widths;			/* HJG_WIDTH_BIT()s of keys whose joins need not wait for the measurement of steps */
	char		description[128];
} HjgCoupledFacts;

/* Find the facts of opencl:number, if it is ready and the settings name it or leave the choice open. */
extern bool hjg_service_coupled_at(int number, HjgCoupledFacts *facts);

/*
 * Lease a job slot, waiting at most a short bounded time. Returns NULL and a reason if there is none. Under hjoin_gpu.device
 * = auto the job is for the wished device, if that is ready, else for the cpu engine. If the device does not gather payload
 * columns, spec->payload is set to none.
 */
extern HjgJob *hjg_job_lease(HjgJoinSpec *spec, HjgDeviceId wanted, HjgReason *reason);

/*
 * One job for several processes. The owner, which leased it, makes a name of it, which may be in shared memory. Each process
 * that works on the job, the owner included, attaches a handle of its own, with the spec of the lease. Each handle fills
 * slabs, adds build inputs and runs batches of its own; one of them submits the build, after all have added their inputs.
 * Build inputs belong to the job until its owner releases it; releasing an attached handle releases everything else that it
 * has. If the owner releases first, the supervisor returns the job when the last handle is released.
 */
typedef struct HjgJobName
{
	uint32		job_ix;
	uint32		generation;
} HjgJobName;

extern HjgJobName hjg_job_share(HjgJob *job);
/* Attach to a job; NULL and a reason if the job has ended, or has too many participants. */
extern HjgJob *hjg_job_attach(HjgJobName name, const HjgJoinSpec *spec, HjgReason *reason);
/* Find the address of a slab of the job, whichever handle filled it; NULL if there is no such slab. */
extern void *hjg_job_slab_at(uint32 slab_ix);
/*
 * Set the sum of all handles' inputs, for checking results: highest build row number + 1, and whether all inputs have their
 * payload columns.
 */
extern void hjg_job_build_facts(HjgJob *job, uint64 limit, bool has_payload);

/*
 * Lease one slab of HJG_SLAB_BYTES, zeroed, for keys; it belongs to the job. NULL and a reason if there is none in a short
 * bounded time.
 */
extern void *hjg_job_slab(HjgJob *job, uint32 *slab_ix, HjgReason *reason);

/*
 * Add a filled slab to the build side. Row numbers as in HjgSegment. The slab holds at most hjg_input_rows() rows; with
 * has_payload their columns are at hjg_input_payload_off().
 */
extern void hjg_job_build_add(HjgJob *job, uint32 slab_ix, uint32 nrows, uint32 first_row, bool has_payload);

/* Submit the build side, after its last slab: the device process builds. Does not wait. */
extern void hjg_job_build_submit(HjgJob *job);

/*
 * Open a probe batch with space for result_pairs pairs a round, rounded up to whole slabs; with less space if the arena is
 * short, which only means more rounds. Returns its number; or -1 if the job has no free batch (wait for one and close it) or
 * the arena has no slab (*reason = HJG_REASON_ARENA_FULL).
 */
extern int	hjg_job_batch_open(HjgJob *job, uint64 result_pairs, HjgReason *reason);

/* Add a filled slab to the batch; rows count from 0 in the order of the calls. */
extern void hjg_job_batch_add(HjgJob *job, int batch, uint32 slab_ix, uint32 nrows, bool has_payload);

/* Set the start of a batch's first round, if that is not the batch's beginning with all pairs. */
extern void hjg_job_batch_seek(HjgJob *job, int batch, HjgCursor cursor);

/*
 * Run the next round of the batch, from the cursor where the last one ended. May be called before the build is finished: the
 * device process waits for it.
 */
extern void hjg_job_batch_submit(HjgJob *job, int batch);

/* Memory for the result of a round. Its owner zeroes it, sets the context of the memory, and frees that. */
typedef struct HjgRoundMemory
{
	MemoryContext context;
	void	   *space;
	size_t		bytes;
	size_t		used;			/* the most of these bytes that were requested; untouched memory costs nothing */
} HjgRoundMemory;

/* Make space for bytes, of which up to `most` may be requested soon; the former content is lost. */
extern void *hjg_service_round_space(HjgRoundMemory *memory, size_t bytes, size_t most);

typedef struct HjgBatchResult
{
	uint64		npairs;
	const HjgPair *pairs;		/* in the caller's memory; NULL: it gave none */
	uint32		gathered;		/* sides whose payload columns came with the pairs, */
	const char *columns[HJG_SIDES]; /* and these columns, by pair */
	HjgCursor	cursor;			/* where the next round starts */
	bool		finished;		/* no further round is needed; not known of a program */
} HjgBatchResult;

/*
 * Wait for the submitted round. When this returns HJG_REASON_NONE, the result has been checked: checksum, count against
 * capacity, row numbers against the submitted rows, cursor not going back. The checked data is a copy in memory that no other
 * process can access; without memory, pairs are only counted. After any other reason only the inputs of the job can be used.
 */
extern HjgReason hjg_job_batch_wait(HjgJob *job, int batch, HjgRoundMemory *memory, HjgBatchResult *result);

/*
 * Close a batch: its slabs go back to the arena and its number becomes free. While a round of it runs nothing happens, and
 * the job's release does it.
 */
extern void hjg_job_batch_close(HjgJob *job, int batch);

/*
 * Copy the statistics of a job whose rounds have ended from shared memory. Those of the engine are the job's, for any handle;
 * wait_ns and arena_bytes are the handle's.
 */
extern void hjg_job_stats(HjgJob *job, HjgJobStats *stats);
/* Get the reason why the cpu engine of the device process runs a job instead of its device; HJG_REASON_NONE if it does not. */
extern HjgReason hjg_job_device_fallback(HjgJob *job);
/* Get the device of the job. */
extern HjgDeviceId hjg_job_device(const HjgJob *job);

/*
 * Jobs of queries that may be suspended, between two fetches of a cursor. The user of a job sets its query, and its holder,
 * which can do without the job. The job is suspended when its query is suspended, and resumed when the query continues;
 * hjg_job_suspend() returns true if suspended jobs hold more than they may, so that this one must be released.
 */
extern void hjg_job_hold(HjgJob *job, void *holder, const void *query);
extern void *hjg_job_holder(const HjgJob *job);
/* Has this process any job? */
extern bool hjg_service_has_jobs(void);
/* Find the query's first job, or its next one after another; NULL at the end. */
extern HjgJob *hjg_job_of_query(const void *query, HjgJob *after);
extern bool hjg_job_suspend(HjgJob *job);
extern void hjg_job_resume(HjgJob *job);

/* Release a job; the handle must not be used any more; NULL is allowed. */
extern void hjg_job_release(HjgJob *job);

/* A part of a program's block. */
#define HJG_PROGRAM_PARTS 14

typedef struct HjgProgramPart
{
	const uint64 *words;
	uint64		nwords;
} HjgProgramPart;

/* A program for one GPU. */
typedef struct HjgProgramTask
{
	HjgDeviceId device;
	HjgProgram	head;
	uint32		group_words;	/* of a group of its result */
	uint64		expected_groups;
	int			nparts;			/* of its block, of which the first one is the head */
	HjgProgramPart parts[HJG_PROGRAM_PARTS];
	uint64	   *words;			/* out: its result */
	uint64		nwords;
} HjgProgramTask;

/*
 * Have devices of the device process run programs at the same time (service_program.c), at most HJG_MAX_DEVICES, and wait for all results,
 * whose words come in the current memory context. Returns false and a reason if one of them could not be run, or has more groups than it may;
 * then there is no result. True with a reason: a GPU gave its program up, for that reason, and threads have run it. *stats: of all of them together.
 */
extern bool hjg_job_run_programs(HjgProgramTask *tasks, int ntasks, HjgJobStats *stats, HjgReason *reason);

/* Counters: COUNTER(name, row of hjoin_gpu_stat, its detail) */
#define HJG_COUNTERS(COUNTER) \
	COUNTER(JOINS, "joins", "executions of the node that joined something") \
	COUNTER(JOINS_DEVICE, "joins_device", "of these, run by the device process") \
	COUNTER(JOINS_BACKEND, "joins_backend", "of these, run in the backend from the start") \
	COUNTER(BUILD_ROWS, "build_rows", NULL) \
	COUNTER(PROBE_ROWS, "probe_rows", NULL) \
	COUNTER(PAIRS, "pairs", "candidates that an engine returned") \
	COUNTER(PARTITIONED, "joins_partitioned", "joins whose inputs went to temporary files") \
	COUNTER(LARGEST_SPILLED_BUILD, "largest_spilled_build_mb", "the largest build side that a process of these had") \
	COUNTER(REDONE_BATCHES, "batches_redone", NULL) \
	COUNTER(BAD_RESULTS, "results_rejected", NULL) \
	COUNTER(CANCELLED_JOBS, "jobs_cancelled", NULL) \
	COUNTER(SUSPENDED_JOBS, "jobs_given_back", "between two fetches of a cursor") \
	COUNTER(HOOK_TAKEN, "hook_taken", "queries whose joins another library, which replaced set_join_pathlist_hook, kept from the node") \
	COUNTER(DEVICE_STARTS, "device_starts", NULL) \
	COUNTER(DEVICE_DEATHS, "device_deaths", NULL) \
	COUNTER(DEVICE_KILLS, "device_kills", "by the supervisor, for a missing heartbeat or a wrong result") \
	COUNTER(PROGRAMS, "programs", "executions whose result came from a program of the device process") \
	COUNTER(VERIFIED, "verified_joins", "executions of the node that were compared with core") \
	COUNTER(MISMATCHES, "verified_mismatches", "those of them that differed")

typedef enum HjgCounter
{
#define COUNTER(name, row, detail) HJG_COUNT_##name,
	HJG_COUNTERS(COUNTER)
#undef COUNTER
	HJG_COUNT_COUNT
} HjgCounter;

/* Add to a counter; does nothing without an arena. */
extern void hjg_service_count(HjgCounter counter, uint64 n);
/* Raise a counter to n if it is less. */
extern void hjg_service_count_largest(HjgCounter counter, uint64 n);
/* Count a fallback by its reason. */
extern void hjg_service_count_fallback(HjgReason reason);

/*
 * The model's calibrated unit costs: an array of doubles in the arena, whose meaning is the model's. get returns false if
 * nothing was set or there is no arena. set also writes them to a file of the data directory, which the supervisor reads at
 * start, if it was measured on this machine.
 */
/* Get a number that changes with every calibration; 0: there was none. Values that are read after it are as new, or newer. */
extern uint64 hjg_service_calibration_version(void);
extern bool hjg_service_calibration_get(double values[HJG_CALIBRATION_VALUES]);
extern void hjg_service_calibration_set(const double values[HJG_CALIBRATION_VALUES]);
/* Say "calibrated", or "default" and why an existing file is not in force. */
extern const char *hjg_service_calibration_state(void);

/*
 * Install shared memory hooks and register the supervisor; called by _PG_init in the postmaster. open_kept opens a read-only descriptor of
 * the file of kept columns for the device process; it returns -1 if there is none.
 */
extern void hjg_service_init(int (*open_kept) (void));

#endif							/* HJG_SERVICE_H */
