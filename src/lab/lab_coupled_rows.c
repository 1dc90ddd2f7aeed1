/*
 * lab_coupled_rows.c
 *	  hjoin_gpu_lab NAME --rows[=ID]: every system of the papers by its name, over sizes, skews and
 *	  selectivities.
 *
 * A system passes if each pair of its result is right (hjg_bench_run() checks all of them), if the coupled
 * engine joined, and if the run shows the system's feature: rows that crossed the emulated bus, tables in
 * parts, keys that were unpacked.  It prints a line of TAP for each system and size, with its times, so
 * the table is also a test.
 */
#define _GNU_SOURCE

#include <stdio.h>
#include <string.h>

#include "lab/hjg_coupled_bench.h"

/*
 * Bytes a row of a zero-copy buffer that is smaller than the build side: about half of its table, and some
 * for the workers.
 */
#define BUFFER_ROW_BYTES 24
#define BUFFER_MORE_BYTES (512 * 1024)

typedef bool (*ShowsFn) (const HjgCoupledStats *stats);

static bool
shows_prediction(const HjgCoupledStats *stats)
{
	return stats->predicted_build_ns > 0 && stats->predicted_probe_ns > 0;
}

static bool
shows_transfers(const HjgCoupledStats *stats)
{
	return stats->transfer_ns > 0;
}

static bool
shows_parts(const HjgCoupledStats *stats)
{
	return stats->nparts > 1;
}

static bool
shows_units(const HjgCoupledStats *stats)
{
	return stats->predicted.total_ns > 0;
}

static bool
shows_unpacking(const HjgCoupledStats *stats)
{
	return stats->feed_rows > 0;
}

typedef struct System
{
	const char *id;				/* C: rows of the first paper, I: of the second */
	const char *name;
	HjgCoupledStrategy strategy;
	HjgPipeline pipeline;		/* E if not given */
	bool		halves;			/* no model: every step is halved */
	bool		separate;
	bool		grouping;
	bool		packed;
	bool		small_buffer;
	bool		any_pipeline;	/* the model chooses units */
	hjg_u32		block_bytes;	/* 0: the default; 1: one global pointer */
	size_t		was_bytes;		/* 0: the default */
	int			boundary;
	double		bus_bytes_per_ns;
	ShowsFn		shows;			/* NULL: the result suffices */
} System;

#define S(row, what, how, ...) {.id = row, .name = what, .strategy = how, __VA_ARGS__}

static const System systems[] = {
	S("C1", "SHJ, halves", HJG_COUPLED_SHJ_PL, .halves = true),
	S("C2", "PHJ, halves", HJG_COUPLED_PHJ_PL, .halves = true),
	S("C3", "SHJ-OL", HJG_COUPLED_SHJ_OL),
	S("C3", "PHJ-OL", HJG_COUPLED_PHJ_OL),
	S("C4", "SHJ-DD", HJG_COUPLED_SHJ_DD),
	S("C4", "PHJ-DD", HJG_COUPLED_PHJ_DD),
	S("C5", "SHJ-PL", HJG_COUPLED_SHJ_PL),
	S("C5", "PHJ-PL", HJG_COUPLED_PHJ_PL),
	S("C6", "SHJ-DD, separate tables", HJG_COUPLED_SHJ_DD, .separate = true),
	S("C6", "PHJ-DD, separate tables", HJG_COUPLED_PHJ_DD, .separate = true),
	S("C7", "one global pointer", HJG_COUPLED_PHJ_PL, .block_bytes = 1),
	S("C7", "blocks of 32 KB", HJG_COUPLED_PHJ_PL, .block_bytes = 32768),
	S("C8", "SHJ-PL, grouping", HJG_COUPLED_SHJ_PL, .grouping = true),
	S("C8", "PHJ-PL, grouping", HJG_COUPLED_PHJ_PL, .grouping = true),
	S("C9", "SHJ, BasicUnit", HJG_COUPLED_SHJ_BASIC_UNIT),
	S("C9", "PHJ, BasicUnit", HJG_COUPLED_PHJ_BASIC_UNIT),
	S("C10", "cost model, SHJ-PL", HJG_COUPLED_SHJ_PL, .shows = shows_prediction),
	S("C10", "cost model, PHJ-PL", HJG_COUPLED_PHJ_PL, .shows = shows_prediction),
	S("C11", "bus of 3 GB/s, halves", HJG_COUPLED_SHJ_PL, .halves = true, .bus_bytes_per_ns = 3, .shows = shows_transfers),
	S("C12", "larger than the buffer, SHJ-PL", HJG_COUPLED_SHJ_PL, .small_buffer = true, .shows = shows_parts),
	S("C12", "larger than the buffer, PHJ-PL", HJG_COUPLED_PHJ_PL, .small_buffer = true, .shows = shows_parts),
	S("I1", "P, work-ahead set of 128 KB", HJG_COUPLED_SHJ_PL, .pipeline = HJG_PIPELINE_PE, .was_bytes = 131072),
	S("I2", "PE, SHJ-PL", HJG_COUPLED_SHJ_PL, .pipeline = HJG_PIPELINE_PE),
	S("I2", "PE, PHJ-PL", HJG_COUPLED_PHJ_PL, .pipeline = HJG_PIPELINE_PE),
	S("I3", "cPDE-c", HJG_COUPLED_SHJ_PL, .pipeline = HJG_PIPELINE_CPDE_C, .shows = shows_unpacking),
	S("I3", "cPDE-b", HJG_COUPLED_SHJ_PL, .pipeline = HJG_PIPELINE_CPDE_B, .shows = shows_unpacking),
	S("I3", "cPDE-g", HJG_COUPLED_SHJ_PL, .pipeline = HJG_PIPELINE_CPDE_G, .shows = shows_unpacking),
	S("I4", "packed keys, E", HJG_COUPLED_SHJ_PL, .packed = true, .shows = shows_unpacking),
	S("I4", "packed keys, cPDE-b, PHJ-PL", HJG_COUPLED_PHJ_PL, .pipeline = HJG_PIPELINE_CPDE_B, .packed = true, .shows = shows_unpacking),
	S("I5", "merged kernels, 4 units unpack", HJG_COUPLED_SHJ_PL, .pipeline = HJG_PIPELINE_CPDE_G, .boundary = 4, .packed = true,
	  .shows = shows_unpacking),
	S("I6", "units by the model", HJG_COUPLED_SHJ_PL, .any_pipeline = true, .shows = shows_units),
};
#define NSYSTEMS ((int) (sizeof(systems) / sizeof(systems[0])))

