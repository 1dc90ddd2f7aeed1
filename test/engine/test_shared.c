/*
 * test_shared.c
 *	  A table that one join builds and others probe through their own mapping.
 */
#include "hjg_test_engine.h"

/* The requested parts of a table, as another process would see them. */
typedef struct Parts
{
	Memory		memory;			/* must be first: it is the environment's argument */
	void	   *built[HJG_TABLE_NPARTS];
	size_t		bytes[HJG_TABLE_NPARTS];
	int			nasked;
	int			fail_at;		/* number of the refused part, from 1; 0: none */
} Parts;

static void *
alloc_part(void *arg, HjgTablePart part, size_t bytes)
{
	Parts	   *parts = arg;

	if (++parts->nasked == parts->fail_at)
		return NULL;
	parts->bytes[part] = bytes;
	parts->built[part] = aligned_alloc(64, hjg_align64(bytes));
	return parts->built[part];
}

static void
parts_init(Parts *parts, HjgPool *pool)
{
	memset(parts, 0, sizeof(*parts));
	memory_init(&parts->memory, pool);
	parts->memory.env.arg = parts;
	parts->memory.env.alloc_table = alloc_part;
}

static void
parts_free(void *parts[HJG_TABLE_NPARTS])
{
	for (int i = 0; i < HJG_TABLE_NPARTS; i++)
		free(parts[i]);
}

static HjgStatus
probe(void *join, const HjgSegment *segments, int nsegments, HjgCursor *cursor, HjgResult *result)
{
	return hjg_join_probe(join, segments, nsegments, cursor, result);
}

/* Copy the parts to other addresses and remove the built ones. */
static void
move_parts(Parts *parts, void *moved[HJG_TABLE_NPARTS])
{
	for (int i = 0; i < HJG_TABLE_NPARTS; i++)
	{
		moved[i] = aligned_alloc(64, hjg_align64(parts->bytes[i]));
		memcpy(moved[i], parts->built[i], parts->bytes[i]);
		memset(parts->built[i], 0xA5, parts->bytes[i]);
	}
	parts_free(parts->built);
}

static void
probed_by_two(HjgPool *pool, int width, HjgMatchMode mode, KeyShape shape, hjg_u32 n)
{
	const HjgJoinSpec spec = {.key_width = width, .mode = mode};
	const char *wrong = NULL;
	void	   *moved[HJG_TABLE_NPARTS];
	HjgJoin    *builder;
	HjgJoin    *joins[2] = {NULL, NULL};
	Memory		memory;
	Parts		parts;
	Case		c;

	case_create(&c, test_seed + (hjg_u64) width, width, mode, shape, n, n);
	parts_init(&parts, pool);
	memory_init(&memory, NULL);
	if (hjg_join_build(&parts.memory.env, &spec, c.build.segments, c.build.nsegments, &builder) != HJG_OK)
		wrong = "build failed";
	else
	{
		hjg_join_free(builder);
		if (!memory_is_clean(&parts.memory) || parts.nasked != HJG_TABLE_NPARTS)
			wrong = "memory of the builder left, or of the table given back";
		move_parts(&parts, moved);
		for (int i = 0; i < 2 && wrong == NULL; i++)
			if (hjg_join_attach(&memory.env, &spec, c.build.nrows, (const void *const *) moved, &joins[i]) != HJG_OK)
				wrong = "attach failed";
		for (int i = 0; i < 2 && wrong == NULL; i++)
			wrong = run_rounds(&c, probe, joins[i], 2, i == 0 ? 37 : (hjg_u32) c.nexpected + 1);
		for (int i = 0; i < 2; i++)
			hjg_join_free(joins[i]);
		parts_free(moved);
		if (wrong == NULL && !memory_is_clean(&memory))
			wrong = "memory of the others left";
	}
	claim(wrong == NULL, "%d threads, %d-byte keys, %s, mode %d: a table serves two joins elsewhere%s%s",
		  hjg_pool_nthreads(pool), width, key_shape_names[shape], mode, wrong ? ": " : "", wrong ? wrong : "");
	case_destroy(&c);
}

/* Test the bytes a row: the number of lines depends on the rows and is not a power of two. */
static void
dense(int width, double most_bytes)
{
	const hjg_u32 n = 140000;
	const HjgJoinSpec spec = {.key_width = width};
	HjgJoin    *join = NULL;
	Parts		parts;
	Case		c;

	case_create(&c, test_seed, width, HJG_MATCH_ALL, KEYS_UNIFORM, n, 1);
	parts_init(&parts, NULL);
	claim(hjg_join_build(&parts.memory.env, &spec, c.build.segments, c.build.nsegments, &join) == HJG_OK &&
		  parts.bytes[HJG_TABLE_LINES] <= most_bytes * c.build.nrows,
		  "%d-byte keys: lines of a table take at most %.0f bytes a row", width, most_bytes);
	hjg_join_free(join);
	parts_free(parts.built);
	case_destroy(&c);
}

static void
refused(KeyShape shape)
{
	const HjgJoinSpec spec = {.key_width = 8};
	HjgJoin    *join = NULL;
	Parts		parts;
	Case		c;

	case_create(&c, test_seed, 8, HJG_MATCH_ALL, shape, 1000, 1000);
	for (int i = 1; i <= HJG_TABLE_NPARTS; i++)
	{
		parts_init(&parts, NULL);
		parts.fail_at = i;
		claim(hjg_join_build(&parts.memory.env, &spec, c.build.segments, c.build.nsegments, &join) == HJG_ERR_MEMORY &&
			  join == NULL && memory_is_clean(&parts.memory), "%s: without memory for part %d of a table nothing is left",
			  key_shape_names[shape], i);
		parts_free(parts.built);
	}
	case_destroy(&c);
}

void
test_shared(void)
{
	static const int widths[] = {4, 8, 16};
	HjgPool    *pools[2] = {NULL, hjg_pool_create(4)};

	tune_small();
	for (int p = 0; p < 2; p++)
		for (int w = 0; w < 3; w++)
			for (int shape = 0; shape < KEYS_NSHAPES; shape++)
				probed_by_two(pools[p], widths[w], (HjgMatchMode) ((w + shape) % 4), (KeyShape) shape, short_run ? 200 : 600);
	tune_default();
	probed_by_two(pools[1], 4, HJG_MATCH_ALL, KEYS_UNIFORM, short_run ? 1000 : 100000);
	dense(4, 17);
	dense(8, 27);
	dense(16, 54);
	refused(KEYS_UNIFORM);
	refused(KEYS_DENSE);
	refused(KEYS_DENSE_REPEATED);
	hjg_pool_destroy(pools[1]);
}
