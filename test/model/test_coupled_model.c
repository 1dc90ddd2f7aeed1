/*
 * test_coupled_model.c
 *	  The model of co-processing: its equations on cases that can be computed by hand, and the search
 *	  for ratios against every point of a grid.
 *
 * test_coupled_model [SEED]; prints TAP lines.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "coupled/hjg_coupled_model.h"
#include "coupled/hjg_incache_model.h"
#include "hjg_test_model.h"
#include "model/hjg_measured.h"

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
	shape.exchange_ns[HJG_ON_CPU] = shape.exchange_ns[HJG_ON_DEVICE] = drand48() < 0.5 ? 0 : 5 * drand48();
	shape.spread = drand48() < 0.5 ? 0 : 0.3 * drand48();
	shape.piece_ns[HJG_ON_DEVICE] = drand48() < 0.5 ? 0 : 50000 * drand48();
	shape.chunk_rows = drand48() < 0.3 ? 0 : fmax(65536, shape.nrows / 64);
	shape.wake_ns = drand48() < 0.3 ? 0 : 50000 * drand48();
	shape.wait_ns = shape.wake_ns * 2;
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

	/* both slow down by half while the other works: all of the CPU's time, half of the device's */
	shape.slowdown[HJG_ON_CPU][0] = shape.slowdown[HJG_ON_CPU][1] = 1.5;
	hjg_series_predict(&shape, (const double[]) {0.5, 0.5}, &times);
	ok(near(times.processor_ns[HJG_ON_CPU], 150) && near(times.processor_ns[HJG_ON_DEVICE], 200),
	   "a processor slows down for as much of its time as the other one works");
	shape.slowdown[HJG_ON_CPU][0] = shape.slowdown[HJG_ON_CPU][1] = 0;

	/* equation 4: the device needs 200 ns for step 1, and the CPU needs all of its rows */
	hjg_series_predict(&shape, (const double[]) {0, 1}, &times);
	ok(near(times.delay_ns[HJG_ON_CPU], 100) && near(times.total_ns, 200),
	   "equation 4: a CPU that takes all rows over waits for the device, less its own step");
	/* it makes the CPU's half first: 200 - 200 * (1 - 0.5) / (1 - 0) - 50 */
	hjg_series_predict(&shape, (const double[]) {0, 0.5}, &times);
	ok(near(times.delay_ns[HJG_ON_CPU], 50), "equation 4: what the device makes afterwards is not waited for");

	/* equation 5: 100 ns of CPU for step 1; the device has no own rows to begin step 2 with */
	hjg_series_predict(&shape, (const double[]) {1, 0}, &times);
	ok(near(times.delay_ns[HJG_ON_DEVICE], 0) || near(times.delay_ns[HJG_ON_DEVICE], 100),
	   "equation 5: a device that takes all rows over waits for the CPU");
	ok(near(times.total_ns, 300), "equation 5: then it does its step");
	hjg_series_predict(&shape, (const double[]) {0.5, 0.5}, &times);
	ok(near(times.delay_ns[HJG_ON_CPU], 0) && near(times.delay_ns[HJG_ON_DEVICE], 0), "equal ratios: nobody waits");

	/* pieces of 50 rows: the CPU's last begins at 200; the device's first at 50, and it has 200 ns of them */
	shape.chunk_rows = 50;
	hjg_series_predict(&shape, (const double[]) {0, 1}, &times);
	ok(near(times.total_ns, 250), "equation 4 in pieces: the last one begins when it is made");
	hjg_series_predict(&shape, (const double[]) {1, 0}, &times);
	ok(near(times.total_ns, 250), "equation 5 in pieces: so does the first one");
	shape.chunk_rows = 100;
	hjg_series_predict(&shape, (const double[]) {0, 1}, &times);
	ok(near(times.total_ns, 300), "equation 4 with one piece: nothing passes at the same time");

	/* the device begins at once, waits for the CPU, and begins again */
	shape.wait_ns = 10;
	shape.wake_ns = 4;
	hjg_series_predict(&shape, (const double[]) {0.9, 0.1}, &times);
	ok(near(times.total_ns, 90 + 4 + 160 + 10) && near(times.processor_ns[HJG_ON_CPU], 100 + 4 + 4),
	   "a device that begins, or begins again, takes its time and the CPU's");
	hjg_series_predict(&shape, (const double[]) {1, 1}, &times);
	ok(near(times.total_ns, 200), "a device without rows takes none");

	/* one piece of the device a step, 20 ns besides its rows, and 3 of the CPU's to queue it */
	shape.piece_ns[HJG_ON_DEVICE] = 20;
	shape.call_ns = 3;
	hjg_series_predict(&shape, (const double[]) {0.5, 0.5}, &times);
	ok(near(times.processor_ns[HJG_ON_CPU], 100 + 4 + 2 * 3) && near(times.processor_ns[HJG_ON_DEVICE], 200 + 2 * 20 + 10),
	   "pieces of the device's take its time, and the CPU's that queues them");
	ok(near(times.step_ns[HJG_ON_CPU][0], 50) && near(times.step_ns[HJG_ON_DEVICE][1], 120),
	   "equation 3: a step's time is that of its rows and pieces");
	shape.piece_ns[HJG_ON_DEVICE] = shape.call_ns = 0;
	shape.wait_ns = shape.wake_ns = shape.chunk_rows = 0;

	/* 30 of the second step's rows change to the device, 20 to the CPU */
	shape.exchange_ns[HJG_ON_CPU] = 5;
	shape.exchange_ns[HJG_ON_DEVICE] = 7;
	hjg_series_predict(&shape, (const double[]) {0.6, 0.3}, &times);
	ok(near(times.step_ns[HJG_ON_CPU][1], 30) && near(times.step_ns[HJG_ON_DEVICE][1], 140 + 30 * 7),
	   "rows that the CPU had before cost the device more");
	hjg_series_predict(&shape, (const double[]) {0.3, 0.5}, &times);
	ok(near(times.step_ns[HJG_ON_CPU][1], 50 + 20 * 5) && near(times.step_ns[HJG_ON_DEVICE][1], 100),
	   "and those that the device had the CPU");
	hjg_series_predict(&shape, (const double[]) {0.4, 0.4}, &times);
	ok(near(times.total_ns, 240), "one ratio for all steps exchanges none");
	shape.exchange_ns[HJG_ON_CPU] = shape.exchange_ns[HJG_ON_DEVICE] = 0;

	/* by copies: only the second step uses the table, which both lack */
	shape.table_step = 1;
	shape.move_ns[HJG_ON_CPU] = 1000;
	shape.move_ns[HJG_ON_DEVICE] = 500;
	hjg_series_predict(&shape, (const double[]) {0, 1}, &times);
	ok(near(times.total_ns, 200 + 1000), "a table comes to the CPU before its rows meet it");
	hjg_series_predict(&shape, (const double[]) {1, 0}, &times);
	ok(near(times.total_ns, 300 + 500), "and to the device");
	hjg_series_predict(&shape, (const double[]) {0.5, 0.5}, &times);
	ok(near(times.total_ns, 200 + 1500), "and to both where both have such rows");
	shape.table_step = 2;
	hjg_series_predict(&shape, (const double[]) {0.5, 0.5}, &times);
	ok(near(times.total_ns, 200), "but to nobody for steps that use none");
	shape.table_step = 0;
	shape.move_ns[HJG_ON_CPU] = shape.move_ns[HJG_ON_DEVICE] = 0;
}

