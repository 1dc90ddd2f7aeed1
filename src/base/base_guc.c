/*
 * base_guc.c
 *	  All settings, in alphabetical order.
 */
#include "postgres.h"

#include <limits.h>
#include <math.h>

#include "utils/guc.h"

#include "base/hjg_base.h"

bool		hjg_aggregate = true;
int			hjg_arena_size_mb = -1;
int			hjg_backend_share = 50;
int			hjg_bloom_filter = HJG_BLOOM_FILTER_AUTO;
double		hjg_build_tuple_cost = -1;
bool		hjg_confine_device = true;
int			hjg_cpu_threads = 0;
char	   *hjg_device = NULL;
HjgDeviceId hjg_device_asked = {.number = HJG_NO_NUMBER};
int			hjg_device_memory_mb = 0;
char	   *hjg_device_program = NULL;
int			hjg_device_timeout_ms = 2000;
bool		hjg_direct_scan = true;
int			hjg_embedded_rows = 32768;
double		hjg_emit_tuple_cost = -1;
bool		hjg_enabled = true;
bool		hjg_explain_declined = false;
bool		hjg_force = false;
int			hjg_idle_share = 25;
double		hjg_marshal_tuple_cost = -1;
int			hjg_materialization = HJG_MATERIALIZATION_AUTO;
int			hjg_on_fallback = HJG_FALLBACK_LOG;
int			hjg_pipeline = HJG_PIPELINE_AUTO;
double		hjg_probe_tuple_cost = -1;
int			hjg_role_share = 75;
double		hjg_startup_cost = -1;
int			hjg_strategy = HJG_CPU_AUTO;
double		hjg_transfer_cost = -1;
double		hjg_verify_share = 0;

#define LEAST_ARENA_MB 16

static int	default_arena_mb;

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

/* -1 becomes what it stands for, so that everybody sees it. */
static bool
check_arena_size(int *newval, void **extra, GucSource source)
{
	if (*newval == -1)
		*newval = default_arena_mb;
	if (*newval >= LEAST_ARENA_MB)
		return true;
	GUC_check_errhint("The arena has %d MB at least; -1 lets the server choose.", LEAST_ARENA_MB);
	return false;
}

