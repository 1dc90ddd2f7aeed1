/*
 * stub_libcuda.c
 *	  A libcuda.so.1 for tests without a GPU: devices whose memory is the host's.
 *
 * Kernels run at once and on the calling thread: in make check-cuda stub_csr.c, stub_resident.c,
 * stub_literature.c, stub_match.c and stub_program.c, with the same step functions as on a device
 * (kernels/hjg_csr_steps.h) or with plain loops of the same result; in make check-lab the kernels themselves,
 * compiled for the host (emulated_threads.c).  Copies happen at once too, so only a GPU host tests the order of streams.  But
 * queued work counts as in flight until an event behind it has been found complete.
 *
 * Environment, read at cuInit:
 *		HJG_STUB_ABSENT=PATH	there is no device until the file exists
 *		HJG_STUB_DEVICES=N		number of devices (default 1, at most 4); by its events, number n is 8^n times
 *								slower than the first
 *		HJG_STUB_FASTER=N		events report 1/N of the time
 *		HJG_STUB_MEMORY=MB		memory of all devices together (default 1024)
 *		HJG_STUB_CC=NN			compute capability (default 90)
 *		HJG_STUB_FAIL=N[:CODE]	call N fails; an error that makes the context unusable (default,
 *								700) fails all later calls too
 *		HJG_STUB_HANG=N			call N does not return
 *		HJG_STUB_STALL=N		from call N on no event is ever ready
 *		HJG_STUB_ONCE=PATH		these three happen only if the file exists, which is removed
 * Calls are counted from 1, without cuGetError... and the listing of devices.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hjg_stub_kernels.h"
#include "hjg_test_stub.h"

#define CODE_INVALID_VALUE 1
#define CODE_NO_DEVICE 100
#define CODE_ADDRESS 700
#define MOST_DEVICES 4

/* Numbers of managed memory, which the laboratory uses. */
#define ATTACH_GLOBAL 1
#define CONCURRENT_MANAGED 89

HjgStub		hjg_stub;

/* Stands for the device's seed if an image has its constant. */
HjgHashSeed hjg_hash_seed;

/* A stream or an event. */
typedef struct Object
{
	struct timespec time;		/* of an event's record */
	struct Object *stream;		/* of an event's record */
	int			device;			/* of a stream */
	long		nqueued;		/* operations of the stream, or before the event */
	long		nended;			/* of the stream's, known to have ended */
} Object;

static int	the_module;
static const char *absent_path;
static int	compute_capability = 90;
static int	ndevices = 1;
static long times_faster = 1;
static int	contexts[MOST_DEVICES];	/* their addresses stand for contexts */
static __thread int current;	/* device */

/* ---- faults ---- */

static bool
stays(int code)
{
	return code >= 700 && code != 701 && code != 712 && code != 713 && code < 800;
}

/* Count a call that can be made to fail, and fail it if it is due; returns its result so far. */
static int
enter(void)
{
	long		call = __atomic_add_fetch(&hjg_stub.calls, 1, __ATOMIC_SEQ_CST);

	if (call == hjg_stub.hang_at)
		for (;;)
			sleep(1);
	if (hjg_stub.broken != 0)
		return hjg_stub.broken;
	if (call != hjg_stub.fail_at)
		return HJG_CUDA_SUCCESS;
	if (stays(hjg_stub.fail_code))
		hjg_stub.broken = hjg_stub.fail_code;
	return hjg_stub.fail_code;
}

#define ENTER() \
	do { \
		int entered = enter(); \
		if (entered != HJG_CUDA_SUCCESS) \
			return entered; \
	} while (0)

/* Count a call that queues work on a stream; on the default stream the work has ended at once. */
#define QUEUE(stream) \
	do { \
		ENTER(); \
		if ((stream) == NULL) \
			break; \
		((Object *) (stream))->nqueued++; \
		__atomic_fetch_add(&hjg_stub.in_flight, 1, __ATOMIC_SEQ_CST); \
	} while (0)

static void
end_until(Object *stream, long n)
{
	if (n <= stream->nended)
		return;
	__atomic_fetch_sub(&hjg_stub.in_flight, n - stream->nended, __ATOMIC_SEQ_CST);
	stream->nended = n;
}

static long
number_of(const char *name)
{
	const char *text = getenv(name);

	return text == NULL ? 0 : atol(text);
}

