/*
 * planner_cost.c
 *	  What a path costs: the model's prediction in PostgreSQL's cost units (planner_units.c).
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"

#include "base/hjg_base.h"
#include "base/hjg_compat.h"
#include "model/hjg_model.h"
#include "planner/hjg_planner.h"
#include "planner/hjg_planner_path.h"
#include "rows/hjg_rows.h"

/*
 * A job keeps 8 to 12 MB of batches, and processors busy that others may want: it has to be so much faster than
 * the backends alone.
 */
#define LEAST_JOB_GAIN 0.2

/* A table that is in no cache is built and probed by the threads of a job: one backend would build it alone. */
#define MOST_EMBEDDED_ROWS (512 * 1024)

/* More for the engine's table, which is counted at its largest when it is decided whether a partition fits. */
#define PARTITION_ROW_BYTES 40

/* The same for whether all rows fit, on the average; and for a value that is not in its row. */
#define FULL_ROW_BYTES 12
#define FULL_VARLENA_BYTES 8

/* With fewer rows than that, other tables than an array by key take no longer that matters. */
#define LEAST_DENSE_ROWS 8192

/*
 * Processes that write temporary files at the same time delay one another in the operating system.  2M x 500K rows by
 * four processes with 2 MB took 0.73 to 0.99 of core's speed where the prices were equal.
 */
#define CROWDED_SPILL 1.5

double
hjg_planner_participants(const Path *path)
{
	double		leader_share = parallel_leader_participation ? 1.0 - 0.3 * path->parallel_workers : 0;

	return Max(path->parallel_workers + Max(leader_share, 0), 1);
}

/*
 * Pairs that the engine returns: all that match on the keys, those that a residual
 * qual drops included.  Where the first match decides a probe row, one; or, with residual
 * quals, those up to the first that passes.  That one is expected as far into the
 * row's candidates as if those that pass were spread evenly, and a row that has none is
 * expected to have hardly a candidate: both as core prices its hash join, to which this
 * is compared.
 *
 * What share of the outer rows has a partner core knows of semi and anti joins alone (planner_core.c).
 */
static pg_noinline double
estimate_uncommon_pairs(PlannerInfo *root, const HjgCandidate *candidate, double outer_rows, double inner_rows,
						bool residual)
{
	Selectivity selectivity = 1.0;
	ListCell   *lc;
	double		pairs;
	double		matched_rows;
	double		row_pairs;

	if ((candidate->jointype == JOIN_SEMI || candidate->jointype == JOIN_ANTI) && !residual)
		return outer_rows * candidate->extra->semifactors.outer_match_frac;
	foreach(lc, candidate->hashclauses)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		SpecialJoinInfo sjinfo = {.type = T_SpecialJoinInfo};

		sjinfo.min_lefthand = sjinfo.syn_lefthand = candidate->outerrel->relids;
		sjinfo.min_righthand = sjinfo.syn_righthand = candidate->innerrel->relids;
		sjinfo.jointype = JOIN_INNER;
		selectivity *= clause_selectivity(root, (Node *) rinfo, 0, JOIN_INNER, &sjinfo);
	}
	pairs = clamp_row_est(selectivity * outer_rows * inner_rows);
	if (!residual || (candidate->jointype != JOIN_SEMI && candidate->jointype != JOIN_ANTI))
		return pairs;
	matched_rows = outer_rows * candidate->extra->semifactors.outer_match_frac;
	row_pairs = pairs / outer_rows;
	return matched_rows * Max(row_pairs * 2.0 / (candidate->extra->semifactors.match_count + 1.0), 1.0) +
		(outer_rows - matched_rows) * Min(row_pairs, 1.0);
}

/* In most joins they are the rows that core expects. */
static double
estimate_pairs(PlannerInfo *root, const HjgCandidate *candidate, const Path *path, double outer_rows, double inner_rows)
{
	const bool	residual = list_length(candidate->extra->restrictlist) > list_length(candidate->hashclauses);

	if (candidate->jointype == JOIN_INNER && !residual && !candidate->unique_outer && !candidate->unique_inner)
		return path->rows;
	return estimate_uncommon_pairs(root, candidate, outer_rows, inner_rows, residual);
}

