/*
 * lab_host_data.c
 *	  Benchmark of joins of sides in host memory: sides, results, and their check.
 */
#include <math.h>
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

static hjg_u32
distinct_keys(const HjgHostData *data)
{
	const hjg_u64 duplicates = data->c->duplicates > 0 ? (hjg_u64) data->c->duplicates : 1;

	return (hjg_u32) (data->join.build.nrows / duplicates > 0 ? data->join.build.nrows / duplicates : 1);
}

/* Draw a key number by zipf's law: the inverse of its continuous form, popular keys spread over all. */
static hjg_u32
draw_zipf(hjg_u64 random, hjg_u32 distinct, double theta)
{
	const double u = (double) (random >> 11) / 9007199254740992.0;
	const double n = distinct;
	const double x = theta == 1.0 ? pow(n, u) : pow(u * (pow(n, 1 - theta) - 1) + 1, 1 / (1 - theta));
	const hjg_u64 rank = x >= n ? distinct - 1 : (hjg_u64) x - 1;

	return (hjg_u32) ((rank * 2654435761u + 12345) % distinct);
}

static void
fill_build(void *arg, int piece, int worker)
{
	const HjgHostData *data = arg;
	const hjg_u64 from = (hjg_u64) piece * PIECE_ROWS;
	const hjg_u32 distinct = distinct_keys(data);

	for (hjg_u64 i = from; i < from + PIECE_ROWS && i < data->join.build.nrows; i++)
	{
		const hjg_u32 id = data->counts == NULL ? (hjg_u32) (i % distinct) :
			draw_zipf(key_8(i + 0x2545F491ull), distinct, data->c->build_theta);

		put_key(data, data->build_keys, i, id);
		if (data->counts != NULL)
			__atomic_fetch_add(&data->counts[id], 1, __ATOMIC_RELAXED);
	}
}

static void
fill_probe(void *arg, int piece, int worker)
{
	HjgHostData   *data = arg;
	const hjg_u64 from = (hjg_u64) piece * PIECE_ROWS;
	const hjg_u32 distinct = distinct_keys(data);
	hjg_u64		sum = 0;
	hjg_u64		npairs = 0;

	for (hjg_u64 i = from; i < from + PIECE_ROWS && i < data->join.probe.nrows; i++)
	{
		const hjg_u64 random = key_8(i + 0x5DEECE66Dull);
		const hjg_u32 id = data->c->probe_theta > 0 ? draw_zipf(random, distinct, data->c->probe_theta) : (hjg_u32) (random % distinct);

		put_key(data, data->probe_keys, i, id);
		if (data->counts != NULL)
			npairs += data->counts[id];
		for (hjg_u64 b = id; data->counts == NULL && b < data->join.build.nrows; b += distinct, npairs++)
			sum += hjg_checksum_pair((hjg_u32) i, (hjg_u32) b);
	}
	__atomic_fetch_add(&data->expected, sum, __ATOMIC_RELAXED);
	__atomic_fetch_add(&data->npairs, npairs, __ATOMIC_RELAXED);
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
	if (!data->join.sum)
		hjg_pool_run(bench->pool, data->result.nbatches, check_batch, data);
	/* the pairs' sum is not known where keys occur at random; sums on the device number rows by chunk */
	return data->result.npairs == data->npairs &&
		(data->join.sum || (data->nwrong == 0 && (data->counts != NULL || data->checksum == data->expected)));
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
	free(data->counts);
}

void
hjg_host_data_begin(const HjgHostBench *bench, const HjgHostCase *c, HjgHostData *data)
{
	memset(data, 0, sizeof(*data));
	data->c = c;
	data->join = (HjgCudaHostJoin) {
		.key_width = c->width, .mode = HJG_MATCH_ALL, .strategy = bench->strategy,
		.build.nrows = (hjg_u64) (c->nbuild * bench->factor * MILLION) + 1,
		.probe.nrows = (hjg_u64) (c->nprobe * bench->factor * MILLION) + 1
	};
}

