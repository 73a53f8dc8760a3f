-- Transactions, savepoints and statements that fail half-way.
.load build/memwal
.mode list
.nullvalue NULL

-- C40: ROLLBACK TO takes back what came after, wherever the row is
CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v, background = off);
BEGIN; INSERT INTO t VALUES (1, 'first'); SAVEPOINT s; UPDATE t SET v = 'second' WHERE id = 1; DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (2, 'no'); ROLLBACK TO s; COMMIT;
SELECT * FROM t;
SELECT memwal_flush('t');
BEGIN; INSERT INTO t VALUES (3, 'first'); SAVEPOINT s; UPDATE t SET v = 'second'; DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (2, 'no'); ROLLBACK TO s; COMMIT;
SELECT * FROM t;
SELECT memwal_flush('t'), memwal_merge('t');
BEGIN; SAVEPOINT s; UPDATE t SET v = 'second'; DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (2, 'no'); ROLLBACK TO s; COMMIT;
SELECT *, memwal_count('t') FROM t;

-- C41: a statement that fails half-way leaves nothing
CREATE VIRTUAL TABLE c41 USING memwal(id TEXT PRIMARY KEY, v INTEGER);
BEGIN;
INSERT INTO c41 VALUES ('b', 2);
INSERT INTO c41 SELECT k, CASE k WHEN 'd' THEN abs(-9223372036854775807 - 1) ELSE 0 END FROM (SELECT 'c' AS k UNION ALL SELECT 'd');
COMMIT;
SELECT * FROM c41;
INSERT INTO c41 VALUES ('x', 1), ('b', 1);
SELECT * FROM c41;

-- C43: own writes are seen, by key, range, IN and join
CREATE VIRTUAL TABLE c43 USING memwal(id INTEGER PRIMARY KEY, v);
CREATE TABLE keys(k);
INSERT INTO keys VALUES (1);
BEGIN;
INSERT INTO c43 VALUES (1, 'x');
SELECT v FROM c43 WHERE id = 1;
SELECT v FROM c43 WHERE id >= 1 AND id < 5;
SELECT v FROM c43 WHERE id IN (7, 1);
SELECT v FROM keys JOIN c43 ON id = k;
SELECT count(*), memwal_count('c43') FROM c43;
UPDATE c43 SET v = 'y';
SELECT v FROM c43 WHERE id = 1;
ROLLBACK;
SELECT count(*) FROM c43;

-- savepoint numbers that start above 0, are announced once, and rolled back to twice
CREATE VIRTUAL TABLE s USING memwal(id INTEGER PRIMARY KEY);
SAVEPOINT a; SAVEPOINT b; INSERT INTO s VALUES (1); RELEASE b; INSERT INTO s VALUES (2); ROLLBACK TO a;
SELECT 'none', group_concat(id) FROM s;
INSERT INTO s VALUES (3); ROLLBACK TO a; INSERT INTO s VALUES (4); RELEASE a;
SELECT 'four', group_concat(id) FROM s;
BEGIN; SAVEPOINT a; INSERT INTO s VALUES (5); SAVEPOINT b; INSERT INTO s VALUES (6); ROLLBACK TO b; INSERT INTO s VALUES (7); ROLLBACK TO b; INSERT INTO s VALUES (8); RELEASE b; COMMIT;
SELECT 'four, five, eight', group_concat(id) FROM s;
SAVEPOINT only; DELETE FROM s; ROLLBACK TO only; RELEASE only;
SELECT 'the same', group_concat(id) FROM s;

-- two tables in one transaction, savepoints that one of them did not see
CREATE VIRTUAL TABLE p USING memwal(id INTEGER PRIMARY KEY);
CREATE VIRTUAL TABLE q USING memwal(id INTEGER PRIMARY KEY);
BEGIN; INSERT INTO p VALUES (1); SAVEPOINT a; INSERT INTO p VALUES (2); SAVEPOINT b; INSERT INTO q VALUES (1); ROLLBACK TO a; INSERT INTO q VALUES (2); COMMIT;
SELECT (SELECT group_concat(id) FROM p), (SELECT group_concat(id) FROM q);

-- CREATE in a transaction: savepoints before the first row, rollback, and ROLLBACK TO over the CREATE
BEGIN; CREATE VIRTUAL TABLE n USING memwal(id INTEGER PRIMARY KEY); SAVEPOINT a; INSERT INTO n VALUES (1); ROLLBACK TO a; INSERT INTO n VALUES (2); COMMIT;
SELECT group_concat(id) FROM n;
BEGIN; CREATE VIRTUAL TABLE m USING memwal(id INTEGER PRIMARY KEY); INSERT INTO m VALUES (1); ROLLBACK;
SELECT count(*) FROM m;
SELECT count(*) FROM sqlite_schema WHERE name LIKE 'm%';
CREATE VIRTUAL TABLE shared USING memwal(id INTEGER PRIMARY KEY, path = 'store');
BEGIN; SAVEPOINT a; CREATE VIRTUAL TABLE other USING memwal(path = 'store'); INSERT INTO other VALUES (1); ROLLBACK TO a; COMMIT;
SELECT 'nothing of a table that never was', count(*) FROM shared;

-- DROP: undone as ever, with changes and without
BEGIN;
INSERT INTO n VALUES (3);
DROP TABLE n;
ROLLBACK;
SELECT group_concat(id) FROM n;
BEGIN; DROP TABLE n; ROLLBACK;
SELECT group_concat(id) FROM n;
INSERT INTO n VALUES (4);
BEGIN; ALTER TABLE n RENAME TO nn; INSERT INTO nn VALUES (5); ROLLBACK;
SELECT group_concat(id) FROM n;
ALTER TABLE n RENAME TO nn;
INSERT INTO nn VALUES (6);
SELECT group_concat(id) FROM nn;
SELECT name FROM sqlite_schema WHERE name LIKE 'n%' ORDER BY 1;
DROP TABLE nn;
SELECT name FROM sqlite_schema WHERE name LIKE 'n%';

-- several tables over one store share one transaction
CREATE VIRTUAL TABLE temp.again USING memwal(path = 'store');
BEGIN; INSERT INTO shared VALUES (1); INSERT INTO again VALUES (2); SELECT (SELECT count(*) FROM shared), (SELECT count(*) FROM again); COMMIT;
SELECT (SELECT group_concat(id) FROM shared), (SELECT group_concat(id) FROM again);
BEGIN; INSERT INTO again VALUES (3); SAVEPOINT a; INSERT INTO shared VALUES (4); ROLLBACK TO a; COMMIT;
SELECT group_concat(id) FROM shared;
INSERT INTO shared VALUES (9), (1);
SELECT group_concat(id) FROM shared;
