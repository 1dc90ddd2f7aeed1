/*
 * hjg_calibrate.h
 *	  Measurement of the model's unit costs on this machine.
 *
 * Room "calibrate". No other room includes this header: SQL calls hjoin_gpu_calibrate() (calibrate_functions.c), and a
 * background worker does the same without being asked (calibrate_worker.c).
 *
 * Core's joins, GPUs and OpenCL devices are measured by SQL and by jobs. The other unit costs are times of 0.1 to 100 ns of
 * one function each: reading a page, encoding a key, storing a row, probing. They are measured by calls of these functions, so
 * this room includes scan, rows and engine. By SQL each would be a difference of two queries' times, which is smaller than
 * what these times vary by; it would take tables of known rows, and longer than the 15 s of a calibration. Of the planner it
 * needs three functions: the costs in force with the cost overrides, for hjoin_gpu_costs(), and the numbers of processors and threads.
 */
#ifndef HJG_CALIBRATE_H
#define HJG_CALIBRATE_H

#include "postgres.h"

#include "model/hjg_model.h"
#include "service/hjg_service.h"

/* calibrate_functions.c */
/*
 * Measure the unit costs and store them; takes about 15 seconds. Alone: only if this process had a processor all the time, false
 * otherwise. An error if they are implausible or cannot be stored. Needs a transaction with a snapshot.
 */
extern bool hjg_calibrate(bool alone);

/* calibrate_calls.c */
/* Measure the machine's costs on the functions that joins use, except those that are measured by SQL. */
extern void hjg_calibrate_by_calls(HjgUnitCosts *costs);

/* Measure the mapping of so much shared memory. */
extern double hjg_calibrate_mapping_ns(Size bytes);
/* Measure a join of the backend's own engine: the time of all build rows, and that of all probe rows. */
extern void hjg_calibrate_engine(MemoryContext context, double *build_ns, double *probe_ns);

/* calibrate_scan.c */
/* Bytes that few caches hold most of, where they cannot be evicted: third-level caches hold 32 to 320 MB. */
#define HJG_CALIBRATE_BYTES (256 * 1024 * 1024)

/* Measure reading tables once, on the functions that scans use. Resets the current context, and leaves memory in it. */
extern void hjg_calibrate_scans(HjgUnitCosts *costs);

/* Pages of rows. */
typedef struct HjgScanSample HjgScanSample;
/* Make so many pages, of which the first ones also stay in a cache, in the current context. */
extern const HjgScanSample *hjg_calibrate_sample(int npages);
/* Remove npages pages, beginning with the first one (from 0), from all caches of the processor; does nothing on processors other than x86-64 and ARM64. */
extern void hjg_calibrate_sample_evict(const HjgScanSample *sample, int first, int npages);
/* Read a column of all rows that is behind others of variable width: of the first npages pages, or of those that stay in a cache. */
extern void hjg_calibrate_sample_read(const HjgScanSample *sample, int npages, bool cached);

/* calibrate_crowding.c */
/*
 * Measure how much longer work takes while other processes do the same, by parallel workers, if there are any; takes about two seconds. Returns the
 * least share of the time for which one of them had a processor.
 */
extern double hjg_calibrate_crowding(HjgUnitCosts *costs);

/* calibrate_program.c */
/* Measure a program on all threads of the device process, if there is one. */
extern void hjg_calibrate_program(HjgUnitCosts *costs);

/* calibrate_sql.c */
/* Measure core's joins, and a small GpuHashJoin. Changes settings, which the caller restores. */
extern void hjg_calibrate_by_sql(HjgUnitCosts *costs);

/* calibrate_gpu.c */
/* Measure joins on each GPU, one after the other; changes hjoin_gpu.device. */
extern void hjg_calibrate_gpus(HjgGpuCosts gpus[HJG_MODEL_GPUS]);
/*
 * Fill slabs with nrows keys of 4 bytes and add them to the build side, each key once from number `first` on; or, with batch
 * >= 0, to a batch, in another order and by numbers below modulo. False without memory.
 */
extern bool hjg_calibrate_fill(HjgJob *job, int batch, uint32 nrows, uint32 first, uint32 modulo);
/* Warn that the costs of a device are implausible and are not kept. */
extern void hjg_calibrate_refuse(const char *device);

/* calibrate_coupled.c */
/* Measure joins that are divided with each OpenCL device, and the same on the cpu engine; changes hjoin_gpu.device. */
extern void hjg_calibrate_coupled(HjgCalibration *calibration);

#endif							/* HJG_CALIBRATE_H */
