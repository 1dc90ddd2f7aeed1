/*
 * lab_cuda_managed.c
 *	  Sides in managed memory, which the driver moves to the device: by page faults of the kernels that
 *	  read them, or by a prefetch (UMJ and UMJ-PF of Paul et al., "Revisiting Hash Join on Graphics
 *	  Processors", 2020; compared with copies by Sioulas et al., ICDE 2019, figure 21).
 *
 * The host writes the keys where a copy would read them; the pages move to the device when they are
 * needed, and back when the host writes them again.  Pairs come back by copies: host and device would
 * fault their pages alternately.  On an H200, 256 MB that the host has just written take 20 ms by faults,
 * and 5.3 by a prefetch or a copy; writing them again once they are on the device takes the host 52 ms
 * instead of 25.  Advice that they are mostly read makes that 600, because the host's write of a page in
 * both memories is a separate fault; so no advice is given.
 */
#include <dlfcn.h>
#include <string.h>

#include "lab/hjg_cuda_paper.h"

#define ATTACH_GLOBAL 1			/* CU_MEM_ATTACH_GLOBAL */
#define HOST (-1)				/* CU_DEVICE_CPU */
#define CONCURRENT_MANAGED 89	/* CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS */

/* Functions that the product's driver does not use. */
static HjgCudaResult (*alloc_managed) (HjgCudaPtr *ptr, size_t bytes, unsigned flags);
static HjgCudaResult (*prefetch) (HjgCudaPtr ptr, size_t bytes, HjgCudaNumber to, HjgCudaStreamHandle stream);

static bool
find_functions(void)
{
	void	   *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (library == NULL)
		return false;
	*(void **) &alloc_managed = dlsym(library, "cuMemAllocManaged");
	*(void **) &prefetch = dlsym(library, "cuMemPrefetchAsync");
	return alloc_managed != NULL && prefetch != NULL;
}

HjgLabMoving
hjg_lab_moving(const HjgCudaStrategy *strategy)
{
	return strategy == &hjg_cuda_umj ? HJG_LAB_BY_FAULT : strategy == &hjg_cuda_umj_pf ? HJG_LAB_BY_PREFETCH : HJG_LAB_BY_COPY;
}

HjgStatus
hjg_lab_managed_take(HjgCudaStream *stream, size_t bytes, HjgCudaPtr *ptr)
{
	size_t		free_bytes;
	size_t		total_bytes;
	int			concurrent = 0;
	HjgCudaResult result = HJG_CUDA_ERROR_NOT_SUPPORTED;

	*ptr = 0;
	if (find_functions())
		result = hjg_cuda.device_attribute(&concurrent, CONCURRENT_MANAGED, stream->device->handle);
	if (result == HJG_CUDA_SUCCESS && concurrent == 0)
		result = HJG_CUDA_ERROR_NOT_SUPPORTED;
	if (result == HJG_CUDA_SUCCESS)
		result = hjg_cuda.memory_info(&free_bytes, &total_bytes);
	if (result == HJG_CUDA_SUCCESS)
		result = bytes > free_bytes ? HJG_CUDA_ERROR_OUT_OF_MEMORY : alloc_managed(ptr, bytes, ATTACH_GLOBAL);
	return hjg_cuda_check(stream, result, "managed memory");
}

void
hjg_lab_managed_give(HjgCudaStream *stream, HjgCudaPtr ptr)
{
	if (ptr != 0 && hjg_cuda_wait(stream) == HJG_OK)
		(void) hjg_cuda_check(stream, hjg_cuda.memory_free(ptr), "managed memory");
}

HjgStatus
hjg_lab_prefetch(HjgCudaStream *stream, HjgCudaPtr ptr, size_t bytes, bool to_host)
{
	if (bytes == 0)
		return HJG_OK;
	stream->busy = true;
	return hjg_cuda_check(stream, prefetch(ptr, bytes, to_host ? HOST : stream->device->handle, stream->handle), "prefetch");
}

HjgStatus
hjg_lab_bring(HjgCudaStream *stream, HjgLabMoving moving, HjgCudaPtr to, const void *from, size_t bytes)
{
	if (moving == HJG_LAB_BY_COPY)
		return hjg_cuda_copy_in(stream, to, from, bytes);
	memcpy((void *) (size_t) to, from, bytes);
	return moving == HJG_LAB_BY_PREFETCH ? hjg_lab_prefetch(stream, to, bytes, false) : HJG_OK;
}
