/*
 * calibrate_sql.c
 *	  hjoin_gpu_calibrate(): unit costs that are measured on queries: core's joins, and a small GpuHashJoin.
 *
 * The cost unit is measured on core's own hash join, because the planner compares prices with core's price of such a join:
 * once with a hash table that fits the caches and once with one that does not. Core's nested loop over an index is measured
 * on a catalog table that every database has.
 *
 * Each is measured in several passes, seconds apart, and the median counts: a shared machine may be slow for a while, in the
 * join or in the scans that are subtracted from its time.
 */
#include "postgres.h"

#include "catalog/pg_class_d.h"
#include "catalog/pg_type_d.h"
#include "executor/spi.h"
#include "optimizer/optimizer.h"
#include "utils/guc.h"

#include "base/hjg_base.h"
#include "calibrate/hjg_calibrate.h"
#include "model/hjg_measured.h"

#define SMALL_JOIN_ROWS 1000
#define SMALL_UNIT_ROWS (1 << 13)
#define LARGE_UNIT_ROWS (1 << 20)
#define LOOKUPS 10000
#define PASSES 3
#define REPEATS 2

/*
 * Measure a query that returns a number, in nanoseconds: the least of several runs after a first one, because other activity
 * of the machine only adds time.
 */
static double
time_query(const char *query, double *number)
{
	double		least = 0;
	SPIPlanPtr	plan = SPI_prepare(query, 0, NULL);

	if (plan == NULL)
		elog(ERROR, "could not prepare a calibration query: %s", query);
	for (int i = -1; i < REPEATS; i++)
	{
		uint64		start = hjg_now_ns();
		double		time;
		bool		isnull;

		if (SPI_execute_plan(plan, NULL, NULL, true, 0) != SPI_OK_SELECT || SPI_processed != 1)
			elog(ERROR, "calibration query failed: %s", query);
		time = hjg_now_ns() - start;
		if (i <= 0 || time < least)
			least = time;
		*number = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
		SPI_freetuptable(SPI_tuptable);
	}
	SPI_freeplan(plan);
	return least;
}

static double
time_core_join(int build_rows, int probe_rows)
{
	double		nrows;

	return time_query(psprintf("SELECT pg_catalog.count(*) FROM "
							   "(SELECT i * 3 AS k FROM pg_catalog.generate_series(1, %d) i OFFSET 0) s JOIN "
							   "(SELECT i * 3 AS k FROM pg_catalog.generate_series(1, %d) i OFFSET 0) r "
							   "ON s.k OPERATOR(pg_catalog.=) r.k",
							   probe_rows, build_rows), &nrows);
}

static double
time_scan(int nrows)
{
	double		counted;

	return time_query(psprintf("SELECT pg_catalog.count(k) FROM "
							   "(SELECT i * 3 AS k FROM pg_catalog.generate_series(1, %d) i OFFSET 0) s", nrows),
					  &counted);
}

/* Compute the cost that core's planner charges for such a join above its inputs, with each build row matched once. */
static double
core_join_cost(double build_rows, double probe_rows)
{
	return (cpu_operator_cost + cpu_tuple_cost) * build_rows + cpu_operator_cost * 1.5 * probe_rows +
		cpu_tuple_cost * build_rows;
}

/* Measure the time of a cost of 1.0 in core's join of n rows with n rows, without the scans. */
static double
measure_core_unit(int nrows)
{
	double		scans = 2 * time_scan(nrows);
	double		join = time_core_join(nrows, nrows) - scans;

	return Max(join, scans / 10) / core_join_cost(nrows, nrows);
}

/* Time a nested loop that looks up columns of two catalogs: the column with a number, or all from that number on. */
static double
time_lookups(const char *comparison, double *nrows)
{
	return time_query(psprintf("SELECT pg_catalog.count(a.attlen) FROM "
							   "(SELECT (CASE i %% 2 WHEN 0 THEN %u ELSE %u END)::pg_catalog.oid AS rel, "
							   "(i %% 8 + 1)::pg_catalog.int2 AS num FROM pg_catalog.generate_series(1, %d) i OFFSET 0) s "
							   "JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) s.rel AND "
							   "a.attnum OPERATOR(pg_catalog.%s) s.num",
							   RelationRelationId, TypeRelationId, LOOKUPS, comparison), nrows);
}

