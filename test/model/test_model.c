/*
 * test_model.c
 *	  The cost model's promises, over random shapes of joins.
 *
 * test_model [SEED]; prints TAP lines.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "hjg_test_model.h"
#include "model/hjg_measured.h"
#include "model/hjg_model.h"

static bool
near(double a, double b)
{
	return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

static double
random_rows(void)
{
	return exp2(drand48() * 30);
}

/* Predict reading one column of a table of these rows, without conditions. */
static HjgScanTimes
scan_of(double rows)
{
	const HjgTableScan scan = {.pages = rows / 100, .rows = rows, .passing = 1, .lines = 1, .wanted = {.nfixed = 1}};

	return hjg_model_scan(&hjg_model_default_costs, &scan, 1);
}

static HjgJoinShape
random_shape(void)
{
	HjgJoinShape shape = {
		.build_rows = random_rows(),
		.probe_rows = random_rows(),
		.pairs = random_rows(),
		.partnered = drand48(),
		.nkeys = 1 + (int) (drand48() * 4),
		.key_width = 8,
		.build_columns = (int) (drand48() * 10),
		.probe_columns = (int) (drand48() * 10),
		.nthreads = (int) (drand48() * 5),
		.spill_passes = drand48() < 0.3 ? 1 + (int) (drand48() * 3) : 0,
		.build_width = drand48() * 200,
		.probe_width = drand48() * 200,
	};

	if (drand48() < 0.5)
		shape.build_scan = scan_of(shape.build_rows * (1 + drand48()));
	if (drand48() < 0.5)
		shape.probe_scan = scan_of(shape.probe_rows * (1 + drand48()));

	shape.build_bytes = shape.build_rows * 40;
	shape.build_varlenas = shape.build_columns / 2;
	shape.probe_varlenas = shape.probe_columns / 3;
	shape.nhashed_keys = drand48() < 0.5 ? 0 : shape.nkeys;
	return shape;
}

static double
total(HjgJoinShape shape)
{
	HjgPrediction p;

	hjg_model_predict(&hjg_model_default_costs, &shape, &p);
	return p.total_ns;
}

static void
quarter(HjgScanTimes *times)
{
	times->own_ns /= 4;
	times->memory_ns /= 4;
	times->core_ns /= 4;
}

/* Test how the predicted scan grows with each property of the table. */
static void
test_scans(void)
{
	const HjgUnitCosts *costs = &hjg_model_default_costs;
	bool		width_costs = true;
	bool		walks_cost = true;
	bool		tests_cost = true;
	bool		core_costs = true;
	bool		shares = true;
	bool		waits_less = true;
	bool		mapping_costs = true;

	for (int i = 0; i < 10000; i++)
	{
		const HjgTableScan scan = {
			.pages = random_rows(), .rows = random_rows(), .passing = drand48(), .lines = 4 * drand48(),
			.wanted = {.nfixed = 1 + (int) (drand48() * 5)}, .tested = {.nfixed = 1}, .tests = {1},
			.core_share = drand48(), .core_operators = 1, .all_tests = 1, .all_operators = 1
		};
		const HjgScanTimes times = hjg_model_scan(costs, &scan, 1);
		const HjgScanTimes half = hjg_model_scan(costs, &scan, 0.5);
		HjgTableScan other = scan;

		shares &= near(half.own_ns * 2, times.own_ns) && near(half.memory_ns * 2, times.memory_ns) && near(half.core_ns * 2, times.core_ns);
		other.lines += 1;
		width_costs &= hjg_model_scan(costs, &other, 1).memory_ns > times.memory_ns && hjg_model_scan(costs, &other, 1).own_ns == times.own_ns;
		waits_less &= hjg_model_wait_ns(&times, times.own_ns) <= hjg_model_wait_ns(&times, 0) &&
			times.own_ns + hjg_model_wait_ns(&times, 0) >= times.memory_ns * (1 - 1e-9);
		other.unmapped_mb = 1;
		mapping_costs &= times.map_ns == 0 && near(hjg_model_scan(costs, &other, 1).map_ns, costs->map_mb_ns);
		other = scan;
		other.tested.nvarlenas = 1;
		walks_cost &= hjg_model_scan(costs, &other, 1).own_ns > times.own_ns;
		for (int k = 0; k < HJG_NTESTS; k++)
		{
			other = scan;
			other.tests[k] += 0.5;
			tests_cost &= hjg_model_scan(costs, &other, 1).own_ns > times.own_ns;
		}
		other = scan;
		other.core_share = 0;
		core_costs &= hjg_model_scan(costs, &other, 1).own_ns < times.own_ns && hjg_model_scan(costs, &other, 1).core_ns == times.core_ns;
	}
	ok(width_costs, "long rows cost what comes from memory");
	ok(waits_less, "a scan takes as long as memory does, and waits the less the more it works");
	ok(mapping_costs, "a new process maps the table");
	ok(walks_cost, "conditions behind columns of variable width cost a walk of all rows");
	ok(tests_cost, "each condition in vectors costs, of each kind");
	ok(core_costs, "conditions left to core cost the rows that reach them");
	ok(shares, "half of a table takes half of the time");
}

