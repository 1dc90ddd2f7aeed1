/*
 * huge_views.c
 *	  hjoin_gpu_huge_pages(): memory in huge pages.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "base/hjg_base.h"
#include "huge/hjg_huge_ranges.h"

PG_FUNCTION_INFO_V1(hjoin_gpu_huge_pages);

static const char *const area_names[] = {[HJG_HUGE_BUFFERS] = "shared buffers", [HJG_HUGE_KEPT] = "kept columns"};

static const char *
area_state(HjgHugeArea area)
{
	switch (hjg_huge_support[area])
	{
		case HJG_HUGE_RESERVED:
			return "reserved";
		case HJG_HUGE_OFF:
			return "off";
		case HJG_HUGE_NONE:
			return "none";
		case HJG_HUGE_POSSIBLE:
			break;
	}
	if (!hjg_huge_pages)
		return "off";
	return hjg_huge_shared == NULL ? "none" : hjg_huge_shared->refused ? "refused" : "collapsed";
}

Datum
hjoin_gpu_huge_pages(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	for (HjgHugeArea area = 0; area < HJG_HUGE_NAREAS; area++)
	{
		const bool	known = hjg_huge_shared != NULL && hjg_huge_nranges[area] > 0;
		const Datum used = Int64GetDatum(known ? (int64) hjg_huge_shared->nused[area] * hjg_huge_range_bytes : 0);
		const Datum huge = Int64GetDatum(known ? (int64) hjg_huge_shared->nhuge[area] * hjg_huge_range_bytes : 0);
		Datum		values[] = {CStringGetTextDatum(area_names[area]), CStringGetTextDatum(area_state(area)), used, huge};
		bool		nulls[lengthof(values)] = {false, false, !known, !known};

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
