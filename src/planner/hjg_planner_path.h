/*
 * hjg_planner_path.h
 *	  What the files of room "planner" share; no other room includes it.
 */
#ifndef HJG_PLANNER_PATH_H
#define HJG_PLANNER_PATH_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "utils/palloc.h"

#include "layout/hjg_device_id.h"
#include "model/hjg_model.h"
#include "planner/hjg_planner.h"

extern const HjgPlannerSources *hjg_planner_sources;

/* Bytes that a row takes in the row store and in the engine, beside its width. */
#define HJG_ROW_OVERHEAD_BYTES 24

/* Engine threads that a job can count on beside its backend. */
#define HJG_ASSUMED_THREADS 2

/* What all paths of a side have in common. */
typedef struct HjgSideFacts
{
	bool		known;
	bool		plain;			/* nothing but columns of tables */
	bool		readable;		/* a table that the node can read itself */
	bool		has_record;		/* a column of type record, of a subquery or CTE */
	Path	   *scan;			/* sequential, of such a table, for hjg_planner_cheapest_child(); or NULL */
	int			ncolumns;
	int			nvarlenas;
} HjgSideFacts;

typedef struct HjgOperatorFacts
{
	Oid			op;
	Oid			collation;
	bool		supported;		/* values can be keys */
	const char *why;			/* if not */
	int			exact_bytes;	/* of a key that travels exactly, else 0 */
} HjgOperatorFacts;

typedef struct HjgTypeFacts
{
	Oid			type;
	bool		varlena;
} HjgTypeFacts;

typedef struct HjgColumnFacts
{
	Index		relid;
	AttrNumber	attno;
	double		nplaces;		/* from its least to its greatest value; 0: not known, or values come twice */
} HjgColumnFacts;

typedef struct HjgIndexFacts
{
	const IndexOptInfo *index;
	double		scattered;
} HjgIndexFacts;

/* So many of each are remembered, and the one that was asked for last. */
#define HJG_KNOWN_OPERATORS 8
#define HJG_KNOWN_TYPES 16
#define HJG_KNOWN_INDEXES 16
#define HJG_KNOWN_COLUMNS 8

/* Aggregates of all joined rows that the node may compute (planner_aggregate.c). */
typedef struct HjgAggregateFacts
{
	bool		known;
	bool		computable;		/* all of the query's are; then */
	int			ncolumns;		/* of the join, as their arguments */
	int			nsteps;			/* of evaluation, a row */
	struct HjgPath *joins[2];	/* the cheapest ones to aggregate, complete and partial, whether core's lists have them or not */
} HjgAggregateFacts;

/* What holds while one query is planned (planner_facts.c). */
typedef struct HjgQueryFacts
{
	const PlannerInfo *root;
	MemoryContextCallback end;	/* with the memory that this lies in */
	const HjgUnitCosts *calibrated;
	HjgUnitCosts *turned;		/* where knobs are set, for the candidate that was priced last; else NULL */
	double		hash_memory;	/* bytes */
	Cost		ceiling;		/* what the query costs at most */
	bool		first_rows;		/* as it wants but so many */
	bool		repeated;		/* it is planned once, and run for each row of a query around it, whose columns it refers to */
	bool		device_known;
	bool		device_ready;
	bool		may_embed;		/* the settings leave open where the cpu engine runs */
	bool		gpu_known;
	bool		has_gpu;		/* this one: */
	HjgPlannerGpu gpu;
	bool		coupled_known;
	bool		has_coupled;	/* this one: */
	HjgPlannerCoupled coupled;
	int			nsides;
	HjgSideFacts *sides;		/* of tables, by range table index */
	int			noperators;
	HjgOperatorFacts operators[HJG_KNOWN_OPERATORS];
	int			ntypes;
	HjgTypeFacts types[HJG_KNOWN_TYPES];
	int			nindexes;
	HjgIndexFacts indexes[HJG_KNOWN_INDEXES];
	int			ncolumns;
	HjgColumnFacts columns[HJG_KNOWN_COLUMNS];
	HjgAggregateFacts aggregates;
	List	   *verdicts;		/* planner_trace.c */
} HjgQueryFacts;

