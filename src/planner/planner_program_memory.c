/*
 * planner_program_memory.c
 *	  Estimates the memory of a program's hash tables and groups on the processor's threads.
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "utils/selfuncs.h"

#include "layout/hjg_program.h"
#include "planner/hjg_planner_program.h"
#include "scan/hjg_scan.h"

/*
 * Tables of the processor's threads: words of a record beside its keys and its values, and bytes of each, as half of the places are free. By ranks
 * (device_cpu_ranks.c), where there are not too many possible keys for a record: bytes of such a key, and of a value of a hash table, about, or of a group.
 */
#define RECORD_WORDS 1
#define HASHED_WORD_BYTES 16.0
#define RANKED_KEY_BYTES 0.25
#define RANKED_VALUE_BYTES 4.0
#define RANKED_TOTAL_BYTES 8.0

/* Values of a group: its number of rows, and of each argument, about. */
#define GROUP_VALUES(narguments) (1 + 2 * (narguments))

/* Estimates of different keys are often too low by so much. */
#define MORE_KEYS 4

/* Count the possible values of a table's keys, if it can have ranks; 0: it cannot. */
static double
count_ranked_keys(PlannerInfo *root, const List *keys, double nrecords)
{
	const Var  *key = list_length(keys) == 1 ? (const Var *) hjg_scan_strip_relabel(linitial(keys)) : NULL;
	double		nvalues;

	if (key == NULL || !IsA(key, Var) || key->varlevelsup > 0 || key->varattno <= 0 || root->simple_rel_array[key->varno] == NULL)
		return 0;
	nvalues = hjg_planner_range(hjg_planner_facts(root), find_base_rel(root, key->varno), key->varattno, false);
	return nvalues <= HJG_PROGRAM_MOST_RANKED * nrecords ? nvalues : 0;
}

/* Estimate the memory of a hash table. */
static double
estimate_bytes(PlannerInfo *root, const List *keys, double nrecords, int nvalues)
{
	const double nkeys = count_ranked_keys(root, keys, nrecords);

	return nkeys > 0 ? nkeys * RANKED_KEY_BYTES + nrecords * nvalues * RANKED_VALUE_BYTES :
		nrecords * (RECORD_WORDS + list_length(keys) + nvalues) * HASHED_WORD_BYTES;
}

double
hjg_planner_program_groups_bytes(PlannerInfo *root, const List *keys, double ngroups, int narguments, bool may_rank)
{
	const double nkeys = may_rank ? count_ranked_keys(root, keys, ngroups) : 0;

	return nkeys > 0 ? nkeys * RANKED_KEY_BYTES + ngroups * GROUP_VALUES(narguments) * RANKED_TOTAL_BYTES :
		ngroups * (RECORD_WORDS + list_length(keys) + GROUP_VALUES(narguments)) * HASHED_WORD_BYTES;
}

double
hjg_planner_program_table_bytes(PlannerInfo *root, const HjgPath *join, const RelOptInfo *side)
{
	List	   *keys = NIL;
	double		rows = side->rows;
	ListCell   *lc;

	foreach(lc, join->hashclauses)
	{
		const RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		keys = lappend(keys, bms_is_subset(rinfo->left_relids, side->relids) ? get_leftop(rinfo->clause) : get_rightop(rinfo->clause));
	}
	if (!hjg_planner_program_exists(join))
		return estimate_bytes(root, keys, rows, list_length(side->reltarget->exprs) - list_length(keys));
	rows = Min(rows, estimate_num_groups(root, keys, rows, NULL, NULL) * MORE_KEYS);
	if (list_length(join->restrictlist) == list_length(join->hashclauses))
		return estimate_bytes(root, keys, rows, 0);
	return estimate_bytes(root, keys, rows, 2) + hjg_planner_program_groups_bytes(root, keys, rows, 1, true);
}
