/*
 * hjg_program.h
 *	  A program: the operators of a query over kept columns, written down for the device process, and its result.
 *
 * A backend writes a program when all tables below a GpuAggregate are in kept columns (src/kept), and the device process runs it
 * from these columns, without a worker process and without keys and pairs going to and fro.  What cannot be written as a program
 * is not: then the node runs as always.
 *
 * Pipelines.  A program is a list of pipelines, which run one after the other.  Each reads the rows of a table, or groups that a
 * pipeline before has made, applies its steps to each row, and ends in a sink: a hash table, which later pipelines probe, or
 * groups, with totals of their rows.  Pipelines that follow one another may have the same sink: then it has the rows of all of them.  The groups of the last pipeline are the result: those that pass the steps of the result, and
 * of these, if it has an order, the first ones.  A row has HJG_PROGRAM_REGISTERS registers, each a signed 64-bit integer or NULL, all NULL at first.  Integers, dates and times are
 * themselves, numerics are integers of one scale, which only the writer knows, and strings are the numbers that the writer gave
 * them (maps).  A boolean is 0 or 1, never NULL.
 *
 * No step fails.  The writer knows the least and the greatest value of every column, and writes only arithmetic whose results
 * fit 64 bits for all values between; the runner computes modulo 2^64.
 *
 * Transport.  A program is one block of memory: this head, its arrays, and the columns of blocks that are not kept.  It goes to
 * the device process as the build side of a job of mode HJG_MATCH_PROGRAM: build rows are its words, keys of 8 bytes.  A batch
 * without probe rows asks for the next words of the result, in rounds: a pair is a word, and the cursor's row counts them.
 *
 * Trust.  The runner copies the block once and checks the copy (device_program_check.c): whatever it holds, nothing outside of
 * the block, the kept columns and the runner's own memory is accessed.  Kept columns are compared with their checksums when they
 * are copied to a device.
 */
#ifndef HJG_PROGRAM_H
#define HJG_PROGRAM_H

#include "layout/hjg_layout.h"

#define HJG_PROGRAM_MAX_BYTES (256u * 1024u * 1024u)
#define HJG_PROGRAM_MAX_PIPELINES 16
#define HJG_PROGRAM_MAX_STEPS 128	/* of a pipeline */
#define HJG_PROGRAM_MAX_COLUMNS 64	/* of a pipeline */
#define HJG_PROGRAM_REGISTERS 32
#define HJG_PROGRAM_MAX_KEYS 8
#define HJG_PROGRAM_MAX_PAYLOAD 16	/* registers that a table keeps of a row beside its keys */
#define HJG_PROGRAM_MAX_ARGUMENTS 16
#define HJG_PROGRAM_MAX_SEGMENT_ROWS 0x20000u

/* Bounds of what numbers are rounded down to multiples of, or divided by: with these, a quotient of doubles is wrong by one at most. */
#define HJG_PROGRAM_LEAST_ROUNDED (INT64_C(1) << 16)
#define HJG_PROGRAM_MOST_ROUNDED (INT64_C(1) << 48)

/* Most possible keys for a row that is expected, of a table by ranks (device_cpu_ranks.c): less memory than hashes need. */
#define HJG_PROGRAM_MOST_RANKED 256

/*
 * The bits of a double by its number, and the number by its bits: the numbers are in the order of the doubles, with -0 before 0.  That of
 * each NaN is INT64_MAX.
 */
#define HJG_PROGRAM_FLOAT_BITS(number) ((number) < 0 ? (number) ^ INT64_MAX : (number))

/* "No map": the column's codes are values. */
#define HJG_PROGRAM_NO_MAP 0xFFFFFFFFu

/* "No test": a column's strings have codes, or it has none. */
#define HJG_PROGRAM_NO_TEST 0xFFFFFFFFu

/* Flag in a column's place: an offset in the program's own block; otherwise an offset in the file of kept columns. */
#define HJG_PROGRAM_IN_BLOCK (1ull << 63)

