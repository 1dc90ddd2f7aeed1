/*
 * device_program_nulls.c
 *	  Finds which arguments of a program's groups may be NULL: others need no number of NULLs in each group's record.
 *
 * Steps set the same registers for all rows, so a register may be NULL behind a step if its value, or one that it is made of, may be NULL in
 * any row.  Filters and look-ups that drop rows are taken to drop none.
 */
#include "device/hjg_device_program.h"

#define BIT(n) (1u << (n))
#define BITS(first, n) ((hjg_u32) (((1ull << (n)) - 1) << (first)))

/* Keys, and values of the payload or arguments, of a table that may be NULL: a bit for each. */
typedef struct TableNulls
{
	hjg_u32		keys;
	hjg_u32		values;
} TableNulls;

/* Find the columns of a pipeline that have NULLs in a segment: a bit for each. */
static hjg_u64
find_null_columns(const HjgDeviceProgram *program, const HjgProgramPipeline *pipeline)
{
	hjg_u64		found = 0;

	for (hjg_u32 s = pipeline->first_segment; s < pipeline->first_segment + pipeline->nsegments; s++)
		for (hjg_u32 c = 0; c < pipeline->ncolumns && program->segments[s].nruns > 0; c++)
			found |= (hjg_u64) program->columns[program->segments[s].first_column + c].has_nulls << c;
	return found;
}

/* May this value of a group be NULL? */
static bool
group_value_may(const HjgProgramTable *source, const TableNulls *nulls, hjg_u32 which)
{
	if (which < source->nkeys)
		return (nulls->keys & BIT(which)) != 0;
	return which > HJG_PROGRAM_GROUP_ROWS(source->nkeys) && (which - source->nkeys - 1) % 4 != HJG_PROGRAM_GROUP_COUNT &&
		(nulls->values & BIT((which - source->nkeys - 1) / 4)) != 0;
}

/* Find the registers that may be NULL behind a step, of those before it; columns: of the pipeline that have NULLs. */
static hjg_u32
nulls_behind(const HjgDeviceProgram *program, const HjgProgramPipeline *pipeline, const HjgProgramStep *step, hjg_u64 columns,
			 const TableNulls *tables, hjg_u32 nulls)
{
	const hjg_u32 npayload = step->op >= HJG_PROGRAM_PROBE_INNER ? program->tables[step->arg].npayload : 0;
	hjg_u32		read = 0;		/* registers whose NULL makes one */
	bool		may = false;

	switch (step->op)
	{
		case HJG_PROGRAM_COLUMN:
			may = (columns >> step->arg & 1) != 0;
			break;
		case HJG_PROGRAM_GROUP:
			may = group_value_may(&program->tables[pipeline->source], &tables[pipeline->source], step->arg);
			break;
		case HJG_PROGRAM_CONSTANT:
			may = step->high != 0;
			break;
		case HJG_PROGRAM_ADD:
		case HJG_PROGRAM_SUBTRACT:
		case HJG_PROGRAM_MULTIPLY:
			read = BIT(step->left) | BIT(step->right);
			break;
		case HJG_PROGRAM_NEGATE:
		case HJG_PROGRAM_ROUND_DOWN:
		case HJG_PROGRAM_LOOK_UP:
		case HJG_PROGRAM_FLOAT:
			read = BIT(step->left);
			break;
		case HJG_PROGRAM_MOVE_IF:
			read = BIT(step->to) | BIT(step->right);
			break;
		case HJG_PROGRAM_FILTER:
		case HJG_PROGRAM_PROBE_SEMI:
		case HJG_PROGRAM_PROBE_ANTI:
			return nulls;
		case HJG_PROGRAM_PROBE_INNER:
			return (nulls & ~BITS(step->to, npayload)) | tables[step->arg].values << step->to;
		case HJG_PROGRAM_PROBE_LEFT:
			return nulls | BITS(step->to, npayload);
		default:				/* a row's number, or a boolean */
			break;
	}
	return may || (nulls & read) != 0 ? nulls | BIT(step->to) : nulls & ~BIT(step->to);
}

void
hjg_device_find_nulls(HjgDeviceProgram *program)
{
	TableNulls	tables[HJG_PROGRAM_MAX_PIPELINES] = {0};

	for (hjg_u32 p = 0; p < program->head->pipelines.n; p++)
	{
		const HjgProgramPipeline *pipeline = &program->pipelines[p];
		const HjgProgramTable *table = &program->tables[pipeline->sink];
		TableNulls *sink = &tables[pipeline->sink];
		const hjg_u64 columns = find_null_columns(program, pipeline);
		hjg_u32		nulls = ~0u;

		for (hjg_u32 s = pipeline->first_step; s < pipeline->first_step + pipeline->nsteps; s++)
			nulls = nulls_behind(program, pipeline, &program->steps[s], columns, tables, nulls);
		for (hjg_u32 k = 0; k < table->nkeys; k++)
			sink->keys |= (nulls >> pipeline->keys[k] & 1) << k;
		for (hjg_u32 v = 0; v < table->npayload; v++)
			sink->values |= (nulls >> pipeline->payload[v] & 1) << v;
		for (hjg_u32 i = 0; i < table->narguments; i++)
			sink->values |= (nulls >> program->arguments[table->first_argument + i].reg & 1) << i;
		program->null_arguments[pipeline->sink] = sink->values;
	}
}
