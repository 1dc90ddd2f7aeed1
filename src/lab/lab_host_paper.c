/*
 * lab_host_paper.c
 *	  Benchmark of joins of sides in host memory: the comparisons of the papers.
 *
 * All contestants of a case take turns in an order that is drawn, on the same keys; medians are shown with the
 * least and the most.  Timed, by the host's clock: from keys in pinned host memory to pairs there, or, with
 * "sum", to their number and checksum on the device.
 *
 * A contestant is a system and settings behind slashes: stream, copro, spill or cpu; a resident strategy;
 * sum; one_stream (no copy beside another or a join); threads=N (that partition, or join on the CPU); near (rows
 * of other NUMA nodes go through pinned memory of the device's), near_all (all rows do).
 */
#include <stdlib.h>
#include <string.h>

#include "lab/hjg_cuda_bench.h"
#include "lab/hjg_cuda_host_bench.h"
#include "lab/hjg_lab.h"

#define MOST_REPS 101
#define MOST_CONTESTANTS 16
#define MOST_CASES 12

/* CASE(nbuild, nprobe, zipf exponent of the build side, of the probe side, build rows a key) */
#define CASE(b, p, build, probe, dup) {.name = #b "Mx" #p "M", .width = 4, .nbuild = b, .nprobe = p, .build_theta = build, .probe_theta = probe, .duplicates = dup}

typedef struct HostTable
{
	const char *paper;
	const char *figures;
	const char *title;
	const char *claim;
	const char *differs;
	const char *contestants[MOST_CONTESTANTS];
	HjgHostCase cases[MOST_CASES];
} HostTable;

static const HostTable tables[] = {
	{"002", "14", "a build side of 128M rows stays on the device, a larger probe side streams through it",
		"over the CPU hash join 5.1 times falling to 3.5, sort-merge 11 to 13; transfers beside the joins gain 6 and 8 %",
		"probe sides up to 1G rows, not 2.5G; 128M build rows for both; the CPU's join is our engine",
		{"cpu", "stream/bsh", "stream/bsh/one_stream", "stream/smj", "stream/smj/one_stream", "stream", "stream/one_stream"},
		{CASE(128, 256, 0, 0, 1), CASE(128, 512, 0, 0, 1), CASE(128, 1024, 0, 0, 1)}},
	{"003", "11", "a build side of 64M rows stays on the device, aggregated and materialised",
		"1.4 Gtuples/s, the bus is the limit; materialisation costs little", NULL,
		{"cpu", "stream/prbc/sum", "stream/prbc", "stream/sum", "stream"},
		{CASE(64, 256, 0, 0, 1), CASE(64, 512, 0, 0, 1)}},
	{"003", "12", "neither side stays on the device, by size and ratio",
		"1.2 Gtuples/s whatever the size; the CPU's falls with it",
		"half of the build side is on the device at a time; spill, where the device partitions, is ours; no 1:4 of 1G rows",
		{"cpu", "copro/prbc", "copro", "spill"},
		{CASE(256, 256, 0, 0, 1), CASE(512, 512, 0, 0, 1), CASE(1024, 1024, 0, 0, 1), CASE(256, 512, 0, 0, 1), CASE(256, 1024, 0, 0, 1)}},
	{"003", "13", "threads that partition for the device, and as many that join on the CPU",
		"co-processing with 6 threads is ahead of the CPU with all; a plateau after 16, falling beyond 26", NULL,
		{"copro/threads=1", "copro/threads=2", "copro/threads=4", "copro/threads=6", "copro/threads=8", "copro/threads=12", "copro/threads=15",
			"cpu/threads=2", "cpu/threads=4", "cpu/threads=8", "cpu/threads=16"},
		{CASE(256, 256, 0, 0, 1)}},
	{"003", "16", "rows that were partitioned on another NUMA node than the device's are copied to its node first",
		"the copy pays, because partitioning disturbs transfers from the far node",
		"threads partition rows of any node; with one node nothing is far, and near_all shows the price of the copy alone",
		{"copro/prbc", "copro/prbc/near", "copro/prbc/near_all"}, {CASE(256, 256, 0, 0, 1), CASE(512, 512, 0, 0, 1)}},
	{"003", "18", "skew of sides that do not fit the device, aggregated",
		"no loss up to z = 1 on one side; with the same skew on both from z = 0.75 on the matches limit",
		"both sides up to z = 0.5 only: beyond there are thousands of pairs a row", {"copro/prbc/sum", "copro/sum"},
		{CASE(512, 512, 0, 0, 1), CASE(512, 512, 0, 0.5, 1), CASE(512, 512, 0, 1.0, 1), CASE(512, 512, 0.5, 0, 1), CASE(512, 512, 0.25, 0.25, 1),
			CASE(512, 512, 0.5, 0.5, 1)}},
	{"003", "19", "uniform keys with duplicates, sides that do not fit the device", NULL, "256M rows; sums only from 4 pairs a row on",
		{"copro/prbc/sum", "copro/sum"},
		{CASE(256, 256, 0, 0, 1), CASE(256, 256, 0, 0, 2), CASE(256, 256, 0, 0, 4), CASE(256, 256, 0, 0, 8)}},
	{"003", "20", "the same skew on both sides by size, aggregated", "no loss up to z = 0.5 when aggregated; collapses when materialised",
		"aggregated only", {"copro/prbc/sum", "copro/sum"},
		{CASE(256, 256, 0, 0, 1), CASE(256, 256, 0.25, 0.25, 1), CASE(256, 256, 0.5, 0.5, 1), CASE(1024, 1024, 0, 0, 1),
			CASE(1024, 1024, 0.25, 0.25, 1)}},
	{"003", "22", "sides larger than half of the device's share: our approach (unified memory and addresses: the table of cases _host)",
		"unified addresses and memory are far behind", "the device's memory would hold both sides; they are given half of the build side at a time",
		{"copro/prbc/sum", "copro/sum", "spill/sum"}, {CASE(256, 256, 0, 0, 1)}},
	{.paper = NULL}
};

