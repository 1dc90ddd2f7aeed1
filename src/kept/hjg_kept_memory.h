/*
 * hjg_kept_memory.h
 *	  The memory file of kept columns (kept_memory.c), for kept_store.c and kept_evict.c.
 *	  Internal to the room "kept".
 */
#ifndef HJG_KEPT_MEMORY_H
#define HJG_KEPT_MEMORY_H

#include "postgres.h"

#include "utils/dsa.h"

/*
 * Make the file when the postmaster makes its shared memory; -1: of the default size; 0: there is none. set_head gets its first head_bytes, zeroed, with a
 * tranche for locks; or NULL when the file goes.
 */
extern void hjg_kept_memory_init(int size_mb, Size head_bytes, void (*set_head) (void *head, int tranche));
/* Attach this process to the memory; before its first use of a place. */
extern void hjg_kept_memory_attach(void);
/* Take memory; if there is none, InvalidDsaPointer: *full says whether freeing some would help, which it does not if the system refuses. */
extern dsa_pointer hjg_kept_memory_take(Size nbytes, bool *full);
/* Get the bytes of the memory, and of it those that are taken; is it in huge pages? 0 without a file. */
extern void hjg_kept_memory_state(uint64 *total, uint64 *used, bool *huge);

#endif							/* HJG_KEPT_MEMORY_H */
