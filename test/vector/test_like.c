/*
 * test_like.c
 *	  Patterns of literals and % (vector_leaf.c) on random strings, against a matcher that tries every place.
 *
 *	  test_like [SEED [ROUNDS]]
 *
 * Each string, or row of strings, has a memory block of exactly its size, so that the address sanitizer notices reads beside it.
 */
#include "hjg_test_vector.h"

#define MOST_BYTES 90
#define MOST_PARTS 4
#define MOST_TOGETHER 40

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

/* A pattern, with memory for its parts. */
typedef struct Pattern
{
	HjgFilter	leaf;
	HjgBytes	parts[MOST_PARTS];
	char		spaces[MOST_PARTS][MOST_BYTES];
} Pattern;

static void
any_pattern(Pattern *pattern)
{
	pattern->leaf = (HjgFilter) {.kind = HJG_FILTER_LIKE, .bytes = pattern->parts, .nset = 2 + below(MOST_PARTS - 1), .negated = below(4) == 0};
	for (int p = 0; p < pattern->leaf.nset; p++)
		pattern->parts[p] = any_string(below(3) == 0 ? 30 : 6, pattern->spaces[p]);
}

static bool
passes(const Pattern *pattern, HjgBytes value)
{
	const HjgBytes *first = pattern->parts;

	return (value.nbytes >= first->nbytes && memcmp(value.data, first->data, first->nbytes) == 0 &&
			has_parts(value.data + first->nbytes, value.data + value.nbytes, first + 1, pattern->leaf.nset - 1)) != pattern->leaf.negated;
}

static bool
check_like(void)
{
	const HjgBytes value = any_string(below(2) == 0 ? 20 : MOST_BYTES, NULL);
	Pattern		pattern;
	bool		pass = true;
	bool		expected;

	any_pattern(&pattern);
	expected = passes(&pattern, value);
	hjg_vector_filter_test_bytes(&pattern.leaf, &value, 1, &pass);
	free((char *) value.data);
	return pass == expected;
}

/* Strings that lie one behind the other, mostly with some bytes between; some are not tested. */
static bool
check_together(void)
{
	const int	n = 1 + below(MOST_TOGETHER);
	const int	most_between = below(2) == 0 ? 4 : 20;
	char	   *space = malloc((size_t) n * (MOST_BYTES + 20));
	HjgBytes	values[MOST_TOGETHER];
	bool		pass[MOST_TOGETHER];
	bool		expected[MOST_TOGETHER];
	bool		right = true;
	size_t		used = 0;
	Pattern		pattern;

	any_pattern(&pattern);
	for (int i = 0; i < n; i++)
	{
		/* the bytes between look like the strings */
		const int	between = i == 0 ? 0 : any_string(most_between, space + used).nbytes;

		values[i] = any_string(below(2) == 0 ? 20 : MOST_BYTES, space + used + between);
		used += (size_t) between + (size_t) values[i].nbytes;
	}
	for (int i = 0; i < n; i++)
	{
		pass[i] = below(20) > 0;
		expected[i] = pass[i] && passes(&pattern, values[i]);
	}
	/* the block ends where the last string does */
	memmove(space + (size_t) n * (MOST_BYTES + 20) - used, space, used);
	for (int i = 0; i < n; i++)
		values[i].data += (size_t) n * (MOST_BYTES + 20) - used;
	hjg_vector_filter_test_bytes(&pattern.leaf, values, n, pass);
	for (int i = 0; i < n; i++)
		right &= pass[i] == expected[i];
	free(space);
	return right;
}

int
main(int argc, char **argv)
{
	start_tests(argc, argv, 300000);
	repeat(check_like, "a pattern passes the strings that a matcher of single places passes");
	repeat(check_together, "a pattern passes the same ones of strings that lie one behind the other");
	return end_tests();
}
