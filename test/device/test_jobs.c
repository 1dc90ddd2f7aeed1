/*
 * test_jobs.c
 *	  Jobs with several batches under way: they are on the device side by side if the join has streams
 *	  and memory for them, otherwise one after the other.  The rows are the same, also when calls of the
 *	  driver fail in the middle; a cancelled job ends at once.
 *
 * Through the scheduler and an arena, on the emulated libcuda (stub_libcuda.c) or, without the faults, on
 * a real device.  Each scenario is a separate process, since a context lives as long as its process; the
 * driver is not even opened in the first process, because it does not survive a fork. --time measures jobs
 * whose keys and pairs go through the arena, like a query's; --streams omits failing calls of the driver and
 * time limits, for the thread sanitizer.
 */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device/hjg_cuda_join.h"
#include "hjg_job_support.h"
#include "hjg_test_engine.h"
#include "hjg_test_stub.h"
#include "model/hjg_measured.h"

#define NBATCHES 12
#define WIDTH HJG_KEY_WIDTH_4
#define MAX_ROUNDS 4096
#define TIMEOUT_NS 60000000000ull
#define TIMED_BUILD_ROWS 4000000
#define TIMED_PROBE_ROWS HJG_LARGEST_BATCH_ROWS
#define TIMED_REPEATS 64
#define WARM_ROWS 1000000		/* of either side */
#define WARM_JOBS 15			/* after an unmeasured one */
#define LATENCY_US 2000
#define EXIT_DEVICE 4			/* as in device_health.c */

typedef struct Scenario
{
	HjgCudaStrategyId strategy;
	hjg_u32		copies;			/* build rows of a key */
	HjgMatchMode mode;
	size_t		budget_bytes;	/* of device memory; 0: the default */
	long		latency_us;
	long		fail_at;		/* call of the emulated driver, counted from the end of the build; 0: none */
	int			fail_code;
	bool		cancel;
	int			repeats;		/* of each batch, after the first run */
	int			warm_jobs;		/* after this job, in the same process */
} Scenario;

typedef struct Outcome
{
	bool		right;			/* all batches, all rounds, all pairs */
	bool		told;			/* the process finished */
	bool		died;			/* the process ended itself, because of the device */
	bool		has_device;
	bool		emulated;
	int			status;			/* of the last operation that failed */
	int			most_running;	/* most operations at a time */
	long		nregions;		/* of the arena, registered at the end */
	hjg_u32		strategy;		/* that was used */
	hjg_u32		fallback;
	hjg_u64		busy_ns;
	hjg_u64		cancel_ns;		/* from the cancellation to the end of the last operation */
	hjg_u64		batches_ns;		/* from the first batch's submission to the last one's end */
	double		first_ms[WARM_JOBS];	/* of each warm job: from the submission of the build side to the
										 * first batch's result */
} Outcome;

typedef struct Span
{
	hjg_u64		from;
	hjg_u64		to;
} Span;

static HjgServe serve;
static HjgArena arena;
static hjg_u32 build_rows = 30000;
static hjg_u32 probe_rows = 20000;		/* of a batch */
static HjgStub *stub;
static Span spans[MAX_ROUNDS];
static int	nspans;

static hjg_u32
probe_key(int batch, hjg_u32 row)
{
	const hjg_u32 mixed = ((hjg_u32) batch * probe_rows + row) * 2654435761u;

	return (mixed >> 8) % (2 * build_rows);
}

static bool
add_keys(HjgOp *op, hjg_u64 owner, hjg_u32 nrows, int batch, hjg_u32 copies)
{
	const hjg_u32 room = HJG_SLAB_BYTES / WIDTH;

	for (hjg_u32 row = 0; row < nrows; row += room)
	{
		const hjg_u32 n = nrows - row < room ? nrows - row : room;
		const hjg_u32 slab_ix = hjg_slab_lease(&arena, owner, 1, HJG_SLAB_INPUT);
		hjg_u32    *keys = slab_ix == HJG_NO_SLAB ? NULL : hjg_arena_slab_at(&arena, slab_ix);

		if (keys == NULL)
			return false;
		for (hjg_u32 i = 0; i < n; i++)
			keys[i] = batch < 0 ? (row + i) / copies : probe_key(batch, row + i);
		arena.slabs[slab_ix].dirty_bytes = n * WIDTH;
		if (!hjg_op_add_input(&arena, op, owner, slab_ix, n, row, false))
			return false;
	}
	return true;
}

