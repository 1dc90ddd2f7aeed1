/*
 * exec_node.c
 *	  Life cycle of the node: begin, exec, rescan, shutdown, end.
 *
 * Begin takes nothing but memory, because it also runs for plain EXPLAIN.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "base/hjg_compat.h"
#include "executor/hjg_node.h"

/* A build side of more than so many times the rows that were expected is not joined as was planned. */
#define MAX_MISESTIMATE 4

static Node *create_state(CustomScan *cscan);
static void begin(CustomScanState *node, EState *estate, int eflags);
static TupleTableSlot *exec(CustomScanState *node);
static void shutdown(CustomScanState *node);
static void end(CustomScanState *node);
static void rescan(CustomScanState *node);
static void explain(CustomScanState *node, List *ancestors, ExplainState *es);

const CustomScanMethods hjg_scan_methods = {
	.CustomName = HJG_NODE_NAME,
	.CreateCustomScanState = create_state,
};

static const CustomExecMethods exec_methods = {
	.CustomName = HJG_NODE_NAME,
	.BeginCustomScan = begin,
	.ExecCustomScan = exec,
	.EndCustomScan = end,
	.ReScanCustomScan = rescan,
	.EstimateDSMCustomScan = hjg_parallel_estimate,
	.InitializeDSMCustomScan = hjg_parallel_init_leader,
	.ReInitializeDSMCustomScan = hjg_parallel_reinit,
	.InitializeWorkerCustomScan = hjg_parallel_init_worker,
	.ShutdownCustomScan = shutdown,
	.ExplainCustomScan = explain,
};

static Node *
create_state(CustomScan *cscan)
{
	HjgJoinState *state = palloc0(sizeof(HjgJoinState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &exec_methods;
	return (Node *) state;
}

/* Collect the scan tuple columns (from 0) that an expression reads. */
static bool
collect_columns(Node *node, Bitmapset **columns)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
	{
		Var		   *var = (Var *) node;

		if (var->varno == INDEX_VAR && var->varattno > 0)
			*columns = bms_add_member(*columns, var->varattno - 1);
		return false;
	}
	return expression_tree_walker(node, collect_columns, columns);
}

/* Does an expression depend on a parameter that may change between rescans? */
static bool
has_exec_param(Node *node, void *unused)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
		return true;
	return expression_tree_walker(node, has_exec_param, unused);
}

static Oid *
oid_array(List *list)
{
	Oid		   *array = palloc(Max(list_length(list), 1) * sizeof(Oid));
	ListCell   *lc;
	int			i = 0;

	foreach(lc, list)
		array[i++] = lfirst_oid(lc);
	return array;
}

