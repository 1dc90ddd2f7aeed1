/*
 * hjg_coupled_model.h
 *	  The time of a series of steps whose rows two processors share, and the ratios that minimise it.
 *
 * The abstract model of He, Lu and He (VLDB 2013), section 4: equations 1 to 5.  Computation and memory
 * stalls of a step (their C and M) are measured together as one unit cost, in nanoseconds a row, for each
 * processor and table size.
 */
#ifndef HJG_COUPLED_MODEL_H
#define HJG_COUPLED_MODEL_H

#include "coupled/hjg_steps_model.h"

/* The division of work: CPU threads and work groups of the device. */
typedef struct HjgUnits
{
	int			cpu_p;
	int			cpu_d;
	int			cpu_e;
	int			device_d;
	int			device_e;
} HjgUnits;

/*
 * Calibration sizes, log2 of build rows: from a table that fits any cache to one that fits none.  A server
 * measures the first HJG_STEP_QUICK_SIZES of them, which takes some seconds.
 */
#define HJG_STEP_SIZES 6
#define HJG_STEP_QUICK_SIZES 4
#define HJG_STEP_LOGS {14, 16, 17, 19, 22, 24}

/* Nanoseconds a row, by size; the last size also stands for larger ones. */
typedef double HjgStepNs[HJG_STEP_SIZES][HJG_PROCESSORS][HJG_STEP_COUNT];

/*
 * Costs without and with partitioning, which differ because partitioned rows come in the order of the
 * table.
 */
typedef struct HjgStepCosts
{
	int			nsizes;
	HjgStepNs	alone_ns[2];
	HjgStepNs	together_ns[2]; /* growth while the other processor works too: they share memory, the
								 * table, perhaps cores */
	double		exchange_ns[HJG_PROCESSORS];	/* extra for a row that the other processor had in the
												 * previous step, and in its cache */
	/* for a device that works on copies; by size, because a driver copies more bytes at another rate */
	HjgCopyCost copy[HJG_PROCESSORS][HJG_STEP_SIZES];	/* to a processor, of rows that it lacks */
	HjgCopyCost call[HJG_STEP_SIZES];	/* the CPU's time to queue these copies to the device */
	HjgCopyCost move[HJG_PROCESSORS][HJG_STEP_SIZES];	/* of a table that a processor lacks */
	double		spread[2][HJG_STEP_SIZES];	/* standard deviation, over joins, of the ratio of the two
											 * processors' times */
	double		build_rest_ns[2][HJG_STEP_SIZES];	/* a row, outside of steps: emptying tables, prefix
													 * sums */
	double		probe_rest_ns[2][HJG_STEP_SIZES];
	/* of a piece, besides its rows, by size */
	double		launch_ns[2][HJG_STEP_SIZES];	/* the device's piece after another, from the end of the
												 * latter; and busy_ns */
	double		call_ns[2][HJG_STEP_SIZES]; /* the CPU's time to queue a piece on the device */
	double		wake_ns[2][HJG_STEP_SIZES]; /* added when the device is idle */
	double		wait_ns[2][HJG_STEP_SIZES]; /* time until an idle device begins, and until its end is
											 * noticed */
	double		busy_ns;		/* the device's, while it works on the piece */
	double		piece_ns;		/* the CPU's */
	/* in-cache co-processing (hjg_incache_model.h) */
	double		start_ns;		/* start of a join's set of threads: of one thread */
	double		thread_ns;		/* of each further thread */
	double		unpack_ns[HJG_PROCESSORS];	/* a row under NS, all units, in cache */
	double		fetch_bytes_per_ns; /* of one fetcher, from memory */
	double		fetch_work_ns;	/* a byte, added to that */
	double		fetch_gain;		/* part of a miss's time that another unit's fetching saves */
} HjgStepCosts;

/* Most steps of a series. */
#define HJG_SERIES_STEPS 4

