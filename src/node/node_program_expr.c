/*
 * node_program_expr.c
 *	  Writes arguments of aggregates, arithmetic on columns, as steps of a program.
 *
 * Steps cannot fail, so arithmetic is written only where no value between the least and the greatest of its operands leaves the
 * type of the result: the bounds are computed beside the steps. Scales of numerics are those of vector_expr.c.
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
		case HJG_ARITHMETIC_WIDEN:
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
	const int	reg = hjg_program_take(writer, 1);

	*result = (HjgProgramValue) {
		.form = HJG_VALUE_NUMBER, .scale = scale, .least = number, .greatest = number, .collected = -1, .reg = reg
	};
	return reg >= 0 && hjg_program_step(writer, (HjgProgramStep) {.op = HJG_PROGRAM_CONSTANT, .to = reg, .low = number});
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
	if (term->kind == HJG_TERM_NUMERIC_COLUMN && (value->form == HJG_VALUE_WORD || value->mixed))
		return hjg_program_refuse(writer, "numerics of an argument are not kept as integers of one scale");
	return hjg_program_load(writer, value) >= 0;
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
			return term->width == HJG_NUMERIC_WIDTH ?
				write_numeric_term(writer, term->function, terms[term->left], terms[term->right], result) :
				write_arithmetic(writer, term->function, term->width, &terms[term->left], &terms[term->right], result);
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
	}
	*result = results[nterms - 1];
	return true;
}