static void
begin(CustomScanState *node, EState *estate, int eflags)
{
	HjgJoinState *state = (HjgJoinState *) node;
	CustomScan *cscan = castNode(CustomScan, node->ss.ps.plan);
	Bitmapset  *used = NULL;
	List	   *scalars;
	List	   *hash_clauses;
	List	   *outer_keys;
	List	   *inner_keys;
	List	   *join_qual;
	List	   *rest_qual;
	ExprState  *recheck_qual;
	Oid		   *operators;
	Oid		   *collations;
	HjgKeyCodec *outer_codec;
	HjgKeyCodec *inner_codec;
	PlanState  *outer_plan;
	PlanState  *inner_plan;
	int			nouter;
	int			ninner;

	if (list_length(cscan->custom_private) != HJG_PRIVATE_Count ||
		list_length(cscan->custom_exprs) != HJG_EXPRS_Count ||
		list_length(cscan->custom_plans) != 2)
		elog(ERROR, "%s plan node has an unknown form", HJG_NODE_NAME);
	scalars = list_nth(cscan->custom_private, HJG_PRIVATE_SCALARS);
	outer_keys = list_nth(cscan->custom_exprs, HJG_EXPRS_OUTER_KEYS);
	inner_keys = list_nth(cscan->custom_exprs, HJG_EXPRS_INNER_KEYS);
	hash_clauses = list_nth(cscan->custom_exprs, HJG_EXPRS_HASH_CLAUSES);
	join_qual = list_nth(cscan->custom_exprs, HJG_EXPRS_JOIN_QUAL);
	operators = oid_array(list_nth(cscan->custom_private, HJG_PRIVATE_OPERATORS));
	collations = oid_array(list_nth(cscan->custom_private, HJG_PRIVATE_COLLATIONS));
	if (list_length(scalars) != HJG_SCALAR_Count)
		elog(ERROR, "%s plan node has an unknown form", HJG_NODE_NAME);

	state->program.jointype = list_nth_int(scalars, HJG_SCALAR_JOINTYPE);
	state->program.inner_unique = list_nth_int(scalars, HJG_SCALAR_INNER_UNIQUE) != 0;
	nouter = list_nth_int(scalars, HJG_SCALAR_NOUTER);
	ninner = list_nth_int(scalars, HJG_SCALAR_NINNER);
	if (nouter + ninner + list_length(list_nth(cscan->custom_private, HJG_PRIVATE_AGGREGATES)) !=
		list_length(cscan->custom_scan_tlist))
		elog(ERROR, "%s plan node has an unknown form", HJG_NODE_NAME);

	outer_plan = ExecInitNode(linitial(cscan->custom_plans), estate, eflags);
	inner_plan = ExecInitNode(lsecond(cscan->custom_plans), estate, eflags);
	node->custom_ps = list_make2(outer_plan, inner_plan);

	state->outer.preserved = state->program.jointype == JOIN_LEFT || state->program.jointype == JOIN_FULL ||
		state->program.jointype == JOIN_ANTI;
	state->program.probe_preserved = state->outer.preserved;
	state->inner.preserved = state->program.jointype == JOIN_RIGHT || state->program.jointype == JOIN_FULL || HJG_IS_RIGHT_ANTI(state->program.jointype);
	state->program.track_build = state->inner.preserved || HJG_IS_RIGHT_SEMI(state->program.jointype);
	state->program.inner_keys_vary = has_exec_param((Node *) inner_keys, NULL);
	state->program.use_filter = list_nth_int(scalars, HJG_SCALAR_BLOOM) != 0;
	state->program.hints.gpu = list_nth_int(scalars, HJG_SCALAR_GPU) != 0;
	state->program.hints.coupled = list_nth_int(scalars, HJG_SCALAR_COUPLED);
	state->program.hints.embedded = list_nth_int(scalars, HJG_SCALAR_EMBEDDED) != 0;
	state->program.hints.most_embedded_rows = MAX_MISESTIMATE * ((Plan *) lsecond(cscan->custom_plans))->plan_rows;
	state->program.hints.probe_rows = ((Plan *) linitial(cscan->custom_plans))->plan_rows;
	state->program.hints.build_rows = ((Plan *) lsecond(cscan->custom_plans))->plan_rows;
	state->program.hints.all_build_rows = list_nth_int(scalars, HJG_SCALAR_BUILD_ROWS);
	state->program.hints.pairs = cscan->scan.plan.plan_rows;

	/* all is set up for core's evaluation, whether that is used or not: this is where the user's right to call functions is checked */
	recheck_qual = ExecInitQual(hash_clauses, &node->ss.ps);
	ExecInitQual(join_qual, &node->ss.ps);
	ExecInitExprList(list_nth(cscan->custom_exprs, HJG_EXPRS_ARGUMENTS), &node->ss.ps);

	state->execution = (HjgExecution) {
		.program = &state->program,
		.estate = estate,
		.node = state,
		.timing = (estate->es_instrument & INSTRUMENT_TIMER) != 0,
		.report = &state->report,
		.work_context = AllocSetContextCreate(estate->es_query_cxt, "GpuHashJoin work", ALLOCSET_START_SMALL_SIZES),
	};
	outer_codec = hjg_key_codec(list_length(outer_keys), operators, collations, true);
	inner_codec = hjg_key_codec(list_length(inner_keys), operators, collations, false);
	/* columns that must be carried: all that is read once the keys are encoded */
	collect_columns(list_nth(cscan->custom_exprs, HJG_EXPRS_ARGUMENTS), &used);
	state->aggregation = hjg_aggregation_create(state, nouter + ninner, used);
	if (state->aggregation == NULL)
		collect_columns((Node *) cscan->scan.plan.targetlist, &used);
	collect_columns((Node *) cscan->scan.plan.qual, &used);
	collect_columns((Node *) join_qual, &used);
	if (!outer_codec->exact)
		collect_columns((Node *) hash_clauses, &used);
	hjg_side_init(&state->outer, node, state->execution.work_context, outer_plan, hjg_chain_create(outer_plan, nouter), 0, nouter,
				  outer_keys, outer_codec, used);
	hjg_side_init(&state->inner, node, state->execution.work_context, inner_plan, hjg_chain_create(inner_plan, ninner), nouter,
				  ninner, inner_keys, inner_codec, used);
	bms_free(used);
	state->program.hints.carried = hjg_carry_possible(&state->outer, &state->inner);

	if (!outer_codec->exact)
	{
		state->program.recheck = hjg_recheck_create(&state->outer, &state->inner, hash_clauses);
		if (state->program.recheck == NULL)
			state->program.recheck_qual = recheck_qual;
	}
	/* where pairs are rechecked one by one, that comes first */
	rest_qual = join_qual;
	if (state->program.recheck_qual == NULL)
		state->program.pair_filter = hjg_pair_filter_create(join_qual, node->ss.ss_ScanTupleSlot->tts_tupleDescriptor,
													&rest_qual);
	state->program.join_qual = ExecInitQual(rest_qual, &node->ss.ps);

	hjg_emit_init(state);
	if (state->aggregation != NULL)
		hjg_aggregation_open(state);
	state->filter.execution = &state->execution;
	state->filter.key_width = inner_codec->key_width;
	state->match.program = &state->program;
	state->build.execution = &state->execution;
	state->build.side = &state->inner;
	state->build.match = &state->match;
	state->partitions.execution = &state->execution;
	state->partitions.build = &state->build;
	state->partitions.outer = &state->outer;
	state->partitions.filter = &state->filter;
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
		hjg_verify_begin(state);
	state->phase = HJG_PHASE_BUILD;
}

