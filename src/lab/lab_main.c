/*
 * lab_main.c
 *	  The program hjoin_gpu_lab: chooses the benchmark and its device.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/hjg_opencl.h"
#include "lab/hjg_cuda_bench.h"
#include "lab/hjg_lab.h"
#include "layout/hjg_clock.h"

#define EXIT_USAGE 2

static void
print_lab_usage(void)
{
	printf("hjoin_gpu_lab measures the join engines of the PostgreSQL extension hjoin_gpu, and joins of the literature beside them.\n\n"
		   "  hjoin_gpu_lab [--threads=N] [--device-memory=MB] [--seed=N] DEVICE [option...]\n\n"
		   "  cpu             the cpu engine: --list, --case TEXT, --rows FACTOR, --strategy NAME, --batch ROWS,\n"
		   "                  --reps N, --isa NAME, --l2 BYTES, --pages N, --small-pages\n"
		   "  cuda:N          joins of what lies in device memory: --list, --case TEXT,\n"
		   "                  --rows FACTOR, --strategy NAMES or all, --part-rows N, --reps N; settings follow a name: prbc/part=1024\n"
		   "                  (" HJG_BENCH_SETTINGS ");\n"
		   "                  --paper 002|003|004, --figure N (t2: table 2), also of sides in host memory\n"
		   "  cuda:N --host   joins of what lies in host memory: --list, --case TEXT,\n"
		   "                  --rows FACTOR, --strategy NAME, --chunk ROWS, --reps N,\n"
		   "                  --bits N, --block ROWS, --stagers N, --set PART\n"
		   "  opencl:N        the coupled engine beside the cpu engine (\"threads\": the device emulated):\n"
		   "                  --strategy=NAME, --min-log=N, --max-log=N (rows as powers of two), --reps=N, --units=N,\n"
		   "                  --skew=PART, --selectivity=PART, --key-width=4|8, --separate, --grouping, --block=BYTES, --chunk=ROWS,\n"
		   "                  --copies (also where memory is shared),\n"
		   "                  --bus-gbs=N, --bus-latency-us=N, --steps, --halves (no cost model),\n"
		   "                  --pipeline=NAME or all, --packed, --was=BYTES, --boundary=UNITS,\n"
		   "                  --model[=RUNS]: random ratios against the cost model's choice (--each: each run),\n"
		   "                  --pairs[=TEXT]: design choices against their absence, in turn,\n"
		   "                  --figures[=TEXT]: figures of the papers (--draws=N: random runs of figure 9, 200), --buffer=BYTES: of the device at most,\n"
		   "                  --rows[=TEXT]: the systems of the papers, --engines: what the choice of one loses,\n"
		   "                  --plans: compression plans\n\n"
		   "  --threads=N     threads of the cpu engine (default: one for each CPU)\n"
		   "  --device-memory=MB  memory of a GPU that joins may use (default: most of what is free)\n"
		   "  --seed=N        of the order in which contestants run, and of random settings (default: by the clock)\n"
		   "  --help          show this help\n");
}

/* Read a number; false, with a message, when text has none. */
static bool
read_option_number(const char *text, int *value)
{
	char	   *end;
	const long	number = strtol(text, &end, 10);

	if (*text == '\0' || *end != '\0' || number < 0 || number > 0x7FFFFFFF)
	{
		fprintf(stderr, "hjoin_gpu_lab: \"%s\" is not a number\n", text);
		return false;
	}
	*value = (int) number;
	return true;
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{"device-memory", required_argument, NULL, 'm'},
		{"help", no_argument, NULL, 'h'},
		{"probe-opencl", no_argument, NULL, 'p'},	/* the OpenCL driver starts its own program with it
													 * (device_opencl_probe.c) */
		{"seed", required_argument, NULL, 's'},
		{"threads", required_argument, NULL, 't'},
		{NULL, 0, NULL, 0}
	};
	int			nthreads = hjg_device_cpus();
	int			memory_mb = 0;
	int			seed = (int) (hjg_now_ns() / 1000 % 1000000);
	HjgDeviceId id;
	int			option;
	const char *device;

	/* up to the device; the options behind it are the benchmark's */
	while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1)
	{
		bool		good = true;

		switch (option)
		{
			case 'h':
				print_lab_usage();
				return 0;
			case 'm':
				good = read_option_number(optarg, &memory_mb);
				break;
			case 'p':
				return hjg_cl_probe_main();
			case 's':
				good = read_option_number(optarg, &seed);
				break;
			case 't':
				good = read_option_number(optarg, &nthreads) && nthreads > 0;
				break;
			default:
				good = false;
		}
		if (!good)
			return EXIT_USAGE;
	}
	if (optind == argc)
	{
		print_lab_usage();
		return EXIT_USAGE;
	}
	hjg_lab_strategies_open();
	hjg_cuda_set_budget((size_t) memory_mb << 20);
	device = argv[optind];
	argc -= optind;
	argv += optind;
	hjg_lab_seed((hjg_u64) seed);
	if (argc < 2 || strcmp(argv[argc - 1], "--list") != 0)
		printf("# --seed=%d\n", seed);
	/* the benchmark reads its options from here on */
	optind = 0;
	if (!hjg_device_parse(device, &id) || id.kind == HJG_KIND_OPENCL)
		return hjg_lab_coupled_bench(nthreads, device, argc, argv);
	if (id.kind == HJG_KIND_CPU)
		return hjg_lab_cpu_bench(stdout, nthreads, argc, argv);
	if (id.kind != HJG_KIND_CUDA || id.number >= HJG_CUDA_MAX_DEVICES)
	{
		fprintf(stderr, "hjoin_gpu_lab: there is no device %s\n", device);
		return EXIT_USAGE;
	}
	if (argc > 1 && strcmp(argv[1], "--host") == 0)
		return hjg_lab_host_bench(stdout, id.number, argc - 1, argv + 1);
	return hjg_lab_cuda_bench(stdout, nthreads, id.number, argc, argv);
}
