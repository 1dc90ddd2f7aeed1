/*
 * kept_evict.c
 *	  Memory of the store of kept columns: makes its head, and drops segments to make room.
 *
 * When memory is short, a hand goes over the segments of all tables as a clock does: it drops a segment that was not used since it
 * came by, a few times for one that is used often. A scan may move the hand by a small part of its table's segments only, so that
 * a table which is larger than the store does not push itself out again and again.
 */
#include "postgres.h"

#include "kept/hjg_kept.h"
#include "kept/hjg_kept_memory.h"
#include "kept/hjg_kept_store.h"

HjgKeptStore *hjg_kept_store = NULL;

/* Take over the head of a new memory file, or forget that of the old one (NULL). */
static void
set_store(void *head, int tranche)
{
	static uint64 nstores = 0;	/* that the postmaster has made; each has numbers of its own for columns */

	hjg_kept_store = head;
	if (hjg_kept_store != NULL)
	{
		LWLockInitialize(&hjg_kept_store->lock, tranche);
		pg_atomic_init_u32(&hjg_kept_store->distrusted, 0);
		pg_atomic_init_u64(&hjg_kept_store->last_id, nstores++ << 48);
	}
}

void
hjg_kept_init(int size_mb)
{
	hjg_kept_memory_init(size_mb, sizeof(HjgKeptStore), set_store);
}

/* ---------- dropping segments ---------- */

void
hjg_kept_free_segment(dsa_pointer place)
{
	HjgKeptSegment *segment = hjg_kept_address(place);

	for (int c = 0; c < segment->ncolumns; c++)
		if (DsaPointerIsValid(segment->columns[c].place))
			hjg_kept_free(segment->columns[c].place, segment->columns[c].nbytes);
	hjg_kept_free(place, hjg_kept_segment_bytes(segment->max_columns));
}

void
hjg_kept_unlink_segment(HjgKeptTable *table, uint32 place)
{
	dsa_pointer *segments = hjg_kept_segments_of(table);
	const dsa_pointer unlinked = segments[place];
	HjgKeptSegment *segment = hjg_kept_address(unlinked);

	segments[place] = InvalidDsaPointer;
	table->nkept--;
	if (pg_atomic_read_u32(&segment->pins) == 0)
		hjg_kept_free_segment(unlinked);
	else
	{
		segment->next_orphan = hjg_kept_store->orphans;
		hjg_kept_store->orphans = unlinked;
	}
}

bool
hjg_kept_free_orphans(int most)
{
	dsa_pointer *link = &hjg_kept_store->orphans;
	bool		freed = false;

	for (int i = 0; i < most && DsaPointerIsValid(*link); i++)
	{
		const dsa_pointer place = *link;
		HjgKeptSegment *segment = hjg_kept_address(place);

		if (pg_atomic_read_u32(&segment->pins) > 0)
			link = &segment->next_orphan;
		else
		{
			*link = segment->next_orphan;
			hjg_kept_free_segment(place);
			freed = true;
		}
	}
	return freed;
}

void
hjg_kept_drop_table(HjgKeptTable *table)
{
	for (uint32 i = 0; i < table->nsegments; i++)
		if (DsaPointerIsValid(hjg_kept_segments_of(table)[i]))
			hjg_kept_unlink_segment(table, i);
	if (table->nsegments > 0)
		hjg_kept_free(table->segments, table->nsegments * sizeof(dsa_pointer));
	table->file = hjg_kept_store->files[table - hjg_kept_store->tables] = InvalidOid;
}

/* Move the hand to the next segment; false if there is none. */
static bool
move_hand(void)
{
	for (uint32 i = 0; i <= hjg_kept_store->ntables; i++)
	{
		const HjgKeptTable *table = &hjg_kept_store->tables[hjg_kept_store->hand_table];

		if (OidIsValid(table->file))
			while (++hjg_kept_store->hand_segment < table->nsegments)
				if (DsaPointerIsValid(hjg_kept_segments_of(table)[hjg_kept_store->hand_segment]))
					return true;
		hjg_kept_store->hand_table = (hjg_kept_store->hand_table + 1) % hjg_kept_store->ntables;
		hjg_kept_store->hand_segment = (uint32) -1;
	}
	return false;
}

/* Drop a segment that was not used lately; false if the hold has moved the hand far enough without finding one. */
static bool
drop_unused(HjgKeptHold *hold)
{
	if (hjg_kept_free_orphans(INT_MAX))
		return true;
	while (hold->steps_left > 0 && move_hand())
	{
		HjgKeptTable *table = &hjg_kept_store->tables[hjg_kept_store->hand_table];
		HjgKeptSegment *segment = hjg_kept_address(hjg_kept_segments_of(table)[hjg_kept_store->hand_segment]);
		const uint32 recent = pg_atomic_read_u32(&segment->recent);

		hold->steps_left--;
		if (recent > 0)
			pg_atomic_write_u32(&segment->recent, recent - 1);
		else if (pg_atomic_read_u32(&segment->pins) == 0)
		{
			hjg_kept_unlink_segment(table, hjg_kept_store->hand_segment);
			return true;
		}
	}
	return false;
}

dsa_pointer
hjg_kept_allocate(HjgKeptHold *hold, Size nbytes)
{
	dsa_pointer place;
	bool		again;

	for (;;)
	{
		place = hjg_kept_memory_take(nbytes, &again);
		if (DsaPointerIsValid(place) || !again)
			return place;
		LWLockAcquire(&hjg_kept_store->lock, LW_EXCLUSIVE);
		again = drop_unused(hold);
		LWLockRelease(&hjg_kept_store->lock);
		if (!again)
			return InvalidDsaPointer;
	}
}