/* Count the build rows of a key. */
static hjg_u32
matches_of(const Scenario *scenario, hjg_u32 key)
{
	const hjg_u64 first = (hjg_u64) key * scenario->copies;

	return first >= build_rows ? 0 : build_rows - first < scenario->copies ? build_rows - (hjg_u32) first : scenario->copies;
}

static hjg_u64
expected_pairs(const Scenario *scenario, int batch)
{
	hjg_u64		npairs = 0;

	for (hjg_u32 row = 0; row < probe_rows; row++)
	{
		const hjg_u32 n = matches_of(scenario, probe_key(batch, row));

		npairs += scenario->mode == HJG_MATCH_ALL ? n : n == 0;
	}
	return npairs;
}

/* Check that a round's pairs are matches, or rows without one. */
static bool
pairs_match(const Scenario *scenario, int batch, const HjgPair *pairs, hjg_u64 npairs)
{
	for (hjg_u64 i = 0; i < npairs; i++)
	{
		const hjg_u32 key = probe_key(batch, pairs[i].probe_row);

		if (pairs[i].build_row == HJG_NO_ROW ? scenario->mode != HJG_MATCH_ANTI || matches_of(scenario, key) > 0 :
			pairs[i].build_row >= build_rows || pairs[i].build_row / scenario->copies != key)
			return false;
	}
	return true;
}

/* ---- a job ---- */

typedef struct Job
{
	const Scenario *scenario;
	HjgJobSlot *slot;
	HjgJobReport *report;
	hjg_u32		job_ix;
	hjg_u32		generation;
	hjg_u64		owner;
	HjgExpected expected[NBATCHES];
	HjgPair    *pages[NBATCHES];
	hjg_u64		npairs[NBATCHES];
	bool		finished[NBATCHES];
	int			left[NBATCHES];	/* repeats left */
	hjg_u64		submitted_ns;
	hjg_u64		first_ns;		/* time of the first result; 0: not yet */
} Job;

static void
submit_round(Job *job, int b)
{
	HjgOp	   *op = &job->slot->batches[b];
	HjgExpected *expected = &job->expected[b];

	op->cursor_in = expected->cursor;
	op->round = ++expected->round;
	hjg_op_move(&job->report->batches[b], job->generation, expected->round == 1 ? HJG_OP_FILLING : HJG_OP_DRAINING, HJG_OP_QUEUED);
	hjg_doorbell_ring(&arena.view, job->job_ix);
}

static bool
wait_build(const HjgJobReport *report)
{
	const hjg_u64 until = hjg_now_ns() + TIMEOUT_NS;

	while (hjg_op_state(&report->build) != HJG_OP_READY)
	{
		if (hjg_now_ns() > until)
			return false;
		nanosleep(&(struct timespec) {0, 20000}, NULL);
	}
	return true;
}

/* Take the ready result of a batch; false when it is wrong. */
static bool
look_at(Job *job, int b, Outcome *outcome)
{
	HjgOpReport *op = &job->report->batches[b];
	HjgExpected *expected = &job->expected[b];
	HjgReported reported;

	if (!hjg_op_move(op, job->generation, HJG_OP_READY, HJG_OP_DRAINING))
		return true;
	hjg_check_copy(op, &reported);
	if (job->first_ns == 0)
		job->first_ns = hjg_now_ns();
	if (nspans < MAX_ROUNDS)
		spans[nspans++] = (Span) {op->started_ns, op->ended_ns};
	if (reported.status != HJG_OK)
	{
		outcome->status = (int) reported.status;
		job->finished[b] = true;
		return true;
	}
	/* repeats are for measuring */
	if (job->scenario->repeats == 0 && (hjg_check_round(expected, &reported, NULL) != HJG_CHECK_GOOD ||
										!pairs_match(job->scenario, b, job->pages[b], reported.npairs)))
		return false;
	job->npairs[b] += reported.npairs;
	expected->cursor = reported.cursor;
	if (reported.cursor.row < probe_rows)
	{
		submit_round(job, b);
		return true;
	}
	if (job->left[b]-- > 0)
	{
		expected->cursor = (HjgCursor) {0};
		submit_round(job, b);
		return true;
	}
	job->finished[b] = true;
	return job->npairs[b] == expected_pairs(job->scenario, b) * (hjg_u64) (job->scenario->repeats + 1);
}

