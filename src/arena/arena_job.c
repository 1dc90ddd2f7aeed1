/*
 * arena_job.c
 *	  Jobs and their operations: which process moves them from which state to which.
 *
 * A job slot's word holds the job's generation and its state.  The generation grows by one whenever the
 * slot becomes free, so what was learned of an earlier job never fits a later one.
 *
 *	job			to			by, when
 *	FREE		LEASED		backend: takes the slot
 *	LEASED		SWEEPING	owner: ends the lease; supervisor: owner is gone
 *	ABANDONED	SWEEPING	supervisor: no participant is left, and no operation runs, or
 *							the job's epoch is over
 *	SWEEPING	ABANDONED	owner: sees another participant or a running operation;
 *							supervisor: owner is gone. The job is cancelled before
 *				FREE		the process that swept it: slabs are back; generation + 1
 *
 * Participants are the processes that use the job and its slabs: its owner and those that attach.  A
 * process that attaches enters itself first and then checks that the job is still leased.  A process that
 * gives the job up ends the lease first, then looks for participants, and last takes back the queued
 * operations and looks for running ones.  So no slab changes hands while a process may still write to it.
 *
 * A job has one operation "build" and HJG_MAX_BATCHES operations "batch".  Each has its own word in the
 * device half, which also holds the job's generation.
 *
 *	operation	to			by, when
 *	FREE		FILLING		participant: opens a batch; the build with the lease
 *	FILLING		QUEUED		the participant that fills it: submits
 *	QUEUED		RUNNING		device process: claims it
 *				DRAINING	participant or supervisor: takes it back unrun
 *	RUNNING		READY		only the device process while it lives: results, status and
 *							times are written, and it touches nothing any more
 *	READY		DRAINING	participant: claims the result
 *	DRAINING	QUEUED		that participant: submits the next round
 *				FREE		that participant: closes the batch
 *	any			FREE		the process that frees the job, with generation + 1
 *
 * Every move is a compare-and-swap on the word.  Several producers may therefore fill different batches,
 * several consumers may drain them, and a late claim fails.  Between QUEUED and READY the device process
 * owns inputs and result slabs: they are returned only after READY, or when the arena's epoch has moved
 * past the job's.  The supervisor moves the epoch after it has seen the old process dead.
 *
 * A wild device process may leave anything in a word.  A word with no valid state, or with one that cannot
 * follow, ends the operation as failed.  An operation that runs without progress, or after its job was
 * cancelled, ends the device process.
 */
#include "arena/hjg_arena.h"
#include "arena/hjg_arena_share.h"

