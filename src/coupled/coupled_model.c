/*
 * coupled_model.c
 *	  Equations 1 to 5 of the coupled architecture's cost model, and the search for ratios.
 */
#include "coupled/hjg_coupled_model.h"

#include <math.h>
#include <string.h>

/* Find the two calibrated sizes around build_rows: the index of the first, and the weight of the second. */
static int
find_size(const HjgStepCosts *costs, double build_rows, double *share)
{
	static const int logs[HJG_STEP_SIZES] = HJG_STEP_LOGS;
	const double rows_log = build_rows > 1 ? log2(build_rows) : 0;
	int			i = 0;

	while (i + 1 < costs->nsizes - 1 && rows_log >= logs[i + 1])
		i++;
	*share = fmin(fmax((rows_log - logs[i]) / (logs[i + 1] - logs[i]), 0), 1);
	return i;
}

double
hjg_step_cost_ns(const HjgStepCosts *costs, const HjgStepNs ns, HjgProcessor processor, HjgStep step, double build_rows)
{
	double		share;
	const int	i = find_size(costs, build_rows, &share);

	return ns[i][processor][step] * (1 - share) + ns[i + 1][processor][step] * share;
}

double
hjg_size_cost_ns(const HjgStepCosts *costs, const double *ns, double build_rows)
{
	double		share;
	const int	i = find_size(costs, build_rows, &share);

	return ns[i] * (1 - share) + ns[i + 1] * share;
}

HjgCopyCost
hjg_copy_cost(const HjgStepCosts *costs, const HjgCopyCost *cost, double build_rows)
{
	double		share;
	const int	i = find_size(costs, build_rows, &share);

	return (HjgCopyCost) {cost[i].each_ns * (1 - share) + cost[i + 1].each_ns * share, cost[i].byte_ns * (1 - share) + cost[i + 1].byte_ns * share};
}

/* Count the pieces of a part of the rows. */
static double
count_pieces(const HjgSeriesShape *shape, double part)
{
	if (part <= 0)
		return 0;
	return shape->chunk_rows > 0 ? ceil(part * shape->nrows / shape->chunk_rows) : 1;
}

/* Rows of a step on a processor: those that it had in the previous step, and those that it takes over. */
typedef struct StepPart
{
	double		own;
	double		taken;
} StepPart;

static StepPart
part_of(const double *ratios, int step, HjgProcessor processor)
{
	const double before = ratios[step > 0 ? step - 1 : 0];
	const double mine = processor == HJG_ON_CPU ? ratios[step] : 1 - ratios[step];
	const double had = processor == HJG_ON_CPU ? before : 1 - before;

	return (StepPart) {.own = fmin(mine, had), .taken = fmax(mine - had, 0)};
}

/* Times at which both processors stop. */
typedef struct Stops
{
	double		first_ns;		/* before the device begins */
	double		behind_ns;		/* after the series */
} Stops;

/*
 * Add the copies that each step needs before it; copies to the device take the time of both processors.
 * The CPU's rows are copied before the device begins with p4, whose pairs use the bus in the same
 * direction, and the CPU waits for the data that the host reads after the series.
 */
static Stops
add_crossings(const HjgSeriesShape *shape, const double *ratios, double step_ns[HJG_PROCESSORS][HJG_SERIES_STEPS], double *queue_ns)
{
	HjgRowsShape rows = {.nrows = shape->nrows, .chunk_rows = shape->chunk_rows};
	HjgPlaces	places = shape->places;
	HjgCopies	behind = {0, 0};
	Stops		stops = {0, 0};

	memcpy(rows.row_bytes, shape->row_bytes, sizeof(rows.row_bytes));
	for (int i = 0; i < shape->nsteps; i++)
	{
		HjgCopies	to[HJG_PROCESSORS] = {{0, 0}, {0, 0}};

		hjg_places_host_wrote(&places, hjg_step_use[shape->steps[i]].host_writes);
		hjg_places_step(&places, &rows, shape->steps[i], ratios[i], to);
		hjg_places_host_reads(&places, &rows, hjg_step_use[shape->steps[i]].host_reads, &behind);
		for (int p = 0; p < HJG_PROCESSORS; p++)
			step_ns[p][i] += hjg_copies_ns(&shape->copy[p], &to[p]);
		queue_ns[i] += hjg_copies_ns(&shape->call, &to[HJG_ON_DEVICE]);
		if (i == 0 && shape->steps[i] == HJG_STEP_P4)
			stops.first_ns = hjg_copies_ns(&shape->copy[HJG_ON_CPU], &to[HJG_ON_CPU]);
	}
	stops.behind_ns = hjg_copies_ns(&shape->copy[HJG_ON_CPU], &behind);
	return stops;
}

