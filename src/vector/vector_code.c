/*
 * vector_code.c
 *	  Integers as codes: their distances from the least one.
 */
#include "vector/hjg_vector.h"

int
hjg_vector_code_width(int64_t least, int64_t greatest)
{
	const uint64_t distance = (uint64_t) greatest - (uint64_t) least;

	return distance == 0 ? 0 : distance <= UINT8_MAX ? 1 : distance <= UINT16_MAX ? 2 : distance <= UINT32_MAX ? 4 : 8;
}

#define ENCODE(type) \
	for (int i = 0; i < nrows; i++) \
		((type *) codes)[i] = (type) ((uint64_t) values[i] - (uint64_t) least); \
	break

void
hjg_vector_encode(const int64_t *values, int nrows, int64_t least, int width, void *codes)
{
	switch (width)
	{
		case 1:
			ENCODE(uint8_t);
		case 2:
			ENCODE(uint16_t);
		case 4:
			ENCODE(uint32_t);
		case 8:
			ENCODE(uint64_t);
	}
}
#undef ENCODE

/* The loops, one for each pair of widths: of codes that lie in order, and of chosen ones. */
#define DECODE(code, value) \
	do \
	{ \
		const code *from = (const code *) codes->codes + first; \
		value	   *to = values; \
\
		if (rows == NULL) \
			for (int i = 0; i < nrows; i++) \
				to[i] = (value) (least + from[i]); \
		else \
			for (int i = 0; i < nrows; i++) \
				to[i] = (value) (least + from[rows[i]]); \
	} while (0)

#define DECODE_TO(value) \
	switch (codes->width) \
	{ \
		case 1: \
			DECODE(uint8_t, value); \
			break; \
		case 2: \
			DECODE(uint16_t, value); \
			break; \
		case 4: \
			DECODE(uint32_t, value); \
			break; \
		case 8: \
			DECODE(uint64_t, value); \
			break; \
		default: \
			for (int i = 0; i < nrows; i++) \
				((value *) values)[i] = (value) least; \
	} \
	break

void
hjg_vector_decode(const HjgCodes *codes, size_t first, const uint16_t *rows, int nrows, int value_width, void *values)
{
	const uint64_t least = (uint64_t) codes->least;

	switch (value_width)
	{
		case 1:
			DECODE_TO(uint8_t);
		case 2:
			DECODE_TO(uint16_t);
		case 4:
			DECODE_TO(uint32_t);
		default:
			DECODE_TO(uint64_t);
	}
}
#undef DECODE_TO
#undef DECODE

/* Bools are bytes here, as the compiler makes vector instructions of bytes only. */
#define TEST_CODES(type) \
	do \
	{ \
		const type *restrict from = (const type *) codes->codes + first; \
\
		for (int i = 0; i < nrows; i++) \
			passes[i] &= (uint8_t) ((type) (from[i] - (type) lowest) <= (type) span) ^ odd; \
	} while (0); \
	break

void
hjg_vector_codes_between(const HjgCodes *codes, size_t first, int nrows, int64_t low, int64_t high, bool negated, bool *pass)
{
	const uint64_t most = codes->width == 0 ? 0 : UINT64_MAX >> (64 - 8 * codes->width);
	const uint64_t lowest = low <= codes->least ? 0 : (uint64_t) low - (uint64_t) codes->least;
	const uint64_t highest = (uint64_t) high - (uint64_t) codes->least;
	const bool	none = high < codes->least || lowest > most;
	const uint64_t span = (highest < most ? highest : most) - lowest;
	const uint8_t odd = negated;
	uint8_t    *restrict passes = (uint8_t *) pass;

	if (none || codes->width == 0)
	{
		if (none != negated)
			memset(pass, false, nrows * sizeof(bool));
		return;
	}
	switch (codes->width)
	{
		case 1:
			TEST_CODES(uint8_t);
		case 2:
			TEST_CODES(uint16_t);
		case 4:
			TEST_CODES(uint32_t);
		default:
			TEST_CODES(uint64_t);
	}
}
#undef TEST_CODES
