/*
 * device_cuda_copro.c
 *	  Joins neither side of which stays on the device: partitioned by the host's threads, joined by sets.
 *
 * Two threads besides the pool's.  The partitioner stages the build side, packs its partitions into
 * working sets, and stages the probe side; blocks of the first set go to the other thread as they
 * become full, all others wait in lists by partition.  The feeder, which is the caller's thread, copies blocks to
 * the device, builds, and runs a flow for each set.  The build rows of the next set come in behind the last chunk of
 * this one, into the other one of two buffers.
 *
 * A set of one partition that is too large is cut: each cut of its build rows meets all of its probe rows,
 * which is right where every match is a pair (mode ALL).
 *
 * What bounds it: keys and row numbers are written to pinned memory once (8 bytes a row of 4-byte keys; four and more threads
 * write 36 to 53 GB/s), and cross the bus once.  In practice the threads' work for each row is more: 4 ns on an H200's host
 * (device_cuda_host_bench.c).
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/hjg_cuda_host.h"

#define PIECE_ROWS ((hjg_u64) 1 << 16)	/* that a thread of the pool stages at a time */
#define WAIT_NS 2000000			/* between two looks at a cancellation */

typedef struct Blocks
{
	HjgStageBlock *blocks;
	int			n;
	int			max;
	hjg_u64		nrows;
} Blocks;

typedef struct Copro
{
	HjgCudaCopro *spec;
	HjgCudaLanes *lanes;
	pthread_mutex_t lock;
	pthread_cond_t changed;

	/* with the lock */
	Blocks		build[HJG_CUDA_MOST_PARTS];
	Blocks		probe[HJG_CUDA_MOST_PARTS];
	Blocks		ready;			/* probe blocks of the first set */
	HjgCudaSets sets;
	bool		packed;
	bool		partitioned;
	HjgStatus	failed;
	bool		stopping;		/* atomic */

	/* of the partitioner */
	HjgStage   *stage;
	const HjgCudaHostSide *side;

	/* of the feeder */
	Blocks		set_build;		/* of the set that is joined */
	Blocks		set_probe;
	int			set;
	int			next_block;		/* of ready or of set_probe: not sent yet */
	HjgCudaSide device_build[2];	/* rows of this pass and of the next */
	int			turn;
	int			next_cut;		/* first build block of set_build that was not sent */
} Copro;

/* ---- blocks ---- */

static bool
append(Blocks *list, HjgStageBlock block)
{
	if (list->n == list->max)
	{
		const int	max = list->max == 0 ? 64 : list->max * 2;
		HjgStageBlock *blocks = realloc(list->blocks, (size_t) max * sizeof(HjgStageBlock));

		if (blocks == NULL)
			return false;
		list->blocks = blocks;
		list->max = max;
	}
	list->blocks[list->n++] = block;
	list->nrows += block.nrows;
	return true;
}

static void
fail(Copro *copro, HjgStatus status)
{
	if (copro->failed == HJG_OK)
		copro->failed = status;
	__atomic_store_n(&copro->stopping, true, __ATOMIC_RELAXED);
	pthread_cond_broadcast(&copro->changed);
}

/* ---- the partitioner ---- */

static void
take_build(void *arg, int part, HjgStageBlock block)
{
	Copro	   *copro = arg;

	pthread_mutex_lock(&copro->lock);
	if (!append(&copro->build[part], block))
		fail(copro, HJG_ERR_MEMORY);
	pthread_mutex_unlock(&copro->lock);
}

static void
take_probe(void *arg, int part, HjgStageBlock block)
{
	Copro	   *copro = arg;
	const bool	first = copro->sets.set_of[part] == 0;

	pthread_mutex_lock(&copro->lock);
	if (!append(first ? &copro->ready : &copro->probe[part], block))
		fail(copro, HJG_ERR_MEMORY);
	if (first)
		pthread_cond_signal(&copro->changed);
	pthread_mutex_unlock(&copro->lock);
}

static void
stage_piece(void *arg, int piece, int worker)
{
	Copro	   *copro = arg;
	const hjg_u64 row = (hjg_u64) piece * PIECE_ROWS;
	const hjg_u64 left = copro->side->nrows - row;
	const size_t width = (size_t) copro->spec->join.key_width;

	if (!__atomic_load_n(&copro->stopping, __ATOMIC_RELAXED))
		(void) hjg_stage_rows(copro->stage, worker, (const char *) copro->side->keys + row * width,
							  (hjg_u32) (left < PIECE_ROWS ? left : PIECE_ROWS), (hjg_u32) row);
}

