/*
 * coupled_probe.c
 *	  Rounds of the coupled engine: windows of probe rows into bounded results.
 *
 * A window passes through p1, p2 and p3, which count the pairs of each row.  The prefix sums of the counts
 * are the places of the pairs, and show which row the end of the result cuts.  p4 then writes all pairs of
 * the rows before that one, each row's in any order.  The host writes the pairs of the row that is cut,
 * and of a row that an earlier round has cut (coupled_cut.c).  A slice of one match a row uses the steps
 * of mode SEMI; for wider slices, all pairs of the rows are returned.
 *
 * If the build side is in several tables, the window's rows are partitioned likewise and pass through the
 * steps part by part.  A cut needs the order of rows, so such a window is repeated with fewer rows until
 * all their pairs fit, in the end with one row.
 *
 * Grouping orders the rows of each block of GROUP_ROWS by the sizes of their buckets, so that rows with
 * similar work are neighbours in p3 (section 3.3, workload divergence).
 */
#include <math.h>

#include "coupled/hjg_coupled_internal.h"

#define GROUP_ROWS 4096
#define LEAST_WINDOW_ROWS 64
#define NGROUPS 32

/* Rows of a block of the prefix sum. */
#define SUM_ROWS 16384
#define MAX_SUMS (HJG_MAX_PROBE_ROWS / SUM_ROWS + 1)

typedef struct ProbeWindow
{
	HjgCoupled *join;
	HjgStepArgs args;
	hjg_u32		nrows;
	hjg_u64		base;			/* pairs of the round before the window */
	hjg_u64		sums[MAX_SUMS];
} ProbeWindow;

static inline hjg_u32 *
work_words(const ProbeWindow *window, hjg_u64 off)
{
	return (hjg_u32 *) (window->join->work.base + off);
}

/* ---- grouping ---- */

static inline hjg_u32
group_of(hjg_u32 ntuples)
{
	return ntuples < NGROUPS - 1 ? ntuples : NGROUPS - 1;
}

/* Rows of a piece, which begins at args. */
typedef struct Grouped
{
	HjgCoupled *join;
	const HjgStepArgs *args;
} Grouped;

static void
group_block(void *arg, hjg_u32 begin, hjg_u32 end, int slot)
{
	const Grouped *grouped = arg;
	const hjg_u32 *ntuples = (const hjg_u32 *) (grouped->join->work.base + grouped->args->counts_off);
	hjg_u32    *order = (hjg_u32 *) (grouped->join->work.base + grouped->args->order_off);
	hjg_u32		start[NGROUPS + 1] = {0};

	(void) slot;
	for (hjg_u32 i = begin; i < end; i++)
		start[group_of(ntuples[i]) + 1]++;
	for (int g = 0; g < NGROUPS; g++)
		start[g + 1] += start[g];
	for (hjg_u32 i = begin; i < end; i++)
		order[begin + start[group_of(ntuples[i])]++] = i;
}

/* ---- prefix sums ---- */

static void
sum_block(void *arg, hjg_u32 begin, hjg_u32 end, int slot)
{
	ProbeWindow	   *window = arg;
	const hjg_u32 *counts = work_words(window, window->args.counts_off);
	hjg_u64		sum = 0;

	(void) slot;
	for (hjg_u32 i = begin; i < end; i++)
		sum += counts[i];
	window->sums[begin / SUM_ROWS] = sum;
}

/* Compute the offsets of the rows of a block; undefined for rows that do not fit. */
static void
offset_block(void *arg, hjg_u32 begin, hjg_u32 end, int slot)
{
	ProbeWindow	   *window = arg;
	const hjg_u32 *counts = work_words(window, window->args.counts_off);
	hjg_u32    *offsets = work_words(window, window->args.offsets_off);
	hjg_u64		sum = window->sums[begin / SUM_ROWS];

	(void) slot;
	for (hjg_u32 i = begin; i < end; i++)
	{
		offsets[i] = (hjg_u32) (window->base + sum);
		sum += counts[i];
	}
}

/* Compute all offsets; *total is the number of pairs of the window. */
static HjgStatus
sum_counts(ProbeWindow *window, hjg_u64 *total)
{
	const size_t bytes = (size_t) window->nrows * 4;
	HjgStatus	status = hjg_copies_host(window->join, window->args.counts_off, bytes, true, false, HJG_STEP_P3);
	hjg_u64		sum = 0;

	if (status == HJG_OK)
		status = hjg_copies_host(window->join, window->args.offsets_off, bytes, false, true, HJG_STEP_P4);
	if (status == HJG_OK)
		status = hjg_coupled_on_cpu(window->join, 0, window->nrows, SUM_ROWS, sum_block, window);
	if (status != HJG_OK)
		return status;
	for (hjg_u32 i = 0; i * SUM_ROWS < window->nrows; i++)
	{
		hjg_u64		n = window->sums[i];

		window->sums[i] = sum;
		sum += n;
	}
	*total = sum;
	return hjg_coupled_on_cpu(window->join, 0, window->nrows, SUM_ROWS, offset_block, window);
}

