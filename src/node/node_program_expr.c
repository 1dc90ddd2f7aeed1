/*
 * node_program_expr.c
 *	  Writes arguments of aggregates, arithmetic and CASE on columns, as steps of a program.
 *
 * Steps cannot fail, so arithmetic is written only where no value between the least and the greatest of its operands leaves the
 * type of the result: the bounds are computed beside the steps. Scales of numerics are those of vector_expr.c: branches of CASE may
 * differ in theirs, and then a register has the scale of each row's value.
 */
#include "postgres.h"

#include "node/hjg_program_write.h"

/* ValueBounds of a result, exact. */
typedef struct ValueBounds
{
	int128		least;
	int128		greatest;
} ValueBounds;

static ValueBounds
bounds_of(const HjgProgramValue *value)
{
	return (ValueBounds) {value->least, value->greatest};
}

static ValueBounds
multiply_bounds(ValueBounds a, ValueBounds b)
{
	const int128 products[] = {a.least * b.least, a.least * b.greatest, a.greatest * b.least, a.greatest * b.greatest};
	ValueBounds		bounds = {products[0], products[0]};

	for (int i = 1; i < lengthof(products); i++)
	{
		bounds.least = Min(bounds.least, products[i]);
		bounds.greatest = Max(bounds.greatest, products[i]);
	}
	return bounds;
}

static ValueBounds
compute_bounds(HjgArithmeticKind kind, ValueBounds a, ValueBounds b)
{
	switch (kind)
	{
		case HJG_ARITHMETIC_PLUS:
			return (ValueBounds) {a.least + b.least, a.greatest + b.greatest};
		case HJG_ARITHMETIC_MINUS:
			return (ValueBounds) {a.least - b.greatest, a.greatest - b.least};
		case HJG_ARITHMETIC_TIMES:
			return multiply_bounds(a, b);
		case HJG_ARITHMETIC_NEGATE:
			return (ValueBounds) {-a.greatest, -a.least};
		default:
			break;
	}
	return a;
}

/* Do all values fit a type of this width? */
static bool
fits_width(ValueBounds bounds, int width)
{
	const int	bits = width == 2 || width == 4 ? 8 * width - 1 : 63;

	return bounds.least >= -((int128) 1 << bits) && bounds.greatest < (int128) 1 << bits;
}

/* Write a step of arithmetic whose result has these bounds. */
static bool
write_arithmetic(HjgProgramWriter *writer, HjgArithmeticKind kind, int width, HjgProgramValue *left, HjgProgramValue *right, HjgProgramValue *result)
{
	static const HjgProgramOp ops[] = {
		[HJG_ARITHMETIC_PLUS] = HJG_PROGRAM_ADD, [HJG_ARITHMETIC_MINUS] = HJG_PROGRAM_SUBTRACT,
		[HJG_ARITHMETIC_TIMES] = HJG_PROGRAM_MULTIPLY, [HJG_ARITHMETIC_NEGATE] = HJG_PROGRAM_NEGATE
	};
	const ValueBounds bounds = compute_bounds(kind, bounds_of(left), bounds_of(right));
	const int	left_reg = hjg_program_load(writer, left);
	const int	right_reg = hjg_program_load(writer, right);
	int			reg;

	if (left->own_scales || right->own_scales)
		return hjg_program_refuse(writer, "arithmetic is on numerics of several scales");
	if (!fits_width(bounds, width))
		return hjg_program_refuse(writer, "a result of arithmetic might not fit");
	reg = left_reg < 0 || right_reg < 0 ? -1 : hjg_program_take(writer, 1);
	if (reg < 0)
		return false;
	*result = (HjgProgramValue) {
		.form = width == HJG_NUMERIC_WIDTH ? HJG_VALUE_NUMBER : HJG_VALUE_INTEGER, .scale = Max(left->scale, right->scale),
		.mixed = left->mixed || right->mixed, .nullable = left->nullable || right->nullable, .least = (int64) bounds.least,
		.greatest = (int64) bounds.greatest, .collected = -1, .reg = reg
	};
	return hjg_program_step(writer, (HjgProgramStep) {.op = ops[kind], .to = reg, .left = left_reg, .right = right_reg});
}

