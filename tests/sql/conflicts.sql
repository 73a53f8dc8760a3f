-- Every conflict clause on a memwal table and on an ordinary one.
.load build/memwal
.mode list
.nullvalue NULL
CREATE TABLE i_ordinary(id INTEGER PRIMARY KEY, v NOT NULL, w DEFAULT 'd');
CREATE VIRTUAL TABLE i_memwal USING memwal(id INTEGER PRIMARY KEY, v NOT NULL, w DEFAULT 'd');
CREATE TABLE t_ordinary(id TEXT PRIMARY KEY NOT NULL, v NOT NULL, w DEFAULT 'd') WITHOUT ROWID;
CREATE VIRTUAL TABLE t_memwal USING memwal(id TEXT PRIMARY KEY, v NOT NULL, w DEFAULT 'd');
CREATE TEMP VIEW same AS SELECT
  (SELECT group_concat(quote(id) || quote(v) || quote(w)) FROM (SELECT * FROM i_ordinary ORDER BY id)) IS
  (SELECT group_concat(quote(id) || quote(v) || quote(w)) FROM (SELECT * FROM i_memwal ORDER BY id)) AND
  (SELECT group_concat(quote(id) || quote(v) || quote(w)) FROM (SELECT * FROM t_ordinary ORDER BY id)) IS
  (SELECT group_concat(quote(id) || quote(v) || quote(w)) FROM (SELECT * FROM t_memwal ORDER BY id)) AS same;

INSERT INTO i_ordinary(id, v) VALUES (1, 'a'), (2, 'b'), (5, 'e');
INSERT INTO i_memwal(id, v) VALUES (1, 'a'), (2, 'b'), (5, 'e');
INSERT INTO t_ordinary(id, v) VALUES ('1', 'a'), ('2', 'b'), ('5', 'e');
INSERT INTO t_memwal(id, v) VALUES ('1', 'a'), ('2', 'b'), ('5', 'e');

-- a plain INSERT: all or nothing
INSERT INTO i_ordinary(id, v) VALUES (7, 'g'), (2, 'x');
INSERT INTO i_memwal(id, v) VALUES (7, 'g'), (2, 'x');
INSERT INTO t_ordinary(id, v) VALUES ('7', 'g'), ('2', 'x');
INSERT INTO t_memwal(id, v) VALUES ('7', 'g'), ('2', 'x');
SELECT * FROM same;
-- ABORT, FAIL, IGNORE
INSERT OR ABORT INTO i_ordinary(id, v) VALUES (8, 'g'), (2, 'x');
INSERT OR ABORT INTO i_memwal(id, v) VALUES (8, 'g'), (2, 'x');
INSERT OR FAIL INTO i_ordinary(id, v) VALUES (9, 'g'), (2, 'x'), (10, 'g');
SELECT changes();
INSERT OR FAIL INTO i_memwal(id, v) VALUES (9, 'g'), (2, 'x'), (10, 'g');
SELECT changes();
INSERT OR IGNORE INTO i_ordinary(id, v) VALUES (11, 'g'), (2, 'x'), (12, NULL), (13, 'h');
SELECT changes();
INSERT OR IGNORE INTO i_memwal(id, v) VALUES (11, 'g'), (2, 'x'), (12, NULL), (13, 'h');
SELECT changes();
INSERT OR IGNORE INTO t_ordinary(id, v) VALUES ('11', 'g'), ('2', 'x'), ('12', NULL), (NULL, 'h'), ('13', 'h');
SELECT changes();
INSERT OR IGNORE INTO t_memwal(id, v) VALUES ('11', 'g'), ('2', 'x'), ('12', NULL), (NULL, 'h'), ('13', 'h');
SELECT changes();
SELECT * FROM same;
-- REPLACE
REPLACE INTO i_ordinary(id, v) VALUES (2, 'r'), (2, 's'), (14, 'n');
SELECT changes();
REPLACE INTO i_memwal(id, v) VALUES (2, 'r'), (2, 's'), (14, 'n');
SELECT changes();
REPLACE INTO t_ordinary(id, v) VALUES ('2', 'r'), ('2', 's'), ('14', 'n');
REPLACE INTO t_memwal(id, v) VALUES ('2', 'r'), ('2', 's'), ('14', 'n');
REPLACE INTO i_ordinary(id, v) VALUES (20, 'z'), (21, NULL);
REPLACE INTO i_memwal(id, v) VALUES (20, 'z'), (21, NULL);
SELECT * FROM same;
-- UPDATE onto another id
UPDATE i_ordinary SET id = 1 WHERE id = 2;
UPDATE i_memwal SET id = 1 WHERE id = 2;
UPDATE t_ordinary SET id = '1' WHERE id = '2';
UPDATE t_memwal SET id = '1' WHERE id = '2';
UPDATE OR IGNORE i_ordinary SET id = 1 WHERE id IN (2, 5);
UPDATE OR IGNORE i_memwal SET id = 1 WHERE id IN (2, 5);
UPDATE OR REPLACE i_ordinary SET id = 1, v = 'moved' WHERE id = 2;
SELECT changes();
UPDATE OR REPLACE i_memwal SET id = 1, v = 'moved' WHERE id = 2;
SELECT changes();
UPDATE OR REPLACE t_ordinary SET id = '1', v = 'moved' WHERE id = '2';
UPDATE OR REPLACE t_memwal SET id = '1', v = 'moved' WHERE id = '2';
SELECT * FROM same;
SELECT count(*), memwal_count('i_memwal') FROM i_memwal;
-- NOT NULL
UPDATE i_ordinary SET v = NULL WHERE id = 1;
UPDATE i_memwal SET v = NULL WHERE id = 1;
INSERT INTO t_ordinary VALUES (NULL, 1, 1);
INSERT INTO t_memwal VALUES (NULL, 1, 1);
UPDATE t_ordinary SET id = NULL;
UPDATE t_memwal SET id = NULL;
UPDATE i_ordinary SET id = NULL;
UPDATE i_memwal SET id = NULL;
INSERT INTO i_ordinary VALUES ('abc', 1, 1);
INSERT INTO i_memwal VALUES ('abc', 1, 1);
INSERT OR IGNORE INTO i_ordinary VALUES (1.5, 1, 1);
INSERT OR IGNORE INTO i_memwal VALUES (1.5, 1, 1);
SELECT * FROM same;
-- ROLLBACK ends the transaction
BEGIN;
DELETE FROM i_memwal WHERE id > 5;
INSERT OR ROLLBACK INTO i_memwal(id, v) VALUES (1, 'x');
COMMIT;
SELECT * FROM same;

