/*
 * job_support.c
 *	  Starts the program's scheduler for a test.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hjg_job_support.h"

bool
hjg_jobs_open(HjgServe *serve, HjgArena *arena, size_t slab_bytes)
{
	const char *step;
	int			sockets[2];

	if (hjg_arena_create(arena, slab_bytes, &step) != 0 ||
		hjg_view_attach(&serve->view, hjg_arena_open_readonly(arena), arena->device_fd, &step) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0)
		return false;
	serve->socket = sockets[1];
	serve->epoch = arena->control->epoch;
	serve->nthreads = 2;
	serve->list_all = true;
	return true;
}

int
hjg_jobs_start(HjgServe *serve)
{
	const HjgDeviceInfo *devices = serve->view.block->devices;

	if (!hjg_scheduler_start(serve))
		return -1;
	for (int i = 0; i < HJG_MAX_DEVICES; i++)
		if (devices[i].id.kind == HJG_KIND_CUDA && devices[i].id.number == 0)
			return devices[i].state == HJG_DEVICE_READY ? i : -1;
	return -1;
}

bool
hjg_jobs_apart(HjgPlay play, const void *arg, void *outcome, size_t outcome_bytes, int *exit_code)
{
	int			ends[2];
	int			ended = 0;
	bool		told;
	pid_t		child;

	*exit_code = -1;
	memset(outcome, 0, outcome_bytes);
	if (pipe(ends) != 0)
		return false;
	fflush(stdout);
	child = fork();
	if (child == 0)
	{
		play(arg, outcome);
		_exit(write(ends[1], outcome, outcome_bytes) != (ssize_t) outcome_bytes);
	}
	close(ends[1]);
	told = child >= 0 && read(ends[0], outcome, outcome_bytes) == (ssize_t) outcome_bytes;
	close(ends[0]);
	if (!told)
		memset(outcome, 0, outcome_bytes);
	if (child >= 0 && waitpid(child, &ended, 0) == child && WIFEXITED(ended))
		*exit_code = WEXITSTATUS(ended);
	return told;
}
