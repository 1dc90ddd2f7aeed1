/*
 * rows_key.c
 *	  Decides which operators make keys, and of what kind, and makes the codec by which rows_key_encode.c encodes their values.
 *
 * An operator is exact by its function, never by its type or name: a user's operator class over int4 may mean anything.
 */
#include "postgres.h"

#include "access/hash.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/transam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_amop.h"
#include "utils/catcache.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "rows/hjg_rows.h"

bool
hjg_rows_key_is_varlena(Oid function)
{
	const HjgBytesOperator *op = hjg_vector_bytes_operator(function);

	return op != NULL && op->comparison == HJG_COMPARE_EQ && !op->padded;
}

/* Cache of recent operators; the function of an operator of the server itself never changes. */
typedef struct KnownOperator
{
	Oid			op;
	const HjgSimpleOperator *exact;
} KnownOperator;

/* Find an operator whose operands are equal if and only if their normalised bytes are; NULL if it is another one. */
static const HjgSimpleOperator *
find_exact(Oid op)
{
	static KnownOperator known[16];
	KnownOperator *place = &known[op % lengthof(known)];
	const HjgSimpleOperator *exact;

	if (place->op == op && OidIsValid(op))
		return place->exact;
	exact = hjg_vector_simple_operator(get_opcode(op));
	if (exact != NULL && exact->comparison != HJG_COMPARE_EQ)
		exact = NULL;
	if (op < FirstGenbkiObjectId)
		*place = (KnownOperator) {op, exact};
	return exact;
}

/*
 * Find hash functions for both inputs of op in one operator family. 64-bit functions are used only if the type always has
 * one: the extended functions of containers fail at run time on elements that have only a 32-bit function.
 */
static bool
find_hash_functions(Oid op, RegProcedure *left, RegProcedure *right, bool *extended)
{
	CatCList   *catlist;
	bool		found = false;

	catlist = SearchSysCacheList1(AMOPOPID, ObjectIdGetDatum(op));
	for (int i = 0; i < catlist->n_members && !found; i++)
	{
		Form_pg_amop amop = (Form_pg_amop) GETSTRUCT(&catlist->members[i]->tuple);

		if (amop->amopmethod != HASH_AM_OID || amop->amopstrategy != HTEqualStrategyNumber)
			continue;
		*left = get_opfamily_proc(amop->amopfamily, amop->amoplefttype, amop->amoplefttype,
								  HASHEXTENDED_PROC);
		*right = get_opfamily_proc(amop->amopfamily, amop->amoprighttype, amop->amoprighttype,
								   HASHEXTENDED_PROC);
		*extended = OidIsValid(*left) && OidIsValid(*right) &&
			*left < FirstNormalObjectId && *right < FirstNormalObjectId &&
			*left != F_HASH_ARRAY_EXTENDED && *left != F_HASH_RECORD_EXTENDED &&
			*left != F_HASH_RANGE_EXTENDED && *left != F_HASH_MULTIRANGE_EXTENDED;
		if (!*extended)
		{
			*left = get_opfamily_proc(amop->amopfamily, amop->amoplefttype, amop->amoplefttype,
									  HASHSTANDARD_PROC);
			*right = get_opfamily_proc(amop->amopfamily, amop->amoprighttype, amop->amoprighttype,
									   HASHSTANDARD_PROC);
		}
		found = OidIsValid(*left) && OidIsValid(*right);
	}
	ReleaseSysCacheList(catlist);
	return found;
}

bool
hjg_rows_key_supported(Oid op, Oid collation, const char **why)
{
	RegProcedure left;
	RegProcedure right;
	bool		extended;

	/* functions of exact operators are strict and know no collations */
	if (find_exact(op) != NULL)
		return true;
	if (!op_strict(op))
	{
		*why = "an equality operator is not strict";
		return false;
	}
	if (OidIsValid(collation) && !get_collation_isdeterministic(collation))
	{
		*why = "a key has a nondeterministic collation";
		return false;
	}
	if (!find_hash_functions(op, &left, &right, &extended))
	{
		*why = "an equality operator has no hash functions";
		return false;
	}
	return true;
}

int
hjg_rows_key_exact_bytes(Oid op)
{
	const HjgSimpleOperator *exact = find_exact(op);

	return exact == NULL ? 0 : Max(exact->left_width, exact->right_width);
}

HjgKeyCodec *
hjg_rows_key_codec(int nkeys, const Oid *ops, const Oid *collations, bool left)
{
	HjgKeyCodec *codec = palloc0(offsetof(HjgKeyCodec, columns) + nkeys * sizeof(HjgKeyColumn));
	int			bytes = 0;

	codec->ncolumns = nkeys;
	codec->exact = true;
	for (int i = 0; i < nkeys; i++)
	{
		int			width = hjg_rows_key_exact_bytes(ops[i]);

		if (width == 0)
			codec->exact = false;
		bytes += width;
	}
	if (bytes > HJG_MAX_KEY_BYTES)
		codec->exact = false;
	codec->key_width = !codec->exact ? HJG_KEY_WIDTH_8 :
		bytes <= 4 ? HJG_KEY_WIDTH_4 : bytes <= 8 ? HJG_KEY_WIDTH_8 : HJG_KEY_WIDTH_16;

	bytes = 0;
	for (int i = 0; i < nkeys; i++)
	{
		HjgKeyColumn *column = &codec->columns[i];
		const HjgSimpleOperator *exact = find_exact(ops[i]);

		column->collation = collations[i];
		if (codec->exact)
		{
			column->kind = exact->ordinal == HJG_ORDINAL_FLOAT ? HJG_KEY_FLOAT :
				exact->ordinal == HJG_ORDINAL_NONE ? HJG_KEY_BYTES : HJG_KEY_INT;
			column->width = left ? exact->left_width : exact->right_width;
			column->packed_width = Max(exact->left_width, exact->right_width);
			column->packed_off = bytes;
			bytes += column->packed_width;
		}
		else if (hjg_rows_key_is_varlena(get_opcode(ops[i])))
			column->kind = HJG_KEY_VARLENA;
		else
		{
			RegProcedure left_fn;
			RegProcedure right_fn;

			if (!find_hash_functions(ops[i], &left_fn, &right_fn, &column->extended))
				elog(ERROR, "operator %u has no hash functions", ops[i]);
			column->kind = HJG_KEY_HASHED;
			fmgr_info(left ? left_fn : right_fn, &column->hash_fn);
		}
	}
	return codec;
}
