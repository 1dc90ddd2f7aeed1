/*
 * kept_views.c
 *	  Shows what is kept.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"

#include "kept/hjg_kept.h"
#include "kept/hjg_kept_memory.h"

PG_FUNCTION_INFO_V1(hjoin_gpu_cache);
PG_FUNCTION_INFO_V1(hjoin_gpu_cache_memory);

static const char *const code_names[] = {
	[HJG_KEPT_NOT] = "not kept", [HJG_KEPT_INTEGERS] = "integers", [HJG_KEPT_NUMBERS] = "numbers", [HJG_KEPT_WORDS] = "words",
	[HJG_KEPT_BYTES] = "bytes"
};

/* Show a column of a table in one code. */
static void
put_use(const HjgKeptUse *use, void *arg)
{
	ReturnSetInfo *rsinfo = arg;
	Datum		values[] = {
		ObjectIdGetDatum(use->database), ObjectIdGetDatum(use->tablespace), ObjectIdGetDatum(use->file), Int16GetDatum(use->attno),
		CStringGetTextDatum(code_names[use->code]), Int64GetDatum((int64) use->nsegments), Int64GetDatum((int64) use->nblocks),
		Int64GetDatum((int64) use->nrows), Int64GetDatum((int64) use->nbytes), Int64GetDatum((int64) use->served),
		Int64GetDatum((int64) use->live), Int64GetDatum((int64) use->verified)
	};
	bool		nulls[lengthof(values)] = {0};

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

Datum
hjoin_gpu_cache(PG_FUNCTION_ARGS)
{
	InitMaterializedSRF(fcinfo, 0);
	hjg_kept_visit(put_use, fcinfo->resultinfo);
	return (Datum) 0;
}

Datum
hjoin_gpu_cache_memory(PG_FUNCTION_ARGS)
{
	TupleDesc	tupdesc;
	uint64		total;
	uint64		used;
	bool		huge;
	Datum		values[3];
	bool		nulls[3] = {0};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	hjg_kept_memory_state(&total, &used, &huge);
	values[0] = Int64GetDatum((int64) total);
	values[1] = Int64GetDatum((int64) used);
	values[2] = BoolGetDatum(huge);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}