/* The facts of the query that root plans. */
extern HjgQueryFacts *hjg_planner_facts(PlannerInfo *root);
/* The same, or NULL if they have not been asked for yet. */
extern HjgQueryFacts *hjg_planner_known_facts(const PlannerInfo *root);
/* Does a device process stand ready? */
extern bool hjg_planner_device_ready(HjgQueryFacts *facts);
/* The GPU that joins may run on, or NULL. */
extern const HjgPlannerGpu *hjg_planner_gpu(HjgQueryFacts *facts);
/* The OpenCL device that they may be divided with, or NULL. */
extern const HjgPlannerCoupled *hjg_planner_coupled(HjgQueryFacts *facts);
/* Is there any of the two? */
extern bool hjg_planner_has_device(HjgQueryFacts *facts);
/* Good until the next call. */
extern const HjgOperatorFacts *hjg_planner_operator(HjgQueryFacts *facts, Oid op, Oid collation);
/* What there is to know of a side, whatever its path; of a join in room, which starts as not known. */
extern HjgSideFacts *hjg_planner_side(HjgQueryFacts *facts, const RelOptInfo *rel, HjgSideFacts *room);
/* Values that an integer column of a table may have, if each is there once; 0 if that is not known. */
extern double hjg_planner_places(HjgQueryFacts *facts, const RelOptInfo *rel, AttrNumber attno);
/* 0 where rows of neighbouring index keys lie side by side, 1 where they lie anywhere. */
extern double hjg_planner_scattering(HjgQueryFacts *facts, const IndexOptInfo *index);

/* A price that the reading of a child is not below; of rows that the processes of a join share. */
typedef struct HjgReading
{
	const Path *child;
	bool		shared;
	Cost		least;
} HjgReading;

/* Cheapest complete and partial child of each side. */
#define HJG_KNOWN_READINGS 4

/* A join that the hook was called for.  What is costly to find out is found out once for all its paths. */
typedef struct HjgCandidate
{
	HjgQueryFacts *facts;
	RelOptInfo *joinrel;
	RelOptInfo *outerrel;
	RelOptInfo *innerrel;
	JoinType	jointype;
	bool		unique_outer;	/* a semi join as an inner join: make this side's rows distinct */
	bool		unique_inner;
	JoinPathExtraData *extra;
	bool		consider_startup;	/* the first rows may be all that is asked for */
	bool		accepted;		/* a path was offered to core's lists */
	bool		once;			/* the inner side is unique, of a join that is no semi or anti join, */
	bool		once_reversed;	/* the outer side, of an inner join (planner_core.c) */
	Cost		least_startup;	/* what any plan with a path of ours costs before its first row, */
	Cost		least_total;	/* and for all of them, at least */
	const HjgAggregateFacts *aggregates;	/* of a query whose last join this is, and that the node may compute; else NULL */
	Cost		spared;			/* then by core's Agg above the join; else 0 */
	Cost		below_merges[2];	/* just below core's cheapest complete and partial path, where that merges two tables by indexes,
								 * both in memory; else infinite */
	const HjgUnitCosts *costs;	/* in force, */
	double		unit_ns;		/* and the time of a cost of 1.0, */
	Cost		ns_cost;		/* and the cost of a nanosecond */
	int			nreadings;
	HjgReading	readings[HJG_KNOWN_READINGS];
	HjgSideFacts outer;			/* of a join; of a table they are among the query's facts */
	HjgSideFacts inner;

	/* once it was found eligible */
	List	   *hashclauses;	/* RestrictInfos, marked with outer_is_left */
	int			nhashed_keys;	/* keys that do not travel exactly */
	int			key_width;		/* bytes of an encoded key */

	/* once a path was priced */
	bool		quals_known;
	QualCost	hash_cost;		/* of comparing keys, as core charges it */
	QualCost	qual_cost;		/* of the other quals, and of comparing what does not travel exactly */
} HjgCandidate;

