/*
 * planner_trace.c
 *	  Keeps why joins and groupings are left to core, and reports it (hjoin_gpu.explain_declined).
 *
 * The hook is called for a join in both orders of its sides, and for some joins as several types; each call ends with a
 * verdict. The strongest verdict on each pair is kept while a query is planned, whether or not anybody looks; if so, pairs
 * that were accepted in neither order are reported at the end. A reason is a constant, so that keeping it takes no time.
 */
#include "postgres.h"

#include "nodes/bitmapset.h"
#include "parser/parsetree.h"

#include "base/hjg_base.h"
#include "planner/hjg_planner_path.h"

/* The strongest verdict on a pair of sides; of equally strong verdicts, the last. */
typedef struct HjgVerdict
{
	const RelOptInfo *outer;
	const RelOptInfo *inner;
	HjgVerdictKind kind;
	const char *why;
} HjgVerdict;

/* Verdicts that there is room for at first. */
#define FIRST_VERDICTS 32

set_join_pathlist_hook_type hjg_planner_reached_through = NULL;

/* Find the verdict on the candidate's pair; core asks for both orders and all types of a pair one after the other. */
static HjgVerdict *
find_verdict(HjgQueryFacts *facts, const HjgCandidate *candidate)
{
	const RelOptInfo *outer = candidate->outerrel;
	const RelOptInfo *inner = candidate->innerrel;
	HjgVerdict *verdict;

	if (facts->nverdicts > 0)
	{
		verdict = &facts->verdicts[facts->nverdicts - 1];
		if ((verdict->outer == outer && verdict->inner == inner) || (verdict->outer == inner && verdict->inner == outer))
			return verdict;
	}
	if (facts->nverdicts == facts->verdicts_room)
	{
		facts->verdicts_room = Max(2 * facts->nverdicts, FIRST_VERDICTS);
		facts->verdicts = facts->verdicts == NULL ? palloc(facts->verdicts_room * sizeof(HjgVerdict)) :
			repalloc(facts->verdicts, facts->verdicts_room * sizeof(HjgVerdict));
	}
	verdict = &facts->verdicts[facts->nverdicts++];
	verdict->outer = outer;
	verdict->inner = inner;
	verdict->kind = HJG_VERDICT_BOUND;
	return verdict;
}

/* GEQO discards the joins that it tries, and makes those of the tree that it takes again, in the planner's memory. */
void
hjg_planner_note(const PlannerInfo *root, const HjgCandidate *candidate, HjgVerdictKind kind, const char *why)
{
	HjgVerdict *verdict;

	if (CurrentMemoryContext != root->planner_cxt)
		return;
	verdict = find_verdict(candidate->facts, candidate);
	if (verdict->kind > kind)
		return;
	verdict->kind = kind;
	verdict->why = why;
}

void
hjg_planner_note_grouping(PlannerInfo *root, const RelOptInfo *rel, const char *why)
{
	HjgQueryFacts *facts = hjg_planner_facts(root);

	facts->grouped = rel->relids;
	facts->grouping_declined = why;
}

void
hjg_planner_note_program(PlannerInfo *root, const RelOptInfo *rel, const char *why)
{
	HjgQueryFacts *facts = hjg_planner_facts(root);

	facts->unprogrammed = rel->relids;
	facts->program_declined = why;
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

	if (facts == NULL)
		return;
	for (int i = 0; i < facts->nverdicts; i++)
	{
		const HjgVerdict *verdict = &facts->verdicts[i];

		if (verdict->kind != HJG_VERDICT_ACCEPTED)
			ereport(NOTICE,
					(errmsg("%s declined for the join of (%s) with (%s)", HJG_NODE_NAME,
							relation_names(root, verdict->outer->relids), relation_names(root, verdict->inner->relids)),
					 errdetail("Reason: %s.", verdict->why)));
	}
	facts->nverdicts = 0;
	if (facts->grouping_declined != NULL)
		ereport(NOTICE,
				(errmsg("%s declined for the rows of (%s)", HJG_AGGREGATE_NAME, relation_names(root, facts->grouped)),
				 errdetail("Reason: %s.", facts->grouping_declined)));
	facts->grouping_declined = NULL;
	if (facts->program_declined != NULL)
		ereport(NOTICE,
				(errmsg("no program for the rows of (%s)", relation_names(root, facts->unprogrammed)),
				 errdetail("Reason: %s.", facts->program_declined)));
	facts->program_declined = NULL;
}

/* Has core offered a join of the query to the hook? It does not ask for joins without rows. */
static bool
has_offered_join(const PlannerInfo *root)
{
	ListCell   *lc;

	foreach(lc, root->join_rel_list)
		if (!IS_DUMMY_REL((RelOptInfo *) lfirst(lc)))
			return true;
	return false;
}

void
hjg_planner_check_reached(const PlannerInfo *root)
{
	static bool reported = false;

	if (set_join_pathlist_hook == hjg_planner_reached_through || !has_offered_join(root))
		return;
	hjg_planner_sources->hook_taken();
	if (!reported)
		ereport(WARNING,
				(errmsg("%s is not offered in this session", HJG_NODE_NAME),
				 errdetail("Another library has replaced set_join_pathlist_hook, and does not call the hook that was there before."),
				 errhint("Load that library by shared_preload_libraries, before hjoin_gpu.")));
	reported = true;
}
