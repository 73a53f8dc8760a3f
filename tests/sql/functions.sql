-- The functions and tables that look into a store, and what they answer to a wrong call.
.load build/memwal
.mode list
.nullvalue NULL
CREATE VIRTUAL TABLE t USING memwal(id TEXT PRIMARY KEY, n INTEGER, background = off);
CREATE VIRTUAL TABLE "odd 'name" USING memwal(a);
CREATE TABLE ordinary(a);

-- nothing to flush, nothing to merge
SELECT memwal_count('t'), memwal_flush('t'), memwal_merge('t'), memwal_check('t');

INSERT INTO t VALUES ('a', 1), ('b', 2), ('c', 3);
SELECT memwal_count('t'), memwal_flush('t');
DELETE FROM t WHERE id = 'a';
UPDATE t SET n = 20 WHERE id = 'b';
SELECT memwal_count('t'), memwal_flush('main.t');
SELECT name, value FROM memwal_stats('t')
 WHERE name IN ('rows', 'physical_rows', 'generations', 'generation_rows', 'base_rows');
SELECT kind, level, generation, rows, tombstones, bytes > 0, id_min, id_max
  FROM memwal_files('t') WHERE kind = 'table' ORDER BY generation;
SELECT memwal_merge('t'), memwal_check('t');
SELECT name, value FROM memwal_stats('t')
 WHERE name IN ('rows', 'physical_rows', 'generations', 'generation_rows', 'base_rows');
SELECT * FROM t;

-- a transaction's own changes count
BEGIN;
INSERT INTO t VALUES ('d', 4);
SELECT memwal_count('t'), count(*) FROM t;
SELECT memwal_flush('t');
SELECT memwal_merge('t');
SELECT memwal_check('t');
ROLLBACK;
SELECT memwal_count('t'), count(*) FROM t;

-- integer ids, names that need quotes
INSERT INTO "odd 'name" VALUES ('x'), ('y');
SELECT memwal_count('"odd ''name"'), memwal_flush('main."odd ''name"');
SELECT rows, id_min, id_max FROM memwal_files('"odd ''name"') WHERE kind = 'table';

-- figures of two tables joined
SELECT s.name, s.value FROM sqlite_schema m, memwal_stats('"' || replace(m.name, '"', '""') || '"') s
 WHERE m.sql LIKE 'CREATE VIRTUAL%' AND s.name = 'rows' ORDER BY m.name;

-- the terms of an OR are planned one by one
SELECT count(*) FROM memwal_stats('t') WHERE name = 'rows' OR name = 'flushes';
SELECT count(*) FROM memwal_files('t') WHERE kind = 'log' OR kind = 'manifest';

-- a database that is opened read-only: nothing is written for it
ATTACH 'file:test.db?mode=ro' AS fixed;
SELECT memwal_count('fixed.t') = memwal_count('t');
SELECT memwal_flush('fixed.t');
SELECT memwal_merge('fixed.t');
SELECT memwal_compact('fixed.t');
DETACH fixed;

-- everything in one sorted level
INSERT INTO t VALUES ('e', 5), ('f', 6);
SELECT memwal_flush('t');
DELETE FROM t WHERE id >= 'c';
INSERT INTO t VALUES ('g', 7);
SELECT memwal_compact('t');
SELECT name, value FROM memwal_stats('t')
 WHERE name IN ('rows', 'physical_rows', 'memtable_rows', 'generations', 'base_levels');
SELECT memwal_compact('t'), memwal_compact('"odd ''name"');
BEGIN;
INSERT INTO t VALUES ('h', 8);
SELECT memwal_compact('t');
ROLLBACK;

-- every file of the folder is listed, but for the lock
SELECT kind, count(*), sum(bytes > 0) FROM memwal_files('t') GROUP BY kind;

-- wrong calls
SELECT memwal_compact(1);
SELECT memwal_count('missing');
SELECT memwal_count('ordinary');
SELECT memwal_count(NULL);
SELECT memwal_count('other.t');
SELECT memwal_count('main.t.t');
SELECT memwal_count('"t');
SELECT memwal_merge('t', 0);
SELECT memwal_merge('t', 'all');
SELECT * FROM memwal_stats;
SELECT * FROM memwal_stats('missing');
SELECT * FROM memwal_files(1);
CREATE VIEW v AS SELECT memwal_count('t');
SELECT * FROM v;

SELECT memwal_version() LIKE 'memwal _%, format _%, SQLite 3.%, zstd _%, xxhash _%';
SELECT memwal_debug() LIKE 'compiler _%';
