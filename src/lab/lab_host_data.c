/*
 * lab_host_data.c
 *	  Benchmark of joins of sides in host memory: sides, results, and their check.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lab/hjg_cuda_host_bench.h"
#include "layout/hjg_checksum.h"

#define PIECE_ROWS ((hjg_u64) 1 << 20)
#define MILLION 1048576.0

/* ---- pinned memory ---- */

typedef struct DataTouch
{
	char	   *ptr;
	size_t		bytes;
	int			value;
} DataTouch;

static void
touch_host_piece(void *arg, int piece, int worker)
{
	const DataTouch *touch = arg;
	const size_t from = (size_t) piece * HJG_SLAB_BYTES;

	memset(touch->ptr + from, touch->value, touch->bytes - from < HJG_SLAB_BYTES ? touch->bytes - from : HJG_SLAB_BYTES);
}

void
hjg_host_fill(HjgPool *pool, void *ptr, size_t bytes, int value)
{
	DataTouch		touch = {ptr, bytes, value};

	hjg_pool_run(pool, (int) ((bytes + HJG_SLAB_BYTES - 1) / HJG_SLAB_BYTES), touch_host_piece, &touch);
}

void
hjg_host_unpin(void *ptr, size_t bytes)
{
	if (ptr == NULL)
		return;
	(void) hjg_cuda.host_unregister(ptr);
	munmap(ptr, bytes);
}

/* Allocate registered memory; all threads touch it first, since the driver would do that on one thread. */
void *
hjg_host_pinned(HjgHostBench *bench, size_t bytes)
{
	void	   *ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (ptr == MAP_FAILED)
		return NULL;
#ifdef MADV_HUGEPAGE
	(void) madvise(ptr, bytes, MADV_HUGEPAGE);
#endif
	hjg_host_fill(bench->pool, ptr, bytes, HJG_HOST_POISON);
	if (hjg_cuda_check(&bench->streams->work, hjg_cuda.host_register(ptr, bytes, HJG_CUDA_HOST_PORTABLE), "pinned memory") == HJG_OK)
		return ptr;
	munmap(ptr, bytes);
	return NULL;
}

/* ---- inputs and the check ---- */

/* Mix with other permutations than those of hjg_hash.h. */
static hjg_u32
key_4(hjg_u32 id)
{
	id *= 0x9E3779B1u;
	id ^= id >> 15;
	id *= 0x85EBCA77u;
	id ^= id >> 13;
	return id * 0xC2B2AE3Du;
}

static hjg_u64
key_8(hjg_u64 id)
{
	id ^= id >> 33;
	id *= 0xFF51AFD7ED558CCDull;
	id ^= id >> 33;
	id *= 0xC4CEB9FE1A85EC53ull;
	return id ^ id >> 33;
}

static void
put_key(const HjgHostData *data, void *keys, hjg_u64 row, hjg_u32 id)
{
	if (data->c->width == HJG_KEY_WIDTH_4)
		((hjg_u32 *) keys)[row] = key_4(id);
	else
		((hjg_u64 *) keys)[row] = key_8((hjg_u64) id + 1);
}

static void
fill_build(void *arg, int piece, int worker)
{
	const HjgHostData *data = arg;
	const hjg_u64 from = (hjg_u64) piece * PIECE_ROWS;

	for (hjg_u64 i = from; i < from + PIECE_ROWS && i < data->join.build.nrows; i++)
		put_key(data, data->build_keys, i, (hjg_u32) i);
}

static void
fill_probe(void *arg, int piece, int worker)
{
	HjgHostData   *data = arg;
	const hjg_u64 from = (hjg_u64) piece * PIECE_ROWS;
	hjg_u64		sum = 0;

	for (hjg_u64 i = from; i < from + PIECE_ROWS && i < data->join.probe.nrows; i++)
	{
		const hjg_u32 id = (hjg_u32) (key_8(i + 0x5DEECE66Dull) % data->join.build.nrows);

		put_key(data, data->probe_keys, i, id);
		sum += hjg_checksum_pair((hjg_u32) i, id);
	}
	__atomic_fetch_add(&data->expected, sum, __ATOMIC_RELAXED);
}

static bool
same_host_key(const HjgHostData *data, hjg_u64 build_row, hjg_u64 probe_row)
{
	const size_t width = (size_t) data->c->width;

	return build_row < data->join.build.nrows && probe_row < data->join.probe.nrows &&
		memcmp((char *) data->build_keys + build_row * width, (char *) data->probe_keys + probe_row * width, width) == 0;
}

static void
check_batch(void *arg, int piece, int worker)
{
	HjgHostData   *data = arg;
	const HjgCudaBatch batch = data->result.batches[piece];
	hjg_u64		sum = 0;
	hjg_u64		nwrong = 0;

	for (hjg_u64 i = 0; i < batch.npairs; i++)
	{
		const HjgPair pair = data->result.pairs[batch.first_pair + i];

		sum += hjg_checksum_pair((hjg_u32) batch.first_row + pair.probe_row, pair.build_row);
		nwrong += !same_host_key(data, pair.build_row, batch.first_row + pair.probe_row);
	}
	__atomic_fetch_add(&data->checksum, sum, __ATOMIC_RELAXED);
	__atomic_fetch_add(&data->nwrong, nwrong, __ATOMIC_RELAXED);
}

