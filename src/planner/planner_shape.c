/*
 * planner_shape.c
 *	  Describes a join of two paths to the model: rows, columns, keys, pairs, memory.
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"

#include "base/hjg_base.h"
#include "base/hjg_compat.h"
#include "model/hjg_model.h"
#include "planner/hjg_planner_path.h"
#include "rows/hjg_rows.h"

/* Further bytes of a value of variable length in a row store. */
#define STORED_VARLENA_BYTES 8

/* Time of a pair that is dropped by the number of its build row, as a share of one whose row is made. */
#define DROPPED_PAIR 0.1

/* Least rows of which an array by key has a notable advantage over other tables. */
#define LEAST_DENSE_ROWS 8192

/* Estimate the pairs that match on the keys, with those that a residual qual drops. */
static double
estimate_matches(PlannerInfo *root, const HjgCandidate *candidate, double outer_rows, double inner_rows)
{
	Selectivity selectivity = 1.0;
	ListCell   *lc;

	foreach(lc, candidate->hashclauses)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		SpecialJoinInfo sjinfo = {.type = T_SpecialJoinInfo};

		sjinfo.min_lefthand = sjinfo.syn_lefthand = candidate->outerrel->relids;
		sjinfo.min_righthand = sjinfo.syn_righthand = candidate->innerrel->relids;
		sjinfo.jointype = JOIN_INNER;
		selectivity *= clause_selectivity(root, (Node *) rinfo, 0, JOIN_INNER, &sjinfo);
	}
	return clamp_row_est(selectivity * outer_rows * inner_rows);
}

/*
 * Estimate the pairs that the engine returns. If the first match of a probe row is enough, one; with residual quals, those up
 * to the first that passes. The passing ones are assumed to be spread evenly among a row's candidates, and a row without any
 * to have hardly a candidate: both as core prices its hash join, to which this is compared.
 *
 * Only for semi and anti joins does core know the share of outer rows with a partner (planner_core.c).
 */
static pg_noinline double
estimate_uncommon_pairs(PlannerInfo *root, const HjgCandidate *candidate, double outer_rows, double inner_rows,
						bool residual)
{
	double		pairs;
	double		matched_rows;
	double		row_pairs;

	if ((candidate->jointype == JOIN_SEMI || candidate->jointype == JOIN_ANTI) && !residual)
		return outer_rows * candidate->extra->semifactors.outer_match_frac;
	pairs = estimate_matches(root, candidate, outer_rows, inner_rows);
	if (!residual || (candidate->jointype != JOIN_SEMI && candidate->jointype != JOIN_ANTI))
		return pairs;
	matched_rows = outer_rows * candidate->extra->semifactors.outer_match_frac;
	row_pairs = pairs / outer_rows;
	return matched_rows * Max(row_pairs * 2.0 / (candidate->extra->semifactors.match_count + 1.0), 1.0) +
		(outer_rows - matched_rows) * Min(row_pairs, 1.0);
}

/* Estimate the pairs: in most joins the rows that core expects. */
static double
estimate_pairs(PlannerInfo *root, const HjgCandidate *candidate, const Path *path, double outer_rows, double inner_rows)
{
	const bool	residual = list_length(candidate->extra->restrictlist) > list_length(candidate->hashclauses);

	if (candidate->jointype == JOIN_INNER && !residual && !candidate->unique_outer && !candidate->unique_inner)
		return path->rows;
	return estimate_uncommon_pairs(root, candidate, outer_rows, inner_rows, residual);
}

/*
 * Estimate the share of the outer rows with a partner. If core does not know it, assume that each row has its share of the
 * pairs.
 */
static double
estimate_partnered(const HjgCandidate *candidate, const HjgJoinShape *shape)
{
	JoinType	jointype = candidate->jointype;

	if (!candidate->unique_outer && !candidate->unique_inner && (jointype == JOIN_SEMI || jointype == JOIN_ANTI))
		return candidate->extra->semifactors.outer_match_frac;
	return Min(shape->pairs / Max(shape->probe_rows, 1), 1.0);
}

/*
 * Estimate the pairs whose rows are made, for conditions or results, in joins that return build rows only. A build row needs
 * no more than its first match: the engine returns its other pairs, too, which are dropped by their numbers. Core's factors
 * are those of the mirrored join, whose outer side is this join's build side.
 */
static pg_noinline double
estimate_made_pairs(const HjgCandidate *candidate, const HjgJoinShape *shape, double build_rows)
{
	const SemiAntiJoinFactors *factors = &candidate->extra->semifactors;
	const double share = shape->probe_rows / Max(candidate->outerrel->rows, 1);
	const double matched = build_rows * factors->outer_match_frac;
	const double row_pairs = shape->pairs / share / Max(build_rows, 1);
	double		made = candidate->jointype == HJG_JOIN_RIGHT_SEMI ? matched : build_rows - matched;

	/* all candidates of a row without a match, and those of other rows up to the first match, as above */
	if (list_length(candidate->extra->restrictlist) > list_length(candidate->hashclauses))
		made = matched * Max(row_pairs * 2.0 / (factors->match_count + 1.0), 1.0) + (build_rows - matched) * row_pairs +
			(candidate->jointype == HJG_JOIN_RIGHT_ANTI ? build_rows - matched : 0);
	made = made * share;
	return made + Max(shape->pairs - made, 0) * DROPPED_PAIR;
}

