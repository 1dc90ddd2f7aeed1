/*
 * planner_facts.c
 *	  Facts that are needed repeatedly while a query is planned.
 *
 * The hook is called for each pair of relations, in both orders; a query of six tables has 70 calls, which need the same
 * facts about the same tables, operators and types. Facts are in the planner's memory of the query and are freed with it.
 * They are indexed by things that last longer than a call: tables by their range table index, but never joins, which GEQO
 * makes and discards.
 *
 * Only the facts of the current query are kept. A subquery is planned as a whole; if planning one query leads to planning
 * another one between two calls, the first one's facts are collected again.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/plancat.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "base/hjg_base.h"
#include "planner/hjg_planner_path.h"
#include "rows/hjg_rows.h"
#include "scan/hjg_scan.h"

static HjgQueryFacts *latest_facts = NULL;

static void
forget_facts(void *facts)
{
	if (latest_facts == facts)
		latest_facts = NULL;
}

HjgQueryFacts *
hjg_planner_known_facts(const PlannerInfo *root)
{
	return latest_facts != NULL && latest_facts->root == root ? latest_facts : NULL;
}

/*
 * Is the query run for each row of an outer query? Sees only the expressions that were planned before; those of its tables
 * were.
 */
static bool
is_repeated(const PlannerInfo *root)
{
	for (const PlannerInfo *around = root->parent_root; around != NULL; around = around->parent_root)
		if (around->plan_params != NIL)
			return true;
	return false;
}

HjgQueryFacts *
hjg_planner_facts(PlannerInfo *root)
{
	HjgQueryFacts *facts = hjg_planner_known_facts(root);
	MemoryContext old_context;

	if (facts != NULL)
		return facts;
	/* the current context may be a short-lived one of GEQO */
	old_context = MemoryContextSwitchTo(root->planner_cxt);
	facts = palloc0(sizeof(HjgQueryFacts));
	facts->root = root;
	facts->nsides = root->simple_rel_array_size;
	facts->sides = palloc0(facts->nsides * sizeof(HjgSideFacts));
	facts->ceiling = -1;
	facts->ordered_ns = INFINITY;
	facts->first_rows = root->limit_tuples >= 0;
	facts->repeated = is_repeated(root);
	hjg_planner_begin_pricing(facts);
	facts->end.func = forget_facts;
	facts->end.arg = facts;
	MemoryContextRegisterResetCallback(root->planner_cxt, &facts->end);
	MemoryContextSwitchTo(old_context);
	latest_facts = facts;
	return facts;
}

bool
hjg_planner_device_ready(HjgQueryFacts *facts)
{
	if (!facts->devices.process_known)
		facts->devices.process_ready = hjg_planner_sources->device_ready();
	facts->devices.process_known = true;
	return facts->devices.process_ready;
}

const HjgPlannerGpu *
hjg_planner_gpu(HjgQueryFacts *facts)
{
	if (!facts->devices.gpu_known)
		facts->devices.has_gpu = hjg_planner_sources->gpu(&facts->devices.gpu);
	facts->devices.gpu_known = true;
	return facts->devices.has_gpu ? &facts->devices.gpu : NULL;
}

const HjgPlannerCoupled *
hjg_planner_coupled(HjgQueryFacts *facts)
{
	if (!facts->devices.coupled_known)
		facts->devices.has_coupled = hjg_planner_sources->coupled(&facts->devices.coupled);
	facts->devices.coupled_known = true;
	return facts->devices.has_coupled ? &facts->devices.coupled : NULL;
}

const HjgOperatorFacts *
hjg_planner_operator(HjgQueryFacts *facts, Oid op, Oid collation)
{
	HjgOperatorFacts *found;

	for (int i = 0; i < facts->noperators; i++)
		if (facts->operators[i].op == op && facts->operators[i].collation == collation)
			return &facts->operators[i];
	/* if all entries are in use, the last one is replaced */
	found = &facts->operators[Min(facts->noperators, HJG_KNOWN_OPERATORS - 1)];
	facts->noperators = Min(facts->noperators + 1, HJG_KNOWN_OPERATORS);
	*found = (HjgOperatorFacts) {.op = op, .collation = collation};
	found->supported = hjg_rows_key_supported(op, collation, &found->why);
	if (found->supported)
		found->exact_bytes = hjg_rows_key_exact_bytes(op);
	/* the sides may be exchanged */
	if (found->supported && !OidIsValid(get_commutator(op)))
	{
		found->supported = false;
		found->why = "an operator has no commutator";
	}
	return found;
}

static bool
is_varlena(HjgQueryFacts *facts, Oid type)
{
	HjgTypeFacts *found;

	/* most columns are of these types */
	if (type == INT4OID || type == INT8OID)
		return false;
	if (type == TEXTOID)
		return true;
	for (int i = 0; i < facts->ntypes; i++)
		if (facts->types[i].type == type)
			return facts->types[i].varlena;
	found = &facts->types[Min(facts->ntypes, HJG_KNOWN_TYPES - 1)];
	facts->ntypes = Min(facts->ntypes + 1, HJG_KNOWN_TYPES);
	found->type = type;
	found->varlena = get_typlen(type) < 0;
	return found->varlena;
}

/* Is the expression a column, not a whole row, of type record? */
static bool
is_record(const Expr *expr)
{
	if (IsA(expr, PlaceHolderVar))
		expr = ((const PlaceHolderVar *) expr)->phexpr;
	return IsA(expr, Var) && ((const Var *) expr)->vartype == RECORDOID && ((const Var *) expr)->varattno > 0;
}

