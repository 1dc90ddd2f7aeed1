/*
 * device_cpu_ranks.c
 *	  Tables of a program that need no hashes, on the processor's threads: of one key whose values are close together.
 *
 * A bit for each possible value says whether it is there, and the number of bits before it, its rank, where its record is.  So a look-up
 * reads 16 bytes for 64 values, and one that finds nothing nothing else; records lie in the order of their keys, without these, and rows
 * in about the same order find them side by side.  Where all values are there, as of a serial number, a value's rank is its distance from the
 * least one, and no bits are read.
 *
 * Rows come twice.  First threads set bits, each of its own where these stay in its cache, mark the rows that come to the sink, and find between
 * which numbers the payload is.  Then the bits are counted, fewer than the rows if a key came twice, and there is memory for exactly as many
 * records, in which a value of a hash table takes no more bytes than the distance from the least one needs; groups have their totals alone.  In
 * the second pass the marked rows write their records, or are added to them; steps that only find out which rows these are, filters and some
 * look-ups, are left out.
 *
 * Kept columns are read both times.  Whatever has come to be of them between, a key that was not there has no record, and a value that
 * does not fit ends the program.
 */
#include <stdlib.h>
#include <string.h>

#include "device/hjg_cpu_program.h"

/* A core's cache holds so many bytes, and what else its thread needs. */
size_t		hjg_device_own_bits_bytes = (size_t) 1 << 20;

/* A table while it is filled. */
typedef struct RankedRows
{
	HjgCpuRun  *run;
	HjgCpuRanks *ranks;
	HjgTableFill *fill;
	hjg_u64		nrows;			/* about */
	hjg_u64		nwords;			/* of the ranks */
	hjg_u64    *own_bits;		/* of each worker, as many words; NULL: all set those of the ranks */
	size_t		own_bytes;
	hjg_u64    *marks;			/* of the rows of all feeds' pieces; NULL: they need not come twice */
	size_t		marks_bytes;
	hjg_u64		nnoted;			/* rows whose bits are set */
	bool		has_null;		/* atomic: a row's key is NULL */
	HjgCpuBounds bounds[HJG_PROGRAM_MAX_PAYLOAD];	/* of the payload */
} RankedRows;

/* ---- bits ---- */

/* Set bits of a word, own: of the worker's own bits. */
HJG_PROGRAM_STEP void
set_bits(const RankedRows *ranked, hjg_u64 *own, hjg_u64 word, hjg_u64 bits)
{
	hjg_u64    *shared = &ranked->ranks->words[word].bits;

	if (own != NULL)
		own[word] |= bits;
	/* keys of groups come many times */
	else if ((bits & ~__atomic_load_n(shared, __ATOMIC_RELAXED)) != 0)
		__atomic_fetch_or(shared, bits, __ATOMIC_RELAXED);
}

/* Set the bits of rows whose distances from the least key are known; those of one word that follow each other at once. */
HJG_PROGRAM_STEP void
set_all_bits(const RankedRows *ranked, const HjgCpuWorker *worker, const hjg_u64 *distances, hjg_u32 n)
{
	hjg_u64    *own = ranked->own_bits == NULL ? NULL : ranked->own_bits + (worker - ranked->run->workers) * ranked->nwords;

	for (hjg_u32 i = 0; i < n;)
	{
		const hjg_u64 word = distances[i] / 64;
		hjg_u64		bits = 0;

		for (; i < n && distances[i] / 64 == word; i++)
			bits |= 1ull << distances[i] % 64;
		set_bits(ranked, own, word, bits);
	}
}

/*
 * Find the distances of the keys from the least one, of *n rows; those with NULL are left out. Their words are fetched, if these are
 * written. Returns flags.
 */
HJG_PROGRAM_STEP hjg_u32
find_distances(const HjgKPipeline *a, const HjgCpuRanks *ranks, HjgCpuRows *rows, hjg_u32 *n, bool written)
{
	const int64_t *keys = rows->regs[a->keys[0]];
	const hjg_u32 mask = rows->nullable & 1u << a->keys[0];
	hjg_u64		greatest = 0;

	*n = 0;
	for (hjg_u32 i = 0; i < rows->n; i++)
	{
		const hjg_u64 distance = (hjg_u64) keys[i] - (hjg_u64) ranks->least;
		const bool	isnull = (rows->nulls[i] & mask) != 0;

		if (written)
			__builtin_prefetch(&ranks->words[distance / 64], 1);
		rows->hashes[*n] = distance;
		rows->chosen[*n] = (hjg_u16) i;
		*n += !isnull;
		greatest = !isnull && distance > greatest ? distance : greatest;
	}
	return greatest < ranks->nvalues ? 0 : HJG_K_KEY_UNBOUNDED;
}

