/*
 * calibrate_calls.c
 *	  hjoin_gpu_calibrate(): unit costs that are measured on the functions that joins use: keys and columns, memory,
 *	  temporary files, Bloom filters, the backend's own engine, a job.
 */
#include "postgres.h"

#include <sys/mman.h>

#include "catalog/pg_collation_d.h"
#include "catalog/pg_operator_d.h"
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "calibrate/hjg_calibrate.h"
#include "engine/hjg_engine.h"
#include "engine/hjg_engine_bloom.h"
#include "model/hjg_measured.h"
#include "rows/hjg_rows.h"

#define CALIBRATE_BUILD_ROWS 200000
#define CALIBRATE_PROBE_ROWS 1000000

/* Keys at this distance are too sparse for an array. */
#define SPARSE_DISTANCE 7

/* Repeats of a round trip, which give a median, and passes of everything else, which give a least value. */
#define REPEATS 5
#define PASSES 3

#define SPILL_FILES 32
#define SPILL_ROWS 100000
#define SPILL_WIDE_ROWS 10000
#define SPILL_WIDTH 1000
#define MEMORY_BYTES (64 * 1024 * 1024)
#define CACHE_LINE_BYTES 64
#define RANDOM_READS 200000
/* Pieces of these reads, so short that few are disturbed. */
#define RANDOM_PIECES 200
#define BLOOM_LARGE_KEYS (1 << 22)
#define BLOOM_SMALL_KEYS (1 << 14)
#define BLOOM_TESTED_ROWS (1 << 20)

/* Compute the nanoseconds since start for each row. */
static double
per_row(uint64 start, double rows)
{
	const double ns = (hjg_now_ns() - start) / rows;

	return Max(ns, 0.1);
}

/* Measure encoding keys and storing columns, of 4 bytes and of a text. */
static void
measure_data_path(HjgUnitCosts *costs, MemoryContext context)
{
	Oid			int4_ops[] = {Int4EqualOperator};
	Oid			text_ops[] = {TextEqualOperator};
	Oid			no_collation[] = {InvalidOid};
	Oid			text_collation[] = {DEFAULT_COLLATION_OID};
	HjgKeyCodec *int4_codec = hjg_rows_key_codec(1, int4_ops, no_collation, true);
	HjgKeyCodec *text_codec = hjg_rows_key_codec(1, text_ops, text_collation, true);
	HjgColumn	column = {.attlen = 4, .attbyval = true};
	HjgColumn	text_column = {.attlen = -1, .attbyval = false};
	HjgStore   *text_store = hjg_rows_store_create(context, 1, &text_column, CALIBRATE_BUILD_ROWS);
	const int	source = 0;
	HjgStore   *store = hjg_rows_store_create(context, 1, &column, CALIBRATE_PROBE_ROWS);
	char	   *keys = MemoryContextAllocHuge(context, (Size) CALIBRATE_PROBE_ROWS * 8);
	Datum		text_value = CStringGetTextDatum("twenty bytes of text");
	bool		isnull = false;
	uint32		rows[HJG_VECTOR_ROWS];
	Datum		values[HJG_VECTOR_ROWS];
	bool		nulls[HJG_VECTOR_ROWS];
	double		append_ns;
	double		gather_ns;
	uint64		start;

	start = hjg_now_ns();
	for (int i = 0; i < CALIBRATE_PROBE_ROWS; i++)
	{
		Datum		value = Int32GetDatum(i);

		hjg_rows_key_encode(int4_codec, &value, &isnull, keys + (Size) i * 4);
	}
	costs->marshal_tuple_ns = per_row(start, CALIBRATE_PROBE_ROWS);

	start = hjg_now_ns();
	for (int i = 0; i < CALIBRATE_PROBE_ROWS; i++)
		hjg_rows_key_encode(text_codec, &text_value, &isnull, keys + (Size) i * 8);
	costs->hash_key_ns = per_row(start, CALIBRATE_PROBE_ROWS);

	start = hjg_now_ns();
	for (int i = 0; i < CALIBRATE_PROBE_ROWS; i++)
	{
		Datum		value = Int32GetDatum(i);

		hjg_rows_store_append(store, &source, &value, &isnull);
	}
	append_ns = per_row(start, CALIBRATE_PROBE_ROWS);

	/* rows in random order, like the pairs of a partitioned join */
	start = hjg_now_ns();
	for (int i = 0; i < CALIBRATE_PROBE_ROWS; i += HJG_VECTOR_ROWS)
	{
		CHECK_FOR_INTERRUPTS();
		for (int j = 0; j < HJG_VECTOR_ROWS; j++)
			rows[j] = (uint32) (((uint64) (i + j) * 2654435761u) % CALIBRATE_PROBE_ROWS);
		hjg_rows_store_gather(store, rows, HJG_VECTOR_ROWS, &source, 1, values, nulls);
	}
	gather_ns = per_row(start, CALIBRATE_PROBE_ROWS);
	costs->column_ns = Max(append_ns, gather_ns);

	start = hjg_now_ns();
	for (int i = 0; i < CALIBRATE_BUILD_ROWS; i++)
		hjg_rows_store_append(text_store, &source, &text_value, &isnull);
	costs->varlena_ns = per_row(start, CALIBRATE_BUILD_ROWS);
	hjg_rows_store_free(text_store);

	/* reading the child's slot, the scan slot and the projection take about as long as the default */
	costs->marshal_tuple_ns += hjg_model_default_costs.marshal_tuple_ns / 2;
	costs->emit_tuple_ns = hjg_model_default_costs.emit_tuple_ns;
	hjg_rows_store_free(store);
	pfree(keys);
}

