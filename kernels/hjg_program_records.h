/*
 * hjg_program_records.h
 *	  Hash tables and groups of a program (layout/hjg_program.h): records that rows are looked up in, entered into and added to.  In
 *	  the common subset of CUDA and C, so that a device emulated on the host runs the same text.
 *
 * Open addressing: a key is in the first record from its home that was empty, at most HJG_RECORD_VISITS away.  A record's head
 * tells its state, its NULLs and most of the hash.  Who finds it empty claims it by compare-and-swap, writes the record, and then
 * declares it ready; others with the same hash come again until it is.  They do not wait in a loop of their own: threads of a warp
 * that claim a record have written it when the others look again.  Records never become empty again.
 */
#ifndef HJG_PROGRAM_RECORDS_H
#define HJG_PROGRAM_RECORDS_H

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
#define HJG_CELL_ADD_FLOAT(p, v) atomicAdd((double *) (p), hjg_program_double(v))
#else
#define HJG_PROGRAM_STEP static inline __attribute__((always_inline))
#define HJG_CELL_LOAD(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define HJG_CELL_STORE(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define HJG_CELL_FENCE() ((void) 0)	/* loads acquire, and stores release */
#define HJG_CELL_CLAIM(p, v) __sync_val_compare_and_swap(p, (hjg_u64) 0, v)
#define HJG_CELL_ADD(p, v) ((void) __atomic_fetch_add(p, v, __ATOMIC_RELAXED))
#define HJG_CELL_MIN(p, v) hjg_program_replace(p, v, 1)
#define HJG_CELL_MAX(p, v) hjg_program_replace(p, v, 0)
#define HJG_CELL_ADD_FLOAT(p, v) hjg_program_increase(p, v)
#endif

/* ---- floats ---- */

typedef union HjgProgramFloat
{
	double		wide;
	int64_t		bits;
	float		narrow;
	int32_t		narrow_bits;
} HjgProgramFloat;

HJG_PROGRAM_STEP double
hjg_program_double(hjg_u64 bits)
{
	HjgProgramFloat value;

	value.bits = (int64_t) bits;
	return value.wide;
}

/* Add two doubles, as bits. */
HJG_PROGRAM_STEP hjg_u64
hjg_program_add_floats(hjg_u64 a, hjg_u64 b)
{
	HjgProgramFloat sum;

	sum.wide = hjg_program_double(a) + hjg_program_double(b);
	return (hjg_u64) sum.bits;
}

/* Find the number of a float; see HJG_PROGRAM_FLOAT. */
HJG_PROGRAM_STEP int64_t
hjg_program_float(int64_t bits, int64_t nbytes)
{
	HjgProgramFloat value;

	value.bits = bits;
	if (nbytes == 4)
	{
		value.narrow_bits = (int32_t) bits;
		value.wide = value.narrow;
	}
	return value.wide != value.wide ? INT64_MAX : HJG_PROGRAM_FLOAT_BITS(value.bits);
}

