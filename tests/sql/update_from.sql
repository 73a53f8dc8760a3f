-- UPDATE of rows that the statement itself has moved or met before: each row is changed once, none is multiplied.
-- (Where several rows of FROM name one, an ordinary table takes the last of them; memwal, which gets them one by
-- one, the last for a row that stays where it is and the first for one that moves.)
.load build/memwal
.mode list
.nullvalue NULL
CREATE TABLE s(k, n);
INSERT INTO s VALUES (1, 10), (1, 11), (1, 12), ('c', 20), ('c', 21), (2, 30);

-- ids that move
CREATE VIRTUAL TABLE i USING memwal(id INTEGER PRIMARY KEY, v, background = off);
INSERT INTO i VALUES (1, 'one'), (2, 'two'), (3, 'three');
UPDATE i SET id = n FROM s WHERE id = k;
SELECT group_concat(id || v), memwal_count('i') FROM i;
CREATE VIRTUAL TABLE t USING memwal(id TEXT PRIMARY KEY, v);
INSERT INTO t VALUES ('c', 1), ('d', 2);
UPDATE t SET id = id || n FROM s WHERE id = k;
SELECT group_concat(id || '=' || v), memwal_count('t') FROM t;
CREATE VIRTUAL TABLE a USING memwal(v);
INSERT INTO a VALUES ('one'), ('two');
UPDATE a SET rowid = n FROM s WHERE a.rowid = k;
SELECT group_concat(rowid || v), memwal_count('a') FROM a;

-- onto one another, with each conflict clause
UPDATE OR REPLACE i SET id = 30 FROM s WHERE id IN (3, 10) AND k = 1;
SELECT group_concat(id || v), memwal_count('i') FROM i;
INSERT INTO i VALUES (1, 'a'), (2, 'b');
UPDATE OR IGNORE i SET id = n - 9 FROM s WHERE id = k AND k = 1;
SELECT group_concat(id || v), memwal_count('i') FROM i;
UPDATE i SET id = n - 9 FROM s WHERE id = k AND k = 1;
UPDATE OR FAIL i SET id = n + 80 FROM s WHERE id = k AND k = 1;
SELECT group_concat(id || v), memwal_count('i') FROM i;

-- ids that stay: the last one counts
UPDATE i SET v = n FROM s WHERE id = 2 AND k = 1;
SELECT v FROM i WHERE id = 2;

-- the same after a flush and a merge, and undone
SELECT memwal_flush('i'), memwal_merge('i');
BEGIN;
UPDATE i SET id = id * 100 + n FROM s WHERE k = 'c';
SELECT group_concat(id || v), count(*), memwal_count('i') FROM i;
ROLLBACK;
SELECT group_concat(id || v), count(*), memwal_count('i'), memwal_check('i') FROM i;
