/*
 * arena_slab.c
 *	  Free slabs: lock-free stacks, leasing, giving back, trimming.
 *
 * A stack's head holds the reference of the top slab and a count of changes in
 * one word, so a compare-and-swap notices that the top was taken and put back in
 * the meantime.  The link of a slab is read before it is known that the slab is
 * still on top; then it may be any value, and the swap fails.
 *
 * The owner word decides who a slab belongs to: taking a slab off a stack is
 * complete when its owner word went from 0 to the owner, giving back begins with
 * the owner word going to 0.  Both by compare-and-swap, so that the owner and a
 * sweep cannot give the same slab back twice, and a free list that someone
 * damaged cannot hand out a slab that is in use.  Such damage sets "broken":
 * nothing is leased any more and joins run in the backends, until the supervisor
 * has ended the device process and made the stacks anew.
 */
#define _GNU_SOURCE

#include <string.h>
#include <sys/mman.h>

#include "arena/hjg_arena.h"

#define HEAD(count, ref) ((hjg_u64) (count) << 32 | (ref))
#define HEAD_REF(head) ((hjg_u32) (head))
#define HEAD_COUNT(head) ((hjg_u32) ((head) >> 32))

static void
declare_broken(const HjgArena *arena)
{
	__atomic_store_n(&arena->control->broken, 1, __ATOMIC_SEQ_CST);
}

/* Put a chain of n slabs, linked from first to last, on the stack. */
static void
push_chain(const HjgArena *arena, HjgSlabStack *stack, hjg_u32 first, hjg_u32 last, hjg_u32 n)
{
	hjg_u64		head = __atomic_load_n(&stack->head, __ATOMIC_RELAXED);

	do
		__atomic_store_n(&arena->slabs[last].next_ref, HEAD_REF(head), __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&stack->head, &head, HEAD(HEAD_COUNT(head) + 1, first + 1), true,
										__ATOMIC_RELEASE, __ATOMIC_RELAXED));
	__atomic_fetch_add(&stack->nslabs, n, __ATOMIC_RELAXED);
}

static hjg_u32
pop(const HjgArena *arena, HjgSlabStack *stack)
{
	hjg_u64		head = __atomic_load_n(&stack->head, __ATOMIC_ACQUIRE);
	hjg_u32		ref;
	hjg_u32		next;

	do
	{
		ref = HEAD_REF(head);
		if (ref == 0)
			return HJG_NO_SLAB;
		if (ref > arena->nslabs)
		{
			declare_broken(arena);
			return HJG_NO_SLAB;
		}
		next = __atomic_load_n(&arena->slabs[ref - 1].next_ref, __ATOMIC_RELAXED);
	} while (!__atomic_compare_exchange_n(&stack->head, &head, HEAD(HEAD_COUNT(head) + 1, next), true,
										  __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE));
	__atomic_fetch_sub(&stack->nslabs, 1, __ATOMIC_RELAXED);
	return ref - 1;
}

/* Milliseconds that wrap around; only differences count. */
static hjg_u32
now_ms(void)
{
	return (hjg_u32) (hjg_arena_now_ns() / 1000000);
}

