/*
 * exec_parallel.c
 *	  One join of several processes: the leader of a parallel query and its workers.
 *
 * Every participant reads its share of both children; there is one build side and
 * one job for all.  What is common lies in HjgParallelShared, in the query's DSM segment, and
 * in blocks of the query's DSA area that the participants allocate.
 *
 * Phases.  The barrier's phases are, and a participant passes through them in
 * hjg_parallel_build(), before it returns its first row:
 *		READ	everybody reads its share of the inner child.  Row numbers are taken in
 *				ranges from a counter; the keys of a range go to a slab of the job, or to a
 *				block when there is no job.  At the end it publishes what it has filled.
 *		SHARE	in memory: everybody adds its slabs to the job, and the one who is elected
 *				counts the rows and makes the bits of build rows.  Partitioned: everybody
 *				moves what it still has in memory to the partitions.
 *		ROUTE	in memory: the one who is elected submits the build.  Partitioned:
 *				everybody reads its share of the outer child into the partitions.
 *		JOIN	in memory: everybody takes in what was published and probes with its own
 *				batches of its share of the outer child.  Partitioned: partitions are claimed
 *				one by one and joined like those of a join alone.
 *		OVER	all who took part are through
 * Who comes late enters at the phase of the moment; who comes when it is OVER has
 * nothing to do.
 *
 * Deadlocks.  Nobody waits for others once it is in JOIN, and nobody has a row to
 * emit before.  So whoever waits at the barrier waits for processes that read,
 * and never for one that is stuck with rows that nobody takes.  That is why unmatched
 * build rows come out in the last participant that leaves JOIN, without waiting:
 * by then all the others have set their bits.
 *
 * What is private: fates of probe rows, rows with a NULL key (each comes out where
 * it was read), the engine when the device process is missing or lost.  In that case
 * each participant builds a table of its own from the published keys, so that the
 * engine's memory is taken once for each of them.
 *
 * Memory.  The build side may use hash_mem times the participants, as core's Parallel Hash
 * does.  Who finds it full makes partitions, which all go over to at their next look.
 *
 * Who frees what.  Blocks belong to the query's DSA area and are freed when the leader resets
 * the shared state or the area ends; the leader owns the job, and each participant has a
 * handle that goes with its run.  Leader's local state is dropped with the shared state,
 * whichever of ReInitializeDSM and ReScan comes first.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_bitutils.h"
#include "storage/barrier.h"
#include "storage/dsm.h"
#include "storage/lwlock.h"
#include "utils/dsa.h"

#include "base/hjg_base.h"
#include "executor/hjg_executor.h"

/* Rows of a range when keys do not go to slabs; a range in a slab fills it. */
#define RANGE_ROWS 16384

/* A participant tells the others of its memory when it has changed by so much. */
#define TELL_BYTES 65536

/* What a shared partition's file takes while rows are written to it: pages that core collects. */
#define SHARED_FILE_BUFFER_BYTES (5 * BLCKSZ)

typedef enum ParallelPhase
{
	PHASE_READ,
	PHASE_SHARE,
	PHASE_ROUTE,
	PHASE_JOIN,
	PHASE_OVER
} ParallelPhase;

/* Head of a block; the rest starts a cache line further. */
typedef struct Block
{
	dsa_pointer next;
} Block;

#define BLOCK_HEAD_BYTES 64

/* What a participant has filled: segments, then pieces of the store. */
typedef struct Published
{
	uint32		nsegments;
	uint32		npieces;
} Published;

#define PUBLISHED_SEGMENTS(p) ((HjgKeySegment *) ((char *) (p) + MAXALIGN(sizeof(Published))))
#define PUBLISHED_PIECES(p) ((HjgStorePiece *) (PUBLISHED_SEGMENTS(p) + (p)->nsegments))

/* Written by its participant alone; read by others behind the barrier, or by the leader at the end. */
typedef struct Member
{
	dsa_pointer blocks;			/* chain of all that it allocated */
	dsa_pointer published;
	uint64		told_bytes;		/* its part of bytes below */
	bool		reported;
	HjgReport	report;
} Member;

