/*
 * node_group_read.c
 *	  Collects the groups of the node GpuAggregate: rows of its child, and groups from temporary files, into its table.
 *
 * A full table goes to files by partitions, or, if core finishes the groups, its groups are returned (node_grouping.c).
 */
#include "postgres.h"

#include "executor/executor.h"
#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "node/hjg_aggregate.h"

/* Least table that is written: an empty one takes a large part of this. */
#define LEAST_TABLE_BYTES (256 * 1024)

/*
 * Size of a table that fits in a core's cache; size that shows whether larger tables are worthwhile; weight of a vector in
 * that measurement.
 */
#define CACHED_TABLE_BYTES (1024 * 1024)
#define TRIED_TABLE_BYTES (16 * 1024 * 1024)
#define VECTOR_WEIGHT 0.05

/* A process's rows of a group that make a table of all groups worthwhile. */
#define LEAST_ROWS_OF_GROUP 2

/* ---------- rows ---------- */

/* Add the next rows to their groups; false at the end. */
static bool
aggregate_rows(HjgAggregateState *state)
{
	uint32		numbers[HJG_VECTOR_ROWS];
	const int	nrows = hjg_child_next(&state->child, state->groups == NULL && state->ncomputed == 0 ? PG_INT32_MAX : HJG_VECTOR_ROWS);
	int			n;

	if (nrows == 0)
		return false;
	memcpy(state->vectors, state->child.slice, state->child.ncolumns * sizeof(HjgVector));
	n = hjg_computed_rows(state, state->ncomputed, nrows);
	if (state->groups != NULL)
		n = hjg_groups_find(state->groups, state->vectors, n, numbers);
	hjg_child_return(&state->child, nrows, n);
	if (state->groups != NULL)
	{
		const uint32 nbefore = hjg_aggregation_groups(state->aggregation);
		const uint32 ngroups = hjg_groups_count(state->groups);

		state->growth.fresh += VECTOR_WEIGHT * ((double) (ngroups - nbefore) / n - state->growth.fresh);
		hjg_aggregation_add(state->aggregation, state->vectors, n, numbers, ngroups);
	}
	else
		hjg_aggregation_add(state->aggregation, state->vectors, n, NULL, 1);
	return true;
}

/* ---------- groups ---------- */

void
hjg_grouping_forget(HjgAggregateState *state)
{
	/* half of the memory remains for values, of which the next groups may have more */
	const bool	cached = state->growth.in_cache && !state->child_done;
	const size_t most_bytes = Min(get_hash_memory_limit() / 2, cached ? CACHED_TABLE_BYTES : SIZE_MAX);
	const size_t totals_bytes = hjg_aggregation_bytes(state->aggregation, false);
	const bool	keep = state->groups != NULL && hjg_groups_reset(state->groups, most_bytes - Min(totals_bytes, most_bytes));

	hjg_aggregation_clear(state->aggregation, keep);
	state->ngroups = state->next = state->gathered = 0;
}

static void
make_spill(HjgAggregateState *state)
{
	if (state->spill == NULL)
		state->spill = hjg_group_spill_create(state->css.ss.ps.state->es_query_cxt, state->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor,
											  state->nkept, state->kept, state->aggregation, state->share);
}

void
hjg_grouping_free_spill(HjgAggregateState *state)
{
	if (state->spill == NULL)
		return;
	hjg_group_spill_report(state->spill, &state->report);
	hjg_group_spill_free(state->spill);
	state->spill = NULL;
}

/* Write all groups to files and empty the table. */
static void
spill_groups(HjgAggregateState *state)
{
	const uint64 start_ns = hjg_now_ns();

	make_spill(state);
	hjg_group_spill_write(state->spill, state->groups);
	hjg_grouping_forget(state);
	state->report.write_ns += hjg_now_ns() - start_ns;
}

/* Add the next groups of the current partition; false at its end. */
static bool
merge_groups(HjgAggregateState *state)
{
	uint32		numbers[HJG_VECTOR_ROWS];
	int			first;
	int			nrows;
	int			n;

	memset(state->vectors, 0, state->child.ncolumns * sizeof(HjgVector));
	nrows = hjg_group_spill_read(state->spill, state->vectors, &first);
	if (nrows == 0)
		return false;
	n = hjg_computed_rows(state, state->nkey_exprs, nrows);
	n = hjg_groups_find(state->groups, state->vectors, n, numbers);
	hjg_aggregation_merge(state->aggregation, first, n, numbers, hjg_groups_count(state->groups));
	hjg_group_spill_return(state->spill, nrows - n);
	return true;
}

