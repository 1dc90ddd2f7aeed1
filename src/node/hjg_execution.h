/*
 * hjg_execution.h
 *	  Declarations that the operators of a node GpuHashJoin share.
 *
 * Room "node".  Each operator is declared, and explained, in a header of its own; hjg_node.h puts them together.
 *
 * Scans.  A child that is a bare sequential scan of a heap table is not called: the node reads the table's pages itself,
 * columns at a time, and updates the counters, statistics and locks of the scan (scan_table.c). Rows then come as vectors, of a
 * page or several, from which node_side.c makes keys and payload columns: in bulk, or, where rows are treated differently, one
 * by one like the rows of any other child.
 *
 * Conditions.  Comparisons of columns that come before all other conditions of the join are evaluated for a vector of pairs at
 * a time (node_pairs.c), the others pair by pair (node_drive.c). Keys that are not exact are compared before that, for a vector
 * of pairs at a time, where they are columns with a known comparison (node_recheck.c).
 *
 * Materialisation.  Rows are made from pairs of row numbers late, from the row stores; or, where a GPU joins and it is expected
 * to be faster, early: a side's columns are sent with its keys, the device gathers them, and they are read beside the pairs
 * (node_payload.c). The row stores have all rows in either case.
 */
#ifndef HJG_EXECUTION_H
#define HJG_EXECUTION_H

#include "postgres.h"

#include "nodes/execnodes.h"

#include "node/hjg_run.h"
#include "node/hjg_side.h"
#include "planner/hjg_planner.h"
#include "service/hjg_service.h"

/* Conditions of a join that are evaluated for many pairs at a time; private to node_pairs.c. */
typedef struct HjgPairFilter HjgPairFilter;

/* Comparisons of keys that are not exact, for many pairs at a time; private to node_recheck.c. */
typedef struct HjgRecheck HjgRecheck;

/* Factor by which a few wide rows of a pass, or of a batch, may exceed their limit of memory. */
#define HJG_MOST_OVERDRAFT 8

/* ---------- figures of EXPLAIN ANALYZE ---------- */

/* Phases of an execution; times are in nanoseconds, added up over all build passes and rescans. */
#define HJG_TIMES(TIME) \
	TIME(marshal_build_ns)	/* scan of the inner child included */ \
	TIME(marshal_probe_ns)	/* scan of the outer child included */ \
	TIME(backend_build_ns)	/* backend's own engine */ \
	TIME(backend_probe_ns)

typedef struct HjgTimes
{
#define TIME(name) uint64 name;
	HJG_TIMES(TIME)
#undef TIME
} HjgTimes;

/*
 * Figures of all build passes and rescans: FIGURE(type, name, how); how: how those of several processes are added up
 * (HJG_ADD_...; ANY: bits of either).
 */
#define HJG_FIGURES(FIGURE) \
	FIGURE(double, node_ns, SUM)	/* of a process in the node, its children included; 0 if not known */ \
	FIGURE(uint64, build_rows, SUM) \
	FIGURE(uint64, probe_rows, SUM) \
	FIGURE(uint64, pairs, SUM) \
	FIGURE(uint32, gathered, ANY)	/* sides whose columns the device gathered: HJG_SIDE_BIT() */ \
	FIGURE(uint64, rounds, SUM) \
	FIGURE(uint64, redone, SUM)	/* batches */ \
	FIGURE(uint64, passes, SUM) \
	FIGURE(uint64, device_passes, SUM) \
	FIGURE(int, npartitions, SUM)	/* on the host; 1 when in memory */ \
	FIGURE(uint64, spilled_bytes, SUM) \
	FIGURE(size_t, peak_bytes, SUM) \
	FIGURE(size_t, round_bytes, SUM)	/* memory of a round's pairs, in addition to peak_bytes */ \
	FIGURE(HjgReason, fallback, LAST) \
	FIGURE(uint64, verified, SUM)	/* executions that were compared with core's hash join */ \
	FIGURE(uint64, mismatched, SUM)	/* executions that differed from it */ \
	FIGURE(uint64, filtered_rows, SUM)	/* probe rows that the Bloom filter dropped */ \
	FIGURE(size_t, filter_bytes, MAX) \
	FIGURE(bool, filter_stopped, ANY) \
	FIGURE(HjgKeptCounts, kept_blocks, COUNTS)

