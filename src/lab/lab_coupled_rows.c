/*
 * lab_coupled_rows.c
 *	  hjoin_gpu_lab NAME --rows[=ID]: every system of the papers by its name, over sizes, skews and
 *	  selectivities.
 *
 * A system passes if each pair of its result is right (hjg_bench_run() checks all of them), if the coupled
 * engine joined, and if the run's statistics show the system's effect: rows on both processors, one ratio a
 * phase, blocks taken from the allocator, keys that the device unpacked.  Where a device does not allow a
 * setting, the line says that it is ignored, which is not counted as right; nor is a PL whose model expects
 * nothing of several ratios.  It prints a line of TAP for each system and size, with its times, so the table
 * is also a test.
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

/* Effects of a system, the least first. */
typedef enum Effect
{
	EFFECT_MISSING,				/* the test fails */
	EFFECT_IGNORED,				/* the device does not allow the setting */
	EFFECT_ALIKE,				/* the model chose what a simpler system does */
	EFFECT_SHOWN
} Effect;

/* A run that is to show an effect. */
typedef struct Shown
{
	const HjgCoupledStats *stats;
	const HjgBenchInput *in;
	bool		copies;			/* the device works on copies: no grouping, fetching, unpacking there, no chunks of builds */
	bool		one_thread;		/* the CPU has a single one, which has either task */
	bool		one_group;		/* and the device one work group */
} Shown;

typedef Effect (*ShowsFn) (const Shown *shown);

static Effect
effect_of(bool is_shown, bool may_be_ignored)
{
	return is_shown ? EFFECT_SHOWN : may_be_ignored ? EFFECT_IGNORED : EFFECT_MISSING;
}

static hjg_u64
rows_of(const HjgCoupledStats *stats, HjgStep step)
{
	return stats->step_rows[HJG_ON_CPU][step] + stats->step_rows[HJG_ON_DEVICE][step];
}

static bool
is_divided(const HjgCoupledStats *stats, HjgStep step)
{
	return stats->step_rows[HJG_ON_CPU][step] > 0 && stats->step_rows[HJG_ON_DEVICE][step] > 0;
}

/* True if the CPU had as many rows of both steps. */
static bool
are_divided_alike(const HjgCoupledStats *stats, HjgStep a, HjgStep b)
{
	return stats->step_rows[HJG_ON_CPU][a] == stats->step_rows[HJG_ON_CPU][b] && rows_of(stats, a) == rows_of(stats, b);
}

/* The steps of SHJ, all rows once, by both processors; those that scatter by one of them if the device works on copies. */
static Effect
shows_shj(const Shown *shown)
{
	const HjgCoupledStats *stats = shown->stats;

	return effect_of(rows_of(stats, HJG_STEP_N2) + rows_of(stats, HJG_STEP_N3) == 0 &&
					 rows_of(stats, HJG_STEP_HASH) == (hjg_u64) shown->in->nrows + shown->in->nprobe &&
					 rows_of(stats, HJG_STEP_B4) == shown->in->nrows && rows_of(stats, HJG_STEP_P3) == shown->in->nprobe &&
					 is_divided(stats, HJG_STEP_P2) && is_divided(stats, HJG_STEP_P3) &&
					 (shown->copies || (is_divided(stats, HJG_STEP_B2) && is_divided(stats, HJG_STEP_B3) && is_divided(stats, HJG_STEP_B4))), false);
}

static Effect
shows_phj(const Shown *shown)
{
	const HjgCoupledStats *stats = shown->stats;
	const hjg_u64 nrows = (hjg_u64) shown->in->nrows + shown->in->nprobe;

	return effect_of(rows_of(stats, HJG_STEP_N2) >= nrows && rows_of(stats, HJG_STEP_N3) >= nrows && stats->join.npartitions > 1 &&
					 is_divided(stats, HJG_STEP_P2) && (shown->copies || is_divided(stats, HJG_STEP_N3)), false);
}

static Effect
shows_ol(const Shown *shown)
{
	bool		any = false;

	for (int i = HJG_STEP_B2; i < HJG_STEP_COUNT; i++)
		any |= is_divided(shown->stats, (HjgStep) i);
	return effect_of(!any, false);
}

