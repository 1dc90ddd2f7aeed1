/*
 * engine_join.c
 *	  The interface of the cpu engine: building, and rounds of probing.
 *
 * A join keeps its table (hjg_table.h) and grows its scratch on demand.  A round first gives the rows
 * whose pairs are likely to fit to the fast path (engine_probe.c), which writes their pairs in any order
 * and gives up when they do not fit.  It fills the rest of the result by windows in canonical order
 * (engine_ordered.c).  A round therefore ends with a full result or at the end of the batch, whichever
 * path it took, and its contents depend only on the cursor and the capacity.
 *
 * Forbidden here: memory that is not env->alloc's, state outside the join, and anything that a long jump
 * out of poll() would leave behind.
 */
#include "engine/hjg_engine_internal.h"

const char *
hjg_status_text(HjgStatus status)
{
	switch (status)
	{
		case HJG_OK:
			return "ok";
		case HJG_ERR_MEMORY:
			return "out of memory";
		case HJG_ERR_CANCELLED:
			return "cancelled";
		case HJG_ERR_INPUT:
			return "input exceeds a limit of the engine";
		case HJG_ERR_DEVICE:
			return "the device's driver refused";
	}
	return "unknown status";
}

/* Bound the bytes for any number of threads, with at most 64 segments and one for every 64 rows. */
size_t
hjg_join_workspace_bytes(int width, int nthreads, hjg_u64 build_rows, hjg_u32 probe_rows)
{
	const int	build_slots = hjg_nslots_of(nthreads, build_rows);
	const int	probe_slots = hjg_nslots_of(nthreads, probe_rows);
	const hjg_u32 window_rows = probe_rows < HJG_MAX_WINDOW_ROWS ? probe_rows : HJG_MAX_WINDOW_ROWS;
	const size_t buckets = hjg_table_build_bytes(width, build_rows, build_slots);
	const size_t by_key = width == HJG_KEY_WIDTH_16 ? 0 : hjg_direct_build_bytes(build_rows, build_slots);

	return sizeof(HjgJoin) + 4096 +
		(buckets > by_key ? buckets : by_key) +
		hjg_engine_probe_slots_bytes(probe_slots) +
		hjg_engine_probe_window_bytes(window_rows) +
		sizeof(HjgKeyRun) * ((build_rows > probe_rows ? build_rows : probe_rows) / 64 + 64);
}

/* Allocate a join without a table. */
static HjgStatus
make_join(const HjgEnv *env, const HjgJoinSpec *spec, HjgJoin **result)
{
	HjgJoin    *join;

	*result = NULL;
	if (spec->key_width != HJG_KEY_WIDTH_4 && spec->key_width != HJG_KEY_WIDTH_8 &&
		spec->key_width != HJG_KEY_WIDTH_16)
		return HJG_ERR_INPUT;
	if ((unsigned) spec->mode > HJG_MATCH_ANTI || (unsigned) spec->strategy > HJG_CPU_NOP)
		return HJG_ERR_INPUT;
	join = env->alloc(env->arg, sizeof(HjgJoin));
	if (join == NULL)
		return HJG_ERR_MEMORY;
	memset(join, 0, sizeof(HjgJoin));
	join->env = *env;
	join->spec = *spec;
	join->isa = hjg_engine_isa();
	join->width_ix = spec->key_width == 4 ? 0 : spec->key_width == 8 ? 1 : 2;
	join->live_bytes = sizeof(HjgJoin);
	join->stats.workspace_bytes = sizeof(HjgJoin);
	*result = join;
	return HJG_OK;
}

static void
note_table(HjgJoin *join)
{
	join->stats.build_rows = join->table.nrows;
	join->stats.strategy = join->table.rows != NULL ? HJG_CPU_DIRECT : HJG_CPU_NOP;
}

HjgStatus
hjg_join_attach(const HjgEnv *env, const HjgJoinSpec *spec, hjg_u64 nrows,
				const void *const parts[HJG_TABLE_NPARTS], HjgJoin **result)
{
	HjgStatus	status = make_join(env, spec, result);

	if (status != HJG_OK)
		return status;
	(*result)->table = hjg_table_at(spec->key_width, nrows, parts[HJG_TABLE_TUPLES], parts[HJG_TABLE_LINES]);
	note_table(*result);
	return HJG_OK;
}

HjgStatus
hjg_join_build(const HjgEnv *env, const HjgJoinSpec *spec, const HjgSegment *segments, int nsegments,
			   HjgJoin **result)
{
	HjgJoin    *join;
	HjgRuns		runs;
	bool		direct = false;
	HjgStatus	status = nsegments < 0 ? HJG_ERR_INPUT : make_join(env, spec, &join);

	*result = NULL;
	if (status != HJG_OK)
		return status;
	status = hjg_runs_set(join, &runs, segments, nsegments, false);
	if (status == HJG_OK)
		status = runs.packed ? HJG_ERR_INPUT : hjg_direct_build(join, &runs, &direct);
	if (status == HJG_OK && !direct)
		status = hjg_table_build(join, &runs);
	if (status != HJG_OK)
	{
		hjg_join_free(join);
		return status;
	}
	note_table(join);
	*result = join;
	return HJG_OK;
}

/* Estimate pairs a probe row in the rounds so far. */
static double
expected_pairs(const HjgJoin *join)
{
	return join->seen_rows > 0 ? join->seen_pairs / join->seen_rows : 1;
}

static void
note_pairs(HjgJoin *join, double rows, double pairs)
{
	if (join->seen_rows > 1e6)
	{
		join->seen_rows /= 2;
		join->seen_pairs /= 2;
	}
	join->seen_rows += rows;
	join->seen_pairs += pairs;
}

