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
#include "vector/hjg_vector.h"

/* After the check everything in it may be used as it is. */
typedef struct HjgDeviceProgram
{
	const HjgEnv *env;			/* owner of the memory of the block */
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
	HjgFilter  *tests;			/* of strings, with */
	HjgBytes   *strings;		/* constants that they are compared with, */
	HjgSlice   *slices;			/* and the parts of them that are tested */
	hjg_u32    *column_rows;	/* rows of each column; 0: no pipeline reads it */
	hjg_u32		nregisters[HJG_PROGRAM_MAX_PIPELINES];	/* registers of each pipeline are below, */
	hjg_u32		result_registers;	/* and those of the result */
	const HjgProgramTable *groups;	/* of the result */
	hjg_u32		null_arguments[HJG_PROGRAM_MAX_PIPELINES];	/* of each table of groups: a bit for each argument that may be NULL */
} HjgDeviceProgram;

/* Copy a program out of a job's build side, once.  Freed by hjg_device_program_free(), also after an error. */
extern HjgStatus hjg_device_program_copy(const HjgEnv *env, const HjgSegment *segments, int nsegments, HjgDeviceProgram *program);
/* Check it, for a file of kept columns of this size; returns what is wrong, or NULL. */
extern const char *hjg_device_program_check(HjgDeviceProgram *program, hjg_u64 kept_bytes);
extern void hjg_device_program_free(HjgDeviceProgram *program);
/* Find which arguments of a checked program may be NULL (device_program_nulls.c). */
extern void hjg_device_find_nulls(HjgDeviceProgram *program);

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

/* Count those of a column of tested strings, before the first of these. */
static inline hjg_u64
hjg_device_strings_off(const HjgProgramColumn *column, hjg_u32 nrows)
{
	return hjg_device_null_bytes(column, nrows) + ((hjg_u64) nrows + 1) / 2 * 8;
}

/* ---- tests of strings (device_program_strings.c) ---- */

/* The strings of a column. */
typedef struct HjgDeviceStrings
{
	const HjgFilter *test;
	const hjg_u8 *nulls;		/* a bit for each row, or NULL */
	const hjg_u32 *places;
	const char *strings;
	size_t		nbytes;			/* of the strings */
} HjgDeviceStrings;

/* Prepare the tests of a program; returns what is wrong with them, or NULL. */
extern const char *hjg_device_check_tests(HjgDeviceProgram *program);
/* Find the strings of a column that is tested. */
extern HjgDeviceStrings hjg_device_find_strings(const HjgDeviceProgram *program, hjg_u32 number, const HjgKeptFile *kept);
/* Find which of at most HJG_MAX_VECTOR_ROWS rows, with these numbers, pass; false: one of their strings cannot be read. */
extern bool hjg_device_test_rows(const HjgDeviceStrings *strings, const hjg_u32 *rows, hjg_u32 n, bool *passes);
/* Count the bytes for a boolean for each row of each column that is tested, a column's from a multiple of 8 on, in their order. */
extern size_t hjg_device_passes_bytes(const HjgDeviceProgram *program);
/* Find these booleans, by all threads; passes NULL: only compare the columns with their checksums. HJG_ERR_INPUT: a column is not as it was written. */
extern HjgStatus hjg_device_test_columns(const HjgDeviceProgram *program, const HjgEnv *env, const HjgKeptFile *kept, bool *passes);

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
