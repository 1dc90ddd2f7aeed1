/*
 * planner_units.c
 *	  Unit costs by which paths are priced: the calibrated ones, with the knobs that are set, and
 *	  how many nanoseconds PostgreSQL's cost unit stands for in a join.
 */
#include "postgres.h"

#include "executor/nodeHash.h"
#include "miscadmin.h"

#include "base/hjg_base.h"
#include "model/hjg_model.h"
#include "planner/hjg_planner.h"
#include "planner/hjg_planner_path.h"

const HjgPlannerSources *hjg_planner_sources;

/* A cost knob that was set, in nanoseconds; else the calibrated value. */
static double
knob_ns(double knob, double calibrated_ns, double cost_unit_ns)
{
	return knob < 0 ? calibrated_ns : knob * cost_unit_ns;
}

static bool
is_knob_set(void)
{
	return hjg_startup_cost >= 0 || hjg_marshal_tuple_cost >= 0 || hjg_build_tuple_cost >= 0 ||
		hjg_probe_tuple_cost >= 0 || hjg_emit_tuple_cost >= 0 || hjg_transfer_cost >= 0;
}

/* Put the knobs that are set in the place of costs; a cost unit is so many nanoseconds. */
static void
turn_knobs(HjgUnitCosts *costs, double unit_ns)
{
	costs->startup_ns = knob_ns(hjg_startup_cost, costs->startup_ns, unit_ns);
	costs->marshal_tuple_ns = knob_ns(hjg_marshal_tuple_cost, costs->marshal_tuple_ns, unit_ns);
	costs->direct_tuple_ns = knob_ns(hjg_marshal_tuple_cost, costs->direct_tuple_ns, unit_ns);
	costs->build_tuple_ns = knob_ns(hjg_build_tuple_cost, costs->build_tuple_ns, unit_ns);
	if (hjg_build_tuple_cost >= 0)
		costs->memory_mb_ns = 0;	/* the knob covers all that a build row costs */
	costs->probe_tuple_ns = knob_ns(hjg_probe_tuple_cost, costs->probe_tuple_ns, unit_ns);
	costs->emit_tuple_ns = knob_ns(hjg_emit_tuple_cost, costs->emit_tuple_ns, unit_ns);
	costs->transfer_mb_ns = knob_ns(hjg_transfer_cost, costs->transfer_mb_ns, unit_ns);
	costs->cuda.in_mb_ns = knob_ns(hjg_transfer_cost, costs->cuda.in_mb_ns, unit_ns);
	costs->cuda.out_mb_ns = knob_ns(hjg_transfer_cost, costs->cuda.out_mb_ns, unit_ns);
}

static const HjgUnitCosts *
calibrated_costs(void)
{
	const HjgUnitCosts *costs = hjg_planner_sources->calibration();

	return costs != NULL ? costs : &hjg_model_default_costs;
}

double
hjg_planner_unit_costs(HjgUnitCosts *costs, double build_rows)
{
	double		unit_ns;

	*costs = *calibrated_costs();
	unit_ns = hjg_model_cost_unit_ns(costs, build_rows);
	turn_knobs(costs, unit_ns);
	return unit_ns;
}

/* ---------- of a query, and of a join ---------- */

/*
 * Rows of the hash table by which core's price is understood: of the smaller side, whichever we
 * build of, as a larger table must not make a path cheaper; of a side that core would
 * divide into batches, those of a batch.
 */
static double
core_table_rows(const HjgCandidate *candidate)
{
	const RelOptInfo *smaller = candidate->outerrel->rows < candidate->innerrel->rows ? candidate->outerrel :
		candidate->innerrel;

	return Min(smaller->rows, candidate->facts->hash_memory / (smaller->reltarget->width + HJG_ROW_OVERHEAD_BYTES));
}

/* Do the settings leave open where the cpu engine runs? */
static bool
may_embed(void)
{
	return hjg_embedded_rows > 0 && (hjg_strategy == HJG_CPU_AUTO || hjg_strategy == HJG_CPU_NOP) &&
		(hjg_device_asked.kind == HJG_KIND_ANY || hjg_device_asked.kind == HJG_KIND_CPU);
}

void
hjg_planner_begin_pricing(HjgQueryFacts *facts)
{
	facts->calibrated = calibrated_costs();
	if (is_knob_set())
		facts->turned = palloc(sizeof(HjgUnitCosts));
	facts->may_embed = may_embed();
	facts->hash_memory = get_hash_memory_limit();
}

void
hjg_planner_price(PlannerInfo *root, HjgCandidate *candidate)
{
	HjgQueryFacts *facts = candidate->facts;

	hjg_planner_find_unique(root, candidate);
	candidate->unit_ns = hjg_model_cost_unit_ns(facts->calibrated, core_table_rows(candidate)) *
		hjg_planner_underpriced(candidate);
	candidate->ns_cost = 1 / candidate->unit_ns;
	candidate->costs = facts->calibrated;
	if (facts->turned == NULL)
		return;
	*facts->turned = *facts->calibrated;
	turn_knobs(facts->turned, candidate->unit_ns);
	candidate->costs = facts->turned;
}
