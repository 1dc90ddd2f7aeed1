/*
 * calibrate_crowding.c
 *	  hjoin_gpu_calibrate(): how much longer work takes while other processes do the same.
 *
 * Parallel workers of the calling process measure: one alone, then two at once, four and eight, as far as there are processors and free workers. Each
 * time they are new processes, as those of a query are. They do each kind of work for the same rows, each with memory of its own, and begin together.
 * The calling process waits. Without any worker nothing is known: processes are then expected to cost one another nothing.
 */
#include "postgres.h"

#include <math.h>
#include <time.h>

#include "access/parallel.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "calibrate/hjg_calibrate.h"
#include "model/hjg_model.h"
#include "planner/hjg_planner.h"

/* Most processes at once: 2^3. */
#define MOST_LOG 3
#define MOST_PROCESSES (1 << MOST_LOG)

#define ROUNDS 3
#define NONE PG_UINT32_MAX

/* Bytes of pages that each process reads, of HJG_CALIBRATE_BYTES that all of them have together, however few they are. */
#define READ_BYTES (16 * 1024 * 1024)

/* Memory that each process maps. */
#define MAPPED_BYTES (16 * 1024 * 1024)

/* Readings of pages that stay in a cache. */
#define CACHED_READINGS 32

#define CROWD_KEY UINT64CONST(0x486a6701)

typedef struct CrowdShared
{
	pg_atomic_uint32 nprocesses;	/* 0: not all have started yet; NONE: they have nothing to do */
	pg_atomic_uint32 arrived[ROUNDS * HJG_NWORKS];	/* at the start of each piece of work */
	double		ns[MOST_PROCESSES][ROUNDS][HJG_NWORKS];
	double		busy[MOST_PROCESSES];	/* share of the time for which the process had a processor */
} CrowdShared;

PGDLLEXPORT void hjg_crowd_main(dsm_segment *segment, shm_toc *toc);

/* ---------- in a worker ---------- */

/* Wait for the others before a piece of work. There are no more processes than processors. */
static void
begin_together(CrowdShared *shared, int piece)
{
	const uint32 nprocesses = pg_atomic_read_u32(&shared->nprocesses);

	pg_atomic_fetch_add_u32(&shared->arrived[piece], 1);
	while (pg_atomic_read_u32(&shared->arrived[piece]) < nprocesses)
		CHECK_FOR_INTERRUPTS();
}

static double
time_work(CrowdShared *shared, int piece, HjgWork work, const HjgScanSample *sample)
{
	double		build_ns;
	double		probe_ns;
	uint64		start;

	if (work == HJG_WORK_PAGES)
		hjg_calibrate_sample_evict(sample, 0, READ_BYTES / BLCKSZ);
	begin_together(shared, piece);
	start = hjg_now_ns();
	switch (work)
	{
		case HJG_WORK_PAGES:
			hjg_calibrate_sample_read(sample, READ_BYTES / BLCKSZ, false);
			break;
		case HJG_WORK_CACHED:
			for (int i = 0; i < CACHED_READINGS; i++)
				hjg_calibrate_sample_read(sample, 0, true);
			break;
		case HJG_WORK_MAPPING:
			return hjg_calibrate_mapping_ns(MAPPED_BYTES);
		case HJG_WORK_TABLES:
			hjg_calibrate_engine(CurrentMemoryContext, &build_ns, &probe_ns);
			return build_ns + probe_ns;
		case HJG_NWORKS:
			break;
	}
	return hjg_now_ns() - start;
}

