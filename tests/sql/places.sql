-- Where stores are. (What is said of missing ones names paths: tests/clients/api_test.c.)
.load build/memwal
.mode list
.nullvalue NULL

-- the default place, by a name of its own
CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v TEXT);
INSERT INTO t VALUES (1, 'one');
SELECT key, CASE WHEN key IN ('store', 'table', 'name') THEN length(value) ELSE value END FROM t_store ORDER BY key;

-- a path; the same store again, with and without columns
CREATE VIRTUAL TABLE p USING memwal(id TEXT PRIMARY KEY, v INTEGER DEFAULT 7, path = 'store');
INSERT INTO p(id) VALUES ('a');
CREATE VIRTUAL TABLE again USING memwal(path = 'store');
INSERT INTO again(id) VALUES ('b');
SELECT * FROM p;
CREATE VIRTUAL TABLE same USING memwal(id TEXT PRIMARY KEY, v INTEGER DEFAULT 7, path = 'store');
SELECT count(*) FROM same;

-- after a restart; in a database attached under another name
.open test.db
.load build/memwal
SELECT * FROM t; SELECT * FROM p; SELECT * FROM again;
ATTACH 'other.db' AS side;
CREATE VIRTUAL TABLE side.t USING memwal(id INTEGER PRIMARY KEY, v TEXT);
INSERT INTO side.t VALUES (2, 'two');
SELECT memwal_count('t'), memwal_count('side.t'), memwal_count('"side"."t"'), (SELECT v FROM side.t);
DETACH side;
ATTACH 'other.db' AS again_there;
SELECT * FROM again_there.t;
DETACH again_there;

-- temp and memory: rows that go with the connection
CREATE VIRTUAL TABLE temp.e USING memwal(id INTEGER PRIMARY KEY, v);
INSERT INTO e VALUES (1, 'x');
SELECT * FROM temp.e;
ATTACH ':memory:' AS m;
CREATE VIRTUAL TABLE m.e USING memwal(v);
INSERT INTO m.e VALUES ('in memory');
SELECT v, memwal_count('m.e'), memwal_count('e') FROM m.e;
BEGIN; DROP TABLE m.e; ROLLBACK;
SELECT v FROM m.e;
DETACH m;

-- a shadow table that was tampered with
CREATE VIRTUAL TABLE f USING memwal(v);
INSERT INTO f VALUES (1);
UPDATE f_store SET value = '../../etc' WHERE key = 'name';
.open test.db
.load build/memwal
SELECT * FROM f;
DROP TABLE f;
CREATE VIRTUAL TABLE g USING memwal(path = 'store');
DELETE FROM g_store;
.open test.db
.load build/memwal
SELECT * FROM g;
DROP TABLE g;
SELECT name FROM sqlite_schema ORDER BY 1;

-- C56: the same store from a database in UTF-16
.open utf16.db
.load build/memwal
PRAGMA encoding = 'UTF-16le';
CREATE VIRTUAL TABLE u USING memwal(id TEXT PRIMARY KEY, v, path = 'utf');
INSERT INTO u VALUES ('é€😀', 'é€😀'), ('a', 1), ('Ā', 2), ('～', 3);
SELECT v FROM u WHERE id = 'é€😀';
SELECT id FROM u ORDER BY id;
SELECT count(*) FROM u WHERE id > 'Z';
CREATE TABLE ordinary(id TEXT PRIMARY KEY) WITHOUT ROWID;
INSERT INTO ordinary SELECT id FROM u;
SELECT id FROM ordinary ORDER BY id;
SELECT count(*) FROM ordinary WHERE id > 'Z';
.open utf8.db
.load build/memwal
CREATE VIRTUAL TABLE u USING memwal(path = 'utf');
SELECT v FROM u WHERE id = 'é€😀';
SELECT id FROM u ORDER BY id;
