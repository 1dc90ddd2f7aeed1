/*
 * hjg_coupled_costs.h
 *	  Samples of joins, which calibration of the coupled engine measures, and the unit costs that the model takes from them.
 *	  Internal to the room.
 */
#ifndef HJG_COUPLED_COSTS_H
#define HJG_COUPLED_COSTS_H

#include "coupled/hjg_coupled_model.h"

/* Most runs of a size. */
#define HJG_CALIBRATION_RUNS 25

/* Least cost of a step, whatever was measured. */
#define HJG_LEAST_STEP_NS 0.01

/* Copies that were queued together, and the time they took. */
typedef struct HjgCopySample
{
	HjgCopies	copies;
	double		ns;
} HjgCopySample;

/* Costs of steps as one join measured them; infinite where it says nothing of a step. */
typedef struct HjgCoupledSample
{
	double		ns[HJG_PROCESSORS][HJG_STEP_COUNT]; /* a row */
	double		rows[HJG_PROCESSORS][HJG_STEP_COUNT];
	double		taken[HJG_PROCESSORS][HJG_STEP_COUNT];	/* of them, those that the other processor had in the step before */
	double		busy_ns[HJG_PROCESSORS][HJG_STEP_COUNT];	/* the step's time, pieces and copies included */
	/* where the device works on copies; not part of the above */
	HjgCopySample copied[HJG_PROCESSORS][HJG_STEP_COUNT];	/* for a step, of data that the processor lacked */
	HjgCopySample called;		/* to queue those to the device */
	HjgCopySample moved[HJG_PROCESSORS];	/* tables */
	double		build_rest_ns;
	double		probe_rest_ns;
	/* a piece of the device's */
	double		gap_ns;
	double		begin_ns;
	double		call_ns;
	double		wake_ns;
} HjgCoupledSample;

/*
 * Methods of the sampled joins, each without and with partitioning: on the CPU; on the device; on both with one ratio for all
 * steps, so that no row changes its processor within a series; on both with ratios that differ from step to step.
 */
typedef enum HjgCalibrationWay
{
	HJG_WAY_CPU = HJG_ON_CPU,
	HJG_WAY_DEVICE = HJG_ON_DEVICE,
	HJG_WAY_ONE_RATIO,
	HJG_WAY_MIXED,
	HJG_CALIBRATION_WAYS
} HjgCalibrationWay;

/* Samples of all ways and runs of a size, without and with partitioning. */
typedef HjgCoupledSample HjgCoupledSamples[2][HJG_CALIBRATION_WAYS][HJG_CALIBRATION_RUNS];

/*
 * Fill in costs of all sizes, of which each has so many runs; seen_ns: until it is seen that the device is done.  costs comes
 * with nsizes, busy_ns and piece_ns, and gets all other costs of steps and pieces.
 */
extern void hjg_coupled_take_costs(const HjgCoupledSamples *samples, const int ndone[HJG_STEP_SIZES], double seen_ns,
								   HjgStepCosts *costs);

#endif							/* HJG_COUPLED_COSTS_H */
