/*
 * hjg_test_coupled.h
 *	  Tests of the coupled engine for any device.
 */
#ifndef HJG_TEST_COUPLED_H
#define HJG_TEST_COUPLED_H

#include "coupled/hjg_coupled.h"
#include "hjg_test_engine.h"

/* Run all tests on these runners, one a key width; what names them in the claims. */
extern void test_coupled_on(const HjgRunner *const runners[3], const char *what);

/* Run the tests on a runner of threads, and those without a device. */
extern void test_coupled(void);

#endif							/* HJG_TEST_COUPLED_H */
