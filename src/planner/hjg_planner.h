/*
 * hjg_planner.h
 *	  The contract between planner and node, and the planner's entry point.
 *
 * Room "planner": join_pathlist hook, eligibility, path, plan. The node reads a plan only through the named, counted lists of
 * this header.
 *
 * CustomScan fields:
 *	scanrelid			0
 *	custom_plans		outer (probe) plan, inner (build) plan
 *	custom_scan_tlist	all of the outer plan's targetlist, then all of the inner
 *						plan's: scan tuple column s (from 0) is column s of the outer
 *						plan, or column s - nouter of the inner plan
 *	targetlist			over custom_scan_tlist
 *	qual				filters after null extension (pushed-down quals), over custom_scan_tlist
 *	custom_exprs		HjgPlanExprs, lists of expressions over custom_scan_tlist
 *	custom_private		HjgPlanPrivate
 * Each child of a parallel_aware node returns a participant's share of its rows, and all participants share one build side.
 * After setrefs every expression refers to scan tuple columns as INDEX_VAR.
 */
#ifndef HJG_PLANNER_H
#define HJG_PLANNER_H

#include "postgres.h"

#include "nodes/extensible.h"
#include "nodes/plannodes.h"

#include "model/hjg_model.h"
#include "vector/hjg_vector.h"

/* EXPLAIN shows this name; the methods are registered under it. */
#define HJG_NODE_NAME "GpuHashJoin"

/* custom_exprs: a list of these lists */
typedef enum HjgPlanExprs
{
	HJG_EXPRS_OUTER_KEYS,		/* hash key i of a probe row */
	HJG_EXPRS_INNER_KEYS,		/* hash key i of a build row */
	HJG_EXPRS_HASH_CLAUSES,		/* "outer key i op inner key i" */
	HJG_EXPRS_JOIN_QUAL,		/* residual join quals, before null extension */
	HJG_EXPRS_Count
} HjgPlanExprs;

/* custom_private: a list of these lists */
typedef enum HjgPlanPrivate
{
	HJG_PRIVATE_SCALARS,		/* integers, HjgPlanScalars; first, because it is never NIL: Citus reads the tag of the first element */
	HJG_PRIVATE_OPERATORS,		/* OIDs: equality operator of key i, outer type on the left */
	HJG_PRIVATE_COLLATIONS,		/* OIDs: its input collation */
	HJG_PRIVATE_PREDICTION,		/* integers, HjgPlanPrediction: the model's times in microseconds */
	HJG_PRIVATE_INLINE_BYTES,	/* integers: HjgColumn's inline_bytes for column i of the join */
	HJG_PRIVATE_Count
} HjgPlanPrivate;

typedef enum HjgPlanScalars
{
	HJG_SCALAR_JOINTYPE,		/* JoinType */
	HJG_SCALAR_INNER_UNIQUE,	/* 1: a probe row has at most one match */
	HJG_SCALAR_NOUTER,			/* columns of the outer plan */
	HJG_SCALAR_NINNER,			/* columns of the inner plan */
	HJG_SCALAR_BLOOM,			/* 1: drop probe rows by a Bloom filter of the build keys */
	HJG_SCALAR_DEVICE_KIND,		/* HjgDeviceKind that is expected to be fastest, or was asked for, */
	HJG_SCALAR_DEVICE_NUMBER,	/* and its number, or HJG_NO_NUMBER */
	HJG_SCALAR_IN_BACKEND,		/* 1: the backends are expected to be faster than a job */
	HJG_SCALAR_BUILD_ROWS,		/* of all participants; the node and its children may have different numbers of them */
	HJG_SCALAR_REVERSED,		/* 1: in a program, the hash table is built of the outer side */
	HJG_SCALAR_PAIRS,			/* expected pairs of rows whose keys are equal, of one participant; not for the executor */
	HJG_SCALAR_Count
} HjgPlanScalars;

/* Predictions that EXPLAIN ANALYZE shows beside the measured phases. */
typedef enum HjgPlanPrediction
{
	HJG_PREDICTION_MARSHAL_BUILD,
	HJG_PREDICTION_MARSHAL_PROBE,
	HJG_PREDICTION_BUILD,
	HJG_PREDICTION_PROBE,
	HJG_PREDICTION_EMIT,
	HJG_PREDICTION_SCAN_BUILD,	/* part of marshalling: scans of tables that the node reads itself */
	HJG_PREDICTION_SCAN_PROBE,
	HJG_PREDICTION_GPU_TRANSFER,	/* on a GPU, else 0 */
	HJG_PREDICTION_GPU_BUILD,
	HJG_PREDICTION_GPU_PROBE,
	HJG_PREDICTION_Count
} HjgPlanPrediction;

