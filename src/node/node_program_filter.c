/*
 * node_program_filter.c
 *	  Writes conditions of tables, of joins and of CASE as steps of a program.
 *
 * A condition is one on integers: a numeric constant is taken at the column's scale. Strings of the pipeline's table are tested once
 * for each different one of a segment (node_program_block.c); of strings that come out of a hash table, the numbers of those that
 * pass are a set. NULLs pass no comparison, so AND and OR are those of booleans: there is no NOT above a leaf.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "node/hjg_program_write.h"

typedef struct FilterRows
{
	HjgProgramWriter *writer;
	const AttrNumber *attnos;	/* NULL, or by the filter's columns; then */
	HjgProgramValue *values;	/* these are by the collection's columns */
} FilterRows;

static int write_condition(const FilterRows *rows, const HjgFilter *filter);

/* Find the value of a column of the filter. */
static HjgProgramValue *
value_of(const FilterRows *rows, int column)
{
	const HjgCollection *collection = &rows->writer->collection;
	int			c = 0;

	if (rows->attnos == NULL)
		return &rows->values[column];
	while (collection->attnos[c] != rows->attnos[column])
		c++;
	return &rows->values[c];
}

static int
write_constant(HjgProgramWriter *writer, bool value)
{
	return hjg_program_step_new(writer, (HjgProgramStep) {.op = HJG_PROGRAM_CONSTANT, .low = value});
}

/* Write a leaf RANGE or SET on integers. */
static int
write_integers(HjgProgramWriter *writer, const HjgFilter *leaf, HjgProgramValue *value)
{
	HjgProgramStep step = {0};
	int			reg;

	if (leaf->kind == HJG_FILTER_CONSTANT)
		return write_constant(writer, !leaf->negated && !leaf->null);
	/* a NULL in the list: nothing is known to be different from all of it */
	if (leaf->kind == HJG_FILTER_SET && leaf->negated && leaf->null)
		return write_constant(writer, false);
	if (leaf->ordinal != HJG_ORDINAL_INT || value->form > HJG_VALUE_NUMBER)
	{
		hjg_program_refuse(writer, "a condition is on values that are no integers");
		return -1;
	}
	reg = hjg_program_load(writer, value);
	if (reg < 0)
		return -1;
	step.left = reg;
	if (leaf->kind == HJG_FILTER_RANGE)
	{
		step.op = leaf->negated ? HJG_PROGRAM_NOT_IN_RANGE : HJG_PROGRAM_IN_RANGE;
		step.low = leaf->low;
		step.high = leaf->high;
	}
	else
	{
		step.op = leaf->negated ? HJG_PROGRAM_NOT_IN_SET : HJG_PROGRAM_IN_SET;
		step.arg = writer->values.len / sizeof(int64);
		step.low = leaf->nset;
		appendBinaryStringInfo(&writer->values, (const char *) leaf->set, leaf->nset * sizeof(int64));
	}
	return hjg_program_step_new(writer, step);
}

/* Write a leaf on strings that have numbers: those that pass are a set. */
static int
write_numbered(HjgProgramWriter *writer, const HjgFilter *leaf, HjgProgramValue *value)
{
	const HjgProgramWords *words = value->words;
	const int	first = writer->values.len / sizeof(int64);
	const int	reg = hjg_program_load(writer, value);
	bool		passes[HJG_MAX_VECTOR_ROWS];

	if (reg < 0)
		return -1;
	for (int from = 0; from < words->n; from += HJG_MAX_VECTOR_ROWS)
	{
		const int	n = Min(words->n - from, HJG_MAX_VECTOR_ROWS);

		CHECK_FOR_INTERRUPTS();
		hjg_program_test_strings(leaf, words->strings + from, n, passes);
		for (int i = 0; i < n; i++)
		{
			const int64 number = from + i;

			if (passes[i])
				appendBinaryStringInfo(&writer->values, (const char *) &number, sizeof(number));
		}
	}
	return hjg_program_step_new(writer, (HjgProgramStep) {
		.op = HJG_PROGRAM_IN_SET, .left = reg, .arg = first, .low = writer->values.len / sizeof(int64) - first
	});
}

/* Write a leaf on strings. */
static int
write_strings(HjgProgramWriter *writer, const HjgFilter *leaf, HjgProgramValue *value)
{
	int			source;

	if (leaf->negated && leaf->null)
		return write_constant(writer, false);
	if (value->form != HJG_VALUE_WORD)
	{
		hjg_program_refuse(writer, "a condition is on values that are no strings");
		return -1;
	}
	if (value->collected < 0)
		return write_numbered(writer, leaf, value);
	source = hjg_program_source(writer, (HjgProgramSource) {.collected = value->collected, .test = leaf});
	return source < 0 ? -1 : hjg_program_step_new(writer, (HjgProgramStep) {.op = HJG_PROGRAM_COLUMN, .arg = source});
}

HjgProgramOp
hjg_program_comparison(HjgComparison comparison)
{
	static const HjgProgramOp ops[] = {
		[HJG_COMPARE_EQ] = HJG_PROGRAM_EQ, [HJG_COMPARE_NE] = HJG_PROGRAM_NE, [HJG_COMPARE_LT] = HJG_PROGRAM_LT,
		[HJG_COMPARE_LE] = HJG_PROGRAM_LE, [HJG_COMPARE_GT] = HJG_PROGRAM_GT, [HJG_COMPARE_GE] = HJG_PROGRAM_GE
	};

	return ops[comparison];
}