hjg_u32
hjg_slab_lease(const HjgArena *arena, hjg_u64 owner, hjg_u32 role, HjgSlabUse use)
{
	hjg_u64		nobody = 0;
	hjg_u32		slab_ix;
	HjgSlab    *slab;

	if (__atomic_load_n(&arena->control->broken, __ATOMIC_RELAXED))
		return HJG_NO_SLAB;
	/* even one that must be zeroed is faster than one whose memory is not there */
	slab_ix = pop(arena, &arena->control->warm[use]);
	if (slab_ix == HJG_NO_SLAB)
		slab_ix = pop(arena, &arena->control->warm[HJG_SLAB_USES - 1 - use]);
	if (slab_ix == HJG_NO_SLAB)
		slab_ix = pop(arena, &arena->control->cold);
	if (slab_ix == HJG_NO_SLAB)
		return HJG_NO_SLAB;

	slab = &arena->slabs[slab_ix];
	if (!__atomic_compare_exchange_n(&slab->owner, &nobody, owner, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
	{
		declare_broken(arena);
		return HJG_NO_SLAB;
	}
	if (slab->dirty_bytes > 0 && (use == HJG_SLAB_INPUT || slab->role != role))
	{
		hjg_u32		dirty = slab->dirty_bytes < HJG_SLAB_BYTES ? slab->dirty_bytes : HJG_SLAB_BYTES;

		memset(hjg_arena_slab_at(arena, slab_ix), 0, dirty);
		slab->dirty_bytes = 0;
	}
	slab->role = role;
	slab->use = use;
	slab->nrows = 0;
	slab->first_row = 0;
	__atomic_store_n(&slab->next_ref, 0, __ATOMIC_RELAXED);
	return slab_ix;
}

bool
hjg_slab_release(const HjgArena *arena, hjg_u32 slab_ix, hjg_u64 owner)
{
	HjgSlab    *slab;
	hjg_u32		use;

	if (slab_ix >= arena->nslabs || owner == 0)
		return false;
	slab = &arena->slabs[slab_ix];
	use = __atomic_load_n(&slab->use, __ATOMIC_RELAXED);
	__atomic_store_n(&slab->freed_ms, now_ms(), __ATOMIC_RELAXED);
	if (!__atomic_compare_exchange_n(&slab->owner, &owner, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return false;
	push_chain(arena, &arena->control->warm[use == HJG_SLAB_RESULT], slab_ix, slab_ix, 1);
	return true;
}

hjg_u32
hjg_slab_release_all(const HjgArena *arena, hjg_u64 owner)
{
	hjg_u32		n = 0;

	for (hjg_u32 ix = 0; ix < arena->nslabs; ix++)
		if (__atomic_load_n(&arena->slabs[ix].owner, __ATOMIC_RELAXED) == owner)
			n += hjg_slab_release(arena, ix, owner);
	return n;
}

/* A run of slabs, linked. */
typedef struct Run
{
	hjg_u32		first;
	hjg_u32		last;
	hjg_u32		n;
} Run;

static void
run_append(Run *run, hjg_u32 slab_ix)
{
	if (run->n++ == 0)
		run->first = slab_ix;
	run->last = slab_ix;
}

/*
 * Give the memory of a free slab in our hands back to the system; false when a
 * driver has it.  Such a slab stays warm, and counts as just freed.
 */
static bool
remove_memory(const HjgArena *arena, hjg_u32 slab_ix)
{
	HjgSlab    *slab = &arena->slabs[slab_ix];
	hjg_u32		none = HJG_HOLD_NONE;

	if (!__atomic_compare_exchange_n(&slab->hold, &none, HJG_HOLD_TRIM, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
	{
		__atomic_store_n(&slab->freed_ms, now_ms(), __ATOMIC_RELAXED);
		return false;
	}
	/* without the call's help the slab stays dirty, and is zeroed when it is leased */
	if (madvise(hjg_arena_slab_at(arena, slab_ix), HJG_SLAB_BYTES, MADV_REMOVE) == 0)
		slab->dirty_bytes = 0;
	__atomic_store_n(&slab->hold, HJG_HOLD_NONE, __ATOMIC_SEQ_CST);
	return true;
}

void
hjg_slab_unhold(const HjgArena *arena)
{
	for (hjg_u32 ix = 0; ix < arena->nslabs; ix++)
	{
		hjg_u32		device = HJG_HOLD_DEVICE;

		(void) __atomic_compare_exchange_n(&arena->slabs[ix].hold, &device, HJG_HOLD_NONE, false, __ATOMIC_SEQ_CST,
										   __ATOMIC_SEQ_CST);
	}
}

/*
 * The whole warm stack is taken at once, which leaves the others to who leases
 * meanwhile; what stays goes back in its order before the system is called.
 */
static hjg_u32
trim_stack(const HjgArena *arena, HjgSlabStack *warm, hjg_u32 idle_ms, hjg_u32 keep, hjg_u32 most)
{
	hjg_u64		head = __atomic_load_n(&warm->head, __ATOMIC_ACQUIRE);
	hjg_u32		now = now_ms();
	Run			kept = {0};
	Run			idle = {0};
	Run			rest = {0};
	hjg_u32		ntrimmed = 0;
	hjg_u32		ref;
	hjg_u32		slab_ix;

	if (__atomic_load_n(&warm->nslabs, __ATOMIC_RELAXED) <= keep)
		return 0;
	while (HEAD_REF(head) != 0 &&
		   !__atomic_compare_exchange_n(&warm->head, &head, HEAD(HEAD_COUNT(head) + 1, 0), true,
										__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		;

	for (ref = HEAD_REF(head); ref != 0; ref = __atomic_load_n(&arena->slabs[ref - 1].next_ref, __ATOMIC_RELAXED))
	{
		hjg_u32		n = kept.n + idle.n + rest.n;

		if (ref > arena->nslabs || n >= arena->nslabs)
		{
			declare_broken(arena);
			return 0;
		}
		/* a slab may have been freed after "now" was taken */
		if (idle.n == 0 && (n < keep || (int32_t) (now - __atomic_load_n(&arena->slabs[ref - 1].freed_ms,
																		 __ATOMIC_RELAXED)) < (int32_t) idle_ms))
			run_append(&kept, ref - 1);
		else
			run_append(idle.n < most ? &idle : &rest, ref - 1);
	}
	__atomic_fetch_sub(&warm->nslabs, kept.n + rest.n, __ATOMIC_RELAXED);
	if (rest.n > 0)
		push_chain(arena, warm, rest.first, rest.last, rest.n);
	if (kept.n > 0)
		push_chain(arena, warm, kept.first, kept.last, kept.n);

	slab_ix = idle.first;
	for (hjg_u32 i = 0; i < idle.n; i++)
	{
		hjg_u32		next_ref = __atomic_load_n(&arena->slabs[slab_ix].next_ref, __ATOMIC_RELAXED);

		__atomic_fetch_sub(&warm->nslabs, 1, __ATOMIC_RELAXED);
		if (remove_memory(arena, slab_ix))
		{
			push_chain(arena, &arena->control->cold, slab_ix, slab_ix, 1);
			ntrimmed++;
		}
		else
			push_chain(arena, warm, slab_ix, slab_ix, 1);
		slab_ix = next_ref - 1;
	}
	return ntrimmed;
}

hjg_u32
hjg_slab_trim(const HjgArena *arena, hjg_u32 idle_ms, hjg_u32 keep, hjg_u32 most)
{
	hjg_u32		ntrimmed = 0;

	for (int use = 0; use < HJG_SLAB_USES; use++)
		ntrimmed += trim_stack(arena, &arena->control->warm[use], idle_ms, keep, most);
	return ntrimmed;
}

bool
hjg_slab_repair(const HjgArena *arena)
{
	HjgControl *control = arena->control;

	/* who has no job does not touch a stack while "broken" is set */
	if (hjg_job_any_leased(arena))
		return false;
	for (int use = 0; use < HJG_SLAB_USES; use++)
	{
		__atomic_store_n(&control->warm[use].head, HEAD(HEAD_COUNT(control->warm[use].head) + 1, 0), __ATOMIC_SEQ_CST);
		__atomic_store_n(&control->warm[use].nslabs, 0, __ATOMIC_RELAXED);
	}
	for (hjg_u32 ix = 0; ix < arena->nslabs; ix++)
	{
		HjgSlab    *slab = &arena->slabs[ix];

		(void) madvise(hjg_arena_slab_at(arena, ix), HJG_SLAB_BYTES, MADV_REMOVE);
		*slab = (HjgSlab) {.next_ref = ix + 1 < arena->nslabs ? ix + 2 : 0, .dirty_bytes = HJG_SLAB_BYTES};
	}
	__atomic_store_n(&control->cold.nslabs, arena->nslabs, __ATOMIC_RELAXED);
	__atomic_store_n(&control->cold.head, HEAD(HEAD_COUNT(control->cold.head) + 1, 1), __ATOMIC_SEQ_CST);
	__atomic_store_n(&control->broken, 0, __ATOMIC_SEQ_CST);
	return true;
}

hjg_u32
hjg_slab_nwarm(const HjgArena *arena)
{
	hjg_u32		n = 0;

	for (int use = 0; use < HJG_SLAB_USES; use++)
		n += __atomic_load_n(&arena->control->warm[use].nslabs, __ATOMIC_RELAXED);
	return n;
}

void
hjg_arena_use(const HjgArena *arena, HjgArenaUse *use)
{
	hjg_u32		warm = hjg_slab_nwarm(arena);
	hjg_u32		cold = __atomic_load_n(&arena->control->cold.nslabs, __ATOMIC_RELAXED);
	hjg_u32		nfree;

	/* the two counts lag behind for a moment */
	warm = warm <= arena->nslabs ? warm : 0;
	cold = cold <= arena->nslabs ? cold : 0;
	nfree = warm + cold < arena->nslabs ? warm + cold : arena->nslabs;
	use->total_bytes = (hjg_u64) arena->nslabs * HJG_SLAB_BYTES;
	use->leased_bytes = (hjg_u64) (arena->nslabs - nfree) * HJG_SLAB_BYTES;
	use->warm_bytes = (hjg_u64) warm * HJG_SLAB_BYTES;
}
