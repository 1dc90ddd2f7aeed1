/*
 * huge_view.c
 *	  The aligned mapping of shared buffers, and the pages in it.
 *
 * The kernel makes another mapping of the same memory if a process asks it to move zero bytes of a shared one (mremap(2)). Every
 * process makes its own when it first reads a page that is in a huge page. Nobody inherits it, so processes that outlive a crash of the
 * server keep nothing of its memory.
 */
#include "postgres.h"

#include <sys/mman.h>

#include "miscadmin.h"
#include "storage/buf_internals.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/pg_shmem.h"
#include "storage/shmem.h"

#include "base/hjg_base.h"
#include "huge/hjg_huge_ranges.h"

/* Bytes that a process reads or fills outside of huge pages before it wants a worker to look. */
#define WANTED_AFTER_BYTES (64 * 1024 * 1024)

HjgHugeSupport hjg_huge_support[HJG_HUGE_NAREAS];
uint32		hjg_huge_nranges[HJG_HUGE_NAREAS];
Size		hjg_huge_range_bytes;
HjgHugeShared *hjg_huge_shared;

static char *first_range;		/* of shared buffers, in the server's own mapping */
static char *view_base;			/* the same in this process's; NULL: not mapped yet */
static bool view_refused;
static char *kept_base;
static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

/* ---------- finding the ranges ---------- */

/* Read the size of the kernel's huge pages; 0 if it has none. */
static Size
read_huge_bytes(void)
{
	FILE	   *file = AllocateFile("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "r");
	unsigned long bytes = 0;

	if (file == NULL)
		return 0;
	if (fscanf(file, "%lu", &bytes) != 1)
		bytes = 0;
	FreeFile(file);
	return bytes;
}

/* Find the offset of an address in the file that it is mapped from; *reserved: that has huge pages already. Returns false if it cannot be told. */
static bool
find_file_offset(const char *address, Size *offset, bool *reserved)
{
	FILE	   *maps = AllocateFile("/proc/self/maps", "r");
	char		line[MAXPGPATH + 128];
	bool		found = false;

	*offset = 0;
	*reserved = huge_pages == HUGE_PAGES_ON;

	if (maps == NULL)
		return false;
	while (!found && fgets(line, sizeof(line), maps) != NULL)
	{
		unsigned long start;
		unsigned long end;
		unsigned long start_off;

		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &start_off) != 3 ||
			(uintptr_t) address < start || (uintptr_t) address >= end)
			continue;
		found = true;
		*offset = start_off + ((uintptr_t) address - start);
		/* the server may have got some with huge_pages = try */
		*reserved = *reserved || strstr(line, "/anon_hugepage") != NULL;
	}
	FreeFile(maps);
	return found;
}

/* Find out whether an area can be collapsed, if it has no huge pages and the kernel has some for it. */
static HjgHugeSupport
area_support(bool reserved, bool possible)
{
	return reserved ? HJG_HUGE_RESERVED : huge_pages == HUGE_PAGES_OFF ? HJG_HUGE_OFF : possible ? HJG_HUGE_POSSIBLE : HJG_HUGE_NONE;
}

/* Find the ranges that lie in the buffers altogether. */
static void
find_ranges(void)
{
	const Size	nbytes = (Size) NBuffers * BLCKSZ;
	Size		offset;
	bool		reserved;
	const bool	found = find_file_offset(BufferBlocks, &offset, &reserved);
	Size		skipped;

	hjg_huge_nranges[HJG_HUGE_BUFFERS] = 0;
	hjg_huge_support[HJG_HUGE_BUFFERS] = area_support(reserved, found && hjg_huge_range_bytes > 0);
	if (hjg_huge_support[HJG_HUGE_BUFFERS] != HJG_HUGE_POSSIBLE)
		return;
	skipped = TYPEALIGN(hjg_huge_range_bytes, offset) - offset;
	if (skipped >= nbytes)
		return;
	first_range = BufferBlocks + skipped;
	hjg_huge_nranges[HJG_HUGE_BUFFERS] = (nbytes - skipped) / hjg_huge_range_bytes;
}

static Size
shared_bytes(Size nranges)
{
	return add_size(offsetof(HjgHugeShared, huge), nranges);
}

static void
request_memory(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	hjg_huge_range_bytes = read_huge_bytes();
	if (hjg_huge_range_bytes > 0)
		RequestAddinShmemSpace(shared_bytes((Size) NBuffers * BLCKSZ / hjg_huge_range_bytes));
}

