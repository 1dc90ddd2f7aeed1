/*
 * calibrate_worker.c
 *	  The background worker that measures the unit costs once on each machine; service_autocalibrate.c starts it.
 *
 * It uses the database "postgres", from which it reads catalogs only.
 */
#include "postgres.h"

#include "access/xact.h"
#include "libpq/pqsignal.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "tcop/tcopprot.h"
#include "utils/snapmgr.h"

#include "base/hjg_base.h"
#include "calibrate/hjg_calibrate.h"

PGDLLEXPORT void hjg_calibrator_main(Datum arg);

void
hjg_calibrator_main(Datum arg)
{
	const bool	alone = hjg_auto_calibrate == HJG_AUTO_CALIBRATE_IDLE;

	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection("postgres", NULL, 0);
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	pgstat_report_activity(STATE_RUNNING, "measuring the costs of hjoin_gpu on this machine");
	if (hjg_calibrate(alone))
		ereport(LOG, (errmsg("hjoin_gpu has measured its costs on this machine")));
	else
		ereport(LOG,
				(errmsg("hjoin_gpu could not measure its costs on this machine, which became busy"),
				 errhint("It is tried again later; or call hjoin_gpu_calibrate().")));
	pgstat_report_activity(STATE_IDLE, NULL);
	PopActiveSnapshot();
	CommitTransactionCommand();
}
