/*
 * service_state.c
 *	  The state of the service, and its counters.
 */
#include "postgres.h"

#include "service/hjg_service.h"
#include "service/hjg_service_private.h"

StaticAssertDecl((int) HJG_COUNT_COUNT <= HJG_CONTROL_COUNTERS, "too many counters for the arena");
StaticAssertDecl((int) HJG_REASON_COUNT <= HJG_CONTROL_FALLBACKS, "too many reasons for the arena");

const HjgReasonFacts hjg_reasons[] = {
#define REASON(name, counter, text, sqlstate, hint) {counter, text, sqlstate, hint},
	HJG_REASONS(REASON)
#undef REASON
};

bool
hjg_service_trusted(void)
{
	return hjg_arena_map.base == NULL ||
		__atomic_load_n(&hjg_arena_map.control->counters[HJG_COUNT_MISMATCHES], __ATOMIC_RELAXED) == 0;
}

bool
hjg_service_available(HjgReason *reason)
{
	if (hjg_arena_map.base == NULL)
		*reason = HJG_REASON_NO_ARENA;
	else if (!hjg_service_trusted())
		*reason = HJG_REASON_DISTRUSTED;
	else if (__atomic_load_n(&hjg_arena_map.control->ready_epoch, __ATOMIC_ACQUIRE) !=
			 __atomic_load_n(&hjg_arena_map.control->epoch, __ATOMIC_ACQUIRE))
		*reason = HJG_REASON_NO_DEVICE_PROCESS;
	else
	{
		*reason = HJG_REASON_NONE;
		return true;
	}
	return false;
}

void
hjg_service_count(HjgCounter counter, uint64 n)
{
	if (hjg_arena_map.base != NULL && (unsigned) counter < HJG_COUNT_COUNT)
		__atomic_fetch_add(&hjg_arena_map.control->counters[counter], n, __ATOMIC_RELAXED);
}

void
hjg_service_count_largest(HjgCounter counter, uint64 n)
{
	uint64	   *largest;
	uint64		known;

	if (hjg_arena_map.base == NULL)
		return;
	largest = &hjg_arena_map.control->counters[counter];
	known = __atomic_load_n(largest, __ATOMIC_RELAXED);
	while (known < n && !__atomic_compare_exchange_n(largest, &known, n, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

void
hjg_service_count_fallback(HjgReason reason)
{
	if (hjg_arena_map.base != NULL && (unsigned) reason < HJG_REASON_COUNT)
		__atomic_fetch_add(&hjg_arena_map.control->fallbacks[reason], 1, __ATOMIC_RELAXED);
}
