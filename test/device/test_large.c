/*
 * test_large.c
 *	  Jobs whose numbers exceed 31 bits: more than 2^31 probe rows with as many matches, in batches;
 *	  more than 2^31 build rows, on the device as a whole and in passes of a small budget.  Every pair
 *	  is checked.
 *
 * For a GPU of 80 GB and a host with 24 GB to spare; "test_large ROWS" does the same with fewer rows
 * anywhere.  Build row i has the key i * ODD mod 2^32, so that all keys differ and a key identifies its
 * row.  Each join is a separate process, since a context and its budget live as long as their process.
 */
#include <getopt.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device/hjg_cuda_join.h"
#include "hjg_job_support.h"
#include "hjg_test_engine.h"

#define WIDTH HJG_KEY_WIDTH_4
#define ODD 2654435761u
#define ODD_INVERSE 244002641u	/* ODD * ODD_INVERSE mod 2^32 is 1 */
#define STRIDE 1000003			/* between the partners of consecutive probe rows */
#define NBATCHES 12				/* at a time */
#define BATCH_ROWS (7 * (HJG_SLAB_BYTES / 8 / (hjg_u32) sizeof(HjgPair)))	/* in passes, a round leaves
																			 * room */
#define SLAB_ROWS (HJG_SLAB_BYTES / WIDTH)
#define MANY_ROWS ((1ull << 31) + 3000000)
#define TIMEOUT_NS 200000000000ull

typedef struct Large
{
	const char *name;
	HjgCudaStrategyId strategy;
	hjg_u64		build_rows;
	hjg_u64		probe_rows;		/* of all batches */
	size_t		budget_bytes;	/* of device memory; 0: the default */
} Large;

typedef struct Outcome
{
	bool		device;
	bool		right;
	hjg_u64		npairs;
	hjg_u64		build_ns;
	hjg_u64		probe_ns;
	HjgJobStats stats;
} Outcome;

static HjgServe serve;
static HjgArena arena;

/* Lease a slab of keys for the build side, or for a batch. */
static hjg_u32 *
new_slab(hjg_u64 owner, hjg_u32 nrows, hjg_u32 *slab_ix)
{
	*slab_ix = hjg_slab_lease(&arena, owner, 1, HJG_SLAB_INPUT);
	if (*slab_ix == HJG_NO_SLAB)
		return NULL;
	arena.slabs[*slab_ix].dirty_bytes = nrows * WIDTH;
	return hjg_arena_slab_at(&arena, *slab_ix);
}

static bool
add_build_rows(HjgOp *op, hjg_u64 owner, hjg_u64 nrows)
{
	for (hjg_u64 row = 0; row < nrows; row += SLAB_ROWS)
	{
		const hjg_u32 n = (hjg_u32) (nrows - row < SLAB_ROWS ? nrows - row : SLAB_ROWS);
		hjg_u32		slab_ix;
		hjg_u32    *keys = new_slab(owner, n, &slab_ix);

		if (keys == NULL)
			return false;
		for (hjg_u32 i = 0; i < n; i++)
			keys[i] = ((hjg_u32) row + i) * ODD;
		if (!hjg_op_add_input(&arena, op, owner, slab_ix, n, (hjg_u32) row, false))
			return false;
	}
	return true;
}

/* A place for consecutive batches. */
typedef struct Place
{
	HjgOp	   *op;
	HjgOpReport *report;
	hjg_u32    *keys;
	hjg_u32		keys_slab;
	HjgPair    *page;
	hjg_u64		first_row;		/* of its batch */
	hjg_u32		nrows;			/* 0: none */
	hjg_u32		round;
} Place;

static bool
open_place(Place *place, HjgOp *op, HjgOpReport *report, hjg_u64 owner, hjg_u32 generation)
{
	const hjg_u32 page_slab = hjg_slab_lease(&arena, owner, 1, HJG_SLAB_RESULT);

	place->op = op;
	place->report = report;
	place->keys = new_slab(owner, BATCH_ROWS, &place->keys_slab);
	if (page_slab == HJG_NO_SLAB || place->keys == NULL)
		return false;
	arena.slabs[page_slab].dirty_bytes = HJG_SLAB_BYTES;
	place->page = hjg_arena_slab_at(&arena, page_slab);
	hjg_op_move(report, generation, HJG_OP_FREE, HJG_OP_FILLING);
	op->result_ref = page_slab + 1;
	op->nresults = 1;
	return true;
}

