/*
 * hjg_node.h
 *	  The node GpuHashJoin: the operators of one join, and its state.
 *
 * Room "node".
 *
 * Operators. Each has a struct of its own and uses only those above it in this list:
 *		HjgSide			an input: rows of a child, their keys, payload columns (hjg_side.h)
 *		HjgBuild		the current build pass, with HjgMatch, HjgProbeFilter; HjgPartitions if it outgrows memory (hjg_build.h)
 *		HjgProbe		probe rows in batches, and their pairs (hjg_probe.h)
 *		HjgEmit			rows of a slot, or vectors
 * A child that is a GpuHashJoin is a source of vectors like a table (node_chain.c). A parallel-aware node shares its first
 * build pass, or the partitions, with the other participants of its Gather; node_parallel.c has the protocol.
 *
 * Phases.  A join execution goes through
 *		BUILD			read the inner child; keep it in memory, or, if it outgrows
 *						hash_mem, partition both children into temporary files
 *		PROBE			read the outer side in batches, join them, emit rows
 *		UNMATCHED_BUILD	RIGHT and FULL: build rows without a match
 *		NEXT_PASS		the next partition, or the next build rows of one
 *		NULL_PROBE		rows with a NULL key that were set aside while partitioning
 *		NULL_BUILD		the same for the build side, in RIGHT and FULL
 *		DONE
 * An unpartitioned join passes NEXT_PASS once and finds nothing there.
 *
 * Verification.  For a sample of executions, all rows that are read are kept, and are joined by core's hash join at the end
 * (node_verify.c).
 */
#ifndef HJG_NODE_H
#define HJG_NODE_H

#include "postgres.h"

#include "access/parallel.h"
#include "nodes/execnodes.h"

#include "node/hjg_build.h"
#include "node/hjg_emit.h"
#include "node/hjg_execution.h"
#include "node/hjg_probe.h"
#include "node/hjg_travel.h"

typedef enum HjgPhase
{
	HJG_PHASE_BUILD,
	HJG_PHASE_PROBE,
	HJG_PHASE_UNMATCHED_BUILD,
	HJG_PHASE_NEXT_PASS,
	HJG_PHASE_NULL_PROBE,
	HJG_PHASE_NULL_BUILD,
	HJG_PHASE_DONE
} HjgPhase;

/* The rows of an execution that are kept for a comparison with core; see hjg_verify.h. */
typedef struct HjgVerify HjgVerify;

/* The part of this process in a join that several processes share; see hjg_parallel.h. */
typedef struct HjgParallel HjgParallel;

typedef struct HjgJoinState
{
	CustomScanState css;		/* must be first */

	HjgJoinTerms	terms;
	HjgExecution execution;
	HjgPhase	phase;
	bool		started;		/* rows were read since the last reset */
	bool		rescanned;		/* and may be read again */
	bool		shut;			/* shut down since the last rescan */
	bool		counted;		/* counted in the statistics, once an execution */

	HjgSide		outer;
	HjgSide		inner;
	HjgProbeFilter filter;		/* of the only build pass, or of rows that go to partitions; */
	HjgTravel	travel;			/* and where it is tested */
	HjgMatch	match;
	HjgBuild	build;
	bool		build_outdated; /* it was read through a filter that is no more */
	HjgPartitions partitions;
	HjgProbe	probe;
	HjgPairVector pairs;		/* from probe, or unmatched rows of build, to emit */
	HjgEmit		emit;

	HjgVerify  *verify;			/* NULL: not compared with core */
	HjgParallel *parallel;		/* NULL: this process joins alone */
	HjgReport	others;			/* leader: of the workers, and of the shared job */
	HjgReport	report;
} HjgJoinState;

/* node_callbacks.c: the node's callbacks, by which it is recognised */
extern const CustomExecMethods hjg_node_exec_methods;

/* Get the state of a GpuHashJoin, or NULL. */
static inline HjgJoinState *
hjg_node_join(PlanState *plan)
{
	return IsA(plan, CustomScanState) && ((CustomScanState *) plan)->methods == &hjg_node_exec_methods ?
		(HjgJoinState *) plan : NULL;
}

/* node_drive.c */
extern TupleTableSlot *hjg_drive_exec(CustomScanState *node);
/* Put the next rows into the state's vectors; returns how many there are, 0 at the end. */
extern int	hjg_drive_next_vectors(void *state);

/* node_chain.c */
/*
 * Let a join return its rows as vectors[nplan_columns] to the node above it; NULL if there is no join, or it computes
 * columns. counted: if there are no columns, any number of rows may come at a time.
 */
extern const HjgVectorSource *hjg_chain_create(HjgJoinState *below, int nplan_columns, bool counted);

/* node_parallel.c */
extern Size hjg_parallel_estimate(const ParallelContext *pcxt);
/* The node must have been reset before the next two. */
extern void hjg_parallel_init_leader(HjgJoinState *state, ParallelContext *pcxt, void *coordinate);
extern void hjg_parallel_reinit(HjgJoinState *state, void *coordinate);
extern void hjg_parallel_init_worker(HjgJoinState *state, void *coordinate);
/* Read and share the build side; ends with a pass to probe, partitions, or nothing to do. */
extern HjgFirstPass hjg_parallel_build(HjgJoinState *state);
/*
 * Are unmatched build rows returned here, now that the probe side of the pass is done? May wait for other participants, for a
 * short time.
 */
extern bool hjg_parallel_has_unmatched(HjgJoinState *state);
/* Reset the local state; hjg_parallel_reinit() resets the shared state. */
extern void hjg_parallel_reset(HjgJoinState *state);
/* Detach; a worker leaves its figures, the leader collects them. */
extern void hjg_parallel_shutdown(HjgJoinState *state);
extern void hjg_parallel_end(HjgJoinState *state);

/* node_verify.c */
/* Decide whether executions of the node are compared, once the form of its rows is known. */
extern void hjg_verify_begin(HjgJoinState *state);
/* Attach in a participant to the leader's decision; prepare before it reads the first row. */
extern void hjg_verify_attach(HjgJoinState *state);
extern void hjg_verify_enter(HjgJoinState *state);
/*
 * Add all rows of the vector, or the row of the out slot, to the tally. These two and the next are called only if there is a
 * comparison.
 */
extern void hjg_verify_note_vector(HjgJoinState *state);
extern void hjg_verify_note_row(HjgJoinState *state);
/* Compare, after the last row. */
extern void hjg_verify_end(HjgJoinState *state);
/* Begin a new execution, with the last one's build side or without it. */
extern void hjg_verify_forget(HjgJoinState *state, bool keep_build);

/* node_explain.c */
extern void hjg_explain(HjgJoinState *state, List *ancestors, ExplainState *es);

#endif							/* HJG_NODE_H */
