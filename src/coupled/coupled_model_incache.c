/*
 * coupled_model_incache.c
 *	  Equations 1 to 10 of in-cache co-processing, and the search over divisions of units.
 */
#include "coupled/hjg_incache_model.h"

#include <math.h>

static int
least_int(int a, int b)
{
	return a < b ? a : b;
}

static int
device_cores(const HjgInCacheShape *shape)
{
	return shape->device_cores > 0 ? shape->device_cores : shape->all.device_e;
}

/*
 * Compute the time of work by some threads and device cores, of which all units of each side need ns;
 * infinite without units.
 */
static double
shared_ns(const HjgInCacheShape *shape, const double *ns, int cpu, int cores)
{
	double		rate = 0;

	/* a side needs no time for it */
	if ((cpu > 0 && ns[HJG_ON_CPU] <= 0) || (cores > 0 && ns[HJG_ON_DEVICE] <= 0))
		return 0;
	if (cpu > 0)
		rate += cpu / (double) shape->all.cpu_e / ns[HJG_ON_CPU];
	if (cores > 0)
		rate += cores / (double) device_cores(shape) / ns[HJG_ON_DEVICE];
	return rate > 0 ? 1 / rate : HUGE_VAL;
}

/*
 * Compute equations 3 and 4: bytes that P does not fetch during the work come from memory.  Misses are
 * divided among the working units as the work is.
 */
static double
memory_ns(const HjgInCacheShape *shape, double bytes, double work_ns, double fetch_bytes_per_ns, int cpu, int cores)
{
	const double fetched = fmin(work_ns * fetch_bytes_per_ns, bytes);
	const bool	together = cpu > 0 && cores > 0;

	/* without working units there are no misses */
	return cpu + cores > 0 ? (bytes - fetched * shape->fetch_gain) * shared_ns(shape, shape->miss_ns[together], cpu, cores) : 0;
}

/* Compute equation 6: E of all rows by some threads and cores, including its waits for memory. */
static double
execute_ns(const HjgInCacheShape *shape, double fetch_bytes_per_ns, int cpu, int cores)
{
	double		work_ns;

	if (shape->one_side && cpu > 0 && cores > 0)
		return fmin(execute_ns(shape, fetch_bytes_per_ns, cpu, 0), execute_ns(shape, fetch_bytes_per_ns, 0, cores));
	work_ns = shared_ns(shape, shape->execute_ns[cpu > 0 && cores > 0], cpu, cores);
	return isinf(work_ns) ? work_ns : work_ns + memory_ns(shape, shape->touched_bytes, work_ns, fetch_bytes_per_ns, cpu, cores) +
		(cores > 0 ? shape->cross_ns : 0);
}

/* Predict the start of a set of threads. */
static double
start_ns(const HjgInCacheShape *shape, int nthreads)
{
	return nthreads > 0 ? shape->start_ns + shape->thread_ns * (nthreads - 1) : 0;
}

void
hjg_incache_predict(const HjgInCacheShape *shape, const HjgUnits *units, HjgInCacheTimes *times)
{
	/* D has some of the device's cores first, and E the others; then E has all */
	const int	cores_d = least_int(units->device_d, device_cores(shape));
	const int	cores_e = least_int(units->device_e, device_cores(shape) - cores_d);
	const bool	has_windows = shape->window_rows > 0 && units->cpu_p + units->cpu_d + units->device_d > 0;
	const double first = has_windows ? fmin(shape->window_rows / fmax(shape->nrows, 1), 1) : 0; /* share of rows */
	double		beside_ns;		/* E while D works, if that took all of its rows */
	double		behind_ns;		/* E after D */

	*times = (HjgInCacheTimes) {.fetch_bytes_per_ns = 0};
	if (units->cpu_p > 0)
		times->fetch_bytes_per_ns = units->cpu_p / (1 / shape->fetch_bytes_per_ns + shape->fetch_work_ns);
	/* one fetcher serves both; D reads far fewer bytes than E touches */
	if (shape->packed_bytes > 0)
	{
		const double work_ns = shared_ns(shape, shape->unpack_ns, units->cpu_d, cores_d);

		times->decompress_ns = work_ns + memory_ns(shape, shape->packed_bytes, work_ns, times->fetch_bytes_per_ns,
												   units->cpu_d, cores_d);
	}
	beside_ns = execute_ns(shape, times->fetch_bytes_per_ns, units->cpu_e, cores_e);
	behind_ns = execute_ns(shape, times->fetch_bytes_per_ns, units->cpu_e, units->device_e > 0 ? device_cores(shape) : 0);
	times->execute_ns = beside_ns;
	if (times->decompress_ns < beside_ns)
		times->execute_ns = times->decompress_ns + behind_ns * (1 - times->decompress_ns / beside_ns);
	times->execute_ns = fmax(times->execute_ns, times->decompress_ns) + shape->rest_ns +
		shape->window_ns * (has_windows ? ceil(shape->nrows / shape->window_rows) : 1);
	/* E cannot work beside D during the first window, so that part of its work comes later */
	times->total_ns = fmax(times->decompress_ns, times->execute_ns) +
		first * fmin(times->decompress_ns / fmax(beside_ns, 1), 1) * (isinf(behind_ns) ? 0 : behind_ns) +
		start_ns(shape, units->cpu_p) + start_ns(shape, units->cpu_d);
}

HjgUnits
hjg_incache_choose(const HjgInCacheShape *shape, HjgUnitsFilter accept, const void *arg, HjgInCacheTimes *times)
{
	const int	ncpu = shape->all.cpu_e;
	const int	ngroups = shape->all.device_e;
	HjgUnits	best = shape->all;

	*times = (HjgInCacheTimes) {.total_ns = HUGE_VAL};
	for (int p = 0; p <= 1; p++)
		for (int d = 0; p + d <= ncpu; d++)
			for (int g = 0; g < ngroups; g++)
			{
				const HjgUnits units = {.cpu_p = p, .cpu_d = d, .cpu_e = ncpu - p - d, .device_d = g, .device_e = ngroups - g};
				HjgInCacheTimes here;

				if (!accept(&units, arg))
					continue;
				hjg_incache_predict(shape, &units, &here);
				if (here.total_ns < times->total_ns)
				{
					*times = here;
					best = units;
				}
			}
	return best;
}
