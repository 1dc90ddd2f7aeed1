/*
 * hjg_planner_path.h
 *	  Declarations that the files of the room "planner" share; no other room includes it.
 */
#ifndef HJG_PLANNER_PATH_H
#define HJG_PLANNER_PATH_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "utils/palloc.h"
#include "utils/relcache.h"

#include "layout/hjg_device_id.h"
#include "model/hjg_model.h"
#include "planner/hjg_planner.h"

extern const HjgPlannerSources *hjg_planner_sources;

/* Bytes that a row takes in the row store and in the engine, beside its width. */
#define HJG_ROW_OVERHEAD_BYTES 24

/* Engine threads that a job can expect beside its backend. */
#define HJG_ASSUMED_THREADS 2

/* Facts that all paths of a side have in common. */
typedef struct HjgSideFacts
{
	bool		known;
	bool		plain;			/* nothing but columns of tables */
	bool		readable;		/* a table that the node can read itself */
	bool		has_record;		/* a column of type record, of a subquery or CTE */
	Path	   *seqscan;		/* sequential scan of such a table, where core has dropped it; or NULL */
	HjgTableScan scan;			/* of such a table */
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
	double		nplaces;		/* integers from its least to its greatest value; 0: not known, or values are not unique */
} HjgColumnFacts;

typedef struct HjgIndexFacts
{
	const IndexOptInfo *index;
	double		scattered;
} HjgIndexFacts;

/* A table with a key of several columns, and a table that is joined with all of these columns (planner_risk.c). */
typedef struct HjgRisk
{
	Index		unique;
	Index		other;
	double		factor;			/* by which core's estimate may be too low */
} HjgRisk;

#define HJG_MOST_RISKS 8

/* Entries of each kind that are kept, beside the one that was asked for last. */
#define HJG_KNOWN_OPERATORS 8
#define HJG_KNOWN_TYPES 16
#define HJG_KNOWN_INDEXES 16
#define HJG_KNOWN_COLUMNS 8

/* A path of core's that may take longer than its price says: the cheapest one of a join, a nested loop over an index, or a merge of two indexes. */
typedef struct HjgRival
{
	Cost		price;			/* 0: there is none */
	const RelOptInfo *driving;	/* of a loop, with the rest; NULL: a merge */
	Cost		driving_cost;
	double		risk;			/* times that the driving side may have as many rows as core expects */
	HjgLookups	lookups;
} HjgRival;

/* Work that keys and aggregates of a query take, for each row. */
typedef struct HjgAggregateWork
{
	int			nkeys;
	List	   *columns;		/* Vars, each once */
	int			nsteps;			/* of evaluation, many rows at a time */
	Cost		by_core;		/* of expressions that core computes, by its price */
} HjgAggregateWork;

/* Aggregates of the query that a GpuAggregate above its last join may compute (planner_aggregate.c). */
typedef struct HjgAggregateFacts
{
	bool		known;
	bool		computable;		/* all of the query's are; then */
	HjgAggregateWork work;
	struct HjgPath *joins[2];	/* the cheapest ones to aggregate, complete and partial, whether core's lists have them or not */
} HjgAggregateFacts;

/* Devices that joins may run on, each found out when it is first asked for. */
typedef struct HjgKnownDevices
{
	bool		process_known;
	bool		process_ready;	/* a device process stands ready */
	bool		gpu_known;
	bool		has_gpu;		/* this one: */
	HjgPlannerGpu gpu;
	bool		coupled_known;
	bool		has_coupled;	/* this one: */
	HjgPlannerCoupled coupled;
} HjgKnownDevices;

/* Facts that hold while one query is planned (planner_facts.c). One struct, because all of them begin and end with the query. */
typedef struct HjgQueryFacts
{
	const PlannerInfo *root;
	MemoryContextCallback end;	/* with the memory that this lies in */
	const HjgUnitCosts *calibrated;
	HjgUnitCosts *overridden;	/* where cost overrides are set, for the candidate that was priced last; else NULL */
	double		hash_memory;	/* bytes */
	Cost		ceiling;		/* upper bound of the query's price; less than 0: not computed yet */
	bool		first_rows;		/* that price is of the first rows, which a LIMIT asks for */
	bool		repeated;		/* it refers to columns of an outer query, and is run for each row of that */
	bool		may_be_in_backend;	/* the settings leave open where the cpu engine runs */
	HjgKnownDevices devices;
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
	bool		risks_known;
	int			nrisks;
	HjgRisk		risks[HJG_MOST_RISKS];
	HjgAggregateFacts aggregates;
	List	   *verdicts;		/* planner_trace.c */
	Relids		grouped;		/* relations whose rows are grouped, */
	const char *grouping_declined;	/* and the reason why that is left to core, or NULL */
} HjgQueryFacts;

