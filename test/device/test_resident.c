/*
 * test_resident.c
 *	  The resident joins: the choice among them, and that each gives the reference's pairs.
 *	  test_resident [--short | --quick | --brief | --shapes] [--strategy NAMES] [seed]: all strategies, or
 *	  these (as in the benchmark).
 *
 * The joins need a device that runs kernels: a real one, or the host that they are compiled for (make
 * check-lab); the choice is tested anywhere. --quick is for tools that make a launch a
 * thousand times slower (compute-sanitizer): few cases, by grids that would fill a small device, but every
 * strategy, match mode and key width, and sizes on both sides of what fits a block. --brief is for
 * racecheck, the slowest of these tools: the same with one match mode a case, in turn. --shapes is for kernels
 * on the host: every shape of keys, but small sides, empty ones among them, and one match mode a case.
 */
#include <dlfcn.h>
#include <getopt.h>
#include <string.h>
#include <time.h>

#include "device/hjg_cuda_parts.h"
#include "hjg_test_engine.h"
#include "lab/hjg_cuda_bench.h"
#include "lab/hjg_cuda_paper.h"
#include "layout/hjg_checksum.h"

#define CANARY 0xC5
#define MARGIN_PAIRS 64
#define MOST_STRATEGIES 64
#define QUICK_MULTIPROCESSORS 4
#define ALIGNED_TILE_ROWS 4096	/* several tiles a block */

static bool quick;
static bool brief;
static bool shapes;

static const char *const mode_names[] = {"all", "left", "semi", "anti"};
static const int widths[] = {4, 8, 16};

/* ---- the choice ---- */

/* Name the strategy that is tried as number ix. */
static const char *
choice(const HjgCudaDevice *device, int width, hjg_u64 nbuild, hjg_u64 nprobe, int ix)
{
	const HjgCudaShape shape = {.key_width = width, .mode = HJG_MATCH_ALL, .build_rows = nbuild, .probe_rows = nprobe};
	const HjgCudaStrategy *choices[HJG_LAB_CHOICES];

	hjg_lab_strategy_choose(device, &shape, choices);
	return choices[ix] != NULL ? choices[ix]->name : "none";
}

/* Test that everything named in the benchmark's tables exists. */
static void
test_tables(void)
{
	for (const HjgBenchTable *t = hjg_bench_tables; t->paper != NULL; t++)
	{
		const char *missing = NULL;
		HjgBenchEntrant entrant;

		for (int i = 0; t->cases[i] != NULL; i++)
			if (hjg_bench_case_named(t->cases[i]) == NULL)
				missing = t->cases[i];
		for (int i = 0; t->strategies[i] != NULL; i++)
			if (!hjg_bench_entrant_of(t->strategies[i], &entrant))
				missing = t->strategies[i];
		claim(missing == NULL, "table of %s, %s: every case and strategy exists%s%s", t->paper, t->title,
			  missing != NULL ? ", not " : "", missing != NULL ? missing : "");
	}
}

static void
test_names(void)
{
	const char *found[HJG_BENCH_MOST];

	claim(hjg_bench_names_of("smj,nops", found) && strcmp(found[0], "smj") == 0 && strcmp(found[1], "nop_chain") == 0 &&
		  strcmp(found[2], "nop_open") == 0 && found[3] == NULL, "names and sets of strategies are listed in their order");
	claim(hjg_bench_names_of("prbc/part=512/vt=4,cpu", found) && strcmp(found[0], "prbc/part=512/vt=4") == 0 && found[2] == NULL &&
		  !hjg_bench_names_of("prbc/size=1", found) && !hjg_bench_names_of("prbc/part=", found), "settings follow names, and only settings");
	claim(!hjg_bench_names_of("smj,nothing", found) && !hjg_bench_names_of("", found), "what is no strategy is refused");
}

