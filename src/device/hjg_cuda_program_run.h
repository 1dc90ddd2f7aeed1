/*
 * hjg_cuda_program_run.h
 *	  A program while it runs on a GPU: shared by device_cuda_run.c, which has it, device_cuda_pipeline.c, which runs its pipelines, and
 *	  device_cuda_result.c, which chooses the groups of its result.  Internal to these three.
 */
#ifndef HJG_CUDA_PROGRAM_RUN_H
#define HJG_CUDA_PROGRAM_RUN_H

#include "device/hjg_cuda_program.h"

/* Facts that kernels find. */
typedef struct HjgCudaRunFacts
{
	hjg_u64		listed;			/* groups of the result */
	hjg_u32		flags;
	hjg_u32		pad;
} HjgCudaRunFacts;

/* A program that runs. */
typedef struct HjgCudaProgramRun
{
	const HjgDeviceProgram *program;
	const HjgEnv *env;
	HjgCudaStream *stream;
	HjgCudaGrant grant;
	HjgCudaPtr	block;
	HjgCudaPtr	columns;		/* HjgKColumn[] */
	HjgCudaPtr	facts;
	HjgCudaPtr	pieces;			/* of the pipeline that runs */
	HjgKRecords tables[HJG_PROGRAM_MAX_PIPELINES];
	HjgKArgument arguments[HJG_PROGRAM_MAX_PIPELINES][HJG_PROGRAM_MAX_ARGUMENTS];	/* of tables that have groups */
} HjgCudaProgramRun;

#define TRY(call) \
	do { \
		HjgStatus try_status = (call); \
		if (try_status != HJG_OK) \
			return try_status; \
	} while (0)

/* ---- device_cuda_pipeline.c ---- */

/* Allocate device memory, after adding to the grant what it lacks. */
extern HjgStatus hjg_cuda_program_alloc(HjgCudaProgramRun *run, size_t bytes, HjgCudaPtr *ptr);
extern void hjg_cuda_free_records(HjgCudaProgramRun *run, HjgKRecords *table);
/* Divide the slots of groups into pieces; returns how many. pieces NULL: counts them. */
extern hjg_u64 hjg_cuda_divide_groups(const HjgKRecords *groups, HjgKPiece *pieces);
/* Launch a kernel for all pieces, in parts that end soon; args: a part of the kernel's arguments, all_args. */
extern HjgStatus hjg_cuda_program_pieces(HjgCudaProgramRun *run, HjgCudaKernel *kernel, HjgKPipeline *args, void *all_args, const HjgKPiece *pieces,
										 hjg_u32 npieces);
/* Have a pipeline, or the result, read the groups of this table. */
extern void hjg_cuda_set_source(const HjgCudaProgramRun *run, hjg_u32 source, HjgKPipeline *args);

/* Run all pipelines, with the block and the columns on the device. */
extern HjgStatus hjg_cuda_run_pipelines(HjgCudaProgramRun *run);

/* ---- device_cuda_result.c ---- */

/* Choose the groups of the result, when all pipelines have run, and copy them to the host. */
extern HjgStatus hjg_cuda_program_result(HjgCudaProgramRun *run, HjgCudaProgram *result);

#endif							/* HJG_CUDA_PROGRAM_RUN_H */
