/*
 * test_program.c
 *	  Programs on a GPU, or with --cpu on the processor's threads: random ones give the answers of an evaluator of their own, hostile ones are refused or harmless, columns
 *	  stay on the device and make room, and every call of the driver API may fail.
 *
 * Runs on a real GPU if there is one, and on the stub as test_cuda.c does; --short does less, --brief and --hostile are for sanitizers,
 * --times measures programs over HJG_TEST_ROWS rows instead (60 million), those whose name has HJG_TEST_QUERY in it.  HJG_TEST_SEED changes the programs.
 */
#include <string.h>
#include <unistd.h>

#include "device/hjg_cpu_program.h"
#include "device/hjg_cuda_program.h"
#include "hjg_fault_loop.h"
#include "hjg_job_support.h"
#include "hjg_program_cases.h"
#include "hjg_test_engine.h"
#include "hjg_test_stub.h"
#include "layout/hjg_checksum.h"

#define MOST_CHUNKS 7

static HjgStub *stub;
static bool brief;				/* for a sanitizer that takes long */
static bool alone = true;		/* no other thread runs programs */
static const HjgDriver *driver = &hjg_cuda_program_driver;
static HjgProgramMachine *machine = &hjg_cuda_machine;
static HjgPool *pool;			/* of the processor's threads */
static const HjgJoinSpec program_spec = {.key_width = 8, .mode = HJG_MATCH_PROGRAM};

static bool
on_cpu(void)
{
	return machine == &hjg_cpu_machine;
}

/* ---- one program ---- */

/* Cut a block into segments in no order; returns how many. */
static int
cut_block(const char *block, size_t nbytes, HjgSegment *segments)
{
	const hjg_u32 nwords = (hjg_u32) (nbytes / 8);
	hjg_u32		at = 0;

	for (int i = 0; i < MOST_CHUNKS; i++)
	{
		const hjg_u32 n = i + 1 == MOST_CHUNKS ? nwords - at : (nwords - at) / 3;

		segments[(i * 3 + 1) % MOST_CHUNKS] = (HjgSegment) {.keys = block + (size_t) at * 8, .nrows = n, .first_row = at};
		at += n;
	}
	return MOST_CHUNKS;
}

/* Ask for all words, in rounds of so many pages; NULL, with the words, if the rounds are right. */
static const char *
read_words(void *join, int npages, hjg_u64 **words, hjg_u64 *nwords)
{
	HjgPair    *pages[2];
	HjgResult	result = {.pages = pages, .npages = npages, .page_pairs = HJG_SLAB_BYTES / sizeof(HjgPair), .sum = true};
	HjgCursor	cursor = {0, 0, 0};
	const char *wrong = NULL;

	*nwords = 0;
	*words = NULL;
	if (npages == 1)
		result.page_pairs = 100;
	for (int i = 0; i < npages; i++)
		pages[i] = aligned_alloc(64, HJG_SLAB_BYTES);
	do
	{
		const HjgCursor from = cursor;
		hjg_u64		sum = 0;

		if (driver->probe(join, NULL, 0, &cursor, &result) != HJG_OK)
			wrong = "a round fails";
		else if (cursor.row != from.row + result.npairs || cursor.skip != 0 || result.npairs > (hjg_u64) npages * result.page_pairs)
			wrong = "wrong cursor";
		if (wrong != NULL)
			break;
		*words = realloc(*words, (*nwords + result.npairs + 1) * sizeof(hjg_u64));
		for (hjg_u64 i = 0; i < result.npairs; i++)
		{
			const HjgPair *pair = &pages[i / result.page_pairs][i % result.page_pairs];

			memcpy(*words + *nwords + i, pair, sizeof(HjgPair));
			sum += hjg_check_sum(pair, 1);
		}
		*nwords += result.npairs;
		if (!result.summed || sum != result.checksum)
			wrong = "wrong checksum";
	} while (wrong == NULL && result.npairs > 0);
	for (int i = 0; i < npages; i++)
		free(pages[i]);
	return wrong;
}

/* Run a program and compare its result, if it has one. */
static const char *
run_program(const ProgramCase *c, const HjgEnv *env, HjgStatus *status)
{
	const HjgKeptFile kept = {.base = c->kept, .nbytes = c->kept_bytes};
	HjgSegment	segments[MOST_CHUNKS];
	const int	nsegments = cut_block(c->block, c->nbytes, segments);
	const char *wrong;
	hjg_u64    *words;
	hjg_u64		nwords;
	void	   *join;

	if (alone)
		hjg_device_programs_open(&kept);
	*status = driver->build(0, env, &program_spec, segments, nsegments, &join);
	if (stub != NULL && alone && stub->in_flight != 0)
		return "a program leaves work in flight";
	if (*status != HJG_OK)
		return NULL;
	wrong = read_words(join, c->ngroups % 2 + 1, &words, &nwords);
	if (wrong == NULL)
		wrong = program_compare(c, words, nwords);
	free(words);
	driver->free(join);
	return wrong;
}

/* Run a program that must end with its answer, or be refused; returns what is wrong. */
static const char *
run_rightly(const ProgramCase *c)
{
	Memory		memory;
	HjgStatus	status;
	const char *wrong;

	/* one thread must do, too */
	memory_init(&memory, c->ngroups % 3 == 0 ? NULL : pool);
	wrong = run_program(c, &memory.env, &status);
	if (wrong == NULL && status != (c->refused ? HJG_ERR_INPUT : HJG_OK))
		wrong = status == HJG_OK ? "a key that comes twice is not noticed" : hjg_status_text(status);
	if (wrong == NULL && !memory_is_clean(&memory))
		wrong = "memory is left";
	return wrong;
}

/* ---- answers ---- */

static void
test_answers(const char *what, const ProgramShape *shape, int n)
{
	const char *wrong = NULL;
	int			nrefused = 0;
	hjg_u64		ngroups = 0;
	hjg_u64		seed = test_seed;
	ProgramCase c;

	if (brief)
		n = (n + 9) / 10;
	for (int i = 0; i < n && wrong == NULL; i++)
	{
		ProgramShape one = *shape;

		seed = hjg_mix64(HJG_HASH_NO_SEED, seed + (hjg_u64) i + 1);
		one.npipelines = shape->npipelines > 0 ? shape->npipelines : 1 + (hjg_u32) i % 4;
		program_create(&c, seed, &one);
		wrong = run_rightly(&c);
		nrefused += c.refused;
		ngroups += c.ngroups;
		if (wrong != NULL)
			printf("# program %d, seed %#llx: %s\n", i, (unsigned long long) seed, wrong);
		program_destroy(&c);
	}
	claim(wrong == NULL, "%s: %d programs with %llu groups are right, %d of them refused", what, n, (unsigned long long) ngroups, nrefused);
}

