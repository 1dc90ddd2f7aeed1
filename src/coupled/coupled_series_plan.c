/*
 * coupled_series_plan.c
 *	  Which rows of a series' steps each processor takes: fixed ratios, or those that the model finds best.
 *
 * Found ratios are kept for series of the same steps and about as many rows, in joins to come, too.  Where the device works on copies, all
 * rows of the steps that write where other rows may write, too, are on one side.
 */
#include <math.h>
#include <string.h>

#include "coupled/hjg_coupled_internal.h"

/* Series whose numbers of rows differ by no more than such a part have the same ratios; so do those of few rows, which are not divided. */
#define LIKE_ROWS 0.05
#define FEW_ROWS 4096

bool
hjg_step_scatters(HjgStep step)
{
	return step == HJG_STEP_N2 || step == HJG_STEP_N3 || step == HJG_STEP_B2 || step == HJG_STEP_B3 || step == HJG_STEP_B4;
}

int
hjg_series_last_scatter(const HjgSeries *series)
{
	int			last = -1;

	for (int i = 0; i < series->nsteps; i++)
		if (hjg_step_scatters(series->steps[i]))
			last = i;
	return last;
}

/* Settle, where the device works on copies, all rows of such steps on the side of most of the last one's. */
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

double
hjg_series_slowdown(const HjgCoupled *join, HjgProcessor processor)
{
	const HjgUnits *units = &join->units;

	if (processor == HJG_ON_DEVICE)
		return (double) (units->device_d + units->device_e) / units->device_e;
	return units->cpu_e > 0 ? (double) (units->cpu_p + units->cpu_d + units->cpu_e) / units->cpu_e : 1;
}

/* Compute the time on the emulated bus of a row that changes its processor. */
static double
bus_exchange_ns(const HjgCoupled *join)
{
	return join->config.bus_bytes_per_ns <= 0 ? 0 :
		(HJG_SERIES_EXCHANGE_BYTES + join->base.spec.key_width) / join->config.bus_bytes_per_ns;
}

/* Find the steps from the first one that uses the table on. */
static int
table_step(const HjgStep *steps, int nsteps)
{
	int			i = 0;

	while (i < nsteps && !hjg_step_uses_table(steps[i]))
		i++;
	return i;
}

HjgScheme
hjg_series_scheme(const HjgCoupled *join, const HjgSeries *series)
{
	const HjgScheme scheme = hjg_coupled_scheme(join);

	/* they take less time than the search would */
	return scheme == HJG_SCHEME_PL && series->nrows < FEW_ROWS ? HJG_SCHEME_OL : scheme;
}

HjgRowsShape
hjg_series_rows_shape(const HjgCoupled *join, const HjgSeries *series)
{
	const double width = join->base.spec.key_width;

	return (HjgRowsShape) {
		.nrows = series->nrows, .chunk_rows = hjg_series_chunk_rows(join, series->nrows),
		.row_bytes = {
			[HJG_ARRAY_KEYS] = width, [HJG_ARRAY_MIXED] = width, [HJG_ARRAY_ROWS] = 4, [HJG_ARRAY_BUCKETS] = 4, [HJG_ARRAY_NODES] = 4,
			[HJG_ARRAY_COUNTS] = 4, [HJG_ARRAY_OFFSETS] = 4,
			[HJG_ARRAY_HEADERS] = 4.0 * hjg_step_part_counters(series->args.bits) / fmax(series->nrows, 1)
		}
	};
}

void
hjg_series_passed(HjgCoupled *join, const HjgSeries *series, HjgStep step, double ratio)
{
	HjgCopies	to[HJG_PROCESSORS] = {{0, 0}, {0, 0}};
	HjgRowsShape rows;

	if (!hjg_series_copies(join))
		return;
	rows = hjg_series_rows_shape(join, series);
	hjg_places_host_wrote(&join->places, hjg_step_use[step].host_writes);
	hjg_places_step(&join->places, &rows, step, ratio, to);
	hjg_places_host_reads(&join->places, &rows, hjg_step_use[step].host_reads, &to[HJG_ON_CPU]);
}

