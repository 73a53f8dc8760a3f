-- Cases by name that no other script holds.
.load build/memwal
.mode list
.nullvalue NULL

-- C25: the same rows with and without compression, and in an ordinary table
CREATE TABLE o(id INTEGER PRIMARY KEY, v INTEGER, w TEXT);
INSERT INTO o SELECT value, value * 7919 % 1000, 'text ' || (value % 97) FROM generate_series(1, 100000);
CREATE VIRTUAL TABLE packed USING memwal(id INTEGER PRIMARY KEY, v INTEGER, w TEXT, compression = 3, memtable = '1MB', file_bytes = 200000, background = off);
CREATE VIRTUAL TABLE bare USING memwal(id INTEGER PRIMARY KEY, v INTEGER, w TEXT, compression = 0, memtable = '1MB', file_bytes = 200000, background = off);
INSERT INTO packed SELECT * FROM o;
INSERT INTO bare SELECT * FROM o;
SELECT memwal_flush('packed') IS NOT 0, memwal_flush('bare') IS NOT 0;
SELECT count(*), sum(v), min(w), max(w) FROM o;
SELECT count(*), sum(v), min(w), max(w) FROM packed;
SELECT count(*), sum(v), min(w), max(w) FROM bare;
SELECT count(*) FROM (SELECT v % 10, count(*), max(w) FROM packed GROUP BY 1 EXCEPT SELECT v % 10, count(*), max(w) FROM o GROUP BY 1);
SELECT count(*) FROM (SELECT v % 10, count(*), max(w) FROM bare GROUP BY 1 EXCEPT SELECT v % 10, count(*), max(w) FROM o GROUP BY 1);
SELECT count(*) FROM (SELECT * FROM packed EXCEPT SELECT * FROM bare);
SELECT memwal_set('packed', 'compression', 0), memwal_set('bare', 'compression', 9);
SELECT memwal_compact('packed') >= 0, memwal_compact('bare') >= 0, memwal_check('packed'), memwal_check('bare');
SELECT count(*) FROM (SELECT * FROM packed EXCEPT SELECT * FROM bare), (SELECT count(*) AS n FROM bare) WHERE n = 100000;

-- L24: LIMIT and OFFSET count rows that live
CREATE VIRTUAL TABLE l24 USING memwal(id INTEGER PRIMARY KEY, v, background = off);
INSERT INTO l24 VALUES (1, 'a'), (2, 'b'), (3, 'c');
SELECT memwal_flush('l24') IS NOT 0;
SELECT memwal_merge('l24') >= 0;
DELETE FROM l24 WHERE id = 1;
SELECT id FROM l24 LIMIT 2;
SELECT id FROM l24 LIMIT 2 OFFSET 1;
SELECT id FROM l24 ORDER BY id DESC LIMIT 1 OFFSET 1;
SELECT id FROM l24 WHERE v >= 'a' LIMIT 5 OFFSET 0;

-- L28: NULL over a value, in one generation
CREATE VIRTUAL TABLE l28 USING memwal(k TEXT PRIMARY KEY, v, background = off);
INSERT INTO l28 VALUES ('a', 1);
UPDATE l28 SET v = NULL;
SELECT memwal_compact('l28') >= 0, k, v FROM l28;

-- C57: values of all sizes, by each kind of key
CREATE TABLE size(n INTEGER PRIMARY KEY);
INSERT INTO size VALUES (0), (1), (65536), (16777216);
CREATE VIRTUAL TABLE c57 USING memwal(id BLOB PRIMARY KEY, v, background = off, memtable = '8MB');
CREATE VIRTUAL TABLE c57r USING memwal(id REAL PRIMARY KEY, v, background = off, memtable = '8MB');
INSERT INTO c57 SELECT CAST('k' || n AS BLOB), zeroblob(n) FROM size;
INSERT INTO c57 SELECT CAST('t' || n AS BLOB), substr(hex(zeroblob(n / 2 + 1)), 1, n) FROM size;
INSERT INTO c57r SELECT n + 0.5, randomblob(n) FROM size;
SELECT group_concat(typeof(v) || length(v), ' ') FROM (SELECT v FROM c57 ORDER BY id);
SELECT group_concat(id || typeof(v) || length(v), ' ') FROM (SELECT id, v FROM c57r ORDER BY id);
SELECT memwal_compact('c57') >= 0, memwal_compact('c57r') >= 0, memwal_check('c57'), memwal_check('c57r');
SELECT group_concat(typeof(v) || length(v), ' ') FROM (SELECT v FROM c57 ORDER BY id);
SELECT count(*) FROM c57 WHERE v = zeroblob(length(v));
SELECT group_concat(id || typeof(v) || length(v), ' ') FROM (SELECT id, v FROM c57r ORDER BY id);
INSERT INTO c57 VALUES (x'00', zeroblob(1000000001));
INSERT INTO c57 VALUES (zeroblob(70000), 1);
SELECT memwal_count('c57');