static bool
write_number(HjgProgramWriter *writer, int64 number, int scale, HjgProgramValue *result)
{
	*result = (HjgProgramValue) {
		.form = HJG_VALUE_NUMBER, .scale = scale, .least = number, .greatest = number, .collected = -1,
		.reg = hjg_program_step_new(writer, (HjgProgramStep) {.op = HJG_PROGRAM_CONSTANT, .low = number})
	};
	return result->reg >= 0;
}

/* Have a number at a greater scale: its place is taken by another value. */
static bool
widen_number(HjgProgramWriter *writer, HjgProgramValue *value, int scale)
{
	HjgProgramValue factor;
	HjgProgramValue widened;
	int64		power = 1;

	for (int i = value->scale; i < scale; i++)
		if (__builtin_mul_overflow(power, INT64CONST(10), &power))
			return hjg_program_refuse(writer, "a result of arithmetic might not fit");
	if (!write_number(writer, power, 0, &factor) ||
		!write_arithmetic(writer, HJG_ARITHMETIC_TIMES, HJG_NUMERIC_WIDTH, value, &factor, &widened))
		return false;
	hjg_program_release(writer, factor.reg, 1);
	widened.scale = scale;
	*value = widened;
	return true;
}

/* Write a term of numerics: products at the sum of the scales, others at the greater scale. */
static bool
write_numeric_term(HjgProgramWriter *writer, HjgArithmeticKind kind, HjgProgramValue left, HjgProgramValue right, HjgProgramValue *result)
{
	const bool	product = kind == HJG_ARITHMETIC_TIMES;
	const int	scale = product ? left.scale + right.scale : Max(left.scale, right.scale);

	if (scale > HJG_NUMERIC_MAX_SCALE)
		return hjg_program_refuse(writer, "a result of arithmetic might not fit");
	if ((!product && left.scale < scale && !widen_number(writer, &left, scale)) ||
		(!product && right.scale < scale && !widen_number(writer, &right, scale)) ||
		!write_arithmetic(writer, kind, HJG_NUMERIC_WIDTH, &left, &right, result))
		return false;
	result->scale = scale;
	return true;
}

/* Have a column in a register; where several terms read it, it is loaded once. */
static bool
load_argument(HjgProgramWriter *writer, const HjgVectorTerm *term, HjgProgramValue *value)
{
	/* the number of a row does not tell whether its string is NULL */
	if (value->form == HJG_VALUE_ROW)
		return hjg_program_refuse(writer, "an argument is a string that has no number");
	if (term->kind == HJG_TERM_NUMERIC_COLUMN && (value->form == HJG_VALUE_WORD || value->mixed))
		return hjg_program_refuse(writer, "numerics of an argument are not kept as integers of one scale");
	return hjg_program_load(writer, value) >= 0;
}

static int
write_constant_reg(HjgProgramWriter *writer, int64 number, bool isnull)
{
	return hjg_program_step_new(writer, (HjgProgramStep) {.op = HJG_PROGRAM_CONSTANT, .low = number, .high = isnull});
}

/* Have the scale of a row's value in a new register, which is NULL where the value is; returns that, or -1. */
static int
write_scale(HjgProgramWriter *writer, const HjgProgramValue *value)
{
	const int	scale = write_constant_reg(writer, value->scale, false);

	if (scale < 0 ||
		!hjg_program_step(writer, (HjgProgramStep) {.op = HJG_PROGRAM_ADD, .to = scale, .left = scale, .right = value->reg}) ||
		!hjg_program_step(writer, (HjgProgramStep) {.op = HJG_PROGRAM_SUBTRACT, .to = scale, .left = scale, .right = value->reg}))
		return -1;
	return scale;
}

/* Move a value, and if the result has own scales its scale, to the result where the condition is true. */
static bool
move_value(HjgProgramWriter *writer, int condition, const HjgProgramValue *value, const HjgProgramValue *result)
{
	HjgProgramValue widened = *value;
	int			scale = -1;

	if (result->own_scales)
	{
		scale = write_scale(writer, value);
		if (scale < 0 ||
			!hjg_program_step(writer, (HjgProgramStep) {.op = HJG_PROGRAM_MOVE_IF, .to = result->scale_reg, .left = condition, .right = scale}))
			return false;
		hjg_program_release(writer, scale, 1);
		if (value->scale < result->scale && !widen_number(writer, &widened, result->scale))
			return false;
	}
	if (!hjg_program_step(writer, (HjgProgramStep) {.op = HJG_PROGRAM_MOVE_IF, .to = result->reg, .left = condition, .right = widened.reg}))
		return false;
	if (widened.reg != value->reg)
		hjg_program_release(writer, widened.reg, 1);
	return true;
}

