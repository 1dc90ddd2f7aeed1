/*
 * device_program.c
 *	  The drivers of programs, one for each kind of device: their interface to the scheduler.
 *
 * The build runs the program; its result waits in host memory until it has been asked for, word by word.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/hjg_device_program.h"

static HjgKeptFile kept_file;

void
hjg_device_programs_open(const HjgKeptFile *kept)
{
	kept_file = kept != NULL ? *kept : (HjgKeptFile) {0};
}

static void
program_free(void *arg)
{
	HjgProgramResult *result = arg;

	if (result->words != NULL)
		result->env->free(result->env->arg, result->words, result->nwords * sizeof(hjg_u64));
	free(result);
}

typedef HjgStatus (*RunProgram) (int number, HjgProgramResult *result, const HjgDeviceProgram *program, const HjgKeptFile *kept);

/* Copy a program, check and run it. */
static HjgStatus
build_result(RunProgram run, int number, const HjgEnv *env, const HjgSegment *segments, int nsegments, void **join)
{
	HjgProgramResult *result = calloc(1, sizeof(HjgProgramResult));
	HjgDeviceProgram program;
	HjgStatus	status;

	*join = NULL;
	if (result == NULL)
		return HJG_ERR_MEMORY;
	result->env = env;
	status = hjg_device_program_copy(env, segments, nsegments, &program);
	if (status == HJG_OK)
	{
		const char *wrong = hjg_device_program_check(&program, kept_file.nbytes);

		if (wrong != NULL)
		{
			fprintf(stderr, "hjoin_gpu_device: a program is not sound: %s\n", wrong);
			status = HJG_ERR_INPUT;
		}
	}
	if (status == HJG_OK)
		status = run(number, result, &program, &kept_file);
	hjg_device_program_free(&program);
	if (status != HJG_OK)
	{
		program_free(result);
		return status;
	}
	*join = result;
	return HJG_OK;
}

static HjgStatus
program_probe(void *join, const HjgSegment *segments, int nsegments, HjgCursor *cursor, HjgResult *result)
{
	HjgProgramResult *program = join;
	const hjg_u64 capacity = result->npages > 0 ? (hjg_u64) result->npages * result->page_pairs : 0;
	hjg_u64		n;

	for (int i = 0; i < nsegments; i++)
		if (segments[i].nrows > 0)
			return HJG_ERR_INPUT;
	if (cursor->row > program->nwords || cursor->skip != 0 || cursor->most != 0 || (cursor->row < program->nwords && capacity == 0))
		return HJG_ERR_INPUT;
	n = program->nwords - cursor->row < capacity ? program->nwords - cursor->row : capacity;
	result->npairs = n;
	result->gathered = 0;
	result->summed = true;
	result->payload_sum = 0;
	result->checksum = 0;
	for (hjg_u64 at = 0, some; at < n; at += some)
	{
		const HjgPair *words = (const HjgPair *) (program->words + cursor->row + at);

		some = n - at < result->page_pairs ? n - at : result->page_pairs;
		memcpy(result->pages[at / result->page_pairs], words, some * sizeof(HjgPair));
		result->checksum += hjg_check_sum(words, some);
	}
	cursor->row += (hjg_u32) n;
	program->stats.pairs += n;
	return HJG_OK;
}

static void
program_stats(const void *join, HjgJobStats *stats)
{
	const HjgProgramResult *program = join;

	*stats = program->stats;
}

static HjgStatus
build_on_cuda(int number, const HjgEnv *env, const HjgJoinSpec *spec, const HjgSegment *segments, int nsegments, void **join)
{
	return build_result(hjg_cuda_program_run, number, env, segments, nsegments, join);
}

static HjgStatus
build_on_cpu(int number, const HjgEnv *env, const HjgJoinSpec *spec, const HjgSegment *segments, int nsegments, void **join)
{
	return build_result(hjg_device_run_on_cpu, number, env, segments, nsegments, join);
}

const HjgDriver hjg_cuda_program_driver = {
	.kind = HJG_KIND_CUDA,
	.build = build_on_cuda,
	.probe = program_probe,
	.stats = program_stats,
	.free = program_free,
};

const HjgDriver hjg_cpu_program_driver = {
	.kind = HJG_KIND_CPU,
	.build = build_on_cpu,
	.probe = program_probe,
	.stats = program_stats,
	.free = program_free,
};
