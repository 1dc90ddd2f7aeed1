/*
 * node_verify.c
 *	  Compares a sample of joins with core's (hjoin_gpu.verify).
 *
 * All rows that such a join reads from its children are kept in temporary files. When the node has returned its last row,
 * core's hash join joins these rows. The number and checksum of both results are compared: of the columns that are returned
 * or aggregated, before anything is computed from them. So this verifies keys, filters, engines, results, spill files, match
 * states and row stores; it does not verify how children were read, or what is computed from joined rows.
 *
 * A node that is not read to its end is not compared. Participants of a shared join keep their rows in files that all can
 * read, and add up the rows that they returned; the last one to finish compares. A participant that comes later finds no row
 * to join.
 *
 * After a difference no session chooses the node or leases a job until the statistics are reset (hjg_service_trusted()).
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "optimizer/clauses.h"

#include "base/hjg_base.h"
#include "base/hjg_compat.h"
#include "node/hjg_parallel.h"
#include "node/hjg_verify.h"

/* Rows of a file have a key; the key of these is not used. */
static const uint32 no_key = 0;

/* ---------- rows that are read ---------- */

static void
init_kept(HjgKeptRows *kept, const HjgSide *side, TupleDesc scan_desc)
{
	Bitmapset  *wanted = NULL;
	int			n = Max(side->nplan_columns, 1);
	int			column = -1;

	/* a key expression may read any column */
	for (int i = 0; i < side->keys.n; i++)
		wanted = side->keys.ix[i] >= 0 ? bms_add_member(wanted, side->keys.ix[i]) :
			bms_add_range(wanted, 0, side->nplan_columns - 1);
	for (int c = 0; c < side->payload.n; c++)
		wanted = bms_add_member(wanted, side->payload.child_ix[c]);
	kept->columns = palloc(n * sizeof(int));
	while ((column = bms_next_member(wanted, column)) >= 0)
		kept->columns[kept->ncolumns++] = column;
	bms_free(wanted);

	kept->desc = CreateTemplateTupleDesc(side->nplan_columns);
	for (int i = 0; i < side->nplan_columns; i++)
		TupleDescCopyEntry(kept->desc, i + 1, scan_desc, side->first_scan_ix + i + 1);
	kept->values = palloc0(n * sizeof(Datum));
	kept->isnull = palloc(n * sizeof(bool));
	kept->numerics = palloc(n * sizeof(HjgNumericSpace));
	memset(kept->isnull, true, n * sizeof(bool));
}

static HjgVerify *
make_verify(HjgJoinState *state)
{
	const TupleDesc scan_desc = state->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	HjgSide    *sides[HJG_SIDES] = {[HJG_SIDE_PROBE] = &state->outer,[HJG_SIDE_BUILD] = &state->inner};
	HjgVerify  *verify = palloc0(sizeof(HjgVerify));

	verify->columns = palloc((state->outer.payload.n + state->inner.payload.n + 1) * sizeof(HjgJoinedColumn));
	for (int s = 0; s < HJG_SIDES; s++)
	{
		HjgSide    *side = sides[s];

		init_kept(&verify->sides[s], side, scan_desc);
		verify->sides[s].join = state;
		verify->sides[s].side = (HjgSideId) s;
		side->kept = &verify->sides[s];
		/* semi and anti joins leave open which match of a row is found, and nobody reads it */
		if (s == HJG_SIDE_BUILD && (state->terms.jointype == JOIN_SEMI || state->terms.jointype == JOIN_ANTI))
			continue;
		if (s == HJG_SIDE_PROBE && HJG_IS_BUILD_ONLY(state->terms.jointype))
			continue;
		for (int c = 0; c < side->payload.n; c++)
			if (state->emit.target[s][c] >= 0)
				verify->columns[verify->ncolumns++] = (HjgJoinedColumn) {
					.type = side->payload.columns[c],
					.scan_ix = side->payload.scan_ix[c],
					.place = state->emit.target[s][c]
				};
	}
	return verify;
}

