/*
 * service_device.c
 *	  Which device a job is for: what the settings name, as far as it is there and ready, and
 *	  what the planner has to know of a GPU.
 *
 * Devices stand in the arena's device half: no text there is trusted to end.
 */
#include "postgres.h"

#include "base/hjg_base.h"
#include "service/hjg_service.h"
#include "service/hjg_service_private.h"

static bool
any_device(void)
{
	return hjg_device == NULL || hjg_device[0] == '\0' || pg_strcasecmp(hjg_device, "auto") == 0;
}

static bool
is_ready(int device_ix)
{
	return __atomic_load_n(&hjg_arena_map.view.block->devices[device_ix].state, __ATOMIC_ACQUIRE) == HJG_DEVICE_READY;
}

static bool
is_text(const char *chars, Size room, const char *text)
{
	char		copy[64];

	Assert(room <= sizeof(copy));
	hjg_check_text_copy(copy, chars, room);
	return pg_strcasecmp(copy, text) == 0;
}

bool
hjg_service_is_gpu(int device_ix)
{
	const HjgDeviceInfo *device = &hjg_arena_map.view.block->devices[device_ix];

	return is_text(device->kind, sizeof(device->kind), "cuda");
}

void
hjg_service_blame(uint32 device_ix)
{
	HjgDeviceBlock *block = hjg_arena_map.view.block;
	char		name[sizeof(block->devices[0].name)];

	if (device_ix >= HJG_MAX_DEVICES)
		return;
	hjg_check_text_copy(name, block->devices[device_ix].name, sizeof(name));
	for (int i = 0; i < HJG_MAX_DEVICES; i++)
		if (name[0] != '\0' && is_text(block->health[i].name, sizeof(block->health[i].name), name))
			__atomic_store_n(&block->health[i].in_use, 1, __ATOMIC_SEQ_CST);
}

static int
jobs_on(int device_ix)
{
	int			n = 0;

	for (int i = 0; i < HJG_MAX_JOBS; i++)
		n += HJG_WORD_STATE(__atomic_load_n(&hjg_arena_map.jobs[i].word, __ATOMIC_RELAXED)) == HJG_JOB_LEASED &&
			__atomic_load_n(&hjg_arena_map.jobs[i].device_ix, __ATOMIC_RELAXED) == (uint32) device_ix;
	return n;
}

/* The ready GPU with the fewest jobs; -1 when there is none. */
static int
find_gpu(void)
{
	int			least_jobs = 0;
	int			best = -1;

	for (int i = 0; i < HJG_MAX_DEVICES; i++)
	{
		int			njobs;

		if (!is_ready(i) || !hjg_service_is_gpu(i))
			continue;
		njobs = jobs_on(i);
		if (best < 0 || njobs < least_jobs)
		{
			best = i;
			least_jobs = njobs;
		}
	}
	return best;
}

/* The ready device opencl:number; -1 when there is none. */
static int
find_coupled(int number)
{
	char		name[32];

	snprintf(name, sizeof(name), "opencl:%d", number);
	for (int i = 0; i < HJG_MAX_DEVICES; i++)
	{
		const HjgDeviceInfo *device = &hjg_arena_map.view.block->devices[i];

		if (is_ready(i) && is_text(device->name, sizeof(device->name), name))
			return i;
	}
	return -1;
}

int
hjg_service_find_device(bool gpu, int coupled)
{
	const HjgDeviceInfo *devices = hjg_arena_map.view.block->devices;
	const bool	any = any_device();
	int			device_ix = any && gpu ? find_gpu() : any && coupled > 0 ? find_coupled(coupled - 1) : -1;

	for (int i = 0; i < HJG_MAX_DEVICES && device_ix < 0; i++)
		if (is_ready(i) && (any || is_text(devices[i].name, sizeof(devices[i].name), hjg_device)))
			device_ix = i;
	return device_ix;
}

/* False for what is no GPU. */
static bool
describe_gpu(int device_ix, HjgGpuFacts *facts)
{
	const HjgDeviceInfo *device = &hjg_arena_map.view.block->devices[device_ix];
	char		name[sizeof(device->name)];

	hjg_check_text_copy(name, device->name, sizeof(name));
	if (!hjg_service_is_gpu(device_ix) || sscanf(name, "cuda:%d", &facts->number) != 1)
		return false;
	facts->l2_bytes = (double) device->l2_bytes;
	facts->cold = device->warm == 0;
	hjg_check_text_copy(facts->description, device->description, sizeof(facts->description));
	return true;
}

bool
hjg_service_gpu(HjgGpuFacts *facts)
{
	HjgReason	reason;
	int			device_ix;

	if (!hjg_service_available(&reason))
		return false;
	device_ix = any_device() ? find_gpu() : hjg_service_find_device(true, 0);
	return device_ix >= 0 && describe_gpu(device_ix, facts);
}

bool
hjg_service_gpu_at(int number, HjgGpuFacts *facts)
{
	HjgReason	reason;

	if (!hjg_service_available(&reason))
		return false;
	for (int i = 0; i < HJG_MAX_DEVICES; i++)
		if (is_ready(i) && describe_gpu(i, facts) && facts->number == number)
			return true;
	return false;
}

bool
hjg_service_coupled_at(int number, HjgCoupledFacts *facts)
{
	const HjgDeviceInfo *device;
	HjgReason	reason;
	int			device_ix;
	char		name[32];

	snprintf(name, sizeof(name), "opencl:%d", number);
	if (!hjg_service_available(&reason) || !(any_device() || pg_strcasecmp(hjg_device, name) == 0) ||
		(device_ix = find_coupled(number)) < 0)
		return false;
	device = &hjg_arena_map.view.block->devices[device_ix];
	facts->widths = device->warm;
	hjg_check_text_copy(facts->description, device->description, sizeof(facts->description));
	return true;
}
