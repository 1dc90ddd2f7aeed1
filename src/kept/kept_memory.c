/*
 * kept_memory.c
 *	  The memory of kept columns.
 *
 * It is one memory file that the postmaster makes and its children inherit at the same address: a head for kept_store.c, and an area
 * of core's dynamic memory (utils/dsa.h), which never grows beyond the file. The file has no name, a crash leaves nothing of it, and
 * a new one is made when the server restarts after a backend's crash.
 *
 * It has huge pages where the server's setting huge_pages allows that and enough of them are free when the server starts, or gets them as it
 * is filled (hjg_huge.h): a new process maps the columns that it reads page by page, which takes longer than reading them where pages
 * have 4 KB.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/pg_shmem.h"
#include "utils/memutils.h"

#include "arena/hjg_arena.h"
#include "huge/hjg_huge.h"
#include "kept/hjg_kept.h"
#include "kept/hjg_kept_memory.h"

/* Size of the file, at most, where the settings name none. */
#define MOST_DEFAULT_MB 4096

typedef struct MemoryFile
{
	Size		nbytes;			/* of the area, behind the head */
	pg_atomic_uint64 used_bytes;
} MemoryFile;

static int	file_size_mb;
static Size file_head_bytes;
static void (*file_set_head) (void *head, int tranche);
static int	file_descriptor = -1;
static bool file_is_huge;		/* it has huge pages */
static MemoryFile *file_base = NULL;
static dsa_area *attached_area = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

#define HEAD_OFF MAXALIGN(sizeof(MemoryFile))

static Size
area_off(void)
{
	return HEAD_OFF + MAXALIGN(file_head_bytes);
}

static void *
area_place(void)
{
	return (char *) file_base + area_off();
}

/* ---------- making it ---------- */

static void
drop_file(void)
{
	if (file_base == NULL)
		return;
	file_set_head(NULL, 0);
	hjg_huge_add_kept(NULL, 0, false);
	munmap(file_base, area_off() + file_base->nbytes);
	close(file_descriptor);
	ReleaseExternalFD();
	file_base = NULL;
}

/* Reserve the file's huge pages, which it keeps while it lives; false with an errno if there are too few. */
static bool
reserve_pages(Size file_bytes)
{
	void	   *mapped = mmap(NULL, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_descriptor, 0);

	return mapped != MAP_FAILED && munmap(mapped, file_bytes) == 0;
}

/* Choose the size when the settings name none. */
static int
default_size_mb(void)
{
	return (int) Min((Size) NBuffers * BLCKSZ / 4 / (1024 * 1024), MOST_DEFAULT_MB);
}

/* Map a file of this size, made with these flags; false with an errno. */
static bool
map_file(Size file_bytes, unsigned flags, const char **step)
{
	file_descriptor = hjg_arena_make_file("hjoin_gpu kept columns", file_bytes, flags, step);
	if (file_descriptor < 0)
		return false;
	*step = "mmap";
	if (flags == 0 || reserve_pages(file_bytes))
		file_base = (MemoryFile *) hjg_arena_map_file(file_descriptor, file_bytes, PROT_READ | PROT_WRITE);
	if (file_base == NULL)
	{
		const int	error = errno;

		close(file_descriptor);
		errno = error;
		return false;
	}
	ReserveExternalFD();
	file_base->nbytes = file_bytes - area_off();
	return true;
}

/* Map a file of huge pages, if the server may have them and there are enough. */
static bool
map_huge_file(Size nbytes)
{
#ifdef MFD_HUGETLB
	const char *step;
	Size		page;
	int			flags;

	if (huge_pages == HUGE_PAGES_OFF)
		return false;
	GetHugePageSize(&page, &flags);
	/* the size of a page is where mmap() has it */
	return flags != 0 && map_file(TYPEALIGN(page, area_off() + nbytes), MFD_HUGETLB | (flags & ~MAP_HUGETLB), &step);
#else
	return false;
#endif
}

