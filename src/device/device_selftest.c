/*
 * device_selftest.c
 *	  hjoin_gpu_device --self-test: joins through the real protocol in an arena of its own, with threads
 *	  as clients.
 *
 * Each client joins keys whose matches can be counted without a join: build row i has the key i / copies,
 * and probe rows have ascending keys from 0 on, two rows each; some keys have no build row.  On a GPU each
 * of its strategies is tried in turn.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "device/hjg_cuda_join.h"

#define NCLIENTS 8
#define JOINS_A_CLIENT 15
#define TIMEOUT_NS 20000000000ull

typedef struct Client
{
	pthread_t	thread;
	int			number;
	int			failures;
} Client;

static HjgArena test_arena;
static HjgServe test_serve;		/* with the device process's view of the same arena */
static int	device_ix;
static bool on_gpu;				/* a GPU, whose strategies can be chosen */

/* Write the keys of one slab: its row i holds the number (start + i) / divisor. */
static hjg_u32
fill_slab(hjg_u64 owner, int key_width, hjg_u32 nrows, hjg_u32 start, hjg_u32 divisor)
{
	hjg_u32		slab_ix = hjg_slab_lease(&test_arena, owner, 1, HJG_SLAB_INPUT);
	char	   *keys = slab_ix == HJG_NO_SLAB ? NULL : hjg_arena_slab_at(&test_arena, slab_ix);

	if (keys == NULL)
		return HJG_NO_SLAB;
	for (hjg_u32 i = 0; i < nrows; i++)
	{
		hjg_u32		number = (start + i) / divisor;

		memcpy(keys + (size_t) i * key_width, &number, sizeof(number));
	}
	test_arena.slabs[slab_ix].dirty_bytes = nrows * key_width;
	return slab_ix;
}

/* Fill the chain of an operation with nrows rows. */
static bool
add_slab_rows(HjgOp *op, hjg_u64 owner, int key_width, hjg_u32 nrows, hjg_u32 divisor)
{
	hjg_u32		room = HJG_SLAB_BYTES / key_width;

	for (hjg_u32 row = 0; row < nrows; row += room)
	{
		hjg_u32		n = nrows - row < room ? nrows - row : room;
		hjg_u32		slab_ix = fill_slab(owner, key_width, n, row, divisor);

		if (slab_ix == HJG_NO_SLAB || !hjg_op_add_input(&test_arena, op, owner, slab_ix, n, row, false))
			return false;
	}
	return true;
}

static bool
wait_op_ready(const HjgOpReport *report)
{
	hjg_u64		until = hjg_now_ns() + TIMEOUT_NS;

	while (hjg_op_state(report) != HJG_OP_READY)
	{
		struct timespec ts = {0, 20000};

		if (hjg_now_ns() > until)
			return false;
		nanosleep(&ts, NULL);
	}
	return true;
}

/* Run all rounds of one batch; returns the number of pairs, or -1 with a message. */
static long long
probe_rounds(HjgOp *op, HjgOpReport *report, HjgExpected *expected, hjg_u32 job_ix, hjg_u32 generation)
{
	long long	npairs = 0;

	for (;;)
	{
		HjgReported reported;
		HjgCheck	check;

		op->cursor_in = expected->cursor;
		op->round = ++expected->round;
		hjg_op_move(report, generation, expected->round == 1 ? HJG_OP_FILLING : HJG_OP_DRAINING, HJG_OP_QUEUED);
		hjg_doorbell_ring(&test_arena.view, job_ix);
		if (!wait_op_ready(report))
		{
			printf("no answer\n");
			return -1;
		}
		hjg_op_move(report, generation, HJG_OP_READY, HJG_OP_DRAINING);
		hjg_check_copy(report, &reported);
		if (reported.status != HJG_OK)
		{
			printf("%s\n", hjg_status_text((HjgStatus) reported.status));
			return -1;
		}
		check = hjg_check_round(expected, &reported, NULL);
		if (check != HJG_CHECK_GOOD)
		{
			printf("%s\n", hjg_check_text(check));
			return -1;
		}
		npairs += (long long) reported.npairs;
		expected->cursor = reported.cursor;
		if (reported.cursor.row >= expected->probe_rows)
			return npairs;
	}
}

