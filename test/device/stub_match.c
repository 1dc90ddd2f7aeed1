/*
 * stub_match.c
 *	  Joins of co-partitions and their output (cuda_match.cu, cuda_holes.cu) as plain loops: units and
 *	  queued pieces of units, pages with holes, groups that are given up.
 *
 * Sums are not emulated.
 */
#include <stdlib.h>
#include <string.h>

#include "hjg_stub_kernels.h"
#include "lab/hjg_cuda_paper_args.h"

#define OWNERS 3				/* of pages, at most: makes holes */

/* ---- output ---- */

/* The pairs of a unit: first collected, then written as the kernel's kind of output does. */
typedef struct Sink
{
	const HjgKSink *args;
	const char *kind;
	hjg_u32		nblocks;
	hjg_u32		block;			/* of the unit */
	HjgPair    *pairs;
	hjg_u64		npairs;
	hjg_u64		room;
} Sink;

static void
collect(Sink *sink, hjg_u32 probe_row, hjg_u32 build_row)
{
	if (sink->npairs == sink->room)
	{
		sink->room = 2 * sink->room + 64;
		sink->pairs = realloc(sink->pairs, sink->room * sizeof(HjgPair));
	}
	sink->pairs[sink->npairs++] = (HjgPair) {probe_row, build_row};
}

/* Write pairs to pages of alternating owners. */
static void
put_in_pages(Sink *sink, hjg_u32 page_pairs, hjg_u32 nowners)
{
	const HjgKSink *args = sink->args;

	for (hjg_u64 i = 0; i < sink->npairs; i++)
	{
		hjg_u64    *open = &AT(hjg_u64, args->open)[i % (nowners < OWNERS ? nowners : OWNERS)];
		hjg_u64		place;

		if ((hjg_u32) *open == 0)
			*open = (++*AT(hjg_u64, args->taken)) << 32 | page_pairs;
		place = (*open >> 32) * page_pairs - (hjg_u32) *open;
		(*open)--;
		if (place < args->output.capacity)
			AT(HjgPair, args->output.pairs)[place] = sink->pairs[i];
		else if (place < args->output.capacity + args->spill_pairs)
			AT(HjgPair, args->spill)[place - args->output.capacity] = sink->pairs[i];
	}
}

/* Write whole chunks to the buffer of a group, or none: then the unit is given up. */
static void
put_in_group(Sink *sink, hjg_u32 unit)
{
	const HjgKSink *args = sink->args;

	for (hjg_u64 i = 0; i < sink->npairs; i += HJG_K_CHUNK_PAIRS)
	{
		const hjg_u64 n = sink->npairs - i < HJG_K_CHUNK_PAIRS ? sink->npairs - i : HJG_K_CHUNK_PAIRS;
		const hjg_u64 chunk = (*AT(hjg_u64, args->taken))++;

		if (chunk >= args->nchunks)
			return;
		AT(hjg_u32, args->chunk_unit)[chunk] = unit;
		AT(hjg_u32, args->chunk_pairs)[chunk] = (hjg_u32) n;
		memcpy(AT(HjgPair, args->spill) + chunk * HJG_K_CHUNK_PAIRS, sink->pairs + i, n * sizeof(HjgPair));
	}
	AT(hjg_u8, args->unit_done)[unit] = 1;
}

static void
put_out(Sink *sink, hjg_u32 unit)
{
	const HjgKSink *args = sink->args;

	if (strcmp(sink->kind, "_page") == 0)
		put_in_pages(sink, sink->args->page_pairs, sink->nblocks * 512);
	else if (strcmp(sink->kind, "_block") == 0)
		put_in_pages(sink, HJG_K_CHUNK_PAIRS, sink->nblocks);
	else if (strcmp(sink->kind, "_group") == 0)
		put_in_group(sink, unit);
	else if (strcmp(sink->kind, "_place") == 0)
	{
		if (AT(hjg_u64, args->output.counters)[0] <= args->output.capacity)
			memcpy(AT(HjgPair, args->output.pairs) + AT(hjg_u64, args->unit_pairs)[unit], sink->pairs, sink->npairs * sizeof(HjgPair));
	}
	else if (strcmp(sink->kind, "_count") == 0)
	{
		AT(hjg_u64, args->unit_pairs)[unit] = sink->npairs;
		AT(hjg_u64, args->output.counters)[0] += sink->npairs;
	}
	else
	{
		if (strcmp(sink->kind, "_slot") == 0)
			memcpy(AT(HjgPair, args->spill) + sink->block * args->spill_pairs, sink->pairs, sink->npairs * sizeof(HjgPair));
		for (hjg_u64 i = 0; i < sink->npairs; i++)
			put_pair(&args->output, sink->pairs[i].probe_row, sink->pairs[i].build_row);
	}
}

