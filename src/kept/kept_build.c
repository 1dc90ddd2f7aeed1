/*
 * kept_build.c
 *	  Makes a segment of kept columns.
 *
 * The values of a column are collected first: integers and numerics as 64-bit integers, other values as words, different values whose
 * numbers the rows have, as long as they are few, then as copies one after the other. What cannot be kept is noted as such, so that
 * nobody tries again: values that are stored out of line, whose place in the table's TOAST table may be used for another value,
 * and columns of more than MOST_BYTES a row that are no words.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "lib/stringinfo.h"
#include "utils/memutils.h"

#include "kept/hjg_kept.h"
#include "layout/hjg_checksum.h"
#include "vector/hjg_vector_pg.h"

/* Most rows of a segment. */
#define MOST_ROWS (HJG_KEPT_BLOCKS * MaxHeapTuplesPerPage)

/* Mean bytes of a row's value, from which on a column that has no words is not kept. */
#define MOST_BYTES 64

/* Places of the hash table of words, of which a look-up visits so many at most: users choose the values. */
#define WORD_PLACES (2 * HJG_KEPT_MOST_WORDS)
#define MOST_VISITS 64

/* Bytes of a column's values that are collected; words are fewer than rows. */
#define MOST_COLLECTED (16 * 1024 * 1024)

/* Numerics beyond are kept as bytes: the integers between have an ordinal at their scale. */
#define MOST_NUMBER (INT64CONST(1) << 62)

typedef enum BuildForm
{
	FORM_INTEGERS,
	FORM_NUMBERS,
	FORM_WORDS,
	FORM_BYTES,
	FORM_NONE
} BuildForm;

/* Different values of a column, in the order of their first rows. */
typedef struct Words
{
	int			n;
	uint32		places[HJG_KEPT_MOST_WORDS];	/* in the collected bytes */
	uint32		sizes[HJG_KEPT_MOST_WORDS];
	uint16		table[WORD_PLACES]; /* word + 1; 0: none */
	uint16		numbers[MOST_ROWS]; /* of each row; 0 of a NULL */
} Words;

typedef struct BuiltColumn
{
	HjgKeptWish wish;
	BuildForm		form;
	int			scale;			/* of numbers; -1: not known yet */
	bool		has_nulls;
	bool	   *isnull;			/* [MOST_ROWS], if has_nulls */

	/* arrays are made when the column needs them */
	int64	   *integers;		/* [MOST_ROWS]: integers and numbers; 0 of a NULL */
	Words	   *words;
	uint32	   *places;			/* [MOST_ROWS]: of bytes; 0 of a NULL */
	bool		has_packed;		/* a value is compressed */
	StringInfoData bytes;
} BuiltColumn;

struct HjgKeptBuilder
{
	MemoryContext context;
	int			ncolumns;
	int			nblocks;
	uint32		nrows;
	BuiltColumn *columns;
	HjgKeptBlocks kept;
	HjgKeptBlocks settled;
	XLogRecPtr	lsn[HJG_KEPT_BLOCKS];
	uint16		offset[HJG_KEPT_BLOCKS];
	uint32		first_row[HJG_KEPT_BLOCKS + 1];
};

HjgKeptBuilder *
hjg_kept_builder_create(int ncolumns, const HjgKeptWish *wishes)
{
	HjgKeptBuilder *builder = palloc0(sizeof(HjgKeptBuilder));

	builder->context = CurrentMemoryContext;
	builder->ncolumns = ncolumns;
	builder->columns = palloc0(ncolumns * sizeof(BuiltColumn));
	for (int c = 0; c < ncolumns; c++)
	{
		builder->columns[c].wish = wishes[c];
		builder->columns[c].isnull = palloc(MOST_ROWS * sizeof(bool));
		initStringInfo(&builder->columns[c].bytes);
	}
	hjg_kept_builder_reset(builder);
	return builder;
}

void
hjg_kept_builder_reset(HjgKeptBuilder *builder)
{
	builder->nblocks = 0;
	builder->kept = builder->settled = (HjgKeptBlocks) {0};
	builder->nrows = 0;
	for (int c = 0; c < builder->ncolumns; c++)
	{
		BuiltColumn *column = &builder->columns[c];

		column->form = column->wish.numeric ? FORM_NUMBERS : column->wish.attbyval ? FORM_INTEGERS : FORM_WORDS;
		column->scale = -1;
		column->has_nulls = column->has_packed = false;
		resetStringInfo(&column->bytes);
		if (column->words != NULL)
		{
			column->words->n = 0;
			memset(column->words->table, 0, sizeof(column->words->table));
		}
	}
}

