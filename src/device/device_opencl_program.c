/*
 * device_opencl_program.c
 *	  Opens an OpenCL device: its part, context and programs, and the test of shared memory.
 *
 * The OpenCL program's text is part of this program: the headers that C shares with OpenCL and the
 * kernels, concatenated in order without their #include lines.
 */
#define _GNU_SOURCE

#include "device/hjg_opencl.h"

#ifdef HJG_HAVE_OPENCL

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Embed the text of a file, with a zero byte after it. */
#define EMBED(name, path) \
	__asm__(".section .rodata\n" #name ":\n.incbin \"" path "\"\n.byte 0\n.previous\n"); \
	extern const char name[] __attribute__((visibility("hidden")))

EMBED(hjg_text_layout, "src/layout/hjg_layout.h");
EMBED(hjg_text_hash, "src/layout/hjg_hash.h");
EMBED(hjg_text_packed, "src/layout/hjg_packed.h");
EMBED(hjg_text_checksum, "src/layout/hjg_checksum.h");
EMBED(hjg_text_dialect, "kernels/hjg_dialect.h");
EMBED(hjg_text_steps, "kernels/hjg_steps.h");
EMBED(hjg_text_unpack, "kernels/hjg_unpack.h");
EMBED(hjg_text_kernels, "kernels/hjg_steps.cl");

/* Set by tests: treat the device as if it had its own memory. */
#define COPIES_VARIABLE "HJG_OPENCL_COPIES"

/* Set by tests: a kernel that does not build. */
#define SPOIL_VARIABLE "HJG_OPENCL_SPOIL"

static const int key_widths[HJG_CL_WIDTHS] = {HJG_KEY_WIDTH_4, HJG_KEY_WIDTH_8, HJG_KEY_WIDTH_16};

/* Text of the caller's own kernels, behind the engine's. */
static const char *own_text = "";

void
hjg_cl_set_text(const char *text)
{
	own_text = text;
}

/* Concatenate all parts without their #include lines; malloc'd. */
static char *
program_text(void)
{
	const char *const parts[] = {hjg_text_layout, hjg_text_hash, hjg_text_packed, hjg_text_checksum, hjg_text_dialect,
	hjg_text_steps, hjg_text_unpack, hjg_text_kernels, own_text};
	const int	nparts = (int) (sizeof(parts) / sizeof(parts[0]));
	size_t		room = 1;
	char	   *text;
	char	   *to;

	for (int i = 0; i < nparts; i++)
		room += strlen(parts[i]);
	text = malloc(room);
	if (text == NULL)
		return NULL;
	to = text;
	for (int i = 0; i < nparts; i++)
	{
		const char *line = parts[i];

		while (*line != '\0')
		{
			const char *end = strchr(line, '\n');
			size_t		n = end == NULL ? strlen(line) : (size_t) (end - line) + 1;

			if (strncmp(line, "#include \"", 10) != 0)
			{
				memcpy(to, line, n);
				to += n;
			}
			line += n;
		}
	}
	*to = '\0';
	return text;
}

/* Find the compiler's message: the first line with an error, or the first line. */
static void
build_reason(const HjgClApi *api, cl_program program, cl_device_id id, cl_int error, char *reason, size_t room)
{
	char	   *log = NULL;
	char	   *line;
	size_t		bytes = 0;

	snprintf(reason, room, "%s", hjg_cl_error_text(error));
	if (api->program_build_info(program, id, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) != CL_SUCCESS || bytes == 0 ||
		(log = malloc(bytes + 1)) == NULL)
		return;
	if (api->program_build_info(program, id, CL_PROGRAM_BUILD_LOG, bytes, log, NULL) == CL_SUCCESS)
	{
		log[bytes] = '\0';
		line = strstr(log, "error:");
		if (line == NULL)
			line = log;
		line[strcspn(line, "\n")] = '\0';
		if (*line != '\0')
			snprintf(reason, room, "program does not build: %s", line);
	}
	free(log);
}

static bool
build_programs(HjgClDevice *device, char *reason, size_t room)
{
	const HjgClApi *api = device->api;
	hjg_u64		started = hjg_now_ns();
	char	   *text = program_text();
	const char *source = text;
	bool		good = text != NULL;

	if (!good)
		snprintf(reason, room, "out of memory");
	for (int i = 0; i < HJG_CL_WIDTHS && good; i++)
	{
		char		options[128];
		cl_int		error;

		snprintf(options, sizeof(options), "-cl-std=CL1.2 -DHJG_KEY_WIDTH=%d%s", key_widths[i],
				 hjg_fault_variable(SPOIL_VARIABLE) != NULL ? " -Dbegin=1" : "");
		device->programs[i] = api->create_program(device->context, 1, &source, NULL, &error);
		if (error == CL_SUCCESS)
			error = api->build_program(device->programs[i], 1, &device->id, options, NULL, NULL);
		if (error != CL_SUCCESS)
		{
			good = false;
			if (device->programs[i] != NULL)
				build_reason(api, device->programs[i], device->id, error, reason, room);
			else
				snprintf(reason, room, "%s", hjg_cl_error_text(error));
		}
	}
	free(text);
	device->facts.build_ns = hjg_now_ns() - started;
	return good;
}

/* Check that the device reports what a join needs. */
static bool
check_facts(const HjgClFacts *facts, cl_uint units, char *reason, size_t room)
{
	if (facts->version < 120)
		snprintf(reason, room, "OpenCL 1.2 is needed");
	else if (units < 1 || units > 65536 || facts->max_group < 64 || facts->local_bytes < 1024 ||
			 facts->max_alloc_bytes < 16u << 20 || facts->align_bytes > 65536)
		snprintf(reason, room, "reports limits that make no sense");
	else
		return true;
	return false;
}

bool
hjg_cl_open(const HjgClApi *api, cl_device_id id, int units, HjgClDevice *device, char *reason, size_t room)
{
	HjgDeviceInfo info;
	cl_int		error = CL_SUCCESS;

	memset(device, 0, sizeof(*device));
	device->api = api;
	device->id = id;
	hjg_cl_facts(api, id, &device->facts, &info);
	device->units = info.compute_units;
	if (!check_facts(&device->facts, device->units, reason, room))
		return false;
	if (units > 0 && (cl_uint) units < device->units && device->facts.fission_by_counts)
	{
		const cl_device_partition_property division[] = {
			CL_DEVICE_PARTITION_BY_COUNTS, units, CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0
		};
		cl_uint		n = 0;

		error = api->create_sub_devices(id, division, 1, &device->id, &n);
		if (error != CL_SUCCESS || n < 1)
		{
			snprintf(reason, room, "%s", hjg_cl_error_text(error));
			return false;
		}
		device->is_part = true;
		device->units = (cl_uint) units;
	}
	device->context = api->create_context(NULL, 1, &device->id, NULL, NULL, &error);
	if (error != CL_SUCCESS)
	{
		snprintf(reason, room, "no context: %s", hjg_cl_error_text(error));
		device->context = NULL;
		hjg_cl_close(device);
		return false;
	}
	device->pool = hjg_cl_pool_create();
	if (device->pool == NULL)
		snprintf(reason, room, "out of memory");
	if (device->pool == NULL || !build_programs(device, reason, room))
	{
		hjg_cl_close(device);
		return false;
	}
	return true;
}

void
hjg_cl_close(HjgClDevice *device)
{
	for (int i = 0; i < HJG_CL_WIDTHS; i++)
		if (device->programs[i] != NULL)
			device->api->release_program(device->programs[i]);
	hjg_cl_pool_destroy(device);
	if (device->context != NULL)
		device->api->release_context(device->context);
	if (device->is_part)
		device->api->release_device(device->id);
	memset(device, 0, sizeof(*device));
}

#define SHARE_WORDS 65536

/* Launch the test over words, while the host increments word 0. */
static cl_int
run_shared_words(HjgClDevice *device, cl_command_queue queue, hjg_u32 *words, hjg_u32 *counted)
{
	const HjgClApi *api = device->api;
	const cl_uint n = SHARE_WORDS;
	const size_t items = SHARE_WORDS;
	const size_t group = 64;
	cl_kernel	kernel;
	cl_event	event = NULL;
	cl_int		state = CL_QUEUED;
	cl_int		error;
	cl_mem		buffer = api->create_buffer(device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
											SHARE_WORDS * sizeof(hjg_u32), words, &error);

	if (error != CL_SUCCESS)
		return error;
	kernel = api->create_kernel(device->programs[0], "hjg_k_share", &error);
	if (error != CL_SUCCESS)
	{
		api->release_mem(buffer);
		return error;
	}
	error = api->set_arg(kernel, 0, sizeof(buffer), &buffer);
	if (error == CL_SUCCESS)
		error = api->set_arg(kernel, 1, sizeof(n), &n);
	if (error == CL_SUCCESS)
		error = api->enqueue_kernel(queue, kernel, 1, NULL, &items, &group, 0, NULL, &event);
	if (error == CL_SUCCESS)
		error = api->flush(queue);
	while (error == CL_SUCCESS && state > CL_COMPLETE)
	{
		for (int i = 0; i < 64; i++, (*counted)++)
			__atomic_fetch_add(&words[0], 1, __ATOMIC_RELAXED);
		error = api->event_info(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state), &state, NULL);
	}
	if (error == CL_SUCCESS)
		error = state < 0 ? state : api->finish(queue);
	if (event != NULL)
		api->release_event(event);
	api->release_kernel(kernel);
	/* nothing is mapped back: the device's writes must already lie in host memory */
	api->release_mem(buffer);
	return error;
}