/*
 * Count how many rows from the first on have at most room pairs together; *npairs is their number of
 * pairs.
 */
static hjg_u32
window_rows_that_fit(const ProbeWindow *window, hjg_u64 room, hjg_u64 *npairs)
{
	const hjg_u32 *counts = work_words(window, window->args.counts_off);
	hjg_u32		block = 0;
	hjg_u32		row;
	hjg_u64		sum;

	while ((block + 1) * SUM_ROWS < window->nrows && window->sums[block + 1] <= room)
		block++;
	sum = window->sums[block];
	for (row = block * SUM_ROWS; row < window->nrows && sum + counts[row] <= room; row++)
		sum += counts[row];
	*npairs = sum;
	return row;
}

/* ---- windows ---- */

/* Steps of rows that lie together in work and use one table, join->part's. */
typedef struct Piece
{
	hjg_u32		begin;			/* in the window */
	hjg_u32		nrows;
	HjgStepArgs args;			/* from begin on */
} Piece;

/* Take the window's rows of part number p; all of them if there is one part. */
static Piece
take_piece(ProbeWindow *window, int p)
{
	HjgCoupled *join = window->join;
	const HjgStepArgs *work = &window->args;
	/* the partitions of a part are neighbours */
	const hjg_u32 nsub = join->part_bits > 0 ? 1u << (work->bits - (hjg_u32) join->part_bits) : 0;
	Piece		piece = {.nrows = window->nrows, .args = *work};

	join->part = &join->parts[p];
	piece.args.allocator_off = join->part->args.allocator_off;
	piece.args.blocks_off = join->part->args.blocks_off;
	for (int i = 0; i < 2; i++)
		piece.args.headers_off[i] = join->part->args.headers_off[i];
	piece.args.key_nodes_off = join->part->args.key_nodes_off;
	piece.args.rid_nodes_off = join->part->args.rid_nodes_off;
	piece.args.block_nodes = join->part->args.block_nodes;
	piece.args.max_keys = join->part->args.max_keys;
	piece.args.max_rids = join->part->args.max_rids;
	piece.args.skip_bits = join->part->args.skip_bits;
	piece.args.bits = join->part->bucket_bits;
	if (join->part_bits > 0)
	{
		piece.begin = hjg_coupled_partition_begin(join, work, window->nrows, (hjg_u32) p * nsub);
		piece.nrows = hjg_coupled_partition_begin(join, work, window->nrows, ((hjg_u32) p + 1) * nsub) - piece.begin;
		hjg_series_shift(join, &piece.args, piece.begin);
	}
	return piece;
}

/* Run p1 to p3 of a piece, beginning with first. */
static HjgStatus
count_piece(ProbeWindow *window, const Piece *piece, HjgStep first, const HjgRuns *runs, hjg_u32 row)
{
	HjgCoupled *join = window->join;
	HjgSeries	series = {
		.nsteps = 3, .steps = {first, HJG_STEP_P2, HJG_STEP_P3},
		.args = piece->args, .nrows = piece->nrows, .runs = runs, .first_run_row = row
	};
	Grouped		grouped = {join, &piece->args};
	HjgStatus	status;

	/* grouping is a barrier between p2 and p3 */
	if (join->config.grouping)
	{
		series.nsteps = 2;
		series.args.order_off = 0;
	}
	if (first == HJG_STEP_HASH)
		status = hjg_feed_run(join, &series, &join->stats.predicted_probe_ns);
	else
	{
		join->stats.predicted_probe_ns += hjg_series_plan(join, &series);
		status = hjg_series_run(join, &series);
	}
	if (!join->config.grouping)
		return status;
	if (status == HJG_OK)
		status = hjg_coupled_on_cpu(join, 0, piece->nrows, GROUP_ROWS, group_block, &grouped);
	join->stats.grouped_rows += piece->nrows;
	if (status != HJG_OK)
		return status;
	series.nsteps = 1;
	series.steps[0] = HJG_STEP_P3;
	series.args.order_off = piece->args.order_off;
	join->stats.predicted_probe_ns += hjg_series_plan(join, &series);
	/* a block is not divided between processors */
	series.ratios[0] = (hjg_u32) (series.ratios[0] * piece->nrows / GROUP_ROWS) * (double) GROUP_ROWS / piece->nrows;
	return hjg_series_run(join, &series);
}

