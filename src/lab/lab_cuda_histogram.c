/*
 * lab_cuda_histogram.c
 *	  Radix partitioning by histograms of threads, warps or blocks (cuda_histogram.cu).
 *
 * The number of passes depends on the bits: shared memory holds the histograms of a block, so those of
 * threads have few digits and more passes.  Each pass counts, sums all counters, and scatters.
 */
#include <string.h>

#include "lab/hjg_cuda_paper.h"

#define IMAGE "cuda_histogram"
#define LIST_THREADS 1024
#define START_THREADS 256
#define LEAST_STRETCH 2048
#define STRETCHES_A_PROCESSOR 16	/* at least, if there are enough rows */

#define KERNEL(kernel_name) {.image = IMAGE, .name = kernel_name}
#define BY_SHARING(stem) \
	{ \
		{KERNEL(stem "_pth_4"), KERNEL(stem "_pth_8"), KERNEL(stem "_pth_16")}, \
		{KERNEL(stem "_wsh_4"), KERNEL(stem "_wsh_8"), KERNEL(stem "_wsh_16")}, \
		{KERNEL(stem "_bsh_4"), KERNEL(stem "_bsh_8"), KERNEL(stem "_bsh_16")}, \
		{KERNEL(stem "_bsh_vt1_4"), KERNEL(stem "_bsh_vt1_8"), KERNEL(stem "_bsh_vt1_16")}, \
	}

static HjgCudaKernel count_digits[HJG_CUDA_SHARINGS][HJG_CUDA_WIDTHS] = BY_SHARING("hjg_k_count_digits");
static HjgCudaKernel scatter_digits[HJG_CUDA_SHARINGS][HJG_CUDA_WIDTHS] = BY_SHARING("hjg_k_scatter_digits");
static HjgCudaKernel list_stretches = KERNEL("hjg_k_list_stretches");
static HjgCudaKernel find_starts = KERNEL("hjg_k_find_starts");

/* Parameters, as in the kernels. */
static const struct
{
	unsigned	threads;
	unsigned	workers;		/* of a block */
	int			most_bits;		/* of a pass */
	hjg_u32		stretch_rows;	/* at most: keeps the counters few */
}			facts[HJG_CUDA_SHARINGS] = {
	{128, 128, 6, 65536},
	{256, 8, 9, 65536},
	{256, 1, 9, 16384},
	{256, 1, 9, 16384},
};

typedef struct Pass
{
	int			bits;
	int			bits_before;
	hjg_u32		stretch_rows;
	hjg_u64		nstretches;		/* at most */
	hjg_u64		ncounters;		/* and one more for the total */
} Pass;

static int
npasses_of(HjgCudaSharing sharing, int bits)
{
	return (bits + facts[sharing].most_bits - 1) / facts[sharing].most_bits;
}

static Pass
pass_of(const HjgCudaDevice *device, HjgCudaSharing sharing, hjg_u64 nrows, int bits, int number)
{
	const int	npasses = npasses_of(sharing, bits);
	const hjg_u64 wanted = nrows / ((hjg_u64) device->multiprocessors * STRETCHES_A_PROCESSOR);
	Pass		pass = {.bits_before = 0};

	for (int i = 0; i <= number; i++)
	{
		pass.bits_before += pass.bits;
		pass.bits = (bits - pass.bits_before + npasses - i - 1) / (npasses - i);
	}
	pass.stretch_rows = (hjg_u32) (wanted < LEAST_STRETCH ? LEAST_STRETCH :
								   wanted > facts[sharing].stretch_rows ? facts[sharing].stretch_rows : wanted);
	pass.nstretches = nrows / pass.stretch_rows + ((hjg_u64) 1 << pass.bits_before);
	pass.ncounters = (pass.nstretches * facts[sharing].workers << pass.bits) + 1;
	return pass;
}

/* Memory of a pass besides rows. */
typedef struct Scratch
{
	HjgCudaPtr	stretches;
	HjgCudaPtr	firsts;			/* with the number of stretches behind */
	HjgCudaPtr	counts;
	HjgCudaPtr	sums;
} Scratch;

static size_t
scratch_bytes(const Pass *pass)
{
	return hjg_cuda_block_bytes(pass->nstretches * sizeof(HjgKStretch)) +
		hjg_cuda_block_bytes((((size_t) 1 << pass->bits_before) + 2) * sizeof(hjg_u32)) +
		hjg_cuda_block_bytes(pass->ncounters * sizeof(hjg_u64)) +
		hjg_cuda_block_bytes(hjg_cuda_scan_entries(pass->ncounters) * sizeof(hjg_u64)) +
		2 * hjg_cuda_block_bytes((((size_t) 1 << (pass->bits_before + pass->bits)) + 1) * sizeof(hjg_u32));
}

static HjgStatus
alloc_scratch(HjgCudaStream *stream, const Pass *pass, Scratch *scratch)
{
	HjgStatus	status = hjg_cuda_alloc(stream, pass->nstretches * sizeof(HjgKStretch), &scratch->stretches);

	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, (((size_t) 1 << pass->bits_before) + 2) * sizeof(hjg_u32), &scratch->firsts);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, pass->ncounters * sizeof(hjg_u64), &scratch->counts);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, hjg_cuda_scan_entries(pass->ncounters) * sizeof(hjg_u64), &scratch->sums);
	return status;
}

