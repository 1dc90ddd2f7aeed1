/*
 * node_partition.c
 *	  Joins larger than memory: both sides go to temporary files, by a hash of the encoded key, and are joined partition by
 *	  partition (a Grace hash join).
 *
 * Rows with equal keys are always in the same partition. Each level of partitioning uses hash bits of its own.
 */
#include "postgres.h"

#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "node/hjg_build.h"

static HjgPartition *
make_partition(HjgPartitions *partitions, int level)
{
	MemoryContext old = MemoryContextSwitchTo(partitions->context);
	HjgPartition *partition = palloc0(sizeof(HjgPartition));

	partition->build = hjg_rows_spill_create(partitions->build->side->payload.desc, partitions->build->side->keys.codec->key_width);
	partition->probe = hjg_rows_spill_create(partitions->outer->payload.desc, partitions->outer->keys.codec->key_width);
	partition->level = level;
	MemoryContextSwitchTo(old);
	return partition;
}

void
hjg_partition_free(HjgPartition *partition)
{
	hjg_rows_spill_free(partition->build);
	hjg_rows_spill_free(partition->probe);
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

/* Make partitions for so many bytes of build side, and route rows to them. */
static void
make_routes(HjgPartitions *partitions, double bytes, int level)
{
	MemoryContext old;

	partitions->nroutes = hjg_partition_count(bytes, HJG_SPILL_BUFFER_BYTES);
	old = MemoryContextSwitchTo(partitions->context);
	partitions->routes = palloc(partitions->nroutes * sizeof(HjgPartition *));
	for (int i = 0; i < partitions->nroutes; i++)
		partitions->routes[i] = make_partition(partitions, level);
	partitions->execution->report->npartitions += partitions->nroutes;
	MemoryContextSwitchTo(old);
}

static inline HjgPartition *
route_key(HjgPartitions *partitions, const void *key, int level)
{
	uint32		hash = hjg_rows_key_partition_hash(key, partitions->build->side->keys.codec->key_width, level);

	return partitions->routes[hash & (partitions->nroutes - 1)];
}

void
hjg_partitions_count(HjgPartition *const *partitions, int n, HjgReport *report)
{
	uint64		build_bytes = 0;

	for (int i = 0; i < n; i++)
	{
		build_bytes += hjg_rows_spill_bytes(partitions[i]->build);
		report->spilled_bytes += hjg_rows_spill_bytes(partitions[i]->build) + hjg_rows_spill_bytes(partitions[i]->probe);
	}
	hjg_service_count_largest(HJG_COUNT_LARGEST_SPILLED_BUILD, build_bytes / (1024 * 1024) + 1);
}

/* Queue the routed partitions, after the last row. */
static void
queue_routes(HjgPartitions *partitions)
{
	MemoryContext old = MemoryContextSwitchTo(partitions->context);

	hjg_partitions_count(partitions->routes, partitions->nroutes, partitions->execution->report);
	for (int i = 0; i < partitions->nroutes; i++)
		partitions->waiting = lappend(partitions->waiting, partitions->routes[i]);
	pfree(partitions->routes);
	partitions->routes = NULL;
	partitions->nroutes = 0;
	MemoryContextSwitchTo(old);
}

/* Write the rows of the pass, which did not fit in memory, to the partitions. */
static void
move_pass(HjgPartitions *partitions)
{
	HjgBuild   *build = partitions->build;
	HjgSide    *side = build->side;
	HjgRun	   *run = build->run;
	HjgKeyBuffer *keys = &run->build;
	Datum	   *values = palloc(HJG_VECTOR_ROWS * Max(side->payload.n, 1) * sizeof(Datum));
	bool	   *isnull = palloc(HJG_VECTOR_ROWS * Max(side->payload.n, 1) * sizeof(bool));
	HjgBuildShare   *share = run->share;
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
			hjg_rows_store_gather(build->rows, rows, n, side->payload.identity, side->payload.n, values, isnull);
			for (int i = 0; i < n; i++)
			{
				const char *key = segment->keys + (size_t) (at + i) * run->key_width;

				hjg_rows_spill_write(route_key(partitions, key, 0)->build, key, values + i * side->payload.n,
									 isnull + i * side->payload.n);
			}
		}
	}
	pfree(values);
	pfree(isnull);
	/* it does not count as a pass */
	run->reported = true;
	hjg_build_close(build);
	if (share != NULL)
		share->spilled(share);
}

void
hjg_partitions_start(HjgPartitions *partitions, double total_rows, size_t build_bytes)
{
	HjgProbeFilter *filter = partitions->filter;
	HjgRun	   *run = partitions->build->run;
	double		nrows = run->build.nrows;

	/* the estimate was too low if memory is full already; then twice the rows so far is a fair guess */
	total_rows = Max(total_rows, 2 * nrows);
	partitions->context = AllocSetContextCreate(partitions->execution->estate->es_query_cxt,
												"GpuHashJoin partitions", ALLOCSET_DEFAULT_SIZES);
	if (run->share != NULL)
		run->share->route(run->share, partitions, build_bytes / Max(nrows, 1));
	else
	{
		hjg_service_count(HJG_COUNT_PARTITIONED, 1);
		make_routes(partitions, build_bytes * (total_rows / nrows), 0);
		hjg_probe_filter_start_partitions(filter, partitions->context, total_rows);
	}
	if (filter->bloom.words != NULL)
		hjg_probe_filter_add_run(filter, run);
	move_pass(partitions);
}