/* Run p1 to p3 of rows [row, row + nrows) of the batch; bits: of partitions, 0: in their order. */
static HjgStatus
count_probe_window(ProbeWindow *window, const HjgRuns *runs, hjg_u32 row, int bits)
{
	HjgCoupled *join = window->join;
	HjgStatus	status = HJG_OK;
	hjg_u32		done = 0;

	join->part = &join->parts[0];
	if (bits > 0)
	{
		window->args.skip_bits = 0;
		status = hjg_coupled_partition(join, runs, row, window->nrows, bits, &window->args, false);
	}
	for (int p = 0; p < 1 << join->part_bits && done < window->nrows && status == HJG_OK; p++)
	{
		const Piece piece = take_piece(window, p);

		if (piece.nrows > 0)
			status = count_piece(window, &piece, bits > 0 ? HJG_STEP_NUMBER : HJG_STEP_HASH, runs, row);
		done += piece.nrows;
	}
	return status;
}

/* Run p4 of the window's first nrows rows; with several parts, of all rows. */
static HjgStatus
write_probe_window(ProbeWindow *window, hjg_u32 nrows, HjgResult *result)
{
	HjgCoupled *join = window->join;
	HjgStatus	status = HJG_OK;

	for (int p = 0; p < 1 << join->part_bits && status == HJG_OK; p++)
	{
		const Piece piece = take_piece(window, p);
		HjgSeries	series = {.nsteps = 1, .steps = {HJG_STEP_P4}, .args = piece.args, .nrows = piece.nrows, .result = result};

		if (join->part_bits == 0)
			series.nrows = nrows;
		/* offsets follow the rows, so reordered rows have no range of pages of their own */
		series.args.order_off = 0;
		join->stats.predicted_probe_ns += hjg_series_plan(join, &series);
		status = hjg_series_run(join, &series);
	}
	return status;
}

/*
 * Choose the rows of the next window: those likely to fill the room, and some more, or some fewer if a
 * window must not be cut.  If rows have had at most one pair each so far, it is at least as many as the
 * room has pairs; otherwise windows would get ever smaller towards the end of a result.
 */
static hjg_u32
next_window_rows(const HjgCoupled *join, double pairs_per_row, hjg_u64 room, hjg_u32 nrows)
{
	const double rows = (double) room / (pairs_per_row > 0.01 ? pairs_per_row : 0.01);
	const double single = pairs_per_row <= 1 ? (double) room : 1;
	const double wanted = join->part_bits > 0 ? fmax(rows * 0.95 + 1, single) : rows * 1.1 + 64;
	const hjg_u32 most = nrows < join->window_rows ? nrows : join->window_rows;

	return wanted < most ? (hjg_u32) wanted : most;
}

/* The state of a round and how its windows are taken. */
typedef struct ProbeRound
{
	const HjgRuns *runs;
	HjgResult  *result;
	hjg_u64		capacity;
	hjg_u64		npairs;			/* so far */
	bool		partition;		/* PHJ, until a cut occurs */
	hjg_u32		most;			/* rows of the next window */
} ProbeRound;

/* Probe one window from *at on; advances *at and round->npairs, or changes how the window is taken. */
static HjgStatus
probe_window(HjgCoupled *join, ProbeRound *round, HjgCursor *at)
{
	ProbeWindow		window = {.join = join, .args = join->parts[0].args, .base = round->npairs};
	const hjg_u64 room = round->capacity - round->npairs;
	/* one match of each row, any one, is mode SEMI */
	const bool	first_only = at->most == 1 && at->skip == 0 && join->base.spec.mode == HJG_MATCH_ALL;
	hjg_u32		nrows = next_window_rows(join, first_only ? 1 : join->pairs_per_row, room, (hjg_u32) (round->runs->nrows - at->row));
	int			bits = join->part_bits;
	hjg_u64		total;
	hjg_u64		fitting = 0;
	HjgStatus	status;

	/* a row that was cut is a window of its own */
	if (at->skip > 0)
		nrows = 1;
	if (nrows > round->most)
		nrows = round->most;
	if (round->partition && at->skip == 0 && nrows >= 64)
		bits += join->radix_bits;
	status = hjg_region_reserve(join, &join->work, hjg_coupled_lay_work(join, nrows, bits, &window.args));
	window.nrows = nrows;
	window.args.mode = first_only ? HJG_MATCH_SEMI : join->base.spec.mode;
	if (status == HJG_OK)
		status = count_probe_window(&window, round->runs, at->row, bits);
	if (status == HJG_OK)
		status = sum_counts(&window, &total);
	if (status != HJG_OK)
		return status;

	if (at->skip > 0)
	{
		const hjg_u64 left = total > at->skip ? total - at->skip : 0;
		const hjg_u64 n = left < room ? left : room;

		/* at most the rows of the build side: fits 32 bits */
		status = hjg_coupled_emit_cut(join, &window.args, 0, at->skip, (hjg_u32) n, round->result, round->npairs);
		round->npairs += n;
		*at = n < left ? (HjgCursor) {at->row, 0, at->skip + n} : (HjgCursor) {at->row + 1, 0, 0};
		return status;
	}
	if (!first_only)
		join->pairs_per_row = 0.75 * (double) total / nrows + 0.25 * join->pairs_per_row;
	if (total <= room)
	{
		status = write_probe_window(&window, nrows, round->result);
		round->npairs += total;
		round->most = HJG_MAX_PROBE_ROWS;
		at->row += nrows;
		return status;
	}
	/*
	 * a cut needs the order of rows: repeat in that order, or with so few rows that there is no cut, or
	 * with one row
	 */
	if (join->part_bits == 0 && bits > 0)
	{
		round->partition = false;
		return HJG_OK;
	}
	if (join->part_bits > 0 && nrows > 1)
	{
		round->most = (hjg_u32) ((double) nrows * fmin((double) room / (double) total, 0.55) * 0.9) + 1;
		return HJG_OK;
	}
	if (join->part_bits > 0)
		nrows = 0;
	else
	{
		nrows = window_rows_that_fit(&window, room, &fitting);
		status = write_probe_window(&window, nrows, round->result);
	}
	if (status == HJG_OK && fitting < room)
		status = hjg_coupled_emit_cut(join, &window.args, nrows, 0, (hjg_u32) (room - fitting), round->result, round->npairs + fitting);
	round->npairs = round->capacity;
	*at = (HjgCursor) {at->row + nrows, fitting < room ? 0 : at->most, room - fitting};
	return status;
}

