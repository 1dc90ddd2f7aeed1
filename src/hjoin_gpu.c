/*
 * hjoin_gpu.c
 *	  Entry point of the extension: settings, hooks, supervisor.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"

#include "base/hjg_base.h"
#include "planner/hjg_planner.h"
#include "service/hjg_service.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

void
_PG_init(void)
{
	bool		preloaded = process_shared_preload_libraries_in_progress;

	hjg_base_define_gucs(preloaded);
	if (!preloaded)
	{
		ereport(WARNING,
				(errmsg("hjoin_gpu is not active in this session"),
				 errdetail("It was loaded without the setting shared_preload_libraries."),
				 errhint("Add hjoin_gpu to shared_preload_libraries and restart the server.")));
		return;
	}
	hjg_service_init();
	hjg_planner_init();
}
