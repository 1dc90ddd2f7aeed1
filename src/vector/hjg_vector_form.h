/*
 * hjg_vector_form.h
 *	  Loops over the values of a by-value column, one for each form of values.
 *	  Internal to the room "vector".
 */
#ifndef HJG_VECTOR_FORM_H
#define HJG_VECTOR_FORM_H

#include <assert.h>

#include "vector/hjg_vector.h"

/* Forms of a column other than signed integers; the column's width is added. */
#define HJG_VECTOR_UINT 100
#define HJG_VECTOR_FLOAT 200
#define HJG_VECTOR_FORM(ordinal, width) \
	(((ordinal) == HJG_ORDINAL_INT ? 0 : (ordinal) == HJG_ORDINAL_UINT ? HJG_VECTOR_UINT : HJG_VECTOR_FLOAT) + (width))

/* Expand LOOP(type of a value, conversion to its ordinal, argument) for a column whose ordinals are of this kind. */
#define HJG_BY_FORM(ordinal, vector, LOOP, argument) \
	switch (HJG_VECTOR_FORM(ordinal, (vector)->column.attlen)) \
	{ \
		case 1: \
			LOOP(int8_t, (int64_t), argument); \
			break; \
		case 2: \
			LOOP(int16_t, (int64_t), argument); \
			break; \
		case 4: \
			LOOP(int32_t, (int64_t), argument); \
			break; \
		case 8: \
			LOOP(int64_t, (int64_t), argument); \
			break; \
		case HJG_VECTOR_UINT + 1: \
			LOOP(uint8_t, (int64_t), argument); \
			break; \
		case HJG_VECTOR_UINT + 4: \
			LOOP(uint32_t, (int64_t), argument); \
			break; \
		case HJG_VECTOR_UINT + 8: \
			LOOP(uint64_t, hjg_vector_ordinal_of_uint, argument); \
			break; \
		case HJG_VECTOR_FLOAT + 4: \
			LOOP(float, hjg_vector_ordinal_of_float, argument); \
			break; \
		case HJG_VECTOR_FLOAT + 8: \
			LOOP(double, hjg_vector_ordinal_of_float, argument); \
			break; \
		default: \
			assert(!"a width of the kind"); \
	}

#endif							/* HJG_VECTOR_FORM_H */
