/*
 * lab_host_spill.c
 *	  Joins of two sides too large for the device: partitioned by the device, which sends back the rows
 *	  that it has no room for.
 *
 * The host does nothing with rows.  The build side comes in unchanged, a chunk at a time, and each chunk
 * is ordered by partition (lab_host_split.c).  Rows of the first set's partitions stay; all others go back
 * to pinned memory with their row numbers ("spilled"), while the next chunk comes in: the bus works both
 * ways at once.  Then the probe side comes in the same way; rows of the first set's partitions are joined
 * at once, the others are spilled.  Passes join the spilled rows (lab_host_passes.c); their first build
 * rows come in among the probe chunks, since by then more goes out than comes in.
 *
 * The partitions that stay are chosen after the first chunk was counted, assuming that the others are like
 * it, with a small margin (lab_host_spill_rows.c; the fullest set: lab_host_sets.c).  If they are not,
 * because equal keys came later, partitions are evicted: the rows that stayed are split again.  So any
 * data is joined, and no row is spilled twice.  The other sets are packed after all build rows were
 * counted.
 *
 * The bus is the limit.  With f the share of the build side that stays, w the width of a key and one match
 * a row:
 *		in	(R + S) (w + (1 - f) (w + 4)), first keys and then spilled rows
 *		out	(R + S) (1 - f) (w + 4) + 8 S
 * R = S = 2^28 rows of 4-byte keys, f = 0.5: 4.3 GB each way, 91 ms at the 47 GB/s of an H100's bus;
 * measured 94.6 ms (5.7 Gtuples/s).  The loss: the bus works one way only while the first chunk comes in
 * and while the last pairs of a set go out.
 */
#include <stdlib.h>

#include "lab/hjg_cuda_spill.h"
#include "lab/hjg_lab_stream.h"

/*
 * Chunks of the probe side are as large as the join says, since each of their joins reads a whole set.
 * Other chunks are parts of that, because the bus works one way only while the first comes in and the last
 * goes out.
 */
#define BUILD_PART 4
#define SPILLED_PART 2

#define LEAST_CHUNK_ROWS (4u << 20)
#define MOST_CHUNK_ROWS (48u << 20)

/* Chunks that come in before the next set's build rows, while the last spilled rows go out. */
#define PROBE_AHEAD (HJG_CUDA_FLOW_INS - 1)

/* Compute the rows of a part of a chunk; its keys end at a multiple of 16 bytes. */
static hjg_u64
part_of_spill(const HjgCudaSpill *spec, hjg_u64 part)
{
	return (spec->join.chunk_rows / part + 3) / 4 * 4;
}

/* ---- incoming sides ---- */

static HjgStatus
load_side_keys(HjgCudaSpilling *spill, const HjgCudaHostSide *side, hjg_u64 most, HjgCudaStream *stream, HjgCudaChunk *chunk,
			   HjgCudaLoad *load)
{
	const size_t width = (size_t) spill->spec->join.key_width;
	const hjg_u64 left = side->nrows - spill->next_row;

	chunk->nrows = left < most ? left : most;
	chunk->first_row = spill->next_row;
	spill->next_row += chunk->nrows;
	*load = chunk->nrows > 0 ? HJG_CUDA_LOADED : HJG_CUDA_NO_MORE;
	return hjg_cuda_copy_in(stream, chunk->keys, (const char *) side->keys + chunk->first_row * width, chunk->nrows * width);
}

static HjgStatus
load_build_rows(void *arg, HjgCudaStream *stream, bool may_wait, HjgCudaChunk *chunk, HjgCudaLoad *load)
{
	HjgCudaSpilling *spill = arg;

	return load_side_keys(spill, &spill->spec->join.build, part_of_spill(spill->spec, BUILD_PART), stream, chunk, load);
}

