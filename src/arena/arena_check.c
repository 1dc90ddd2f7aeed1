/*
 * arena_check.c
 *	  Checks of what another process wrote into the arena.
 *
 * The client compares a round's report with its own copy of what it submitted.  Nothing here trusts a number
 * read from the arena.
 *
 * The loops over pairs are compiled twice on x86-64: wide registers halve the time of a backend's check of
 * every pair.  Pairs that a backend goes on to use are copied first, piece by piece, and the copy is
 * checked, because the pages can change at any time.
 */
#include <string.h>

#include "arena/hjg_arena.h"
#include "layout/hjg_checksum.h"

#if defined(__x86_64__)
#define HAVE_WIDE 1
#define WIDE __attribute__((target("avx2")))
#endif
#define BODY static inline __attribute__((always_inline))

/* Bytes copied at a time: they are in the nearest cache when they are checked. */
#define PIECE_BYTES 16384

const char *
hjg_check_text(HjgCheck check)
{
	switch (check)
	{
		case HJG_CHECK_GOOD:
			return "good";
		case HJG_CHECK_ROUND:
			return "result of another round";
		case HJG_CHECK_COUNT:
			return "impossible number of pairs";
		case HJG_CHECK_CURSOR:
			return "impossible cursor";
		case HJG_CHECK_ROW:
			return "row number out of range";
		case HJG_CHECK_CHECKSUM:
			return "wrong checksum";
		case HJG_CHECK_PAYLOAD:
			return "wrong payload columns";
	}
	return "unknown";
}

typedef hjg_u64 Word __attribute__((may_alias));

