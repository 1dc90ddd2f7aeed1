/*
 * device_cpu_codes.c
 *	  Tests a column of a program by its codes, on a thread of the processor: 1 to 4 bytes a row, of which the compiler makes vector
 *	  instructions, where loading values takes 8.
 */
#include <string.h>

#include "device/hjg_cpu_program.h"

#define STEP static inline __attribute__((always_inline))

/* The codes of a column whose values are in a range: from low on, and span further ones. */
typedef struct CodeRange
{
	hjg_u64		low;
	hjg_u64		span;
} CodeRange;

/* Find the codes, of at most `most`, of the values in a range; false: there are none. */
STEP bool
find_codes_within(const HjgKColumn *column, hjg_u64 most, const HjgProgramStep *step, CodeRange *range)
{
	const hjg_u64 high = (hjg_u64) step->high - (hjg_u64) column->least;

	if (step->high < step->low || step->high < column->least)
		return false;
	range->low = step->low <= column->least ? 0 : (hjg_u64) step->low - (hjg_u64) column->least;
	range->span = (high < most ? high : most) - range->low;
	return range->low <= most;
}

#define DEFINE_TEST(type) \
	STEP void \
	test_##type(const HjgCpuRows *rows, const HjgKColumn *column, CodeRange range, hjg_u8 *passes) \
	{ \
		const type *codes = HJG_PROGRAM_AT(const type, column->codes); \
		const type	low = (type) range.low; \
		const type	span = (type) range.span; \
		if (rows->consecutive) \
		{ \
			codes += rows->numbers[0]; \
			for (hjg_u32 i = 0; i < rows->n; i++) \
				passes[i] = (type) (codes[i] - low) <= span; \
		} \
		else \
			for (hjg_u32 i = 0; i < rows->n; i++) \
				passes[i] = (type) (codes[rows->numbers[i]] - low) <= span; \
	} \
	STEP void \
	test_words_##type(const HjgCpuRows *rows, const HjgKColumn *column, hjg_u8 *passes) \
	{ \
		const type *codes = HJG_PROGRAM_AT(const type, column->codes); \
		const hjg_u32 *map = HJG_PROGRAM_AT(const hjg_u32, column->map); \
		for (hjg_u32 i = 0; i < rows->n; i++) \
		{ \
			const type	code = codes[rows->numbers[i]]; \
			passes[i] = code < column->nwords && map[code] != 0; \
		} \
	}

DEFINE_TEST(hjg_u8)
DEFINE_TEST(hjg_u16)
DEFINE_TEST(hjg_u32)

/* Test a column's values, of which none is NULL, by their codes: whether words have numbers that are not 0, or values are in a step's range. */
STEP void
test_codes(const HjgKColumn *column, const HjgProgramStep *step, const HjgCpuRows *rows, hjg_u8 *passes)
{
	CodeRange	range = {0};

	if (column->map == 0 && !find_codes_within(column, (1ull << 8 * column->width) - 1, step, &range))
		memset(passes, 0, HJG_CPU_ROWS);
	else if (column->width == 1)
	{
		if (column->map != 0)
			test_words_hjg_u8(rows, column, passes);
		else
			test_hjg_u8(rows, column, range, passes);
	}
	else if (column->width == 2)
	{
		if (column->map != 0)
			test_words_hjg_u16(rows, column, passes);
		else
			test_hjg_u16(rows, column, range, passes);
	}
	else
	{
		if (column->map != 0)
			test_words_hjg_u32(rows, column, passes);
		else
			test_hjg_u32(rows, column, range, passes);
	}
}

/* Choose the rows that pass; returns how many. */
STEP hjg_u32
choose_passing(HjgCpuRows *rows, hjg_u8 *passes)
{
	hjg_u32		n = 0;

	memset(passes + rows->n, 0, 8);
	for (hjg_u32 first = 0; first < rows->n; first += 8)
	{
		hjg_u64		eight;

		memcpy(&eight, passes + first, 8);
		for (hjg_u32 i = first; i < first + 8 && eight != 0; i++)
		{
			rows->chosen[n] = (hjg_u16) i;
			n += passes[i];
		}
	}
	return n;
}

STEP hjg_u32
choose_codes(const HjgKColumn *column, const HjgProgramStep *step, HjgCpuRows *rows)
{
	hjg_u8		passes[HJG_CPU_ROWS + 8];

	test_codes(column, step, rows, passes);
	return choose_passing(rows, passes);
}

static hjg_u32
choose_codes_plain(const HjgKColumn *column, const HjgProgramStep *step, HjgCpuRows *rows)
{
	return choose_codes(column, step, rows);
}

#ifdef HJG_CPU_WIDE
HJG_CPU_WIDE static hjg_u32
choose_codes_wide(const HjgKColumn *column, const HjgProgramStep *step, HjgCpuRows *rows)
{
	return choose_codes(column, step, rows);
}
#endif

hjg_u32
hjg_device_choose_codes(const HjgKColumn *column, const HjgProgramStep *step, HjgCpuRows *rows)
{
#ifdef HJG_CPU_WIDE
	if (__builtin_cpu_supports("avx2"))
		return choose_codes_wide(column, step, rows);
#endif
	return choose_codes_plain(column, step, rows);
}
