/*
 * test_check.c
 *	  Any wrong word from a device process is refused.
 */
#include <signal.h>
#include <sys/mman.h>

#include "device/hjg_chain.h"
#include "hjg_test.h"

#define NPROBE 1000
#define NBUILD 500
#define PAGE_PAIRS 256
#define NPAGES 4

static HjgPair pages_memory[NPAGES][PAGE_PAIRS];
static HjgPair *pages[NPAGES] = {pages_memory[0], pages_memory[1], pages_memory[2], pages_memory[3]};
static HjgExpected expected;
static HjgReported reported;

/* Make a sound round of 600 pairs over probe rows 100 to 699. */
static void
make_sound(HjgMatchMode mode)
{
	expected = (HjgExpected) {
		.round = 3, .mode = mode, .probe_rows = NPROBE, .build_limit = NBUILD,
		.cursor = {100, 0, 0}, .pages = pages, .npages = NPAGES, .page_pairs = PAGE_PAIRS
	};
	reported = (HjgReported) {.round = 3, .status = 0, .npairs = 600, .cursor = {700, 0, 0}};
	for (hjg_u32 i = 0; i < 600; i++)
		pages[i / PAGE_PAIRS][i % PAGE_PAIRS] =
			(HjgPair) {100 + i, mode == HJG_MATCH_ANTI ? HJG_NO_ROW : i % NBUILD};
}

/* Check a round without a copy and with one; the verdict must be the same. */
static HjgCheck
check(void)
{
	static HjgPair copied[NPAGES * PAGE_PAIRS];
	const HjgRoundCopy copy = {.pairs = copied};
	const HjgCheck verdict = hjg_check_round(&expected, &reported, NULL);

	return hjg_check_round(&expected, &reported, &copy) == verdict ? verdict : (HjgCheck) -1;
}

/* Update the checksum to the current pairs, so that it is not what fails. */
static void
sum_up(void)
{
	reported.checksum = 0;
	for (hjg_u32 i = 0; i < NPAGES; i++)
	{
		hjg_u64		from = (hjg_u64) i * PAGE_PAIRS;
		hjg_u64		n = reported.npairs > from ? reported.npairs - from : 0;

		reported.checksum += hjg_check_sum(pages[i], n < PAGE_PAIRS ? n : PAGE_PAIRS);
	}
}

typedef struct Case
{
	const char *claim;
	HjgMatchMode mode;
	HjgCheck	verdict;
	hjg_u64		npairs;
	HjgCursor	cursor;
	int			pair;			/* -1: no pair is changed */
	HjgPair		value;
} Case;

