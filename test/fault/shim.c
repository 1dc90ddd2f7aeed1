/*
 * shim.c
 *	  Faults of the system's calls in PostgreSQL's processes, for test/t/021_faults.pl.
 *
 * Preloaded into the server, it intercepts the calls below that come from hjoin_gpu.so, directly or
 * through the server program (temporary files, memory, latches).  It counts them by call and kind of
 * process, or makes one of them fail.  All processes map a file with its orders, which the test writes.
 *
 * Environment:
 *		HJG_SHIM=PATH	that file
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Names in the order of @calls in 021_faults.pl. */
#define CALLS(CALL) \
	CALL(malloc) CALL(calloc) CALL(realloc) CALL(aligned_alloc) CALL(open) CALL(read) CALL(pread) CALL(write) CALL(pwrite) \
	CALL(pwritev) CALL(posix_fallocate) CALL(fallocate) CALL(ftruncate) CALL(mmap) CALL(madvise) CALL(epoll_wait) CALL(fork) \
	CALL(waitpid) CALL(kill) CALL(fcntl) CALL(flock) CALL(send) CALL(recv) CALL(socketpair) CALL(shm_open) CALL(clock_gettime)

#define NUMBER(name) CALL_##name,
typedef enum Call
{
	CALLS(NUMBER) NCALLS
} Call;

typedef enum Kind
{
	KIND_BACKEND, KIND_WORKER, KIND_SUPERVISOR, NKINDS
} Kind;

typedef enum Mode
{
	MODE_OFF, MODE_COUNT, MODE_FAULT
} Mode;

typedef enum Action
{
	ACTION_FAIL,				/* argument: errno */
	ACTION_SHORT,				/* half of the request */
	ACTION_DELAY,				/* argument: milliseconds */
	ACTION_TERMINATE,			/* SIGTERM to the process itself */
	ACTION_JUMP					/* argument: seconds by which the wall clock goes wrong, from then on */
} Action;

/* Words of the file. */
typedef struct Plan
{
	uint32_t	mode;
	uint32_t	pid;			/* of the backend; for the other kinds, any */
	uint32_t	kind;
	uint32_t	call;
	uint32_t	nth;			/* from 1 */
	uint32_t	span;			/* number of failing calls */
	uint32_t	action;
	int32_t		argument;
	uint32_t	fired;
	uint32_t	pad[7];
	uint32_t	counts[NKINDS][NCALLS];
} Plan;

static Plan off;
static Plan *plan = &off;
static __thread bool inside;	/* the shim's own calls are not counted */
static char *our_begin;
static char *our_end;
static const int *backend_type;
static const int *worker_number;
static const char *(*type_text) (int);

/* ---- the caller ---- */

/* Find the end of the object that begins at an address. */
static int
find_end(struct dl_phdr_info *object, size_t size, void *begin)
{
	if ((void *) object->dlpi_addr != begin)
		return 0;
	for (int i = 0; i < object->dlpi_phnum; i++)
		if (object->dlpi_phdr[i].p_type == PT_LOAD)
			our_end = (char *) begin + object->dlpi_phdr[i].p_vaddr + object->dlpi_phdr[i].p_memsz;
	return 1;
}

/* True if the address is in hjoin_gpu.so, which is loaded after this library. */
static bool
is_ours(const void *address)
{
	Dl_info		info;

	if (our_end == NULL)
	{
		if (dladdr(address, &info) == 0 || info.dli_fname == NULL || strstr(info.dli_fname, "/hjoin_gpu.so") == NULL)
			return false;
		our_begin = info.dli_fbase;
		dl_iterate_phdr(find_end, our_begin);
	}
	return (char *) address >= our_begin && (char *) address < our_end;
}

static bool
is_called_by_ours(const void *caller)
{
	void	   *frames[48];
	int			n;

	if (is_ours(caller))
		return true;
	n = backtrace(frames, 48);
	for (int i = 2; i < n; i++)
		if (is_ours(frames[i]))
			return true;
	return false;
}

