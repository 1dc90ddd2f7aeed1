/*
 * hjg_executor.h
 *	  The node GpuHashJoin at run time.
 *
 * Room "executor".  What a load is joined with has a header of its own (hjg_load.h), and so has an input of the
 * node (hjg_side.h).
 *
 * Phases.  A join execution goes through
 *		BUILD			read the inner child; keep it in memory, or, when it outgrows
 *						hash_mem, partition both children into temporary files
 *		PROBE			read the outer side in batches, have them joined, emit
 *		UNMATCHED_BUILD	RIGHT and FULL: build rows that nobody matched
 *		NEXT_LOAD		the next chunk of the build side, or the next partition
 *		NULL_PROBE		rows with a NULL key that were set aside while partitioning
 *		NULL_BUILD		likewise of the build side, for RIGHT and FULL
 *		DONE
 * An unpartitioned join passes NEXT_LOAD once and finds nothing to load.
 *
 * Loads.  What is joined at a time is a load: as many build rows as memory
 * allows, in a row store, and their keys, in an HjgRun.  A partition is one
 * load, or is partitioned once more, or, when its keys cannot be told apart
 * by hashing, is several loads (chunks) that are joined with the whole probe
 * side in turn.
 *
 * Fate.  Whether a probe row is preserved, or emitted once only, can be decided by
 * the engine when a pair that it returns is always a match: exact keys, no
 * residual quals, one load.  Otherwise the engine returns candidate pairs, and the
 * node keeps a bit for each probe row (host_fate).  Bits of build rows are always
 * kept here.  Where one match decides a probe row (semi and anti joins, unique build
 * sides), candidates are asked for in slices, and of undecided rows only
 * (exec_slice.c).
 *
 * Scans.  A child that is a bare sequential scan of a heap table is not called: the
 * node reads the table's pages itself, columns at a time, and keeps the scan's books
 * for it, so that EXPLAIN, statistics and locks say what they would have said
 * (scan_table.c).  Rows come as vectors of the rows of a page or several then, which exec_side.c turns
 * into keys and carried columns, either in bulk or, where rows go different ways, one by
 * one like the rows of any other child.
 *
 * Parallel.  A parallel-aware node shares its first load with the other participants of
 * its Gather; exec_parallel.c says how, and what waits for whom.  They join by a job, or probe one
 * table that is in memory of theirs (exec_table.c).  Once that load is built, or
 * is in partitions, each participant goes through the phases above by itself.
 *
 * Chains.  A join whose rows go to another one of ours hands them over as vectors, too
 * (exec_chain.c).  A small build side, or any that the planner expects no job to serve better, is probed by the
 * backend itself, vector by vector and in place: the probe rows' columns are not copied before it is known which rows
 * have a match, and in a chain of joins not even then, as long as all rows have exactly one.
 *
 * Aggregates.  Where the query wants nothing of the join but sums and the like of all its rows, the plan may have the node
 * compute them: rows come as vectors to accumulators, whichever phase they are from, and the node returns one row of
 * partial results (exec_aggregate.c).
 *
 * Conditions.  Comparisons of columns that stand before all other conditions of the join are
 * evaluated for a vector of pairs at a time (exec_pairs.c), the others pair by pair.  So are keys compared that are not
 * exact, before anything else is made of a pair, where they are columns whose comparison is known (exec_recheck.c).
 *
 * Filter.  Where a probe row without a partner is nothing to the join, the plan may ask for a
 * Bloom filter of the build keys, by which most such rows are dropped as they are read
 * (exec_bloom.c).
 *
 * Materialisation.  Pairs of row numbers become rows late, from the row stores; or, where a GPU joins and
 * it is expected to be faster, early: a side's columns travel with its keys, the device gathers them, and they are read
 * beside the pairs (exec_carry.c).  The stores have all rows in either case.
 *
 * Verification.  Of a sample of executions all rows that are read are kept, and joined by core's hash join when the node
 * has come to its end (exec_verify.c).
 *
 * Redo.  A probe batch's keys and columns are kept until the last of its pairs was
 * emitted, and the pairs of a round are looked at only once the round was
 * complete and checked.  When the device process is lost, the backend's own engine
 * goes on from the cursor of the last complete round: no row is lost or
 * doubled (exec_batch.c).
 */
