/*
 * node_program.c
 *	  A GpuAggregate whose groups are made by the device process: the plan below it becomes a program (hjg_program.h), which runs over kept
 *	  columns on a GPU or on threads, and the groups that come back are added to the node's own (node_program_take.c).
 *
 * The planner expects it where all tables are kept (planner_program.c). Whether it is possible is known only here, when the conditions'
 * operands and the tables' blocks are: nothing has been returned by then, so if it is not, or the device process cannot do it, the node
 * returns the rows of another plan, the best one without a program. The plan below the program is never executed.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "node/hjg_program_write.h"
#include "node/hjg_totals.h"
#include "planner/hjg_planner.h"
#include "service/hjg_service.h"

/* Bytes of a group in the node's table, about, beside its totals. */
#define GROUP_BYTES 64

/* Programs for the groups of a node, and what has come of them. */
typedef struct ProgramRuns
{
	HjgAggregateState *state;
	HjgProgramWriter *writer;
	HjgProgramGroups groups;
	HjgProgram	head;			/* of all programs, without their arrays */
	List	   *division;		/* how several of them divide the rows: C strings */
	int			ntasks;
	HjgProgramTask tasks[HJG_MAX_DEVICES];
} ProgramRuns;

/* ---------- writing ---------- */

/* Count the groups that the node's table may have. */
static uint64
count_most_groups(const HjgAggregateState *state)
{
	return state->groups == NULL ? 1 :
		get_hash_memory_limit() / (GROUP_BYTES + state->aggregation->record_bytes + state->nkept * sizeof(Datum)) + 1;
}

/* Write the groups for so many devices, or, for 0, only find out what they are made of; false: they cannot be written. */
static bool
write_for_devices(ProgramRuns *runs, int ndevices, const HjgProgramDivision *division)
{
	HjgAggregateState *state = runs->state;
	const CustomScan *cscan = castNode(CustomScan, state->css.ss.ps.plan);
	const List *scalars = list_nth(cscan->custom_private, HJG_AGGREGATE_PRIVATE_SCALARS);
	List	   *tables_read = runs->writer != NULL ? runs->writer->tables_read : NIL;

	runs->writer = hjg_program_writer_create(state->css.ss.ps.state, hjg_program_write_rows, ndevices, division);
	runs->writer->tables_read = tables_read;
	runs->groups = (HjgProgramGroups) {.state = state};
	return hjg_program_write_groups(runs->writer, &runs->groups, count_most_groups(state), list_nth_int(scalars, HJG_AGGREGATE_SCALAR_PROGRAM_GROUPS), true);
}

/* Do conditions on groups, or their order, leave some out? */
static bool
chooses_groups(const CustomScan *cscan)
{
	return cscan->scan.plan.qual != NIL || list_nth(cscan->custom_exprs, HJG_AGGREGATE_EXPRS_ORDER) != NIL;
}

/* Describe a division for EXPLAIN. */
static List *
describe_division(const HjgAggregateState *state, const HjgProgramDivision *division)
{
	MemoryContext caller = MemoryContextSwitchTo(state->css.ss.ps.state->es_query_cxt);
	List	   *names = state->css.ss.ps.instrument != NULL ? hjg_program_describe_division(division) : NIL;

	MemoryContextSwitchTo(caller);
	return names;
}

/* Write the programs for these devices, or for the first one if they cannot be divided. */
static bool
write_programs(ProgramRuns *runs, const HjgDeviceId *devices, int ndevices)
{
	HjgProgramDivision division;

	if (ndevices > 1 && !write_for_devices(runs, 0, NULL))
		return false;
	if (ndevices > 1 && !hjg_program_divide(runs->writer, ndevices, chooses_groups(castNode(CustomScan, runs->state->css.ss.ps.plan)), &division))
		ndevices = 1;
	runs->division = ndevices > 1 ? describe_division(runs->state, &division) : NIL;
	runs->head = (HjgProgram) {.max_groups = count_most_groups(runs->state)};
	if (!write_for_devices(runs, ndevices, ndevices > 1 ? &division : NULL) || !hjg_program_write_result(runs->writer, &runs->groups, &runs->head))
		return false;
	/* as much as core's joins and groups of so many processes may have */
	runs->head.max_bytes = (uint64) get_hash_memory_limit() * hjg_planner_threads() * runs->writer->ntables;
	runs->ntasks = hjg_program_finish(runs->writer, &runs->head, devices, runs->tasks);
	return runs->ntasks > 0;
}

/* ---------- running ---------- */

/* Get the device that is to run the program; ANY: none. */
static HjgDeviceId
planned_device(const HjgAggregateState *state)
{
	const CustomScan *cscan = castNode(CustomScan, state->css.ss.ps.plan);
	const List *scalars = list_nth(cscan->custom_private, HJG_AGGREGATE_PRIVATE_SCALARS);

	return (HjgDeviceId) {
		.kind = list_nth_int(scalars, HJG_AGGREGATE_SCALAR_DEVICE_KIND), .number = list_nth_int(scalars, HJG_AGGREGATE_SCALAR_DEVICE_NUMBER)
	};
}

