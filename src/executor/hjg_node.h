/*
 * hjg_node.h
 *	  The node GpuHashJoin: the operators of one join, and what drives them.
 *
 * Room "executor".
 */
#ifndef HJG_NODE_H
#define HJG_NODE_H

#include "postgres.h"

#include "access/parallel.h"
#include "nodes/execnodes.h"

#include "executor/hjg_build.h"
#include "executor/hjg_executor.h"

typedef enum HjgPhase
{
	HJG_PHASE_BUILD,
	HJG_PHASE_PROBE,
	HJG_PHASE_UNMATCHED_BUILD,
	HJG_PHASE_NEXT_LOAD,
	HJG_PHASE_NULL_PROBE,
	HJG_PHASE_NULL_BUILD,
	HJG_PHASE_DONE
} HjgPhase;

/* Aggregates that are the node's result; private to exec_aggregate.c. */
typedef struct HjgAggregation HjgAggregation;

/* What is kept of an execution for a comparison with core; see hjg_verify.h. */
typedef struct HjgVerify HjgVerify;

/* This process's part in a join that several processes share; see hjg_parallel.h. */
typedef struct HjgParallel HjgParallel;

/* ---------- the node ---------- */

typedef struct HjgJoinState
{
	CustomScanState css;		/* must be first */

	HjgProgram	program;
	HjgExecution execution;
	HjgSide		outer;
	HjgSide		inner;

	HjgPhase	phase;
	bool		started;		/* something was read since the last reset */
	bool		rescanned;		/* and may be again */
	bool		shut;			/* shut down since the last rescan */
	bool		counted;		/* in the statistics, once an execution */

	HjgProbeFilter filter;		/* of an unpartitioned build pass, or of rows on their way to partitions */
	HjgMatch	match;
	HjgBuild	build;
	HjgPartitions partitions;
	bool		unsliced;		/* few candidates a row: slices would not pay */
	uint64		second_rows;	/* probe rows that needed a second slice, */
	uint64		second_pairs;	/* and candidates in it */

	/* probing */
	HjgProbeBatch *batches[HJG_MOST_BATCHES_IN_FLIGHT];	/* oldest first */
	int			nbatches;
	HjgProbeBatch *spare[HJG_MOST_BATCHES_IN_FLIGHT];
	int			nspare;
	bool		probe_done;		/* no more rows from the probe source */
	uint64		probe_row;		/* rows read of this load's probe source */
	uint32		batch_rows;		/* size of the next batch */
	uint64		pair_next;		/* of the oldest batch's round */
	uint32		tail_next;		/* of the oldest batch: unmatched rows emitted up to here */
	uint32		null_next;		/* of the oldest batch: null_rows emitted up to here */

	/* rows gathered and not yet handed out (exec_emit.c); arrays are in the work context, or NULL */
	TupleTableSlot *out_slot;
	int			out_width;		/* its columns */
	bool		direct;			/* it is the node's result as it stands */
	Datum	   *out_values;		/* [HJG_VECTOR_ROWS][out_width]; NULL where rows are columnar */
	bool	   *out_isnull;
	int			vector_n;
	int			vector_next;
	bool		vector_pairs;	/* rows are candidates, not known results */
	uint32	   *vector_probe;	/* [HJG_VECTOR_ROWS] */
	uint32	   *vector_build;	/* [HJG_VECTOR_ROWS] */
	const char *(*vector_places)[HJG_VECTOR_ROWS];	/* [HJG_SIDES], of gathered columns, if there were any; NULL: the pair has
													 * no such row */
	bool	   *vector_pass;	/* [HJG_VECTOR_ROWS], the pair filter's verdict */

	HjgAggregation *aggregation;	/* NULL: joined rows are the node's result */

	/* rows for a join above, or for aggregates, by column of that result (exec_chain.c) */
	HjgVector  *vectors;		/* NULL: rows are handed out one by one */
	HjgVector  *vector_space;	/* the same with memory of this node's own: of the work context */
	int			nresults;
	const int  *result_ix;		/* result column r in the scan tuple */
	bool		columnar;		/* gathered straight into vectors */

	HjgVerify  *verify;			/* NULL: not compared with core */
	HjgParallel *parallel;	/* NULL: this process joins alone */
	HjgReport	others;			/* leader: of the workers, and of the shared job */
	HjgReport	report;
} HjgJoinState;

