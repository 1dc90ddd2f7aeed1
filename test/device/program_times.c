/*
 * program_times.c
 *	  The time of programs like those of TPC-H: columns of segments of 16384 rows, in kept memory.
 *
 * The table has seven columns like lineitem's, and a row of the other one, which is joined, for every four of its rows.
 */
#include <stdlib.h>
#include <string.h>

#include "device/hjg_cuda_program.h"
#include "hjg_program_cases.h"
#include "hjg_test_engine.h"
#include "layout/hjg_checksum.h"

#define SEGMENT_ROWS 16384u

/* Columns; the last two are the other table's. */
enum
{
	FLAG, STATUS, QUANTITY, PRICE, DISCOUNT, TAX, DATE, ORDER, ORDER_KEY, ORDER_DATE, NCOLUMNS
};

static const hjg_u32 column_widths[NCOLUMNS] = {1, 1, 2, 4, 1, 1, 2, 4, 4, 2};

typedef struct Data
{
	hjg_u32		nsegments;		/* of the table */
	hjg_u32		norders;		/* segments of the other one */
	char	   *memory;
	size_t		nbytes;
	HjgProgramColumn *columns[NCOLUMNS];	/* by segment */
} Data;

static hjg_u64
value_of(int column, hjg_u64 row, hjg_u64 random)
{
	switch (column)
	{
		case FLAG:
			return random % 3;
		case STATUS:
			return random % 2;
		case QUANTITY:
			return 100 + random % 4900;
		case PRICE:
			return 90000 + random % 10000000;
		case DISCOUNT:
			return random % 11;
		case TAX:
			return random % 9;
		case ORDER:
			return row / 4;
		case ORDER_KEY:
			return row;
		default:
			return random % 2500;
	}
}

static void
data_create(Data *data, hjg_u64 nrows)
{
	char	   *at;

	data->nsegments = (hjg_u32) ((nrows + SEGMENT_ROWS - 1) / SEGMENT_ROWS);
	data->norders = (data->nsegments + 3) / 4;
	data->nbytes = 0;
	for (int c = 0; c < NCOLUMNS; c++)
		data->nbytes += (size_t) (c < ORDER_KEY ? data->nsegments : data->norders) * SEGMENT_ROWS * column_widths[c];
	data->memory = malloc(data->nbytes);
	at = data->memory;
	for (int c = 0; c < NCOLUMNS; c++)
	{
		const hjg_u32 n = c < ORDER_KEY ? data->nsegments : data->norders;
		hjg_u64		random = 88172645463325252ull + (hjg_u64) c;

		data->columns[c] = calloc(n, sizeof(HjgProgramColumn));
		for (hjg_u32 s = 0; s < n; s++)
		{
			const hjg_u64 nbytes = (hjg_u64) SEGMENT_ROWS * column_widths[c];

			for (hjg_u32 i = 0; i < SEGMENT_ROWS; i++)
			{
				hjg_u64		value;

				random ^= random << 13;
				random ^= random >> 7;
				random ^= random << 17;
				value = value_of(c, (hjg_u64) s * SEGMENT_ROWS + i, random);
				memcpy(at + (size_t) i * column_widths[c], &value, column_widths[c]);
			}
			data->columns[c][s] = (HjgProgramColumn) {
				.place = (hjg_u64) (at - data->memory), .nbytes = nbytes, .checksum = hjg_checksum_column(at, nbytes),
				.id = 0xA000000000ull + (hjg_u64) c * 1000000 + s, .width = column_widths[c], .map = HJG_PROGRAM_NO_MAP, .test = HJG_PROGRAM_NO_TEST
			};
			at += nbytes;
		}
	}
}

