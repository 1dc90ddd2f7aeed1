/*
 * lab_cuda_strategies.c
 *	  The csr table as a resident join, and the joins of the literature, by number and name.
 */
#include "lab/hjg_cuda_paper.h"

#define AT(id) [HJG_LAB_##id - HJG_CUDA_CSR]

static const HjgCudaStrategy *const strategies[] = {
	&hjg_cuda_csr,
	AT(NOP_CHAIN) = &hjg_cuda_nop_chain,
	AT(NOP_OPEN) = &hjg_cuda_nop_open,
	AT(SMJ) = &hjg_cuda_smj,
	AT(PTH) = &hjg_cuda_pth,
	AT(WSH) = &hjg_cuda_wsh,
	AT(BSH) = &hjg_cuda_bsh,
	AT(BSH_VT1) = &hjg_cuda_bsh_vt1,
	AT(BSH_HASH) = &hjg_cuda_bsh_hash,
	AT(BSH_HASH_COUNT) = &hjg_cuda_bsh_hash_count,
	AT(BSH_HASH_BLOCK) = &hjg_cuda_bsh_hash_block,
	AT(BSH_HASH_WARP) = &hjg_cuda_bsh_hash_warp,
	AT(BSH_HASH_EST) = &hjg_cuda_bsh_hash_est,
	AT(BSH_HASH_WORST) = &hjg_cuda_bsh_hash_worst,
	AT(BSH_QUEUE) = &hjg_cuda_bsh_queue,
	AT(PRBC) = &hjg_cuda_prbc,
	AT(PRBC_256) = &hjg_cuda_prbc_256,
	AT(PRBC_2048) = &hjg_cuda_prbc_2048,
	AT(PRBC_NESTED) = &hjg_cuda_prbc_nested,
	AT(UMJ) = &hjg_cuda_umj,
	AT(UMJ_PF) = &hjg_cuda_umj_pf,
	[HJG_LAB_LAST - HJG_CUDA_CSR + 1] = NULL
};

void
hjg_lab_strategies_open(void)
{
	hjg_cuda_further_strategies = strategies;
}
