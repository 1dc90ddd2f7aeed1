/*
 * hjg_device_program_run.h
 *	  A program while it runs, and the machine that runs it: a GPU (device_cuda_program.c) or the processor's threads
 *	  (device_cpu_program.c).
 *
 * The work is the same on all machines: tables of these sizes are filled by these pieces of rows (device_program_pipeline.c), and
 * groups are chosen from the last one (device_program_result.c).  A machine has memory, with addresses of its own, and runs the four
 * kernels over pieces.
 */
#ifndef HJG_DEVICE_PROGRAM_RUN_H
#define HJG_DEVICE_PROGRAM_RUN_H

#include "device/hjg_device_program.h"
#include "layout/hjg_program_args.h"

typedef enum HjgProgramKernel
{
	HJG_KERNEL_FILL_RECORDS,	/* of a HjgKPipeline */
	HJG_KERNEL_GROUP_ROWS,
	HJG_KERNEL_COUNT_GROUPS,	/* of a HjgKResult */
	HJG_KERNEL_LIST_GROUPS,
	HJG_KERNELS
} HjgProgramKernel;

typedef struct HjgMachineRun HjgMachineRun;

/* A pipeline and the pieces of its rows. */
typedef struct HjgTableFeed
{
	HjgKPipeline args;
	HjgKPiece  *pieces;
	hjg_u32		npieces;
} HjgTableFeed;

/* A table while pipelines fill it, one after the other. */
typedef struct HjgTableFill
{
	hjg_u32		number;			/* of the table */
	const HjgProgramTable *table;
	HjgKRecords sink;			/* the same in the arguments of all feeds, when a kernel runs */
	hjg_u32		nfeeds;
	HjgTableFeed *feeds;
} HjgTableFill;

/* The operations of a machine; a function returns when it is done.  Errors are the run's. */
typedef struct HjgProgramMachine
{
	size_t		generous_bytes; /* memory that a table may have for the most rows, at once */
	size_t		near_bytes;		/* most of a worker's own table of groups, */
	hjg_u32		near_slack;		/* and slots that it has for a group, at least 2 */
	size_t		(*room) (const HjgMachineRun *run); /* may be NULL: bytes that may be allocated still */
	HjgStatus	(*alloc) (HjgMachineRun *run, size_t bytes, hjg_u64 *at);
	void		(*free) (HjgMachineRun *run, hjg_u64 at, size_t bytes);
	HjgStatus	(*zero) (HjgMachineRun *run, hjg_u64 at, size_t bytes);
	HjgStatus	(*copy_in) (HjgMachineRun *run, hjg_u64 to, const void *from, size_t bytes);
	HjgStatus	(*copy_out) (HjgMachineRun *run, void *to, hjg_u64 from, size_t bytes);
	/* Run a kernel for these pieces, which are at args->pieces, too; args is a part of all_args, the kernel's. */
	HjgStatus	(*launch) (HjgMachineRun *run, HjgProgramKernel kernel, HjgKPipeline *args, void *all_args, const HjgKPiece *pieces,
						   hjg_u32 npieces);
	/*
	 * May be NULL: fill a table in another way, if that is better, with room for so many rows; returns whether it was.  Without room
	 * *flags has HJG_K_TABLE_FULL.  Groups have sink.nslots slots then, and are read by the machine's own kernels.
	 */
	bool		(*fill) (HjgMachineRun *run, HjgTableFill *fill, hjg_u64 nrows, hjg_u32 *flags, HjgStatus *status);
	/* May be NULL: free what `fill` has made of a table, if it has. */
	void		(*drop) (HjgMachineRun *run, hjg_u32 number);
} HjgProgramMachine;

/* Tests make it small. */
extern HjgProgramMachine hjg_cuda_machine;
extern HjgProgramMachine hjg_cpu_machine;

/* Facts that kernels find. */
typedef struct HjgProgramFacts
{
	hjg_u64		listed;			/* groups of the result */
	hjg_u32		flags;
	hjg_u32		pad;
} HjgProgramFacts;

/* Addresses are the machine's. */
struct HjgMachineRun
{
	const HjgProgramMachine *machine;
	const HjgDeviceProgram *program;
	const HjgEnv *env;
	hjg_u64		block;			/* the program's */
	hjg_u64		columns;		/* HjgKColumn[] */
	hjg_u64		facts;			/* HjgProgramFacts */
	HjgKRecords tables[HJG_PROGRAM_MAX_PIPELINES];
	HjgKArgument arguments[HJG_PROGRAM_MAX_PIPELINES][HJG_PROGRAM_MAX_ARGUMENTS];	/* of tables that have groups */
};

/* Is the work to stop? Asked by each piece of it; *cancelled is shared by all. */
static inline bool
hjg_device_stopped(const HjgEnv *env, bool *cancelled)
{
	if (__atomic_load_n(cancelled, __ATOMIC_RELAXED))
		return true;
	if (env->poll == NULL || !env->poll(env->arg))
		return false;
	__atomic_store_n(cancelled, true, __ATOMIC_RELAXED);
	return true;
}

#define TRY(call) \
	do { \
		HjgStatus try_status = (call); \
		if (try_status != HJG_OK) \
			return try_status; \
	} while (0)

/* ---- device_program_pipeline.c ---- */

extern void hjg_device_free_table(HjgMachineRun *run, hjg_u32 number);
/* Divide the slots of groups into pieces; returns how many. pieces NULL: counts them. */
extern hjg_u64 hjg_device_divide_groups(const HjgKRecords *groups, HjgKPiece *pieces);
/* Have a pipeline, or the result, read the groups of this table. */
extern void hjg_device_set_source(const HjgMachineRun *run, hjg_u32 source, HjgKPipeline *args);

/* Describe a column of the program, with the block and the column's memory, if that is kept, at these addresses. */
extern HjgKColumn hjg_device_describe_column(const HjgDeviceProgram *program, hjg_u32 number, hjg_u64 block, hjg_u64 kept);
/* Count the rows that a program reads. */
extern void hjg_device_note_rows(const HjgDeviceProgram *program, HjgJobStats *stats);

/* Run all pipelines, with the block, the columns and the facts where the run says. */
extern HjgStatus hjg_device_run_pipelines(HjgMachineRun *run);
/* Free the tables. */
extern void hjg_device_free_tables(HjgMachineRun *run);

/* ---- device_program_result.c ---- */

/* Choose the groups of the result, when all pipelines have run. */
extern HjgStatus hjg_device_choose_groups(HjgMachineRun *run, HjgProgramResult *result);

#endif							/* HJG_DEVICE_PROGRAM_RUN_H */
