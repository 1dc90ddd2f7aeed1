/*
 * lab_host_bench.c
 *	  Benchmark of joins whose sides lie in host memory: whole times, every result checked.
 *
 * hjoin_gpu_lab cuda:N --host takes
 *		--list				print the names of the cases and return
 *		--case TEXT			only cases whose name contains TEXT
 *		--rows FACTOR		multiply all sizes, e.g. 0.01 for a quick run
 *		--strategy NAME		on the device; default: one that suits the sizes
 *		--chunk ROWS		probe rows of a chunk, default: by the build side
 *		--reps N			timed repetitions, default 5; the median is printed
 *		--bits N, --set PART
 *							copro, spill: partitions as a power of two, and the share of the build side that is on
 *							the device at a time (default: half and a partition)
 *		--block ROWS, --stagers N
 *							copro: rows of a block, threads that partition
 *
 * Timed, by the host's clock: from keys in pinned host memory to all pairs of row numbers (8 bytes a
 * match) in pinned host memory, warm, including copying, building and probing the build side.
 *
 * sets are passes over the device.  copro: partitioned: time until all rows were in their blocks; floor:
 * time of the stagers to copy as many bytes within pinned memory as partitioning writes.
 *
 * bus: the same copies with the same dependencies and no kernels, in turn with the joins; with spill,
 * as many bytes each way without dependencies, which no join can beat; share: that time relative to the
 * join's.  in, out: GB each way.  First the machine's rates are measured: the bus each way and both ways
 * at once, and the stagers.  Before the first and the last join the result is poisoned; after them each
 * pair's keys are compared, and the number and sum of the pairs with those computed from the keys.
 *
 * Measured on an H100 (55 GB/s one way, 47 to 50 each way at once; 16 cores), the bus alone in brackets.
 *	stream	64M x 512M rows of 4-byte keys 87.5 ms (86.9), 2M x 512M 82.2 (82.0), 64M x 256M rows of 8-byte
 *			keys 54.7 (54.4). On an H200 chunks of 4M instead of 8M rows take 108 ms, because the join of a
 *			chunk by partitions reads all build rows.
 *	spill	half of the build side at a time: 256M x 256M rows of 4-byte keys, 4.3 GB each way, 94.6 ms (90.8)
 *			or 5.7 Gtuples/s; with chunks of 16M rows 104, of 32M 100; with a table in device memory about 16
 *			more. A quarter at a time, 5.4 GB each way, 134 (112). 128M x 128M rows of 8-byte keys 76.4 (74.3).
 *			16, 64 and 256 partitions differ by less than 1 %.
 *	copro	the same: 155 to 161 ms with 16 partitions and blocks of 256K rows, 193 with 64 of 64K rows, which
 *			come in at 36 GB/s instead of 48, 167 with 8 of 512K rows, which fill late. 15 threads partition
 *			for 97 to 125 ms of it: their work is the limit, not memory.
 * The threads of the pool are not bound to NUMA nodes: the measured hosts have one.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "lab/hjg_cuda_host_bench.h"
#include "lab/hjg_cuda_paper.h"
#include "lab/hjg_lab.h"
#include "model/hjg_measured.h"

#define MAX_REPS 101

static const HjgHostCase cases[] = {
	{"stream_4_64Mx512M", 4, 64, 512, HJG_HOST_STREAM, 0, 0, 1},
	{"stream_4_2Mx512M", 4, 2, 512, HJG_HOST_STREAM, 0, 0, 1},
	{"stream_8_64Mx256M", 8, 64, 256, HJG_HOST_STREAM, 0, 0, 1},
	{"copro_4_256Mx256M", 4, 256, 256, HJG_HOST_COPRO, 0, 0, 1},
	{"copro_8_128Mx128M", 8, 128, 128, HJG_HOST_COPRO, 0, 0, 1},
	{"spill_4_256Mx256M", 4, 256, 256, HJG_HOST_SPILL, 0, 0, 1},
	{"spill_8_128Mx128M", 8, 128, 128, HJG_HOST_SPILL, 0, 0, 1},
	{"chosen_4_256Mx256M", 4, 256, 256, HJG_HOST_CHOSEN, 0, 0, 1},
};

#define NCASES ((int) (sizeof(cases) / sizeof(cases[0])))

/* ---- cases ---- */

typedef struct HostTimes
{
	double		join_ms[MAX_REPS];
	double		bus_ms[MAX_REPS];
	double		partition_ms[MAX_REPS];
	bool		good;
} HostTimes;