static void
submit(const Large *large, Place *place, hjg_u64 owner, hjg_u32 job_ix, hjg_u32 generation)
{
	hjg_u64		at = place->first_row * STRIDE % large->build_rows;

	for (hjg_u32 i = 0; i < place->nrows; i++)
	{
		place->keys[i] = (hjg_u32) at * ODD;
		at += STRIDE;
		at = at >= large->build_rows ? at % large->build_rows : at;
	}
	place->op->input_ref = place->op->ninputs = 0;
	place->op->nrows = 0;
	hjg_op_add_input(&arena, place->op, owner, place->keys_slab, place->nrows, 0, false);
	place->op->cursor_in = (HjgCursor) {0};
	place->op->round = ++place->round;
	hjg_op_move(place->report, generation, place->round == 1 ? HJG_OP_FILLING : HJG_OP_DRAINING, HJG_OP_QUEUED);
	hjg_doorbell_ring(&arena.view, job_ix);
}

/* Check that one round has the whole batch, each row once, with its partner. */
static bool
is_right(const Large *large, const Place *place)
{
	static hjg_u64 seen[BATCH_ROWS / 64];
	HjgReported reported;

	hjg_check_copy(place->report, &reported);
	if (reported.status != HJG_OK || reported.npairs != place->nrows || reported.cursor.row != place->nrows ||
		reported.checksum != hjg_check_sum(place->page, reported.npairs))
		return false;
	memset(seen, 0, sizeof(seen));
	for (hjg_u64 i = 0; i < reported.npairs; i++)
	{
		const HjgPair pair = place->page[i];

		if (pair.probe_row >= place->nrows || (seen[pair.probe_row / 64] & 1ull << pair.probe_row % 64) != 0 ||
			pair.build_row != place->keys[pair.probe_row] * ODD_INVERSE)
			return false;
		seen[pair.probe_row / 64] |= 1ull << pair.probe_row % 64;
	}
	return true;
}

static bool
stream_probe_rows(const Large *large, Place *places, hjg_u64 owner, hjg_u32 job_ix, hjg_u32 generation, Outcome *outcome)
{
	const hjg_u64 until = hjg_now_ns() + TIMEOUT_NS;
	hjg_u64		next = 0;
	hjg_u64		ndone = 0;

	while (ndone < large->probe_rows && hjg_now_ns() < until)
		for (int b = 0; b < NBATCHES; b++)
		{
			Place	   *place = &places[b];

			if (place->nrows > 0)
			{
				if (!hjg_op_move(place->report, generation, HJG_OP_READY, HJG_OP_DRAINING))
					continue;
				if (!is_right(large, place))
					return false;
				outcome->npairs += place->nrows;
				ndone += place->nrows;
				place->nrows = 0;
			}
			if (next == large->probe_rows)
				continue;
			place->first_row = next;
			place->nrows = (hjg_u32) (large->probe_rows - next < BATCH_ROWS ? large->probe_rows - next : BATCH_ROWS);
			next += place->nrows;
			submit(large, place, owner, job_ix, generation);
		}
	return ndone == large->probe_rows;
}

