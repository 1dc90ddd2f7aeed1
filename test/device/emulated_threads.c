/*
 * emulated_threads.c
 *	  Runs kernels that are compiled for the host: the threads of a block in turn, one block after the
 *	  other.
 *
 * A thread runs until it waits: at a barrier, or where lanes of a warp exchange values.  Those that wait for
 * each other go on when the last one has come.  If all threads of a block wait, the kernel would hang on a
 * device, too: the program is aborted.  Every other block begins with its last thread, so that a result that
 * depends on the order of threads has a chance to be wrong.  A block is poisoned in shared memory, and must
 * not write beyond what the launch asked for.
 *
 * It cannot show races between two waits, and what depends on blocks that run at the same time.
 */
/* the checked longjmp() of some systems takes a jump to another stack for an error */
#undef _FORTIFY_SOURCE

#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "hjg_emulated_threads.h"
#include "hjg_stub_kernels.h"

#define STACK_BYTES (128 * 1024)
#define WARPS (HJG_EMULATED_THREADS / 32)
#define BARRIERS 16
#define POISON 0xA5
#define MARGIN_BYTES 256

HjgEmulatedIndex hjg_emulated_thread;
HjgEmulatedIndex hjg_emulated_block;
HjgEmulatedIndex hjg_emulated_threads;
HjgEmulatedIndex hjg_emulated_blocks;

/* Shared memory of the running block, by the two names that kernels give it. */
#define SHARED_WORDS ((HJG_EMULATED_SHARED + MARGIN_BYTES) / 8)
unsigned long long space[SHARED_WORDS] __attribute__((aligned(16)));
extern unsigned long long shared[SHARED_WORDS] __attribute__((alias("space")));

/* A thread keeps its stack for the next block's thread of the same number. */
typedef struct Fiber
{
	jmp_buf		place;			/* where it goes on */
	ucontext_t	start;
	bool		begun;
	bool		done;
	bool		waits;
} Fiber;

/* Lanes of a warp that meet. */
typedef struct Meeting
{
	unsigned	mask;			/* 0: nobody is here */
	unsigned	came;
	unsigned	left;			/* lanes that have met the others and not gone on yet */
	bool		met;
	HjgEmulatedMeeting kind;
	unsigned long long values[32];
} Meeting;

typedef struct Barrier
{
	unsigned	n;				/* threads waited for; 0: all */
	unsigned	came;
	bool		waiting[HJG_EMULATED_THREADS];
} Barrier;

static Fiber fibers[HJG_EMULATED_THREADS];
static Meeting meetings[WARPS][32];
static Barrier barriers[BARRIERS];
static unsigned live[WARPS];	/* lanes that have not ended */
static unsigned nlive;
static int	any_now;
static int	any_before;
static jmp_buf scheduler;
static const HjgEmulatedKernel *running;
static void **running_params;
static HjgEmulatedKernel *kernels;
static pthread_mutex_t one_launch = PTHREAD_MUTEX_INITIALIZER;

void
hjg_emulated_register(HjgEmulatedKernel *kernel)
{
	kernel->next = kernels;
	kernels = kernel;
}

/* ---- waiting ---- */

static void
leave(void)
{
	if (_setjmp(fibers[hjg_emulated_thread.x].place) == 0)
		_longjmp(scheduler, 1);
}

void
hjg_emulated_yield(void)
{
	leave();
}

static void
wake_lanes(unsigned warp, unsigned lanes)
{
	for (unsigned lane = 0; lane < 32; lane++)
		if (lanes >> lane & 1)
			fibers[warp * 32 + lane].waits = false;
}

/* Let the lanes go on if all have come. */
static void
end_meeting(unsigned warp, Meeting *meeting)
{
	if (meeting->mask == 0 || meeting->met || (meeting->mask & live[warp] & ~meeting->came) != 0)
		return;
	meeting->met = true;
	meeting->left = meeting->came;
	wake_lanes(warp, meeting->came);
}

unsigned long long
hjg_emulated_meet(unsigned mask, unsigned long long value, HjgEmulatedMeeting kind, int from)
{
	const unsigned warp = hjg_emulated_thread.x / 32;
	const unsigned lane = hjg_emulated_thread.x % 32;
	Meeting    *meeting = NULL;
	unsigned long long result = value;

	for (int i = 0; i < 32 && meeting == NULL; i++)
		if (meetings[warp][i].mask == mask && !meetings[warp][i].met && meetings[warp][i].kind == kind)
			meeting = &meetings[warp][i];
	for (int i = 0; i < 32 && meeting == NULL; i++)
		if (meetings[warp][i].mask == 0)
		{
			meeting = &meetings[warp][i];
			*meeting = (Meeting) {.mask = mask, .kind = kind};
		}
	if (meeting == NULL || (mask >> lane & 1) == 0 || (meeting->came >> lane & 1) != 0)
	{
		fprintf(stderr, "%s: thread %u meets lanes %08x that it does not belong to\n", running->name, hjg_emulated_thread.x, mask);
		abort();
	}
	meeting->came |= 1u << lane;
	meeting->values[lane] = value;
	fibers[hjg_emulated_thread.x].waits = true;
	end_meeting(warp, meeting);
	if (!meeting->met)
		leave();
	if (kind == HJG_MEET_TAKE)
		result = meeting->values[from];
	else if (kind != HJG_MEET_ONLY)
	{
		result = 0;
		for (unsigned i = 0; i < 32; i++)
			if ((meeting->came >> i & 1) && (kind == HJG_MEET_BALLOT ? meeting->values[i] != 0 : meeting->values[i] == value))
				result |= 1ull << i;
	}
	meeting->left &= ~(1u << lane);
	if (meeting->left == 0)
		meeting->mask = 0;
	return result;
}

