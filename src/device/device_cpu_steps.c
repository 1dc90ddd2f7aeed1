/*
 * device_cpu_steps.c
 *	  The steps of a program (layout/hjg_program.h) for many rows at a time, on a thread of the processor.
 *
 * The meaning of a step is in kernels/hjg_program_steps.h, which has the same steps for one row.  Here each is a loop over a register of
 * all rows, of which the compiler makes vector instructions.  The register of a NULL is 0.
 */
#include <string.h>

#include "device/hjg_cpu_program.h"

#define STEP static inline __attribute__((always_inline))

#define BIT(reg) (1u << (reg))

/* ---- NULLs ---- */

/* Note in which rows a register is NULL; its values there become 0. */
STEP void
mark_nulls(HjgCpuRows *rows, hjg_u32 reg, const hjg_u8 *isnull)
{
	int64_t    *to = rows->regs[reg];

	for (hjg_u32 i = 0; i < rows->n; i++)
	{
		rows->nulls[i] = (rows->nulls[i] & ~BIT(reg)) | (hjg_u32) isnull[i] << reg;
		to[i] &= (int64_t) isnull[i] - 1;
	}
	rows->nullable |= BIT(reg);
}

/* Make a register NULL where one of these registers is, or nowhere. */
STEP void
pass_nulls(HjgCpuRows *rows, hjg_u32 reg, hjg_u32 from)
{
	from &= rows->nullable;
	if (from == 0)
	{
		rows->nullable &= ~BIT(reg);
		return;
	}
	for (hjg_u32 i = 0; i < rows->n; i++)
	{
		const hjg_u32 isnull = (rows->nulls[i] & from) != 0;

		rows->nulls[i] = (rows->nulls[i] & ~BIT(reg)) | isnull << reg;
		rows->regs[reg][i] &= (int64_t) isnull - 1;
	}
	rows->nullable |= BIT(reg);
}

/* A comparison: 0 where one of these registers is NULL. */
STEP void
fail_nulls(HjgCpuRows *rows, hjg_u32 reg, hjg_u32 from)
{
	from &= rows->nullable;
	for (hjg_u32 i = 0; i < rows->n && from != 0; i++)
		rows->regs[reg][i] &= (int64_t) ((rows->nulls[i] & from) != 0) - 1;
	rows->nullable &= ~BIT(reg);
}

/* ---- columns and groups ---- */

#define DEFINE_LOAD(type) \
	STEP void \
	load_##type(const HjgCpuRows *rows, const HjgKColumn *column, int64_t *to) \
	{ \
		const type *codes = HJG_PROGRAM_AT(const type, column->codes); \
		const hjg_u64 least = column->map != 0 ? 0 : (hjg_u64) column->least; \
		if (rows->consecutive) \
		{ \
			codes += rows->numbers[0]; \
			for (hjg_u32 i = 0; i < rows->n; i++) \
				to[i] = (int64_t) (least + codes[i]); \
		} \
		else \
			for (hjg_u32 i = 0; i < rows->n; i++) \
				to[i] = (int64_t) (least + codes[rows->numbers[i]]); \
	}

DEFINE_LOAD(hjg_u8)
DEFINE_LOAD(hjg_u16)
DEFINE_LOAD(hjg_u32)
DEFINE_LOAD(hjg_u64)

/* Test the strings of a column. */
STEP void
load_tested(const HjgKColumn *column, HjgCpuRows *rows, hjg_u32 reg)
{
	bool		passes[HJG_CPU_ROWS];

	if (!hjg_device_test_rows(HJG_PROGRAM_AT(const HjgDeviceStrings, column->map), rows->numbers, rows->n, passes))
		rows->flags |= HJG_K_STRING_UNKNOWN;
	for (hjg_u32 i = 0; i < rows->n; i++)
		rows->regs[reg][i] = passes[i];
	rows->nullable &= ~BIT(reg);
}

