/*
 * lab_cuda_bench_kernels.c
 *	  Benchmark of the resident joins: the resources of the kernels that a join launches (paper 002, tables 2
 *	  and 3; paper 004, table II).
 *
 * All launches go through hjg_cuda.launch, so another function in its place sees them.  Occupancy is that
 * which threads, registers and shared memory of a block allow, times the share of the grid if it does not
 * fill the device once; the papers have the one that a profiler saw, and the bandwidths of shared memory
 * and caches, which no function of the driver tells.
 */
#include <dlfcn.h>
#include <string.h>

#include "lab/hjg_cuda_bench.h"

#define MOST_FUNCTIONS 512
#define MOST_LAUNCHES 4096
#define ATTRIBUTE_STATIC_SHARED 1	/* CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES */
#define ATTRIBUTE_REGISTERS 4	/* CU_FUNC_ATTRIBUTE_NUM_REGS */
#define ATTRIBUTE_THREADS 39	/* CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR */

typedef struct KernelName
{
	HjgCudaFunction function;
	char		name[64];
} KernelName;

typedef struct KernelLaunch
{
	HjgCudaFunction function;
	unsigned	blocks;
	unsigned	threads;
	unsigned	shared;			/* dynamic */
	HjgCudaEvent from;
	HjgCudaEvent to;
} KernelLaunch;

static HjgCudaApi driver;		/* the functions that were replaced */
static KernelName kernel_names[MOST_FUNCTIONS];
static int	nnames;
static KernelLaunch launches[MOST_LAUNCHES];
static int	nlaunches;
static bool watching;

static HjgCudaResult
watch_function(HjgCudaFunction *function, HjgCudaModule module, const char *name)
{
	const HjgCudaResult result = driver.module_function(function, module, name);

	if (result == HJG_CUDA_SUCCESS && nnames < MOST_FUNCTIONS)
	{
		kernel_names[nnames].function = *function;
		snprintf(kernel_names[nnames++].name, sizeof(kernel_names[0].name), "%s", name);
	}
	return result;
}

static HjgCudaResult
watch_launch(HjgCudaFunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
			 unsigned shared_bytes, HjgCudaStreamHandle stream, void **params, void **extra)
{
	KernelLaunch *launch = watching && nlaunches < MOST_LAUNCHES ? &launches[nlaunches] : NULL;
	HjgCudaResult result;

	if (launch != NULL)
	{
		launch->function = function;
		launch->blocks = gx * gy * gz;
		launch->threads = bx * by * bz;
		launch->shared = shared_bytes;
		if (launch->from == NULL &&
			(driver.event_create(&launch->from, HJG_CUDA_EVENT_DEFAULT) != HJG_CUDA_SUCCESS ||
			 driver.event_create(&launch->to, HJG_CUDA_EVENT_DEFAULT) != HJG_CUDA_SUCCESS))
			launch = NULL;
	}
	if (launch != NULL && driver.event_record(launch->from, stream) != HJG_CUDA_SUCCESS)
		launch = NULL;
	result = driver.launch(function, gx, gy, gz, bx, by, bz, shared_bytes, stream, params, extra);
	if (launch != NULL && driver.event_record(launch->to, stream) == HJG_CUDA_SUCCESS)
		nlaunches++;
	return result;
}

void
hjg_bench_kernels_watch(void)
{
	driver = hjg_cuda;
	hjg_cuda.module_function = watch_function;
	hjg_cuda.launch = watch_launch;
}

void
hjg_bench_kernels_begin(void)
{
	nlaunches = 0;
	watching = true;
}

static const char *
name_of_kernel(HjgCudaFunction function)
{
	for (int i = 0; i < nnames; i++)
		if (kernel_names[i].function == function)
			return kernel_names[i].name;
	return "?";
}

/* Ask the driver for an attribute of a function; -1 if it does not know. */
static int
attribute_of_kernel(HjgCudaFunction function, int attribute)
{
	void	   *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	HjgCudaResult (*get) (int *value, int attribute, HjgCudaFunction function) = NULL;
	int			value = -1;

	if (library != NULL)
		*(void **) &get = dlsym(library, "cuFuncGetAttribute");
	if (get != NULL && get(&value, attribute, function) != HJG_CUDA_SUCCESS)
		value = -1;
	if (library != NULL)
		(void) dlclose(library);
	return value;
}

void
hjg_bench_kernels_print(HjgBench *bench, const char *name, const char *contestant)
{
	const double multiprocessors = bench->stream.device->multiprocessors;
	int			threads = 0;
	float		sum_ms = 0;
	float		ms[MOST_LAUNCHES];

	watching = false;
	if (hjg_cuda.device_attribute(&threads, ATTRIBUTE_THREADS, bench->stream.device->handle) != HJG_CUDA_SUCCESS || threads <= 0)
		threads = 2048;
	for (int i = 0; i < nlaunches; i++)
	{
		if (driver.event_elapsed(&ms[i], launches[i].from, launches[i].to) != HJG_CUDA_SUCCESS)
			ms[i] = 0;
		sum_ms += ms[i];
	}
	fprintf(bench->out, "# kernels of %s, %s: launches, ms, share; threads, registers, shared KB of a block; occupancy\n", contestant, name);
	for (int i = 0; i < nlaunches; i++)
	{
		const KernelLaunch *launch = &launches[i];
		const HjgCudaFunction function = launch->function;
		float		kernel_ms = 0;
		int			blocks = 0;
		int			n = 0;
		int			fixed;
		double		filled;

		if (function == NULL)
			continue;
		for (int k = i; k < nlaunches; k++)
			if (launches[k].function == function)
			{
				kernel_ms += ms[k];
				n++;
				if (k > i)
					launches[k].function = NULL;	/* printed */
			}
		if (driver.occupancy(&blocks, function, (int) launch->threads, launch->shared) != HJG_CUDA_SUCCESS || blocks == 0)
			continue;
		fixed = attribute_of_kernel(function, ATTRIBUTE_STATIC_SHARED);
		filled = launch->blocks / (blocks * multiprocessors);
		fprintf(bench->out, "  %-34s %5d %9.3f %5.1f%%  %5u %4d %6.1f  %5.1f%%\n", name_of_kernel(function), n, kernel_ms,
				sum_ms > 0 ? 100 * kernel_ms / sum_ms : 0, launch->threads, attribute_of_kernel(function, ATTRIBUTE_REGISTERS),
				(launch->shared + (fixed > 0 ? fixed : 0)) / 1024.0,
				100.0 * blocks * launch->threads / threads * (filled < 1 ? filled : 1));
	}
	nlaunches = 0;
}
