/*
 * test_payload.c
 *	  Payload columns: their places in slabs, and the check of columns that a device process wrote.
 */
#include <stdlib.h>
#include <string.h>

#include "device/hjg_chain.h"
#include "hjg_test.h"

#define NPAGES 2

static const HjgPayloadBytes some[] = {
	{{0, 0}}, {{4, 0}}, {{0, 4}}, {{8, 4}}, {{12, 128}}, {{128, 128}}
};
#define NSOME ((int) (sizeof(some) / sizeof(some[0])))

/* ---- places ---- */

static void
test_places(void)
{
	bool		inputs = true;
	bool		results = true;

	for (int i = 0; i < NSOME; i++)
	{
		const hjg_u64 npairs = hjg_page_pairs(some[i]);
		const hjg_u64 build_off = hjg_page_payload_off(some[i], HJG_SIDE_BUILD);
		const hjg_u64 probe_off = hjg_page_payload_off(some[i], HJG_SIDE_PROBE);

		results = results && npairs > 0 && build_off >= npairs * sizeof(HjgPair) && build_off % 64 == 0 && probe_off % 64 == 0 &&
			probe_off >= build_off + npairs * some[i].bytes[HJG_SIDE_BUILD] &&
			probe_off + npairs * some[i].bytes[HJG_SIDE_PROBE] <= HJG_SLAB_BYTES;
		for (hjg_u32 width = 4; width <= 16; width *= 2)
		{
			const hjg_u64 bytes = some[i].bytes[HJG_SIDE_BUILD];
			const hjg_u64 nrows = hjg_input_rows(width, (hjg_u32) bytes);

			inputs = inputs && nrows > 0 && (nrows & (nrows - 1)) == 0 && 2 * nrows * (width + bytes) > HJG_SLAB_BYTES &&
				hjg_input_payload_off(width, (hjg_u32) bytes) == nrows * width && nrows * (width + bytes) <= HJG_SLAB_BYTES;
		}
	}
	test_claim(inputs, "an input slab holds a power of two of keys, then the rows' columns");
	test_claim(results, "a result slab holds pairs, build columns and probe columns, none over another");
	test_claim(hjg_page_pairs(some[0]) == HJG_SLAB_BYTES / sizeof(HjgPair) &&
			   hjg_input_rows(8, 0) == HJG_SLAB_BYTES / 8, "without payload columns slabs are full of pairs and of keys");
	test_claim(hjg_payload_valid(some[5]) && !hjg_payload_valid((HjgPayloadBytes) {{6, 0}}) &&
			   !hjg_payload_valid((HjgPayloadBytes) {{0, 132}}), "columns of other widths are no job's");
}

/* ---- inputs ---- */

static void
test_inputs(void)
{
	HjgArena	arena = test_arena(8);
	const hjg_u64 owner = hjg_slab_owner(2, 4);
	HjgOp		op = {0};
	HjgInput	inputs[8];
	hjg_u32		slab_ixs[2];
	hjg_u32		n;

	for (hjg_u32 i = 0; i < 2; i++)
	{
		slab_ixs[i] = hjg_slab_lease(&arena, owner, 1, HJG_SLAB_INPUT);
		hjg_op_add_input(&arena, &op, owner, slab_ixs[i], 100, i * 100, true);
	}
	test_claim(hjg_device_chain_inputs(&arena.view, &op, owner, 4, 12, inputs, 2, &n) && n == 2 &&
			   inputs[1].payload == (const char *) inputs[1].keys + hjg_input_payload_off(4, 12),
			   "columns are found behind the keys");
	test_claim(hjg_device_chain_inputs(&arena.view, &op, owner, 4, 0, inputs, 2, &n) && inputs[0].payload == NULL &&
			   inputs[1].payload == NULL, "a side without columns has none");
	arena.slabs[slab_ixs[0]].has_payload = 0;
	test_claim(hjg_device_chain_inputs(&arena.view, &op, owner, 4, 12, inputs, 2, &n) && inputs[0].payload == NULL &&
			   inputs[1].payload == NULL, "where one slab comes without columns, none has any");
	arena.slabs[slab_ixs[0]].nrows = hjg_input_rows(4, 12) + 1;
	test_claim(!hjg_device_chain_inputs(&arena.view, &op, owner, 4, 12, inputs, 2, &n), "more rows than fit beside their columns are refused");
	hjg_arena_detach(&arena);
}

/* ---- results ---- */

static HjgPair *pages[NPAGES];
static HjgExpected expected;
static HjgReported reported;

static hjg_u32 *
word_at(int page, HjgSideId side, hjg_u32 i)
{
	return (hjg_u32 *) ((char *) pages[page] + hjg_page_payload_off(expected.payload, side)) + i;
}

