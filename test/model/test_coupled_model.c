/*
 * test_coupled_model.c
 *	  The model of co-processing: its equations on cases that can be computed by
 *	  hand, and the search for ratios against every point of a grid.
 *
 * test_coupled_model [SEED]; prints TAP lines.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "hjg_test_model.h"
#include "model/hjg_coupled_model.h"

static bool
near(double a, double b)
{
	return fabs(a - b) <= 1e-6 * fmax(fabs(a), fabs(b)) + 1e-9;
}

static HjgSeriesShape
random_shape(int nsteps)
{
	HjgSeriesShape shape = {.nsteps = nsteps, .nrows = exp2(drand48() < 0.3 ? 10 + drand48() * 8 : 18 + drand48() * 6)};

	for (int i = 0; i < nsteps; i++)
	{
		shape.unit_ns[HJG_ON_CPU][i] = exp(drand48() * 4);
		shape.unit_ns[HJG_ON_DEVICE][i] = shape.unit_ns[HJG_ON_CPU][i] * exp(4 * drand48() - 2);
	}
	shape.launch_ns = drand48() < 0.5 ? 0 : 50000 * drand48();
	shape.exchange_ns = drand48() < 0.5 ? 0 : 5 * drand48();
	return shape;
}

static void
test_equations(void)
{
	/* two steps of 100 rows; 1 ns on the CPU, 2 ns on the device */
	HjgSeriesShape shape = {.nsteps = 2, .nrows = 100, .unit_ns = {{1, 1}, {2, 2}}};
	HjgSeriesTimes times;

	hjg_series_predict(&shape, (const double[]) {1, 1}, &times);
	ok(near(times.total_ns, 200) && near(times.processor_ns[HJG_ON_DEVICE], 0), "all on the CPU: its two steps");
	hjg_series_predict(&shape, (const double[]) {0, 0}, &times);
	ok(near(times.total_ns, 400) && near(times.processor_ns[HJG_ON_CPU], 0), "all on the device: its two steps");
	hjg_series_predict(&shape, (const double[]) {0.5, 0.5}, &times);
	ok(near(times.total_ns, 200) && near(times.processor_ns[HJG_ON_CPU], 100), "equation 1: the longer of the two");

	/* equation 4: the device needs 200 ns for step 1, of which the CPU needs all */
	hjg_series_predict(&shape, (const double[]) {0, 1}, &times);
	ok(near(times.delay_ns[HJG_ON_CPU], 100) && near(times.total_ns, 200),
	   "equation 4: a CPU that takes all rows over waits for the device, less its own step");
	/* it makes the CPU's half first: 200 - 200 * (1 - 0.5) / (1 - 0) - 50 */
	hjg_series_predict(&shape, (const double[]) {0, 0.5}, &times);
	ok(near(times.delay_ns[HJG_ON_CPU], 50), "equation 4: what the device makes afterwards is not waited for");

	/* equation 5: 100 ns of CPU for step 1; the device's step 2 has no rows of its own to begin with */
	hjg_series_predict(&shape, (const double[]) {1, 0}, &times);
	ok(near(times.delay_ns[HJG_ON_DEVICE], 0) || near(times.delay_ns[HJG_ON_DEVICE], 100),
	   "equation 5: a device that takes all rows over waits for the CPU");
	ok(near(times.total_ns, 300), "equation 5: then it does its step");
	hjg_series_predict(&shape, (const double[]) {0.5, 0.5}, &times);
	ok(near(times.delay_ns[HJG_ON_CPU], 0) && near(times.delay_ns[HJG_ON_DEVICE], 0), "equal ratios: nobody waits");
}

static void
test_search(void)
{
	double		worst_long = 0;
	double		worst_short = 0;
	bool		ordered = true;
	bool		in_range = true;

	for (int n = 0; n < 300; n++)
	{
		const HjgSeriesShape shape = random_shape(1 + n % 4);
		const double grid = shape.nsteps == 4 ? 0.1 : shape.nsteps == 3 ? 0.04 : HJG_RATIO_STEP;
		double		ratios[HJG_SERIES_STEPS];
		double		whole = hjg_series_exhaust(&shape, grid, ratios);
		double		ns[HJG_SCHEME_PL + 1];

		for (int scheme = HJG_SCHEME_OL; scheme <= HJG_SCHEME_PL; scheme++)
		{
			HjgSeriesTimes times;

			ns[scheme] = hjg_series_search(&shape, (HjgScheme) scheme, ratios);
			hjg_series_predict(&shape, ratios, &times);
			in_range = in_range && near(times.total_ns, ns[scheme]);
			for (int i = 0; i < shape.nsteps; i++)
			{
				in_range = in_range && ratios[i] >= 0 && ratios[i] <= 1;
				in_range = in_range && (scheme != HJG_SCHEME_DD || ratios[i] == ratios[0]);
				in_range = in_range && (scheme != HJG_SCHEME_OL || ratios[i] == 0 || ratios[i] == 1);
			}
		}
		ordered = ordered && ns[HJG_SCHEME_PL] <= ns[HJG_SCHEME_OL] && ns[HJG_SCHEME_PL] <= ns[HJG_SCHEME_DD];
		if (shape.nrows >= 262144)
			worst_long = fmax(worst_long, ns[HJG_SCHEME_PL] / whole);
		else
			worst_short = fmax(worst_short, ns[HJG_SCHEME_PL] / whole);
	}
	ok(in_range, "ratios obey their scheme, and give the time that is returned");
	ok(ordered, "PL is never worse than OL or DD");
	printf("# worst against the whole grid (0.02, with 3 and 4 steps coarser): %.4f long series, %.4f short ones\n",
		   worst_long, worst_short);
	ok(worst_long <= 1.06, "long series: within 6 % of the best point of the grid");
	ok(worst_short <= 1.08, "short series: within 8 % of the best point of the grid");
}

static void
test_costs(void)
{
	HjgStepCosts costs = {.launch_ns = 1};

	costs.small_ns[HJG_ON_CPU][HJG_STEP_B3] = 2;
	costs.large_ns[HJG_ON_CPU][HJG_STEP_B3] = 10;
	ok(near(hjg_step_cost_ns(&costs, HJG_ON_CPU, HJG_STEP_B3, 1), 2) &&
	   near(hjg_step_cost_ns(&costs, HJG_ON_CPU, HJG_STEP_B3, exp2(HJG_STEP_SMALL_LOG)), 2) &&
	   near(hjg_step_cost_ns(&costs, HJG_ON_CPU, HJG_STEP_B3, 1e12), 10),
	   "unit costs are those measured in and out of cache");
	ok(near(hjg_step_cost_ns(&costs, HJG_ON_CPU, HJG_STEP_B3, exp2((HJG_STEP_SMALL_LOG + HJG_STEP_LARGE_LOG) / 2.0)), 6),
	   "and between them on the logarithm");
}

int
main(int argc, char **argv)
{
	long		seed = argc > 1 ? atol(argv[1]) : (long) time(NULL);

	printf("# seed %ld\n", seed);
	srand48(seed);
	test_equations();
	test_search();
	test_costs();
	return done_testing();
}
