/*
 * coupled_costs.c
 *	  Unit costs of the steps from samples of joins.
 *
 * Three kinds of joins give three costs of a step: joins on one processor, the cost of a row alone; joins
 * on both with one ratio for all steps, the growth of that cost while the other processor works; and joins
 * with different ratios, the extra cost of a row that the other processor had before.
 *
 * If the device works on copies, these are timed separately and are not part of the cost of a row: their
 * costs, for each copy and for each byte, come from all joins of a size together.
 */
#include <math.h>
#include <stddef.h>

#include "coupled/hjg_coupled_costs.h"
#include "model/hjg_measured.h"

#define NEVER_NS 1e6			/* a row */

static double
zero_if_none(double ns)
{
	return isinf(ns) ? 0 : ns;
}

/*
 * The share of the samples that is dropped at either end, against unusual disturbances.  The others are
 * averaged: every join is disturbed in one step or another, and the sum of the steps' medians would
 * contain no disturbance at all.
 */
#define TRIMMED 0.125

/* Distance of a member from the same member of the next sample, in doubles. */
#define SAMPLE_DOUBLES (sizeof(HjgCoupledSample) / sizeof(double))
_Static_assert(sizeof(HjgCoupledSample) % sizeof(double) == 0, "samples do not lie a whole number of doubles apart");

/*
 * Compute the mean of a member over nruns samples of some methods, beginning at first; infinite if no
 * sample has it.
 */
static double
mean_of_samples(const double *first, int nmethods, int nruns)
{
	HjgWeighted values[HJG_CALIBRATION_METHODS * HJG_CALIBRATION_RUNS];
	int			n = 0;

	for (int i = 0; i < nmethods * nruns; i++)
	{
		const double value = first[(size_t) (i / nruns * HJG_CALIBRATION_RUNS + i % nruns) * SAMPLE_DOUBLES];

		if (isfinite(value))
			values[n++] = (HjgWeighted) {value, 1};
	}
	return n > 0 ? hjg_trimmed_mean(values, n, TRIMMED) : HUGE_VAL;
}

/* Kinds of series of a join: partitioning, building, counting pairs, writing them. */
#define NKINDS 4

/*
 * Compute the share of a step's time that is in series of a kind; a step that occurs on both sides of the
 * join counts half for each.
 */
static double
part_in(int kind, int step, bool partitioned)
{
	static const double parts[2][HJG_STEP_COUNT][NKINDS] = {
		{[HJG_STEP_HASH] = {0, 0.5, 0.5, 0}},
		{[HJG_STEP_HASH] = {1, 0, 0, 0}, [HJG_STEP_NUMBER] = {0, 0.5, 0.5, 0}}
	};
	static const int kind_of[HJG_STEP_COUNT] = {
		[HJG_STEP_N2] = 0, [HJG_STEP_N3] = 0, [HJG_STEP_B2] = 1, [HJG_STEP_B3] = 1, [HJG_STEP_B4] = 1,
		[HJG_STEP_P2] = 2, [HJG_STEP_P3] = 2, [HJG_STEP_P4] = 3
	};

	return step == HJG_STEP_HASH || step == HJG_STEP_NUMBER ? parts[partitioned][step][kind] : kind_of[step] == kind;
}

/*
 * Compute the fraction of a processor's time, in the series that have the step, in which the other
 * processor worked as well.
 */
static double
overlap_of(const HjgCoupledSample *sample, bool partitioned, int p, int step)
{
	double		busy_ns[HJG_PROCESSORS] = {0, 0};

	for (int kind = 0; kind < NKINDS; kind++)
		for (int i = 0; i < HJG_STEP_COUNT && part_in(kind, step, partitioned) > 0; i++)
			for (int q = 0; q < HJG_PROCESSORS; q++)
				busy_ns[q] += sample->busy_ns[q][i] * part_in(kind, i, partitioned);
	return fmin(busy_ns[1 - p] / fmax(busy_ns[p], 1), 1);
}

/*
 * Compute the relative growth of a step's time while the other processor works all the time.  Runs are
 * weighted by their rows and by the fraction of the time in which it worked.
 */
