/*
 * node_explain.c
 *	  EXPLAIN of the nodes, in all formats: one key, one typed value.
 *
 * Values that depend on the machine or the moment appear only under ANALYZE, times only with TIMING.
 */
#include "postgres.h"

#include "commands/explain.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/ruleutils.h"

#include "base/hjg_base.h"
#include "base/hjg_compat.h"
#include "node/hjg_aggregate.h"
#include "node/hjg_node.h"

#define HJG_NS_PER_MS 1000000.0

void
hjg_report_add_job(HjgReport *report, const HjgJobStats *stats)
{
	hjg_stats_add(&report->job, stats);
	if (stats->declined)
		hjg_service_count_fallback(HJG_REASON_STRATEGY);
}

void
hjg_report_add(HjgReport *report, const HjgReport *other)
{
#define TIME(name) HJG_ADD_SUM(report->times.name, other->times.name);
	HJG_TIMES(TIME)
#undef TIME
#define FIGURE(type, name, how) HJG_ADD_##how(report->name, other->name);
	HJG_FIGURES(FIGURE)
#undef FIGURE
	hjg_stats_add(&report->job, &other->job);
	if (report->device.kind == HJG_KIND_ANY)
		report->device = other->device;
}

static const char *
join_type_text(JoinType jointype)
{
	if (HJG_IS_BUILD_ONLY(jointype))
		return jointype == HJG_JOIN_RIGHT_ANTI ? "Right Anti" : "Right Semi";
	switch (jointype)
	{
		case JOIN_INNER:
			return "Inner";
		case JOIN_LEFT:
			return "Left";
		case JOIN_RIGHT:
			return "Right";
		case JOIN_FULL:
			return "Full";
		case JOIN_SEMI:
			return "Semi";
		case JOIN_ANTI:
			return "Anti";
		default:
			return "Unknown";
	}
}

/* Show a qual as core shows those of its joins. */
static void
show_qual(List *qual, const char *label, CustomScanState *node, List *ancestors, ExplainState *es)
{
	List	   *context;

	if (qual == NIL)
		return;
	context = set_deparse_context_plan(es->deparse_cxt, node->ss.ps.plan, ancestors);
	ExplainPropertyText(label,
						deparse_expression((Node *) make_ands_explicit(qual), context,
										   HJG_HAS_SEVERAL_RELATIONS(es) || es->verbose, false),
						es);
}