/* Load probe rows, and build rows of the next set in between. */
static HjgStatus
load_probe(void *arg, HjgCudaStream *stream, bool may_wait, HjgCudaChunk *chunk, HjgCudaLoad *load)
{
	HjgCudaSpilling *spill = arg;
	const HjgCudaHostJoin *join = &spill->spec->join;
	const hjg_u64 nchunks = join->probe.nrows / join->chunk_rows;
	HjgStatus	status = HJG_OK;

	if (spill->next_row == join->probe.nrows)
		status = hjg_lab_passes_send(&spill->passes, spill->spec->set_rows);
	else if (spill->next_row >= PROBE_AHEAD * join->chunk_rows)
		status = hjg_lab_passes_send(&spill->passes, spill->spec->set_rows / (nchunks - PROBE_AHEAD + 1) + 1);
	return status == HJG_OK ? load_side_keys(spill, &join->probe, join->chunk_rows, stream, chunk, load) : status;
}

static HjgStatus
prepare_build(void *arg, HjgCudaChunk *chunk)
{
	HjgCudaSpilling *spill = arg;
	HjgCudaSide *store = &spill->passes.builds[0];
	const HjgCudaSide side = {.keys = chunk->keys, .nrows = chunk->nrows};
	hjg_u64		counts[HJG_CUDA_MOST_PARTS];
	hjg_u64		nstay = 0;
	HjgStatus	status = hjg_lab_split_count(&spill->split, &side, counts);

	chunk->nrows = 0;
	if (status == HJG_OK)
		status = hjg_lab_spill_make_room(spill, counts);
	if (status == HJG_OK)
		status = hjg_lab_spill_split(spill, &side, chunk->first_row, counts, &spill->build, &nstay);
	if (status == HJG_OK)
		status = hjg_cuda_follow(&spill->streams->in, &spill->streams->work);
	if (status == HJG_OK)
		status = hjg_lab_spill_keep(spill, store->nrows, nstay);
	store->nrows += nstay;
	return status;
}

static HjgStatus
prepare_probe(void *arg, HjgCudaChunk *chunk)
{
	HjgCudaSpilling *spill = arg;
	const HjgCudaSide side = {.keys = chunk->keys, .nrows = chunk->nrows};
	hjg_u64		counts[HJG_CUDA_MOST_PARTS];
	HjgStatus	status = hjg_lab_split_count(&spill->split, &side, counts);

	if (status == HJG_OK)
		status = hjg_lab_spill_split(spill, &side, chunk->first_row, counts, &spill->probe, &chunk->nrows);
	if (status == HJG_OK)
		status = hjg_cuda_follow(&spill->streams->in, &spill->streams->work);
	chunk->keys = spill->split.rows[spill->split.turn].keys;
	chunk->rows = spill->split.rows[spill->split.turn].rows;
	chunk->first_row = 0;
	return status;
}

/* ---- spilled rows ---- */

static HjgStatus
collect_spilled_set(void *arg, int set, bool build, HjgCudaRuns *runs)
{
	HjgCudaSpilling *spill = arg;
	const int	width = spill->spec->join.key_width;
	const HjgCudaPieces *pieces = build ? &spill->build : &spill->probe;
	HjgStatus	status = HJG_OK;
	bool		good = true;

	for (int i = 0; i < HJG_CUDA_OUTS && status == HJG_OK; i++)
		status = hjg_lab_follow_note(&spill->streams->in, spill->split.left[i]);
	for (int i = 0; i < pieces->n; i++)
	{
		const HjgCudaPiece *piece = &pieces->pieces[i];
		hjg_u64		at = 0;

		for (int p = 0; p < hjg_lab_spill_parts(spill) && good; p++)
		{
			if (piece->counts[p] > 0 && spill->set_of[p] == set)
				good = hjg_lab_runs_add(runs, width, (HjgCudaRun) {piece->keys + at * (size_t) width, piece->rows + at, piece->counts[p]});
			at += piece->counts[p];
		}
	}
	return good ? status : HJG_ERR_MEMORY;
}

static HjgStatus
load_spilled(void *arg, HjgCudaStream *stream, bool may_wait, HjgCudaChunk *chunk, HjgCudaLoad *load)
{
	return hjg_lab_passes_load(&((HjgCudaSpilling *) arg)->passes, stream, chunk, load);
}

/* ---- all of it ---- */

/*
 * Choose the rows: a chunk's join reads the build rows of its set, but only a part of the chunk's rows
 * belong to it.
 */