static bool
find_kind(Kind *kind)
{
	if (backend_type == NULL)
	{
		backend_type = dlsym(RTLD_DEFAULT, "MyBackendType");
		worker_number = dlsym(RTLD_DEFAULT, "ParallelWorkerNumber");
		*(void **) &type_text = dlsym(RTLD_DEFAULT, "GetBackendTypeDesc");
	}
	if (backend_type == NULL || worker_number == NULL || type_text == NULL)
	{
		plan = &off;			/* not the server program */
		return false;
	}
	if (*worker_number >= 0)
		*kind = KIND_WORKER;
	else if (strcmp(type_text(*backend_type), "client backend") == 0)
		*kind = KIND_BACKEND;
	else if (strcmp(type_text(*backend_type), "background worker") == 0)
		*kind = KIND_SUPERVISOR;
	else
		return false;
	return *kind != KIND_BACKEND || (uint32_t) getpid() == __atomic_load_n(&plan->pid, __ATOMIC_RELAXED);
}

/* ---- the fault ---- */

typedef struct Fault
{
	bool		fails;
	bool		is_short;
	int			jump_s;
} Fault;

static int
real_clock(clockid_t clock, struct timespec *ts)
{
	static int	(*call) (clockid_t, struct timespec *);

	if (call == NULL)
		*(void **) &call = dlsym(RTLD_NEXT, "clock_gettime");
	return call(clock, ts);
}

static Fault
fault_at(Call call, const void *caller)
{
	const uint32_t mode = __atomic_load_n(&plan->mode, __ATOMIC_RELAXED);
	const int	saved = errno;
	Fault		fault = {false};
	struct timespec ts;
	uint32_t	n;
	Kind		kind;

	if (mode == MODE_OFF || inside || (mode == MODE_FAULT && plan->call != call))
		return fault;
	inside = true;
	if (find_kind(&kind) && (mode == MODE_COUNT || plan->kind == kind) && is_called_by_ours(caller))
	{
		n = __atomic_add_fetch(&plan->counts[kind][call], 1, __ATOMIC_RELAXED);
		if (mode == MODE_FAULT && n >= plan->nth && n - plan->nth < plan->span)
		{
			__atomic_add_fetch(&plan->fired, 1, __ATOMIC_RELAXED);
			switch ((Action) plan->action)
			{
				case ACTION_FAIL:
					fault.fails = true;
					break;
				case ACTION_SHORT:
					fault.is_short = true;
					break;
				case ACTION_DELAY:
					ts = (struct timespec) {plan->argument / 1000, (long) (plan->argument % 1000) * 1000000};
					nanosleep(&ts, NULL);
					break;
				case ACTION_TERMINATE:
					raise(SIGTERM);
					break;
				case ACTION_JUMP:
					fault.jump_s = plan->argument;
					break;
			}
		}
	}
	inside = false;
	errno = fault.fails ? plan->argument : saved;
	return fault;
}

