/*
 * hjg_compat.h
 *	  Differences between PostgreSQL 15, 16, 17 and 18.
 *
 * No other file tests the server's version (test/check_rules.pl checks that). A file that uses a macro includes the headers
 * that the macro needs. Differences that need more than a macro are in planner_nulling.c and scan_heap_page.c, under the
 * HJG_HAS_ macros.
 */
#ifndef HJG_COMPAT_H
#define HJG_COMPAT_H

#include "postgres.h"

#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif

/* ---------- features ---------- */

/* Plans name the outer joins that may have made a column NULL (Var.varnullingrels); sets of relations include these joins. */
#define HJG_HAS_NULLING_RELS (PG_VERSION_NUM >= 160000)

/* Heap scans read ahead through a stream of pages (storage/read_stream.h). */
#define HJG_HAS_READ_STREAMS (PG_VERSION_NUM >= 170000)

/* Does a scan of core's evaluate the condition in its state, whatever it was when the scan was set up? */
#if PG_VERSION_NUM >= 180000
#define HJG_SCAN_ASKS_QUAL(plan) (!IsA(plan, SeqScanState) || (plan)->qual != NULL)
#else
#define HJG_SCAN_ASKS_QUAL(plan) (true)
#endif

/* ---------- processes ---------- */

#if PG_VERSION_NUM >= 170000
#define HJG_MY_PROCNO ((uint32) MyProcNumber)
#define HJG_WAIT_SET_CREATE(nevents) CreateWaitEventSet(NULL, nevents)
#else
#define HJG_MY_PROCNO ((uint32) MyProc->pgprocno)
#define HJG_WAIT_SET_CREATE(nevents) CreateWaitEventSet(TopMemoryContext, nevents)
#endif

/* Get the number of a wait event by its name (utils/wait_event.h). */
#if PG_VERSION_NUM >= 170000
#define HJG_WAIT_EVENT_NEW(name) WaitEventExtensionNew(name)
#else
#define HJG_WAIT_EVENT_NEW(name) ((void) (name), (uint32) PG_WAIT_EXTENSION)
#endif

/* ---------- heap pages and buffers (storage/buf_internals.h, pgstat.h) ---------- */

#if PG_VERSION_NUM >= 160000
#define HJG_LOCATOR(relation) ((relation)->rd_locator)
#define HJG_INIT_TAG(tag, relation, block) InitBufferTag(tag, &(relation)->rd_locator, MAIN_FORKNUM, block)
#define HJG_TAG_IS_OF(tag, relation) \
	(BufTagGetForkNum(tag) == MAIN_FORKNUM && BufTagMatchesRelFileLocator(tag, &(relation)->rd_locator))
#define HJG_TABLESPACE_OF(relation) ((relation)->rd_locator.spcOid)
#define HJG_DATABASE_OF(relation) ((relation)->rd_locator.dbOid)
#define HJG_FILE_OF(relation) ((relation)->rd_locator.relNumber)
#define HJG_HAS_NEW_FILE(relation) ((relation)->rd_firstRelfilelocatorSubid != InvalidSubTransactionId)
#define HJG_TABLE_COUNTS(relation) ((relation)->pgstat_info->counts)
#define HJG_TUPLES_RETURNED tuples_returned
#else
#define HJG_LOCATOR(relation) ((relation)->rd_node)
#define HJG_INIT_TAG(tag, relation, block) INIT_BUFFERTAG(*(tag), (relation)->rd_node, MAIN_FORKNUM, block)
#define HJG_TAG_IS_OF(tag, relation) ((tag)->forkNum == MAIN_FORKNUM && RelFileNodeEquals((tag)->rnode, (relation)->rd_node))
#define HJG_TABLESPACE_OF(relation) ((relation)->rd_node.spcNode)
#define HJG_DATABASE_OF(relation) ((relation)->rd_node.dbNode)
#define HJG_FILE_OF(relation) ((relation)->rd_node.relNode)
#define HJG_HAS_NEW_FILE(relation) ((relation)->rd_firstRelfilenodeSubid != InvalidSubTransactionId)
#define HJG_TABLE_COUNTS(relation) ((relation)->pgstat_info->t_counts)
#define HJG_TUPLES_RETURNED t_tuples_returned
#endif

