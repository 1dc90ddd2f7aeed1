/*
 * hjg_program_steps.h
 *	  One row of a program (layout/hjg_program.h): its steps, and the hash tables that it is looked up in and entered into.  In the
 *	  common subset of CUDA and C, so that a device emulated on the host runs the same text.
 *
 * Registers.  Register r of a row is regs[r * stride]: on a GPU they lie in shared memory, those of a block's threads side by side.
 * The register of a NULL is 0.
 *
 * Tables.  Open addressing: a key is in the first record from its home that was empty, at most HJG_RECORD_VISITS away.  A
 * record's first word tells its state and most of the hash.  Who finds it empty claims it by compare-and-swap, writes the record,
 * and then declares it ready; others with the same hash come again until it is.  They do not wait in a loop of their own: threads
 * of a warp that claim a record have written it when the others look again.  Records never become empty again.
 */
#ifndef HJG_PROGRAM_STEPS_H
#define HJG_PROGRAM_STEPS_H

#include "layout/hjg_hash.h"
#include "layout/hjg_program_args.h"

#ifdef __CUDACC__
#define HJG_PROGRAM_STEP static __device__ __forceinline__
#define HJG_CELL_LOAD(p) (*(const volatile hjg_u64 *) (p))	/* past a multiprocessor's own cache */
#define HJG_CELL_STORE(p, v) (*(volatile hjg_u64 *) (p) = (v))
#define HJG_CELL_FENCE() __threadfence()
#define HJG_CELL_CLAIM(p, v) atomicCAS((unsigned long long *) (p), 0ull, (unsigned long long) (v))
#define HJG_CELL_ADD(p, v) atomicAdd((unsigned long long *) (p), (unsigned long long) (v))
#define HJG_CELL_MIN(p, v) atomicMin((long long *) (p), (long long) (v))
#define HJG_CELL_MAX(p, v) atomicMax((long long *) (p), (long long) (v))
#else
#define HJG_PROGRAM_STEP static inline __attribute__((always_inline))
#define HJG_CELL_LOAD(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define HJG_CELL_STORE(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define HJG_CELL_FENCE() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define HJG_CELL_CLAIM(p, v) __sync_val_compare_and_swap(p, (hjg_u64) 0, v)
#define HJG_CELL_ADD(p, v) ((void) __atomic_fetch_add(p, v, __ATOMIC_RELAXED))
#define HJG_CELL_MIN(p, v) (*(int64_t *) (p) = (v))
#define HJG_CELL_MAX(p, v) (*(int64_t *) (p) = (v))
#endif

#define HJG_PROGRAM_AT(type, address) ((type *) (size_t) (address))

/* Most records that a search visits: at half load, which tables have at most, one key in a billion needs a hundred. */
#define HJG_RECORD_VISITS 1024u
#define HJG_NEAR_VISITS 8u		/* of a block's own table */

/* States of a record; a hash without these bits is beside them. */
#define HJG_RECORD_CLAIMED 1ull
#define HJG_RECORD_READY 2ull
#define HJG_RECORD_STATES 3ull

typedef struct HjgProgramRow
{
	int64_t    *regs;
	hjg_u32		stride;
	hjg_u32		nulls;			/* a bit for each register */
	hjg_u32		segment;		/* number of the segment that it comes from */
	const hjg_u64 *group;		/* or the group that it is */
} HjgProgramRow;

/* A key: the registers of a list, or consecutive ones. */
typedef struct HjgProgramKey
{
	const int64_t *regs;
	const hjg_u8 *list;			/* or NULL */
	hjg_u32		stride;
	hjg_u32		nkeys;
	hjg_u32		nulls;			/* a bit for each key, where NULL is a key */
} HjgProgramKey;

/* ---- tables ---- */

HJG_PROGRAM_STEP hjg_u64
hjg_program_key_at(const HjgProgramKey *key, hjg_u32 k)
{
	return (hjg_u64) key->regs[(key->list != 0 ? key->list[k] : k) * key->stride];
}

HJG_PROGRAM_STEP hjg_u64
hjg_program_hash(const HjgProgramKey *key)
{
	hjg_u64		hash = key->nulls;

	for (hjg_u32 k = 0; k < key->nkeys; k++)
		hash = hjg_mix64(hjg_hash_seed, hjg_program_key_at(key, k) ^ (hash + (hjg_u64) 0x9e3779b97f4a7c15 * k));
	return hash;
}

