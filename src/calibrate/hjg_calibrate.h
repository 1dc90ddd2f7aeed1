/*
 * hjg_calibrate.h
 *	  What measures the unit costs of the model on this machine.
 *
 * Room "calibrate".  Nobody includes it: SQL calls hjoin_gpu_calibrate(), see calibrate_functions.c.  What joins cost is measured
 * by SQL or on the functions that joins use.
 */
#ifndef HJG_CALIBRATE_H
#define HJG_CALIBRATE_H

#include "postgres.h"

#include "model/hjg_model.h"
#include "service/hjg_service.h"

/* calibrate_calls.c */
/* Measure the functions that joins use: the costs of this machine, but for those that are measured by SQL. */
extern void hjg_calibrate_by_calls(HjgUnitCosts *costs);

/* calibrate_scan.c */
/* Measure reading tables, on the functions that scans use, once; leaves memory behind in the current context. */
extern void hjg_calibrate_scans(HjgUnitCosts *costs);

/* calibrate_sql.c */
/* Measure what core takes for joins, and a small join of ours.  Changes settings: the caller restores them. */
extern void hjg_calibrate_by_sql(HjgUnitCosts *costs);

/* calibrate_gpu.c */
/* Measure what joins on each GPU cost, one after the other; hjoin_gpu.device is changed. */
extern void hjg_calibrate_gpus(HjgGpuCosts gpus[HJG_MODEL_GPUS]);
/*
 * Fill slabs with nrows keys of 4 bytes and add them to the build side, each key once from number first on, or (batch >= 0) to a batch, in another
 * order and below number modulo; false without memory.
 */
extern bool hjg_calibrate_fill(HjgJob *job, int batch, uint32 nrows, uint32 first, uint32 modulo);
/* Warn that what was measured of a device is not kept, as it cannot be. */
extern void hjg_calibrate_refuse(const char *device);

/* calibrate_coupled.c */
/* Measure what joins cost that are divided with each OpenCL device, and on the cpu engine likewise; hjoin_gpu.device is changed. */
extern void hjg_calibrate_coupled(HjgCalibration *calibration);

#endif							/* HJG_CALIBRATE_H */
