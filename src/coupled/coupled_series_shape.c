/*
 * coupled_series_shape.c
 *	  A series as the model sees it: its pieces, the places of its rows, the costs of its steps.
 */
#include <math.h>
#include <string.h>

#include "coupled/hjg_coupled_internal.h"

/* Least rows of a piece that P fetches ahead. */
#define MIN_FETCHED_ROWS 2048

/* ---- pieces ---- */

hjg_u32
hjg_series_chunk_rows(const HjgCoupled *join, hjg_u32 nrows)
{
	const hjg_u32 least = nrows / HJG_SERIES_MAX_CHUNKS + 1;
	hjg_u32		rows = join->config.chunk_rows;

	/* a piece whose memory is fetched ahead has at most as many rows as the work-ahead set has lines */
	if (hjg_prefetch_is_on(join))
	{
		hjg_u32		fetched = (hjg_u32) (join->config.was_bytes / HJG_COUPLED_LINE_BYTES);

		fetched = fetched < MIN_FETCHED_ROWS ? MIN_FETCHED_ROWS : fetched;
		rows = fetched < rows ? fetched : rows;
	}
	return rows > least ? rows : least;
}

/* ---- steps ---- */

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

double
hjg_series_slowdown(const HjgCoupled *join, HjgProcessor processor)
{
	const HjgUnits *units = &join->units;

	if (processor == HJG_ON_DEVICE)
		return (double) (units->device_d + units->device_e) / units->device_e;
	return units->cpu_e > 0 ? (double) (units->cpu_p + units->cpu_d + units->cpu_e) / units->cpu_e : 1;
}

double
hjg_series_bus_ns(const HjgCoupled *join)
{
	return join->config.bus_bytes_per_ns <= 0 ? 0 :
		(HJG_SERIES_EXCHANGE_BYTES + join->base.spec.key_width) / join->config.bus_bytes_per_ns;
}

/* Find the first step that uses the table. */
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

	/* such series take less time than the search */
	return scheme == HJG_SCHEME_PL && series->nrows < HJG_SERIES_FEW_ROWS ? HJG_SCHEME_OL : scheme;
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
		shape.exchange_ns[p] = hjg_series_bus_ns(join) + costs->exchange_ns[p];
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