/* Extend the bounds of the values of a register, which may be NULL. */
HJG_PROGRAM_STEP void
note_values(HjgCpuBounds *bounds, const HjgCpuRows *rows, hjg_u32 reg)
{
	const int64_t *values = rows->regs[reg];
	const hjg_u32 mask = rows->nullable & 1u << reg;
	int64_t		least = bounds->least;
	int64_t		greatest = bounds->greatest;

	for (hjg_u32 i = 0; i < rows->n && mask == 0; i++)
	{
		least = values[i] < least ? values[i] : least;
		greatest = values[i] > greatest ? values[i] : greatest;
	}
	for (hjg_u32 i = 0; i < rows->n && mask != 0; i++)
	{
		if ((rows->nulls[i] & mask) != 0)
			bounds->has_nulls = true;
		else
		{
			least = values[i] < least ? values[i] : least;
			greatest = values[i] > greatest ? values[i] : greatest;
		}
	}
	bounds->least = least;
	bounds->greatest = greatest;
}

/* Mark the rows of a piece. */
HJG_PROGRAM_STEP void
mark_piece_rows(HjgCpuWorker *worker)
{
	const HjgCpuRows *rows = &worker->rows;
	const hjg_u32 first = rows->numbers[0] - worker->first_row;

	if (rows->consecutive && rows->n == HJG_CPU_ROWS && first % 64 == 0)
	{
		memset(&worker->marks[first / 64], 0xFF, HJG_CPU_ROWS / 8);
		return;
	}
	for (hjg_u32 i = 0; i < rows->n; i++)
		worker->marks[(rows->numbers[i] - worker->first_row) / 64] |= 1ull << (rows->numbers[i] - worker->first_row) % 64;
}

/* A sink of rows: set the bits of their keys, mark them, and find the bounds of the payload. */
HJG_PROGRAM_STEP hjg_u32
note_rows(void *arg, const HjgKPipeline *a, HjgCpuWorker *worker)
{
	RankedRows *ranked = arg;
	HjgCpuRows *rows = &worker->rows;
	hjg_u32		n;
	hjg_u32		flags = find_distances(a, ranked->ranks, rows, &n, ranked->own_bits == NULL);

	if (flags == 0)
	{
		set_all_bits(ranked, worker, rows->hashes, n);
		worker->nnoted += n;
	}
	if (n < rows->n)
		__atomic_store_n(&ranked->has_null, true, __ATOMIC_RELAXED);
	if (worker->marks != NULL)
		mark_piece_rows(worker);
	for (hjg_u32 v = 0; v < a->nvalues; v++)
		note_values(&worker->bounds[v], rows, a->values[v].reg);
	return flags;
}

HJG_CPU_DEFINE_WIDE(note_rows)

/* Words of which a thread puts the bits together. */
#define WORDS_AT_ONCE 4096

/* Put the workers' own bits of some words together. */
static void
unite_bits(void *arg, int number, int worker)
{
	const RankedRows *ranked = arg;
	const hjg_u64 first = (hjg_u64) number * WORDS_AT_ONCE;
	const hjg_u64 end = first + WORDS_AT_ONCE < ranked->nwords ? first + WORDS_AT_ONCE : ranked->nwords;

	for (const hjg_u64 *own = ranked->own_bits; own < ranked->own_bits + ranked->own_bytes / sizeof(hjg_u64); own += ranked->nwords)
		for (hjg_u64 w = first; w < end; w++)
			ranked->ranks->words[w].bits |= own[w];
}

/* Count the bits before each word; returns how many there are. */
static hjg_u64
count_bits(HjgCpuRanks *ranks, hjg_u64 nwords)
{
	hjg_u64		n = 0;

	for (hjg_u64 w = 0; w < nwords; w++)
	{
		ranks->words[w].before = n;
		n += (hjg_u64) __builtin_popcountll(ranks->words[w].bits);
	}
	return n;
}

