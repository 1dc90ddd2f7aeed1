/*
 * hjg_program_write.h
 *	  Writes the plan below a GpuAggregate as a program for the device process (layout/hjg_program.h).
 *
 * Internal to the room "node". node_program.c decides, runs the program and takes its groups; node_program_group.c and node_program_result.c write groups,
 * node_program_rows.c the pipelines of scans, node_program_join.c those of joins, node_program_filter.c conditions, node_program_expr.c arguments of aggregates;
 * node_program_column.c the columns of segments. node_program_block.c has the block that all of them write to, and node_program_pipeline.c puts
 * it together; node_program_divide.c divides it among several devices.
 *
 * Every function that writes returns false, or -1, if something cannot be written; writer->why says what.
 */
#ifndef HJG_PROGRAM_WRITE_H
#define HJG_PROGRAM_WRITE_H

#include "postgres.h"

#include "lib/stringinfo.h"

#include "kept/hjg_kept.h"
#include "node/hjg_aggregate.h"
#include "node/hjg_node.h"
#include "scan/hjg_scan.h"
#include "service/hjg_service.h"

/* The numbers of strings: strings of the same bytes have one. */
typedef struct HjgProgramWords
{
	struct HTAB *numbers;
	int			n;
	int			room;
	const char **strings;		/* by number, as they are kept */
} HjgProgramWords;

typedef enum HjgValueForm
{
	HJG_VALUE_INTEGER,
	HJG_VALUE_NUMBER,			/* a numeric as an integer */
	HJG_VALUE_WORD,				/* a string, as its number among some; */
	HJG_VALUE_ROW,				/* or as the number of a row that has it */
	HJG_VALUE_CLASS				/* any value, as its number among some */
} HjgValueForm;

/* Classes of a column's values, for which expressions of the column are the same. */
typedef struct HjgProgramClasses
{
	int			n;
	List	   *exprs;			/* the expressions; NIL: the number stands for one of them */
	bool		exact;			/* its meaning differs from class to class */
	const Datum *column;		/* a value of the column in each class, */
	const Datum *values;		/* and of what the number stands for: the column, or an expression, */
	const bool *isnull;			/* which may be NULL; or NULL */
} HjgProgramClasses;

/* Rows of a table as a program reads them, which it can tell by numbers. */
typedef struct HjgToldRows
{
	int			nscans;
	SeqScanState **scans;		/* of the table, or of its partitions, */
	int		   *first_segment;	/* and the first segment of each */
	HjgCollection collection;
	HjgProgramWords *words;		/* numbers of the strings of each collected column */
	const struct HjgProgramValue *values;	/* each column described; NULL: not yet */
	int8	   *told;			/* strings: told by the number of their row? 1, -1: no; 0: not known */
} HjgToldRows;

/* The column of a table, in one of the plan's scans; scan is NULL: a value is none, or might be another one by now. */
typedef struct HjgProgramOrigin
{
	const SeqScanState *scan;	/* the first one, of partitions */
	AttrNumber	attno;
} HjgProgramOrigin;

/* A column of rows, or an expression: its form, and bounds of its values. */
typedef struct HjgProgramValue
{
	HjgValueForm form;
	int			scale;			/* of a number */
	bool		mixed;			/* some zeros had another scale */
	bool		nullable;
	int64		least;
	int64		greatest;
	int			collected;		/* column of the pipeline's collection that it is, or -1 */
	int			reg;			/* register that has it, or -1: the collected column was not loaded yet */
	int			of_group;		/* likewise: 1 + the number of the group's value that it is; or 0 */
	HjgProgramOrigin origin;	/* of an integer */
	HjgProgramWords *words;		/* of a string in a register */
	const HjgToldRows *rows;	/* of a string by its row: those that it is one of, */
	AttrNumber	attno;			/* and its attribute */
	const HjgProgramClasses *classes;	/* of a class */
	bool		own_scales;		/* each number has a display scale of its own, not above `scale`, */
	int			scale_reg;		/* in this register */
} HjgProgramValue;

