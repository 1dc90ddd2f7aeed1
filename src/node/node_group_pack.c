/*
 * node_group_pack.c
 *	  Packs columns of groups for temporary files, and reads them. What is read is checked, as files are not trusted.
 */
#include "postgres.h"

#include "node/hjg_group_pack.h"

#define FIRST_SPACE 8192

/* Precedes a column. Flags of NULLs follow, if there are any, then codes or values. */
typedef struct ColumnHeader
{
	int64		least;			/* of numbers; or the bytes of all values by reference */
	uint32		width;			/* of codes */
	uint32		has_nulls;
} ColumnHeader;

/* ---------- writing ---------- */

char *
hjg_group_pack_add(HjgPack *pack, size_t nbytes)
{
	const size_t all = MAXALIGN(nbytes);
	char	   *place;

	if (pack->nbytes + all > pack->space)
	{
		const size_t space = Max(pack->space * 2, Max(FIRST_SPACE, pack->nbytes + all));

		pack->data = pack->data == NULL ? MemoryContextAllocHuge(CurrentMemoryContext, space) : repalloc_huge(pack->data, space);
		pack->space = space;
	}
	place = pack->data + pack->nbytes;
	memset(place + nbytes, 0, all - nbytes);
	pack->nbytes += all;
	return place;
}

static void
add_header(HjgPack *pack, int64 least, int width, const bool *isnull, int n)
{
	const ColumnHeader header = {least, width, isnull != NULL};

	memcpy(hjg_group_pack_add(pack, sizeof(header)), &header, sizeof(header));
	if (isnull != NULL)
		memcpy(hjg_group_pack_add(pack, n), isnull, n);
}

static void
add_numbers(HjgPack *pack, const int64 *numbers, const bool *isnull, int n)
{
	int64		least = numbers[0];
	int64		greatest = numbers[0];
	int			width;

	for (int i = 1; i < n; i++)
	{
		least = Min(least, numbers[i]);
		greatest = Max(greatest, numbers[i]);
	}
	width = hjg_vector_code_width(least, greatest);
	add_header(pack, least, width, isnull, n);
	hjg_vector_encode(numbers, n, least, width, hjg_group_pack_add(pack, (size_t) n * width));
}

void
hjg_group_pack_numbers(HjgPack *pack, const int64 *numbers, int n)
{
	add_numbers(pack, numbers, NULL, n);
}

/* Find the place of a value at `at` or, for alignment, behind it; short values need none, and do not begin with a zero. */
static size_t
place_value(int attlen, bool is_short, size_t at)
{
	return attlen == -2 || (attlen == -1 && is_short) ? at : MAXALIGN(at);
}

/* Add the values by reference, at `to` unless that is NULL; returns their bytes. */
static size_t
put_values(const HjgVector *vector, int n, char *to)
{
	const int	attlen = vector->column.attlen;
	size_t		at = 0;

	for (int i = 0; i < n; i++)
	{
		const char *value = ((char *const *) vector->values)[i];
		size_t		place;
		size_t		nbytes;

		if (hjg_vector_isnull(vector, i))
			continue;
		place = place_value(attlen, VARATT_IS_1B(value), at);
		nbytes = hjg_vector_referred_bytes(attlen, value);
		if (to != NULL)
		{
			memset(to + at, 0, place - at);
			memcpy(to + place, value, nbytes);
		}
		at = place + nbytes;
	}
	return at;
}

void
hjg_group_pack_vector(HjgPack *pack, const HjgVector *vector, int n)
{
	const bool *isnull = vector->has_nulls ? vector->isnull : NULL;
	int64		numbers[HJG_VECTOR_ROWS];
	size_t		nbytes;

	if (vector->column.attbyval)
	{
		hjg_vector_ordinals(HJG_ORDINAL_INT, vector, n, numbers);
		for (int i = 0; isnull != NULL && i < n; i++)
			numbers[i] &= (int64) isnull[i] - 1;
		add_numbers(pack, numbers, isnull, n);
		return;
	}
	nbytes = put_values(vector, n, NULL);
	add_header(pack, (int64) nbytes, 0, isnull, n);
	(void) put_values(vector, n, hjg_group_pack_add(pack, nbytes));
}

