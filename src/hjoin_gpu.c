/*
 * hjoin_gpu.c
 *	  Entry point of the extension: settings, hooks, supervisor, and the functions by which the planner asks the service.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"

#include "arena/hjg_arena.h"
#include "base/hjg_base.h"
#include "engine/hjg_engine.h"
#include "huge/hjg_huge.h"
#include "kept/hjg_kept.h"
#include "node/hjg_execution.h"
#include "planner/hjg_planner.h"
#include "service/hjg_service.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

static bool
device_ready(void)
{
	HjgReason	reason;

	return hjg_service_available(&reason);
}

/* Get the calibration, checked once for each new one, because a query asks many times; NULL: there is none. */
static const HjgCalibration *
known_calibration(void)
{
	static HjgCalibration known;
	static uint64 known_version = 0;
	const uint64 version = hjg_service_calibration_version();
	double		values[HJG_CALIBRATION_VALUES];

	if (version == 0)
		return NULL;
	if (version != known_version)
	{
		if (!hjg_service_calibration_get(values))
			return NULL;
		memcpy(&known, values, sizeof(known));
		if (!hjg_model_costs_valid(&known.machine))
			known.machine = hjg_model_default_costs;
		known_version = version;
	}
	return &known;
}

static const HjgUnitCosts *
get_calibration(void)
{
	const HjgCalibration *known = known_calibration();

	return known != NULL ? &known->machine : NULL;
}

static bool
get_gpu(HjgPlannerGpu *gpu)
{
	const HjgCalibration *known = known_calibration();
	const HjgCudaUnitCosts *costs = NULL;
	HjgDeviceId ids[HJG_MAX_DEVICES];
	HjgGpuFacts facts;

	if (!hjg_service_gpu(&facts))
		return false;
	if (known != NULL)
		costs = hjg_model_gpu_costs(known, facts.number, hjg_gpu_identity(facts.description));
	*gpu = (HjgPlannerGpu) {
		.number = facts.number,
		.ngpus = Max(hjg_service_gpus(ids), 1),
		.costs = costs != NULL ? *costs : hjg_model_default_costs.cuda,
		.measured = costs != NULL,
		.l2_bytes = facts.l2_bytes,
		.cold = facts.cold,
		.asked_for = hjg_device_asked.kind == HJG_KIND_CUDA
	};
	return true;
}

/* Choose the usable device that was fastest in the larger join of its calibration. */
static bool
get_coupled(HjgPlannerCoupled *coupled)
{
	const HjgCalibration *known = known_calibration();
	double		least_ns = 0;

	for (int number = 0; known != NULL && number < HJG_MODEL_COUPLED; number++)
	{
		const HjgEngineCosts *costs;
		HjgCoupledFacts facts;

		if (known->coupled[number].identity == 0 || !hjg_service_coupled_at(number, &facts))
			continue;
		costs = hjg_model_coupled_costs(known, number, hjg_gpu_identity(facts.description));
		if (costs == NULL || (least_ns > 0 && costs->build_ns[1] + costs->probe_ns[1] >= least_ns))
			continue;
		least_ns = costs->build_ns[1] + costs->probe_ns[1];
		*coupled = (HjgPlannerCoupled) {
			.costs = *costs, .cpu_engine = known->cpu_engine, .number = number, .widths = facts.widths,
			.asked_for = hjg_device_asked.kind == HJG_KIND_OPENCL
		};
	}
	return least_ns > 0;
}

static void
count_taken_hook(void)
{
	hjg_service_count(HJG_COUNT_HOOK_TAKEN, 1);
}

static const HjgPlannerSources planner_sources = {
	.trusted = hjg_service_trusted,
	.hook_taken = count_taken_hook,
	.device_ready = device_ready,
	.calibration = get_calibration,
	.gpu = get_gpu,
	.coupled = get_coupled,
};

static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

/*
 * Install the hooks of planner and executor when all preloaded libraries have installed theirs: some, like Citus, replace a hook without
 * calling the one before, or refuse to be loaded where there is one. A postmaster makes its shared memory again after a crash.
 */
static void
install_hooks(void)
{
	static bool installed = false;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	hjg_base_name_waits();
	if (installed)
		return;
	installed = true;
	hjg_planner_init(&planner_sources);
	hjg_node_init();
}

void
_PG_init(void)
{
	bool		preloaded = process_shared_preload_libraries_in_progress;

	hjg_base_define_gucs(preloaded, (int) (hjg_arena_default_bytes("") >> 20));
	if (!preloaded)
	{
		ereport(WARNING,
				(errmsg("hjoin_gpu is not active in this session"),
				 errdetail("It was loaded without the setting shared_preload_libraries."),
				 errhint("Add hjoin_gpu to shared_preload_libraries and restart the server.")));
		return;
	}
	if (!hjg_engine_draw_seed())
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random seeds for hash tables: %m")));
	hjg_service_init(hjg_kept_open_readonly);
	hjg_huge_init();
	hjg_kept_init(hjg_cache_size_mb);
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = install_hooks;
}