/* ---------- the node GpuAggregate ---------- */

/*
 * Fields of its CustomScan:
 *	custom_plans		the plan whose rows are aggregated; if a program is to be made of it, also a plan of the same groups, for the
 *						case that it cannot be run
 *	custom_scan_tlist	all of the first one's targetlist, then the aggregates, finished or in partial form
 *	targetlist, qual	over custom_scan_tlist: GROUP BY's keys and what they determine, over the plan's columns; and the aggregates
 *	custom_exprs		HjgAggregateExprs, lists of expressions over the plan's columns
 *	custom_private		HjgAggregatePrivate
 */
#define HJG_AGGREGATE_NAME "GpuAggregate"

typedef enum HjgAggregateExprs
{
	HJG_AGGREGATE_EXPRS_KEYS,	/* of GROUP BY */
	HJG_AGGREGATE_EXPRS_ARGUMENTS,	/* arguments of aggregates, each once */
	HJG_AGGREGATE_EXPRS_ORDER,	/* the key or aggregate by which only the first groups are wanted; or none */
	HJG_AGGREGATE_EXPRS_Count
} HjgAggregateExprs;

typedef enum HjgAggregatePrivate
{
	HJG_AGGREGATE_PRIVATE_SCALARS,	/* integers, HjgAggregateScalars; first, as above */
	HJG_AGGREGATE_PRIVATE_OPERATORS,	/* OIDs: equality operator of key i */
	HJG_AGGREGATE_PRIVATE_KEYS_BY_CORE, /* integers: 1: core's expression code computes key i, unless it is a column */
	HJG_AGGREGATE_PRIVATE_FUNCTIONS,	/* OIDs: function of aggregate i */
	HJG_AGGREGATE_PRIVATE_NUMBERS,	/* integers: place of aggregate i's argument, or -1: it counts rows */
	HJG_AGGREGATE_PRIVATE_SQUARES,	/* integers: place of the squares of aggregate i's argument, or -1: it needs none */
	HJG_AGGREGATE_PRIVATE_BY_CORE,	/* integers: 1: core's expression code computes argument i */
	HJG_AGGREGATE_PRIVATE_FIRST,	/* integers, HjgAggregateFirst, if there is such an order */
	HJG_AGGREGATE_PRIVATE_Count
} HjgAggregatePrivate;

/* The groups that are wanted: these, and all that are equal to the last of them by the order; more may come. */
typedef enum HjgAggregateFirst
{
	HJG_AGGREGATE_FIRST_GROUPS,	/* how many */
	HJG_AGGREGATE_FIRST_DESCENDING,
	HJG_AGGREGATE_FIRST_NULLS_FIRST
} HjgAggregateFirst;

/* Most of a table, as a part of it, that may have to be read from pages for a program; beyond that the node's own scan is the better one. */
#define HJG_PROGRAM_MOST_LIVE 0.25

typedef enum HjgAggregateScalars
{
	HJG_AGGREGATE_SCALAR_PARTIAL,	/* 1: aggregates are in partial form, and a group may be returned more than once */
	HJG_AGGREGATE_SCALAR_PREDICTION,	/* the model's time in microseconds */
	HJG_AGGREGATE_SCALAR_GROUPS,	/* number of expected groups in all */
	HJG_AGGREGATE_SCALAR_DEVICE_KIND,	/* HjgDeviceKind that is to run the plan below as a program (hjg_program.h), or ANY: none, */
	HJG_AGGREGATE_SCALAR_DEVICE_NUMBER,	/* its number, or HJG_NO_NUMBER: all of the kind divide it, */
	HJG_AGGREGATE_SCALAR_PROGRAM_GROUPS,	/* the groups that it is expected to make, */
	HJG_AGGREGATE_SCALAR_PROGRAM_NUMBER,	/* and its number (hjg_kept_note_refused()) */
	HJG_AGGREGATE_SCALAR_Count
} HjgAggregateScalars;

