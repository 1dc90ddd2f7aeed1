/*
 * coupled_large.c
 *	  Build sides larger than the device's largest buffer.
 *
 * After He, Lu and He, appendix A: as in a hash join in external memory, with the buffer in place of
 * memory and all other memory in place of disks.  Build rows pass through the buffer in chunks; each chunk
 * is partitioned there by the steps n1 to n3 and copied out.  The pieces of a partition are then linked,
 * copied in, and built into a separate table by the chosen strategy.  A window of probe rows is
 * partitioned in the same way and joined with one table after the other (coupled_probe.c); each table is
 * lent to the device for that time.  So a row costs one more partitioning step and a copy, whatever the
 * number of parts.
 *
 * The first bits of mixed keys number partitions, the following bits buckets.  If so many rows have one
 * key that their table does not fit a buffer, the join gives up.
 */
#include "coupled/hjg_coupled_internal.h"

/* Most bits of a single pass. */
#define MAX_PART_BITS 8

#define COPY_UNIT 65536

/* Build rows outside the buffer: chunk by chunk, each in order of partition. */
typedef struct Spilled
{
	HjgCoupled *join;
	HjgBlock	block;
	hjg_u8	   *mixed;
	hjg_u32    *rows;
	hjg_u32    *begins;			/* [c * (nparts + 1) + p]: start of partition p within chunk c */
	hjg_u32		chunk_rows;
	hjg_u32		nchunks;
} Spilled;

/* Estimate the rows of the largest of 2^bits parts; keys are mixed. */
static hjg_u64
part_rows(hjg_u64 build_rows, int bits)
{
	const hjg_u64 mean = build_rows >> bits;

	return mean + mean / 16 + 256;
}

/* Choose the bits for parts that fit; above MAX_PART_BITS when there would be too many. */
static int
choose_part_bits(HjgCoupled *join)
{
	const size_t limit = hjg_coupled_buffer_limit(join);
	int			bits = 1;

	for (; bits <= MAX_PART_BITS; bits++)
	{
		const hjg_u64 nrows = part_rows(join->build_rows, bits);

		if (hjg_coupled_table_bytes(join, nrows, bits) <= limit &&
			(!hjg_coupled_is_partitioned(join) ||
			 hjg_coupled_work_rows(join, hjg_coupled_radix_bits(join, nrows), nrows) == nrows))
			break;
	}
	return bits;
}

/* ---- copies ---- */

typedef struct PartCopy
{
	hjg_u8	   *to_mixed;
	hjg_u32    *to_rows;
	const hjg_u8 *mixed;
	const hjg_u32 *rows;
	size_t		width;
} PartCopy;

static void
copy_rows(void *arg, hjg_u32 begin, hjg_u32 end, int slot)
{
	const PartCopy *copy = arg;

	(void) slot;
	memcpy(copy->to_mixed + begin * copy->width, copy->mixed + begin * copy->width, (end - begin) * copy->width);
	memcpy(copy->to_rows + begin, copy->rows + begin, (end - begin) * sizeof(hjg_u32));
}

static HjgStatus
run_copy(HjgCoupled *join, PartCopy *copy, hjg_u32 nrows)
{
	const hjg_u64 started = hjg_now_ns();
	HjgStatus	status;

	copy->width = (size_t) join->base.spec.key_width;
	status = hjg_coupled_on_cpu(join, 0, nrows, COPY_UNIT, copy_rows, copy);
	join->stats.copy_ns += hjg_now_ns() - started;
	return status;
}

/* Note that rows of work are about to be copied out or in. */
static HjgStatus
use_rows(HjgCoupled *join, const HjgStepArgs *args, hjg_u32 nrows, bool reads)
{
	HjgStatus	status = hjg_copies_host(join, args->mixed_off, (size_t) nrows * (size_t) join->base.spec.key_width, reads, !reads,
										 HJG_STEP_N3);

	if (!reads)
		hjg_places_host_wrote(&join->places, HJG_ARRAY_BIT(HJG_ARRAY_MIXED) | HJG_ARRAY_BIT(HJG_ARRAY_ROWS));
	return status == HJG_OK ? hjg_copies_host(join, args->rows_off, (size_t) nrows * 4, reads, !reads, HJG_STEP_N3) : status;
}

