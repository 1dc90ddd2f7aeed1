/*
 * device_cuda_streams.c
 *	  The sets of streams that joins use.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "device/hjg_cuda_join.h"

HJG_CUDA_KERNEL(hjg_k_post_count, "cuda_flow");

static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static HjgCudaStreams *kept_streams[HJG_CUDA_MAX_DEVICES];

static HjgCudaStream *
stream_of(HjgCudaStreams *streams, int i)
{
	return i == 0 ? &streams->in : i == 1 ? &streams->work : &streams->out[i - 2];
}

#define NLANES (2 + HJG_CUDA_OUTS)

static void
destroy_streams(HjgCudaStreams *streams)
{
	for (int i = 0; i < NLANES; i++)
		hjg_cuda_stream_close(stream_of(streams, i));
	if (streams->header != NULL)
		hjg_cuda.host_free(streams->header);
	free(streams);
}

HjgStatus
hjg_cuda_streams_take(HjgCudaDevice *device, const HjgEnv *env, HjgCudaGrant *grant, HjgCudaStreams **taken)
{
	HjgCudaStreams *streams;
	HjgStatus	status = HJG_OK;

	*taken = NULL;
	pthread_mutex_lock(&kept_lock);
	streams = kept_streams[device->number];
	if (streams != NULL)
		kept_streams[device->number] = streams->next;
	pthread_mutex_unlock(&kept_lock);
	if (streams == NULL)
	{
		void	   *header = NULL;

		streams = calloc(1, sizeof(HjgCudaStreams));
		if (streams == NULL)
			return HJG_ERR_MEMORY;
		for (int i = 0; i < NLANES && status == HJG_OK; i++)
			status = hjg_cuda_stream_open(stream_of(streams, i), device, env, grant);
		if (status == HJG_OK)
			status = hjg_cuda_check(&streams->work, hjg_cuda.host_alloc(&header, sizeof(HjgCudaResultHeader), HJG_CUDA_HOST_PORTABLE),
									"pinned memory");
		streams->header = header;
		if (status != HJG_OK)
		{
			destroy_streams(streams);
			return status;
		}
	}
	streams->next = NULL;
	for (int i = 0; i < NLANES; i++)
	{
		HjgCudaStream *stream = stream_of(streams, i);

		stream->env = env;
		stream->grant = grant;
		memset(stream->phase_ns, 0, sizeof(stream->phase_ns));
	}
	*taken = streams;
	return HJG_OK;
}

HjgStatus
hjg_cuda_streams_wait(HjgCudaStreams *streams)
{
	HjgStatus	status = HJG_OK;

	for (int i = 0; i < NLANES; i++)
	{
		HjgStatus	one = hjg_cuda_wait(stream_of(streams, i));

		if (status == HJG_OK)
			status = one;
	}
	return status;
}

void
hjg_cuda_streams_give(HjgCudaStreams *streams)
{
	HjgCudaDevice *device = streams->work.device;

	(void) hjg_cuda_streams_wait(streams);
	for (int i = 0; i < NLANES; i++)
	{
		stream_of(streams, i)->env = NULL;
		stream_of(streams, i)->grant = NULL;
	}
	pthread_mutex_lock(&kept_lock);
	streams->next = kept_streams[device->number];
	kept_streams[device->number] = streams;
	pthread_mutex_unlock(&kept_lock);
}

HjgStatus
hjg_cuda_post_count(HjgCudaStream *stream, HjgCudaPtr from, hjg_u64 *to)
{
	return hjg_cuda_launch(stream, &hjg_k_post_count, 1, 1, 0, (void *[]) {&from, &to});
}

hjg_u64
hjg_cuda_streams_ns(const HjgCudaStreams *streams, HjgCudaPhase phase)
{
	hjg_u64		ns = 0;

	for (int i = 0; i < NLANES; i++)
		ns += __atomic_load_n(&stream_of((HjgCudaStreams *) streams, i)->phase_ns[phase], __ATOMIC_RELAXED);
	return ns;
}