static long long
count_expected_pairs(HjgMatchMode mode, hjg_u32 build_rows, hjg_u32 probe_rows, hjg_u32 copies)
{
	long long	npairs = 0;

	for (hjg_u32 row = 0; row < probe_rows; row++)
	{
		hjg_u32		key = row / 2;
		hjg_u64		first = (hjg_u64) key * copies;
		hjg_u32		matches = first >= build_rows ? 0 : build_rows - first < copies ? build_rows - (hjg_u32) first : copies;

		switch (mode)
		{
			case HJG_MATCH_ALL:
				npairs += matches;
				break;
			case HJG_MATCH_LEFT:
				npairs += matches > 0 ? matches : 1;
				break;
			case HJG_MATCH_SEMI:
				npairs += matches > 0;
				break;
			case HJG_MATCH_ANTI:
				npairs += matches == 0;
				break;
			case HJG_MATCH_PROGRAM:
				break;
		}
	}
	return npairs;
}

static bool
one_join(int key_width, HjgMatchMode mode, int strategy, hjg_u32 build_rows, hjg_u32 probe_rows, hjg_u32 copies)
{
	HjgExpected expected = {.mode = mode, .probe_rows = probe_rows, .build_limit = build_rows};
	HjgPair    *page;
	HjgJobSlot *job;
	HjgJobReport *report;
	HjgOp	   *op;
	hjg_u64		owner;
	hjg_u32		job_ix;
	hjg_u32		generation;
	hjg_u32		slab_ix;
	int			participant;
	HjgStatus	fallback;
	long long	npairs = -1;
	long long	wanted = count_expected_pairs(mode, build_rows, probe_rows, copies);

	if (!hjg_slot_lease(&test_arena, (hjg_u32) build_rows, (hjg_u32) getpid(), 1, &job_ix, &generation))
		return false;
	job = hjg_slot_at(&test_arena, job_ix);
	report = hjg_slot_report(&test_arena, job);
	owner = hjg_slab_owner(job_ix, generation);
	job->spec = (HjgJoinSpec) {.key_width = (hjg_u32) key_width, .mode = mode, .strategy = (hjg_u32) strategy};
	job->device_ix = (hjg_u32) device_ix;
	participant = hjg_slot_join(job, (hjg_u32) getpid(), 0);

	op = &job->batches[0];
	hjg_op_move(&report->batches[0], generation, HJG_OP_FREE, HJG_OP_FILLING);
	op->input_ref = op->ninputs = 0;
	op->nrows = 0;
	slab_ix = hjg_slab_lease(&test_arena, owner, 1, HJG_SLAB_RESULT);
	if (add_slab_rows(&job->build, owner, key_width, build_rows, copies) &&
		add_slab_rows(op, owner, key_width, probe_rows, 2) && slab_ix != HJG_NO_SLAB)
	{
		page = hjg_arena_slab_at(&test_arena, slab_ix);
		test_arena.slabs[slab_ix].dirty_bytes = HJG_SLAB_BYTES;
		op->result_ref = slab_ix + 1;
		op->nresults = 1;
		expected.pages = &page;
		expected.npages = 1;
		expected.page_pairs = HJG_SLAB_BYTES / sizeof(HjgPair);
		hjg_op_move(&report->build, generation, HJG_OP_FILLING, HJG_OP_QUEUED);
		npairs = probe_rounds(op, &report->batches[0], &expected, job_ix, generation);
	}
	hjg_slot_leave(job, participant, (hjg_u32) getpid());
	fallback = (HjgStatus) report->stats.fallback;
	if (!hjg_slot_quiesce(&test_arena, job, generation))
		return false;
	hjg_slab_release_all(&test_arena, owner);
	hjg_slot_free(&test_arena, job, generation, HJG_JOB_SWEEPING);
	hjg_doorbell_ring(&test_arena.view, job_ix);
	if (fallback != HJG_OK)
	{
		printf("the cpu engine took over: %s\n", hjg_status_text(fallback));
		return false;
	}
	if (npairs != wanted)
		printf("%s, key width %d, mode %d, %u x %u rows, %u a key: %lld pairs instead of %lld\n", hjg_strategy_name(strategy),
			   key_width, mode, build_rows, probe_rows, copies, npairs, wanted);
	return npairs == wanted;
}

