/*
 * node_recheck.c
 *	  Compares the keys of candidates, a vector of pairs at a time, if keys are not exact.
 *
 * It takes hash clauses that compare columns: as ordinals (vector_operator_pg.c), or byte by byte for types of variable width
 * whose values are equal only if their bytes are (rows_key.c). Only detoasting a value could raise an error, and the value
 * was detoasted before, for its hash. If any clause is of another form, core's expression code evaluates the whole list pair
 * by pair.
 *
 * Pairs are compared before their other columns are gathered. The remaining pairs are like pairs of exact keys, and rows are
 * returned in the same ways, as vectors, too.
 *
 * Rows in a build pass have no NULL in their key columns.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/primnodes.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "node/hjg_probe.h"

/* "column of the outer side = column of the inner side", as payload columns. */
typedef struct RecheckTerm
{
	int			outer;
	int			inner;
	const HjgSimpleOperator *op;	/* NULL: bytes are compared */
} RecheckTerm;

struct HjgRecheck
{
	MemoryContext scratch;		/* detoasted values */
	int			nterms;
	RecheckTerm		terms[FLEXIBLE_ARRAY_MEMBER];
};

/* ---------- set-up ---------- */

/* Find the payload column of a side that an expression is, or -1. */
static int
find_payload(const HjgSide *side, Node *expr)
{
	const Var  *var = (const Var *) hjg_scan_strip_relabel(expr);

	if (!IsA(var, Var) || var->varno != INDEX_VAR)
		return -1;
	for (int c = 0; c < side->payload.n; c++)
		if (side->payload.scan_ix[c] == var->varattno - 1)
			return c;
	return -1;
}

static bool
is_integer_of(const HjgSide *side, int c, int width)
{
	return side->payload.columns[c].attbyval && side->payload.columns[c].attlen == width;
}

static bool
make_recheck_term(const HjgSide *outer, const HjgSide *inner, const OpExpr *clause, RecheckTerm *term)
{
	Oid			function = get_opcode(clause->opno);

	term->outer = find_payload(outer, linitial(clause->args));
	term->inner = find_payload(inner, lsecond(clause->args));
	if (term->outer < 0 || term->inner < 0)
		return false;
	term->op = hjg_vector_simple_operator(function);
	if (term->op == NULL)
		return hjg_rows_key_is_varlena(function);
	return term->op->comparison == HJG_COMPARE_EQ &&
		is_integer_of(outer, term->outer, term->op->left_width) &&
		is_integer_of(inner, term->inner, term->op->right_width);
}

HjgRecheck *
hjg_recheck_create(const HjgSide *outer, const HjgSide *inner, List *hash_clauses)
{
	HjgRecheck *recheck = palloc(offsetof(HjgRecheck, terms) + list_length(hash_clauses) * sizeof(RecheckTerm));
	ListCell   *lc;

	recheck->nterms = 0;
	foreach(lc, hash_clauses)
	{
		if (!make_recheck_term(outer, inner, lfirst_node(OpExpr, lc), &recheck->terms[recheck->nterms++]))
		{
			pfree(recheck);
			return NULL;
		}
	}
	recheck->scratch = AllocSetContextCreate(CurrentMemoryContext, "hjoin_gpu recheck", ALLOCSET_SMALL_SIZES);
	return recheck;
}

/* ---------- pairs ---------- */

/* Gather a column of the batch's rows with these numbers. */
static void
gather_probe(const HjgSide *side, const HjgProbeBatch *batch, int column, const uint32 *rows, int nrows, Datum *values)
{
	const HjgView *view = &batch->view;
	const HjgVector *vector;

	if (!batch->viewed)
	{
		hjg_rows_store_gather_column(batch->rows, column, rows, nrows, values);
		return;
	}
	vector = &view->vectors[side->payload.child_ix[column]];
	for (int i = 0; i < nrows; i++)
		values[i] = hjg_vector_datum(vector, view->rows != NULL ? view->rows[rows[i]] : rows[i]);
}

static inline const struct varlena *
unpacked_value(Datum value)
{
	struct varlena *bytes = (struct varlena *) DatumGetPointer(value);

	if (likely(!VARATT_IS_COMPRESSED(bytes) && !VARATT_IS_EXTERNAL(bytes)))
		return bytes;
	return pg_detoast_datum_packed(bytes);
}

static inline bool
same_bytes(Datum left, Datum right)
{
	const struct varlena *a = unpacked_value(left);
	const struct varlena *b = unpacked_value(right);
	const size_t nbytes = VARSIZE_ANY_EXHDR(a);

	return nbytes == VARSIZE_ANY_EXHDR(b) && memcmp(VARDATA_ANY(a), VARDATA_ANY(b), nbytes) == 0;
}

/* Compare values byte by byte; all are prefetched before the first is read. */
static void
recheck_bytes(HjgRecheck *recheck, const Datum *left, const Datum *right, int nrows, bool *pass)
{
	MemoryContext old = MemoryContextSwitchTo(recheck->scratch);

	for (int i = 0; i < nrows; i++)
	{
		__builtin_prefetch(DatumGetPointer(left[i]));
		__builtin_prefetch(DatumGetPointer(right[i]));
	}
	for (int i = 0; i < nrows; i++)
	{
		pass[i] = pass[i] && same_bytes(left[i], right[i]);
		if (unlikely(!recheck->scratch->isReset))
		{
			CHECK_FOR_INTERRUPTS();
			MemoryContextReset(recheck->scratch);
		}
	}
	MemoryContextSwitchTo(old);
}

static void
recheck_ordinals(const HjgSimpleOperator *op, const Datum *left, const Datum *right, int nrows, bool *pass)
{
	int64		left_ordinals[HJG_VECTOR_ROWS];
	int64		right_ordinals[HJG_VECTOR_ROWS];

	hjg_vector_datum_ordinals(op->ordinal, op->left_width, left, 1, nrows, left_ordinals);
	hjg_vector_datum_ordinals(op->ordinal, op->right_width, right, 1, nrows, right_ordinals);
	hjg_vector_compare_ordinals(HJG_COMPARE_EQ, left_ordinals, right_ordinals, nrows, pass);
}

void
hjg_recheck_pairs(const HjgProbe *probe, const HjgProbeBatch *batch, int npairs)
{
	HjgRecheck *recheck = probe->execution->terms->recheck;
	const HjgPairVector *pairs = probe->pairs;
	bool	   *pass = pairs->pass;
	Datum		left[HJG_VECTOR_ROWS];
	Datum		right[HJG_VECTOR_ROWS];

	memset(pass, true, npairs * sizeof(bool));
	for (int t = 0; t < recheck->nterms; t++)
	{
		const RecheckTerm *term = &recheck->terms[t];

		gather_probe(probe->side, batch, term->outer, pairs->probe, npairs, left);
		hjg_rows_store_gather_column(probe->build->rows, term->inner, pairs->build, npairs, right);
		if (term->op == NULL)
			recheck_bytes(recheck, left, right, npairs, pass);
		else
			recheck_ordinals(term->op, left, right, npairs, pass);
	}
}
