/*
 * hjg_cuda_program.h
 *	  Programs on a GPU: declarations that the files device_cuda_program*.c and device_cuda_resident.c share.
 *
 * A program is copied and checked (hjg_device_program.h), its columns are brought to the device (device_cuda_resident.c), and it
 * runs there (device_cuda_run.c).  Until the job ends, the driver (device_cuda_program.c) has the
 * result in host memory, and nothing on the device.
 */
#ifndef HJG_CUDA_PROGRAM_H
#define HJG_CUDA_PROGRAM_H

#include "device/hjg_cuda_join.h"
#include "device/hjg_device_program.h"
#include "layout/hjg_program_args.h"

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

/* ---- device_cuda_run.c: running a program ---- */

/* A program with its result. */
typedef struct HjgCudaProgram
{
	HjgCudaDevice *device;
	const HjgEnv *env;
	hjg_u64    *words;			/* the result, in memory of env */
	hjg_u64		nwords;
	HjgJobStats stats;
	char		error[128];		/* text of the driver's error */
} HjgCudaProgram;

/* Memory that a table may have for the most rows, at once; tests make it small. */
extern size_t hjg_cuda_program_generous_bytes;
/* Groups that may come beside the first ones that are wanted, to save a look at all; tests allow none. */
extern hjg_u64 hjg_cuda_program_few_more;

/* Run a checked program; the context is current. */
extern HjgStatus hjg_cuda_program_run(HjgCudaProgram *result, const HjgDeviceProgram *program, const HjgKeptFile *kept);

/* ---- device_cuda_program.c: the driver ---- */

/* Set the file of kept columns that programs read; NULL: none. */
extern void hjg_cuda_program_open(const HjgKeptFile *kept);

extern const HjgDriver hjg_cuda_program_driver;

#endif							/* HJG_CUDA_PROGRAM_H */
