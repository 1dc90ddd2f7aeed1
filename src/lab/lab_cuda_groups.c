/*
 * lab_cuda_groups.c
 *	  Joins of co-partitions with a limited buffer for their pairs, by groups of partitions.
 *
 * Paul et al., "Revisiting Hash Join on Graphics Processors" (2020), IV.B.2: a group is as many partitions
 * as are estimated to fill the buffer, from the sizes of its co-partitions and corrected by the error of
 * earlier estimates.  If the buffer is full too soon, blocks stop, their unfinished output is void, and
 * only those units are joined again when the buffer has been emptied.  The paper empties it to host
 * memory; here it is emptied into the output.
 *
 * The rival in the paper, "exact" here, probes twice and so knows the pairs of each group; its groups fill the
 * same buffer, and it is emptied by a copy, too.
 *
 * For comparison, the worst case: every probe row with every build row.  Groups of so few partitions leave
 * most of the device idle, and a launch for each would cost more than its join.  So there is one grid
 * instead, with as many blocks as the buffer has slots for the worst case of the largest unit, and each
 * block empties its own slot when a unit is done: never more partitions at a time than fit, and no waiting
 * for others of a group.
 */
#include <stdlib.h>
#include <string.h>

#include "lab/hjg_cuda_paper.h"
#include "lab/hjg_lab_stream.h"

#define THREADS 256
#define BUFFERS 8				/* of a join with one pair for each probe row */
#define CHUNKS_A_BLOCK 4		/* at least, of the buffer */
#define FILLING 0.9				/* target for the buffer */
#define WORST_PART 8			/* of the device's budget: the buffer of slots */

static HjgCudaKernel measure_chunks = {.image = "cuda_holes", .name = "hjg_k_measure_chunks"};
static HjgCudaKernel copy_chunks = {.image = "cuda_holes", .name = "hjg_k_copy_chunks"};

/* The sizes of partitions, known to the host. */
typedef struct Sizes
{
	hjg_u32    *unit_first;		/* [nparts + 1] */
	hjg_u32    *build;			/* rows */
	hjg_u32    *probe;
} Sizes;

typedef struct Groups
{
	HjgCudaUnits *units;
	HjgCudaPtr	numbers;		/* pages handed out */
	HjgCudaPtr	offsets;
	HjgCudaPtr	sums;
	hjg_u64		nchunks;
	hjg_u64		npairs;			/* of earlier groups */
} Groups;

static hjg_u64
nchunks_of(hjg_u64 probe_rows, hjg_u64 nblocks)
{
	return probe_rows / BUFFERS / HJG_K_CHUNK_PAIRS + CHUNKS_A_BLOCK * nblocks;
}

size_t
hjg_lab_groups_bytes(hjg_u64 probe_rows, hjg_u64 nblocks, hjg_u64 nunits)
{
	const hjg_u64 nchunks = nchunks_of(probe_rows, nblocks);

	return hjg_cuda_block_bytes(nchunks * HJG_K_CHUNK_PAIRS * sizeof(HjgPair)) +
		2 * hjg_cuda_block_bytes(nchunks * sizeof(hjg_u32)) + hjg_cuda_block_bytes(nunits) +
		hjg_cuda_block_bytes((nchunks + 1) * sizeof(hjg_u64)) +
		hjg_cuda_block_bytes(hjg_cuda_scan_entries(nchunks + 1) * sizeof(hjg_u64)) + hjg_cuda_block_bytes(sizeof(hjg_u64));
}

static HjgStatus
alloc_groups(HjgCudaStream *stream, Groups *groups)
{
	HjgKSink   *sink = &groups->units->args.sink;
	HjgStatus	status = hjg_cuda_alloc(stream, groups->nchunks * HJG_K_CHUNK_PAIRS * sizeof(HjgPair), &sink->spill);

	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, groups->nchunks * sizeof(hjg_u32), &sink->chunk_unit);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, groups->nchunks * sizeof(hjg_u32), &sink->chunk_pairs);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, groups->units->nunits, &sink->unit_done);
	if (status == HJG_OK)
		status = hjg_cuda_zero(stream, sink->unit_done, groups->units->nunits);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, (groups->nchunks + 1) * sizeof(hjg_u64), &groups->offsets);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, hjg_cuda_scan_entries(groups->nchunks + 1) * sizeof(hjg_u64), &groups->sums);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, sizeof(hjg_u64), &groups->numbers);
	sink->nchunks = groups->nchunks;
	sink->taken = groups->numbers;
	return status;
}

