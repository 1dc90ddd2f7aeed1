/*
 * planner_price.c
 *	  Prices a join of two paths: the time that the model predicts, in PostgreSQL's cost units (planner_units.c).
 *
 * The prediction is for the engine that is expected to be fastest. The price is compared with those of core's joins; where
 * core would not hash at all, times are compared (planner_rivals.c).
 *
 * In core's hash joins the time of a cost of 1.0 differs by a factor of ten from join to join, with their tables' sizes and
 * uniqueness. That time is the currency in which a join of the node is compared with them. A join that wins gets an even
 * price: in the currency of core's scans and of its charges for parallel work, the same for all joins of the node. So among
 * these, time decides the sides, the order of joins and the number of processes. If core's paths cost less than the even
 * price, the price is set just below theirs.
 */
#include "postgres.h"

#include <math.h>

#include "optimizer/cost.h"
#include "optimizer/optimizer.h"

#include "base/hjg_base.h"
#include "base/hjg_compat.h"
#include "model/hjg_model.h"
#include "planner/hjg_planner.h"
#include "planner/hjg_planner_path.h"

/*
 * A job keeps 8 to 12 MB of batches, and uses processors that others may want. So it must be faster than the backends alone
 * by this share.
 */
#define LEAST_JOB_GAIN 0.2

/* The threads of a job build and probe a table larger than all caches; one backend would build it alone. */
#define MOST_BACKEND_ROWS (512 * 1024)

/*
 * Processes that write temporary files at the same time delay one another in the operating system. With equal prices, 2M x
 * 500K rows in four processes with 2 MB ran at 0.73 to 0.99 of core's speed.
 */
#define CROWDED_SPILL 1.5

/* Prices that differ by this factor are not equal to add_path(). */
#define CLEARLY_MORE (HJG_CLEARLY_MORE + 0.001)

/* ---------- where the join runs ---------- */

/* Decide on a Bloom filter, for joins that drop probe rows without a partner. */
static bool
use_bloom_filter(JoinType jointype, const HjgUnitCosts *costs, const HjgJoinShape *shape)
{
	if (!hjg_planner_drops_probe_rows(jointype))
		return false;
	switch (hjg_bloom_filter)
	{
		case HJG_BLOOM_FILTER_ON:
			return true;
		case HJG_BLOOM_FILTER_OFF:
			return false;
		default:
			return hjg_model_bloom_pays(costs, shape);
	}
}

/* Use a GPU if it was asked for, or is expected to be faster than the cpu engine. */
static pg_noinline void
consider_gpu(const HjgCandidate *candidate, const HjgPlannerGpu *gpu, HjgOffer *offer)
{
	HjgJoinShape on_gpu = offer->shape;
	HjgUnitCosts gpu_costs = *offer->costs;
	HjgPrediction prediction;

	on_gpu.gpu = true;
	on_gpu.gpu_cold = gpu->cold;
	on_gpu.gpu_l2_bytes = gpu->l2_bytes;
	on_gpu.build_unique = candidate->extra->inner_unique || candidate->unique_inner || on_gpu.pairs <= on_gpu.probe_rows;
	if (gpu->measured)
		gpu_costs.cuda = gpu->costs;
	if (hjg_transfer_cost >= 0)
	{
		gpu_costs.cuda.in_mb_ns = offer->costs->cuda.in_mb_ns;
		gpu_costs.cuda.out_mb_ns = offer->costs->cuda.out_mb_ns;
	}
	hjg_model_predict(&gpu_costs, &on_gpu, &prediction);
	if (!gpu->asked_for && prediction.total_ns >= offer->prediction.total_ns)
		return;
	offer->shape = on_gpu;
	offer->prediction = prediction;
}

/*
 * Use an OpenCL device if it was asked for; or if it is expected to be faster, also by the measured times of both engines,
 * and is ready for keys of this width. Cost overrides for the cpu engine replace its measured times.
 */
static pg_noinline void
consider_coupled(const HjgPlannerCoupled *coupled, HjgOffer *offer)
{
	const bool	has_overrides = hjg_build_tuple_cost >= 0 || hjg_probe_tuple_cost >= 0;
	HjgJoinShape on_device = offer->shape;
	HjgPrediction prediction;

	if (!coupled->asked_for && (coupled->widths & HJG_WIDTH_BIT(on_device.key_width)) == 0)
		return;
	on_device.gpu = false;
	on_device.engine = &coupled->costs;
	hjg_model_predict(offer->costs, &on_device, &prediction);
	if (!coupled->asked_for &&
		(prediction.total_ns >= offer->prediction.total_ns ||
		 (!has_overrides && !hjg_model_engine_pays(&coupled->costs, &coupled->cpu_engine, on_device.build_rows * on_device.participants,
												   on_device.probe_rows * on_device.participants))))
		return;
	offer->shape = on_device;
	offer->prediction = prediction;
}

