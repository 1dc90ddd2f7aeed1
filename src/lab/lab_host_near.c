/*
 * lab_host_near.c
 *	  Staging of rows that lie on another NUMA node than the device: the host's threads copy them to pinned
 *	  memory of the device's node, and the device's copies read that (Sioulas et al., ICDE 2019, IV.B and
 *	  figure 16).
 *
 * The memory is a ring of slots; a slot is free when the device has read it.  Threads of their own copy, as
 * those that partition are busy during the first set.  Not here: threads that partition only rows of their
 * own node.  On a host with one node nothing is far, unless everything is to be copied.
 */
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lab/hjg_cuda_host.h"
#include "lab/hjg_lab_stream.h"

#define NEAR_THREADS 4
#define PART_BYTES ((size_t) 256 << 10)	/* that a thread copies at a time */
#define MOST_NODES 64
#define POLICY_BIND 2			/* MPOL_BIND */
#define NODE_OF_ADDRESS 3		/* MPOL_F_NODE | MPOL_F_ADDR */

int
hjg_lab_near_nodes(void)
{
	char		path[64];
	int			n = 0;

	for (int node = 0; node < MOST_NODES; node++)
	{
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%d", node);
		n += access(path, F_OK) == 0;
	}
	return n;
}

/* Find the node of a device; 0 if the system does not tell. */
static int
node_of_device(const HjgCudaDevice *device)
{
	void	   *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	HjgCudaResult (*bus_id) (char *id, int room, HjgCudaNumber device) = NULL;
	char		id[32] = "";
	char		path[96];
	FILE	   *file;
	int			node = 0;

	if (library != NULL)
		*(void **) &bus_id = dlsym(library, "cuDeviceGetPCIBusId");
	if (bus_id == NULL || bus_id(id, sizeof(id), device->handle) != HJG_CUDA_SUCCESS)
		return 0;
	for (char *c = id; *c != '\0'; c++)
		*c = (char) (*c >= 'A' && *c <= 'F' ? *c - 'A' + 'a' : *c);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", id);
	file = fopen(path, "r");
	if (file != NULL)
	{
		if (fscanf(file, "%d", &node) != 1 || node < 0)
			node = 0;
		(void) fclose(file);
	}
	return node;
}

static bool
is_far(const HjgCudaNear *near, const void *ptr)
{
	int			node = near->node;

	if (near->all)
		return true;
#ifdef SYS_get_mempolicy
	if (syscall(SYS_get_mempolicy, &node, NULL, 0, ptr, NODE_OF_ADDRESS) != 0)
		return false;
#endif
	return node != near->node;
}

HjgStatus
hjg_lab_near_open(HjgCudaStream *stream, int key_width, hjg_u64 slot_rows, bool all, HjgCudaNear *near)
{
	HjgStatus	status;

	*near = (HjgCudaNear) {
		.all = all, .node = node_of_device(stream->device), .slot_rows = slot_rows, .slot_bytes = slot_rows * (size_t) (key_width + 4)
	};
	near->pool = hjg_pool_create(NEAR_THREADS);
	near->memory = mmap(NULL, HJG_CUDA_NEAR_SLOTS * near->slot_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (near->pool == NULL || near->memory == MAP_FAILED)
		return HJG_ERR_MEMORY;
#ifdef SYS_mbind
	if (hjg_lab_near_nodes() > 1)
	{
		const unsigned long nodes = 1ul << near->node;

		(void) syscall(SYS_mbind, near->memory, HJG_CUDA_NEAR_SLOTS * near->slot_bytes, POLICY_BIND, &nodes, MOST_NODES, 0);
	}
#endif
	memset(near->memory, 0, HJG_CUDA_NEAR_SLOTS * near->slot_bytes);
	status = hjg_cuda_check(stream, hjg_cuda.host_register(near->memory, HJG_CUDA_NEAR_SLOTS * near->slot_bytes, HJG_CUDA_HOST_PORTABLE),
							"pinned memory");
	near->registered = status == HJG_OK;
	for (int i = 0; i < HJG_CUDA_NEAR_SLOTS && status == HJG_OK; i++)
	{
		status = hjg_lab_note_open(stream, &near->read[i]);
		if (status == HJG_OK)
			status = hjg_lab_note(stream, near->read[i]);
	}
	return status;
}

void
hjg_lab_near_close(HjgCudaStream *stream, HjgCudaNear *near)
{
	for (int i = 0; i < HJG_CUDA_NEAR_SLOTS; i++)
		hjg_lab_note_close(stream, &near->read[i]);
	if (near->registered)
		(void) hjg_cuda.host_unregister(near->memory);
	if (near->memory != NULL && near->memory != MAP_FAILED)
		munmap(near->memory, HJG_CUDA_NEAR_SLOTS * near->slot_bytes);
	if (near->pool != NULL)
		hjg_pool_destroy(near->pool);
	memset(near, 0, sizeof(*near));
}

typedef struct NearCopy
{
	char	   *to;
	const char *from;
	size_t		bytes;
} NearCopy;

static void
copy_near_part(void *arg, int piece, int worker)
{
	const NearCopy *copy = arg;
	const size_t at = (size_t) piece * PART_BYTES;

	(void) worker;
	memcpy(copy->to + at, copy->from + at, copy->bytes - at < PART_BYTES ? copy->bytes - at : PART_BYTES);
}

static void
copy_near(HjgCudaNear *near, char *to, const void *from, size_t bytes)
{
	NearCopy	copy = {to, from, bytes};

	hjg_pool_run(near->pool, (int) ((bytes + PART_BYTES - 1) / PART_BYTES), copy_near_part, &copy);
	near->staged_bytes += bytes;
}

HjgStatus
hjg_lab_near_stage(HjgCudaStream *stream, HjgCudaNear *near, int key_width, HjgCudaRun *run, HjgCudaEvent *read)
{
	const size_t keys_bytes = near->slot_rows * (size_t) key_width;
	char	   *slot;
	HjgCudaResult result;

	*read = NULL;
	if (!is_far(near, run->keys))
		return HJG_OK;
	near->turn = (near->turn + 1) % HJG_CUDA_NEAR_SLOTS;
	slot = near->memory + (size_t) near->turn * near->slot_bytes;
	while ((result = hjg_cuda.event_query(near->read[near->turn])) == HJG_CUDA_ERROR_NOT_READY)
		nanosleep(&(struct timespec) {0, 20000}, NULL);
	copy_near(near, slot, run->keys, run->nrows * (size_t) key_width);
	copy_near(near, slot + keys_bytes, run->rows, run->nrows * sizeof(hjg_u32));
	run->keys = slot;
	run->rows = (const hjg_u32 *) (slot + keys_bytes);
	*read = near->read[near->turn];
	return hjg_cuda_check(stream, result, "event_query");
}
