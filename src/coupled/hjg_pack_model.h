/*
 * hjg_pack_model.h
 *	  Prices of compression plans of a column, and the choice of the best plan.
 *
 * The compression planner of Fang, He and Luo (VLDB 2010) as adapted by He, Zhang and He (VLDB 2015):
 * every cascade that the schemes allow is priced from statistics of the column, and the cheapest is taken.
 * The price of a row is the time to move its packed bytes plus the time to unpack it, so if moving is
 * cheap, the plan with the fewest bytes is not chosen.
 */
#ifndef HJG_PACK_MODEL_H
#define HJG_PACK_MODEL_H

#include <stdbool.h>
#include <stddef.h>

#include "layout/hjg_packed.h"

/* Bits that the values of a stream need, averaged over the sampled blocks. */
typedef struct HjgPackShape
{
	double		bits;			/* NS */
	double		bytes;			/* NSV, without the 4 bits */
} HjgPackShape;

typedef struct HjgPackStats
{
	int			width;			/* of the column: 4 or 8 */
	hjg_u32		nrows;
	double		run_rows;		/* rows of a run */
	int			scale;			/* decimal digits + 1 by which all values become integers; 0: none */
	hjg_u32		ndistinct;		/* HJG_PACK_MAX_DICT + 1: too many for a dictionary */
	HjgPackShape shapes[2][2][2][2];	/* scaled, of runs, Delta, FOR */
	HjgPackShape lengths;		/* of runs */
} HjgPackStats;

/* Unit costs of unpacking on one worker. */
typedef struct HjgPackCosts
{
	double		leaf_ns[3];		/* a value: plain, NS, NSV */
	double		delta_ns;		/* added to that */
	double		dict_ns;
	double		scale_ns;
	double		row_ns;			/* a row of a run */
	double		check_ns;		/* checksum, a packed byte */
} HjgPackCosts;

typedef struct HjgPackPrice
{
	double		bytes;			/* a row */
	double		unpack_ns;		/* a row, on one worker */
} HjgPackPrice;

extern void hjg_pack_price(const HjgPackStats *stats, const HjgPackPlan *plan, const HjgPackCosts *costs,
						   HjgPackPrice *price);

/*
 * Choose the plan with the least time a row, if bytes move at bytes_per_ns and nworkers unpack; the empty
 * plan when none is better than unpacked bytes.  costs NULL: the fewest bytes.
 */
extern HjgPackPlan hjg_pack_choose(const HjgPackStats *stats, const HjgPackCosts *costs, double bytes_per_ns,
								   int nworkers);

/* True if the plan changes nothing. */
extern bool hjg_pack_plan_is_empty(const HjgPackPlan *plan);

#endif							/* HJG_PACK_MODEL_H */
