/*
 * device_cpu_sink.c
 *	  The end of a pipeline for many rows at a time, on a thread of the processor: hash tables, groups and results.
 *
 * Records are looked up in two loops, of which the first one tells the cache where the second one will look.  Rows that follow each other
 * with the same key, as of a table in the order of that key, are looked up once, and are added up before others can see them.
 */
#include "device/hjg_cpu_program.h"

hjg_u32
hjg_device_sink_registers(const HjgKPipeline *a)
{
	hjg_u32		wanted = 0;

	for (hjg_u32 k = 0; k < a->sink.nkeys; k++)
		wanted |= 1u << a->keys[k];
	for (hjg_u32 v = 0; v < a->nvalues; v++)
		if (a->values[v].kind != HJG_K_ROWS)
			wanted |= 1u << a->values[v].reg;
	return wanted;
}

/* Make the key of a row; its hash is known. */
static inline HjgProgramKey
sink_key(const HjgKPipeline *a, const HjgCpuRows *rows, hjg_u32 i)
{
	HjgProgramKey key = {.regs = &rows->regs[0][i], .list = a->keys, .stride = HJG_CPU_ROWS, .nkeys = a->sink.nkeys};

	for (hjg_u32 k = 0; k < key.nkeys && rows->nullable != 0; k++)
		key.nulls |= ((rows->nulls[i] & rows->nullable) >> a->keys[k] & 1) << k;
	return key;
}

static void
prefetch_records(const HjgKRecords *table, const HjgCpuRows *rows)
{
	for (hjg_u32 i = 0; i < rows->n; i++)
		__builtin_prefetch(hjg_program_record(table, hjg_program_home(table, rows->hashes[i])), 1);
}

hjg_u32
hjg_device_fill_rows(const HjgKPipeline *a, HjgCpuRows *rows)
{
	hjg_u32		flags = 0;

	hjg_device_hash_keys(rows, a->keys, a->sink.nkeys, a->groups);
	prefetch_records(&a->sink, rows);
	for (hjg_u32 i = 0; i < rows->n; i++)
	{
		const HjgProgramKey key = sink_key(a, rows, i);
		const HjgProgramRow row = hjg_device_row(rows, i);

		if (key.nulls == 0)
			flags |= hjg_program_fill(a, &row, &key, rows->hashes[i]);
	}
	return flags;
}

/* ---- groups ---- */

/* Has a row the key of the one before it? */
static inline bool
repeats_key(const HjgKPipeline *a, const HjgCpuRows *rows, hjg_u32 i)
{
	if (i == 0 || rows->hashes[i] != rows->hashes[i - 1])
		return false;
	for (hjg_u32 k = 0; k < a->sink.nkeys; k++)
		if (rows->regs[a->keys[k]][i] != rows->regs[a->keys[k]][i - 1] ||
			((rows->nulls[i] ^ rows->nulls[i - 1]) & rows->nullable & 1u << a->keys[k]) != 0)
			return false;
	return true;
}

/* Find the record of a key that is there already; NULL: perhaps it is not. */
static inline __attribute__((always_inline)) hjg_u64 *
find_group(const HjgKPipeline *a, const HjgKRecords *table, hjg_u32 nkeys, const HjgProgramKey *key, hjg_u64 hash)
{
	const hjg_u64 ready = (hash & HJG_RECORD_HASH) | (hjg_u64) key->nulls << HJG_RECORD_FIRST_NULL | HJG_RECORD_READY;
	hjg_u32		slot = hjg_program_home(table, hash);

	for (hjg_u32 visit = 0; visit < HJG_NEAR_VISITS && visit < table->nslots; visit++)
	{
		hjg_u64    *record = hjg_program_record(table, slot);
		const hjg_u64 word = HJG_CELL_LOAD(&record[0]);

		if (word == ready)
		{
			hjg_u32		k = 0;

			while (k < nkeys && record[HJG_K_RECORD_KEYS + k] == (hjg_u64) key->regs[(size_t) a->keys[k] * HJG_CPU_ROWS])
				k++;
			if (k == nkeys)
				return record;
		}
		if (word == 0)
			return NULL;
		slot = hjg_program_next(table, slot);
	}
	return NULL;
}

