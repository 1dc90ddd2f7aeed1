/*
 * device_drivers.c
 *	  The table of drivers, and the watcher.
 *
 * A new driver is one more HjgDriver in the table.  It loads its libraries in list() with dlopen, and
 * HjgDeviceInfo.reason says why a device that it found cannot be used.  Starting a driver may take
 * seconds, and a device may appear at any time.  So a separate thread, the watcher, lists such drivers
 * repeatedly, while the process serves with the devices that it has.
 */
#include <pthread.h>
#include <string.h>

#include "device/hjg_cuda_join.h"
#include "device/hjg_device.h"

#define WATCH_MOST_MS 60000
#define PUBLISH_MS 1000

/* The cpu engine comes first: it is device 0. */
static const HjgDriver *const drivers[] = {
	&hjg_cpu_driver,
	&hjg_cuda_driver,
	&hjg_opencl_driver,
};

#define NDRIVERS (sizeof(drivers) / sizeof(drivers[0]))

/* ---- the table of devices ---- */

/*
 * The devices as the drivers listed them.  The arena has a copy, to which a wild driver may write: one
 * changed word there would take a device away from all users, so the copy is restored repeatedly.
 */
static HjgDeviceInfo listed_devices[HJG_MAX_DEVICES];

static void
list_driver(const HjgDriver *driver, HjgDeviceInfo *infos)
{
	const int	n = driver->list(infos, driver->room);

	for (int i = 0; i < driver->room; i++)
	{
		if (i >= n)
			memset(&infos[i], 0, sizeof(infos[i]));
		else
			infos[i].id.kind = driver->kind;
	}
}

/* Copy the list to the arena.  Readers check the state first, and treat texts as changing. */
static void
publish_devices(HjgDeviceInfo *entries)
{
	for (int i = 0; i < HJG_MAX_DEVICES; i++)
	{
		HjgDeviceInfo *entry = &entries[i];
		const HjgDeviceInfo *info = &listed_devices[i];

		if (memcmp(entry, info, sizeof(*info)) == 0)
			continue;
		if (memcmp(&entry->id, &info->id, sizeof(entry->id)) != 0)
			__atomic_store_n(&entry->state, HJG_DEVICE_ABSENT, __ATOMIC_SEQ_CST);
		memcpy((char *) entry + sizeof(entry->state), (const char *) info + sizeof(entry->state),
			   sizeof(*entry) - sizeof(entry->state));
		__atomic_store_n(&entry->state, info->state, __ATOMIC_RELEASE);
	}
}

void
hjg_drivers_open(HjgDeviceInfo *devices, bool all)
{
	HjgDeviceInfo *infos = listed_devices;

	memset(listed_devices, 0, sizeof(listed_devices));
	for (size_t d = 0; d < NDRIVERS; infos += drivers[d]->room, d++)
		if (all || drivers[d]->tend == NULL)
			list_driver(drivers[d], infos);
	publish_devices(devices);
}

const HjgDriver *
hjg_driver_of(int device_ix, int *number)
{
	for (size_t d = 0; d < NDRIVERS; device_ix -= drivers[d]->room, d++)
		if (device_ix >= 0 && device_ix < drivers[d]->room)
		{
			*number = device_ix;
			return drivers[d];
		}
	return NULL;
}

/* ---- the watcher ---- */

static pthread_t watcher_thread;
static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t watch_wake;
static bool watch_stop;
static bool watcher_runs;

static void *
watch_main(void *arg)
{
	hjg_u64		list_ns = 0;	/* time of the next listing */

	pthread_mutex_lock(&watch_lock);
	while (!watch_stop)
	{
		HjgDeviceInfo *infos = listed_devices;

		pthread_mutex_unlock(&watch_lock);
		if (hjg_now_ns() >= list_ns)
		{
			unsigned	next_ms = WATCH_MOST_MS;

			for (size_t d = 0; d < NDRIVERS; infos += drivers[d]->room, d++)
			{
				unsigned	ms;

				if (drivers[d]->tend == NULL)
					continue;
				list_driver(drivers[d], infos);
				publish_devices(arg);
				ms = drivers[d]->tend();
				next_ms = ms < next_ms ? ms : next_ms;
			}
			list_ns = hjg_now_ns() + (hjg_u64) next_ms * 1000000;
		}
		publish_devices(arg);
		pthread_mutex_lock(&watch_lock);
		if (!watch_stop)
			hjg_wait_ms(&watch_wake, &watch_lock, PUBLISH_MS);
	}
	pthread_mutex_unlock(&watch_lock);
	return NULL;
}

bool
hjg_drivers_watch(HjgDeviceInfo *devices)
{
	watch_stop = false;
	hjg_wait_init(&watch_wake);
	watcher_runs = pthread_create(&watcher_thread, NULL, watch_main, devices) == 0;
	return watcher_runs;
}

void
hjg_drivers_unwatch(void)
{
	if (!watcher_runs)
		return;
	pthread_mutex_lock(&watch_lock);
	watch_stop = true;
	pthread_cond_signal(&watch_wake);
	pthread_mutex_unlock(&watch_lock);
	pthread_join(watcher_thread, NULL);
	pthread_cond_destroy(&watch_wake);
	watcher_runs = false;
}
