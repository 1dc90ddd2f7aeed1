/*
 * stub_resident.c
 *	  The kernels of resident joins (cuda_table.cu, cuda_packed.cu, cuda_partition.cu,
 *	  cuda_copartition.cu) and of splits (cuda_split.cu) as plain loops with the same result, except for
 *	  the order of rows and pairs.
 *
 * The output of benchmarks and wide rows are not emulated.
 */
#include <stdlib.h>
#include <string.h>

#include "hjg_stub_kernels.h"
#include "hjg_table_steps.h"
#include "lab/hjg_cuda_paper_args.h"

/* ---- table, direct ---- */

static void
fill_table(const Launch *launch)
{
	const HjgKTable *table = &ARG(HjgKTable, 0);

	hjg_u32    *flags = AT(hjg_u32, table->flags);
	const int	width = launch->width;

	for (hjg_u32 i = 0; i < table->build.nrows; i++)
		*flags |= hjg_table_insert(width, AT(hjg_u64, table->slots), table->nsectors, AT(void, table->build.keys),
								   mixed_at(width, table->build.keys, i), width == 4 ? row_at(&table->build, i) : i, flags);
}

static void
probe_table(const Launch *launch)
{
	const HjgKTable *table = &ARG(HjgKTable, 0);

	for (hjg_u32 i = 0; i < table->probe.nrows; i++)
	{
		const HjgCsrKey key = mixed_at(launch->width, table->probe.keys, i);
		hjg_u32		at;

		hjg_table_find(launch->width, 1, AT(const hjg_u64, table->slots), table->nsectors, AT(void, table->build.keys), &key,
					   1, &at);
		put_row(&table->output, table->mode, row_at(&table->probe, i),
				launch->width == 4 || at == HJG_NO_ROW ? at : row_at(&table->build, at));
	}
}

static void
find_range(const Launch *launch)
{
	const HjgKDirect *direct = &ARG(HjgKDirect, 0);
	hjg_u64    *range = AT(hjg_u64, direct->range);

	for (hjg_u32 i = 0; i < direct->build.nrows; i++)
	{
		const hjg_u64 key = hjg_step_load(launch->width, AT(void, direct->build.keys), i).high;

		range[0] = key < range[0] ? key : range[0];
		range[1] = key > range[1] ? key : range[1];
	}
}

static void
fill_direct(const Launch *launch)
{
	const HjgKDirect *direct = &ARG(HjgKDirect, 0);

	for (hjg_u32 i = 0; i < direct->build.nrows; i++)
	{
		hjg_u32    *slot = AT(hjg_u32, direct->slots) +
			(hjg_step_load(launch->width, AT(void, direct->build.keys), i).high - direct->least);

		if (*slot != HJG_NO_ROW)
			*AT(hjg_u32, direct->flags) = HJG_K_REPEATED;
		*slot = row_at(&direct->build, i);
	}
}

static void
probe_direct(const Launch *launch)
{
	const HjgKDirect *direct = &ARG(HjgKDirect, 0);

	for (hjg_u32 i = 0; i < direct->probe.nrows; i++)
	{
		const hjg_u64 slot = hjg_step_load(launch->width, AT(void, direct->probe.keys), i).high - direct->least;

		put_row(&direct->output, direct->mode, row_at(&direct->probe, i),
				slot < direct->nslots ? AT(hjg_u32, direct->slots)[slot] : HJG_NO_ROW);
	}
}

/* ---- packed ---- */

static hjg_u32
region_of(const HjgKPacked *packed, HjgCsrKey mixed)
{
	return (hjg_u32) (mixed.high * packed->nregions >> 32);
}

/* Check which rows have room, without ordering them. */
static void
spread_packed(const Launch *launch)
{
	const HjgKPacked *packed = &ARG(HjgKPacked, 0);

	for (hjg_u32 i = 0; i < packed->build.nrows; i++)
	{
		const HjgCsrKey key = mixed_at(launch->width, packed->build.keys, i);
		const hjg_u32 region = region_of(packed, key);
		const hjg_u32 at = AT(hjg_u32, packed->cursors)[region]++;

		if (at >= packed->region_rows || row_at(&packed->build, i) >> packed->row_bits != 0)
			*AT(hjg_u32, packed->flags) |= HJG_K_NO_ROOM;
		else
			AT(hjg_u64, packed->spread)[(hjg_u64) region * packed->region_rows + at] = key.high;
	}
}