/* Get the number by which it is known whether the program could be run lately. */
static uint32
program_number(const HjgAggregateState *state)
{
	const CustomScan *cscan = castNode(CustomScan, state->css.ss.ps.plan);
	const List *scalars = list_nth(cscan->custom_private, HJG_AGGREGATE_PRIVATE_SCALARS);

	return (uint32) list_nth_int(scalars, HJG_AGGREGATE_SCALAR_PROGRAM_NUMBER);
}

/* Choose the devices that are to run programs: the planned one, or, if that is a GPU without a number, all GPUs; returns how many. */
static int
choose_devices(HjgDeviceId planned, HjgDeviceId *devices)
{
	const int	n = planned.kind == HJG_KIND_CUDA && planned.number == HJG_NO_NUMBER ? hjg_service_gpus(devices) : 0;

	if (n == 0)
		devices[0] = planned;
	return Max(n, 1);
}

/* Run the programs, and take their groups; returns why that was not possible. *gave_up: why a GPU gave its program up. */
static HjgReason
run_programs(ProgramRuns *runs, HjgJobStats *stats, HjgReason *gave_up)
{
	HjgReason	reason = HJG_REASON_NONE;

	*gave_up = HJG_REASON_NONE;
	if (!hjg_job_run_programs(runs->tasks, runs->ntasks, stats, &reason))
		return reason;
	*gave_up = reason;
	return hjg_program_take_results(&runs->groups, runs->tasks, runs->ntasks, runs->head.max_groups);
}

/* Write and run the programs, and take their groups; false if that was not possible, with the reason in the report. */
static bool
run_and_take(HjgAggregateState *state, HjgDeviceId planned)
{
	HjgDeviceId devices[HJG_MAX_DEVICES];
	const int	ndevices = choose_devices(planned, devices);
	ProgramRuns runs = {.state = state};
	HjgProgramFigures *figures = &state->program;
	HjgReason	reason;
	HjgReason	gave_up;
	HjgJobStats stats;
	ListCell   *lc;

	if (!write_programs(&runs, devices, ndevices))
	{
		/* the planner takes another plan then, where several processes may share the work */
		hjg_kept_note_refused(program_number(state));
		hjg_service_count_fallback(HJG_REASON_PROGRAM_REFUSED);
		figures->why = runs.writer->why;
		return false;
	}
	reason = run_programs(&runs, &stats, &gave_up);
	if (reason != HJG_REASON_NONE)
	{
		/* memory that is short now may be short for long */
		if (reason == HJG_REASON_PROGRAM_REFUSED || reason == HJG_REASON_DEVICE_MEMORY)
			hjg_kept_note_refused(program_number(state));
		hjg_program_report_fallback(reason, false);
		figures->why = hjg_reasons[reason].text;
		return false;
	}
	hjg_service_count(HJG_COUNT_PROGRAMS, 1);
	hjg_stats_add(&figures->stats, &stats);
	figures->nruns++;
	figures->ndevices = Max(figures->ndevices, runs.ntasks);
	figures->division = runs.division;
	for (int i = 0; i < runs.ntasks; i++)
		figures->bytes += runs.tasks[i].head.nbytes;
	if (gave_up != HJG_REASON_NONE)
		hjg_program_report_fallback(gave_up, true);
	figures->why = gave_up != HJG_REASON_NONE ? hjg_reasons[gave_up].text : NULL;
	foreach(lc, runs.writer->tables_read)
		HJG_ADD_COUNTS(state->report.kept_blocks, ((const HjgToldRows *) lfirst(lc))->collection.counts);
	return true;
}

bool
hjg_program_group(HjgAggregateState *state)
{
	const HjgDeviceId device = planned_device(state);
	MemoryContext context;
	MemoryContext caller;
	bool		done;

	if (!hjg_kept_columns)
		return false;
	/* a plan may be older than that */
	if (!hjg_force && hjg_scan_program_refused(program_number(state)))
	{
		state->program.why = HJG_SCAN_REFUSED_LATELY;
		return false;
	}
	context = AllocSetContextCreate(state->css.ss.ps.state->es_query_cxt, "GpuAggregate program", ALLOCSET_DEFAULT_SIZES);
	caller = MemoryContextSwitchTo(context);
	done = run_and_take(state, device);
	MemoryContextSwitchTo(caller);
	/* the vectors of the keys are gone, and no kept column is held any more */
	memset(state->vectors, 0, state->child.ncolumns * sizeof(HjgVector));
	MemoryContextDelete(context);
	return done;
}