/* A query: steps of one or two pipelines, each over some of the columns. */
typedef struct Query
{
	const char *name;
	hjg_u32		npipelines;
	hjg_u32		ncolumns[2];
	int			columns[2][8];
	hjg_u32		nsteps[2];
	HjgProgramStep steps[2][24];
	HjgProgramTable table;
	hjg_u8		table_keys[HJG_PROGRAM_MAX_KEYS];
	hjg_u8		payload[HJG_PROGRAM_MAX_PAYLOAD];
	hjg_u32		nkeys;
	hjg_u8		keys[HJG_PROGRAM_MAX_KEYS];
	hjg_u32		nsums;
	hjg_u32		sums[8];
	hjg_u64		groups;
	hjg_u64		first_groups;	/* of the greatest first sum; 0: all */
} Query;

#define COLUMN(r, c) {.op = HJG_PROGRAM_COLUMN, .to = r, .arg = c}
#define BETWEEN(r, from, a, b) {.op = HJG_PROGRAM_IN_RANGE, .to = r, .left = from, .low = a, .high = b}
#define FILTER(r) {.op = HJG_PROGRAM_FILTER, .left = r}
#define DO(what, r, a, b) {.op = HJG_PROGRAM_##what, .to = r, .left = a, .right = b}
#define HUNDRED(r) {.op = HJG_PROGRAM_CONSTANT, .to = r, .low = 100}
#define PROBE(r, from) {.op = HJG_PROGRAM_PROBE_INNER, .to = r, .left = from, .arg = 0}

static const Query queries[] = {
	{
		.name = "count(*)", .npipelines = 1, .groups = 1
	},
	{
		.name = "like query 6", .npipelines = 1, .ncolumns = {4}, .columns = {{DATE, DISCOUNT, QUANTITY, PRICE}}, .groups = 1,
		.nsteps = {11}, .steps = {{
			COLUMN(0, 0), BETWEEN(1, 0, 500, 865), FILTER(1), COLUMN(2, 1), BETWEEN(3, 2, 5, 7), FILTER(3), COLUMN(4, 2),
			BETWEEN(5, 4, 0, 2399), FILTER(5), COLUMN(6, 3), DO(MULTIPLY, 7, 6, 2),
		}},
		.nsums = 1, .sums = {7}
	},
	{
		.name = "like query 1", .npipelines = 1, .ncolumns = {7}, .columns = {{DATE, FLAG, STATUS, QUANTITY, PRICE, DISCOUNT, TAX}},
		.nsteps = {14}, .steps = {{
			COLUMN(0, 0), BETWEEN(1, 0, 0, 2450), FILTER(1), COLUMN(2, 1), COLUMN(3, 2), COLUMN(4, 3), COLUMN(5, 4), COLUMN(6, 5),
			COLUMN(7, 6), HUNDRED(8), DO(SUBTRACT, 9, 8, 6), DO(MULTIPLY, 10, 5, 9), DO(ADD, 11, 8, 7), DO(MULTIPLY, 12, 10, 11),
		}},
		.nkeys = 2, .keys = {2, 3}, .nsums = 5, .sums = {4, 5, 6, 10, 12}, .groups = 6
	},
	{
		.name = "a join of both, two dates of three", .npipelines = 2, .ncolumns = {2, 3}, .columns = {{ORDER_KEY, ORDER_DATE}, {ORDER, PRICE, FLAG}},
		.nsteps = {4, 4}, .steps = {
			{COLUMN(0, 1), BETWEEN(1, 0, 0, 1700), FILTER(1), COLUMN(2, 0)},
			{COLUMN(0, 0), PROBE(1, 0), COLUMN(2, 1), COLUMN(3, 2)},
		},
		.table = {.nkeys = 1, .npayload = 1, .unique = 1}, .table_keys = {2}, .payload = {0},
		.nkeys = 1, .keys = {3}, .nsums = 1, .sums = {2}, .groups = 3
	},
	{
		.name = "2500 groups", .npipelines = 1, .ncolumns = {2}, .columns = {{DATE, PRICE}}, .nsteps = {2},
		.steps = {{COLUMN(0, 0), COLUMN(1, 1)}}, .nkeys = 1, .keys = {0}, .nsums = 1, .sums = {1}, .groups = 2500
	},
	{
		.name = "a group for four rows", .npipelines = 1, .ncolumns = {2}, .columns = {{ORDER, PRICE}}, .nsteps = {2},
		.steps = {{COLUMN(0, 0), COLUMN(1, 1)}}, .nkeys = 1, .keys = {0}, .nsums = 1, .sums = {1}, .groups = 0
	},
	{
		.name = "the first ten of these groups", .npipelines = 1, .ncolumns = {2}, .columns = {{ORDER, PRICE}}, .nsteps = {2},
		.steps = {{COLUMN(0, 0), COLUMN(1, 1)}}, .nkeys = 1, .keys = {0}, .nsums = 1, .sums = {1}, .groups = 0, .first_groups = 10
	},
};

