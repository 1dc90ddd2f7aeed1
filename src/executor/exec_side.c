/*
 * exec_side.c
 *	  Reading one input: a child's row becomes an encoded key and the values of
 *	  its carried columns.
 *
 * Rows come from the child's slot, from a page that the node reads itself, or from the
 * vectors of a join below, which are taken like a page.  A page's keys are encoded all at once; its rows are then taken in runs, which end before
 * a NULL key, or one by one.
 */
#include "postgres.h"

#include "access/tupdesc.h"
#include "executor/executor.h"
#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/memutils.h"

#include "executor/hjg_executor.h"
#include "executor/hjg_side.h"

/* The child's column (from 0) that a key expression is, or -1. */
static int
key_column(const HjgSide *side, Expr *expr)
{
	Var		   *var;

	while (IsA(expr, RelabelType))
		expr = ((RelabelType *) expr)->arg;
	if (!IsA(expr, Var))
		return -1;
	var = (Var *) expr;
	if (var->varno != INDEX_VAR || var->varattno <= side->first_scan_ix ||
		var->varattno > side->first_scan_ix + side->nplan_columns)
		elog(ERROR, "hash key refers to a column of the other side");
	return var->varattno - 1 - side->first_scan_ix;
}

static void
init_keys(HjgSide *side, CustomScanState *node, List *key_exprs, HjgKeyCodec *codec)
{
	bool		have_exprs = false;
	ListCell   *lc;
	int			i = 0;

	side->codec = codec;
	side->nkeys = list_length(key_exprs);
	side->key_ix = palloc(side->nkeys * sizeof(int));
	side->key_exprs = palloc0(side->nkeys * sizeof(ExprState *));
	side->key_values = palloc(side->nkeys * sizeof(Datum));
	side->key_isnull = palloc(side->nkeys * sizeof(bool));
	side->keys_plain = codec->exact;
	foreach(lc, key_exprs)
	{
		Expr	   *expr = lfirst(lc);

		side->key_ix[i] = key_column(side, expr);
		if (side->key_ix[i] < 0)
		{
			side->key_exprs[i] = ExecInitExpr(expr, &node->ss.ps);
			side->keys_plain = false;
			have_exprs = true;
			/* the expression may look at any column */
			side->last_column = side->nplan_columns;
		}
		else
			side->last_column = Max(side->last_column, side->key_ix[i] + 1);
		i++;
	}
	if (!side->keys_plain)
		side->econtext = CreateExprContext(node->ss.ps.state);
	if (have_exprs)
		side->key_slot = ExecInitExtraTupleSlot(node->ss.ps.state, node->ss.ss_ScanTupleSlot->tts_tupleDescriptor,
												&TTSOpsVirtual);
}

/* Read the child's rows as vectors, if it is a scan or a join that allows it. */
static void
init_vectors(HjgSide *side)
{
	int			ncolumns = Max(side->nplan_columns, 1);
	Bitmapset  *wanted = NULL;

	side->vectors = palloc0(ncolumns * sizeof(HjgVector));
	if (side->key_slot != NULL)
		wanted = bms_add_range(wanted, 0, side->nplan_columns - 1);
	for (int i = 0; i < side->nkeys; i++)
		if (side->key_ix[i] >= 0)
			wanted = bms_add_member(wanted, side->key_ix[i]);
	for (int c = 0; c < side->ncarried; c++)
		wanted = bms_add_member(wanted, side->child_ix[c]);
	side->scan = hjg_scan_create(side->plan, side->nplan_columns, wanted, side->vectors, side->work_context);
	bms_free(wanted);
	if (side->below != NULL)
		side->vectors = side->below->vectors;
	else if (side->scan == NULL)
		return;
	side->row_values = palloc0(ncolumns * sizeof(Datum));
	side->row_isnull = palloc(ncolumns * sizeof(bool));
	memset(side->row_isnull, true, ncolumns * sizeof(bool));
}

/*
 * used: scan tuple columns (from 0) that something above the key comparison reads.
 * The codec becomes the side's.
 */