void
hjg_partitions_add_build(HjgPartitions *partitions, const HjgRow *row)
{
	if (partitions->filter->bloom.words != NULL)
		hjg_probe_filter_add_key(partitions->filter, row->key);
	hjg_side_spill(partitions->build->side, route_key(partitions, row->key, 0)->build, row);
}

void
hjg_partitions_read_probe(HjgPartitions *partitions)
{
	HjgProbeFilter *filter = partitions->filter;
	HjgBuildShare   *share = partitions->share;
	HjgSide    *side = partitions->outer;
	const bool	preserved = partitions->execution->terms->preserved[HJG_SIDE_PROBE];
	bool		timing = partitions->execution->timing;
	uint64		start = timing ? hjg_now_ns() : 0;
	HjgRow		row;

	hjg_probe_filter_open_partitions(filter);
	while (hjg_side_next(side, &row))
	{
		if (row.key == NULL)
		{
			if (!preserved)
				continue;
			if (partitions->null_probe == NULL)
			{
				MemoryContext old = MemoryContextSwitchTo(partitions->context);

				partitions->null_probe = hjg_rows_spill_create(side->payload.desc, side->keys.codec->key_width);
				MemoryContextSwitchTo(old);
			}
			hjg_side_spill(side, partitions->null_probe, &row);
		}
		else
		{
			HjgPartition *partition = route_key(partitions, row.key, 0);

			if (hjg_probe_filter_is_here(filter) && !hjg_probe_filter_row(filter, row.key))
				continue;
			if (preserved || hjg_rows_spill_nrows(partition->build) > 0)
				hjg_side_spill(side, partition->probe, &row);
		}
	}
	hjg_probe_filter_end_partitions(filter);
	if (partitions->null_probe != NULL)
		hjg_rows_spill_rewind(partitions->null_probe);
	if (share != NULL)
		share->routed(share, partitions);
	else
		queue_routes(partitions);
	if (timing)
		partitions->execution->report->times.marshal_probe_ns += hjg_now_ns() - start;
}

void
hjg_partitions_split(HjgPartitions *partitions, HjgPartition *partition, size_t build_bytes)
{
	HjgSide    *inner = partitions->build->side;
	HjgSide    *outer = partitions->outer;
	const bool	preserved = partitions->execution->terms->preserved[HJG_SIDE_PROBE];
	int			level = partition->level + 1;
	uint64		nbuild = hjg_rows_spill_nrows(partition->build);
	bool		timing = partitions->execution->timing;
	uint64		start = timing ? hjg_now_ns() : 0;
	uint64		nread = 0;
	HjgRow		row;

	make_routes(partitions, build_bytes, level);
	hjg_rows_spill_rewind(partition->build);
	hjg_rows_spill_rewind(partition->probe);
	while (hjg_side_next_spilled(inner, partition->build, &row))
	{
		hjg_side_spill(inner, route_key(partitions, row.key, level)->build, &row);
		if ((++nread & 1023) == 0)
			CHECK_FOR_INTERRUPTS();
	}
	while (hjg_side_next_spilled(outer, partition->probe, &row))
	{
		HjgPartition *part = route_key(partitions, row.key, level);

		if (preserved || hjg_rows_spill_nrows(part->build) > 0)
			hjg_side_spill(outer, part->probe, &row);
		if ((++nread & 1023) == 0)
			CHECK_FOR_INTERRUPTS();
	}
	for (int i = 0; i < partitions->nroutes; i++)
	{
		/* all rows have one key, or keys with one hash */
		if (hjg_rows_spill_nrows(partitions->routes[i]->build) == nbuild)
			partitions->routes[i]->indivisible = true;
	}
	queue_routes(partitions);
	hjg_partition_free(partition);
	if (timing)
		partitions->execution->report->times.marshal_build_ns += hjg_now_ns() - start;
}

bool
hjg_partitions_next_null(HjgPartitions *partitions, HjgRow *row)
{
	return partitions->null_probe != NULL && hjg_side_next_spilled(partitions->outer, partitions->null_probe, row);
}

void
hjg_partitions_reset(HjgPartitions *partitions)
{
	ListCell   *lc;

	if (partitions->context == NULL)
		return;
	/* files are not freed with the context */
	foreach(lc, partitions->waiting)
		hjg_partition_free(lfirst(lc));
	if (partitions->current != NULL)
		hjg_partition_free(partitions->current);
	for (int i = 0; i < partitions->nroutes; i++)
		hjg_partition_free(partitions->routes[i]);
	hjg_rows_spill_free(partitions->null_probe);
	MemoryContextDelete(partitions->context);
	partitions->context = NULL;
	partitions->waiting = NIL;
	partitions->current = NULL;
	partitions->routes = NULL;
	partitions->nroutes = 0;
	partitions->null_probe = NULL;
}
