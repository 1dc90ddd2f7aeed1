/*
 * hjg_cuda_copartition.h
 *	  The join of co-partitions in shared memory.
 *
 * A unit of work is a piece of build rows, as many as a table can hold, and a piece of probe rows of the
 * same partition.  Persistent blocks take units by ticket, so a large partition of skewed keys is many
 * units, and one with many duplicates has several build pieces.
 *
 * The table is the build piece ordered by bucket (a counting sort: count, sum, fill), so duplicates and
 * collisions need no links and no key value is reserved:
 *
 *		first[bucket], first[bucket + 1]	16-bit positions
 *		row[position]						row number
 *		key[position]						mixed key, or its bits that partition and bucket do not determine
 *
 * The mix is a permutation, so partition and bucket bits are bits of the key.  With bits + bucket_bits >=
 * 24 one byte of a 4-byte key is left, four of these bytes are compared at once, and 36 thousand build
 * rows fit a block (join_packed_4).  So 128M rows need only one pass of 4096 partitions.  The other
 * kernels (join_parts_W) keep the whole mixed key.
 *
 * If probe rows have several matches, lanes are assigned to pairs, not to rows: positions are staged 64 at
 * a time.
 *
 * Bytes a row, 4-byte keys: each side is read once from memory (8), the build side once more from the L2
 * cache; a pair is written with 8.  On an H100, 128M rows on each side, every probe row with one pair: 1.8
 * ms with pairs written (floor 1.05), 1.28 with a checksum (floor 0.70); the excess is some 230
 * instructions a warp for 32 rows of each side.
 */
#ifndef HJG_CUDA_COPARTITION_H
#define HJG_CUDA_COPARTITION_H

#include "hjg_cuda_emit.h"

#define STAGE 64				/* staged positions of a warp */
#define NONE 0xFFFFu			/* position of "no build row" */

/* Whole keys of a table. */
template <int W, bool PACKED> struct TableKeys
{
	typedef HjgKey<W> Key;
	typedef typename Key::Mixed Mixed;
	Mixed	   *key;

	__device__ TableKeys(void *base, hjg_u32) : key((Mixed *) base) {}
	__device__ __forceinline__ void put(hjg_u32 i, Mixed k) const { key[i] = k; }

	/* Count the matches among the positions [from, to); *hit becomes one of them. */
	__device__ __forceinline__ hjg_u32
	find(hjg_u32 from, hjg_u32 to, Mixed k, hjg_u32 *hit) const
	{
		hjg_u32		n = 0;

		for (; from < to; from++)
			if (Key::same(key[from], k))
			{
				*hit = from;
				n++;
			}
		return n;
	}
	__device__ __forceinline__ bool matches(hjg_u32 i, Mixed k) const { return Key::same(key[i], k); }
};

/* The last bits of keys, at most a byte each, four to a word. */
template <> struct TableKeys<4, true>
{
	hjg_u8	   *key;
	hjg_u32		mask;

	__device__ TableKeys(void *base, hjg_u32 left_bits) : key((hjg_u8 *) base), mask((1u << left_bits) - 1) {}
	__device__ __forceinline__ void put(hjg_u32 i, hjg_u32 k) const { key[i] = (hjg_u8) (k & mask); }

	__device__ __forceinline__ hjg_u32
	find(hjg_u32 from, hjg_u32 to, hjg_u32 k, hjg_u32 *hit) const
	{
		hjg_u32		four = (k & mask) * 0x01010101u;
		hjg_u32		n = 0;

		for (; from < to; from += 4)
		{
			const hjg_u32 *word = (const hjg_u32 *) key + (from >> 2);
			hjg_u32		equal = __vcmpeq4(__funnelshift_r(word[0], word[1], 8 * (from & 3)), four);

			if (to - from < 4)
				equal &= (1u << 8 * (to - from)) - 1;
			if (equal != 0)
			{
				n += __popc(equal) >> 3;
				*hit = from + ((31 - __clz(equal)) >> 3);
			}
		}
		return n;
	}
	__device__ __forceinline__ bool matches(hjg_u32 i, hjg_u32 k) const { return key[i] == (k & mask); }
};

/* Recover the raw key. */
HJG_FN hjg_u32 unmixed(hjg_u32 m) { return hjg_unmix32(hjg_hash_seed, m); }
HJG_FN hjg_u64 unmixed(hjg_u64 m) { return hjg_unmix64(hjg_hash_seed, m); }
HJG_FN ulonglong2 unmixed(ulonglong2 m) { return make_ulonglong2(hjg_unmix128(hjg_hash_seed, m.x, m.y), m.y); }

