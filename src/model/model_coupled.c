/*
 * model_coupled.c
 *	  Equations 1 to 5 of the coupled architecture's cost model, and the search for
 *	  ratios.
 */
#include "model/hjg_coupled_model.h"

#include <math.h>
#include <string.h>

double
hjg_step_cost_ns(const HjgStepCosts *costs, bool together, HjgProcessor processor, HjgStep step, double build_rows)
{
	static const int logs[HJG_STEP_SIZES] = HJG_STEP_LOGS;
	const double (*ns)[HJG_PROCESSORS][HJG_STEP_COUNT] = together ? costs->together_ns : costs->alone_ns;
	const double rows_log = build_rows > 1 ? log2(build_rows) : 0;
	int			i = 0;
	double		share;

	while (i + 1 < costs->nsizes - 1 && rows_log >= logs[i + 1])
		i++;
	share = fmin(fmax((rows_log - logs[i]) / (logs[i + 1] - logs[i]), 0), 1);
	return ns[i][processor][step] * (1 - share) + ns[i + 1][processor][step] * share;
}

/*
 * Time of each step on each processor (equations 2 and 3, with M in the unit
 * cost), then the delays: a processor that takes more rows of step i than of step
 * i - 1 waits until the other one has made them.
 */
void
hjg_series_predict(const HjgSeriesShape *shape, const double *ratios, HjgSeriesTimes *times)
{
	double		step_ns[HJG_PROCESSORS][HJG_SERIES_STEPS];
	double		sum[HJG_PROCESSORS] = {0, 0};	/* up to step i - 1, delays included */
	double		busy[HJG_PROCESSORS] = {0, 0};

	memset(times, 0, sizeof(*times));
	for (int i = 0; i < shape->nsteps; i++)
	{
		step_ns[HJG_ON_CPU][i] = ratios[i] * shape->nrows * shape->unit_ns[HJG_ON_CPU][i];
		step_ns[HJG_ON_DEVICE][i] = (1 - ratios[i]) * shape->nrows * shape->unit_ns[HJG_ON_DEVICE][i] +
			(ratios[i] < 1 ? shape->launch_ns : 0);
		for (int p = 0; p < HJG_PROCESSORS; p++)
			busy[p] += step_ns[p][i];
	}
	/* beyond the paper: a processor is slower for as much of its time as the other one is at work */
	for (int p = 0; p < HJG_PROCESSORS; p++)
		for (int i = 0; i < shape->nsteps; i++)
			if (shape->slowdown[p][i] > 1 && busy[p] > 0)
				step_ns[p][i] *= 1 + (shape->slowdown[p][i] - 1) * fmin(busy[1 - p] / busy[p], 1);
	for (int i = 0; i < shape->nsteps; i++)
	{
		const double r = ratios[i];
		double		delay[HJG_PROCESSORS] = {0, 0};

		if (i > 0 && r > ratios[i - 1])
		{
			/* equation 4: the device makes the CPU's rows of step i - 1 first */
			const double rest = ratios[i - 1] < 1 ? (1 - r) / (1 - ratios[i - 1]) : 0;

			step_ns[HJG_ON_CPU][i] += (r - ratios[i - 1]) * shape->nrows * shape->exchange_ns;
			delay[HJG_ON_CPU] = sum[HJG_ON_DEVICE] - step_ns[HJG_ON_DEVICE][i - 1] * rest -
				(sum[HJG_ON_CPU] + step_ns[HJG_ON_CPU][i]);
		}
		else if (i > 0 && r < ratios[i - 1])
		{
			/* equation 5: the device begins step i with the rows that it has */
			const double own = r < 1 ? (1 - ratios[i - 1]) / (1 - r) : 0;

			step_ns[HJG_ON_DEVICE][i] += (ratios[i - 1] - r) * shape->nrows * shape->exchange_ns;
			delay[HJG_ON_DEVICE] = sum[HJG_ON_CPU] - (sum[HJG_ON_DEVICE] + step_ns[HJG_ON_DEVICE][i] * own);
		}
		for (int p = 0; p < HJG_PROCESSORS; p++)
		{
			delay[p] = fmax(delay[p], 0);
			times->delay_ns[p] += delay[p];
			sum[p] += step_ns[p][i] + delay[p];
		}
	}
	for (int p = 0; p < HJG_PROCESSORS; p++)
		times->processor_ns[p] = sum[p];
	times->total_ns = fmax(sum[HJG_ON_CPU], sum[HJG_ON_DEVICE]);
}

static double
total_of(const HjgSeriesShape *shape, const double *ratios)
{
	HjgSeriesTimes times;

	hjg_series_predict(shape, ratios, &times);
	return times.total_ns;
}

/* Take these ratios if they are better than the best. */
static bool
offer(const HjgSeriesShape *shape, const double *ratios, double *best, double *best_ns)
{
	double		ns = total_of(shape, ratios);

	if (ns >= *best_ns)
		return false;
	*best_ns = ns;
	memcpy(best, ratios, sizeof(double) * (size_t) shape->nsteps);
	return true;
}

static void
search_ol(const HjgSeriesShape *shape, double *best, double *best_ns)
{
	for (int mask = 0; mask < 1 << shape->nsteps; mask++)
	{
		double		ratios[HJG_SERIES_STEPS];

		for (int i = 0; i < shape->nsteps; i++)
			ratios[i] = mask >> i & 1;
		offer(shape, ratios, best, best_ns);
	}
}

