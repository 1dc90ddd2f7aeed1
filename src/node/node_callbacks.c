/*
 * node_callbacks.c
 *	  Life cycle of the node: begin, exec, rescan, shutdown, end.
 *
 * Begin takes no resource but memory, because it also runs for plain EXPLAIN.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "base/hjg_compat.h"
#include "node/hjg_node.h"

/* Build rows, as a multiple of those expected, from which on the planned choice of where to join is dropped. */
#define MAX_MISESTIMATE 4

static Node *create_join(CustomScan *cscan);
static void begin_join(CustomScanState *node, EState *estate, int eflags);
static void shutdown_node(CustomScanState *node);
static void end_join(CustomScanState *node);
static void rescan_join(CustomScanState *node);
static Size estimate_shared_join(CustomScanState *node, ParallelContext *pcxt);
static void init_join_leader(CustomScanState *node, ParallelContext *pcxt, void *coordinate);
static void reinit_join_leader(CustomScanState *node, ParallelContext *pcxt, void *coordinate);
static void init_join_worker(CustomScanState *node, shm_toc *toc, void *coordinate);
static void explain_join(CustomScanState *node, List *ancestors, ExplainState *es);

const CustomScanMethods hjg_scan_methods = {
	.CustomName = HJG_NODE_NAME,
	.CreateCustomScanState = create_join,
};

const CustomExecMethods hjg_node_exec_methods = {
	.CustomName = HJG_NODE_NAME,
	.BeginCustomScan = begin_join,
	.ExecCustomScan = hjg_drive_exec,
	.EndCustomScan = end_join,
	.ReScanCustomScan = rescan_join,
	.EstimateDSMCustomScan = estimate_shared_join,
	.InitializeDSMCustomScan = init_join_leader,
	.ReInitializeDSMCustomScan = reinit_join_leader,
	.InitializeWorkerCustomScan = init_join_worker,
	.ShutdownCustomScan = shutdown_node,
	.ExplainCustomScan = explain_join,
};

