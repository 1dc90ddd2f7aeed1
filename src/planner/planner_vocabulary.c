/*
 * planner_vocabulary.c
 *	  The aggregates, the arithmetic and the fields of dates that the node evaluates itself, many rows at a time.
 *
 * They are identified by their function, never by name or type, so functions of users are not among them. Results do not
 * depend on the order of the rows, except for sums of floats, which hjoin_gpu.float_sums allows.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "planner/hjg_planner.h"

typedef struct KnownAggregate
{
	Oid			function;
	HjgAggregateKind kind;
	Oid			of_results;		/* function that computes the aggregate from its results for parts of the rows; or InvalidOid */
} KnownAggregate;

/* Adds counts up. Core has no aggregate for this; it combines counts by this function. */
#define ADD_COUNTS F_INT8PL

/* An aggregate that is computed from its results for parts by itself. */
#define REPEATED(function, kind) {function, kind, function}

/* Extremes of values that are ordered like the integers by which they are stored. */
#define EXTREMES(type) \
	REPEATED(F_MIN_##type, HJG_AGGREGATE_LEAST), \
	REPEATED(F_MAX_##type, HJG_AGGREGATE_GREATEST)

#define VARIANCE(function, form, kind) {function, kind},
#define VARIANCES(type, kind) HJG_VARIANCES(VARIANCE, type, kind)

static const KnownAggregate known_aggregates[] = {
	{F_COUNT_, HJG_AGGREGATE_COUNT, ADD_COUNTS},
	{F_COUNT_ANY, HJG_AGGREGATE_COUNT, ADD_COUNTS},
	REPEATED(ADD_COUNTS, HJG_AGGREGATE_SUM_OF_COUNTS),
	REPEATED(F_SUM_INT2, HJG_AGGREGATE_SUM),
	REPEATED(F_SUM_INT4, HJG_AGGREGATE_SUM),
	{F_SUM_INT8, HJG_AGGREGATE_WIDE_SUM, F_SUM_NUMERIC},
	{F_AVG_INT2, HJG_AGGREGATE_AVERAGE},
	{F_AVG_INT4, HJG_AGGREGATE_AVERAGE},
	{F_AVG_INT8, HJG_AGGREGATE_WIDE_SUM},
	VARIANCES(INT2, HJG_AGGREGATE_VARIANCE)
	VARIANCES(INT4, HJG_AGGREGATE_VARIANCE)
	VARIANCES(INT8, HJG_AGGREGATE_WIDE_VARIANCE)
	VARIANCES(NUMERIC, HJG_AGGREGATE_NUMERIC_VARIANCE)
	{F_SUM_FLOAT4, HJG_AGGREGATE_FLOAT_SUM},
	{F_SUM_FLOAT8, HJG_AGGREGATE_FLOAT_SUM},
	{F_AVG_FLOAT4, HJG_AGGREGATE_FLOAT_MOMENTS},
	{F_AVG_FLOAT8, HJG_AGGREGATE_FLOAT_MOMENTS},
	VARIANCES(FLOAT4, HJG_AGGREGATE_FLOAT_MOMENTS)
	VARIANCES(FLOAT8, HJG_AGGREGATE_FLOAT_MOMENTS)
	REPEATED(F_MIN_FLOAT4, HJG_AGGREGATE_FLOAT_LEAST),
	REPEATED(F_MAX_FLOAT4, HJG_AGGREGATE_FLOAT_GREATEST),
	REPEATED(F_MIN_FLOAT8, HJG_AGGREGATE_FLOAT_LEAST),
	REPEATED(F_MAX_FLOAT8, HJG_AGGREGATE_FLOAT_GREATEST),
	REPEATED(F_SUM_NUMERIC, HJG_AGGREGATE_NUMERIC_SUM),
	{F_AVG_NUMERIC, HJG_AGGREGATE_NUMERIC_SUM},
	REPEATED(F_MIN_NUMERIC, HJG_AGGREGATE_NUMERIC_LEAST),
	REPEATED(F_MAX_NUMERIC, HJG_AGGREGATE_NUMERIC_GREATEST),
	EXTREMES(INT2),
	EXTREMES(INT4),
	EXTREMES(INT8),
	EXTREMES(DATE),
	EXTREMES(TIME),
	EXTREMES(TIMESTAMP),
	EXTREMES(TIMESTAMPTZ),
	EXTREMES(MONEY),
	REPEATED(F_BOOL_AND, HJG_AGGREGATE_LEAST),
	REPEATED(F_EVERY, HJG_AGGREGATE_LEAST),
	REPEATED(F_BOOL_OR, HJG_AGGREGATE_GREATEST),
};

#define OPERATIONS(types, width) \
	{F_INT##types##PL, HJG_ARITHMETIC_PLUS, width}, \
	{F_INT##types##MI, HJG_ARITHMETIC_MINUS, width}, \
	{F_INT##types##MUL, HJG_ARITHMETIC_TIMES, width}

#define FLOAT_OPERATIONS(types) \
	{F_FLOAT##types##PL, HJG_ARITHMETIC_PLUS, HJG_FLOAT_WIDTH}, \
	{F_FLOAT##types##MI, HJG_ARITHMETIC_MINUS, HJG_FLOAT_WIDTH}, \
	{F_FLOAT##types##MUL, HJG_ARITHMETIC_TIMES, HJG_FLOAT_WIDTH}, \
	{F_FLOAT##types##DIV, HJG_ARITHMETIC_DIVIDE, HJG_FLOAT_WIDTH}

static const HjgArithmetic known_arithmetic[] = {
	OPERATIONS(2, 2),
	OPERATIONS(24, 4),
	OPERATIONS(42, 4),
	OPERATIONS(4, 4),
	OPERATIONS(28, 8),
	OPERATIONS(82, 8),
	OPERATIONS(48, 8),
	OPERATIONS(84, 8),
	OPERATIONS(8, 8),
	{F_INT2UM, HJG_ARITHMETIC_NEGATE, 2},
	{F_INT4UM, HJG_ARITHMETIC_NEGATE, 4},
	{F_INT8UM, HJG_ARITHMETIC_NEGATE, 8},
	{F_INT4_INT2, HJG_ARITHMETIC_WIDEN, 4},
	{F_INT8_INT2, HJG_ARITHMETIC_WIDEN, 8},
	{F_INT8_INT4, HJG_ARITHMETIC_WIDEN, 8},
	FLOAT_OPERATIONS(8),
	FLOAT_OPERATIONS(48),
	FLOAT_OPERATIONS(84),
	{F_FLOAT8UM, HJG_ARITHMETIC_NEGATE, HJG_FLOAT_WIDTH},
	{F_FLOAT8_INT2, HJG_ARITHMETIC_OF_INTEGER, HJG_FLOAT_WIDTH},
	{F_FLOAT8_INT4, HJG_ARITHMETIC_OF_INTEGER, HJG_FLOAT_WIDTH},
	{F_FLOAT8_INT8, HJG_ARITHMETIC_OF_INTEGER, HJG_FLOAT_WIDTH},
	{F_FLOAT8_FLOAT4, HJG_ARITHMETIC_OF_FLOAT4, HJG_FLOAT_WIDTH},
	{F_NUMERIC_ADD, HJG_ARITHMETIC_PLUS, HJG_NUMERIC_WIDTH},
	{F_NUMERIC_SUB, HJG_ARITHMETIC_MINUS, HJG_NUMERIC_WIDTH},
	{F_NUMERIC_MUL, HJG_ARITHMETIC_TIMES, HJG_NUMERIC_WIDTH},
	{F_NUMERIC_UMINUS, HJG_ARITHMETIC_NEGATE, HJG_NUMERIC_WIDTH},
	{F_NUMERIC_INT2, HJG_ARITHMETIC_WIDEN, HJG_NUMERIC_WIDTH},
	{F_NUMERIC_INT4, HJG_ARITHMETIC_WIDEN, HJG_NUMERIC_WIDTH},
	{F_NUMERIC_INT8, HJG_ARITHMETIC_WIDEN, HJG_NUMERIC_WIDTH},
};

static const KnownAggregate *
find_aggregate(Oid function)
{
	for (int i = 0; i < lengthof(known_aggregates); i++)
		if (known_aggregates[i].function == function)
			return &known_aggregates[i];
	return NULL;
}

bool
hjg_aggregate_kind(Oid function, HjgAggregateKind *kind)
{
	const KnownAggregate *known = find_aggregate(function);

	if (known != NULL)
		*kind = known->kind;
	return known != NULL;
}

static Expr *
make_call(Oid function, Oid type, List *args)
{
	return (Expr *) makeFuncExpr(function, type, args, InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
}

/* No product overflows: int8 holds the squares of int4, and a numeric those of int8 and of numerics with a precision. */
Expr *
hjg_aggregate_square(Oid function, const Expr *argument)
{
	const bool	narrow = getBaseType(exprType((const Node *) argument)) == INT2OID;
	HjgAggregateKind kind = HJG_AGGREGATE_COUNT;
	Expr	   *value;
	Expr	   *again;

	(void) hjg_aggregate_kind(function, &kind);
	if (!hjg_aggregate_needs_squares(kind))
		return NULL;
	value = (Expr *) copyObjectImpl(argument);
	again = (Expr *) copyObjectImpl(argument);
	if (kind == HJG_AGGREGATE_VARIANCE)
	{
		again = make_call(narrow ? F_INT8_INT2 : F_INT8_INT4, INT8OID, list_make1(again));
		return make_call(narrow ? F_INT28MUL : F_INT48MUL, INT8OID, list_make2(value, again));
	}
	if (kind == HJG_AGGREGATE_WIDE_VARIANCE)
	{
		value = make_call(F_NUMERIC_INT8, NUMERICOID, list_make1(value));
		again = make_call(F_NUMERIC_INT8, NUMERICOID, list_make1(again));
	}
	return make_call(F_NUMERIC_MUL, NUMERICOID, list_make2(value, again));
}

bool
hjg_aggregate_is_ordered(HjgAggregateKind kind)
{
	return kind == HJG_AGGREGATE_FLOAT_SUM || kind == HJG_AGGREGATE_FLOAT_MOMENTS;
}

Oid
hjg_aggregate_of_results(Oid function)
{
	const KnownAggregate *known = find_aggregate(function);

	return known != NULL ? known->of_results : InvalidOid;
}

const HjgArithmetic *
hjg_arithmetic(Oid function)
{
	for (int i = 0; i < lengthof(known_arithmetic); i++)
		if (known_arithmetic[i].function == function)
			return &known_arithmetic[i];
	return NULL;
}

/* ---------- fields of dates ---------- */

typedef struct KnownField
{
	const char *name;
	HjgDateField field;
} KnownField;

static const KnownField known_fields[] = {
	{"year", HJG_DATE_YEAR},
	{"quarter", HJG_DATE_QUARTER},
	{"month", HJG_DATE_MONTH},
	{"day", HJG_DATE_DAY},
	{"doy", HJG_DATE_DOY},
	{"dow", HJG_DATE_DOW},
	{"isodow", HJG_DATE_ISODOW},
	{"week", HJG_DATE_WEEK},
	{"isoyear", HJG_DATE_ISOYEAR},
};

/* Units of date_trunc(), with the number of a date in its unit. */
static const KnownField known_units[] = {
	{"year", HJG_DATE_DOY},
	{"quarter", HJG_DATE_DAY_OF_QUARTER},
	{"month", HJG_DATE_DAY},
	{"week", HJG_DATE_ISODOW},
	{"day", HJG_DATE_DAY_OF_DAY},
};

static bool
find_field(const KnownField *known, int nknown, const Const *name, HjgDateField *field)
{
	if (!IsA(name, Const) || name->constisnull)
		return false;
	for (int i = 0; i < nknown; i++)
		if (strcmp(TextDatumGetCString(name->constvalue), known[i].name) == 0)
		{
			*field = known[i].field;
			return true;
		}
	return false;
}

/* Get argument n if the expression is a call of this function, else NULL. */
static Expr *
argument_of(Expr *expr, Oid function, int n)
{
	const FuncExpr *call = (const FuncExpr *) expr;

	return IsA(call, FuncExpr) && call->funcid == function ? list_nth(call->args, n) : NULL;
}

/* Get the date that a timestamp is made of, or the timestamp. */
static Expr *
below_timestamp(Expr *timestamp)
{
	Expr	   *date = argument_of(timestamp, F_TIMESTAMP_DATE, 0);

	return date != NULL ? date : timestamp;
}

bool
hjg_date_field(Expr *expr, HjgDateField *field, Expr **date)
{
	Expr	   *cast = argument_of(expr, F_INT4_NUMERIC, 0);
	Expr	   *timestamp;
	Expr	   *call;

	if (cast == NULL)
		cast = argument_of(expr, F_INT8_NUMERIC, 0);
	call = cast != NULL ? cast : expr;
	*date = argument_of(call, F_EXTRACT_TEXT_DATE, 1);
	timestamp = argument_of(call, F_EXTRACT_TEXT_TIMESTAMP, 1);
	if (timestamp == NULL && cast == NULL)
		timestamp = argument_of(call, F_DATE_PART_TEXT_TIMESTAMP, 1);
	if (timestamp != NULL)
		*date = below_timestamp(timestamp);
	return *date != NULL && find_field(known_fields, lengthof(known_fields), linitial(((const FuncExpr *) call)->args), field);
}

bool
hjg_date_trunc(Expr *expr, HjgDateField *field, Expr **date)
{
	Expr	   *timestamp = argument_of(expr, F_DATE_TRUNC_TEXT_TIMESTAMP, 1);

	if (timestamp == NULL)
		return false;
	*date = below_timestamp(timestamp);
	return find_field(known_units, lengthof(known_units), linitial(((const FuncExpr *) expr)->args), field);
}
