/*
 * bench_main.c
 *	  bench_engine [threads] [option...]: the engine's benchmark by itself.
 */
#include <stdlib.h>
#include <unistd.h>

#include "engine/hjg_engine_bench.h"

int
main(int argc, char **argv)
{
	int			nthreads = (int) sysconf(_SC_NPROCESSORS_ONLN);
	int			first = 1;

	if (argc > 1 && argv[1][0] != '-')
		nthreads = atoi(argv[first++]);
	return hjg_engine_bench(stdout, nthreads, argc - first, argv + first);
}