/* All rows are handed out. */
static void
forget_work(HjgJoinState *state)
{
	hjg_emit_forget(state);
	hjg_side_forget(&state->outer);
	hjg_side_forget(&state->inner);
	MemoryContextReset(state->execution.work_context);
}

static void
first_pass(HjgJoinState *state)
{
	switch (hjg_pass_first(&state->partitions))
	{
		case HJG_FIRST_PASS_READY:
			state->phase = HJG_PHASE_PROBE;
			break;
		case HJG_FIRST_PASS_SPILLED:
			state->phase = HJG_PHASE_NEXT_LOAD;
			break;
		case HJG_FIRST_PASS_NOTHING:
			state->phase = HJG_PHASE_DONE;
			break;
	}
}

static bool
next_vector(HjgJoinState *state)
{
	for (;;)
	{
		switch (state->phase)
		{
			case HJG_PHASE_BUILD:
				state->started = true;
				if (state->parallel != NULL)
					hjg_parallel_build(state);
				else
					first_pass(state);
				hjg_probe_open(state);
				break;

			case HJG_PHASE_PROBE:
				if (hjg_probe_next(state))
					return true;
				state->phase = state->inner.preserved && hjg_parallel_has_unmatched(state) ?
					HJG_PHASE_UNMATCHED_BUILD : HJG_PHASE_NEXT_LOAD;
				break;

			case HJG_PHASE_UNMATCHED_BUILD:
				if (hjg_emit_unmatched_build(state))
					return true;
				state->phase = HJG_PHASE_NEXT_LOAD;
				break;

			case HJG_PHASE_NEXT_LOAD:
				if (state->partitions.context != NULL)
					hjg_probe_close(state);
				state->phase = hjg_pass_next(&state->partitions) ? HJG_PHASE_PROBE : HJG_PHASE_NULL_PROBE;
				hjg_probe_open(state);
				break;

			case HJG_PHASE_NULL_PROBE:
				if (hjg_emit_null_probe(state))
					return true;
				state->phase = HJG_PHASE_NULL_BUILD;
				break;

			case HJG_PHASE_NULL_BUILD:
				if (hjg_emit_null_build(state))
					return true;
				state->phase = HJG_PHASE_DONE;
				break;

			case HJG_PHASE_DONE:
				if (state->verify != NULL)
					hjg_verify_end(state);
				if (!state->rescanned)
					forget_work(state);
				return false;
		}
	}
}

bool
hjg_exec_next_vector(HjgJoinState *state)
{
	if (!next_vector(state))
		return false;
	/* of other vectors rows come out one by one */
	if (unlikely(state->verify != NULL) && state->direct)
		hjg_verify_note_vector(state);
	return true;
}

/* Point the slot at the next row of the vector. */
static inline TupleTableSlot *
next_row(HjgJoinState *state)
{
	TupleTableSlot *slot = state->out_slot;
	int			at = state->vector_next++ * state->out_width;

	/* whoever got the last row may have materialized it */
	if (unlikely(TTS_SHOULDFREE(slot)))
		ExecClearTuple(slot);
	slot->tts_values = state->out_values + at;
	slot->tts_isnull = state->out_isnull + at;
	slot->tts_nvalid = state->out_width;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	return slot;
}

bool
hjg_exec_next_passing(HjgJoinState *state)
{
	PlanState  *ps = &state->css.ss.ps;
	ExprContext *econtext = ps->ps_ExprContext;

	while (state->vector_next < state->vector_n)
	{
		if (state->vector_pairs && state->program.pair_filter != NULL && hjg_match_skip_pair(state))
			continue;
		econtext->ecxt_scantuple = next_row(state);
		if (state->direct)
			return true;

		ResetExprContext(econtext);
		if (state->vector_pairs && !hjg_match_accept(state))
			continue;
		if (ps->qual != NULL && !ExecQual(ps->qual, econtext))
		{
			InstrCountFiltered1(ps, 1);
			continue;
		}
		if (unlikely(state->verify != NULL))
			hjg_verify_note_row(state);
		return true;
	}
	return false;
}

