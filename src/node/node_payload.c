/*
 * node_payload.c
 *	  Early materialisation: which columns are sent with the keys, and how.
 *
 * A side's columns are sent together or not at all: they are contiguous in the row store, so fetching one by row number costs
 * as much as fetching all. They are sent as they are stored, so all of them must be passed by value and none may be NULL:
 * NULL bits stay in the store, and a reader that must look there gains nothing. A build pass or batch that has a NULL in
 * these columns is materialised late.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "base/hjg_base.h"
#include "node/hjg_run_private.h"

static uint32
payload_bytes_of(const HjgSide *side)
{
	int			bytes = hjg_rows_store_plain_bytes(side->payload.n, side->payload.columns);

	return bytes % HJG_PAYLOAD_UNIT == 0 && bytes <= HJG_MAX_PAYLOAD_BYTES ? (uint32) bytes : 0;
}

HjgPayloadBytes
hjg_payload_possible(const HjgSide *outer, const HjgSide *inner)
{
	HjgPayloadBytes	payload = {{0}};

	payload.bytes[HJG_SIDE_BUILD] = payload_bytes_of(inner);
	payload.bytes[HJG_SIDE_PROBE] = payload_bytes_of(outer);
	return payload;
}

/* Is the GPU expected to gather a side's columns faster than the backend? */
static bool
early_pays(const HjgJobHints *hints, const HjgUnitCosts *costs, HjgSideId side, double build_rows, int participants)
{
	double		bytes = hints->payload.bytes[side];
	double		probe_rows = hints->probe_rows;
	HjgPayloadSize size = {
		.row_bytes = bytes,
		.rows = side == HJG_SIDE_BUILD ? build_rows : probe_rows,
		/* a part of the build side has this part of the pairs */
		.pairs = hints->pairs * build_rows / Max(hints->build_rows, 1),
		/* a probe row is fetched soon after it was read, nearly in order */
		.store_bytes = side == HJG_SIDE_BUILD ? build_rows * bytes : 0,
		.busy = participants > 1
	};

	return hjg_model_cuda_early_ns(&costs->cuda, &size) < hjg_model_cuda_late_ns(&size);
}

HjgPayloadBytes
hjg_payload_choose(const HjgJobHints *hints, double build_rows, int participants)
{
	HjgPayloadBytes	payload = hints->payload;
	HjgUnitCosts costs;

	if (hjg_materialization == HJG_MATERIALIZATION_EARLY)
		return payload;
	hjg_planner_unit_costs(&costs, build_rows);
	for (int s = 0; s < HJG_SIDES; s++)
		if (hjg_materialization == HJG_MATERIALIZATION_LATE || !early_pays(hints, &costs, s, build_rows, participants))
			payload.bytes[s] = 0;
	return payload;
}

void
hjg_payload_fill(const HjgRun *run, HjgSideId side, HjgKeyBuffer *buffer, const HjgStore *rows)
{
	const uint32 bytes = run->payload.bytes[side];
	const size_t off = hjg_input_payload_off((uint32) run->key_width, bytes);
	bool		all = bytes > 0;

	for (int i = 0; i < buffer->nsegments && all; i++)
	{
		HjgKeySegment *segment = &buffer->segments[i];

		CHECK_FOR_INTERRUPTS();
		all = segment->slab_ix < HJG_NOT_OURS &&
			hjg_rows_store_copy_rows(rows, segment->first_row, segment->nrows, segment->keys + off);
	}
	/* the device takes the columns of all segments or of none */
	for (int i = 0; i < buffer->nsegments; i++)
		buffer->segments[i].has_payload = all;
	buffer->has_payload = all;
}
