/*
 * lab_cuda_nop.c
 *	  Non-partitioned hash joins (cuda_nop.cu): "nop_chain" with lists, "nop_open" with open addressing.
 *
 * Duplicates are joined, unless they would make a walk so long that a kernel cannot end in time; the build
 * notices that and refuses.
 */
#include <stdlib.h>

#include "lab/hjg_cuda_paper.h"

#define IMAGE "cuda_nop"
#define THREADS 256
#define SLOTS_A_ROW 2			/* of open addressing */

#define KERNEL(kernel_name) {.image = IMAGE, .name = kernel_name}
#define BY_WIDTH(stem) {KERNEL(stem "_4"), KERNEL(stem "_8"), KERNEL(stem "_16")}
#define BY_OUTPUT(stem) \
	{ \
		{KERNEL(stem "_4_checksum"), KERNEL(stem "_4_pairs")}, \
		{KERNEL(stem "_8_checksum"), KERNEL(stem "_8_pairs")}, \
		{KERNEL(stem "_16_checksum"), KERNEL(stem "_16_pairs")}, \
	}

static HjgCudaKernel insert_chains[HJG_CUDA_WIDTHS] = BY_WIDTH("hjg_k_insert_chains");
static HjgCudaKernel insert_slots[HJG_CUDA_WIDTHS] = BY_WIDTH("hjg_k_insert_slots");
static HjgCudaKernel probe_chains[HJG_CUDA_WIDTHS][HJG_CUDA_KINDS] = BY_OUTPUT("hjg_k_probe_chains");
static HjgCudaKernel probe_slots[HJG_CUDA_WIDTHS][HJG_CUDA_KINDS] = BY_OUTPUT("hjg_k_probe_slots");
static HjgCudaKernel measure_chains = KERNEL("hjg_k_measure_chains");

typedef struct NopTable
{
	HjgCudaPtr	block;			/* heads and links, or slots; then crowded */
	HjgKNop		args;
	int			width_ix;
} NopTable;

static void
nop_free(HjgCudaStream *stream, void *join)
{
	NopTable	   *table = join;

	hjg_cuda_free(stream, table->block);
	free(table);
}

/* Make a table of table_bytes, all ones, with crowded behind it. */
static HjgStatus
begin_nop_table(HjgCudaStream *stream, const HjgCudaShape *shape, const HjgCudaSide *build, size_t table_bytes,
				NopTable **result)
{
	NopTable	   *table = calloc(1, sizeof(NopTable));
	HjgStatus	status;

	if (table == NULL)
		return HJG_ERR_MEMORY;
	table->width_ix = hjg_cuda_width_ix(shape->key_width);
	table->args = (HjgKNop) {.build = hjg_lab_kernel_side(build), .mode = shape->mode};
	status = hjg_cuda_alloc(stream, table_bytes + sizeof(hjg_u32), &table->block);
	table->args.crowded = table->block + table_bytes;
	if (status == HJG_OK)
		status = hjg_cuda_mark(stream, HJG_CUDA_BUILD);
	if (status == HJG_OK)
		status = hjg_cuda_check(stream, hjg_cuda.set_bytes(table->block, 0xFF, table_bytes, stream->handle), "empty table");
	if (status == HJG_OK)
		status = hjg_cuda_zero(stream, table->args.crowded, sizeof(hjg_u32));
	if (status != HJG_OK)
	{
		nop_free(stream, table);
		return status;
	}
	*result = table;
	return HJG_OK;
}

static HjgStatus
end_nop_table(HjgCudaStream *stream, NopTable *table, HjgStatus status, void **result)
{
	hjg_u32		crowded = 0;

	if (status == HJG_OK)
		status = hjg_cuda_copy_out(stream, &crowded, table->args.crowded, sizeof(crowded));
	if (status == HJG_OK)
		status = hjg_cuda_wait(stream);
	if (status == HJG_OK && crowded)
		status = HJG_ERR_INPUT;
	if (status != HJG_OK)
	{
		nop_free(stream, table);
		return status;
	}
	*result = table;
	return HJG_OK;
}

static HjgStatus
launch_nop(HjgCudaStream *stream, HjgCudaKernel *kernel, hjg_u64 nrows, HjgKNop *args)
{
	return hjg_cuda_launch_filling(stream, kernel, THREADS, 0, (nrows + THREADS - 1) / THREADS, args);
}