/*
 * Share of the outer rows that have a partner.  Where core does not tell, no more
 * can be said than that each has its share of the pairs.
 */
static double
estimate_partnered(const HjgCandidate *candidate, const HjgJoinShape *shape)
{
	JoinType	jointype = candidate->jointype;

	if (!candidate->unique_outer && !candidate->unique_inner && (jointype == JOIN_SEMI || jointype == JOIN_ANTI))
		return candidate->extra->semifactors.outer_match_frac;
	return Min(shape->pairs / Max(shape->probe_rows, 1), 1.0);
}

/* A probe row without a partner must be nothing to the join. */
static bool
use_bloom_filter(JoinType jointype, const HjgUnitCosts *costs, const HjgJoinShape *shape)
{
	if (jointype != JOIN_INNER && jointype != JOIN_SEMI && jointype != JOIN_RIGHT && !HJG_IS_BUILD_ONLY(jointype))
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

/* Is the path a join of ours that hands over vectors (exec_chain.c decides again)? */
static bool
gives_vectors(const Path *path, const HjgSideFacts *side)
{
	return hjg_direct_scan && hjg_planner_is_ours(path) && side->plain;
}

/*
 * If the path is a scan of a table that the node reads itself, the table's rows, of which so many pass the
 * filter, and the megabytes of its pages; else 0.
 */
static double
direct_rows(const Path *path, const HjgSideFacts *side, double rows, double *mb)
{
	const RelOptInfo *rel = path->parent;
	const double share = rows / Max(rel->rows, 1);

	*mb = 0;
	if (path->pathtype != T_SeqScan || !side->readable)
		return 0;
	*mb = share * rel->pages * BLCKSZ / (1024.0 * 1024.0);
	return share * rel->tuples;
}

/*
 * What the price of a child contains and is not spent when the node reads its table, or takes
 * its rows as vectors; and the pages, which are in the prediction, too.  A scan stays as expensive
 * as its pages and its filter, a join as its work.
 */
static Cost
child_credit(double saved_ns, double read_ns, Cost ns_cost, double rows)
{
	return Min(saved_ns * ns_cost, cpu_tuple_cost * rows) + read_ns * ns_cost;
}

/*
 * The same join on a GPU: where it was asked for, and where it is expected to be faster than
 * on the cpu engine, shape and prediction become those of it.
 */
static pg_noinline void
consider_gpu(const HjgCandidate *candidate, const HjgPlannerGpu *gpu, const HjgUnitCosts *costs, HjgJoinShape *shape,
			 HjgPrediction *prediction)
{
	HjgJoinShape on_gpu = *shape;
	HjgUnitCosts own_costs = *costs;
	HjgPrediction own;

	on_gpu.gpu = true;
	on_gpu.gpu_cold = gpu->cold;
	on_gpu.gpu_l2_bytes = gpu->l2_bytes;
	on_gpu.build_unique = candidate->extra->inner_unique || candidate->unique_inner || shape->pairs <= shape->probe_rows;
	if (gpu->measured)
		own_costs.cuda = gpu->costs;
	if (hjg_transfer_cost >= 0)
	{
		own_costs.cuda.in_mb_ns = costs->cuda.in_mb_ns;
		own_costs.cuda.out_mb_ns = costs->cuda.out_mb_ns;
	}
	hjg_model_predict(&own_costs, &on_gpu, &own);
	if (!gpu->asked_for && own.total_ns >= prediction->total_ns)
		return;
	*shape = on_gpu;
	*prediction = own;
}

/*
 * The same join divided with an OpenCL device: likewise, and by both engines' times as they were measured, where the device is ready for
 * keys of this width.  Knobs that say what the cpu engine costs are believed instead.
 */
static pg_noinline void
consider_coupled(const HjgPlannerCoupled *coupled, const HjgUnitCosts *costs, HjgJoinShape *shape, HjgPrediction *prediction)
{
	const bool	has_knobs = hjg_build_tuple_cost >= 0 || hjg_probe_tuple_cost >= 0;
	const double participants = Max(shape->participants, 1);
	HjgJoinShape on_device = *shape;
	HjgPrediction own;

	if (!coupled->asked_for && (coupled->widths & HJG_WIDTH_BIT(shape->key_width)) == 0)
		return;
	on_device.gpu = false;
	on_device.engine = &coupled->costs;
	hjg_model_predict(costs, &on_device, &own);
	if (!coupled->asked_for &&
		(own.total_ns >= prediction->total_ns ||
		 (!has_knobs && !hjg_model_engine_pays(&coupled->costs, &coupled->cpu_engine, shape->build_rows * participants,
											   shape->probe_rows * participants))))
		return;
	*shape = on_device;
	*prediction = own;
}

/*
 * The same join without a job, the backends probing a table as they read: where a job is not expected to be so
 * much faster, shape and prediction become those of it.  A table that each worker builds for itself is always
 * probed so: its job's threads would want the processors of the other workers.
 */
static void
consider_embedded(const HjgCandidate *candidate, const HjgUnitCosts *costs, const Path *path, HjgJoinShape *shape,
				  HjgPrediction *prediction)
{
	const bool	worker_own = path->parallel_workers > 0 && !path->parallel_aware;
	const int	nthreads = shape->nthreads;
	const bool	gpu = shape->gpu;
	const HjgEngineCosts *engine = shape->engine;
	const bool	bloom = shape->bloom;
	HjgPrediction own;

	if (shape->nthreads == 0 || shape->spill_passes > 0 || !candidate->facts->may_embed ||
		!(shape->probe_vectors || shape->probe_scan_rows > 0) ||
		shape->build_rows * shape->participants > MOST_EMBEDDED_ROWS)
		return;
	shape->nthreads = 0;
	shape->gpu = false;
	shape->engine = NULL;
	shape->in_place = true;
	shape->bloom = use_bloom_filter(candidate->jointype, costs, shape);
	hjg_model_predict(costs, shape, &own);
	if (worker_own || own.total_ns * (1 - LEAST_JOB_GAIN) <= prediction->total_ns)
		*prediction = own;
	else
	{
		shape->nthreads = nthreads;
		shape->gpu = gpu;
		shape->engine = engine;
		shape->in_place = false;
		shape->bloom = bloom;
	}
}

/*
 * Will the table be an array by key?  By the engine's rule (engine_direct.c), if the build side is a table, as far as statistics
 * tell.  Of the least and greatest values a condition leaves out, nothing is known.
 */
static bool
are_keys_dense(const HjgCandidate *candidate, double build_rows)
{
	const RelOptInfo *rel = candidate->innerrel;
	const RestrictInfo *rinfo = linitial_node(RestrictInfo, candidate->hashclauses);
	const Var  *key;
	double		nplaces;

	if (build_rows < LEAST_DENSE_ROWS || candidate->nhashed_keys > 0 || list_length(candidate->hashclauses) != 1 ||
		candidate->key_width > 8 || !IS_SIMPLE_REL(rel) || rel->rtekind != RTE_RELATION || hjg_build_tuple_cost >= 0 ||
		hjg_probe_tuple_cost >= 0 || hjg_strategy == HJG_CPU_RADIX)
		return false;
	key = (const Var *) (rinfo->outer_is_left ? get_rightop(rinfo->clause) : get_leftop(rinfo->clause));
	if (!IsA(key, Var) || key->varno != rel->relid || key->varattno <= 0)
		return false;
	nplaces = hjg_planner_places(candidate->facts, rel, key->varattno);
	return nplaces > 0 && nplaces <= build_rows * HJG_DENSE_PLACES_PER_ROW;
}

/* Quals beside the plain comparison of keys, as core charges them: the same for all paths. */
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

/* Nanoseconds to microseconds that fit an integer list. */
static int
whole_us(double ns)
{
	return (int) Min(ns / 1000.0, PG_INT32_MAX);
}

static void
keep_prediction(HjgPath *own, const HjgPrediction *prediction)
{
	own->prediction_us[HJG_PREDICTION_MARSHAL_BUILD] = whole_us(prediction->marshal_build_ns);
	own->prediction_us[HJG_PREDICTION_MARSHAL_PROBE] = whole_us(prediction->marshal_probe_ns);
	own->prediction_us[HJG_PREDICTION_BUILD] = whole_us(prediction->build_ns + prediction->startup_ns);
	own->prediction_us[HJG_PREDICTION_PROBE] = whole_us(prediction->probe_ns);
	own->prediction_us[HJG_PREDICTION_EMIT] = whole_us(prediction->emit_ns);
	own->prediction_us[HJG_PREDICTION_GPU_TRANSFER] = whole_us(prediction->transfer_ns);
	own->prediction_us[HJG_PREDICTION_GPU_BUILD] = whole_us(prediction->gpu_build_ns);
	own->prediction_us[HJG_PREDICTION_GPU_PROBE] = whole_us(prediction->gpu_probe_ns);
}

bool
hjg_planner_cost(PlannerInfo *root, HjgCandidate *candidate, HjgPath *own, const Path *outer_path,
				 const Path *inner_path)
{
	const HjgSideFacts *outer = hjg_planner_side(candidate->facts, candidate->outerrel, &candidate->outer);
	const HjgSideFacts *inner = hjg_planner_side(candidate->facts, candidate->innerrel, &candidate->inner);
	const Cost	ns_cost = candidate->ns_cost;
	const double hash_memory = candidate->facts->hash_memory;
	const HjgUnitCosts *costs = candidate->costs;
	HjgUnitCosts crowded;
	HjgJoinShape shape = {0};
	HjgPrediction prediction;
	Path	   *path = &own->custom.path;
	const bool	partial = path->parallel_workers > 0;
	double		saved_ns = 0;
	const PathTarget *target = path->pathtarget;
	double		row_bytes;
	Cost		startup;
	Cost		outer_run;
	Cost		total;
	Cost		least;

	shape.participants = 1;
	shape.build_rows = inner_path->rows;
	shape.probe_rows = outer_path->rows;
	if (path->parallel_aware)
	{
		/* the children's own numbers of workers may differ */
		shape.participants = hjg_planner_participants(path);
		shape.build_rows = candidate->innerrel->rows / shape.participants;
		shape.probe_rows = candidate->outerrel->rows / shape.participants;
	}
	shape.pairs = estimate_pairs(root, candidate, path, shape.probe_rows, shape.build_rows * shape.participants);
	shape.nkeys = list_length(candidate->hashclauses);
	shape.nhashed_keys = candidate->nhashed_keys;
	shape.key_width = candidate->key_width;
	shape.build_columns = inner->ncolumns;
	shape.build_varlenas = inner->nvarlenas;
	shape.probe_columns = outer->ncolumns;
	shape.probe_varlenas = outer->nvarlenas;
	shape.build_scan_rows = direct_rows(inner_path, inner, shape.build_rows, &shape.build_scan_mb);
	shape.probe_scan_rows = direct_rows(outer_path, outer, shape.probe_rows, &shape.probe_scan_mb);
	row_bytes = inner_path->pathtarget->width + candidate->key_width + HJG_ROW_OVERHEAD_BYTES;
	/* participants that share a build side add up their memory, too */
	shape.build_bytes = shape.build_rows * row_bytes;
	if (shape.build_rows * (row_bytes + FULL_ROW_BYTES + FULL_VARLENA_BYTES * inner->nvarlenas) > hash_memory)
		shape.spill_passes = hjg_model_spill_passes(shape.build_rows * shape.participants *
													(row_bytes + PARTITION_ROW_BYTES), hash_memory,
													path->parallel_aware ? HJG_SHARED_SPILL_BUFFER_BYTES :
													HJG_SPILL_BUFFER_BYTES, HJG_SPILL_BUFFER_BYTES);
	if (shape.spill_passes > 0 && partial)
	{
		crowded = *costs;
		crowded.spill_tuple_ns *= CROWDED_SPILL;
		crowded.spill_mb_ns *= CROWDED_SPILL;
		costs = &crowded;
	}
	shape.build_width = inner_path->pathtarget->width;
	shape.probe_width = outer_path->pathtarget->width;
	shape.build_vectors = gives_vectors(inner_path, inner);
	shape.probe_vectors = gives_vectors(outer_path, outer);
	shape.in_place = shape.spill_passes == 0 && (shape.probe_vectors || shape.probe_scan_rows > 0) &&
		(hjg_embedded_rows < 0 || shape.build_rows * shape.participants < hjg_embedded_rows);
	/* participants that share a build side share a job, however few their probe rows */
	if (hjg_planner_device_ready(candidate->facts) && hjg_embedded_rows >= 0 && !shape.in_place &&
		(path->parallel_aware || Max(shape.build_rows, shape.probe_rows) > hjg_embedded_rows))
		shape.nthreads = HJG_ASSUMED_THREADS;
	shape.partnered = estimate_partnered(candidate, &shape);
	shape.dense = shape.spill_passes == 0 && are_keys_dense(candidate, shape.build_rows * shape.participants);
	shape.bloom = use_bloom_filter(candidate->jointype, costs, &shape);
	hjg_model_predict(costs, &shape, &prediction);
	if (shape.nthreads > 0 && hjg_planner_gpu(candidate->facts) != NULL)
		consider_gpu(candidate, hjg_planner_gpu(candidate->facts), costs, &shape, &prediction);
	if (shape.nthreads > 0 && hjg_planner_coupled(candidate->facts) != NULL)
		consider_coupled(hjg_planner_coupled(candidate->facts), costs, &shape, &prediction);
	consider_embedded(candidate, costs, path, &shape, &prediction);
	own->bloom = shape.bloom;
	own->device = (HjgDeviceId) {.kind = shape.gpu ? HJG_KIND_CUDA : HJG_KIND_CPU, .number = HJG_NO_NUMBER};
	if (shape.engine != NULL)
		own->device = (HjgDeviceId) {.kind = HJG_KIND_OPENCL, .number = hjg_planner_coupled(candidate->facts)->number};
	own->embedded = shape.in_place;

	price_quals(root, candidate);
	startup = outer_path->startup_cost + inner_path->total_cost -
		child_credit(prediction.saved_build_ns, prediction.read_build_ns, ns_cost,
					 Max(shape.build_scan_rows, shape.build_rows)) +
		candidate->qual_cost.startup + candidate->hash_cost.startup + target->cost.startup +
		(prediction.startup_ns + prediction.marshal_build_ns + prediction.build_ns) * ns_cost;
	outer_run = outer_path->total_cost - outer_path->startup_cost -
		child_credit(prediction.saved_probe_ns, prediction.read_probe_ns, ns_cost,
					 Max(shape.probe_scan_rows, shape.probe_rows));
	total = startup + outer_run +
		candidate->qual_cost.per_tuple * hjg_planner_charged_pairs(candidate, shape.probe_rows, shape.pairs) + target->cost.per_tuple * path->rows +
		(prediction.marshal_probe_ns + prediction.probe_ns + prediction.emit_ns) * ns_cost;
	/* spilled probe rows are all read before the first row comes out */
	if (shape.spill_passes > 0)
		startup += outer_run + prediction.marshal_probe_ns * ns_cost;

	path->startup_cost = startup;
	path->total_cost = Max(total, startup);
	if (candidate->aggregates != NULL)
		saved_ns = hjg_planner_aggregation_saves_ns(candidate, own, prediction.emit_ns);
	if (!hjg_planner_may_be_wanted(candidate, path->startup_cost, path->total_cost - saved_ns * ns_cost, partial))
		return false;
	keep_prediction(own, &prediction);
	prediction.total_ns -= saved_ns;
	least = hjg_planner_rival_floor(candidate, path, outer_path, inner_path, &shape, costs, &prediction);
	own->outrun = least > 0;
	if (least > path->total_cost)
	{
		path->total_cost = least;
		return hjg_planner_is_wanted(candidate, path->startup_cost, path->total_cost + candidate->spared, partial);
	}
	if (!own->outrun)
		path->total_cost = Min(path->total_cost, hjg_planner_rival_ceiling(candidate, path, outer_path, inner_path, &shape,
																		   costs, &prediction));
	path->startup_cost = Min(path->startup_cost, path->total_cost);
	return hjg_planner_is_wanted(candidate, path->startup_cost, path->total_cost - saved_ns * ns_cost, partial);
}