/* ---- memory ---- */

/* Allocate memory. */
static HjgStatus
alloc_some(HjgCpuRun *run, size_t bytes, void *ptr)
{
	hjg_u64		at;
	const HjgStatus status = run->run.machine->alloc(&run->run, bytes, &at);

	*(void **) ptr = HJG_PROGRAM_AT(void, at);
	return status;
}

static HjgStatus
alloc_zeros(HjgCpuRun *run, size_t bytes, void *ptr)
{
	TRY(alloc_some(run, bytes, ptr));
	return run->run.machine->zero(&run->run, (hjg_u64) (size_t) *(void **) ptr, bytes);
}

static void
free_some(HjgCpuRun *run, const void *ptr, size_t bytes)
{
	if (ptr != NULL)
		run->run.machine->free(&run->run, (hjg_u64) (size_t) ptr, bytes);
}

void
hjg_device_free_ranks(HjgCpuRun *run, HjgCpuRanks *ranks)
{
	free_some(run, ranks->words, ranks->words_bytes);
	free_some(run, ranks->records, ranks->records_bytes);
	*ranks = (HjgCpuRanks) {0};
}

/* Add up the rows that the workers have noted in the last launch, and extend the bounds of the payload by those that they have found. */
static void
add_noted(RankedRows *ranked)
{
	const HjgCpuRun *run = ranked->run;
	const int	nworkers = hjg_pool_nthreads(run->run.env->pool);

	for (int w = 0; w < nworkers; w++)
	{
		ranked->nnoted += run->workers[w].started ? run->workers[w].nnoted : 0;
		for (hjg_u32 v = 0; v < ranked->fill->table->npayload && run->workers[w].started; v++)
		{
			const HjgCpuBounds *found = &run->workers[w].bounds[v];
			HjgCpuBounds *bounds = &ranked->bounds[v];

			bounds->least = found->least < bounds->least ? found->least : bounds->least;
			bounds->greatest = found->greatest > bounds->greatest ? found->greatest : bounds->greatest;
			bounds->has_nulls |= found->has_nulls;
		}
	}
}

/* The sink of a launch, and which rows come to it. */
typedef struct RowsLaunch
{
	HjgProgramKernel kernel;
	HjgCpuSink	sink;
	void	   *sink_arg;
	bool		marked_only;
	bool		keys_only;		/* values are not looked at */
} RowsLaunch;

/* Run the pipelines of the table; returns flags. */
static HjgStatus
launch_all(RankedRows *ranked, RowsLaunch rows, hjg_u32 *flags)
{
	HjgCpuRun  *run = ranked->run;
	HjgProgramFacts *facts = HJG_PROGRAM_AT(HjgProgramFacts, run->run.facts);
	hjg_u64    *marks = ranked->marks;

	*facts = (HjgProgramFacts) {0};
	for (hjg_u32 f = 0; f < ranked->fill->nfeeds; f++)
	{
		const HjgTableFeed *feed = &ranked->fill->feeds[f];
		HjgKPipeline args = feed->args;
		HjgCpuLaunch launch = {
			.run = run, .kernel = rows.kernel, .a = &args, .sink = rows.sink, .sink_arg = rows.sink_arg, .marks = marks,
			.marked_only = rows.marked_only, .pieces = feed->pieces, .npieces = feed->npieces
		};

		if (rows.keys_only)
			args.nvalues = 0;
		TRY(hjg_device_launch(&launch));
		if (!rows.marked_only)
			add_noted(ranked);
		marks = marks == NULL ? NULL : marks + (size_t) feed->npieces * HJG_CPU_MARK_WORDS;
	}
	*flags = facts->flags;
	return HJG_OK;
}

/* Count the pieces of all pipelines. */
static size_t
count_all_pieces(const HjgTableFill *fill)
{
	size_t		n = 0;

	for (hjg_u32 f = 0; f < fill->nfeeds; f++)
		n += fill->feeds[f].npieces;
	return n;
}

