/*
 * kept_collected.c
 *	  Functions for 022_kept_collected.pl, which call hjoin_gpu's own: the rows that a program gets of a scan, and what is behind kept columns.
 */
#include "postgres.h"

#include <unistd.h>

#include "access/heapam.h"
#include "access/relation.h"
#include "access/transam.h"
#include "access/visibilitymap.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "storage/bufmgr.h"
#include "storage/lwlock.h"
#include "tcop/tcopprot.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "kept/hjg_kept.h"
#include "scan/hjg_scan.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(collected_rows);
PG_FUNCTION_INFO_V1(collect_and_fail);
PG_FUNCTION_INFO_V1(pages_asked);
PG_FUNCTION_INFO_V1(kept_ids);
PG_FUNCTION_INFO_V1(kept_pins);
PG_FUNCTION_INFO_V1(wrong_looks);
PG_FUNCTION_INFO_V1(late_look);
PG_FUNCTION_INFO_V1(use_number);

/* Start a query, whose plan must be a sequential scan, and collect its rows. */
static QueryDesc *
start_and_collect(const char *query, double most_live, HjgCollection *collection)
{
	RawStmt    *raw = linitial_node(RawStmt, pg_parse_query(query));
	Query	   *analyzed = linitial_node(Query, pg_analyze_and_rewrite_fixedparams(raw, query, NULL, 0, NULL));
	PlannedStmt *plan = pg_plan_query(analyzed, query, 0, NULL);
	QueryDesc  *desc = CreateQueryDesc(plan, query, GetActiveSnapshot(), InvalidSnapshot, None_Receiver, NULL, NULL, 0);
	SeqScanState *seq;
	HjgScanFilter *filter = NULL;
	const AttrNumber *filtered;
	Bitmapset  *attnos = NULL;
	const char *refusal;
	ListCell   *lc;

	ExecutorStart(desc, 0);
	seq = castNode(SeqScanState, desc->planstate);
	foreach(lc, desc->planstate->plan->targetlist)
		attnos = bms_add_member(attnos, castNode(Var, lfirst_node(TargetEntry, lc)->expr)->varattno);
	if (seq->ss.ps.qual != NULL)
	{
		filter = hjg_scan_filter_create(seq, CurrentMemoryContext);
		if (filter != NULL && hjg_scan_filter_bound(filter, &filtered) == NULL)
			elog(NOTICE, "no bound conditions");
	}
	refusal = hjg_scan_collect(seq, attnos, filter, most_live, collection);
	if (refusal != NULL)
		elog(NOTICE, "%s", refusal);
	else
		elog(NOTICE, UINT64_FORMAT " served, " UINT64_FORMAT " skipped, " UINT64_FORMAT " live", collection->counts.served,
			 collection->counts.skipped, collection->counts.live);
	return desc;
}

static void
end_query(QueryDesc *desc, HjgCollection *collection)
{
	hjg_scan_collect_end(collection);
	ExecutorFinish(desc);
	ExecutorEnd(desc);
	FreeQueryDesc(desc);
}

/* Put rows of a segment from `first` on into the result, as many as fit a vector; returns how many. */
static int
put_rows(ReturnSetInfo *rsinfo, const HjgCollection *collection, const HjgCollectedSegment *segment, uint32 first, uint32 end)
{
	const int	nrows = Min(end - first, HJG_MAX_VECTOR_ROWS);
	const int	ncolumns = collection->ncolumns;
	HjgVector  *vectors = palloc0(ncolumns * sizeof(HjgVector));
	Datum	   *values = palloc(ncolumns * sizeof(Datum));
	bool	   *isnull = palloc(ncolumns * sizeof(bool));

	for (int c = 0; c < ncolumns; c++)
	{
		Form_pg_attribute att = TupleDescAttr(rsinfo->setDesc, c);
		HjgKeptView view;

		vectors[c].column = (HjgColumn) {.attlen = att->attlen, .attbyval = att->attbyval};
		vectors[c].values = palloc(nrows * sizeof(Datum));
		vectors[c].isnull = palloc(nrows * sizeof(bool));
		hjg_scan_collected_view(segment, c, &view);
		if (!hjg_kept_check(&view))
			elog(ERROR, "a segment is damaged");
		hjg_kept_read(&view, first, NULL, nrows, &vectors[c], palloc(nrows * sizeof(HjgNumericSpace)));
	}
	for (int row = 0; row < nrows; row++)
	{
		for (int c = 0; c < ncolumns; c++)
		{
			isnull[c] = hjg_vector_isnull(&vectors[c], row);
			values[c] = isnull[c] ? (Datum) 0 : hjg_vector_datum(&vectors[c], row);
		}
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, isnull);
	}
	return nrows;
}

