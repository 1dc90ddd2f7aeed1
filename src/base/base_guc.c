/*
 * base_guc.c
 *	  All settings, in alphabetical order.
 */
#include "postgres.h"

#include <limits.h>
#include <math.h>

#include "utils/guc.h"

#include "base/hjg_base.h"

/* Initial values are the defaults of the settings. */
#define VARIABLE(name) &name, name

bool		hjg_aggregate = true;
int			hjg_arena_size_mb = -1;
int			hjg_auto_calibrate = HJG_AUTO_CALIBRATE_IDLE;
int			hjg_backend_share = 50;
int			hjg_bloom_filter = HJG_BLOOM_FILTER_AUTO;
double		hjg_build_tuple_cost = -1;
int			hjg_cache_size_mb = -1;
bool		hjg_confine_device = true;
int			hjg_cpu_threads = 0;
HjgDeviceId hjg_device_asked = {.number = HJG_NO_NUMBER};
int			hjg_device_memory_mb = 0;
char	   *hjg_device_program = NULL;
int			hjg_device_timeout_ms = 2000;
bool		hjg_direct_scan = true;
double		hjg_emit_tuple_cost = -1;
bool		hjg_enabled = true;
bool		hjg_explain_declined = false;
bool		hjg_float_sums = false;
bool		hjg_force = false;
bool		hjg_huge_pages = true;
int			hjg_idle_share = 25;
int			hjg_in_backend_rows = 32768;
bool		hjg_kept_columns = true;
bool		hjg_programs = true;
double		hjg_marshal_tuple_cost = -1;
int			hjg_materialization = HJG_MATERIALIZATION_AUTO;
int			hjg_on_fallback = HJG_FALLBACK_LOG;
int			hjg_pipeline = HJG_PIPELINE_AUTO;
double		hjg_probe_tuple_cost = -1;
int			hjg_role_share = 75;
double		hjg_startup_cost = -1;
int			hjg_strategy = HJG_CPU_AUTO;
double		hjg_transfer_cost = -1;
bool		hjg_unnest_subqueries = true;
double		hjg_verify_share = 0;

#define LEAST_ARENA_MB 16

static char *device_text;		/* as hjg_device_asked was set */
static int	default_arena_mb;

static const struct config_enum_entry auto_calibrate_options[] = {
	{"off", HJG_AUTO_CALIBRATE_OFF, false},
	{"idle", HJG_AUTO_CALIBRATE_IDLE, false},
	{"start", HJG_AUTO_CALIBRATE_START, false},
	{NULL, 0, false}
};

static const struct config_enum_entry bloom_filter_options[] = {
	{"auto", HJG_BLOOM_FILTER_AUTO, false},
	{"on", HJG_BLOOM_FILTER_ON, false},
	{"off", HJG_BLOOM_FILTER_OFF, false},
	{NULL, 0, false}
};

static const struct config_enum_entry fallback_options[] = {
	{"silent", HJG_FALLBACK_SILENT, false},
	{"log", HJG_FALLBACK_LOG, false},
	{"error", HJG_FALLBACK_ERROR, false},
	{NULL, 0, false}
};

static const struct config_enum_entry materialization_options[] = {
	{"auto", HJG_MATERIALIZATION_AUTO, false},
	{"late", HJG_MATERIALIZATION_LATE, false},
	{"early", HJG_MATERIALIZATION_EARLY, false},
	{NULL, 0, false}
};

static const struct config_enum_entry pipeline_options[] = {
#define PIPELINE(id, name) {#name, HJG_PIPELINE_##id, false},
	HJG_PIPELINES(PIPELINE)
#undef PIPELINE
	{NULL, 0, false}
};

static const struct config_enum_entry strategy_options[] = {
#define STRATEGY(engine, number, id, name, needs) {#name, number, false},
	HJG_ASKED_STRATEGIES(STRATEGY)
#undef STRATEGY
	{NULL, 0, false}
};

