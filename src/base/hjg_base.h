/*
 * hjg_base.h
 *	  Settings (GUCs) and small helpers for every room that runs inside PostgreSQL.
 *
 * Room "base": uses the layout only. All settings of hjoin_gpu are declared here and defined in one alphabetical table in
 * base_guc.c.
 */
#ifndef HJG_BASE_H
#define HJG_BASE_H

#include "postgres.h"

#include "postmaster/bgworker.h"

#include "layout/hjg_clock.h"
#include "layout/hjg_device_id.h"
#include "layout/hjg_strategy.h"

typedef enum HjgAutoCalibrate
{
	HJG_AUTO_CALIBRATE_OFF,
	HJG_AUTO_CALIBRATE_IDLE,
	HJG_AUTO_CALIBRATE_START
} HjgAutoCalibrate;

typedef enum HjgBloomFilter
{
	HJG_BLOOM_FILTER_AUTO,
	HJG_BLOOM_FILTER_ON,
	HJG_BLOOM_FILTER_OFF
} HjgBloomFilter;

typedef enum HjgMaterialization
{
	HJG_MATERIALIZATION_AUTO,
	HJG_MATERIALIZATION_LATE,
	HJG_MATERIALIZATION_EARLY
} HjgMaterialization;

typedef enum HjgOnFallback
{
	HJG_FALLBACK_SILENT,
	HJG_FALLBACK_LOG,
	HJG_FALLBACK_ERROR
} HjgOnFallback;

/* The settings.  Costs are in PostgreSQL's units (a sequential page fetch is 1); -1 means calibrated. */
extern bool hjg_aggregate;
extern int	hjg_arena_size_mb;
extern int	hjg_auto_calibrate;	/* HjgAutoCalibrate */
extern int	hjg_backend_share;
extern int	hjg_bloom_filter;
extern double hjg_build_tuple_cost;
extern int	hjg_cache_size_mb;
extern bool hjg_confine_device;
extern int	hjg_cpu_threads;
extern HjgDeviceId hjg_device_asked;	/* hjoin_gpu.device, parsed */
extern int	hjg_device_memory_mb;
extern char *hjg_device_program;
extern int	hjg_device_timeout_ms;
extern bool hjg_direct_scan;
extern double hjg_emit_tuple_cost;
extern bool hjg_enabled;
extern bool hjg_explain_declined;
extern bool hjg_float_sums;
extern bool hjg_force;
extern bool hjg_huge_pages;
extern int	hjg_idle_share;
extern int	hjg_in_backend_rows;
extern bool hjg_kept_columns;
extern bool hjg_programs;
extern double hjg_marshal_tuple_cost;
extern int	hjg_materialization;
extern int	hjg_on_fallback;
extern int	hjg_pipeline;		/* HjgPipeline */
extern double hjg_probe_tuple_cost;
extern int	hjg_role_share;
extern double hjg_startup_cost;
extern int	hjg_strategy;		/* a number of hjg_strategy.h */
extern double hjg_transfer_cost;
extern bool hjg_unnest_subqueries;
extern double hjg_verify_share;

/* WAIT(identifier, name): what a server process waits for, by the name that pg_stat_activity shows. */
#define HJG_WAITS(WAIT) \
	WAIT(TURN, "HjoinGpuTurn")	/* for a job slot or shared memory */ \
	WAIT(RESULT, "HjoinGpuResult")	/* for the device process */ \
	WAIT(BUILD, "HjoinGpuBuild")	/* for other processes that read the build side of a join, or build its table */ \
	WAIT(UNMATCHED, "HjoinGpuUnmatched")	/* for other processes of a join, before unmatched build rows are returned */ \
	WAIT(GROUPS, "HjoinGpuGroups")	/* for other processes of a grouping */ \
	WAIT(HUGE_PAGES, "HjoinGpuHugePages")	/* between two ranges of shared buffers that get huge pages */

typedef enum HjgWait
{
#define WAIT(identifier, name) HJG_WAIT_##identifier,
	HJG_WAITS(WAIT)
#undef WAIT
	HJG_NWAITS
} HjgWait;

/* Have the server name wait events, which it can from PostgreSQL 17 on; each time that the postmaster has made its shared memory. */
extern void hjg_base_name_waits(void);
/* Get the server's number of a wait event; raises no error, so that a process may wait while it holds something. */
extern uint32 hjg_base_wait_event(HjgWait wait);

/* Describe a background worker with access to shared memory, which is started once; function: its main function in this library. */
extern void hjg_base_describe_worker(BackgroundWorker *worker, const char *name, const char *function, BgWorkerStartTime start);

/* Define all settings; postmaster-only ones only if preloaded. */
extern void hjg_base_define_gucs(bool preloaded, int default_arena_mb);

#endif							/* HJG_BASE_H */