/* ---------- reading ---------- */

void
hjg_group_unpack_fail(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("grouping temporary file has groups that cannot be read")));
}

const char *
hjg_group_unpack(HjgUnpack *from, size_t nbytes)
{
	const char *place = from->next;

	if (nbytes > (size_t) (from->end - from->next) || MAXALIGN(nbytes) > (size_t) (from->end - from->next))
		hjg_group_unpack_fail();
	from->next += MAXALIGN(nbytes);
	return place;
}

static ColumnHeader
read_header(HjgUnpack *from)
{
	ColumnHeader header;

	memcpy(&header, hjg_group_unpack(from, sizeof(header)), sizeof(header));
	if (header.width > sizeof(int64) || (header.width & (header.width - 1)) != 0)
		hjg_group_unpack_fail();
	return header;
}

static void
read_codes(HjgUnpack *from, const ColumnHeader *header, int n, int width, void *numbers)
{
	const HjgCodes codes = {header->least, (int) header->width, hjg_group_unpack(from, (size_t) n * header->width)};

	hjg_vector_decode(&codes, 0, NULL, n, width, numbers);
}

void
hjg_group_unpack_numbers(HjgUnpack *from, int n, int64 *numbers)
{
	const ColumnHeader header = read_header(from);

	read_codes(from, &header, n, sizeof(int64), numbers);
}

/* Read the flags of NULLs. */
static void
read_null_flags(HjgUnpack *from, bool any, int n, HjgVector *vector, int first)
{
	const char *flags;

	if (first == 0)
		vector->has_nulls = false;
	if (any && !vector->has_nulls)
	{
		memset(vector->isnull, false, first * sizeof(bool));
		vector->has_nulls = true;
	}
	if (!vector->has_nulls)
		return;
	flags = any ? hjg_group_unpack(from, n) : NULL;
	for (int i = 0; i < n; i++)
		vector->isnull[first + i] = any && flags[i] != 0;
}

/* Count the bytes of a value that has at most this many; more if it has no end there. */
static size_t
bounded_bytes(int attlen, const char *value, size_t most)
{
	size_t		header_bytes;

	if (attlen > 0)
		return attlen;
	if (attlen == -2)
		return strnlen(value, most) + 1;
	/* a pointer to memory was never written */
	if (VARATT_IS_1B_E(value) && (most < VARHDRSZ_EXTERNAL || !VARATT_IS_EXTERNAL_ONDISK(value)))
		return most + 1;
	header_bytes = VARATT_IS_1B_E(value) ? VARHDRSZ_EXTERNAL : VARATT_IS_1B(value) ? VARHDRSZ_SHORT : VARHDRSZ;
	return most < header_bytes || VARSIZE_ANY(value) < header_bytes ? most + 1 : VARSIZE_ANY(value);
}

/* Find values by reference; the value of a NULL is a null pointer. */
static void
find_values(const HjgVector *vector, int first, int n, const char *values, size_t nbytes)
{
	const int	attlen = vector->column.attlen;
	const char **to = (const char **) vector->values + first;
	size_t		at = 0;

	for (int i = 0; i < n; i++)
	{
		size_t		value_bytes;

		to[i] = NULL;
		if (hjg_vector_isnull(vector, first + i))
			continue;
		if (at < nbytes)
			at = place_value(attlen, VARATT_NOT_PAD_BYTE(values + at), at);
		value_bytes = at < nbytes ? bounded_bytes(attlen, values + at, nbytes - at) : 1;
		if (at >= nbytes || value_bytes > nbytes - at)
			hjg_group_unpack_fail();
		to[i] = values + at;
		at += value_bytes;
	}
}

void
hjg_group_unpack_vector(HjgUnpack *from, int n, HjgVector *vector, int first)
{
	const ColumnHeader header = read_header(from);

	read_null_flags(from, header.has_nulls != 0, n, vector, first);
	if (vector->column.attbyval)
		read_codes(from, &header, n, vector->column.attlen, (char *) vector->values + (size_t) first * vector->column.attlen);
	else
		find_values(vector, first, n, hjg_group_unpack(from, (size_t) header.least), (size_t) header.least);
}
