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
 *
 * What is timed, by the host's clock: from keys in pinned host memory to all pairs of row numbers (8 bytes a match)
 * in pinned host memory, warm; copying, building and probing the build side included.
 *
 * bus: the same copies with the same dependencies and no kernels, timed in turn with the joins; share: that time over
 * the join's. in, out: GB that went each way. First of all the bus is measured alone: each way and both ways at once.
 * Before the first and the last join the result is poisoned; after them each pair's keys are compared,
 * and number and sum of the pairs with what the keys were made of.
 *
 * Measured on an H200 (55 GB/s one way, 51 each way at once; 16 cores): 64M x 512M rows of 4-byte keys 88 ms, 98 % of
 * the bus; chunks of 4M instead of 8M rows 108 ms, because the join of a chunk by partitions reads all build rows, 16M
 * 90 ms; a table in device memory instead of partitions 91 ms. With 8-byte keys two passes of partitions are the limit.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/hjg_cuda_host.h"
#include "layout/hjg_checksum.h"

#define MAX_REPS 101
#define POISON 0xAB
#define PIECE_ROWS ((hjg_u64) 1 << 20)
#define BUS_BYTES ((size_t) 512 << 20)
#define MILLION 1048576.0

typedef struct HostCase
{
	const char *name;
	int			width;
	double		nbuild;			/* rows, millions (2^20); each has a key of its own */
	double		nprobe;			/* each has one match */
} HostCase;

static const HostCase cases[] = {
	{"stream_4_64Mx512M", 4, 64, 512},
	{"stream_4_2Mx512M", 4, 2, 512},
	{"stream_8_64Mx256M", 8, 64, 256},
};

#define NCASES ((int) (sizeof(cases) / sizeof(cases[0])))

typedef struct HostBench
{
	FILE	   *out;
	HjgPool    *pool;
	HjgCudaGrant grant;
	HjgCudaLanes *lanes;
	double		factor;
	hjg_u64		chunk_rows;
	int			nreps;
	const HjgCudaStrategy *strategy;
	bool		wrong;
} HostBench;

/* Inputs and output of a case, and a task over pieces of its rows or pairs. */
typedef struct HostData
{
	const HostCase *c;
	HjgCudaHostJoin join;
	void	   *build_keys;
	void	   *probe_keys;
	HjgCudaHostResult result;
	hjg_u64		expected;		/* sum over the pairs */
	hjg_u64		checksum;		/* atomic */
	hjg_u64		nwrong;			/* atomic */
} HostData;

/* ---- pinned memory ---- */

typedef struct Touch
{
	char	   *ptr;
	size_t		bytes;
	int			value;
} Touch;

static void
touch_piece(void *arg, int piece, int worker)
{
	const Touch *touch = arg;
	const size_t from = (size_t) piece * HJG_SLAB_BYTES;

	memset(touch->ptr + from, touch->value, touch->bytes - from < HJG_SLAB_BYTES ? touch->bytes - from : HJG_SLAB_BYTES);
}

static void
fill_memory(HjgPool *pool, void *ptr, size_t bytes, int value)
{
	Touch		touch = {ptr, bytes, value};

	hjg_pool_run(pool, (int) ((bytes + HJG_SLAB_BYTES - 1) / HJG_SLAB_BYTES), touch_piece, &touch);
}

static void
free_pinned(void *ptr, size_t bytes)
{
	if (ptr == NULL)
		return;
	(void) hjg_cuda.host_unregister(ptr);
	munmap(ptr, bytes);
}

/* Registered memory; all threads touch it first, which the driver would do alone. */
static void *
take_pinned(HostBench *bench, size_t bytes)
{
	void	   *ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (ptr == MAP_FAILED)
		return NULL;
#ifdef MADV_HUGEPAGE
	(void) madvise(ptr, bytes, MADV_HUGEPAGE);
#endif
	fill_memory(bench->pool, ptr, bytes, POISON);
	if (hjg_cuda_check(&bench->lanes->work, hjg_cuda.host_register(ptr, bytes, HJG_CUDA_HOST_PORTABLE), "pinned memory") == HJG_OK)
		return ptr;
	munmap(ptr, bytes);
	return NULL;
}

/* ---- inputs and the check ---- */

/* Permutations other than those of hjg_hash.h. */
static hjg_u32
key32(hjg_u32 id)
{
	id *= 0x9E3779B1u;
	id ^= id >> 15;
	id *= 0x85EBCA77u;
	id ^= id >> 13;
	return id * 0xC2B2AE3Du;
}

