/*
 * kept_store.c
 *	  Tables and segments of kept columns, and who holds what of them; their memory is that of kept_memory.c.
 *
 * A scan holds its table and pins the segments that it reads. A segment that is dropped or replaced while pinned becomes an orphan,
 * which is freed when a segment is made, or memory is needed. Holds and pins end by a callback of the memory context in which the hold was
 * made, which runs after errors, too. It frees nothing, so it needs no lock.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/catalog.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/hjg_compat.h"
#include "kept/hjg_kept.h"
#include "kept/hjg_kept_memory.h"
#include "kept/hjg_kept_store.h"

/* Rounds of the hand that spare a segment which was just used. */
#define MOST_RECENT 3

/* Segments for whose pins a hold has space at first; an ordinary scan needs no more. */
#define FEW_PINS 4

/* Orphans that are looked at whenever a segment is made: those before them may be read for long. */
#define FEW_ORPHANS 16

/* Segments that are looked at to estimate how much is kept. */
#define MOST_SAMPLED 32

/* A program that could not be run is not planned again for so long. */
#define REFUSED_SECONDS 600

/* A full store may not have place for a table; its scans look every so often whether that has changed. */
#define TRY_EVERY 16

uint64
hjg_kept_new_id(void)
{
	return pg_atomic_add_fetch_u64(&hjg_kept_store->last_id, 1);
}

/* ---------- programs that could not be run ---------- */

static uint32
seconds_now(void)
{
	return (uint32) (GetCurrentTimestamp() / USECS_PER_SEC);
}

void
hjg_kept_note_refused(uint32 program)
{
	if (hjg_kept_store != NULL)
		pg_atomic_write_u64(&hjg_kept_store->refused[program % HJG_KEPT_REFUSED], (uint64) program << 32 | seconds_now());
}

bool
hjg_kept_was_refused(uint32 program)
{
	uint64		noted;

	if (hjg_kept_store == NULL)
		return false;
	noted = pg_atomic_read_u64(&hjg_kept_store->refused[program % HJG_KEPT_REFUSED]);
	return noted >> 32 == program && seconds_now() - (uint32) noted < REFUSED_SECONDS;
}

/* ---------- holds ---------- */

void
hjg_kept_distrust(void)
{
	pg_atomic_write_u32(&hjg_kept_store->distrusted, 1);
}

bool
hjg_kept_trusted(void)
{
	return pg_atomic_read_u32(&hjg_kept_store->distrusted) == 0;
}

bool
hjg_kept_allows(Relation relation)
{
	return hjg_kept_store != NULL && hjg_kept_trusted() && relation->rd_rel->relkind != RELKIND_SEQUENCE && relation->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT &&
		!IsCatalogRelation(relation) && !IsToastRelation(relation) &&
		relation->rd_createSubid == InvalidSubTransactionId && !HJG_HAS_NEW_FILE(relation) &&
		!RecoveryInProgress() && !HJG_SNAPSHOTS_AGE;
}

static void
release_hold(void *arg)
{
	HjgKeptHold *hold = arg;

	hjg_kept_unpin_all(hold);
	pg_atomic_fetch_sub_u32(&hold->table->holds, 1);
}

static bool
is_entry_of(const HjgKeptTable *table, Relation relation)
{
	return table->file == HJG_FILE_OF(relation) && table->tablespace == HJG_TABLESPACE_OF(relation) && table->database == HJG_DATABASE_OF(relation);
}

/* Find the entry of a relation, or NULL. */
static HjgKeptTable *
find_entry(Relation relation)
{
	for (uint32 i = 0; i < hjg_kept_store->ntables; i++)
		if (hjg_kept_store->files[i] == HJG_FILE_OF(relation) && is_entry_of(&hjg_kept_store->tables[i], relation))
			return &hjg_kept_store->tables[i];
	return NULL;
}

