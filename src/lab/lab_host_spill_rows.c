/*
 * lab_host_spill_rows.c
 *	  Chooses the partitions of a join that stay on the device, and the places of the rows that leave
 *	  it.
 *
 * The choice is made after the first chunk of the build side was counted, assuming that the others are
 * like it; see lab_host_spill.c.
 */
#include <stdlib.h>
#include <string.h>

#include "lab/hjg_cuda_spill.h"
#include "lab/hjg_lab_stream.h"

#define MARGIN 1024				/* divisor of the part of a set that is left free for differences from the
								 * first chunk */

/* ---- what leaves ---- */

/* Add a piece of nrows rows, with places in the spill memory. */
static HjgCudaPiece *
add_piece(HjgCudaSpilling *spill, HjgCudaPieces *pieces, hjg_u64 nrows)
{
	HjgCudaSpill *spec = spill->spec;
	const size_t keys_bytes = hjg_lab_spill_aligned(nrows * (size_t) spec->join.key_width);
	const size_t rows_bytes = hjg_lab_spill_aligned(nrows * sizeof(hjg_u32));
	HjgCudaPiece *piece;

	if (keys_bytes + rows_bytes > spec->memory_bytes - spec->spilled_bytes)
		return NULL;
	if (pieces->n == pieces->max)
	{
		const int	max = pieces->max == 0 ? 64 : pieces->max * 2;
		HjgCudaPiece *more = realloc(pieces->pieces, (size_t) max * sizeof(HjgCudaPiece));

		if (more == NULL)
			return NULL;
		pieces->pieces = more;
		pieces->max = max;
	}
	piece = &pieces->pieces[pieces->n++];
	memset(piece, 0, sizeof(*piece));
	piece->keys = spec->memory + spec->spilled_bytes;
	piece->rows = (const hjg_u32 *) (piece->keys + keys_bytes);
	spec->spilled_bytes += keys_bytes + rows_bytes;
	return piece;
}

HjgStatus
hjg_lab_spill_split(HjgCudaSpilling *spill, const HjgCudaSide *side, hjg_u64 first_row, const hjg_u64 *counts,
					 HjgCudaPieces *pieces, hjg_u64 *nstay)
{
	HjgCudaPiece *piece;
	HjgStatus	status = hjg_lab_split_rows(&spill->split, side, first_row, counts, spill->behind);

	*nstay = 0;
	for (int p = 0; p < hjg_lab_spill_parts(spill); p++)
		*nstay += spill->behind[p] ? 0 : counts[p];
	if (status != HJG_OK || *nstay == side->nrows)
		return status;
	piece = add_piece(spill, pieces, side->nrows - *nstay);
	if (piece == NULL)
		return HJG_ERR_MEMORY;
	for (int p = 0; p < hjg_lab_spill_parts(spill); p++)
		piece->counts[p] = spill->behind[p] ? (hjg_u32) counts[p] : 0;
	return hjg_lab_split_send(&spill->split, *nstay, side->nrows - *nstay, (void *) piece->keys, (hjg_u32 *) piece->rows);
}

HjgStatus
hjg_lab_spill_keep(HjgCudaSpilling *spill, hjg_u64 at, hjg_u64 nstay)
{
	const size_t width = (size_t) spill->spec->join.key_width;
	const HjgCudaSide *from = &spill->split.rows[spill->split.turn];
	const HjgCudaSide *store = &spill->passes.builds[0];
	HjgStatus	status = hjg_lab_copy_within(&spill->streams->work, store->keys + at * width, from->keys, nstay * width);

	if (status == HJG_OK)
		status = hjg_lab_copy_within(&spill->streams->work, store->rows + at * sizeof(hjg_u32), from->rows, nstay * sizeof(hjg_u32));
	return status;
}

/* ---- what stays ---- */

/* Estimate the build rows of a partition in the end, if later rows are like those counted. */
static hjg_u64
expected_part_rows(const HjgCudaSpilling *spill, int p)
{
	const double rows = (double) spill->seen[p] * (double) spill->spec->join.build.nrows / (double) spill->nseen;

	return rows > (double) spill->seen[p] ? (hjg_u64) rows : spill->seen[p];
}

/* Choose the first set, from the first chunk's counts. */
static void
choose_first(HjgCudaSpilling *spill)
{
	const hjg_u64 capacity = spill->spec->set_rows - spill->spec->set_rows / MARGIN;
	hjg_u64		rows[HJG_CUDA_MOST_PARTS];
	HjgCudaSets sets;

	for (int p = 0; p < hjg_lab_spill_parts(spill); p++)
		rows[p] = expected_part_rows(spill, p);
	hjg_lab_pack_sets(rows, hjg_lab_spill_parts(spill), capacity, &sets);
	for (int p = 0; p < hjg_lab_spill_parts(spill); p++)
		spill->behind[p] = sets.set_of[p] != 0;
}