static void
free_groups(HjgCudaStream *stream, Groups *groups)
{
	HjgKSink   *sink = &groups->units->args.sink;

	hjg_cuda_free(stream, sink->spill);
	hjg_cuda_free(stream, sink->chunk_unit);
	hjg_cuda_free(stream, sink->chunk_pairs);
	hjg_cuda_free(stream, sink->unit_done);
	hjg_cuda_free(stream, groups->offsets);
	hjg_cuda_free(stream, groups->sums);
	hjg_cuda_free(stream, groups->numbers);
	*sink = (HjgKSink) {.output = sink->output};
}

static void
free_sizes(Sizes *sizes)
{
	free(sizes->unit_first);
	free(sizes->build);
	free(sizes->probe);
}

static HjgStatus
read_sizes(HjgCudaStream *stream, const HjgCudaMatch *match, Sizes *sizes)
{
	const size_t bytes = sizeof(hjg_u32) << match->probe->bits;
	HjgStatus	status;

	sizes->unit_first = malloc(bytes + sizeof(hjg_u32));
	sizes->build = malloc(bytes);
	sizes->probe = malloc(bytes);
	if (sizes->unit_first == NULL || sizes->build == NULL || sizes->probe == NULL)
		return HJG_ERR_MEMORY;
	status = hjg_cuda_copy_out(stream, sizes->unit_first, match->probe->unit_first, bytes + sizeof(hjg_u32));
	if (status == HJG_OK)
		status = hjg_cuda_copy_out(stream, sizes->build, match->build->sizes, bytes);
	if (status == HJG_OK)
		status = hjg_cuda_copy_out(stream, sizes->probe, match->probe->sizes, bytes);
	return status == HJG_OK ? hjg_cuda_wait(stream) : status;
}

/* Empty the buffer into the output; *npairs: its number of pairs. */
static HjgStatus
empty_buffer(HjgCudaStream *stream, Groups *groups, hjg_u64 *npairs)
{
	HjgKChunks	args = {.sink = groups->units->args.sink, .offsets = groups->offsets, .base = groups->npairs};
	HjgStatus	status;

	status = hjg_cuda_launch(stream, &measure_chunks, hjg_cuda_blocks(groups->nchunks + 1, THREADS), THREADS, 0,
							 (void *[]) {&args});
	if (status == HJG_OK)
		status = hjg_cuda_scan(stream, groups->offsets, groups->nchunks + 1, groups->sums);
	if (status == HJG_OK)
		status = hjg_cuda_launch(stream, &copy_chunks, (unsigned) groups->nchunks, THREADS, 0, (void *[]) {&args});
	if (status == HJG_OK)
		status = hjg_cuda_copy_out(stream, npairs, groups->offsets + groups->nchunks * sizeof(hjg_u64), sizeof(*npairs));
	return status;
}

/* Join units [first, first + n) until all of them are done; *npairs: their number of pairs. */
static HjgStatus
join_group(HjgCudaStream *stream, Groups *groups, hjg_u64 first, hjg_u64 n, const HjgCudaOutput *output, hjg_u64 *npairs,
		   bool *too_small)
{
	HjgStatus	status = HJG_OK;
	hjg_u64		taken = groups->nchunks + 1;

	*npairs = 0;
	while (status == HJG_OK && taken > groups->nchunks && groups->npairs <= output->capacity && !*too_small)
	{
		hjg_u64		found = 0;

		status = hjg_cuda_zero(stream, groups->numbers, sizeof(hjg_u64));
		if (status == HJG_OK)
			status = groups->units->launch(stream, groups->units, HJG_CUDA_PUT_GROUPS, first, first + n);
		if (status == HJG_OK)
			status = empty_buffer(stream, groups, &found);
		if (status == HJG_OK)
			status = hjg_cuda_copy_out(stream, &taken, groups->numbers, sizeof(taken));
		if (status == HJG_OK)
			status = hjg_cuda_wait(stream);
		*too_small = taken > groups->nchunks && found == 0;
		*npairs += found;
		groups->npairs += found;
	}
	return status;
}

