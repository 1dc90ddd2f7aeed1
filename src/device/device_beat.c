/*
 * device_beat.c
 *	  The heartbeat: a counter in the arena that grows while all running operations make progress, and
 *	  one for each job.
 *
 * An operation makes progress when its engine polls.  An operation without progress for STALL_MS stops the
 * counter, and the supervisor then ends the process after hjoin_gpu.device_timeout.  Nothing beats while
 * nothing runs: the supervisor looks only when there is work.  The beater also trims the engines' memory.
 */
#include <pthread.h>

#include "device/hjg_device.h"

#define BEAT_MS 20
#define STALL_MS 200
#define LINGER_MS 500			/* keep ticking after the last operation */
#define WORKSPACE_IDLE_MS 5000

static const HjgArenaView *beat_view;
static hjg_u32 beat_busy;		/* running operations; the arena has a copy, which others can write */
static HjgBeatSource **beat_sources;
static int	beat_nsources;
static pthread_t beat_thread;
static pthread_mutex_t beat_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t beat_wake;
static bool beat_stop;
static bool beat_asleep;

/* Beat for each job whose operation makes progress; true if all do. */
static bool
all_progress(hjg_u64 now)
{
	bool		all = true;

	for (int i = 0; i < beat_nsources; i++)
	{
		HjgBeatSource *source = beat_sources[i];
		hjg_u64		progress = __atomic_load_n(&source->progress_ns, __ATOMIC_RELAXED);

		if (__atomic_load_n(&source->running, __ATOMIC_SEQ_CST) == 0)
			continue;
		if (now > progress && now - progress > (hjg_u64) STALL_MS * 1000000)
			all = false;
		else
			__atomic_fetch_add(&beat_view->reports[source->job_ix].beat, 1, __ATOMIC_RELAXED);
	}
	return all;
}

static void *
beat_main(void *arg)
{
	HjgDeviceBlock *block = beat_view->block;
	hjg_u64		last_busy_ns = 0;

	pthread_mutex_lock(&beat_lock);
	while (!beat_stop)
	{
		hjg_u64		now = hjg_now_ns();
		size_t		cached;

		if (__atomic_load_n(&beat_busy, __ATOMIC_SEQ_CST) > 0)
		{
			last_busy_ns = now;
			if (all_progress(now))
				__atomic_fetch_add(&block->beat, 1, __ATOMIC_SEQ_CST);
		}
		if (now - last_busy_ns < (hjg_u64) LINGER_MS * 1000000)
		{
			hjg_wait_ms(&beat_wake, &beat_lock, BEAT_MS);
			continue;
		}

		pthread_mutex_unlock(&beat_lock);
		cached = hjg_workspace_trim(WORKSPACE_IDLE_MS);
		__atomic_store_n(&block->workspace_bytes, hjg_workspace_bytes(), __ATOMIC_RELAXED);
		pthread_mutex_lock(&beat_lock);
		__atomic_store_n(&beat_asleep, true, __ATOMIC_SEQ_CST);
		if (!beat_stop && __atomic_load_n(&beat_busy, __ATOMIC_SEQ_CST) == 0)
		{
			if (cached > 0)
				hjg_wait_ms(&beat_wake, &beat_lock, 1000);
			else
				pthread_cond_wait(&beat_wake, &beat_lock);
		}
		__atomic_store_n(&beat_asleep, false, __ATOMIC_SEQ_CST);
	}
	pthread_mutex_unlock(&beat_lock);
	return NULL;
}

bool
hjg_beat_start(const HjgArenaView *view, HjgBeatSource **sources, int nsources)
{
	beat_view = view;
	beat_sources = sources;
	beat_nsources = nsources;
	beat_stop = false;
	hjg_wait_init(&beat_wake);
	return pthread_create(&beat_thread, NULL, beat_main, NULL) == 0;
}

static void
wake_beater(void)
{
	pthread_mutex_lock(&beat_lock);
	pthread_cond_signal(&beat_wake);
	pthread_mutex_unlock(&beat_lock);
}

void
hjg_beat_stop(void)
{
	pthread_mutex_lock(&beat_lock);
	beat_stop = true;
	pthread_cond_signal(&beat_wake);
	pthread_mutex_unlock(&beat_lock);
	pthread_join(beat_thread, NULL);
	pthread_cond_destroy(&beat_wake);
}

void
hjg_beat_enter(HjgBeatSource *source)
{
	HjgDeviceBlock *block = beat_view->block;

	hjg_beat_progress(source);
	__atomic_store_n(&source->running, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&block->beat, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&block->busy, 1, __ATOMIC_SEQ_CST);
	if (__atomic_fetch_add(&beat_busy, 1, __ATOMIC_SEQ_CST) == 0 &&
		__atomic_load_n(&beat_asleep, __ATOMIC_SEQ_CST))
		wake_beater();
}

void
hjg_beat_leave(HjgBeatSource *source)
{
	HjgDeviceBlock *block = beat_view->block;

	__atomic_store_n(&source->running, 0, __ATOMIC_SEQ_CST);
	__atomic_fetch_sub(&beat_busy, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_sub(&block->busy, 1, __ATOMIC_SEQ_CST);
}
