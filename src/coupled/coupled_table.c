/*
 * coupled_table.c
 *	  Tables of the coupled engine: sizes, building, merging.
 */
#include <math.h>

#include "coupled/hjg_coupled_internal.h"

/* Largest table of a partition, where no costs are known. */
#define PARTITION_BYTES (1024 * 1024)
#define MAX_RADIX_BITS 14

static hjg_u32
bucket_bits_of(hjg_u64 nrows, int part_bits)
{
	hjg_u32		bits = 4;

	/* a number has at most 31 bits, including the partition's */
	while (bits < (hjg_u32) (31 - part_bits) && (hjg_u64) 1 << bits < nrows)
		bits++;
	return bits;
}

/* Find the least time a row of a step whose rows both processors share. */
static double
divided_ns(const HjgStepCosts *costs, const HjgStepNs ns, HjgStep step, double rows)
{
	return 1 / (1 / hjg_step_cost_ns(costs, ns, HJG_ON_CPU, step, rows) + 1 / hjg_step_cost_ns(costs, ns, HJG_ON_DEVICE, step, rows));
}

/*
 * Predict the time a row of a join by 2^bits partitions: both sides' passes, and the steps on tables as small
 * as a partition's.
 */
static double
partitioned_ns(const HjgStepCosts *costs, double nrows, int bits)
{
	static const HjgStep pass[] = {HJG_STEP_NUMBER, HJG_STEP_N2, HJG_STEP_N3};
	static const HjgStep steps[] = {HJG_STEP_B2, HJG_STEP_B3, HJG_STEP_B4, HJG_STEP_P2, HJG_STEP_P3, HJG_STEP_P4};
	double		ns = 0;

	for (int i = 0; i < 3; i++)
		ns += (bits > HJG_COUPLED_PASS_BITS ? 4 : 2) * divided_ns(costs, costs->alone_ns[1], pass[i], nrows);
	for (int i = 0; i < 6; i++)
		ns += divided_ns(costs, costs->alone_ns[0], steps[i], ldexp(nrows, -bits));
	return ns;
}

int
hjg_coupled_radix_bits(const HjgCoupled *join, hjg_u64 nrows)
{
	const HjgStepCosts *costs = join->runner != NULL ? join->config.costs : NULL;
	const hjg_u64 table_bytes = nrows * (hjg_step_key_node_bytes(join->base.spec.key_width) + 16);
	const int	bucket_bits = (int) bucket_bits_of(nrows, 0);
	int			bits = 0;

	/* 000, section 5.1, takes the number of passes from the model, too */
	if (costs != NULL)
	{
		for (int b = 1; b <= MAX_RADIX_BITS && b < bucket_bits; b++)
			if (bits == 0 || partitioned_ns(costs, (double) nrows, b) < partitioned_ns(costs, (double) nrows, bits))
				bits = b;
	}
	else
		while (bits < MAX_RADIX_BITS && bits + 1 < bucket_bits && table_bytes >> bits > PARTITION_BYTES)
			bits++;
	/* PHJ partitions even small sides */
	return bits > 0 ? bits : bucket_bits > 3 ? 2 : 1;
}

static hjg_u32
block_nodes_of(const HjgCoupled *join, size_t node_bytes)
{
	const hjg_u32 nodes = join->config.block_bytes / (hjg_u32) node_bytes;

	/* a work group takes up to 64 nodes at once */
	return join->config.block_bytes == 0 ? 1 : nodes < 64 ? 64 : nodes;
}

/*
 * Lay out a table for part->nrows rows, with its offsets in part->args; returns its bytes, of which the
 * first *header_bytes must be zeroed.
 */
