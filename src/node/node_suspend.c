/*
 * node_suspend.c
 *	  Joins of suspended queries: their jobs are released when open cursors hold too much.
 *
 * A query is suspended when ExecutorRun() ends and the query does not: after a FETCH, between the rows of a loop over a
 * cursor, or after a protocol-level Execute with a row limit. Other processes cannot make an idle backend release anything,
 * so it releases what others may need before it becomes idle. Each job of the query is then
 *		released	if its join has returned its last row, and so has the query;
 *		suspended	if such jobs of all backends together hold no more than hjoin_gpu.idle_share;
 *		given up	otherwise: the join continues as if the device process were lost (node_batch.c), but its
 *					inputs are copied to the pass's own memory first, so that the job can be released.
 *					The pairs of the current round are there already.
 * The memory of the build pass includes keys and the engine's table from the beginning (hjg_run_bytes()), so a join that was
 * given up takes no more than hash_mem allows, and a round besides, which is at most the size of a result. The join goes on
 * in the backend when rows are fetched again. A later build pass of the same join may have a job again.
 *
 * Several processes share a join only in queries that are run once and to their end, so they give nothing up here.
 */
#include "postgres.h"

#include "executor/executor.h"

#include "base/hjg_compat.h"
#include "node/hjg_node.h"
#include "node/hjg_parallel.h"
#include "node/hjg_run_private.h"

static ExecutorRun_hook_type prev_executor_run = NULL;

/* Has the join returned its last row, until a rescan? */
static bool
is_through(const HjgJoinState *state)
{
	return state->phase == HJG_PHASE_DONE && state->emit.next >= state->emit.n;
}

/*
 * Release a job whose join is finished; a rescan reads the build side again. In a shared join all other participants have
 * ended with their Gather.
 */
static void
release_done(HjgJoinState *state, HjgJob *job)
{
	if (state->build.run != NULL && state->build.run->job == job)
	{
		hjg_run_end_job(state->build.run);
		hjg_keys_empty(state->build.run, &state->build.run->build);
		state->build.run->build_complete = false;
	}
	else if (state->parallel != NULL && state->parallel->owned == job)
	{
		state->parallel->owned = NULL;
		hjg_job_release(job);
	}
}

/* Handle the jobs of a query that is suspended, or (finished) has returned its last row. */
static void
leave_query(EState *estate, bool finished)
{
	HjgJob	   *next;

	for (HjgJob *job = hjg_job_of_query(estate, NULL); job != NULL; job = next)
	{
		HjgJoinState *state = hjg_job_holder(job);
		const bool	over = state->parallel != NULL ? state->shut : is_through(state);

		next = hjg_job_of_query(estate, job);
		if (over && finished)
			release_done(state, job);
		else if (hjg_job_suspend(job) && state->parallel == NULL && state->build.run->build_complete)
		{
			if (over)
				release_done(state, job);
			else
				hjg_probe_give_up(&state->probe);
			hjg_service_count(HJG_COUNT_SUSPENDED_JOBS, 1);
		}
	}
}

static void
executor_run(QueryDesc *query, ScanDirection direction, uint64 count HJG_RUN_ONCE_PARAMETER)
{
	if (hjg_service_has_jobs())
		for (HjgJob *job = hjg_job_of_query(query->estate, NULL); job != NULL; job = hjg_job_of_query(query->estate, job))
			hjg_job_resume(job);

	if (prev_executor_run != NULL)
		prev_executor_run(query, direction, count HJG_RUN_ONCE_ARGUMENT);
	else
		standard_ExecutorRun(query, direction, count HJG_RUN_ONCE_ARGUMENT);

	/* a query that runs once ends now, even if only some of its rows were wanted */
	if (hjg_service_has_jobs() && !(HJG_RUNS_ONCE && count > 0))
		leave_query(query->estate, ScanDirectionIsForward(direction) && (count == 0 || query->estate->es_processed < count));
}

void
hjg_node_init(void)
{
	prev_executor_run = ExecutorRun_hook;
	ExecutorRun_hook = executor_run;
}
