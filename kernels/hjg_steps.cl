/*
 * hjg_steps.cl
 *	  The steps of hjg_steps.h as OpenCL C kernels, for keys of HJG_KEY_WIDTH bytes.
 *
 * Contract.  A launch covers rows [begin, end) with any number of work groups of
 * HJG_GROUP items; each group takes a contiguous share of the rows, so that what it
 * allocates lies together and its allocator block outlives tiles.  Group g uses
 * the allocator state of worker first_worker + g, so launches over one table
 * run one after the other on a device.  table, work and user are host memory that
 * the device reads and writes in place; CPU threads may work on other rows at the
 * same time.  The host checks all offsets and that the arrays have end rows.
 * Bytes a row and what is read and written stand at each step.
 *
 * Text of hjg_layout.h, hjg_hash.h and hjg_steps.h comes before this one.
 */
#define HJG_GROUP 64
#define HJG_KERNEL __kernel __attribute__((reqd_work_group_size(HJG_GROUP, 1, 1)))
#define HJG_ARGUMENTS \
	__global uchar *table, __global uchar *work, __global uchar *user, const HjgStepArgs args, uint begin, uint end

/* The group's share of the rows. */
#define HJG_SHARE(from, to) \
	const uint each = (end - begin + get_num_groups(0) - 1) / get_num_groups(0); \
	const uint from = min(begin + (uint) get_group_id(0) * each, end); \
	const uint to = min(from + each, end)

#define HJG_EACH_ROW(call) \
	HJG_SHARE(from, to); \
	for (uint i = from + get_local_id(0); i < to; i += HJG_GROUP) \
		call

HJG_KERNEL void
hjg_k_hash(HJG_ARGUMENTS)
{
	HJG_EACH_ROW(hjg_step_hash(HJG_KEY_WIDTH, work, &args, user, i));
}

HJG_KERNEL void
hjg_k_number(HJG_ARGUMENTS)
{
	HJG_EACH_ROW(hjg_step_number(HJG_KEY_WIDTH, work, &args, i));
}

HJG_KERNEL void
hjg_k_n2(HJG_ARGUMENTS)
{
	HJG_EACH_ROW(hjg_step_n2(work, &args, i));
}

HJG_KERNEL void
hjg_k_n3(HJG_ARGUMENTS)
{
	HJG_EACH_ROW(hjg_step_n3(HJG_KEY_WIDTH, work, &args, i));
}

HJG_KERNEL void
hjg_k_b2(HJG_ARGUMENTS)
{
	HJG_EACH_ROW(hjg_step_b2(table, work, &args, i));
}

HJG_KERNEL void
hjg_k_p2(HJG_ARGUMENTS)
{
	HJG_EACH_ROW(hjg_step_p2(table, work, &args, i));
}

HJG_KERNEL void
hjg_k_p3(HJG_ARGUMENTS)
{
	HJG_EACH_ROW(hjg_step_p3(HJG_KEY_WIDTH, table, work, &args, i));
}

HJG_KERNEL void
hjg_k_p4(HJG_ARGUMENTS)
{
	HJG_EACH_ROW(hjg_step_p4(HJG_KEY_WIDTH, table, work, &args, (__global HjgPair *) user, i));
}

/*
 * Room for wanted nodes of the group: the first ones from what is left of its
 * block, the others from a new one.  Item 0 alone; node number n of the request is
 * grant[0] + n below grant[1], and grant[2] + n from there on.
 */
static void
hjg_group_take(__global uint *global_next, __local uint *block, __local uint *grant, uint wanted, uint block_nodes)
{
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
	/* block_nodes is a multiple of the group's size or more */
	block[0] = atomic_add(global_next, block_nodes);
	block[1] = block[0] + block_nodes;
	grant[2] = block[0] - left;
	block[0] += wanted;
}

/* b3 of a tile at a time: search, allocate together, insert. */
HJG_KERNEL void
hjg_k_b3(HJG_ARGUMENTS)
{
	__global HjgStepAllocator *allocator = (__global HjgStepAllocator *) (table + args.allocator_off);
	__global HjgStepBlocks *blocks = (__global HjgStepBlocks *) (table + args.blocks_off) + args.first_worker + get_group_id(0);
	__local uint wanted;
	__local uint block[2];
	__local uint grant[3];
	HJG_SHARE(from, to);

	if (get_local_id(0) == 0)
	{
		block[0] = blocks->key;
		block[1] = blocks->key_end;
	}
	for (uint tile = from; tile < to; tile += HJG_GROUP)
	{
		const uint i = tile + get_local_id(0);
		uint		mine = 0;
		bool		missing = false;

		if (get_local_id(0) == 0)
			wanted = 0;
		barrier(CLK_LOCAL_MEM_FENCE);
		if (i < to)
			missing = !hjg_step_b3_find(HJG_KEY_WIDTH, table, work, &args, i);
		if (missing && args.block_nodes > 1)
			mine = atomic_inc(&wanted);
		barrier(CLK_LOCAL_MEM_FENCE);
		if (get_local_id(0) == 0 && wanted > 0)
			hjg_group_take(&allocator->next_key, block, grant, wanted, args.block_nodes);
		barrier(CLK_LOCAL_MEM_FENCE);
		if (missing)
		{
			if (args.block_nodes > 1)
				mine += mine < grant[1] ? grant[0] : grant[2];
			else
				mine = atomic_inc(&allocator->next_key);
			hjg_step_b3_insert(HJG_KEY_WIDTH, table, work, &args, i, mine);
		}
		barrier(CLK_LOCAL_MEM_FENCE);
	}
	if (get_local_id(0) == 0)
	{
		blocks->key = block[0];
		blocks->key_end = block[1];
	}
}

HJG_KERNEL void
hjg_k_b4(HJG_ARGUMENTS)
{
	__global HjgStepAllocator *allocator = (__global HjgStepAllocator *) (table + args.allocator_off);
	__global HjgStepBlocks *blocks = (__global HjgStepBlocks *) (table + args.blocks_off) + args.first_worker + get_group_id(0);
	__local uint block[2];
	__local uint grant[3];
	HJG_SHARE(from, to);

	if (get_local_id(0) == 0)
	{
		block[0] = blocks->rid;
		block[1] = blocks->rid_end;
	}
	for (uint tile = from; tile < to; tile += HJG_GROUP)
	{
		const uint n = get_local_id(0);
		const uint i = tile + n;
		uint		slot;

		if (n == 0 && args.block_nodes > 1)
			hjg_group_take(&allocator->next_rid, block, grant, min(to - tile, (uint) HJG_GROUP), args.block_nodes);
		barrier(CLK_LOCAL_MEM_FENCE);
		if (i < to)
		{
			if (args.block_nodes > 1)
				slot = n + (n < grant[1] ? grant[0] : grant[2]);
			else
				slot = atomic_inc(&allocator->next_rid);
			hjg_step_b4(HJG_KEY_WIDTH, table, work, &args, i, slot);
		}
		barrier(CLK_LOCAL_MEM_FENCE);
	}
	if (get_local_id(0) == 0)
	{
		blocks->rid = block[0];
		blocks->rid_end = block[1];
	}
}

/*
 * Does the device share memory with the host?  Word 0 is counted up by every item
 * while the host counts up too; words 1.. get their index.
 */
HJG_KERNEL void
hjg_k_share(__global uint *words, uint n)
{
	const uint i = get_global_id(0);

	atomic_inc(&words[0]);
	if (i + 1 < n)
		words[i + 1] += i;
}