#ifndef HJG_EXECUTOR_H
#define HJG_EXECUTOR_H

#include "postgres.h"

#include "access/parallel.h"
#include "nodes/execnodes.h"
#include "utils/tuplestore.h"

#include "engine/hjg_engine_bloom.h"
#include "executor/hjg_load.h"
#include "executor/hjg_side.h"
#include "planner/hjg_planner.h"
#include "service/hjg_service.h"

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

/* Conditions of a join that pairs go through many at a time; private to exec_pairs.c. */
typedef struct HjgPairFilter HjgPairFilter;

/* Comparisons of keys that are not exact, likewise; private to exec_recheck.c. */
typedef struct HjgRecheck HjgRecheck;

/* Aggregates that are the node's result; private to exec_aggregate.c. */
typedef struct HjgAggregation HjgAggregation;

/* What is kept of an execution for a comparison with core; see hjg_verify.h. */
typedef struct HjgVerify HjgVerify;

/* Where the time of an execution went; nanoseconds, added up over all loads and rescans. */
typedef struct HjgTimes
{
	uint64		marshal_build_ns;	/* scan of the inner child included */
	uint64		marshal_probe_ns;	/* scan of the outer child included */
	uint64		backend_build_ns;	/* backend's own engine */
	uint64		backend_probe_ns;
} HjgTimes;

/* ---------- what EXPLAIN ANALYZE shows ---------- */

struct HjgReport
{
	HjgTimes	times;
	double		node_ns;		/* of this process in the node, its children included; 0 if not known */
	HjgJobTimes job;			/* engine's own times, of all jobs */
	uint64		build_rows;
	uint64		probe_rows;
	uint64		pairs;
	uint64		joined_rows;	/* that were aggregated */
	uint32		gathered;		/* sides of which the device gathered columns: HJG_SIDE_BIT() */
	uint64		rounds;
	uint64		redone;			/* batches */
	uint64		loads;
	uint64		device_loads;
	int			npartitions;	/* on the host; 1 when in memory */
	uint64		spilled_bytes;
	size_t		peak_bytes;
	size_t		round_bytes;	/* and of the pairs that were looked at */
	HjgReason	fallback;		/* the last one, or NONE */
	uint64		verified;		/* executions that were compared with core's hash join, */
	uint64		mismatched;		/* and that differed */
	uint32		told;			/* reasons that are in the log already, a bit each */
	int			strategy;		/* that ran, of any engine (hjg_strategy_name()) */
	bool		declined;		/* the strategy that hjoin_gpu.strategy names did not suit a join */
	HjgPipeline pipeline;		/* AUTO where the engine has none */
	int			engine_partitions;
	uint64		filtered_rows;	/* probe rows that the Bloom filter dropped */
	size_t		filter_bytes;
	bool		filter_stopped;
	char		device[NAMEDATALEN];
};

/* ---------- partitions (exec_partition.c) ---------- */

typedef struct HjgPartition
{
	HjgSpill   *build;
	HjgSpill   *probe;
	int			level;			/* how often its rows were partitioned */
	bool		indivisible;	/* partitioning again would not help */
} HjgPartition;

/* ---------- the filter of the build keys (exec_bloom.c) ---------- */

typedef struct HjgProbeFilter
{
	HjgBloom	bloom;			/* without words: there is none */
	bool		open;			/* complete, and still worth its while */
	double		most_passing;	/* share of rows from which on it is not */
	uint64		ntested;		/* since it was looked at last */
	uint64		npassed;
} HjgProbeFilter;