typedef struct HjgParallelShared
{
	/* set by the leader */
	int			nmembers;		/* the leader and all workers that were planned */
	dsm_handle	segment;
	bool		has_job;
	HjgJobName	job;
	HjgJobSpec	spec;
	HjgReason	no_job;			/* why there is none */
	int			key_width;
	uint32		range_rows;
	double		chunk_rows;		/* of the store */
	SharedFileSet files;

	Barrier		barrier;
	pg_atomic_uint32 next_range;
	pg_atomic_uint32 next_block;	/* of variable-length values */
	pg_atomic_uint64 bytes;		/* of all that is in memory */

	/* set by whoever is elected in SHARE */
	bool		build_in_job;
	uint64		nrows;
	dsa_pointer range_nrows;	/* uint32 for each range: its rows */
	dsa_pointer matched;		/* bits, when they are kept; those of holes are set */

	/* partitions */
	LWLock		lock;			/* of whoever makes them */
	pg_atomic_uint32 npartitions;	/* 0: all in memory */
	dsa_pointer places;			/* of shared spill files: build, probe, build, ... */
	pg_atomic_uint32 next_partition;	/* to claim */

	Member		members[FLEXIBLE_ARRAY_MEMBER];
} HjgParallelShared;

struct HjgParallel
{
	HjgParallelShared *shared;
	dsa_area   *area;
	MemoryContext context;		/* this struct's */
	int			me;				/* the leader is 0 */
	bool		attached;		/* to the barrier */
	HjgJob	   *owned;			/* leader */
	HjgStore   *store;			/* of the load that is being read */
	HjgSharing	sharing;
	HjgPartition **partitions;	/* NULL where claimed; in the partition context */
	int			npartitions;
};

/* ---------- blocks ---------- */

static void *
block_at(HjgParallel *parallel, uint64 name)
{
	return (char *) dsa_get_address(parallel->area, (dsa_pointer) name) + BLOCK_HEAD_BYTES;
}

static void *
block_alloc(void *arg, size_t bytes, uint64 *name)
{
	HjgParallel *parallel = arg;
	Member	   *member = &parallel->shared->members[parallel->me];
	dsa_pointer pointer = dsa_allocate_extended(parallel->area, BLOCK_HEAD_BYTES + bytes, DSA_ALLOC_HUGE);
	Block	   *block = dsa_get_address(parallel->area, pointer);

	block->next = member->blocks;
	member->blocks = pointer;
	*name = pointer;
	return (char *) block + BLOCK_HEAD_BYTES;
}

static void
free_blocks(HjgParallel *parallel, Member *member)
{
	while (DsaPointerIsValid(member->blocks))
	{
		dsa_pointer pointer = member->blocks;

		member->blocks = ((Block *) dsa_get_address(parallel->area, pointer))->next;
		dsa_free(parallel->area, pointer);
	}
	member->published = InvalidDsaPointer;
}

/* ---------- making and resetting the shared state ---------- */

Size
hjg_parallel_estimate(CustomScanState *node, ParallelContext *pcxt)
{
	return add_size(offsetof(HjgParallelShared, members), mul_size(sizeof(Member), pcxt->nworkers + 1));
}

/* Lease a job for all participants, unless joins are to stay in the backends. */
static void
lease_job(HjgJoinState *state, HjgParallelShared *shared)
{
	HjgParallel *parallel = state->parallel;
	HjgReason	reason = HJG_REASON_SMALL;
	int			key_width = state->inner.codec->key_width;

	shared->has_job = false;
	if (hjg_embedded_rows >= 0)
	{
		/* reading the children may take long: a job costs little while it waits */
		parallel->owned = hjg_run_lease_job(key_width, hjg_load_mode(state), &shared->spec, &reason);
		if (parallel->owned != NULL)
		{
			shared->job = hjg_job_share(parallel->owned);
			shared->has_job = true;
			reason = HJG_REASON_NONE;
		}
		else
			hjg_run_tell_fallback(&state->report, reason);
	}
	shared->no_job = reason;
	shared->key_width = key_width;
	shared->range_rows = shared->has_job ? HJG_SLAB_BYTES / key_width : RANGE_ROWS;
	shared->chunk_rows = hjg_chunk_rows(&state->inner, state->inner.plan->plan->plan_rows);
	shared->chunk_rows = Min(shared->chunk_rows, Min(RANGE_ROWS, HJG_STORE_MAX_CHUNK_ROWS));
}

