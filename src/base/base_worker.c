/*
 * base_worker.c
 *	  Background workers.
 */
#include "postgres.h"

#include "base/hjg_base.h"

void
hjg_base_describe_worker(BackgroundWorker *worker, const char *name, const char *function, BgWorkerStartTime start)
{
	*worker = (BackgroundWorker) {.bgw_flags = BGWORKER_SHMEM_ACCESS, .bgw_start_time = start, .bgw_restart_time = BGW_NEVER_RESTART};
	strlcpy(worker->bgw_library_name, "hjoin_gpu", BGW_MAXLEN);
	strlcpy(worker->bgw_function_name, function, BGW_MAXLEN);
	strlcpy(worker->bgw_name, name, BGW_MAXLEN);
	strlcpy(worker->bgw_type, name, BGW_MAXLEN);
}
