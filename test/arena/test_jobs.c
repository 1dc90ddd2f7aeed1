/*
 * test_jobs.c
 *	  Job slots: leasing, generations, abandoning, sweeping, several at a time.
 */
#include <pthread.h>

#include "hjg_test.h"

#define NTHREADS 8
#define NROUNDS 3000

static HjgArena arena;

static bool
always_alive(hjg_u32 pid, void *arg)
{
	(void) pid;
	(void) arg;
	return true;
}

static bool
never_alive(hjg_u32 pid, void *arg)
{
	(void) pid;
	(void) arg;
	return false;
}

/*
 * Play a participant that submits one more round just before it ends, and a device process that claims the
 * round at once; arg is the job.
 */
static bool
leaves_a_round(hjg_u32 pid, void *arg)
{
	HjgJobSlot *job = arg;
	hjg_u32		generation = HJG_WORD_GENERATION(job->word);

	(void) pid;
	hjg_op_move(&hjg_slot_report(&arena, job)->batches[0], generation, HJG_OP_FREE, HJG_OP_FILLING);
	hjg_op_move(&hjg_slot_report(&arena, job)->batches[0], generation, HJG_OP_FILLING, HJG_OP_QUEUED);
	hjg_op_move(&hjg_slot_report(&arena, job)->batches[0], generation, HJG_OP_QUEUED, HJG_OP_RUNNING);
	return false;
}

/* Make a job with one slab and its build queued. */
static HjgJobSlot *
queued_job(hjg_u32 *job_ix, hjg_u32 *generation)
{
	HjgJobSlot *job;
	hjg_u64		owner;
	hjg_u32		slab_ix;

	if (!hjg_slot_lease(&arena, 0, 100, 1, job_ix, generation))
		return NULL;
	job = hjg_slot_at(&arena, *job_ix);
	owner = hjg_slab_owner(*job_ix, *generation);
	slab_ix = hjg_slab_lease(&arena, owner, 1, HJG_SLAB_INPUT);
	hjg_op_add_input(&arena, &job->build, owner, slab_ix, 10, 0, false);
	hjg_op_move(&hjg_slot_report(&arena, job)->build, *generation, HJG_OP_FILLING, HJG_OP_QUEUED);
	return job;
}

static hjg_u64
leased_bytes(void)
{
	HjgArenaUse use;

	hjg_arena_use(&arena, &use);
	return use.leased_bytes;
}

static void
test_life(void)
{
	hjg_u32		job_ix;
	hjg_u32		generation;
	hjg_u32		later;
	hjg_u32		again_ix;
	HjgJobSlot *job;
	int			nreturned;

	arena = test_arena(16);
	job = queued_job(&job_ix, &generation);
	test_claim(hjg_op_state(&hjg_slot_report(&arena, job)->build) == HJG_OP_QUEUED, "a submitted build is queued");
	test_claim(!hjg_op_move(&hjg_slot_report(&arena, job)->build, generation, HJG_OP_FILLING, HJG_OP_QUEUED), "it cannot be submitted twice");
	test_claim(!hjg_op_move(&hjg_slot_report(&arena, job)->build, generation + 1, HJG_OP_QUEUED, HJG_OP_RUNNING),
			   "another generation cannot claim it");
	test_claim(hjg_op_move(&hjg_slot_report(&arena, job)->build, generation, HJG_OP_QUEUED, HJG_OP_RUNNING), "it is claimed once");
	test_claim(!hjg_op_move(&hjg_slot_report(&arena, job)->build, generation, HJG_OP_QUEUED, HJG_OP_RUNNING), "and not again");
	test_claim(!hjg_slot_quiesce(&arena, job, generation), "a job with a running operation cannot be given back");
	hjg_op_move(&hjg_slot_report(&arena, job)->build, generation, HJG_OP_RUNNING, HJG_OP_READY);
	test_claim(!hjg_slot_leased(job, generation) && hjg_slot_abandon(&arena, job, generation) &&
			   hjg_slot_sweep(&arena, NULL, NULL, &nreturned) == 0 && nreturned == 1, "but left to a sweep");
	job = queued_job(&job_ix, &generation);
	hjg_op_move(&hjg_slot_report(&arena, job)->build, generation, HJG_OP_QUEUED, HJG_OP_RUNNING);
	test_claim(hjg_op_move(&hjg_slot_report(&arena, job)->build, generation, HJG_OP_RUNNING, HJG_OP_READY) &&
			   hjg_slot_quiesce(&arena, job, generation), "one whose operations have ended can");
	hjg_slab_release_all(&arena, hjg_slab_owner(job_ix, generation));
	test_claim(hjg_slot_free(&arena, job, generation, HJG_JOB_SWEEPING), "its slot becomes free");
	test_claim(!hjg_slot_free(&arena, job, generation, HJG_JOB_SWEEPING), "once");
	test_claim(leased_bytes() == 0, "its slabs are free");
	test_claim(hjg_slot_lease(&arena, job_ix, 1, 1, &again_ix, &later) && again_ix == job_ix &&
			   later == generation + 1, "the slot's next job has the next generation");
	test_claim(!hjg_op_move(&hjg_slot_report(&arena, job)->build, generation, HJG_OP_FILLING, HJG_OP_QUEUED) &&
			   !hjg_slot_abandon(&arena, job, generation), "who knows the old generation cannot touch the new job");
	hjg_arena_detach(&arena);
}

