/*
 * device_cpu_ranks.c
 *	  Tables of a program that need no hashes, on the processor's threads: of one key whose values are close together.
 *
 * A bit for each possible value says whether it is there, and the number of bits before it, its rank, where its record is.  So a look-up
 * reads 16 bytes for 64 values, and one that finds nothing nothing else; records lie in the order of their keys, without these, and rows
 * in about the same order find them side by side.
 *
 * Hash tables: threads set bits and append their rows to chunks of their own.  Then the bits are counted, and the rows go to their places.
 *
 * Groups: rows come twice, first to set bits, then to be added to the records, of which there are exactly as many as groups.
 */
#include <stdlib.h>
#include <string.h>

#include "device/hjg_cpu_program.h"

/* Most possible values for a row that is expected: less memory than hashes need. */
#define MOST_VALUES 256
#define LEAST_ROWS 4096

#define CHUNK_ROWS 1024

/* Rows of a table while it is filled: of each its key, NULLs and payload. */
typedef struct RankedRows
{
	const HjgEnv *env;
	HjgCpuRanks *ranks;
	hjg_u64    *rows;
	hjg_u32    *counts;			/* rows of each chunk */
	hjg_u32		nchunks;
	hjg_u32		next_chunk;		/* atomic */
	hjg_u32		row_words;
	hjg_u32		unique;
	bool		has_null;		/* atomic: a row's key is NULL */
	bool		cancelled;		/* atomic */
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

/* Find the distances of the keys from the least one, of *n rows; those with NULL are left out. Returns flags. */
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

/* A sink of rows: set their bits, and append them if they have payload. */
static hjg_u32
append_ranked(void *arg, const HjgKPipeline *a, HjgCpuChunk *chunk, HjgCpuRows *rows)
{
	RankedRows *ranked = arg;
	hjg_u32		n;
	hjg_u32		flags = find_distances(a, ranked->ranks, rows, &n);

	if (flags == 0)
		flags = set_all_bits(ranked, rows->hashes, n);
	if (n < rows->n)
		__atomic_store_n(&ranked->has_null, true, __ATOMIC_RELAXED);
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
	RankedRows *ranked = arg;
	const HjgCpuRanks *ranks = ranked->ranks;
	const hjg_u64 *row = ranked->rows + (size_t) number * CHUNK_ROWS * ranked->row_words;

	if (hjg_device_stopped(ranked->env, &ranked->cancelled))
		return;
	for (hjg_u32 i = 0; i < ranked->counts[number]; i++, row += ranked->row_words)
		memcpy(ranks->records + hjg_device_rank(ranks, row[0]) * ranks->record_words, row + 1, ranks->record_words * sizeof(hjg_u64));
}

/* ---- hash tables ---- */

/* Allocate memory. */
static HjgStatus
alloc_some(HjgCpuRun *run, size_t bytes, hjg_u64 **words)
{
	hjg_u64		at;
	const HjgStatus status = run->run.machine->alloc(&run->run, bytes, &at);

	*words = HJG_PROGRAM_AT(hjg_u64, at);
	return status;
}

static void
free_some(HjgCpuRun *run, const void *words, size_t bytes)
{
	if (words != NULL)
		run->run.machine->free(&run->run, (hjg_u64) (size_t) words, bytes);
}

void
hjg_device_free_ranks(HjgCpuRun *run, HjgCpuRanks *ranks)
{
	free_some(run, ranks->words, ranks->words_bytes);
	free_some(run, ranks->records, ranks->records_bytes);
	*ranks = (HjgCpuRanks) {0};
}

/* Begin ranks: no value is there. */
static HjgStatus
begin_ranks(HjgCpuRun *run, const HjgProgramTable *table, HjgCpuRanks *ranks)
{
	const hjg_u64 nvalues = (hjg_u64) table->greatest_key - (hjg_u64) table->least_key + 1;
	hjg_u64    *words;

	*ranks = (HjgCpuRanks) {.least = table->least_key, .nvalues = nvalues, .words_bytes = (nvalues / 64 + 1) * sizeof(HjgCpuRankWord)};
	TRY(alloc_some(run, ranks->words_bytes, &words));
	ranks->words = (HjgCpuRankWord *) words;
	return run->run.machine->zero(&run->run, (hjg_u64) (size_t) words, ranks->words_bytes);
}

/* Run a pipeline whose rows come to this sink. */
static HjgStatus
launch_into(HjgCpuRun *run, HjgProgramKernel kernel, const HjgKPipeline *args, HjgCpuSink sink, void *sink_arg, const HjgKPiece *pieces,
			hjg_u32 npieces, hjg_u32 *flags)
{
	HjgCpuLaunch launch = {
		.run = run, .kernel = kernel, .a = args, .sink = sink, .sink_arg = sink_arg, .pieces = pieces, .npieces = npieces
	};
	HjgProgramFacts *facts = HJG_PROGRAM_AT(HjgProgramFacts, run->run.facts);
	HjgStatus	status;

	*facts = (HjgProgramFacts) {0};
	status = hjg_device_launch(&launch);
	*flags = facts->flags;
	return status;
}

/* Fill a hash table, with memory for the rows. */
static HjgStatus
fill_records(HjgCpuRun *run, const HjgProgramTable *table, RankedRows *ranked, const HjgKPipeline *args, const HjgKPiece *pieces, hjg_u32 npieces,
			 hjg_u32 *flags)
{
	HjgCpuRanks *ranks = ranked->ranks;
	hjg_u64		n;

	TRY(begin_ranks(run, table, ranks));
	ranks->record_words = 1 + table->npayload;
	TRY(launch_into(run, HJG_KERNEL_FILL_RECORDS, args, append_ranked, ranked, pieces, npieces, flags));
	n = count_bits(ranks);
	if (*flags != 0 || table->npayload == 0)
		return HJG_OK;
	ranks->records_bytes = n * ranks->record_words * sizeof(hjg_u64);
	TRY(alloc_some(run, ranks->records_bytes, &ranks->records));
	hjg_pool_run(run->run.env->pool, (int) (ranked->next_chunk < ranked->nchunks ? ranked->next_chunk : ranked->nchunks), place_rows, ranked);
	return ranked->cancelled ? HJG_ERR_CANCELLED : HJG_OK;
}

HjgStatus
hjg_device_make_ranks(HjgCpuRun *run, const HjgProgramTable *table, HjgCpuRanks *ranks, HjgKPipeline *args, hjg_u64 nrows, const HjgKPiece *pieces,
					  hjg_u32 npieces, hjg_u32 *flags)
{
	/* each worker may leave a chunk that is not full */
	RankedRows	ranked = {
		.env = run->run.env, .ranks = ranks, .nchunks = (hjg_u32) (nrows / CHUNK_ROWS) + 1 + (hjg_u32) hjg_pool_nthreads(run->run.env->pool),
		.row_words = 2 + table->npayload, .unique = table->unique
	};
	const size_t rows_bytes = table->npayload > 0 ? (size_t) ranked.nchunks * CHUNK_ROWS * ranked.row_words * sizeof(hjg_u64) : 0;
	HjgStatus	status = HJG_ERR_MEMORY;

	*ranks = (HjgCpuRanks) {0};
	ranked.counts = calloc(ranked.nchunks, sizeof(hjg_u32));
	if (ranked.counts != NULL)
		status = alloc_some(run, rows_bytes, &ranked.rows);
	if (status == HJG_OK)
		status = fill_records(run, table, &ranked, args, pieces, npieces, flags);
	free_some(run, ranked.rows, rows_bytes);
	free(ranked.counts);
	if (status != HJG_OK || *flags != 0)
		hjg_device_free_ranks(run, ranks);
	return status;
}

/* ---- groups ---- */

#define WORDS_AT_ONCE 1024

typedef struct RankedGroups
{
	const HjgEnv *env;
	const HjgKPipeline *a;
	const HjgCpuRanks *ranks;
	bool		cancelled;		/* atomic */
} RankedGroups;

static hjg_u64 *
record_at(const HjgKPipeline *a, hjg_u64 place)
{
	return HJG_PROGRAM_AT(hjg_u64, a->sink.records) + place * a->sink.record_words;
}

/* Write the record of a group without rows. */
static void
write_group(const HjgKPipeline *a, hjg_u64 place, hjg_u64 nulls, int64_t key)
{
	hjg_u64    *record = record_at(a, place);

	record[0] = HJG_RECORD_READY;
	record[HJG_K_RECORD_NULLS] = nulls;
	record[HJG_K_RECORD_KEYS] = (hjg_u64) key;
	for (hjg_u32 v = 0; v < a->nvalues; v++)
		record[HJG_K_RECORD_KEYS + 1 + v] = hjg_program_neutral(a->values[v].kind);
}

/* Write the records of the groups of some words. */
static void
write_groups(void *arg, int number, int worker)
{
	RankedGroups *groups = arg;
	const HjgCpuRanks *ranks = groups->ranks;
	const hjg_u64 nwords = ranks->nvalues / 64 + 1;
	const hjg_u64 first = (hjg_u64) number * WORDS_AT_ONCE;

	if (hjg_device_stopped(groups->env, &groups->cancelled))
		return;
	for (hjg_u64 w = first; w < first + WORDS_AT_ONCE && w < nwords; w++)
	{
		hjg_u64		place = ranks->words[w].before;

		for (hjg_u64 bits = ranks->words[w].bits; bits != 0; bits &= bits - 1)
			write_group(groups->a, place++, 0, (int64_t) ((hjg_u64) ranks->least + w * 64 + (hjg_u64) __builtin_ctzll(bits)));
	}
}

/*
 * A sink of rows: add them to their groups; that of NULL is behind the others.  Kept columns were read before: whatever has come to be of
 * them, keys that were not there then have no place.
 */
static hjg_u32
add_ranked(void *arg, const HjgKPipeline *a, HjgCpuChunk *chunk, HjgCpuRows *rows)
{
	const HjgCpuRanks *ranks = ((const RankedGroups *) arg)->ranks;
	const int64_t *keys = rows->regs[a->keys[0]];
	const hjg_u32 mask = rows->nullable & 1u << a->keys[0];

	for (hjg_u32 i = 0; i < rows->n; i++)
	{
		const hjg_u64 distance = (hjg_u64) keys[i] - (hjg_u64) ranks->least;

		if ((rows->nulls[i] & mask) != 0)
			rows->records[i] = record_at(a, a->sink.nslots - 1);
		else if (distance < ranks->nvalues && (ranks->words[distance / 64].bits >> distance % 64 & 1) != 0)
			rows->records[i] = record_at(a, hjg_device_rank(ranks, distance));
		else
			return HJG_K_KEY_UNBOUNDED;
		__builtin_prefetch(rows->records[i], 1);
	}
	hjg_device_add_rows(a, rows);
	return 0;
}

/* Make the groups, with ranks; nothing but these is left if there are flags. */
static HjgStatus
make_ranked_groups(HjgCpuRun *run, const HjgProgramTable *table, HjgCpuRanks *ranks, HjgKPipeline *args, const HjgKPiece *pieces, hjg_u32 npieces,
				   hjg_u32 *flags)
{
	HjgKPipeline keys_only = *args;
	RankedRows	ranked = {.env = run->run.env, .ranks = ranks};
	RankedGroups groups = {.env = run->run.env, .a = args, .ranks = ranks};
	hjg_u64		ngroups;
	hjg_u64    *records;

	keys_only.nvalues = 0;
	TRY(begin_ranks(run, table, ranks));
	TRY(launch_into(run, HJG_KERNEL_FILL_RECORDS, &keys_only, append_ranked, &ranked, pieces, npieces, flags));
	if (*flags != 0)
		return HJG_OK;
	ngroups = count_bits(ranks);
	args->sink.nslots = (hjg_u32) ngroups + 1;
	if (ngroups + ranked.has_null > table->max_rows)
		return HJG_ERR_INPUT;
	if (ngroups >= INT32_MAX)
		return HJG_ERR_MEMORY;
	TRY(alloc_some(run, (size_t) args->sink.nslots * args->sink.record_words * sizeof(hjg_u64), &records));
	args->sink.records = (hjg_u64) (size_t) records;
	hjg_pool_run(run->run.env->pool, (int) (ranks->nvalues / 64 / WORDS_AT_ONCE) + 1, write_groups, &groups);
	if (groups.cancelled)
		return HJG_ERR_CANCELLED;
	write_group(args, ngroups, 1, 0);
	if (!ranked.has_null)
		record_at(args, ngroups)[0] = 0;
	return launch_into(run, HJG_KERNEL_GROUP_ROWS, args, add_ranked, &groups, pieces, npieces, flags);
}

HjgStatus
hjg_device_make_groups(HjgCpuRun *run, const HjgProgramTable *table, HjgKPipeline *args, const HjgKPiece *pieces, hjg_u32 npieces, hjg_u32 *flags)
{
	HjgCpuRanks ranks = {0};
	const HjgStatus status = make_ranked_groups(run, table, &ranks, args, pieces, npieces, flags);

	hjg_device_free_ranks(run, &ranks);
	return status;
}

/* ---- both ---- */

/* Does a row take part in look-ups before it comes to its group? Then it should come once. */
static bool
has_probes(const HjgKPipeline *a)
{
	const HjgProgramStep *steps = HJG_PROGRAM_AT(const HjgProgramStep, a->steps);

	for (hjg_u32 s = 0; s < a->nsteps; s++)
		if (steps[s].op >= HJG_PROGRAM_PROBE_INNER)
			return true;
	return false;
}

bool
hjg_device_may_rank(const HjgKPipeline *args, const HjgProgramTable *table, hjg_u64 nrows)
{
	const hjg_u64 distance = (hjg_u64) table->greatest_key - (hjg_u64) table->least_key;

	if (!table->has_bounds || distance / MOST_VALUES >= (nrows > LEAST_ROWS ? nrows : LEAST_ROWS))
		return false;
	/* a table has one of the rows with the same key, which is not always the first one */
	return args->groups ? args->near_slots == 0 && !has_probes(args) : table->unique || table->npayload == 0;
}
