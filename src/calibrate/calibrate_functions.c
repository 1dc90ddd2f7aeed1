/*
 * calibrate_functions.c
 *	  hjoin_gpu_calibrate(): measures the model's unit costs on this machine.
 *	  hjoin_gpu_costs(): shows the unit costs in force.
 *
 * The data path's and the engine's costs are measured on the functions that joins use (calibrate_calls.c), a GPU's on joins
 * in the device process (calibrate_gpu.c), a program's on one there (calibrate_program.c), those of core's joins by SQL (calibrate_sql.c).
 */
#include "postgres.h"

#include <time.h>

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"

#include "base/hjg_base.h"
#include "calibrate/hjg_calibrate.h"
#include "planner/hjg_planner.h"

/* Share of the time for which the process had a processor, below which the machine was not idle. */
#define ALONE_SHARE 0.95

typedef struct CostName
{
	const char *name;
	const char *unit;
} CostName;

/* COST(costs, field, name, unit) */
#define UNIT_COSTS(COST) \
	COST(HjgUnitCosts, small_unit_ns, "small_unit", "ns per cost unit, 2^13 build rows") \
	COST(HjgUnitCosts, large_unit_ns, "large_unit", "ns per cost unit, 2^20 build rows") \
	COST(HjgUnitCosts, startup_ns, "startup", "ns per join") \
	COST(HjgUnitCosts, job_ns, "job", "ns per join in the device process") \
	COST(HjgUnitCosts, marshal_tuple_ns, "marshal_tuple", "ns per row read") \
	COST(HjgUnitCosts, hash_key_ns, "hash_key", "ns per hashed key") \
	COST(HjgUnitCosts, column_ns, "column", "ns per payload column") \
	COST(HjgUnitCosts, varlena_ns, "varlena", "ns more per payload value of variable length") \
	COST(HjgUnitCosts, build_tuple_ns, "build_tuple", "ns per build row and thread") \
	COST(HjgUnitCosts, probe_tuple_ns, "probe_tuple", "ns per probe row and thread") \
	COST(HjgUnitCosts, dense_build_ns, "dense_build", "ns per build row and thread, of an array by key") \
	COST(HjgUnitCosts, dense_probe_ns, "dense_probe", "ns per probe row and thread, of an array by key") \
	COST(HjgUnitCosts, emit_tuple_ns, "emit_tuple", "ns per row returned") \
	COST(HjgUnitCosts, spill_tuple_ns, "spill_tuple", "ns per narrow row to a temporary file and back") \
	COST(HjgUnitCosts, spill_mb_ns, "spill", "ns per MB of wider rows to a temporary file and back") \
	COST(HjgUnitCosts, transfer_mb_ns, "transfer", "ns per MB moved") \
	COST(HjgUnitCosts, scan_tuple_ns, "scan_tuple", "ns per row of core's sequential scan") \
	COST(HjgUnitCosts, direct_tuple_ns, "direct_tuple", "ns per row read from heap pages directly") \
	COST(HjgUnitCosts, page_ns, "page", "ns more per page") \
	COST(HjgUnitCosts, fixed_column_ns, "fixed_column", "ns more per column at a fixed place in the row") \
	COST(HjgUnitCosts, walk_ns, "walk", "ns more per value of variable length before the last column that is wanted") \
	COST(HjgUnitCosts, far_walk_ns, "far_walk", "ns more per such value of rows that come from memory") \
	COST(HjgUnitCosts, test_ns[HJG_TEST_FIXED], "test_fixed", "ns per row and condition in vectors, of fixed width") \
	COST(HjgUnitCosts, test_ns[HJG_TEST_BYTES], "test_bytes", "ns per row and equality of strings in vectors") \
	COST(HjgUnitCosts, test_ns[HJG_TEST_LIKE], "test_like", "ns per row and LIKE in vectors") \
	COST(HjgUnitCosts, test_ns[HJG_TEST_NUMERIC], "test_numeric", "ns per row and comparison of numerics in vectors") \
	COST(HjgUnitCosts, code_test_ns, "code_test", "ns per row and condition on codes of kept columns") \
	COST(HjgUnitCosts, check_mb_ns, "check", "ns per MB of kept columns that are checked before they are read") \
	COST(HjgUnitCosts, core_row_ns, "core_row", "ns per row with conditions left to core") \
	COST(HjgUnitCosts, core_operator_ns, "core_operator", "ns per row and operator in these") \
	COST(HjgUnitCosts, memory_mb_ns, "memory", "ns per MB of fresh memory") \
	COST(HjgUnitCosts, line_ns, "line", "ns per cache line of a long row that comes from memory") \
	COST(HjgUnitCosts, map_mb_ns, "map", "ns per MB of shared memory that a new process reads for the first time") \
	COST(HjgUnitCosts, bloom_add_ns, "bloom_add", "ns per key added to a large Bloom filter") \
	COST(HjgUnitCosts, bloom_test_ns, "bloom_test", "ns per row tested with a large Bloom filter") \
	COST(HjgUnitCosts, bloom_cached_ns, "bloom_cached", "ns per row tested with a small Bloom filter") \
	COST(HjgUnitCosts, lookup_ns, "lookup", "ns per search of an index by core's nested loop") \
	COST(HjgUnitCosts, fetch_ns, "fetch", "ns per row that such a search finds") \
	COST(HjgUnitCosts, miss_ns, "miss", "ns per random read of memory") \
	COST(HjgUnitCosts, launch_ns, "worker_launch", "ns, a parallel worker started and ended") \
	COST(HjgUnitCosts, program_row_ns, "program_row", "ns per row of a program and thread, all threads at work") \
	COST(HjgUnitCosts, crowding[HJG_WORK_MAPPING], "crowding_mapping", "part more for each further process, of mapping shared memory") \
	COST(HjgUnitCosts, crowding[HJG_WORK_PAGES], "crowding_pages", "part more for each further process, of reading pages") \
	COST(HjgUnitCosts, crowding[HJG_WORK_CACHED], "crowding_cached", "part more for each further process, of computing in caches") \
	COST(HjgUnitCosts, crowding[HJG_WORK_TABLES], "crowding_tables", "part more for each further process, of building and probing") \
	COST(HjgUnitCosts, cuda.context_ns, "gpu_context", "ns more for the first join on a GPU") \
	COST(HjgUnitCosts, cuda.call_ns, "gpu_call", "ns per call of a GPU's driver") \
	COST(HjgUnitCosts, cuda.in_mb_ns, "gpu_in", "ns per MB to a GPU") \
	COST(HjgUnitCosts, cuda.out_mb_ns, "gpu_out", "ns per MB from a GPU") \
	COST(HjgUnitCosts, cuda.stream_mb_ns, "gpu_stream", "ns per MB of GPU memory read or written in order") \
	COST(HjgUnitCosts, cuda.gather_l2_ns, "gpu_gather_cached", "ns per random read of GPU memory in its cache") \
	COST(HjgUnitCosts, cuda.gather_ns, "gpu_gather", "ns per random read of GPU memory beyond it") \
	COST(HjgUnitCosts, cuda.insert_l2_ns, "gpu_insert_cached", "ns per insert into a table in a GPU's cache") \
	COST(HjgUnitCosts, cuda.insert_ns, "gpu_insert", "ns per insert into a table beyond it") \
	COST(HjgUnitCosts, cuda.sort_row_ns, "gpu_sort_row", "ns per build row and pass of a sort on a GPU") \
	COST(HjgUnitCosts, cuda.part_row_ns, "gpu_part_row", "ns per row of a join of partitions on a GPU")