/* ---------- the node ---------- */

struct HjgJoinState
{
	CustomScanState css;		/* must be first */

	/* from the plan */
	JoinType	jointype;
	bool		inner_unique;
	HjgSide		outer;
	HjgSide		inner;
	HjgRecheck *recheck;		/* the hash clauses, unless keys are exact; in either of these, or neither */
	ExprState  *recheck_qual;
	HjgPairFilter *pair_filter;	/* the first of the join quals, or NULL; and the others */
	ExprState  *join_qual;
	bool		residual;		/* a pair of equal keys may be no match yet: one of the three last is there */
	bool		track_build;	/* keep bits of build rows */
	bool		inner_keys_vary;	/* build keys depend on parameters */
	bool		use_filter;		/* drop probe rows without a partner */
	HjgJobHints hints;			/* for jobs of its loads */

	HjgPhase	phase;
	bool		started;		/* something was read since the last reset */
	bool		rescanned;		/* and may be again */
	bool		shut;			/* shut down since the last rescan */
	bool		counted;		/* in the statistics, once an execution */

	/*
	 * Vectors and what else rows pass through, of both sides and of the result: empty until there are rows, and again when
	 * all are handed out.  A plan may have hundreds of nodes like this one, which come one after the other.
	 */
	MemoryContext work_context;

	/* the load */
	MemoryContext load_context;
	HjgRun	   *run;
	HjgStore   *build_rows;
	uint64	   *build_matched;	/* bits, when track_build */
	uint32		unmatched_next; /* UNMATCHED_BUILD: next build row to look at, */
	uint32		unmatched_end;	/* and where those end that were claimed */
	bool		host_fate;
	bool		decisive;		/* a match decides its probe row: more pairs of it are dropped */
	bool		unsliced;		/* few candidates a row: slices would not pay */
	uint64		second_rows;	/* probe rows that needed a second slice, */
	uint64		second_pairs;	/* and candidates in it */
	bool		last_chunk;		/* no more build rows of this partition */
	HjgProbeFilter filter;		/* of an unpartitioned load's rows, or of those on their way to partitions */
	uint64	   *chunk_matched;	/* bits of all probe rows, over the chunks of a partition */

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

	/* partitions */
	MemoryContext partition_context;
	List	   *partitions;		/* of HjgPartition, waiting; NIL and current NULL: unpartitioned */
	HjgPartition *current;
	HjgPartition **routes;		/* while rows are being partitioned: by hash */
	int			nroutes;
	HjgSpill   *null_probe;		/* preserved probe rows with a NULL key */
	Tuplestorestate *null_build;	/* preserved build rows with a NULL key */

	HjgVerify  *verify;			/* NULL: not compared with core */
	HjgParallel *parallel;	/* NULL: this process joins alone */
	HjgReport	others;			/* leader: of the workers, and of the shared job */
	HjgReport	report;
};

/* exec_node.c: life cycle */
extern bool hjg_exec_timing(const HjgJoinState *state);
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
extern HjgJoinState *hjg_chain_create(PlanState *plan, int nplan_columns);
/* The child's next rows become its vectors; returns how many, 0 at the end. */
extern int	hjg_chain_next_rows(HjgJoinState *below);

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

/* exec_argument.c: see there */
typedef struct HjgArgument HjgArgument;

/* The planner has seen to it that it is one of columns; column_of: by attribute of the scan tuple, the vector. */
extern HjgArgument *hjg_argument_create(Expr *expr, const int *column_of, PlanState *parent);
/* Parameters may have changed. */
extern void hjg_argument_reset(HjgArgument *argument);
/*
 * Of nrows > 0 rows, at most HJG_VECTOR_ROWS; valid until the next ones.  Raises what core's functions do.
 */
extern const HjgNumbers *hjg_argument_eval(HjgArgument *argument, const HjgVector *vectors, int nrows,
											  ExprContext *econtext);

