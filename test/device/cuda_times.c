/*
 * cuda_times.c
 *	  Times of joins of the driver "cuda", on a real device.
 */
#include "hjg_cuda_support.h"

static const HjgDriver *const driver = &hjg_cuda_driver;

/* Fill slabs of an arena from slab *next on with keys: row i has the key of number i % modulo. */
static int
fill_slabs(const HjgArena *arena, hjg_u32 *next, hjg_u32 nrows, hjg_u32 modulo, HjgSegment *segments)
{
	const hjg_u32 room = HJG_SLAB_BYTES / 4;
	int			n = 0;

	for (hjg_u32 row = 0; row < nrows; row += room, n++)
	{
		hjg_u32    *keys = hjg_arena_slab_at(arena, (*next)++);
		const hjg_u32 m = nrows - row < room ? nrows - row : room;

		for (hjg_u32 i = 0; i < m; i++)
			keys[i] = hjg_mix32(HJG_HASH_NO_SEED, (row + i) % modulo * 2654435761u);
		segments[n] = (HjgSegment) {.keys = keys, .nrows = m, .first_row = row};
	}
	return n;
}

/*
 * Time a join of nbuild unique 4-byte keys with nprobe rows in batches, which all match, from and to
 * pinned slabs.
 */
static void
time_join(const HjgArena *arena, hjg_u32 nbuild, hjg_u32 nprobe, hjg_u32 batch_rows)
{
	const HjgJoinSpec spec = {.key_width = 4, .mode = HJG_MATCH_ALL};
	const hjg_u32 page_pairs = HJG_SLAB_BYTES / sizeof(HjgPair);
	HjgSegment	build[64];
	HjgSegment	probe[64];
	HjgPair    *pages[64];
	hjg_u32		next = 0;
	const int	nbuild_segments = fill_slabs(arena, &next, nbuild, nbuild, build);
	const int	nprobe_segments = fill_slabs(arena, &next, batch_rows, nbuild, probe);
	HjgResult	result = {.pages = pages, .npages = (int) ((batch_rows + page_pairs - 1) / page_pairs), .page_pairs = page_pairs};
	double		best_first = 1e9;

	for (int i = 0; i < result.npages; i++)
		pages[i] = hjg_arena_slab_at(arena, arena->view.nslabs + (hjg_u32) i);
	printf("# %u x %u rows, batches of %u: built, first batch, all; transfer, partition, build, probe (ms)\n", nbuild,
		   nprobe, batch_rows);
	for (int run = 0; run < 7; run++)
	{
		const hjg_u64 started = hjg_now_ns();
		hjg_u64		built;
		hjg_u64		first = 0;
		hjg_u64		npairs = 0;
		HjgJobStats stats;
		Memory		memory;
		void	   *join;

		memory_init(&memory, NULL);
		if (driver->build(0, &memory.env, &spec, build, nbuild_segments, &join) != HJG_OK)
			return;
		built = hjg_now_ns();
		for (hjg_u32 row = 0; row < nprobe; row += batch_rows)
		{
			HjgCursor	cursor = {0, 0, 0};

			if (driver->probe(join, probe, nprobe_segments, &cursor, &result) != HJG_OK)
				break;
			npairs += result.npairs;
			if (first == 0)
				first = hjg_now_ns();
		}
		driver->stats(join, &stats);
		printf("#   %.3f %.3f %.3f; %.3f %.3f %.3f %.3f%s\n", (double) (built - started) / 1e6, (double) (first - started) / 1e6,
			   (double) (hjg_now_ns() - started) / 1e6, (double) stats.transfer_ns / 1e6,
			   (double) stats.partition_ns / 1e6, (double) stats.build_ns / 1e6, (double) stats.probe_ns / 1e6,
			   npairs == nprobe ? "" : " WRONG");
		if (npairs == nprobe && (double) (first - started) / 1e6 < best_first)
			best_first = (double) (first - started) / 1e6;
		driver->free(join);
	}
	claim(best_first < 1e9, "timed joins have all pairs");
	if (nbuild == 1000000)
		claim(best_first <= 1.0, "a warm join of 1M rows answers within a millisecond");
}

void
time_joins(void)
{
	HjgArena	arena;
	const char *step;

	if (!claim(hjg_arena_create(&arena, (size_t) 512 << 20, &step) == 0, "an arena"))
		return;
	hjg_cuda_region_open(&arena.view);
	time_join(&arena, 1000000, 1000000, 1000000);
	time_join(&arena, 5000000, 20000000, 1000000);
	time_join(&arena, 5000000, 24000000, 8000000);
}