/* collected_rows(query, most_live): the rows, with the columns of the query and its conditions in the order of the table */
Datum
collected_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	HjgCollection collection;
	QueryDesc  *desc = start_and_collect(text_to_cstring(PG_GETARG_TEXT_PP(0)), PG_GETARG_FLOAT8(1), &collection);
	uint64		nrows = 0;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	for (int s = 0; s < collection.nsegments; s++)
	{
		const HjgCollectedSegment *segment = &collection.segments[s];

		for (int r = 0; r < segment->nruns; r++)
			for (uint32 first = segment->runs[r].first_row; first < segment->runs[r].end_row;)
			{
				const int	n = put_rows(rsinfo, &collection, segment, first, segment->runs[r].end_row);

				first += n;
				nrows += n;
			}
	}
	if (collection.nsegments > 0 && nrows != collection.nrows)
		elog(ERROR, "the number of rows is wrong");
	end_query(desc, &collection);
	return (Datum) 0;
}

/* collect_and_fail(query): an error while its segments are pinned */
Datum
collect_and_fail(PG_FUNCTION_ARGS)
{
	HjgCollection collection;

	(void) start_and_collect(text_to_cstring(PG_GETARG_TEXT_PP(0)), 1, &collection);
	elog(ERROR, "failed with %d segments", collection.nsegments);
}

/* pages_asked(query, statement): the pages that are pinned when its rows are collected once more, after the statement */
Datum
pages_asked(PG_FUNCTION_ARGS)
{
	const char *query = text_to_cstring(PG_GETARG_TEXT_PP(0));
	HjgCollection collection;
	QueryDesc  *desc;
	int64		before;

	desc = start_and_collect(query, 1, &collection);
	end_query(desc, &collection);
	SPI_connect();
	SPI_execute(text_to_cstring(PG_GETARG_TEXT_PP(1)), false, 0);
	SPI_finish();
	before = pgBufferUsage.shared_blks_hit + pgBufferUsage.shared_blks_read;
	desc = start_and_collect(query, 1, &collection);
	before -= pgBufferUsage.shared_blks_hit + pgBufferUsage.shared_blks_read;
	end_query(desc, &collection);
	PG_RETURN_INT64(-before);
}

/* kept_ids(query): the numbers of all columns that it would read; and their places are in the file, which a new descriptor can read but not write */
Datum
kept_ids(PG_FUNCTION_ARGS)
{
	HjgCollection collection;
	QueryDesc  *desc = start_and_collect(text_to_cstring(PG_GETARG_TEXT_PP(0)), 0, &collection);
	ArrayBuildState *ids = initArrayResult(INT8OID, CurrentMemoryContext, false);
	const int	fd = hjg_kept_open_readonly();

	for (int s = 0; s < collection.nsegments; s++)
		for (int c = 0; c < collection.ncolumns; c++)
		{
			HjgKeptView view;
			Size		nbytes;
			char	   *copy;

			hjg_scan_collected_view(&collection.segments[s], c, &view);
			nbytes = view.column->nbytes;
			copy = palloc(nbytes + 1);
			if (nbytes > 0 && (pread(fd, copy, nbytes, hjg_kept_offset(view.memory)) != nbytes || memcmp(copy, view.memory, nbytes) != 0 ||
							   hjg_kept_offset(view.memory) % sizeof(uint64) != 0))
				elog(ERROR, "a column is not at its place in the file");
			accumArrayResult(ids, Int64GetDatum((int64) view.column->id), false, INT8OID, CurrentMemoryContext);
		}
	if (pwrite(fd, "x", 1, 0) != -1)
		elog(ERROR, "the descriptor can write");
	close(fd);
	end_query(desc, &collection);
	PG_RETURN_DATUM(makeArrayResult(ids, CurrentMemoryContext));
}

