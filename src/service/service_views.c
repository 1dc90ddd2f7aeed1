/*
 * service_views.c
 *	  Views of the service: devices, jobs, counters, memory.
 *
 * Everything is read from the arena without a lock, so a row may mix two moments. Without an arena the functions return no
 * rows, or zeros with the reason.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "service/hjg_service.h"
#include "service/hjg_service_private.h"

PG_FUNCTION_INFO_V1(hjoin_gpu_devices);
PG_FUNCTION_INFO_V1(hjoin_gpu_jobs);
PG_FUNCTION_INFO_V1(hjoin_gpu_stat);
PG_FUNCTION_INFO_V1(hjoin_gpu_stat_reset);
PG_FUNCTION_INFO_V1(hjoin_gpu_arena);

/* Convert microseconds since the Unix epoch. */
static Datum
timestamp_of(uint64 unix_us)
{
	return TimestampTzGetDatum((TimestampTz) unix_us -
							   (TimestampTz) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY);
}

/* Read a text of the arena; NULL if it is empty. */
static Datum
text_datum(const char *chars, size_t room, bool *isnull)
{
	char		copy[sizeof(((HjgDeviceInfo *) NULL)->description)];

	hjg_check_text_copy(copy, chars, Min(room, sizeof(copy)));
	*isnull = copy[0] == '\0';
	return CStringGetTextDatum(copy);
}

/* Read a number of the device half, which may have any value. */
static Datum
bytes_datum(const uint64 *word)
{
	return Int64GetDatum((int64) Min(__atomic_load_n(word, __ATOMIC_RELAXED), (uint64) PG_INT64_MAX));
}

static bool
device_process_ready(void)
{
	return __atomic_load_n(&hjg_arena_map.control->ready_epoch, __ATOMIC_SEQ_CST) ==
		__atomic_load_n(&hjg_arena_map.control->epoch, __ATOMIC_SEQ_CST);
}

/* Describe how the device process is confined. */
static Datum
confinement_of(uint32 confined)
{
	const uint32 landlock = confined >> HJG_CONFINED_LANDLOCK_SHIFT;

	if (confined == 0)
		return CStringGetTextDatum("none");
	return CStringGetTextDatum(psprintf("%s, %s, %s", (confined & HJG_CONFINED_NO_NEW_PRIVS) ? "no new privileges" : "new privileges",
										(confined & HJG_CONFINED_SECCOMP) ? "seccomp" : "no seccomp",
										landlock > 0 ? psprintf("landlock %u", landlock) : "no landlock"));
}