/* Have the condition of a branch in a new register; returns that, or -1. */
static int
write_branch_condition(HjgProgramWriter *writer, const HjgVectorTerm *term, const HjgBranch *branch, HjgProgramValue *columns,
					   const HjgProgramValue *value)
{
	if (branch->condition != NULL)
		return hjg_program_write_condition(writer, branch->condition, NULL, columns);
	if (term->kind == HJG_TERM_COALESCE && value != NULL)
		return hjg_program_step_new(writer, (HjgProgramStep) {.op = HJG_PROGRAM_IS_NOT_NULL, .left = value->reg});
	return write_constant_reg(writer, term->kind == HJG_TERM_CASE, false);
}

/* Describe the result of CASE or COALESCE by those of its branches. */
static bool
describe_branches(HjgProgramWriter *writer, const HjgVectorTerm *term, const HjgProgramValue *terms, HjgProgramValue *result)
{
	const HjgValueForm form = term->width == HJG_NUMERIC_WIDTH ? HJG_VALUE_NUMBER : HJG_VALUE_INTEGER;
	int			least_scale = HJG_NUMERIC_MAX_SCALE;

	*result = (HjgProgramValue) {.form = form, .nullable = true, .collected = -1, .reg = -1};
	for (int b = 0; b < term->nbranches; b++)
	{
		const HjgProgramValue *value = term->branches[b].result >= 0 ? &terms[term->branches[b].result] : NULL;

		if (value == NULL)
			continue;
		if (value->form == HJG_VALUE_WORD || value->mixed || value->own_scales)
			return hjg_program_refuse(writer, "a branch of CASE is a string, or has numerics of several scales");
		result->scale = Max(result->scale, value->scale);
		least_scale = Min(least_scale, value->scale);
	}
	result->own_scales = least_scale < result->scale;
	return true;
}

/* Extend the bounds of a result by those of a value, at the result's scale. */
static bool
extend_bounds(HjgProgramWriter *writer, const HjgProgramValue *value, HjgProgramValue *result)
{
	ValueBounds bounds = bounds_of(value);

	for (int i = value->scale; i < result->scale && fits_width(bounds, 8); i++)
		bounds = (ValueBounds) {10 * bounds.least, 10 * bounds.greatest};
	if (!fits_width(bounds, 8))
		return hjg_program_refuse(writer, "a result of arithmetic might not fit");
	result->least = Min(result->least, (int64) bounds.least);
	result->greatest = Max(result->greatest, (int64) bounds.greatest);
	return true;
}

/* Write CASE or COALESCE: each branch, from the last to the first, replaces what those after it have made of the row. */
static bool
write_branches(HjgProgramWriter *writer, const HjgVectorTerm *term, HjgProgramValue *columns, const HjgProgramValue *terms, HjgProgramValue *result)
{
	const HjgProgramValue null = {.collected = -1, .reg = write_constant_reg(writer, 0, true)};

	if (null.reg < 0 || !describe_branches(writer, term, terms, result) || (result->reg = write_constant_reg(writer, 0, true)) < 0 ||
		(result->own_scales && (result->scale_reg = write_constant_reg(writer, 0, true)) < 0))
		return false;
	for (int b = term->nbranches - 1; b >= 0; b--)
	{
		const HjgBranch *branch = &term->branches[b];
		const HjgProgramValue *value = branch->result >= 0 ? &terms[branch->result] : NULL;
		const int	condition = write_branch_condition(writer, term, branch, columns, value);

		if (condition < 0 || !move_value(writer, condition, value != NULL ? value : &null, result) ||
			(value != NULL && !extend_bounds(writer, value, result)))
			return false;
		hjg_program_release(writer, condition, 1);
	}
	hjg_program_release(writer, null.reg, 1);
	return true;
}