/* Give each worker bits of its own, which need no atomic operations, where they stay in cache and it will have more rows than words of them. */
static HjgStatus
alloc_own_bits(RankedRows *ranked)
{
	HjgCpuRun  *run = ranked->run;
	const size_t nworkers = hjg_pool_nthreads(run->run.env->pool);
	const size_t bytes = ranked->nwords * sizeof(hjg_u64);
	HjgStatus	status;

	if (bytes > hjg_device_own_bits_bytes || ranked->nrows / nworkers < ranked->nwords || nworkers * bytes > run->run.machine->room(&run->run))
		return HJG_OK;
	ranked->own_bytes = nworkers * bytes;
	status = alloc_zeros(run, ranked->own_bytes, &ranked->own_bits);
	/* it goes without them, too */
	return status == HJG_ERR_MEMORY ? HJG_OK : status;
}

/* Set the bits of the keys of all rows, and count them. */
static HjgStatus
rank_keys(RankedRows *ranked, hjg_u32 *flags, hjg_u64 *nranks)
{
	HjgCpuRun  *run = ranked->run;
	HjgCpuRanks *ranks = ranked->ranks;
	const HjgProgramTable *table = ranked->fill->table;
	const hjg_u64 nvalues = (hjg_u64) table->greatest_key - (hjg_u64) table->least_key + 1;

	ranked->nwords = nvalues / 64 + 1;
	*ranks = (HjgCpuRanks) {.least = table->least_key, .nvalues = nvalues, .words_bytes = ranked->nwords * sizeof(HjgCpuRankWord)};
	TRY(alloc_zeros(run, ranks->words_bytes, &ranks->words));
	if (table->has_groups || table->npayload > 0)
	{
		ranked->marks_bytes = count_all_pieces(ranked->fill) * HJG_CPU_MARK_WORDS * sizeof(hjg_u64);
		TRY(alloc_zeros(run, ranked->marks_bytes, &ranked->marks));
	}
	TRY(alloc_own_bits(ranked));
	TRY(launch_all(ranked, (RowsLaunch) {
		.kernel = HJG_KERNEL_FILL_RECORDS, .sink = HJG_CPU_SINK(note_rows), .sink_arg = ranked, .keys_only = table->has_groups
	}, flags));
	if (ranked->own_bits != NULL)
		hjg_pool_run(run->run.env->pool, (int) (ranked->nwords / WORDS_AT_ONCE) + 1, unite_bits, ranked);
	free_some(run, ranked->own_bits, ranked->own_bytes);
	ranked->own_bits = NULL;
	if (table->has_groups && ranked->has_null)
		ranks->words[nvalues / 64].bits |= 1ull << nvalues % 64;
	*nranks = count_bits(ranks, ranked->nwords);
	ranks->complete = *nranks == nvalues + (ranks->words[nvalues / 64].bits >> nvalues % 64 & 1);
	if (*flags == 0 && table->unique && ranked->nnoted != *nranks)
		*flags |= HJG_K_KEY_TWICE;
	return HJG_OK;
}

/* ---- hash tables ---- */

/* Plan the records. */
static void
plan_fields(const HjgCpuBounds *all_bounds, hjg_u32 nfields, HjgCpuRanks *ranks)
{
	for (hjg_u32 f = 0; f < nfields; f++)
		if (all_bounds[f].has_nulls)
			ranks->null_bytes = HJG_CPU_NULL_BYTES;
	ranks->record_bytes = ranks->null_bytes;
	for (hjg_u32 f = 0; f < nfields; f++)
	{
		const HjgCpuBounds bounds = all_bounds[f];
		const hjg_u64 range = bounds.least < bounds.greatest ? (hjg_u64) bounds.greatest - (hjg_u64) bounds.least : 0;
		const hjg_u32 width = range == 0 ? 0 : range <= 0xFF ? 1 : range <= 0xFFFF ? 2 : range <= 0xFFFFFFFF ? 4 : 8;

		ranks->fields[f] = (HjgCpuField) {
			.least = bounds.least <= bounds.greatest ? bounds.least : 0, .width = (hjg_u8) width, .offset = (hjg_u8) ranks->record_bytes
		};
		ranks->record_bytes += width;
	}
}

/* Write a field of the records of rows; returns flags. */
#define PACK_FIELD(type) \
	for (hjg_u32 c = 0; c < n; c++) \
	{ \
		const hjg_u64 distance = (hjg_u64) values[rows->chosen[c]] - (hjg_u64) field->least; \
		const type	part = (type) distance; \
		\
		all |= distance; \
		memcpy(rows->packed[c] + field->offset, &part, sizeof(part)); \
	}

