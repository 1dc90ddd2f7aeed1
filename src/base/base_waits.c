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

static uint32 wait_events[HJG_NWAITS];

void
hjg_base_name_waits(void)
{
	for (int i = 0; i < HJG_NWAITS; i++)
		wait_events[i] = HJG_WAIT_EVENT_NEW(wait_names[i]);
}

uint32
hjg_base_wait_event(HjgWait wait)
{
	return wait_events[wait];
}
