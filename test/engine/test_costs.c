/*
 * test_costs.c
 *	  Unit costs of the coupled engine from generated samples with known costs.
 */
#include <math.h>

#include "coupled/hjg_coupled_costs.h"
#include "hjg_test_engine.h"

#define NRUNS 16
#define NSIZES 2

static const double slower_by[HJG_PROCESSORS] = {0.3, 0.1};
static const double exchange_ns[HJG_PROCESSORS] = {2, 3};

/* Cost of each copy, and of a byte. */
static const HjgCopyCost copy[HJG_PROCESSORS] = {{20000, 0.15}, {12000, 0.2}};
static const HjgCopyCost call = {9000, 0.01};
static const HjgCopyCost moved[HJG_PROCESSORS] = {{30000, 0.12}, {25000, 0.1}};

/*
 * Steps of each series of a join without and with partitioning; a step of both sides is in two series,
 * with half of its time in each.
 */
#define NSERIES 4

static const bool has_step[2][NSERIES][HJG_STEP_COUNT] = {
	{
		{[HJG_STEP_HASH] = true, [HJG_STEP_B2] = true, [HJG_STEP_B3] = true, [HJG_STEP_B4] = true},
		{[HJG_STEP_HASH] = true, [HJG_STEP_P2] = true, [HJG_STEP_P3] = true},
		{[HJG_STEP_P4] = true}
	},
	{
		{[HJG_STEP_HASH] = true, [HJG_STEP_N2] = true, [HJG_STEP_N3] = true},
		{[HJG_STEP_NUMBER] = true, [HJG_STEP_B2] = true, [HJG_STEP_B3] = true, [HJG_STEP_B4] = true},
		{[HJG_STEP_NUMBER] = true, [HJG_STEP_P2] = true, [HJG_STEP_P3] = true},
		{[HJG_STEP_P4] = true}
	}
};

static int
nseries_of(int partitioned, int step)
{
	int			n = 0;

	for (int i = 0; i < NSERIES; i++)
		n += has_step[partitioned][i][step];
	return n;
}

/* Compute the fraction of a processor's time in the step's series in which the other processor works too. */
static double
overlap(const HjgCoupledSample *sample, int partitioned, int p, int step)
{
	double		busy_ns[HJG_PROCESSORS] = {0, 0};

	for (int s = 0; s < NSERIES; s++)
		for (int i = 0; i < HJG_STEP_COUNT; i++)
			for (int q = 0; q < HJG_PROCESSORS; q++)
				if (has_step[partitioned][s][step] && has_step[partitioned][s][i])
					busy_ns[q] += sample->busy_ns[q][i] / nseries_of(partitioned, i);
	return fmin(busy_ns[1 - p] / fmax(busy_ns[p], 1), 1);
}

static HjgCopySample
make_copies(const HjgCopyCost *cost, double n, double bytes)
{
	return (HjgCopySample) {.copies = {n, bytes}, .ns = n * cost->each_ns + bytes * cost->byte_ns};
}

/* Compute the cost of a row of a step alone. */
static double
row_ns(int size, int partitioned, int p, int step)
{
	return (p == HJG_ON_CPU ? 10 : 16) + step + 4 * size + 2 * partitioned;
}

