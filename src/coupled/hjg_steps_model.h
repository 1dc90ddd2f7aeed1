/*
 * hjg_steps_model.h
 *	  The steps of a coupled join, their arrays, and the parts of these that are copied for a device
 *	  with its own memory.
 *
 * Both processors then have a copy of each array, and a row's element is valid in one copy or in both.  In
 * a step the CPU works on the first rows and the device on the others, so an array is cut at most twice:
 * the CPU's copy is valid below one row, the device's from another row on.  Elements that a step reads and
 * that are not valid on its side are copied before; elements that it writes are valid only on its side.
 * The engine copies by the same table of arrays (coupled_copies.c), so the predicted copies are those
 * made.
 */
#ifndef HJG_STEPS_MODEL_H
#define HJG_STEPS_MODEL_H

#include <stdbool.h>

typedef enum HjgStep
{
	HJG_STEP_HASH = 0,			/* b1, p1, n1 of the caller's keys */
	HJG_STEP_NUMBER,			/* b1, p1, n1 of rows that are already mixed */
	HJG_STEP_N2,
	HJG_STEP_N3,
	HJG_STEP_B2,
	HJG_STEP_B3,
	HJG_STEP_B4,
	HJG_STEP_P2,
	HJG_STEP_P3,
	HJG_STEP_P4,
	HJG_STEP_COUNT,
	/* other launches, which are not part of a series */
	HJG_STEP_UNPACK = HJG_STEP_COUNT,
	HJG_STEP_PREFETCH,
	HJG_STEP_OWN				/* a step that the caller brings along (HjgOwnStep) */
} HjgStep;

typedef enum HjgProcessor
{
	HJG_ON_CPU = 0,
	HJG_ON_DEVICE,
	HJG_PROCESSORS
} HjgProcessor;

/* Arrays by row, and the headers of partitions. */
typedef enum HjgArray
{
	HJG_ARRAY_KEYS = 0,			/* the caller's */
	HJG_ARRAY_MIXED,
	HJG_ARRAY_ROWS,
	HJG_ARRAY_BUCKETS,
	HJG_ARRAY_NODES,
	HJG_ARRAY_COUNTS,
	HJG_ARRAY_OFFSETS,
	HJG_ARRAY_HEADERS,			/* of partitions; used as a whole */
	HJG_ARRAYS
} HjgArray;

/* Sets of arrays, by bits. */
typedef unsigned HjgArraySet;

#define HJG_ARRAY_BIT(array) (1u << (array))

/* Arrays that a step uses, and that the host uses before and after it. */
typedef struct HjgStepUse
{
	HjgArraySet host_writes;	/* before the step */
	HjgArraySet reads;
	HjgArraySet writes;			/* N3: those of the destination, which replace the arrays */
	HjgArraySet host_reads;		/* after the step */
} HjgStepUse;

extern const HjgStepUse hjg_step_use[HJG_STEP_COUNT];

/* The valid parts of an array, as shares of its rows: the CPU's copy below cpu_end, the device's from device_begin on. */
typedef struct HjgPlace
{
	double		cpu_end;
	double		device_begin;
} HjgPlace;

typedef struct HjgPlaces
{
	HjgPlace	arrays[HJG_ARRAYS];
} HjgPlaces;

/* The rows of a series, for the model of copies. */
typedef struct HjgRowsShape
{
	double		nrows;
	double		chunk_rows;		/* of a copy; 0: one copy of all */
	double		row_bytes[HJG_ARRAYS];	/* of the headers: all headers divided by the rows */
} HjgRowsShape;

/* Copies of parts of arrays. */
typedef struct HjgCopies
{
	double		n;
	double		bytes;
} HjgCopies;

/* Costs of copies, in nanoseconds. */
typedef struct HjgCopyCost
{
	double		each_ns;
	double		byte_ns;
} HjgCopyCost;

static inline double
hjg_copies_ns(const HjgCopyCost *cost, const HjgCopies *copies)
{
	return copies->n * cost->each_ns + copies->bytes * cost->byte_ns;
}

/* Note that the host has written these arrays. */
extern void hjg_places_host_wrote(HjgPlaces *places, HjgArraySet arrays);
/* Note that the host reads these arrays; adds the necessary copies to *to_cpu. */
extern void hjg_places_host_reads(HjgPlaces *places, const HjgRowsShape *rows, HjgArraySet arrays, HjgCopies *to_cpu);
/*
 * Note a step in which the CPU has the first share of the rows; adds the copies before it to to[].  The
 * host's use of arrays around the step is not counted.
 */
extern void hjg_places_step(HjgPlaces *places, const HjgRowsShape *rows, HjgStep step, double ratio, HjgCopies to[HJG_PROCESSORS]);

#endif							/* HJG_STEPS_MODEL_H */
