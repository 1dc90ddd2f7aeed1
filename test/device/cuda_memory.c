/*
 * cuda_memory.c
 *	  Memory of the driver "cuda": none is lost, joins are admitted or refused, and run in less of it.
 */
#include <pthread.h>
#include <unistd.h>

#include "hjg_cuda_support.h"
#include "lab/hjg_cuda_paper.h"

static void
test_nothing_leaks(void)
{
	HjgCudaDevice *device = hjg_cuda_made(0);
	long		objects;
	Memory		memory;
	Case		c;

	case_create(&c, test_seed, 8, HJG_MATCH_ALL, KEYS_DUPLICATES, 3000, 2000);
	memory_init(&memory, NULL);
	join_case(&c, &memory.env, 1, 1000);
	claim(hjg_cuda_pool_trim(device->pool, 0) == 0, "no block is in use after a join");
	objects = stub != NULL ? stub->live_objects : 0;
	for (int i = 0; i < 5; i++)
		join_case(&c, &memory.env, 1, 1000);
	hjg_cuda_pool_trim(device->pool, 0);
	if (stub != NULL)
		claim(stub->live_objects == objects && stub->used_bytes == 0, "five more joins leave nothing behind");
	memory_init(&memory, NULL);
	memory.cancel_at = 3;
	claim(join_case(&c, &memory.env, 1, 1000).status == HJG_ERR_CANCELLED, "a join that is cancelled says so");
	claim(hjg_cuda_pool_trim(device->pool, 0) == 0, "no block is in use after a cancelled join");
	case_destroy(&c);
}

typedef struct Waiter
{
	HjgCudaPool *pool;
	HjgStatus	status;
	HjgCudaGrant grant;
	unsigned	wait_ms;
	pthread_t	thread;
} Waiter;

static void *
wait_for_grant(void *arg)
{
	Waiter	   *waiter = arg;

	waiter->status = hjg_cuda_admit(waiter->pool, 600, NULL, waiter->wait_ms, &waiter->grant);
	return NULL;
}

static void
test_admission(void)
{
	HjgCudaPool *pool = hjg_cuda_pool_create(1000);
	Waiter		patient = {.pool = pool, .wait_ms = 10000};
	Waiter		hasty = {.pool = pool, .wait_ms = 20};
	HjgCudaGrant grant;
	HjgCudaGrant other;
	HjgCudaPtr	ptr;

	claim(hjg_cuda_admit(pool, 1001, NULL, 1000, &grant) == HJG_ERR_MEMORY, "more than the budget is refused at once");
	claim(hjg_cuda_admit(pool, 600, NULL, 0, &grant) == HJG_OK, "what fits is granted");
	claim(hjg_cuda_admit(pool, 400, NULL, 0, &other) == HJG_OK, "what fits beside it is granted");
	hjg_cuda_dismiss(&other);
	wait_for_grant(&hasty);
	claim(hasty.status == HJG_ERR_MEMORY, "who waits in vain is refused");
	pthread_create(&patient.thread, NULL, wait_for_grant, &patient);
	usleep(50000);
	hjg_cuda_dismiss(&grant);
	pthread_join(patient.thread, NULL);
	claim(patient.status == HJG_OK, "who waits is granted when memory becomes free");
	claim(hjg_cuda_block_take(&patient.grant, 100000, &ptr) == HJG_CUDA_ERROR_OUT_OF_MEMORY,
		  "no block is larger than the grant");
	hjg_cuda_dismiss(&patient.grant);
}

/* Test a budget too small for chunks of the usual size, and one too small for any. */
static void
test_small_budget(void)
{
	Memory		memory;
	Outcome		outcome;
	HjgCudaPool *normal = hjg_cuda_made(0)->pool;
	Case		c;

	case_create(&c, test_seed, 4, HJG_MATCH_LEFT, KEYS_UNIFORM, 20000, 200000);
	memory_init(&memory, NULL);
	hjg_cuda_made(0)->pool = hjg_cuda_pool_create((size_t) 4 << 20);
	outcome = join_case(&c, &memory.env, 1, 300000);
	claim(outcome.status == HJG_OK && outcome.wrong == NULL, "smaller chunks within a small budget");
	hjg_cuda_pool_trim(hjg_cuda_made(0)->pool, 0);
	hjg_cuda_made(0)->pool = hjg_cuda_pool_create((size_t) 1 << 20);
	outcome = join_case(&c, &memory.env, 1, 300000);
	claim(outcome.status == HJG_ERR_MEMORY, "a join beyond the budget is refused");
	hjg_cuda_made(0)->pool = normal;
	case_destroy(&c);
}

/*
 * Test build sides in several passes.  With room for all pairs the device joins them; with less, it may
 * leave a join to the cpu engine, but is not wrong.
 */
