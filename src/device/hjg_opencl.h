/*
 * hjg_opencl.h
 *	  OpenCL devices: declarations that the files device_opencl_*.c share.  Internal to the room
 *	  "device".
 *
 * Nothing here links against OpenCL.  The ICD loader (libOpenCL.so.1) is opened by name and called through
 * the table below, whose types come from the headers.  A program built without the headers lists no device
 * and says so.
 *
 * Trust.  The loader runs the code of all installed ICDs, which may crash, hang, start threads and replace
 * signal handlers.  So the program first runs itself as a child with --probe-opencl: the child does
 * everything that a join needs (facts, context, program, one run of the kernels), writes its findings to a
 * pipe, and is killed when it takes too long.  The serving process opens only devices that the child
 * reports as usable, and only when the first join needs one.
 *
 * Signals.  All threads of the program block all signals, and the ICDs' threads inherit that.
 * Dispositions are saved before the first OpenCL call and restored after it.
 */
#ifndef HJG_OPENCL_H
#define HJG_OPENCL_H

#include "coupled/hjg_coupled.h"
#include "device/hjg_device.h"

#if defined(__has_include)
/* cppcheck-suppress preprocessorErrorDirective */
#if __has_include(<CL/cl.h>)
#define HJG_HAVE_OPENCL 1
#endif
#endif

/* Properties of a device that joins depend on. */
typedef struct HjgClFacts
{
	hjg_u32		version;		/* major * 100 + minor * 10 */
	hjg_u32		is_cpu;
	hjg_u32		unified;		/* it reports memory shared with the host */
	hjg_u32		svm;			/* 0 none, 1 coarse, 2 fine buffer, 3 fine system */
	hjg_u32		svm_atomics;
	hjg_u32		max_sub_devices;	/* 0: no fission */
	hjg_u32		fission_by_counts;
	hjg_u32		align_bytes;	/* of base addresses */
	hjg_u32		max_group;		/* work items of a work group */
	hjg_u32		sees_host;		/* measured: host and device see each other's writes and atomics at once;
								 * 0: joins use copies */
	hjg_u64		local_bytes;
	hjg_u64		max_alloc_bytes;
	hjg_u64		build_ns;		/* time to build the program */
} HjgClFacts;

/* A device as the probing child reports it. */
typedef struct HjgClReport
{
	HjgDeviceInfo info;
	HjgClFacts	facts;
	hjg_u32		platform;		/* platform and device number by which the process finds the device again */
	hjg_u32		device;
	hjg_u32		final;			/* 0: facts only, the test is still to come */
	hjg_u32		nothing;		/* no device at all: info.reason has the reason */
} HjgClReport;

/* Programs are built once for each key width: 4, 8, 16 bytes. */
#define HJG_CL_WIDTHS 3

/* ---- device_opencl_probe.c ---- */

/* The environment of joins that measure or test a device: plain memory, one thread, no end. */
extern const HjgEnv hjg_cl_plain_env;

/* Environment variable of the child, and of no other process. */
#define HJG_CL_PROBE_MARK "HJOIN_GPU_PROBE"

/* Run as the child: write reports to descriptor 1. */
extern int	hjg_cl_probe_main(void);
/*
 * Run the child and collect its reports of at most room devices.  A child that is silent for longer than
 * limit_ms is killed, and the device that it worked on is reported as failed.  When no child can be run,
 * one report has the reason.
 */
extern int	hjg_cl_probe(HjgClReport *reports, int room, int limit_ms);

#ifdef HJG_HAVE_OPENCL

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 200
#endif
#ifndef CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS	/* clCreateCommandQueue: 1.2 suffices */
#endif
#include <CL/cl.h>

/* F(name here, name in libOpenCL): one line a function; all are of OpenCL 1.2. */
#define HJG_CL_FUNCTIONS(F) \
	F(platform_ids, clGetPlatformIDs) \
	F(platform_info, clGetPlatformInfo) \
	F(device_ids, clGetDeviceIDs) \
	F(device_info, clGetDeviceInfo) \
	F(create_sub_devices, clCreateSubDevices) \
	F(release_device, clReleaseDevice) \
	F(create_context, clCreateContext) \
	F(release_context, clReleaseContext) \
	F(create_queue, clCreateCommandQueue) \
	F(release_queue, clReleaseCommandQueue) \
	F(create_program, clCreateProgramWithSource) \
	F(build_program, clBuildProgram) \
	F(program_build_info, clGetProgramBuildInfo) \
	F(release_program, clReleaseProgram) \
	F(create_kernel, clCreateKernel) \
	F(release_kernel, clReleaseKernel) \
	F(set_arg, clSetKernelArg) \
	F(create_buffer, clCreateBuffer) \
	F(release_mem, clReleaseMemObject) \
	F(enqueue_kernel, clEnqueueNDRangeKernel) \
	F(enqueue_map, clEnqueueMapBuffer) \
	F(enqueue_read, clEnqueueReadBuffer) \
	F(enqueue_unmap, clEnqueueUnmapMemObject) \
	F(enqueue_write, clEnqueueWriteBuffer) \
	F(event_info, clGetEventInfo) \
	F(event_profile, clGetEventProfilingInfo) \
	F(release_event, clReleaseEvent) \
	F(wait_events, clWaitForEvents) \
	F(flush, clFlush) \
	F(finish, clFinish)

