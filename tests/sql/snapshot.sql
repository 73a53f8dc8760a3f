-- snapshot: what the SELECTs of a transaction see. Other connections: tests/clients/moment_test.c.
.load build/memwal
.mode list
.nullvalue NULL
CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v, path = 'store', background = off);
INSERT INTO t VALUES (1, 10), (2, 20);

ATTACH ':memory:' AS other;
CREATE VIRTUAL TABLE other.t USING memwal(path = 'store');

-- tables over one store have one moment, and changes of its own are seen in both
BEGIN;
SELECT count(*), sum(v), memwal_count('t') FROM t;
INSERT INTO other.t VALUES (3, 30);
SELECT count(*), sum(v), memwal_count('t'), memwal_count('other.t') FROM t;
ROLLBACK;
SELECT count(*), memwal_count('t') FROM t;

-- a transaction that only reads holds its moment until its end, whichever
BEGIN; SELECT count(*) FROM t;
SELECT name, value FROM memwal_stats('t') WHERE name = 'snapshots';
COMMIT;
SELECT name, value FROM memwal_stats('t') WHERE name IN ('snapshots', 'oldest_snapshot_s');
SAVEPOINT a; SELECT count(*) FROM t; ROLLBACK TO a;
SELECT name, value FROM memwal_stats('t') WHERE name = 'snapshots';
RELEASE a;
SELECT name, value FROM memwal_stats('t') WHERE name IN ('snapshots', 'oldest_snapshot_s');
BEGIN; SELECT memwal_count('t'); ROLLBACK;
SELECT name, value FROM memwal_stats('t') WHERE name IN ('snapshots', 'oldest_snapshot_s');

-- outside BEGIN, after a write, and in a table that goes with the connection nothing is held
CREATE VIRTUAL TABLE temp.brief USING memwal(id INTEGER PRIMARY KEY);
BEGIN;
INSERT INTO t VALUES (4, 40);
SELECT count(*) FROM t;
SELECT name, value FROM memwal_stats('t') WHERE name = 'snapshots';
SELECT count(*) FROM brief;
SELECT name, value FROM memwal_stats('brief') WHERE name = 'snapshots';
COMMIT;
SELECT name, value FROM memwal_stats('t') WHERE name IN ('snapshots', 'oldest_snapshot_s');

-- the control table holds nothing
SELECT type, name FROM sqlite_temp_schema WHERE name LIKE 'memwal%';
SELECT count(*) FROM memwal_moment;
INSERT INTO memwal_moment VALUES (1);
CREATE VIRTUAL TABLE mine USING memwal_moment;
CREATE VIRTUAL TABLE temp.mine USING memwal_moment;
CREATE VIEW v AS SELECT * FROM temp.memwal_moment;

-- changes() is set back by the first SELECT of a transaction, and nothing else
CREATE TABLE ordinary(a);
INSERT INTO ordinary VALUES (1), (2);
SELECT count(*) FROM t;
SELECT changes(), total_changes() > 0, last_insert_rowid();
BEGIN; SELECT count(*) FROM t; SELECT changes(), total_changes() > 0, last_insert_rowid(); COMMIT;

-- where it cannot be done each statement sees its own moment
PRAGMA query_only = 1;
BEGIN; SELECT count(*), memwal_count('t') FROM t;
SELECT name, value FROM memwal_stats('t') WHERE name = 'snapshots';
COMMIT;
PRAGMA query_only = 0;

-- the option
SELECT memwal_set('t', 'snapshot', 'statement');
BEGIN; SELECT count(*) FROM t;
SELECT name, value FROM memwal_stats('t') WHERE name = 'snapshots';
COMMIT;
SELECT memwal_set('t', 'snapshot', 'transaction'), memwal_set('t', 'snapshot', 'transaction');
BEGIN; SELECT count(*) FROM t;
SELECT memwal_set('t', 'snapshot', 'statement');
SELECT name, value FROM memwal_stats('t') WHERE name = 'snapshots';
COMMIT;
SELECT memwal_set('t', 'snapshot', 'never');
.open test.db
.load build/memwal
CREATE VIRTUAL TABLE s USING memwal(id INTEGER PRIMARY KEY, snapshot = 'statement');
BEGIN; SELECT count(*) FROM s;
SELECT name, value FROM memwal_stats('s') WHERE name = 'snapshots';
COMMIT;
SELECT count(*) FROM sqlite_temp_schema;
