/*
 * node_side.c
 *	  Reads one input: encodes the key of each row of a child, and finds its payload columns.
 *
 * Rows come from the child's slot, from pages that the node reads itself, or from the vectors of a join below, which are
 * treated like a page. All keys of a page are encoded at once; its rows are then returned in runs, which end before a NULL
 * key, or one by one.
 */
#include "postgres.h"

#include "access/tupdesc.h"
#include "executor/executor.h"
#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/memutils.h"

#include "node/hjg_execution.h"
#include "node/hjg_side.h"

/* Find the child's column (from 0) that a key expression is, or -1. */
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

	side->keys.codec = codec;
	side->keys.n = list_length(key_exprs);
	side->keys.ix = palloc(side->keys.n * sizeof(int));
	side->keys.exprs = palloc0(side->keys.n * sizeof(ExprState *));
	side->keys.values = palloc(side->keys.n * sizeof(Datum));
	side->keys.isnull = palloc(side->keys.n * sizeof(bool));
	side->keys.plain = codec->exact;
	foreach(lc, key_exprs)
	{
		Expr	   *expr = lfirst(lc);

		side->keys.ix[i] = key_column(side, expr);
		if (side->keys.ix[i] < 0)
		{
			side->keys.exprs[i] = ExecInitExpr(expr, &node->ss.ps);
			side->keys.plain = false;
			have_exprs = true;
			/* the expression may read any column */
			side->last_column = side->nplan_columns;
		}
		else
			side->last_column = Max(side->last_column, side->keys.ix[i] + 1);
		i++;
	}
	if (!side->keys.plain)
		side->keys.econtext = CreateExprContext(node->ss.ps.state);
	if (have_exprs)
		side->keys.slot = ExecInitExtraTupleSlot(node->ss.ps.state, node->ss.ss_ScanTupleSlot->tts_tupleDescriptor,
												&TTSOpsVirtual);
}

/* Find the child's columns that no key needs. */
static Bitmapset *
find_payload_only(const HjgSide *side)
{
	Bitmapset  *columns = NULL;

	if (side->keys.slot != NULL)
		return NULL;
	for (int c = 0; c < side->payload.n; c++)
		columns = bms_add_member(columns, side->payload.child_ix[c]);
	for (int i = 0; i < side->keys.n; i++)
		columns = bms_del_member(columns, side->keys.ix[i]);
	return columns;
}

/* Prepare to read the child's rows as vectors, if it is a scan or a join that allows it. */
static void
init_vectors(HjgSide *side)
{
	int			ncolumns = Max(side->nplan_columns, 1);
	Bitmapset  *wanted = NULL;

	side->page.vectors = palloc0(ncolumns * sizeof(HjgVector));
	if (side->keys.slot != NULL)
		wanted = bms_add_range(wanted, 0, side->nplan_columns - 1);
	for (int i = 0; i < side->keys.n; i++)
		if (side->keys.ix[i] >= 0)
			wanted = bms_add_member(wanted, side->keys.ix[i]);
	for (int c = 0; c < side->payload.n; c++)
		wanted = bms_add_member(wanted, side->payload.child_ix[c]);
	side->scan = hjg_scan_create(side->plan, side->nplan_columns, wanted, true, side->page.vectors, side->work_context);
	bms_free(wanted);
	if (side->below != NULL)
	{
		side->page.vectors = side->below->vectors;
		*side->below->as_numbers = find_payload_only(side);
	}
	else if (side->scan != NULL)
		hjg_scan_take_numbers(side->scan, find_payload_only(side));
	else
		return;
	side->page.row_values = palloc0(ncolumns * sizeof(Datum));
	side->page.row_isnull = palloc(ncolumns * sizeof(bool));
	side->page.row_numerics = palloc(ncolumns * sizeof(HjgNumericSpace));
	memset(side->page.row_isnull, true, ncolumns * sizeof(bool));
}

