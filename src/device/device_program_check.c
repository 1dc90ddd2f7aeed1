/*
 * device_program_check.c
 *	  Copies a program out of memory that others can write to, and checks the copy.
 *
 * The runner uses what is checked here without further checks: all numbers that lead to memory are within their arrays, and all
 * work is bounded by the size of the block.  Whether the program computes what its writer meant is not known here.
 */
#include <stdlib.h>
#include <string.h>

#include "device/hjg_device_program.h"

/* Leave the function with what is wrong. */
#define REQUIRE(condition, wrong) \
	do { \
		if (!(condition)) \
			return wrong; \
	} while (0)

#define CHECK(call) \
	do { \
		const char *check_wrong = call; \
		if (check_wrong != NULL) \
			return check_wrong; \
	} while (0)

static bool
is_range(hjg_u64 first, hjg_u64 n, hjg_u64 room)
{
	return first <= room && n <= room - first;
}

/* ---- the copy ---- */

static int
compare_first_rows(const void *a, const void *b)
{
	const HjgSegment *x = a;
	const HjgSegment *y = b;

	return (x->first_row > y->first_row) - (x->first_row < y->first_row);
}

HjgStatus
hjg_device_program_copy(const HjgEnv *env, const HjgSegment *segments, int nsegments, HjgDeviceProgram *program)
{
	HjgSegment *sorted = malloc(((size_t) nsegments + 1) * sizeof(HjgSegment));
	hjg_u64		nwords = 0;

	*program = (HjgDeviceProgram) {.env = env};
	if (sorted == NULL)
		return HJG_ERR_MEMORY;
	memcpy(sorted, segments, (size_t) nsegments * sizeof(HjgSegment));
	qsort(sorted, (size_t) nsegments, sizeof(HjgSegment), compare_first_rows);
	for (int i = 0; i < nsegments && nwords != ~0ull; i++)
		nwords = sorted[i].first_row == nwords || sorted[i].nrows == 0 ? nwords + sorted[i].nrows : ~0ull;
	if (nwords > HJG_PROGRAM_MAX_BYTES / sizeof(hjg_u64))
	{
		free(sorted);
		return HJG_ERR_INPUT;
	}
	program->nbytes = (size_t) nwords * sizeof(hjg_u64);
	program->block = env->alloc(env->arg, program->nbytes + 1);
	for (int i = 0; i < nsegments && program->block != NULL; i++)
		if (sorted[i].nrows > 0)
			memcpy(program->block + (size_t) sorted[i].first_row * sizeof(hjg_u64), sorted[i].keys, (size_t) sorted[i].nrows * sizeof(hjg_u64));
	free(sorted);
	return program->block != NULL ? HJG_OK : HJG_ERR_MEMORY;
}

void
hjg_device_program_free(HjgDeviceProgram *program)
{
	if (program->block != NULL)
		program->env->free(program->env->arg, program->block, program->nbytes + 1);
	free(program->column_rows);
	free(program->tests);
	free(program->strings);
	free(program->slices);
	*program = (HjgDeviceProgram) {0};
}

/* ---- arrays ---- */

/* Find an array of the block; NULL if it is not within. */
static const void *
find_array(const HjgDeviceProgram *program, HjgProgramArray array, size_t bytes)
{
	if (array.off % sizeof(hjg_u64) != 0 || !is_range(array.off, (hjg_u64) array.n * bytes, program->nbytes))
		return NULL;
	return program->block + array.off;
}

static const char *
check_arrays(HjgDeviceProgram *program)
{
	const HjgProgram *head = (const HjgProgram *) program->block;

	REQUIRE(program->nbytes >= sizeof(HjgProgram) && head->nbytes == program->nbytes, "the size of the block");
	program->head = head;
	program->pipelines = find_array(program, head->pipelines, sizeof(HjgProgramPipeline));
	program->tables = find_array(program, head->tables, sizeof(HjgProgramTable));
	program->steps = find_array(program, head->steps, sizeof(HjgProgramStep));
	program->segments = find_array(program, head->segments, sizeof(HjgProgramSegment));
	program->columns = find_array(program, head->columns, sizeof(HjgProgramColumn));
	program->runs = find_array(program, head->runs, sizeof(HjgProgramRun));
	program->maps = find_array(program, head->maps, sizeof(hjg_u32));
	program->sets = find_array(program, head->values, sizeof(int64_t));
	program->arguments = find_array(program, head->arguments, sizeof(HjgProgramArgument));
	REQUIRE(find_array(program, head->tests, sizeof(HjgProgramTest)) != NULL && find_array(program, head->strings, sizeof(HjgProgramString)) != NULL &&
			find_array(program, head->bytes, 1) != NULL, "the place of tests");
	REQUIRE(program->pipelines != NULL && program->tables != NULL && program->steps != NULL && program->segments != NULL &&
			program->columns != NULL && program->runs != NULL && program->maps != NULL && program->sets != NULL &&
			program->arguments != NULL, "the place of an array");
	REQUIRE(head->pipelines.n >= 1 && head->pipelines.n <= HJG_PROGRAM_MAX_PIPELINES, "the number of pipelines");
	REQUIRE(head->tables.n >= 1 && head->tables.n <= head->pipelines.n, "the number of tables");
	return NULL;
}