static TupleTableSlot *
exec(CustomScanState *node)
{
	HjgJoinState *state = (HjgJoinState *) node;
	ProjectionInfo *projection = node->ss.ps.ps_ProjInfo;

	if (state->aggregation != NULL)
		return hjg_aggregation_exec(state);
	if (state->direct && likely(state->vector_next < state->vector_n))
		return next_row(state);
	while (!hjg_exec_next_passing(state))
		if (!hjg_exec_next_vector(state))
			return ExecClearTuple(projection != NULL ? projection->pi_state.resultslot : state->out_slot);
	return projection != NULL && !state->direct ? ExecProject(projection) : state->out_slot;
}

HjgJoinState *
hjg_exec_join_state(PlanState *plan)
{
	return IsA(plan, CustomScanState) && ((CustomScanState *) plan)->methods == &exec_methods ?
		(HjgJoinState *) plan : NULL;
}

void
hjg_exec_reset(HjgJoinState *state)
{
	ExecClearTuple(state->outer.spill_slot);
	ExecClearTuple(state->inner.spill_slot);
	hjg_probe_close(state);
	hjg_build_reset(&state->build);
	hjg_match_reset(&state->match);
	hjg_parallel_reset(state);
	hjg_partitions_reset(&state->partitions);
	hjg_verify_forget(state, false);
	hjg_probe_filter_forget(&state->filter);
	state->phase = HJG_PHASE_BUILD;
	state->started = false;
}

/* Of a join that several processes share, the leader counts for all. */
static void
count_execution(HjgJoinState *state)
{
	HjgReport	report = state->report;

	if (state->counted || (state->parallel != NULL && IsParallelWorker()))
		return;
	hjg_report_add(&report, &state->others);
	if (!state->started && report.loads == 0)
		return;
	state->counted = true;
	hjg_service_count(HJG_COUNT_JOINS, 1);
	hjg_service_count(report.device_loads > 0 || (state->build.run != NULL && state->build.run->job != NULL) ?
					  HJG_COUNT_JOINS_DEVICE : HJG_COUNT_JOINS_BACKEND, 1);
	hjg_service_count(HJG_COUNT_BUILD_ROWS, report.build_rows);
	hjg_service_count(HJG_COUNT_PROBE_ROWS, report.probe_rows);
	hjg_service_count(HJG_COUNT_PAIRS, report.pairs);
}

/*
 * The build side is kept over a rescan if it is all in memory and neither its rows nor
 * its keys can have changed.
 */
static void
rescan(CustomScanState *node)
{
	HjgJoinState *state = (HjgJoinState *) node;
	PlanState  *outer_plan = state->outer.plan;
	PlanState  *inner_plan = state->inner.plan;
	bool		keep_build;

	state->shut = false;
	state->rescanned = true;
	if (node->ss.ps.chgParam != NULL)
	{
		UpdateChangedParamSet(outer_plan, node->ss.ps.chgParam);
		UpdateChangedParamSet(inner_plan, node->ss.ps.chgParam);
	}
	keep_build = state->parallel == NULL && state->build.run != NULL && state->build.run->build_complete && state->partitions.context == NULL &&
		inner_plan->chgParam == NULL && !(state->program.inner_keys_vary && node->ss.ps.chgParam != NULL);

	if (keep_build)
	{
		hjg_probe_rescan(state);
		hjg_verify_forget(state, true);
		hjg_build_rescan(&state->build);
		state->phase = HJG_PHASE_PROBE;
	}
	else
	{
		hjg_exec_reset(state);
		hjg_side_rescan(&state->inner);
	}
	hjg_side_rescan(&state->outer);
	if (state->aggregation != NULL)
		hjg_aggregation_reset(state->aggregation);
}

/* The times of workers are added to the node's only after this. */
static void
shutdown(CustomScanState *node)
{
	HjgJoinState *state = (HjgJoinState *) node;
	Instrumentation *instrument = node->ss.ps.instrument;

	if (instrument != NULL && !state->shut)
		state->report.node_ns = (instrument->total + INSTR_TIME_GET_DOUBLE(instrument->counter)) * 1.0e9;
	if (!state->shut)
		hjg_parallel_shutdown(state);
	state->shut = true;
	count_execution(state);
}

static void
end(CustomScanState *node)
{
	HjgJoinState *state = (HjgJoinState *) node;

	count_execution(state);
	hjg_exec_reset(state);
	hjg_parallel_end(state);
	ExecEndNode(state->outer.plan);
	ExecEndNode(state->inner.plan);
}

static void
explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	HjgJoinState *state = (HjgJoinState *) node;

	/* the load at hand has not reported yet */
	if (es->analyze && node->ss.ps.instrument != NULL && state->build.run != NULL)
		hjg_run_report(state->build.run);
	hjg_explain(state, ancestors, es);
}
