/*
 * device_cuda_host_bench.c
 *	  Benchmark of joins whose sides lie in host memory: whole times, every result checked.
 *
 * hjoin_gpu_device --bench --device=cuda:N --host takes
 *		--list				print the names of the cases and return
 *		--case TEXT			only cases whose name contains TEXT
 *		--rows FACTOR		multiply all sizes, e.g. 0.01 for a quick run
 *		--strategy NAME		on the device; default: what suits the sizes
 *		--chunk ROWS		probe rows that go through at a time, default: by the build side
 *		--reps N			timed repetitions, default 5; the median is printed
 *		--bits N, --block ROWS, --stagers N, --set PART
 *							copro: partitions of the host as a power of two, rows of a block, threads, and what
 *							part of the build side is on the device at a time (default: half)
 *
 * What is timed, by the host's clock: from keys in pinned host memory to all pairs of row numbers (8 bytes a match)
 * in pinned host memory, warm; copying, building and probing the build side included.
 *
 * copro: sets are passes over the device; partitioned: when all rows were in their blocks; floor: time that the
 * stagers take to copy as many bytes within pinned memory, which is what partitioning writes.
 *
 * bus: the same copies with the same dependencies and no kernels, timed in turn with the joins; share: that time over
 * the join's. in, out: GB that went each way. First of all the bus is measured alone: each way and both ways at once.
 * Before the first and the last join the result is poisoned; after them each pair's keys are compared,
 * and number and sum of the pairs with what the keys were made of.
 *
 * Measured on an H200 (55 GB/s one way, 51 each way at once; 16 cores): 64M x 512M rows of 4-byte keys 88 ms, 98 % of
 * the bus; chunks of 4M instead of 8M rows 108 ms, because the join of a chunk by partitions reads all build rows, 16M
 * 90 ms; a table in device memory instead of partitions 91 ms. 64M x 256M rows of 8-byte keys: 84 ms, limited by two
 * passes of partitions (chunks of 16M rows 74 ms, a table 74 ms).  copro, 256M x 256M rows of 4-byte keys, half of
 * the build side at a time: 220 ms with 64 partitions, 229 with 16; 15 threads take 125 to 140 ms of it to partition (8 threads 259: it is
 * their work that limits, not memory), and copies in blocks of 32K rows instead of 64K cost 30 ms more.
 */
#include <stdlib.h>
#include <string.h>

#include "device/hjg_cuda_host_bench.h"

#define MAX_REPS 101
#define BUS_BYTES ((size_t) 512 << 20)

static const HjgHostCase cases[] = {
	{"stream_4_64Mx512M", 4, 64, 512, false},
	{"stream_4_2Mx512M", 4, 2, 512, false},
	{"stream_8_64Mx256M", 8, 64, 256, false},
	{"copro_4_256Mx256M", 4, 256, 256, true},
	{"copro_8_128Mx128M", 8, 128, 128, true},
};

#define NCASES ((int) (sizeof(cases) / sizeof(cases[0])))

/* ---- the bus ---- */

/* GB/s of copies of so many bytes each way at once. */
static HjgStatus
measure_bus(HjgHostBench *bench, void *host_in, void *host_out, HjgCudaPtr in, HjgCudaPtr out, size_t in_bytes, size_t out_bytes,
			double *gbs)
{
	HjgStatus	status = HJG_OK;

	*gbs = 0;
	for (int i = 0; i < 3 && status == HJG_OK; i++)
	{
		const hjg_u64 started = hjg_arena_now_ns();

		status = hjg_cuda_copy_in(&bench->lanes->in, in, host_in, in_bytes);
		if (status == HJG_OK)
			status = hjg_cuda_copy_out(&bench->lanes->out[0], host_out, out, out_bytes);
		if (status == HJG_OK)
			status = hjg_cuda_lanes_wait(bench->lanes);
		if (status == HJG_OK)
		{
			const double now = (double) (in_bytes + out_bytes) / (double) (hjg_arena_now_ns() - started);

			*gbs = now > *gbs ? now : *gbs;
		}
	}
	return status;
}

typedef struct Copy
{
	char	   *to;
	const char *from;
} Copy;

static void
copy_piece(void *arg, int piece, int worker)
{
	const Copy *copy = arg;
	const size_t at = (size_t) piece * HJG_SLAB_BYTES;

	memcpy(copy->to + at, copy->from + at, HJG_SLAB_BYTES);
}

/* GB/s that the stagers copy within pinned memory. */
static double
measure_copy(HjgHostBench *bench, const void *from, void *to)
{
	Copy		copy = {to, from};
	double		gbs = 0;

	for (int i = 0; i < 3; i++)
	{
		const hjg_u64 started = hjg_arena_now_ns();
		double		now;

		hjg_pool_run(bench->stagers, (int) (BUS_BYTES / HJG_SLAB_BYTES), copy_piece, &copy);
		now = (double) BUS_BYTES / (double) (hjg_arena_now_ns() - started);
		gbs = now > gbs ? now : gbs;
	}
	return gbs;
}

