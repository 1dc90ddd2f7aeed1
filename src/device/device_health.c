/*
 * device_health.c
 *	  Failures of devices, remembered beyond the process that met them.
 *
 * A driver's error that makes its context unusable ends the device process, so its memory lies in the
 * device half.  An entry also counts the operations that run on the device: if a new process finds it
 * above zero, the previous one died in the driver, or was killed because it hung.  A SIGKILL from
 * elsewhere looks the same and counts as one failure too, which alone does not make a device rest.  A
 * process that was told to end has not failed: it notes so itself (hjg_health_excuse()), or the next
 * supervisor does if the process ended with its supervisor.  When the server ends, so does the arena.
 *
 * After FAILURES_ALLOWED failures with less than CALM_NS between them a device rests, for a time that
 * doubles with every further failure.  Joins that ask for it fall back meanwhile, and hjoin_gpu_devices
 * says why.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/hjg_device.h"

#define FAILURES_ALLOWED 3
#define CALM_NS (10 * 60 * 1000000000ull)
#define FIRST_REST_NS (30 * 1000000000ull)
#define LONGEST_REST_NS (3600 * 1000000000ull)

#define EXIT_DEVICE 4			/* adds to those of device_main.c */

static HjgDeviceHealth own_table[HJG_MAX_DEVICES];	/* of a tool without an arena */
static HjgDeviceHealth *health_table = own_table;
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;	/* runners make entries */

/* Find or make the device's entry; NULL when the table is full. */
static HjgDeviceHealth *
entry_of(const char *device)
{
	HjgDeviceHealth *entry = NULL;

	pthread_mutex_lock(&names_lock);
	for (int i = 0; i < HJG_MAX_DEVICES && entry == NULL; i++)
	{
		if (health_table[i].name[0] == '\0')
			snprintf(health_table[i].name, sizeof(health_table[i].name), "%s", device);
		if (strncmp(health_table[i].name, device, sizeof(health_table[i].name)) == 0)
			entry = &health_table[i];
	}
	pthread_mutex_unlock(&names_lock);
	return entry;
}

static void
note_failure(HjgDeviceHealth *entry, const char *text, hjg_u32 least_failures)
{
	const hjg_u64 now = hjg_now_ns();
	hjg_u64		rest = FIRST_REST_NS;
	hjg_u32		failures = __atomic_load_n(&entry->failures, __ATOMIC_RELAXED);

	if (now - __atomic_load_n(&entry->last_ns, __ATOMIC_RELAXED) > CALM_NS)
		failures = 0;
	failures = failures + 1 > least_failures ? failures + 1 : least_failures;
	snprintf(entry->text, sizeof(entry->text), "%s", text);
	__atomic_store_n(&entry->failures, failures, __ATOMIC_RELAXED);
	__atomic_store_n(&entry->last_ns, now, __ATOMIC_RELAXED);
	if (failures < FAILURES_ALLOWED)
		return;
	for (hjg_u32 i = FAILURES_ALLOWED; i < failures && rest < LONGEST_REST_NS; i++)
		rest *= 2;
	__atomic_store_n(&entry->rest_until_ns, now + rest, __ATOMIC_SEQ_CST);
}

/*
 * Compute how long the device must still rest, in ns; 0 for a time too long to be written by
 * note_failure().
 */
static hjg_u64
rest_of(const HjgDeviceHealth *entry)
{
	const hjg_u64 until = __atomic_load_n(&entry->rest_until_ns, __ATOMIC_SEQ_CST);
	const hjg_u64 now = hjg_now_ns();

	return until > now && until - now <= 2 * LONGEST_REST_NS ? until - now : 0;
}

void
hjg_health_open(HjgDeviceBlock *block)
{
	health_table = block != NULL ? block->health : own_table;
	for (int i = 0; i < HJG_MAX_DEVICES; i++)
	{
		const hjg_u32 in_use = __atomic_exchange_n(&health_table[i].in_use, 0, __ATOMIC_SEQ_CST);

		if (in_use > 0 && (in_use & HJG_HEALTH_EXCUSED) == 0)
			note_failure(&health_table[i], "the device process ended while it used the device", 1);
	}
}

void
hjg_health_excuse(void)
{
	/* sets a bit beside the count, which other threads still change */
	for (int i = 0; i < HJG_MAX_DEVICES; i++)
		__atomic_fetch_or(&health_table[i].in_use, HJG_HEALTH_EXCUSED, __ATOMIC_SEQ_CST);
}

void
hjg_health_enter(const char *device)
{
	HjgDeviceHealth *entry = entry_of(device);

	if (entry != NULL)
		__atomic_fetch_add(&entry->in_use, 1, __ATOMIC_SEQ_CST);
}

void
hjg_health_leave(const char *device)
{
	HjgDeviceHealth *entry = entry_of(device);

	if (entry != NULL)
		__atomic_fetch_sub(&entry->in_use, 1, __ATOMIC_SEQ_CST);
}

void
hjg_health_note(const char *device, const char *text)
{
	HjgDeviceHealth *entry = entry_of(device);

	fprintf(stderr, "hjoin_gpu_device: %s: %s\n", device, text);
	if (entry != NULL)
		note_failure(entry, text, 1);
}

void
hjg_health_rest(const char *device, const char *text)
{
	HjgDeviceHealth *entry = entry_of(device);

	if (entry == NULL || rest_of(entry) > 0)
		return;
	fprintf(stderr, "hjoin_gpu_device: %s: %s\n", device, text);
	note_failure(entry, text, FAILURES_ALLOWED);
}

void
hjg_health_fatal(const char *device, const char *text)
{
	hjg_health_note(device, text);
	/* the failure is noted: the next process must not count it again, nor other devices */
	hjg_health_excuse();
	_exit(EXIT_DEVICE);
}

bool
hjg_health_resting(const char *device, char *reason, size_t room)
{
	const HjgDeviceHealth *entry = entry_of(device);
	const hjg_u64 rest = entry != NULL ? rest_of(entry) : 0;

	if (rest == 0)
		return false;
	snprintf(reason, room, "left alone for %llu s after %u failures: %.80s",
			 (unsigned long long) (rest / 1000000000 + 1), entry->failures, entry->text);
	return true;
}