int
hjg_kept_builder_blocks(const HjgKeptBuilder *builder)
{
	return builder->nblocks;
}

bool
hjg_kept_builder_makes(const HjgKeptBuilder *builder, int ncolumns, const HjgKeptWish *wishes)
{
	if (builder == NULL || builder->ncolumns != ncolumns)
		return false;
	for (int c = 0; c < ncolumns; c++)
		if (builder->columns[c].wish.attno != wishes[c].attno || builder->columns[c].wish.type != wishes[c].type)
			return false;
	return true;
}

/* Make an array that lasts as long as the builder, if there is none yet. */
static void *
need_array(const HjgKeptBuilder *builder, void *array, Size nbytes)
{
	return array != NULL ? array : MemoryContextAllocZero(builder->context, nbytes);
}

/* ---------- collecting ---------- */

/* Add a value behind the others, where its type wants it; returns its place. *fits: false if there are too many bytes. */
static uint32
add_bytes(BuiltColumn *column, const char *value, Size nbytes, bool *fits)
{
	Size		at = column->bytes.len;

	if (column->wish.attlen > 0 || (column->wish.attlen == -1 && !VARATT_IS_1B(value)))
		at = MAXALIGN(at);
	*fits = at + nbytes <= MOST_COLLECTED;
	if (!*fits)
		return 0;
	enlargeStringInfo(&column->bytes, at - column->bytes.len + nbytes);
	memset(column->bytes.data + column->bytes.len, 0, at - column->bytes.len);
	memcpy(column->bytes.data + at, value, nbytes);
	column->bytes.len = at + nbytes;
	return at;
}

static uint32
hash_string(const char *value, Size nbytes)
{
	uint64		hash = nbytes;
	uint64		word;

	for (; nbytes > sizeof(word); value += sizeof(word), nbytes -= sizeof(word))
	{
		memcpy(&word, value, sizeof(word));
		hash = hjg_checksum_word(hash ^ word);
	}
	word = 0;
	memcpy(&word, value, nbytes);
	return (uint32) (hjg_checksum_word(hash ^ word) >> 32);
}

/* Find a value's word, or make it one; -1 if there are too many. */
static int
find_word(BuiltColumn *column, const char *value, Size nbytes)
{
	Words	   *words = column->words;
	uint32		place = hash_string(value, nbytes);
	bool		fits;

	for (int visits = 0; visits < MOST_VISITS; visits++, place++)
	{
		const int	word = words->table[place % WORD_PLACES] - 1;

		if (word < 0)
		{
			if (words->n == HJG_KEPT_MOST_WORDS)
				return -1;
			words->places[words->n] = add_bytes(column, value, nbytes, &fits);
			words->sizes[words->n] = nbytes;
			if (!fits)
				return -1;
			words->table[place % WORD_PLACES] = ++words->n;
			return words->n - 1;
		}
		if (words->sizes[word] == nbytes && memcmp(column->bytes.data + words->places[word], value, nbytes) == 0)
			return word;
	}
	return -1;
}

/* Go on without words: those of the first rows become values that rows have in common. */
static void
give_up_words(HjgKeptBuilder *builder, BuiltColumn *column, uint32 nrows)
{
	column->form = FORM_BYTES;
	column->places = need_array(builder, column->places, MOST_ROWS * sizeof(uint32));
	for (uint32 i = 0; i < nrows; i++)
		column->places[i] = column->has_nulls && column->isnull[i] ? 0 : column->words->places[column->words->numbers[i]];
}

/* Collect a value of row `row`; changes the form if it does not fit. */
static void
collect_value(HjgKeptBuilder *builder, BuiltColumn *column, uint32 row, const char *value)
{
	const int	attlen = column->wish.attlen;
	Size		nbytes;
	bool		fits = true;

	if (attlen == -1 && VARATT_IS_EXTERNAL(value))
	{
		column->form = FORM_NONE;
		return;
	}
	column->has_packed |= attlen == -1 && VARATT_IS_COMPRESSED(value);
	nbytes = hjg_vector_referred_bytes(attlen, value);
	if (column->form == FORM_WORDS)
	{
		const int	word = find_word(column, value, nbytes);

		column->words->numbers[row] = Max(word, 0);
		if (word < 0)
			give_up_words(builder, column, row);
	}
	if (column->form == FORM_BYTES)
		column->places[row] = add_bytes(column, value, nbytes, &fits);
	if (!fits)
		column->form = FORM_NONE;
}

