/*
 * cuda_kinds.cu
 *	  The product's joins with the outputs of benchmarks (a checksum, or columns of keys and rows), and
 *	  with row numbers of 8 bytes beside keys of 8 bytes.
 */
#include "hjg_cuda_copartition.h"
#include "hjg_cuda_packed.h"
#include "hjg_cuda_scatter.h"
#include "hjg_cuda_table.h"

TABLE_PROBE_4(checksum, HJG_CHECKSUM)
TABLE_PROBE_4(columns, HJG_COLUMNS)
TABLE_PROBE_8(checksum, HJG_CHECKSUM)
TABLE_PROBE_16(checksum, HJG_CHECKSUM)
DIRECT_PROBE_4(checksum, HJG_CHECKSUM)
DIRECT_PROBE_4(columns, HJG_COLUMNS)
DIRECT_PROBE_8(checksum, HJG_CHECKSUM)
PACKED_PROBE_4(checksum, HJG_CHECKSUM)
PACKED_PROBE_4(columns, HJG_COLUMNS)

JOIN_PACKED_4(checksum, HJG_CHECKSUM)
JOIN_PACKED_4(columns, HJG_COLUMNS)
JOIN_HALVED_4(checksum, HJG_CHECKSUM)
JOIN_HALVED_4(columns, HJG_COLUMNS)
JOIN_PARTS_4(checksum, HJG_CHECKSUM)
JOIN_PARTS_4(columns, HJG_COLUMNS)
JOIN_PARTS_8(checksum, HJG_CHECKSUM)
JOIN_PARTS_8_8(pairs, HJG_PAIRS)
JOIN_PARTS_8_8(columns, HJG_COLUMNS)
JOIN_PARTS_8_8(checksum, HJG_CHECKSUM)
JOIN_PARTS_16(checksum, HJG_CHECKSUM)

SCATTER_KERNELS(8_8, 8, hjg_u64, 8)