static void
set_verify(HjgJoinState *state, bool wanted)
{
	MemoryContext old = MemoryContextSwitchTo(state->css.ss.ps.state->es_query_cxt);

	if (wanted && state->verify == NULL)
		state->verify = make_verify(state);
	else if (!wanted)
	{
		state->verify = NULL;
		state->outer.kept = state->inner.kept = NULL;
	}
	MemoryContextSwitchTo(old);
}

/* Core's join is run by an executor of its own, which has no plans of subqueries. */
static bool
has_subplan(const HjgJoinState *state)
{
	return contain_subplans(list_nth(castNode(CustomScan, state->css.ss.ps.plan)->custom_exprs, HJG_EXPRS_JOIN_QUAL));
}

void
hjg_verify_begin(HjgJoinState *state)
{
	set_verify(state, hjg_verify_share > 0 && pg_prng_double(&pg_global_prng_state) < hjg_verify_share && !has_subplan(state));
}

void
hjg_verify_attach(HjgJoinState *state)
{
	set_verify(state, state->parallel->shared->verify.wanted);
}

static void
open_kept(HjgKeptRows *kept)
{
	const HjgJoinState *state = kept->join;
	const HjgParallel *parallel = state->parallel;
	MemoryContext old = MemoryContextSwitchTo(state->css.ss.ps.state->es_query_cxt);

	if (parallel != NULL)
		kept->spill = hjg_rows_spill_attach(hjg_parallel_kept_place(parallel->shared, kept->side), parallel->me, &parallel->shared->files,
											kept->desc, sizeof(no_key));
	else
		kept->spill = hjg_rows_spill_create(kept->desc, sizeof(no_key));
	MemoryContextSwitchTo(old);
}

static void
keep_row(HjgKeptRows *kept)
{
	if (kept->spill == NULL)
		open_kept(kept);
	hjg_rows_spill_write(kept->spill, &no_key, kept->values, kept->isnull);
}

void
hjg_verify_keep_row(const HjgSide *side, const Datum *values, const bool *isnull)
{
	HjgKeptRows *kept = side->kept;

	for (int i = 0; i < kept->ncolumns; i++)
	{
		kept->values[kept->columns[i]] = values[kept->columns[i]];
		kept->isnull[kept->columns[i]] = isnull[kept->columns[i]];
	}
	keep_row(kept);
}

void
hjg_verify_keep_vectors(const HjgSide *side, int first, int nrows)
{
	HjgKeptRows *kept = side->kept;

	for (int row = first; row < first + nrows; row++)
	{
		for (int i = 0; i < kept->ncolumns; i++)
		{
			const int	column = kept->columns[i];
			const HjgVector *vector = &side->page.vectors[column];

			kept->isnull[column] = hjg_vector_isnull(vector, row);
			kept->values[column] = kept->isnull[column] ? (Datum) 0 : hjg_vector_datum_in(vector, row, &kept->numerics[column]);
		}
		keep_row(kept);
	}
}

void
hjg_verify_forget(HjgJoinState *state, bool keep_build)
{
	HjgVerify  *verify = state->verify;

	if (verify == NULL)
		return;
	for (int s = 0; s < HJG_SIDES; s++)
	{
		if (s == HJG_SIDE_BUILD && keep_build)
			continue;
		hjg_rows_spill_free(verify->sides[s].spill);
		verify->sides[s].spill = NULL;
	}
	memset(&verify->tally, 0, sizeof(verify->tally));
	verify->over = false;
}

/* ---------- rows that are returned ---------- */

/* Add all rows of the vector to the tally. */
void
hjg_verify_note_vector(HjgJoinState *state)
{
	HjgVerify  *verify = state->verify;
	Datum	   *values = palloc((verify->ncolumns + 1) * sizeof(Datum));
	bool	   *isnull = palloc((verify->ncolumns + 1) * sizeof(bool));
	HjgNumericSpace *numerics = palloc((verify->ncolumns + 1) * sizeof(HjgNumericSpace));

	/* without columns a vector may have any number of rows */
	if (verify->ncolumns == 0)
		verify->tally.nrows += state->emit.n;
	for (int row = 0; row < state->emit.n && verify->ncolumns > 0; row++)
	{
		for (int c = 0; c < verify->ncolumns; c++)
		{
			const int	place = verify->columns[c].place;

			if (state->emit.columnar)
			{
				isnull[c] = hjg_vector_isnull(&state->emit.vectors[place], row);
				values[c] = isnull[c] ? (Datum) 0 : hjg_vector_datum_in(&state->emit.vectors[place], row, &numerics[c]);
			}
			else
			{
				isnull[c] = state->emit.isnull[row * state->emit.width + place];
				values[c] = state->emit.values[row * state->emit.width + place];
			}
		}
		hjg_tally_row(&verify->tally, verify, values, isnull);
	}
	pfree(numerics);
	pfree(values);
	pfree(isnull);
}