/*
 * Find the word of a key, or the first empty one.  A region is emulated by words with positions in the
 * build side.
 */
static hjg_u32 *
find_word(const HjgKPacked *packed, int width, HjgCsrKey key)
{
	const hjg_u64 nwords = (packed->region_sectors + packed->spare_sectors) * 8ull;
	hjg_u32    *words = AT(hjg_u32, packed->sectors) + region_of(packed, key) * nwords;

	for (hjg_u64 at = key.high % nwords;; at = (at + 1) % nwords)
		if (words[at] == HJG_NO_ROW || hjg_step_equal(width, mixed_at(width, packed->build.keys, words[at]), key))
			return &words[at];
}

static void
fill_packed(const Launch *launch)
{
	const HjgKPacked *packed = &ARG(HjgKPacked, 0);

	memset(AT(void, packed->sectors), 0xFF, (size_t) packed->nregions * (packed->region_sectors + packed->spare_sectors) * 32);
	/* rows without room in a region would not find words either */
	if (*AT(hjg_u32, packed->flags) & HJG_K_NO_ROOM)
		return;
	for (hjg_u32 i = 0; i < packed->build.nrows; i++)
	{
		hjg_u32    *word = find_word(packed, launch->width, mixed_at(launch->width, packed->build.keys, i));

		if (*word != HJG_NO_ROW)
			*AT(hjg_u32, packed->flags) |= HJG_K_REPEATED;
		else
			*word = i;
	}
}

static void
probe_packed(const Launch *launch)
{
	const HjgKPacked *packed = &ARG(HjgKPacked, 0);

	if ((*AT(hjg_u32, packed->flags) & packed->unsuited) != 0)
	{
		AT(hjg_u64, packed->output.counters)[0] = ~0ull;
		return;
	}
	for (hjg_u32 i = 0; i < packed->probe.nrows; i++)
	{
		const hjg_u32 at = *find_word(packed, launch->width, mixed_at(launch->width, packed->probe.keys, i));

		put_row(&packed->output, packed->mode, row_at(&packed->probe, i), at == HJG_NO_ROW ? at : row_at(&packed->build, at));
	}
}

/* ---- partitions ---- */

static void
count_keys(const Launch *launch)
{
	const HjgKCount *count = &ARG(HjgKCount, 0);

	for (hjg_u32 i = 0; i < count->side.nrows; i++)
		AT(hjg_u32, count->counts)[top_of(launch->width, mixed_at(launch->width, count->side.keys, i)) >> (32 - count->bits)]++;
}

static hjg_u32
pieces_of(const HjgKParts *parts, hjg_u32 p, hjg_u32 limit)
{
	return (AT(hjg_u32, parts->last)[p] - AT(hjg_u32, parts->first)[p] + limit - 1) / limit;
}

static void
list_units(const HjgKUnits *units)
{
	hjg_u32		n = 0;

	for (hjg_u32 p = 0; p < 1u << units->bits; p++)
	{
		const hjg_u32 build = pieces_of(&units->build, p, units->build_limit);

		AT(hjg_u32, units->unit_first)[p] = n;
		n += (units->lonely && build == 0 ? 1 : build) * pieces_of(&units->probe, p, units->probe_limit);
	}
	AT(hjg_u32, units->unit_first)[1u << units->bits] = n;
}

