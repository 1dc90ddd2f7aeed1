/*
 * test_size.c
 *	  The default size of the arena: by the machine's memory and by limits of control groups, in trees
 *	  of files.
 */
#include <limits.h>
#include <sys/stat.h>

#include "hjg_test.h"

#define MB ((size_t) 1 << 20)
#define GB ((size_t) 1 << 30)

static char tree[64];
static int	ntrees;

/* Write a file of the current tree, with its directories. */
static void
put(const char *file, const char *text)
{
	char		path[PATH_MAX];
	FILE	   *out;

	snprintf(path, sizeof(path), "%s%s", tree, file);
	for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/'))
	{
		*slash = '\0';
		(void) mkdir(path, 0700);
		*slash = '/';
	}
	out = fopen(path, "w");
	if (out == NULL || fputs(text, out) < 0 || fclose(out) != 0)
		test_claim(false, path);
}

/* Begin another tree: a machine with this memory. */
static void
machine(const char *memory)
{
	snprintf(tree, sizeof(tree), "/tmp/hjg_size_%d_%d", (int) getpid(), ntrees++);
	put("/proc/meminfo", memory);
}

static void
expect(size_t bytes, const char *claim)
{
	char		command[128];

	test_claim(hjg_arena_default_bytes(tree) == bytes, claim);
	snprintf(command, sizeof(command), "rm -rf %s", tree);
	if (system(command) != 0)
		test_claim(false, command);
}

int
main(void)
{
	machine("MemTotal:       65536000 kB\nMemFree:        1 kB\n");
	expect(4 * GB, "a large machine: 4 GB");
	machine("MemTotal:       8388608 kB\n");
	expect(2 * GB, "a machine of 8 GB: a quarter");
	machine("MemTotal:       16384 kB\n");
	expect(16 * MB, "a tiny machine: what the smallest arena needs");
	machine("");
	expect(4 * GB, "a machine that does not say: 4 GB");

	machine("MemTotal:       65536000 kB\n");
	put("/proc/self/cgroup", "0::/system.slice/postgresql.service\n");
	put("/sys/fs/cgroup/system.slice/postgresql.service/memory.max", "max\n");
	put("/sys/fs/cgroup/system.slice/memory.max", "max\n");
	expect(4 * GB, "a group without a limit");
	machine("MemTotal:       65536000 kB\n");
	put("/proc/self/cgroup", "0::/system.slice/postgresql.service\n");
	put("/sys/fs/cgroup/system.slice/postgresql.service/memory.max", "1073741824\n");
	expect(256 * MB, "a limit of the group, version 2");
	machine("MemTotal:       65536000 kB\n");
	put("/proc/self/cgroup", "0::/a/b/c\n");
	put("/sys/fs/cgroup/a/b/c/memory.max", "8589934592\n");
	put("/sys/fs/cgroup/a/memory.max", "2147483648\n");
	expect(512 * MB, "a limit of a group above it");
	machine("MemTotal:       65536000 kB\n");
	put("/proc/self/cgroup", "0::/\n");
	put("/sys/fs/cgroup/memory.max", "2147483648\n");
	expect(512 * MB, "in a container: the group is the root of what it sees");

	machine("MemTotal:       65536000 kB\n");
	put("/proc/self/cgroup", "5:devices:/small\n4:cpu,memory:/docker/1234\n0::/\n");
	put("/sys/fs/cgroup/memory/docker/1234/memory.limit_in_bytes", "536870912\n");
	put("/sys/fs/cgroup/memory/small/memory.limit_in_bytes", "1048576\n");
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	expect(128 * MB, "a limit of the group, version 1");
	machine("MemTotal:       65536000 kB\n");
	put("/proc/self/cgroup", "4:memory:/docker/1234\n");
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
	expect(128 * MB, "in a container of version 1, whose path is that of the host");
	machine("MemTotal:       2097152 kB\n");
	put("/proc/self/cgroup", "4:memory:/\n");
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	expect(512 * MB, "no limit, version 1: the machine's memory");
	return test_end();
}
