/*
 * service_machine.c
 *	  The machine of a calibration: its processors and its memory.
 *
 * A machine's name would not identify it: it is copied with images, containers have none, and a virtual machine may get other
 * processors.
 */
#include "postgres.h"

#include <sched.h>
#include <unistd.h>

#include "storage/fd.h"

#include "service/hjg_service_private.h"

/* Keys in /proc/cpuinfo, of x86-64 and arm64, whose values neither a restart nor new microcode changes. */
static const char *const model_keys[] = {
	"vendor_id", "cpu family", "model", "model name",
	"CPU implementer", "CPU architecture", "CPU variant", "CPU part"
};

/* Append the value of a line "key : value" if the key is one of the model's. */
static void
append_model(char *model, size_t room, char *line)
{
	char	   *value = strchr(line, ':');
	size_t		n = strcspn(line, "\t:");

	if (value == NULL)
		return;
	value += strspn(value, ": \t");
	value[strcspn(value, "\n")] = '\0';
	for (size_t i = 0; i < lengthof(model_keys); i++)
		if (strlen(model_keys[i]) == n && strncmp(line, model_keys[i], n) == 0)
		{
			if (model[0] != '\0')
				strlcat(model, " ", room);
			strlcat(model, value, room);
		}
}

/* Get the model of the first processor; "unknown" if the kernel does not tell. */
static void
find_model(char *model, size_t room)
{
	FILE	   *file = AllocateFile("/proc/cpuinfo", "r");
	char		line[512];

	model[0] = '\0';
	while (file != NULL && fgets(line, sizeof(line), file) != NULL && line[0] != '\n')
		append_model(model, room, line);
	if (file != NULL)
		FreeFile(file);
	if (model[0] == '\0')
		strlcpy(model, "unknown", room);
}

/* Describe the machine that this process runs on. */
void
hjg_machine_here(HjgMachine *machine)
{
	cpu_set_t	set;

	machine->cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : (int) sysconf(_SC_NPROCESSORS_ONLN);
	machine->memory_mb = (int) (sysconf(_SC_PHYS_PAGES) / (1024 * 1024 / sysconf(_SC_PAGESIZE)));
	find_model(machine->model, sizeof(machine->model));
}

/* Are the machines the same? The kernel reserves a varying amount of memory, so a quarter more counts as the same. */
bool
hjg_machine_same(const HjgMachine *a, const HjgMachine *b)
{
	double		less = Min(a->memory_mb, b->memory_mb);
	double		more = Max(a->memory_mb, b->memory_mb);

	return a->cpus == b->cpus && more <= less * 1.25 && strcmp(a->model, b->model) == 0;
}
