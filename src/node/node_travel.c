/*
 * node_travel.c
 *	  A join's Bloom filter travels to the scan that the probe keys come from.
 *
 * There a row without a partner is dropped before its other columns are read, and before the joins between have work with it. The join
 * itself then tests no more.  The scan is found when the node begins; it tests rows as long as the filter is open, that is,
 * complete and worthwhile (node_bloom.c). Rows that it has returned before may come without a partner, too.
 *
 * Why no row is missed.  Key columns are followed down the plan as long as each is a column of one input, unchanged. So at any node on
 * the way, an output row with these values comes of input rows with these values, and of the node's other input, alone: a
 * join's row of the one that it contains, a group of all those that have its keys.  When the scan drops all rows with values
 * that no build row has, what changes are output rows with such values, or with NULLs in their place where an outer join has lost a partner. The
 * join drops all of them: it must be one that returns no probe row without a partner, and NULL is nobody's. Hence the
 * type of the joins between does not matter, nor which input the columns come from; but a
 * node that returns a row for others that it does not return (LIMIT, DISTINCT ON, a window function) ends the way, and so does any node
 * that is not known here.
 *
 * Rescans.  The filter is of one execution of the join, and rows that were read through it must not outlive it: when the join's build
 * rows may change, joins of ours on the way do not keep a build side over the rescan, nor does core's Agg keep its groups. Other
 * nodes of core's are passed only where they read this input anew in each rescan.
 *
 * Errors.  Conditions of the scan that may fail are evaluated first, on all rows.  Joins and aggregates between see
 * fewer rows, and may fail for fewer: as under core, whose planner chooses the order of joins, and pushes conditions on a group's
 * keys below its aggregates.
 *
 * Groups.  A group has all of its rows or none, so that HAVING never sees a part of one: above groups the filter is not given up.
 *
 * Processes.  A filter is used in its process alone; it has the keys of all participants before it opens.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "executor/executor.h"

#include "node/hjg_aggregate.h"
#include "node/hjg_node.h"

StaticAssertDecl(HJG_SCAN_TEST_PAD >= HJG_BLOOM_ROWS_PAD, "a scan's tests can write as many entries as the filter does");

/* ---------- finding the scan ---------- */

/*
 * Replace columns of a node's output by those of its input that they are.  Returns the input as varno, or 0 if there is more than
 * one, or if a column is computed.
 */
static int
trace_columns(const Plan *plan, int n, AttrNumber *attnos)
{
	int			varno = 0;

	for (int i = 0; i < n; i++)
	{
		const TargetEntry *tle = list_nth_node(TargetEntry, plan->targetlist, attnos[i] - 1);
		const Var  *var = (const Var *) hjg_scan_strip_relabel((Node *) tle->expr);

		if (!IsA(var, Var) || var->varattno <= 0 || (i > 0 && var->varno != varno))
			return 0;
		varno = var->varno;
		attnos[i] = var->varattno;
	}
	return varno;
}

/* Find the side that columns of a join's scan tuple come from, all of them, and make them columns of its plan; NULL if there is none. */
static HjgSide *
trace_side(HjgJoinState *join, int n, AttrNumber *attnos)
{
	HjgSide    *side = attnos[0] > join->outer.nplan_columns ? &join->inner : &join->outer;

	for (int i = 0; i < n; i++)
	{
		attnos[i] -= side->first_scan_ix;
		if (attnos[i] <= 0 || attnos[i] > side->nplan_columns)
			return NULL;
	}
	return side;
}

static bool trace_plan(HjgTravel *travel, PlanState *plan, HjgScan *scan);

static bool
trace_join(HjgTravel *travel, HjgJoinState *join)
{
	const int	n = travel->test.ncolumns;
	HjgSide    *side;

	if (trace_columns(join->css.ss.ps.plan, n, travel->attnos) != INDEX_VAR)
		return false;
	side = trace_side(join, n, travel->attnos);
	if (side == NULL)
		return false;
	if (side == &join->inner)
		travel->builds = lappend(travel->builds, join);
	return trace_plan(travel, side->plan, side->scan);
}

static bool
trace_aggregate(HjgTravel *travel, HjgAggregateState *aggregate)
{
	const int	n = travel->test.ncolumns;

	if (trace_columns(aggregate->css.ss.ps.plan, n, travel->attnos) != INDEX_VAR)
		return false;
	for (int i = 0; i < n; i++)
		if (travel->attnos[i] > aggregate->child.ncolumns)
			return false;
	travel->grouped = true;
	return trace_plan(travel, aggregate->child.plan, aggregate->child.scan);
}

static Datum eval_qual(ExprState *state, ExprContext *econtext, bool *isnull);

/* Have core's scan evaluate the test behind its condition. */
static void
wrap_qual(HjgTravel *travel, ScanState *target)
{
	travel->own_qual = target->ps.qual;
	travel->qual = (ExprState) {
		.type = T_ExprState, .flags = EEO_FLAG_IS_QUAL, .evalfunc = eval_qual, .evalfunc_private = travel, .parent = &target->ps
	};
	target->ps.qual = &travel->qual;
}

