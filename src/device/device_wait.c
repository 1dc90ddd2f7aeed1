/*
 * device_wait.c
 *	  Waiting for a condition with a timeout, independent of the wall clock.
 */
#include <time.h>

#include "device/hjg_device.h"

void
hjg_wait_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

void
hjg_wait_ms(pthread_cond_t *cond, pthread_mutex_t *lock, unsigned ms)
{
	const hjg_u64 until = hjg_now_ns() + (hjg_u64) ms * 1000000;
	const struct timespec ts = {(time_t) (until / 1000000000), (long) (until % 1000000000)};

	pthread_cond_timedwait(cond, lock, &ts);
}
