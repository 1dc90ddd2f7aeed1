/*
 * node_verify_core.c
 *	  Core's hash join of the rows that a GpuHashJoin has read.
 *
 * The plan is made here from the clauses of the node, and has an executor state of its own, so that nothing of it remains.
 * Its leaves are two custom scans that return the rows of a file.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

#include "base/hjg_compat.h"
#include "node/hjg_verify.h"

/* ---------- the rows of a file ---------- */

typedef struct KeptScan
{
	CustomScanState css;		/* must be first */
	HjgKeptRows *kept;
	TupleTableSlot *row;
} KeptScan;

static Node *create_kept_scan(CustomScan *cscan);

static void
begin_kept_scan(CustomScanState *node, EState *estate, int eflags)
{
	((KeptScan *) node)->row = ExecInitExtraTupleSlot(estate, node->ss.ss_ScanTupleSlot->tts_tupleDescriptor,
													 &TTSOpsMinimalTuple);
}

static TupleTableSlot *
exec_kept_scan(CustomScanState *node)
{
	KeptScan   *scan = (KeptScan *) node;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	const void *key;

	ExecClearTuple(slot);
	if (scan->kept->spill == NULL || !hjg_rows_spill_read(scan->kept->spill, &key, scan->row))
		return slot;
	slot->tts_values = scan->row->tts_values;
	slot->tts_isnull = scan->row->tts_isnull;
	return ExecStoreVirtualTuple(slot);
}

static void
end_kept_scan(CustomScanState *node)
{
}

static void
rescan_kept_scan(CustomScanState *node)
{
	const KeptScan *scan = (KeptScan *) node;

	if (scan->kept->spill != NULL)
		hjg_rows_spill_rewind(scan->kept->spill);
}

static const CustomScanMethods kept_scan_methods = {
	.CustomName = "GpuHashJoin kept rows",
	.CreateCustomScanState = create_kept_scan,
};

static const CustomExecMethods kept_exec_methods = {
	.CustomName = "GpuHashJoin kept rows",
	.BeginCustomScan = begin_kept_scan,
	.ExecCustomScan = exec_kept_scan,
	.EndCustomScan = end_kept_scan,
	.ReScanCustomScan = rescan_kept_scan,
};

static Node *
create_kept_scan(CustomScan *cscan)
{
	KeptScan   *scan = palloc0(sizeof(KeptScan));

	NodeSetTag(scan, T_CustomScanState);
	scan->css.methods = &kept_exec_methods;
	return (Node *) scan;
}

/* ---------- the plan ---------- */

/* List the columns of a side. */
static List *
make_tlist(TupleDesc desc, int varno)
{
	List	   *tlist = NIL;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		tlist = lappend(tlist, makeTargetEntry((Expr *) makeVar(varno, i + 1, att->atttypid, att->atttypmod,
																att->attcollation, 0), i + 1, NULL, false));
	}
	return tlist;
}

static Plan *
make_scan(const HjgKeptRows *kept)
{
	CustomScan *cscan = makeNode(CustomScan);

	cscan->scan.plan.targetlist = make_tlist(kept->desc, INDEX_VAR);
	cscan->scan.plan.plan_rows = kept->spill != NULL ? (double) hjg_rows_spill_nrows(kept->spill) : 0;
	cscan->scan.plan.plan_width = 32;
	cscan->custom_scan_tlist = make_tlist(kept->desc, INDEX_VAR);
	cscan->methods = &kept_scan_methods;
	return &cscan->scan.plan;
}

/* The columns of a plan node that replace those of the scan tuple. */
typedef struct Mapping
{
	int			nouter;			/* columns of the probe side, which come first */
	int			varnos[HJG_SIDES];	/* of the sides in that plan node, by HjgSideId */
} Mapping;

