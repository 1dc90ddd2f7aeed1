/*
 * test_pack.c
 *	  Packing of key columns: every plan restores its input, for easy and adversarial columns; damage is
 *	  found; the planner's predicted sizes are right.
 */
#include <string.h>

#include "coupled/hjg_pack.h"
#include "hjg_test_engine.h"
#include "lab/hjg_lab_plan.h"
#include "layout/hjg_checksum.h"

static const int widths[] = {4, 8, 16};

typedef enum Shape
{
	RANDOM,
	SMALL,						/* 0 to 999 */
	AROUND_ZERO,				/* -500 to 499 */
	FAR_AWAY,					/* a short range far from zero */
	SORTED,
	FALLING,					/* through zero, so that it wraps around */
	LEAPS,						/* distances of half the range and more */
	CONSTANT,
	RUNS,
	LONG_RUNS,
	FEW,						/* 40 values from everywhere */
	EXTREMES,
	VARIED,						/* of all sizes */
	DECIMALS,					/* floats with two decimals */
	NEGATIVE_ZEROS,				/* floats that Scale must not touch */
	NSHAPES
} Shape;

static const char *const shape_names[NSHAPES] = {
	"random", "small", "around zero", "far away", "sorted", "falling", "leaps", "constant", "runs", "long runs", "few values",
	"extremes", "of all sizes", "decimals", "negative zeros"
};

/* Get the bits of a float of this width. */
static hjg_u64
float_bits(int width, double number)
{
	float		narrow = (float) number;
	hjg_u64		bits = 0;

	if (width == 4)
		memcpy(&bits, &narrow, 4);
	else
		memcpy(&bits, &number, 8);
	return bits;
}

static hjg_u64
value_of(Shape shape, int width, hjg_u32 i, hjg_u64 last, Random *random)
{
	switch (shape)
	{
		case RANDOM:
			return random_u64(random);
		case SMALL:
			return random_below(random, 1000);
		case AROUND_ZERO:
			return (hjg_u64) ((int64_t) random_below(random, 1000) - 500);
		case FAR_AWAY:
			return (hjg_u64) 0xC0FFEE00DEAD0000 + random_below(random, 3000);
		case SORTED:
			return last + random_below(random, 4);
		case FALLING:
			return (i == 0 ? 20000 : last) - random_below(random, 9);
		case LEAPS:
			return last + ((hjg_u64) 1 << (width * 8 - 1)) + random_below(random, 3);
		case CONSTANT:
			return 0x8000000080000000;
		case RUNS:
			return random_below(random, 4) ? last : random_u64(random);
		case LONG_RUNS:
			return random_below(random, 900) ? last : random_below(random, 50);
		case FEW:
			return hjg_mix64(HJG_HASH_NO_SEED, random_below(random, 40));
		case EXTREMES:
			return random_below(random, 3) ? (random_below(random, 2) ? 0 : ~(hjg_u64) 0) :
				(hjg_u64) 1 << random_below(random, 64);
		case VARIED:
			return random_u64(random) >> random_below(random, 64);
		case DECIMALS:
			return float_bits(width, ((double) random_below(random, 200000) - 100000) / 100);
		default:
			return float_bits(width, random_below(random, 50) ? 2.5 : -0.0);
	}
}

static void
fill_keys(hjg_u8 *keys, int width, hjg_u32 nrows, Shape shape, Random *random)
{
	const int	column = width == 16 ? 8 : width;
	hjg_u64		last[2] = {7, 1};

	for (hjg_u32 i = 0; i < nrows; i++)
		for (int c = 0; c < width / column; c++)
		{
			/* the second word of 16-byte keys has another shape */
			last[c] = value_of(c ? (Shape) ((shape + 5) % NSHAPES) : shape, column, i, last[c], random);
			memcpy(keys + (size_t) i * (size_t) width + 8 * c, &last[c], (size_t) column);
		}
}

static HjgPackPlan
any_plan(Random *random)
{
	return (HjgPackPlan) {
		.scale = random_below(random, 4) ? 0 : (hjg_u8) (1 + random_below(random, 4)),
		.dict = random_below(random, 4) == 0, .runs = (hjg_u8) random_below(random, 2),
		.delta = (hjg_u8) random_below(random, 2), .frame = (hjg_u8) random_below(random, 2),
		.leaf = (hjg_u8) random_below(random, 3), .lengths_leaf = (hjg_u8) random_below(random, 3)
	};
}

