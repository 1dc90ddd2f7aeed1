/*
 * hjg_program_steps.h
 *	  One row of a program (layout/hjg_program.h): where it comes from, its steps, and its place in the result.  In the common subset
 *	  of CUDA and C, as hjg_program_records.h is.
 *
 * Register r of a row is regs[r * stride]: on a GPU they lie in shared memory, those of a block's threads side by side.  The
 * register of a NULL is 0.
 */
#ifndef HJG_PROGRAM_STEPS_H
#define HJG_PROGRAM_STEPS_H

#include "hjg_program_records.h"

/* ---- steps ---- */

HJG_PROGRAM_STEP void
hjg_program_set(HjgProgramRow *row, hjg_u32 reg, hjg_u64 value, hjg_u32 isnull)
{
	row->regs[reg * row->stride] = isnull ? 0 : (int64_t) value;
	row->nulls = (row->nulls & ~(1u << reg)) | isnull << reg;
}

HJG_PROGRAM_STEP void
hjg_program_column(const HjgKColumn *column, hjg_u32 row_ix, HjgProgramRow *row, hjg_u32 reg)
{
	const hjg_u32 isnull = column->nulls != 0 && (HJG_PROGRAM_AT(const hjg_u8, column->nulls)[row_ix / 8] >> row_ix % 8 & 1);
	hjg_u64		code = 0;

	switch (column->width)
	{
		case 1:
			code = HJG_PROGRAM_AT(const hjg_u8, column->codes)[row_ix];
			break;
		case 2:
			code = HJG_PROGRAM_AT(const hjg_u16, column->codes)[row_ix];
			break;
		case 4:
			code = HJG_PROGRAM_AT(const hjg_u32, column->codes)[row_ix];
			break;
		case 8:
			code = HJG_PROGRAM_AT(const hjg_u64, column->codes)[row_ix];
			break;
		default:
			break;
	}
	if (column->map != 0)
		code = code < column->nwords ? HJG_PROGRAM_AT(const hjg_u32, column->map)[code] : 0;
	else
		code += (hjg_u64) column->least;
	hjg_program_set(row, reg, code, isnull);
}

/* Load a value of the group that the row is. */
HJG_PROGRAM_STEP void
hjg_program_group_value(const HjgKPipeline *a, HjgProgramGroup group, hjg_u32 which, HjgProgramRow *row, hjg_u32 reg)
{
	const hjg_u32 nkeys = a->source.nkeys;
	const hjg_u64 *values = group.values;

	if (which < nkeys)
		hjg_program_set(row, reg, group.keys[which], group.nulls >> which & 1);
	else if (which == HJG_PROGRAM_GROUP_ROWS(nkeys))
		hjg_program_set(row, reg, values[0], 0);
	else
	{
		const HjgKArgument argument = a->arguments[(which - nkeys - 1) / 4];
		const hjg_u32 part = (which - nkeys - 1) % 4;
		const hjg_u64 count = values[0] - (argument.nulls != 0 ? values[argument.nulls] : 0);
		const hjg_u32 place = part == HJG_PROGRAM_GROUP_SUM ? argument.sum : argument.extremes + (part == HJG_PROGRAM_GROUP_GREATEST);

		if (part == HJG_PROGRAM_GROUP_COUNT)
			hjg_program_set(row, reg, count, 0);
		else if (part == HJG_PROGRAM_GROUP_SUM && argument.sum_parts > 1)
			hjg_program_set(row, reg, values[place] + (values[place + 1] << 32), count == 0);
		else
			hjg_program_set(row, reg, values[place], count == 0);
	}
}

/* Is the number one of n ascending ones? */
HJG_PROGRAM_STEP hjg_u32
hjg_program_in_set(const int64_t *set, hjg_u32 n, int64_t number)
{
	hjg_u32		low = 0;

	while (n > 0)
	{
		const hjg_u32 half = n / 2;

		if (set[low + half] < number)
		{
			low += half + 1;
			n -= half + 1;
		}
		else if (set[low + half] > number)
			n = half;
		else
			return 1;
	}
	return 0;
}

HJG_PROGRAM_STEP hjg_u32
hjg_program_compare(hjg_u32 op, int64_t left, int64_t right)
{
	switch (op)
	{
		case HJG_PROGRAM_EQ:
			return left == right;
		case HJG_PROGRAM_NE:
			return left != right;
		case HJG_PROGRAM_LT:
			return left < right;
		case HJG_PROGRAM_LE:
			return left <= right;
		case HJG_PROGRAM_GT:
			return left > right;
		default:
			return left >= right;
	}
}

/* Round a number down; see HJG_PROGRAM_ROUND_DOWN. */
HJG_PROGRAM_STEP int64_t
hjg_program_round_down(int64_t number, int64_t low, int64_t high)
{
	const int64_t shifted = (int64_t) ((hjg_u64) number + (hjg_u64) high);
	int64_t		rest = (int64_t) ((hjg_u64) shifted - (hjg_u64) (int64_t) ((double) shifted / (double) low) * (hjg_u64) low);

	rest += rest < 0 ? low : 0;
	rest -= rest >= low ? low : 0;
	return (int64_t) ((hjg_u64) number - (hjg_u64) rest);
}

