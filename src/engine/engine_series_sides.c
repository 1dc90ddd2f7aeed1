/*
 * engine_series_sides.c
 *	  Ratios where the device works on copies.
 *
 * There what a series leaves behind matters to those that follow: rows that the next one takes on the other side cross the bus, and so
 * does the table.  A series that scatters is on one side; which one is decided by its own time and by what follows at the least: all
 * the rest of the join on one side, the same or the other.  So no choice is predicted to be worse than to stay on one side for good.
 * That the probe side has as many rows as the build side is an assumption: it has more as a rule, which the next decision sees.
 *
 * Rows that count their pairs (p1 to p3) stay where they are to write them, so p4 is looked at together with those steps.
 */
#include <math.h>
#include <string.h>

#include "engine/hjg_coupled_internal.h"

/* Work for a second side must be worth so much: predictions err by as much. */
#define SHARE_MARGIN 1.1

/* What still comes for a row, in steps. */
typedef struct Rest
{
	int			times[HJG_STEP_COUNT];
} Rest;

static void
add_partitioning(Rest *rest)
{
	rest->times[HJG_STEP_HASH]++;
	rest->times[HJG_STEP_N2]++;
	rest->times[HJG_STEP_N3]++;
	rest->times[HJG_STEP_NUMBER]++;
}

static void
add_probe(Rest *rest, bool hashes, bool partitioned)
{
	if (partitioned && hashes)
		add_partitioning(rest);
	else
		rest->times[partitioned ? HJG_STEP_NUMBER : HJG_STEP_HASH]++;
	rest->times[HJG_STEP_P2]++;
	rest->times[HJG_STEP_P3]++;
	rest->times[HJG_STEP_P4]++;
}

/* Behind a series that scatters. */
static Rest
rest_behind(const HjgCoupled *join, const HjgSeries *series)
{
	const HjgStep last = series->steps[series->nsteps - 1];
	const bool	partitioned = hjg_coupled_is_partitioned(join);
	Rest		rest = {{0}};

	if (last == HJG_STEP_N2)
		rest.times[HJG_STEP_N3]++;
	if (last != HJG_STEP_B4 && series->building)
	{
		rest.times[HJG_STEP_NUMBER]++;
		rest.times[HJG_STEP_B2]++;
		rest.times[HJG_STEP_B3]++;
		rest.times[HJG_STEP_B4]++;
	}
	if (series->building)
		add_probe(&rest, true, partitioned);
	else
		add_probe(&rest, false, true);
	return rest;
}

/* All of it on one processor alone. */
static double
rest_ns(const HjgCoupled *join, const Rest *rest, HjgProcessor processor, double nrows)
{
	const HjgStepCosts *costs = join->config.costs;
	const bool	partitioned = hjg_coupled_is_partitioned(join);
	const double table_rows = (double) join->part->nrows;
	double		ns = 0;

	for (int i = 0; i < HJG_STEP_COUNT; i++)
		if (rest->times[i] > 0)
			ns += rest->times[i] * (nrows * hjg_series_slowdown(join, processor) *
									hjg_step_cost_ns(costs, costs->alone_ns[partitioned], processor, (HjgStep) i, table_rows) +
									(processor == HJG_ON_CPU ? costs->piece_ns :
									 hjg_size_cost_ns(costs, costs->launch_ns[partitioned], table_rows)));
	return ns;
}

/* Until a processor has what a series leaves on the other one. */
static double
crossing_ns(const HjgCoupled *join, const HjgSeries *series, HjgProcessor to)
{
	const HjgStepCosts *costs = join->config.costs;

	return series->steps[series->nsteps - 1] == HJG_STEP_B4 ? costs->move_ns[to] * (double) join->part->table.bytes :
		costs->exchange_ns[to] * series->nrows;
}

/* What follows at the least, on one side alone. */
static double
follow_ns(const HjgCoupled *join, const HjgSeries *series, HjgProcessor from)
{
	const Rest	rest = rest_behind(join, series);
	const HjgProcessor other = (HjgProcessor) (1 - from);

	return fmin(rest_ns(join, &rest, from, series->nrows),
				rest_ns(join, &rest, other, series->nrows) + crossing_ns(join, series, other));
}

/* A series that scatters: of PL the ratio of the first step, if that does not, is free. */
static void
search_scattering(const HjgCoupled *join, const HjgSeries *series, double *ratios)
{
	const HjgSeriesShape shape = hjg_series_shape(join, series);
	const HjgScheme scheme = hjg_coupled_scheme(join);
	const bool	has_free = scheme != HJG_SCHEME_DD && hjg_series_last_scatter(series) > 0 && !hjg_step_scatters(series->steps[0]);
	const int	npoints = scheme == HJG_SCHEME_OL ? 1 : (int) (1 / HJG_RATIO_STEP + 0.5);
	double		best_ns = HUGE_VAL;

	for (int p = 0; p < HJG_PROCESSORS; p++)
	{
		const double side = p == HJG_ON_CPU ? 1 : 0;
		const double behind_ns = follow_ns(join, series, (HjgProcessor) p);

		for (int k = 0; k <= (has_free ? npoints : 0); k++)
		{
			double		here[HJG_SERIES_STEPS];
			HjgSeriesTimes times;
			double		ns;

			for (int i = 0; i < series->nsteps; i++)
				here[i] = i == 0 && has_free ? (double) k / npoints : side;
			hjg_series_predict(&shape, here, &times);
			ns = times.total_ns * (here[0] == side ? 1 : SHARE_MARGIN) + behind_ns;
			if (ns >= best_ns)
				continue;
			best_ns = ns;
			memcpy(ratios, here, sizeof(double) * (size_t) series->nsteps);
		}
	}
}

void
hjg_series_search_sides(const HjgCoupled *join, const HjgSeries *series, double *ratios)
{
	HjgSeries	with_pairs = *series;
	double		found[HJG_SERIES_STEPS];
	HjgSeriesShape shape;

	if (hjg_series_last_scatter(series) >= 0)
	{
		search_scattering(join, series, ratios);
		return;
	}
	if (series->steps[series->nsteps - 1] == HJG_STEP_P3 && series->nsteps < HJG_SERIES_STEPS)
		with_pairs.steps[with_pairs.nsteps++] = HJG_STEP_P4;
	shape = hjg_series_shape(join, &with_pairs);
	hjg_series_search(&shape, hjg_coupled_scheme(join), found);
	memcpy(ratios, found, sizeof(double) * (size_t) series->nsteps);
}
