/*
 * cuda_support.c
 *	  Runs one join of the driver "cuda" against the reference.
 */
#include <string.h>

#include "hjg_cuda_support.h"
#include "lab/hjg_cuda_paper.h"

#define POISON 0xC5				/* no pair of a result may keep this value */

HjgStub    *stub;
int			strategy = HJG_CPU_AUTO;
int			ndeclined;
hjg_u32		npasses;
const char *const mode_names[] = {"all", "left", "semi", "anti"};
const int	widths[3] = {4, 8, 16};

static const HjgDriver *const driver = &hjg_cuda_driver;

Outcome
join_case(const Case *c, const HjgEnv *env, int npages, hjg_u32 page_pairs)
{
	const HjgJoinSpec spec = {.key_width = c->width, .mode = c->mode, .strategy = (HjgCpuStrategy) strategy};
	Outcome		outcome = {0};
	HjgCursor	cursor = {0, 0, 0};
	hjg_u64		total = 0;
	HjgJobStats stats;
	Pages		pages;
	void	   *join;

	outcome.status = driver->build(0, env, &spec, c->build.segments, c->build.nsegments, &join);
	if (stub != NULL && stub->in_flight != 0)
		outcome.wrong = "building leaves work in flight";
	if (outcome.status != HJG_OK)
		return outcome;
	pages_create(&pages, npages, page_pairs);
	pages.result.sum = true;
	do
	{
		HjgCursor	from = cursor;

		for (int i = 0; i < npages; i++)
			memset(pages.result.pages[i], POISON, page_pairs * sizeof(HjgPair));
		outcome.status = driver->probe(join, c->probe.segments, c->probe.nsegments, &cursor, &pages.result);
		if (stub != NULL && stub->in_flight != 0)
			outcome.wrong = "probing leaves work in flight";
		if (outcome.status != HJG_OK)
		{
			if (cursor.row != from.row || cursor.skip != from.skip)
				outcome.wrong = "the cursor moves in spite of an error";
			break;
		}
		if (!pages.result.summed)
			outcome.wrong = "pairs are not added up";
		else if (!check_round(c, &from, &cursor, &pages.result))
			outcome.wrong = "wrong round";
		else if (cursor.row < c->probe.nrows && cursor.row == from.row && cursor.skip == from.skip)
			outcome.wrong = "no progress";
		total += pages.result.npairs;
	} while (outcome.wrong == NULL && cursor.row < c->probe.nrows);
	if (outcome.wrong == NULL && outcome.status == HJG_OK && total != c->nexpected)
		outcome.wrong = "wrong number of pairs";
	driver->stats(join, &stats);
	if (outcome.wrong == NULL && outcome.status == HJG_OK && c->build.nrows > 0 && stats.workspace_bytes == 0)
		outcome.wrong = "no memory in the statistics";
	if (outcome.wrong == NULL && outcome.status == HJG_OK && !hjg_is_cuda_strategy((int) stats.strategy))
		outcome.wrong = "no strategy in the statistics";
	if (outcome.wrong == NULL && outcome.status == HJG_OK &&
		stats.declined != (strategy != HJG_CPU_AUTO && !is_of_literature() && strategy != (int) stats.strategy))
		outcome.wrong = "a strategy was declined in secret";
	/* the driver does not report strategies of the literature */
	if (is_of_literature())
		stats.declined = ((const HjgCudaJoin *) join)->strategy != hjg_cuda_strategy_at(strategy - HJG_CUDA_FIRST);
	ndeclined += stats.declined != 0;
	npasses = stats.npartitions;
	pages_destroy(&pages);
	driver->free(join);
	return outcome;
}

bool
is_of_literature(void)
{
	return strategy > HJG_CUDA_LAST;
}

const char *
name_of(int number)
{
	return number == HJG_CPU_AUTO ? "auto" : hjg_cuda_strategy_at(number - HJG_CUDA_FIRST)->name;
}