/* The worker's main function. */
void
hjg_crowd_main(dsm_segment *segment, shm_toc *toc)
{
	CrowdShared *shared = shm_toc_lookup(toc, CROWD_KEY, false);
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "hjoin_gpu calibration", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	const int	number = ParallelWorkerNumber;
	int			piece = 0;
	uint64		start;
	double		start_cpu;

	while (pg_atomic_read_u32(&shared->nprocesses) == 0)
	{
		CHECK_FOR_INTERRUPTS();
		pg_usleep(1000);
	}
	start = hjg_now_ns();
	start_cpu = clock();
	if (pg_atomic_read_u32(&shared->nprocesses) == NONE)
		return;
	for (int round = 0; round < ROUNDS; round++)
	{
		const HjgScanSample *sample = hjg_calibrate_sample(HJG_CALIBRATE_BYTES / BLCKSZ / pg_atomic_read_u32(&shared->nprocesses));

		shared->ns[number][round][HJG_WORK_PAGES] = time_work(shared, piece++, HJG_WORK_PAGES, sample);
		shared->ns[number][round][HJG_WORK_CACHED] = time_work(shared, piece++, HJG_WORK_CACHED, sample);
		MemoryContextReset(context);
		shared->ns[number][round][HJG_WORK_MAPPING] = time_work(shared, piece++, HJG_WORK_MAPPING, NULL);
		shared->ns[number][round][HJG_WORK_TABLES] = time_work(shared, piece++, HJG_WORK_TABLES, NULL);
		MemoryContextReset(context);
	}
	shared->busy[number] = (clock() - start_cpu) / CLOCKS_PER_SEC / ((hjg_now_ns() - start) / 1e9);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/* ---------- in the calling process ---------- */

/* Compute each kind's time: the mean of the processes, in the least of the rounds, because other activity of the machine only adds time. */
static void
find_times(const CrowdShared *shared, int nprocesses, double times[HJG_NWORKS])
{
	for (int work = 0; work < HJG_NWORKS; work++)
	{
		times[work] = INFINITY;
		for (int round = 0; round < ROUNDS; round++)
		{
			double		mean = 0;

			for (int i = 0; i < nprocesses; i++)
				mean += shared->ns[i][round][work] / nprocesses;
			times[work] = Min(times[work], mean);
		}
	}
}

/*
 * Measure so many processes at once, or fewer; returns how many there were, and lowers *busy to the least share that one had of a processor.
 * times NULL: they do nothing.
 */
static int
measure_processes(int nprocesses, double times[HJG_NWORKS], double *busy)
{
	ParallelContext *context;
	CrowdShared *shared;
	int			nlaunched;

	EnterParallelMode();
	context = CreateParallelContext("hjoin_gpu", "hjg_crowd_main", nprocesses);
	shm_toc_estimate_chunk(&context->estimator, sizeof(CrowdShared));
	shm_toc_estimate_keys(&context->estimator, 1);
	InitializeParallelDSM(context);
	shared = shm_toc_allocate(context->toc, sizeof(CrowdShared));
	memset(shared, 0, sizeof(CrowdShared));
	shm_toc_insert(context->toc, CROWD_KEY, shared);
	LaunchParallelWorkers(context);
	nlaunched = context->nworkers_launched;
	if (nlaunched > 0)
	{
		WaitForParallelWorkersToAttach(context);
		pg_atomic_write_u32(&shared->nprocesses, times != NULL ? nlaunched : NONE);
		WaitForParallelWorkersToFinish(context);
	}
	if (nlaunched > 0 && times != NULL)
		find_times(shared, nlaunched, times);
	for (int i = 0; i < nlaunched && times != NULL; i++)
		*busy = Min(*busy, shared->busy[i]);
	DestroyParallelContext(context);
	ExitParallelMode();
	return nlaunched;
}

/* Measure how long a process takes to start and end, of as many as a query may have; 0: there is none. */
static double
measure_launch_ns(void)
{
	double		least_ns = INFINITY;

	for (int round = 0; round < ROUNDS; round++)
	{
		const uint64 start = hjg_now_ns();
		const int	n = measure_processes(Min(hjg_planner_processors(), MOST_PROCESSES), NULL, NULL);
		const double took_ns = hjg_now_ns() - start;

		if (n > 0)
			least_ns = Min(least_ns, took_ns / n);
	}
	return isinf(least_ns) ? 0 : least_ns;
}

double
hjg_calibrate_crowding(HjgUnitCosts *costs)
{
	double		numbers[MOST_LOG + 1];
	double		times[MOST_LOG + 1][HJG_NWORKS];
	double		launch_ns;
	double		busy = 1;
	int			n = 0;

	for (int wanted = 1; wanted <= Min(hjg_planner_processors(), MOST_PROCESSES); wanted *= 2)
	{
		const int	nprocesses = measure_processes(wanted, times[n], &busy);

		if (nprocesses == 0 || (n > 0 && nprocesses == numbers[n - 1]))
			break;
		numbers[n++] = nprocesses;
	}
	launch_ns = measure_launch_ns();
	if (launch_ns > 0)
		costs->launch_ns = launch_ns;
	for (int work = 0; work < HJG_NWORKS; work++)
	{
		double		of_work[MOST_LOG + 1];

		for (int i = 0; i < n; i++)
			of_work[i] = times[i][work];
		costs->crowding[work] = hjg_model_crowding_of(numbers, of_work, n);
	}
	return busy;
}
