/*
 * hjg_cuda_support.h
 *	  One join of the driver "cuda" against the reference, for the parts of test_cuda.
 *
 * State of the process: one join at a time.
 */
#ifndef HJG_CUDA_SUPPORT_H
#define HJG_CUDA_SUPPORT_H

#include "device/hjg_cuda_join.h"
#include "hjg_fault_loop.h"
#include "hjg_test_engine.h"

/* Device memory: room for some thousand build rows. */
#define SMALL_BUDGET ((size_t) 13 * 64 * 1024)

typedef struct Outcome
{
	const char *wrong;			/* NULL: what came is right */
	HjgStatus	status;			/* of the call that ended the join */
} Outcome;

extern HjgStub *stub;			/* NULL: the device is real */
extern int	strategy;			/* that joins are asked for */
extern int	ndeclined;			/* how many of them were joined by another one */
extern hjg_u32 npasses;			/* of the last join's build side */
extern const char *const mode_names[];
extern const int widths[3];

/* Build, probe to the end in rounds of npages pages, compare each round, and free. */
extern Outcome join_case(const Case *c, const HjgEnv *env, int npages, hjg_u32 page_pairs);

/* Is the strategy there for comparison only? */
extern bool is_of_literature(void);
/* Name of a strategy, those of the laboratory included. */
extern const char *name_of(int number);

/* cuda_faults.c: every call of a join fails, by each kind of error; before the first context of the process. */
extern void test_faults_everywhere(void);

/* cuda_hostile.c: keys that only who knows the seed can choose. */
extern void test_hostile(void);

/* cuda_memory.c: less memory than a strategy, or any join, needs; admission; build sides in passes. */
extern void test_memory(void);

/* cuda_times.c: times of joins from and to pinned slabs, on a real device. */
extern void time_joins(void);

#endif							/* HJG_CUDA_SUPPORT_H */
