/*
 * arena_slab.c
 *	  Free slabs: lock-free stacks, leasing, returning, trimming.
 *
 * A stack's head holds in one word the reference of the top slab and a count of changes, so a
 * compare-and-swap notices that the top was taken and put back in the meantime.  A slab's link is read
 * before it is known that the slab is still on top; if it is not, the link may be any value and the swap
 * fails.
 *
 * The owner word decides to whom a slab belongs.  Returning begins with a compare-and-swap of the owner
 * word to 0, so the owner and a sweep cannot return the same slab twice.  Stacks and table lie in the
 * server half: no device process can damage them.
 *
 * Memory.  Each half has as many slabs as both together may have memory for, and "nresident" counts those
 * with memory.  A slab gets its memory when it is leased cold, before any process writes to it: where the
 * system refuses, there is no slab, and no process is later killed by SIGBUS.  At the limit, a warm slab
 * of the other use gives up its memory.
 */
#define _GNU_SOURCE

#include <string.h>
#include <sys/mman.h>

#include "arena/hjg_arena.h"

#define HEAD(count, ref) ((hjg_u64) (count) << 32 | (ref))
#define HEAD_REF(head) ((hjg_u32) (head))
#define HEAD_COUNT(head) ((hjg_u32) ((head) >> 32))

/* Most free slabs of the other use that are searched for removable memory. */
#define MOST_HELD 256

/* Put a linked chain of n slabs on the stack. */
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
pop_slab(const HjgArena *arena, HjgSlabStack *stack)
{
	hjg_u64		head = __atomic_load_n(&stack->head, __ATOMIC_ACQUIRE);
	hjg_u32		next;

	do
	{
		if (HEAD_REF(head) == 0)
			return HJG_NO_SLAB;
		next = __atomic_load_n(&arena->slabs[HEAD_REF(head) - 1].next_ref, __ATOMIC_RELAXED);
	} while (!__atomic_compare_exchange_n(&stack->head, &head, HEAD(HEAD_COUNT(head) + 1, next), true,
										  __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE));
	__atomic_fetch_sub(&stack->nslabs, 1, __ATOMIC_RELAXED);
	return HEAD_REF(head) - 1;
}

static HjgSlabUse
use_of(const HjgArena *arena, hjg_u32 slab_ix)
{
	return slab_ix < arena->view.nslabs ? HJG_SLAB_INPUT : HJG_SLAB_RESULT;
}

static void
push_slab(const HjgArena *arena, HjgSlabStack *stacks, hjg_u32 slab_ix)
{
	push_chain(arena, &stacks[use_of(arena, slab_ix)], slab_ix, slab_ix, 1);
}

/* Read a clock in milliseconds that wraps around; only differences count. */
static hjg_u32
now_ms(void)
{
	return (hjg_u32) (hjg_now_ns() / 1000000);
}

/* A linked run of slabs. */
typedef struct SlabRun
{
	hjg_u32		first;
	hjg_u32		last;
	hjg_u32		n;
} SlabRun;

/* Append a slab to a run that the caller holds. */
static void
run_append(const HjgArena *arena, SlabRun *run, hjg_u32 slab_ix)
{
	if (run->n++ == 0)
		run->first = slab_ix;
	else
		__atomic_store_n(&arena->slabs[run->last].next_ref, slab_ix + 1, __ATOMIC_RELAXED);
	run->last = slab_ix;
}

/* ---- memory ---- */

/*
 * Give the memory of a free slab that the caller holds back to the system; false when a driver has it
 * registered, or the system refuses.
 */
static bool
remove_memory(const HjgArena *arena, hjg_u32 slab_ix)
{
	HjgSlab    *slab = &arena->slabs[slab_ix];
	bool		removed;

	__atomic_store_n(&slab->trimming, 1, __ATOMIC_SEQ_CST);
	removed = __atomic_load_n(&arena->view.holds[slab_ix], __ATOMIC_SEQ_CST) == 0 &&
		madvise(hjg_arena_slab_at(arena, slab_ix), HJG_SLAB_BYTES, MADV_REMOVE) == 0;
	if (removed)
		slab->dirty_bytes = 0;
	__atomic_store_n(&slab->trimming, 0, __ATOMIC_SEQ_CST);
	return removed;
}

