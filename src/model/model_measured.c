/*
 * model_measured.c
 *	  What becomes of measured values: calibration and benchmarks take medians.
 */
#include <stdlib.h>

#include "model/hjg_measured.h"

static int
compare_doubles(const void *a, const void *b)
{
	const double x = *(const double *) a;
	const double y = *(const double *) b;

	return (x > y) - (x < y);
}

void
hjg_sort_measured(double *values, int n)
{
	qsort(values, (size_t) n, sizeof(double), compare_doubles);
}

double
hjg_percentile(double *values, int n, double part)
{
	hjg_sort_measured(values, n);
	return values[(int) (part * (n - 1) + 0.5)];
}

double
hjg_median(double *values, int n)
{
	return hjg_percentile(values, n, 0.5);
}
