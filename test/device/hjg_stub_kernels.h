/*
 * hjg_stub_kernels.h
 *	  Kernels of the emulated device: declarations that the files stub_*.c share.
 */
#ifndef HJG_STUB_KERNELS_H
#define HJG_STUB_KERNELS_H

#include "device/hjg_cuda.h"
#include "hjg_csr_steps.h"
#include "layout/hjg_cuda_args.h"

typedef struct Launch
{
	hjg_u64		nblocks;
	void	  **params;
	int			width;			/* 0 for kernels without a width */
	const char *rest;			/* of the name, behind the width */
	unsigned	nthreads;		/* of a block */
	unsigned	shared_bytes;
	const void *kernel;			/* compiled for the host (emulated_threads.c) */
} Launch;

typedef void (*Emulation) (const Launch *launch);

/* A kernel that was found by its name. */
typedef struct StubFunction
{
	Emulation	run;
	int			width;
	char		rest[16];		/* of the name */
	const void *kernel;
} StubFunction;

/* Find a kernel: a plain loop (stub_kernels.c), or one that is compiled for the host (emulated_threads.c). */
extern bool hjg_stub_find_kernel(const char *name, StubFunction *function);

/* The object at an address of the device. */
#define AT(type, address) ((type *) (size_t) (address))

/* Argument n of the launch. */
#define ARG(type, n) (*(const type *) launch->params[n])
#define MEMORY(type, n) ((type *) (size_t) ARG(HjgCudaPtr, n))

/*
 * An emulated kernel; its name continues with an underscore and the width if it has one, and then with
 * more.
 */
typedef struct StubKernel
{
	const char *stem;
	Emulation	run;
	bool		plain;			/* no width */
} StubKernel;

/*
 * Kernels of the csr table, of resident joins, of those of the literature, of their last step, and of
 * programs; each ends with an entry without a stem.
 */
extern const StubKernel hjg_stub_csr[];
extern const StubKernel hjg_stub_resident[];
extern const StubKernel hjg_stub_literature[];
extern const StubKernel hjg_stub_match[];
extern const StubKernel hjg_stub_program[];

/* ---- keys, rows and pairs ---- */

static inline hjg_u32
top_of(int width, HjgCsrKey mixed)
{
	return (hjg_u32) (width == HJG_KEY_WIDTH_4 ? mixed.high : mixed.high >> 32);
}

static inline HjgCsrKey
mixed_at(int width, hjg_u64 keys, hjg_u64 i)
{
	return hjg_step_mix(width, hjg_step_load(width, AT(void, keys), i));
}

static inline hjg_u32
row_at(const HjgKSide *side, hjg_u32 i)
{
	return side->rows != 0 ? AT(hjg_u32, side->rows)[i] : i;
}

static inline void
put_pair(const HjgKOutput *output, hjg_u32 probe_row, hjg_u32 build_row)
{
	const hjg_u64 place = AT(hjg_u64, output->counters)[0]++;

	if (place < output->capacity)
		AT(HjgPair, output->pairs)[place] = (HjgPair) {probe_row, build_row};
}

/* Emit a row that has one match, or none: HJG_NO_ROW. */
static inline void
put_row(const HjgKOutput *output, hjg_u32 mode, hjg_u32 probe_row, hjg_u32 match)
{
	if (match == HJG_NO_ROW ? mode == HJG_MATCH_LEFT || mode == HJG_MATCH_ANTI : mode != HJG_MATCH_ANTI)
		put_pair(output, probe_row, match);
}

static inline void
put_tuple(int width, const HjgKRows *rows, hjg_u32 i, HjgCsrKey key, hjg_u32 row)
{
	if (width == HJG_KEY_WIDTH_4)
	{
		AT(hjg_u32, rows->keys)[2 * i] = (hjg_u32) key.high;
		AT(hjg_u32, rows->keys)[2 * i + 1] = row;
		return;
	}
	hjg_step_store(width, AT(void, rows->keys), i, key);
	AT(hjg_u32, rows->rows)[i] = row;
}

static inline HjgCsrKey
get_tuple(int width, const HjgKRows *rows, hjg_u32 i, hjg_u32 *row)
{
	if (width == HJG_KEY_WIDTH_4)
	{
		*row = AT(hjg_u32, rows->keys)[2 * i + 1];
		return (HjgCsrKey) {.high = AT(hjg_u32, rows->keys)[2 * i]};
	}
	*row = AT(hjg_u32, rows->rows)[i];
	return hjg_step_load(width, AT(void, rows->keys), i);
}

/* True if the mode wants all of a probe row's matches. */
static inline bool
wants_several(hjg_u32 mode)
{
	return mode == HJG_MATCH_ALL || mode == HJG_MATCH_LEFT;
}

static inline bool
wants_lonely(hjg_u32 mode)
{
	return mode == HJG_MATCH_LEFT || mode == HJG_MATCH_ANTI;
}

#endif							/* HJG_STUB_KERNELS_H */
