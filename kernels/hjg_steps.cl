/*
 * hjg_steps.cl
 *	  The steps of hjg_steps.h and the unpacking of hjg_unpack.h as OpenCL C kernels, for keys of
 *	  HJG_KEY_WIDTH bytes.
 *
 * Contract.  A launch covers rows [begin, end) with any number of work groups of HJG_GROUP items.  Each
 * group takes a contiguous share of the rows, so that its allocations lie together and its allocator block
 * spans tiles.  Group g uses the allocator state of worker first_worker + g, so a device executes launches
 * on one table one after another.  The device reads and writes table, work and user in place in host
 * memory; CPU threads may work on other rows at the same time.  The host checks all offsets and that the
 * arrays have end rows.
 *
 * Each step is a function of the group's number among the groups that execute it, so that two tasks can
 * share a launch: the first groups of hjg_k_merged unpack, the others execute a step (He, Zhang and He,
 * section 3.2.3, algorithm 1).
 *
 * The text of the headers precedes this file's.
 */
#define HJG_GROUP 64
#define HJG_KERNEL __kernel __attribute__((reqd_work_group_size(HJG_GROUP, 1, 1)))
#define HJG_ARGUMENTS \
	__global uchar *table, __global uchar *work, __global uchar *user, const HjgStepArgs args, uint begin, uint end

/* Local memory of a group. */
typedef struct HjgShared
{
	ulong		sums[HJG_GROUP];
	uint		block[2];
	uint		grant[3];
	uint		wanted;
	uint		good;
} HjgShared;

/* Parameters of a step executed by group number group of ngroups. */
#define HJG_STEP_PARAMETERS \
	__global uchar *table, __global uchar *work, __global uchar *user, const HjgStepArgs *args, uint begin, uint end, \
	uint group, uint ngroups, __local HjgShared *shared

/* The group's share of the rows. */
#define HJG_SHARE(from, to) \
	const uint each = (end - begin + ngroups - 1) / ngroups; \
	const uint from = min(begin + group * each, end); \
	const uint to = min(from + each, end)

#define HJG_EACH_ROW(call) \
	HJG_SHARE(from, to); \
	for (uint i = from + get_local_id(0); i < to; i += HJG_GROUP) \
		call

static void
hjg_run_hash(HJG_STEP_PARAMETERS)
{
	HJG_EACH_ROW(hjg_step_hash(HJG_KEY_WIDTH, work, args, user, i));
}

static void
hjg_run_number(HJG_STEP_PARAMETERS)
{
	HJG_EACH_ROW(hjg_step_number(HJG_KEY_WIDTH, work, args, i));
}

static void
hjg_run_n2(HJG_STEP_PARAMETERS)
{
	HJG_EACH_ROW(hjg_step_n2(work, args, i));
}

static void
hjg_run_n3(HJG_STEP_PARAMETERS)
{
	HJG_EACH_ROW(hjg_step_n3(HJG_KEY_WIDTH, work, args, i));
}

static void
hjg_run_b2(HJG_STEP_PARAMETERS)
{
	HJG_EACH_ROW(hjg_step_b2(table, work, args, i));
}

static void
hjg_run_p2(HJG_STEP_PARAMETERS)
{
	HJG_EACH_ROW(hjg_step_p2(table, work, args, i));
}

static void
hjg_run_p3(HJG_STEP_PARAMETERS)
{
	HJG_EACH_ROW(hjg_step_p3(HJG_KEY_WIDTH, table, work, args, i));
}

static void
hjg_run_p4(HJG_STEP_PARAMETERS)
{
	HJG_EACH_ROW(hjg_step_p4(HJG_KEY_WIDTH, table, work, args, (__global HjgPair *) user, i));
}

/*
 * Allocate wanted nodes for the group: the first ones from the rest of its block, the others from a new
 * block.  Only item 0 calls it.  Node n of the request is grant[0] + n if n < grant[1], else grant[2] + n.
 */
static void
hjg_group_take(__global uint *global_next, __local HjgShared *shared, uint wanted, uint block_nodes)
{
	__local uint *block = shared->block;
	__local uint *grant = shared->grant;
	const uint left = block[1] - block[0];

	grant[0] = block[0];
	grant[1] = left;
	grant[2] = 0;
	if (wanted <= left)
	{
		block[0] += wanted;
		return;
	}
	wanted -= left;
	/* block_nodes is at least the group's size */
	block[0] = atomic_add(global_next, block_nodes);
	block[1] = block[0] + block_nodes;
	grant[2] = block[0] - left;
	block[0] += wanted;
}