static double
slowdown_of(const HjgCoupledSample *samples, int nruns, bool partitioned, int p, int step, double alone_ns)
{
	HjgWeighted slowdowns[HJG_CALIBRATION_RUNS];

	for (int run = 0; run < nruns; run++)
	{
		const double overlap = overlap_of(&samples[run], partitioned, p, step);

		slowdowns[run] = (HjgWeighted) {.weight = samples[run].rows[p][step] * overlap};
		if (slowdowns[run].weight > 0)
			slowdowns[run].value = (samples[run].ns[p][step] / alone_ns - 1) / overlap;
	}
	return hjg_trimmed_mean(slowdowns, nruns, TRIMMED);
}

/* Predict the time of a run on a processor from the costs of its size, without rows that are taken over. */
static double
expected_ns(const HjgCoupledSample *sample, bool partitioned, int p, const double alone_ns[HJG_STEP_COUNT], const double together_ns[HJG_STEP_COUNT])
{
	double		ns = 0;

	for (int i = 0; i < HJG_STEP_COUNT; i++)
		if (sample->rows[p][i] > 0)
			ns += sample->rows[p][i] * (alone_ns[i] + (together_ns[i] - alone_ns[i]) * overlap_of(sample, partitioned, p, i));
	return ns;
}

/* Compute the measured time, without the fixed costs of pieces. */
static double
rows_ns(const HjgCoupledSample *sample, int p)
{
	double		ns = 0;

	for (int i = 0; i < HJG_STEP_COUNT; i++)
		if (sample->rows[p][i] > 0)
			ns += sample->rows[p][i] * sample->ns[p][i];
	return ns;
}

/* Compute how much the ratio of the processors' times differs between joins. */
static double
spread_of(const HjgCoupledSample *samples, int nruns, bool partitioned, const double alone_ns[HJG_PROCESSORS][HJG_STEP_COUNT],
		  const double together_ns[HJG_PROCESSORS][HJG_STEP_COUNT])
{
	double		over[HJG_CALIBRATION_RUNS];

	for (int run = 0; run < nruns; run++)
	{
		double		off[HJG_PROCESSORS];

		for (int p = 0; p < HJG_PROCESSORS; p++)
			off[p] = rows_ns(&samples[run], p) / fmax(expected_ns(&samples[run], partitioned, p, alone_ns[p], together_ns[p]), 1);
		over[run] = off[HJG_ON_CPU] - off[HJG_ON_DEVICE];
	}
	return hjg_spread(over, nruns);
}

/* Compute the costs of one size, without or with partitioning. */
static void
take_means(const HjgCoupledSample samples[HJG_CALIBRATION_METHODS][HJG_CALIBRATION_RUNS], int nruns, int partitioned, int size,
		   double seen_ns, HjgStepCosts *costs)
{
	const HjgCoupledSample *both = samples[HJG_METHOD_ONE_RATIO];

	for (int p = 0; p < HJG_PROCESSORS; p++)
		for (int i = 0; i < HJG_STEP_COUNT; i++)
		{
			const double alone_ns = mean_of_samples(&samples[p][0].ns[p][i], 1, nruns);

			costs->alone_ns[partitioned][size][p][i] = alone_ns;
			costs->together_ns[partitioned][size][p][i] = isinf(alone_ns) ? mean_of_samples(&both[0].ns[p][i], 1, nruns) :
				fmax(alone_ns * (1 + slowdown_of(both, nruns, partitioned, p, i, alone_ns)), HJG_LEAST_STEP_NS);
		}
	costs->build_rest_ns[partitioned][size] = mean_of_samples(&both[0].build_rest_ns, 2, nruns);
	costs->probe_rest_ns[partitioned][size] = mean_of_samples(&both[0].probe_rest_ns, 2, nruns);
	costs->launch_ns[partitioned][size] = zero_if_none(mean_of_samples(&both[0].gap_ns, 2, nruns)) + costs->busy_ns;
	costs->call_ns[partitioned][size] = zero_if_none(mean_of_samples(&both[0].call_ns, 2, nruns));
	costs->wake_ns[partitioned][size] = fmax(zero_if_none(mean_of_samples(&both[0].wake_ns, 2, nruns)) - costs->call_ns[partitioned][size], 0);
	costs->wait_ns[partitioned][size] = zero_if_none(mean_of_samples(&both[0].begin_ns, 2, nruns)) + seen_ns;
}

