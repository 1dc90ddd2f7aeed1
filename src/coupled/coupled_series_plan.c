/*
 * coupled_series_plan.c
 *	  The ratios of a series: fixed ones, or the best by the model.
 *
 * Found ratios are kept for series of the same steps with about as many rows, also of later joins.  If the
 * device works on copies, all rows of steps that scatter are on one side.
 */
#include <math.h>
#include <string.h>

#include "coupled/hjg_coupled_internal.h"

/* Relative difference in rows up to which series share ratios. */
#define LIKE_ROWS 0.05

/*
 * Put all rows of the steps that scatter on the side that has most rows of the last such step, if the
 * device works on copies.
 */
static void
settle_scatter(const HjgCoupled *join, HjgSeries *series)
{
	const int	last = hjg_series_last_scatter(series);

	if (!hjg_series_copies(join) || last < 0)
		return;
	for (int i = 0; i < series->nsteps; i++)
		if (hjg_step_scatters(series->steps[i]))
			series->ratios[i] = series->ratios[last] >= 0.5 ? 1 : 0;
}

static void
search_ratios(const HjgCoupled *join, const HjgSeries *series, double *ratios, HjgSeriesTimes *times)
{
	const HjgSeriesShape shape = hjg_series_shape(join, series);

	if (join->config.keep_ratios)
		memcpy(ratios, series->ratios, sizeof(double) * (size_t) series->nsteps);
	else if (hjg_series_copies(join))
		hjg_series_search_sides(join, series, ratios);
	else
		hjg_series_search(&shape, hjg_series_scheme(join, series), ratios);
	hjg_series_predict(&shape, ratios, times);
}

/* Predict a division in which all CPU threads have other tasks. */
static void
predict_on_device(const HjgCoupled *join, const HjgSeries *series, HjgSeriesTimes *times)
{
	const HjgStepCosts *costs = join->config.costs;
	const bool	partitioned = hjg_coupled_is_partitioned(join);
	const double table_rows = (double) join->part->nrows;

	if (hjg_series_copies(join))
	{
		const HjgSeriesShape shape = hjg_series_shape(join, series);
		const double ratios[HJG_SERIES_STEPS] = {0};

		hjg_series_predict(&shape, ratios, times);
		return;
	}
	for (int i = 0; i < series->nsteps; i++)
	{
		times->step_ns[HJG_ON_DEVICE][i] = series->nrows * hjg_series_slowdown(join, HJG_ON_DEVICE) *
			hjg_step_cost_ns(costs, costs->alone_ns[partitioned], HJG_ON_DEVICE, series->steps[i], table_rows) +
			hjg_size_cost_ns(costs, costs->launch_ns[partitioned], table_rows);
		times->total_ns += times->step_ns[HJG_ON_DEVICE][i];
	}
	times->processor_ns[HJG_ON_DEVICE] = times->total_ns;
}

/* ---- remembered ratios ---- */

static bool
is_about(double a, double b)
{
	return fabs(a - b) <= LIKE_ROWS * fmax(b, HJG_SERIES_FEW_ROWS);
}

static bool
is_like_memo(const HjgSeriesMemo *a, const HjgSeriesMemo *b)
{
	return a->nsteps == b->nsteps && a->first_step == b->first_step && a->last_step == b->last_step && a->strategy == b->strategy &&
		memcmp(&a->units, &b->units, sizeof(a->units)) == 0 && a->bus_ns == b->bus_ns && a->building == b->building &&
		memcmp(&a->places, &b->places, sizeof(a->places)) == 0 && memcmp(a->is_missing, b->is_missing, sizeof(a->is_missing)) == 0 &&
		is_about(a->nrows, b->nrows) && is_about((double) a->table_rows, (double) b->table_rows);
}

static HjgSeriesMemos *
memos_of(HjgCoupled *join)
{
	/* fixed ratios hold for this join only */
	return join->config.memos != NULL && !join->config.keep_ratios ? join->config.memos : &join->memos;
}

/* Scale the times of a series to another number of rows. */
static HjgSeriesTimes
scaled_times(const HjgSeriesTimes *of, double factor)
{
	HjgSeriesTimes times = {.total_ns = of->total_ns * factor};

	for (int p = 0; p < HJG_PROCESSORS; p++)
	{
		times.processor_ns[p] = of->processor_ns[p] * factor;
		times.delay_ns[p] = of->delay_ns[p] * factor;
		for (int i = 0; i < HJG_SERIES_STEPS; i++)
			times.step_ns[p][i] = of->step_ns[p][i] * factor;
	}
	return times;
}

/* Recall ratios and times of a similar series, if there is one. */
static bool
recall_memo(HjgSeriesMemos *memos, HjgSeriesMemo *wanted)
{
	bool		found = false;

	if (__atomic_test_and_set(&memos->busy, __ATOMIC_ACQUIRE))
		return false;
	for (int i = 0; i < HJG_SERIES_MEMOS && !found; i++)
		if (is_like_memo(&memos->memos[i], wanted))
		{
			memcpy(wanted->ratios, memos->memos[i].ratios, sizeof(wanted->ratios));
			wanted->predicted = scaled_times(&memos->memos[i].predicted, (double) wanted->nrows / memos->memos[i].nrows);
			found = true;
		}
	__atomic_clear(&memos->busy, __ATOMIC_RELEASE);
	return found;
}

static void
remember_memo(HjgSeriesMemos *memos, const HjgSeriesMemo *memo)
{
	if (__atomic_test_and_set(&memos->busy, __ATOMIC_ACQUIRE))
		return;
	memos->memos[memos->next++ % HJG_SERIES_MEMOS] = *memo;
	__atomic_clear(&memos->busy, __ATOMIC_RELEASE);
}

double
hjg_series_plan(HjgCoupled *join, HjgSeries *series)
{
	const hjg_u64 started = hjg_now_ns();
	HjgSeriesMemo memo = {
		.strategy = join->config.strategy, .units = join->units, .bus_ns = hjg_series_bus_ns(join),
		.nsteps = series->nsteps, .first_step = series->steps[0], .last_step = series->steps[series->nsteps - 1],
		.nrows = series->nrows, .table_rows = join->part->nrows,
		/* these matter for a device that works on copies */
		.building = hjg_series_copies(join) && series->building, .places = join->places,
		.is_missing = {join->part->missing_bytes[HJG_ON_CPU] > 0, join->part->missing_bytes[HJG_ON_DEVICE] > 0}
	};

	for (int i = 0; i < series->nsteps; i++)
		series->ratios[i] = join->units.cpu_e > 0 ? join->config.fixed_ratios[series->steps[i]] : 0;
	settle_scatter(join, series);
	if (join->config.costs == NULL || join->runner == NULL || series->nrows == 0)
		return 0;
	if (!recall_memo(memos_of(join), &memo))
	{
		if (join->units.cpu_e > 0)
			search_ratios(join, series, memo.ratios, &memo.predicted);
		else
			predict_on_device(join, series, &memo.predicted);
		remember_memo(memos_of(join), &memo);
	}
	join->stats.plan_ns += hjg_now_ns() - started;
	memcpy(series->ratios, memo.ratios, sizeof(memo.ratios));
	for (int p = 0; p < HJG_PROCESSORS; p++)
	{
		join->stats.predicted_delay_ns[p] += memo.predicted.delay_ns[p];
		for (int i = 0; i < series->nsteps; i++)
			join->stats.predicted_step_ns[p][series->steps[i]] += memo.predicted.step_ns[p][i];
	}
	return memo.predicted.total_ns;
}