static size_t
lay_table(const HjgCoupled *join, HjgCoupledPart *part, size_t *header_bytes)
{
	HjgStepArgs *args = &part->args;
	const size_t key_bytes = hjg_step_key_node_bytes(join->base.spec.key_width);
	const hjg_u64 nworkers = (hjg_u64) join->cpu_threads + (join->runner != NULL ? (hjg_u64) join->runner->nworkers : 0);
	const hjg_u64 nbuckets = (hjg_u64) 1 << part->bucket_bits;
	hjg_u64		nslots;
	size_t		bytes = 64;

	/* one block size in nodes serves both arrays: the one for key nodes */
	args->block_nodes = block_nodes_of(join, key_bytes);
	nslots = part->nrows + nworkers * args->block_nodes;
	args->max_keys = args->max_rids = nslots > 0xFFFFFFFEu ? 0xFFFFFFFEu : (hjg_u32) nslots;

	args->allocator_off = hjg_coupled_lay(&bytes, 1, sizeof(HjgStepAllocator));
	args->blocks_off = hjg_coupled_lay(&bytes, HJG_COUPLED_WORKERS, sizeof(HjgStepBlocks));
	args->headers_off[0] = hjg_coupled_lay(&bytes, nbuckets, sizeof(HjgStepHeader));
	args->headers_off[1] = args->headers_off[0];
	if (join->config.separate_tables && join->runner != NULL && !hjg_coupled_is_basic_unit(join))
		args->headers_off[1] = hjg_coupled_lay(&bytes, nbuckets, sizeof(HjgStepHeader));
	*header_bytes = bytes;
	args->key_nodes_off = hjg_coupled_lay(&bytes, nslots, key_bytes);
	args->rid_nodes_off = hjg_coupled_lay(&bytes, nslots, sizeof(HjgStepRidNode));
	return bytes;
}

size_t
hjg_coupled_table_bytes(const HjgCoupled *join, hjg_u64 nrows, int part_bits)
{
	HjgCoupledPart part = {.nrows = nrows, .bucket_bits = bucket_bits_of(nrows, part_bits)};
	size_t		header_bytes;

	return lay_table(join, &part, &header_bytes);
}

size_t
hjg_coupled_header_bytes(const HjgCoupled *join, hjg_u64 nrows)
{
	HjgCoupledPart part = {.nrows = nrows, .bucket_bits = bucket_bits_of(nrows, 0)};
	size_t		header_bytes;

	(void) lay_table(join, &part, &header_bytes);
	return header_bytes;
}

typedef struct Zero
{
	hjg_u8	   *base;
	size_t		bytes;
} Zero;

#define ZERO_UNIT 65536

static void
zero_units(void *arg, hjg_u32 begin, hjg_u32 end, int slot)
{
	const Zero *zero = arg;
	size_t		from = (size_t) begin * ZERO_UNIT;
	size_t		to = (size_t) end * ZERO_UNIT;

	(void) slot;
	memset(zero->base + from, 0, (to < zero->bytes ? to : zero->bytes) - from);
}

HjgStatus
hjg_coupled_zero(HjgCoupled *join, hjg_u8 *base, size_t bytes)
{
	Zero		zero = {base, bytes};

	return hjg_coupled_on_cpu(join, 0, (hjg_u32) ((bytes + ZERO_UNIT - 1) / ZERO_UNIT), 1, zero_units, &zero);
}

HjgStatus
hjg_coupled_make_table(HjgCoupled *join, HjgCoupledPart *part)
{
	size_t		header_bytes;
	size_t		bytes;
	HjgStatus	status;

	part->bucket_bits = bucket_bits_of(part->nrows, join->part_bits);
	part->args.skip_bits = (hjg_u32) join->part_bits;
	bytes = lay_table(join, part, &header_bytes);
	if (bytes > hjg_coupled_buffer_limit(join) || part->args.max_keys < part->nrows)
		return HJG_ERR_INPUT;
	status = hjg_region_reserve(join, &part->table, bytes);
	if (status != HJG_OK)
		return status;
	status = hjg_coupled_zero(join, part->table.base, header_bytes);
	return status == HJG_OK ? hjg_copies_new_table(join, part, header_bytes) : status;
}