static bool
write_term(HjgProgramWriter *writer, const HjgVectorTerm *term, HjgProgramValue *columns, HjgProgramValue *terms, HjgProgramValue *result)
{
	switch (term->kind)
	{
		case HJG_TERM_COLUMN:
		case HJG_TERM_NUMERIC_COLUMN:
			*result = columns[term->column];
			break;
		case HJG_TERM_CONSTANT:
			if (term->numbers.isnull != NULL)
				return hjg_program_refuse(writer, "an argument has a constant NULL");
			return write_number(writer, term->numbers.values[0], term->numbers.scale, result);
		case HJG_TERM_ARITHMETIC:
			if (term->width == HJG_FLOAT_WIDTH)
				return hjg_program_refuse(writer, "arithmetic is on floats");
			return term->width == HJG_NUMERIC_WIDTH ?
				write_numeric_term(writer, term->function, terms[term->left], terms[term->right], result) :
				write_arithmetic(writer, term->function, term->width, &terms[term->left], &terms[term->right], result);
		case HJG_TERM_CASE:
		case HJG_TERM_COALESCE:
			return write_branches(writer, term, columns, terms, result);
		default:
			return hjg_program_refuse(writer, "an argument is of a kind that programs do not have");
	}
	return true;
}

bool
hjg_program_write_argument(HjgProgramWriter *writer, HjgArgument *argument, HjgProgramValue *values, HjgProgramValue *result)
{
	const HjgVectorTerm *terms;
	HjgProgramValue *results;
	int			nterms;

	terms = hjg_argument_terms(argument, writer->estate, &nterms);
	if (terms == NULL)
		return hjg_program_refuse(writer, "an argument has a parameter, or a constant that does not fit");
	results = palloc0(nterms * sizeof(HjgProgramValue));
	for (int t = 0; t < nterms; t++)
	{
		if ((terms[t].kind == HJG_TERM_COLUMN || terms[t].kind == HJG_TERM_NUMERIC_COLUMN) &&
			!load_argument(writer, &terms[t], &values[terms[t].column]))
			return false;
		if (!write_term(writer, &terms[t], values, results, &results[t]))
			return false;
		if (results[t].form == HJG_VALUE_CLASS && nterms > 1)
			return hjg_program_refuse(writer, "an argument is computed from a class");
	}
	*result = results[nterms - 1];
	return true;
}

bool
hjg_program_number_floats(HjgProgramWriter *writer, int width, HjgProgramValue *value)
{
	const int	left = hjg_program_load(writer, value);

	if (left < 0)
		return false;
	*value = (HjgProgramValue) {
		.nullable = value->nullable, .least = PG_INT64_MIN, .greatest = PG_INT64_MAX, .collected = -1,
		.reg = hjg_program_step_new(writer, (HjgProgramStep) {.op = HJG_PROGRAM_FLOAT, .left = left, .low = width})
	};
	return value->reg >= 0;
}

int
hjg_program_order_sums(HjgProgramWriter *writer, HjgProgramValue *sum, bool descending)
{
	/* the numbers of the finite doubles, with one for 0 and -0 */
	const int64 greatest = INT64CONST(0x7FEFFFFFFFFFFFFF);
	const int	number = hjg_program_number_floats(writer, sizeof(double), sum) ? sum->reg : -1;
	const int	negative = number < 0 ? -1 :
		hjg_program_step_new(writer, (HjgProgramStep) {.op = HJG_PROGRAM_IN_RANGE, .left = number, .low = PG_INT64_MIN, .high = -1});
	const int	order = negative < 0 ? -1 :
		hjg_program_step_new(writer, (HjgProgramStep) {.op = HJG_PROGRAM_ADD, .left = number, .right = negative});
	const int	infinite = order < 0 ? -1 :
		hjg_program_step_new(writer, (HjgProgramStep) {.op = HJG_PROGRAM_NOT_IN_RANGE, .left = order, .low = -greatest, .high = greatest});
	const int	first = infinite < 0 ? -1 :
		hjg_program_step_new(writer, (HjgProgramStep) {.op = HJG_PROGRAM_CONSTANT, .low = descending ? PG_INT64_MAX : PG_INT64_MIN});

	if (first < 0 || !hjg_program_step(writer, (HjgProgramStep) {.op = HJG_PROGRAM_MOVE_IF, .to = order, .left = infinite, .right = first}))
		return -1;
	return order;
}
