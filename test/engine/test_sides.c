/*
 * test_sides.c
 *	  The side of series that scatter, for a device that works on copies, with generated costs that
 *	  leave a sensible model no choice.
 */
#include <string.h>

#include "coupled/hjg_coupled.h"
#include "hjg_test_engine.h"

#define NROWS 20000
#define NSIZES 2

/* ---- a device that works on copies: a runner of threads, which needs none ---- */

static const HjgRunner *threads;
static hjg_u64 last_ticket;

static HjgStatus
note_launch(void *arg, const HjgStepLaunch *launch, hjg_u64 *ticket)
{
	const HjgStatus status = threads->launch(arg, launch, ticket);

	if (status == HJG_OK)
		last_ticket = *ticket;
	return status;
}

/* Wait instead of copying: both copies are the same memory, valid when nobody writes to it. */
static HjgStatus
move_nothing(void *arg, HjgProcessor to, const HjgMemory *memory, const HjgRange *ranges, int nranges)
{
	(void) to, (void) memory, (void) ranges, (void) nranges;
	return last_ticket > 0 ? threads->wait(arg, last_ticket) : HJG_OK;
}

static HjgStatus
fetch_here(void *arg, const void *memory, size_t off, size_t bytes, void *into)
{
	const HjgStatus status = last_ticket > 0 ? threads->wait(arg, last_ticket) : HJG_OK;

	memcpy(into, (const hjg_u8 *) memory + off, bytes);
	return status;
}

/* ---- costs ---- */

/* Set the costs of some steps, in nanoseconds a row, for each processor. */
static void
set_steps(HjgStepCosts *costs, HjgStep first, HjgStep last, double cpu_ns, double device_ns)
{
	for (int k = 0; k < 2 * NSIZES; k++)
		for (int i = (int) first; i <= (int) last; i++)
		{
			costs->alone_ns[k % 2][k / 2][HJG_ON_CPU][i] = costs->together_ns[k % 2][k / 2][HJG_ON_CPU][i] = cpu_ns;
			costs->alone_ns[k % 2][k / 2][HJG_ON_DEVICE][i] = costs->together_ns[k % 2][k / 2][HJG_ON_DEVICE][i] = device_ns;
		}
}

/*
 * Make equal costs for all steps; pieces are cheap, and crossing has these costs: of a row, and of a byte
 * of the table.
 */
static HjgStepCosts
make_costs(double cpu_ns, double device_ns, double row_ns, double byte_ns)
{
	HjgStepCosts costs = {.nsizes = NSIZES, .busy_ns = 10, .piece_ns = 10};

	set_steps(&costs, HJG_STEP_HASH, HJG_STEP_P4, cpu_ns, device_ns);
	for (int k = 0; k < 2 * NSIZES; k++)
		costs.launch_ns[k % 2][k / 2] = costs.call_ns[k % 2][k / 2] = costs.wake_ns[k % 2][k / 2] = costs.wait_ns[k % 2][k / 2] = 10;
	for (int p = 0; p < HJG_PROCESSORS; p++)
	{
		/* mixed keys and row numbers */
		for (int size = 0; size < NSIZES; size++)
		{
			costs.copy[p][size].byte_ns = row_ns / 8;
			costs.move[p][size].byte_ns = byte_ns;
		}
	}
	return costs;
}

/* ---- joins with these costs ---- */

typedef struct Sides
{
	const Case *c;
	HjgPool    *pool;
	const HjgRunner *runner;
} Sides;

/* Find the side of all steps that scatter; HJG_PROCESSORS: they change sides, or the join is wrong. */
static HjgProcessor
side_of(const Sides *with, HjgCoupledStrategy strategy, const HjgStepCosts *costs)
{
	static const HjgStep scatters[] = {HJG_STEP_N2, HJG_STEP_N3, HJG_STEP_B2, HJG_STEP_B3, HJG_STEP_B4};
	const Case *c = with->c;
	HjgCursor	cursor = {0, 0, 0};
	HjgCoupledStats stats = {.gave_up = true};
	hjg_u64		nrows[HJG_PROCESSORS] = {0, 0};
	bool		good = false;
	HjgCoupledConfig config;
	HjgCoupled *join;
	Memory		memory;
	Pages		pages;

	hjg_coupled_defaults(&config);
	config.strategy = strategy;
	config.pipeline = HJG_PIPELINE_E;
	config.costs = costs;
	memory_init(&memory, with->pool);
	pages_create(&pages, 1, (hjg_u32) c->nexpected + 1);
	if (hjg_coupled_build(&memory.env, &config, with->runner, c->width, c->mode, c->build.segments, c->build.nsegments, &join) == HJG_OK)
	{
		good = hjg_coupled_probe(join, c->probe.segments, c->probe.nsegments, &cursor, &pages.result) == HJG_OK &&
			pages.result.npairs == c->nexpected;
		hjg_coupled_stats(join, &stats);
		hjg_coupled_free(join);
	}
	pages_destroy(&pages);
	for (size_t i = 0; i < sizeof(scatters) / sizeof(scatters[0]); i++)
		for (int p = 0; p < HJG_PROCESSORS; p++)
			nrows[p] += stats.step_rows[p][scatters[i]];
	if (!good || stats.gave_up || (nrows[HJG_ON_CPU] > 0) == (nrows[HJG_ON_DEVICE] > 0))
		return HJG_PROCESSORS;
	return nrows[HJG_ON_CPU] > 0 ? HJG_ON_CPU : HJG_ON_DEVICE;
}

