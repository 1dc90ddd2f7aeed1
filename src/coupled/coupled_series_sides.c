/*
 * coupled_series_sides.c
 *	  Ratios for a device that works on copies.
 *
 * Here a series determines costs of later ones: rows that the next series processes on the other side
 * cross the bus, and so does the table.  A series that scatters is on one side.  The side is chosen by the
 * time of the series plus the least time of the rest of the join, which is assumed to run on one side, the
 * same or the other.  So no choice is predicted to be worse than the whole join on one side.  The probe
 * side is assumed to have as many rows as the build side; it usually has more, which later decisions see.
 *
 * Rows write their pairs (p4) on the side that counted them (p1 to p3), so p4 is considered together with
 * these steps.
 */
#include <math.h>
#include <string.h>

#include "coupled/hjg_coupled_internal.h"

/* Factor by which a division must be faster than one side alone, because predictions err by as much. */
#define SHARE_MARGIN 1.1

/* Steps that are still to come. */
#define MOST_STEPS 16

typedef struct Rest
{
	int			nsteps;
	HjgStep		steps[MOST_STEPS];
} Rest;

static void
add_steps(Rest *rest, const HjgStep *steps, int nsteps)
{
	for (int i = 0; i < nsteps; i++)
		rest->steps[rest->nsteps++] = steps[i];
}

/* Find the steps that follow a series that scatters. */
static Rest
rest_behind(const HjgCoupled *join, const HjgSeries *series)
{
	static const HjgStep partitioning[] = {HJG_STEP_HASH, HJG_STEP_N2, HJG_STEP_N3};
	static const HjgStep building[] = {HJG_STEP_NUMBER, HJG_STEP_B2, HJG_STEP_B3, HJG_STEP_B4};
	static const HjgStep probing[] = {HJG_STEP_P2, HJG_STEP_P3, HJG_STEP_P4};
	static const HjgStep scatter = HJG_STEP_N3;
	static const HjgStep hash = HJG_STEP_HASH;
	static const HjgStep number = HJG_STEP_NUMBER;
	const HjgStep last = series->steps[series->nsteps - 1];
	const bool	partitioned = hjg_coupled_is_partitioned(join);
	Rest		rest = {0};

	if (last == HJG_STEP_N2)
		add_steps(&rest, &scatter, 1);
	if (last != HJG_STEP_B4 && series->building)
		add_steps(&rest, building, 4);
	if (series->building && partitioned)
		add_steps(&rest, partitioning, 3);
	add_steps(&rest, series->building && !partitioned ? &hash : &number, 1);
	add_steps(&rest, probing, 3);
	return rest;
}

/* Compute the time of these steps on one processor alone, from the places of the rows after the series. */
static double
rest_ns(const HjgCoupled *join, const HjgSeries *series, const Rest *rest, HjgProcessor processor, HjgPlaces places)
{
	const HjgStepCosts *costs = join->config.costs;
	const bool	partitioned = hjg_coupled_is_partitioned(join);
	const double table_rows = (double) join->part->nrows;
	const HjgRowsShape rows = hjg_series_rows_shape(join, series);
	HjgCopies	to[HJG_PROCESSORS] = {{0, 0}, {0, 0}};
	double		ns = 0;

	for (int i = 0; i < rest->nsteps; i++)
	{
		const HjgStep step = rest->steps[i];

		hjg_places_host_wrote(&places, hjg_step_use[step].host_writes);
		hjg_places_step(&places, &rows, step, processor == HJG_ON_CPU ? 1 : 0, to);
		hjg_places_host_reads(&places, &rows, hjg_step_use[step].host_reads, &to[HJG_ON_CPU]);
		ns += rows.nrows * hjg_series_slowdown(join, processor) *
			hjg_step_cost_ns(costs, costs->alone_ns[partitioned], processor, step, table_rows) +
			(processor == HJG_ON_CPU ? costs->piece_ns : hjg_size_cost_ns(costs, costs->launch_ns[partitioned], table_rows));
	}
	for (int p = 0; p < HJG_PROCESSORS; p++)
	{
		const HjgCopyCost cost = hjg_copy_cost(costs, costs->copy[p], table_rows);

		ns += hjg_copies_ns(&cost, &to[p]);
	}
	return ns;
}

/* Compute the least time of the rest of the join on one side. */
static double
follow_ns(const HjgCoupled *join, const HjgSeries *series, HjgProcessor from)
{
	const Rest	rest = rest_behind(join, series);
	const bool	builds = series->steps[series->nsteps - 1] == HJG_STEP_B4;
	const HjgRowsShape rows = hjg_series_rows_shape(join, series);
	HjgPlaces	places = join->places;
	double		ns[HJG_PROCESSORS];

	for (int i = 0; i < series->nsteps; i++)
	{
		HjgCopies	to[HJG_PROCESSORS] = {{0, 0}, {0, 0}};

		hjg_places_step(&places, &rows, series->steps[i], from == HJG_ON_CPU ? 1 : 0, to);
	}
	for (int p = 0; p < HJG_PROCESSORS; p++)
		ns[p] = rest_ns(join, series, &rest, (HjgProcessor) p, places) +
			(builds && p != (int) from ? hjg_copies_table_ns(join, (HjgProcessor) p, (double) join->part->nrows, (double) join->part->table.bytes) : 0);
	return fmin(ns[HJG_ON_CPU], ns[HJG_ON_DEVICE]);
}

/* Search the ratios of a series that scatters; with PL, the ratio of the first step is free if that step does not scatter. */
static void
search_scattering(const HjgCoupled *join, const HjgSeries *series, double *ratios)
{
	const HjgSeriesShape shape = hjg_series_shape(join, series);
	const HjgScheme scheme = hjg_series_scheme(join, series);
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
	hjg_series_search(&shape, hjg_series_scheme(join, series), found);
	memcpy(ratios, found, sizeof(double) * (size_t) series->nsteps);
}