HJG_PROGRAM_STEP hjg_u32
pack_field(const HjgCpuField *field, const HjgCpuRows *rows, hjg_u32 n, const int64_t *values)
{
	hjg_u64		all = 0;

	switch (field->width)
	{
		case 0:
			for (hjg_u32 c = 0; c < n; c++)
				all |= (hjg_u64) values[rows->chosen[c]] - (hjg_u64) field->least;
			break;
		case 1:
			PACK_FIELD(hjg_u8);
			break;
		case 2:
			PACK_FIELD(hjg_u16);
			break;
		case 4:
			PACK_FIELD(hjg_u32);
			break;
		default:
			PACK_FIELD(hjg_u64);
	}
	return field->width < 8 && all >> 8 * field->width != 0 ? HJG_K_KEY_UNBOUNDED : 0;
}

/* Write the bits of NULLs of the records of rows, and make these values the least ones; false: there were none before. */
HJG_PROGRAM_STEP bool
pack_nulls(const HjgKPipeline *a, const HjgCpuRanks *ranks, HjgCpuRows *rows, hjg_u32 n)
{
	for (hjg_u32 c = 0; c < n && ranks->null_bytes > 0; c++)
		memset(rows->packed[c], 0, HJG_CPU_NULL_BYTES);
	for (hjg_u32 v = 0; v < a->nvalues; v++)
	{
		const hjg_u32 reg = a->values[v].reg;

		for (hjg_u32 c = 0; c < n && (rows->nullable >> reg & 1) != 0; c++)
		{
			const hjg_u32 i = rows->chosen[c];

			if ((rows->nulls[i] >> reg & 1) == 0)
				continue;
			if (ranks->null_bytes == 0)
				return false;
			rows->packed[c][v / 8] |= (hjg_u8) (1 << v % 8);
			rows->regs[reg][i] = ranks->fields[v].least;
		}
	}
	return true;
}

/* A sink of rows, which have their bits: write the records. */
HJG_PROGRAM_STEP hjg_u32
pack_rows(void *arg, const HjgKPipeline *a, HjgCpuWorker *worker)
{
	const HjgCpuRanks *ranks = ((const RankedRows *) arg)->ranks;
	HjgCpuRows *rows = &worker->rows;
	hjg_u32		n;
	hjg_u32		flags = find_distances(a, ranks, rows, &n, !ranks->complete);

	for (hjg_u32 c = 0; c < n && flags == 0; c++)
	{
		if (!hjg_device_is_ranked(ranks, rows->hashes[c]))
			return HJG_K_KEY_UNBOUNDED;
		rows->packed[c] = ranks->records + hjg_device_rank(ranks, rows->hashes[c]) * ranks->record_bytes;
		__builtin_prefetch(rows->packed[c], 1);
	}
	if (flags != 0)
		return flags;
	if (!pack_nulls(a, ranks, rows, n))
		return HJG_K_KEY_UNBOUNDED;
	for (hjg_u32 v = 0; v < a->nvalues; v++)
		flags |= pack_field(&ranks->fields[v], rows, n, rows->regs[a->values[v].reg]);
	return flags;
}

HJG_CPU_DEFINE_WIDE(pack_rows)

/* Fill a hash table; it may be left half made if there are flags. */
static HjgStatus
fill_ranks(RankedRows *ranked, hjg_u32 *flags)
{
	HjgCpuRun  *run = ranked->run;
	HjgCpuRanks *ranks = ranked->ranks;
	const hjg_u32 npayload = ranked->fill->table->npayload;
	hjg_u64		n;

	TRY(rank_keys(ranked, flags, &n));
	if (*flags != 0 || npayload == 0)
		return HJG_OK;
	plan_fields(ranked->bounds, npayload, ranks);
	ranks->records_bytes = n * ranks->record_bytes;
	TRY(alloc_some(run, ranks->records_bytes, &ranks->records));
	return launch_all(ranked, (RowsLaunch) {.kernel = HJG_KERNEL_FILL_RECORDS, .sink = HJG_CPU_SINK(pack_rows), .sink_arg = ranked, .marked_only = true}, flags);
}

/* ---- groups ---- */

#define RECORDS_AT_ONCE 16384

typedef struct RankedGroups
{
	const HjgEnv *env;
	const HjgKPipeline *a;
	const HjgCpuRanks *ranks;
	hjg_u64		ngroups;
	bool		cancelled;		/* atomic */
} RankedGroups;