static void
read_environment(void)
{
	const char *once = getenv("HJG_STUB_ONCE");
	const char *fail = getenv("HJG_STUB_FAIL");

	absent_path = getenv("HJG_STUB_ABSENT");
	hjg_stub.memory_bytes = (size_t) (number_of("HJG_STUB_MEMORY") > 0 ? number_of("HJG_STUB_MEMORY") : 1024) << 20;
	if (number_of("HJG_STUB_DEVICES") > 0 && number_of("HJG_STUB_DEVICES") <= MOST_DEVICES)
		ndevices = (int) number_of("HJG_STUB_DEVICES");
	if (number_of("HJG_STUB_FASTER") > 0)
		times_faster = number_of("HJG_STUB_FASTER");
	if (number_of("HJG_STUB_CC") > 0)
		compute_capability = (int) number_of("HJG_STUB_CC");
	if (once != NULL && unlink(once) != 0)
		return;
	hjg_stub.hang_at = number_of("HJG_STUB_HANG");
	hjg_stub.stall_at = number_of("HJG_STUB_STALL");
	if (fail != NULL)
	{
		const char *colon = strchr(fail, ':');

		hjg_stub.fail_at = atol(fail);
		hjg_stub.fail_code = colon != NULL ? atoi(colon + 1) : CODE_ADDRESS;
	}
}

/* ---- the driver and its device ---- */

int
cuInit(unsigned flags)
{
	static bool initialised;

	if (absent_path == NULL)
		absent_path = getenv("HJG_STUB_ABSENT");
	if (absent_path != NULL && access(absent_path, F_OK) != 0)
		return CODE_NO_DEVICE;
	if (!initialised)
		read_environment();
	initialised = true;
	return HJG_CUDA_SUCCESS;
}

int
cuGetErrorString(int code, const char **text)
{
	*text = code == HJG_CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" :
		code == CODE_NO_DEVICE ? "no CUDA-capable device is detected" : "an error of the stub";
	return HJG_CUDA_SUCCESS;
}

int
cuDeviceGetCount(int *count)
{
	*count = ndevices;
	return HJG_CUDA_SUCCESS;
}

int
cuDeviceGet(int *device, int number)
{
	*device = number;
	return HJG_CUDA_SUCCESS;
}

int
cuDeviceGetName(char *name, int room, int device)
{
	if (device == 0)
		snprintf(name, (size_t) room, "Stub device");
	else
		snprintf(name, (size_t) room, "Stub device %d", device);
	return HJG_CUDA_SUCCESS;
}

int
cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	*bytes = hjg_stub.memory_bytes;
	return HJG_CUDA_SUCCESS;
}

int
cuDeviceGetAttribute(int *value, int attribute, int device)
{
	switch (attribute)
	{
		case HJG_CUDA_MULTIPROCESSORS:
			*value = 4;
			break;
		case HJG_CUDA_CC_MAJOR:
			*value = compute_capability / 10;
			break;
		case HJG_CUDA_CC_MINOR:
			*value = compute_capability % 10;
			break;
		case HJG_CUDA_L2_BYTES:
			*value = 4 << 20;
			break;
		case HJG_CUDA_SHARED_OPTIN:
			*value = 227 << 10;
			break;
		case CONCURRENT_MANAGED:
			*value = 1;
			break;
		default:
			*value = 0;
	}
	return HJG_CUDA_SUCCESS;
}

int
cuDevicePrimaryCtxRetain(void **context, int device)
{
	ENTER();
	*context = &contexts[device];
	return HJG_CUDA_SUCCESS;
}

int
cuCtxSetCurrent(void *context)
{
	ENTER();
	current = (int) ((int *) context - contexts);
	return HJG_CUDA_SUCCESS;
}

/* ---- memory ---- */

typedef struct Block
{
	size_t		bytes;
	char		pad[248];		/* keeps the memory behind it aligned */
} Block;

static int
take_memory(void **ptr, size_t bytes, bool of_device)
{
	Block	   *block;

	if (of_device && __atomic_add_fetch(&hjg_stub.used_bytes, bytes, __ATOMIC_SEQ_CST) > hjg_stub.memory_bytes)
	{
		__atomic_fetch_sub(&hjg_stub.used_bytes, bytes, __ATOMIC_SEQ_CST);
		return HJG_CUDA_ERROR_OUT_OF_MEMORY;
	}
	block = aligned_alloc(256, sizeof(Block) + (bytes + 255) / 256 * 256);
	if (block == NULL)
		return HJG_CUDA_ERROR_OUT_OF_MEMORY;
	block->bytes = of_device ? bytes : 0;
	memset(block + 1, 0xA5, bytes);
	__atomic_fetch_add(&hjg_stub.live_objects, 1, __ATOMIC_SEQ_CST);
	*ptr = block + 1;
	return HJG_CUDA_SUCCESS;
}