static hjg_u64
key64(hjg_u64 id)
{
	id ^= id >> 33;
	id *= 0xFF51AFD7ED558CCDull;
	id ^= id >> 33;
	id *= 0xC4CEB9FE1A85EC53ull;
	return id ^ id >> 33;
}

static void
put_key(const HostData *data, void *keys, hjg_u64 row, hjg_u32 id)
{
	if (data->c->width == HJG_KEY_WIDTH_4)
		((hjg_u32 *) keys)[row] = key32(id);
	else
		((hjg_u64 *) keys)[row] = key64((hjg_u64) id + 1);
}

static void
fill_build(void *arg, int piece, int worker)
{
	const HostData *data = arg;
	const hjg_u64 from = (hjg_u64) piece * PIECE_ROWS;

	for (hjg_u64 i = from; i < from + PIECE_ROWS && i < data->join.build.nrows; i++)
		put_key(data, data->build_keys, i, (hjg_u32) i);
}

static void
fill_probe(void *arg, int piece, int worker)
{
	HostData   *data = arg;
	const hjg_u64 from = (hjg_u64) piece * PIECE_ROWS;
	hjg_u64		sum = 0;

	for (hjg_u64 i = from; i < from + PIECE_ROWS && i < data->join.probe.nrows; i++)
	{
		const hjg_u32 id = (hjg_u32) (key64(i + 0x5DEECE66Dull) % data->join.build.nrows);

		put_key(data, data->probe_keys, i, id);
		sum += hjg_checksum_pair((hjg_u32) i, id);
	}
	__atomic_fetch_add(&data->expected, sum, __ATOMIC_RELAXED);
}

static bool
same_key(const HostData *data, hjg_u64 build_row, hjg_u64 probe_row)
{
	const size_t width = (size_t) data->c->width;

	return build_row < data->join.build.nrows && probe_row < data->join.probe.nrows &&
		memcmp((char *) data->build_keys + build_row * width, (char *) data->probe_keys + probe_row * width, width) == 0;
}

static void
check_batch(void *arg, int piece, int worker)
{
	HostData   *data = arg;
	const HjgCudaBatch batch = data->result.batches[piece];
	hjg_u64		sum = 0;
	hjg_u64		nwrong = 0;

	for (hjg_u64 i = 0; i < batch.npairs; i++)
	{
		const HjgPair pair = data->result.pairs[batch.first_pair + i];

		sum += hjg_checksum_pair((hjg_u32) batch.first_row + pair.probe_row, pair.build_row);
		nwrong += !same_key(data, pair.build_row, batch.first_row + pair.probe_row);
	}
	__atomic_fetch_add(&data->checksum, sum, __ATOMIC_RELAXED);
	__atomic_fetch_add(&data->nwrong, nwrong, __ATOMIC_RELAXED);
}

static bool
check_result(HostBench *bench, HostData *data)
{
	data->checksum = data->nwrong = 0;
	hjg_pool_run(bench->pool, data->result.nbatches, check_batch, data);
	return data->result.npairs == data->join.probe.nrows && data->checksum == data->expected && data->nwrong == 0;
}

static int
pieces_of(hjg_u64 nrows)
{
	return (int) ((nrows + PIECE_ROWS - 1) / PIECE_ROWS);
}

static void
free_data(HostData *data)
{
	free_pinned(data->build_keys, data->join.build.nrows * (size_t) data->c->width);
	free_pinned(data->probe_keys, data->join.probe.nrows * (size_t) data->c->width);
	free_pinned(data->result.pairs, data->result.capacity * sizeof(HjgPair));
	free(data->result.batches);
}

