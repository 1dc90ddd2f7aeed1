/*
 * cuda_faults.c
 *	  Joins of the driver "cuda" in which every call of the driver API fails, on the emulated device.
 */
#include "hjg_cuda_support.h"
#include "lab/hjg_cuda_paper.h"

typedef struct FaultedJoin
{
	int			strategy;
	int			width;
	HjgMatchMode mode;
	KeyShape	shape;
	hjg_u32		nbuild;
	hjg_u32		nprobe;
	size_t		budget;			/* 0: enough; otherwise the join runs in passes */
} FaultedJoin;

static HjgStatus
run_faulted(const void *arg, const char **wrong)
{
	const Case *c = arg;
	Memory		memory;
	Outcome		outcome;

	memory_init(&memory, NULL);
	outcome = join_case(c, &memory.env, 3, (hjg_u32) (c->nexpected / (is_of_literature() ? 2 : 5)) + 1);
	*wrong = outcome.wrong;
	return outcome.status;
}

/* Fail with each kind of error except kind number without, if there is one. */
static void
test_faults_of(const FaultedJoin *join, int without)
{
	Case		c;

	strategy = join->strategy;
	case_create(&c, test_seed, join->width, join->mode, join->shape, join->nbuild, join->nprobe);
	hjg_cuda_set_budget(join->budget);
	for (int k = 0; k < HJG_FAULT_KINDS; k++)
	{
		long		ncalls;

		if (k == without)
			continue;
		ncalls = hjg_fail_everywhere(stub, hjg_fault_kinds[k].code, run_faulted, &c);
		claim(ncalls > 58, "%s at each of %ld calls, %s, %s: right rows, a status or a clean end", hjg_fault_kinds[k].what,
			  ncalls, name_of(strategy), key_shape_names[join->shape]);
	}
	case_destroy(&c);
	strategy = HJG_CPU_AUTO;
	hjg_cuda_set_budget(0);
}

/* Fail every call of a join, with each kind of error. */
void
test_faults_everywhere(void)
{
	static const FaultedJoin joins[] = {
		{HJG_CPU_AUTO, 8, HJG_MATCH_SEMI, KEYS_UNIFORM, 500, 350, 0},
		{HJG_CPU_AUTO, 8, HJG_MATCH_ALL, KEYS_ONE_HOT_BUILD, 500, 350, 0},
		{HJG_CUDA_DIRECT, 4, HJG_MATCH_ALL, KEYS_DENSE, 500, 350, 0},
		{HJG_CUDA_PACKED, 4, HJG_MATCH_ALL, KEYS_UNIQUE, 500, 350, 0},
		{HJG_CUDA_TABLE, 16, HJG_MATCH_LEFT, KEYS_UNIQUE, 500, 350, 0},
		{HJG_CUDA_RADIX1, 4, HJG_MATCH_ALL, KEYS_UNIFORM, 500, 350, 0},
		{HJG_CUDA_RADIX2, 4, HJG_MATCH_LEFT, KEYS_UNIFORM, 500, 350, 0},
		{HJG_CUDA_CSR, 8, HJG_MATCH_ALL, KEYS_DUPLICATES, 500, 350, 0},
		{HJG_CUDA_CSR, 8, HJG_MATCH_LEFT, KEYS_DUPLICATES, 20000, 350, SMALL_BUDGET},
	};
	const HjgCudaTuning normal = hjg_cuda_tuning;

	hjg_cuda_tuning = (HjgCudaTuning) {.most_chunk_rows = 100, .least_chunk_rows = 100};
	for (size_t i = 0; i < sizeof(joins) / sizeof(joins[0]); i++)
		test_faults_of(&joins[i], HJG_FAULT_KINDS);
	/*
	 * partitions of few rows need several passes; out of memory is tried for all joins, the other kinds
	 * alternate
	 */
	hjg_cuda_paper_tuning.part_rows = 1;
	for (int s = HJG_LAB_NOP_CHAIN; s <= HJG_LAB_UMJ_PF; s++)
	{
		const FaultedJoin join = {s, widths[s % 3], HJG_MATCH_ALL, s % 2 ? KEYS_UNIFORM : KEYS_DUPLICATES, 150, 60, 0};

		test_faults_of(&join, 1 + s % 2);
	}
	hjg_cuda_paper_tuning.part_rows = 0;
	hjg_cuda_tuning = normal;
}