/* Tables by ranks, groups that threads share, filters of small tables. */
static void
test_forms_of_tables(int times)
{
	const size_t near_bytes = machine->near_bytes;
	const size_t filtered_bytes = hjg_device_filtered_bytes;
	const size_t own_bits_bytes = hjg_device_own_bits_bytes;
	const ProgramShape one_key = {.npipelines = 3, .most_rows = 500, .one_key = true};
	const ProgramShape repeated = {.npipelines = 2, .most_rows = 20000, .one_key = true, .repeated_keys = true};

	test_answers("whose tables have one key", &one_key, 60 * times);
	test_answers("whose groups of groups have one key", &(ProgramShape) {.npipelines = 3, .most_rows = 500, .one_key = true, .nested = true}, 20 * times);
	test_answers("of many rows, with a key that comes twice", &repeated, 8 * times);
	hjg_device_own_bits_bytes = 0;
	test_answers("whose threads have no bits of their own", &one_key, 60 * times);
	test_answers("of many rows, with a key that comes twice, so", &repeated, 8 * times);
	hjg_device_own_bits_bytes = own_bits_bytes;
	machine->near_bytes = 0;
	test_answers("whose groups all threads share", &(ProgramShape) {.most_rows = 2000}, 40 * times);
	test_answers("whose groups have ranks", &(ProgramShape) {.npipelines = 2, .most_rows = 2000, .one_key = true}, 40 * times);
	test_answers("of many rows, whose groups have ranks", &(ProgramShape) {.npipelines = 1, .most_rows = 20000, .one_key = true, .many_groups = true}, 4 * times);
	machine->near_bytes = near_bytes;
	hjg_device_filtered_bytes = 0;
	test_answers("whose tables have filters", &(ProgramShape) {.npipelines = 3, .most_rows = 2000}, 40 * times);
	hjg_device_filtered_bytes = filtered_bytes;
	test_answers("whose first groups are of very many", &(ProgramShape) {.npipelines = 1, .most_rows = 30000, .many_groups = true}, 2 * times);
}

static void
test_all_answers(void)
{
	const int	times = short_run ? 1 : 5;
	const size_t generous = machine->generous_bytes;
	const hjg_u64 few_more = hjg_device_few_more;

	test_answers("of few rows", &(ProgramShape) {.most_rows = 300}, 60 * times);
	test_answers("of more rows", &(ProgramShape) {.most_rows = 20000}, 8 * times);
	test_answers("with many groups", &(ProgramShape) {.most_rows = 30000, .many_groups = true}, 4 * times);
	test_answers("with groups of groups", &(ProgramShape) {.npipelines = 3, .most_rows = 300, .nested = true}, 20 * times);
	test_answers("whose pipelines share sinks", &(ProgramShape) {.npipelines = 4, .most_rows = 300, .shared_sinks = true}, 60 * times);
	test_answers("whose pipelines share sinks with one key", &(ProgramShape) {.npipelines = 4, .most_rows = 2000, .one_key = true, .shared_sinks = true}, 40 * times);
	test_answers("whose pipelines share groups that grow", &(ProgramShape) {.npipelines = 3, .most_rows = 20000, .many_groups = true, .outgrown = true, .shared_sinks = true}, 4 * times);
	test_answers("with keys that come twice", &(ProgramShape) {.npipelines = 2, .most_rows = 200, .repeated_keys = true}, 8 * times);
	machine->generous_bytes = 0;
	test_answers("whose tables grow", &(ProgramShape) {.npipelines = 3, .most_rows = 30000, .many_groups = true, .outgrown = true}, 4 * times);
	machine->generous_bytes = generous;
	hjg_device_few_more = 0;
	test_answers("whose first groups come almost alone", &(ProgramShape) {.most_rows = 300}, 60 * times);
	test_answers("of many, whose first groups come almost alone", &(ProgramShape) {.most_rows = 3000, .many_groups = true}, 20 * times);
	hjg_device_few_more = few_more;
	if (on_cpu())
	{
		test_forms_of_tables(times);
		return;
	}
	hjg_cuda_resident_piece_bytes = 40000;
	test_answers("whose columns come in many pieces", &(ProgramShape) {.most_rows = 2000}, 10 * times);
	hjg_cuda_resident_piece_bytes = (size_t) 8 << 20;
}

/* ---- limits ---- */

static HjgStatus
status_of(const ProgramCase *c)
{
	Memory		memory;
	HjgStatus	status;

	memory_init(&memory, pool);
	return run_program(c, &memory.env, &status) == NULL && memory_is_clean(&memory) ? status : (HjgStatus) -1;
}

/* A GPU's memory has copies of columns, which are compared with what was written. */
static void
test_changed_columns(ProgramCase *c)
{
	(void) hjg_cuda_resident_drop(hjg_cuda_made(0));
	for (size_t i = 0; i < c->kept_bytes; i++)
		c->kept[i] ^= 1;
	claim(status_of(c) == HJG_ERR_INPUT, "columns that are not as they were written are refused");
	for (size_t i = 0; i < c->kept_bytes; i++)
		c->kept[i] ^= 1;
	claim(run_rightly(c) == NULL, "and the program is right with sound ones");
}

/* Find the least memory that a program runs in, with the help of which it is right. */
static void
test_memory_limit(const ProgramCase *c)
{
	HjgProgram *head = (HjgProgram *) c->block;
	const hjg_u64 most = head->max_bytes;
	hjg_u64		least = 0;
	const char *wrong = NULL;

	for (hjg_u64 step = (hjg_u64) 1 << 30; step > 0 && wrong == NULL; step /= 2)
	{
		HjgStatus	status;

		head->max_bytes = least + step;
		status = status_of(c);
		wrong = status == HJG_OK || status == HJG_ERR_MEMORY ? NULL : hjg_status_text(status);
		least += status == HJG_ERR_MEMORY ? step : 0;
	}
	claim(wrong == NULL && least > 10000 && least < 100000000, "a program whose tables have less memory than %llu bytes ends so",
		  (unsigned long long) least + 1);
	head->max_bytes = least + 1;
	claim(run_rightly(c) == NULL, "and is right with as much");
	head->max_bytes = most;
}

static void
test_limits(void)
{
	const ProgramShape shape = {.npipelines = 1, .most_rows = 3000, .many_groups = true, .all_kept = true, .whole = true};
	ProgramCase c;
	HjgProgram *head;

	for (hjg_u64 seed = test_seed;; seed++)
	{
		program_create(&c, seed, &shape);
		if (c.ngroups > 10 && c.kept_bytes > 10000)
			break;
		program_destroy(&c);
	}
	head = (HjgProgram *) c.block;
	claim(run_rightly(&c) == NULL, "a program with as many groups as it may have is right");
	head->max_groups--;
	claim(status_of(&c) == HJG_ERR_INPUT, "one more is too many");
	head->max_groups++;
	if (on_cpu())
		test_memory_limit(&c);
	else
		test_changed_columns(&c);
	program_destroy(&c);
}

