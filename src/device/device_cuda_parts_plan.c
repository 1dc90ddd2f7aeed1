/*
 * device_cuda_parts_plan.c
 *	  Joins by radix partitions: plans the partitions, the passes, and the table that joins them.
 *
 * The exact number of build rows and the device's shared memory determine the plan: the fewest partitions
 * whose build rows fit a table of the join.
 */
#include <string.h>

#include "device/hjg_cuda_parts.h"

#define STAGE_BYTES 256			/* of a warp of the join */
#define MOST_TABLE_ROWS 65520	/* positions have 16 bits, some of which mean "none" */
#define BUCKET_BITS 14			/* of the join with packed keys */
#define HALVED_BUCKET_BITS 13	/* of its halved form */
#define HALVED_LEAST_BITS (24 - HALVED_BUCKET_BITS)	/* with fewer bits, more than a byte of a key is left */

/* Compute the build rows that a partition may have on average; hash partitions differ little. */
static hjg_u64
average_limit(hjg_u32 build_limit)
{
	return build_limit - build_limit / 16;
}

/*
 * Plan the table of the join with packed keys: a block uses a whole multiprocessor, or half of it with
 * half as many buckets, so that one block works while the other waits.
 */
static void
plan_packed(const HjgCudaDevice *device, bool halved, HjgCudaPartsPlan *plan)
{
	const unsigned threads = halved ? 512 : 1024;
	const size_t room = device->shared_bytes / (halved ? 2 : 1);
	const size_t fixed = HJG_CUDA_STATIC_SHARED + threads / 32 * STAGE_BYTES +
		(2u << (halved ? HALVED_BUCKET_BITS : BUCKET_BITS)) + 32;

	plan->packed = true;
	plan->halved = halved;
	plan->join_threads = threads;
	plan->build_limit = room <= fixed ? 0 : (hjg_u32) ((room - fixed) / 5 / 16 * 16);
	if (plan->build_limit > MOST_TABLE_ROWS)
		plan->build_limit = MOST_TABLE_ROWS;
	plan->join_shared = (unsigned) (fixed - HJG_CUDA_STATIC_SHARED + plan->build_limit * 5);
}

/* Plan the table with whole keys: two blocks share a multiprocessor. */
static void
plan_whole(const HjgCudaDevice *device, HjgCudaPartsPlan *plan)
{
	const size_t half = device->shared_bytes / 2 - HJG_CUDA_STATIC_SHARED;
	const size_t fixed = 512 / 32 * STAGE_BYTES + (plan->key_class == 0 ? 2u << 13 : 2u << 12) + 16;

	plan->packed = false;
	plan->join_threads = 512;
	plan->build_limit = half <= fixed ? 0 : (hjg_u32) ((half - fixed) / (size_t) plan->row_bytes / 16 * 16);
	plan->join_shared = (unsigned) (fixed + plan->build_limit * (size_t) plan->row_bytes);
}

static int
least_bits(hjg_u64 build_rows, hjg_u32 build_limit)
{
	int			bits = 1;

	while (bits <= HJG_K_MAX_BITS && build_rows >> bits > average_limit(build_limit))
		bits++;
	return bits;
}

/* Choose the bits for a packed table that uses a whole multiprocessor. */
static int
packed_bits(const HjgCudaDevice *device, hjg_u64 build_rows, HjgCudaPartsPlan *plan)
{
	int			bits;

	plan_packed(device, false, plan);
	bits = least_bits(build_rows, plan->build_limit);
	if (bits < HJG_CUDA_ALIGNED_LEAST_BITS)
		return HJG_CUDA_ALIGNED_LEAST_BITS;
	/* with half as many rows, a table saves more time than one more bit costs, except for the last bit */
	if (bits == HJG_CUDA_ALIGNED_LEAST_BITS && build_rows >> bits > average_limit(plan->build_limit) / 2)
		return bits + 1;
	return bits;
}

/* Plan 4-byte keys in one aligned pass. */
static bool
plan_aligned(const HjgCudaDevice *device, hjg_u64 build_rows, HjgCudaPartsPlan *plan)
{
	const int	bits = hjg_cuda_parts_tuning.aligned_bits != 0 ? hjg_cuda_parts_tuning.aligned_bits :
		packed_bits(device, build_rows, plan);

	plan->first_bits = bits;
	plan->aligned = true;
	plan_packed(device, bits >= HALVED_LEAST_BITS, plan);
	if (build_rows >> bits > average_limit(plan->build_limit))
		plan_packed(device, false, plan);
	return bits <= HJG_CUDA_ALIGNED_MOST_BITS && build_rows >> bits <= average_limit(plan->build_limit) &&
		hjg_cuda_parts_aligned_fits(device, bits);
}

bool
hjg_cuda_parts_plan(const HjgCudaDevice *device, const HjgCudaShape *shape, int npasses, HjgCudaPartsPlan *plan)
{
	int			bits;

	memset(plan, 0, sizeof(*plan));
	if (shape->build_rows > HJG_K_MAX_ROWS || shape->probe_rows > HJG_K_MAX_ROWS || shape->build_rows == 0 ||
		(shape->wide_rows && shape->key_width != HJG_KEY_WIDTH_8))
		return false;
	plan->key_class = shape->wide_rows ? 3 : shape->key_width == HJG_KEY_WIDTH_4 ? 0 :
		shape->key_width == HJG_KEY_WIDTH_8 ? 1 : 2;
	plan->row_bytes = shape->key_width + (shape->wide_rows ? 8 : 4);
	plan_whole(device, plan);
	if (plan->build_limit == 0 || !hjg_cuda_parts_plain_fits(device, plan))
		return false;
	bits = least_bits(shape->build_rows, plan->build_limit);
	if (npasses == 1 && bits <= HJG_CUDA_PLAIN_BITS && (plan->key_class != 0 || hjg_cuda_parts_tuning.aligned_bits == 0))
	{
		plan->first_bits = bits;
		return true;
	}
	if (npasses == 1)
		return plan->key_class == 0 && plan_aligned(device, shape->build_rows, plan);
	if (plan->key_class == 0)
		bits = packed_bits(device, shape->build_rows, plan);
	plan->first_bits = (bits + 1) / 2;
	plan->second_bits = bits / 2;
	return bits <= HJG_K_MAX_BITS && bits > 1;
}
