/*
 * engine_direct_probe.c
 *	  Probing tables that are an array by key.
 *
 * Rows are probed one by one: nothing branches on keys or rows, so the processor overlaps many reads by
 * itself.  For an array larger than half the second-level cache, words are also prefetched: this saves a
 * fifth of the time for 1M places, and would cost a tenth for an array in the cache.
 *
 * Repeated keys: a row's matches lie side by side.  A fixed number is copied, whether they match or not,
 * and the next row overwrites the surplus.  Only a row with more matches takes a branch.
 */
#include "engine/hjg_probe_internal.h"

/* Rows between prefetching a word and using it. */
#define AHEAD_ROWS 24

/*
 * Pairs that are written at a time, and at least for each row: more would read lines that were not
 * prefetched.
 */
#define STEP_PAIRS 4

/* Most matches of a row that surely fit in the buffer; more are written out in between. */
#define FEW_PAIRS 32

/* --- keys that occur once --- */

HJG_ALWAYS_INLINE bool
probe_once(int width, HjgMatchMode mode, bool ahead, HjgProbeTask *probe, HjgProbeSlot *slot, hjg_u64 begin, hjg_u64 end)
{
	const HjgTable *table = probe->table;
	const hjg_u32 *rows = table->rows;
	hjg_u32		since_poll = 0;
	const hjg_u8 *keys;
	hjg_u32		row;
	hjg_u32		n;
	HjgKeyScan	scan;

	hjg_engine_scan_begin(&scan, probe->runs, probe->row + begin, probe->row + end);
	while ((n = hjg_engine_scan_next(&scan, width, HJG_RESULT_CHUNK - slot->npairs, &keys, &row)) > 0)
	{
		HjgPair    *out = slot->buffer + slot->npairs;
		const hjg_u32 nahead = n > AHEAD_ROWS ? n - AHEAD_ROWS : 0;
		hjg_u32		npairs = 0;

		for (hjg_u32 i = 0; ahead && i < AHEAD_ROWS && i < n; i++)
			__builtin_prefetch(rows + hjg_direct_place(width, table, keys + (size_t) i * (size_t) width));
		for (hjg_u32 i = 0; i < n; i++)
		{
			hjg_u32		build_row;

			if (ahead && i < nahead)
				__builtin_prefetch(rows + hjg_direct_place(width, table, keys + (size_t) (i + AHEAD_ROWS) * (size_t) width));
			build_row = rows[hjg_direct_place(width, table, keys + (size_t) i * (size_t) width)];
			out[npairs] = (HjgPair) {row + i, mode == HJG_MATCH_ANTI ? HJG_NO_ROW : build_row};
			if (mode == HJG_MATCH_LEFT)
				npairs++;
			else
				npairs += (build_row == HJG_NO_ROW) == (mode == HJG_MATCH_ANTI);
		}
		slot->npairs += npairs;
		if (slot->npairs >= HJG_RESULT_CHUNK && !hjg_engine_probe_write_out(probe, slot, false))
			return false;
		since_poll += n;
		if (since_poll >= HJG_POLL_ROWS)
		{
			since_poll = 0;
			if (hjg_task_poll(&probe->task))
				return false;
		}
	}
	return true;
}

/* --- keys that are repeated --- */

/* Emit the pairs of one row with n build rows, however many. */
static bool
emit_rows(HjgProbeTask *probe, HjgProbeSlot *slot, hjg_u32 probe_row, const hjg_u32 *build_rows, hjg_u32 n)
{
	while (n > 0)
	{
		const hjg_u32 room = HJG_RESULT_CHUNK - slot->npairs;	/* never 0 here */
		const hjg_u32 m = n < room ? n : room;
		HjgPair    *out = slot->buffer + slot->npairs;

		for (hjg_u32 i = 0; i < m; i++)
			out[i] = (HjgPair) {probe_row, build_rows[i]};
		slot->npairs += m;
		build_rows += m;
		n -= m;
		if (slot->npairs >= HJG_RESULT_CHUNK &&
			(!hjg_engine_probe_write_out(probe, slot, false) || hjg_task_poll(&probe->task)))
			return false;
	}
	return true;
}

