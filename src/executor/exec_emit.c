/*
 * exec_emit.c
 *	  Turning pairs of row numbers into rows of a slot.
 *
 * Rows are gathered from the row stores HJG_VECTOR_ROWS at a time, so that
 * cache misses overlap, straight into arrays that have the form of the output
 * slot's: handing out a row is pointing the slot at the next piece of them.  The output
 * slot is the scan slot; or, where nothing is evaluated above the join and the
 * projection only moves columns, the node's result slot (direct).
 *
 * A datum by reference points into a row store, or where rows are probed in place into
 * what the outer child gave us.  It stays valid until the batch is retired, which is
 * not before the node is asked for a row behind the batch's last.  A receiver that materialises the slot changes the vector's own copy
 * of a row that nobody reads again.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "executor/hjg_bits.h"
#include "executor/hjg_node.h"

/* Rows without columns that are handed out between two looks at interrupts. */
#define EMPTY_VECTOR_ROWS 8192

/* ---------- what a row looks like ---------- */

/*
 * A constant that stays as it is however often a row is handed out: a receiver that
 * materialises one by reference would leave a pointer to its own memory behind.  The
 * columns of a subquery that nobody reads are NULL constants.
 */
static bool
is_lasting_const(const Expr *expr)
{
	return IsA(expr, Const) && (((const Const *) expr)->constisnull || ((const Const *) expr)->constbyval);
}

/*
 * Map each carried column to its only place in a target list of plain columns and
 * constants; false when there is anything else in the list.
 */
static bool
map_targets(List *targetlist, int nscan, int *place_of)
{
	ListCell   *lc;

	for (int i = 0; i < nscan; i++)
		place_of[i] = -1;
	foreach(lc, targetlist)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Var		   *var = (Var *) tle->expr;

		if (is_lasting_const(tle->expr))
			continue;
		if (!IsA(var, Var) || var->varno != INDEX_VAR || var->varattno <= 0 || var->varattno > nscan ||
			place_of[var->varattno - 1] >= 0)
			return false;
		place_of[var->varattno - 1] = tle->resno - 1;
	}
	return true;
}

/* The constants of the target list, in all rows. */
static void
put_constants(HjgJoinState *state, List *targetlist)
{
	ListCell   *lc;

	foreach(lc, targetlist)
	{
		const TargetEntry *tle = lfirst_node(TargetEntry, lc);
		const Const *constant = (const Const *) tle->expr;

		if (!IsA(constant, Const))
			continue;
		for (int i = tle->resno - 1; i < HJG_VECTOR_ROWS * state->out_width; i += state->out_width)
		{
			state->out_values[i] = constant->constvalue;
			state->out_isnull[i] = constant->constisnull;
		}
	}
}

void
hjg_emit_init(HjgJoinState *state)
{
	PlanState  *ps = &state->css.ss.ps;
	HjgSide    *sides[2] = {&state->outer, &state->inner};
	int			nscan = state->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts;
	int		   *place_of = palloc(Max(nscan, 1) * sizeof(int));
	bool		moves;

	if (state->aggregation != NULL)
	{
		memcpy(place_of, hjg_aggregation_places(state->aggregation), nscan * sizeof(int));
		moves = true;
	}
	else
		moves = ps->ps_ProjInfo != NULL && map_targets(ps->plan->targetlist, nscan, place_of);

	state->program.residual = state->program.recheck_qual != NULL || state->program.pair_filter != NULL || state->program.join_qual != NULL;
	state->direct = !state->program.residual && ps->qual == NULL && (ps->ps_ProjInfo == NULL || moves);
	state->out_slot = state->direct && moves && state->aggregation == NULL ? ps->ps_ResultTupleSlot : state->css.ss.ss_ScanTupleSlot;
	state->out_width = state->out_slot->tts_tupleDescriptor->natts;
	for (int s = 0; s < 2; s++)
	{
		HjgSide    *side = sides[s];

		side->target = palloc(Max(side->ncarried, 1) * sizeof(int));
		for (int c = 0; c < side->ncarried; c++)
		{
			side->target[c] = state->direct && moves ? place_of[side->scan_ix[c]] : side->scan_ix[c];
			side->ntargets += side->target[c] >= 0 ? 1 : 0;
		}
	}
	pfree(place_of);

}