/* Test scans of kept columns. */
static void
test_kept_scans(void)
{
	const HjgUnitCosts *costs = &hjg_model_default_costs;
	bool		sparse_costs = true;
	bool		dense_is_free = true;
	bool		mapped = true;
	bool		keys_cheaper = true;

	for (int i = 0; i < 10000; i++)
	{
		HjgTableScan scan = {
			.pages = 1000, .rows = random_rows(), .passing = 0.002 + 0.1 * drand48(), .lines = 2, .wanted = {.nfixed = 2}, .kept_tests = 1, .kept_share = 1,
			.coded_share = 1, .nwanted = 2, .nread = 3
		};
		const HjgScanTimes times = hjg_model_scan(costs, &scan, 1);
		HjgTableScan other = scan;
		HjgJoinShape shape = random_shape();
		double		kept_ns;

		sparse_costs &= hjg_model_sparse_ns(costs, scan.rows, scan.passing, 2) > 0 && near(times.kept_ns, times.own_ns) && times.map_ns == 0;
		dense_is_free &= hjg_model_sparse_ns(costs, scan.rows, 1, 2) == 0 && hjg_model_sparse_ns(costs, scan.rows, 0, 2) == 0;
		other.unmapped_mb = 5;
		other.kept_unmapped_mb = 1;
		mapped &= near(hjg_model_scan(costs, &other, 1).map_ns, costs->map_mb_ns);
		scan.passing = 1;
		shape.probe_rows = scan.rows;
		shape.nkeys = 1;
		shape.probe_scan = hjg_model_scan(costs, &scan, 1);
		shape.partnered = 0.98;
		kept_ns = hjg_model_filtering_ns(costs, &shape);
		scan.kept_share = scan.coded_share = 0;
		shape.probe_scan = hjg_model_scan(costs, &scan, 1);
		keys_cheaper &= kept_ns < hjg_model_filtering_ns(costs, &shape);
	}
	ok(sparse_costs, "values of few rows of a kept column come from memory one by one");
	ok(dense_is_free, "those of all rows, or of none, do not");
	ok(mapped, "a new process maps kept columns instead of pages");
	ok(keys_cheaper, "a filter reads keys of kept columns faster than those of pages");
}

/* Test what processes lose to one another. */
static void
test_crowding(void)
{
	HjgUnitCosts costs = hjg_model_default_costs;
	const double numbers[] = {1, 2, 4, 8};
	const double linear[] = {100, 110, 130, 170};
	const double faster[] = {100, 90, 90, 80};
	const double turns[] = {100, 250, 480, 900};
	HjgScanTimes scan = {.own_ns = 100, .kept_ns = 25, .map_ns = 10};

	ok(near(hjg_model_crowding_of(numbers, linear, 4), 0.1), "a linear law is found in measured times");
	ok(hjg_model_crowding_of(numbers, linear, 1) == 0 && hjg_model_crowding_of(numbers, linear, 0) == 0, "one process alone tells nothing");
	ok(hjg_model_crowding_of(numbers, faster, 4) == 0, "processes do not speed one another up");
	ok(hjg_model_crowding_of(numbers, turns, 4) == 1, "nor are they slower than in turns");
	ok(near(hjg_model_crowded_reading_ns(&costs, &scan, 120, 8), 130), "without measurement nothing is lost");
	costs.crowding[HJG_WORK_MAPPING] = 1;
	costs.crowding[HJG_WORK_PAGES] = 0.2;
	costs.crowding[HJG_WORK_CACHED] = 0.1;
	ok(near(hjg_model_crowded_reading_ns(&costs, &scan, 120, 1), 130), "nor by one process");
	ok(near(hjg_model_crowded_reading_ns(&costs, &scan, 120, 6), 120 * 1.5 + 10 * 6), "each kind of work loses its part");
	scan.memory_ns = 90;
	costs.far_walk_ns = 0.8 * costs.walk_ns;
	ok(near(hjg_model_crowded_reading_ns(&costs, &scan, 120, 6), 120 * 1.5 + 90 * 2 - 0.2 * 75 * 1.5 + 10 * 6), "memory supplies rows beside a part of the work on pages");
	ok(near(hjg_model_crowded_reading_ns(&costs, &scan, 40, 6), 40 * 1.5 + 90 * 2 - 0.2 * 30 * 1.5 + 10 * 6), "or of what a filter leaves of it");
	scan.found_ns = 20;
	ok(near(hjg_model_crowded_reading_ns(&costs, &scan, 120, 1), 120 + 90 - 20 - 0.2 * 55 + 10), "and beside finding rows");
	scan.found_ns = 0;
	costs.far_walk_ns = 2 * costs.walk_ns;
	ok(near(hjg_model_crowded_reading_ns(&costs, &scan, 40, 1), 40 + 90 + 10), "but not beside less than none of it");
	scan.map_others_ns = 20;
	ok(near(hjg_model_crowded_reading_ns(&costs, &scan, 40, 1), 40 + 90 + 30), "what others read is mapped, too");
	ok(near(hjg_model_mappers(8, 1), 1) && near(hjg_model_mappers(2, 2), 1.5) && near(hjg_model_mappers(1, 8), 1), "pages of one range are mapped by one process, those of more by several");
}

