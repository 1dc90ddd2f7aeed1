/*
 * model_incache.c
 *	  Equations 1 to 10 of in-cache co-processing, and the search over divisions of units.
 */
#include "model/hjg_incache_model.h"

#include <math.h>

/* Work that all units of both sides do in ns each, by a part of each; nobody: never. */
static double
shared_ns(const HjgInCacheShape *shape, const double *ns, int cpu, int device)
{
	double		rate = 0;

	/* somebody needs no time for it */
	if ((cpu > 0 && ns[HJG_ON_CPU] <= 0) || (device > 0 && ns[HJG_ON_DEVICE] <= 0))
		return 0;
	if (cpu > 0)
		rate += cpu / (double) shape->all.cpu_e / ns[HJG_ON_CPU];
	if (device > 0)
		rate += device / (double) shape->all.device_e / ns[HJG_ON_DEVICE];
	return rate > 0 ? 1 / rate : HUGE_VAL;
}

/*
 * Equations 3 and 4: bytes that P did not fetch while the work went on come from memory.  The
 * misses of the units that work are shared by them as the work is.
 */
static double
memory_ns(const HjgInCacheShape *shape, double bytes, double work_ns, double fetch_bytes_per_ns, int cpu, int device)
{
	const double fetched = fmin(work_ns * fetch_bytes_per_ns, bytes);

	/* nobody at work has no misses */
	return cpu + device > 0 ? (bytes - fetched * shape->fetch_gain) * shared_ns(shape, shape->miss_ns, cpu, device) : 0;
}

void
hjg_incache_predict(const HjgInCacheShape *shape, const HjgUnits *units, HjgInCacheTimes *times)
{
	double		work_ns = shared_ns(shape, shape->execute_ns, units->cpu_e, units->device_e);

	*times = (HjgInCacheTimes) {.fetch_bytes_per_ns = 0};
	if (units->cpu_p > 0)
		times->fetch_bytes_per_ns = units->cpu_p / (1 / shape->fetch_bytes_per_ns + shape->fetch_work_ns);
	/* one fetcher serves both; D reads far fewer bytes than E touches */
	times->execute_ns = work_ns + memory_ns(shape, shape->touched_bytes, work_ns, times->fetch_bytes_per_ns, units->cpu_e,
											units->device_e);
	if (shape->packed_bytes > 0)
	{
		work_ns = shared_ns(shape, shape->unpack_ns, units->cpu_d, units->device_d);
		times->decompress_ns = work_ns + memory_ns(shape, shape->packed_bytes, work_ns, times->fetch_bytes_per_ns,
												   units->cpu_d, units->device_d);
	}
	times->execute_ns = fmax(times->execute_ns, times->decompress_ns);
	times->total_ns = fmax(times->decompress_ns, times->execute_ns);
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