void
hjg_side_init(HjgSide *side, CustomScanState *node, MemoryContext work_context, PlanState *plan,
			  const HjgVectorSource *below, int first_scan_ix, int nplan_columns, List *key_exprs, HjgKeyCodec *codec,
			  Bitmapset *used)
{
	List	   *inline_bytes = list_nth(castNode(CustomScan, node->ss.ps.plan)->custom_private, HJG_PRIVATE_INLINE_BYTES);
	TupleDesc	scan_desc = node->ss.ss_ScanTupleSlot->tts_tupleDescriptor;

	side->plan = plan;
	side->below = below;
	side->work_context = work_context;
	side->first_scan_ix = first_scan_ix;
	side->nplan_columns = nplan_columns;
	init_keys(side, node, key_exprs, codec);

	side->columns = palloc(Max(nplan_columns, 1) * sizeof(HjgColumn));
	side->scan_ix = palloc(Max(nplan_columns, 1) * sizeof(int));
	side->child_ix = palloc(Max(nplan_columns, 1) * sizeof(int));
	side->identity = palloc(Max(nplan_columns, 1) * sizeof(int));
	for (int i = 0; i < nplan_columns; i++)
	{
		Form_pg_attribute att = TupleDescAttr(scan_desc, first_scan_ix + i);
		int			c = side->ncarried;

		if (!bms_is_member(first_scan_ix + i, used))
			continue;
		side->columns[c].attlen = att->attlen;
		side->columns[c].attbyval = att->attbyval;
		side->columns[c].inline_bytes = att->attlen == -1 ? list_nth_int(inline_bytes, first_scan_ix + i) : 0;
		side->scan_ix[c] = first_scan_ix + i;
		side->child_ix[c] = i;
		side->identity[c] = c;
		side->last_column = Max(side->last_column, i + 1);
		side->ncarried++;
	}

	side->spill_desc = CreateTemplateTupleDesc(side->ncarried);
	for (int c = 0; c < side->ncarried; c++)
		TupleDescCopyEntry(side->spill_desc, c + 1, scan_desc, side->scan_ix[c] + 1);
	side->spill_slot = ExecInitExtraTupleSlot(node->ss.ps.state, side->spill_desc, &TTSOpsMinimalTuple);
	init_vectors(side);
}

/*
 * Encode the key of a row of the child: of a slot's arrays, or of row_values and
 * row_isnull.  Returns false if it has a NULL in it.
 */
static bool
encode_row_key(HjgSide *side, const Datum *values, const bool *isnull, void *dst)
{
	ExprContext *econtext = side->econtext;
	MemoryContext old = CurrentMemoryContext;
	bool		have_key;

	if (side->nkeys == 1 && side->keys_plain)
		return hjg_key_encode(side->codec, &values[side->key_ix[0]], &isnull[side->key_ix[0]], dst);

	if (econtext != NULL)
	{
		ResetExprContext(econtext);
		MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	}
	if (side->key_slot != NULL)
	{
		/* key expressions see a scan tuple with this side's columns */
		TupleTableSlot *slot = side->key_slot;

		ExecClearTuple(slot);
		memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts * sizeof(bool));
		memcpy(slot->tts_values + side->first_scan_ix, values, side->nplan_columns * sizeof(Datum));
		memcpy(slot->tts_isnull + side->first_scan_ix, isnull, side->nplan_columns * sizeof(bool));
		ExecStoreVirtualTuple(slot);
		econtext->ecxt_scantuple = slot;
	}
	for (int i = 0; i < side->nkeys; i++)
	{
		if (side->key_ix[i] < 0)
			side->key_values[i] = ExecEvalExpr(side->key_exprs[i], econtext, &side->key_isnull[i]);
		else
		{
			side->key_values[i] = values[side->key_ix[i]];
			side->key_isnull[i] = isnull[side->key_ix[i]];
		}
	}
	have_key = hjg_key_encode(side->codec, side->key_values, side->key_isnull, dst);
	MemoryContextSwitchTo(old);
	return have_key;
}

/* ---------- sizes ---------- */

size_t
hjg_side_stored_bytes(const HjgSide *side)
{
	size_t		bytes = 1;

	for (int c = 0; c < side->ncarried; c++)
		bytes += 1 + (side->columns[c].attlen > 0 ? side->columns[c].attlen :
					  Max((int) sizeof(char *), side->columns[c].inline_bytes));
	return bytes;
}

double
hjg_side_chunk_rows(const HjgSide *side, double rows)
{
	double		most = get_hash_memory_limit() / 32 / hjg_side_stored_bytes(side);

	return Max(Min(rows, most), 1);
}

/* ---------- rows of a page that the node reads itself ---------- */

/* Put row i of the page into row_values and row_isnull. */
static void
load_page_row(HjgSide *side, int i)
{
	for (int c = 0; c < side->nplan_columns; c++)
	{
		const HjgVector *vector = &side->vectors[c];

		if (vector->values == NULL)
			continue;
		side->row_isnull[c] = hjg_vector_isnull(vector, i);
		side->row_values[c] = side->row_isnull[c] ? (Datum) 0 : hjg_vector_datum(vector, i);
	}
}