/* Test what a join's filter saves in the scan that it is tested by. */
static void
test_filtered_scans(void)
{
	const HjgUnitCosts *costs = &hjg_model_default_costs;
	bool		part = true;
	bool		first_saves = true;
	bool		saves = true;
	bool		pays = true;
	bool		idle = true;

	for (int i = 0; i < 10000; i++)
	{
		HjgJoinShape shape = random_shape();
		HjgTableScan scan = {
			.pages = shape.probe_rows / 50, .rows = shape.probe_rows / 0.9, .passing = 0.9, .lines = 2,
			.wanted = {.nfixed = 1, .nvarlenas = (int) (drand48() * 8)}, .tested = {.nfixed = 1, .nvarlenas = 4}, .tests = {1}
		};
		HjgScanTimes behind;
		HjgScanTimes first;
		HjgJoinShape filtered;

		/* keys behind columns of variable width: nothing is known to be saved */
		shape.probe_scan = hjg_model_scan(costs, &scan, 1);
		idle &= shape.probe_scan.late_ns == 0;
		scan.keys_fixed = true;
		behind = hjg_model_scan(costs, &scan, 1);
		scan.conditions_wait = true;
		first = hjg_model_scan(costs, &scan, 1);
		part &= behind.late_ns > 0 && first.late_ns <= first.own_ns && near(behind.filter_rows, shape.probe_rows) &&
			near(first.filter_rows, scan.rows) && near(first.own_ns, behind.own_ns);
		first_saves &= first.late_ns > behind.late_ns;

		shape.build_rows = 1000;
		shape.participants = 0;
		shape.nthreads = 0;
		shape.in_place = true;
		shape.partnered = 0.01;
		shape.probe_rows = 1e6 + shape.probe_rows;
		scan.rows = shape.probe_rows / 0.9;
		shape.probe_scan = hjg_model_scan(costs, &scan, 1);
		filtered = shape;
		filtered.bloom = true;
		saves &= total(filtered) < total(shape) && total(shape) - total(filtered) > 0.9 * shape.probe_scan.late_ns - 8 * scan.rows;
		pays &= hjg_model_bloom_pays(costs, &shape);
	}
	ok(idle, "no saving is expected of a filter on keys behind columns of variable width");
	ok(part, "a filter saves a part of the scan, by the rows that it is tested for");
	ok(first_saves, "a filter before the conditions saves these, too");
	ok(saves, "and a join with few partners its time");
	ok(pays, "so that it pays");
}

/* Test how the predicted loop over an index grows with each property. */
static void
test_lookups(void)
{
	bool		grows = true;
	bool		order_saves = true;
	bool		cache_saves = true;
	bool		mapping_costs = true;
	const HjgUnitCosts *costs = &hjg_model_default_costs;

	for (int i = 0; i < 10000; i++)
	{
		const HjgLookups lookups = {.nlookups = random_rows(), .rows = exp2(drand48() * 10), .mb = 100, .scattered = drand48()};
		const double ns = hjg_model_lookups_ns(costs, &lookups);
		HjgLookups	other = lookups;

		other.nlookups *= 2;
		grows &= fabs(hjg_model_lookups_ns(costs, &other) - 2 * ns) <= ns * 1e-9;
		other = lookups;
		other.rows *= 2;
		grows &= hjg_model_lookups_ns(costs, &other) > ns;
		other = lookups;
		other.scattered = 0;
		order_saves &= hjg_model_lookups_ns(costs, &other) <= ns;
		other = lookups;
		other.mb = 1;
		cache_saves &= hjg_model_lookups_ns(costs, &other) < ns;
		other = lookups;
		other.unmapped = true;
		mapping_costs &= hjg_model_lookups_ns(costs, &other) > ns && hjg_model_lookups_ns(costs, &other) <= (ns + 100 * costs->map_mb_ns) * (1 + 1e-9);
	}
	ok(grows, "more look-ups, and more rows of each, take longer");
	ok(order_saves, "rows in the order of their keys are found no slower than scattered ones");
	ok(cache_saves, "a table that stays in cache is searched faster");
	ok(mapping_costs, "a new process maps what it searches, at most the whole table");
}

