/*
 * device_cpu_ranks.c
 *	  Hash tables of a program that need no hashes, on the processor's threads: of one key whose values are close together.
 *
 * A bit for each possible value says whether it is there, and the number of bits before it, its rank, where its record is.  So a look-up
 * reads 16 bytes for 64 values, and one that finds nothing nothing else; records lie in the order of their keys, without these, and rows
 * in about the same order find them side by side.
 *
 * Threads set bits and append their rows to chunks of their own.  Then the bits are counted, and the rows go to their places.
 */
#include <string.h>

#include "device/hjg_cpu_program.h"

/* Most possible values for a row that is expected: less memory than hashes need. */
#define MOST_VALUES 256
#define LEAST_ROWS 4096

#define CHUNK_ROWS 1024

/* Rows of a table while it is filled: of each its key, NULLs and payload. */
typedef struct RankedRows
{
	HjgCpuRanks *ranks;
	hjg_u64    *rows;
	hjg_u32    *counts;			/* rows of each chunk */
	hjg_u32		nchunks;
	hjg_u32		next_chunk;		/* atomic */
	hjg_u32		row_words;
	hjg_u32		unique;
} RankedRows;

/* ---- filling ---- */

/* Set bits of a word; returns flags. */
static hjg_u32
set_bits(const RankedRows *ranked, hjg_u64 word, hjg_u64 bits)
{
	const hjg_u64 old = __atomic_fetch_or(&ranked->ranks->words[word].bits, bits, __ATOMIC_RELAXED);

	return ranked->unique && (old & bits) != 0 ? HJG_K_KEY_TWICE : 0;
}

/* Set the bits of rows whose distances from the least key are known; those of one word that follow each other at once. */
static hjg_u32
set_all_bits(const RankedRows *ranked, const hjg_u64 *distances, hjg_u32 n)
{
	hjg_u32		flags = 0;

	for (hjg_u32 i = 0; i < n;)
	{
		const hjg_u64 word = distances[i] / 64;
		hjg_u64		bits = 0;

		for (; i < n && distances[i] / 64 == word; i++)
		{
			const hjg_u64 bit = 1ull << distances[i] % 64;

			flags |= ranked->unique && (bits & bit) != 0 ? HJG_K_KEY_TWICE : 0;
			bits |= bit;
		}
		flags |= set_bits(ranked, word, bits);
	}
	return flags;
}

/* Find the distances of the keys from the least one; rows with NULL are left out. Returns flags. */
static hjg_u32
find_distances(const HjgKPipeline *a, const HjgCpuRanks *ranks, HjgCpuRows *rows, hjg_u32 *n)
{
	const int64_t *keys = rows->regs[a->keys[0]];
	const hjg_u32 mask = rows->nullable & 1u << a->keys[0];
	hjg_u64		greatest = 0;

	*n = 0;
	for (hjg_u32 i = 0; i < rows->n; i++)
	{
		const hjg_u64 distance = (hjg_u64) keys[i] - (hjg_u64) ranks->least;
		const bool	isnull = (rows->nulls[i] & mask) != 0;

		rows->hashes[*n] = distance;
		rows->chosen[*n] = (hjg_u16) i;
		*n += !isnull;
		greatest = !isnull && distance > greatest ? distance : greatest;
	}
	return greatest < ranks->nvalues ? 0 : HJG_K_KEY_UNBOUNDED;
}

/* Append a row to the worker's chunk; false if there is none left. */
static bool
append_row(RankedRows *ranked, HjgCpuChunk *chunk, const HjgKPipeline *a, const HjgCpuRows *rows, hjg_u32 i, hjg_u64 distance)
{
	hjg_u64    *row;

	if (chunk->nrows == CHUNK_ROWS || !chunk->taken)
	{
		const hjg_u32 number = __atomic_fetch_add(&ranked->next_chunk, 1, __ATOMIC_RELAXED);

		if (number >= ranked->nchunks)
			return false;
		*chunk = (HjgCpuChunk) {.taken = true, .number = number};
	}
	row = ranked->rows + ((size_t) chunk->number * CHUNK_ROWS + chunk->nrows++) * ranked->row_words;
	ranked->counts[chunk->number] = chunk->nrows;
	row[0] = distance;
	row[1] = 0;
	for (hjg_u32 v = 0; v < a->nvalues; v++)
	{
		const hjg_u32 reg = a->values[v].reg;

		row[1] |= (hjg_u64) ((rows->nulls[i] & rows->nullable) >> reg & 1) << v;
		row[2 + v] = (hjg_u64) rows->regs[reg][i];
	}
	return true;
}

hjg_u32
hjg_device_fill_ranks(void *arg, const HjgKPipeline *a, HjgCpuChunk *chunk, HjgCpuRows *rows)
{
	RankedRows *ranked = arg;
	hjg_u32		n;
	hjg_u32		flags = find_distances(a, ranked->ranks, rows, &n);

	if (flags == 0)
		flags = set_all_bits(ranked, rows->hashes, n);
	for (hjg_u32 i = 0; i < n && flags == 0 && a->nvalues > 0; i++)
		if (!append_row(ranked, chunk, a, rows, rows->chosen[i], rows->hashes[i]))
			flags = HJG_K_TABLE_FULL;
	return flags;
}

/* ---- ranks ---- */