static void
place_parts(const Launch *launch)
{
	const HjgKPlace *place = &ARG(HjgKPlace, 0);
	const hjg_u32 pad = (1u << place->align_bits) - 1;
	hjg_u32    *largest = AT(hjg_u32, place->largest);
	hjg_u32		at = 0;

	for (hjg_u32 p = 0; p < 1u << place->bits; p++)
	{
		const hjg_u32 n = AT(hjg_u32, place->counts)[p];

		if (place->coarse != 0 && (p & ((1u << place->fine_bits) - 1)) == 0)
			AT(hjg_u32, place->coarse)[p >> place->fine_bits] = at;
		AT(hjg_u32, place->parts.first)[p] = AT(hjg_u32, place->up)[p] = at;
		AT(hjg_u32, place->parts.last)[p] = AT(hjg_u32, place->down)[p] = at + n;
		at += (n + pad) & ~pad;
		*largest = n > *largest ? n : *largest;
	}
	if (place->units.unit_first != 0)
		list_units(&place->units);
}

static void
scatter_rows(const Launch *launch)
{
	const HjgKScatter *scatter = &ARG(HjgKScatter, 0);

	for (hjg_u32 i = 0; i < scatter->side.nrows; i++)
	{
		const HjgCsrKey key = mixed_at(launch->width, scatter->side.keys, i);
		hjg_u32    *cursor = AT(hjg_u32, scatter->up) +
			(top_of(launch->width, key) >> scatter->shift & ((1u << scatter->bits) - 1));

		put_tuple(launch->width, &scatter->out, (*cursor)++, key, row_at(&scatter->side, i));
	}
}

/* Run the scatter for 4-byte keys, the only ones that are aligned. */
static void
scatter_aligned(const Launch *launch)
{
	Launch		of_four = *launch;

	of_four.width = HJG_KEY_WIDTH_4;
	scatter_rows(&of_four);
}

static void
list_tiles(const Launch *launch)
{
	const HjgKTiles *list = &ARG(HjgKTiles, 0);
	HjgKTile   *tiles = AT(HjgKTile, list->tiles);
	hjg_u32		n = 0;

	for (hjg_u32 p = 0; p < 1u << list->coarse_bits; p++)
	{
		const hjg_u32 end = AT(hjg_u32, list->ends)[p];

		for (hjg_u32 at = AT(hjg_u32, list->parts.first)[p << list->fine_bits]; at < end; at += list->tile_rows)
			tiles[n++] = (HjgKTile) {.first = at, .nrows = end - at < list->tile_rows ? end - at : list->tile_rows, .part = p};
	}
	*AT(hjg_u32, list->ntiles) = n;
}

static void
scatter_again(const Launch *launch)
{
	const HjgKScatter *scatter = &ARG(HjgKScatter, 0);

	for (hjg_u32 t = 0; t < *AT(hjg_u32, scatter->ntiles); t++)
	{
		const HjgKTile *tile = &AT(HjgKTile, scatter->tiles)[t];

		for (hjg_u32 i = tile->first; i < tile->first + tile->nrows; i++)
		{
			hjg_u32		row;
			const HjgCsrKey key = get_tuple(launch->width, &scatter->in, i, &row);
			hjg_u32    *cursor = AT(hjg_u32, scatter->up) + (tile->part << scatter->bits) +
				(top_of(launch->width, key) >> scatter->shift & ((1u << scatter->bits) - 1));

			put_tuple(launch->width, &scatter->out, (*cursor)++, key, row);
		}
	}
}

#define HEADS 65536

static hjg_u32
head_of(HjgCsrKey key)
{
	return (hjg_u32) ((key.high ^ key.low) * 0x9E3779B97F4A7C15ull >> 48);
}

