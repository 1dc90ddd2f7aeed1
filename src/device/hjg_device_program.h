/*
 * hjg_device_program.h
 *	  Programs (layout/hjg_program.h) in the device process: checked, run, and their results.
 *
 * A program is copied and checked (device_program_check.c), and a machine runs it (hjg_device_program_run.h).  Until the job ends, the driver
 * (device_program.c) has the result in host memory.
 */
#ifndef HJG_DEVICE_PROGRAM_H
#define HJG_DEVICE_PROGRAM_H

#include "device/hjg_device.h"
#include "layout/hjg_program.h"

/* After the check everything in it may be used as it is. */
typedef struct HjgDeviceProgram
{
	const HjgEnv *env;			/* whose memory the block is */
	char	   *block;
	size_t		nbytes;
	const HjgProgram *head;		/* the block's parts */
	const HjgProgramPipeline *pipelines;
	const HjgProgramTable *tables;
	const HjgProgramStep *steps;
	const HjgProgramSegment *segments;
	const HjgProgramColumn *columns;
	const HjgProgramRun *runs;
	const hjg_u32 *maps;
	const int64_t *sets;
	const HjgProgramArgument *arguments;
	hjg_u32    *column_rows;	/* rows of each column; 0: no pipeline reads it */
	hjg_u32		nregisters[HJG_PROGRAM_MAX_PIPELINES];	/* registers of each pipeline are below, */
	hjg_u32		result_registers;	/* and those of the result */
	const HjgProgramTable *groups;	/* of the result */
} HjgDeviceProgram;

/* Copy a program out of a job's build side, once.  Freed by hjg_device_program_free(), also after an error. */
extern HjgStatus hjg_device_program_copy(const HjgEnv *env, const HjgSegment *segments, int nsegments, HjgDeviceProgram *program);
/* Check it, for a file of kept columns of this size; returns what is wrong, or NULL. */
extern const char *hjg_device_program_check(HjgDeviceProgram *program, hjg_u64 kept_bytes);
extern void hjg_device_program_free(HjgDeviceProgram *program);

/* Count the bytes of a column's bits of NULLs, and with its codes, for a segment of nrows. */
static inline hjg_u64
hjg_device_null_bytes(const HjgProgramColumn *column, hjg_u32 nrows)
{
	return column->has_nulls ? ((hjg_u64) nrows + 63) / 64 * 8 : 0;
}

static inline hjg_u64
hjg_device_column_bytes(const HjgProgramColumn *column, hjg_u32 nrows)
{
	return column->nbytes == 0 ? 0 : hjg_device_null_bytes(column, nrows) + (hjg_u64) nrows * column->width;
}

/* ---- results ---- */

typedef struct HjgProgramResult
{
	const HjgEnv *env;
	hjg_u64    *words;			/* in memory of env */
	hjg_u64		nwords;
	HjgJobStats stats;
} HjgProgramResult;

/* Groups that may come beside the first ones that are wanted, to save a look at all; tests allow none. */
extern hjg_u64 hjg_device_few_more;

/* ---- device_program.c: the drivers ---- */

/* Set the file of kept columns that programs read; NULL: none. */
extern void hjg_device_programs_open(const HjgKeptFile *kept);

/* Run a checked program on a device of this number (device_cuda_program.c, device_cpu_program.c). */
extern HjgStatus hjg_cuda_program_run(int number, HjgProgramResult *result, const HjgDeviceProgram *program, const HjgKeptFile *kept);
extern HjgStatus hjg_device_run_on_cpu(int number, HjgProgramResult *result, const HjgDeviceProgram *program, const HjgKeptFile *kept);

extern const HjgDriver hjg_cuda_program_driver;
extern const HjgDriver hjg_cpu_program_driver;

#endif							/* HJG_DEVICE_PROGRAM_H */