static void
test_spills(void)
{
	const double mb = 1024 * 1024;
	bool		fit = true;
	bool		buffered = true;
	bool		powers = true;
	bool		roomy = true;

	for (int i = 0; i < 10000; i++)
	{
		const double bytes = random_rows() * 50;
		const double memory = mb / 8 * exp2(drand48() * 10);
		const int	n = hjg_model_partitions(bytes, memory, 8192);
		const int	passes = hjg_model_spill_passes(bytes, memory, 8192, 8192);

		powers &= n >= 4 && n <= 256 && (n & (n - 1)) == 0;
		buffered &= n <= 4 || n * 2 * 8192.0 <= memory;
		fit &= bytes <= memory ? passes == 0 : passes == 1 ? bytes / n <= memory : passes > 1;
		roomy &= bytes <= memory || bytes > memory * 200 || bytes > memory * memory / 8192 / 5 || bytes * 1.05 / n <= memory;
	}
	ok(powers, "partitions are a power of two from 4 to 256");
	ok(buffered, "their file buffers leave memory for rows");
	ok(fit, "one pass of temporary files is enough where each partition fits, and none where all rows do");
	ok(roomy, "a partition has room for more rows than expected, where buffers leave memory for so many");
	ok(hjg_model_spill_passes(64 * mb, mb / 8, 8192, 8192) > 2, "little memory makes several passes");
}

static void
test_measured(void)
{
	double		odd[5] = {5, 1, 4, 2, 3};
	double		even[4] = {4, 1, 3, 2};
	double		one[1] = {7};

	ok(hjg_median(odd, 5) == 3 && odd[0] == 1 && odd[4] == 5, "the median of five values is the third of them, in order then");
	ok(hjg_median(even, 4) == 3, "of two in the middle it is the larger one");
	ok(hjg_percentile(odd, 5, 0) == 1 && hjg_percentile(odd, 5, 0.95) == 5 && hjg_percentile(one, 1, 0.95) == 7,
	   "percentiles reach from the least to the greatest value");
}

/* ---- engines measured as a whole ---- */

static HjgEngineCosts
random_engine(void)
{
	return (HjgEngineCosts) {
		.start_ns = 1e4 + drand48() * 1e6, .build_ns = {1 + drand48() * 50, 1 + drand48() * 50},
		.probe_ns = {1 + drand48() * 50, 1 + drand48() * 50}
	};
}

/*
 * Test that joins whose times follow the costs give these costs back, and that in the middle of the
 * logarithm half of each counts.
 */
static bool
engines_are_measured(void)
{
	const double small = 1 << HJG_ENGINE_SMALL_LOG;
	const double large = 1 << HJG_ENGINE_LARGE_LOG;
	const double between = 1 << (HJG_ENGINE_SMALL_LOG + HJG_ENGINE_LARGE_LOG) / 2;
	bool		good = true;

	for (int i = 0; i < 1000 && good; i++)
	{
		const HjgEngineCosts costs = random_engine();
		const HjgEngineTimes times = {
			.one_row_ns = costs.start_ns,
			.build_ns = {hjg_model_engine_build_ns(&costs, small), hjg_model_engine_build_ns(&costs, large)},
			.join_ns = {hjg_model_engine_build_ns(&costs, small) + hjg_model_engine_probe_ns(&costs, small, small),
				hjg_model_engine_build_ns(&costs, large) + hjg_model_engine_probe_ns(&costs, large, large)}
		};
		HjgEngineCosts back;

		hjg_model_engine_costs_of(&times, &back);
		good = near(hjg_model_engine_build_ns(&costs, between), costs.start_ns + between * (costs.build_ns[0] + costs.build_ns[1]) / 2) &&
			near(hjg_model_engine_probe_ns(&costs, 10, 1000), 1000 * costs.probe_ns[0]) &&
			near(hjg_model_engine_probe_ns(&costs, 1e9, 1000), 1000 * costs.probe_ns[1]);
		/* a row is assumed to cost at least a tenth of the whole */
		for (int k = 0; k < 2 && good; k++)
			good = (near(back.build_ns[k], costs.build_ns[k]) || times.build_ns[k] < 1.2 * times.one_row_ns) &&
				(near(back.probe_ns[k], costs.probe_ns[k]) || times.join_ns[k] < 1.2 * times.build_ns[k]);
	}
	return good;
}