/* All that an execution changes. */
static void
init_execution(HjgJoinState *state, HjgParallelShared *shared)
{
	BarrierInit(&shared->barrier, 0);
	pg_atomic_write_u32(&shared->next_range, 0);
	pg_atomic_write_u32(&shared->next_block, 0);
	pg_atomic_write_u64(&shared->bytes, 0);
	pg_atomic_write_u32(&shared->npartitions, 0);
	pg_atomic_write_u32(&shared->next_partition, 0);
	shared->build_in_job = false;
	shared->nrows = 0;
	shared->range_nrows = InvalidDsaPointer;
	shared->matched = InvalidDsaPointer;
	shared->places = InvalidDsaPointer;
	for (int i = 0; i < shared->nmembers; i++)
	{
		shared->members[i].blocks = InvalidDsaPointer;
		shared->members[i].published = InvalidDsaPointer;
		shared->members[i].told_bytes = 0;
		shared->members[i].reported = false;
	}
	lease_job(state, shared);
}

static HjgParallel *
make_local(HjgJoinState *state, HjgParallelShared *shared, int me)
{
	EState	   *estate = state->css.ss.ps.state;
	HjgParallel *parallel = MemoryContextAllocZero(estate->es_query_cxt, sizeof(HjgParallel));

	parallel->shared = shared;
	parallel->area = estate->es_query_dsa;
	parallel->context = estate->es_query_cxt;
	parallel->me = me;
	parallel->sharing = (HjgSharing) {
		.arg = parallel,
		.alloc = block_alloc,
		.next_block = &shared->next_block,
	};
	return parallel;
}

/* Leader; comes again for the same node when its Gather was shut down before a rescan. */
void
hjg_parallel_init_leader(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	HjgJoinState *state = (HjgJoinState *) node;
	HjgParallelShared *shared = coordinate;

	hjg_exec_reset(state);
	hjg_parallel_end(state);
	/* without a segment there are no workers, and no memory to share */
	if (pcxt->seg == NULL)
		return;

	memset(shared, 0, offsetof(HjgParallelShared, members));
	shared->nmembers = pcxt->nworkers + 1;
	shared->segment = dsm_segment_handle(pcxt->seg);
	SharedFileSetInit(&shared->files, pcxt->seg);
	LWLockInitialize(&shared->lock, LWTRANCHE_PARALLEL_HASH_JOIN);
	pg_atomic_init_u32(&shared->next_range, 0);
	pg_atomic_init_u32(&shared->next_block, 0);
	pg_atomic_init_u64(&shared->bytes, 0);
	pg_atomic_init_u32(&shared->npartitions, 0);
	pg_atomic_init_u32(&shared->next_partition, 0);
	state->parallel = make_local(state, shared, 0);
	state->shut = false;
	init_execution(state, shared);
}

void
hjg_parallel_init_worker(CustomScanState *node, shm_toc *toc, void *coordinate)
{
	HjgJoinState *state = (HjgJoinState *) node;
	HjgParallelShared *shared = coordinate;

	if (ParallelWorkerNumber + 1 >= shared->nmembers)
		elog(ERROR, "more parallel workers than planned");
	SharedFileSetAttach(&shared->files, dsm_find_mapping(shared->segment));
	state->parallel = make_local(state, shared, ParallelWorkerNumber + 1);
}

/* Take the figures of the workers and of the shared job; once for each lease. */
static void
collect_reports(HjgJoinState *state)
{
	HjgParallel *parallel = state->parallel;

	for (int i = 1; i < parallel->shared->nmembers; i++)
	{
		Member	   *member = &parallel->shared->members[i];

		if (!member->reported)
			continue;
		member->reported = false;
		pg_read_barrier();
		hjg_report_add(&state->others, &member->report);
	}
	if (parallel->owned != NULL && state->others.device_loads + state->report.device_loads > 0)
	{
		HjgJobTimes times;

		hjg_job_times(parallel->owned, &times);
		hjg_report_add_job(&state->others, &times);
	}
}