static HjgStatus
make_data(HostBench *bench, const HostCase *c, HostData *data)
{
	const hjg_u64 nbuild = (hjg_u64) (c->nbuild * bench->factor * MILLION) + 1;
	const hjg_u64 nprobe = (hjg_u64) (c->nprobe * bench->factor * MILLION) + 1;
	const size_t bytes = (nbuild + nprobe) * (size_t) c->width + nprobe * sizeof(HjgPair);

	memset(data, 0, sizeof(*data));
	data->c = c;
	data->join = (HjgCudaHostJoin) {
		.key_width = c->width, .mode = HJG_MATCH_ALL, .strategy = bench->strategy,
		.chunk_rows = bench->chunk_rows != 0 ? bench->chunk_rows : hjg_cuda_flow_chunk_rows(nbuild),
		.build.nrows = nbuild, .probe.nrows = nprobe
	};
	data->result.capacity = nprobe;
	data->result.max_batches = (int) (nprobe / data->join.chunk_rows * 2) + 64;
	if (bytes > (size_t) sysconf(_SC_PHYS_PAGES) * (size_t) sysconf(_SC_PAGESIZE) / 4 * 3)
		return HJG_ERR_MEMORY;
	data->build_keys = take_pinned(bench, nbuild * (size_t) c->width);
	data->probe_keys = take_pinned(bench, nprobe * (size_t) c->width);
	data->result.pairs = take_pinned(bench, nprobe * sizeof(HjgPair));
	data->result.batches = calloc((size_t) data->result.max_batches, sizeof(HjgCudaBatch));
	if (data->build_keys == NULL || data->probe_keys == NULL || data->result.pairs == NULL || data->result.batches == NULL)
		return HJG_ERR_MEMORY;
	data->join.build.keys = data->build_keys;
	data->join.probe.keys = data->probe_keys;
	hjg_pool_run(bench->pool, pieces_of(nbuild), fill_build, data);
	hjg_pool_run(bench->pool, pieces_of(nprobe), fill_probe, data);
	return HJG_OK;
}

/* ---- the bus ---- */

