/*
 * engine_coupled_units.c
 *	  Which unit does what: prefetching, decompression, execution.
 *
 * Units are the CPU's threads and the device's work groups.  The CPU is divided into sets of
 * threads; of the device, whose driver may not divide it, the first work groups of each launch
 * decompress (hjg_k_merged).  A pipeline says on which side the boundary between D and E lies, and
 * the assignment where.
 */
#include "engine/hjg_coupled_internal.h"

/* Rows whose keys the feed unpacks at a time: whole blocks, several, so that all who unpack have some. */
#define MIN_FEED_ROWS (4 * HJG_PACK_BLOCK_ROWS)
#define MAX_FEED_ROWS (1u << 24)

const char *
hjg_pipeline_name(int pipeline)
{
	static const char *const names[HJG_PIPELINE_COUNT] = {"auto", "e", "pe", "cpde_c", "cpde_b", "cpde_g"};

	return pipeline >= 0 && pipeline < HJG_PIPELINE_COUNT ? names[pipeline] : NULL;
}

static int
clamp(int value, int least, int most)
{
	return value > most ? most : value < least ? least : value;
}

/*
 * Units of a pipeline on ncpu threads and ngroups work groups.  boundary is how many of them decompress, counted from
 * the CPU's first one after the fetcher; 0 means half of those that there are on the side of the boundary.  Where
 * there are too few threads the fetcher goes first, and then the CPU's share of E.
 */
static HjgUnits
units_of(HjgPipeline pipeline, int ncpu, int ngroups, int boundary)
{
	HjgUnits	units = {.cpu_e = ncpu, .device_e = ngroups};
	const int	fetchers = ncpu > 1 ? 1 : 0;

	switch (pipeline)
	{
		case HJG_PIPELINE_PE:
			return (HjgUnits) {.cpu_p = 1, .cpu_e = ncpu - 1, .device_e = ngroups};
		case HJG_PIPELINE_CPDE_C:
			units.cpu_p = ncpu > 2 ? 1 : 0;
			units.cpu_d = clamp(boundary > 0 ? boundary : (ncpu - units.cpu_p) / 2, 1, ncpu > 1 ? ncpu - units.cpu_p - 1 : 1);
			units.cpu_e = ncpu - units.cpu_p - units.cpu_d;
			return units;
		case HJG_PIPELINE_CPDE_B:
			return (HjgUnits) {.cpu_p = fetchers, .cpu_d = ncpu - fetchers, .device_e = ngroups};
		case HJG_PIPELINE_CPDE_G:
			units = (HjgUnits) {.cpu_p = fetchers, .cpu_d = ncpu - fetchers};
			if (ngroups > 1)
				units.device_d = clamp(boundary > 0 ? boundary - units.cpu_d : ngroups / 4, 1, ngroups - 1);
			units.device_e = ngroups - units.device_d;
			return units;
		default:
			return units;
	}
}

HjgStatus
hjg_units_assign(HjgCoupled *join, bool packed_input)
{
	const int	ncpu = join->cpu_threads;
	const int	ngroups = join->runner != NULL ? join->runner->nworkers : 0;
	const bool	is_packed = packed_input || join->config.pipeline >= HJG_PIPELINE_CPDE_C;
	HjgPipeline pipeline = join->config.pipeline;

	/* one side alone has nothing to share */
	if (pipeline == HJG_PIPELINE_AUTO || join->runner == NULL)
		pipeline = HJG_PIPELINE_E;
	join->stats.pipeline = pipeline;
	join->units = join->stats.units = units_of(pipeline, ncpu, ngroups, join->config.boundary);
	if (join->units.cpu_p > 0 && (join->fetcher = hjg_threads_runner_create(join->units.cpu_p)) == NULL)
		return HJG_ERR_MEMORY;
	if (join->units.cpu_d > 0 && (join->feeder = hjg_threads_runner_create(join->units.cpu_d)) == NULL)
		return HJG_ERR_MEMORY;
	/* somebody has to do what is between the steps */
	join->cpu_threads = join->units.cpu_e > 0 ? join->units.cpu_e : 1;
	if (is_packed)
		hjg_units_feed(join);
	return HJG_OK;
}

void
hjg_units_feed(HjgCoupled *join)
{
	const size_t rows = join->config.was_bytes / (size_t) join->base.spec.key_width;

	join->was_rows = rows < MIN_FEED_ROWS ? MIN_FEED_ROWS : rows > MAX_FEED_ROWS ? MAX_FEED_ROWS : (hjg_u32) rows;
}

void
hjg_units_release(HjgCoupled *join)
{
	hjg_threads_runner_destroy(join->fetcher);
	hjg_threads_runner_destroy(join->feeder);
	join->fetcher = join->feeder = NULL;
}