static const Case cases[] = {
	{"a sound round is taken", HJG_MATCH_ALL, HJG_CHECK_GOOD, 600, {700, 0, 0}, -1, {0, 0}},
	{"a sound round of a left join is taken", HJG_MATCH_LEFT, HJG_CHECK_GOOD, 600, {700, 0, 0}, -1, {0, 0}},
	{"a sound round of a semi join is taken", HJG_MATCH_SEMI, HJG_CHECK_GOOD, 600, {700, 0, 0}, -1, {0, 0}},
	{"a sound round of an anti join is taken", HJG_MATCH_ANTI, HJG_CHECK_GOOD, 600, {700, 0, 0}, -1, {0, 0}},
	{"a probe row that is cut is taken", HJG_MATCH_ALL, HJG_CHECK_GOOD, 600, {699, 0, 5}, -1, {0, 0}},
	{"a round without pairs is taken", HJG_MATCH_ALL, HJG_CHECK_GOOD, 0, {1000, 0, 0}, -1, {0, 0}},
	{"no match is taken in a left join", HJG_MATCH_LEFT, HJG_CHECK_GOOD, 600, {700, 0, 0}, 7, {107, HJG_NO_ROW}},
	{"more pairs than fit are refused", HJG_MATCH_ALL, HJG_CHECK_COUNT, NPAGES * PAGE_PAIRS + 1, {700, 0, 0}, -1, {0, 0}},
	{"very many pairs are refused", HJG_MATCH_ALL, HJG_CHECK_COUNT, ~0ull, {700, 0, 0}, -1, {0, 0}},
	{"more pairs than rows are refused in a semi join", HJG_MATCH_SEMI, HJG_CHECK_COUNT, 601, {700, 0, 0}, -1, {0, 0}},
	{"more pairs than rows are refused in an anti join", HJG_MATCH_ANTI, HJG_CHECK_COUNT, 601, {700, 0, 0}, -1, {0, 0}},
	{"a cursor behind the last row is refused", HJG_MATCH_ALL, HJG_CHECK_CURSOR, 600, {1001, 0, 0}, -1, {0, 0}},
	{"a skip behind the last row is refused", HJG_MATCH_ALL, HJG_CHECK_CURSOR, 600, {1000, 0, 1}, -1, {0, 0}},
	{"a cursor that goes back is refused", HJG_MATCH_ALL, HJG_CHECK_CURSOR, 600, {99, 0, 0}, -1, {0, 0}},
	{"a cursor that stands still is refused", HJG_MATCH_ALL, HJG_CHECK_CURSOR, 600, {100, 0, 0}, -1, {0, 0}},
	{"a probe row before the cursor is refused", HJG_MATCH_ALL, HJG_CHECK_ROW, 600, {700, 0, 0}, 0, {99, 1}},
	{"a probe row behind the cursor is refused", HJG_MATCH_ALL, HJG_CHECK_ROW, 600, {700, 0, 0}, 599, {700, 1}},
	{"a probe row out of range is refused", HJG_MATCH_ALL, HJG_CHECK_ROW, 600, {700, 0, 0}, 300, {0xFFFFFFFF, 1}},
	{"a build row out of range is refused", HJG_MATCH_ALL, HJG_CHECK_ROW, 600, {700, 0, 0}, 300, {400, NBUILD}},
	{"no match is refused in an inner join", HJG_MATCH_ALL, HJG_CHECK_ROW, 600, {700, 0, 0}, 300, {400, HJG_NO_ROW}},
	{"no match is refused in a semi join", HJG_MATCH_SEMI, HJG_CHECK_ROW, 600, {700, 0, 0}, 300, {400, HJG_NO_ROW}},
	{"a build row out of range is refused in a left join", HJG_MATCH_LEFT, HJG_CHECK_ROW, 600, {700, 0, 0}, 300, {400, NBUILD}},
	{"a build row is refused in an anti join", HJG_MATCH_ANTI, HJG_CHECK_ROW, 600, {700, 0, 0}, 300, {400, 0}},
	{"words of a program's result are taken", HJG_MATCH_PROGRAM, HJG_CHECK_GOOD, 600, {700, 0, 0}, -1, {0, 0}},
	{"any word of a program's result is taken", HJG_MATCH_PROGRAM, HJG_CHECK_GOOD, 600, {700, 0, 0}, 300, {0xFFFFFFFF, HJG_NO_ROW}},
	{"words behind those that are known to come are taken", HJG_MATCH_PROGRAM, HJG_CHECK_GOOD, 1000, {1100, 0, 0}, -1, {0, 0}},
	{"more words than fit are refused", HJG_MATCH_PROGRAM, HJG_CHECK_COUNT, NPAGES * PAGE_PAIRS + 1, {100 + NPAGES * PAGE_PAIRS + 1, 0, 0}, -1, {0, 0}},
	{"no words are refused where some are to come", HJG_MATCH_PROGRAM, HJG_CHECK_CURSOR, 0, {100, 0, 0}, -1, {0, 0}},
	{"a cursor that does not count the words is refused", HJG_MATCH_PROGRAM, HJG_CHECK_CURSOR, 600, {701, 0, 0}, -1, {0, 0}},
	{"a word that is cut is refused", HJG_MATCH_PROGRAM, HJG_CHECK_CURSOR, 600, {700, 0, 5}, -1, {0, 0}},
	{"a match mode that does not exist is refused", (HjgMatchMode) 9, HJG_CHECK_ROW, 600, {700, 0, 0}, -1, {0, 0}},
};

