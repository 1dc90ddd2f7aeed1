/*
 * device_opencl_probe.c
 *	  Searches OpenCL devices in a child, so that an ICD that crashes or hangs takes nothing with it;
 *	  see hjg_opencl.h.
 *
 * The child writes a report about each device as soon as it has the facts, and a final one after it has
 * built the programs and run the test kernel.  Every report gives it limit_ms more.  So when it dies or is
 * killed, the last report names the device at fault; the parent marks that device as failed and looks no
 * further.
 *
 * The child is this program again.  A program that does not know the option would search devices in a
 * child of its own, and so on without end.  So the child's environment marks it as a child, and a marked
 * process starts none.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/hjg_opencl.h"

/* ---- the child ---- */

static bool
send_report(const HjgClReport *report)
{
	const char *bytes = (const char *) report;
	size_t		sent = 0;

	while (sent < sizeof(*report))
	{
		ssize_t		n = write(STDOUT_FILENO, bytes + sent, sizeof(*report) - sent);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		sent += (size_t) n;
	}
	return true;
}

static int
send_nothing(const char *reason)
{
	HjgClReport report = {.nothing = 1, .final = 1};

	report.info.state = HJG_DEVICE_FAILED;
	snprintf(report.info.description, sizeof(report.info.description), "OpenCL");
	snprintf(report.info.reason, sizeof(report.info.reason), "%s", reason);
	return send_report(&report) ? 0 : 1;
}

