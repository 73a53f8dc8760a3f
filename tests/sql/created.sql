-- CREATE inside a transaction, over a store that other tables use: what is rolled back with it is gone, the rest stays.
.load build/memwal
.mode list
.nullvalue NULL
CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v, path = 'store');
CREATE TABLE o(x);
INSERT INTO t VALUES (1, 'yes');

-- the created table wrote first; nobody is told that it is gone
BEGIN; SAVEPOINT s; CREATE VIRTUAL TABLE n USING memwal(path = 'store'); INSERT INTO n VALUES (2, 'no'); ROLLBACK TO s;
SELECT group_concat(id), count(*), memwal_count('t') FROM t;
INSERT INTO t VALUES (3, 'yes'); COMMIT;
SELECT group_concat(id), count(*), memwal_count('t') FROM t;

-- the other one wrote before the end of the savepoint, too
BEGIN; SAVEPOINT s; CREATE VIRTUAL TABLE n USING memwal(path = 'store'); INSERT INTO n VALUES (10, 'no'); INSERT INTO t VALUES (11, 'no'); ROLLBACK TO s; INSERT INTO t VALUES (12, 'yes'); COMMIT;
SELECT group_concat(id) FROM t WHERE id >= 10;

-- savepoints after the CREATE are like any others
BEGIN; SAVEPOINT a; CREATE VIRTUAL TABLE n USING memwal(path = 'store'); INSERT INTO n VALUES (20, 'no'); SAVEPOINT b; INSERT INTO n VALUES (21, 'no'); INSERT INTO t VALUES (22, 'no'); ROLLBACK TO b;
SELECT group_concat(id) FROM t WHERE id >= 20;
INSERT INTO t VALUES (23, 'no'); ROLLBACK TO a;
SELECT group_concat(id) FROM t WHERE id >= 20;
INSERT INTO t VALUES (24, 'yes'); COMMIT;
SELECT group_concat(id) FROM t WHERE id >= 20;

-- two created tables; statements of several rows, which have savepoints of their own
BEGIN; SAVEPOINT a; CREATE VIRTUAL TABLE n USING memwal(path = 'store'); INSERT INTO n VALUES (30, 'no'); INSERT INTO n VALUES (31, 'no'), (32, 'no'); CREATE VIRTUAL TABLE m USING memwal(path = 'store'); INSERT INTO m VALUES (33, 'no'), (34, 'no'); ROLLBACK TO a; INSERT INTO t VALUES (35, 'yes'); COMMIT;
SELECT group_concat(id) FROM t WHERE id >= 30;

-- undone and made again under the same name
BEGIN; SAVEPOINT a; CREATE VIRTUAL TABLE n USING memwal(path = 'store'); INSERT INTO n VALUES (40, 'no'); ROLLBACK TO a; CREATE VIRTUAL TABLE n USING memwal(path = 'store'); INSERT INTO n VALUES (41, 'yes'); RELEASE a; COMMIT;
SELECT group_concat(id) FROM t WHERE id >= 40;
DROP TABLE n;

-- a created table that stays, also under another name
BEGIN; SAVEPOINT a; CREATE VIRTUAL TABLE n USING memwal(path = 'store'); INSERT INTO n VALUES (50, 'yes'); INSERT INTO t VALUES (51, 'yes'); SAVEPOINT b; INSERT INTO n VALUES (52, 'no'); ROLLBACK TO b; ALTER TABLE n RENAME TO m; INSERT INTO t VALUES (53, 'yes'); RELEASE a; COMMIT;
SELECT group_concat(id) FROM t WHERE id >= 50;
DROP TABLE m;

-- the other table was there first, or took part without a change
BEGIN; INSERT INTO t VALUES (60, 'yes'); SAVEPOINT a; CREATE VIRTUAL TABLE n USING memwal(path = 'store'); INSERT INTO n VALUES (61, 'no'); ROLLBACK TO a; INSERT INTO t VALUES (62, 'yes'); COMMIT;
SELECT group_concat(id) FROM t WHERE id >= 60;
BEGIN; UPDATE t SET v = 'no' WHERE id < 0; SAVEPOINT a; CREATE VIRTUAL TABLE n USING memwal(path = 'store'); INSERT INTO n VALUES (70, 'no'); INSERT INTO t VALUES (71, 'no'); ROLLBACK TO a; INSERT INTO t VALUES (72, 'yes'); SAVEPOINT b; INSERT INTO t VALUES (73, 'no'); ROLLBACK TO b; COMMIT;
SELECT group_concat(id) FROM t WHERE id >= 70;
BEGIN; CREATE VIRTUAL TABLE n USING memwal(path = 'store'); INSERT INTO n VALUES (80, 'yes'); UPDATE t SET v = 'no' WHERE id < 0; SAVEPOINT a; INSERT INTO t VALUES (81, 'no'); ROLLBACK TO a; COMMIT;
SELECT group_concat(id) FROM t WHERE id >= 80;
DROP TABLE n;

-- the whole transaction; and savepoints without BEGIN
BEGIN; CREATE VIRTUAL TABLE n USING memwal(path = 'store'); INSERT INTO n VALUES (90, 'no'); INSERT INTO t VALUES (91, 'no'); ROLLBACK;
SAVEPOINT a; SAVEPOINT b; CREATE VIRTUAL TABLE n USING memwal(path = 'store'); INSERT INTO n VALUES (92, 'no'); RELEASE b; INSERT INTO t VALUES (93, 'no'); ROLLBACK TO a; INSERT INTO t VALUES (94, 'yes'); RELEASE a;
SELECT group_concat(id) FROM t WHERE id >= 90;
SELECT count(*) = memwal_count('t'), count(*) FILTER (WHERE v <> 'yes'), memwal_check('t') FROM t;

-- DROP is refused while there are changes, also where SQLite has made itself another object of the table since
BEGIN; CREATE VIRTUAL TABLE n USING memwal(path = 'store'); INSERT INTO n VALUES (100, 'yes'); SAVEPOINT a; ROLLBACK TO a; DROP TABLE n;
COMMIT;
SELECT group_concat(id) FROM t WHERE id >= 100;
BEGIN; SAVEPOINT a; CREATE TABLE p(x); INSERT INTO t VALUES (101, 'no'); ROLLBACK TO a; DROP TABLE n; COMMIT;
SELECT group_concat(id) FROM t WHERE id >= 100;

-- CREATE counts no changes, as for an ordinary table
INSERT INTO o VALUES (1), (2), (3);
CREATE TABLE before AS SELECT changes() AS c, total_changes() AS t;
CREATE VIRTUAL TABLE n USING memwal(v);
CREATE VIRTUAL TABLE temp.n USING memwal(v);
SELECT changes() = c, total_changes() = t FROM before;
