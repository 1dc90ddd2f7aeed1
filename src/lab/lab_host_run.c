/*
 * lab_host_run.c
 *	  Benchmark of joins of sides in host memory: threads and the device, and one join by a planned system.
 */
#include "lab/hjg_cuda_host_bench.h"

HjgStatus
hjg_host_join(HjgHostBench *bench, HjgHostData *data)
{
	switch (data->system)
	{
		case HJG_HOST_COPRO:
			data->blocks.next = 0;
			return hjg_lab_copro_join(bench->streams, &data->copro, &data->result);
		case HJG_HOST_SPILL:
			return hjg_lab_spill_join(bench->streams, &data->spill, &data->result);
		default:
			return hjg_lab_stream_join(bench->streams, &data->join, &data->result);
	}
}

size_t
hjg_host_device_bytes(const HjgHostBench *bench, const HjgHostData *data)
{
	const HjgCudaDevice *device = bench->streams->work.device;

	return data->system == HJG_HOST_COPRO ? hjg_lab_copro_bytes(device, &data->copro) :
		data->system == HJG_HOST_SPILL ? hjg_lab_spill_bytes(device, &data->spill) : hjg_lab_stream_bytes(device, &data->join);
}

HjgStatus
hjg_host_bench_open(HjgHostBench *bench, HjgCudaDevice *device)
{
	HjgStatus	status = hjg_cuda_admit(device->pool, hjg_cuda_pool_budget(device->pool), NULL, 0, &bench->grant);

	bench->pool = hjg_pool_create(hjg_device_cpus());
	bench->stagers = hjg_pool_create(bench->nstagers);
	if (status == HJG_OK)
		status = hjg_cuda_streams_take(device, NULL, &bench->grant, &bench->streams);
	return status == HJG_OK ? hjg_host_measure_rates(bench) : status;
}

void
hjg_host_bench_close(HjgHostBench *bench)
{
	hjg_cuda_streams_give(bench->streams);
	hjg_cuda_dismiss(&bench->grant);
	hjg_pool_destroy(bench->stagers);
	hjg_pool_destroy(bench->pool);
}