HJG_PROGRAM_STEP hjg_u64 *
hjg_program_record(const HjgKRecords *table, hjg_u32 slot)
{
	return HJG_PROGRAM_AT(hjg_u64, table->records) + (hjg_u64) slot * table->record_words;
}

HJG_PROGRAM_STEP hjg_u32
hjg_program_home(const HjgKRecords *table, hjg_u64 hash)
{
	return (hjg_u32) ((hash >> 32) * table->nslots >> 32);
}

HJG_PROGRAM_STEP hjg_u32
hjg_program_next(const HjgKRecords *table, hjg_u32 slot)
{
	return slot + 1 == table->nslots ? 0 : slot + 1;
}

/* Does a ready record have the key? */
HJG_PROGRAM_STEP int
hjg_program_has_key(const hjg_u64 *record, const HjgProgramKey *key)
{
	for (hjg_u32 k = 0; k < key->nkeys; k++)
		if (HJG_CELL_LOAD(&record[HJG_K_RECORD_KEYS + k]) != hjg_program_key_at(key, k))
			return 0;
	return 1;
}

/* Find the record of a key in a complete table; NULL if there is none. */
HJG_PROGRAM_STEP const hjg_u64 *
hjg_program_find(const HjgKRecords *table, const HjgProgramKey *key)
{
	const hjg_u64 hash = hjg_program_hash(key);
	const hjg_u64 ready = (hash & ~HJG_RECORD_STATES) | HJG_RECORD_READY;
	hjg_u32		slot = hjg_program_home(table, hash);

	for (hjg_u32 visit = 0; visit < HJG_RECORD_VISITS && visit < table->nslots; visit++)
	{
		const hjg_u64 *record = hjg_program_record(table, slot);

		if (record[0] == 0)
			return 0;
		if (record[0] == ready)
		{
			hjg_u32		k = 0;

			while (k < key->nkeys && record[HJG_K_RECORD_KEYS + k] == hjg_program_key_at(key, k))
				k++;
			if (k == key->nkeys)
				return record;
		}
		slot = hjg_program_next(table, slot);
	}
	return 0;
}

/* ---- values ---- */

HJG_PROGRAM_STEP hjg_u64
hjg_program_neutral(hjg_u32 kind)
{
	return kind == HJG_K_LEAST ? (hjg_u64) INT64_MAX : kind == HJG_K_GREATEST ? (hjg_u64) INT64_MIN : 0;
}

/* Compute a row's contribution to a value. */
HJG_PROGRAM_STEP hjg_u64
hjg_program_share(HjgKValue value, const HjgProgramRow *row)
{
	const hjg_u32 isnull = row->nulls >> value.reg & 1;
	const int64_t number = row->regs[value.reg * row->stride];

	switch (value.kind)
	{
		case HJG_K_ROWS:
			return 1;
		case HJG_K_NULLS:
			return isnull;
		case HJG_K_SUM_LOW:
			return (hjg_u32) number;
		case HJG_K_SUM_HIGH:
			return (hjg_u64) (number >> 32);
		case HJG_K_LEAST:
		case HJG_K_GREATEST:
			return isnull ? hjg_program_neutral(value.kind) : (hjg_u64) number;
		default:
			return (hjg_u64) number;
	}
}

HJG_PROGRAM_STEP hjg_u64
hjg_program_combine(hjg_u32 kind, hjg_u64 a, hjg_u64 b)
{
	switch (kind)
	{
		case HJG_K_LEAST:
			return (int64_t) a < (int64_t) b ? a : b;
		case HJG_K_GREATEST:
			return (int64_t) a > (int64_t) b ? a : b;
		default:
			return a + b;
	}
}

/* Add a share to a value that others add to at the same time. */
HJG_PROGRAM_STEP void
hjg_program_add(hjg_u32 kind, hjg_u64 *value, hjg_u64 share)
{
	switch (kind)
	{
		case HJG_K_LEAST:
			if ((int64_t) share < (int64_t) HJG_CELL_LOAD(value))
				HJG_CELL_MIN(value, share);
			break;
		case HJG_K_GREATEST:
			if ((int64_t) share > (int64_t) HJG_CELL_LOAD(value))
				HJG_CELL_MAX(value, share);
			break;
		default:
			if (share != 0)
				HJG_CELL_ADD(value, share);
	}
}