/* Scans of a table, or of its partitions that have blocks, with the same columns and conditions. */
typedef struct HjgProgramScans
{
	int			n;
	SeqScanState **scans;
	HjgScanFilter **filters;	/* of each, or NULL */
	const HjgFilter *conditions;	/* with operands evaluated, or NULL */
	const AttrNumber *condition_attnos;
} HjgProgramScans;

/* Arrays of tests of strings. */
typedef struct HjgProgramTests
{
	StringInfoData tests;
	StringInfoData strings;
	StringInfoData bytes;
} HjgProgramTests;

/* A column of the pipeline: a collected one, as it is or with a map. */
typedef struct HjgProgramSource
{
	int			collected;
	const HjgFilter *test;		/* of strings: 1 for those that pass; */
	HjgProgramWords *words;		/* or their numbers; both NULL: no map */
	uint32		written;		/* 1 + the number of the test in the program; 0: it is not there */
} HjgProgramSource;

/* The arrays that differ between the programs of several devices: of divided pipelines each has a part of the rows. */
typedef struct HjgProgramShare
{
	StringInfoData pipelines;
	StringInfoData tables;
	StringInfoData segments;
	StringInfoData columns;
	StringInfoData runs;
	HjgProgramPipeline pipeline;	/* that was written last, */
	HjgProgramPipeline pairs;	/* and one that fills the same table */
} HjgProgramShare;

/* A look-up: the keys of the rows that are looked up, and those of the table's rows. */
typedef struct HjgNotedProbe
{
	uint32		table;
	int			nkeys;
	HjgProgramOrigin driving[HJG_PROGRAM_MAX_KEYS];
	HjgProgramOrigin built[HJG_PROGRAM_MAX_KEYS];
} HjgNotedProbe;

/* The keys of a pipeline, as far as they are columns of its table: what it can be divided by follows from these. */
typedef struct HjgNotedPipeline
{
	const HjgToldRows *rows;	/* that it reads; NULL: groups of table `source` */
	uint32		source;
	uint32		sink;			/* table that it fills, */
	uint64		max_rows;		/* and rows of that on all devices together, at most */
	HjgProgramOrigin keys[HJG_PROGRAM_MAX_KEYS];	/* of groups that it fills */
	List	   *probes;			/* HjgNotedProbe */
	AttrNumber	divided_by;		/* column of the rows by whose ranges devices divide them; or 0 */
} HjgNotedPipeline;

/*
 * The division of a program: by ranges of a key, or, if `by_segments` is set, only the last pipeline by the numbers of its segments. Device i has the
 * keys from first[i] on, up to first[i + 1].
 */
typedef struct HjgProgramDivision
{
	bool		by_segments;
	bool		whole_groups;	/* each group of the result is on one device */
	const List *pipelines;		/* HjgNotedPipeline */
	int64		first[HJG_MAX_DEVICES];
} HjgProgramDivision;

/*
 * An outer join whose preserved side has several partners for a row, as it was written last below the groups: the side that may be NULL drives the
 * pipeline, and the preserved side's rows come to the groups in another pipeline, too (node_program_group.c).
 */
typedef struct HjgProgramOuter
{
	const HjgJoinState *join;	/* NULL: there is none */
	bool		alone;			/* that other pipeline is written: the join has the rows of its preserved side */
	uint32		reserved;		/* a bit for each register that is NULL there */
} HjgProgramOuter;

typedef struct HjgProgramWriter HjgProgramWriter;

/* Writes the pipelines for the rows of a plan: hjg_program_write_rows(). Rows and groups are below each other. */
typedef bool (*HjgProgramRowsWriter) (HjgProgramWriter *writer, PlanState *plan, HjgScan *scan, const Bitmapset *wanted, HjgProgramValue *values);