-- C58: empty text, empty blob and NULL are three things, by each kind of key
CREATE VIRTUAL TABLE c58i USING memwal(id INTEGER PRIMARY KEY, v, background = off);
CREATE VIRTUAL TABLE c58b USING memwal(id BLOB PRIMARY KEY, v, background = off);
CREATE VIRTUAL TABLE c58r USING memwal(id REAL PRIMARY KEY, v, background = off);
CREATE VIRTUAL TABLE c58l USING memwal(id, x TEXT, v, PRIMARY KEY(id, x), background = off);
INSERT INTO c58i VALUES (1, ''), (2, x''), (3, NULL), (4, 'x'), (5, x'00');
INSERT INTO c58b SELECT CAST(id AS TEXT), v FROM c58i;
INSERT INTO c58r SELECT id / 2.0, v FROM c58i;
INSERT INTO c58l SELECT CASE id WHEN 1 THEN '' WHEN 2 THEN x'' ELSE id END, '', v FROM c58i;
SELECT group_concat(quote(v)) FROM c58i;
SELECT group_concat(quote(id) || quote(v)) FROM c58b;
SELECT group_concat(quote(id) || quote(v)) FROM c58r;
SELECT group_concat(quote(id) || quote(x) || quote(v)) FROM c58l;
SELECT memwal_compact('c58i') >= 0, memwal_compact('c58b') >= 0, memwal_compact('c58r') >= 0, memwal_compact('c58l') >= 0;
SELECT group_concat(quote(v)) FROM c58i;
SELECT group_concat(quote(id) || quote(v)) FROM c58b;
SELECT group_concat(quote(id) || quote(v)) FROM c58r;
SELECT group_concat(quote(id) || quote(x) || quote(v)) FROM c58l;

-- C52, C59: NULL as id, and ids that are not there: in an empty table, a full one, next to a deleted one
CREATE VIRTUAL TABLE empty USING memwal(id BLOB PRIMARY KEY, v, background = off);
SELECT count(*) FROM empty WHERE id = 'a'; UPDATE empty SET v = 1 WHERE id = 'a'; SELECT changes(); DELETE FROM empty WHERE id = 'a'; SELECT changes();
INSERT INTO c58b VALUES (NULL, 'x');
INSERT INTO c58r VALUES (NULL, 'x');
INSERT INTO c58l VALUES (1, NULL, 'x');
UPDATE c58r SET id = NULL;
UPDATE c58l SET x = NULL WHERE id = 3;
DELETE FROM c58b WHERE id = '3'; SELECT changes();
SELECT count(*) FROM c58b WHERE id = '3'; UPDATE c58b SET v = 1 WHERE id = '3'; SELECT changes(); DELETE FROM c58b WHERE id = '3'; SELECT changes();
DELETE FROM c58r WHERE id = 1.5; SELECT changes();
UPDATE c58r SET v = 1 WHERE id = 1.5; SELECT changes(); DELETE FROM c58r WHERE id = 1.25; SELECT changes();
DELETE FROM c58i WHERE id = 3; UPDATE c58i SET id = 9 WHERE id = 3; SELECT changes(); DELETE FROM c58i WHERE id = 6; SELECT changes();
DELETE FROM c58l WHERE id = 3 AND x = ''; SELECT changes(); UPDATE c58l SET v = 1 WHERE (id, x) = (3, ''); SELECT changes(); DELETE FROM c58l WHERE id = 4 AND x = 'y'; SELECT changes();
SELECT memwal_count('c58i'), memwal_count('c58b'), memwal_count('c58r'), memwal_count('c58l');