/* Find an entry that may be taken: a free one, or the one of the oldest use. NULL: all are held. */
static HjgKeptTable *
find_free_entry(void)
{
	HjgKeptTable *oldest = NULL;

	for (uint32 i = 0; i < hjg_kept_store->ntables; i++)
	{
		HjgKeptTable *table = &hjg_kept_store->tables[i];

		if (!OidIsValid(table->file))
			return table;
		if (pg_atomic_read_u32(&table->holds) == 0 && (oldest == NULL || table->used < oldest->used))
			oldest = table;
	}
	return hjg_kept_store->ntables < HJG_KEPT_MAX_TABLES ? &hjg_kept_store->tables[hjg_kept_store->ntables++] : oldest;
}

static void
init_entry(HjgKeptTable *table, Relation relation)
{
	if (OidIsValid(table->file))
		hjg_kept_drop_table(table);
	memset(table, 0, sizeof(*table));
	table->tablespace = HJG_TABLESPACE_OF(relation);
	table->database = HJG_DATABASE_OF(relation);
	table->file = hjg_kept_store->files[table - hjg_kept_store->tables] = HJG_FILE_OF(relation);
	pg_atomic_init_u32(&table->holds, 0);
	pg_atomic_init_u64(&table->served, 0);
	pg_atomic_init_u64(&table->live, 0);
	pg_atomic_init_u64(&table->verified, 0);
	table->segments = InvalidDsaPointer;
}

HjgKeptHold *
hjg_kept_hold(Relation relation)
{
	HjgKeptHold *hold;
	HjgKeptTable *table;

	if (!hjg_kept_allows(relation))
		return NULL;
	hold = palloc0(sizeof(HjgKeptHold));
	hold->max_pins = FEW_PINS;
	hold->pinned = palloc(FEW_PINS * sizeof(HjgKeptSegment *));
	hjg_kept_memory_attach();
	LWLockAcquire(&hjg_kept_store->lock, LW_EXCLUSIVE);
	table = find_entry(relation);
	if (table == NULL)
	{
		table = find_free_entry();
		if (table != NULL)
			init_entry(table, relation);
	}
	if (table != NULL)
	{
		table->used = ++hjg_kept_store->time;
		pg_atomic_fetch_add_u32(&table->holds, 1);
		hold->table = table;
		hold->steps_left = 64 + table->nsegments / 16;
		hold->release.func = release_hold;
		hold->release.arg = hold;
		MemoryContextRegisterResetCallback(CurrentMemoryContext, &hold->release);
	}
	LWLockRelease(&hjg_kept_store->lock);
	return hold->table != NULL ? hold : NULL;
}

bool
hjg_kept_note_read(HjgKeptHold *hold, int ncolumns, const AttrNumber *attnos, TimestampTz statement)
{
	bool		before = true;
	bool		hopeless = false;

	LWLockAcquire(&hjg_kept_store->lock, LW_EXCLUSIVE);
	for (int c = 0; c < ncolumns; c++)
	{
		TimestampTz *read_by = &hold->table->read_by[attnos[c] - 1];

		if (*read_by == 0)
			*read_by = statement;
		before &= *read_by != statement;
		hopeless |= hold->table->nnot[attnos[c] - 1] > 0;
	}
	/* a column that could not be kept is tried again now and then */
	before &= !hopeless || hold->table->tries++ % TRY_EVERY == 0;
	LWLockRelease(&hjg_kept_store->lock);
	return before;
}

/* Find a segment of a table, under the lock; NULL if it is not kept. */
static HjgKeptSegment *
find_segment(const HjgKeptTable *table, uint32 number)
{
	const uint32 place = hjg_kept_place(number);

	return place < table->nsegments && DsaPointerIsValid(hjg_kept_segments_of(table)[place]) ?
		hjg_kept_address(hjg_kept_segments_of(table)[place]) : NULL;
}

