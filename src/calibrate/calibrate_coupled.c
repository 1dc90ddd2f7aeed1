/*
 * calibrate_coupled.c
 *	  hjoin_gpu_calibrate() for joins that are divided with an OpenCL device: whole joins in the device process, and the same
 *	  joins on the cpu engine.
 *
 * The first join is not counted: during it the coupled engine measures its steps, by which it divides all later joins. Each
 * time is the least of several. If a device does not join, its costs stay unmeasured, as they do for implausible times, with
 * a warning; such a device is never chosen.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/guc.h"

#include "base/hjg_base.h"
#include "calibrate/hjg_calibrate.h"

#define KEY_BYTES 4
#define ROUNDS 3
#define SMALL_ROWS (1u << HJG_ENGINE_SMALL_LOG)
#define LARGE_ROWS (1u << HJG_ENGINE_LARGE_LOG)

/*
 * Make a job with its build side and one batch of probe rows that all have a partner, nothing submitted; NULL if the device
 * gives none.
 */
static HjgJob *
make_job(HjgDeviceId device, uint32 nbuild, uint32 nprobe, int *batch)
{
	HjgJoinSpec spec = {.key_width = KEY_BYTES, .mode = HJG_MATCH_ALL, .probe_rows = nprobe};
	HjgReason	reason;
	HjgJob	   *job = hjg_job_lease(&spec, device, &reason);

	if (job == NULL)
		return NULL;
	if (hjg_job_device(job).kind == device.kind && hjg_job_device(job).number == device.number && hjg_calibrate_fill(job, -1, nbuild, 0, 0) &&
		(*batch = hjg_job_batch_open(job, nprobe, &reason)) >= 0)
	{
		if (hjg_calibrate_fill(job, *batch, nprobe, 0, nbuild))
			return job;
		hjg_job_batch_close(job, *batch);
	}
	hjg_job_release(job);
	return NULL;
}

/* Measure the time from submitting the keys to the last pair; 0 if the device did not join them. */
static double
time_device_join(HjgDeviceId device, uint32 nbuild, uint32 nprobe)
{
	int			batch;
	HjgJob	   *job = make_job(device, nbuild, nprobe, &batch);
	HjgBatchResult result;
	uint64		begin = hjg_now_ns();
	uint64		npairs = 0;
	bool		good;

	if (job == NULL)
		return 0;
	hjg_job_build_submit(job);
	do
	{
		hjg_job_batch_submit(job, batch);
		good = hjg_job_batch_wait(job, batch, NULL, &result) == HJG_REASON_NONE;
		npairs += good ? result.npairs : 0;
	} while (good && !result.finished);
	begin = hjg_now_ns() - begin;
	good = good && npairs == nprobe && hjg_job_device_fallback(job) == HJG_REASON_NONE;
	hjg_job_batch_close(job, batch);
	hjg_job_release(job);
	return good ? (double) begin : 0;
}

/* Find the least of several times; false if the device did not join. */
static bool
least_time(HjgDeviceId device, uint32 nbuild, uint32 nprobe, double *ns)
{
	*ns = 0;
	for (int i = 0; i < ROUNDS; i++)
	{
		double		own = time_device_join(device, nbuild, nprobe);

		if (own <= 0)
			return false;
		*ns = *ns > 0 ? Min(*ns, own) : own;
	}
	return true;
}

/*
 * Measure the engine of a device, which becomes hjoin_gpu.device; false, without costs, if it did not join, or its times are
 * implausible.
 */
static bool
measure_coupled_engine(HjgDeviceId device, HjgEngineCosts *costs)
{
	HjgEngineTimes times;

	*costs = (HjgEngineCosts) {0};
	SetConfigOption("hjoin_gpu.device", hjg_device_name(device).text, PGC_USERSET, PGC_S_SESSION);
	if (time_device_join(device, LARGE_ROWS, LARGE_ROWS) <= 0 || !least_time(device, 1, 1, &times.one_row_ns))
		return false;
	for (int i = 0; i < 2; i++)
	{
		const uint32 nrows = i == 0 ? SMALL_ROWS : LARGE_ROWS;

		if (!least_time(device, nrows, 1, &times.build_ns[i]) || !least_time(device, nrows, nrows, &times.join_ns[i]))
			return false;
	}
	hjg_model_engine_costs_of(&times, costs);
	if (hjg_model_engine_costs_valid(costs))
		return true;
	hjg_calibrate_refuse(hjg_device_name(device).text);
	*costs = (HjgEngineCosts) {0};
	return false;
}

void
hjg_calibrate_coupled(HjgCalibration *calibration)
{
	bool		found = false;

	for (int number = 0; number < HJG_MODEL_COUPLED; number++)
	{
		HjgCoupledDeviceCosts *own = &calibration->coupled[number];
		const HjgDeviceId device = {.kind = HJG_KIND_OPENCL, .number = number};
		HjgCoupledFacts facts;

		SetConfigOption("hjoin_gpu.device", hjg_device_name(device).text, PGC_USERSET, PGC_S_SESSION);
		*own = (HjgCoupledDeviceCosts) {0};
		if (!hjg_service_coupled_at(number, &facts) || !measure_coupled_engine(device, &own->costs))
			continue;
		own->identity = hjg_gpu_identity(facts.description);
		found = true;
	}
	calibration->cpu_engine = (HjgEngineCosts) {0};
	if (found)
		(void) measure_coupled_engine((HjgDeviceId) {HJG_KIND_CPU, HJG_NO_NUMBER}, &calibration->cpu_engine);
}