/* Leader: all workers of the last execution have ended. */
void
hjg_parallel_reinit(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	HjgJoinState *state = (HjgJoinState *) node;
	HjgParallel *parallel = state->parallel;
	HjgParallelShared *shared = coordinate;

	if (parallel == NULL)
		return;
	parallel->attached = false;
	hjg_exec_reset(state);
	if (!state->shut)
		collect_reports(state);
	hjg_job_release(parallel->owned);
	parallel->owned = NULL;
	for (int i = 0; i < shared->nmembers; i++)
		free_blocks(parallel, &shared->members[i]);
	if (DsaPointerIsValid(shared->places))
		dsa_free(parallel->area, shared->places);
	SharedFileSetDeleteAll(&shared->files);
	init_execution(state, shared);
	state->shut = false;
}

/* ---------- the shared load ---------- */

void
hjg_parallel_open_load(HjgParallel *parallel, HjgJoinState *state)
{
	HjgParallelShared *shared = parallel->shared;
	HjgRun	   *run = state->run;

	state->build_rows = hjg_store_create_shared(state->load_context, state->inner.ncarried,
												state->inner.columns, shared->chunk_rows, &parallel->sharing);
	parallel->store = state->build_rows;
	run->max_batches = Max(1, Min(HJG_BATCHES_IN_FLIGHT, HJG_JOB_BATCHES / shared->nmembers));
	if (shared->has_job)
		hjg_run_attach(run, shared->job, &shared->spec);
	else
		hjg_run_no_job(run, shared->no_job);
}

void
hjg_parallel_next_range(HjgParallel *parallel, HjgKeySegment *segment, size_t *bytes)
{
	HjgParallelShared *shared = parallel->shared;

	*bytes = (size_t) shared->range_rows * shared->key_width;
	if (segment->keys == NULL)
		segment->keys = block_alloc(parallel, *bytes, &segment->name);
	segment->first_row = pg_atomic_fetch_add_u32(&shared->next_range, 1) * shared->range_rows;
	hjg_store_seek(parallel->store, segment->first_row);
}

bool
hjg_parallel_is_full(HjgParallel *parallel, size_t load_bytes)
{
	HjgParallelShared *shared = parallel->shared;
	Member	   *member = &shared->members[parallel->me];
	uint64		nranges;
	uint64		bytes;

	if (pg_atomic_read_u32(&shared->npartitions) > 0)
		return true;
	if (load_bytes < member->told_bytes + TELL_BYTES)
		return false;
	bytes = pg_atomic_add_fetch_u64(&shared->bytes, load_bytes - member->told_bytes);
	member->told_bytes = load_bytes;
	/* everybody may take one more range until it looks again */
	nranges = (uint64) pg_atomic_read_u32(&shared->next_range) + shared->nmembers;
	return (double) bytes > (double) get_hash_memory_limit() * shared->nmembers ||
		nranges * shared->range_rows > HJG_MAX_BUILD_ROWS;
}

/* Leave for the others where to find what was filled here. */
static void
publish(HjgJoinState *state)
{
	HjgParallel *parallel = state->parallel;
	const HjgKeyBuffer *keys = &state->run->build;
	int			npieces;
	const HjgStorePiece *pieces = hjg_store_pieces(state->build_rows, &npieces);
	Published  *published;
	uint64		name;

	published = block_alloc(parallel, MAXALIGN(sizeof(Published)) + keys->nsegments * sizeof(HjgKeySegment) +
							npieces * sizeof(HjgStorePiece), &name);
	published->nsegments = keys->nsegments;
	published->npieces = npieces;
	if (keys->nsegments > 0)
		memcpy(PUBLISHED_SEGMENTS(published), keys->segments, keys->nsegments * sizeof(HjgKeySegment));
	if (npieces > 0)
		memcpy(PUBLISHED_PIECES(published), pieces, npieces * sizeof(HjgStorePiece));
	parallel->shared->members[parallel->me].published = name;
}