/*
 * Test crossings for a device that works on copies: p2 and p3, and p4, of 100 rows; 1 ns on the CPU, 2 ns
 * on the device.
 */
static void
test_crossings(void)
{
	HjgSeriesShape shape = {
		.nsteps = 2, .steps = {HJG_STEP_P2, HJG_STEP_P3}, .nrows = 100, .unit_ns = {{1, 1}, {2, 2}}, .copies = true,
		.copy = {{10, 0.5}, {20, 0.25}}, .call = {3, 0.125}
	};
	HjgSeriesTimes times;

	for (int i = 0; i < HJG_ARRAYS; i++)
	{
		shape.row_bytes[i] = 4;
		shape.places.arrays[i] = (HjgPlace) {.cpu_end = 1, .device_begin = 0};
	}
	/* the CPU has made 80 of the buckets, the device the others */
	shape.places.arrays[HJG_ARRAY_BUCKETS] = (HjgPlace) {.cpu_end = 0.8, .device_begin = 0.8};
	hjg_series_predict(&shape, (const double[]) {0.3, 0.3}, &times);
	ok(near(times.step_ns[HJG_ON_DEVICE][0], 140 + 20 + 200 * 0.25) && near(times.step_ns[HJG_ON_DEVICE][1], 140),
	   "by copies, rows that the CPU had come to the device before the step that reads them, and stay");
	ok(near(times.processor_ns[HJG_ON_CPU], 60 + 3 + 200 * 0.125), "and the CPU has to queue that");
	ok(near(times.total_ns, 350 + 10 + 280 * 0.5) && near(times.step_ns[HJG_ON_CPU][1], 30 + 150), "the host waits for the device's counts behind p3");
	hjg_series_predict(&shape, (const double[]) {1, 1}, &times);
	ok(near(times.total_ns, 200 + 10 + 80 * 0.5), "rows that the device had come to the CPU, and then nothing is left to be fetched");
	hjg_series_predict(&shape, (const double[]) {0.5, 0.2}, &times);
	ok(near(times.step_ns[HJG_ON_DEVICE][1], 160 + 20 + 120 * 0.25), "so do rows that change their side within the series");

	shape.nsteps = 1;
	shape.steps[0] = HJG_STEP_P4;
	shape.places.arrays[HJG_ARRAY_NODES] = (HjgPlace) {.cpu_end = 0.4, .device_begin = 0.4};
	hjg_series_predict(&shape, (const double[]) {0.5}, &times);
	ok(near(times.processor_ns[HJG_ON_CPU], 50 + 10 + 40 * 0.5 + 3 + 200 * 0.125), "p4: the CPU gets what it lacks");
	ok(near(times.total_ns, 30 + 100 + 20 + 200 * 0.25), "before the device begins, which needs the host's offsets");
}

