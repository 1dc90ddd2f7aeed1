/*
 * lab_coupled_pairs.c
 *	  hjoin_gpu_lab NAME --pairs: design choices of the papers, each against its absence.
 *
 * The variants of a set run once a turn, in random order, so that other load on the machine, and what one
 * leaves behind for the next, affects all of them.  Reported are medians, and the least, median and most of
 * each variant's time relative to the first variant's in the same turn.
 */
#define _GNU_SOURCE

#include <stdio.h>
#include <string.h>

#include "lab/hjg_coupled_bench.h"
#include "model/hjg_measured.h"

#define MAX_VARIANTS 8
#define MAX_TURNS 15

typedef struct Variant
{
	const char *name;
	HjgCoupledStrategy strategy;
	HjgPipeline pipeline;
	bool		separate;
	bool		grouping;
	bool		one_side;		/* everything on the processor of this ratio */
	double		ratio;
	hjg_u32		block_bytes;	/* 0: 2 KB; 1: one global pointer */
	size_t		was_bytes;		/* 0: 1 MB */
	int			boundary;
} Variant;

typedef struct Set
{
	const char *name;
	bool		packed;			/* keys are packed */
	Variant		variants[MAX_VARIANTS];
} Set;

#define V(what, how, ...) {.name = what, .strategy = how, __VA_ARGS__}
#define ALONE(r) .one_side = true, .ratio = r

static const Set sets[] = {
	{"schemes without partitioning (000, figure 13a)", false, {
		V("PL", HJG_COUPLED_SHJ_PL), V("DD", HJG_COUPLED_SHJ_DD), V("OL", HJG_COUPLED_SHJ_OL),
		V("BasicUnit", HJG_COUPLED_SHJ_BASIC_UNIT), V("CPU part alone", HJG_COUPLED_SHJ_PL, ALONE(1)),
		V("device part alone", HJG_COUPLED_SHJ_PL, ALONE(0))}},
	{"schemes with partitioning (000, figure 13b)", false, {
		V("PL", HJG_COUPLED_PHJ_PL), V("DD", HJG_COUPLED_PHJ_DD), V("OL", HJG_COUPLED_PHJ_OL),
		V("BasicUnit", HJG_COUPLED_PHJ_BASIC_UNIT), V("CPU part alone", HJG_COUPLED_PHJ_PL, ALONE(1)),
		V("device part alone", HJG_COUPLED_PHJ_PL, ALONE(0))}},
	{"hash tables (000, figure 10)", false, {
		V("SHJ-DD shared", HJG_COUPLED_SHJ_DD), V("SHJ-DD separate", HJG_COUPLED_SHJ_DD, .separate = true),
		V("PHJ-DD shared", HJG_COUPLED_PHJ_DD), V("PHJ-DD separate", HJG_COUPLED_PHJ_DD, .separate = true)}},
	{"allocator blocks, PHJ-PL (000, figures 11, 12)", false, {
		V("2 KB", HJG_COUPLED_PHJ_PL), V("global pointer", HJG_COUPLED_PHJ_PL, .block_bytes = 1),
		V("1 KB", HJG_COUPLED_PHJ_PL, .block_bytes = 1024), V("8 KB", HJG_COUPLED_PHJ_PL, .block_bytes = 8192),
		V("32 KB", HJG_COUPLED_PHJ_PL, .block_bytes = 32768)}},
	{"grouping (000, section 5.4)", false, {
		V("SHJ-PL", HJG_COUPLED_SHJ_PL), V("SHJ-PL grouped", HJG_COUPLED_SHJ_PL, .grouping = true),
		V("PHJ-PL", HJG_COUPLED_PHJ_PL), V("PHJ-PL grouped", HJG_COUPLED_PHJ_PL, .grouping = true)}},
	{"work-ahead set, SHJ-PL (001, figure 5)", false, {
		V("E", HJG_COUPLED_SHJ_PL), V("PE 128 KB", HJG_COUPLED_SHJ_PL, .pipeline = HJG_PIPELINE_PE, .was_bytes = 1 << 17),
		V("PE 512 KB", HJG_COUPLED_SHJ_PL, .pipeline = HJG_PIPELINE_PE, .was_bytes = 1 << 19),
		V("PE 1 MB", HJG_COUPLED_SHJ_PL, .pipeline = HJG_PIPELINE_PE), V("PE 4 MB", HJG_COUPLED_SHJ_PL, .pipeline = HJG_PIPELINE_PE, .was_bytes = 1 << 22),
		V("PE 16 MB", HJG_COUPLED_SHJ_PL, .pipeline = HJG_PIPELINE_PE, .was_bytes = 1 << 24)}},
	{"packed keys, SHJ-PL (001, figures 8, 9)", true, {
		V("E", HJG_COUPLED_SHJ_PL), V("PE", HJG_COUPLED_SHJ_PL, .pipeline = HJG_PIPELINE_PE),
		V("cPDE-c", HJG_COUPLED_SHJ_PL, .pipeline = HJG_PIPELINE_CPDE_C), V("cPDE-b", HJG_COUPLED_SHJ_PL, .pipeline = HJG_PIPELINE_CPDE_B),
		V("cPDE-g, boundary 2", HJG_COUPLED_SHJ_PL, .pipeline = HJG_PIPELINE_CPDE_G, .boundary = 2),
		V("cPDE-g, boundary 4", HJG_COUPLED_SHJ_PL, .pipeline = HJG_PIPELINE_CPDE_G, .boundary = 4),
		V("cPDE-g, boundary 6", HJG_COUPLED_SHJ_PL, .pipeline = HJG_PIPELINE_CPDE_G, .boundary = 6)}},
};

