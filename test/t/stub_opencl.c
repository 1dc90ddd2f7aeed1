/*
 * stub_opencl.c
 *	  A libOpenCL.so.1 that does what STUB says: 1 crashes, 2 hangs, 3 ends the process
 *	  at the first call; 4 has a device that reports nonsense.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FUNCTION(name) int name(void) { return -59; }

FUNCTION(clCreateSubDevices)
FUNCTION(clReleaseDevice)
FUNCTION(clReleaseContext)
FUNCTION(clReleaseCommandQueue)
FUNCTION(clBuildProgram)
FUNCTION(clGetProgramBuildInfo)
FUNCTION(clReleaseProgram)
FUNCTION(clReleaseKernel)
FUNCTION(clSetKernelArg)
FUNCTION(clReleaseMemObject)
FUNCTION(clEnqueueNDRangeKernel)
FUNCTION(clEnqueueReadBuffer)
FUNCTION(clEnqueueUnmapMemObject)
FUNCTION(clEnqueueWriteBuffer)
FUNCTION(clGetEventInfo)
FUNCTION(clGetEventProfilingInfo)
FUNCTION(clReleaseEvent)
FUNCTION(clWaitForEvents)
FUNCTION(clFlush)
FUNCTION(clFinish)
FUNCTION(clGetPlatformInfo)

#define CREATE(name) void *name(void) { return NULL; }

CREATE(clCreateContext)
CREATE(clCreateCommandQueue)
CREATE(clCreateProgramWithSource)
CREATE(clCreateKernel)
CREATE(clCreateBuffer)
CREATE(clEnqueueMapBuffer)

int
clGetPlatformIDs(unsigned room, void **platforms, unsigned *n)
{
#if STUB == 1
	abort();
#elif STUB == 2
	for (;;)
		pause();
#elif STUB == 3
	_exit(7);
#endif
	if (platforms != NULL && room > 0)
		platforms[0] = (void *) 1;
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
		devices[0] = (void *) 2;
	if (n != NULL)
		*n = 1;
	return 0;
}

/* All bits set for every question, whatever room there is. */
int
clGetDeviceInfo(void *device, unsigned what, size_t room, void *value, size_t *bytes)
{
	(void) device;
	(void) what;
	if (value != NULL)
		memset(value, 0xFF, room);
	if (bytes != NULL)
		*bytes = room;
	return 0;
}
