/*
 * test_like.c
 *	  Patterns of literals and % (vector_leaf.c) on random strings, against a matcher that tries every place.
 *
 *	  test_like [SEED [ROUNDS]]
 *
 * Each string has a memory block of exactly its size, so that the address sanitizer notices reads beside it.
 */
#include "hjg_test_vector.h"

#define MOST_BYTES 90
#define MOST_PARTS 4

/* Make a string of few different bytes, so that patterns often match, and nearly match more often. */
static HjgBytes
any_string(int most, char *space)
{
	const int	nbytes = below(most + 1);
	const int	ndifferent = 1 + below(3);
	char	   *data = space != NULL ? space : malloc(nbytes > 0 ? nbytes : 1);

	if (space == NULL && nbytes > 0)
		data = realloc(data, nbytes);
	for (int i = 0; i < nbytes; i++)
		data[i] = (char) ("a\xff%"[below(ndifferent)]);
	return (HjgBytes) {data, nbytes};
}

/* Does the string, from a place on, have the parts in order, and the last one at its end? */
static bool
has_parts(const char *at, const char *end, const HjgBytes *parts, int nparts)
{
	if (nparts == 1)
		return end - at >= parts->nbytes && memcmp(end - parts->nbytes, parts->data, parts->nbytes) == 0;
	for (; end - at >= parts->nbytes; at++)
		if (memcmp(at, parts->data, parts->nbytes) == 0 && has_parts(at + parts->nbytes, end, parts + 1, nparts - 1))
			return true;
	return false;
}

static bool
check_like(void)
{
	char		spaces[MOST_PARTS][MOST_BYTES];
	HjgBytes	parts[MOST_PARTS];
	HjgFilter	leaf = {.kind = HJG_FILTER_LIKE, .bytes = parts, .nset = 2 + below(MOST_PARTS - 1), .negated = below(4) == 0};
	const HjgBytes value = any_string(below(2) == 0 ? 20 : MOST_BYTES, NULL);
	bool		pass = true;
	bool		expected;

	for (int p = 0; p < leaf.nset; p++)
		parts[p] = any_string(below(3) == 0 ? 30 : 6, spaces[p]);
	expected = value.nbytes >= parts[0].nbytes && memcmp(value.data, parts[0].data, parts[0].nbytes) == 0 &&
		has_parts(value.data + parts[0].nbytes, value.data + value.nbytes, parts + 1, leaf.nset - 1);
	hjg_vector_filter_test_bytes(&leaf, &value, 1, &pass);
	free((char *) value.data);
	return pass == (expected != leaf.negated);
}

int
main(int argc, char **argv)
{
	start_tests(argc, argv, 300000);
	repeat(check_like, "a pattern passes the strings that a matcher of single places passes");
	return end_tests();
}
