/*
 * hjg_probe_kernels.h
 *	  The loops over probe rows, included by engine_probe.c once for each way of scanning a bucket.
 *
 * A function with an instruction set's intrinsics can be inlined only into functions compiled for that
 * set.  Everything between it and the instances must therefore be compiled for the set too; hence this
 * file.  Parameters:
 *		KERNEL(name)		the name of an instance of a function
 *		KERNEL_TARGET		its target attribute
 *		SCAN_BUCKET			function that scans a bucket: see scan_bucket()
 *		SCAN_LINE			function that scans a line: see scan_line()
 */

/* Take the next rows of a batch, at most max, in their order. */
KERNEL_TARGET HJG_ALWAYS_INLINE void
KERNEL(fill_keys)(int width, HjgKeyScan *scan, hjg_u32 max, ProbeBlock *block)
{
	const hjg_u8 *keys;
	hjg_u32		row;

	block->n = hjg_engine_scan_next(scan, width, max, &keys, &row);
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

/* Emit the pairs of one row.  False: the slot must return. */
KERNEL_TARGET HJG_ALWAYS_INLINE bool
KERNEL(probe_bucket)(int width, HjgMatchMode mode, HjgProbeTask *probe, HjgProbeSlot *slot, HjgMixed key, hjg_u32 probe_row,
					 HjgBucket bucket)
{
	if (bucket.ntuples > HJG_HEAVY_BUCKET)
	{
		if (!probe_heavy(width, mode, probe, slot, key, probe_row, bucket))
			return false;
	}
	else
		slot->npairs += SCAN_BUCKET(width, mode, bucket, key, probe_row, slot->buffer + slot->npairs);
	return slot->npairs < HJG_RESULT_CHUNK || hjg_engine_probe_write_out(probe, slot, false);
}

/*
 * Emit the pairs of a block's rows in crowded buckets, and prefetch tuples for such rows of the next
 * block: two lines a bucket, as many as most buckets have.  False: the slot must return.
 */
KERNEL_TARGET HJG_ALWAYS_INLINE bool
KERNEL(probe_crowded)(int width, HjgMatchMode mode, HjgProbeTask *probe, HjgProbeSlot *slot, ProbeBlock *block, const ProbeBlock *next)
{
	const HjgTable *table = probe->table;
	const hjg_u32 nahead = next != NULL ? next->ncrowded : 0;
	const hjg_u32 nsteps = block->ncrowded > nahead ? block->ncrowded : nahead;

	for (hjg_u32 i = 0; i < nsteps; i++)
	{
		HjgBucket	bucket;
		HjgMixed	key = {0, 0};
		hjg_u32		at;

		if (i < nahead)
		{
			const hjg_u8 *tuples = hjg_table_bucket(width, table, next->bucket[next->crowded[i]]).tuples;

			__builtin_prefetch(tuples);
			__builtin_prefetch(tuples + HJG_LINE_BYTES);
		}
		if (i >= block->ncrowded)
			continue;
		at = block->crowded[i];
		key.high = block->high[at];
		if (width == 16)
			key.low = block->low[at];
		bucket = hjg_table_bucket(width, table, block->bucket[at]);
		if (!KERNEL(probe_bucket)(width, mode, probe, slot, key, block->row[at], bucket))
			return false;
	}
	block->ncrowded = 0;
	return true;
}

/*
 * Probe rows [begin, end) counted from probe->row.  While a block is compared, the lines of the next block
 * are fetched row by row, so that the fetches overlap with work; processing a block stage by stage took
 * half as long again.  Rows in crowded buckets wait for one more block; they are collected without a
 * branch, since few rows have one.  A short block holds stale rows behind its last; fetching them again is
 * harmless.  A table in the cache needs none of this.  False: the slot must return.
 */
KERNEL_TARGET HJG_ALWAYS_INLINE bool
KERNEL(probe_rows)(int width, HjgMatchMode mode, Source source, HjgProbeTask *probe, HjgProbeSlot *slot,
				   hjg_u64 begin, hjg_u64 end)
{
	const bool	ahead = source != SOURCE_CACHED;
	const HjgTable *table = probe->table;
	const hjg_u8 *const lines = table->lines;
	const hjg_u32 nbuckets = table->nbuckets;
	HjgPair    *const buffer = slot->buffer;
	hjg_u32		since_poll = 0;
	HjgKeyScan	scan;
	ProbeBlock		blocks[3];
	ProbeBlock	   *coming = &blocks[0];
	ProbeBlock	   *now = &blocks[1];
	ProbeBlock	   *before = &blocks[2];
	bool		more;

	for (int b = 0; b < 3; b++)
	{
		memset(blocks[b].bucket, 0, sizeof(blocks[b].bucket));
		blocks[b].n = 0;
		blocks[b].ncrowded = 0;
	}
	hjg_engine_scan_begin(&scan, probe->runs, probe->row + begin, probe->row + end);
	do
	{
		hjg_u32		npairs = slot->npairs;	/* in a register */
		hjg_u32		ncrowded = 0;
		ProbeBlock	   *done;

		KERNEL(fill_keys)(width, &scan, BLOCK_ROWS, coming);
		for (hjg_u32 i = 0; i < coming->n; i++)
			coming->bucket[i] = hjg_mixed_range(width, coming->high[i], nbuckets);
		more = coming->n > 0;
		if (!ahead)
		{
			done = now;
			now = coming;
			coming = done;
		}

		for (hjg_u32 i = 0; i < now->n; i++)
		{
			const HjgMixed key = {now->high[i], width == 16 ? now->low[i] : 0};
			const hjg_u8 *line = lines + (size_t) now->bucket[i] * HJG_LINE_BYTES;
			const hjg_u32 ntuples = hjg_load32(line);
			const hjg_u32 crowded = ntuples > hjg_line_tuples(width);
			hjg_u32		found;

			if (ahead)
				__builtin_prefetch(lines + (size_t) coming->bucket[i] * HJG_LINE_BYTES);
			found = SCAN_LINE(width, mode, line, ntuples, key, now->row[i], buffer + npairs);
			npairs += crowded ? 0 : found;
			now->crowded[ncrowded] = i;
			ncrowded += crowded;
			if (__builtin_expect(npairs >= HJG_RESULT_CHUNK, 0))
			{
				slot->npairs = npairs;
				if (!hjg_engine_probe_write_out(probe, slot, false))
					return false;
				npairs = slot->npairs;
			}
		}
		slot->npairs = npairs;
		now->ncrowded = ncrowded;
		for (hjg_u32 i = now->n; ahead && i < coming->n; i++)
			__builtin_prefetch(lines + (size_t) coming->bucket[i] * HJG_LINE_BYTES);
		if (!KERNEL(probe_crowded)(width, mode, probe, slot, ahead ? before : now, ahead ? now : NULL))
			return false;
		if (++since_poll % (HJG_POLL_ROWS / 4 / BLOCK_ROWS) == 0 && hjg_task_poll(&probe->task))
			return false;

		if (ahead)
		{
			done = before;
			before = now;
			now = coming;
			coming = done;
			more = more || before->ncrowded > 0;
		}
	} while (more);
	return true;
}

/*
 * Probe rows [begin, end) in their order where most buckets are crowded: lines are not compared.  While a
 * row's bucket is scanned, the tuples for the row one block later are fetched, and the line for the row
 * two blocks later.
 */
KERNEL_TARGET HJG_ALWAYS_INLINE bool
KERNEL(probe_crowded_rows)(int width, HjgMatchMode mode, HjgProbeTask *probe, HjgProbeSlot *slot, hjg_u64 begin, hjg_u64 end)
{
	const HjgTable *table = probe->table;
	hjg_u32		since_poll = 0;
	HjgKeyScan	scan;
	ProbeBlock		blocks[3];
	ProbeBlock	   *coming = &blocks[0];
	ProbeBlock	   *next = &blocks[1];
	ProbeBlock	   *now = &blocks[2];

	next->n = now->n = 0;
	hjg_engine_scan_begin(&scan, probe->runs, probe->row + begin, probe->row + end);
	do
	{
		hjg_u32		n;
		ProbeBlock	   *done = now;

		KERNEL(fill_keys)(width, &scan, BLOCK_ROWS, coming);
		for (hjg_u32 i = 0; i < coming->n; i++)
			coming->bucket[i] = hjg_mixed_range(width, coming->high[i], table->nbuckets);
		n = now->n > next->n ? now->n : next->n;
		n = n > coming->n ? n : coming->n;
		for (hjg_u32 i = 0; i < n; i++)
		{
			if (i < coming->n)
				__builtin_prefetch(table->lines + (size_t) coming->bucket[i] * HJG_LINE_BYTES);
			if (i < next->n)
			{
				next->found[i] = hjg_table_bucket(width, table, next->bucket[i]);
				__builtin_prefetch(next->found[i].tuples);
				__builtin_prefetch(next->found[i].tuples + HJG_LINE_BYTES);
			}
			if (i < now->n)
			{
				const HjgMixed key = {now->high[i], width == 16 ? now->low[i] : 0};

				if (!KERNEL(probe_bucket)(width, mode, probe, slot, key, now->row[i], now->found[i]))
					return false;
			}
		}
		if (++since_poll % (HJG_POLL_ROWS / 4 / BLOCK_ROWS) == 0 && hjg_task_poll(&probe->task))
			return false;
		now = next;
		next = coming;
		coming = done;
	} while (now->n > 0 || next->n > 0);
	return true;
}

#undef KERNEL
#undef KERNEL_TARGET
#undef SCAN_BUCKET
#undef SCAN_LINE
