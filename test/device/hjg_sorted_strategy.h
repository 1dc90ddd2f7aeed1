/*
 * hjg_sorted_strategy.h
 *	  A resident join that shares no code with the strategies of a device.
 *
 * It takes all modes and any keys, and writes only pairs.  It must not be used if the device has its own
 * memory.
 */
#ifndef HJG_SORTED_STRATEGY_H
#define HJG_SORTED_STRATEGY_H

#include "device/hjg_cuda.h"

extern const HjgCudaStrategy hjg_sorted_strategy;

#endif							/* HJG_SORTED_STRATEGY_H */