/* Count the bits before each word; returns how many there are. */
static hjg_u64
count_bits(HjgCpuRanks *ranks)
{
	hjg_u64		n = 0;

	for (hjg_u64 w = 0; w < ranks->nvalues / 64 + 1; w++)
	{
		ranks->words[w].before = n;
		n += (hjg_u64) __builtin_popcountll(ranks->words[w].bits);
	}
	return n;
}

/* Put the rows of a chunk in their places. */
static void
place_rows(void *arg, int number, int worker)
{
	const RankedRows *ranked = arg;
	const HjgCpuRanks *ranks = ranked->ranks;
	const hjg_u64 *row = ranked->rows + (size_t) number * CHUNK_ROWS * ranked->row_words;

	for (hjg_u32 i = 0; i < ranked->counts[number]; i++, row += ranked->row_words)
		memcpy(ranks->records + hjg_device_rank(ranks, row[0]) * ranks->record_words, row + 1, ranks->record_words * sizeof(hjg_u64));
}

/* ---- a table ---- */

void
hjg_device_free_ranks(HjgMachineRun *run, HjgCpuRanks *ranks)
{
	if (ranks->words != NULL)
		run->machine->free(run, (hjg_u64) (size_t) ranks->words, ranks->words_bytes);
	if (ranks->records != NULL)
		run->machine->free(run, (hjg_u64) (size_t) ranks->records, ranks->records_bytes);
	*ranks = (HjgCpuRanks) {0};
}

/* Allocate memory. */
static HjgStatus
alloc_words(HjgMachineRun *run, size_t bytes, hjg_u64 **words)
{
	hjg_u64		at;
	const HjgStatus status = run->machine->alloc(run, bytes, &at);

	*words = HJG_PROGRAM_AT(hjg_u64, at);
	return status;
}

/* Fill the ranks, with memory for the rows. */
static HjgStatus
fill_rows(HjgMachineRun *run, RankedRows *ranked, HjgKPipeline *args, const HjgKPiece *pieces, hjg_u32 npieces, hjg_u32 *flags)
{
	HjgCpuRanks *ranks = ranked->ranks;
	hjg_u64    *words;
	hjg_u32		nchunks;

	memset(ranked->counts, 0, ranked->nchunks * sizeof(hjg_u32));
	TRY(alloc_words(run, ranks->words_bytes, &words));
	ranks->words = (HjgCpuRankWord *) words;
	TRY(run->machine->zero(run, (hjg_u64) (size_t) words, ranks->words_bytes));
	TRY(hjg_device_launch_ranks(run, ranked, args, pieces, npieces, flags));
	if (*flags != 0)
		return HJG_OK;
	ranks->records_bytes = count_bits(ranks) * ranks->record_words * sizeof(hjg_u64);
	if (args->nvalues == 0)
		return HJG_OK;
	TRY(alloc_words(run, ranks->records_bytes, &ranks->records));
	nchunks = ranked->next_chunk < ranked->nchunks ? ranked->next_chunk : ranked->nchunks;
	hjg_pool_run(run->env->pool, (int) nchunks, place_rows, ranked);
	return HJG_OK;
}

bool
hjg_device_may_rank(const HjgProgramTable *table, hjg_u64 nrows)
{
	const hjg_u64 distance = (hjg_u64) table->greatest_key - (hjg_u64) table->least_key;

	/* of rows with the same key there is one, but not always the first one */
	return table->has_bounds && (table->unique || table->npayload == 0) &&
		distance / MOST_VALUES < (nrows > LEAST_ROWS ? nrows : LEAST_ROWS);
}

HjgStatus
hjg_device_make_ranks(HjgMachineRun *run, const HjgProgramTable *table, HjgCpuRanks *ranks, HjgKPipeline *args, hjg_u64 nrows,
					  const HjgKPiece *pieces, hjg_u32 npieces, hjg_u32 *flags)
{
	const hjg_u64 nvalues = (hjg_u64) table->greatest_key - (hjg_u64) table->least_key + 1;
	/* each worker may leave a chunk that is not full */
	RankedRows	ranked = {
		.ranks = ranks, .nchunks = (hjg_u32) (nrows / CHUNK_ROWS) + 1 + (hjg_u32) hjg_pool_nthreads(run->env->pool), .row_words = 2 + table->npayload,
		.unique = table->unique
	};
	const size_t rows_bytes = table->npayload > 0 ? (size_t) ranked.nchunks * CHUNK_ROWS * ranked.row_words * sizeof(hjg_u64) : 0;
	const size_t counts_bytes = ranked.nchunks * sizeof(hjg_u32);
	hjg_u64		counts;
	HjgStatus	status;

	*ranks = (HjgCpuRanks) {
		.least = table->least_key, .nvalues = nvalues, .record_words = 1 + table->npayload, .words_bytes = (nvalues / 64 + 1) * sizeof(HjgCpuRankWord)
	};
	TRY(run->machine->alloc(run, counts_bytes, &counts));
	ranked.counts = HJG_PROGRAM_AT(hjg_u32, counts);
	status = alloc_words(run, rows_bytes, &ranked.rows);
	if (status == HJG_OK)
	{
		status = fill_rows(run, &ranked, args, pieces, npieces, flags);
		run->machine->free(run, (hjg_u64) (size_t) ranked.rows, rows_bytes);
	}
	run->machine->free(run, counts, counts_bytes);
	if (status != HJG_OK || *flags != 0)
		hjg_device_free_ranks(run, ranks);
	return status;
}