static void
test_sweep(void)
{
	hjg_u32		job_ix;
	hjg_u32		generation;
	HjgJobSlot *job;
	int			nreturned;

	arena = test_arena(16);
	job = queued_job(&job_ix, &generation);
	test_claim(hjg_slot_sweep(&arena, always_alive, NULL, &nreturned) == 0 && nreturned == 0,
			   "a sweep leaves the jobs of the living alone");
	hjg_op_move(&hjg_slot_report(&arena, job)->build, generation, HJG_OP_QUEUED, HJG_OP_RUNNING);
	test_claim(hjg_slot_abandon(&arena, job, generation), "a job is abandoned");
	test_claim(__atomic_load_n(&job->cancel, __ATOMIC_SEQ_CST) == 1, "that asks the engine to stop");
	test_claim(hjg_slot_sweep(&arena, always_alive, NULL, &nreturned) == 1 && nreturned == 0,
			   "a sweep waits for a running operation");
	test_claim(leased_bytes() == HJG_SLAB_BYTES, "and the slabs stay leased until then");
	hjg_op_move(&hjg_slot_report(&arena, job)->build, generation, HJG_OP_RUNNING, HJG_OP_READY);
	test_claim(hjg_slot_sweep(&arena, always_alive, NULL, &nreturned) == 0 && nreturned == 1,
			   "then the job is returned");
	test_claim(leased_bytes() == 0, "with its slabs");

	job = queued_job(&job_ix, &generation);
	hjg_op_move(&hjg_slot_report(&arena, job)->build, generation, HJG_OP_QUEUED, HJG_OP_RUNNING);
	hjg_slot_abandon(&arena, job, generation);
	__atomic_fetch_add(&arena.control->epoch, 1, __ATOMIC_SEQ_CST);
	test_claim(hjg_slot_sweep(&arena, always_alive, NULL, &nreturned) == 0 && nreturned == 1 && leased_bytes() == 0,
			   "an operation of a dead device process is not waited for");

	job = queued_job(&job_ix, &generation);
	test_claim(hjg_slot_sweep(&arena, never_alive, NULL, &nreturned) == 0 && nreturned == 1 && leased_bytes() == 0,
			   "the job of a dead owner is returned");
	test_claim(!hjg_op_move(&hjg_slot_report(&arena, job)->build, generation, HJG_OP_QUEUED, HJG_OP_RUNNING),
			   "and its queued operation cannot be claimed any more");

	job = queued_job(&job_ix, &generation);
	__atomic_store_n(&job->owner_pid, 0, __ATOMIC_SEQ_CST);
	test_claim(hjg_slot_sweep(&arena, never_alive, NULL, &nreturned) == 0 && nreturned == 0,
			   "a job that is just being leased is left alone");
	hjg_arena_detach(&arena);
}

