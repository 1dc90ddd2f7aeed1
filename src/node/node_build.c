/*
 * node_build.c
 *	  A build pass: build rows in memory, and the keys that the engine makes its table of.
 */
#include "postgres.h"

#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "node/hjg_build.h"

/* Rows that a pass holds even when memory is short, unless they exceed the limit by HJG_MOST_OVERDRAFT. */
#define MIN_PASS_ROWS 64

void
hjg_build_open(HjgBuild *build, double expected_rows, HjgBuildShare *share)
{
	const HjgExecution *execution = build->execution;
	const HjgSide *side = build->side;
	HjgRun	   *run;

	build->context = AllocSetContextCreate(execution->estate->es_query_cxt, "GpuHashJoin build", ALLOCSET_DEFAULT_SIZES);
	run = build->run = hjg_run_create(execution, build->context, side->keys.codec->key_width);
	run->share = share;
	if (share != NULL)
		share->open_build(share, build);
	else
		build->rows = hjg_rows_store_create(build->context, side->payload.n, side->payload.columns,
											hjg_side_chunk_rows(side, expected_rows));
	run->build_rows = build->rows;
	build->match->shared = share != NULL;
	build->unmatched_next = 0;
	build->unmatched_end = 0;
}

void
hjg_build_close(HjgBuild *build)
{
	if (build->run != NULL)
		hjg_run_free(build->run);
	build->run = NULL;
	build->rows = NULL;			/* its memory is freed with the context, or is shared */
	build->match->build_bits = NULL;
	if (build->context != NULL)
		MemoryContextDelete(build->context);
	build->context = NULL;
}

void
hjg_build_reset(HjgBuild *build)
{
	hjg_build_close(build);
	if (build->null_rows != NULL)
		tuplestore_end(build->null_rows);
	build->null_rows = NULL;
}

void
hjg_build_rescan(HjgBuild *build)
{
	if (build->match->build_bits != NULL)
		memset(build->match->build_bits, 0, ((Size) build->run->build.nrows / 64 + 1) * sizeof(uint64));
	if (build->null_rows != NULL)
		tuplestore_rescan(build->null_rows);
	build->match->first_unmet = 0;
	build->unmatched_next = 0;
	build->unmatched_end = 0;
}

/* ---------- adding rows ---------- */

void
hjg_build_add_row(HjgBuild *build, const HjgRow *row)
{
	memcpy(hjg_run_build_key(build->run), row->key, build->run->key_width);
	hjg_rows_store_append(build->rows, row->source, row->values, row->isnull);
}

bool
hjg_build_add_vectors(HjgBuild *build)
{
	HjgSide    *side = build->side;
	const char *keys;
	int			first;
	int			n = hjg_side_next_vectors(side, HJG_MAX_VECTOR_ROWS, &keys, &first);

	if (n == 0)
		return false;
	while (n > 0)
	{
		/* in a shared pass row numbers are not contiguous where a segment ends */
		int			part = (int) Min((uint32) n, hjg_run_build_room(build->run));

		hjg_run_build_keys(build->run, keys, part);
		hjg_rows_store_append_vectors(build->rows, side->payload.child_ix, side->page.vectors, first, part);
		keys += (size_t) part * build->run->key_width;
		first += part;
		n -= part;
	}
	return true;
}

void
hjg_build_add_null(HjgBuild *build, const HjgRow *row)
{
	HjgSide    *side = build->side;
	const Datum *values;
	const bool *isnull;
	MemoryContext old;

	if (!build->execution->terms->preserved[HJG_SIDE_BUILD])
		return;
	if (build->null_rows == NULL)
	{
		old = MemoryContextSwitchTo(build->execution->estate->es_query_cxt);
		build->null_rows = tuplestore_begin_heap(false, false, work_mem);
		MemoryContextSwitchTo(old);
	}
	hjg_side_payload(side, row, &values, &isnull);
	tuplestore_putvalues(build->null_rows, side->payload.desc, unconstify(Datum *, values),
						 unconstify(bool *, isnull));
}

size_t
hjg_build_bytes(const HjgBuild *build)
{
	return hjg_rows_store_bytes(build->rows) + hjg_run_bytes(build->run);
}

bool
hjg_build_is_full(const HjgBuild *build)
{
	HjgRun	   *run = build->run;
	uint32		nrows = run->build.nrows;

	if (nrows < MIN_PASS_ROWS && hjg_build_bytes(build) / HJG_MOST_OVERDRAFT <= get_hash_memory_limit())
		return false;
	if (run->share != NULL)
		return run->share->is_full(run->share, hjg_build_bytes(build));
	return hjg_build_bytes(build) > get_hash_memory_limit() || nrows >= HJG_MAX_BUILD_ROWS - HJG_MAX_VECTOR_ROWS;
}

void
hjg_build_finish(HjgBuild *build)
{
	HjgRun	   *run = build->run;
	HjgMatchMode mode = hjg_match_start(build->match);

	if (build->execution->terms->track_build)
		build->match->build_bits = MemoryContextAllocExtended(build->context,
															  ((Size) run->build.nrows / 64 + 1) * sizeof(uint64),
															  MCXT_ALLOC_ZERO | MCXT_ALLOC_HUGE);
	hjg_run_build_done(run, mode);
	build->execution->report->build_rows += run->build.nrows;
}

/* ---------- rows without a match ---------- */

/* Claim more build rows to be checked. The holes between the ranges of a shared pass have their bits set. */
static bool
claim_unmatched(HjgBuild *build)
{
	HjgBuildShare   *share = build->run->share;
	const uint32 nrows = build->run->build_limit;

	if (share != NULL)
		return share->claim_unmatched(share, nrows, &build->unmatched_next, &build->unmatched_end);
	build->unmatched_next = build->unmatched_end;
	build->unmatched_end = nrows;
	return build->unmatched_next < nrows;
}

int
hjg_build_next_unmatched(HjgBuild *build, uint32 *rows, int max)
{
	const uint64 *bits = build->match->build_bits;
	int			n = 0;

	while (n < max && (build->unmatched_next < build->unmatched_end || claim_unmatched(build)))
	{
		if (!hjg_test_bit(bits, build->unmatched_next))
			rows[n++] = build->unmatched_next;
		if ((++build->unmatched_next & 0xFFFFF) == 0)
			CHECK_FOR_INTERRUPTS();
	}
	return n;
}

bool
hjg_build_next_null(HjgBuild *build)
{
	TupleTableSlot *slot = build->side->payload.slot;

	if (build->null_rows == NULL || !tuplestore_gettupleslot(build->null_rows, true, false, slot))
		return false;
	slot_getallattrs(slot);
	return true;
}