/*
 * Choose windows for which all arrays of work fit the buffer.  Only a configured limit, never a device's,
 * can be so small that D's windows alone exceed it; they may.
 */
static void
set_window_rows(HjgCoupled *join)
{
	const int	bits = join->part_bits + (hjg_coupled_is_partitioned(join) ? join->radix_bits : 0);
	const hjg_u32 fitting = hjg_coupled_work_rows(join, bits, join->config.window_rows);

	join->window_rows = fitting > 0 ? fitting : LEAST_WINDOW_ROWS;
}

HjgStatus
hjg_coupled_probe(HjgCoupled *join, const HjgSegment *segments, int nsegments, HjgCursor *cursor, HjgResult *result)
{
	HjgCursor	at = *cursor;
	hjg_u64		started = hjg_now_ns();
	hjg_u64		partition_ns = join->base.stats.partition_ns;
	const HjgSegment *plain;
	HjgStatus	status;
	HjgRuns		runs;
	ProbeRound		round = {
		.runs = &runs, .result = result, .partition = hjg_coupled_is_partitioned(join), .most = HJG_MAX_PROBE_ROWS,
		.capacity = result->npages > 0 ? (hjg_u64) result->npages * result->page_pairs : 0
	};

	if (join->cpu_join != NULL)
	{
		status = hjg_feed_plain(join, segments, nsegments, &plain);
		return status == HJG_OK ? hjg_join_probe(join->cpu_join, plain, nsegments, cursor, result) : status;
	}
	/* the steps count a round's pairs in 32 bits */
	if (round.capacity == 0 || round.capacity > 0x7FFFFFFFu || nsegments < 0)
		return HJG_ERR_INPUT;
	status = hjg_feed_open(join->base.spec.key_width, segments, nsegments);
	if (status == HJG_OK)
		status = hjg_runs_set(&join->base, &runs, segments, nsegments, true);
	if (status == HJG_OK && runs.packed && join->pipe.was_rows == 0)
		hjg_units_feed(join);
	if (status == HJG_OK && (at.row > runs.nrows || (at.row == runs.nrows && at.skip > 0)))
		status = HJG_ERR_INPUT;
	set_window_rows(join);
	hjg_pool_hold(join->base.env.pool, join->cpu_threads - 1);
	while (status == HJG_OK && at.row < runs.nrows && round.npairs < round.capacity)
		status = probe_window(join, &round, &at);
	hjg_pool_hold(join->base.env.pool, 1 - join->cpu_threads);
	if (status != HJG_OK)
		return status;
	join->base.stats.probe_ns += hjg_now_ns() - started - (join->base.stats.partition_ns - partition_ns);
	join->base.stats.probe_rows += at.row - cursor->row;
	if (join->config.costs != NULL && join->runner != NULL)
		join->stats.predicted_probe_ns += hjg_size_cost_ns(join->config.costs, join->config.costs->probe_rest_ns[hjg_coupled_is_partitioned(join)],
																 (double) join->build_rows) *
			(double) (at.row - cursor->row);
	join->base.stats.pairs += round.npairs;
	result->npairs = round.npairs;
	*cursor = at;
	return HJG_OK;
}