/* For what is made of a page's rows. */
static void
make_page_space(HjgSide *side)
{
	MemoryContext context = side->work_context;
	const int	max_rows = side->scan != NULL ? hjg_scan_max_rows(side->scan) : HJG_VECTOR_ROWS;

	side->key_space = MemoryContextAlloc(context, max_rows * side->codec->key_width);
	side->page_isnull = MemoryContextAlloc(context, max_rows * sizeof(bool));
	side->view_rows = MemoryContextAlloc(context, max_rows * sizeof(uint16));
	side->view_null_rows = MemoryContextAlloc(context, max_rows * sizeof(uint16));
}

static void
encode_page_keys(HjgSide *side)
{
	const HjgVector *only = side->key_ix[0] >= 0 ? &side->vectors[side->key_ix[0]] : NULL;

	if (only != NULL && hjg_key_is_vector(side->codec, &only->column))
	{
		side->page_keys = only->values;
		side->page_has_nulls = only->has_nulls;
		if (only->has_nulls)
			memcpy(side->page_isnull, only->isnull, side->page_rows * sizeof(bool));
		return;
	}
	side->page_keys = side->key_space;
	if (side->key_slot == NULL)
	{
		side->page_has_nulls = hjg_key_encode_vectors(side->codec, side->key_ix, side->vectors, side->page_rows,
													  side->econtext != NULL ? side->econtext->ecxt_per_tuple_memory : NULL,
													  side->key_space, side->page_isnull);
		return;
	}
	side->page_has_nulls = true;
	for (int i = 0; i < side->page_rows; i++)
	{
		load_page_row(side, i);
		side->page_isnull[i] = !encode_row_key(side, side->row_values, side->row_isnull,
											   side->key_space + (size_t) i * side->codec->key_width);
	}
}

/* Have an untaken row of a page at hand; false at the end of the child. */
static inline bool
have_page_row(HjgSide *side)
{
	if (likely(side->page_next < side->page_rows))
		return true;
	side->page_next = 0;
	side->page_rows = side->scan != NULL ? hjg_scan_next_rows(side->scan) : side->below->next(side->below->arg);
	if (side->page_rows == 0)
		return false;
	if (side->view_null_rows == NULL)
		make_page_space(side);
	encode_page_keys(side);
	return true;
}

int
hjg_side_next_vectors(HjgSide *side, int max, const char **keys, int *first)
{
	int			n;

	if (!hjg_side_has_vectors(side) || !have_page_row(side))
		return 0;
	n = Min(max, side->page_rows - side->page_next);
	/* a page's rows are as wide as a page; those of a join below can be of any width */
	if (side->below != NULL)
		n = hjg_vector_rows_within(side->vectors, side->ncarried, side->child_ix, side->page_next, n,
								   get_hash_memory_limit() / 64);
	if (side->page_has_nulls)
	{
		const bool *isnull = memchr(side->page_isnull + side->page_next, 1, n);

		if (isnull != NULL)
			n = isnull - (side->page_isnull + side->page_next);
	}
	*keys = side->page_keys + (size_t) side->page_next * side->codec->key_width;
	*first = side->page_next;
	side->page_next += n;
	if (side->kept != NULL)
		hjg_verify_keep_vectors(side, *first, n);
	return n;
}

bool
hjg_side_has_vectors(const HjgSide *side)
{
	return side->scan != NULL || side->below != NULL;
}

bool
hjg_side_next_view(HjgSide *side, HjgView *view)
{
	int			width = side->codec->key_width;

	if (!have_page_row(side))
		return false;
	if (side->kept != NULL)
		hjg_verify_keep_vectors(side, side->page_next, side->page_rows - side->page_next);
	view->vectors = side->vectors;
	view->null_rows = side->view_null_rows;
	view->nnull_rows = 0;
	if (side->page_next == 0 && !side->page_has_nulls)
	{
		view->keys = side->page_keys;
		view->nrows = side->page_rows;
		view->rows = NULL;
		side->page_next = side->page_rows;
		return true;
	}

	/* close the keys up */
	view->keys = side->key_space;
	view->nrows = 0;
	view->rows = side->view_rows;
	for (; side->page_next < side->page_rows; side->page_next++)
	{
		int			i = side->page_next;

		if (side->page_has_nulls && side->page_isnull[i])
			side->view_null_rows[view->nnull_rows++] = i;
		else
		{
			memmove(side->key_space + (size_t) view->nrows * width, side->page_keys + (size_t) i * width, width);
			side->view_rows[view->nrows++] = i;
		}
	}
	return true;
}