/* ---- places ---- */

#define PLACE_ROWS 200

/* The owners of a valid copy of each row of each array. */
typedef struct RowPlaces
{
	bool		good[HJG_PROCESSORS][HJG_ARRAYS][PLACE_ROWS];
} RowPlaces;

/* Count the rows of an array that a processor gets, from row begin to end. */
static int
get_rows(RowPlaces *rows, HjgProcessor processor, int array, int begin, int end)
{
	int			n = 0;

	for (int row = begin; row < end; row++)
	{
		n += !rows->good[processor][array][row];
		rows->good[processor][array][row] = true;
	}
	return n;
}

static void
write_rows(RowPlaces *rows, HjgProcessor processor, int array, int begin, int end)
{
	for (int row = begin; row < end; row++)
	{
		rows->good[processor][array][row] = true;
		rows->good[1 - processor][array][row] = false;
	}
}

/* Test steps in any order and with any ratios, against each row on its own. */
static void
test_places(void)
{
	static RowPlaces rows;
	HjgPlaces	places;
	HjgRowsShape shape = {.nrows = PLACE_ROWS};
	bool		same = true;
	double		crossed = 0;

	for (int i = 0; i < HJG_ARRAYS; i++)
		shape.row_bytes[i] = 1 + i;
	hjg_places_host_wrote(&places, (1u << HJG_ARRAYS) - 1);
	for (int i = 0; i < HJG_ARRAYS; i++)
		write_rows(&rows, HJG_ON_CPU, i, 0, PLACE_ROWS);
	for (int run = 0; run < 3000 && same; run++)
	{
		const HjgStep step = (HjgStep) (drand48() * HJG_STEP_COUNT);
		const int	cut = drand48() < 0.3 ? (drand48() < 0.5 ? 0 : PLACE_ROWS) : (int) (drand48() * PLACE_ROWS);
		const HjgStepUse *use = &hjg_step_use[step];
		HjgCopies	to[HJG_PROCESSORS] = {{0, 0}, {0, 0}};
		double		bytes[HJG_PROCESSORS] = {0, 0};
		double		n[HJG_PROCESSORS] = {0, 0};

		hjg_places_host_wrote(&places, use->host_writes);
		hjg_places_step(&places, &shape, step, (double) cut / PLACE_ROWS, to);
		hjg_places_host_reads(&places, &shape, use->host_reads, &to[HJG_ON_CPU]);
		for (int i = 0; i < HJG_ARRAYS; i++)
		{
			int			got[3] = {0, 0, 0};

			if (use->host_writes & HJG_ARRAY_BIT(i))
				write_rows(&rows, HJG_ON_CPU, i, 0, PLACE_ROWS);
			if (use->reads & HJG_ARRAY_BIT(i))
			{
				got[0] = get_rows(&rows, HJG_ON_CPU, i, 0, cut);
				got[1] = get_rows(&rows, HJG_ON_DEVICE, i, cut, PLACE_ROWS);
			}
			if (use->writes & HJG_ARRAY_BIT(i))
			{
				write_rows(&rows, HJG_ON_CPU, i, 0, cut);
				write_rows(&rows, HJG_ON_DEVICE, i, cut, PLACE_ROWS);
			}
			if (use->host_reads & HJG_ARRAY_BIT(i))
				got[2] = get_rows(&rows, HJG_ON_CPU, i, 0, PLACE_ROWS);
			bytes[HJG_ON_CPU] += (got[0] + got[2]) * (1 + i);
			bytes[HJG_ON_DEVICE] += got[1] * (1 + i);
			n[HJG_ON_CPU] += (got[0] > 0) + (got[2] > 0);
			n[HJG_ON_DEVICE] += got[1] > 0;
		}
		for (int p = 0; p < HJG_PROCESSORS; p++)
		{
			same = same && fabs(to[p].bytes - bytes[p]) < 1e-6 * PLACE_ROWS && near(to[p].n, n[p]);
			crossed += bytes[p];
		}
	}
	ok(same && crossed > 0, "what crosses is what each row by itself would say");
	shape.chunk_rows = 64;
	{
		HjgCopies	to[HJG_PROCESSORS] = {{0, 0}, {0, 0}};

		hjg_places_host_wrote(&places, HJG_ARRAY_BIT(HJG_ARRAY_BUCKETS) | HJG_ARRAY_BIT(HJG_ARRAY_HEADERS));
		hjg_places_step(&places, &shape, HJG_STEP_N2, 0, to);
		ok(near(to[HJG_ON_DEVICE].n, 4 + 1), "rows are copied by the piece, headers as a whole");
	}
}

