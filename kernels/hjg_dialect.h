/*
 * hjg_dialect.h
 *	  Macros with which the same text is C99 on the host and OpenCL C on a device: the data's address
 *	  space, inlining, and 32-bit atomics.
 */
#ifndef HJG_DIALECT_H
#define HJG_DIALECT_H

#include "layout/hjg_layout.h"

#ifdef __OPENCL_VERSION__
#define HJG_GLOBAL __global
#define HJG_STEP_FN static inline
#define hjg_step_add(p, v) atomic_add((volatile __global hjg_u32 *) (p), v)
#define hjg_step_or(p, v) atomic_or((volatile __global hjg_u32 *) (p), v)
#define hjg_step_swap(p, v) atomic_xchg((volatile __global hjg_u32 *) (p), v)
#define hjg_step_cas(p, old, v) atomic_cmpxchg((volatile __global hjg_u32 *) (p), old, v)
/* bypasses a compute unit's own cache, which may have the line from before another unit's write */
#define hjg_step_load(p) (*(volatile __global const hjg_u32 *) (p))
#define hjg_step_load64(p) (*(volatile __global const hjg_u64 *) (p))
#define hjg_step_publish() mem_fence(CLK_GLOBAL_MEM_FENCE)
#else
#define HJG_GLOBAL
#define HJG_STEP_FN static inline __attribute__((always_inline))
#define hjg_step_add(p, v) __atomic_fetch_add(p, v, __ATOMIC_RELAXED)
#define hjg_step_or(p, v) __atomic_fetch_or(p, v, __ATOMIC_RELAXED)
#define hjg_step_swap(p, v) __atomic_exchange_n(p, v, __ATOMIC_ACQ_REL)
#define hjg_step_load(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define hjg_step_load64(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define hjg_step_publish() ((void) 0)	/* the compare-and-swap releases */
static inline hjg_u32
hjg_step_cas(hjg_u32 *p, hjg_u32 old, hjg_u32 value)
{
	__atomic_compare_exchange_n(p, &old, value, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	return old;
}
#endif

#endif							/* HJG_DIALECT_H */
