/*
 * device_cuda_branch.c
 *	  Several batches of one join on the device at the same time.
 *
 * While one runner's batch is joined, another's is copied in and the pairs of a third are copied out.  A
 * branch is a HjgCudaJoin with its own streams, grant and buffers, which borrows the join's table.  So
 * only tables that probes do not change and that last to the end have branches: those of shared
 * strategies, and csr.
 *
 * A branch is optional, so it gets only spare memory.
 */
#include <stdlib.h>

#include "device/hjg_cuda_join.h"

/* Rows of a branch's chunks: batches of the executor are no larger, and a branch must be cheap. */
#define CHUNK_ROWS (1u << 18)

static HjgStatus
furnish_branch(HjgCudaJoin *branch)
{
	const int	width = branch->spec.key_width;
	const hjg_u32 rows = branch->chunk_rows;
	HjgStatus	status;

	status = hjg_cuda_admit_spare(branch->device->pool, hjg_cuda_chunk_bytes(width, rows) + hjg_cuda_window_bytes(rows) +
								  hjg_cuda_block_bytes(rows * sizeof(hjg_u32)) + hjg_cuda_payload_chunk_bytes(branch),
								  &branch->grant);
	if (status == HJG_OK)
		status = hjg_cuda_streams_take(branch->device, branch->env, &branch->grant, &branch->streams);
	return status == HJG_OK ? hjg_cuda_alloc_chunks(branch) : status;
}

HjgCudaJoin *
hjg_cuda_branch_make(HjgCudaJoin *join, const HjgEnv *env)
{
	HjgCudaJoin *branch;

	if (!join->branching || join->nbranches == HJG_MAX_WAYS - 1)
		return NULL;
	branch = calloc(1, sizeof(HjgCudaJoin));
	if (branch == NULL)
		return NULL;
	*branch = (HjgCudaJoin) {
		.device = join->device, .env = env, .spec = join->spec, .trunk = join,
		.strategy = join->strategy, .table = join->table, .csr = join->csr, .bounded = join->bounded,
		.chunk_rows = join->chunk_rows < CHUNK_ROWS ? join->chunk_rows : CHUNK_ROWS
	};
	hjg_cuda_payload_borrow(branch);
	if (furnish_branch(branch) != HJG_OK)
	{
		hjg_cuda_release(branch);
		free(branch);
		return NULL;
	}
	join->branches[join->nbranches] = branch;
	__atomic_store_n(&join->nbranches, join->nbranches + 1, __ATOMIC_RELEASE);
	return branch;
}

void
hjg_cuda_branches_free(HjgCudaJoin *join)
{
	for (int i = 0; i < join->nbranches; i++)
	{
		hjg_cuda_release(join->branches[i]);
		free(join->branches[i]);
	}
	join->nbranches = 0;
}

/* ---- statistics, which may be read while all branches work ---- */

static hjg_u64
sum_ns(const HjgCudaJoin *join, HjgCudaPhase phase)
{
	const int	n = __atomic_load_n(&join->nbranches, __ATOMIC_ACQUIRE);
	hjg_u64		ns = hjg_cuda_streams_ns(join->streams, phase);

	for (int i = 0; i < n; i++)
		ns += hjg_cuda_streams_ns(join->branches[i]->streams, phase);
	return ns;
}

static size_t
sum_peak_bytes(const HjgCudaJoin *join)
{
	const int	n = __atomic_load_n(&join->nbranches, __ATOMIC_ACQUIRE);
	size_t		bytes = __atomic_load_n(&join->grant.peak_bytes, __ATOMIC_RELAXED);

	for (int i = 0; i < n; i++)
		bytes += __atomic_load_n(&join->branches[i]->grant.peak_bytes, __ATOMIC_RELAXED);
	return bytes;
}

void
hjg_cuda_join_stats(const HjgCudaJoin *join, HjgJobStats *stats)
{
	const int	asked = (int) join->spec.strategy;

	stats->partition_ns = sum_ns(join, HJG_CUDA_PARTITION);
	stats->build_ns = sum_ns(join, HJG_CUDA_BUILD);
	stats->probe_ns = sum_ns(join, HJG_CUDA_PROBE);
	stats->transfer_ns = sum_ns(join, HJG_CUDA_TRANSFER_IN) + sum_ns(join, HJG_CUDA_TRANSFER_OUT);
	stats->gather_ns = sum_ns(join, HJG_CUDA_GATHER);
	stats->workspace_bytes = sum_peak_bytes(join);
	/* a strategy's partitions are not counted */
	stats->npartitions = join->strategy == NULL;
	stats->strategy = HJG_CUDA_CSR;
	for (int i = 0; i < HJG_CUDA_NRESIDENT; i++)
		if (hjg_cuda_strategy_at(i) == join->strategy)
			stats->strategy = (hjg_u32) (HJG_CUDA_FIRST + i);
	stats->declined = hjg_is_cuda_strategy(asked) && stats->strategy != (hjg_u32) asked;
}