/*
 * Estimate the rows, of the nrows left, whose pairs are likely to fit in room, for the fast path.  0: too
 * few to be worth it.
 */
static hjg_u32
rows_that_fit(const HjgJoin *join, HjgMatchMode mode, hjg_u64 nrows, hjg_u64 room)
{
	const bool	one_pair_at_most = mode == HJG_MATCH_SEMI || mode == HJG_MATCH_ANTI;
	hjg_u64		rows;

	if (one_pair_at_most && room >= nrows)
		return (hjg_u32) nrows;
	if (join->ordered_rounds > 0)
		return 0;
	if (expected_pairs(join) * (double) nrows <= 1.02 * (double) room)
		return (hjg_u32) nrows;
	/* the expectation is below nrows rows here, so it is not 0 */
	rows = one_pair_at_most ? room : (hjg_u64) (0.9 * (double) room / expected_pairs(join));
	return rows >= hjg_engine_tuning.min_fast_rows && rows < nrows ? (hjg_u32) rows : 0;
}

/* Choose the rows of the next window: those that are likely to fill the room, and some more. */
static hjg_u32
window_rows(double pairs_per_row, hjg_u64 room, hjg_u64 nrows)
{
	double		rows = (double) room / (pairs_per_row > 0.01 ? pairs_per_row : 0.01) * 1.1 + 64;
	hjg_u32		most = nrows < HJG_MAX_WINDOW_ROWS ? (hjg_u32) nrows : HJG_MAX_WINDOW_ROWS;

	return rows < most ? (hjg_u32) rows : most;
}

HjgStatus
hjg_join_probe(HjgJoin *join, const HjgSegment *segments, int nsegments, HjgCursor *cursor,
			   HjgResult *result)
{
	hjg_u64		capacity = result->npages > 0 ? (hjg_u64) result->npages * result->page_pairs : 0;
	/* one match of each row, any one: the same as mode SEMI */
	const HjgMatchMode mode = cursor->most == 1 ? HJG_MATCH_SEMI : join->spec.mode;
	HjgCursor	at = *cursor;
	hjg_u64		npairs = 0;
	bool		overflowed = false;
	HjgRuns		runs;
	HjgStatus	status;

	if (capacity == 0 || nsegments < 0)
		return HJG_ERR_INPUT;
	status = hjg_runs_set(join, &runs, segments, nsegments, true);
	if (status != HJG_OK)
		return status;
	if (runs.packed)
		return HJG_ERR_INPUT;
	if (at.row > runs.nrows || (at.row == runs.nrows && at.skip > 0))
		return HJG_ERR_INPUT;
	if (at.most > 0 && (join->spec.mode != HJG_MATCH_ALL || at.most > capacity || (at.most == 1 && at.skip > 0)))
		return HJG_ERR_INPUT;

	result->checksum = 0;
	while (at.row < runs.nrows && npairs < capacity)
	{
		const hjg_u64 nrows = runs.nrows - at.row;
		const hjg_u64 room = capacity - npairs;
		const hjg_u32 fast_rows = at.most <= 1 && at.skip == 0 && !overflowed ?
			rows_that_fit(join, mode, nrows, room) : 0;

		if (fast_rows > 0)
		{
			hjg_u64		before = npairs;
			bool		fits = false;

			status = hjg_engine_probe_all(join, mode, &runs, at.row, fast_rows, result, &npairs, &fits);
			if (status != HJG_OK)
				return status;
			if (fits)
			{
				if (at.most == 0)
					note_pairs(join, (double) fast_rows, (double) (npairs - before));
				join->overflow_penalty = 0;
				at.row += fast_rows;
			}
			else
			{
				/* back off for more rounds each time, up to a limit */
				overflowed = true;
				join->overflow_penalty = join->overflow_penalty < 8 ? 2 * join->overflow_penalty + 1 : 15;
				join->ordered_rounds = join->overflow_penalty + 1;
			}
		}
		else
		{
			HjgCursor	before = at;
			hjg_u64		npairs_before = npairs;
			hjg_u32		window = 1;

			/* a row that was cut is its own window, so that the fast path may follow */
			if (at.most > 0)
				window = window_rows((double) at.most, room, nrows);
			else if (at.skip == 0)
				window = window_rows(expected_pairs(join), room, nrows);
			status = hjg_engine_probe_window(join, mode, &runs, window, &at, result, &npairs);
			if (status != HJG_OK)
				return status;
			if (at.most > 0 && at.row == before.row)
				break;			/* the row's slice does not fit any more */
			if (at.most == 0 && before.skip == 0)
				note_pairs(join, (double) (at.row - before.row) + (at.skip > 0), (double) (npairs - npairs_before));
		}
	}
	if (join->ordered_rounds > 0)
		join->ordered_rounds--;

	join->stats.probe_rows += at.row - cursor->row;
	join->stats.pairs += npairs;
	result->npairs = npairs;
	result->summed = result->sum;
	*cursor = at;
	return HJG_OK;
}

void
hjg_join_stats(const HjgJoin *join, HjgJobStats *stats)
{
	*stats = join->stats;
}

void
hjg_join_free(HjgJoin *join)
{
	HjgEnv		env;

	if (join == NULL)
		return;
	env = join->env;
	hjg_block_free(join, &join->lines_block);
	hjg_block_free(join, &join->tuples_block);
	hjg_block_free(join, &join->runs_block);
	hjg_block_free(join, &join->partition_block);
	hjg_block_free(join, &join->histogram_block);
	hjg_block_free(join, &join->slots_block);
	hjg_block_free(join, &join->counts_block);
	env.free(env.arg, join, sizeof(HjgJoin));
}
