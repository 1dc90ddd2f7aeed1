/*
 * hjg_table_steps.h
 *	  The searches of cuda_table.cu's open addressing, in the common subset of CUDA and C, so that a
 *	  device emulated on the host runs the same loops.
 *
 * A slot is 8 bytes, row and tag; four slots are a bucket, one 32-byte sector.  A key lies in the first
 * sector from its home that had room, at most HJG_TABLE_MOST_STEPS away: a sector with an empty slot ends
 * a search, and so does the last possible sector.  At the load of these tables (60 %) one key in e^0.44n
 * lies n sectors from its home, so no 2^31 keys reach a quarter of the limit; a key beyond the limit means
 * that keys were chosen to collide, and the build side is unsuited (HJG_K_NO_ROOM).
 *
 * width and items are constants in all calls and vanish by inlining.
 */
#ifndef HJG_TABLE_STEPS_H
#define HJG_TABLE_STEPS_H

#include "hjg_csr_steps.h"
#include "layout/hjg_cuda_args.h"

#ifdef __CUDACC__
#define HJG_TABLE_STEP static __device__ __forceinline__
#define HJG_UNROLL _Pragma("unroll")
#define HJG_ANY(condition) __any_sync(0xFFFFFFFFu, condition)
#else
#define HJG_TABLE_STEP static inline __attribute__((always_inline))
#define HJG_UNROLL
#define HJG_ANY(condition) (condition)
#endif

#define HJG_TABLE_MOST_ITEMS 4
#define HJG_TABLE_MOST_STEPS 256
#define HJG_TABLE_GLANCE 16		/* sectors that an insertion visits before it checks whether another
								 * insertion has failed */

HJG_TABLE_STEP hjg_u32
hjg_table_home(int width, HjgCsrKey key, hjg_u32 nsectors)
{
	return (hjg_u32) ((hjg_u64) (hjg_u32) (width == 4 ? key.high : key.high >> 32) * nsectors >> 32);
}

HJG_TABLE_STEP hjg_u32
hjg_table_next(hjg_u32 sector, hjg_u32 nsectors)
{
	return sector + 1 == nsectors ? 0 : sector + 1;
}

/* Read a sector; with filling, bypass caches that do not see the writes of other multiprocessors. */
HJG_TABLE_STEP void
hjg_table_read(const hjg_u64 *slots, hjg_u32 sector, int filling, hjg_u64 *slot)
{
	const hjg_u64 *from = slots + HJG_K_TABLE_SLOTS * (hjg_u64) sector;

#ifdef __CUDACC__
	const ulonglong2 low = filling ? __ldcg((const ulonglong2 *) from) : __ldg((const ulonglong2 *) from);
	const ulonglong2 high = filling ? __ldcg((const ulonglong2 *) from + 1) : __ldg((const ulonglong2 *) from + 1);

	slot[0] = low.x;
	slot[1] = low.y;
	slot[2] = high.x;
	slot[3] = high.y;
#else
	for (int s = 0; s < HJG_K_TABLE_SLOTS; s++)
		slot[s] = from[s];
#endif
}

/* Put an entry into an empty slot; returns the slot's old content, all ones if it was empty. */
HJG_TABLE_STEP hjg_u64
hjg_table_take(hjg_u64 *slot, hjg_u64 entry)
{
#ifdef __CUDACC__
	return atomicCAS((unsigned long long *) slot, ~0ull, (unsigned long long) entry);
#else
	return __sync_val_compare_and_swap(slot, ~(hjg_u64) 0, entry);
#endif
}

/* Does the slot hold the key?  For keys wider than 4 bytes its row is a position in keys. */
HJG_TABLE_STEP int
hjg_table_holds(int width, const void *keys, hjg_u64 slot, HjgCsrKey key)
{
	return (hjg_u32) (slot >> 32) == (hjg_u32) key.high && (hjg_u32) slot != HJG_NO_ROW &&
		(width == 4 || hjg_step_equal(width, hjg_step_mix(width, hjg_step_load(width, keys, (hjg_u32) slot)), key));
}

/*
 * Insert a row by its mixed key.  Returns 0, HJG_K_REPEATED or HJG_K_NO_ROOM; *flags are the failures of
 * other insertions.
 */
HJG_TABLE_STEP hjg_u32
hjg_table_insert(int width, hjg_u64 *slots, hjg_u32 nsectors, const void *keys, HjgCsrKey key, hjg_u32 row,
				 const hjg_u32 *flags)
{
	const hjg_u64 entry = (hjg_u64) (hjg_u32) key.high << 32 | row;
	hjg_u32		sector = hjg_table_home(width, key, nsectors);

	for (hjg_u32 step = 1; step <= HJG_TABLE_MOST_STEPS; step++)
	{
		hjg_u64		slot[HJG_K_TABLE_SLOTS];

		hjg_table_read(slots, sector, 1, slot);
		HJG_UNROLL
		for (int s = 0; s < HJG_K_TABLE_SLOTS; s++)
		{
			if ((hjg_u32) slot[s] == HJG_NO_ROW)
			{
				slot[s] = hjg_table_take(&slots[HJG_K_TABLE_SLOTS * (hjg_u64) sector + s], entry);
				if ((hjg_u32) slot[s] == HJG_NO_ROW)
					return 0;
			}
			if (hjg_table_holds(width, keys, slot[s], key))
				return HJG_K_REPEATED;
		}
		sector = hjg_table_next(sector, nsectors);
		if (step % HJG_TABLE_GLANCE == 0 && (*(const volatile hjg_u32 *) flags & HJG_K_NO_ROOM) != 0)
			break;
	}
	return HJG_K_NO_ROOM;
}

/*
 * Find the rows of items mixed keys, or HJG_NO_ROW; bit j of here: there is a key j.  All lanes of a warp
 * call it together, and all keys take each step together, so each step, not each key, waits for memory
 * once.
 */
HJG_TABLE_STEP void
hjg_table_find(int width, int items, const hjg_u64 *slots, hjg_u32 nsectors, const void *keys, const HjgCsrKey *key,
			   hjg_u32 here, hjg_u32 *found)
{
	hjg_u32		sector[HJG_TABLE_MOST_ITEMS];

	HJG_UNROLL
	for (int j = 0; j < items; j++)
	{
		found[j] = HJG_NO_ROW;
		sector[j] = hjg_table_home(width, key[j], nsectors);
	}
	for (hjg_u32 step = 0; step < HJG_TABLE_MOST_STEPS && HJG_ANY(here != 0); step++)
	{
		hjg_u64		slot[HJG_TABLE_MOST_ITEMS][HJG_K_TABLE_SLOTS];

		HJG_UNROLL
		for (int j = 0; j < items; j++)
			if (here >> j & 1)
				hjg_table_read(slots, sector[j], 0, slot[j]);
		HJG_UNROLL
		for (int j = 0; j < items; j++)
			if (here >> j & 1)
			{
				HJG_UNROLL
				for (int s = 0; s < HJG_K_TABLE_SLOTS; s++)
					if (hjg_table_holds(width, keys, slot[j][s], key[j]))
						found[j] = (hjg_u32) slot[j][s];
				if (found[j] != HJG_NO_ROW || (hjg_u32) slot[j][HJG_K_TABLE_SLOTS - 1] == HJG_NO_ROW)
					here &= ~(1u << j);
				sector[j] = hjg_table_next(sector[j], nsectors);
			}
	}
}

#endif							/* HJG_TABLE_STEPS_H */