HjgStatus
hjg_lab_match_groups(HjgCudaStream *stream, HjgCudaUnits *units, const HjgCudaOutput *output, bool *too_small)
{
	const HjgCudaMatch *match = units->match;
	const hjg_u32 nparts = 1u << match->probe->bits;
	const double rows_a_part = (double) match->build->nrows / nparts;
	Groups		groups = {.units = units, .nchunks = nchunks_of(match->probe->nrows, units->nblocks)};
	const double room = FILLING * (double) (groups.nchunks * HJG_K_CHUNK_PAIRS);
	Sizes		sizes = {0};
	double		correction = 1;
	HjgStatus	status = alloc_groups(stream, &groups);

	if (status == HJG_OK)
		status = read_sizes(stream, match, &sizes);
	for (hjg_u32 p = 0, next; p < nparts && status == HJG_OK && groups.npairs <= output->capacity && !*too_small; p = next)
	{
		double		estimate = 0;
		hjg_u64		npairs;

		for (next = p; next < nparts; next++)
		{
			const double pairs = correction * sizes.build[next] * sizes.probe[next] / rows_a_part;

			if (next > p && estimate + pairs > room)
				break;
			estimate += pairs;
		}
		status = join_group(stream, &groups, sizes.unit_first[p], sizes.unit_first[next] - sizes.unit_first[p], output, &npairs,
							too_small);
		if (estimate > 0 && npairs > 0)
			correction *= (double) npairs / estimate;
	}
	if (status == HJG_OK && !*too_small)
		status = hjg_cuda_copy_in(stream, output->counters, &groups.npairs, sizeof(groups.npairs));
	if (status == HJG_OK)
		status = hjg_cuda_wait(stream);
	free_groups(stream, &groups);
	free_sizes(&sizes);
	return status;
}

/* ---- the worst case ---- */

size_t
hjg_lab_worst_bytes(const HjgCudaDevice *device)
{
	return hjg_cuda_block_bytes(hjg_cuda_pool_budget(device->pool) / WORST_PART);
}

/* Bound the pairs of a unit. */
static hjg_u64
worst_pairs(const HjgCudaMatch *match, const Sizes *sizes)
{
	const bool	several = match->mode == HJG_MATCH_ALL || match->mode == HJG_MATCH_LEFT;
	hjg_u64		most = 1;

	for (hjg_u32 p = 0; p < 1u << match->probe->bits; p++)
	{
		const hjg_u32 build = sizes->build[p] < match->units.build_limit ? sizes->build[p] : match->units.build_limit;
		const hjg_u32 probe = sizes->probe[p] < match->units.probe_limit ? sizes->probe[p] : match->units.probe_limit;
		const hjg_u64 pairs = (hjg_u64) probe * (several && build > 0 ? build : 1);

		most = pairs > most ? pairs : most;
	}
	return most;
}

/* ---- exact groups ---- */

/* The tables and the buffer of exact groups. */
typedef struct Exact
{
	HjgCudaPtr	buffer;
	HjgCudaPtr	sums;
	hjg_u64		room;			/* pairs of the buffer */
	hjg_u64    *before;			/* [nunits + 1]: pairs before each unit */
} Exact;

