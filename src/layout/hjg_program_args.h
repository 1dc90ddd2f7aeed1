/*
 * hjg_program_args.h
 *	  Arguments of the kernels that run a pipeline of a program (hjg_program.h) on a GPU: set by
 *	  src/device/device_cuda_program*.c, read by kernels/cuda_program.cu.
 *
 * Device addresses are hjg_u64.  All numbers have been checked before (device_program_check.c).
 */
#ifndef HJG_PROGRAM_ARGS_H
#define HJG_PROGRAM_ARGS_H

#include "layout/hjg_program.h"

/* Most threads of a block; fewer where many registers leave too little shared memory. */
#define HJG_K_PROGRAM_THREADS 256

/* Most rows between the first and the last of a piece. */
#define HJG_K_PIECE_ROWS 4096u

/* A width of codes that means that strings are tested where they are (device_program_strings.c). */
#define HJG_K_TESTED 16u

/* A column of a segment in device memory. */
typedef struct HjgKColumn
{
	hjg_u64		codes;
	hjg_u64		nulls;			/* a bit for each row, or 0 */
	hjg_u64		map;			/* hjg_u32[nwords], or 0 */
	int64_t		least;
	hjg_u32		width;			/* of a code; or HJG_K_TESTED, on threads alone: map is a HjgDeviceStrings */
	hjg_u32		nwords;
} HjgKColumn;

/* Rows that a block works on at a time: those of [first_row, end_row) of a segment that are in one of the runs, or slots of groups. */
typedef struct HjgKPiece
{
	hjg_u32		first_row;
	hjg_u32		end_row;
	hjg_u32		first_column;
	hjg_u32		first_run;
	hjg_u32		nruns;			/* 1: all of them are */
	hjg_u32		segment;		/* number of the segment */
} HjgKPiece;

/*
 * A hash table.  A record is hjg_u64[]: its head (kernels/hjg_program_records.h; 0: the record is empty), the keys, the values.  Zeroed memory is
 * an empty table.
 */
typedef struct HjgKRecords
{
	hjg_u64		records;
	hjg_u32		nslots;
	hjg_u32		nkeys;
	hjg_u32		record_words;
	hjg_u32		npayload;
} HjgKRecords;

#define HJG_K_RECORD_KEYS 1		/* words of a record's head */

/* A value of a record, made of a register. */
typedef enum HjgKValueKind
{
	HJG_K_PAYLOAD,				/* the register, of the first row */
	HJG_K_ROWS,					/* counts */
	HJG_K_NULLS,
	HJG_K_SUM,					/* sums: of the numbers, of their low 32 bits, of the others */
	HJG_K_SUM_LOW,
	HJG_K_SUM_HIGH,
	HJG_K_SUM_FLOATS,			/* bits of a double; the numbers are those of floats */
	HJG_K_LEAST,
	HJG_K_GREATEST
} HjgKValueKind;

typedef struct HjgKValue
{
	hjg_u8		kind;			/* HjgKValueKind */
	hjg_u8		reg;
} HjgKValue;

/* Most values: the rows, and of each argument its NULLs, if it may be NULL, two parts of a sum, and two extremes. */
#define HJG_K_MOST_VALUES (1 + HJG_PROGRAM_MAX_ARGUMENTS * 5)

/* Places of an argument's values in a record, behind the number of rows; 0: not wanted. */
typedef struct HjgKArgument
{
	hjg_u8		nulls;			/* 0: there are none */
	hjg_u8		sum;			/* HJG_K_SUM or HJG_K_SUM_FLOATS, or HJG_K_SUM_LOW and behind it HJG_K_SUM_HIGH */
	hjg_u8		sum_parts;
	hjg_u8		extremes;
} HjgKArgument;

/* Flags that kernels set. */
#define HJG_K_TABLE_FULL 1u
#define HJG_K_KEY_TWICE 2u
#define HJG_K_KEY_UNBOUNDED 4u	/* a key is not within its bounds */
#define HJG_K_STRING_UNKNOWN 8u	/* a string that is to be tested cannot be read */

/* hjg_k_fill_records, hjg_k_group_rows: a pipeline. Its rows are those of the pieces, or the groups of the source in these slots. */
typedef struct HjgKPipeline
{
	hjg_u64		steps;			/* HjgProgramStep[nsteps] */
	hjg_u64		columns;		/* HjgKColumn[] */
	hjg_u64		runs;			/* HjgProgramRun[] */
	hjg_u64		sets;			/* int64_t[] */
	hjg_u64		pieces;			/* HjgKPiece[npieces] */
	hjg_u64		flags;			/* hjg_u32 */
	hjg_u32		npieces;
	hjg_u32		nsteps;
	hjg_u32		nregisters;
	hjg_u32		ncolumns;
	hjg_u32		unique;			/* rows with the same keys are an error */
	hjg_u32		nvalues;
	hjg_u32		near_slots;		/* of a block's own table of groups, in shared memory; 0: there is none */
	hjg_u32		groups;			/* the sink has groups: NULL is a key, too */
	hjg_u32		from_groups;	/* it has a source, */
	hjg_u32		source_number;	/* the table of this number */
	HjgKRecords source;
	HjgKRecords sink;
	HjgKRecords tables[HJG_PROGRAM_MAX_PIPELINES];
	hjg_u8		keys[HJG_PROGRAM_MAX_KEYS];
	HjgKValue	values[HJG_K_MOST_VALUES];
	HjgKArgument arguments[HJG_PROGRAM_MAX_ARGUMENTS];	/* of the source */
} HjgKPipeline;

/* Digits of the groups' order: the places of groups are counted digit by digit, from the highest one. */
#define HJG_K_ORDER_BITS 16
#define HJG_K_ORDER_BINS (1u << HJG_K_ORDER_BITS)

/*
 * The result: groups of the pipeline's source that go on, by a number that ascends in their order.  hjg_k_count_groups adds those whose
 * number begins with `prefix` to the bin of its next digit; hjg_k_list_groups writes those up to `last`, and counts them in listed.
 */
typedef struct HjgKResult
{
	HjgKPipeline pipeline;
	hjg_u64		words;
	hjg_u64		listed;			/* hjg_u64, zeroed by the caller */
	hjg_u64		bins;			/* hjg_u64[HJG_K_ORDER_BINS], zeroed by the caller */
	hjg_u64		prefix;
	hjg_u64		last;
	hjg_u32		shift;			/* bits behind the digit */
	hjg_u32		ordered;		/* 0: all groups have the number 0 */
	hjg_u32		order;			/* register */
	hjg_u32		descending;
	hjg_u32		nulls_first;
	hjg_u32		narguments;
	hjg_u32		group_words;	/* hjg_program_group_words() */
	hjg_u32		pad;
} HjgKResult;

#endif							/* HJG_PROGRAM_ARGS_H */