/* Draw a number: twelve uniform ones less 6, normal enough here. */
static double
normal(void)
{
	double		sum = -6;

	for (int i = 0; i < 12; i++)
		sum += drand48();
	return sum;
}

/* Test the longer of two varying times against drawn ones. */
static void
test_spread(void)
{
	HjgSeriesShape shape = {.nsteps = 1, .nrows = 1000, .unit_ns = {{1}, {2}}, .spread = 0.2};
	HjgSeriesTimes times;
	bool		right = true;

	for (double ratio = 0.5; ratio < 0.8; ratio += 0.05)
	{
		const double cpu_ns = 1000 * ratio;
		const double device_ns = 2000 * (1 - ratio);
		const double deviation_ns = 0.2 * (cpu_ns + device_ns) / 2;
		const int	n = 200000;
		double		sum = 0;

		hjg_series_predict(&shape, &ratio, &times);
		for (int i = 0; i < n; i++)
			sum += fmax(cpu_ns, device_ns + deviation_ns * normal());
		right = right && fabs(times.total_ns / (sum / n) - 1) < 0.01;
	}
	ok(right, "the longer of two times that differ is longer than the longer mean, by as much as when they are drawn");
	hjg_series_predict(&shape, (const double[]) {1}, &times);
	ok(near(times.total_ns, 1000), "one side alone waits for nobody");
	hjg_series_predict(&shape, (const double[]) {2.0 / 3}, &times);
	ok(times.total_ns > 1000 * 2.0 / 3 * 1.07, "sides that end together cost most: 8 % where they differ by 20 %");
}

static void
test_measured(void)
{
	HjgWeighted values[8] = {{100, 1}, {3, 1}, {1, 1}, {2, 1}, {4, 1}, {5, 1}, {6, 1}, {0, 1}};
	HjgWeighted weighted[3] = {{10, 6}, {0, 1}, {20, 3}};
	double		numbers[601];

	ok(near(hjg_trimmed_mean(values, 8, 0.125), 3.5), "a trimmed mean leaves out the least and the most");
	ok(near(hjg_trimmed_mean(values, 8, 0), 121.0 / 8), "with nothing trimmed it is the mean");
	/* the middle 6 of the weight of 10: 10 from 2 to 7, 20 from 7 to 8 */
	ok(near(hjg_trimmed_mean(weighted, 3, 0.2), (5 * 10 + 20) / 6.0), "values count as much as they weigh, in part where they are cut");
	values[0].weight = 0;
	ok(near(hjg_trimmed_mean(values, 1, 0.125), 0), "without any weight it is 0");
	for (int i = 0; i < 601; i++)
		numbers[i] = i;
	ok(near(hjg_spread(numbers, 601), 200), "the spread is half of the middle two thirds");
	ok(near(hjg_spread(numbers, 1), 0), "one value has none");
}

