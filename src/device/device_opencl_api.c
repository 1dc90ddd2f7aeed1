/*
 * device_opencl_api.c
 *	  The OpenCL loader: opens it, protects the process's signals from it, and reads the facts of
 *	  devices.
 */
#define _GNU_SOURCE

#include "device/hjg_opencl.h"

#ifdef HJG_HAVE_OPENCL

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define LOADER "libOpenCL.so.1"

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static HjgClApi loaded_api;
static bool is_loaded;
static bool load_failed;
static char load_failure[128];

static bool
load_functions(void)
{
	void	   *library = dlopen(LOADER, RTLD_NOW | RTLD_LOCAL);

	if (library == NULL)
	{
		snprintf(load_failure, sizeof(load_failure), "no OpenCL loader: %s", dlerror());
		return false;
	}
#define LOAD(name, function) \
	loaded_api.name = (__typeof__(loaded_api.name)) dlsym(library, #function); \
	if (loaded_api.name == NULL) \
	{ \
		snprintf(load_failure, sizeof(load_failure), "%s has no %s", LOADER, #function); \
		return false; \
	}
	HJG_CL_FUNCTIONS(LOAD)
#undef LOAD
	return true;
}

/* Make the first OpenCL call, in which ICDs install signal handlers, and restore the old handlers. */
static void
first_call(void)
{
	struct sigaction saved[NSIG];
	bool		known[NSIG];
	cl_platform_id platforms[16];
	cl_uint		nplatforms = 0;

	for (int sig = 1; sig < NSIG; sig++)
		known[sig] = sigaction(sig, NULL, &saved[sig]) == 0;
	if (loaded_api.platform_ids(16, platforms, &nplatforms) == CL_SUCCESS)
		for (cl_uint i = 0; i < nplatforms && i < 16; i++)
		{
			cl_device_id id;
			cl_uint		n = 0;

			loaded_api.device_ids(platforms[i], CL_DEVICE_TYPE_ALL, 1, &id, &n);
		}
	for (int sig = 1; sig < NSIG; sig++)
		if (known[sig] && sig != SIGKILL && sig != SIGSTOP)
			sigaction(sig, &saved[sig], NULL);
}

const HjgClApi *
hjg_cl_api(char *reason, size_t room)
{
	bool		good;

	pthread_mutex_lock(&load_lock);
	if (!is_loaded && !load_failed)
	{
		sigset_t	all;
		sigset_t	before;

		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		if (load_functions())
		{
			first_call();
			is_loaded = true;
		}
		else
			load_failed = true;
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	good = is_loaded;
	if (!good)
		snprintf(reason, room, "%s", load_failure);
	pthread_mutex_unlock(&load_lock);
	return good ? &loaded_api : NULL;
}

/* Name the errors that a join can meet; others get their number. */
const char *
hjg_cl_error_text(cl_int error)
{
	static __thread char number[32];

	switch (error)
	{
		case CL_DEVICE_NOT_FOUND:
			return "device not found";
		case CL_DEVICE_NOT_AVAILABLE:
			return "device not available";
		case CL_COMPILER_NOT_AVAILABLE:
			return "no compiler";
		case CL_MEM_OBJECT_ALLOCATION_FAILURE:
			return "memory object allocation failure";
		case CL_OUT_OF_RESOURCES:
			return "out of resources";
		case CL_OUT_OF_HOST_MEMORY:
			return "out of host memory";
		case CL_BUILD_PROGRAM_FAILURE:
			return "program does not build";
		case CL_DEVICE_PARTITION_FAILED:
			return "device cannot be divided";
		case CL_INVALID_BUFFER_SIZE:
			return "invalid buffer size";
		case CL_INVALID_WORK_GROUP_SIZE:
			return "invalid work group size";
		default:
			snprintf(number, sizeof(number), "OpenCL error %d", (int) error);
			return number;
	}
}

cl_int
hjg_cl_find(const HjgClApi *api, hjg_u32 platform, hjg_u32 device, cl_device_id *id)
{
	cl_platform_id platforms[16];
	cl_device_id ids[HJG_MAX_DEVICES];
	cl_uint		n = 0;
	cl_int		error = api->platform_ids(16, platforms, &n);

	if (error != CL_SUCCESS)
		return error;
	if (platform >= n || platform >= 16)
		return CL_DEVICE_NOT_FOUND;
	error = api->device_ids(platforms[platform], CL_DEVICE_TYPE_ALL, HJG_MAX_DEVICES, ids, &n);
	if (error != CL_SUCCESS)
		return error;
	if (device >= n || device >= HJG_MAX_DEVICES)
		return CL_DEVICE_NOT_FOUND;
	*id = ids[device];
	return CL_SUCCESS;
}

/* Read a number of a device; 0 if the device does not know it. */
static hjg_u64
number_of(const HjgClApi *api, cl_device_id id, cl_device_info what, size_t bytes)
{
	hjg_u64		value = 0;

	/* all values have 4 or 8 bytes, and the machine is little-endian */
	if (bytes > sizeof(value) || api->device_info(id, what, bytes, &value, NULL) != CL_SUCCESS)
		return 0;
	return value;
}

static void
text_of(const HjgClApi *api, cl_device_id id, cl_device_info what, char *text, size_t room)
{
	char		whole[1024];
	size_t		n = 0;

	text[0] = '\0';
	if (api->device_info(id, what, sizeof(whole), whole, &n) != CL_SUCCESS || n == 0 || n > sizeof(whole))
		return;
	whole[n - 1] = '\0';
	snprintf(text, room, "%.*s", (int) room - 1, whole);
}

static bool
divides_by_counts(const HjgClApi *api, cl_device_id id)
{
	cl_device_partition_property divisions[16];
	size_t		bytes = 0;

	if (api->device_info(id, CL_DEVICE_PARTITION_PROPERTIES, sizeof(divisions), divisions, &bytes) != CL_SUCCESS)
		return false;
	for (size_t i = 0; i < bytes / sizeof(divisions[0]) && i < 16; i++)
		if (divisions[i] == CL_DEVICE_PARTITION_BY_COUNTS)
			return true;
	return false;
}

/* Read the facts, and describe them to users in one line. */
void
hjg_cl_facts(const HjgClApi *api, cl_device_id id, HjgClFacts *facts, HjgDeviceInfo *info)
{
	static const char *const svm_text[] = {"none", "coarse", "fine", "system"};
	char		name[64];
	char		text[256];
	char		version[32];
	int			major = 0;
	int			minor = 0;
	hjg_u64		svm = number_of(api, id, CL_DEVICE_SVM_CAPABILITIES, sizeof(cl_device_svm_capabilities));

	memset(facts, 0, sizeof(*facts));
	text_of(api, id, CL_DEVICE_NAME, name, sizeof(name));
	text_of(api, id, CL_DEVICE_VERSION, version, sizeof(version));
	if (sscanf(version, "OpenCL %d.%d", &major, &minor) == 2)
		facts->version = (hjg_u32) (major * 100 + minor * 10);
	facts->is_cpu = (number_of(api, id, CL_DEVICE_TYPE, sizeof(cl_device_type)) & CL_DEVICE_TYPE_CPU) != 0;
	facts->unified = (hjg_u32) number_of(api, id, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof(cl_bool));
	facts->svm = svm & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM ? 3 : svm & CL_DEVICE_SVM_FINE_GRAIN_BUFFER ? 2
		: svm & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER ? 1 : 0;
	facts->svm_atomics = (svm & CL_DEVICE_SVM_ATOMICS) != 0;
	facts->max_sub_devices = (hjg_u32) number_of(api, id, CL_DEVICE_PARTITION_MAX_SUB_DEVICES, sizeof(cl_uint));
	facts->fission_by_counts = divides_by_counts(api, id);
	facts->align_bytes = (hjg_u32) number_of(api, id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof(cl_uint)) / 8;
	facts->max_group = (hjg_u32) number_of(api, id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t));
	facts->local_bytes = number_of(api, id, CL_DEVICE_LOCAL_MEM_SIZE, sizeof(cl_ulong));
	facts->max_alloc_bytes = number_of(api, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(cl_ulong));

	info->compute_units = (hjg_u32) number_of(api, id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(cl_uint));
	info->memory_bytes = number_of(api, id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(cl_ulong));
	snprintf(text, sizeof(text), "%.40s; OpenCL %d.%d, %s memory, SVM %s%s, %u sub-devices, align %u, alloc %llu MB",
			 name, major, minor, facts->unified ? "unified" : "own", svm_text[facts->svm],
			 facts->svm_atomics ? "+atomics" : "", facts->max_sub_devices, facts->align_bytes,
			 (unsigned long long) (facts->max_alloc_bytes >> 20));
	text[sizeof(info->description) - 1] = '\0';
	strcpy(info->description, text);
}

#endif							/* HJG_HAVE_OPENCL */