static void
collect_values(HjgKeptBuilder *builder, BuiltColumn *column, const HjgVector *vector, uint32 row, int nrows)
{
	for (int i = 0; i < nrows && column->form != FORM_NONE; i++)
		if (!hjg_vector_isnull(vector, i))
			collect_value(builder, column, row + i, ((const char **) vector->values)[i]);
		else if (column->form == FORM_WORDS)
			column->words->numbers[row + i] = 0;
		else
			column->places[row + i] = 0;
}

/* Collect numerics; false if they have not all one scale, or do not fit. */
static bool
collect_numbers(BuiltColumn *column, const HjgVector *vector, uint32 row, int nrows)
{
	int64	   *numbers = column->integers + row;
	bool		all_null = true;
	uint64		beyond = 0;
	int			scale;

	if (!hjg_vector_numeric_load(vector, nrows, numbers, &scale))
		return false;
	for (int i = 0; i < nrows; i++)
	{
		beyond |= (uint64) (numbers[i] + MOST_NUMBER) >> 63;
		all_null &= hjg_vector_isnull(vector, i);
	}
	if (all_null)
		return true;
	if (beyond != 0 || (column->scale >= 0 && scale != column->scale))
		return false;
	column->scale = scale;
	return true;
}

/* Collect numbers in core's form. */
static void
collect_encoded(HjgKeptBuilder *builder, BuiltColumn *column, const int64 *numbers, int scale, uint32 row, int nrows)
{
	HjgNumericSpace space;
	const void *value = &space;
	HjgVector	vector = {.column = {-1, false, 0}, .values = &value, .has_nulls = column->has_nulls};

	for (int i = 0; i < nrows && column->form != FORM_NONE; i++)
	{
		vector.isnull = &column->isnull[row + i];
		(void) hjg_vector_numeric_encode(numbers[i], scale, &space);
		collect_values(builder, column, &vector, row + i, 1);
	}
}

/* Go on with words instead of numbers. */
static void
give_up_numbers(HjgKeptBuilder *builder, BuiltColumn *column, uint32 nrows)
{
	column->form = FORM_WORDS;
	column->words = need_array(builder, column->words, sizeof(Words));
	collect_encoded(builder, column, column->integers, Max(column->scale, 0), 0, nrows);
}

#define COPY_INTEGERS(type) \
	for (int i = 0; i < nrows; i++) \
		to[i] = ((const type *) vector->values)[i]; \
	break

static void
collect_integers(BuiltColumn *column, const HjgVector *vector, uint32 row, int nrows)
{
	int64	   *to = column->integers + row;

	switch (vector->column.attlen)
	{
		case 1:
			COPY_INTEGERS(int8);
		case 2:
			COPY_INTEGERS(int16);
		case 4:
			COPY_INTEGERS(int32);
		default:
			COPY_INTEGERS(int64);
	}
}
#undef COPY_INTEGERS

static void
collect_nulls(BuiltColumn *column, const HjgVector *vector, uint32 row, int nrows)
{
	if (!vector->has_nulls && !column->has_nulls)
		return;
	if (!column->has_nulls)
		memset(column->isnull, false, row * sizeof(bool));
	column->has_nulls = true;
	for (int i = 0; i < nrows; i++)
		column->isnull[row + i] = hjg_vector_isnull(vector, i);
}

static void
collect_column(HjgKeptBuilder *builder, BuiltColumn *column, const HjgVector *vector, uint32 row, int nrows)
{
	collect_nulls(column, vector, row, nrows);
	if (column->form == FORM_INTEGERS || column->form == FORM_NUMBERS)
		column->integers = need_array(builder, column->integers, MOST_ROWS * sizeof(int64));
	if (column->form == FORM_WORDS)
		column->words = need_array(builder, column->words, sizeof(Words));
	if (column->form == FORM_INTEGERS)
	{
		collect_integers(column, vector, row, nrows);
		return;
	}
	if (column->form == FORM_NUMBERS)
	{
		if (collect_numbers(column, vector, row, nrows))
			return;
		give_up_numbers(builder, column, row);
	}
	if (vector->numbers != NULL)
		collect_encoded(builder, column, vector->numbers, vector->scale, row, nrows);
	else
		collect_values(builder, column, vector, row, nrows);
}

