/*
 * node_chain.c
 *	  A join as the child of another join: its rows as vectors.
 *
 * The upper join does not call the lower one's ExecProcNode; it asks for the next vector, and reads it like a page of a
 * table. For the lower node this is like any other call: changed parameters are handled first, its instrumentation counts
 * rows and time, and a rescan goes through core. Only the slot is never filled.
 *
 * A datum by reference in a vector is valid until the next vector is requested, as a slot's is until the next row.
 */
#include "postgres.h"

#include "executor/executor.h"

#include "base/hjg_base.h"
#include "node/hjg_node.h"

StaticAssertDecl(HJG_VECTOR_ROWS <= HJG_MAX_VECTOR_ROWS, "vectors of a join fit where a page's do");

/* Find the scan tuple column of each result column; false if a result column is computed. */
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

/* Read rows as ExecProcNode() would. */
static int
next_rows(void *arg)
{
	PlanState  *plan = arg;
	int			n;

	if (plan->chgParam != NULL)
		ExecReScan(plan);
	if (plan->instrument)
		InstrStartNode(plan->instrument);
	n = hjg_drive_next_vectors(plan);
	if (plan->instrument)
		InstrStopNode(plan->instrument, n);
	return n;
}

const HjgVectorSource *
hjg_chain_create(HjgJoinState *below, int nplan_columns, bool counted)
{
	HjgVectorSource *source;
	int		   *result_ix;

	if (!hjg_direct_scan || below == NULL)
		return NULL;
	result_ix = palloc(Max(nplan_columns, 1) * sizeof(int));
	if (!map_results(below, nplan_columns, result_ix))
	{
		pfree(result_ix);
		return NULL;
	}

	hjg_emit_open_vectors(&below->emit, below->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor, nplan_columns, result_ix);
	below->emit.counted = counted && nplan_columns == 0;
	source = palloc(sizeof(HjgVectorSource));
	*source = (HjgVectorSource) {.vectors = below->emit.vectors,.as_numbers = &below->emit.as_numbers,.next = next_rows,.arg = below};
	return source;
}