typedef struct HjgClApi
{
#define HJG_CL_MEMBER(name, function) __typeof__(&function) name;
	HJG_CL_FUNCTIONS(HJG_CL_MEMBER)
#undef HJG_CL_MEMBER
} HjgClApi;

/* ---- device_opencl_api.c ---- */

/*
 * Find the functions, which the first call loads; NULL with a reason when there is no usable loader.  The
 * first call also makes the first OpenCL call.
 */
extern const HjgClApi *hjg_cl_api(char *reason, size_t room);
extern const char *hjg_cl_error_text(cl_int error);
/* Find the device with this number on the platform with this number. */
extern cl_int hjg_cl_find(const HjgClApi *api, hjg_u32 platform, hjg_u32 device, cl_device_id *id);
extern void hjg_cl_facts(const HjgClApi *api, cl_device_id id, HjgClFacts *facts, HjgDeviceInfo *info);

typedef struct HjgClPool HjgClPool;

/* ---- device_opencl_program.c ---- */

/*
 * An open device: context, queue, programs.  units > 0 opens a part of the device with that many compute
 * units, which needs fission.
 */
typedef struct HjgClDevice
{
	const HjgClApi *api;
	cl_device_id id;			/* of the part, when units were given */
	bool		is_part;
	cl_context	context;
	cl_program	programs[HJG_CL_WIDTHS];
	cl_uint		units;
	HjgClFacts	facts;
	HjgClPool  *pool;
} HjgClDevice;

/* Open a device; false with a reason (the first line of the build log included) on failure. */
extern bool hjg_cl_open(const HjgClApi *api, cl_device_id id, int units, HjgClDevice *device,
						char *reason, size_t room);
extern void hjg_cl_close(HjgClDevice *device);
/*
 * Run the test kernel over host memory, to find out whether both sides see each other's writes at once;
 * sets facts.sees_host.  If they do not, the kernel runs over a copy.  False with a reason when a call
 * fails or a copy comes back wrong.
 */
extern bool hjg_cl_test(HjgClDevice *device, char *reason, size_t room);

/* ---- device_opencl_runner.c ---- */

/*
 * Make a runner for one join; NULL when OpenCL refuses.  The device must outlive it.  copies: the device
 * has its own memory.
 */
extern HjgRunner *hjg_cl_runner_create(const HjgClDevice *device, int key_width, bool copies);
extern void hjg_cl_runner_destroy(HjgRunner *runner);

/* ---- device_opencl_pool.c ---- */

/* Make a pool; NULL without memory. */
extern HjgClPool *hjg_cl_pool_create(void);
/* Free the pool of a device that is not used any more. */
extern void hjg_cl_pool_destroy(const HjgClDevice *device);
/* Take a buffer of at least bytes of the device's own memory, not initialised; NULL with an error. */
extern cl_mem hjg_cl_pool_take(const HjgClDevice *device, size_t bytes, cl_int *error);
/* Return a buffer that was taken for bytes; no queued command may use it. */
extern void hjg_cl_pool_give(const HjgClDevice *device, cl_mem buffer, size_t bytes);
/* Release buffers that were idle for idle_ms; returns the bytes kept. */
extern size_t hjg_cl_pool_trim(const HjgClDevice *device, unsigned idle_ms);

/* ---- device_opencl_spans.c ---- */

/* The side whose copy of some bytes is valid. */
typedef enum HjgClPlace
{
	HJG_CL_ANYWHERE = 0,		/* both copies are valid, or none was written yet */
	HJG_CL_ON_HOST,
	HJG_CL_ON_DEVICE
} HjgClPlace;

/* Bytes up to end, from the end of the previous span on. */
typedef struct HjgClSpan
{
	hjg_u64		end;
	HjgClPlace	place;
} HjgClSpan;

/* The spans of a region; neighbours differ in place. */
typedef struct HjgClSpans
{
	int			n;
	HjgClSpan  *spans;
} HjgClSpans;

/* Note that bytes [begin, end) are valid at place from now on; false without memory. */
extern bool hjg_cl_spans_set(HjgClSpans *spans, hjg_u64 begin, hjg_u64 end, HjgClPlace place);
/*
 * Find the first bytes of [*begin, end) that are valid at place alone: sets *begin and returns their end;
 * 0 when there are none.
 */
extern hjg_u64 hjg_cl_spans_next(const HjgClSpans *spans, HjgClPlace place, hjg_u64 *begin, hjg_u64 end);
extern void hjg_cl_spans_free(HjgClSpans *spans);

