/*
 * hjg_lab.h
 *	  The benchmarks that the program hjoin_gpu_lab runs.
 *
 * Room "lab": what is measured, but what no query runs: benchmarks of the engines, figures of the papers, joins of the
 * literature (hjg_cuda_paper.h), and joins of sides that both lie in host memory (hjg_cuda_host.h).  Pure C; it reuses the rooms engine, coupled and device, and none of them knows it.
 *
 * argv holds the device, or --host, and then options.  Each benchmark checks its results and
 * returns 0, 1 when one was wrong, or 2 for a bad option or lack of memory or of the device.
 */
#ifndef HJG_LAB_H
#define HJG_LAB_H

#include <stdio.h>

/*
 * lab_cpu_bench.c: the cases of the cpu engine that the options choose, a line for each.
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
 */
extern int	hjg_lab_cpu_bench(FILE *out, int nthreads, int argc, char **argv);

/* lab_cpu_bloom.c: the Bloom filter's part of it, on one thread, sizes multiplied by factor. */
extern int	hjg_lab_bloom_bench(FILE *out, double factor);

/* lab_coupled_bench.c: the coupled engine, on opencl:N or on threads in its place; options as hjoin_gpu_lab --help lists them. */
extern int	hjg_lab_coupled_bench(int nthreads, const char *device, int argc, char **argv);

/* lab_cuda_bench.c: resident joins of cuda:number; options as there. */
extern int	hjg_lab_cuda_bench(FILE *out, int number, int argc, char **argv);

/* lab_host_bench.c: joins of sides in host memory on cuda:number; options as there. */
extern int	hjg_lab_host_bench(FILE *out, int number, int argc, char **argv);

#endif							/* HJG_LAB_H */