/* Does a segment have all of these columns? */
static bool
has_columns(const HjgKeptSegment *segment, Relation relation, int ncolumns, const AttrNumber *attnos, bool coded)
{
	for (int i = 0; i < ncolumns; i++)
	{
		const Oid	type = TupleDescAttr(RelationGetDescr(relation), attnos[i] - 1)->atttypid;
		int			c = 0;

		while (c < segment->ncolumns && (segment->columns[c].attno != attnos[i] || segment->columns[c].type != type))
			c++;
		if (c == segment->ncolumns || segment->columns[c].code == HJG_KEPT_NOT || (coded && segment->columns[c].code == HJG_KEPT_BYTES))
			return false;
	}
	return true;
}

HjgKeptShares
hjg_kept_shares(Relation relation, BlockNumber nblocks, int ncolumns, const AttrNumber *attnos, bool coded)
{
	const uint32 nsegments = hjg_kept_count_segments(nblocks);
	const uint32 step = (nsegments + MOST_SAMPLED - 1) / MOST_SAMPLED;
	const HjgKeptTable *table;
	int			nsampled = 0;
	int			nfound = 0;
	int			nkept = 0;
	double		nfit = 0;
	double		nsettled = 0;

	if (nsegments == 0 || !hjg_kept_allows(relation))
		return (HjgKeptShares) {0};
	hjg_kept_memory_attach();
	LWLockAcquire(&hjg_kept_store->lock, LW_SHARED);
	table = find_entry(relation);
	for (uint32 i = 0; table != NULL && table->nkept > 0 && i < nsegments; i += step)
	{
		const HjgKeptSegment *segment = find_segment(table, i);
		const HjgKeptSegment *patch = find_segment(table, hjg_kept_patch(i));
		HjgKeptBlocks fit;

		nsampled++;
		if (segment == NULL)
			continue;
		fit = hjg_kept_fit_blocks(segment);
		nfound += has_columns(segment, relation, ncolumns, attnos, coded);
		nkept += segment->nblocks;
		nfit += hjg_kept_blocks_count(&fit);
		for (int w = 0; w < HJG_KEPT_BLOCK_WORDS; w++)
			fit.words[w] &= segment->settled.words[w];
		nsettled += hjg_kept_blocks_count(&fit);
		if (patch != NULL && has_columns(patch, relation, ncolumns, attnos, coded))
		{
			fit = hjg_kept_fit_blocks(patch);
			nfit += (double) hjg_kept_blocks_count(&fit) / HJG_KEPT_PATCHED;
			nsettled += (double) hjg_kept_blocks_count(&fit) / HJG_KEPT_PATCHED;
		}
	}
	LWLockRelease(&hjg_kept_store->lock);
	return (HjgKeptShares) {
		.kept = (double) nfound / Max(nsampled, 1), .fit = Min(nfit / Max(nkept, 1), 1), .settled = nsettled / Max(nkept, 1)
	};
}

bool
hjg_kept_promises(HjgKeptHold *hold, Relation relation, BlockNumber nblocks, int ncolumns, const AttrNumber *attnos)
{
	bool		promises = true;

	if (hjg_kept_shares(relation, nblocks, ncolumns, attnos, false).kept >= HJG_KEPT_LEAST_SHARE)
		return true;
	LWLockAcquire(&hjg_kept_store->lock, LW_EXCLUSIVE);
	for (int c = 0; c < ncolumns; c++)
		promises &= !hold->table->in_vain[attnos[c] - 1];
	promises = promises || hold->table->tries_in_vain++ % TRY_EVERY == 0;
	LWLockRelease(&hjg_kept_store->lock);
	return promises;
}

void
hjg_kept_note_scan(HjgKeptHold *hold, int ncolumns, const AttrNumber *attnos, bool in_vain)
{
	LWLockAcquire(&hjg_kept_store->lock, LW_EXCLUSIVE);
	for (int c = 0; c < ncolumns; c++)
		hold->table->in_vain[attnos[c] - 1] = in_vain;
	LWLockRelease(&hjg_kept_store->lock);
}

