/*
 * model_crowding.c
 *	  Predicts the slowdown of processes that do the same work at once: they share memory, caches, units of a core and its clock.
 *
 * A reader waits for memory. Meanwhile it finds the rows, and does as much of its other work as calibration has found that rows from memory are walked in
 * less time beside that. It is little: few lines can be on their way at once, and the fetching of a page is nearly done when its rows are walked.
 *
 * The slowdown is taken to be linear in their number, up to that of the processors, by a slope for each kind of work.  No price includes it: core's
 * prices do not either, and its plans lose as much.  It is in the times that EXPLAIN shows, and where the processes of a plan are compared with a GPU.
 */
#include <math.h>

#include "model/hjg_model.h"

double
hjg_model_crowding(const HjgUnitCosts *costs, HjgWork work, double nprocesses)
{
	return 1 + costs->crowding[work] * (nprocesses - 1);
}

double
hjg_model_crowding_of(const double *nprocesses, const double *times, int n)
{
	double		products = 0;
	double		squares = 0;

	for (int i = 1; i < n; i++)
	{
		const double further = nprocesses[i] - 1;

		products += further * (times[i] / times[0] - 1);
		squares += further * further;
	}
	if (products <= 0)
		return 0;
	/* taking turns, each would take as long as all together */
	return products < squares ? products / squares : 1;
}

double
hjg_model_mappers(double nprocesses, double nranges)
{
	return nprocesses > 1 ? nprocesses * (1 - pow(1 - 1 / nprocesses, nranges)) : 1;
}

/* Find the part of a reader's own work, besides finding rows, that goes on while memory supplies them. */
static double
hidden_share(const HjgUnitCosts *costs)
{
	return costs->far_walk_ns < costs->walk_ns ? 1 - costs->far_walk_ns / costs->walk_ns : 0;
}

double
hjg_model_crowded_reading_ns(const HjgUnitCosts *costs, const HjgScanTimes *scan, double marshal_ns, double nprocesses)
{
	const double cached = hjg_model_crowding(costs, HJG_WORK_CACHED, nprocesses);
	const double own_ns = scan->own_ns < marshal_ns ? scan->own_ns : marshal_ns;
	const double pages_ns = scan->own_ns > 0 ? own_ns * (1 - scan->kept_ns / scan->own_ns) : 0;
	const double found_ns = scan->found_ns < pages_ns ? scan->found_ns : pages_ns;
	const double hidden_ns = found_ns + hidden_share(costs) * (pages_ns - found_ns);
	const double wait_ns = scan->memory_ns * hjg_model_crowding(costs, HJG_WORK_PAGES, nprocesses) - hidden_ns * cached;

	return marshal_ns * cached + (wait_ns > 0 ? wait_ns : 0) +
		(scan->map_ns + scan->map_others_ns) * hjg_model_crowding(costs, HJG_WORK_MAPPING, nprocesses);
}
