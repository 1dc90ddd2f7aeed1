/*
 * stub_nosy.c
 *	  A libOpenCL.so.1 that, as soon as it is loaded, tries things that no driver needs, and reports its
 *	  success in the cache directory: a line each, "name yes" or "name no".
 *
 * It is loaded by the child that searches devices, which is confined like its parent.
 */
#define _GNU_SOURCE

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static FILE *report;

static void
tell(const char *name, int holds)
{
	fprintf(report, "%s %s\n", name, holds ? "yes" : "no");
}

static int
may_open(const char *path, int flags)
{
	const int	fd = open(path, flags, 0600);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static int
may_list(const char *path)
{
	DIR		   *dir = opendir(path);

	if (dir != NULL)
		closedir(dir);
	return dir != NULL;
}

static pid_t
parent_of(pid_t pid)
{
	char		path[64];
	int			parent = 0;
	FILE	   *stat_file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
	stat_file = fopen(path, "r");
	if (stat_file == NULL || fscanf(stat_file, "%*d %*[^)]) %*c %d", &parent) != 1)
		parent = 0;
	if (stat_file != NULL)
		fclose(stat_file);
	return parent;
}

static int
runs(const char *program)
{
	const pid_t pid = fork();
	int			status = 0;

	if (pid == 0)
	{
		execl(program, program, (char *) NULL);
		_exit(127);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static void __attribute__((constructor))
look_around(void)
{
	const char *cache = getenv("POCL_CACHE_DIR");
	const struct sockaddr_un nowhere = {.sun_family = AF_UNIX, .sun_path = "/nonexistent"};
	struct iovec mine = {NULL, 1};
	struct iovec theirs = {NULL, 1};
	struct rlimit core;
	const pid_t supervisor = parent_of(getppid());
	char		path[4096];
	char		data[4096];
	struct stat st;
	mode_t		mask;

	if (cache == NULL || getenv("HJOIN_GPU_PROBE") == NULL)
		return;
	snprintf(path, sizeof(path), "%s/report.new", cache);
	report = fopen(path, "w");
	if (report == NULL)
		return;
	snprintf(data, sizeof(data), "%.*s", (int) (strrchr(cache, '/') - cache), cache);

	/* things that drivers need */
	tell("reads /proc/cpuinfo", may_open("/proc/cpuinfo", O_RDONLY));
	/* as CUDA does, with all these flags */
	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", (int) syscall(SYS_gettid));
	tell("names its threads", may_open(path, O_WRONLY | O_CREAT | O_TRUNC));
	tell("opens /dev/null", may_open("/dev/null", O_RDWR));
	tell("runs a program", runs("/bin/true"));
	snprintf(path, sizeof(path), "%s/directory", cache);
	(void) mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/directory/a", cache);
	tell("writes in the cache", may_open(path, O_WRONLY | O_CREAT));
	snprintf(data + strlen(data), 32, "/pgsql_tmp_hjoin_gpu/b");
	tell("renames in the cache", rename(path, data) == 0);
	*strstr(data, "/pgsql_tmp_hjoin_gpu") = '\0';

	/* files */
	snprintf(path, sizeof(path), "%s/PG_VERSION", data);
	tell("reads the data directory", may_open(path, O_RDONLY));
	tell("lists the data directory", may_list(data));
	snprintf(path, sizeof(path), "%s/nosy", data);
	tell("writes in the data directory", may_open(path, O_WRONLY | O_CREAT));
	tell("changes modes", stat(data, &st) == 0 && chmod(data, st.st_mode & 0777) == 0);
	snprintf(path, sizeof(path), "/tmp/hjg_nosy_%d", (int) getpid());
	tell("writes in /tmp", may_open(path, O_WRONLY | O_CREAT));
	(void) unlink(path);
	tell("lists /dev/shm", may_list("/dev/shm"));

	/* processes and networks */
	tell("signals the supervisor", kill(supervisor, 0) == 0);
	tell("signals all", kill(-supervisor, 0) == 0 || errno != EPERM);
	tell("asks for others' memory", process_vm_readv(supervisor, &mine, 1, &theirs, 1, 0) >= 0 || errno != EPERM);
	tell("has System V shared memory", shmget(IPC_PRIVATE, 4096, 0600) >= 0 || errno != EPERM);
	tell("has internet sockets", socket(AF_INET, SOCK_STREAM, 0) >= 0);
	tell("connects to local sockets",
		 connect(socket(AF_UNIX, SOCK_STREAM, 0), (const struct sockaddr *) &nowhere, sizeof(nowhere)) == 0 || errno != EPERM);
	tell("may gain privileges", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0);

	/* the initial state of the process */
	mask = umask(077);
	tell("makes files for others", mask != 077);
	tell("leaves core dumps", getrlimit(RLIMIT_CORE, &core) != 0 || core.rlim_max > 1);
	tell("works in the root directory", getcwd(path, sizeof(path)) != NULL && strcmp(path, "/") == 0);
	tell("knows PGPASSWORD", getenv("PGPASSWORD") != NULL);
	tell("knows PGDATA", getenv("PGDATA") != NULL);
	tell("knows CUDA_TEST", getenv("CUDA_TEST") != NULL);
	tell("has its home in the cache", getenv("HOME") != NULL && strcmp(getenv("HOME"), cache) == 0);
	tell("has temporary files in the cache", getenv("TMPDIR") != NULL && strcmp(getenv("TMPDIR"), cache) == 0);

	fprintf(report, "landlock %ld\n", (long) syscall(444, NULL, 0, 1));
	fclose(report);
	snprintf(path, sizeof(path), "%s/report.new", cache);
	snprintf(data + strlen(data), 32, "/pgsql_tmp_hjoin_gpu/report");
	(void) rename(path, data);
}