/* Count a page that a scan with this strategy found in the pool, in pg_stat_io. */
#if PG_VERSION_NUM >= 180000
#define HJG_COUNT_IO_HIT(strategy) \
	pgstat_count_io_op(IOOBJECT_RELATION, (strategy) != NULL ? IOCONTEXT_BULKREAD : IOCONTEXT_NORMAL, IOOP_HIT, 1, 0)
#elif PG_VERSION_NUM >= 160000
#define HJG_COUNT_IO_HIT(strategy) \
	pgstat_count_io_op(IOOBJECT_RELATION, (strategy) != NULL ? IOCONTEXT_BULKREAD : IOCONTEXT_NORMAL, IOOP_HIT)
#else
#define HJG_COUNT_IO_HIT(strategy) ((void) 0)
#endif

#if PG_VERSION_NUM >= 170000
#define HJG_TEST_FOR_OLD_SNAPSHOT(snapshot, relation, page) ((void) 0)
/* May rows that a snapshot sees be removed when it is old (utils/snapmgr.h)? */
#define HJG_SNAPSHOTS_AGE false
#else
#define HJG_SNAPSHOTS_AGE OldSnapshotThresholdActive()
#define HJG_TEST_FOR_OLD_SNAPSHOT(snapshot, relation, page) TestForOldSnapshot(snapshot, relation, page)
#endif

/* ---------- planner ---------- */

/* A scan of a subquery by this path of it: a parameter was added in 16. */
#if PG_VERSION_NUM >= 160000
#define HJG_SUBQUERYSCAN_PATH(root, rel, path) create_subqueryscan_path(root, rel, path, false, NIL, NULL)
#else
#define HJG_SUBQUERYSCAN_PATH(root, rel, path) create_subqueryscan_path(root, rel, path, NIL, NULL)
#endif

/* All relations of the query, as in the relids of the join of all of them. */
#if PG_VERSION_NUM >= 160000
#define HJG_ALL_RELS(root) ((root)->all_query_rels)
#else
#define HJG_ALL_RELS(root) ((root)->all_baserels)
#endif

/* GROUP BY or DISTINCT without its redundant columns; all of it if all are redundant, because rows are grouped nevertheless. */
#if PG_VERSION_NUM >= 160000
#define HJG_DISTINCT_CLAUSE(root) ((root)->processed_distinctClause != NIL ? (root)->processed_distinctClause : (root)->parse->distinctClause)
#define HJG_GROUP_CLAUSE(root) ((root)->processed_groupClause != NIL ? (root)->processed_groupClause : (root)->parse->groupClause)
#else
#define HJG_DISTINCT_CLAUSE(root) ((root)->parse->distinctClause)
#define HJG_GROUP_CLAUSE(root) ((root)->parse->groupClause)
#endif

/* Does core's price of a DISTINCT aggregate include the sort of its values? */
#define HJG_CHARGES_SORTS (PG_VERSION_NUM >= 160000)

/* Disabled nodes of a path: from 18 on they count before its price, which does not include them; before 18 the price does. */
#if PG_VERSION_NUM >= 180000
#define HJG_DISABLED_NODES(path) ((path)->disabled_nodes)
#define HJG_SET_DISABLED_NODES(path, n) ((path)->disabled_nodes = (n))
#else
#define HJG_DISABLED_NODES(path) 0
#define HJG_SET_DISABLED_NODES(path, n) ((void) 0)
#endif

