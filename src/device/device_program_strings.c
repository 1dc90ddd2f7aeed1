/*
 * device_program_strings.c
 *	  Tests strings that have no codes for a program: the processor's threads read them where they are kept, or in the program's block.
 *
 * A program that runs on threads tests the rows that come to the step (device_cpu_steps.c); for a GPU all rows are tested before.
 *
 * Kept strings are compared with their checksums first.  Still, where a string is said to be, and how long it says that it is, is checked for each of
 * them: nothing outside of the column's memory is read.
 */
#include <stdlib.h>
#include <string.h>

#include "device/hjg_device_program_run.h"
#include "layout/hjg_checksum.h"

/* ---- tests ---- */

static const char *
check_test(HjgDeviceProgram *program, const HjgProgramTest *test, HjgSlice *slice, HjgFilter *leaf, hjg_u64 *nstrings)
{
	HjgBytes   *strings = program->strings + *nstrings;

	if (test->kind >= HJG_PROGRAM_TEST_KINDS || test->negated > 1 || test->padded > 1 || test->nstrings > program->head->strings.n - *nstrings ||
		(test->kind == HJG_PROGRAM_LIKE && test->nstrings < 2))
		return "a test";
	if (test->sliced > 1 || test->slice_padded > 1 || test->slice_utf8 > 1 || test->slice_first < 0 || test->slice_nchars < 0)
		return "the part of strings that is tested";
	/* patterns hardly contain '%%'; many of them would take long for each row */
	for (hjg_u32 i = 1; test->kind == HJG_PROGRAM_LIKE && i + 1 < test->nstrings; i++)
		if (strings[i].nbytes == 0)
			return "a pattern with nothing within";
	*nstrings += test->nstrings;
	*leaf = (HjgFilter) {
		.kind = HJG_FILTER_LIKE, .negated = test->negated != 0, .padded = test->padded != 0, .nset = (int) test->nstrings, .bytes = strings
	};
	if (test->kind == HJG_PROGRAM_IN_LIST)
		hjg_vector_filter_set_list(leaf, HJG_FILTER_BYTES, leaf->negated, leaf->nset, false);
	*slice = (HjgSlice) {.first = test->slice_first, .nchars = test->slice_nchars, .utf8 = test->slice_utf8 != 0, .padded = test->slice_padded != 0};
	leaf->slice = test->sliced ? slice : NULL;
	return NULL;
}

const char *
hjg_device_check_tests(HjgDeviceProgram *program)
{
	const HjgProgram *head = program->head;
	const HjgProgramTest *tests = (const HjgProgramTest *) (program->block + head->tests.off);
	const HjgProgramString *strings = (const HjgProgramString *) (program->block + head->strings.off);
	const char *wrong = NULL;
	hjg_u64		nstrings = 0;

	program->tests = calloc((size_t) head->tests.n + 1, sizeof(HjgFilter));
	program->strings = calloc((size_t) head->strings.n + 1, sizeof(HjgBytes));
	program->slices = calloc((size_t) head->tests.n + 1, sizeof(HjgSlice));
	if (program->tests == NULL || program->strings == NULL || program->slices == NULL)
		return "memory for tests";
	for (hjg_u32 i = 0; i < head->strings.n; i++)
	{
		if (strings[i].off > head->bytes.n || strings[i].nbytes > head->bytes.n - strings[i].off)
			return "a string of a test";
		program->strings[i] = (HjgBytes) {program->block + head->bytes.off + strings[i].off, (int32_t) strings[i].nbytes};
	}
	for (hjg_u32 t = 0; t < head->tests.n && wrong == NULL; t++)
		wrong = check_test(program, &tests[t], &program->slices[t], &program->tests[t], &nstrings);
	return wrong;
}

/* ---- strings ---- */

HjgDeviceStrings
hjg_device_find_strings(const HjgDeviceProgram *program, hjg_u32 number, const HjgKeptFile *kept)
{
	const HjgProgramColumn *column = &program->columns[number];
	const hjg_u32 nrows = program->column_rows[number];
	const char *at = ((column->place & HJG_PROGRAM_IN_BLOCK) != 0 ? program->block : (const char *) kept->base) + (column->place & ~HJG_PROGRAM_IN_BLOCK);
	const hjg_u64 off = hjg_device_strings_off(column, nrows);

	return (HjgDeviceStrings) {
		.test = &program->tests[column->test], .nulls = column->has_nulls ? (const hjg_u8 *) at : NULL,
		.places = (const hjg_u32 *) (at + hjg_device_null_bytes(column, nrows)), .strings = at + off, .nbytes = column->nbytes - off
	};
}

/*
 * Find a string's bytes; false: it is not within the others, or it is compressed.  Its length comes first, as core writes it on machines whose
 * numbers begin with their low byte: of a short string in a byte with the lowest bit set, of others in four bytes with none of the lowest two.
 */