/* Show the aggregates that the node computes, named as core names those of a partial aggregation. */
static void
show_aggregates(CustomScanState *node, List *ancestors, ExplainState *es)
{
	const CustomScan *cscan = castNode(CustomScan, node->ss.ps.plan);
	const int	naggregates = list_length(list_nth(cscan->custom_private, HJG_AGGREGATE_PRIVATE_FUNCTIONS));
	List	   *context = set_deparse_context_plan(es->deparse_cxt, node->ss.ps.plan, ancestors);
	List	   *names = NIL;

	for (int i = list_length(cscan->custom_scan_tlist) - naggregates; i < list_length(cscan->custom_scan_tlist); i++)
	{
		const TargetEntry *tle = list_nth_node(TargetEntry, cscan->custom_scan_tlist, i);
		Var		   *column = makeVar(INDEX_VAR, tle->resno, exprType((Node *) tle->expr), -1, InvalidOid, 0);

		names = lappend(names, deparse_expression((Node *) column, context, HJG_HAS_SEVERAL_RELATIONS(es) || es->verbose,
												  false));
	}
	if (names != NIL || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyList("Aggregates", names, es);
}

static const char *
sides_text(bool outer, bool inner)
{
	return outer && inner ? "both" : outer ? "outer" : inner ? "inner" : "none";
}

/* Show the sides that have a property; text leaves out none. */
static void
show_sides(const char *label, bool outer, bool inner, ExplainState *es)
{
	if (outer || inner || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyText(label, sides_text(outer, inner), es);
}

/* Show a count that text leaves out when it is zero. */
static void
show_count(const char *label, const char *unit, uint64 value, ExplainState *es)
{
	if (value > 0 || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyUInteger(label, unit, value, es);
}

/* Show the blocks of scans that use kept columns. */
static void
show_kept(const HjgKeptCounts *blocks, ExplainState *es)
{
	if (blocks->served + blocks->skipped + blocks->live == 0 && es->format == EXPLAIN_FORMAT_TEXT)
		return;
	ExplainPropertyUInteger("Kept Blocks", NULL, blocks->served, es);
	ExplainPropertyUInteger("Blocks Skipped", NULL, blocks->skipped, es);
	ExplainPropertyUInteger("Blocks Read", NULL, blocks->live, es);
}

static void
show_filtered(const char *label, CustomScanState *node, ExplainState *es)
{
	Instrumentation *instrument = node->ss.ps.instrument;
	double		nloops = instrument->nloops;

	if (instrument->nfiltered2 > 0 || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyFloat(label, NULL, nloops > 0 ? instrument->nfiltered2 / nloops : 0.0, 0, es);
}

/* Show the rows that the Bloom filter dropped in a loop, as core counts rows, and its memory. */
static void
show_filter(const HjgReport *report, double nloops, ExplainState *es)
{
	ExplainPropertyFloat("Rows Removed by Bloom Filter", NULL, report->filtered_rows / Max(nloops, 1), 0, es);
	show_count("Bloom Filter Memory", "kB", (report->filter_bytes + 1023) / 1024, es);
	if (report->filter_stopped || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyBool("Bloom Filter Given Up", report->filter_stopped, es);
}

/* Show the scan whose rows it tests, by its name in the query. */
static void
show_target(const HjgTravel *travel, ExplainState *es)
{
	if (travel->target != NULL)
		ExplainPropertyText("Bloom Filter Scan",
							list_nth(es->rtable_names, ((const Scan *) travel->target->ps.plan)->scanrelid - 1), es);
	else if (es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyText("Bloom Filter Scan", "none", es);
}

static void
show_time(const char *label, double ns, ExplainState *es)
{
	ExplainPropertyFloat(label, "ms", ns / HJG_NS_PER_MS, 3, es);
}

static void
show_device_phases(const HjgReport *report, ExplainState *es)
{
	const bool	text = es->format == EXPLAIN_FORMAT_TEXT;
	const struct
	{
		const char *label;
		uint64		ns;
		bool		in_text;
	}			phases[] = {
		{"Transfer", report->job.transfer_ns, true},
		{"Partition", report->job.partition_ns, true},
		{"Build", report->job.build_ns, true},
		{"Probe", report->job.probe_ns, true},
		{"Gather", report->job.gather_ns, report->gathered != 0},
		{"Busy", report->job.busy_ns, true},
	};

	if (text)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfoString(es->str, "Device Phases:");
	}
	for (int i = 0; i < lengthof(phases); i++)
	{
		if (!text)
			show_time(psprintf("%s Time", phases[i].label), phases[i].ns, es);
		else if (phases[i].in_text)
			appendStringInfo(es->str, " %s=%.3f ms", phases[i].label, phases[i].ns / HJG_NS_PER_MS);
	}
	if (text)
		appendStringInfoChar(es->str, '\n');
}

/*
 * Show the phases of the backend, which add up to the node's time: the time that is not spent in reading, waiting or joining
 * is that of emitting. The phases in the device process run beside them and are shown apart. Those of a GPU overlap if
 * batches do, and a copy's time includes its wait for the bus; Busy is the time in which the device process had something to
 * do. Times are of all loops together, and of all processes that shared the join; of processes that each ran a join of their
 * own, the leader's.
 */
static void
show_times(const HjgJoinState *state, const HjgReport *report, ExplainState *es)
{
	const HjgTimes *times = &report->times;
	double		node_ns = report->node_ns > 0 ? report->node_ns : state->css.ss.ps.instrument->total * 1.0e9;
	double		wait_ns = report->job.wait_ns;
	double		known_ns = (double) times->marshal_build_ns + times->marshal_probe_ns + wait_ns +
		times->backend_build_ns + times->backend_probe_ns;

	ExplainOpenGroup("Phases", "Phases", true, es);
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfo(es->str,
						 "Phases: Scan+Marshal Build=%.3f ms Scan+Marshal Probe=%.3f ms Build=%.3f ms"
						 " Probe=%.3f ms Wait=%.3f ms Emit=%.3f ms\n",
						 times->marshal_build_ns / HJG_NS_PER_MS, times->marshal_probe_ns / HJG_NS_PER_MS,
						 times->backend_build_ns / HJG_NS_PER_MS, times->backend_probe_ns / HJG_NS_PER_MS,
						 wait_ns / HJG_NS_PER_MS, Max(node_ns - known_ns, 0) / HJG_NS_PER_MS);
	}
	else
	{
		show_time("Scan and Marshal Build Time", times->marshal_build_ns, es);
		show_time("Scan and Marshal Probe Time", times->marshal_probe_ns, es);
		show_time("Build Time", times->backend_build_ns, es);
		show_time("Probe Time", times->backend_probe_ns, es);
		show_time("Wait Time", wait_ns, es);
		show_time("Emit Time", Max(node_ns - known_ns, 0), es);
	}
	ExplainCloseGroup("Phases", "Phases", true, es);

	if (es->format == EXPLAIN_FORMAT_TEXT && report->device_passes == 0)
		return;
	ExplainOpenGroup("Device Phases", "Device Phases", true, es);
	show_device_phases(report, es);
	ExplainCloseGroup("Device Phases", "Device Phases", true, es);
}

/* Show the model's prediction of the same phases; it has scans, shown apart, only for tables that the node reads itself. */
static void
show_predicted(List *prediction, const char *group, HjgPlanPrediction from, HjgPlanPrediction to, ExplainState *es)
{
	static const char *const labels[HJG_PREDICTION_Count] = {
		[HJG_PREDICTION_MARSHAL_BUILD] = "Marshal Build",
		[HJG_PREDICTION_MARSHAL_PROBE] = "Marshal Probe",
		[HJG_PREDICTION_BUILD] = "Build",
		[HJG_PREDICTION_PROBE] = "Probe",
		[HJG_PREDICTION_EMIT] = "Emit",
		[HJG_PREDICTION_SCAN_BUILD] = "Scan Build",
		[HJG_PREDICTION_SCAN_PROBE] = "Scan Probe",
		[HJG_PREDICTION_GPU_TRANSFER] = "Transfer",
		[HJG_PREDICTION_GPU_BUILD] = "Build",
		[HJG_PREDICTION_GPU_PROBE] = "Probe",
	};

	ExplainOpenGroup(group, group, true, es);
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfo(es->str, "%s:", group);
		for (int i = from; i <= to; i++)
			appendStringInfo(es->str, " %s=%.3f ms", labels[i], list_nth_int(prediction, i) / 1000.0);
		appendStringInfoChar(es->str, '\n');
	}
	else
	{
		for (int i = from; i <= to; i++)
			show_time(psprintf("%s Time", labels[i]), list_nth_int(prediction, i) * 1000.0, es);
	}
	ExplainCloseGroup(group, group, true, es);
}

static int
report_us(uint64 ns)
{
	return (int) Min(ns / 1000, PG_INT32_MAX);
}

/* Show the prediction; that of the device process if it plans the engine's part itself, as for coupled chips. */
static void
show_prediction(const HjgReport *report, List *prediction, ExplainState *es)
{
	const bool	by_device = report->job.predicted_build_ns > 0;

	if (list_length(prediction) != HJG_PREDICTION_Count)
		elog(ERROR, "%s plan node has an unknown form", HJG_NODE_NAME);
	show_predicted(prediction, "Predicted Phases", HJG_PREDICTION_MARSHAL_BUILD, HJG_PREDICTION_SCAN_PROBE, es);
	if (by_device)
	{
		prediction = list_copy(prediction);
		lfirst_int(list_nth_cell(prediction, HJG_PREDICTION_GPU_TRANSFER)) = 0;
		lfirst_int(list_nth_cell(prediction, HJG_PREDICTION_GPU_BUILD)) = report_us(report->job.predicted_build_ns);
		lfirst_int(list_nth_cell(prediction, HJG_PREDICTION_GPU_PROBE)) = report_us(report->job.predicted_probe_ns);
	}
	if (by_device || list_nth_int(prediction, HJG_PREDICTION_GPU_TRANSFER) > 0 || es->format != EXPLAIN_FORMAT_TEXT)
		show_predicted(prediction, "Predicted Device Phases", HJG_PREDICTION_GPU_TRANSFER, HJG_PREDICTION_GPU_PROBE, es);
}

/* Name the device's driver, unless the cpu engine joined after all. */
static const char *
engine_text(const HjgReport *report)
{
	const bool	on_device = report->device_passes > 0 && report->fallback == HJG_REASON_NONE &&
		(report->device.kind != HJG_KIND_OPENCL || hjg_is_coupled_strategy(report->job.strategy));

	return hjg_device_kind(on_device ? report->device.kind : HJG_KIND_CPU)->engine;
}

static void
show_report(HjgJoinState *state, ExplainState *es)
{
	CustomScan *cscan = castNode(CustomScan, state->css.ss.ps.plan);
	HjgReport	report = state->report;
	bool		joined;
	bool		on_device;
	bool		on_gpu;

	hjg_report_add(&report, &state->others);
	/* a side without rows ends the join early; and without reports of workers the leader may have joined nothing */
	joined = report.passes > 0;
	on_device = report.device_passes > 0;
	on_gpu = hjg_is_cuda_strategy(report.job.strategy);
	if (!joined && es->format == EXPLAIN_FORMAT_TEXT)
		return;

	ExplainPropertyText("Engine", joined ? engine_text(&report) : "none", es);
	ExplainPropertyText("Joined In", on_device ? "device process" : joined ? "backend" : "none", es);
	if (on_device || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyText("Device", on_device ? hjg_device_name(report.device).text : "none", es);
	if (report.fallback != HJG_REASON_NONE)
		ExplainPropertyText("Fallback", hjg_reasons[report.fallback].text, es);
	else if (es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyText("Fallback", "none", es);
	if (report.verified > 0 || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyText("Verified", report.verified == 0 ? "none" : report.mismatched == 0 ? "equal" : "different", es);
	ExplainPropertyText("Strategy", joined ? hjg_strategy_name(report.job.strategy) : "none", es);
	if (report.job.declined || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyBool("Strategy Declined", report.job.declined, es);
	if (report.job.pipeline != HJG_PIPELINE_AUTO)
		ExplainPropertyText("Pipeline", hjg_pipeline_name(report.job.pipeline), es);
	else if (es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyText("Pipeline", "none", es);
	ExplainPropertyUInteger("Hash Batches", NULL, joined ? Max(report.npartitions, 1) : 0, es);
	show_count("Radix Partitions", NULL, on_gpu ? 0 : report.job.npartitions, es);
	show_count("Build Passes", NULL, on_gpu && report.job.npartitions > 1 ? report.job.npartitions : 0, es);
	show_kept(&report.kept_blocks, es);
	show_count("Build Rows", NULL, report.build_rows, es);
	show_count("Probe Rows", NULL, report.probe_rows, es);
	if (state->terms.use_filter || es->format != EXPLAIN_FORMAT_TEXT)
		show_filter(&report, state->css.ss.ps.instrument->nloops, es);
	show_count("Candidate Pairs", NULL, report.pairs, es);
	show_sides("Early Materialization", report.gathered & HJG_SIDE_BIT(HJG_SIDE_PROBE),
			   report.gathered & HJG_SIDE_BIT(HJG_SIDE_BUILD), es);
	show_count("Probe Rounds", NULL, report.rounds, es);
	show_count("Redone Batches", NULL, report.redone, es);
	show_count("Temporary File Size", "kB", (report.spilled_bytes + 1023) / 1024, es);
	ExplainPropertyUInteger("Peak Memory Usage", "kB", (report.peak_bytes + report.round_bytes + 1023) / 1024, es);
	show_count("Arena Usage", "kB", report.job.arena_bytes / 1024, es);
	if (state->execution.timing && es->timing)
	{
		show_times(state, &report, es);
		show_prediction(&report, list_nth(cscan->custom_private, HJG_PRIVATE_PREDICTION), es);
	}
}

void
hjg_explain(HjgJoinState *state, List *ancestors, ExplainState *es)
{
	CustomScanState *node = &state->css;
	CustomScan *cscan = castNode(CustomScan, node->ss.ps.plan);
	List	   *hash_clauses = list_nth(cscan->custom_exprs, HJG_EXPRS_HASH_CLAUSES);
	List	   *join_qual = list_nth(cscan->custom_exprs, HJG_EXPRS_JOIN_QUAL);

	ExplainPropertyText("Join Type", join_type_text(state->terms.jointype), es);
	if (es->verbose)
		ExplainPropertyBool("Inner Unique", state->terms.inner_unique, es);
	show_qual(hash_clauses, "Hash Cond", node, ancestors, es);
	show_qual(join_qual, "Join Filter", node, ancestors, es);
	if (join_qual != NIL && es->analyze && node->ss.ps.instrument != NULL)
		show_filtered("Rows Removed by Join Filter", node, es);
	if (state->terms.use_filter || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyBool("Bloom Filter", state->terms.use_filter, es);
	if (es->verbose || es->analyze)
		show_target(&state->travel, es);
	if (es->verbose)
	{
		ExplainPropertyText("Key Encoding", state->outer.keys.codec->exact ? "exact" : "hash", es);
		ExplainPropertyInteger("Key Width", "bytes", state->outer.keys.codec->key_width, es);
		ExplainPropertyInteger("Payload Columns", NULL, state->outer.payload.n + state->inner.payload.n, es);
	}
	if (es->verbose || es->analyze)
	{
		/* sides whose pages the node reads itself; sides that are joins and return vectors */
		show_sides("Direct Scan", state->outer.scan != NULL, state->inner.scan != NULL, es);
		show_sides("Direct Join", state->outer.below != NULL, state->inner.below != NULL, es);
	}
	if (es->analyze && node->ss.ps.instrument != NULL)
		show_report(state, es);
}

/* Show which device is to make the groups, or has made them, or why it has not. */
static void
show_program(const HjgAggregateState *state, ExplainState *es)
{
	const List *scalars = list_nth(castNode(CustomScan, state->css.ss.ps.plan)->custom_private, HJG_AGGREGATE_PRIVATE_SCALARS);
	const HjgDeviceId device = {
		.kind = list_nth_int(scalars, HJG_AGGREGATE_SCALAR_DEVICE_KIND), .number = list_nth_int(scalars, HJG_AGGREGATE_SCALAR_DEVICE_NUMBER)
	};
	const HjgProgramFigures *figures = &state->program;

	if (device.kind == HJG_KIND_ANY)
		return;
	ExplainPropertyText("Program Device", hjg_device_name(device).text, es);
	if (!es->analyze || state->css.ss.ps.instrument == NULL)
		return;
	ExplainPropertyUInteger("Programs", NULL, figures->nruns, es);
	show_count("Program Devices", NULL, figures->ndevices, es);
	if (figures->division != NIL)
		ExplainPropertyList("Program Division", figures->division, es);
	if (figures->why != NULL)
		ExplainPropertyText("Fallback", figures->why, es);
	show_count("Program Size", "kB", (figures->bytes + 1023) / 1024, es);
	show_count("Device Memory Usage", "kB", (figures->stats.workspace_bytes + 1023) / 1024, es);
	if (!es->timing)
		return;
	show_time("Wait Time", figures->stats.wait_ns, es);
	show_time("Transfer Time", figures->stats.transfer_ns, es);
	show_time("Build Time", figures->stats.build_ns, es);
	show_time("Probe Time", figures->stats.probe_ns, es);
}

/* Show the phases of all processes together. */
static void
show_grouping_times(const HjgGroupReport *report, ExplainState *es)
{
	ExplainOpenGroup("Phases", "Phases", true, es);
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfo(es->str, "Phases: Scan+Group=%.3f ms", report->read_ns / HJG_NS_PER_MS);
		if (report->write_ns + report->wait_ns + report->merge_ns > 0)
			appendStringInfo(es->str, " Write=%.3f ms Wait=%.3f ms Merge=%.3f ms", report->write_ns / HJG_NS_PER_MS,
							 report->wait_ns / HJG_NS_PER_MS, report->merge_ns / HJG_NS_PER_MS);
		appendStringInfoChar(es->str, '\n');
	}
	else
	{
		show_time("Scan and Group Time", report->read_ns, es);
		show_time("Write Time", report->write_ns, es);
		show_time("Wait Time", report->wait_ns, es);
		show_time("Merge Time", report->merge_ns, es);
	}
	ExplainCloseGroup("Phases", "Phases", true, es);
}

void
hjg_grouping_explain(HjgAggregateState *state, List *ancestors, ExplainState *es)
{
	CustomScanState *node = &state->css;
	const CustomScan *cscan = castNode(CustomScan, node->ss.ps.plan);
	const List *keys = list_nth(cscan->custom_exprs, HJG_AGGREGATE_EXPRS_KEYS);
	List	   *context = set_deparse_context_plan(es->deparse_cxt, node->ss.ps.plan, ancestors);
	List	   *names = NIL;
	HjgGroupReport report;
	ListCell   *lc;

	foreach(lc, keys)
		names = lappend(names, deparse_expression(lfirst(lc), context, HJG_HAS_SEVERAL_RELATIONS(es) || es->verbose, true));
	if (names != NIL)
		ExplainPropertyList("Group Key", names, es);
	show_aggregates(node, ancestors, es);
	if (es->verbose || es->analyze)
	{
		if (state->child.scan != NULL || es->format != EXPLAIN_FORMAT_TEXT)
			ExplainPropertyBool("Direct Scan", state->child.scan != NULL, es);
		if (state->child.below != NULL || es->format != EXPLAIN_FORMAT_TEXT)
			ExplainPropertyBool("Direct Join", state->child.below != NULL, es);
		show_count("Expressions by Core", NULL, state->nby_core, es);
	}
	if (es->verbose || es->analyze)
		show_program(state, es);
	if (!es->analyze || node->ss.ps.instrument == NULL)
		return;
	report = state->others;
	hjg_group_report_add(&report, &state->report);
	show_kept(&report.kept_blocks, es);
	if (state->groups != NULL)
	{
		if (state->spill != NULL)
			hjg_group_spill_report(state->spill, &report);
		show_count("Full Tables", NULL, report.nfull, es);
		show_count("Group Partitions", NULL, report.npartitions, es);
		show_count("Temporary File Size", "kB", (report.spilled_bytes + 1023) / 1024, es);
		ExplainPropertyUInteger("Peak Memory Usage", "kB", (report.peak_bytes + 1023) / 1024, es);
	}
	if (es->timing)
		show_grouping_times(&report, es);
	if (state->css.ss.ps.state->es_instrument & INSTRUMENT_TIMER && es->timing)
		show_time("Predicted Time", list_nth_int(list_nth(cscan->custom_private, HJG_AGGREGATE_PRIVATE_SCALARS), HJG_AGGREGATE_SCALAR_PREDICTION) * 1000.0, es);
}
