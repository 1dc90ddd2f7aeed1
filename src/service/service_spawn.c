/*
 * service_spawn.c
 *	  Starts the device process.
 *
 * It is a child of the supervisor, isolated from PostgreSQL. Between fork and exec only async-signal-safe calls are made;
 * signal mask and dispositions are reset; every descriptor but standard error, the arena's two, its end of the socket and that
 * of kept columns is closed; and the kernel kills it when the supervisor ends. Its environment has only variables that drivers are known to
 * read. It runs in the root directory, creates files for its owner only, and leaves no core dump, which would contain the
 * keys of all sessions. device_confine.c has what it gives up by itself.
 */
#include "postgres.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "miscadmin.h"

#include "base/hjg_base.h"
#include "service/hjg_service_private.h"

/* Descriptors of the device process after its standard streams; the server half and kept columns are read-only. */
enum
{
	SERVER_FD = 3, DEVICE_FD, SOCKET_FD, KEPT_FD, END_FD
};

/* See hjg_service_init(). */
static int	(*open_kept_columns) (void);

void
hjg_spawn_init(int (*open_kept) (void))
{
	open_kept_columns = open_kept;
}

/* The environment of the device process: these variables of the server, and a PATH. Names that end in * are prefixes. */
static const char *const passed_variables[] = {
	"LANG", "LC_*", "TZ", "LD_LIBRARY_PATH",
	"CUDA_*", "NVIDIA_*", "OCL_ICD_*", "OPENCL_*", "POCL_*", "HSA_*", "ROCR_*", "RUSTICL_*", "MESA_*", "ZE_*", "NEO*"
};
static char fixed_path[] = "PATH=/usr/local/bin:/usr/bin:/bin";

/* Get the program of the settings, or the one beside the server program. */
const char *
hjg_spawn_path(void)
{
	static char path[MAXPGPATH];
	char	   *slash;
	char	   *name;

	if (hjg_device_program != NULL && hjg_device_program[0] != '\0')
		return hjg_device_program;
	strlcpy(path, my_exec_path, sizeof(path));
	slash = strrchr(path, '/');
	name = slash == NULL ? path : slash + 1;
	snprintf(name, sizeof(path) - (name - path), "hjoin_gpu_device");
	return path;
}

static bool
is_passed(const char *variable)
{
	const size_t n = strcspn(variable, "=");

	for (int i = 0; i < lengthof(passed_variables); i++)
	{
		const size_t known = strlen(passed_variables[i]);

		if (passed_variables[i][known - 1] == '*' ? n >= known - 1 && memcmp(variable, passed_variables[i], known - 1) == 0 :
			n == known && memcmp(variable, passed_variables[i], n) == 0)
			return true;
	}
	return false;
}

/* Choose the device process's environment; the caller frees it. */
static char **
make_environment(void)
{
	extern char **environ;
	char	  **chosen;
	int			n = 0;

	for (char **variable = environ; *variable != NULL; variable++)
		n++;
	chosen = palloc((n + 2) * sizeof(char *));
	n = 0;
	chosen[n++] = fixed_path;
	for (char **variable = environ; *variable != NULL; variable++)
		if (is_passed(*variable))
			chosen[n++] = *variable;
	chosen[n] = NULL;
	return chosen;
}

static void
close_from(int first)
{
	struct rlimit limit;

#ifdef SYS_close_range
	if (syscall(SYS_close_range, (unsigned) first, ~0U, 0) == 0)
		return;
#endif
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > 65536)
		limit.rlim_cur = 65536;
	for (int fd = first; fd < (int) limit.rlim_cur; fd++)
		close(fd);
}

/* Turn the child into the device process, with these nfds descriptors from SERVER_FD on; does not return. */
static void
become_device(char **argv, char **environment, int *fds, int nfds, pid_t parent)
{
	/* the limit is 1 byte, because with 0 a program that /proc/sys/kernel/core_pattern pipes to would still get a dump */
	static const struct rlimit no_core = {1, 1};
	sigset_t	none;
	int			null;

	for (int sig = 1; sig < NSIG; sig++)
		if (sig != SIGKILL && sig != SIGSTOP)
			signal(sig, SIG_DFL);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
		_exit(126);
	setsid();
	umask(S_IRWXG | S_IRWXO);
	if (setrlimit(RLIMIT_CORE, &no_core) != 0 || chdir("/") != 0)
		_exit(126);

	/* move them out of the range of their final numbers */
	for (int i = 0; i < nfds; i++)
		fds[i] = fcntl(fds[i], F_DUPFD, 10);
	null = open("/dev/null", O_RDWR);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0)
		_exit(126);
	for (int i = 0; i < nfds; i++)
		if (fds[i] < 0 || dup2(fds[i], SERVER_FD + i) < 0)
			_exit(126);
	close_from(SERVER_FD + nfds);

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execve(argv[0], argv, environment);
	_exit(127);
}

