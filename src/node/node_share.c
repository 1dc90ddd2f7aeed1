/*
 * node_share.c
 *	  Data that the participants of a shared join exchange: build rows and their keys in memory, or partitions in shared files.
 *
 * Blocks. Memory that all participants can access comes from the query's DSA area, in blocks that are chained by the
 * participant that allocated them. A block's name is its DSA pointer.
 *
 * Rows. Row numbers are assigned in ranges, each of which has one segment of keys and whole chunks of the row store; so no
 * lock is needed while rows are read. A range may end early, which leaves a hole in the row numbers.
 *
 * node_parallel.c says when each of these functions may be called.
 */
#include "postgres.h"

#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "port/pg_bitutils.h"
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "node/hjg_parallel.h"

/* A participant publishes the size of its memory after a change of so many bytes. */
#define REPORT_BYTES 65536

/* Memory that is prepared at once: at least what a segment has anyway, at most what a wrong estimate may waste. */
#define LEAST_PREPARED_BYTES (1024.0 * 1024)
#define MOST_PREPARED_BYTES (32.0 * 1024 * 1024)

/* Head of a block; the rest starts at the next cache line. */
typedef struct ShareBlock
{
	dsa_pointer next;
} ShareBlock;

#define BLOCK_HEAD_BYTES 64

/* Header of the memory that a participant has filled: segments, then pieces of the store, follow. */
typedef struct Published
{
	uint32		nsegments;
	uint32		npieces;
} Published;

#define PUBLISHED_SEGMENTS(p) ((HjgKeySegment *) ((char *) (p) + MAXALIGN(sizeof(Published))))
#define PUBLISHED_PIECES(p) ((HjgStorePiece *) (PUBLISHED_SEGMENTS(p) + (p)->nsegments))

/* ---------- blocks ---------- */

void *
hjg_share_at(HjgParallel *parallel, uint64 name)
{
	return (char *) dsa_get_address(parallel->area, (dsa_pointer) name) + BLOCK_HEAD_BYTES;
}

void *
hjg_share_alloc(void *arg, size_t bytes, uint64 *name)
{
	HjgParallel *parallel = arg;
	HjgMember	   *member = &parallel->shared->members[parallel->me];
	dsa_pointer pointer = dsa_allocate_extended(parallel->area, BLOCK_HEAD_BYTES + bytes, DSA_ALLOC_HUGE);
	ShareBlock	   *block = dsa_get_address(parallel->area, pointer);

	block->next = member->blocks;
	member->blocks = pointer;
	*name = pointer;
	return (char *) block + BLOCK_HEAD_BYTES;
}

/* Estimate the rows of the build side from the plan's rows, which are those of one participant. */
static double
expected_rows(const HjgSide *side, int nmembers)
{
	int			nworkers = nmembers - 1;
	double		leader = parallel_leader_participation ? Max(1.0 - 0.3 * nworkers, 0) : 0;

	return side->plan->plan->plan_rows * Max(nworkers + leader, 1);
}

/*
 * Allocate memory in advance. A DSA area grows by segments that double in size, and all processes that need memory wait while
 * a new one is zeroed: 16 processes that read 5M rows of one column waited 12 ms of 25. So the leader, which reads before its
 * workers have started, makes one segment of the expected size. Each participant leaves a part of a chunk empty.
 */
void
hjg_share_prepare(HjgParallel *parallel, const HjgSide *side)
{
	HjgParallelShared *shared = parallel->shared;
	double		rows = expected_rows(side, shared->nmembers) + shared->nmembers * shared->chunk_rows / 2;
	double		row_bytes = (side->payload.n > 0 ? hjg_side_stored_bytes(side) : 0) +
		(shared->has_job ? 0 : shared->key_width);
	double		bytes = Min(rows * row_bytes, (double) get_hash_memory_limit());
	dsa_pointer pointer;

	if (bytes < LEAST_PREPARED_BYTES)
		return;
	pointer = dsa_allocate_extended(parallel->area, (size_t) Min(bytes, MOST_PREPARED_BYTES),
									DSA_ALLOC_HUGE | DSA_ALLOC_NO_OOM);
	if (DsaPointerIsValid(pointer))
		dsa_free(parallel->area, pointer);
}

void
hjg_share_free(HjgParallel *parallel, HjgMember *member)
{
	while (DsaPointerIsValid(member->blocks))
	{
		dsa_pointer pointer = member->blocks;

		member->blocks = ((ShareBlock *) dsa_get_address(parallel->area, pointer))->next;
		dsa_free(parallel->area, pointer);
	}
	member->published = InvalidDsaPointer;
}

/* ---------- the shared build side ---------- */