/* kept_pins(table): the pins that others have on its segments */
Datum
kept_pins(PG_FUNCTION_ARGS)
{
	Relation	relation = relation_open(PG_GETARG_OID(0), AccessShareLock);
	const uint32 nsegments = hjg_kept_count_segments(RelationGetNumberOfBlocks(relation));
	HjgKeptHold *hold = hjg_kept_hold(relation);
	int64		npins = 0;

	for (uint32 number = 0; number < nsegments; number++)
	{
		HjgKeptSegment *segment = hjg_kept_pin(hold, number);

		if (segment == NULL)
			continue;
		npins += pg_atomic_read_u32(&segment->pins) - 1;
		hjg_kept_unpin(hold, segment);
	}
	relation_close(relation, AccessShareLock);
	PG_RETURN_INT64(npins);
}

/* wrong_looks(table): the blocks that a look and core's function do not agree about */
Datum
wrong_looks(PG_FUNCTION_ARGS)
{
	Relation	relation = relation_open(PG_GETARG_OID(0), AccessShareLock);
	const BlockNumber nblocks = RelationGetNumberOfBlocks(relation);
	HjgKeptLook look = {.context = CurrentMemoryContext};
	Buffer		map = InvalidBuffer;
	int64		nwrong = 0;

	for (uint32 number = 0; number < hjg_kept_count_segments(nblocks); number++)
	{
		const HjgKeptBlocks *blocks = hjg_kept_look(relation, number, nblocks, &look);

		for (int b = 0; b < HJG_KEPT_BLOCKS; b++)
		{
			const bool	visible = b < hjg_kept_count_blocks(number, nblocks) &&
				(visibilitymap_get_status(relation, hjg_kept_first_block(number) + b, &map) & VISIBILITYMAP_ALL_VISIBLE) != 0;

			nwrong += visible != hjg_kept_blocks_has(blocks, b);
		}
	}
	if (BufferIsValid(map))
		ReleaseBuffer(map);
	relation_close(relation, AccessShareLock);
	PG_RETURN_INT64(nwrong);
}

/* Count the blocks of the first segment that are served after this look, though their pages are not as they were kept. */
static int
count_changed(Relation relation, HjgKeptSegment *segment, const HjgKeptLook *look)
{
	HjgKeptBlocks valid;
	int			n = 0;

	(void) hjg_kept_validate(relation, segment, look, NULL, &valid);
	for (int b = 0; b < segment->nblocks; b++)
	{
		Buffer		buffer = ReadBuffer(relation, b);

		n += hjg_kept_blocks_has(&valid, b) && PageGetLSN(BufferGetPage(buffer)) != segment->lsn[b];
		ReleaseBuffer(buffer);
	}
	return n;
}

/* late_look(table, statement): a look before the statement is used after one that was made after it; counts changed blocks that are served */
Datum
late_look(PG_FUNCTION_ARGS)
{
	Relation	relation = relation_open(PG_GETARG_OID(0), AccessShareLock);
	const BlockNumber nblocks = RelationGetNumberOfBlocks(relation);
	HjgKeptSegment *segment = hjg_kept_pin(hjg_kept_hold(relation), 0);
	HjgKeptLook looks[2] = {{.context = CurrentMemoryContext}, {.context = CurrentMemoryContext}};
	int			n;

	(void) hjg_kept_look(relation, 0, nblocks, &looks[0]);
	SPI_connect();
	SPI_execute(text_to_cstring(PG_GETARG_TEXT_PP(1)), false, 0);
	SPI_finish();
	(void) hjg_kept_look(relation, 0, nblocks, &looks[1]);
	n = count_changed(relation, segment, &looks[1]) + count_changed(relation, segment, &looks[0]);
	relation_close(relation, AccessShareLock);
	PG_RETURN_INT32(looks[0].map_lsn != InvalidXLogRecPtr ? n : -1);
}

/* use_number(oid): the next object, or file, gets this number, if it is free */
Datum
use_number(PG_FUNCTION_ARGS)
{
#if PG_VERSION_NUM >= 170000
	TransamVariablesData *variables = TransamVariables;
#else
	VariableCache variables = ShmemVariableCache;
#endif

	LWLockAcquire(OidGenLock, LW_EXCLUSIVE);
	variables->nextOid = PG_GETARG_OID(0);
	variables->oidCount = 100;
	LWLockRelease(OidGenLock);
	PG_RETURN_VOID();
}
