/*
 * service_device.c
 *	  Chooses the device of a job: the one that the settings name, if it is ready; and finds facts of devices for the planner.
 *
 * Devices are in the arena's device half, so no text there is trusted to end.
 */
#include "postgres.h"

#include "base/hjg_base.h"
#include "service/hjg_service.h"
#include "service/hjg_service_private.h"

static bool
is_ready(int device_ix)
{
	return __atomic_load_n(&hjg_arena_map.view.block->devices[device_ix].state, __ATOMIC_ACQUIRE) == HJG_DEVICE_READY;
}

/* Read a device's kind and number, which another process may change. */
static HjgDeviceId
id_of(int device_ix)
{
	HjgDeviceId id;

	hjg_words_copy(&id, &hjg_arena_map.view.block->devices[device_ix].id, sizeof(id));
	return id;
}

HjgDeviceId
hjg_service_device_id(uint32 device_ix)
{
	return device_ix < HJG_MAX_DEVICES ? id_of((int) device_ix) : (HjgDeviceId) {.number = HJG_NO_NUMBER};
}

void
hjg_service_blame(uint32 device_ix)
{
	HjgDeviceBlock *block = hjg_arena_map.view.block;
	const HjgDeviceName name = hjg_device_name(hjg_service_device_id(device_ix));
	char		failed[sizeof(block->health[0].name)];

	for (int i = 0; i < HJG_MAX_DEVICES; i++)
	{
		hjg_check_text_copy(failed, block->health[i].name, sizeof(failed));
		if (strcmp(failed, name.text) == 0)
			__atomic_store_n(&block->health[i].in_use, 1, __ATOMIC_SEQ_CST);
	}
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

/* Find the ready device of that name, or, without a number, the one of that kind with the fewest jobs; -1 if there is none. */
static int
find_device(HjgDeviceId wanted)
{
	int			least_jobs = 0;
	int			best = -1;

	for (int i = 0; i < HJG_MAX_DEVICES; i++)
	{
		const HjgDeviceId id = id_of(i);
		int			njobs;

		if (!is_ready(i) || id.kind != wanted.kind || (wanted.number != HJG_NO_NUMBER && id.number != wanted.number))
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

int
hjg_service_find_device(HjgDeviceId wanted)
{
	int			device_ix;

	if (hjg_device_asked.kind != HJG_KIND_ANY)
		return find_device(hjg_device_asked);
	device_ix = find_device(wanted);
	return device_ix >= 0 ? device_ix : find_device((HjgDeviceId) {.kind = HJG_KIND_CPU, .number = HJG_NO_NUMBER});
}

static void
describe_gpu(int device_ix, HjgGpuFacts *facts)
{
	const HjgDeviceInfo *device = &hjg_arena_map.view.block->devices[device_ix];

	facts->number = id_of(device_ix).number;
	facts->l2_bytes = (double) device->l2_bytes;
	facts->cold = device->warm == 0;
	hjg_check_text_copy(facts->description, device->description, sizeof(facts->description));
}

/* Find the ready GPU with this number, or, without a number, that with the fewest jobs; -1 if there is none. */
static int
find_gpu(int number)
{
	const HjgDeviceId wanted = {.kind = HJG_KIND_CUDA, .number = number};
	HjgReason	reason;

	return hjg_service_available(&reason) ? find_device(wanted) : -1;
}

bool
hjg_service_gpu(HjgGpuFacts *facts)
{
	const bool	any = hjg_device_asked.kind == HJG_KIND_ANY;
	const int	device_ix = any || hjg_device_asked.kind == HJG_KIND_CUDA ? find_gpu(hjg_device_asked.number) : -1;

	if (device_ix >= 0)
		describe_gpu(device_ix, facts);
	return device_ix >= 0;
}

bool
hjg_service_gpu_at(int number, HjgGpuFacts *facts)
{
	const int	device_ix = find_gpu(number);

	if (device_ix >= 0)
		describe_gpu(device_ix, facts);
	return device_ix >= 0;
}

int
hjg_service_gpus(HjgDeviceId *ids)
{
	HjgReason	reason;
	int			n = 0;

	if (!hjg_service_available(&reason))
		return 0;
	for (int i = 0; i < HJG_MAX_DEVICES; i++)
	{
		const HjgDeviceId id = id_of(i);
		const bool	asked = id.kind == hjg_device_asked.kind && id.number == hjg_device_asked.number;

		if (id.kind == HJG_KIND_CUDA && is_ready(i) && (asked || hjg_device_asked.kind == HJG_KIND_ANY))
			ids[n++] = id;
	}
	return n;
}

bool
hjg_service_coupled_at(int number, HjgCoupledFacts *facts)
{
	const HjgDeviceId wanted = {.kind = HJG_KIND_OPENCL, .number = number};
	const HjgDeviceInfo *device;
	HjgReason	reason;
	int			device_ix;

	if (!hjg_service_available(&reason) ||
		!(hjg_device_asked.kind == HJG_KIND_ANY ||
		  (hjg_device_asked.kind == HJG_KIND_OPENCL && hjg_device_asked.number == number)) ||
		(device_ix = find_device(wanted)) < 0)
		return false;
	device = &hjg_arena_map.view.block->devices[device_ix];
	facts->widths = device->warm;
	hjg_check_text_copy(facts->description, device->description, sizeof(facts->description));
	return true;
}