static void *
client_main(void *arg)
{
	Client	   *client = arg;
	static const int widths[] = {HJG_KEY_WIDTH_4, HJG_KEY_WIDTH_8, HJG_KEY_WIDTH_16};
	static const hjg_u32 sizes[] = {1, 1000, 70000, 300000};

	for (int i = 0; i < JOINS_A_CLIENT; i++)
	{
		const int	n = client->number * JOINS_A_CLIENT + i;
		const int	strategy = on_gpu ? HJG_CUDA_FIRST + n / 2 % (HJG_CUDA_LAST - HJG_CUDA_FIRST + 1) : HJG_CPU_AUTO;

		if (!one_join(widths[n % 3], (HjgMatchMode) (n % 4), strategy, sizes[n / 4 % 4], sizes[(n / 3 + 1) % 4],
					  n / 5 % 2 == 0 ? 1 : 3))
			client->failures++;
	}
	return NULL;
}

/* Find the number of a device by its name; -1, with a message, when it cannot be used. */
static int
find_tested_device(const char *name)
{
	const HjgDeviceInfo *devices = test_arena.view.block->devices;

	for (int i = 0; i < HJG_MAX_DEVICES; i++)
		if (devices[i].state == HJG_DEVICE_READY && strcmp(hjg_device_name(devices[i].id).text, name) == 0)
			return i;
	printf("self-test: there is no device \"%s\" that can be used; see --list\n", name);
	return -1;
}

int
hjg_device_self_test(int nthreads, const char *device)
{
	Client		clients[NCLIENTS];
	const char *step;
	HjgArenaUse use;
	int			sockets[2];
	int			failures = 0;
	int			readonly = -1;
	int			error = hjg_arena_create(&test_arena, (size_t) 256 << 20, &step);

	if (error == 0 && (readonly = hjg_arena_open_readonly(&test_arena)) < 0)
	{
		step = "/proc";
		error = errno;
	}
	if (error == 0)
		error = hjg_view_attach(&test_serve.view, readonly, test_arena.device_fd, &step);
	if (error != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0)
	{
		printf("self-test: %s: %s\n", error ? step : "socketpair", strerror(error));
		return 1;
	}
	test_serve.nthreads = nthreads;
	test_serve.socket = sockets[1];
	test_serve.epoch = test_arena.control->epoch;
	test_serve.list_all = true;
	if (!hjg_scheduler_start(&test_serve))
		return 1;
	device_ix = find_tested_device(device);
	if (device_ix < 0)
	{
		hjg_scheduler_stop();
		return 1;
	}
	on_gpu = test_arena.view.block->devices[device_ix].id.kind == HJG_KIND_CUDA;
	for (int i = 0; i < NCLIENTS; i++)
	{
		clients[i] = (Client) {.number = i};
		if (pthread_create(&clients[i].thread, NULL, client_main, &clients[i]) != 0)
			return 1;
	}
	for (int i = 0; i < NCLIENTS; i++)
	{
		pthread_join(clients[i].thread, NULL);
		failures += clients[i].failures;
	}
	hjg_arena_use(&test_arena, &use);
	if (use.leased_bytes != 0)
	{
		printf("%llu bytes of the arena are still leased\n", (unsigned long long) use.leased_bytes);
		failures++;
	}
	hjg_scheduler_stop();
	hjg_view_detach(&test_serve.view);
	close(readonly);
	hjg_arena_detach(&test_arena);
	printf("self-test: %d joins, %d failed\n", NCLIENTS * JOINS_A_CLIENT, failures);
	return failures > 0;
}