static bool
check_device(char **newval, void **extra, GucSource source)
{
	HjgDeviceId id;

	if (hjg_device_parse(*newval, &id))
		return true;
	GUC_check_errhint("Available values: auto, cpu, cuda:N, opencl:N (N counts from 0).");
	return false;
}

static void
assign_device(const char *newval, void *extra)
{
	if (!hjg_device_parse(newval, &hjg_device_asked))
		hjg_device_asked = (HjgDeviceId) {.number = HJG_NO_NUMBER};
}

/* Replace -1 by the default size, so that everybody sees it. */
static bool
check_arena_size(int *newval, void **extra, GucSource source)
{
	if (*newval == -1)
		*newval = default_arena_mb;
	if (*newval >= LEAST_ARENA_MB)
		return true;
	GUC_check_errhint("The arena needs at least %d MB; -1 lets the server choose.", LEAST_ARENA_MB);
	return false;
}

/* Define a cost override; -1: the calibrated value. */
static void
define_cost(const char *name, const char *what, double *variable)
{
	DefineCustomRealVariable(name, what,
							 "In units of seq_page_cost; -1 uses the value calibrated on this machine.",
							 variable, *variable, -1.0, 1.0e10, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
}

/* Define a share of resources that all sessions have in common; only superusers set it. */
static void
define_share(const char *name, const char *what, const char *more, int *variable, int least)
{
	DefineCustomIntVariable(name, what, more, variable, *variable, least, 100, PGC_SUSET, 0, NULL, NULL, NULL);
}

void
hjg_base_define_gucs(bool preloaded, int arena_mb)
{
	default_arena_mb = arena_mb;

	DefineCustomBoolVariable("hjoin_gpu.aggregate",
							 "Enables the planner's use of GpuAggregate plans.",
							 NULL, VARIABLE(hjg_aggregate), PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);

	if (preloaded)
		DefineCustomIntVariable("hjoin_gpu.arena_size",
								"Sets the size of the memory shared with the device process.",
								"Memory is taken as joins need it and given back when idle. -1 chooses the smaller of "
								"4 GB and a quarter of the memory of the machine or of the control group.",
								VARIABLE(hjg_arena_size_mb), -1, INT_MAX / 2,
								PGC_POSTMASTER, GUC_UNIT_MB, check_arena_size, NULL, NULL);

	if (preloaded)
		DefineCustomEnumVariable("hjoin_gpu.auto_calibrate",
								 "Sets when the server calibrates the cost model on a machine where this was never done.",
								 "idle waits until the machine has nothing to do; start waits for the device process only; off leaves it to hjoin_gpu_calibrate().",
								 VARIABLE(hjg_auto_calibrate), auto_calibrate_options, PGC_SIGHUP, 0, NULL, NULL, NULL);

	define_share("hjoin_gpu.backend_share", "Sets the percentage of job slots and shared memory that the joins of one backend may hold.",
				 NULL, &hjg_backend_share, 1);

	DefineCustomEnumVariable("hjoin_gpu.bloom_filter",
							 "Sets whether joins test probe rows against a Bloom filter of the build keys.",
							 "auto uses a filter where it is expected to save time, and stops if it does not; on "
							 "uses one wherever the join type allows it.",
							 VARIABLE(hjg_bloom_filter), bloom_filter_options, PGC_USERSET,
							 GUC_EXPLAIN, NULL, NULL, NULL);

	define_cost("hjoin_gpu.build_tuple_cost", "Sets the planner's estimate of the cost of adding a build row to the hash table.",
				&hjg_build_tuple_cost);

	if (preloaded)
		DefineCustomIntVariable("hjoin_gpu.cache_size",
								"Sets the size of the memory for columns of tables that are kept between queries.",
								"Memory is taken as columns are kept. -1 means a quarter of shared_buffers, at most 4 GB; 0 keeps none.",
								VARIABLE(hjg_cache_size_mb), -1, INT_MAX / 2,
								PGC_POSTMASTER, GUC_UNIT_MB, NULL, NULL, NULL);

	if (preloaded)
		DefineCustomBoolVariable("hjoin_gpu.confine_device",
								 "Restricts the device process to the files and system calls that drivers need.",
								 "Turn it off only for a driver that does not work otherwise.",
								 VARIABLE(hjg_confine_device), PGC_POSTMASTER, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("hjoin_gpu.cpu_threads",
							"Sets the maximum number of threads of the cpu engine.",
							"The value at server start is the size of the thread pool in the device process, where 0 means "
							"one thread per core. A session's value limits its own joins.",
							VARIABLE(hjg_cpu_threads), 0, 1024, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);

	DefineCustomStringVariable("hjoin_gpu.device",
							   "Sets the device that joins run on.",
							   "auto chooses the device that is expected to be the fastest; cpu, cuda:N or opencl:N names one.",
							   &device_text, "auto", PGC_USERSET, GUC_EXPLAIN, check_device, assign_device, NULL);

	if (preloaded)
		DefineCustomIntVariable("hjoin_gpu.device_memory",
								"Sets the maximum memory of a GPU that all joins together may use.",
								"0 means most of the memory that is free at the first join.",
								VARIABLE(hjg_device_memory_mb), 0, INT_MAX / 2,
								PGC_POSTMASTER, GUC_UNIT_MB, NULL, NULL, NULL);

	if (preloaded)
		DefineCustomStringVariable("hjoin_gpu.device_program",
								   "Sets the path of the device program.",
								   "If empty, the program beside the server program is used.",
								   &hjg_device_program, "", PGC_POSTMASTER, GUC_SUPERUSER_ONLY,
								   NULL, NULL, NULL);

	DefineCustomIntVariable("hjoin_gpu.device_timeout",
							"Sets the time without a heartbeat after which the device process is restarted.",
							NULL, VARIABLE(hjg_device_timeout_ms), 100, INT_MAX / 4,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);

	DefineCustomBoolVariable("hjoin_gpu.direct_scan",
							 "Enables reading the pages of sequential scans in place, without the executor's scan nodes.",
							 NULL, VARIABLE(hjg_direct_scan), PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);

	define_cost("hjoin_gpu.emit_tuple_cost", "Sets the planner's estimate of the cost of handing a joined row to the executor.",
				&hjg_emit_tuple_cost);

	DefineCustomBoolVariable("hjoin_gpu.enabled", "Enables the planner's use of GpuHashJoin and GpuAggregate plans.",
							 NULL, VARIABLE(hjg_enabled), PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);

	DefineCustomBoolVariable("hjoin_gpu.explain_declined",
							 "Reports why the planner does not consider GpuHashJoin or GpuAggregate.",
							 NULL, VARIABLE(hjg_explain_declined), PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomBoolVariable("hjoin_gpu.float_sums",
							 "Enables sums, averages and variances of floats in GpuAggregate.",
							 "Their last digits depend on the order of the rows, as in core's parallel plans.",
							 VARIABLE(hjg_float_sums), PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);

	DefineCustomBoolVariable("hjoin_gpu.force",
							 "Forces the use of GpuHashJoin wherever possible, regardless of its cost.",
							 "For tests and comparisons.",
							 VARIABLE(hjg_force), PGC_USERSET, GUC_EXPLAIN | GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);

	if (preloaded)
		DefineCustomBoolVariable("hjoin_gpu.huge_pages",
								 "Lets the kernel collapse shared buffers that are in use into huge pages.",
								 "Where PostgreSQL's huge_pages is off, or has got huge pages for them, this has no effect.",
								 VARIABLE(hjg_huge_pages), PGC_SIGHUP, 0, NULL, NULL, NULL);

	define_share("hjoin_gpu.idle_share", "Sets the percentage of job slots and shared memory that open cursors may hold between two fetches.",
				 "A cursor beyond the limit gives its job back, and its join continues in the backend.", &hjg_idle_share, 0);

	DefineCustomIntVariable("hjoin_gpu.in_backend_rows",
							"Sets the number of rows per side below which joins run in the backend.",
							"Larger joins run there, too, where that is expected to be as fast. 0 sends every join to the device process; -1 sends none.",
							VARIABLE(hjg_in_backend_rows), -1, INT_MAX / 2, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);

	DefineCustomBoolVariable("hjoin_gpu.kept_columns",
							 "Enables the use of columns that are kept between queries, and keeping more of them.",
							 NULL, VARIABLE(hjg_kept_columns), PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);

	define_cost("hjoin_gpu.marshal_tuple_cost", "Sets the planner's estimate of the cost of packing a row into a batch.",
				&hjg_marshal_tuple_cost);

	DefineCustomEnumVariable("hjoin_gpu.materialization",
							 "Sets where the columns of joined rows are collected when a GPU joins.",
							 "late does it on the host, by row number; early on the GPU, for columns of fixed width; auto "
							 "chooses for each side what is expected to be faster.",
							 VARIABLE(hjg_materialization), materialization_options, PGC_USERSET,
							 GUC_EXPLAIN, NULL, NULL, NULL);

	DefineCustomEnumVariable("hjoin_gpu.on_fallback",
							 "Sets the reaction when the device process cannot finish a join.",
							 "silent and log let the backend finish the join; error raises an error.",
							 VARIABLE(hjg_on_fallback), fallback_options, PGC_USERSET, 0,
							 NULL, NULL, NULL);

	DefineCustomEnumVariable("hjoin_gpu.pipeline",
							 "Sets the tasks that run beside a join on an OpenCL device.",
							 "e: none; pe: a CPU thread prefetches; cpde_c, cpde_b, cpde_g: keys are also compressed, and decompressed by "
							 "some CPU threads, by all of them, or by all of them and units of the device. Other engines ignore it.",
							 VARIABLE(hjg_pipeline), pipeline_options, PGC_SUSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);

	define_cost("hjoin_gpu.probe_tuple_cost", "Sets the planner's estimate of the cost of probing the hash table with a row.",
				&hjg_probe_tuple_cost);

	DefineCustomBoolVariable("hjoin_gpu.programs",
							 "Lets the device process run whole groupings over kept columns.",
							 NULL, VARIABLE(hjg_programs), PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);

	define_share("hjoin_gpu.role_share", "Sets the percentage of job slots and shared memory that the joins of one role's sessions may hold.",
				 NULL, &hjg_role_share, 1);

	define_cost("hjoin_gpu.startup_cost", "Sets the planner's estimate of the cost of starting a join.", &hjg_startup_cost);

	DefineCustomEnumVariable("hjoin_gpu.strategy",
							 "Sets the join algorithm of the engine.",
							 "auto chooses by size. nop belongs to the cpu engine, shj_... and phj_... to OpenCL devices, the "
							 "others to NVIDIA GPUs; an engine takes a strategy of another engine as auto.",
							 VARIABLE(hjg_strategy), strategy_options, PGC_SUSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);

	define_cost("hjoin_gpu.transfer_cost", "Sets the planner's estimate of the cost of moving 1 MB to or from a device.", &hjg_transfer_cost);

	DefineCustomBoolVariable("hjoin_gpu.unnest_subqueries",
							 "Enables the planner's use of joins in the place of subqueries that are run for each row.",
							 NULL, VARIABLE(hjg_unnest_subqueries), PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);

	DefineCustomRealVariable("hjoin_gpu.verify",
							 "Sets the fraction of joins that are also run by core's hash join, and of kept blocks that are also read from the table, and compared.",
							 "After a difference GpuHashJoin is not used until hjoin_gpu_stat_reset() is called, or kept columns until the server is restarted.",
							 VARIABLE(hjg_verify_share), 0.0, 1.0, PGC_SUSET, 0, NULL, NULL, NULL);

	MarkGUCPrefixReserved("hjoin_gpu");
}