/* Measure a row of one value written to one of several files and read, like a join's partitions. */
static double
measure_spill(TupleDesc desc, Datum value, int nrows)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	HjgSpill   *spills[SPILL_FILES];
	const bool	isnull = false;
	const void *key;
	double		nread = 0;
	uint64		start;
	double		ns;

	for (int i = 0; i < SPILL_FILES; i++)
		spills[i] = hjg_rows_spill_create(desc, sizeof(uint32));
	start = hjg_now_ns();
	for (uint32 i = 0; i < nrows; i++)
		hjg_rows_spill_write(spills[(i * 2654435761u) >> 27], &i, &value, &isnull);
	for (int i = 0; i < SPILL_FILES; i++)
	{
		CHECK_FOR_INTERRUPTS();
		hjg_rows_spill_rewind(spills[i]);
		while (hjg_rows_spill_read(spills[i], &key, slot))
			nread++;
	}
	ns = per_row(start, nread);
	for (int i = 0; i < SPILL_FILES; i++)
		hjg_rows_spill_free(spills[i]);
	ExecDropSingleTupleTableSlot(slot);
	return ns;
}

static void
measure_spills(HjgUnitCosts *costs)
{
	TupleDesc	narrow = CreateTemplateTupleDesc(1);
	TupleDesc	wide = CreateTemplateTupleDesc(1);
	char	   *text = palloc0(SPILL_WIDTH);
	double		wide_ns;

	TupleDescInitEntry(narrow, 1, "value", INT4OID, -1, 0);
	TupleDescInitEntry(wide, 1, "value", BYTEAOID, -1, 0);
	SET_VARSIZE(text, SPILL_WIDTH);
	costs->spill_tuple_ns = measure_spill(narrow, Int32GetDatum(1), SPILL_ROWS);
	wide_ns = measure_spill(wide, PointerGetDatum(text), SPILL_WIDE_ROWS);
	costs->spill_mb_ns = Max(wide_ns - costs->spill_tuple_ns, 1) * (1024.0 * 1024.0 / SPILL_WIDTH);
}

/*
 * Measure memory that the system must supply first, like most memory of a larger build side; then a chain through all of its
 * lines.
 */
static void
measure_memory(HjgUnitCosts *costs)
{
	char	   *memory = MemoryContextAllocHuge(CurrentMemoryContext, MEMORY_BYTES);
	const uint32 nlines = MEMORY_BYTES / CACHE_LINE_BYTES;
	double		pieces[RANDOM_PIECES];
	uint32		line = 0;
	uint64		start = hjg_now_ns();

	for (Size at = 0; at < MEMORY_BYTES; at += 1024)
		*(volatile char *) (memory + at) = 0;
	costs->memory_mb_ns = per_row(start, MEMORY_BYTES / (1024 * 1024));
	/* a linear congruential generator of full period */
	for (uint32 i = 0; i < nlines; i++)
		*(uint32 *) (memory + (Size) i * CACHE_LINE_BYTES) = (i * 1664525u + 1013904223u) % nlines;
	for (int piece = 0; piece < RANDOM_PIECES; piece++)
	{
		start = hjg_now_ns();
		for (int i = 0; i < RANDOM_READS / RANDOM_PIECES; i++)
			line = *(volatile uint32 *) (memory + (Size) line * CACHE_LINE_BYTES);
		pieces[piece] = per_row(start, RANDOM_READS / RANDOM_PIECES);
	}
	costs->miss_ns = hjg_median(pieces, RANDOM_PIECES);
	pfree(memory);
}