__attribute__((constructor)) static void
open_plan(void)
{
	const char *path = getenv("HJG_SHIM");
	void	   *ignored[1];
	void	   *base;
	int			fd;

	if (path == NULL || (fd = open(path, O_RDWR | O_CLOEXEC)) < 0)
		return;
	base = mmap(NULL, sizeof(Plan), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	/* it loads a library at its first call */
	(void) backtrace(ignored, 1);
	if (base != MAP_FAILED)
		plan = base;
}

/* ---- memory ---- */

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

#define AT(name) fault_at(CALL_##name, __builtin_return_address(0))

void *
malloc(size_t bytes)
{
	return AT(malloc).fails ? NULL : __libc_malloc(bytes);
}

void *
calloc(size_t n, size_t bytes)
{
	return AT(calloc).fails ? NULL : __libc_calloc(n, bytes);
}

void *
realloc(void *ptr, size_t bytes)
{
	return AT(realloc).fails ? NULL : __libc_realloc(ptr, bytes);
}

void *
aligned_alloc(size_t alignment, size_t bytes)
{
	return AT(aligned_alloc).fails ? NULL : __libc_memalign(alignment, bytes);
}

/* ---- other calls: all but two return -1 and set errno when they fail ---- */

#define REAL(name, type, ...) \
	static type (*real) (__VA_ARGS__); \
	if (real == NULL) \
		*(void **) &real = dlsym(RTLD_NEXT, #name)

#define PLAIN(name, type, parameters, ...) \
type \
name parameters \
{ \
	REAL(name, type, PARAMETERS parameters); \
	return AT(name).fails ? (type) -1 : real(__VA_ARGS__); \
}
#define PARAMETERS(...) __VA_ARGS__

/* Define calls that may do half of the request. */
#define PARTIAL(name, type, parameters, n, ...) \
type \
name parameters \
{ \
	Fault		fault; \
	\
	REAL(name, type, PARAMETERS parameters); \
	fault = AT(name); \
	if (fault.is_short && n > 1) \
		n /= 2; \
	return fault.fails ? (type) -1 : real(__VA_ARGS__); \
}

PARTIAL(read, ssize_t, (int fd, void *to, size_t n), n, fd, to, n)
PARTIAL(pread, ssize_t, (int fd, void *to, size_t n, off_t offset), n, fd, to, n, offset)
PARTIAL(write, ssize_t, (int fd, const void *from, size_t n), n, fd, from, n)
PARTIAL(pwrite, ssize_t, (int fd, const void *from, size_t n, off_t offset), n, fd, from, n, offset)
PARTIAL(pwritev, ssize_t, (int fd, const struct iovec *from, int n, off_t offset), n, fd, from, n, offset)
PARTIAL(send, ssize_t, (int fd, const void *from, size_t n, int flags), n, fd, from, n, flags)
PARTIAL(recv, ssize_t, (int fd, void *to, size_t n, int flags), n, fd, to, n, flags)
PLAIN(fallocate, int, (int fd, int mode, off_t offset, off_t bytes), fd, mode, offset, bytes)
PLAIN(ftruncate, int, (int fd, off_t bytes), fd, bytes)
PLAIN(mmap, void *, (void *at, size_t bytes, int rights, int flags, int fd, off_t offset), at, bytes, rights, flags, fd, offset)
PLAIN(madvise, int, (void *at, size_t bytes, int advice), at, bytes, advice)
PLAIN(epoll_wait, int, (int fd, struct epoll_event *events, int n, int timeout), fd, events, n, timeout)
PLAIN(fork, pid_t, (void), )
PLAIN(waitpid, pid_t, (pid_t pid, int *status, int options), pid, status, options)
PLAIN(flock, int, (int fd, int operation), fd, operation)
PLAIN(socketpair, int, (int domain, int type, int protocol, int sockets[2]), domain, type, protocol, sockets)
PLAIN(shm_open, int, (const char *name, int flags, mode_t mode), name, flags, mode)

/*
 * Intercept kill(), but pass the signal that sets latches: it cannot fail between processes of one user,
 * and core does not check it.
 */
int
kill(pid_t pid, int sig)
{
	REAL(kill, int, pid_t, int);
	return sig != SIGURG && AT(kill).fails ? -1 : real(pid, sig);
}

int
posix_fallocate(int fd, off_t offset, off_t bytes)
{
	REAL(posix_fallocate, int, int, off_t, off_t);
	return AT(posix_fallocate).fails ? errno : real(fd, offset, bytes);
}

int
open(const char *path, int flags,...)
{
	mode_t		mode = 0;
	va_list		rest;

	REAL(open, int, const char *, int,...);
	va_start(rest, flags);
	if (flags & (O_CREAT | O_TMPFILE))
		mode = va_arg(rest, mode_t);
	va_end(rest);
	return AT(open).fails ? -1 : real(path, flags, mode);
}

int
fcntl(int fd, int command,...)
{
	void	   *argument;
	va_list		rest;

	REAL(fcntl, int, int, int,...);
	va_start(rest, command);
	argument = va_arg(rest, void *);
	va_end(rest);
	return AT(fcntl).fails ? -1 : real(fd, command, argument);
}

int
clock_gettime(clockid_t clock, struct timespec *ts)
{
	const Fault fault = AT(clock_gettime);
	const int	result = fault.fails ? -1 : real_clock(clock, ts);

	if (clock == CLOCK_REALTIME)
		ts->tv_sec += fault.jump_s;
	return result;
}