/* Costs of an engine that was measured as a whole. */
#define ENGINE_COSTS(COST) \
	COST(HjgEngineCosts, start_ns, "engine_start", "ns per join on this device") \
	COST(HjgEngineCosts, build_ns[0], "engine_build_small", "ns per build row of 2^16, all threads together") \
	COST(HjgEngineCosts, build_ns[1], "engine_build_large", "ns per build row of 2^20, all threads together") \
	COST(HjgEngineCosts, probe_ns[0], "engine_probe_small", "ns per probe row, 2^16 build rows") \
	COST(HjgEngineCosts, probe_ns[1], "engine_probe_large", "ns per probe row, 2^20 build rows")

/* The names of costs, at the places of the costs in their struct as an array. */
#define COST(costs, field, name, unit) [offsetof(costs, field) / sizeof(double)] = {name, unit},
static const CostName unit_cost_names[] = {UNIT_COSTS(COST)};
static const CostName engine_cost_names[] = {ENGINE_COSTS(COST)};
#undef COST

#define COST(costs, field, name, unit) + 1
StaticAssertDecl(UNIT_COSTS(COST) == HJG_MODEL_NCOSTS, "each unit cost has a name");
StaticAssertDecl(ENGINE_COSTS(COST) == sizeof(HjgEngineCosts) / sizeof(double), "each cost of an engine has a name");
#undef COST