/* Measure a look-up in an index and the fetch of a row; false if the catalogs lack expected columns. */
static bool
measure_lookups(double *lookup_ns, double *fetch_ns)
{
	const char *const off[] = {"enable_hashjoin", "enable_mergejoin", "enable_memoize", "enable_material",
	"enable_seqscan", "enable_bitmapscan"};
	const int	nestlevel = NewGUCNestLevel();
	double		scan_ns = time_scan(LOOKUPS);
	double		one_ns;
	double		one_rows;
	double		all_ns;
	double		all_rows;

	SetConfigOption("enable_nestloop", "on", PGC_USERSET, PGC_S_SESSION);
	SetConfigOption("enable_indexscan", "on", PGC_USERSET, PGC_S_SESSION);
	for (int i = 0; i < lengthof(off); i++)
		SetConfigOption(off[i], "off", PGC_USERSET, PGC_S_SESSION);
	one_ns = time_lookups("=", &one_rows) - scan_ns;
	all_ns = time_lookups(">=", &all_rows) - scan_ns;
	AtEOXact_GUC(false, nestlevel);
	if (all_rows < 2 * one_rows)
		return false;
	*fetch_ns = Max((all_ns - one_ns) / (all_rows - one_rows), 1);
	*lookup_ns = Max(one_ns / LOOKUPS - *fetch_ns, *fetch_ns);
	return true;
}

/* Measure core's joins. */
static void
measure_core(HjgUnitCosts *costs)
{
	double		small_ns[PASSES];
	double		large_ns[PASSES];
	double		lookup_ns[PASSES];
	double		fetch_ns[PASSES];
	bool		found = true;

	for (int i = 0; i < PASSES; i++)
	{
		small_ns[i] = measure_core_unit(SMALL_UNIT_ROWS);
		found = measure_lookups(&lookup_ns[i], &fetch_ns[i]) && found;
		large_ns[i] = measure_core_unit(LARGE_UNIT_ROWS);
	}
	costs->small_unit_ns = hjg_median(small_ns, PASSES);
	costs->large_unit_ns = Max(hjg_median(large_ns, PASSES), costs->small_unit_ns);
	if (!found)
		return;
	costs->lookup_ns = hjg_median(lookup_ns, PASSES);
	costs->fetch_ns = hjg_median(fetch_ns, PASSES);
}

void
hjg_calibrate_by_sql(HjgUnitCosts *costs)
{
	double		small_scans;
	double		small_ns;

	SetConfigOption("work_mem", "256MB", PGC_USERSET, PGC_S_SESSION);
	SetConfigOption("jit", "off", PGC_USERSET, PGC_S_SESSION);
	SetConfigOption("enable_mergejoin", "off", PGC_USERSET, PGC_S_SESSION);
	SetConfigOption("enable_nestloop", "off", PGC_USERSET, PGC_S_SESSION);
	SetConfigOption("max_parallel_workers_per_gather", "0", PGC_USERSET, PGC_S_SESSION);
	SPI_connect();
	small_scans = 2 * time_scan(SMALL_JOIN_ROWS);

	SetConfigOption("hjoin_gpu.enabled", "off", PGC_USERSET, PGC_S_SESSION);
	measure_core(costs);

	SetConfigOption("hjoin_gpu.enabled", "on", PGC_USERSET, PGC_S_SESSION);
	SetConfigOption("hjoin_gpu.force", "on", PGC_USERSET, PGC_S_SESSION);
	small_ns = time_core_join(SMALL_JOIN_ROWS, SMALL_JOIN_ROWS) - small_scans;
	small_ns -= SMALL_JOIN_ROWS *
		(2 * costs->marshal_tuple_ns + costs->build_tuple_ns + costs->probe_tuple_ns + costs->emit_tuple_ns);
	costs->startup_ns = Max(small_ns, hjg_model_default_costs.startup_ns / 2);
	SPI_finish();
}