/* Find the value of a number; see HJG_PROGRAM_LOOK_UP. */
HJG_PROGRAM_STEP int64_t
hjg_program_look_up(const int64_t *values, int64_t number, int64_t low, int64_t high)
{
	const int64_t last = values[0] - 1;
	const double multiple = (double) hjg_program_round_down((int64_t) ((hjg_u64) number - (hjg_u64) low), high, 0);
	const int64_t at = number > low ? (int64_t) (multiple / (double) high + 0.5) : 0;

	return values[1 + (at < 0 || at > last ? last : at)];
}

/* Look a row up; returns whether it goes on. */
HJG_PROGRAM_STEP int
hjg_program_probe(const HjgKRecords *table, const HjgProgramStep *step, HjgProgramRow *row)
{
	const hjg_u32 key_bits = (hjg_u32) ((1ull << table->nkeys) - 1) << step->left;
	const hjg_u64 *record = 0;
	HjgProgramKey key;

	key.regs = row->regs + step->left * row->stride;
	key.list = 0;
	key.stride = row->stride;
	key.nkeys = table->nkeys;
	key.nulls = 0;
	if ((row->nulls & key_bits) == 0)
		record = hjg_program_find(table, &key, hjg_program_hash(&key));
	if (step->op == HJG_PROGRAM_PROBE_SEMI)
		return record != 0;
	if (step->op == HJG_PROGRAM_PROBE_ANTI)
		return record == 0;
	if (record == 0 && step->op == HJG_PROGRAM_PROBE_INNER)
		return 0;
	for (hjg_u32 p = 0; p < table->npayload; p++)
		if (record == 0)
			hjg_program_set(row, step->to + p, 0, 1);
		else
			hjg_program_set(row, step->to + p, record[HJG_K_RECORD_KEYS + table->nkeys + p], hjg_program_nulls(record) >> p & 1);
	return 1;
}

/* Apply the pipeline's steps to row row_ix of the columns; returns whether it comes to the sink. */
HJG_PROGRAM_STEP int
hjg_program_run(const HjgKPipeline *a, const HjgProgramStep *steps, const HjgKColumn *columns, hjg_u32 row_ix, HjgProgramRow *row)
{
	row->nulls = ~0u;
	for (hjg_u32 r = 0; r < a->nregisters; r++)
		row->regs[r * row->stride] = 0;
	for (hjg_u32 s = 0; s < a->nsteps; s++)
	{
		const HjgProgramStep *step = &steps[s];
		const int64_t left = row->regs[step->left * row->stride];
		const int64_t right = row->regs[step->right * row->stride];
		const hjg_u32 left_null = row->nulls >> step->left & 1;
		const hjg_u32 any_null = left_null | (row->nulls >> step->right & 1);

		switch (step->op)
		{
			case HJG_PROGRAM_COLUMN:
				hjg_program_column(&columns[step->arg], row_ix, row, step->to);
				break;
			case HJG_PROGRAM_GROUP:
				hjg_program_group_value(a, hjg_program_group(&a->source, row->group), step->arg, row, step->to);
				break;
			case HJG_PROGRAM_ROW:
				hjg_program_set(row, step->to, (hjg_u64) row->segment * HJG_PROGRAM_MAX_SEGMENT_ROWS + row_ix, 0);
				break;
			case HJG_PROGRAM_CONSTANT:
				hjg_program_set(row, step->to, (hjg_u64) step->low, step->high != 0);
				break;
			case HJG_PROGRAM_ADD:
				hjg_program_set(row, step->to, (hjg_u64) left + (hjg_u64) right, any_null);
				break;
			case HJG_PROGRAM_SUBTRACT:
				hjg_program_set(row, step->to, (hjg_u64) left - (hjg_u64) right, any_null);
				break;
			case HJG_PROGRAM_MULTIPLY:
				hjg_program_set(row, step->to, (hjg_u64) left * (hjg_u64) right, any_null);
				break;
			case HJG_PROGRAM_NEGATE:
				hjg_program_set(row, step->to, 0 - (hjg_u64) left, left_null);
				break;
			case HJG_PROGRAM_ROUND_DOWN:
				hjg_program_set(row, step->to, (hjg_u64) hjg_program_round_down(left, step->low, step->high), left_null);
				break;
			case HJG_PROGRAM_LOOK_UP:
				hjg_program_set(row, step->to, (hjg_u64) hjg_program_look_up(HJG_PROGRAM_AT(const int64_t, a->sets) + step->arg, left, step->low, step->high), left_null);
				break;
			case HJG_PROGRAM_FLOAT:
				hjg_program_set(row, step->to, (hjg_u64) hjg_program_float(left, step->low), left_null);
				break;
			case HJG_PROGRAM_MOVE_IF:
				if (left != 0)
					hjg_program_set(row, step->to, (hjg_u64) right, row->nulls >> step->right & 1);
				break;
			case HJG_PROGRAM_IN_RANGE:
				hjg_program_set(row, step->to, !left_null && step->low <= left && left <= step->high, 0);
				break;
			case HJG_PROGRAM_NOT_IN_RANGE:
				hjg_program_set(row, step->to, !left_null && !(step->low <= left && left <= step->high), 0);
				break;
			case HJG_PROGRAM_IN_SET:
			case HJG_PROGRAM_NOT_IN_SET:
				hjg_program_set(row, step->to,
								!left_null && hjg_program_in_set(HJG_PROGRAM_AT(const int64_t, a->sets) + step->arg, (hjg_u32) step->low, left) ==
								(step->op == HJG_PROGRAM_IN_SET), 0);
				break;
			case HJG_PROGRAM_IS_NULL:
				hjg_program_set(row, step->to, left_null, 0);
				break;
			case HJG_PROGRAM_IS_NOT_NULL:
				hjg_program_set(row, step->to, !left_null, 0);
				break;
			case HJG_PROGRAM_AND:
				hjg_program_set(row, step->to, left != 0 && right != 0, 0);
				break;
			case HJG_PROGRAM_OR:
				hjg_program_set(row, step->to, left != 0 || right != 0, 0);
				break;
			case HJG_PROGRAM_FILTER:
				if (left == 0)
					return 0;
				break;
			case HJG_PROGRAM_PROBE_INNER:
			case HJG_PROGRAM_PROBE_LEFT:
			case HJG_PROGRAM_PROBE_SEMI:
			case HJG_PROGRAM_PROBE_ANTI:
				if (!hjg_program_probe(&a->tables[step->arg], step, row))
					return 0;
				break;
			default:
				hjg_program_set(row, step->to, !any_null && hjg_program_compare(step->op, left, right), 0);
		}
	}
	return 1;
}

