/*
 * hjg_group_memo.h
 *	  The groups of words that came last (node_group_memo.c), for node_groups.c.
 *	  Internal to the room "node".
 */
#ifndef HJG_GROUP_MEMO_H
#define HJG_GROUP_MEMO_H

#include "postgres.h"

#include "scan/hjg_scan.h"

/* Places, of which a row's words have one; and most keys. */
#define HJG_MEMO_PLACES 256
#define HJG_MEMO_KEYS 4

/* Zeroed before the first use, and when groups get other numbers. */
typedef struct HjgGroupMemo
{
	uint64		words;			/* set of the words; 0: none */
	int			nmisses;		/* vectors with unknown words */
	uint32		groups[HJG_MEMO_PLACES];
	const char *values[HJG_MEMO_PLACES][HJG_MEMO_KEYS]; /* NULL: the place is empty */
} HjgGroupMemo;

/* Do all keys, in the vectors columns[nkeys], have words of one set, which the memo is for from now on? */
extern bool hjg_group_memo_serves(HjgGroupMemo *memo, int nkeys, const int *columns, const HjgVector *vectors);
/* Find the groups of rows whose words the memo has; false if there are others. */
extern bool hjg_group_memo_recall(HjgGroupMemo *memo, int nkeys, const int *columns, const HjgVector *vectors, int nrows, uint32 *numbers);
extern void hjg_group_memo_add(HjgGroupMemo *memo, int nkeys, const int *columns, const HjgVector *vectors, int nrows, const uint32 *numbers);

#endif							/* HJG_GROUP_MEMO_H */
