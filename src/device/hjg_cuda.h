/*
 * hjg_cuda.h
 *	  NVIDIA GPUs through the driver API: declarations that the files device_cuda_*.c share.  Internal
 *	  to the room "device".
 *
 * Nothing here links against CUDA.  libcuda.so.1 is opened by name when devices are searched; the
 * functions used are declared below.  The kernels (kernels/X.cu, one image a file, with machine code for
 * every target and PTX) are part of the program.  A program built without nvcc has no images, and its list
 * of devices says so.
 *
 * Layers, from below:
 *		api			the functions of libcuda
 *		device		one GPU: facts, its primary context (made at the first
 *					join, once a process), images, kernels by name
 *		memory		blocks of device memory from one budget a device
 *		stream		one stream and waiting for it; the only place where
 *					kernels are launched and copies are queued
 *		strategy	a resident join: both sides lie in device memory
 *		driver		HjgDriver "cuda": arena in, strategy, arena out
 *
 * Programs (hjg_cuda_program.h) use the layers up to streams.
 *
 * Threads.  A stream and everything that belongs to it are used by one thread at a time.  All threads may
 * use devices and memory.  A thread makes the context current with hjg_cuda_enter() before it uses a
 * stream.
 *
 * Errors.  Every call of the api goes through hjg_cuda_check() or the functions below.  After an error
 * that leaves the context unusable (an address fault, a lost device, a kernel that outlives the watchdog)
 * the process cannot go on: it notes the failure in the device half and exits, its jobs are finished by
 * their backends, and the supervisor restarts it.  All other errors are HJG_ERR_MEMORY or HJG_ERR_DEVICE,
 * with the driver's text in stream->error.
 */
#ifndef HJG_CUDA_H
#define HJG_CUDA_H

#include <stdio.h>

#include "device/hjg_device.h"

/* ---- device_cuda_api.c: libcuda ---- */

typedef int HjgCudaResult;		/* CUresult */
typedef int HjgCudaNumber;		/* CUdevice */
typedef hjg_u64 HjgCudaPtr;		/* CUdeviceptr; 0 = none */
typedef struct HjgCudaContextObject *HjgCudaContext;
typedef struct HjgCudaModuleObject *HjgCudaModule;
typedef struct HjgCudaFunctionObject *HjgCudaFunction;
typedef struct HjgCudaStreamObject *HjgCudaStreamHandle;
typedef struct HjgCudaEventObject *HjgCudaEvent;

/* Values of cuda.h that are used here. */
#define HJG_CUDA_SUCCESS 0
#define HJG_CUDA_ERROR_INVALID_VALUE 1
#define HJG_CUDA_ERROR_OUT_OF_MEMORY 2
#define HJG_CUDA_ERROR_INVALID_IMAGE 200
#define HJG_CUDA_ERROR_NO_BINARY 209
#define HJG_CUDA_ERROR_INVALID_PTX 218
#define HJG_CUDA_ERROR_NOT_FOUND 500
#define HJG_CUDA_ERROR_NOT_READY 600
#define HJG_CUDA_ERROR_LAUNCH_RESOURCES 701
#define HJG_CUDA_ERROR_HOST_REGISTERED 712
#define HJG_CUDA_ERROR_HOST_NOT_REGISTERED 713
#define HJG_CUDA_ERROR_NOT_SUPPORTED 801
#define HJG_CUDA_STREAM_NON_BLOCKING 1
#define HJG_CUDA_EVENT_DEFAULT 0
#define HJG_CUDA_EVENT_NO_TIMING 2
#define HJG_CUDA_HOST_PORTABLE 1
#define HJG_CUDA_HOST_READ_ONLY 8	/* for registering only: CU_MEMHOSTREGISTER_READ_ONLY */
#define HJG_CUDA_MULTIPROCESSORS 16		/* CU_DEVICE_ATTRIBUTE_... */
#define HJG_CUDA_COMPUTE_MODE 20
#define HJG_CUDA_L2_BYTES 38
#define HJG_CUDA_CC_MAJOR 75
#define HJG_CUDA_CC_MINOR 76
#define HJG_CUDA_SHARED_OPTIN 97
#define HJG_CUDA_MODE_PROHIBITED 2
#define HJG_CUDA_FUNC_DYNAMIC_SHARED 8	/* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */

/* F(name here, name in libcuda, arguments): one line a function. */
#define HJG_CUDA_FUNCTIONS(F) \
	F(init, "cuInit", (unsigned flags)) \
	F(error_text, "cuGetErrorString", (HjgCudaResult result, const char **text)) \
	F(device_count, "cuDeviceGetCount", (int *count)) \
	F(device_get, "cuDeviceGet", (HjgCudaNumber *device, int number)) \
	F(device_name, "cuDeviceGetName", (char *name, int room, HjgCudaNumber device)) \
	F(device_memory, "cuDeviceTotalMem_v2", (size_t *bytes, HjgCudaNumber device)) \
	F(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, HjgCudaNumber device)) \
	F(context_retain, "cuDevicePrimaryCtxRetain", (HjgCudaContext *context, HjgCudaNumber device)) \
	F(context_set, "cuCtxSetCurrent", (HjgCudaContext context)) \
	F(memory_info, "cuMemGetInfo_v2", (size_t *free_bytes, size_t *total_bytes)) \
	F(memory_alloc, "cuMemAlloc_v2", (HjgCudaPtr *ptr, size_t bytes)) \
	F(memory_free, "cuMemFree_v2", (HjgCudaPtr ptr)) \
	F(host_alloc, "cuMemHostAlloc", (void **ptr, size_t bytes, unsigned flags)) \
	F(host_free, "cuMemFreeHost", (void *ptr)) \
	F(host_register, "cuMemHostRegister_v2", (void *ptr, size_t bytes, unsigned flags)) \
	F(host_unregister, "cuMemHostUnregister", (void *ptr)) \
	F(copy_in, "cuMemcpyHtoDAsync_v2", (HjgCudaPtr to, const void *from, size_t bytes, HjgCudaStreamHandle stream)) \
	F(copy_out, "cuMemcpyDtoHAsync_v2", (void *to, HjgCudaPtr from, size_t bytes, HjgCudaStreamHandle stream)) \
	F(copy_within, "cuMemcpyDtoDAsync_v2", (HjgCudaPtr to, HjgCudaPtr from, size_t bytes, HjgCudaStreamHandle stream)) \
	F(set_bytes, "cuMemsetD8Async", (HjgCudaPtr ptr, unsigned char value, size_t n, HjgCudaStreamHandle stream)) \
	F(set_words, "cuMemsetD32Async", (HjgCudaPtr ptr, unsigned value, size_t n, HjgCudaStreamHandle stream)) \
	F(module_load, "cuModuleLoadData", (HjgCudaModule *module, const void *image)) \
	F(module_function, "cuModuleGetFunction", (HjgCudaFunction *function, HjgCudaModule module, const char *name)) \
	F(module_global, "cuModuleGetGlobal_v2", (HjgCudaPtr *ptr, size_t *bytes, HjgCudaModule module, const char *name)) \
	F(function_set, "cuFuncSetAttribute", (HjgCudaFunction function, int attribute, int value)) \
	F(occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor", \
	  (int *blocks, HjgCudaFunction function, int block_threads, size_t shared_bytes)) \
	F(launch, "cuLaunchKernel", (HjgCudaFunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, \
								 unsigned by, unsigned bz, unsigned shared_bytes, HjgCudaStreamHandle stream, \
								 void **params, void **extra)) \
	F(stream_create, "cuStreamCreate", (HjgCudaStreamHandle *stream, unsigned flags)) \
	F(stream_destroy, "cuStreamDestroy_v2", (HjgCudaStreamHandle stream)) \
	F(stream_wait, "cuStreamWaitEvent", (HjgCudaStreamHandle stream, HjgCudaEvent event, unsigned flags)) \
	F(event_create, "cuEventCreate", (HjgCudaEvent *event, unsigned flags)) \
	F(event_destroy, "cuEventDestroy_v2", (HjgCudaEvent event)) \
	F(event_record, "cuEventRecord", (HjgCudaEvent event, HjgCudaStreamHandle stream)) \
	F(event_query, "cuEventQuery", (HjgCudaEvent event)) \
	F(event_elapsed, "cuEventElapsedTime", (float *ms, HjgCudaEvent from, HjgCudaEvent to))

typedef struct HjgCudaApi
{
#define HJG_CUDA_DECLARE(name, symbol, arguments) HjgCudaResult (*name) arguments;
	HJG_CUDA_FUNCTIONS(HJG_CUDA_DECLARE)
#undef HJG_CUDA_DECLARE
} HjgCudaApi;

extern HjgCudaApi hjg_cuda;

/*
 * Open libcuda and initialise it; calls after a failure try again.  False, with the reason as text, when
 * there is no usable driver.
 */
extern bool hjg_cuda_open(char *reason, size_t room);

/* ---- device_cuda_device.c: devices, contexts, kernels ---- */

/* An image in the program; the build makes the table, which ends with a NULL. */
typedef struct HjgCudaImage
{
	const char *name;			/* of the file in kernels/, without .cu */
	const char *bytes;
} HjgCudaImage;

extern const HjgCudaImage hjg_cuda_images[];
#define HJG_CUDA_MAX_IMAGES 32
#define HJG_CUDA_MAX_DEVICES 8
#define HJG_CUDA_LEAST_CC 75	/* oldest compute capability that has machine code */

/* Device memory of one device; device_cuda_memory.c. */
typedef struct HjgCudaPool HjgCudaPool;

typedef struct HjgCudaDevice
{
	int			number;			/* N of cuda:N */
	HjgDeviceName name;
	HjgCudaNumber handle;
	int			multiprocessors;
	int			compute_capability; /* 75, 80, ... */
	size_t		l2_bytes;
	size_t		shared_bytes;	/* most shared memory of a block */
	size_t		memory_bytes;
	double		identity;		/* hjg_gpu_identity(), by which its calibrated costs are found */
	HjgCudaContext context;		/* NULL until the first join */
	HjgCudaModule modules[HJG_CUDA_MAX_IMAGES]; /* NULL until a kernel of it is used */
	HjgCudaPool *pool;
} HjgCudaDevice;

/*
 * Search devices, as HjgDriver.list; may be called again and keeps the devices found before.  When there
 * is none, one entry has the reason.
 */
extern int	hjg_cuda_list(HjgDeviceInfo *devices, int room);

/* Find the device and make its context current in this thread; NULL with the reason as text on failure. */
extern HjgCudaDevice *hjg_cuda_enter(int number, char *reason, size_t room);
/* Find the device; NULL when it has no context yet. */
extern HjgCudaDevice *hjg_cuda_made(int number);
/*
 * Set the device memory that all joins together may use on each device; before the first context.  0: most
 * of it.
 */
extern void hjg_cuda_set_budget(size_t bytes);

/*
 * A kernel: a static variable of the code that launches it, with the image (file) and the name.  Any
 * thread's first use on a device fills in the other members.
 */
typedef struct HjgCudaKernel
{
	const char *image;
	const char *name;
	HjgCudaFunction functions[HJG_CUDA_MAX_DEVICES];
	unsigned	shared_bytes[HJG_CUDA_MAX_DEVICES];	/* dynamic shared memory that the driver allows it */
} HjgCudaKernel;

#define HJG_CUDA_KERNEL(variable, image_name) \
	static HjgCudaKernel variable = {.image = image_name, .name = #variable}

/* An image of the laboratory: the product's joins with the output of benchmarks. */
#define HJG_CUDA_LAB_IMAGE "cuda_kinds"

/* The kernels of a join by HjgCudaKind. */
#define HJG_CUDA_KERNELS_BY_KIND(image_name, stem) { \
	[HJG_CUDA_CHECKSUM] = {.image = HJG_CUDA_LAB_IMAGE, .name = stem "_checksum"}, \
	[HJG_CUDA_PAIRS] = {.image = image_name, .name = stem "_pairs"}, \
	[HJG_CUDA_COLUMNS] = {.image = HJG_CUDA_LAB_IMAGE, .name = stem "_columns"}, \
}

/* Load a kernel; returns the driver's result. For hjg_cuda_launch() and the like. */
extern HjgCudaResult hjg_cuda_kernel_load(HjgCudaDevice *device, HjgCudaKernel *kernel, unsigned shared_bytes);

/* ---- device_cuda_memory.c: device memory ---- */

/* Make a pool; the budget of a device is budget_bytes, or most of its free memory when that is 0. */
extern HjgCudaPool *hjg_cuda_pool_create(size_t budget_bytes);
extern size_t hjg_cuda_pool_budget(const HjgCudaPool *pool);

/* Compute the bytes of a grant that an allocation uses. */
extern size_t hjg_cuda_block_bytes(size_t bytes);

/* A part of a device's budget: the memory that a job may hold at one time. */
typedef struct HjgCudaGrant
{
	HjgCudaPool *pool;
	size_t		bytes;			/* granted */
	size_t		used_bytes;
	size_t		peak_bytes;
} HjgCudaGrant;

/*
 * Request a part of the budget; requests are served in order.  HJG_ERR_MEMORY when it exceeds the budget,
 * too many wait, or wait_ms have passed.
 */
extern HjgStatus hjg_cuda_admit(HjgCudaPool *pool, size_t bytes, const HjgEnv *env, unsigned wait_ms,
								HjgCudaGrant *grant);
/*
 * Request memory that a job can do without: granted at once, if no job waits and enough is left for
 * others.
 */
extern HjgStatus hjg_cuda_admit_spare(HjgCudaPool *pool, size_t bytes, HjgCudaGrant *grant);
/* Add to a grant, as hjg_cuda_admit(). */
extern HjgStatus hjg_cuda_admit_more(HjgCudaGrant *grant, size_t bytes, const HjgEnv *env, unsigned wait_ms);
extern void hjg_cuda_dismiss(HjgCudaGrant *grant);

/*
 * Set the function that frees granted memory which nobody needs now, about as much as asked for; it returns false when there is
 * none.  It is called, by any thread, before a request for memory fails or waits.
 */
typedef bool (*HjgCudaReclaim) (void *arg, size_t bytes);
extern void hjg_cuda_pool_reclaim(HjgCudaPool *pool, HjgCudaReclaim reclaim, void *arg);

static inline void
hjg_cuda_grant_use(HjgCudaGrant *grant, size_t bytes)
{
	grant->used_bytes += bytes;
	/* read by threads that collect statistics */
	if (grant->used_bytes > grant->peak_bytes)
		__atomic_store_n(&grant->peak_bytes, grant->used_bytes, __ATOMIC_RELAXED);
}

/* Allocate a block, as cuMemAlloc, reusing freed blocks. */
extern HjgCudaResult hjg_cuda_block_take(HjgCudaGrant *grant, size_t bytes, HjgCudaPtr *ptr);
/* Find the bytes of the grant that the block uses. */
extern size_t hjg_cuda_block_size(HjgCudaPool *pool, HjgCudaPtr ptr);
/* Keep the block for the next request of its size. */
extern void hjg_cuda_block_give(HjgCudaPool *pool, HjgCudaPtr ptr);
/* Free blocks that were unused for idle_ms; the context is current.  Returns the bytes that are left. */
extern size_t hjg_cuda_pool_trim(HjgCudaPool *pool, unsigned idle_ms);

/* ---- device_cuda_stream.c: streams ---- */

/* Phases of the time on a device, as EXPLAIN shows them. */
typedef enum HjgCudaPhase
{
	HJG_CUDA_IDLE,
	HJG_CUDA_TRANSFER_IN,
	HJG_CUDA_PARTITION,
	HJG_CUDA_BUILD,
	HJG_CUDA_PROBE,
	HJG_CUDA_GATHER,			/* payload columns */
	HJG_CUDA_TRANSFER_OUT,
	HJG_CUDA_PHASES
} HjgCudaPhase;

#define HJG_CUDA_MARKS 64
#define HJG_CUDA_PARKED 32

typedef struct HjgCudaStream
{
	HjgCudaDevice *device;
	const HjgEnv *env;			/* polled while waiting; may be NULL */
	HjgCudaGrant *grant;		/* for hjg_cuda_alloc() */
	HjgCudaStreamHandle handle;
	HjgCudaEvent done;
	HjgCudaEvent marks[HJG_CUDA_MARKS];
	HjgCudaPhase mark_phase[HJG_CUDA_MARKS];
	int			nmarks;
	HjgCudaPtr	parked[HJG_CUDA_PARKED];	/* freed, but queued work may use them */
	int			nparked;
	bool		busy;			/* something was queued since the last wait */
	hjg_u64		phase_ns[HJG_CUDA_PHASES];	/* of work that has ended */
	char		error[128];		/* text of the last error */
} HjgCudaStream;

extern HjgStatus hjg_cuda_stream_open(HjgCudaStream *stream, HjgCudaDevice *device, const HjgEnv *env, HjgCudaGrant *grant);
/* Wait for queued work and close the stream. */
extern void hjg_cuda_stream_close(HjgCudaStream *stream);

/*
 * Convert the driver's result to a status, with its text in stream->error; does not return after an error
 * that makes the context unusable.
 */
extern HjgStatus hjg_cuda_check(HjgCudaStream *stream, HjgCudaResult result, const char *what);

/* Allocate device memory, at least 256-byte aligned, not zeroed.  HJG_ERR_MEMORY beyond the grant. */
extern HjgStatus hjg_cuda_alloc(HjgCudaStream *stream, size_t bytes, HjgCudaPtr *ptr);
/*
 * Free device memory.  Work that uses it must have ended, or be queued on the same stream as the next
 * user.
 */
extern void hjg_cuda_free(HjgCudaStream *stream, HjgCudaPtr ptr);

/*
 * Queue a launch; an empty grid launches nothing.  params as for cuLaunchKernel: addresses of the
 * arguments.  Launches should end within about 20 ms on any data, since a cancelled job waits for them.
 */
extern HjgStatus hjg_cuda_launch(HjgCudaStream *stream, HjgCudaKernel *kernel, unsigned blocks, unsigned block_threads,
								 unsigned shared_bytes, void **params);

/* Count the blocks of the kernel that fit a multiprocessor at a time; HJG_ERR_DEVICE when none fits. */
extern HjgStatus hjg_cuda_occupancy(HjgCudaStream *stream, HjgCudaKernel *kernel, unsigned block_threads,
									unsigned shared_bytes, int *blocks);

extern HjgStatus hjg_cuda_copy_in(HjgCudaStream *stream, HjgCudaPtr to, const void *from, size_t bytes);
extern HjgStatus hjg_cuda_copy_out(HjgCudaStream *stream, void *to, HjgCudaPtr from, size_t bytes);
extern HjgStatus hjg_cuda_zero(HjgCudaStream *stream, HjgCudaPtr ptr, size_t bytes);

/* Attribute the device's time for work queued from here on to the phase. */
extern HjgStatus hjg_cuda_mark(HjgCudaStream *stream, HjgCudaPhase phase);
/* Let later work on stream wait for work queued so far on other. */
extern HjgStatus hjg_cuda_follow(HjgCudaStream *stream, HjgCudaStream *other);
/* Launch as many blocks as fit the device at a time, but at most most; one argument. */
extern HjgStatus hjg_cuda_launch_filling(HjgCudaStream *stream, HjgCudaKernel *kernel, unsigned block_threads,
										 unsigned shared_bytes, hjg_u64 most, void *args);
/*
 * Wait for all queued work, polling env.  HJG_ERR_CANCELLED when env says so, but only after the queue has
 * drained: after the return nothing writes to memory of the job, whatever the status.
 */
extern HjgStatus hjg_cuda_wait(HjgCudaStream *stream);

/* ---- strategies: joins of sides in device memory ---- */

/* One side of a join, in device memory. */
typedef struct HjgCudaSide
{
	HjgCudaPtr	keys;			/* nrows * key_width, at least 16-byte aligned */
	hjg_u64		nrows;
	HjgCudaPtr	rows;			/* hjg_u32 row numbers, or 0: position i is row i */
} HjgCudaSide;

/* The sizes of a join that are known before it is built. */
typedef struct HjgCudaShape
{
	int			key_width;		/* 4, 8 or 16 */
	HjgMatchMode mode;
	hjg_u64		build_rows;
	hjg_u64		probe_rows;		/* The output of a probe: pairs in any order.  counters[0] counts all its
								 * pairs; if they exceed capacity, the pairs are void (nothing is written
								 * beyond capacity), and the driver takes its bounded path. */
	bool		wide_rows;		/* benchmarks: rows are hjg_u64, with keys of 8 bytes */
} HjgCudaShape;

/*
 * A round's output: pairs in any order.  counters[0] counts all pairs of the
 * probe; when that exceeds capacity the pairs are void (but nothing beyond
 * capacity was written), and the driver takes its bounded path instead.
 */
typedef struct HjgCudaOutput
{
	HjgCudaPtr	pairs;			/* HjgPair[capacity] */
	HjgCudaPtr	keys;			/* or, for benchmarks, columns: keys, */
	HjgCudaPtr	build_rows;		/* build rows */
	HjgCudaPtr	probe_rows;		/* and probe rows */
	hjg_u64		capacity;
	HjgCudaPtr	counters;		/* hjg_u64[2], zeroed by the caller: number of pairs; a checksum if neither
								 * pairs nor columns are written */
} HjgCudaOutput;

/* More pairs than any two sides have: the keys do not suit, see verify. */
#define HJG_CUDA_UNSUITED (~0ull)

/*
 * The part of the output that is written; an index into tables of kernels.  Queries get pairs, the others
 * are for benchmarks.
 */
typedef enum HjgCudaKind
{
	HJG_CUDA_CHECKSUM,
	HJG_CUDA_PAIRS,
	HJG_CUDA_COLUMNS,
	HJG_CUDA_KINDS
} HjgCudaKind;

static inline HjgCudaKind
hjg_cuda_kind(const HjgCudaOutput *output)
{
	return output->pairs != 0 ? HJG_CUDA_PAIRS : output->keys != 0 ? HJG_CUDA_COLUMNS : HJG_CUDA_CHECKSUM;
}

/*
 * A resident join.  All functions queue their work on the stream and wait only when they need a size.
 * Partition and bucket numbers come from the most significant bits of the mixed key (hjg_hash.h).
 */
typedef struct HjgCudaStrategy
{
	const char *name;			/* in hjoin_gpu.strategy and benchmarks */
	bool		unique;			/* HJG_NEEDS_UNIQUE: build() refuses repeated keys */
	bool		shared;			/* probe() may run on several streams at a time, and never refuses */
	/* True if the join is possible on this device. */
	bool		(*suits) (const HjgCudaDevice *device, const HjgCudaShape *shape);
	/* Bound the device memory of build and probe at one time, without the sides and the output. */
	size_t		(*bytes) (const HjgCudaDevice *device, const HjgCudaShape *shape);
	/*
	 * Queue the building of a table; the build side must stay unchanged until free.  HJG_ERR_INPUT, with
	 * all memory freed, when the keys do not suit: another strategy must be used.
	 */
	HjgStatus	(*build) (HjgCudaStream *stream, const HjgCudaShape *shape, const HjgCudaSide *build, void **table);
	/*
	 * Not NULL if queued work finds out whether the keys suit: wait for it; HJG_ERR_INPUT if they do not.
	 * A probe before that counts HJG_CUDA_UNSUITED pairs if they do not suit, or may take very long.
	 */
	HjgStatus	(*verify) (HjgCudaStream *stream, void *table);
	/* Queue a probe, any number of times and on any stream; one at a time unless the strategy is shared. */
	HjgStatus	(*probe) (HjgCudaStream *stream, void *table, const HjgCudaSide *probe, const HjgCudaOutput *output);
	void		(*free) (HjgCudaStream *stream, void *table);
} HjgCudaStrategy;

/* Define hjg_cuda_<name> with the other members; its row in hjg_strategy.h has the keys that it takes. */
#define HJG_CUDA_STRATEGY(its_name, ...) const HjgCudaStrategy hjg_cuda_##its_name = {.name = #its_name, __VA_ARGS__}

/* Most chunks of build rows, each the size of a table, in which a partition may be joined. */
#define HJG_CUDA_MOST_CHUNKS 16

/* Compute the most build rows of a partition; in every mode but ALL they must fit one table. */
static inline hjg_u64
hjg_cuda_most_part_rows(HjgMatchMode mode, hjg_u32 table_rows)
{
	return mode == HJG_MATCH_ALL ? HJG_CUDA_MOST_CHUNKS * (hjg_u64) table_rows : table_rows;
}

/* device_cuda_strategies.c */

/* Further strategies, of the laboratory; ends with NULL.  Set before the first join, or NULL. */
extern const HjgCudaStrategy *const *hjg_cuda_further_strategies;
/*
 * Find strategy ix: first those of HjgCudaStrategyId in order, without csr, which is no HjgCudaStrategy;
 * then the further ones; NULL behind the last.
 */
extern const HjgCudaStrategy *hjg_cuda_strategy_at(int ix);
/* Build a table and verify it; after an error there is no table. */
extern HjgStatus hjg_cuda_strategy_build(const HjgCudaStrategy *strategy, HjgCudaStream *stream, const HjgCudaShape *shape,
										 const HjgCudaSide *build, void **table);
/* device_cuda_table.c, device_cuda_packed.c, device_cuda_parts.c */
#define STRATEGY(engine, number, id, name, needs) extern const HjgCudaStrategy hjg_cuda_##name;
HJG_CUDA_RESIDENT_STRATEGIES(STRATEGY)
#undef STRATEGY

#endif							/* HJG_CUDA_H */
