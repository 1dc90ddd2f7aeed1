/*
 * cuda_program.cu
 *	  Pipelines of programs (layout/hjg_program.h): rows of kept columns, or groups, through their steps into a hash table, into
 *	  groups or into the result.
 *
 * A block takes one piece after the other: at most HJG_K_PIECE_ROWS rows of one segment, or slots of groups, so that the columns'
 * descriptors, like the steps, are the same for all of its threads, and the interpreter's branches diverge only where rows end.  A thread has one
 * row at a time; the registers of a block's rows lie in shared memory, side by side.  Read a row: the codes of its columns, in the
 * order of rows; a record of 16 bytes or more for each look-up.
 *
 * Groups.  Where few are expected, a block has a table of its own in shared memory, and adds its records to the groups at its end;
 * what finds no room there goes to the groups at once.  Rows of a warp that are in one of few groups are added up by shuffles.
 *
 * Blocks of up to HJG_K_PROGRAM_THREADS threads, as many as fit; dynamic shared memory: registers, the block's table, steps,
 * columns (hjg_cuda_program_shared()).
 */
#include "hjg_cuda_kernel.h"
#include "hjg_program_steps.h"

#define FEW_GROUPS 4			/* of a warp's rows that are added up by shuffles */

/* ---- the rows of a block ---- */

/* A block's shared memory. */
struct HjgProgramSpace
{
	int64_t    *regs;
	hjg_u64    *near;			/* records of its own table */
	HjgProgramStep *steps;
	HjgKColumn *columns;
};

HJG_FN HjgProgramSpace
divide_space(const HjgKPipeline &a)
{
	extern __shared__ hjg_u64 space[];
	HjgProgramSpace parts;

	parts.regs = (int64_t *) space;
	parts.near = space + a.nregisters * blockDim.x;
	parts.steps = (HjgProgramStep *) (parts.near + a.near_slots * a.sink.record_words);
	parts.columns = (HjgKColumn *) (parts.steps + a.nsteps);
	return parts;
}

HJG_FN void
copy_shared(void *to, const void *from, hjg_u32 bytes)
{
	for (hjg_u32 i = threadIdx.x; i < bytes / 8; i += blockDim.x)
		((hjg_u64 *) to)[i] = ((const hjg_u64 *) from)[i];
}

/*
 * Call sink(row, alive) for the rows of the block's pieces, by warps, until a flag is set.  A warp leaves the piece if the sink returns false for one of its
 * rows: where a table is full, each takes long to find that out.
 */
template <class Sink> HJG_FN void
run_pieces(const HjgKPipeline &a, const HjgProgramSpace &space, Sink sink)
{
	const hjg_u32 *flags = (const hjg_u32 *) a.flags;
	HjgProgramRow row;
	__shared__ hjg_u32 stop;

	row.regs = space.regs + threadIdx.x;
	row.stride = blockDim.x;
	copy_shared(space.steps, (const void *) a.steps, a.nsteps * (hjg_u32) sizeof(HjgProgramStep));
	for (hjg_u32 p = blockIdx.x; p < a.npieces; p += gridDim.x)
	{
		const HjgKPiece piece = ((const HjgKPiece *) a.pieces)[p];

		__syncthreads();
		copy_shared(space.columns, (const HjgKColumn *) a.columns + piece.first_column, a.ncolumns * (hjg_u32) sizeof(HjgKColumn));
		if (threadIdx.x == 0)
			stop = *(const volatile hjg_u32 *) flags;
		__syncthreads();
		if (stop != 0)
			break;
		for (hjg_u32 first = piece.first_row; first < piece.end_row; first += blockDim.x)
		{
			const hjg_u32 row_ix = first + threadIdx.x;
			const bool	alive = hjg_program_sees(&a, &piece, row_ix, &row) &&
				hjg_program_run(&a, space.steps, space.columns, row_ix, &row);

			if (__any_sync(HJG_ALL_LANES, alive) && __any_sync(HJG_ALL_LANES, !sink(row, alive)))
				break;
		}
	}
}

/* Raise flags; returns whether there are none. */
HJG_FN bool
raise_flags(const HjgKPipeline &a, hjg_u32 flags)
{
	if (flags != 0 && (*(const volatile hjg_u32 *) a.flags & flags) != flags)
		atomicOr((hjg_u32 *) a.flags, flags);
	return flags == 0;
}

/* ---- hash tables ---- */

extern "C" __global__ __launch_bounds__(HJG_K_PROGRAM_THREADS) void
hjg_k_fill_records(const __grid_constant__ HjgKPipeline a)
{
	run_pieces(a, divide_space(a), [&](const HjgProgramRow &row, bool alive) {
		HjgProgramKey key;

		return !alive || !hjg_program_sink_key(&a, &row, &key) || raise_flags(a, hjg_program_fill(&a, &row, &key, hjg_program_hash(&key)));
	});
}

/* ---- groups ---- */

/* Reduce a warp's shares of a value; all lanes receive the result. */
HJG_FN hjg_u64
reduce_shares(hjg_u32 kind, hjg_u64 share)
{
#pragma unroll
	for (int d = 16; d > 0; d >>= 1)
		share = hjg_program_combine(kind, share, __shfl_xor_sync(HJG_ALL_LANES, share, d));
	return share;
}

