/*
 * planner_trace.c
 *	  Reports why joins and groupings are left to core (hjoin_gpu.explain_declined).
 *
 * The hook is called for a join in both orders of its sides, and for some joins as several types; each call ends with a
 * verdict. Verdicts are collected while a query is planned, and reported at the end for pairs that were accepted in neither
 * order. Planning is the same whether they are collected or not.
 */
#include "postgres.h"

#include "nodes/bitmapset.h"
#include "parser/parsetree.h"

#include "base/hjg_base.h"
#include "planner/hjg_planner_path.h"

/* The strongest verdict on a pair of sides; of equally strong verdicts, the last. */
typedef struct Verdict
{
	Relids		outer;
	Relids		inner;
	HjgVerdictKind kind;
	const char *why;
} Verdict;

static Verdict *
find_verdict(HjgQueryFacts *facts, const HjgCandidate *candidate)
{
	const Relids outer = candidate->outerrel->relids;
	const Relids inner = candidate->innerrel->relids;
	Verdict    *verdict;
	ListCell   *lc;

	foreach(lc, facts->verdicts)
	{
		verdict = lfirst(lc);
		if ((bms_equal(verdict->outer, outer) && bms_equal(verdict->inner, inner)) ||
			(bms_equal(verdict->outer, inner) && bms_equal(verdict->inner, outer)))
			return verdict;
	}
	verdict = palloc0(sizeof(Verdict));
	verdict->outer = bms_copy(outer);
	verdict->inner = bms_copy(inner);
	facts->verdicts = lappend(facts->verdicts, verdict);
	return verdict;
}

void
hjg_planner_note(PlannerInfo *root, const HjgCandidate *candidate, HjgVerdictKind kind, const char *why)
{
	HjgQueryFacts *facts;
	Verdict    *verdict;
	MemoryContext old_context;

	if (!hjg_explain_declined)
		return;
	facts = hjg_planner_facts(root);
	/* the current context may be a short-lived one of GEQO */
	old_context = MemoryContextSwitchTo(root->planner_cxt);
	verdict = find_verdict(facts, candidate);
	MemoryContextSwitchTo(old_context);
	if (verdict->kind > kind)
		return;
	verdict->kind = kind;
	verdict->why = why;
}

void
hjg_planner_note_grouping(PlannerInfo *root, const RelOptInfo *rel, const char *why)
{
	HjgQueryFacts *facts;

	if (!hjg_explain_declined)
		return;
	facts = hjg_planner_facts(root);
	facts->grouped = rel->relids;
	facts->grouping_declined = why;
}

/* Name the relations of a side, for messages. */
static char *
relation_names(PlannerInfo *root, Relids relids)
{
	StringInfoData names;
	int			rti = -1;

	initStringInfo(&names);
	while ((rti = bms_next_member(relids, rti)) >= 0)
		if (planner_rt_fetch(rti, root)->rtekind != RTE_JOIN)
			appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "", planner_rt_fetch(rti, root)->eref->aliasname);
	return names.data;
}

void
hjg_planner_report(PlannerInfo *root)
{
	HjgQueryFacts *facts = hjg_planner_known_facts(root);
	ListCell   *lc;

	if (facts == NULL)
		return;
	foreach(lc, facts->verdicts)
	{
		const Verdict *verdict = lfirst(lc);

		if (verdict->kind != HJG_VERDICT_ACCEPTED)
			ereport(NOTICE,
					(errmsg("%s declined for the join of (%s) with (%s)", HJG_NODE_NAME,
							relation_names(root, verdict->outer), relation_names(root, verdict->inner)),
					 errdetail("Reason: %s.", verdict->why)));
	}
	facts->verdicts = NIL;
	if (facts->grouping_declined != NULL)
		ereport(NOTICE,
				(errmsg("%s declined for the rows of (%s)", HJG_AGGREGATE_NAME, relation_names(root, facts->grouped)),
				 errdetail("Reason: %s.", facts->grouping_declined)));
	facts->grouping_declined = NULL;
}
