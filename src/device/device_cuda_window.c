/*
 * device_cuda_window.c
 *	  Probing in canonical order with bounded output.
 *
 * As in the cpu engine (engine_ordered.c): the pairs of a window of rows are counted and summed, the room
 * left in the result cuts the window, and the pairs up to the cut are written, divided among threads by
 * pairs instead of rows.  Nothing is kept between rounds.  In a slice (HjgCursor.most) each row has its
 * part of the matches, and no row is cut.
 */
#include "device/hjg_cuda_join.h"

#define IMAGE "cuda_csr"

HJG_CUDA_KERNELS(find, IMAGE, "hjg_k_find");
HJG_CUDA_KERNELS(write_pairs, IMAGE, "hjg_k_write_pairs");
HJG_CUDA_KERNEL(hjg_k_cut_window, IMAGE);

typedef struct ResultWindow
{
	HjgCudaJoin *join;
	HjgResult  *result;
	hjg_u64		row;			/* of the batch */
	hjg_u64		nrows;
	hjg_u64		skip;			/* pairs of the first row that earlier rounds wrote */
	HjgCsrSlice slice;
} ResultWindow;

/* Count the pairs of the window and cut it; the cut is in the header on return. */
static HjgStatus
count_window(ResultWindow *window, const HjgSegment *segments, int nsegments)
{
	HjgCudaJoin *join = window->join;
	HjgCudaStream *stream = &join->streams->work;
	const int	w = hjg_cuda_width_ix(join->spec.key_width);
	hjg_u64		room = (hjg_u64) window->result->npages * window->result->page_pairs - window->result->npairs;
	int			mode = join->spec.mode;
	HjgCudaPtr	cut = join->small;
	HjgStatus	status;

	status = hjg_cuda_mark(stream, HJG_CUDA_TRANSFER_IN);
	if (status == HJG_OK)
		status = hjg_cuda_bring_rows(stream, HJG_CUDA_KEY, (size_t) join->spec.key_width, join->keys[0], segments,
									 nsegments, window->row, window->nrows);
	if (status == HJG_OK)
		status = hjg_cuda_payload_load(join, stream, 0, segments, nsegments, window->row, window->nrows);
	if (status == HJG_OK)
		status = hjg_cuda_mark(stream, HJG_CUDA_PROBE);
	if (status == HJG_OK)
		status = hjg_cuda_launch(stream, &find[w], hjg_cuda_blocks(window->nrows + 1, HJG_CUDA_BLOCK), HJG_CUDA_BLOCK, 0,
								 (void *[]) {&join->keys[0], &window->nrows, &join->csr.table, &mode, &window->slice,
											 &join->windows.offsets, &join->windows.firsts});
	if (status == HJG_OK)
		status = hjg_cuda_scan(stream, join->windows.offsets, window->nrows + 1, join->windows.sums);
	if (status == HJG_OK)
		status = hjg_cuda_launch(stream, &hjg_k_cut_window, 1, 1, 0,
								 (void *[]) {&join->windows.offsets, &window->nrows, &window->skip, &room, &cut});
	if (status == HJG_OK)
		status = hjg_cuda_copy_out(stream, &join->streams->header->cut, cut, sizeof(HjgCsrCut));
	return status == HJG_OK ? hjg_cuda_wait(stream) : status;
}

/* Check the device's answer, which is not trusted. */
static bool
is_cut_sound(const ResultWindow *window, const HjgCsrCut *cut, hjg_u64 room)
{
	return cut->begin <= cut->end && cut->end <= cut->total && cut->end - cut->begin <= room &&
		cut->row <= window->nrows && (cut->row < window->nrows) == (cut->end < cut->total);
}

/* Write the pairs of the cut, one buffer at a time, while the previous one is copied out. */
static HjgStatus
write_window(ResultWindow *window, const HjgCsrCut *cut)
{
	HjgCudaJoin *join = window->join;
	HjgCudaStream *stream = &join->streams->work;
	const int	w = hjg_cuda_width_ix(join->spec.key_width);
	hjg_u32		first_row = (hjg_u32) window->row;
	hjg_u64		begin = cut->begin;
	HjgStatus	status = HJG_OK;

	for (int buffer = 0; begin < cut->end && status == HJG_OK; buffer = (buffer + 1) % HJG_CUDA_OUTS)
	{
		HjgCudaStream *out = &join->streams->out[buffer];
		HjgCudaPtr	pairs = join->pairs[buffer];
		hjg_u64		n = cut->end - begin < join->chunk_rows ? cut->end - begin : join->chunk_rows;

		/* waiting for the buffer keeps the queue short, and notices cancellation */
		status = hjg_cuda_wait(out);
		if (status == HJG_OK)
			status = hjg_cuda_mark(stream, HJG_CUDA_PROBE);
		if (status == HJG_OK)
			status = hjg_cuda_launch(stream, &write_pairs[w], hjg_cuda_blocks(n, HJG_CUDA_BLOCK), HJG_CUDA_BLOCK, 0,
									 (void *[]) {&join->csr.table, &join->windows.offsets, &join->windows.firsts, &window->nrows,
												 &first_row, &begin, &n, &pairs});
		if (status == HJG_OK)
			status = hjg_cuda_payload_gather(join, buffer, n, 0, window->row, window->nrows);
		if (status == HJG_OK)
			status = hjg_cuda_mark(stream, HJG_CUDA_IDLE);
		if (status == HJG_OK)
			status = hjg_cuda_follow(out, stream);
		if (status == HJG_OK)
			status = hjg_cuda_send_pairs(join, buffer, window->result, n);
		begin += n;
	}
	return status;
}

HjgStatus
hjg_cuda_probe_windows(HjgCudaJoin *join, const HjgSegment *segments, int nsegments, hjg_u64 nrows,
					   HjgCursor *cursor, HjgResult *result)
{
	const hjg_u64 capacity = (hjg_u64) result->npages * result->page_pairs;
	const bool	sliced = cursor->most > 0;
	ResultWindow		window = {
		.join = join, .result = result, .row = cursor->row, .skip = sliced ? 0 : cursor->skip,
		.slice = {.skip = sliced ? cursor->skip : 0, .most = cursor->most}
	};
	HjgStatus	status = HJG_OK;

	while (window.row < nrows && status == HJG_OK)
	{
		HjgCsrCut	cut;

		window.nrows = nrows - window.row < join->chunk_rows ? nrows - window.row : join->chunk_rows;
		status = count_window(&window, segments, nsegments);
		if (status != HJG_OK)
			break;
		cut = join->streams->header->cut;
		if (!is_cut_sound(&window, &cut, capacity - result->npairs))
			return HJG_ERR_DEVICE;
		if (sliced)
		{
			cut.end -= cut.skip;
			cut.skip = 0;
		}
		status = write_window(&window, &cut);
		window.row += cut.row;
		window.skip = cut.skip;
		if (cut.row < window.nrows)
			break;
	}
	cursor->row = (hjg_u32) window.row;
	if (!sliced)
		cursor->skip = window.skip;
	else if (window.row >= nrows)
		cursor->skip = 0;
	return status;
}