static HjgStatus
print_bus(HjgHostBench *bench)
{
	void	   *host_in = hjg_host_pinned(bench, BUS_BYTES);
	void	   *host_out = hjg_host_pinned(bench, BUS_BYTES);
	HjgCudaPtr	in = 0;
	HjgCudaPtr	out = 0;
	double		gbs[3] = {0};
	HjgStatus	status = host_in == NULL || host_out == NULL ? HJG_ERR_MEMORY : HJG_OK;

	if (status == HJG_OK)
		status = hjg_cuda_alloc(&bench->lanes->work, BUS_BYTES, &in);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(&bench->lanes->work, BUS_BYTES, &out);
	for (int i = 0; i < 3 && status == HJG_OK; i++)
		status = measure_bus(bench, host_in, host_out, in, out, i == 1 ? 0 : BUS_BYTES, i == 0 ? 0 : BUS_BYTES, &gbs[i]);
	if (status == HJG_OK)
		bench->copy_gbs = measure_copy(bench, host_in, host_out);
	(void) hjg_cuda_lanes_wait(bench->lanes);
	hjg_cuda_free(&bench->lanes->work, in);
	hjg_cuda_free(&bench->lanes->work, out);
	hjg_host_unpin(host_in, BUS_BYTES);
	hjg_host_unpin(host_out, BUS_BYTES);
	if (status == HJG_OK)
		fprintf(bench->out, "# bus: %.1f GB/s in, %.1f out, %.1f each way at once; %d threads copy %.1f GB/s in pinned memory\n",
				gbs[0], gbs[1], gbs[2] / 2, bench->nstagers, bench->copy_gbs);
	return status;
}

/* What goes in of a row: its key, and its number where rows were partitioned. */
static size_t
row_bytes(const HjgHostData *data)
{
	return (size_t) data->c->width + (data->c->copro ? sizeof(hjg_u32) : 0);
}

/* Copy rows in, by chunks, into two buffers in turn; with pairs behind each chunk out. */
static HjgStatus
replay_side(HjgHostBench *bench, HjgHostData *data, const HjgCudaPtr *buffers, const char *from, hjg_u64 nrows, bool with_pairs)
{
	HjgCudaLanes *lanes = bench->lanes;
	const size_t bytes = row_bytes(data);
	HjgStatus	status = HJG_OK;

	for (hjg_u64 row = 0, turn = 0; row < nrows && status == HJG_OK; row += data->join.chunk_rows, turn ^= 1)
	{
		const hjg_u64 left = nrows - row;
		const hjg_u64 n = left < data->join.chunk_rows ? left : data->join.chunk_rows;
		HjgCudaLane *out = &lanes->out[turn];

		status = hjg_cuda_copy_in(&lanes->in, buffers[turn], from + row * bytes, n * bytes);
		if (status != HJG_OK || !with_pairs)
			continue;
		status = hjg_cuda_follow(out, &lanes->in);
		if (status == HJG_OK)
			status = hjg_cuda_copy_out(out, data->result.pairs + row, buffers[2 + turn], n * sizeof(HjgPair));
		/* as far ahead as the join's copies */
		if (status == HJG_OK)
			status = hjg_cuda_wait(&lanes->out[turn ^ 1]);
	}
	return status;
}

/* The copies of a join without kernels: the build side in, then probe rows in and pairs out. */
static HjgStatus
replay(HjgHostBench *bench, HjgHostData *data, const HjgCudaPtr *buffers)
{
	HjgStatus	status = replay_side(bench, data, buffers, data->c->copro ? data->blocks.base : data->build_keys,
									 data->join.build.nrows, false);
	HjgStatus	drained;

	if (status == HJG_OK)
		status = replay_side(bench, data, buffers, data->c->copro ? data->blocks.base : data->probe_keys,
							 data->join.probe.nrows, true);
	drained = hjg_cuda_lanes_wait(bench->lanes);
	return status == HJG_OK ? drained : status;
}

/* ---- cases ---- */

static int
compare_ms(const void *a, const void *b)
{
	const double x = *(const double *) a;
	const double y = *(const double *) b;

	return x < y ? -1 : x > y;
}

static double
median(double *ms, int n)
{
	qsort(ms, (size_t) n, sizeof(ms[0]), compare_ms);
	return ms[n / 2];
}

static HjgStatus
alloc_replay(HjgHostBench *bench, const HjgHostData *data, HjgCudaPtr *buffers)
{
	HjgStatus	status = HJG_OK;

	for (int i = 0; i < 4 && status == HJG_OK; i++)
		status = hjg_cuda_alloc(&bench->lanes->work, data->join.chunk_rows * (i < 2 ? row_bytes(data) : sizeof(HjgPair)), &buffers[i]);
	return status;
}