/* Everything is published: count it, and make the bits of build rows. */
static void
sum_up(HjgJoinState *state)
{
	HjgParallel *parallel = state->parallel;
	HjgParallelShared *shared = parallel->shared;
	uint32		nranges = pg_atomic_read_u32(&shared->next_range);
	uint64		nbits = (uint64) nranges * shared->range_rows;
	uint32	   *range_nrows;
	uint64	   *matched = NULL;
	uint64		name;

	range_nrows = block_alloc(parallel, Max(nranges, 1) * sizeof(uint32), &name);
	shared->range_nrows = name;
	memset(range_nrows, 0, nranges * sizeof(uint32));
	if (state->track_build)
	{
		matched = block_alloc(parallel, (nbits / 64 + 1) * sizeof(uint64), &name);
		shared->matched = name;
		memset(matched, 0xFF, (nbits / 64 + 1) * sizeof(uint64));
	}
	shared->build_in_job = shared->has_job;
	for (int i = 0; i < shared->nmembers; i++)
	{
		dsa_pointer pointer = shared->members[i].published;
		const Published *published;

		if (!DsaPointerIsValid(pointer))
			continue;
		published = block_at(parallel, pointer);
		for (uint32 s = 0; s < published->nsegments; s++)
		{
			const HjgKeySegment *segment = &PUBLISHED_SEGMENTS(published)[s];

			shared->nrows += segment->nrows;
			range_nrows[segment->first_row / shared->range_rows] = segment->nrows;
			if (segment->slab_ix == HJG_NO_SLAB)
				shared->build_in_job = false;
			if (matched == NULL)
				continue;
			/* ranges start at a word */
			memset(matched + segment->first_row / 64, 0, segment->nrows / 64 * sizeof(uint64));
			if (segment->nrows % 64 != 0)
				matched[(segment->first_row + segment->nrows) / 64] = ~UINT64CONST(0) << segment->nrows % 64;
		}
	}
}

/* Take in all that was published: from here on this is a load like any other. */
static void
open_probe(HjgJoinState *state)
{
	HjgParallel *parallel = state->parallel;
	HjgParallelShared *shared = parallel->shared;
	HjgRun	   *run = state->run;
	HjgMatchMode mode = hjg_load_mode(state);

	state->report.build_rows += run->build.nrows;	/* what was read here */
	run->build.nsegments = 0;
	run->build.nrows = 0;
	run->build.bytes = 0;
	for (int i = 0; i < shared->nmembers; i++)
	{
		dsa_pointer pointer = shared->members[i].published;
		const Published *published;

		if (!DsaPointerIsValid(pointer))
			continue;
		published = block_at(parallel, pointer);
		for (uint32 s = 0; s < published->nsegments; s++)
		{
			HjgKeySegment segment = PUBLISHED_SEGMENTS(published)[s];

			segment.keys = segment.slab_ix != HJG_NO_SLAB ? hjg_job_slab_at(segment.slab_ix) :
				block_at(parallel, segment.name);
			hjg_run_import(run, &segment);
		}
		for (uint32 p = 0; p < published->npieces; p++)
		{
			const HjgStorePiece *piece = &PUBLISHED_PIECES(published)[p];

			hjg_store_add_piece(state->build_rows, piece, block_at(parallel, piece->name));
		}
	}
	if (run->build.nrows != shared->nrows)
		elog(ERROR, "shared build side has %u rows instead of " UINT64_FORMAT, run->build.nrows, shared->nrows);
	run->range_nrows = block_at(parallel, shared->range_nrows);
	run->range_shift = pg_leftmost_one_pos32(shared->range_rows);
	if (state->track_build)
		state->build_matched = block_at(parallel, shared->matched);
	/* some build keys found no place in the arena: nobody was refused anything else */
	if (shared->has_job && !shared->build_in_job && !run->job_lost)
		hjg_run_no_job(run, HJG_REASON_ARENA_FULL);
	state->last_chunk = true;
	hjg_run_build_done(run, mode);
}

/* ---------- partitions ---------- */