#define HJG_ADD_ANY(sum, more) ((sum) |= (more))
#define HJG_ADD_COUNTS(sum, more) ((sum).served += (more).served, (sum).skipped += (more).skipped, (sum).live += (more).live)

struct HjgReport
{
	HjgTimes	times;
	HjgJobStats job;			/* of all jobs, and of the backend's own engine without its times */
#define FIGURE(type, name, how) type name;
	HJG_FIGURES(FIGURE)
#undef FIGURE
	uint32		told;			/* reasons that were logged, a bit each */
	HjgDeviceId device;			/* of the first job; ANY: there was none */
};

/* ---------- shared by the operators of a node ---------- */

/* The join as the plan describes it; constant during the life of a node. */
typedef struct HjgJoinTerms
{
	JoinType	jointype;
	bool		inner_unique;
	bool		reversed;		/* in a program: the table is built of the probe side */
	HjgRecheck *recheck;		/* recheck of hash clauses if keys are not exact: one of these two */
	ExprState  *recheck_qual;
	HjgPairFilter *pair_filter;	/* the first join quals, evaluated for vectors, or NULL; then the other quals */
	ExprState  *join_qual;
	bool		residual;		/* equal keys are not yet a match: recheck_qual, pair_filter or join_qual is set */
	bool		preserved[HJG_SIDES];	/* rows without a match are returned */
	bool		track_build;	/* keep bits of build rows */
	bool		inner_keys_vary;	/* build keys depend on parameters */
	bool		use_filter;		/* drop probe rows without a partner */
	HjgJobHints hints;			/* for the jobs of its build passes */
} HjgJoinTerms;

/* The environment of a node; each of its operators has a pointer to this. */
struct HjgExecution
{
	const HjgJoinTerms *terms;
	EState	   *estate;
	void	   *node;			/* holds the jobs */
	bool		timing;
	HjgReport  *report;

	/*
	 * Vectors and other memory that rows pass through, of both sides and of the result. It is empty until there are rows, and
	 * again when all have been returned, because a plan may have hundreds of such nodes, which run one after the other.
	 */
	MemoryContext work_context;
};

/* node_suspend.c */
extern void hjg_node_init(void);

/* node_explain.c */
/* Add up the reports of several processes. */
extern void hjg_report_add(HjgReport *report, const HjgReport *other);
/* Add the statistics of a job. */
extern void hjg_report_add_job(HjgReport *report, const HjgJobStats *stats);

/* node_payload.c */
/* Find the columns of both sides that a GPU can gather, by their types. */
extern HjgPayloadBytes hjg_payload_possible(const HjgSide *outer, const HjgSide *inner);

/* node_argument.c */
/* Collect the scan tuple columns (from 0) that an expression, or a list of them, reads. */
extern bool hjg_node_columns(Node *node, Bitmapset **columns);
typedef struct HjgArgument HjgArgument;

/*
 * Prepare an argument that the planner has accepted. column_of: the vector of each attribute of parent's scan tuple, where
 * parent is a ScanState; the array must last as long as the argument. counted: the caller needs to know only which rows are
 * NULL.
 */
extern HjgArgument *hjg_argument_create(Expr *expr, const int *column_of, PlanState *parent, bool counted);
/* Evaluate the parameters again before the next row. */
extern void hjg_argument_reset(HjgArgument *argument);
/*
 * Evaluate the argument for nrows rows, 0 < nrows <= HJG_VECTOR_ROWS. The result is valid until the next call; errors are
 * those of core's functions. Returns NULL if vectors cannot express them; the caller then evaluates row by row.
 */
extern const HjgNumbers *hjg_argument_eval(HjgArgument *argument, const HjgVector *vectors, int nrows);
/*
 * Get the terms of the argument, with the values of its constants; NULL if a constant does not fit, or an operand is a parameter that core
 * would evaluate only for a row.
 */
extern const HjgVectorTerm *hjg_argument_terms(HjgArgument *argument, const EState *estate, int *nterms);
/* Get a row's value, which is not NULL; a number becomes a numeric, in the memory of econtext's tuple. */
extern Datum hjg_argument_datum(const HjgVector *vector, int row, ExprContext *econtext);
/* Evaluate the argument for one row by core's code, in the memory of econtext's tuple. */
extern Datum hjg_argument_eval_row(HjgArgument *argument, const HjgVector *vectors, int row, ExprContext *econtext, bool *isnull);

#endif							/* HJG_EXECUTION_H */