/*
 * Compute the time of each step on each processor (equations 2 and 3, with M in the unit cost), and the
 * CPU's time to queue the device's pieces.
 */
static Stops
step_times(const HjgSeriesShape *shape, const double *ratios, double step_ns[HJG_PROCESSORS][HJG_SERIES_STEPS], double *queue_ns)
{
	double		busy[HJG_PROCESSORS] = {0, 0};

	for (int i = 0; i < shape->nsteps; i++)
	{
		const double after = ratios[i + 1 < shape->nsteps ? i + 1 : i];

		for (int p = 0; p < HJG_PROCESSORS; p++)
		{
			/* pieces are cut where rows are taken over within the series */
			const StepPart part = part_of(ratios, i, (HjgProcessor) p);
			double		pieces = count_pieces(shape, part.own) + count_pieces(shape, part.taken);

			/* the device's rows are also cut where the CPU will take over */
			if (p == HJG_ON_DEVICE)
			{
				const double wanted = fmax(after - (1 - part.own), 0);

				pieces = count_pieces(shape, wanted) + count_pieces(shape, part.own - wanted) + count_pieces(shape, part.taken);
				queue_ns[i] = shape->call_ns * pieces;
			}
			step_ns[p][i] = shape->nrows * (part.own + part.taken) * shape->unit_ns[p][i] + shape->piece_ns[p] * pieces;
			busy[p] += step_ns[p][i];
		}
	}
	/* not in the paper: a processor is slower while the other one works */
	for (int p = 0; p < HJG_PROCESSORS; p++)
		for (int i = 0; i < shape->nsteps; i++)
		{
			if (shape->slowdown[p][i] > 1 && busy[p] > 0)
				step_ns[p][i] *= 1 + (shape->slowdown[p][i] - 1) * fmin(busy[1 - p] / busy[p], 1);
			step_ns[p][i] += shape->nrows * part_of(ratios, i, (HjgProcessor) p).taken * shape->exchange_ns[p];
		}
	return shape->copies ? add_crossings(shape, ratios, step_ns, queue_ns) : (Stops) {0, 0};
}

/*
 * Compute how long a processor waits in a step in which it takes over rows.  It reaches them at begin_ns
 * and needs taken_ns for them; the other processor makes them in made_ns and ends at ready_ns.  Not in the
 * paper, where rows do not come in pieces: neither the first nor the last piece can begin before it is
 * made.
 */
static double
delay_of(const HjgSeriesShape *shape, double part, double begin_ns, double taken_ns, double ready_ns, double made_ns)
{
	const double k = count_pieces(shape, part);
	const double from_first_ns = ready_ns - made_ns * (1 - 1 / k) + taken_ns;

	return fmax(fmax(ready_ns + taken_ns / k, from_first_ns) - (begin_ns + taken_ns), 0);
}

/*
 * Compute the mean of the longer of two times, in place of the maximum in equation 1: if the times vary
 * between series, it is above the mean of either, the most if both are alike (C.  E.  Clark, The greatest
 * of a finite set of random variables, 1961, with normal ones).
 */
static double
longer_of(double a_ns, double b_ns, double spread)
{
	const double deviation_ns = spread * (a_ns + b_ns) / 2;
	const double apart = deviation_ns > 0 ? fabs(a_ns - b_ns) / deviation_ns : HUGE_VAL;

	if (apart > 4)
		return fmax(a_ns, b_ns);
	return fmax(a_ns, b_ns) + deviation_ns * (exp(-apart * apart / 2) / sqrt(2 * M_PI) - apart * erfc(apart / sqrt(2)) / 2);
}

/* Compute the time until the table is on the processors that use it. */
static double
move_time(const HjgSeriesShape *shape, const double *ratios)
{
	bool		uses[HJG_PROCESSORS] = {false, false};

	for (int i = shape->table_step; i < shape->nsteps; i++)
	{
		uses[HJG_ON_CPU] |= ratios[i] > 0;
		uses[HJG_ON_DEVICE] |= ratios[i] < 1;
	}
	return (uses[HJG_ON_CPU] ? shape->move_ns[HJG_ON_CPU] : 0) + (uses[HJG_ON_DEVICE] ? shape->move_ns[HJG_ON_DEVICE] : 0);
}

