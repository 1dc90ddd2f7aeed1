/*
 * scan_order.c
 *	  The pages of a parallel scan in the order of their buffers.
 *
 * Why. A process maps the memory that it reads, page by page of memory, and a parallel worker is a new process. Core gives each
 * process ranges of blocks. Where several processes read a table into the buffer pool, or an index did, neighbours in the pool
 * are of different ranges, and the kernel maps 64 kB at a time: each process maps nearly the whole table, which takes longer than
 * reading it. If they divide the buffers instead, each maps its own part.
 *
 * How. The processes claim ranges of buffers, and take the blocks of the table that they find there, which they know without a
 * search of the mapping table. Then they claim ranges of blocks, and take those that nobody has taken. A block is taken by the
 * one process that sets its bit, so it is read once, whatever comes and goes in the pool meanwhile: what was seen there is only
 * the likely place of a block that is pinned later like any other.
 *
 * Which. Decided by a sample of the pool: most of the table is there, and its pages do not lie in the order of blocks.
 *
 * Where. The order is in the query's DSA area, and all processes find it in core's descriptor of the parallel scan: its counter of
 * blocks is far behind the end, where core's functions would find no block, and its lower bits are the place of the order. The
 * descriptor's first block, which core does not need then, counts the processes that use the order; the last one frees it at the
 * end. The descriptor's lock protects both. A scan that ended early leaves the order to the end of the query's area, and its next
 * execution goes by blocks.
 */
#include "postgres.h"

#include "access/tableam.h"
#include "miscadmin.h"
#include "storage/buf_internals.h"
#include "utils/memutils.h"

#include "base/hjg_compat.h"
#include "scan/hjg_scan_order.h"

/* Tables of fewer pages, or of a smaller part of the pool, are read by blocks: there is little to be gained. */
#define LEAST_PAGES 4096
#define LEAST_PART 32

/* The sample: runs of neighbouring buffers, at equal distances, of which the smallest table has about sixteen where it lies together. */
#define SAMPLE_RUNS (16 * LEAST_PART)
#define RUN_BUFFERS 8

/* Blocks so close to each other are read by one process anyway. */
#define NEAR_BLOCKS 32

/* Buffers in memory that the system maps at a time, and blocks of a table whose neighbours there tell how it was read. */
#define MAPPED_BUFFERS (64 * 1024 / BLCKSZ)
#define LOOKED_UP 8

/* Buffers, or blocks, that are claimed at a time: at least, and at most. */
#define LEAST_RANGE 64
#define MOST_RANGE 512

/* Mark core's counter of blocks: there is an order. The other bits are its place; 0: it has ended. */
#define IN_ORDER (UINT64CONST(1) << 62)

typedef struct SharedOrder
{
	uint32		nblocks;		/* of the scan */
	uint32		range;
	pg_atomic_uint32 next_buffers;	/* ranges that were claimed of buffers, */
	pg_atomic_uint32 next_blocks;	/* and of blocks */
	pg_atomic_uint32 taken[FLEXIBLE_ARRAY_MEMBER];	/* a bit for each block */
} SharedOrder;

struct HjgPageOrder
{
	ParallelBlockTableScanDesc parallel;
	Relation	relation;
	dsa_area   *area;
	dsa_pointer place;
	SharedOrder *shared;		/* NULL: at the end */
	int			n;				/* blocks that this process has taken for itself */
	int			next;
	BlockNumber blocks[MOST_RANGE];
	Buffer		buffers[MOST_RANGE];	/* their likely places; InvalidBuffer: unknown */
};

/* ---------- choosing ---------- */

/* Get the block of a relation that a buffer seems to hold, or InvalidBlockNumber. Read without a lock. */
static BlockNumber
block_in_buffer(int buffer_ix, Relation relation)
{
	const BufferTag *tag = &GetBufferDescriptor(buffer_ix)->tag;

	return HJG_TAG_IS_OF(tag, relation) ? tag->blockNum : InvalidBlockNumber;
}

/* Is the table of a size that is read by buffers? */
static bool
is_of_size(BlockNumber nblocks)
{
	return nblocks >= LEAST_PAGES && nblocks >= NBuffers / LEAST_PART && nblocks <= NBuffers && NBuffers / SAMPLE_RUNS >= RUN_BUFFERS;
}

