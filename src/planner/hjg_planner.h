/*
 * hjg_planner.h
 *	  The contract between planner and executor, and the planner's entry point.
 *
 * Room "planner": join_pathlist hook, eligibility, path, plan.  This header is
 * the one contract between planner and executor; both sides go through the
 * named, counted lists below and nothing else.
 *
 * CustomScan fields:
 *	scanrelid			0
 *	custom_plans		outer (probe) plan, inner (build) plan
 *	custom_scan_tlist	all of the outer plan's targetlist, then all of the inner
 *						plan's: scan tuple column s (from 0) is column s of the outer
 *						plan, or column s - nouter of the inner plan
 *	targetlist			over custom_scan_tlist
 *	qual				filters after null extension (pushed-down quals), likewise
 *	custom_exprs		HjgPlanExprs, lists of expressions over custom_scan_tlist
 *	custom_private		HjgPlanPrivate
 * A parallel_aware node has children that each return a participant's share of the rows, and all
 * participants join with one build side.
 * After setrefs every expression refers to scan tuple columns as INDEX_VAR.
 */
#ifndef HJG_PLANNER_H
#define HJG_PLANNER_H

#include "postgres.h"

#include "nodes/extensible.h"
#include "nodes/plannodes.h"

#include "model/hjg_model.h"
#include "vector/hjg_vector.h"

/* EXPLAIN shows it; also the key under which the methods are registered. */
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
	HJG_PRIVATE_SCALARS,		/* integers, HjgPlanScalars */
	HJG_PRIVATE_OPERATORS,		/* OIDs: equality operator of key i, outer type on the left */
	HJG_PRIVATE_COLLATIONS,		/* OIDs: its input collation */
	HJG_PRIVATE_PREDICTION,		/* integers, HjgPlanPrediction: the model's times in microseconds */
	HJG_PRIVATE_INLINE_BYTES,	/* integers: of column i of the join, HjgColumn's inline_bytes */
	HJG_PRIVATE_Count
} HjgPlanPrivate;

typedef enum HjgPlanScalars
{
	HJG_SCALAR_JOINTYPE,		/* JoinType */
	HJG_SCALAR_INNER_UNIQUE,	/* 1: a probe row has at most one match */
	HJG_SCALAR_NOUTER,			/* columns of the outer plan */
	HJG_SCALAR_NINNER,			/* columns of the inner plan */
	HJG_SCALAR_BLOOM,			/* 1: drop probe rows by a Bloom filter of the build keys */
	HJG_SCALAR_DEVICE_KIND,		/* HjgDeviceKind that is expected to be the fastest, or was asked for, */
	HJG_SCALAR_DEVICE_NUMBER,	/* and which of them, or HJG_NO_NUMBER */
	HJG_SCALAR_IN_BACKEND,		/* 1: the backends are expected to be faster than a job */
	HJG_SCALAR_BUILD_ROWS,		/* of all participants: their numbers differ between the node and its children */
	HJG_SCALAR_Count
} HjgPlanScalars;

/* Predictions that EXPLAIN ANALYZE shows beside the measured phases; of scans, those that the node reads itself. */
typedef enum HjgPlanPrediction
{
	HJG_PREDICTION_MARSHAL_BUILD,
	HJG_PREDICTION_MARSHAL_PROBE,
	HJG_PREDICTION_BUILD,
	HJG_PREDICTION_PROBE,
	HJG_PREDICTION_EMIT,
	HJG_PREDICTION_SCAN_BUILD,	/* of marshalling: tables that the node reads itself */
	HJG_PREDICTION_SCAN_PROBE,
	HJG_PREDICTION_GPU_TRANSFER,	/* on a GPU, else 0 */
	HJG_PREDICTION_GPU_BUILD,
	HJG_PREDICTION_GPU_PROBE,
	HJG_PREDICTION_Count
} HjgPlanPrediction;

/* ---------- the node GpuAggregate ---------- */

/*
 * Its CustomScan fields:
 *	custom_plans		the plan whose rows are aggregated
 *	custom_scan_tlist	all of its targetlist, then the aggregates, finished or in partial form
 *	targetlist, qual	over custom_scan_tlist: GROUP BY's keys, and what else they determine, over the plan's columns; and the aggregates
 *	custom_exprs		HjgAggregateExprs, lists of expressions over the plan's columns
 *	custom_private		HjgAggregatePrivate
 */
#define HJG_AGGREGATE_NAME "GpuAggregate"

typedef enum HjgAggregateExprs
{
	HJG_AGGREGATE_EXPRS_KEYS,	/* of GROUP BY */
	HJG_AGGREGATE_EXPRS_ARGUMENTS,	/* what aggregates are computed of, each once */
	HJG_AGGREGATE_EXPRS_Count
} HjgAggregateExprs;

