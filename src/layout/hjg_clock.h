/*
 * hjg_clock.h
 *	  A monotonic clock for durations and limits, the same in all processes, and the time of day.
 */
#ifndef HJG_CLOCK_H
#define HJG_CLOCK_H

#include <time.h>

#include "layout/hjg_layout.h"

/* Monotonic nanoseconds. */
static inline hjg_u64
hjg_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (hjg_u64) now.tv_sec * 1000000000u + (hjg_u64) now.tv_nsec;
}

/* Microseconds since the Unix epoch. */
static inline hjg_u64
hjg_wall_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (hjg_u64) now.tv_sec * 1000000u + (hjg_u64) now.tv_nsec / 1000;
}

#endif							/* HJG_CLOCK_H */