static bool
open_batches(Job *job)
{
	for (int b = 0; b < NBATCHES; b++)
	{
		HjgOp	   *op = &job->slot->batches[b];
		const hjg_u32 slab_ix = hjg_slab_lease(&arena, job->owner, 1, HJG_SLAB_RESULT);

		hjg_op_move(&job->report->batches[b], job->generation, HJG_OP_FREE, HJG_OP_FILLING);
		op->input_ref = op->ninputs = 0;
		op->nrows = 0;
		if (slab_ix == HJG_NO_SLAB || !add_keys(op, job->owner, probe_rows, b, 1))
			return false;
		arena.slabs[slab_ix].dirty_bytes = HJG_SLAB_BYTES;
		job->pages[b] = hjg_arena_slab_at(&arena, slab_ix);
		op->result_ref = slab_ix + 1;
		op->nresults = 1;
		job->expected[b] = (HjgExpected) {
			.mode = job->scenario->mode, .probe_rows = probe_rows, .build_limit = build_rows,
			.pages = &job->pages[b], .npages = 1, .page_pairs = HJG_SLAB_BYTES / sizeof(HjgPair)
		};
	}
	return true;
}

/* Run all batches at once, until all are finished. */
static bool
run_batches(Job *job, Outcome *outcome)
{
	const hjg_u64 started = hjg_now_ns();
	hjg_u64		cancelled_ns = 0;
	int			nfinished = 0;

	for (int b = 0; b < NBATCHES; b++)
	{
		job->left[b] = job->scenario->repeats;
		submit_round(job, b);
	}
	while (nfinished < NBATCHES)
	{
		if (hjg_now_ns() - started > TIMEOUT_NS)
			return false;
		nfinished = 0;
		for (int b = 0; b < NBATCHES; b++)
		{
			if (!look_at(job, b, outcome))
				return false;
			nfinished += job->finished[b];
		}
		if (job->scenario->cancel && nspans > 2 && cancelled_ns == 0)
		{
			cancelled_ns = hjg_now_ns();
			__atomic_store_n(&job->slot->cancel, 1, __ATOMIC_SEQ_CST);
		}
		if (job->scenario->repeats == 0 && job->scenario->warm_jobs == 0)
			nanosleep(&(struct timespec) {0, 20000}, NULL);
	}
	outcome->batches_ns = hjg_now_ns() - started;
	if (cancelled_ns != 0)
		outcome->cancel_ns = hjg_now_ns() - cancelled_ns;
	return true;
}

/* Run a job; warm: number of the warm job; -1: not a warm one. */
static bool
run_job(const Scenario *scenario, int device_ix, int warm, Outcome *outcome)
{
	Job			job = {.scenario = scenario};
	int			participant;
	bool		right = false;

	nspans = 0;
	if (!hjg_slot_lease(&arena, 0, (hjg_u32) getpid(), 1, &job.job_ix, &job.generation))
		return false;
	job.slot = hjg_slot_at(&arena, job.job_ix);
	job.report = hjg_slot_report(&arena, job.slot);
	job.owner = hjg_slab_owner(job.job_ix, job.generation);
	job.slot->spec.key_width = WIDTH;
	job.slot->spec.mode = scenario->mode;
	job.slot->spec.strategy = scenario->strategy;
	job.slot->device_ix = (hjg_u32) device_ix;
	participant = hjg_slot_join(job.slot, (hjg_u32) getpid(), 0);
	if (add_keys(&job.slot->build, job.owner, build_rows, -1, scenario->copies) && open_batches(&job))
	{
		job.submitted_ns = hjg_now_ns();
		hjg_op_move(&job.report->build, job.generation, HJG_OP_FILLING, HJG_OP_QUEUED);
		hjg_doorbell_ring(&arena.view, job.job_ix);
		right = wait_build(job.report);
		if (stub != NULL)
		{
			stub->latency_us = scenario->latency_us;
			stub->fail_code = scenario->fail_code;
			stub->fail_at = scenario->fail_at > 0 ? stub->calls + scenario->fail_at : 0;
		}
		right = right && run_batches(&job, outcome);
		if (stub != NULL)
			stub->latency_us = stub->fail_at = 0;
	}
	if (warm >= 0)
		outcome->first_ms[warm] = (double) (job.first_ns - job.submitted_ns) / 1e6;
	hjg_slot_leave(job.slot, participant, (hjg_u32) getpid());
	outcome->strategy = job.report->stats.strategy;
	outcome->fallback = job.report->stats.fallback;
	outcome->busy_ns = job.report->stats.busy_ns;
	if (!hjg_slot_quiesce(&arena, job.slot, job.generation))
		return false;
	hjg_slab_release_all(&arena, job.owner);
	hjg_slot_free(&arena, job.slot, job.generation, HJG_JOB_SWEEPING);
	hjg_doorbell_ring(&arena.view, job.job_ix);
	return right;
}

/* ---- scenarios, each in a separate process ---- */