/*
 * Join units.
 *
 * Dynamic shared memory, in this order: STAGE words a warp; rows and keys of build_limit positions
 * (PACKED: and 16 more bytes); first, 2^BUCKET_BITS + 8 positions of 2 bytes.  build_limit is a multiple
 * of 16, and below 65,535.  join_packed_4: one block of 1024 threads a multiprocessor; others: two of 512.
 */
template <int W, class V, bool PACKED, int OUT, int THREADS, int BUCKET_BITS, int ITEMS> HJG_FN void
join_parts(const HjgKJoin &a)
{
	extern __shared__ __align__(16) hjg_u32 shared[];
	__shared__ hjg_u32 sums[33];
	__shared__ HjgGroup groups[THREADS / HJG_GROUP_THREADS];
	__shared__ hjg_u32 unit[2][4];	/* build rows from, to; probe rows from, to; build from ~0: none */
	typedef HjgKey<W> Key;
	typedef typename Key::Mixed Mixed;
	const int	BATCH = W == 4 ? 8 : 4;
	const int	WORDS = (1 << BUCKET_BITS) / 2 / THREADS;	/* of two counters each, for a thread */
	const hjg_u32 tid = threadIdx.x;
	const hjg_u32 lane = hjg_lane();
	const hjg_u32 warp = tid >> 5;
	const hjg_u32 bits = a.units.bits;
	const hjg_u32 limit = a.units.build_limit;
	const bool	several = a.mode == HJG_MATCH_ALL || a.mode == HJG_MATCH_LEFT;
	const bool	want_found = a.mode != HJG_MATCH_ANTI;
	const bool	want_lonely = a.mode == HJG_MATCH_LEFT || a.mode == HJG_MATCH_ANTI;
	hjg_u32    *stage = shared + warp * STAGE;
	Mixed	   *wide = (Mixed *) (shared + THREADS / 32 * STAGE);
	V		   *table_row = PACKED ? (V *) wide : (V *) (wide + limit);
	TableKeys<W, PACKED> table_key(PACKED ? (void *) (table_row + limit) : (void *) wide, 32 - bits - BUCKET_BITS);
	hjg_u32    *count = (PACKED ? (hjg_u32 *) ((hjg_u8 *) (table_row + limit) + limit + 16) : (hjg_u32 *) (table_row + limit)) + 4;
	hjg_u16    *end = (hjg_u16 *) count;	/* a bucket starts at the previous bucket's end; end[-1] = 0 */
	HjgRows<W, V> build(a.build.keys, a.build.rows);
	HjgRows<W, V> probe(a.probe.keys, a.probe.rows);
	HjgTally	tally = {0, 0};

	auto bucket = [&](Mixed k) { return (int) ((Key::top(k) << bits) >> (32 - BUCKET_BITS)); };

	/* take a unit; called by warp 0 */
	auto take = [&](hjg_u32 *u)
	{
		const hjg_u32 *unit_first = (const hjg_u32 *) a.units.unit_first;
		hjg_u32		t = 0;

		if (lane == 0)
		{
			t = atomicAdd((hjg_u32 *) a.ticket, 1u);
			/* pairs beyond the capacity are void: stop if no further pair fits */
			if (OUT != HJG_CHECKSUM && *(volatile hjg_u64 *) a.output.counters > a.output.capacity)
				t = ~0u;
		}
		t = __shfl_sync(HJG_ALL_LANES, t, 0);
		if (t >= unit_first[1u << bits])
		{
			u[0] = ~0u;
			return;
		}
		hjg_u32		p = hjg_warp_find(unit_first, 1u << bits, t);

		if (lane == 0)
		{
			hjg_u32		k = t - unit_first[p];
			hjg_u32		build_last = ((const hjg_u32 *) a.units.build.last)[p];
			hjg_u32		probe_first = ((const hjg_u32 *) a.units.probe.first)[p];
			hjg_u32		probe_last = ((const hjg_u32 *) a.units.probe.last)[p];
			hjg_u32		nprobe = (probe_last - probe_first + a.units.probe_limit - 1) / a.units.probe_limit;

			u[0] = ((const hjg_u32 *) a.units.build.first)[p] + k / nprobe * limit;
			u[1] = min(build_last, u[0] + limit);
			u[2] = probe_first + k % nprobe * a.units.probe_limit;
			u[3] = min(probe_last, u[2] + a.units.probe_limit);
		}
	};

	/* build the table: count, sum, fill; two 16-bit counters a word */
	auto build_table = [&](hjg_u32 from, hjg_u32 to)
	{
		for (hjg_u32 i = from + tid; i < to; i += BATCH * THREADS)
		{
			Mixed		k[BATCH];

#pragma unroll
			for (int j = 0; j < BATCH; j++)
				if (i + j * THREADS < to)
					k[j] = build.key(i + j * THREADS);
#pragma unroll
			for (int j = 0; j < BATCH; j++)
				if (i + j * THREADS < to)
					atomicAdd(&count[bucket(k[j]) >> 1], 1u << 16 * (bucket(k[j]) & 1));
		}
		__syncthreads();
		{
			uint4	   *mine = (uint4 *) count + tid * (WORDS / 4);
			hjg_u32		word[WORDS];
			hjg_u32		sum = 0;

#pragma unroll
			for (int w = 0; w < WORDS; w += 4)
			{
				uint4		q = mine[w / 4];

				word[w] = q.x;
				word[w + 1] = q.y;
				word[w + 2] = q.z;
				word[w + 3] = q.w;
				sum += q.x + q.y + q.z + q.w;	/* the halves do not overflow: at most 65,535 in each */
			}
			sum = hjg_block_sum_before<THREADS>((sum & 0xFFFF) + (sum >> 16), sums);
#pragma unroll
			for (int w = 0; w < WORDS; w++)
			{
				hjg_u32		both = word[w];

				word[w] = sum | (sum + (both & 0xFFFF)) << 16;
				sum += (both & 0xFFFF) + (both >> 16);
			}
#pragma unroll
			for (int w = 0; w < WORDS; w += 4)
				mine[w / 4] = make_uint4(word[w], word[w + 1], word[w + 2], word[w + 3]);
		}
		__syncthreads();
		for (hjg_u32 i = from + tid; i < to; i += BATCH * THREADS)
		{
			Mixed		k[BATCH];
			V			v[BATCH];

#pragma unroll
			for (int j = 0; j < BATCH; j++)
				if (i + j * THREADS < to)
					build.get_last(i + j * THREADS, &k[j], &v[j]);
#pragma unroll
			for (int j = 0; j < BATCH; j++)
				if (i + j * THREADS < to)
				{
					hjg_u32		half = 16 * (bucket(k[j]) & 1);
					hjg_u32		at = atomicAdd(&count[bucket(k[j]) >> 1], 1u << half) >> half & 0xFFFF;

					table_row[at] = v[j];
					table_key.put(at, k[j]);
				}
		}
	};

	/* emit rows of which some have several pairs; n: matches of each */
	auto emit_many = [&](const Mixed *k, const V *row, const hjg_u32 *n, hjg_u32 here)
	{
		hjg_u32		total = 0;
		hjg_u64		place = 0;

		if (OUT != HJG_CHECKSUM)
		{
#pragma unroll
			for (int j = 0; j < ITEMS; j++)
				total += n[j] == 0 && want_lonely && (here >> j & 1) ? 1 : n[j];
			total = __shfl_sync(HJG_ALL_LANES, hjg_warp_sum_to(total), 31);
			place = hjg_warp_reserve((hjg_u64 *) a.output.counters, total);
			if (place > a.output.capacity)
				return;
		}
#pragma unroll
		for (int j = 0; j < ITEMS; j++)
		{
			bool		lonely = n[j] == 0 && want_lonely && (here >> j & 1);
			hjg_u32		from = n[j] > 0 ? end[bucket(k[j]) - 1] : 0;

			if (OUT == HJG_CHECKSUM)
			{
				if (lonely)
					tally.add((hjg_u32) row[j], HJG_NO_ROW);
				for (hjg_u32 left = n[j]; left > 0; from++)
					if (table_key.matches(from, k[j]))
					{
						tally.add((hjg_u32) row[j], (hjg_u32) table_row[from]);
						left--;
					}
				continue;
			}
			hjg_u32		last = hjg_warp_sum_to(lonely ? 1 : n[j]);
			hjg_u32		next = last - (lonely ? 1 : n[j]);

			total = __shfl_sync(HJG_ALL_LANES, last, 31);
			for (hjg_u32 window = 0; window < total; window += STAGE)
			{
				__syncwarp();
				while (next < last && next < window + STAGE)
				{
					if (lonely || table_key.matches(from, k[j]))
						stage[next++ - window] = (lonely ? NONE : from) | lane << 16;
					from++;
				}
				__syncwarp();
#pragma unroll
				for (int s = 0; s < STAGE; s += 32)
				{
					bool		mine = window + s + lane < total;
					hjg_u32		staged = mine ? stage[s + lane] : 0;
					hjg_u32		source = staged >> 16;
					V			p = __shfl_sync(HJG_ALL_LANES, row[j], source);
					Mixed		pk = {};

					if constexpr (OUT == HJG_COLUMNS)
						pk = __shfl_sync(HJG_ALL_LANES, k[j], source);
					if (mine && place + window + s + lane < a.output.capacity)
						hjg_write_pair<OUT>(a.output, place + window + s + lane, unmixed(pk),
											(staged & 0xFFFF) == NONE ? (V) HJG_NO_ROW : table_row[staged & 0xFFFF], p);
				}
			}
			place += total;
		}
	};

	if (warp == 0)
		take(unit[0]);
	if (tid < 4)
		count[(int) tid - 4] = 0;
	for (int current = 0;; current ^= 1)
	{
#pragma unroll
		for (int w = 0; w < WORDS / 4; w++)
			((uint4 *) count)[w * THREADS + tid] = make_uint4(0, 0, 0, 0);
		__syncthreads();
		const hjg_u32 probe_from = unit[current][2];
		const hjg_u32 probe_to = unit[current][3];

		if (unit[current][0] == ~0u)
			break;
		build_table(unit[current][0], unit[current][1]);
		__syncthreads();
		if (warp == 0)
			take(unit[current ^ 1]);

		/*
		 * the warps of a group stay together, because they reserve room for their pairs together; all
		 * groups reserve equally often
		 */
		for (hjg_u32 round = probe_from; round < probe_to; round += THREADS * ITEMS)
		{
			const hjg_u32 tile = round + tid / HJG_GROUP_THREADS * HJG_GROUP_THREADS * ITEMS;

			if (tile >= probe_to)
			{
				if constexpr (OUT != HJG_CHECKSUM)
					hjg_group_skip<THREADS / HJG_GROUP_THREADS>();
				break;
			}
			const hjg_u32 base = tile + warp % (HJG_GROUP_THREADS / 32) * 32 * ITEMS + lane;
			Mixed		key[ITEMS];
			V			row[ITEMS];
			V			found[ITEMS];
			hjg_u32		n[ITEMS];
			hjg_u32		here = 0;
			hjg_u32		wanted = 0;
			hjg_u32		most = 0;

#pragma unroll
			for (int j = 0; j < ITEMS; j++)
				if (base + j * 32 < probe_to)
				{
					probe.get_last(base + j * 32, &key[j], &row[j]);
					here |= 1u << j;
				}
#pragma unroll
			for (int j = 0; j < ITEMS; j++)
			{
				hjg_u32		at = 0;

				n[j] = 0;
				if (here >> j & 1)
					n[j] = table_key.find(end[bucket(key[j]) - 1], end[bucket(key[j])], key[j], &at);
				found[j] = n[j] > 0 && want_found ? table_row[at] : (V) HJG_NO_ROW;
				wanted |= (hjg_u32) (n[j] > 0 ? want_found : want_lonely) << j;
				most = max(most, n[j]);
			}
			wanted &= here;

			const bool	many = __any_sync(HJG_ALL_LANES, most > 1 && several);

			if (many)
				emit_many(key, row, n, here);
			if constexpr (OUT == HJG_COLUMNS)
			{
#pragma unroll
				for (int j = 0; j < ITEMS; j++)
					key[j] = unmixed(key[j]);
			}
			hjg_emit<OUT, ITEMS>(a.output, groups, &tally, many ? 0 : wanted, key, found, row);
		}
		__syncthreads();
	}
	if (OUT == HJG_CHECKSUM)
		hjg_warp_add((hjg_u64 *) a.output.counters, tally.npairs, tally.checksum);
}

