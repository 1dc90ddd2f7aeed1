/*
 * lab_cuda_match.c
 *	  Joins of co-partitions (cuda_match.cu): nested loops or hashed, with each kind of output.
 *
 * Units are joined by a grid that fills the device, some thousands a launch: a launch ends soon on any
 * data, and between launches a cancelled job is noticed.
 */
#include <string.h>

#include "lab/hjg_cuda_paper.h"
#include "lab/hjg_lab_stream.h"

#define IMAGE "cuda_match"
#define THREADS 512
#define BLOCKS 2				/* of a multiprocessor, with the largest tables */
#define MOST_BLOCKS 4			/* with smaller ones */
#define STATIC_SHARED 10240		/* more than any of the kernels uses and the device reserves */
#define HEADS_BYTES (4u << HJG_K_HEAD_BITS)
#define NESTED_LIMIT 1536u
#define HASHED_LIMIT 6144u
#define LEAST_LIMIT 256u
#define UNITS_A_BLOCK 32		/* of a launch */
#define LAUNCHES_UNWATCHED 8
#define PIECE_ROWS 8192			/* probe rows of a task in the queue */

#define KERNEL(kernel_name) {.image = IMAGE, .name = kernel_name}
#define OF_CHAINS(stem) \
	[HJG_CUDA_PUT_WARP] = KERNEL(stem "_warp"), [HJG_CUDA_SINK_SUM] = KERNEL(stem "_sum")
#define BY_SINK(stem) \
	{ \
		OF_CHAINS(stem), [HJG_CUDA_PUT_BLOCK] = KERNEL(stem "_block"), [HJG_CUDA_PUT_PAGE] = KERNEL(stem "_page"), \
		[HJG_CUDA_PUT_TWICE] = KERNEL(stem "_count"), [HJG_CUDA_SINK_PLACE] = KERNEL(stem "_place"), \
		[HJG_CUDA_PUT_GROUPS] = KERNEL(stem "_group"), [HJG_CUDA_PUT_WORST] = KERNEL(stem "_slot") \
	}

static HjgCudaKernel kernels[HJG_CUDA_METHODS][HJG_CUDA_WIDTHS][HJG_CUDA_SINK_END] = {
	[HJG_CUDA_NESTED] = {BY_SINK("hjg_k_match_nested_4"), BY_SINK("hjg_k_match_nested_8"), BY_SINK("hjg_k_match_nested_16")},
	[HJG_CUDA_HASHED] = {BY_SINK("hjg_k_match_hashed_4"), BY_SINK("hjg_k_match_hashed_8"), BY_SINK("hjg_k_match_hashed_16")},
	[HJG_CUDA_HASHED_VT4] = {
		{OF_CHAINS("hjg_k_match_hashed_vt4_4")}, {OF_CHAINS("hjg_k_match_hashed_vt4_8")}, {OF_CHAINS("hjg_k_match_hashed_vt4_16")}
	},
	[HJG_CUDA_HASHED_DEVICE] = {
		{OF_CHAINS("hjg_k_match_device_4")}, {OF_CHAINS("hjg_k_match_device_8")}, {OF_CHAINS("hjg_k_match_device_16")}
	},
};

static bool
has_heads(HjgCudaMethod method)
{
	return method == HJG_CUDA_HASHED || method == HJG_CUDA_HASHED_VT4;
}

static unsigned
row_bytes_of(int key_width, HjgCudaMethod method)
{
	return (unsigned) key_width + 4 + (has_heads(method) ? 2 : 0);
}

static size_t
tables_bytes(HjgCudaMethod method, hjg_u64 nblocks)
{
	return method == HJG_CUDA_HASHED_DEVICE ? nblocks * HJG_K_TABLE_BYTES(HASHED_LIMIT) : 0;
}

hjg_u32
hjg_lab_match_limit(const HjgCudaDevice *device, int key_width, HjgCudaMethod method)
{
	const size_t fixed = STATIC_SHARED + (has_heads(method) ? HEADS_BYTES : 0);
	const size_t half = device->shared_bytes / BLOCKS;
	const hjg_u32 most = method == HJG_CUDA_NESTED ? NESTED_LIMIT : HASHED_LIMIT;
	hjg_u32		limit;

	if (half <= fixed)
		return 0;
	if (method == HJG_CUDA_HASHED_DEVICE)
		return HASHED_LIMIT;
	limit = (hjg_u32) ((half - fixed) / row_bytes_of(key_width, method)) / 16 * 16;
	return limit < LEAST_LIMIT ? 0 : limit < most ? limit : most;
}

static hjg_u64
most_blocks(const HjgCudaDevice *device)
{
	return (hjg_u64) device->multiprocessors * MOST_BLOCKS;
}

static size_t
queue_bytes(hjg_u64 probe_rows, hjg_u64 nunits)
{
	return (probe_rows / PIECE_ROWS + nunits) * sizeof(HjgKTask) + sizeof(hjg_u32);
}

