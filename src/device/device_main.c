/*
 * device_main.c
 *	  The program hjoin_gpu_device: options, and serving an arena.
 */
#define _GNU_SOURCE

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/hjg_cuda.h"
#include "device/hjg_device.h"
#include "device/hjg_opencl.h"

#define PROGRAM_VERSION "1.0"

/* Exit codes; the supervisor logs them. */
#define EXIT_USAGE 2
#define EXIT_ARENA 3

#define LOOK_MS 30000			/* between searches for new GPUs */

static void
print_usage(void)
{
	printf("hjoin_gpu_device joins rows for the PostgreSQL extension hjoin_gpu.\n\n"
		   "The server starts it by itself. On its own it is a tool:\n"
		   "  --list          list the devices found\n"
		   "  --self-test     run joins through the real protocol and check them\n"
		   "  --threads=N     threads of the cpu engine (default: one for each CPU)\n"
		   "  --cache-dir=DIR where drivers keep built programs, and their temporary files\n"
		   "  --device=NAME   device of the self-test (default: cpu)\n"
		   "  --device-memory=MB  memory of a GPU that joins may use (default: most of what is free)\n"
		   "  --help          show this help\n"
		   "  --version       show the version\n\n"
		   "Given by the server:\n"
		   "  --server-fd=N   descriptor of the shared memory that is read only\n"
		   "  --device-fd=N   descriptor of the shared memory that is written, too\n"
		   "  --confine=DIR   deny access to this data directory, and to all else that drivers do not need\n"
		   "  --kept-fd=N     descriptor of the memory of kept columns, if there is any\n"
		   "  --socket-fd=N   descriptor of the socket to the supervisor\n"
		   "  --epoch=N       number of this process in the life of the arena\n"
		   "  --parent=PID    exit at once unless this is the parent process\n");
	hjg_fault_help();
}

/*
 * Lock the device half until the last thread of this process is gone: no two processes serve one arena,
 * and a new supervisor can tell whether an old process still lives.  Without /proc there is no lock.
 */
static bool
lock_arena(int device_fd)
{
	char		path[64];
	int			fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", device_fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/* Make the system end this process before the server's when memory is short. */
static void
offer_to_oom_killer(void)
{
	int			fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void) !write(fd, "300", 3);
	close(fd);
}

/* Set the directory below which drivers and their compilers keep files, because they compile at run time. */
static void
set_cache_dir(const char *path)
{
	static const char *const variables[] = {"POCL_CACHE_DIR", "CUDA_CACHE_PATH", "XDG_CACHE_HOME", "HOME", "TMPDIR"};

	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return;
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		setenv(variables[i], path, 1);
}

/*
 * Remove the temporary files that PoCL leaves when its process does not exit normally, which this one
 * never does.
 */
static void
clear_cache_dir(const char *path)
{
	DIR		   *dir = opendir(path);
	struct dirent *entry;

	if (dir == NULL)
		return;
	while ((entry = readdir(dir)) != NULL)
		if (strncmp(entry->d_name, "tempfile_", strlen("tempfile_")) == 0)
			(void) unlinkat(dirfd(dir), entry->d_name, 0);
	closedir(dir);
}

static int
serve_arena(int server_fd, int device_fd, HjgServe *serve, const char *data_dir, const char *cache_dir)
{
	struct pollfd fds[2];
	const char *step;
	sigset_t	mask;
	int			error;

	offer_to_oom_killer();
	hjg_fault_here(HJG_FAULT_PHASE_START, NULL, NULL);
	if (!lock_arena(device_fd))
	{
		fprintf(stderr, "hjoin_gpu_device: another process still serves this memory\n");
		return EXIT_ARENA;
	}
	error = hjg_view_attach(&serve->view, server_fd, device_fd, &step);
	if (error != 0)
	{
		fprintf(stderr, "hjoin_gpu_device: cannot use the shared memory: %s: %s\n", step,
				error == EINVAL ? "does not fit this program" : strerror(error));
		return EXIT_ARENA;
	}
	clear_cache_dir(cache_dir);
	if (data_dir != NULL)
		__atomic_store_n(&serve->view.block->confined, hjg_confine(data_dir, cache_dir), __ATOMIC_RELAXED);
	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	fds[0] = (struct pollfd) {.fd = serve->socket, .events = POLLIN};
	fds[1] = (struct pollfd) {.fd = signalfd(-1, &mask, SFD_CLOEXEC), .events = POLLIN};
	if (!hjg_scheduler_start(serve))
		return 1;

	for (;;)
	{
		char		bytes[64];
		ssize_t		n;
		const int	nready = poll(fds, 2, LOOK_MS);

		if (nready < 0 && errno != EINTR)
			return 1;
		if (nready == 0 && hjg_confine_outdated() && !hjg_slot_any_leased(&serve->view))
		{
			fprintf(stderr, "hjoin_gpu_device: a GPU has appeared; the next process may open it\n");
			_exit(0);
		}
		/* the joins of clients are lost anyway: do not wait for threads */
		if (fds[1].revents != 0)
		{
			hjg_health_excuse();
			_exit(0);
		}
		if (fds[0].revents == 0)
			continue;
		n = read(serve->socket, bytes, sizeof(bytes));
		if (n == 0 || (n < 0 && errno != EINTR))
			_exit(0);
	}
}