static HjgStatus
probe_with(HjgCudaStream *stream, NopTable *table, HjgCudaKernel (*kernels)[HJG_CUDA_KINDS], const HjgCudaSide *probe,
		   const HjgCudaOutput *output)
{
	HjgCudaKernel *kernel = &kernels[table->width_ix][hjg_cuda_kind(output)];
	HjgKNop		args = table->args;
	HjgStatus	status;

	if (kernel->name == NULL)
		return HJG_ERR_INPUT;
	args.probe = hjg_lab_kernel_side(probe);
	args.sink.output = hjg_lab_kernel_output(output);
	status = hjg_cuda_mark(stream, HJG_CUDA_PROBE);
	return status == HJG_OK ? launch_nop(stream, kernel, probe->nrows, &args) : status;
}

static bool
nop_suits(const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	return hjg_lab_paper_suits(shape);
}

/* ---- nop_chain ---- */

static size_t
chain_table_bytes(hjg_u64 nrows)
{
	return 2 * nrows * sizeof(hjg_u32);
}

static size_t
chain_bytes(const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	return hjg_cuda_block_bytes(chain_table_bytes(shape->build_rows) + sizeof(hjg_u32));
}

/*
 * Count the bytes: emptying; an insertion reads and writes the sector of a head; a search that finds its
 * key at once reads three sectors.
 */
hjg_u64
hjg_lab_traffic_nop_chain(const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	const hjg_u64 width = (hjg_u64) shape->key_width;

	return chain_table_bytes(shape->build_rows) + shape->build_rows * (width + 2 * HJG_K_SECTOR_BYTES + sizeof(hjg_u32)) +
		shape->probe_rows * (width + sizeof(hjg_u32) + 3 * HJG_K_SECTOR_BYTES);
}

static HjgStatus
chain_build(HjgCudaStream *stream, const HjgCudaShape *shape, const HjgCudaSide *build, void **result)
{
	NopTable	   *table;
	HjgStatus	status = begin_nop_table(stream, shape, build, chain_table_bytes(build->nrows), &table);

	if (status != HJG_OK)
		return status;
	table->args.nslots = (hjg_u32) build->nrows;
	table->args.heads = table->block;
	table->args.next = table->block + build->nrows * sizeof(hjg_u32);
	status = launch_nop(stream, &insert_chains[table->width_ix], build->nrows, &table->args);
	if (status == HJG_OK)
		status = launch_nop(stream, &measure_chains, build->nrows, &table->args);
	return end_nop_table(stream, table, status, result);
}

static HjgStatus
chain_probe(HjgCudaStream *stream, void *table, const HjgCudaSide *probe, const HjgCudaOutput *output)
{
	return probe_with(stream, table, probe_chains, probe, output);
}

HJG_CUDA_STRATEGY(nop_chain,
	.suits = nop_suits,
	.bytes = chain_bytes,
	.build = chain_build,
	.probe = chain_probe,
	.free = nop_free
);

/* ---- nop_open ---- */

static size_t
open_table_bytes(hjg_u64 nrows)
{
	return nrows * SLOTS_A_ROW * sizeof(hjg_u64);
}

static size_t
open_bytes(const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	return hjg_cuda_block_bytes(open_table_bytes(shape->build_rows) + sizeof(hjg_u32));
}

/*
 * Count the bytes: the steps of a search at this load mostly stay in one sector; wide keys are compared in
 * their column.
 */
hjg_u64
hjg_lab_traffic_nop_open(const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	const hjg_u64 width = (hjg_u64) shape->key_width;
	const hjg_u64 sectors = shape->key_width == HJG_KEY_WIDTH_4 ? 1 : 2;

	return open_table_bytes(shape->build_rows) + shape->build_rows * (width + 2 * HJG_K_SECTOR_BYTES) +
		shape->probe_rows * (width + sizeof(hjg_u32) + sectors * HJG_K_SECTOR_BYTES);
}

static HjgStatus
open_build(HjgCudaStream *stream, const HjgCudaShape *shape, const HjgCudaSide *build, void **result)
{
	NopTable	   *table;
	HjgStatus	status = begin_nop_table(stream, shape, build, open_table_bytes(build->nrows), &table);

	if (status != HJG_OK)
		return status;
	table->args.nslots = (hjg_u32) (build->nrows * SLOTS_A_ROW);
	table->args.slots = table->block;
	status = launch_nop(stream, &insert_slots[table->width_ix], build->nrows, &table->args);
	return end_nop_table(stream, table, status, result);
}

static HjgStatus
open_probe(HjgCudaStream *stream, void *table, const HjgCudaSide *probe, const HjgCudaOutput *output)
{
	return probe_with(stream, table, probe_slots, probe, output);
}

HJG_CUDA_STRATEGY(nop_open,
	.suits = nop_suits,
	.bytes = open_bytes,
	.build = open_build,
	.probe = open_probe,
	.free = nop_free
);
