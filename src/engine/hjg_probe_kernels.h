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

/* Rows whose keys and numbers are in block already.  False: the slot is to return. */
KERNEL_TARGET HJG_ALWAYS_INLINE bool
KERNEL(probe_block)(int width, HjgMatchMode mode, bool cached, ProbeTask *probe, Slot *slot, Block *block,
					hjg_u32 n)
{
	const HjgTable *table = probe->table;
	const hjg_u8 *tuples = table->tuples;
	const size_t tb = (size_t) hjg_tuple_bytes(width);
	const int	bucket_bits = table->bucket_bits;
	HjgPair    *const buffer = slot->buffer;
	hjg_u32		npairs = slot->npairs;	/* in a register */

	for (hjg_u32 i = 0; i < n; i++)
	{
		block->begin[i] = hjg_mixed_prefix(width, block->high[i], bucket_bits);
		__builtin_prefetch(&table->start[block->begin[i]]);
	}
	for (hjg_u32 i = 0; i < n; i++)
	{
		hjg_u32		bucket = block->begin[i];

		block->begin[i] = table->start[bucket];
		block->end[i] = table->start[bucket + 1];
		__builtin_prefetch(tuples + block->begin[i] * tb);
		/* of an empty bucket this prefetches what lies before it, which does no harm */
		__builtin_prefetch(tuples + block->end[i] * tb - 1);
	}
	for (hjg_u32 i = 0; i < n; i++)
	{
		HjgMixed	key = {block->high[i], width == 16 ? block->low[i] : 0};

		if (__builtin_expect(block->end[i] - block->begin[i] <= HJG_HEAVY_BUCKET, 1))
			npairs += SCAN_BUCKET(width, mode, cached, tuples, key, block->row[i], block->begin[i], block->end[i],
								  buffer + npairs);
		else
		{
			slot->npairs = npairs;
			if (!probe_heavy(width, mode, probe, slot, key, block->row[i], block->begin[i], block->end[i]))
				return false;
			npairs = slot->npairs;
		}
		if (__builtin_expect(npairs >= HJG_RESULT_CHUNK, 0))
		{
			slot->npairs = npairs;
			if (!write_out(probe, slot, false))
				return false;
			npairs = slot->npairs;
		}
	}
	slot->npairs = npairs;
	return true;
}

/* Rows [begin, end) counted from probe->row, as they came. */
KERNEL_TARGET HJG_ALWAYS_INLINE bool
KERNEL(probe_keys)(int width, HjgMatchMode mode, ProbeTask *probe, Slot *slot, hjg_u64 begin, hjg_u64 end)
{
	Block		block;
	HjgScan		scan;
	const hjg_u8 *keys;
	hjg_u32		row;
	hjg_u32		n;
	hjg_u32		since_poll = 0;

	hjg_scan_begin(&scan, probe->runs, probe->row + begin, probe->row + end);
	while ((n = hjg_scan_next(&scan, width, BLOCK_ROWS, &keys, &row)) > 0)
	{
		for (hjg_u32 i = 0; i < n; i++)
			block.high[i] = hjg_mix_key(width, keys + (size_t) i * width).high;
		for (hjg_u32 i = 0; i < n; i++)
			block.row[i] = row + i;
		if (width == 16)
		{
			for (hjg_u32 i = 0; i < n; i++)
				block.low[i] = hjg_load64(keys + (size_t) i * width + 8);
		}
		if (!KERNEL(probe_block)(width, mode, false, probe, slot, &block, n))
			return false;
		if (++since_poll % (HJG_POLL_ROWS / 4 / BLOCK_ROWS) == 0 && hjg_task_poll(&probe->task))
			return false;
	}
	return true;
}

/* Rows [begin, end) of the partitioned copy. */
KERNEL_TARGET HJG_ALWAYS_INLINE bool
KERNEL(probe_tuples)(int width, HjgMatchMode mode, ProbeTask *probe, Slot *slot, hjg_u64 begin, hjg_u64 end)
{
	const hjg_u64 tb = (hjg_u64) hjg_tuple_bytes(width);
	Block		block;
	hjg_u32		since_poll = 0;

	for (; begin < end; begin += BLOCK_ROWS)
	{
		const hjg_u8 *t = probe->tuples + begin * tb;
		hjg_u32		n = end - begin < BLOCK_ROWS ? (hjg_u32) (end - begin) : BLOCK_ROWS;

		for (hjg_u32 i = 0; i < n; i++)
		{
			HjgMixed	key = hjg_tuple_key(width, t + i * tb);

			block.high[i] = key.high;
			if (width == 16)
				block.low[i] = key.low;
			block.row[i] = hjg_tuple_row(width, t + i * tb);
		}
		if (!KERNEL(probe_block)(width, mode, true, probe, slot, &block, n))
			return false;
		if (++since_poll % (HJG_POLL_ROWS / 4 / BLOCK_ROWS) == 0 && hjg_task_poll(&probe->task))
			return false;
	}
	return true;
}

#undef KERNEL
#undef KERNEL_TARGET
#undef SCAN_BUCKET