static void
test_choice(void)
{
	const HjgCudaDevice large = {.multiprocessors = 132, .compute_capability = 90, .l2_bytes = 50u << 20, .shared_bytes = 232448};
	const HjgCudaDevice small = {.multiprocessors = 40, .compute_capability = 75, .l2_bytes = 4u << 20, .shared_bytes = 65536};
	const hjg_u64 million = 1u << 20;
	struct
	{
		int			width;
		hjg_u64		nbuild;
		hjg_u64		nprobe;
		const char *expected;
	}			all[] = {
		{4, 2 * million, 2 * million, "radix1"},
		{4, 128 * million, 128 * million, "radix1"},
		{4, 256 * million, 256 * million, "radix2"},
		{8, 128 * million, 128 * million, "radix2"},
		{16, 64 * million, 64 * million, "radix2"},
		{4, million, 64 * million, "direct"},
		{16, million / 4, 64 * million, "table"},
		{4, 3ull << 30, million, "none"},
		{4, 0, million, "none"},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
	{
		const char *name = choice(&large, all[i].width, all[i].nbuild, all[i].nprobe, 0);

		claim(strcmp(name, all[i].expected) == 0, "%d-byte keys, %llu x %llu rows: %s is tried first, not %s", all[i].width,
			  (unsigned long long) all[i].nbuild, (unsigned long long) all[i].nprobe, all[i].expected, name);
	}
	claim(strcmp(choice(&small, 4, 128 * million, 128 * million, 0), "none") == 0,
		  "with 64 KB of shared memory a block no partitions are joined");
	claim(strcmp(choice(&large, 4, 2 * million, 64 * million, 1), "packed") == 0,
		  "2M rows of 4 bytes that are not dense go to the table of packed slots");
	claim(strcmp(choice(&large, 4, 8 * million, 64 * million, 0), "radix1") == 0, "8M go to partitions: the cache does not hold them");
	claim(strcmp(choice(&large, 8, million / 2, 64 * million, 1), "table") == 0, "keys of 8 bytes go to the table with tags");
	for (int i = 0; hjg_cuda_strategy_at(i) != NULL; i++)
		claim(hjg_lab_strategy_named(hjg_cuda_strategy_at(i)->name) == hjg_cuda_strategy_at(i), "%s is found by its name",
			  hjg_cuda_strategy_at(i)->name);
	claim(hjg_lab_strategy_named("nothing") == NULL, "no other name is");
}

/* ---- a table that fails its check ---- */

static int	nfreed;

static HjgStatus
build_any(HjgCudaStream *stream, const HjgCudaShape *shape, const HjgCudaSide *build, void **table)
{
	*table = &nfreed;
	return HJG_OK;
}

static HjgStatus
refuse(HjgCudaStream *stream, void *table)
{
	return HJG_ERR_INPUT;
}

static void
count_free(HjgCudaStream *stream, void *table)
{
	nfreed++;
}

static void
test_refused(void)
{
	const HjgCudaStrategy refused = {.name = "refused", .build = build_any, .verify = refuse, .free = count_free};
	void	   *table = NULL;

	claim(hjg_cuda_strategy_build(&refused, NULL, NULL, NULL, &table) == HJG_ERR_INPUT && table == NULL && nfreed == 1,
		  "a table that fails its check is freed once, and no caller gets it");
}

/* ---- the joins ---- */

typedef struct Joined
{
	HjgCudaStream *stream;
	HjgCudaSide build;
	HjgCudaSide probe;
	HjgCudaPtr	pairs;
	HjgCudaPtr	counters;
	HjgPair    *found;			/* capacity + MARGIN_PAIRS */
} Joined;

static void
must(HjgStatus status, const HjgCudaStream *stream)
{
	if (status == HJG_OK)
		return;
	printf("Bail out! %s: %s\n", hjg_status_text(status), stream->error);
	exit(1);
}

static void
take(HjgCudaStream *stream, HjgLabMoving moving, size_t bytes, HjgCudaPtr *ptr)
{
	must(moving == HJG_LAB_BY_COPY ? hjg_cuda_alloc(stream, bytes, ptr) : hjg_lab_managed_take(stream, bytes, ptr), stream);
}

/*
 * Copy a side to the device: in the order of row numbers if they have no gaps; otherwise, and with_rows,
 * with a column of row numbers.
 */
static void
upload(HjgCudaStream *stream, HjgLabMoving moving, const Side *from, int width, bool with_rows, HjgCudaSide *to)
{
	hjg_u32    *rows = calloc(from->nrows + 1, sizeof(hjg_u32));
	size_t		at = 0;

	for (int s = 0; s < from->nsegments; s++)
		with_rows |= from->segments[s].first_row + from->segments[s].nrows > from->nrows;
	take(stream, moving, ((size_t) from->nrows + 1) * (size_t) width, &to->keys);
	to->nrows = from->nrows;
	for (int s = 0; s < from->nsegments; s++)
	{
		const HjgSegment *segment = &from->segments[s];
		const size_t place = with_rows ? at : segment->first_row;

		must(hjg_lab_bring(stream, moving, to->keys + place * (size_t) width, segment->keys,
							(size_t) segment->nrows * (size_t) width), stream);
		for (hjg_u32 i = 0; i < segment->nrows; i++)
			rows[at++] = segment->first_row + i;
	}
	if (with_rows)
	{
		take(stream, moving, ((size_t) from->nrows + 1) * sizeof(hjg_u32), &to->rows);
		must(hjg_lab_bring(stream, moving, to->rows, rows, at * sizeof(hjg_u32)), stream);
	}
	must(hjg_cuda_wait(stream), stream);
	free(rows);
}

static int
compare_pairs(const void *a, const void *b)
{
	const HjgPair *x = a;
	const HjgPair *y = b;

	if (x->probe_row != y->probe_row)
		return x->probe_row < y->probe_row ? -1 : 1;
	return x->build_row < y->build_row ? -1 : x->build_row > y->build_row;
}

/* Find the key of a row number. */
static const hjg_u8 *
key_of(const Side *side, int width, hjg_u32 row)
{
	for (int s = 0; s < side->nsegments; s++)
		if (row - side->segments[s].first_row < side->segments[s].nrows)
			return (const hjg_u8 *) side->segments[s].keys + (size_t) (row - side->segments[s].first_row) * (size_t) width;
	return NULL;
}

static bool
same_pairs(const Case *c, HjgPair *found)
{
	qsort(found, c->nexpected, sizeof(HjgPair), compare_pairs);
	for (hjg_u64 i = 0; i < c->nexpected; i++)
	{
		const hjg_u8 *build;

		if (c->mode != HJG_MATCH_SEMI)
		{
			if (compare_pairs(&found[i], &c->expected[i]) != 0)
				return false;
			continue;
		}
		/* any match is right */
		build = key_of(&c->build, c->width, found[i].build_row);
		if (found[i].probe_row != c->expected[i].probe_row || build == NULL ||
			memcmp(build, key_of(&c->probe, c->width, found[i].probe_row), (size_t) c->width) != 0)
			return false;
	}
	return true;
}

static hjg_u64
probe_into(Joined *joined, const HjgCudaStrategy *strategy, void *table, hjg_u64 capacity, hjg_u64 *checksum)
{
	const size_t bytes = (capacity + MARGIN_PAIRS) * sizeof(HjgPair);
	HjgCudaOutput output = {.pairs = checksum == NULL ? joined->pairs : 0, .capacity = capacity, .counters = joined->counters};
	hjg_u64		counters[2];

	must(hjg_cuda_check(joined->stream, hjg_cuda.set_bytes(joined->pairs, CANARY, bytes, joined->stream->handle), "canary"), joined->stream);
	must(hjg_cuda_zero(joined->stream, joined->counters, sizeof(counters)), joined->stream);
	must(strategy->probe(joined->stream, table, &joined->probe, &output), joined->stream);
	must(hjg_cuda_copy_out(joined->stream, joined->found, joined->pairs, bytes), joined->stream);
	must(hjg_cuda_copy_out(joined->stream, counters, joined->counters, sizeof(counters)), joined->stream);
	must(hjg_cuda_wait(joined->stream), joined->stream);
	if (checksum != NULL)
		*checksum = counters[1];
	return counters[0];
}

static bool
margin_is_clean(const HjgPair *margin)
{
	const hjg_u8 *bytes = (const hjg_u8 *) margin;

	for (size_t i = 0; i < MARGIN_PAIRS * sizeof(HjgPair); i++)
		if (bytes[i] != CANARY)
			return false;
	return true;
}

/* Count the pairs of a join that is probed before its table is verified. */
static hjg_u64
join_ahead(Joined *joined, const HjgCudaStrategy *strategy, const HjgCudaShape *shape, hjg_u64 capacity)
{
	hjg_u64		npairs;
	void	   *table;
	const HjgStatus status = strategy->build(joined->stream, shape, &joined->build, &table);

	/* some modes have no kernel for a table that is not verified */
	if (status == HJG_ERR_INPUT)
		return HJG_CUDA_UNSUITED;
	must(status, joined->stream);
	npairs = probe_into(joined, strategy, table, capacity, NULL);
	strategy->free(joined->stream, table);
	return npairs;
}

/* Join a case; returns NULL or an error text; *declined counts builds that refused. */
static const char *
join_case(HjgCudaStream *stream, const HjgCudaStrategy *strategy, const Case *c, bool with_rows, int *declined)
{
	const HjgCudaShape shape = {
		.key_width = c->width, .mode = c->mode, .build_rows = c->build.nrows, .probe_rows = c->probe.nrows
	};
	const char *wrong = NULL;
	Joined		joined = {.stream = stream};
	hjg_u64		checksum = 0;
	hjg_u64		ahead = 0;
	HjgStatus	status;
	size_t		before;
	void	   *table;

	if (!strategy->suits(stream->device, &shape))
	{
		(*declined)++;
		return NULL;
	}
	upload(stream, hjg_lab_moving(strategy), &c->build, c->width, with_rows, &joined.build);
	upload(stream, hjg_lab_moving(strategy), &c->probe, c->width, with_rows, &joined.probe);
	must(hjg_cuda_alloc(stream, (c->nexpected + MARGIN_PAIRS) * sizeof(HjgPair), &joined.pairs), stream);
	must(hjg_cuda_alloc(stream, 2 * sizeof(hjg_u64), &joined.counters), stream);
	joined.found = malloc((c->nexpected + MARGIN_PAIRS) * sizeof(HjgPair));
	if (strategy->verify != NULL)
		ahead = join_ahead(&joined, strategy, &shape, c->nexpected);
	before = stream->grant->used_bytes;
	stream->grant->peak_bytes = before;
	status = hjg_cuda_strategy_build(strategy, stream, &shape, &joined.build, &table);
	if (status == HJG_ERR_INPUT)
		(*declined)++;
	else
	{
		must(status, stream);
		for (hjg_u64 i = 0; i < c->nexpected && c->mode != HJG_MATCH_SEMI; i++)
			checksum += hjg_checksum_pair(c->expected[i].probe_row, c->expected[i].build_row);
		if (probe_into(&joined, strategy, table, c->nexpected, NULL) != c->nexpected)
			wrong = "wrong number of pairs";
		else if (!same_pairs(c, joined.found))
			wrong = "wrong pairs";
		else if (!margin_is_clean(joined.found + c->nexpected))
			wrong = "written beyond the capacity";
		else if (c->nexpected > 1 && (probe_into(&joined, strategy, table, c->nexpected / 2, NULL) <= c->nexpected / 2 ||
									  !margin_is_clean(joined.found + c->nexpected / 2)))
			wrong = "a small capacity is not kept";
		else
		{
			hjg_u64		sum;

			if (!hjg_lab_pairs_only(strategy) &&
				(probe_into(&joined, strategy, table, 0, &sum) != c->nexpected || (c->mode != HJG_MATCH_SEMI && sum != checksum)))
				wrong = "wrong checksum";
			else if (stream->grant->peak_bytes - before > strategy->bytes(stream->device, &shape))
				wrong = "more device memory than it says";
		}
		strategy->free(stream, table);
	}
	if (wrong == NULL && strategy->verify != NULL && c->probe.nrows > 0 &&
		ahead != (status == HJG_OK ? c->nexpected : HJG_CUDA_UNSUITED))
		wrong = "a build that nobody waits for decides otherwise";
	must(hjg_cuda_wait(stream), stream);
	for (int i = 0; i < 4; i++)
	{
		const HjgCudaPtr ptr = i == 0 ? joined.build.keys : i == 1 ? joined.build.rows : i == 2 ? joined.probe.keys : joined.probe.rows;

		if (hjg_lab_moving(strategy) == HJG_LAB_BY_COPY)
			hjg_cuda_free(stream, ptr);
		else
			hjg_lab_managed_give(stream, ptr);
	}
	hjg_cuda_free(stream, joined.pairs);
	hjg_cuda_free(stream, joined.counters);
	free(joined.found);
	return wrong;
}

/* Names of the strategies to run. */
static const char *names[HJG_BENCH_MOST];

static bool
is_run(const HjgCudaStrategy *strategy)
{
	for (int i = 0; names[i] != NULL; i++)
		if (strcmp(strategy->name, names[i]) == 0)
			return true;
	return false;
}

/* Outcomes of one strategy's runs with one kind of keys. */
typedef struct Tally
{
	const char *wrong;
	int			declined;
	int			nruns;
} Tally;

/* Run all strategies on one case. */
static void
join_all(HjgCudaStream *stream, const Case *c, bool with_rows, Tally *tallies)
{
	for (int s = 0; hjg_cuda_strategy_at(s) != NULL; s++)
	{
		Tally	   *tally = &tallies[s];

		if (tally->wrong != NULL || !is_run(hjg_cuda_strategy_at(s)))
			continue;
		tally->nruns++;
		tally->wrong = join_case(stream, hjg_cuda_strategy_at(s), c, with_rows, &tally->declined);
		if (tally->wrong != NULL)
			printf("# %s, %s: mode %s, %u x %u rows\n", hjg_cuda_strategy_at(s)->name, tally->wrong, mode_names[c->mode],
				   c->build.nrows, c->probe.nrows);
	}
}

static void
test_joins(HjgCudaStream *stream)
{
	static const hjg_u32 all_sizes[][2] = {
		{1000, 0}, {1, 1}, {1, 1000}, {700, 1500}, {1000, 1}, {255, 257}, {5000, 20000}, {30000, 20000}
	};
	static const hjg_u32 quick_sizes[][2] = {{300, 500}, {40000, 20000}};
	static const hjg_u32 small_sizes[][2] = {{0, 300}, {300, 0}, {1, 1}, {300, 500}, {9000, 6000}};
	const hjg_u32 (*sizes)[2] = shapes ? small_sizes : quick ? quick_sizes : all_sizes;
	const int	nsizes = shapes ? 5 : quick ? 2 : short_run ? 4 : 8;
	int			njoined[MOST_STRATEGIES] = {0};

	for (int w = 0; w < 3; w++)
		for (int shape = 0; shape < KEYS_NSHAPES; shape++)
		{
			Tally		tallies[MOST_STRATEGIES] = {0};

			if (quick && !shapes && shape != KEYS_UNIFORM && shape != KEYS_ONE_HOT_BOTH)
				continue;
			if (short_run && shape != KEYS_UNIFORM && shape != KEYS_ONE_HOT_BOTH && shape != KEYS_COLLIDING_HOT)
				continue;
			for (int i = 0; i < nsizes; i++)
				for (int mode = 0; mode <= HJG_MATCH_ANTI; mode++)
				{
					/* products of hot keys grow with the square */
					hjg_u32		shrink = shape != KEYS_ONE_HOT_BOTH ? 1 : quick && !shapes ? sizes[i][0] / 100 : sizes[i][0] > 1000 ? 20 : 1;
					Case		c;

					if (brief && mode != (2 * i + w + shape) % (HJG_MATCH_ANTI + 1))
						continue;
					/* some cases suffice for sides that the host takes long for */
					if (shapes && sizes[i][0] > 1000 && (w > 0 || (shape != KEYS_UNIFORM && shape != KEYS_ONE_HOT_BUILD)))
						shrink *= 6;
					case_create(&c, test_seed + (hjg_u64) (shape * 16 + mode), widths[w], mode, shape,
								sizes[i][0] / shrink, sizes[i][1] / shrink);
					/* in every other case partitions of few rows need several passes */
					hjg_cuda_paper_tuning.part_rows = (i + mode / 2) % 2 == 0 ? 16 : 0;
					/*
					 * in three of four cases radix1 partitions as for millions of rows, to 2^10, 2^11 and
					 * 2^12 partitions
					 */
					hjg_cuda_parts_tuning = (HjgCudaPartsTuning) {
						.aligned_bits = (i + mode) % 4 == 0 ? 0 : HJG_CUDA_ALIGNED_LEAST_BITS - 1 + (i + mode) % 4,
						.tile_rows = ALIGNED_TILE_ROWS
					};
					join_all(stream, &c, (i + mode) % 2 == 0, tallies);
					case_destroy(&c);
				}
			for (int s = 0; hjg_cuda_strategy_at(s) != NULL; s++)
				if (is_run(hjg_cuda_strategy_at(s)))
				{
					claim(tallies[s].wrong == NULL, "%s, %d-byte keys, %s: %d runs equal the reference, %d declined",
						  hjg_cuda_strategy_at(s)->name, widths[w], key_shape_names[shape],
						  tallies[s].nruns - tallies[s].declined, tallies[s].declined);
					njoined[s] += tallies[s].nruns - tallies[s].declined;
				}
		}
	for (int s = 0; hjg_cuda_strategy_at(s) != NULL; s++)
		if (is_run(hjg_cuda_strategy_at(s)))
			claim(njoined[s] > 0, "%s joined %d cases in all", hjg_cuda_strategy_at(s)->name, njoined[s]);
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{"brief", no_argument, NULL, 'b'},
		{"quick", no_argument, NULL, 'q'},
		{"shapes", no_argument, NULL, 'k'},
		{"short", no_argument, NULL, 's'},
		{"strategy", required_argument, NULL, 'n'},
		{NULL, 0, NULL, 0}
	};
	HjgDeviceInfo infos[HJG_CUDA_MAX_DEVICES] = {0};
	HjgCudaDevice *device;
	HjgCudaGrant grant;
	HjgCudaStream stream;
	char		reason[128];
	void	   *library;
	int			option;

	hjg_lab_strategies_open();
	hjg_bench_names_of("all", names);
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
	{
		if (option == '?' || (option == 'n' && !hjg_bench_names_of(optarg, names)))
			return 2;
		short_run |= option == 's';
		quick |= option == 'q' || option == 'b' || option == 'k';
		brief |= option == 'b' || option == 'k';
		shapes |= option == 'k';
	}
	set_test_seed(optind < argc ? strtoull(argv[optind], NULL, 0) : (hjg_u64) time(NULL));
	printf("# seed %llu%s\n", (unsigned long long) test_seed, short_run ? ", short run" : "");
	test_choice();
	test_names();
	test_tables();
	test_refused();
	hjg_cuda_list(infos, HJG_CUDA_MAX_DEVICES);
	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	if (infos[0].state != HJG_DEVICE_READY ||
		(library != NULL && dlsym(library, "hjg_stub") != NULL && dlsym(library, "hjg_stub_runs_kernels") == NULL))
		printf("# no device that runs kernels: the joins are not run\n");
	else if ((device = hjg_cuda_enter(0, reason, sizeof(reason))) == NULL)
		claim(false, "the device can be used: %s", reason);
	else
	{
		if (quick)
			device->multiprocessors = QUICK_MULTIPROCESSORS;
		must(hjg_cuda_admit(device->pool, hjg_cuda_pool_budget(device->pool) / 2, NULL, 0, &grant), &stream);
		must(hjg_cuda_stream_open(&stream, device, NULL, &grant), &stream);
		test_joins(&stream);
		must(hjg_cuda_wait(&stream), &stream);
		claim(grant.used_bytes == 0, "all device memory was given back");
		hjg_cuda_stream_close(&stream);
		hjg_cuda_dismiss(&grant);
	}
	printf("1..%d\n", claims_passed + claims_failed);
	return claims_failed > 0;
}