/* ---------- planner_trace.c ---------- */

/* In the order of their strength: of a pair's verdicts the strongest is told. */
typedef enum HjgVerdictKind
{
	HJG_VERDICT_ORDER,			/* the same pair is looked at the other way round */
	HJG_VERDICT_PRICE,			/* expected to cost more than core's plan */
	HJG_VERDICT_RULE,			/* not eligible */
	HJG_VERDICT_ACCEPTED
} HjgVerdictKind;

/* Note the verdict on a candidate, where somebody wants to know; why may be NULL for what is not worth a word. */
extern void hjg_planner_note(PlannerInfo *root, const HjgCandidate *candidate, HjgVerdictKind kind, const char *why);
/* Tell the verdicts on a query that is planned. */
extern void hjg_planner_tell(PlannerInfo *root);

/* A path, with what the plan is made of. */
typedef struct HjgPath
{
	CustomPath	custom;
	JoinType	jointype;
	bool		inner_unique;
	bool		bloom;			/* with a Bloom filter */
	HjgDeviceId device;			/* that a job of it is for */
	bool		embedded;		/* without a job */
	bool		columnar;		/* rows need not be looked at one by one */
	bool		outrun;			/* by a join of core's without hashing, whatever its price (planner_rivals.c) */
	double		build_rows;		/* of all participants */
	double		unit_ns;		/* time of a cost of 1.0 */
	int			prediction_us[HJG_PREDICTION_Count];
	List	   *hashclauses;	/* RestrictInfos */
	List	   *restrictlist;	/* RestrictInfos, hash clauses included */
	List	   *aggregates;		/* partial Aggrefs that the node computes; NIL: it returns joined rows */
} HjgPath;

/*
 * Decide whether the node can run this join.  Fills candidate, or returns false
 * with a constant text in *why (NULL for declines that nobody would ask about).
 */
extern bool hjg_planner_eligible(PlannerInfo *root, HjgCandidate *candidate, const char **why);

/* Fill in what the query's unit costs start from. */
extern void hjg_planner_begin_pricing(HjgQueryFacts *facts);

/* Fill in the candidate's unit costs, before anything below is asked. */
extern void hjg_planner_price(PlannerInfo *root, HjgCandidate *candidate);

/*
 * Does reading the sides alone take more than a join that core has offered, whatever our unit costs?  Asked before
 * anything is found out; fills in what it takes at least.
 */
extern bool hjg_planner_outdone(HjgCandidate *candidate);

/* Does it take more than all of the query? */
extern bool hjg_planner_beyond_ceiling(const HjgCandidate *candidate);

/* What the query costs at most, as far as planner_ceiling.c can tell: of its first rows if root asks for these. */
extern Cost hjg_planner_ceiling(PlannerInfo *root);

/*
 * Is it plain, without a look at the join's clauses, that no path of ours can compete with those that core
 * has offered?  Joins of few rows, and such as an index answers, are planned as fast as without us.
 */
extern bool hjg_planner_hopeless(HjgCandidate *candidate);

/*
 * The path by which the node reads a side as a whole: the cheapest one; or, if that is a scan of nothing but an index, a
 * sequential one where the node reads the table in less time, and its price is not much higher.  Core drops that.
 */
extern Path *hjg_planner_cheapest_child(PlannerInfo *root, HjgCandidate *candidate, RelOptInfo *rel, HjgSideFacts *room);

/* Is the other order of the sides, for which the hook is called as well, plainly the better one? */
extern bool hjg_planner_reverse(const HjgCandidate *candidate);

/*
 * Is it plain from the children's prices and rows alone that add_path(), or add_partial_path(), would
 * reject our join of these two?
 */
extern bool hjg_planner_loses(HjgCandidate *candidate, const Path *outer_path, const Path *inner_path,
							  bool parallel_aware, bool partial);

/*
 * Fill in the costs of a path whose rows and children are set, and what is cheapest for it by the model.  Returns false
 * if core's list would not take it: then it may be half done.
 */
