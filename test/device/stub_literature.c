/*
 * stub_literature.c
 *	  Kernels of the joins of the literature (cuda_nop.cu, cuda_sort.cu, cuda_merge_join.cu,
 *	  cuda_histogram.cu, cuda_chains.cu) as plain loops with the same structures in memory: tables,
 *	  runs, counters, chains.
 *
 * Checksums are not emulated.
 */
#include <stdlib.h>
#include <string.h>

#include "hjg_stub_kernels.h"
#include "lab/hjg_cuda_paper_args.h"

/* ---- without partitions ---- */

static hjg_u32
home_of(int width, HjgCsrKey mixed, hjg_u32 nslots)
{
	return (hjg_u32) ((hjg_u64) top_of(width, mixed) * nslots >> 32);
}

static void
insert_chains(const Launch *launch)
{
	const HjgKNop *nop = &ARG(HjgKNop, 0);

	for (hjg_u32 i = 0; i < nop->build.nrows; i++)
	{
		hjg_u32    *head = &AT(hjg_u32, nop->heads)[home_of(launch->width, mixed_at(launch->width, nop->build.keys, i), nop->nslots)];

		AT(hjg_u32, nop->next)[i] = *head;
		*head = i;
	}
}

static void
measure_chains(const Launch *launch)
{
	const HjgKNop *nop = &ARG(HjgKNop, 0);

	for (hjg_u32 slot = 0; slot < nop->nslots; slot++)
	{
		hjg_u32		n = 0;

		for (hjg_u32 at = AT(hjg_u32, nop->heads)[slot]; at != HJG_NO_ROW; at = AT(hjg_u32, nop->next)[at])
			n++;
		if (n > HJG_K_NOP_MOST_LINKS)
			*AT(hjg_u32, nop->crowded) = 1;
	}
}

static void
insert_slots(const Launch *launch)
{
	const HjgKNop *nop = &ARG(HjgKNop, 0);

	for (hjg_u32 i = 0; i < nop->build.nrows; i++)
	{
		hjg_u32		at = home_of(launch->width, mixed_at(launch->width, nop->build.keys, i), nop->nslots);
		hjg_u32		steps = 0;

		while ((hjg_u32) AT(hjg_u64, nop->slots)[at] != HJG_NO_ROW && ++steps <= HJG_K_NOP_MOST_STEPS)
			at = (at + 1) % nop->nslots;
		if (steps > HJG_K_NOP_MOST_STEPS)
		{
			*AT(hjg_u32, nop->crowded) = 1;
			return;
		}
		AT(hjg_u64, nop->slots)[at] = i;
	}
}

/* Find the next position after at (HJG_NO_ROW: the first) for a key with this home; *slot advances. */
static hjg_u32
next_position(const HjgKNop *nop, hjg_u32 home, hjg_u32 at, hjg_u32 *slot)
{
	if (nop->heads != 0)
		return at == HJG_NO_ROW ? AT(hjg_u32, nop->heads)[home] : AT(hjg_u32, nop->next)[at];
	*slot = at == HJG_NO_ROW ? home : (*slot + 1) % nop->nslots;
	return (hjg_u32) AT(hjg_u64, nop->slots)[*slot];
}

static void
probe_nop(const Launch *launch)
{
	const HjgKNop *nop = &ARG(HjgKNop, 0);

	for (hjg_u32 i = 0; i < nop->probe.nrows; i++)
	{
		const HjgCsrKey key = mixed_at(launch->width, nop->probe.keys, i);
		const hjg_u32 home = home_of(launch->width, key, nop->nslots);
		hjg_u32		slot = 0;
		bool		found = false;

		for (hjg_u32 at = next_position(nop, home, HJG_NO_ROW, &slot); at != HJG_NO_ROW; at = next_position(nop, home, at, &slot))
		{
			if (!hjg_step_equal(launch->width, mixed_at(launch->width, nop->build.keys, at), key))
				continue;
			found = true;
			if (nop->mode != HJG_MATCH_ANTI)
				put_pair(&nop->sink.output, row_at(&nop->probe, i), row_at(&nop->build, at));
			if (!wants_several(nop->mode))
				break;
		}
		if (!found && wants_lonely(nop->mode))
			put_pair(&nop->sink.output, row_at(&nop->probe, i), HJG_NO_ROW);
	}
}