void
hjg_share_open_build(HjgBuildShare *share, HjgBuild *build)
{
	HjgParallel *parallel = hjg_parallel_of(share);
	HjgParallelShared *shared = parallel->shared;
	HjgRun	   *run = build->run;

	build->rows = hjg_rows_store_create_shared(build->context, build->side->payload.n, build->side->payload.columns,
											   shared->chunk_rows, &parallel->sharing);
	parallel->store = build->rows;
	run->nmembers = shared->nmembers;
	if (shared->has_job)
		hjg_run_attach(run, shared->job, &shared->spec);
	else
		hjg_run_no_job(run, shared->no_job);
}

void
hjg_share_next_range(HjgBuildShare *share, HjgKeySegment *segment, size_t *bytes)
{
	HjgParallel *parallel = hjg_parallel_of(share);
	HjgParallelShared *shared = parallel->shared;

	*bytes = (size_t) shared->range_rows * shared->key_width;
	if (segment->keys == NULL)
		segment->keys = hjg_share_alloc(parallel, *bytes, &segment->name);
	segment->first_row = pg_atomic_fetch_add_u32(&shared->next_range, 1) * shared->range_rows;
	hjg_rows_store_seek(parallel->store, segment->first_row);
}

bool
hjg_share_is_full(HjgBuildShare *share, size_t build_bytes)
{
	HjgParallel *parallel = hjg_parallel_of(share);
	HjgParallelShared *shared = parallel->shared;
	HjgMember	   *member = &shared->members[parallel->me];
	uint64		nranges;
	uint64		bytes;

	if (pg_atomic_read_u32(&shared->partitions.n) > 0)
		return true;
	if (build_bytes < member->reported_bytes + REPORT_BYTES)
		return false;
	bytes = pg_atomic_add_fetch_u64(&shared->bytes, build_bytes - member->reported_bytes);
	member->reported_bytes = build_bytes;
	/* each participant may take one more range before its next check */
	nranges = (uint64) pg_atomic_read_u32(&shared->next_range) + shared->nmembers;
	return (double) bytes > (double) get_hash_memory_limit() * shared->nmembers ||
		nranges * shared->range_rows > HJG_MAX_BUILD_ROWS;
}

void
hjg_share_publish(HjgParallel *parallel, const HjgBuild *build)
{
	const HjgKeyBuffer *keys = &build->run->build;
	int			npieces;
	const HjgStorePiece *pieces = hjg_rows_store_pieces(build->rows, &npieces);
	Published  *published;
	uint64		name;

	hjg_payload_fill(build->run, HJG_SIDE_BUILD, &build->run->build, build->rows);
	published = hjg_share_alloc(parallel, MAXALIGN(sizeof(Published)) + keys->nsegments * sizeof(HjgKeySegment) +
							npieces * sizeof(HjgStorePiece), &name);
	published->nsegments = keys->nsegments;
	published->npieces = npieces;
	if (keys->nsegments > 0)
		memcpy(PUBLISHED_SEGMENTS(published), keys->segments, keys->nsegments * sizeof(HjgKeySegment));
	if (npieces > 0)
		memcpy(PUBLISHED_PIECES(published), pieces, npieces * sizeof(HjgStorePiece));
	parallel->shared->members[parallel->me].published = name;
}

/* Find the memory that participant i has filled; NULL if it did not take part or has none left. */
static const Published *
published_by(HjgParallel *parallel, int i)
{
	dsa_pointer pointer = parallel->shared->members[i].published;

	return DsaPointerIsValid(pointer) ? hjg_share_at(parallel, pointer) : NULL;
}