typedef struct Batch
{
	Memory		memory;
	int			width;
	hjg_u32		nrows;
	hjg_u8	   *keys;
	hjg_u8	   *unpacked;
	hjg_u64    *packed;
	size_t		bytes;
	hjg_u64    *scratch;
} Batch;

static void
batch_create(Batch *b, int width, hjg_u32 nrows)
{
	*b = (Batch) {.width = width, .nrows = nrows};
	memory_init(&b->memory, NULL);
	b->keys = malloc((size_t) nrows * (size_t) width + 16);
	b->unpacked = malloc((size_t) nrows * (size_t) width + 16);
	b->packed = malloc(hjg_pack_bound(width, nrows));
	b->scratch = malloc(HJG_UNPACK_SCRATCH_BYTES);
}

static void
batch_destroy(Batch *b)
{
	free(b->keys);
	free(b->unpacked);
	free(b->packed);
	free(b->scratch);
}

/* Open and unpack all blocks of a batch of `bytes` bytes at packed. */
static HjgStatus
unpack_all(Batch *b, const void *packed, size_t bytes)
{
	const HjgPackHeader *header;
	HjgStatus	status = hjg_packed_open(packed, bytes, &header);

	if (status == HJG_OK && (header->nrows != b->nrows || (int) header->key_width != b->width))
		return HJG_ERR_INPUT;
	for (hjg_u32 ix = 0; status == HJG_OK && ix < hjg_packed_nblocks(header); ix++)
		status = hjg_unpack_block(header, ix, b->unpacked + (size_t) ix * HJG_PACK_BLOCK_ROWS * (size_t) b->width, b->scratch);
	return status;
}

/* True if packing may refuse this plan for a column. */
static bool
may_refuse(const HjgPackPlan *plan)
{
	return plan->scale || plan->dict;
}

/* Pack, unpack, compare; returns NULL or an error text. */
static const char *
round_trip(Batch *b, const HjgPackPlan *plans, bool *refused)
{
	HjgStatus	status = hjg_pack(&b->memory.env, b->width, plans, b->keys, b->nrows, b->packed, &b->bytes);

	*refused = status == HJG_ERR_INPUT && (may_refuse(&plans[0]) || (b->width == 16 && may_refuse(&plans[1])));
	if (*refused)
		return NULL;
	if (status != HJG_OK)
		return "packing failed";
	if (b->bytes > hjg_pack_bound(b->width, b->nrows))
		return "larger than the bound";
	memset(b->unpacked, 0xA5, (size_t) b->nrows * (size_t) b->width);
	if (unpack_all(b, b->packed, b->bytes) != HJG_OK)
		return "unpacking failed";
	if (memcmp(b->keys, b->unpacked, (size_t) b->nrows * (size_t) b->width) != 0)
		return "other keys";
	return memory_is_clean(&b->memory) ? NULL : "memory left";
}

static void
try_shape(int width, Shape shape)
{
	static const hjg_u32 sizes[] = {0, 1, 2, 127, 128, 129, 255, 8191, 8192, 8193, 20000};
	Random		random = {test_seed + (hjg_u64) shape * 3 + (hjg_u64) width};
	const char *wrong = NULL;
	int			ntrips = 0;
	int			nrefused = 0;

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]) && !wrong; s++)
	{
		Batch		b;

		batch_create(&b, width, sizes[s]);
		fill_keys(b.keys, width, sizes[s], shape, &random);
		for (int n = short_run ? 4 : 12; n > 0 && !wrong; n--, ntrips++)
		{
			const HjgPackPlan plans[2] = {any_plan(&random), any_plan(&random)};
			bool		refused;
			char		text[64];

			wrong = round_trip(&b, plans, &refused);
			nrefused += refused;
			if (wrong)
				printf("# %u rows, plan %s\n", sizes[s], hjg_lab_plan_text(&plans[0], text, sizeof(text)));
		}
		batch_destroy(&b);
	}
	claim(wrong == NULL && nrefused < ntrips * 9 / 10, "%d-byte keys, %s: %d plans give back what they took (%d refused)%s%s", width,
		  shape_names[shape], ntrips, nrefused, wrong ? ": " : "", wrong ? wrong : "");
}

