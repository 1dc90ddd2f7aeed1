/*
 * lab_host_passes.c
 *	  Sets of partitions in pinned host memory, joined one after the other: the common part of joins of
 *	  two sides that exceed the device (lab_host_copro.c, lab_host_spill.c).
 *
 * A pass is a build side that fits the device, and a flow of probe rows.  There are two buffers of build
 * rows: those of the next pass come in while this pass's are joined.
 *
 * A set of one partition that is too large is cut: each cut of its build rows meets all of its probe rows,
 * which is right if every match is a pair (mode ALL).
 */
#include <stdlib.h>
#include <string.h>

#include "lab/hjg_cuda_host.h"
#include "lab/hjg_lab_stream.h"

/* ---- runs ---- */

bool
hjg_lab_runs_add(HjgCudaRuns *runs, int key_width, HjgCudaRun run)
{
	HjgCudaRun *last = runs->n > 0 ? &runs->runs[runs->n - 1] : NULL;

	runs->nrows += run.nrows;
	if (last != NULL && (const char *) last->keys + last->nrows * (size_t) key_width == (const char *) run.keys &&
		last->rows + last->nrows == run.rows)
	{
		last->nrows += run.nrows;
		return true;
	}
	if (runs->n == runs->max)
	{
		const int	max = runs->max == 0 ? 64 : runs->max * 2;
		HjgCudaRun *more = realloc(runs->runs, (size_t) max * sizeof(HjgCudaRun));

		if (more == NULL)
			return false;
		runs->runs = more;
		runs->max = max;
	}
	runs->runs[runs->n++] = run;
	return true;
}

void
hjg_lab_runs_clear(HjgCudaRuns *runs)
{
	runs->n = runs->next = 0;
	runs->nrows = runs->next_row = 0;
}

/*
 * Queue the copies of the next rows, behind those of the side, until it has `room` rows or none are left.
 * near: NULL, or where rows of other NUMA nodes go first.
 */
static HjgStatus
send_runs(HjgCudaRuns *runs, HjgCudaStream *stream, HjgCudaNear *near, int key_width, hjg_u64 room, HjgCudaSide *to)
{
	const size_t width = (size_t) key_width;
	HjgStatus	status = HJG_OK;

	while (status == HJG_OK && runs->next < runs->n && to->nrows < room)
	{
		const HjgCudaRun *run = &runs->runs[runs->next];
		const hjg_u64 left = run->nrows - runs->next_row;
		hjg_u64		n = left < room - to->nrows ? left : room - to->nrows;
		HjgCudaRun	part = {.keys = (const char *) run->keys + runs->next_row * width, .rows = run->rows + runs->next_row};
		HjgCudaEvent read = NULL;

		if (near != NULL && n > near->slot_rows)
			n = near->slot_rows;
		part.nrows = n;
		if (near != NULL)
			status = hjg_lab_near_stage(stream, near, key_width, &part, &read);
		if (status == HJG_OK)
			status = hjg_cuda_copy_in(stream, to->keys + to->nrows * width, part.keys, n * width);
		if (status == HJG_OK)
			status = hjg_cuda_copy_in(stream, to->rows + to->nrows * sizeof(hjg_u32), part.rows, n * sizeof(hjg_u32));
		if (status == HJG_OK && read != NULL)
			status = hjg_lab_note(stream, read);
		to->nrows += n;
		runs->next_row += n;
		if (n == left)
		{
			runs->next++;
			runs->next_row = 0;
		}
	}
	return status;
}

/* ---- passes ---- */

static HjgCudaShape
shape_of_pass(const HjgCudaHostJoin *join, hjg_u64 build_rows)
{
	return (HjgCudaShape) {
		.key_width = join->key_width, .mode = join->mode, .build_rows = build_rows, .probe_rows = join->chunk_rows
	};
}

size_t
hjg_lab_passes_bytes(const HjgCudaDevice *device, const HjgCudaHostJoin *join, hjg_u64 set_rows)
{
	const HjgCudaShape shape = shape_of_pass(join, set_rows);

	return 2 * (hjg_cuda_block_bytes(set_rows * (size_t) join->key_width) + hjg_cuda_block_bytes(set_rows * sizeof(hjg_u32))) +
		hjg_lab_host_build_bytes(device, &shape, join->strategy) + hjg_lab_flow_bytes(join->key_width, true, join->chunk_rows);
}

