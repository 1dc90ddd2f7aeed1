/*
 * device_cuda_device.c
 *	  CUDA devices: discovery, contexts and kernels.
 *
 * A context costs hundreds of milliseconds and of megabytes, so the first join on a device makes it, and
 * all jobs share it: it is the primary context, which other libraries in the process would share too.  It
 * lives as long as the process.  Images are loaded when one of their kernels is first used.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "device/hjg_cuda.h"
#include "layout/hjg_hash.h"
#include "model/hjg_cuda_model.h"

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static HjgCudaDevice devices[HJG_CUDA_MAX_DEVICES];
static int	ndevices;
static size_t budget_bytes;

void
hjg_cuda_set_budget(size_t bytes)
{
	budget_bytes = bytes;
}

static void
set_reason(char *reason, size_t room, const char *what, HjgCudaResult result)
{
	const char *text = NULL;

	if (hjg_cuda.error_text(result, &text) != HJG_CUDA_SUCCESS || text == NULL)
		text = "unknown error";
	snprintf(reason, room, "%s: %s (%d)", what, text, result);
}

/* Read the facts of a device that need no context.  False, with the reason, when it cannot be used. */
static bool
describe_device(int number, HjgCudaDevice *device, HjgDeviceInfo *info)
{
	enum {SMS, MAJOR, MINOR, L2, SHARED, MODE, NFACTS};
	static const int wanted[NFACTS] = {
		[SMS] = HJG_CUDA_MULTIPROCESSORS, [MAJOR] = HJG_CUDA_CC_MAJOR, [MINOR] = HJG_CUDA_CC_MINOR,
		[L2] = HJG_CUDA_L2_BYTES, [SHARED] = HJG_CUDA_SHARED_OPTIN, [MODE] = HJG_CUDA_COMPUTE_MODE,
	};
	int			facts[NFACTS] = {0};
	char		name[64] = "";
	const HjgDeviceId id = {.kind = HJG_KIND_CUDA, .number = number};
	HjgCudaResult result = hjg_cuda.device_get(&device->handle, number);

	device->number = number;
	device->name = hjg_device_name(id);
	if (result == HJG_CUDA_SUCCESS)
		result = hjg_cuda.device_name(name, sizeof(name), device->handle);
	if (result == HJG_CUDA_SUCCESS)
		result = hjg_cuda.device_memory(&device->memory_bytes, device->handle);
	for (int i = 0; i < NFACTS && result == HJG_CUDA_SUCCESS; i++)
		result = hjg_cuda.device_attribute(&facts[i], wanted[i], device->handle);
	name[sizeof(name) - 1] = '\0';
	device->multiprocessors = facts[SMS];
	device->compute_capability = facts[MAJOR] * 10 + facts[MINOR];
	device->l2_bytes = (size_t) facts[L2];
	device->shared_bytes = (size_t) facts[SHARED];

	memset(info, 0, sizeof(*info));
	info->id = id;
	info->compute_units = (hjg_u32) device->multiprocessors;
	info->memory_bytes = device->memory_bytes;
	info->l2_bytes = device->l2_bytes;
	snprintf(info->description, sizeof(info->description), "%s, compute capability %d.%d", name,
			 facts[MAJOR], facts[MINOR]);
	device->identity = hjg_gpu_identity(info->description);
	if (result != HJG_CUDA_SUCCESS)
		set_reason(info->reason, sizeof(info->reason), "the driver does not describe the device", result);
	else if (device->compute_capability < HJG_CUDA_LEAST_CC)
		snprintf(info->reason, sizeof(info->reason), "too old: compute capability 7.5 or newer is needed");
	else if (facts[MODE] == HJG_CUDA_MODE_PROHIBITED)
		snprintf(info->reason, sizeof(info->reason), "its compute mode prohibits programs");
	return info->reason[0] == '\0';
}

int
hjg_cuda_list(HjgDeviceInfo *infos, int room)
{
	int			count = 0;
	HjgCudaResult result;

	if (room < 1)
		return 0;
	memset(&infos[0], 0, sizeof(infos[0]));
	infos[0].id = (HjgDeviceId) {.kind = HJG_KIND_CUDA, .number = HJG_NO_NUMBER};
	infos[0].state = HJG_DEVICE_FAILED;
	if (!hjg_cuda_open(infos[0].reason, sizeof(infos[0].reason)))
		return 1;
	result = hjg_cuda.device_count(&count);
	if (result != HJG_CUDA_SUCCESS)
	{
		set_reason(infos[0].reason, sizeof(infos[0].reason), "the driver does not count its devices", result);
		return 1;
	}
	if (count <= 0)
	{
		snprintf(infos[0].reason, sizeof(infos[0].reason), "the driver has no device");
		return 1;
	}
	if (count > room)
		count = room;
	if (count > HJG_CUDA_MAX_DEVICES)
		count = HJG_CUDA_MAX_DEVICES;
	pthread_mutex_lock(&devices_lock);
	for (int i = 0; i < count; i++)
	{
		HjgCudaDevice found = {0};
		bool		usable = describe_device(i, &found, &infos[i]);

		/* a device that joins already use keeps its entry */
		if (i >= ndevices)
		{
			devices[i] = found;
			ndevices = i + 1;
		}
		if (usable && hjg_health_resting(devices[i].name.text, infos[i].reason, sizeof(infos[i].reason)))
			usable = false;
		infos[i].warm = devices[i].context != NULL;
		infos[i].state = usable ? HJG_DEVICE_READY : HJG_DEVICE_FAILED;
	}
	pthread_mutex_unlock(&devices_lock);
	return count;
}