/*
 * Collect the facts of a side. The plan may have fewer columns, if some are used by the join alone; that is not known yet.
 * scan_table.c decides again by the same rules whether the table is readable.
 */
HjgSideFacts *
hjg_planner_side(HjgQueryFacts *facts, const RelOptInfo *rel, HjgSideFacts *room)
{
	const bool	simple = IS_SIMPLE_REL(rel) && rel->relid < facts->nsides;
	HjgSideFacts *side = simple ? &facts->sides[rel->relid] : room;
	ListCell   *lc;

	if (side->known)
		return side;
	*side = (HjgSideFacts) {.known = true, .plain = true};
	foreach(lc, rel->reltarget->exprs)
	{
		const Var  *var = lfirst(lc);

		side->ncolumns++;
		side->has_record |= is_record((const Expr *) var);
		if (is_varlena(facts, IsA(var, Var) ? var->vartype : exprType((const Node *) var)))
			side->nvarlenas++;
		if (!IsA(var, Var) || var->varattno <= 0)
			side->plain = false;
	}
	if (hjg_direct_scan && side->plain && rel->rtekind == RTE_RELATION && IS_SIMPLE_REL(rel))
	{
		/* the planner holds a lock already */
		Relation	relation = table_open(planner_rt_fetch(rel->relid, facts->root)->relid, NoLock);

		side->readable = hjg_scan_heap_readable(relation);
		if (side->readable)
			hjg_planner_describe_scan((PlannerInfo *) facts->root, rel, relation, &side->scan);
		table_close(relation, NoLock);
	}
	return side;
}

static double
integer_of(Datum value, Oid type)
{
	return type == INT2OID ? DatumGetInt16(value) : type == INT4OID ? DatumGetInt32(value) : (double) DatumGetInt64(value);
}

/* Count the integers between the ends of a column's histogram. */
static double
estimate_range(const PlannerInfo *root, const RelOptInfo *rel, AttrNumber attno)
{
	const RangeTblEntry *rte = planner_rt_fetch(rel->relid, root);
	double		range = 0;
	HeapTuple	tuple;
	AttStatsSlot slot;

	if (rte->rtekind != RTE_RELATION || rte->inh)
		return 0;
	tuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(rte->relid),
							Int16GetDatum(attno), BoolGetDatum(false));
	if (!HeapTupleIsValid(tuple))
		return 0;
	if (get_attstatsslot(&slot, tuple, STATISTIC_KIND_HISTOGRAM, InvalidOid, ATTSTATSSLOT_VALUES))
	{
		if (slot.nvalues > 1 && (slot.valuetype == INT2OID || slot.valuetype == INT4OID || slot.valuetype == INT8OID))
			range = integer_of(slot.values[slot.nvalues - 1], slot.valuetype) - integer_of(slot.values[0], slot.valuetype) + 1;
		free_attstatsslot(&slot);
	}
	ReleaseSysCache(tuple);
	return range;
}

double
hjg_planner_range(HjgQueryFacts *facts, const RelOptInfo *rel, AttrNumber attno, bool unique)
{
	HjgColumnFacts *found;

	for (int i = 0; i < facts->ncolumns; i++)
		if (facts->columns[i].relid == rel->relid && facts->columns[i].attno == attno)
			return unique && !facts->columns[i].unique ? 0 : facts->columns[i].range;
	found = &facts->columns[Min(facts->ncolumns, HJG_KNOWN_COLUMNS - 1)];
	facts->ncolumns = Min(facts->ncolumns + 1, HJG_KNOWN_COLUMNS);
	/* a unique index of an inheritance parent does not cover its children */
	*found = (HjgColumnFacts) {
		.relid = rel->relid, .attno = attno, .unique = has_unique_index((RelOptInfo *) rel, attno), .range = estimate_range(facts->root, rel, attno)
	};
	return unique && !found->unique ? 0 : found->range;
}

/* Measure scattering by the square of the correlation, as core does. */
double
hjg_planner_column_scattering(const PlannerInfo *root, const RelOptInfo *rel, AttrNumber attno)
{
	double		scattered = 1;
	HeapTuple	tuple;
	AttStatsSlot slot;

	if (rel->rtekind != RTE_RELATION)
		return 1;
	tuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(planner_rt_fetch(rel->relid, root)->relid), Int16GetDatum(attno),
							BoolGetDatum(false));
	if (!HeapTupleIsValid(tuple))
		return 1;
	if (get_attstatsslot(&slot, tuple, STATISTIC_KIND_CORRELATION, InvalidOid, ATTSTATSSLOT_NUMBERS))
	{
		scattered = 1 - slot.numbers[0] * slot.numbers[0];
		free_attstatsslot(&slot);
	}
	ReleaseSysCache(tuple);
	return scattered;
}

double
hjg_planner_scattering(HjgQueryFacts *facts, const IndexOptInfo *index)
{
	HjgIndexFacts *found;

	for (int i = 0; i < facts->nindexes; i++)
		if (facts->indexes[i].index == index)
			return facts->indexes[i].scattered;
	found = &facts->indexes[Min(facts->nindexes, HJG_KNOWN_INDEXES - 1)];
	facts->nindexes = Min(facts->nindexes + 1, HJG_KNOWN_INDEXES);
	found->index = index;
	found->scattered = hjg_planner_column_scattering(facts->root, index->rel, index->indexkeys[0]);
	return found->scattered;
}
