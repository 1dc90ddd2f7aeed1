/*
 * model_cuda_payload.c
 *	  Early or late materialisation of a join on a GPU: compares the processors' time.
 *
 * Late, a pair costs the fetch of a row, a cache miss if the rows are many.  Early, it costs reading the
 * columns beside the pair, and sending the rows.  The kernels and the bus work behind either.  The device
 * process's work for early columns, checksums and the driver's copies, runs on processors that a join of
 * one process leaves idle, but that a join of many processes needs.
 *
 * Fitted to an H100's host of 16 cores, 20M pairs of 20M x 5M rows, milliseconds late and early: one int4
 * of the build side 876 and 803, four int8 of it 1660 and 1517, one int4 of the probe side 801 and 894;
 * leader and 15 workers 90 and 95, 219 and 240, 97 and 99.
 */
#include "model/hjg_cuda_model.h"

#include <math.h>


/* Size up to which a store's rows stay in a processor's own cache. */
#define CACHED_BYTES (2 * HJG_MODEL_MB)

#define FETCH_CACHED_NS 1.5		/* a row, in order or from a cache, ... */
#define FETCH_CACHED_BYTE_NS 0.05
#define FETCH_NS 8.0			/* ... and from beyond the cache, when many fetches overlap */
#define FETCH_BYTE_NS 0.15
#define SEND_NS 0.5				/* a row into a slab */
#define SEND_BYTE_NS 0.05
#define READ_NS 4.5				/* a pair's columns, written by the device; with their check */
#define READ_BYTE_NS 0.03
#define SERVE_NS 5.0			/* the device process, for a pair's columns */
#define SERVE_BYTE_NS 0.6

double
hjg_model_cuda_late_ns(const HjgPayloadSize *size)
{
	const double cached = size->store_bytes > 0 ? fmin(1, CACHED_BYTES / size->store_bytes) : 1;

	return size->pairs * (cached * (FETCH_CACHED_NS + size->row_bytes * FETCH_CACHED_BYTE_NS) +
						  (1 - cached) * (FETCH_NS + size->row_bytes * FETCH_BYTE_NS));
}

double
hjg_model_cuda_early_ns(const HjgCudaUnitCosts *costs, const HjgPayloadSize *size)
{
	const double sent_ns = size->rows * (SEND_NS + size->row_bytes * SEND_BYTE_NS);
	const double pair_ns = READ_NS + size->row_bytes * READ_BYTE_NS +
		(size->busy ? SERVE_NS + size->row_bytes * SERVE_BYTE_NS : 0);
	const double bus_ns = size->row_bytes / HJG_MODEL_MB * (size->rows * costs->in_mb_ns + size->pairs * costs->out_mb_ns);

	/* a bus slower than the processors decides the time */
	return fmax(sent_ns + size->pairs * pair_ns, bus_ns);
}
