/*
 * device_cpu_filter.c
 *	  Bloom filters of a program's hash tables, on the processor's threads.
 *
 * A row without a partner costs a look at the table, which is in no near cache.  Before, a filter of the table's hashes is asked, of a
 * sixteenth to a hundredth of its size.  Filters are made when the first pipeline that looks the table up begins; where most rows pass, the steps
 * ask no more.
 */
#include "device/hjg_cpu_program.h"

/* Smaller tables are in a near cache themselves; tests make it small. */
size_t		hjg_device_filtered_bytes = 256 * 1024;

#define SLOTS_AT_ONCE 4096

typedef struct FilterTask
{
	const HjgEnv *env;
	const HjgKRecords *table;
	HjgBloom   *filter;
	bool		cancelled;		/* atomic */
} FilterTask;

/* Add the hashes of some records. */
static void
add_slots(void *arg, int number, int worker)
{
	FilterTask *task = arg;
	const hjg_u32 first = (hjg_u32) number * SLOTS_AT_ONCE;
	hjg_u64		hashes[SLOTS_AT_ONCE];
	hjg_u32		n = 0;

	if (hjg_device_stopped(task->env, &task->cancelled))
		return;
	for (hjg_u32 slot = first; slot < task->table->nslots && slot - first < SLOTS_AT_ONCE; slot++)
	{
		const hjg_u64 word = hjg_program_record(task->table, slot)[0];

		hashes[n] = word & HJG_RECORD_HASH;
		n += word != 0;
	}
	hjg_bloom_add_shared(task->filter, hashes, n);
}

static HjgStatus
make_hash_filter(HjgCpuRun *run, const HjgKRecords *table, HjgBloom *filter)
{
	const size_t bytes = hjg_bloom_bytes(table->nslots / 2);
	FilterTask	task = {.env = run->run.env, .table = table, .filter = filter};
	hjg_u64		at;

	if (run->run.machine->alloc(&run->run, bytes, &at) != HJG_OK)
		return HJG_OK;
	hjg_bloom_init(filter, sizeof(hjg_u64), HJG_PROGRAM_AT(void, at), bytes);
	hjg_pool_run(run->run.env->pool, (int) ((table->nslots + SLOTS_AT_ONCE - 1) / SLOTS_AT_ONCE), add_slots, &task);
	return task.cancelled ? HJG_ERR_CANCELLED : HJG_OK;
}

HjgStatus
hjg_device_make_filters(HjgCpuRun *run, const HjgKPipeline *a)
{
	const HjgProgramStep *steps = HJG_PROGRAM_AT(const HjgProgramStep, a->steps);

	for (hjg_u32 s = 0; s < a->nsteps; s++)
	{
		const HjgKRecords *table = &a->tables[steps[s].arg % HJG_PROGRAM_MAX_PIPELINES];
		HjgBloom   *filter = &run->filters[steps[s].arg % HJG_PROGRAM_MAX_PIPELINES];

		if (steps[s].op >= HJG_PROGRAM_PROBE_INNER && table->records != 0 && filter->words == NULL &&
			(size_t) table->nslots * table->record_words * sizeof(hjg_u64) >= hjg_device_filtered_bytes)
			TRY(make_hash_filter(run, table, filter));
	}
	return HJG_OK;
}

void
hjg_device_free_filters(HjgCpuRun *run)
{
	for (hjg_u32 t = 0; t < HJG_PROGRAM_MAX_PIPELINES; t++)
		if (run->filters[t].words != NULL)
			run->run.machine->free(&run->run, (hjg_u64) (size_t) run->filters[t].words, (size_t) run->filters[t].nwords * sizeof(hjg_u64));
}