/*
 * Compute the extra cost of a row that the other processor had in the previous step.  It is smaller than
 * the differences between joins of one size, so it is computed over all sizes and steps together, as the
 * time by which runs with mixed ratios exceed their prediction.
 */
static double
exchange_of(const HjgCoupledSamples *samples, const int ndone[HJG_STEP_SIZES], const HjgStepCosts *costs, int p)
{
	HjgWeighted exchanges[2 * HJG_STEP_SIZES * HJG_CALIBRATION_RUNS];
	int			n = 0;

	for (int k = 0; k < 2 * costs->nsizes; k++)
		for (int run = 0; run < ndone[k / 2]; run++)
		{
			const HjgCoupledSample *sample = &samples[k / 2][k % 2][HJG_METHOD_MIXED][run];
			double		taken = 0;

			for (int i = 0; i < HJG_STEP_COUNT; i++)
				taken += sample->taken[p][i];
			if (taken <= 0)
				continue;
			exchanges[n].value = (rows_ns(sample, p) - expected_ns(sample, k % 2, p, costs->alone_ns[k % 2][k / 2][p],
																   costs->together_ns[k % 2][k / 2][p])) / taken;
			exchanges[n++].weight = 1;
		}
	return fmax(hjg_trimmed_mean(exchanges, n, TRIMMED), 0);
}

/* ---- copies ---- */

/* Least squares: sums of products over the samples, each with a weight. */
typedef struct CopyFit
{
	double		nn;
	double		nb;
	double		bb;
	double		n;
	double		b;
	HjgCopyCost cost;			/* the previous fit */
} CopyFit;

/*
 * Add a sample of copies.  Errors are weighted by the expected time; with the measured time, disturbed
 * copies would count least.
 */
static void
add_copies(CopyFit *fit, const HjgCopySample *sample)
{
	const double expected_ns = hjg_copies_ns(&fit->cost, &sample->copies);
	const double n = sample->copies.n;
	const double bytes = sample->copies.bytes;
	double		weight;

	if (sample->ns <= 0 || n <= 0)
		return;
	weight = 1 / (expected_ns > 0 ? expected_ns * expected_ns : sample->ns * sample->ns);
	fit->nn += weight * n * n;
	fit->nb += weight * n * bytes;
	fit->bb += weight * bytes * bytes;
	fit->n += weight * n * sample->ns;
	fit->b += weight * bytes * sample->ns;
}

/* Finish a fit: neither part is negative; without samples both are 0.  Then reset the sums. */
static void
finish_fit(CopyFit *fit)
{
	const double det = fit->nn * fit->bb - fit->nb * fit->nb;
	HjgCopyCost cost = {0, 0};

	if (det > 1e-9 * fit->nn * fit->bb)
		cost = (HjgCopyCost) {(fit->n * fit->bb - fit->b * fit->nb) / det, (fit->b * fit->nn - fit->n * fit->nb) / det};
	if (cost.each_ns < 0 || (cost.each_ns == 0 && cost.byte_ns == 0))
		cost = (HjgCopyCost) {0, fit->bb > 0 ? fit->b / fit->bb : 0};
	if (cost.byte_ns < 0)
		cost = (HjgCopyCost) {fit->n / fit->nn, 0};
	*fit = (CopyFit) {.cost = cost};
}

/* Costs of copies: of rows, of queueing these, and of tables. */
typedef struct CopyFits
{
	CopyFit		rows[HJG_PROCESSORS];
	CopyFit		tables[HJG_PROCESSORS];
	CopyFit		calls;
} CopyFits;

static void
add_sample(CopyFits *fits, const HjgCoupledSample *sample)
{
	add_copies(&fits->calls, &sample->called);
	for (int p = 0; p < HJG_PROCESSORS; p++)
	{
		add_copies(&fits->tables[p], &sample->moved[p]);
		for (int i = 0; i < HJG_STEP_COUNT; i++)
			add_copies(&fits->rows[p], &sample->copied[p][i]);
	}
}

