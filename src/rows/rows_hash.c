/*
 * rows_hash.c
 *	  Hashes the keys of a vector of rows, key by key.
 */
#include "postgres.h"

#include "layout/hjg_hash.h"
#include "rows/hjg_rows.h"

void
hjg_rows_hash_ordinals(const int64 *ordinals, int nrows, uint64 *hashes)
{
	for (int i = 0; i < nrows; i++)
		hashes[i] = hjg_mix64(hjg_hash_seed, hashes[i] + (uint64) ordinals[i]);
}

void
hjg_rows_hash_bytes(const HjgBytes *bytes, int nrows, uint64 *hashes)
{
	for (int i = 0; i < nrows; i++)
		hashes[i] = hjg_mix64(hjg_hash_seed, hashes[i] + hjg_rows_key_hash_bytes(bytes[i].data, bytes[i].nbytes));
}

void
hjg_rows_hash_datums(HjgKeyColumn *column, const Datum *values, const bool *isnull, int nrows, uint64 *hashes)
{
	const Datum seed = UInt64GetDatum(hjg_hash_seed.flip);

	for (int i = 0; i < nrows; i++)
	{
		uint64		hash = 0;

		if (!isnull[i])
			hash = column->extended ? DatumGetUInt64(FunctionCall2Coll(&column->hash_fn, column->collation, values[i], seed)) :
				DatumGetUInt32(FunctionCall1Coll(&column->hash_fn, column->collation, values[i]));
		hashes[i] = hjg_mix64(hjg_hash_seed, hashes[i] + hash);
	}
}
