/*
 * device_cuda_resident.c
 *	  Columns that stay in device memory between programs.
 *
 * Pieces.  Columns of segments are small, so those that a program brings are put together in pieces of some megabytes, each one
 * block of device memory with a grant of its own.  Programs find columns by their ids and pin the pieces; the piece that was
 * unused for longest is dropped as a whole when a job or a program needs its memory (hjg_cuda_pool_reclaim()).  Columns without
 * an id are in pieces of their own, which end with the program.
 *
 * Trust.  The file can change at any time, so a column is copied to private memory, the copy is compared with the checksum, and
 * goes to the device.  A column is found by id, size and checksum: whoever names another one's id gets that column or none.
 *
 * Pieces go through two pinned buffers, each with a stream, so that one is filled by the engine's threads while the other is on
 * its way.  A piece is found by other programs when all has arrived.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "device/hjg_cuda_program.h"
#include "layout/hjg_checksum.h"

#define PIECE_BYTES ((size_t) 8 << 20)
#define ALIGNMENT 128			/* of columns in a piece */
#define NBUCKETS 65536

size_t		hjg_cuda_resident_piece_bytes = PIECE_BYTES;

/* A column of a piece. */
typedef struct Resident
{
	struct Resident *next;		/* of the bucket */
	HjgCudaResidentPiece *piece;
	hjg_u64		id;
	hjg_u64		nbytes;
	hjg_u64		checksum;
	size_t		off;
} Resident;

struct HjgCudaResidentPiece
{
	HjgCudaResidentPiece *older;		/* of the kept pieces, by their last use */
	HjgCudaResidentPiece *newer;
	HjgCudaGrant grant;
	HjgCudaPtr	memory;
	hjg_u32		npins;			/* columns in use */
	bool		kept;			/* in the list */
	size_t		nresidents;		/* can be found when the piece is kept */
	Resident   *residents;
};

/* The pieces of a device. */
typedef struct Residence
{
	HjgCudaResidentPiece *oldest;
	HjgCudaResidentPiece *newest;
	Resident  **buckets;		/* NULL before the first one */
} Residence;

static pthread_mutex_t residence_lock = PTHREAD_MUTEX_INITIALIZER;
static Residence residences[HJG_CUDA_MAX_DEVICES];

static Residence *
residence_of(const HjgCudaDevice *device)
{
	return &residences[device->number];
}

/* ---- pieces; called with the lock ---- */

static void
unlink_piece(Residence *residence, HjgCudaResidentPiece *piece)
{
	*(piece->older != NULL ? &piece->older->newer : &residence->oldest) = piece->newer;
	*(piece->newer != NULL ? &piece->newer->older : &residence->newest) = piece->older;
}

static void
link_newest(Residence *residence, HjgCudaResidentPiece *piece)
{
	piece->newer = NULL;
	piece->older = residence->newest;
	*(piece->older != NULL ? &piece->older->newer : &residence->oldest) = piece;
	residence->newest = piece;
}

static Resident **
bucket_of(const Residence *residence, hjg_u64 id)
{
	return &residence->buckets[hjg_checksum_word(id) % NBUCKETS];
}

/* Free a piece that nobody uses. */
static void
free_piece(Residence *residence, HjgCudaResidentPiece *piece)
{
	for (size_t i = 0; piece->kept && i < piece->nresidents; i++)
	{
		Resident  **link = bucket_of(residence, piece->residents[i].id);

		while (*link != &piece->residents[i])
			link = &(*link)->next;
		*link = piece->residents[i].next;
	}
	if (piece->kept)
		unlink_piece(residence, piece);
	if (piece->memory != 0)
		hjg_cuda_block_give(piece->grant.pool, piece->memory);
	hjg_cuda_dismiss(&piece->grant);
	free(piece->residents);
	free(piece);
}

static Resident *
find_resident(const Residence *residence, const HjgProgramColumn *column)
{
	Resident   *resident = residence->buckets != NULL && column->id != 0 ? *bucket_of(residence, column->id) : NULL;

	while (resident != NULL &&
		   (resident->id != column->id || resident->nbytes != column->nbytes || resident->checksum != column->checksum))
		resident = resident->next;
	return resident;
}