/* Number of fits: the weights come from the previous fit. */
#define NFITS 4

static bool
costs_time(const HjgCopyCost *cost)
{
	return cost->each_ns + cost->byte_ns > 0;
}

/* Fit the copies of one size. */
static void
fit_copies(HjgCoupledSample (*const samples)[HJG_CALIBRATION_METHODS][HJG_CALIBRATION_RUNS], int nruns, int size, HjgStepCosts *costs)
{
	CopyFits	fits = {.calls = {.nn = 0}};

	for (int fit = 0; fit < NFITS; fit++)
	{
		for (int n = 0; n < 2 * HJG_CALIBRATION_METHODS * nruns; n++)
			add_sample(&fits, &samples[n % 2][n / 2 / nruns][n / 2 % nruns]);
		finish_fit(&fits.calls);
		for (int p = 0; p < HJG_PROCESSORS; p++)
		{
			finish_fit(&fits.rows[p]);
			finish_fit(&fits.tables[p]);
		}
	}
	costs->call[size] = fits.calls.cost;
	for (int p = 0; p < HJG_PROCESSORS; p++)
	{
		costs->copy[p][size] = fits.rows[p].cost;
		/* if no table was copied in one direction, take the other direction's costs */
		costs->move[p][size] = fits.tables[costs_time(&fits.tables[p].cost) ? p : 1 - p].cost;
	}
}

/*
 * Fill gaps: a step that a processor could not run, or not for this many rows, has no cost.  The model
 * multiplies costs by ratios of 0 and adds them up, so they must be finite.  The cost becomes that for
 * fewer rows, since joins of more rows will be given up as this one was; without such a cost it becomes so
 * high that only a ratio of 1 is chosen.
 */
static void
fill_gaps(HjgStepCosts *costs)
{
	/* joins in parts partition even without PHJ */
	for (int n = 0; n < costs->nsizes * HJG_PROCESSORS * HJG_STEP_COUNT; n++)
	{
		double	   *alone = &costs->alone_ns[0][0][0][0] + n;
		double	   *together = &(&costs->together_ns[0][0][0][0])[n];

		if (isinf(*alone))
			*alone = *(&costs->alone_ns[1][0][0][0] + n);
		if (isinf(*together))
			*together = *(&costs->together_ns[1][0][0][0] + n);
	}
	for (int n = 0; n < 2 * costs->nsizes; n++)
		for (int p = 0; p < HJG_PROCESSORS; p++)
			for (int i = 0; i < HJG_STEP_COUNT; i++)
			{
				const int	s = n / 2;
				double	   *alone = &costs->alone_ns[n % 2][s][p][i];
				double	   *together = &costs->together_ns[n % 2][s][p][i];

				if (isinf(*alone))
					*alone = s > 0 ? costs->alone_ns[n % 2][s - 1][p][i] : NEVER_NS;
				if (isinf(*together))
					*together = *alone;
			}
	if (isinf(costs->unpack_ns[HJG_ON_DEVICE]))
		costs->unpack_ns[HJG_ON_DEVICE] = NEVER_NS;
}

void
hjg_coupled_take_costs(const HjgCoupledSamples *samples, const int ndone[HJG_STEP_SIZES], double seen_ns, HjgStepCosts *costs)
{
	for (int k = 0; k < 2 * costs->nsizes; k++)
		take_means(samples[k / 2][k % 2], ndone[k / 2], k % 2, k / 2, seen_ns, costs);
	fill_gaps(costs);
	for (int k = 0; k < 2 * costs->nsizes; k++)
		costs->spread[k % 2][k / 2] = spread_of(samples[k / 2][k % 2][HJG_METHOD_ONE_RATIO], ndone[k / 2], k % 2,
												costs->alone_ns[k % 2][k / 2], costs->together_ns[k % 2][k / 2]);
	for (int p = 0; p < HJG_PROCESSORS; p++)
		costs->exchange_ns[p] = exchange_of(samples, ndone, costs, p);
	for (int size = 0; size < costs->nsizes; size++)
		fit_copies((HjgCoupledSample (*)[HJG_CALIBRATION_METHODS][HJG_CALIBRATION_RUNS]) samples[size], ndone[size], size, costs);
}