typedef enum HjgProgramOp
{
	HJG_PROGRAM_COLUMN,			/* to = column `arg` of the pipeline */
	HJG_PROGRAM_GROUP,			/* to = value `arg` of the group, see HJG_PROGRAM_GROUP_ROWS */
	HJG_PROGRAM_ROW,			/* to = HJG_PROGRAM_MAX_SEGMENT_ROWS * number of the segment + the row's number in it */
	HJG_PROGRAM_CONSTANT,		/* to = low, or NULL if high is not 0 */
	HJG_PROGRAM_ADD,			/* to = left + right; NULL if one of them is, as of the next three */
	HJG_PROGRAM_SUBTRACT,
	HJG_PROGRAM_MULTIPLY,
	HJG_PROGRAM_NEGATE,			/* to = -left */
	HJG_PROGRAM_ROUND_DOWN,		/* to = the greatest number up to left that is `high` less than a multiple of low */
	HJG_PROGRAM_LOOK_UP,		/* to = values[arg + 1 + (left - low) / high]; values[arg] says of how many, the first or the last stands for others */
	HJG_PROGRAM_FLOAT,			/* to = the number of a float, of which left is the bits, as a signed integer of low bytes: 4 or 8; see HJG_PROGRAM_FLOAT_BITS */
	HJG_PROGRAM_MOVE_IF,		/* to = right, if left is neither 0 nor NULL */
	HJG_PROGRAM_IN_RANGE,		/* to = low <= left <= high; 0 for a NULL, as of all comparisons */
	HJG_PROGRAM_NOT_IN_RANGE,
	HJG_PROGRAM_IN_SET,			/* left is one of values[arg .. arg + low - 1], which ascend */
	HJG_PROGRAM_NOT_IN_SET,
	HJG_PROGRAM_EQ,				/* left and right compared */
	HJG_PROGRAM_NE,
	HJG_PROGRAM_LT,
	HJG_PROGRAM_LE,
	HJG_PROGRAM_GT,
	HJG_PROGRAM_GE,
	HJG_PROGRAM_IS_NULL,
	HJG_PROGRAM_IS_NOT_NULL,
	HJG_PROGRAM_AND,			/* of booleans */
	HJG_PROGRAM_OR,
	HJG_PROGRAM_FILTER,			/* the row goes on if left is neither 0 nor NULL */
	/*
	 * Look up registers left, left + 1, ... in table `arg`. A row with a NULL there has no partner.  INNER: a row without a
	 * partner ends here; of another one the partner's payload goes to registers to, to + 1, ...  LEFT: without a partner
	 * these become NULL.  SEMI, ANTI: rows with, or without, a partner go on; nothing is set.
	 */
	HJG_PROGRAM_PROBE_INNER,
	HJG_PROGRAM_PROBE_LEFT,
	HJG_PROGRAM_PROBE_SEMI,
	HJG_PROGRAM_PROBE_ANTI,
	HJG_PROGRAM_OPS
} HjgProgramOp;

typedef struct HjgProgramStep
{
	hjg_u8		op;				/* HjgProgramOp */
	hjg_u8		to;				/* registers */
	hjg_u8		left;
	hjg_u8		right;
	hjg_u32		arg;
	int64_t		low;
	int64_t		high;
} HjgProgramStep;

/* A column of a segment, as kept columns are (src/kept/hjg_kept.h): [a bit for each NULL,] codes. */
typedef struct HjgProgramColumn
{
	hjg_u64		place;			/* see HJG_PROGRAM_IN_BLOCK; a multiple of 8 */
	hjg_u64		nbytes;			/* of all of its memory; 0: all values are `least` */
	hjg_u64		checksum;		/* of that memory */
	hjg_u64		id;				/* no other memory in the server's life has the same; 0: do not keep it on a device */
	int64_t		least;			/* value = least + code */
	hjg_u32		width;			/* bytes of a code: 0, 1, 2, 4 or 8 */
	hjg_u32		has_nulls;		/* the first ((nrows + 7) / 8) bytes, up to a multiple of 8, are bits */
	hjg_u32		map;			/* of words: value = maps[map + code], as an unsigned number; or HJG_PROGRAM_NO_MAP */
	hjg_u32		nwords;			/* codes are below; a greater one means 0 */
	hjg_u32		test;			/* number of a test, see below; or HJG_PROGRAM_NO_TEST */
	hjg_u32		pad;
} HjgProgramColumn;