/* ---- cancellation ---- */

static void
test_cancel(void)
{
	const ProgramShape shape = {.npipelines = 3, .most_rows = 2000};
	const char *wrong = NULL;
	bool		ended = false;
	long		n;
	ProgramCase c;

	program_create(&c, test_seed, &shape);
	for (n = 1; !ended && wrong == NULL; n++)
	{
		Memory		memory;
		HjgStatus	status;

		memory_init(&memory, pool);
		memory.cancel_at = n;
		wrong = run_program(&c, &memory.env, &status);
		ended = status == HJG_OK || status == HJG_ERR_INPUT;
		if (wrong == NULL && !ended && status != HJG_ERR_CANCELLED)
			wrong = hjg_status_text(status);
		if (wrong == NULL && !memory_is_clean(&memory))
			wrong = "memory is left";
	}
	claim(wrong == NULL && n > 3, "a program that is cancelled at any of %ld polls ends so%s%s", n, wrong != NULL ? ": " : "", wrong != NULL ? wrong : "");
	program_destroy(&c);
	if (on_cpu())
		return;
	claim(hjg_cuda_resident_drop(hjg_cuda_made(0)) == 0, "no column is in use afterwards");
	claim(hjg_cuda_pool_trim(hjg_cuda_made(0)->pool, 0) == 0, "no block is in use afterwards");
}

/* ---- columns that stay ---- */

/* Make a program that reads kept columns of some size; coded: none of them are strings that are tested. */
static void
create_kept(ProgramCase *c, hjg_u64 seed, hjg_u32 most_rows, bool coded)
{
	const ProgramShape shape = {.npipelines = 2, .most_rows = most_rows, .all_kept = true, .coded = coded};

	for (;; seed += 1000)
	{
		program_create(c, seed, &shape);
		if (c->kept_bytes > 20 * (size_t) most_rows && !c->refused)
			return;
		program_destroy(c);
	}
}

/* Build a join that needs some megabytes. */
static bool
join_is_built(void)
{
	const HjgJoinSpec spec = {.key_width = 8, .mode = HJG_MATCH_ALL};
	HjgStatus	status;
	Memory		memory;
	void	   *join;
	Case		c;

	case_create(&c, test_seed, 8, HJG_MATCH_ALL, KEYS_UNIQUE, 100000, 10);
	memory_init(&memory, pool);
	status = hjg_cuda_driver.build(0, &memory.env, &spec, c.build.segments, c.build.nsegments, &join);
	if (status == HJG_OK)
		hjg_cuda_driver.free(join);
	case_destroy(&c);
	return status == HJG_OK;
}

static void
test_residents(void)
{
	HjgCudaDevice *device = hjg_cuda_made(0);
	HjgCudaPool *normal = device->pool;
	HjgCudaGrant grant;
	ProgramCase c[3];
	bool		right = true;

	create_kept(&c[0], test_seed + 1, 20000, true);
	claim(run_rightly(&c[0]) == NULL, "a program brings its columns");
	memset(c[0].kept, 0x77, c[0].kept_bytes);
	claim(run_rightly(&c[0]) == NULL, "the next one finds them on the device");
	claim(hjg_cuda_resident_drop(device) == 0, "they can be dropped");
	claim(status_of(&c[0]) == HJG_ERR_INPUT, "and are then brought anew");
	program_destroy(&c[0]);

	/* room for one of them at a time */
	hjg_cuda_pool_trim(normal, 0);
	for (int i = 0; i < 3; i++)
		create_kept(&c[i], test_seed + 2 + (hjg_u64) i, 20000, true);
	device->pool = hjg_cuda_pool_create((size_t) 12 << 20);
	machine->generous_bytes = (size_t) 1 << 20;
	for (int i = 0; i < 9 && right; i++)
	{
		const char *wrong = run_rightly(&c[i % 3]);

		if (wrong != NULL)
			printf("# program %d: %s\n", i, wrong);
		right = wrong == NULL;
	}
	claim(right, "programs that do not fit together drive each other's columns out");
	claim(join_is_built(), "a join finds memory, too");
	claim(hjg_cuda_admit(device->pool, hjg_cuda_pool_budget(device->pool), NULL, 0, &grant) == HJG_OK,
		  "a job that needs all memory gets that of unused columns");
	claim(status_of(&c[0]) == HJG_ERR_MEMORY, "a program without memory for its columns ends so");
	hjg_cuda_dismiss(&grant);
	claim(run_rightly(&c[0]) == NULL, "and is right when there is some");
	claim(hjg_cuda_resident_drop(device) == 0 && hjg_cuda_pool_trim(device->pool, 0) == 0, "nothing is in use afterwards");
	device->pool = normal;
	machine->generous_bytes = (size_t) 64 << 20;
	for (int i = 0; i < 3; i++)
		program_destroy(&c[i]);
}

/* ---- through the scheduler ---- */

static HjgServe serve;
static HjgArena arena;

/* Put the words of a block into slabs; false if there are none left. */
static bool
send_block(const ProgramCase *c, HjgOp *op, hjg_u64 owner)
{
	const hjg_u32 nwords = (hjg_u32) (c->nbytes / 8);

	for (hjg_u32 at = 0, n; at < nwords; at += n)
	{
		const hjg_u32 slab_ix = hjg_slab_lease(&arena, owner, 1, HJG_SLAB_INPUT);

		if (slab_ix == HJG_NO_SLAB)
			return false;
		n = nwords - at < HJG_SLAB_BYTES / 8 ? nwords - at : HJG_SLAB_BYTES / 8;
		memcpy(hjg_arena_slab_at(&arena, slab_ix), c->block + (size_t) at * 8, (size_t) n * 8);
		arena.slabs[slab_ix].dirty_bytes = n * 8;
		if (!hjg_op_add_input(&arena, op, owner, slab_ix, n, at, false))
			return false;
	}
	return true;
}

/* Wait until the operation is ready; returns its status, or -1. */
static int
await_ready(const HjgOpReport *report)
{
	for (int i = 0; i < 500000 && hjg_op_state(report) != HJG_OP_READY; i++)
		usleep(20);
	return hjg_op_state(report) == HJG_OP_READY ? (int) report->status : -1;
}

