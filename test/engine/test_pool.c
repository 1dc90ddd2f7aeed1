/*
 * test_pool.c
 *	  The thread pool: every piece once, workers distinct, several callers.
 */
#include <pthread.h>
#include <time.h>

#include "hjg_test_engine.h"

#define NPIECES 1000

typedef struct Tally
{
	int			runs[NPIECES];	/* atomic */
	int			busy[8];		/* atomic; per worker */
	int			clashes;		/* atomic */
	int			nworkers;
} Tally;

static void
tally_piece(void *arg, int piece, int worker)
{
	Tally	   *tally = arg;

	if (worker < 0 || worker >= tally->nworkers || __atomic_add_fetch(&tally->busy[worker], 1, __ATOMIC_RELAXED) != 1)
		__atomic_fetch_add(&tally->clashes, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&tally->runs[piece], 1, __ATOMIC_RELAXED);
	if (piece % 64 == 0)
	{
		for (volatile int i = 0; i < 10000; i++)
			;
	}
	__atomic_sub_fetch(&tally->busy[worker], 1, __ATOMIC_RELAXED);
}

static bool
tally_run(HjgPool *pool)
{
	Tally	   *tally = calloc(1, sizeof(Tally));
	bool		good;

	tally->nworkers = hjg_pool_nthreads(pool);
	hjg_pool_run(pool, NPIECES, tally_piece, tally);
	good = tally->clashes == 0;
	for (int i = 0; i < NPIECES; i++)
		good = good && tally->runs[i] == 1;
	free(tally);
	return good;
}

/* Test pauses in which helpers fall asleep unless they are held awake, and in which held ones do at last. */
static bool
paused_runs(HjgPool *pool)
{
	static const long pauses_ns[] = {0, 50000, 500000, 3000000};
	bool		good = true;

	hjg_pool_hold(pool, 2);
	for (int i = 0; i < 12; i++)
	{
		const struct timespec pause = {0, pauses_ns[i % 4]};

		nanosleep(&pause, NULL);
		good = tally_run(pool) && good;
	}
	hjg_pool_hold(pool, -2);
	return tally_run(pool) && good;
}

static void *
caller_main(void *arg)
{
	bool		good = true;

	for (int i = 0; i < (short_run ? 5 : 100); i++)
		good = tally_run(arg) && good;
	return good ? arg : NULL;
}

typedef struct JoinCaller
{
	HjgPool    *pool;
	hjg_u64		seed;
	const char *wrong;
} JoinCaller;

static void *
join_caller_main(void *arg)
{
	JoinCaller *caller = arg;

	for (int i = 0; i < (short_run ? 2 : 20) && caller->wrong == NULL; i++)
	{
		Case		c;
		Memory		memory;

		case_create(&c, caller->seed + (hjg_u64) i, 8, HJG_MATCH_ALL, KEYS_DUPLICATES, 3000, 3000);
		caller->wrong = run_case(&c, caller->pool, HJG_CPU_AUTO, 50, 1000, &memory);
		case_destroy(&c);
	}
	return NULL;
}

void
test_pool(void)
{
	HjgPool    *pool = hjg_pool_create(4);
	pthread_t	threads[4];
	JoinCaller	callers[4];
	bool		good = true;

	claim(hjg_pool_nthreads(NULL) == 1 && tally_run(NULL), "no pool: all pieces run on the caller");
	claim(hjg_pool_create(0) == NULL, "a pool of no threads is refused");
	if (!claim(pool != NULL && hjg_pool_nthreads(pool) == 4, "a pool of four counts its caller"))
		return;
	claim(tally_run(pool), "each piece runs once, workers are distinct at any time");
	claim(paused_runs(pool), "and after pauses, with helpers that are held awake and without");
	hjg_pool_hold(NULL, 1);
	hjg_pool_run(pool, 0, tally_piece, NULL);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, caller_main, pool);
	for (int i = 0; i < 4; i++)
	{
		void	   *result;

		pthread_join(threads[i], &result);
		good = good && result != NULL;
	}
	claim(good, "four callers share one pool");

	tune_small();
	good = true;
	for (int i = 0; i < 4; i++)
	{
		callers[i] = (JoinCaller) {.pool = pool, .seed = test_seed + 1000u * (hjg_u64) i};
		pthread_create(&threads[i], NULL, join_caller_main, &callers[i]);
	}
	for (int i = 0; i < 4; i++)
	{
		pthread_join(threads[i], NULL);
		good = good && callers[i].wrong == NULL;
	}
	tune_default();
	claim(good, "four joins share one pool");
	hjg_pool_destroy(pool);

	for (int i = 0; i < 50 && good; i++)
	{
		pool = hjg_pool_create(1 + i % 5);
		good = pool != NULL;
		hjg_pool_destroy(pool);
	}
	claim(good, "pools come and go without work");
}