/* ---- chunks ---- */

/* Partition the rows of chunk number chunk in the buffer and copy them out. */
static HjgStatus
spill_chunk(Spilled *spilled, const HjgRuns *runs, hjg_u32 chunk, hjg_u32 nrows)
{
	HjgCoupled *join = spilled->join;
	const hjg_u64 row = (hjg_u64) chunk * spilled->chunk_rows;
	const hjg_u32 nparts = 1u << join->part_bits;
	hjg_u32    *begins = spilled->begins + (size_t) chunk * (nparts + 1);
	HjgStepArgs args = join->part->args;
	HjgStatus	status = hjg_region_reserve(join, &join->work, hjg_coupled_lay_work(join, nrows, join->part_bits, &args));
	PartCopy		copy;

	args.skip_bits = 0;
	if (status == HJG_OK)
		status = hjg_coupled_partition(join, runs, row, nrows, join->part_bits, &args, true);
	if (status != HJG_OK)
		return status;
	for (hjg_u32 p = 0; p < nparts; p++)
		begins[p] = hjg_coupled_partition_begin(join, &args, nrows, p);
	begins[nparts] = nrows;
	copy = (PartCopy) {.to_mixed = spilled->mixed + row * (hjg_u64) join->base.spec.key_width, .to_rows = spilled->rows + row,
		.mixed = join->work.base + args.mixed_off, .rows = (const hjg_u32 *) (join->work.base + args.rows_off)};
	status = use_rows(join, &args, nrows, true);
	return status == HJG_OK ? run_copy(join, &copy, nrows) : status;
}

static HjgStatus
spill_runs(Spilled *spilled, const HjgRuns *runs)
{
	HjgCoupled *join = spilled->join;
	const size_t mixed_bytes = hjg_align64(join->build_rows * (hjg_u64) join->base.spec.key_width);
	const size_t row_bytes = hjg_align64(join->build_rows * sizeof(hjg_u32));
	HjgStatus	status = HJG_OK;

	spilled->chunk_rows = hjg_coupled_work_rows(join, join->part_bits, join->build_rows);
	if (spilled->chunk_rows == 0)
		return HJG_ERR_INPUT;
	spilled->nchunks = (hjg_u32) ((join->build_rows + spilled->chunk_rows - 1) / spilled->chunk_rows);
	if (!hjg_block_reserve(&join->base, &spilled->block, mixed_bytes + row_bytes +
						   (size_t) spilled->nchunks * ((1u << join->part_bits) + 1) * sizeof(hjg_u32)))
		return HJG_ERR_MEMORY;
	spilled->mixed = spilled->block.ptr;
	spilled->rows = (hjg_u32 *) (spilled->mixed + mixed_bytes);
	spilled->begins = (hjg_u32 *) (spilled->mixed + mixed_bytes + row_bytes);
	for (hjg_u32 c = 0; c < spilled->nchunks && status == HJG_OK; c++)
	{
		const hjg_u64 left = join->build_rows - (hjg_u64) c * spilled->chunk_rows;

		status = spill_chunk(spilled, runs, c, left < spilled->chunk_rows ? (hjg_u32) left : spilled->chunk_rows);
	}
	return status;
}

/* ---- parts ---- */

