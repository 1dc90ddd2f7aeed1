/*
 * hjg_node.h
 *	  The node GpuHashJoin: the operators of one join, and the state that drives them.
 *
 * Room "node".
 *
 * Operators.  Each has a struct of its own and knows those above in this list, none below:
 *		HjgSide			an input: rows of a child, their keys, payload columns (hjg_side.h)
 *		HjgBuild		the build pass at hand, with HjgMatch, HjgProbeFilter; HjgPartitions: larger than memory (hjg_build.h)
 *		HjgProbe		probe rows in batches, and the pairs that come of them (hjg_probe.h)
 *		HjgEmit			rows of a slot, or vectors
 * A child that is a GpuHashJoin is a source of vectors like a table (node_chain.c). A parallel-aware node shares its first
 * build pass, or the partitions, with the other participants of its Gather; node_parallel.c has the protocol.
 *
 * Phases.  A join execution goes through
 *		BUILD			read the inner child; keep it in memory, or, when it outgrows
 *						hash_mem, partition both children into temporary files
 *		PROBE			read the outer side in batches, have them joined, emit
 *		UNMATCHED_BUILD	RIGHT and FULL: build rows that nobody matched
 *		NEXT_PASS		the next partition, or the next build rows of one
 *		NULL_PROBE		rows with a NULL key that were set aside while partitioning
 *		NULL_BUILD		likewise of the build side, for RIGHT and FULL
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

/* The rows kept of an execution for a comparison with core; see hjg_verify.h. */
typedef struct HjgVerify HjgVerify;

/* This process's part in a join that several processes share; see hjg_parallel.h. */
typedef struct HjgParallel HjgParallel;

typedef struct HjgJoinState
{
	CustomScanState css;		/* must be first */

	HjgProgram	program;
	HjgExecution execution;
	HjgPhase	phase;
	bool		started;		/* rows were read since the last reset */
	bool		rescanned;		/* and may be read again */
	bool		shut;			/* shut down since the last rescan */
	bool		counted;		/* counted in the statistics, once an execution */

	HjgSide		outer;
	HjgSide		inner;
	HjgProbeFilter filter;		/* of the only build pass, or of rows that go to partitions */
	HjgMatch	match;
	HjgBuild	build;
	HjgPartitions partitions;
	HjgProbe	probe;
	HjgPairVector pairs;		/* from probe, or unmatched rows of build, to emit */
	HjgEmit		emit;

	HjgVerify  *verify;			/* NULL: not compared with core */
	HjgParallel *parallel;		/* NULL: this process joins alone */
	HjgReport	others;			/* leader: of the workers, and of the shared job */
	HjgReport	report;
} HjgJoinState;

/* node_callbacks.c: get the state of a GpuHashJoin, or NULL */
extern HjgJoinState *hjg_node_join(PlanState *plan);

/* node_drive.c: from phase to phase, and from rows of the join to the node's result */
extern TupleTableSlot *hjg_drive_exec(CustomScanState *node);
/* Make a state's next rows its vectors; returns how many, 0 at the end. */
extern int	hjg_drive_next_vectors(void *state);

/* node_chain.c: see there */
/*
 * Have a join hand over its rows as vectors[nplan_columns] to the node above it; NULL if there is none, or it computes
 * columns.  counted: where there are no columns, any number of rows may come at a time.
 */
extern const HjgVectorSource *hjg_chain_create(HjgJoinState *below, int nplan_columns, bool counted);

/* node_parallel.c: see there */
extern Size hjg_parallel_estimate(const ParallelContext *pcxt);
/* For the first two, a node that was reset. */
extern void hjg_parallel_init_leader(HjgJoinState *state, ParallelContext *pcxt, void *coordinate);
extern void hjg_parallel_reinit(HjgJoinState *state, ParallelContext *pcxt, void *coordinate);
extern void hjg_parallel_init_worker(HjgJoinState *state, void *coordinate);
/* Read and share the build side; ends with a pass to probe, partitions, or nothing to do. */
extern HjgFirstPass hjg_parallel_build(HjgJoinState *state);
/* The probe side of the pass is done with: do unmatched build rows come out here?  May wait for others, not for long. */
extern bool hjg_parallel_has_unmatched(HjgJoinState *state);
/* Local state only; the shared state is reset by hjg_parallel_reinit(). */
extern void hjg_parallel_reset(HjgJoinState *state);
/* Detach; a worker leaves its figures, the leader takes them. */
extern void hjg_parallel_shutdown(HjgJoinState *state);
extern void hjg_parallel_end(HjgJoinState *state);

/* node_verify.c: see there */
/* When it is known what rows look like: are executions of the node to be compared? */
extern void hjg_verify_begin(HjgJoinState *state);
/* Do the same in a participant, where the leader has decided; and before it reads the first row. */
extern void hjg_verify_attach(HjgJoinState *state);
extern void hjg_verify_enter(HjgJoinState *state);
/* Where the next three are called there is a comparison to be made.  Rows come out: all of the vector's, or that of the out slot. */
extern void hjg_verify_note_vector(HjgJoinState *state);
extern void hjg_verify_note_row(HjgJoinState *state);
/* Compare: no more rows come. */
extern void hjg_verify_end(HjgJoinState *state);
/* Begin a new execution, with the build side of the last one or without it. */
extern void hjg_verify_forget(HjgJoinState *state, bool keep_build);

/* node_explain.c */
extern void hjg_explain(HjgJoinState *state, List *ancestors, ExplainState *es);

#endif							/* HJG_NODE_H */
