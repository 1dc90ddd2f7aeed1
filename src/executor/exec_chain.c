/*
 * exec_chain.c
 *	  Rows of a join as vectors: for a join above it, or for aggregates of its own.
 *
 * The upper join does not call the lower one's ExecProcNode; it has it make the next
 * vector, and reads that as it would read a page of a table.  For the lower node this is a
 * call as any other: changed parameters come first, its instrumentation counts rows and
 * time, and a rescan goes through core.  What is never made is a slot.
 *
 * Columns must be plain ones of the join.  Where no qual is left for after the join,
 * rows are gathered straight into vectors (columnar); otherwise they are gathered
 * as rows, tested one by one, and those that pass are turned into vectors.
 *
 * A datum by reference in a vector is valid until the next vector is asked for, as a
 * slot's would be until the next row.
 */
#include "postgres.h"

#include "executor/executor.h"

#include "base/hjg_base.h"
#include "executor/hjg_node.h"

StaticAssertDecl(HJG_VECTOR_ROWS <= HJG_MAX_VECTOR_ROWS, "vectors of a join fit where a page's do");

/* Which scan tuple column each result column is; false if one is computed. */
static bool
map_results(const HjgJoinState *state, int nresults, int *result_ix)
{
	const PlanState *ps = &state->css.ss.ps;
	int			nscan = state->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts;
	ListCell   *lc;
	int			r = 0;

	if (ps->ps_ProjInfo == NULL)
	{
		for (r = 0; r < nresults; r++)
			result_ix[r] = r;
		return nresults == nscan;
	}
	if (list_length(ps->plan->targetlist) != nresults)
		return false;
	foreach(lc, ps->plan->targetlist)
	{
		const Var  *var = (const Var *) lfirst_node(TargetEntry, lc)->expr;

		if (!IsA(var, Var) || var->varno != INDEX_VAR || var->varattno <= 0 || var->varattno > nscan)
			return false;
		result_ix[r++] = var->varattno - 1;
	}
	return true;
}

/* As a call of ExecProcNode() would do it. */
static int
next_rows(void *arg)
{
	HjgJoinState *below = arg;
	PlanState  *plan = &below->css.ss.ps;
	int			n;

	if (plan->chgParam != NULL)
		ExecReScan(plan);
	if (plan->instrument)
		InstrStartNode(plan->instrument);
	n = hjg_chain_take_rows(below);
	if (plan->instrument)
		InstrStopNode(plan->instrument, n);
	return n;
}

const HjgVectorSource *
hjg_chain_create(PlanState *plan, int nplan_columns)
{
	HjgJoinState *below = hjg_exec_join_state(plan);
	HjgVectorSource *source;
	int		   *result_ix;

	if (!hjg_direct_scan || below == NULL || below->aggregation != NULL)
		return NULL;
	result_ix = palloc(Max(nplan_columns, 1) * sizeof(int));
	if (!map_results(below, nplan_columns, result_ix))
	{
		pfree(result_ix);
		return NULL;
	}

	hjg_chain_open(below, nplan_columns, result_ix);
	source = palloc(sizeof(HjgVectorSource));
	*source = (HjgVectorSource) {.vectors = below->vectors,.next = next_rows,.arg = below};
	return source;
}

void
hjg_chain_open(HjgJoinState *state, int nresults, const int *result_ix)
{
	TupleDesc	desc = state->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor;

	state->nresults = nresults;
	state->result_ix = result_ix;
	state->vector_space = palloc0(Max(nresults, 1) * sizeof(HjgVector));
	for (int r = 0; r < nresults; r++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, result_ix[r]);
		HjgVector  *vector = &state->vector_space[r];

		vector->column.attlen = att->attlen;
		vector->column.attbyval = att->attbyval;
	}
	state->vectors = palloc(Max(nresults, 1) * sizeof(HjgVector));
	memcpy(state->vectors, state->vector_space, nresults * sizeof(HjgVector));
	state->columnar = state->direct;
}

void
hjg_chain_prepare(HjgJoinState *state)
{
	for (int r = 0; r < state->nresults; r++)
	{
		state->vector_space[r].values = palloc(HJG_VECTOR_ROWS * sizeof(Datum));
		state->vector_space[r].isnull = palloc(HJG_VECTOR_ROWS * sizeof(bool));
	}
	memcpy(state->vectors, state->vector_space, state->nresults * sizeof(HjgVector));
}

/* The rows of the vector that pass become vectors; 0 if none does. */
static int
take_passing(HjgJoinState *state)
{
	TupleTableSlot *slot = state->out_slot;
	int			n = 0;

	for (; hjg_exec_next_passing(state); n++)
		for (int r = 0; r < state->nresults; r++)
			hjg_vector_put(&state->vectors[r], n, slot->tts_values[state->result_ix[r]],
						   slot->tts_isnull[state->result_ix[r]]);
	return n;
}

int
hjg_chain_take_rows(HjgJoinState *state)
{
	while (hjg_exec_next_vector(state))
	{
		int			n = state->columnar ? state->vector_n : take_passing(state);

		state->vector_next = state->vector_n;
		if (n > 0)
			return n;
	}
	return 0;
}
