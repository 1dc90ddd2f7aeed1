/*
 * hjg_steps.h
 *	  The steps of the coupled engine's joins, one row at a time: the common subset of C99 and OpenCL C.
 *
 * Steps b1-b4, p1-p4 and n1-n3 of He, Lu and He, "Revisiting Co-Processing for Hash Joins on the Coupled
 * CPU-GPU Architecture", section 3.1.  They are compiled twice: into loops of CPU threads
 * (src/coupled/coupled_steps.c) and into the kernels of an OpenCL device (hjg_steps.cl).  Both may execute
 * a step on different rows at the same time, in the same memory.
 *
 * Memory.  Two regions, addressed by offsets (HjgStepArgs) from their starts, since host and device may
 * map them at different addresses:
 *		table	bucket headers, key nodes, rid nodes, allocator; lives as long as the join
 *		work	an array for each attribute of the current rows: mixed key, row number, bucket
 *				or partition number, node, count, offset
 * The caller owns a third region: keys, or a page of result pairs.
 *
 * Hash table.  A bucket header contains the bucket's number of tuples and the head of its key list; a key
 * list has a node for each distinct key; a key node contains the head and the length of its rid list; a
 * rid node contains a build row number.  References are index + 1, 0 ends a list, so no key value is
 * reserved.  Keys are stored mixed (hjg_hash.h): a bijection, so equal mixes are equal keys.
 *
 * Atomics.  Words that several workers change are changed only by 32-bit atomics.  Key lists grow at their
 * ends: a reference changes once, from 0 to its final value, by a compare-and-swap; a worker that reads an
 * old value reads 0, tries to swap and obtains the new value.  A key node is complete before it is linked.
 * Between processors with shared memory a fence guarantees that.  OpenCL 1.2 promises no order between
 * work groups of a launch (and a group's cache may have a line from before another group's write), so on a
 * device with its own memory a later launch links the nodes that a launch created, and no group waits for
 * another.
 */
#ifndef HJG_STEPS_H
#define HJG_STEPS_H

#include "kernels/hjg_dialect.h"
#include "layout/hjg_hash.h"
#include "layout/hjg_layout.h"

/*
 * A longer key list means that the keys were chosen to collide: the engine gives the join to the cpu
 * engine, whose buckets do not degrade.
 */
#define HJG_STEP_MAX_LIST 256

/* HjgStepAllocator.flags. */
#define HJG_STEP_LONG_LIST 1u
#define HJG_STEP_NO_ROOM 2u
#define HJG_STEP_DAMAGED 4u		/* a packed block failed its check */

typedef struct HjgStepHeader
{
	hjg_u32		ntuples;
	hjg_u32		keys;			/* reference to the first key node */
} HjgStepHeader;

/* A key node; a key of 8 or 16 bytes follows it, a key of 4 bytes is in key4. */
typedef struct HjgStepKeyNode
{
	hjg_u32		next;			/* reference */
	hjg_u32		rids;			/* reference to the first rid node */
	hjg_u32		nrids;
	hjg_u32		key4;
} HjgStepKeyNode;

typedef struct HjgStepRidNode
{
	hjg_u32		next;			/* reference */
	hjg_u32		row;
} HjgStepRidNode;

/*
 * The allocator of nodes in the preallocated arrays: a global pointer for each array hands out blocks of
 * block_nodes, and a worker's local pointer the nodes of its block (section 3.3).  block_nodes <= 1: the
 * global pointer hands out every node.
 */
typedef struct HjgStepAllocator
{
	hjg_u32		next_key;		/* global pointers: number of nodes handed out */
	hjg_u32		next_rid;
	hjg_u32		flags;
	hjg_u32		pad;
} HjgStepAllocator;

/* The rest of a worker's blocks; a worker is a CPU thread or a work group. */
typedef struct HjgStepBlocks
{
	hjg_u32		key;
	hjg_u32		key_end;
	hjg_u32		rid;
	hjg_u32		rid_end;
} HjgStepBlocks;

/*
 * One struct, because a launch takes it as one argument; each step reads only its part.  All offsets are
 * in bytes.
 */