/* Print the figures of joins in sets. */
static void
print_sets(HjgHostBench *bench, const HjgHostData *data, HostTimes *times)
{
	if (data->system == HJG_HOST_COPRO)
		fprintf(bench->out, "; copro, predicted %.0f ms; %d sets, %.1f ms partitioned, floor %.1f",
				hjg_lab_copro_ns(&bench->rates, &data->join, data->copro.set_rows) / 1e6, data->copro.npasses,
				hjg_median(times->partition_ms, bench->nreps), (double) hjg_host_bytes_in(data) / 1e6 / bench->copy_gbs);
	else if (data->system == HJG_HOST_SPILL)
		fprintf(bench->out, "; spill, predicted %.0f ms; %d sets, %d evicted, %.2f GB spilled",
				hjg_lab_spill_ns(&bench->rates, &data->join, data->spill.set_rows) / 1e6, data->spill.npasses,
				data->spill.nevicted, (double) data->spill.spilled_bytes / 1e9);
}

/* Time a join; i < 0 warms up. */
static HjgStatus
time_join_once(HjgHostBench *bench, HjgHostData *data, HostTimes *times, int i)
{
	const bool	check = i < 0 || i == bench->nreps - 1;
	hjg_u64		started;
	hjg_u64		joined;
	HjgStatus	status;

	if (check)
		hjg_host_fill(bench->pool, data->result.pairs, data->result.capacity * sizeof(HjgPair), HJG_HOST_POISON);
	started = hjg_now_ns();
	status = hjg_host_join(bench, data);
	joined = hjg_now_ns();
	if (status == HJG_OK && check)
		times->good = times->good && hjg_host_data_check(bench, data);
	if (i >= 0)
	{
		times->join_ms[i] = (double) (joined - started) / 1e6;
		times->partition_ms[i] = (double) data->copro.partitioned_ns / 1e6;
	}
	return status;
}

static HjgStatus
time_bus_once(HjgHostBench *bench, HjgHostData *data, const HjgCudaPtr *buffers, HostTimes *times, int i)
{
	const hjg_u64 started = hjg_now_ns();
	const HjgStatus status = hjg_host_replay(bench, data, buffers);

	if (i >= 0)
		times->bus_ms[i] = (double) (hjg_now_ns() - started) / 1e6;
	return status;
}

/* Time one join and its copies alone, in random order; the first join says what there is to copy. */
static HjgStatus
time_once(HjgHostBench *bench, HjgHostData *data, const HjgCudaPtr *buffers, HostTimes *times, int i)
{
	const bool	bus_first = i >= 0 && hjg_lab_draw() % 2 != 0;
	HjgStatus	status = bus_first ? time_bus_once(bench, data, buffers, times, i) : HJG_OK;

	if (status == HJG_OK)
		status = time_join_once(bench, data, times, i);
	return status == HJG_OK && !bus_first ? time_bus_once(bench, data, buffers, times, i) : status;
}

static HjgStatus
time_case(HjgHostBench *bench, HjgHostData *data)
{
	static HostTimes times;
	const hjg_u64 ntuples = data->join.build.nrows + data->join.probe.nrows;
	HjgCudaPtr	buffers[4] = {0};
	HjgStatus	status = hjg_host_replay_open(bench, data, buffers);

	times.good = true;
	for (int i = -1; i < bench->nreps && status == HJG_OK; i++)
		status = time_once(bench, data, buffers, &times, i);
	for (int i = 0; i < 4; i++)
		hjg_cuda_free(&bench->streams->work, buffers[i]);
	if (status == HJG_OK)
	{
		const double ms = hjg_median(times.join_ms, bench->nreps);
		const double bus = hjg_median(times.bus_ms, bench->nreps);
		const double in_gb = (double) hjg_host_bytes_in(data) / 1e9;
		const double out_gb = (double) hjg_host_bytes_out(data) / 1e9;

		fprintf(bench->out, "%-20s %-8s %9.2f %8.2f %7.2f %7.2f %7.1f %9.2f %6.1f%%  %s", data->c->name,
				bench->strategy != NULL ? bench->strategy->name : "auto", ms, (double) ntuples / ms / 1e6, in_gb, out_gb,
				(in_gb + out_gb) / ms * 1e3, bus, 100 * bus / ms, times.good ? "ok" : "WRONG");
		print_sets(bench, data, &times);
		fprintf(bench->out, "\n");
		fflush(bench->out);
	}
	bench->wrong |= !times.good;
	return status;
}

static HjgStatus
run_host_case(HjgHostBench *bench, const HjgHostCase *c)
{
	HjgHostData data;
	HjgStatus	status;

	hjg_host_data_begin(bench, c, &data);
	status = hjg_host_data_make(bench, hjg_host_data_plan(bench, c->system, &data), true, &data);
	(void) hjg_host_data_plan(bench, c->system, &data);
	if (status == HJG_OK && bench->grant.bytes < hjg_host_device_bytes(bench, &data))
		status = HJG_ERR_MEMORY;
	if (status == HJG_OK)
		status = time_case(bench, &data);
	hjg_host_data_free(&data);
	if (status == HJG_ERR_MEMORY || status == HJG_ERR_INPUT)
	{
		fprintf(bench->out, "%-20s %s\n", c->name, status == HJG_ERR_MEMORY ? "not enough memory" : "the strategy does not suit");
		return HJG_OK;
	}
	return status;
}

