/*
 * hjg_engine.h
 *	  The join engines that run on host memory.
 *
 * Room "engine": pure C, no postgres.h, no knowledge of the arena's or the service's protocol.  The same
 * code runs in the device process on many threads, and in a backend on its own thread alone, as the
 * fallback that needs no driver and no other process.
 *
 * Life of a join:
 *		hjg_join_build()	the whole build side, once
 *		hjg_join_probe()	any number of rounds over any number of probe
 *							batches; one call at a time for each HjgJoin
 *		hjg_join_free()
 *
 * Ownership: inputs and output pages are the caller's and must stay valid during a call only (the join
 * copies what it keeps of the build side).  All memory comes from env->alloc and is freed by
 * hjg_join_free().  When poll() leaves the engine by a long jump, the caller's allocator must free the
 * memory; the engine then holds no lock and no other resource.
 */
#ifndef HJG_ENGINE_H
#define HJG_ENGINE_H

#include <stdbool.h>
#include <stddef.h>

#include "layout/hjg_job.h"
#include "layout/hjg_layout.h"
#include "layout/hjg_strategy.h"

typedef enum HjgStatus
{
	HJG_OK = 0,
	HJG_ERR_MEMORY,				/* env->alloc returned NULL */
	HJG_ERR_CANCELLED,			/* env->poll said so */
	HJG_ERR_INPUT,				/* a limit of hjg_layout.h was exceeded */
	HJG_ERR_DEVICE				/* the driver of a device refused; never from this room's engine */
} HjgStatus;

extern const char *hjg_status_text(HjgStatus status);

/*
 * A set of threads that run the pieces of one task.  NULL stands for the calling thread alone.  Several
 * joins may use one pool at the same time: their pieces are interleaved.
 */
typedef struct HjgPool HjgPool;

/* Start a pool; nthreads >= 1 includes the caller's thread.  NULL when threads cannot start. */
extern HjgPool *hjg_pool_create(int nthreads);
extern void hjg_pool_destroy(HjgPool *pool);
extern int	hjg_pool_nthreads(const HjgPool *pool);	/* 1 for NULL */

/*
 * Run fn(arg, piece, worker) for every piece in [0, npieces) on the pool's threads and the caller's;
 * returns when all have returned.  worker is in [0, hjg_pool_nthreads()); pieces of this call that run at
 * the same time have different workers.
 */
typedef void (*HjgPieceFn) (void *arg, int piece, int worker);
extern void hjg_pool_run(HjgPool *pool, int npieces, HjgPieceFn fn, void *arg);
/* Keep nhelpers more threads awake between the caller's runs; the negative number ends that. */
extern void hjg_pool_hold(HjgPool *pool, int nhelpers);

/* The memory of a finished table: it holds no addresses, and probing only reads it. */
typedef enum HjgTablePart
{
	HJG_TABLE_TUPLES,
	HJG_TABLE_LINES,
	HJG_TABLE_NPARTS
} HjgTablePart;

/* Services that the engine needs from its caller. */
typedef struct HjgEnv
{
	HjgPool    *pool;
	void	   *arg;			/* passed to the functions below */

	/*
	 * 64-byte aligned memory, not zeroed, or NULL.  Called only from the thread that called the engine,
	 * never from a piece.
	 */
	void	   *(*alloc) (void *arg, size_t bytes);
	void		(*free) (void *arg, void *ptr, size_t bytes);

	/*
	 * Allocates one of the two parts of the table that a build makes, for sharing; the engine never frees
	 * it.  NULL: alloc() is used.
	 */
	void	   *(*alloc_table) (void *arg, HjgTablePart part, size_t bytes);

	/*
	 * Called by every working thread about every millisecond or more often; true means stop with
	 * HJG_ERR_CANCELLED.  With pool == NULL it may leave by a long jump.  May be NULL.
	 */
	bool		(*poll) (void *arg);
} HjgEnv;

/*
 * keys[nrows * key_width]; build row numbers first_row, first_row + 1, ...  For the coupled engine keys
 * may be packed (hjg_pack.h), in all segments of a call or in none.
 */
typedef struct HjgSegment
{
	const void *keys;
	hjg_u32		nrows;
	hjg_u32		first_row;
	size_t		packed_bytes;	/* 0: not packed */
	const void *payload;		/* the rows' payload columns, for an engine that gathers them; or NULL */
} HjgSegment;

/* Pages of pairs that a round fills; page i holds page_pairs pairs. */
typedef struct HjgResult
{
	HjgPair   **pages;
	int			npages;
	hjg_u32		page_pairs;
	hjg_u64		npairs;			/* out: pages are filled from the first on */
	hjg_u32		gathered;		/* out: sides whose payload columns were gathered (hjg_page_payload_off()) */
	bool		sum;			/* compute the checksums (hjg_checksum.h), for pages that others can write */
	bool		summed;			/* out: the checksums were computed, before the pairs went to the pages */
	hjg_u64		checksum;		/* of the pairs */
	hjg_u64		payload_sum;	/* of the gathered columns: hjg_check_payload() */
} HjgResult;

typedef struct HjgJoin HjgJoin;

/* ---- engine_seed.c ---- */

/*
 * Draw hjg_hash_seed (hjg_hash.h) at random: once, before the process has a table.  False when the system
 * gives no random bytes.
 */
extern bool hjg_engine_draw_seed(void);

/* ---- engine_join.c ---- */

/*
 * Bound the bytes that hjg_join_build() and _probe() hold at one time, for keys of width bytes, a pool of up to
 * nthreads threads, probe batches of up to probe_rows rows, and up to 64 segments plus one for every 64 rows.
 */
extern size_t hjg_join_workspace_bytes(int width, int nthreads, hjg_u64 build_rows, hjg_u32 probe_rows);

/* Build a table; segments may come in any order and need not be contiguous in row numbers. */
extern HjgStatus hjg_join_build(const HjgEnv *env, const HjgJoinSpec *spec,
								const HjgSegment *segments, int nsegments, HjgJoin **join);

/*
 * Attach a join to the table of another join's build, whose nrows rows lie in these parts.  The parts must
 * not change while the join lives.  The spec must be the build's, except for the mode.
 */
extern HjgStatus hjg_join_attach(const HjgEnv *env, const HjgJoinSpec *spec, hjg_u64 nrows,
								 const void *const parts[HJG_TABLE_NPARTS], HjgJoin **join);

/*
 * Run one round over a probe batch given as segments (first_row starts at 0 and is contiguous and
 * ascending over the segments).  Fills result from *cursor on and advances *cursor; see HjgCursor for what
 * a round holds.  The result must have room for at least one pair, and for cursor->most; each round makes
 * progress.  A slice (cursor->most > 0) is allowed in mode ALL only.  On any error *cursor is unchanged
 * and the result is void.
 */
extern HjgStatus hjg_join_probe(HjgJoin *join, const HjgSegment *segments, int nsegments,
								HjgCursor *cursor, HjgResult *result);

/* Copy the statistics; their strategy is DIRECT or NOP. */
extern void hjg_join_stats(const HjgJoin *join, HjgJobStats *stats);
extern void hjg_join_free(HjgJoin *join);

#endif							/* HJG_ENGINE_H */