/* Count the pairs of each unit, and read the sums. */
static HjgStatus
count_exact(HjgCudaStream *stream, HjgCudaUnits *units, Exact *exact)
{
	HjgKSink   *sink = &units->args.sink;
	const size_t bytes = (units->nunits + 1) * sizeof(hjg_u64);
	HjgStatus	status = hjg_cuda_alloc(stream, exact->room * sizeof(HjgPair), &exact->buffer);

	exact->before = malloc(bytes);
	if (status == HJG_OK && exact->before == NULL)
		status = HJG_ERR_MEMORY;
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, bytes, &sink->unit_pairs);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, hjg_cuda_scan_entries(units->nunits + 1) * sizeof(hjg_u64), &exact->sums);
	if (status == HJG_OK)
		status = hjg_cuda_zero(stream, sink->unit_pairs, bytes);
	if (status == HJG_OK)
		status = units->launch(stream, units, HJG_CUDA_PUT_TWICE, 0, units->nunits);
	if (status == HJG_OK)
		status = hjg_cuda_scan(stream, sink->unit_pairs, units->nunits + 1, exact->sums);
	if (status == HJG_OK)
		status = hjg_cuda_copy_out(stream, exact->before, sink->unit_pairs, bytes);
	return status == HJG_OK ? hjg_cuda_wait(stream) : status;
}

/* Write the pairs of units [from, to) into the buffer and empty it; a unit larger than the buffer goes past it. */
static HjgStatus
write_exact(HjgCudaStream *stream, HjgCudaUnits *units, const Exact *exact, const HjgCudaOutput *output, hjg_u64 from, hjg_u64 to)
{
	const size_t place = exact->before[from] * sizeof(HjgPair);
	const hjg_u64 npairs = exact->before[to] - exact->before[from];
	HjgStatus	status;

	units->args.sink.output.pairs = npairs > exact->room ? output->pairs : exact->buffer - place;
	status = units->launch(stream, units, HJG_CUDA_SINK_PLACE, from, to);
	return status == HJG_OK && npairs <= exact->room ?
		hjg_lab_copy_within(stream, output->pairs + place, exact->buffer, npairs * sizeof(HjgPair)) : status;
}

HjgStatus
hjg_lab_match_exact(HjgCudaStream *stream, HjgCudaUnits *units, const HjgCudaOutput *output)
{
	Exact		exact = {.room = nchunks_of(units->match->probe->nrows, units->nblocks) * HJG_K_CHUNK_PAIRS};
	HjgStatus	status = count_exact(stream, units, &exact);

	/* more pairs than the output takes are counted, but not written */
	if (status == HJG_OK && exact.before[units->nunits] <= output->capacity)
		for (hjg_u64 from = 0, to; from < units->nunits && status == HJG_OK; from = to)
		{
			for (to = from + 1; to < units->nunits && exact.before[to + 1] - exact.before[from] <= exact.room;)
				to++;
			status = write_exact(stream, units, &exact, output, from, to);
		}
	hjg_cuda_free(stream, exact.buffer);
	hjg_cuda_free(stream, exact.sums);
	hjg_cuda_free(stream, units->args.sink.unit_pairs);
	free(exact.before);
	return status;
}

HjgStatus
hjg_lab_match_worst(HjgCudaStream *stream, HjgCudaUnits *units, bool *too_small)
{
	const hjg_u64 room = hjg_cuda_pool_budget(stream->device->pool) / WORST_PART / sizeof(HjgPair);
	HjgKSink   *sink = &units->args.sink;
	Sizes		sizes = {0};
	hjg_u64		nslots;
	HjgStatus	status = read_sizes(stream, units->match, &sizes);

	if (status == HJG_OK)
	{
		sink->spill_pairs = worst_pairs(units->match, &sizes);
		nslots = room / sink->spill_pairs < units->nblocks ? room / sink->spill_pairs : units->nblocks;
		*too_small = nslots == 0;
		if (nslots > 0)
		{
			const unsigned nblocks = units->nblocks;

			status = hjg_cuda_alloc(stream, nslots * sink->spill_pairs * sizeof(HjgPair), &sink->spill);
			units->nblocks = (unsigned) nslots;
			if (status == HJG_OK)
				status = units->launch(stream, units, HJG_CUDA_PUT_WORST, 0, units->nunits);
			units->nblocks = nblocks;
			hjg_cuda_free(stream, sink->spill);
		}
		*sink = (HjgKSink) {.output = sink->output};
	}
	free_sizes(&sizes);
	return status;
}