/* Follow the columns to a scan, and have it test them; scan: the reader of the plan's pages, or NULL. */
static bool
trace_plan(HjgTravel *travel, PlanState *plan, HjgScan *scan)
{
	const int	n = travel->test.ncolumns;
	HjgJoinState *join = hjg_node_join(plan);
	HjgAggregateState *aggregate = hjg_grouping_node(plan);
	int			varno;

	if (join != NULL)
		return trace_join(travel, join);
	if (aggregate != NULL)
		return trace_aggregate(travel, aggregate);
	switch (nodeTag(plan))
	{
		case T_NestLoopState:
		case T_HashJoinState:
			return trace_columns(plan->plan, n, travel->attnos) == OUTER_VAR && trace_plan(travel, outerPlanState(plan), NULL);
		case T_AggState:
			if (((const Agg *) plan->plan)->groupingSets != NIL || trace_columns(plan->plan, n, travel->attnos) != OUTER_VAR)
				return false;
			travel->grouped = true;
			travel->aggs = lappend(travel->aggs, plan);
			return trace_plan(travel, outerPlanState(plan), NULL);
		case T_SubqueryScanState:
			return trace_columns(plan->plan, n, travel->attnos) > 0 &&
				trace_plan(travel, ((SubqueryScanState *) plan)->subplan, NULL);
		case T_SeqScanState:
		case T_IndexScanState:
		case T_IndexOnlyScanState:
		case T_BitmapHeapScanState:
			varno = trace_columns(plan->plan, n, travel->attnos);
			if (varno == 0 || (scan == NULL && !HJG_SCAN_ASKS_QUAL(plan)))
				return false;
			travel->target = (ScanState *) plan;
			if (scan != NULL)
				hjg_scan_add_test(scan, &travel->test);
			else
				wrap_qual(travel, travel->target);
			return true;
		default:
			return false;
	}
}

/* ---------- testing ---------- */

/* HjgScanTest.test */
static int
test_vectors(void *arg, const HjgVector *vectors, int nrows, uint16 *rows)
{
	HjgTravel  *travel = arg;
	HjgKeyCodec *codec = travel->codec;
	char		space[MaxHeapTuplesPerPage * HJG_MAX_KEY_BYTES];
	bool		isnull[MaxHeapTuplesPerPage];
	int			source[HJG_MAX_KEY_BYTES];
	bool		has_nulls;

	if (hjg_rows_key_is_vector(codec, &vectors[0].column))
		return hjg_probe_filter_rows(travel->filter, vectors[0].values, vectors[0].has_nulls ? vectors[0].isnull : NULL, nrows, rows);
	for (int i = 0; i < travel->test.ncolumns; i++)
		source[i] = i;
	has_nulls = hjg_rows_key_encode_vectors(codec, source, vectors, nrows, NULL, space, isnull);
	return hjg_probe_filter_rows(travel->filter, space, has_nulls ? isnull : NULL, nrows, rows);
}

static bool
test_slot(HjgTravel *travel, TupleTableSlot *slot)
{
	char		key[HJG_MAX_KEY_BYTES];
	Datum		values[HJG_MAX_KEY_BYTES];
	bool		isnull[HJG_MAX_KEY_BYTES];

	for (int i = 0; i < travel->test.ncolumns; i++)
		values[i] = slot_getattr(slot, travel->attnos[i], &isnull[i]);
	return hjg_probe_filter_row(travel->filter, hjg_rows_key_encode(travel->codec, values, isnull, key) ? key : NULL);
}

/* ExprState.evalfunc */
static Datum
eval_qual(ExprState *state, ExprContext *econtext, bool *isnull)
{
	HjgTravel  *travel = state->evalfunc_private;
	bool		passed;

	*isnull = false;
	if (travel->own_qual != NULL && !ExecQual(travel->own_qual, econtext))
		return BoolGetDatum(false);
	passed = !travel->filter->open || test_slot(travel, econtext->ecxt_scantuple);
	/* the scan counts the row among those that its own condition removes */
	if (!passed)
		InstrCountFiltered1(state->parent, -1);
	return BoolGetDatum(passed);
}

/* ---------- the join's part ---------- */

void
hjg_travel_begin(HjgTravel *travel, HjgProbeFilter *filter, const HjgSide *outer)
{
	const HjgSideKeys *keys = &outer->keys;

	/* each key has a byte at least */
	if (!filter->execution->terms->use_filter || !keys->plain)
		return;
	travel->filter = filter;
	travel->codec = keys->codec;
	travel->attnos = palloc(keys->n * sizeof(AttrNumber));
	for (int i = 0; i < keys->n; i++)
		travel->attnos[i] = keys->ix[i] + 1;
	travel->test = (HjgScanTest) {
		.open = &filter->open, .ncolumns = keys->n, .attnos = travel->attnos, .test = test_vectors, .arg = travel
	};
	filter->travels = trace_plan(travel, outer->plan, outer->scan);
	filter->kept = filter->travels && travel->grouped;
	filter->far = filter->travels && &travel->target->ps != outer->plan;
	if (!filter->travels)
		travel->builds = travel->aggs = NIL;
}

void
hjg_travel_end(HjgTravel *travel)
{
	ListCell   *lc;

	if (travel->filter == NULL || !travel->filter->used)
		return;
	travel->filter->used = false;
	foreach(lc, travel->builds)
		((HjgJoinState *) lfirst(lc))->build_outdated = true;
	foreach(lc, travel->aggs)
	{
		PlanState  *input = outerPlanState((PlanState *) lfirst(lc));
		MemoryContext old = MemoryContextSwitchTo(input->state->es_query_cxt);

		/* any parameter will do, as core's Gather has one for this */
		input->chgParam = bms_add_member(input->chgParam, 0);
		MemoryContextSwitchTo(old);
	}
}