/* Test that runs alone give the same values as the rows. */
static void
partial(int width)
{
	const HjgPackPlan plans[2] = {{.runs = 1, .delta = 1, .leaf = HJG_PACK_NS, .lengths_leaf = HJG_PACK_NS}, {.runs = 1}};
	const int	column = width == 16 ? 8 : width;
	Random		random = {test_seed};
	const HjgPackHeader *header;
	hjg_u32    *ends = malloc(HJG_PACK_BLOCK_ROWS * sizeof(hjg_u32));
	hjg_u8	   *values = malloc(HJG_PACK_BLOCK_ROWS * 8);
	bool		good;
	hjg_u64		nruns = 0;
	Batch		b;

	batch_create(&b, width, 20000);
	fill_keys(b.keys, width, b.nrows, RUNS, &random);
	good = hjg_pack(&b.memory.env, width, plans, b.keys, b.nrows, b.packed, &b.bytes) == HJG_OK &&
		hjg_packed_open(b.packed, b.bytes, &header) == HJG_OK;
	for (int c = 0; c < width / column && good; c++)
		for (hjg_u32 ix = 0; ix < hjg_packed_nblocks(header) && good; ix++)
		{
			hjg_u32		n = 0;
			hjg_u32		row = 0;

			good = hjg_unpack_runs(header, c, ix, values, ends, &n) == HJG_OK;
			for (hjg_u32 run = 0; run < n && good; run++)
				for (; row < ends[run] && good; row++)
					good = memcmp(values + (size_t) run * (size_t) column,
								  b.keys + ((size_t) ix * HJG_PACK_BLOCK_ROWS + row) * (size_t) width + 8 * c,
								  (size_t) column) == 0;
			nruns += n;
		}
	claim(good && nruns < b.nrows * (hjg_u64) (width / column), "%d-byte keys: %llu runs unpacked alone have the values of %u rows", width,
		  (unsigned long long) nruns, b.nrows);
	free(ends);
	free(values);
	batch_destroy(&b);
}

/* Test that any changed bit and any missing end is noticed. */
static void
damage(int width)
{
	Random		random = {test_seed + 1};
	long		nfound = 0;
	long		ntries = 0;
	Batch		b;

	batch_create(&b, width, 9000);
	for (int n = 0; n < (short_run ? 10 : 40); n++)
	{
		HjgPackPlan plans[2] = {any_plan(&random), any_plan(&random)};
		size_t		words;

		fill_keys(b.keys, width, b.nrows, (Shape) random_below(&random, DECIMALS), &random);
		plans[0].scale = plans[1].scale = plans[0].dict = plans[1].dict = 0;
		if (hjg_pack(&b.memory.env, width, plans, b.keys, b.nrows, b.packed, &b.bytes) != HJG_OK)
			break;
		words = b.bytes / 8;
		for (int i = 0; i < 20; i++, ntries++)
		{
			hjg_u64    *word = b.packed + random_below(&random, (hjg_u32) words);
			const hjg_u64 bit = (hjg_u64) 1 << random_below(&random, 64);

			*word ^= bit;
			nfound += unpack_all(&b, b.packed, b.bytes) == HJG_ERR_INPUT;
			*word ^= bit;
		}
		ntries++;
		nfound += unpack_all(&b, b.packed, random_below(&random, (hjg_u32) b.bytes)) == HJG_ERR_INPUT;
	}
	claim(ntries > 200 && nfound == ntries, "%d-byte keys: %ld of %ld damaged batches found", width, nfound, ntries);
	batch_destroy(&b);
}

