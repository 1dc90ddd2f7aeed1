/*
 * node_grouping.c
 *	  The node GpuAggregate: groups rows and computes their aggregates.
 *
 * Rows come as vectors (node_child.c). Keys that are not plain columns, and arguments that core's expression code must
 * compute, come into vectors of their own (node_computed.c). Each row gets the number of its group (node_groups.c)
 * and is added to the group's totals (node_aggregate.c).
 *
 * A process that groups alone finishes its groups, and HAVING is the node's filter. When the table has grown to hash_mem,
 * groups go to temporary files (node_group_spill.c). Processes that share a grouping do the same; after all rows are read
 * they exchange their groups by such files (node_group_share.c), and each finishes some.
 *
 * If groups are few, and without GROUP BY, parallel processes return core's transition values, which core's Agg above
 * combines and finishes, like core's own parallel aggregation. Then a group may be returned more than once: a full table is
 * returned and emptied.
 *
 * For GROUP BY's keys the node returns the columns of a group's first row that they are computed from; the projection
 * computes the keys again.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "node/hjg_aggregate.h"
#include "node/hjg_execution.h"
#include "planner/hjg_planner.h"

static Node *create_grouping(CustomScan *cscan);
static void begin_grouping(CustomScanState *node, EState *estate, int eflags);
static TupleTableSlot *exec_grouping(CustomScanState *node);
static void end_grouping(CustomScanState *node);
static void rescan_grouping(CustomScanState *node);
static void shut_down(CustomScanState *node);
static Size estimate_shared_grouping(CustomScanState *node, ParallelContext *pcxt);
static void init_grouping_leader(CustomScanState *node, ParallelContext *pcxt, void *coordinate);
static void reinit_grouping_leader(CustomScanState *node, ParallelContext *pcxt, void *coordinate);
static void init_grouping_worker(CustomScanState *node, shm_toc *toc, void *coordinate);
static void explain_grouping(CustomScanState *node, List *ancestors, ExplainState *es);

const CustomScanMethods hjg_aggregate_methods = {
	.CustomName = HJG_AGGREGATE_NAME,
	.CreateCustomScanState = create_grouping,
};

const CustomExecMethods hjg_grouping_exec_methods = {
	.CustomName = HJG_AGGREGATE_NAME,
	.BeginCustomScan = begin_grouping,
	.ExecCustomScan = exec_grouping,
	.EndCustomScan = end_grouping,
	.ReScanCustomScan = rescan_grouping,
	.EstimateDSMCustomScan = estimate_shared_grouping,
	.InitializeDSMCustomScan = init_grouping_leader,
	.ReInitializeDSMCustomScan = reinit_grouping_leader,
	.InitializeWorkerCustomScan = init_grouping_worker,
	.ShutdownCustomScan = shut_down,
	.ExplainCustomScan = explain_grouping,
};

static Node *
create_grouping(CustomScan *cscan)
{
	HjgAggregateState *state = palloc0(sizeof(HjgAggregateState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &hjg_grouping_exec_methods;
	return (Node *) state;
}

/* ---------- set-up ---------- */

static void
check_grouping_plan(const CustomScan *cscan)
{
	if (list_length(cscan->custom_private) != HJG_AGGREGATE_PRIVATE_Count ||
		list_length(list_nth(cscan->custom_private, HJG_AGGREGATE_PRIVATE_SCALARS)) != HJG_AGGREGATE_SCALAR_Count ||
		list_length(cscan->custom_exprs) != HJG_AGGREGATE_EXPRS_Count ||
		list_length(cscan->custom_plans) < 1 || list_length(cscan->custom_plans) > 2)
		elog(ERROR, "%s plan node has an unknown form", HJG_AGGREGATE_NAME);
}

