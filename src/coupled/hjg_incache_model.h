/*
 * hjg_incache_model.h
 *	  In-cache co-processing: what prefetching (P), decompression (D) and execution (E) take when
 *	  units are divided among them, and the best division.
 *
 * Equations 1 to 10 of He, Zhang and He (VLDB 2015), section 4.  Where they count
 * instructions and divide by the peak rate, this model has times a row that were measured in
 * cache; and where they have a latency to memory, the time a byte by which the same
 * work was slower out of cache; a line that another unit fetched saves a part of it that is measured, too,
 * since it need not end up in a cache that the reader shares.
 *
 * Work groups are the device's units where all of them run at once.  Where there are more of them than cores, such as on a CPU
 * device, those that decompress come first and leave their cores to those that execute when they are done: the cores are the
 * units then.  Once nothing is left to decompress, launches that execute have all work groups.  And to what rows take comes what joins of some thousand rows spend their time in: what windows take beside their rows, threads
 * that are started for a task of their own, and that nobody executes in the first window before it is unpacked, or unpacks behind the last one.
 */
#ifndef HJG_INCACHE_MODEL_H
#define HJG_INCACHE_MODEL_H

#include "coupled/hjg_coupled_model.h"

/* A series over nrows rows whose keys are unpacked first; "all units" of a processor. */
typedef struct HjgInCacheShape
{
	double		nrows;
	double		packed_bytes;	/* N of D; 0: nothing is unpacked */
	double		touched_bytes;	/* N of E: lines of its random accesses */
	double		fetch_bytes_per_ns; /* B: one unit streams from memory */
	double		fetch_work_ns;	/* a byte: what a fetch costs beside that */
	double		fetch_gain;		/* part of a miss's time that is saved where the line was fetched by another unit */
	double		unpack_ns[HJG_PROCESSORS];	/* comp_D: all rows, in cache, all units */
	/* where the other processor executes nothing, and where it does, too */
	double		execute_ns[2][HJG_PROCESSORS];	/* comp_E: all steps of all rows, in cache, all units */
	double		miss_ns[2][HJG_PROCESSORS]; /* L_M - L_C: a byte from memory, not from cache, all units */
	HjgUnits	all;			/* .cpu_e and .device_e: how many threads and work groups there are */
	int			device_cores;	/* work groups that run at once; 0: all of them */
	bool		one_side;		/* E is on one processor, whichever is faster */
	double		cross_ns;		/* of all rows, before they are on the device */
	double		window_rows;	/* at a time where somebody decompresses or fetches; 0, and otherwise: all are one */
	double		window_ns;		/* a window, beside its rows */
	double		rest_ns;		/* all rows, of what is no step */
	double		start_ns;		/* a set of threads that fetch, or that decompress: of one, */
	double		thread_ns;		/* and each further one */
} HjgInCacheShape;

typedef struct HjgInCacheTimes
{
	double		fetch_bytes_per_ns; /* R_P, equation 1; 0 without a fetcher */
	double		decompress_ns;	/* T_D, equation 5 */
	double		execute_ns;		/* T_E, equations 6 and 7 */
	double		total_ns;		/* what equation 10 minimises: the longer of the two, and what they are not at work together */
} HjgInCacheTimes;

extern void hjg_incache_predict(const HjgInCacheShape *shape, const HjgUnits *units, HjgInCacheTimes *times);

/*
 * All divisions that equations 8 and 9 allow; accept (with its argument) may refuse some.  The one with
 * the least total, and its times.
 */
typedef bool (*HjgUnitsFilter) (const HjgUnits *units, const void *arg);
extern HjgUnits hjg_incache_choose(const HjgInCacheShape *shape, HjgUnitsFilter accept, const void *arg,
								   HjgInCacheTimes *times);

#endif							/* HJG_INCACHE_MODEL_H */
