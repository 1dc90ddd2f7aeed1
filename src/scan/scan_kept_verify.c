/*
 * scan_kept_verify.c
 *	  Compares kept blocks that are about to be served with the table's pages (hjoin_gpu.verify).
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/rel.h"

#include "scan/hjg_scan_heap.h"
#include "scan/hjg_scan_kept.h"
#include "vector/hjg_vector_pg.h"

struct HjgKeptVerifier
{
	Relation	relation;
	int			nwishes;
	const HjgKeptWish *wishes;
	MemoryContext work;			/* values that core's code makes of a block's */
	HjgHeapReader *readers[2];	/* of kept columns, and of pages; */
	HjgVector  *vectors[2];		/* [nwishes]: what they have read */
	OffsetNumber page_rows[MaxHeapTuplesPerPage];
};

HjgKeptVerifier *
hjg_scan_kept_verifier_create(Relation relation, int nwishes, const HjgKeptWish *wishes)
{
	HjgKeptVerifier *verifier = palloc0(sizeof(HjgKeptVerifier));
	AttrNumber	attnos[HJG_KEPT_MAX_COLUMNS];

	verifier->relation = relation;
	verifier->nwishes = nwishes;
	verifier->wishes = wishes;
	verifier->work = AllocSetContextCreate(CurrentMemoryContext, "hjoin_gpu compared values", ALLOCSET_DEFAULT_SIZES);
	for (int c = 0; c < nwishes; c++)
		attnos[c] = wishes[c].attno;
	for (int i = 0; i < 2; i++)
	{
		verifier->vectors[i] = palloc(nwishes * sizeof(HjgVector));
		verifier->readers[i] = hjg_scan_heap_reader_create(RelationGetDescr(relation), nwishes, attnos, MaxHeapTuplesPerPage, verifier->vectors[i]);
	}
	return verifier;
}

static bool
is_same_value(const HjgKeptWish *wish, Datum kept, Datum live)
{
	if (datum_image_eq(kept, live, wish->attbyval, wish->attlen))
		return true;
	/* numerics of servers before 9.1 have another form, and the same digits */
	return wish->numeric && strcmp(DatumGetCString(DirectFunctionCall1(numeric_out, kept)), DatumGetCString(DirectFunctionCall1(numeric_out, live))) == 0;
}

static bool
are_same_values(const HjgKeptVerifier *verifier, int nrows)
{
	for (int c = 0; c < verifier->nwishes; c++)
	{
		const HjgVector *kept = &verifier->vectors[0][c];
		const HjgVector *live = &verifier->vectors[1][c];

		for (int row = 0; row < nrows; row++)
			if (hjg_vector_isnull(kept, row) != hjg_vector_isnull(live, row) ||
				(!hjg_vector_isnull(kept, row) &&
				 !is_same_value(&verifier->wishes[c], hjg_vector_datum(kept, row), hjg_vector_datum(live, row))))
				return false;
	}
	return true;
}

bool
hjg_scan_kept_verify(HjgKeptVerifier *verifier, const HjgKeptSegment *segment, int block, const HjgKeptView *views, BufferAccessStrategy strategy)
{
	const BlockNumber number = hjg_kept_block(segment, block);
	const int	nkept = (int) (segment->first_row[block + 1] - segment->first_row[block]);
	Buffer		buffer = ReadBufferExtended(verifier->relation, MAIN_FORKNUM, number, RBM_NORMAL, strategy);
	HjgHeapPage page = {.page = BufferGetPage(buffer), .buffer = buffer, .block = number, .rows = verifier->page_rows};
	const TransactionId horizon = GetOldestNonRemovableTransactionId(verifier->relation);
	XLogRecPtr	lsn;
	bool		unchanged;
	bool		same = true;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page.nrows = hjg_kept_collect_rows(verifier->relation, buffer, true, horizon, verifier->page_rows, &lsn);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	unchanged = page.nrows >= 0 && lsn == segment->lsn[block];
	if (unchanged)
		same = page.nrows == nkept;
	if (unchanged && same && nkept > 0)
	{
		const HjgHeapPage kept = {.nrows = nkept, .kept = views, .kept_first = segment->first_row[block]};
		MemoryContext caller = MemoryContextSwitchTo(verifier->work);

		hjg_scan_heap_read(verifier->readers[0], &kept, 0);
		hjg_scan_heap_read(verifier->readers[1], &page, 0);
		same = are_same_values(verifier, nkept);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(verifier->work);
	}
	ReleaseBuffer(buffer);
	return same;
}