/* Ask for all words by rounds of one page, each of which is checked; returns the words, or NULL. */
static hjg_u64 *
fetch_words(HjgOp *op, HjgOpReport *report, hjg_u32 job_ix, hjg_u32 generation, HjgPair *page, hjg_u64 *nwords)
{
	HjgPair    *const copy = malloc(HJG_SLAB_BYTES);
	HjgExpected expected = {
		.mode = HJG_MATCH_PROGRAM, .probe_rows = 1, .pages = &page, .npages = 1, .page_pairs = HJG_SLAB_BYTES / sizeof(HjgPair)
	};
	hjg_u64    *words = NULL;
	HjgReported reported;

	*nwords = 0;
	do
	{
		op->cursor_in = expected.cursor;
		op->round = ++expected.round;
		hjg_op_move(report, generation, expected.round == 1 ? HJG_OP_FILLING : HJG_OP_DRAINING, HJG_OP_QUEUED);
		hjg_doorbell_ring(&arena.view, job_ix);
		if (await_ready(report) != HJG_OK)
			break;
		hjg_op_move(report, generation, HJG_OP_READY, HJG_OP_DRAINING);
		hjg_check_copy(report, &reported);
		if (hjg_check_round(&expected, &reported, &(HjgRoundCopy) {.pairs = copy}) != HJG_CHECK_GOOD)
			break;
		words = realloc(words, (*nwords + reported.npairs + 1) * sizeof(hjg_u64));
		memcpy(words + *nwords, copy, reported.npairs * sizeof(HjgPair));
		*nwords += reported.npairs;
		expected.cursor = reported.cursor;
	} while (reported.npairs > 0);
	free(copy);
	return words;
}

/* Run a program on a device as a job; returns its status, or -1 if its words are wrong. */
static int
run_job(const ProgramCase *c, int device_ix)
{
	hjg_u32		job_ix;
	hjg_u32		generation;
	HjgJobSlot *slot;
	HjgJobReport *report;
	hjg_u64		owner;
	hjg_u32		slab_ix;
	int			participant;
	int			status = -1;

	if (!hjg_slot_lease(&arena, 0, (hjg_u32) getpid(), 1, &job_ix, &generation))
		return -1;
	slot = hjg_slot_at(&arena, job_ix);
	report = hjg_slot_report(&arena, slot);
	owner = hjg_slab_owner(job_ix, generation);
	slot->spec = program_spec;
	slot->device_ix = (hjg_u32) device_ix;
	participant = hjg_slot_join(slot, (hjg_u32) getpid(), 0);
	slab_ix = hjg_slab_lease(&arena, owner, 1, HJG_SLAB_RESULT);
	if (slab_ix != HJG_NO_SLAB && send_block(c, &slot->build, owner))
	{
		HjgOp	   *op = &slot->batches[0];

		arena.slabs[slab_ix].dirty_bytes = HJG_SLAB_BYTES;
		hjg_op_move(&report->batches[0], generation, HJG_OP_FREE, HJG_OP_FILLING);
		op->input_ref = op->ninputs = 0;
		op->nrows = 0;
		op->result_ref = slab_ix + 1;
		op->nresults = 1;
		hjg_op_move(&report->build, generation, HJG_OP_FILLING, HJG_OP_QUEUED);
		hjg_doorbell_ring(&arena.view, job_ix);
		status = await_ready(&report->build);
		if (status == HJG_OK)
		{
			hjg_u64		nwords;
			hjg_u64    *words = fetch_words(op, &report->batches[0], job_ix, generation, hjg_arena_slab_at(&arena, slab_ix), &nwords);

			if (words == NULL || program_compare(c, words, nwords) != NULL)
				status = -1;
			free(words);
		}
	}
	hjg_slot_leave(slot, participant, (hjg_u32) getpid());
	if (!hjg_slot_quiesce(&arena, slot, generation))
		return -1;
	hjg_slab_release_all(&arena, owner);
	hjg_slot_free(&arena, slot, generation, HJG_JOB_SWEEPING);
	hjg_doorbell_ring(&arena.view, job_ix);
	return status;
}

/* Start the scheduler; returns the place of the device, or -1. */
static int
start_jobs(void)
{
	const int	gpu = hjg_jobs_start(&serve);

	/* the cpu engine is the first device */
	return on_cpu() ? 0 : gpu;
}

static void
test_jobs(void)
{
	ProgramCase few;
	ProgramCase many;
	int			device_ix;

	create_kept(&few, test_seed + 30, 3000, false);
	/* more words than a page holds, whatever a group has */
	for (hjg_u64 seed = test_seed + 31;; seed++)
	{
		program_create(&many, seed, &(ProgramShape) {.npipelines = 1, .most_rows = 130000, .many_groups = true});
		if (many.ngroups > HJG_SLAB_BYTES / 8 / 3)
			break;
		program_destroy(&many);
	}
	if (!hjg_jobs_open(&serve, &arena, (size_t) 64 << 20))
	{
		claim(false, "there is an arena");
		return;
	}
	serve.kept = (HjgKeptFile) {.base = few.kept, .nbytes = few.kept_bytes};
	device_ix = start_jobs();
	claim(device_ix >= 0 && run_job(&few, device_ix) == HJG_OK, "a job of the scheduler runs a program");
	((HjgProgram *) few.block)->nbytes++;
	claim(run_job(&few, device_ix) == HJG_ERR_INPUT, "a job with an unsound program is told so, and no engine takes over");
	((HjgProgram *) few.block)->nbytes--;
	hjg_scheduler_stop();
	serve.kept = (HjgKeptFile) {.base = many.kept, .nbytes = many.kept_bytes};
	device_ix = start_jobs();
	claim(device_ix >= 0 && run_job(&many, device_ix) == HJG_OK, "a result of %u groups comes in rounds", many.ngroups);
	hjg_scheduler_stop();
	program_destroy(&few);
	program_destroy(&many);
}

/* Run programs in several threads, which share columns. */
static void *
run_many(void *arg)
{
	const ProgramCase *c = arg;
	const char *wrong = NULL;

	for (int i = 0; i < 20 && wrong == NULL; i++)
	{
		wrong = run_rightly(c);
		if (i % 5 == 4 && !on_cpu())
			(void) hjg_cuda_resident_drop(hjg_cuda_made(0));
	}
	return (void *) (size_t) wrong;
}

static void
test_threads(void)
{
	pthread_t	threads[4];
	ProgramCase c;
	bool		right = true;

	create_kept(&c, test_seed + 9, 3000, false);
	hjg_device_programs_open(&(HjgKeptFile) {.base = c.kept, .nbytes = c.kept_bytes});
	alone = false;
	for (int i = 0; i < 4; i++)
		right &= pthread_create(&threads[i], NULL, run_many, &c) == 0;
	for (int i = 0; i < 4 && right; i++)
	{
		void	   *wrong;

		right = pthread_join(threads[i], &wrong) == 0 && wrong == NULL;
		if (wrong != NULL)
			printf("# thread %d: %s\n", i, (const char *) wrong);
	}
	alone = true;
	claim(right, "programs of four threads share columns");
	program_destroy(&c);
}

/* ---- hostile programs ---- */

