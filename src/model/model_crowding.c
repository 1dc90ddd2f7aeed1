/*
 * model_crowding.c
 *	  What processes that do the same work at once lose to one another: they share memory, caches, units of a core and its clock.
 *
 * That is taken to be linear in their number, up to that of the processors, by a slope for each kind of work.  No price includes it: core's
 * prices do not either, and its plans lose as much.  It is in the times that EXPLAIN shows, and where the processes of a plan are compared with a GPU.
 */
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
hjg_model_crowded_reading_ns(const HjgUnitCosts *costs, const HjgScanTimes *scan, double marshal_ns, double wait_ns, double nprocesses)
{
	const double own_ns = scan->own_ns < marshal_ns ? scan->own_ns : marshal_ns;
	const double pages_ns = scan->own_ns > 0 ? own_ns * (1 - scan->kept_ns / scan->own_ns) : 0;

	return (pages_ns + wait_ns) * hjg_model_crowding(costs, HJG_WORK_PAGES, nprocesses) +
		(marshal_ns - pages_ns) * hjg_model_crowding(costs, HJG_WORK_CACHED, nprocesses) +
		scan->map_ns * hjg_model_crowding(costs, HJG_WORK_MAPPING, nprocesses);
}