/*
 * Start the device process; returns its PID and this end of the socket, or -1 and an errno, with the step that failed in
 * *step.
 */
pid_t
hjg_spawn_device(int *sock, const char **step, int *error)
{
	const char *path = hjg_spawn_path();
	char		server_arg[32];
	char		device_arg[32];
	char		socket_arg[32];
	char		epoch_arg[32];
	char		threads_arg[32];
	char		memory_arg[32];
	char		parent_arg[32];
	char		cache_arg[MAXPGPATH + 32];
	char		confine_arg[MAXPGPATH + 32];
	char		kept_arg[32];
	char	   *argv[12] = {unconstify(char *, path), server_arg, device_arg, socket_arg, epoch_arg, threads_arg, memory_arg, parent_arg, cache_arg};
	int			nargs = 9;
	char	  **environment;
	int			fds[END_FD - SERVER_FD];
	int			nfds = 0;
	int			sockets[2];
	sigset_t	all;
	sigset_t	saved;
	int			server_fd;
	int			kept_fd;
	pid_t		pid;

	*step = "start";
	if (access(path, X_OK) != 0)
	{
		*error = errno;
		return -1;
	}
	server_fd = hjg_arena_open_readonly(&hjg_arena_map);
	if (server_fd < 0)
	{
		*error = errno;
		*step = "open /proc/self/fd for";
		return -1;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
	{
		*error = errno;
		close(server_fd);
		return -1;
	}
	fcntl(sockets[0], F_SETFL, O_NONBLOCK);
	snprintf(server_arg, sizeof(server_arg), "--server-fd=%d", SERVER_FD);
	snprintf(device_arg, sizeof(device_arg), "--device-fd=%d", DEVICE_FD);
	snprintf(socket_arg, sizeof(socket_arg), "--socket-fd=%d", SOCKET_FD);
	snprintf(epoch_arg, sizeof(epoch_arg), "--epoch=%u", hjg_arena_map.control->epoch);
	snprintf(threads_arg, sizeof(threads_arg), "--threads=%d", hjg_cpu_threads);
	snprintf(memory_arg, sizeof(memory_arg), "--device-memory=%d", hjg_device_memory_mb);
	snprintf(parent_arg, sizeof(parent_arg), "--parent=%d", (int) MyProcPid);

	/* directory for code that drivers compile for the devices; */
	/* base backups skip this name, because some drivers' file names are too long for a backup */
	snprintf(cache_arg, sizeof(cache_arg), "--cache-dir=%s/pgsql_tmp_hjoin_gpu", DataDir);
	snprintf(confine_arg, sizeof(confine_arg), "--confine=%s", DataDir);
	if (hjg_confine_device)
		argv[nargs++] = confine_arg;
	fds[nfds++] = server_fd;
	fds[nfds++] = hjg_arena_map.device_fd;
	fds[nfds++] = sockets[1];
	kept_fd = open_kept_columns();
	if (kept_fd >= 0)
	{
		snprintf(kept_arg, sizeof(kept_arg), "--kept-fd=%d", KEPT_FD);
		argv[nargs++] = kept_arg;
		fds[nfds++] = kept_fd;
	}
	environment = make_environment();

	/* the child must not run the supervisor's handlers */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &saved);
	pid = fork();
	if (pid == 0)
		become_device(argv, environment, fds, nfds, MyProcPid);
	*error = errno;
	pfree(environment);
	sigprocmask(SIG_SETMASK, &saved, NULL);
	close(sockets[1]);
	close(server_fd);
	if (kept_fd >= 0)
		close(kept_fd);
	if (pid < 0)
	{
		close(sockets[0]);
		return -1;
	}
	*sock = sockets[0];
	return pid;
}

/*
 * Check the lock: a restarted supervisor is not the parent of an old device process, but that process holds a lock on the
 * device half until its last thread has ended.
 */
bool
hjg_spawn_none_alive(void)
{
	char		path[64];
	int			fd;
	bool		free;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", hjg_arena_map.device_fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return true;
	free = flock(fd, LOCK_EX | LOCK_NB) == 0;
	close(fd);
	return free;
}