/* Copy a case's block and check the copy; returns what is wrong with it. */
static const char *
check_block(const char *block, size_t nbytes, hjg_u64 kept_bytes)
{
	HjgSegment	segments[MOST_CHUNKS];
	HjgDeviceProgram program;
	Memory		memory;
	const char *wrong = "the copy";

	memory_init(&memory, pool);
	if (hjg_device_program_copy(&memory.env, segments, cut_block(block, nbytes, segments), &program) == HJG_OK)
		wrong = hjg_device_program_check(&program, kept_bytes);
	hjg_device_program_free(&program);
	return memory_is_clean(&memory) ? wrong : NULL;
}

/* A field of a sound program, and a value that it must not have. */
typedef struct Breakage
{
	const char *what;
	size_t		off;			/* in the block */
	size_t		size;
	hjg_u64		value;
} Breakage;

#define IN_HEAD(field) offsetof(HjgProgram, field), sizeof(head->field)
#define IN_ARRAY(array, type, i, field) head->array.off + (i) * sizeof(type) + offsetof(type, field), sizeof(((type *) 0)->field)

/* Claim that a sound program with any of these is refused. */
static void
refuse_breakages(ProgramCase *c, const Breakage *breakages, size_t n)
{
	for (size_t i = 0; i < n; i++)
	{
		const Breakage *breakage = &breakages[i];
		char		saved[8];

		memcpy(saved, c->block + breakage->off, 8);
		memcpy(c->block + breakage->off, &breakage->value, breakage->size < 8 ? breakage->size : breakage->size == 8 ? 8 : 1);
		claim(check_block(c->block, c->nbytes, c->kept_bytes) != NULL, "a program with %s is refused", breakage->what);
		memcpy(c->block + breakage->off, saved, 8);
	}
	claim(check_block(c->block, c->nbytes, c->kept_bytes) == NULL, "and is sound without them");
}