void
hjg_share_sum_up(HjgParallel *parallel, HjgProbeFilter *filter)
{
	const HjgJoinTerms *terms = filter->execution->terms;
	HjgParallelShared *shared = parallel->shared;
	uint32		nranges = pg_atomic_read_u32(&shared->next_range);
	uint64		nbits = (uint64) nranges * shared->range_rows;
	uint32	   *range_nrows;
	uint64	   *matched = NULL;
	uint64		name;

	range_nrows = hjg_share_alloc(parallel, Max(nranges, 1) * sizeof(uint32), &name);
	shared->build.range_nrows = name;
	memset(range_nrows, 0, nranges * sizeof(uint32));
	if (terms->track_build)
	{
		matched = hjg_share_alloc(parallel, (nbits / 64 + 1) * sizeof(uint64), &name);
		shared->build.matched = name;
		memset(matched, 0xFF, (nbits / 64 + 1) * sizeof(uint64));
	}
	shared->build.in_job = shared->has_job;
	for (int i = 0; i < shared->nmembers; i++)
	{
		const Published *published = published_by(parallel, i);

		if (published == NULL)
			continue;
		for (uint32 s = 0; s < published->nsegments; s++)
		{
			const HjgKeySegment *segment = &PUBLISHED_SEGMENTS(published)[s];

			shared->build.nrows += segment->nrows;
			range_nrows[segment->first_row / shared->range_rows] = segment->nrows;
			if (segment->slab_ix == HJG_NO_SLAB)
				shared->build.in_job = false;
			if (matched == NULL)
				continue;
			/* ranges start at a word */
			memset(matched + segment->first_row / 64, 0, segment->nrows / 64 * sizeof(uint64));
			if (segment->nrows % 64 != 0)
				matched[(segment->first_row + segment->nrows) / 64] = ~UINT64CONST(0) << segment->nrows % 64;
		}
	}
	if (terms->use_filter && shared->build.nrows > 0)
	{
		void	   *memory;

		shared->build.filter_bytes = hjg_bloom_bytes(shared->build.nrows);
		memory = hjg_share_alloc(parallel, shared->build.filter_bytes, &name);
		hjg_probe_filter_share(filter, memory, shared->build.filter_bytes);
		shared->build.filter = name;
	}
}

/* Attach the filter that the elected participant made; false if there is none. */
static bool
attach_filter(HjgParallel *parallel, HjgProbeFilter *filter)
{
	HjgParallelShared *shared = parallel->shared;

	if (!DsaPointerIsValid(shared->build.filter))
		return false;
	hjg_probe_filter_attach(filter, hjg_share_at(parallel, shared->build.filter), shared->build.filter_bytes);
	return true;
}

void
hjg_share_add_keys(HjgParallel *parallel, const HjgRun *run, HjgProbeFilter *filter)
{
	if (attach_filter(parallel, filter))
		hjg_probe_filter_add_run(filter, run);
}

void
hjg_share_take_in(HjgParallel *parallel, HjgBuild *build, HjgProbeFilter *filter)
{
	HjgParallelShared *shared = parallel->shared;
	HjgRun	   *run = build->run;
	HjgMatchMode mode = hjg_match_start(build->match);

	build->execution->report->build_rows += run->build.nrows;	/* rows read here */
	run->build.nsegments = 0;
	run->build.nrows = 0;
	run->build.bytes = 0;
	for (int i = 0; i < shared->nmembers; i++)
	{
		const Published *published = published_by(parallel, i);

		if (published == NULL)
			continue;
		for (uint32 s = 0; s < published->nsegments; s++)
		{
			HjgKeySegment segment = PUBLISHED_SEGMENTS(published)[s];

			CHECK_FOR_INTERRUPTS();
			segment.keys = segment.slab_ix != HJG_NO_SLAB ? hjg_job_slab_at(segment.slab_ix) :
				hjg_share_at(parallel, segment.name);
			hjg_run_import(run, &segment);
		}
		for (uint32 p = 0; p < published->npieces; p++)
		{
			const HjgStorePiece *piece = &PUBLISHED_PIECES(published)[p];

			hjg_rows_store_add_piece(build->rows, piece, hjg_share_at(parallel, piece->name));
		}
	}
	if (run->build.nrows != shared->build.nrows)
		elog(ERROR, "shared build side has %u rows instead of " UINT64_FORMAT, run->build.nrows, shared->build.nrows);
	run->range_nrows = hjg_share_at(parallel, shared->build.range_nrows);
	run->range_shift = pg_leftmost_one_pos32(shared->range_rows);
	if (build->execution->terms->track_build)
		build->match->build_bits = hjg_share_at(parallel, shared->build.matched);
	/* some build keys did not fit in the arena; that is the only possible reason */
	if (shared->has_job && !shared->build.in_job && !run->job_lost)
		hjg_run_no_job(run, HJG_REASON_ARENA_FULL);
	build->match->last_pass = true;
	hjg_run_build_done(run, mode);
	if (attach_filter(parallel, filter))
		hjg_probe_filter_open_shared(filter);
}

/* ---------- partitions ---------- */