static bool
has_one_ratio(const HjgCoupledStats *stats)
{
	return are_divided_alike(stats, HJG_STEP_B2, HJG_STEP_B3) && are_divided_alike(stats, HJG_STEP_B3, HJG_STEP_B4) &&
		are_divided_alike(stats, HJG_STEP_P2, HJG_STEP_P3);
}

static Effect
shows_dd(const Shown *shown)
{
	return effect_of(has_one_ratio(shown->stats), false);
}

static Effect
shows_pl(const Shown *shown)
{
	const double *ratios = shown->stats->ratios;
	const HjgStep first = rows_of(shown->stats, HJG_STEP_N2) > 0 ? HJG_STEP_NUMBER : HJG_STEP_HASH;

	/* the ratio that is known of the first step is the last series', which is the probe side's */
	return has_one_ratio(shown->stats) && ratios[first] == ratios[HJG_STEP_P2] ? EFFECT_ALIKE : EFFECT_SHOWN;
}

static Effect
shows_merge(const Shown *shown)
{
	return effect_of(shown->stats->merged_buckets >= shown->in->nrows, false);
}

/* Build keys are unique, so each row has a key node. */
static Effect
shows_global_pointer(const Shown *shown)
{
	return effect_of(shown->stats->allocations >= shown->in->nrows, false);
}

/* Every worker may leave a block unfinished. */
#define LARGE_BLOCK_BYTES 32768

static Effect
shows_large_blocks(const Shown *shown)
{
	const hjg_u64 full = shown->in->nrows / (LARGE_BLOCK_BYTES / hjg_step_key_node_bytes(hjg_bench_key_width));

	return effect_of(shown->stats->allocations >= full && shown->stats->allocations <= full + HJG_RUNNER_MAX_WORKERS, false);
}

static Effect
shows_grouping(const Shown *shown)
{
	return effect_of(shown->stats->grouped_rows == shown->in->nprobe, shown->copies);
}

static Effect
shows_chunks(const Shown *shown)
{
	hjg_u64		nrows = 0;

	for (int i = 0; i < HJG_STEP_COUNT; i++)
		nrows += rows_of(shown->stats, (HjgStep) i);
	return effect_of(shown->stats->unit_rows == nrows, shown->copies);
}

static Effect
shows_prediction(const Shown *shown)
{
	return effect_of(shown->stats->predicted_build_ns > 0 && shown->stats->predicted_probe_ns > 0, false);
}

static Effect
shows_transfers(const Shown *shown)
{
	return effect_of(shown->stats->transfer_ns > 0, false);
}

static Effect
shows_parts(const Shown *shown)
{
	return effect_of(shown->stats->nparts > 1, false);
}

static Effect
shows_units(const Shown *shown)
{
	return effect_of(shown->stats->predicted.total_ns > 0, false);
}

static Effect
shows_fetching(const Shown *shown)
{
	return effect_of(shown->stats->fetched_rows > 0, shown->copies);
}

/* Effects of unpacking (D): by some CPU threads beside E, by all of them, and on both sides. */
static Effect
shows_cpde_c(const Shown *shown)
{
	const HjgUnits *units = &shown->stats->units;

	return effect_of(shown->stats->feed_rows > 0 && units->cpu_d > 0 && units->cpu_e > 0 && shown->stats->device_blocks == 0,
					 shown->one_thread);
}

static Effect
shows_cpde_b(const Shown *shown)
{
	const HjgUnits *units = &shown->stats->units;

	return effect_of(shown->stats->feed_rows > 0 && units->cpu_d > 0 && units->cpu_e == 0 && shown->stats->device_blocks == 0, false);
}

static Effect
shows_cpde_g(const Shown *shown)
{
	return effect_of(shown->stats->feed_rows > 0 && shown->stats->device_blocks > 0, shown->copies || shown->one_group);
}

static Effect
shows_packed_hashing(const Shown *shown)
{
	return effect_of(shown->stats->hashed_rows > 0, false);
}