/* exec_node.c: life cycle */
/* The next rows of the join, before filters, become the vector; false at the end. */
extern bool hjg_exec_next_vector(HjgJoinState *state);
/* The next row of the vector that passes all quals is in the out slot; false when none is left. */
extern bool hjg_exec_next_passing(HjgJoinState *state);
/* The state of a node of ours, or NULL. */
extern HjgJoinState *hjg_exec_join_state(PlanState *plan);
/* Give back everything of the execution so far. */
extern void hjg_exec_reset(HjgJoinState *state);

/* exec_chain.c */
/*
 * Have a child that is a join of ours hand over its rows as vectors[nplan_columns];
 * NULL if the child is anything else, or computes columns.
 */
extern const HjgVectorSource *hjg_chain_create(PlanState *plan, int nplan_columns);

/*
 * Rows become vectors[nresults] from now on, result column r being column result_ix[r] of the scan tuple; the
 * node keeps the array.
 */
extern void hjg_chain_open(HjgJoinState *state, int nresults, const int *result_ix);
/* Memory of the vectors. */
extern void hjg_chain_prepare(HjgJoinState *state);
/* The node's own next rows become the vectors; returns how many, 0 at the end. */
extern int	hjg_chain_take_rows(HjgJoinState *state);

/* exec_aggregate.c: see there */
/*
 * The aggregates of a plan node whose join has njoined columns, of which they read those in used (from 0); NULL if there
 * are none.
 */
extern HjgAggregation *hjg_aggregation_create(HjgJoinState *state, int njoined, const Bitmapset *used);
/* Where columns of the scan tuple go in the vectors that are aggregated, or -1. */
extern const int *hjg_aggregation_places(const HjgAggregation *aggregation);
/* When it is known how rows are handed out. */
extern void hjg_aggregation_open(HjgJoinState *state);
/* The node's result: one row, then none. */
extern TupleTableSlot *hjg_aggregation_exec(HjgJoinState *state);
/* Start over; parameters may have changed. */
extern void hjg_aggregation_reset(HjgAggregation *aggregation);

/* exec_parallel.c: see there */
extern Size hjg_parallel_estimate(CustomScanState *node, ParallelContext *pcxt);
extern void hjg_parallel_init_leader(CustomScanState *node, ParallelContext *pcxt, void *coordinate);
extern void hjg_parallel_reinit(CustomScanState *node, ParallelContext *pcxt, void *coordinate);
extern void hjg_parallel_init_worker(CustomScanState *node, shm_toc *toc, void *coordinate);
/* Read and share the build side; ends with a load to probe, partitions, or nothing to do. */
extern void hjg_parallel_build(HjgJoinState *state);
/* The probe side of the load is done with: do unmatched build rows come out here?  May wait for others, not for long. */
extern bool hjg_parallel_has_unmatched(HjgJoinState *state);
/* Local state only; the shared state is reset by hjg_parallel_reinit(). */
extern void hjg_parallel_reset(HjgJoinState *state);
/* Detach; a worker leaves its figures, the leader takes them. */
extern void hjg_parallel_shutdown(HjgJoinState *state);
extern void hjg_parallel_end(HjgJoinState *state);

/* exec_probe.c */
/* The next rows of the load become the vector; false at its end. */
extern bool hjg_probe_next(HjgJoinState *state);
/* A build pass, or what is to be probed once more, is there. */
extern void hjg_probe_open(HjgJoinState *state);
/* Forget everything under way, waiting for the device process where it must: the same pass is probed once more. */
extern void hjg_probe_rescan(HjgJoinState *state);
/* The pass goes, and the batches with its memory. */
extern void hjg_probe_close(HjgJoinState *state);
/* Go on without the load's job, which is released; what is under way is kept. */
extern void hjg_probe_give_up(HjgJoinState *state);

/* exec_emit.c */
/* When the sides and the quals are known: what the rows look like that are handed out. */
extern void hjg_emit_init(HjgJoinState *state);
/* Memory for the rows, before the first of them; and when the work context is about to be emptied. */
extern void hjg_emit_prepare(HjgJoinState *state);
extern void hjg_emit_forget(HjgJoinState *state);
/* Does nobody look at pairs, or rows, but to count them? */
extern bool hjg_emit_counts_only(const HjgJoinState *state);
/*
 * Once that is there, each makes the next rows of its kind the vector, or returns false: pairs of the
 * batch's round; rows of the batch that stayed without a match; its rows with a NULL key;
 * unmatched build rows; rows with a NULL key that were set aside.
 */