/* Execute b3 tile by tile: search, allocate together, create and, unless a later launch links, link. */
static void
hjg_run_b3(HJG_STEP_PARAMETERS)
{
	__global HjgStepAllocator *allocator = (__global HjgStepAllocator *) (table + args->allocator_off);
	__global HjgStepBlocks *blocks = (__global HjgStepBlocks *) (table + args->blocks_off) + args->first_worker + get_group_id(0);
	HJG_SHARE(from, to);

	if (get_local_id(0) == 0)
	{
		shared->block[0] = blocks->key;
		shared->block[1] = blocks->key_end;
	}
	for (uint tile = from; tile < to; tile += HJG_GROUP)
	{
		const uint i = tile + get_local_id(0);
		__global uint *list_end = 0;
		uint		mine = 0;
		uint		ref = 0;
		bool		missing = false;

		if (get_local_id(0) == 0)
			shared->wanted = 0;
		barrier(CLK_LOCAL_MEM_FENCE);
		if (i < to)
			missing = !hjg_step_b3_find(HJG_KEY_WIDTH, table, work, args, i, &list_end);
		if (missing && args->block_nodes > 1)
			mine = atomic_inc(&shared->wanted);
		barrier(CLK_LOCAL_MEM_FENCE);
		if (get_local_id(0) == 0 && shared->wanted > 0)
			hjg_group_take(&allocator->next_key, shared, shared->wanted, args->block_nodes);
		barrier(CLK_LOCAL_MEM_FENCE);
		if (missing)
		{
			if (args->block_nodes > 1)
				mine += mine < shared->grant[1] ? shared->grant[0] : shared->grant[2];
			else
				mine = atomic_inc(&allocator->next_key);
			ref = hjg_step_b3_create(HJG_KEY_WIDTH, table, work, args, i, mine);
		}
		if (args->links_later && i < to)
			hjg_step_words(work, args->counts_off)[i] = ref;
		else if (ref != 0)
		{
			hjg_step_publish();
			hjg_step_b3_link(HJG_KEY_WIDTH, table, work, args, i, ref, list_end);
		}
		barrier(CLK_LOCAL_MEM_FENCE);
	}
	if (get_local_id(0) == 0)
	{
		blocks->key = shared->block[0];
		blocks->key_end = shared->block[1];
	}
}

static void
hjg_run_b3_link(HJG_STEP_PARAMETERS)
{
	HJG_EACH_ROW(hjg_step_b3_link_later(HJG_KEY_WIDTH, table, work, args, i));
}

static void
hjg_run_b4(HJG_STEP_PARAMETERS)
{
	__global HjgStepAllocator *allocator = (__global HjgStepAllocator *) (table + args->allocator_off);
	__global HjgStepBlocks *blocks = (__global HjgStepBlocks *) (table + args->blocks_off) + args->first_worker + get_group_id(0);
	HJG_SHARE(from, to);

	if (get_local_id(0) == 0)
	{
		shared->block[0] = blocks->rid;
		shared->block[1] = blocks->rid_end;
	}
	for (uint tile = from; tile < to; tile += HJG_GROUP)
	{
		const uint n = get_local_id(0);
		const uint i = tile + n;
		uint		slot;

		if (n == 0 && args->block_nodes > 1)
			hjg_group_take(&allocator->next_rid, shared, min(to - tile, (uint) HJG_GROUP), args->block_nodes);
		barrier(CLK_LOCAL_MEM_FENCE);
		if (i < to)
		{
			if (args->block_nodes > 1)
				slot = n + (n < shared->grant[1] ? shared->grant[0] : shared->grant[2]);
			else
				slot = atomic_inc(&allocator->next_rid);
			hjg_step_b4(HJG_KEY_WIDTH, table, work, args, i, slot);
		}
		barrier(CLK_LOCAL_MEM_FENCE);
	}
	if (get_local_id(0) == 0)
	{
		blocks->rid = shared->block[0];
		blocks->rid_end = shared->block[1];
	}
}

/*
 * Check a column's block with all items of the group: its checksum, and that its arrays lie in it.
 * shared->good is the result for all; a bad block raises HJG_STEP_DAMAGED.
 */
static void
hjg_group_check(__global uchar *table, const HjgStepArgs *args, __global const HjgPackHeader *header, int column, uint ix,
				__global const HjgPackBlock *block, __local HjgShared *shared)
{
	const uint	lane = get_local_id(0);
	const bool	ends_well = hjg_unpack_block_ends(header, block);

	shared->sums[lane] = ends_well ? hjg_unpack_checksum(block, lane, HJG_GROUP) : 0;
	barrier(CLK_LOCAL_MEM_FENCE);
	if (lane == 0)
	{
		ulong		sum = 0;

		for (uint i = 0; i < HJG_GROUP; i++)
			sum += shared->sums[i];
		shared->good = ends_well && sum == block->checksum && hjg_unpack_block_is_sound(header, column, ix, block);
		if (!shared->good)
			hjg_step_or(&((__global HjgStepAllocator *) (table + args->allocator_off))->flags, HJG_STEP_DAMAGED);
	}
	barrier(CLK_LOCAL_MEM_FENCE);
}

