/*
 * test_stage.c
 *	  Staging: each row is in one block of the partition of its key, with its number; a lack of memory
 *	  is reported.
 */
#include <pthread.h>

#include "hjg_test_engine.h"
#include "lab/hjg_stage.h"

#define BLOCK_ROWS 64
#define PIECE_ROWS 100

typedef struct Staged
{
	int			width;
	int			bits;
	hjg_u32		nrows;
	const hjg_u8 *keys;
	HjgStage   *stage;
	HjgStageMemory memory;
	pthread_mutex_t lock;
	hjg_u8	   *seen;			/* times that each row came */
	hjg_u32		nblocks;
	bool		wrong;
} Staged;

static void
take(void *arg, int part, HjgStageBlock block)
{
	Staged	   *staged = arg;
	const size_t width = (size_t) staged->width;
	const char *keys = hjg_stage_keys(&staged->memory, staged->width, BLOCK_ROWS, block.block);
	const hjg_u32 *numbers = hjg_stage_numbers(&staged->memory, staged->width, BLOCK_ROWS, block.block);

	pthread_mutex_lock(&staged->lock);
	staged->nblocks++;
	staged->wrong |= block.nrows == 0 || block.nrows > BLOCK_ROWS;
	for (hjg_u32 i = 0; i < block.nrows; i++)
	{
		if (numbers[i] >= staged->nrows || memcmp(keys + i * width, staged->keys + numbers[i] * width, width) != 0 ||
			hjg_stage_part(staged->width, staged->bits, keys + i * width) != part)
			staged->wrong = true;
		else
			staged->seen[numbers[i]]++;
	}
	pthread_mutex_unlock(&staged->lock);
}

static void
stage_piece(void *arg, int piece, int worker)
{
	Staged	   *staged = arg;
	const hjg_u32 row = (hjg_u32) piece * PIECE_ROWS;

	(void) hjg_stage_rows(staged->stage, worker, staged->keys + (size_t) row * (size_t) staged->width,
						  staged->nrows - row < PIECE_ROWS ? staged->nrows - row : PIECE_ROWS, row);
}

/* Stage nrows rows with at most nblocks blocks; false when they are too few. */
static bool
stage_all(Staged *staged, HjgPool *pool, const Case *c, int bits, hjg_u32 nblocks)
{
	bool		good;

	*staged = (Staged) {.width = c->width, .bits = bits, .nrows = c->probe.nrows, .keys = c->probe.keys};
	pthread_mutex_init(&staged->lock, NULL);
	staged->memory.base = aligned_alloc(64, hjg_stage_block_bytes(c->width, BLOCK_ROWS) * (nblocks + 1));
	staged->memory.nblocks = nblocks;
	staged->seen = calloc(staged->nrows + 1, 1);
	staged->stage = hjg_stage_create(c->width, bits, BLOCK_ROWS, hjg_pool_nthreads(pool), &staged->memory, take, staged);
	hjg_pool_run(pool, (int) ((staged->nrows + PIECE_ROWS - 1) / PIECE_ROWS), stage_piece, staged);
	good = hjg_stage_finish(staged->stage);
	for (hjg_u32 i = 0; i < staged->nrows && good; i++)
		staged->wrong |= staged->seen[i] != 1;
	hjg_stage_free(staged->stage);
	free(staged->memory.base);
	free(staged->seen);
	pthread_mutex_destroy(&staged->lock);
	return good;
}

void
test_stage(void)
{
	static const int widths[] = {4, 8, 16};
	static const KeyShape shapes[] = {KEYS_UNIFORM, KEYS_ONE_HOT_PROBE, KEYS_COLLIDING};
	HjgPool    *pool = hjg_pool_create(3);
	Staged		staged;

	for (int w = 0; w < 3; w++)
		for (int s = 0; s < 3; s++)
		{
			bool		good = true;

			for (int bits = 0; bits <= 5; bits += 5)
				for (hjg_u32 nrows = 0; nrows < 20000 && good; nrows = nrows * 7 + 1)
				{
					const hjg_u32 nblocks = hjg_stage_blocks(nrows, bits, BLOCK_ROWS, 3);
					Case		c;

					case_create(&c, test_seed + nrows, widths[w], HJG_MATCH_SEMI, shapes[s], 10, nrows);
					good = stage_all(&staged, pool, &c, bits, nblocks) && !staged.wrong && staged.nblocks <= nblocks;
					case_destroy(&c);
				}
			claim(good, "staging, %d-byte keys, %s: each row once, in a block of its partition", widths[w], key_shape_names[shapes[s]]);
		}
	{
		Case		c;

		case_create(&c, test_seed, 8, HJG_MATCH_SEMI, KEYS_UNIFORM, 10, 5000);
		claim(!stage_all(&staged, pool, &c, 3, 50) && !staged.wrong, "staging says when its memory is too small");
		case_destroy(&c);
	}
	hjg_pool_destroy(pool);
}
