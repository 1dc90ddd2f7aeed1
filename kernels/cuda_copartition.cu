/*
 * cuda_copartition.cu
 *	  The join of co-partitions (hjg_cuda_copartition.h) that writes pairs.
 */
#include "hjg_cuda_copartition.h"

JOIN_PACKED_4(pairs, HJG_PAIRS)
JOIN_HALVED_4(pairs, HJG_PAIRS)
JOIN_PARTS_4(pairs, HJG_PAIRS)
JOIN_PARTS_8(pairs, HJG_PAIRS)
JOIN_PARTS_16(pairs, HJG_PAIRS)