static HjgCudaCopro
copro_of(const HjgHostBench *bench, HjgHostData *data)
{
	return (HjgCudaCopro) {
		.join = data->join, .pool = bench->stagers, .bits = bench->bits, .block_rows = bench->block_rows, .memory = &data->blocks,
		.set_rows = (hjg_u64) ((double) data->join.build.nrows * bench->set_part) + bench->block_rows
	};
}

typedef struct Times
{
	double		join_ms[MAX_REPS];
	double		bus_ms[MAX_REPS];
	double		partition_ms[MAX_REPS];
	int			npasses;
	bool		good;
} Times;

/* One join and its copies alone; i < 0 warms up. */
static HjgStatus
time_once(HjgHostBench *bench, HjgHostData *data, const HjgCudaPtr *buffers, Times *times, int i)
{
	const bool	check = i < 0 || i == bench->nreps - 1;
	HjgCudaCopro copro = copro_of(bench, data);
	const hjg_u64 room = data->result.capacity;
	hjg_u64		started;
	hjg_u64		joined;
	HjgStatus	status;

	if (check)
		hjg_host_fill(bench->pool, data->result.pairs, room * sizeof(HjgPair), HJG_HOST_POISON);
	started = hjg_arena_now_ns();
	status = data->c->copro ? hjg_cuda_copro_join(bench->lanes, &copro, &data->result) :
		hjg_cuda_stream_join(bench->lanes, &data->join, &data->result);
	joined = hjg_arena_now_ns();
	if (status == HJG_OK && check)
		times->good = times->good && hjg_host_data_check(bench, data);
	if (i >= 0)
	{
		times->join_ms[i] = (double) (joined - started) / 1e6;
		times->partition_ms[i] = (double) copro.partitioned_ns / 1e6;
		times->npasses = copro.npasses;
	}
	started = hjg_arena_now_ns();
	if (status == HJG_OK)
		status = replay(bench, data, buffers);
	if (i >= 0)
		times->bus_ms[i] = (double) (hjg_arena_now_ns() - started) / 1e6;
	return status;
}

static HjgStatus
time_case(HjgHostBench *bench, HjgHostData *data)
{
	static Times times;
	const hjg_u64 ntuples = data->join.build.nrows + data->join.probe.nrows;
	const double in_gb = (double) (ntuples * row_bytes(data)) / 1e9;
	const double out_gb = (double) (data->join.probe.nrows * sizeof(HjgPair)) / 1e9;
	HjgCudaPtr	buffers[4] = {0};
	HjgStatus	status = alloc_replay(bench, data, buffers);

	times.good = true;
	for (int i = -1; i < bench->nreps && status == HJG_OK; i++)
		status = time_once(bench, data, buffers, &times, i);
	for (int i = 0; i < 4; i++)
		hjg_cuda_free(&bench->lanes->work, buffers[i]);
	if (status == HJG_OK)
	{
		const double ms = median(times.join_ms, bench->nreps);
		const double bus = median(times.bus_ms, bench->nreps);

		fprintf(bench->out, "%-20s %-8s %9.2f %8.2f %7.2f %7.2f %7.1f %9.2f %6.1f%%  %s", data->c->name,
				bench->strategy != NULL ? bench->strategy->name : "auto", ms, (double) ntuples / ms / 1e6, in_gb, out_gb,
				(in_gb + out_gb) / ms * 1e3, bus, 100 * bus / ms, times.good ? "ok" : "WRONG");
		if (data->c->copro)
			fprintf(bench->out, "; %d sets, %.1f ms partitioned, floor %.1f", times.npasses,
					median(times.partition_ms, bench->nreps), in_gb / bench->copy_gbs * 1e3);
		fprintf(bench->out, "\n");
		fflush(bench->out);
	}
	bench->wrong |= !times.good;
	return status;
}