/* A series of steps over nrows rows, with its unit costs. */
typedef struct HjgSeriesShape
{
	int			nsteps;
	HjgStep		steps[HJG_SERIES_STEPS];	/* used for a device that works on copies */
	double		nrows;
	double		unit_ns[HJG_PROCESSORS][HJG_SERIES_STEPS];
	double		slowdown[HJG_PROCESSORS][HJG_SERIES_STEPS]; /* growth of unit_ns while the other processor
															 * works; 0: none */
	double		chunk_rows;		/* of a piece; 0: one piece of all rows, for which the other processor
								 * waits row by row */
	double		piece_ns[HJG_PROCESSORS];	/* of a piece, besides its rows */
	double		call_ns;		/* the CPU's, for a piece of the device */
	double		wake_ns;		/* each time that an idle device begins: the CPU's time */
	double		wait_ns;		/* and the device's */
	double		exchange_ns[HJG_PROCESSORS];	/* for a row that the other processor had in the previous
												 * step */
	/* for a device that works on copies */
	bool		copies;
	HjgPlaces	places;			/* before the first step */
	double		row_bytes[HJG_ARRAYS];
	HjgCopyCost copy[HJG_PROCESSORS];
	HjgCopyCost call;
	int			table_step;		/* first step that uses the table */
	double		move_ns[HJG_PROCESSORS];	/* to move the table to a processor that has rows in that step
											 * or a later one */
	double		spread;			/* standard deviation, over series, of the ratio of the two processors'
								 * times */
} HjgSeriesShape;

typedef struct HjgSeriesTimes
{
	double		total_ns;		/* equation 1, with the deviation of the processors' times */
	double		processor_ns[HJG_PROCESSORS];	/* equation 2 */
	double		delay_ns[HJG_PROCESSORS];	/* part of processor_ns, equations 4 and 5 */
	double		step_ns[HJG_PROCESSORS][HJG_SERIES_STEPS];	/* part of processor_ns, equation 3 */
} HjgSeriesTimes;

typedef enum HjgScheme
{
	HJG_SCHEME_OL = 0,			/* ratios 0 or 1 */
	HJG_SCHEME_DD,				/* one ratio for all steps */
	HJG_SCHEME_PL				/* any ratios */
} HjgScheme;

/* Distance of the ratios that are tried, as in the paper. */
#define HJG_RATIO_STEP 0.02

/*
 * Find a unit cost (such as alone_ns[partitioned]) for build_rows: interpolated over their logarithm
 * between the two nearest sizes.
 */
extern double hjg_step_cost_ns(const HjgStepCosts *costs, const HjgStepNs ns, HjgProcessor processor, HjgStep step,
							   double build_rows);
/* Find another cost that depends on the size, such as build_rest_ns[partitioned]. */
extern double hjg_size_cost_ns(const HjgStepCosts *costs, const double *ns, double build_rows);

/* Find costs of copies, such as copy[processor]. */
extern HjgCopyCost hjg_copy_cost(const HjgStepCosts *costs, const HjgCopyCost *cost, double build_rows);

/* Predict a series; ratios are the CPU's shares, one a step. */
extern void hjg_series_predict(const HjgSeriesShape *shape, const double *ratios, HjgSeriesTimes *times);

/*
 * Search the best ratios of a scheme and return the predicted time.  OL and DD are searched completely.
 * PL is searched by descent in ever shorter steps from the best points of OL, of DD, of two ratios and of
 * wide grids; this usually ends within 1 % of the best point of the whole grid, and within 12 % at worst
 * (17 % with 1000 rows, where each start of the device counts).  One side alone is preferred if it is within
 * 10 % of the best.
 */
extern double hjg_series_search(const HjgSeriesShape *shape, HjgScheme scheme, double *ratios);

/* Try every point of the grid with this step, for tests. */
extern double hjg_series_exhaust(const HjgSeriesShape *shape, double step, double *ratios);

#endif							/* HJG_COUPLED_MODEL_H */
