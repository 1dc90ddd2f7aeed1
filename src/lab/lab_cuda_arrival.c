/*
 * lab_cuda_arrival.c
 *	  Sides that come in from host memory while they are used: the list of those on their way.
 *
 * A join sees a side as an address.  Whoever brings it notes its arrival here, and the join, or the
 * benchmark in its place, lets its work wait for the pieces (Paul et al., 2020, figures 2 and 3).
 */
#include <stddef.h>

#include "lab/hjg_cuda_paper.h"
#include "lab/hjg_lab_stream.h"

#define MOST_ARRIVALS 4

static const HjgLabArrival *arrivals[MOST_ARRIVALS];
static int	narrivals;

void
hjg_lab_arrival_note(const HjgLabArrival *arrival)
{
	if (arrival == NULL)
		narrivals = 0;
	else if (narrivals < MOST_ARRIVALS)
		arrivals[narrivals++] = arrival;
}

const HjgLabArrival *
hjg_lab_arrival_of(const HjgCudaSide *side)
{
	for (int i = 0; i < narrivals; i++)
		if (arrivals[i]->keys == side->keys)
			return arrivals[i];
	return NULL;
}

HjgStatus
hjg_lab_arrival_wait(HjgCudaStream *stream, const HjgCudaSide *side)
{
	const HjgLabArrival *arrival = hjg_lab_arrival_of(side);

	/* pieces come in order */
	return arrival == NULL ? HJG_OK : hjg_lab_follow_note(stream, arrival->come[arrival->npieces - 1]);
}
