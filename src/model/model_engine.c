/*
 * model_engine.c
 *	  Joins on an engine of the device process that was measured as a whole: OpenCL devices with the
 *	  CPU's threads beside them, and the cpu engine measured in the same way.
 *
 * The coupled engine's own model divides the steps of such a join (coupled_model.c).  Here a row's cost is
 * interpolated between joins of two sizes over the logarithm of the build rows, level before the first and
 * behind the second.  That suffices to compare engines.
 */
#include <math.h>
#include <stddef.h>

#include "model/hjg_model.h"

/* Largest part of the cpu engine's time that an engine may be expected to take. */
#define MOST_OF_CPU 0.9

/* Longest plausible time to start a join. */
#define MOST_START_NS 1e9

static double
row_ns(const double ns[2], double build_rows)
{
	const double log_rows = build_rows > 1 ? log2(build_rows) : 0;
	const double share = (log_rows - HJG_ENGINE_SMALL_LOG) / (HJG_ENGINE_LARGE_LOG - HJG_ENGINE_SMALL_LOG);

	return ns[0] + (ns[1] - ns[0]) * fmin(fmax(share, 0), 1);
}

double
hjg_model_engine_build_ns(const HjgEngineCosts *costs, double build_rows)
{
	return costs->start_ns + build_rows * row_ns(costs->build_ns, build_rows);
}

double
hjg_model_engine_probe_ns(const HjgEngineCosts *costs, double build_rows, double probe_rows)
{
	return probe_rows * row_ns(costs->probe_ns, build_rows);
}

void
hjg_model_engine_costs_of(const HjgEngineTimes *times, HjgEngineCosts *costs)
{
	costs->start_ns = times->one_row_ns;
	for (int i = 0; i < 2; i++)
	{
		const double nrows = exp2(i == 0 ? HJG_ENGINE_SMALL_LOG : HJG_ENGINE_LARGE_LOG);

		/* a row takes some time even if noise says otherwise */
		costs->build_ns[i] = fmax(times->build_ns[i] - times->one_row_ns, times->build_ns[i] / 10) / nrows;
		costs->probe_ns[i] = fmax(times->join_ns[i] - times->build_ns[i], times->join_ns[i] / 10) / nrows;
	}
}

bool
hjg_model_engine_costs_valid(const HjgEngineCosts *costs)
{
	bool		good = isfinite(costs->start_ns) && costs->start_ns > 0 && costs->start_ns < MOST_START_NS;

	for (int i = 0; i < 2; i++)
		good = good && costs->build_ns[i] > 0.01 && costs->build_ns[i] < 1e5 && costs->probe_ns[i] > 0.01 && costs->probe_ns[i] < 1e5;
	return good;
}

const HjgEngineCosts *
hjg_model_coupled_costs(const HjgCalibration *calibration, int number, double identity)
{
	if (number < 0 || number >= HJG_MODEL_COUPLED || calibration->coupled[number].identity != identity ||
		!hjg_model_engine_costs_valid(&calibration->coupled[number].costs) || !hjg_model_engine_costs_valid(&calibration->cpu_engine))
		return NULL;
	return &calibration->coupled[number].costs;
}

bool
hjg_model_engine_pays(const HjgEngineCosts *costs, const HjgEngineCosts *cpu, double build_rows, double probe_rows)
{
	return hjg_model_engine_build_ns(costs, build_rows) + hjg_model_engine_probe_ns(costs, build_rows, probe_rows) <
		MOST_OF_CPU * (hjg_model_engine_build_ns(cpu, build_rows) + hjg_model_engine_probe_ns(cpu, build_rows, probe_rows));
}