/* Put elements at the end of the block; returns their array. */
static HjgProgramArray
put_array(char *block, hjg_u64 *end, const void *elements, hjg_u32 n, size_t size)
{
	const HjgProgramArray array = {.off = (hjg_u32) *end, .n = n};

	memcpy(block + *end, elements, n * size);
	*end += (n * size + 7) / 8 * 8;
	return array;
}

/* Write the block of a query; returns its size. */
static hjg_u64
write_query(const Data *data, const Query *query, char *block)
{
	HjgProgram	head = {0};
	HjgProgramPipeline pipelines[2] = {0};
	HjgProgramTable tables[2] = {query->table};
	HjgProgramTable *const groups = &tables[query->npipelines - 1];
	HjgProgramArgument arguments[8] = {0};
	const hjg_u32 most = data->nsegments + data->norders;
	HjgProgramSegment *segments = calloc(most, sizeof(HjgProgramSegment));
	HjgProgramColumn *columns = calloc((size_t) most * 8, sizeof(HjgProgramColumn));
	HjgProgramRun *runs = calloc(most, sizeof(HjgProgramRun));
	HjgProgramStep steps[49];
	hjg_u32		nsegments = 0;
	hjg_u32		ncolumns = 0;
	hjg_u32		nsteps = 0;
	hjg_u64		end = sizeof(HjgProgram);

	for (hjg_u32 p = 0; p < query->npipelines; p++)
	{
		const bool	orders = p + 1 < query->npipelines;
		const hjg_u32 n = orders ? data->norders : data->nsegments;

		pipelines[p] = (HjgProgramPipeline) {
			.first_step = nsteps, .nsteps = query->nsteps[p], .first_segment = nsegments, .nsegments = n,
			.ncolumns = query->ncolumns[p], .source = HJG_PROGRAM_FROM_SEGMENTS, .sink = p, .nrows = (hjg_u64) n * SEGMENT_ROWS
		};
		memcpy(pipelines[p].keys, orders ? query->table_keys : query->keys, HJG_PROGRAM_MAX_KEYS);
		memcpy(pipelines[p].payload, query->payload, HJG_PROGRAM_MAX_PAYLOAD);
		memcpy(steps + nsteps, query->steps[p], query->nsteps[p] * sizeof(HjgProgramStep));
		nsteps += query->nsteps[p];
		for (hjg_u32 s = 0; s < n; s++, nsegments++)
		{
			segments[nsegments] = (HjgProgramSegment) {.nrows = SEGMENT_ROWS, .first_column = ncolumns, .first_run = nsegments, .nruns = 1};
			runs[nsegments] = (HjgProgramRun) {0, SEGMENT_ROWS};
			for (hjg_u32 c = 0; c < query->ncolumns[p]; c++)
				columns[ncolumns++] = data->columns[query->columns[p][c]][s];
		}
	}
	tables[0].max_rows = pipelines[0].nrows;
	tables[0].expected_rows = pipelines[0].nrows / 3 * 2;
	*groups = (HjgProgramTable) {.nkeys = query->nkeys, .has_groups = 1, .narguments = query->nsums};
	groups->max_rows = groups->expected_rows = query->groups > 0 ? query->groups : pipelines[0].nrows / 4 + 1;
	head.max_groups = groups->max_rows;
	head.max_bytes = UINT64_MAX;
	head.first_groups = query->first_groups;
	head.descending = 1;
	head.first_step = nsteps;
	head.nsteps = query->first_groups > 0;
	steps[nsteps] = (HjgProgramStep) {.op = HJG_PROGRAM_GROUP, .arg = HJG_PROGRAM_GROUP_VALUE(query->nkeys, 0, HJG_PROGRAM_GROUP_SUM)};
	for (hjg_u32 i = 0; i < query->nsums; i++)
		arguments[i] = (HjgProgramArgument) {.reg = query->sums[i], .wants_sum = 1, .greatest = 120000000000ull};
	head.pipelines = put_array(block, &end, pipelines, query->npipelines, sizeof(HjgProgramPipeline));
	head.tables = put_array(block, &end, tables, query->npipelines, sizeof(HjgProgramTable));
	head.steps = put_array(block, &end, steps, nsteps + head.nsteps, sizeof(HjgProgramStep));
	head.segments = put_array(block, &end, segments, nsegments, sizeof(HjgProgramSegment));
	head.columns = put_array(block, &end, columns, ncolumns, sizeof(HjgProgramColumn));
	head.runs = put_array(block, &end, runs, nsegments, sizeof(HjgProgramRun));
	head.arguments = put_array(block, &end, arguments, query->nsums, sizeof(HjgProgramArgument));
	head.nbytes = end;
	memcpy(block, &head, sizeof(head));
	free(segments);
	free(columns);
	free(runs);
	return end;
}

