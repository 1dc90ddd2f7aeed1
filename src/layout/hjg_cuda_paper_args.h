/*
 * hjg_cuda_paper_args.h
 *	  Arguments of the CUDA kernels of the joins in the literature, passed by value: what
 *	  device_cuda_{sink,nop,sort,merge,...}.c fill in and kernels/cuda_{nop,sort,...}.cu read.
 *
 * As in hjg_cuda_args.h device addresses are hjg_u64, positions are 32 bits wide.
 */
#ifndef HJG_CUDA_PAPER_ARGS_H
#define HJG_CUDA_PAPER_ARGS_H

#include "layout/hjg_cuda_args.h"

/* hjg_k_insert_chains_W, hjg_k_measure_chains, hjg_k_probe_chains_W_SINK, and ..._slots_... */
typedef struct HjgKNop
{
	HjgKSide	build;
	HjgKSide	probe;
	hjg_u64		heads;			/* chains: hjg_u32[nslots], HJG_NO_ROW: no row */
	hjg_u64		next;			/* chains: hjg_u32[build.nrows] */
	hjg_u64		slots;			/* open addressing: hjg_u64[nslots], tag and position; all ones: free */
	hjg_u64		crowded;		/* hjg_u32: set when a search would take too many steps */
	HjgKOutput	output;
	hjg_u32		nslots;
	hjg_u32		mode;			/* HjgMatchMode */
} HjgKNop;

/* hjg_k_sort_tiles_W: a side in, rows out, ordered within tiles. */
typedef struct HjgKSortTiles
{
	HjgKSide	side;
	HjgKRows	out;
} HjgKSortTiles;

/*
 * hjg_k_find_paths_W, hjg_k_merge_runs_W: runs of width rows, two by two.  hjg_k_find_bounds_W: of the
 * probe rows among the build rows, a path for each tile too.
 */
typedef struct HjgKMerge
{
	HjgKRows	in;
	HjgKRows	out;
	hjg_u64		paths;			/* hjg_u32[tiles + 1] */
	hjg_u32		nrows;
	hjg_u32		width;
} HjgKMerge;

/* hjg_k_find_meetings_W, hjg_k_count_below_W, hjg_k_count_matches_W, hjg_k_write_matches_W_OUTPUT. */
typedef struct HjgKMergeJoin
{
	HjgKRows	build;			/* sorted */
	HjgKRows	probe;			/* sorted */
	hjg_u64		paths;			/* hjg_u32[tiles + 1] */
	hjg_u64		below;			/* hjg_u32[probe_rows]: build rows with smaller keys */
	hjg_u64		offsets;		/* hjg_u64[probe_rows + 1]: pairs of each probe row; then their sum before it */
	HjgKOutput	output;
	hjg_u32		build_rows;
	hjg_u32		probe_rows;
	hjg_u32		mode;			/* HjgMatchMode */
	hjg_u32		behind;			/* hjg_k_find_meetings_W: equal build rows come before the probe row */
} HjgKMergeJoin;

#endif							/* HJG_CUDA_PAPER_ARGS_H */