/* Run the same over a copy that is sent and read back through the queue; false: it came back wrong. */
static bool
run_copied(HjgClDevice *device, cl_command_queue queue, hjg_u32 *words, cl_int *error)
{
	const HjgClApi *api = device->api;
	const cl_uint n = SHARE_WORDS;
	const size_t items = SHARE_WORDS;
	const size_t group = 64;
	const size_t bytes = SHARE_WORDS * sizeof(hjg_u32);
	cl_kernel	kernel = NULL;
	bool		good = true;
	cl_mem		buffer = api->create_buffer(device->context, CL_MEM_READ_WRITE, bytes, NULL, error);

	if (*error != CL_SUCCESS)
		return false;
	for (hjg_u32 i = 0; i < n; i++)
		words[i] = i;
	*error = api->enqueue_write(queue, buffer, CL_FALSE, 0, bytes, words, 0, NULL, NULL);
	if (*error == CL_SUCCESS)
		kernel = api->create_kernel(device->programs[0], "hjg_k_share", error);
	if (*error == CL_SUCCESS)
		*error = api->set_arg(kernel, 0, sizeof(buffer), &buffer);
	if (*error == CL_SUCCESS)
		*error = api->set_arg(kernel, 1, sizeof(n), &n);
	if (*error == CL_SUCCESS)
		*error = api->enqueue_kernel(queue, kernel, 1, NULL, &items, &group, 0, NULL, NULL);
	if (*error == CL_SUCCESS)
		*error = api->enqueue_read(queue, buffer, CL_TRUE, 0, bytes, words, 0, NULL, NULL);
	good = *error == CL_SUCCESS && words[0] == SHARE_WORDS;
	for (hjg_u32 i = 1; i < n && good; i++)
		good = words[i] == 2 * i - 1;
	if (kernel != NULL)
		api->release_kernel(kernel);
	api->release_mem(buffer);
	return good;
}