size_t
hjg_lab_match_bytes(const HjgCudaDevice *device, HjgCudaMethod method, HjgCudaPutting putting, bool queue, hjg_u64 probe_rows,
					hjg_u64 nunits)
{
	size_t		bytes = hjg_lab_pages_bytes(putting, most_blocks(device), THREADS) +
		hjg_cuda_block_bytes(tables_bytes(method, most_blocks(device)));

	if (putting == HJG_CUDA_PUT_GROUPS || putting == HJG_CUDA_PUT_EXACT)
		bytes += hjg_lab_groups_bytes(probe_rows, most_blocks(device), nunits);
	if (putting == HJG_CUDA_PUT_WORST)
		bytes += hjg_lab_worst_bytes(device);
	if (putting >= HJG_CUDA_PUT_TWICE)
		bytes += hjg_cuda_block_bytes((nunits + 1) * sizeof(hjg_u64)) +
			hjg_cuda_block_bytes(hjg_cuda_scan_entries(nunits + 1) * sizeof(hjg_u64));
	if (queue)
		bytes += hjg_cuda_block_bytes(queue_bytes(probe_rows, nunits));
	return bytes;
}

/* Launch units [from, to) through one kernel. */
static HjgStatus
launch_range(HjgCudaStream *stream, HjgCudaUnits *launch, int sink, hjg_u64 from, hjg_u64 to)
{
	const HjgCudaMatch *match = launch->match;
	HjgCudaKernel *kernel = &kernels[match->method][hjg_cuda_width_ix(match->key_width)][sink];
	const hjg_u64 slice = (hjg_u64) launch->nblocks * UNITS_A_BLOCK;
	HjgStatus	status = HJG_OK;

	for (hjg_u64 first = from; first < to && status == HJG_OK; first += slice)
	{
		launch->args.first_unit = (hjg_u32) first;
		launch->args.nunits = (hjg_u32) (to - first < slice ? to - first : slice);
		status = hjg_cuda_zero(stream, launch->args.ticket, sizeof(hjg_u32));
		if (status == HJG_OK)
			status = hjg_cuda_launch(stream, kernel, launch->nblocks, THREADS, launch->shared, (void *[]) {&launch->args});
		if (status == HJG_OK && (to - from) / slice > LAUNCHES_UNWATCHED)
			status = hjg_cuda_wait(stream);
	}
	return status;
}

static HjgStatus
launch_units(HjgCudaStream *stream, HjgCudaUnits *launch, int sink)
{
	return launch_range(stream, launch, sink, 0, launch->nunits);
}

/* Join the pieces that earlier launches left in the queue. */
static HjgStatus
work_off(HjgCudaStream *stream, HjgCudaUnits *launch, int sink)
{
	const HjgCudaMatch *match = launch->match;
	HjgStatus	status = hjg_cuda_zero(stream, launch->args.ticket, sizeof(hjg_u32));

	launch->args.from_queue = true;
	if (status == HJG_OK)
		status = hjg_cuda_launch(stream, &kernels[match->method][hjg_cuda_width_ix(match->key_width)][sink],
								 launch->nblocks, THREADS, launch->shared, (void *[]) {&launch->args});
	return status;
}

static HjgStatus
put_twice(HjgCudaStream *stream, HjgCudaUnits *launch)
{
	HjgKSink   *sink = &launch->args.sink;
	HjgCudaPtr	sums = 0;
	HjgStatus	status = hjg_cuda_alloc(stream, (launch->nunits + 1) * sizeof(hjg_u64), &sink->unit_pairs);

	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, hjg_cuda_scan_entries(launch->nunits + 1) * sizeof(hjg_u64), &sums);
	if (status == HJG_OK)
		status = hjg_cuda_zero(stream, sink->unit_pairs, (launch->nunits + 1) * sizeof(hjg_u64));
	if (status == HJG_OK)
		status = launch_units(stream, launch, HJG_CUDA_PUT_TWICE);
	if (status == HJG_OK)
		status = hjg_cuda_scan(stream, sink->unit_pairs, launch->nunits + 1, sums);
	if (status == HJG_OK)
		status = launch_units(stream, launch, HJG_CUDA_SINK_PLACE);
	hjg_cuda_free(stream, sink->unit_pairs);
	hjg_cuda_free(stream, sums);
	return status;
}

