/*
 * lab_host_copro.c
 *	  Joins of two sides too large for the device: partitioned by the host's threads, joined by sets.
 *
 * Two threads work besides the pool's.  The partitioner stages the build side, packs its partitions into
 * working sets, and stages the probe side; full blocks of the first set go to the other thread, all others
 * wait in lists by partition.  The feeder, which is the caller's thread, runs the passes
 * (lab_host_passes.c).
 *
 * Bounds: keys and row numbers are written to pinned memory once (8 bytes a row of 4-byte keys; four and
 * more threads write 36 to 60 GB/s), and cross the bus once.  In practice the threads' work for each row
 * takes longer, 3.5 ns, and nothing crosses the bus before the build side is partitioned.  Small blocks
 * cost too: 256 KB come in at 36 GB/s, 1 MB at 48 (lab_host_bench.c).
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lab/hjg_cuda_host.h"

#define PIECE_ROWS ((hjg_u64) 1 << 16)	/* rows that a thread of the pool stages at a time */
#define WAIT_MS 2				/* between two checks for cancellation */

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
	HjgCudaStreams *streams;
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
	HjgCudaPasses passes;
	int			next_block;		/* first block of ready that is not sent */
} Copro;

/* ---- blocks ---- */

static bool
append_block(Blocks *list, HjgStageBlock block)
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
note_copro_failure(Copro *copro, HjgStatus status)
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
	if (!append_block(&copro->build[part], block))
		note_copro_failure(copro, HJG_ERR_MEMORY);
	pthread_mutex_unlock(&copro->lock);
}

static void
take_probe(void *arg, int part, HjgStageBlock block)
{
	Copro	   *copro = arg;
	const bool	first = copro->sets.set_of[part] == 0;

	pthread_mutex_lock(&copro->lock);
	if (!append_block(first ? &copro->ready : &copro->probe[part], block))
		note_copro_failure(copro, HJG_ERR_MEMORY);
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

/* Stage all rows of a side into blocks. */
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
	const hjg_u64 started = hjg_now_ns();
	hjg_u64		rows[HJG_CUDA_MOST_PARTS];
	HjgStatus	status = stage_side(copro, &copro->spec->join.build, take_build);

	pthread_mutex_lock(&copro->lock);
	for (int p = 0; p < 1 << copro->spec->bits; p++)
		rows[p] = copro->build[p].nrows;
	hjg_lab_pack_sets(rows, 1 << copro->spec->bits, copro->spec->set_rows, &copro->sets);
	copro->packed = true;
	pthread_cond_broadcast(&copro->changed);
	pthread_mutex_unlock(&copro->lock);

	if (status == HJG_OK)
		status = stage_side(copro, &copro->spec->join.probe, take_probe);
	pthread_mutex_lock(&copro->lock);
	copro->partitioned = true;
	copro->spec->partitioned_ns = hjg_now_ns() - started;
	if (status != HJG_OK)
		note_copro_failure(copro, status);
	pthread_cond_broadcast(&copro->changed);
	pthread_mutex_unlock(&copro->lock);
	return NULL;
}

/* ---- the feeder ---- */

/* Wait briefly for a change; with the lock. */
static HjgStatus
wait_changed(Copro *copro)
{
	const HjgEnv *env = copro->streams->work.env;

	hjg_wait_ms(&copro->changed, &copro->lock, WAIT_MS);
	if (copro->failed != HJG_OK)
		return copro->failed;
	return env != NULL && env->poll != NULL && env->poll(env->arg) ? HJG_ERR_CANCELLED : HJG_OK;
}

static HjgCudaRun
run_of(const HjgCudaCopro *spec, HjgStageBlock block)
{
	return (HjgCudaRun) {
		.keys = hjg_stage_keys(spec->memory, spec->join.key_width, spec->block_rows, block.block),
		.rows = hjg_stage_numbers(spec->memory, spec->join.key_width, spec->block_rows, block.block), .nrows = block.nrows
	};
}

/* Collect the blocks of a set, except the first set's probe rows, which come from ready. */
static HjgStatus
collect_set(void *arg, int set, bool build, HjgCudaRuns *runs)
{
	Copro	   *copro = arg;
	const Blocks *parts = build ? copro->build : copro->probe;
	HjgStatus	status = HJG_OK;
	bool		good = true;

	pthread_mutex_lock(&copro->lock);
	while (status == HJG_OK && !(build ? copro->packed : set == 0 || copro->partitioned))
		status = wait_changed(copro);
	copro->passes.nsets = copro->sets.nsets;
	pthread_mutex_unlock(&copro->lock);
	if (status != HJG_OK || (set == 0 && !build))
		return status;
	for (int p = 0; p < 1 << copro->spec->bits; p++)
		for (int b = 0; b < parts[p].n && copro->sets.set_of[p] == set && good; b++)
			good = hjg_lab_runs_add(runs, copro->spec->join.key_width, run_of(copro->spec, parts[p].blocks[b]));
	return good ? HJG_OK : HJG_ERR_MEMORY;
}

