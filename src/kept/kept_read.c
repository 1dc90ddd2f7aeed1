/*
 * kept_read.c
 *	  Reads rows of kept columns into vectors, from memory that is checked.
 */
#include "postgres.h"

#include "kept/hjg_kept.h"
#include "layout/hjg_checksum.h"

uint64
hjg_kept_checksum(const void *memory, Size nbytes)
{
	return hjg_checksum_column(memory, nbytes);
}

void
hjg_kept_view_at(const HjgKeptColumn *column, uint32 nrows, const char *memory, HjgKeptView *view)
{
	const char *at = memory;

	*view = (HjgKeptView) {.column = column, .nrows = nrows, .memory = memory, .codes = {.least = column->least}};
	if (memory == NULL)
		return;
	if (column->has_nulls)
	{
		view->nulls = (const uint8 *) at;
		at += MAXALIGN((nrows + 7) / 8);
	}
	view->codes = (HjgCodes) {.least = column->least, .width = column->width, .codes = at};
	if (column->code == HJG_KEPT_BYTES)
	{
		view->places = (const uint32 *) at;
		view->bytes = at + MAXALIGN(nrows * sizeof(uint32));
	}
	else if (column->code == HJG_KEPT_WORDS)
	{
		at += MAXALIGN((Size) nrows * column->width);
		view->places = (const uint32 *) at;
		view->bytes = at + MAXALIGN(Max(column->nwords, 1) * sizeof(uint32));
	}
}

static bool
is_column_at(const HjgKeptSegment *segment, int place, AttrNumber attno, Oid type)
{
	return place < segment->ncolumns && segment->columns[place].attno == attno && segment->columns[place].type == type;
}

HjgKeptFound
hjg_kept_view(const HjgKeptSegment *segment, AttrNumber attno, Oid type, int *place, HjgKeptView *view)
{
	const HjgKeptColumn *column;

	if (!is_column_at(segment, *place, attno, type))
	{
		*place = 0;
		while (*place < segment->ncolumns && !is_column_at(segment, *place, attno, type))
			++*place;
		if (*place == segment->ncolumns)
			return HJG_KEPT_MISSING;
	}
	column = &segment->columns[*place];
	if (column->code == HJG_KEPT_NOT)
		return HJG_KEPT_IMPOSSIBLE;
	hjg_kept_view_at(column, segment->nrows, column->nbytes > 0 ? hjg_kept_address(column->place) : NULL, view);
	return HJG_KEPT_FOUND;
}

bool
hjg_kept_check(const HjgKeptView *view)
{
	return view->column->nbytes == 0 || hjg_kept_checksum(view->memory, view->column->nbytes) == view->column->checksum;
}

bool
hjg_kept_check_words(const HjgKeptView *view)
{
	const char *words = (const char *) view->places;

	return view->column->code != HJG_KEPT_WORDS || words == NULL ||
		hjg_kept_checksum(words, view->memory + view->column->nbytes - words) == view->column->words_checksum;
}

/* Eight rows at a time: a product puts their bits, which lie in one byte or two, into bytes of their own. */
void
hjg_kept_drop_nulls(const HjgKeptView *view, uint32 first, int nrows, bool *pass)
{
	int			i = 0;

	if (view->nulls == NULL)
		return;
	for (; i + 8 <= nrows; i += 8)
	{
		const uint8 *bytes = &view->nulls[(first + i) / 8];
		const int	shift = (first + i) % 8;
		const uint8 nulls = shift == 0 ? bytes[0] : bytes[0] >> shift | bytes[1] << (8 - shift);
		const uint64 bits = nulls * UINT64CONST(0x0101010101010101) & UINT64CONST(0x8040201008040201);
		uint64		passes;

		memcpy(&passes, pass + i, sizeof(passes));
		passes &= ~((bits + UINT64CONST(0x7f7f7f7f7f7f7f7f)) >> 7);
		memcpy(pass + i, &passes, sizeof(passes));
	}
	for (; i < nrows; i++)
		pass[i] &= !hjg_kept_isnull(view, first + i);
}

static void
read_nulls(const HjgKeptView *view, uint32 first, const uint16 *rows, int nrows, HjgVector *vector)
{
	bool		any = false;

	vector->has_nulls = false;
	if (view->nulls == NULL)
		return;
	for (int i = 0; i < nrows; i++)
	{
		vector->isnull[i] = hjg_kept_isnull(view, first + (rows != NULL ? rows[i] : i));
		any |= vector->isnull[i];
	}
	vector->has_nulls = any;
}

/* Point at the words of rows, whose numbers are of this type. */
#define READ_WORDS(type) \
	for (int i = 0; i < nrows; i++) \
		values[i] = view->bytes + view->places[((const type *) view->codes.codes)[first + (rows != NULL ? rows[i] : i)]]

static void
read_references(const HjgKeptView *view, uint32 first, const uint16 *rows, int nrows, const char **values)
{
	if (view->column->code == HJG_KEPT_BYTES)
		for (int i = 0; i < nrows; i++)
			values[i] = view->bytes + view->places[first + (rows != NULL ? rows[i] : i)];
	else if (view->column->width == 1)
		READ_WORDS(uint8);
	else
		READ_WORDS(uint16);
}
#undef READ_WORDS

/* Write numbers in core's form. */
static void
write_numerics(const HjgKeptView *view, uint32 first, const uint16 *rows, int nrows, HjgVector *vector, HjgNumericSpace *numerics)
{
	for (int i = 0; i < nrows; i++)
	{
		const uint16 row = rows != NULL ? rows[i] : i;
		int64		number;

		hjg_vector_decode(&view->codes, first, &row, 1, sizeof(int64), &number);
		(void) hjg_vector_numeric_encode(number, view->column->scale, &numerics[i]);
		((const void **) vector->values)[i] = &numerics[i];
	}
}

void
hjg_kept_read(const HjgKeptView *view, uint32 first, const uint16 *rows, int nrows, HjgVector *vector, HjgNumericSpace *numerics)
{
	read_nulls(view, first, rows, nrows, vector);
	switch (view->column->code)
	{
		case HJG_KEPT_INTEGERS:
			hjg_vector_decode(&view->codes, first, rows, nrows, vector->column.attlen, vector->values);
			break;
		case HJG_KEPT_NUMBERS:
			if (numerics != NULL)
				write_numerics(view, first, rows, nrows, vector, numerics);
			else
			{
				hjg_vector_decode(&view->codes, first, rows, nrows, sizeof(int64), vector->numbers);
				vector->scale = view->column->scale;
			}
			break;
		default:
			read_references(view, first, rows, nrows, vector->values);
	}
}