/* All rows of a side into blocks. */
static HjgStatus
stage_side(Copro *copro, const HjgCudaHostSide *side, HjgStageFn take)
{
	const HjgCudaCopro *spec = copro->spec;
	HjgStatus	status;

	copro->side = side;
	copro->stage = hjg_stage_create(spec->join.key_width, spec->bits, spec->block_rows, hjg_pool_nthreads(spec->pool),
									spec->memory, take, copro);
	if (copro->stage == NULL)
		return HJG_ERR_MEMORY;
	hjg_pool_run(spec->pool, (int) ((side->nrows + PIECE_ROWS - 1) / PIECE_ROWS), stage_piece, copro);
	status = hjg_stage_finish(copro->stage) ? HJG_OK : HJG_ERR_MEMORY;
	hjg_stage_free(copro->stage);
	copro->stage = NULL;
	return status;
}

static void *
partition_main(void *arg)
{
	Copro	   *copro = arg;
	const hjg_u64 started = hjg_arena_now_ns();
	hjg_u64		rows[HJG_CUDA_MOST_PARTS];
	HjgStatus	status = stage_side(copro, &copro->spec->join.build, take_build);

	pthread_mutex_lock(&copro->lock);
	for (int p = 0; p < 1 << copro->spec->bits; p++)
		rows[p] = copro->build[p].nrows;
	hjg_cuda_pack_sets(rows, 1 << copro->spec->bits, copro->spec->set_rows, &copro->sets);
	copro->packed = true;
	pthread_cond_broadcast(&copro->changed);
	pthread_mutex_unlock(&copro->lock);

	if (status == HJG_OK)
		status = stage_side(copro, &copro->spec->join.probe, take_probe);
	pthread_mutex_lock(&copro->lock);
	copro->partitioned = true;
	copro->spec->partitioned_ns = hjg_arena_now_ns() - started;
	if (status != HJG_OK)
		fail(copro, status);
	pthread_cond_broadcast(&copro->changed);
	pthread_mutex_unlock(&copro->lock);
	return NULL;
}

/* ---- the feeder ---- */

