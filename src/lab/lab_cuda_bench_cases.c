/*
 * lab_cuda_bench_cases.c
 *	  Benchmark of the resident joins: the cases, the comparisons of the papers, sets of strategies.
 *
 * The papers: 002 is Rui and Tu, "Fast Equi-Join Algorithms on GPUs" (SSDBM 2017), 003 Sioulas et al.,
 * "Hardware-conscious Hash-Joins on GPUs" (ICDE 2019), 004 Paul et al., "Revisiting Hash Join on Graphics
 * Processors: A Decade Later" (2020).  Their keys are dense; here they are mixed row numbers, so that no
 * join profits from raw keys.  Sizes suit today's devices; transfers are excluded, except where they are
 * compared (_host).
 */
#include <string.h>

#include "lab/hjg_cuda_bench.h"

#define UNIFORM HJG_K_UNIFORM, 0, 1000, false, false, false
#define ZIPF(theta) HJG_K_ZIPF, theta, 1000, false, false, false
#define UNIFORM_FROM_HOST HJG_K_UNIFORM, 0, 1000, false, false, true

const HjgBenchCase hjg_bench_cases[] = {
	{"4+4_1Mx1M", 4, false, 1, 1, 1, UNIFORM},
	{"4+4_2Mx2M", 4, false, 2, 2, 1, UNIFORM},
	{"4+4_2Mx64M", 4, false, 2, 64, 1, UNIFORM},
	{"4+4_8Mx8M", 4, false, 8, 8, 1, UNIFORM},
	{"4+4_32Mx32M", 4, false, 32, 32, 1, UNIFORM},
	{"4+4_128Mx128M", 4, false, 128, 128, 1, UNIFORM},
	{"4+4_64Mx256M", 4, false, 64, 256, 1, UNIFORM},
	{"4+4_256Mx256M", 4, false, 256, 256, 1, UNIFORM},
	{"4+4_128Mx128M_zipf0.5", 4, false, 128, 128, 1, ZIPF(0.5)},
	{"4+4_128Mx128M_zipf1.0", 4, false, 128, 128, 1, ZIPF(1.0)},
	{"4+4_128Mx128M_zipf1.5", 4, false, 128, 128, 1, ZIPF(1.5)},
	{"4+4_128Mx128M_one_key", 4, false, 128, 128, 1, HJG_K_ONE_KEY, 0, 1000, false, false, false},
	{"4+4_128Mx128M_match30", 4, false, 128, 128, 1, HJG_K_UNIFORM, 0, 300, false, false, false},
	{"4+4_32Mx32M_zipf0.5", 4, false, 32, 32, 1, ZIPF(0.5)},
	{"4+4_32Mx32M_zipf1.0", 4, false, 32, 32, 1, ZIPF(1.0)},
	{"4+4_32Mx32M_zipf1.5", 4, false, 32, 32, 1, ZIPF(1.5)},
	{"4+4_32Mx32M_dup2", 4, false, 32, 32, 2, UNIFORM},
	{"4+4_32Mx32M_dup4", 4, false, 32, 32, 4, UNIFORM},
	{"4+4_32Mx32M_dup8", 4, false, 32, 32, 8, UNIFORM},
	{"4+4_47Kx47K_one_key", 4, false, 0.045, 0.045, 1 << 30, HJG_K_ONE_KEY, 0, 1000, false, true, false},
	{"4+4_2Mx64M_dense", 4, false, 2, 64, 1, HJG_K_UNIFORM, 0, 1000, true, false, false},
	{"8+8_32Mx32M", 8, true, 32, 32, 1, UNIFORM},
	{"8+8_128Mx128M", 8, true, 128, 128, 1, UNIFORM},
	{"8+4_2Mx64M", 8, false, 2, 64, 1, UNIFORM},
	{"8+4_128Mx128M", 8, false, 128, 128, 1, UNIFORM},
	{"16+4_64Mx64M", 16, false, 64, 64, 1, UNIFORM},
	{"4+4_8Mx8M_host", 4, false, 8, 8, 1, UNIFORM_FROM_HOST},
	{"4+4_32Mx32M_host", 4, false, 32, 32, 1, UNIFORM_FROM_HOST},
	{"4+4_128Mx128M_host", 4, false, 128, 128, 1, UNIFORM_FROM_HOST},
	{.name = NULL}
};

#define SIZES "4+4_1Mx1M", "4+4_2Mx2M", "4+4_8Mx8M", "4+4_32Mx32M", "4+4_128Mx128M"
#define FROM_HOST "4+4_8Mx8M_host", "4+4_32Mx32M_host", "4+4_128Mx128M_host"
#define SKEWS "4+4_32Mx32M", "4+4_32Mx32M_zipf0.5", "4+4_32Mx32M_zipf1.0", "4+4_32Mx32M_zipf1.5"

