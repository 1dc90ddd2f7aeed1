/*
 * hjg_lab.h
 *	  The benchmarks that the program hjoin_gpu_lab runs.
 *
 * Room "lab": measurements that no query runs: benchmarks of the engines, figures of the papers, joins of
 * the literature (hjg_cuda_paper.h), and joins of sides that both lie in host memory (hjg_cuda_host.h).
 * Pure C; it reuses the rooms engine, coupled and device, which do not know it.
 *
 * argv has the device, or --host, and then options.  Each benchmark checks its results and returns 0, 1 if
 * a result was wrong, or 2 for a bad option or lack of memory or of the device.
 */
#ifndef HJG_LAB_H
#define HJG_LAB_H

#include <stdio.h>

#include "layout/hjg_hash.h"

/* ---- lab_order.c: the order of contestants ---- */

/* Begin the random numbers; hjoin_gpu_lab prints the seed, and --seed repeats it. */
extern void hjg_lab_seed(hjg_u64 seed);
extern hjg_u64 hjg_lab_draw(void);
/* Put the numbers below n in random order, for one turn of n contestants. */
extern void hjg_lab_order(int *order, int n);

/* ---- benchmarks ---- */

/*
 * Run the cases of the cpu engine that the options choose, and print a line for each (lab_cpu_bench.c):
 *		--list				print the names of the cases and return
 *		--case TEXT			only cases whose name contains TEXT
 *		--rows FACTOR		multiply all sizes, e.g. 0.1 for a quick run
 *		--strategy NAME		auto or nop; default auto
 *		--batch ROWS		rows of a probe batch; default one run with the largest
 *							batches that the engine takes and one with 1048576
 *		--reps N			timed repetitions, whose median is printed; default 5
 *		--isa NAME			base, avx2 or avx512: no better instructions than these
 *		--pages N			result pages of 2 MiB for a round; default enough for a batch
 *		--l2 BYTES			partition as if the second-level cache had this size
 *		--small-pages		no huge pages for inputs, results and workspace
 */
extern int	hjg_lab_cpu_bench(FILE *out, int nthreads, int argc, char **argv);

/* Run the Bloom filter's cases on one thread, with sizes multiplied by factor (lab_cpu_bloom.c). */
extern int	hjg_lab_bloom_bench(FILE *out, double factor);

/*
 * Run the coupled engine on opencl:N, or on threads in its place (lab_coupled_bench.c); hjoin_gpu_lab
 * --help lists the options.
 */
extern int	hjg_lab_coupled_bench(int nthreads, const char *device, int argc, char **argv);

/* Run resident joins of cuda:number (lab_cuda_bench.c, which lists the options). */
extern int	hjg_lab_cuda_bench(FILE *out, int nthreads, int number, int argc, char **argv);

/* Run joins of sides in host memory on cuda:number (lab_host_bench.c, which lists the options). */
extern int	hjg_lab_host_bench(FILE *out, int number, int argc, char **argv);

#endif							/* HJG_LAB_H */
