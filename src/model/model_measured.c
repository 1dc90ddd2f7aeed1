/*
 * model_measured.c
 *	  Averages of measured values: calibration takes trimmed means, benchmarks take medians.
 */
#include <math.h>
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

static int
compare_weighted(const void *a, const void *b)
{
	return compare_doubles(&((const HjgWeighted *) a)->value, &((const HjgWeighted *) b)->value);
}

double
hjg_trimmed_mean(HjgWeighted *values, int n, double part)
{
	double		weight = 0;
	double		passed = 0;
	double		sum = 0;
	double		taken = 0;

	qsort(values, (size_t) n, sizeof(HjgWeighted), compare_weighted);
	for (int i = 0; i < n; i++)
		weight += values[i].weight;
	for (int i = 0; i < n; i++)
	{
		/* the part of its weight that lies in neither trimmed end */
		const double from = fmax(passed, part * weight);
		const double to = fmin(passed + values[i].weight, (1 - part) * weight);

		passed += values[i].weight;
		if (to <= from)
			continue;
		sum += values[i].value * (to - from);
		taken += to - from;
	}
	return taken > 0 ? sum / taken : 0;
}

double
hjg_spread(double *values, int n)
{
	const double low = hjg_percentile(values, n, 1.0 / 6);

	return (hjg_percentile(values, n, 5.0 / 6) - low) / 2;
}