/* Copy rows [begin, begin + nrows) of a part's linked pieces into work. */
static HjgStatus
copy_spilled_in(const Spilled *spilled, hjg_u32 part, hjg_u64 begin, hjg_u32 nrows, const HjgStepArgs *args)
{
	HjgCoupled *join = spilled->join;
	const hjg_u64 width = (hjg_u64) join->base.spec.key_width;
	const hjg_u32 nparts = 1u << join->part_bits;
	HjgStatus	status = use_rows(join, args, nrows, false);
	hjg_u32		done = 0;

	for (hjg_u32 c = 0; c < spilled->nchunks && done < nrows && status == HJG_OK; c++)
	{
		const hjg_u32 *begins = spilled->begins + (size_t) c * (nparts + 1) + part;
		const hjg_u32 piece = begins[1] - begins[0];
		hjg_u64		from;
		hjg_u32		n;
		PartCopy		copy;

		if (begin >= piece)
		{
			begin -= piece;
			continue;
		}
		from = (hjg_u64) c * spilled->chunk_rows + begins[0] + begin;
		n = piece - (hjg_u32) begin < nrows - done ? piece - (hjg_u32) begin : nrows - done;
		copy = (PartCopy) {.to_mixed = join->work.base + args->mixed_off + done * width,
			.to_rows = (hjg_u32 *) (join->work.base + args->rows_off) + done,
			.mixed = spilled->mixed + from * width, .rows = spilled->rows + from};
		status = run_copy(join, &copy, n);
		done += n;
		begin = 0;
	}
	return status;
}

static HjgStatus
build_part(const Spilled *spilled, hjg_u32 p)
{
	HjgCoupled *join = spilled->join;
	const int	bits = hjg_coupled_is_partitioned(join) ? join->radix_bits : 0;
	HjgCoupledPart *part = &join->parts[p];
	hjg_u32		window;
	HjgStatus	status;

	for (hjg_u32 c = 0; c < spilled->nchunks; c++)
	{
		const hjg_u32 *begins = spilled->begins + (size_t) c * ((1u << join->part_bits) + 1) + p;

		part->nrows += begins[1] - begins[0];
	}
	status = hjg_coupled_make_table(join, part);
	join->part = part;
	window = hjg_coupled_work_rows(join, bits, part->nrows);
	/* PHJ partitions all rows of a part together */
	if (status == HJG_OK && part->nrows > 0 && (window == 0 || (bits > 0 && window < part->nrows)))
		status = HJG_ERR_INPUT;
	for (hjg_u64 row = 0; row < part->nrows && status == HJG_OK; row += window)
	{
		const hjg_u32 n = part->nrows - row < window ? (hjg_u32) (part->nrows - row) : window;
		HjgStepArgs args = part->args;

		status = hjg_region_reserve(join, &join->work, hjg_coupled_lay_work(join, n, bits, &args));
		if (status == HJG_OK)
			status = copy_spilled_in(spilled, p, row, n, &args);
		if (status == HJG_OK && bits > 0)
			status = hjg_coupled_partition(join, NULL, 0, n, bits, &args, true);
		if (status == HJG_OK)
			status = hjg_coupled_build_rows(join, &args, NULL, 0, n);
	}
	return status == HJG_OK ? hjg_coupled_merge_tables(join) : status;
}

HjgStatus
hjg_coupled_build_parts(HjgCoupled *join, const HjgRuns *runs)
{
	Spilled		spilled = {.join = join};
	const int	bits = choose_part_bits(join);
	HjgStatus	status;

	if (bits > MAX_PART_BITS)
		return HJG_ERR_INPUT;
	/* launches for chunks need a table only for its flags */
	join->whole.nrows = 0;
	status = hjg_coupled_make_table(join, &join->whole);
	if (status != HJG_OK)
		return status;
	join->part_bits = bits;
	join->radix_bits = hjg_coupled_radix_bits(join, part_rows(join->build_rows, bits));
	status = spill_runs(&spilled, runs);
	if (status == HJG_OK && !hjg_block_reserve(&join->base, &join->parts_block, sizeof(HjgCoupledPart) << bits))
		status = HJG_ERR_MEMORY;
	if (status == HJG_OK)
	{
		hjg_coupled_free_region(join, &join->whole.table);
		join->parts = join->parts_block.ptr;
		memset(join->parts, 0, sizeof(HjgCoupledPart) << bits);
	}
	for (hjg_u32 p = 0; p < 1u << bits && status == HJG_OK; p++)
		status = build_part(&spilled, p);
	join->stats.nparts = 1 << bits;
	hjg_block_free(&join->base, &spilled.block);
	return status;
}