STEP void
load_codes(const HjgKColumn *column, HjgCpuRows *rows, hjg_u32 reg)
{
	int64_t    *to = rows->regs[reg];

	if (column->width == HJG_K_TESTED)
	{
		load_tested(column, rows, reg);
		return;
	}

	switch (column->width)
	{
		case 1:
			load_hjg_u8(rows, column, to);
			break;
		case 2:
			load_hjg_u16(rows, column, to);
			break;
		case 4:
			load_hjg_u32(rows, column, to);
			break;
		case 8:
			load_hjg_u64(rows, column, to);
			break;
		default:
			for (hjg_u32 i = 0; i < rows->n; i++)
				to[i] = column->map != 0 ? 0 : column->least;
	}
	if (column->map != 0)
		for (hjg_u32 i = 0; i < rows->n; i++)
			to[i] = (hjg_u64) to[i] < column->nwords ? HJG_PROGRAM_AT(const hjg_u32, column->map)[to[i]] : 0;
	rows->nullable &= ~BIT(reg);
	if (column->nulls != 0)
	{
		const hjg_u8 *bits = HJG_PROGRAM_AT(const hjg_u8, column->nulls);
		hjg_u8		isnull[HJG_CPU_ROWS];
		hjg_u32		any = 0;

		for (hjg_u32 i = 0; i < rows->n; i++)
		{
			const hjg_u32 number = rows->numbers[i];

			any |= isnull[i] = bits[number / 8] >> number % 8 & 1;
		}
		if (any)
			mark_nulls(rows, reg, isnull);
	}
}

/* Load a value of the groups that the rows are. */
STEP void
load_group_value(const HjgCpuPlan *plan, hjg_u32 which, HjgCpuRows *rows, hjg_u32 reg)
{
	hjg_u8		isnull[HJG_CPU_ROWS];

	for (hjg_u32 i = 0; i < rows->n; i++)
	{
		HjgProgramRow row = hjg_device_row(rows, i);
		hjg_u64		key;

		hjg_program_group_value(plan->a, hjg_device_group(plan, rows->numbers[i], &key), which, &row, reg);
		isnull[i] = row.nulls >> reg & 1;
	}
	mark_nulls(rows, reg, isnull);
}

/* ---- rows that go on ---- */

/* Keep the first n chosen rows, and of them these registers. */
STEP void
keep_chosen(HjgCpuRows *rows, hjg_u32 n, hjg_u32 live)
{
	if (n == rows->n)
		return;
	for (; live != 0; live &= live - 1)
	{
		int64_t    *reg = rows->regs[__builtin_ctz(live)];

		for (hjg_u32 i = 0; i < n; i++)
			reg[i] = reg[rows->chosen[i]];
	}
	for (hjg_u32 i = 0; i < n; i++)
		rows->numbers[i] = rows->numbers[rows->chosen[i]];
	for (hjg_u32 i = 0; i < n && rows->nullable != 0; i++)
		rows->nulls[i] = rows->nulls[rows->chosen[i]];
	rows->n = n;
	rows->consecutive = false;
}

STEP void
filter(HjgCpuRows *rows, hjg_u32 reg, hjg_u32 live)
{
	const int64_t *passes = rows->regs[reg];
	hjg_u32		n = 0;

	for (hjg_u32 i = 0; i < rows->n; i++)
	{
		rows->chosen[n] = (hjg_u16) i;
		n += passes[i] != 0;
	}
	keep_chosen(rows, n, live);
}

/* ---- tests of codes ---- */

/* Run ntested steps that test a column, from this one on; false: they must be run one by one. */
STEP bool
run_tested(const HjgProgramStep *steps, hjg_u32 ntested, hjg_u32 live, const HjgKColumn *columns, HjgCpuRows *rows)
{
	const HjgKColumn *column = &columns[steps->arg];

	if (column->nulls != 0 || column->width < 1 || column->width > 4 || (column->map != 0) != (ntested == 2))
		return false;
	keep_chosen(rows, hjg_device_choose_codes(column, &steps[1], rows), live & ~BIT(steps->to));
	if ((live & BIT(steps->to)) != 0)
		load_codes(column, rows, steps->to);
	return true;
}

