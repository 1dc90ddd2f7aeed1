/*
 * device_program_result.c
 *	  Chooses the groups of a program's result on its machine, and copies them to the host.
 *
 * Each group that passes the result's steps has a number that ascends in the order of the result.  The number of the last group that
 * is wanted is found digit by digit: the groups are counted by their next digit, and only those with the digits found so far are
 * looked at further.
 */
#include <stdlib.h>
#include <string.h>

#include "device/hjg_device_program_run.h"

hjg_u64		hjg_device_few_more = 100;

/* Count the groups by the next digit of their numbers. */
static HjgStatus
count_digit(HjgMachineRun *run, HjgKResult *args, const HjgKPiece *pieces, hjg_u32 npieces, hjg_u64 *bins)
{
	const size_t bytes = HJG_K_ORDER_BINS * sizeof(hjg_u64);

	TRY(run->machine->zero(run, args->bins, bytes));
	TRY(run->machine->launch(run, HJG_KERNEL_COUNT_GROUPS, &args->pipeline, args, pieces, npieces));
	return run->machine->copy_out(run, bins, args->bins, bytes);
}

/*
 * Find the last number of the groups that are wanted, digit by digit, until few others are with them; sets it, and *ngroups up to it.
 */
static HjgStatus
find_last(HjgMachineRun *run, HjgKResult *args, const HjgKPiece *pieces, hjg_u32 npieces, hjg_u64 *bins, hjg_u64 *ngroups)
{
	const hjg_u64 first_groups = run->program->head->first_groups;
	const hjg_u64 wanted = first_groups > 0 ? first_groups : ~0ull;
	hjg_u64		before = 0;

	for (args->shift = 64 - HJG_K_ORDER_BITS;; args->shift -= HJG_K_ORDER_BITS)
	{
		hjg_u32		bin = 0;

		TRY(count_digit(run, args, pieces, npieces, bins));
		while (bin < HJG_K_ORDER_BINS && bins[bin] < wanted - before)
			before += bins[bin++];
		if (bin == HJG_K_ORDER_BINS)
		{
			args->last = ~0ull;
			*ngroups = before;
			return HJG_OK;
		}
		args->prefix = args->prefix << HJG_K_ORDER_BITS | bin;
		args->last = ((args->prefix + 1) << args->shift) - 1;
		*ngroups = before + bins[bin];
		if (args->shift == 0 || (*ngroups - first_groups <= hjg_device_few_more && *ngroups <= run->program->head->max_groups))
			return HJG_OK;
	}
}

/* Get memory for the result, whose first word is the number of groups. */
static HjgStatus
alloc_words(const HjgMachineRun *run, HjgProgramResult *result, hjg_u64 ngroups)
{
	const HjgDeviceProgram *program = run->program;

	result->nwords = 1 + ngroups * hjg_program_group_words(program->groups->nkeys, program->groups->narguments);
	/* cursors have 32 bits */
	if (ngroups > program->head->max_groups || result->nwords > UINT32_MAX)
		return HJG_ERR_INPUT;
	result->words = run->env->alloc(run->env->arg, result->nwords * sizeof(hjg_u64));
	if (result->words == NULL)
		return HJG_ERR_MEMORY;
	result->words[0] = ngroups;
	return HJG_OK;
}

/* Write the only group of a program without keys, to which no row has come. */
static HjgStatus
write_empty_group(const HjgMachineRun *run, HjgProgramResult *result)
{
	TRY(alloc_words(run, result, 1));
	memset(result->words + 1, 0, (result->nwords - 1) * sizeof(hjg_u64));
	return HJG_OK;
}