static void
test_breakages(void)
{
	const ProgramShape shape = {.npipelines = 3, .most_rows = 100};
	ProgramCase c;
	HjgProgram *head;
	HjgProgramPipeline *pipelines;
	HjgProgramTable *tables;
	HjgProgramStep *steps;
	hjg_u32		probe = 0;
	hjg_u32		set = 0;
	hjg_u32		column = 0;
	hjg_u32		segment = 0;

	/* a program with a bit of everything but strings */
	for (hjg_u64 seed = test_seed;; seed++)
	{
		bool		found[5] = {0};

		program_create(&c, seed, &shape);
		head = (HjgProgram *) c.block;
		pipelines = (HjgProgramPipeline *) (c.block + head->pipelines.off);
		steps = (HjgProgramStep *) (c.block + head->steps.off);
		tables = (HjgProgramTable *) (c.block + head->tables.off);
		for (hjg_u32 i = pipelines[2].first_step; i < pipelines[2].first_step + pipelines[2].nsteps; i++)
		{
			probe = steps[i].op == HJG_PROGRAM_PROBE_INNER ? i : probe;
			found[0] |= steps[i].op == HJG_PROGRAM_PROBE_INNER;
			set = steps[i].op == HJG_PROGRAM_IN_SET && steps[i].low > 2 ? i : set;
			found[1] |= steps[i].op == HJG_PROGRAM_IN_SET && steps[i].low > 2;
		}
		for (hjg_u32 i = pipelines[1].first_step; i < pipelines[1].first_step + pipelines[1].nsteps; i++)
			found[4] |= steps[i].op >= HJG_PROGRAM_PROBE_INNER && steps[i].arg == 0;
		for (hjg_u32 i = 0; i < pipelines[2].nsegments && !found[3]; i++)
		{
			segment = pipelines[2].first_segment + i;
			found[3] = ((HjgProgramSegment *) (c.block + head->segments.off))[segment].nruns > 1;
		}
		for (hjg_u32 i = 0; i < pipelines[2].ncolumns && found[3]; i++)
		{
			const hjg_u32 at = ((HjgProgramSegment *) (c.block + head->segments.off))[segment].first_column + i;
			const HjgProgramColumn *of = (HjgProgramColumn *) (c.block + head->columns.off) + at;

			column = of->width == 4 && of->test == HJG_PROGRAM_NO_TEST ? at : column;
			found[2] |= of->width == 4 && of->test == HJG_PROGRAM_NO_TEST;
		}
		if (found[0] && found[1] && found[2] && found[3] && found[4] && tables[2].nkeys > 0 && tables[2].narguments > 0 && pipelines[1].source == HJG_PROGRAM_FROM_SEGMENTS && pipelines[2].source == HJG_PROGRAM_FROM_SEGMENTS &&
			!tables[0].has_groups && head->nsteps > 0 && head->maps.n > 0)
			break;
		program_destroy(&c);
	}
	claim(check_block(c.block, c.nbytes, c.kept_bytes) == NULL, "a sound program passes its check");
	claim(check_block(c.block, c.nbytes - 8, c.kept_bytes) != NULL, "a shorter one does not");
	claim(check_block(c.block, 0, c.kept_bytes) != NULL, "nothing does not");
	{
		const HjgProgramRun *run = (HjgProgramRun *) (c.block + head->runs.off) +
			((HjgProgramSegment *) (c.block + head->segments.off))[segment].first_run;
		const size_t run_off = (size_t) ((const char *) run - c.block);
		const Breakage breakages[] = {
			{"another size", IN_HEAD(nbytes), c.nbytes + 8},
			{"pipelines elsewhere", IN_HEAD(pipelines.off), 0xFFFFFFF8u},
			{"pipelines that are not aligned", IN_HEAD(pipelines.off), head->pipelines.off + 4},
			{"no pipeline", IN_HEAD(pipelines.n), 0},
			{"fewer pipelines than tables", IN_HEAD(pipelines.n), 2},
			{"very many pipelines", IN_HEAD(pipelines.n), UINT32_MAX},
			{"very many tables", IN_HEAD(tables.n), UINT32_MAX},
			{"tables elsewhere", IN_HEAD(tables.off), (hjg_u32) c.nbytes},
			{"steps elsewhere", IN_HEAD(steps.off), 0xFFFFFFF8u},
			{"fewer steps", IN_HEAD(steps.n), 0},
			{"very many steps", IN_HEAD(steps.n), UINT32_MAX},
			{"fewer segments", IN_HEAD(segments.n), 0},
			{"segments elsewhere", IN_HEAD(segments.off), 0xFFFFFFF8u},
			{"fewer columns", IN_HEAD(columns.n), 0},
			{"columns elsewhere", IN_HEAD(columns.off), 0xFFFFFFF8u},
			{"fewer runs", IN_HEAD(runs.n), 0},
			{"runs elsewhere", IN_HEAD(runs.off), 0xFFFFFFF8u},
			{"very many runs", IN_HEAD(runs.n), UINT32_MAX},
			{"maps elsewhere", IN_HEAD(maps.off), 0xFFFFFFF8u},
			{"no maps", IN_HEAD(maps.n), 0},
			{"no sets", IN_HEAD(values.n), 0},
			{"very large sets", IN_HEAD(values.n), UINT32_MAX},
			{"very many arguments", IN_HEAD(arguments.n), HJG_PROGRAM_MAX_ARGUMENTS + 1},
			{"too many keys of groups", IN_ARRAY(tables, HjgProgramTable, 2, nkeys), HJG_PROGRAM_MAX_KEYS + 1},
			{"a table that has groups or not", IN_ARRAY(tables, HjgProgramTable, 2, has_groups), 2},
			{"no groups at its end", IN_ARRAY(tables, HjgProgramTable, 2, has_groups), 0},
			{"groups that have payload", IN_ARRAY(tables, HjgProgramTable, 2, npayload), 1},
			{"groups that are unique", IN_ARRAY(tables, HjgProgramTable, 2, unique), 1},
			{"a table with arguments", IN_ARRAY(tables, HjgProgramTable, 0, narguments), 1},
			{"arguments elsewhere", IN_ARRAY(tables, HjgProgramTable, 2, first_argument), UINT32_MAX},
			{"too many arguments", IN_ARRAY(tables, HjgProgramTable, 2, narguments), HJG_PROGRAM_MAX_ARGUMENTS + 1},
			{"a probe of groups", IN_ARRAY(tables, HjgProgramTable, steps[probe].arg, has_groups), 1},
			{"a source that is none", IN_ARRAY(pipelines, HjgProgramPipeline, 2, source), 3},
			{"a source that has no groups", IN_ARRAY(pipelines, HjgProgramPipeline, 2, source), 0},
			{"itself as its source", IN_ARRAY(pipelines, HjgProgramPipeline, 2, source), 2},
			{"a value of a group that is none", IN_ARRAY(steps, HjgProgramStep, probe, op), HJG_PROGRAM_GROUP},
			{"a result's steps elsewhere", IN_HEAD(first_step), UINT32_MAX},
			{"too many steps of the result", IN_HEAD(nsteps), HJG_PROGRAM_MAX_STEPS + 1},
			{"a result that probes", IN_HEAD(first_step), probe},
			{"an order by no register", IN_HEAD(order), HJG_PROGRAM_REGISTERS},
			{"an order by a register far away", IN_HEAD(order), UINT32_MAX},
			{"an order that descends or not", IN_HEAD(descending), 2},
			{"an order with NULLs at both ends", IN_HEAD(nulls_first), 2},
			{"steps of the only group", IN_ARRAY(tables, HjgProgramTable, 2, nkeys), 0},
			{"a table with too many keys", IN_ARRAY(tables, HjgProgramTable, 0, nkeys), HJG_PROGRAM_MAX_KEYS + 1},
			{"a table with too much payload", IN_ARRAY(tables, HjgProgramTable, 0, npayload), HJG_PROGRAM_MAX_PAYLOAD + 1},
			{"a table that is neither unique nor not", IN_ARRAY(tables, HjgProgramTable, 0, unique), 2},
			{"an argument that is no register", IN_ARRAY(arguments, HjgProgramArgument, 0, reg), HJG_PROGRAM_REGISTERS},
			{"an argument far from the registers", IN_ARRAY(arguments, HjgProgramArgument, 0, reg), UINT32_MAX},
			{"a pipeline's steps elsewhere", IN_ARRAY(pipelines, HjgProgramPipeline, 1, first_step), UINT32_MAX},
			{"too many steps", IN_ARRAY(pipelines, HjgProgramPipeline, 1, nsteps), HJG_PROGRAM_MAX_STEPS + 1},
			{"a pipeline's segments elsewhere", IN_ARRAY(pipelines, HjgProgramPipeline, 1, first_segment), UINT32_MAX},
			{"very many segments", IN_ARRAY(pipelines, HjgProgramPipeline, 1, nsegments), UINT32_MAX},
			{"too many columns", IN_ARRAY(pipelines, HjgProgramPipeline, 2, ncolumns), HJG_PROGRAM_MAX_COLUMNS + 1},
			{"a table that is probed between two pipelines that fill it", IN_ARRAY(pipelines, HjgProgramPipeline, 1, sink), 0},
			{"a table that is filled twice, with another one between", IN_ARRAY(pipelines, HjgProgramPipeline, 2, sink), 0},
			{"tables that no pipeline fills", IN_HEAD(tables.n), 4},
			{"a table that is none", IN_ARRAY(pipelines, HjgProgramPipeline, 1, sink), 3},
			{"a table far away", IN_ARRAY(pipelines, HjgProgramPipeline, 2, sink), UINT32_MAX},
			{"another number of rows", IN_ARRAY(pipelines, HjgProgramPipeline, 2, nrows), pipelines[2].nrows + 1},
			{"a key that is no register", IN_ARRAY(pipelines, HjgProgramPipeline, 2, keys), HJG_PROGRAM_REGISTERS},
			{"a table's key that is no register", IN_ARRAY(pipelines, HjgProgramPipeline, 0, keys), 255},
			{"an operation that is none", IN_ARRAY(steps, HjgProgramStep, probe, op), HJG_PROGRAM_OPS},
			{"a step to no register", IN_ARRAY(steps, HjgProgramStep, probe, to), HJG_PROGRAM_REGISTERS},
			{"a step from no register", IN_ARRAY(steps, HjgProgramStep, probe, left), HJG_PROGRAM_REGISTERS},
			{"another step from no register", IN_ARRAY(steps, HjgProgramStep, probe, right), 255},
			{"a probe of a table that is none", IN_ARRAY(steps, HjgProgramStep, probe, arg), 3},
			{"a probe of a table that is not filled", IN_ARRAY(pipelines, HjgProgramPipeline, 0, first_step), probe},
			{"a set elsewhere", IN_ARRAY(steps, HjgProgramStep, set, arg), UINT32_MAX},
			{"a set that is too large", IN_ARRAY(steps, HjgProgramStep, set, low), head->values.n + 1},
			{"a set of less than nothing", IN_ARRAY(steps, HjgProgramStep, set, low), UINT64_MAX},
			{"a set without order", head->values.off + steps[set].arg * 8, 8, (hjg_u64) INT64_MAX},
			{"a segment of too many rows", IN_ARRAY(segments, HjgProgramSegment, segment, nrows), HJG_PROGRAM_MAX_SEGMENT_ROWS + 1},
			{"a segment of fewer rows", IN_ARRAY(segments, HjgProgramSegment, segment, nrows), 1},
			{"a segment's columns elsewhere", IN_ARRAY(segments, HjgProgramSegment, segment, first_column), UINT32_MAX},
			{"a segment's runs elsewhere", IN_ARRAY(segments, HjgProgramSegment, segment, first_run), UINT32_MAX},
			{"very many runs of a segment", IN_ARRAY(segments, HjgProgramSegment, segment, nruns), UINT32_MAX},
			{"an empty run", run_off + offsetof(HjgProgramRun, end_row), 4, run[0].first_row},
			{"a run behind the segment", run_off + offsetof(HjgProgramRun, end_row), 4, UINT32_MAX},
			{"runs that overlap", run_off + sizeof(HjgProgramRun) + offsetof(HjgProgramRun, first_row), 4, run[0].end_row - 1},
			{"a width that is none", IN_ARRAY(columns, HjgProgramColumn, column, width), 3},
			{"a width that is too large", IN_ARRAY(columns, HjgProgramColumn, column, width), 16},
			{"NULLs that there are not", IN_ARRAY(columns, HjgProgramColumn, column, has_nulls), 2},
			{"a column elsewhere", IN_ARRAY(columns, HjgProgramColumn, column, place), UINT64_MAX - 7},
			{"a column behind the file", IN_ARRAY(columns, HjgProgramColumn, column, place), c.kept_bytes},
			{"a column that is not aligned", IN_ARRAY(columns, HjgProgramColumn, column, place), 4},
			{"a column that is too short", IN_ARRAY(columns, HjgProgramColumn, column, nbytes), 8},
			{"a column that is very long", IN_ARRAY(columns, HjgProgramColumn, column, nbytes), UINT64_MAX - 7},
			{"a column without memory", IN_ARRAY(columns, HjgProgramColumn, column, nbytes), 0},
			{"a column that ends within a word", IN_ARRAY(columns, HjgProgramColumn, column, nbytes), 1001},
			{"a map elsewhere", IN_ARRAY(columns, HjgProgramColumn, column, map), head->maps.n + 1},
		};

		refuse_breakages(&c, breakages, sizeof(breakages) / sizeof(breakages[0]));
	}
	program_destroy(&c);
}

