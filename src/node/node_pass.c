/*
 * node_pass.c
 *	  The sequence of build passes: the whole build side, a partition of it, or a part of a partition that cannot be divided.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "node/hjg_build.h"

/* Rows between two checks of the memory, when they come one by one. */
#define CHECK_ROWS 16

/* Is memory full after the last row? Checks only every CHECK_ROWS rows. */
static inline bool
is_full_now(const HjgBuild *build)
{
	return build->run->build.nrows % CHECK_ROWS == 0 && hjg_build_is_full(build);
}

static void
note_peak(const HjgBuild *build, size_t other_bytes)
{
	HjgReport  *report = build->execution->report;

	report->peak_bytes = Max(report->peak_bytes, hjg_build_bytes(build) + other_bytes);
}

/* Finish a pass whose rows are complete. */
static void
finish_pass(HjgPartitions *partitions)
{
	HjgBuild   *build = partitions->build;

	hjg_build_finish(build);
	if (partitions->context == NULL)
		hjg_probe_filter_make(partitions->filter, build->run);
	note_peak(build, build->execution->report->filter_bytes);
}

/* ---------- the inner child ---------- */

bool
hjg_pass_read(HjgPartitions *partitions)
{
	HjgBuild   *build = partitions->build;
	const HjgExecution *execution = build->execution;
	HjgSide    *side = build->side;
	double		plan_rows = side->plan->plan->plan_rows;
	bool		partitioned = false;
	uint64		start = execution->timing ? hjg_now_ns() : 0;
	HjgRow		row;

	hjg_build_open(build, plan_rows, partitions->share);
	for (;;)
	{
		bool		full;

		if (!partitioned && hjg_build_add_vectors(build))
			full = hjg_build_is_full(build);
		else if (!hjg_side_next(side, &row))
			break;
		else if (row.key == NULL)
		{
			hjg_build_add_null(build, &row);
			continue;
		}
		else if (partitioned)
		{
			hjg_partitions_add_build(partitions, &row);
			continue;
		}
		else
		{
			hjg_build_add_row(build, &row);
			full = is_full_now(build);
		}
		if (full)
		{
			note_peak(build, 0);
			hjg_partitions_start(partitions, plan_rows, hjg_build_bytes(build));
			partitioned = true;
		}
	}
	if (partitioned)
		hjg_probe_filter_add_waiting(partitions->filter);
	else
		note_peak(build, 0);
	if (execution->timing)
		execution->report->times.marshal_build_ns += hjg_now_ns() - start;
	return partitioned;
}

/*
 * Is the join's result empty because the probe side has no row? Like core's hash join, look only if a first row is cheaper
 * than reading the build side; and not if more would be read for it, build sides and groups below, than after the filter is made.
 */
static bool
probe_side_is_empty(HjgPartitions *partitions)
{
	const HjgExecution *execution = partitions->execution;
	const HjgSide *inner = partitions->build->side;
	HjgSide    *outer = partitions->outer;
	uint64		start = execution->timing ? hjg_now_ns() : 0;
	bool		empty;

	if (partitions->filter->far || execution->terms->preserved[HJG_SIDE_BUILD] ||
		outer->plan->plan->startup_cost >= inner->plan->plan->total_cost)
		return false;
	empty = !hjg_side_peek(outer);
	if (execution->timing)
		execution->report->times.marshal_probe_ns += hjg_now_ns() - start;
	return empty;
}

HjgFirstPass
hjg_pass_first(HjgPartitions *partitions)
{
	if (probe_side_is_empty(partitions))
		return HJG_FIRST_PASS_NOTHING;
	if (hjg_pass_read(partitions))
	{
		/* this drops probe rows of partitions without build rows, unless they are preserved */
		hjg_partitions_read_probe(partitions);
		return HJG_FIRST_PASS_SPILLED;
	}
	partitions->build->match->last_pass = true;
	finish_pass(partitions);
	return HJG_FIRST_PASS_READY;
}

/* ---------- partitions ---------- */

/* Can a partition contribute anything to the result? */
static bool
partition_matters(const HjgPartitions *partitions, const HjgPartition *partition)
{
	uint64		nbuild = hjg_rows_spill_nrows(partition->build);
	uint64		nprobe = hjg_rows_spill_nrows(partition->probe);
	const bool *preserved = partitions->execution->terms->preserved;

	return (nbuild > 0 && nprobe > 0) || (nprobe > 0 && preserved[HJG_SIDE_PROBE]) ||
		(nbuild > 0 && preserved[HJG_SIDE_BUILD]);
}

/* Read build rows of the current partition until memory is full or the file ends. */
static void
read_partition(HjgPartitions *partitions)
{
	HjgBuild   *build = partitions->build;
	const HjgExecution *execution = build->execution;
	HjgSpill   *spill = partitions->current->build;
	bool		complete = true;
	uint64		start = execution->timing ? hjg_now_ns() : 0;
	HjgRow		row;

	hjg_build_open(build, hjg_rows_spill_nrows(spill), NULL);
	while (hjg_side_next_spilled(build->side, spill, &row))
	{
		hjg_build_add_row(build, &row);
		if ((build->run->build.nrows & 1023) == 0)
			CHECK_FOR_INTERRUPTS();
		if (is_full_now(build) && !hjg_rows_spill_at_end(spill))
		{
			complete = false;
			break;
		}
	}
	if (execution->timing)
		execution->report->times.marshal_build_ns += hjg_now_ns() - start;
	build->match->last_pass = complete;
}

