/*
 * lab_host_rates.c
 *	  Chooses the system that joins two sides too large for the device, from measured rates.
 *
 * Each phase takes as long as the slowest of its simultaneous activities; latencies and the filling of
 * pipelines are ignored.  On an H100's host (49 GB/s each way at once, 48 in blocks of 256K rows, 15
 * threads stage a row in 0.22 ns) 256M x 256M rows of 4-byte keys, half of the build side at a time, are
 * predicted to take 147 to 153 ms by copro and 87 to 91 by spill; they take 155 to 161 and 95.  In blocks
 * of 64K rows copro is predicted to take 173 ms and takes 193.
 */
#include "lab/hjg_cuda_host.h"

static double
larger_rate(double a, double b)
{
	return a > b ? a : b;
}

/* Compute the share of the build side that is on the device at a time. */
static double
resident_part(const HjgCudaHostJoin *join, hjg_u64 set_rows)
{
	return set_rows < join->build.nrows ? (double) set_rows / (double) join->build.nrows : 1;
}

/*
 * Predict the time: nothing crosses the bus before the build side is partitioned; the first set crosses
 * while the probe side is partitioned, the rest after it.
 */
double
hjg_lab_copro_ns(const HjgCudaRates *rates, const HjgCudaHostJoin *join, hjg_u64 set_rows)
{
	const double row_bytes = join->key_width + (double) sizeof(hjg_u32);
	const double nbuild = (double) join->build.nrows;
	const double nprobe = (double) join->probe.nrows;
	const double rest = (1 - resident_part(join, set_rows)) * nprobe * larger_rate(row_bytes, sizeof(HjgPair)) / rates->both_gbs;

	return nbuild * rates->stage_ns + larger_rate(nprobe * rates->stage_ns + rest, (nbuild + nprobe) * row_bytes / rates->block_gbs);
}

/*
 * Predict the time: the build side; the probe side, with the next set's build rows; the spilled rows of
 * the probe side.
 */
double
hjg_lab_spill_ns(const HjgCudaRates *rates, const HjgCudaHostJoin *join, hjg_u64 set_rows)
{
	const double width = join->key_width;
	const double row_bytes = width + (double) sizeof(hjg_u32);
	const double pair_bytes = sizeof(HjgPair);
	const double part = resident_part(join, set_rows);
	const double nbuild = (double) join->build.nrows;
	const double nprobe = (double) join->probe.nrows;

	return (nbuild * larger_rate(width, (1 - part) * row_bytes) +
			larger_rate(nprobe * width + nbuild * (1 - part) * row_bytes, nprobe * ((1 - part) * row_bytes + part * pair_bytes)) +
			nprobe * (1 - part) * larger_rate(row_bytes, pair_bytes)) / rates->both_gbs;
}