HjgStatus
hjg_lab_passes_open(HjgCudaPasses *passes, HjgCudaStreams *streams, const HjgCudaHostJoin *join, hjg_u64 set_rows,
					 HjgCudaCollectFn collect, void *arg, HjgCudaHostResult *result)
{
	HjgStatus	status = HJG_OK;

	memset(passes, 0, sizeof(*passes));
	passes->streams = streams;
	passes->join = join;
	passes->set_rows = set_rows;
	passes->collect = collect;
	passes->arg = arg;
	passes->set = passes->build_set = -1;
	passes->nsets = 1;
	passes->load_rows = join->chunk_rows;
	for (int i = 0; i < 2 && status == HJG_OK; i++)
	{
		status = hjg_cuda_alloc(&streams->work, set_rows * (size_t) join->key_width, &passes->builds[i].keys);
		if (status == HJG_OK)
			status = hjg_cuda_alloc(&streams->work, set_rows * sizeof(hjg_u32), &passes->builds[i].rows);
	}
	if (status == HJG_OK)
		status = hjg_lab_flow_open(&passes->flow, streams, join->key_width, true, join->chunk_rows, result);
	passes->flow.sum = join->sum;
	return status;
}

void
hjg_lab_passes_close(HjgCudaPasses *passes)
{
	if (passes->streams == NULL)
		return;
	hjg_lab_flow_close(&passes->flow);
	for (int i = 0; i < 2; i++)
	{
		hjg_cuda_free(&passes->streams->work, passes->builds[i].keys);
		hjg_cuda_free(&passes->streams->work, passes->builds[i].rows);
	}
	free(passes->build.runs);
	free(passes->probe.runs);
	memset(passes, 0, sizeof(*passes));
}

HjgStatus
hjg_lab_passes_send(HjgCudaPasses *passes, hjg_u64 most)
{
	HjgCudaSide *side = &passes->builds[passes->turn ^ 1];
	const hjg_u64 left = passes->set_rows - side->nrows;
	HjgStatus	status = HJG_OK;

	while (status == HJG_OK && side->nrows == 0 && passes->build.next == passes->build.n && passes->build_set + 1 < passes->nsets)
	{
		hjg_lab_runs_clear(&passes->build);
		status = passes->collect(passes->arg, ++passes->build_set, true, &passes->build);
	}
	if (status != HJG_OK)
		return status;
	return send_runs(&passes->build, &passes->streams->in, passes->near, passes->join->key_width,
					 side->nrows + (most < left ? most : left), side);
}

HjgStatus
hjg_lab_passes_next(HjgCudaPasses *passes, bool *more)
{
	HjgStatus	status = hjg_lab_passes_send(passes, passes->set_rows);

	*more = status == HJG_OK && passes->builds[passes->turn ^ 1].nrows > 0;
	if (!*more)
		return status;
	if (passes->build.nrows > passes->set_rows && passes->join->mode != HJG_MATCH_ALL)
		return HJG_ERR_MEMORY;
	passes->turn ^= 1;
	passes->builds[passes->turn ^ 1].nrows = 0;
	passes->set = passes->build_set;
	hjg_lab_runs_clear(&passes->probe);
	/* nothing has waited for a pass without a join, and the pass after next comes into its buffer */
	status = hjg_cuda_follow(&passes->streams->in, &passes->streams->work);
	return status == HJG_OK ? passes->collect(passes->arg, passes->set, false, &passes->probe) : status;
}

HjgStatus
hjg_lab_passes_load(HjgCudaPasses *passes, HjgCudaStream *stream, HjgCudaChunk *chunk, HjgCudaLoad *load)
{
	HjgCudaSide side = {.keys = chunk->keys, .rows = chunk->rows};
	HjgStatus	status = send_runs(&passes->probe, stream, passes->near, passes->join->key_width, passes->load_rows, &side);

	chunk->nrows = side.nrows;
	chunk->first_row = 0;
	*load = side.nrows > 0 ? HJG_CUDA_LOADED : HJG_CUDA_NO_MORE;
	/* the next pass's build rows follow the last chunk of a pass */
	return status == HJG_OK && side.nrows == 0 ? hjg_lab_passes_send(passes, passes->set_rows) : status;
}

HjgStatus
hjg_lab_passes_run(HjgCudaPasses *passes, const HjgCudaSource *source)
{
	const HjgCudaHostJoin *join = passes->join;
	const HjgCudaSide *build = &passes->builds[passes->turn];
	const HjgCudaShape shape = shape_of_pass(join, build->nrows);
	HjgCudaStream *stream = &passes->streams->work;
	const HjgCudaStrategy *strategy = NULL;
	void	   *table = NULL;
	HjgStatus	status = hjg_cuda_follow(stream, &passes->streams->in);

	passes->npasses++;
	if (status == HJG_OK)
		status = hjg_lab_flow_begin(&passes->flow, join->key_width, source);
	if (status == HJG_OK && build->nrows > 0)
		status = hjg_lab_host_build(stream, &shape, build, join->strategy, &strategy, &table);
	if (status == HJG_OK)
		status = hjg_lab_flow_run(&passes->flow, strategy, table);
	if (table != NULL)
		strategy->free(stream, table);
	return status;
}