static void
count_holes(const Launch *launch)
{
	const HjgKHoles *holes = &ARG(HjgKHoles, 0);

	for (hjg_u32 i = 0; i < holes->nowners; i++)
		*AT(hjg_u64, holes->nholes) += (hjg_u32) AT(hjg_u64, holes->sink.open)[i];
}

static hjg_u64
pairs_in_pages(const HjgKHoles *holes)
{
	return *AT(hjg_u64, holes->sink.taken) * holes->sink.page_pairs - *AT(hjg_u64, holes->nholes);
}

static void
list_holes(const Launch *launch)
{
	const HjgKHoles *holes = &ARG(HjgKHoles, 0);
	const hjg_u64 npairs = pairs_in_pages(holes);

	AT(hjg_u64, holes->sink.output.counters)[0] = npairs;
	for (hjg_u32 i = 0; i < holes->nowners && npairs <= holes->sink.output.capacity; i++)
	{
		const hjg_u64 open = AT(hjg_u64, holes->sink.open)[i];
		const hjg_u64 last = (open >> 32) * holes->sink.page_pairs;

		for (hjg_u64 place = last - (hjg_u32) open; place < last; place++)
			if (place < npairs)
				AT(hjg_u64, holes->holes)[AT(hjg_u64, holes->nholes)[1]++] = place;
			else
				AT(hjg_u8, holes->marks)[place - npairs] = 1;
	}
}

static HjgPair *
paged_at(const HjgKSink *sink, hjg_u64 place)
{
	return place < sink->output.capacity ? AT(HjgPair, sink->output.pairs) + place :
		AT(HjgPair, sink->spill) + (place - sink->output.capacity);
}

static void
fill_holes(const Launch *launch)
{
	const HjgKHoles *holes = &ARG(HjgKHoles, 0);
	const hjg_u64 npairs = pairs_in_pages(holes);

	if (npairs > holes->sink.output.capacity)
		return;
	for (hjg_u64 i = 0; i < *AT(hjg_u64, holes->nholes); i++)
		if (!AT(hjg_u8, holes->marks)[i])
			*paged_at(&holes->sink, AT(hjg_u64, holes->holes)[AT(hjg_u64, holes->nholes)[2]++]) = *paged_at(&holes->sink, npairs + i);
}

static void
measure_chunks(const Launch *launch)
{
	const HjgKChunks *chunks = &ARG(HjgKChunks, 0);
	const HjgKSink *sink = &chunks->sink;

	for (hjg_u64 i = 0; i <= sink->nchunks; i++)
	{
		const bool	filled = i < sink->nchunks && i < *AT(hjg_u64, sink->taken) &&
			AT(hjg_u8, sink->unit_done)[AT(hjg_u32, sink->chunk_unit)[i]];

		AT(hjg_u64, chunks->offsets)[i] = filled ? AT(hjg_u32, sink->chunk_pairs)[i] : 0;
	}
}

static void
copy_chunks(const Launch *launch)
{
	const HjgKChunks *chunks = &ARG(HjgKChunks, 0);
	const HjgKOutput *output = &chunks->sink.output;

	for (hjg_u64 c = 0; c < chunks->sink.nchunks; c++)
	{
		const hjg_u64 *offsets = AT(hjg_u64, chunks->offsets) + c;

		for (hjg_u64 i = 0; i < offsets[1] - offsets[0]; i++)
			if (chunks->base + offsets[0] + i < output->capacity)
				AT(HjgPair, output->pairs)[chunks->base + offsets[0] + i] = AT(HjgPair, chunks->sink.spill)[c * HJG_K_CHUNK_PAIRS + i];
	}
}

/* ---- joins of co-partitions ---- */

#define HEADS 1024

static hjg_u32
head_of(HjgCsrKey key)
{
	return (hjg_u32) ((key.high ^ key.low) * 0x9E3779B97F4A7C15ull >> 54);
}

/* Get a row by its position in the order of partitions. */
static HjgCsrKey
paged_tuple(int width, const HjgKRows *rows, hjg_u64 pages, hjg_u32 bits, hjg_u32 i, hjg_u32 *row)
{
	return get_tuple(width, rows, pages == 0 ? i : AT(hjg_u32, pages)[i >> bits] << bits | (i & ((1u << bits) - 1)), row);
}

