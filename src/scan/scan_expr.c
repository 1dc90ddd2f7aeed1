/*
 * scan_expr.c
 *	  Expressions of columns in plans: casts that change nothing, and parts of strings, by substring(), substr() and left().
 *
 * A character is a byte, or one of UTF-8; strings in other encodings are left to core. So is a negative length, which is an error.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "catalog/pg_type_d.h"
#include "mb/pg_wchar.h"
#include "utils/fmgroids.h"

#include "scan/hjg_scan.h"

Expr *
hjg_scan_strip_relabel(Node *node)
{
	while (IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return (Expr *) node;
}

/* ---------- parts of strings ---------- */

/* Takes any first place beyond the end of a string. */
#define TO_END (INT64CONST(1) << 32)

static bool
find_constant(const List *args, int n, int32 *value)
{
	const Const *constant = list_nth(args, n);

	if (!IsA(constant, Const) || constant->constisnull || constant->consttype != INT4OID)
		return false;
	*value = DatumGetInt32(constant->constvalue);
	return true;
}

/*
 * Find the place of the first character, counted from 1, and the number of characters; false for other functions, or if the number
 * is an error.
 */
static bool
find_slice_bounds(const FuncExpr *call, int32 *start, int64 *nchars)
{
	int32		length = 0;

	*start = 1;
	*nchars = TO_END;
	switch (call->funcid)
	{
		case F_SUBSTRING_TEXT_INT4:
		case F_SUBSTR_TEXT_INT4:
			return find_constant(call->args, 1, start);
		case F_SUBSTRING_TEXT_INT4_INT4:
		case F_SUBSTR_TEXT_INT4_INT4:
			if (!find_constant(call->args, 1, start) || !find_constant(call->args, 2, &length))
				return false;
			break;
		case F_LEFT:
			if (!find_constant(call->args, 1, &length))
				return false;
			break;
		default:
			return false;
	}
	*nchars = length;
	return length >= 0;
}

Expr *
hjg_scan_find_slice(const Expr *expr, HjgSlice *slice)
{
	const bool	utf8 = GetDatabaseEncoding() == PG_UTF8;
	const FuncExpr *call = (const FuncExpr *) expr;
	Expr	   *string;
	int32		start;
	int64		nchars;
	int64		end;

	if (!IsA(call, FuncExpr) || !find_slice_bounds(call, &start, &nchars) || (!utf8 && pg_database_encoding_max_length() > 1))
		return NULL;
	string = hjg_scan_strip_relabel(linitial(call->args));
	/* char(n) as text has no spaces at its end */
	call = (const FuncExpr *) string;
	slice->padded = IsA(call, FuncExpr) && call->funcid == F_TEXT_BPCHAR;
	if (slice->padded)
		string = hjg_scan_strip_relabel(linitial(call->args));
	end = start + nchars;
	slice->first = Max(start, 1) - 1;
	slice->nchars = end > PG_INT32_MAX ? PG_INT32_MAX : Max(end - Max(start, 1), 0);
	slice->utf8 = utf8;
	return string;
}

struct varlena *
hjg_scan_slice_fetch(struct varlena *value, const HjgSlice *slice)
{
	const int32 nbytes = slice != NULL ? hjg_vector_slice_reach(slice) : -1;

	return nbytes < 0 ? pg_detoast_datum_packed(value) : pg_detoast_datum_slice(value, 0, nbytes);
}