/* Get the facts of the query that root plans. */
extern HjgQueryFacts *hjg_planner_facts(PlannerInfo *root);
/* Get them, or NULL if they have not been asked for yet. */
extern HjgQueryFacts *hjg_planner_known_facts(const PlannerInfo *root);
/* Does a device process stand ready? */
extern bool hjg_planner_device_ready(HjgQueryFacts *facts);
/* Find the GPU that joins may run on, or NULL. */
extern const HjgPlannerGpu *hjg_planner_gpu(HjgQueryFacts *facts);
/* Find the OpenCL device that they may be divided with, or NULL. */
extern const HjgPlannerCoupled *hjg_planner_coupled(HjgQueryFacts *facts);
/* Find out whether the operator's values can be keys; valid until the next call. */
extern const HjgOperatorFacts *hjg_planner_operator(HjgQueryFacts *facts, Oid op, Oid collation);
/* Get the facts of a side, which do not depend on its path; those of a join are kept in room, which starts as not known. */
extern HjgSideFacts *hjg_planner_side(HjgQueryFacts *facts, const RelOptInfo *rel, HjgSideFacts *room);
/* Is it a table whose pages the node can read itself? */
extern bool hjg_planner_readable(PlannerInfo *root, const RelOptInfo *rel);
/* Count the values that an integer column of a table may have, if each is there once; 0 if that is not known. */
extern double hjg_planner_places(HjgQueryFacts *facts, const RelOptInfo *rel, AttrNumber attno);
/* Measure how scattered the rows of neighbouring index keys are: from 0, side by side, to 1, at random. */
extern double hjg_planner_scattering(HjgQueryFacts *facts, const IndexOptInfo *index);

/*
 * A join that the hook was called for.  Facts that are costly to find out are found out once for all its paths.  One struct,
 * because each step of the hook adds to what the steps before have found out.
 */
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
	bool		accepted;		/* a path was added to core's lists */
	const char *declined;		/* reason for the first path that was not */
	const char *outrun;			/* name of a rival that is faster than one of them; or NULL */
	bool		once;			/* the inner side is unique, and the join is no semi or anti join */
	bool		once_reversed;	/* the outer side is unique, and the join is an inner join (planner_core.c) */
	const HjgAggregateFacts *aggregates;	/* of a query whose last join this is, and that a GpuAggregate may compute; else NULL */
	Cost		spared;			/* then by core's Agg above the join; else 0 */
	HjgRival	rivals[2];		/* core's cheapest complete and partial path, where it may be slower than its price says */
	const HjgUnitCosts *costs;	/* in force, */
	double		unit_ns;		/* and the time of a cost of 1.0, where ours is compared with core's join, */
	Cost		core_ns_cost;	/* and the cost of a nanosecond there, */
	Cost		ns_cost;		/* and in even prices (planner_price.c) */
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

/* Verdicts in the order of their strength; the strongest one of a pair is reported. */
typedef enum HjgVerdictKind
{
	HJG_VERDICT_BOUND,			/* no path of ours can cost less than core's plan */
	HJG_VERDICT_PRICE,			/* those that were priced cost more, */
	HJG_VERDICT_RIVAL,			/* or less, but take longer */
	HJG_VERDICT_RULE,			/* not eligible */
	HJG_VERDICT_ACCEPTED
} HjgVerdictKind;

/* Note the verdict on a candidate, where hjoin_gpu.explain_declined asks for it; why is NULL if it was accepted. */
extern void hjg_planner_note(PlannerInfo *root, const HjgCandidate *candidate, HjgVerdictKind kind, const char *why);
/* Note why a GpuAggregate does not group the rows of a relation, or NULL. */
extern void hjg_planner_note_grouping(PlannerInfo *root, const RelOptInfo *rel, const char *why);
/* Report the verdicts on a query whose planning has ended. */
extern void hjg_planner_tell(PlannerInfo *root);

/* A path of ours, with what the plan is made of. */
typedef struct HjgPath
{
	CustomPath	custom;
	JoinType	jointype;
	bool		inner_unique;
	bool		bloom;			/* with a Bloom filter */
	HjgDeviceId device;			/* device that its job would be for */
	bool		in_backend;		/* without a job */
	bool		columnar;		/* rows need not be looked at one by one */
	double		build_rows;		/* of all participants */
	double		unit_ns;		/* time of a cost of 1.0, compared with core's join, */
	Cost		even_cost;		/* total cost in the currency of all joins of ours, where the path's own may be less; */
	Cost		ns_cost;		/* and cost of a nanosecond in it */
	int			prediction_us[HJG_PREDICTION_Count];
	List	   *hashclauses;	/* RestrictInfos */
	List	   *restrictlist;	/* RestrictInfos, hash clauses included */
} HjgPath;