/*
 * Predict a series with its delays: a processor that takes more rows of step i than of step i - 1 waits
 * until the other has made them; a device that has waited must start again.
 */
void
hjg_series_predict(const HjgSeriesShape *shape, const double *ratios, HjgSeriesTimes *times)
{
	double		(*step_ns)[HJG_SERIES_STEPS];
	double		queue_ns[HJG_SERIES_STEPS];
	const double moved_ns = move_time(shape, ratios);
	double		sum[HJG_PROCESSORS] = {moved_ns, moved_ns};	/* up to step i - 1, delays included */
	Stops		stops;

	memset(times, 0, sizeof(*times));
	step_ns = times->step_ns;
	stops = step_times(shape, ratios, step_ns, queue_ns);
	sum[HJG_ON_DEVICE] += stops.first_ns;
	for (int i = 0; i < shape->nsteps; i++)
	{
		const double r = ratios[i];
		const double before = ratios[i > 0 ? i - 1 : 0];
		double		delay[HJG_PROCESSORS] = {0, 0};

		if (r > before)
		{
			/* equation 4: the device makes the CPU's rows of step i - 1 first */
			const double ready_ns = sum[HJG_ON_DEVICE] - step_ns[HJG_ON_DEVICE][i - 1] * (1 - r) / (1 - before);
			const double taken_ns = step_ns[HJG_ON_CPU][i] * (r - before) / r;

			if (shape->chunk_rows > 0)
				delay[HJG_ON_CPU] = delay_of(shape, r - before, sum[HJG_ON_CPU] + step_ns[HJG_ON_CPU][i] - taken_ns, taken_ns,
											 ready_ns, step_ns[HJG_ON_DEVICE][i - 1] * (r - before) / (1 - before));
			else
				delay[HJG_ON_CPU] = ready_ns - (sum[HJG_ON_CPU] + step_ns[HJG_ON_CPU][i]);
		}
		else if (r < before)
		{
			/* equation 5: the device begins step i with the rows that it has */
			const double taken_ns = step_ns[HJG_ON_DEVICE][i] * (before - r) / (1 - r);
			const double begin_ns = sum[HJG_ON_DEVICE] + step_ns[HJG_ON_DEVICE][i] - taken_ns;

			if (shape->chunk_rows > 0)
				delay[HJG_ON_DEVICE] = delay_of(shape, before - r, begin_ns, taken_ns, sum[HJG_ON_CPU],
												step_ns[HJG_ON_CPU][i - 1] * (before - r) / before);
			else
				delay[HJG_ON_DEVICE] = sum[HJG_ON_CPU] - begin_ns;
		}
		for (int p = 0; p < HJG_PROCESSORS; p++)
		{
			delay[p] = fmax(delay[p], 0);
			times->delay_ns[p] += delay[p];
			sum[p] += step_ns[p][i] + delay[p];
		}
		/* the device starts: with its first rows, and after it was idle */
		if (r < 1 && (delay[HJG_ON_DEVICE] > 0 || sum[HJG_ON_DEVICE] == moved_ns + stops.first_ns + step_ns[HJG_ON_DEVICE][i]))
		{
			sum[HJG_ON_DEVICE] += shape->wait_ns;
			sum[HJG_ON_CPU] += shape->wake_ns;
		}
		sum[HJG_ON_CPU] += queue_ns[i];
	}
	for (int p = 0; p < HJG_PROCESSORS; p++)
		times->processor_ns[p] = sum[p];
	times->total_ns = longer_of(sum[HJG_ON_CPU], sum[HJG_ON_DEVICE], shape->spread) + stops.behind_ns;
	/* the CPU's threads do the host's work */
	step_ns[HJG_ON_CPU][shape->nsteps - 1] += stops.behind_ns;
}

static double
total_of(const HjgSeriesShape *shape, const double *ratios)
{
	HjgSeriesTimes times;

	hjg_series_predict(shape, ratios, &times);
	return times.total_ns;
}

/* Replace the best ratios by these if they are better. */
static bool
offer_ratios(const HjgSeriesShape *shape, const double *ratios, double *best, double *best_ns)
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
		offer_ratios(shape, ratios, best, best_ns);
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
		offer_ratios(shape, ratios, best, best_ns);
	}
}