static void
free_scratch(HjgCudaStream *stream, Scratch *scratch)
{
	hjg_cuda_free(stream, scratch->stretches);
	hjg_cuda_free(stream, scratch->firsts);
	hjg_cuda_free(stream, scratch->counts);
	hjg_cuda_free(stream, scratch->sums);
}

/* Run a pass; the caller has set args' sides, rows and starts. */
static HjgStatus
run_pass(HjgCudaStream *stream, HjgCudaSharing sharing, int width_ix, const Pass *pass, HjgKPass *args)
{
	const unsigned shared = (unsigned) (sizeof(hjg_u32) * facts[sharing].workers) << pass->bits;
	const hjg_u64 nparts = (hjg_u64) 1 << (pass->bits_before + pass->bits);
	Scratch		scratch = {0};
	HjgStatus	status = alloc_scratch(stream, pass, &scratch);

	args->stretches = scratch.stretches;
	args->firsts = scratch.firsts;
	args->nstretches = scratch.firsts + (((hjg_u64) 1 << pass->bits_before) + 1) * sizeof(hjg_u32);
	args->counts = scratch.counts;
	args->nparts = 1u << pass->bits_before;
	args->stretch_rows = pass->stretch_rows;
	args->workers = facts[sharing].workers;
	args->bits = (hjg_u32) pass->bits;
	args->shift = 32 - (hjg_u32) (pass->bits_before + pass->bits);
	if (status == HJG_OK)
		status = hjg_cuda_launch(stream, &list_stretches, 1, LIST_THREADS, 0, (void *[]) {args});
	if (status == HJG_OK)
		status = hjg_cuda_zero(stream, scratch.counts, pass->ncounters * sizeof(hjg_u64));
	if (status == HJG_OK)
		status = hjg_cuda_launch(stream, &count_digits[sharing][width_ix], (unsigned) pass->nstretches,
								 facts[sharing].threads, shared, (void *[]) {args});
	if (status == HJG_OK)
		status = hjg_cuda_scan(stream, scratch.counts, pass->ncounters, scratch.sums);
	if (status == HJG_OK)
		status = hjg_cuda_launch(stream, &scatter_digits[sharing][width_ix], (unsigned) pass->nstretches,
								 facts[sharing].threads, shared, (void *[]) {args});
	if (status == HJG_OK)
		status = hjg_cuda_launch(stream, &find_starts, (unsigned) (nparts / START_THREADS + 1), START_THREADS, 0,
								 (void *[]) {args});
	free_scratch(stream, &scratch);
	return status;
}

HjgStatus
hjg_lab_histogram_partition(HjgCudaStream *stream, HjgCudaSharing sharing, int key_width, const HjgCudaSide *side,
							 HjgCudaParted *parted, HjgKUnits *units)
{
	const int	npasses = npasses_of(sharing, parted->bits);
	HjgCudaPtr	starts = 0;
	HjgStatus	status = HJG_OK;

	for (int i = 0; i < npasses && status == HJG_OK; i++)
	{
		const Pass	pass = pass_of(stream->device, sharing, side->nrows, parted->bits, i);
		HjgCudaRows in = parted->rows;
		HjgKPass	args = {.in = hjg_lab_kernel_rows(&in), .starts = starts, .nrows = (hjg_u32) side->nrows};

		if (i == 0)
			args.side = hjg_lab_kernel_side(side);
		status = hjg_lab_rows_alloc(stream, key_width, side->nrows, &parted->rows);
		args.out = hjg_lab_kernel_rows(&parted->rows);
		args.sizes = i == npasses - 1 ? parted->sizes : 0;
		if (status == HJG_OK)
			status = hjg_cuda_alloc(stream, (((size_t) 1 << (pass.bits_before + pass.bits)) + 1) * sizeof(hjg_u32),
									&args.new_starts);
		if (status == HJG_OK)
			status = run_pass(stream, sharing, hjg_cuda_width_ix(key_width), &pass, &args);
		hjg_lab_rows_free(stream, &in);
		hjg_cuda_free(stream, starts);
		starts = args.new_starts;
	}
	hjg_cuda_free(stream, starts);
	return status == HJG_OK ? hjg_lab_parted_place(stream, parted, units) : status;
}

size_t
hjg_lab_histogram_bytes(const HjgCudaDevice *device, HjgCudaSharing sharing, int key_width, hjg_u64 nrows, int bits)
{
	const int	npasses = npasses_of(sharing, bits);
	size_t		most = 0;

	for (int i = 0; i < npasses; i++)
	{
		const Pass	pass = pass_of(device, sharing, nrows, bits, i);

		if (scratch_bytes(&pass) > most)
			most = scratch_bytes(&pass);
	}
	return most + hjg_lab_rows_bytes(key_width, nrows) * (npasses > 1 ? 2 : 1);
}

hjg_u64
hjg_lab_histogram_traffic(const HjgCudaDevice *device, HjgCudaSharing sharing, int key_width, hjg_u64 nrows, int bits)
{
	const hjg_u64 row_bytes = (hjg_u64) key_width + sizeof(hjg_u32);
	hjg_u64		moved = 0;

	for (int i = 0; i < npasses_of(sharing, bits); i++)
	{
		const Pass	pass = pass_of(device, sharing, nrows, bits, i);

		/* counted: keys alone if they are a column; counters zeroed, written, scanned twice, read */
		moved += nrows * ((i == 0 || key_width != HJG_KEY_WIDTH_4 ? (hjg_u64) key_width : row_bytes) + 2 * row_bytes) +
			pass.ncounters * 7 * sizeof(hjg_u64);
	}
	return moved;
}