static void
test_search(void)
{
	double		worst_long = 0;
	double		worst_short = 0;
	bool		ordered = true;
	bool		in_range = true;
	int			several = 0;

	for (int n = 0; n < 300; n++)
	{
		const HjgSeriesShape shape = random_shape(1 + n % 4);
		const double grid = shape.nsteps == 4 ? 0.1 : shape.nsteps == 3 ? 0.04 : HJG_RATIO_STEP;
		double		ratios[HJG_SERIES_STEPS];
		double		whole = hjg_series_exhaust(&shape, grid, ratios);
		double		ns[HJG_SCHEME_PL + 1];
		bool		is_uniform;
		bool		is_alone;

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
		is_uniform = true;
		for (int i = 1; i < shape.nsteps; i++)
			is_uniform = is_uniform && ratios[i] == ratios[0];
		is_alone = is_uniform && (ratios[0] == 0 || ratios[0] == 1);
		several += !is_uniform;
		/* one side alone may be 10 % worse */
		if (is_alone)
			whole *= 1.1;
		ordered = ordered && ns[HJG_SCHEME_PL] <= fmin(ns[HJG_SCHEME_OL], ns[HJG_SCHEME_DD]) * (is_alone ? 1.1 : 1);
		if (shape.nrows >= 262144)
			worst_long = fmax(worst_long, ns[HJG_SCHEME_PL] / whole);
		else
			worst_short = fmax(worst_short, ns[HJG_SCHEME_PL] / whole);
	}
	ok(in_range, "ratios obey their scheme, and give the time that is returned");
	ok(several > 100, "in many series the ratios differ from step to step");
	ok(ordered, "PL is never worse than OL or DD, but for one side alone that is nearly as good");
	printf("# worst against the whole grid (0.02, with 3 and 4 steps coarser): %.4f long series, %.4f short ones\n",
		   worst_long, worst_short);
	/* the worst of 25 seeds were 1.097 and 1.076, where one side alone is preferred if it is within 10 % */
	ok(worst_long <= 1.12, "long series: within 12 % of the best point of the grid");
	ok(worst_short <= 1.25, "short series, where beginning anew costs most: within 25 % of the best point of the grid");
}

static bool
any_units(const HjgUnits *units, const void *arg)
{
	const HjgUnits *wanted = arg;

	return wanted == NULL || (units->cpu_p == wanted->cpu_p && units->cpu_d == wanted->cpu_d && units->cpu_e == wanted->cpu_e);
}