static HjgCoupledConfig
variant_config(const HjgBenchOptions *options, const Variant *variant)
{
	HjgCoupledConfig config = options->config;

	config.strategy = variant->strategy;
	config.pipeline = variant->pipeline != HJG_PIPELINE_AUTO ? variant->pipeline : HJG_PIPELINE_E;
	config.separate_tables = variant->separate;
	config.grouping = variant->grouping;
	config.boundary = variant->boundary;
	if (variant->block_bytes > 0)
		config.block_bytes = variant->block_bytes == 1 ? 0 : variant->block_bytes;
	if (variant->was_bytes > 0)
		config.was_bytes = variant->was_bytes;
	config.keep_ratios = variant->one_side;
	for (int i = 0; variant->one_side && i < HJG_STEP_COUNT; i++)
		config.fixed_ratios[i] = variant->ratio;
	return config;
}

static bool
run_set(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, const Set *set, int log)
{
	const int	nturns = options->nreps;
	HjgBenchOptions with = *options;
	double		ns[MAX_VARIANTS][MAX_TURNS];
	double		ratios[MAX_VARIANTS][MAX_TURNS];
	int			order[MAX_VARIANTS];
	HjgBenchInput in;
	int			nvariants = 0;
	bool		good;

	while (nvariants < MAX_VARIANTS && set->variants[nvariants].name != NULL)
		nvariants++;
	with.packed = set->packed;
	good = hjg_bench_input_create(&in, &with, log);
	/* the first turn warms up memory */
	for (int turn = -1; turn < nturns && good; turn++)
	{
		hjg_lab_order(order, nvariants);
		for (int k = 0; k < nvariants && good; k++)
		{
			const HjgCoupledConfig config = variant_config(options, &set->variants[order[k]]);
			static HjgBenchTimes times;

			good = hjg_bench_run(env, &config, runner, &in, &times);
			ns[order[k]][turn < 0 ? 0 : turn] = times.total_ns;
		}
		for (int v = 0; v < nvariants && turn >= 0; v++)
			ratios[v][turn] = ns[v][turn] / ns[0][turn];
	}
	for (int v = 0; v < nvariants && good; v++)
	{
		hjg_sort_measured(ratios[v], nturns);
		printf("  %-20s %9u %9.2f ms %7.2fx (%.2f to %.2f)\n", set->variants[v].name, in.nrows, hjg_median(ns[v], nturns) / 1e6,
			   ratios[v][nturns / 2], ratios[v][0], ratios[v][nturns - 1]);
	}
	if (set->packed && good)
		printf("  (build keys %s, %.2f bytes a row; probe keys %s, %.2f)\n", in.plans[0],
			   (double) in.packed_build.packed_bytes / in.nrows, in.plans[1],
			   (double) in.packed_probe[0].packed_bytes / in.packed_probe[0].nrows);
	fflush(stdout);
	hjg_bench_input_destroy(&in);
	return good;
}

bool
hjg_bench_pairs(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner)
{
	bool		good = true;

	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]) && good; i++)
	{
		if (options->pairs[0] != '\0' && strstr(sets[i].name, options->pairs) == NULL)
			continue;
		printf("%s\n", sets[i].name);
		for (int log = options->min_log; log <= options->max_log && good; log += 2)
			good = run_set(options, env, runner, &sets[i], log);
	}
	return good;
}
