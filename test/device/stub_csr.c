/*
 * stub_csr.c
 *	  The emulated device: kernels of the bucket-sorted table (hjg_csr.h), and of what all joins of the
 *	  driver need besides their tables.
 *
 * Most call the step functions that also run on a device (kernels/hjg_csr_steps.h).
 */
#include <stdlib.h>
#include <string.h>

#include "hjg_stub_kernels.h"
#include "layout/hjg_checksum.h"

static void
mix_keys(const Launch *launch)
{
	void	   *keys = MEMORY(void, 0);

	for (hjg_u64 i = 0; i < ARG(hjg_u64, 1); i++)
		hjg_step_store(launch->width, keys, i, hjg_step_mix(launch->width, hjg_step_load(launch->width, keys, i)));
}

static void
number_rows(const Launch *launch)
{
	for (hjg_u64 i = 0; i < ARG(hjg_u64, 1); i++)
		MEMORY(hjg_u32, 0)[i] = ARG(hjg_u32, 2) + (hjg_u32) i;
}

static void
sort_count(const Launch *launch)
{
	const void *keys = MEMORY(void, 0);
	hjg_u64    *counts = MEMORY(hjg_u64, 3);

	memset(counts, 0, launch->nblocks * HJG_CSR_DIGITS * sizeof(hjg_u64));
	for (hjg_u64 i = 0; i < ARG(hjg_u64, 1); i++)
		counts[hjg_step_digit(hjg_step_load(launch->width, keys, i), ARG(HjgCsrDigit, 2)) * launch->nblocks +
			   i / HJG_CSR_TILE]++;
}

/* Scatter with a copy of the offsets as cursors: the device leaves the offsets unchanged. */
static void
sort_scatter(const Launch *launch)
{
	const size_t bytes = launch->nblocks * HJG_CSR_DIGITS * sizeof(hjg_u64);
	hjg_u64    *offsets = malloc(bytes);

	memcpy(offsets, MEMORY(hjg_u64, 6), bytes);
	for (hjg_u64 i = 0; i < ARG(hjg_u64, 4); i++)
	{
		const HjgCsrKey key = hjg_step_load(launch->width, MEMORY(void, 0), i);
		const hjg_u64 to = offsets[hjg_step_digit(key, ARG(HjgCsrDigit, 5)) * launch->nblocks + i / HJG_CSR_TILE]++;

		hjg_step_store(launch->width, MEMORY(void, 2), to, key);
		MEMORY(hjg_u32, 3)[to] = MEMORY(hjg_u32, 1)[i];
	}
	free(offsets);
}

static void
scan_blocks(const Launch *launch)
{
	hjg_u64    *data = MEMORY(hjg_u64, 0);
	hjg_u64		sum = 0;

	for (hjg_u64 i = 0; i < ARG(hjg_u64, 1); i++)
	{
		const hjg_u64 value = data[i];

		if (i % HJG_CSR_SCAN == 0)
			sum = 0;
		data[i] = sum;
		sum += value;
		MEMORY(hjg_u64, 2)[i / HJG_CSR_SCAN] = sum;
	}
}

static void
scan_add(const Launch *launch)
{
	for (hjg_u64 i = 0; i < ARG(hjg_u64, 1); i++)
		MEMORY(hjg_u64, 0)[i] += MEMORY(hjg_u64, 2)[i / HJG_CSR_SCAN];
}

static void
fill_starts(const Launch *launch)
{
	const hjg_u64 n = ARG(hjg_u64, 1);
	const hjg_u32 bits = ARG(hjg_u32, 2);
	hjg_u64		b = 0;

	for (hjg_u64 i = 0; i <= n; i++)
	{
		const hjg_u64 to = i == n ? (1ull << bits) + 1 :
			hjg_step_bucket(launch->width, hjg_step_load(launch->width, MEMORY(void, 0), i), bits) + 1ull;

		for (; b < to; b++)
			MEMORY(hjg_u32, 3)[b] = (hjg_u32) i;
	}
}

static void
check_buckets(const Launch *launch)
{
	const HjgCsrTable *table = &ARG(HjgCsrTable, 0);
	HjgCsrFacts *facts = MEMORY(HjgCsrFacts, 1);

	for (hjg_u64 b = 0; b < 1ull << table->bucket_bits; b++)
	{
		const hjg_u32 begin = table->start[b];
		const hjg_u32 end = table->start[b + 1];

		if (end - begin > facts->largest)
			facts->largest = end - begin;
		if (end - begin > HJG_CSR_HEAVY)
			continue;
		for (hjg_u32 i = begin; i < end; i++)
			for (hjg_u32 j = i + 1; j < end; j++)
				if (hjg_step_equal(launch->width, hjg_step_load(launch->width, table->keys, i),
								   hjg_step_load(launch->width, table->keys, j)))
					facts->duplicates = 1;
	}
}

static bool
at_most_one(int mode)
{
	return mode == HJG_MATCH_SEMI || mode == HJG_MATCH_ANTI;
}

static void
find(const Launch *launch)
{
	const hjg_u64 n = ARG(hjg_u64, 1);
	const int	mode = ARG(int, 3);

	for (hjg_u64 i = 0; i < n; i++)
	{
		const HjgCsrTable *table = &ARG(HjgCsrTable, 2);
		const HjgCsrKey key = hjg_step_mix(launch->width, hjg_step_load(launch->width, MEMORY(void, 0), i));
		hjg_u32    *first = &MEMORY(hjg_u32, 6)[i];

		MEMORY(hjg_u64, 5)[i] = hjg_step_slice(launch->width, table, ARG(HjgCsrSlice, 4), hjg_step_npairs(mode,
			hjg_step_find(launch->width, table, key, at_most_one(mode), first)), first);
	}
	MEMORY(hjg_u64, 5)[n] = 0;
}

