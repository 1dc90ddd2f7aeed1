/*
 * device_cuda_lanes.c
 *	  The sets of lanes that joins work with.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "device/hjg_cuda_join.h"

HJG_CUDA_KERNEL(hjg_k_post_count, "cuda_flow");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static HjgCudaLanes *kept[HJG_CUDA_MAX_DEVICES];

static HjgCudaLane *
lane_of(HjgCudaLanes *lanes, int i)
{
	return i == 0 ? &lanes->in : i == 1 ? &lanes->work : &lanes->out[i - 2];
}

#define NLANES (2 + HJG_CUDA_OUTS)

static void
destroy(HjgCudaLanes *lanes)
{
	for (int i = 0; i < NLANES; i++)
		hjg_cuda_lane_close(lane_of(lanes, i));
	if (lanes->mail != NULL)
		hjg_cuda.host_free(lanes->mail);
	free(lanes);
}

HjgStatus
hjg_cuda_lanes_take(HjgCudaDevice *device, const HjgEnv *env, HjgCudaGrant *grant, HjgCudaLanes **taken)
{
	HjgCudaLanes *lanes;
	HjgStatus	status = HJG_OK;

	*taken = NULL;
	pthread_mutex_lock(&lock);
	lanes = kept[device->number];
	if (lanes != NULL)
		kept[device->number] = lanes->next;
	pthread_mutex_unlock(&lock);
	if (lanes == NULL)
	{
		void	   *mail = NULL;

		lanes = calloc(1, sizeof(HjgCudaLanes));
		if (lanes == NULL)
			return HJG_ERR_MEMORY;
		for (int i = 0; i < NLANES && status == HJG_OK; i++)
			status = hjg_cuda_lane_open(lane_of(lanes, i), device, env, grant);
		if (status == HJG_OK)
			status = hjg_cuda_check(&lanes->work, hjg_cuda.host_alloc(&mail, sizeof(HjgCudaMail), HJG_CUDA_HOST_PORTABLE),
									"pinned memory");
		lanes->mail = mail;
		if (status != HJG_OK)
		{
			destroy(lanes);
			return status;
		}
	}
	lanes->next = NULL;
	for (int i = 0; i < NLANES; i++)
	{
		HjgCudaLane *lane = lane_of(lanes, i);

		lane->env = env;
		lane->grant = grant;
		memset(lane->phase_ns, 0, sizeof(lane->phase_ns));
	}
	*taken = lanes;
	return HJG_OK;
}

HjgStatus
hjg_cuda_lanes_wait(HjgCudaLanes *lanes)
{
	HjgStatus	status = HJG_OK;

	for (int i = 0; i < NLANES; i++)
	{
		HjgStatus	one = hjg_cuda_wait(lane_of(lanes, i));

		if (status == HJG_OK)
			status = one;
	}
	return status;
}

void
hjg_cuda_lanes_give(HjgCudaLanes *lanes)
{
	HjgCudaDevice *device = lanes->work.device;

	(void) hjg_cuda_lanes_wait(lanes);
	for (int i = 0; i < NLANES; i++)
	{
		lane_of(lanes, i)->env = NULL;
		lane_of(lanes, i)->grant = NULL;
	}
	pthread_mutex_lock(&lock);
	lanes->next = kept[device->number];
	kept[device->number] = lanes;
	pthread_mutex_unlock(&lock);
}

HjgStatus
hjg_cuda_post_count(HjgCudaLane *lane, HjgCudaPtr from, hjg_u64 *to)
{
	return hjg_cuda_launch(lane, &hjg_k_post_count, 1, 1, 0, (void *[]) {&from, &to});
}

hjg_u64
hjg_cuda_lanes_ns(const HjgCudaLanes *lanes, HjgCudaPhase phase)
{
	hjg_u64		ns = 0;

	for (int i = 0; i < NLANES; i++)
		ns += __atomic_load_n(&lane_of((HjgCudaLanes *) lanes, i)->phase_ns[phase], __ATOMIC_RELAXED);
	return ns;
}
