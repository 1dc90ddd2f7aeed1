/*
 * planner_keys.c
 *	  Foreign keys that nobody has declared, for core's estimates of joins.
 *
 * Core multiplies the selectivities of a join's clauses as if the columns were independent. The columns of a unique index are
 * not: each row of the other side has at most one partner, and mostly has one. For lineitem and partsupp, by part and supplier,
 * core expects 2,400 of 3,000,000 rows, and plans what follows for these. A declared foreign key tells core better, so one is
 * assumed where tables are joined on all columns of a unique index of several. If the rows have no partner in truth, too many
 * rows are expected; plans for many rows take little longer when few come, but not the other way round.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "nodes/pathnodes.h"
#include "optimizer/paths.h"
#include "optimizer/planmain.h"
#include "utils/lsyscache.h"

#include "base/hjg_base.h"
#include "planner/hjg_planner_path.h"
#include "scan/hjg_scan.h"


static set_rel_pathlist_hook_type previous_rel_pathlist_hook = NULL;

/* Find a member of a class that is a column of a table, any one if attno is 0; NULL: none. */
static const EquivalenceMember *
find_member(const EquivalenceClass *class, Index relid, AttrNumber attno)
{
	ListCell   *lc;

	foreach(lc, class->ec_members)
	{
		const EquivalenceMember *member = lfirst(lc);
		const Var  *var = (const Var *) hjg_scan_strip_relabel((Node *) member->em_expr);

		if (!member->em_is_child && IsA(var, Var) && var->varno == relid && (attno == 0 || var->varattno == attno))
			return member;
	}
	return NULL;
}

/* Find the columns that must be equal to a column, in inner joins; NULL: none. */
static const EquivalenceClass *
find_class(const PlannerInfo *root, Index relid, AttrNumber attno)
{
	int			i = -1;

	while ((i = bms_next_member(root->simple_rel_array[relid]->eclass_indexes, i)) >= 0)
	{
		const EquivalenceClass *class = list_nth(root->eq_classes, i);

		if (!class->ec_has_volatile && find_member(class, relid, attno) != NULL)
			return class;
	}
	return NULL;
}

/* Find the operator by which a class compares two of its members; InvalidOid: none. */
static Oid
find_equality(const EquivalenceClass *class, const EquivalenceMember *left, const EquivalenceMember *right)
{
	ListCell   *lc;

	foreach(lc, class->ec_opfamilies)
	{
		const Oid	equality = get_opfamily_member(lfirst_oid(lc), left->em_datatype, right->em_datatype, BTEqualStrategyNumber);

		if (OidIsValid(equality))
			return equality;
	}
	return InvalidOid;
}

/* Make the key by which a table refers to the columns of another's index, each of which is in one of the classes. */
static ForeignKeyOptInfo *
make_key(Index referring, const IndexOptInfo *index, const EquivalenceClass *const *classes)
{
	ForeignKeyOptInfo *key = makeNode(ForeignKeyOptInfo);

	key->con_relid = referring;
	key->ref_relid = index->rel->relid;
	key->nkeys = index->nkeycolumns;
	for (int i = 0; i < index->nkeycolumns; i++)
	{
		const EquivalenceMember *unique = find_member(classes[i], key->ref_relid, index->indexkeys[i]);
		const EquivalenceMember *member = find_member(classes[i], referring, 0);

		if (member == NULL)
			return NULL;
		key->conkey[i] = ((const Var *) hjg_scan_strip_relabel((Node *) member->em_expr))->varattno;
		key->confkey[i] = index->indexkeys[i];
		key->conpfeqop[i] = find_equality(classes[i], unique, member);
	}
	return key;
}

/* Add the keys of the tables that are joined on all columns of a unique index. */
static List *
add_keys_of_index(const PlannerInfo *root, const IndexOptInfo *index, List *keys)
{
	const EquivalenceClass *classes[INDEX_MAX_KEYS];
	Relids		others = bms_copy(root->all_baserels);
	int			other = -1;

	if (!index->unique || !index->immediate || index->indpred != NIL || index->nkeycolumns < 2)
		return keys;
	for (int i = 0; i < index->nkeycolumns; i++)
	{
		classes[i] = index->indexkeys[i] > 0 ? find_class(root, index->rel->relid, index->indexkeys[i]) : NULL;
		if (classes[i] == NULL)
			return keys;
		others = bms_int_members(others, classes[i]->ec_relids);
	}
	while ((other = bms_next_member(others, other)) >= 0)
	{
		ForeignKeyOptInfo *key = other != index->rel->relid ? make_key(other, index, classes) : NULL;

		if (key != NULL)
			keys = lappend(keys, key);
	}
	return keys;
}

/* Let core match the keys that are assumed, and then use them where no declared one says more. */
static void
assume_keys(PlannerInfo *root)
{
	List	   *declared = root->fkey_list;
	List	   *keys = NIL;
	int			i = -1;
	ListCell   *lc;

	while ((i = bms_next_member(root->all_baserels, i)) >= 0)
		foreach(lc, root->simple_rel_array[i]->indexlist)
			keys = add_keys_of_index(root, lfirst(lc), keys);
	if (keys == NIL)
		return;
	root->fkey_list = keys;
	match_foreign_keys_to_quals(root);
	root->fkey_list = list_concat(declared, root->fkey_list);
}

/* The first table's paths are made before any join's rows are estimated. */
static void
rel_pathlist_hook(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	if (previous_rel_pathlist_hook)
		previous_rel_pathlist_hook(root, rel, rti, rte);
	if (hjg_enabled && rti == bms_next_member(root->all_baserels, -1) && bms_membership(root->all_baserels) == BMS_MULTIPLE)
		assume_keys(root);
}

void
hjg_planner_init_keys(void)
{
	previous_rel_pathlist_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = rel_pathlist_hook;
}