static void
end_barrier(Barrier *barrier)
{
	if (barrier->came == 0 || barrier->came < (barrier->n > 0 ? barrier->n : nlive))
		return;
	any_before = any_now;
	any_now = 0;
	barrier->came = 0;
	for (unsigned i = 0; i < hjg_emulated_threads.x; i++)
		if (barrier->waiting[i])
			fibers[i].waits = barrier->waiting[i] = false;
}

void
hjg_emulated_barrier(unsigned id, unsigned n)
{
	Barrier    *barrier = &barriers[id % BARRIERS];

	barrier->n = n;
	barrier->came++;
	barrier->waiting[hjg_emulated_thread.x] = true;
	fibers[hjg_emulated_thread.x].waits = true;
	end_barrier(barrier);
	if (fibers[hjg_emulated_thread.x].waits)
		leave();
}

int
hjg_emulated_any(int predicate)
{
	any_now |= predicate != 0;
	hjg_emulated_barrier(0, 0);
	return any_before;
}

/* ---- running ---- */

static void
run_thread(void)
{
	for (;;)
	{
		const unsigned warp = hjg_emulated_thread.x / 32;

		running->run(running_params);
		fibers[hjg_emulated_thread.x].done = true;
		nlive--;
		live[warp] &= ~(1u << hjg_emulated_thread.x % 32);
		for (int i = 0; i < 32; i++)
			end_meeting(warp, &meetings[warp][i]);
		for (int i = 0; i < BARRIERS; i++)
			if (barriers[i].n == 0)
				end_barrier(&barriers[i]);
		leave();
	}
}

static void
resume(unsigned thread)
{
	Fiber	   *fiber = &fibers[thread];

	hjg_emulated_thread.x = thread;
	if (_setjmp(scheduler) != 0)
		return;
	if (fiber->begun)
		_longjmp(fiber->place, 1);
	fiber->begun = true;
	getcontext(&fiber->start);
	fiber->start.uc_stack.ss_sp = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fiber->start.uc_stack.ss_size = STACK_BYTES;
	makecontext(&fiber->start, run_thread, 0);
	setcontext(&fiber->start);
}

static void
run_block(unsigned shared_bytes)
{
	const unsigned n = hjg_emulated_threads.x;

	memset(shared, POISON, shared_bytes + MARGIN_BYTES);
	memset(live, 0, sizeof(live));
	nlive = n;
	for (unsigned i = 0; i < n; i++)
	{
		fibers[i].done = fibers[i].waits = false;
		live[i / 32] |= 1u << i % 32;
	}
	while (nlive > 0)
	{
		bool		went_on = false;

		for (unsigned k = 0; k < n; k++)
		{
			const unsigned i = hjg_emulated_block.x % 2 == 0 ? k : n - 1 - k;

			if (fibers[i].done || fibers[i].waits)
				continue;
			resume(i);
			went_on = true;
		}
		if (!went_on)
		{
			fprintf(stderr, "%s: %u threads of block %u wait for each other\n", running->name, nlive, hjg_emulated_block.x);
			abort();
		}
	}
	for (unsigned i = 0; i < MARGIN_BYTES; i++)
		if (((unsigned char *) shared)[shared_bytes + i] != POISON)
		{
			fprintf(stderr, "%s: block %u writes beyond %u bytes of shared memory\n", running->name, hjg_emulated_block.x, shared_bytes);
			abort();
		}
}

static void
run_kernel(const Launch *launch)
{
	pthread_mutex_lock(&one_launch);
	running = launch->kernel;
	running_params = launch->params;
	hjg_emulated_threads.x = launch->nthreads;
	hjg_emulated_blocks.x = (unsigned) launch->nblocks;
	for (hjg_emulated_block.x = 0; hjg_emulated_block.x < launch->nblocks; hjg_emulated_block.x++)
		run_block(launch->shared_bytes);
	pthread_mutex_unlock(&one_launch);
}

bool
hjg_stub_find_kernel(const char *name, StubFunction *function)
{
	for (const HjgEmulatedKernel *kernel = kernels; kernel != NULL; kernel = kernel->next)
		if (strcmp(kernel->name, name) == 0)
		{
			*function = (StubFunction) {.run = run_kernel, .rest = "", .kernel = kernel};
			return true;
		}
	return false;
}

const bool hjg_stub_runs_kernels = true;