static int
most_at_a_time(void)
{
	int			most = 0;

	for (int i = 0; i < nspans; i++)
	{
		int			n = 0;

		for (int j = 0; j < nspans; j++)
			n += spans[j].from <= spans[i].from && spans[i].from < spans[j].to;
		most = n > most ? n : most;
	}
	return most;
}

static void
play(const void *arg, void *result)
{
	const Scenario *scenario = arg;
	Outcome    *outcome = result;
	int			device_ix;

	if (!hjg_jobs_open(&serve, &arena, (size_t) 256 << 20))
		return;
	hjg_cuda_set_budget(scenario->budget_bytes);
	device_ix = hjg_jobs_start(&serve);
	stub = hjg_stub_find();
	outcome->has_device = device_ix >= 0;
	outcome->emulated = stub != NULL;
	outcome->right = outcome->has_device;
	for (int warm = -1; warm < scenario->warm_jobs; warm++)
		outcome->right = outcome->right && run_job(scenario, device_ix, warm, outcome);
	outcome->most_running = most_at_a_time();
	outcome->nregions = stub != NULL ? stub->live_regions : 0;
	hjg_scheduler_stop();
	/* all memory of the device is returned, and nothing writes to it any more */
	if (stub != NULL && stub->in_flight != 0)
		outcome->right = false;
}

static Outcome
played(const Scenario *scenario)
{
	Outcome		outcome;
	int			exit_code;
	const bool	told = hjg_jobs_apart(play, scenario, &outcome, sizeof(outcome), &exit_code);

	outcome.told = told;
	outcome.died = exit_code == EXIT_DEVICE;
	return outcome;
}

/* ---- claims ---- */

static void
test_side_by_side(void)
{
	static const Scenario tables[] = {
		{.strategy = HJG_CUDA_DIRECT, .copies = 1, .latency_us = LATENCY_US},
		{.strategy = HJG_CUDA_PACKED, .copies = 1, .latency_us = LATENCY_US},
		{.strategy = HJG_CUDA_TABLE, .copies = 1, .latency_us = LATENCY_US},
		{.strategy = HJG_CUDA_CSR, .copies = 1, .latency_us = LATENCY_US},
		{.strategy = HJG_CUDA_CSR, .copies = 40, .latency_us = LATENCY_US},
		{.strategy = HJG_CUDA_DIRECT, .copies = 3, .mode = HJG_MATCH_ANTI, .latency_us = LATENCY_US},
	};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
	{
		const Scenario *s = &tables[i];
		Outcome		outcome = played(s);

		/* on a machine with other load, not all may begin while the first runs */
		for (int again = 0; again < 4 && outcome.right && outcome.most_running < HJG_MAX_STREAMS; again++)
			outcome = played(s);
		claim(outcome.right && outcome.status == HJG_OK && outcome.fallback == HJG_OK &&
			  outcome.strategy == s->strategy && outcome.busy_ns > 0 &&
			  (outcome.emulated ? outcome.most_running == HJG_MAX_STREAMS : outcome.most_running > 1),
			  "%s, %u a key: %d batches at a time (%d), and their rows", hjg_strategy_name((int) s->strategy), s->copies,
			  HJG_MAX_STREAMS, outcome.most_running);
		claim(!outcome.emulated || outcome.nregions == 2, "keys, which this process can only read, and results are registered");
	}
}

static void
test_one_stream(void)
{
	const Scenario parted = {.strategy = HJG_CUDA_RADIX1, .copies = 1, .latency_us = LATENCY_US};
	const Scenario tight = {
		.strategy = HJG_CUDA_DIRECT, .copies = 1, .latency_us = LATENCY_US, .budget_bytes = (size_t) 7 << 20
	};
	Outcome		outcome = played(&parted);

	claim(outcome.right && outcome.status == HJG_OK && outcome.strategy == parted.strategy && outcome.most_running == 1,
		  "a table that probes write to: one batch at a time (%d)", outcome.most_running);
	outcome = played(&tight);
	claim(outcome.right && outcome.status == HJG_OK && outcome.fallback == HJG_OK && outcome.most_running == 1,
		  "memory for one stream only: one batch at a time (%d), on the device (%u)", outcome.most_running, outcome.fallback);
}

/*
 * Test calls of the batches that fail with errors which the context survives.  When waiting fails, nobody
 * knows what the device still writes to, and the process ends, as it does for a job of one batch
 * (test_cuda.c).
 */
