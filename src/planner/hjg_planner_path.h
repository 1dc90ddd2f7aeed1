/*
 * hjg_planner_path.h
 *	  Declarations that the files of the room "planner" share; no other room includes it.
 */
#ifndef HJG_PLANNER_PATH_H
#define HJG_PLANNER_PATH_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "utils/palloc.h"
#include "utils/relcache.h"

#include "layout/hjg_device_id.h"
#include "model/hjg_model.h"
#include "planner/hjg_planner.h"

extern const HjgPlannerSources *hjg_planner_sources;

/* Bytes that a row takes in the row store and in the engine besides its width. */
#define HJG_ROW_OVERHEAD_BYTES 24

/* Engine threads that a job can expect besides its backend. */
#define HJG_ASSUMED_THREADS 2

/* Facts that all paths of a side share. */
typedef struct HjgSideFacts
{
	bool		known;
	bool		plain;			/* columns of tables only */
	bool		readable;		/* a table that the node can read itself */
	bool		has_record;		/* a column of type record, of a subquery or CTE */
	Path	   *seqscans[2];	/* sequential scans of such a table, complete and partial, that core has dropped; or NULL */
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
	int			exact_bytes;	/* of a key that is exact, else 0 */
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
	bool		unique;			/* no value occurs twice */
	double		range;			/* integers from its least to its greatest value; 0: unknown */
} HjgColumnFacts;

typedef struct HjgIndexFacts
{
	const IndexOptInfo *index;
	double		scattered;
} HjgIndexFacts;

/* Entries of each kind that are kept; the last one is replaced when all are in use. */
#define HJG_KNOWN_OPERATORS 8
#define HJG_KNOWN_TYPES 16
#define HJG_KNOWN_INDEXES 16
#define HJG_KNOWN_COLUMNS 8

/*
 * A path of core's that may take longer than its price says: the cheapest path of a join, if it is a nested loop over an
 * index or a merge of two indexes.
 */
typedef struct HjgRival
{
	Cost		price;			/* 0: there is none */
	const RelOptInfo *driving;	/* driving side of a loop; NULL: a merge */
	HjgLookups	lookups;
} HjgRival;

/* Work for each row of a query's keys and aggregates. */
typedef struct HjgAggregateWork
{
	int			nkeys;
	List	   *columns;		/* Vars that are read, each once */
	int			nsteps;			/* steps of evaluation, many rows at a time */
	double		tests[HJG_NTESTS];	/* and tests, in the conditions of CASE */
	Cost		by_core;		/* price of expressions that core computes */
	bool		arguments_by_core;	/* arguments are among these */
} HjgAggregateWork;

/* Aggregates of the query, for a GpuAggregate above its last join (planner_aggregate.c). */
typedef struct HjgAggregateFacts
{
	bool		known;
	bool		computable;		/* the node can compute all of them; then */
	HjgAggregateWork work;
	struct HjgPath *joins[2];	/* the cheapest joins to aggregate, complete and partial, in core's lists or not */
} HjgAggregateFacts;

/* Devices for joins, each looked up at its first use. */
typedef struct HjgKnownDevices
{
	bool		process_known;
	bool		process_ready;	/* a device process is ready */
	bool		gpu_known;
	bool		has_gpu;		/* this one: */
	HjgPlannerGpu gpu;
	bool		coupled_known;
	bool		has_coupled;	/* this one: */
	HjgPlannerCoupled coupled;
} HjgKnownDevices;

/* Rows of a relation that a program of the device process can make (planner_program.c). */
typedef struct HjgProgramRows
{
	const RelOptInfo *rel;
	Path	   *path;			/* a sequential scan, or an HjgPath, of one process */
	RelOptInfo *driver;			/* the table whose rows drive the last pipeline */
	Relids		nullable;		/* the side of an outer join that drives it, though it may be NULL; or NULL */
	bool		expected;		/* keys of a table are expected to be unique, not known */
	HjgProgramShape shape;		/* without groups */
} HjgProgramRows;

typedef struct HjgPrograms
{
	bool		known;			/* the query's tables were looked at */
	bool		possible;		/* all of them can be read by programs */
	const char *why;			/* why a relation has no program */
	int			n;
	int			room;
	HjgProgramRows *rows;
} HjgPrograms;