/* Find the columns that groups keep: those that the projection and the filter read. */
static void
init_kept_columns(HjgAggregateState *state, const CustomScan *cscan)
{
	Bitmapset  *read = NULL;
	int			c = -1;

	hjg_node_columns((Node *) cscan->scan.plan.targetlist, &read);
	hjg_node_columns((Node *) cscan->scan.plan.qual, &read);
	/* keys of groups that come back from files are computed again */
	if (!state->partial)
		hjg_node_columns(list_nth(cscan->custom_exprs, HJG_AGGREGATE_EXPRS_KEYS), &read);
	state->kept = palloc(Max(state->child.ncolumns, 1) * sizeof(int));
	while ((c = bms_next_member(read, c)) >= 0 && c < state->child.ncolumns)
		state->kept[state->nkept++] = c;
	state->kept_values = palloc(HJG_VECTOR_ROWS * Max(state->nkept, 1) * sizeof(Datum));
	state->kept_isnull = palloc(HJG_VECTOR_ROWS * Max(state->nkept, 1) * sizeof(bool));
	bms_free(read);
}

static void
init_groups(HjgAggregateState *state, const CustomScan *cscan)
{
	const List *exprs = list_nth(cscan->custom_exprs, HJG_AGGREGATE_EXPRS_KEYS);
	const List *operators = list_nth(cscan->custom_private, HJG_AGGREGATE_PRIVATE_OPERATORS);
	const List *by_core = list_nth(cscan->custom_private, HJG_AGGREGATE_PRIVATE_KEYS_BY_CORE);
	const int	ncolumns = state->child.ncolumns;
	TupleDesc	desc = state->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	HjgColumn  *columns;
	HjgGroupKey *keys;
	ListCell   *lc;

	if (exprs == NIL)
		return;
	keys = palloc(list_length(exprs) * sizeof(HjgGroupKey));
	foreach(lc, exprs)
	{
		Expr	   *expr = hjg_scan_strip_relabel(lfirst(lc));
		HjgGroupKey *key = &keys[foreach_current_index(lc)];
		HjgSlice	slice;
		Expr	   *string;

		*key = (HjgGroupKey) {.operator = list_nth_oid(operators, foreach_current_index(lc)), .collation = exprCollation(lfirst(lc))};
		string = hjg_scan_find_slice(expr, &slice);
		if (IsA(expr, Var))
			key->column = ((Var *) expr)->varattno - 1;
		else if (list_nth_int(by_core, foreach_current_index(lc)))
			key->column = hjg_computed_add_by_core(state, lfirst(lc));
		else if (string != NULL)
		{
			key->column = castNode(Var, string)->varattno - 1;
			key->slice = palloc(sizeof(HjgSlice));
			*key->slice = slice;
		}
		else
			hjg_computed_add_key(state, lfirst(lc), key);
	}
	columns = palloc((ncolumns + state->ncomputed) * sizeof(HjgColumn));
	for (int c = 0; c < ncolumns + state->ncomputed; c++)
	{
		if (c >= ncolumns)
			columns[c] = state->vectors[c].column;
		else
			columns[c] = (HjgColumn) {TupleDescAttr(desc, c)->attlen, TupleDescAttr(desc, c)->attbyval, 0};
	}
	state->nkey_exprs = state->ncomputed;
	init_kept_columns(state, cscan);
	state->groups = hjg_groups_create(state->css.ss.ps.state->es_query_cxt, list_length(exprs), keys, columns, state->nkept, state->kept);
}

/* Replace arguments that are not known here by columns that core computes. */
static List *
replace_arguments(HjgAggregateState *state, const CustomScan *cscan)
{
	List	   *arguments = list_copy(list_nth(cscan->custom_exprs, HJG_AGGREGATE_EXPRS_ARGUMENTS));
	const List *by_core = list_nth(cscan->custom_private, HJG_AGGREGATE_PRIVATE_BY_CORE);
	ListCell   *lc;

	foreach(lc, arguments)
	{
		Expr	   *expr = lfirst(lc);

		if (list_nth_int(by_core, foreach_current_index(lc)))
			lfirst(lc) = makeVar(INDEX_VAR, hjg_computed_add_by_core(state, expr) + 1, exprType((Node *) expr), exprTypmod((Node *) expr),
								 exprCollation((Node *) expr), 0);
	}
	return arguments;
}

