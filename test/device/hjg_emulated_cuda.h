/*
 * hjg_emulated_cuda.h
 *	  CUDA C++ as far as kernels/ uses it, for the host's compiler: a kernel's threads are those of
 *	  emulated_threads.c.
 *
 * Included before each kernel file (make check-lab), of which "extern __shared__" and the assembler's named
 * barrier are rewritten before.  Atomics are plain: one thread runs at a time, until it waits.
 */
#ifndef HJG_EMULATED_CUDA_H
#define HJG_EMULATED_CUDA_H

#include <math.h>
#include <stddef.h>
#include <string.h>
#include <type_traits>
#include <utility>

#include "hjg_emulated_threads.h"

#define __CUDACC__ 1
#define __device__
#define __host__
#define __global__
#define __constant__ extern
#define __shared__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) ulonglong2 { unsigned long long x, y; };

static inline uint2 make_uint2(unsigned x, unsigned y) { return uint2{x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return uint4{x, y, z, w}; }
static inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return ulonglong2{x, y}; }

#define threadIdx hjg_emulated_thread
#define blockIdx hjg_emulated_block
#define blockDim hjg_emulated_threads
#define gridDim hjg_emulated_blocks

/* ---- barriers and exchange ---- */

static inline void __syncthreads(void) { hjg_emulated_barrier(0, 0); }
static inline void __syncwarp(unsigned mask = ~0u) { hjg_emulated_meet(mask, 0, HJG_MEET_ONLY, 0); }
static inline void __nanosleep(unsigned) { hjg_emulated_yield(); }
static inline void __threadfence(void) {}
static inline void __threadfence_system(void) {}
#define hjg_emulated_named_barrier(id, n) hjg_emulated_barrier(id, n)

static inline int
__syncthreads_or(int predicate)
{
	return hjg_emulated_any(predicate);
}

template <class T> static inline unsigned long long
hjg_emulated_bits(T value)
{
	unsigned long long bits = 0;

	static_assert(sizeof(T) <= sizeof(bits), "exchanged values have 8 bytes at most");
	memcpy(&bits, &value, sizeof(T));
	return bits;
}

template <class T> static inline T
hjg_emulated_take(unsigned mask, T value, int from)
{
	const unsigned long long bits = hjg_emulated_meet(mask, hjg_emulated_bits(value), HJG_MEET_TAKE, from);
	T			result;

	memcpy(&result, &bits, sizeof(T));
	return result;
}

/* A lane out of range gives its own value. */
static inline int hjg_emulated_lane(void) { return (int) (threadIdx.x & 31); }
template <class T> static inline T __shfl_sync(unsigned mask, T v, int lane) { return hjg_emulated_take(mask, v, lane & 31); }
template <class T> static inline T __shfl_xor_sync(unsigned mask, T v, int x) { return hjg_emulated_take(mask, v, hjg_emulated_lane() ^ x); }
template <class T> static inline T
__shfl_up_sync(unsigned mask, T v, unsigned d)
{
	return hjg_emulated_take(mask, v, hjg_emulated_lane() < (int) d ? hjg_emulated_lane() : hjg_emulated_lane() - (int) d);
}
template <class T> static inline T
__shfl_down_sync(unsigned mask, T v, unsigned d)
{
	return hjg_emulated_take(mask, v, hjg_emulated_lane() + (int) d > 31 ? hjg_emulated_lane() : hjg_emulated_lane() + (int) d);
}
static inline unsigned __ballot_sync(unsigned mask, int p) { return (unsigned) hjg_emulated_meet(mask, p != 0, HJG_MEET_BALLOT, 0); }
static inline int __any_sync(unsigned mask, int p) { return __ballot_sync(mask, p) != 0; }
template <class T> static inline unsigned
__match_any_sync(unsigned mask, T v)
{
	return (unsigned) hjg_emulated_meet(mask, hjg_emulated_bits(v), HJG_MEET_MATCH, 0);
}

/* ---- memory ---- */

template <class T> static inline T __ldg(const T *p) { return *p; }
template <class T> static inline T __ldcs(const T *p) { return *p; }
template <class T> static inline T __ldcg(const T *p) { return *p; }
template <class T> static inline void __stcs(T *p, T v) { *p = v; }
template <class T> static inline void __stcg(T *p, T v) { *p = v; }

#define HJG_EMULATED_ATOMIC(name, expression) \
	template <class T> static inline T \
	name(T *p, std::common_type_t<T> v) \
	{ \
		const T		old = *p; \
\
		*p = (T) (expression); \
		return old; \
	}
HJG_EMULATED_ATOMIC(atomicAdd, old + v)
HJG_EMULATED_ATOMIC(atomicSub, old - v)
HJG_EMULATED_ATOMIC(atomicAnd, old & v)
HJG_EMULATED_ATOMIC(atomicOr, old | v)
HJG_EMULATED_ATOMIC(atomicXor, old ^ v)
HJG_EMULATED_ATOMIC(atomicExch, v)
HJG_EMULATED_ATOMIC(atomicMin, v < old ? v : old)
HJG_EMULATED_ATOMIC(atomicMax, v > old ? v : old)

template <class T> static inline T
atomicCAS(T *p, std::common_type_t<T> expected, std::common_type_t<T> v)
{
	const T		old = *p;

	if (old == expected)
		*p = v;
	return old;
}

/* ---- arithmetic ---- */

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned) x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned) ((unsigned long long) a * b >> 32); }
static inline unsigned long long
__umul64hi(unsigned long long a, unsigned long long b)
{
	return (unsigned long long) ((unsigned __int128) a * b >> 64);
}
static inline unsigned
__funnelshift_r(unsigned low, unsigned high, unsigned n)
{
	return (unsigned) (((unsigned long long) high << 32 | low) >> (n & 31));
}
static inline unsigned
__vcmpeq4(unsigned a, unsigned b)
{
	unsigned	equal = 0;

	for (int i = 0; i < 32; i += 8)
		equal |= (a >> i & 255) == (b >> i & 255) ? 255u << i : 0;
	return equal;
}
template <class A, class B> static inline std::common_type_t<A, B> min(A a, B b) { return a < b ? a : b; }
template <class A, class B> static inline std::common_type_t<A, B> max(A a, B b) { return a > b ? a : b; }

/* ---- kernels by name ---- */

/* Call a kernel for one thread, with the arguments that the launch points to. */
template <auto KERNEL> struct HjgEmulatedCall;
template <class... A, void (*KERNEL)(A...)> struct HjgEmulatedCall<KERNEL>
{
	template <size_t... I> static void
	call(void **params, std::index_sequence<I...>)
	{
		KERNEL(*(std::remove_cv_t<A> *) params[I]...);
	}
	static void run(void **params) { call(params, std::index_sequence_for<A...>()); }
};

#define HJG_EMULATED(kernel) {#kernel, HjgEmulatedCall<&kernel>::run, nullptr}
#define HJG_EMULATED_REGISTER(kernels) \
	__attribute__((constructor)) static void \
	register_kernels(void) \
	{ \
		for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) \
			hjg_emulated_register(&kernels[i]); \
	}

#endif							/* HJG_EMULATED_CUDA_H */