/* Facts that hold while one query is planned (planner_facts.c). One struct, because all of them begin and end with the query. */
typedef struct HjgQueryFacts
{
	const PlannerInfo *root;
	MemoryContextCallback end;	/* called when the memory of this struct is freed */
	const HjgUnitCosts *calibrated;
	HjgUnitCosts *overridden;	/* for the candidate that was priced last, if cost overrides are set; else NULL */
	double		hash_memory;	/* bytes */
	Cost		ceiling;		/* upper bound of the query's price; less than 0: not computed yet; */
	double		ordered_ns;		/* and the time in which core reads the first rows in the order of an index; infinite: it cannot */
	bool		first_rows;		/* the ceiling is that of the first rows, for a LIMIT */
	bool		repeated;		/* the query refers to columns of an outer query, and runs for each of its rows */
	bool		may_be_in_backend;	/* the settings do not fix where the cpu engine runs */
	HjgKnownDevices devices;
	int			nsides;
	HjgSideFacts *sides;		/* sides that are tables, by range table index */
	int			noperators;
	HjgOperatorFacts operators[HJG_KNOWN_OPERATORS];
	int			ntypes;
	HjgTypeFacts types[HJG_KNOWN_TYPES];
	int			nindexes;
	HjgIndexFacts indexes[HJG_KNOWN_INDEXES];
	int			ncolumns;
	HjgColumnFacts columns[HJG_KNOWN_COLUMNS];
	HjgAggregateFacts aggregates;
	struct HjgVerdict *verdicts;	/* on pairs (planner_trace.c) */
	int			nverdicts;
	int			verdicts_room;
	Relids		grouped;		/* relations whose rows are grouped, */
	const char *grouping_declined;	/* and the reason why core groups them, or NULL; */
	HjgPrograms programs;
	Relids		unprogrammed;	/* relations whose rows no program groups, though there is a GPU, */
	const char *program_declined;	/* and the reason, or NULL */
} HjgQueryFacts;

/* Get the facts of the query that root plans; makes them at the first call. */
extern HjgQueryFacts *hjg_planner_facts(PlannerInfo *root);
/* Get the query's facts, or NULL if nothing has asked for them. */
extern HjgQueryFacts *hjg_planner_known_facts(const PlannerInfo *root);
/* Is a device process ready? */
extern bool hjg_planner_device_ready(HjgQueryFacts *facts);
/* Find the GPU for joins, or NULL. */
extern const HjgPlannerGpu *hjg_planner_gpu(HjgQueryFacts *facts);
/* Find the OpenCL device for divided joins, or NULL. */
extern const HjgPlannerCoupled *hjg_planner_coupled(HjgQueryFacts *facts);
/* Check whether the operator's values can be keys; the result is valid until the next call. */
extern const HjgOperatorFacts *hjg_planner_operator(HjgQueryFacts *facts, Oid op, Oid collation);
/*
 * Get the facts of a side, which are the same for all of its paths. Those of a join are kept in *room, which must begin as
 * not known.
 */
extern HjgSideFacts *hjg_planner_side(HjgQueryFacts *facts, const RelOptInfo *rel, HjgSideFacts *room);
/* Count the values that an integer column of a table may have; 0: unknown, or, where unique is wanted, a value may occur twice. */
extern double hjg_planner_range(HjgQueryFacts *facts, const RelOptInfo *rel, AttrNumber attno, bool unique);
/* Measure how scattered the rows of neighbouring values of a column are: from 0, in sequence, to 1, at random; the same for index keys. */
extern double hjg_planner_column_scattering(const PlannerInfo *root, const RelOptInfo *rel, AttrNumber attno);
extern double hjg_planner_scattering(HjgQueryFacts *facts, const IndexOptInfo *index);