static void
init_aggregates(HjgAggregateState *state, const CustomScan *cscan)
{
	List	   *functions = list_nth(cscan->custom_private, HJG_AGGREGATE_PRIVATE_FUNCTIONS);
	List	   *arguments = replace_arguments(state, cscan);
	TupleDesc	desc = state->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	int16	   *widths = palloc((list_length(functions) + 1) * sizeof(int16));

	state->naggregates = list_length(functions);
	if (desc->natts != state->child.ncolumns + state->naggregates)
		elog(ERROR, "%s plan node has an unknown form", HJG_AGGREGATE_NAME);
	for (int a = 0; a < state->naggregates; a++)
		widths[a] = TupleDescAttr(desc, state->child.ncolumns + a)->attlen;
	state->aggregation = hjg_aggregation_create(state->css.ss.ps.state->es_query_cxt, &state->css.ss.ps, state->partial, functions,
												list_nth(cscan->custom_private, HJG_AGGREGATE_PRIVATE_NUMBERS),
												list_nth(cscan->custom_private, HJG_AGGREGATE_PRIVATE_SQUARES), arguments,
												state->child.ncolumns, state->column_of, widths);
}

/* Find the child's columns that nobody but the arguments reads. */
static Bitmapset *
find_arguments_only(const CustomScan *cscan)
{
	Bitmapset  *arguments = NULL;
	Bitmapset  *others = NULL;

	hjg_node_columns(list_nth(cscan->custom_exprs, HJG_AGGREGATE_EXPRS_ARGUMENTS), &arguments);
	hjg_node_columns(list_nth(cscan->custom_exprs, HJG_AGGREGATE_EXPRS_KEYS), &others);
	hjg_node_columns((Node *) cscan->scan.plan.targetlist, &others);
	hjg_node_columns((Node *) cscan->scan.plan.qual, &others);
	return bms_del_members(arguments, others);
}

static void
begin_grouping(CustomScanState *node, EState *estate, int eflags)
{
	HjgAggregateState *state = (HjgAggregateState *) node;
	const CustomScan *cscan = castNode(CustomScan, node->ss.ps.plan);
	PlanState  *child;
	Bitmapset  *wanted = NULL;
	int			ncolumns;
	int			most_computed;

	check_grouping_plan(cscan);
	state->partial = list_nth_int(list_nth(cscan->custom_private, HJG_AGGREGATE_PRIVATE_SCALARS), HJG_AGGREGATE_SCALAR_PARTIAL) != 0;
	child = ExecInitNode(linitial(cscan->custom_plans), estate, eflags);
	node->custom_ps = list_make1(child);
	if (list_length(cscan->custom_plans) > 1)
	{
		state->other = ExecInitNode(lsecond(cscan->custom_plans), estate, eflags);
		node->custom_ps = lappend(node->custom_ps, state->other);
		/* its rows come in slots of its own */
		node->ss.ps.resultopsfixed = false;
	}
	ncolumns = list_length(child->plan->targetlist);

	/* initialise all of core's expressions, used or not, because that checks the user's right to call their functions */
	ExecInitExprList(list_nth(cscan->custom_exprs, HJG_AGGREGATE_EXPRS_KEYS), &node->ss.ps);
	ExecInitExprList(list_nth(cscan->custom_exprs, HJG_AGGREGATE_EXPRS_ARGUMENTS), &node->ss.ps);

	state->work_context = AllocSetContextCreate(estate->es_query_cxt, "GpuAggregate work", ALLOCSET_START_SMALL_SIZES);
	state->computed_context = AllocSetContextCreate(estate->es_query_cxt, "GpuAggregate expressions", ALLOCSET_START_SMALL_SIZES);
	hjg_node_columns((Node *) cscan->custom_exprs, &wanted);
	hjg_node_columns((Node *) cscan->scan.plan.targetlist, &wanted);
	hjg_node_columns((Node *) cscan->scan.plan.qual, &wanted);
	hjg_child_init(&state->child, child, ncolumns, wanted, state->work_context);
	bms_free(wanted);

	most_computed = list_length(list_nth(cscan->custom_exprs, HJG_AGGREGATE_EXPRS_KEYS)) +
		list_length(list_nth(cscan->custom_exprs, HJG_AGGREGATE_EXPRS_ARGUMENTS));
	state->vectors = palloc0((ncolumns + most_computed + 1) * sizeof(HjgVector));
	state->computed = palloc((most_computed + 1) * sizeof(HjgComputed));
	state->column_of = palloc((ncolumns + most_computed + 1) * sizeof(int));
	for (int c = 0; c < ncolumns + most_computed; c++)
		state->column_of[c] = c;
	init_groups(state, cscan);
	init_aggregates(state, cscan);
	if (state->nby_core > 0)
		state->row = ExecInitExtraTupleSlot(estate, node->ss.ss_ScanTupleSlot->tts_tupleDescriptor, &TTSOpsVirtual);
	if (state->child.scan != NULL)
		hjg_scan_count_kept(state->child.scan, &state->report.kept_blocks);
	hjg_child_take_numbers(&state->child, find_arguments_only(cscan));
}

