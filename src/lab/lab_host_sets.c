/*
 * lab_host_sets.c
 *	  Packing partitions into working sets of the device (paper 003, section IV D).
 *
 * The first set's rows go to the device while the host still partitions, so it is as full as possible: a
 * knapsack over sizes in units of a fraction of the capacity.  The other sets are filled greedily, the
 * largest partition first into the first set with room.  A partition larger than the capacity is a
 * separate set, which the join has to cut.
 */
#include <string.h>

#include "lab/hjg_cuda_host.h"

#define UNITS 4096
#define MOST_UNITS (UNITS + HJG_CUDA_MOST_PARTS)	/* each size may be rounded up by half a unit */
#define NOT_REACHED -1

static int
units_of_rows(hjg_u64 rows, hjg_u64 capacity)
{
	const int	units = (int) ((double) rows * UNITS / (double) capacity + 0.5);

	return units > 0 ? units : 1;
}

/* Choose the first set: of the sums that the knapsack reaches, in units, the one with most rows. */
static void
fill_first(const hjg_u64 *rows, int nparts, hjg_u64 capacity, HjgCudaSets *sets)
{
	hjg_u64		sums[MOST_UNITS + 1];	/* rows */
	int			last[MOST_UNITS + 1];	/* the partition by which the sum was reached */
	int			best = 0;

	for (int u = 0; u <= MOST_UNITS; u++)
		last[u] = NOT_REACHED;
	last[0] = sums[0] = 0;
	for (int p = 0; p < nparts; p++)
	{
		const int	size = rows[p] > capacity ? MOST_UNITS + 1 : units_of_rows(rows[p], capacity);

		for (int u = MOST_UNITS; u >= size && rows[p] > 0; u--)
			if (last[u] == NOT_REACHED && last[u - size] != NOT_REACHED && sums[u - size] + rows[p] <= capacity)
			{
				last[u] = p;
				sums[u] = sums[u - size] + rows[p];
			}
	}
	for (int u = 1; u <= MOST_UNITS; u++)
		if (last[u] != NOT_REACHED && sums[u] > sums[best])
			best = u;
	sets->rows[0] = sums[best];
	while (best > 0)
	{
		const int	p = last[best];

		sets->set_of[p] = 0;
		best -= units_of_rows(rows[p], capacity);
	}
}

static int
largest_left(const hjg_u64 *rows, int nparts, const HjgCudaSets *sets)
{
	int			largest = -1;

	for (int p = 0; p < nparts; p++)
		if (sets->set_of[p] < 0 && (largest < 0 || rows[p] > rows[largest]))
			largest = p;
	return largest;
}

void
hjg_lab_pack_sets(const hjg_u64 *rows, int nparts, hjg_u64 capacity, HjgCudaSets *sets)
{
	int			p;

	memset(sets, 0, sizeof(*sets));
	/* partitions without rows go with the first set: their probe rows have no match anywhere */
	for (p = 0; p < nparts; p++)
		sets->set_of[p] = rows[p] == 0 ? 0 : -1;
	fill_first(rows, nparts, capacity, sets);
	sets->nsets = 1;
	while ((p = largest_left(rows, nparts, sets)) >= 0)
	{
		int			set = 1;

		while (set < sets->nsets && sets->rows[set] + rows[p] > capacity)
			set++;
		sets->set_of[p] = set;
		sets->rows[set] += rows[p];
		if (set == sets->nsets)
			sets->nsets++;
	}
}