/*
 * Unpack blocks [unpack_begin, unpack_end) of a packed batch whose head the host has checked: a group
 * unpacks a block at a time, an item a lane (a block has as many lanes, HJG_PACK_BLOCK_ROWS /
 * HJG_PACK_LANE_ROWS, as the group has items).  Reads the packed bytes twice, once for the checksum;
 * writes the keys.  A block that fails its check raises HJG_STEP_DAMAGED.
 */
static void
hjg_run_unpack(__global uchar *table, __global uchar *work, __global const uchar *packed, const HjgStepArgs *args,
			   uint group, uint ngroups, __local HjgShared *shared)
{
	__global const HjgPackHeader *header = (__global const HjgPackHeader *) packed;
	__global uchar *scratch = work + args->unpack_scratch_off + (ulong) group * HJG_UNPACK_SCRATCH_BYTES;
	__global uint *ends = (__global uint *) (scratch + HJG_PACK_BLOCK_ROWS * 8);
	const int	width = HJG_KEY_WIDTH == 4 ? 4 : 8;
	const uint	lane = get_local_id(0);

	for (uint ix = args->unpack_begin + group; ix < args->unpack_end; ix += ngroups)
		for (int c = 0; c < (HJG_KEY_WIDTH == 16 ? 2 : 1); c++)
		{
			__global const HjgPackPlan *plan = &header->columns[c].plan;
			__global const HjgPackBlock *block = hjg_unpack_find(header, c, ix);
			__global uchar *out = work + args->unpack_off +
				(ulong) (ix - args->unpack_first) * HJG_PACK_BLOCK_ROWS * HJG_KEY_WIDTH + 8 * c;
			const int	mapped = plan->dict || plan->scale;

			hjg_group_check(table, args, header, c, ix, block, shared);
			if (shared->good && lane * HJG_PACK_LANE_ROWS < block->values.nvalues)
				hjg_unpack_lane(width, plan->leaf, plan->delta, mapped, header, c, block, &block->values, lane,
								plan->runs ? scratch : out, plan->runs ? 1 : header->ncolumns);
			if (shared->good && plan->runs && lane * HJG_PACK_LANE_ROWS < block->nruns)
				hjg_unpack_lane(4, plan->lengths_leaf, 1, 0, header, c, block, &block->lengths, lane, (__global uchar *) ends, 1);
			barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
			if (shared->good && plan->runs && lane * HJG_PACK_LANE_ROWS < block->nrows)
				hjg_unpack_expand(width, scratch, ends, block->nruns, lane * HJG_PACK_LANE_ROWS,
								  min((lane + 1) * HJG_PACK_LANE_ROWS, block->nrows), out, header->ncolumns);
			barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
		}
}

#define HJG_ALONE(step) \
	HJG_KERNEL void \
	hjg_k_##step(HJG_ARGUMENTS) \
	{ \
		__local HjgShared shared; \
		hjg_run_##step(table, work, user, &args, begin, end, get_group_id(0), get_num_groups(0), &shared); \
	}

HJG_ALONE(hash)
HJG_ALONE(number)
HJG_ALONE(n2)
HJG_ALONE(n3)
HJG_ALONE(b2)
HJG_ALONE(b3)
HJG_ALONE(b3_link)
HJG_ALONE(b4)
HJG_ALONE(p2)
HJG_ALONE(p3)
HJG_ALONE(p4)

/* Unpack with the first args.unpack_workers groups; execute step number step (HjgStep) with the others. */
HJG_KERNEL void
hjg_k_merged(HJG_ARGUMENTS, __global const uchar *packed, uint step)
{
	__local HjgShared shared;
	const uint	group = get_group_id(0) - args.unpack_workers;
	const uint	ngroups = get_num_groups(0) - args.unpack_workers;

	if (get_group_id(0) < args.unpack_workers)
	{
		hjg_run_unpack(table, work, packed, &args, get_group_id(0), args.unpack_workers, &shared);
		return;
	}
#define HJG_MERGED(number, name) \
	case number: \
		hjg_run_##name(table, work, user, &args, begin, end, group, ngroups, &shared); \
		break
	switch (step)
	{
		HJG_MERGED(0, hash);
		HJG_MERGED(1, number);
		HJG_MERGED(2, n2);
		HJG_MERGED(3, n3);
		HJG_MERGED(4, b2);
		HJG_MERGED(5, b3);
		HJG_MERGED(6, b4);
		HJG_MERGED(7, p2);
		HJG_MERGED(8, p3);
		HJG_MERGED(9, p4);
	}
}

/*
 * Test whether the device shares memory with the host: every item increments word 0 while the host does so
 * too; item i adds i to word i + 1.
 */
HJG_KERNEL void
hjg_k_share(__global uint *words, uint n)
{
	const uint i = get_global_id(0);

	atomic_inc(&words[0]);
	if (i + 1 < n)
		words[i + 1] += i;
}