/* ---------- the result ---------- */

/* Put the kept columns of a group into the slot; groups are asked for in order, and gathered many at a time. */
static void
load_kept(HjgAggregateState *state, uint32 group, TupleTableSlot *slot)
{
	int			at;

	if (group >= state->gathered)
	{
		const int	n = (int) Min(state->ngroups - group, HJG_VECTOR_ROWS);

		hjg_groups_gather(state->groups, group, n, state->kept_values, state->kept_isnull);
		state->gathered = group + n;
		state->gathered_from = group;
	}
	at = (int) (group - state->gathered_from) * state->nkept;
	for (int i = 0; i < state->nkept; i++)
	{
		slot->tts_values[state->kept[i]] = state->kept_values[at + i];
		slot->tts_isnull[state->kept[i]] = state->kept_isnull[at + i];
	}
}

/* Make the row of a group; NULL if the filter drops it. */
static TupleTableSlot *
group_row(HjgAggregateState *state, uint32 group)
{
	TupleTableSlot *slot = state->css.ss.ss_ScanTupleSlot;
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;
	MemoryContext old;

	ResetExprContext(econtext);
	ExecClearTuple(slot);
	memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts * sizeof(bool));
	if (state->groups != NULL)
		load_kept(state, group, slot);
	old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	for (int a = 0; a < state->naggregates; a++)
	{
		const int	at = state->child.ncolumns + a;

		slot->tts_values[at] = hjg_aggregation_datum(state->aggregation, a, group, &slot->tts_isnull[at]);
	}
	MemoryContextSwitchTo(old);
	ExecStoreVirtualTuple(slot);
	econtext->ecxt_scantuple = slot;
	if (state->css.ss.ps.qual != NULL && !ExecQual(state->css.ss.ps.qual, econtext))
	{
		InstrCountFiltered1(state, 1);
		return NULL;
	}
	return state->css.ss.ps.ps_ProjInfo != NULL ? ExecProject(state->css.ss.ps.ps_ProjInfo) : slot;
}

