/*
 * device_kept.c
 *	  Maps the file of kept columns, which programs read.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "device/hjg_device.h"

bool
hjg_device_map_kept(int fd, HjgKeptFile *file)
{
	struct stat status;
	char	   *base;
	const int	seals = fcntl(fd, F_GET_SEALS);

	*file = (HjgKeptFile) {0};
	if (fstat(fd, &status) != 0)
		return false;
	/* a read behind the end of a file would end this process */
	if (!S_ISREG(status.st_mode) || status.st_size <= 0 || seals < 0 || (seals & F_SEAL_SHRINK) == 0)
	{
		errno = EINVAL;
		return false;
	}
	base = hjg_arena_map_file(fd, (size_t) status.st_size, PROT_READ);
	if (base == NULL)
		return false;
	*file = (HjgKeptFile) {.base = base, .nbytes = (hjg_u64) status.st_size};
	return true;
}
