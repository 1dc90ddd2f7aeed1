/*
 * hjg_measured.h
 *	  Statistics of measured values.
 *
 * Room "model".  The functions sort the n > 0 values, which have any unit.
 */
#ifndef HJG_MEASURED_H
#define HJG_MEASURED_H

/* Sort in ascending order. */
extern void hjg_sort_measured(double *values, int n);

/* Find the value with a fraction part (0 to 1) of the others below it; the nearest one. */
extern double hjg_percentile(double *values, int n, double part);

/* Find the median; the larger one of two in the middle. */
extern double hjg_median(double *values, int n);

/* A value with a weight of at least 0. */
typedef struct HjgWeighted
{
	double		value;
	double		weight;
} HjgWeighted;

/*
 * Average the values without the fraction part (below 0.5) of the weight at either end; 0 when all weights
 * are 0.  Sums of such means are means of sums.  Sums of medians are not, where some values are much
 * larger than the rest.
 */
extern double hjg_trimmed_mean(HjgWeighted *values, int n, double part);

/* Compute half the width of the middle two thirds: for normal values the standard deviation. */
extern double hjg_spread(double *values, int n);

#endif							/* HJG_MEASURED_H */
