/*
 * test_cases.c
 *	  Inputs of the tests, with all shapes of keys, cut into segments; and the reference join, which
 *	  sorts and shares no code with the engines.
 */
#include <math.h>

#include "hjg_test_engine.h"

const char *const key_shape_names[KEYS_NSHAPES] = {
	"uniform", "duplicates", "zipf 0.5", "zipf 1.0", "zipf 1.5", "one-hot build", "one-hot probe",
	"one-hot both", "colliding", "colliding and hot", "extreme", "disjoint",
	"unique", "dense", "dense and repeated"
};

/* --- keys --- */

/*
 * Draw from a Zipf distribution by inversion of its continuous approximation; the exact shape does not
 * matter here.
 */
static hjg_u32
zipf(Random *random, hjg_u32 n, double theta)
{
	double		u = (double) (random_u64(random) >> 11) / 9007199254740992.0;
	double		x;

	if (theta > 0.99 && theta < 1.01)
		x = pow((double) n + 1, u);
	else
		x = pow(u * (pow((double) n + 1, 1 - theta) - 1) + 1, 1 / (1 - theta));
	return x - 1 < n ? (hjg_u32) (x - 1) : n - 1;
}

static void
put_key(int width, hjg_u8 *key, hjg_u64 id)
{
	hjg_u64		words[2] = {id * 0x9e3779b97f4a7c15u, id};

	if (width == 4)
	{
		hjg_u32		word = (hjg_u32) id * 2654435761u;

		memcpy(key, &word, 4);
	}
	else if (width == 8)
		memcpy(key, &words[0], 8);
	else
		memcpy(key, words, 16);
}

/*
 * Write a key; the mixes of all these keys share their first bits and differ in the last 8, or only in the
 * low word.
 */
static void
put_colliding_key(int width, hjg_u8 *key, hjg_u32 id)
{
	hjg_u64		words[2];

	if (width == 4)
	{
		hjg_u32		word = hjg_unmix32(hjg_hash_seed, 0xabcdef00u + id % 256);

		memcpy(key, &word, 4);
	}
	else if (width == 8)
	{
		words[0] = hjg_unmix64(hjg_hash_seed, 0xabcdef0123456700u + id % 256 + ((hjg_u64) (id / 256) << 20));
		memcpy(key, words, 8);
	}
	else
	{
		words[1] = id * 0x9e3779b97f4a7c15u;
		words[0] = hjg_unmix128(hjg_hash_seed, 0xabcdef0123456700u + id % 3, words[1]);
		memcpy(key, words, 16);
	}
}

static void
put_extreme_key(int width, hjg_u8 *key, hjg_u32 id)
{
	memset(key, 0, (size_t) width);
	id %= (hjg_u32) (8 * width + 3);
	if (id == 1)
		memset(key, 0xFF, (size_t) width);
	else if (id == 2)
		memset(key, 0xFF, (size_t) width / 2);
	else if (id >= 3)
		key[(id - 3) / 8] = (hjg_u8) (1u << (id - 3) % 8);
}

static void
put_dense_key(int width, hjg_u8 *key, hjg_u32 id)
{
	const hjg_u64 number = 0xFFFFFFFFu - 100000 + (hjg_u64) id;

	memset(key, 0, (size_t) width);
	memcpy(key, &number, width < 8 ? (size_t) width : 8);
}

static void
fill_keys(Case *c, KeyShape shape, Side *side, bool is_build)
{
	const hjg_u32 domain = c->build.nrows > 8 ? c->build.nrows : 8;
	const double thetas[] = {0.5, 1.0, 1.5};

	for (hjg_u32 i = 0; i < side->nrows; i++)
	{
		hjg_u8	   *key = side->keys + (size_t) i * (size_t) c->width;
		hjg_u32		id = random_below(&c->random, domain);

		switch (shape)
		{
			case KEYS_DUPLICATES:
				id %= domain / 8;
				break;
			case KEYS_ZIPF_05:
			case KEYS_ZIPF_10:
			case KEYS_ZIPF_15:
				if (!is_build || i % 4 == 0)
					id = zipf(&c->random, domain, thetas[shape - KEYS_ZIPF_05]);
				break;
			case KEYS_ONE_HOT_BUILD:
				if (is_build && i > 0)
					id = 7;
				break;
			case KEYS_ONE_HOT_PROBE:
				if (!is_build)
					id = 7;
				break;
			case KEYS_ONE_HOT_BOTH:
				id = 7;
				break;
			case KEYS_DISJOINT:
				id += is_build ? 0 : domain;
				break;
			case KEYS_UNIQUE:
			case KEYS_DENSE:
				id = is_build ? i : id + random_below(&c->random, 2) * (domain / 4);
				break;
			case KEYS_DENSE_REPEATED:
				id = is_build && i % 2 ? 3 : id % (domain / 8 + 1);
				break;
			default:
				break;
		}
		if (shape == KEYS_COLLIDING)
			put_colliding_key(c->width, key, id);
		else if (shape == KEYS_COLLIDING_HOT)
			put_colliding_key(c->width, key, is_build && id % 16 ? 5 : id % 100);
		else if (shape == KEYS_EXTREME)
			put_extreme_key(c->width, key, id);
		else if (shape == KEYS_DENSE || shape == KEYS_DENSE_REPEATED)
			put_dense_key(c->width, key, id);
		else
			put_key(c->width, key, id);
	}
}

/* --- segments --- */

