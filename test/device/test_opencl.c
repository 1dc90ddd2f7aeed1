/*
 * test_opencl.c
 *	  The coupled engine's tests on an OpenCL device, PoCL as a rule; where there is
 *	  none they are skipped with the reason.  test_opencl [--short] [seed]
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "device/hjg_opencl.h"
#include "hjg_test_coupled.h"

/* Dispositions that were there before the first OpenCL call are there after it. */
static bool
signals_kept(const struct sigaction *before)
{
	for (int sig = 1; sig < NSIG; sig++)
	{
		struct sigaction now;

		if (sigaction(sig, NULL, &now) == 0 && now.sa_handler != before[sig].sa_handler)
			return false;
	}
	return true;
}

int
main(int argc, char **argv)
{
	static HjgDeviceInfo devices[HJG_MAX_DEVICES];
	static struct sigaction before[NSIG];
	HjgRunner  *runners[3] = {NULL, NULL, NULL};
	static const int widths[] = {4, 8, 16};
	const HjgDeviceInfo *device = NULL;
	char		reason[128] = "";
	int			cpu_threads;
	sigset_t	all;

	test_seed = (hjg_u64) time(NULL);
	for (int i = 1; i < argc; i++)
	{
		/* the program runs itself as the probing child */
		if (strcmp(argv[i], "--probe-opencl") == 0)
			return hjg_cl_probe_main();
		if (strcmp(argv[i], "--short") == 0)
			short_run = true;
		else
			test_seed = strtoull(argv[i], NULL, 0);
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	for (int sig = 1; sig < NSIG; sig++)
		sigaction(sig, NULL, &before[sig]);
	printf("# seed %llu%s\n", (unsigned long long) test_seed, short_run ? ", short run" : "");
	hjg_drivers_open(devices, true);
	for (int i = 0; i < HJG_MAX_DEVICES; i++)
		if (strncmp(devices[i].name, "opencl:", 7) == 0 && (device == NULL || devices[i].state == HJG_DEVICE_READY))
			device = &devices[i];
	claim(device != NULL, "OpenCL has a line in the list of devices, whatever is installed");
	if (device == NULL || device->state != HJG_DEVICE_READY)
		printf("# skipped: %s\n", device == NULL ? "" : device->reason);
	else
	{
		bool		good = true;

		printf("# %s: %s\n", device->name, device->description);
		for (int w = 0; w < 3; w++)
		{
			runners[w] = hjg_opencl_begin(atoi(device->name + 7), widths[w], &cpu_threads, reason, sizeof(reason));
			good = good && runners[w] != NULL;
			/* the tests' keys lie anywhere, and a CPU device takes them so */
			if (runners[w] != NULL)
				runners[w]->align_bytes = 1;
		}
		if (claim(good, "a device that is listed as ready can be opened%s%s", good ? "" : ": ", reason))
			test_coupled_on((const HjgRunner *const *) runners, device->name);
		claim(signals_kept(before), "signal handlers are what they were");
		for (int w = 0; w < 3; w++)
			if (runners[w] != NULL)
				hjg_opencl_end(runners[w]);
	}
	printf("1..%d\n", claims_passed + claims_failed);
	printf("# %d passed, %d failed\n", claims_passed, claims_failed);
	return claims_failed > 0;
}
