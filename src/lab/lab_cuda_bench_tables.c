/*
 * lab_cuda_bench_tables.c
 *	  Benchmark of the resident joins: the comparisons of the papers.
 *
 * Each table says which figures it repeats, what the paper claims, and where our experiment differs from the
 * paper's.  It differs in all of them by its keys (lab_cuda_bench_cases.c), by the device, and as contestants run
 * in an order that is drawn, each warm, and medians are shown with the least and the most.
 */
#include <string.h>

#include "lab/hjg_cuda_bench.h"

const HjgBenchPaper hjg_bench_papers[] = {
	{"002", "Rui and Tu, \"Fast Equi-Join Algorithms on GPUs\" (SSDBM 2017)",
	"Titan X (Maxwell, 337 GB/s) and Titan (Kepler) on PCIe 3; Xeon E5-2630 v3 and E5-2670, 16 threads"},
	{"003", "Sioulas et al., \"Hardware-conscious Hash-Joins on GPUs\" (ICDE 2019)",
	"GTX 1080 (320 GB/s, 8 GB) on PCIe 3; two Xeon E5-2650L v3, 24 cores, 48 threads"},
	{"004", "Paul et al., \"Revisiting Hash Join on Graphics Processors: A Decade Later\" (2020)", "P100 (732 GB/s) on PCIe 3"},
	{.paper = NULL}
};

#define SIZES "4+4_1Mx1M", "4+4_2Mx2M", "4+4_8Mx8M", "4+4_32Mx32M", "4+4_128Mx128M"
#define BUS "4+4_16Mx16M_bus", "4+4_32Mx32M_bus", "4+4_64Mx64M_bus", "4+4_128Mx128M_bus"
#define ZIPFS(rows) "4+4_" rows, "4+4_" rows "_zipf0.25", "4+4_" rows "_zipf0.5", "4+4_" rows "_zipf0.75", "4+4_" rows "_zipf1.0"
#define DUPLICATES(rows) "4+4_" rows, "4+4_" rows "_dup2", "4+4_" rows "_dup4", "4+4_" rows "_dup8"

#define SUM HJG_BENCH_KIND(HJG_CUDA_CHECKSUM)
#define PAIRS HJG_BENCH_KIND(HJG_CUDA_PAIRS)
#define COLUMNS HJG_BENCH_KIND(HJG_CUDA_COLUMNS)

#define TABLE(its_paper, its_figures, its_title, its_claim, its_differs, its_kinds, ...) \
	{.paper = its_paper, .figures = its_figures, .title = its_title, .claim = its_claim, .differs = its_differs, .kinds = its_kinds, __VA_ARGS__}

