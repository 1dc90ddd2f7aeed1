/*
 * marshal_key.c
 *	  Which operators make keys, and of what kind: the codec by which
 *	  marshal_key_encode.c encodes their values.
 *
 * An operator counts as exact by the function behind it, never by its type or
 * name: a user's operator class over int4 may mean anything.
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

#include "marshal/hjg_marshal.h"

typedef struct ExactOperator
{
	Oid			function;
	HjgKeyKind	kind;
	int16		left_width;
	int16		right_width;
} ExactOperator;

/* Equality functions whose operands are equal just when their normalised bytes are. */
static const ExactOperator exact_operators[] = {
	{F_BOOLEQ, HJG_KEY_INT, 1, 1},
	{F_CASH_EQ, HJG_KEY_INT, 8, 8},
	{F_CHAREQ, HJG_KEY_INT, 1, 1},
	{F_CIDEQ, HJG_KEY_INT, 4, 4},
	{F_DATE_EQ, HJG_KEY_INT, 4, 4},
	{F_ENUM_EQ, HJG_KEY_INT, 4, 4},
	{F_FLOAT4EQ, HJG_KEY_FLOAT, 4, 4},
	{F_FLOAT48EQ, HJG_KEY_FLOAT, 4, 8},
	{F_FLOAT84EQ, HJG_KEY_FLOAT, 8, 4},
	{F_FLOAT8EQ, HJG_KEY_FLOAT, 8, 8},
	{F_INT2EQ, HJG_KEY_INT, 2, 2},
	{F_INT24EQ, HJG_KEY_INT, 2, 4},
	{F_INT28EQ, HJG_KEY_INT, 2, 8},
	{F_INT4EQ, HJG_KEY_INT, 4, 4},
	{F_INT42EQ, HJG_KEY_INT, 4, 2},
	{F_INT48EQ, HJG_KEY_INT, 4, 8},
	{F_INT8EQ, HJG_KEY_INT, 8, 8},
	{F_INT82EQ, HJG_KEY_INT, 8, 2},
	{F_INT84EQ, HJG_KEY_INT, 8, 4},
	{F_OIDEQ, HJG_KEY_INT, 4, 4},
	{F_PG_LSN_EQ, HJG_KEY_INT, 8, 8},
	{F_TIMESTAMP_EQ, HJG_KEY_INT, 8, 8},
	{F_TIMESTAMPTZ_EQ, HJG_KEY_INT, 8, 8},
	{F_TIME_EQ, HJG_KEY_INT, 8, 8},
	{F_UUID_EQ, HJG_KEY_BYTES, 16, 16},
	{F_XID8EQ, HJG_KEY_INT, 8, 8},
	{F_XIDEQ, HJG_KEY_INT, 4, 4},
};

bool
hjg_key_is_varlena(Oid function)
{
	return function == F_TEXTEQ || function == F_BYTEAEQ;
}

/* Operators that were asked for lately; those that the server comes with have the same function for ever. */
typedef struct KnownOperator
{
	Oid			op;
	const ExactOperator *exact;
} KnownOperator;

static const ExactOperator *
find_exact(Oid op)
{
	static KnownOperator known[16];
	KnownOperator *place = &known[op % lengthof(known)];
	const ExactOperator *exact = NULL;
	Oid			function;

	if (place->op == op && OidIsValid(op))
		return place->exact;
	function = get_opcode(op);
	for (int i = 0; i < lengthof(exact_operators) && exact == NULL; i++)
		if (exact_operators[i].function == function)
			exact = &exact_operators[i];
	if (op < FirstGenbkiObjectId)
		*place = (KnownOperator) {op, exact};
	return exact;
}

/*
 * Find hash functions for both inputs of op in one operator family.  64-bit
 * functions are taken only where a type always has one: the extended functions
 * of containers fail at run time on elements that have just a 32-bit one.
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
hjg_key_supported(Oid op, Oid collation, const char **why)
{
	RegProcedure left;
	RegProcedure right;
	bool		extended;

	/* their functions are strict and know no collations */
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
hjg_key_exact_bytes(Oid op)
{
	const ExactOperator *exact = find_exact(op);

	return exact == NULL ? 0 : Max(exact->left_width, exact->right_width);
}

HjgKeyCodec *
hjg_key_codec(int nkeys, const Oid *ops, const Oid *collations, bool left)
{
	HjgKeyCodec *codec = palloc0(offsetof(HjgKeyCodec, columns) + nkeys * sizeof(HjgKeyColumn));
	int			bytes = 0;

	codec->ncolumns = nkeys;
	codec->exact = true;
	for (int i = 0; i < nkeys; i++)
	{
		int			width = hjg_key_exact_bytes(ops[i]);

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
		const ExactOperator *exact = find_exact(ops[i]);

		column->collation = collations[i];
		if (codec->exact)
		{
			column->kind = exact->kind;
			column->width = left ? exact->left_width : exact->right_width;
			column->packed_width = Max(exact->left_width, exact->right_width);
			column->packed_off = bytes;
			bytes += column->packed_width;
		}
		else if (hjg_key_is_varlena(get_opcode(ops[i])))
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
