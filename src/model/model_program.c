/*
 * model_program.c
 *	  The time of a program (layout/hjg_program.h): a backend writes it, and a GPU runs it over columns that its memory has already.
 */
#include "model/hjg_model.h"

/* Starting and ending the job, and the launches of a table. */
#define START_NS 2000000
#define TABLE_NS 200000

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

/* Testing a string. */
#define STRING_NS 30

/* On a GPU: reading and testing a value, looking a row up in a table, entering one into it, adding a value to its group. */
#define VALUE_NS 0.015
#define PROBE_NS 0.03
#define ENTER_NS 0.15
#define STEP_NS 0.012

/* Sending a group back, adding it to the node's table, and returning it: one process does that. */
#define GROUP_NS 700

/* For each further GPU: adding a group that others have sent, too, and starting and ending the job. */
#define GROUP_AGAIN_NS 400
#define DEVICE_NS 500000

double
hjg_model_program_ns(const HjgProgramShape *shape, int ndevices)
{
	const double divided_ns = shape->driving_values * VALUE_NS + shape->driving_probes * PROBE_NS + shape->grouped * shape->nsteps * STEP_NS;
	const double built_ns = (shape->values - shape->driving_values) * VALUE_NS + (shape->probes - shape->driving_probes) * PROBE_NS +
		shape->entered * ENTER_NS;
	const double written_ns = shape->pages / SEGMENT_PAGES * SEGMENT_NS + shape->column_pages / SEGMENT_PAGES * SEGMENT_COLUMN_NS +
		shape->word_pages / SEGMENT_PAGES * SEGMENT_WORDS_NS + shape->strings * STRING_NS +
		shape->live_pages * LIVE_PAGE_NS + shape->live_rows * LIVE_ROW_NS;

	return START_NS + shape->ntables * TABLE_NS + written_ns + built_ns + divided_ns / ndevices + shape->ngroups * GROUP_NS +
		(ndevices - 1) * (DEVICE_NS + shape->ngroups * GROUP_AGAIN_NS);
}