/* Make the sample of a join: its ratios, and from them the time of each step. */
static HjgCoupledSample
make_sample(int size, int partitioned, HjgCalibrationMethod way, int run)
{
	const double nrows = 65536 << size;
	double		ratios[HJG_STEP_COUNT];
	HjgCoupledSample sample = {.build_rest_ns = 1, .probe_rest_ns = 2, .gap_ns = 300, .begin_ns = 500, .call_ns = 40, .wake_ns = 70};

	for (int i = 0; i < HJG_STEP_COUNT; i++)
		ratios[i] = way == HJG_METHOD_CPU ? 1 : way == HJG_METHOD_DEVICE ? 0 :
			way == HJG_METHOD_ONE_RATIO ? 0.4 + run / 50.0 : 0.2 + 0.6 * (((run + 3) * (i + 7)) % 11) / 11;
	for (int p = 0; p < HJG_PROCESSORS; p++)
	{
		for (int i = 0; i < HJG_STEP_COUNT; i++)
		{
			const double mine = p == HJG_ON_CPU ? ratios[i] : 1 - ratios[i];
			const double had = i == 0 ? mine : p == HJG_ON_CPU ? ratios[i - 1] : 1 - ratios[i - 1];

			if (nseries_of(partitioned, i) == 0)
				continue;
			sample.rows[p][i] = nrows * mine;
			sample.taken[p][i] = nrows * fmax(mine - had, 0);
			sample.busy_ns[p][i] = sample.rows[p][i] * row_ns(size, partitioned, p, i);
			sample.copied[p][i] = make_copies(&copy[p], sample.taken[p][i] > 0 ? 1 + i % 3 : 0, sample.taken[p][i] * 4 * (1 + i % 3));
		}
		sample.moved[p] = make_copies(&moved[p], 2, nrows * (8 + run % 5));
	}
	sample.called = make_copies(&call, 3 + run % 4, nrows * (1 + run % 3));
	for (int p = 0; p < HJG_PROCESSORS; p++)
		for (int i = 0; i < HJG_STEP_COUNT; i++)
			sample.ns[p][i] = sample.rows[p][i] == 0 ? HUGE_VAL :
				row_ns(size, partitioned, p, i) * (1 + slower_by[p] * overlap(&sample, partitioned, p, i)) +
				sample.taken[p][i] * exchange_ns[p] / sample.rows[p][i];
	return sample;
}

static void
make_samples(HjgCoupledSamples *samples)
{
	for (int k = 0; k < 2 * NSIZES; k++)
		for (int way = 0; way < HJG_CALIBRATION_METHODS; way++)
			for (int run = 0; run < NRUNS; run++)
				samples[k / 2][k % 2][way][run] = make_sample(k / 2, k % 2, (HjgCalibrationMethod) way, run);
}

/* Lengthen all steps of a sample on a processor. */
static void
slow_down(HjgCoupledSample *sample, int p, double factor)
{
	for (int i = 0; i < HJG_STEP_COUNT; i++)
		sample->ns[p][i] *= factor;
}

static bool
near(double a, double b)
{
	return fabs(a - b) <= 1e-6 * fmax(fabs(a), fabs(b)) + 1e-9;
}

static HjgStepCosts
costs_of(const HjgCoupledSamples *samples)
{
	const int	ndone[HJG_STEP_SIZES] = {NRUNS, NRUNS};
	HjgStepCosts costs = {.nsizes = NSIZES, .busy_ns = 5, .piece_ns = 3};

	hjg_coupled_take_costs(samples, ndone, 1000, &costs);
	return costs;
}

/* Check that these are the costs of which the samples were made. */
static bool
as_made(const HjgStepCosts *costs)
{
	bool		good = true;

	for (int k = 0; k < 2 * NSIZES; k++)
		for (int p = 0; p < HJG_PROCESSORS; p++)
			for (int i = 0; i < HJG_STEP_COUNT; i++)
			{
				/* steps that joins without partitioning lack are taken from those with it */
				const double ns = row_ns(k / 2, nseries_of(k % 2, i) > 0 ? k % 2 : 1, p, i);

				good = good && near(costs->alone_ns[k % 2][k / 2][p][i], ns) &&
					near(costs->together_ns[k % 2][k / 2][p][i], ns * (1 + slower_by[p]));
			}
	return good && near(costs->exchange_ns[HJG_ON_CPU], exchange_ns[HJG_ON_CPU]) &&
		near(costs->exchange_ns[HJG_ON_DEVICE], exchange_ns[HJG_ON_DEVICE]);
}

static bool
is_cost(const HjgCopyCost *cost, const HjgCopyCost *wanted)
{
	return near(cost->each_ns, wanted->each_ns) && near(cost->byte_ns, wanted->byte_ns);
}