struct HjgProgramWriter
{
	const char *why;			/* NULL, or the reason why there is no program */
	EState	   *estate;
	HjgProgramRowsWriter write_rows;
	int			nshares;		/* programs that are written, one for each device; 0: the pipelines are only noted */
	const HjgProgramDivision *division;	/* of several */
	HjgProgramShare shares[HJG_MAX_DEVICES];
	uint32		ntables;
	List	   *noted;			/* HjgNotedPipeline: that were begun */

	/* arrays that all programs have, but for the bounds of ranges in these steps */
	StringInfoData steps;
	List	   *range_steps;
	StringInfoData maps;
	StringInfoData values;
	StringInfoData arguments;
	HjgProgramTests tests;
	StringInfoData memory;		/* columns of rows that are not kept */
	uint64		nstrings;		/* that were looked at */

	/* the pipeline that is being written */
	HjgProgramPipeline pipeline;
	int			range_column;	/* of the collection, by whose ranges it is divided; -1: it is not */
	HjgCollection collection;
	TupleDesc	desc;			/* of its table */
	int			nsources;
	HjgProgramSource sources[HJG_PROGRAM_MAX_COLUMNS];
	uint32		taken;			/* a bit for each register in use */

	HjgProgramOuter outer;
	List	   *tables_read;	/* HjgToldRows */
};

/* ---------- node_program_block.c ---------- */

/*
 * Make a writer of programs for so many devices in the current memory context, which has all that is written; division: of several. Of 0 devices the
 * pipelines are only noted, without their segments.
 */
extern HjgProgramWriter *hjg_program_writer_create(EState *estate, HjgProgramRowsWriter write_rows, int ndevices, const HjgProgramDivision *division);
/* Note why there is no program; returns false. */
extern bool hjg_program_refuse(HjgProgramWriter *writer, const char *why);
/* Take n registers, one after the other; returns the first one, or -1. */
extern int	hjg_program_take(HjgProgramWriter *writer, int n);
extern void hjg_program_release(HjgProgramWriter *writer, int reg, int n);
extern bool hjg_program_step(HjgProgramWriter *writer, HjgProgramStep step);
/* Write a step whose result goes to a new register; returns that, or -1. */
extern int	hjg_program_step_new(HjgProgramWriter *writer, HjgProgramStep step);
/* Make an array longer by so many bytes; returns their place. */
extern void *hjg_program_extend(StringInfo array, Size nbytes);
/* Add a column to the pipeline, or find it; returns its number, or -1. */
extern int	hjg_program_source(HjgProgramWriter *writer, HjgProgramSource source);
/* Have a value in a register; returns that, or -1. */
extern int	hjg_program_load(HjgProgramWriter *writer, HjgProgramValue *value);
/* Have n values in registers one after the other; returns the first one, or -1. They are copies if *taken is set. */
extern int	hjg_program_load_all(HjgProgramWriter *writer, HjgProgramValue **values, int n, bool *taken);

/* ---------- node_program_column.c ---------- */

/* Find which of at most HJG_MAX_VECTOR_ROWS kept strings pass a test; NULL does not. */
extern void hjg_program_test_strings(const HjgFilter *test, const char **strings, int n, bool *passes);
/* Write the column of a segment that a source is. */
extern bool hjg_program_write_column(HjgProgramWriter *writer, HjgProgramSource *source, const HjgCollectedSegment *segment, HjgProgramColumn *column);

/* Find the number of a varlena, or give it one. */
extern uint32 hjg_program_number_word(HjgProgramWords *words, const char *string, int attlen);

/* ---------- node_program_classes.c ---------- */

/*
 * Find the classes of a column of the child of a GpuAggregate, whose values are between two and are rounded down, by the keys that are
 * computed from it, and write the step that has a row's class in a new register; returns that, or -1: there are none. Sets *value.
 */
extern int	hjg_program_write_classes(HjgProgramWriter *writer, HjgAggregateState *state, int column, HjgProgramStep rounded, HjgProgramValue *value);
/* Describe an expression of the column, one of the keys, as a value of a class; false if it is none. */
extern bool hjg_program_describe_class(HjgAggregateState *state, Expr *expr, const HjgProgramClasses *classes, HjgProgramValue *value);

