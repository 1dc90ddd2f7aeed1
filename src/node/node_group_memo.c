/*
 * node_group_memo.c
 *	  Remembers the groups of words.
 *
 * Words of one set (HjgVector) that have equal pointers are equal values, so rows whose keys are the words of a row before need no
 * hash and no comparison.
 */
#include "postgres.h"

#include "node/hjg_group_memo.h"

/* Vectors with unknown words, after which words of this set are looked up. */
#define MOST_MISSES 16

bool
hjg_group_memo_serves(HjgGroupMemo *memo, int nkeys, const int *columns, const HjgVector *vectors)
{
	uint64		words;

	if (nkeys > HJG_MEMO_KEYS)
		return false;
	words = vectors[columns[0]].words;
	if (words == 0)
		return false;
	for (int k = 0; k < nkeys; k++)
		if (vectors[columns[k]].words != words || vectors[columns[k]].has_nulls)
			return false;
	if (memo->words != words)
	{
		memset(memo, 0, sizeof(*memo));
		memo->words = words;
	}
	return memo->nmisses < MOST_MISSES;
}

/* Get the key columns' pointers at the words of the rows. */
static void
find_words(int nkeys, const int *columns, const HjgVector *vectors, const char *const **words)
{
	for (int k = 0; k < nkeys; k++)
		words[k] = vectors[columns[k]].values;
}

static inline int
memo_place(int nkeys, const char *const *const *words, int row)
{
	uintptr_t	mixed = 0;

	/* words are aligned, and near each other */
	for (int k = 0; k < nkeys; k++)
		mixed = mixed * 29 + (uintptr_t) words[k][row] / MAXIMUM_ALIGNOF;
	return mixed % HJG_MEMO_PLACES;
}

bool
hjg_group_memo_recall(HjgGroupMemo *memo, int nkeys, const int *columns, const HjgVector *vectors, int nrows, uint32 *numbers)
{
	const char *const *words[HJG_MEMO_KEYS];
	bool		all = true;

	find_words(nkeys, columns, vectors, words);
	for (int i = 0; i < nrows; i++)
	{
		const int	place = memo_place(nkeys, words, i);

		for (int k = 0; k < nkeys; k++)
			all &= memo->values[place][k] == words[k][i];
		numbers[i] = memo->groups[place];
	}
	memo->nmisses += !all;
	return all;
}

void
hjg_group_memo_add(HjgGroupMemo *memo, int nkeys, const int *columns, const HjgVector *vectors, int nrows, const uint32 *numbers)
{
	const char *const *words[HJG_MEMO_KEYS];

	find_words(nkeys, columns, vectors, words);
	for (int i = 0; i < nrows; i++)
	{
		const int	place = memo_place(nkeys, words, i);

		for (int k = 0; k < nkeys; k++)
			memo->values[place][k] = words[k][i];
		memo->groups[place] = numbers[i];
	}
}
