/*
 * planner_rounding.c
 *	  Finds columns of timestamps that a query only groups by the day, the hour or the minute.
 *
 * All timestamps of a local day, or hour, have the same date_trunc('month', at), at::date, extract(hour from at) and to_char(at, 'YYYY-MM').
 * So a program need not group by the timestamps themselves: it rounds them down first (HJG_PROGRAM_ROUND_DOWN), and the node computes the
 * keys of what comes back, by core's code if need be.
 *
 * Instants are rounded, not local times. In a zone without changes the multiples of a day begin at its midnight. Where the zone's offset changes
 * among the instants that there are, smaller multiples are taken, at which all local days and all changes begin: an hour in most of the world.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_statistic.h"
#include "catalog/pg_type_d.h"
#include "nodes/nodeFuncs.h"
#include "pgtime.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
#include "utils/timestamp.h"

#include "planner/hjg_planner.h"
#include "scan/hjg_scan.h"

/* Most changes of a zone's offset that are looked at: two a year. */
#define MOST_CHANGES 1000

#define MINUTE INT64CONST(60)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

/* ---------- units ---------- */

#define YEAR (365 * DAY)

/* No field has more values. */
#define MANY 1e9

typedef struct KnownUnit
{
	const char *name;
	int64		seconds;		/* in which a function of the unit, or field, is constant */
	int64		spacing;		/* and from one value to the next, about */
	double		values;			/* of a field, at most */
} KnownUnit;

/* Units of date_trunc(), and fields of extract() and date_part(). */
static const KnownUnit known_units[] = {
	{"minute", MINUTE, MINUTE, 60}, {"hour", HOUR, HOUR, 24}, {"day", DAY, DAY, 31}, {"week", DAY, 7 * DAY, 53}, {"month", DAY, 30 * DAY, 12},
	{"quarter", DAY, 91 * DAY, 4}, {"year", DAY, YEAR, MANY}, {"decade", DAY, 10 * YEAR, MANY}, {"century", DAY, 100 * YEAR, MANY},
	{"millennium", DAY, 1000 * YEAR, MANY}, {"doy", DAY, DAY, 366}, {"dow", DAY, DAY, 7}, {"isodow", DAY, DAY, 7}, {"isoyear", DAY, YEAR, MANY},
};

/* Patterns of to_char(), of those that begin alike the longest first. */
static const KnownUnit known_patterns[] = {
	{"YYYY", DAY}, {"YYY", DAY}, {"YY", DAY}, {"Y", DAY}, {"IYYY", DAY}, {"IW", DAY}, {"IDDD", DAY}, {"ID", DAY}, {"MONTH", DAY}, {"MON", DAY},
	{"MM", DAY}, {"DAY", DAY}, {"DY", DAY}, {"DDD", DAY}, {"DD", DAY}, {"D", DAY}, {"Q", DAY}, {"WW", DAY}, {"W", DAY}, {"HH24", HOUR},
	{"HH12", HOUR}, {"HH", HOUR}, {"AM", HOUR}, {"PM", HOUR}, {"MI", MINUTE},
};

/* Get a text; NULL if it is no constant of that type. */
static const char *
constant_text(const Node *node)
{
	const Const *constant = (const Const *) node;

	return IsA(node, Const) && constant->consttype == TEXTOID && !constant->constisnull ? TextDatumGetCString(constant->constvalue) : NULL;
}

static const KnownUnit *
find_unit(const char *name)
{
	static const KnownUnit unknown = {""};

	for (int i = 0; name != NULL && i < lengthof(known_units); i++)
		if (pg_strcasecmp(name, known_units[i].name) == 0)
			return &known_units[i];
	return &unknown;
}

static const KnownUnit *
find_pattern(const char *at)
{
	for (int i = 0; i < lengthof(known_patterns); i++)
		if (pg_strncasecmp(at, known_patterns[i].name, strlen(known_patterns[i].name)) == 0)
			return &known_patterns[i];
	return NULL;
}

/* Find the seconds in which the text of a format is constant; 0: it has patterns that are not known. */
static int64
unit_of_format(const char *format)
{
	int64		unit = DAY;

	while (format != NULL && *format != '\0')
	{
		const KnownUnit *pattern = find_pattern(format);

		if (pattern == NULL && (IS_HIGHBIT_SET(*format) || isalpha((unsigned char) *format) || *format == '"' || *format == '\\'))
			return 0;
		unit = pattern != NULL ? Min(unit, pattern->seconds) : unit;
		format += pattern != NULL ? strlen(pattern->name) : 1;
	}
	return format != NULL ? unit : 0;
}