/* Write a leaf that compares two columns; numerics of one scale are integers. */
static int
write_columns(const FilterRows *rows, const HjgFilter *leaf)
{
	HjgProgramValue *left = value_of(rows, leaf->column);
	HjgProgramValue *right = value_of(rows, leaf->other);
	const HjgValueForm form = leaf->kind == HJG_FILTER_NUMERIC_COLUMNS ? HJG_VALUE_NUMBER : HJG_VALUE_INTEGER;
	int			left_reg;
	int			right_reg;

	if (left->form != form || right->form != form || left->scale != right->scale || left->own_scales || right->own_scales ||
		(form == HJG_VALUE_INTEGER && leaf->ordinal != HJG_ORDINAL_INT))
	{
		hjg_program_refuse(rows->writer, "columns are compared that are no integers of one scale");
		return -1;
	}
	left_reg = hjg_program_load(rows->writer, left);
	right_reg = hjg_program_load(rows->writer, right);
	if (left_reg < 0 || right_reg < 0)
		return -1;
	return hjg_program_step_new(rows->writer, (HjgProgramStep) {.op = hjg_program_comparison(leaf->comparison), .left = left_reg, .right = right_reg});
}

static int
write_leaf(const FilterRows *rows, const HjgFilter *leaf)
{
	HjgProgramWriter *writer = rows->writer;
	HjgProgramValue *value;
	int			reg;

	switch (leaf->kind)
	{
		case HJG_FILTER_CONSTANT:
			return write_constant(writer, !leaf->negated && !leaf->null);
		case HJG_FILTER_RANGE:
		case HJG_FILTER_SET:
			return write_integers(writer, leaf, value_of(rows, leaf->column));
		case HJG_FILTER_NUMERIC:
			value = value_of(rows, leaf->column);
			if (value->form != HJG_VALUE_NUMBER || value->own_scales)
				break;
			return write_integers(writer, hjg_vector_numeric_filter_at(leaf, value->scale), value);
		case HJG_FILTER_BYTES:
		case HJG_FILTER_LIKE:
			return write_strings(writer, leaf, value_of(rows, leaf->column));
		case HJG_FILTER_COLUMNS:
		case HJG_FILTER_NUMERIC_COLUMNS:
			return write_columns(rows, leaf);
		case HJG_FILTER_IS_NULL:
			value = value_of(rows, leaf->column);
			/* the number of a row does not tell whether its string is NULL */
			if (value->form == HJG_VALUE_ROW)
				break;
			reg = hjg_program_load(writer, value);
			return reg < 0 ? -1 : hjg_program_step_new(writer, (HjgProgramStep) {.op = leaf->negated ? HJG_PROGRAM_IS_NOT_NULL : HJG_PROGRAM_IS_NULL, .left = reg});
		default:
			break;
	}
	hjg_program_refuse(writer, "a condition is of a kind that programs do not have");
	return -1;
}

/* Write AND or OR. */
static int
write_connected(const FilterRows *rows, const HjgFilter *filter)
{
	const HjgProgramOp op = filter->kind == HJG_FILTER_OR ? HJG_PROGRAM_OR : HJG_PROGRAM_AND;
	int			reg = write_condition(rows, filter->args[0]);

	for (int a = 1; reg >= 0 && a < filter->nargs; a++)
	{
		const int	next = write_condition(rows, filter->args[a]);

		if (next < 0 || !hjg_program_step(rows->writer, (HjgProgramStep) {.op = op, .to = reg, .left = reg, .right = next}))
			return -1;
		hjg_program_release(rows->writer, next, 1);
	}
	return reg;
}

/* Write a condition; returns the register with its boolean, or -1. */
static int
write_condition(const FilterRows *rows, const HjgFilter *filter)
{
	const bool	connected = filter->kind == HJG_FILTER_ALL || filter->kind == HJG_FILTER_AND || filter->kind == HJG_FILTER_OR;

	check_stack_depth();
	if (!connected)
		return write_leaf(rows, filter);
	return filter->nargs > 0 ? write_connected(rows, filter) : write_constant(rows->writer, filter->kind != HJG_FILTER_OR);
}

int
hjg_program_write_condition(HjgProgramWriter *writer, const HjgFilter *filter, const AttrNumber *attnos, HjgProgramValue *values)
{
	const FilterRows rows = {.writer = writer, .attnos = attnos, .values = values};

	return write_condition(&rows, filter);
}

bool
hjg_program_write_filter(HjgProgramWriter *writer, const HjgFilter *filter, const AttrNumber *attnos, HjgProgramValue *values)
{
	for (int a = 0; a < filter->nargs; a++)
	{
		const int	reg = hjg_program_write_condition(writer, filter->args[a], attnos, values);

		if (reg < 0 || !hjg_program_step(writer, (HjgProgramStep) {.op = HJG_PROGRAM_FILTER, .left = reg}))
			return false;
		hjg_program_release(writer, reg, 1);
	}
	return true;
}
