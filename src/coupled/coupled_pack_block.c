/*
 * coupled_pack_block.c
 *	  The schemes, applied to the values of one block.
 */
#include <math.h>
#include <string.h>

#include "coupled/hjg_pack_internal.h"

void
hjg_pack_gather(int key_width, const void *keys, int column, hjg_u32 begin, hjg_u32 n, hjg_u64 *values)
{
	const hjg_u8 *from = (const hjg_u8 *) keys + (size_t) begin * (size_t) key_width + 8 * column;

	if (key_width == 4)
		for (hjg_u32 i = 0; i < n; i++)
		{
			hjg_u32		value;

			memcpy(&value, from + (size_t) i * 4, 4);
			values[i] = value;
		}
	else
		for (hjg_u32 i = 0; i < n; i++)
			memcpy(&values[i], from + (size_t) i * (size_t) key_width, 8);
}

/* Integers up to this size are exact in a double. */
#define MAX_SCALED 9007199254740992.0

bool
hjg_pack_scale(int width, hjg_u64 value, int digits, hjg_u64 *scaled)
{
	double		number;

	if (width == 4)
	{
		const hjg_u32 bits = (hjg_u32) value;
		float		narrow;

		memcpy(&narrow, &bits, 4);
		number = narrow;
	}
	else
		memcpy(&number, &value, 8);
	number = rint(number * pow(10, digits));
	/* also false for NaN */
	if (!(fabs(number) <= (width == 4 ? 2147483647.0 : MAX_SCALED)))
		return false;
	*scaled = (hjg_u64) (int64_t) number & hjg_pack_mask(width);
	return hjg_unpack_scaled(width, *scaled, digits) == value;
}

hjg_u32
hjg_pack_runs(hjg_u64 *values, hjg_u32 n, hjg_u64 *ends)
{
	hjg_u32		nruns = 0;

	for (hjg_u32 i = 0; i < n; i++)
	{
		if (nruns == 0 || values[nruns - 1] != values[i])
			values[nruns++] = values[i];
		ends[nruns - 1] = i + 1;
	}
	return nruns;
}

void
hjg_pack_delta(int width, hjg_u64 *values, hjg_u32 n, hjg_u64 *marks)
{
	const hjg_u64 mask = hjg_pack_mask(width);

	for (hjg_u32 i = n; i-- > 0;)
	{
		if (i % HJG_PACK_LANE_ROWS == 0)
		{
			marks[i / HJG_PACK_LANE_ROWS] = values[i];
			values[i] = 0;
		}
		else
			values[i] = (values[i] - values[i - 1]) & mask;
	}
}

hjg_u64
hjg_pack_frame(int width, hjg_u64 *values, hjg_u32 n, bool after_delta)
{
	/* flipping the first bit makes signed order unsigned; the order with the shorter range is taken */
	const hjg_u64 sign = (hjg_u64) 1 << (width * 8 - 1);
	const hjg_u64 mask = hjg_pack_mask(width);
	hjg_u64		least[2] = {~(hjg_u64) 0, ~(hjg_u64) 0};
	hjg_u64		most[2] = {0, 0};
	hjg_u64		base;

	for (hjg_u32 i = 0; i < n; i++)
		if (!after_delta || i % HJG_PACK_LANE_ROWS != 0)
			for (int s = 0; s < 2; s++)
			{
				const hjg_u64 value = s ? values[i] ^ sign : values[i];

				least[s] = value < least[s] ? value : least[s];
				most[s] = value > most[s] ? value : most[s];
			}
	if (least[0] > most[0])
		return 0;
	base = most[1] - least[1] < most[0] - least[0] ? least[1] ^ sign : least[0];
	for (hjg_u32 i = 0; i < n; i++)
		if (!after_delta || i % HJG_PACK_LANE_ROWS != 0)
			values[i] = (values[i] - base) & mask;
	return base;
}