extern bool hjg_emit_pairs(HjgJoinState *state, HjgProbeBatch *batch);
extern bool hjg_emit_unmatched_probe(HjgJoinState *state, HjgProbeBatch *batch);
extern bool hjg_emit_null_keys(HjgJoinState *state, HjgProbeBatch *batch);
extern bool hjg_emit_unmatched_build(HjgJoinState *state);
extern bool hjg_emit_null_probe(HjgJoinState *state);
extern bool hjg_emit_null_build(HjgJoinState *state);

/* exec_match.c: see there */
/* Bits of a batch's rows, and which one is the first row's; or NULL. */
extern uint64 *hjg_match_probe_bits(const HjgJoinState *state, const HjgProbeBatch *batch, uint64 *first);
/* Fill the vector with row numbers of the next pairs of the round; returns how many, 0 at its end. */
extern int	hjg_match_next_pairs(HjgJoinState *state, HjgProbeBatch *batch);
/* Pass over the vector's next candidate if the pair filter drops it. */
extern bool hjg_match_skip_pair(HjgJoinState *state);
/*
 * Is the candidate in the out slot, the vector's last one handed out, a match whose
 * row comes out?  Sets the bits of both rows.
 */
extern bool hjg_match_accept(HjgJoinState *state);

/* exec_pairs.c: the first conditions of a join, evaluated for a vector of pairs at a time */
/*
 * Those of a list that compare two columns of the scan tuple and come before all that do not; the
 * others go to *rest.  NULL if there is none.
 */
extern HjgPairFilter *hjg_pair_filter_create(List *join_qual, TupleDesc scan_desc, List **rest);
/* Which of the nrows rows of ncolumns values, one behind the other, pass; nrows <= HJG_VECTOR_ROWS. */
extern void hjg_pair_filter_rows(const HjgPairFilter *filter, const Datum *values, const bool *isnull,
								 int ncolumns, int nrows, bool *pass);

/* exec_recheck.c: see there */
/* When the sides are known; NULL if the clauses need core's expression code. */
extern HjgRecheck *hjg_recheck_create(const HjgSide *outer, const HjgSide *inner, List *hash_clauses);
/* Which of the first npairs pairs of the vector, of this batch and the load's build rows, have equal keys. */
extern void hjg_recheck_pairs(const HjgJoinState *state, const HjgProbeBatch *batch, int npairs, bool *pass);

/* exec_verify.c: see there */
/* When it is known what rows look like: are executions of the node to be compared? */
extern void hjg_verify_begin(HjgJoinState *state);
/* The same in a participant, where the leader has decided; and before it reads the first row. */
extern void hjg_verify_attach(HjgJoinState *state);
extern void hjg_verify_enter(HjgJoinState *state);
/* Keep a row of the child's slot, or rows of the side's vectors, where side->kept is there. */
extern void hjg_verify_keep_row(const HjgSide *side, const Datum *values, const bool *isnull);
extern void hjg_verify_keep_vectors(const HjgSide *side, int first, int nrows);
/* Where the next three are called there is a comparison to be made.  Rows come out: all of the vector's, or that of the out slot. */
extern void hjg_verify_note_vector(HjgJoinState *state);
extern void hjg_verify_note_row(HjgJoinState *state);
/* No more rows come. */
extern void hjg_verify_end(HjgJoinState *state);
/* A new execution begins, with the build side of the last one or without it. */
extern void hjg_verify_forget(HjgJoinState *state, bool keep_build);

/* exec_slice.c */
/* The batch is filled and about to be submitted: decide how its candidates are asked for. */
extern void hjg_slice_first(HjgJoinState *state, HjgProbeBatch *batch);
/* All pairs so far were looked at: ask for more of undecided rows; false when nothing is left. */
extern bool hjg_slice_next(HjgJoinState *state, HjgProbeBatch *batch);

/* exec_explain.c */
extern void hjg_explain(HjgJoinState *state, List *ancestors, ExplainState *es);

#endif							/* HJG_NODE_H */
