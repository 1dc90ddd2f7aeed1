/*
 * hjg_incache_model.h
 *	  In-cache co-processing: the times of prefetching (P), decompression (D) and execution (E) when
 *	  units are divided among them, and the best division.
 *
 * Equations 1 to 10 of He, Zhang and He (VLDB 2015), section 4.  Instead of the paper's instructions
 * divided by the peak rate, this model uses times a row measured in cache; instead of the latency of
 * memory, the time a byte by which the same work is slower out of cache.  A line fetched by another unit
 * saves only a part of that time, because it may be in a cache that the reader does not share; this part
 * is measured, too.
 *
 * Work groups are the device's units if all of them run at once.  If there are more work groups than
 * cores, such as on a CPU device, the cores are the units: work groups that decompress come first, and
 * then leave their cores to those that execute.  Once nothing is left to decompress, launches that execute
 * have all work groups.  The model also counts the times that dominate joins of some thousand rows: the
 * fixed time of a window, the start of threads for a task, the first window, which must be unpacked before
 * it is executed, and the last one, during which nothing is unpacked.
 */
#ifndef HJG_INCACHE_MODEL_H
#define HJG_INCACHE_MODEL_H

#include "coupled/hjg_coupled_model.h"

/* A series over nrows rows whose keys are unpacked first.  "all units" means all of a processor's. */
typedef struct HjgInCacheShape
{
	double		nrows;
	double		packed_bytes;	/* N of D; 0: nothing is unpacked */
	double		touched_bytes;	/* N of E: lines of its random accesses */
	double		fetch_bytes_per_ns; /* B: one unit streams from memory */
	double		fetch_work_ns;	/* added time of a fetch, a byte */
	double		fetch_gain;		/* part of a miss's time that another unit's fetching saves */
	double		unpack_ns[HJG_PROCESSORS];	/* comp_D: all rows, in cache, all units */
	/* indexed by whether the other processor executes, too */
	double		execute_ns[2][HJG_PROCESSORS];	/* comp_E: all steps of all rows, in cache, all units */
	double		miss_ns[2][HJG_PROCESSORS]; /* L_M - L_C: a byte from memory, not from cache, all units */
	HjgUnits	all;			/* .cpu_e and .device_e: numbers of threads and work groups */
	int			device_cores;	/* work groups that run at once; 0: all of them */
	bool		one_side;		/* E runs on one processor, the faster one */
	double		cross_ns;		/* of all rows, before they are on the device */
	double		window_rows;	/* of a window, if some units decompress or fetch; 0, or without these: one
								 * window of all rows */
	double		window_ns;		/* fixed time of a window */
	double		rest_ns;		/* all rows, outside of steps */
	double		start_ns;		/* a set of threads that fetch or decompress: of one thread */
	double		thread_ns;		/* of each further thread */
} HjgInCacheShape;

typedef struct HjgInCacheTimes
{
	double		fetch_bytes_per_ns; /* R_P, equation 1; 0 without a fetcher */
	double		decompress_ns;	/* T_D, equation 5 */
	double		execute_ns;		/* T_E, equations 6 and 7 */
	double		total_ns;		/* minimised as in equation 10: the longer of the two, and the time that
								 * they do not overlap */
} HjgInCacheTimes;

extern void hjg_incache_predict(const HjgInCacheShape *shape, const HjgUnits *units, HjgInCacheTimes *times);

/*
 * Choose the division with the least total among those that equations 8 and 9 allow and accept (with its
 * argument) does not refuse; also returns its times.
 */
typedef bool (*HjgUnitsFilter) (const HjgUnits *units, const void *arg);
extern HjgUnits hjg_incache_choose(const HjgInCacheShape *shape, HjgUnitsFilter accept, const void *arg,
								   HjgInCacheTimes *times);

#endif							/* HJG_INCACHE_MODEL_H */