/* Remove the memory of a warm slab of the other use. */
static bool
take_memory(const HjgArena *arena, HjgSlabUse from)
{
	HjgSlabStack *warm = &arena->control->warm[from];
	SlabRun			held = {0};
	hjg_u32		slab_ix = HJG_NO_SLAB;

	while (held.n < MOST_HELD && (slab_ix = pop_slab(arena, warm)) != HJG_NO_SLAB && !remove_memory(arena, slab_ix))
		run_append(arena, &held, slab_ix);
	if (held.n > 0)
		push_chain(arena, warm, held.first, held.last, held.n);
	if (held.n == MOST_HELD || slab_ix == HJG_NO_SLAB)
	{
		if (held.n > 0)
			__atomic_fetch_add(&arena->control->memory_wanted, 1, __ATOMIC_RELAXED);
		return false;
	}
	push_slab(arena, arena->control->cold, slab_ix);
	return true;
}

/*
 * Lease a slab that has no memory yet, and allocate it; HJG_NO_SLAB at the limit, or when the system
 * refuses.
 */
static hjg_u32
lease_cold(const HjgArena *arena, HjgSlabUse use)
{
	hjg_u32    *nresident = &arena->control->nresident;
	hjg_u32		n = __atomic_load_n(nresident, __ATOMIC_RELAXED);
	hjg_u32		slab_ix;
	size_t		off;

	while (n < arena->view.nslabs &&
		   !__atomic_compare_exchange_n(nresident, &n, n + 1, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
	if (n >= arena->view.nslabs && !take_memory(arena, HJG_SLAB_USES - 1 - use))
		return HJG_NO_SLAB;
	slab_ix = pop_slab(arena, &arena->control->cold[use]);
	if (slab_ix != HJG_NO_SLAB)
	{
		char	   *slab = hjg_arena_slab_at(arena, slab_ix);

		off = use == HJG_SLAB_INPUT ? (size_t) (slab - arena->base) : (size_t) (slab - arena->view.device_base);
		if (hjg_arena_populate(slab, HJG_SLAB_BYTES, use == HJG_SLAB_INPUT ? arena->server_fd : arena->device_fd, off))
			return slab_ix;
		/* part of the memory may have been allocated */
		(void) madvise(slab, HJG_SLAB_BYTES, MADV_REMOVE);
		push_slab(arena, arena->control->cold, slab_ix);
	}
	__atomic_fetch_sub(nresident, 1, __ATOMIC_SEQ_CST);
	return HJG_NO_SLAB;
}

/* ---- leasing and giving back ---- */

hjg_u32
hjg_slab_lease(const HjgArena *arena, hjg_u64 owner, hjg_u32 role, HjgSlabUse use)
{
	hjg_u32		slab_ix = pop_slab(arena, &arena->control->warm[use]);
	HjgSlab    *slab;

	if (slab_ix == HJG_NO_SLAB)
		slab_ix = lease_cold(arena, use);
	if (slab_ix == HJG_NO_SLAB)
		return HJG_NO_SLAB;

	slab = &arena->slabs[slab_ix];
	__atomic_store_n(&slab->owner, owner, __ATOMIC_RELEASE);
	if (slab->dirty_bytes > 0 && (use == HJG_SLAB_INPUT || slab->role != role))
	{
		memset(hjg_arena_slab_at(arena, slab_ix), 0, slab->dirty_bytes);
		slab->dirty_bytes = 0;
	}
	slab->role = role;
	slab->nrows = 0;
	slab->first_row = 0;
	__atomic_store_n(&slab->next_ref, 0, __ATOMIC_RELAXED);
	return slab_ix;
}

bool
hjg_slab_release(const HjgArena *arena, hjg_u32 slab_ix, hjg_u64 owner)
{
	HjgSlab    *slab;

	if (slab_ix >= 2 * arena->view.nslabs || owner == 0)
		return false;
	slab = &arena->slabs[slab_ix];
	__atomic_store_n(&slab->freed_ms, now_ms(), __ATOMIC_RELAXED);
	if (!__atomic_compare_exchange_n(&slab->owner, &owner, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return false;
	push_slab(arena, arena->control->warm, slab_ix);
	return true;
}

hjg_u32
hjg_slab_release_all(const HjgArena *arena, hjg_u64 owner)
{
	hjg_u32		n = 0;

	for (hjg_u32 ix = 0; ix < 2 * arena->view.nslabs; ix++)
		if (__atomic_load_n(&arena->slabs[ix].owner, __ATOMIC_RELAXED) == owner)
			n += hjg_slab_release(arena, ix, owner);
	return n;
}

/* ---- trimming ---- */

void
hjg_slab_clear_holds(const HjgArena *arena)
{
	for (hjg_u32 ix = 0; ix < 2 * arena->view.nslabs; ix++)
		__atomic_store_n(&arena->view.holds[ix], 0, __ATOMIC_SEQ_CST);
}

/*
 * Trim a warm stack.  The whole stack is taken at once; the slabs that stay go back in their order before
 * the system is called, so that other processes can lease them.
 */
static hjg_u32
trim_stack(const HjgArena *arena, HjgSlabStack *warm, hjg_u32 idle_ms, hjg_u32 keep, hjg_u32 most)
{
	hjg_u64		head = __atomic_load_n(&warm->head, __ATOMIC_ACQUIRE);
	hjg_u32		now = now_ms();
	SlabRun			kept = {0};
	SlabRun			idle = {0};
	SlabRun			rest = {0};
	hjg_u32		ntrimmed = 0;
	hjg_u32		ref;

	if (__atomic_load_n(&warm->nslabs, __ATOMIC_RELAXED) <= keep)
		return 0;
	while (HEAD_REF(head) != 0 &&
		   !__atomic_compare_exchange_n(&warm->head, &head, HEAD(HEAD_COUNT(head) + 1, 0), true,
										__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		;

	ref = HEAD_REF(head);
	while (ref != 0)
	{
		const hjg_u32 n = kept.n + idle.n + rest.n;
		const hjg_u32 slab_ix = ref - 1;

		ref = __atomic_load_n(&arena->slabs[slab_ix].next_ref, __ATOMIC_RELAXED);
		/* a slab may have been freed after "now" was taken */
		if (idle.n == 0 && (n < keep || (int32_t) (now - __atomic_load_n(&arena->slabs[slab_ix].freed_ms,
																		 __ATOMIC_RELAXED)) < (int32_t) idle_ms))
			run_append(arena, &kept, slab_ix);
		else
			run_append(arena, idle.n < most ? &idle : &rest, slab_ix);
	}
	__atomic_fetch_sub(&warm->nslabs, kept.n + rest.n, __ATOMIC_RELAXED);
	if (rest.n > 0)
		push_chain(arena, warm, rest.first, rest.last, rest.n);
	if (kept.n > 0)
		push_chain(arena, warm, kept.first, kept.last, kept.n);

	ref = idle.first + 1;
	for (hjg_u32 i = 0; i < idle.n; i++)
	{
		const hjg_u32 slab_ix = ref - 1;

		ref = __atomic_load_n(&arena->slabs[slab_ix].next_ref, __ATOMIC_RELAXED);
		__atomic_fetch_sub(&warm->nslabs, 1, __ATOMIC_RELAXED);
		if (remove_memory(arena, slab_ix))
		{
			push_slab(arena, arena->control->cold, slab_ix);
			__atomic_fetch_sub(&arena->control->nresident, 1, __ATOMIC_SEQ_CST);
			ntrimmed++;
			continue;
		}
		/* the slab counts as just freed */
		__atomic_store_n(&arena->slabs[slab_ix].freed_ms, now, __ATOMIC_RELAXED);
		push_slab(arena, arena->control->warm, slab_ix);
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
	const hjg_u32 nresident = __atomic_load_n(&arena->control->nresident, __ATOMIC_RELAXED);
	hjg_u32		warm = hjg_slab_nwarm(arena);

	/* the counts lag behind one another for a moment */
	warm = warm < nresident ? warm : nresident;
	use->total_bytes = (hjg_u64) arena->view.nslabs * HJG_SLAB_BYTES;
	use->leased_bytes = (hjg_u64) (nresident - warm) * HJG_SLAB_BYTES;
	use->warm_bytes = (hjg_u64) warm * HJG_SLAB_BYTES;
}
