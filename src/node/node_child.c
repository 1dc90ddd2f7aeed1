/*
 * node_child.c
 *	  A child's rows as vectors, for the node GpuAggregate.
 *
 * The vectors of a table or a join are cut into pieces of HJG_VECTOR_ROWS rows, which the vectors of expressions can hold.
 * Rows of slots are copied, as many at a time.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "node/hjg_aggregate.h"
#include "node/hjg_node.h"

/* Rows of slots are copied until they take this much memory. */
#define MOST_COPIED_BYTES (256 * 1024)

/* Make vectors for rows of slots. */
static void
make_row_vectors(HjgChild *child, const Bitmapset *wanted)
{
	TupleDesc	desc = ExecGetResultType(child->plan);

	for (int c = 0; c < child->ncolumns; c++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, c);
		HjgVector  *vector = &child->vectors[c];

		if (!bms_is_member(c, wanted))
			continue;
		vector->column.attlen = att->attlen;
		vector->column.attbyval = att->attbyval;
		vector->values = palloc(HJG_VECTOR_ROWS * sizeof(Datum));
		vector->isnull = palloc(HJG_VECTOR_ROWS * sizeof(bool));
	}
}

void
hjg_child_init(HjgChild *child, PlanState *plan, int ncolumns, const Bitmapset *wanted, MemoryContext work_context)
{
	child->plan = plan;
	child->ncolumns = ncolumns;
	child->work_context = work_context;
	child->vectors = palloc0(Max(ncolumns, 1) * sizeof(HjgVector));
	child->slice = palloc0(Max(ncolumns, 1) * sizeof(HjgVector));
	child->scan = hjg_scan_create(plan, ncolumns, wanted, false, child->vectors, work_context);
	child->below = hjg_chain_create(hjg_node_join(plan), ncolumns, true);
	if (child->below != NULL)
		child->vectors = child->below->vectors;
	else if (child->scan == NULL)
		make_row_vectors(child, wanted);
}

void
hjg_child_take_numbers(HjgChild *child, Bitmapset *columns)
{
	if (child->scan != NULL)
		hjg_scan_take_numbers(child->scan, columns);
	else if (child->below != NULL)
		*child->below->as_numbers = columns;
}

/* Copy a slot's row, with the values by reference, which last only until the next row. */
static void
copy_row(HjgChild *child, TupleTableSlot *slot, int row)
{
	MemoryContext old = MemoryContextSwitchTo(child->work_context);

	slot_getallattrs(slot);
	for (int c = 0; c < child->ncolumns; c++)
	{
		HjgVector  *vector = &child->vectors[c];
		Datum		value = slot->tts_values[c];

		if (vector->values == NULL)
			continue;
		if (!vector->column.attbyval && !slot->tts_isnull[c])
			value = datumCopy(value, false, vector->column.attlen);
		hjg_vector_put(vector, row, value, slot->tts_isnull[c]);
	}
	MemoryContextSwitchTo(old);
}

static int
next_slots(HjgChild *child)
{
	int			n = 0;

	MemoryContextReset(child->work_context);
	while (!child->at_end && n < HJG_VECTOR_ROWS && MemoryContextMemAllocated(child->work_context, false) < MOST_COPIED_BYTES)
	{
		TupleTableSlot *slot = ExecProcNode(child->plan);

		/* a node that is called again after its end may start anew */
		child->at_end = TupIsNull(slot);
		if (!child->at_end)
			copy_row(child, slot, n++);
	}
	return n;
}

static int
next_child_rows(HjgChild *child)
{
	if (child->scan != NULL)
		return hjg_scan_next_rows(child->scan);
	return child->below != NULL ? child->below->next(child->below->arg) : next_slots(child);
}

/* Point the slice at the rows from `first` on. */
static void
cut_slice(HjgChild *child, int first)
{
	for (int c = 0; c < child->ncolumns; c++)
		child->slice[c] = hjg_vector_from(&child->vectors[c], first);
}

int
hjg_child_next(HjgChild *child, int most)
{
	int			n;

	if (child->next == child->nrows)
	{
		child->nrows = next_child_rows(child);
		child->next = 0;
	}
	/* a join without columns, where there is nothing to cut, returns rows in much larger numbers */
	n = Min(child->nrows - child->next, child->ncolumns == 0 ? most : HJG_VECTOR_ROWS);
	cut_slice(child, child->next);
	child->next += n;
	return n;
}

void
hjg_child_return(HjgChild *child, int nrows, int n)
{
	child->next -= nrows - n;
}

void
hjg_child_rescan(HjgChild *child)
{
	child->nrows = child->next = 0;
	child->at_end = false;
	if (child->scan != NULL)
		hjg_scan_reset(child->scan);
	/* with changed parameters the next read of the child rescans it */
	if (child->plan->chgParam == NULL)
		ExecReScan(child->plan);
}
