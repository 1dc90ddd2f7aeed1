/*
 * hjg_fault_loop.h
 *	  A join that is run again and again, each time with one call of the driver after the other failing.
 */
#ifndef HJG_FAULT_LOOP_H
#define HJG_FAULT_LOOP_H

#include "engine/hjg_engine.h"
#include "hjg_test_stub.h"

/* What a call that fails says. */
typedef struct HjgFaultKind
{
	int			code;
	const char *what;
} HjgFaultKind;

#define HJG_FAULT_KINDS 3
extern const HjgFaultKind hjg_fault_kinds[HJG_FAULT_KINDS];

/* The join, from the context on; *wrong becomes what was wrong with its answer, if anything was. */
typedef HjgStatus (*HjgFaultRun) (const void *arg, const char **wrong);

/*
 * Fail at call 1, 2, ... until the join ends before: each in a process of its own, since some errors end it.  A join
 * ends with the right rows, with a status, or its process ends cleanly.  The number of calls that failed; or -1
 * where one ended otherwise, which is printed.  Before the first context of this process, which does not survive a fork.
 */
extern long hjg_fail_everywhere(HjgStub *stub, int code, HjgFaultRun run, const void *arg);

#endif							/* HJG_FAULT_LOOP_H */