/* ---------- node_program_pipeline.c ---------- */

/* Begin a pipeline over the collection, which has these rows, or over the groups of the table that was written last. */
extern void hjg_program_begin_pipeline(HjgProgramWriter *writer, const HjgToldRows *rows);
extern void hjg_program_begin_groups(HjgProgramWriter *writer);
/* End the pipeline with a table that it fills; last: the result's. */
extern bool hjg_program_end_pipeline(HjgProgramWriter *writer, HjgProgramTable table, bool last);
/* End the pipeline but for its table, which the next one to be ended that way fills, too. */
extern bool hjg_program_end_rows(HjgProgramWriter *writer);
/* End the pipeline with the table that one before fills, too. */
extern bool hjg_program_end_both(HjgProgramWriter *writer, HjgProgramTable table, bool last);
/* Count the rows, or groups, of the current pipeline, at most. */
extern uint64 hjg_program_source_rows(const HjgProgramWriter *writer);
/*
 * Put the blocks together, of parts that the writer and the tasks' heads have; head: what all of these have in common. Share i goes to devices[i],
 * or is left out if it has no rows and is not the only one. Returns the number of tasks; 0: it cannot be done.
 */
extern int	hjg_program_finish(HjgProgramWriter *writer, const HjgProgram *head, const HjgDeviceId *devices, HjgProgramTask *tasks);

/* ---------- node_program_divide.c ---------- */

/* Get what is noted of the pipeline that was begun last. */
extern HjgNotedPipeline *hjg_program_noted(const HjgProgramWriter *writer);
/*
 * Divide a program, whose pipelines have been noted, among devices; false: it cannot be divided. prefer_whole: groups are whole, if that is
 * possible.
 */
extern bool hjg_program_divide(const HjgProgramWriter *noted, int ndevices, bool prefer_whole, HjgProgramDivision *division);
/* Describe it for EXPLAIN: a list of C strings. */
extern List *hjg_program_describe_division(const HjgProgramDivision *division);
/* Write the condition that rows are in the range of a device, if the pipeline, whose collected columns these are, is divided by one. */
extern bool hjg_program_write_range(HjgProgramWriter *writer, HjgProgramValue *collected);
/* May a segment have rows that a device has? */
extern bool hjg_program_has_segment(const HjgProgramWriter *writer, int share, const HjgCollectedSegment *segment, bool last);

/* ---------- node_program_scans.c ---------- */

/* Are the plan's rows those of partitions? */
extern bool hjg_program_is_partitioned(const PlanState *plan);
/* Find the scans of a table, or of partitions. */
extern bool hjg_program_find_scans(HjgProgramWriter *writer, PlanState *plan, HjgProgramScans *scans);
/* Collect these columns of their rows, or find them if another pipeline reads them, too; NULL: they cannot be read. */
extern HjgToldRows *hjg_program_collect(HjgProgramWriter *writer, const HjgProgramScans *scans, const Bitmapset *attnos);

/* ---------- node_program_rows.c ---------- */

/*
 * Write the pipelines for the rows of a plan: those that fill tables, and the one that has the rows, which is left open. Sets
 * values[] of the wanted columns. scan: the plan's table, if it is one.
 */
extern bool hjg_program_write_rows(HjgProgramWriter *writer, PlanState *plan, HjgScan *scan, const Bitmapset *wanted, HjgProgramValue *values);

/* ---------- node_program_join.c ---------- */

/* Write the pipelines of a join, as hjg_program_write_rows() does. */
extern bool hjg_program_write_join(HjgProgramWriter *writer, HjgJoinState *join, const Bitmapset *wanted, HjgProgramValue *values);

/* ---------- node_program_group.c ---------- */

