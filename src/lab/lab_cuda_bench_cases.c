/*
 * lab_cuda_bench_cases.c
 *	  Benchmark of the resident joins: the cases.
 *
 * Keys are mixed row numbers, so that no join profits from raw keys, except with _dense.  _zipf is the skew
 * of the probe side, _build_zipf that of the build side, _both_zipf the same on both with the same popular
 * keys.  _host: sides begin in host memory; _bus: and pairs end there.
 */
#include <string.h>

#include "lab/hjg_cuda_bench.h"

#define UNIFORM HJG_K_UNIFORM, 0, 1000, false, false, HJG_BENCH_IN_DEVICE, HJG_K_IN_TURN, 0
#define DENSE HJG_K_UNIFORM, 0, 1000, true, false, HJG_BENCH_IN_DEVICE, HJG_K_IN_TURN, 0
#define MATCHES(permille, place) HJG_K_UNIFORM, 0, permille, false, false, place, HJG_K_IN_TURN, 0
#define ZIPF(theta) HJG_K_ZIPF, theta, 1000, false, false, HJG_BENCH_IN_DEVICE, HJG_K_IN_TURN, 0
#define BUILD_ZIPF(theta) HJG_K_UNIFORM, 0, 1000, false, false, HJG_BENCH_IN_DEVICE, HJG_K_ZIPF, theta
#define BOTH_ZIPF(theta) HJG_K_ZIPF, theta, 1000, false, true, HJG_BENCH_IN_DEVICE, HJG_K_ZIPF, theta
#define ONE_KEY(sum_only) HJG_K_ONE_KEY, 0, 1000, false, sum_only, HJG_BENCH_IN_DEVICE, HJG_K_IN_TURN, 0
#define FROM_HOST MATCHES(1000, HJG_BENCH_FROM_HOST)
#define AND_BACK MATCHES(1000, HJG_BENCH_AND_BACK)