static void
make_rows(HjgJoinState *state)
{
	const PlanState *ps = &state->css.ss.ps;
	const Size	nvalues = HJG_VECTOR_ROWS * Max(state->out_width, 1);

	/* columns that are not carried stay NULL */
	state->out_values = palloc0(nvalues * sizeof(Datum));
	state->out_isnull = palloc(nvalues * sizeof(bool));
	memset(state->out_isnull, true, nvalues * sizeof(bool));
	if (state->out_slot == ps->ps_ResultTupleSlot)
		put_constants(state, ps->plan->targetlist);
}

void
hjg_emit_prepare(HjgJoinState *state)
{
	MemoryContext old;

	if (likely(state->vector_probe != NULL))
		return;
	old = MemoryContextSwitchTo(state->execution.work_context);
	state->vector_build = palloc(HJG_VECTOR_ROWS * sizeof(uint32));
	state->vector_pass = palloc(HJG_VECTOR_ROWS * sizeof(bool));
	if (!state->columnar)
		make_rows(state);
	if (state->vectors != NULL)
		hjg_chain_prepare(state);
	state->vector_probe = palloc(HJG_VECTOR_ROWS * sizeof(uint32));
	MemoryContextSwitchTo(old);
}

void
hjg_emit_forget(HjgJoinState *state)
{
	state->vector_n = state->vector_next = 0;
	state->vector_probe = NULL;
	state->vector_build = NULL;
	state->vector_places = NULL;
	state->vector_pass = NULL;
	state->out_values = NULL;
	state->out_isnull = NULL;
}

/* ---------- gathering ---------- */

/*
 * Where rows of a side are that have numbers: in a store, in vectors, or nowhere; or, gathered by the device,
 * in copies of the store's rows.
 */
typedef struct NumberedRows
{
	const HjgStore *store;
	const char *const *copies;	/* not NULL: of each row of the vector */
	const HjgVector *vectors;
	const uint16 *places;		/* row i is row places[i] of the vectors, or row i */
} NumberedRows;

static const NumberedRows no_rows = {NULL};

static NumberedRows
stored_rows(const HjgStore *store)
{
	return (NumberedRows) {.store = store};
}

/* A batch's rows that have a key, or those that have none. */
static NumberedRows
batch_rows(const HjgProbeBatch *batch, bool with_key)
{
	if (!batch->viewed)
		return stored_rows(with_key ? batch->rows : batch->null_rows);
	return (NumberedRows) {.vectors = batch->view.vectors,.places = with_key ? batch->view.rows : batch->view.null_rows};
}

static bool
is_sequence(const uint32 *rows, int n)
{
	uint32		differs = 0;

	for (int i = 0; i < n; i++)
		differs |= rows[i] ^ i;
	return differs == 0;
}

/*
 * Columns of rows that lie in vectors.  For a join above, a column of which all rows are
 * wanted in turn is handed on as it is.
 */
static void
gather_from_vectors(HjgJoinState *state, const HjgSide *side, const NumberedRows *from, const uint32 *rows, int n)
{
	bool		as_is = state->columnar && from->places == NULL && is_sequence(rows, n);
	uint32		placed[HJG_VECTOR_ROWS];

	if (from->places != NULL)
	{
		for (int i = 0; i < n; i++)
			placed[i] = from->places[rows[i]];
		rows = placed;
	}
	for (int c = 0; c < side->ncarried; c++)
	{
		const HjgVector *vector = &from->vectors[side->child_ix[c]];
		int			to = side->target[c];

		if (to < 0)
			continue;
		if (as_is)
			state->vectors[to] = *vector;
		else if (state->columnar)
		{
			state->vectors[to] = state->vector_space[to];
			hjg_vector_select(vector, rows, n, &state->vectors[to]);
		}
		else
			hjg_vector_gather(vector, rows, n, state->out_width, state->out_values + to, state->out_isnull + to);
	}
}