/* ---------- calls ---------- */

/* A call of a function of local time. */
typedef struct TimeCall
{
	Var		   *column;
	int64		unit;			/* seconds in which it is constant, */
	int64		spacing;		/* and between its values, */
	double		values;			/* which are at most so many */
	pg_tz	   *zone;			/* NULL: of timestamps without time zone */
} TimeCall;

/* Find a time zone by its name; NULL: it is not known, or might be an abbreviation, which may stand for another zone. */
static pg_tz *
find_zone(const char *name)
{
	return name != NULL && (strchr(name, '/') != NULL || pg_strcasecmp(name, "UTC") == 0) ? pg_tzset(name) : NULL;
}

/* Find the column and the zone of a local time. */
static bool
find_local_time(Expr *expr, TimeCall *call)
{
	const FuncExpr *cast = (const FuncExpr *) expr;

	call->zone = session_timezone;
	if (IsA(expr, FuncExpr) && cast->funcid == F_TIMEZONE_TEXT_TIMESTAMPTZ)
	{
		call->zone = find_zone(constant_text(linitial(cast->args)));
		expr = hjg_scan_strip_relabel(lsecond(cast->args));
	}
	else if (IsA(expr, FuncExpr) && cast->funcid == F_TIMESTAMP_TIMESTAMPTZ)
		expr = hjg_scan_strip_relabel(linitial(cast->args));
	else if (IsA(expr, Var) && ((Var *) expr)->vartype == TIMESTAMPOID)
	{
		call->zone = NULL;
		call->column = (Var *) expr;
		return true;
	}
	call->column = (Var *) expr;
	return call->zone != NULL && IsA(expr, Var) && ((Var *) expr)->vartype == TIMESTAMPTZOID;
}

/* Is a function of a time extract() or date_part(), whose result is a number? */
static bool
is_field(const FuncExpr *function)
{
	return function->funcresulttype == NUMERICOID || function->funcresulttype == FLOAT8OID;
}

static bool
find_time_call(Node *node, TimeCall *call)
{
	const FuncExpr *function = (const FuncExpr *) node;
	const KnownUnit *unit;
	int			time = 0;		/* the argument that is the time */

	call->values = MANY;
	if (!IsA(node, FuncExpr))
		return false;
	switch (function->funcid)
	{
		case F_DATE_TIMESTAMP:
		case F_DATE_TIMESTAMPTZ:
			call->unit = call->spacing = DAY;
			break;
		case F_TO_CHAR_TIMESTAMP_TEXT:
		case F_TO_CHAR_TIMESTAMPTZ_TEXT:
			call->unit = call->spacing = unit_of_format(constant_text(lsecond(function->args)));
			break;
		case F_DATE_TRUNC_TEXT_TIMESTAMP:
		case F_DATE_TRUNC_TEXT_TIMESTAMPTZ:
		case F_DATE_TRUNC_TEXT_TIMESTAMPTZ_TEXT:
		case F_EXTRACT_TEXT_TIMESTAMP:
		case F_EXTRACT_TEXT_TIMESTAMPTZ:
		case F_DATE_PART_TEXT_TIMESTAMP:
		case F_DATE_PART_TEXT_TIMESTAMPTZ:
			unit = find_unit(constant_text(linitial(function->args)));
			call->unit = unit->seconds;
			call->spacing = unit->spacing;
			call->values = is_field(function) ? unit->values : MANY;
			time = 1;
			break;
		default:
			return false;
	}
	if (call->unit == 0 || !find_local_time(hjg_scan_strip_relabel(list_nth(function->args, time)), call))
		return false;
	if (function->funcid == F_DATE_TRUNC_TEXT_TIMESTAMPTZ_TEXT)
		call->zone = find_zone(constant_text(lthird(function->args)));
	return call->zone != NULL || call->column->vartype == TIMESTAMPOID;
}

