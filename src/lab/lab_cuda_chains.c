/*
 * lab_cuda_chains.c
 *	  Radix partitioning into chains of buckets (cuda_chains.cu): one pass or two.
 *
 * The pool has two buckets for each partition and one for each bucketful of rows, which bounds the chains.
 */
#include <string.h>

#include "lab/hjg_cuda_paper.h"
#include "lab/hjg_lab_stream.h"

#define IMAGE "cuda_chains"
#define CHAIN_THREADS 512
#define FULL_THREADS 1024
#define LIST_THREADS 256
#define MOST_BITS 9				/* of a pass */
#define PLACES_BYTES 24			/* of shared memory, a partition */

#define KERNEL(kernel_name) {.image = IMAGE, .name = kernel_name}

/* The kernels of a pass, by full_blocks and width. */
static HjgCudaKernel scatter_chains[2][HJG_CUDA_WIDTHS] = {
	{KERNEL("hjg_k_scatter_chains_4"), KERNEL("hjg_k_scatter_chains_8"), KERNEL("hjg_k_scatter_chains_16")},
	{KERNEL("hjg_k_scatter_chains_full_4"), KERNEL("hjg_k_scatter_chains_full_8"), KERNEL("hjg_k_scatter_chains_full_16")},
};
static HjgCudaKernel begin_chains = KERNEL("hjg_k_begin_chains");
static HjgCudaKernel measure_parts = KERNEL("hjg_k_measure_parts");
static HjgCudaKernel list_pages = KERNEL("hjg_k_list_pages");

/* rows of a tile, a power of two */
static const int tile_bits[HJG_CUDA_WIDTHS] = {12, 12, 11};

/* Choose the bits of the buckets between two passes: at most a tile. */
static int
between_bits_of(int key_width, int between_bits)
{
	const int	most = tile_bits[hjg_cuda_width_ix(key_width)];

	return between_bits < most ? between_bits : most;
}

static hjg_u64
nbuckets_of(hjg_u64 nrows, int bits, int bucket_bits)
{
	return (nrows >> bucket_bits) + ((hjg_u64) 2 << bits);
}

/* The result of a pass besides its rows. */
typedef struct Chains
{
	HjgCudaPtr	block;
	HjgKChains	args;			/* of the pass that made them */
} Chains;

static size_t
lay_chains(HjgKChains *args, hjg_u64 nbuckets, HjgCudaPtr base)
{
	args->cursors = base;
	args->nfull = args->cursors + (sizeof(hjg_u64) << args->all_bits);
	args->used = args->nfull + (sizeof(hjg_u32) << args->all_bits);
	args->owner = args->used + sizeof(hjg_u32);
	args->ordinal = args->owner + nbuckets * sizeof(hjg_u32);
	args->next = args->ordinal + nbuckets * sizeof(hjg_u32);
	args->nbuckets = (hjg_u32) nbuckets;
	return args->next + nbuckets * sizeof(hjg_u32) - base;
}

/* Launch the first pass over the pieces of a side, as they come in. */
static HjgStatus
scatter_pieces(HjgCudaStream *stream, HjgCudaKernel *kernel, unsigned threads, unsigned shared, int key_width,
			   const HjgCudaSide *side, HjgKChains *args)
{
	const HjgLabArrival *arrival = hjg_lab_arrival_of(side);
	const hjg_u64 piece_rows = arrival != NULL ? arrival->piece_rows : side->nrows;
	HjgStatus	status = HJG_OK;

	for (hjg_u64 row = 0, piece = 0; row < side->nrows && status == HJG_OK; row += piece_rows, piece++)
	{
		const hjg_u64 left = side->nrows - row;

		args->side = (HjgKSide) {
			.keys = side->keys + row * (hjg_u64) key_width, .rows = side->rows != 0 ? side->rows + row * sizeof(hjg_u32) : 0,
			.nrows = (hjg_u32) (left < piece_rows ? left : piece_rows)
		};
		args->first_row = (hjg_u32) row;
		if (arrival != NULL)
			status = hjg_lab_follow_note(stream, arrival->come[piece]);
		if (status == HJG_OK)
			status = hjg_cuda_launch_filling(stream, kernel, threads, shared, ~0ull, args);
	}
	return status;
}

