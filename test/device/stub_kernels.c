/*
 * stub_kernels.c
 *	  Finds the emulated kernels by their names.
 */
#include <stdlib.h>
#include <string.h>

#include "hjg_stub_kernels.h"

/*
 * True if the name is the kernel's; *width is then the number behind the stem, and *rest the text behind
 * that.
 */
static bool
is_kernel(const StubKernel *kernel, const char *name, int *width, const char **rest)
{
	const size_t n = strlen(kernel->stem);
	char	   *end;

	*width = 0;
	*rest = "";
	if (strncmp(name, kernel->stem, n) != 0 || (name[n] != '\0' && name[n] != '_'))
		return false;
	if (kernel->plain)
		return true;
	if (name[n] == '\0')
		return false;
	*width = (int) strtol(name + n + 1, &end, 10);
	*rest = end;
	return *width == 4 || *width == 8 || *width == 16;
}

bool
hjg_stub_find_kernel(const char *name, StubFunction *function)
{
	static const StubKernel *const lists[] = {hjg_stub_csr, hjg_stub_resident, hjg_stub_literature, hjg_stub_match, hjg_stub_program};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		for (const StubKernel *kernel = lists[i]; kernel->stem != NULL; kernel++)
		{
			const char *rest;
			int			width;

			if (!is_kernel(kernel, name, &width, &rest))
				continue;
			*function = (StubFunction) {.run = kernel->run, .width = width};
			strncpy(function->rest, rest, sizeof(function->rest) - 1);
			return true;
		}
	return false;
}
