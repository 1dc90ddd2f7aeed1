/*
 * hjg_test_coupled.h
 *	  Tests of the coupled engine for any device.
 */
#ifndef HJG_TEST_COUPLED_H
#define HJG_TEST_COUPLED_H

#include "coupled/hjg_coupled.h"
#include "hjg_test_engine.h"

/* Pack the segments of a side, with any plan that suits; free with free_packed_side(). */
extern HjgSegment *pack_coupled_side(const Side *side, int width, Random *random);
extern void free_packed_side(HjgSegment *packed, int nsegments);
/* Run a case, and compare its rows; returns NULL, or what is wrong. */
extern const char *run_coupled(const Case *c, HjgPool *pool, const HjgCoupledConfig *config, const HjgRunner *runner, int npages,
							   hjg_u32 page_pairs, HjgCoupledStats *stats);
/* Run joins of such sides in every mode. */
extern void run_coupled_shape(const HjgRunner *runner, const char *what, HjgPool *pool, int width, KeyShape shape, hjg_u32 nbuild,
							  hjg_u32 nprobe);

/* Build and probe; n: a configuration; buffer_bytes: 0, or so small that the build side is in parts. */
extern HjgStatus attempt_coupled(const Case *c, Memory *memory, int n, size_t buffer_bytes, const HjgRunner *runner, Pages *pages);

/* Run all tests on these runners, one a key width; what names them in the claims. */
extern void test_coupled_on(const HjgRunner *const runners[3], const char *what);

/* Run them on a runner of threads, and the tests of test_coupled_bad.c. */
extern void test_coupled(void);

#endif							/* HJG_TEST_COUPLED_H */