const HjgBenchTable hjg_bench_tables[] = {
	/* ---- 002 ---- */
	TABLE("002", "7 8", "hash join and sort-merge join by size, with transfers, beside the older GPU join and the CPU",
		  "new hash join 2.0 to 14.6 times the older (He et al., here pth), sort-merge up to 26 % faster than hash join; over the CPU "
		  "hash join 4.0 to 5.5 times, sort-merge 6.8 to 10.5",
		  "the CPU's join is our partitioned engine, not Balkesen's, and there is no sort-merge join of it; pth is with pages, not two probes; "
		  "the older sort-merge join is not here", PAIRS, .strategies = {"cpu", "pth", "bsh", "smj", "best"}, .cases = {BUS}),
	TABLE("002", "9", "time breakdown, with transfers, one after the other",
		  "transfers are 35 % of the sort-merge join and 27 % of the hash join; sorting is 57 %, merging below 8 %",
		  "phases by events on the device; partition is the probe side's sort for smj, whose build is the build side's", PAIRS,
		  .strategies = {"pth/one_stream", "bsh/one_stream", "smj/one_stream"}, .cases = {"4+4_64Mx64M_bus"}, .phases = true),
	TABLE("002", "10", "selectivity 0.25 to 4 pairs a row, with transfers",
		  "over the CPU hash join falls from 5.1 to 2.6 times, sort-merge stays at about 10 (8.5 with 4)", "as figure 8", PAIRS,
		  .strategies = {"cpu", "bsh", "smj", "best"},
		  .cases = {"4+4_64Mx64M_match25_bus", "4+4_64Mx64M_bus", "4+4_64Mx64M_dup2_bus", "4+4_64Mx64M_dup4_bus"}),
	TABLE("002", "11", "direct output by size: two probes, and pages of threads of one pair",
		  "pages gain 25 % at 16M and 20 % at 128M", "hashed, not nested loops; the order of sizes includes 32M and 64M", PAIRS,
		  .strategies = {"bsh_hash_count", "bsh_hash/page=1", "bsh_hash"},
		  .cases = {"4+4_16Mx16M", "4+4_32Mx32M", "4+4_64Mx64M", "4+4_128Mx128M"}),
	TABLE("002", "11", "direct output by pairs of a page, four pairs a row",
		  "pages of 4 are best at small sizes, no difference at 64M and 128M, 8 are worst", "hashed, not nested loops", PAIRS,
		  .strategies = {"bsh_hash/page=1", "bsh_hash/page=2", "bsh_hash/page=4", "bsh_hash/page=8", "bsh_hash/page=32"},
		  .cases = {"4+4_8Mx8M_dup4", "4+4_32Mx32M_dup4", "4+4_128Mx128M_dup4"}),
	TABLE("002", "12", "pages of threads and chunks of blocks, by pairs a row",
		  "chunks gain up to 45.9 % at 16 pairs a row, less beyond", "hashed, not nested loops", PAIRS,
		  .strategies = {"bsh_hash/page=1", "bsh_hash", "bsh_hash_block", "bsh_hash_count"},
		  .cases = {DUPLICATES("32Mx32M"), "4+4_32Mx32M_dup16", "4+4_32Mx32M_dup32"}),
	TABLE("002", "13", "skew: not handled, pieces of large partitions cut by the kernel (3.2.3), on the CPU",
		  "without handling 4 times slower at z = 1, with it about as fast as without skew",
		  "the kernel puts pieces into a queue of a second launch instead of starting child kernels", PAIRS,
		  .strategies = {"bsh_whole", "bsh_queue", "bsh", "cpu"}, .cases = {ZIPFS("32Mx32M")}),
	TABLE("002", "t2 t3", "resources of the kernels",
		  "occupancy: histogram 88 %, reorder 89 %, probe 91 %, older ones 17 % but the probe's 83 %; block sort 62 %, merge 99 %",
		  "occupancy that the resources allow, not the achieved one; no bandwidths of shared memory and caches", PAIRS,
		  .strategies = {"bsh", "pth", "smj"}, .cases = {"4+4_32Mx32M"}, .kernels = true),
	TABLE("002", "3.2.1", "values a thread: one, eight", NULL, NULL, PAIRS, .strategies = {"bsh_vt1", "bsh"},
		  .cases = {"4+4_32Mx32M", "4+4_128Mx128M"}),
	TABLE("002", "resident", "hash join and sort-merge join by size, without transfers", NULL, NULL, PAIRS,
		  .strategies = {"nop_chain", "nop_open", "bsh", "bsh_hash", "smj", "best"}, .cases = {SIZES}),

	/* ---- 003 ---- */
	TABLE("003", "5", "nested loops and hash join of co-partitions, by rows of a partition (2M rows: bits 14 to 10 are 128 to 2048)",
		  "nested loops ahead with small partitions, hash join with large ones; partitioning dominates",
		  "4096 lists in a table instead of 256; nested loops keep 1536 rows, so partitions of 2048 are joined in two parts", SUM,
		  .strategies = {"prbc/bits=14", "prbc/bits=13", "prbc/bits=12", "prbc/bits=11", "prbc/bits=10", "prbc_nested/bits=14",
			  "prbc_nested/bits=13", "prbc_nested/bits=12", "prbc_nested/bits=11", "prbc_nested/bits=10"},
		  .cases = {"4+4_2Mx2M"}, .phases = true),
	TABLE("003", "6", "hash tables of co-partitions in shared and in device memory, 2^15 partitions",
		  "shared memory is more than 30 % faster for the largest relations",
		  "a table of each block is used again for its next partitions, so that it stays in the L2 cache", SUM,
		  .strategies = {"prbc/bits=15", "prbc_device/bits=15"}, .cases = {SIZES}, .phases = true),
	TABLE("003", "7", "aggregated and materialised by size", "materialisation costs little", NULL, SUM | PAIRS,
		  .strategies = {"prbc/bits=15", "prbc", "best"}, .cases = {SIZES}),
	TABLE("003", "8", "partitioned, not partitioned and perfect hashing, by size and ratio of the sides; CPU",
		  "partitioned ahead from 8M rows on (up to 4 Gtuples/s, 4 times the CPU); sooner with larger probe sides",
		  "cpu and cpu_nop are our engine, and write pairs; perfect hashing is \"direct\", which also sees the keys' range", SUM,
		  .strategies = {"cpu", "cpu_nop", "nop_chain", "direct", "prbc/bits=15", "prbc", "prbc_wide", "best"},
		  .cases = {"4+4_2Mx2M_dense", "4+4_8Mx8M_dense", "4+4_32Mx32M_dense", "4+4_128Mx128M_dense", "4+4_8Mx16M_dense",
			  "4+4_8Mx32M_dense", "4+4_32Mx64M_dense", "4+4_32Mx128M_dense"}),
	TABLE("003", "9", "columns of the probe side by row number", "not partitioned overtakes partitioned with wide probe rows",
		  "columns are written, not added up", PAIRS, .strategies = {"nop_chain", "prbc", "best"}, .cases = {"4+4_32Mx32M"},
		  .sides = HJG_SIDE_BIT(HJG_SIDE_PROBE)),
	TABLE("003", "10", "columns of the build side by row number", "partitioned stays ahead, by less", "columns are written, not added up",
		  PAIRS, .strategies = {"nop_chain", "prbc", "best"}, .cases = {"4+4_32Mx32M"}, .sides = HJG_SIDE_BIT(HJG_SIDE_BUILD)),
	TABLE("003", "17", "skew of the probe side", "very little effect", NULL, SUM, .strategies = {"prbc", "best"}, .cases = {ZIPFS("32Mx32M")}),
	TABLE("003", "17", "skew of the build side", "more effect than on the probe side", NULL, SUM, .strategies = {"prbc", "best"},
		  .cases = {"4+4_32Mx32M_build_zipf0.25", "4+4_32Mx32M_build_zipf0.5", "4+4_32Mx32M_build_zipf0.75", "4+4_32Mx32M_build_zipf1.0"}),
	TABLE("003", "17", "the same skew of both sides, with the same popular keys", "collapses from z = 0.75 on",
		  "not beyond z = 0.75, where there are a thousand pairs a row", SUM, .strategies = {"prbc", "best"},
		  .cases = {"4+4_32Mx32M_both_zipf0.25", "4+4_32Mx32M_both_zipf0.5", "4+4_32Mx32M_both_zipf0.75"}),
	TABLE("003", "19", "uniform keys with duplicates, in device memory", NULL, NULL, SUM | PAIRS, .strategies = {"prbc", "best"},
		  .cases = {DUPLICATES("32Mx32M")}),
	TABLE("003", "21", "loading the input: in place, copies, unified addresses, unified memory",
		  "unified addresses are as good as copies to load, worse to partition from, far worse for all of the join",
		  "umj_pf, with prefetches, is of 004", SUM,
		  .strategies = {"prbc", "prbc/one_stream", "prbc/uva_load", "prbc/uva", "prbc/uva_all", "umj", "umj_pf"},
		  .cases = {"4+4_32Mx32M", "4+4_8Mx8M_host", "4+4_32Mx32M_host"}),
	TABLE("003", "22", "loading 256M rows each: copies, unified addresses, unified memory (our approach is a table of hosts)",
		  "unified addresses and memory are far behind", "the sides are larger than there, but fit the device's memory; umj takes no more than 1 GB of keys", SUM,
		  .strategies = {"prbc", "prbc/uva", "umj", "umj_pf"}, .cases = {"4+4_256Mx256M_host"}),
	TABLE("003", "III.A", "chains: buckets, blocks and rows of a thread", NULL, "prbc_wide is ours", SUM | PAIRS,
		  .strategies = {"prbc", "prbc_256", "prbc_2048", "prbc/between=10", "prbc/full", "prbc/vt=4", "prbc_wide", "prbc_wide/part=2048",
			  "prbc_wide/part=1024"},
		  .cases = {"4+4_2Mx2M", "4+4_8Mx8M", "4+4_32Mx32M", "4+4_128Mx128M"}, .phases = true),
	TABLE("003", "III.B", "joins of co-partitions: nested loops with ballots, hashed", NULL, NULL, SUM,
		  .strategies = {"prbc_nested", "prbc"}, .cases = {"4+4_8Mx8M", "4+4_32Mx32M", "4+4_128Mx128M"}),
	TABLE("003", "III.C", "output: buffers of warps, of blocks, two probes", NULL, NULL, PAIRS,
		  .strategies = {"bsh_hash_warp", "bsh_hash_block", "bsh_hash_count"}, .cases = {"4+4_32Mx32M", "4+4_32Mx32M_dup8"}),
	TABLE("003", "payload", "columns of both sides by row number", NULL, NULL, PAIRS,
		  .strategies = {"nop_chain", "prbc", "best"}, .cases = {"4+4_32Mx32M"},
		  .sides = HJG_SIDE_BIT(HJG_SIDE_PROBE) | HJG_SIDE_BIT(HJG_SIDE_BUILD)),
	TABLE("003", "payload", "columns of both sides, 4 and 8 bytes, through the join as payload", NULL, NULL, COLUMNS,
		  .strategies = {"best"}, .cases = {"4+4_32Mx32M", "8+8_32Mx32M"}),

	/* ---- 004 ---- */
	TABLE("004", "4", "all joins by size, with the transfer of their sides",
		  "wsh best of the histograms when small, bsh when large (up to 3.9 times); prbc up to 1.36 times bsh; umj far behind, umj_pf like prbc",
		  "partitions are as many as a table of shared memory needs; rows of a size are of each side, the paper's of both", PAIRS,
		  .strategies = {"nop_open", "pth", "wsh", "bsh", "prbc", "umj", "umj_pf", "best"},
		  .cases = {"4+4_1Mx1M_host", "4+4_8Mx8M_host", "4+4_32Mx32M_host", "4+4_128Mx128M_host"}),
	TABLE("004", "5", "transfers beside the join's work, and one after the other (streams disabled)",
		  "without streams bsh is close to prbc; with them prbc gains more, because its first pass takes rows as they come", NULL, PAIRS,
		  .strategies = {"bsh", "bsh/one_stream", "prbc", "prbc/one_stream", "umj_pf", "umj_pf/one_stream", "best", "best/one_stream"},
		  .cases = {"4+4_8Mx8M_host", "4+4_32Mx32M_host", "4+4_128Mx128M_host"}),
	TABLE("004", "6", "skew at 256M rows: pieces cut by the kernel, redistribution of blocks, not handled",
		  "pieces cut by the kernel lose 12 %, redistribution nothing, and it is ahead without skew too",
		  "a queue and a second launch instead of child kernels", PAIRS,
		  .strategies = {"bsh_queue", "bsh", "bsh_whole", "best"}, .cases = {ZIPFS("128Mx128M")}),
	TABLE("004", "7", "match rate 100 to 800 % at 256M rows with a limited buffer: groups by two probes, by worst case, by estimate",
		  "the estimate is up to 1.27 times as fast as two probes, and 2.5 times as fast as the worst case",
		  "the buffer holds an eighth of a pair for each probe row, and all are emptied by a copy; worst case: slots of blocks; "
		  "bsh_hash_count has no limited buffer", PAIRS,
		  .strategies = {"bsh_hash_exact", "bsh_hash_worst", "bsh_hash_est", "bsh_hash_count", "best"}, .cases = {DUPLICATES("128Mx128M")}),
	TABLE("004", "t2", "occupancy of the partitioning kernels, 2M and 256M rows", "wsh 90 and 25 %, bsh 90 and 89 %",
		  "occupancy that the resources allow, not the achieved one", PAIRS, .strategies = {"wsh", "bsh"},
		  .cases = {"4+4_1Mx1M", "4+4_128Mx128M"}, .kernels = true),
	TABLE("004", "resident", "partitioning by histograms and by buckets, by size, without transfers", NULL, NULL, PAIRS,
		  .strategies = {"nop_open", "pth", "wsh", "bsh", "prbc", "best"}, .cases = {SIZES}),
	{.paper = NULL}
};

bool
hjg_bench_has_paper(const char *paper)
{
	for (const HjgBenchPaper *p = hjg_bench_papers; p->paper != NULL; p++)
		if (strcmp(p->paper, paper) == 0)
			return true;
	return false;
}

bool
hjg_bench_has_figure(const char *figures, const char *wanted)
{
	const size_t length = wanted != NULL ? strlen(wanted) : 0;

	if (wanted == NULL)
		return true;
	for (const char *at = figures; *at != '\0'; at += strcspn(at, " "), at += strspn(at, " "))
		if (strcspn(at, " ") == length && strncmp(at, wanted, length) == 0)
			return true;
	return false;
}
