-- Transactions that are larger than a memtable: savepoints, statements that fail, rollback, commit.
.load build/memwal
.mode list
.nullvalue NULL
CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v, n INTEGER, memtable = '8KB', background = off);
CREATE TABLE o(id INTEGER PRIMARY KEY, v, n INTEGER);
CREATE VIEW same AS SELECT (SELECT count(*) || '/' || sum(id) || '/' || sum(n) || '/' || sum(length(v)) FROM t) = (SELECT count(*) || '/' || sum(id) || '/' || sum(n) || '/' || sum(length(v)) FROM o) AS same;

-- one large INSERT, read inside, committed
BEGIN;
INSERT INTO t SELECT value, 'row ' || value, value % 7 FROM generate_series(1, 4000);
INSERT INTO o SELECT value, 'row ' || value, value % 7 FROM generate_series(1, 4000);
SELECT same, memwal_count('t') FROM same;
SELECT v FROM t WHERE id IN (1, 1999, 4000, 4001);
SELECT id FROM t WHERE id BETWEEN 1998 AND 2001 ORDER BY id DESC;
COMMIT;
SELECT same, memwal_count('t') FROM same;

-- I13: a statement does not meet its own rows, also where they lie in files already
UPDATE t SET id = id + 100000, n = n + 1;
UPDATE o SET id = -id - 100000, n = n + 1;
UPDATE o SET id = -id;
SELECT same, memwal_count('t') FROM same;
INSERT INTO t SELECT id + 1000000, v, n FROM t;
INSERT INTO o SELECT id + 1000000, v, n FROM o;
SELECT same, memwal_count('t') FROM same;

-- nested savepoints, rolled back to in the middle, gone on, released several at once
BEGIN;
DELETE FROM t WHERE id % 3 = 0; DELETE FROM o WHERE id % 3 = 0;
SAVEPOINT a;
UPDATE t SET v = v || '!'; UPDATE o SET v = v || '!';
SAVEPOINT b;
DELETE FROM t; DELETE FROM o;
SELECT same, memwal_count('t') FROM same;
ROLLBACK TO b;
SELECT same, memwal_count('t') FROM same;
SAVEPOINT c;
UPDATE t SET n = n * 2 WHERE id > 1000000; UPDATE o SET n = n * 2 WHERE id > 1000000;
SAVEPOINT d;
INSERT INTO t SELECT -value, zeroblob(value % 50), value FROM generate_series(1, 900);
INSERT INTO o SELECT -value, zeroblob(value % 50), value FROM generate_series(1, 900);
SELECT same, memwal_count('t') FROM same;
RELEASE c;
SELECT same, memwal_count('t') FROM same;
ROLLBACK TO b;
SELECT same, memwal_count('t') FROM same;
ROLLBACK TO a;
SELECT same, memwal_count('t') FROM same;
INSERT INTO t SELECT -value, 'again', value FROM generate_series(1, 900);
INSERT INTO o SELECT -value, 'again', value FROM generate_series(1, 900);
RELEASE a;
SELECT same, memwal_count('t') FROM same;
COMMIT;
SELECT same, memwal_count('t') FROM same;

-- C41: a statement that fails after it has filled files
BEGIN;
INSERT INTO t VALUES (-5000, 'kept', 1); INSERT INTO o VALUES (-5000, 'kept', 1);
INSERT INTO t SELECT value, 'no', CASE value WHEN 2001500 THEN abs(-9223372036854775807 - 1) ELSE 0 END FROM generate_series(2000001, 2002000);
SELECT same, memwal_count('t') FROM same;
INSERT INTO t SELECT 2000000 - value * 400, 'duplicate', 0 FROM generate_series(1, 3000);
SELECT same, memwal_count('t') FROM same;
INSERT OR REPLACE INTO t SELECT value, 'replaced', 5 FROM generate_series(-1500, 104500, 37);
INSERT OR REPLACE INTO o SELECT value, 'replaced', 5 FROM generate_series(-1500, 104500, 37);
INSERT OR IGNORE INTO t SELECT value, 'ignored', 5 FROM generate_series(-1500, 104500, 24);
INSERT OR IGNORE INTO o SELECT value, 'ignored', 5 FROM generate_series(-1500, 104500, 24);
SELECT same, memwal_count('t') FROM same;
COMMIT;
SELECT same, memwal_count('t') FROM same;

-- rolled back: nothing of it is left, in files either
BEGIN;
DELETE FROM t; DELETE FROM o;
INSERT INTO t SELECT value, 'x', 1 FROM generate_series(1, 1500);
ROLLBACK;
SELECT same, memwal_count('t') FROM same;
SELECT count(*) > 0 FROM memwal_files('t') WHERE kind = 'table';

-- a table in temp, whose small transactions share syncs
CREATE VIRTUAL TABLE temp.p USING memwal(id TEXT PRIMARY KEY, v, memtable = '8KB');
BEGIN;
INSERT INTO p SELECT 'key ' || value, value FROM generate_series(1, 1000);
SAVEPOINT s;
DELETE FROM p WHERE v > 10;
ROLLBACK TO s;
SELECT count(*), sum(v), memwal_count('p') FROM p;
COMMIT;
SELECT count(*), sum(v), memwal_count('p') FROM p;
INSERT INTO p SELECT id || '!', v FROM p;
SELECT count(*), sum(v), memwal_count('p') FROM p;

-- flushed and merged
SELECT memwal_flush('t') > 0;
SELECT same, memwal_count('t') FROM same;
SELECT memwal_merge('t') > 0;
SELECT same, memwal_count('t') FROM same;
SELECT sum(rows) = memwal_count('t'), sum(tombstones) FROM memwal_files('t') WHERE kind = 'table';
SELECT memwal_check('t');
