/*
 * wild.c
 *	  A wild driver: a thread in the device process that writes where it may not.
 *
 * Preloaded into the device process (test/t/020_wild_driver.pl), it starts with that process's first
 * thread and so has its rights.  It writes to every mapping of the arena that it may write to, tries to
 * make the others writable, by mprotect and by mapping their descriptors anew, reports success on standard
 * error, and then scribbles over those too.
 *
 * Values are also of the plausible kind: neighbours of the old value, zeros, huge counts, two words
 * exchanged, the value at the same place of another job.  It writes in bursts; a seed determines the
 * contents and the frequency.
 *
 * Environment:
 *		HJG_WILD="SEED MODE LULL_MS UNTIL"	begins after LULL_MS, ends at UNTIL, in seconds since the Unix epoch.
 *			any			another of the other modes for each burst
 *			constant	anywhere
 *			control		the control blocks: doorbell, devices, health, counters
 *			jobs		jobs and their operations, first those in use
 *			table		the slab table
 *			slabs		the slabs of jobs, inputs and results
 *			keys		all inputs, repeatedly
 *			refusal		results until one has been refused, then all inputs and results
 *			trim		the links and states of slabs, while memory is returned
 *			results		results that an engine is writing, which is not always noticed for a GPU: not among "any"
 *			reading		results that a process is reading
 *			socket		bytes to the supervisor
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "layout/hjg_control.h"

#define MOST_MAPPINGS 4
#define MOST_DESCRIPTORS 64
#define LONGEST_BURST_MS 200
#define LONGEST_PAUSE_MS 400

/* ---- numbers ---- */

static hjg_u64 seed;

static hjg_u64
any_number(void)
{
	hjg_u64		z = seed += 0x9E3779B97F4A7C15ull;

	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
	z = (z ^ z >> 27) * 0x94D049BB133111EBull;
	return z ^ z >> 31;
}

static hjg_u64
below(hjg_u64 n)
{
	return any_number() % n;
}

static hjg_u64
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (hjg_u64) ts.tv_sec * 1000 + (hjg_u64) ts.tv_nsec / 1000000;
}

static void
sleep_ms(hjg_u64 ms)
{
	struct timespec ts = {(time_t) (ms / 1000), (long) (ms % 1000) * 1000000};

	nanosleep(&ts, NULL);
}

/* ---- writable memory ---- */

typedef struct Mapping
{
	ino_t		inode;
	char	   *base;
	size_t		bytes;
	bool		writable;
} Mapping;

static Mapping mappings[MOST_MAPPINGS];
static int	nmappings;
static int	supervisor = -1;	/* the socket */

static Mapping *
mapping_of(ino_t inode)
{
	for (int i = 0; i < nmappings; i++)
		if (mappings[i].inode == inode)
			return &mappings[i];
	if (nmappings == MOST_MAPPINGS)
		return NULL;
	mappings[nmappings] = (Mapping) {.inode = inode};
	return &mappings[nmappings++];
}

/* Find the process's mappings of the arena; those of one file are consecutive. */
static void
find_mappings(void)
{
	FILE	   *file = fopen("/proc/self/maps", "r");
	char		line[512];

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
	{
		unsigned long from;
		unsigned long to;
		unsigned long inode;
		char		rights[8];
		Mapping    *mapping;

		if (strstr(line, "memfd:hjoin_gpu") == NULL ||
			sscanf(line, "%lx-%lx %7s %*s %*s %lu", &from, &to, rights, &inode) != 4 || (mapping = mapping_of(inode)) == NULL)
			continue;
		if (mapping->base == NULL)
			mapping->base = (char *) from;
		mapping->bytes = (char *) to - mapping->base;
		mapping->writable = rights[1] == 'w';
		if (!mapping->writable && mprotect((char *) from, to - from, PROT_READ | PROT_WRITE) == 0)
		{
			fprintf(stderr, "wild: a mapping was made writable\n");
			mapping->writable = true;
		}
	}
	if (file != NULL)
		fclose(file);
}