/* Measure the time to map a page of shared memory that another process has filled: a second mapping of it is read. */
double
hjg_calibrate_mapping_ns(Size bytes)
{
	char	   *filled = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char	   *second;
	uint64		start;

	if (filled == MAP_FAILED)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("could not map memory for calibration: %m")));
	memset(filled, 1, bytes);
	second = mremap(filled, 0, bytes, MREMAP_MAYMOVE);
	if (second == MAP_FAILED)
	{
		munmap(filled, bytes);
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("could not map memory for calibration: %m")));
	}
	start = hjg_now_ns();
	for (Size at = 0; at < bytes; at += BLCKSZ)
		(void) *(volatile char *) (second + at);
	start = hjg_now_ns() - start;
	munmap(second, bytes);
	munmap(filled, bytes);
	return start;
}

/* Measure a row tested with a filter of so many keys, none of which is the row's; and a key added to it. */
static double
measure_bloom(uint32 nkeys, MemoryContext context, double *add_ns)
{
	const size_t bytes = hjg_bloom_bytes(nkeys);
	uint32	   *keys = MemoryContextAllocHuge(context, (Size) Max(nkeys, BLOOM_TESTED_ROWS) * sizeof(uint32));
	void	   *memory = MemoryContextAllocHuge(context, bytes);
	uint16		rows[HJG_VECTOR_ROWS + HJG_BLOOM_ROWS_PAD];
	HjgBloom	bloom;
	double		test_ns;
	uint64		start;

	for (uint32 i = 0; i < nkeys; i++)
		keys[i] = i * 2654435761u;
	hjg_bloom_init(&bloom, sizeof(uint32), memory, bytes);
	start = hjg_now_ns();
	hjg_bloom_add(&bloom, keys, nkeys);
	*add_ns = per_row(start, nkeys);
	for (uint32 i = 0; i < BLOOM_TESTED_ROWS; i++)
		keys[i] = (nkeys + i) * 2654435761u;
	start = hjg_now_ns();
	for (uint32 i = 0; i < BLOOM_TESTED_ROWS; i += HJG_VECTOR_ROWS)
		(void) hjg_bloom_test(&bloom, keys + i, HJG_VECTOR_ROWS, rows);
	test_ns = per_row(start, BLOOM_TESTED_ROWS);
	pfree(memory);
	pfree(keys);
	return test_ns;
}

static void
measure_blooms(HjgUnitCosts *costs, MemoryContext context)
{
	double		small_add_ns;

	costs->bloom_cached_ns = measure_bloom(BLOOM_SMALL_KEYS, context, &small_add_ns);
	costs->bloom_test_ns = measure_bloom(BLOOM_LARGE_KEYS, context, &costs->bloom_add_ns);
	costs->bloom_test_ns = Max(costs->bloom_test_ns, costs->bloom_cached_ns);
}

static void *
calibrate_alloc(void *arg, size_t bytes)
{
	return (void *) TYPEALIGN(64, MemoryContextAllocHuge(arg, bytes + 64));
}

/* Free nothing: the whole context is deleted. */
static void
calibrate_free(void *arg, void *ptr, size_t bytes)
{
}

static bool
calibrate_poll(void *arg)
{
	CHECK_FOR_INTERRUPTS();
	return false;
}

/* Measure a join of the backend's own engine, with unique build keys at this distance; each probe row has a match. */
static void
measure_engine(uint32 distance, MemoryContext context, double *build_ns, double *probe_ns)
{
	HjgJoinSpec spec = {.key_width = 4, .mode = HJG_MATCH_ALL, .strategy = HJG_CPU_AUTO};
	HjgEnv		env = {.arg = context, .alloc = calibrate_alloc, .free = calibrate_free, .poll = calibrate_poll};
	uint32	   *build = MemoryContextAllocHuge(context, (Size) CALIBRATE_BUILD_ROWS * 4);
	uint32	   *probe = MemoryContextAllocHuge(context, (Size) CALIBRATE_PROBE_ROWS * 4);
	HjgPair    *pairs = MemoryContextAllocHuge(context, (Size) CALIBRATE_PROBE_ROWS * sizeof(HjgPair));
	HjgSegment	build_segment = {.keys = build, .nrows = CALIBRATE_BUILD_ROWS};
	HjgSegment	probe_segment = {.keys = probe, .nrows = CALIBRATE_PROBE_ROWS};
	HjgResult	result = {.pages = &pairs, .npages = 1, .page_pairs = CALIBRATE_PROBE_ROWS};
	HjgCursor	cursor = {0};
	HjgJoin    *join;
	uint64		start;

	for (uint32 i = 0; i < CALIBRATE_BUILD_ROWS; i++)
		build[i] = i * distance;
	for (uint32 i = 0; i < CALIBRATE_PROBE_ROWS; i++)
		probe[i] = (uint32) (((uint64) i * 2654435761u) % CALIBRATE_BUILD_ROWS) * distance;
	memset(pairs, 0, (Size) CALIBRATE_PROBE_ROWS * sizeof(HjgPair));

	start = hjg_now_ns();
	if (hjg_join_build(&env, &spec, &build_segment, 1, &join) != HJG_OK)
		elog(ERROR, "calibration of the engine failed");
	*build_ns = per_row(start, CALIBRATE_BUILD_ROWS);
	start = hjg_now_ns();
	if (hjg_join_probe(join, &probe_segment, 1, &cursor, &result) != HJG_OK ||
		result.npairs != CALIBRATE_PROBE_ROWS)
		elog(ERROR, "calibration of the engine failed");
	*probe_ns = per_row(start, CALIBRATE_PROBE_ROWS);
	/* if both are equal, the smaller side must still be the build side: its rows wait in memory */
	*build_ns = Max(*build_ns, 1.25 * *probe_ns);
	hjg_join_free(join);
	pfree(build);
	pfree(probe);
	pfree(pairs);
}

