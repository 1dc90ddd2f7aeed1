/*
 * base_waits.c
 *	  Names of wait events.
 */
#include "postgres.h"

#include "utils/wait_event.h"

#include "base/hjg_base.h"
#include "base/hjg_compat.h"

static const char *const wait_names[HJG_NWAITS] = {
#define WAIT(identifier, name) name,
	HJG_WAITS(WAIT)
#undef WAIT
};

uint32
hjg_base_wait_event(HjgWait wait)
{
	static uint32 events[HJG_NWAITS];	/* 0: not asked for yet */

	if (events[wait] == 0)
		events[wait] = HJG_WAIT_EVENT_NEW(wait_names[wait]);
	return events[wait];
}
