/*
 * device_fault.c
 *	  Injected faults, set by the environment, in the program for tests (build/hjoin_gpu_device_faults).
 *
 * The installed program is built without HJG_FAULTS and reads no variable for faults.
 *
 * HJG_FAULT is a comma-separated list of what:phase[:argument].  The argument of a fault that happens once
 * is the number of the operation of that phase, from 1, in this process.  "slow" makes all operations slow;
 * its argument is a time.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device/hjg_device.h"

#ifdef HJG_FAULTS

#define MAX_FAULTS 16

typedef enum FaultKind
{
	FAULT_DIE,
	FAULT_EXIT,
	FAULT_HANG,
	FAULT_SLOW,
	FAULT_CORRUPT,
	FAULT_TRUNCATE,
	FAULT_LOSE,
	FAULT_COLUMNS
} FaultKind;

typedef struct Fault
{
	FaultKind	kind;
	HjgFaultPhase	phase;
	unsigned	argument;
} Fault;

static const char *const kind_names[] = {"die", "exit", "hang", "slow", "corrupt", "truncate", "lose", "columns"};
#define NKINDS ((int) (sizeof(kind_names) / sizeof(kind_names[0])))

static const char *const phase_names[HJG_FAULT_PHASE_COUNT] = {"start", "build", "probe", "result"};

static Fault faults[MAX_FAULTS];
static int	nfaults;
static unsigned fault_counts[HJG_FAULT_PHASE_COUNT];

static int
find_name(const char *const *names, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}

void
hjg_fault_help(void)
{
	printf("\nEnvironment, in this program for tests:\n"
		   "  HJG_FAULT       a comma-separated list of\n"
		   "                    die:PHASE:N       be killed in the Nth operation\n"
		   "                    exit:PHASE:N      exit with code 1\n"
		   "                    hang:PHASE:N      stop making progress\n"
		   "                    slow:PHASE:TIMEms take so long, each time\n"
		   "                    corrupt:result:N  change a pair of a result\n"
		   "                    truncate:result:N drop a pair of a result\n"
		   "                    columns:result:N  change a gathered column of a result\n"
		   "                  PHASE is start, build, probe or result.\n");
}

const char *
hjg_fault_variable(const char *name)
{
	return getenv(name);
}

bool
hjg_fault_open(void)
{
	const char *text = getenv("HJG_FAULT");
	char		copy[512];
	char	   *next;

	if (text == NULL || *text == '\0')
		return true;
	if (strlen(text) >= sizeof(copy))
		goto bad;
	strcpy(copy, text);
	for (char *item = strtok_r(copy, ",", &next); item != NULL; item = strtok_r(NULL, ",", &next))
	{
		char	   *part;
		char	   *kind = strtok_r(item, ":", &part);
		char	   *phase = strtok_r(NULL, ":", &part);
		char	   *argument = strtok_r(NULL, ":", &part);
		int			kind_ix = kind ? find_name(kind_names, NKINDS, kind) : -1;
		int			phase_ix = phase ? find_name(phase_names, HJG_FAULT_PHASE_COUNT, phase) : -1;
		char	   *end = NULL;
		long		value = argument ? strtol(argument, &end, 10) : 1;

		if (kind_ix < 0 || phase_ix < 0 || value < 0 || value > 1000000 || nfaults == MAX_FAULTS ||
			(end != NULL && *end != '\0' && strcmp(end, "ms") != 0))
			goto bad;
		faults[nfaults++] = (Fault) {(FaultKind) kind_ix, (HjgFaultPhase) phase_ix, (unsigned) value};
	}
	return true;

bad:
	fprintf(stderr, "hjoin_gpu_device: cannot understand HJG_FAULT \"%s\"\n", text);
	return false;
}

static void
sleep_ms(unsigned ms)
{
	struct timespec ts = {ms / 1000, (long) (ms % 1000) * 1000000};

	nanosleep(&ts, NULL);
}

HjgSpoil
hjg_fault_here(HjgFaultPhase phase, bool (*poll) (void *), void *arg)
{
	unsigned	count;

	if (nfaults == 0)
		return HJG_SPOIL_NOTHING;
	count = __atomic_add_fetch(&fault_counts[phase], 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < nfaults; i++)
	{
		const Fault *fault = &faults[i];

		if (fault->phase != phase || (fault->kind != FAULT_SLOW && fault->argument != count))
			continue;
		switch (fault->kind)
		{
			case FAULT_DIE:
				kill(getpid(), SIGKILL);
				break;
			case FAULT_EXIT:
				_exit(1);
			case FAULT_HANG:
				for (;;)
					sleep_ms(1000);
			case FAULT_SLOW:
				for (unsigned ms = 0; ms < fault->argument; ms++)
				{
					if (poll != NULL && poll(arg))
						break;
					sleep_ms(1);
				}
				break;
			case FAULT_CORRUPT:
				return HJG_SPOIL_CORRUPT;
			case FAULT_TRUNCATE:
				return HJG_SPOIL_TRUNCATE;
			case FAULT_LOSE:
				return HJG_SPOIL_LOSE;
			case FAULT_COLUMNS:
				return HJG_SPOIL_COLUMNS;
		}
	}
	return HJG_SPOIL_NOTHING;
}

#else							/* !HJG_FAULTS */

void
hjg_fault_help(void)
{
}

const char *
hjg_fault_variable(const char *name)
{
	return NULL;
}

bool
hjg_fault_open(void)
{
	return true;
}

HjgSpoil
hjg_fault_here(HjgFaultPhase phase, bool (*poll) (void *), void *arg)
{
	return HJG_SPOIL_NOTHING;
}

#endif							/* HJG_FAULTS */