typedef enum HjgAggregatePrivate
{
	HJG_AGGREGATE_PRIVATE_SCALARS,	/* integers, HjgAggregateScalars; the first element is never NIL, as Citus and others look at its tag */
	HJG_AGGREGATE_PRIVATE_OPERATORS,	/* OIDs: equality operator of key i */
	HJG_AGGREGATE_PRIVATE_FUNCTIONS,	/* OIDs: function of aggregate i */
	HJG_AGGREGATE_PRIVATE_NUMBERS,	/* integers: number of its argument, or -1: it counts rows */
	HJG_AGGREGATE_PRIVATE_BY_CORE,	/* integers: 1: argument i is computed by core's expression code */
	HJG_AGGREGATE_PRIVATE_Count
} HjgAggregatePrivate;

typedef enum HjgAggregateScalars
{
	HJG_AGGREGATE_SCALAR_PARTIAL,	/* 1: aggregates are in partial form, and a group may come out more than once */
	HJG_AGGREGATE_SCALAR_PREDICTION,	/* the model's time in microseconds */
	HJG_AGGREGATE_SCALAR_GROUPS,	/* that are expected in all */
	HJG_AGGREGATE_SCALAR_Count
} HjgAggregateScalars;

extern const CustomScanMethods hjg_aggregate_methods;	/* defined by the executor */

/* ---------- aggregates that it computes (planner_vocabulary.c) ---------- */

/* The form of its partial result, core's transition value. */
typedef enum HjgAggregateKind
{
	HJG_AGGREGATE_COUNT,		/* int8, of rows or of values */
	HJG_AGGREGATE_SUM,			/* int8, NULL without a value */
	HJG_AGGREGATE_AVERAGE,		/* int8[]: number and sum of the values */
	HJG_AGGREGATE_WIDE_SUM,		/* bytea: the same, as int8_avg_serialize() writes them; NULL without a value */
	HJG_AGGREGATE_NUMERIC_SUM,	/* bytea: likewise of numerics, as numeric_avg_serialize() writes them */
	HJG_AGGREGATE_LEAST,		/* a value of the argument's type, NULL without one */
	HJG_AGGREGATE_GREATEST,
	HJG_AGGREGATE_NUMERIC_LEAST,	/* likewise, a numeric */
	HJG_AGGREGATE_NUMERIC_GREATEST
} HjgAggregateKind;

/* A strict function of integers or numerics: what it does, and the bytes of its result, which it raises an error beyond, or HJG_NUMERIC_WIDTH. */
typedef struct HjgArithmetic
{
	Oid			function;
	HjgArithmeticKind kind;
	int			width;
} HjgArithmetic;

/* Is the aggregate function one that the node knows, and of which kind? */
extern bool hjg_aggregate_kind(Oid function, HjgAggregateKind *kind);
/* Find the arithmetic behind a function, or NULL. */
extern const HjgArithmetic *hjg_arithmetic(Oid function);

extern const CustomScanMethods hjg_scan_methods;	/* defined by the executor */

/*
 * Find the unit costs in force: defaults, calibration, cost overrides, in this order.
 * Returns the time of a cost of 1.0 for a join of build_rows.
 */
extern double hjg_planner_unit_costs(HjgUnitCosts *costs, double build_rows);

/* A GPU that joins may run on. */
typedef struct HjgPlannerGpu
{
	HjgCudaUnitCosts costs;
	bool		measured;		/* the costs are this GPU's; else whoever plans takes the machine's */
	double		l2_bytes;
	bool		cold;			/* its first join has to start it */
	bool		asked_for;		/* by hjoin_gpu.device; else only where it is expected to be faster */
} HjgPlannerGpu;

/* An OpenCL device that joins may be divided with, of those that were measured. */
typedef struct HjgPlannerCoupled
{
	HjgEngineCosts costs;
	HjgEngineCosts cpu_engine;	/* by the same measure */
	int			number;			/* N of opencl:N */
	uint32		widths;			/* HJG_WIDTH_BIT()s of keys whose joins wait for nothing */
	bool		asked_for;		/* by hjoin_gpu.device; else only where it is expected to be faster */
} HjgPlannerCoupled;

/* Questions of the planner to the service, which it may not know. */
typedef struct HjgPlannerSources
{
	bool		(*trusted) (void);	/* has no join differed from core's? */
	bool		(*device_ready) (void); /* does a device process stand ready? */
	const HjgUnitCosts *(*calibration) (void);	/* the machine's, plausible, until asked again; NULL: nobody has calibrated */
	bool		(*gpu) (HjgPlannerGpu *gpu);	/* false: there is none, or the settings do not allow it */
	bool		(*coupled) (HjgPlannerCoupled *coupled);	/* likewise; and where it was not measured */
} HjgPlannerSources;

/* Install the hooks and register the node.  Called once by _PG_init; sources stay. */
extern void hjg_planner_init(const HjgPlannerSources *sources);

#endif							/* HJG_PLANNER_H */