typedef struct HjgStepArgs
{
	HjgHashSeed seed;
	/* in table */
	hjg_u64		allocator_off;
	hjg_u64		blocks_off;		/* HjgStepBlocks, one a worker */
	hjg_u64		headers_off[2]; /* both equal if the table is shared */
	hjg_u64		key_nodes_off;
	hjg_u64		rid_nodes_off;
	/* in work */
	hjg_u64		mixed_off;
	hjg_u64		rows_off;
	hjg_u64		buckets_off;
	hjg_u64		nodes_off;		/* n2: position in the partition; p2: list; b3, p3: key node */
	hjg_u64		counts_off;		/* b3: node to be linked later; p2: tuples of the bucket; p3: pairs */
	hjg_u64		offsets_off;	/* p4: index of the first pair */
	hjg_u64		order_off;		/* p3, p4: order of the rows; 0: as they are */
	hjg_u64		parts_off;		/* n2, n3: partition headers of each stripe */
	hjg_u64		dst_mixed_off;	/* n3 */
	hjg_u64		dst_rows_off;
	hjg_u64		unpack_off;		/* destination of the keys of block unpack_first */
	hjg_u64		unpack_scratch_off; /* HJG_UNPACK_SCRATCH_BYTES for each unpacking worker */
	/* in the caller's memory */
	hjg_u64		keys_off;		/* HASH: the first key */
	/* numbers */
	hjg_u32		bits;			/* of bucket or partition numbers */
	hjg_u32		skip_bits;		/* leading bits of mixed keys to skip: all current rows share them */
	hjg_u32		first_index;	/* b1, p1, n1: index of the first key in the arrays */
	hjg_u32		first_row;		/* row number of the first key */
	hjg_u32		split_row;		/* rows from this one on use the second table */
	hjg_u32		mode;			/* HjgMatchMode */
	hjg_u32		block_nodes;
	hjg_u32		max_keys;		/* number of nodes */
	hjg_u32		max_rids;
	hjg_u32		first_worker;
	hjg_u32		page_first;		/* p4: index of the page's first pair */
	hjg_u32		page_pairs;
	hjg_u32		stripe_row;		/* n2, n3: rows of the series before the first row */
	/*
	 * blocks that the first unpack_workers of the launch unpack meanwhile: device fission by merged
	 * kernels
	 */
	hjg_u32		unpack_first;
	hjg_u32		unpack_begin;
	hjg_u32		unpack_end;
	hjg_u32		unpack_workers;
	hjg_u32		links_later;	/* b3 notes its new nodes in counts, and a later launch links them */
} HjgStepArgs;

/*
 * The rows of a stripe are contiguous, so that threads seldom share a counter.  With fewer partitions
 * there are more stripes.
 */
#define HJG_STEP_STRIPE_SHIFT 12

HJG_STEP_FN hjg_u32
hjg_step_stripes(hjg_u32 bits)
{
	return bits <= 8 ? 32 : 8;
}

/* Count the counters of a stripe: they are contiguous and share no 128-byte line with other stripes. */
HJG_STEP_FN hjg_u32
hjg_step_stripe_counters(hjg_u32 bits)
{
	return bits < 5 ? 32 : (hjg_u32) 1 << bits;
}

/* Count the counters of all stripes. */
HJG_STEP_FN hjg_u32
hjg_step_part_counters(hjg_u32 bits)
{
	return hjg_step_stripes(bits) * hjg_step_stripe_counters(bits);
}

HJG_STEP_FN hjg_u32
hjg_step_part_index(hjg_u32 bits, hjg_u32 partition, hjg_u32 row)
{
	return ((row >> HJG_STEP_STRIPE_SHIFT) & (hjg_step_stripes(bits) - 1)) * hjg_step_stripe_counters(bits) + partition;
}

#define hjg_step_words(base, off) ((HJG_GLOBAL hjg_u32 *) ((base) + (off)))

HJG_STEP_FN hjg_u32
hjg_step_key_node_bytes(int width)
{
	return width == 4 ? 16 : width == 8 ? 24 : 32;
}

HJG_STEP_FN HJG_GLOBAL HjgStepKeyNode *
hjg_step_key_node(int width, HJG_GLOBAL hjg_u8 *table, const HjgStepArgs *args, hjg_u32 ref)
{
	return (HJG_GLOBAL HjgStepKeyNode *)
		(table + args->key_nodes_off + (hjg_u64) (ref - 1) * hjg_step_key_node_bytes(width));
}

