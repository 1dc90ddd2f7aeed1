/*
 * device_opencl_spans.c
 *	  Tracks which side has the valid copy of a region's bytes, for a device with its own memory.
 *
 * A region is divided into spans, each valid on one side or on both.  Bytes that a processor is about to
 * read and only the other side has are copied, so rows that stay on a side are never copied, however many
 * steps they pass.  Rows of arrays change sides where ratios divide them, so spans are few: some for each
 * array.
 */
#include "device/hjg_opencl.h"

#ifdef HJG_HAVE_OPENCL

#include <stdlib.h>

/* Append bytes up to end, extending the last span if it has the same place. */
static void
append_span(HjgClSpan *spans, int *n, hjg_u64 end, HjgClPlace place)
{
	if (end <= (*n > 0 ? spans[*n - 1].end : 0))
		return;
	if (*n > 0 && spans[*n - 1].place == place)
		spans[*n - 1].end = end;
	else
		spans[(*n)++] = (HjgClSpan) {end, place};
}

bool
hjg_cl_spans_set(HjgClSpans *of, hjg_u64 begin, hjg_u64 end, HjgClPlace place)
{
	/* room for the range and the two parts of a span that it divides */
	const int	room = of->n + 3;
	const HjgClSpan *old = of->spans;
	HjgClSpan  *new;
	int			n = 0;

	if (begin >= end || (of->n == 0 && place == HJG_CL_ANYWHERE))
		return true;
	new = malloc((size_t) room * sizeof(HjgClSpan));
	if (new == NULL)
		return false;
	for (int i = 0; i < of->n && (i == 0 || old[i - 1].end < begin); i++)
		append_span(new, &n, old[i].end < begin ? old[i].end : begin, old[i].place);
	append_span(new, &n, begin, HJG_CL_ANYWHERE);
	append_span(new, &n, end, place);
	for (int i = 0; i < of->n; i++)
		append_span(new, &n, old[i].end, old[i].place);
	free(of->spans);
	*of = (HjgClSpans) {.n = n, .spans = new};
	return true;
}

hjg_u64
hjg_cl_spans_next(const HjgClSpans *of, HjgClPlace place, hjg_u64 *begin, hjg_u64 end)
{
	for (int i = 0; i < of->n && (i == 0 || of->spans[i - 1].end < end); i++)
	{
		const hjg_u64 from = i > 0 && of->spans[i - 1].end > *begin ? of->spans[i - 1].end : *begin;

		if (of->spans[i].place != place || of->spans[i].end <= from || from >= end)
			continue;
		*begin = from;
		return of->spans[i].end < end ? of->spans[i].end : end;
	}
	return 0;
}

void
hjg_cl_spans_free(HjgClSpans *of)
{
	free(of->spans);
	*of = (HjgClSpans) {.n = 0};
}

#endif							/* HJG_HAVE_OPENCL */
