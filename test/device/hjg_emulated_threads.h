/*
 * hjg_emulated_threads.h
 *	  Threads of kernels that are compiled for the host (emulated_threads.c).  C and C++.
 */
#ifndef HJG_EMULATED_THREADS_H
#define HJG_EMULATED_THREADS_H

#ifdef __cplusplus
extern "C"
{
#endif

/* Most shared memory of a block, and most of its threads. */
#define HJG_EMULATED_SHARED (227 * 1024)
#define HJG_EMULATED_THREADS 1024

typedef struct HjgEmulatedIndex
{
	unsigned	x;
} HjgEmulatedIndex;

/* Places and sizes of the running thread, its block and the launch. */
extern HjgEmulatedIndex hjg_emulated_thread;
extern HjgEmulatedIndex hjg_emulated_block;
extern HjgEmulatedIndex hjg_emulated_threads;
extern HjgEmulatedIndex hjg_emulated_blocks;

/* The kinds of meetings of lanes, by what each lane gets. */
typedef enum HjgEmulatedMeeting
{
	HJG_MEET_ONLY,				/* nothing */
	HJG_MEET_TAKE,				/* the value of lane from */
	HJG_MEET_BALLOT,			/* the lanes whose value is not 0 */
	HJG_MEET_MATCH				/* the lanes with the same value */
} HjgEmulatedMeeting;

/* Wait for all lanes of the mask that have not ended; they must ask for the same kind. */
extern unsigned long long hjg_emulated_meet(unsigned mask, unsigned long long value, HjgEmulatedMeeting kind, int from);
/* Wait at barrier number id for n threads, 0: for all that have not ended. */
extern void hjg_emulated_barrier(unsigned id, unsigned n);
/* Wait for all threads; true if the predicate is for any of them. */
extern int	hjg_emulated_any(int predicate);
/* Let the other threads run. */
extern void hjg_emulated_yield(void);

/* A kernel: run() is one thread of it. */
typedef struct HjgEmulatedKernel
{
	const char *name;
	void		(*run) (void **params);
	struct HjgEmulatedKernel *next;
} HjgEmulatedKernel;

extern void hjg_emulated_register(HjgEmulatedKernel *kernel);

#ifdef __cplusplus
}
#endif

#endif							/* HJG_EMULATED_THREADS_H */