void
hjg_kept_builder_add(HjgKeptBuilder *builder, uint16 offset, XLogRecPtr lsn, bool settled, const HjgVector *vectors, int nrows)
{
	const int	block = builder->nblocks++;

	Assert(block < HJG_KEPT_BLOCKS);
	if (nrows >= 0)
		hjg_kept_blocks_add(&builder->kept, block);
	if (nrows >= 0 && settled)
		hjg_kept_blocks_add(&builder->settled, block);
	builder->lsn[block] = lsn;
	builder->offset[block] = offset;
	builder->first_row[block] = builder->nrows;
	if (nrows > 0)
	{
		for (int c = 0; c < builder->ncolumns; c++)
			collect_column(builder, &builder->columns[c], &vectors[c], builder->nrows, nrows);
		builder->nrows += nrows;
	}
	builder->first_row[block + 1] = builder->nrows;
}

/* ---------- writing ---------- */

/* Put the words, each at a place that every type may have, behind their places. */
static void
write_words(const BuiltColumn *column, uint32 *places, char *bytes)
{
	const Words *words = column->words;
	uint32		at = 0;

	for (int w = 0; w < words->n; w++)
	{
		places[w] = at;
		memset(bytes + at, 0, MAXALIGN(words->sizes[w]));
		memcpy(bytes + at, column->bytes.data + words->places[w], words->sizes[w]);
		at += MAXALIGN(words->sizes[w]);
	}
}

static Size
word_bytes(const Words *words)
{
	Size		nbytes = 0;

	for (int w = 0; w < words->n; w++)
		nbytes += MAXALIGN(words->sizes[w]);
	return nbytes;
}

/* Find the least and the greatest value; NULLs become the former. */
static void
find_bounds(BuiltColumn *column, uint32 nrows, HjgKeptColumn *kept)
{
	int64		least = PG_INT64_MAX;
	int64		greatest = PG_INT64_MIN;

	for (uint32 i = 0; i < nrows; i++)
		if (!column->has_nulls || !column->isnull[i])
		{
			least = Min(least, column->integers[i]);
			greatest = Max(greatest, column->integers[i]);
		}
	if (least > greatest)
		least = greatest = 0;
	for (uint32 i = 0; column->has_nulls && i < nrows; i++)
		if (column->isnull[i])
			column->integers[i] = least;
	kept->least = least;
	kept->greatest = greatest;
}

/* Decide how the column is kept: sets all of *kept but the number, the place and the checksums. */
static void
plan_column(BuiltColumn *column, uint32 nrows, HjgKeptColumn *kept)
{
	const Size	nulls = column->has_nulls ? MAXALIGN((nrows + 7) / 8) : 0;

	*kept = (HjgKeptColumn) {
		.attno = column->wish.attno, .type = column->wish.type, .code = HJG_KEPT_NOT, .has_nulls = column->has_nulls, .place = InvalidDsaPointer
	};
	if (nrows == 0 || column->form == FORM_INTEGERS || column->form == FORM_NUMBERS)
	{
		kept->code = column->form == FORM_NUMBERS ? HJG_KEPT_NUMBERS : HJG_KEPT_INTEGERS;
		kept->scale = Max(column->scale, 0);
		find_bounds(column, nrows, kept);
		kept->width = hjg_vector_code_width(kept->least, kept->greatest);
		kept->nbytes = nulls + MAXALIGN((Size) nrows * kept->width);
	}
	else if (column->form == FORM_WORDS)
	{
		kept->code = HJG_KEPT_WORDS;
		kept->nwords = column->words->n;
		kept->width = kept->nwords <= UINT8_MAX + 1 ? 1 : 2;
		kept->nbytes = nulls + MAXALIGN((Size) nrows * kept->width) + MAXALIGN(Max(kept->nwords, 1) * sizeof(uint32)) + word_bytes(column->words);
	}
	else if (column->form == FORM_BYTES && column->bytes.len <= (Size) nrows * MOST_BYTES)
	{
		kept->code = HJG_KEPT_BYTES;
		kept->has_packed = column->has_packed;
		kept->nbytes = nulls + MAXALIGN(nrows * sizeof(uint32)) + MAXALIGN(column->bytes.len);
	}
	if (kept->code == HJG_KEPT_NOT)
		kept->has_nulls = false;
}