/*
 * A test of strings that have no codes: the column's value is 1 where a string passes, and otherwise 0, also for a NULL.  Codes, of 4 bytes, are places
 * in what follows them, from a multiple of 8 bytes on: there a string begins with its length, as in a table's row, and is not compressed.
 */
typedef enum HjgProgramTestKind
{
	HJG_PROGRAM_IN_LIST,		/* is it one of these strings? */
	HJG_PROGRAM_LIKE,			/* does it begin with the first one, end with the last one, and have the others between, in this order? */
	HJG_PROGRAM_TEST_KINDS
} HjgProgramTestKind;

typedef struct HjgProgramTest
{
	hjg_u32		kind;			/* HjgProgramTestKind */
	hjg_u32		negated;		/* 1: those pass that it is not true for */
	hjg_u32		padded;			/* 1, of a list: spaces at the end do not count */
	hjg_u32		nstrings;		/* each test's are behind those of the test before it */
	hjg_u32		sliced;			/* 1: a part of the string is tested, in characters: */
	hjg_u32		slice_padded;	/* 1: of what is before the spaces at its end */
	hjg_u32		slice_utf8;		/* 1: characters are those of UTF-8; 0: bytes */
	int32_t		slice_first;	/* characters before it */
	int32_t		slice_nchars;	/* at most */
	hjg_u32		pad;
} HjgProgramTest;

/* A string of a test, in the array of bytes. */
typedef struct HjgProgramString
{
	hjg_u32		off;
	hjg_u32		nbytes;
} HjgProgramString;

/* Rows of a segment, [first_row, end_row), that the query sees. */
typedef struct HjgProgramRun
{
	hjg_u32		first_row;
	hjg_u32		end_row;
} HjgProgramRun;

/* Rows that have been kept together. */
typedef struct HjgProgramSegment
{
	hjg_u32		nrows;
	hjg_u32		number;			/* for the writer */
	hjg_u32		first_column;	/* of as many columns as the pipeline has */
	hjg_u32		first_run;
	hjg_u32		nruns;
	hjg_u32		pad;
} HjgProgramSegment;

/*
 * A table, which one or several pipelines fill: a hash table, which later ones probe, or groups, which later ones read.  Rows with a NULL key are not
 * entered into a hash table; in groups it is a key.
 */
typedef struct HjgProgramTable
{
	hjg_u32		nkeys;			/* groups: 0: there is one group, in the result also without rows */
	hjg_u32		npayload;
	hjg_u32		unique;			/* 1: if a key comes twice, the program cannot be run; 0: rows after the first of a key are ignored */
	hjg_u32		has_groups;		/* 1: it has groups, with totals of the arguments arguments[first_argument .. + narguments - 1] */
	hjg_u32		first_argument;
	hjg_u32		narguments;
	hjg_u64		max_rows;		/* of a hash table: that come to the sink, at most; groups: with more the program cannot be run */
	hjg_u64		expected_rows;	/* or groups */
	hjg_u32		has_bounds;		/* 1: its only key, if it is not NULL, is between these, which are included */
	hjg_u32		pad;
	int64_t		least_key;
	int64_t		greatest_key;
} HjgProgramTable;

/* Values of a group, for steps: its keys, its number of rows, and of each argument the next four. */
#define HJG_PROGRAM_GROUP_ROWS(nkeys) (nkeys)
#define HJG_PROGRAM_GROUP_VALUE(nkeys, argument, part) ((nkeys) + 1 + 4 * (argument) + (part))
#define HJG_PROGRAM_GROUP_VALUES(nkeys, narguments) ((nkeys) + 1 + 4 * (narguments))

