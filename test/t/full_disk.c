/*
 * full_disk.c
 *	  Emulates a full disk: preloaded into a server, it fails writes to files whose path contains the
 *	  text in the file of HJG_FULL_DISK.  The first write is cut short, as on a real disk.
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Count the bytes of n that may be written; -1: all. */
static ssize_t
room_of(int fd, size_t n)
{
	static int	last_short = -1;
	const char *switch_path = getenv("HJG_FULL_DISK");
	char		text[64] = "";
	char		link[64];
	char		path[PATH_MAX] = "";
	int			file;

	if (switch_path == NULL || (file = open(switch_path, O_RDONLY)) < 0)
		return -1;
	if (read(file, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(file);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (text[0] == '\0' || readlink(link, path, sizeof(path) - 1) < 0 || strstr(path, text) == NULL)
		return -1;
	if (n < 2 || last_short == fd)
		return 0;
	last_short = fd;
	return (ssize_t) (n / 2);
}

#define FULL(fd, n) \
	size_t		all = (n); \
	ssize_t		room = room_of((fd), all); \
	if (room == 0) \
	{ \
		errno = ENOSPC; \
		return -1; \
	} \
	if (room > 0) \
		all = (size_t) room

ssize_t
write(int fd, const void *bytes, size_t n)
{
	static ssize_t (*next) (int, const void *, size_t);

	if (next == NULL)
		next = dlsym(RTLD_NEXT, "write");
	FULL(fd, n);
	return next(fd, bytes, all);
}

ssize_t
pwrite(int fd, const void *bytes, size_t n, off_t off)
{
	static ssize_t (*next) (int, const void *, size_t, off_t);

	if (next == NULL)
		next = dlsym(RTLD_NEXT, "pwrite");
	FULL(fd, n);
	return next(fd, bytes, all, off);
}

ssize_t
pwrite64(int fd, const void *bytes, size_t n, off_t off)
{
	return pwrite(fd, bytes, n, off);
}