/* Test an owner that leaves a job which others use. */
static void
test_shared(void)
{
	hjg_u32		job_ix;
	hjg_u32		generation;
	HjgJobSlot *job;
	int			owner;
	int			other;
	int			nreturned;

	arena = test_arena(16);
	job = queued_job(&job_ix, &generation);
	owner = hjg_slot_join(job, 1, 1);
	other = hjg_slot_join(job, 2, 2);
	test_claim(hjg_slot_leased(job, generation), "a participant sees that the job is leased");
	hjg_slot_leave(job, owner, 1);
	test_claim(!hjg_slot_quiesce(&arena, job, generation), "a job that others use cannot be given back");
	test_claim(!hjg_slot_leased(job, generation), "but its lease ends, so that nobody attaches any more");
	test_claim(hjg_slot_abandon(&arena, job, generation) && job->cancel == 1, "it is abandoned and cancelled");
	test_claim(hjg_slot_sweep(&arena, NULL, NULL, &nreturned) == 1 && nreturned == 0 &&
			   leased_bytes() == HJG_SLAB_BYTES, "a sweep waits for the other participant");
	hjg_slot_leave(job, other, 2);
	test_claim(hjg_slot_sweep(&arena, NULL, NULL, &nreturned) == 0 && nreturned == 1 && leased_bytes() == 0,
			   "and returns the job when it has left");

	job = queued_job(&job_ix, &generation);
	hjg_slot_join(job, 2, 2);
	hjg_slot_abandon(&arena, job, generation);
	test_claim(hjg_slot_sweep(&arena, never_alive, NULL, &nreturned) == 0 && nreturned == 1 && leased_bytes() == 0,
			   "a participant that is gone without leaving is not waited for");

	job = queued_job(&job_ix, &generation);
	hjg_slot_join(job, 2, 2);
	hjg_slot_abandon(&arena, job, generation);
	test_claim(hjg_slot_sweep(&arena, leaves_a_round, job, &nreturned) == 1 && nreturned == 0 &&
			   leased_bytes() == HJG_SLAB_BYTES, "but a round that it left running is");
	hjg_op_move(&hjg_slot_report(&arena, job)->batches[0], generation, HJG_OP_RUNNING, HJG_OP_READY);
	test_claim(hjg_slot_sweep(&arena, never_alive, NULL, &nreturned) == 0 && nreturned == 1 && leased_bytes() == 0,
			   "until it has ended");
	hjg_arena_detach(&arena);
}

static void
test_limits(void)
{
	hjg_u32		job_ix;
	hjg_u32		generation;
	int			n = 0;
	int			participants = 0;
	HjgJobSlot *job;

	arena = test_arena(4);
	while (hjg_slot_lease(&arena, 17, 1, 1, &job_ix, &generation))
		n++;
	test_claim(n == HJG_MAX_JOBS, "as many jobs as there are slots can be leased");
	job = hjg_slot_at(&arena, 5);
	while (hjg_slot_join(job, 1, 1) >= 0)
		participants++;
	test_claim(participants == HJG_MAX_PARTICIPANTS, "as many participants as there are places can join");
	hjg_slot_leave(job, 3, 1);
	test_claim(hjg_slot_join(job, 2, 1) == 3, "a place that was left can be taken");
	job->participants[3].waiting = 1;
	hjg_slot_leave(job, 3, 1);
	test_claim(job->participants[3].pid == 2, "but not be left for another");
	test_claim(job->participants[3].waiting == 1, "who still waits to be woken");
	hjg_slot_leave(job, -1, 1);
	hjg_slot_leave(job, HJG_MAX_PARTICIPANTS, 1);
	hjg_arena_detach(&arena);
}

/*
 * Play a supervisor that returns each job of slot 0 at the moment when it is abandoned; arg counts the
 * jobs that were not cancelled by then, whose flag the slot's next job would have found.
 */
static void *
returns_at_once(void *arg)
{
	HjgJobSlot *job = hjg_slot_at(&arena, 0);
	int		   *nlate = arg;

	for (hjg_u32 round = 0; round < NROUNDS; round++)
	{
		hjg_u64		word = HJG_WORD(round, HJG_JOB_ABANDONED);
		int			nreturned;

		while (__atomic_load_n(&job->word, __ATOMIC_SEQ_CST) != word)
			;
		*nlate += __atomic_load_n(&job->cancel, __ATOMIC_SEQ_CST) == 0;
		hjg_slot_sweep(&arena, NULL, NULL, &nreturned);
	}
	return NULL;
}