void
hjg_calibrate_engine(MemoryContext context, double *build_ns, double *probe_ns)
{
	measure_engine(SPARSE_DISTANCE, context, build_ns, probe_ns);
	*build_ns *= CALIBRATE_BUILD_ROWS;
	*probe_ns *= CALIBRATE_PROBE_ROWS;
}

/* Measure the round trip of the smallest job, if there is a device process. */
static void
measure_job(HjgUnitCosts *costs)
{
	double		times[REPEATS];
	HjgReason	reason;

	for (int i = -1; i < REPEATS; i++)
	{
		HjgJoinSpec spec = {.key_width = 4, .mode = HJG_MATCH_ALL, .strategy = HJG_CPU_AUTO};
		uint64		start = hjg_now_ns();
		HjgJob	   *job = hjg_job_lease(&spec, (HjgDeviceId) {.kind = HJG_KIND_CPU, .number = HJG_NO_NUMBER}, &reason);
		HjgBatchResult result;
		uint32		slab_ix;
		void	   *slab;
		int			batch;

		if (job == NULL)
			return;
		if ((slab = hjg_job_slab(job, &slab_ix, &reason)) != NULL)
		{
			memset(slab, 0, 4);
			hjg_job_build_add(job, slab_ix, 1, 0, false);
			hjg_job_build_submit(job);
			batch = hjg_job_batch_open(job, 1, &reason);
			slab = batch >= 0 ? hjg_job_slab(job, &slab_ix, &reason) : NULL;
			if (slab != NULL)
			{
				memset(slab, 0, 4);
				hjg_job_batch_add(job, batch, slab_ix, 1, false);
				hjg_job_batch_submit(job, batch);
				slab = hjg_job_batch_wait(job, batch, NULL, &result) == HJG_REASON_NONE ? slab : NULL;
			}
		}
		hjg_job_release(job);
		if (slab == NULL)
			return;
		if (i >= 0)
			times[i] = hjg_now_ns() - start;
	}
	costs->job_ns = Max(hjg_median(times, REPEATS), 1000);
}

/* Measure everything but the job, once. */
static void
measure_pass(HjgUnitCosts *costs)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "hjoin_gpu calibration",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext scans = AllocSetContextCreate(context, "hjoin_gpu calibration of scans", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = CurrentMemoryContext;

	measure_data_path(costs, context);
	MemoryContextSwitchTo(scans);
	hjg_calibrate_scans(costs);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(scans);
	measure_memory(costs);
	costs->map_mb_ns = Max(hjg_calibrate_mapping_ns(MEMORY_BYTES) / (MEMORY_BYTES / (1024 * 1024)), 0.1);
	measure_spills(costs);
	measure_blooms(costs, context);
	measure_engine(SPARSE_DISTANCE, context, &costs->build_tuple_ns, &costs->probe_tuple_ns);
	measure_engine(1, context, &costs->dense_build_ns, &costs->dense_probe_ns);
	MemoryContextDelete(context);
}

/* Keep the least values: a disturbance only adds to a measurement, so the least of several is nearest to the truth. */
static void
keep_least_costs(HjgUnitCosts *costs, const HjgUnitCosts *pass, bool first)
{
	double	   *least = (double *) costs;
	const double *value = (const double *) pass;

	for (int i = 0; i < HJG_MODEL_NCOSTS; i++)
		least[i] = first ? value[i] : Min(least[i], value[i]);
}

void
hjg_calibrate_by_calls(HjgUnitCosts *costs)
{
	for (int i = 0; i < PASSES; i++)
	{
		HjgUnitCosts pass = hjg_model_default_costs;

		measure_pass(&pass);
		keep_least_costs(costs, &pass, i == 0);
	}
	measure_job(costs);
}