static bool
run_job(const Large *large, int device_ix, Outcome *outcome)
{
	Place		places[NBATCHES] = {0};
	const hjg_u64 until = hjg_now_ns() + TIMEOUT_NS;
	hjg_u64		started;
	hjg_u64		owner;
	HjgJobSlot *job;
	HjgJobReport *report;
	hjg_u32		job_ix;
	hjg_u32		generation;

	if (!hjg_slot_lease(&arena, 0, (hjg_u32) getpid(), 1, &job_ix, &generation))
		return false;
	job = hjg_slot_at(&arena, job_ix);
	report = hjg_slot_report(&arena, job);
	owner = hjg_slab_owner(job_ix, generation);
	job->spec.key_width = WIDTH;
	job->spec.mode = HJG_MATCH_ALL;
	job->spec.strategy = large->strategy;
	job->spec.nthreads = 1;
	job->device_ix = (hjg_u32) device_ix;
	job->spec.probe_rows = large->probe_rows;
	(void) hjg_slot_join(job, (hjg_u32) getpid(), 0);
	if (!add_build_rows(&job->build, owner, large->build_rows))
		return false;
	for (int b = 0; b < NBATCHES; b++)
		if (!open_place(&places[b], &job->batches[b], &report->batches[b], owner, generation))
			return false;
	started = hjg_now_ns();
	hjg_op_move(&report->build, generation, HJG_OP_FILLING, HJG_OP_QUEUED);
	hjg_doorbell_ring(&arena.view, job_ix);
	while (hjg_op_state(&report->build) != HJG_OP_READY && hjg_now_ns() < until)
		nanosleep(&(struct timespec) {0, 100000}, NULL);
	outcome->build_ns = hjg_now_ns() - started;
	started = hjg_now_ns();
	outcome->right = stream_probe_rows(large, places, owner, job_ix, generation, outcome);
	outcome->probe_ns = hjg_now_ns() - started;
	outcome->stats = report->stats;
	return outcome->right;
}

/* Make the cpu engine too expensive, so that the device joins what it can. */
static void
price_cpu_out(HjgControl *control)
{
	HjgUnitCosts costs = hjg_model_default_costs;

	costs.probe_tuple_ns *= 900;	/* the most that is believed */
	memcpy(control->calibration, &costs, sizeof(costs));
	control->calibration_seq = 2;
}

static void
play(const void *arg, void *result)
{
	const Large *large = arg;
	Outcome    *outcome = result;
	const size_t bytes = (large->build_rows / SLAB_ROWS + 2 * NBATCHES + 16) * HJG_SLAB_BYTES;
	int			device_ix;

	if (!hjg_jobs_open(&serve, &arena, bytes + (8u << 20)))
		return;
	hjg_cuda_set_budget(large->budget_bytes);
	price_cpu_out(arena.control);
	device_ix = hjg_jobs_start(&serve);
	outcome->device = device_ix >= 0;
	if (outcome->device)
		run_job(large, device_ix, outcome);
}

static Outcome
played(const Large *large)
{
	Outcome		outcome;
	int			exit_code;

	(void) hjg_jobs_apart(play, large, &outcome, sizeof(outcome), &exit_code);
	return outcome;
}

int
main(int argc, char **argv)
{
	static const char *const names[] = {"probe-opencl", NULL};
	const bool	probing = test_options(argc, argv, names) != 0;
	const hjg_u64 many = optind < argc ? strtoull(argv[optind], NULL, 0) : MANY_ROWS;
	const Large joins[] = {
		{.name = "probe rows, and as many matches", .strategy = HJG_CUDA_TABLE, .build_rows = 4000000 < many ? 4000000 : many, .probe_rows = many},
		{.name = "build rows", .strategy = HJG_CUDA_CSR, .build_rows = many, .probe_rows = 32 * BATCH_ROWS},
		{.name = "build rows, in passes", .build_rows = many, .probe_rows = 3 * BATCH_ROWS, .budget_bytes = many * 4},
	};

	/* the process that the scheduler starts to search OpenCL devices: none are wanted here */
	if (probing)
		return 0;
	for (size_t i = 0; i < sizeof(joins) / sizeof(joins[0]); i++)
	{
		const Large *large = &joins[i];
		const Outcome outcome = played(large);
		const bool	in_passes = large->budget_bytes > 0;

		if (i == 0 && !outcome.device)
		{
			printf("not ok 1 - there is a device\n1..1\n");
			return 1;
		}
		claim(outcome.right && outcome.npairs == large->probe_rows && outcome.stats.fallback == HJG_OK &&
			  (outcome.stats.npartitions > 1) == in_passes,
			  "%llu %s: every pair is right (%s, %u passes, %.1f GB; build %.0f ms, probe %.0f ms)",
			  (unsigned long long) many, large->name, hjg_strategy_name((int) outcome.stats.strategy),
			  outcome.stats.npartitions, (double) outcome.stats.workspace_bytes / 1e9, (double) outcome.build_ns / 1e6,
			  (double) outcome.probe_ns / 1e6);
	}
	printf("1..%d\n", claims_passed + claims_failed);
	return claims_failed > 0;
}