static void
test_cancel(void)
{
	pthread_t	supervisor;
	HjgJobSlot *job;
	hjg_u32		job_ix;
	hjg_u32		generation;
	int			nlate = 0;

	arena = test_arena(4);
	job = hjg_slot_at(&arena, 0);
	pthread_create(&supervisor, NULL, returns_at_once, &nlate);
	for (int round = 0; round < NROUNDS; round++)
	{
		while (HJG_WORD_STATE(__atomic_load_n(&job->word, __ATOMIC_SEQ_CST)) != HJG_JOB_FREE)
			;
		hjg_slot_lease(&arena, 0, 1, 1, &job_ix, &generation);
		hjg_slot_abandon(&arena, job, generation);
	}
	pthread_join(supervisor, NULL);
	test_claim(nlate == 0, "a job is cancelled before anybody can see that it is abandoned");
	hjg_arena_detach(&arena);
}

/* Clients, a device side and a sweeper at the same time. */
static bool stop_device;

static void *
device_side(void *arg)
{
	(void) arg;
	while (!__atomic_load_n(&stop_device, __ATOMIC_RELAXED))
		for (hjg_u32 ix = 0; ix < NTHREADS * 2; ix++)
		{
			HjgJobSlot *job = &arena.jobs[ix];
			hjg_u32		generation = HJG_WORD_GENERATION(__atomic_load_n(&job->word, __ATOMIC_SEQ_CST));

			if (hjg_op_move(&hjg_slot_report(&arena, job)->build, generation, HJG_OP_QUEUED, HJG_OP_RUNNING))
				hjg_op_move(&hjg_slot_report(&arena, job)->build, generation, HJG_OP_RUNNING, HJG_OP_READY);
		}
	return NULL;
}

static void *
sweeper_side(void *arg)
{
	(void) arg;
	while (!__atomic_load_n(&stop_device, __ATOMIC_RELAXED))
	{
		int			nreturned;

		hjg_slot_sweep(&arena, always_alive, NULL, &nreturned);
	}
	return NULL;
}

static void *
client_side(void *arg)
{
	for (int round = 0; round < NROUNDS; round++)
	{
		hjg_u32		job_ix;
		hjg_u32		generation;
		HjgJobSlot *job;
		hjg_u64		owner;
		hjg_u32		slab_ix;

		if (!hjg_slot_lease(&arena, (hjg_u32) (size_t) arg, 1, 1, &job_ix, &generation))
			continue;
		job = hjg_slot_at(&arena, job_ix);
		owner = hjg_slab_owner(job_ix, generation);
		slab_ix = hjg_slab_lease(&arena, owner, 1, HJG_SLAB_INPUT);
		if (slab_ix != HJG_NO_SLAB)
			hjg_op_add_input(&arena, &job->build, owner, slab_ix, 1, 0, false);
		hjg_op_move(&hjg_slot_report(&arena, job)->build, generation, HJG_OP_FILLING, HJG_OP_QUEUED);
		hjg_doorbell_ring(&arena.view, job_ix);
		if (round % 3 != 0 && hjg_slot_quiesce(&arena, job, generation))
		{
			if (slab_ix != HJG_NO_SLAB)
				hjg_slab_release(&arena, slab_ix, owner);
			hjg_slot_free(&arena, job, generation, HJG_JOB_SWEEPING);
		}
		else
			hjg_slot_abandon(&arena, job, generation);
	}
	return NULL;
}