void
hjg_share_attach_partitions(HjgParallel *parallel, HjgPartitions *partitions)
{
	const HjgSide *inner = partitions->build->side;
	HjgParallelShared *shared = parallel->shared;
	size_t		file_bytes = MAXALIGN(hjg_rows_spill_shared_bytes(shared->nmembers));
	int			key_width = inner->keys.codec->key_width;
	char	   *place = dsa_get_address(parallel->area, shared->partitions.places);
	MemoryContext old;

	if (partitions->context == NULL)
		partitions->context = AllocSetContextCreate(partitions->execution->estate->es_query_cxt,
													"GpuHashJoin partitions", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(partitions->context);
	parallel->npartitions = (int) pg_atomic_read_u32(&shared->partitions.n);
	parallel->partitions = palloc(parallel->npartitions * sizeof(HjgPartition *));
	for (int i = 0; i < parallel->npartitions; i++, place += 2 * file_bytes)
		parallel->partitions[i] =
			hjg_partition_adopt(hjg_rows_spill_attach(place, parallel->me, &shared->files, inner->payload.desc,
													  key_width),
								hjg_rows_spill_attach(place + file_bytes, parallel->me, &shared->files,
													  partitions->outer->payload.desc, key_width));
	partitions->routes = parallel->partitions;
	partitions->nroutes = parallel->npartitions;
	MemoryContextSwitchTo(old);
	if (DsaPointerIsValid(shared->partitions.filter))
		hjg_probe_filter_attach(partitions->filter, dsa_get_address(parallel->area, shared->partitions.filter),
								shared->build.filter_bytes);
}

void
hjg_share_route(HjgBuildShare *share, HjgPartitions *partitions, double row_bytes)
{
	const HjgJoinTerms *terms = partitions->execution->terms;
	HjgParallel *parallel = hjg_parallel_of(share);
	HjgParallelShared *shared = parallel->shared;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u32(&shared->partitions.n) == 0)
	{
		/* if the estimate was too low, twice the memory of all participants is a fair guess */
		double		bytes = Max(row_bytes * terms->hints.all_build_rows, 2.0 * pg_atomic_read_u64(&shared->bytes));
		int			npartitions = hjg_partition_count(bytes, HJG_SHARED_SPILL_BUFFER_BYTES);
		size_t		file_bytes = MAXALIGN(hjg_rows_spill_shared_bytes(shared->nmembers));
		char	   *place;

		shared->partitions.places = dsa_allocate_extended(parallel->area, npartitions * 2 * file_bytes, DSA_ALLOC_HUGE);
		place = dsa_get_address(parallel->area, shared->partitions.places);
		for (int i = 0; i < npartitions; i++, place += 2 * file_bytes)
		{
			char		name[NAMEDATALEN];

			snprintf(name, sizeof(name), "b%d", i);
			hjg_rows_spill_shared_init(place, shared->nmembers, name);
			name[0] = 'p';
			hjg_rows_spill_shared_init(place + file_bytes, shared->nmembers, name);
		}
		if (terms->use_filter)
		{
			shared->build.filter_bytes = hjg_probe_filter_bytes(bytes / Max(row_bytes, 1), shared->nmembers);
			shared->partitions.filter = dsa_allocate_extended(parallel->area, shared->build.filter_bytes, DSA_ALLOC_HUGE);
			hjg_probe_filter_share(partitions->filter, dsa_get_address(parallel->area, shared->partitions.filter),
								   shared->build.filter_bytes);
		}
		partitions->execution->report->npartitions += npartitions;
		hjg_service_count(HJG_COUNT_PARTITIONED, 1);
		pg_write_barrier();
		pg_atomic_write_u32(&shared->partitions.n, (uint32) npartitions);
	}
	LWLockRelease(&shared->lock);
	hjg_share_attach_partitions(parallel, partitions);
}

void
hjg_share_spilled(HjgBuildShare *share)
{
	HjgParallel *parallel = hjg_parallel_of(share);
	HjgMember	   *member = &parallel->shared->members[parallel->me];

	parallel->store = NULL;
	hjg_share_free(parallel, member);
	pg_atomic_fetch_sub_u64(&parallel->shared->bytes, member->reported_bytes);
	member->reported_bytes = 0;
}

void
hjg_share_routed(HjgBuildShare *share, HjgPartitions *partitions)
{
	HjgParallel *parallel = hjg_parallel_of(share);

	for (int i = 0; i < parallel->npartitions; i++)
		hjg_rows_spill_end_write(parallel->partitions[i]->probe);
	hjg_partitions_count(parallel->partitions, parallel->npartitions, partitions->execution->report);
	partitions->routes = NULL;
	partitions->nroutes = 0;
}

bool
hjg_share_claim_partition(HjgBuildShare *share, HjgPartitions *partitions)
{
	HjgParallel *parallel = hjg_parallel_of(share);
	MemoryContext old;
	uint32		ix;

	ix = pg_atomic_fetch_add_u32(&parallel->shared->partitions.next, 1);
	if (ix >= (uint32) parallel->npartitions)
		return false;
	old = MemoryContextSwitchTo(partitions->context);
	partitions->waiting = lappend(partitions->waiting, parallel->partitions[ix]);
	MemoryContextSwitchTo(old);
	parallel->partitions[ix] = NULL;
	return true;
}