/*
 * Leave the join to the backends, which probe a table as they read, unless a job is expected to be so much faster. A table
 * that each worker builds for itself is always probed in the backends, because its job's threads would compete with the other
 * workers.
 */
static void
consider_backends(const HjgCandidate *candidate, HjgOffer *offer)
{
	const Path *path = &offer->own->custom.path;
	const bool	worker_own = path->parallel_workers > 0 && !path->parallel_aware;
	HjgJoinShape in_backends = offer->shape;
	HjgPrediction prediction;

	in_backends.nthreads = 0;
	in_backends.gpu = false;
	in_backends.engine = NULL;
	in_backends.in_place = true;
	in_backends.bloom = use_bloom_filter(candidate->jointype, offer->costs, &in_backends);
	hjg_model_predict(offer->costs, &in_backends, &prediction);
	if (!worker_own && prediction.total_ns * (1 - LEAST_JOB_GAIN) > offer->prediction.total_ns)
		return;
	offer->shape = in_backends;
	offer->prediction = prediction;
}

/* Choose where the join runs and with which engine; predict its time. */
static void
choose_engine(const HjgCandidate *candidate, HjgOffer *offer)
{
	HjgQueryFacts *facts = candidate->facts;
	HjgPath    *own = offer->own;
	HjgJoinShape *shape = &offer->shape;
	const double build_rows = shape->build_rows * shape->participants;
	const bool	may_be_in_place = shape->spill_passes == 0 && (shape->probe_vectors || shape->probe_scan.own_ns > 0);

	shape->in_place = may_be_in_place && (hjg_in_backend_rows < 0 || build_rows < hjg_in_backend_rows);
	/* participants that share a build side share a job, even with few probe rows each */
	if (hjg_planner_device_ready(facts) && hjg_in_backend_rows >= 0 && !shape->in_place &&
		(own->custom.path.parallel_aware || Max(shape->build_rows, shape->probe_rows) > hjg_in_backend_rows))
		shape->nthreads = HJG_ASSUMED_THREADS;
	shape->bloom = use_bloom_filter(candidate->jointype, offer->costs, shape);
	hjg_model_predict(offer->costs, shape, &offer->prediction);
	if (shape->nthreads > 0)
	{
		if (hjg_planner_gpu(facts) != NULL)
			consider_gpu(candidate, hjg_planner_gpu(facts), offer);
		if (hjg_planner_coupled(facts) != NULL)
			consider_coupled(hjg_planner_coupled(facts), offer);
		if (may_be_in_place && facts->may_be_in_backend && build_rows <= MOST_BACKEND_ROWS)
			consider_backends(candidate, offer);
	}
	own->bloom = shape->bloom;
	own->device = (HjgDeviceId) {.kind = shape->gpu ? HJG_KIND_CUDA : HJG_KIND_CPU, .number = HJG_NO_NUMBER};
	if (shape->engine != NULL)
		own->device = (HjgDeviceId) {.kind = HJG_KIND_OPENCL, .number = hjg_planner_coupled(facts)->number};
	own->in_backend = shape->in_place;
}

/* ---------- the price ---------- */

/*
 * Compute the part of a child's price that is not spent when the node reads its table, or takes its rows as vectors, and the
 * price of that reading, which the prediction includes. A join's credit is at most core's cost of returning its rows.
 */
static Cost
child_credit(const Path *child, const HjgScanTimes *scan, double saved_ns, double rows, Cost ns_cost)
{
	if (scan->own_ns <= 0)
		return Min(saved_ns * ns_cost, cpu_tuple_cost * rows);
	return hjg_planner_scan_credit(child->parent, scan, rows) + scan->own_ns * ns_cost;
}

/* Price the quals except the plain comparison of keys, as core charges them: the same for all paths. */
static void
price_quals(PlannerInfo *root, HjgCandidate *candidate)
{
	if (candidate->quals_known)
		return;
	candidate->quals_known = true;
	cost_qual_eval(&candidate->hash_cost, candidate->hashclauses, root);
	if (candidate->hashclauses == candidate->extra->restrictlist)
		candidate->qual_cost = (QualCost) {0};
	else
	{
		cost_qual_eval(&candidate->qual_cost, candidate->extra->restrictlist, root);
		candidate->qual_cost.startup -= candidate->hash_cost.startup;
		candidate->qual_cost.per_tuple -= candidate->hash_cost.per_tuple;
	}
	if (candidate->nhashed_keys > 0)
		candidate->qual_cost.per_tuple += candidate->hash_cost.per_tuple;
}