/* ---- device_opencl_regions.c ---- */

#define HJG_CL_MAX_REGIONS 300	/* tables of a join in parts, and work */

/* A region of memory lent to a runner's device. */
typedef struct HjgClRegion
{
	const void *base;			/* NULL: none */
	size_t		bytes;
	cl_mem		buffer;			/* over the region, or of as many bytes; NULL until it is first needed */
	HjgClSpans	spans;			/* with copies */
} HjgClRegion;

typedef struct HjgClRegions
{
	const HjgClDevice *device;
	bool		copies;
	bool		failed;			/* a command failed and may not have ended: no buffer is kept for another
								 * join */
	cl_command_queue queue;		/* of launches, and of copies to the device */
	cl_command_queue back;		/* with copies: of copies to the host, which wait for no launch */
	int			n;
	int			next;			/* to be replaced when all are used */
	hjg_u64		ncopies[HJG_PROCESSORS];	/* copies to each processor */
	hjg_u64		crossed_bytes[HJG_PROCESSORS];	/* bytes of these copies, and of keys and pairs */
	HjgClRegion regions[HJG_CL_MAX_REGIONS];
} HjgClRegions;

/* Find the buffer of a region; NULL when OpenCL refuses. */
extern cl_mem hjg_cl_region_buffer(HjgClRegions *of, const HjgMemory *memory);
/*
 * Queue, with copies, the parts of the ranges that the processor reads and only the other side has. *first
 * becomes the first copy's event, if it is not NULL and has no event yet.
 */
extern cl_int hjg_cl_cross(HjgClRegions *of, HjgProcessor to, const HjgMemory *memory, const HjgRange *ranges, int nranges, cl_event *first);
/* Read bytes of the device's copy, while no launch is queued. */
extern cl_int hjg_cl_region_fetch(HjgClRegions *of, const void *base, size_t off, size_t bytes, void *into);
/* Forget one region, or all; no queued command may use them. */
extern void hjg_cl_region_forget(HjgClRegions *of, const void *base);
extern void hjg_cl_regions_free(HjgClRegions *of);

#endif							/* HJG_HAVE_OPENCL */

/* ---- device_opencl_aside.c ---- */

/*
 * Wait until the device is open and every kernel of this width has been launched once.  HJG_ERR_DEVICE at
 * once while the device rests; other failures are already noted.
 */
extern HjgStatus hjg_cl_get_ready(int number, const char *name, const HjgEnv *env, int key_width);
/* Find the costs for this device and width; NULL while there are none. */
extern const HjgStepCosts *hjg_cl_costs(int number, const HjgEnv *env, int key_width, HjgPipeline pipeline, bool may_measure);
/* Find the remembered ratios of joins under these costs. */
extern HjgSeriesMemos *hjg_cl_memos(int number, int key_width);
/* Compute the HJG_WIDTH_BIT()s of the widths that have costs. */
extern hjg_u32 hjg_cl_measured_widths(int number);
/* Begin the next task that is left for any width, one at a time; false when none is left. */
extern bool hjg_cl_measure_ahead(int number);

/* ---- device_opencl_open.c ---- */

#define HJG_CL_DEVICES 4

/* Find the devices; returns their number. */
extern int	hjg_cl_list(void);
/* Get one of the devices; NULL when it is not listed. */
extern const HjgClReport *hjg_cl_report(int number);
/* Return memory to devices that no join has used for some time. */
extern void hjg_cl_trim_pools(void);

/* Compute the time limit of a driver, which tests shorten. */
extern int	hjg_cl_limit_ms(int usual_ms);
/* Write the name "opencl:N". */
extern void hjg_cl_name(int number, char *name, size_t room);

/*
 * Set how many compute units of a CPU device play the GPU; 0: half of them.  For benchmarks, before the
 * first join.
 */
extern void hjg_cl_set_units(int units);

/*
 * Add text to the programs of devices that are opened from now on: the kernels of a caller's own steps
 * (HjgOwnStep).  For benchmarks.
 */
extern void hjg_cl_set_text(const char *text);

/* Use copies even where memory is shared; for tests and benchmarks, before a runner is made. */
extern void hjg_cl_set_copies(bool copies);

/*
 * Open the listed device with this number for a joint run.  Returns a join's own runner, to be destroyed
 * by hjg_opencl_end(), and the number of CPU threads beside it; NULL with a reason.
 */
extern HjgRunner *hjg_opencl_begin(int device, int key_width, int *cpu_threads, char *reason, size_t room);
extern void hjg_opencl_end(HjgRunner *runner);

/* ---- device_opencl.c ---- */

/* Set the place of the costs that hjoin_gpu_calibrate() measured; NULL: none. */
extern void hjg_cl_costs_open(const HjgControl *control);

#endif							/* HJG_OPENCL_H */