static const char *
check_tables(const HjgDeviceProgram *program)
{
	const HjgProgram *head = program->head;

	for (hjg_u32 t = 0; t < head->tables.n; t++)
	{
		const HjgProgramTable *table = &program->tables[t];

		REQUIRE(table->nkeys <= HJG_PROGRAM_MAX_KEYS && table->npayload <= HJG_PROGRAM_MAX_PAYLOAD && table->unique <= 1 && table->has_groups <= 1, "a table");
		REQUIRE(table->has_bounds == 0 || (table->has_bounds == 1 && table->nkeys == 1 && table->least_key <= table->greatest_key), "the bounds of a key");
		REQUIRE(table->narguments <= HJG_PROGRAM_MAX_ARGUMENTS && is_range(table->first_argument, table->narguments, head->arguments.n), "the arguments of a table");
		REQUIRE(table->has_groups ? table->npayload == 0 && table->unique == 0 : table->narguments == 0, "the values of a table");
	}
	return NULL;
}

/* ---- pipelines ---- */

/* Count the registers up to the last one of a range; more than there are if it is too long. */
static hjg_u32
registers_to(hjg_u32 first, hjg_u32 n)
{
	return first + (n > 0 ? n : 1);
}

static void
need_registers(hjg_u32 *nregisters, hjg_u32 n)
{
	*nregisters = n > *nregisters ? n : *nregisters;
}

/* Check a step of a pipeline, or (NULL) of the result; filled: tables so far; nsets: numbers of sets so far. */
static const char *
check_step(const HjgDeviceProgram *program, const HjgProgramPipeline *pipeline, const HjgProgramTable *source, const HjgProgramStep *step,
		   const bool *filled, hjg_u64 *nsets, hjg_u32 *nregisters)
{
	REQUIRE(step->op < HJG_PROGRAM_OPS, "a step's operation");
	need_registers(nregisters, registers_to(step->to, 1));
	need_registers(nregisters, registers_to(step->left, 1));
	need_registers(nregisters, registers_to(step->right, 1));
	if (step->op == HJG_PROGRAM_COLUMN)
		REQUIRE(pipeline != NULL && step->arg < pipeline->ncolumns, "a step's column");
	if (step->op == HJG_PROGRAM_ROW)
		REQUIRE(source == NULL, "a row's number");
	if (step->op == HJG_PROGRAM_GROUP)
		REQUIRE(source != NULL && step->arg < HJG_PROGRAM_GROUP_VALUES(source->nkeys, source->narguments), "a value of a group");
	if (step->op == HJG_PROGRAM_ROUND_DOWN)
		REQUIRE(step->low >= HJG_PROGRAM_LEAST_ROUNDED && step->low <= HJG_PROGRAM_MOST_ROUNDED && step->high >= 0 && step->high < step->low,
				"multiples that a step rounds to");
	if (step->op == HJG_PROGRAM_LOOK_UP)
		REQUIRE(step->high >= HJG_PROGRAM_LEAST_ROUNDED && step->high <= HJG_PROGRAM_MOST_ROUNDED && is_range(step->arg, 1, program->head->values.n) &&
				program->sets[step->arg] > 0 && is_range((hjg_u64) step->arg + 1, (hjg_u64) program->sets[step->arg], program->head->values.n),
				"values that a step looks up");
	if (step->op == HJG_PROGRAM_IN_SET || step->op == HJG_PROGRAM_NOT_IN_SET)
	{
		REQUIRE(step->low >= 0 && is_range(step->arg, (hjg_u64) step->low, program->head->values.n), "a step's set");
		/* sets do not overlap, so that all checks of sets take as long as there are numbers */
		*nsets += (hjg_u64) step->low;
		REQUIRE(*nsets <= program->head->values.n, "sets that overlap");
		for (hjg_u64 i = 1; i < (hjg_u64) step->low; i++)
			REQUIRE(program->sets[step->arg + i - 1] <= program->sets[step->arg + i], "the order of a set");
	}
	if (step->op >= HJG_PROGRAM_PROBE_INNER)
	{
		/* when the result is listed, hash tables are gone */
		REQUIRE(pipeline != NULL && step->arg < program->head->tables.n && filled[step->arg] && !program->tables[step->arg].has_groups, "a step's table");
		need_registers(nregisters, registers_to(step->left, program->tables[step->arg].nkeys));
		if (step->op <= HJG_PROGRAM_PROBE_LEFT)
			need_registers(nregisters, registers_to(step->to, program->tables[step->arg].npayload));
	}
	return NULL;
}