/*
 * A pair of relations that the hook was called for. Costly facts are found once for all paths of the pair. One struct,
 * because each step of the hook adds to the facts of the steps before.
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
	bool		consider_startup;	/* the query may want the first rows only */
	bool		accepted;		/* a path was added to core's lists */
	const char *declined;		/* reason for the first path that was not added */
	const char *outrun;			/* name of a rival that is faster than one of the paths; or NULL */
	bool		once;			/* the inner side is unique, and the join is neither a semi nor an anti join */
	bool		once_reversed;	/* the outer side is unique, and the join is an inner join (planner_core.c) */
	const HjgAggregateFacts *aggregates;	/* aggregates for a GpuAggregate, if this is the query's last join; else NULL */
	Cost		spared;			/* cost of core's Agg above the join in that case; else 0 */
	HjgRival	rivals[2];		/* core's cheapest complete and partial path, if it may take longer than its price says */
	const HjgUnitCosts *costs;	/* unit costs in force, */
	double		unit_ns;		/* the time of a cost of 1.0 in comparisons with core's join, */
	Cost		core_ns_cost;	/* the cost of a nanosecond there, */
	Cost		ns_cost;		/* and in even prices (planner_price.c) */
	HjgSideFacts outer;			/* facts of sides that are joins; those of tables are among the query's facts */
	HjgSideFacts inner;

	/* set when the pair is eligible */
	List	   *hashclauses;	/* RestrictInfos, marked with outer_is_left */
	int			nhashed_keys;	/* keys that are not exact */
	int			key_width;		/* bytes of an encoded key */

	/* set when a path is priced */
	bool		quals_known;
	QualCost	hash_cost;		/* of comparing the keys, as core charges it */
	QualCost	qual_cost;		/* of the other quals, and of rechecking keys that are not exact */
} HjgCandidate;

/* Costs that differ by a smaller factor are equal to add_path(), which then keeps the older path. */
#define HJG_CLEARLY_MORE 1.01

/* The reason for most joins and groupings that are left to core. */
#define HJG_CORE_COSTS_LESS "core's plan is expected to cost less"

/* The reason under hjoin_gpu.force, which leaves to a foreign server what it joins or groups itself. */
#define HJG_PUSHED_DOWN "a foreign server does it"

/* Compute the time of a cost of 1.0 in core's scans and filters, not in its joins. */
static inline double
hjg_planner_scan_unit_ns(const HjgUnitCosts *costs)
{
	return costs->scan_tuple_ns / Max(cpu_tuple_cost, 0.001);
}

/* ---------- planner_trace.c ---------- */

/* Verdicts in the order of their strength; the strongest one of a pair is reported. */
typedef enum HjgVerdictKind
{
	HJG_VERDICT_BOUND,			/* no path of the node can cost less than core's plan */
	HJG_VERDICT_PRICE,			/* the priced paths cost more, */
	HJG_VERDICT_RIVAL,			/* or cost less, but take longer */
	HJG_VERDICT_RULE,			/* not eligible */
	HJG_VERDICT_ACCEPTED
} HjgVerdictKind;

/* Note the verdict on a candidate; why is a constant, or NULL if it was accepted. */
extern void hjg_planner_note(const PlannerInfo *root, const HjgCandidate *candidate, HjgVerdictKind kind, const char *why);
/* Note why no GpuAggregate groups the rows of a relation; NULL: one does. */
extern void hjg_planner_note_grouping(PlannerInfo *root, const RelOptInfo *rel, const char *why);
/* Note why no program groups the rows of a relation; NULL: one may. */
extern void hjg_planner_note_program(PlannerInfo *root, const RelOptInfo *rel, const char *why);
/* Report the verdicts on a query whose planning has ended. */
extern void hjg_planner_report(PlannerInfo *root);
/* The outermost join_pathlist hook of the last call that reached the node's hook. */
extern set_join_pathlist_hook_type hjg_planner_reached_through;
/* Count and report a query whose joins, now planned, did not reach the node's hook. */
extern void hjg_planner_check_reached(const PlannerInfo *root);