/*
 * Find the record of a key, or make it: with the payload of the row, or without rows.  NULL: there is no room within most visits.
 * *made: the record is new.  nulls: the bits that a new record gets.
 */
HJG_PROGRAM_STEP hjg_u64 *
hjg_program_enter(const HjgKPipeline *a, const HjgKRecords *table, const HjgProgramKey *key, const HjgProgramRow *row, hjg_u64 nulls,
				  hjg_u32 most, int *made)
{
	const hjg_u64 hash = hjg_program_hash(key);
	const hjg_u64 claimed = (hash & ~HJG_RECORD_STATES) | HJG_RECORD_CLAIMED;
	const hjg_u64 ready = (hash & ~HJG_RECORD_STATES) | HJG_RECORD_READY;
	hjg_u32		slot = hjg_program_home(table, hash);
	hjg_u32		visit = 0;

	*made = 0;
	while (visit < most && visit < table->nslots)
	{
		hjg_u64    *record = hjg_program_record(table, slot);
		hjg_u64		word = HJG_CELL_LOAD(&record[0]);

		if (word == 0)
		{
			word = HJG_CELL_CLAIM(&record[0], claimed);
			if (word == 0)
			{
				record[HJG_K_RECORD_NULLS] = nulls;
				for (hjg_u32 k = 0; k < key->nkeys; k++)
					record[HJG_K_RECORD_KEYS + k] = hjg_program_key_at(key, k);
				for (hjg_u32 v = 0; v < a->nvalues; v++)
					record[HJG_K_RECORD_KEYS + key->nkeys + v] = a->values[v].kind == HJG_K_PAYLOAD ?
						hjg_program_share(a->values[v], row) : hjg_program_neutral(a->values[v].kind);
				HJG_CELL_FENCE();
				HJG_CELL_STORE(&record[0], ready);
				*made = 1;
				return record;
			}
		}
		if (word == claimed)
			continue;
		if (word == ready)
		{
			HJG_CELL_FENCE();
			if ((!a->groups || HJG_CELL_LOAD(&record[HJG_K_RECORD_NULLS]) == key->nulls) && hjg_program_has_key(record, key))
				return record;
		}
		slot = hjg_program_next(table, slot);
		visit++;
	}
	return 0;
}

/* Make the key of a row's record in the pipeline's sink; false for a key with NULL where that is none. */
HJG_PROGRAM_STEP int
hjg_program_sink_key(const HjgKPipeline *a, const HjgProgramRow *row, HjgProgramKey *key)
{
	hjg_u32		nulls = 0;

	for (hjg_u32 k = 0; k < a->sink.nkeys; k++)
		nulls |= (row->nulls >> a->keys[k] & 1) << k;
	key->regs = row->regs;
	key->list = a->keys;
	key->stride = row->stride;
	key->nkeys = a->sink.nkeys;
	key->nulls = nulls;
	return a->groups || nulls == 0;
}

/* Enter a row into the hash table that the pipeline fills; returns flags. */
HJG_PROGRAM_STEP hjg_u32
hjg_program_fill(const HjgKPipeline *a, const HjgProgramRow *row)
{
	HjgProgramKey key;
	hjg_u64		nulls = 0;
	int			made;

	if (!hjg_program_sink_key(a, row, &key))
		return 0;
	for (hjg_u32 v = 0; v < a->nvalues; v++)
		nulls |= (hjg_u64) (row->nulls >> a->values[v].reg & 1) << v;
	if (hjg_program_enter(a, &a->sink, &key, row, nulls, HJG_RECORD_VISITS, &made) == 0)
		return HJG_K_TABLE_FULL;
	return !made && a->unique ? HJG_K_KEY_TWICE : 0;
}

/* Add a record of a block's own table to the groups; returns flags. */
HJG_PROGRAM_STEP hjg_u32
hjg_program_merge(const HjgKPipeline *a, const hjg_u64 *record)
{
	HjgProgramKey key;
	hjg_u64    *group;
	int			made;

	key.regs = (const int64_t *) record + HJG_K_RECORD_KEYS;
	key.list = 0;
	key.stride = 1;
	key.nkeys = a->sink.nkeys;
	key.nulls = (hjg_u32) record[HJG_K_RECORD_NULLS];
	group = hjg_program_enter(a, &a->sink, &key, 0, key.nulls, HJG_RECORD_VISITS, &made);
	if (group == 0)
		return HJG_K_TABLE_FULL;
	for (hjg_u32 v = 0; v < a->nvalues; v++)
		hjg_program_add(a->values[v].kind, &group[HJG_K_RECORD_KEYS + key.nkeys + v], record[HJG_K_RECORD_KEYS + key.nkeys + v]);
	return 0;
}