/* ---- look-ups ---- */

/* Find the value of each row in ranks, and its record; NULL if it is not there. Returns how many are. */
STEP hjg_u32
find_ranks(const HjgCpuRanks *ranks, hjg_u32 reg, HjgCpuRows *rows)
{
	static hjg_u8 nothing;		/* for values that have no record */
	const int64_t *keys = rows->regs[reg];
	const hjg_u32 mask = rows->nullable & BIT(reg);
	hjg_u32		found = 0;

	for (hjg_u32 i = 0; i < rows->n; i++)
	{
		rows->hashes[i] = (hjg_u64) keys[i] - (hjg_u64) ranks->least;
		if (!ranks->complete && rows->hashes[i] < ranks->nvalues)
			__builtin_prefetch(&ranks->words[rows->hashes[i] / 64]);
	}
	for (hjg_u32 i = 0; i < rows->n; i++)
	{
		const hjg_u64 distance = rows->hashes[i];

		if (!hjg_device_is_ranked(ranks, distance) || (rows->nulls[i] & mask) != 0)
			rows->packed[i] = NULL;
		else if (ranks->records == NULL)
			rows->packed[i] = &nothing;
		else
		{
			rows->packed[i] = ranks->records + hjg_device_rank(ranks, distance) * ranks->record_bytes;
			__builtin_prefetch(rows->packed[i], 0, 2);
		}
		found += rows->packed[i] != NULL;
	}
	return found;
}

/* A filter is worth asking until most of so many rows have passed it. */
#define TRIED_ROWS 8192

/* Choose the rows that may be in a table, by its filter, if it has one; returns how many. */
STEP hjg_u32
choose_candidates(const HjgBloom *filter, hjg_u32 table, HjgCpuRows *rows)
{
	hjg_u32		n = 0;

	if (filter->words == NULL || (rows->tested[table] > TRIED_ROWS && rows->passed[table] > rows->tested[table] / 4 * 3))
	{
		for (; n < rows->n; n++)
			rows->chosen[n] = (hjg_u16) n;
		return n;
	}
	for (hjg_u32 i = 0; i < rows->n; i++)
		rows->hashes[i] &= HJG_RECORD_HASH;
	n = hjg_bloom_test(filter, rows->hashes, rows->n, rows->chosen);
	rows->tested[table] += rows->n;
	rows->passed[table] += n;
	return n;
}

/* Find the record of each row in a table; NULL if there is none. Returns how many there are. */
STEP hjg_u32
find_records(const HjgKRecords *table, const HjgBloom *filter, const HjgProgramStep *step, HjgCpuRows *rows)
{
	const hjg_u32 key_bits = hjg_device_register_range(step->left, table->nkeys) & rows->nullable;
	hjg_u8		keys[HJG_PROGRAM_MAX_KEYS];
	hjg_u32		found = 0;
	hjg_u32		n;

	for (hjg_u32 k = 0; k < table->nkeys; k++)
		keys[k] = (hjg_u8) (step->left + k);
	hjg_device_hash_keys(rows, keys, table->nkeys, false);
	n = choose_candidates(filter, step->arg, rows);
	for (hjg_u32 i = 0; i < rows->n && n < rows->n; i++)
		rows->records[i] = NULL;
	for (hjg_u32 c = 0; c < n; c++)
		__builtin_prefetch(hjg_program_record(table, hjg_program_home(table, rows->hashes[rows->chosen[c]])));
	for (hjg_u32 c = 0; c < n; c++)
	{
		const hjg_u32 i = rows->chosen[c];
		const HjgProgramKey key = {.regs = &rows->regs[step->left][i], .stride = HJG_CPU_ROWS, .nkeys = table->nkeys};

		rows->records[i] = key_bits != 0 && (rows->nulls[i] & key_bits) != 0 ? NULL : (hjg_u64 *) hjg_program_find(table, &key, rows->hashes[i]);
		found += rows->records[i] != NULL;
	}
	return found;
}