/* used: scan tuple columns (from 0) that are read after the keys are compared. The side owns the codec from now on. */
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

	side->payload.columns = palloc(Max(nplan_columns, 1) * sizeof(HjgColumn));
	side->payload.scan_ix = palloc(Max(nplan_columns, 1) * sizeof(int));
	side->payload.child_ix = palloc(Max(nplan_columns, 1) * sizeof(int));
	side->payload.identity = palloc(Max(nplan_columns, 1) * sizeof(int));
	for (int i = 0; i < nplan_columns; i++)
	{
		Form_pg_attribute att = TupleDescAttr(scan_desc, first_scan_ix + i);
		int			c = side->payload.n;

		if (!bms_is_member(first_scan_ix + i, used))
			continue;
		side->payload.columns[c].attlen = att->attlen;
		side->payload.columns[c].attbyval = att->attbyval;
		side->payload.columns[c].inline_bytes = att->attlen == -1 ? list_nth_int(inline_bytes, first_scan_ix + i) : 0;
		side->payload.scan_ix[c] = first_scan_ix + i;
		side->payload.child_ix[c] = i;
		side->payload.identity[c] = c;
		side->last_column = Max(side->last_column, i + 1);
		side->payload.n++;
	}

	side->payload.desc = CreateTemplateTupleDesc(side->payload.n);
	for (int c = 0; c < side->payload.n; c++)
		TupleDescCopyEntry(side->payload.desc, c + 1, scan_desc, side->payload.scan_ix[c] + 1);
	side->payload.slot = ExecInitExtraTupleSlot(node->ss.ps.state, side->payload.desc, &TTSOpsMinimalTuple);
	init_vectors(side);
}

/* Encode the key of a row of the child, in a slot's arrays or in row_values and row_isnull; false if the key has a NULL. */
static bool
encode_row_key(HjgSide *side, const Datum *values, const bool *isnull, void *dst)
{
	ExprContext *econtext = side->keys.econtext;
	MemoryContext old = CurrentMemoryContext;
	bool		have_key;

	if (side->keys.n == 1 && side->keys.plain)
		return hjg_rows_key_encode(side->keys.codec, &values[side->keys.ix[0]], &isnull[side->keys.ix[0]], dst);

	if (econtext != NULL)
	{
		ResetExprContext(econtext);
		MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	}
	if (side->keys.slot != NULL)
	{
		/* key expressions see a scan tuple with this side's columns */
		TupleTableSlot *slot = side->keys.slot;

		ExecClearTuple(slot);
		memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts * sizeof(bool));
		memcpy(slot->tts_values + side->first_scan_ix, values, side->nplan_columns * sizeof(Datum));
		memcpy(slot->tts_isnull + side->first_scan_ix, isnull, side->nplan_columns * sizeof(bool));
		ExecStoreVirtualTuple(slot);
		econtext->ecxt_scantuple = slot;
	}
	for (int i = 0; i < side->keys.n; i++)
	{
		if (side->keys.ix[i] < 0)
			side->keys.values[i] = ExecEvalExpr(side->keys.exprs[i], econtext, &side->keys.isnull[i]);
		else
		{
			side->keys.values[i] = values[side->keys.ix[i]];
			side->keys.isnull[i] = isnull[side->keys.ix[i]];
		}
	}
	have_key = hjg_rows_key_encode(side->keys.codec, side->keys.values, side->keys.isnull, dst);
	MemoryContextSwitchTo(old);
	return have_key;
}

/* ---------- sizes ---------- */

size_t
hjg_side_stored_bytes(const HjgSide *side)
{
	size_t		bytes = 1;

	for (int c = 0; c < side->payload.n; c++)
		bytes += 1 + (side->payload.columns[c].attlen > 0 ? side->payload.columns[c].attlen :
					  Max((int) sizeof(char *), side->payload.columns[c].inline_bytes));
	return bytes;
}

double
hjg_side_chunk_rows(const HjgSide *side, double rows)
{
	double		most = get_hash_memory_limit() / 32 / hjg_side_stored_bytes(side);

	return Max(Min(rows, most), 1);
}