/*
 * Read the options behind --device and --host; false, with a message, for a bad option. *list: print the
 * cases.
 */
static bool
read_options(HjgHostBench *bench, int argc, char **argv, const char **text, bool *list)
{
	static const struct option options[] = {
		{"bits", required_argument, NULL, 'b'},
		{"block", required_argument, NULL, 'k'},
		{"case", required_argument, NULL, 'c'},
		{"chunk", required_argument, NULL, 'u'},
		{"list", no_argument, NULL, 'l'},
		{"reps", required_argument, NULL, 'r'},
		{"rows", required_argument, NULL, 'n'},
		{"set", required_argument, NULL, 'e'},
		{"stagers", required_argument, NULL, 't'},
		{"strategy", required_argument, NULL, 's'},
		{NULL, 0, NULL, 0}
	};
	bool		bad = false;
	int			option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (option)
		{
			case 'l':
				*list = true;
				break;
			case 'c':
				*text = optarg;
				break;
			case 'n':
				bench->factor = atof(optarg);
				break;
			case 'u':
				bench->chunk_rows = strtoull(optarg, NULL, 10) / 4 * 4;
				break;
			case 'b':
				bench->copro_bits = bench->spill_bits = atoi(optarg);
				break;
			case 'k':
				bench->block_rows = (hjg_u32) strtoul(optarg, NULL, 10) / HJG_STAGE_GROUP * HJG_STAGE_GROUP;
				break;
			case 'e':
				bench->set_part = atof(optarg);
				break;
			case 't':
				bench->nstagers = atoi(optarg);
				break;
			case 'r':
				bench->nreps = atoi(optarg);
				break;
			case 's':
				bench->strategy = hjg_lab_strategy_named(optarg);
				bad |= bench->strategy == NULL;
				break;
			default:
				return false;
		}
	if (bad || optind < argc)
	{
		fprintf(stderr, "hjoin_gpu_lab: bad option of the benchmark\n");
		return false;
	}
	if (bench->copro_bits < 0 || bench->copro_bits > HJG_STAGE_MOST_BITS || bench->block_rows < 1024 || bench->block_rows > 1u << 20 ||
		bench->set_part <= 0 || bench->set_part > 1 || bench->nstagers < 1)
	{
		fprintf(stderr, "hjoin_gpu_lab: --bits takes up to %d, --block 1024 to 1048576, --set up to 1\n", HJG_STAGE_MOST_BITS);
		return false;
	}
	if (bench->factor > 0 && bench->factor <= 4 && bench->nreps >= 1 && bench->nreps <= MAX_REPS &&
		(bench->chunk_rows == 0 || (bench->chunk_rows >= 1024 && bench->chunk_rows <= 1u << 28)))
		return true;
	fprintf(stderr, "hjoin_gpu_lab: --rows takes up to 4, --reps 1 to %d, --chunk 1024 to 268435456\n", MAX_REPS);
	return false;
}

int
hjg_lab_host_bench(FILE *out, int number, int argc, char **argv)
{
	static HjgHostBench bench = HJG_HOST_BENCH_INIT;
	const char *text = "";
	HjgCudaDevice *device;
	bool		list = false;
	int			order[NCASES];
	HjgStatus	status;

	bench.out = out;
	bench.nstagers = hjg_device_cpus() > 1 ? hjg_device_cpus() - 1 : 1;
	if (!read_options(&bench, argc, argv, &text, &list))
		return 2;
	for (int c = 0; c < NCASES && list; c++)
		fprintf(out, "%s\n", cases[c].name);
	if (list)
		return 0;
	device = hjg_lab_enter(number);
	if (device == NULL)
		return 2;
	status = hjg_host_bench_open(&bench, device);
	if (status == HJG_OK)
		fprintf(out, "%-20s %-8s %9s %8s %7s %7s %7s %9s %7s\n", "case", "strategy", "ms", "Gtuple/s", "in GB", "out GB",
				"GB/s", "bus ms", "share");
	hjg_lab_order(order, NCASES);
	for (int i = 0; i < NCASES && status == HJG_OK; i++)
		if (strstr(cases[order[i]].name, text) != NULL)
			status = run_host_case(&bench, &cases[order[i]]);
	if (status != HJG_OK)
		fprintf(stderr, "hjoin_gpu_lab: %s\n",
				bench.streams != NULL && bench.streams->work.error[0] != '\0' ? bench.streams->work.error : hjg_status_text(status));
	return status != HJG_OK ? 2 : bench.wrong ? 1 : 0;
}