/* Add up the rows of one record in the warp; inside: this lane's row is one of them. */
HJG_FN void
add_together(const HjgKPipeline &a, hjg_u64 *record, const HjgProgramRow &row, bool inside, hjg_u32 lanes)
{
	hjg_u64    *values = record + HJG_K_RECORD_KEYS + a.sink.nkeys;

	for (hjg_u32 v = 0; v < a.nvalues; v++)
	{
		const HjgKValue value = a.values[v];
		hjg_u64		share = inside ? hjg_program_share(value, &row) : hjg_program_neutral(value.kind);

		if (value.kind == HJG_K_ROWS)
			share = __popc(lanes);
		else if (value.kind == HJG_K_NULLS)
			share = __popc(__ballot_sync(HJG_ALL_LANES, share != 0));
		else
			share = reduce_shares(value.kind, share);
		if (hjg_lane() == 0)
			hjg_program_add(value.kind, &values[v], share);
	}
}

/* Add the warp's rows to their records; NULL: the lane has no row. */
HJG_FN void
add_rows(const HjgKPipeline &a, hjg_u64 *record, const HjgProgramRow &row)
{
	const hjg_u32 same = __match_any_sync(HJG_ALL_LANES, (unsigned long long) record);
	hjg_u32		firsts = __ballot_sync(HJG_ALL_LANES, record != nullptr && __ffs(same) - 1 == hjg_lane());

	if (__popc(firsts) > FEW_GROUPS)
	{
		if (record != nullptr)
			for (hjg_u32 v = 0; v < a.nvalues; v++)
				hjg_program_add(a.values[v].kind, &record[HJG_K_RECORD_KEYS + a.sink.nkeys + v], hjg_program_share(a.values[v], &row));
		__syncwarp();
		return;
	}
	for (; firsts != 0; firsts &= firsts - 1)
	{
		const int	lane = __ffs(firsts) - 1;
		hjg_u64    *one = (hjg_u64 *) __shfl_sync(HJG_ALL_LANES, (unsigned long long) record, lane);
		const bool	inside = record == one;

		add_together(a, one, row, inside, __ballot_sync(HJG_ALL_LANES, inside));
	}
}

extern "C" __global__ __launch_bounds__(HJG_K_PROGRAM_THREADS) void
hjg_k_group_rows(const __grid_constant__ HjgKPipeline a)
{
	const HjgProgramSpace space = divide_space(a);
	HjgKRecords near = a.sink;

	near.records = (hjg_u64) space.near;
	near.nslots = a.near_slots;
	for (hjg_u32 i = threadIdx.x; i < near.nslots * near.record_words; i += blockDim.x)
		space.near[i] = 0;
	__syncthreads();
	run_pieces(a, space, [&](const HjgProgramRow &row, bool alive) {
		hjg_u64    *record = nullptr;
		bool		fits = true;

		if (alive)
		{
			HjgProgramKey key;
			hjg_u64		hash;
			int			made;

			hjg_program_sink_key(&a, &row, &key);
			hash = hjg_program_hash(&key);
			record = hjg_program_enter(&a, &near, &key, hash, &row, key.nulls, HJG_NEAR_VISITS, &made);
			if (record == nullptr)
				record = hjg_program_enter(&a, &a.sink, &key, hash, &row, key.nulls, HJG_RECORD_VISITS, &made);
			if (record == nullptr)
				fits = raise_flags(a, HJG_K_TABLE_FULL);
		}
		__syncwarp();
		add_rows(a, record, row);
		return fits;
	});
	__syncthreads();
	for (hjg_u32 slot = threadIdx.x; slot < near.nslots; slot += blockDim.x)
		if (space.near[slot * near.record_words] != 0)
			raise_flags(a, hjg_program_merge(&a, space.near + slot * near.record_words));
}

/* ---- results ---- */

extern "C" __global__ __launch_bounds__(HJG_K_PROGRAM_THREADS) void
hjg_k_count_groups(const __grid_constant__ HjgKResult a)
{
	run_pieces(a.pipeline, divide_space(a.pipeline), [&](const HjgProgramRow &row, bool alive) {
		const hjg_u64 number = alive ? hjg_program_order(&a, &row) : 0;
		/* shifts by all 64 bits are not defined */
		const bool	counts = alive && number >> a.shift >> HJG_K_ORDER_BITS == a.prefix;
		const hjg_u32 bin = counts ? (hjg_u32) (number >> a.shift) % HJG_K_ORDER_BINS : HJG_K_ORDER_BINS;
		const hjg_u32 same = __match_any_sync(HJG_ALL_LANES, bin);

		if (counts && __ffs(same) - 1 == hjg_lane())
			atomicAdd((unsigned long long *) a.bins + bin, (unsigned long long) __popc(same));
		return true;
	});
}

extern "C" __global__ __launch_bounds__(HJG_K_PROGRAM_THREADS) void
hjg_k_list_groups(const __grid_constant__ HjgKResult a)
{
	run_pieces(a.pipeline, divide_space(a.pipeline), [&](const HjgProgramRow &row, bool alive) {
		const bool	mine = alive && hjg_program_order(&a, &row) <= a.last;
		const hjg_u32 lanes = __ballot_sync(HJG_ALL_LANES, mine);
		const hjg_u64 place = hjg_warp_reserve((hjg_u64 *) a.listed, __popc(lanes)) + __popc(lanes & ((1u << hjg_lane()) - 1));

		if (mine)
			hjg_program_list(&a, hjg_program_group(&a.pipeline.source, row.group), (hjg_u64 *) a.words + place * a.group_words);
		return true;
	});
}