/* A cost knob: -1 stands for the calibrated value. */
static void
define_cost(const char *name, const char *what, double *variable)
{
	DefineCustomRealVariable(name, what,
							 "In units of seq_page_cost; -1 uses the value calibrated on this machine.",
							 variable, -1.0, -1.0, 1.0e10, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
}

/* A part of what all sessions share: nobody sets his own. */
static void
define_share(const char *name, const char *what, const char *more, int *variable, int boot, int least)
{
	DefineCustomIntVariable(name, what, more, variable, boot, least, 100, PGC_SUSET, 0, NULL, NULL, NULL);
}

void
hjg_base_define_gucs(bool preloaded, int arena_mb)
{
	default_arena_mb = arena_mb;

	DefineCustomBoolVariable("hjoin_gpu.aggregate",
							 "Computes aggregates of all rows of a join inside GpuHashJoin.",
							 NULL, &hjg_aggregate, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);

	if (preloaded)
		DefineCustomIntVariable("hjoin_gpu.arena_size",
								"Size of the memory shared with the device process.",
								"Memory is used only as joins need it and given back when idle. -1 means the lesser of "
								"4 GB and a quarter of the memory of the machine or of the control group.",
								&hjg_arena_size_mb, -1, -1, INT_MAX / 2,
								PGC_POSTMASTER, GUC_UNIT_MB, check_arena_size, NULL, NULL);

	define_share("hjoin_gpu.backend_share", "Percent of job slots and shared memory that the joins of one backend may hold.",
				 NULL, &hjg_backend_share, 50, 1);

	DefineCustomEnumVariable("hjoin_gpu.bloom_filter",
							 "Drops probe rows without a partner by a Bloom filter of the build keys.",
							 "auto does it where it is expected to pay and stops where it does not; on, wherever "
							 "the kind of join allows it.",
							 &hjg_bloom_filter, HJG_BLOOM_FILTER_AUTO, bloom_filter_options, PGC_USERSET,
							 GUC_EXPLAIN, NULL, NULL, NULL);

	define_cost("hjoin_gpu.build_tuple_cost", "Cost of building the hash table, for each build row.",
				&hjg_build_tuple_cost);

	if (preloaded)
		DefineCustomBoolVariable("hjoin_gpu.confine_device",
								 "Keeps the device process from files, processes and networks that drivers do not need.",
								 "To be turned off only for a driver that does not work otherwise.",
								 &hjg_confine_device, true, PGC_POSTMASTER, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("hjoin_gpu.cpu_threads",
							"Threads of the cpu engine in the device process.",
							"The value at server start is the size of its thread pool, 0 meaning one a core; "
							"a session's value limits its own joins.",
							&hjg_cpu_threads, 0, 0, 1024, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);

	DefineCustomStringVariable("hjoin_gpu.device",
							   "Device that joins run on: auto, cpu, cuda:N or opencl:N.",
							   NULL, &hjg_device, "auto", PGC_USERSET, GUC_EXPLAIN, check_device, assign_device, NULL);

	if (preloaded)
		DefineCustomIntVariable("hjoin_gpu.device_memory",
								"Memory of a GPU that all joins together may use.",
								"0 means most of what is free when the first join comes.",
								&hjg_device_memory_mb, 0, 0, INT_MAX / 2,
								PGC_POSTMASTER, GUC_UNIT_MB, NULL, NULL, NULL);

	if (preloaded)
		DefineCustomStringVariable("hjoin_gpu.device_program",
								   "Path of the device program; empty means the one beside the server program.",
								   NULL, &hjg_device_program, "", PGC_POSTMASTER, GUC_SUPERUSER_ONLY,
								   NULL, NULL, NULL);

	DefineCustomIntVariable("hjoin_gpu.device_timeout",
							"Time without a sign of life after which the device process is restarted.",
							NULL, &hjg_device_timeout_ms, 2000, 100, INT_MAX / 4,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);

	DefineCustomBoolVariable("hjoin_gpu.direct_scan",
							 "Reads the pages of sequential scans below GpuHashJoin in place.",
							 NULL, &hjg_direct_scan, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);

	DefineCustomIntVariable("hjoin_gpu.embedded_rows",
							"Joins of at most so many rows a side run in the backend itself.",
							"Larger ones do where that is expected to be as fast. 0 sends every join to the device process; -1 none.",
							&hjg_embedded_rows, 32768, -1, INT_MAX / 2, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);

	define_cost("hjoin_gpu.emit_tuple_cost", "Cost of handing a joined row to the executor, for each row.",
				&hjg_emit_tuple_cost);

	DefineCustomBoolVariable("hjoin_gpu.enabled", "Lets the planner choose GpuHashJoin.",
							 NULL, &hjg_enabled, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);

	DefineCustomBoolVariable("hjoin_gpu.explain_declined",
							 "Says by a NOTICE during planning why GpuHashJoin is not offered for a join.",
							 NULL, &hjg_explain_declined, false, PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomBoolVariable("hjoin_gpu.force",
							 "Uses GpuHashJoin wherever it is eligible, whatever it costs.",
							 "For tests and comparisons.",
							 &hjg_force, false, PGC_USERSET, GUC_EXPLAIN | GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);

	define_share("hjoin_gpu.idle_share", "Percent of job slots and shared memory that open cursors may hold between fetches.",
				 "A cursor beyond it gives its job back, and its join goes on in the backend.", &hjg_idle_share, 25, 0);

	define_cost("hjoin_gpu.marshal_tuple_cost", "Cost of packing a row into a batch, for each row read.",
				&hjg_marshal_tuple_cost);

	DefineCustomEnumVariable("hjoin_gpu.materialization",
							 "Where columns of joined rows are put together on a GPU.",
							 "late: on the host, by row number; early: on the GPU, where they are of fixed width; auto: "
							 "for each side, the one that is expected to be faster.",
							 &hjg_materialization, HJG_MATERIALIZATION_AUTO, materialization_options, PGC_USERSET,
							 GUC_EXPLAIN, NULL, NULL, NULL);

	DefineCustomEnumVariable("hjoin_gpu.on_fallback",
							 "What to do when the device process cannot finish a join.",
							 "The backend finishes the join itself (silent, log) or raises an error (error).",
							 &hjg_on_fallback, HJG_FALLBACK_LOG, fallback_options, PGC_USERSET, 0,
							 NULL, NULL, NULL);

	DefineCustomEnumVariable("hjoin_gpu.pipeline",
							 "What CPU threads and the units of an OpenCL device do beside executing a join (E).",
							 "pe: a thread prefetches; cpde_c, cpde_b, cpde_g: keys are also compressed and some units "
							 "decompress them, of the CPU, all of the CPU, or of the device as well.  Other engines ignore it.",
							 &hjg_pipeline, HJG_PIPELINE_AUTO, pipeline_options, PGC_SUSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);

	define_cost("hjoin_gpu.probe_tuple_cost", "Cost of probing the hash table, for each probe row.",
				&hjg_probe_tuple_cost);

	define_share("hjoin_gpu.role_share", "Percent of job slots and shared memory that the joins of one role's sessions may hold.",
				 NULL, &hjg_role_share, 75, 1);

	define_cost("hjoin_gpu.startup_cost", "Cost of starting a join.", &hjg_startup_cost);

	DefineCustomEnumVariable("hjoin_gpu.strategy",
							 "Algorithm of the engine; auto chooses by size.",
							 "nop and radix are the cpu engine's, shj_... and phj_... those of OpenCL devices, the "
							 "others those of NVIDIA GPUs; an engine takes one that is not its own for auto.",
							 &hjg_strategy, HJG_CPU_AUTO, strategy_options, PGC_SUSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);

	define_cost("hjoin_gpu.transfer_cost", "Cost of moving 1 MB to or from a device.", &hjg_transfer_cost);

	DefineCustomRealVariable("hjoin_gpu.verify",
							 "Share of joins by GpuHashJoin that are joined by core's hash join as well.",
							 "At the first result that differs the node is not used any more.",
							 &hjg_verify_share, 0.0, 0.0, 1.0, PGC_SUSET, 0, NULL, NULL, NULL);

	MarkGUCPrefixReserved("hjoin_gpu");
}