/* Wait a little for a change; with the lock. */
static HjgStatus
wait_changed(Copro *copro)
{
	const HjgEnv *env = copro->lanes->work.env;
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += WAIT_NS;
	if (until.tv_nsec >= 1000000000)
	{
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_cond_timedwait(&copro->changed, &copro->lock, &until);
	if (copro->failed != HJG_OK)
		return copro->failed;
	return env != NULL && env->poll != NULL && env->poll(env->arg) ? HJG_ERR_CANCELLED : HJG_OK;
}

/* Queue the copies of a block to place at of two columns. */
static HjgStatus
send_block(Copro *copro, HjgCudaLane *lane, HjgStageBlock block, HjgCudaPtr keys, HjgCudaPtr rows, hjg_u64 at)
{
	const HjgCudaCopro *spec = copro->spec;
	const int	width = spec->join.key_width;
	HjgStatus	status = hjg_cuda_copy_in(lane, keys + at * (hjg_u64) width,
										  hjg_stage_keys(spec->memory, width, spec->block_rows, block.block),
										  block.nrows * (size_t) width);

	if (status == HJG_OK)
		status = hjg_cuda_copy_in(lane, rows + at * sizeof(hjg_u32),
								  hjg_stage_numbers(spec->memory, width, spec->block_rows, block.block),
								  block.nrows * sizeof(hjg_u32));
	return status;
}

/* The blocks of a set.  All but the first wait until both sides are in their blocks. */
static HjgStatus
collect_set(Copro *copro, int set)
{
	HjgStatus	status = HJG_OK;
	bool		good = true;

	pthread_mutex_lock(&copro->lock);
	while (status == HJG_OK && !(set == 0 ? copro->packed : copro->partitioned))
		status = wait_changed(copro);
	pthread_mutex_unlock(&copro->lock);
	if (status != HJG_OK)
		return status;
	copro->set = set;
	copro->next_cut = 0;
	copro->set_build.n = copro->set_probe.n = 0;
	copro->set_build.nrows = copro->set_probe.nrows = 0;
	for (int p = 0; p < 1 << copro->spec->bits; p++)
	{
		if (copro->sets.set_of[p] != set)
			continue;
		for (int b = 0; b < copro->build[p].n && good; b++)
			good = append(&copro->set_build, copro->build[p].blocks[b]);
		for (int b = 0; b < copro->probe[p].n && good && set > 0; b++)
			good = append(&copro->set_probe, copro->probe[p].blocks[b]);
	}
	return good ? HJG_OK : HJG_ERR_MEMORY;
}

/* Queue the build rows of the next pass: the next cut of this set, or the next set's first.  No rows: there is none. */
static HjgStatus
send_build(Copro *copro)
{
	HjgCudaSide *side = &copro->device_build[copro->turn ^ 1];
	HjgStatus	status = HJG_OK;

	side->nrows = 0;
	copro->next_block = 0;
	while (status == HJG_OK && copro->next_cut == copro->set_build.n && copro->set + 1 < copro->sets.nsets)
		status = collect_set(copro, copro->set + 1);
	while (status == HJG_OK && copro->next_cut < copro->set_build.n)
	{
		const HjgStageBlock block = copro->set_build.blocks[copro->next_cut];

		if (side->nrows + block.nrows > copro->spec->set_rows)
			break;
		status = send_block(copro, &copro->lanes->in, block, side->keys, side->rows, side->nrows);
		side->nrows += block.nrows;
		copro->next_cut++;
	}
	return status;
}

/*
 * The next chunk of probe rows.  The first set's come from ready, as long as rows are staged; a chunk waits until it is
 * worth a join.  Behind the last chunk of a pass come the build rows of the next.
 */
static HjgStatus
load_blocks(void *arg, HjgCudaLane *lane, bool may_wait, HjgCudaChunk *chunk, HjgCudaLoad *load)
{
	Copro	   *copro = arg;
	const hjg_u64 chunk_rows = copro->spec->join.chunk_rows;
	Blocks	   *list = copro->set == 0 ? &copro->ready : &copro->set_probe;
	HjgStageBlock block;
	HjgStatus	status = HJG_OK;

	*load = HJG_CUDA_LOADED;
	chunk->nrows = 0;
	chunk->first_row = 0;
	pthread_mutex_lock(&copro->lock);
	while (status == HJG_OK && copro->set == 0 && !copro->partitioned &&
		   (hjg_u64) (list->n - copro->next_block) * copro->spec->block_rows < chunk_rows)
	{
		if (!may_wait)
		{
			*load = HJG_CUDA_NOT_YET;
			break;
		}
		status = wait_changed(copro);
	}
	while (status == HJG_OK && *load == HJG_CUDA_LOADED && copro->next_block < list->n)
	{
		/* the list may move while the lock is not held */
		block = list->blocks[copro->next_block];
		if (chunk->nrows + block.nrows > chunk_rows)
			break;
		copro->next_block++;
		pthread_mutex_unlock(&copro->lock);
		status = send_block(copro, lane, block, chunk->keys, chunk->rows, chunk->nrows);
		chunk->nrows += block.nrows;
		pthread_mutex_lock(&copro->lock);
	}
	pthread_mutex_unlock(&copro->lock);
	if (status != HJG_OK || *load != HJG_CUDA_LOADED || chunk->nrows > 0)
		return status;
	*load = HJG_CUDA_NO_MORE;
	return send_build(copro);
}

/* Build what was sent and let the set's probe rows flow. */
static HjgStatus
run_pass(Copro *copro, HjgCudaFlow *flow)
{
	const HjgCudaHostJoin *join = &copro->spec->join;
	HjgCudaLane *lane = &copro->lanes->work;
	const HjgCudaSide *build = &copro->device_build[copro->turn];
	const HjgCudaShape shape = {
		.key_width = join->key_width, .mode = join->mode, .build_rows = build->nrows, .probe_rows = join->chunk_rows
	};
	const HjgCudaStrategy *strategy = NULL;
	void	   *table = NULL;
	HjgStatus	status = hjg_cuda_follow(lane, &copro->lanes->in);

	copro->spec->npasses++;
	if (status == HJG_OK)
		status = hjg_cuda_flow_begin(flow, join->key_width, load_blocks, copro);
	if (status == HJG_OK)
		status = hjg_cuda_host_build(lane, &shape, build, join->strategy, &strategy, &table);
	if (status == HJG_OK)
		status = hjg_cuda_flow_run(flow, strategy, table);
	if (table != NULL)
		strategy->free(lane, table);
	return status;
}

static HjgStatus
run_passes(Copro *copro, HjgCudaFlow *flow)
{
	HjgStatus	status = collect_set(copro, 0);

	if (status == HJG_OK)
		status = send_build(copro);
	while (status == HJG_OK && copro->device_build[copro->turn ^ 1].nrows > 0)
	{
		copro->turn ^= 1;
		if (copro->set_build.nrows > copro->spec->set_rows && copro->spec->join.mode != HJG_MATCH_ALL)
			return HJG_ERR_MEMORY;
		status = run_pass(copro, flow);
	}
	return status;
}

/* ---- all of it ---- */

static HjgCudaShape
shape_of(const HjgCudaCopro *spec)
{
	return (HjgCudaShape) {
		.key_width = spec->join.key_width, .mode = spec->join.mode, .build_rows = spec->set_rows, .probe_rows = spec->join.chunk_rows
	};
}

size_t
hjg_cuda_copro_bytes(const HjgCudaDevice *device, const HjgCudaCopro *spec)
{
	const HjgCudaShape shape = shape_of(spec);

	return 2 * (hjg_cuda_block_bytes(spec->set_rows * (size_t) spec->join.key_width) +
				hjg_cuda_block_bytes(spec->set_rows * sizeof(hjg_u32))) +
		hjg_cuda_host_build_bytes(device, &shape, spec->join.strategy) +
		hjg_cuda_flow_bytes(spec->join.key_width, true, spec->join.chunk_rows);
}

static HjgStatus
feed(Copro *copro, HjgCudaHostResult *result)
{
	const HjgCudaCopro *spec = copro->spec;
	HjgCudaLane *lane = &copro->lanes->work;
	HjgCudaFlow flow = {0};
	HjgStatus	status = HJG_OK;
	HjgStatus	drained;

	for (int i = 0; i < 2 && status == HJG_OK; i++)
	{
		status = hjg_cuda_alloc(lane, spec->set_rows * (size_t) spec->join.key_width, &copro->device_build[i].keys);
		if (status == HJG_OK)
			status = hjg_cuda_alloc(lane, spec->set_rows * sizeof(hjg_u32), &copro->device_build[i].rows);
	}
	if (status == HJG_OK)
		status = hjg_cuda_flow_open(&flow, copro->lanes, spec->join.key_width, true, spec->join.chunk_rows, result);
	if (status == HJG_OK)
		status = run_passes(copro, &flow);
	drained = hjg_cuda_lanes_wait(copro->lanes);
	hjg_cuda_flow_close(&flow);
	for (int i = 0; i < 2; i++)
	{
		hjg_cuda_free(lane, copro->device_build[i].keys);
		hjg_cuda_free(lane, copro->device_build[i].rows);
	}
	return status == HJG_OK ? drained : status;
}

HjgStatus
hjg_cuda_copro_join(HjgCudaLanes *lanes, HjgCudaCopro *spec, HjgCudaHostResult *result)
{
	Copro	   *copro;
	pthread_t	thread;
	HjgStatus	status;

	result->npairs = 0;
	result->nbatches = 0;
	spec->npasses = 0;
	spec->memory->next = 0;
	if (spec->join.build.nrows == 0)
		return HJG_ERR_INPUT;
	copro = calloc(1, sizeof(Copro));
	if (copro == NULL)
		return HJG_ERR_MEMORY;
	copro->spec = spec;
	copro->lanes = lanes;
	pthread_mutex_init(&copro->lock, NULL);
	pthread_cond_init(&copro->changed, NULL);
	if (pthread_create(&thread, NULL, partition_main, copro) != 0)
		status = HJG_ERR_MEMORY;
	else
	{
		status = feed(copro, result);
		__atomic_store_n(&copro->stopping, true, __ATOMIC_RELAXED);
		pthread_join(thread, NULL);
		if (status == HJG_OK)
			status = copro->failed;
	}
	for (int p = 0; p < HJG_CUDA_MOST_PARTS; p++)
	{
		free(copro->build[p].blocks);
		free(copro->probe[p].blocks);
	}
	free(copro->ready.blocks);
	free(copro->set_build.blocks);
	free(copro->set_probe.blocks);
	pthread_mutex_destroy(&copro->lock);
	pthread_cond_destroy(&copro->changed);
	free(copro);
	return status;
}
