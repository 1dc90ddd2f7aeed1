/*
 * service_test.c
 *	  hjoin_gpu_self_test(): a join of made-up keys through the real service.
 *
 * For administrators who check the device process, and for tests. Build row i has the key i / 2; the keys of probe rows run
 * from 0 to the number of build rows, repeatedly. So half of the probe rows have two matches, and the number of pairs is
 * known.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"

#include "base/hjg_base.h"
#include "service/hjg_service.h"

PG_FUNCTION_INFO_V1(hjoin_gpu_self_test);

#define COPIES 2
#define SLAB_ROWS (HJG_SLAB_BYTES / sizeof(uint32))
#define BATCH_ROWS (1024 * 1024)
#define MAX_IN_FLIGHT 3

/* Raise a reason as an error, as hjoin_gpu.on_fallback = error would. */
static void
raise_reason(HjgReason reason)
{
	ereport(ERROR,
			(errcode(hjg_reasons[reason].sqlstate),
			 errmsg("self-test of hjoin_gpu failed: %s", hjg_reasons[reason].text),
			 errhint("See the views hjoin_gpu_devices and hjoin_gpu_stat, and the server log.")));
}

/* Lease a slab and write the keys (first_row + i) / divisor modulo modulus to it. */
static uint32
fill_test_slab(HjgJob *job, uint64 first_row, uint32 nrows, uint32 divisor, uint32 modulus)
{
	HjgReason	reason;
	uint32		slab_ix;
	uint32	   *keys = hjg_job_slab(job, &slab_ix, &reason);

	if (keys == NULL)
		raise_reason(reason);
	for (uint32 i = 0; i < nrows; i++)
		keys[i] = (uint32) ((first_row + i) / divisor % modulus);
	CHECK_FOR_INTERRUPTS();
	return slab_ix;
}

/* Submit a batch of probe rows; returns its number. */
static int
submit_batch(HjgJob *job, uint64 first_row, uint32 nrows, uint32 modulus)
{
	HjgReason	reason;
	int			batch = hjg_job_batch_open(job, nrows, &reason);

	if (batch < 0)
		raise_reason(reason == HJG_REASON_NONE ? HJG_REASON_NO_SLOT : reason);
	for (uint32 row = 0; row < nrows; row += SLAB_ROWS)
	{
		uint32		n = Min(nrows - row, SLAB_ROWS);

		hjg_job_batch_add(job, batch, fill_test_slab(job, first_row + row, n, 1, modulus), n, false);
	}
	hjg_job_batch_submit(job, batch);
	return batch;
}

/* Run all rounds of a batch; returns its pairs. */
static uint64
drain_batch(HjgJob *job, int batch)
{
	uint64		npairs = 0;

	for (;;)
	{
		HjgBatchResult result;
		HjgReason	reason = hjg_job_batch_wait(job, batch, NULL, &result);

		if (reason != HJG_REASON_NONE)
			raise_reason(reason);
		npairs += result.npairs;
		if (result.finished)
			break;
		hjg_job_batch_submit(job, batch);
	}
	hjg_job_batch_close(job, batch);
	return npairs;
}

Datum
hjoin_gpu_self_test(PG_FUNCTION_ARGS)
{
	int64		build_rows = PG_GETARG_INT64(0);
	int64		probe_rows = PG_GETARG_INT64(1);
	HjgJoinSpec spec = {.key_width = HJG_KEY_WIDTH_4, .mode = HJG_MATCH_ALL};
	HjgReason	reason;
	HjgJob	   *job;
	int			in_flight[MAX_IN_FLIGHT];
	int			nin_flight = 0;
	uint32		modulus;
	uint64		npairs = 0;

	if (build_rows < 0 || build_rows > HJG_MAX_BUILD_ROWS / 2 || probe_rows < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("number of rows is out of range")));
	modulus = (uint32) Max(build_rows, 1);

	job = hjg_job_lease(&spec, (HjgDeviceId) {.kind = HJG_KIND_CPU, .number = HJG_NO_NUMBER}, &reason);
	if (job == NULL)
		raise_reason(reason);
	for (int64 row = 0; row < build_rows; row += SLAB_ROWS)
	{
		uint32		n = (uint32) Min(build_rows - row, (int64) SLAB_ROWS);

		hjg_job_build_add(job, fill_test_slab(job, (uint64) row, n, COPIES, modulus), n, (uint32) row, false);
	}
	hjg_job_build_submit(job);

	for (int64 row = 0; row < probe_rows || nin_flight > 0;)
	{
		if (row < probe_rows && nin_flight < MAX_IN_FLIGHT)
		{
			uint32		n = (uint32) Min(probe_rows - row, (int64) BATCH_ROWS);

			in_flight[nin_flight++] = submit_batch(job, (uint64) row, n, modulus);
			row += n;
			continue;
		}
		npairs += drain_batch(job, in_flight[0]);
		nin_flight--;
		memmove(in_flight, in_flight + 1, nin_flight * sizeof(int));
	}
	hjg_job_release(job);
	PG_RETURN_INT64((int64) npairs);
}