static bool
engines_are_known(void)
{
	HjgCalibration calibration = {.machine = hjg_model_default_costs};
	bool		good = hjg_model_coupled_costs(&calibration, 0, 5) == NULL;

	calibration.coupled[1] = (HjgCoupledDeviceCosts) {.identity = 5, .costs = random_engine()};
	good = good && hjg_model_coupled_costs(&calibration, 1, 5) == NULL;
	calibration.cpu_engine = random_engine();
	good = good && hjg_model_coupled_costs(&calibration, 1, 5) == &calibration.coupled[1].costs &&
		hjg_model_coupled_costs(&calibration, 0, 5) == NULL && hjg_model_coupled_costs(&calibration, 1, 6) == NULL &&
		hjg_model_coupled_costs(&calibration, HJG_MODEL_COUPLED, 5) == NULL && hjg_model_coupled_costs(&calibration, -1, 5) == NULL;
	calibration.coupled[1].costs.probe_ns[1] = NAN;
	return good && hjg_model_coupled_costs(&calibration, 1, 5) == NULL;
}

/* Test that each cost of a valid engine is refused if it is too small, too large or not a number. */
static bool
engines_are_checked(void)
{
	static const double beyond[] = {0, -1, 2e9, NAN, HUGE_VAL};
	const HjgEngineCosts costs = random_engine();
	bool		good = hjg_model_engine_costs_valid(&costs);

	for (size_t c = 0; c < sizeof(costs) / sizeof(double); c++)
		for (size_t i = 0; i < sizeof(beyond) / sizeof(double); i++)
		{
			HjgEngineCosts changed = costs;

			((double *) &changed)[c] = beyond[i];
			good = good && !hjg_model_engine_costs_valid(&changed);
		}
	return good;
}

static bool
engines_pay(void)
{
	bool		good = true;

	for (int i = 0; i < 1000 && good; i++)
	{
		const HjgEngineCosts cpu = random_engine();
		HjgEngineCosts other = cpu;

		other.start_ns *= 0.8;
		for (int k = 0; k < 2; k++)
		{
			other.build_ns[k] *= 0.8;
			other.probe_ns[k] *= 0.8;
		}
		good = hjg_model_engine_pays(&other, &cpu, random_rows(), random_rows()) &&
			!hjg_model_engine_pays(&cpu, &cpu, random_rows(), random_rows()) &&
			!hjg_model_engine_pays(&cpu, &other, random_rows(), random_rows());
	}
	return good;
}

/*
 * Test that an engine without cost shortens a join by the cpu engine's part, and that a slow one lengthens
 * it.
 */
static bool
is_predicted_by_engine(HjgJoinShape shape)
{
	const HjgEngineCosts fast = {.start_ns = 1, .build_ns = {0.02, 0.02}, .probe_ns = {0.02, 0.02}};
	const HjgEngineCosts slow = {.start_ns = 1e6, .build_ns = {1e4, 1e4}, .probe_ns = {1e4, 1e4}};
	double		cpu_ns;
	double		fast_ns;
	double		slow_ns;

	shape.nthreads = shape.nthreads > 0 ? shape.nthreads : 1;
	cpu_ns = total(shape);
	shape.engine = &fast;
	fast_ns = total(shape);
	shape.engine = &slow;
	slow_ns = total(shape);
	return fast_ns <= cpu_ns + 2 && slow_ns > fast_ns + 9e5;
}

/* Groupings: what makes rows cheaper or dearer than others. */
static void
test_grouping(void)
{
	const HjgUnitCosts *costs = &hjg_model_default_costs;
	const HjgGroupedRows large = {.rows = 3e6, .ngroups = 1e6, .nkeys = 1, .ncolumns = 2, .scattered = 1};
	HjgGroupedRows other = large;

	other.scattered = 0;
	ok(hjg_model_group_ns(costs, &other) < hjg_model_group_ns(costs, &large), "rows of a group that follow each other cost less than scattered ones");
	other = large;
	other.ngroups = 1e5;
	ok(hjg_model_group_ns(costs, &other) < hjg_model_group_ns(costs, &large), "a smaller table of groups costs less");
	other.scattered = 0;
	other.ngroups = 10;
	ok(hjg_model_group_ns(costs, &other) < 10 * other.rows, "rows of groups in a cache cost little more than their keys");
	other = large;
	other.nvarlenas = 1;
	ok(hjg_model_group_ns(costs, &other) > hjg_model_group_ns(costs, &large) && hjg_model_exchange_ns(costs, &other) > hjg_model_exchange_ns(costs, &large),
	   "strings cost more, in the table and in files");
	other.remembered = 1;
	ok(near(hjg_model_group_ns(costs, &other) - hjg_model_group_ns(costs, &large), other.ngroups * costs->varlena_ns), "words that are remembered are not compared");
	other = large;
	other.ncolumns = 6;
	ok(hjg_model_exchange_ns(costs, &other) > hjg_model_exchange_ns(costs, &large), "columns cost more in files");
	ok(hjg_model_group_spill_ns(costs, &large, 1e9) == 0 && hjg_model_group_spill_ns(costs, &large, 1e6) > 0, "groups are written only beyond memory");
}