static Node *
create_join(CustomScan *cscan)
{
	HjgJoinState *state = palloc0(sizeof(HjgJoinState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &hjg_node_exec_methods;
	return (Node *) state;
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
check_join_plan(const CustomScan *cscan)
{
	const List *scalars;

	if (list_length(cscan->custom_private) != HJG_PRIVATE_Count ||
		list_length(cscan->custom_exprs) != HJG_EXPRS_Count ||
		list_length(cscan->custom_plans) != 2)
		elog(ERROR, "%s plan node has an unknown form", HJG_NODE_NAME);
	scalars = list_nth(cscan->custom_private, HJG_PRIVATE_SCALARS);
	if (list_length(scalars) != HJG_SCALAR_Count ||
		list_nth_int(scalars, HJG_SCALAR_NOUTER) + list_nth_int(scalars, HJG_SCALAR_NINNER) !=
		list_length(cscan->custom_scan_tlist))
		elog(ERROR, "%s plan node has an unknown form", HJG_NODE_NAME);
}

/* Decode the plan's scalars. */
static void
read_terms(HjgJoinTerms *terms, const CustomScan *cscan)
{
	const List *scalars = list_nth(cscan->custom_private, HJG_PRIVATE_SCALARS);
	const Plan *outer = linitial(cscan->custom_plans);
	const Plan *inner = lsecond(cscan->custom_plans);
	const JoinType jointype = list_nth_int(scalars, HJG_SCALAR_JOINTYPE);

	terms->jointype = jointype;
	terms->inner_unique = list_nth_int(scalars, HJG_SCALAR_INNER_UNIQUE) != 0;
	terms->reversed = list_nth_int(scalars, HJG_SCALAR_REVERSED) != 0;
	terms->preserved[HJG_SIDE_PROBE] = jointype == JOIN_LEFT || jointype == JOIN_FULL || jointype == JOIN_ANTI;
	terms->preserved[HJG_SIDE_BUILD] = jointype == JOIN_RIGHT || jointype == JOIN_FULL || jointype == HJG_JOIN_RIGHT_ANTI;
	terms->track_build = terms->preserved[HJG_SIDE_BUILD] || jointype == HJG_JOIN_RIGHT_SEMI;
	terms->inner_keys_vary = has_exec_param(list_nth(cscan->custom_exprs, HJG_EXPRS_INNER_KEYS), NULL);
	terms->use_filter = list_nth_int(scalars, HJG_SCALAR_BLOOM) != 0;
	terms->hints = (HjgJobHints) {
		.in_backend = list_nth_int(scalars, HJG_SCALAR_IN_BACKEND) != 0,
		.most_in_backend_rows = MAX_MISESTIMATE * inner->plan_rows,
		.device = {.kind = list_nth_int(scalars, HJG_SCALAR_DEVICE_KIND), .number = list_nth_int(scalars, HJG_SCALAR_DEVICE_NUMBER)},
		.build_rows = inner->plan_rows,
		.pairs = cscan->scan.plan.plan_rows,
		.probe_rows = outer->plan_rows,
		.all_build_rows = list_nth_int(scalars, HJG_SCALAR_BUILD_ROWS),
	};
}

/* used: columns of the scan tuple that are read after the keys are encoded. */
static void
init_sides(HjgJoinState *state, PlanState *outer_plan, PlanState *inner_plan, HjgKeyCodec *outer_codec,
		   HjgKeyCodec *inner_codec, Bitmapset *used)
{
	CustomScanState *node = &state->css;
	const CustomScan *cscan = castNode(CustomScan, node->ss.ps.plan);
	const List *scalars = list_nth(cscan->custom_private, HJG_PRIVATE_SCALARS);
	const int	nouter = list_nth_int(scalars, HJG_SCALAR_NOUTER);
	const int	ninner = list_nth_int(scalars, HJG_SCALAR_NINNER);

	hjg_side_init(&state->outer, node, state->execution.work_context, outer_plan,
				  hjg_chain_create(hjg_node_join(outer_plan), nouter, false), 0, nouter,
				  list_nth(cscan->custom_exprs, HJG_EXPRS_OUTER_KEYS), outer_codec, used);
	hjg_side_init(&state->inner, node, state->execution.work_context, inner_plan,
				  hjg_chain_create(hjg_node_join(inner_plan), ninner, false), nouter, ninner,
				  list_nth(cscan->custom_exprs, HJG_EXPRS_INNER_KEYS), inner_codec, used);
	if (state->outer.scan != NULL)
		hjg_scan_count_kept(state->outer.scan, &state->report.kept_blocks);
	if (state->inner.scan != NULL)
		hjg_scan_count_kept(state->inner.scan, &state->report.kept_blocks);
	state->terms.hints.payload = hjg_payload_possible(&state->outer, &state->inner);
}

/* Divide the conditions of pairs by how they are evaluated. */
static void
init_conditions(HjgJoinState *state, bool exact_keys, List *hash_clauses, ExprState *recheck_qual, List *join_qual)
{
	HjgJoinTerms *terms = &state->terms;
	List	   *rest_qual = join_qual;

	if (!exact_keys)
	{
		terms->recheck = hjg_recheck_create(&state->outer, &state->inner, hash_clauses);
		if (terms->recheck == NULL)
			terms->recheck_qual = recheck_qual;
	}
	/* a recheck pair by pair must come before the join quals */
	if (terms->recheck_qual == NULL)
		terms->pair_filter = hjg_pair_filter_create(join_qual, state->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor,
													  &rest_qual);
	terms->join_qual = ExecInitQual(rest_qual, &state->css.ss.ps);
	terms->residual = terms->recheck_qual != NULL || terms->pair_filter != NULL || terms->join_qual != NULL;
}

/* Set up the operators, each on top of those before it. */
static void
init_operators(HjgJoinState *state)
{
	const HjgExecution *execution = &state->execution;

	state->filter.execution = execution;
	state->filter.key_width = state->inner.keys.codec->key_width;
	state->match.terms = &state->terms;
	state->build = (HjgBuild) {.execution = execution,.side = &state->inner,.match = &state->match};
	state->partitions = (HjgPartitions) {
		.execution = execution,
		.build = &state->build,
		.outer = &state->outer,
		.filter = &state->filter,
	};
	state->probe = (HjgProbe) {
		.execution = execution,
		.side = &state->outer,
		.build = &state->build,
		.match = &state->match,
		.filter = &state->filter,
		.pairs = &state->pairs,
	};
	state->emit.execution = execution;
	state->emit.sides[HJG_SIDE_PROBE] = &state->outer;
	state->emit.sides[HJG_SIDE_BUILD] = &state->inner;
}

static void
begin_join(CustomScanState *node, EState *estate, int eflags)
{
	HjgJoinState *state = (HjgJoinState *) node;
	const CustomScan *cscan = castNode(CustomScan, node->ss.ps.plan);
	List	   *hash_clauses;
	List	   *join_qual;
	Bitmapset  *used = NULL;
	ExprState  *recheck_qual;
	Oid		   *operators;
	Oid		   *collations;
	HjgKeyCodec *outer_codec;
	HjgKeyCodec *inner_codec;
	PlanState  *outer_plan;
	PlanState  *inner_plan;

	check_join_plan(cscan);
	read_terms(&state->terms, cscan);
	hash_clauses = list_nth(cscan->custom_exprs, HJG_EXPRS_HASH_CLAUSES);
	join_qual = list_nth(cscan->custom_exprs, HJG_EXPRS_JOIN_QUAL);
	outer_plan = ExecInitNode(linitial(cscan->custom_plans), estate, eflags);
	inner_plan = ExecInitNode(lsecond(cscan->custom_plans), estate, eflags);
	node->custom_ps = list_make2(outer_plan, inner_plan);

	/* initialise all of core's expressions, used or not, because that checks the user's right to call their functions */
	recheck_qual = ExecInitQual(hash_clauses, &node->ss.ps);
	ExecInitQual(join_qual, &node->ss.ps);

	state->execution = (HjgExecution) {
		.terms = &state->terms,
		.estate = estate,
		.node = state,
		.timing = (estate->es_instrument & INSTRUMENT_TIMER) != 0,
		.report = &state->report,
		.work_context = AllocSetContextCreate(estate->es_query_cxt, "GpuHashJoin work", ALLOCSET_START_SMALL_SIZES),
	};
	operators = oid_array(list_nth(cscan->custom_private, HJG_PRIVATE_OPERATORS));
	collations = oid_array(list_nth(cscan->custom_private, HJG_PRIVATE_COLLATIONS));
	outer_codec = hjg_rows_key_codec(list_length(list_nth(cscan->custom_exprs, HJG_EXPRS_OUTER_KEYS)), operators, collations, true);
	inner_codec = hjg_rows_key_codec(list_length(list_nth(cscan->custom_exprs, HJG_EXPRS_INNER_KEYS)), operators, collations, false);

	/* payload columns: all that are read after the keys are encoded */
	hjg_node_columns((Node *) cscan->scan.plan.targetlist, &used);
	hjg_node_columns((Node *) cscan->scan.plan.qual, &used);
	hjg_node_columns((Node *) join_qual, &used);
	if (!outer_codec->exact)
		hjg_node_columns((Node *) hash_clauses, &used);

	init_sides(state, outer_plan, inner_plan, outer_codec, inner_codec, used);
	bms_free(used);
	init_conditions(state, outer_codec->exact, hash_clauses, recheck_qual, join_qual);
	init_operators(state);
	hjg_travel_begin(&state->travel, &state->filter, &state->outer);
	hjg_emit_init(&state->emit, node);
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
		hjg_verify_begin(state);
	state->phase = HJG_PHASE_BUILD;
}

/* Free everything of the execution so far. */
static void
reset_execution(HjgJoinState *state)
{
	ExecClearTuple(state->outer.payload.slot);
	ExecClearTuple(state->inner.payload.slot);
	hjg_probe_close(&state->probe);
	state->emit.n = state->emit.next = 0;
	hjg_build_reset(&state->build);
	hjg_match_reset(&state->match);
	hjg_parallel_reset(state);
	hjg_partitions_reset(&state->partitions);
	hjg_verify_forget(state, false);
	hjg_probe_filter_forget(&state->filter);
	hjg_travel_end(&state->travel);
	state->build_outdated = false;
	state->phase = HJG_PHASE_BUILD;
	state->started = false;
}

/* Count the execution in the statistics; of several processes only the leader counts it. */
static void
count_execution(HjgJoinState *state)
{
	HjgReport	report = state->report;

	if (state->counted || (state->parallel != NULL && IsParallelWorker()))
		return;
	hjg_report_add(&report, &state->others);
	if (!state->started && report.passes == 0)
		return;
	state->counted = true;
	hjg_service_count(HJG_COUNT_JOINS, 1);
	hjg_service_count(report.device_passes > 0 || (state->build.run != NULL && state->build.run->job != NULL) ?
					  HJG_COUNT_JOINS_DEVICE : HJG_COUNT_JOINS_BACKEND, 1);
	hjg_service_count(HJG_COUNT_BUILD_ROWS, report.build_rows);
	hjg_service_count(HJG_COUNT_PROBE_ROWS, report.probe_rows);
	hjg_service_count(HJG_COUNT_PAIRS, report.pairs);
}

/*
 * Rescan. The build side is kept if it is all in memory and neither its rows nor its keys can have changed, nor those of a join above
 * whose filter they have passed.
 */
static void
rescan_join(CustomScanState *node)
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
	keep_build = state->parallel == NULL && !state->build_outdated && state->build.run != NULL && state->build.run->build_complete && state->partitions.context == NULL &&
		inner_plan->chgParam == NULL && !(state->terms.inner_keys_vary && node->ss.ps.chgParam != NULL);

	if (keep_build)
	{
		hjg_probe_rescan(&state->probe);
		state->emit.n = state->emit.next = 0;
		hjg_verify_forget(state, true);
		hjg_build_rescan(&state->build);
		state->phase = HJG_PHASE_PROBE;
	}
	else
	{
		reset_execution(state);
		hjg_side_rescan(&state->inner);
	}
	hjg_side_rescan(&state->outer);
}

/* Shut down before core adds the workers' times to the node's. */
static void
shutdown_node(CustomScanState *node)
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
end_join(CustomScanState *node)
{
	HjgJoinState *state = (HjgJoinState *) node;

	count_execution(state);
	reset_execution(state);
	hjg_parallel_end(state);
	ExecEndNode(state->outer.plan);
	ExecEndNode(state->inner.plan);
}

/* ---------- parallel queries ---------- */

static Size
estimate_shared_join(CustomScanState *node, ParallelContext *pcxt)
{
	return hjg_parallel_estimate(pcxt);
}

static void
init_join_leader(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	HjgJoinState *state = (HjgJoinState *) node;

	reset_execution(state);
	hjg_parallel_init_leader(state, pcxt, coordinate);
}

static void
reinit_join_leader(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	HjgJoinState *state = (HjgJoinState *) node;

	if (state->parallel == NULL)
		return;
	reset_execution(state);
	hjg_parallel_reinit(state, coordinate);
}

static void
init_join_worker(CustomScanState *node, shm_toc *toc, void *coordinate)
{
	hjg_parallel_init_worker((HjgJoinState *) node, coordinate);
}

/* ---------- EXPLAIN ---------- */

static void
explain_join(CustomScanState *node, List *ancestors, ExplainState *es)
{
	HjgJoinState *state = (HjgJoinState *) node;

	/* the current pass has not reported yet */
	if (es->analyze && node->ss.ps.instrument != NULL && state->build.run != NULL)
		hjg_run_report(state->build.run);
	hjg_explain(state, ancestors, es);
}
