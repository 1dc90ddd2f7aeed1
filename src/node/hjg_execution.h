/*
 * hjg_execution.h
 *	  What the operators of a node GpuHashJoin have in common.
 *
 * Room "node".  Each operator is declared, and explained, in a header of its own; hjg_node.h puts them together.
 *
 * Scans.  A child that is a bare sequential scan of a heap table is not called: the
 * node reads the table's pages itself, columns at a time, and keeps the scan's books
 * for it, so that EXPLAIN, statistics and locks say what they would have said
 * (scan_table.c).  Rows come as vectors of the rows of a page or several then, which node_side.c turns
 * into keys and payload columns, either in bulk or, where rows go different ways, one by
 * one like the rows of any other child.
 *
 * Conditions.  Comparisons of columns that stand before all other conditions of the join are
 * evaluated for a vector of pairs at a time (node_pairs.c), the others pair by pair (node_drive.c).  So are keys compared that
 * are not exact, before anything else is made of a pair, where they are columns whose comparison is known (node_recheck.c).
 *
 * Materialisation.  Pairs of row numbers become rows late, from the row stores; or, where a GPU joins and
 * it is expected to be faster, early: a side's columns travel with its keys, the device gathers them, and they are read
 * beside the pairs (node_payload.c).  The stores have all rows in either case.
 */
#ifndef HJG_EXECUTION_H
#define HJG_EXECUTION_H

#include "postgres.h"

#include "nodes/execnodes.h"

#include "node/hjg_run.h"
#include "node/hjg_side.h"
#include "planner/hjg_planner.h"
#include "service/hjg_service.h"

/* Conditions of a join that pairs go through many at a time; private to node_pairs.c. */
typedef struct HjgPairFilter HjgPairFilter;

/* Comparisons of keys that are not exact, likewise; private to node_recheck.c. */
typedef struct HjgRecheck HjgRecheck;

/* ---------- what EXPLAIN ANALYZE shows ---------- */

/* Where the time of an execution went; nanoseconds, added up over all build passes and rescans. */
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
 * Figures of all build passes and rescans: FIGURE(type, name, how), how those of several processes add up (HJG_ADD_...; ANY: bits of
 * either).
 */
#define HJG_FIGURES(FIGURE) \
	FIGURE(double, node_ns, SUM)	/* of a process in the node, its children included; 0 if not known */ \
	FIGURE(uint64, build_rows, SUM) \
	FIGURE(uint64, probe_rows, SUM) \
	FIGURE(uint64, pairs, SUM) \
	FIGURE(uint32, gathered, ANY)	/* sides of which the device gathered columns: HJG_SIDE_BIT() */ \
	FIGURE(uint64, rounds, SUM) \
	FIGURE(uint64, redone, SUM)	/* batches */ \
	FIGURE(uint64, passes, SUM) \
	FIGURE(uint64, device_passes, SUM) \
	FIGURE(int, npartitions, SUM)	/* on the host; 1 when in memory */ \
	FIGURE(uint64, spilled_bytes, SUM) \
	FIGURE(size_t, peak_bytes, SUM) \
	FIGURE(size_t, round_bytes, SUM)	/* and of the pairs that were looked at */ \
	FIGURE(HjgReason, fallback, LAST) \
	FIGURE(uint64, verified, SUM)	/* executions that were compared with core's hash join, */ \
	FIGURE(uint64, mismatched, SUM)	/* and that differed */ \
	FIGURE(uint64, filtered_rows, SUM)	/* probe rows that the Bloom filter dropped */ \
	FIGURE(size_t, filter_bytes, MAX) \
	FIGURE(bool, filter_stopped, ANY)

#define HJG_ADD_ANY(sum, more) ((sum) |= (more))

struct HjgReport
{
	HjgTimes	times;
	HjgJobStats job;			/* of all jobs; of the backend's own engine what it did, without its times */
#define FIGURE(type, name, how) type name;
	HJG_FIGURES(FIGURE)
#undef FIGURE
	uint32		told;			/* reasons that are in the log already, a bit each */
	HjgDeviceId device;			/* of the first job; ANY: there was none */
};

/* ---------- what the operators of a node have in common ---------- */

/* The join as the plan describes it; the same from the beginning of the node to its end. */
typedef struct HjgProgram
{
	JoinType	jointype;
	bool		inner_unique;
	HjgRecheck *recheck;		/* the hash clauses, unless keys are exact; in either of these, or neither */
	ExprState  *recheck_qual;
	HjgPairFilter *pair_filter;	/* the first of the join quals, or NULL; and the others */
	ExprState  *join_qual;
	bool		residual;		/* a pair of equal keys may be no match yet: one of the three last is there */
	bool		preserved[HJG_SIDES];	/* rows without a match come out */
	bool		track_build;	/* keep bits of build rows */
	bool		inner_keys_vary;	/* build keys depend on parameters */
	bool		use_filter;		/* drop probe rows without a partner */
	HjgJobHints hints;			/* for the jobs of its build passes */
} HjgProgram;

/* Where a node runs; each of its operators has a pointer to this. */
struct HjgExecution
{
	const HjgProgram *program;
	EState	   *estate;
	void	   *node;			/* holds the jobs */
	bool		timing;
	HjgReport  *report;

	/*
	 * Vectors and what else rows pass through, of both sides and of the result: empty until there are rows, and again when
	 * all are handed out.  A plan may have hundreds of nodes like this one, which come one after the other.
	 */
	MemoryContext work_context;
};

/* node_suspend.c: see there */
extern void hjg_node_init(void);

/* node_explain.c */
/* Add up reports of several processes. */
extern void hjg_report_add(HjgReport *report, const HjgReport *other);
/* Engine times of a job. */
extern void hjg_report_add_job(HjgReport *report, const HjgJobStats *stats);

/* node_payload.c */
/* Find the columns of both sides that a GPU can gather, whatever rows come. */
extern HjgPayloadBytes hjg_payload_possible(const HjgSide *outer, const HjgSide *inner);

/* node_argument.c: see there */
/* Collect the scan tuple columns (from 0) that an expression, or a list of them, reads. */
extern bool hjg_node_columns(Node *node, Bitmapset **columns);
typedef struct HjgArgument HjgArgument;

/*
 * The planner has seen to it that it is one of columns; column_of: by attribute of the scan tuple of parent, a ScanState, the vector; it must last.
 * counted: whoever asks wants to know only which rows are NULL.
 */
extern HjgArgument *hjg_argument_create(Expr *expr, const int *column_of, PlanState *parent, bool counted);
/* Parameters may have changed. */
extern void hjg_argument_reset(HjgArgument *argument);
/*
 * Evaluate the argument for nrows > 0 rows, at most HJG_VECTOR_ROWS; valid until the next ones.  Raises what core's functions do.
 * Returns NULL where a numeric does not fit: the caller then asks for row after row of the vectors.
 */
extern const HjgNumbers *hjg_argument_eval(HjgArgument *argument, const HjgVector *vectors, int nrows,
											  ExprContext *econtext);
/* Have core evaluate the argument for one row; in the memory of econtext's tuple. */
extern Datum hjg_argument_eval_row(HjgArgument *argument, const HjgVector *vectors, int row, ExprContext *econtext, bool *isnull);

#endif							/* HJG_EXECUTION_H */
