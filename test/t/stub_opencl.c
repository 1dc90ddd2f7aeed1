/*
 * stub_opencl.c
 *	  A libOpenCL.so.1 with one device, whose fault is number STUB.
 *
 * At the first call it 1 crashes, 2 hangs, 3 ends the process; 4 answers every question about the device
 * with ones.  The others have a sane device, whose only working kernel is the test of memory
 * (hjg_k_share), so that it looks usable, and a fault: 5 never finishes building a program, 6 refuses to
 * build; and, once the serving process uses it for joins, 7 builds for ever, 8 crashes at a build, 9 has
 * no memory for buffers, 10 runs kernels that do nothing.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CRASHES_AT_ONCE 1
#define HANGS_AT_ONCE 2
#define EXITS_AT_ONCE 3
#define ALL_ONES 4
#define BUILDS_FOR_EVER 5
#define DOES_NOT_BUILD 6
#define BUILDS_FOR_EVER_LATER 7
#define CRASHES_LATER 8
#define NO_BUFFERS_LATER 9
/* 10 needs nothing */

/* OpenCL's numbers. */
#define BUILD_PROGRAM_FAILURE -11
#define OBJECT_ALLOCATION_FAILURE -4
#define NOT_SUPPORTED -59
#define DEVICE_TYPE 0x1000
#define DEVICE_MAX_COMPUTE_UNITS 0x1002
#define DEVICE_MAX_WORK_GROUP_SIZE 0x1004
#define DEVICE_MAX_MEM_ALLOC_SIZE 0x1010
#define DEVICE_MEM_BASE_ADDR_ALIGN 0x1019
#define DEVICE_GLOBAL_MEM_SIZE 0x101F
#define DEVICE_LOCAL_MEM_SIZE 0x1023
#define DEVICE_NAME 0x102B
#define DEVICE_VERSION 0x102F
#define DEVICE_HOST_UNIFIED_MEMORY 0x1035
#define TYPE_GPU 4
#define USE_HOST_PTR 8

typedef struct Buffer
{
	void	   *memory;
	int			is_own;
} Buffer;

typedef struct Kernel
{
	int			is_share;
	Buffer	   *words;
	uint32_t	n;
} Kernel;

/* An opaque object. */
static int	thing;

/* True in the process that serves joins, false in the child that searches devices. */
static int
serves(void)
{
	return getenv("HJOIN_GPU_PROBE") == NULL;
}

static void *
good(void *object, int *error)
{
	*error = 0;
	return object;
}

#define SUCCEEDS(name) int name(void) { return 0; }
#define UNKNOWN(name) int name(void) { return NOT_SUPPORTED; }

UNKNOWN(clCreateSubDevices)
UNKNOWN(clGetProgramBuildInfo)
UNKNOWN(clEnqueueUnmapMemObject)
UNKNOWN(clGetPlatformInfo)
SUCCEEDS(clReleaseDevice)
SUCCEEDS(clReleaseContext)
SUCCEEDS(clReleaseCommandQueue)
SUCCEEDS(clReleaseProgram)
SUCCEEDS(clEnqueueReadBuffer)
SUCCEEDS(clEnqueueWriteBuffer)
SUCCEEDS(clReleaseEvent)
SUCCEEDS(clWaitForEvents)
SUCCEEDS(clFlush)
SUCCEEDS(clFinish)

int
clGetPlatformIDs(unsigned room, void **platforms, unsigned *n)
{
#if STUB == CRASHES_AT_ONCE
	abort();
#elif STUB == HANGS_AT_ONCE
	for (;;)
		pause();
#elif STUB == EXITS_AT_ONCE
	_exit(7);
#endif
	if (platforms != NULL && room > 0)
		platforms[0] = &thing;
	if (n != NULL)
		*n = 1;
	return 0;
}

int
clGetDeviceIDs(void *platform, unsigned long kind, unsigned room, void **devices, unsigned *n)
{
	(void) platform;
	(void) kind;
	if (devices != NULL && room > 0)
		devices[0] = &thing;
	if (n != NULL)
		*n = 1;
	return 0;
}

static uint64_t
number_of(unsigned what)
{
	switch (what)
	{
		case DEVICE_TYPE:
			return TYPE_GPU;
		case DEVICE_MAX_COMPUTE_UNITS:
			return 4;
		case DEVICE_MAX_WORK_GROUP_SIZE:
			return 256;
		case DEVICE_MAX_MEM_ALLOC_SIZE:
		case DEVICE_GLOBAL_MEM_SIZE:
			return (uint64_t) 1 << 30;
		case DEVICE_MEM_BASE_ADDR_ALIGN:
			return 1024;
		case DEVICE_LOCAL_MEM_SIZE:
			return 32768;
		case DEVICE_HOST_UNIFIED_MEMORY:
			return 1;
		default:
			return 0;
	}
}