/* A contestant, and its turns. */
typedef struct HostContestant
{
	const char *name;
	HjgHostSystem system;
	const HjgCudaStrategy *strategy;
	bool		sum;
	bool		serial;
	bool		is_near;
	HjgCudaNear near;			/* open, if is_near */
	int			nthreads;
	HjgPool    *stagers;		/* of that many threads, or NULL */
	HjgLabCpu  *cpu;
	bool		is_out;
	bool		good;
	double		ms[MOST_REPS];
} HostContestant;

static HostContestant entered[MOST_CONTESTANTS];

static bool
word_is(const char *at, const char *word)
{
	return strncmp(at, word, strlen(word)) == 0 && (at[strlen(word)] == '/' || at[strlen(word)] == '\0');
}

/* Read a contestant; the names are those of the tables. */
static HostContestant
read_contestant(const char *name)
{
	HostContestant c = {.name = name, .good = true, .nthreads = hjg_device_cpus()};

	c.system = word_is(name, "copro") ? HJG_HOST_COPRO : word_is(name, "spill") ? HJG_HOST_SPILL :
		word_is(name, "cpu") ? HJG_HOST_CPU : HJG_HOST_STREAM;
	for (const char *at = strchr(name, '/'); at != NULL; at = strchr(at + 1, '/'))
	{
		const char *const strategies[] = {"bsh", "smj", "prbc"};

		c.sum |= word_is(at + 1, "sum");
		c.serial |= word_is(at + 1, "one_stream");
		c.is_near |= word_is(at + 1, "near") || word_is(at + 1, "near_all");
		if (strncmp(at + 1, "threads=", 8) == 0)
			c.nthreads = atoi(at + 9);
		for (size_t i = 0; i < sizeof(strategies) / sizeof(strategies[0]); i++)
			if (word_is(at + 1, strategies[i]))
				c.strategy = hjg_lab_strategy_named(strategies[i]);
	}
	return c;
}