HJG_ALWAYS_INLINE bool
probe_repeated(int width, HjgMatchMode mode, bool ahead, HjgProbeTask *probe, HjgProbeSlot *slot, hjg_u64 begin, hjg_u64 end)
{
	const HjgTable *table = probe->table;
	const hjg_u32 *starts = table->starts;
	const hjg_u8 *keys;
	hjg_u32		row;
	hjg_u32		n;
	HjgKeyScan	scan;

	hjg_engine_scan_begin(&scan, probe->runs, probe->row + begin, probe->row + end);
	while ((n = hjg_engine_scan_next(&scan, width, HJG_POLL_ROWS, &keys, &row)) > 0)
	{
		hjg_u32		npairs = slot->npairs;	/* in a register */

		for (hjg_u32 i = 0; ahead && i < 2 * AHEAD_ROWS && i < n; i++)
			__builtin_prefetch(starts + hjg_direct_place(width, table, keys + (size_t) i * (size_t) width));
		for (hjg_u32 i = 0; ahead && i < AHEAD_ROWS && i < n; i++)
			__builtin_prefetch(table->rows + starts[hjg_direct_place(width, table, keys + (size_t) i * (size_t) width)]);
		for (hjg_u32 i = 0; i < n; i++)
		{
			const hjg_u64 place = hjg_direct_place(width, table, keys + (size_t) i * (size_t) width);
			const hjg_u32 *build_rows = table->rows + starts[place];
			const hjg_u32 count = starts[place + 1] - starts[place];
			HjgPair    *out = slot->buffer + npairs;

			if (ahead && i + 2 * AHEAD_ROWS < n)
				__builtin_prefetch(starts + hjg_direct_place(width, table, keys + (size_t) (i + 2 * AHEAD_ROWS) * (size_t) width));
			if (ahead && i + AHEAD_ROWS < n)
			{
				const hjg_u32 *coming = starts + hjg_direct_place(width, table, keys + (size_t) (i + AHEAD_ROWS) * (size_t) width);

				__builtin_prefetch(table->rows + coming[0]);
				__builtin_prefetch(table->rows + coming[1] - 1);
			}
			if (mode == HJG_MATCH_SEMI || mode == HJG_MATCH_ANTI)
			{
				*out = (HjgPair) {row + i, mode == HJG_MATCH_ANTI ? HJG_NO_ROW : *build_rows};
				npairs += (count > 0) == (mode == HJG_MATCH_SEMI);
			}
			else if (__builtin_expect(count <= FEW_PAIRS, 1))
			{
				for (int j = 0; j < STEP_PAIRS; j++)
					out[j] = (HjgPair) {row + i, build_rows[j]};
				for (hjg_u32 done = STEP_PAIRS; done < count; done += STEP_PAIRS)
				{
					for (int j = 0; j < STEP_PAIRS; j++)
						out[done + j] = (HjgPair) {row + i, build_rows[done + j]};
				}
				npairs += count;
				if (mode == HJG_MATCH_LEFT)
				{
					out->build_row = count == 0 ? HJG_NO_ROW : out->build_row;
					npairs += count == 0;
				}
			}
			else
			{
				slot->npairs = npairs;
				if (!emit_rows(probe, slot, row + i, build_rows, count))
					return false;
				npairs = slot->npairs;
			}
			if (__builtin_expect(npairs >= HJG_RESULT_CHUNK, 0))
			{
				slot->npairs = npairs;
				if (!hjg_engine_probe_write_out(probe, slot, false))
					return false;
				npairs = slot->npairs;
			}
		}
		slot->npairs = npairs;
		if (hjg_task_poll(&probe->task))
			return false;
	}
	return true;
}

/* --- instances --- */

#define DEFINE_PROBE(width, mode, keys, distance, ahead) \
	static bool keys##_##distance##_##width##_##mode(HjgProbeTask *probe, HjgProbeSlot *slot, hjg_u64 begin, hjg_u64 end) \
	{ \
		return probe_##keys(width, HJG_MATCH_##mode, ahead, probe, slot, begin, end); \
	}
#define DEFINE_MODES(width, keys, distance, ahead) \
	DEFINE_PROBE(width, ALL, keys, distance, ahead) \
	DEFINE_PROBE(width, LEFT, keys, distance, ahead) \
	DEFINE_PROBE(width, SEMI, keys, distance, ahead) \
	DEFINE_PROBE(width, ANTI, keys, distance, ahead)
#define DEFINE_KEYS(keys) \
	DEFINE_MODES(4, keys, near, false) \
	DEFINE_MODES(8, keys, near, false) \
	DEFINE_MODES(4, keys, far, true) \
	DEFINE_MODES(8, keys, far, true)
#define MODES(keys, distance, width) \
	{keys##_##distance##_##width##_ALL, keys##_##distance##_##width##_LEFT, \
	 keys##_##distance##_##width##_SEMI, keys##_##distance##_##width##_ANTI}
#define KEYS(keys) \
	{{MODES(keys, near, 4), MODES(keys, near, 8)}, {MODES(keys, far, 4), MODES(keys, far, 8)}}

DEFINE_KEYS(once)
DEFINE_KEYS(repeated)

HjgProbeFn
hjg_direct_probe_fn(const HjgTable *table, int width, HjgMatchMode mode)
{
	static const HjgProbeFn fns[2][2][2][4] = {KEYS(once), KEYS(repeated)};
	const bool	repeated = table->starts != NULL;
	const hjg_u64 nwords = table->nplaces + (repeated ? table->nrows : 0);
	const bool	ahead = nwords * sizeof(hjg_u32) > hjg_l2_bytes() / 2;

	return fns[repeated][ahead][width == HJG_KEY_WIDTH_8][mode];
}