/* ---- steps ---- */

HJG_PROGRAM_STEP void
hjg_program_set(HjgProgramRow *row, hjg_u32 reg, hjg_u64 value, hjg_u32 isnull)
{
	row->regs[reg * row->stride] = isnull ? 0 : (int64_t) value;
	row->nulls = (row->nulls & ~(1u << reg)) | isnull << reg;
}

HJG_PROGRAM_STEP void
hjg_program_column(const HjgKColumn *column, hjg_u32 row_ix, HjgProgramRow *row, hjg_u32 reg)
{
	const hjg_u32 isnull = column->nulls != 0 && (HJG_PROGRAM_AT(const hjg_u8, column->nulls)[row_ix / 8] >> row_ix % 8 & 1);
	hjg_u64		code = 0;

	switch (column->width)
	{
		case 1:
			code = HJG_PROGRAM_AT(const hjg_u8, column->codes)[row_ix];
			break;
		case 2:
			code = HJG_PROGRAM_AT(const hjg_u16, column->codes)[row_ix];
			break;
		case 4:
			code = HJG_PROGRAM_AT(const hjg_u32, column->codes)[row_ix];
			break;
		case 8:
			code = HJG_PROGRAM_AT(const hjg_u64, column->codes)[row_ix];
			break;
		default:
			break;
	}
	if (column->map != 0)
		code = code < column->nwords ? HJG_PROGRAM_AT(const hjg_u32, column->map)[code] : 0;
	else
		code += (hjg_u64) column->least;
	hjg_program_set(row, reg, code, isnull);
}

/* Load a value of the group that the row is. */
HJG_PROGRAM_STEP void
hjg_program_group_value(const HjgKPipeline *a, hjg_u32 which, HjgProgramRow *row, hjg_u32 reg)
{
	const hjg_u32 nkeys = a->source.nkeys;
	const hjg_u64 *values = row->group + HJG_K_RECORD_KEYS + nkeys;

	if (which < nkeys)
		hjg_program_set(row, reg, row->group[HJG_K_RECORD_KEYS + which], (hjg_u32) (row->group[HJG_K_RECORD_NULLS] >> which) & 1);
	else if (which == HJG_PROGRAM_GROUP_ROWS(nkeys))
		hjg_program_set(row, reg, values[0], 0);
	else
	{
		const HjgKArgument argument = a->arguments[(which - nkeys - 1) / 4];
		const hjg_u32 part = (which - nkeys - 1) % 4;
		const hjg_u64 count = values[0] - values[argument.nulls];
		const hjg_u32 place = part == HJG_PROGRAM_GROUP_SUM ? argument.sum : argument.extremes + (part == HJG_PROGRAM_GROUP_GREATEST);

		if (part == HJG_PROGRAM_GROUP_COUNT)
			hjg_program_set(row, reg, count, 0);
		else if (part == HJG_PROGRAM_GROUP_SUM && argument.sum_parts > 1)
			hjg_program_set(row, reg, values[place] + (values[place + 1] << 32), count == 0);
		else
			hjg_program_set(row, reg, values[place], count == 0);
	}
}

/* Is the number one of n ascending ones? */
HJG_PROGRAM_STEP hjg_u32
hjg_program_in_set(const int64_t *set, hjg_u32 n, int64_t number)
{
	hjg_u32		low = 0;

	while (n > 0)
	{
		const hjg_u32 half = n / 2;

		if (set[low + half] < number)
		{
			low += half + 1;
			n -= half + 1;
		}
		else if (set[low + half] > number)
			n = half;
		else
			return 1;
	}
	return 0;
}

HJG_PROGRAM_STEP hjg_u32
hjg_program_compare(hjg_u32 op, int64_t left, int64_t right)
{
	switch (op)
	{
		case HJG_PROGRAM_EQ:
			return left == right;
		case HJG_PROGRAM_NE:
			return left != right;
		case HJG_PROGRAM_LT:
			return left < right;
		case HJG_PROGRAM_LE:
			return left <= right;
		case HJG_PROGRAM_GT:
			return left > right;
		default:
			return left >= right;
	}
}