/* Plan a contestant's join; returns its memory for partitioned rows. */
static size_t
plan_contestant(const HjgHostBench *bench, HostContestant *c, HjgHostData *data)
{
	HjgHostBench planned = *bench;
	size_t		bytes;

	if (c->stagers != NULL)
		planned.stagers = c->stagers;
	data->join.strategy = c->strategy;
	data->join.sum = c->sum;
	data->join.serial = c->serial;
	bytes = hjg_host_data_plan(&planned, c->system, data);
	data->copro.near = c->is_near ? &c->near : NULL;
	return bytes;
}

/* Let a contestant take its turn; i < 0 warms up, and is checked. */
static HjgStatus
take_host_turn(HjgHostBench *bench, HjgHostData *data, HostContestant *c, int i)
{
	HjgLabCpuJoin join = {
		.key_width = data->c->width, .build_keys = data->build_keys, .build_rows = data->join.build.nrows, .probe_keys = data->probe_keys,
		.probe_rows = data->join.probe.nrows, .check = i < 0
	};
	hjg_u64		started;
	HjgStatus	status;

	(void) plan_contestant(bench, c, data);
	if (c->system != HJG_HOST_CPU && bench->grant.bytes < hjg_host_device_bytes(bench, data))
		status = HJG_ERR_MEMORY;
	else
	{
		started = hjg_now_ns();
		status = c->system == HJG_HOST_CPU ? hjg_lab_cpu_join(c->cpu, &join) : hjg_host_join(bench, data);
		if (i >= 0)
			c->ms[i] = c->system == HJG_HOST_CPU ? join.ms : (double) (hjg_now_ns() - started) / 1e6;
	}
	if (status == HJG_OK && i < 0)
		c->good = c->system != HJG_HOST_CPU ? hjg_host_data_check(bench, data) :
			join.npairs == data->npairs && (data->counts != NULL || join.checksum == data->expected);
	if (status != HJG_ERR_MEMORY && status != HJG_ERR_INPUT)
		return status;
	fprintf(bench->out, "%-14s %-24s %s\n", data->c->name, c->name, status == HJG_ERR_MEMORY ? "not enough memory" : "does not suit");
	c->is_out = true;
	return HJG_OK;
}

/* Start the threads of contestants; the memory for partitioned rows that the largest needs. */
static size_t
open_contestants(HjgHostBench *bench, const HostTable *t, HjgHostData *data, int *n, bool *with_pairs)
{
	size_t		most = 0;

	for (*n = 0; *n < MOST_CONTESTANTS && t->contestants[*n] != NULL; (*n)++)
	{
		HostContestant *c = &entered[*n];
		size_t		bytes;

		*c = read_contestant(t->contestants[*n]);
		if (c->system == HJG_HOST_CPU)
			c->cpu = hjg_lab_cpu_open(c->nthreads);
		else if (strstr(c->name, "threads=") != NULL)
			c->stagers = hjg_pool_create(c->nthreads);
		c->is_out = c->system == HJG_HOST_CPU && c->cpu == NULL;
		if (c->is_near && hjg_lab_near_open(&bench->streams->work, data->c->width, bench->block_rows, strstr(c->name, "near_all") != NULL,
											&c->near) != HJG_OK)
			c->is_out = true;
		*with_pairs |= c->system != HJG_HOST_CPU && !c->sum;
		bytes = plan_contestant(bench, c, data);
		most = bytes > most ? bytes : most;
	}
	return most;
}

static int
compare_host_ms(const void *a, const void *b)
{
	const double x = *(const double *) a;
	const double y = *(const double *) b;

	return x < y ? -1 : x > y;
}

static void
print_host_contestant(HjgHostBench *bench, const HjgHostData *data, HostContestant *c, const HostContestant *first)
{
	const hjg_u64 ntuples = data->join.build.nrows + data->join.probe.nrows;

	qsort(c->ms, (size_t) bench->nreps, sizeof(double), compare_host_ms);
	fprintf(bench->out, "%-14s z %.2f %.2f dup %d  %-24s %9.2f %9.2f %9.2f %8.2f  %s %6.2fx\n", data->c->name, data->c->build_theta,
			data->c->probe_theta, data->c->duplicates, c->name, c->ms[bench->nreps / 2], c->ms[0], c->ms[bench->nreps - 1],
			(double) ntuples / c->ms[bench->nreps / 2] / 1e6, c->good ? "ok" : "WRONG", first->ms[bench->nreps / 2] / c->ms[bench->nreps / 2]);
	fflush(bench->out);
	bench->wrong |= !c->good;
}