/* Does a sample of the pool show most of the table there, in another order than that of its blocks? */
static bool
is_worthwhile(Relation relation, BlockNumber nblocks)
{
	const int	distance = NBuffers / SAMPLE_RUNS;
	int			nfound = 0;
	int			npairs = 0;
	int			nnear = 0;

	if (RelationUsesLocalBuffers(relation) || !is_of_size(nblocks))
		return false;
	for (int run = 0; run < SAMPLE_RUNS; run++)
	{
		BlockNumber before = InvalidBlockNumber;

		for (int i = 0; i < RUN_BUFFERS; i++)
		{
			BlockNumber block = block_in_buffer(run * distance + i, relation);

			if (!BlockNumberIsValid(block))
				continue;
			nfound++;
			if (BlockNumberIsValid(before))
			{
				npairs++;
				nnear += Max(block, before) - Min(block, before) <= NEAR_BLOCKS;
			}
			before = block;
		}
	}
	return (double) nfound / (SAMPLE_RUNS * RUN_BUFFERS) * NBuffers >= 0.75 * nblocks && nnear < npairs / 2;
}

/* Count the ranges of blocks in the piece of memory around a buffer. */
static int
count_ranges(Relation relation, int buffer_ix)
{
	const int	first = buffer_ix - buffer_ix % MAPPED_BUFFERS;
	BlockNumber ranges[MAPPED_BUFFERS];
	int			nranges = 0;

	for (int i = first; i < Min(first + MAPPED_BUFFERS, NBuffers); i++)
	{
		const BlockNumber block = block_in_buffer(i, relation);
		int			range = 0;

		if (!BlockNumberIsValid(block))
			continue;
		while (range < nranges && Max(block, ranges[range]) - Min(block, ranges[range]) > NEAR_BLOCKS)
			range++;
		ranges[range] = block;
		nranges = Max(nranges, range + 1);
	}
	return nranges;
}

double
hjg_scan_nranges(Relation relation, BlockNumber nblocks)
{
	int			nfound = 0;
	int			nranges = 0;

	if (RelationUsesLocalBuffers(relation) || nblocks < LOOKED_UP)
		return 1;
	for (int i = 0; i < LOOKED_UP; i++)
	{
		BufferTag	tag;
		LWLock	   *lock;
		uint32		hash;
		int			buffer_ix;

		HJG_INIT_TAG(&tag, relation, (BlockNumber) ((i + 0.5) * nblocks / LOOKED_UP));
		hash = BufTableHashCode(&tag);
		lock = BufMappingPartitionLock(hash);
		LWLockAcquire(lock, LW_SHARED);
		buffer_ix = BufTableLookup(&tag, hash);
		LWLockRelease(lock);
		if (buffer_ix < 0)
			continue;
		nfound++;
		nranges += count_ranges(relation, buffer_ix);
	}
	/* by the rule of is_worthwhile(), about */
	if (nfound < LOOKED_UP / 2 || (nranges > nfound * MAPPED_BUFFERS / 2 && is_of_size(nblocks)))
		return 1;
	return Max((double) nranges / nfound, 1);
}

static Size
order_bytes(BlockNumber nblocks)
{
	return offsetof(SharedOrder, taken) + (nblocks / 32 + 1) * sizeof(pg_atomic_uint32);
}

/* Make an order; InvalidDsaPointer if there is no memory. */
static dsa_pointer
make_order(dsa_area *area, BlockNumber nblocks)
{
	dsa_pointer place = dsa_allocate_extended(area, order_bytes(nblocks), DSA_ALLOC_NO_OOM | DSA_ALLOC_ZERO);

	if (DsaPointerIsValid(place))
	{
		SharedOrder *shared = dsa_get_address(area, place);

		shared->nblocks = nblocks;
		shared->range = Max(LEAST_RANGE, Min(MOST_RANGE, nblocks / 1024));
	}
	return place;
}

/*
 * Find what the processes have chosen; if none has chosen yet, choose this order, if there is one. Returns 0 if they go by blocks,
 * or IN_ORDER with the place of the order, among whose users this process is counted then.
 */
static uint64
agree_on_order(ParallelBlockTableScanDesc parallel, dsa_pointer offered)
{
	uint64		chosen;

	SpinLockAcquire(&parallel->phs_mutex);
	chosen = pg_atomic_read_u64(&parallel->phs_nallocated);
	if (chosen == 0 && !BlockNumberIsValid(parallel->phs_startblock) && DsaPointerIsValid(offered))
	{
		chosen = IN_ORDER | offered;
		pg_atomic_write_u64(&parallel->phs_nallocated, chosen);
		parallel->phs_startblock = 0;	/* users */
	}
	if (chosen > IN_ORDER)
		parallel->phs_startblock++;
	SpinLockRelease(&parallel->phs_mutex);
	return chosen >= IN_ORDER ? chosen : 0;
}

