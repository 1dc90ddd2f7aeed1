/*
 * planner_risk.c
 *	  Estimates by what factor core may expect too few rows of a join on all columns of a key.
 *
 * Core multiplies the selectivities of a join's clauses as if the columns were independent. The columns of a unique index are
 * not: each row of the other side has at most one partner, and mostly has one, as with a foreign key that nobody has
 * declared. For lineitem and partsupp, by part and supplier, core expects 2,400 of 3,000,000 rows. The truth is between
 * core's estimate and that of a single clause (full correlation), and cannot be known. So paths are priced by core's
 * estimate, and this factor says how wrong it may be.
 *
 * The factors are computed once a query from its tables. Core knows declared foreign keys by itself.
 */
#include "postgres.h"

#include "nodes/pathnodes.h"
#include "optimizer/optimizer.h"
#include "utils/selfuncs.h"

#include "planner/hjg_planner_path.h"

/* Smaller errors are ignored. */
#define LEAST_FACTOR 4

/* Find the columns that must be equal to a column, in inner joins; NULL: none. */
static const EquivalenceClass *
find_class(const PlannerInfo *root, const RelOptInfo *rel, AttrNumber attno)
{
	ListCell   *lc;
	ListCell   *lc2;

	foreach(lc, root->eq_classes)
	{
		const EquivalenceClass *class = lfirst(lc);

		if (!bms_is_member(rel->relid, class->ec_relids) || class->ec_has_const || class->ec_has_volatile || class->ec_merged != NULL)
			continue;
		foreach(lc2, class->ec_members)
		{
			const Var  *var = (const Var *) ((const EquivalenceMember *) lfirst(lc2))->em_expr;

			if (IsA(var, Var) && var->varno == rel->relid && var->varattno == attno)
				return class;
		}
	}
	return NULL;
}

/* Count the distinct values of a column of a class in one of its tables. */
static double
count_distinct(PlannerInfo *root, const EquivalenceClass *class, Index relid)
{
	double		ndistinct = 1;
	ListCell   *lc;

	foreach(lc, class->ec_members)
	{
		const EquivalenceMember *member = lfirst(lc);
		VariableStatData variable;
		bool		isdefault;

		if (!bms_is_member(relid, member->em_relids) || bms_num_members(member->em_relids) != 1)
			continue;
		examine_variable(root, (Node *) member->em_expr, 0, &variable);
		ndistinct = Max(ndistinct, get_variable_numdistinct(&variable, &isdefault));
		ReleaseVariableStats(variable);
	}
	return ndistinct;
}

/* Does core know from a foreign key that rows of the other table have a partner? */
static bool
is_declared(const PlannerInfo *root, Index relid, Index other)
{
	ListCell   *lc;

	foreach(lc, root->fkey_list)
	{
		const ForeignKeyOptInfo *key = lfirst(lc);

		if (key->con_relid == other && key->ref_relid == relid && key->nkeys > 1)
			return true;
	}
	return false;
}

/* Note the tables that are joined with all columns of a unique index. */
static void
find_risks_of_index(PlannerInfo *root, HjgQueryFacts *facts, const RelOptInfo *rel, const IndexOptInfo *index)
{
	const EquivalenceClass *classes[INDEX_MAX_KEYS];
	Relids		others = NULL;
	int			other = -1;

	if (!index->unique || !index->immediate || index->indpred != NIL || index->nkeycolumns < 2)
		return;
	for (int i = 0; i < index->nkeycolumns; i++)
	{
		classes[i] = index->indexkeys[i] > 0 ? find_class(root, rel, index->indexkeys[i]) : NULL;
		if (classes[i] == NULL)
			return;
		others = i == 0 ? bms_copy(classes[i]->ec_relids) : bms_int_members(others, classes[i]->ec_relids);
	}
	while ((other = bms_next_member(others, other)) >= 0)
	{
		double		factor = 1 / Max(rel->tuples, 1);

		if (other == rel->relid || facts->nrisks == HJG_MOST_RISKS || is_declared(root, rel->relid, other))
			continue;
		for (int i = 0; i < index->nkeycolumns; i++)
			factor *= Max(count_distinct(root, classes[i], rel->relid), count_distinct(root, classes[i], other));
		if (factor >= LEAST_FACTOR)
			facts->risks[facts->nrisks++] = (HjgRisk) {.unique = rel->relid, .other = other, .factor = factor};
	}
	bms_free(others);
}

double
hjg_planner_risk(PlannerInfo *root, Relids relids)
{
	HjgQueryFacts *facts = hjg_planner_facts(root);
	double		most = 1;

	if (!facts->risks_known)
	{
		facts->risks_known = true;
		for (int i = 1; i < root->simple_rel_array_size; i++)
		{
			const RelOptInfo *rel = root->simple_rel_array[i];
			ListCell   *lc;

			if (rel == NULL || rel->reloptkind != RELOPT_BASEREL)
				continue;
			foreach(lc, rel->indexlist)
				find_risks_of_index(root, facts, rel, lfirst(lc));
		}
	}
	/* errors of keys that share tables are not independent */
	for (int i = 0; i < facts->nrisks; i++)
		if (facts->risks[i].factor > most && bms_is_member(facts->risks[i].unique, relids) && bms_is_member(facts->risks[i].other, relids))
			most = facts->risks[i].factor;
	return most;
}