static void
cut_segments(Case *c, Side *side, bool is_build)
{
	hjg_u32		most = random_below(&c->random, 3) ? 1 + side->nrows / 3 : 1 + side->nrows;
	hjg_u32		done = 0;
	hjg_u32		row = 0;

	side->segments = malloc(sizeof(HjgSegment) * (side->nrows + 4));
	side->nsegments = 0;
	while (done < side->nrows || side->nsegments < 2)
	{
		HjgSegment *segment = &side->segments[side->nsegments];
		hjg_u32		n = 1 + random_below(&c->random, most);

		if (side->nsegments == 1)
			n = 0;
		if (side->nsegments > 20 || n > side->nrows - done)
			n = side->nrows - done;
		if (is_build && random_below(&c->random, 2))
			row += random_below(&c->random, 1000);
		*segment = (HjgSegment) {.keys = side->keys + (size_t) done * (size_t) c->width, .nrows = n, .first_row = row};
		row += n;
		done += n;
		side->nsegments++;
	}
	for (int i = side->nsegments - 1; is_build && i > 0; i--)
	{
		int			j = (int) random_below(&c->random, (hjg_u32) i + 1);
		HjgSegment	segment = side->segments[i];

		side->segments[i] = side->segments[j];
		side->segments[j] = segment;
	}
}

/* --- the reference --- */

typedef struct RefRow
{
	hjg_u8		key[16];
	hjg_u32		row;
} RefRow;

static int
compare_ref(const void *a, const void *b)
{
	const RefRow *x = a;
	const RefRow *y = b;
	int			order = memcmp(x->key, y->key, 16);

	return order ? order : (x->row > y->row) - (x->row < y->row);
}

static RefRow *
collect(const Case *c, const Side *side)
{
	RefRow	   *rows = calloc(side->nrows + 1, sizeof(RefRow));
	hjg_u32		n = 0;

	for (int s = 0; s < side->nsegments; s++)
	{
		for (hjg_u32 i = 0; i < side->segments[s].nrows; i++, n++)
		{
			memcpy(rows[n].key, (const hjg_u8 *) side->segments[s].keys + (size_t) i * (size_t) c->width, (size_t) c->width);
			rows[n].row = side->segments[s].first_row + i;
		}
	}
	return rows;
}

static void
expect(Case *c, hjg_u64 *allocated, hjg_u32 probe_row, hjg_u32 build_row)
{
	if (c->nexpected == *allocated)
	{
		*allocated = *allocated * 2 + 64;
		c->expected = realloc(c->expected, sizeof(HjgPair) * *allocated);
	}
	c->expected[c->nexpected++] = (HjgPair) {probe_row, build_row};
}

static void
join_reference(Case *c)
{
	RefRow	   *build = collect(c, &c->build);
	RefRow	   *probe = collect(c, &c->probe);
	hjg_u64		allocated = 0;

	qsort(build, c->build.nrows, sizeof(RefRow), compare_ref);
	c->before = malloc(sizeof(hjg_u64) * (c->probe.nrows + 1));
	for (hjg_u32 i = 0; i < c->probe.nrows; i++)
	{
		hjg_u32		lo = 0;
		hjg_u32		hi = c->build.nrows;
		bool		matched;

		c->before[i] = c->nexpected;
		while (lo < hi)
		{
			hjg_u32		mid = (lo + hi) / 2;

			if (memcmp(build[mid].key, probe[i].key, 16) < 0)
				lo = mid + 1;
			else
				hi = mid;
		}
		matched = lo < c->build.nrows && memcmp(build[lo].key, probe[i].key, 16) == 0;
		if (c->mode == HJG_MATCH_ANTI || (c->mode == HJG_MATCH_LEFT && !matched))
		{
			if (!matched)
				expect(c, &allocated, i, HJG_NO_ROW);
			continue;
		}
		for (; lo < c->build.nrows && memcmp(build[lo].key, probe[i].key, 16) == 0; lo++)
		{
			expect(c, &allocated, i, build[lo].row);
			if (c->mode == HJG_MATCH_SEMI)
				break;
		}
	}
	c->before[c->probe.nrows] = c->nexpected;
	free(build);
	free(probe);
}

/* Make the segments and the reference of a case with keys. */
static void
finish_case(Case *c)
{
	cut_segments(c, &c->build, true);
	cut_segments(c, &c->probe, false);
	join_reference(c);
}

void
case_create(Case *c, hjg_u64 seed, int width, HjgMatchMode mode, KeyShape shape, hjg_u32 nbuild, hjg_u32 nprobe)
{
	*c = (Case) {.width = width, .mode = mode, .build.nrows = nbuild, .probe.nrows = nprobe, .random.state = seed};
	c->build.keys = malloc((size_t) nbuild * (size_t) width + 1);
	c->probe.keys = malloc((size_t) nprobe * (size_t) width + 1);
	fill_keys(c, shape, &c->build, true);
	fill_keys(c, shape, &c->probe, false);
	finish_case(c);
}

void
case_of_keys(Case *c, hjg_u64 seed, int width, HjgMatchMode mode, hjg_u8 *build, hjg_u32 nbuild, hjg_u8 *probe, hjg_u32 nprobe)
{
	*c = (Case) {.width = width, .mode = mode, .build = {.keys = build, .nrows = nbuild},
		.probe = {.keys = probe, .nrows = nprobe}, .random.state = seed};
	finish_case(c);
}

void
case_destroy(Case *c)
{
	free(c->build.keys);
	free(c->probe.keys);
	free(c->build.segments);
	free(c->probe.segments);
	free(c->expected);
	free(c->before);
}