static void
search_dd(const HjgSeriesShape *shape, double *best, double *best_ns)
{
	const int	npoints = (int) lround(1 / HJG_RATIO_STEP);

	for (int k = 0; k <= npoints; k++)
	{
		double		ratios[HJG_SERIES_STEPS];

		for (int i = 0; i < shape->nsteps; i++)
			ratios[i] = (double) k / npoints;
		offer(shape, ratios, best, best_ns);
	}
}

/* Series from this size on are worth a search of some milliseconds, others one of 0.2 ms. */
#define THOROUGH_ROWS 262144
#define COARSE_POINTS 10
#define WIDE_STEP 0.2
#define NEAR_POINTS 3

/* By how much several ratios must be better than one. */
#define ONE_RATIO_MARGIN 1.04

/* All of two ratios on a grid of so many points, and on the fine one near the best. */
static bool
descend_pair(const HjgSeriesShape *shape, int i, int j, int npoints, double *best, double *best_ns)
{
	double		ratios[HJG_SERIES_STEPS];
	double		center[2];
	bool		moved = false;

	memcpy(ratios, best, sizeof(double) * (size_t) shape->nsteps);
	for (int k = 0; k <= npoints; k++)
		for (int l = 0; l <= npoints; l++)
		{
			ratios[i] = (double) k / npoints;
			ratios[j] = (double) l / npoints;
			moved |= offer(shape, ratios, best, best_ns);
		}
	center[0] = best[i];
	center[1] = best[j];
	memcpy(ratios, best, sizeof(double) * (size_t) shape->nsteps);
	for (int k = -NEAR_POINTS; k <= NEAR_POINTS; k++)
		for (int l = -NEAR_POINTS; l <= NEAR_POINTS; l++)
		{
			ratios[i] = fmin(fmax(center[0] + k * HJG_RATIO_STEP, 0), 1);
			ratios[j] = fmin(fmax(center[1] + l * HJG_RATIO_STEP, 0), 1);
			moved |= offer(shape, ratios, best, best_ns);
		}
	return moved;
}

/* From *best on, along one ratio and two ratios at a time, until nothing helps. */
static void
descend(const HjgSeriesShape *shape, double *best, double *best_ns)
{
	const int	npoints = (int) lround(1 / HJG_RATIO_STEP);
	const int	pair_points = shape->nrows >= THOROUGH_ROWS ? npoints : COARSE_POINTS;
	bool		moved = true;

	for (int turn = 0; moved && turn < 20; turn++)
	{
		moved = false;
		for (int i = 0; i < shape->nsteps; i++)
		{
			double		ratios[HJG_SERIES_STEPS];

			memcpy(ratios, best, sizeof(double) * (size_t) shape->nsteps);
			for (int k = 0; k <= npoints; k++)
			{
				ratios[i] = (double) k / npoints;
				moved |= offer(shape, ratios, best, best_ns);
			}
			for (int j = i + 1; j < shape->nsteps; j++)
				moved |= descend_pair(shape, i, j, pair_points, best, best_ns);
		}
	}
}

/*
 * Ratios that differ from step to step win by the errors of their unit costs, too: of two choices that are
 * nearly the same one ratio for all is taken, unless it is worse than no ratio (ol_ns).
 */
static void
prefer_one_ratio(const HjgSeriesShape *shape, double ol_ns, double *best, double *best_ns)
{
	double		one[HJG_SERIES_STEPS];
	double		one_ns = HUGE_VAL;

	search_dd(shape, one, &one_ns);
	if (one_ns > *best_ns * ONE_RATIO_MARGIN || one_ns > ol_ns)
		return;
	memcpy(best, one, sizeof(double) * (size_t) shape->nsteps);
	*best_ns = one_ns;
}

double
hjg_series_search(const HjgSeriesShape *shape, HjgScheme scheme, double *ratios)
{
	double		best_ns = HUGE_VAL;

	if (scheme != HJG_SCHEME_DD)
		search_ol(shape, ratios, &best_ns);
	if (scheme == HJG_SCHEME_PL)
	{
		/* down from the best points of OL, of DD and of a wide grid */
		double		from[2][HJG_SERIES_STEPS];
		const double ol_ns = best_ns;
		double		from_ns[2] = {ol_ns, 0};

		memcpy(from[0], ratios, sizeof(double) * (size_t) shape->nsteps);
		from_ns[1] = hjg_series_exhaust(shape, WIDE_STEP, from[1]);
		best_ns = HUGE_VAL;
		search_dd(shape, ratios, &best_ns);
		descend(shape, ratios, &best_ns);
		for (int i = 0; i < 2; i++)
		{
			descend(shape, from[i], &from_ns[i]);
			offer(shape, from[i], ratios, &best_ns);
		}
		prefer_one_ratio(shape, ol_ns, ratios, &best_ns);
	}
	if (scheme == HJG_SCHEME_DD)
		search_dd(shape, ratios, &best_ns);
	return best_ns;
}

double
hjg_series_exhaust(const HjgSeriesShape *shape, double step, double *ratios)
{
	const int	npoints = (int) lround(1 / step);
	double		best_ns = HUGE_VAL;
	int			at[HJG_SERIES_STEPS] = {0};
	int			i = 0;

	while (i < shape->nsteps)
	{
		double		here[HJG_SERIES_STEPS];

		for (int k = 0; k < shape->nsteps; k++)
			here[k] = (double) at[k] / npoints;
		offer(shape, here, ratios, &best_ns);
		for (i = 0; i < shape->nsteps && ++at[i] > npoints; i++)
			at[i] = 0;
	}
	return best_ns;
}
