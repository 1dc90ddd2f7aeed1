/*
 * engine_result.c
 *	  Moves pairs from the slots of a probe task into the result; see hjg_probe_internal.h.
 */
#include "arena/hjg_arena.h"
#include "engine/hjg_probe_internal.h"

static inline hjg_u32
chunk_pairs(const HjgProbeTask *probe, hjg_u64 chunk)
{
	hjg_u64		left;

	if (chunk >= probe->nchunks)
		return HJG_RESULT_CHUNK;
	left = probe->capacity - chunk * HJG_RESULT_CHUNK;
	return left < HJG_RESULT_CHUNK ? (hjg_u32) left : HJG_RESULT_CHUNK;
}

/* Copy n pairs to or from a place within a chunk; pages may end anywhere. */
static void
copy_chunk(const HjgProbeTask *probe, hjg_u64 chunk, hjg_u32 offset, HjgPair *pairs, hjg_u32 n, bool write)
{
	const HjgResult *result = probe->result;
	hjg_u64		pos = probe->base + chunk * HJG_RESULT_CHUNK + offset;
	hjg_u64		page;
	hjg_u32		in_page;

	if (chunk >= probe->nchunks)
	{
		HjgPair    *place = probe->spill + (chunk - probe->nchunks) * HJG_RESULT_CHUNK + offset;

		memcpy(write ? place : pairs, write ? pairs : place, sizeof(HjgPair) * n);
		return;
	}
	page = pos / result->page_pairs;
	in_page = (hjg_u32) (pos % result->page_pairs);
	while (n > 0)
	{
		hjg_u32		m = result->page_pairs - in_page < n ? result->page_pairs - in_page : n;
		HjgPair    *place = result->pages[page] + in_page;

		memcpy(write ? place : pairs, write ? pairs : place, sizeof(HjgPair) * m);
		pairs += m;
		n -= m;
		page++;
		in_page = 0;
	}
}

bool
hjg_engine_probe_write_out(HjgProbeTask *probe, HjgProbeSlot *slot, bool all)
{
	hjg_u32		done = 0;

	while (slot->npairs - done >= HJG_RESULT_CHUNK || (all && slot->npairs > done))
	{
		hjg_u32		n = slot->npairs - done;
		hjg_u64		chunk = __atomic_fetch_add(&probe->next_chunk, 1, __ATOMIC_RELAXED);
		hjg_u32		room;

		if (chunk >= probe->nclaimable)
		{
			__atomic_store_n(&probe->overflow, true, __ATOMIC_RELAXED);
			hjg_task_stop(&probe->task);
			return false;
		}
		room = chunk_pairs(probe, chunk);
		if (n < room)
		{
			slot->partial_chunk = chunk;
			slot->partial_fill = n;
		}
		else
			n = room;
		if (probe->result->sum)
			slot->checksum += hjg_check_sum(slot->buffer + done, n);
		copy_chunk(probe, chunk, 0, slot->buffer + done, n, true);
		done += n;
	}
	slot->npairs -= done;
	memmove(slot->buffer, slot->buffer + done, sizeof(HjgPair) * slot->npairs);
	return true;
}

hjg_u64
hjg_engine_probe_close_gaps(HjgProbeTask *probe, int nslots)
{
	HjgProbeSlot	   *partial[HJG_MAX_SLOTS]; /* by chunk */
	int			npartial = 0;
	int			first = 0;
	hjg_u64		nclaimed = probe->next_chunk;
	hjg_u64		total;

	if (nclaimed < probe->nchunks)
		total = nclaimed * HJG_RESULT_CHUNK;
	else
		total = probe->capacity + (nclaimed - probe->nchunks) * HJG_RESULT_CHUNK;
	for (int i = 0; i < nslots; i++)
	{
		HjgProbeSlot	   *slot = &probe->slots[i];
		int			j = npartial;

		if (slot->partial_fill == 0)
			continue;
		total -= chunk_pairs(probe, slot->partial_chunk) - slot->partial_fill;
		for (; j > 0 && partial[j - 1]->partial_chunk > slot->partial_chunk; j--)
			partial[j] = partial[j - 1];
		partial[j] = slot;
		npartial++;
	}
	if (total > probe->capacity)
		return total;

	for (hjg_u64 from = nclaimed; from-- > 0;)
	{
		bool		from_partial = npartial > first && partial[npartial - 1]->partial_chunk == from;
		hjg_u32		fill = from_partial ? partial[npartial - 1]->partial_fill : chunk_pairs(probe, from);

		while (fill > 0 && first < npartial && partial[first]->partial_chunk < from)
		{
			HjgProbeSlot	   *to = partial[first];
			hjg_u32		room = chunk_pairs(probe, to->partial_chunk) - to->partial_fill;
			hjg_u32		n = fill < room ? fill : room;
			HjgPair    *bounce = probe->slots[0].buffer;

			fill -= n;
			copy_chunk(probe, from, fill, bounce, n, false);
			copy_chunk(probe, to->partial_chunk, to->partial_fill, bounce, n, true);
			to->partial_fill += n;
			if (n == room)
				first++;
		}
		if (fill > 0)
			break;				/* all chunks before it are full */
		if (from_partial)
			npartial--;
	}
	return total;
}