PG_FUNCTION_INFO_V1(hjoin_gpu_calibrate);
PG_FUNCTION_INFO_V1(hjoin_gpu_costs);

/*
 * Put the costs from number `first` on, of a device or of the machine (NULL). A cost that differs from the found one is
 * overridden by a setting.
 */
static void
put_costs(ReturnSetInfo *rsinfo, const double *values, const double *found, int first, const char *device, const char *source)
{
	const double *defaults = (const double *) &hjg_model_default_costs;

	for (int i = first; i < lengthof(unit_cost_names); i++)
	{
		Datum		row[6];
		bool		nulls[6] = {0};

		row[0] = CStringGetTextDatum(unit_cost_names[i].name);
		row[1] = Float8GetDatum(values[i - first]);
		row[2] = CStringGetTextDatum(unit_cost_names[i].unit);
		row[3] = Float8GetDatum(defaults[i]);
		row[4] = device != NULL ? CStringGetTextDatum(device) : (Datum) 0;
		nulls[4] = device == NULL;
		row[5] = CStringGetTextDatum(values[i - first] != found[i - first] ? "setting" : source);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row, nulls);
	}
}

/* Put the costs of an engine that was measured as a whole, which has no defaults. */
static void
put_engine_costs(ReturnSetInfo *rsinfo, const HjgEngineCosts *costs, const char *device)
{
	for (int i = 0; i < lengthof(engine_cost_names); i++)
	{
		Datum		row[6];
		bool		nulls[6] = {false, false, false, true, false, false};

		row[0] = CStringGetTextDatum(engine_cost_names[i].name);
		row[1] = Float8GetDatum(((const double *) costs)[i]);
		row[2] = CStringGetTextDatum(engine_cost_names[i].unit);
		row[4] = CStringGetTextDatum(device);
		row[5] = CStringGetTextDatum("calibrated");
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row, nulls);
	}
}

static bool
read_calibration(HjgCalibration *calibration)
{
	double		values[HJG_CALIBRATION_VALUES];

	if (!hjg_service_calibration_get(values))
		return false;
	memcpy(calibration, values, sizeof(*calibration));
	return true;
}