/* A path while it is priced. */
typedef struct HjgOffer
{
	HjgPath    *own;
	const Path *outer;			/* its children */
	const Path *inner;
	const HjgUnitCosts *costs;	/* the candidate's; or those of temporary files that several processes write */
	HjgJoinShape shape;
	HjgPrediction prediction;
} HjgOffer;

/* ---------- planner_units.c ---------- */

/* Fill in what the query's unit costs start from. */
extern void hjg_planner_begin_pricing(HjgQueryFacts *facts);
/* Fill in the candidate's unit costs and which of its sides are unique; call it before the functions below. */
extern void hjg_planner_set_units(PlannerInfo *root, HjgCandidate *candidate);

/* ---------- planner_bound.c ---------- */

/*
 * Would a path of ours of this price, in the currency of core's joins, be clearly cheaper than core's paths in its list, or with
 * aggregates in the node than those with core's Agg above them?  If it is false for a lower bound of the price, it is false for
 * the price.
 */
extern bool hjg_planner_wins(const HjgCandidate *candidate, Cost startup, Cost total, bool partial);
/* Return the cheapest path in core's complete or partial list if it is ours; else NULL. */
extern const struct HjgPath *hjg_planner_best(const HjgCandidate *candidate, bool partial);

/*
 * Return, without examining the join's clauses, the reason why no path of ours can compete with core's paths or with a plan of
 * the whole query that core will consider; NULL if one may.
 */
extern const char *hjg_planner_bound(PlannerInfo *root, HjgCandidate *candidate);

/* ---------- planner_eligible.c ---------- */

/* Return the rule by which the node cannot run this join; NULL: it can, and the candidate is filled in. */
extern const char *hjg_planner_check_rules(PlannerInfo *root, HjgCandidate *candidate);

/* ---------- planner_offer.c ---------- */

/* Offer core the paths that win; returns the reason if there are none, else NULL. */
extern const char *hjg_planner_offer(PlannerInfo *root, HjgCandidate *candidate);
/* With force, drop core's paths if another pair of the same relations has offered paths of ours. */
extern void hjg_planner_keep_offers(RelOptInfo *joinrel);

/* ---------- planner_shape.c ---------- */

/* Compute the number of processes that core expects to share the work of a partial path; the leader counts less than a worker. */
extern double hjg_planner_participants(const Path *path);
/* Describe a join of two paths to the model, except for where it runs. */
extern void hjg_planner_describe(PlannerInfo *root, HjgCandidate *candidate, const Path *path, const Path *outer_path,
								 const Path *inner_path, HjgJoinShape *shape);

/* ---------- planner_scan.c ---------- */

/* Describe to the model how the node reads a table, all of whose result are plain columns. */
extern void hjg_planner_describe_scan(PlannerInfo *root, const RelOptInfo *rel, Relation relation, HjgTableScan *scan);

/* ---------- planner_price.c ---------- */

/*
 * Fill in the costs of a path whose rows are set, and the choices that are cheapest by the model. Returns the reason if core's
 * lists would not take it, else NULL.
 */
extern const char *hjg_planner_price(PlannerInfo *root, HjgCandidate *candidate, HjgPath *own, const Path *outer_path,
									 const Path *inner_path);

/* ---------- planner_core.c ---------- */

/* Fill in which sides of the join are unique; call it before the functions below. */
extern void hjg_planner_find_unique(PlannerInfo *root, HjgCandidate *candidate);
/* Count the pairs for which core charges residual quals. */
extern double hjg_planner_charged_pairs(const HjgCandidate *candidate, double outer_rows, double pairs);
/* Price core's hash join in memory about as core does, without its inputs. */
extern Cost hjg_planner_hash_join_price(const HjgCandidate *candidate, double outer_rows, double inner_rows, double pairs,
										int nkeys);
/*
 * Compute how much longer a cost of 1.0 takes in core's cheapest hash join of these sides than in one that is charged for each
 * pair: 1 or more.
 */
extern double hjg_planner_underpriced(const HjgCandidate *candidate);

/* ---------- planner_risk.c ---------- */

/* Return the factor by which core may expect too few rows of a join of these tables; 1 if no reason for that is known. */
extern double hjg_planner_risk(PlannerInfo *root, Relids relids);