/* This process's view of the shared partitions; rows are routed to them. */
static void
attach_partitions(HjgJoinState *state)
{
	HjgParallel *parallel = state->parallel;
	HjgParallelShared *shared = parallel->shared;
	size_t		file_bytes = MAXALIGN(hjg_spill_shared_bytes(shared->nmembers));
	int			key_width = state->inner.codec->key_width;
	char	   *place = dsa_get_address(parallel->area, shared->places);
	MemoryContext old;

	if (state->partition_context == NULL)
		state->partition_context = AllocSetContextCreate(state->css.ss.ps.state->es_query_cxt,
														 "GpuHashJoin partitions", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(state->partition_context);
	parallel->npartitions = (int) pg_atomic_read_u32(&shared->npartitions);
	parallel->partitions = palloc(parallel->npartitions * sizeof(HjgPartition *));
	for (int i = 0; i < parallel->npartitions; i++, place += 2 * file_bytes)
		parallel->partitions[i] =
			hjg_partition_adopt(hjg_spill_attach(place, parallel->me, &shared->files, state->inner.spill_desc,
												 key_width),
								hjg_spill_attach(place + file_bytes, parallel->me, &shared->files,
												 state->outer.spill_desc, key_width));
	state->routes = parallel->partitions;
	state->nroutes = parallel->npartitions;
	MemoryContextSwitchTo(old);
}

void
hjg_parallel_route(HjgJoinState *state, double load_bytes)
{
	HjgParallel *parallel = state->parallel;
	HjgParallelShared *shared = parallel->shared;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u32(&shared->npartitions) == 0)
	{
		double		bytes = Max(load_bytes * shared->nmembers, 2.0 * pg_atomic_read_u64(&shared->bytes));
		int			npartitions = hjg_partition_count(bytes, SHARED_FILE_BUFFER_BYTES);
		size_t		file_bytes = MAXALIGN(hjg_spill_shared_bytes(shared->nmembers));
		char	   *place;

		shared->places = dsa_allocate_extended(parallel->area, npartitions * 2 * file_bytes, DSA_ALLOC_HUGE);
		place = dsa_get_address(parallel->area, shared->places);
		for (int i = 0; i < npartitions; i++, place += 2 * file_bytes)
		{
			char		name[NAMEDATALEN];

			snprintf(name, sizeof(name), "b%d", i);
			hjg_spill_shared_init(place, shared->nmembers, parallel->me, state->inner.codec->key_width,
								  &shared->files, name);
			name[0] = 'p';
			hjg_spill_shared_init(place + file_bytes, shared->nmembers, parallel->me,
								  state->inner.codec->key_width, &shared->files, name);
		}
		state->report.npartitions += npartitions;
		hjg_service_count(HJG_COUNT_PARTITIONED, 1);
		pg_write_barrier();
		pg_atomic_write_u32(&shared->npartitions, (uint32) npartitions);
	}
	LWLockRelease(&shared->lock);
	attach_partitions(state);
}

void
hjg_parallel_unload(HjgParallel *parallel)
{
	Member	   *member = &parallel->shared->members[parallel->me];

	parallel->store = NULL;
	free_blocks(parallel, member);
	pg_atomic_fetch_sub_u64(&parallel->shared->bytes, member->told_bytes);
	member->told_bytes = 0;
}

void
hjg_parallel_routed(HjgJoinState *state)
{
	HjgParallel *parallel = state->parallel;

	for (int i = 0; i < parallel->npartitions; i++)
	{
		hjg_spill_end_write(parallel->partitions[i]->probe);
		state->report.spilled_bytes += hjg_spill_bytes(parallel->partitions[i]->build) +
			hjg_spill_bytes(parallel->partitions[i]->probe);
	}
	state->routes = NULL;
	state->nroutes = 0;
}

bool
hjg_parallel_claim(HjgJoinState *state)
{
	HjgParallel *parallel = state->parallel;
	MemoryContext old;
	uint32		ix;

	if (parallel == NULL)
		return false;
	ix = pg_atomic_fetch_add_u32(&parallel->shared->next_partition, 1);
	if (ix >= (uint32) parallel->npartitions)
		return false;
	old = MemoryContextSwitchTo(state->partition_context);
	state->partitions = lappend(state->partitions, parallel->partitions[ix]);
	MemoryContextSwitchTo(old);
	parallel->partitions[ix] = NULL;
	return true;
}

/* ---------- the phases ---------- */