/* Write the column as planned; sets its checksums. */
static void
write_column(const BuiltColumn *column, uint32 nrows, HjgKeptColumn *kept, char *to)
{
	const char *memory = to;

	memset(to, 0, kept->nbytes);
	if (kept->has_nulls)
	{
		for (uint32 i = 0; i < nrows; i++)
			((uint8 *) to)[i / 8] |= (uint8) column->isnull[i] << i % 8;
		to += MAXALIGN((nrows + 7) / 8);
	}
	switch (kept->code)
	{
		case HJG_KEPT_WORDS:
			for (uint32 i = 0; i < nrows; i++)
				if (kept->width == 1)
					((uint8 *) to)[i] = (uint8) column->words->numbers[i];
				else
					((uint16 *) to)[i] = column->words->numbers[i];
			to += MAXALIGN((Size) nrows * kept->width);
			write_words(column, (uint32 *) to, to + MAXALIGN(Max(kept->nwords, 1) * sizeof(uint32)));
			kept->words_checksum = hjg_kept_checksum(to, memory + kept->nbytes - to);
			break;
		case HJG_KEPT_BYTES:
			memcpy(to, column->places, nrows * sizeof(uint32));
			memcpy(to + MAXALIGN(nrows * sizeof(uint32)), column->bytes.data, column->bytes.len);
			break;
		default:
			hjg_vector_encode(column->integers, (int) nrows, kept->least, kept->width, to);
	}
	kept->checksum = hjg_kept_checksum(memory, kept->nbytes);
}

/* Keep a column; false if there is no memory. */
static bool
keep_column(HjgKeptBuilder *builder, int c, HjgKeptHold *hold, HjgKeptColumn *kept)
{
	BuiltColumn *column = &builder->columns[c];
	HjgKeptColumn planned;

	plan_column(column, builder->nrows, &planned);
	planned.id = hjg_kept_new_id();
	if (planned.nbytes > 0)
	{
		planned.place = hjg_kept_allocate(hold, planned.nbytes);
		if (!DsaPointerIsValid(planned.place))
			return false;
		write_column(column, builder->nrows, &planned, hjg_kept_address(planned.place));
	}
	*kept = planned;
	return true;
}

uint32
hjg_kept_builder_write(HjgKeptBuilder *builder, HjgKeptView *views)
{
	HjgKeptColumn *columns = palloc(builder->ncolumns * sizeof(HjgKeptColumn));

	for (int c = 0; c < builder->ncolumns; c++)
	{
		char	   *memory = NULL;

		plan_column(&builder->columns[c], builder->nrows, &columns[c]);
		if (columns[c].nbytes > 0)
		{
			memory = palloc(columns[c].nbytes);
			write_column(&builder->columns[c], builder->nrows, &columns[c], memory);
		}
		hjg_kept_view_at(&columns[c], builder->nrows, memory, &views[c]);
	}
	return builder->nrows;
}

HjgKeptSegment *
hjg_kept_builder_finish(HjgKeptBuilder *builder, HjgKeptHold *hold, uint32 number, XLogRecPtr map_lsn, uint32 nfills)
{
	dsa_pointer place = hjg_kept_blocks_count(&builder->kept) > 0 ? hjg_kept_allocate(hold, hjg_kept_segment_bytes(builder->ncolumns)) : InvalidDsaPointer;
	HjgKeptSegment *segment;
	bool		fits = true;

	if (!DsaPointerIsValid(place))
		return NULL;
	segment = hjg_kept_address(place);
	memset(segment, 0, hjg_kept_segment_bytes(builder->ncolumns));
	segment->number = number;
	segment->nblocks = builder->nblocks;
	segment->max_columns = builder->ncolumns;
	segment->nrows = builder->nrows;
	segment->nfills = nfills;
	segment->settled = builder->settled;
	pg_atomic_init_u32(&segment->nread, 0);
	pg_atomic_init_u64(&segment->map_lsn, map_lsn);
	pg_atomic_init_u64(&segment->log_end, InvalidXLogRecPtr);
	for (int w = 0; w < HJG_KEPT_BLOCK_WORDS; w++)
		pg_atomic_init_u64(&segment->fit[w], builder->kept.words[w]);
	memcpy(segment->lsn, builder->lsn, sizeof(segment->lsn));
	memcpy(segment->offset, builder->offset, sizeof(segment->offset));
	memcpy(segment->first_row, builder->first_row, sizeof(segment->first_row));
	while (fits && segment->ncolumns < builder->ncolumns)
	{
		fits = keep_column(builder, segment->ncolumns, hold, &segment->columns[segment->ncolumns]);
		segment->ncolumns += fits;
	}
	if (fits)
		return hjg_kept_publish(hold, place);
	hjg_kept_free_segment(place);
	return NULL;
}
