/*
 * hjg_stub_kernels.h
 *	  Kernels of the emulated device: what stub_libcuda.c and stub_resident.c share.
 */
#ifndef HJG_STUB_KERNELS_H
#define HJG_STUB_KERNELS_H

#include "layout/hjg_layout.h"

typedef struct Launch
{
	hjg_u64		nblocks;
	void	  **params;
	int			width;			/* 0 for kernels that have none */
} Launch;

typedef void (*Emulation) (const Launch *launch);

/* Argument n of the launch. */
#define ARG(type, n) (*(const type *) launch->params[n])
#define MEMORY(type, n) ((type *) (size_t) ARG(HjgCudaPtr, n))

/* An emulated kernel; its name goes on with an underscore and the width if it has one, and then with more. */
typedef struct StubKernel
{
	const char *stem;
	Emulation	run;
	bool		plain;			/* no width */
} StubKernel;

/* Of resident joins; ends with an entry without a stem. */
extern const StubKernel hjg_stub_resident[];

#endif							/* HJG_STUB_KERNELS_H */