/* The families of an operator of a B-tree, or of the negator of one (utils/lsyscache.h). */
#if PG_VERSION_NUM >= 180000
#define HJG_FAMILIES_OF(operator) get_op_index_interpretation(operator)
#else
#define HJG_FAMILIES_OF(operator) get_op_btree_interpretation(operator)
#endif

/* Is column i of a table declared NOT NULL, and has that been checked for all rows (access/tupdesc.h)? */
#if PG_VERSION_NUM >= 180000
#define HJG_IS_DECLARED_NOT_NULL(desc, i) (TupleDescCompactAttr(desc, i)->attnullability == ATTNULLABLE_VALID)
#else
#define HJG_IS_DECLARED_NOT_NULL(desc, i) (TupleDescAttr(desc, i)->attnotnull)
#endif

/* The keys that columns of an entry of the range table stand for; NIL if it is no entry of groups, which 18 has. */
#if PG_VERSION_NUM >= 180000
#define HJG_GROUP_EXPRS(rte) ((rte)->groupexprs)
#else
#define HJG_GROUP_EXPRS(rte) NIL
#endif

/* Note that an outer join may make a column NULL (nodes/bitmapset.h). */
#if PG_VERSION_NUM >= 160000
#define HJG_ADD_NULLING_REL(var, rti) ((var)->varnullingrels = bms_add_member((var)->varnullingrels, (int) (rti)))
#else
#define HJG_ADD_NULLING_REL(var, rti) ((void) 0)
#endif

/* From 17 on core also searches a join's path for constant clauses. */
#if PG_VERSION_NUM >= 170000
#define HJG_SET_CLAUSES(custom_path, clauses) ((custom_path)->custom_restrictinfo = (clauses))
#else
#define HJG_SET_CLAUSES(custom_path, clauses) ((void) 0)
#endif

/*
 * Joins that return build rows only: those without a match, or once each that has a match. Core has the former from 16 on,
 * the latter from 18 on; before, they have values that core never sees.
 */
#if PG_VERSION_NUM >= 160000
#define HJG_JOIN_RIGHT_ANTI JOIN_RIGHT_ANTI
#else
#define HJG_JOIN_RIGHT_ANTI ((JoinType) 20)
#endif
#if PG_VERSION_NUM >= 180000
#define HJG_JOIN_RIGHT_SEMI JOIN_RIGHT_SEMI
#else
#define HJG_JOIN_RIGHT_SEMI ((JoinType) 21)
#endif
#define HJG_IS_BUILD_ONLY(jointype) ((jointype) == HJG_JOIN_RIGHT_ANTI || (jointype) == HJG_JOIN_RIGHT_SEMI)
#define HJG_IS_OUTER_JOIN(jointype) (IS_OUTER_JOIN(jointype) || (jointype) == HJG_JOIN_RIGHT_ANTI)

/* Can core join in the order that mirrors a JOIN_SEMI or JOIN_ANTI, too? */
#define HJG_CORE_MIRRORS(jointype) ((jointype) == JOIN_ANTI ? PG_VERSION_NUM >= 160000 : PG_VERSION_NUM >= 180000)

/* ---------- executor ---------- */

/* Does EXPLAIN name the table of a column? From 18 on GROUP BY is in the range table, too. */
#if PG_VERSION_NUM >= 180000
#define HJG_HAS_SEVERAL_RELATIONS(es) ((es)->rtable_size > 1)
#else
#define HJG_HAS_SEVERAL_RELATIONS(es) (list_length((es)->rtable) > 1)
#endif

/* ExecutorRun_hook's last parameter says whether a query runs once; 18 has no such parameter. */
#if PG_VERSION_NUM >= 180000
#define HJG_RUN_ONCE_PARAMETER
#define HJG_RUN_ONCE_ARGUMENT
#define HJG_RUNS_ONCE false
#else
#define HJG_RUN_ONCE_PARAMETER , bool once
#define HJG_RUN_ONCE_ARGUMENT , once
#define HJG_RUNS_ONCE once
#endif

#endif							/* HJG_COMPAT_H */
