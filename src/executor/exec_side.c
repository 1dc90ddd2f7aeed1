/*
 * exec_side.c
 *	  Reading one input: a child's row becomes an encoded key and the values of
 *	  its carried columns.
 */
#include "postgres.h"

#include "access/tupdesc.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "utils/memutils.h"

#include "executor/hjg_executor.h"

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
init_keys(HjgJoinState *state, HjgSide *side, List *key_exprs, HjgKeyCodec *codec)
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
			side->key_exprs[i] = ExecInitExpr(expr, &state->css.ss.ps);
			side->keys_plain = false;
			have_exprs = true;
			/* the expression may look at any column */
			side->last_column = side->nplan_columns;
		}
		else
			side->last_column = Max(side->last_column, side->key_ix[i] + 1);
		i++;
	}
	if (have_exprs)
		side->key_slot = ExecInitExtraTupleSlot(state->css.ss.ps.state,
												state->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor,
												&TTSOpsVirtual);
}

/*
 * used: scan tuple columns (from 0) that something above the key comparison reads.
 * The codec becomes the side's.
 */
void
hjg_side_init(HjgJoinState *state, HjgSide *side, PlanState *plan, int first_scan_ix, int nplan_columns,
			  List *key_exprs, HjgKeyCodec *codec, Bitmapset *used)
{
	EState	   *estate = state->css.ss.ps.state;
	TupleDesc	scan_desc = state->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor;

	side->plan = plan;
	side->econtext = CreateExprContext(estate);
	side->first_scan_ix = first_scan_ix;
	side->nplan_columns = nplan_columns;
	init_keys(state, side, key_exprs, codec);

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
		side->scan_ix[c] = first_scan_ix + i;
		side->child_ix[c] = i;
		side->identity[c] = c;
		side->last_column = Max(side->last_column, i + 1);
		side->ncarried++;
	}

	side->spill_desc = CreateTemplateTupleDesc(side->ncarried);
	for (int c = 0; c < side->ncarried; c++)
		TupleDescCopyEntry(side->spill_desc, c + 1, scan_desc, side->scan_ix[c] + 1);
	side->spill_slot = ExecInitExtraTupleSlot(estate, side->spill_desc, &TTSOpsMinimalTuple);
}

/* Key expressions see a scan tuple with this side's columns. */
static void
fill_key_slot(HjgSide *side, TupleTableSlot *child)
{
	TupleTableSlot *slot = side->key_slot;
	int			natts = slot->tts_tupleDescriptor->natts;

	ExecClearTuple(slot);
	memset(slot->tts_isnull, true, natts * sizeof(bool));
	memcpy(slot->tts_values + side->first_scan_ix, child->tts_values, side->nplan_columns * sizeof(Datum));
	memcpy(slot->tts_isnull + side->first_scan_ix, child->tts_isnull, side->nplan_columns * sizeof(bool));
	ExecStoreVirtualTuple(slot);
}

bool
hjg_side_next(HjgJoinState *state, HjgSide *side, HjgRow *row)
{
	TupleTableSlot *slot = ExecProcNode(side->plan);
	ExprContext *econtext = side->econtext;
	bool		have_key;

	if (TupIsNull(slot))
		return false;
	slot_getsomeattrs(slot, side->last_column);
	row->values = slot->tts_values;
	row->isnull = slot->tts_isnull;
	row->source = side->child_ix;

	if (side->nkeys == 1 && side->keys_plain)
		have_key = hjg_key_encode(side->codec, &slot->tts_values[side->key_ix[0]],
								  &slot->tts_isnull[side->key_ix[0]], row->key_space);
	else
	{
		MemoryContext old;

		ResetExprContext(econtext);
		old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
		if (side->key_slot != NULL)
		{
			fill_key_slot(side, slot);
			econtext->ecxt_scantuple = side->key_slot;
		}
		for (int i = 0; i < side->nkeys; i++)
		{
			if (side->key_ix[i] < 0)
				side->key_values[i] = ExecEvalExpr(side->key_exprs[i], econtext, &side->key_isnull[i]);
			else
			{
				side->key_values[i] = slot->tts_values[side->key_ix[i]];
				side->key_isnull[i] = slot->tts_isnull[side->key_ix[i]];
			}
		}
		have_key = hjg_key_encode(side->codec, side->key_values, side->key_isnull, row->key_space);
		MemoryContextSwitchTo(old);
	}
	row->key = have_key ? row->key_space : NULL;
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