HJG_STEP_FN HJG_GLOBAL HjgStepHeader *
hjg_step_header(HJG_GLOBAL hjg_u8 *table, const HjgStepArgs *args, hjg_u32 bucket, hjg_u32 row)
{
	return (HJG_GLOBAL HjgStepHeader *) (table + args->headers_off[row >= args->split_row]) + bucket;
}

/* Compute the bucket or partition number of a mixed key, from some of its first 1 to 31 bits. */
HJG_STEP_FN hjg_u32
hjg_step_number_of(int width, const HjgStepArgs *args, hjg_u64 high)
{
	const hjg_u32 bits = args->skip_bits + args->bits;

	return (width == 4 ? (hjg_u32) high >> (32 - bits) : (hjg_u32) (high >> (64 - bits))) & ((1u << args->bits) - 1);
}

HJG_STEP_FN hjg_u64
hjg_step_high(int width, HJG_GLOBAL const hjg_u8 *mixed, hjg_u32 i)
{
	if (width == 4)
		return ((HJG_GLOBAL const hjg_u32 *) mixed)[i];
	return ((HJG_GLOBAL const hjg_u64 *) mixed)[width == 8 ? i : 2 * (hjg_u64) i];
}

HJG_STEP_FN hjg_u64
hjg_step_low(HJG_GLOBAL const hjg_u8 *mixed, hjg_u32 i)
{
	return ((HJG_GLOBAL const hjg_u64 *) mixed)[2 * (hjg_u64) i + 1];
}

/*
 * Store the results of b1, p1 and n1 for a row: mixed key (low: of 16 bytes), row number, bucket or
 * partition number.
 */
HJG_STEP_FN void
hjg_step_put(int width, HJG_GLOBAL hjg_u8 *work, const HjgStepArgs *args, hjg_u32 at, hjg_u32 row, hjg_u64 high, hjg_u64 low)
{
	HJG_GLOBAL hjg_u8 *mixed = work + args->mixed_off;

	if (width == 4)
		((HJG_GLOBAL hjg_u32 *) mixed)[at] = (hjg_u32) high;
	else if (width == 8)
		((HJG_GLOBAL hjg_u64 *) mixed)[at] = high;
	else
	{
		((HJG_GLOBAL hjg_u64 *) mixed)[2 * (hjg_u64) at] = high;
		((HJG_GLOBAL hjg_u64 *) mixed)[2 * (hjg_u64) at + 1] = low;
	}
	hjg_step_words(work, args->rows_off)[at] = row;
	hjg_step_words(work, args->buckets_off)[at] = hjg_step_number_of(width, args, high);
}

/* b1, p1, n1: hash the caller's key i, counted from the first key; reads and writes 2 * width + 8 bytes. */
HJG_STEP_FN void
hjg_step_hash(int width, HJG_GLOBAL hjg_u8 *work, const HjgStepArgs *args, HJG_GLOBAL const hjg_u8 *keys,
			  hjg_u32 i)
{
	hjg_u64		high;
	hjg_u64		low = 0;

	keys += args->keys_off;
	if (width == 4)
		high = hjg_mix32(args->seed, ((HJG_GLOBAL const hjg_u32 *) keys)[i]);
	else if (width == 8)
		high = hjg_mix64(args->seed, ((HJG_GLOBAL const hjg_u64 *) keys)[i]);
	else
	{
		low = ((HJG_GLOBAL const hjg_u64 *) keys)[2 * (hjg_u64) i + 1];
		high = hjg_mix128(args->seed, ((HJG_GLOBAL const hjg_u64 *) keys)[2 * (hjg_u64) i], low);
	}
	hjg_step_put(width, work, args, args->first_index + i, args->first_row + i, high, low);
}

/* b1, p1, n1 on partitioned rows: compute only the number. */
HJG_STEP_FN void
hjg_step_number(int width, HJG_GLOBAL hjg_u8 *work, const HjgStepArgs *args, hjg_u32 i)
{
	hjg_step_words(work, args->buckets_off)[i] =
		hjg_step_number_of(width, args, hjg_step_high(width, work + args->mixed_off, i));
}

/* n2: visit the partition header; note the row's position in its partition and stripe. */
HJG_STEP_FN void
hjg_step_n2(HJG_GLOBAL hjg_u8 *work, const HjgStepArgs *args, hjg_u32 i)
{
	const hjg_u32 partition = hjg_step_words(work, args->buckets_off)[i];

	hjg_step_words(work, args->nodes_off)[i] =
		hjg_step_add(hjg_step_words(work, args->parts_off) +
					 hjg_step_part_index(args->bits, partition, args->stripe_row + i), 1u);
}