/* Check steps one after the other; they need registers. */
static const char *
check_steps(const HjgDeviceProgram *program, const HjgProgramPipeline *pipeline, const HjgProgramTable *source, hjg_u32 first, hjg_u32 n,
			const bool *filled, hjg_u64 *nsets, hjg_u32 *nregisters)
{
	REQUIRE(n <= HJG_PROGRAM_MAX_STEPS && is_range(first, n, program->head->steps.n), "the steps of a pipeline");
	for (hjg_u32 s = 0; s < n; s++)
		CHECK(check_step(program, pipeline, source, &program->steps[first + s], filled, nsets, nregisters));
	return NULL;
}

/* Check the table of a pipeline, which is filled when the next one has another. */
static const char *
check_sink(const HjgDeviceProgram *program, const HjgProgramPipeline *pipeline, bool last, bool *filled, hjg_u32 *nregisters)
{
	const HjgProgramTable *table;

	REQUIRE(pipeline->sink < program->head->tables.n && !filled[pipeline->sink], "a pipeline's table");
	table = &program->tables[pipeline->sink];
	filled[pipeline->sink] = last || pipeline[1].sink != pipeline->sink;
	REQUIRE(table->has_groups || !last, "a program without groups");
	for (hjg_u32 i = table->first_argument; i < table->first_argument + table->narguments; i++)
	{
		REQUIRE(program->arguments[i].reg < HJG_PROGRAM_REGISTERS, "an argument");
		need_registers(nregisters, registers_to(program->arguments[i].reg, 1));
	}
	for (hjg_u32 k = 0; k < table->nkeys; k++)
		need_registers(nregisters, registers_to(pipeline->keys[k], 1));
	for (hjg_u32 p = 0; p < table->npayload; p++)
		need_registers(nregisters, registers_to(pipeline->payload[p], 1));
	return NULL;
}

/* Find the groups that a pipeline reads; *source is NULL if it reads a table. */
static const char *
check_source(const HjgDeviceProgram *program, const HjgProgramPipeline *pipeline, const bool *filled, const HjgProgramTable **source)
{
	*source = NULL;
	if (pipeline->source == HJG_PROGRAM_FROM_SEGMENTS)
		return NULL;
	REQUIRE(pipeline->source < program->head->tables.n && filled[pipeline->source] && program->tables[pipeline->source].has_groups, "a pipeline's source");
	REQUIRE(pipeline->nsegments == 0 && pipeline->ncolumns == 0, "the segments of a pipeline with a source");
	*source = &program->tables[pipeline->source];
	return NULL;
}

/* ---- segments ---- */

static const char *
check_column(const HjgDeviceProgram *program, const HjgProgramColumn *column, hjg_u32 nrows, hjg_u64 kept_bytes)
{
	const hjg_u32 width = column->width;
	const hjg_u64 room = (column->place & HJG_PROGRAM_IN_BLOCK) != 0 ? program->nbytes : kept_bytes;
	const hjg_u64 place = column->place & ~HJG_PROGRAM_IN_BLOCK;

	REQUIRE(width == 0 || width == 1 || width == 2 || width == 4 || width == 8, "a column's width");
	REQUIRE(column->has_nulls <= 1 && (column->nbytes > 0 || (width == 0 && !column->has_nulls)), "a column without memory");
	REQUIRE(column->nbytes == 0 || (place % 8 == 0 && column->nbytes % 8 == 0 && is_range(place, column->nbytes, room)), "the place of a column");
	REQUIRE(hjg_device_column_bytes(column, nrows) <= column->nbytes, "the size of a column");
	REQUIRE(column->map == HJG_PROGRAM_NO_MAP || is_range(column->map, column->nwords, program->head->maps.n), "a column's map");
	REQUIRE(column->test == HJG_PROGRAM_NO_TEST || (column->test < program->head->tests.n && width == sizeof(hjg_u32) &&
			hjg_device_strings_off(column, nrows) <= column->nbytes), "a column's test");
	return NULL;
}

