/*
 * lab_cuda_smj.c
 *	  Sort-merge join (cuda_sort.cu, cuda_merge_join.cu): "smj".
 *
 * The build side is sorted once, each probe side when it comes.  The pairs of each probe row are counted,
 * summed and written to their places, so the output needs no atomics and its size is known before a pair
 * is written.
 */
#include <stdlib.h>

#include "lab/hjg_cuda_paper.h"

#define IMAGE "cuda_merge_join"
#define THREADS 256

#define KERNEL(kernel_name) {.image = IMAGE, .name = kernel_name}
#define BY_WIDTH(stem) {KERNEL(stem "_4"), KERNEL(stem "_8"), KERNEL(stem "_16")}

static HjgCudaKernel find_meetings[HJG_CUDA_WIDTHS] = BY_WIDTH("hjg_k_find_meetings");
static HjgCudaKernel count_below[HJG_CUDA_WIDTHS] = BY_WIDTH("hjg_k_count_below");
static HjgCudaKernel count_matches[HJG_CUDA_WIDTHS] = BY_WIDTH("hjg_k_count_matches");
static HjgCudaKernel write_matches[HJG_CUDA_WIDTHS][HJG_CUDA_KINDS] = {
	{KERNEL("hjg_k_write_matches_4_checksum"), KERNEL("hjg_k_write_matches_4_pairs")},
	{KERNEL("hjg_k_write_matches_8_checksum"), KERNEL("hjg_k_write_matches_8_pairs")},
	{KERNEL("hjg_k_write_matches_16_checksum"), KERNEL("hjg_k_write_matches_16_pairs")},
};

typedef struct SmjTable
{
	int			key_width;
	HjgMatchMode mode;
	HjgCudaRows build;			/* sorted */
} SmjTable;

/* Buffers of a probe besides its sorted rows. */
typedef struct Walk
{
	HjgCudaPtr	paths;
	HjgCudaPtr	below;
	HjgCudaPtr	offsets;
	HjgCudaPtr	sums;
} Walk;

static hjg_u64
ntiles_of_shape(const HjgCudaShape *shape)
{
	return (shape->build_rows + shape->probe_rows) / hjg_lab_merge_tile(shape->key_width) + 1;
}

static size_t
walk_bytes(const HjgCudaShape *shape)
{
	return hjg_cuda_block_bytes((ntiles_of_shape(shape) + 1) * sizeof(hjg_u32)) +
		hjg_cuda_block_bytes(shape->probe_rows * sizeof(hjg_u32)) +
		hjg_cuda_block_bytes((shape->probe_rows + 1) * sizeof(hjg_u64)) +
		hjg_cuda_block_bytes(hjg_cuda_scan_entries(shape->probe_rows + 1) * sizeof(hjg_u64));
}

static bool
smj_suits(const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	return hjg_lab_paper_suits(shape);
}

static size_t
smj_bytes(const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	const size_t build = hjg_lab_rows_bytes(shape->key_width, shape->build_rows);
	const size_t building = hjg_lab_merge_sort_bytes(shape->key_width, shape->build_rows);
	const size_t probing = build + hjg_lab_merge_sort_bytes(shape->key_width, shape->probe_rows) + walk_bytes(shape);

	return building > probing ? building : probing;
}

/*
 * Count the bytes: two walks over both sides; for a probe row 4 bytes written and read, 8 written, scanned
 * and read.
 */
hjg_u64
hjg_lab_traffic_smj(const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	const hjg_u64 row_bytes = (hjg_u64) shape->key_width + sizeof(hjg_u32);

	return hjg_lab_merge_sort_traffic(shape->key_width, shape->build_rows) +
		hjg_lab_merge_sort_traffic(shape->key_width, shape->probe_rows) +
		2 * (shape->build_rows + shape->probe_rows) * row_bytes +
		shape->probe_rows * (3 * sizeof(hjg_u32) + 4 * sizeof(hjg_u64) + 2 * row_bytes);
}

static void
smj_free(HjgCudaStream *stream, void *join)
{
	SmjTable	   *table = join;

	hjg_lab_rows_free(stream, &table->build);
	free(table);
}

static HjgStatus
smj_build(HjgCudaStream *stream, const HjgCudaShape *shape, const HjgCudaSide *build, void **result)
{
	SmjTable	   *table = calloc(1, sizeof(SmjTable));
	HjgStatus	status;

	if (table == NULL)
		return HJG_ERR_MEMORY;
	table->key_width = shape->key_width;
	table->mode = shape->mode;
	status = hjg_cuda_mark(stream, HJG_CUDA_BUILD);
	if (status == HJG_OK)
		status = hjg_lab_merge_sort(stream, shape->key_width, build, &table->build);
	if (status != HJG_OK)
	{
		smj_free(stream, table);
		return status;
	}
	*result = table;
	return HJG_OK;
}