bool
hjg_cl_test(HjgClDevice *device, char *reason, size_t room)
{
	const HjgClApi *api = device->api;
	hjg_u32		counted = 0;
	hjg_u32		wrong = 0;
	bool		good = true;
	cl_int		error;
	cl_command_queue queue = api->create_queue(device->context, device->id, 0, &error);
	hjg_u32    *words;

	if (error != CL_SUCCESS)
	{
		snprintf(reason, room, "no queue: %s", hjg_cl_error_text(error));
		return false;
	}
	words = aligned_alloc(65536, SHARE_WORDS * sizeof(hjg_u32));
	if (words == NULL)
	{
		snprintf(reason, room, "out of memory");
		api->release_queue(queue);
		return false;
	}
	memset(words, 0, SHARE_WORDS * sizeof(hjg_u32));
	/* the second buffer is new, and must show what the host wrote */
	for (int round = 0; round < 2 && error == CL_SUCCESS; round++)
		error = run_shared_words(device, queue, words, &counted);
	wrong = words[0] != counted + 2 * SHARE_WORDS;
	for (hjg_u32 i = 1; i < SHARE_WORDS; i++)
		wrong += words[i] != 2 * (i - 1);
	device->facts.sees_host = error == CL_SUCCESS && wrong == 0 && hjg_fault_variable(COPIES_VARIABLE) == NULL;
	if (!device->facts.sees_host && !run_copied(device, queue, words, &error) && error == CL_SUCCESS)
	{
		snprintf(reason, room, "a copy comes back wrong");
		good = false;
	}
	free(words);
	api->release_queue(queue);
	if (error != CL_SUCCESS)
		snprintf(reason, room, "test kernel failed: %s", hjg_cl_error_text(error));
	return good && error == CL_SUCCESS;
}

#else							/* !HJG_HAVE_OPENCL */

void
hjg_cl_set_text(const char *text)
{
}

#endif							/* HJG_HAVE_OPENCL */