/* Count the words of bits for all probe rows of the current partition. */
static inline size_t
probe_words(const HjgPartitions *partitions)
{
	return hjg_rows_spill_nrows(partitions->current->probe) / 64 + 1;
}

/* Make bits for all probe rows of the current partition, which takes several passes. */
static void
start_passes(HjgPartitions *partitions)
{
	const HjgJoinTerms *terms = partitions->execution->terms;

	if (terms->preserved[HJG_SIDE_PROBE] || terms->jointype == JOIN_SEMI)
		partitions->build->match->probe_bits =
			MemoryContextAllocExtended(partitions->context, probe_words(partitions) * sizeof(uint64),
									   MCXT_ALLOC_ZERO | MCXT_ALLOC_HUGE);
}

/* Write the probe rows that no pass matched to a file of their own, which takes the place of the partition's. */
static void
keep_unmatched_probe(HjgPartitions *partitions)
{
	HjgPartition *partition = partitions->current;
	HjgSide    *side = partitions->outer;
	uint64	   *bits = partitions->build->match->probe_bits;
	MemoryContext old = MemoryContextSwitchTo(partitions->context);
	HjgSpill   *rest = hjg_rows_spill_create(side->payload.desc, side->keys.codec->key_width);
	uint64		nread = 0;
	HjgRow		row;

	MemoryContextSwitchTo(old);
	hjg_rows_spill_rewind(partition->probe);
	while (hjg_side_next_spilled(side, partition->probe, &row))
	{
		if (!hjg_test_bit(bits, nread))
			hjg_side_spill(side, rest, &row);
		if ((++nread & 1023) == 0)
			CHECK_FOR_INTERRUPTS();
	}
	memset(bits, 0, probe_words(partitions) * sizeof(uint64));
	hjg_rows_spill_free(partition->probe);
	partition->probe = rest;
	partitions->execution->report->spilled_bytes += hjg_rows_spill_bytes(rest);
}

/*
 * Drop the probe rows that the last pass of the partition matched, where first matches suffice, if they are half of them or
 * more, so that all such writing takes less than the first pass. Returns false if no further pass matters.
 */
static bool
drop_matched_probe(HjgPartitions *partitions)
{
	const HjgMatch *match = partitions->build->match;
	uint64		nmatched = 0;

	if (match->probe_bits == NULL || !match->first_match)
		return true;
	for (size_t i = 0; i < probe_words(partitions); i++)
		nmatched += pg_popcount64(match->probe_bits[i]);
	if (nmatched < hjg_rows_spill_nrows(partitions->current->probe) - nmatched)
		return true;
	keep_unmatched_probe(partitions);
	return hjg_rows_spill_nrows(partitions->current->probe) > 0 || partitions->execution->terms->preserved[HJG_SIDE_BUILD];
}

static void
finish_partition(HjgPartitions *partitions)
{
	HjgMatch   *match = partitions->build->match;

	hjg_partition_free(partitions->current);
	partitions->current = NULL;
	if (match->probe_bits != NULL)
		pfree(match->probe_bits);
	match->probe_bits = NULL;
}

/* Replace the current partition, which has too many rows for one pass, by its own partitions, if that helps. */
static bool
split_current(HjgPartitions *partitions)
{
	HjgBuild   *build = partitions->build;
	HjgPartition *partition = partitions->current;
	size_t		bytes;

	if (partition->indivisible || partition->level >= HJG_MODEL_MOST_PASSES - 1)
		return false;
	bytes = hjg_build_bytes(build);
	bytes *= (double) hjg_rows_spill_nrows(partition->build) / build->run->build.nrows;
	hjg_build_close(build);
	hjg_partitions_split(partitions, partition, bytes);
	partitions->current = NULL;
	return true;
}

bool
hjg_pass_next(HjgPartitions *partitions)
{
	HjgBuildShare   *share = partitions->share;
	HjgMatch   *match = partitions->build->match;

	hjg_build_close(partitions->build);

	if (partitions->current != NULL && !match->last_pass && drop_matched_probe(partitions))
	{
		read_partition(partitions);
		hjg_rows_spill_rewind(partitions->current->probe);
		finish_pass(partitions);
		return true;
	}

	for (;;)
	{
		if (partitions->current != NULL)
			finish_partition(partitions);
		if (partitions->waiting == NIL && (share == NULL || !share->claim_partition(share, partitions)))
			return false;
		partitions->current = llast(partitions->waiting);
		partitions->waiting = list_delete_last(partitions->waiting);
		if (!partition_matters(partitions, partitions->current))
			continue;

		hjg_rows_spill_rewind(partitions->current->build);
		hjg_rows_spill_rewind(partitions->current->probe);
		read_partition(partitions);
		if (!match->last_pass)
		{
			if (split_current(partitions))
				continue;
			start_passes(partitions);
		}
		finish_pass(partitions);
		return true;
	}
}