void
hjg_kept_count(HjgKeptHold *hold, uint64 served, uint64 live, uint64 verified)
{
	pg_atomic_fetch_add_u64(&hold->table->served, served);
	pg_atomic_fetch_add_u64(&hold->table->live, live);
	pg_atomic_fetch_add_u64(&hold->table->verified, verified);
}

/* ---------- segments ---------- */

/* Have space for another pin, so that noting it cannot fail; false if there is no memory. */
static bool
reserve_pin(HjgKeptHold *hold)
{
	HjgKeptSegment **larger;

	if (hold->npins < hold->max_pins)
		return true;
	larger = MemoryContextAllocExtended(GetMemoryChunkContext(hold), 2 * hold->max_pins * sizeof(HjgKeptSegment *), MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
	if (larger == NULL)
		return false;
	memcpy(larger, hold->pinned, hold->npins * sizeof(HjgKeptSegment *));
	pfree(hold->pinned);
	hold->pinned = larger;
	hold->max_pins *= 2;
	return true;
}

static void
add_pin(HjgKeptHold *hold, HjgKeptSegment *segment)
{
	Assert(hold->npins < hold->max_pins);
	hold->pinned[hold->npins++] = segment;
}

HjgKeptSegment *
hjg_kept_pin(HjgKeptHold *hold, uint32 number)
{
	HjgKeptSegment *segment;

	if (!reserve_pin(hold))
		return NULL;
	LWLockAcquire(&hjg_kept_store->lock, LW_SHARED);
	segment = find_segment(hold->table, number);
	if (segment != NULL)
	{
		pg_atomic_fetch_add_u32(&segment->pins, 1);
		add_pin(hold, segment);
	}
	LWLockRelease(&hjg_kept_store->lock);
	return segment;
}

void
hjg_kept_note_use(HjgKeptSegment *segment)
{
	pg_atomic_write_u32(&segment->recent, MOST_RECENT);
}

bool
hjg_kept_used_lately(HjgKeptSegment *segment)
{
	return pg_atomic_read_u32(&segment->recent) > 0;
}

void
hjg_kept_unpin(HjgKeptHold *hold, HjgKeptSegment *segment)
{
	for (int i = hold->npins - 1; i >= 0; i--)
		if (hold->pinned[i] == segment)
		{
			hold->pinned[i] = hold->pinned[--hold->npins];
			pg_atomic_fetch_sub_u32(&segment->pins, 1);
			return;
		}
	Assert(false);
}

void
hjg_kept_unpin_all(HjgKeptHold *hold)
{
	while (hold->npins > 0)
		pg_atomic_fetch_sub_u32(&hold->pinned[--hold->npins]->pins, 1);
}

/* Have places for segments up to this one; false if there is no memory. */
static bool
extend_table(HjgKeptTable *table, uint32 place)
{
	const uint32 nsegments = Max(place + 1, table->nsegments + table->nsegments / 4);
	dsa_pointer larger;
	dsa_pointer *segments;
	bool		full;

	if (place < table->nsegments)
		return true;
	larger = hjg_kept_memory_take(nsegments * sizeof(dsa_pointer), &full);
	if (!DsaPointerIsValid(larger))
		return false;
	segments = hjg_kept_address(larger);
	for (uint32 i = 0; i < nsegments; i++)
		segments[i] = i < table->nsegments ? hjg_kept_segments_of(table)[i] : InvalidDsaPointer;
	if (table->nsegments > 0)
		hjg_kept_free(table->segments, table->nsegments * sizeof(dsa_pointer));
	table->segments = larger;
	table->nsegments = nsegments;
	return true;
}

HjgKeptSegment *
hjg_kept_publish(HjgKeptHold *hold, dsa_pointer made)
{
	HjgKeptSegment *segment = hjg_kept_address(made);
	HjgKeptTable *table = hold->table;
	const uint32 place = hjg_kept_place(segment->number);
	const bool	reserved = reserve_pin(hold);
	bool		extended;

	pg_atomic_init_u32(&segment->pins, 1);
	pg_atomic_init_u32(&segment->recent, MOST_RECENT);
	LWLockAcquire(&hjg_kept_store->lock, LW_EXCLUSIVE);
	/* segments that were replaced before make room for those that are made next */
	hjg_kept_free_orphans(FEW_ORPHANS);
	extended = reserved && extend_table(table, place);
	if (extended)
	{
		if (find_segment(table, segment->number) != NULL)
			hjg_kept_unlink_segment(table, place);
		hjg_kept_segments_of(table)[place] = made;
		table->nkept++;
		for (int c = 0; c < segment->ncolumns; c++)
			table->nnot[segment->columns[c].attno - 1] += segment->columns[c].code == HJG_KEPT_NOT ? 1 : -1;
		add_pin(hold, segment);
	}
	LWLockRelease(&hjg_kept_store->lock);
	if (!extended)
		hjg_kept_free_segment(made);
	return extended ? segment : NULL;
}

void
hjg_kept_drop(HjgKeptHold *hold, const HjgKeptSegment *segment)
{
	HjgKeptTable *table = hold->table;

	LWLockAcquire(&hjg_kept_store->lock, LW_EXCLUSIVE);
	if (find_segment(table, segment->number) == segment)
		hjg_kept_unlink_segment(table, hjg_kept_place(segment->number));
	LWLockRelease(&hjg_kept_store->lock);
}

/* ---------- what is kept ---------- */

#define NCODES (HJG_KEPT_BYTES + 1)

static void
add_segment_use(HjgKeptUse *uses, const HjgKeptSegment *segment)
{
	const HjgKeptBlocks fit = hjg_kept_fit_blocks(segment);

	for (int c = 0; c < segment->ncolumns; c++)
	{
		const HjgKeptColumn *column = &segment->columns[c];
		HjgKeptUse *use = &uses[column->attno * NCODES + column->code];

		use->nsegments++;
		use->nblocks += hjg_kept_blocks_count(&fit);
		use->nrows += segment->nrows;
		use->nbytes += column->nbytes;
	}
}

void
hjg_kept_visit(void (*visit) (const HjgKeptUse *use, void *arg), void *arg)
{
	HjgKeptUse *uses = palloc((HJG_KEPT_MAX_ATTNO + 1) * NCODES * sizeof(HjgKeptUse));

	for (uint32 t = 0; hjg_kept_store != NULL && t < hjg_kept_store->ntables; t++)
	{
		HjgKeptTable *table = &hjg_kept_store->tables[t];

		hjg_kept_memory_attach();
		LWLockAcquire(&hjg_kept_store->lock, LW_SHARED);
		for (int i = 0; i < (HJG_KEPT_MAX_ATTNO + 1) * NCODES; i++)
			uses[i] = (HjgKeptUse) {
				.database = table->database, .tablespace = table->tablespace, .file = table->file, .attno = i / NCODES, .code = i % NCODES,
				.served = pg_atomic_read_u64(&table->served), .live = pg_atomic_read_u64(&table->live),
				.verified = pg_atomic_read_u64(&table->verified)
			};
		for (uint32 i = 0; OidIsValid(table->file) && i < table->nsegments; i++)
			if (DsaPointerIsValid(hjg_kept_segments_of(table)[i]))
				add_segment_use(uses, hjg_kept_address(hjg_kept_segments_of(table)[i]));
		LWLockRelease(&hjg_kept_store->lock);
		for (int i = 0; i < (HJG_KEPT_MAX_ATTNO + 1) * NCODES; i++)
			if (uses[i].nsegments > 0)
				visit(&uses[i], arg);
	}
	pfree(uses);
}