/* Find a column of a program whose strings are tested, and a pattern with a string within; false: it lacks one of them. */
static bool
find_test(const ProgramCase *c, hjg_u32 *tested, hjg_u32 *within)
{
	const HjgProgram *head = (const HjgProgram *) c->block;
	const HjgProgramColumn *columns = (const HjgProgramColumn *) (c->block + head->columns.off);
	const HjgProgramTest *tests = (const HjgProgramTest *) (c->block + head->tests.off);
	hjg_u32		nstrings = 0;

	*tested = *within = UINT32_MAX;
	for (hjg_u32 i = 0; i < head->columns.n; i++)
		if (columns[i].test != HJG_PROGRAM_NO_TEST)
			*tested = i;
	for (hjg_u32 i = 0; i < head->tests.n; nstrings += tests[i++].nstrings)
		if (tests[i].kind == HJG_PROGRAM_LIKE && tests[i].nstrings > 2)
			*within = nstrings + 1;
	return *tested < UINT32_MAX && *within < UINT32_MAX;
}

static void
test_string_breakages(void)
{
	const ProgramShape shape = {.npipelines = 3, .most_rows = 100};
	ProgramCase c;
	hjg_u32		tested;
	hjg_u32		within;

	program_create(&c, test_seed, &shape);
	for (hjg_u64 seed = test_seed + 1; !find_test(&c, &tested, &within); seed++)
	{
		program_destroy(&c);
		program_create(&c, seed, &shape);
	}
	{
		const HjgProgram *head = (const HjgProgram *) c.block;
		const Breakage breakages[] = {
			{"tests elsewhere", IN_HEAD(tests.off), 0xFFFFFFF8u},
			{"very many tests", IN_HEAD(tests.n), UINT32_MAX},
			{"no tests", IN_HEAD(tests.n), 0},
			{"strings elsewhere", IN_HEAD(strings.off), 0xFFFFFFF8u},
			{"fewer strings than tests have", IN_HEAD(strings.n), 0},
			{"very many strings", IN_HEAD(strings.n), UINT32_MAX},
			{"bytes elsewhere", IN_HEAD(bytes.off), 0xFFFFFFF8u},
			{"very many bytes", IN_HEAD(bytes.n), UINT32_MAX},
			{"a string behind the bytes", IN_ARRAY(strings, HjgProgramString, 0, off), head->bytes.n + 1},
			{"a string that is too long", IN_ARRAY(strings, HjgProgramString, 1, nbytes), head->bytes.n + 1},
			{"a test of no kind", IN_ARRAY(tests, HjgProgramTest, 0, kind), HJG_PROGRAM_TEST_KINDS},
			{"a test that is negated or not", IN_ARRAY(tests, HjgProgramTest, 0, negated), 2},
			{"a test that is padded or not", IN_ARRAY(tests, HjgProgramTest, 0, padded), 2},
			{"a test of a part or not", IN_ARRAY(tests, HjgProgramTest, 0, sliced), 2},
			{"a part of less than nothing", IN_ARRAY(tests, HjgProgramTest, 0, slice_nchars), UINT32_MAX},
			{"a part before the string", IN_ARRAY(tests, HjgProgramTest, 0, slice_first), UINT32_MAX},
			{"a test of very many strings", IN_ARRAY(tests, HjgProgramTest, 0, nstrings), UINT32_MAX},
			{"a test that is none", IN_ARRAY(columns, HjgProgramColumn, tested, test), head->tests.n},
			{"tested codes", IN_ARRAY(columns, HjgProgramColumn, tested, width), 2},
			{"tested strings whose places end behind them", IN_ARRAY(columns, HjgProgramColumn, tested, nbytes), 8},
			{"a pattern with nothing within", IN_ARRAY(strings, HjgProgramString, within, nbytes), 0},
		};

		refuse_breakages(&c, breakages, sizeof(breakages) / sizeof(breakages[0]));
	}
	program_destroy(&c);
}

