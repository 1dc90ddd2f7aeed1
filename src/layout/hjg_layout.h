/*
 * hjg_layout.h
 *	  The memory layout that backends, the device process and the kernels share.
 *
 * Room "layout": plain declarations in the common subset of C99 and OpenCL C, and inline functions on
 * them.  It includes nothing of other rooms and contains no pointers: data in shared memory is addressed
 * by slab number and offset, because every process maps the arena at its own address.
 *
 * Terms.  A join has a build side (core's inner) and a probe side (core's outer).  Clients send the join
 * keys of both sides and, for some jobs, payload columns of fixed width (HjgPayloadBytes).  A build row is
 * identified by its build row number (unique within a job), a probe row by its position in its probe
 * batch.  Rows with a NULL in the key are never sent.  No key value is reserved: an empty table entry is
 * never encoded as a key.
 */
#ifndef HJG_LAYOUT_H
#define HJG_LAYOUT_H

#ifdef __OPENCL_VERSION__
typedef uchar hjg_u8;
typedef ushort hjg_u16;
typedef uint hjg_u32;
typedef ulong hjg_u64;
#else
#include <stdint.h>
typedef uint8_t hjg_u8;
typedef uint16_t hjg_u16;
typedef uint32_t hjg_u32;
typedef uint64_t hjg_u64;
#endif

/* Version of all layouts in this room; the device process refuses an arena of another version. */
#define HJG_LAYOUT_VERSION 23

/* Number of doubles of a calibration: HjgCalibration. */
#define HJG_CALIBRATION_VALUES 192

/* Unit of leasing, of host registration and of releasing memory. */
#define HJG_SLAB_BYTES (2u * 1024u * 1024u)

/* "No such row": the build row of a pair whose probe row has no match. */
#define HJG_NO_ROW 0xFFFFFFFFu

/* Most build rows of one job; larger build sides are partitioned above the engine. */
#define HJG_MAX_BUILD_ROWS 0xFFFFFFF0u

/* Most rows of one probe batch. */
#define HJG_MAX_PROBE_ROWS (8u * 1024u * 1024u)

/*
 * A result row: probe_row is the position in the probe batch, build_row the build row number or
 * HJG_NO_ROW.
 */
typedef struct HjgPair
{
	hjg_u32		probe_row;
	hjg_u32		build_row;
} HjgPair;

/* Rows of the largest batch that a backend makes: its pairs, one for each row, fill a slab. */
#define HJG_LARGEST_BATCH_ROWS (HJG_SLAB_BYTES / (hjg_u32) sizeof(HjgPair))

/*
 * The pairs that an engine emits for a probe row with m matches.  SEMI also serves inner joins in which
 * each probe row has at most one match.
 */
typedef enum HjgMatchMode
{
	HJG_MATCH_ALL = 0,			/* m pairs */
	HJG_MATCH_LEFT,				/* m pairs, or one with HJG_NO_ROW when m = 0 */
	HJG_MATCH_SEMI,				/* one pair with any of the matches if m > 0 */
	HJG_MATCH_ANTI,				/* one pair with HJG_NO_ROW if m = 0 */
	HJG_MATCH_PROGRAM			/* no join: see hjg_program.h */
} HjgMatchMode;

/* Key widths in bytes; keys compare bytewise. */
#define HJG_KEY_WIDTH_4 4
#define HJG_KEY_WIDTH_8 8
#define HJG_KEY_WIDTH_16 16

/* Key widths as a set. */
#define HJG_WIDTH_BIT(key_width) ((hjg_u32) (key_width) / HJG_KEY_WIDTH_4)

