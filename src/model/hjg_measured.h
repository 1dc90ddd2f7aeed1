/*
 * hjg_measured.h
 *	  Statistics of measured values.
 *
 * Room "model".  Functions sort the n > 0 values, which have any unit.
 */
#ifndef HJG_MEASURED_H
#define HJG_MEASURED_H

/* In ascending order. */
extern void hjg_sort_measured(double *values, int n);

/* The value with part (0 to 1) of the others below it, the nearest there is. */
extern double hjg_percentile(double *values, int n, double part);

/* Of two in the middle the larger one. */
extern double hjg_median(double *values, int n);

#endif							/* HJG_MEASURED_H */