/* Look a row up; returns whether it goes on. */
HJG_PROGRAM_STEP int
hjg_program_probe(const HjgKRecords *table, const HjgProgramStep *step, HjgProgramRow *row)
{
	const hjg_u32 key_bits = (hjg_u32) ((1ull << table->nkeys) - 1) << step->left;
	const hjg_u64 *record = 0;
	HjgProgramKey key;

	key.regs = row->regs + step->left * row->stride;
	key.list = 0;
	key.stride = row->stride;
	key.nkeys = table->nkeys;
	key.nulls = 0;
	if ((row->nulls & key_bits) == 0)
		record = hjg_program_find(table, &key);
	if (step->op == HJG_PROGRAM_PROBE_SEMI)
		return record != 0;
	if (step->op == HJG_PROGRAM_PROBE_ANTI)
		return record == 0;
	if (record == 0 && step->op == HJG_PROGRAM_PROBE_INNER)
		return 0;
	for (hjg_u32 p = 0; p < table->npayload; p++)
		if (record == 0)
			hjg_program_set(row, step->to + p, 0, 1);
		else
			hjg_program_set(row, step->to + p, record[HJG_K_RECORD_KEYS + table->nkeys + p], record[HJG_K_RECORD_NULLS] >> p & 1);
	return 1;
}

/* Apply the pipeline's steps to row row_ix of the columns; returns whether it comes to the sink. */
HJG_PROGRAM_STEP int
hjg_program_run(const HjgKPipeline *a, const HjgProgramStep *steps, const HjgKColumn *columns, hjg_u32 row_ix, HjgProgramRow *row)
{
	row->nulls = ~0u;
	for (hjg_u32 r = 0; r < a->nregisters; r++)
		row->regs[r * row->stride] = 0;
	for (hjg_u32 s = 0; s < a->nsteps; s++)
	{
		const HjgProgramStep *step = &steps[s];
		const int64_t left = row->regs[step->left * row->stride];
		const int64_t right = row->regs[step->right * row->stride];
		const hjg_u32 left_null = row->nulls >> step->left & 1;
		const hjg_u32 any_null = left_null | (row->nulls >> step->right & 1);

		switch (step->op)
		{
			case HJG_PROGRAM_COLUMN:
				hjg_program_column(&columns[step->arg], row_ix, row, step->to);
				break;
			case HJG_PROGRAM_GROUP:
				hjg_program_group_value(a, step->arg, row, step->to);
				break;
			case HJG_PROGRAM_ROW:
				hjg_program_set(row, step->to, (hjg_u64) row->segment * HJG_PROGRAM_MAX_SEGMENT_ROWS + row_ix, 0);
				break;
			case HJG_PROGRAM_CONSTANT:
				hjg_program_set(row, step->to, (hjg_u64) step->low, step->high != 0);
				break;
			case HJG_PROGRAM_ADD:
				hjg_program_set(row, step->to, (hjg_u64) left + (hjg_u64) right, any_null);
				break;
			case HJG_PROGRAM_SUBTRACT:
				hjg_program_set(row, step->to, (hjg_u64) left - (hjg_u64) right, any_null);
				break;
			case HJG_PROGRAM_MULTIPLY:
				hjg_program_set(row, step->to, (hjg_u64) left * (hjg_u64) right, any_null);
				break;
			case HJG_PROGRAM_NEGATE:
				hjg_program_set(row, step->to, 0 - (hjg_u64) left, left_null);
				break;
			case HJG_PROGRAM_MOVE_IF:
				if (left != 0)
					hjg_program_set(row, step->to, (hjg_u64) right, row->nulls >> step->right & 1);
				break;
			case HJG_PROGRAM_IN_RANGE:
				hjg_program_set(row, step->to, !left_null && step->low <= left && left <= step->high, 0);
				break;
			case HJG_PROGRAM_NOT_IN_RANGE:
				hjg_program_set(row, step->to, !left_null && !(step->low <= left && left <= step->high), 0);
				break;
			case HJG_PROGRAM_IN_SET:
			case HJG_PROGRAM_NOT_IN_SET:
				hjg_program_set(row, step->to,
								!left_null && hjg_program_in_set(HJG_PROGRAM_AT(const int64_t, a->sets) + step->arg, (hjg_u32) step->low, left) ==
								(step->op == HJG_PROGRAM_IN_SET), 0);
				break;
			case HJG_PROGRAM_IS_NULL:
				hjg_program_set(row, step->to, left_null, 0);
				break;
			case HJG_PROGRAM_IS_NOT_NULL:
				hjg_program_set(row, step->to, !left_null, 0);
				break;
			case HJG_PROGRAM_AND:
				hjg_program_set(row, step->to, left != 0 && right != 0, 0);
				break;
			case HJG_PROGRAM_OR:
				hjg_program_set(row, step->to, left != 0 || right != 0, 0);
				break;
			case HJG_PROGRAM_FILTER:
				if (left == 0)
					return 0;
				break;
			case HJG_PROGRAM_PROBE_INNER:
			case HJG_PROGRAM_PROBE_LEFT:
			case HJG_PROGRAM_PROBE_SEMI:
			case HJG_PROGRAM_PROBE_ANTI:
				if (!hjg_program_probe(&a->tables[step->arg], step, row))
					return 0;
				break;
			default:
				hjg_program_set(row, step->to, !any_null && hjg_program_compare(step->op, left, right), 0);
		}
	}
	return 1;
}