static bool
move_word(hjg_u64 *word, hjg_u64 from, hjg_u64 to)
{
	return __atomic_compare_exchange_n(word, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

bool
hjg_op_move(HjgOpReport *op, hjg_u32 generation, HjgOpState from, HjgOpState to)
{
	return move_word(&op->word, HJG_WORD(generation, from), HJG_WORD(generation, to));
}

/* Find operation i of a job: the batches, then the build. */
static HjgOpReport *
op_at(HjgJobReport *report, int i)
{
	return i < HJG_MAX_BATCHES ? &report->batches[i] : &report->build;
}

bool
hjg_slot_lease(const HjgArena *arena, hjg_u32 hint, hjg_u32 pid, hjg_u32 role,
				   hjg_u32 *job_ix, hjg_u32 *generation)
{
	for (hjg_u32 i = 0; i < HJG_MAX_JOBS; i++)
	{
		hjg_u32		ix = (hint + i) % HJG_MAX_JOBS;
		HjgJobSlot *job = &arena->jobs[ix];
		HjgJobReport *report = hjg_slot_report(arena, job);
		hjg_u64		word = __atomic_load_n(&job->word, __ATOMIC_RELAXED);

		if (HJG_WORD_STATE(word) != HJG_JOB_FREE ||
			!move_word(&job->word, word, HJG_WORD(HJG_WORD_GENERATION(word), HJG_JOB_LEASED)))
			continue;
		*job_ix = ix;
		*generation = HJG_WORD_GENERATION(word);
		__atomic_store_n(&job->cancel, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&report->attended, 0, __ATOMIC_SEQ_CST);
		__atomic_store_n(&job->owner_role, role, __ATOMIC_RELAXED);
		__atomic_store_n(&job->since_us, hjg_wall_us(), __ATOMIC_RELAXED);
		__atomic_store_n(&job->probed_rows, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&job->epoch, __atomic_load_n(&arena->control->epoch, __ATOMIC_SEQ_CST), __ATOMIC_RELAXED);
		for (int p = 0; p < HJG_MAX_PARTICIPANTS; p++)
			__atomic_store_n(&job->participants[p].pid, 0, __ATOMIC_RELAXED);
		report->stats = (HjgJobStats) {0};
		__atomic_store_n(&job->build.input_ref, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&job->build.ninputs, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&job->build.nrows, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&report->build.word, HJG_WORD(*generation, HJG_OP_FILLING), __ATOMIC_SEQ_CST);
		for (int b = 0; b < HJG_MAX_BATCHES; b++)
			__atomic_store_n(&report->batches[b].word, HJG_WORD(*generation, HJG_OP_FREE), __ATOMIC_SEQ_CST);
		/* from here on a sweep may check that the owner lives */
		__atomic_store_n(&job->owner_pid, pid, __ATOMIC_SEQ_CST);
		return true;
	}
	return false;
}

int
hjg_slot_join(HjgJobSlot *job, hjg_u32 pid, hjg_u32 pgprocno)
{
	for (int p = 0; p < HJG_MAX_PARTICIPANTS; p++)
	{
		HjgParticipant *participant = &job->participants[p];
		hjg_u32		nobody = 0;

		if (!__atomic_compare_exchange_n(&participant->pid, &nobody, pid, false,
										 __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			continue;
		__atomic_store_n(&participant->waiting, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&participant->pgprocno, pgprocno, __ATOMIC_SEQ_CST);
		return p;
	}
	return -1;
}

void
hjg_slot_leave(HjgJobSlot *job, int participant, hjg_u32 pid)
{
	if (participant < 0 || participant >= HJG_MAX_PARTICIPANTS)
		return;
	__atomic_compare_exchange_n(&job->participants[participant].pid, &pid, 0, false,
								__ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* True if a process is entered that is not known to be gone. */
static bool
has_participants(HjgJobSlot *job, HjgAliveFn alive, void *arg)
{
	for (int p = 0; p < HJG_MAX_PARTICIPANTS; p++)
	{
		hjg_u32		pid = __atomic_load_n(&job->participants[p].pid, __ATOMIC_SEQ_CST);

		if (pid != 0 && (alive == NULL || alive(pid, arg)))
			return true;
	}
	return false;
}

bool
hjg_slot_leased(const HjgJobSlot *job, hjg_u32 generation)
{
	return __atomic_load_n(&job->word, __ATOMIC_SEQ_CST) == HJG_WORD(generation, HJG_JOB_LEASED);
}

bool
hjg_op_add_input(const HjgArena *arena, HjgOp *op, hjg_u64 owner, hjg_u32 slab_ix,
				 hjg_u32 nrows, hjg_u32 first_row, bool has_payload)
{
	HjgSlab    *slab;
	hjg_u32		ref;

	if (slab_ix >= arena->view.nslabs)
		return false;
	slab = &arena->slabs[slab_ix];
	if (__atomic_load_n(&slab->owner, __ATOMIC_RELAXED) != owner)
		return false;
	__atomic_store_n(&slab->nrows, nrows, __ATOMIC_RELAXED);
	__atomic_store_n(&slab->first_row, first_row, __ATOMIC_RELAXED);
	__atomic_store_n(&slab->has_payload, has_payload, __ATOMIC_RELAXED);
	ref = __atomic_load_n(&op->input_ref, __ATOMIC_RELAXED);
	do
		__atomic_store_n(&slab->next_ref, ref, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&op->input_ref, &ref, slab_ix + 1, true,
										__ATOMIC_RELEASE, __ATOMIC_RELAXED));
	__atomic_fetch_add(&op->ninputs, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&op->nrows, nrows, __ATOMIC_RELEASE);
	return true;
}

/*
 * Take back queued operations; true if no operation runs that a living device process may touch.  An
 * operation without a valid state is not waited for: its device process is ended, and what it still writes
 * are results, which are checked.
 */
static bool
nothing_runs(const HjgArena *arena, HjgJobSlot *job, hjg_u32 generation)
{
	const bool	over = __atomic_load_n(&arena->control->epoch, __ATOMIC_SEQ_CST) !=
		__atomic_load_n(&job->epoch, __ATOMIC_RELAXED);

	for (int i = 0; i <= HJG_MAX_BATCHES; i++)
	{
		HjgOpReport *op = op_at(hjg_slot_report(arena, job), i);
		hjg_u64		word;

		if (hjg_op_move(op, generation, HJG_OP_QUEUED, HJG_OP_DRAINING))
			continue;
		word = __atomic_load_n(&op->word, __ATOMIC_SEQ_CST);
		if (!over && word == HJG_WORD(generation, HJG_OP_RUNNING))
			return false;
		if (!over && (HJG_WORD_GENERATION(word) != generation || HJG_WORD_STATE(word) > HJG_OP_DRAINING))
			hjg_slot_distrust(arena, job, HJG_DISTRUST_RESULT);
	}
	return true;
}

/*
 * True if no process touches a job whose lease has ended.  Participants are checked first: those that have
 * left submit nothing more, so the states of the operations are then final.
 */
static bool
nobody_touches(const HjgArena *arena, HjgJobSlot *job, hjg_u32 generation, HjgAliveFn alive, void *arg)
{
	return !has_participants(job, alive, arg) && nothing_runs(arena, job, generation);
}

/*
 * Move the caller's SWEEPING to ABANDONED.  The cancel flag is set first: a sweep may free an abandoned
 * job at once, and the slot's next job must not find the flag set.
 */
static void
abandon_swept(HjgJobSlot *job, hjg_u32 generation)
{
	__atomic_store_n(&job->abandoned_ns, hjg_now_ns(), __ATOMIC_RELAXED);
	__atomic_store_n(&job->cancel, 1, __ATOMIC_SEQ_CST);
	move_word(&job->word, HJG_WORD(generation, HJG_JOB_SWEEPING), HJG_WORD(generation, HJG_JOB_ABANDONED));
}

bool
hjg_slot_quiesce(const HjgArena *arena, HjgJobSlot *job, hjg_u32 generation)
{
	if (!move_word(&job->word, HJG_WORD(generation, HJG_JOB_LEASED), HJG_WORD(generation, HJG_JOB_SWEEPING)))
		return false;
	if (nobody_touches(arena, job, generation, NULL, NULL))
		return true;
	abandon_swept(job, generation);
	return false;
}

bool
hjg_slot_free(const HjgArena *arena, HjgJobSlot *job, hjg_u32 generation, HjgJobState from)
{
	if (__atomic_load_n(&job->word, __ATOMIC_SEQ_CST) != HJG_WORD(generation, from))
		return false;
	__atomic_store_n(&job->owner_pid, 0, __ATOMIC_SEQ_CST);
	for (int p = 0; p < HJG_MAX_PARTICIPANTS; p++)
		__atomic_store_n(&job->participants[p].pid, 0, __ATOMIC_RELAXED);
	for (int i = 0; i <= HJG_MAX_BATCHES; i++)
		__atomic_store_n(&op_at(hjg_slot_report(arena, job), i)->word, HJG_WORD(generation + 1, HJG_OP_FREE), __ATOMIC_SEQ_CST);
	return move_word(&job->word, HJG_WORD(generation, from), HJG_WORD(generation + 1, HJG_JOB_FREE));
}

bool
hjg_slot_abandon(const HjgArena *arena, HjgJobSlot *job, hjg_u32 generation)
{
	if (move_word(&job->word, HJG_WORD(generation, HJG_JOB_LEASED), HJG_WORD(generation, HJG_JOB_SWEEPING)))
		abandon_swept(job, generation);
	else if (__atomic_load_n(&job->word, __ATOMIC_SEQ_CST) != HJG_WORD(generation, HJG_JOB_ABANDONED))
		return false;
	__atomic_store_n(&arena->control->sweep_wanted, 1, __ATOMIC_SEQ_CST);
	return true;
}

bool
hjg_slot_any_leased(const HjgArenaView *view)
{
	for (int ix = 0; ix < HJG_MAX_JOBS; ix++)
		if (HJG_WORD_STATE(__atomic_load_n(&view->jobs[ix].word, __ATOMIC_SEQ_CST)) != HJG_JOB_FREE)
			return true;
	return false;
}

bool
hjg_slot_overdue(const HjgArena *arena, hjg_u64 age_ns)
{
	const hjg_u64 now = hjg_now_ns();

	for (int ix = 0; ix < HJG_MAX_JOBS; ix++)
	{
		const HjgJobSlot *job = &arena->jobs[ix];
		const hjg_u64 word = __atomic_load_n(&job->word, __ATOMIC_SEQ_CST);

		if (HJG_WORD_STATE(word) != HJG_JOB_ABANDONED ||
			__atomic_load_n(&job->epoch, __ATOMIC_RELAXED) != __atomic_load_n(&arena->control->epoch, __ATOMIC_SEQ_CST) ||
			now - __atomic_load_n(&job->abandoned_ns, __ATOMIC_RELAXED) <= age_ns)
			continue;
		for (int i = 0; i <= HJG_MAX_BATCHES; i++)
			if (__atomic_load_n(&op_at(hjg_slot_report(arena, job), i)->word, __ATOMIC_SEQ_CST) ==
				HJG_WORD(HJG_WORD_GENERATION(word), HJG_OP_RUNNING))
				return true;
	}
	return false;
}

void
hjg_slot_distrust(const HjgArena *arena, const HjgJobSlot *job, HjgDistrust why)
{
	__atomic_store_n(&arena->control->distrusted_device, __atomic_load_n(&job->device_ix, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
	__atomic_store_n(&arena->control->distrusted, HJG_WORD(__atomic_load_n(&job->epoch, __ATOMIC_RELAXED), why),
					 __ATOMIC_SEQ_CST);
}

int
hjg_slot_sweep(const HjgArena *arena, HjgAliveFn alive, void *arg, int *nreturned)
{
	int			nleft = 0;

	*nreturned = 0;
	__atomic_store_n(&arena->control->sweep_wanted, 0, __ATOMIC_SEQ_CST);
	for (hjg_u32 ix = 0; ix < HJG_MAX_JOBS; ix++)
	{
		HjgJobSlot *job = &arena->jobs[ix];
		hjg_u64		word = __atomic_load_n(&job->word, __ATOMIC_SEQ_CST);
		hjg_u32		generation = HJG_WORD_GENERATION(word);

		if (HJG_WORD_STATE(word) == HJG_JOB_LEASED && alive != NULL)
		{
			hjg_u32		pid = __atomic_load_n(&job->owner_pid, __ATOMIC_SEQ_CST);

			/* 0: the owner is entering itself */
			if (pid == 0 || alive(pid, arg) || !hjg_slot_abandon(arena, job, generation))
				continue;
			word = HJG_WORD(generation, HJG_JOB_ABANDONED);
		}
		if (HJG_WORD_STATE(word) != HJG_JOB_ABANDONED)
			continue;
		if (!nobody_touches(arena, job, generation, alive, arg) ||
			!move_word(&job->word, word, HJG_WORD(generation, HJG_JOB_SWEEPING)))
		{
			nleft++;
			continue;
		}
		hjg_slab_release_all(arena, hjg_slab_owner(ix, generation));
		hjg_arena_share_clear(&arena->control->share, ix);
		if (hjg_slot_free(arena, job, generation, HJG_JOB_SWEEPING))
			(*nreturned)++;
		/* the device process may keep private memory for the job */
		hjg_doorbell_ring(&arena->view, ix);
	}
	if (nleft > 0)
		__atomic_store_n(&arena->control->sweep_wanted, 1, __ATOMIC_SEQ_CST);
	return nleft;
}