/*
 * Find or make the record of each row in a table; NULL if it has no room within most visits.  In the worker's own table each row is
 * looked up, as few groups seldom come twice in a row.
 */
static inline __attribute__((always_inline)) void
enter_keys(const HjgKPipeline *a, const HjgKRecords *table, hjg_u32 nkeys, bool near, HjgCpuRows *rows)
{
	int			made;

	for (hjg_u32 i = 0; i < rows->n; i++)
		if (!near && repeats_key(a, rows, i))
			rows->records[i] = rows->records[i - 1];
		else
		{
			const HjgProgramKey key = sink_key(a, rows, i);

			rows->records[i] = find_group(a, table, nkeys, &key, rows->hashes[i]);
			if (rows->records[i] == NULL)
				rows->records[i] = hjg_program_enter(a, table, &key, rows->hashes[i], NULL, key.nulls, near ? HJG_NEAR_VISITS : HJG_RECORD_VISITS, &made);
		}
}

static inline __attribute__((always_inline)) void
enter_rows(const HjgKPipeline *a, const HjgKRecords *table, bool near, HjgCpuRows *rows)
{
	if (a->sink.nkeys == 1)
		enter_keys(a, table, 1, near, rows);
	else if (a->sink.nkeys == 2)
		enter_keys(a, table, 2, near, rows);
	else
		enter_keys(a, table, a->sink.nkeys, near, rows);
}

/* Enter the rows that found no room in the worker's own table. */
static hjg_u32
enter_others(const HjgKPipeline *a, HjgCpuRows *rows, bool *all_near)
{
	hjg_u32		flags = 0;
	int			made;

	*all_near = true;
	for (hjg_u32 i = 0; i < rows->n; i++)
		if (rows->records[i] == NULL)
		{
			const HjgProgramKey key = sink_key(a, rows, i);

			*all_near = false;
			rows->records[i] = hjg_program_enter(a, &a->sink, &key, rows->hashes[i], NULL, key.nulls, HJG_RECORD_VISITS, &made);
			if (rows->records[i] == NULL)
				flags = HJG_K_TABLE_FULL;
		}
	return flags;
}

/* The threads that add to these records. */
typedef enum Sharing
{
	SHARING_ONE,				/* this one, and all rows have the same record */
	SHARING_NONE,				/* this one */
	SHARING_ALL					/* all */
} Sharing;

/*
 * Combine each row's share, an expression of i, with a value of its record.  Shares of rows that are side by side and have one record are
 * combined before other threads can see them.
 */
#define ADD_SHARES(kind, share) \
	do { \
		if (sharing == SHARING_ONE) \
		{ \
			hjg_u64		sum = hjg_program_neutral(kind); \
			for (hjg_u32 i = 0; i < n; i++) \
				sum = hjg_program_combine(kind, sum, (hjg_u64) (share)); \
			records[0][place] = hjg_program_combine(kind, records[0][place], sum); \
		} \
		else if (sharing == SHARING_NONE) \
			for (hjg_u32 i = 0; i < n; i++) \
				records[i][place] = hjg_program_combine(kind, records[i][place], (hjg_u64) (share)); \
		else \
			for (hjg_u32 i = 0; i < n;) \
			{ \
				hjg_u64    *record = records[i]; \
				hjg_u64		sum = (hjg_u64) (share); \
				for (i++; i < n && records[i] == record; i++) \
					sum = hjg_program_combine(kind, sum, (hjg_u64) (share)); \
				hjg_program_add(kind, &record[place], sum); \
			} \
	} while (0)