/* The side's vectors are memory of this node's own. */
static void
take_vector_space(HjgJoinState *state, const HjgSide *side)
{
	for (int c = 0; c < side->ncarried; c++)
		if (side->target[c] >= 0)
			state->vectors[side->target[c]] = state->vector_space[side->target[c]];
}

static void
gather_from_store(HjgJoinState *state, const HjgSide *side, const HjgStore *store, const uint32 *rows, int n)
{
	if (state->columnar)
	{
		take_vector_space(state, side);
		hjg_store_gather_vectors(store, rows, n, side->target, state->vectors);
	}
	else
		hjg_store_gather(store, rows, n, side->target, state->out_width, state->out_values, state->out_isnull);
}

static void
gather_from_copies(HjgJoinState *state, const HjgSide *side, const NumberedRows *from, int n)
{
	if (state->columnar)
	{
		take_vector_space(state, side);
		hjg_store_gather_copied_vectors(from->store, from->copies, n, side->target, state->vectors);
	}
	else
		hjg_store_gather_copies(from->store, from->copies, n, side->target, state->out_width, state->out_values,
								state->out_isnull);
}

static void
gather_nulls(HjgJoinState *state, const HjgSide *side, int n)
{
	for (int c = 0; c < side->ncarried; c++)
	{
		int			to = side->target[c];

		if (to < 0)
			continue;
		if (state->columnar)
		{
			state->vectors[to] = state->vector_space[to];
			hjg_vector_put_nulls(&state->vectors[to], n);
		}
		else
			for (int i = 0; i < n; i++)
				state->out_isnull[i * state->out_width + to] = true;
	}
}

/* The columns of one side in the vector's rows. */
static void
gather_side(HjgJoinState *state, const HjgSide *side, const NumberedRows *from, const uint32 *rows, int n)
{
	if (side->ntargets == 0)
		return;
	if (from->copies != NULL)
		gather_from_copies(state, side, from, n);
	else if (from->store != NULL)
		gather_from_store(state, side, from->store, rows, n);
	else if (from->vectors != NULL)
		gather_from_vectors(state, side, from, rows, n);
	else
		gather_nulls(state, side, n);
}

/* The n rows in vector_probe and vector_build become the vector. */
static void
gather_vector(HjgJoinState *state, NumberedRows probe_rows, NumberedRows build_rows, int n)
{
	CHECK_FOR_INTERRUPTS();
	gather_side(state, &state->outer, &probe_rows, state->vector_probe, n);
	gather_side(state, &state->inner, &build_rows, state->vector_build, n);
	state->vector_n = n;
	state->vector_next = 0;
}

bool
hjg_emit_counts_only(const HjgJoinState *state)
{
	return state->outer.ncarried + state->inner.ncarried == 0 && state->direct &&
		(!state->columnar || state->aggregation != NULL) && !state->match.on_host && state->match.build_bits == NULL;
}