static void
test_contention(void)
{
	pthread_t	clients[NTHREADS];
	pthread_t	device;
	pthread_t	sweeper;
	int			nreturned;
	int			nfree = 0;

	arena = test_arena(12);
	pthread_create(&device, NULL, device_side, NULL);
	pthread_create(&sweeper, NULL, sweeper_side, NULL);
	for (size_t i = 0; i < NTHREADS; i++)
		pthread_create(&clients[i], NULL, client_side, (void *) i);
	for (int i = 0; i < NTHREADS; i++)
		pthread_join(clients[i], NULL);
	__atomic_store_n(&stop_device, true, __ATOMIC_RELAXED);
	pthread_join(device, NULL);
	pthread_join(sweeper, NULL);
	hjg_slot_sweep(&arena, always_alive, NULL, &nreturned);
	for (int ix = 0; ix < HJG_MAX_JOBS; ix++)
		nfree += HJG_WORD_STATE(arena.jobs[ix].word) == HJG_JOB_FREE;
	test_claim(nfree == HJG_MAX_JOBS, "all slots are free after many clients, claims and sweeps");
	test_claim(leased_bytes() == 0, "and all slabs");
	hjg_arena_detach(&arena);
}

/* ---- a wild device process: any words in the device half ---- */

static bool
distrusted(void)
{
	return arena.control->distrusted == HJG_WORD(arena.control->epoch, HJG_DISTRUST_RESULT);
}

static void
test_nonsense(void)
{
	static const hjg_u64 words[] = {0, ~0ull, 77, HJG_WORD(5, HJG_OP_RUNNING), HJG_WORD(0, HJG_OP_DRAINING + 1)};
	hjg_u32		job_ix;
	hjg_u32		generation;
	HjgJobSlot *job;
	int			nreturned;
	int			nquiet = 0;
	int			nswept = 0;

	arena = test_arena(16);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
	{
		/* generation 0 is a slot's first */
		const hjg_u64 word = words[i] == 0 ? HJG_WORD(0xFFFFFFFF, HJG_OP_FREE) : words[i];

		arena.control->distrusted = 0;
		job = queued_job(&job_ix, &generation);
		hjg_slot_report(&arena, job)->build.word = word;
		if (hjg_slot_quiesce(&arena, job, generation) && distrusted())
			nquiet++;
		hjg_slab_release_all(&arena, hjg_slab_owner(job_ix, generation));
		hjg_slot_free(&arena, job, generation, HJG_JOB_SWEEPING);

		arena.control->distrusted = 0;
		job = queued_job(&job_ix, &generation);
		memset(hjg_slot_report(&arena, job), (int) (0x80 + i), sizeof(HjgJobReport));
		hjg_slot_abandon(&arena, job, generation);
		nswept += hjg_slot_sweep(&arena, NULL, NULL, &nreturned) == 0 && nreturned == 1 && distrusted();
	}
	test_claim(nquiet == 5, "an operation in no state of its job's is not waited for, and the device process distrusted");
	test_claim(nswept == 5 && leased_bytes() == 0, "nor in a sweep");
	test_claim(hjg_slot_lease(&arena, 0, 1, 1, &job_ix, &generation) &&
			   hjg_slot_report(&arena, hjg_slot_at(&arena, job_ix))->build.word == HJG_WORD(generation, HJG_OP_FILLING),
			   "the slot's next job finds its words in order");
	hjg_arena_detach(&arena);
}

static void
test_overdue(void)
{
	hjg_u32		job_ix;
	hjg_u32		generation;
	HjgJobSlot *job;

	arena = test_arena(16);
	job = queued_job(&job_ix, &generation);
	hjg_op_move(&hjg_slot_report(&arena, job)->build, generation, HJG_OP_QUEUED, HJG_OP_RUNNING);
	test_claim(!hjg_slot_overdue(&arena, 0), "an operation of a leased job may run as long as it takes");
	hjg_slot_abandon(&arena, job, generation);
	test_claim(!hjg_slot_overdue(&arena, 1000000000000ull), "one that was cancelled has some time");
	usleep(2000);
	test_claim(hjg_slot_overdue(&arena, 1000000), "and is overdue then");
	hjg_op_move(&hjg_slot_report(&arena, job)->build, generation, HJG_OP_RUNNING, HJG_OP_READY);
	test_claim(!hjg_slot_overdue(&arena, 1000000), "until it ends");
	hjg_arena_detach(&arena);
}

int
main(void)
{
	test_life();
	test_sweep();
	test_shared();
	test_limits();
	test_cancel();
	test_nonsense();
	test_overdue();
	test_contention();
	return test_end();
}