static HjgStatus
run_host_table_case(HjgHostBench *bench, const HostTable *t, const HjgHostCase *c)
{
	HjgHostData data;
	bool		with_pairs = false;
	int			order[MOST_CONTESTANTS];
	size_t		memory_bytes;
	int			n;
	HjgStatus	status;

	hjg_host_data_begin(bench, c, &data);
	memory_bytes = open_contestants(bench, t, &data, &n, &with_pairs);
	status = hjg_host_data_make(bench, memory_bytes, with_pairs, &data);
	for (int i = -1; i < bench->nreps && status == HJG_OK; i++)
	{
		hjg_lab_order(order, n);
		for (int k = 0; k < n && status == HJG_OK; k++)
			if (!entered[order[k]].is_out)
				status = take_host_turn(bench, &data, &entered[order[k]], i);
	}
	for (int k = 0; k < n; k++)
	{
		if (status == HJG_OK && !entered[k].is_out)
			print_host_contestant(bench, &data, &entered[k], entered[0].is_out ? &entered[k] : &entered[0]);
		hjg_lab_cpu_close(entered[k].cpu);
		if (entered[k].is_near)
			hjg_lab_near_close(&bench->streams->work, &entered[k].near);
		if (entered[k].stagers != NULL)
			hjg_pool_destroy(entered[k].stagers);
	}
	hjg_host_data_free(&data);
	if (status != HJG_ERR_MEMORY)
		return status;
	fprintf(bench->out, "%-14s not enough memory\n", c->name);
	return HJG_OK;
}

int
hjg_lab_host_paper(FILE *out, HjgCudaDevice *device, const char *paper, const char *figure, double factor, int nreps)
{
	static HjgHostBench bench = HJG_HOST_BENCH_INIT;
	HjgStatus	status = HJG_OK;
	bool		is_open = false;

	bench.out = out;
	bench.factor = factor;
	bench.nreps = nreps;
	bench.nstagers = hjg_device_cpus() > 1 ? hjg_device_cpus() - 1 : 1;
	for (const HostTable *t = tables; t->paper != NULL && status == HJG_OK; t++)
	{
		if (strcmp(t->paper, paper) != 0 || !hjg_bench_has_figure(t->figures, figure))
			continue;
		if (!is_open)
			status = hjg_host_bench_open(&bench, device);
		is_open = true;
		fprintf(out, "# %s, figure %s: %s\n", paper, t->figures, t->title);
		if (t->claim != NULL)
			fprintf(out, "#   there: %s\n", t->claim);
		fprintf(out, "#   here: %d CPUs, %d NUMA nodes\n", hjg_device_cpus(), hjg_lab_near_nodes());
		fprintf(out, "#   definition: %s%s\n", t->differs != NULL ? "different: " : "the same", t->differs != NULL ? t->differs : "");
		fprintf(out, "%-14s %-19s  %-24s %9s %19s %8s\n", "rows", "zipf, duplicates", "contestant", "ms", "(from to)", "Gtuple/s");
		for (int i = 0; i < MOST_CASES && t->cases[i].name != NULL && status == HJG_OK; i++)
			status = run_host_table_case(&bench, t, &t->cases[i]);
	}
	if (status != HJG_OK)
		fprintf(stderr, "hjoin_gpu_lab: %s\n",
				bench.streams != NULL && bench.streams->work.error[0] != '\0' ? bench.streams->work.error : hjg_status_text(status));
	else if (is_open)
		hjg_host_bench_close(&bench);
	return status != HJG_OK ? 2 : bench.wrong ? 1 : 0;
}
