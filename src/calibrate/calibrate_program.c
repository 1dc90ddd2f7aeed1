/*
 * calibrate_program.c
 *	  hjoin_gpu_calibrate(): how long the threads of the device process, all at work, take for a row of a program.
 *
 * The program reads columns that are in its block, as kept ones would have to be a table's: it tests a value, and adds another one of the rows
 * that pass to one of few groups.  Several segments read the same memory, so that the block is small and the work is not.  The time is that of
 * the threads alone, as the device process tells it.
 */
#include "postgres.h"

#include <math.h>

#include "utils/memutils.h"

#include "calibrate/hjg_calibrate.h"
#include "planner/hjg_planner.h"

#define ROUNDS 4				/* the first one finds memory and threads cold */
#define SEGMENT_ROWS HJG_PROGRAM_MAX_SEGMENT_ROWS
#define MEMORIES 16				/* segments that have memory of their own, */
#define READINGS 8				/* and how often each is read */
#define SEGMENTS (MEMORIES * READINGS)
#define COLUMNS 3
#define GROUPS 4
#define PASSING 50				/* of values below 100 */

/* The block, with one pipeline and one table; columns are HjgProgramColumn.place bytes from its beginning. */
typedef struct CalibrationBlock
{
	HjgProgram	head;
	HjgProgramPipeline pipeline;
	HjgProgramTable table;
	HjgProgramStep steps[5];
	HjgProgramArgument argument;
	HjgProgramRun runs[SEGMENTS];
	HjgProgramSegment segments[SEGMENTS];
	HjgProgramColumn columns[SEGMENTS * COLUMNS];
	uint8		groups[MEMORIES][SEGMENT_ROWS];
	uint8		tested[MEMORIES][SEGMENT_ROWS];
	uint32		added[MEMORIES][SEGMENT_ROWS];
} CalibrationBlock;

StaticAssertDecl(sizeof(CalibrationBlock) % sizeof(uint64) == 0, "a block has whole words");

#define ARRAY(member, n) {offsetof(CalibrationBlock, member), n}

static void
make_columns(CalibrationBlock *block)
{
	uint64		random = 1;

	for (int m = 0; m < MEMORIES; m++)
		for (uint32 i = 0; i < SEGMENT_ROWS; i++)
		{
			random = random * UINT64CONST(6364136223846793005) + 1;
			block->groups[m][i] = (uint8) (random >> 33) % GROUPS;
			block->tested[m][i] = (uint8) (random >> 40) % 100;
			block->added[m][i] = (uint32) (random >> 48);
		}
	for (int s = 0; s < SEGMENTS; s++)
	{
		const int	m = s % MEMORIES;
		const HjgProgramColumn column = {.map = HJG_PROGRAM_NO_MAP, .test = HJG_PROGRAM_NO_TEST};
		HjgProgramColumn *columns = &block->columns[s * COLUMNS];

		block->runs[s] = (HjgProgramRun) {0, SEGMENT_ROWS};
		block->segments[s] = (HjgProgramSegment) {.nrows = SEGMENT_ROWS, .number = s, .first_column = s * COLUMNS, .first_run = s, .nruns = 1};
		columns[0] = columns[1] = columns[2] = column;
		columns[0].width = columns[1].width = sizeof(uint8);
		columns[2].width = sizeof(uint32);
		columns[0].place = offsetof(CalibrationBlock, groups) + m * sizeof(block->groups[0]);
		columns[1].place = offsetof(CalibrationBlock, tested) + m * sizeof(block->tested[0]);
		columns[2].place = offsetof(CalibrationBlock, added) + m * sizeof(block->added[0]);
		for (int c = 0; c < COLUMNS; c++)
		{
			columns[c].nbytes = (uint64) SEGMENT_ROWS * columns[c].width;
			columns[c].place |= HJG_PROGRAM_IN_BLOCK;
		}
	}
}

static void
make_program(CalibrationBlock *block)
{
	enum {GROUP, TESTED, ADDED};

	block->head = (HjgProgram) {
		.nbytes = sizeof(CalibrationBlock), .pipelines = ARRAY(pipeline, 1), .tables = ARRAY(table, 1), .steps = ARRAY(steps, 5),
		.segments = ARRAY(segments, SEGMENTS), .columns = ARRAY(columns, SEGMENTS * COLUMNS), .runs = ARRAY(runs, SEGMENTS),
		.arguments = ARRAY(argument, 1), .max_groups = GROUPS, .max_bytes = 1024 * 1024
	};
	block->pipeline = (HjgProgramPipeline) {
		.nsteps = 5, .nsegments = SEGMENTS, .ncolumns = COLUMNS, .source = HJG_PROGRAM_FROM_SEGMENTS, .nrows = (uint64) SEGMENTS * SEGMENT_ROWS,
		.keys = {GROUP}
	};
	block->table = (HjgProgramTable) {.nkeys = 1, .has_groups = 1, .narguments = 1, .max_rows = GROUPS, .expected_rows = GROUPS};
	block->argument = (HjgProgramArgument) {.reg = ADDED, .wants_sum = 1, .greatest = PG_UINT16_MAX};
	block->steps[0] = (HjgProgramStep) {.op = HJG_PROGRAM_COLUMN, .to = TESTED, .arg = TESTED};
	block->steps[1] = (HjgProgramStep) {.op = HJG_PROGRAM_IN_RANGE, .to = TESTED, .left = TESTED, .high = PASSING - 1};
	block->steps[2] = (HjgProgramStep) {.op = HJG_PROGRAM_FILTER, .left = TESTED};
	block->steps[3] = (HjgProgramStep) {.op = HJG_PROGRAM_COLUMN, .to = GROUP, .arg = GROUP};
	block->steps[4] = (HjgProgramStep) {.op = HJG_PROGRAM_COLUMN, .to = ADDED, .arg = ADDED};
	make_columns(block);
}

void
hjg_calibrate_program(HjgUnitCosts *costs)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "hjoin_gpu calibration", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	CalibrationBlock *block = palloc0(sizeof(CalibrationBlock));
	double		least_ns = INFINITY;

	make_program(block);
	for (int round = 0; round < ROUNDS; round++)
	{
		HjgProgramTask task = {
			.device = {.kind = HJG_KIND_CPU, .number = HJG_NO_NUMBER}, .head = block->head, .group_words = hjg_program_group_words(1, 1),
			.expected_groups = GROUPS, .nparts = 1, .parts = {{(const uint64 *) block, sizeof(CalibrationBlock) / sizeof(uint64)}}
		};
		HjgJobStats stats;
		HjgReason	reason;

		if (!hjg_job_run_programs(&task, 1, &stats, &reason))
			break;
		if (round > 0)
			least_ns = Min(least_ns, stats.probe_ns);
	}
	if (!isinf(least_ns))
		costs->program_row_ns = least_ns * hjg_planner_threads() / (SEGMENTS * (double) SEGMENT_ROWS);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}
