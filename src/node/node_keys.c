/*
 * node_keys.c
 *	  Buffers of keys: segments in slabs of the job, in local memory, or in memory that all participants of a shared build
 *	  side can access.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "node/hjg_build.h"
#include "node/hjg_run_private.h"

/* First and last size of local key segments. */
#define FIRST_SEGMENT_BYTES 4096
#define LAST_SEGMENT_BYTES HJG_SLAB_BYTES

/* Are the keys of a buffer, outside slabs, in memory of the share? */
static inline bool
is_shared(const HjgRun *run, const HjgKeyBuffer *buffer)
{
	return run->share != NULL && buffer == &run->build;
}

HjgKeySegment *
hjg_keys_next_segment(HjgRun *run, HjgKeyBuffer *buffer)
{
	if (buffer->nsegments == buffer->max_segments)
	{
		int			max = Max(4, buffer->max_segments * 2);

		if (buffer->segments == NULL)
			buffer->segments = MemoryContextAlloc(run->context, max * sizeof(HjgKeySegment));
		else
			buffer->segments = repalloc(buffer->segments, max * sizeof(HjgKeySegment));
		buffer->max_segments = max;
	}
	return &buffer->segments[buffer->nsegments];
}

void
hjg_keys_add_segment(HjgRun *run, HjgKeyBuffer *buffer)
{
	HjgKeySegment *segment = hjg_keys_next_segment(run, buffer);
	const bool	shared = is_shared(run, buffer);
	size_t		bytes = 0;

	/* a caller that fills many segments comes here after each */
	CHECK_FOR_INTERRUPTS();
	segment->keys = NULL;
	segment->slab_ix = HJG_NO_SLAB;
	segment->has_payload = false;
	if (hjg_run_job_usable(run))
	{
		HjgReason	reason;

		segment->keys = hjg_job_slab(run->job, &segment->slab_ix, &reason);
		if (segment->keys == NULL)
			hjg_run_fall_back(run, reason);
		bytes = (size_t) run->key_width *
			hjg_input_rows((uint32) run->key_width,
						   run->payload.bytes[buffer == &run->build ? HJG_SIDE_BUILD : HJG_SIDE_PROBE]);
	}
	if (shared)
		run->share->next_range(run->share, segment, &bytes);
	else if (segment->keys == NULL)
	{
		bytes = buffer->nsegments == 0 ? FIRST_SEGMENT_BYTES :
			Min(buffer->bytes, LAST_SEGMENT_BYTES);
		bytes = Max(bytes, FIRST_SEGMENT_BYTES);
		segment->slab_ix = HJG_NO_SLAB;
		segment->keys = MemoryContextAlloc(run->context, bytes);
	}
	segment->nrows = 0;
	segment->capacity = (uint32) (bytes / run->key_width);
	if (!shared)
		segment->first_row = buffer->nrows;
	buffer->bytes += bytes;
	buffer->nsegments++;
}

void
hjg_keys_append(HjgRun *run, HjgKeyBuffer *buffer, const char *keys, uint32 nrows)
{
	while (nrows > 0)
	{
		HjgKeySegment *to = buffer->nsegments > 0 ? &buffer->segments[buffer->nsegments - 1] : NULL;
		uint32		n;

		if (to == NULL || to->nrows == to->capacity)
		{
			hjg_keys_add_segment(run, buffer);
			to = &buffer->segments[buffer->nsegments - 1];
		}
		n = Min(nrows, to->capacity - to->nrows);
		memcpy(to->keys + (size_t) to->nrows * run->key_width, keys, (size_t) n * run->key_width);
		to->nrows += n;
		buffer->nrows += n;
		keys += (size_t) n * run->key_width;
		nrows -= n;
	}
}

void
hjg_keys_keep(HjgRun *run, HjgKeyBuffer *buffer)
{
	for (int i = 0; i < buffer->nsegments; i++)
	{
		HjgKeySegment *segment = &buffer->segments[i];
		const size_t bytes = (size_t) segment->nrows * run->key_width;
		char	   *keys;

		if (segment->slab_ix >= HJG_NOT_OURS)
			continue;
		CHECK_FOR_INTERRUPTS();
		keys = MemoryContextAlloc(run->context, Max(bytes, 1));
		memcpy(keys, segment->keys, bytes);
		segment->keys = keys;
		segment->slab_ix = HJG_NO_SLAB;
		segment->capacity = segment->nrows;
		segment->has_payload = false;
	}
	buffer->has_payload = false;
}

void
hjg_keys_empty(const HjgRun *run, HjgKeyBuffer *buffer)
{
	const bool	shared = is_shared(run, buffer);

	for (int i = 0; i < buffer->nsegments; i++)
		if (buffer->segments[i].slab_ix == HJG_NO_SLAB && !shared)
			pfree(buffer->segments[i].keys);
	buffer->nsegments = 0;
	buffer->nrows = 0;
	buffer->bytes = 0;
}

HjgSegment *
hjg_keys_segments(const HjgKeyBuffer *buffer)
{
	HjgSegment *segments = palloc(Max(buffer->nsegments, 1) * sizeof(HjgSegment));

	for (int i = 0; i < buffer->nsegments; i++)
		segments[i] = (HjgSegment) {.keys = buffer->segments[i].keys, .nrows = buffer->segments[i].nrows,
			.first_row = buffer->segments[i].first_row};
	return segments;
}