/* n3: insert <key, rid> into the partition; the headers now contain starts. */
HJG_STEP_FN void
hjg_step_n3(int width, HJG_GLOBAL hjg_u8 *work, const HjgStepArgs *args, hjg_u32 i)
{
	const hjg_u32 partition = hjg_step_words(work, args->buckets_off)[i];
	const hjg_u32 to = hjg_step_words(work, args->parts_off)[hjg_step_part_index(args->bits, partition, args->stripe_row + i)] +
		hjg_step_words(work, args->nodes_off)[i];
	HJG_GLOBAL const hjg_u8 *mixed = work + args->mixed_off;
	HJG_GLOBAL hjg_u8 *dst = work + args->dst_mixed_off;

	if (width == 4)
		((HJG_GLOBAL hjg_u32 *) dst)[to] = ((HJG_GLOBAL const hjg_u32 *) mixed)[i];
	else if (width == 8)
		((HJG_GLOBAL hjg_u64 *) dst)[to] = ((HJG_GLOBAL const hjg_u64 *) mixed)[i];
	else
	{
		((HJG_GLOBAL hjg_u64 *) dst)[2 * (hjg_u64) to] = hjg_step_high(16, mixed, i);
		((HJG_GLOBAL hjg_u64 *) dst)[2 * (hjg_u64) to + 1] = hjg_step_low(mixed, i);
	}
	hjg_step_words(work, args->dst_rows_off)[to] = hjg_step_words(work, args->rows_off)[i];
}

/* b2: visit the bucket header. */
HJG_STEP_FN void
hjg_step_b2(HJG_GLOBAL hjg_u8 *table, HJG_GLOBAL hjg_u8 *work, const HjgStepArgs *args, hjg_u32 i)
{
	hjg_step_add(&hjg_step_header(table, args, hjg_step_words(work, args->buckets_off)[i], i)->ntuples, 1u);
}

HJG_STEP_FN int
hjg_step_node_has(int width, HJG_GLOBAL const HjgStepKeyNode *node, hjg_u64 high, hjg_u64 low)
{
	if (width == 4)
		return hjg_step_load(&node->key4) == (hjg_u32) high;
	return hjg_step_load64((HJG_GLOBAL const hjg_u64 *) (node + 1)) == high &&
		(width == 8 || hjg_step_load64((HJG_GLOBAL const hjg_u64 *) (node + 1) + 1) == low);
}

HJG_STEP_FN void
hjg_step_raise(HJG_GLOBAL hjg_u8 *table, const HjgStepArgs *args, hjg_u32 flag)
{
	hjg_step_or(&((HJG_GLOBAL HjgStepAllocator *) (table + args->allocator_off))->flags, flag);
}

/*
 * b3, first part: visit the key list.  True if the key has a node, which is noted, or the list is too
 * long; otherwise *end is the reference at the list's end.
 */
HJG_STEP_FN int
hjg_step_b3_find(int width, HJG_GLOBAL hjg_u8 *table, HJG_GLOBAL hjg_u8 *work, const HjgStepArgs *args, hjg_u32 i,
				 HJG_GLOBAL hjg_u32 **end)
{
	HJG_GLOBAL const hjg_u8 *mixed = work + args->mixed_off;
	const hjg_u64 high = hjg_step_high(width, mixed, i);
	const hjg_u64 low = width == 16 ? hjg_step_low(mixed, i) : 0;
	HJG_GLOBAL hjg_u32 *at = &hjg_step_header(table, args, hjg_step_words(work, args->buckets_off)[i], i)->keys;
	hjg_u32		ref;
	hjg_u32		length = 0;

	while ((ref = hjg_step_load(at)) != 0 && length++ <= HJG_STEP_MAX_LIST)
	{
		HJG_GLOBAL HjgStepKeyNode *node = hjg_step_key_node(width, table, args, ref);

		if (hjg_step_node_has(width, node, high, low))
		{
			hjg_step_words(work, args->nodes_off)[i] = ref;
			return 1;
		}
		at = &node->next;
	}
	*end = at;
	hjg_step_words(work, args->nodes_off)[i] = 0;
	if (ref != 0)
		hjg_step_raise(table, args, HJG_STEP_LONG_LIST);
	return ref != 0;
}