static void
test_incache(void)
{
	/* 4 threads and 4 work groups, alike; a fetcher at 10 bytes a ns, half of whose time is memory's */
	HjgInCacheShape shape = {.nrows = 100, .packed_bytes = 1000, .touched_bytes = 6400, .fetch_bytes_per_ns = 20,
		.fetch_work_ns = 0.05, .fetch_gain = 1, .unpack_ns = {100, 100}, .execute_ns = {{800, 800}, {800, 800}}, .miss_ns = {{1, 1}, {1, 1}},
		.all = {.cpu_e = 4, .device_e = 4}};
	const HjgUnits wanted = {.cpu_d = 4};
	HjgUnits	units = {.cpu_e = 4, .device_e = 4};
	HjgInCacheTimes times;
	HjgInCacheTimes best;
	bool		within = true;
	int			nlower = 0;

	shape.packed_bytes = 0;
	hjg_incache_predict(&shape, &units, &times);
	ok(near(times.execute_ns, 400 + 6400 * 0.5) && times.fetch_bytes_per_ns == 0 && times.decompress_ns == 0,
	   "all execute: half of the work and half of the misses each");
	units = (HjgUnits) {.cpu_p = 1, .cpu_e = 3, .device_e = 4};
	hjg_incache_predict(&shape, &units, &times);
	ok(near(times.fetch_bytes_per_ns, 10), "equation 1: the fetcher's bandwidth and work");
	ok(near(times.execute_ns, 800 / 1.75 + (6400 - 800 / 1.75 * 10) / 1.75), "equations 2 and 3: what it does not fetch is missed");
	shape.touched_bytes = 4000;
	hjg_incache_predict(&shape, &units, &times);
	ok(near(times.execute_ns, 800 / 1.75), "equation 4: all is fetched, and there is no miss");
	shape.fetch_gain = 0.5;
	hjg_incache_predict(&shape, &units, &times);
	ok(near(times.execute_ns, 800 / 1.75 + 2000 / 1.75), "a line that another unit fetched may save a part only");
	shape.fetch_gain = 0;
	shape.packed_bytes = 1000;
	units = (HjgUnits) {.cpu_d = 4, .device_d = 2, .device_e = 2};
	hjg_incache_predict(&shape, &units, &times);
	ok(near(times.decompress_ns, 100 / 1.5 + 1000 / 1.5), "equation 5: D takes its work and its misses");
	ok(near(times.execute_ns, 1100 / 1.5 + 4800 * (1 - 1100 / 1.5 / 9600)) && near(times.total_ns, times.execute_ns),
	   "equation 6: E takes longer, with all work groups once nothing is left for D");
	shape.execute_ns[0][HJG_ON_DEVICE] = 300;
	shape.miss_ns[0][HJG_ON_DEVICE] = 0.5;
	hjg_incache_predict(&shape, &units, &times);
	ok(near(times.execute_ns, 1100 / 1.5 + 2300 * (1 - 1100 / 1.5 / 4600)), "a processor that executes alone is as fast as it is alone");
	shape.execute_ns[0][HJG_ON_DEVICE] = 800;
	shape.miss_ns[0][HJG_ON_DEVICE] = 1;

	/* two cores for four work groups: D with the whole CPU and one core takes 2200 / 3 ns */
	shape.device_cores = 2;
	units = (HjgUnits) {.cpu_d = 4, .device_d = 1, .device_e = 3};
	hjg_incache_predict(&shape, &units, &times);
	ok(near(times.decompress_ns, 1100 / 1.5) && near(times.execute_ns, 1100 / 1.5 + 4800 * (1 - 1100 / 1.5 / 9600)),
	   "work groups that share cores: those of D leave theirs to E when they are done");
	units = (HjgUnits) {.cpu_d = 4, .device_d = 2, .device_e = 2};
	hjg_incache_predict(&shape, &units, &times);
	ok(near(times.decompress_ns, 550) && near(times.execute_ns, 550 + 4800), "where D has all cores, E comes behind");
	shape.window_rows = 30;
	shape.window_ns = 7;
	shape.rest_ns = 11;
	hjg_incache_predict(&shape, &units, &times);
	ok(near(times.execute_ns, 550 + 4800 + 4 * 7 + 11), "windows take their time beside the rows, and so does what is no step");
	ok(near(times.total_ns, times.execute_ns), "and nothing else where E comes behind");
	units = (HjgUnits) {.cpu_d = 4, .device_d = 1, .device_e = 3};
	hjg_incache_predict(&shape, &units, &times);
	ok(near(times.total_ns, times.execute_ns + 0.3 * 1100 / 1.5 / 9600 * 4800), "nobody executes while the first window is unpacked");
	shape.start_ns = 13;
	shape.thread_ns = 2;
	shape.window_rows = 1000;
	shape.window_ns = shape.rest_ns = 0;
	hjg_incache_predict(&shape, &units, &times);
	ok(near(times.total_ns, 1100 / 1.5 + 4800 + 13 + 3 * 2), "a join of one window is unpacked as a whole first, by threads that have to be started");
	shape.window_rows = shape.window_ns = shape.rest_ns = shape.start_ns = 0;
	shape.device_cores = 0;
	{
		HjgInCacheShape copies = shape;
		HjgUnits	all = {.cpu_e = 4, .device_e = 4};
		HjgInCacheTimes one;

		copies.one_side = true;
		copies.cross_ns = 100;
		copies.packed_bytes = 0;
		copies.execute_ns[0][HJG_ON_CPU] = 1e5;
		hjg_incache_predict(&copies, &all, &times);
		all.cpu_e = 0;
		hjg_incache_predict(&copies, &all, &one);
		ok(near(times.execute_ns, one.execute_ns), "by copies E is on the faster side alone");
		copies.cross_ns = 0;
		hjg_incache_predict(&copies, &all, &times);
		ok(near(one.execute_ns - times.execute_ns, 100), "for which rows have to come to the device");
	}
	shape.unpack_ns[HJG_ON_CPU] = shape.unpack_ns[HJG_ON_DEVICE] = 1e6;
	hjg_incache_predict(&shape, &units, &times);
	ok(times.decompress_ns > 6e5 && near(times.execute_ns, times.decompress_ns), "equation 7: E waits for D");

	for (int n = 0; n < 200; n++)
	{
		for (int p = 0; p < HJG_PROCESSORS; p++)
		{
			shape.unpack_ns[p] = exp(drand48() * 8);
			for (int together = 0; together < 2; together++)
			{
				shape.execute_ns[together][p] = exp(drand48() * 8);
				shape.miss_ns[together][p] = drand48();
			}
		}
		shape.fetch_gain = drand48();
		units = hjg_incache_choose(&shape, any_units, NULL, &best);
		within &= units.cpu_p + units.cpu_d + units.cpu_e == 4 && units.device_d + units.device_e == 4;
		for (int d = 0; d <= 4; d++)
			for (int g = 0; g < 4; g++)
			{
				const HjgUnits other = {.cpu_d = d, .cpu_e = 4 - d, .device_d = g, .device_e = 4 - g};

				hjg_incache_predict(&shape, &other, &times);
				nlower += times.total_ns < best.total_ns * (1 - 1e-9);
			}
		units = hjg_incache_choose(&shape, any_units, &wanted, &best);
		within &= units.cpu_d == 4 && units.cpu_p == 0;
	}
	ok(within, "equations 8 and 9: never more units than there are, and those that were asked for");
	ok(nlower == 0, "equation 10: no division is better than the one chosen");
}