typedef struct System
{
	const char *id;				/* C: rows of the first paper, I: of the second */
	const char *name;
	HjgCoupledStrategy strategy;
	HjgPipeline pipeline;		/* E if not given */
	bool		halves;			/* no model: every step is halved */
	bool		by_rule;		/* no costs: units are divided by number, so that the device must unpack */
	bool		separate;
	bool		grouping;
	bool		packed;
	bool		small_buffer;
	bool		any_pipeline;	/* the model chooses units */
	hjg_u32		block_bytes;	/* 0: the default; 1: one global pointer */
	size_t		was_bytes;		/* 0: the default */
	int			boundary;
	double		bus_bytes_per_ns;
	ShowsFn		shows;
} System;

#define S(row, what, how, ...) {.id = row, .name = what, .strategy = how, __VA_ARGS__}

static const System systems[] = {
	S("C1", "SHJ, halves", HJG_COUPLED_SHJ_PL, .halves = true, .shows = shows_shj),
	S("C2", "PHJ, halves", HJG_COUPLED_PHJ_PL, .halves = true, .shows = shows_phj),
	S("C3", "SHJ-OL", HJG_COUPLED_SHJ_OL, .shows = shows_ol),
	S("C3", "PHJ-OL", HJG_COUPLED_PHJ_OL, .shows = shows_ol),
	S("C4", "SHJ-DD", HJG_COUPLED_SHJ_DD, .shows = shows_dd),
	S("C4", "PHJ-DD", HJG_COUPLED_PHJ_DD, .shows = shows_dd),
	S("C5", "SHJ-PL", HJG_COUPLED_SHJ_PL, .shows = shows_pl),
	S("C5", "PHJ-PL", HJG_COUPLED_PHJ_PL, .shows = shows_pl),
	S("C6", "SHJ-DD, separate tables", HJG_COUPLED_SHJ_DD, .separate = true, .shows = shows_merge),
	S("C6", "PHJ-DD, separate tables", HJG_COUPLED_PHJ_DD, .separate = true, .shows = shows_merge),
	S("C7", "one global pointer", HJG_COUPLED_PHJ_PL, .block_bytes = 1, .shows = shows_global_pointer),
	S("C7", "blocks of 32 KB", HJG_COUPLED_PHJ_PL, .block_bytes = LARGE_BLOCK_BYTES, .shows = shows_large_blocks),
	S("C8", "SHJ-PL, grouping", HJG_COUPLED_SHJ_PL, .grouping = true, .shows = shows_grouping),
	S("C8", "PHJ-PL, grouping", HJG_COUPLED_PHJ_PL, .grouping = true, .shows = shows_grouping),
	S("C9", "SHJ, BasicUnit", HJG_COUPLED_SHJ_BASIC_UNIT, .shows = shows_chunks),
	S("C9", "PHJ, BasicUnit", HJG_COUPLED_PHJ_BASIC_UNIT, .shows = shows_chunks),
	S("C10", "cost model, SHJ-PL", HJG_COUPLED_SHJ_PL, .shows = shows_prediction),
	S("C10", "cost model, PHJ-PL", HJG_COUPLED_PHJ_PL, .shows = shows_prediction),
	S("C11", "bus of 3 GB/s, halves", HJG_COUPLED_SHJ_PL, .halves = true, .bus_bytes_per_ns = 3, .shows = shows_transfers),
	S("C12", "larger than the buffer, SHJ-PL", HJG_COUPLED_SHJ_PL, .small_buffer = true, .shows = shows_parts),
	S("C12", "larger than the buffer, PHJ-PL", HJG_COUPLED_PHJ_PL, .small_buffer = true, .shows = shows_parts),
	S("I1", "P, work-ahead set of 128 KB", HJG_COUPLED_SHJ_PL, .pipeline = HJG_PIPELINE_PE, .was_bytes = 131072, .shows = shows_fetching),
	S("I2", "PE, SHJ-PL", HJG_COUPLED_SHJ_PL, .pipeline = HJG_PIPELINE_PE, .shows = shows_fetching),
	S("I2", "PE, PHJ-PL", HJG_COUPLED_PHJ_PL, .pipeline = HJG_PIPELINE_PE, .shows = shows_fetching),
	S("I3", "cPDE-c", HJG_COUPLED_SHJ_PL, .pipeline = HJG_PIPELINE_CPDE_C, .shows = shows_cpde_c),
	S("I3", "cPDE-b", HJG_COUPLED_SHJ_PL, .pipeline = HJG_PIPELINE_CPDE_B, .shows = shows_cpde_b),
	S("I3", "cPDE-g", HJG_COUPLED_SHJ_PL, .pipeline = HJG_PIPELINE_CPDE_G, .by_rule = true, .shows = shows_cpde_g),
	S("I4", "packed keys, E", HJG_COUPLED_SHJ_PL, .packed = true, .shows = shows_packed_hashing),
	S("I4", "packed keys, cPDE-b, PHJ-PL", HJG_COUPLED_PHJ_PL, .pipeline = HJG_PIPELINE_CPDE_B, .packed = true, .shows = shows_cpde_b),
	S("I5", "merged kernels, 4 units unpack", HJG_COUPLED_SHJ_PL, .pipeline = HJG_PIPELINE_CPDE_G, .by_rule = true, .boundary = 4, .packed = true,
	  .shows = shows_cpde_g),
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
	if (system->by_rule)
		config.costs = NULL;
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
	Effect		effect;
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
	const Shown shown = {.stats = &times.stats, .in = in, .copies = runner->move != NULL, .one_thread = options->config.cpu_threads < 2, .one_group = runner->nworkers < 2};
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
		outcomes[i][shape].effect = hjg_bench_run(env, &config, runner, in, &times) && !times.stats.gave_up &&
			(system->any_pipeline || times.stats.pipeline == config.pipeline) ? system->shows(&shown) : EFFECT_MISSING;
		outcomes[i][shape].ms = times.total_ns / 1e6;
	}
}

