/*
 * test_cuda_model.c
 *	  The cost model of joins on a GPU: its promises over random sizes, and that calibration recovers
 *	  the costs from predicted times.
 *
 * test_cuda_model [SEED]; prints TAP lines.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "model/hjg_model.h"

#define L2_BYTES 52428800.0
#define NSIZES 2000

static int	ntests = 0;
static int	nfailed = 0;

static void
ok(bool good, const char *claim)
{
	ntests++;
	nfailed += !good;
	printf("%s %d - %s\n", good ? "ok" : "not ok", ntests, claim);
}

static HjgCudaJoinSize
random_size(void)
{
	static const int widths[] = {4, 8, 16};

	return (HjgCudaJoinSize) {
		.key_width = widths[(int) (drand48() * 3)], .build_rows = exp2(drand48() * 28), .probe_rows = exp2(drand48() * 30),
		.chunk_rows = 524288, .pairs = exp2(drand48() * 30), .l2_bytes = L2_BYTES
	};
}

static double
total(const HjgCudaUnitCosts *costs, HjgCudaJoinSize size, HjgCudaStrategyId strategy)
{
	HjgCudaPrediction p;

	return hjg_model_cuda_predict(costs, &size, strategy, &p) ? p.in_ns + hjg_model_cuda_joining_ns(&p) + p.out_ns : -1;
}

static void
test_sizes(void)
{
	const HjgCudaUnitCosts *costs = &hjg_model_default_costs.cuda;
	bool		positive = true;
	bool		grows = true;
	bool		packed_is_smaller = true;

	for (int i = 0; i < NSIZES; i++)
	{
		const HjgCudaJoinSize size = random_size();
		HjgCudaJoinSize more = size;

		more.build_rows *= 2;
		more.probe_rows *= 2;
		for (int id = HJG_CUDA_FIRST; id <= HJG_CUDA_LAST; id++)
		{
			const double ns = total(costs, size, (HjgCudaStrategyId) id);

			positive = positive && (ns == -1 || (isfinite(ns) && ns > 0));
			grows = grows && (ns == -1 || total(costs, more, (HjgCudaStrategyId) id) > ns);
		}
		/* not for few rows: there is a least size */
		if (size.key_width == 4 && size.build_rows > 500000)
			packed_is_smaller = packed_is_smaller && total(costs, size, HJG_CUDA_PACKED) <= total(costs, size, HJG_CUDA_TABLE);
	}
	ok(positive, "every time is a positive number");
	ok(grows, "more rows take more time");
	ok(packed_is_smaller, "a smaller table is not slower");
}

/* Predict a trial by the model, without calls, which the device's clock does not see. */
static HjgCudaTrial
predicted(const HjgCudaUnitCosts *costs, HjgCudaTrial trial)
{
	const double mb = 1024.0 * 1024.0;
	const HjgCudaJoinSize size = {
		.key_width = 4, .build_rows = trial.build_rows, .probe_rows = trial.probe_rows, .chunk_rows = HJG_CUDA_TRIAL_CHUNK,
		.pairs = trial.matching ? trial.probe_rows : 0, .l2_bytes = L2_BYTES
	};
	HjgCudaPrediction p;

	hjg_model_cuda_predict(costs, &size, trial.strategy, &p);
	trial.times = (HjgJobStats) {.transfer_ns = p.in_ns + p.out_ns, .build_ns = p.build_ns, .probe_ns = p.probe_ns};
	if (trial.strategy == HJG_CUDA_RADIX1)
	{
		trial.times.partition_ns = (trial.build_rows + trial.probe_rows) * HJG_CUDA_PASS_BYTES(4, 1) * costs->stream_mb_ns / mb;
		trial.times.probe_ns -= trial.times.partition_ns - p.build_ns;
	}
	else if (trial.strategy == HJG_CUDA_CSR)
		trial.times.partition_ns = ceil(log2(trial.build_rows) / 8) * trial.build_rows * costs->sort_row_ns;
	/* the time of launches is subtracted again */
	trial.idle = (HjgJobStats) {.partition_ns = 30000, .build_ns = 20000, .probe_ns = 25000};
	trial.times.build_ns += trial.idle.build_ns;
	trial.times.probe_ns += trial.idle.probe_ns * ceil(trial.probe_rows / HJG_CUDA_TRIAL_CHUNK);
	trial.times.partition_ns += trial.strategy == HJG_CUDA_CSR ? trial.idle.partition_ns * ceil(log2(trial.build_rows) / 8) :
		trial.idle.partition_ns * (1 + ceil(trial.probe_rows / HJG_CUDA_TRIAL_CHUNK)) / 2;
	return trial;
}

static void
test_calibration(void)
{
	const HjgCudaUnitCosts made_up = {
		.context_ns = 1e8, .call_ns = 1e-6, .in_mb_ns = 20000, .out_mb_ns = 25000, .stream_mb_ns = 500, .gather_l2_ns = 0.01,
		.gather_ns = 0.04, .insert_l2_ns = 0.05, .insert_ns = 0.1, .sort_row_ns = 0.03, .part_row_ns = 0.006
	};
	HjgCudaUnitCosts found = {.context_ns = made_up.context_ns, .call_ns = made_up.call_ns};
	HjgCudaTrial trials[HJG_CUDA_NTRIALS];
	const double *a = (const double *) &made_up;
	const double *b = (const double *) &found;
	bool		close = true;

	hjg_model_cuda_plan_trials(trials, L2_BYTES);
	for (int i = 0; i < HJG_CUDA_NTRIALS; i++)
		trials[i] = predicted(&made_up, trials[i]);
	hjg_model_cuda_calibrate(&found, trials, L2_BYTES);
	for (size_t i = 0; i < sizeof(found) / sizeof(double); i++)
		if (fabs(a[i] - b[i]) > 0.15 * a[i])
		{
			printf("# cost %d: %g instead of %g\n", (int) i, b[i], a[i]);
			close = false;
		}
	ok(close, "calibration finds the costs that times were predicted from, within 15 %");

	hjg_model_cuda_plan_trials(trials, L2_BYTES);
	hjg_model_cuda_calibrate(&found, trials, L2_BYTES);
	close = true;
	for (size_t i = 0; i < sizeof(found) / sizeof(double); i++)
		close = close && isfinite(b[i]) && b[i] > 0;
	ok(close, "a clock that stands still gives no cost of zero");
}

