/*
 * service_calibration.c
 *	  The calibrated unit costs: an array in the arena, kept in a file of the
 *	  data directory.
 *
 * In the arena a sequence number guards the array: odd while it is written,
 * 0 while it was never set.  The file is text: a first line with name and
 * version, one value a line, and a last line with a checksum of the values.
 */
#include "postgres.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/procarray.h"

#include "service/hjg_service.h"
#include "service/hjg_service_private.h"

#define CALIBRATION_FILE "hjoin_gpu.calibration"
#define CALIBRATION_TEMPORARY CALIBRATION_FILE ".tmp."	/* and the writer's PID */
#define CALIBRATION_HEAD "hjoin_gpu calibration 7"

static uint64
sum_of(const double *values)
{
	return hash_bytes_extended((const unsigned char *) values, HJG_CALIBRATION_VALUES * sizeof(double), 0);
}

bool
hjg_service_calibration_get(double values[HJG_CALIBRATION_VALUES])
{
	StaticAssertStmt(HJG_CALIBRATION_VALUES == HJG_CONTROL_CALIBRATION, "the same values");

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

/* No error may be raised in here. */
static void
publish(const double *values)
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

static void
write_file(const double *values)
{
	char		path[MAXPGPATH];
	FILE	   *file;
	bool		good;

	snprintf(path, sizeof(path), "%s%d", CALIBRATION_TEMPORARY, MyProcPid);
	file = AllocateFile(path, PG_BINARY_W);
	if (file == NULL)
		ereport(ERROR,
				(errcode_for_file_access(), errmsg("could not create file \"%s\": %m", path)));
	good = fprintf(file, "%s\n", CALIBRATION_HEAD) > 0;
	for (int i = 0; i < HJG_CALIBRATION_VALUES && good; i++)
		good = fprintf(file, "%.17g\n", values[i]) > 0;
	good = good && fprintf(file, "sum %016llx\n", (unsigned long long) sum_of(values)) > 0;
	good = good && fflush(file) == 0 && pg_fsync(fileno(file)) == 0;
	if (FreeFile(file) != 0 || !good)
	{
		int			saved = errno;

		unlink(path);
		errno = saved;
		ereport(ERROR,
				(errcode_for_file_access(), errmsg("could not write file \"%s\": %m", path)));
	}
	durable_rename(path, CALIBRATION_FILE, ERROR);
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
	publish(values);
}

static bool
parse_file(FILE *file, double *values)
{
	char		line[128];
	unsigned long long sum;

	if (fgets(line, sizeof(line), file) == NULL || strcmp(line, CALIBRATION_HEAD "\n") != 0)
		return false;
	for (int i = 0; i < HJG_CALIBRATION_VALUES; i++)
	{
		char	   *end;

		if (fgets(line, sizeof(line), file) == NULL)
			return false;
		values[i] = strtod(line, &end);
		if (end == line || *end != '\n' || !isfinite(values[i]))
			return false;
	}
	return fgets(line, sizeof(line), file) != NULL && sscanf(line, "sum %llx", &sum) == 1 &&
		sum == sum_of(values);
}

/* Remove the files of writers that ended before they were done, as in a crash of the server. */
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

/* Supervisor, at its start. */
void
hjg_calibration_load(void)
{
	double		values[HJG_CALIBRATION_VALUES];
	FILE	   *file;

	remove_stale_files();
	file = AllocateFile(CALIBRATION_FILE, PG_BINARY_R);
	if (file == NULL)
	{
		if (errno != ENOENT)
			ereport(LOG,
					(errcode_for_file_access(), errmsg("could not open file \"%s\": %m", CALIBRATION_FILE)));
		return;
	}
	if (parse_file(file, values))
		publish(values);
	else
		ereport(LOG,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("file \"%s\" is not a valid calibration and is ignored", CALIBRATION_FILE),
				 errhint("Calibrate again, or remove the file.")));
	FreeFile(file);
}