static void
give_memory(void *ptr)
{
	Block	   *block = (Block *) ptr - 1;

	__atomic_fetch_sub(&hjg_stub.used_bytes, block->bytes, __ATOMIC_SEQ_CST);
	__atomic_fetch_sub(&hjg_stub.live_objects, 1, __ATOMIC_SEQ_CST);
	free(block);
}

int
cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	ENTER();
	*total_bytes = hjg_stub.memory_bytes;
	*free_bytes = hjg_stub.memory_bytes - hjg_stub.used_bytes;
	return HJG_CUDA_SUCCESS;
}

int
cuMemAlloc_v2(HjgCudaPtr *ptr, size_t bytes)
{
	void	   *memory;
	int			result = enter();

	if (result == HJG_CUDA_SUCCESS)
		result = take_memory(&memory, bytes, true);
	if (result == HJG_CUDA_SUCCESS)
		*ptr = (HjgCudaPtr) (size_t) memory;
	return result;
}

/* Allocate managed memory; a real device does not survive more than it has free. */
int
cuMemAllocManaged(HjgCudaPtr *ptr, size_t bytes, unsigned flags)
{
	return flags == ATTACH_GLOBAL ? cuMemAlloc_v2(ptr, bytes) : CODE_INVALID_VALUE;
}

int
cuMemPrefetchAsync(HjgCudaPtr ptr, size_t bytes, int to, void *stream)
{
	QUEUE(stream);
	return HJG_CUDA_SUCCESS;
}

int
cuMemFree_v2(HjgCudaPtr ptr)
{
	ENTER();
	give_memory((void *) (size_t) ptr);
	return HJG_CUDA_SUCCESS;
}

int
cuMemHostAlloc(void **ptr, size_t bytes, unsigned flags)
{
	ENTER();
	return take_memory(ptr, bytes, false);
}

int
cuMemFreeHost(void *ptr)
{
	ENTER();
	give_memory(ptr);
	return HJG_CUDA_SUCCESS;
}

/* True if the memory is mapped for writing. */
static bool
is_writable(const void *ptr)
{
	FILE	   *maps = fopen("/proc/self/maps", "r");
	const size_t at = (size_t) ptr;
	char		line[512];
	bool		writable = true;

	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
	{
		size_t		from;
		size_t		to;
		char		access[8];

		if (sscanf(line, "%zx-%zx %7s", &from, &to, access) == 3 && at >= from && at < to)
			writable = access[1] == 'w';
	}
	if (maps != NULL)
		fclose(maps);
	return writable;
}

int
cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned flags)
{
	ENTER();
	if ((flags & HJG_CUDA_HOST_READ_ONLY) == 0 && !is_writable(ptr))
		return CODE_INVALID_VALUE;
	__atomic_fetch_add(&hjg_stub.live_regions, 1, __ATOMIC_SEQ_CST);
	return HJG_CUDA_SUCCESS;
}

int
cuMemHostUnregister(void *ptr)
{
	ENTER();
	__atomic_fetch_sub(&hjg_stub.live_regions, 1, __ATOMIC_SEQ_CST);
	return HJG_CUDA_SUCCESS;
}

int
cuMemcpyHtoDAsync_v2(HjgCudaPtr to, const void *from, size_t bytes, void *stream)
{
	QUEUE(stream);
	memcpy((void *) (size_t) to, from, bytes);
	return HJG_CUDA_SUCCESS;
}

int
cuMemcpyDtoHAsync_v2(void *to, HjgCudaPtr from, size_t bytes, void *stream)
{
	QUEUE(stream);
	memcpy(to, (void *) (size_t) from, bytes);
	return HJG_CUDA_SUCCESS;
}

int
cuMemcpyDtoDAsync_v2(HjgCudaPtr to, HjgCudaPtr from, size_t bytes, void *stream)
{
	QUEUE(stream);
	memmove((void *) (size_t) to, (void *) (size_t) from, bytes);
	return HJG_CUDA_SUCCESS;
}

int
cuMemsetD8Async(HjgCudaPtr ptr, unsigned char value, size_t n, void *stream)
{
	QUEUE(stream);
	memset((void *) (size_t) ptr, value, n);
	return HJG_CUDA_SUCCESS;
}

int
cuMemsetD32Async(HjgCudaPtr ptr, unsigned value, size_t n, void *stream)
{
	QUEUE(stream);
	for (size_t i = 0; i < n; i++)
		((unsigned *) (size_t) ptr)[i] = value;
	return HJG_CUDA_SUCCESS;
}

/* ---- streams and events ---- */