Datum
hjoin_gpu_devices(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const HjgControl *control = hjg_arena_map.control;
	bool		ready;

	InitMaterializedSRF(fcinfo, 0);
	if (hjg_arena_map.base == NULL)
		return (Datum) 0;

	ready = device_process_ready();
	for (int i = 0; i < HJG_MAX_DEVICES; i++)
	{
		const HjgDeviceInfo *device = &hjg_arena_map.view.block->devices[i];
		uint32		state = __atomic_load_n(&device->state, __ATOMIC_ACQUIRE);
		const HjgDeviceId id = hjg_service_device_id((uint32) i);
		uint32		pid = __atomic_load_n(&control->device_pid, __ATOMIC_RELAXED);
		Datum		values[10];
		bool		nulls[10] = {0};

		if (state == HJG_DEVICE_ABSENT)
			continue;
		values[0] = CStringGetTextDatum(hjg_device_name(id).text);
		values[1] = CStringGetTextDatum(hjg_device_kind(id.kind)->engine);
		values[2] = text_datum(device->description, sizeof(device->description), &nulls[2]);
		values[3] = CStringGetTextDatum(!ready ? "down" : state == HJG_DEVICE_READY ? "ready" : "failed");
		if (ready)
			values[4] = text_datum(device->reason, sizeof(device->reason), &nulls[4]);
		else
			values[4] = CStringGetTextDatum(psprintf("device process %s", hjg_down_text(control->down_cause,
																						 control->down_detail)));
		values[5] = bytes_datum(&device->memory_bytes);
		values[6] = Int32GetDatum((int32) Min(device->compute_units, PG_INT32_MAX));
		values[7] = Int32GetDatum((int32) pid);
		nulls[7] = pid == 0;
		values[8] = timestamp_of(control->device_started_us);
		nulls[8] = pid == 0;
		values[9] = confinement_of(__atomic_load_n(&hjg_arena_map.view.block->confined, __ATOMIC_RELAXED));
		nulls[9] = !ready;
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}

	/* no device process has run so far: say why */
	if (!ready && __atomic_load_n(&hjg_arena_map.view.block->devices[0].state, __ATOMIC_ACQUIRE) == HJG_DEVICE_ABSENT)
	{
		Datum		values[10] = {0};
		bool		nulls[10];

		memset(nulls, true, sizeof(nulls));
		values[3] = CStringGetTextDatum("down");
		values[4] = CStringGetTextDatum(psprintf("device process %s", hjg_down_text(control->down_cause,
																					 control->down_detail)));
		nulls[3] = nulls[4] = false;
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

static const char *
job_state_text(const HjgJobReport *report, uint64 word, bool suspended, bool program)
{
	switch (HJG_WORD_STATE(word))
	{
		case HJG_JOB_LEASED:
			break;
		case HJG_JOB_ABANDONED:
			return "abandoned";
		case HJG_JOB_SWEEPING:
			return "ending";
		default:
			return "unknown";
	}
	if (suspended)
		return "suspended";
	switch (hjg_op_state(&report->build))
	{
		case HJG_OP_FILLING:
			return "filling";
		case HJG_OP_QUEUED:
			return "queued";
		case HJG_OP_RUNNING:
			return program ? "program" : "building";
		case HJG_OP_READY:
			return program ? "program" : "probing";
		default:
			return "ending";
	}
}

/* The expected number of rows, which is at most the largest that the view can show; 0: unknown. */
static Datum
expected_datum(const uint64 *rows, bool *isnull)
{
	*isnull = __atomic_load_n(rows, __ATOMIC_RELAXED) == 0;
	return bytes_datum(rows);
}

Datum
hjoin_gpu_jobs(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		all_roles = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);

	InitMaterializedSRF(fcinfo, 0);
	if (hjg_arena_map.base == NULL)
		return (Datum) 0;

	for (int ix = 0; ix < HJG_MAX_JOBS; ix++)
	{
		const HjgJobSlot *job = &hjg_arena_map.jobs[ix];
		const HjgJobReport *report = hjg_slot_report(&hjg_arena_map, job);
		const HjgShareJob *held = &hjg_arena_map.control->share.jobs[ix];
		uint64		word = __atomic_load_n(&job->word, __ATOMIC_SEQ_CST);
		Oid			role = __atomic_load_n(&job->owner_role, __ATOMIC_RELAXED);
		bool		visible = all_roles || has_privs_of_role(GetUserId(), role);
		int			in_flight = 0;
		const bool	program = __atomic_load_n(&job->spec.mode, __ATOMIC_RELAXED) == HJG_MATCH_PROGRAM;
		Datum		values[12];
		bool		nulls[12] = {0};

		if (HJG_WORD_STATE(word) == HJG_JOB_FREE)
			continue;
		for (int b = 0; b < HJG_MAX_BATCHES; b++)
		{
			uint32		state = hjg_op_state(&report->batches[b]);

			in_flight += state == HJG_OP_QUEUED || state == HJG_OP_RUNNING || state == HJG_OP_READY;
		}
		values[0] = Int32GetDatum(ix);
		values[1] = Int64GetDatum(HJG_WORD_GENERATION(word));
		values[2] = Int32GetDatum((int32) __atomic_load_n(&job->owner_pid, __ATOMIC_RELAXED));
		values[3] = ObjectIdGetDatum(role);
		values[4] = CStringGetTextDatum(job_state_text(report, word, __atomic_load_n(&held->suspended, __ATOMIC_RELAXED) != 0, program));
		values[5] = Int64GetDatum((int64) __atomic_load_n(&job->build.nrows, __ATOMIC_RELAXED));
		values[6] = expected_datum(&job->spec.build_rows, &nulls[6]);
		values[7] = bytes_datum(&job->probed_rows);
		values[8] = expected_datum(&job->spec.probe_rows, &nulls[8]);
		/* a program has no sides */
		nulls[5] = nulls[7] = program;
		values[9] = Int32GetDatum(in_flight);
		values[10] = Int64GetDatum((int64) __atomic_load_n(&held->nslabs, __ATOMIC_RELAXED) * HJG_SLAB_BYTES);
		values[11] = timestamp_of(__atomic_load_n(&job->since_us, __ATOMIC_RELAXED));
		if (!visible)
			memset(&nulls[2], true, sizeof(nulls) - 2 * sizeof(nulls[0]));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

static const struct
{
	const char *row;
	const char *detail;
}			counter_texts[] = {
#define COUNTER(name, row, detail) {row, detail},
	HJG_COUNTERS(COUNTER)
#undef COUNTER
};

static void
put_stat(ReturnSetInfo *rsinfo, const char *name, uint64 value, const char *detail)
{
	Datum		values[3];
	bool		nulls[3] = {false, false, detail == NULL};

	values[0] = CStringGetTextDatum(name);
	values[1] = Int64GetDatum((int64) value);
	values[2] = detail ? CStringGetTextDatum(detail) : (Datum) 0;
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

Datum
hjoin_gpu_stat(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const HjgControl *control = hjg_arena_map.control;
	HjgReason	reason;
	bool		available = hjg_service_available(&reason);

	InitMaterializedSRF(fcinfo, 0);
	put_stat(rsinfo, "available", available, available ? NULL : hjg_reasons[reason].text);
	for (int i = 0; i < HJG_COUNT_COUNT; i++)
		put_stat(rsinfo, counter_texts[i].row, control ? __atomic_load_n(&control->counters[i], __ATOMIC_RELAXED) : 0, counter_texts[i].detail);
	for (int i = 0; i < HJG_REASON_COUNT; i++)
		if (hjg_reasons[i].counter != NULL)
			put_stat(rsinfo, hjg_reasons[i].counter,
					 control ? __atomic_load_n(&control->fallbacks[i], __ATOMIC_RELAXED) : 0, hjg_reasons[i].text);
	return (Datum) 0;
}

Datum
hjoin_gpu_stat_reset(PG_FUNCTION_ARGS)
{
	HjgControl *control = hjg_arena_map.control;

	if (control == NULL)
		PG_RETURN_VOID();
	for (int i = 0; i < HJG_CONTROL_COUNTERS; i++)
		__atomic_store_n(&control->counters[i], 0, __ATOMIC_RELAXED);
	for (int i = 0; i < HJG_CONTROL_FALLBACKS; i++)
		__atomic_store_n(&control->fallbacks[i], 0, __ATOMIC_RELAXED);
	/* try resting devices again */
	for (int i = 0; i < HJG_MAX_DEVICES; i++)
	{
		__atomic_store_n(&hjg_arena_map.view.block->health[i].failures, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&hjg_arena_map.view.block->health[i].rest_until_ns, 0, __ATOMIC_SEQ_CST);
	}
	__atomic_store_n(&control->reset_us, hjg_wall_us(), __ATOMIC_RELAXED);
	PG_RETURN_VOID();
}

Datum
hjoin_gpu_arena(PG_FUNCTION_ARGS)
{
	TupleDesc	tupdesc;
	HjgArenaUse use = {0};
	Datum		values[4];
	bool		nulls[4] = {0};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (hjg_arena_map.base != NULL)
		hjg_arena_use(&hjg_arena_map, &use);
	values[0] = Int64GetDatum((int64) use.total_bytes);
	values[1] = Int64GetDatum((int64) use.leased_bytes);
	values[2] = Int64GetDatum((int64) use.warm_bytes);
	values[3] = hjg_arena_map.base == NULL ? Int64GetDatum(0) : bytes_datum(&hjg_arena_map.view.block->workspace_bytes);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}
