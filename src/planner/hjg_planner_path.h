/*
 * hjg_planner_path.h
 *	  What the files of room "planner" share; no other room includes it.
 */
#ifndef HJG_PLANNER_PATH_H
#define HJG_PLANNER_PATH_H

#include "postgres.h"

#include "nodes/pathnodes.h"

#include "model/hjg_model.h"
#include "planner/hjg_planner.h"

extern const HjgPlannerSources *hjg_planner_sources;

/* What all paths of a side have in common; found out when it is first asked for. */
typedef struct HjgCandidateSide
{
	bool		known;
	bool		plain;			/* nothing but columns of tables */
	bool		readable;		/* a table that the node can read itself */
	int			ncolumns;
	int			nvarlenas;
} HjgCandidateSide;

/* A join that the hook was called for.  What is costly to find out is found out once for all its paths. */
typedef struct HjgCandidate
{
	RelOptInfo *joinrel;
	RelOptInfo *outerrel;
	RelOptInfo *innerrel;
	JoinType	jointype;
	bool		unique_outer;	/* a semi join as an inner join: make this side's rows distinct */
	bool		unique_inner;
	JoinPathExtraData *extra;
	HjgUnitCosts costs;			/* in force, */
	double		unit_ns;		/* and the time of a cost of 1.0 */
	bool		gpu_known;
	bool		has_gpu;		/* this one: */
	HjgPlannerGpu gpu;
	HjgCandidateSide outer;
	HjgCandidateSide inner;

	/* once it was found eligible */
	List	   *hashclauses;	/* RestrictInfos, marked with outer_is_left */
	int			nhashed_keys;	/* keys that do not travel exactly */
	int			key_width;		/* bytes of an encoded key */
} HjgCandidate;

/* custom_private of a path */
typedef enum HjgPathPrivate
{
	HJG_PATH_SCALARS,			/* integers, HjgPathScalars */
	HJG_PATH_HASHCLAUSES,		/* RestrictInfos */
	HJG_PATH_RESTRICTLIST,		/* RestrictInfos, hash clauses included */
	HJG_PATH_PREDICTION,		/* integers, HjgPlanPrediction */
	HJG_PATH_AGGREGATES,		/* partial Aggrefs that the node computes; NIL: it returns joined rows */
	HJG_PATH_Count
} HjgPathPrivate;

typedef enum HjgPathScalars
{
	HJG_PATH_JOINTYPE,
	HJG_PATH_INNER_UNIQUE,
	HJG_PATH_BLOOM,				/* 1: with a Bloom filter */
	HJG_PATH_GPU,				/* 1: on a GPU */
	HJG_PATH_EMBEDDED,			/* 1: without a job */
	HJG_PATH_BUILD_ROWS,		/* of all participants */
	HJG_PATH_COLUMNAR,			/* 1: rows need not be looked at one by one */
	HJG_PATH_UNIT_NS,			/* time of a cost of 1.0 */
	HJG_PATH_SCALARS_Count
} HjgPathScalars;

/*
 * Decide whether the node can run this join.  Fills candidate, or returns false
 * with a constant text in *why (NULL for declines that nobody would ask about).
 */
extern bool hjg_planner_eligible(PlannerInfo *root, HjgCandidate *candidate, const char **why);

/* Fill in the candidate's unit costs, before anything below is asked. */
extern void hjg_planner_price(HjgCandidate *candidate);

/*
 * Is it plain, without a look at the join's clauses, that no path of ours can compete with those that core
 * has offered?  Joins of few rows, and such as an index answers, are planned as fast as without us.
 */
extern bool hjg_planner_hopeless(const HjgCandidate *candidate);

/*
 * Is it plain from the children's prices and rows alone that add_path(), or add_partial_path(), would
 * reject our join of these two?
 */
extern bool hjg_planner_loses(const HjgCandidate *candidate, const Path *outer_path, const Path *inner_path,
							  bool parallel_aware, bool partial);

/* What is cheapest for a path, by the model. */
typedef struct HjgPathChoice
{
	bool		bloom;			/* use a Bloom filter */
	bool		gpu;			/* join on a GPU */
	bool		embedded;		/* join in the backends, without a job */
} HjgPathChoice;

/* Fill in the costs of a path whose rows and children are set, and the prediction for the plan. */
extern void hjg_planner_cost(PlannerInfo *root, HjgCandidate *candidate, Path *path, Path *outer_path,
							 Path *inner_path, HjgPathChoice *choice, HjgPrediction *prediction);

/* Would core's list take a path of this price?  What is true of the price holds for a lower bound of it, too. */
extern bool hjg_planner_is_wanted(const HjgCandidate *candidate, Cost startup, Cost total, bool partial);

/*
 * Where core would take a nested loop over an index, or a merge join, that is faster than the predicted join: the
 * least price that leaves the join to it; else 0.  planner_rivals.c says why prices alone do not.
 */
extern Cost hjg_planner_rival_floor(PlannerInfo *root, const HjgCandidate *candidate, const Path *path,
									const Path *outer_path, const Path *inner_path,
									const HjgJoinShape *shape, const HjgUnitCosts *costs,
									const HjgPrediction *prediction);

/* Processes that core expects to share the work of a partial path; the leader has other things to do. */
extern double hjg_planner_participants(const Path *path);

/* Is this a path of ours? */
extern bool hjg_planner_is_ours(const Path *path);

/* planner_aggregate.c: install the hook for upper relations. */
extern void hjg_planner_init_aggregates(void);

/* CustomPathMethods.PlanCustomPath */
extern Plan *hjg_planner_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
							  List *clauses, List *custom_plans);

#endif							/* HJG_PLANNER_PATH_H */
