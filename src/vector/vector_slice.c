/*
 * vector_slice.c
 *	  Parts of strings, in characters: core's substring().
 *
 * Characters of UTF-8 are as long as their first bytes say, as core takes them; a string that ends within one ends there.
 */
#include "vector/hjg_vector.h"

/* Most bytes of a character of UTF-8. */
#define UTF8_BYTES 4

static inline int
character_bytes(uint8_t first)
{
	return first < 0xC0 || first >= 0xF8 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : UTF8_BYTES;
}

/* Find the place behind the next characters, at most the end. */
static inline const char *
skip_characters(const char *at, const char *end, int32_t nchars, bool utf8)
{
	/* a character has at least one byte */
	if (nchars >= end - at)
		return end;
	if (!utf8)
		return at + nchars;
	for (; nchars > 0 && at < end; nchars--)
		at += character_bytes((uint8_t) *at);
	return at < end ? at : end;
}

HjgBytes
hjg_vector_slice(HjgBytes bytes, const HjgSlice *slice)
{
	const HjgBytes whole = hjg_vector_bytes_trim(bytes, slice->padded);
	const char *const end = whole.data + whole.nbytes;
	const char *const from = skip_characters(whole.data, end, slice->first, slice->utf8);

	return (HjgBytes) {from, (int32_t) (skip_characters(from, end, slice->nchars, slice->utf8) - from)};
}

int32_t
hjg_vector_slice_reach(const HjgSlice *slice)
{
	const int64_t nbytes = ((int64_t) slice->first + slice->nchars) * (slice->utf8 ? UTF8_BYTES : 1);

	return slice->padded || nbytes > INT32_MAX ? -1 : (int32_t) nbytes;
}