/* ---------- rows of a page ---------- */

/* Put row i of the page into row_values and row_isnull. */
static void
load_page_row(HjgSide *side, int i)
{
	for (int c = 0; c < side->nplan_columns; c++)
	{
		const HjgVector *vector = &side->page.vectors[c];

		if (vector->values == NULL)
			continue;
		side->page.row_isnull[c] = hjg_vector_isnull(vector, i);
		side->page.row_values[c] = side->page.row_isnull[c] ? (Datum) 0 : hjg_vector_datum_in(vector, i, &side->page.row_numerics[c]);
	}
}

/* Allocate the arrays for a page's rows. */
static void
make_page_space(HjgSide *side)
{
	MemoryContext context = side->work_context;
	const int	max_rows = side->scan != NULL ? hjg_scan_max_rows(side->scan) : HJG_VECTOR_ROWS;

	side->page.key_space = MemoryContextAlloc(context, max_rows * side->keys.codec->key_width);
	side->page.isnull = MemoryContextAlloc(context, max_rows * sizeof(bool));
	side->page.view_rows = MemoryContextAlloc(context, max_rows * sizeof(uint16));
	side->page.view_null_rows = MemoryContextAlloc(context, max_rows * sizeof(uint16));
}

static void
encode_page_keys(HjgSide *side)
{
	const HjgVector *only = side->keys.ix[0] >= 0 ? &side->page.vectors[side->keys.ix[0]] : NULL;

	if (only != NULL && hjg_rows_key_is_vector(side->keys.codec, &only->column))
	{
		side->page.keys = only->values;
		side->page.has_nulls = only->has_nulls;
		if (only->has_nulls)
			memcpy(side->page.isnull, only->isnull, side->page.nrows * sizeof(bool));
		return;
	}
	side->page.keys = side->page.key_space;
	if (side->keys.slot == NULL)
	{
		side->page.has_nulls = hjg_rows_key_encode_vectors(side->keys.codec, side->keys.ix, side->page.vectors, side->page.nrows,
														   side->keys.econtext != NULL ? side->keys.econtext->ecxt_per_tuple_memory : NULL,
														   side->page.key_space, side->page.isnull);
		return;
	}
	side->page.has_nulls = true;
	for (int i = 0; i < side->page.nrows; i++)
	{
		load_page_row(side, i);
		side->page.isnull[i] = !encode_row_key(side, side->page.row_values, side->page.row_isnull,
											   side->page.key_space + (size_t) i * side->keys.codec->key_width);
	}
}

/* Make sure that the page has an untaken row; false at the end of the child. */
static inline bool
have_page_row(HjgSide *side)
{
	if (likely(side->page.next < side->page.nrows))
		return true;
	side->page.next = 0;
	side->page.nrows = side->scan != NULL ? hjg_scan_next_rows(side->scan) : side->below->next(side->below->arg);
	if (side->page.nrows == 0)
		return false;
	if (side->page.view_null_rows == NULL)
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
	n = Min(max, side->page.nrows - side->page.next);
	/* a page's rows are together no larger than the page; rows of a join below may have any size */
	if (side->below != NULL)
		n = hjg_vector_rows_within(side->page.vectors, side->payload.n, side->payload.child_ix, side->page.next, n,
								   get_hash_memory_limit() / 64);
	if (side->page.has_nulls)
	{
		const bool *isnull = memchr(side->page.isnull + side->page.next, 1, n);

		if (isnull != NULL)
			n = isnull - (side->page.isnull + side->page.next);
	}
	*keys = side->page.keys + (size_t) side->page.next * side->keys.codec->key_width;
	*first = side->page.next;
	side->page.next += n;
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
	int			width = side->keys.codec->key_width;

	if (!have_page_row(side))
		return false;
	if (side->kept != NULL)
		hjg_verify_keep_vectors(side, side->page.next, side->page.nrows - side->page.next);
	view->vectors = side->page.vectors;
	view->null_rows = side->page.view_null_rows;
	view->nnull_rows = 0;
	if (side->page.next == 0 && !side->page.has_nulls)
	{
		view->keys = side->page.keys;
		view->nrows = side->page.nrows;
		view->rows = NULL;
		side->page.next = side->page.nrows;
		return true;
	}

	/* copy the keys together */
	view->keys = side->page.key_space;
	view->nrows = 0;
	view->rows = side->page.view_rows;
	for (; side->page.next < side->page.nrows; side->page.next++)
	{
		int			i = side->page.next;

		if (side->page.has_nulls && side->page.isnull[i])
			side->page.view_null_rows[view->nnull_rows++] = i;
		else
		{
			memmove(side->page.key_space + (size_t) view->nrows * width, side->page.keys + (size_t) i * width, width);
			side->page.view_rows[view->nrows++] = i;
		}
	}
	return true;
}