/* Price a child; even: joins of the node by their even price. */
static Cost
child_price(const Path *child, bool even)
{
	return even && hjg_planner_is_ours(child) ? ((const HjgPath *) child)->even_cost : child->total_cost;
}

/* Set the path's costs: the children's, the prediction, the quals. */
static void
set_price(const HjgCandidate *candidate, const HjgOffer *offer, Cost ns_cost, bool even)
{
	const HjgPrediction *prediction = &offer->prediction;
	const HjgJoinShape *shape = &offer->shape;
	Path	   *path = &offer->own->custom.path;
	const QualCost *target_cost = &path->pathtarget->cost;
	Cost		startup;
	Cost		outer_run;
	Cost		total;

	/* the saving was priced by time, and a part of it may not have been charged */
	startup = Max(offer->outer->startup_cost - offer->saved, 0) + child_price(offer->inner, even) -
		child_credit(offer->inner, &shape->build_scan, prediction->saved_build_ns, shape->build_rows, ns_cost) +
		candidate->qual_cost.startup + candidate->hash_cost.startup + target_cost->startup +
		(prediction->startup_ns + prediction->marshal_build_ns + prediction->build_ns) * ns_cost;
	outer_run = child_price(offer->outer, even) - Max(offer->outer->startup_cost, offer->saved) -
		child_credit(offer->outer, &shape->probe_scan, prediction->saved_probe_ns, shape->probe_rows, ns_cost);
	if (offer->saved > 0)
		outer_run = Max(outer_run, 0);
	total = startup + outer_run +
		candidate->qual_cost.per_tuple * hjg_planner_charged_pairs(candidate, shape->probe_rows, shape->pairs) +
		target_cost->per_tuple * path->rows +
		(prediction->marshal_probe_ns + prediction->probe_ns + prediction->emit_ns) * ns_cost;
	/* spilled probe rows are all read before the first row is returned */
	if (shape->spill_passes > 0)
		startup += outer_run + prediction->marshal_probe_ns * ns_cost;
	path->startup_cost = startup;
	path->total_cost = Max(total, startup);
}

/*
 * Set the path's price: the even one; or, if the path is better than core's paths without aggregates, one below theirs and
 * below that of a slower join of the node. Returns false if the path is useless, because one of the node's in the list takes
 * no more time.
 */
static bool
settle_price(const HjgCandidate *candidate, const HjgOffer *offer, bool better)
{
	const bool	partial = offer->own->custom.path.parallel_workers > 0;
	Path	   *path = &offer->own->custom.path;
	Cost		below = INFINITY;
	Cost		above = 0;
	ListCell   *lc;

	set_price(candidate, offer, candidate->ns_cost, true);
	offer->own->even_cost = path->total_cost;
	foreach(lc, partial ? candidate->joinrel->partial_pathlist : candidate->joinrel->pathlist)
	{
		const Path *other = lfirst(lc);
		const bool	faster = hjg_planner_is_ours(other) && ((const HjgPath *) other)->even_cost < path->total_cost * CLEARLY_MORE;

		if (other->param_info != NULL)
			continue;
		if (!faster)
			below = Min(below, other->total_cost / CLEARLY_MORE);
		else if (candidate->consider_startup && path->startup_cost * CLEARLY_MORE < other->startup_cost)
			above = Max(above, other->total_cost * CLEARLY_MORE);
		else
			return false;
	}
	if (better)
		path->total_cost = Max(Min(path->total_cost, below), above);
	path->startup_cost = Min(path->startup_cost, path->total_cost);
	return true;
}

/* Convert nanoseconds to microseconds that fit an integer list. */
static int
whole_us(double ns)
{
	return (int) Min(ns / 1000.0, PG_INT32_MAX);
}

/*
 * Keep the prediction for EXPLAIN, of processes that crowd one another (model_crowding.c). Of a scan's waits and mapping of memory, the price is that
 * of its pages, as for core's scans.
 */