extern bool hjg_planner_cost(PlannerInfo *root, HjgCandidate *candidate, HjgPath *path, const Path *outer_path,
							 const Path *inner_path);

/* Fill in which side of the join is unique, before what is below is asked. */
extern void hjg_planner_find_unique(PlannerInfo *root, HjgCandidate *candidate);
/* Of pairs, or rows that may have one, those that core charges residual quals for. */
extern double hjg_planner_charged_pairs(const HjgCandidate *candidate, double outer_rows, double pairs);
/* About core's price for its hash join in memory, beside that of its inputs. */
extern Cost hjg_planner_hash_join_price(const HjgCandidate *candidate, double outer_rows, double inner_rows, double pairs,
										int nkeys);
/* How many times as much time a cost of 1.0 is in core's cheapest hash join of these sides as in one that is charged for each pair. */
extern double hjg_planner_underpriced(const HjgCandidate *candidate);

/*
 * Would a path of ours of this price be clearly cheaper than those in core's list, or with aggregates in the node than those with
 * core's Agg above them?  What is true of the price holds for a lower bound of it, too.
 */
extern bool hjg_planner_is_wanted(const HjgCandidate *candidate, Cost startup, Cost total, bool partial);
/* The same as long as it is not known whether it is so much faster than a merge of core's that its price goes below that one's. */
extern bool hjg_planner_may_be_wanted(const HjgCandidate *candidate, Cost startup, Cost total, bool partial);

/*
 * Where core would take a nested loop over an index, or a merge join, that is faster than the predicted join: the
 * least price that leaves the join to it; else 0.  planner_rivals.c says why prices alone do not.
 */
extern Cost hjg_planner_rival_floor(const HjgCandidate *candidate, const Path *path,
									const Path *outer_path, const Path *inner_path,
									const HjgJoinShape *shape, const HjgUnitCosts *costs,
									const HjgPrediction *prediction);

/* Fill in below_merges, before a price of the candidate's is compared with anything. */
extern void hjg_planner_find_merges(HjgCandidate *candidate);
/* The same price where the predicted join is faster than that merge for sure; else infinite. */
extern Cost hjg_planner_rival_ceiling(const HjgCandidate *candidate, const Path *path, const Path *outer_path,
									  const Path *inner_path, const HjgJoinShape *shape, const HjgUnitCosts *costs,
									  const HjgPrediction *prediction);

/* Processes that core expects to share the work of a partial path; the leader has other things to do. */
extern double hjg_planner_participants(const Path *path);

/* Is this a path of ours? */
extern bool hjg_planner_is_ours(const Path *path);

/* planner_aggregate.c: install the hook for upper relations. */
extern void hjg_planner_init_aggregates(void);
/* Fill in what core's Agg takes, before the candidate is compared with anything, if the node may compute the query's aggregates; */
extern void hjg_planner_expect_aggregates(PlannerInfo *root, HjgCandidate *candidate);
/* then, with the query's facts at hand, whether it can. */
extern void hjg_planner_find_aggregates(PlannerInfo *root, HjgCandidate *candidate);
/* What aggregating saves of the time to hand out the rows of a path; less than 0 if it takes more. */
extern double hjg_planner_aggregation_saves_ns(const HjgCandidate *candidate, const HjgPath *path, double emit_ns);
/* Remember the path, a copy is made, if it is the cheapest one to aggregate; core's lists know nothing of that. */
extern void hjg_planner_keep_for_aggregates(const HjgCandidate *candidate, const HjgPath *path, bool partial);

/* planner_plan.c: CustomPathMethods.PlanCustomPath */
extern Plan *hjg_planner_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
							  List *clauses, List *custom_plans);

/* planner_nulling.c, from PostgreSQL 16 on: make all lists of the node, which joins rel, find its columns in the list of these. */
extern void hjg_planner_adopt_nulling(CustomScan *cscan, const RelOptInfo *rel);

#endif							/* HJG_PLANNER_PATH_H */