static int
parse_number(const char *text, int *value)
{
	char	   *end;
	long		number = strtol(text, &end, 10);

	if (*text == '\0' || *end != '\0' || number < 0 || number > 0x7FFFFFFF)
		return -1;
	*value = (int) number;
	return 0;
}

int
main(int argc, char **argv)
{
	enum
	{
		OPT_CACHE_DIR = 1, OPT_CONFINE, OPT_LIST, OPT_PROBE_OPENCL, OPT_SELF_TEST, OPT_THREADS, OPT_HELP, OPT_VERSION, OPT_KEPT, OPT_SERVER, OPT_DEVICE_HALF, OPT_SOCKET, OPT_EPOCH,
		OPT_PARENT, OPT_DEVICE, OPT_MEMORY
	};
	static const struct option options[] = {
		{"cache-dir", required_argument, NULL, OPT_CACHE_DIR},
		{"confine", required_argument, NULL, OPT_CONFINE},
		{"device", required_argument, NULL, OPT_DEVICE},
		{"device-fd", required_argument, NULL, OPT_DEVICE_HALF},
		{"device-memory", required_argument, NULL, OPT_MEMORY},
		{"epoch", required_argument, NULL, OPT_EPOCH},
		{"help", no_argument, NULL, OPT_HELP},
		{"kept-fd", required_argument, NULL, OPT_KEPT},
		{"list", no_argument, NULL, OPT_LIST},
		{"parent", required_argument, NULL, OPT_PARENT},
		{"probe-opencl", no_argument, NULL, OPT_PROBE_OPENCL},
		{"self-test", no_argument, NULL, OPT_SELF_TEST},
		{"server-fd", required_argument, NULL, OPT_SERVER},
		{"socket-fd", required_argument, NULL, OPT_SOCKET},
		{"threads", required_argument, NULL, OPT_THREADS},
		{"version", no_argument, NULL, OPT_VERSION},
		{NULL, 0, NULL, 0}
	};
	static HjgServe serve;
	int			server_fd = -1;
	int			device_fd = -1;
	int			kept_fd = -1;
	int			epoch = 0;
	int			parent = 0;
	int			memory_mb = 0;
	const char *device = "cpu";
	const char *data_dir = NULL;
	const char *cache_dir = "";
	int			action = 0;
	int			option;
	sigset_t	all;

	serve.socket = -1;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
	{
		int			bad = 0;

		switch (option)
		{
			case OPT_THREADS:
				bad = parse_number(optarg, &serve.nthreads);
				break;
			case OPT_SERVER:
				bad = parse_number(optarg, &server_fd);
				break;
			case OPT_DEVICE_HALF:
				bad = parse_number(optarg, &device_fd);
				break;
			case OPT_KEPT:
				bad = parse_number(optarg, &kept_fd);
				break;
			case OPT_SOCKET:
				bad = parse_number(optarg, &serve.socket);
				break;
			case OPT_EPOCH:
				bad = parse_number(optarg, &epoch);
				break;
			case OPT_DEVICE:
				device = optarg;
				break;
			case OPT_MEMORY:
				bad = parse_number(optarg, &memory_mb);
				break;
			case OPT_PARENT:
				bad = parse_number(optarg, &parent);
				break;
			case OPT_CACHE_DIR:
				cache_dir = optarg;
				set_cache_dir(optarg);
				break;
			case OPT_CONFINE:
				data_dir = optarg;
				break;
			case '?':
				return EXIT_USAGE;
			default:
				action = option;
		}
		if (bad)
		{
			fprintf(stderr, "hjoin_gpu_device: \"%s\" is not a number\n", optarg);
			return EXIT_USAGE;
		}
	}
	if (!hjg_fault_open())
		return EXIT_USAGE;
	hjg_cuda_set_budget((size_t) memory_mb << 20);

	/* before the first thread: drivers' threads inherit it too */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);

	switch (action)
	{
		case OPT_HELP:
			print_usage();
			return 0;
		case OPT_VERSION:
			printf("hjoin_gpu_device %s (layout %d)\n", PROGRAM_VERSION, HJG_LAYOUT_VERSION);
			return 0;
		case OPT_LIST:
			return hjg_device_list();
		case OPT_PROBE_OPENCL:
			return hjg_cl_probe_main();
		case OPT_SELF_TEST:
			return hjg_device_self_test(serve.nthreads, device);
	}
	if (server_fd < 0 || device_fd < 0 || serve.socket < 0)
	{
		print_usage();
		return EXIT_USAGE;
	}
	if (!hjg_engine_draw_seed())
		return 1;
	/* the parent may have died before this call */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || (parent != 0 && getppid() != parent))
		return 1;
	serve.epoch = (hjg_u32) epoch;
	if (kept_fd >= 0 && !hjg_device_map_kept(kept_fd, &serve.kept))
		fprintf(stderr, "hjoin_gpu_device: cannot use the memory of kept columns: %s\n", strerror(errno));
	return serve_arena(server_fd, device_fd, &serve, data_dir, cache_dir);
}