/* Is the row in one of the piece's runs, or a group? Notes where it comes from. */
HJG_PROGRAM_STEP int
hjg_program_sees(const HjgKPipeline *a, const HjgKPiece *piece, hjg_u32 row_ix, HjgProgramRow *row)
{
	const HjgProgramRun *runs = HJG_PROGRAM_AT(const HjgProgramRun, a->runs);
	hjg_u32		first = piece->first_run;
	hjg_u32		n = piece->nruns;

	if (row_ix < piece->first_row || row_ix >= piece->end_row)
		return 0;
	if (a->from_groups)
	{
		row->group = hjg_program_record(&a->source, row_ix);
		return row->group[0] != 0;
	}
	row->segment = piece->segment;
	if (n == 1)
		return 1;
	/* the last run that begins at the row or before it */
	while (n > 1)
	{
		const hjg_u32 half = n / 2;

		if (runs[first + half].first_row <= row_ix)
		{
			first += half;
			n -= half;
		}
		else
			n = half;
	}
	return row_ix >= runs[first].first_row && row_ix < runs[first].end_row;
}

/* ---- results ---- */

/* Get the number of a group that ascends in the order of the result; those of NULLs are not behind, or before, all others. */
HJG_PROGRAM_STEP hjg_u64
hjg_program_order(const HjgKResult *a, const HjgProgramRow *row)
{
	const hjg_u64 number = (hjg_u64) row->regs[a->order * row->stride] ^ (1ull << 63);

	if (!a->ordered)
		return 0;
	if (row->nulls >> a->order & 1)
		return a->nulls_first ? 0 : ~0ull;
	return a->descending ? ~number : number;
}

/* Write a group as hjg_program.h describes it. */
HJG_PROGRAM_STEP void
hjg_program_list(const HjgKResult *a, HjgProgramGroup group, hjg_u64 *words)
{
	const hjg_u64 *values = group.values;
	const hjg_u64 nrows = values[0];

	*words++ = nrows;
	for (hjg_u32 k = 0; k < a->pipeline.source.nkeys; k++)
		*words++ = group.keys[k];
	*words++ = group.nulls;
	for (hjg_u32 i = 0; i < a->narguments; i++, words += HJG_PROGRAM_ARGUMENT_WORDS)
	{
		const HjgKArgument argument = a->pipeline.arguments[i];
		const hjg_u64 nnulls = argument.nulls != 0 ? values[argument.nulls] : 0;
		const hjg_u64 low = argument.sum != 0 ? values[argument.sum] : 0;
		const int64_t high = argument.sum_parts > 1 ? (int64_t) values[argument.sum + 1] : 0;
		const hjg_u64 shifted = (hjg_u64) high << 32;

		words[0] = nnulls;
		words[1] = shifted + low;
		words[2] = argument.sum_parts > 1 ? (hjg_u64) (high >> 32) + (words[1] < shifted) : (int64_t) low < 0 ? ~0ull : 0;
		words[3] = argument.extremes != 0 && nnulls < nrows ? values[argument.extremes] : 0;
		words[4] = argument.extremes != 0 && nnulls < nrows ? values[argument.extremes + 1] : 0;
	}
}

#endif							/* HJG_PROGRAM_STEPS_H */