void
hjg_side_narrow_view(HjgSide *side, HjgView *view, const uint16 *rows, int n)
{
	const int	width = side->codec->key_width;

	/* rows[i] >= i: what is still to be read is not written to */
	for (int i = 0; i < n; i++)
	{
		memmove(side->key_space + (size_t) i * width, view->keys + (size_t) rows[i] * width, width);
		side->view_rows[i] = view->rows != NULL ? view->rows[rows[i]] : rows[i];
	}
	view->keys = side->key_space;
	view->rows = side->view_rows;
	view->nrows = n;
}

void
hjg_side_rescan(HjgSide *side)
{
	side->page_rows = side->page_next = 0;
	if (side->scan != NULL)
		hjg_scan_reset(side->scan);
	side->peeked = NULL;
	/* with parameters changed, whoever reads the child next rescans it */
	if (side->plan->chgParam == NULL)
		ExecReScan(side->plan);
}

void
hjg_side_forget(HjgSide *side)
{
	side->page_rows = side->page_next = 0;
	side->key_space = NULL;
	side->page_isnull = NULL;
	side->view_rows = NULL;
	side->view_null_rows = NULL;
	if (side->scan != NULL)
		hjg_scan_forget(side->scan);
}

/* ---------- row by row ---------- */

static bool
next_page_row(HjgSide *side, HjgRow *row)
{
	int			i;

	if (!have_page_row(side))
		return false;
	i = side->page_next++;
	load_page_row(side, i);
	row->values = side->row_values;
	row->isnull = side->row_isnull;
	row->source = side->child_ix;
	row->key = side->page_has_nulls && side->page_isnull[i] ? NULL :
		side->page_keys + (size_t) i * side->codec->key_width;
	return true;
}

bool
hjg_side_peek(HjgSide *side)
{
	if (side->scan != NULL)
		return side->page_next < side->page_rows || hjg_scan_peek(side->scan);
	if (hjg_side_has_vectors(side))
		return have_page_row(side);
	if (side->peeked == NULL)
		side->peeked = ExecProcNode(side->plan);
	if (!TupIsNull(side->peeked))
		return true;
	side->peeked = NULL;
	return false;
}

bool
hjg_side_next(HjgSide *side, HjgRow *row)
{
	TupleTableSlot *slot;

	if (hjg_side_has_vectors(side))
	{
		if (!next_page_row(side, row))
			return false;
		if (side->kept != NULL)
			hjg_verify_keep_row(side, row->values, row->isnull);
		return true;
	}
	slot = side->peeked != NULL ? side->peeked : ExecProcNode(side->plan);
	side->peeked = NULL;
	if (TupIsNull(slot))
		return false;
	slot_getsomeattrs(slot, side->last_column);
	row->values = slot->tts_values;
	row->isnull = slot->tts_isnull;
	row->source = side->child_ix;
	if (side->kept != NULL)
		hjg_verify_keep_row(side, row->values, row->isnull);
	row->key = encode_row_key(side, slot->tts_values, slot->tts_isnull, row->key_space) ? row->key_space : NULL;
	return true;
}

bool
hjg_side_next_spilled(HjgSide *side, HjgSpill *spill, HjgRow *row)
{
	if (!hjg_spill_read(spill, &row->key, side->spill_slot))
		return false;
	row->values = side->spill_slot->tts_values;
	row->isnull = side->spill_slot->tts_isnull;
	row->source = side->identity;
	return true;
}

/*
 * The carried columns of a row side by side, as spill_desc has them.  Valid until
 * the next row is read or another one asked for.
 */
void
hjg_side_carried(HjgSide *side, const HjgRow *row, const Datum **values, const bool **isnull)
{
	TupleTableSlot *slot = side->spill_slot;

	*values = row->values;
	*isnull = row->isnull;
	if (row->source == side->identity)
		return;
	/* the spill slot's arrays are free while rows come from the child */
	ExecClearTuple(slot);
	for (int c = 0; c < side->ncarried; c++)
	{
		slot->tts_values[c] = row->values[row->source[c]];
		slot->tts_isnull[c] = row->isnull[row->source[c]];
	}
	*values = slot->tts_values;
	*isnull = slot->tts_isnull;
}

void
hjg_side_spill(HjgSide *side, HjgSpill *spill, const HjgRow *row)
{
	const Datum *values;
	const bool *isnull;

	hjg_side_carried(side, row, &values, &isnull);
	hjg_spill_write(spill, row->key, values, isnull);
}