static void
keep_prediction(const HjgOffer *offer)
{
	const HjgPrediction *prediction = &offer->prediction;
	const HjgScanTimes *build_scan = &offer->shape.build_scan;
	const HjgScanTimes *probe_scan = &offer->shape.probe_scan;
	const HjgUnitCosts *costs = offer->costs;
	HjgPath    *own = offer->own;
	const double nprocesses = hjg_planner_processes(&own->custom.path);
	const double share = hjg_planner_process_share(&own->custom.path);

	own->pairs = offer->shape.pairs;
	own->emit_ns = prediction->emit_ns;
	own->prediction_us[HJG_PREDICTION_MARSHAL_BUILD] =
		whole_us(share * hjg_model_crowded_reading_ns(costs, build_scan, prediction->marshal_build_ns, nprocesses));
	own->prediction_us[HJG_PREDICTION_MARSHAL_PROBE] =
		whole_us(share * hjg_model_crowded_reading_ns(costs, probe_scan, prediction->marshal_probe_ns, nprocesses));
	own->prediction_us[HJG_PREDICTION_BUILD] = whole_us(hjg_planner_table_work_ns(&own->custom.path, costs, prediction->build_ns) + share * prediction->startup_ns);
	own->prediction_us[HJG_PREDICTION_PROBE] = whole_us(hjg_planner_table_work_ns(&own->custom.path, costs, prediction->probe_ns));
	own->prediction_us[HJG_PREDICTION_EMIT] = whole_us(hjg_planner_table_work_ns(&own->custom.path, costs, prediction->emit_ns));
	own->prediction_us[HJG_PREDICTION_SCAN_BUILD] =
		whole_us(share * hjg_model_crowded_reading_ns(costs, build_scan, build_scan->own_ns, nprocesses));
	own->prediction_us[HJG_PREDICTION_SCAN_PROBE] =
		whole_us(share * hjg_model_crowded_reading_ns(costs, probe_scan, probe_scan->own_ns, nprocesses));
	own->prediction_us[HJG_PREDICTION_GPU_TRANSFER] = whole_us(prediction->transfer_ns);
	own->prediction_us[HJG_PREDICTION_GPU_BUILD] = whole_us(prediction->gpu_build_ns);
	own->prediction_us[HJG_PREDICTION_GPU_PROBE] = whole_us(prediction->gpu_probe_ns);
}

const char *
hjg_planner_price(PlannerInfo *root, HjgCandidate *candidate, HjgPath *own, const Path *outer_path,
				  const Path *inner_path)
{
	Path	   *path = &own->custom.path;
	const bool	partial = path->parallel_workers > 0;
	HjgUnitCosts crowded;
	HjgOffer	offer;
	double		saved_ns = 0;
	bool		wins;
	bool		better;

	offer.own = own;
	offer.outer = outer_path;
	offer.inner = inner_path;
	offer.costs = candidate->costs;
	hjg_planner_describe(root, candidate, path, outer_path, inner_path, &offer.shape);
	if (offer.shape.spill_passes > 0 && partial)
	{
		crowded = *candidate->costs;
		crowded.spill_tuple_ns *= CROWDED_SPILL;
		crowded.spill_mb_ns *= CROWDED_SPILL;
		offer.costs = &crowded;
	}
	choose_engine(candidate, &offer);
	offer.saved = hjg_planner_travel_saves(candidate, outer_path, offer.shape.partnered);
	own->bloom |= offer.saved > 0;
	own->grouping_us = offer.saved > 0 ? hjg_planner_travel_us(&offer.shape, outer_path) : 0;
	price_quals(root, candidate);
	if (candidate->aggregates != NULL)
		saved_ns = hjg_planner_aggregation_saves_ns(candidate, own, offer.prediction.emit_ns);
	keep_prediction(&offer);
	set_price(candidate, &offer, candidate->core_ns_cost, false);
	/* a join that takes less time than one that beats core's paths beats them, too */
	better = hjg_planner_best(candidate, partial) != NULL ||
		hjg_planner_wins(candidate, path->startup_cost, path->total_cost + candidate->spared, partial);
	wins = better ||
		hjg_planner_wins(candidate, path->startup_cost, path->total_cost - saved_ns * candidate->core_ns_cost, partial);
	if (!wins && candidate->rivals[partial].price == 0)
		return HJG_CORE_COSTS_LESS;
	if (!hjg_force)
	{
		offer.prediction.total_ns -= saved_ns;
		candidate->outrun = hjg_planner_faster_rival(candidate, &offer);
		if (candidate->outrun != NULL)
			return candidate->outrun;
		if (!wins && !hjg_planner_is_overpriced(candidate, &offer))
			return HJG_CORE_COSTS_LESS;
	}
	return settle_price(candidate, &offer, better || !wins) ? NULL : "another order of joins is expected to take less time";
}