/* Test copies of which one in three takes up to twice as long. */
static void
test_disturbed_copies(HjgCoupledSamples *samples)
{
	HjgStepCosts costs;

	make_samples(samples);
	for (int k = 0; k < 2 * NSIZES; k++)
		for (int way = 0; way < HJG_CALIBRATION_METHODS; way++)
			for (int run = 0; run < NRUNS; run += 3)
				for (int p = 0; p < HJG_PROCESSORS; p++)
					samples[k / 2][k % 2][way][run].moved[p].ns *= 1 + run / 15.0;
	costs = costs_of(samples);
	for (int p = 0; p < HJG_PROCESSORS; p++)
	{
		double		taken_ns = 0;
		double		fitted_ns = 0;

		for (int n = 0; n < 2 * NSIZES * HJG_CALIBRATION_METHODS * NRUNS; n++)
		{
			const HjgCopySample *sample = &samples[n / NRUNS / HJG_CALIBRATION_METHODS / 2][n / NRUNS / HJG_CALIBRATION_METHODS % 2]
				[n / NRUNS % HJG_CALIBRATION_METHODS][n % NRUNS].moved[p];

			taken_ns += sample->ns;
			fitted_ns += hjg_copies_ns(&costs.move[p][n / NRUNS / HJG_CALIBRATION_METHODS / 2], &sample->copies);
		}
		claim(fabs(fitted_ns / taken_ns - 1) < 0.02, "copies that are disturbed are in the costs as they are in joins: %.3f of their time",
			  fitted_ns / taken_ns);
	}
}

void
test_costs(void)
{
	static HjgCoupledSamples samples[NSIZES];
	HjgStepCosts costs;
	double		sum = 0;

	make_samples(samples);
	costs = costs_of(samples);
	claim(as_made(&costs), "costs alone, together and of rows that are taken over are told apart");
	claim(near(costs.launch_ns[1][1], 305) && near(costs.call_ns[1][1], 40) && near(costs.wake_ns[1][1], 30) &&
		  near(costs.wait_ns[1][1], 1500) && near(costs.build_rest_ns[0][0], 1) && near(costs.probe_rest_ns[0][0], 2),
		  "so are those of pieces, and what is no step");
	for (int size = 0; size < NSIZES; size++)
		claim(is_cost(&costs.copy[HJG_ON_CPU][size], &copy[HJG_ON_CPU]) && is_cost(&costs.copy[HJG_ON_DEVICE][size], &copy[HJG_ON_DEVICE]) &&
			  is_cost(&costs.call[size], &call) && is_cost(&costs.move[HJG_ON_CPU][size], &moved[HJG_ON_CPU]) &&
			  is_cost(&costs.move[HJG_ON_DEVICE][size], &moved[HJG_ON_DEVICE]), "each copy and a byte of it");
	claim(costs.spread[0][0] < 1e-9, "joins that do not differ have no spread");

	for (int k = 0; k < 2 * NSIZES; k++)
		for (int way = 0; way < HJG_CALIBRATION_METHODS; way++)
			for (int p = 0; p < HJG_PROCESSORS; p++)
				slow_down(&samples[k / 2][k % 2][way][5], p, 4);
	costs = costs_of(samples);
	claim(as_made(&costs), "one join in sixteen that was disturbed changes none of them");

	/* each step is disturbed in a quarter of the joins, each in others: a median does not see it */
	make_samples(samples);
	for (int run = 0; run < NRUNS; run++)
		for (int i = 0; i < HJG_STEP_COUNT; i++)
			if ((run + i) % 4 == 0)
				samples[0][0][HJG_METHOD_CPU][run].ns[HJG_ON_CPU][i] *= 2;
	costs = costs_of(samples);
	for (int i = 0; i < HJG_STEP_COUNT; i++)
		sum += costs.alone_ns[0][0][HJG_ON_CPU][i] / row_ns(0, 0, HJG_ON_CPU, i) / HJG_STEP_COUNT;
	claim(sum > 1.1 && sum < 1.3, "what disturbs one step or another in each join is in the costs: %.3f", sum);

	make_samples(samples);
	for (int run = 0; run < NRUNS; run++)
		slow_down(&samples[1][1][HJG_METHOD_ONE_RATIO][run], HJG_ON_DEVICE, run % 2 ? 1.2 : 1);
	costs = costs_of(samples);
	claim(costs.spread[1][1] > 0.06 && costs.spread[1][1] < 0.14 && costs.spread[0][1] < 1e-9,
		  "one processor's time over the other's differs by as much as it does: %.3f", costs.spread[1][1]);
	test_disturbed_copies(samples);
}