/* Add the row in the out slot to the tally. */
void
hjg_verify_note_row(HjgJoinState *state)
{
	HjgVerify  *verify = state->verify;
	const TupleTableSlot *slot = state->emit.slot;
	Datum	   *values = palloc((verify->ncolumns + 1) * sizeof(Datum));
	bool	   *isnull = palloc((verify->ncolumns + 1) * sizeof(bool));

	for (int c = 0; c < verify->ncolumns; c++)
	{
		values[c] = slot->tts_values[verify->columns[c].place];
		isnull[c] = slot->tts_isnull[verify->columns[c].place];
	}
	hjg_tally_row(&verify->tally, verify, values, isnull);
	pfree(values);
	pfree(isnull);
}

/* ---------- the comparison ---------- */

void
hjg_verify_enter(HjgJoinState *state)
{
	if (state->verify != NULL)
		pg_atomic_fetch_add_u32(&state->parallel->shared->verify.entered, 1);
}

/* Add this participant's tally to that of the others; true if all have finished and this one compares. */
static bool
add_up(HjgJoinState *state, HjgTally *tally)
{
	HjgParallelShared *shared = state->parallel->shared;
	HjgVerify  *verify = state->verify;

	for (int s = 0; s < HJG_SIDES; s++)
	{
		if (verify->sides[s].spill == NULL)
			open_kept(&verify->sides[s]);
		hjg_rows_spill_end_write(verify->sides[s].spill);
	}
	pg_atomic_fetch_add_u64(&shared->verify.nrows, verify->tally.nrows);
	pg_atomic_fetch_add_u64(&shared->verify.sum, verify->tally.sum);
	if (pg_atomic_add_fetch_u32(&shared->verify.left, 1) != pg_atomic_read_u32(&shared->verify.entered) ||
		pg_atomic_exchange_u32(&shared->verify.compared, 1) != 0)
		return false;
	tally->nrows = pg_atomic_read_u64(&shared->verify.nrows);
	tally->sum = pg_atomic_read_u64(&shared->verify.sum);
	return true;
}

static void
report_mismatch(const HjgJoinState *state, const HjgTally *ours, const HjgTally *core)
{
	const HjgReport *report = &state->report;

	hjg_service_count(HJG_COUNT_MISMATCHES, 1);
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("a join by %s differs from core's: it is switched off for all sessions", HJG_NODE_NAME),
			 errdetail("%s had " UINT64_FORMAT " rows with checksum %016llx, core's hash join " UINT64_FORMAT " rows with checksum %016llx. "
					   "It ran on %s.",
					   HJG_NODE_NAME, ours->nrows, (unsigned long long) ours->sum, core->nrows, (unsigned long long) core->sum,
					   report->device.kind != HJG_KIND_ANY ? psprintf("device \"%s\"", hjg_device_name(report->device).text) : "no device"),
			 errhint("Do not use the result of this statement. A superuser switches joins on again with hjoin_gpu_stat_reset().")));
}

void
hjg_verify_end(HjgJoinState *state)
{
	HjgVerify  *verify = state->verify;
	HjgTally	ours = verify->tally;
	HjgTally	core;

	if (verify->over)
		return;
	verify->over = true;
	if (state->parallel != NULL && !add_up(state, &ours))
		return;
	core = hjg_verify_by_core(state, verify);
	state->report.verified++;
	hjg_service_count(HJG_COUNT_VERIFIED, 1);
	if (ours.nrows == core.nrows && ours.sum == core.sum)
		return;
	state->report.mismatched++;
	report_mismatch(state, &ours, &core);
}