void
hjg_side_narrow_view(HjgSide *side, HjgView *view, const uint16 *rows, int n)
{
	const int	width = side->keys.codec->key_width;

	/* rows[i] >= i: no key is overwritten before it is read */
	for (int i = 0; i < n; i++)
	{
		memmove(side->page.key_space + (size_t) i * width, view->keys + (size_t) rows[i] * width, width);
		side->page.view_rows[i] = view->rows != NULL ? view->rows[rows[i]] : rows[i];
	}
	view->keys = side->page.key_space;
	view->rows = side->page.view_rows;
	view->nrows = n;
}

void
hjg_side_rescan(HjgSide *side)
{
	side->page.nrows = side->page.next = 0;
	if (side->scan != NULL)
		hjg_scan_reset(side->scan);
	side->peeked = NULL;
	/* with changed parameters the next read of the child rescans it */
	if (side->plan->chgParam == NULL)
		ExecReScan(side->plan);
}

void
hjg_side_forget(HjgSide *side)
{
	side->page.nrows = side->page.next = 0;
	side->page.key_space = NULL;
	side->page.isnull = NULL;
	side->page.view_rows = NULL;
	side->page.view_null_rows = NULL;
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
	i = side->page.next++;
	load_page_row(side, i);
	row->values = side->page.row_values;
	row->isnull = side->page.row_isnull;
	row->source = side->payload.child_ix;
	row->key = side->page.has_nulls && side->page.isnull[i] ? NULL :
		side->page.keys + (size_t) i * side->keys.codec->key_width;
	return true;
}

bool
hjg_side_peek(HjgSide *side)
{
	if (side->scan != NULL)
		return side->page.next < side->page.nrows || hjg_scan_peek(side->scan);
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
	row->source = side->payload.child_ix;
	if (side->kept != NULL)
		hjg_verify_keep_row(side, row->values, row->isnull);
	row->key = encode_row_key(side, slot->tts_values, slot->tts_isnull, row->key_space) ? row->key_space : NULL;
	return true;
}

bool
hjg_side_next_spilled(HjgSide *side, HjgSpill *spill, HjgRow *row)
{
	if (!hjg_rows_spill_read(spill, &row->key, side->payload.slot))
		return false;
	row->values = side->payload.slot->tts_values;
	row->isnull = side->payload.slot->tts_isnull;
	row->source = side->payload.identity;
	return true;
}

/*
 * Get the payload columns of a row, in the order of payload.desc. They are valid until the next row is read or the next call.
 */
void
hjg_side_payload(HjgSide *side, const HjgRow *row, const Datum **values, const bool **isnull)
{
	TupleTableSlot *slot = side->payload.slot;

	*values = row->values;
	*isnull = row->isnull;
	if (row->source == side->payload.identity)
		return;
	/* the payload slot's arrays are free while rows come from the child */
	ExecClearTuple(slot);
	for (int c = 0; c < side->payload.n; c++)
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

	hjg_side_payload(side, row, &values, &isnull);
	hjg_rows_spill_write(spill, row->key, values, isnull);
}
