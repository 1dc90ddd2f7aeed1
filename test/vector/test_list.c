/*
 * test_list.c
 *	  Lists of strings (vector_leaf.c) on random strings, against a comparison with each string of the list.
 *
 *	  test_list [SEED [ROUNDS]]
 *
 * Each string has a memory block of exactly its size, so that the address sanitizer notices reads beside it.
 */
#include "hjg_test_vector.h"

/* Around the bounds of short lists, HJG_SHORT_BYTES and HJG_SHORT_LIST. */
#define MOST_BYTES 11
#define MOST_STRINGS 20

/* Make a string of few different bytes. */
static HjgBytes
any_string(int most)
{
	const int	nbytes = below(most + 1);
	char	   *data = malloc(nbytes > 0 ? nbytes : 1);

	for (int i = 0; i < nbytes; i++)
		data[i] = (char) ("a\xff "[below(3)]);
	return (HjgBytes) {data, nbytes};
}

static bool
are_equal(HjgBytes left, HjgBytes right)
{
	return left.nbytes == right.nbytes && memcmp(left.data, right.data, left.nbytes) == 0;
}

static bool
check_list(void)
{
	const int	most = 1 + below(MOST_BYTES);
	const HjgBytes value = any_string(most);
	HjgBytes	strings[MOST_STRINGS];
	HjgBytes	sorted[MOST_STRINGS];
	HjgFilter	leaf = {.bytes = sorted, .padded = below(2) == 0};
	const int	n = 1 + below(MOST_STRINGS);
	const bool	negated = below(4) == 0;
	bool		expected = negated;
	bool		pass = true;

	for (int i = 0; i < n; i++)
	{
		strings[i] = any_string(most);
		sorted[i] = hjg_vector_bytes_trim(strings[i], leaf.padded);
		if (are_equal(hjg_vector_bytes_trim(value, leaf.padded), sorted[i]))
			expected = !negated;
	}
	hjg_vector_filter_set_list(&leaf, HJG_FILTER_BYTES, negated, n, false);
	hjg_vector_filter_test_bytes(&leaf, &value, 1, &pass);
	for (int i = 0; i < n; i++)
		free((char *) strings[i].data);
	free((char *) value.data);
	return pass == expected;
}

int
main(int argc, char **argv)
{
	start_tests(argc, argv, 1000000);
	repeat(check_list, "a list passes the strings that are equal to one of it");
	return end_tests();
}