int
clGetDeviceInfo(void *device, unsigned what, size_t room, void *value, size_t *bytes)
{
	const char *text = what == DEVICE_VERSION ? "OpenCL 1.2 stub" : what == DEVICE_NAME ? "a stub" : NULL;
	const uint64_t number = number_of(what);

	(void) device;
	if (value != NULL && STUB == ALL_ONES)
		memset(value, 0xFF, room);
	else if (value != NULL && text != NULL)
		strncpy(value, text, room);
	else if (value != NULL)
		memcpy(value, &number, room < sizeof(number) ? room : sizeof(number));
	if (bytes != NULL)
		*bytes = STUB == ALL_ONES ? room : text != NULL ? strlen(text) + 1 : sizeof(number);
	return 0;
}

void *
clCreateContext(const void *properties, unsigned n, void *const *devices, void *notify, void *arg, int *error)
{
	(void) properties, (void) n, (void) devices, (void) notify, (void) arg;
	return good(&thing, error);
}

void *
clCreateCommandQueue(void *context, void *device, unsigned long properties, int *error)
{
	(void) context, (void) device, (void) properties;
	return good(&thing, error);
}

void *
clCreateProgramWithSource(void *context, unsigned n, const char **texts, const size_t *lengths, int *error)
{
	(void) context, (void) n, (void) texts, (void) lengths;
	return good(&thing, error);
}

int
clBuildProgram(void)
{
	if (STUB == DOES_NOT_BUILD)
		return BUILD_PROGRAM_FAILURE;
	if (STUB == CRASHES_LATER && serves())
		abort();
	while (STUB == BUILDS_FOR_EVER || (STUB == BUILDS_FOR_EVER_LATER && serves()))
		pause();
	return 0;
}

void *
clCreateKernel(void *program, const char *name, int *error)
{
	Kernel	   *kernel = calloc(1, sizeof(Kernel));

	(void) program;
	kernel->is_share = strcmp(name, "hjg_k_share") == 0;
	return good(kernel, error);
}

int
clReleaseKernel(Kernel *kernel)
{
	free(kernel);
	return 0;
}

int
clSetKernelArg(Kernel *kernel, unsigned ix, size_t bytes, const void *value)
{
	if (kernel->is_share)
		memcpy(ix == 0 ? (void *) &kernel->words : (void *) &kernel->n, value, bytes);
	return 0;
}

void *
clCreateBuffer(void *context, unsigned long flags, size_t bytes, void *memory, int *error)
{
	Buffer	   *buffer;

	(void) context;
	if (STUB == NO_BUFFERS_LATER && serves())
	{
		*error = OBJECT_ALLOCATION_FAILURE;
		return NULL;
	}
	buffer = calloc(1, sizeof(Buffer));
	buffer->is_own = (flags & USE_HOST_PTR) == 0;
	buffer->memory = buffer->is_own ? malloc(bytes) : memory;
	return good(buffer, error);
}

int
clReleaseMemObject(Buffer *buffer)
{
	if (buffer->is_own)
		free(buffer->memory);
	free(buffer);
	return 0;
}

int
clEnqueueNDRangeKernel(void *queue, const Kernel *kernel, unsigned dimensions, const size_t *offset, const size_t *items,
					   const size_t *group, unsigned nwaits, void *const *waits, void **event)
{
	uint32_t   *words = kernel->is_share ? kernel->words->memory : NULL;

	(void) queue, (void) dimensions, (void) offset, (void) group, (void) nwaits, (void) waits;
	for (size_t i = 0; words != NULL && i < items[0]; i++)
	{
		__atomic_fetch_add(&words[0], 1, __ATOMIC_RELAXED);
		if (i + 1 < kernel->n)
			words[i + 1] += (uint32_t) i;
	}
	if (event != NULL)
		*event = &thing;
	return 0;
}

void *
clEnqueueMapBuffer(void)
{
	return NULL;
}

/* Answer with zeros: every command is complete, and took no time. */
static int
zeros(size_t room, void *value)
{
	memset(value, 0, room);
	return 0;
}

int
clGetEventInfo(void *event, unsigned what, size_t room, void *value, size_t *bytes)
{
	(void) event, (void) what, (void) bytes;
	return zeros(room, value);
}

int
clGetEventProfilingInfo(void *event, unsigned what, size_t room, void *value, size_t *bytes)
{
	(void) event, (void) what, (void) bytes;
	return zeros(room, value);
}
