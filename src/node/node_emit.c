/*
 * node_emit.c
 *	  Turning pairs of row numbers into rows of a slot, or into vectors.
 *
 * Rows are gathered from the row stores HJG_VECTOR_ROWS at a time, so that cache misses overlap, directly into arrays with
 * the output slot's columns: to return a row, the slot is pointed at the next part of them. The output slot is the scan slot,
 * or, if nothing is evaluated above the join and the projection only moves columns, the node's result slot (direct).
 *
 * Vectors have plain columns of the join only. If no qual is evaluated above the join, rows are gathered directly into them
 * (columnar). Otherwise they are gathered as rows and tested one by one, and those that pass are copied into vectors.
 *
 * A datum by reference points into a row store, or, if rows are probed in place, into memory of the outer child. It stays
 * valid until the batch is retired, at the earliest when the row after the batch's last one is requested. A numeric that was an
 * integer is in memory of this node, and valid until the next vector is made. A receiver that materialises the slot changes
 * only the vector's copy of a row, which is not read again.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "node/hjg_emit.h"

/* Rows without columns that are returned between two checks for interrupts. */
#define EMPTY_VECTOR_ROWS 8192

/* ---------- the form of a row ---------- */

/*
 * Is this a constant that does not change however often a row is returned? A receiver that materialises a constant by
 * reference would leave a pointer to its own memory. Unused columns of a subquery are NULL constants.
 */
static bool
is_lasting_const(const Expr *expr)
{
	return IsA(expr, Const) && (((const Const *) expr)->constisnull || ((const Const *) expr)->constbyval);
}

/*
 * Map each payload column to its only place in a target list of plain columns and constants; false if the list has anything
 * else.
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

void
hjg_emit_init(HjgEmit *emit, const CustomScanState *node)
{
	const HjgJoinTerms *terms = emit->execution->terms;
	const PlanState *ps = &node->ss.ps;
	int			nscan = node->ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts;
	int		   *place_of = palloc(Max(nscan, 1) * sizeof(int));
	const bool	moves = ps->ps_ProjInfo != NULL && map_targets(ps->plan->targetlist, nscan, place_of);

	emit->direct = !terms->residual && ps->qual == NULL && (ps->ps_ProjInfo == NULL || moves);
	emit->slot = node->ss.ss_ScanTupleSlot;
	if (emit->direct && moves)
	{
		emit->slot = ps->ps_ResultTupleSlot;
		emit->constants = ps->plan->targetlist;
	}
	emit->width = emit->slot->tts_tupleDescriptor->natts;
	for (int s = 0; s < HJG_SIDES; s++)
	{
		const HjgSide *side = emit->sides[s];

		emit->target[s] = palloc(Max(side->payload.n, 1) * sizeof(int));
		for (int c = 0; c < side->payload.n; c++)
		{
			emit->target[s][c] = emit->direct && moves ? place_of[side->payload.scan_ix[c]] : side->payload.scan_ix[c];
			emit->ntargets[s] += emit->target[s][c] >= 0 ? 1 : 0;
		}
	}
	pfree(place_of);
}

void
hjg_emit_open_vectors(HjgEmit *emit, TupleDesc scan_desc, int nresults, const int *result_ix)
{
	emit->nresults = nresults;
	emit->result_ix = result_ix;
	emit->vector_space = palloc0(Max(nresults, 1) * sizeof(HjgVector));
	for (int r = 0; r < nresults; r++)
	{
		Form_pg_attribute att = TupleDescAttr(scan_desc, result_ix[r]);
		HjgVector  *vector = &emit->vector_space[r];

		vector->column.attlen = att->attlen;
		vector->column.attbyval = att->attbyval;
	}
	emit->vectors = palloc(Max(nresults, 1) * sizeof(HjgVector));
	memcpy(emit->vectors, emit->vector_space, nresults * sizeof(HjgVector));
	emit->columnar = emit->direct;
}

int
hjg_emit_most_counted(const HjgEmit *emit)
{
	if (emit->sides[HJG_SIDE_PROBE]->payload.n + emit->sides[HJG_SIDE_BUILD]->payload.n > 0 || !emit->direct ||
		(emit->columnar && !emit->counted))
		return 0;
	return emit->counted ? PG_INT32_MAX : emit->width == 0 ? EMPTY_VECTOR_ROWS : HJG_VECTOR_ROWS;
}

/* ---------- memory ---------- */