/* Run a query and print its times. */
static bool
time_query(const HjgDriver *driver, const Query *query, const char *block, hjg_u64 nbytes, HjgPool *pool)
{
	const HjgJoinSpec spec = {.key_width = 8, .mode = HJG_MATCH_PROGRAM};
	const HjgSegment segment = {.keys = block, .nrows = (hjg_u32) (nbytes / 8)};
	HjgStatus	status = HJG_OK;

	for (int i = 0; i < 4 && status == HJG_OK; i++)
	{
		const hjg_u64 started = hjg_now_ns();
		HjgJobStats stats = {0};
		Memory		memory;
		void	   *join;

		memory_init(&memory, pool);
		status = driver->build(0, &memory.env, &spec, &segment, 1, &join);
		if (status != HJG_OK)
			break;
		driver->stats(join, &stats);
		printf("# %s, run %d: %.2f ms; on the device: copies %.2f, tables %.2f, groups %.2f ms\n", query->name, i + 1,
			   (double) (hjg_now_ns() - started) / 1e6, (double) stats.transfer_ns / 1e6, (double) stats.build_ns / 1e6,
			   (double) stats.probe_ns / 1e6);
		driver->free(join);
	}
	return status == HJG_OK;
}

void
program_times(const HjgDriver *driver, HjgPool *pool, hjg_u64 nrows)
{
	const char *only = getenv("HJG_TEST_QUERY");
	HjgKeptFile kept;
	Data		data;
	char	   *block;

	data_create(&data, nrows);
	kept = (HjgKeptFile) {.base = data.memory, .nbytes = data.nbytes};
	hjg_device_programs_open(&kept);
	block = malloc(((size_t) data.nsegments + data.norders) * (8 * sizeof(HjgProgramColumn) + 64) + 65536);
	printf("# %llu rows, %zu MB of columns\n", (unsigned long long) data.nsegments * SEGMENT_ROWS, data.nbytes >> 20);
	for (size_t q = 0; q < sizeof(queries) / sizeof(queries[0]); q++)
		if (only == NULL || strstr(queries[q].name, only) != NULL)
			claim(time_query(driver, &queries[q], block, write_query(&data, &queries[q], block), pool), "%s is timed", queries[q].name);
	free(block);
	free(data.memory);
	for (int c = 0; c < NCOLUMNS; c++)
		free(data.columns[c]);
}