/* List the groups that are wanted, and copy them to the host. */
static HjgStatus
list_groups(HjgMachineRun *run, HjgKResult *args, const HjgKPiece *pieces, hjg_u32 npieces, hjg_u64 ngroups, HjgProgramResult *result)
{
	const HjgDeviceProgram *program = run->program;
	size_t		bytes;
	HjgStatus	status;

	if (ngroups == 0 && program->groups->nkeys == 0)
		return write_empty_group(run, result);
	TRY(alloc_words(run, result, ngroups));
	if (ngroups == 0)
		return HJG_OK;
	for (hjg_u32 t = 0; t < program->head->tables.n; t++)
		if (&program->tables[t] != program->groups)
			hjg_device_free_table(run, t);
	bytes = (result->nwords - 1) * sizeof(hjg_u64);
	TRY(run->machine->alloc(run, bytes, &args->words));
	status = run->machine->launch(run, HJG_KERNEL_LIST_GROUPS, &args->pipeline, args, pieces, npieces);
	if (status == HJG_OK)
		status = run->machine->copy_out(run, result->words + 1, args->words, bytes);
	run->machine->free(run, args->words, bytes);
	return status;
}

/* Choose the groups of the result, with memory for pieces and bins. */
static HjgStatus
choose_groups(HjgMachineRun *run, HjgKResult *args, const HjgKPiece *pieces, hjg_u32 npieces, hjg_u64 *bins, HjgProgramResult *result)
{
	hjg_u64		ngroups = 0;

	TRY(run->machine->copy_in(run, args->pipeline.pieces, pieces, npieces * sizeof(HjgKPiece)));
	TRY(run->machine->zero(run, run->facts, sizeof(HjgProgramFacts)));
	TRY(find_last(run, args, pieces, npieces, bins, &ngroups));
	return list_groups(run, args, pieces, npieces, ngroups, result);
}

HjgStatus
hjg_device_choose_groups(HjgMachineRun *run, HjgProgramResult *result)
{
	const HjgDeviceProgram *program = run->program;
	const HjgProgram *head = program->head;
	const HjgProgramMachine *machine = run->machine;
	const hjg_u32 groups = (hjg_u32) (program->groups - program->tables);
	const hjg_u32 npieces = (hjg_u32) hjg_device_divide_groups(&run->tables[groups], NULL);
	const size_t bins_bytes = HJG_K_ORDER_BINS * sizeof(hjg_u64);
	HjgKPiece  *pieces = malloc((npieces + 1) * sizeof(HjgKPiece));
	hjg_u64    *bins = malloc(bins_bytes);
	HjgKResult	args = {
		.pipeline = {
			.steps = run->block + head->steps.off + head->first_step * sizeof(HjgProgramStep), .sets = run->block + head->values.off,
			.flags = run->facts + offsetof(HjgProgramFacts, flags), .nsteps = head->nsteps, .nregisters = program->result_registers, .groups = 1
		},
		.listed = run->facts + offsetof(HjgProgramFacts, listed), .ordered = head->first_groups > 0, .order = head->order,
		.descending = head->descending, .nulls_first = head->nulls_first,
		.narguments = program->groups->narguments, .group_words = hjg_program_group_words(program->groups->nkeys, program->groups->narguments)
	};
	HjgStatus	status = pieces != NULL && bins != NULL ? HJG_OK : HJG_ERR_MEMORY;

	hjg_device_set_source(run, groups, &args.pipeline);
	if (status == HJG_OK)
		status = machine->alloc(run, npieces * sizeof(HjgKPiece), &args.pipeline.pieces);
	if (status == HJG_OK)
		status = machine->alloc(run, bins_bytes, &args.bins);
	if (status == HJG_OK)
	{
		(void) hjg_device_divide_groups(&run->tables[groups], pieces);
		status = choose_groups(run, &args, pieces, npieces, bins, result);
	}
	if (args.bins != 0)
		machine->free(run, args.bins, bins_bytes);
	if (args.pipeline.pieces != 0)
		machine->free(run, args.pipeline.pieces, npieces * sizeof(HjgKPiece));
	free(pieces);
	free(bins);
	return status;
}
