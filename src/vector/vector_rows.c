/*
 * vector_rows.c
 *	  Rows of vectors.
 */
#include "vector/hjg_vector.h"

#define SELECT(type) \
	for (int i = 0; i < nrows; i++) \
		((type *) to->values)[i] = ((const type *) vector->values)[rows[i]]; \
	break

void
hjg_vector_select(const HjgVector *vector, const uint32_t *rows, int nrows, HjgVector *to)
{
	to->has_nulls = vector->has_nulls;
	to->words = vector->words;
	to->scale = vector->scale;
	if (vector->has_nulls)
		for (int i = 0; i < nrows; i++)
			to->isnull[i] = vector->isnull[rows[i]];
	if (vector->numbers != NULL)
	{
		for (int i = 0; i < nrows && to->numbers != NULL; i++)
			to->numbers[i] = vector->numbers[rows[i]];
		return;
	}
	switch (vector->column.attbyval ? vector->column.attlen : (int) sizeof(void *))
	{
		case 1:
			SELECT(uint8_t);
		case 2:
			SELECT(uint16_t);
		case 4:
			SELECT(uint32_t);
		default:
			SELECT(uint64_t);
	}
}
#undef SELECT

void
hjg_vector_put_nulls(HjgVector *vector, int nrows)
{
	vector->has_nulls = true;
	memset(vector->isnull, true, nrows * sizeof(bool));
}