/* Test that forged batches with right checksums do no harm: for the sanitizers and valgrind. */
static void
forged(int width)
{
	Random		random = {test_seed + 2};
	long		nopened = 0;
	Batch		b;

	batch_create(&b, width, 9000);
	for (int n = 0; n < (short_run ? 30 : 800); n++)
	{
		const HjgPackPlan plans[2] = {any_plan(&random), any_plan(&random)};
		HjgPackHeader *header;
		hjg_u64    *directory;
		hjg_u64    *copy;

		fill_keys(b.keys, width, b.nrows, (Shape) random_below(&random, NSHAPES), &random);
		if (hjg_pack(&b.memory.env, width, plans, b.keys, b.nrows, b.packed, &b.bytes) != HJG_OK)
			continue;
		/* exactly as long as its header says, so that a read beyond is noticed */
		copy = malloc(b.bytes);
		memcpy(copy, b.packed, b.bytes);
		header = (HjgPackHeader *) copy;
		directory = (hjg_u64 *) ((hjg_u8 *) copy + header->directory_off);
		for (hjg_u32 i = 0; i < hjg_packed_nblocks(header) * header->ncolumns; i++)
		{
			HjgPackBlock *block = (HjgPackBlock *) ((hjg_u8 *) copy + directory[i]);
			hjg_u8	   *bytes = (hjg_u8 *) block;
			const hjg_u32 head = random_below(&random, 2) ? sizeof(HjgPackBlock) : block->bytes;

			for (int k = 0; k < 3; k++)
				bytes[8 + random_below(&random, head - 8)] ^= (hjg_u8) random_u64(&random);
			if (block->bytes >= sizeof(HjgPackBlock) && block->bytes % 8 == 0 && block->bytes <= b.bytes - directory[i])
				block->checksum = hjg_pack_checksum((hjg_u64 *) block + 1, block->bytes / 8 - 1);
		}
		if (random_below(&random, 3) == 0)
		{
			((hjg_u8 *) copy)[24 + random_below(&random, (hjg_u32) header->head_bytes - 24)] ^= (hjg_u8) random_u64(&random);
			if (header->head_bytes >= 8 && header->head_bytes % 8 == 0 && header->head_bytes <= b.bytes)
				header->checksum = hjg_pack_checksum(copy + 1, header->head_bytes / 8 - 1);
		}
		nopened += unpack_all(&b, copy, b.bytes) == HJG_OK;
		free(copy);
	}
	claim(memory_is_clean(&b.memory), "%d-byte keys: forged batches do no harm (%ld were taken for good)", width, nopened);
	batch_destroy(&b);
}

/* Compare the plan chosen for size with all plans that packing accepts, and its price with the real size. */
static void
planned(int width, Shape shape)
{
	Random		random = {test_seed + 3};
	const hjg_u32 nrows = 40000;
	const char *wrong = NULL;
	size_t		least = ~(size_t) 0;
	size_t		chosen_bytes = 0;
	double		priced_bytes = 0;
	HjgPackPlan chosen[2] = {{0}, {0}};
	char		text[64];
	bool		refused;
	Batch		b;

	batch_create(&b, width, nrows);
	fill_keys(b.keys, width, nrows, shape, &random);
	for (int c = 0; c < hjg_pack_ncolumns(width) && !wrong; c++)
	{
		HjgPackStats stats;
		HjgPackPrice price;

		if (hjg_pack_collect(&b.memory.env, width, b.keys, nrows, c, &stats) != HJG_OK)
			wrong = "no statistics";
		chosen[c] = hjg_pack_choose(&stats, NULL, 1, 1);
		hjg_pack_price(&stats, &chosen[c], NULL, &price);
		priced_bytes += price.bytes * nrows;
	}
	if (!wrong)
		wrong = round_trip(&b, chosen, &refused);
	chosen_bytes = b.bytes;
	if (!wrong && refused)
		wrong = "the chosen plan was refused";
	for (int n = 0; n < (short_run ? 10 : 80) && !wrong; n++)
	{
		const HjgPackPlan plans[2] = {any_plan(&random), chosen[1]};

		wrong = round_trip(&b, plans, &refused);
		if (!refused && b.bytes < least)
			least = b.bytes;
	}
	/* no plan saves the some hundred bytes of a column's header */
	if (!wrong && (double) chosen_bytes > 1.05 * (double) least + 1024)
		wrong = "not the smallest";
	if (!wrong && (priced_bytes > 1.1 * (double) chosen_bytes + 1024 || priced_bytes < 0.9 * (double) chosen_bytes - 1024))
		wrong = "another size than predicted";
	claim(wrong == NULL, "%d-byte keys, %s: the planner's %s takes %.2f bytes a row (predicted %.2f)%s%s", width, shape_names[shape],
		  hjg_lab_plan_text(&chosen[0], text, sizeof(text)), (double) chosen_bytes / nrows, priced_bytes / nrows, wrong ? ": " : "",
		  wrong ? wrong : "");
	batch_destroy(&b);
}