/* Let other programs find a piece's columns, except for those that have come with another piece meanwhile. */
static void
keep_piece(Residence *residence, HjgCudaResidentPiece *piece)
{
	for (size_t i = 0; i < piece->nresidents;)
	{
		Resident   *resident = &piece->residents[i];
		const HjgProgramColumn column = {.id = resident->id, .nbytes = resident->nbytes, .checksum = resident->checksum};

		if (find_resident(residence, &column) != NULL)
		{
			*resident = piece->residents[--piece->nresidents];
			continue;
		}
		resident->next = *bucket_of(residence, resident->id);
		*bucket_of(residence, resident->id) = resident;
		i++;
	}
	link_newest(residence, piece);
	piece->kept = true;
}

/* ---- giving memory up ---- */

static bool
reclaim_pieces(void *arg, size_t bytes)
{
	Residence  *residence = arg;
	size_t		freed = 0;

	pthread_mutex_lock(&residence_lock);
	for (HjgCudaResidentPiece *piece = residence->oldest, *newer; piece != NULL && freed < bytes; piece = newer)
	{
		newer = piece->newer;
		if (piece->npins > 0)
			continue;
		freed += piece->grant.bytes;
		free_piece(residence, piece);
	}
	pthread_mutex_unlock(&residence_lock);
	return freed > 0;
}

size_t
hjg_cuda_resident_drop(HjgCudaDevice *device)
{
	Residence  *residence = residence_of(device);
	size_t		bytes = 0;

	(void) reclaim_pieces(residence, SIZE_MAX);
	pthread_mutex_lock(&residence_lock);
	for (const HjgCudaResidentPiece *piece = residence->oldest; piece != NULL; piece = piece->newer)
		bytes += piece->grant.bytes;
	pthread_mutex_unlock(&residence_lock);
	return bytes;
}

void
hjg_cuda_resident_release(HjgCudaDevice *device, HjgCudaColumn *columns, size_t ncolumns)
{
	Residence  *residence = residence_of(device);

	pthread_mutex_lock(&residence_lock);
	for (size_t i = 0; i < ncolumns; i++)
	{
		HjgCudaResidentPiece *piece = columns[i].piece;

		columns[i].piece = NULL;
		if (piece != NULL && --piece->npins == 0 && !piece->kept)
			free_piece(residence, piece);
	}
	pthread_mutex_unlock(&residence_lock);
}

/* Pin the columns that are on the device; returns the bytes of all columns, with those. */
static size_t
pin_residents(HjgCudaDevice *device, HjgCudaColumn *columns, size_t ncolumns)
{
	Residence  *residence = residence_of(device);
	size_t		bytes = 0;

	pthread_mutex_lock(&residence_lock);
	if (residence->buckets == NULL)
		residence->buckets = calloc(NBUCKETS, sizeof(Resident *));
	hjg_cuda_pool_reclaim(device->pool, reclaim_pieces, residence);
	for (size_t i = 0; i < ncolumns; i++)
	{
		Resident   *resident = find_resident(residence, columns[i].column);

		bytes += hjg_device_column_bytes(columns[i].column, columns[i].nrows);
		if (resident == NULL)
			continue;
		columns[i].piece = resident->piece;
		columns[i].at = resident->piece->memory + resident->off;
		resident->piece->npins++;
		unlink_piece(residence, resident->piece);
		link_newest(residence, resident->piece);
	}
	pthread_mutex_unlock(&residence_lock);
	return bytes;
}

/* ---- pinned buffers ---- */

#define NBUFFERS 2

/* Buffers of a program that brings columns; kept for the next one. */
typedef struct PinnedBuffers
{
	struct PinnedBuffers *next;
	size_t		bytes;			/* of each */
	void	   *memory[NBUFFERS];
} PinnedBuffers;

static PinnedBuffers *kept_buffers;	/* under the lock */

static void
free_buffers(PinnedBuffers *buffers)
{
	for (int i = 0; i < NBUFFERS; i++)
		if (buffers->memory[i] != NULL)
			(void) hjg_cuda.host_free(buffers->memory[i]);
	free(buffers);
}

static HjgStatus
take_buffers(HjgCudaStream *stream, PinnedBuffers **taken)
{
	PinnedBuffers    *buffers;
	HjgStatus	status = HJG_OK;

	pthread_mutex_lock(&residence_lock);
	buffers = kept_buffers;
	if (buffers != NULL)
		kept_buffers = buffers->next;
	pthread_mutex_unlock(&residence_lock);
	if (buffers != NULL && buffers->bytes != hjg_cuda_resident_piece_bytes)
	{
		free_buffers(buffers);
		buffers = NULL;
	}
	if (buffers == NULL)
	{
		buffers = calloc(1, sizeof(PinnedBuffers));
		if (buffers == NULL)
			return HJG_ERR_MEMORY;
		buffers->bytes = hjg_cuda_resident_piece_bytes;
		for (int i = 0; i < NBUFFERS && status == HJG_OK; i++)
			status = hjg_cuda_check(stream, hjg_cuda.host_alloc(&buffers->memory[i], buffers->bytes, HJG_CUDA_HOST_PORTABLE),
									"pinned memory");
	}
	if (status != HJG_OK)
	{
		free_buffers(buffers);
		return status;
	}
	*taken = buffers;
	return HJG_OK;
}