/* exec_build.c */
/* Read the inner child: one load, or partitions of both sides. */
extern void hjg_build_first(HjgJoinState *state);
/*
 * Read what the inner child has for this process, into a load or, once memory is full,
 * into partitions, which it then returns true for.
 */
extern bool hjg_build_read(HjgJoinState *state);
/* An empty load.  A shared one has a parallel state in run->share. */
extern void hjg_load_start(HjgJoinState *state, double expected_rows, HjgParallel *share);
/* Who decides fates, and what the engine is to return for that. */
extern HjgMatchMode hjg_load_mode(HjgJoinState *state);
/* Load the next chunk or partition; false when there is none. */
extern bool hjg_load_next(HjgJoinState *state);
extern void hjg_load_free(HjgJoinState *state);
/* A row of a side in a row store, about, without values of variable length. */
extern size_t hjg_stored_bytes(const HjgSide *side);
/* Rows that a store's chunk should hold, for a side of about so many rows. */
extern double hjg_chunk_rows(const HjgSide *side, double rows);

/* exec_bloom.c: see there */
/* The load is complete: make its filter, if there is to be one. */
extern void hjg_probe_filter_load(HjgJoinState *state);
extern void hjg_probe_filter_forget(HjgJoinState *state);
/* Of a shared load: make the filter; use one that was made; add the load's keys; start testing. */
extern void hjg_probe_filter_share(HjgJoinState *state, void *memory, size_t bytes);
extern void hjg_probe_filter_attach(HjgJoinState *state, void *memory, size_t bytes);
extern void hjg_probe_filter_add_load(HjgJoinState *state);
extern void hjg_probe_filter_open_shared(HjgJoinState *state);
/* Memory for a filter of so many keys on their way to partitions, of all participants. */
extern size_t hjg_probe_filter_bytes(double nkeys, int participants);
/* Of rows on their way to partitions: about so many build rows come; one; they have come; probe rows, too. */
extern void hjg_probe_filter_start_partitions(HjgJoinState *state, double nkeys);
extern void hjg_probe_filter_add_key(HjgJoinState *state, const void *key);
extern void hjg_probe_filter_open_partitions(HjgJoinState *state);
extern void hjg_probe_filter_end_partitions(HjgJoinState *state);
/* Numbers of the rows that pass, into rows[nrows + HJG_BLOOM_ROWS_PAD]; returns how many. */
extern int	hjg_probe_filter_rows(HjgJoinState *state, const char *keys, int nrows, uint16 *rows);
extern bool hjg_probe_filter_row(HjgJoinState *state, const void *key);

/* exec_carry.c */
/* What of the columns of both sides a GPU can gather, whatever rows come. */
extern HjgCarried hjg_carry_possible(const HjgSide *outer, const HjgSide *inner);

/* exec_parallel.c: see there */
extern Size hjg_parallel_estimate(CustomScanState *node, ParallelContext *pcxt);
extern void hjg_parallel_init_leader(CustomScanState *node, ParallelContext *pcxt, void *coordinate);
extern void hjg_parallel_reinit(CustomScanState *node, ParallelContext *pcxt, void *coordinate);
extern void hjg_parallel_init_worker(CustomScanState *node, shm_toc *toc, void *coordinate);
/* Read and share the build side; ends with a load to probe, partitions, or nothing to do. */
extern void hjg_parallel_build(HjgJoinState *state);
/* The probe side of the load is done with: do unmatched build rows come out here?  May wait for others, not for long. */
extern bool hjg_parallel_has_unmatched(HjgJoinState *state);
/* Claim the next build rows for that, as unmatched_next and unmatched_end; false when there are none. */
extern bool hjg_parallel_claim_unmatched(HjgJoinState *state);
/* Local state only; the shared state is reset by hjg_parallel_reinit(). */
extern void hjg_parallel_reset(HjgJoinState *state);
/* Detach; a worker leaves its figures, the leader takes them. */
extern void hjg_parallel_shutdown(HjgJoinState *state);
extern void hjg_parallel_end(HjgJoinState *state);