/* Make a sound round that fills a page and a part of the next. */
static void
make_sound(void)
{
	const HjgPayloadBytes payload = {{8, 4}};
	const hjg_u32 page_pairs = hjg_page_pairs(payload);
	const hjg_u32 npairs = page_pairs + 1000;

	expected = (HjgExpected) {
		.round = 1, .mode = HJG_MATCH_ALL, .probe_rows = npairs, .build_limit = npairs, .pages = pages, .npages = NPAGES,
		.page_pairs = page_pairs, .payload = payload, .may_gather = 3
	};
	reported = (HjgReported) {.round = 1, .npairs = npairs, .cursor = {npairs, 0, 0}, .gathered = 3};
	for (hjg_u32 i = 0; i < npairs; i++)
	{
		const int	page = (int) (i / page_pairs);
		const hjg_u32 at = i % page_pairs;

		pages[page][at] = (HjgPair) {i, npairs - 1 - i};
		*word_at(page, HJG_SIDE_BUILD, 2 * at) = i * 2654435761u;
		*word_at(page, HJG_SIDE_BUILD, 2 * at + 1) = i;
		*word_at(page, HJG_SIDE_PROBE, at) = ~i;
	}
	for (hjg_u32 i = 0; i < NPAGES; i++)
	{
		const hjg_u64 n = i == 0 ? page_pairs : npairs - page_pairs;

		reported.checksum += hjg_check_sum(pages[i], n);
		reported.payload_sum += hjg_check_payload(pages[i], i, n, payload, 3);
	}
}

/* Check a round without a copy and with one; the verdict must be the same. */
static HjgCheck
check(const HjgRoundCopy *copy)
{
	const HjgCheck verdict = hjg_check_round(&expected, &reported, NULL);

	return hjg_check_round(&expected, &reported, copy) == verdict ? verdict : (HjgCheck) -1;
}

static void
exchange(hjg_u32 *a, hjg_u32 *b)
{
	const hjg_u32 value = *a;

	*a = *b;
	*b = value;
}

static void
test_results(void)
{
	HjgRoundCopy copy = {.pairs = malloc(NPAGES * HJG_SLAB_BYTES)};
	hjg_u32		second;

	for (int i = 0; i < NPAGES; i++)
		pages[i] = aligned_alloc(64, HJG_SLAB_BYTES);
	for (int s = 0; s < HJG_SIDES; s++)
		copy.columns[s] = malloc(NPAGES * HJG_SLAB_BYTES);

	make_sound();
	test_claim(check(&copy) == HJG_CHECK_GOOD, "a sound round with columns is taken");
	second = *word_at(1, HJG_SIDE_PROBE, 99);
	for (int i = 0; i < NPAGES; i++)
		memset(pages[i], 0x55, HJG_SLAB_BYTES);
	test_claim(((const hjg_u32 *) copy.columns[HJG_SIDE_PROBE])[expected.page_pairs + 99] == second &&
			   ((const hjg_u32 *) copy.columns[HJG_SIDE_BUILD])[2 * 4242 + 1] == 4242 && copy.pairs[4242].probe_row == 4242,
			   "columns that change after the check change nothing");
	make_sound();
	*word_at(1, HJG_SIDE_BUILD, 77) ^= 1u << 31;
	test_claim(check(&copy) == HJG_CHECK_PAYLOAD, "a changed build column is noticed");
	make_sound();
	*word_at(0, HJG_SIDE_PROBE, expected.page_pairs - 1) += 1;
	test_claim(check(&copy) == HJG_CHECK_PAYLOAD, "a changed probe column is noticed");
	make_sound();
	exchange(word_at(0, HJG_SIDE_PROBE, 5), word_at(0, HJG_SIDE_PROBE, 4000));
	test_claim(check(&copy) == HJG_CHECK_PAYLOAD, "columns that change places are noticed");
	make_sound();
	exchange(word_at(0, HJG_SIDE_BUILD, 5), word_at(1, HJG_SIDE_BUILD, 5));
	test_claim(check(&copy) == HJG_CHECK_PAYLOAD, "columns that change pages are noticed");
	make_sound();
	*word_at(1, HJG_SIDE_PROBE, 1000) ^= 1;
	test_claim(check(&copy) == HJG_CHECK_GOOD, "what stands behind the last pair is nobody's");
	make_sound();
	expected.may_gather = HJG_SIDE_BIT(HJG_SIDE_BUILD);
	test_claim(check(&copy) == HJG_CHECK_PAYLOAD, "columns that were not sent are refused");
	make_sound();
	reported.gathered = 7;
	test_claim(check(&copy) == HJG_CHECK_PAYLOAD, "a side that does not exist is refused");
	make_sound();
	reported.gathered = 0;
	reported.payload_sum = 1;
	test_claim(check(&copy) == HJG_CHECK_GOOD, "a device need not gather");
	for (int i = 0; i < NPAGES; i++)
		free(pages[i]);
	for (int s = 0; s < HJG_SIDES; s++)
		free(copy.columns[s]);
	free(copy.pairs);
}

int
main(void)
{
	test_places();
	test_inputs();
	test_results();
	return test_end();
}
