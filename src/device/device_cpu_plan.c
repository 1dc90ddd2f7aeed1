/*
 * device_cpu_plan.c
 *	  Plans the steps of a program for the processor's threads: which registers are read behind each, which columns can be tested as codes, and which
 *	  tables have ranks.
 */
#include "device/hjg_cpu_program.h"

#define BIT(reg) (1u << (reg))

/* Least rows by which it is decided whether a table has ranks: a smaller one has them where one of so many rows would. */
#define LEAST_ROWS 4096

/* Find the registers that a step reads. */
static hjg_u32
registers_read(const HjgKPipeline *a, const HjgProgramStep *step)
{
	switch (step->op)
	{
		case HJG_PROGRAM_COLUMN:
		case HJG_PROGRAM_GROUP:
		case HJG_PROGRAM_ROW:
		case HJG_PROGRAM_CONSTANT:
			return 0;
		case HJG_PROGRAM_NEGATE:
		case HJG_PROGRAM_ROUND_DOWN:
		case HJG_PROGRAM_LOOK_UP:
		case HJG_PROGRAM_FLOAT:
		case HJG_PROGRAM_IN_RANGE:
		case HJG_PROGRAM_NOT_IN_RANGE:
		case HJG_PROGRAM_IN_SET:
		case HJG_PROGRAM_NOT_IN_SET:
		case HJG_PROGRAM_IS_NULL:
		case HJG_PROGRAM_IS_NOT_NULL:
		case HJG_PROGRAM_FILTER:
			return BIT(step->left);
		case HJG_PROGRAM_MOVE_IF:
			return BIT(step->left) | BIT(step->right) | BIT(step->to);
		case HJG_PROGRAM_PROBE_INNER:
		case HJG_PROGRAM_PROBE_LEFT:
		case HJG_PROGRAM_PROBE_SEMI:
		case HJG_PROGRAM_PROBE_ANTI:
			return hjg_device_register_range(step->left, a->tables[step->arg].nkeys);
		default:
			return BIT(step->left) | BIT(step->right);
	}
}

hjg_u32
hjg_device_registers_set(const HjgKPipeline *a, const HjgProgramStep *step)
{
	switch (step->op)
	{
		case HJG_PROGRAM_FILTER:
		case HJG_PROGRAM_PROBE_SEMI:
		case HJG_PROGRAM_PROBE_ANTI:
			return 0;
		case HJG_PROGRAM_PROBE_INNER:
		case HJG_PROGRAM_PROBE_LEFT:
			return hjg_device_register_range(step->to, a->tables[step->arg].npayload);
		default:
			return BIT(step->to);
	}
}

/*
 * Count the steps, from this one on, that load a column and let those rows go on whose values are in a range, or are not 0: these are tested as
 * codes.  0: it is not so.
 */
static hjg_u32
count_tested(const HjgCpuPlan *plan, hjg_u32 s)
{
	const HjgProgramStep *steps = &plan->steps[s];
	const hjg_u32 nsteps = plan->a->nsteps - s;

	if (steps[0].op != HJG_PROGRAM_COLUMN)
		return 0;
	if (nsteps >= 2 && steps[1].op == HJG_PROGRAM_FILTER && steps[1].left == steps[0].to)
		return 2;
	return nsteps >= 3 && steps[1].op == HJG_PROGRAM_IN_RANGE && steps[1].left == steps[0].to && steps[2].op == HJG_PROGRAM_FILTER &&
		steps[2].left == steps[1].to && (plan->live[s + 2] & BIT(steps[1].to)) == 0 ? 3 : 0;
}

/* Must a step be done, if these registers are read behind it? Rows that have passed all steps before need no filter, and no look-up for its own sake. */
static bool
is_needed(const HjgCpuPlan *plan, const HjgProgramStep *step, hjg_u32 wanted)
{
	const bool	drops_rows = step->op >= HJG_PROGRAM_FILTER && step->op != HJG_PROGRAM_PROBE_LEFT;

	return (drops_rows && !plan->passed) || (wanted & hjg_device_registers_set(plan->a, step)) != 0;
}

void
hjg_device_plan_steps(HjgCpuPlan *plan, const HjgKPipeline *a, const HjgCpuRanks *ranks, const HjgBloom *filters, hjg_u32 wanted, bool passed)
{
	plan->a = a;
	plan->passed = passed;
	plan->ranks = ranks;
	plan->filters = filters;
	plan->source = a->from_groups && ranks[a->source_number].words != NULL ? &ranks[a->source_number] : NULL;
	plan->steps = HJG_PROGRAM_AT(const HjgProgramStep, a->steps);
	for (hjg_u32 s = a->nsteps; s-- > 0;)
	{
		plan->live[s] = wanted;
		plan->dead[s] = !is_needed(plan, &plan->steps[s], wanted);
		if (plan->dead[s])
			continue;
		wanted = (wanted & ~hjg_device_registers_set(a, &plan->steps[s])) | registers_read(a, &plan->steps[s]);
	}
	plan->unset = wanted;
	for (hjg_u32 s = 0; s < a->nsteps; s++)
		plan->tested[s] = passed ? 0 : count_tested(plan, s);
}

/* Are rows looked up in tables? */
static bool
looks_up(const HjgCpuPlan *plan)
{
	for (hjg_u32 s = 0; s < plan->a->nsteps; s++)
		if (plan->steps[s].op >= HJG_PROGRAM_PROBE_INNER && !plan->dead[s])
			return true;
	return false;
}

/* Are rows looked up when they come for the second time? Then they should come once. */
static bool
look_up_twice(const HjgCpuRun *run, const HjgTableFill *fill)
{
	HjgCpuPlan	plan;

	for (hjg_u32 f = 0; f < fill->nfeeds; f++)
	{
		const HjgKPipeline *a = &fill->feeds[f].args;

		hjg_device_plan_steps(&plan, a, run->ranks, run->filters, hjg_device_sink_registers(a), true);
		if (looks_up(&plan))
			return true;
	}
	return false;
}

bool
hjg_device_may_rank(const HjgCpuRun *run, const HjgTableFill *fill, hjg_u64 nrows)
{
	const HjgProgramTable *table = fill->table;
	const hjg_u64 distance = (hjg_u64) table->greatest_key - (hjg_u64) table->least_key;

	/* keys of groups, and NULL, have numbers of 32 bits */
	if (!table->has_bounds || distance / HJG_PROGRAM_MOST_RANKED >= (nrows > LEAST_ROWS ? nrows : LEAST_ROWS) || (table->has_groups && distance >= INT32_MAX))
		return false;
	/* a table has one of the rows with the same key, which is not always the first one */
	return table->has_groups ? fill->feeds[0].args.near_slots == 0 && !look_up_twice(run, fill) : table->unique || table->npayload == 0;
}