void
hjg_words_copy(void *to, const void *from, size_t bytes)
{
	for (size_t i = 0; i < bytes / sizeof(Word); i++)
		__atomic_store_n((Word *) to + i, __atomic_load_n((const Word *) from + i, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

void
hjg_check_copy(const HjgOpReport *op, HjgReported *reported)
{
	reported->round = __atomic_load_n(&op->round_done, __ATOMIC_RELAXED);
	reported->status = __atomic_load_n(&op->status, __ATOMIC_RELAXED);
	reported->npairs = __atomic_load_n(&op->npairs, __ATOMIC_RELAXED);
	reported->checksum = __atomic_load_n(&op->checksum, __ATOMIC_RELAXED);
	reported->payload_sum = __atomic_load_n(&op->payload_sum, __ATOMIC_RELAXED);
	reported->gathered = __atomic_load_n(&op->gathered, __ATOMIC_RELAXED);
	reported->cursor.row = __atomic_load_n(&op->cursor_out.row, __ATOMIC_RELAXED);
	reported->cursor.most = 0;
	reported->cursor.skip = __atomic_load_n(&op->cursor_out.skip, __ATOMIC_RELAXED);
}

void
hjg_check_text_copy(char *copy, const char *text, size_t room)
{
	memcpy(copy, text, room);
	copy[room - 1] = '\0';
	for (; *copy; copy++)
		if (*copy < ' ' || *copy > '~')
			*copy = '?';
}

BODY hjg_u64
sum_body(const HjgPair *pairs, hjg_u64 npairs)
{
	hjg_u64		sum = 0;

	for (hjg_u64 i = 0; i < npairs; i++)
		sum += hjg_checksum_pair(pairs[i].probe_row, pairs[i].build_row);
	return sum;
}

/* The bounds of a round's row numbers. */
typedef struct Bounds
{
	hjg_u32		first_row;		/* first probe row of this round */
	hjg_u32		nrows;
	hjg_u32		lowest;			/* of build row number plus 1; "none" counts as 0 */
	hjg_u64		span;
} Bounds;

/* Check a page's pairs with one comparison a row number: a number below the lowest wraps around. */
BODY bool
check_body(const HjgPair *pairs, hjg_u64 npairs, const Bounds *bounds, hjg_u64 *sum)
{
	const hjg_u32 first_row = bounds->first_row;
	const hjg_u32 nrows = bounds->nrows;
	const hjg_u32 lowest = bounds->lowest;
	/* a span never reaches 2^32: there are fewer build rows */
	const hjg_u32 span = (hjg_u32) bounds->span;
	hjg_u64		total = 0;
	hjg_u32		bad = 0;

	for (hjg_u64 i = 0; i < npairs; i++)
	{
		hjg_u32		probe_row = pairs[i].probe_row;
		hjg_u32		build_row = pairs[i].build_row;

		bad |= probe_row - first_row >= nrows;
		bad |= build_row + 1 - lowest >= span;
		total += hjg_checksum_pair(probe_row, build_row);
	}
	*sum += total;
	return bad == 0;
}

BODY hjg_u64
payload_body(const hjg_u32 *words, hjg_u32 nwords, hjg_u32 first)
{
	hjg_u64		sum = 0;

	for (hjg_u32 i = 0; i < nwords; i++)
		sum += hjg_checksum_at(first + i, words[i]);
	return sum;
}

#ifdef HAVE_WIDE
WIDE static hjg_u64
payload_wide(const hjg_u32 *words, hjg_u32 nwords, hjg_u32 first)
{
	return payload_body(words, nwords, first);
}

WIDE static hjg_u64
sum_wide(const HjgPair *pairs, hjg_u64 npairs)
{
	return sum_body(pairs, npairs);
}

WIDE static bool
check_wide(const HjgPair *pairs, hjg_u64 npairs, const Bounds *bounds, hjg_u64 *sum)
{
	return check_body(pairs, npairs, bounds, sum);
}
#endif

hjg_u64
hjg_check_sum(const HjgPair *pairs, hjg_u64 npairs)
{
#ifdef HAVE_WIDE
	if (__builtin_cpu_supports("avx2"))
		return sum_wide(pairs, npairs);
#endif
	return sum_body(pairs, npairs);
}

static hjg_u64
payload_words(const hjg_u32 *words, hjg_u32 nwords, hjg_u32 first)
{
#ifdef HAVE_WIDE
	if (__builtin_cpu_supports("avx2"))
		return payload_wide(words, nwords, first);
#endif
	return payload_body(words, nwords, first);
}

static hjg_u64
copy_words(const hjg_u32 *words, hjg_u32 nwords, hjg_u32 first, char *copy)
{
	const hjg_u32 most = PIECE_BYTES / HJG_PAYLOAD_UNIT;
	hjg_u64		sum = 0;

	for (hjg_u32 at = 0, n; at < nwords; at += n)
	{
		hjg_u32    *piece = (hjg_u32 *) copy + at;

		n = nwords - at < most ? nwords - at : most;
		memcpy(piece, words + at, (size_t) n * HJG_PAYLOAD_UNIT);
		sum += payload_words(piece, n, first + at);
	}
	return sum;
}

/*
 * Add up the checksums of a page's columns, or of copies of them; the page's first pair is pair first_pair
 * of the round.
 */
static hjg_u64
payload_page(const HjgPair *page, hjg_u32 page_ix, hjg_u64 npairs, HjgPayloadBytes payload, hjg_u32 gathered,
			 const HjgRoundCopy *copy, hjg_u64 first_pair)
{
	hjg_u64		sum = 0;

	for (int s = 0; s < HJG_SIDES; s++)
	{
		const hjg_u32 *words = (const hjg_u32 *) ((const char *) page + hjg_page_payload_off(payload, (HjgSideId) s));
		const hjg_u32 nwords = (hjg_u32) npairs * (payload.bytes[s] / HJG_PAYLOAD_UNIT);
		const hjg_u32 first = hjg_checksum_place(page_ix, (HjgSideId) s);

		if ((gathered & HJG_SIDE_BIT(s)) == 0)
			continue;
		sum += copy != NULL ? copy_words(words, nwords, first, copy->columns[s] + first_pair * payload.bytes[s]) :
			payload_words(words, nwords, first);
	}
	return sum;
}

hjg_u64
hjg_check_payload(const HjgPair *page, hjg_u32 page_ix, hjg_u64 npairs, HjgPayloadBytes payload, hjg_u32 gathered)
{
	return payload_page(page, page_ix, npairs, payload, gathered, NULL, 0);
}

static bool
check_pairs(const HjgPair *pairs, hjg_u64 npairs, const Bounds *bounds, hjg_u64 *sum)
{
#ifdef HAVE_WIDE
	if (__builtin_cpu_supports("avx2"))
		return check_wide(pairs, npairs, bounds, sum);
#endif
	return check_body(pairs, npairs, bounds, sum);
}

static bool
copy_checked_pairs(const HjgPair *pairs, hjg_u64 npairs, const Bounds *bounds, HjgPair *copy, hjg_u64 *sum)
{
	const hjg_u64 most = PIECE_BYTES / sizeof(HjgPair);
	bool		good = true;

	for (hjg_u64 at = 0, n; at < npairs && good; at += n)
	{
		n = npairs - at < most ? npairs - at : most;
		memcpy(copy + at, pairs + at, n * sizeof(HjgPair));
		good = check_pairs(copy + at, n, bounds, sum);
	}
	return good;
}

/*
 * Check a round of a program's result: the cursor counts words, of which expected->probe_rows are known to come, and any words
 * are possible.
 */
static HjgCheck
check_words(const HjgExpected *expected, const HjgReported *reported, const HjgRoundCopy *copy)
{
	const HjgCursor from = expected->cursor;
	hjg_u64		left = reported->npairs;
	hjg_u64		sum = 0;

	if (left > (hjg_u64) expected->npages * expected->page_pairs)
		return HJG_CHECK_COUNT;
	if (reported->cursor.row != from.row + left || reported->cursor.skip != 0 || (left == 0 && from.row < expected->probe_rows))
		return HJG_CHECK_CURSOR;
	if (reported->gathered != 0)
		return HJG_CHECK_PAYLOAD;
	for (hjg_u32 page = 0; left > 0; page++)
	{
		const HjgPair *words = expected->pages[page];
		const hjg_u64 n = left < expected->page_pairs ? left : expected->page_pairs;

		if (copy != NULL)
			words = memcpy(copy->pairs + (hjg_u64) page * expected->page_pairs, words, n * sizeof(HjgPair));
		sum += hjg_check_sum(words, n);
		left -= n;
	}
	return sum == reported->checksum ? HJG_CHECK_GOOD : HJG_CHECK_CHECKSUM;
}

HjgCheck
hjg_check_round(const HjgExpected *expected, const HjgReported *reported, const HjgRoundCopy *copy)
{
	HjgCursor	from = expected->cursor;
	HjgCursor	to = reported->cursor;
	hjg_u64		left = reported->npairs;
	hjg_u64		covered;
	hjg_u64		sum = 0;
	hjg_u64		payload_sum = 0;
	Bounds		bounds;

	if (reported->round != expected->round)
		return HJG_CHECK_ROUND;
	if (expected->mode == HJG_MATCH_PROGRAM)
		return check_words(expected, reported, copy);
	if (to.row > expected->probe_rows || (to.row == expected->probe_rows && to.skip != 0))
		return HJG_CHECK_CURSOR;
	if (from.row < expected->probe_rows &&
		(to.row < from.row || (to.row == from.row && to.skip <= from.skip)))
		return HJG_CHECK_CURSOR;
	if (from.row >= expected->probe_rows && to.row != from.row)
		return HJG_CHECK_CURSOR;
	if (left > (hjg_u64) expected->npages * expected->page_pairs)
		return HJG_CHECK_COUNT;
	if (expected->build_limit > HJG_MAX_BUILD_ROWS)
		return HJG_CHECK_ROW;
	if ((reported->gathered & ~expected->may_gather) != 0)
		return HJG_CHECK_PAYLOAD;

	covered = (hjg_u64) to.row - from.row + (to.skip > 0 ? 1 : 0);
	bounds.first_row = from.row;
	bounds.nrows = (hjg_u32) covered;
	switch ((HjgMatchMode) expected->mode)
	{
		case HJG_MATCH_ALL:
			bounds.lowest = 1;
			bounds.span = expected->build_limit;
			break;
		case HJG_MATCH_LEFT:
			bounds.lowest = 0;
			bounds.span = expected->build_limit + 1;
			break;
		case HJG_MATCH_SEMI:
			if (left > covered)
				return HJG_CHECK_COUNT;
			bounds.lowest = 1;
			bounds.span = expected->build_limit;
			break;
		case HJG_MATCH_ANTI:
			if (left > covered)
				return HJG_CHECK_COUNT;
			bounds.lowest = 0;
			bounds.span = 1;
			break;
		default:
			return HJG_CHECK_ROW;
	}

	for (hjg_u32 page = 0; left > 0; page++)
	{
		const HjgPair *pairs = expected->pages[page];
		const hjg_u64 first_pair = (hjg_u64) page * expected->page_pairs;
		hjg_u64		n = left < expected->page_pairs ? left : expected->page_pairs;

		if (!(copy != NULL ? copy_checked_pairs(pairs, n, &bounds, copy->pairs + first_pair, &sum) :
			  check_pairs(pairs, n, &bounds, &sum)))
			return HJG_CHECK_ROW;
		payload_sum += payload_page(pairs, page, n, expected->payload, reported->gathered, copy, first_pair);
		left -= n;
	}
	if (sum != reported->checksum)
		return HJG_CHECK_CHECKSUM;
	if (reported->gathered != 0 && payload_sum != reported->payload_sum)
		return HJG_CHECK_PAYLOAD;
	return HJG_CHECK_GOOD;
}