#define UNPACK_FIELD(type) \
	for (hjg_u32 i = 0; i < rows->n; i++) \
	{ \
		type		part = 0; \
		\
		if (rows->packed[i] != NULL) \
			memcpy(&part, rows->packed[i] + field->offset, sizeof(part)); \
		to[i] = (int64_t) ((hjg_u64) field->least + part); \
	}

/* Load a field of the records of ranks; any number where there is none. */
STEP void
unpack_field(const HjgCpuField *field, int64_t *to, const HjgCpuRows *rows)
{
	switch (field->width)
	{
		case 0:
			for (hjg_u32 i = 0; i < rows->n; i++)
				to[i] = field->least;
			break;
		case 1:
			UNPACK_FIELD(hjg_u8);
			break;
		case 2:
			UNPACK_FIELD(hjg_u16);
			break;
		case 4:
			UNPACK_FIELD(hjg_u32);
			break;
		default:
			UNPACK_FIELD(hjg_u64);
	}
}

/* Load what the records of ranks have; NULL where there is none. some_lack: there may be none. */
STEP void
unpack_fields(const HjgCpuRanks *ranks, hjg_u32 nfields, const HjgProgramStep *step, HjgCpuRows *rows, bool some_lack)
{
	for (hjg_u32 f = 0; f < nfields; f++)
	{
		const hjg_u32 reg = step->to + f;
		hjg_u8		isnull[HJG_CPU_ROWS];
		hjg_u32		any = 0;

		unpack_field(&ranks->fields[f], rows->regs[reg], rows);
		rows->nullable &= ~BIT(reg);
		for (hjg_u32 i = 0; i < rows->n && (some_lack || ranks->null_bytes > 0); i++)
			any |= isnull[i] = rows->packed[i] == NULL || (ranks->null_bytes > 0 && (rows->packed[i][f / 8] >> f % 8 & 1) != 0);
		if (any)
			mark_nulls(rows, reg, isnull);
	}
}

/* Load what the records have beside their keys; NULL where there is none. */
STEP void
load_payload(const HjgKRecords *table, const HjgProgramStep *step, HjgCpuRows *rows)
{
	for (hjg_u32 p = 0; p < table->npayload; p++)
	{
		int64_t    *to = rows->regs[step->to + p];
		hjg_u8		isnull[HJG_CPU_ROWS];
		hjg_u32		any = 0;

		for (hjg_u32 i = 0; i < rows->n; i++)
		{
			const hjg_u64 *record = rows->records[i];

			any |= isnull[i] = record == NULL || (hjg_program_nulls(record) >> p & 1);
			to[i] = record == NULL ? 0 : (int64_t) record[HJG_K_RECORD_KEYS + table->nkeys + p];
		}
		rows->nullable &= ~BIT(step->to + p);
		if (any)
			mark_nulls(rows, step->to + p, isnull);
	}
}

STEP void
probe(const HjgCpuPlan *plan, const HjgProgramStep *step, HjgCpuRows *rows, hjg_u32 live)
{
	const HjgKRecords *table = &plan->a->tables[step->arg];
	const HjgCpuRanks *ranks = &plan->ranks[step->arg];
	const bool	anti = step->op == HJG_PROGRAM_PROBE_ANTI;
	const hjg_u32 found = ranks->words != NULL ? find_ranks(ranks, step->left, rows) : find_records(table, &plan->filters[step->arg], step, rows);

	if (step->op != HJG_PROGRAM_PROBE_LEFT && found != (anti ? 0 : rows->n))
	{
		hjg_u32		n = 0;

		for (hjg_u32 i = 0; i < rows->n; i++)
		{
			rows->chosen[n] = (hjg_u16) i;
			n += (rows->records[i] == NULL) == anti;
		}
		for (hjg_u32 i = 0; i < n && step->op == HJG_PROGRAM_PROBE_INNER; i++)
			rows->records[i] = rows->records[rows->chosen[i]];
		keep_chosen(rows, n, live);
	}
	if (step->op != HJG_PROGRAM_PROBE_INNER && step->op != HJG_PROGRAM_PROBE_LEFT)
		return;
	if (ranks->words != NULL)
		unpack_fields(ranks, table->npayload, step, rows, step->op == HJG_PROGRAM_PROBE_LEFT);
	else
		load_payload(table, step, rows);
}