/* Make the device's context; called with the lock. */
static bool
make_context(HjgCudaDevice *device, char *reason, size_t room)
{
	HjgCudaContext context;
	HjgCudaResult result = hjg_cuda.context_retain(&context, device->handle);

	if (result == HJG_CUDA_SUCCESS)
		result = hjg_cuda.context_set(context);
	if (result != HJG_CUDA_SUCCESS)
	{
		set_reason(reason, room, "no context on the device", result);
		return false;
	}
	device->pool = hjg_cuda_pool_create(budget_bytes);
	if (device->pool == NULL)
	{
		snprintf(reason, room, "out of host memory");
		return false;
	}
	device->context = context;
	return true;
}

HjgCudaDevice *
hjg_cuda_enter(int number, char *reason, size_t room)
{
	HjgCudaDevice *device = &devices[number];
	HjgCudaResult result;
	bool		good;

	pthread_mutex_lock(&devices_lock);
	good = number < ndevices;
	if (!good)
		snprintf(reason, room, "%s has not been found", hjg_device_name((HjgDeviceId) {HJG_KIND_CUDA, number}).text);
	else if (device->context == NULL)
		good = make_context(device, reason, room);
	pthread_mutex_unlock(&devices_lock);
	if (!good)
		return NULL;
	result = hjg_cuda.context_set(device->context);
	if (result == HJG_CUDA_SUCCESS)
		return device;
	set_reason(reason, room, "the context is not to be had", result);
	return NULL;
}

HjgCudaDevice *
hjg_cuda_made(int number)
{
	HjgCudaDevice *device = NULL;

	pthread_mutex_lock(&devices_lock);
	if (number < ndevices && devices[number].context != NULL)
		device = &devices[number];
	pthread_mutex_unlock(&devices_lock);
	if (device != NULL && hjg_cuda.context_set(device->context) != HJG_CUDA_SUCCESS)
		return NULL;
	return device;
}

/* ---- kernels; called with the lock ---- */

/*
 * Give the image the process's seed, if it mixes keys, before any of its kernels runs.  A copy from
 * pageable memory has ended when it returns, and so has the previous copy on the same stream.
 */
static HjgCudaResult
set_seed(HjgCudaModule module)
{
	HjgHashSeed found = {0};
	HjgCudaPtr	seed;
	size_t		bytes;
	HjgCudaResult result = hjg_cuda.module_global(&seed, &bytes, module, "hjg_hash_seed");

	if (result == HJG_CUDA_ERROR_NOT_FOUND)
		return HJG_CUDA_SUCCESS;
	if (result == HJG_CUDA_SUCCESS && bytes != sizeof(hjg_hash_seed))
		return HJG_CUDA_ERROR_INVALID_IMAGE;
	if (result == HJG_CUDA_SUCCESS)
		result = hjg_cuda.copy_in(seed, &hjg_hash_seed, sizeof(hjg_hash_seed), NULL);
	if (result == HJG_CUDA_SUCCESS)
		result = hjg_cuda.copy_out(&found, seed, sizeof(found), NULL);
	return result == HJG_CUDA_SUCCESS && memcmp(&found, &hjg_hash_seed, sizeof(found)) != 0 ?
		HJG_CUDA_ERROR_INVALID_IMAGE : result;
}

static HjgCudaResult
find_function(HjgCudaDevice *device, const HjgCudaKernel *kernel, HjgCudaFunction *function)
{
	for (int i = 0; i < HJG_CUDA_MAX_IMAGES && hjg_cuda_images[i].name != NULL; i++)
	{
		HjgCudaResult result;

		if (strcmp(hjg_cuda_images[i].name, kernel->image) != 0)
			continue;
		if (device->modules[i] == NULL)
		{
			HjgCudaModule module;

			result = hjg_cuda.module_load(&module, hjg_cuda_images[i].bytes);
			if (result == HJG_CUDA_SUCCESS)
				result = set_seed(module);
			if (result != HJG_CUDA_SUCCESS)
				return result;
			device->modules[i] = module;
		}
		return hjg_cuda.module_function(function, device->modules[i], kernel->name);
	}
	return HJG_CUDA_ERROR_NOT_FOUND;
}

HjgCudaResult
hjg_cuda_kernel_load(HjgCudaDevice *device, HjgCudaKernel *kernel, unsigned shared_bytes)
{
	const int	d = device->number;
	HjgCudaFunction function = __atomic_load_n(&kernel->functions[d], __ATOMIC_ACQUIRE);
	HjgCudaResult result = HJG_CUDA_SUCCESS;

	if (function != NULL && shared_bytes <= __atomic_load_n(&kernel->shared_bytes[d], __ATOMIC_ACQUIRE))
		return HJG_CUDA_SUCCESS;
	pthread_mutex_lock(&devices_lock);
	function = kernel->functions[d];
	if (function == NULL)
		result = find_function(device, kernel, &function);
	if (result == HJG_CUDA_SUCCESS && shared_bytes > kernel->shared_bytes[d])
	{
		result = hjg_cuda.function_set(function, HJG_CUDA_FUNC_DYNAMIC_SHARED, (int) shared_bytes);
		if (result == HJG_CUDA_SUCCESS)
			__atomic_store_n(&kernel->shared_bytes[d], shared_bytes, __ATOMIC_RELEASE);
	}
	if (result == HJG_CUDA_SUCCESS)
		__atomic_store_n(&kernel->functions[d], function, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&devices_lock);
	return result;
}
