/*
 * arena_size.c
 *	  The default size of the arena: the lesser of 4 GB and a quarter of the memory that this server may
 *	  use.
 *
 * This memory is the machine's, or the least limit of this process's control group and the groups above
 * it.  Both versions of control groups are read at their usual mount points.  In a container the group's
 * path may not exist below the mount point, which then is the container's own group.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena/hjg_arena.h"

#define MOST_BYTES ((size_t) 4 << 30)
#define LEAST_BYTES ((size_t) 16 << 20)
#define PATH_ROOM 4096

/* Read the number at the start of a file, or after a word in it; 0 if there is none ("max"). */
static unsigned long long
read_number(const char *root, const char *file, const char *word)
{
	char		path[PATH_ROOM];
	char		line[256];
	unsigned long long number = 0;
	FILE	   *in;

	if (snprintf(path, sizeof(path), "%s%s", root, file) >= (int) sizeof(path) || (in = fopen(path, "r")) == NULL)
		return 0;
	while (number == 0 && fgets(line, sizeof(line), in) != NULL)
		if (strncmp(line, word, strlen(word)) == 0)
			number = strtoull(line + strlen(word), NULL, 10);
	fclose(in);
	return number;
}

/* Find the least limit of a group and the groups above it; cuts group short on the way. */
static unsigned long long
least_limit(const char *root, const char *mount, char *group, const char *file, unsigned long long least)
{
	for (;;)
	{
		char		path[PATH_ROOM];
		char	   *slash = strrchr(group, '/');
		unsigned long long limit;

		if (snprintf(path, sizeof(path), "%s%s/%s", mount, group, file) < (int) sizeof(path) &&
			(limit = read_number(root, path, "")) > 0 && limit < least)
			least = limit;
		if (slash == NULL)
			return least;
		*slash = '\0';
	}
}

/* True if the comma-separated list has the word. */
static bool
has_word(const char *list, const char *word)
{
	const size_t n = strlen(word);

	for (; *list != '\0'; list += strcspn(list, ","), list += *list == ',')
		if (strcspn(list, ",") == n && strncmp(list, word, n) == 0)
			return true;
	return false;
}

static unsigned long long
group_limit(const char *root, unsigned long long least)
{
	char		path[PATH_ROOM];
	char		line[PATH_ROOM];
	FILE	   *in;

	if (snprintf(path, sizeof(path), "%s/proc/self/cgroup", root) >= (int) sizeof(path) || (in = fopen(path, "r")) == NULL)
		return least;
	/* number:controllers:group; version 2 has no controllers */
	while (fgets(line, sizeof(line), in) != NULL)
	{
		char	   *controllers = strchr(line, ':');
		char	   *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');

		if (group == NULL)
			continue;
		*controllers++ = *group++ = '\0';
		group[strcspn(group, "\n")] = '\0';
		if (controllers[0] == '\0')
			least = least_limit(root, "/sys/fs/cgroup", group, "memory.max", least);
		else if (has_word(controllers, "memory"))
			least = least_limit(root, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes", least);
	}
	fclose(in);
	return least;
}

size_t
hjg_arena_default_bytes(const char *root)
{
	const unsigned long long machine = read_number(root, "/proc/meminfo", "MemTotal:") << 10;
	const unsigned long long share = group_limit(root, machine > 0 ? machine : ~0ull) / 4;

	if (share >= MOST_BYTES)
		return MOST_BYTES;
	return share < LEAST_BYTES ? LEAST_BYTES : (size_t) share;
}
