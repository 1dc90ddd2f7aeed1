/*
 * hjg_fault_loop.h
 *	  Repeats a join, each time with the next call of the driver failing.
 */
#ifndef HJG_FAULT_LOOP_H
#define HJG_FAULT_LOOP_H

#include "engine/hjg_engine.h"
#include "hjg_test_stub.h"

/* The error of a failing call. */
typedef struct HjgFaultKind
{
	int			code;
	const char *what;
} HjgFaultKind;

#define HJG_FAULT_KINDS 3
extern const HjgFaultKind hjg_fault_kinds[HJG_FAULT_KINDS];

/* Runs the join, from the context on; sets *wrong if its answer is wrong. */
typedef HjgStatus (*HjgFaultRun) (const void *arg, const char **wrong);

/*
 * Fail at call 1, 2, ... until the join ends before that call: each in a separate process, since some
 * errors end it.  A join must end with the right rows or with a status, or its process must end cleanly.
 * Returns the number of failed calls, or -1 after any other end, which is printed.  Must precede the first
 * context of this process, which does not survive a fork.
 */
extern long hjg_fail_everywhere(HjgStub *stub, int code, HjgFaultRun run, const void *arg);

#endif							/* HJG_FAULT_LOOP_H */