/* Is the path a join of the node that returns vectors (node_chain.c decides again)? */
static bool
gives_vectors(const Path *path, const HjgSideFacts *side)
{
	return hjg_direct_scan && hjg_planner_is_ours(path) && side->plain;
}

/* Are the outer keys columns of the outer table, before any of variable width? */
static bool
are_keys_fixed(const HjgCandidate *candidate, const HjgTableScan *scan)
{
	ListCell   *lc;

	foreach(lc, candidate->hashclauses)
	{
		const RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		const Var  *key = (const Var *) (rinfo->outer_is_left ? get_leftop(rinfo->clause) : get_rightop(rinfo->clause));

		if (!IsA(key, Var) || key->varno != candidate->outerrel->relid || key->varattno <= 0 || key->varattno > scan->nbefore)
			return false;
	}
	return candidate->nhashed_keys == 0;
}

/*
 * Will the hash table be an array by key? Apply the engine's rule (engine_direct.c) to the statistics, if the build side is a
 * table. They do not say which of the least and greatest values a condition removes.
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
		hjg_probe_tuple_cost >= 0 || hjg_strategy == HJG_CPU_NOP)
		return false;
	key = (const Var *) (rinfo->outer_is_left ? get_rightop(rinfo->clause) : get_leftop(rinfo->clause));
	if (!IsA(key, Var) || key->varno != rel->relid || key->varattno <= 0)
		return false;
	nplaces = hjg_planner_range(candidate->facts, rel, key->varattno, true);
	return nplaces > 0 && nplaces <= build_rows * HJG_DENSE_PLACES_PER_ROW;
}

void
hjg_planner_describe(PlannerInfo *root, HjgCandidate *candidate, const Path *path, const Path *outer_path,
					 const Path *inner_path, HjgJoinShape *shape)
{
	const HjgSideFacts *outer = hjg_planner_side(candidate->facts, candidate->outerrel, &candidate->outer);
	const HjgSideFacts *inner = hjg_planner_side(candidate->facts, candidate->innerrel, &candidate->inner);
	const double hash_memory = candidate->facts->hash_memory;
	const double row_bytes = inner_path->pathtarget->width + candidate->key_width + HJG_ROW_OVERHEAD_BYTES;
	/* as hjg_build_bytes() counts them: a value has a byte that says whether it is NULL */
	const double full_row_bytes = inner_path->pathtarget->width + inner->ncolumns + 1 + STORED_VARLENA_BYTES * inner->nvarlenas +
		hjg_model_key_bytes(candidate->key_width);
	double		build_rows;

	*shape = (HjgJoinShape) {.participants = 1, .build_rows = inner_path->rows, .probe_rows = outer_path->rows};
	if (path->parallel_aware)
	{
		/* the children's own numbers of workers may differ */
		shape->participants = hjg_planner_participants(path);
		shape->build_rows = candidate->innerrel->rows / shape->participants;
		shape->probe_rows = candidate->outerrel->rows / shape->participants;
	}
	build_rows = shape->build_rows * shape->participants;
	shape->pairs = estimate_pairs(root, candidate, path, shape->probe_rows, build_rows);
	shape->partnered = estimate_partnered(candidate, shape);
	if (HJG_IS_BUILD_ONLY(candidate->jointype))
		shape->pairs = estimate_made_pairs(candidate, shape, build_rows);
	shape->nkeys = list_length(candidate->hashclauses);
	shape->nhashed_keys = candidate->nhashed_keys;
	shape->key_width = candidate->key_width;
	shape->build_columns = inner->ncolumns;
	shape->build_varlenas = inner->nvarlenas;
	shape->build_width = inner_path->pathtarget->width;
	shape->build_vectors = gives_vectors(inner_path, inner);
	shape->build_scan = hjg_planner_scan_times(candidate->costs, inner, inner_path, shape->build_rows, false);
	shape->probe_columns = outer->ncolumns;
	shape->probe_varlenas = outer->nvarlenas;
	shape->probe_width = outer_path->pathtarget->width;
	shape->probe_vectors = gives_vectors(outer_path, outer);
	shape->probe_scan = hjg_planner_scan_times(candidate->costs, outer, outer_path, shape->probe_rows,
											   outer->readable && are_keys_fixed(candidate, &outer->scan));
	/* participants that share a build side share their memory, too */
	shape->build_bytes = shape->build_rows * row_bytes;
	if (shape->build_rows * full_row_bytes > hash_memory)
		shape->spill_passes = hjg_model_spill_passes(build_rows * full_row_bytes, hash_memory,
													 path->parallel_aware ? HJG_SHARED_SPILL_BUFFER_BYTES :
													 HJG_SPILL_BUFFER_BYTES, HJG_SPILL_BUFFER_BYTES);
	shape->dense = shape->spill_passes == 0 && are_keys_dense(candidate, build_rows);
}
