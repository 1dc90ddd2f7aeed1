/*
 * device_cuda_managed.c
 *	  Sides in managed memory, which the driver moves to the device: by the page faults of the kernels that read
 *	  them, or by a prefetch (UMJ and UMJ-PF of Paul et al., "Revisiting Hash Join on Graphics Processors", 2020; what
 *	  Sioulas et al., ICDE 2019, figure 21, compare with copies).
 *
 * The host writes the keys where a copy would read them, and the pages go to the device when they are needed, and
 * back when the host writes them again.  Pairs come back by copies: their pages would be faulted by host and device in
 * turn.  On an H200 256 MB that the host has just written take 20 ms by faults, 5.3 by a prefetch, as a copy does; to
 * write them again once they are on the device takes the host 52 ms instead of 25.  Advice that they are mostly read
 * makes that 600, for the host's write of a page that is in both memories is a fault of its own; so there is none.
 *
 * Memory is admitted like any other, and taken only where the device has it free (device_cuda_memory.c): more on
 * its way than fits would not fail, but stall the device.
 */
#include <string.h>

#include "device/hjg_cuda.h"

HjgStatus
hjg_cuda_alloc_managed(HjgCudaLane *lane, size_t bytes, HjgCudaPtr *ptr)
{
	*ptr = 0;
	return hjg_cuda_check(lane, lane->device->managed ? hjg_cuda_block_take_managed(lane->grant, bytes, ptr) :
						  HJG_CUDA_ERROR_NOT_SUPPORTED, "managed memory");
}

HjgStatus
hjg_cuda_prefetch(HjgCudaLane *lane, HjgCudaPtr ptr, size_t bytes)
{
	if (bytes == 0)
		return HJG_OK;
	lane->busy = true;
	return hjg_cuda_check(lane, hjg_cuda.managed_prefetch(ptr, bytes, lane->device->handle, lane->stream), "prefetch");
}

HjgStatus
hjg_cuda_bring(HjgCudaLane *lane, HjgCudaMoving moving, HjgCudaPtr to, const void *from, size_t bytes)
{
	if (moving == HJG_CUDA_BY_COPY)
		return hjg_cuda_copy_in(lane, to, from, bytes);
	memcpy((void *) (size_t) to, from, bytes);
	return moving == HJG_CUDA_BY_PREFETCH ? hjg_cuda_prefetch(lane, to, bytes) : HJG_OK;
}
