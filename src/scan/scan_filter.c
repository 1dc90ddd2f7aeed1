/*
 * scan_filter.c
 *	  The simple conditions of a scan, as filters over columns.
 *
 * Simple conditions are: comparisons of a fixed-width or numeric column with a constant, a parameter or another such column;
 * equality of text and other strings of bytes with a constant or a parameter; LIKE with a constant of literals and %; lists
 * of constants (IN, NOT IN); boolean columns; IS [NOT] NULL; AND and OR of these. They have no side effect, raise no error
 * and leak nothing, but other conditions may do all that, and must not see a row that a condition before them drops. So only
 * the conditions before the first one that is not simple are taken. Rows that pass these are tested by core's expression code
 * with the whole list.
 *
 * The operators are those of vector_operator_pg.c.
 *
 * Constants and parameters are evaluated when the first row needs them, as in core, and again after a rescan: a PL/pgSQL
 * variable may have no value, and a subquery may fail or take long.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/lsyscache.h"

#include "scan/hjg_scan_filter.h"
#include "scan/hjg_scan_heap.h"

/* A leaf that becomes a range or set when its operand is known. */
typedef struct Operand
{
	HjgFilter	leaf;			/* first: the leaf's bind finds the rest */
	HjgScanFilter *scan;
	HjgComparison comparison;	/* column on the left */
	int16		width;			/* of the operand */
	bool		is_array;
	ExprState  *expr;
} Operand;

/* ---------- from expressions to filters ---------- */

static HjgFilter *make_expr_filter(HjgScanFilter *scan, Expr *expr);

