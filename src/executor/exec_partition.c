/*
 * exec_partition.c
 *	  Joins larger than memory: both sides go to temporary files, by a hash of
 *	  the encoded key, and are joined partition by partition (a Grace hash join).
 *
 * The rows of equal keys always meet in one partition.  Each level of partitioning
 * uses hash bits of its own.
 */
#include "postgres.h"

#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "executor/hjg_executor.h"

static HjgPartition *
make_partition(HjgJoinState *state, int level)
{
	MemoryContext old = MemoryContextSwitchTo(state->partition_context);
	HjgPartition *partition = palloc0(sizeof(HjgPartition));

	partition->build = hjg_spill_create(state->inner.spill_desc, state->inner.codec->key_width);
	partition->probe = hjg_spill_create(state->outer.spill_desc, state->outer.codec->key_width);
	partition->level = level;
	MemoryContextSwitchTo(old);
	return partition;
}

void
hjg_partition_free(HjgPartition *partition)
{
	hjg_spill_free(partition->build);
	hjg_spill_free(partition->probe);
	pfree(partition);
}

HjgPartition *
hjg_partition_adopt(HjgSpill *build, HjgSpill *probe)
{
	HjgPartition *partition = palloc0(sizeof(HjgPartition));

	partition->build = build;
	partition->probe = probe;
	return partition;
}

int
hjg_partition_count(double bytes, size_t buffer_bytes)
{
	return hjg_model_partitions(bytes, get_hash_memory_limit(), buffer_bytes);
}

/* Make partitions for so many bytes of build side and route rows to them. */
static void
make_routes(HjgJoinState *state, double bytes, int level)
{
	MemoryContext old;

	state->nroutes = hjg_partition_count(bytes, HJG_SPILL_BUFFER_BYTES);
	old = MemoryContextSwitchTo(state->partition_context);
	state->routes = palloc(state->nroutes * sizeof(HjgPartition *));
	for (int i = 0; i < state->nroutes; i++)
		state->routes[i] = make_partition(state, level);
	state->report.npartitions += state->nroutes;
	MemoryContextSwitchTo(old);
}

static inline HjgPartition *
route(HjgJoinState *state, const void *key, int level)
{
	uint32		hash = hjg_key_partition_hash(key, state->inner.codec->key_width, level);

	return state->routes[hash & (state->nroutes - 1)];
}

/* All rows are in: the routed partitions wait for their turn. */
static void
queue_routes(HjgJoinState *state)
{
	MemoryContext old = MemoryContextSwitchTo(state->partition_context);

	for (int i = 0; i < state->nroutes; i++)
	{
		HjgPartition *partition = state->routes[i];

		state->report.spilled_bytes += hjg_spill_bytes(partition->build) + hjg_spill_bytes(partition->probe);
		state->partitions = lappend(state->partitions, partition);
	}
	pfree(state->routes);
	state->routes = NULL;
	state->nroutes = 0;
	MemoryContextSwitchTo(old);
}

/* Write the rows of the load, which was unpartitioned so far, to the partitions. */
static void
move_load(HjgJoinState *state)
{
	HjgSide    *side = &state->inner;
	HjgKeyBuffer *keys = &state->run->build;
	Datum	   *values = palloc(HJG_VECTOR_ROWS * Max(side->ncarried, 1) * sizeof(Datum));
	bool	   *isnull = palloc(HJG_VECTOR_ROWS * Max(side->ncarried, 1) * sizeof(bool));
	HjgParallel *share = state->run->share;
	uint32		rows[HJG_VECTOR_ROWS];

	for (int s = 0; s < keys->nsegments; s++)
	{
		HjgKeySegment *segment = &keys->segments[s];

		for (uint32 at = 0; at < segment->nrows; at += HJG_VECTOR_ROWS)
		{
			int			n = Min(segment->nrows - at, HJG_VECTOR_ROWS);

			CHECK_FOR_INTERRUPTS();
			for (int i = 0; i < n; i++)
				rows[i] = segment->first_row + at + i;
			hjg_store_gather(state->build_rows, rows, n, side->identity, side->ncarried, values, isnull);
			for (int i = 0; i < n; i++)
			{
				const char *key = segment->keys + (size_t) (at + i) * state->run->key_width;

				hjg_spill_write(route(state, key, 0)->build, key, values + i * side->ncarried,
								isnull + i * side->ncarried);
			}
		}
	}
	pfree(values);
	pfree(isnull);
	/* this was no load after all */
	state->run->reported = true;
	hjg_load_free(state);
	if (share != NULL)
		hjg_parallel_unload(share);
}