const HjgBenchTable hjg_bench_tables[] = {
	{"002", "hash join and sort-merge join by size (figures 7 and 8)", HJG_CUDA_PAIRS,
		{"nop_chain", "nop_open", "bsh", "bsh_hash", "smj", "best"}, {SIZES}, 0},
	{"002", "values a thread: one, eight (3.2.1)", HJG_CUDA_PAIRS, {"bsh_vt1", "bsh"}, {"4+4_32Mx32M", "4+4_128Mx128M"}, 0},
	{"002", "output: two probes, pages of threads, chunks of blocks (3.2.2)", HJG_CUDA_PAIRS,
		{"bsh_hash_count", "bsh_hash", "bsh_hash_block"}, {"4+4_32Mx32M", "4+4_128Mx128M", "4+4_32Mx32M_dup8"}, 0},
	{"002", "skew: pieces of large partitions cut by the kernel (3.2.3)", HJG_CUDA_PAIRS, {"bsh_queue"}, {SKEWS}, 0},
	{"003", "partitioned and not, aggregated (figures 5 to 7)", HJG_CUDA_CHECKSUM,
		{"nop_chain", "prbc", "best"}, {SIZES, "4+4_2Mx64M"}, 0},
	{"003", "partitioned and not, materialised", HJG_CUDA_PAIRS, {"nop_chain", "prbc", "best"}, {SIZES, "4+4_2Mx64M"}, 0},
	{"003", "size of buckets", HJG_CUDA_PAIRS, {"prbc_256", "prbc", "prbc_2048"}, {"4+4_32Mx32M", "4+4_128Mx128M"}, 0},
	{"003", "joins of co-partitions: nested loops with ballots, hashed", HJG_CUDA_CHECKSUM,
		{"prbc_nested", "prbc"}, {"4+4_8Mx8M", "4+4_32Mx32M", "4+4_128Mx128M"}, 0},
	{"003", "output: buffers of warps, of blocks, two probes (III.C)", HJG_CUDA_PAIRS,
		{"bsh_hash_warp", "bsh_hash_block", "bsh_hash_count"}, {"4+4_32Mx32M", "4+4_32Mx32M_dup8"}, 0},
	{"003", "columns of the probe side by row number (figure 9)", HJG_CUDA_PAIRS,
		{"nop_chain", "prbc", "best"}, {"4+4_32Mx32M"}, HJG_SIDE_BIT(HJG_SIDE_PROBE)},
	{"003", "columns of the build side by row number (figure 10)", HJG_CUDA_PAIRS,
		{"nop_chain", "prbc", "best"}, {"4+4_32Mx32M"}, HJG_SIDE_BIT(HJG_SIDE_BUILD)},
	{"003", "columns of both sides by row number", HJG_CUDA_PAIRS,
		{"nop_chain", "prbc", "best"}, {"4+4_32Mx32M"}, HJG_SIDE_BIT(HJG_SIDE_PROBE) | HJG_SIDE_BIT(HJG_SIDE_BUILD)},
	{"003", "columns of both sides, 4 and 8 bytes, through the join as payload", HJG_CUDA_COLUMNS,
		{"prbc", "best"}, {"4+4_32Mx32M", "8+8_32Mx32M"}, 0},
	{"003", "skew of the probe side (figure 17)", HJG_CUDA_CHECKSUM, {"prbc", "best"}, {SKEWS}, 0},
	{"003", "loading the input: copies, managed memory by page faults and by prefetch (figure 21)", HJG_CUDA_CHECKSUM,
		{"prbc", "umj", "umj_pf"}, {FROM_HOST}, 0},
	{"004", "partitioning by histograms and by buckets, by size (figure 4)", HJG_CUDA_PAIRS,
		{"nop_open", "pth", "wsh", "bsh", "prbc", "best"}, {SIZES}, 0},
	{"004", "skew: pieces cut by the kernel, redistribution of blocks (figure 6)", HJG_CUDA_PAIRS,
		{"bsh_queue", "bsh", "best"}, {SKEWS}, 0},
	{"004", "sides in host memory: copies, managed memory by page faults and by prefetch (figure 4)", HJG_CUDA_PAIRS,
		{"prbc", "umj", "umj_pf"}, {FROM_HOST}, 0},
	{"004", "match rate 100 to 800 %: two probes, groups by worst case, by estimate (figure 7)", HJG_CUDA_PAIRS,
		{"bsh_hash_count", "bsh_hash_worst", "bsh_hash_est", "best"},
		{"4+4_32Mx32M", "4+4_32Mx32M_dup2", "4+4_32Mx32M_dup4", "4+4_32Mx32M_dup8"}, 0},
	{.paper = NULL}
};

const HjgBenchCase *
hjg_bench_case_named(const char *name)
{
	for (const HjgBenchCase *c = hjg_bench_cases; c->name != NULL; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

/* Sets: every strategy whose name has the prefix. */
static const struct
{
	const char *set;
	const char *prefix;
}			sets[] = {{"nops", "nop_"}, {"bshs", "bsh"}, {"prbcs", "prbc"}, {"all", ""}};

bool
hjg_bench_has_paper(const char *paper)
{
	for (const HjgBenchTable *t = hjg_bench_tables; t->paper != NULL; t++)
		if (strcmp(t->paper, paper) == 0)
			return true;
	return false;
}

bool
hjg_bench_names_of(const char *text, const char *names[HJG_BENCH_MOST])
{
	int			n = 0;

	while (*text != '\0')
	{
		const size_t length = strcspn(text, ",");
		const char *prefix = NULL;
		const int	before = n;

		for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
			if (strlen(sets[i].set) == length && strncmp(text, sets[i].set, length) == 0)
				prefix = sets[i].prefix;
		for (int i = 0; hjg_cuda_strategy_at(i) != NULL && n < HJG_BENCH_MOST - 1; i++)
		{
			const char *name = hjg_cuda_strategy_at(i)->name;

			if (prefix != NULL ? strncmp(name, prefix, strlen(prefix)) == 0 :
				strlen(name) == length && strncmp(name, text, length) == 0)
				names[n++] = name;
		}
		if (n == before)
			return false;
		text += length + (text[length] == ',');
	}
	names[n] = NULL;
	return n > 0;
}