static void
test_failing_calls(void)
{
	int			nright = 0;
	int			ndied = 0;
	int			ntaken = 0;
	int			n = 0;

	for (long call = 1; call <= 150; call++)
	{
		const Scenario s = {
			.strategy = HJG_CUDA_CSR, .copies = 40, .latency_us = 100, .fail_at = call,
			.fail_code = call % 2 == 0 ? HJG_CUDA_ERROR_INVALID_VALUE : HJG_CUDA_ERROR_OUT_OF_MEMORY
		};
		const Outcome outcome = played(&s);

		nright += outcome.right && outcome.status == HJG_OK;
		ndied += outcome.died;
		ntaken += outcome.fallback != HJG_OK;
		n++;
	}
	claim(nright + ndied == n && ndied < n / 2,
		  "a call of the driver fails while batches run side by side: the same rows %d times, the end %d times", nright, ndied);
	claim(ntaken > n / 4, "and the cpu engine has taken over %d times", ntaken);
}

static void
test_cancel(void)
{
	const Scenario s = {.strategy = HJG_CUDA_CSR, .copies = 40, .latency_us = 5000, .cancel = true};
	const Outcome outcome = played(&s);

	claim(outcome.right && outcome.status == HJG_ERR_CANCELLED, "a cancelled job says so");
	claim(outcome.cancel_ns < 100000000, "within 100 ms (%.1f)", (double) outcome.cancel_ns / 1e6);
}

/* Time jobs on a device that has just run a similar one. */
static bool
time_warm_job(HjgCudaStrategyId strategy)
{
	const Scenario s = {.strategy = strategy, .copies = 1, .warm_jobs = WARM_JOBS};
	Outcome		outcome;

	build_rows = WARM_ROWS;
	probe_rows = WARM_ROWS / NBATCHES;
	outcome = played(&s);
	printf("%-8s warm, %d build rows, %d batches of %u rows: first result %.2f ms after the build side's submission (median of %d jobs)%s\n",
		   hjg_strategy_name((int) outcome.strategy), WARM_ROWS, NBATCHES, probe_rows, hjg_median(outcome.first_ms, WARM_JOBS),
		   WARM_JOBS, outcome.right ? "" : "  WRONG");
	return outcome.right;
}

static int
time_jobs(void)
{
	const double rows = (double) NBATCHES * TIMED_PROBE_ROWS * (TIMED_REPEATS + 1);
	static const HjgCudaStrategyId strategies[] = {HJG_CUDA_DIRECT, HJG_CUDA_PACKED, HJG_CUDA_TABLE, HJG_CUDA_CSR};
	bool		right = true;

	build_rows = TIMED_BUILD_ROWS;
	probe_rows = TIMED_PROBE_ROWS;
	printf("%u build rows, %d batches of %u rows %d times each, %d at a time at most\n", build_rows, NBATCHES, probe_rows,
		   TIMED_REPEATS + 1, HJG_MAX_STREAMS);
	for (size_t i = 0; i < sizeof(strategies) / sizeof(strategies[0]); i++)
	{
		const Scenario s = {.strategy = strategies[i], .copies = 1, .repeats = TIMED_REPEATS};
		const Outcome outcome = played(&s);

		printf("%-8s %7.1f ms %7.0f M probe rows a second%s\n", hjg_strategy_name((int) outcome.strategy),
			   (double) outcome.batches_ns / 1e6, rows / ((double) outcome.batches_ns / 1e3), outcome.right ? "" : "  WRONG");
		right &= outcome.right;
	}
	for (size_t i = 0; i < sizeof(strategies) / sizeof(strategies[0]); i++)
		right &= time_warm_job(strategies[i]);
	return !right;
}

int
main(int argc, char **argv)
{
	enum {PROBE_OPENCL = 1, TIME = 2, STREAMS = 4};
	static const char *const names[] = {"probe-opencl", "time", "streams", NULL};
	const unsigned asked = test_options(argc, argv, names);
	const Scenario simple = {.strategy = HJG_CUDA_DIRECT, .copies = 1};
	Outcome		seen;

	/* the process that the scheduler starts to search OpenCL devices: none are wanted here */
	if (asked & PROBE_OPENCL)
		return 0;
	seen = played(&simple);
	if (!seen.told)
		claim(false, "a plain job comes to its end");
	else if (!seen.has_device)
		claim(false, "there is a device");
	if (!seen.has_device)
	{
		printf("1..1\n");
		return 1;
	}
	if (asked & TIME)
		return time_jobs();
	test_side_by_side();
	test_one_stream();
	if (seen.emulated && (asked & STREAMS) == 0)
	{
		test_failing_calls();
		test_cancel();
	}
	printf("1..%d\n", claims_passed + claims_failed);
	return claims_failed > 0;
}
