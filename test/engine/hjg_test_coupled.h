/*
 * hjg_test_coupled.h
 *	  Tests of the coupled engine that do not care what the device is.
 */
#ifndef HJG_TEST_COUPLED_H
#define HJG_TEST_COUPLED_H

#include "coupled/hjg_coupled.h"
#include "hjg_test_engine.h"

/* All of them on these runners, one a key width; what is their name in the claims. */
extern void test_coupled_on(const HjgRunner *const runners[3], const char *what);

/* The same on a runner of threads, and what needs no device. */
extern void test_coupled(void);

#endif							/* HJG_TEST_COUPLED_H */