static HjgStatus
put_once(HjgCudaStream *stream, HjgCudaUnits *launch, int sink, const HjgCudaOutput *output)
{
	const HjgCudaMatch *match = launch->match;
	const HjgCudaPutting putting = sink == HJG_CUDA_SINK_SUM ? HJG_CUDA_PUT_WARP : match->putting;
	HjgCudaPages pages;
	HjgCudaPtr	queue = 0;
	HjgStatus	status = hjg_lab_pages_begin(stream, putting, launch->nblocks, THREADS, output, &pages);

	launch->args.sink = pages.args.sink;
	if (status == HJG_OK && match->queue)
	{
		const size_t bytes = queue_bytes(match->probe->nrows, launch->nunits);

		status = hjg_cuda_alloc(stream, bytes, &queue);
		launch->args.queue = queue;
		launch->args.nqueued = queue + bytes - sizeof(hjg_u32);
		launch->args.piece_rows = PIECE_ROWS;
		if (status == HJG_OK)
			status = hjg_cuda_zero(stream, launch->args.nqueued, sizeof(hjg_u32));
	}
	if (status == HJG_OK)
		status = launch_units(stream, launch, sink);
	if (status == HJG_OK && match->queue)
		status = work_off(stream, launch, sink);
	if (status == HJG_OK)
		status = hjg_lab_pages_end(stream, &pages);
	hjg_lab_pages_free(stream, &pages);
	hjg_cuda_free(stream, queue);
	return status;
}

static HjgStatus
put_pairs(HjgCudaStream *stream, HjgCudaUnits *launch, int sink, const HjgCudaOutput *output)
{
	bool		too_small = false;
	HjgStatus	status;

	switch (sink)
	{
		case HJG_CUDA_PUT_TWICE:
			return put_twice(stream, launch);
		case HJG_CUDA_PUT_EXACT:
			return hjg_lab_match_exact(stream, launch, output);
		case HJG_CUDA_PUT_GROUPS:
			status = hjg_lab_match_groups(stream, launch, output, &too_small);
			break;
		case HJG_CUDA_PUT_WORST:
			status = hjg_lab_match_worst(stream, launch, &too_small);
			break;
		default:
			return put_once(stream, launch, sink, output);
	}
	return status == HJG_OK && too_small ? put_twice(stream, launch) : status;
}

HjgStatus
hjg_lab_match(HjgCudaStream *stream, const HjgCudaMatch *match, const HjgCudaOutput *output)
{
	const int	sink = hjg_cuda_kind(output) == HJG_CUDA_CHECKSUM ? HJG_CUDA_SINK_SUM : (int) match->putting;
	HjgCudaKernel *kernel = &kernels[match->method][hjg_cuda_width_ix(match->key_width)]
		[sink == HJG_CUDA_PUT_EXACT ? HJG_CUDA_PUT_TWICE : sink];
	hjg_u64		filling;
	int			blocks = 0;
	const HjgCudaPtr nunits_at = match->probe->unit_first + (sizeof(hjg_u32) << match->probe->bits);
	struct
	{
		hjg_u32		nunits;
		hjg_u32		largest;
	}			sizes = {0};
	HjgCudaUnits launch = {
		.match = match, .launch = launch_range,
		.shared = match->method == HJG_CUDA_HASHED_DEVICE ? 0 :
			match->build_limit * row_bytes_of(match->key_width, match->method) + (has_heads(match->method) ? HEADS_BYTES : 0),
		.args = {
			.build = hjg_lab_kernel_rows(&match->build->rows), .probe = hjg_lab_kernel_rows(&match->probe->rows),
			.build_pages = match->build->pages, .probe_pages = match->probe->pages, .units = match->units,
			.sink = {.output = hjg_lab_kernel_output(output)}, .ticket = match->probe->ticket,
			.bucket_bits = (hjg_u32) match->build->bucket_bits, .mode = match->mode
		},
	};
	HjgStatus	status;

	if (hjg_cuda_kind(output) == HJG_CUDA_COLUMNS || kernel->name == NULL)
		return HJG_ERR_INPUT;
	/* one copy, for one wait, during which the device does nothing */
	status = hjg_lab_copy_within(stream, nunits_at + sizeof(hjg_u32), match->build->largest, sizeof(hjg_u32));
	if (status == HJG_OK)
		status = hjg_cuda_copy_out(stream, &sizes, nunits_at, sizeof(sizes));
	if (status == HJG_OK)
		status = hjg_cuda_wait(stream);
	if (status == HJG_OK && sizes.largest > match->most_rows)
	{
		stream->busy = true;
		return hjg_cuda_check(stream, hjg_cuda.set_bytes(output->counters, 0xFF, sizeof(hjg_u64), stream->handle), "unsuited");
	}
	if (status != HJG_OK || sizes.nunits == 0)
		return status;
	status = hjg_cuda_occupancy(stream, kernel, THREADS, launch.shared, &blocks);
	filling = (hjg_u64) stream->device->multiprocessors * (hjg_u64) (blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS);
	launch.nunits = sizes.nunits;
	launch.nblocks = (unsigned) (sizes.nunits < filling && !match->queue ? sizes.nunits : filling);
	if (status == HJG_OK && match->method == HJG_CUDA_HASHED_DEVICE)
		status = hjg_cuda_alloc(stream, tables_bytes(match->method, launch.nblocks), &launch.args.tables);
	if (status == HJG_OK)
		status = put_pairs(stream, &launch, sink, output);
	hjg_cuda_free(stream, launch.args.tables);
	return status;
}