/*
 * Position of the result rounds of a probe batch.  A round contains all pairs of the probe rows from this
 * cursor to the cursor that it returns.  A probe row whose matches do not fit is cut: skip counts its
 * pairs already emitted, in ascending order of build row number.  So any engine can continue, or repeat
 * the round, from a cursor returned by another engine.  Start: all 0.  Finished: row = number of rows of
 * the batch, skip = 0.
 *
 * Slices.  In mode ALL a round may request a slice of each row's matches (most > 0), because a client may
 * need no more pairs of a row once one of them has passed another test.  For row and every later row such
 * a round contains at most "most" pairs: those after the first skip matches in descending order of build
 * row number; with most = 1, which requires skip = 0, any one of the matches.  A row is not cut: if its
 * slice does not fit, the round ends before it.  The pairs of a row are adjacent in the result.  (The
 * order is descending because core's hash join visits the newest row first, and queries rely on it: "no
 * later row of the same key".)  The returned cursor has the same most and, unless it is finished, the same
 * skip.  An engine may return all matches of a row instead, which is correct but slower.  If it then cuts
 * a row, the client continues without slices; the cursor means the same to every engine.
 */
typedef struct HjgCursor
{
	hjg_u32		row;
	hjg_u32		most;			/* most pairs of a row; 0: all */
	hjg_u64		skip;
} HjgCursor;

/* ---- payload columns ---- */

typedef enum HjgSideId
{
	HJG_SIDE_BUILD,
	HJG_SIDE_PROBE,
	HJG_SIDES
} HjgSideId;

/*
 * The payload columns of a row of a side lie side by side; together they have a multiple of UNIT bytes, at
 * most MAX.
 */
#define HJG_PAYLOAD_UNIT 4
#define HJG_MAX_PAYLOAD_BYTES 128

/*
 * Bytes of a row's payload columns that a job sends with the keys, for a device to gather into the result
 * (early materialization).  0: the side has none, or the reader of the result fetches them by row number
 * (late).  Only the client knows their meaning.
 */
typedef struct HjgPayloadBytes
{
	hjg_u32		bytes[HJG_SIDES];
} HjgPayloadBytes;

/* Sets of sides. */
#define HJG_SIDE_BIT(side) (1u << (side))

#ifndef __OPENCL_VERSION__
static inline int
hjg_payload_valid(HjgPayloadBytes payload)
{
	for (int s = 0; s < HJG_SIDES; s++)
		if (payload.bytes[s] % HJG_PAYLOAD_UNIT != 0 || payload.bytes[s] > HJG_MAX_PAYLOAD_BYTES)
			return 0;
	return 1;
}

/*
 * Count the rows of an input slab.  With payload columns the slab has two parts: the keys of a power of
 * two of rows, and the rows' columns, which begin at hjg_input_payload_off().
 */
static inline hjg_u32
hjg_input_rows(hjg_u32 key_width, hjg_u32 payload_bytes)
{
	hjg_u32		rows = HJG_SLAB_BYTES / key_width;

	while (rows * (key_width + payload_bytes) > HJG_SLAB_BYTES)
		rows /= 2;
	return rows;
}

static inline hjg_u32
hjg_input_payload_off(hjg_u32 key_width, hjg_u32 payload_bytes)
{
	return hjg_input_rows(key_width, payload_bytes) * key_width;
}

/*
 * Count the pairs of a result slab: it holds as many pairs, then as many rows of build columns, then of
 * probe columns.  The room for a side's columns exists even if a round does not have them.
 */
#define HJG_PAGE_ALIGNMENT_PAIRS 16

static inline hjg_u32
hjg_page_pairs(HjgPayloadBytes payload)
{
	const hjg_u32 bytes = (hjg_u32) sizeof(HjgPair) + payload.bytes[HJG_SIDE_BUILD] + payload.bytes[HJG_SIDE_PROBE];

	return HJG_SLAB_BYTES / bytes / HJG_PAGE_ALIGNMENT_PAIRS * HJG_PAGE_ALIGNMENT_PAIRS;
}

static inline hjg_u32
hjg_page_payload_off(HjgPayloadBytes payload, HjgSideId side)
{
	return hjg_page_pairs(payload) *
		((hjg_u32) sizeof(HjgPair) + (side == HJG_SIDE_PROBE ? payload.bytes[HJG_SIDE_BUILD] : 0));
}
#endif

#endif							/* HJG_LAYOUT_H */