static void
join_task(const HjgKMatch *match, int width, const HjgKTask *task, Sink *sink)
{
	hjg_u32    *next = malloc((task->build_to - task->build_from + (size_t) 1) * sizeof(hjg_u32));
	hjg_u32		heads[HEADS];
	hjg_u32		row;

	memset(heads, 0xFF, sizeof(heads));
	for (hjg_u32 j = task->build_from; j < task->build_to; j++)
	{
		hjg_u32    *head = &heads[head_of(paged_tuple(width, &match->build, match->build_pages, match->bucket_bits, j, &row))];

		next[j - task->build_from] = *head;
		*head = j;
	}
	for (hjg_u32 i = task->probe_from; i < task->probe_to; i++)
	{
		hjg_u32		probe_row;
		const HjgCsrKey key = paged_tuple(width, &match->probe, match->probe_pages, match->bucket_bits, i, &probe_row);
		bool		found = false;

		for (hjg_u32 j = heads[head_of(key)]; j != HJG_NO_ROW && (!found || wants_several(match->mode));
			 j = next[j - task->build_from])
			if (hjg_step_equal(width, paged_tuple(width, &match->build, match->build_pages, match->bucket_bits, j, &row), key))
			{
				found = true;
				if (match->mode != HJG_MATCH_ANTI)
					collect(sink, probe_row, row);
			}
		if (!found && wants_lonely(match->mode))
			collect(sink, probe_row, HJG_NO_ROW);
	}
	free(next);
}

static HjgKTask
task_of(const HjgKUnits *units, hjg_u32 unit)
{
	const hjg_u32 *unit_first = AT(hjg_u32, units->unit_first);
	hjg_u32		p = 0;
	hjg_u32		pieces;
	HjgKTask	task;

	while (unit_first[p + 1] <= unit)
		p++;
	unit -= unit_first[p];
	task.probe_from = AT(hjg_u32, units->probe.first)[p];
	task.probe_to = AT(hjg_u32, units->probe.last)[p];
	pieces = (task.probe_to - task.probe_from + units->probe_limit - 1) / units->probe_limit;
	task.build_from = AT(hjg_u32, units->build.first)[p] + unit / pieces * units->build_limit;
	task.build_to = AT(hjg_u32, units->build.last)[p];
	if (task.build_to - task.build_from > units->build_limit)
		task.build_to = task.build_from + units->build_limit;
	task.probe_from += unit % pieces * units->probe_limit;
	if (task.probe_to - task.probe_from > units->probe_limit)
		task.probe_to = task.probe_from + units->probe_limit;
	return task;
}

/* Put a large task into the queue, in pieces; false if it is not large. */
static bool
enqueue(const HjgKMatch *match, const HjgKTask *task)
{
	if (match->queue == 0 || match->from_queue || task->probe_to - task->probe_from <= match->piece_rows)
		return false;
	for (hjg_u32 from = task->probe_from; from < task->probe_to; from += match->piece_rows)
	{
		HjgKTask   *piece = &AT(HjgKTask, match->queue)[(*AT(hjg_u32, match->nqueued))++];

		*piece = *task;
		piece->probe_from = from;
		piece->probe_to = task->probe_to - from < match->piece_rows ? task->probe_to : from + match->piece_rows;
	}
	return true;
}

static void
match_parts(const Launch *launch)
{
	const HjgKMatch *match = &ARG(HjgKMatch, 0);
	const hjg_u32 nunits = match->from_queue ? *AT(hjg_u32, match->nqueued) : match->nunits;
	Sink		sink = {.args = &match->sink, .kind = launch->rest, .nblocks = (hjg_u32) launch->nblocks};

	for (hjg_u32 u = 0; u < nunits; u++)
	{
		const hjg_u32 unit = match->first_unit + u;
		const HjgKTask task = match->from_queue ? AT(HjgKTask, match->queue)[u] : task_of(&match->units, unit);

		if ((strcmp(sink.kind, "_group") == 0 && AT(hjg_u8, match->sink.unit_done)[unit]) || enqueue(match, &task))
			continue;
		sink.npairs = 0;
		sink.block = u % sink.nblocks;
		join_task(match, launch->width, &task, &sink);
		put_out(&sink, unit);
	}
	free(sink.pairs);
}

const StubKernel hjg_stub_match[] = {
	{"hjg_k_copy_chunks", copy_chunks, true},
	{"hjg_k_count_holes", count_holes, true},
	{"hjg_k_fill_holes", fill_holes, true},
	{"hjg_k_list_holes", list_holes, true},
	{"hjg_k_match_device", match_parts, false},
	{"hjg_k_match_hashed", match_parts, false},
	{"hjg_k_match_hashed_vt4", match_parts, false},
	{"hjg_k_match_nested", match_parts, false},
	{"hjg_k_measure_chunks", measure_chunks, true},
	{NULL, NULL, false}
};
