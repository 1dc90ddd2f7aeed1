/*
 * calibrate_gpu.c
 *	  hjoin_gpu_calibrate() for GPUs: joins in the device process, as planned by the model (model_cuda_calibrate.c), and their
 *	  times on the device.
 *
 * Each GPU is measured by itself. If its driver does not join, its costs stay unchanged.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/guc.h"

#include "base/hjg_base.h"
#include "calibrate/hjg_calibrate.h"

#define KEY_BYTES 4
#define SLAB_ROWS (HJG_SLAB_BYTES / KEY_BYTES)
#define ROUNDS 9

/* Permute the numbers of rows, so that keys are not dense. */
static inline uint32
key_of(uint32 number)
{
	return number * 2654435761u;
}

bool
hjg_calibrate_fill(HjgJob *job, int batch, uint32 nrows, uint32 first, uint32 modulo)
{
	for (uint32 row = 0; row < nrows; row += SLAB_ROWS)
	{
		uint32		n = Min(nrows - row, SLAB_ROWS);
		HjgReason	reason;
		uint32		slab_ix;
		uint32	   *keys = hjg_job_slab(job, &slab_ix, &reason);

		if (keys == NULL)
			return false;
		CHECK_FOR_INTERRUPTS();
		for (uint32 i = 0; i < n; i++)
			keys[i] = key_of(first + (batch < 0 ? row + i : (uint32) ((uint64) (row + i) * 40503 % modulo)));
		if (batch < 0)
			hjg_job_build_add(job, slab_ix, n, row, false);
		else
			hjg_job_batch_add(job, batch, slab_ix, n, false);
	}
	return true;
}

/* Start a job on a GPU, with its build side; NULL if there is none. */
static HjgJob *
start_gpu_job(HjgCudaStrategyId strategy, bool matching, uint32 build_rows)
{
	HjgJoinSpec spec = {.key_width = KEY_BYTES, .mode = matching ? HJG_MATCH_ALL : HJG_MATCH_SEMI, .strategy = strategy};
	HjgReason	reason;
	HjgJob	   *job = hjg_job_lease(&spec, (HjgDeviceId) {.kind = HJG_KIND_CUDA, .number = HJG_NO_NUMBER}, &reason);

	if (job == NULL)
		return NULL;
	if (hjg_job_device(job).kind != HJG_KIND_CUDA || !hjg_calibrate_fill(job, -1, build_rows, 0, 0))
	{
		hjg_job_release(job);
		return NULL;
	}
	hjg_job_build_submit(job);
	return job;
}

/* Probe one batch; false if it was not joined. */
static bool
probe_batch(HjgJob *job, uint32 nrows, uint32 first, uint32 modulo)
{
	HjgBatchResult result;
	HjgReason	reason;
	int			batch = hjg_job_batch_open(job, nrows, &reason);
	bool		good = batch >= 0 && hjg_calibrate_fill(job, batch, nrows, first, modulo);

	if (good)
		hjg_job_batch_submit(job, batch);
	do
		good = good && hjg_job_batch_wait(job, batch, NULL, &result) == HJG_REASON_NONE;
	while (good && !result.finished && (hjg_job_batch_submit(job, batch), true));
	if (batch >= 0)
		hjg_job_batch_close(job, batch);
	return good;
}

/* Join by the trial's strategy; false if another one was used or the join failed. */
static bool
time_gpu_join(const HjgCudaTrial *trial, uint32 nbuild, uint32 nprobe, HjgJobStats *measured)
{
	HjgJob	   *job = start_gpu_job(trial->strategy, trial->matching, nbuild);
	bool		good = job != NULL && probe_batch(job, nprobe, trial->matching ? 0 : nbuild, nbuild);

	if (job == NULL)
		return false;
	hjg_job_stats(job, measured);
	hjg_job_release(job);
	return good && !measured->declined && measured->strategy == trial->strategy;
}

static bool
run_trial(HjgCudaTrial *trial)
{
	/* pages are registered and kernels loaded the first time */
	for (int i = 0; i < 2; i++)
		if (!time_gpu_join(trial, 1, 1, &trial->idle) ||
			!time_gpu_join(trial, (uint32) trial->build_rows, (uint32) trial->probe_rows, &trial->times))
			return false;
	return true;
}

/* Measure the round trip of a batch of one row; 0 if it fails. */
static double
measure_round(void)
{
	HjgJob	   *job = start_gpu_job(HJG_CUDA_TABLE, true, 1);
	uint64		least_ns = PG_UINT64_MAX;

	for (int i = 0; i < ROUNDS && job != NULL; i++)
	{
		const uint64 begin = hjg_now_ns();
		uint64		ns;

		if (!probe_batch(job, 1, 0, 1))
		{
			least_ns = PG_UINT64_MAX;
			break;
		}
		ns = hjg_now_ns() - begin;
		least_ns = Min(least_ns, ns);
	}
	hjg_job_release(job);
	return least_ns == PG_UINT64_MAX ? 0 : (double) least_ns;
}

/* Measure the GPU that hjoin_gpu.device names; false if there is none, or a trial failed. */
static bool
measure_gpu(const HjgGpuFacts *facts, HjgCudaUnitCosts *costs)
{
	HjgCudaTrial trials[HJG_CUDA_NTRIALS];
	double		first_ns = hjg_now_ns();
	double		round_ns = measure_round();

	if (round_ns == 0)
		return false;
	first_ns = hjg_now_ns() - first_ns;
	hjg_model_cuda_plan_trials(trials, facts->l2_bytes);
	for (int i = 0; i < HJG_CUDA_NTRIALS; i++)
		if (!run_trial(&trials[i]))
			return false;
	hjg_model_cuda_calibrate(costs, trials, facts->l2_bytes);
	costs->call_ns = round_ns / HJG_CUDA_ROUND_CALLS;
	if (facts->cold)
		costs->context_ns = first_ns;
	return true;
}

void
hjg_calibrate_refuse(const char *device)
{
	ereport(WARNING,
			(errcode(ERRCODE_DATA_EXCEPTION),
			 errmsg("calibration of device \"%s\" gave implausible costs, which are not kept", device),
			 errhint("Calibrate again when the device is less busy.")));
}

static bool
are_plausible(const HjgGpuCosts *measured)
{
	const HjgCalibration calibration = {.gpus = {*measured}};

	return hjg_model_gpu_costs(&calibration, 0, measured->identity) != NULL;
}

void
hjg_calibrate_gpus(HjgGpuCosts gpus[HJG_MODEL_GPUS])
{
	for (int number = 0; number < HJG_MODEL_GPUS; number++)
	{
		const HjgDeviceName name = hjg_device_name((HjgDeviceId) {HJG_KIND_CUDA, number});
		HjgGpuCosts measured = {.costs = hjg_model_default_costs.cuda};
		HjgGpuFacts facts;

		if (!hjg_service_gpu_at(number, &facts))
			continue;
		SetConfigOption("hjoin_gpu.device", name.text, PGC_USERSET, PGC_S_SESSION);
		if (!measure_gpu(&facts, &measured.costs))
			continue;
		/* the time of making a context is known only for a device that had none */
		if (!facts.cold && gpus[number].identity == hjg_gpu_identity(facts.description))
			measured.costs.context_ns = gpus[number].costs.context_ns;
		measured.identity = hjg_gpu_identity(facts.description);
		if (!are_plausible(&measured))
			hjg_calibrate_refuse(name.text);
		else
			gpus[number] = measured;
	}
}