static void
test_rounds(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		const Case *c = &cases[i];

		make_sound(c->mode);
		reported.npairs = c->npairs;
		reported.cursor = c->cursor;
		if (c->cursor.skip == 5 && c->verdict == HJG_CHECK_GOOD)
			pages[599 / PAGE_PAIRS][599 % PAGE_PAIRS].probe_row = 699;
		if (c->pair >= 0)
			pages[c->pair / PAGE_PAIRS][c->pair % PAGE_PAIRS] = c->value;
		sum_up();
		test_claim(check() == c->verdict, c->claim);
	}

	make_sound(HJG_MATCH_ALL);
	sum_up();
	reported.round++;
	test_claim(check() == HJG_CHECK_ROUND, "the result of another round is refused");

	make_sound(HJG_MATCH_ALL);
	sum_up();
	reported.checksum ^= 1;
	test_claim(check() == HJG_CHECK_CHECKSUM, "a wrong checksum is refused");

	make_sound(HJG_MATCH_PROGRAM);
	sum_up();
	pages[1][3].build_row ^= 1;
	test_claim(check() == HJG_CHECK_CHECKSUM, "a changed word is noticed");

	make_sound(HJG_MATCH_PROGRAM);
	sum_up();
	expected.probe_rows = 100;
	reported.npairs = 0;
	reported.cursor.row = 100;
	sum_up();
	test_claim(check() == HJG_CHECK_GOOD, "a program's result may end");

	make_sound(HJG_MATCH_ALL);
	sum_up();
	reported.npairs--;
	test_claim(check() == HJG_CHECK_CHECKSUM, "a lost pair is noticed");

	make_sound(HJG_MATCH_ALL);
	sum_up();
	pages[1][3].build_row ^= 1;
	test_claim(check() == HJG_CHECK_CHECKSUM, "a changed pair is noticed");

	make_sound(HJG_MATCH_ALL);
	pages[1][3] = pages[1][4];
	sum_up();
	make_sound(HJG_MATCH_ALL);
	test_claim(check() == HJG_CHECK_CHECKSUM, "a doubled pair is noticed");

	make_sound(HJG_MATCH_ALL);
	expected.build_limit = 0;
	sum_up();
	test_claim(check() == HJG_CHECK_ROW, "no build row can match an empty build side");

	make_sound(HJG_MATCH_ALL);
	expected.probe_rows = 0;
	expected.cursor = reported.cursor = (HjgCursor) {0, 0, 0};
	reported.npairs = 0;
	sum_up();
	test_claim(check() == HJG_CHECK_GOOD, "an empty batch ends at once");
}

/* ---- pages that change while they are checked ---- */

static HjgPair *locked_page;
static size_t locked_bytes;

/*
 * Change the page that was already checked, when the check reaches the locked page, and let the check go
 * on.
 */
static void
change_first_page(int number)
{
	pages[0][3].build_row ^= (hjg_u32) number;
	pages[0][3].probe_row++;
	mprotect(locked_page, locked_bytes, PROT_READ | PROT_WRITE);
}