static int
make_object(void **object)
{
	*object = calloc(1, sizeof(Object));
	if (*object == NULL)
		return HJG_CUDA_ERROR_OUT_OF_MEMORY;
	__atomic_fetch_add(&hjg_stub.live_objects, 1, __ATOMIC_SEQ_CST);
	return HJG_CUDA_SUCCESS;
}

static int
drop_object(void *object)
{
	free(object);
	__atomic_fetch_sub(&hjg_stub.live_objects, 1, __ATOMIC_SEQ_CST);
	return HJG_CUDA_SUCCESS;
}

int
cuStreamCreate(void **stream, unsigned flags)
{
	int			result = enter();

	if (result == HJG_CUDA_SUCCESS)
		result = make_object(stream);
	if (result == HJG_CUDA_SUCCESS)
		((Object *) *stream)->device = current;
	return result;
}

int
cuStreamDestroy_v2(void *stream)
{
	ENTER();
	end_until(stream, ((Object *) stream)->nqueued);
	return drop_object(stream);
}

int
cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
	ENTER();
	return HJG_CUDA_SUCCESS;
}

int
cuEventCreate(void **event, unsigned flags)
{
	ENTER();
	return make_object(event);
}

int
cuEventDestroy_v2(void *event)
{
	ENTER();
	return drop_object(event);
}

int
cuEventRecord(void *event, void *stream)
{
	Object	   *object = event;

	ENTER();
	clock_gettime(CLOCK_MONOTONIC, &object->time);
	object->stream = stream;
	object->nqueued = object->stream->nqueued;
	return HJG_CUDA_SUCCESS;
}

int
cuEventQuery(void *event)
{
	const Object *object = event;

	ENTER();
	if (hjg_stub.stall_at > 0 && __atomic_load_n(&hjg_stub.calls, __ATOMIC_SEQ_CST) >= hjg_stub.stall_at)
		return HJG_CUDA_ERROR_NOT_READY;
	if (hjg_stub.latency_us > 0)
	{
		struct timespec until = object->time;

		until.tv_nsec += hjg_stub.latency_us * 1000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	}
	end_until(object->stream, object->nqueued);
	return HJG_CUDA_SUCCESS;
}

int
cuEventElapsedTime(float *ms, void *from, void *to)
{
	const Object *a = from;
	const Object *b = to;

	ENTER();
	*ms = (float) ((double) (b->time.tv_sec - a->time.tv_sec) * 1e3 +
				   (double) (b->time.tv_nsec - a->time.tv_nsec) / 1e6) * (float) (1 << 3 * b->stream->device) /
		(float) times_faster;
	return HJG_CUDA_SUCCESS;
}

/* ---- kernels ---- */

int
cuModuleLoadData(void **module, const void *image)
{
	ENTER();
	*module = &the_module;
	return HJG_CUDA_SUCCESS;
}

int
cuModuleGetGlobal_v2(HjgCudaPtr *ptr, size_t *bytes, void *module, const char *name)
{
	ENTER();
	if (strcmp(name, "hjg_hash_seed") != 0)
		return HJG_CUDA_ERROR_NOT_FOUND;
	*ptr = (HjgCudaPtr) (size_t) &hjg_hash_seed;
	*bytes = sizeof(hjg_hash_seed);
	return HJG_CUDA_SUCCESS;
}

int
cuModuleGetFunction(void **function, void *module, const char *name)
{
	StubFunction found;

	ENTER();
	*function = NULL;
	if (!hjg_stub_find_kernel(name, &found))
		return HJG_CUDA_ERROR_NOT_FOUND;
	/* never freed: kernels are loaded once */
	*function = malloc(sizeof(found));
	memcpy(*function, &found, sizeof(found));
	return HJG_CUDA_SUCCESS;
}

int
cuFuncSetAttribute(void *function, int attribute, int value)
{
	ENTER();
	return HJG_CUDA_SUCCESS;
}

int
cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int block_threads, size_t shared_bytes)
{
	ENTER();
	*blocks = 2048 / block_threads;
	return HJG_CUDA_SUCCESS;
}

int
cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
			   unsigned shared_bytes, void *stream, void **params, void **extra)
{
	const StubFunction *f = function;
	Launch		launch = {.nblocks = gx, .params = params, .width = f->width, .rest = f->rest, .nthreads = bx,
		.shared_bytes = shared_bytes, .kernel = f->kernel};

	QUEUE(stream);
	if (gx == 0 || gy != 1 || gz != 1 || bx == 0 || bx > 1024 || by != 1 || bz != 1)
		return CODE_INVALID_VALUE;
	f->run(&launch);
	return HJG_CUDA_SUCCESS;
}
