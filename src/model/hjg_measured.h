/*
 * hjg_measured.h
 *	  Statistics of measured values.
 *
 * Room "model".  Functions sort the n > 0 values, which have any unit.
 */
#ifndef HJG_MEASURED_H
#define HJG_MEASURED_H

/* Sort in ascending order. */
extern void hjg_sort_measured(double *values, int n);

/* Find the value with part (0 to 1) of the others below it, the nearest there is. */
extern double hjg_percentile(double *values, int n, double part);

/* Find the median; of two in the middle the larger one. */
extern double hjg_median(double *values, int n);

/* A value with a weight of at least 0. */
typedef struct HjgWeighted
{
	double		value;
	double		weight;
} HjgWeighted;

/*
 * Average without those at either end, each of which have such a part (below 0.5) of the weight; 0 when all weights are.  Sums of such means
 * are means of sums, which medians' are not where some values are much larger than the rest.
 */
extern double hjg_trimmed_mean(HjgWeighted *values, int n, double part);

/* Compute half of the width of the middle two thirds: of normal values the standard deviation. */
extern double hjg_spread(double *values, int n);

#endif							/* HJG_MEASURED_H */