/* exec_share.c: the load and the partitions that participants share; see hjg_parallel.h */
/* A range of row numbers and the memory for its keys, unless that is there already. */
extern void hjg_parallel_next_range(HjgParallel *parallel, HjgKeySegment *segment, size_t *bytes);
/* Give the state's new load its store and its job. */
extern void hjg_parallel_open_load(HjgParallel *parallel, HjgJoinState *state);
/* Is memory full, with so many bytes here, or has someone found it to be? */
extern bool hjg_parallel_is_full(HjgParallel *parallel, size_t load_bytes);
/* Make or find the shared partitions for build rows of so many bytes, and route rows to them. */
extern void hjg_parallel_route(HjgJoinState *state, double row_bytes);
/* Every row of the load has gone to the partitions. */
extern void hjg_parallel_unload(HjgParallel *parallel);
/* This participant has written all its probe rows. */
extern void hjg_parallel_routed(HjgJoinState *state);
/* Put a shared partition that nobody else has into the list; false when there is none. */
extern bool hjg_parallel_claim(HjgJoinState *state);

/* exec_partition.c */
/* How many partitions for so many bytes of build side, with file buffers of that size. */
extern int	hjg_partition_count(double bytes, size_t buffer_bytes);
extern HjgPartition *hjg_partition_adopt(HjgSpill *build, HjgSpill *probe);
/* The load outgrew memory while the inner child is read: move its rows to partitions. */
extern void hjg_partition_start(HjgJoinState *state, double total_rows, size_t load_bytes);
extern void hjg_partition_add_build(HjgJoinState *state, const HjgRow *row);
/* Read the outer child into the partitions. */
extern void hjg_partition_probe_side(HjgJoinState *state);
/* Replace a partition by its own partitions. */
extern void hjg_partition_split(HjgJoinState *state, HjgPartition *partition, size_t load_bytes);
extern void hjg_partition_free(HjgPartition *partition);

/* exec_probe.c */
/* The next rows of the load become the vector; false at its end. */
extern bool hjg_probe_next(HjgJoinState *state);
/* Forget everything under way, waiting for the device process where it must. */
extern void hjg_probe_reset(HjgJoinState *state);
/* Go on without the load's job, which is released; what is under way is kept. */
extern void hjg_probe_give_up(HjgJoinState *state);

/* exec_suspend.c: see there */
extern void hjg_executor_init(void);

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
extern HjgRecheck *hjg_recheck_create(const HjgJoinState *state, List *hash_clauses);
/* Which of the first npairs pairs of the vector, of this batch and the load's build rows, have equal keys. */
extern void hjg_recheck_pairs(const HjgJoinState *state, const HjgProbeBatch *batch, int npairs, bool *pass);

/* exec_verify.c: see there */
/* When it is known what rows look like: are executions of the node to be compared? */
extern void hjg_verify_begin(HjgJoinState *state);
/* The same in a participant, where the leader has decided; and before it reads the first row. */
extern void hjg_verify_attach(HjgJoinState *state);
extern void hjg_verify_enter(HjgJoinState *state);
/* Keep a row of the child's slot, or rows of the side's vectors, where side->kept is there. */
extern void hjg_verify_keep_row(HjgJoinState *state, HjgSide *side, const Datum *values, const bool *isnull);
extern void hjg_verify_keep_vectors(HjgJoinState *state, HjgSide *side, int first, int nrows);
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
/* Add up reports of several processes. */
extern void hjg_report_add(HjgReport *report, const HjgReport *other);
/* Engine times of a job. */
extern void hjg_report_add_job(HjgReport *report, const HjgJobTimes *times);
extern void hjg_explain(CustomScanState *node, List *ancestors, ExplainState *es);

#endif							/* HJG_EXECUTOR_H */