bool
hjg_host_data_check(HjgHostBench *bench, HjgHostData *data)
{
	data->checksum = data->nwrong = 0;
	hjg_pool_run(bench->pool, data->result.nbatches, check_batch, data);
	return data->result.npairs == data->join.probe.nrows && data->checksum == data->expected && data->nwrong == 0;
}

static int
pieces_of(hjg_u64 nrows)
{
	return (int) ((nrows + PIECE_ROWS - 1) / PIECE_ROWS);
}

void
hjg_host_data_free(HjgHostData *data)
{
	hjg_host_unpin(data->build_keys, data->join.build.nrows * (size_t) data->c->width);
	hjg_host_unpin(data->probe_keys, data->join.probe.nrows * (size_t) data->c->width);
	hjg_host_unpin(data->result.pairs, data->result.capacity * sizeof(HjgPair));
	hjg_host_unpin(data->memory, data->memory_bytes);
	free(data->result.batches);
}

/* Plan the system of the case, its chunks, and its memory for partitioned rows. */
static void
plan_system(const HjgHostBench *bench, HjgHostData *data)
{
	HjgCudaHostJoin *join = &data->join;
	const hjg_u64 set_rows = (hjg_u64) ((double) join->build.nrows * bench->set_part) + bench->block_rows;
	const int	nstagers = hjg_pool_nthreads(bench->stagers);
	hjg_u32		block_rows;

	data->system = data->c->system != HJG_HOST_CHOSEN ? data->c->system :
		hjg_lab_copro_ns(&bench->rates, join, set_rows) < hjg_lab_spill_ns(&bench->rates, join, set_rows) ? HJG_HOST_COPRO : HJG_HOST_SPILL;
	join->chunk_rows = bench->chunk_rows != 0 ? bench->chunk_rows : data->system == HJG_HOST_SPILL ?
		hjg_lab_spill_chunk_rows(join->build.nrows) : hjg_lab_flow_chunk_rows(join->build.nrows);
	block_rows = bench->block_rows < join->chunk_rows ? bench->block_rows : (hjg_u32) join->chunk_rows / HJG_STAGE_GROUP * HJG_STAGE_GROUP;
	data->copro = (HjgCudaCopro) {
		.join = *join, .pool = bench->stagers, .bits = bench->copro_bits, .block_rows = block_rows, .set_rows = set_rows
	};
	data->spill = (HjgCudaSpill) {.join = *join, .bits = bench->spill_bits, .set_rows = set_rows};
	data->blocks.nblocks = hjg_stage_blocks(join->build.nrows, bench->copro_bits, block_rows, nstagers) +
		hjg_stage_blocks(join->probe.nrows, bench->copro_bits, block_rows, nstagers);
	data->spill.memory_bytes = hjg_lab_spill_memory(&data->spill);
	data->memory_bytes = data->system == HJG_HOST_COPRO ?
		data->blocks.nblocks * hjg_stage_block_bytes(join->key_width, block_rows) :
		data->system == HJG_HOST_SPILL ? data->spill.memory_bytes : 0;
}

HjgStatus
hjg_host_data_make(HjgHostBench *bench, const HjgHostCase *c, HjgHostData *data)
{
	const hjg_u64 nbuild = (hjg_u64) (c->nbuild * bench->factor * MILLION) + 1;
	const hjg_u64 nprobe = (hjg_u64) (c->nprobe * bench->factor * MILLION) + 1;
	memset(data, 0, sizeof(*data));
	data->c = c;
	data->join = (HjgCudaHostJoin) {
		.key_width = c->width, .mode = HJG_MATCH_ALL, .strategy = bench->strategy,
		.build.nrows = nbuild, .probe.nrows = nprobe
	};
	plan_system(bench, data);
	data->result.capacity = nprobe;
	data->result.max_batches = (int) (nprobe / data->join.chunk_rows * 2) + 1024;
	if ((nbuild + nprobe) * (size_t) c->width + nprobe * sizeof(HjgPair) + data->memory_bytes >
		(size_t) sysconf(_SC_PHYS_PAGES) * (size_t) sysconf(_SC_PAGESIZE) / 4 * 3)
		return HJG_ERR_MEMORY;
	data->build_keys = hjg_host_pinned(bench, nbuild * (size_t) c->width);
	data->probe_keys = hjg_host_pinned(bench, nprobe * (size_t) c->width);
	data->result.pairs = hjg_host_pinned(bench, nprobe * sizeof(HjgPair));
	data->result.batches = calloc((size_t) data->result.max_batches, sizeof(HjgCudaBatch));
	if (data->build_keys == NULL || data->probe_keys == NULL || data->result.pairs == NULL || data->result.batches == NULL)
		return HJG_ERR_MEMORY;
	if (data->memory_bytes > 0)
	{
		data->memory = hjg_host_pinned(bench, data->memory_bytes);
		if (data->memory == NULL)
			return HJG_ERR_MEMORY;
	}
	data->join.build.keys = data->build_keys;
	data->join.probe.keys = data->probe_keys;
	data->copro.join = data->spill.join = data->join;
	data->copro.memory = &data->blocks;
	data->blocks.base = data->memory;
	data->spill.memory = data->memory;
	hjg_pool_run(bench->pool, pieces_of(nbuild), fill_build, data);
	hjg_pool_run(bench->pool, pieces_of(nprobe), fill_probe, data);
	return HJG_OK;
}