static void
test_passes(void)
{
	HjgCudaPool *normal = hjg_cuda_made(0)->pool;
	const HjgCudaTuning usual = hjg_cuda_tuning;
	Memory		memory;
	Case		c;

	hjg_cuda_tuning = (HjgCudaTuning) {.most_chunk_rows = 1000, .least_chunk_rows = 100};
	hjg_cuda_made(0)->pool = hjg_cuda_pool_create(SMALL_BUDGET);
	for (int w = 0; w < 3; w++)
		for (int shape = 0; shape < KEYS_NSHAPES; shape++)
		{
			const hjg_u32 nprobe = shape == KEYS_ONE_HOT_BOTH || shape == KEYS_COLLIDING_HOT ? 40 : 3000;
			Outcome		outcome = {0};
			hjg_u32		most = 0;

			for (int mode = 0; mode <= HJG_MATCH_ANTI && outcome.wrong == NULL; mode++)
			{
				case_create(&c, test_seed + (hjg_u64) (shape * 16 + mode), widths[w], mode, shape,
							widths[w] == 16 ? 25000 : 60000, nprobe);
				{
					const hjg_u32 sizes[] = {(hjg_u32) c.nexpected + nprobe + 1000, (hjg_u32) (c.nexpected / 2) + nprobe / 2 + 70};

					for (int s = 0; s < 2 && outcome.wrong == NULL; s++)
					{
						memory_init(&memory, NULL);
						npasses = 0;
						outcome = join_case(&c, &memory.env, s + 1, sizes[s]);
						most = npasses > most ? npasses : most;
						if (outcome.status != HJG_OK && (s == 0 || outcome.status != HJG_ERR_MEMORY))
							outcome.wrong = hjg_status_text(outcome.status);
						if (outcome.wrong != NULL)
							printf("# %s: mode %s, capacity %u\n", outcome.wrong, mode_names[mode], sizes[s]);
					}
				}
				case_destroy(&c);
			}
			claim(outcome.wrong == NULL && most > 2, "%d-byte keys, %s: a build side of %u passes equals the reference", widths[w],
				  key_shape_names[shape], most);
		}
	hjg_cuda_pool_trim(hjg_cuda_made(0)->pool, 0);
	case_create(&c, test_seed, 8, HJG_MATCH_ALL, KEYS_UNIFORM, 30000, 3000);
	memory_init(&memory, NULL);
	memory.cancel_at = 12;
	claim(join_case(&c, &memory.env, 1, 10000).status == HJG_ERR_CANCELLED, "a join in passes that is cancelled says so");
	claim(hjg_cuda_pool_trim(hjg_cuda_made(0)->pool, 0) == 0, "no block is in use after it");
	case_destroy(&c);
	hjg_cuda_made(0)->pool = normal;
	hjg_cuda_tuning = usual;
}

/* Outcomes of a join of few rows with less and less memory. */
typedef struct Shrinking
{
	int			nown;			/* runs that the strategy joined */
	int			nothers;		/* that another strategy joined */
	int			nrefused;		/* that none joined */
	const char *wrong;
} Shrinking;

static void
count_run(const Case *c, Shrinking *runs)
{
	Memory		memory;
	Outcome		outcome;

	memory_init(&memory, NULL);
	ndeclined = 0;
	outcome = join_case(c, &memory.env, 1, (hjg_u32) c->nexpected + 1);
	if (outcome.wrong != NULL)
		runs->wrong = outcome.wrong;
	else if (outcome.status == HJG_ERR_MEMORY)
		runs->nrefused++;
	else if (outcome.status != HJG_OK)
		runs->wrong = hjg_status_text(outcome.status);
	else if (ndeclined > 0)
		runs->nothers++;
	else
		runs->nown++;
	ndeclined = 0;
}

static void
count_run_within(const Case *c, size_t budget, Shrinking *runs)
{
	HjgCudaPool *normal = hjg_cuda_made(0)->pool;

	hjg_cuda_made(0)->pool = hjg_cuda_pool_create(budget);
	count_run(c, runs);
	hjg_cuda_pool_trim(hjg_cuda_made(0)->pool, 0);
	hjg_cuda_made(0)->pool = normal;
}

/*
 * Find a budget, in bytes, in which the strategy itself joins: some buffers grow with the device's
 * processors.
 */
static size_t
enough_for(const Case *c)
{
	size_t		budget = (size_t) 64 << 20;
	Shrinking	runs = {0};

	for (count_run_within(c, budget, &runs); runs.nown == 0 && budget < (size_t) 8 << 30; count_run_within(c, budget, &runs))
		budget *= 2;
	return budget;
}

/* Test budgets below the strategy's need, then below every join's. */
static void
test_declined(void)
{
	const HjgCudaTuning usual = hjg_cuda_tuning;
	Case		c;

	hjg_cuda_tuning = (HjgCudaTuning) {.most_chunk_rows = 1000, .least_chunk_rows = 1000};
	case_create(&c, test_seed, 8, HJG_MATCH_ALL, KEYS_UNIQUE, 4000, 1500);
	for (strategy = HJG_LAB_NOP_CHAIN; strategy <= HJG_LAB_UMJ_PF; strategy++)
	{
		Shrinking	runs = {0};

		for (size_t budget = enough_for(&c); budget >= (size_t) 64 << 10 && runs.wrong == NULL; budget -= budget / 8)
			count_run_within(&c, budget, &runs);
		claim(runs.wrong == NULL && runs.nown > 0 && runs.nothers > 0 && runs.nrefused > 0,
			  "%s with less and less memory: %d runs are its own, then %d another strategy's, %d are refused%s%s",
			  name_of(strategy), runs.nown, runs.nothers, runs.nrefused, runs.wrong != NULL ? ", " : "",
			  runs.wrong != NULL ? runs.wrong : "");
	}
	strategy = HJG_CPU_AUTO;
	case_destroy(&c);
	hjg_cuda_tuning = usual;
}

void
test_memory(void)
{
	test_nothing_leaks();
	test_admission();
	test_small_budget();
	test_declined();
	test_passes();
}