static void *
plain_alloc(void *arg, size_t bytes)
{
	return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void
plain_free(void *arg, void *ptr, size_t bytes)
{
	free(ptr);
}

const HjgEnv hjg_cl_plain_env = {.alloc = plain_alloc, .free = plain_free};

#ifdef HJG_HAVE_OPENCL

#define TRIED_ROWS 65536

/* Check that in a join of TRIED_ROWS with themselves each row meets itself. */
static bool
pairs_are_right(const HjgPair *pairs, hjg_u64 npairs)
{
	bool		good = npairs == TRIED_ROWS;

	for (hjg_u32 i = 0; i < TRIED_ROWS && good; i++)
		good = pairs[i].probe_row == pairs[i].build_row && pairs[i].probe_row < TRIED_ROWS;
	return good;
}

/*
 * Try a join that only the device runs, with copies, without and with partitioning; for memory that is not
 * shared.
 */
static bool
try_join(HjgClDevice *device)
{
	HjgRunner  *runner = hjg_cl_runner_create(device, HJG_KEY_WIDTH_4, true);
	hjg_u32    *keys = malloc(TRIED_ROWS * sizeof(hjg_u32));
	HjgPair    *pairs = malloc(TRIED_ROWS * sizeof(HjgPair));
	bool		good = runner != NULL && keys != NULL && pairs != NULL;

	for (hjg_u32 i = 0; i < TRIED_ROWS && good; i++)
		keys[i] = i * 2654435761u;
	for (int partitioned = 0; partitioned < 2 && good; partitioned++)
	{
		const HjgSegment segment = {.keys = keys, .nrows = TRIED_ROWS};
		HjgResult	result = {.pages = &pairs, .npages = 1, .page_pairs = TRIED_ROWS};
		HjgCursor	cursor = {0};
		HjgCoupledConfig config;
		HjgCoupled *join;

		hjg_coupled_defaults(&config);
		config.strategy = partitioned ? HJG_COUPLED_PHJ_DD : HJG_COUPLED_SHJ_DD;
		config.pipeline = HJG_PIPELINE_E;
		for (int i = 0; i < HJG_STEP_COUNT; i++)
			config.fixed_ratios[i] = 0;
		good = hjg_coupled_build(&hjg_cl_plain_env, &config, runner, HJG_KEY_WIDTH_4, HJG_MATCH_ALL, &segment, 1, &join) == HJG_OK;
		if (!good)
			break;
		good = hjg_coupled_probe(join, &segment, 1, &cursor, &result) == HJG_OK && pairs_are_right(pairs, result.npairs);
		hjg_coupled_free(join);
	}
	hjg_cl_runner_destroy(runner);
	free(keys);
	free(pairs);
	return good;
}

/* Try everything that a join needs of the device; sets state and reason in report->info. */
static void
try_device(const HjgClApi *api, cl_device_id id, HjgClReport *report)
{
	HjgDeviceInfo *info = &report->info;
	HjgClDevice device;

	info->state = HJG_DEVICE_FAILED;
	if (!hjg_cl_open(api, id, 0, &device, info->reason, sizeof(info->reason)))
		return;
	if (hjg_cl_test(&device, info->reason, sizeof(info->reason)))
	{
		report->facts.sees_host = device.facts.sees_host;
		report->facts.build_ns = device.facts.build_ns;
		if (device.facts.sees_host || try_join(&device))
			info->state = HJG_DEVICE_READY;
		else
			snprintf(info->reason, sizeof(info->reason), "memory of its own, and a join on copies fails");
	}
	hjg_cl_close(&device);
}

int
hjg_cl_probe_main(void)
{
	char		reason[128];
	cl_platform_id platforms[16];
	cl_uint		nplatforms = 0;
	int			nfound = 0;
	cl_int		error;
	const HjgClApi *api = hjg_cl_api(reason, sizeof(reason));

	if (api == NULL)
		return send_nothing(reason);
	error = api->platform_ids(16, platforms, &nplatforms);
	if (error != CL_SUCCESS || nplatforms == 0)
		return send_nothing("no OpenCL platform is installed");
	for (cl_uint p = 0; p < nplatforms && p < 16; p++)
	{
		cl_device_id ids[HJG_MAX_DEVICES];
		cl_uint		n = 0;

		if (api->device_ids(platforms[p], CL_DEVICE_TYPE_ALL, HJG_MAX_DEVICES, ids, &n) != CL_SUCCESS)
			continue;
		for (cl_uint d = 0; d < n && d < HJG_MAX_DEVICES; d++, nfound++)
		{
			HjgClReport report = {.platform = p, .device = d};

			hjg_cl_facts(api, ids[d], &report.facts, &report.info);
			if (!send_report(&report))
				return 1;
			try_device(api, ids[d], &report);
			report.final = 1;
			if (!send_report(&report))
				return 1;
		}
	}
	return nfound > 0 ? 0 : send_nothing("no platform has a device");
}

#else							/* !HJG_HAVE_OPENCL */

int
hjg_cl_probe_main(void)
{
	return send_nothing("built without the OpenCL headers");
}

#endif							/* HJG_HAVE_OPENCL */

/* ---- the parent ---- */

/*
 * Copy this process's environment and add the mark of a child; NULL without memory.  Must be called before
 * fork.
 */
static char **
child_environment(void)
{
	static char mark[] = HJG_CL_PROBE_MARK "=1";
	size_t		n = 0;
	char	  **copy;

	while (environ[n] != NULL)
		n++;
	copy = malloc((n + 2) * sizeof(char *));
	if (copy == NULL)
		return NULL;
	copy[0] = mark;
	memcpy(copy + 1, environ, (n + 1) * sizeof(char *));
	return copy;
}

/* Execute the child between fork and exec: async-signal-safe calls only. */
static void
become_probe(int pipe_end, char *const *environment)
{
	static const struct rlimit no_core = {0, 0};
	char *const argv[] = {"hjoin_gpu_device", "--probe-opencl", NULL};
	int			null;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
		_exit(1);
	setrlimit(RLIMIT_CORE, &no_core);
	null = open("/dev/null", O_RDWR);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(pipe_end, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0)
		_exit(1);
	/* a child that hangs must not keep the arena and the socket open */
#ifdef SYS_close_range
	if (syscall(SYS_close_range, 3u, ~0u, 0) != 0)
#endif
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
	execve("/proc/self/exe", argv, environment);
	_exit(1);
}

/* Read a report: 1 for a whole one, 0 at the end of the pipe, -1 when the time is over. */
static int
read_report(int fd, HjgClReport *report, int limit_ms)
{
	char	   *bytes = (char *) report;
	size_t		got = 0;
	hjg_u64		until = hjg_now_ns() + (hjg_u64) limit_ms * 1000000;

	while (got < sizeof(*report))
	{
		struct pollfd pfd = {.fd = fd, .events = POLLIN};
		hjg_u64		now = hjg_now_ns();
		ssize_t		n;

		if (now >= until)
			return -1;
		if (poll(&pfd, 1, (int) ((until - now) / 1000000) + 1) <= 0)
			continue;
		n = read(fd, bytes + got, sizeof(*report) - got);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return 0;
		got += (size_t) n;
	}
	return 1;
}

/* Report that the search did not begin. */
static int
not_looked_for(HjgClReport *report, const char *reason)
{
	memset(report, 0, sizeof(*report));
	report->nothing = 1;
	report->final = 1;
	report->info.state = HJG_DEVICE_FAILED;
	snprintf(report->info.description, sizeof(report->info.description), "OpenCL");
	snprintf(report->info.reason, sizeof(report->info.reason), "could not be looked for: %s", reason);
	return 1;
}

static void
end_texts(HjgDeviceInfo *info)
{
	info->description[sizeof(info->description) - 1] = '\0';
	info->reason[sizeof(info->reason) - 1] = '\0';
}

int
hjg_cl_probe(HjgClReport *reports, int room, int limit_ms)
{
	HjgClReport report;
	char		death[96];
	int			fds[2];
	int			n = 0;
	int			got = 0;
	int			status = 0;
	bool		open_report = false;
	char	  **environment;
	pid_t		pid;

	if (room < 1)
		return 0;
	if (getenv(HJG_CL_PROBE_MARK) != NULL)
		return not_looked_for(&reports[0], "this is the child that looks for it");
	environment = child_environment();
	if (environment == NULL || pipe2(fds, O_CLOEXEC) != 0)
	{
		const int	error = errno;

		free(environment);
		return not_looked_for(&reports[0], strerror(error));
	}
	pid = fork();
	if (pid < 0)
	{
		const int	error = errno;

		close(fds[0]);
		close(fds[1]);
		free(environment);
		return not_looked_for(&reports[0], strerror(error));
	}
	if (pid == 0)
		become_probe(fds[1], environment);
	close(fds[1]);
	free(environment);
	while ((got = read_report(fds[0], &report, limit_ms)) > 0)
	{
		end_texts(&report.info);
		/* a final report replaces the report with the facts */
		if (open_report)
			reports[n - 1] = report;
		else if (n < room)
			reports[n++] = report;
		else
			break;
		open_report = !report.final;
	}
	close(fds[0]);
	if (got != 0)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (got < 0)
		snprintf(death, sizeof(death), "its driver did not answer within %d ms", limit_ms);
	else if (WIFSIGNALED(status))
		snprintf(death, sizeof(death), "its driver crashed (signal %d)", WTERMSIG(status));
	else
		snprintf(death, sizeof(death), "its driver ended the process (exit code %d)", WEXITSTATUS(status));
	if (n == 0)
	{
		memset(&reports[n], 0, sizeof(reports[n]));
		snprintf(reports[n].info.description, sizeof(reports[n].info.description), "OpenCL");
		reports[n++].nothing = 1;
		open_report = true;
	}
	if (open_report)
	{
		reports[n - 1].info.state = HJG_DEVICE_FAILED;
		snprintf(reports[n - 1].info.reason, sizeof(reports[n - 1].info.reason), "%s", death);
	}
	return n;
}