/* Find the call that a key is computed from; false if it is computed from something else, too. */
static bool
find_key_call(Node *key, TimeCall *call)
{
	for (;;)
	{
		const FuncExpr *cast = (const FuncExpr *) key;

		if (find_time_call(key, call))
			return true;
		if (IsA(key, RelabelType))
			key = (Node *) ((RelabelType *) key)->arg;
		else if (IsA(key, FuncExpr) && list_length(cast->args) == 1)
			key = linitial(cast->args);
		else
			return false;
	}
}

/* Find a function of a date, of which there may be many fewer values than of the date; unlike above, no program rounds it. */
static bool
find_date_call(Node *key, TimeCall *call)
{
	const FuncExpr *function = (const FuncExpr *) key;
	const KnownUnit *unit;
	const FuncExpr *cast;
	Expr	   *date;

	if (!IsA(key, FuncExpr))
		return false;
	switch (function->funcid)
	{
		case F_DATE_TRUNC_TEXT_TIMESTAMP:
		case F_DATE_TRUNC_TEXT_TIMESTAMPTZ:
		case F_EXTRACT_TEXT_DATE:
		case F_EXTRACT_TEXT_TIMESTAMP:
		case F_DATE_PART_TEXT_TIMESTAMP:
			break;
		default:
			return false;
	}
	unit = find_unit(constant_text(linitial(function->args)));
	date = hjg_scan_strip_relabel(lsecond(function->args));
	cast = (const FuncExpr *) date;
	if (IsA(date, FuncExpr) && (cast->funcid == F_TIMESTAMP_DATE || cast->funcid == F_TIMESTAMPTZ_DATE))
		date = hjg_scan_strip_relabel(linitial(cast->args));
	call->column = (Var *) date;
	call->spacing = unit->spacing;
	call->values = is_field(function) ? unit->values : MANY;
	return unit->seconds > 0 && IsA(date, Var) && call->column->vartype == DATEOID;
}

bool
hjg_planner_is_time_key(Node *expr)
{
	TimeCall	call;

	return find_key_call(expr, &call);
}

bool
hjg_planner_is_time_field(Node *expr)
{
	TimeCall	call;

	return find_time_call(expr, &call) && is_field((const FuncExpr *) expr);
}

/* ---------- columns ---------- */

/* Note that a column is read by a call, or (unit 0) as it is. */
static void
note_call(List **roundings, const TimeCall *call)
{
	HjgRounding *rounding = NULL;
	ListCell   *lc;

	foreach(lc, *roundings)
		if (equal(((HjgRounding *) lfirst(lc))->column, call->column))
			rounding = lfirst(lc);
	if (rounding == NULL)
	{
		rounding = palloc(sizeof(HjgRounding));
		*rounding = (HjgRounding) {.column = call->column, .unit = call->unit};
		*roundings = lappend(*roundings, rounding);
	}
	rounding->unit = Min(rounding->unit, call->unit);
	if (call->zone != NULL)
		rounding->zones = list_append_unique_ptr(rounding->zones, call->zone);
}

static bool
find_calls(Node *node, List **roundings)
{
	TimeCall	call = {NULL};

	if (node == NULL || IsA(node, Aggref))
		return false;
	if (find_time_call(node, &call))
	{
		note_call(roundings, &call);
		return false;
	}
	if (IsA(node, Var))
		note_call(roundings, &(TimeCall) {.column = (Var *) node});
	return expression_tree_walker(node, find_calls, roundings);
}

List *
hjg_planner_find_roundings(List *exprs)
{
	List	   *roundings = NIL;
	ListCell   *lc;

	find_calls((Node *) exprs, &roundings);
	foreach(lc, roundings)
		if (((HjgRounding *) lfirst(lc))->unit == 0)
			roundings = foreach_delete_current(roundings, lc);
	return roundings;
}

/* ---------- multiples ---------- */

static int64
common_divisor(int64 a, int64 b)
{
	while (b != 0)
	{
		const int64 rest = a % b;

		a = b;
		b = rest;
	}
	return a < 0 ? -a : a;
}