/* Run one size, and count systems by their effects. */
static void
run_rows_of_size(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log, int *number, int counts[])
{
	static const char *const words[] = {"", " # SKIP ignored by this device", " # SKIP the model expects nothing of several ratios", ""};

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
		Effect		least = EFFECT_SHOWN;
		Effect		most = EFFECT_MISSING;

		if (!is_asked(options, &systems[i]))
			continue;
		for (int shape = 0; shape < HJG_BENCH_SHAPES; shape++)
		{
			least = outcomes[i][shape].effect < least ? outcomes[i][shape].effect : least;
			most = outcomes[i][shape].effect > most ? outcomes[i][shape].effect : most;
		}
		/* several ratios may pay for some inputs only */
		if (least == EFFECT_ALIKE)
			least = most;
		printf("%s %d - %-3s %-31s %8u rows, ms:", least != EFFECT_MISSING ? "ok" : "not ok", ++*number, systems[i].id, systems[i].name, 1u << log);
		for (int shape = 0; shape < HJG_BENCH_SHAPES; shape++)
			printf(" %9.2f%s", outcomes[i][shape].ms, outcomes[i][shape].effect == EFFECT_MISSING ? " WRONG" : "");
		printf("%s\n", words[least]);
		counts[least]++;
	}
	fflush(stdout);
}

bool
hjg_bench_rows(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner)
{
	int			counts[EFFECT_SHOWN + 1] = {0};
	int			number = 0;

	printf("# columns:");
	for (int shape = 0; shape < HJG_BENCH_SHAPES; shape++)
		printf("%s %s", shape > 0 ? "," : "", hjg_bench_shapes[shape].name);
	printf("\n");
	for (int log = options->min_log; log <= options->max_log; log += 2)
		run_rows_of_size(options, env, runner, log, &number, counts);
	printf("# %d show their effect, %d are ignored by this device, %d PL divide all steps alike, %d are wrong\n1..%d\n",
		   counts[EFFECT_SHOWN], counts[EFFECT_IGNORED], counts[EFFECT_ALIKE], counts[EFFECT_MISSING], number);
	return counts[EFFECT_MISSING] == 0;
}