static void
arrive(HjgParallel *parallel, bool *elected)
{
	*elected = BarrierArriveAndWait(&parallel->shared->barrier, PG_WAIT_EXTENSION);
}

/* SHARE, partitioned: nothing stays in memory. */
static void
share_partitions(HjgJoinState *state)
{
	HjgParallel *parallel = state->parallel;

	/* some had no more rows to read when another one found memory full */
	if (state->run != NULL)
		hjg_partition_start(state, state->inner.plan->plan->plan_rows, 0);
	else if (parallel->partitions == NULL)
		attach_partitions(state);
	for (int i = 0; i < parallel->npartitions; i++)
		hjg_spill_end_write(parallel->partitions[i]->build);
}

void
hjg_parallel_build(HjgJoinState *state)
{
	HjgParallel *parallel = state->parallel;
	HjgParallelShared *shared = parallel->shared;
	ParallelPhase phase = BarrierAttach(&shared->barrier);
	bool		elected = false;
	bool		partitioned;

	parallel->attached = true;
	if (phase == PHASE_READ)
	{
		if (!hjg_build_read(state))
			publish(state);
		arrive(parallel, &elected);
		phase = PHASE_SHARE;
	}
	partitioned = pg_atomic_read_u32(&shared->npartitions) > 0;
	if (phase == PHASE_SHARE)
	{
		if (partitioned)
			share_partitions(state);
		else
		{
			if (state->run != NULL)
				hjg_run_add_build(state->run);
			if (elected)
				sum_up(state);
		}
		arrive(parallel, &elected);
		phase = PHASE_ROUTE;
	}
	if (phase >= PHASE_OVER)
	{
		BarrierDetach(&shared->barrier);
		parallel->attached = false;
		state->phase = HJG_PHASE_DONE;
		return;
	}

	if (partitioned && parallel->partitions == NULL)
		share_partitions(state);
	if (!partitioned && state->run == NULL)
		hjg_load_start(state, 1, parallel);
	if (phase == PHASE_ROUTE)
	{
		if (partitioned)
			hjg_partition_probe_side(state);
		else if (elected && shared->build_in_job && !hjg_run_submit_build(state->run))
			shared->build_in_job = false;
		arrive(parallel, &elected);
	}
	else if (partitioned)
		hjg_parallel_routed(state);

	if (partitioned)
		state->phase = HJG_PHASE_NEXT_LOAD;
	else
	{
		open_probe(state);
		state->phase = HJG_PHASE_PROBE;
	}
}

bool
hjg_parallel_owns_unmatched(HjgJoinState *state)
{
	HjgParallel *parallel = state->parallel;

	/* of a load of our own, partitions included */
	if (parallel == NULL || state->run->share == NULL)
		return true;
	parallel->attached = false;
	return BarrierArriveAndDetach(&parallel->shared->barrier);
}

/* ---------- the end ---------- */

void
hjg_parallel_reset(HjgJoinState *state)
{
	HjgParallel *parallel = state->parallel;

	if (parallel == NULL || parallel->partitions == NULL)
		return;
	if (state->routes == parallel->partitions)
	{
		state->routes = NULL;
		state->nroutes = 0;
	}
	for (int i = 0; i < parallel->npartitions; i++)
		if (parallel->partitions[i] != NULL)
			hjg_partition_free(parallel->partitions[i]);
	parallel->partitions = NULL;
	parallel->npartitions = 0;
}

void
hjg_parallel_shutdown(HjgJoinState *state)
{
	HjgParallel *parallel = state->parallel;

	if (parallel == NULL)
		return;
	if (parallel->attached)
		BarrierDetach(&parallel->shared->barrier);
	parallel->attached = false;
	if (state->run != NULL)
		hjg_run_report(state->run);
	if (IsParallelWorker())
	{
		Member	   *member = &parallel->shared->members[parallel->me];

		member->report = state->report;
		pg_write_barrier();
		member->reported = true;
	}
	else
		collect_reports(state);
}

void
hjg_parallel_end(HjgJoinState *state)
{
	if (state->parallel == NULL)
		return;
	/* workers have ended; if one has not, the job waits for it */
	hjg_job_release(state->parallel->owned);
	pfree(state->parallel);
	state->parallel = NULL;
}