/* GB/s of copies of so many bytes each way at once. */
static HjgStatus
measure_bus(HostBench *bench, void *host_in, void *host_out, HjgCudaPtr in, HjgCudaPtr out, size_t in_bytes, size_t out_bytes,
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

static HjgStatus
print_bus(HostBench *bench)
{
	void	   *host_in = take_pinned(bench, BUS_BYTES);
	void	   *host_out = take_pinned(bench, BUS_BYTES);
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
	(void) hjg_cuda_lanes_wait(bench->lanes);
	hjg_cuda_free(&bench->lanes->work, in);
	hjg_cuda_free(&bench->lanes->work, out);
	free_pinned(host_in, BUS_BYTES);
	free_pinned(host_out, BUS_BYTES);
	if (status == HJG_OK)
		fprintf(bench->out, "# bus: %.1f GB/s in, %.1f out, %.1f each way at once\n", gbs[0], gbs[1], gbs[2] / 2);
	return status;
}

/* The copies of a stream join: the build side, then chunks in and, behind each, its pairs out. */
static HjgStatus
replay_stream(HostBench *bench, HostData *data, HjgCudaPtr *buffers)
{
	HjgCudaLanes *lanes = bench->lanes;
	const size_t width = (size_t) data->c->width;
	HjgStatus	status = hjg_cuda_copy_in(&lanes->in, buffers[0], data->build_keys, data->join.build.nrows * width);
	HjgStatus	drained;

	for (hjg_u64 row = 0, turn = 0; row < data->join.probe.nrows && status == HJG_OK; row += data->join.chunk_rows, turn ^= 1)
	{
		const hjg_u64 left = data->join.probe.nrows - row;
		const hjg_u64 n = left < data->join.chunk_rows ? left : data->join.chunk_rows;
		HjgCudaLane *out = &lanes->out[turn];

		status = hjg_cuda_copy_in(&lanes->in, buffers[1 + turn], (char *) data->probe_keys + row * width, n * width);
		if (status == HJG_OK)
			status = hjg_cuda_follow(out, &lanes->in);
		if (status == HJG_OK)
			status = hjg_cuda_copy_out(out, data->result.pairs + row, buffers[3 + turn], n * sizeof(HjgPair));
		/* as far ahead as the join's copies */
		if (status == HJG_OK)
			status = hjg_cuda_wait(&lanes->out[turn ^ 1]);
	}
	drained = hjg_cuda_lanes_wait(lanes);
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
alloc_replay(HostBench *bench, const HostData *data, HjgCudaPtr *buffers)
{
	HjgCudaLane *lane = &bench->lanes->work;
	HjgStatus	status = hjg_cuda_alloc(lane, data->join.build.nrows * (size_t) data->c->width, &buffers[0]);

	for (int i = 1; i < 5 && status == HJG_OK; i++)
		status = hjg_cuda_alloc(lane, data->join.chunk_rows * (i < 3 ? (size_t) data->c->width : sizeof(HjgPair)), &buffers[i]);
	return status;
}

static HjgStatus
time_stream(HostBench *bench, HostData *data)
{
	const double in_gb = (double) ((data->join.build.nrows + data->join.probe.nrows) * (hjg_u64) data->c->width) / 1e9;
	const double out_gb = (double) (data->join.probe.nrows * sizeof(HjgPair)) / 1e9;
	const hjg_u64 ntuples = data->join.build.nrows + data->join.probe.nrows;
	HjgCudaPtr	buffers[5] = {0};
	double		join_ms[MAX_REPS];
	double		bus_ms[MAX_REPS];
	bool		good = true;
	HjgStatus	status = alloc_replay(bench, data, buffers);

	/* the first one warms up */
	for (int i = -1; i < bench->nreps && status == HJG_OK; i++)
	{
		const bool	check = i == -1 || i == bench->nreps - 1;
		hjg_u64		started;
		hjg_u64		joined;

		if (check)
			fill_memory(bench->pool, data->result.pairs, data->result.capacity * sizeof(HjgPair), POISON);
		started = hjg_arena_now_ns();
		status = hjg_cuda_stream_join(bench->lanes, &data->join, &data->result);
		joined = hjg_arena_now_ns();
		if (status == HJG_OK && check)
			good = good && check_result(bench, data);
		if (i >= 0)
			join_ms[i] = (double) (joined - started) / 1e6;
		started = hjg_arena_now_ns();
		if (status == HJG_OK)
			status = replay_stream(bench, data, buffers);
		if (i >= 0)
			bus_ms[i] = (double) (hjg_arena_now_ns() - started) / 1e6;
	}
	for (int i = 0; i < 5; i++)
		hjg_cuda_free(&bench->lanes->work, buffers[i]);
	if (status == HJG_OK)
	{
		const double ms = median(join_ms, bench->nreps);
		const double bus = median(bus_ms, bench->nreps);

		fprintf(bench->out, "%-20s %-8s %9.2f %8.2f %7.2f %7.2f %7.1f %9.2f %6.1f%%  %s\n", data->c->name,
				bench->strategy != NULL ? bench->strategy->name : "auto", ms, (double) ntuples / ms / 1e6, in_gb, out_gb,
				(in_gb + out_gb) / ms * 1e3, bus, 100 * bus / ms, good ? "ok" : "WRONG");
		fflush(bench->out);
	}
	bench->wrong |= !good;
	return status;
}

static HjgStatus
run_case(HostBench *bench, const HostCase *c)
{
	HostData	data;
	HjgStatus	status = make_data(bench, c, &data);

	if (status == HJG_OK && hjg_cuda_stream_bytes(bench->lanes->work.device, &data.join) > bench->grant.bytes)
		status = HJG_ERR_MEMORY;
	if (status == HJG_OK)
		status = time_stream(bench, &data);
	free_data(&data);
	if (status == HJG_ERR_MEMORY || status == HJG_ERR_INPUT)
	{
		fprintf(bench->out, "%-20s %s\n", c->name, status == HJG_ERR_MEMORY ? "not enough memory" : "the strategy does not suit");
		return HJG_OK;
	}
	return status;
}

static HjgStatus
open_bench(HostBench *bench, HjgCudaDevice *device)
{
	HjgStatus	status = hjg_cuda_admit(device->pool, hjg_cuda_pool_budget(device->pool), NULL, 0, &bench->grant);

	bench->pool = hjg_pool_create(hjg_device_cpus());
	if (status == HJG_OK)
		status = hjg_cuda_lanes_take(device, NULL, &bench->grant, &bench->lanes);
	return status == HJG_OK ? print_bus(bench) : status;
}

/* What follows --device and --host; false, with a message, for a bad option.  *list: print the cases. */
static bool
read_options(HostBench *bench, int argc, char **argv, const char **text, bool *list)
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
	if (bench->factor > 0 && bench->factor <= 4 && bench->nreps >= 1 && bench->nreps <= MAX_REPS &&
		(bench->chunk_rows == 0 || (bench->chunk_rows >= 1024 && bench->chunk_rows <= 1u << 28)))
		return true;
	fprintf(stderr, "hjoin_gpu_device: --rows takes up to 4, --reps 1 to %d, --chunk 1024 to 268435456\n", MAX_REPS);
	return false;
}

int
hjg_cuda_host_bench(FILE *out, int number, int argc, char **argv)
{
	static HostBench bench = {.factor = 1, .nreps = 5};
	HjgDeviceInfo infos[HJG_CUDA_MAX_DEVICES];
	const char *text = "";
	HjgCudaDevice *device;
	char		reason[128];
	bool		list = false;
	HjgStatus	status;

	bench.out = out;
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