typedef enum HjgProgramGroupPart
{
	HJG_PROGRAM_GROUP_COUNT,	/* rows where it is not NULL; if there are none the others are NULL */
	HJG_PROGRAM_GROUP_SUM,		/* modulo 2^64 */
	HJG_PROGRAM_GROUP_LEAST,
	HJG_PROGRAM_GROUP_GREATEST
} HjgProgramGroupPart;

/* An argument of aggregates: the groups have totals of it. */
typedef struct HjgProgramArgument
{
	hjg_u32		reg;
	hjg_u32		wants_sum;
	hjg_u32		wants_extremes;
	hjg_u32		is_float;		/* 1: values are numbers of floats (HJG_PROGRAM_FLOAT), and the sum's low word is the bits of a double, added up in any order */
	hjg_u64		greatest;		/* magnitude of its values, at most; all-ones: not known */
} HjgProgramArgument;

/* A pipeline's source. */
#define HJG_PROGRAM_FROM_SEGMENTS 0xFFFFFFFFu

typedef struct HjgProgramPipeline
{
	hjg_u32		first_step;
	hjg_u32		nsteps;
	hjg_u32		first_segment;
	hjg_u32		nsegments;
	hjg_u32		ncolumns;
	hjg_u32		source;			/* groups: the number of their table; then it has neither segments nor columns */
	hjg_u32		sink;			/* number of a table */
	hjg_u32		pad;
	hjg_u64		nrows;			/* of all runs; or max_rows of the source */
	hjg_u8		keys[HJG_PROGRAM_MAX_KEYS];	/* registers */
	hjg_u8		payload[HJG_PROGRAM_MAX_PAYLOAD];
} HjgProgramPipeline;

/* An array of the program: its offset from the head, a multiple of 8, and its number of elements. */
typedef struct HjgProgramArray
{
	hjg_u32		off;
	hjg_u32		n;
} HjgProgramArray;

typedef struct HjgProgram
{
	hjg_u64		nbytes;			/* of the block, a multiple of 8 */
	HjgProgramArray pipelines;	/* HjgProgramPipeline; the last one makes the groups of the result */
	HjgProgramArray tables;		/* HjgProgramTable; each is filled before it is probed or read */
	HjgProgramArray steps;		/* HjgProgramStep */
	HjgProgramArray segments;	/* HjgProgramSegment */
	HjgProgramArray columns;	/* HjgProgramColumn */
	HjgProgramArray runs;		/* HjgProgramRun; those of a segment ascend and do not overlap */
	HjgProgramArray maps;		/* hjg_u32 */
	HjgProgramArray values;		/* int64_t, of sets */
	HjgProgramArray arguments;	/* HjgProgramArgument */
	HjgProgramArray tests;		/* HjgProgramTest */
	HjgProgramArray strings;	/* HjgProgramString */
	HjgProgramArray bytes;		/* char, of strings */
	hjg_u32		first_step;		/* of the result: groups that do not go on are not in it */
	hjg_u32		nsteps;
	hjg_u32		order;			/* register by which the groups are ordered, after these steps */
	hjg_u32		descending;		/* 1: the greatest come first */
	hjg_u32		nulls_first;
	hjg_u32		pad;
	hjg_u64		first_groups;	/* number of the first groups that are wanted, and with them those that are equal to the last of them; more may come; 0: all */
	hjg_u64		max_groups;		/* of the result: with more the program cannot be run */
	hjg_u64		max_bytes;		/* of all of its tables at a time, on the processor's threads */
} HjgProgram;

/*
 * The result, in words: the number of groups; then for each group, in any order: its number of rows, its keys, a word with a bit
 * for each key that is NULL, and of each argument HJG_PROGRAM_ARGUMENT_WORDS: the number of rows where it is NULL, and, where
 * wanted (else 0), the two words of the sum of the others (128 bits, the low word first), the least and the greatest value.
 */
#define HJG_PROGRAM_ARGUMENT_WORDS 5

static inline hjg_u32
hjg_program_group_words(hjg_u32 nkeys, hjg_u32 narguments)
{
	return 1 + nkeys + 1 + narguments * HJG_PROGRAM_ARGUMENT_WORDS;
}

#endif							/* HJG_PROGRAM_H */