-- C51: ids that move over each other
DELETE FROM i_ordinary; DELETE FROM i_memwal;
INSERT INTO i_ordinary(id, v) VALUES (1, 'a'), (3, 'c'), (4, 'd');
INSERT INTO i_memwal(id, v) VALUES (1, 'a'), (3, 'c'), (4, 'd');
UPDATE OR IGNORE i_ordinary SET id = id + 1;
SELECT changes(), group_concat(id) FROM i_ordinary;
UPDATE OR IGNORE i_memwal SET id = id + 1;
SELECT changes(), group_concat(id) FROM i_memwal;
DELETE FROM i_ordinary; DELETE FROM i_memwal;
INSERT INTO i_ordinary(id, v) VALUES (1, 'a'), (2, 'c'), (3, 'd');
INSERT INTO i_memwal(id, v) VALUES (1, 'a'), (2, 'c'), (3, 'd');
UPDATE i_ordinary SET id = id + 1;
UPDATE i_memwal SET id = id + 1;
UPDATE i_ordinary SET id = id - 1;
UPDATE i_memwal SET id = id - 1;
SELECT * FROM same;

-- C38: every id moves once
CREATE VIRTUAL TABLE c38 USING memwal(id INTEGER PRIMARY KEY, v, background = off, memtable = '16KB');
INSERT INTO c38 SELECT value, value FROM generate_series(1, 1000);
UPDATE c38 SET id = id + 1000;
SELECT changes(), count(*), min(id), max(id), sum(id = v + 1000) FROM c38;
SELECT memwal_flush('c38');
UPDATE c38 SET id = id + 1000;
SELECT changes(), count(*), min(id), max(id), sum(id = v + 2000) FROM c38;
SELECT memwal_flush('c38'), memwal_merge('c38');
UPDATE c38 SET rowid = rowid + 1000;
SELECT changes(), count(*), min(id), max(id), sum(id = v + 3000), memwal_count('c38') FROM c38;

-- C50: an id that is changed is gone under its old name
CREATE VIRTUAL TABLE c50 USING memwal(id TEXT PRIMARY KEY, v, background = off);
INSERT INTO c50 VALUES ('a', 1), ('c', 3);
UPDATE c50 SET id = 'b' WHERE id = 'a';
SELECT * FROM c50;
SELECT memwal_flush('c50');
UPDATE c50 SET id = 'a' WHERE id = 'b';
SELECT memwal_flush('c50'), memwal_merge('c50');
UPDATE c50 SET id = 'b' WHERE id = 'a';
UPDATE c50 SET id = 'b' WHERE id = 'c';
SELECT id, v, memwal_count('c50') FROM c50;
SELECT memwal_flush('c50'), memwal_merge('c50');
.open test.db
.load build/memwal
SELECT id, v, memwal_count('c50') FROM c50;

-- automatic ids: max + 1; above the highest id, some free one
CREATE VIRTUAL TABLE auto USING memwal(v);
INSERT INTO auto VALUES ('a'), ('b');
SELECT last_insert_rowid();
INSERT INTO auto(rowid, v) VALUES (10, 'c');
INSERT INTO auto VALUES ('d');
DELETE FROM auto WHERE rowid = 11;
INSERT INTO auto VALUES ('e');
SELECT rowid, v FROM auto;
INSERT INTO auto(rowid, v) VALUES (10, 'x');
INSERT INTO auto(rowid, v) VALUES (9223372036854775807, 'last');
INSERT INTO auto VALUES ('somewhere');
SELECT count(*), last_insert_rowid() BETWEEN 1 AND 9223372036854775806 FROM auto;
CREATE VIRTUAL TABLE below USING memwal(id INTEGER PRIMARY KEY);
INSERT INTO below VALUES (-5), (NULL), (NULL);
SELECT group_concat(id) FROM below;
-- a table without rowid leaves last_insert_rowid alone
INSERT INTO i_ordinary(id, v) VALUES (77, 'x');
INSERT INTO t_memwal(id, v) VALUES ('new', 'x');
SELECT last_insert_rowid();