void
hjg_partition_start(HjgJoinState *state, double total_rows, size_t load_bytes)
{
	double		nrows = state->run->build.nrows;

	/* the estimate was too low if it got us here; twice what is there is a fair guess then */
	total_rows = Max(total_rows, 2 * nrows);
	state->partition_context = AllocSetContextCreate(state->css.ss.ps.state->es_query_cxt,
													 "GpuHashJoin partitions", ALLOCSET_DEFAULT_SIZES);
	if (state->run->share != NULL)
		hjg_parallel_route(state, load_bytes / Max(nrows, 1));
	else
	{
		hjg_service_count(HJG_COUNT_PARTITIONED, 1);
		make_routes(state, load_bytes * (total_rows / nrows), 0);
		hjg_probe_filter_start_partitions(state, total_rows);
	}
	if (state->filter.bloom.words != NULL)
		hjg_probe_filter_add_load(state);
	move_load(state);
}

void
hjg_partition_add_build(HjgJoinState *state, const HjgRow *row)
{
	if (state->filter.bloom.words != NULL)
		hjg_probe_filter_add_key(state, row->key);
	hjg_side_spill(&state->inner, route(state, row->key, 0)->build, row);
}

void
hjg_partition_probe_side(HjgJoinState *state)
{
	HjgSide    *side = &state->outer;
	bool		timing = hjg_exec_timing(state);
	uint64		start = timing ? hjg_now_ns() : 0;
	HjgRow		row;

	hjg_probe_filter_open_partitions(state);
	while (hjg_side_next(state, side, &row))
	{
		if (row.key == NULL)
		{
			if (!side->preserved)
				continue;
			if (state->null_probe == NULL)
			{
				MemoryContext old = MemoryContextSwitchTo(state->partition_context);

				state->null_probe = hjg_spill_create(side->spill_desc, side->codec->key_width);
				MemoryContextSwitchTo(old);
			}
			hjg_side_spill(side, state->null_probe, &row);
		}
		else
		{
			HjgPartition *partition = route(state, row.key, 0);

			if (state->filter.open && !hjg_probe_filter_row(state, row.key))
				continue;
			if (side->preserved || hjg_spill_nrows(partition->build) > 0)
				hjg_side_spill(side, partition->probe, &row);
		}
	}
	hjg_probe_filter_end_partitions(state);
	if (state->null_probe != NULL)
		hjg_spill_rewind(state->null_probe);
	if (state->parallel != NULL)
		hjg_parallel_routed(state);
	else
		queue_routes(state);
	if (timing)
		state->report.times.marshal_probe_ns += hjg_now_ns() - start;
}

void
hjg_partition_split(HjgJoinState *state, HjgPartition *partition, size_t load_bytes)
{
	int			level = partition->level + 1;
	uint64		nbuild = hjg_spill_nrows(partition->build);
	bool		timing = hjg_exec_timing(state);
	uint64		start = timing ? hjg_now_ns() : 0;
	uint64		nread = 0;
	HjgRow		row;

	make_routes(state, load_bytes, level);
	hjg_spill_rewind(partition->build);
	hjg_spill_rewind(partition->probe);
	while (hjg_side_next_spilled(&state->inner, partition->build, &row))
	{
		hjg_side_spill(&state->inner, route(state, row.key, level)->build, &row);
		if ((++nread & 1023) == 0)
			CHECK_FOR_INTERRUPTS();
	}
	while (hjg_side_next_spilled(&state->outer, partition->probe, &row))
	{
		HjgPartition *part = route(state, row.key, level);

		if (state->outer.preserved || hjg_spill_nrows(part->build) > 0)
			hjg_side_spill(&state->outer, part->probe, &row);
		if ((++nread & 1023) == 0)
			CHECK_FOR_INTERRUPTS();
	}
	for (int i = 0; i < state->nroutes; i++)
	{
		/* all rows have one key, or one hash of their keys */
		if (hjg_spill_nrows(state->routes[i]->build) == nbuild)
			state->routes[i]->indivisible = true;
	}
	queue_routes(state);
	hjg_partition_free(partition);
	if (timing)
		state->report.times.marshal_build_ns += hjg_now_ns() - start;
}
