/*
 * device_chain.c
 *	  Walks the chains of slabs that an operation names: its inputs, and the pages for its results.
 *
 * A backend writes the chains, and may write them while they are read: each number is read once and bounded.
 */
#include <stdlib.h>

#include "device/hjg_chain.h"

static int
compare_inputs(const void *a, const void *b)
{
	hjg_u32		x = ((const HjgInput *) a)->first_row;
	hjg_u32		y = ((const HjgInput *) b)->first_row;

	return x < y ? -1 : x > y;
}

/*
 * Walk a chain of at most room slabs of this owner.  Returns the count, or room + 1 when the chain is
 * longer or unsound.
 */
static hjg_u32
walk_chain(const HjgArenaView *view, hjg_u32 ref, hjg_u64 owner, hjg_u32 *slab_ixs, hjg_u32 room)
{
	hjg_u32		n = 0;

	while (ref != 0)
	{
		if (ref > 2 * view->nslabs || n >= room ||
			__atomic_load_n(&view->slabs[ref - 1].owner, __ATOMIC_ACQUIRE) != owner)
			return room + 1;
		slab_ixs[n++] = ref - 1;
		ref = __atomic_load_n(&view->slabs[ref - 1].next_ref, __ATOMIC_RELAXED);
	}
	return n;
}

bool
hjg_device_chain_inputs(const HjgArenaView *view, const HjgOp *op, hjg_u64 owner, hjg_u32 key_width,
						hjg_u32 payload_bytes, HjgInput *inputs, hjg_u32 room, hjg_u32 *ninputs)
{
	const hjg_u32 slab_rows = hjg_input_rows(key_width, payload_bytes);
	const hjg_u32 payload_off = hjg_input_payload_off(key_width, payload_bytes);
	bool		all_have_payload = payload_bytes > 0;
	hjg_u32    *slab_ixs = malloc((room > 0 ? room : 1) * sizeof(hjg_u32));
	hjg_u64		nrows = 0;
	hjg_u32		n;

	if (slab_ixs == NULL)
		return false;
	n = walk_chain(view, __atomic_load_n(&op->input_ref, __ATOMIC_ACQUIRE), owner, slab_ixs, room);
	for (hjg_u32 i = 0; i < n && n <= room; i++)
	{
		const HjgSlab *slab = &view->slabs[slab_ixs[i]];

		inputs[i].keys = hjg_view_input(view, slab_ixs[i]);
		all_have_payload = all_have_payload && __atomic_load_n(&slab->has_payload, __ATOMIC_RELAXED) != 0;
		inputs[i].nrows = __atomic_load_n(&slab->nrows, __ATOMIC_RELAXED);
		inputs[i].first_row = __atomic_load_n(&slab->first_row, __ATOMIC_RELAXED);
		if (inputs[i].keys == NULL || inputs[i].nrows > slab_rows ||
			inputs[i].first_row > HJG_MAX_BUILD_ROWS - inputs[i].nrows)
			n = room + 1;
		else
			nrows += inputs[i].nrows;
	}
	free(slab_ixs);
	if (n > room || nrows != __atomic_load_n(&op->nrows, __ATOMIC_RELAXED))
		return false;
	for (hjg_u32 i = 0; i < n; i++)
		inputs[i].payload = all_have_payload ? (const char *) inputs[i].keys + payload_off : NULL;
	qsort(inputs, n, sizeof(HjgInput), compare_inputs);
	*ninputs = n;
	return true;
}

bool
hjg_device_chain_results(const HjgArenaView *view, const HjgOp *op, hjg_u64 owner,
						 HjgPair **pages, hjg_u32 room, hjg_u32 *npages)
{
	hjg_u32    *slab_ixs = malloc((room > 0 ? room : 1) * sizeof(hjg_u32));
	hjg_u32		n;

	if (slab_ixs == NULL)
		return false;
	n = walk_chain(view, __atomic_load_n(&op->result_ref, __ATOMIC_ACQUIRE), owner, slab_ixs, room);
	for (hjg_u32 i = 0; i < n && n <= room; i++)
	{
		pages[i] = hjg_view_result(view, slab_ixs[i]);
		if (pages[i] == NULL)
			n = room + 1;
	}
	free(slab_ixs);
	*npages = n;
	return n > 0 && n <= room;
}
