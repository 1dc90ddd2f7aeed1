/*
 * device_cuda_concurrent.c
 *	  Several batches of one join on the device at the same time.
 *
 * While one runner's batch is joined, another's is copied in and the pairs of a third are copied out.  A
 * further join is a HjgCudaJoin with its own streams, grant and buffers, which borrows the join's table.  So
 * only tables that probes do not change and that last to the end have further joins: those of shared
 * strategies, and csr.
 *
 * A further join is optional, so it gets only spare memory.
 */
#include <stdlib.h>

#include "device/hjg_cuda_join.h"

static HjgStatus
open_join(HjgCudaJoin *further)
{
	const int	width = further->spec.key_width;
	const hjg_u32 rows = further->chunk_rows;
	HjgStatus	status;

	status = hjg_cuda_admit_spare(further->device->pool, hjg_cuda_chunk_bytes(width, rows) + hjg_cuda_window_bytes(rows) +
								  hjg_cuda_block_bytes(rows * sizeof(hjg_u32)) + hjg_cuda_payload_chunk_bytes(further),
								  &further->grant);
	if (status == HJG_OK)
		status = hjg_cuda_streams_take(further->device, further->env, &further->grant, &further->streams);
	return status == HJG_OK ? hjg_cuda_alloc_chunks(further) : status;
}

HjgCudaJoin *
hjg_cuda_concurrent_open(HjgCudaJoin *join, const HjgEnv *env)
{
	HjgCudaJoin *further;

	if (!join->concurrent || join->nfurther == HJG_MAX_STREAMS - 1)
		return NULL;
	further = calloc(1, sizeof(HjgCudaJoin));
	if (further == NULL)
		return NULL;
	*further = (HjgCudaJoin) {
		.device = join->device, .env = env, .spec = join->spec, .owner = join,
		.strategy = join->strategy, .table = join->table, .csr = join->csr, .bounded = join->bounded,
		.chunk_rows = join->chunk_rows < HJG_LARGEST_BATCH_ROWS ? join->chunk_rows : HJG_LARGEST_BATCH_ROWS
	};
	hjg_cuda_payload_borrow(further);
	if (open_join(further) != HJG_OK)
	{
		hjg_cuda_release(further);
		free(further);
		return NULL;
	}
	join->further[join->nfurther] = further;
	__atomic_store_n(&join->nfurther, join->nfurther + 1, __ATOMIC_RELEASE);
	return further;
}

void
hjg_cuda_concurrent_free(HjgCudaJoin *join)
{
	for (int i = 0; i < join->nfurther; i++)
	{
		hjg_cuda_release(join->further[i]);
		free(join->further[i]);
	}
	join->nfurther = 0;
}

/* ---- statistics, which may be read while all further joins work ---- */

static hjg_u64
sum_ns(const HjgCudaJoin *join, HjgCudaPhase phase)
{
	const int	n = __atomic_load_n(&join->nfurther, __ATOMIC_ACQUIRE);
	hjg_u64		ns = hjg_cuda_streams_ns(join->streams, phase);

	for (int i = 0; i < n; i++)
		ns += hjg_cuda_streams_ns(join->further[i]->streams, phase);
	return ns;
}

static size_t
sum_peak_bytes(const HjgCudaJoin *join)
{
	const int	n = __atomic_load_n(&join->nfurther, __ATOMIC_ACQUIRE);
	size_t		bytes = __atomic_load_n(&join->grant.peak_bytes, __ATOMIC_RELAXED);

	for (int i = 0; i < n; i++)
		bytes += __atomic_load_n(&join->further[i]->grant.peak_bytes, __ATOMIC_RELAXED);
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