static Node *
map_columns(Node *node, const Mapping *mapping)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var) && ((Var *) node)->varno == INDEX_VAR)
	{
		Var		   *var = copyObject((Var *) node);
		const bool	outer = var->varattno <= mapping->nouter;

		var->varno = mapping->varnos[outer ? HJG_SIDE_PROBE : HJG_SIDE_BUILD];
		var->varattno -= outer ? 0 : mapping->nouter;
		return (Node *) var;
	}
	return expression_tree_mutator(node, map_columns, (void *) mapping);
}

static List *
map_list(List *list, const Mapping *mapping)
{
	return (List *) map_columns((Node *) list, mapping);
}

static List *
commute_operators(const List *operators)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, operators)
		result = lappend_oid(result, get_commutator(lfirst_oid(lc)));
	return result;
}

/*
 * Make core's join of the sides, in the node's order; if the node returns build rows only, which core cannot do on all
 * versions, in the other order.
 */
static HashJoin *
make_core_join(const HjgJoinState *state, const HjgVerify *verify)
{
	const CustomScan *cscan = castNode(CustomScan, state->css.ss.ps.plan);
	const TupleDesc scan_desc = state->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	const JoinType jointype = state->terms.jointype;
	const bool	mirrored = HJG_IS_BUILD_ONLY(jointype);
	const HjgSideId outer = mirrored ? HJG_SIDE_BUILD : HJG_SIDE_PROBE;
	const HjgSideId inner = mirrored ? HJG_SIDE_PROBE : HJG_SIDE_BUILD;
	const Mapping hashed = {state->outer.nplan_columns, {OUTER_VAR, OUTER_VAR}};
	const Mapping mapping = {state->outer.nplan_columns, {[HJG_SIDE_PROBE] = mirrored ? INNER_VAR : OUTER_VAR,[HJG_SIDE_BUILD] = mirrored ? OUTER_VAR : INNER_VAR}};
	List	   *outer_keys = list_nth(cscan->custom_exprs, mirrored ? HJG_EXPRS_INNER_KEYS : HJG_EXPRS_OUTER_KEYS);
	List	   *inner_keys = list_nth(cscan->custom_exprs, mirrored ? HJG_EXPRS_OUTER_KEYS : HJG_EXPRS_INNER_KEYS);
	List	   *operators = list_nth(cscan->custom_private, HJG_PRIVATE_OPERATORS);
	HashJoin   *join = makeNode(HashJoin);
	Hash	   *hash = makeNode(Hash);
	List	   *joined = NIL;

	for (int c = 0; c < verify->ncolumns; c++)
	{
		Form_pg_attribute att = TupleDescAttr(scan_desc, verify->columns[c].scan_ix);

		joined = lappend(joined, makeTargetEntry((Expr *) makeVar(INDEX_VAR, att->attnum, att->atttypid, att->atttypmod,
																  att->attcollation, 0), c + 1, NULL, false));
	}
	hash->plan.lefttree = make_scan(&verify->sides[inner]);
	hash->plan.targetlist = make_tlist(verify->sides[inner].desc, OUTER_VAR);
	hash->plan.plan_rows = hash->plan.lefttree->plan_rows;
	hash->plan.plan_width = hash->plan.lefttree->plan_width;
	hash->hashkeys = map_list(inner_keys, &hashed);
	hash->skewTable = InvalidOid;

	join->join.jointype = jointype == HJG_JOIN_RIGHT_SEMI ? JOIN_SEMI : jointype == HJG_JOIN_RIGHT_ANTI ? JOIN_ANTI : jointype;
	join->join.inner_unique = state->terms.inner_unique && !mirrored;
	join->join.joinqual = map_list(list_nth(cscan->custom_exprs, HJG_EXPRS_JOIN_QUAL), &mapping);
	join->join.plan.targetlist = map_list(joined, &mapping);
	join->join.plan.qual = map_list(cscan->scan.plan.qual, &mapping);
	join->join.plan.lefttree = make_scan(&verify->sides[outer]);
	join->join.plan.righttree = &hash->plan;
	join->hashclauses = map_list(list_nth(cscan->custom_exprs, HJG_EXPRS_HASH_CLAUSES), &mapping);
	join->hashoperators = mirrored ? commute_operators(operators) : operators;
	join->hashcollations = list_nth(cscan->custom_private, HJG_PRIVATE_COLLATIONS);
	join->hashkeys = map_list(outer_keys, &mapping);
	return join;
}