#define JOIN_KERNEL(NAME, W, V, PACKED, OUT, THREADS, BLOCKS, BUCKET_BITS, ITEMS) \
	extern "C" __global__ __launch_bounds__(THREADS, BLOCKS) void \
	hjg_k_join_##NAME(HjgKJoin a) { join_parts<W, V, PACKED, OUT, THREADS, BUCKET_BITS, ITEMS>(a); }

#define JOIN_PACKED_4(KIND, OUT) JOIN_KERNEL(packed_4_##KIND, 4, hjg_u32, true, OUT, 1024, 1, 14, 4)
#define JOIN_HALVED_4(KIND, OUT) JOIN_KERNEL(halved_4_##KIND, 4, hjg_u32, true, OUT, 512, 2, 13, 4)
#define JOIN_PARTS_4(KIND, OUT) JOIN_KERNEL(parts_4_##KIND, 4, hjg_u32, false, OUT, 512, 2, 13, 4)
#define JOIN_PARTS_8(KIND, OUT) JOIN_KERNEL(parts_8_##KIND, 8, hjg_u32, false, OUT, 512, 2, 12, 4)
#define JOIN_PARTS_8_8(KIND, OUT) JOIN_KERNEL(parts_8_8_##KIND, 8, hjg_u64, false, OUT, 512, 2, 12, 4)
#define JOIN_PARTS_16(KIND, OUT) JOIN_KERNEL(parts_16_##KIND, 16, hjg_u32, false, OUT, 512, 2, 12, 2)

#endif							/* HJG_CUDA_COPARTITION_H */