/* Test that the column is packed if bytes are expensive, and left alone if they cost next to nothing. */
static void
worth_it(void)
{
	Random		random = {test_seed};
	HjgPackCosts costs = {.check_ns = 0};
	HjgPackStats stats = {.width = 0};
	HjgPackPlan dear;
	HjgPackPlan cheap;
	bool		good;
	Batch		b;

	batch_create(&b, 4, 40000);
	fill_keys(b.keys, 4, b.nrows, SMALL, &random);
	good = hjg_pack_calibrate(&b.memory.env, &costs) == HJG_OK &&
		hjg_pack_collect(&b.memory.env, 4, b.keys, b.nrows, 0, &stats) == HJG_OK;
	for (int i = 0; i < 3; i++)
		good = good && costs.leaf_ns[i] > 0 && costs.leaf_ns[i] < 1000;
	dear = hjg_pack_choose(&stats, &costs, 0.001, 4);
	cheap = hjg_pack_choose(&stats, &costs, 1e6, 4);
	claim(good && !hjg_pack_plan_is_empty(&dear) && hjg_pack_plan_is_empty(&cheap) && memory_is_clean(&b.memory),
		  "calibrated: packed for a bus of 1 MB/s, left alone for one of 1 PB/s");
	batch_destroy(&b);
}

static void
fails_and_stops(void)
{
	Random		random = {test_seed};
	const HjgPackPlan plan = {.dict = 1, .leaf = HJG_PACK_NS};
	HjgStatus	status = HJG_ERR_MEMORY;
	HjgPackStats stats;
	bool		clean = true;
	int			n = 0;
	Batch		b;

	batch_create(&b, 8, 30000);
	fill_keys(b.keys, 8, b.nrows, FEW, &random);
	for (; status == HJG_ERR_MEMORY && clean && n < 20; n++)
	{
		memory_init(&b.memory, NULL);
		b.memory.fail_at = n + 1;
		status = hjg_pack_collect(&b.memory.env, 8, b.keys, b.nrows, 0, &stats);
		if (status == HJG_OK)
			status = hjg_pack(&b.memory.env, 8, &plan, b.keys, b.nrows, b.packed, &b.bytes);
		clean = memory_is_clean(&b.memory);
	}
	claim(status == HJG_OK && clean && n > 3, "packing: each of %d allocations may fail", n - 1);
	status = HJG_ERR_CANCELLED;
	for (n = 0; status == HJG_ERR_CANCELLED && clean && n < 100; n++)
	{
		memory_init(&b.memory, NULL);
		b.memory.cancel_at = n + 1;
		status = hjg_pack_collect(&b.memory.env, 8, b.keys, b.nrows, 0, &stats);
		if (status == HJG_OK)
			status = hjg_pack(&b.memory.env, 8, &plan, b.keys, b.nrows, b.packed, &b.bytes);
		clean = memory_is_clean(&b.memory);
	}
	claim(status == HJG_OK && clean && n > 3, "packing: cancelled at each of %d polls, nothing left", n - 1);
	batch_destroy(&b);
}

/* Test names as in the papers. */
static void
names(void)
{
	static const struct
	{
		HjgPackPlan plan;
		const char *text;
	}			known[] = {
		{{0}, "none"},
		{{.runs = 1}, "RLE"},
		{{.leaf = HJG_PACK_NS}, "NS"},
		{{.runs = 1, .lengths_leaf = HJG_PACK_NS}, "RLE,[e,NS]"},
		{{.runs = 1, .delta = 1, .leaf = HJG_PACK_NS, .lengths_leaf = HJG_PACK_NS}, "RLE,[[Delta,NS],NS]"},
		{{.delta = 1, .leaf = HJG_PACK_NS}, "Delta,NS"},
		{{.scale = 3, .frame = 1, .leaf = HJG_PACK_NSV}, "Scale,FOR,NSV"},
		{{.dict = 1, .runs = 1, .leaf = HJG_PACK_NS, .lengths_leaf = HJG_PACK_NS}, "DICT,RLE,[NS,NS]"},
	};
	char		text[64];
	bool		good = true;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		good = good && strcmp(hjg_lab_plan_text(&known[i].plan, text, sizeof(text)), known[i].text) == 0;
	claim(good, "plans are called as in the papers");
}

void
test_pack(void)
{
	for (int w = 0; w < 3; w++)
	{
		for (int shape = 0; shape < NSHAPES; shape++)
		{
			try_shape(widths[w], (Shape) shape);
			planned(widths[w], (Shape) shape);
		}
		partial(widths[w]);
		damage(widths[w]);
		forged(widths[w]);
	}
	names();
	worth_it();
	fails_and_stops();
}
