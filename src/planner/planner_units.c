/*
 * planner_units.c
 *	  Finds the unit costs by which paths are priced: the calibrated ones with the cost overrides that are set, and the
 *	  nanoseconds of PostgreSQL's cost unit in a join; and what the processes of a path are to its time.
 */
#include "postgres.h"

#include <sched.h>
#include <unistd.h>

#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "optimizer/cost.h"

#include "base/hjg_base.h"
#include "huge/hjg_huge.h"
#include "model/hjg_model.h"
#include "planner/hjg_planner.h"
#include "planner/hjg_planner_path.h"

const HjgPlannerSources *hjg_planner_sources;

/* Convert a cost override to nanoseconds if it is set; else return the calibrated value. */
static double
overridden_ns(double override, double calibrated_ns, double unit_ns)
{
	return override < 0 ? calibrated_ns : override * unit_ns;
}

static bool
is_any_overridden(void)
{
	return hjg_startup_cost >= 0 || hjg_marshal_tuple_cost >= 0 || hjg_build_tuple_cost >= 0 ||
		hjg_probe_tuple_cost >= 0 || hjg_emit_tuple_cost >= 0 || hjg_transfer_cost >= 0;
}

/* Replace unit costs by the cost overrides that are set. */
static void
override_costs(HjgUnitCosts *costs, double unit_ns)
{
	costs->startup_ns = overridden_ns(hjg_startup_cost, costs->startup_ns, unit_ns);
	costs->marshal_tuple_ns = overridden_ns(hjg_marshal_tuple_cost, costs->marshal_tuple_ns, unit_ns);
	costs->direct_tuple_ns = overridden_ns(hjg_marshal_tuple_cost, costs->direct_tuple_ns, unit_ns);
	costs->build_tuple_ns = overridden_ns(hjg_build_tuple_cost, costs->build_tuple_ns, unit_ns);
	if (hjg_build_tuple_cost >= 0)
		costs->memory_mb_ns = 0;	/* the override is the whole cost of a build row */
	costs->probe_tuple_ns = overridden_ns(hjg_probe_tuple_cost, costs->probe_tuple_ns, unit_ns);
	costs->emit_tuple_ns = overridden_ns(hjg_emit_tuple_cost, costs->emit_tuple_ns, unit_ns);
	costs->transfer_mb_ns = overridden_ns(hjg_transfer_cost, costs->transfer_mb_ns, unit_ns);
	costs->cuda.in_mb_ns = overridden_ns(hjg_transfer_cost, costs->cuda.in_mb_ns, unit_ns);
	costs->cuda.out_mb_ns = overridden_ns(hjg_transfer_cost, costs->cuda.out_mb_ns, unit_ns);
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
	override_costs(costs, unit_ns);
	return unit_ns;
}

/* ---------- processes ---------- */

double
hjg_planner_participants(const Path *path)
{
	double		leader_share = parallel_leader_participation ? 1.0 - 0.3 * path->parallel_workers : 0;

	return Max(path->parallel_workers + Max(leader_share, 0), 1);
}

int
hjg_planner_processors(void)
{
	static int	nprocessors = 0;
	cpu_set_t	set;

	if (nprocessors == 0)
		nprocessors = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : (int) sysconf(_SC_NPROCESSORS_ONLN);
	return Max(nprocessors, 1);
}

int
hjg_planner_threads(void)
{
	return hjg_cpu_threads > 0 ? Min(hjg_cpu_threads, hjg_planner_processors()) : hjg_planner_processors();
}

double
hjg_planner_processes(const Path *path)
{
	const int	nprocesses = path->parallel_workers + (path->parallel_workers == 0 || parallel_leader_participation ? 1 : 0);

	return Min(nprocesses, hjg_planner_processors());
}

double
hjg_planner_process_share(const Path *path)
{
	return hjg_planner_participants(path) / hjg_planner_processes(path);
}

double
hjg_planner_table_work_ns(const Path *path, const HjgUnitCosts *costs, double ns)
{
	return ns * hjg_planner_process_share(path) * hjg_model_crowding(costs, HJG_WORK_TABLES, hjg_planner_processes(path));
}

bool
hjg_planner_maps_memory(const Path *path)
{
	return path->parallel_workers > 0 && !hjg_huge_are_reserved();
}

/* ---------- for a query and for a join ---------- */

/*
 * Count the rows of the hash table for which core's price is converted to time: those of the smaller side, whichever side is
 * built, because a larger table must not make a path cheaper; if core would divide that side into batches, those of a batch.
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
may_be_in_backend(void)
{
	return hjg_in_backend_rows > 0 && (hjg_strategy == HJG_CPU_AUTO || hjg_strategy == HJG_CPU_NOP) &&
		(hjg_device_asked.kind == HJG_KIND_ANY || hjg_device_asked.kind == HJG_KIND_CPU);
}

void
hjg_planner_begin_pricing(HjgQueryFacts *facts)
{
	facts->calibrated = calibrated_costs();
	if (is_any_overridden())
		facts->overridden = palloc(sizeof(HjgUnitCosts));
	facts->may_be_in_backend = may_be_in_backend();
	facts->hash_memory = get_hash_memory_limit();
}

void
hjg_planner_set_units(PlannerInfo *root, HjgCandidate *candidate)
{
	HjgQueryFacts *facts = candidate->facts;

	hjg_planner_find_unique(root, candidate);
	candidate->unit_ns = hjg_model_cost_unit_ns(facts->calibrated, core_table_rows(candidate)) *
		hjg_planner_underpriced(candidate);
	candidate->core_ns_cost = candidate->ns_cost = 1 / candidate->unit_ns;
	candidate->costs = facts->calibrated;
	if (facts->overridden == NULL)
	{
		candidate->ns_cost = 1 / facts->calibrated->small_unit_ns;
		return;
	}
	*facts->overridden = *facts->calibrated;
	override_costs(facts->overridden, candidate->unit_ns);
	candidate->costs = facts->overridden;
}
