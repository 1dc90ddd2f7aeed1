/*
 * fault_loop.c
 *	  Fails one call of the driver after the other.
 */
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hjg_fault_loop.h"

#define MOST_CALLS 5000
#define EXIT_WRONG 1			/* of a child: a wrong answer */
#define EXIT_DEVICE 4			/* as in device_health.c */

const HjgFaultKind hjg_fault_kinds[HJG_FAULT_KINDS] = {{2, "out of memory"}, {1, "a refusal"}, {700, "an address fault"}};

static void
run_child(HjgStub *stub, long n, int code, HjgFaultRun run, const void *arg, int pipe_end)
{
	const char *wrong = NULL;
	HjgStatus	status;
	char		mark;

	(void) !freopen("/dev/null", "w", stderr);
	stub->fail_code = code;
	stub->fail_at = stub->calls + n;
	status = run(arg, &wrong);
	mark = stub->calls >= stub->fail_at ? 'r' : 'n';
	if (status == HJG_OK && wrong == NULL && stub->broken != 0)
		wrong = "a broken context was not noticed";
	(void) !write(pipe_end, &mark, 1);
	if (wrong != NULL)
		printf("# call %ld, code %d: %s\n", n, code, wrong);
	fflush(stdout);
	_exit(wrong != NULL ? EXIT_WRONG : 0);
}

/*
 * Run a child whose call n fails; returns its exit code. *reached is false when the join ended before that
 * call.
 */
static int
fail_at(HjgStub *stub, long n, int code, HjgFaultRun run, const void *arg, bool *reached)
{
	int			pipes[2];
	int			status;
	char		mark = 0;
	pid_t		pid;

	if (pipe(pipes) != 0)
		return -1;
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		run_child(stub, n, code, run, arg, pipes[1]);
	close(pipes[1]);
	*reached = read(pipes[0], &mark, 1) != 1 || mark == 'r';
	close(pipes[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

long
hjg_fail_everywhere(HjgStub *stub, int code, HjgFaultRun run, const void *arg)
{
	bool		reached = true;
	long		n;

	for (n = 1; reached && n < MOST_CALLS; n++)
	{
		const int	rc = fail_at(stub, n, code, run, arg, &reached);

		if (rc != 0 && rc != EXIT_DEVICE)
		{
			printf("# call %ld: exit %d\n", n, rc);
			return -1;
		}
	}
	return n - 2;
}