const HjgBenchCase hjg_bench_cases[] = {
	{"4+4_1Mx1M", 4, false, 1, 1, 1, UNIFORM},
	{"4+4_2Mx2M", 4, false, 2, 2, 1, UNIFORM},
	{"4+4_8Mx8M", 4, false, 8, 8, 1, UNIFORM},
	{"4+4_16Mx16M", 4, false, 16, 16, 1, UNIFORM},
	{"4+4_32Mx32M", 4, false, 32, 32, 1, UNIFORM},
	{"4+4_64Mx64M", 4, false, 64, 64, 1, UNIFORM},
	{"4+4_128Mx128M", 4, false, 128, 128, 1, UNIFORM},
	{"4+4_2Mx64M", 4, false, 2, 64, 1, UNIFORM},
	{"4+4_64Mx256M", 4, false, 64, 256, 1, UNIFORM},
	{"4+4_256Mx256M", 4, false, 256, 256, 1, UNIFORM},
	{"4+4_128Mx128M_zipf0.25", 4, false, 128, 128, 1, ZIPF(0.25)},
	{"4+4_128Mx128M_zipf0.5", 4, false, 128, 128, 1, ZIPF(0.5)},
	{"4+4_128Mx128M_zipf0.75", 4, false, 128, 128, 1, ZIPF(0.75)},
	{"4+4_128Mx128M_zipf1.0", 4, false, 128, 128, 1, ZIPF(1.0)},
	{"4+4_128Mx128M_zipf1.5", 4, false, 128, 128, 1, ZIPF(1.5)},
	{"4+4_32Mx32M_zipf0.25", 4, false, 32, 32, 1, ZIPF(0.25)},
	{"4+4_32Mx32M_zipf0.5", 4, false, 32, 32, 1, ZIPF(0.5)},
	{"4+4_32Mx32M_zipf0.75", 4, false, 32, 32, 1, ZIPF(0.75)},
	{"4+4_32Mx32M_zipf1.0", 4, false, 32, 32, 1, ZIPF(1.0)},
	{"4+4_32Mx32M_zipf1.5", 4, false, 32, 32, 1, ZIPF(1.5)},
	{"4+4_32Mx32M_build_zipf0.25", 4, false, 32, 32, 1, BUILD_ZIPF(0.25)},
	{"4+4_32Mx32M_build_zipf0.5", 4, false, 32, 32, 1, BUILD_ZIPF(0.5)},
	{"4+4_32Mx32M_build_zipf0.75", 4, false, 32, 32, 1, BUILD_ZIPF(0.75)},
	{"4+4_32Mx32M_build_zipf1.0", 4, false, 32, 32, 1, BUILD_ZIPF(1.0)},
	{"4+4_32Mx32M_both_zipf0.25", 4, false, 32, 32, 1, BOTH_ZIPF(0.25)},
	{"4+4_32Mx32M_both_zipf0.5", 4, false, 32, 32, 1, BOTH_ZIPF(0.5)},
	{"4+4_32Mx32M_both_zipf0.75", 4, false, 32, 32, 1, BOTH_ZIPF(0.75)},
	{"4+4_128Mx128M_one_key", 4, false, 128, 128, 1, ONE_KEY(false)},
	{"4+4_128Mx128M_match30", 4, false, 128, 128, 1, MATCHES(300, HJG_BENCH_IN_DEVICE)},
	{"4+4_32Mx32M_dup2", 4, false, 32, 32, 2, UNIFORM},
	{"4+4_32Mx32M_dup4", 4, false, 32, 32, 4, UNIFORM},
	{"4+4_32Mx32M_dup8", 4, false, 32, 32, 8, UNIFORM},
	{"4+4_32Mx32M_dup16", 4, false, 32, 32, 16, UNIFORM},
	{"4+4_32Mx32M_dup32", 4, false, 32, 32, 32, UNIFORM},
	{"4+4_128Mx128M_dup2", 4, false, 128, 128, 2, UNIFORM},
	{"4+4_128Mx128M_dup4", 4, false, 128, 128, 4, UNIFORM},
	{"4+4_128Mx128M_dup8", 4, false, 128, 128, 8, UNIFORM},
	{"4+4_8Mx8M_dup4", 4, false, 8, 8, 4, UNIFORM},
	{"4+4_47Kx47K_one_key", 4, false, 0.045, 0.045, 1 << 30, ONE_KEY(true)},
	{"4+4_2Mx64M_dense", 4, false, 2, 64, 1, DENSE},
	{"4+4_2Mx2M_dense", 4, false, 2, 2, 1, DENSE},
	{"4+4_8Mx8M_dense", 4, false, 8, 8, 1, DENSE},
	{"4+4_32Mx32M_dense", 4, false, 32, 32, 1, DENSE},
	{"4+4_128Mx128M_dense", 4, false, 128, 128, 1, DENSE},
	{"4+4_8Mx16M_dense", 4, false, 8, 16, 1, DENSE},
	{"4+4_8Mx32M_dense", 4, false, 8, 32, 1, DENSE},
	{"4+4_32Mx64M_dense", 4, false, 32, 64, 1, DENSE},
	{"4+4_32Mx128M_dense", 4, false, 32, 128, 1, DENSE},
	{"8+8_32Mx32M", 8, true, 32, 32, 1, UNIFORM},
	{"8+8_128Mx128M", 8, true, 128, 128, 1, UNIFORM},
	{"8+4_2Mx64M", 8, false, 2, 64, 1, UNIFORM},
	{"8+4_128Mx128M", 8, false, 128, 128, 1, UNIFORM},
	{"16+4_64Mx64M", 16, false, 64, 64, 1, UNIFORM},
	{"4+4_1Mx1M_host", 4, false, 1, 1, 1, FROM_HOST},
	{"4+4_8Mx8M_host", 4, false, 8, 8, 1, FROM_HOST},
	{"4+4_32Mx32M_host", 4, false, 32, 32, 1, FROM_HOST},
	{"4+4_128Mx128M_host", 4, false, 128, 128, 1, FROM_HOST},
	{"4+4_256Mx256M_host", 4, false, 256, 256, 1, FROM_HOST},
	{"4+4_16Mx16M_bus", 4, false, 16, 16, 1, AND_BACK},
	{"4+4_32Mx32M_bus", 4, false, 32, 32, 1, AND_BACK},
	{"4+4_64Mx64M_bus", 4, false, 64, 64, 1, AND_BACK},
	{"4+4_128Mx128M_bus", 4, false, 128, 128, 1, AND_BACK},
	{"4+4_64Mx64M_match25_bus", 4, false, 64, 64, 1, MATCHES(250, HJG_BENCH_AND_BACK)},
	{"4+4_64Mx64M_dup2_bus", 4, false, 64, 64, 2, AND_BACK},
	{"4+4_64Mx64M_dup4_bus", 4, false, 64, 64, 4, AND_BACK},
	{.name = NULL}
};

const HjgBenchCase *
hjg_bench_case_named(const char *name)
{
	for (const HjgBenchCase *c = hjg_bench_cases; c->name != NULL; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}
