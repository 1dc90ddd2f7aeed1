/*
 * model_program.c
 *	  The time of a program (layout/hjg_program.h): a backend writes it, and a GPU runs it over columns that its memory has already, or the
 *	  device process's threads over those that are kept.
 */
#include <math.h>

#include "model/hjg_model.h"

/* Starting and ending the job. */
#define START_NS 500000

/*
 * Looking at a segment's blocks, writing a column of it, and testing or numbering the words of one, by a process that has not seen that memory
 * yet; a segment has about so many pages.
 */
#define SEGMENT_NS 1000
#define SEGMENT_COLUMN_NS 150
#define SEGMENT_WORDS_NS 1000
#define SEGMENT_PAGES 250.0

/* Reading a block that has changed, whose page no cache has, and a row of it into columns. */
#define LIVE_PAGE_NS 3000
#define LIVE_ROW_NS 100

/* Testing a string, by one of the processor's threads. */
#define STRING_NS 40

/* Costs on a device, of which it has one or several. */
typedef struct ProgramUnits
{
	double		start_ns;		/* starting and ending a program, */
	double		table_ns;		/* and the launches for a table */
	double		value_ns;		/* reading and testing a value, */
	double		probe_ns;		/* looking a row up in a table, */
	double		far_probe_ns;	/* more in tables that are in no near cache, */
	double		enter_ns;		/* entering one into it, */
	double		collect_ns;		/* adding one to one of many groups, with a second look at its values, */
	double		step_ns;		/* adding a value to its group, */
	double		pass_ns;		/* and finding out that a row is another device's */
} ProgramUnits;

static const ProgramUnits gpu_units = {
	.start_ns = 1500000, .table_ns = 200000, .value_ns = 0.015, .probe_ns = 0.03, .far_probe_ns = 0, .enter_ns = 0.15, .collect_ns = 0.06, .step_ns = 0.012,
	.pass_ns = 0.05
};

/* Costs on a thread where a row of calibration's program (calibrate_program.c) takes the default time. */
static const ProgramUnits thread_units = {
	.start_ns = 0, .table_ns = 100000, .value_ns = 0.9, .probe_ns = 4, .far_probe_ns = 4, .enter_ns = 12, .collect_ns = 20, .step_ns = 0.65
};

/* Sending a group back, adding it to the node's table, and returning it: one process does that. */
#define GROUP_NS 700

/* Costs of each further GPU: adding a group that others have sent, too, describing a segment to it, too, and starting and ending the job. */
#define GROUP_AGAIN_NS 400
#define SEGMENT_AGAIN_NS 800
#define DEVICE_NS 500000

/* A thread has a table of its own for so many groups; all threads add rows to one of more. */
#define NEAR_GROUPS 2500

/* Tables that have so many bytes together are in no near cache; parts of smaller ones are. */
#define FAR_BYTES (64.0 * 1024 * 1024)

static double
probe_ns(const HjgProgramShape *shape, const ProgramUnits *units)
{
	return units->probe_ns + units->far_probe_ns * fmin(shape->table_bytes / FAR_BYTES, 1);
}

/* Predict the work that each of several devices does as a whole. */
static double
work_of_each_ns(const HjgProgramShape *shape, const ProgramUnits *units)
{
	return (shape->values - shape->divided_values) * units->value_ns + (shape->probes - shape->divided_probes) * probe_ns(shape, units) +
		(shape->entered - shape->divided_entered) * units->enter_ns + (shape->collected - shape->divided_collected) * units->collect_ns +
		shape->passed * units->pass_ns;
}

/* Predict the work that several devices divide. */
static double
work_divided_ns(const HjgProgramShape *shape, const ProgramUnits *units)
{
	return shape->divided_values * units->value_ns + shape->divided_probes * probe_ns(shape, units) + shape->divided_entered * units->enter_ns +
		shape->divided_collected * units->collect_ns + shape->grouped * shape->nsteps * units->step_ns;
}

/* Predict the work of the backend. */
static double
written_ns(const HjgProgramShape *shape)
{
	return START_NS + shape->pages / SEGMENT_PAGES * SEGMENT_NS + shape->column_pages / SEGMENT_PAGES * SEGMENT_COLUMN_NS +
		shape->word_pages / SEGMENT_PAGES * SEGMENT_WORDS_NS +
		shape->live_pages * LIVE_PAGE_NS + shape->live_rows * LIVE_ROW_NS + shape->ngroups * GROUP_NS;
}

double
hjg_model_program_ns(const HjgProgramShape *shape, int ndevices, int nthreads)
{
	return written_ns(shape) + shape->strings * STRING_NS / nthreads + gpu_units.start_ns + shape->ntables * gpu_units.table_ns + work_of_each_ns(shape, &gpu_units) +
		work_divided_ns(shape, &gpu_units) / ndevices +
		(ndevices - 1) * (DEVICE_NS + shape->passed_pages / SEGMENT_PAGES * SEGMENT_AGAIN_NS + (shape->whole_groups ? 0 : shape->ngroups) * GROUP_AGAIN_NS);
}

double
hjg_model_program_threads_ns(const HjgUnitCosts *costs, const HjgProgramShape *shape, int nthreads)
{
	const double added_ns = shape->made > NEAR_GROUPS ? shape->grouped * thread_units.collect_ns : 0;

	return written_ns(shape) + thread_units.start_ns + shape->ntables * thread_units.table_ns +
		(shape->strings * STRING_NS + work_of_each_ns(shape, &thread_units) + work_divided_ns(shape, &thread_units) + added_ns) / nthreads *
		costs->program_row_ns / hjg_model_default_costs.program_row_ns;
}