static void
test_costs(void)
{
	static const int logs[HJG_STEP_SIZES] = HJG_STEP_LOGS;
	HjgStepCosts costs = {.nsizes = 3};

	for (int s = 0; s < 3; s++)
	{
		costs.alone_ns[1][s][HJG_ON_CPU][HJG_STEP_B3] = 2 + 4 * s;
		costs.together_ns[1][s][HJG_ON_CPU][HJG_STEP_B3] = 3 + 4 * s;
	}
	ok(near(hjg_step_cost_ns(&costs, costs.alone_ns[1], HJG_ON_CPU, HJG_STEP_B3, 1), 2) &&
	   near(hjg_step_cost_ns(&costs, costs.alone_ns[1], HJG_ON_CPU, HJG_STEP_B3, exp2(logs[0])), 2) &&
	   near(hjg_step_cost_ns(&costs, costs.alone_ns[1], HJG_ON_CPU, HJG_STEP_B3, exp2(logs[1])), 6) &&
	   near(hjg_step_cost_ns(&costs, costs.together_ns[1], HJG_ON_CPU, HJG_STEP_B3, 1e12), 11),
	   "unit costs are those measured at the sizes, and the last one's beyond");
	ok(near(hjg_step_cost_ns(&costs, costs.alone_ns[1], HJG_ON_CPU, HJG_STEP_B3, exp2((logs[0] + logs[1]) / 2.0)), 4) &&
	   near(hjg_step_cost_ns(&costs, costs.alone_ns[1], HJG_ON_CPU, HJG_STEP_B3, exp2((logs[1] + logs[2]) / 2.0)), 8),
	   "and between them on the logarithm");
	costs.launch_ns[1][1] = 5;
	costs.launch_ns[1][2] = 9;
	costs.call[1] = (HjgCopyCost) {10, 1};
	costs.call[2] = (HjgCopyCost) {20, 3};
	{
		const HjgCopyCost between = hjg_copy_cost(&costs, costs.call, exp2((logs[1] + logs[2]) / 2.0));
		const HjgCopyCost beyond = hjg_copy_cost(&costs, costs.call, 1e12);

		ok(near(between.each_ns, 15) && near(between.byte_ns, 2) && near(beyond.each_ns, 20) && near(beyond.byte_ns, 3), "copies cost what those of joins of the size do");
	}
	ok(near(hjg_size_cost_ns(&costs, costs.launch_ns[1], exp2((logs[1] + logs[2]) / 2.0)), 7) &&
	   near(hjg_size_cost_ns(&costs, costs.launch_ns[1], 1e12), 9), "so are those of pieces");
}

int
main(int argc, char **argv)
{
	long		seed = argc > 1 ? atol(argv[1]) : (long) time(NULL);

	printf("# seed %ld\n", seed);
	srand48(seed);
	test_equations();
	test_crossings();
	test_places();
	test_spread();
	test_measured();
	test_search();
	test_incache();
	test_costs();
	return done_testing();
}