/* Check a segment; *nrows is increased by the rows of its runs. */
static const char *
check_segment(const HjgDeviceProgram *program, const HjgProgramSegment *segment, hjg_u32 ncolumns, hjg_u64 kept_bytes, hjg_u64 *nrows)
{
	hjg_u32		end_row = 0;

	REQUIRE(segment->nrows <= HJG_PROGRAM_MAX_SEGMENT_ROWS, "the rows of a segment");
	REQUIRE(is_range(segment->first_column, ncolumns, program->head->columns.n), "the columns of a segment");
	REQUIRE(is_range(segment->first_run, segment->nruns, program->head->runs.n), "the runs of a segment");
	for (hjg_u32 r = 0; r < segment->nruns; r++)
	{
		const HjgProgramRun run = program->runs[segment->first_run + r];

		REQUIRE(run.first_row >= end_row && run.first_row < run.end_row && run.end_row <= segment->nrows, "a run");
		end_row = run.end_row;
		*nrows += run.end_row - run.first_row;
	}
	for (hjg_u32 c = segment->first_column; c < segment->first_column + ncolumns && segment->nruns > 0; c++)
	{
		CHECK(check_column(program, &program->columns[c], segment->nrows, kept_bytes));
		REQUIRE(program->column_rows[c] == 0 || program->column_rows[c] == segment->nrows, "a column of two segments");
		program->column_rows[c] = segment->nrows;
	}
	return NULL;
}

static const char *
check_segments(const HjgDeviceProgram *program, const HjgProgramPipeline *pipeline, hjg_u64 kept_bytes)
{
	hjg_u64		nrows = 0;
	hjg_u64		end_column = 0;
	hjg_u64		end_run = 0;

	REQUIRE(is_range(pipeline->first_segment, pipeline->nsegments, program->head->segments.n), "the segments of a pipeline");
	for (hjg_u32 s = 0; s < pipeline->nsegments; s++)
	{
		const HjgProgramSegment *segment = &program->segments[pipeline->first_segment + s];

		/* segments of a pipeline have their own columns and runs, so that a check takes as long as there are some */
		REQUIRE(segment->first_column >= end_column && segment->first_run >= end_run, "the order of segments");
		CHECK(check_segment(program, segment, pipeline->ncolumns, kept_bytes, &nrows));
		end_column = (hjg_u64) segment->first_column + pipeline->ncolumns;
		end_run = (hjg_u64) segment->first_run + segment->nruns;
	}
	if (pipeline->source != HJG_PROGRAM_FROM_SEGMENTS)
		nrows = program->tables[pipeline->source].max_rows;
	REQUIRE(nrows == pipeline->nrows, "the rows of a pipeline");
	return NULL;
}

/* ---- the result ---- */

static const char *
check_program_result(HjgDeviceProgram *program, const bool *filled, hjg_u64 *nsets)
{
	const HjgProgram *head = program->head;
	const HjgProgramTable *groups = &program->tables[program->pipelines[head->pipelines.n - 1].sink];

	program->groups = groups;
	program->result_registers = 1;
	CHECK(check_steps(program, NULL, groups, head->first_step, head->nsteps, filled, nsets, &program->result_registers));
	/* the one group of all rows is always in it */
	REQUIRE(groups->nkeys > 0 || (head->nsteps == 0 && head->first_groups == 0), "the steps of the only group");
	REQUIRE(head->order < HJG_PROGRAM_REGISTERS && head->descending <= 1 && head->nulls_first <= 1, "the order of the result");
	need_registers(&program->result_registers, registers_to(head->order, 1));
	REQUIRE(program->result_registers <= HJG_PROGRAM_REGISTERS, "a register");
	return NULL;
}

const char *
hjg_device_program_check(HjgDeviceProgram *program, hjg_u64 kept_bytes)
{
	bool		filled[HJG_PROGRAM_MAX_PIPELINES] = {0};
	hjg_u64		nsets = 0;
	hjg_u64		sink_rows = 0;

	CHECK(check_arrays(program));
	CHECK(check_tables(program));
	CHECK(hjg_device_check_tests(program));
	program->column_rows = calloc((size_t) program->head->columns.n + 1, sizeof(hjg_u32));
	REQUIRE(program->column_rows != NULL, "memory for its check");
	for (hjg_u32 p = 0; p < program->head->pipelines.n; p++)
	{
		const HjgProgramPipeline *pipeline = &program->pipelines[p];
		const HjgProgramTable *source;
		hjg_u32    *nregisters = &program->nregisters[p];

		*nregisters = 1;
		CHECK(check_source(program, pipeline, filled, &source));
		REQUIRE(pipeline->ncolumns <= HJG_PROGRAM_MAX_COLUMNS, "the columns of a pipeline");
		CHECK(check_steps(program, pipeline, source, pipeline->first_step, pipeline->nsteps, filled, &nsets, nregisters));
		CHECK(check_sink(program, pipeline, p + 1 == program->head->pipelines.n, filled, nregisters));
		REQUIRE(*nregisters <= HJG_PROGRAM_REGISTERS, "a register");
		CHECK(check_segments(program, pipeline, kept_bytes));
		sink_rows = p > 0 && pipeline[-1].sink == pipeline->sink ? sink_rows + pipeline->nrows : pipeline->nrows;
		REQUIRE(sink_rows <= UINT32_MAX, "the rows of a table");
	}
	CHECK(check_program_result(program, filled, &nsets));
	hjg_device_find_nulls(program);
	return NULL;
}
