/*
 * node_pairs.c
 *	  Conditions of a join that compare two columns, for a vector of pairs at a time.
 *
 * The filter takes comparisons of fixed-width columns that come before all other conditions of the join. They raise no error
 * and leak nothing. The conditions after them may, and must not see pairs that these comparisons drop; nor may a comparison
 * drop a pair on which a condition before it would raise an error. Pairs that pass are tested by the other conditions one by
 * one.
 *
 * Both columns are converted to ordinals (hjg_vector.h), which are compared as integers whatever the type; a pair with a NULL
 * never passes.
 */
#include "postgres.h"

#include "nodes/primnodes.h"
#include "utils/lsyscache.h"

#include "node/hjg_emit.h"

/* A comparison of columns (from 0) of the scan tuple. */
typedef struct PairTerm
{
	const HjgSimpleOperator *op;
	int			left;
	int			right;
} PairTerm;

struct HjgPairFilter
{
	int			nterms;
	PairTerm		terms[FLEXIBLE_ARRAY_MEMBER];
};

/* Find the column of the scan tuple that an expression is, if it is passed by value with this width; else -1. */
static int
find_pair_column(Node *expr, TupleDesc scan_desc, int width)
{
	const Var  *var = (const Var *) hjg_scan_strip_relabel(expr);
	Form_pg_attribute att;

	if (!IsA(var, Var) || var->varno != INDEX_VAR || var->varattno <= 0 || var->varattno > scan_desc->natts)
		return -1;
	att = TupleDescAttr(scan_desc, var->varattno - 1);
	return att->attlen == width && att->attbyval ? var->varattno - 1 : -1;
}

static bool
make_term(Node *qual, TupleDesc scan_desc, PairTerm *term)
{
	const OpExpr *expr = (const OpExpr *) qual;

	if (!IsA(expr, OpExpr) || list_length(expr->args) != 2)
		return false;
	term->op = hjg_vector_simple_operator(get_opcode(expr->opno));
	if (term->op == NULL)
		return false;
	term->left = find_pair_column(linitial(expr->args), scan_desc, term->op->left_width);
	term->right = find_pair_column(lsecond(expr->args), scan_desc, term->op->right_width);
	return term->left >= 0 && term->right >= 0;
}

HjgPairFilter *
hjg_pair_filter_create(List *join_qual, TupleDesc scan_desc, List **rest)
{
	HjgPairFilter *filter = palloc(offsetof(HjgPairFilter, terms) + list_length(join_qual) * sizeof(PairTerm));
	ListCell   *lc;

	filter->nterms = 0;
	foreach(lc, join_qual)
	{
		if (!make_term(lfirst(lc), scan_desc, &filter->terms[filter->nterms]))
			break;
		filter->nterms++;
	}
	*rest = list_copy_tail(join_qual, filter->nterms);
	if (filter->nterms > 0)
		return filter;
	pfree(filter);
	return NULL;
}

void
hjg_pair_filter_rows(const HjgPairFilter *filter, const Datum *values, const bool *isnull, int ncolumns,
					 int nrows, bool *pass)
{
	int64		left[HJG_VECTOR_ROWS];
	int64		right[HJG_VECTOR_ROWS];

	memset(pass, true, nrows * sizeof(bool));
	for (int t = 0; t < filter->nterms; t++)
	{
		const PairTerm *term = &filter->terms[t];
		const HjgSimpleOperator *op = term->op;

		hjg_vector_datum_ordinals(op->ordinal, op->left_width, values + term->left, ncolumns, nrows, left);
		hjg_vector_datum_ordinals(op->ordinal, op->right_width, values + term->right, ncolumns, nrows, right);
		hjg_vector_compare_ordinals(op->comparison, left, right, nrows, pass);
		/* ordinals of NULLs are arbitrary */
		for (int i = 0; i < nrows; i++)
			pass[i] &= !isnull[(Size) i * ncolumns + term->left] && !isnull[(Size) i * ncolumns + term->right];
	}
}