HjgStatus
hjg_coupled_build_rows(HjgCoupled *join, const HjgStepArgs *work_args, const HjgRuns *runs, hjg_u64 first_run_row,
					   hjg_u32 nrows)
{
	const HjgCoupledPart *part = join->part;
	const HjgStepAllocator *allocator = (const HjgStepAllocator *) (part->table.base + part->args.allocator_off);
	HjgStatus	status;
	HjgSeries	series = {
		.nsteps = 4,
		.steps = {runs != NULL ? HJG_STEP_HASH : HJG_STEP_NUMBER, HJG_STEP_B2, HJG_STEP_B3, HJG_STEP_B4},
		.args = *work_args, .nrows = nrows, .runs = runs, .first_run_row = first_run_row,
		.building = true
	};

	series.args.bits = part->bucket_bits;
	series.args.skip_bits = part->args.skip_bits;
	series.args.split_row = 0xFFFFFFFFu;
	series.splits = part->args.headers_off[1] != part->args.headers_off[0];
	if (runs != NULL)
		status = hjg_feed_run(join, &series, &join->stats.predicted_build_ns);
	else
	{
		join->stats.predicted_build_ns += hjg_series_plan(join, &series);
		status = hjg_series_run(join, &series);
	}
	if (status == HJG_OK)
		status = hjg_copies_flags(join);
	join->stats.allocations = allocator->next_key / part->args.block_nodes;
	return status == HJG_OK && allocator->flags != 0 ? HJG_ERR_INPUT : status;
}

/* ---- separate tables ---- */

/* Merge buckets [begin, end) of the device's table into the CPU's; no other thread works on them. */
static void
merge_buckets(void *arg, hjg_u32 begin, hjg_u32 end, int slot)
{
	const HjgCoupled *join = arg;
	const HjgStepArgs *args = &join->part->args;
	const int	width = join->base.spec.key_width;
	hjg_u8	   *table = join->part->table.base;
	HjgStepHeader *into = (HjgStepHeader *) (table + args->headers_off[0]);
	const HjgStepHeader *from = (const HjgStepHeader *) (table + args->headers_off[1]);
	HjgStepRidNode *rids = (HjgStepRidNode *) (table + args->rid_nodes_off);

	(void) slot;
	for (hjg_u32 bucket = begin; bucket < end; bucket++)
	{
		hjg_u32		ref = from[bucket].keys;

		into[bucket].ntuples += from[bucket].ntuples;
		while (ref != 0)
		{
			HjgStepKeyNode *node = hjg_step_key_node(width, table, args, ref);
			const hjg_u32 next = node->next;
			hjg_u32		other = into[bucket].keys;
			HjgStepKeyNode *same = NULL;

			for (; other != 0; other = same->next, same = NULL)
			{
				same = hjg_step_key_node(width, table, args, other);
				if (width == 4 ? same->key4 == node->key4 : memcmp(same + 1, node + 1, (size_t) width) == 0)
					break;
			}
			if (other == 0)
			{
				node->next = into[bucket].keys;
				into[bucket].keys = ref;
			}
			else if (node->rids != 0)
			{
				hjg_u32		last = node->rids;

				/* the device's list goes in front of the CPU's */
				while (rids[last - 1].next != 0)
					last = rids[last - 1].next;
				rids[last - 1].next = same->rids;
				same->rids = node->rids;
				same->nrids += node->nrids;
			}
			ref = next;
		}
	}
}

HjgStatus
hjg_coupled_merge_tables(HjgCoupled *join)
{
	const HjgCoupledPart *part = join->part;
	HjgStatus	status;

	if (part->args.headers_off[1] == part->args.headers_off[0])
		return HJG_OK;
	join->stats.merged_buckets += (hjg_u64) 1 << part->bucket_bits;
	status = hjg_copies_table(join, HJG_ON_CPU, true);
	return status != HJG_OK ? status : hjg_coupled_on_cpu(join, 0, 1u << part->bucket_bits, HJG_COUPLED_UNIT_ROWS, merge_buckets, join);
}
