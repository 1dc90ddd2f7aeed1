/*
 * coupled_partition.c
 *	  The arrays of the rows in work, and partitioning of these rows.
 */
#include "coupled/hjg_coupled_internal.h"

/* Least rows of work that are worth a series. */
#define MIN_WORK_ROWS 64

/* ---- the arrays ---- */

/* Count the counters of a pass; if two passes share the bits, of the larger one. */
static hjg_u32
most_counters(int bits)
{
	const hjg_u32 first = hjg_step_part_counters((hjg_u32) (bits > HJG_COUPLED_PASS_BITS ? (bits + 1) / 2 : bits));
	const hjg_u32 last = hjg_step_part_counters((hjg_u32) bits);

	return first > last ? first : last;
}

/* Lay out the arrays; none has the offset 0, which means "no array" in some members. */
size_t
hjg_coupled_lay_work(HjgCoupled *join, hjg_u32 nrows, int bits, HjgStepArgs *args)
{
	const size_t width = (size_t) join->base.spec.key_width;
	size_t		bytes = 64;

	args->seed = hjg_hash_seed;
	args->mixed_off = hjg_coupled_lay(&bytes, nrows, width);
	args->rows_off = hjg_coupled_lay(&bytes, nrows, 4);
	args->buckets_off = hjg_coupled_lay(&bytes, nrows, 4);
	args->nodes_off = hjg_coupled_lay(&bytes, nrows, 4);
	args->counts_off = hjg_coupled_lay(&bytes, nrows, 4);
	args->offsets_off = hjg_coupled_lay(&bytes, nrows, 4);
	args->order_off = join->config.grouping ? hjg_coupled_lay(&bytes, nrows, 4) : 0;
	if (bits > 0)
	{
		args->dst_mixed_off = hjg_coupled_lay(&bytes, nrows, width);
		args->dst_rows_off = hjg_coupled_lay(&bytes, nrows, 4);
		args->parts_off = hjg_coupled_lay(&bytes, most_counters(bits), 4);
	}
	return hjg_feed_lay(join, bytes);
}

hjg_u32
hjg_coupled_work_rows(HjgCoupled *join, int bits, hjg_u64 most)
{
	const size_t limit = hjg_coupled_buffer_limit(join);
	const hjg_u32 sample = 65536;
	HjgStepArgs args = {0};
	const size_t fixed = hjg_coupled_lay_work(join, 0, bits, &args);
	const size_t row_bytes = (hjg_coupled_lay_work(join, sample, bits, &args) - fixed) / sample;
	/* each array ends at a line */
	const size_t slack = fixed + 16 * 64;
	hjg_u64		nrows;

	if (limit < slack + MIN_WORK_ROWS * row_bytes)
		return 0;
	nrows = (limit - slack) / row_bytes;
	return (hjg_u32) (nrows < most ? nrows : most < 0x7FFFFFFFu ? most : 0x7FFFFFFFu);
}

/* ---- partitioning ---- */

/*
 * Replace the counts in the headers by starts, their exclusive prefix sums in order of partition and then
 * of stripe.
 */
static void
sum_headers(HjgCoupled *join, const HjgStepArgs *args)
{
	hjg_u32    *headers = (hjg_u32 *) (join->work.base + args->parts_off);
	hjg_u32		sum = 0;

	for (hjg_u32 partition = 0; partition < 1u << args->bits; partition++)
		for (hjg_u32 stripe = 0; stripe < hjg_step_stripes(args->bits); stripe++)
		{
			hjg_u32    *header = headers + stripe * hjg_step_stripe_counters(args->bits) + partition;
			hjg_u32		count = *header;

			*header = sum;
			sum += count;
		}
}

HjgStatus
hjg_coupled_partition(HjgCoupled *join, const HjgRuns *runs, hjg_u64 first_run_row, hjg_u32 nrows,
					  int bits, HjgStepArgs *args, bool building)
{
	double	   *predicted_ns = building ? &join->stats.predicted_build_ns : &join->stats.predicted_probe_ns;
	int			done_bits = 0;
	hjg_u64		started = hjg_now_ns();
	HjgStatus	status = HJG_OK;

	join->dst_rows = nrows;
	while (status == HJG_OK && done_bits < bits)
	{
		HjgSeries	series = {
			.nsteps = 2, .steps = {runs != NULL && done_bits == 0 ? HJG_STEP_HASH : HJG_STEP_NUMBER, HJG_STEP_N2},
			.nrows = nrows, .runs = runs, .first_run_row = first_run_row, .building = building
		};
		size_t		header_bytes;

		/* two passes share the bits */
		done_bits = done_bits == 0 && bits > HJG_COUPLED_PASS_BITS ? (bits + 1) / 2 : bits;
		args->bits = (hjg_u32) done_bits;
		header_bytes = hjg_step_part_counters(args->bits) * sizeof(hjg_u32);
		series.args = *args;
		status = hjg_copies_host(join, args->parts_off, header_bytes, false, true, HJG_STEP_N2);
		if (status == HJG_OK)
			status = hjg_coupled_zero(join, join->work.base + args->parts_off, header_bytes);
		if (status != HJG_OK)
			break;
		if (series.steps[0] == HJG_STEP_HASH)
			status = hjg_feed_run(join, &series, predicted_ns);
		else
		{
			*predicted_ns += hjg_series_plan(join, &series);
			status = hjg_series_run(join, &series);
		}
		if (status == HJG_OK)
			status = hjg_copies_host(join, args->parts_off, header_bytes, true, true, HJG_STEP_N2);
		if (status != HJG_OK)
			break;
		sum_headers(join, args);
		series.nsteps = 1;
		series.steps[0] = HJG_STEP_N3;
		*predicted_ns += hjg_series_plan(join, &series);
		status = hjg_series_run(join, &series);

		/* the destination becomes the source of what follows */
		{
			const hjg_u64 mixed_off = args->mixed_off;
			const hjg_u64 rows_off = args->rows_off;

			args->mixed_off = args->dst_mixed_off;
			args->rows_off = args->dst_rows_off;
			args->dst_mixed_off = mixed_off;
			args->dst_rows_off = rows_off;
		}
	}
	join->base.stats.partition_ns += hjg_now_ns() - started;
	return status;
}

hjg_u32
hjg_coupled_partition_begin(const HjgCoupled *join, const HjgStepArgs *args, hjg_u32 nrows, hjg_u32 partition)
{
	return partition < 1u << args->bits ? ((const hjg_u32 *) (join->work.base + args->parts_off))[partition] : nrows;
}