/* The order has no more blocks for this process: free it if it was the last one. */
static void
leave_order(HjgPageOrder *order)
{
	ParallelBlockTableScanDesc parallel = order->parallel;
	bool		last;

	SpinLockAcquire(&parallel->phs_mutex);
	last = --parallel->phs_startblock == 0;
	if (last)
	{
		pg_atomic_write_u64(&parallel->phs_nallocated, IN_ORDER);
		parallel->phs_startblock = InvalidBlockNumber;
	}
	SpinLockRelease(&parallel->phs_mutex);
	if (last)
		dsa_free(order->area, order->place);
	order->shared = NULL;
}

HjgPageOrder *
hjg_page_order_join(HeapScanDesc scan, dsa_area *area)
{
	ParallelBlockTableScanDesc parallel = (ParallelBlockTableScanDesc) scan->rs_base.rs_parallel;
	dsa_pointer offered = InvalidDsaPointer;
	HjgPageOrder *order;
	uint64		chosen;

	if (parallel == NULL || area == NULL)
		return NULL;
	chosen = agree_on_order(parallel, InvalidDsaPointer);
	if (chosen == 0 && !BlockNumberIsValid(parallel->phs_startblock) && is_worthwhile(scan->rs_base.rs_rd, parallel->phs_nblocks))
	{
		offered = make_order(area, parallel->phs_nblocks);
		chosen = agree_on_order(parallel, offered);
	}
	if (chosen == 0)
	{
		/* core's order is chosen by its first block; but another process may have been faster */
		table_block_parallelscan_startblock_init(scan->rs_base.rs_rd, scan->rs_parallelworkerdata, parallel);
		chosen = agree_on_order(parallel, InvalidDsaPointer);
	}
	if (DsaPointerIsValid(offered) && chosen != (IN_ORDER | offered))
		dsa_free(area, offered);
	if (chosen == 0)
		return NULL;

	order = MemoryContextAlloc(GetMemoryChunkContext(scan), sizeof(HjgPageOrder));
	order->parallel = parallel;
	order->relation = scan->rs_base.rs_rd;
	order->area = area;
	order->place = chosen & ~IN_ORDER;
	order->shared = DsaPointerIsValid(order->place) ? dsa_get_address(area, order->place) : NULL;
	order->n = order->next = 0;
	return order;
}

/* ---------- reading ---------- */

/* Take a block, if nobody has it. */
static inline bool
claim_block(SharedOrder *shared, BlockNumber block)
{
	const uint32 bit = (uint32) 1 << block % 32;

	return (pg_atomic_fetch_or_u32(&shared->taken[block / 32], bit) & bit) == 0;
}

static inline void
add_block(HjgPageOrder *order, BlockNumber block, Buffer buffer)
{
	if (block >= order->shared->nblocks || !claim_block(order->shared, block))
		return;
	order->blocks[order->n] = block;
	order->buffers[order->n++] = buffer;
}

/* Claim a range; false if there are no more. */
static bool
claim_range(pg_atomic_uint32 *next, uint32 range, uint32 end, uint32 *from, uint32 *to)
{
	const uint64 first = (uint64) pg_atomic_fetch_add_u32(next, 1) * range;

	if (first >= end)
		return false;
	*from = (uint32) first;
	*to = (uint32) Min(first + range, end);
	return true;
}

/* Take the next blocks for this process; at the end there are none. */
static void
take_blocks(HjgPageOrder *order)
{
	SharedOrder *shared = order->shared;
	uint32		from;
	uint32		to;

	order->n = order->next = 0;
	while (order->n == 0 && claim_range(&shared->next_buffers, shared->range, NBuffers, &from, &to))
	{
		CHECK_FOR_INTERRUPTS();
		for (uint32 i = from; i < to; i++)
			add_block(order, block_in_buffer(i, order->relation), i + 1);
	}
	while (order->n == 0 && claim_range(&shared->next_blocks, shared->range, shared->nblocks, &from, &to))
	{
		CHECK_FOR_INTERRUPTS();
		for (BlockNumber block = from; block < to; block++)
			add_block(order, block, InvalidBuffer);
	}
	if (order->n == 0)
		leave_order(order);
}

bool
hjg_page_order_peek(HjgPageOrder *order, BlockNumber *block, Buffer *buffer)
{
	if (order->next == order->n && order->shared != NULL)
		take_blocks(order);
	if (order->next == order->n)
		return false;
	*block = order->blocks[order->next];
	*buffer = order->buffers[order->next];
	return true;
}

void
hjg_page_order_take(HjgPageOrder *order)
{
	Assert(order->next < order->n);
	order->next++;
}