/* ---- sort and merge join ---- */

/* Compute the rows of a tile, as in hjg_cuda_merge.h. */
static hjg_u32
tile_of(int width)
{
	return width == HJG_KEY_WIDTH_16 ? 1024 : 2048;
}

typedef struct Tuple
{
	HjgCsrKey	key;
	hjg_u32		row;
} Tuple;

static int
compare_tuples(const void *a, const void *b)
{
	const Tuple *x = a;
	const Tuple *y = b;

	if (hjg_step_less(x->key, y->key) || hjg_step_less(y->key, x->key))
		return hjg_step_less(x->key, y->key) ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* Write rows in ascending runs of `run` rows each. */
static void
put_runs(int width, Tuple *tuples, hjg_u32 nrows, hjg_u32 run, const HjgKRows *out)
{
	for (hjg_u32 first = 0; first < nrows; first += run)
	{
		const hjg_u32 n = nrows - first < run ? nrows - first : run;

		qsort(tuples + first, n, sizeof(Tuple), compare_tuples);
		for (hjg_u32 i = first; i < first + n; i++)
			put_tuple(width, out, i, tuples[i].key, tuples[i].row);
	}
}

static void
sort_tiles(const Launch *launch)
{
	const HjgKSortTiles *sort = &ARG(HjgKSortTiles, 0);
	Tuple	   *tuples = malloc((sort->side.nrows + (size_t) 1) * sizeof(Tuple));

	for (hjg_u32 i = 0; i < sort->side.nrows; i++)
		tuples[i] = (Tuple) {mixed_at(launch->width, sort->side.keys, i), row_at(&sort->side, i)};
	put_runs(launch->width, tuples, sort->side.nrows, tile_of(launch->width), &sort->out);
	free(tuples);
}

/* Write a number for each tile, as the device does; the emulated merge does not use them. */
static void
find_paths(const Launch *launch)
{
	const HjgKMerge *merge = &ARG(HjgKMerge, 0);

	for (hjg_u32 t = 0; t * tile_of(launch->width) < merge->nrows; t++)
		AT(hjg_u32, merge->paths)[t] = 0;
}

static void
merge_runs(const Launch *launch)
{
	const HjgKMerge *merge = &ARG(HjgKMerge, 0);
	Tuple	   *tuples = malloc((merge->nrows + (size_t) 1) * sizeof(Tuple));

	for (hjg_u32 i = 0; i < merge->nrows; i++)
		tuples[i].key = get_tuple(launch->width, &merge->in, i, &tuples[i].row);
	put_runs(launch->width, tuples, merge->nrows, 2 * merge->width, &merge->out);
	free(tuples);
}

static void
find_meetings(const Launch *launch)
{
	const HjgKMergeJoin *join = &ARG(HjgKMergeJoin, 0);
	const hjg_u32 tile = tile_of(launch->width);
	const hjg_u32 ntiles = (join->build_rows + join->probe_rows + tile - 1) / tile;

	for (hjg_u32 t = 0; t <= ntiles; t++)
		AT(hjg_u32, join->paths)[t] = 0;
}

/* Count the build rows below a probe row, or below and equal. */
static hjg_u32
rows_below(int width, const HjgKMergeJoin *join, hjg_u32 probe, bool equal)
{
	hjg_u32		row;
	const HjgCsrKey key = get_tuple(width, &join->probe, probe, &row);
	hjg_u32		low = 0;
	hjg_u32		high = join->build_rows;

	while (low < high)
	{
		const hjg_u32 mid = low + (high - low) / 2;
		const HjgCsrKey at = get_tuple(width, &join->build, mid, &row);

		if (equal ? !hjg_step_less(key, at) : hjg_step_less(at, key))
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void
count_below(const Launch *launch)
{
	const HjgKMergeJoin *join = &ARG(HjgKMergeJoin, 0);

	for (hjg_u32 i = 0; i < join->probe_rows; i++)
		AT(hjg_u32, join->below)[i] = rows_below(launch->width, join, i, false);
}

static void
count_matches(const Launch *launch)
{
	const HjgKMergeJoin *join = &ARG(HjgKMergeJoin, 0);

	for (hjg_u32 i = 0; i < join->probe_rows; i++)
	{
		const hjg_u32 n = rows_below(launch->width, join, i, true) - AT(hjg_u32, join->below)[i];

		AT(hjg_u64, join->offsets)[i] = join->mode == HJG_MATCH_ALL ? n : join->mode == HJG_MATCH_ANTI ? n == 0 :
			n == 0 ? join->mode == HJG_MATCH_LEFT : join->mode == HJG_MATCH_SEMI ? 1 : n;
	}
}

static void
write_matches(const Launch *launch)
{
	const HjgKMergeJoin *join = &ARG(HjgKMergeJoin, 0);
	const hjg_u64 *offsets = AT(hjg_u64, join->offsets);

	AT(hjg_u64, join->output.counters)[0] = offsets[join->probe_rows];
	if (offsets[join->probe_rows] > join->output.capacity)
		return;
	for (hjg_u32 i = 0; i < join->probe_rows; i++)
		for (hjg_u64 place = offsets[i]; place < offsets[i + 1]; place++)
		{
			const hjg_u32 at = AT(hjg_u32, join->below)[i] + (hjg_u32) (place - offsets[i]);
			HjgPair    *pair = &AT(HjgPair, join->output.pairs)[place];
			HjgCsrKey	key = get_tuple(launch->width, &join->probe, i, &pair->probe_row);

			pair->build_row = HJG_NO_ROW;
			if (at < join->build_rows && join->mode != HJG_MATCH_ANTI)
			{
				hjg_u32		row;

				if (hjg_step_equal(launch->width, get_tuple(launch->width, &join->build, at, &row), key))
					pair->build_row = row;
			}
		}
}

/* ---- histograms ---- */

static hjg_u32
start_of(const HjgKPass *pass, hjg_u32 p)
{
	return pass->starts == 0 ? p * pass->nrows : AT(hjg_u32, pass->starts)[p];
}

static void
list_stretches(const Launch *launch)
{
	const HjgKPass *pass = &ARG(HjgKPass, 0);
	hjg_u32    *firsts = AT(hjg_u32, pass->firsts);
	hjg_u32		n = 0;

	for (hjg_u32 p = 0; p < pass->nparts; p++)
	{
		const hjg_u32 end = start_of(pass, p + 1);

		firsts[p] = n;
		for (hjg_u32 at = start_of(pass, p); at < end; at += pass->stretch_rows)
			AT(HjgKStretch, pass->stretches)[n++] = (HjgKStretch) {
				.first = at, .nrows = end - at < pass->stretch_rows ? end - at : pass->stretch_rows, .before = firsts[p]
			};
		for (hjg_u32 t = firsts[p]; t < n; t++)
			AT(HjgKStretch, pass->stretches)[t].nstretches = n - firsts[p];
	}
	firsts[pass->nparts] = n;
	*AT(hjg_u32, pass->nstretches) = n;
}

/* Get row i of the pass's input. */
static HjgCsrKey
row_of(const HjgKPass *pass, int width, hjg_u32 i, hjg_u32 *row)
{
	if (pass->side.keys == 0)
		return get_tuple(width, &pass->in, i, row);
	*row = row_at(&pass->side, i);
	return mixed_at(width, pass->side.keys, i);
}

/* Find the counter of row i of stretch t: workers take rows in turn. */
static hjg_u64 *
counter_of(const HjgKPass *pass, const HjgKStretch *s, hjg_u32 t, hjg_u32 i, hjg_u32 digit, hjg_u64 *counts)
{
	return &counts[(((hjg_u64) s->before << pass->bits) + (hjg_u64) digit * s->nstretches + (t - s->before)) * pass->workers +
				   i % pass->workers];
}

static void
count_digits(const Launch *launch)
{
	const HjgKPass *pass = &ARG(HjgKPass, 0);
	hjg_u32		row;

	for (hjg_u32 t = 0; t < *AT(hjg_u32, pass->nstretches); t++)
	{
		const HjgKStretch *s = &AT(HjgKStretch, pass->stretches)[t];

		for (hjg_u32 i = 0; i < s->nrows; i++)
		{
			const HjgCsrKey key = row_of(pass, launch->width, s->first + i, &row);
			const hjg_u32 digit = top_of(launch->width, key) >> pass->shift & ((1u << pass->bits) - 1);

			(*counter_of(pass, s, t, i, digit, AT(hjg_u64, pass->counts)))++;
		}
	}
}

static void
scatter_digits(const Launch *launch)
{
	const HjgKPass *pass = &ARG(HjgKPass, 0);
	const hjg_u32 nstretches = *AT(hjg_u32, pass->nstretches);
	const size_t bytes = ((size_t) nstretches << pass->bits) * pass->workers * sizeof(hjg_u64);
	hjg_u64    *places = malloc(bytes + 1);

	/* the sums must not change */
	memcpy(places, AT(hjg_u64, pass->counts), bytes);
	for (hjg_u32 t = 0; t < nstretches; t++)
	{
		const HjgKStretch *s = &AT(HjgKStretch, pass->stretches)[t];

		for (hjg_u32 i = 0; i < s->nrows; i++)
		{
			hjg_u32		row;
			const HjgCsrKey key = row_of(pass, launch->width, s->first + i, &row);
			const hjg_u32 digit = top_of(launch->width, key) >> pass->shift & ((1u << pass->bits) - 1);

			put_tuple(launch->width, &pass->out, (hjg_u32) (*counter_of(pass, s, t, i, digit, places))++, key, row);
		}
	}
	free(places);
}

static hjg_u32
new_start(const HjgKPass *pass, hjg_u32 p)
{
	const hjg_u32 coarse = p >> pass->bits;
	const hjg_u32 *firsts = AT(hjg_u32, pass->firsts);

	if (p == pass->nparts << pass->bits)
		return pass->nrows;
	return (hjg_u32) AT(hjg_u64, pass->counts)[(((hjg_u64) firsts[coarse] << pass->bits) +
		(hjg_u64) (p & ((1u << pass->bits) - 1)) * (firsts[coarse + 1] - firsts[coarse])) * pass->workers];
}

static void
find_starts(const Launch *launch)
{
	const HjgKPass *pass = &ARG(HjgKPass, 0);

	for (hjg_u32 p = 0; p <= pass->nparts << pass->bits; p++)
	{
		AT(hjg_u32, pass->new_starts)[p] = new_start(pass, p);
		if (pass->sizes != 0 && p < pass->nparts << pass->bits)
			AT(hjg_u32, pass->sizes)[p] = new_start(pass, p + 1) - new_start(pass, p);
	}
}

/* ---- chains ---- */

static void
begin_chains(const Launch *launch)
{
	const HjgKChains *chains = &ARG(HjgKChains, 0);

	for (hjg_u32 p = 0; p < 1u << chains->all_bits; p++)
	{
		AT(hjg_u64, chains->cursors)[p] = HJG_K_CURSOR(p, p, 0);
		AT(hjg_u32, chains->nfull)[p] = 0;
		AT(hjg_u32, chains->owner)[p] = p;
	}
	*AT(hjg_u32, chains->used) = 1u << chains->all_bits;
}

/* Add a row to its partition's chain; a bucket that is full is followed by another from the pool at once. */
static void
add_to_chain(const HjgKChains *chains, int width, HjgCsrKey key, hjg_u32 row)
{
	const hjg_u32 part = top_of(width, key) >> (32 - chains->all_bits);
	hjg_u64    *cursor = &AT(hjg_u64, chains->cursors)[part];
	hjg_u32		bucket = HJG_K_CURSOR_OPEN(*cursor);
	hjg_u32		n = HJG_K_CURSOR_ROWS(*cursor);

	put_tuple(width, &chains->out, (bucket << chains->bucket_bits) + n, key, row);
	if (++n == 1u << chains->bucket_bits)
	{
		AT(hjg_u32, chains->ordinal)[bucket] = AT(hjg_u32, chains->nfull)[part]++;
		bucket = (*AT(hjg_u32, chains->used))++;
		AT(hjg_u32, chains->owner)[bucket] = part;
		n = 0;
	}
	*cursor = HJG_K_CURSOR(bucket, bucket, n);
}

static void
scatter_chains(const Launch *launch)
{
	const HjgKChains *chains = &ARG(HjgKChains, 0);
	const hjg_u32 size = 1u << chains->in_bucket_bits;

	for (hjg_u32 i = 0; chains->side.keys != 0 && i < chains->side.nrows; i++)
		add_to_chain(chains, launch->width, mixed_at(launch->width, chains->side.keys, i), chains->side.rows != 0 ? row_at(&chains->side, i) : chains->first_row + i);
	for (hjg_u32 b = 0; chains->side.keys == 0 && b < *AT(hjg_u32, chains->in_used); b++)
	{
		const hjg_u64 cursor = AT(hjg_u64, chains->in_cursors)[AT(hjg_u32, chains->in_owner)[b]];
		const hjg_u32 nrows = b == HJG_K_CURSOR_OPEN(cursor) ? HJG_K_CURSOR_ROWS(cursor) : size;

		for (hjg_u32 i = 0; i < nrows; i++)
		{
			hjg_u32		row;
			const HjgCsrKey key = get_tuple(launch->width, &chains->in, b * size + i, &row);

			add_to_chain(chains, launch->width, key, row);
		}
	}
}

static void
measure_parts(const Launch *launch)
{
	const HjgKChains *chains = &ARG(HjgKChains, 0);

	for (hjg_u32 p = 0; p < 1u << chains->all_bits; p++)
		AT(hjg_u32, chains->sizes)[p] = (AT(hjg_u32, chains->nfull)[p] << chains->bucket_bits) +
			HJG_K_CURSOR_ROWS(AT(hjg_u64, chains->cursors)[p]);
}

static void
list_pages(const Launch *launch)
{
	const HjgKChains *chains = &ARG(HjgKChains, 0);

	for (hjg_u32 b = 0; b < *AT(hjg_u32, chains->used); b++)
	{
		const hjg_u32 p = AT(hjg_u32, chains->owner)[b];
		const bool	full = b != HJG_K_CURSOR_OPEN(AT(hjg_u64, chains->cursors)[p]);
		const hjg_u32 ordinal = full ? AT(hjg_u32, chains->ordinal)[b] : AT(hjg_u32, chains->nfull)[p];

		if (full || HJG_K_CURSOR_ROWS(AT(hjg_u64, chains->cursors)[p]) > 0)
			AT(hjg_u32, chains->pages)[(AT(hjg_u32, chains->first)[p] >> chains->bucket_bits) + ordinal] = b;
	}
}

const StubKernel hjg_stub_literature[] = {
	{"hjg_k_begin_chains", begin_chains, true},
	{"hjg_k_count_below", count_below, false},
	{"hjg_k_count_digits_bsh", count_digits, false},
	{"hjg_k_count_digits_bsh_vt1", count_digits, false},
	{"hjg_k_count_digits_pth", count_digits, false},
	{"hjg_k_count_digits_wsh", count_digits, false},
	{"hjg_k_count_matches", count_matches, false},
	{"hjg_k_find_meetings", find_meetings, false},
	{"hjg_k_find_paths", find_paths, false},
	{"hjg_k_find_starts", find_starts, true},
	{"hjg_k_insert_chains", insert_chains, false},
	{"hjg_k_insert_slots", insert_slots, false},
	{"hjg_k_list_pages", list_pages, true},
	{"hjg_k_list_stretches", list_stretches, true},
	{"hjg_k_measure_chains", measure_chains, true},
	{"hjg_k_measure_parts", measure_parts, true},
	{"hjg_k_merge_runs", merge_runs, false},
	{"hjg_k_probe_chains", probe_nop, false},
	{"hjg_k_probe_slots", probe_nop, false},
	{"hjg_k_scatter_chains", scatter_chains, false},
	{"hjg_k_scatter_chains_full", scatter_chains, false},
	{"hjg_k_scatter_digits_bsh", scatter_digits, false},
	{"hjg_k_scatter_digits_bsh_vt1", scatter_digits, false},
	{"hjg_k_scatter_digits_pth", scatter_digits, false},
	{"hjg_k_scatter_digits_wsh", scatter_digits, false},
	{"hjg_k_sort_tiles", sort_tiles, false},
	{"hjg_k_write_matches", write_matches, false},
	{NULL, NULL, false}
};