static void
cut_window(const Launch *launch)
{
	*MEMORY(HjgCsrCut, 4) = hjg_step_cut(MEMORY(hjg_u64, 0), ARG(hjg_u64, 1), ARG(hjg_u64, 2), ARG(hjg_u64, 3));
}

static void
write_pairs(const Launch *launch)
{
	const hjg_u64 *offsets = MEMORY(hjg_u64, 1);
	const hjg_u64 begin = ARG(hjg_u64, 5);

	for (hjg_u64 i = 0; i < ARG(hjg_u64, 6); i++)
	{
		const hjg_u64 row = hjg_step_row_of(offsets, 0, ARG(hjg_u64, 3) - 1, begin + i);

		MEMORY(HjgPair, 7)[i] = (HjgPair) {ARG(hjg_u32, 4) + (hjg_u32) row,
			hjg_step_match(launch->width, &ARG(HjgCsrTable, 0), MEMORY(hjg_u32, 2)[row],
						   (hjg_u32) (begin + i - offsets[row]))};
	}
}

static void
probe_once(const Launch *launch)
{
	const HjgCsrTable *table = &ARG(HjgCsrTable, 2);
	hjg_u64    *npairs = MEMORY(hjg_u64, 6);

	for (hjg_u64 i = 0; i < ARG(hjg_u64, 1); i++)
	{
		const HjgCsrKey key = hjg_step_mix(launch->width, hjg_step_load(launch->width, MEMORY(void, 0), i));
		hjg_u32		first;

		if (hjg_step_npairs(ARG(int, 3), hjg_step_find(launch->width, table, key, 1, &first)) == 0)
			continue;
		MEMORY(HjgPair, 5)[(*npairs)++] = (HjgPair) {ARG(hjg_u32, 4) + (hjg_u32) i,
			first == HJG_NO_ROW ? HJG_NO_ROW : table->rows[first]};
	}
}

static void
name_rows(const Launch *launch)
{
	const hjg_u64 npairs = *MEMORY(hjg_u64, 1);

	for (hjg_u64 i = 0; i < npairs && npairs <= ARG(hjg_u64, 2); i++)
		MEMORY(HjgPair, 0)[i].probe_row = MEMORY(hjg_u32, 3)[MEMORY(HjgPair, 0)[i].probe_row];
}

static void
post_count(const Launch *launch)
{
	*MEMORY(hjg_u64, 1) = *MEMORY(hjg_u64, 0);
}

/* Gather columns; the width is that of an access and changes nothing. */
static void
gather_rows(const Launch *launch)
{
	const HjgKGather *gather = &ARG(HjgKGather, 0);
	const size_t bytes = gather->nwords * sizeof(hjg_u32);

	for (hjg_u64 i = 0; i < gather->npairs; i++)
	{
		const HjgPair *pair = (const HjgPair *) (size_t) gather->pairs + i;
		const hjg_u32 row = (gather->build ? pair->build_row : pair->probe_row) - gather->first_row;
		char	   *to = (char *) (size_t) gather->to + i * bytes;

		if (row < gather->nrows)
			memcpy(to, (const char *) (size_t) gather->from + row * bytes, bytes);
		else
			memset(to, 0, bytes);
	}
}

static void
sum_pairs(const Launch *launch)
{
	for (hjg_u64 i = 0; i < ARG(hjg_u64, 1); i++)
		MEMORY(hjg_u64, 2)[0] += hjg_checksum_pair(MEMORY(HjgPair, 0)[i].probe_row, MEMORY(HjgPair, 0)[i].build_row);
}

static void
sum_columns(const Launch *launch)
{
	const HjgKSumColumns *a = &ARG(HjgKSumColumns, 0);

	for (hjg_u32 i = 0; i < a->npairs; i++)
		for (hjg_u32 w = 0; w < a->nwords; w++)
		{
			const hjg_u32 page_ix = a->first_page + (a->in_page + i) / a->page_pairs;
			const hjg_u32 row = (a->in_page + i) % a->page_pairs;

			AT(hjg_u64, a->sums)[1] += hjg_checksum_at(hjg_checksum_place(page_ix, (HjgSideId) a->side) + row * a->nwords + w,
													   AT(hjg_u32, a->words)[(size_t) i * a->nwords + w]);
		}
}

const StubKernel hjg_stub_csr[] = {
	{"hjg_k_check_buckets", check_buckets, false},
	{"hjg_k_cut_window", cut_window, true},
	{"hjg_k_fill_starts", fill_starts, false},
	{"hjg_k_find", find, false},
	{"hjg_k_gather_rows", gather_rows, false},
	{"hjg_k_mix_keys", mix_keys, false},
	{"hjg_k_name_rows", name_rows, true},
	{"hjg_k_number_rows", number_rows, true},
	{"hjg_k_post_count", post_count, true},
	{"hjg_k_probe_once", probe_once, false},
	{"hjg_k_scan_add", scan_add, true},
	{"hjg_k_scan_blocks", scan_blocks, true},
	{"hjg_k_sort_count", sort_count, false},
	{"hjg_k_sort_scatter", sort_scatter, false},
	{"hjg_k_sum_columns", sum_columns, true},
	{"hjg_k_sum_pairs", sum_pairs, true},
	{"hjg_k_write_pairs", write_pairs, false},
	{NULL, NULL, false}
};
