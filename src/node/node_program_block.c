/*
 * node_program_block.c
 *	  The block of a program while it is written: its arrays, and the registers and steps of the current pipeline.
 */
#include "postgres.h"

#include "node/hjg_program_write.h"

HjgProgramWriter *
hjg_program_writer_create(EState *estate, HjgProgramRowsWriter write_rows, int ndevices, const HjgProgramDivision *division)
{
	HjgProgramWriter *writer = palloc0(sizeof(HjgProgramWriter));
	StringInfo	arrays[] = {
		&writer->steps, &writer->maps, &writer->values, &writer->arguments, &writer->tests.tests, &writer->tests.strings, &writer->tests.bytes,
		&writer->memory
	};

	writer->estate = estate;
	writer->write_rows = write_rows;
	writer->nshares = ndevices;
	writer->division = division;
	for (int i = 0; i < lengthof(arrays); i++)
		initStringInfo(arrays[i]);
	for (int i = 0; i < ndevices; i++)
	{
		HjgProgramShare *share = &writer->shares[i];
		StringInfo	parts[] = {&share->pipelines, &share->tables, &share->segments, &share->columns, &share->runs};

		for (int p = 0; p < lengthof(parts); p++)
			initStringInfo(parts[p]);
	}
	return writer;
}

void *
hjg_program_extend(StringInfo array, Size nbytes)
{
	enlargeStringInfo(array, nbytes);
	array->len += nbytes;
	return array->data + array->len - nbytes;
}

bool
hjg_program_refuse(HjgProgramWriter *writer, const char *why)
{
	if (writer->why == NULL)
		writer->why = why;
	return false;
}

/* ---------- registers and steps ---------- */

int
hjg_program_take(HjgProgramWriter *writer, int n)
{
	const uint64 wanted = (UINT64CONST(1) << n) - 1;

	for (int reg = 0; reg + n <= HJG_PROGRAM_REGISTERS; reg++)
		if ((writer->taken & wanted << reg) == 0)
		{
			writer->taken |= wanted << reg;
			return reg;
		}
	hjg_program_refuse(writer, "a row has too many values");
	return -1;
}

void
hjg_program_release(HjgProgramWriter *writer, int reg, int n)
{
	writer->taken &= ~(((UINT64CONST(1) << n) - 1) << reg);
}

bool
hjg_program_step(HjgProgramWriter *writer, HjgProgramStep step)
{
	if (writer->pipeline.nsteps == HJG_PROGRAM_MAX_STEPS)
		return hjg_program_refuse(writer, "it has too many steps");
	appendBinaryStringInfo(&writer->steps, (const char *) &step, sizeof(step));
	writer->pipeline.nsteps++;
	return true;
}

int
hjg_program_step_new(HjgProgramWriter *writer, HjgProgramStep step)
{
	const int	reg = hjg_program_take(writer, 1);

	step.to = reg;
	return reg >= 0 && hjg_program_step(writer, step) ? reg : -1;
}

int
hjg_program_source(HjgProgramWriter *writer, HjgProgramSource source)
{
	for (int s = 0; s < writer->nsources; s++)
	{
		const HjgProgramSource *other = &writer->sources[s];

		if (other->collected == source.collected && other->test == source.test && other->words == source.words)
			return s;
	}
	if (writer->nsources == HJG_PROGRAM_MAX_COLUMNS)
	{
		hjg_program_refuse(writer, "a table has too many columns");
		return -1;
	}
	writer->sources[writer->nsources] = source;
	return writer->nsources++;
}

/* Write the step that puts a value into a register. */
static bool
load_into(HjgProgramWriter *writer, const HjgProgramValue *value, int reg)
{
	int			source;
	int			zero;
	bool		done;

	if (value->reg < 0 && value->of_group > 0)
		return hjg_program_step(writer, (HjgProgramStep) {.op = HJG_PROGRAM_GROUP, .to = reg, .arg = value->of_group - 1});
	if (value->reg < 0 && value->form == HJG_VALUE_ROW)
		return hjg_program_step(writer, (HjgProgramStep) {.op = HJG_PROGRAM_ROW, .to = reg});
	if (value->reg < 0)
	{
		source = hjg_program_source(writer, (HjgProgramSource) {.collected = value->collected, .words = value->words});
		return source >= 0 && hjg_program_step(writer, (HjgProgramStep) {.op = HJG_PROGRAM_COLUMN, .to = reg, .arg = source});
	}
	zero = hjg_program_take(writer, 1);
	if (zero < 0)
		return false;
	done = hjg_program_step(writer, (HjgProgramStep) {.op = HJG_PROGRAM_CONSTANT, .to = zero}) &&
		hjg_program_step(writer, (HjgProgramStep) {.op = HJG_PROGRAM_ADD, .to = reg, .left = value->reg, .right = zero});
	hjg_program_release(writer, zero, 1);
	return done;
}

int
hjg_program_load(HjgProgramWriter *writer, HjgProgramValue *value)
{
	if (value->reg < 0)
	{
		const int	reg = hjg_program_take(writer, 1);

		if (reg < 0 || !load_into(writer, value, reg))
			return -1;
		value->reg = reg;
	}
	return value->reg;
}

int
hjg_program_load_all(HjgProgramWriter *writer, HjgProgramValue **values, int n, bool *taken)
{
	int			first;

	*taken = n > 1;
	if (n == 1)
		return hjg_program_load(writer, values[0]);
	first = hjg_program_take(writer, n);
	for (int i = 0; first >= 0 && i < n; i++)
		if (!load_into(writer, values[i], first + i))
			return -1;
	return first;
}
