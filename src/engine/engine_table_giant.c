/*
 * engine_table_giant.c
 *	  Builds the lines of a partition that skew has made larger than its share, with all slots.
 *
 * Passes over the whole partition sort it by bucket into a second buffer and copy it back.  All slots then
 * sort each giant bucket together; each other bucket is sorted by one slot.
 */
#include "engine/hjg_table_build.h"

/*
 * Finish the lines of local buckets [first, last) of a giant partition in bucket order; giant buckets stay
 * unsorted.
 */
HJG_ALWAYS_INLINE void
finish_buckets(int width, HjgTableTask *build, hjg_u32 first, hjg_u32 last)
{
	const size_t tb = (size_t) hjg_tuple_bytes(width);
	hjg_u8	   *part = build->table->tuples + build->part_begin * tb;

	for (hjg_u32 b = first; b < last; b++)
	{
		const hjg_u32 begin = build->bucket_start[b];
		const hjg_u32 ntuples = build->bucket_start[b + 1] - begin;

		if (b % HJG_POLL_ROWS == 0 && hjg_task_poll(&build->task))
			return;
		hjg_table_put_line(width, false, build, build->first_bucket + b, part + begin * tb, ntuples, build->part_begin + begin);
		if (ntuples <= HJG_HEAVY_BUCKET || ntuples > build->giant_rows)
			continue;
		hjg_table_sort_bucket(width, &build->task, part + begin * tb, build->scratch + begin * tb, ntuples);
		if (hjg_task_poll(&build->task))
			return;
	}
}

static void
finish_unit(HjgTask *task, hjg_u32 unit, int slot)
{
	HjgTableTask  *build = (HjgTableTask *) task;
	const hjg_u64 nbuckets = build->part_buckets;
	const hjg_u32 first = (hjg_u32) (nbuckets * unit / build->nunits);
	const hjg_u32 last = (hjg_u32) (nbuckets * (unit + 1) / build->nunits);

	(void) slot;
	switch (build->width)
	{
		case HJG_KEY_WIDTH_4:
			finish_buckets(4, build, first, last);
			break;
		case HJG_KEY_WIDTH_8:
			finish_buckets(8, build, first, last);
			break;
		default:
			finish_buckets(16, build, first, last);
			break;
	}
}

HjgStatus
hjg_table_build_giant(HjgJoin *join, HjgTableTask *build, hjg_u32 partition, hjg_u32 *bucket_start,
					  hjg_u32 *digit_start)
{
	HjgTable   *table = build->table;
	const hjg_u32 nbuckets = build->part_buckets;
	const hjg_u32 begin = build->part_start[partition];
	const hjg_u64 n = build->part_start[partition + 1] - begin;
	const size_t tb = (size_t) hjg_tuple_bytes(build->width);
	hjg_u8	   *part = table->tuples + begin * tb;
	HjgStatus	status;

	build->first_bucket = partition * nbuckets;
	status = hjg_engine_partition_buckets(join, part, build->scratch, n, table->nbuckets, build->first_bucket,
								   hjg_digit_bits(nbuckets), bucket_start);
	if (status == HJG_OK)
		status = hjg_engine_partition_tuples(join, build->scratch, part, n, false, 0, 0, digit_start);	/* copies back */
	if (status != HJG_OK)
		return status;

	build->task.unit_fn = finish_unit;
	build->part_begin = begin;
	build->bucket_start = bucket_start;
	build->nunits = nbuckets < 256 ? nbuckets : 256;
	status = hjg_task_run(&build->task, join, build->nunits, hjg_task_nslots(join, n));
	for (hjg_u32 b = 0; status == HJG_OK && b < nbuckets; b++)
	{
		const hjg_u32 ntuples = bucket_start[b + 1] - bucket_start[b];

		if (ntuples > HJG_HEAVY_BUCKET && ntuples > build->giant_rows)
			status = hjg_table_sort_giant(join, part + bucket_start[b] * tb, build->scratch + bucket_start[b] * tb, ntuples,
										  digit_start);
	}
	return status;
}
