/*
 * device_cuda_result.c
 *	  Chooses the groups of a program's result on a GPU (cuda_program.cu), and copies them to the host.
 *
 * Each group that passes the result's steps has a number that ascends in the order of the result.  The number of the last group that
 * is wanted is found digit by digit: the groups are counted by their next digit, and only those with the digits found so far are
 * looked at further.
 */
#include <stdlib.h>
#include <string.h>

#include "device/hjg_cuda_program_run.h"

#define IMAGE "cuda_program"

hjg_u64		hjg_cuda_program_few_more = 100;

HJG_CUDA_KERNEL(hjg_k_count_groups, IMAGE);
HJG_CUDA_KERNEL(hjg_k_list_groups, IMAGE);

/* Launch a kernel of the result for all groups. */
static HjgStatus
launch_result(HjgCudaProgramRun *run, HjgCudaKernel *kernel, HjgKResult *args, const HjgKPiece *pieces, hjg_u32 npieces)
{
	return hjg_cuda_program_pieces(run, kernel, &args->pipeline, args, pieces, npieces);
}

/* Count the groups by the next digit of their numbers. */
static HjgStatus
count_digit(HjgCudaProgramRun *run, HjgKResult *args, const HjgKPiece *pieces, hjg_u32 npieces, hjg_u64 *bins)
{
	const size_t bytes = HJG_K_ORDER_BINS * sizeof(hjg_u64);

	TRY(hjg_cuda_zero(run->stream, args->bins, bytes));
	TRY(launch_result(run, &hjg_k_count_groups, args, pieces, npieces));
	TRY(hjg_cuda_copy_out(run->stream, bins, args->bins, bytes));
	return hjg_cuda_wait(run->stream);
}

/*
 * Find the last number of the groups that are wanted, digit by digit, until few others are with them; sets it, and *ngroups up to it.
 */
static HjgStatus
find_last(HjgCudaProgramRun *run, HjgKResult *args, const HjgKPiece *pieces, hjg_u32 npieces, hjg_u64 *bins, hjg_u64 *ngroups)
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
		if (args->shift == 0 || (*ngroups - first_groups <= hjg_cuda_program_few_more && *ngroups <= run->program->head->max_groups))
			return HJG_OK;
	}
}

/* Get memory for the result, whose first word is the number of groups. */
static HjgStatus
alloc_words(const HjgCudaProgramRun *run, HjgCudaProgram *result, hjg_u64 ngroups)
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

/* Without keys there is one group, even if no row came. */
static HjgStatus
write_empty_group(const HjgCudaProgramRun *run, HjgCudaProgram *result)
{
	TRY(alloc_words(run, result, 1));
	memset(result->words + 1, 0, (result->nwords - 1) * sizeof(hjg_u64));
	return HJG_OK;
}

/* List the groups that are wanted, and copy them to the host. */
static HjgStatus
list_groups(HjgCudaProgramRun *run, HjgKResult *args, const HjgKPiece *pieces, hjg_u32 npieces, hjg_u64 ngroups, HjgCudaProgram *result)
{
	const HjgDeviceProgram *program = run->program;
	HjgStatus	status;

	if (ngroups == 0 && program->groups->nkeys == 0)
		return write_empty_group(run, result);
	TRY(alloc_words(run, result, ngroups));
	if (ngroups == 0)
		return HJG_OK;
	for (hjg_u32 t = 0; t < program->head->tables.n; t++)
		if (&program->tables[t] != program->groups)
			hjg_cuda_free_records(run, &run->tables[t]);
	TRY(hjg_cuda_program_alloc(run, (result->nwords - 1) * sizeof(hjg_u64), &args->words));
	status = launch_result(run, &hjg_k_list_groups, args, pieces, npieces);
	if (status == HJG_OK)
		status = hjg_cuda_mark(run->stream, HJG_CUDA_TRANSFER_OUT);
	if (status == HJG_OK)
		status = hjg_cuda_copy_out(run->stream, result->words + 1, args->words, (result->nwords - 1) * sizeof(hjg_u64));
	if (status == HJG_OK)
		status = hjg_cuda_wait(run->stream);
	hjg_cuda_free(run->stream, args->words);
	return status;
}

/* Choose the groups of the result, with its pieces and bins on the device. */
static HjgStatus
choose_groups(HjgCudaProgramRun *run, HjgKResult *args, const HjgKPiece *pieces, hjg_u32 npieces, hjg_u64 *bins, HjgCudaProgram *result)
{
	hjg_u64		ngroups = 0;

	TRY(hjg_cuda_mark(run->stream, HJG_CUDA_PROBE));
	TRY(hjg_cuda_copy_in(run->stream, run->pieces, pieces, npieces * sizeof(HjgKPiece)));
	TRY(hjg_cuda_zero(run->stream, run->facts, sizeof(HjgCudaRunFacts)));
	TRY(find_last(run, args, pieces, npieces, bins, &ngroups));
	return list_groups(run, args, pieces, npieces, ngroups, result);
}

HjgStatus
hjg_cuda_program_result(HjgCudaProgramRun *run, HjgCudaProgram *result)
{
	const HjgDeviceProgram *program = run->program;
	const HjgProgram *head = program->head;
	const hjg_u32 groups = (hjg_u32) (program->groups - program->tables);
	const hjg_u32 npieces = (hjg_u32) hjg_cuda_divide_groups(&run->tables[groups], NULL);
	HjgKPiece  *pieces = malloc((npieces + 1) * sizeof(HjgKPiece));
	hjg_u64    *bins = malloc(HJG_K_ORDER_BINS * sizeof(hjg_u64));
	HjgKResult	args = {
		.pipeline = {
			.steps = run->block + head->steps.off + head->first_step * sizeof(HjgProgramStep), .sets = run->block + head->values.off,
			.flags = run->facts + offsetof(HjgCudaRunFacts, flags), .nsteps = head->nsteps, .nregisters = program->result_registers, .groups = 1
		},
		.listed = run->facts + offsetof(HjgCudaRunFacts, listed), .ordered = head->first_groups > 0, .order = head->order,
		.descending = head->descending, .nulls_first = head->nulls_first,
		.narguments = program->groups->narguments, .group_words = hjg_program_group_words(program->groups->nkeys, program->groups->narguments)
	};
	HjgStatus	status = pieces != NULL && bins != NULL ? HJG_OK : HJG_ERR_MEMORY;

	hjg_cuda_set_source(run, groups, &args.pipeline);
	if (status == HJG_OK)
		status = hjg_cuda_program_alloc(run, npieces * sizeof(HjgKPiece), &run->pieces);
	if (status == HJG_OK)
		status = hjg_cuda_program_alloc(run, HJG_K_ORDER_BINS * sizeof(hjg_u64), &args.bins);
	if (status == HJG_OK)
	{
		(void) hjg_cuda_divide_groups(&run->tables[groups], pieces);
		status = choose_groups(run, &args, pieces, npieces, bins, result);
	}
	/* also of a copy that an error left queued */
	(void) hjg_cuda_wait(run->stream);
	hjg_cuda_free(run->stream, run->pieces);
	hjg_cuda_free(run->stream, args.bins);
	free(pieces);
	free(bins);
	return status;
}
