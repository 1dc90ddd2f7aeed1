/*
 * scan_keep.c
 *	  Keeps columns of a table, or of its partitions, at once, without waiting for queries that read them.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "scan/hjg_scan_kept.h"

PG_FUNCTION_INFO_V1(hjoin_gpu_keep);

/* Get the attributes of these names. */
static Bitmapset *
find_named_attributes(Relation relation, ArrayType *names)
{
	Bitmapset  *attnos = NULL;
	Datum	   *elements;
	bool	   *nulls;
	int			nelements;

	deconstruct_array(names, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &elements, &nulls, &nelements);
	if (nelements > HJG_KEPT_MAX_COLUMNS)
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_COLUMNS),
				 errmsg("at most %d columns of a table can be kept", HJG_KEPT_MAX_COLUMNS)));
	for (int i = 0; i < nelements; i++)
	{
		const AttrNumber attno = nulls[i] ? InvalidAttrNumber : get_attnum(RelationGetRelid(relation), NameStr(*DatumGetName(elements[i])));
		if (attno <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("column \"%s\" of relation \"%s\" does not exist", nulls[i] ? "" : NameStr(*DatumGetName(elements[i])),
							RelationGetRelationName(relation))));
		attnos = bms_add_member(attnos, attno);
	}
	return attnos;
}

/* Get all attributes that can be kept. */
static Bitmapset *
all_attributes(Relation relation)
{
	Bitmapset  *attnos = NULL;
	TupleDesc	desc = RelationGetDescr(relation);

	for (int a = 0; a < desc->natts && a < HJG_KEPT_MAX_ATTNO && bms_num_members(attnos) < HJG_KEPT_MAX_COLUMNS; a++)
		if (!TupleDescAttr(desc, a)->attisdropped)
			attnos = bms_add_member(attnos, a + 1);
	return attnos;
}

/* Keep columns of one table; returns its blocks that have been kept. names: of the columns; NULL: all. */
static uint64
keep_table(Oid relid, ArrayType *names)
{
	HjgKeptOpener *opener = NULL;
	Relation	relation = table_open(relid, AccessShareLock);
	Bitmapset  *attnos;
	uint64		nblocks = 0;

	attnos = names == NULL ? all_attributes(relation) : find_named_attributes(relation, names);
	if (relation->rd_rel->relkind == RELKIND_RELATION || relation->rd_rel->relkind == RELKIND_MATVIEW)
		opener = hjg_scan_heap_readable(relation) ? hjg_scan_kept_opener_create(relation, GetActiveSnapshot(), attnos, NULL) : NULL;
	if (opener != NULL)
		nblocks = hjg_scan_kept_keep(opener, RelationGetNumberOfBlocks(relation));
	table_close(relation, AccessShareLock);
	return nblocks;
}

Datum
hjoin_gpu_keep(PG_FUNCTION_ARGS)
{
	Oid			relid;
	Relation	relation;
	ArrayType  *names;
	AclResult	allowed;
	uint64		nblocks;
	ListCell   *lc;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	relid = PG_GETARG_OID(0);
	names = PG_ARGISNULL(1) ? NULL : PG_GETARG_ARRAYTYPE_P(1);
	relation = table_open(relid, AccessShareLock);
	allowed = pg_class_aclcheck(relid, GetUserId(), ACL_SELECT);
	if (allowed != ACLCHECK_OK)
		aclcheck_error(allowed, get_relkind_objtype(relation->rd_rel->relkind), RelationGetRelationName(relation));
	nblocks = keep_table(relid, names);
	/* the right to read a table is enough for its partitions, which are read through it */
	foreach(lc, relation->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ? find_all_inheritors(relid, AccessShareLock, NULL) : NIL)
		nblocks += lfirst_oid(lc) != relid ? keep_table(lfirst_oid(lc), names) : 0;
	table_close(relation, AccessShareLock);
	PG_RETURN_INT64((int64) nblocks);
}
