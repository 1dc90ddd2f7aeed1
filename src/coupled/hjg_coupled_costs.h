/*
 * hjg_coupled_costs.h
 *	  Samples of joins, measured by calibration of the coupled engine, and the model's unit costs
 *	  computed from them.  Internal to the room.
 */
#ifndef HJG_COUPLED_COSTS_H
#define HJG_COUPLED_COSTS_H

#include "coupled/hjg_coupled_model.h"

/* Most runs of a size. */
#define HJG_CALIBRATION_RUNS 25

/* Least cost of a step, whatever was measured. */
#define HJG_LEAST_STEP_NS 0.01

/* Copies that were queued together, and their time. */
typedef struct HjgCopySample
{
	HjgCopies	copies;
	double		ns;
} HjgCopySample;

/* Costs of steps as one join measured them; infinite for steps that it did not measure. */
typedef struct HjgCoupledSample
{
	double		ns[HJG_PROCESSORS][HJG_STEP_COUNT]; /* a row */
	double		rows[HJG_PROCESSORS][HJG_STEP_COUNT];
	double		taken[HJG_PROCESSORS][HJG_STEP_COUNT];	/* rows of these that the other processor had in
														 * the previous step */
	double		busy_ns[HJG_PROCESSORS][HJG_STEP_COUNT];	/* the step's time, pieces and copies included */
	/* for a device that works on copies; not part of the above */
	HjgCopySample copied[HJG_PROCESSORS][HJG_STEP_COUNT];	/* for a step, of data that the processor
															 * lacked */
	HjgCopySample called;		/* to queue these copies to the device */
	HjgCopySample moved[HJG_PROCESSORS];	/* tables */
	double		build_rest_ns;
	double		probe_rest_ns;
	/* for a piece of the device */
	double		gap_ns;
	double		begin_ns;
	double		call_ns;
	double		wake_ns;
} HjgCoupledSample;

/*
 * Methods of the sampled joins, each without and with partitioning: on the CPU; on the device; on both
 * with one ratio for all steps, so that no row changes its processor within a series; on both with ratios
 * that differ between steps.
 */
typedef enum HjgCalibrationMethod
{
	HJG_METHOD_CPU = HJG_ON_CPU,
	HJG_METHOD_DEVICE = HJG_ON_DEVICE,
	HJG_METHOD_ONE_RATIO,
	HJG_METHOD_MIXED,
	HJG_CALIBRATION_METHODS
} HjgCalibrationMethod;

/* Samples of all methods and runs of a size, without and with partitioning. */
typedef HjgCoupledSample HjgCoupledSamples[2][HJG_CALIBRATION_METHODS][HJG_CALIBRATION_RUNS];

/*
 * Fill in the costs of all sizes; ndone: runs of each size; seen_ns: time until the device's end is
 * noticed.  costs has nsizes, busy_ns and piece_ns already, and gets all other costs of steps and pieces.
 */
extern void hjg_coupled_take_costs(const HjgCoupledSamples *samples, const int ndone[HJG_STEP_SIZES], double seen_ns,
								   HjgStepCosts *costs);

#endif							/* HJG_COUPLED_COSTS_H */
