/*
 * lab_cuda_traffic.c
 *	  Counts the bytes that a resident join reads and writes in device memory; benchmarks divide them by
 *	  its time.
 */
#include "device/hjg_cuda_parts.h"
#include "lab/hjg_cuda_paper.h"

static hjg_u64
slots_bytes(hjg_u64 nrows)
{
	return HJG_K_SECTORS(nrows, HJG_K_TABLE_SLOTS, HJG_K_TABLE_PERCENT) * HJG_K_SECTOR_BYTES;
}

/* Wider keys have a tag in the table, and the key in its column. */
size_t
hjg_lab_table_probed(int key_width, hjg_u64 nrows)
{
	return slots_bytes(nrows) + (key_width > HJG_KEY_WIDTH_4 ? nrows * (size_t) key_width : 0);
}

/* Ignores the rounding by the division into regions. */
size_t
hjg_lab_packed_probed(hjg_u64 nrows)
{
	const hjg_u64 nsectors = HJG_K_SECTORS(nrows, HJG_K_PACKED_SLOTS, HJG_K_PACKED_PERCENT);
	const hjg_u64 home = (nsectors < HJG_K_PACKED_LEAST ? HJG_K_PACKED_LEAST : nsectors) * HJG_K_SECTOR_BYTES;

	return home / HJG_K_PACKED_SPARE_SHARE * (HJG_K_PACKED_SPARE_SHARE + 1);
}

static hjg_u64
traffic_direct(const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	return shape->build_rows * (hjg_u64) (2 * shape->key_width + 3 * (int) sizeof(hjg_u32)) +
		shape->probe_rows * (hjg_u64) (shape->key_width + (int) sizeof(hjg_u32));
}

static hjg_u64
traffic_table(const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	return (shape->build_rows + shape->probe_rows) * (hjg_u64) (shape->key_width + (int) sizeof(hjg_u32)) +
		2 * slots_bytes(shape->build_rows);
}

static hjg_u64
traffic_packed(const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	const hjg_u64 row_bytes = (hjg_u64) shape->key_width + sizeof(hjg_u32);

	return (3 * shape->build_rows + shape->probe_rows) * row_bytes + 2 * hjg_lab_packed_probed(shape->build_rows);
}

/* Count the bytes: counting reads keys; each pass reads and writes rows; the join reads rows. */
static hjg_u64
traffic_radix(const HjgCudaDevice *device, const HjgCudaShape *shape, int npasses)
{
	HjgCudaPartsPlan plan;

	if (!hjg_cuda_parts_plan(device, shape, npasses, &plan))
		return 0;
	return (shape->build_rows + shape->probe_rows) * (hjg_u64) (shape->key_width + plan.row_bytes * (2 * npasses + 1));
}

static hjg_u64
traffic_radix1(const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	return traffic_radix(device, shape, 1);
}

static hjg_u64
traffic_radix2(const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	return traffic_radix(device, shape, 2);
}

hjg_u64
hjg_lab_traffic(const HjgCudaStrategy *strategy, const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	static const struct
	{
		const HjgCudaStrategy *strategy;
		hjg_u64		(*traffic) (const HjgCudaDevice *device, const HjgCudaShape *shape);
	}			all[] = {
#define STRATEGY(engine, number, id, name, needs) {&hjg_cuda_##name, traffic_##name},
#define LAB_STRATEGY(id, name) {&hjg_cuda_##name, hjg_lab_traffic_##name},
		HJG_CUDA_RESIDENT_STRATEGIES(STRATEGY)
		HJG_LAB_STRATEGIES(LAB_STRATEGY)
		{&hjg_cuda_csr, hjg_lab_traffic_csr}
#undef STRATEGY
#undef LAB_STRATEGY
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i].strategy == strategy)
			return all[i].traffic(device, shape);
	return 0;
}
