/*
 * hjg_cuda_program.h
 *	  Programs on a GPU: declarations that device_cuda_program.c and device_cuda_resident.c share.
 */
#ifndef HJG_CUDA_PROGRAM_H
#define HJG_CUDA_PROGRAM_H

#include "device/hjg_cuda_join.h"
#include "device/hjg_device_program_run.h"

#define HJG_CUDA_PROGRAM_WAIT_MS 200	/* for memory of the device */

/* ---- device_cuda_resident.c: columns in device memory ---- */

/* Most bytes of columns that are brought, kept and dropped together; tests make it small. */
extern size_t hjg_cuda_resident_piece_bytes;

typedef struct HjgCudaResidentPiece HjgCudaResidentPiece;

/* A column that a program reads. */
typedef struct HjgCudaColumn
{
	const HjgProgramColumn *column;
	hjg_u32		nrows;
	HjgCudaPtr	at;				/* out: its bits of NULLs and its codes */
	HjgCudaResidentPiece *piece;		/* out: where they are; NULL: not brought */
} HjgCudaColumn;

/*
 * Bring columns of the file to the device, where they stay until they are released, and longer if they have an id.
 * HJG_ERR_INPUT: a column's memory is not as it was written.  stream->grant is what else the program holds.
 */
extern HjgStatus hjg_cuda_resident_bring(HjgCudaStreams *streams, const HjgEnv *env, const HjgKeptFile *kept, HjgCudaColumn *columns,
										 size_t ncolumns);
/* Release columns; no queued work uses them.  Those that were not brought are ignored. */
extern void hjg_cuda_resident_release(HjgCudaDevice *device, HjgCudaColumn *columns, size_t ncolumns);
/* Drop all columns of the device that no program uses; returns the bytes of the others. */
extern size_t hjg_cuda_resident_drop(HjgCudaDevice *device);

#endif							/* HJG_CUDA_PROGRAM_H */
