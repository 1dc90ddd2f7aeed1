/*
 * device_cuda_api.c
 *	  Opening libcuda.
 *
 * The library is opened by name and stays open: drivers start their own threads and cannot be unloaded
 * safely.  cuInit takes 100 ms and more, so only the thread that searches devices calls it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device/hjg_cuda.h"

#define LIBRARY "libcuda.so.1"

HjgCudaApi	hjg_cuda;

static const char *const symbols[] = {
#define SYMBOL(name, symbol, arguments) symbol,
	HJG_CUDA_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

#define NSYMBOLS (sizeof(symbols) / sizeof(symbols[0]))

_Static_assert(sizeof(HjgCudaApi) == NSYMBOLS * sizeof(void *), "the table holds pointers only");

static bool
open_library(char *reason, size_t room)
{
	void	   *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	HjgCudaApi	api;
	char	   *table = (char *) &api;

	if (library == NULL)
	{
		const char *why = dlerror();

		snprintf(reason, room, "%s", why != NULL ? why : LIBRARY " cannot be opened");
		return false;
	}
	for (size_t i = 0; i < NSYMBOLS; i++)
	{
		void	   *address = dlsym(library, symbols[i]);

		if (address == NULL)
		{
			snprintf(reason, room, "%s has no %s: the driver is too old", LIBRARY, symbols[i]);
			dlclose(library);
			return false;
		}
		memcpy(table + i * sizeof(void *), &address, sizeof(address));
	}
	hjg_cuda = api;
	return true;
}

/* Check for missing permissions: the driver then reports "no device". */
static bool
no_permission(char *reason, size_t room)
{
	static const char *const path = "/dev/nvidiactl";
	int			fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd >= 0)
	{
		close(fd);
		return false;
	}
	if (errno != EACCES && errno != EPERM)
		return false;
	snprintf(reason, room, "no permission to open %s", path);
	return true;
}

bool
hjg_cuda_open(char *reason, size_t room)
{
	static bool ready;
	const char *text = NULL;
	HjgCudaResult result;

	if (ready)
		return true;
	if (hjg_cuda_images[0].name == NULL)
	{
		snprintf(reason, room, "this program was built without CUDA's compiler");
		return false;
	}
	if (hjg_cuda.init == NULL && !open_library(reason, room))
		return false;
	result = hjg_cuda.init(0);
	if (result == HJG_CUDA_SUCCESS)
	{
		ready = true;
		return true;
	}
	if (no_permission(reason, room))
		return false;
	if (hjg_cuda.error_text(result, &text) != HJG_CUDA_SUCCESS || text == NULL)
		text = "unknown error";
	snprintf(reason, room, "the driver cannot be started: %s (%d)", text, result);
	return false;
}