static void
give_buffers(PinnedBuffers *buffers)
{
	pthread_mutex_lock(&residence_lock);
	buffers->next = kept_buffers;
	kept_buffers = buffers;
	pthread_mutex_unlock(&residence_lock);
}

/* ---- bringing columns ---- */

/* Round up to the place of the next column of a piece. */
static size_t
room_of(const HjgCudaColumn *column)
{
	const size_t bytes = hjg_device_column_bytes(column->column, column->nrows);

	return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* The columns of a piece on their way: those of list. */
typedef struct Filling
{
	const HjgKeptFile *kept;
	HjgCudaColumn **list;
	size_t	   *offs;
	char	   *buffer;
	HjgStatus	status;			/* atomic */
} Filling;

/* Copy a column to the buffer, and check the copy. */
static void
fill_column(void *arg, int i, int worker)
{
	Filling    *filling = arg;
	const HjgProgramColumn *column = filling->list[i]->column;
	const size_t bytes = hjg_device_column_bytes(column, filling->list[i]->nrows);
	char	   *place = filling->buffer + filling->offs[i];
	/* memory behind the codes, the bytes of strings, counts for the checksum, but is not needed on the device */
	char	   *copy = column->nbytes > room_of(filling->list[i]) ? malloc(column->nbytes) : place;

	if (copy == NULL)
	{
		__atomic_store_n(&filling->status, HJG_ERR_MEMORY, __ATOMIC_RELAXED);
		return;
	}
	memcpy(copy, filling->kept->base + column->place, column->nbytes);
	if (hjg_checksum_column(copy, column->nbytes) != column->checksum)
		__atomic_store_n(&filling->status, HJG_ERR_INPUT, __ATOMIC_RELAXED);
	if (copy != place)
	{
		memcpy(place, copy, bytes);
		free(copy);
	}
}

/* Make a piece of columns, with memory of the device. */
static HjgStatus
make_piece(HjgCudaStream *stream, const HjgEnv *env, HjgCudaColumn **list, size_t *offs, size_t n, size_t bytes, HjgCudaResidentPiece **made)
{
	HjgCudaResidentPiece *piece = calloc(1, sizeof(HjgCudaResidentPiece));
	HjgStatus	status = HJG_ERR_MEMORY;

	if (piece != NULL)
		piece->residents = calloc(n, sizeof(Resident));
	if (piece != NULL && piece->residents != NULL)
		status = hjg_cuda_admit(stream->device->pool, hjg_cuda_block_bytes(bytes), env, HJG_CUDA_PROGRAM_WAIT_MS, &piece->grant);
	if (status == HJG_OK)
		status = hjg_cuda_check(stream, hjg_cuda_block_take(&piece->grant, bytes, &piece->memory), "device memory");
	if (status != HJG_OK)
	{
		if (piece != NULL)
		{
			hjg_cuda_dismiss(&piece->grant);
			free(piece->residents);
		}
		free(piece);
		return status;
	}
	for (size_t i = 0; i < n; i++)
	{
		const HjgProgramColumn *column = list[i]->column;

		list[i]->piece = piece;
		list[i]->at = piece->memory + offs[i];
		piece->npins++;
		if (column->id != 0)
			piece->residents[piece->nresidents++] = (Resident) {
				.piece = piece, .id = column->id, .nbytes = column->nbytes, .checksum = column->checksum, .off = offs[i]
			};
	}
	/* none of them can be found yet */
	*made = piece;
	return HJG_OK;
}

/*
 * Bring the columns of list, as many as fit a piece; returns how many.  They have ids, or have not, like the first one.
 */
static size_t
choose_columns(HjgCudaColumn **list, size_t *offs, size_t n, size_t *bytes)
{
	size_t		i;

	*bytes = 0;
	for (i = 0; i < n; i++)
	{
		const size_t room = room_of(list[i]);

		if (i > 0 && (*bytes + room > hjg_cuda_resident_piece_bytes || (list[i]->column->id == 0) != (list[0]->column->id == 0)))
			break;
		offs[i] = *bytes;
		*bytes += room;
	}
	return i;
}

/* Bring the columns of list, in pieces; pieces[] has room for as many. */
static HjgStatus
bring_list(HjgCudaStreams *streams, const HjgEnv *env, const HjgKeptFile *kept, PinnedBuffers *buffers, HjgCudaColumn **list, size_t *offs,
		   size_t n, HjgCudaResidentPiece **pieces, size_t *npieces)
{
	HjgCudaStream *const through[NBUFFERS] = {&streams->in, &streams->out[0]};
	HjgStatus	status = HJG_OK;

	for (size_t first = 0, taken; first < n && status == HJG_OK; first += taken)
	{
		HjgCudaStream *stream = through[*npieces % NBUFFERS];
		Filling		filling = {.kept = kept, .list = list + first, .offs = offs, .buffer = buffers->memory[*npieces % NBUFFERS]};
		size_t		bytes;

		taken = choose_columns(list + first, offs, n - first, &bytes);
		status = bytes <= buffers->bytes ? hjg_cuda_wait(stream) : HJG_ERR_MEMORY;
		if (status == HJG_OK)
			status = make_piece(stream, env, list + first, offs, taken, bytes, &pieces[*npieces]);
		if (status != HJG_OK)
			break;
		hjg_pool_run(taken > 1 ? env->pool : NULL, (int) taken, fill_column, &filling);
		status = filling.status;
		if (status == HJG_OK)
			status = hjg_cuda_mark(stream, HJG_CUDA_TRANSFER_IN);
		if (status == HJG_OK)
			status = hjg_cuda_copy_in(stream, pieces[*npieces]->memory, filling.buffer, bytes);
		++*npieces;
	}
	for (int i = 0; i < NBUFFERS; i++)
	{
		const HjgStatus waited = hjg_cuda_wait(through[i]);

		status = status == HJG_OK ? waited : status;
	}
	return status;
}

/* Bring the columns that are not on the device. */
static HjgStatus
bring_missing(HjgCudaStreams *streams, const HjgEnv *env, const HjgKeptFile *kept, HjgCudaColumn *columns, size_t ncolumns, size_t nmissing)
{
	HjgCudaColumn **list = malloc(nmissing * sizeof(HjgCudaColumn *));
	size_t	   *offs = malloc(nmissing * sizeof(size_t));
	HjgCudaResidentPiece **pieces = malloc(nmissing * sizeof(HjgCudaResidentPiece *));
	PinnedBuffers    *buffers = NULL;
	HjgStatus	status = HJG_ERR_MEMORY;
	size_t		npieces = 0;
	size_t		n = 0;

	if (list != NULL && offs != NULL && pieces != NULL)
	{
		for (size_t i = 0; i < ncolumns; i++)
			if (columns[i].piece == NULL)
				list[n++] = &columns[i];
		status = take_buffers(&streams->in, &buffers);
	}
	if (status == HJG_OK)
		status = bring_list(streams, env, kept, buffers, list, offs, n, pieces, &npieces);
	if (status == HJG_OK)
	{
		Residence  *residence = residence_of(streams->in.device);

		pthread_mutex_lock(&residence_lock);
		for (size_t i = 0; i < npieces && residence->buckets != NULL; i++)
			if (pieces[i]->nresidents > 0)
				keep_piece(residence, pieces[i]);
		pthread_mutex_unlock(&residence_lock);
	}
	if (buffers != NULL)
		give_buffers(buffers);
	free(list);
	free(offs);
	free(pieces);
	return status;
}

HjgStatus
hjg_cuda_resident_bring(HjgCudaStreams *streams, const HjgEnv *env, const HjgKeptFile *kept, HjgCudaColumn *columns, size_t ncolumns)
{
	HjgCudaDevice *device = streams->in.device;
	const size_t bytes = pin_residents(device, columns, ncolumns);
	size_t		nmissing = 0;
	HjgStatus	status = HJG_OK;

	for (size_t i = 0; i < ncolumns; i++)
		nmissing += columns[i].piece == NULL;
	/* a table that cannot fit drives no others out */
	if (bytes + streams->in.grant->bytes > hjg_cuda_pool_budget(device->pool))
		status = HJG_ERR_MEMORY;
	else if (nmissing > 0)
		status = bring_missing(streams, env, kept, columns, ncolumns, nmissing);
	if (status != HJG_OK)
		hjg_cuda_resident_release(device, columns, ncolumns);
	return status;
}