/* b3, second part: create the row's key node in slot; returns its reference, 0 without room. */
HJG_STEP_FN hjg_u32
hjg_step_b3_create(int width, HJG_GLOBAL hjg_u8 *table, HJG_GLOBAL hjg_u8 *work, const HjgStepArgs *args,
				   hjg_u32 i, hjg_u32 slot)
{
	HJG_GLOBAL const hjg_u8 *mixed = work + args->mixed_off;
	HJG_GLOBAL HjgStepKeyNode *node;

	if (slot >= args->max_keys)
	{
		hjg_step_raise(table, args, HJG_STEP_NO_ROOM);
		return 0;
	}
	node = hjg_step_key_node(width, table, args, slot + 1);
	node->next = 0;
	node->rids = 0;
	node->nrids = 0;
	node->key4 = (hjg_u32) hjg_step_high(width, mixed, i);
	if (width != 4)
		((HJG_GLOBAL hjg_u64 *) (node + 1))[0] = hjg_step_high(width, mixed, i);
	if (width == 16)
		((HJG_GLOBAL hjg_u64 *) (node + 1))[1] = hjg_step_low(mixed, i);
	return slot + 1;
}

/*
 * b3, third part: link the row's new node at the end of the key list, starting at its head or a later
 * reference.  If another worker has linked a node of the same key since, the row uses that node and its
 * own is lost; a row loses at most one.
 */
HJG_STEP_FN void
hjg_step_b3_link(int width, HJG_GLOBAL hjg_u8 *table, HJG_GLOBAL hjg_u8 *work, const HjgStepArgs *args,
				 hjg_u32 i, hjg_u32 mine, HJG_GLOBAL hjg_u32 *at)
{
	HJG_GLOBAL const hjg_u8 *mixed = work + args->mixed_off;
	const hjg_u64 high = hjg_step_high(width, mixed, i);
	const hjg_u64 low = width == 16 ? hjg_step_low(mixed, i) : 0;

	for (hjg_u32 length = 0; length <= HJG_STEP_MAX_LIST; length++)
	{
		HJG_GLOBAL HjgStepKeyNode *node;
		hjg_u32		ref = hjg_step_load(at);

		if (ref == 0)
			ref = hjg_step_cas(at, 0u, mine);
		if (ref == 0)
		{
			hjg_step_words(work, args->nodes_off)[i] = mine;
			return;
		}
		node = hjg_step_key_node(width, table, args, ref);
		if (hjg_step_node_has(width, node, high, low))
		{
			hjg_step_words(work, args->nodes_off)[i] = ref;
			return;
		}
		at = &node->next;
	}
	hjg_step_raise(table, args, HJG_STEP_LONG_LIST);
}

/* Link the node that b3 has noted, from the head of the list, in a later launch. */
HJG_STEP_FN void
hjg_step_b3_link_later(int width, HJG_GLOBAL hjg_u8 *table, HJG_GLOBAL hjg_u8 *work, const HjgStepArgs *args, hjg_u32 i)
{
	const hjg_u32 mine = hjg_step_words(work, args->counts_off)[i];

	if (mine != 0)
		hjg_step_b3_link(width, table, work, args, i, mine,
						 &hjg_step_header(table, args, hjg_step_words(work, args->buckets_off)[i], i)->keys);
}

/* b4: insert the record id into the rid list of the row's key node. */
HJG_STEP_FN void
hjg_step_b4(int width, HJG_GLOBAL hjg_u8 *table, HJG_GLOBAL hjg_u8 *work, const HjgStepArgs *args,
			hjg_u32 i, hjg_u32 slot)
{
	const hjg_u32 ref = hjg_step_words(work, args->nodes_off)[i];
	HJG_GLOBAL HjgStepRidNode *rid = (HJG_GLOBAL HjgStepRidNode *) (table + args->rid_nodes_off) + slot;
	HJG_GLOBAL HjgStepKeyNode *node;

	/* no node: b3 has given up the join */
	if (ref == 0 || slot >= args->max_rids)
	{
		if (ref != 0)
			hjg_step_raise(table, args, HJG_STEP_NO_ROOM);
		return;
	}
	node = hjg_step_key_node(width, table, args, ref);
	rid->row = hjg_step_words(work, args->rows_off)[i];
	rid->next = hjg_step_swap(&node->rids, slot + 1);
	hjg_step_add(&node->nrids, 1u);
}