/* Choose the smallest staying partition with at least too_many rows, or else the largest. */
static int
choose_victim(const HjgCudaSpilling *spill, hjg_u64 too_many)
{
	int			victim = -1;

	for (int p = 0; p < hjg_lab_spill_parts(spill); p++)
	{
		const hjg_u64 rows = expected_part_rows(spill, p);
		const hjg_u64 best = victim < 0 ? 0 : expected_part_rows(spill, victim);

		if (!spill->behind[p] && spill->seen[p] > 0 && (victim < 0 || (best < too_many ? rows > best : rows >= too_many && rows < best)))
			victim = p;
	}
	return victim;
}

/* Split the rows that stayed again, by the current `behind`. */
static HjgStatus
evict_rows(HjgCudaSpilling *spill)
{
	const size_t width = (size_t) spill->spec->join.key_width;
	HjgCudaSide *store = &spill->passes.builds[0];
	hjg_u64		kept = 0;
	HjgStatus	status = HJG_OK;

	for (hjg_u64 row = 0; row < store->nrows && status == HJG_OK; row += spill->spec->join.chunk_rows)
	{
		const hjg_u64 left = store->nrows - row;
		const HjgCudaSide side = {
			.keys = store->keys + row * width, .rows = store->rows + row * sizeof(hjg_u32),
			.nrows = left < spill->spec->join.chunk_rows ? left : spill->spec->join.chunk_rows
		};
		hjg_u64		counts[HJG_CUDA_MOST_PARTS];
		hjg_u64		nstay = 0;

		status = hjg_lab_split_count(&spill->split, &side, counts);
		if (status == HJG_OK)
			status = hjg_lab_spill_split(spill, &side, 0, counts, &spill->build, &nstay);
		if (status == HJG_OK)
			status = hjg_lab_spill_keep(spill, kept, nstay);
		kept += nstay;
	}
	store->nrows = kept;
	return status;
}

HjgStatus
hjg_lab_spill_make_room(HjgCudaSpilling *spill, const hjg_u64 *counts)
{
	const hjg_u64 set_rows = spill->spec->set_rows;
	hjg_u64		nrows = spill->passes.builds[0].nrows;
	hjg_u64		expected = 0;
	bool		first = spill->nseen == 0;

	for (int p = 0; p < hjg_lab_spill_parts(spill); p++)
	{
		spill->seen[p] += counts[p];
		spill->nseen += counts[p];
	}
	if (first && spill->spec->join.build.nrows > set_rows)
		choose_first(spill);
	for (int p = 0; p < hjg_lab_spill_parts(spill); p++)
	{
		nrows += spill->behind[p] ? 0 : counts[p];
		expected += spill->behind[p] ? 0 : expected_part_rows(spill, p);
	}
	if (nrows <= set_rows)
		return HJG_OK;
	/* the counted rows are never fewer than those that need room */
	while (expected > set_rows)
	{
		const int	victim = choose_victim(spill, expected - set_rows);

		if (victim < 0)
			break;
		spill->behind[victim] = true;
		expected -= expected_part_rows(spill, victim);
		spill->spec->nevicted++;
	}
	return evict_rows(spill);
}

void
hjg_lab_spill_pack(HjgCudaSpilling *spill)
{
	hjg_u64		rows[HJG_CUDA_MOST_PARTS];
	HjgCudaSets sets;
	int			other = -1;		/* the set of a spilled partition with rows */

	for (int p = 0; p < hjg_lab_spill_parts(spill); p++)
		rows[p] = spill->behind[p] ? spill->seen[p] : 0;
	hjg_lab_pack_sets(rows, hjg_lab_spill_parts(spill), spill->spec->set_rows, &sets);
	for (int p = 0; p < hjg_lab_spill_parts(spill); p++)
	{
		spill->set_of[p] = spill->behind[p] ? sets.set_of[p] + 1 : 0;
		if (spill->behind[p])
			other = spill->set_of[p];
	}
	spill->passes.nsets = other < 0 ? 1 : sets.nsets + 1;
	if (spill->passes.builds[0].nrows > 0)
		return;
	/* nothing stayed, so no join would process rows without a match there: put them into another set */
	for (int p = 0; p < hjg_lab_spill_parts(spill); p++)
		if (!spill->behind[p])
		{
			spill->behind[p] = true;
			spill->set_of[p] = other;
		}
}