/* Add a value of all rows. */
static inline __attribute__((always_inline)) void
add_value(HjgKValue value, hjg_u32 place, Sharing sharing, const HjgCpuRows *rows)
{
	const hjg_u32 n = rows->n;
	hjg_u64    *const *records = rows->records;
	const int64_t *numbers = rows->regs[value.reg];
	const hjg_u32 *nulls = rows->nulls;
	const hjg_u32 mask = rows->nullable & 1u << value.reg;

	switch (value.kind)
	{
		case HJG_K_ROWS:
			ADD_SHARES(HJG_K_ROWS, 1);
			break;
		case HJG_K_NULLS:
			if (mask != 0)
				ADD_SHARES(HJG_K_NULLS, (nulls[i] & mask) != 0);
			break;
		case HJG_K_SUM_LOW:
			ADD_SHARES(HJG_K_SUM_LOW, (hjg_u32) numbers[i]);
			break;
		case HJG_K_SUM_HIGH:
			ADD_SHARES(HJG_K_SUM_HIGH, numbers[i] >> 32);
			break;
		case HJG_K_SUM_FLOATS:
			ADD_SHARES(HJG_K_SUM_FLOATS, (nulls[i] & mask) != 0 ? INT64_MIN : HJG_PROGRAM_FLOAT_BITS(numbers[i]));
			break;
		case HJG_K_LEAST:
			ADD_SHARES(HJG_K_LEAST, (nulls[i] & mask) != 0 ? INT64_MAX : numbers[i]);
			break;
		case HJG_K_GREATEST:
			ADD_SHARES(HJG_K_GREATEST, (nulls[i] & mask) != 0 ? INT64_MIN : numbers[i]);
			break;
		default:
			ADD_SHARES(HJG_K_SUM, numbers[i]);
	}
}

/* Add all values; first: the place of the first one in a record. */
static inline __attribute__((always_inline)) void
add_values(const HjgKPipeline *a, hjg_u32 first, Sharing sharing, const HjgCpuRows *rows)
{
	for (hjg_u32 v = 0; v < a->nvalues; v++)
		add_value(a->values[v], first + v, sharing, rows);
}

#ifdef HJG_CPU_WIDE
HJG_CPU_WIDE static void
add_wide(const HjgKPipeline *a, hjg_u32 first, Sharing sharing, const HjgCpuRows *rows)
{
	if (sharing == SHARING_ONE)
		add_values(a, first, SHARING_ONE, rows);
	else
		add_values(a, first, SHARING_NONE, rows);
}
#endif

/* ---- groups that many rows have ---- */

/* A group is busy if so many rows for one of it, at most, are added: threads would wait for each other at each row. */
#define ROWS_FOR_BUSY 32

static hjg_u32
count_rows_of(const HjgCpuRows *rows, const hjg_u64 *record)
{
	hjg_u32		count = 0;

	for (hjg_u32 i = 0; i < rows->n; i++)
		count += rows->records[i] == record;
	return count;
}

/* Find the busy groups among those of before and that of another row; returns how many. */
static hjg_u32
find_busy(HjgCpuRows *rows)
{
	hjg_u64    *another = rows->records[rows->look_at++ % rows->n];
	hjg_u32		nbusy = 0;

	for (hjg_u32 b = 0; b < HJG_CPU_BUSY_RECORDS; b++)
	{
		hjg_u64    *record = rows->busy[b];

		if (record == another)
			another = NULL;
		rows->busy[b] = NULL;
		if (record != NULL && count_rows_of(rows, record) * ROWS_FOR_BUSY >= rows->n)
			rows->busy[nbusy++] = record;
	}
	if (another != NULL && nbusy < HJG_CPU_BUSY_RECORDS && count_rows_of(rows, another) * ROWS_FOR_BUSY >= rows->n)
		rows->busy[nbusy++] = another;
	return nbusy;
}

/* Add values to records that all threads add to; first: the place of the first value in a record. */
static void
add_to_shared_records(const HjgKPipeline *a, hjg_u32 first, HjgCpuRows *rows)
{
	hjg_u64		sums[HJG_CPU_BUSY_RECORDS][HJG_K_RECORD_KEYS + HJG_PROGRAM_MAX_KEYS + HJG_K_MOST_VALUES];
	const hjg_u32 nbusy = rows->n > 0 ? find_busy(rows) : 0;

	for (hjg_u32 b = 0; b < nbusy; b++)
	{
		for (hjg_u32 v = 0; v < a->nvalues; v++)
			sums[b][first + v] = hjg_program_neutral(a->values[v].kind);
		for (hjg_u32 i = 0; i < rows->n; i++)
			rows->records[i] = rows->records[i] == rows->busy[b] ? sums[b] : rows->records[i];
	}
	add_values(a, first, SHARING_ALL, rows);
	for (hjg_u32 b = 0; b < nbusy; b++)
		for (hjg_u32 v = 0; v < a->nvalues; v++)
			hjg_program_add(a->values[v].kind, &rows->busy[b][first + v], sums[b][first + v]);
}