/* Children inherit what this finds. */
static void
make_shared(void)
{
	Size		nbytes;
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	hjg_huge_shared = NULL;
	find_ranges();
	if (hjg_huge_nranges[HJG_HUGE_BUFFERS] == 0)
		return;
	nbytes = shared_bytes(hjg_huge_nranges[HJG_HUGE_BUFFERS]);
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	hjg_huge_shared = ShmemInitStruct("hjoin_gpu huge pages", nbytes, &found);
	LWLockRelease(AddinShmemInitLock);
	if (found)
		return;
	memset(hjg_huge_shared, 0, nbytes);
	pg_atomic_init_u64(&hjg_huge_shared->next_start_ns, 0);
	pg_atomic_init_u32(&hjg_huge_shared->wanted, 0);
}

void
hjg_huge_init(void)
{
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_memory;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = make_shared;
}

void
hjg_huge_add_kept(char *base, Size bytes, bool has_huge_pages)
{
	kept_base = base;
	hjg_huge_support[HJG_HUGE_KEPT] = area_support(has_huge_pages, base != NULL && hjg_huge_range_bytes > 0);
	hjg_huge_nranges[HJG_HUGE_KEPT] = hjg_huge_support[HJG_HUGE_KEPT] == HJG_HUGE_POSSIBLE ? bytes / hjg_huge_range_bytes : 0;
}

bool
hjg_huge_are_reserved(void)
{
	return hjg_huge_support[HJG_HUGE_BUFFERS] == HJG_HUGE_RESERVED;
}

double
hjg_huge_share(HjgHugeArea area)
{
	if (hjg_huge_support[area] == HJG_HUGE_RESERVED)
		return 1;
	if (hjg_huge_shared == NULL || !hjg_huge_pages || hjg_huge_shared->nused[area] == 0)
		return 0;
	return Min((double) hjg_huge_shared->nhuge[area] / hjg_huge_shared->nused[area], 1.0);
}

/* ---------- this process's mapping ---------- */

/* Map the buffers' ranges once more at an aligned address; the rest of the address space that is reserved for that stays unused. */
static char *
map_again(void)
{
	const Size	bytes = hjg_huge_nranges[HJG_HUGE_BUFFERS] * hjg_huge_range_bytes;
	char	   *reserved = mmap(NULL, bytes + hjg_huge_range_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char	   *base = (char *) TYPEALIGN(hjg_huge_range_bytes, reserved);

	if (reserved == MAP_FAILED)
		return NULL;
	if (mremap(first_range, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, base) == MAP_FAILED)
	{
		munmap(reserved, bytes + hjg_huge_range_bytes);
		return NULL;
	}
	/* a core dump has the server's mapping */
	(void) madvise(base, bytes, MADV_DONTDUMP);
	(void) madvise(base, bytes, MADV_DONTFORK);
	return base;
}

static char *
buffers_view(void)
{
	if (view_base == NULL && !view_refused)
	{
		view_base = map_again();
		view_refused = view_base == NULL;
	}
	return view_base;
}

char *
hjg_huge_base(HjgHugeArea area)
{
	return area == HJG_HUGE_BUFFERS ? buffers_view() : kept_base;
}

/* Count bytes that are not in huge pages. */
static void
count_small(Size bytes)
{
	static Size nbytes = 0;

	nbytes += bytes;
	if (nbytes < WANTED_AFTER_BYTES)
		return;
	nbytes = 0;
	pg_atomic_write_u32(&hjg_huge_shared->wanted, 1);
}

Page
hjg_huge_page(Buffer buffer)
{
	const Page	page = BufferGetPage(buffer);
	Size		at;
	char	   *view;

	if (hjg_huge_shared == NULL || !hjg_huge_pages || BufferIsLocal(buffer) || page < first_range)
		return page;
	at = page - first_range;
	if (at + BLCKSZ > hjg_huge_nranges[HJG_HUGE_BUFFERS] * hjg_huge_range_bytes)
		return page;
	if (!hjg_huge_shared->huge[at / hjg_huge_range_bytes])
	{
		count_small(BLCKSZ);
		return page;
	}
	view = buffers_view();
	return view != NULL ? view + at : page;
}

void
hjg_huge_note_kept(Size bytes)
{
	if (hjg_huge_shared != NULL && hjg_huge_nranges[HJG_HUGE_KEPT] > 0)
		count_small(bytes);
}