/* Narrow the multiple for the zone's offsets and their changes between two instants, in seconds; false: there are too many. */
static bool
narrow_for_zone(pg_tz *zone, pg_time_t least, pg_time_t greatest, int64 shift, int64 *multiple)
{
	long		before;
	long		after;
	int			before_dst;
	int			after_dst;

	for (int i = 0; i < MOST_CHANGES; i++)
	{
		pg_time_t	change;
		const int	found = pg_next_dst_boundary(&least, &before, &before_dst, &change, &after, &after_dst, zone);

		if (found < 0)
			return false;
		*multiple = common_divisor(*multiple, before - shift);
		if (found == 0 || change > greatest)
			return true;
		*multiple = common_divisor(common_divisor(*multiple, change + shift), after - shift);
		least = change;
	}
	return false;
}

/* Find the offset of a zone at an instant. */
static bool
find_offset(pg_tz *zone, pg_time_t instant, int64 *offset)
{
	const struct pg_tm *local = pg_localtime(&instant, zone);

	*offset = local != NULL ? local->tm_gmtoff : 0;
	return local != NULL;
}

bool
hjg_planner_rounding_step(const HjgRounding *rounding, int64 least, int64 greatest, int64 *multiple, int64 *shift)
{
	/* seconds are cut off, so that of a time before 2000 may be later */
	const pg_time_t first = timestamptz_to_time_t(least) - 1;
	ListCell   *lc;

	*multiple = rounding->unit;
	*shift = 0;
	if (!IS_VALID_TIMESTAMP(least) || !IS_VALID_TIMESTAMP(greatest) || least > greatest)
		return false;
	if (rounding->zones != NIL && !find_offset(linitial(rounding->zones), first, shift))
		return false;
	foreach(lc, rounding->zones)
		if (!narrow_for_zone(lfirst(lc), first, timestamptz_to_time_t(greatest), *shift, multiple))
			return false;
	*shift = (*shift % *multiple + *multiple) % *multiple * USECS_PER_SEC;
	*multiple *= USECS_PER_SEC;
	return true;
}

/* Days that are not too many in microseconds; dates go further. */
#define MOST_DAYS 100000000

/* Read a timestamp, or a date, in microseconds. */
static int64
microseconds_of(Datum value, Oid type)
{
	return type == DATEOID ? Max(Min(DatumGetDateADT(value), MOST_DAYS), -MOST_DAYS) * USECS_PER_DAY : DatumGetTimestamp(value);
}

/* Widen the range of a column's values by some that core's statistics know. */
static void
widen_range(const VariableStatData *variable, int kind, Oid type, int64 *least, int64 *greatest)
{
	AttStatsSlot slot;

	if (!get_attstatsslot(&slot, variable->statsTuple, kind, InvalidOid, ATTSTATSSLOT_VALUES))
		return;
	for (int i = 0; i < slot.nvalues; i++)
	{
		const int64 value = microseconds_of(slot.values[i], type);

		*least = Min(*least, value);
		*greatest = Max(*greatest, value);
	}
	free_attstatsslot(&slot);
}

/* Find the least and the greatest value of a column that core's statistics know: the histogram is of values that are not among the most common ones. */
static bool
find_known_range(PlannerInfo *root, Var *column, int64 *least, int64 *greatest)
{
	VariableStatData variable;

	*least = PG_INT64_MAX;
	*greatest = PG_INT64_MIN;
	examine_variable(root, (Node *) column, 0, &variable);
	if (HeapTupleIsValid(variable.statsTuple))
	{
		widen_range(&variable, STATISTIC_KIND_HISTOGRAM, column->vartype, least, greatest);
		widen_range(&variable, STATISTIC_KIND_MCV, column->vartype, least, greatest);
	}
	ReleaseVariableStats(variable);
	return *least <= *greatest;
}

double
hjg_planner_rounded_values(PlannerInfo *root, const HjgRounding *rounding, double values)
{
	int64		least;
	int64		greatest;
	int64		multiple;
	int64		shift;

	if (!find_known_range(root, rounding->column, &least, &greatest) || !hjg_planner_rounding_step(rounding, least, greatest, &multiple, &shift))
		return values;
	return Min(values, (double) (greatest / multiple - least / multiple + 1));
}

double
hjg_planner_time_values(PlannerInfo *root, Node *key)
{
	TimeCall	call;
	int64		least;
	int64		greatest;

	if ((!find_key_call(key, &call) && !find_date_call(key, &call)) || !find_known_range(root, call.column, &least, &greatest))
		return INFINITY;
	return Min(call.values, (double) (greatest / call.spacing - least / call.spacing) / USECS_PER_SEC + 1);
}