static void
add_shares(const HjgKPipeline *a, Sharing sharing, HjgCpuRows *rows)
{
	const hjg_u32 first = HJG_K_RECORD_KEYS + a->sink.nkeys;

	if (sharing == SHARING_ALL)
		add_to_shared_records(a, first, rows);
#ifdef HJG_CPU_WIDE
	else if (__builtin_cpu_supports("avx2"))
		add_wide(a, first, sharing, rows);
#endif
	else if (sharing == SHARING_ONE)
		add_values(a, first, SHARING_ONE, rows);
	else
		add_values(a, first, SHARING_NONE, rows);
}

void
hjg_device_add_rows(const HjgKPipeline *a, HjgCpuRows *rows)
{
	add_to_shared_records(a, 0, rows);
}

/* Add all rows to the only group there is, which each worker has one of. */
static void
add_to_one_group(const HjgKPipeline *a, const HjgKRecords *near, HjgCpuRows *rows)
{
	const HjgProgramKey key = {.regs = rows->regs[0]};
	int			made;

	rows->records[0] = hjg_program_enter(a, near, &key, 0, NULL, 0, HJG_NEAR_VISITS, &made);
	add_shares(a, SHARING_ONE, rows);
}

hjg_u32
hjg_device_group_rows(const HjgKPipeline *a, const HjgKRecords *near, HjgCpuRows *rows)
{
	bool		all_near;
	hjg_u32		flags;

	if (rows->n == 0)
		return 0;
	if (a->sink.nkeys == 0)
	{
		add_to_one_group(a, near, rows);
		return 0;
	}
	hjg_device_hash_keys(rows, a->keys, a->sink.nkeys, true);
	if (near->nslots > 0)
		enter_rows(a, near, true, rows);
	else
	{
		prefetch_records(&a->sink, rows);
		enter_rows(a, &a->sink, false, rows);
	}
	flags = enter_others(a, rows, &all_near);
	if (flags == 0)
		add_shares(a, near->nslots > 0 && all_near ? SHARING_NONE : SHARING_ALL, rows);
	return flags;
}

/* ---- results ---- */

void
hjg_device_count_groups(const HjgKResult *a, hjg_u64 *bins, HjgCpuRows *rows)
{
	for (hjg_u32 i = 0; i < rows->n; i++)
	{
		const HjgProgramRow row = hjg_device_row(rows, i);
		const hjg_u64 number = hjg_program_order(a, &row);

		if (number >> a->shift >> HJG_K_ORDER_BITS == a->prefix)
			bins[(number >> a->shift) % HJG_K_ORDER_BINS]++;
	}
}

void
hjg_device_list_groups(const HjgKResult *a, const HjgCpuPlan *plan, HjgCpuRows *rows)
{
	hjg_u32		n = 0;
	hjg_u64		place;

	for (hjg_u32 i = 0; i < rows->n; i++)
	{
		const HjgProgramRow row = hjg_device_row(rows, i);

		rows->chosen[n] = (hjg_u16) i;
		n += hjg_program_order(a, &row) <= a->last;
	}
	place = n > 0 ? __atomic_fetch_add(HJG_PROGRAM_AT(hjg_u64, a->listed), n, __ATOMIC_RELAXED) : 0;
	for (hjg_u32 i = 0; i < n; i++)
	{
		hjg_u64		key;

		hjg_program_list(a, hjg_device_group(plan, rows->numbers[rows->chosen[i]], &key), HJG_PROGRAM_AT(hjg_u64, a->words) + (place + i) * a->group_words);
	}
}