HjgSeriesShape
hjg_series_shape(const HjgCoupled *join, const HjgSeries *series)
{
	const HjgStepCosts *costs = join->config.costs;
	const bool	partitioned = hjg_coupled_is_partitioned(join);
	const double table_rows = (double) join->part->nrows;
	const HjgRowsShape rows = hjg_series_rows_shape(join, series);
	HjgSeriesShape shape = {
		.nsteps = series->nsteps, .nrows = series->nrows, .chunk_rows = hjg_series_chunk_rows(join, series->nrows),
		.piece_ns = {costs->piece_ns, hjg_size_cost_ns(costs, costs->launch_ns[partitioned], table_rows)},
		.call_ns = hjg_size_cost_ns(costs, costs->call_ns[partitioned], table_rows),
		.wake_ns = hjg_size_cost_ns(costs, costs->wake_ns[partitioned], table_rows),
		.wait_ns = hjg_size_cost_ns(costs, costs->wait_ns[partitioned], table_rows),
		.copies = hjg_series_copies(join), .places = join->places,
		.call = hjg_copy_cost(costs, costs->call, table_rows),
		.table_step = table_step(series->steps, series->nsteps),
		.spread = hjg_size_cost_ns(costs, costs->spread[partitioned], table_rows)
	};

	memcpy(shape.steps, series->steps, sizeof(shape.steps));
	memcpy(shape.row_bytes, rows.row_bytes, sizeof(shape.row_bytes));
	for (int p = 0; p < HJG_PROCESSORS; p++)
	{
		shape.copy[p] = hjg_copy_cost(costs, costs->copy[p], table_rows);
		shape.exchange_ns[p] = bus_exchange_ns(join) + costs->exchange_ns[p];
		shape.move_ns[p] = hjg_copies_table_ns(join, p, table_rows, (double) join->part->missing_bytes[p]);
		for (int i = 0; i < series->nsteps; i++)
		{
			const double alone_ns = hjg_step_cost_ns(costs, costs->alone_ns[partitioned], p, series->steps[i], table_rows);

			shape.unit_ns[p][i] = alone_ns * hjg_series_slowdown(join, p);
			shape.slowdown[p][i] = hjg_step_cost_ns(costs, costs->together_ns[partitioned], p, series->steps[i], table_rows) / alone_ns;
		}
	}
	return shape;
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

/* Predict a division where the CPU's threads have all other tasks. */
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

/* ---- what was found before ---- */

static bool
is_about(double a, double b)
{
	return fabs(a - b) <= LIKE_ROWS * fmax(b, FEW_ROWS);
}

static bool
is_like(const HjgSeriesMemo *a, const HjgSeriesMemo *b)
{
	return a->nsteps == b->nsteps && a->first_step == b->first_step && a->last_step == b->last_step && a->strategy == b->strategy &&
		memcmp(&a->units, &b->units, sizeof(a->units)) == 0 && a->bus_ns == b->bus_ns && a->building == b->building &&
		memcmp(&a->places, &b->places, sizeof(a->places)) == 0 && memcmp(a->is_missing, b->is_missing, sizeof(a->is_missing)) == 0 &&
		is_about(a->nrows, b->nrows) && is_about((double) a->table_rows, (double) b->table_rows);
}

static HjgSeriesMemos *
memos_of(HjgCoupled *join)
{
	/* ratios that are given are this join's affair */
	return join->config.memos != NULL && !join->config.keep_ratios ? join->config.memos : &join->memos;
}

/* Make the times of a series of as many rows more or fewer. */
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

/* Recall ratios and times of a like series, if there is one. */
static bool
recall(HjgSeriesMemos *memos, HjgSeriesMemo *wanted)
{
	bool		found = false;

	if (__atomic_test_and_set(&memos->busy, __ATOMIC_ACQUIRE))
		return false;
	for (int i = 0; i < HJG_SERIES_MEMOS && !found; i++)
		if (is_like(&memos->memos[i], wanted))
		{
			memcpy(wanted->ratios, memos->memos[i].ratios, sizeof(wanted->ratios));
			wanted->predicted = scaled_times(&memos->memos[i].predicted, (double) wanted->nrows / memos->memos[i].nrows);
			found = true;
		}
	__atomic_clear(&memos->busy, __ATOMIC_RELEASE);
	return found;
}

static void
remember(HjgSeriesMemos *memos, const HjgSeriesMemo *memo)
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
		.strategy = join->config.strategy, .units = join->units, .bus_ns = bus_exchange_ns(join),
		.nsteps = series->nsteps, .first_step = series->steps[0], .last_step = series->steps[series->nsteps - 1],
		.nrows = series->nrows, .table_rows = join->part->nrows,
		/* what matters where the device works on copies */
		.building = hjg_series_copies(join) && series->building, .places = join->places,
		.is_missing = {join->part->missing_bytes[HJG_ON_CPU] > 0, join->part->missing_bytes[HJG_ON_DEVICE] > 0}
	};

	for (int i = 0; i < series->nsteps; i++)
		series->ratios[i] = join->units.cpu_e > 0 ? join->config.fixed_ratios[series->steps[i]] : 0;
	settle_scatter(join, series);
	if (join->config.costs == NULL || join->runner == NULL || series->nrows == 0)
		return 0;
	if (!recall(memos_of(join), &memo))
	{
		if (join->units.cpu_e > 0)
			search_ratios(join, series, memo.ratios, &memo.predicted);
		else
			predict_on_device(join, series, &memo.predicted);
		remember(memos_of(join), &memo);
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