/* Launch one walk over both sides. */
static HjgStatus
walk_sides(HjgCudaStream *stream, HjgCudaKernel *kernel, int key_width, HjgKMergeJoin *args)
{
	const hjg_u64 all = (hjg_u64) args->build_rows + args->probe_rows;
	const hjg_u64 tile = hjg_lab_merge_tile(key_width);
	const hjg_u64 ntiles = (all + tile - 1) / tile;
	HjgStatus	status;

	status = hjg_cuda_launch(stream, &find_meetings[hjg_cuda_width_ix(key_width)],
							 (unsigned) (ntiles / THREADS + 1), THREADS, 0, (void *[]) {args});
	if (status == HJG_OK)
		status = hjg_cuda_launch(stream, kernel, (unsigned) ntiles, THREADS, 0, (void *[]) {args});
	return status;
}

static HjgStatus
alloc_walk(HjgCudaStream *stream, const SmjTable *table, hjg_u64 nprobe, Walk *walk)
{
	const HjgCudaShape shape = {.key_width = table->key_width, .build_rows = table->build.nrows, .probe_rows = nprobe};
	HjgStatus	status = hjg_cuda_alloc(stream, (ntiles_of_shape(&shape) + 1) * sizeof(hjg_u32), &walk->paths);

	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, nprobe * sizeof(hjg_u32), &walk->below);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, (nprobe + 1) * sizeof(hjg_u64), &walk->offsets);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, hjg_cuda_scan_entries(nprobe + 1) * sizeof(hjg_u64), &walk->sums);
	return status;
}

static HjgStatus
join_sorted(HjgCudaStream *stream, const SmjTable *table, const HjgCudaRows *probe, const HjgCudaOutput *output)
{
	const int	w = hjg_cuda_width_ix(table->key_width);
	Walk		walk = {0};
	HjgStatus	status = alloc_walk(stream, table, probe->nrows, &walk);
	HjgKMergeJoin args = {
		.build = hjg_lab_kernel_rows(&table->build), .probe = hjg_lab_kernel_rows(probe), .paths = walk.paths,
		.below = walk.below, .offsets = walk.offsets, .output = hjg_lab_kernel_output(output),
		.build_rows = (hjg_u32) table->build.nrows, .probe_rows = (hjg_u32) probe->nrows, .mode = table->mode
	};

	if (status == HJG_OK)
		status = walk_sides(stream, &count_below[w], table->key_width, &args);
	if (status == HJG_OK)
		status = hjg_cuda_zero(stream, walk.offsets + probe->nrows * sizeof(hjg_u64), sizeof(hjg_u64));
	args.behind = true;
	if (status == HJG_OK)
		status = walk_sides(stream, &count_matches[w], table->key_width, &args);
	if (status == HJG_OK)
		status = hjg_cuda_scan(stream, walk.offsets, probe->nrows + 1, walk.sums);
	if (status == HJG_OK)
		status = hjg_cuda_launch_filling(stream, &write_matches[w][hjg_cuda_kind(output)], THREADS, 0,
										 (probe->nrows + THREADS - 1) / THREADS, &args);
	hjg_cuda_free(stream, walk.paths);
	hjg_cuda_free(stream, walk.below);
	hjg_cuda_free(stream, walk.offsets);
	hjg_cuda_free(stream, walk.sums);
	return status;
}

static HjgStatus
smj_probe(HjgCudaStream *stream, void *join, const HjgCudaSide *probe, const HjgCudaOutput *output)
{
	const SmjTable *table = join;
	HjgCudaRows sorted = {0};
	HjgStatus	status;

	if (write_matches[0][hjg_cuda_kind(output)].name == NULL)
		return HJG_ERR_INPUT;
	if (probe->nrows == 0)
		return HJG_OK;
	status = hjg_cuda_mark(stream, HJG_CUDA_PARTITION);
	if (status == HJG_OK)
		status = hjg_lab_merge_sort(stream, table->key_width, probe, &sorted);
	if (status == HJG_OK)
		status = hjg_cuda_mark(stream, HJG_CUDA_PROBE);
	if (status == HJG_OK)
		status = join_sorted(stream, table, &sorted, output);
	hjg_lab_rows_free(stream, &sorted);
	return status;
}

HJG_CUDA_STRATEGY(smj,
	.suits = smj_suits,
	.bytes = smj_bytes,
	.build = smj_build,
	.probe = smj_probe,
	.free = smj_free
);
