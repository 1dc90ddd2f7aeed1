/*
 * hjg_probe_kernels.h
 *	  The loops over probe rows, included by engine_probe.c once for each way of
 *	  scanning a bucket.
 *
 * A function that uses the intrinsics of an instruction set can be inlined into
 * functions that are compiled for that set only, so what stands between it and
 * the instances has to be compiled for the set too; hence this file.  Parameters:
 *		KERNEL(name)		the name of an instance of a function
 *		KERNEL_TARGET		its target attribute
 *		SCAN_BUCKET			function that scans a bucket: see scan_bucket()
 */

/* The next rows of a batch, at most max, as they came. */
KERNEL_TARGET HJG_ALWAYS_INLINE void
KERNEL(fill_keys)(int width, HjgScan *scan, hjg_u32 max, Block *block)
{
	const hjg_u8 *keys;
	hjg_u32		row;

	block->n = hjg_scan_next(scan, width, max, &keys, &row);
	for (hjg_u32 i = 0; i < block->n; i++)
		block->high[i] = hjg_mix_key(width, keys + (size_t) i * width).high;
	for (hjg_u32 i = 0; i < block->n; i++)
		block->row[i] = row + i;
	if (width == 16)
	{
		for (hjg_u32 i = 0; i < block->n; i++)
			block->low[i] = hjg_load64(keys + (size_t) i * width + 8);
	}
}

/* The next rows, at most max, of the partitioned copy. */
KERNEL_TARGET HJG_ALWAYS_INLINE void
KERNEL(fill_tuples)(int width, const hjg_u8 *tuples, hjg_u32 max, Block *block)
{
	const hjg_u64 tb = (hjg_u64) hjg_tuple_bytes(width);

	block->n = max;
	for (hjg_u32 i = 0; i < block->n; i++)
	{
		HjgMixed	key = hjg_tuple_key(width, tuples + i * tb);

		block->high[i] = key.high;
		if (width == 16)
			block->low[i] = key.low;
		block->row[i] = hjg_tuple_row(width, tuples + i * tb);
	}
}

/*
 * Rows [begin, end) counted from probe->row or, of a partitioned batch, of the
 * copy.  Three blocks are under way, each at another stage; the stages are
 * interleaved row by row, so that comparing goes on while lines arrive: a block
 * that went through stage by stage took 14.2 ns a row where this takes 9.8 (5M x
 * 20M rows, 4 threads).  What a short block holds behind its last row is of
 * earlier rows: prefetching it again does no harm.  Few rows go in small blocks,
 * because two rounds are spent on filling and emptying the stages.  False: the slot is to return.
 */