static void
make_memory(void)
{
	const int	size_mb = file_size_mb < 0 ? default_size_mb() : file_size_mb;
	const char *step;
	dsa_area   *area;
	int			tranche;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	/* children inherit it */
	if (IsUnderPostmaster || !IsPostmasterEnvironment)
		return;
	drop_file();
	if (size_mb == 0)
		return;
	file_is_huge = map_huge_file((Size) size_mb * 1024 * 1024);
	if (!file_is_huge && !map_file(area_off() + (Size) size_mb * 1024 * 1024, 0, &step))
	{
		ereport(WARNING,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("could not make the memory for kept columns of hjoin_gpu: %m"),
				 errdetail("%s failed for %d MB.", step, size_mb),
				 errhint("The server works without it. Reduce hjoin_gpu.cache_size if it is too large for this system.")));
		return;
	}
	hjg_huge_add_kept((char *) file_base, area_off() + file_base->nbytes, file_is_huge);
	tranche = LWLockNewTrancheId();
	LWLockRegisterTranche(tranche, "hjoin_gpu_kept");
	pg_atomic_init_u64(&file_base->used_bytes, 0);
	file_set_head((char *) file_base + HEAD_OFF, tranche);
	area = dsa_create_in_place(area_place(), file_base->nbytes, tranche, NULL);
	dsa_set_size_limit(area, file_base->nbytes);
	dsa_pin(area);
	dsa_detach(area);
}

void
hjg_kept_memory_init(int size_mb, Size head_bytes, void (*set_head) (void *head, int tranche))
{
	file_size_mb = size_mb;
	file_head_bytes = head_bytes;
	file_set_head = set_head;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = make_memory;
}

/* ---------- using it ---------- */

/* Get the area, attached to by this process. */
static dsa_area *
get_area(void)
{
	if (attached_area == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		attached_area = dsa_attach_in_place(area_place(), NULL);
		on_shmem_exit(dsa_on_shmem_exit_release_in_place, PointerGetDatum(area_place()));
		MemoryContextSwitchTo(old);
	}
	return attached_area;
}

void
hjg_kept_memory_attach(void)
{
	(void) get_area();
}

void *
hjg_kept_address(dsa_pointer place)
{
	return dsa_get_address(get_area(), place);
}

uint64
hjg_kept_offset(const void *memory)
{
	return (const char *) memory - (const char *) file_base;
}

int
hjg_kept_open_readonly(void)
{
	char		path[64];

	if (file_base == NULL)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file_descriptor);
	return open(path, O_RDONLY | O_CLOEXEC);
}

void
hjg_kept_memory_state(uint64 *total, uint64 *used, bool *huge)
{
	*total = file_base != NULL ? file_base->nbytes : 0;
	*used = file_base != NULL ? pg_atomic_read_u64(&file_base->used_bytes) : 0;
	*huge = file_base != NULL && file_is_huge;
}

void
hjg_kept_free(dsa_pointer place, Size nbytes)
{
	dsa_free(get_area(), place);
	pg_atomic_fetch_sub_u64(&file_base->used_bytes, nbytes);
}

/* Have the system provide the memory now, as an access to memory that it does not have would end the process. */
static bool
provide_memory(const char *at, Size nbytes)
{
	const Size	page = sysconf(_SC_PAGESIZE);
	const Size	from = (at - (char *) file_base) / page * page;
	const Size	to = (at - (char *) file_base + nbytes + page - 1) / page * page;

	return hjg_arena_populate((char *) file_base + from, to - from, file_descriptor, from);
}

dsa_pointer
hjg_kept_memory_take(Size nbytes, bool *full)
{
	dsa_pointer place = dsa_allocate_extended(get_area(), nbytes, DSA_ALLOC_HUGE | DSA_ALLOC_NO_OOM);

	*full = !DsaPointerIsValid(place);
	if (*full)
		return InvalidDsaPointer;
	pg_atomic_fetch_add_u64(&file_base->used_bytes, nbytes);
	hjg_huge_note_kept(nbytes);
	if (provide_memory(hjg_kept_address(place), nbytes))
		return place;
	hjg_kept_free(place, nbytes);
	return InvalidDsaPointer;
}