/*
 * Is a table larger than a cache not worthwhile, now that it has this size? The share of rows that begin a group falls in
 * proportion to the groups that are there, if rows come in no order. That tells how many there are in all, and so whether a
 * table of all of them fits in memory and gets each of them several times.
 */
static bool
is_cache_preferred(const HjgAggregateState *state, size_t bytes)
{
	const HjgGroupGrowth *growth = &state->growth;
	const double ngroups = hjg_groups_count(state->groups);
	const double fallen = growth->fresh_in_cache - growth->fresh;
	const double expected = (ngroups - growth->groups_in_cache) / Max(fallen, 1e-10);
	const Plan *child = linitial(castNode(CustomScan, state->css.ss.ps.plan)->custom_plans);

	return expected * LEAST_ROWS_OF_GROUP > child->plan_rows || expected * bytes / ngroups > get_hash_memory_limit();
}

/*
 * Must a table of this size be written to files? Yes if memory is full. Yes at the size of a cache, too, if groups must go to
 * files anyway and a larger table is of little use.
 */
static bool
is_full(HjgAggregateState *state, size_t bytes)
{
	const bool	full = bytes >= Max(get_hash_memory_limit(), LEAST_TABLE_BYTES);
	HjgGroupGrowth *growth = &state->growth;

	if (state->partial || state->child_done || bytes < CACHED_TABLE_BYTES)
		return full;
	if (growth->fresh_in_cache == 0)
	{
		growth->fresh_in_cache = growth->fresh;
		growth->groups_in_cache = hjg_groups_count(state->groups);
	}
	if (!growth->in_cache && (full || (state->share != NULL && bytes >= TRIED_TABLE_BYTES)))
		growth->in_cache = is_cache_preferred(state, bytes);
	return full || growth->in_cache;
}

/* Read until there are groups to be returned; returns true if the input was read to its end. */
static bool
read_to_end(HjgAggregateState *state)
{
	const uint64 start_ns = hjg_now_ns();
	const uint64 written_ns = state->report.write_ns;
	bool		more = true;

	while (more)
	{
		size_t		bytes;

		CHECK_FOR_INTERRUPTS();
		ResetExprContext(state->css.ss.ps.ps_ExprContext);
		more = state->child_done ? merge_groups(state) : aggregate_rows(state);
		if (state->groups == NULL)
			continue;
		bytes = hjg_groups_bytes(state->groups, false) + hjg_aggregation_bytes(state->aggregation, false);
		state->report.peak_bytes = Max(state->report.peak_bytes, bytes);
		if (!more || !is_full(state, hjg_groups_bytes(state->groups, true) + hjg_aggregation_bytes(state->aggregation, true)))
			continue;
		if (state->partial)
		{
			state->report.nfull++;
			break;
		}
		if (state->child_done && !hjg_group_spill_divisible(state->spill))
			continue;
		state->report.nfull++;
		spill_groups(state);
	}
	*(state->child_done ? &state->report.merge_ns : &state->report.read_ns) += hjg_now_ns() - start_ns - (state->report.write_ns - written_ns);
	return !more;
}

/* Exchange the groups with the other participants after all have read their rows. */
static void
exchange_groups(HjgAggregateState *state)
{
	const uint64 start_ns = hjg_now_ns();
	const bool	exchanges = hjg_group_share_all_read(state->share, hjg_groups_count(state->groups) > 0, state->spill != NULL);

	state->report.wait_ns += hjg_now_ns() - start_ns;
	if (exchanges)
	{
		spill_groups(state);
		hjg_group_spill_end_dealing(state->spill);
	}
	hjg_group_share_leave(state->share);
}

/* Have a program run, if there is one, or read the child; in a share only if others have not read it to its end. */
static void
read_child(HjgAggregateState *state)
{
	if (state->other != NULL)
	{
		state->reads_other = !hjg_program_group(state);
		state->child_done = true;
	}
	else if (state->share == NULL)
		state->child_done = read_to_end(state);
	else
	{
		if (hjg_group_share_enter(state->share))
			(void) read_to_end(state);
		state->child_done = true;
		exchange_groups(state);
	}
}

void
hjg_grouping_read(HjgAggregateState *state)
{
	if (!state->child_done)
		read_child(state);
	else if (state->spill != NULL && hjg_group_spill_next_partition(state->spill))
		(void) read_to_end(state);
	else
	{
		state->at_end = true;
		return;
	}
	if (state->reads_other)
		return;
	/* if some groups went to files, those in the table are not complete */
	if (state->spill != NULL && hjg_group_spill_writing(state->spill))
		spill_groups(state);
	state->at_end = state->child_done && state->spill == NULL;
	state->ngroups = state->groups != NULL ? hjg_groups_count(state->groups) : 1;
	state->next = 0;
}