hjg_u64
hjg_lab_spill_chunk_rows(hjg_u64 build_rows)
{
	const hjg_u64 rows = build_rows / 16 * 3 / 4 * 4;

	return rows < LEAST_CHUNK_ROWS ? LEAST_CHUNK_ROWS : rows > MOST_CHUNK_ROWS ? MOST_CHUNK_ROWS : rows;
}

size_t
hjg_lab_spill_memory(const HjgCudaSpill *spec)
{
	const hjg_u64 nrows = spec->join.build.nrows + spec->join.probe.nrows;
	const hjg_u64 nevictions = (hjg_u64) 1 << spec->bits;
	const hjg_u64 npieces = spec->join.build.nrows / part_of_spill(spec, BUILD_PART) + spec->join.probe.nrows / spec->join.chunk_rows + 2 +
		nevictions * (spec->set_rows / spec->join.chunk_rows + 1);

	return hjg_lab_spill_aligned(nrows * ((size_t) spec->join.key_width + sizeof(hjg_u32))) + npieces * 2 * hjg_lab_spill_aligned(1);
}

size_t
hjg_lab_spill_bytes(const HjgCudaDevice *device, const HjgCudaSpill *spec)
{
	return hjg_lab_passes_bytes(device, &spec->join, spec->set_rows) +
		hjg_lab_split_bytes(spec->join.key_width, spec->bits, spec->join.chunk_rows);
}

static HjgStatus
run_first(HjgCudaSpilling *spill)
{
	const HjgCudaSource build = {.load = load_build_rows, .prepare = prepare_build, .arg = spill};
	const HjgCudaSource probe = {.load = load_probe, .prepare = prepare_probe, .arg = spill};
	HjgCudaPasses *passes = &spill->passes;
	HjgStatus	status;

	passes->set = passes->build_set = 0;
	passes->load_rows = part_of_spill(spill->spec, SPILLED_PART);
	status = hjg_lab_flow_begin(&passes->flow, spill->spec->join.key_width, &build);
	if (status == HJG_OK)
		status = hjg_lab_flow_run(&passes->flow, NULL, NULL);
	if (status != HJG_OK)
		return status;
	hjg_lab_spill_pack(spill);
	spill->next_row = 0;
	return hjg_lab_passes_run(passes, &probe);
}

static HjgStatus
run_spill(HjgCudaSpilling *spill, HjgCudaHostResult *result)
{
	const HjgCudaSource spilled = {.load = load_spilled, .arg = spill};
	HjgCudaSpill *spec = spill->spec;
	HjgStatus	status = hjg_lab_passes_open(&spill->passes, spill->streams, &spec->join, spec->set_rows, collect_spilled_set, spill, result);
	HjgStatus	drained;
	bool		more = true;

	if (status == HJG_OK)
		status = hjg_lab_split_open(&spill->split, spill->streams, spec->join.key_width, spec->bits, spec->join.chunk_rows);
	if (status == HJG_OK)
		status = run_first(spill);
	while (status == HJG_OK && more)
	{
		status = hjg_lab_passes_next(&spill->passes, &more);
		if (status == HJG_OK && more)
			status = hjg_lab_passes_run(&spill->passes, &spilled);
	}
	spec->npasses = spill->passes.npasses;
	drained = hjg_cuda_streams_wait(spill->streams);
	hjg_lab_split_close(&spill->split);
	hjg_lab_passes_close(&spill->passes);
	return status == HJG_OK ? drained : status;
}

HjgStatus
hjg_lab_spill_join(HjgCudaStreams *streams, HjgCudaSpill *spec, HjgCudaHostResult *result)
{
	HjgCudaSpilling *spill;
	HjgStatus	status;

	result->npairs = 0;
	result->nbatches = 0;
	spec->npasses = spec->nevicted = 0;
	spec->spilled_bytes = 0;
	if (spec->join.build.nrows == 0 || spec->join.build.nrows > HJG_MAX_BUILD_ROWS || spec->join.probe.nrows > HJG_MAX_BUILD_ROWS)
		return HJG_ERR_INPUT;
	spill = calloc(1, sizeof(HjgCudaSpilling));
	if (spill == NULL)
		return HJG_ERR_MEMORY;
	spill->spec = spec;
	spill->streams = streams;
	status = run_spill(spill, result);
	free(spill->build.pieces);
	free(spill->probe.pieces);
	free(spill);
	return status;
}