/* p2: visit the bucket header. */
HJG_STEP_FN void
hjg_step_p2(HJG_GLOBAL hjg_u8 *table, HJG_GLOBAL hjg_u8 *work, const HjgStepArgs *args, hjg_u32 i)
{
	HJG_GLOBAL HjgStepHeader *header = (HJG_GLOBAL HjgStepHeader *) (table + args->headers_off[0]) +
		hjg_step_words(work, args->buckets_off)[i];

	hjg_step_words(work, args->nodes_off)[i] = header->keys;
	hjg_step_words(work, args->counts_off)[i] = header->ntuples;
}

HJG_STEP_FN hjg_u32
hjg_step_ordered(HJG_GLOBAL hjg_u8 *work, const HjgStepArgs *args, hjg_u32 i)
{
	return args->order_off != 0 ? hjg_step_words(work, args->order_off)[i] : i;
}

/* p3: visit the key list; note the key's node and the row's number of pairs. */
HJG_STEP_FN void
hjg_step_p3(int width, HJG_GLOBAL hjg_u8 *table, HJG_GLOBAL hjg_u8 *work, const HjgStepArgs *args, hjg_u32 i)
{
	const hjg_u32 at = hjg_step_ordered(work, args, i);
	HJG_GLOBAL const hjg_u8 *mixed = work + args->mixed_off;
	const hjg_u64 high = hjg_step_high(width, mixed, at);
	const hjg_u64 low = width == 16 ? hjg_step_low(mixed, at) : 0;
	hjg_u32		ref = hjg_step_words(work, args->nodes_off)[at];
	hjg_u32		count = 0;

	while (ref != 0)
	{
		HJG_GLOBAL const HjgStepKeyNode *node = hjg_step_key_node(width, table, args, ref);

		if (hjg_step_node_has(width, node, high, low))
		{
			count = node->nrids;
			break;
		}
		ref = node->next;
	}
	if (args->mode == HJG_MATCH_ANTI)
		count = count == 0;
	else if (args->mode == HJG_MATCH_SEMI)
		count = count != 0;
	else if (args->mode == HJG_MATCH_LEFT && count == 0)
		count = 1;
	hjg_step_words(work, args->nodes_off)[at] = ref;
	hjg_step_words(work, args->counts_off)[at] = count;
}

/*
 * p4: visit the matching build tuples and write the row's pairs that lie on the page, which begins with
 * pair page_first.
 */
HJG_STEP_FN void
hjg_step_p4(int width, HJG_GLOBAL hjg_u8 *table, HJG_GLOBAL hjg_u8 *work, const HjgStepArgs *args,
			HJG_GLOBAL HjgPair *page, hjg_u32 i)
{
	const hjg_u32 at = hjg_step_ordered(work, args, i);
	const hjg_u32 count = hjg_step_words(work, args->counts_off)[at];
	const hjg_u32 ref = hjg_step_words(work, args->nodes_off)[at];
	const hjg_u32 row = hjg_step_words(work, args->rows_off)[at];
	HJG_GLOBAL const HjgStepRidNode *rids = (HJG_GLOBAL const HjgStepRidNode *) (table + args->rid_nodes_off);
	/* wraps around for pairs before the page, to far beyond its end */
	hjg_u32		to = hjg_step_words(work, args->offsets_off)[at] - args->page_first;
	hjg_u32		rid;

	/* no pair, or all pairs before or after the page */
	if (count == 0 || (to >= args->page_pairs && (hjg_u32) (to + count - 1) >= to))
		return;
	if (ref == 0 || args->mode == HJG_MATCH_ANTI)
	{
		if (to < args->page_pairs)
		{
			page[to].probe_row = row;
			page[to].build_row = HJG_NO_ROW;
		}
		return;
	}
	rid = hjg_step_key_node(width, table, args, ref)->rids;
	for (hjg_u32 k = 0; k < count && rid != 0; k++, to++)
	{
		if (to < args->page_pairs)
		{
			page[to].probe_row = row;
			page[to].build_row = rids[rid - 1].row;
		}
		else if (k > 0 && (hjg_u32) (to - 1) < args->page_pairs)
			break;
		rid = rids[rid - 1].next;
	}
}

#endif							/* HJG_STEPS_H */