static TupleTableSlot *
exec_grouping(CustomScanState *node)
{
	HjgAggregateState *state = (HjgAggregateState *) node;
	const ProjectionInfo *projection = node->ss.ps.ps_ProjInfo;

	for (;;)
	{
		if (state->reads_other)
			return ExecProcNode(state->other);
		while (state->next < state->ngroups)
		{
			TupleTableSlot *row = group_row(state, state->next++);

			if (row != NULL)
				return row;
			CHECK_FOR_INTERRUPTS();
		}
		if (state->at_end)
			return ExecClearTuple(projection != NULL ? projection->pi_state.resultslot : node->ss.ss_ScanTupleSlot);
		hjg_grouping_forget(state);
		hjg_grouping_read(state);
	}
}

/* ---------- life cycle ---------- */

static void
rescan_grouping(CustomScanState *node)
{
	HjgAggregateState *state = (HjgAggregateState *) node;

	if (node->ss.ps.chgParam != NULL)
	{
		UpdateChangedParamSet(state->child.plan, node->ss.ps.chgParam);
		if (state->other != NULL)
			UpdateChangedParamSet(state->other, node->ss.ps.chgParam);
	}
	hjg_grouping_forget(state);
	hjg_aggregation_reset(state->aggregation);
	hjg_computed_reset(state);
	hjg_grouping_free_spill(state);
	state->at_end = state->child_done = state->reads_other = false;
	state->growth = (HjgGroupGrowth) {0};
	hjg_child_rescan(&state->child);
	if (state->other != NULL && state->other->chgParam == NULL)
		ExecReScan(state->other);
}

/* End an execution: a worker leaves its figures, the leader collects them. */
static void
shut_down(CustomScanState *node)
{
	HjgAggregateState *state = (HjgAggregateState *) node;
	HjgGroupReport report = state->report;

	if (state->share == NULL || state->shut)
		return;
	if (state->spill != NULL)
		hjg_group_spill_report(state->spill, &report);
	if (IsParallelWorker())
		hjg_group_share_report(state->share, &report);
	else
		hjg_group_share_collect(state->share, &state->others);
	state->shut = true;
}

static void
end_grouping(CustomScanState *node)
{
	HjgAggregateState *state = (HjgAggregateState *) node;

	hjg_grouping_free_spill(state);
	hjg_group_share_free(state->share);
	ExecEndNode(state->child.plan);
	if (state->other != NULL)
		ExecEndNode(state->other);
}

/* ---------- parallel queries ---------- */

static double
expected_groups(const HjgAggregateState *state)
{
	const CustomScan *cscan = castNode(CustomScan, state->css.ss.ps.plan);

	return list_nth_int(list_nth(cscan->custom_private, HJG_AGGREGATE_PRIVATE_SCALARS), HJG_AGGREGATE_SCALAR_GROUPS);
}

static Size
estimate_shared_grouping(CustomScanState *node, ParallelContext *pcxt)
{
	return hjg_group_share_bytes(pcxt, expected_groups((HjgAggregateState *) node));
}

/* Called again for the same node when its Gather was shut down before a rescan. */
static void
init_grouping_leader(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	HjgAggregateState *state = (HjgAggregateState *) node;

	hjg_grouping_free_spill(state);
	hjg_group_share_free(state->share);
	state->share = hjg_group_share_create(node->ss.ps.state->es_query_cxt, pcxt, coordinate, expected_groups(state));
	state->shut = false;
}

static void
reinit_grouping_leader(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	HjgAggregateState *state = (HjgAggregateState *) node;

	if (!state->shut)
		hjg_group_share_collect(state->share, &state->others);
	hjg_grouping_free_spill(state);
	hjg_group_share_reinit(state->share);
	state->shut = false;
}

static void
init_grouping_worker(CustomScanState *node, shm_toc *toc, void *coordinate)
{
	HjgAggregateState *state = (HjgAggregateState *) node;

	state->share = hjg_group_share_attach(node->ss.ps.state->es_query_cxt, coordinate);
}

static void
explain_grouping(CustomScanState *node, List *ancestors, ExplainState *es)
{
	hjg_grouping_explain((HjgAggregateState *) node, ancestors, es);
}