/* Write the totals of some groups without rows. */
static void
write_totals(void *arg, int number, int worker)
{
	RankedGroups *groups = arg;
	const HjgKPipeline *a = groups->a;
	const hjg_u64 first = (hjg_u64) number * RECORDS_AT_ONCE;
	hjg_u64    *totals = (hjg_u64 *) (void *) groups->ranks->records + first * a->nvalues;

	if (hjg_device_stopped(groups->env, &groups->cancelled))
		return;
	for (hjg_u64 i = first; i < first + RECORDS_AT_ONCE && i < groups->ngroups; i++)
		for (hjg_u32 v = 0; v < a->nvalues; v++)
			*totals++ = hjg_program_neutral(a->values[v].kind);
}

/* A sink of rows: add them to their groups. */
HJG_PROGRAM_STEP hjg_u32
add_ranked(void *arg, const HjgKPipeline *a, HjgCpuWorker *worker)
{
	const HjgCpuRanks *ranks = ((const RankedGroups *) arg)->ranks;
	HjgCpuRows *rows = &worker->rows;
	const int64_t *keys = rows->regs[a->keys[0]];
	const hjg_u32 mask = rows->nullable & 1u << a->keys[0];

	for (hjg_u32 i = 0; i < rows->n; i++)
	{
		const bool	isnull = (rows->nulls[i] & mask) != 0;
		const hjg_u64 distance = isnull ? ranks->nvalues : (hjg_u64) keys[i] - (hjg_u64) ranks->least;

		if ((!isnull && distance >= ranks->nvalues) || (ranks->words[distance / 64].bits >> distance % 64 & 1) == 0)
			return HJG_K_KEY_UNBOUNDED;
		rows->records[i] = hjg_device_totals(ranks, distance);
		__builtin_prefetch(rows->records[i], 1);
	}
	hjg_device_add_rows(a, rows);
	return 0;
}

HJG_CPU_DEFINE_WIDE(add_ranked)

/* Make groups; they may be left half made if there are flags. */
static HjgStatus
fill_groups(RankedRows *ranked, hjg_u32 *flags)
{
	HjgCpuRun  *run = ranked->run;
	HjgCpuRanks *ranks = ranked->ranks;
	const HjgKPipeline *a = &ranked->fill->feeds[0].args;
	RankedGroups groups = {.env = run->run.env, .a = a, .ranks = ranks};

	TRY(rank_keys(ranked, flags, &groups.ngroups));
	if (*flags != 0)
		return HJG_OK;
	if (groups.ngroups > ranked->fill->table->max_rows)
		return HJG_ERR_INPUT;
	ranked->fill->sink.nslots = (hjg_u32) ranks->nvalues + 1;
	ranks->record_bytes = a->nvalues * (hjg_u32) sizeof(hjg_u64);
	ranks->records_bytes = groups.ngroups * ranks->record_bytes;
	TRY(alloc_some(run, ranks->records_bytes, &ranks->records));
	hjg_pool_run(run->run.env->pool, (int) (groups.ngroups / RECORDS_AT_ONCE) + 1, write_totals, &groups);
	if (groups.cancelled)
		return HJG_ERR_CANCELLED;
	return launch_all(ranked, (RowsLaunch) {.kernel = HJG_KERNEL_GROUP_ROWS, .sink = HJG_CPU_SINK(add_ranked), .sink_arg = &groups, .marked_only = true}, flags);
}

/* ---- both ---- */

HjgStatus
hjg_device_make_ranks(HjgCpuRun *run, HjgCpuRanks *ranks, HjgTableFill *fill, hjg_u64 nrows, hjg_u32 *flags)
{
	RankedRows	ranked = {.run = run, .ranks = ranks, .fill = fill, .nrows = nrows};
	HjgStatus	status;

	for (int v = 0; v < HJG_PROGRAM_MAX_PAYLOAD; v++)
		ranked.bounds[v] = HJG_CPU_NO_BOUNDS;
	status = fill->table->has_groups ? fill_groups(&ranked, flags) : fill_ranks(&ranked, flags);
	free_some(run, ranked.marks, ranked.marks_bytes);
	free_some(run, ranked.own_bits, ranked.own_bytes);
	if (status != HJG_OK || *flags != 0)
		hjg_device_free_ranks(run, ranks);
	return status;
}