/* Is the row in one of the piece's runs, or a group? Notes where it comes from. */
HJG_PROGRAM_STEP int
hjg_program_sees(const HjgKPipeline *a, const HjgKPiece *piece, hjg_u32 row_ix, HjgProgramRow *row)
{
	const HjgProgramRun *runs = HJG_PROGRAM_AT(const HjgProgramRun, a->runs);
	hjg_u32		first = piece->first_run;
	hjg_u32		n = piece->nruns;

	if (row_ix < piece->first_row || row_ix >= piece->end_row)
		return 0;
	if (a->from_groups)
	{
		row->group = hjg_program_record(&a->source, row_ix);
		return row->group[0] != 0;
	}
	row->segment = piece->segment;
	if (n == 1)
		return 1;
	/* the last run that begins at the row or before it */
	while (n > 1)
	{
		const hjg_u32 half = n / 2;

		if (runs[first + half].first_row <= row_ix)
		{
			first += half;
			n -= half;
		}
		else
			n = half;
	}
	return row_ix >= runs[first].first_row && row_ix < runs[first].end_row;
}

/* ---- results ---- */

/* Get the number of a group that ascends in the order of the result; those of NULLs are not behind, or before, all others. */
HJG_PROGRAM_STEP hjg_u64
hjg_program_order(const HjgKResult *a, const HjgProgramRow *row)
{
	const hjg_u64 number = (hjg_u64) row->regs[a->order * row->stride] ^ (1ull << 63);

	if (!a->ordered)
		return 0;
	if (row->nulls >> a->order & 1)
		return a->nulls_first ? 0 : ~0ull;
	return a->descending ? ~number : number;
}

/* Write a group as hjg_program.h describes it. */
HJG_PROGRAM_STEP void
hjg_program_list(const HjgKResult *a, const hjg_u64 *record, hjg_u64 *words)
{
	const hjg_u32 nkeys = a->pipeline.source.nkeys;
	const hjg_u64 *values = record + HJG_K_RECORD_KEYS + nkeys;
	const hjg_u64 nrows = values[0];

	*words++ = nrows;
	for (hjg_u32 k = 0; k < nkeys; k++)
		*words++ = record[HJG_K_RECORD_KEYS + k];
	*words++ = record[HJG_K_RECORD_NULLS];
	for (hjg_u32 i = 0; i < a->narguments; i++, words += HJG_PROGRAM_ARGUMENT_WORDS)
	{
		const HjgKArgument argument = a->pipeline.arguments[i];
		const hjg_u64 nnulls = values[argument.nulls];
		const hjg_u64 low = argument.sum != 0 ? values[argument.sum] : 0;
		const int64_t high = argument.sum_parts > 1 ? (int64_t) values[argument.sum + 1] : 0;
		const hjg_u64 shifted = (hjg_u64) high << 32;

		words[0] = nnulls;
		words[1] = shifted + low;
		words[2] = argument.sum_parts > 1 ? (hjg_u64) (high >> 32) + (words[1] < shifted) : (hjg_u64) ((int64_t) low >> 63);
		words[3] = argument.extremes != 0 && nnulls < nrows ? values[argument.extremes] : 0;
		words[4] = argument.extremes != 0 && nnulls < nrows ? values[argument.extremes + 1] : 0;
	}
}

#endif							/* HJG_PROGRAM_STEPS_H */
