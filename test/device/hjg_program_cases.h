/*
 * hjg_program_cases.h
 *	  Random programs over random columns, with their answers from an evaluator that shares no code with the runner.
 */
#ifndef HJG_PROGRAM_CASES_H
#define HJG_PROGRAM_CASES_H

#include "device/hjg_device.h"
#include "hjg_test_engine.h"
#include "layout/hjg_program.h"

/* The program's size, and what is to be in it. */
typedef struct ProgramShape
{
	hjg_u32		npipelines;
	hjg_u32		most_rows;		/* of a segment */
	bool		many_groups;	/* one for each row or so */
	bool		repeated_keys;	/* a unique table gets a key twice */
	bool		all_kept;		/* no column is in the block, and all have ids, but for strings that are tested */
	bool		coded;			/* no strings are tested */
	bool		outgrown;		/* estimates are much too low */
	bool		whole;			/* the result has all groups */
	bool		nested;			/* pipelines read the groups of those before */
	bool		one_key;		/* tables and groups have one, whose bounds are told */
	bool		shared_sinks;	/* pipelines have the sink of the one before */
} ProgramShape;

typedef struct ProgramGroup ProgramGroup;

typedef struct ProgramCase
{
	char	   *block;
	size_t		nbytes;
	char	   *kept;			/* the file of kept columns */
	size_t		kept_bytes;
	bool		refused;		/* a unique table gets a key twice */
	hjg_u32		nkeys;			/* of groups */
	hjg_u32		narguments;
	bool		wants_sum[HJG_PROGRAM_MAX_ARGUMENTS];
	bool		wants_extremes[HJG_PROGRAM_MAX_ARGUMENTS];
	ProgramGroup *groups;		/* that the result may have */
	hjg_u32		ngroups;
	hjg_u32		nwanted;		/* of these, that it must have */
} ProgramCase;

extern void program_create(ProgramCase *c, hjg_u64 seed, const ProgramShape *shape);
extern void program_destroy(ProgramCase *c);
/* Compare a result with the answer; NULL if it is right. */
extern const char *program_compare(const ProgramCase *c, const hjg_u64 *words, hjg_u64 nwords);

/* Print the times of programs over so many rows (program_times.c); pool: NULL, or the threads that run them. */
extern void program_times(const HjgDriver *driver, HjgPool *pool, hjg_u64 nrows);

#endif							/* HJG_PROGRAM_CASES_H */