static inline bool
find_bytes_at(const HjgDeviceStrings *strings, hjg_u32 place, HjgBytes *bytes)
{
	const char *at = strings->strings + place;
	size_t		room;
	hjg_u32		header;
	hjg_u32		head_bytes = 1;

	if (place >= strings->nbytes)
		return false;
	room = strings->nbytes - place;
	header = (hjg_u8) at[0];
	if ((header & 1) != 0)
		header >>= 1;
	else
	{
		head_bytes = sizeof(header);
		if (room < sizeof(header))
			return false;
		memcpy(&header, at, sizeof(header));
		if ((header & 2) != 0)
			return false;
		header >>= 2;
	}
	if (header < head_bytes || header > room)
		return false;
	*bytes = (HjgBytes) {at + head_bytes, (int32_t) (header - head_bytes)};
	return true;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "strings begin with the low byte of their length");

bool
hjg_device_test_rows(const HjgDeviceStrings *strings, const hjg_u32 *rows, hjg_u32 n, bool *passes)
{
	HjgBytes	bytes[HJG_MAX_VECTOR_ROWS];
	bool		readable = true;

	for (hjg_u32 i = 0; i < n; i++)
	{
		passes[i] = strings->nulls == NULL || (strings->nulls[rows[i] / 8] >> rows[i] % 8 & 1) == 0;
		if (passes[i] && !find_bytes_at(strings, strings->places[rows[i]], &bytes[i]))
			passes[i] = readable = false;
	}
	hjg_vector_filter_test_bytes(strings->test, bytes, (int) n, passes);
	return readable;
}

/* ---- whole columns ---- */

/* A column that is tested, and the place of its results. */
typedef struct TestedColumn
{
	hjg_u32		number;
	size_t		at;
} TestedColumn;

typedef struct TestTask
{
	const HjgDeviceProgram *program;
	const HjgEnv *env;
	const HjgKeptFile *kept;
	const TestedColumn *columns;
	bool	   *passes;			/* NULL: strings are not tested, only compared with their checksums */
	bool		cancelled;		/* atomic */
	bool		wrong;			/* atomic */
} TestTask;

/* List the columns that are tested; returns their number. columns NULL: adds up the bytes of their results. */
static hjg_u32
list_tested(const HjgDeviceProgram *program, TestedColumn *columns, size_t *nbytes)
{
	hjg_u32		n = 0;

	*nbytes = 0;
	for (hjg_u32 c = 0; c < program->head->columns.n; c++)
	{
		if (program->columns[c].test == HJG_PROGRAM_NO_TEST || program->column_rows[c] == 0)
			continue;
		if (columns != NULL)
			columns[n] = (TestedColumn) {.number = c, .at = *nbytes};
		n++;
		*nbytes += ((size_t) program->column_rows[c] + 7) / 8 * 8;
	}
	return n;
}

size_t
hjg_device_passes_bytes(const HjgDeviceProgram *program)
{
	size_t		nbytes;

	(void) list_tested(program, NULL, &nbytes);
	return nbytes;
}

/* Is a kept column's memory as it was written? */
static bool
is_as_written(const TestTask *task, const HjgProgramColumn *column)
{
	return (column->place & HJG_PROGRAM_IN_BLOCK) != 0 || hjg_checksum_column(task->kept->base + column->place, column->nbytes) == column->checksum;
}

/* Test all strings of a column; false: one cannot be read. */
static bool
test_all(TestTask *task, const TestedColumn *column)
{
	const HjgDeviceStrings strings = hjg_device_find_strings(task->program, column->number, task->kept);
	const hjg_u32 nrows = task->program->column_rows[column->number];
	hjg_u32		rows[HJG_MAX_VECTOR_ROWS];

	for (hjg_u32 first = 0, n; first < nrows; first += n)
	{
		if (hjg_device_stopped(task->env, &task->cancelled))
			return true;
		n = nrows - first < HJG_MAX_VECTOR_ROWS ? nrows - first : HJG_MAX_VECTOR_ROWS;
		for (hjg_u32 i = 0; i < n; i++)
			rows[i] = first + i;
		if (!hjg_device_test_rows(&strings, rows, n, task->passes + column->at + first))
			return false;
	}
	return true;
}

static void
test_column(void *arg, int piece, int worker)
{
	TestTask   *task = arg;
	const TestedColumn *column = &task->columns[piece];

	if (hjg_device_stopped(task->env, &task->cancelled) || __atomic_load_n(&task->wrong, __ATOMIC_RELAXED))
		return;
	if (!is_as_written(task, &task->program->columns[column->number]) || (task->passes != NULL && !test_all(task, column)))
		__atomic_store_n(&task->wrong, true, __ATOMIC_RELAXED);
}

HjgStatus
hjg_device_test_columns(const HjgDeviceProgram *program, const HjgEnv *env, const HjgKeptFile *kept, bool *passes)
{
	TestedColumn *columns = malloc(((size_t) program->head->columns.n + 1) * sizeof(TestedColumn));
	TestTask	task = {.program = program, .env = env, .kept = kept, .columns = columns, .passes = passes};
	size_t		nbytes;

	if (columns == NULL)
		return HJG_ERR_MEMORY;
	hjg_pool_run(env->pool, (int) list_tested(program, columns, &nbytes), test_column, &task);
	free(columns);
	return task.cancelled ? HJG_ERR_CANCELLED : task.wrong ? HJG_ERR_INPUT : HJG_OK;
}