/* Claim the side for each of some strategies, whose names are in the claim. */
static void
claim_side(const Sides *with, const HjgCoupledStrategy *strategies, int n, const HjgStepCosts *costs, HjgProcessor wanted, const char *what)
{
	char		wrong[256] = "";

	for (int i = 0; i < n; i++)
	{
		const HjgProcessor side = side_of(with, strategies[i], costs);

		if (side != wanted)
			snprintf(wrong + strlen(wrong), sizeof(wrong) - strlen(wrong), "%s %s: %s", wrong[0] != '\0' ? "," : "; but",
					 hjg_strategy_name((int) strategies[i]),
					 side == HJG_ON_CPU ? "CPU" : side == HJG_ON_DEVICE ? "device" : "both, or a wrong join");
	}
	claim(wrong[0] == '\0', "copies: %s it scatters on the %s%s", what, wanted == HJG_ON_CPU ? "CPU" : "device", wrong);
}

void
test_sides(void)
{
	/* first those without partitioning */
	static const HjgCoupledStrategy strategies[] = {
		HJG_COUPLED_SHJ_OL, HJG_COUPLED_SHJ_DD, HJG_COUPLED_SHJ_PL, HJG_COUPLED_PHJ_OL, HJG_COUPLED_PHJ_DD, HJG_COUPLED_PHJ_PL
	};
	HjgRunner  *plain = hjg_threads_runner_create(2);
	HjgRunner	copying = *plain;
	HjgPool    *pool = hjg_pool_create(2);
	HjgStepCosts costs;
	Case		c;
	const Sides with = {&c, pool, &copying};

	threads = plain;
	last_ticket = 0;
	copying.launch = note_launch;
	copying.move = move_nothing;
	copying.fetch = fetch_here;
	case_create(&c, test_seed, 4, HJG_MATCH_ALL, KEYS_UNIFORM, NROWS, NROWS);

	costs = make_costs(10, 1, 0.01, 0.0001);
	claim_side(&with, strategies, 6, &costs, HJG_ON_DEVICE, "where the device is ten times as fast, and copies are nearly free,");
	costs = make_costs(1, 10, 0.01, 0.0001);
	claim_side(&with, strategies, 6, &costs, HJG_ON_CPU, "where the CPU is ten times as fast, and copies are nearly free,");
	costs = make_costs(10, 10, 0.01, 0.0001);
	set_steps(&costs, HJG_STEP_N2, HJG_STEP_B4, 10, 1);
	claim_side(&with, strategies, 6, &costs, HJG_ON_DEVICE, "where the device is ten times as fast at that alone, and copies are nearly free,");

	costs = make_costs(10, 10, 300, 30);
	set_steps(&costs, HJG_STEP_B2, HJG_STEP_B4, 10, 9);
	set_steps(&costs, HJG_STEP_P2, HJG_STEP_P4, 10, 1000);
	/* the initial headers are no reason */
	for (int size = 0; size < NSIZES; size++)
		costs.move[HJG_ON_DEVICE][size].byte_ns = 0.0001;
	claim_side(&with, strategies, 3, &costs, HJG_ON_CPU, "where the device is a little faster, but slow at the probe, and copies back are dear,");
	costs = make_costs(10, 10, 300, 30);
	set_steps(&costs, HJG_STEP_N2, HJG_STEP_N3, 10, 9);
	set_steps(&costs, HJG_STEP_B2, HJG_STEP_P4, 10, 1000);
	claim_side(&with, strategies + 3, 3, &costs, HJG_ON_CPU,
			   "where the device is a little faster at partitioning, but slow at the rest, and copies are dear,");
	/* the reverse, not because copies are expensive */
	costs = make_costs(10, 10, 100, 30);
	set_steps(&costs, HJG_STEP_B2, HJG_STEP_B4, 9, 10);
	set_steps(&costs, HJG_STEP_P2, HJG_STEP_P4, 1000, 10);
	claim_side(&with, strategies, 3, &costs, HJG_ON_DEVICE, "where the CPU is a little faster, but slow at the probe, and copies are dear,");

	case_destroy(&c);
	hjg_pool_destroy(pool);
	hjg_threads_runner_destroy(plain);
}
