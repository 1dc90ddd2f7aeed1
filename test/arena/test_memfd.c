/*
 * test_memfd.c
 *	  The memory of the arena cannot be executed, if the kernel supports that, and is in no core dump.
 */
#define _GNU_SOURCE

#include <fcntl.h>
#include <sys/mman.h>

#include "hjg_test.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#define SEAL_EXEC 0x0020

/* True unless "dd" is among the flags of the mapping that begins at the address. */
static bool
is_dumped(const void *address)
{
	FILE	   *smaps = fopen("/proc/self/smaps", "r");
	char		line[512];
	bool		here = false;
	bool		dumped = true;

	while (smaps != NULL && fgets(line, sizeof(line), smaps) != NULL)
	{
		unsigned long long begin;
		unsigned long long end;

		if (sscanf(line, "%llx-%llx ", &begin, &end) == 2)
			here = begin == (unsigned long long) (size_t) address;
		else if (here && strncmp(line, "VmFlags:", 8) == 0)
			dumped = strstr(line, " dd") == NULL;
	}
	if (smaps != NULL)
		fclose(smaps);
	return dumped;
}

int
main(void)
{
	const int	probe = memfd_create("probe", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
	HjgArena	arena;
	HjgArenaView other;
	const char *step = "";

	test_claim(hjg_arena_create(&arena, (size_t) 32 << 20, &step) == 0, "an arena is made");
	test_claim(probe < 0 || (fcntl(arena.server_fd, F_GET_SEALS) & fcntl(arena.device_fd, F_GET_SEALS) & SEAL_EXEC) != 0,
			   "its memory is sealed against becoming a program");
	test_claim(!is_dumped(arena.base) && !is_dumped(arena.view.device_base), "who makes it does not dump it");
	test_claim(hjg_view_attach(&other, arena.server_fd, arena.device_fd, &step) == 0 && !is_dumped(other.server_base) &&
			   !is_dumped(other.device_base), "nor does who attaches to it");
	hjg_view_detach(&other);
	hjg_arena_detach(&arena);
	return test_end();
}