/* Join one partition, with chains through its build rows. */
static void
join_part(const HjgKJoin *join, int width, hjg_u32 p, hjg_u32 *heads, hjg_u32 *next)
{
	const hjg_u32 first = AT(hjg_u32, join->units.build.first)[p];
	const bool	any = join->mode == HJG_MATCH_SEMI || join->mode == HJG_MATCH_ANTI;
	hjg_u32		row;

	memset(heads, 0xFF, HEADS * sizeof(hjg_u32));
	for (hjg_u32 j = first; j < AT(hjg_u32, join->units.build.last)[p]; j++)
	{
		hjg_u32    *head = &heads[head_of(get_tuple(width, &join->build, j, &row))];

		next[j] = *head;
		*head = j;
	}
	for (hjg_u32 i = AT(hjg_u32, join->units.probe.first)[p]; i < AT(hjg_u32, join->units.probe.last)[p]; i++)
	{
		hjg_u32		probe_row;
		const HjgCsrKey key = get_tuple(width, &join->probe, i, &probe_row);
		hjg_u32		match = HJG_NO_ROW;

		for (hjg_u32 j = heads[head_of(key)]; j != HJG_NO_ROW && !(any && match != HJG_NO_ROW); j = next[j])
		{
			if (!hjg_step_equal(width, get_tuple(width, &join->build, j, &row), key))
				continue;
			match = row;
			if (!any)
				put_pair(&join->output, probe_row, row);
		}
		if (any || match == HJG_NO_ROW)
			put_row(&join->output, join->mode, probe_row, match);
	}
}

static void
join_parts(const Launch *launch)
{
	const HjgKJoin *join = &ARG(HjgKJoin, 0);
	const hjg_u32 last = (1u << join->units.bits) - 1;
	hjg_u32    *heads = malloc(HEADS * sizeof(hjg_u32));
	hjg_u32    *next = malloc(((size_t) AT(hjg_u32, join->units.build.last)[last] + 1) * sizeof(hjg_u32));

	for (hjg_u32 p = 0; p <= last; p++)
		join_part(join, launch->width, p, heads, next);
	free(heads);
	free(next);
}

/* ---- splits ---- */

static hjg_u32
digit_at(const HjgKSplit *split, int width, hjg_u32 i)
{
	return (hjg_u32) mixed_at(width, split->side.keys, i).high & ((1u << split->bits) - 1);
}

static void
count_digits(const Launch *launch)
{
	const HjgKSplit *split = &ARG(HjgKSplit, 0);

	for (hjg_u32 i = 0; i < split->side.nrows; i++)
		AT(hjg_u32, split->counts)[digit_at(split, launch->width, i)]++;
}

static void
split_rows(const Launch *launch)
{
	const HjgKSplit *split = &ARG(HjgKSplit, 0);

	for (hjg_u32 i = 0; i < split->side.nrows; i++)
	{
		const hjg_u32 part = digit_at(split, launch->width, i);
		const hjg_u32 to = split->base[part] + AT(hjg_u32, split->cursors)[part]++;

		hjg_step_store(launch->width, AT(void, split->out.keys), to, hjg_step_load(launch->width, AT(void, split->side.keys), i));
		AT(hjg_u32, split->out.rows)[to] = split->side.rows != 0 ? row_at(&split->side, i) : split->first_row + i;
	}
}

static void
post_counts(const Launch *launch)
{
	memcpy(MEMORY(hjg_u32, 1), MEMORY(hjg_u32, 0), ARG(hjg_u32, 2) * sizeof(hjg_u32));
}

const StubKernel hjg_stub_resident[] = {
	{"hjg_k_count_digits", count_digits, false},
	{"hjg_k_count_keys", count_keys, false},
	{"hjg_k_fill_direct", fill_direct, false},
	{"hjg_k_fill_packed", fill_packed, false},
	{"hjg_k_fill_table", fill_table, false},
	{"hjg_k_find_range", find_range, false},
	{"hjg_k_join_halved", join_parts, false},
	{"hjg_k_join_packed", join_parts, false},
	{"hjg_k_join_parts", join_parts, false},
	{"hjg_k_list_tiles", list_tiles, true},
	{"hjg_k_place_parts", place_parts, true},
	{"hjg_k_post_counts", post_counts, true},
	{"hjg_k_probe_direct", probe_direct, false},
	{"hjg_k_probe_packed", probe_packed, false},
	{"hjg_k_probe_table", probe_table, false},
	{"hjg_k_scatter_again", scatter_again, false},
	{"hjg_k_scatter_aligned", scatter_aligned, true},
	{"hjg_k_scatter_rows", scatter_rows, false},
	{"hjg_k_split_rows", split_rows, false},
	{"hjg_k_spread_packed", spread_packed, false},
	{NULL, NULL, false}
};
