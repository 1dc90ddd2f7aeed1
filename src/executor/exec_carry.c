/*
 * exec_carry.c
 *	  Early materialisation: which columns travel with the keys, and how they get there.
 *
 * A side's columns go together or not at all: they lie side by side in the row store, so that fetching one of
 * them by row number costs as much as fetching all.  They go as they lie there, so all of
 * them must be passed by value, and none may be NULL: NULL bits stay in the store, and
 * who has to look at those gains nothing from columns that come another way.  What is decided for good is only
 * what fits; a load, or a batch, whose rows turn out to have a NULL is materialised late.
 */
#include "postgres.h"

#include "base/hjg_base.h"
#include "executor/hjg_run.h"

static uint32
bytes_of(const HjgSide *side)
{
	int			bytes = hjg_store_plain_bytes(side->ncarried, side->columns);

	return bytes % HJG_CARRIED_UNIT == 0 && bytes <= HJG_MAX_CARRIED_BYTES ? (uint32) bytes : 0;
}

HjgCarried
hjg_carry_choose(const HjgSide *outer, const HjgSide *inner)
{
	HjgCarried	carried = {{0}};

	if (hjg_materialization == HJG_MATERIALIZATION_EARLY)
	{
		carried.bytes[HJG_SIDE_BUILD] = bytes_of(inner);
		carried.bytes[HJG_SIDE_PROBE] = bytes_of(outer);
	}
	return carried;
}

void
hjg_carry_fill(const HjgRun *run, HjgSideId side, HjgKeyBuffer *buffer, const HjgStore *rows)
{
	const uint32 bytes = run->carried.bytes[side];
	const size_t off = hjg_input_carried_off((uint32) run->key_width, bytes);
	bool		all = bytes > 0;

	for (int i = 0; i < buffer->nsegments && all; i++)
	{
		HjgKeySegment *segment = &buffer->segments[i];

		all = segment->slab_ix < HJG_NOT_OURS &&
			hjg_store_copy_rows(rows, segment->first_row, segment->nrows, segment->keys + off);
	}
	/* the device takes all or none of them */
	for (int i = 0; i < buffer->nsegments; i++)
		buffer->segments[i].carried = all;
	buffer->carried = all;
}
