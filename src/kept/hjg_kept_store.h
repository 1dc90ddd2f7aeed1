/*
 * hjg_kept_store.h
 *	  The head of the memory file of kept columns, for kept_store.c and kept_evict.c.
 *	  Internal to the room "kept".
 */
#ifndef HJG_KEPT_STORE_H
#define HJG_KEPT_STORE_H

#include "postgres.h"

#include "storage/lwlock.h"

#include "kept/hjg_kept.h"

/* Tables in the store; another one takes the place of the one whose last use is the oldest. */
#define HJG_KEPT_MAX_TABLES 1024

/* Programs that could not be run and are remembered. */
#define HJG_KEPT_REFUSED 256

struct HjgKeptTable
{
	Oid			tablespace;
	Oid			database;
	Oid			file;			/* InvalidOid: the entry is free */
	pg_atomic_uint32 holds;
	pg_atomic_uint64 served;	/* blocks */
	pg_atomic_uint64 live;
	pg_atomic_uint64 verified;
	uint64		used;			/* time of the last use, in holds */
	uint64		tries;			/* scans of columns that could not be kept */
	TimestampTz read_by[HJG_KEPT_MAX_ATTNO];	/* the statement that read each column first; 0: none */
	int32		nnot[HJG_KEPT_MAX_ATTNO];	/* segments made in which a column could not be kept, less those in which it could */
	bool		in_vain[HJG_KEPT_MAX_ATTNO];	/* the last scan of the column by segments found few that have it, and could make none */
	uint64		tries_in_vain;	/* scans of such columns */
	uint32		nsegments;		/* places for segments, */
	uint32		nkept;			/* of which so many are taken */
	dsa_pointer segments;		/* dsa_pointer[nsegments] */
};

typedef struct HjgKeptStore
{
	LWLock		lock;			/* protects all but atomics */
	pg_atomic_uint32 distrusted;
	pg_atomic_uint64 last_id;	/* of the columns made so far */
	pg_atomic_uint64 refused[HJG_KEPT_REFUSED];	/* programs that could not be run: number, then the time in seconds; the place is that of the number */
	uint64		time;
	uint32		ntables;		/* entries that were ever used */
	uint32		hand_table;
	uint32		hand_segment;
	dsa_pointer orphans;
	Oid			files[HJG_KEPT_MAX_TABLES];	/* of the tables: they are searched in few cache lines */
	HjgKeptTable tables[HJG_KEPT_MAX_TABLES];
} HjgKeptStore;

struct HjgKeptHold
{
	HjgKeptTable *table;
	uint32		steps_left;		/* that this scan may move the hand */
	int			npins;
	int			max_pins;		/* for which there is space */
	HjgKeptSegment **pinned;	/* in the hold's context */
	MemoryContextCallback release;
};

extern HjgKeptStore *hjg_kept_store;	/* NULL: there is none */

/* Get the place of a segment in its table: a patch is behind the segments that it is for. */
static inline uint32
hjg_kept_place(uint32 number)
{
	if ((number & HJG_KEPT_PATCH) != 0)
		return (number & ~HJG_KEPT_PATCH) * (HJG_KEPT_PATCHED + 1) + HJG_KEPT_PATCHED;
	return number + number / HJG_KEPT_PATCHED;
}

/* Get the segments of a table, by place. */
static inline dsa_pointer *
hjg_kept_segments_of(const HjgKeptTable *table)
{
	return hjg_kept_address(table->segments);
}

/* ---- kept_evict.c, under the lock ---- */

/* Take the segment at this place out of its table. */
extern void hjg_kept_unlink_segment(HjgKeptTable *table, uint32 place);
/* Free segments that were unlinked while they were pinned, and that nobody reads any more, of the last so many; true if there were any. */
extern bool hjg_kept_free_orphans(int most);
/* Drop a table's segments and free its entry. */
extern void hjg_kept_drop_table(HjgKeptTable *table);

#endif							/* HJG_KEPT_STORE_H */