#ifndef __CUDACC__
/* Add a double, as bits, to one that others add to at the same time. */
HJG_PROGRAM_STEP void
hjg_program_increase(hjg_u64 *value, hjg_u64 by)
{
	hjg_u64		old = HJG_CELL_LOAD(value);

	while (!__atomic_compare_exchange_n(value, &old, hjg_program_add_floats(old, by), 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* Replace a number by a less, or a greater, one. */
HJG_PROGRAM_STEP void
hjg_program_replace(hjg_u64 *value, hjg_u64 by, int less)
{
	hjg_u64		old = HJG_CELL_LOAD(value);

	while ((less ? (int64_t) by < (int64_t) old : (int64_t) by > (int64_t) old) &&
		   !__atomic_compare_exchange_n(value, &old, by, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}
#endif

#define HJG_PROGRAM_AT(type, address) ((type *) (size_t) (address))

/*
 * Most records that a search visits.  At half load, for which tables are made, one key in a billion needs a hundred; where there are more keys than
 * expected, a table is full at seven tenths, before each further one takes long.
 */
#define HJG_RECORD_VISITS 256u
#define HJG_NEAR_VISITS 8u		/* of a block's own table */

/* The head of a record: its state, a bit for each NULL (of groups, of the keys; otherwise of the payload), and a part of the key's hash. */
#define HJG_RECORD_CLAIMED 1ull
#define HJG_RECORD_READY 2ull
#define HJG_RECORD_FIRST_NULL 2
#define HJG_RECORD_NULLS (0xFFFFull << HJG_RECORD_FIRST_NULL)
#define HJG_RECORD_HASH (~0ull << 18)
#if HJG_PROGRAM_MAX_PAYLOAD > 16 || HJG_PROGRAM_MAX_KEYS > 16
#error "a head has bits for fewer NULLs"
#endif

typedef struct HjgProgramRow
{
	int64_t    *regs;
	hjg_u32		stride;
	hjg_u32		nulls;			/* a bit for each register */
	hjg_u32		segment;		/* number of the segment that it comes from */
	const hjg_u64 *group;		/* or the record of the group that it is */
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

/* Add key k to the hash of those before; the first one is added to the bits of the NULLs. */
HJG_PROGRAM_STEP hjg_u64
hjg_program_hash_next(hjg_u64 hash, hjg_u64 key, hjg_u32 k)
{
	return hjg_mix64(hjg_hash_seed, key ^ (hash + (hjg_u64) 0x9e3779b97f4a7c15 * k));
}

HJG_PROGRAM_STEP hjg_u64
hjg_program_hash(const HjgProgramKey *key)
{
	hjg_u64		hash = key->nulls;

	for (hjg_u32 k = 0; k < key->nkeys; k++)
		hash = hjg_program_hash_next(hash, hjg_program_key_at(key, k), k);
	return hash;
}

HJG_PROGRAM_STEP hjg_u64 *
hjg_program_record(const HjgKRecords *table, hjg_u32 slot)
{
	return HJG_PROGRAM_AT(hjg_u64, table->records) + (hjg_u64) slot * table->record_words;
}

/* Get the bits of a ready record's NULLs. */
HJG_PROGRAM_STEP hjg_u32
hjg_program_nulls(const hjg_u64 *record)
{
	return (hjg_u32) (record[0] >> HJG_RECORD_FIRST_NULL) & 0xFFFF;
}

/* A group of a complete table. */
typedef struct HjgProgramGroup
{
	const hjg_u64 *keys;
	const hjg_u64 *values;
	hjg_u32		nulls;			/* a bit for each key */
} HjgProgramGroup;

HJG_PROGRAM_STEP HjgProgramGroup
hjg_program_group(const HjgKRecords *table, const hjg_u64 *record)
{
	const hjg_u64 *keys = record + HJG_K_RECORD_KEYS;
	const HjgProgramGroup group = {keys, keys + table->nkeys, hjg_program_nulls(record)};

	return group;
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

/* Find the record of a key with this hash in a complete table; NULL if there is none. */
HJG_PROGRAM_STEP const hjg_u64 *
hjg_program_find(const HjgKRecords *table, const HjgProgramKey *key, hjg_u64 hash)
{
	const hjg_u64 ready = (hash & HJG_RECORD_HASH) | HJG_RECORD_READY;
	hjg_u32		slot = hjg_program_home(table, hash);

	for (hjg_u32 visit = 0; visit < HJG_RECORD_VISITS && visit < table->nslots; visit++)
	{
		const hjg_u64 *record = hjg_program_record(table, slot);

		if (record[0] == 0)
			return 0;
		if ((record[0] & ~HJG_RECORD_NULLS) == ready)
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
	/* the bits of INT64_MIN are those of -0, which changes no sum */
	return kind == HJG_K_LEAST ? (hjg_u64) INT64_MAX : kind == HJG_K_GREATEST || kind == HJG_K_SUM_FLOATS ? (hjg_u64) INT64_MIN : 0;
}

/* Compute a row's contribution to a value. */
HJG_PROGRAM_STEP hjg_u64
hjg_program_share(HjgKValue value, const HjgProgramRow *row)
{
	/* without a row no value is payload */
	/* cppcheck-suppress ctunullpointer */
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
		case HJG_K_SUM_FLOATS:
			return isnull ? hjg_program_neutral(value.kind) : (hjg_u64) HJG_PROGRAM_FLOAT_BITS(number);
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
		case HJG_K_SUM_FLOATS:
			return hjg_program_add_floats(a, b);
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
		case HJG_K_SUM_FLOATS:
			HJG_CELL_ADD_FLOAT(value, share);
			break;
		default:
			if (share != 0)
				HJG_CELL_ADD(value, share);
	}
}

/*
 * Find the record of a key with this hash, or make it: with the payload of the row, or without rows.  NULL: there is no room within most visits.
 * *made: the record is new.  nulls: the bits that a new record gets.
 */
HJG_PROGRAM_STEP hjg_u64 *
hjg_program_enter(const HjgKPipeline *a, const HjgKRecords *table, const HjgProgramKey *key, hjg_u64 hash, const HjgProgramRow *row, hjg_u64 nulls,
				  hjg_u32 most, int *made)
{
	const hjg_u64 claimed = (hash & HJG_RECORD_HASH) | HJG_RECORD_CLAIMED;
	const hjg_u64 ready = (hash & HJG_RECORD_HASH) | nulls << HJG_RECORD_FIRST_NULL | HJG_RECORD_READY;
	/* NULLs are a part of a group's key */
	const hjg_u64 compared = a->groups ? ~0ull : ~HJG_RECORD_NULLS;
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
		if ((word & compared) == (ready & compared))
		{
			HJG_CELL_FENCE();
			if (hjg_program_has_key(record, key))
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

/* Enter a row, whose key has this hash, into the hash table that the pipeline fills; returns flags. */
HJG_PROGRAM_STEP hjg_u32
hjg_program_fill(const HjgKPipeline *a, const HjgProgramRow *row, const HjgProgramKey *key, hjg_u64 hash)
{
	hjg_u64		nulls = 0;
	int			made;

	for (hjg_u32 v = 0; v < a->nvalues; v++)
		nulls |= (hjg_u64) (row->nulls >> a->values[v].reg & 1) << v;
	if (hjg_program_enter(a, &a->sink, key, hash, row, nulls, HJG_RECORD_VISITS, &made) == 0)
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
	key.nulls = hjg_program_nulls(record);
	group = hjg_program_enter(a, &a->sink, &key, hjg_program_hash(&key), 0, key.nulls, HJG_RECORD_VISITS, &made);
	if (group == 0)
		return HJG_K_TABLE_FULL;
	for (hjg_u32 v = 0; v < a->nvalues; v++)
		hjg_program_add(a->values[v].kind, &group[HJG_K_RECORD_KEYS + key.nkeys + v], record[HJG_K_RECORD_KEYS + key.nkeys + v]);
	return 0;
}

#endif							/* HJG_PROGRAM_RECORDS_H */
