/*
 * hjg_cuda_support.h
 *	  Running one join of the driver "cuda" against the reference, for the parts of test_cuda.
 *
 * The state is the process's: one join at a time.
 */
#ifndef HJG_CUDA_SUPPORT_H
#define HJG_CUDA_SUPPORT_H

#include "device/hjg_cuda_join.h"
#include "hjg_fault_loop.h"
#include "hjg_test_engine.h"

/* Bytes of device memory for some thousand build rows. */
#define SMALL_BUDGET ((size_t) 13 * 64 * 1024)

typedef struct Outcome
{
	const char *wrong;			/* NULL: the result is right */
	HjgStatus	status;			/* of the call that ended the join */
} Outcome;

extern HjgStub *stub;			/* NULL: the device is real */
extern int	strategy;			/* requested for joins */
extern int	ndeclined;			/* joins that used another strategy */
extern hjg_u32 npasses;			/* of the last join's build side */
extern const char *const mode_names[];
extern const int widths[3];

/* Build, probe to the end in rounds of npages pages, compare each round, and free. */
extern Outcome join_case(const Case *c, const HjgEnv *env, int npages, hjg_u32 page_pairs);

/* True if the strategy exists for comparison only. */
extern bool is_of_literature(void);
/* Name a strategy, including the laboratory's. */
extern const char *name_of(int number);

/*
 * cuda_faults.c: every call of a join fails, with each kind of error; before the first context of the
 * process.
 */
extern void test_faults_everywhere(void);

/* cuda_hostile.c: keys chosen with knowledge of the seed. */
extern void test_hostile(void);

/* cuda_memory.c: less memory than a strategy, or any join, needs; admission; build sides in passes. */
extern void test_memory(void);

/* cuda_times.c: times of joins from and to pinned slabs, on a real device. */
extern void time_joins(void);

#endif							/* HJG_CUDA_SUPPORT_H */
