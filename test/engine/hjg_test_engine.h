/*
 * hjg_test_engine.h
 *	  Harness of the engine tests: claims, seeded inputs, a counting allocator, and a reference join
 *	  that shares no code with the engine.
 */
#ifndef HJG_TEST_ENGINE_H
#define HJG_TEST_ENGINE_H

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/hjg_engine_internal.h"

/* Print a claim as a TAP line; returns condition. */
extern bool claim(bool condition, const char *format,...) __attribute__((format(printf, 2, 3)));
extern int	claims_passed;
extern int	claims_failed;

/* True under valgrind or a sanitizer: do less of everything. */
extern bool short_run;
extern hjg_u64 test_seed;

/*
 * Read options without values, one bit each in the order of names, which ends with NULL; ends the program
 * for any other.  The arguments behind them begin at argv[optind].
 */
extern unsigned test_options(int argc, char **argv, const char *const *names);

/* Set the run's seed, and a hash seed derived from it. */
extern void set_test_seed(hjg_u64 seed);

/* --- random numbers --- */

typedef struct Random
{
	hjg_u64		state;
} Random;

extern hjg_u64 random_u64(Random *random);
extern hjg_u32 random_below(Random *random, hjg_u32 n);

/* --- the engine's environment --- */

/* Most blocks of a join at a time: two for each of the coupled engine's many tables, and others. */
#define MEMORY_BLOCKS 640

typedef struct Memory
{
	HjgEnv		env;
	long		nallocs;
	long		live_blocks;
	size_t		live_bytes;
	size_t		peak_bytes;
	long		fail_at;		/* number of the allocation that fails, from 1; 0: none */
	long		npolls;			/* atomic */
	long		cancel_at;		/* number of the poll from which on polls cancel; 0: none */
	jmp_buf    *jump;			/* cancel by a long jump instead */
	void	   *blocks[MEMORY_BLOCKS];	/* to be freed after a long jump */
} Memory;

extern void memory_init(Memory *memory, HjgPool *pool);
extern void memory_release_all(Memory *memory);
extern bool memory_is_clean(const Memory *memory);

/* --- inputs (test_cases.c) --- */

typedef enum KeyShape
{
	KEYS_UNIFORM,				/* about one row a key */
	KEYS_DUPLICATES,			/* about eight rows a key on both sides */
	KEYS_ZIPF_05,
	KEYS_ZIPF_10,				/* on the probe side, and a little on the build side */
	KEYS_ZIPF_15,
	KEYS_ONE_HOT_BUILD,			/* all build rows but one */
	KEYS_ONE_HOT_PROBE,
	KEYS_ONE_HOT_BOTH,
	KEYS_COLLIDING,				/* many keys, all in one bucket */
	KEYS_COLLIDING_HOT,			/* one key has most build rows, and the probes look for its neighbours */
	KEYS_EXTREME,				/* zero, all bits set, single bits */
	KEYS_DISJOINT,
	KEYS_UNIQUE,				/* on the build side, which has four fifths of the probe side's keys */
	KEYS_DENSE,					/* unique and consecutive numbers */
	KEYS_DENSE_REPEATED,		/* consecutive numbers; one has half of the build rows, the others four on
								 * average */
	KEYS_NSHAPES
} KeyShape;

extern const char *const key_shape_names[KEYS_NSHAPES];

typedef struct Side
{
	hjg_u8	   *keys;
	hjg_u32		nrows;
	HjgSegment *segments;
	int			nsegments;
} Side;

typedef struct Case
{
	int			width;
	HjgMatchMode mode;
	Side		build;
	Side		probe;
	HjgPair    *expected;		/* canonical order */
	hjg_u64		nexpected;
	hjg_u64    *before;			/* expected pairs before each probe row; nprobe + 1 */
	Random		random;
} Case;

extern void case_create(Case *c, hjg_u64 seed, int width, HjgMatchMode mode, KeyShape shape,
						hjg_u32 nbuild, hjg_u32 nprobe);
/* Make a case of keys from malloc(); the case frees them. */
extern void case_of_keys(Case *c, hjg_u64 seed, int width, HjgMatchMode mode, hjg_u8 *build, hjg_u32 nbuild,
						 hjg_u8 *probe, hjg_u32 nprobe);
extern void case_destroy(Case *c);

typedef struct Pages
{
	HjgResult	result;
	HjgPair    *memory;
} Pages;

extern void pages_create(Pages *pages, int npages, hjg_u32 page_pairs);
extern void pages_destroy(Pages *pages);

/*
 * True for an engine whose rounds may end with room left; otherwise a round ends with a full result or
 * with the batch.
 */
extern bool rounds_may_end_early;
/* Check the contents of a round that went from *from to *to. */
extern bool check_round(const Case *c, const HjgCursor *from, const HjgCursor *to, const HjgResult *result);

/*
 * Run all rounds of a batch, with their own pages, and check each; returns NULL or an error text.
 * probe is an engine's, with its join.
 */
typedef HjgStatus (*ProbeFn) (void *join, const HjgSegment *segments, int nsegments, HjgCursor *cursor, HjgResult *result);
extern const char *run_rounds(const Case *c, ProbeFn probe, void *join, int npages, hjg_u32 page_pairs);

/* Build, probe in rounds, check each; returns NULL or an error text. */
extern const char *run_case(const Case *c, HjgPool *pool, HjgCpuStrategy strategy, int npages,
							hjg_u32 page_pairs, Memory *memory);

/* Set tuning with which a few hundred rows reach every path. */
extern void tune_small(void);
extern void tune_default(void);

extern void test_bloom(void);
extern void test_costs(void);
extern void test_direct(void);
extern void test_hash(void);
extern void test_pool(void);
extern void test_join(void);
extern void test_pack(void);
extern void test_resume(void);
extern void test_shared(void);
extern void test_sides(void);
extern void test_stage(void);
extern void test_faults(void);

#endif							/* HJG_TEST_ENGINE_H */