/* The groups of a GpuAggregate, as a program makes them. */
typedef struct HjgProgramGroups
{
	HjgAggregateState *state;
	HjgProgramValue *values;	/* by column of the child */
	int			nkeys;
	int			keys[HJG_PROGRAM_MAX_KEYS];	/* columns of the child */
	HjgProgramValue key_values[HJG_PROGRAM_MAX_KEYS];	/* these columns as the groups have them */
	HjgProgramStep rounded[HJG_PROGRAM_MAX_KEYS];	/* low, high: what each is rounded down to; low is 0: it is not */
	List	   *roundings;		/* HjgRounding: of keys that are rounded down */
	int			ncolumns;		/* of the child, that groups have values of: */
	int		   *columns;
	int		   *key_of;			/* the key that tells the value of column i of these */
	bool		exact;			/* each of these is one of the node's groups, and not a part of one */
	uint64		nrows;			/* that come to the groups, at most */
	int			narguments;		/* those of the aggregates, then scales of their values */
	HjgProgramValue arguments[HJG_PROGRAM_MAX_ARGUMENTS];	/* of the aggregates */
	int			scale_of[HJG_PROGRAM_MAX_ARGUMENTS];	/* argument that is the scale of this one's values, or -1 */
} HjgProgramGroups;

/* Write the pipelines of the groups, of which at most this many are made; last: they are the result. */
extern bool hjg_program_write_groups(HjgProgramWriter *writer, HjgProgramGroups *groups, uint64 most_groups, double expected_groups, bool last);

/* Get the absolute value of a number. */
static inline uint64
hjg_program_magnitude(int64 number)
{
	return number < 0 ? 0 - (uint64) number : (uint64) number;
}

/* ---------- node_program_result.c ---------- */

/* Write the groups of a GpuAggregate below as rows of a pipeline, which is left open; sets values[] of its wanted results. */
extern bool hjg_program_write_grouped(HjgProgramWriter *writer, HjgAggregateState *state, const Bitmapset *wanted, HjgProgramValue *values);
/* Write HAVING over these groups, and the order of the first ones; sets both in the head, or leaves out what the node does as well. */
extern bool hjg_program_write_result(HjgProgramWriter *writer, HjgProgramGroups *groups, HjgProgram *head);

/* ---------- node_program_take.c ---------- */

/*
 * Add the groups of all results to those of the node; max_groups: of a result, and of the node. Returns why it cannot be done; none is added
 * then.
 */
extern HjgReason hjg_program_take_results(const HjgProgramGroups *groups, const HjgProgramTask *tasks, int ntasks, uint64 max_groups);

/* ---------- node_program_filter.c ---------- */

/* Get the step that compares two registers. */
extern HjgProgramOp hjg_program_comparison(HjgComparison comparison);
/*
 * Write a condition, with all operands evaluated; returns the register with its boolean, or -1. Column c of the condition is values[c], or, for
 * the conditions of a table, the value of the collection's column attnos[c].
 */
extern int	hjg_program_write_condition(HjgProgramWriter *writer, const HjgFilter *filter, const AttrNumber *attnos, HjgProgramValue *values);
/* Write conditions that rows must pass to go on: arguments of the filter. */
extern bool hjg_program_write_filter(HjgProgramWriter *writer, const HjgFilter *filter, const AttrNumber *attnos, HjgProgramValue *values);

/* ---------- node_program_expr.c ---------- */

/* Write an argument of an aggregate over the rows' values; sets *result. */
extern bool hjg_program_write_argument(HjgProgramWriter *writer, HjgArgument *argument, HjgProgramValue *values, HjgProgramValue *result);
/* Have the numbers of floats of so many bytes (HJG_PROGRAM_FLOAT) in the place of their bits. */
extern bool hjg_program_number_floats(HjgProgramWriter *writer, int width, HjgProgramValue *value);
/*
 * Write the order of a group's sum of float8: 0 and -0 are equal, and sums that are not finite are the first ones, so that the node gets to see
 * them. Returns the register, or -1.
 */
extern int	hjg_program_order_sums(HjgProgramWriter *writer, HjgProgramValue *sum, bool descending);

#endif							/* HJG_PROGRAM_WRITE_H */