/* Programs on one GPU and on several. */
static void
test_programs(void)
{
	const HjgProgramShape small = {.ntables = 2, .values = 2e6, .divided_values = 1e6, .probes = 1e6, .divided_probes = 1e6, .entered = 1e4, .grouped = 1e6, .ngroups = 10, .nsteps = 3};
	HjgProgramShape large = {.ntables = 2, .values = 2.1e9, .divided_values = 2e9, .probes = 1e9, .divided_probes = 1e9, .entered = 1e6, .grouped = 1e9, .ngroups = 10, .nsteps = 3};
	HjgUnitCosts even = hjg_model_default_costs;
	HjgUnitCosts slow = even;
	HjgProgramShape other;
	HjgProgramShape scattered;

	slow.program_row_ns *= 2;
	ok(hjg_model_program_ns(&small, 2, 4) > hjg_model_program_ns(&small, 1, 4), "a second GPU does not pay for a program of few rows");
	ok(hjg_model_program_ns(&large, 2, 4) < 0.55 * hjg_model_program_ns(&large, 1, 4), "it does for one of many rows");
	ok(hjg_model_program_ns(&large, 4, 4) < hjg_model_program_ns(&large, 2, 4), "and so do more of them");
	large.divided_values = large.divided_probes = large.grouped = 1e6;
	ok(hjg_model_program_ns(&large, 2, 4) > hjg_model_program_ns(&large, 1, 4), "but not where most of the rows are in hash tables, which each GPU makes");
	other = large;
	other.entered = other.divided_entered = 1e9;
	ok(hjg_model_program_ns(&other, 2, 4) < hjg_model_program_ns(&other, 1, 4) - 5e7, "unless these are divided, too");
	scattered = other;
	scattered.passed = 2e9;
	ok(hjg_model_program_ns(&scattered, 2, 4) > hjg_model_program_ns(&other, 1, 4), "by a key in whose order rows come");
	scattered.passed = 0;
	scattered.passed_pages = 1e7;
	ok(hjg_model_program_ns(&scattered, 4, 4) > hjg_model_program_ns(&other, 4, 4) + 5e7, "as each GPU is told of all segments otherwise");
	large.ngroups = 1e6;
	large.divided_values = 2e9;
	ok(hjg_model_program_ns(&large, 8, 4) > hjg_model_program_ns(&large, 1, 4), "nor where groups are many");
	other = large;
	other.whole_groups = true;
	ok(hjg_model_program_ns(&other, 8, 4) < hjg_model_program_ns(&large, 8, 4) - 1e9, "which cost less where each is on one GPU");
	other = large;
	other.live_pages = 1000;
	other.live_rows = 50000;
	ok(hjg_model_program_ns(&other, 1, 4) > hjg_model_program_ns(&large, 1, 4) + 5e6, "blocks that have changed are charged");
	other = large;
	other.collected = 1e9;
	ok(hjg_model_program_ns(&other, 1, 4) > hjg_model_program_ns(&large, 1, 4) + 5e7, "and so are groups that another pipeline reads");
	large.ngroups = 10;
	other = large;
	other.table_bytes = 1e9;
	ok(hjg_model_program_threads_ns(&even, &other, 8) > hjg_model_program_threads_ns(&even, &large, 8) && hjg_model_program_ns(&other, 1, 8) == hjg_model_program_ns(&large, 1, 8),
	   "large tables take threads longer");
	other = large;
	other.made = 20000;
	ok(hjg_model_program_threads_ns(&even, &other, 8) > hjg_model_program_threads_ns(&even, &large, 8) + other.grouped, "and rows of many groups, to which all threads add");
	ok(hjg_model_program_threads_ns(&even, &large, 8) / hjg_model_program_threads_ns(&even, &large, 16) > 1.9, "twice the threads take half the time");
	ok(hjg_model_program_threads_ns(&slow, &large, 8) / hjg_model_program_threads_ns(&even, &large, 8) > 1.9, "slower threads take longer");
}

