/*
 * hjg_travel.h
 *	  The way of a join's Bloom filter to the scan that its keys come from (node_travel.c).
 *
 * Room "node".
 */
#ifndef HJG_TRAVEL_H
#define HJG_TRAVEL_H

#include "postgres.h"

#include "nodes/execnodes.h"

#include "node/hjg_build.h"

typedef struct HjgTravel
{
	HjgProbeFilter *filter;
	HjgKeyCodec *codec;			/* of probe keys */
	ScanState  *target;			/* scan that tests its rows; NULL: the filter stays at the join */
	AttrNumber *attnos;			/* of the target's rows: column of each key */
	HjgScanTest test;			/* where pages are read in place; */
	ExprState	qual;			/* and where core's scan runs: its condition and the test, */
	ExprState  *own_qual;		/* of which this is its own, or NULL */
	bool		grouped;		/* rows are grouped on the way */
	List	   *builds;			/* HjgJoinStates whose build rows are among those tested, */
	List	   *aggs;			/* and core's AggStates */
} HjgTravel;

/* Find the scan of the outer side's keys, if the plan asks for a filter. */
extern void hjg_travel_begin(HjgTravel *travel, HjgProbeFilter *filter, const HjgSide *outer);
/* Note that what was read through the filter must not be used any more: the next one may have other keys. */
extern void hjg_travel_end(HjgTravel *travel);

#endif							/* HJG_TRAVEL_H */