/* Return the costs in force in this session; none where the library is not active. */
static void
return_costs(FunctionCallInfo fcinfo)
{
	bool		has_coupled = false;
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	HjgCalibration calibration;
	HjgUnitCosts found = hjg_model_default_costs;
	HjgUnitCosts costs;
	HjgGpuFacts facts;
	const char *source = hjg_service_calibration_state();
	HjgReason	reason;

	InitMaterializedSRF(fcinfo, 0);
	if (!hjg_service_available(&reason) && reason == HJG_REASON_NO_ARENA)
		return;
	(void) hjg_planner_unit_costs(&costs, 0);
	if (read_calibration(&calibration) && hjg_model_costs_valid(&calibration.machine))
		found = calibration.machine;
	put_costs(rsinfo, (const double *) &costs, (const double *) &found, 0, NULL, source);
	for (int number = 0; read_calibration(&calibration) && number < HJG_MODEL_GPUS; number++)
	{
		const HjgCudaUnitCosts *own = hjg_service_gpu_at(number, &facts) ?
			hjg_model_gpu_costs(&calibration, number, hjg_gpu_identity(facts.description)) : NULL;

		if (own != NULL)
			put_costs(rsinfo, (const double *) own, (const double *) own, offsetof(HjgUnitCosts, cuda) / sizeof(double),
					  hjg_device_name((HjgDeviceId) {HJG_KIND_CUDA, number}).text, source);
	}
	for (int number = 0; read_calibration(&calibration) && number < HJG_MODEL_COUPLED; number++)
	{
		HjgCoupledFacts device;
		const HjgEngineCosts *own = hjg_service_coupled_at(number, &device) ?
			hjg_model_coupled_costs(&calibration, number, hjg_gpu_identity(device.description)) : NULL;

		if (own == NULL)
			continue;
		if (!has_coupled)
			put_engine_costs(rsinfo, &calibration.cpu_engine, "cpu");
		put_engine_costs(rsinfo, own, hjg_device_name((HjgDeviceId) {HJG_KIND_OPENCL, number}).text);
		has_coupled = true;
	}
}

bool
hjg_calibrate(bool alone)
{
	HjgCalibration calibration = {0};
	HjgUnitCosts costs = hjg_model_default_costs;
	double		values[HJG_CALIBRATION_VALUES] = {0};
	const uint64 start_ns = hjg_now_ns();
	const double start_cpu = clock();
	int			nestlevel;
	int			implausible;

	hjg_calibrate_by_calls(&costs);
	if (alone && (clock() - start_cpu) / CLOCKS_PER_SEC < ALONE_SHARE * (hjg_now_ns() - start_ns) / 1e9)
		return false;
	if (hjg_calibrate_crowding(&costs) < ALONE_SHARE && alone)
		return false;
	hjg_calibrate_program(&costs);
	nestlevel = NewGUCNestLevel();
	/* the queries must use the system's operators and functions, whoever owns a schema of the caller's search_path */
	SetConfigOption("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION);
	(void) read_calibration(&calibration);
	hjg_calibrate_gpus(calibration.gpus);
	hjg_calibrate_coupled(&calibration);
	SetConfigOption("hjoin_gpu.device", "auto", PGC_USERSET, PGC_S_SESSION);
	hjg_calibrate_by_sql(&costs);
	/* as after an abort: the session does not keep these settings */
	AtEOXact_GUC(false, nestlevel);

	implausible = hjg_model_implausible_cost(&costs);
	if (implausible >= 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("calibration gave implausible costs"),
				 errdetail("The cost \"%s\" came out as %g %s.", unit_cost_names[implausible].name, ((const double *) &costs)[implausible],
						   unit_cost_names[implausible].unit),
				 errhint("Calibrate again when the machine is less busy.")));
	calibration.machine = costs;
	memcpy(values, &calibration, sizeof(calibration));
	hjg_service_calibration_set(values);
	return true;
}

/* Measure, store and return the costs. Takes about 15 seconds, on one core except for the joins. */
Datum
hjoin_gpu_calibrate(PG_FUNCTION_ARGS)
{
	HjgReason	reason;

	if (!hjg_service_available(&reason) && reason == HJG_REASON_NO_ARENA)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("hjoin_gpu is not active in this server"),
				 errhint("Add hjoin_gpu to shared_preload_libraries and restart the server.")));
	(void) hjg_calibrate(false);
	return_costs(fcinfo);
	return (Datum) 0;
}

/* Return the costs in force in this session. */
Datum
hjoin_gpu_costs(PG_FUNCTION_ARGS)
{
	return_costs(fcinfo);
	return (Datum) 0;
}
