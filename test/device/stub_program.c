/*
 * stub_program.c
 *	  The kernels of programs (cuda_program.cu), with the same steps for one row after the other.
 *
 * A launch is emulated as one block, whose own table of groups is added to the groups at its end.
 */
#include <stdlib.h>

#include "hjg_program_steps.h"
#include "hjg_stub_kernels.h"

typedef void (*Sink) (const HjgKPipeline *a, const void *arg, const HjgProgramRow *row);

static void
run_rows(const HjgKPipeline *a, const void *arg, Sink sink)
{
	int64_t		regs[HJG_PROGRAM_REGISTERS];
	HjgProgramRow row = {.regs = regs, .stride = 1};

	for (hjg_u32 p = 0; p < a->npieces && *AT(hjg_u32, a->flags) == 0; p++)
	{
		const HjgKPiece *piece = &AT(HjgKPiece, a->pieces)[p];

		for (hjg_u32 row_ix = piece->first_row; row_ix < piece->end_row; row_ix++)
			if (hjg_program_sees(a, piece, row_ix, &row) &&
				hjg_program_run(a, AT(HjgProgramStep, a->steps), AT(HjgKColumn, a->columns) + piece->first_column, row_ix, &row))
				sink(a, arg, &row);
	}
}

static void
fill_row(const HjgKPipeline *a, const void *arg, const HjgProgramRow *row)
{
	HjgProgramKey key;

	if (hjg_program_sink_key(a, row, &key))
		*AT(hjg_u32, a->flags) |= hjg_program_fill(a, row, &key, hjg_program_hash(&key));
}

static void
fill_records(const Launch *launch)
{
	run_rows(&ARG(HjgKPipeline, 0), NULL, fill_row);
}

static void
group_row(const HjgKPipeline *a, const void *arg, const HjgProgramRow *row)
{
	const HjgKRecords *near = arg;
	HjgProgramKey key;
	hjg_u64    *record;
	hjg_u64		hash;
	int			made;

	hjg_program_sink_key(a, row, &key);
	hash = hjg_program_hash(&key);
	record = hjg_program_enter(a, near, &key, hash, row, key.nulls, HJG_NEAR_VISITS, &made);
	if (record == NULL)
		record = hjg_program_enter(a, &a->sink, &key, hash, row, key.nulls, HJG_RECORD_VISITS, &made);
	if (record == NULL)
		*AT(hjg_u32, a->flags) |= HJG_K_TABLE_FULL;
	for (hjg_u32 v = 0; v < a->nvalues && record != NULL; v++)
		hjg_program_add(a->values[v].kind, &record[HJG_K_RECORD_KEYS + key.nkeys + v], hjg_program_share(a->values[v], row));
}

static void
group_rows(const Launch *launch)
{
	const HjgKPipeline *a = &ARG(HjgKPipeline, 0);
	hjg_u64    *records = calloc((size_t) a->near_slots * a->sink.record_words + 1, sizeof(hjg_u64));
	HjgKRecords near = a->sink;

	near.records = (hjg_u64) (size_t) records;
	near.nslots = a->near_slots;
	run_rows(a, &near, group_row);
	for (hjg_u32 slot = 0; slot < near.nslots; slot++)
		if (*hjg_program_record(&near, slot) != 0)
			*AT(hjg_u32, a->flags) |= hjg_program_merge(a, hjg_program_record(&near, slot));
	free(records);
}

static void
count_group(const HjgKPipeline *a, const void *arg, const HjgProgramRow *row)
{
	const HjgKResult *result = arg;
	const hjg_u64 number = hjg_program_order(result, row);

	if (number >> result->shift >> HJG_K_ORDER_BITS == result->prefix)
		AT(hjg_u64, result->bins)[(number >> result->shift) % HJG_K_ORDER_BINS]++;
}

static void
count_groups(const Launch *launch)
{
	const HjgKResult *a = &ARG(HjgKResult, 0);

	run_rows(&a->pipeline, a, count_group);
}

static void
list_group(const HjgKPipeline *a, const void *arg, const HjgProgramRow *row)
{
	const HjgKResult *result = arg;

	if (hjg_program_order(result, row) <= result->last)
		hjg_program_list(result, hjg_program_group(&a->source, row->group), AT(hjg_u64, result->words) + (*AT(hjg_u64, result->listed))++ * result->group_words);
}

static void
list_groups(const Launch *launch)
{
	const HjgKResult *a = &ARG(HjgKResult, 0);

	run_rows(&a->pipeline, a, list_group);
}

const StubKernel hjg_stub_program[] = {
	{"hjg_k_fill_records", fill_records, true},
	{"hjg_k_group_rows", group_rows, true},
	{"hjg_k_count_groups", count_groups, true},
	{"hjg_k_list_groups", list_groups, true},
	{0}
};