/* A path of the node, with all that its plan needs. */
typedef struct HjgPath
{
	CustomPath	custom;
	JoinType	jointype;
	bool		inner_unique;
	bool		reversed;		/* in a program: the hash table is built of the outer side (planner_program.c) */
	bool		bloom;			/* with a Bloom filter */
	int			grouping_us;	/* predicted for the outer side's GpuAggregate, whose rows it drops; 0: none */
	HjgDeviceId device;			/* device for its job */
	bool		in_backend;		/* without a job */
	bool		columnar;		/* no condition is evaluated row by row */
	double		build_rows;		/* of all participants */
	double		pairs;			/* of rows whose keys are equal, of one participant */
	double		unit_ns;		/* time of a cost of 1.0 in comparisons with core's join, */
	Cost		even_cost;		/* total cost in the currency of all joins of the node; the path's own cost may be less; */
	Cost		ns_cost;		/* cost of a nanosecond in that currency */
	double		emit_ns;		/* predicted for the price; what EXPLAIN shows includes that processes lose to one another: */
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
	const HjgUnitCosts *costs;	/* the candidate's; or with dearer temporary files, if several processes write them */
	HjgJoinShape shape;
	HjgPrediction prediction;
	Cost		saved;			/* of the outer child's price, by the join's Bloom filter */
} HjgOffer;

/* ---------- planner_units.c ---------- */

/* Set the parts of the query's facts that unit costs start from. */
extern void hjg_planner_begin_pricing(HjgQueryFacts *facts);
/* Set the candidate's unit costs and which of its sides are unique; must be called before the functions below. */
extern void hjg_planner_set_units(PlannerInfo *root, HjgCandidate *candidate);
/* Compute the number of processes that core expects to share the work of a partial path; the leader counts less than a worker. */
extern double hjg_planner_participants(const Path *path);
/* Compute the number of processes of a path that are at work at once: at most that of the processors. */
extern double hjg_planner_processes(const Path *path);
/*
 * Compute how much longer these processes take than core's expectation of equal shares, because there are fewer processors, or shorter,
 * because the leader takes a whole share; no price includes it.
 */
extern double hjg_planner_process_share(const Path *path);
/* Predict the time of building, probing and returning rows by these processes, which crowd one another; ns: by a process alone. */
extern double hjg_planner_table_work_ns(const Path *path, const HjgUnitCosts *costs, double ns);
/* Does the path run in new processes, which map pages as core reads them, in the server's own mapping of shared buffers? */
extern bool hjg_planner_maps_memory(const Path *path);

/* ---------- planner_bound.c ---------- */

/*
 * Is a path of the node of this price, in the currency of core's joins, clearly cheaper than core's paths in its list, or,
 * with aggregates in the node, than those with core's Agg above them? False for a lower bound of the price implies false for
 * the price.
 */
extern bool hjg_planner_wins(const HjgCandidate *candidate, Cost startup, Cost total, bool partial);
/* Return the cheapest path in core's complete or partial list if it is one of the node's; else NULL. */
extern const struct HjgPath *hjg_planner_best(const HjgCandidate *candidate, bool partial);

/*
 * Return the reason why no path of the node can compete with core's paths, or with a plan of the whole query that core will
 * consider; NULL if one may. Does not examine the join's clauses.
 */
extern const char *hjg_planner_bound(PlannerInfo *root, HjgCandidate *candidate);

/* ---------- planner_eligible.c ---------- */

/* Return the rule by which the node cannot run this join; NULL: it can, and the candidate's clauses are set. */
extern const char *hjg_planner_check_rules(PlannerInfo *root, HjgCandidate *candidate);

/* ---------- planner_offer.c ---------- */

/* Offer core the paths that win; returns the reason if there is none, else NULL. */
extern const char *hjg_planner_offer(PlannerInfo *root, HjgCandidate *candidate);

/* ---------- planner_force.c ---------- */

/* Drop core's paths, under hjoin_gpu.force, if another pair of the same relations has offered paths of the node. */
extern void hjg_planner_keep_offers(RelOptInfo *joinrel);
/* Drop core's paths without parameters, but those of a foreign server. */
extern void hjg_planner_drop_core_paths(RelOptInfo *rel);
/* Does a foreign server offer to join or group the rows itself? */
extern bool hjg_planner_is_pushed_down(const RelOptInfo *rel);

/* ---------- planner_shape.c ---------- */

/* Describe a join of two paths to the model, except for where it runs. */
extern void hjg_planner_describe(PlannerInfo *root, HjgCandidate *candidate, const Path *path, const Path *outer_path,
								 const Path *inner_path, HjgJoinShape *shape);

/* ---------- planner_reading.c ---------- */