Expr *
hjg_scan_strip_relabel(Node *node)
{
	while (IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return (Expr *) node;
}

/* Get the operator for exchanged sides. */
static HjgComparison
commuted_comparison(HjgComparison comparison)
{
	switch (comparison)
	{
		case HJG_COMPARE_LT:
			return HJG_COMPARE_GT;
		case HJG_COMPARE_LE:
			return HJG_COMPARE_GE;
		case HJG_COMPARE_GT:
			return HJG_COMPARE_LT;
		case HJG_COMPARE_GE:
			return HJG_COMPARE_LE;
		default:
			return comparison;
	}
}

/* Is the type numeric, or a domain over it? */
static bool
is_numeric(Oid type)
{
	return getBaseType(type) == NUMERICOID;
}

/*
 * Find the vector of a user column of the scan's table; -1 if the expression is something else. The column must be passed by
 * value with this width, or be HJG_VARIABLE_WIDTH or HJG_NUMERIC_WIDTH; 0: any column.
 */
static int
find_column(HjgScanFilter *scan, Expr *expr, int width)
{
	Var		   *var = (Var *) expr;
	Form_pg_attribute att;

	if (!IsA(expr, Var) || var->varno != scan->relid || var->varattno <= 0)
		return -1;
	att = TupleDescAttr(scan->columns.desc, var->varattno - 1);
	width = width == HJG_NUMERIC_WIDTH ? HJG_VARIABLE_WIDTH : width;
	if (width != 0 && (att->attlen != width || att->attbyval != (width > 0)))
		return -1;
	for (int c = 0; c < scan->columns.n; c++)
		if (scan->columns.attnos[c] == var->varattno)
			return c;
	scan->columns.attnos[scan->columns.n] = var->varattno;
	return scan->columns.n++;
}

static bool
is_operand(Expr *expr)
{
	return IsA(expr, Const) || IsA(expr, Param);
}

/* Is the operand a subquery, or a variable that a callback supplies? */
static bool
is_fallible(const HjgScanFilter *scan, Expr *expr)
{
	const ParamListInfo params = scan->seq != NULL ? scan->seq->ss.ps.state->es_param_list_info : NULL;

	return IsA(expr, Param) &&
		(((Param *) expr)->paramkind == PARAM_EXEC || (params != NULL && params->paramFetch != NULL));
}

static HjgFilter *
make_leaf(HjgFilterKind kind, int column)
{
	HjgFilter  *leaf = palloc0(sizeof(HjgFilter));

	leaf->kind = kind;
	leaf->column = column;
	return leaf;
}

/* A condition's operator, of any kind. */
typedef struct Comparison
{
	HjgComparison comparison;
	HjgOrdinal	ordinal;
	bool		padded;
	int16		left_width;		/* or HJG_VARIABLE_WIDTH, HJG_NUMERIC_WIDTH */
	int16		right_width;
} Comparison;

/* Are strings equal under the collation only if their bytes are? Without a collation core raises an error. */
static bool
is_bytewise(Oid collation)
{
	return OidIsValid(collation) && get_collation_isdeterministic(collation);
}

static bool
find_comparison(Oid opno, Oid collation, Comparison *found)
{
	const Oid	function = get_opcode(opno);
	const HjgSimpleOperator *op = hjg_vector_simple_operator(function);
	const HjgBytesOperator *bytes = hjg_vector_bytes_operator(function);

	if (op != NULL)
		*found = (Comparison) {op->comparison, op->ordinal, false, op->left_width, op->right_width};
	else if (hjg_vector_numeric_operator(function, &found->comparison))
		*found = (Comparison) {found->comparison, HJG_ORDINAL_NONE, false, HJG_NUMERIC_WIDTH, HJG_NUMERIC_WIDTH};
	else if (bytes != NULL && (!bytes->collated || is_bytewise(collation)))
		*found = (Comparison) {bytes->comparison, HJG_ORDINAL_NONE, bytes->padded, HJG_VARIABLE_WIDTH, HJG_VARIABLE_WIDTH};
	else
		return false;
	return true;
}

static HjgFilter *
make_comparison(HjgScanFilter *scan, int column, const Comparison *op, HjgComparison comparison, int width,
				Expr *expr, bool is_array)
{
	Operand    *operand = palloc0(sizeof(Operand));

	/* the form until the operand is known, which may change it */
	operand->leaf.kind = width == HJG_VARIABLE_WIDTH ? HJG_FILTER_BYTES : width == HJG_NUMERIC_WIDTH ? HJG_FILTER_NUMERIC :
		is_array ? HJG_FILTER_SET : HJG_FILTER_RANGE;
	operand->leaf.column = column;
	operand->leaf.ordinal = op->ordinal;
	operand->leaf.padded = op->padded;
	operand->scan = scan;
	operand->comparison = comparison;
	operand->width = width;
	operand->is_array = is_array;
	operand->expr = scan->seq != NULL ? ExecInitExpr(expr, &scan->seq->ss.ps) : NULL;
	scan->operands = lappend(scan->operands, operand);
	scan->nfallible += is_fallible(scan, expr) ? 1 : 0;
	return &operand->leaf;
}

/*
 * Make a leaf of LIKE with a constant pattern of literals and %. Literals are searched as bytes: in UTF-8, and in encodings
 * of one byte a character, they occur only as whole characters.
 */
static HjgFilter *
make_like(HjgScanFilter *scan, OpExpr *expr)
{
	const Const *pattern = lsecond(expr->args);
	HjgFilter  *leaf;
	HjgBytes   *bytes;
	int			nbytes = 0;
	bool		negated;
	int			column;
	const char *at;
	const char *end;

	if (!hjg_vector_like_operator(get_opcode(expr->opno), &negated) || !IsA(pattern, Const) || pattern->constisnull ||
		!is_bytewise(expr->inputcollid) || (GetDatabaseEncoding() != PG_UTF8 && pg_database_encoding_max_length() > 1))
		return NULL;
	at = TextDatumGetCString(pattern->constvalue);
	if (strpbrk(at, "_\\") != NULL || strchr(at, '%') == NULL ||
		(column = find_column(scan, hjg_scan_strip_relabel(linitial(expr->args)), HJG_VARIABLE_WIDTH)) < 0)
		return NULL;
	leaf = make_leaf(HJG_FILTER_LIKE, column);
	bytes = palloc((strlen(at) + 2) * sizeof(HjgBytes));
	for (; at != NULL; at = end != NULL ? end + 1 : NULL)
	{
		const bool	first = nbytes == 0;

		end = strchr(at, '%');
		/* empty literals between the first and the last one are skipped */
		if (first || end == NULL || end > at)
			bytes[nbytes++] = (HjgBytes) {at, end != NULL ? end - at : (int32) strlen(at)};
	}
	hjg_scan_filter_set_like(leaf, bytes, nbytes, negated);
	return leaf;
}

/* Make a leaf that compares a column of dates with an operand that is a timestamp; the operand is converted to a date. */
static HjgFilter *
make_date_comparison(HjgScanFilter *scan, OpExpr *expr)
{
	Comparison	op = {.ordinal = HJG_ORDINAL_INT};
	bool		date_is_left;
	Expr	   *date;
	Expr	   *timestamp;
	int			column;

	if (!hjg_vector_date_operator(get_opcode(expr->opno), &op.comparison, &date_is_left))
		return NULL;
	date = hjg_scan_strip_relabel(date_is_left ? linitial(expr->args) : lsecond(expr->args));
	timestamp = hjg_scan_strip_relabel(date_is_left ? lsecond(expr->args) : linitial(expr->args));
	if (!is_operand(timestamp) || (column = find_column(scan, date, sizeof(DateADT))) < 0)
		return NULL;
	return make_comparison(scan, column, &op, op.comparison, HJG_TIMESTAMP_WIDTH, timestamp, false);
}

static HjgFilter *
make_operator(HjgScanFilter *scan, OpExpr *expr)
{
	Comparison	op;
	HjgFilter  *leaf;
	Expr	   *left;
	Expr	   *right;
	int			column;
	int			other;

	if (!find_comparison(expr->opno, expr->inputcollid, &op))
		return NULL;
	left = hjg_scan_strip_relabel(linitial(expr->args));
	right = hjg_scan_strip_relabel(lsecond(expr->args));
	/* a superuser may have declared other types to be numerics without a function */
	if (op.left_width == HJG_NUMERIC_WIDTH && (!is_numeric(exprType((Node *) left)) || !is_numeric(exprType((Node *) right))))
		return NULL;
	if (is_operand(right) && (column = find_column(scan, left, op.left_width)) >= 0)
		return make_comparison(scan, column, &op, op.comparison, op.right_width, right, false);
	if (is_operand(left) && (column = find_column(scan, right, op.right_width)) >= 0)
		return make_comparison(scan, column, &op, commuted_comparison(op.comparison), op.left_width, left, false);
	if (op.left_width == HJG_VARIABLE_WIDTH || (column = find_column(scan, left, op.left_width)) < 0 ||
		(other = find_column(scan, right, op.right_width)) < 0)
		return NULL;
	leaf = make_leaf(op.left_width == HJG_NUMERIC_WIDTH ? HJG_FILTER_NUMERIC_COLUMNS : HJG_FILTER_COLUMNS, column);
	leaf->compare = hjg_scan_filter_compare_numerics;
	leaf->other = other;
	leaf->ordinal = op.ordinal;
	leaf->comparison = op.comparison;
	return leaf;
}

/* Make a leaf of IN or NOT IN. */
static HjgFilter *
make_list(HjgScanFilter *scan, ScalarArrayOpExpr *expr)
{
	Comparison	op;
	Expr	   *array;
	int			column;

	if (!find_comparison(expr->opno, expr->inputcollid, &op) ||
		op.comparison != (expr->useOr ? HJG_COMPARE_EQ : HJG_COMPARE_NE))
		return NULL;
	array = hjg_scan_strip_relabel(lsecond(expr->args));
	if (op.left_width == HJG_NUMERIC_WIDTH && (!is_numeric(exprType((Node *) hjg_scan_strip_relabel(linitial(expr->args)))) ||
											   !is_numeric(get_base_element_type(exprType((Node *) array)))))
		return NULL;
	if (!is_operand(array) || (column = find_column(scan, hjg_scan_strip_relabel(linitial(expr->args)), op.left_width)) < 0)
		return NULL;
	return make_comparison(scan, column, &op, op.comparison, op.right_width, array, true);
}

/* Make a leaf of a boolean column, or of NOT of one. */
static HjgFilter *
make_boolean(HjgScanFilter *scan, Expr *expr, bool wanted)
{
	int			column = exprType((Node *) expr) == BOOLOID ? find_column(scan, expr, 1) : -1;
	HjgFilter  *leaf;

	if (column < 0)
		return NULL;
	leaf = make_leaf(HJG_FILTER_RANGE, column);
	leaf->ordinal = HJG_ORDINAL_INT;
	leaf->low = leaf->high = wanted;
	return leaf;
}

static HjgFilter *
make_args(HjgScanFilter *scan, BoolExpr *expr)
{
	HjgFilter  *node;
	ListCell   *lc;

	if (expr->boolop == NOT_EXPR)
		return make_boolean(scan, linitial(expr->args), false);
	if (scan->level == HJG_FILTER_MAX_LEVELS)
		return NULL;
	scan->level++;
	node = make_leaf(expr->boolop == AND_EXPR ? HJG_FILTER_AND : HJG_FILTER_OR, -1);
	node->args = palloc(list_length(expr->args) * sizeof(HjgFilter *));
	foreach(lc, expr->args)
	{
		HjgFilter  *arg = make_expr_filter(scan, lfirst(lc));

		if (arg == NULL)
			break;
		node->args[node->nargs++] = arg;
	}
	scan->level--;
	return node->nargs == list_length(expr->args) ? node : NULL;
}

/* Make the filter of an expression; NULL if the expression is not simple. */
static HjgFilter *
make_expr_filter(HjgScanFilter *scan, Expr *expr)
{
	HjgFilter  *leaf;
	int			column;

	switch (nodeTag(expr))
	{
		case T_OpExpr:
			if (list_length(((OpExpr *) expr)->args) != 2)
				return NULL;
			leaf = make_like(scan, (OpExpr *) expr);
			if (leaf == NULL)
				leaf = make_date_comparison(scan, (OpExpr *) expr);
			return leaf != NULL ? leaf : make_operator(scan, (OpExpr *) expr);
		case T_ScalarArrayOpExpr:
			return make_list(scan, (ScalarArrayOpExpr *) expr);
		case T_BoolExpr:
			return make_args(scan, (BoolExpr *) expr);
		case T_Var:
			return make_boolean(scan, expr, true);
		case T_NullTest:
			if (((NullTest *) expr)->argisrow)
				return NULL;
			column = find_column(scan, hjg_scan_strip_relabel((Node *) ((NullTest *) expr)->arg), 0);
			if (column < 0)
				return NULL;
			leaf = make_leaf(HJG_FILTER_IS_NULL, column);
			leaf->negated = ((NullTest *) expr)->nulltesttype == IS_NOT_NULL;
			return leaf;
		default:
			return NULL;
	}
}

/*
 * Would each row still raise the same error first with this condition added? A filter evaluates a condition for many rows,
 * then the next; core evaluates all for a row, then the next row. If rows may pass without evaluating an operand, two
 * operands could fail in another order.
 */
static bool
fails_in_order(HjgScanFilter *scan, const HjgFilter *node, int nfallible_before)
{
	if (node->kind == HJG_FILTER_OR)
		scan->nfallible_in_or += scan->nfallible - nfallible_before;
	return scan->nfallible_in_or == 0 || scan->nfallible == 1;
}

int
hjg_scan_filter_rank(const HjgFilter *node)
{
	int			rank = 0;

	switch (node->kind)
	{
		case HJG_FILTER_NUMERIC:
		case HJG_FILTER_NUMERIC_COLUMNS:
		case HJG_FILTER_BYTES:
			return 8;
		case HJG_FILTER_LIKE:
			return 20;
		case HJG_FILTER_ALL:
		case HJG_FILTER_AND:
		case HJG_FILTER_OR:
			for (int a = 0; a < node->nargs; a++)
				rank += hjg_scan_filter_rank(node->args[a]);
			return rank;
		default:
			return 1;
	}
}

/* Put the cheapest conditions first: an expensive one looks only at rows that pass those before it. */
static void
sort_by_cost(HjgFilter *all)
{
	for (int a = 1; a < all->nargs; a++)
	{
		HjgFilter  *arg = all->args[a];
		int			at = a;

		for (; at > 0 && hjg_scan_filter_rank(all->args[at - 1]) > hjg_scan_filter_rank(arg); at--)
			all->args[at] = all->args[at - 1];
		all->args[at] = arg;
	}
}

/* Make filters of the first conditions, up to the first that is not simple. */
static HjgScanFilter *
make_filters(List *qual, SeqScanState *seq, Index relid, TupleDesc desc)
{
	HjgScanFilter *scan = palloc0(sizeof(HjgScanFilter));
	ListCell   *lc;

	scan->seq = seq;
	scan->relid = relid;
	scan->columns.desc = desc;
	scan->columns.as_numbers = true;
	scan->complete = true;
	scan->columns.attnos = palloc(Max(desc->natts, 1) * sizeof(AttrNumber));
	scan->filter = make_leaf(HJG_FILTER_ALL, -1);
	scan->filter->args = palloc(Max(list_length(qual), 1) * sizeof(HjgFilter *));
	foreach(lc, qual)
	{
		int			noperands = list_length(scan->operands);
		int			nfallible = scan->nfallible;
		int			ncolumns = scan->columns.n;
		HjgFilter  *node = make_expr_filter(scan, lfirst(lc));

		if (node == NULL || !fails_in_order(scan, node, nfallible))
		{
			/* undo the notes of its parts */
			scan->operands = list_truncate(scan->operands, noperands);
			scan->columns.n = ncolumns;
			scan->complete = false;
			break;
		}
		scan->filter->args[scan->filter->nargs++] = node;
	}
	return scan;
}

HjgScanFilter *
hjg_scan_filter_create(SeqScanState *seq, MemoryContext work_context)
{
	HjgScanFilter *scan = make_filters(seq->ss.ps.plan->qual, seq, ((Scan *) seq->ss.ps.plan)->scanrelid,
									   seq->ss.ss_ScanTupleSlot->tts_tupleDescriptor);

	scan->columns.work_context = work_context;
	if (scan->filter->nargs == 0)
		return NULL;
	/* nobody can tell in which order conditions are tested that cannot fail */
	if (scan->nfallible == 0)
		sort_by_cost(scan->filter);
	hjg_scan_filter_reset(scan);
	return scan;
}

void
hjg_scan_find_simple(List *quals, Index relid, TupleDesc desc, HjgSimpleConditions *simple)
{
	const HjgScanFilter *scan = make_filters(quals, NULL, relid, desc);

	*simple = (HjgSimpleConditions) {
		.n = scan->filter->nargs, .filters = scan->filter->args, .ncolumns = scan->columns.n, .attnos = scan->columns.attnos,
		.wait = hjg_scan_filter_may_wait(scan)
	};
}

/* ---------- operands ---------- */

/* Evaluate the operand of a leaf and bind the leaf to it. */
static void
bind_operand(HjgFilter *leaf)
{
	Operand    *operand = (Operand *) leaf;
	ExprContext *econtext = operand->scan->seq->ss.ps.ps_ExprContext;
	MemoryContext old;
	bool		isnull;
	Datum		value;

	ResetExprContext(econtext);
	old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	value = ExecEvalExpr(operand->expr, econtext, &isnull);
	leaf->null = false;
	if (isnull)
		hjg_vector_filter_set_null(leaf);
	else if (operand->is_array)
		hjg_scan_filter_set_list(leaf, GetMemoryChunkContext(operand->scan), operand->comparison, operand->width, DatumGetArrayTypeP(value));
	else
		hjg_scan_filter_set_value(leaf, GetMemoryChunkContext(operand->scan), operand->comparison, operand->width, value);
	MemoryContextSwitchTo(old);
	leaf->bind = NULL;
}

/* ---------- filtering ---------- */

void
hjg_scan_filter_reset(HjgScanFilter *scan)
{
	ListCell   *lc;

	foreach(lc, scan->operands)
		((Operand *) lfirst(lc))->leaf.bind = bind_operand;
}

void
hjg_scan_filter_forget(HjgScanFilter *scan)
{
	hjg_scan_page_columns_forget(&scan->columns);
}

bool
hjg_scan_filter_complete(const HjgScanFilter *scan)
{
	return scan->complete;
}

bool
hjg_scan_filter_may_wait(const HjgScanFilter *scan)
{
	return scan->complete && scan->nfallible == 0 && hjg_scan_page_columns_walked(&scan->columns);
}

Bitmapset *
hjg_scan_filter_add_columns(const HjgScanFilter *scan, Bitmapset *attnos)
{
	for (int c = 0; c < scan->columns.n; c++)
		attnos = bms_add_member(attnos, scan->columns.attnos[c]);
	return attnos;
}

bool
hjg_scan_find_attributes(List *quals, Index relid, Bitmapset **attnos)
{
	Bitmapset  *found = NULL;
	bool		plain = true;

	pull_varattnos((Node *) quals, relid, &found);
	for (int member = -1; (member = bms_next_member(found, member)) >= 0;)
	{
		const AttrNumber attno = member + FirstLowInvalidHeapAttributeNumber;

		plain &= attno > 0;
		if (attno > 0)
			*attnos = bms_add_member(*attnos, attno);
	}
	return plain;
}