/* Run one pass of `bits` bits, to 2^all_bits chains; in: NULL, or the chains that the first pass made. */
static HjgStatus
run_chain_pass(HjgCudaStream *stream, int key_width, const HjgCudaSide *side, const HjgCudaParted *parted, const Chains *in,
			   int bits, int all_bits, int bucket_bits, Chains *chains, HjgCudaRows *rows)
{
	const int	w = hjg_cuda_width_ix(key_width);
	const unsigned threads = parted->full_blocks ? FULL_THREADS : CHAIN_THREADS;
	HjgCudaKernel *kernel = &scatter_chains[parted->full_blocks][w];
	const hjg_u64 nbuckets = nbuckets_of(side->nrows, all_bits, bucket_bits);
	const unsigned nbegins = (unsigned) ((nbuckets + LIST_THREADS - 1) / LIST_THREADS);
	const unsigned shared = ((unsigned) (key_width + 4) << tile_bits[w]) + (PLACES_BYTES << bits);
	HjgKChains *args = &chains->args;
	HjgStatus	status;

	/* limit of a cursor; blocks that wait count behind two full buckets */
	if (nbuckets >> HJG_K_BUCKET_BITS != 0 || bucket_bits > HJG_K_CURSOR_ROWS_BITS - 2)
		return HJG_ERR_INPUT;
	*args = (HjgKChains) {.bits = (hjg_u32) bits, .all_bits = (hjg_u32) all_bits, .bucket_bits = (hjg_u32) bucket_bits};
	status = hjg_lab_rows_alloc(stream, key_width, nbuckets << bucket_bits, rows);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, lay_chains(args, nbuckets, 0), &chains->block);
	if (status != HJG_OK)
		return status;
	lay_chains(args, nbuckets, chains->block);
	if (in != NULL)
	{
		args->in = in->args.out;
		args->in_owner = in->args.owner;
		args->in_cursors = in->args.cursors;
		args->in_used = in->args.used;
		args->in_bucket_bits = in->args.bucket_bits;
	}
	args->out = hjg_lab_kernel_rows(rows);
	status = hjg_cuda_launch(stream, &begin_chains, nbegins, LIST_THREADS, 0, (void *[]) {args});
	if (status == HJG_OK)
		status = in == NULL ? scatter_pieces(stream, kernel, threads, shared, key_width, side, args) :
			hjg_cuda_launch_filling(stream, kernel, threads, shared, ~0ull, args);
	return status;
}

static HjgStatus
lay_pages(HjgCudaStream *stream, const Chains *chains, HjgCudaParted *parted, HjgKUnits *units)
{
	const hjg_u64 nbuckets = chains->args.nbuckets;
	HjgKChains	args = chains->args;
	HjgStatus	status;

	args.sizes = parted->sizes;
	status = hjg_cuda_launch(stream, &measure_parts, (unsigned) ((((hjg_u64) 1 << parted->bits) + LIST_THREADS - 1) / LIST_THREADS),
							 LIST_THREADS, 0, (void *[]) {&args});
	if (status == HJG_OK)
		status = hjg_lab_parted_place(stream, parted, units);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, nbuckets * sizeof(hjg_u32), &parted->pages);
	args.first = parted->parts.first;
	args.pages = parted->pages;
	if (status == HJG_OK)
		status = hjg_cuda_launch(stream, &list_pages, (unsigned) ((nbuckets + LIST_THREADS - 1) / LIST_THREADS), LIST_THREADS,
								 0, (void *[]) {&args});
	return status;
}

HjgStatus
hjg_lab_chain_partition(HjgCudaStream *stream, int key_width, const HjgCudaSide *side, HjgCudaParted *parted,
						 HjgKUnits *units)
{
	const int	first_bits = parted->bits <= MOST_BITS ? parted->bits : (parted->bits + 1) / 2;
	Chains		first = {0};
	Chains		second = {0};
	HjgCudaRows between = {0};
	HjgStatus	status;

	if (first_bits == parted->bits)
		status = run_chain_pass(stream, key_width, side, parted, NULL, first_bits, first_bits, parted->bucket_bits, &first, &parted->rows);
	else
	{
		status = run_chain_pass(stream, key_width, side, parted, NULL, first_bits, first_bits, between_bits_of(key_width, parted->between_bits),
								&first, &between);
		if (status == HJG_OK)
			status = run_chain_pass(stream, key_width, side, parted, &first, parted->bits - first_bits, parted->bits,
									parted->bucket_bits, &second, &parted->rows);
	}
	if (status == HJG_OK)
		status = lay_pages(stream, second.block != 0 ? &second : &first, parted, units);
	hjg_lab_rows_free(stream, &between);
	hjg_cuda_free(stream, first.block);
	hjg_cuda_free(stream, second.block);
	return status;
}

static size_t
pass_bytes(int key_width, hjg_u64 nrows, int bits, int bucket_bits)
{
	const hjg_u64 nbuckets = nbuckets_of(nrows, bits, bucket_bits);
	HjgKChains	args = {.all_bits = (hjg_u32) bits};

	return hjg_lab_rows_bytes(key_width, nbuckets << bucket_bits) + hjg_cuda_block_bytes(lay_chains(&args, nbuckets, 0));
}

size_t
hjg_lab_chain_bytes(int key_width, hjg_u64 nrows, int bits, int bucket_bits, int between_bits)
{
	return pass_bytes(key_width, nrows, bits, bucket_bits) +
		hjg_cuda_block_bytes(nbuckets_of(nrows, bits, bucket_bits) * sizeof(hjg_u32)) +
		(bits > MOST_BITS ? pass_bytes(key_width, nrows, (bits + 1) / 2, between_bits_of(key_width, between_bits)) : 0);
}

hjg_u64
hjg_lab_chain_traffic(int key_width, hjg_u64 nrows, int bits)
{
	return nrows * (hjg_u64) (bits > MOST_BITS ? 4 : 2) * (hjg_u64) (key_width + 4);
}