/*
 * Search two ratios, one for the first steps and one for the others: the device is idle and starts again
 * at most once.
 */
static void
search_two(const HjgSeriesShape *shape, double *best, double *best_ns)
{
	const int	npoints = 20;

	for (int cut = 1; cut < shape->nsteps; cut++)
		for (int k = 0; k < (npoints + 1) * (npoints + 1); k++)
		{
			double		ratios[HJG_SERIES_STEPS];

			for (int i = 0; i < shape->nsteps; i++)
				ratios[i] = (double) (i < cut ? k / (npoints + 1) : k % (npoints + 1)) / npoints;
			offer_ratios(shape, ratios, best, best_ns);
		}
}

/*
 * Strides of the wide grids, and of the search from their best points, in units of HJG_RATIO_STEP.  The
 * whole search takes 0.9 ms for four steps; its result is kept for other series and joins.
 */
static const double wide_steps[] = {1.0 / 3, 0.25, 0.2};
static const int strides[] = {5, 2, 1};

/* The factor by which any ratios must be better than one side alone, because predictions err by as much. */
#define ALONE_MARGIN 1.1

/*
 * Descend from *best: try all neighbours at the distance of a stride, in any combination of ratios, until
 * none is better; then with a shorter stride.
 */
static void
descend_from(const HjgSeriesShape *shape, double *best, double *best_ns)
{
	int			nmoves = 1;

	for (int i = 0; i < shape->nsteps; i++)
		nmoves *= 3;
	for (size_t s = 0; s < sizeof(strides) / sizeof(strides[0]); s++)
		for (bool moved = true; moved;)
		{
			double		center[HJG_SERIES_STEPS];

			moved = false;
			memcpy(center, best, sizeof(double) * (size_t) shape->nsteps);
			for (int move = 0; move < nmoves; move++)
			{
				double		ratios[HJG_SERIES_STEPS];

				for (int i = 0, rest = move; i < shape->nsteps; i++, rest /= 3)
					ratios[i] = fmin(fmax(center[i] + (rest % 3 - 1) * strides[s] * HJG_RATIO_STEP, 0), 1);
				moved |= offer_ratios(shape, ratios, best, best_ns);
			}
		}
}

/*
 * Prefer one side alone to ratios that are hardly better.  The best of many predictions is the one whose
 * errors favour it most, and a side alone needs no other to be awake.
 */
static void
prefer_alone(const HjgSeriesShape *shape, double *best, double *best_ns)
{
	double		alone[HJG_SERIES_STEPS];
	double		alone_ns = HUGE_VAL;

	for (int side = 0; side < 2; side++)
	{
		double		here[HJG_SERIES_STEPS];

		for (int i = 0; i < shape->nsteps; i++)
			here[i] = side;
		offer_ratios(shape, here, alone, &alone_ns);
	}
	if (alone_ns > *best_ns * ALONE_MARGIN)
		return;
	memcpy(best, alone, sizeof(double) * (size_t) shape->nsteps);
	*best_ns = alone_ns;
}

double
hjg_series_search(const HjgSeriesShape *shape, HjgScheme scheme, double *ratios)
{
	double		best_ns = HUGE_VAL;

	if (scheme != HJG_SCHEME_DD)
		search_ol(shape, ratios, &best_ns);
	if (scheme == HJG_SCHEME_PL)
	{
		/* descend from the best points of OL, of DD, of two ratios and of the wide grids */
		const int	ngrids = sizeof(wide_steps) / sizeof(wide_steps[0]);
		double		from[HJG_SERIES_STEPS];
		double		from_ns;

		descend_from(shape, ratios, &best_ns);
		for (int i = -2; i < ngrids; i++)
		{
			from_ns = HUGE_VAL;
			if (i == -2 || shape->nsteps == 1)
				search_dd(shape, from, &from_ns);
			else if (i == -1)
				search_two(shape, from, &from_ns);
			else
				from_ns = hjg_series_exhaust(shape, wide_steps[i], from);
			descend_from(shape, from, &from_ns);
			offer_ratios(shape, from, ratios, &best_ns);
		}
		prefer_alone(shape, ratios, &best_ns);
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
		offer_ratios(shape, here, ratios, &best_ns);
		for (i = 0; i < shape->nsteps && ++at[i] > npoints; i++)
			at[i] = 0;
	}
	return best_ns;
}
