/*
 * service_calibration.c
 *	  The calibrated unit costs: an array in the arena, and a file in the data directory.
 *
 * In the arena a sequence number guards the array: odd while it is written, 0 if it was never set. The file is text: a line
 * with name and version, a line with the machine that was measured, one value a line, and a checksum of all these lines. The
 * file is copied with the data directory, so the calibration of another machine is ignored.
 */
#include "postgres.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "port/pg_crc32c.h"
#include "storage/fd.h"
#include "storage/procarray.h"

#include "service/hjg_service.h"
#include "service/hjg_service_private.h"

#define CALIBRATION_FILE "hjoin_gpu.calibration"
#define CALIBRATION_TEMPORARY CALIBRATION_FILE ".tmp."	/* and the writer's PID */
#define CALIBRATION_HEAD "hjoin_gpu calibration 15"
#define CHECKSUM_FORMAT "crc %08x\n"
#define MAX_FILE_BYTES 16384

typedef enum FileState
{
	FILE_ABSENT,
	FILE_FITS,
	FILE_OF_ANOTHER_MACHINE,
	FILE_DAMAGED,
	FILE_UNREADABLE				/* errno has the reason */
} FileState;

static unsigned
checksum_of(const char *text, size_t n)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, text, n);
	FIN_CRC32C(crc);
	return crc;
}

bool
hjg_service_calibration_get(double values[HJG_CALIBRATION_VALUES])
{
	if (hjg_arena_map.base == NULL || !hjg_arena_calibration(hjg_arena_map.control, values))
		return false;
	for (int i = 0; i < HJG_CALIBRATION_VALUES; i++)
		if (!isfinite(values[i]))
			return false;
	return true;
}

uint64
hjg_service_calibration_version(void)
{
	return hjg_arena_map.base == NULL ? 0 :
		__atomic_load_n(&hjg_arena_map.control->calibration_seq, __ATOMIC_ACQUIRE);
}