KERNEL_TARGET HJG_ALWAYS_INLINE bool
KERNEL(probe_rows)(int width, HjgMatchMode mode, bool partitioned, HjgProbeTask *probe, HjgProbeSlot *slot,
				   hjg_u64 begin, hjg_u64 end)
{
	const HjgTable *table = probe->table;
	const size_t tb = (size_t) hjg_tuple_bytes(width);
	const hjg_u32 nbuckets = table->nbuckets;
	HjgPair    *const buffer = slot->buffer;
	hjg_u32		npairs = slot->npairs;	/* in a register */
	hjg_u32		since_poll = 0;
	const hjg_u32 block_rows = end - begin < FEW_ROWS ? SMALL_BLOCK_ROWS : BLOCK_ROWS;
	HjgScan		scan;
	Block		blocks[3];
	Block	   *mixed = &blocks[0];
	Block	   *located = &blocks[1];
	Block	   *compared = &blocks[2];

	for (int b = 0; b < 3; b++)
	{
		memset(blocks[b].high, 0, sizeof(blocks[b].high[0]) * block_rows);
		memset(blocks[b].bucket, 0, sizeof(blocks[b].bucket[0]) * block_rows);
		blocks[b].n = 0;
	}
	hjg_scan_begin(&scan, probe->runs, probe->row + begin, probe->row + end);
	do
	{
		hjg_u32		nsteps;

		if (partitioned)
		{
			KERNEL(fill_tuples)(width, probe->tuples + begin * tb,
								end - begin < block_rows ? (hjg_u32) (end - begin) : block_rows, mixed);
			begin += mixed->n;
		}
		else
			KERNEL(fill_keys)(width, &scan, block_rows, mixed);
		nsteps = mixed->n > located->n ? mixed->n : located->n;
		nsteps = compared->n > nsteps ? compared->n : nsteps;

		for (hjg_u32 i = 0; i < nsteps; i++)
		{
			HjgMixed	key = {compared->high[i], width == 16 ? compared->low[i] : 0};
			HjgBucket	bucket = {compared->tuples[i], compared->ntuples[i]};
			HjgBucket	next = hjg_table_bucket(width, table, located->bucket[i]);

			mixed->bucket[i] = hjg_mixed_range(width, mixed->high[i], nbuckets);
			__builtin_prefetch(table->lines + (size_t) mixed->bucket[i] * HJG_LINE_BYTES);

			located->tuples[i] = next.tuples;
			located->ntuples[i] = next.ntuples;
			__builtin_prefetch(next.tuples);

			if (i >= compared->n)
				continue;
			if (__builtin_expect(bucket.ntuples <= HJG_HEAVY_BUCKET, 1))
				npairs += SCAN_BUCKET(width, mode, bucket, key, compared->row[i], buffer + npairs);
			else
			{
				slot->npairs = npairs;
				if (!probe_heavy(width, mode, probe, slot, key, compared->row[i], bucket))
					return false;
				npairs = slot->npairs;
			}
			if (__builtin_expect(npairs >= HJG_RESULT_CHUNK, 0))
			{
				slot->npairs = npairs;
				if (!hjg_probe_write_out(probe, slot, false))
					return false;
				npairs = slot->npairs;
			}
		}
		if (++since_poll % (HJG_POLL_ROWS / 4 / BLOCK_ROWS) == 0 && hjg_task_poll(&probe->task))
			return false;

		{
			Block	   *done = compared;

			compared = located;
			located = mixed;
			mixed = done;
		}
	} while (compared->n > 0 || located->n > 0);
	slot->npairs = npairs;
	return true;
}

/*
 * The same rows, as they came, where the table lies in the second-level cache: what is fetched
 * ahead there costs more than waiting, which the processor does for many rows at a time by itself.
 */
KERNEL_TARGET HJG_ALWAYS_INLINE bool
KERNEL(probe_cached)(int width, HjgMatchMode mode, HjgProbeTask *probe, HjgProbeSlot *slot, hjg_u64 begin, hjg_u64 end)
{
	const HjgTable *table = probe->table;
	const hjg_u32 nbuckets = table->nbuckets;
	HjgPair    *const buffer = slot->buffer;
	hjg_u32		npairs = slot->npairs;
	hjg_u32		since_poll = 0;
	const hjg_u8 *keys;
	hjg_u32		row;
	hjg_u32		n;
	HjgScan		scan;

	hjg_scan_begin(&scan, probe->runs, probe->row + begin, probe->row + end);
	while ((n = hjg_scan_next(&scan, width, BLOCK_ROWS, &keys, &row)) > 0)
	{
		hjg_u64		high[BLOCK_ROWS];

		for (hjg_u32 i = 0; i < n; i++)
			high[i] = hjg_mix_key(width, keys + (size_t) i * (size_t) width).high;
		for (hjg_u32 i = 0; i < n; i++)
		{
			const HjgMixed key = {high[i], width == 16 ? hjg_load64(keys + (size_t) i * 16 + 8) : 0};
			const HjgBucket bucket = hjg_table_bucket(width, table, hjg_mixed_range(width, key.high, nbuckets));

			if (__builtin_expect(bucket.ntuples <= HJG_HEAVY_BUCKET, 1))
				npairs += SCAN_BUCKET(width, mode, bucket, key, row + i, buffer + npairs);
			else
			{
				slot->npairs = npairs;
				if (!probe_heavy(width, mode, probe, slot, key, row + i, bucket))
					return false;
				npairs = slot->npairs;
			}
			if (__builtin_expect(npairs >= HJG_RESULT_CHUNK, 0))
			{
				slot->npairs = npairs;
				if (!hjg_probe_write_out(probe, slot, false))
					return false;
				npairs = slot->npairs;
			}
		}
		if (++since_poll % (HJG_POLL_ROWS / BLOCK_ROWS) == 0 && hjg_task_poll(&probe->task))
			return false;
	}
	slot->npairs = npairs;
	return true;
}

#undef KERNEL
#undef KERNEL_TARGET
#undef SCAN_BUCKET