/* Price the pages of a table as core prices those of a sequential scan. */
extern Cost hjg_planner_pages_price(const RelOptInfo *rel);
/*
 * Predict the time of reading so many rows, if the path is a scan of a table that the node reads itself; else no time.
 * keys_fixed: a filter of a join above is tested on columns at fixed places.
 */
extern HjgScanTimes hjg_planner_scan_times(const HjgUnitCosts *costs, const HjgSideFacts *side, const Path *path, double rows, bool keys_fixed);
/*
 * Compute the part of the price of core's scan for so many of the rows that is not spent when the node reads the table. Rows
 * and conditions keep the share of their price that the node's time is of core's time; pages keep theirs, which includes
 * that they come from memory, unless their columns are kept.
 */
extern Cost hjg_planner_scan_credit(const RelOptInfo *rel, const HjgScanTimes *scan, double rows);
/*
 * Choose the path by which the node reads a side: core's cheapest one; or, instead of an index scan of a table, or of rows
 * that other processes send, a sequential scan, if the node reads the table in less time and its price is not much higher.
 * For 500K rows joined by a timestamp this takes 0.55 of the time of a full index-only scan.
 */
extern Path *hjg_planner_choose_scan(PlannerInfo *root, HjgQueryFacts *facts, const HjgUnitCosts *costs, RelOptInfo *rel, Path *cheapest);

/* ---------- planner_scan.c ---------- */

/* Describe to the model how the node reads a table; all of the scan's results must be plain columns. */
extern void hjg_planner_describe_scan(PlannerInfo *root, const RelOptInfo *rel, Relation relation, HjgTableScan *scan);
/* Add the tests of a condition, each of which is made for all rows, by kind. */
extern void hjg_planner_count_tests(const HjgFilter *filter, double *tests);

/* ---------- planner_price.c ---------- */

/*
 * Set the costs of a path whose rows are set, and the choices that are cheapest by the model. Returns the reason if core's
 * lists would not take the path, else NULL.
 */
extern const char *hjg_planner_price(PlannerInfo *root, HjgCandidate *candidate, HjgPath *own, const Path *outer_path,
									 const Path *inner_path);

/* ---------- planner_time.c ---------- */

/* Predict a plan's time: by what EXPLAIN shows where it is the node's, else by its price, as that of scans. */
extern double hjg_planner_plan_ns(const Path *path, const HjgUnitCosts *costs);

/* ---------- planner_travel.c ---------- */

/* Does a join of this type return no probe row without a partner, so that a Bloom filter may drop it? */
extern bool hjg_planner_drops_probe_rows(JoinType jointype);
/* Price the grouping alone in a path of a subquery that groups its rows; else 0. */
extern Cost hjg_planner_grouping_price(const Path *path);
/* Price what the join's Bloom filter saves of that, where such a share of the outer rows has a partner. */
extern Cost hjg_planner_travel_saves(const HjgCandidate *candidate, const Path *outer, double partnered);
/* Predict, in microseconds, the time of a GpuAggregate on that side whose rows the filter drops before; 0: there is none. */
extern int	hjg_planner_travel_us(const HjgJoinShape *join, const Path *outer);

/* ---------- planner_core.c ---------- */

/* Set which sides of the join are unique; must be called before the functions below. */
extern void hjg_planner_find_unique(PlannerInfo *root, HjgCandidate *candidate);
/* Count the pairs for which core charges residual quals. */
extern double hjg_planner_charged_pairs(const HjgCandidate *candidate, double outer_rows, double pairs);
/* Price core's hash join in memory, without its inputs, about as core does. */
extern Cost hjg_planner_hash_join_price(const HjgCandidate *candidate, double outer_rows, double inner_rows, double pairs,
										int nkeys);
/*
 * Compute how much longer a cost of 1.0 takes in core's cheapest hash join of these sides than in one that is charged for
 * each pair: 1 or more.
 */
extern double hjg_planner_underpriced(const HjgCandidate *candidate);

/* ---------- planner_keys.c ---------- */

extern void hjg_planner_init_keys(void);

/* ---------- planner_rivals.c ---------- */

/*
 * Return a reason if core has a loop over an index, or a merge, that is faster than the predicted join and cheaper than
 * core's hash join; else NULL.
 */
