-- Rows through memtable, generations and base: what lives, and how many.
.load build/memwal
.mode list
.nullvalue NULL

-- C22: insert, delete, insert again, with a flush in each subset of the gaps
CREATE VIRTUAL TABLE c22 USING memwal(id INTEGER PRIMARY KEY, v TEXT, gaps TEXT, background = off);
INSERT INTO c22 VALUES (1, 'first', '');   DELETE FROM c22 WHERE id = 1; INSERT INTO c22 VALUES (1, 'third', 'none');
INSERT INTO c22 VALUES (2, 'first', '');   DELETE FROM c22 WHERE id = 2; INSERT INTO c22 VALUES (2, 'third', 'last');
SELECT memwal_flush('c22') > 0;
INSERT INTO c22 VALUES (3, 'first', '');   DELETE FROM c22 WHERE id = 3;
SELECT memwal_flush('c22') > 0;
INSERT INTO c22 VALUES (3, 'third', 'middle');
INSERT INTO c22 VALUES (4, 'first', '');
SELECT memwal_flush('c22') > 0;
DELETE FROM c22 WHERE id = 4; INSERT INTO c22 VALUES (4, 'third', 'first');
INSERT INTO c22 VALUES (5, 'first', '');
SELECT memwal_flush('c22') > 0;
DELETE FROM c22 WHERE id = 5;
SELECT memwal_flush('c22') > 0;
INSERT INTO c22 VALUES (5, 'third', 'all');
SELECT memwal_flush('c22') > 0;
SELECT * FROM c22;
SELECT count(*), memwal_count('c22') FROM c22;
SELECT memwal_merge('c22');
SELECT * FROM c22;
SELECT count(*), memwal_count('c22'), memwal_check('c22') FROM c22;

-- C23: DELETE without WHERE stays done
CREATE VIRTUAL TABLE c23 USING memwal(id INTEGER PRIMARY KEY, v, background = off);
INSERT INTO c23 SELECT value, 'v' || value FROM generate_series(1, 1000);
DELETE FROM c23;
SELECT changes(), count(*), memwal_count('c23') FROM c23;
.open test.db
.load build/memwal
SELECT count(*), memwal_count('c23') FROM c23;
SELECT memwal_flush('c23') IS NOT NULL, memwal_merge('c23') >= 0;
SELECT count(*), memwal_count('c23'), memwal_check('c23') FROM c23;

-- C26: the count counts ids that live, not writes
CREATE VIRTUAL TABLE c26 USING memwal(id INTEGER PRIMARY KEY, round, background = off, memtable = '64KB');
BEGIN;
INSERT INTO c26 SELECT value, 1 FROM generate_series(1, 10000);
INSERT OR REPLACE INTO c26 SELECT value, 2 FROM generate_series(1, 10000);
COMMIT;
SELECT memwal_flush('c26');
INSERT OR REPLACE INTO c26 SELECT value, 3 FROM generate_series(1, 10000);
SELECT memwal_count('c26');
DELETE FROM c26 WHERE id % 2 = 0;
SELECT changes(), memwal_count('c26');
SELECT memwal_flush('c26');
SELECT memwal_merge('c26'), memwal_count('c26');
.open test.db
.load build/memwal
SELECT memwal_count('c26'), count(*), sum(id), min(round) FROM c26;

-- C27: what changes nothing does not move the count
CREATE VIRTUAL TABLE c27 USING memwal(id INTEGER PRIMARY KEY, v);
INSERT INTO c27 VALUES (1, 'a');
INSERT OR REPLACE INTO c27 VALUES (1, 'b');
DELETE FROM c27 WHERE id = 99;
SELECT memwal_count('c27'), changes();
BEGIN; INSERT INTO c27 SELECT value, 'r' FROM generate_series(101, 150); SELECT memwal_count('c27'); ROLLBACK;
SELECT memwal_count('c27');
BEGIN;
INSERT INTO c27 SELECT value, 'c' FROM generate_series(201, 250);
SAVEPOINT s;
DELETE FROM c27 WHERE id BETWEEN 201 AND 220;
SELECT memwal_count('c27'), count(*) FROM c27;
ROLLBACK TO s;
COMMIT;
SELECT memwal_count('c27'), count(*) FROM c27;

-- C28: seven ways to count agree with an ordinary table, wherever the rows are
CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, g, background = off);
CREATE TABLE o(id INTEGER PRIMARY KEY, g);
CREATE TEMP VIEW counts AS SELECT
  (SELECT count(*) FROM main.t) AS a,
  (SELECT count(*) FROM main.t WHERE id IS NULL OR id IS NOT NULL) AS b,
  (SELECT count(DISTINCT id) FROM main.t) AS c,
  (SELECT count(*) FROM (SELECT id FROM main.t ORDER BY id LIMIT -1)) AS d,
  (SELECT count(*) FROM (SELECT id, g FROM main.t ORDER BY id DESC LIMIT -1)) AS e,
  (SELECT sum(n) FROM (SELECT count(*) AS n FROM main.t GROUP BY g)) AS f,
  (SELECT count(*) FROM main.o) AS ordinary;