static void
test_change(void)
{
	static HjgPair copied[NPAGES * PAGE_PAIRS];
	const HjgRoundCopy copy = {.pairs = copied};
	HjgPair    *const page = pages[1];
	HjgPair		sound[2];

	locked_bytes = (size_t) sysconf(_SC_PAGESIZE);
	locked_page = mmap(NULL, locked_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (locked_page == MAP_FAILED || signal(SIGSEGV, change_first_page) == SIG_ERR)
	{
		test_claim(false, "a page that can be locked");
		return;
	}
	pages[1] = locked_page;
	make_sound(HJG_MATCH_ALL);
	sum_up();
	sound[0] = pages[0][3];
	sound[1] = pages[1][3];
	mprotect(locked_page, locked_bytes, PROT_NONE);
	test_claim(hjg_check_round(&expected, &reported, &copy) == HJG_CHECK_GOOD && pages[0][3].probe_row != sound[0].probe_row,
			   "a pair changes after it was looked at, and the round is taken");
	test_claim(memcmp(&copied[3], &sound[0], sizeof(HjgPair)) == 0, "what is used of such a round is what was checked");
	pages[1][3].build_row = ~0u;
	test_claim(memcmp(&copied[PAGE_PAIRS + 3], &sound[1], sizeof(HjgPair)) == 0, "a pair that changes later changes nothing");
	signal(SIGSEGV, SIG_DFL);
	munmap(locked_page, locked_bytes);
	pages[1] = page;
}

/* ---- chains, as the device process reads them ---- */

static HjgArena arena;
static HjgOp op;
static hjg_u64 owner;
static hjg_u32 slab_ixs[3];

static void
make_chain(void)
{
	memset(&op, 0, sizeof(op));
	for (hjg_u32 i = 0; i < 3; i++)
		hjg_op_add_input(&arena, &op, owner, slab_ixs[i], 100, i * 100, false);
}

static bool
chain_good(hjg_u32 room, hjg_u32 *n)
{
	HjgInput	inputs[8];
	bool		good = hjg_device_chain_inputs(&arena.view, &op, owner, 4, 0, inputs, room, n);

	for (hjg_u32 i = 0; good && i < *n; i++)
		if (inputs[i].first_row != i * 100 || inputs[i].keys != hjg_arena_slab_at(&arena, slab_ixs[i]))
			return false;
	return good;
}

static void
test_chains(void)
{
	HjgPair    *found[8];
	hjg_u32		n;

	arena = test_arena(8);
	owner = hjg_slab_owner(2, 4);
	for (int i = 0; i < 3; i++)
		slab_ixs[i] = hjg_slab_lease(&arena, owner, 1, HJG_SLAB_INPUT);

	make_chain();
	test_claim(chain_good(3, &n) && n == 3, "a sound chain comes in ascending order");
	test_claim(!chain_good(2, &n), "a chain that is longer than announced is refused");
	op.input_ref = 2 * arena.view.nslabs + 1;
	test_claim(!chain_good(3, &n), "a reference out of range is refused");
	make_chain();
	arena.slabs[slab_ixs[0]].next_ref = slab_ixs[2] + 1;
	test_claim(!chain_good(8, &n), "a chain that runs in a circle is refused");
	make_chain();
	arena.slabs[slab_ixs[1]].owner++;
	test_claim(!chain_good(3, &n), "a slab of another job is refused");
	arena.slabs[slab_ixs[1]].owner--;
	make_chain();
	arena.slabs[slab_ixs[1]].nrows = HJG_SLAB_BYTES / 4 + 1;
	test_claim(!chain_good(3, &n), "more rows than fit a slab are refused");
	make_chain();
	arena.slabs[slab_ixs[1]].first_row = 0xFFFFFFFF;
	test_claim(!chain_good(3, &n), "row numbers that run over are refused");
	make_chain();
	op.nrows++;
	test_claim(!chain_good(3, &n), "a wrong number of rows is refused");
	memset(&op, 0, sizeof(op));
	test_claim(chain_good(0, &n) && n == 0, "an empty chain is taken as input");

	op.result_ref = slab_ixs[0] + 1;
	test_claim(!hjg_device_chain_results(&arena.view, &op, owner, found, 3, &n), "an input slab is no place for results");
	for (int i = 0; i < 3; i++)
		slab_ixs[i] = hjg_slab_lease(&arena, owner, 1, HJG_SLAB_RESULT);
	op.input_ref = slab_ixs[0] + 1;
	test_claim(!chain_good(3, &n), "a result slab is no input");
	op.result_ref = slab_ixs[0] + 1;
	arena.slabs[slab_ixs[0]].next_ref = slab_ixs[1] + 1;
	arena.slabs[slab_ixs[1]].next_ref = 0;
	test_claim(hjg_device_chain_results(&arena.view, &op, owner, found, 2, &n) && n == 2 &&
			   found[1] == hjg_arena_slab_at(&arena, slab_ixs[1]), "result pages come in their order");
	test_claim(!hjg_device_chain_results(&arena.view, &op, owner, found, 1, &n), "more result pages than announced are refused");
	op.result_ref = 0;
	test_claim(!hjg_device_chain_results(&arena.view, &op, owner, found, 2, &n), "no place for results is refused");
	test_claim(!hjg_op_add_input(&arena, &op, owner + 1, slab_ixs[0], 1, 0, false) &&
			   !hjg_op_add_input(&arena, &op, owner, arena.view.nslabs, 1, 0, false),
			   "only an own slab can be added to a chain");
	hjg_arena_detach(&arena);
}

/* Test a text that never ends, in front of memory that may not be read. */
static void
test_texts(void)
{
	const size_t page = (size_t) sysconf(_SC_PAGESIZE);
	char	   *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char	   *text = pages + page - 16;
	char		copy[16];

	if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE) != 0)
	{
		test_claim(false, "memory for a text");
		return;
	}
	memset(text, 'x', sizeof(copy));
	hjg_check_text_copy(copy, text, sizeof(copy));
	test_claim(strcmp(copy, "xxxxxxxxxxxxxxx") == 0, "a text without an end is read to its room, and ends in the copy");
	memcpy(text, "cuda:0", 7);
	hjg_check_text_copy(copy, text, sizeof(copy));
	test_claim(strcmp(copy, "cuda:0") == 0, "a text that ends is copied as it is");
	memcpy(text, "a\033[2Jb\nc\200", 10);
	hjg_check_text_copy(copy, text, sizeof(copy));
	test_claim(strcmp(copy, "a?[2Jb?c?") == 0, "what is not printable ASCII is no part of a copy");
	munmap(pages, 2 * page);
}

int
main(void)
{
	test_rounds();
	test_change();
	test_chains();
	test_texts();
	return test_end();
}