/* ---------- planner_rivals.c ---------- */

/*
 * Return a reason if a loop over an index, or a merge, of core is faster than the predicted join and cheaper than core's hash
 * join; else NULL.
 */
extern const char *hjg_planner_faster_rival(PlannerInfo *root, const HjgCandidate *candidate, const HjgOffer *offer);
/* Fill in the candidate's rivals: core's cheapest paths, where they merge two tables by indexes, or look up many rows of one, in memory. */
extern void hjg_planner_find_rivals(PlannerInfo *root, HjgCandidate *candidate);
/* Is there a rival with as many processes that is surely slower than the predicted join, whatever its price? */
extern bool hjg_planner_is_overpriced(const HjgCandidate *candidate, const HjgOffer *offer);

/* ---------- planner_grouping.c ---------- */

/* The grouping that a query asks for, as far as the node may do it. */
typedef struct HjgGrouping
{
	PathTarget *target;			/* results */
	List	   *having;
	PathTarget *partial;		/* keys, and what they determine; partial Aggrefs */
	PathTarget *input;			/* the columns that these are made of */
	List	   *clauses;		/* SortGroupClauses */
	List	   *keys;
	List	   *operators;
	List	   *aggregates;
	List	   *partial_aggregates;
	double		ngroups;		/* of all rows */
	HjgAggregateWork work;
	const char *why;			/* if the node cannot */
} HjgGrouping;

/*
 * Find out what the node returns for these results, as core's partial aggregation does, and of what; false if it cannot.
 * sortgrouprefs: of the results, or NULL.  Target, having and ngroups are the caller's.
 */
extern bool hjg_planner_find_grouping(PlannerInfo *root, List *results, const Index *sortgrouprefs, List *having, HjgGrouping *grouping);
/* Make the aggregates of what is returned in partial form partial ones. */
extern void hjg_planner_make_partial(PlannerInfo *root, HjgGrouping *grouping);
/* Find the expression that an aggregate is computed of, FILTER included; NULL: it counts rows. */
extern Expr *hjg_planner_argument(const Aggref *aggref);
/* Is the expression computed by core's code, and not many rows at a time?  Adds to *work; root: NULL where the price does not matter. */
extern bool hjg_planner_is_by_core(PlannerInfo *root, Node *expr, HjgAggregateWork *work);

/* ---------- planner_aggregate.c ---------- */

/* Install the hook for upper relations. */
extern void hjg_planner_init_aggregates(void);
/* Fill in what core's Agg takes, before the candidate is compared with anything, if a GpuAggregate may compute the query's aggregates; */
extern void hjg_planner_expect_aggregates(PlannerInfo *root, HjgCandidate *candidate);
/* Find out then, of a join that the bound leaves, whether it can. */
extern void hjg_planner_find_aggregates(PlannerInfo *root, HjgCandidate *candidate);
/* Compute what aggregating saves of the time to hand out the rows of a path; less than 0 if it takes more. */
extern double hjg_planner_aggregation_saves_ns(const HjgCandidate *candidate, const HjgPath *path, double emit_ns);
/* Remember the path, a copy is made, if it is the cheapest one to aggregate; core's lists know nothing of that. */
extern void hjg_planner_keep_for_aggregates(const HjgCandidate *candidate, const HjgPath *path, bool partial);

/* ---------- planner_plan.c ---------- */

/* The methods of our paths, by which these are recognised. */
extern const CustomPathMethods hjg_planner_path_methods;
/* Is this a path of ours? */
extern bool hjg_planner_is_ours(const Path *path);

/*
 * Order quals: cheap ones first, but never across security levels, except that cheap leakproof ones may run at any time.  This is the
 * order that core gives the quals of its own scans and joins; its function for that is not exported (planner_plan.c).
 */
extern List *hjg_planner_order_quals(PlannerInfo *root, List *rinfos);
/* Make the plan of a path: CustomPathMethods.PlanCustomPath (planner_plan.c). */
extern Plan *hjg_planner_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
							  List *clauses, List *custom_plans);

/* Append the columns of a child plan to the scan tuple. */
extern List *hjg_planner_append_columns(List *scan_tlist, Plan *child);

/*
 * Give the columns in all lists of the node, which joins rel, the nulling relations of the scan tuple's columns
 * (planner_nulling.c; from PostgreSQL 16 on).
 */
extern void hjg_planner_adopt_nulling(CustomScan *cscan, const RelOptInfo *rel);

#endif							/* HJG_PLANNER_PATH_H */
