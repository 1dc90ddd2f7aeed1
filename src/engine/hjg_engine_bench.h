/*
 * hjg_engine_bench.h
 *	  The cpu engine's benchmark, for "hjoin_gpu_device --bench" and test/engine.
 */
#ifndef HJG_ENGINE_BENCH_H
#define HJG_ENGINE_BENCH_H

#include <stdio.h>

/*
 * Run the cases that the options choose and print a line for each to out.  argv
 * holds argc options, no program name:
 *		--list				print the names of the cases and return
 *		--case TEXT			only cases whose name contains TEXT
 *		--rows FACTOR		multiply all sizes, e.g. 0.1 for a quick run
 *		--strategy NAME		auto, nop or radix; default auto
 *		--batch ROWS		rows of a probe batch; default one run with the largest
 *							batches that the engine takes and one with 1048576
 *		--reps N			timed repetitions, of which the median is printed; default 5
 *		--isa NAME			base, avx2 or avx512: no better instructions than these
 *		--pages N			result pages of 2 MiB for a round; default enough for a batch
 *		--l2 BYTES			partition as if the second-level cache had this size
 *		--small-pages		no huge pages for inputs, results and workspace
 * Returns 0, 1 when a result was wrong, 2 for a bad option or lack of memory.
 */
extern int	hjg_engine_bench(FILE *out, int nthreads, int argc, char **argv);

/* The Bloom filter's part of it: on one thread, sizes multiplied by factor; returns as above. */
extern int	hjg_bloom_bench(FILE *out, double factor);

#endif							/* HJG_ENGINE_BENCH_H */
