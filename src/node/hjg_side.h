/*
 * hjg_side.h
 *	  One input of the node GpuHashJoin: its rows, their keys, and their payload columns.
 *
 * Room "node". Rows come one by one from the child's slot, or as vectors: of pages of a table that the node reads itself, or
 * of a GpuHashJoin below. A reader takes a row (hjg_side_next()), or several rows with their encoded keys
 * (hjg_side_next_vectors()), or all rows of the vectors, in place (hjg_side_next_view()). Each row is returned by one of
 * these functions only.
 *
 * For a table that it reads itself, the node evaluates the scan's conditions, too: many rows at a time for comparisons that it
 * knows (scan_filter.c, vector_operator_pg.c).
 */
#ifndef HJG_SIDE_H
#define HJG_SIDE_H

#include "postgres.h"

#include "nodes/execnodes.h"

#include "node/hjg_run.h"
#include "scan/hjg_scan.h"


/* Rows that are kept for a comparison with core (hjg_verify.h). */
typedef struct HjgKeptRows HjgKeptRows;

/* An operator that returns rows as vectors. */
typedef struct HjgVectorSource
{
	HjgVector  *vectors;		/* one for each column */
	Bitmapset **as_numbers;		/* columns whose numerics may come as integers (HjgVector); set before the first rows */
	int			(*next) (void *arg);	/* Put the next rows into the vectors; returns how many there are, 0 at the end. */
	void	   *arg;
} HjgVectorSource;

/* Encoding of the child's rows as keys. */
typedef struct HjgSideKeys
{
	HjgKeyCodec *codec;
	int			n;
	int		   *ix;				/* key i's column of the child, or -1 for an expression */
	ExprState **exprs;
	bool		plain;			/* all keys are columns, and no memory needs resetting */
	ExprContext *econtext;		/* for key expressions and hash functions; NULL where keys are plain */
	TupleTableSlot *slot;		/* scan tuple with this side's columns, for expressions */
	Datum	   *values;
	bool	   *isnull;
} HjgSideKeys;

/* The payload columns of the child: those that are needed after the keys are encoded. */
typedef struct HjgPayload
{
	int			n;
	HjgColumn  *columns;
	int		   *scan_ix;		/* column c in the scan tuple */
	int		   *child_ix;		/* column c in the child's tuple */
	int		   *identity;		/* 0, 1, ...: column c in a row of payload columns */
	TupleDesc	desc;			/* of such a row, in a file or a slot */
	TupleTableSlot *slot;
} HjgPayload;

/* Rows of the scan's page, or of the vectors of the join below. Arrays by row are in the work context, or NULL. */
typedef struct HjgSidePage
{
	HjgVector  *vectors;		/* by column of the child */
	int			nrows;
	int			next;			/* first row that was not returned */
	const char *keys;			/* encoded */
	bool		has_nulls;		/* some key is NULL: isnull says which */
	bool	   *isnull;
	char	   *key_space;		/* for keys, unless a vector is the keys */
	uint16	   *view_rows;		/* arrays for HjgView */
	uint16	   *view_null_rows;
	Datum	   *row_values;		/* a row as the child would return it, */
	bool	   *row_isnull;
	HjgNumericSpace *row_numerics;	/* and space for its values */
} HjgSidePage;

typedef struct HjgSide
{
	PlanState  *plan;
	MemoryContext work_context; /* the node's, for memory that rows pass through */
	HjgScan    *scan;			/* the child's table, if the node reads it itself, */
	const HjgVectorSource *below;	/* or the GpuHashJoin that is the child; both NULL: rows come through its slot */
	TupleTableSlot *peeked;		/* slot with a row that was not returned yet, or NULL */
	HjgKeptRows *kept;			/* rows for a comparison with core, or NULL */
	int			first_scan_ix;	/* place of the child's first column in the scan tuple */
	int			nplan_columns;
	int			last_column;	/* child's columns [0, last_column) must be deformed */
	HjgSideKeys keys;
	HjgPayload	payload;
	HjgSidePage page;
} HjgSide;

/* A row that was read from a side; valid until the next one is read. */
typedef struct HjgRow
{
	const void *key;			/* encoded, or NULL when a key column is NULL */
	const Datum *values;
	const bool *isnull;
	const int  *source;			/* payload column c is values[source[c]] */
	char		key_space[HJG_MAX_KEY_BYTES];
} HjgRow;

/* node_side.c */
extern void hjg_side_init(HjgSide *side, CustomScanState *node, MemoryContext work_context, PlanState *plan,
						  const HjgVectorSource *below, int first_scan_ix, int nplan_columns, List *key_exprs,
						  HjgKeyCodec *codec, Bitmapset *used);
/* Estimate the bytes of a row of the side in a row store, without values of variable length. */
extern size_t hjg_side_stored_bytes(const HjgSide *side);
/* Choose the rows of a chunk of a store, for a side of about so many rows. */
extern double hjg_side_chunk_rows(const HjgSide *side, double rows);
/* Has the child another row? The next read returns it. */
extern bool hjg_side_peek(HjgSide *side);
/* Read the next row of the child plan; false at its end. */
extern bool hjg_side_next(HjgSide *side, HjgRow *row);
/*
 * Read the next rows of the child: n <= max rows with a key. *keys gets their encoded keys, *first the place of the first row
 * in the side's vectors. Returns n; after 0, hjg_side_next() reads the next row, or the end.
 */
extern int	hjg_side_next_vectors(HjgSide *side, int max, const char **keys, int *first);
/* Do the side's rows come in vectors? */
extern bool hjg_side_has_vectors(const HjgSide *side);
/* Read all next rows of such a side in place; false at its end. */
extern bool hjg_side_next_view(HjgSide *side, HjgView *view);
/* Drop the view's rows with a key, except those at these n ascending positions. */
extern void hjg_side_narrow_view(HjgSide *side, HjgView *view, const uint16 *rows, int n);
/* Start over; after a change of parameters the child does so when it is next read. */
extern void hjg_side_rescan(HjgSide *side);
/* Forget memory in the work context, which is emptied at the end of the child. */
extern void hjg_side_forget(HjgSide *side);
/* Read the next row from a spill file of this side. */
extern bool hjg_side_next_spilled(HjgSide *side, HjgSpill *spill, HjgRow *row);
extern void hjg_side_payload(HjgSide *side, const HjgRow *row, const Datum **values, const bool **isnull);
/* Write a row that hjg_side_next() or hjg_side_next_spilled() returned. */
extern void hjg_side_spill(HjgSide *side, HjgSpill *spill, const HjgRow *row);

/* node_verify.c: keep a row of the child's slot, or rows of the side's vectors, if side->kept is set */
extern void hjg_verify_keep_row(const HjgSide *side, const Datum *values, const bool *isnull);
extern void hjg_verify_keep_vectors(const HjgSide *side, int first, int nrows);

#endif							/* HJG_SIDE_H */