size_t
hjg_host_data_plan(const HjgHostBench *bench, HjgHostSystem system, HjgHostData *data)
{
	HjgCudaHostJoin *join = &data->join;
	const hjg_u64 set_rows = (hjg_u64) ((double) join->build.nrows * bench->set_part) + bench->block_rows;
	const int	nstagers = hjg_pool_nthreads(bench->stagers);
	hjg_u32		block_rows;

	data->system = system != HJG_HOST_CHOSEN ? system :
		hjg_lab_copro_ns(&bench->rates, join, set_rows) < hjg_lab_spill_ns(&bench->rates, join, set_rows) ? HJG_HOST_COPRO : HJG_HOST_SPILL;
	join->chunk_rows = bench->chunk_rows != 0 ? bench->chunk_rows : data->system == HJG_HOST_SPILL ?
		hjg_lab_spill_chunk_rows(join->build.nrows) : hjg_lab_flow_chunk_rows(join->build.nrows);
	block_rows = bench->block_rows < join->chunk_rows ? bench->block_rows : (hjg_u32) join->chunk_rows / HJG_STAGE_GROUP * HJG_STAGE_GROUP;
	data->copro = (HjgCudaCopro) {
		.join = *join, .pool = bench->stagers, .bits = bench->copro_bits, .block_rows = block_rows, .set_rows = set_rows,
		.memory = &data->blocks
	};
	data->spill = (HjgCudaSpill) {.join = *join, .bits = bench->spill_bits, .set_rows = set_rows, .memory = data->memory};
	data->blocks.base = data->memory;
	data->blocks.nblocks = hjg_stage_blocks(join->build.nrows, bench->copro_bits, block_rows, nstagers) +
		hjg_stage_blocks(join->probe.nrows, bench->copro_bits, block_rows, nstagers);
	data->spill.memory_bytes = hjg_lab_spill_memory(&data->spill);
	return data->system == HJG_HOST_COPRO ? data->blocks.nblocks * hjg_stage_block_bytes(join->key_width, block_rows) :
		data->system == HJG_HOST_SPILL ? data->spill.memory_bytes : 0;
}

HjgStatus
hjg_host_data_make(HjgHostBench *bench, size_t memory_bytes, bool with_pairs, HjgHostData *data)
{
	const size_t width = (size_t) data->c->width;
	const hjg_u64 nbuild = data->join.build.nrows;
	const hjg_u64 nprobe = data->join.probe.nrows;
	const size_t room = (size_t) sysconf(_SC_PHYS_PAGES) * (size_t) sysconf(_SC_PAGESIZE) / 4 * 3;
	const hjg_u64 least_chunk = bench->chunk_rows != 0 ? bench->chunk_rows : PIECE_ROWS;

	data->memory_bytes = memory_bytes;
	if ((nbuild + nprobe) * width + memory_bytes > room)
		return HJG_ERR_MEMORY;
	data->build_keys = hjg_host_pinned(bench, nbuild * width);
	data->probe_keys = hjg_host_pinned(bench, nprobe * width);
	if (data->c->build_theta > 0)
		data->counts = calloc(distinct_keys(data), sizeof(hjg_u32));
	if (data->build_keys == NULL || data->probe_keys == NULL || (data->c->build_theta > 0 && data->counts == NULL))
		return HJG_ERR_MEMORY;
	hjg_pool_run(bench->pool, pieces_of(nbuild), fill_build, data);
	hjg_pool_run(bench->pool, pieces_of(nprobe), fill_probe, data);
	data->result.capacity = with_pairs ? data->npairs : 1;
	data->result.max_batches = (int) (nprobe / least_chunk * 2 + data->npairs / least_chunk * 4) + 1024;
	if ((nbuild + nprobe) * width + memory_bytes + data->result.capacity * sizeof(HjgPair) > room)
		return HJG_ERR_MEMORY;
	data->result.pairs = hjg_host_pinned(bench, data->result.capacity * sizeof(HjgPair));
	data->result.batches = calloc((size_t) data->result.max_batches, sizeof(HjgCudaBatch));
	if (memory_bytes > 0)
		data->memory = hjg_host_pinned(bench, memory_bytes);
	data->join.build.keys = data->build_keys;
	data->join.probe.keys = data->probe_keys;
	return data->result.pairs == NULL || data->result.batches == NULL || (memory_bytes > 0 && data->memory == NULL) ? HJG_ERR_MEMORY : HJG_OK;
}