int
main(int argc, char **argv)
{
	long		seed = argc > 1 ? atol(argv[1]) : (long) time(NULL);
	bool		sums = true;
	bool		positive = true;
	bool		grows = true;
	bool		threads_help = true;
	bool		spill_costs = true;
	bool		filters_cost = true;
	bool		direct_saves = true;
	bool		sharing_divides = true;
	bool		sharing_never_hides = true;
	bool		sharing_waits = true;
	bool		vectors_save = true;
	bool		in_place_saves = true;
	bool		memory_costs = true;
	bool		filter_saves = true;
	bool		filter_idle = true;
	bool		pages_cost = true;
	bool		aggregates_save = true;
	bool		aggregates_cost = true;
	bool		arrays_save = true;
	bool		engine_predicted = true;
	HjgUnitCosts costs = hjg_model_default_costs;

	printf("# seed %ld\n", seed);
	srand48(seed);
	for (int i = 0; i < 10000; i++)
	{
		HjgJoinShape shape = random_shape();
		HjgJoinShape more;
		HjgPrediction p;
		double		sum;
		int			ncolumns;

		hjg_model_predict(&costs, &shape, &p);
		sum = p.startup_ns + p.marshal_build_ns + p.build_ns + p.marshal_probe_ns + p.probe_ns + p.emit_ns;
		sums &= fabs(sum - p.total_ns) <= sum * 1e-9;
		positive &= p.startup_ns >= 0 && p.marshal_build_ns >= 0 && p.build_ns >= 0 &&
			p.marshal_probe_ns >= 0 && p.probe_ns >= 0 && p.emit_ns >= 0 && isfinite(p.total_ns);

		engine_predicted &= is_predicted_by_engine(shape);

		/* each column counted or added up once */
		ncolumns = shape.build_columns + shape.probe_columns;
		aggregates_save &= hjg_model_aggregate_ns(&costs, shape.pairs, ncolumns, ncolumns + 1) < p.emit_ns;
		aggregates_cost &= hjg_model_aggregate_ns(&costs, shape.pairs, ncolumns + 1, 1) >
			hjg_model_aggregate_ns(&costs, shape.pairs, ncolumns, 2) &&
			hjg_model_aggregate_ns(&costs, shape.pairs, ncolumns, 2) > hjg_model_aggregate_ns(&costs, shape.pairs, ncolumns, 1);

		more = shape;
		more.build_rows *= 2;
		more.build_scan = shape.build_scan.own_ns > 0 ? scan_of(more.build_rows * 2) : shape.build_scan;
		grows &= total(more) > total(shape);
		more = shape;
		more.probe_rows *= 2;
		more.probe_scan = shape.probe_scan.own_ns > 0 ? scan_of(more.probe_rows * 2) : shape.probe_scan;
		grows &= total(more) > total(shape);
		more = shape;
		more.pairs *= 2;
		grows &= total(more) >= total(shape) * (1 - 1e-9);

		more = shape;
		more.dense = true;
		arrays_save &= shape.nthreads > 0 || shape.participants <= 1 ? total(more) <= total(shape) : total(more) == total(shape);

		if (shape.nthreads > 0)
		{
			more = shape;
			more.nthreads *= 2;
			threads_help &= total(more) <= total(shape);
		}
		more = shape;
		more.probe_scan = scan_of(shape.probe_rows * 2);
		shape.probe_scan = scan_of(shape.probe_rows);
		hjg_model_predict(&costs, &more, &p);
		sum = p.marshal_probe_ns;
		hjg_model_predict(&costs, &shape, &p);
		filters_cost &= sum > p.marshal_probe_ns;
		direct_saves &= p.saved_probe_ns == 0 && shape.probe_scan.own_ns < shape.probe_scan.core_ns;

		/* four participants, each with a quarter of the rows, against one */
		more = shape;
		more.participants = 4;
		more.build_rows /= 4;
		more.probe_rows /= 4;
		quarter(&more.build_scan);
		quarter(&more.probe_scan);
		more.pairs /= 4;
		hjg_model_predict(&costs, &shape, &p);
		sum = p.marshal_build_ns + p.marshal_probe_ns + p.emit_ns;
		sharing_never_hides &= total(more) * 4 >= p.total_ns * (1 - 1e-9);
		hjg_model_predict(&costs, &more, &p);
		sharing_waits &= p.startup_ns == costs.startup_ns + costs.job_ns;
		sharing_divides &= fabs((p.marshal_build_ns + p.marshal_probe_ns + p.emit_ns) * 4 - sum) <= sum * 1e-9;

		more = shape;
		more.nthreads = 0;
		if (hjg_model_bloom_pays(&costs, &more))
		{
			HjgJoinShape filtered = more;

			filtered.bloom = true;
			filter_saves &= total(filtered) < total(more);
		}
		more.in_place = true;
		if (hjg_model_bloom_pays(&costs, &more))
		{
			HjgJoinShape filtered = more;

			filtered.bloom = true;
			filter_saves &= total(filtered) < total(more);
		}
		more.partnered = 1;
		filter_idle &= !hjg_model_bloom_pays(&costs, &more);
		more.in_place = false;
		filter_idle &= !hjg_model_bloom_pays(&costs, &more);

		/* each reader pays for its pages */
		more = shape;
		more.probe_scan = scan_of(shape.probe_rows);
		hjg_model_predict(&costs, &more, &p);
		sum = p.marshal_probe_ns;
		more.probe_scan.own_ns += 1e6;
		hjg_model_predict(&costs, &more, &p);
		pages_cost &= fabs(p.marshal_probe_ns - sum - 1e6) <= p.marshal_probe_ns * 1e-9;
		sum = p.wait_probe_ns;
		more.probe_scan.memory_ns += more.probe_scan.own_ns;
		hjg_model_predict(&costs, &more, &p);
		pages_cost &= p.wait_probe_ns > sum && p.total_ns > p.marshal_probe_ns + p.wait_probe_ns;

		shape.spill_passes = (int) (drand48() * 3);
		more = shape;
		more.spill_passes++;
		spill_costs &= total(more) > total(shape);

		more = shape;
		more.build_scan = more.probe_scan = (HjgScanTimes) {0};
		more.build_vectors = more.probe_vectors = true;
		shape.build_scan = shape.probe_scan = (HjgScanTimes) {0};
		vectors_save &= total(more) < total(shape);
		more = shape;
		more.in_place = true;
		in_place_saves &= total(more) <= total(shape);
		more = shape;
		more.build_bytes *= 2;
		memory_costs &= total(more) > total(shape);
	}
	test_scans();
	test_kept_scans();
	test_crowding();
	test_filtered_scans();
	test_lookups();
	test_spills();
	test_measured();
	test_programs();
	ok(sums, "the total is the sum of the phases");
	ok(positive, "no phase is negative or infinite");
	ok(grows, "more rows never cost less");
	ok(threads_help, "more threads never cost more");
	ok(spill_costs, "temporary files cost");
	ok(sharing_divides, "participants divide reading and emitting among them");
	ok(sharing_waits, "participants wait for one another before the first row, with a job or without");
	ok(sharing_never_hides, "and never save more than that");
	ok(filters_cost, "rows that a filter drops cost where the node reads the table");
	ok(vectors_save, "rows that come as vectors cost less than slots");
	ok(in_place_saves, "probing rows where they lie never costs more than collecting them");
	ok(memory_costs, "memory for the build side costs");
	ok(direct_saves, "a table that the node reads itself saves no slots, and takes less than core's scan");
	ok(filter_saves, "a Bloom filter that is said to pay makes a join cheaper");
	ok(filter_idle, "none pays where every probe row has a partner");
	ok(pages_cost, "pages of a table that the node reads cost what they take");
	ok(aggregates_save, "rows that are aggregated cost less than rows that are handed out");
	test_grouping();
	ok(aggregates_cost, "a column more costs more than a step more, and that more than nothing");
	ok(arrays_save, "an array by key costs less than another table, unless processes have no job to fill it");

	ok(engines_are_measured(), "an engine that was measured costs what it took, between the sizes on the logarithm");
	ok(engines_are_known(), "costs of an engine are those of its device, plausible, and nothing without the cpu engine's");
	ok(engines_are_checked(), "costs of an engine that cannot be are not valid");
	ok(engines_pay(), "an engine pays where it is clearly faster than the cpu engine");
	ok(engine_predicted, "a join is predicted by its engine's costs");

	ok(hjg_model_cost_unit_ns(&costs, 1 << 13) == costs.small_unit_ns &&
	   hjg_model_cost_unit_ns(&costs, 1) == costs.small_unit_ns,
	   "the cost unit of small joins is the measured one");
	ok(fabs(hjg_model_cost_unit_ns(&costs, 1 << 20) - costs.large_unit_ns) < 1,
	   "the cost unit of large joins is the measured one");
	ok(hjg_model_cost_unit_ns(&costs, 1e12) == hjg_model_cost_unit_ns(&costs, 1 << 22),
	   "the cost unit does not grow for ever");

	ok(hjg_model_costs_valid(&costs), "the defaults are plausible");
	costs.marshal_tuple_ns = NAN;
	ok(!hjg_model_costs_valid(&costs), "a cost that is not a number is refused");
	costs = hjg_model_default_costs;
	costs.emit_tuple_ns = -1;
	ok(!hjg_model_costs_valid(&costs), "a negative cost is refused");
	costs = hjg_model_default_costs;
	costs.large_unit_ns *= 1e6;
	ok(!hjg_model_costs_valid(&costs), "a cost a million times the default is refused");
	return done_testing();
}