/* ---- the steps ---- */

#define EACH(expression) \
	for (hjg_u32 i = 0; i < n; i++) \
		to[i] = (int64_t) (expression)

STEP void
run_step(const HjgCpuPlan *plan, const HjgProgramStep *step, hjg_u32 live, const HjgKColumn *columns, HjgCpuRows *rows)
{
	const HjgKPipeline *a = plan->a;
	const hjg_u32 n = rows->n;
	int64_t    *to = rows->regs[step->to];
	const int64_t *left = rows->regs[step->left];
	const int64_t *right = rows->regs[step->right];
	const hjg_u32 both = BIT(step->left) | BIT(step->right);

	switch (step->op)
	{
		case HJG_PROGRAM_COLUMN:
			load_codes(&columns[step->arg], rows, step->to);
			break;
		case HJG_PROGRAM_GROUP:
			load_group_value(plan, step->arg, rows, step->to);
			break;
		case HJG_PROGRAM_ROW:
			EACH((hjg_u64) rows->segment * HJG_PROGRAM_MAX_SEGMENT_ROWS + rows->numbers[i]);
			rows->nullable &= ~BIT(step->to);
			break;
		case HJG_PROGRAM_CONSTANT:
			EACH(step->high != 0 ? 0 : step->low);
			rows->nullable &= ~BIT(step->to);
			if (step->high != 0)
			{
				hjg_u8		isnull[HJG_CPU_ROWS];

				memset(isnull, 1, sizeof(isnull));
				mark_nulls(rows, step->to, isnull);
			}
			break;
		case HJG_PROGRAM_ADD:
			EACH((hjg_u64) left[i] + (hjg_u64) right[i]);
			pass_nulls(rows, step->to, both);
			break;
		case HJG_PROGRAM_SUBTRACT:
			EACH((hjg_u64) left[i] - (hjg_u64) right[i]);
			pass_nulls(rows, step->to, both);
			break;
		case HJG_PROGRAM_MULTIPLY:
			EACH((hjg_u64) left[i] * (hjg_u64) right[i]);
			pass_nulls(rows, step->to, both);
			break;
		case HJG_PROGRAM_NEGATE:
			EACH(0 - (hjg_u64) left[i]);
			pass_nulls(rows, step->to, BIT(step->left));
			break;
		case HJG_PROGRAM_ROUND_DOWN:
			EACH(hjg_program_round_down(left[i], step->low, step->high));
			pass_nulls(rows, step->to, BIT(step->left));
			break;
		case HJG_PROGRAM_LOOK_UP:
			EACH(hjg_program_look_up(HJG_PROGRAM_AT(const int64_t, a->sets) + step->arg, left[i], step->low, step->high));
			pass_nulls(rows, step->to, BIT(step->left));
			break;
		case HJG_PROGRAM_FLOAT:
			EACH(hjg_program_float(left[i], step->low));
			pass_nulls(rows, step->to, BIT(step->left));
			break;
		case HJG_PROGRAM_MOVE_IF:
			if ((rows->nullable & (BIT(step->right) | BIT(step->to))) != 0)
			{
				hjg_u8		isnull[HJG_CPU_ROWS];

				for (hjg_u32 i = 0; i < n; i++)
					isnull[i] = (rows->nulls[i] & rows->nullable) >> (left[i] != 0 ? step->right : step->to) & 1;
				EACH(left[i] != 0 ? right[i] : to[i]);
				mark_nulls(rows, step->to, isnull);
			}
			else
				EACH(left[i] != 0 ? right[i] : to[i]);
			break;
		case HJG_PROGRAM_IN_RANGE:
			EACH((left[i] >= step->low) & (left[i] <= step->high));
			fail_nulls(rows, step->to, BIT(step->left));
			break;
		case HJG_PROGRAM_NOT_IN_RANGE:
			EACH(!((left[i] >= step->low) & (left[i] <= step->high)));
			fail_nulls(rows, step->to, BIT(step->left));
			break;
		case HJG_PROGRAM_IN_SET:
		case HJG_PROGRAM_NOT_IN_SET:
			EACH(hjg_program_in_set(HJG_PROGRAM_AT(const int64_t, a->sets) + step->arg, (hjg_u32) step->low, left[i]) == (step->op == HJG_PROGRAM_IN_SET));
			fail_nulls(rows, step->to, BIT(step->left));
			break;
		case HJG_PROGRAM_EQ:
			EACH(left[i] == right[i]);
			fail_nulls(rows, step->to, both);
			break;
		case HJG_PROGRAM_NE:
			EACH(left[i] != right[i]);
			fail_nulls(rows, step->to, both);
			break;
		case HJG_PROGRAM_LT:
			EACH(left[i] < right[i]);
			fail_nulls(rows, step->to, both);
			break;
		case HJG_PROGRAM_LE:
			EACH(left[i] <= right[i]);
			fail_nulls(rows, step->to, both);
			break;
		case HJG_PROGRAM_GT:
			EACH(left[i] > right[i]);
			fail_nulls(rows, step->to, both);
			break;
		case HJG_PROGRAM_GE:
			EACH(left[i] >= right[i]);
			fail_nulls(rows, step->to, both);
			break;
		case HJG_PROGRAM_IS_NULL:
		case HJG_PROGRAM_IS_NOT_NULL:
			if ((rows->nullable & BIT(step->left)) == 0)
				EACH(step->op != HJG_PROGRAM_IS_NULL);
			else
				EACH((rows->nulls[i] >> step->left & 1) == (step->op == HJG_PROGRAM_IS_NULL));
			rows->nullable &= ~BIT(step->to);
			break;
		case HJG_PROGRAM_AND:
			EACH((left[i] != 0) & (right[i] != 0));
			rows->nullable &= ~BIT(step->to);
			break;
		case HJG_PROGRAM_OR:
			EACH((left[i] | right[i]) != 0);
			rows->nullable &= ~BIT(step->to);
			break;
		case HJG_PROGRAM_FILTER:
			filter(rows, step->left, live);
			break;
		default:
			probe(plan, step, rows, live & ~hjg_device_registers_set(a, step));
	}
}