/* Put the constants of the target list into all rows. */
static void
put_constants(HjgEmit *emit)
{
	ListCell   *lc;

	foreach(lc, emit->constants)
	{
		const TargetEntry *tle = lfirst_node(TargetEntry, lc);
		const Const *constant = (const Const *) tle->expr;

		if (!IsA(constant, Const))
			continue;
		for (int i = tle->resno - 1; i < HJG_VECTOR_ROWS * emit->width; i += emit->width)
		{
			emit->values[i] = constant->constvalue;
			emit->isnull[i] = constant->constisnull;
		}
	}
}

static void
make_rows(HjgEmit *emit)
{
	const Size	nvalues = HJG_VECTOR_ROWS * Max(emit->width, 1);

	/* columns that are not payload stay NULL */
	emit->values = palloc0(nvalues * sizeof(Datum));
	emit->isnull = palloc(nvalues * sizeof(bool));
	memset(emit->isnull, true, nvalues * sizeof(bool));
	put_constants(emit);
}

static void
make_vectors(HjgEmit *emit)
{
	emit->numbers = palloc0(Max(emit->nresults, 1) * sizeof(int64 *));
	for (int r = 0; r < emit->nresults; r++)
	{
		emit->vector_space[r].values = palloc(HJG_VECTOR_ROWS * sizeof(Datum));
		emit->vector_space[r].isnull = palloc(HJG_VECTOR_ROWS * sizeof(bool));
		if (bms_is_member(r, emit->as_numbers))
			emit->numbers[r] = palloc(HJG_VECTOR_ROWS * sizeof(int64));
	}
	memcpy(emit->vectors, emit->vector_space, emit->nresults * sizeof(HjgVector));
}

/* Allocate the arrays, before the first row. */
static void
make_space(HjgEmit *emit)
{
	MemoryContext old = MemoryContextSwitchTo(emit->execution->work_context);

	if (!emit->columnar)
		make_rows(emit);
	if (emit->vectors != NULL)
		make_vectors(emit);
	emit->numerics = palloc0(Max(Max(emit->width, emit->nresults), 1) * sizeof(HjgNumericSpace *));
	MemoryContextSwitchTo(old);
	emit->has_space = true;
}

void
hjg_emit_forget(HjgEmit *emit)
{
	emit->n = emit->next = 0;
	emit->has_space = false;
	emit->values = NULL;
	emit->isnull = NULL;
}

/* ---------- gathering ---------- */

static bool
is_sequence(const uint32 *rows, int n)
{
	uint32		differs = 0;

	for (int i = 0; i < n; i++)
		differs |= rows[i] ^ i;
	return differs == 0;
}

/* Write rows of a vector of integers in core's form, to column `to` of the rows or vectors that are made. */
static void
write_in_core_form(HjgEmit *emit, const HjgVector *vector, const uint32 *rows, int n, int to, Datum *values, int stride)
{
	if (emit->numerics[to] == NULL)
		emit->numerics[to] = MemoryContextAlloc(emit->execution->work_context, HJG_VECTOR_ROWS * sizeof(HjgNumericSpace));
	hjg_vector_numeric_write(vector, rows, n, emit->numerics[to], (const void **) values, stride);
}

/* Gather a column into a vector. */
static void
gather_vector(HjgEmit *emit, const HjgVector *vector, const uint32 *rows, int n, int to)
{
	HjgVector  *result = &emit->vectors[to];

	*result = emit->vector_space[to];
	if (vector->numbers != NULL)
		result->numbers = emit->numbers[to];
	hjg_vector_select(vector, rows, n, result);
	if (vector->numbers != NULL && result->numbers == NULL)
		write_in_core_form(emit, vector, rows, n, to, result->values, 1);
}

/*
 * Gather columns of rows in vectors. For a join above, a column is passed on without a copy if all of its rows are wanted in
 * order.
 */
static void
gather_from_vectors(HjgEmit *emit, HjgSideId s, const HjgNumberedRows *from, const uint32 *rows, int n)
{
	const HjgSide *side = emit->sides[s];
	bool		as_is = emit->columnar && from->places == NULL && is_sequence(rows, n);
	uint32		placed[HJG_VECTOR_ROWS];

	if (from->places != NULL)
	{
		for (int i = 0; i < n; i++)
			placed[i] = from->places[rows[i]];
		rows = placed;
	}
	for (int c = 0; c < side->payload.n; c++)
	{
		const HjgVector *vector = &from->vectors[side->payload.child_ix[c]];
		int			to = emit->target[s][c];

		if (to < 0)
			continue;
		if (as_is && (vector->numbers == NULL || emit->numbers[to] != NULL))
			emit->vectors[to] = *vector;
		else if (emit->columnar)
			gather_vector(emit, vector, rows, n, to);
		else
		{
			hjg_vector_gather(vector, rows, n, emit->width, emit->values + to, emit->isnull + to);
			if (vector->numbers != NULL)
				write_in_core_form(emit, vector, rows, n, to, emit->values + to, emit->width);
		}
	}
}