/* Try to get more through the descriptors. */
static void
find_descriptors(void)
{
	for (int fd = 3; fd < MOST_DESCRIPTORS; fd++)
	{
		struct stat st;
		void	   *base;

		if (fstat(fd, &st) != 0)
			continue;
		if (S_ISSOCK(st.st_mode) && supervisor < 0)
			supervisor = fd;
		for (int i = 0; i < nmappings; i++)
		{
			if (mappings[i].inode != st.st_ino || mappings[i].writable)
				continue;
			base = mmap(NULL, (size_t) st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
			if (base == MAP_FAILED)
				continue;
			fprintf(stderr, "wild: descriptor %d was mapped for writing\n", fd);
			mappings[i] = (Mapping) {st.st_ino, base, (size_t) st.st_size, true};
		}
	}
}

static bool
may_write(const char *place)
{
	for (int i = 0; i < nmappings; i++)
		if (mappings[i].writable && place >= mappings[i].base && place < mappings[i].base + mappings[i].bytes)
			return true;
	return false;
}

/* ---- places ---- */

static HjgControl *control;
static HjgJobSlot *jobs;
static HjgSlab *slabs;
static char *inputs;
static HjgDeviceBlock *block;
static HjgJobReport *reports;
static hjg_u32 *holds;
static char *results;
static hjg_u32 nslabs;			/* of each half */

/* Find the memory behind a head of so many bytes. */
static char *
behind(char *base, size_t bytes)
{
	return base + (bytes + HJG_SLAB_BYTES - 1) / HJG_SLAB_BYTES * HJG_SLAB_BYTES;
}

static bool
find_layout(void)
{
	char	   *server = NULL;
	char	   *device = NULL;

	for (int i = 0; i < nmappings; i++)
		*(((HjgControl *) mappings[i].base)->magic == HJG_ARENA_MAGIC ? &server : &device) = mappings[i].base;
	if (server == NULL || device == NULL)
		return false;
	control = (HjgControl *) server;
	nslabs = control->nslabs;
	jobs = (HjgJobSlot *) (control + 1);
	slabs = (HjgSlab *) (jobs + HJG_MAX_JOBS);
	inputs = behind(server, (char *) (slabs + 2 * nslabs) - server);
	block = (HjgDeviceBlock *) device;
	reports = (HjgJobReport *) (block + 1);
	holds = (hjg_u32 *) (reports + HJG_MAX_JOBS);
	results = behind(device, (char *) (holds + 2 * nslabs) - device);
	return true;
}

static bool
job_is_used(hjg_u32 ix)
{
	return HJG_WORD_STATE(__atomic_load_n(&jobs[ix].word, __ATOMIC_RELAXED)) != HJG_JOB_FREE;
}

static hjg_u32
some_job(void)
{
	hjg_u32		ix = (hjg_u32) below(HJG_MAX_JOBS);

	for (hjg_u32 i = 0; i < HJG_MAX_JOBS; i++)
		if (job_is_used((ix + i) % HJG_MAX_JOBS))
			return (ix + i) % HJG_MAX_JOBS;
	return ix;
}

static HjgOpReport *
some_report(HjgJobReport *job)
{
	hjg_u32		b = (hjg_u32) below(HJG_MAX_BATCHES);

	if (below(4) == 0)
		return &job->build;
	for (hjg_u32 i = 0; i < HJG_MAX_BATCHES; i++)
	{
		HjgOpReport *report = &job->batches[(b + i) % HJG_MAX_BATCHES];

		if (HJG_WORD_STATE(__atomic_load_n(&report->word, __ATOMIC_RELAXED)) != HJG_OP_FREE)
			return report;
	}
	return &job->batches[b];
}

/* Find a slab; inputs come first. */
static char *
slab_at(hjg_u32 ix)
{
	return ix < nslabs ? inputs + (size_t) ix * HJG_SLAB_BYTES : results + (size_t) (ix - nslabs) * HJG_SLAB_BYTES;
}

static hjg_u32
some_slab(void)
{
	hjg_u32		ix = (hjg_u32) below(2 * nslabs);

	for (hjg_u32 i = 0; i < 2 * nslabs; i++)
		if (__atomic_load_n(&slabs[(ix + i) % (2 * nslabs)].owner, __ATOMIC_RELAXED) != 0)
			return (ix + i) % (2 * nslabs);
	return ix;
}

/* ---- writing ---- */

/* Scribble within an object whose neighbours of the same size are stride bytes apart; 0: it has none. */
static void
scribble(char *place, size_t bytes, size_t stride)
{
	/* the beginning is read most */
	const size_t offset = below(2) == 0 ? below(bytes) : below(bytes < 512 ? bytes : 512);
	hjg_u32    *word = (hjg_u32 *) (place + offset / 4 * 4);
	hjg_u64    *words = (hjg_u64 *) (place + offset / 8 * 8);
	char	   *other = (char *) word + (below(2) == 0 ? stride : -stride);

	if (!may_write(place) || !may_write(place + bytes - 1))
		return;
	switch (below(14))
	{
		case 0:
			*word = (hjg_u32) any_number();
			break;
		case 1:
			*words = any_number();
			break;
		case 2:
			*word += 1;
			break;
		case 3:
			*word -= 1;
			break;
		case 4:
			*word = 0;
			break;
		case 5:
			*words = 0;
			break;
		case 6:
			*words = ~0ull;
			break;
		case 7:
			*word ^= 1u << below(32);
			break;
		case 8:
			*words = *words >> 32 | *words << 32;
			break;
		case 9:
			*word = 1u << below(32);
			break;
		case 10:
			*words = 1ull << below(64);
			break;
		case 11:
			*words += 1ull << 32;	/* a generation */
			break;
		case 12:
			memset(words, below(2) == 0 ? '\a' : 0xC3, 8);	/* a text without an end, and not a text */
			break;
		case 13:
			if (may_write(other))
				*word = *(hjg_u32 *) other;
			break;
	}
}

static void
scribble_control(void)
{
	if (below(4) == 0)
		scribble((char *) control, sizeof(HjgControl), 0);
	else if (below(2) == 0)
		scribble((char *) block, offsetof(HjgDeviceBlock, devices), 0);
	else if (below(2) == 0)
		scribble((char *) &block->devices[below(HJG_MAX_DEVICES)], sizeof(HjgDeviceInfo), sizeof(HjgDeviceInfo));
	else
		scribble((char *) &block->health[below(3)], sizeof(HjgDeviceHealth), sizeof(HjgDeviceHealth));
}

static void
scribble_job(void)
{
	const hjg_u32 ix = some_job();

	if (below(5) == 0)
		scribble((char *) &jobs[ix], sizeof(HjgJobSlot), sizeof(HjgJobSlot));
	else if (below(3) == 0)
		scribble((char *) &reports[ix], sizeof(HjgJobReport), sizeof(HjgJobReport));
	else
		scribble((char *) some_report(&reports[ix]), sizeof(HjgOpReport), sizeof(HjgOpReport));
}

static void
scribble_table(void)
{
	const hjg_u32 ix = below(2) == 0 ? some_slab() : (hjg_u32) below(2 * nslabs);

	if (below(2) == 0)
		scribble((char *) &slabs[ix], sizeof(HjgSlab), sizeof(HjgSlab));
	else
		scribble((char *) &holds[ix], sizeof(holds[ix]), sizeof(holds[ix]));
}

static void
scribble_slab(hjg_u32 ix)
{
	scribble(slab_at(ix), (size_t) 64 << below(16), HJG_SLAB_BYTES);
}

/*
 * True if an engine is writing to the slab.  A change before the checksum is computed cannot be noticed:
 * that is left to MODE_RESULTS.
 */
static bool
is_written(hjg_u32 ix)
{
	const hjg_u64 job = (__atomic_load_n(&slabs[ix].owner, __ATOMIC_RELAXED) >> 32) - 1;

	if (ix < nslabs || job >= HJG_MAX_JOBS)
		return false;
	for (int b = 0; b < HJG_MAX_BATCHES; b++)
		if (HJG_WORD_STATE(__atomic_load_n(&reports[job].batches[b].word, __ATOMIC_RELAXED)) == HJG_OP_RUNNING)
			return true;
	return false;
}

/* Change every word, or every other one, of the slabs that jobs have, from first to last. */
static void
sweep_slabs(hjg_u32 first, hjg_u32 last)
{
	const hjg_u32 change = (hjg_u32) any_number() >> below(32);

	for (hjg_u32 ix = first; ix <= last; ix++)
	{
		hjg_u32    *words = (hjg_u32 *) slab_at(ix);

		if (slabs[ix].owner == 0 || is_written(ix) || !may_write((char *) words))
			continue;
		for (size_t i = 0; i < HJG_SLAB_BYTES / sizeof(*words); i += 1 + change % 3)
			words[i] ^= change;
	}
}

/* Scribble over the results of operations in this state. */
static void
scribble_results(HjgOpState state)
{
	for (hjg_u32 ix = 0; ix < HJG_MAX_JOBS; ix++)
		for (int b = 0; b < HJG_MAX_BATCHES && job_is_used(ix); b++)
		{
			const hjg_u32 ref = __atomic_load_n(&jobs[ix].batches[b].result_ref, __ATOMIC_RELAXED);

			if (HJG_WORD_STATE(__atomic_load_n(&reports[ix].batches[b].word, __ATOMIC_RELAXED)) == state && ref != 0 &&
				ref <= 2 * nslabs)
				scribble_slab(ref - 1);
		}
}

static void
scribble_links(void)
{
	for (hjg_u32 ix = 0; ix < 2 * nslabs; ix++)
	{
		holds[ix] = (hjg_u32) below(3);
		if (may_write((char *) &slabs[ix]))
			slabs[ix].next_ref = 0;
	}
}

static bool
is_trimming(void)
{
	for (hjg_u32 ix = 0; ix < 2 * nslabs; ix++)
		if (__atomic_load_n(&slabs[ix].trimming, __ATOMIC_RELAXED) != 0)
			return true;
	return false;
}

static hjg_u64
number_of_fallbacks(void)
{
	hjg_u64		sum = 0;

	for (int i = 0; i < HJG_CONTROL_FALLBACKS; i++)
		sum += __atomic_load_n(&control->fallbacks[i], __ATOMIC_RELAXED);
	return sum;
}

static void
write_to_supervisor(void)
{
	char		bytes[512];

	memset(bytes, (int) any_number(), sizeof(bytes));
	(void) !send(supervisor, bytes, 1 + below(sizeof(bytes)), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- timing ---- */

typedef enum Mode
{
	MODE_ANY, MODE_CONSTANT, MODE_CONTROL, MODE_JOBS, MODE_TABLE, MODE_SLABS, MODE_KEYS, MODE_REFUSAL, MODE_TRIM,
	MODE_READING, MODE_SOCKET, MODE_RESULTS, NMODES
} Mode;

static const char *const mode_names[NMODES] = {"any", "constant", "control", "jobs", "table", "slabs", "keys", "refusal", "trim",
	"reading", "socket", "results"};

static hjg_u64 fallbacks_seen;

/* Run one step of a burst. */
static void
run_wild(Mode mode)
{
	hjg_u32		slab_ix;

	switch (mode)
	{
		case MODE_CONTROL:
			scribble_control();
			break;
		case MODE_JOBS:
			scribble_job();
			break;
		case MODE_TABLE:
			scribble_table();
			break;
		case MODE_SLABS:
			slab_ix = some_slab();
			if (!is_written(slab_ix))
				scribble_slab(slab_ix);
			break;
		case MODE_KEYS:
			sweep_slabs(0, nslabs - 1);
			break;
		case MODE_REFUSAL:
			if (number_of_fallbacks() == fallbacks_seen)
				scribble_results(HJG_OP_READY);
			else
				sweep_slabs(0, 2 * nslabs - 1);
			break;
		case MODE_TRIM:
			if (is_trimming())
				scribble_links();
			break;
		case MODE_RESULTS:
			scribble_results(HJG_OP_RUNNING);
			break;
		case MODE_READING:
			scribble_results(HJG_OP_DRAINING);
			break;
		case MODE_SOCKET:
			write_to_supervisor();
			break;
		default:
			run_wild((Mode) (MODE_CONTROL + below(MODE_SLABS - MODE_CONTROL + 1)));
	}
}

static void *
wild_main(void *arg)
{
	char		name[16] = "";
	unsigned long long number = 0;
	unsigned long long until = 0;
	unsigned	lull_ms = 0;
	Mode		mode = MODE_ANY;

	find_mappings();
	if (sscanf(arg, "%llu %15s %u %llu", &number, name, &lull_ms, &until) != 4 || !find_layout())
		return NULL;
	while (mode < NMODES && strcmp(mode_names[mode], name) != 0)
		mode++;
	if (mode == NMODES)
		return NULL;
	seed = number + control->epoch;
	sleep_ms(lull_ms);
	find_descriptors();
	fprintf(stderr, "wild: begins, %s\n", name);
	while (time(NULL) < (time_t) until)
	{
		/* microseconds between two writes; the awaited states last a fraction of a millisecond */
		const hjg_u64 pause_us = below(3) == 0 ? 0 : 1u << below(14);
		const hjg_u64 end_ms = now_ms() + below(LONGEST_BURST_MS);
		const Mode	now = mode == MODE_ANY ? (Mode) (1 + below(MODE_RESULTS - 1)) : mode;

		fallbacks_seen = number_of_fallbacks();
		do
		{
			run_wild(now);
			if (pause_us > 0 && now != MODE_TRIM)
				usleep((useconds_t) pause_us);
		} while (now_ms() < end_ms);
		sleep_ms(now == MODE_TRIM ? 0 : below(LONGEST_PAUSE_MS));
	}
	return NULL;
}

/* Intercept the system's function: the arena is mapped before there are threads. */
int
pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start) (void *), void *arg)
{
	static int	nstarted;
	const char *how = getenv("HJG_WILD");
	int			(*create) (pthread_t *, const pthread_attr_t *, void *(*) (void *), void *);
	pthread_t	wild;

	*(void **) &create = dlsym(RTLD_NEXT, "pthread_create");
	if (how != NULL && __atomic_fetch_add(&nstarted, 1, __ATOMIC_SEQ_CST) == 0 && create(&wild, NULL, wild_main, (void *) how) == 0)
		pthread_detach(wild);
	return create(thread, attr, start, arg);
}