/* Change some bytes at random: the program is refused, or runs without harm. */
static void
test_flips(int n)
{
	int			npassed = 0;
	FILE	   *const loud = stderr;
	FILE	   *quiet = fopen("/dev/null", "w");
	char		reason[128];

	/* refusals are many; a sanitizer writes elsewhere */
	stderr = quiet != NULL ? quiet : loud;
	if (!on_cpu())
		(void) hjg_cuda_enter(0, reason, sizeof(reason));

	for (int i = 0; i < n && quiet != NULL; i++)
	{
		const ProgramShape shape = {.npipelines = 1 + (hjg_u32) i % 3, .most_rows = 100};
		Random		random = {test_seed + (hjg_u64) i};
		hjg_u64		columns_off;
		Memory		memory;
		HjgStatus	status;
		ProgramCase c;

		program_create(&c, test_seed + (hjg_u64) i, &shape);
		columns_off = ((HjgProgram *) c.block)->pipelines.off;
		for (hjg_u32 flips = 1 + random_below(&random, 4); flips > 0; flips--)
		{
			/* of the head, or of what is behind columns */
			const hjg_u64 at = random_below(&random, 3) == 0 ? random_below(&random, sizeof(HjgProgram)) :
				columns_off + random_below(&random, (hjg_u32) (c.nbytes - columns_off));

			c.block[at] = (char) (random_below(&random, 2) == 0 ? c.block[at] ^ 1 << random_below(&random, 8) : (int) random_below(&random, 256));
		}
		npassed += check_block(c.block, c.nbytes, c.kept_bytes) == NULL;
		memory_init(&memory, pool);
		(void) run_program(&c, &memory.env, &status);
		if (i % 50 == 0 && !on_cpu())
			(void) hjg_cuda_resident_drop(hjg_cuda_made(0));
		program_destroy(&c);
	}
	stderr = loud;
	if (quiet != NULL)
		fclose(quiet);
	claim(on_cpu() || hjg_cuda_resident_drop(hjg_cuda_made(0)) == 0, "of %d programs with random changes %d run, and nothing breaks", n, npassed);
}

/* Find a column of tested strings that is kept; NULL: there is none. */
static HjgProgramColumn *
find_tested(const ProgramCase *c)
{
	const HjgProgram *head = (const HjgProgram *) c->block;
	HjgProgramColumn *columns = (HjgProgramColumn *) (c->block + head->columns.off);

	for (hjg_u32 i = 0; i < head->columns.n; i++)
		if (columns[i].test != HJG_PROGRAM_NO_TEST && (columns[i].place & HJG_PROGRAM_IN_BLOCK) == 0)
			return &columns[i];
	return NULL;
}

/* Change bytes of strings that are kept, and of their places, with the checksum or without: the program ends, or runs without harm. */
static void
test_bad_strings(int n)
{
	int			nended = 0;
	int			nright = 0;
	int			ntried = 0;

	for (int i = 0; ntried < n; i++)
	{
		Random		random = {test_seed + 500 + (hjg_u64) i};
		HjgProgramColumn *column;
		Memory		memory;
		HjgStatus	status;
		ProgramCase c;

		program_create(&c, test_seed + 500 + (hjg_u64) i, &(ProgramShape) {.npipelines = 1, .most_rows = 300, .all_kept = true});
		column = find_tested(&c);
		if (column != NULL && !c.refused)
		{
			for (hjg_u32 changes = 1 + random_below(&random, 20); changes > 0; changes--)
				c.kept[column->place + random_below(&random, (hjg_u32) column->nbytes)] = (char) random_below(&random, 256);
			if (random_below(&random, 3) > 0)
				column->checksum = hjg_checksum_column(c.kept + column->place, column->nbytes);
			memory_init(&memory, pool);
			nright += run_program(&c, &memory.env, &status) == NULL && status == HJG_OK;
			nended += status == HJG_ERR_INPUT;
			ntried++;
		}
		program_destroy(&c);
	}
	claim(nended > 0, "of %d programs over changed strings %d end, %d are right, and nothing breaks", n, nended, nright);
}

/* ---- faults ---- */

static HjgStatus
run_faulted(const void *arg, const char **wrong)
{
	HjgStatus	status;
	Memory		memory;

	memory_init(&memory, pool);
	*wrong = run_program(arg, &memory.env, &status);
	if (*wrong == NULL && !memory_is_clean(&memory))
		*wrong = "memory is left";
	return status;
}

static void
test_faults_everywhere(void)
{
	const size_t generous = machine->generous_bytes;
	ProgramCase c;

	create_kept(&c, test_seed, 500, false);
	hjg_cuda_resident_piece_bytes = 16384;
	machine->generous_bytes = 0;
	for (int k = 0; k < HJG_FAULT_KINDS; k++)
	{
		const long	ncalls = hjg_fail_everywhere(stub, hjg_fault_kinds[k].code, run_faulted, &c);

		claim(ncalls > 58, "%s at each of %ld calls: the right answer, a status or a clean end", hjg_fault_kinds[k].what, ncalls);
	}
	hjg_cuda_resident_piece_bytes = (size_t) 8 << 20;
	machine->generous_bytes = generous;
	program_destroy(&c);
}

/* Find the GPU; false, with a failed claim, if there is none. */
static bool
find_gpu(void)
{
	HjgDeviceInfo infos[HJG_CUDA_MAX_DEVICES] = {0};

	hjg_cuda_driver.list(infos, HJG_CUDA_MAX_DEVICES);
	if (infos[0].state != HJG_DEVICE_READY)
	{
		claim(false, "there is a device: %s", infos[0].reason);
		return false;
	}
	stub = hjg_stub_find();
	printf("# %s: %s%s\n", hjg_device_name(infos[0].id).text, infos[0].description, stub != NULL ? " (emulated)" : "");
	return true;
}

static void
test_programs(void)
{
	/* before the first context of this process, which does not survive a fork */
	if (stub != NULL)
		test_faults_everywhere();
	test_all_answers();
	test_limits();
	test_cancel();
	if (!on_cpu())
		test_residents();
	test_threads();
	test_jobs();
}

int
main(int argc, char **argv)
{
	static const char *const names[] = {"short", "hostile", "times", "cpu", "brief", NULL};
	enum {SHORT = 1, HOSTILE = 2, TIMES = 4, CPU = 8, BRIEF = 16};
	const unsigned options = test_options(argc, argv, names);

	brief = (options & BRIEF) != 0;
	short_run = brief || (options & SHORT) != 0;
	set_test_seed(getenv("HJG_TEST_SEED") != NULL ? strtoull(getenv("HJG_TEST_SEED"), NULL, 0) : test_seed);
	printf("# HJG_TEST_SEED=%llu\n", (unsigned long long) test_seed);
	if ((options & CPU) != 0)
	{
		driver = &hjg_cpu_program_driver;
		machine = &hjg_cpu_machine;
		pool = hjg_pool_create(options & TIMES ? hjg_device_cpus() : 3);
	}
	if (!on_cpu() && !find_gpu())
		;
	else if ((options & TIMES) != 0)
		program_times(driver, pool, getenv("HJG_TEST_ROWS") != NULL ? strtoull(getenv("HJG_TEST_ROWS"), NULL, 0) : 60000000);
	else if (brief)
	{
		test_all_answers();
		test_threads();
	}
	else
	{
		test_breakages();
	test_string_breakages();
		if ((options & HOSTILE) == 0)
			test_programs();
		test_flips(options & HOSTILE ? 3000 : 300);
		test_bad_strings(options & HOSTILE ? 300 : 40);
	}
	if (pool != NULL)
		hjg_pool_destroy(pool);
	printf("1..%d\n", claims_passed + claims_failed);
	return claims_failed > 0;
}