bool
hjg_emit_pairs(HjgJoinState *state, HjgProbeBatch *batch)
{
	NumberedRows probe_rows;
	NumberedRows build_rows;
	int			n;

	if (hjg_emit_counts_only(state))
	{
		int			most = state->aggregation != NULL ? PG_INT32_MAX :
			state->out_width == 0 ? EMPTY_VECTOR_ROWS : HJG_VECTOR_ROWS;

		CHECK_FOR_INTERRUPTS();
		n = (int) Min(batch->npairs - state->pair_next, most);
		state->pair_next += n;
		state->vector_n = n;
		state->vector_next = 0;
		return n > 0;
	}

	n = hjg_match_next_pairs(state, batch);
	if (n == 0)
		return false;
	state->vector_pairs = state->program.residual;
	probe_rows = batch_rows(batch, true);
	build_rows = stored_rows(state->build.rows);
	if (batch->gathered & HJG_SIDE_BIT(HJG_SIDE_PROBE))
		probe_rows.copies = state->vector_places[HJG_SIDE_PROBE];
	if (batch->gathered & HJG_SIDE_BIT(HJG_SIDE_BUILD))
		build_rows.copies = state->vector_places[HJG_SIDE_BUILD];
	gather_vector(state, probe_rows, build_rows, n);
	if (state->program.pair_filter != NULL)
		hjg_pair_filter_rows(state->program.pair_filter, state->out_values, state->out_isnull, state->out_width, n,
							 state->vector_pass);
	return true;
}

bool
hjg_emit_unmatched_probe(HjgJoinState *state, HjgProbeBatch *batch)
{
	uint64		first;
	const uint64 *bits = hjg_match_probe_bits(state, batch, &first);
	int			n = 0;

	while (n < HJG_VECTOR_ROWS && state->tail_next < batch->nrows)
	{
		if (!hjg_test_bit(bits, first + state->tail_next))
			state->vector_probe[n++] = state->tail_next;
		state->tail_next++;
	}
	if (n == 0)
		return false;
	state->vector_pairs = false;
	gather_vector(state, batch_rows(batch, true), no_rows, n);
	return true;
}

bool
hjg_emit_null_keys(HjgJoinState *state, HjgProbeBatch *batch)
{
	uint32		nrows = batch->viewed ? (uint32) batch->view.nnull_rows :
		batch->null_rows != NULL ? hjg_store_nrows(batch->null_rows) : 0;
	int			n = 0;

	while (n < HJG_VECTOR_ROWS && state->null_next < nrows)
		state->vector_probe[n++] = state->null_next++;
	if (n == 0)
		return false;
	state->vector_pairs = false;
	gather_vector(state, batch_rows(batch, false), no_rows, n);
	return true;
}

bool
hjg_emit_unmatched_build(HjgJoinState *state)
{
	int			n;

	hjg_emit_prepare(state);
	n = hjg_build_next_unmatched(&state->build, state->vector_build, HJG_VECTOR_ROWS);
	if (n == 0)
		return false;
	state->vector_pairs = false;
	gather_vector(state, no_rows, stored_rows(state->build.rows), n);
	return true;
}

/* A vector of one row: the carried columns of one side, and NULLs. */
static void
emit_single(HjgJoinState *state, const HjgSide *side, const HjgSide *other, const Datum *values,
			const bool *isnull)
{
	CHECK_FOR_INTERRUPTS();
	hjg_emit_prepare(state);
	for (int c = 0; c < side->ncarried; c++)
	{
		int			to = side->target[c];

		if (to < 0)
			continue;
		if (state->columnar)
		{
			state->vectors[to] = state->vector_space[to];
			hjg_vector_put(&state->vectors[to], 0, values[c], isnull[c]);
		}
		else
		{
			state->out_values[to] = values[c];
			state->out_isnull[to] = isnull[c];
		}
	}
	gather_side(state, other, &no_rows, NULL, 1);
	state->vector_pairs = false;
	state->vector_n = 1;
	state->vector_next = 0;
}

bool
hjg_emit_null_probe(HjgJoinState *state)
{
	HjgRow		row;

	if (!hjg_partitions_next_null(&state->partitions, &row))
		return false;
	emit_single(state, &state->outer, &state->inner, row.values, row.isnull);
	return true;
}

bool
hjg_emit_null_build(HjgJoinState *state)
{
	TupleTableSlot *slot = state->inner.spill_slot;

	if (!hjg_build_next_null(&state->build))
		return false;
	emit_single(state, &state->inner, &state->outer, slot->tts_values, slot->tts_isnull);
	return true;
}
