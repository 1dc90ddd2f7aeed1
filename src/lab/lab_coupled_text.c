/*
 * lab_coupled_text.c
 *	  Compression plans in the papers' notation.
 */
#include <stdio.h>

#include "lab/hjg_lab_plan.h"

/* Write the cascade of one stream, in brackets if it has several schemes and is a part of a plan. */
static int
chain_text(char *text, size_t room, bool inner, const char *const *names, int n)
{
	int			at = 0;

	at += snprintf(text, room, "%s", inner && n > 1 ? "[" : "");
	for (int i = 0; i < n; i++)
		at += snprintf(text + at, room - (size_t) at, "%s%s", i > 0 ? "," : "", names[i]);
	if (n == 0)
		at += snprintf(text + at, room - (size_t) at, "e");
	at += snprintf(text + at, room - (size_t) at, "%s", inner && n > 1 ? "]" : "");
	return at;
}

const char *
hjg_lab_plan_text(const HjgPackPlan *plan, char *text, size_t room)
{
	static const char *const leaves[] = {"", "NS", "NSV"};
	const char *names[5];
	char		values[64];
	char		lengths[16];
	char		front[24];
	int			n = 0;

	if (hjg_pack_plan_is_empty(plan))
	{
		snprintf(text, room, "none");
		return text;
	}
	snprintf(front, sizeof(front), "%s%s", plan->scale ? "Scale," : "", plan->dict ? "DICT," : "");
	if (plan->delta)
		names[n++] = "Delta";
	if (plan->frame)
		names[n++] = "FOR";
	if (plan->leaf != HJG_PACK_PLAIN)
		names[n++] = leaves[plan->leaf];
	chain_text(values, sizeof(values), plan->runs, names, n);
	chain_text(lengths, sizeof(lengths), true, &leaves[plan->lengths_leaf], plan->lengths_leaf != HJG_PACK_PLAIN);
	if (!plan->runs)
		snprintf(text, room, "%s%s", front, values);
	else if (n == 0 && plan->lengths_leaf == HJG_PACK_PLAIN)
		snprintf(text, room, "%sRLE", front);
	else
		snprintf(text, room, "%sRLE,[%s,%s]", front, values, lengths);
	return text;
}