extern const CustomScanMethods hjg_aggregate_methods;	/* defined by the node */

/* ---------- aggregates that the node computes (planner_vocabulary.c) ---------- */

/* The kind of an aggregate; each comment gives the form of the partial result, core's transition value. */
typedef enum HjgAggregateKind
{
	HJG_AGGREGATE_COUNT,		/* int8, of rows or of values */
	HJG_AGGREGATE_SUM,			/* int8, NULL without a value */
	HJG_AGGREGATE_AVERAGE,		/* int8[]: number and sum of the values */
	HJG_AGGREGATE_WIDE_SUM,		/* bytea: number and sum, as int8_avg_serialize() writes them; NULL without a value */
	HJG_AGGREGATE_NUMERIC_SUM,	/* bytea: the same of numerics, as numeric_avg_serialize() writes them */
	HJG_AGGREGATE_LEAST,		/* a value of the argument's type, NULL without one */
	HJG_AGGREGATE_GREATEST,
	HJG_AGGREGATE_NUMERIC_LEAST,	/* a numeric, NULL without one */
	HJG_AGGREGATE_NUMERIC_GREATEST,
	HJG_AGGREGATE_SUM_OF_COUNTS,	/* int8, 0 without a count */
	HJG_AGGREGATE_VARIANCE,		/* of int2 and int4: bytea: number, sum and sum of squares, as numeric_poly_serialize() writes them; NULL without a value */
	HJG_AGGREGATE_WIDE_VARIANCE,	/* of int8: the same as numeric_serialize() writes them */
	HJG_AGGREGATE_NUMERIC_VARIANCE,
	HJG_AGGREGATE_FLOAT_SUM,	/* a float of the argument's type, NULL without a value */
	HJG_AGGREGATE_FLOAT_MOMENTS,	/* float8[]: number, sum, and sum of squared distances from the mean, as float8_accum() makes them */
	HJG_AGGREGATE_FLOAT_LEAST,	/* as SUM */
	HJG_AGGREGATE_FLOAT_GREATEST
} HjgAggregateKind;

/*
 * A strict function of numbers. width: bytes of an integer, or HJG_NUMERIC_WIDTH or HJG_FLOAT_WIDTH; a result that does not fit
 * raises an error.
 */
typedef struct HjgArithmetic
{
	Oid			function;
	HjgArithmeticKind kind;
	int			width;
} HjgArithmetic;