/* Add ready blocks to the runs that are sent next, up to a chunk. */
static HjgStatus
take_ready(Copro *copro, bool may_wait, HjgCudaLoad *load)
{
	const hjg_u64 chunk_rows = copro->spec->join.chunk_rows;
	HjgCudaRuns *runs = &copro->passes.probe;
	HjgStatus	status = HJG_OK;
	bool		good = true;

	hjg_lab_runs_clear(runs);
	pthread_mutex_lock(&copro->lock);
	while (status == HJG_OK && !copro->partitioned &&
		   (hjg_u64) (copro->ready.n - copro->next_block) * copro->spec->block_rows < chunk_rows)
	{
		if (!may_wait)
		{
			*load = HJG_CUDA_NOT_YET;
			break;
		}
		status = wait_changed(copro);
	}
	while (status == HJG_OK && *load == HJG_CUDA_LOADED && good && copro->next_block < copro->ready.n &&
		   runs->nrows + copro->ready.blocks[copro->next_block].nrows <= chunk_rows)
		good = hjg_lab_runs_add(runs, copro->spec->join.key_width, run_of(copro->spec, copro->ready.blocks[copro->next_block++]));
	pthread_mutex_unlock(&copro->lock);
	return good ? status : HJG_ERR_MEMORY;
}

/*
 * Load the first set's probe rows from ready while rows are staged; a chunk waits until it is worth a
 * join.
 */
static HjgStatus
load_blocks(void *arg, HjgCudaStream *stream, bool may_wait, HjgCudaChunk *chunk, HjgCudaLoad *load)
{
	Copro	   *copro = arg;
	HjgStatus	status = HJG_OK;

	*load = HJG_CUDA_LOADED;
	if (copro->passes.set == 0)
		status = take_ready(copro, false, load);
	/* use the idle time */
	if (status == HJG_OK && *load == HJG_CUDA_NOT_YET)
		status = hjg_lab_passes_send(&copro->passes, copro->spec->join.chunk_rows);
	if (status == HJG_OK && *load == HJG_CUDA_NOT_YET && may_wait)
	{
		*load = HJG_CUDA_LOADED;
		status = take_ready(copro, true, load);
	}
	return status != HJG_OK || *load == HJG_CUDA_NOT_YET ? status : hjg_lab_passes_load(&copro->passes, stream, chunk, load);
}

/* ---- all of it ---- */

size_t
hjg_lab_copro_bytes(const HjgCudaDevice *device, const HjgCudaCopro *spec)
{
	return hjg_lab_passes_bytes(device, &spec->join, spec->set_rows);
}

static HjgStatus
feed_sets(Copro *copro, HjgCudaHostResult *result)
{
	const HjgCudaSource source = {.load = load_blocks, .arg = copro};
	HjgCudaPasses *passes = &copro->passes;
	HjgStatus	status = hjg_lab_passes_open(passes, copro->streams, &copro->spec->join, copro->spec->set_rows, collect_set, copro,
											  result);
	HjgStatus	drained;
	bool		more = true;

	passes->near = copro->spec->near;
	while (status == HJG_OK && more)
	{
		status = hjg_lab_passes_next(passes, &more);
		if (status == HJG_OK && more)
			status = hjg_lab_passes_run(passes, &source);
	}
	copro->spec->npasses = passes->npasses;
	drained = hjg_cuda_streams_wait(copro->streams);
	hjg_lab_passes_close(passes);
	return status == HJG_OK ? drained : status;
}

HjgStatus
hjg_lab_copro_join(HjgCudaStreams *streams, HjgCudaCopro *spec, HjgCudaHostResult *result)
{
	Copro	   *copro;
	pthread_t	thread;
	HjgStatus	status;

	result->npairs = 0;
	result->nbatches = 0;
	spec->memory->next = 0;
	if (spec->join.build.nrows == 0)
		return HJG_ERR_INPUT;
	copro = calloc(1, sizeof(Copro));
	if (copro == NULL)
		return HJG_ERR_MEMORY;
	copro->spec = spec;
	copro->streams = streams;
	pthread_mutex_init(&copro->lock, NULL);
	hjg_wait_init(&copro->changed);
	if (pthread_create(&thread, NULL, partition_main, copro) != 0)
		status = HJG_ERR_MEMORY;
	else
	{
		status = feed_sets(copro, result);
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
	pthread_mutex_destroy(&copro->lock);
	pthread_cond_destroy(&copro->changed);
	free(copro);
	return status;
}
