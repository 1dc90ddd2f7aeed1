/* sql/hjoin_gpu--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION hjoin_gpu" to load this file. \quit

-- Every function runs with a search_path of its own: who owns a schema that a
-- caller's search_path names must not stand behind anything that they do.

-- Devices -------------------------------------------------------------------

CREATE FUNCTION hjoin_gpu_devices(
    OUT name text,
    OUT kind text,
    OUT description text,
    OUT state text,
    OUT reason text,
    OUT memory_bytes bigint,
    OUT compute_units integer,
    OUT pid integer,
    OUT started timestamptz,
    OUT confinement text)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp;

COMMENT ON FUNCTION hjoin_gpu_devices() IS
'devices that the device process found, and why they cannot be used if so';

CREATE VIEW hjoin_gpu_devices AS
SELECT * FROM hjoin_gpu_devices();

GRANT SELECT ON hjoin_gpu_devices TO PUBLIC;

-- Jobs ----------------------------------------------------------------------

CREATE FUNCTION hjoin_gpu_jobs(
    OUT slot integer,
    OUT generation bigint,
    OUT pid integer,
    OUT role oid,
    OUT state text,
    OUT build_rows bigint,
    OUT build_rows_expected bigint,
    OUT probe_rows bigint,
    OUT probe_rows_expected bigint,
    OUT batches_in_flight integer,
    OUT arena_bytes bigint,
    OUT since timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp;

COMMENT ON FUNCTION hjoin_gpu_jobs() IS
'joins that use the device process now, with rows so far and as the planner expected; whose they are is shown to their role and to pg_read_all_stats';

CREATE VIEW hjoin_gpu_jobs AS
SELECT j.slot, j.generation, j.pid, r.rolname AS usename, j.state, j.build_rows, j.build_rows_expected,
       j.probe_rows, j.probe_rows_expected, j.batches_in_flight, j.arena_bytes, j.since
FROM hjoin_gpu_jobs() j LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) j.role;

GRANT SELECT ON hjoin_gpu_jobs TO PUBLIC;

-- Counters ------------------------------------------------------------------

CREATE FUNCTION hjoin_gpu_stat(
    OUT name text,
    OUT value bigint,
    OUT detail text)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp;

COMMENT ON FUNCTION hjoin_gpu_stat() IS
'counters since the start of the server or the last hjoin_gpu_stat_reset()';

CREATE VIEW hjoin_gpu_stat AS
SELECT * FROM hjoin_gpu_stat();

GRANT SELECT ON hjoin_gpu_stat TO PUBLIC;

CREATE FUNCTION hjoin_gpu_stat_reset()
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED
SET search_path = pg_catalog, pg_temp;

COMMENT ON FUNCTION hjoin_gpu_stat_reset() IS 'sets the counters to zero';

REVOKE ALL ON FUNCTION hjoin_gpu_stat_reset() FROM PUBLIC;

-- Memory --------------------------------------------------------------------

CREATE FUNCTION hjoin_gpu_arena(
    OUT total_bytes bigint,
    OUT leased_bytes bigint,
    OUT warm_bytes bigint,
    OUT workspace_bytes bigint)
RETURNS record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp;

COMMENT ON FUNCTION hjoin_gpu_arena() IS
'memory shared with the device process: in all, used by joins, idle but kept; and private memory of the device process';

-- Kept columns --------------------------------------------------------------

CREATE FUNCTION hjoin_gpu_cache(
    OUT database oid,
    OUT tablespace oid,
    OUT file oid,
    OUT attnum smallint,
    OUT code text,
    OUT segments bigint,
    OUT blocks bigint,
    OUT rows bigint,
    OUT bytes bigint,
    OUT blocks_served bigint,
    OUT blocks_read bigint,
    OUT blocks_verified bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp;

COMMENT ON FUNCTION hjoin_gpu_cache() IS
'columns of tables that are kept in memory between queries';

CREATE VIEW hjoin_gpu_cache AS
SELECT r.relation, a.attname AS "column", c.code, c.segments, c.blocks, c.rows, c.bytes, c.blocks_served, c.blocks_read, c.blocks_verified
FROM hjoin_gpu_cache() c
    JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) c.database
    CROSS JOIN LATERAL (SELECT pg_catalog.pg_filenode_relation(c.tablespace, c.file) AS relation) r
    JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) r.relation AND a.attnum OPERATOR(pg_catalog.=) c.attnum
WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database();

COMMENT ON VIEW hjoin_gpu_cache IS
'kept columns of this database; blocks_served, blocks_read and blocks_verified count the blocks of the table that scans took from memory, read, and compared';

GRANT SELECT ON hjoin_gpu_cache TO PUBLIC;

CREATE FUNCTION hjoin_gpu_cache_memory(
    OUT total_bytes bigint,
    OUT used_bytes bigint,
    OUT huge_pages boolean)
RETURNS record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp;

COMMENT ON FUNCTION hjoin_gpu_cache_memory() IS
'memory for kept columns: in all, and of it used; and whether it is in huge pages';

CREATE FUNCTION hjoin_gpu_huge_pages(
    OUT memory text,
    OUT state text,
    OUT used_bytes bigint,
    OUT huge_bytes bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp;

COMMENT ON FUNCTION hjoin_gpu_huge_pages() IS
'memory that processes share, and whether it is in huge pages: reserved ones, or collapsed by the kernel; bytes that were in use when that was last tried, and of them those in huge pages';

CREATE FUNCTION hjoin_gpu_keep(
    relation regclass,
    columns name[] DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp;

COMMENT ON FUNCTION hjoin_gpu_keep(regclass, name[]) IS
'keeps these columns of a table, or all; returns the number of its blocks of which they are kept';

-- Self-test -----------------------------------------------------------------

CREATE FUNCTION hjoin_gpu_self_test(
    build_rows bigint DEFAULT 100000,
    probe_rows bigint DEFAULT 1000000)
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp;

COMMENT ON FUNCTION hjoin_gpu_self_test(bigint, bigint) IS
'joins made-up rows in the device process and returns the number of pairs';

REVOKE ALL ON FUNCTION hjoin_gpu_self_test(bigint, bigint) FROM PUBLIC;

-- Calibration ---------------------------------------------------------------

CREATE FUNCTION hjoin_gpu_calibrate(
    OUT name text,
    OUT value double precision,
    OUT unit text,
    OUT default_value double precision,
    OUT device text,
    OUT source text)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp;

COMMENT ON FUNCTION hjoin_gpu_calibrate() IS
'measures the unit costs of the cost model on this machine and keeps them';

REVOKE ALL ON FUNCTION hjoin_gpu_calibrate() FROM PUBLIC;

CREATE FUNCTION hjoin_gpu_costs(
    OUT name text,
    OUT value double precision,
    OUT unit text,
    OUT default_value double precision,
    OUT device text,
    OUT source text)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED
SET search_path = pg_catalog, pg_temp;

COMMENT ON FUNCTION hjoin_gpu_costs() IS
'unit costs in force, and whether they are defaults, calibrated values or settings of this session';

CREATE VIEW hjoin_gpu_costs AS
SELECT * FROM hjoin_gpu_costs();

GRANT SELECT ON hjoin_gpu_costs TO PUBLIC;

-- Diagnosis -----------------------------------------------------------------

CREATE FUNCTION hjoin_gpu_doctor(
    OUT topic text,
    OUT ok boolean,
    OUT finding text,
    OUT advice text)
RETURNS SETOF record
LANGUAGE SQL VOLATILE PARALLEL RESTRICTED
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    WITH stat AS MATERIALIZED (SELECT name, value, detail FROM hjoin_gpu_stat()),
         counted AS (
             SELECT pg_catalog.jsonb_object_agg(name, value) AS n, pg_catalog.min(detail) FILTER (WHERE name = 'available') AS detail FROM stat),
         number AS (
             SELECT detail, (n->>'available')::bigint = 1 AS available, detail IS DISTINCT FROM 'no shared memory' AS is_there,
                    (n->>'joins')::bigint AS joins, (n->>'joins_partitioned')::bigint AS partitioned,
                    (n->>'largest_spilled_build_mb')::bigint AS largest_mb,
                    (n->>'device_deaths')::bigint + (n->>'fallback_device_timeout')::bigint AS ended,
                    (n->>'verified_mismatches')::bigint AS mismatches, (n->>'hook_taken')::bigint AS hook_taken,
                    (n->>'fallback_no_slot')::bigint AS no_slot,
                    (n->>'fallback_backend_share')::bigint + (n->>'fallback_role_share')::bigint AS no_share,
                    (n->>'fallback_arena_full')::bigint AS arena_full, (n->>'fallback_device_memory')::bigint AS device_memory
             FROM counted),
         device AS (
             SELECT pg_catalog.string_agg(name, ', ' ORDER BY name) FILTER (WHERE state = 'ready') AS ready,
                    pg_catalog.string_agg(pg_catalog.concat_ws(': ', name, reason), '; ' ORDER BY name) FILTER (WHERE state <> 'ready') AS failed,
                    -- a kind without a number has no driver, as on machines without such devices
                    pg_catalog.count(*) FILTER (WHERE state <> 'ready' AND pg_catalog.strpos(name, ':') > 0) AS nbroken
             FROM hjoin_gpu_devices()),
         machine AS (
             SELECT COALESCE(pg_catalog.max(source), 'not in force') AS source, pg_catalog.max(source) IN ('calibrated', 'setting') AS measured,
                    pg_catalog.current_setting('hjoin_gpu.auto_calibrate', true) AS automatic
             FROM hjoin_gpu_costs() WHERE name = 'small_unit'),
         memory AS (
             SELECT total_bytes / 1048576 AS total_mb, used_bytes / 1048576 AS used_mb FROM hjoin_gpu_cache_memory()),
         huge AS (
             SELECT pg_catalog.bool_and(state IN ('reserved', 'collapsed') OR mb < 256) AS ok, pg_catalog.sum(mb) / 2 + 8 AS npages,
                    pg_catalog.string_agg(pg_catalog.concat(h.memory, ': ', state, pg_catalog.format(', %s of %s MB in use', huge_bytes / 1048576, used_bytes / 1048576)), '; ' ORDER BY h.memory DESC) AS finding
             FROM hjoin_gpu_huge_pages() h,
                  LATERAL (SELECT CASE h.memory WHEN 'kept columns' THEN (SELECT total_mb FROM memory)
                                  ELSE (SELECT setting::bigint / 128 FROM pg_catalog.pg_settings WHERE name = 'shared_buffers') END AS mb) size),
         size AS (
             SELECT pg_catalog.count(*) AS nlarge FROM pg_catalog.pg_class
             WHERE relkind IN ('r', 'm') AND relpages > (SELECT setting::int FROM pg_catalog.pg_settings WHERE name = 'shared_buffers') / 4)
    SELECT topic, ok, finding, CASE WHEN NOT ok THEN advice END FROM (
        SELECT 'preload', is_there, CASE WHEN is_there THEN 'the library is active' ELSE detail END,
               'Add hjoin_gpu to shared_preload_libraries and restart the server; its log says why if that was done.'
        FROM number
        UNION ALL
        SELECT 'planner hook', hook_taken = 0, pg_catalog.format('%s queries were kept from the node by another library', hook_taken),
               'Load hjoin_gpu after that library in shared_preload_libraries.'
        FROM number
        UNION ALL
        SELECT 'device process', available AND ended = 0 AND mismatches = 0,
               pg_catalog.concat_ws('; ', CASE WHEN available THEN 'ready' ELSE detail END, 
                   pg_catalog.format('%s times it ended or did not answer, %s joins differed from core''s', ended, mismatches)),
               CASE WHEN mismatches > 0 THEN 'No join is run until hjoin_gpu_stat_reset(). Please report the join that the server log names.'
                    ELSE 'See the server log; raise hjoin_gpu.device_timeout if the machine is merely busy, and call hjoin_gpu_stat_reset().' END
        FROM number
        UNION ALL
        SELECT 'devices', nbroken = 0, pg_catalog.concat_ws('; not ready: ', COALESCE(ready, 'none'), failed),
               'Mend the driver, or do without the device: the cpu engine joins.'
        FROM device
        UNION ALL
        SELECT 'GPU memory', device_memory = 0, pg_catalog.format('%s joins or groupings found too little of it', device_memory),
               'Raise hjoin_gpu.device_memory, or let fewer sessions join at a time.'
        FROM number
        UNION ALL
        SELECT 'calibration', measured IS TRUE, 'costs are ' || source,
               CASE automatic WHEN 'off' THEN 'Call hjoin_gpu_calibrate().'
                    ELSE 'Call hjoin_gpu_calibrate(), or wait until the machine is idle: the server then does it.' END
        FROM machine
        UNION ALL
        SELECT 'job slots', no_slot + no_share = 0, pg_catalog.format('%s joins found none, %s were beyond the share of their session or role', no_slot, no_share),
               'Raise hjoin_gpu.backend_share and .role_share, or hjoin_gpu.arena_size; close cursors; or let fewer sessions join at a time.'
        FROM number
        UNION ALL
        SELECT 'arena', arena_full = 0, pg_catalog.format('%s joins found it full', arena_full), 'Raise hjoin_gpu.arena_size.'
        FROM number
        UNION ALL
        SELECT 'kept columns', total_mb > 0 AND used_mb * 10 < total_mb * 9, pg_catalog.format('%s of %s MB used', used_mb, total_mb),
               CASE total_mb WHEN 0 THEN 'Set hjoin_gpu.cache_size, so that columns are kept between queries.'
                    ELSE 'Raise hjoin_gpu.cache_size: columns that are used must make room for others.' END
        FROM memory
        UNION ALL
        SELECT 'table sizes', nlarge = 0, pg_catalog.format('%s tables of this database are larger than a quarter of shared_buffers', nlarge),
               'A sequential scan leaves no page of these there, and copies all of them the next time, which takes as long as reading them. Raise shared_buffers, '
               'or keep their columns (hjoin_gpu_keep()).'
        FROM size
        UNION ALL
        SELECT 'huge pages', ok, finding,
               pg_catalog.format('Each new process maps what it reads page by page. Have the kernel reserve %s huge pages of 2 MB more (vm.nr_hugepages), '
                                 'with huge_pages = try or on, and restart the server; or set hjoin_gpu.huge_pages = on.', npages)
        FROM huge
        UNION ALL
        SELECT 'memory of joins', partitioned * 20 <= joins, 
               pg_catalog.format('%s of %s joins went to temporary files, with build sides of up to %s MB', partitioned, joins, largest_mb),
               'Raise work_mem or hash_mem_multiplier, so that their product is more than that, if the machine has the memory.'
        FROM number) AS checks (topic, ok, finding, advice);
END;

COMMENT ON FUNCTION hjoin_gpu_doctor() IS
'what a user should change, a line for each topic';