static HjgCoupledConfig
system_config(const HjgBenchOptions *options, const System *system, hjg_u32 nrows)
{
	HjgCoupledConfig config = options->config;

	config.strategy = system->strategy;
	config.pipeline = system->any_pipeline ? HJG_PIPELINE_AUTO : system->pipeline != HJG_PIPELINE_AUTO ? system->pipeline :
		HJG_PIPELINE_E;
	config.separate_tables = system->separate;
	config.grouping = system->grouping;
	config.boundary = system->boundary;
	config.bus_bytes_per_ns = system->bus_bytes_per_ns;
	config.keep_ratios = system->halves;
	if (system->block_bytes > 0)
		config.block_bytes = system->block_bytes == 1 ? 0 : system->block_bytes;
	if (system->was_bytes > 0)
		config.was_bytes = system->was_bytes;
	if (system->small_buffer)
		config.buffer_bytes = (size_t) nrows * BUFFER_ROW_BYTES + BUFFER_MORE_BYTES;
	return config;
}

/* The outcome of a system on one input. */
typedef struct Outcome
{
	bool		good;
	double		ms;
} Outcome;

static Outcome outcomes[sizeof(systems) / sizeof(systems[0])][HJG_BENCH_SHAPES];

static bool
is_asked(const HjgBenchOptions *options, const System *system)
{
	return options->rows[0] == '\0' || strcmp(options->rows, system->id) == 0;
}

/* Run all systems that take this input. */
static void
run_systems(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, const HjgBenchInput *in, int shape)
{
	static HjgBenchTimes times;
	int			order[NSYSTEMS];

	hjg_lab_order(order, NSYSTEMS);
	for (int k = 0; k < NSYSTEMS; k++)
	{
		const int	i = order[k];
		const System *system = &systems[i];
		const HjgCoupledConfig config = system_config(options, system, in->nrows);

		if (!is_asked(options, system) || system->packed != (in->packed_room > 0))
			continue;
		memset(&times, 0, sizeof(times));
		outcomes[i][shape].good = hjg_bench_run(env, &config, runner, in, &times) && !times.stats.gave_up &&
			(system->shows == NULL || system->shows(&times.stats)) &&
			(system->any_pipeline || times.stats.pipeline == config.pipeline);
		outcomes[i][shape].ms = times.total_ns / 1e6;
	}
}

/* Run one size: false if something is wrong. */
static bool
run_rows_of_size(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log, int *number)
{
	bool		good = true;

	memset(outcomes, 0, sizeof(outcomes));
	for (int shape = 0; shape < HJG_BENCH_SHAPES; shape++)
		for (int packed = 0; packed < 2; packed++)
		{
			HjgBenchOptions with = *options;
			HjgBenchInput in;

			with.skew = hjg_bench_shapes[shape].skew;
			with.selectivity = hjg_bench_shapes[shape].selectivity;
			with.packed = packed > 0;
			if (hjg_bench_input_create(&in, &with, log))
				run_systems(options, env, runner, &in, shape);
			hjg_bench_input_destroy(&in);
		}
	for (int i = 0; i < NSYSTEMS; i++)
	{
		bool		right = true;

		if (!is_asked(options, &systems[i]))
			continue;
		for (int shape = 0; shape < HJG_BENCH_SHAPES; shape++)
			right = right && outcomes[i][shape].good;
		printf("%s %d - %-3s %-31s %8u rows, ms:", right ? "ok" : "not ok", ++*number, systems[i].id, systems[i].name, 1u << log);
		for (int shape = 0; shape < HJG_BENCH_SHAPES; shape++)
			printf(" %9.2f%s", outcomes[i][shape].ms, outcomes[i][shape].good ? "" : " WRONG");
		printf("\n");
		good = good && right;
	}
	fflush(stdout);
	return good;
}

bool
hjg_bench_rows(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner)
{
	bool		good = true;
	int			number = 0;

	printf("# columns:");
	for (int shape = 0; shape < HJG_BENCH_SHAPES; shape++)
		printf("%s %s", shape > 0 ? "," : "", hjg_bench_shapes[shape].name);
	printf("\n");
	for (int log = options->min_log; log <= options->max_log; log += 2)
		good = run_rows_of_size(options, env, runner, log, &number) && good;
	printf("1..%d\n", number);
	return good;
}