/* The variances of a type, as X(function, form, argument); core's functions that finish them are named after the form. */
#define HJG_VARIANCES(X, type, argument) \
	X(F_VAR_POP_##type, var_pop, argument) \
	X(F_VAR_SAMP_##type, var_samp, argument) \
	X(F_VARIANCE_##type, var_samp, argument) \
	X(F_STDDEV_POP_##type, stddev_pop, argument) \
	X(F_STDDEV_SAMP_##type, stddev_samp, argument) \
	X(F_STDDEV_##type, stddev_samp, argument)

/* Does the node know the aggregate function? Sets its kind. */
extern bool hjg_aggregate_kind(Oid function, HjgAggregateKind *kind);
/* Is it made of a sum and a sum of squares? */
static inline bool
hjg_aggregate_needs_squares(HjgAggregateKind kind)
{
	return kind >= HJG_AGGREGATE_VARIANCE && kind <= HJG_AGGREGATE_NUMERIC_VARIANCE;
}

/* Make the expression of an argument's squares, if such an aggregate needs them; else NULL. */
extern Expr *hjg_aggregate_square(Oid function, const Expr *argument);
/* Does the last digit of the result depend on the order of the rows? */
extern bool hjg_aggregate_is_ordered(HjgAggregateKind kind);
/* Find the function that computes an aggregate of rows from its results for parts of them; InvalidOid: there is none. */
extern Oid	hjg_aggregate_of_results(Oid function);
/* Find the arithmetic of a function; NULL: unknown. */
extern const HjgArithmetic *hjg_arithmetic(Oid function);
/*
 * Is the expression a field of a date: extract(), also cast to an integer, or date_part()? Sets the field and the date, or the
 * timestamp of which that is. The type may be numeric, float8 or an integer type; of a finite date all are the same whole number.
 */
extern bool hjg_date_field(Expr *expr, HjgDateField *field, Expr **date);
/* Is the expression date_trunc() to a day or more? Sets the field that is 1 on the first day of the unit, and the date or timestamp. */
extern bool hjg_date_trunc(Expr *expr, HjgDateField *field, Expr **date);

/* ---------- planner_rounding.c ---------- */

/* A column of timestamps that is only read by functions of local time that are constant in a unit. */
typedef struct HjgRounding
{
	Var		   *column;
	int64		unit;			/* seconds: a day, an hour or a minute; */
	List	   *zones;			/* local in these zones (pg_tz); NIL: of timestamps without time zone */
} HjgRounding;

/* Most roundings of a column's values whose keys are computed before they are needed. */
#define HJG_MOST_CLASSES 10000

/* Is an expression a field of such a column, by extract() or date_part()? */
extern bool hjg_planner_is_time_field(Node *expr);
/* Is an expression such a function of a column, or a cast of one, and nothing else? */
extern bool hjg_planner_is_time_key(Node *expr);
/* Find such columns of expressions, outside of aggregates. */
extern List *hjg_planner_find_roundings(List *exprs);
/*
 * Find what timestamps between two of them may be rounded down to: they are `shift` less than a multiple, both in microseconds. Returns false
 * if there is none, as of infinite ones.
 */
extern bool hjg_planner_rounding_step(const HjgRounding *rounding, int64 least, int64 greatest, int64 *multiple, int64 *shift);
/* Estimate the number of values of such a key, or of the field of a date; infinite: it is something else, or nothing is known of the column. */
extern double hjg_planner_time_values(PlannerInfo *root, Node *key);
/* Estimate the number of a column's rounded values, of so many. */
extern double hjg_planner_rounded_values(PlannerInfo *root, const HjgRounding *rounding, double values);

/* ---------- planner_groups.c ---------- */

/* Estimate the number of groups of rows: as core, which takes any expression for as many values as its columns have, but for those of few values. */
extern double hjg_planner_estimate_groups(PlannerInfo *root, List *keys, double rows);

extern const CustomScanMethods hjg_scan_methods;	/* defined by the node */

/*
 * Find the unit costs in force: defaults, then calibration, then cost overrides. Returns the time of a cost of 1.0 for a join
 * of build_rows.
 */
extern double hjg_planner_unit_costs(HjgUnitCosts *costs, double build_rows);
/* Count the processors that this process may use. */
extern int	hjg_planner_processors(void);
/* Count the threads that the device process uses for a job of this session. */
extern int	hjg_planner_threads(void);

/* A GPU for joins. */
typedef struct HjgPlannerGpu
{
	int			number;			/* N of cuda:N */
	int			ngpus;			/* ready ones that may be used, this one among them */
	HjgCudaUnitCosts costs;
	bool		measured;		/* the costs are this GPU's; else the planner uses the machine's */
	double		l2_bytes;
	bool		cold;			/* its first join must start it */
	bool		asked_for;		/* by hjoin_gpu.device; else used only where it is expected to be faster */
} HjgPlannerGpu;

/* An OpenCL device that was measured, for joins divided between it and the CPU. */
typedef struct HjgPlannerCoupled
{
	HjgEngineCosts costs;
	HjgEngineCosts cpu_engine;	/* measured in the same way */
	int			number;			/* N of opencl:N */
	uint32		widths;			/* HJG_WIDTH_BIT()s of keys whose joins need no measurement first */
	bool		asked_for;		/* by hjoin_gpu.device; else used only where it is expected to be faster */
} HjgPlannerCoupled;

/* Questions of the planner to the room "service", which it may not include. */
typedef struct HjgPlannerSources
{
	bool		(*trusted) (void);	/* has no join differed from core's? */
	void		(*hook_taken) (void);	/* count a query whose joins another library kept from the planner's hook */
	bool		(*device_ready) (void); /* is a device process ready? */
	const HjgUnitCosts *(*calibration) (void);	/* the machine's, plausible, until the next call; NULL: not calibrated */
	bool		(*gpu) (HjgPlannerGpu *gpu);	/* false: there is none, or the settings do not allow it */
	bool		(*coupled) (HjgPlannerCoupled *coupled);	/* false: the same, or it was not measured */
} HjgPlannerSources;

/* Install the hooks and register the node. Called once, when all preloaded libraries have been loaded; sources must last. */
extern void hjg_planner_init(const HjgPlannerSources *sources);

#endif							/* HJG_PLANNER_H */