/* Publish the values; must not raise an error. */
static void
publish_values(const double *values)
{
	HjgControl *control = hjg_arena_map.control;
	uint64		seq = __atomic_load_n(&control->calibration_seq, __ATOMIC_SEQ_CST);

	/* of two writers at the same time one is enough */
	if (seq % 2 != 0 ||
		!__atomic_compare_exchange_n(&control->calibration_seq, &seq, seq + 1, false,
									 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return;
	for (int i = 0; i < HJG_CALIBRATION_VALUES; i++)
	{
		uint64		bits;

		memcpy(&bits, &values[i], sizeof(bits));
		__atomic_store_n(&control->calibration[i], bits, __ATOMIC_SEQ_CST);
	}
	__atomic_store_n(&control->calibration_seq, seq + 2, __ATOMIC_SEQ_CST);
}

/* Format the file's content for the values. */
static void
format_file(StringInfo text, const double *values)
{
	HjgMachine	machine;

	hjg_machine_here(&machine);
	initStringInfo(text);
	appendStringInfo(text, "%s\nmachine %d %d %s\n", CALIBRATION_HEAD, machine.cpus, machine.memory_mb, machine.model);
	for (int i = 0; i < HJG_CALIBRATION_VALUES; i++)
		appendStringInfo(text, "%.17g\n", values[i]);
	appendStringInfo(text, CHECKSUM_FORMAT, checksum_of(text->data, text->len));
}

/* Replace the file. After a failure there is no temporary file, and the old file is unchanged. */
static void
write_file(const double *values)
{
	char		path[MAXPGPATH];
	StringInfoData text;
	int			fd;
	bool		good;

	format_file(&text, values);
	snprintf(path, sizeof(path), "%s%d", CALIBRATION_TEMPORARY, MyProcPid);
	fd = OpenTransientFile(path, O_WRONLY | O_CREAT | O_TRUNC | PG_BINARY);
	if (fd < 0)
		ereport(ERROR,
				(errcode_for_file_access(), errmsg("could not create file \"%s\": %m", path)));
	errno = 0;
	good = write(fd, text.data, text.len) == text.len && pg_fsync(fd) == 0;
	if (!good || CloseTransientFile(fd) != 0)
	{
		/* a short write sets no errno, and means a full disk */
		int			saved = errno != 0 ? errno : ENOSPC;

		unlink(path);
		errno = saved;
		ereport(ERROR,
				(errcode_for_file_access(), errmsg("could not write file \"%s\": %m", path)));
	}
	PG_TRY();
	{
		durable_rename(path, CALIBRATION_FILE, ERROR);
	}
	PG_CATCH();
	{
		unlink(path);
		PG_RE_THROW();
	}
	PG_END_TRY();
	pfree(text.data);
}

void
hjg_service_calibration_set(const double values[HJG_CALIBRATION_VALUES])
{
	for (int i = 0; i < HJG_CALIBRATION_VALUES; i++)
		if (!isfinite(values[i]))
			elog(ERROR, "hjoin_gpu: calibrated value %d is not a finite number", i);
	if (hjg_arena_map.base == NULL)
		return;
	write_file(values);
	publish_values(values);
}

/* Parse the machine's line, and go to the next line; false if it is malformed. */
static bool
parse_machine(char **at, HjgMachine *machine)
{
	int			n = 0;
	size_t		length;

	if (sscanf(*at, "machine %d %d %n", &machine->cpus, &machine->memory_mb, &n) != 2 || n == 0)
		return false;
	*at += n;
	length = strcspn(*at, "\n");
	if (length >= sizeof(machine->model) || (*at)[length] != '\n')
		return false;
	strlcpy(machine->model, *at, length + 1);
	*at += length + 1;
	return true;
}

/* Parse the exact format of format_file(); a zero byte ends the text. */
static bool
parse_file(char *text, HjgMachine *machine, double *values)
{
	char	   *at = text + strlen(CALIBRATION_HEAD "\n");
	char		checksum[sizeof(CHECKSUM_FORMAT) + 8];

	if (strncmp(text, CALIBRATION_HEAD "\n", at - text) != 0 || !parse_machine(&at, machine))
		return false;
	for (int i = 0; i < HJG_CALIBRATION_VALUES; i++)
	{
		char	   *end;

		values[i] = strtod(at, &end);
		if (end == at || *end != '\n' || !isfinite(values[i]))
			return false;
		at = end + 1;
	}
	snprintf(checksum, sizeof(checksum), CHECKSUM_FORMAT, checksum_of(text, at - text));
	return strcmp(at, checksum) == 0;
}

/* Read the file; FILE_FITS if it was measured on this machine, and values are set. */
static FileState
read_file(double *values, HjgMachine *measured)
{
	static char text[MAX_FILE_BYTES + 1];
	struct stat st;
	FILE	   *file;
	size_t		n;
	HjgMachine	here;

	/* do not open anything else: a pipe would wait for its writer */
	if (stat(CALIBRATION_FILE, &st) != 0)
		return errno == ENOENT ? FILE_ABSENT : FILE_UNREADABLE;
	if (!S_ISREG(st.st_mode) || st.st_size > MAX_FILE_BYTES)
		return FILE_DAMAGED;
	file = AllocateFile(CALIBRATION_FILE, PG_BINARY_R);
	if (file == NULL)
		return FILE_UNREADABLE;
	n = fread(text, 1, MAX_FILE_BYTES, file);
	if (ferror(file))
	{
		int			saved = errno;

		FreeFile(file);
		errno = saved;
		return FILE_UNREADABLE;
	}
	FreeFile(file);
	text[n] = '\0';
	if (!parse_file(text, measured, values))
		return FILE_DAMAGED;
	hjg_machine_here(&here);
	return hjg_machine_same(measured, &here) ? FILE_FITS : FILE_OF_ANOTHER_MACHINE;
}

const char *
hjg_service_calibration_state(void)
{
	double		values[HJG_CALIBRATION_VALUES];
	HjgMachine	measured;

	if (hjg_service_calibration_get(values))
		return "calibrated";
	switch (read_file(values, &measured))
	{
		case FILE_OF_ANOTHER_MACHINE:
			return "default: the calibration is of another machine";
		case FILE_DAMAGED:
			return "default: the calibration is damaged";
		case FILE_UNREADABLE:
			return "default: the calibration cannot be read";
		case FILE_ABSENT:
		case FILE_FITS:
			break;
	}
	return "default";
}

/* Remove files of writers that ended early, as in a crash of the server. */
static void
remove_stale_files(void)
{
	DIR		   *dir = AllocateDir(".");
	struct dirent *entry;

	while ((entry = ReadDirExtended(dir, ".", LOG)) != NULL)
		if (strncmp(entry->d_name, CALIBRATION_TEMPORARY, strlen(CALIBRATION_TEMPORARY)) == 0 &&
			BackendPidGetProc(atoi(entry->d_name + strlen(CALIBRATION_TEMPORARY))) == NULL &&
			unlink(entry->d_name) != 0)
			ereport(LOG,
					(errcode_for_file_access(), errmsg("could not remove file \"%s\": %m", entry->d_name)));
	FreeDir(dir);
}

/* Publish the file's calibration; called by the supervisor at its start. */
void
hjg_service_calibration_load(void)
{
	double		values[HJG_CALIBRATION_VALUES];
	HjgMachine	measured;
	HjgMachine	here;

	remove_stale_files();
	switch (read_file(values, &measured))
	{
		case FILE_ABSENT:
			break;
		case FILE_FITS:
			publish_values(values);
			break;
		case FILE_OF_ANOTHER_MACHINE:
			hjg_machine_here(&here);
			ereport(LOG,
					(errmsg("file \"%s\" is of another machine and is ignored", CALIBRATION_FILE),
					 errdetail("It was measured with %d CPUs and %d MB (%s), this machine has %d and %d MB (%s).",
							   measured.cpus, measured.memory_mb, measured.model,
							   here.cpus, here.memory_mb, here.model),
					 errhint("Calibrate again.")));
			break;
		case FILE_DAMAGED:
			ereport(LOG,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("file \"%s\" is not a valid calibration and is ignored", CALIBRATION_FILE),
					 errhint("Calibrate again, or remove the file.")));
			break;
		case FILE_UNREADABLE:
			ereport(LOG,
					(errcode_for_file_access(), errmsg("could not read file \"%s\": %m", CALIBRATION_FILE)));
			break;
	}
}