static HjgStatus
run_case(HjgHostBench *bench, const HjgHostCase *c)
{
	const HjgCudaDevice *device = bench->lanes->work.device;
	HjgHostData data;
	HjgStatus	status = hjg_host_data_make(bench, c, &data);
	const HjgCudaCopro copro = copro_of(bench, &data);

	if (status == HJG_OK && bench->grant.bytes < (c->copro ? hjg_cuda_copro_bytes(device, &copro) :
												  hjg_cuda_stream_bytes(device, &data.join)))
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

static HjgStatus
open_bench(HjgHostBench *bench, HjgCudaDevice *device)
{
	HjgStatus	status = hjg_cuda_admit(device->pool, hjg_cuda_pool_budget(device->pool), NULL, 0, &bench->grant);

	bench->pool = hjg_pool_create(hjg_device_cpus());
	bench->stagers = hjg_pool_create(bench->nstagers);
	if (status == HJG_OK)
		status = hjg_cuda_lanes_take(device, NULL, &bench->grant, &bench->lanes);
	return status == HJG_OK ? print_bus(bench) : status;
}

/* What follows --device and --host; false, with a message, for a bad option.  *list: print the cases. */
static bool
read_options(HjgHostBench *bench, int argc, char **argv, const char **text, bool *list)
{
	for (int i = 0; i < argc; i++)
	{
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;
		bool		known = value != NULL;

		if (strcmp(argv[i], "--list") == 0)
		{
			*list = true;
			continue;
		}
		if (value != NULL && strcmp(argv[i], "--case") == 0)
			*text = value;
		else if (value != NULL && strcmp(argv[i], "--rows") == 0)
			bench->factor = atof(value);
		else if (value != NULL && strcmp(argv[i], "--chunk") == 0)
			bench->chunk_rows = strtoull(value, NULL, 10) / 4 * 4;
		else if (value != NULL && strcmp(argv[i], "--bits") == 0)
			bench->bits = atoi(value);
		else if (value != NULL && strcmp(argv[i], "--block") == 0)
			bench->block_rows = (hjg_u32) strtoul(value, NULL, 10) / HJG_STAGE_GROUP * HJG_STAGE_GROUP;
		else if (value != NULL && strcmp(argv[i], "--set") == 0)
			bench->set_part = atof(value);
		else if (value != NULL && strcmp(argv[i], "--stagers") == 0)
			bench->nstagers = atoi(value);
		else if (value != NULL && strcmp(argv[i], "--reps") == 0)
			bench->nreps = atoi(value);
		else if (value != NULL && strcmp(argv[i], "--strategy") == 0)
			known = (bench->strategy = hjg_cuda_strategy_named(value)) != NULL;
		else
			known = false;
		if (!known)
		{
			fprintf(stderr, "hjoin_gpu_device: bad option of the benchmark: %s\n", argv[i]);
			return false;
		}
		i++;
	}
	if (bench->bits < 0 || bench->bits > HJG_STAGE_MOST_BITS || bench->block_rows < 1024 || bench->block_rows > 1u << 20 ||
		bench->set_part <= 0 || bench->set_part > 1 || bench->nstagers < 1)
	{
		fprintf(stderr, "hjoin_gpu_device: --bits takes up to %d, --block 1024 to 1048576, --set up to 1\n", HJG_STAGE_MOST_BITS);
		return false;
	}
	if (bench->factor > 0 && bench->factor <= 4 && bench->nreps >= 1 && bench->nreps <= MAX_REPS &&
		(bench->chunk_rows == 0 || (bench->chunk_rows >= 1024 && bench->chunk_rows <= 1u << 28)))
		return true;
	fprintf(stderr, "hjoin_gpu_device: --rows takes up to 4, --reps 1 to %d, --chunk 1024 to 268435456\n", MAX_REPS);
	return false;
}

int
hjg_cuda_host_bench(FILE *out, int number, int argc, char **argv)
{
	static HjgHostBench bench = {.factor = 1, .nreps = 5, .bits = 6, .block_rows = 1u << 16, .set_part = 0.5};
	HjgDeviceInfo infos[HJG_CUDA_MAX_DEVICES];
	const char *text = "";
	HjgCudaDevice *device;
	char		reason[128];
	bool		list = false;
	HjgStatus	status;

	bench.out = out;
	bench.nstagers = hjg_device_cpus() > 1 ? hjg_device_cpus() - 1 : 1;
	if (!read_options(&bench, argc, argv, &text, &list))
		return 2;
	for (int c = 0; c < NCASES && list; c++)
		fprintf(out, "%s\n", cases[c].name);
	if (list)
		return 0;
	hjg_cuda_list(infos, HJG_CUDA_MAX_DEVICES);
	device = hjg_cuda_enter(number, reason, sizeof(reason));
	if (device == NULL)
	{
		fprintf(stderr, "hjoin_gpu_device: %s\n", reason);
		return 2;
	}
	status = open_bench(&bench, device);
	if (status == HJG_OK)
		fprintf(out, "%-20s %-8s %9s %8s %7s %7s %7s %9s %7s\n", "case", "strategy", "ms", "Gtuple/s", "in GB", "out GB",
				"GB/s", "bus ms", "share");
	for (int i = 0; i < NCASES && status == HJG_OK; i++)
		if (strstr(cases[i].name, text) != NULL)
			status = run_case(&bench, &cases[i]);
	if (status != HJG_OK)
		fprintf(stderr, "hjoin_gpu_device: %s\n",
				bench.lanes != NULL && bench.lanes->work.error[0] != '\0' ? bench.lanes->work.error : hjg_status_text(status));
	return status != HJG_OK ? 2 : bench.wrong ? 1 : 0;
}
