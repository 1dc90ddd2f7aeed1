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
    OUT batches_in_flight integer,
    OUT arena_bytes bigint,
    OUT since timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp;

COMMENT ON FUNCTION hjoin_gpu_jobs() IS
'joins that use the device process now; whose they are is shown to their role and to pg_read_all_stats';

CREATE VIEW hjoin_gpu_jobs AS
SELECT j.slot, j.generation, j.pid, r.rolname AS usename, j.state, j.build_rows,
       j.batches_in_flight, j.arena_bytes, j.since
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