extern const char *hjg_planner_faster_rival(const HjgCandidate *candidate, const HjgOffer *offer);
/*
 * Set the candidate's rivals: core's cheapest paths, if they merge two tables by indexes, or look up many rows of a table in
 * memory.
 */
extern void hjg_planner_find_rivals(PlannerInfo *root, HjgCandidate *candidate);
/* Is there a rival with as many processes that is surely slower than the predicted join, whatever its price? */
extern bool hjg_planner_is_overpriced(const HjgCandidate *candidate, const HjgOffer *offer);

/* ---------- planner_aggregate.c ---------- */

/* Install the hook for upper relations. */
extern void hjg_planner_init_aggregates(void);

/*
 * Set the cost of core's Agg, if a GpuAggregate may compute the query's aggregates; must be called before the candidate is
 * compared.
 */
extern void hjg_planner_expect_aggregates(PlannerInfo *root, HjgCandidate *candidate);
/* Decide whether a GpuAggregate can compute them, for a join that the bound has not ruled out. */
extern void hjg_planner_find_aggregates(PlannerInfo *root, HjgCandidate *candidate);
/* Compute the time that aggregating saves of returning the rows of a path; less than 0 if it takes more. */
extern double hjg_planner_aggregation_saves_ns(const HjgCandidate *candidate, const HjgPath *path, double emit_ns);
/* Keep a copy of the path if it is the cheapest one to aggregate; core's lists do not know that price. */
extern void hjg_planner_keep_for_aggregates(const HjgCandidate *candidate, const HjgPath *path, bool partial);

/* The methods of its paths, by which these are recognised. */
extern const CustomPathMethods hjg_planner_grouping_methods;

/* Is this a path of a GpuAggregate? */
static inline bool
hjg_planner_is_grouping(const Path *path)
{
	return IsA(path, CustomPath) && ((const CustomPath *) path)->methods == &hjg_planner_grouping_methods;
}
/* A join's filter that the scan below a grouping tests. */
typedef struct HjgTravelingFilter
{
	double		build_rows;		/* rows whose keys are in the filter */
	int			nkeys;
	double		partnered;		/* fraction of the rows with a partner */
} HjgTravelingFilter;

/* Predict the time, in microseconds, that EXPLAIN shows for such a path below this filter, or NULL. */
extern int	hjg_planner_grouping_us(const Path *path, const HjgTravelingFilter *filter);
/* Does the time of such a path include that of its input, as the node reads a table itself, or a program does? */
extern bool hjg_planner_groups_alone(const Path *path);
/* Price the time of such a path, without its input, as a join's time is priced. */
extern Cost hjg_planner_grouping_join_price(const Path *path);

/* ---------- planner_plan.c ---------- */

/* The methods of the node's paths, which identify them. */
extern const CustomPathMethods hjg_planner_path_methods;
/* Is this a path of the node? */
extern bool hjg_planner_is_ours(const Path *path);

/*
 * Order quals: cheap ones first, but never across security levels, except that cheap leakproof ones may run at any time. This
 * is the order of core's own scans and joins, whose function is not exported (planner_plan.c).
 */
extern List *hjg_planner_order_quals(PlannerInfo *root, List *rinfos);

/* Append the columns of a child plan to the scan tuple. */
extern List *hjg_planner_append_columns(List *scan_tlist, Plan *child);

/*
 * Give the columns in all lists of the node, which joins rel, the nulling relations of the scan tuple's columns
 * (planner_nulling.c; from PostgreSQL 16 on).
 */
extern void hjg_planner_adopt_nulling(CustomScan *cscan, const RelOptInfo *rel);

/* ---------- planner_jit.c ---------- */

/* List a plan's children. */
extern List *hjg_planner_children_of(const Plan *plan);
/* List those whose prices are part of the plan's: not the one that returns a program's groups where that cannot be run. */
extern List *hjg_planner_priced_children(const Plan *plan);
/* Is a plan a node of ours? */
extern bool hjg_planner_is_our_plan(const Plan *plan);
/* Have expressions compiled only as far as core would for what its own nodes of the plan cost. */
extern void hjg_planner_limit_jit(PlannedStmt *plan);

#endif							/* HJG_PLANNER_PATH_H */
