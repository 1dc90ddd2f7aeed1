/*
 * scan_heap_reader.c
 *	  Makes a reader of heap pages: the wanted attributes, their offsets, and how each is read (scan_heap.c); and counts the
 *	  columns to be visited, for predictions.
 */
#include "postgres.h"

#include "access/tupmacs.h"

#include "scan/hjg_scan_heap.h"

/*
 * Find the offsets of the attributes before the first one of variable width. The zeros are long enough for a walk over the
 * others: there a value of variable width is as long as its header says, which is 0, or one byte.
 */
static void
find_fixed_offsets(HjgHeapReader *reader)
{
	bool		walked = false;
	int			off = 0;
	int			walk_bytes = VARHDRSZ;
	int			a;

	for (a = 0; a < reader->natts && reader->attributes[a].attlen > 0; a++)
	{
		HjgReaderAttribute *att = &reader->attributes[a];

		off = att_align_nominal(off, att->attalign);
		att->fixed_off = off;
		off += att->attlen;
	}
	reader->walk_off = off;
	for (int i = a; i < reader->natts; i++)
	{
		walked |= reader->attributes[i].column >= 0;
		walk_bytes += MAXIMUM_ALIGNOF + Max(reader->attributes[i].attlen, 1);
	}
	reader->zeros = palloc0(off + walk_bytes);
	reader->walk_first = walked ? a : reader->natts;
}

/* Choose the first columns of 4 or 8 bytes at fixed offsets. */
static void
choose_early(HjgHeapReader *reader)
{
	int			n = 0;

	for (int i = 0; i < HJG_EARLY_COLUMNS; i++)
		reader->early[i] = -1;
	reader->wanted_off = MAXALIGN(SizeofHeapTupleHeader) + (reader->walk_first < reader->natts ? reader->walk_off : 0);
	for (int c = 0; c < reader->ncolumns; c++)
	{
		const HjgColumn *type = &reader->columns[c].vector->column;

		if (hjg_scan_heap_column_off(reader, c) < 0)
			continue;
		reader->wanted_off = Max(reader->wanted_off, (int) MAXALIGN(SizeofHeapTupleHeader) + hjg_scan_heap_column_off(reader, c));
		if (n < HJG_EARLY_COLUMNS && type->attbyval && type->attlen >= 4)
		{
			reader->early[n] = c;
			reader->early_width[n++] = type->attlen;
		}
	}
	reader->far_off = reader->wanted_off;
}

HjgHeapReader *
hjg_scan_heap_reader_create(TupleDesc desc, int ncolumns, const AttrNumber *attnos, int max_rows, HjgVector *vectors)
{
	HjgHeapReader *reader = palloc(sizeof(HjgHeapReader));

	memset(reader, 0, offsetof(HjgHeapReader, others));	/* the other arrays are set for each page */
	reader->desc = desc;
	reader->max_rows = max_rows;
	reader->context = CurrentMemoryContext;
	reader->columns = palloc(Max(ncolumns, 1) * sizeof(HjgReaderColumn));
	for (int c = 0; c < ncolumns; c++)
		reader->natts = Max(reader->natts, attnos[c]);
	reader->attributes = palloc(Max(reader->natts, 1) * sizeof(HjgReaderAttribute));
	for (int a = 0; a < reader->natts; a++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, a);

		reader->attributes[a].attlen = att->attlen;
		reader->attributes[a].attbyval = att->attbyval;
		reader->attributes[a].attalign = att->attalign;
		reader->attributes[a].fixed_off = -1;
		reader->attributes[a].column = -1;
	}

	for (int c = 0; c < ncolumns; c++)
	{
		HjgVector  *vector = &vectors[c];
		HjgReaderColumn *column = &reader->columns[reader->ncolumns];
		HjgReaderAttribute *att;

		memset(vector, 0, sizeof(HjgVector));
		if (attnos[c] == InvalidAttrNumber)
			continue;
		Assert(attnos[c] > 0 && attnos[c] <= desc->natts);
		att = &reader->attributes[attnos[c] - 1];
		vector->column.attlen = att->attlen;
		vector->column.attbyval = att->attbyval;
		if (!att->attbyval && reader->copied == NULL)
			reader->copied = palloc(HJG_COPIED_BYTES);
		vector->values = palloc(max_rows * hjg_scan_heap_value_bytes(&vector->column));
		vector->isnull = palloc(max_rows * sizeof(bool));
		*column = (HjgReaderColumn) {.vector = vector, .attno = attnos[c]};
		column->next_same = att->column;
		att->column = reader->ncolumns++;
	}
	find_fixed_offsets(reader);
	choose_early(reader);
	return reader;
}

void
hjg_scan_heap_take_numbers(HjgHeapReader *reader, const HjgVector *vector)
{
	for (int c = 0; c < reader->ncolumns; c++)
		reader->columns[c].as_numbers |= vector == NULL || reader->columns[c].vector == vector;
}

void
hjg_scan_page_columns_read(HjgPageColumns *columns, const HjgHeapPage *page)
{
	if (columns->reader == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(columns->work_context);

		columns->vectors = palloc(Max(columns->n, 1) * sizeof(HjgVector));
		columns->reader = hjg_scan_heap_reader_create(columns->desc, columns->n, columns->attnos, MaxHeapTuplesPerPage,
													  columns->vectors);
		if (columns->as_numbers)
			hjg_scan_heap_take_numbers(columns->reader, NULL);
		MemoryContextSwitchTo(old);
	}
	hjg_scan_heap_read(columns->reader, page, 0);
}

void
hjg_scan_page_columns_forget(HjgPageColumns *columns)
{
	columns->vectors = NULL;
	columns->reader = NULL;
}

bool
hjg_scan_page_columns_walked(const HjgPageColumns *columns)
{
	HjgRowColumns row;

	hjg_scan_heap_count(columns->desc, columns->n, columns->attnos, &row);
	return row.nfixed < columns->n;
}

void
hjg_scan_heap_count(TupleDesc desc, int ncolumns, const AttrNumber *attnos, HjgRowColumns *columns)
{
	int			last = 0;		/* last wanted attribute */
	int			first_varlena = 0;

	*columns = (HjgRowColumns) {0};
	while (first_varlena < desc->natts && TupleDescAttr(desc, first_varlena)->attlen > 0)
		first_varlena++;
	for (int c = 0; c < ncolumns; c++)
	{
		last = Max(last, attnos[c]);
		columns->nfixed += attnos[c] <= first_varlena;
	}
	columns->nbefore = first_varlena;
	for (int a = first_varlena; a < last; a++)
	{
		columns->nvarlenas += TupleDescAttr(desc, a)->attlen < 0;
		columns->nsteps += TupleDescAttr(desc, a)->attlen > 0;
	}
}