STEP void
run_steps(const HjgCpuPlan *plan, const HjgKColumn *columns, HjgCpuRows *rows)
{
	rows->nullable = plan->unset;
	for (hjg_u32 left = plan->unset; left != 0; left &= left - 1)
		memset(rows->regs[__builtin_ctz(left)], 0, rows->n * sizeof(int64_t));
	if (plan->unset != 0)
		memset(rows->nulls, 0xFF, rows->n * sizeof(hjg_u32));
	for (hjg_u32 s = 0; s < plan->a->nsteps && rows->n > 0; s++)
		if (plan->tested[s] > 0 && run_tested(&plan->steps[s], plan->tested[s], plan->live[s + plan->tested[s] - 1], columns, rows))
			s += plan->tested[s] - 1;
		else if (!plan->dead[s])
			run_step(plan, &plan->steps[s], plan->live[s], columns, rows);
}

static void
run_steps_plain(const HjgCpuPlan *plan, const HjgKColumn *columns, HjgCpuRows *rows)
{
	run_steps(plan, columns, rows);
}

#ifdef HJG_CPU_WIDE
HJG_CPU_WIDE static void
run_steps_wide(const HjgCpuPlan *plan, const HjgKColumn *columns, HjgCpuRows *rows)
{
	run_steps(plan, columns, rows);
}
#endif

void
hjg_device_run_steps(const HjgCpuPlan *plan, const HjgKColumn *columns, HjgCpuRows *rows)
{
#ifdef HJG_CPU_WIDE
	if (__builtin_cpu_supports("avx2"))
	{
		run_steps_wide(plan, columns, rows);
		return;
	}
#endif
	run_steps_plain(plan, columns, rows);
}