INSERT INTO t SELECT value, value % 7 FROM generate_series(1, 300);
INSERT INTO o SELECT value, value % 7 FROM generate_series(1, 300);
SELECT 'memtable', memwal_count('t'), * FROM counts;
SELECT memwal_flush('t');
SELECT 'generation', memwal_count('t'), * FROM counts;
DELETE FROM t WHERE id % 3 = 0; DELETE FROM o WHERE id % 3 = 0;
SELECT memwal_flush('t'), memwal_merge('t');
SELECT 'base', memwal_count('t'), * FROM counts;
INSERT INTO t SELECT value, 1 FROM generate_series(290, 400) WHERE true AND value % 3 = 0;
INSERT INTO o SELECT value, 1 FROM generate_series(290, 400) WHERE true AND value % 3 = 0;
SELECT memwal_flush('t');
UPDATE t SET g = 9 WHERE id < 50; UPDATE o SET g = 9 WHERE id < 50;
DELETE FROM t WHERE id > 380; DELETE FROM o WHERE id > 380;
SELECT 'spread', memwal_count('t'), * FROM counts;
.open test.db
.load build/memwal
SELECT memwal_count('t'), (SELECT count(*) FROM t), (SELECT count(*) FROM o), memwal_check('t');

-- L13: rows are not doubled by flush, merge and restart
CREATE VIRTUAL TABLE l13 USING memwal(id INTEGER PRIMARY KEY, v, background = off);
INSERT INTO l13 VALUES (1, 'a'), (2, 'b'), (3, 'c');
SELECT memwal_flush('l13'), memwal_merge('l13');
.open test.db
.load build/memwal
SELECT count(*), (SELECT value FROM memwal_stats('l13') WHERE name = 'memtable_rows') FROM l13;

-- L23: a condition does not bring back the version before
CREATE VIRTUAL TABLE l23 USING memwal(k INTEGER PRIMARY KEY, v, background = off);
INSERT INTO l23 VALUES (1, 'a');
UPDATE l23 SET v = 'b';
SELECT count(*) FROM l23 WHERE v = 'a';
SELECT memwal_flush('l23');
UPDATE l23 SET v = 'c';
SELECT count(*) FROM l23 WHERE v IN ('a', 'b');
SELECT memwal_flush('l23');
SELECT count(*) FROM l23 WHERE v IN ('a', 'b');
SELECT memwal_merge('l23'), v FROM l23;

-- L27: a deletion meets no constraint
CREATE VIRTUAL TABLE l27 USING memwal(id TEXT PRIMARY KEY, v TEXT NOT NULL, w REAL NOT NULL, background = off);
INSERT INTO l27 VALUES ('a', 'x', 1), ('b', 'y', 2);
SELECT memwal_flush('l27');
DELETE FROM l27 WHERE id = 'a';
SELECT memwal_flush('l27');
DELETE FROM l27;
SELECT memwal_flush('l27'), memwal_merge('l27'), count(*) FROM l27;
SELECT memwal_check('l27'), memwal_count('l27');

-- L28: a merge keeps the newest version, NULL included
CREATE VIRTUAL TABLE l28 USING memwal(k INTEGER PRIMARY KEY, v, background = off);
INSERT INTO l28 VALUES (1, 1);
UPDATE l28 SET v = NULL;
SELECT memwal_flush('l28');
SELECT memwal_merge('l28'), k, v FROM l28;

-- C55: zero characters in ids and values
CREATE VIRTUAL TABLE c55 USING memwal(id TEXT PRIMARY KEY, v, background = off);
INSERT INTO c55 VALUES ('a' || char(0) || 'b', 'v' || char(0)), ('a' || char(0) || 'c', char(0)), ('a', 'plain');
SELECT hex(id), hex(v) FROM c55;
SELECT memwal_flush('c55'), memwal_merge('c55');
SELECT hex(id), hex(v), length(v) FROM c55;
SELECT count(*) FROM c55 WHERE id = 'a' || char(0) || 'c';
DELETE FROM c55 WHERE id = 'a';
SELECT count(*), memwal_count('c55') FROM c55;

-- C58: empty text, empty blob and NULL are three things
CREATE VIRTUAL TABLE c58 USING memwal(id TEXT PRIMARY KEY, v, background = off);
INSERT INTO c58 VALUES ('c1', ''), ('c2', x''), ('c3', NULL), ('c4', 'x'), ('c5', x'00');
SELECT id FROM c58;
SELECT id, typeof(v), quote(v) FROM c58;
SELECT memwal_flush('c58');
SELECT id FROM c58;
SELECT id, typeof(v), quote(v) FROM c58;

-- RETURNING shows what was given: the row that is stored has an id and defaults as well
CREATE VIRTUAL TABLE returned USING memwal(id INTEGER PRIMARY KEY, v INT DEFAULT 5);
INSERT INTO returned(v) VALUES ('7') RETURNING quote(id), rowid, typeof(v);
INSERT INTO returned(id) VALUES ('9') RETURNING id, quote(v);
SELECT id, v, last_insert_rowid() FROM returned;