/* Test the choice between the cpu engine and a GPU, as the planner makes it. */
static void
test_choice(void)
{
	HjgJoinShape shape = {
		.build_rows = 1000, .probe_rows = 40000, .pairs = 40000, .partnered = 1, .nkeys = 1, .key_width = 4, .nthreads = 2,
		.gpu_l2_bytes = L2_BYTES, .build_unique = true
	};
	HjgPrediction cpu;
	HjgPrediction gpu;

	hjg_model_predict(&hjg_model_default_costs, &shape, &cpu);
	shape.gpu = shape.gpu_cold = true;
	hjg_model_predict(&hjg_model_default_costs, &shape, &gpu);
	ok(gpu.total_ns > cpu.total_ns, "no GPU is started for a small join");
	shape.build_rows = 5e6;
	shape.probe_rows = shape.pairs = 2e7;
	hjg_model_predict(&hjg_model_default_costs, &shape, &gpu);
	shape.gpu = false;
	hjg_model_predict(&hjg_model_default_costs, &shape, &cpu);
	ok(gpu.total_ns < cpu.total_ns, "20M x 5M rows are joined faster on a GPU");
	ok(gpu.transfer_ns > 0 && gpu.gpu_build_ns > 0 && gpu.gpu_probe_ns > 0, "its phases are told");
	ok(cpu.transfer_ns == 0 && cpu.gpu_build_ns == 0 && cpu.gpu_probe_ns == 0, "and are none without it");
}

static void
test_devices(void)
{
	const double one = hjg_gpu_identity("Device A, compute capability 8.0");
	HjgCalibration calibration = {.machine = hjg_model_default_costs};

	calibration.gpus[1] = (HjgGpuCosts) {.identity = one, .costs = hjg_model_default_costs.cuda};
	ok(one > 0 && one != hjg_gpu_identity("Device A, compute capability 9.0"), "devices are known by their descriptions");
	ok(hjg_model_gpu_costs(&calibration, 1, one) == &calibration.gpus[1].costs, "a device that was measured has its costs");
	ok(hjg_model_gpu_costs(&calibration, 1, one + 1) == NULL && hjg_model_gpu_costs(&calibration, 0, one) == NULL &&
	   hjg_model_gpu_costs(&calibration, -1, one) == NULL && hjg_model_gpu_costs(&calibration, HJG_MODEL_GPUS, one) == NULL,
	   "another one has not");
	calibration.gpus[1].costs.gather_ns = -1;
	ok(hjg_model_gpu_costs(&calibration, 1, one) == NULL, "nor has it costs that cannot be");
}

/* ---- payload columns ---- */

static bool
early_pays(HjgPayloadSize size)
{
	return hjg_model_cuda_early_ns(&hjg_model_default_costs.cuda, &size) < hjg_model_cuda_late_ns(&size);
}

static void
test_payload(void)
{
	const HjgPayloadSize build = {.row_bytes = 4, .rows = 5e6, .pairs = 2e7, .store_bytes = 2e7};
	HjgPayloadSize wide = build;
	HjgPayloadSize few = build;
	HjgPayloadSize selective = build;
	HjgPayloadSize shared = build;
	HjgPayloadSize probe = {.row_bytes = 4, .rows = 2e7, .pairs = 2e7};
	bool		grow = true;

	wide.row_bytes = 32;
	wide.store_bytes = wide.row_bytes * wide.rows;
	few.rows = 1e5;
	few.store_bytes = 4e5;
	selective.pairs = 1000;
	shared.busy = true;
	ok(early_pays(build) && early_pays(wide), "columns of a large build side are gathered early");
	ok(!early_pays(few), "those of one that is in a processor's cache are not");
	ok(!early_pays(selective), "nor those of rows of which few find a partner");
	ok(!early_pays(shared), "nor any where processors are busy");
	ok(!early_pays(probe), "nor those of the probe side");
	for (int i = 0; i < NSIZES; i++)
	{
		const HjgPayloadSize size = {
			.row_bytes = 4 * (1 + (int) (drand48() * 32)), .rows = exp2(drand48() * 28), .pairs = exp2(drand48() * 30),
			.store_bytes = drand48() < 0.3 ? 0 : exp2(drand48() * 34), .busy = drand48() < 0.5
		};
		HjgPayloadSize more = size;

		more.pairs *= 2;
		grow = grow && hjg_model_cuda_late_ns(&size) > 0 && hjg_model_cuda_late_ns(&more) > hjg_model_cuda_late_ns(&size) &&
			hjg_model_cuda_early_ns(&hjg_model_default_costs.cuda, &more) > hjg_model_cuda_early_ns(&hjg_model_default_costs.cuda, &size);
	}
	ok(grow, "more pairs take more time, early and late");
}

int
main(int argc, char **argv)
{
	const long	seed = argc > 1 ? atol(argv[1]) : (long) time(NULL);

	srand48(seed);
	printf("# seed %ld\n", seed);
	test_sizes();
	test_calibration();
	test_choice();
	test_devices();
	test_payload();
	printf("1..%d\n", ntests);
	return nfailed > 0;
}
