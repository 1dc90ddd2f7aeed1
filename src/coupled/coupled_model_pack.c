/*
 * coupled_model_pack.c
 *	  Prices of compression plans, and the choice among them.
 */
#include "coupled/hjg_pack_model.h"

#include <math.h>

/* Count the bytes of a value's stream, including the marks and starts of its lanes. */
static double
stream_bytes(int width, int leaf, bool delta, const HjgPackShape *shape)
{
	const double lane = HJG_PACK_LANE_ROWS;
	double		bytes = width;

	if (leaf == HJG_PACK_NS)
		bytes = shape->bits / 8;
	else if (leaf == HJG_PACK_NSV)
		bytes = shape->bytes + 0.5 + 4 / lane;
	return bytes + (delta ? width / lane : 0);
}

/* Describe a dictionary's codes; Delta and FOR are not combined with it. */
static HjgPackShape
code_shape(const HjgPackStats *stats)
{
	const double bits = stats->ndistinct > 1 ? ceil(log2(stats->ndistinct)) : 0;

	return (HjgPackShape) {.bits = bits, .bytes = ceil(bits / 8)};
}

void
hjg_pack_price(const HjgPackStats *stats, const HjgPackPlan *plan, const HjgPackCosts *costs, HjgPackPrice *price)
{
	const double nblocks = ceil((double) stats->nrows / HJG_PACK_BLOCK_ROWS);
	const HjgPackShape shape = plan->dict ? code_shape(stats) :
		stats->shapes[plan->scale > 0][plan->runs][plan->delta][plan->frame];
	const double values = plan->runs ? 1 / fmax(stats->run_rows, 1) : 1;

	*price = (HjgPackPrice) {.bytes = values * stream_bytes(stats->width, plan->leaf, plan->delta, &shape)};
	if (plan->runs)
		price->bytes += values * stream_bytes(4, plan->lengths_leaf, true, &stats->lengths);
	if (stats->nrows > 0)
		price->bytes += (nblocks * sizeof(HjgPackBlock) + (plan->dict ? (double) stats->ndistinct * stats->width : 0)) /
			stats->nrows;
	if (costs == NULL)
		return;
	price->unpack_ns = values * (costs->leaf_ns[plan->leaf] + (plan->delta ? costs->delta_ns : 0) +
								 (plan->dict ? costs->dict_ns : 0) + (plan->scale ? costs->scale_ns : 0));
	if (plan->runs)
		price->unpack_ns += values * (costs->leaf_ns[plan->lengths_leaf] + costs->delta_ns) + costs->row_ns;
	price->unpack_ns += price->bytes * costs->check_ns;
}

bool
hjg_pack_plan_is_empty(const HjgPackPlan *plan)
{
	return !plan->scale && !plan->dict && !plan->runs && !plan->delta && !plan->frame && plan->leaf == HJG_PACK_PLAIN;
}

/* Make plan number n; the numbers cover each sensible plan once. */
static bool
plan_by_number(const HjgPackStats *stats, int n, HjgPackPlan *plan)
{
	*plan = (HjgPackPlan) {
		.leaf = (hjg_u8) (n % 3), .lengths_leaf = (hjg_u8) (n / 3 % 3), .runs = n / 9 % 2, .delta = n / 18 % 2,
		.frame = n / 36 % 2, .dict = n / 72 % 2, .scale = n / 144 % 2 ? (hjg_u8) stats->scale : 0
	};
	if ((!plan->runs && plan->lengths_leaf != 0) || (n / 144 % 2 && stats->scale == 0))
		return false;
	if (plan->dict && (plan->delta || plan->frame || plan->leaf == HJG_PACK_PLAIN || stats->ndistinct > HJG_PACK_MAX_DICT))
		return false;
	/* preparing values helps only if they are then stored in fewer bits */
	return (!plan->delta && !plan->frame && !plan->scale) || plan->leaf != HJG_PACK_PLAIN;
}

#define NPLANS 288

HjgPackPlan
hjg_pack_choose(const HjgPackStats *stats, const HjgPackCosts *costs, double bytes_per_ns, int nworkers)
{
	HjgPackPlan best = {0};
	double		least = stats->width / bytes_per_ns;

	for (int n = 0; n < NPLANS; n++)
	{
		HjgPackPlan plan;
		HjgPackPrice price;
		double		ns;

		if (!plan_by_number(stats, n, &plan) || hjg_pack_plan_is_empty(&plan))
			continue;
		hjg_pack_price(stats, &plan, costs, &price);
		ns = price.bytes / bytes_per_ns + price.unpack_ns / nworkers;
		if (ns < least)
		{
			least = ns;
			best = plan;
		}
	}
	return best;
}