/* Use this node's own memory for the side's vectors. */
static void
take_vector_space(HjgEmit *emit, HjgSideId s)
{
	for (int c = 0; c < emit->sides[s]->payload.n; c++)
		if (emit->target[s][c] >= 0)
			emit->vectors[emit->target[s][c]] = emit->vector_space[emit->target[s][c]];
}

static void
gather_from_store(HjgEmit *emit, HjgSideId s, const HjgStore *store, const uint32 *rows, int n)
{
	if (emit->columnar)
	{
		take_vector_space(emit, s);
		hjg_rows_store_gather_vectors(store, rows, n, emit->target[s], emit->vectors);
	}
	else
		hjg_rows_store_gather(store, rows, n, emit->target[s], emit->width, emit->values, emit->isnull);
}

static void
gather_from_copies(HjgEmit *emit, HjgSideId s, const HjgNumberedRows *from, int n)
{
	if (emit->columnar)
	{
		take_vector_space(emit, s);
		hjg_rows_store_gather_copied_vectors(from->store, from->copies, n, emit->target[s], emit->vectors);
	}
	else
		hjg_rows_store_gather_copies(from->store, from->copies, n, emit->target[s], emit->width, emit->values,
									 emit->isnull);
}

static void
emit_nulls(HjgEmit *emit, HjgSideId s, int n)
{
	for (int c = 0; c < emit->sides[s]->payload.n; c++)
	{
		int			to = emit->target[s][c];

		if (to < 0)
			continue;
		if (emit->columnar)
		{
			emit->vectors[to] = emit->vector_space[to];
			hjg_vector_put_nulls(&emit->vectors[to], n);
		}
		else
			for (int i = 0; i < n; i++)
				emit->isnull[i * emit->width + to] = true;
	}
}

/* Gather the columns of one side of the vector's rows. */
static void
gather_side(HjgEmit *emit, HjgSideId s, const HjgNumberedRows *from, const uint32 *rows, int n)
{
	if (emit->ntargets[s] == 0)
		return;
	if (from->copies != NULL)
		gather_from_copies(emit, s, from, n);
	else if (from->store != NULL)
		gather_from_store(emit, s, from->store, rows, n);
	else if (from->vectors != NULL)
		gather_from_vectors(emit, s, from, rows, n);
	else
		emit_nulls(emit, s, n);
}

void
hjg_emit_pairs(HjgEmit *emit, const HjgPairVector *pairs)
{
	CHECK_FOR_INTERRUPTS();
	if (unlikely(!emit->has_space))
		make_space(emit);
	gather_side(emit, HJG_SIDE_PROBE, &pairs->rows[HJG_SIDE_PROBE], pairs->probe, pairs->n);
	gather_side(emit, HJG_SIDE_BUILD, &pairs->rows[HJG_SIDE_BUILD], pairs->build, pairs->n);
	emit->n = pairs->n;
	emit->next = 0;
}

void
hjg_emit_single(HjgEmit *emit, HjgSideId s, const Datum *values, const bool *isnull)
{
	static const HjgNumberedRows no_rows = {NULL};

	CHECK_FOR_INTERRUPTS();
	if (unlikely(!emit->has_space))
		make_space(emit);
	for (int c = 0; c < emit->sides[s]->payload.n; c++)
	{
		int			to = emit->target[s][c];

		if (to < 0)
			continue;
		if (emit->columnar)
		{
			emit->vectors[to] = emit->vector_space[to];
			hjg_vector_put(&emit->vectors[to], 0, values[c], isnull[c]);
		}
		else
		{
			emit->values[to] = values[c];
			emit->isnull[to] = isnull[c];
		}
	}
	gather_side(emit, s == HJG_SIDE_PROBE ? HJG_SIDE_BUILD : HJG_SIDE_PROBE, &no_rows, NULL, 1);
	emit->n = 1;
	emit->next = 0;
}