/* ---------- the sum over rows ---------- */

static uint64
hash_value(const HjgColumn *type, Datum value, uint64 seed)
{
	const unsigned char *bytes = (const unsigned char *) DatumGetPointer(value);
	const struct varlena *unpacked;
	uint64		hash;

	if (type->attbyval)
	{
		const uint64 mask = type->attlen < (int) sizeof(Datum) ? (UINT64CONST(1) << (type->attlen * 8)) - 1 : ~UINT64CONST(0);
		const uint64 bits = (uint64) value & mask;

		return hash_bytes_extended((const unsigned char *) &bits, sizeof(bits), seed);
	}
	if (type->attlen > 0)
		return hash_bytes_extended(bytes, type->attlen, seed);
	if (type->attlen == -2)
		return hash_bytes_extended(bytes, (int) strlen((const char *) bytes), seed);
	unpacked = pg_detoast_datum_packed((struct varlena *) DatumGetPointer(value));
	hash = hash_bytes_extended((const unsigned char *) VARDATA_ANY(unpacked), (int) VARSIZE_ANY_EXHDR(unpacked), seed);
	if ((Pointer) unpacked != DatumGetPointer(value))
		pfree(unconstify(struct varlena *, unpacked));
	return hash;
}

void
hjg_tally_row(HjgTally *tally, const HjgVerify *verify, const Datum *values, const bool *isnull)
{
	uint64		hash = 0;

	for (int c = 0; c < verify->ncolumns; c++)
		hash = isnull[c] ? hash_combine64(hash, (uint64) c + 1) : hash_value(&verify->columns[c].type, values[c], hash);
	tally->nrows++;
	tally->sum += hash;
}

/* ---------- running it ---------- */

/* Make an executor state with the node's snapshot and parameters. */
static EState *
make_estate(const EState *of)
{
	EState	   *estate = CreateExecutorState();

	estate->es_snapshot = of->es_snapshot;
	estate->es_range_table = of->es_range_table;
	estate->es_range_table_size = of->es_range_table_size;
	estate->es_plannedstmt = of->es_plannedstmt;
	estate->es_sourceText = of->es_sourceText;
	estate->es_param_list_info = of->es_param_list_info;
	estate->es_param_exec_vals = of->es_param_exec_vals;
	estate->es_subplanstates = of->es_subplanstates;
	return estate;
}

HjgTally
hjg_verify_by_core(const HjgJoinState *state, HjgVerify *verify)
{
	EState	   *estate = make_estate(state->css.ss.ps.state);
	MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);
	HjgTally	tally = {0};
	PlanState  *join = ExecInitNode(&make_core_join(state, verify)->join.plan, estate, 0);
	KeptScan   *outer = (KeptScan *) outerPlanState(join);
	KeptScan   *inner = (KeptScan *) outerPlanState(innerPlanState(join));
	TupleTableSlot *slot;

	outer->kept = &verify->sides[HJG_IS_BUILD_ONLY(state->terms.jointype) ? HJG_SIDE_BUILD : HJG_SIDE_PROBE];
	inner->kept = &verify->sides[HJG_IS_BUILD_ONLY(state->terms.jointype) ? HJG_SIDE_PROBE : HJG_SIDE_BUILD];
	rescan_kept_scan(&outer->css);
	rescan_kept_scan(&inner->css);
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		slot = ExecProcNode(join);
		if (TupIsNull(slot))
			break;
		slot_getallattrs(slot);
		hjg_tally_row(&tally, verify, slot->tts_values, slot->tts_isnull);
	}
	ExecEndNode(join);
	MemoryContextSwitchTo(old);
	FreeExecutorState(estate);
	return tally;
}
