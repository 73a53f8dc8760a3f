-- Keys of several columns: what is seen of them, plans, order, conflicts, the limit, other encodings.
.load build/memwal
.mode list
.nullvalue NULL
CREATE TABLE o(session TEXT, seq INTEGER, kind, v, PRIMARY KEY(session, seq, kind)) WITHOUT ROWID;
CREATE VIRTUAL TABLE m USING memwal(session TEXT, seq INTEGER, kind, v, PRIMARY KEY(session, seq, kind), background = off, group_rows = 8, durability = normal);

-- the key is made of ordinary columns; the hidden one that SQLite asks for shows up only by its name
PRAGMA table_info(m);
SELECT sql FROM sqlite_schema WHERE name = 'm';
INSERT INTO m VALUES ('s', 1, 'k', 'first');
SELECT * FROM m;
SELECT hex(memwal_key) FROM m;
INSERT INTO m(session, seq, kind, memwal_key) VALUES ('s', 2, 'k', x'00');
UPDATE m SET memwal_key = x'00';
UPDATE m SET memwal_key = memwal_key, v = 'second';
SELECT * FROM m;
SELECT last_insert_rowid();

-- C52: no NULL, in the order of the columns; the whole key is unique
INSERT INTO m VALUES ('s', NULL, NULL, 1);
INSERT INTO m(v) VALUES (1);
UPDATE m SET kind = NULL;
INSERT INTO m VALUES ('s', '1', 'k', 1);
INSERT INTO m VALUES ('s', 1.0, 'k', 1), ('s', 3, 'k', 1);
INSERT OR IGNORE INTO m VALUES ('s', 1.0, 'k', 1), ('s', 3, 'k', 3);
INSERT OR REPLACE INTO m VALUES ('s', 1.0, 'k', 'third');
UPDATE m SET seq = 3 WHERE seq = 1;
UPDATE OR IGNORE m SET seq = 3 WHERE seq = 1;
SELECT * FROM m;
UPDATE OR REPLACE m SET seq = 3 WHERE seq = 1;
SELECT * FROM m;
DELETE FROM m;

-- a text that ends inside another one, and values that continue where others end
INSERT INTO o SELECT s, n, k, s || n || k FROM
  (SELECT 'a' AS s UNION ALL VALUES ('a' || char(0)), ('a' || char(0) || 'b'), ('a' || char(1)), (''), ('ab'), ('b'), (12)),
  (SELECT -9223372036854775808 AS n UNION ALL VALUES (-1), (0), (1.5), ('x'), (9007199254740993), (9223372036854775807)),
  (SELECT 0.0 AS k UNION ALL VALUES (1), (''), ('1'), ('k'), (x''), (x'00'));
BEGIN; INSERT INTO m SELECT * FROM o WHERE seq < 1; COMMIT;
SELECT memwal_flush('m') > 0;
INSERT INTO m SELECT * FROM o WHERE seq >= 1;
SELECT count(*), memwal_count('m') FROM m;
CREATE TEMP VIEW mo AS SELECT group_concat(quote(session) || seq || typeof(kind) || quote(kind) || v, ' ') AS all_rows FROM (SELECT * FROM m ORDER BY session, seq, kind);
CREATE TEMP VIEW oo AS SELECT group_concat(quote(session) || seq || typeof(kind) || quote(kind) || v, ' ') AS all_rows FROM (SELECT * FROM o ORDER BY session, seq, kind);
SELECT mo.all_rows IS oo.all_rows FROM mo, oo;
-- C36: both ways at once
SELECT count(*), sum(a.v IS b.v) FROM (SELECT row_number() OVER () AS n, v FROM (SELECT v FROM m ORDER BY session, seq, kind)) a
  JOIN (SELECT row_number() OVER (ORDER BY session DESC, seq DESC, kind DESC) AS n, v FROM m) b ON a.n = 393 - b.n;
SELECT quote(v) FROM m ORDER BY session DESC, seq DESC, kind DESC LIMIT 3;
-- C46
SELECT quote(kind) FROM m WHERE session = 'a' AND seq = 0 ORDER BY kind LIMIT 2 OFFSET 2;
SELECT quote(kind) FROM m WHERE session = 'a' AND seq = 0 AND v <> 'a0k' ORDER BY kind DESC LIMIT 2 OFFSET 1;
SELECT quote(kind) FROM o WHERE session = 'a' AND seq = 0 AND v <> 'a0k' ORDER BY kind DESC LIMIT 2 OFFSET 1;
-- C44
SELECT count(*), sum(seq IS 0) FROM m WHERE session IN ('a', 12, NULL, 'nobody') AND seq IN (0, '1', 1.5);
SELECT count(*), sum(seq IS 0) FROM o WHERE session IN ('a', 12, NULL, 'nobody') AND seq IN (0, '1', 1.5);
SELECT count(*) FROM m WHERE (session, seq, kind) IN (SELECT session, seq, kind FROM o WHERE seq < 0);
SELECT count(*) FROM m WHERE (session, seq) IN (VALUES ('a', 0), ('b', 1.5), ('c', 1));
SELECT count(*) FROM m WHERE (session, seq) > ('a', 1) AND (session, seq) <= ('b', -1);
SELECT count(*) FROM o WHERE (session, seq) > ('a', 1) AND (session, seq) <= ('b', -1);
SELECT count(*) FROM m JOIN o USING (session, seq, kind);
SELECT min(session), max(session) FROM m; SELECT quote(max(seq)) FROM m WHERE session = 'b'; SELECT quote(min(kind)) FROM m WHERE session = 'b' AND seq = 0;
SELECT count(DISTINCT session), count(DISTINCT seq) FROM m;
SELECT session, count(*) FROM m WHERE seq > 0 GROUP BY session;

-- in the order of the rest of the key, where a number may be several texts
CREATE TABLE ot(a TEXT, b INT, PRIMARY KEY(a, b)) WITHOUT ROWID; CREATE VIRTUAL TABLE mt USING memwal(a TEXT, b INT, PRIMARY KEY(a, b));
INSERT INTO ot VALUES ('1', 1), ('1', 4), ('01', 2), ('1.0', 3), ('1.0', 5), (' 1', 6), ('10', 7), ('a', 8); INSERT INTO mt SELECT * FROM ot;
CREATE TABLE one(i INTEGER, x, t TEXT); INSERT INTO one VALUES (1, 1, 1);
SELECT group_concat(b) FROM (SELECT b FROM ot WHERE a = (SELECT i FROM one) ORDER BY b DESC); SELECT group_concat(b) FROM (SELECT b FROM mt WHERE a = (SELECT i FROM one) ORDER BY b DESC);
SELECT group_concat(b) FROM (SELECT b FROM ot WHERE a = (SELECT i FROM one) ORDER BY b LIMIT 3); SELECT group_concat(b) FROM (SELECT b FROM mt WHERE a = (SELECT i FROM one) ORDER BY b LIMIT 3);
SELECT group_concat(b) FROM (SELECT b FROM ot WHERE a = (SELECT x FROM one) ORDER BY b); SELECT group_concat(b) FROM (SELECT b FROM mt WHERE a = (SELECT x FROM one) ORDER BY b);
.parameter set ?1 1
SELECT group_concat(b) FROM (SELECT b FROM ot WHERE a = ?1 ORDER BY b); SELECT group_concat(b) FROM (SELECT b FROM mt WHERE a = ?1 ORDER BY b);
.parameter set ?1 "'1.0'"
SELECT group_concat(b) FROM (SELECT b FROM ot WHERE a = ?1 ORDER BY b DESC); SELECT group_concat(b) FROM (SELECT b FROM mt WHERE a = ?1 ORDER BY b DESC);
.parameter clear
CREATE VIRTUAL TABLE large USING memwal(a TEXT, b INT, PRIMARY KEY(a, b), durability = normal);
INSERT INTO large SELECT printf('%065000d', value), 1050 - value FROM generate_series(1, 1050);
SELECT group_concat(b) FROM (SELECT b FROM large WHERE a = (SELECT 1 FROM one) ORDER BY b);
SELECT count(*), min(b) FROM (SELECT b FROM large WHERE a = (SELECT i FROM one) ORDER BY a, b);
SELECT count(*), min(b) FROM (SELECT b FROM large WHERE a = printf('%065000d', (SELECT i FROM one)) ORDER BY b);
DROP TABLE large;

-- plans
EXPLAIN QUERY PLAN SELECT * FROM m WHERE session = ? AND seq = ? AND kind = ?;
EXPLAIN QUERY PLAN SELECT * FROM m WHERE session = ? AND seq > ? AND seq <= ?;
EXPLAIN QUERY PLAN SELECT * FROM m WHERE session > ? AND seq = ?;
EXPLAIN QUERY PLAN SELECT * FROM m WHERE seq = ?;
EXPLAIN QUERY PLAN SELECT * FROM m WHERE session = 's' ORDER BY seq;
EXPLAIN QUERY PLAN SELECT * FROM m WHERE session = 's' ORDER BY seq DESC, kind DESC, v;
EXPLAIN QUERY PLAN SELECT * FROM m WHERE session = 's' ORDER BY seq, kind DESC;
EXPLAIN QUERY PLAN SELECT * FROM m WHERE session = ? ORDER BY session, seq;
EXPLAIN QUERY PLAN SELECT * FROM m WHERE session = ? ORDER BY seq DESC LIMIT 3;
EXPLAIN QUERY PLAN SELECT * FROM m WHERE session = ? AND seq = ? ORDER BY kind;
EXPLAIN QUERY PLAN SELECT * FROM m WHERE session = ? AND seq = ? ORDER BY session, kind;
EXPLAIN QUERY PLAN SELECT * FROM m WHERE session = 12 ORDER BY seq;
EXPLAIN QUERY PLAN SELECT * FROM m WHERE session IN ('a', 'b') ORDER BY session, seq;
EXPLAIN QUERY PLAN SELECT * FROM m WHERE session = 'S' COLLATE NOCASE;
EXPLAIN QUERY PLAN SELECT * FROM m WHERE session IS NULL OR kind IS NULL;
EXPLAIN QUERY PLAN SELECT count(*) FROM m;
CREATE VIRTUAL TABLE r USING memwal(x REAL PRIMARY KEY, v);
EXPLAIN QUERY PLAN SELECT * FROM r WHERE x = ?;
EXPLAIN QUERY PLAN SELECT * FROM r WHERE x IN (1, 2) ORDER BY x DESC;
EXPLAIN QUERY PLAN SELECT * FROM r WHERE x < ? ORDER BY x DESC;
EXPLAIN QUERY PLAN SELECT max(x) FROM r;

-- C38, C50, C51: columns of the key change
UPDATE m SET session = session || '-', seq = seq + 1 WHERE typeof(seq) = 'integer' AND seq < 9223372036854775807; SELECT changes();
UPDATE o SET session = session || '-', seq = seq + 1 WHERE typeof(seq) = 'integer' AND seq < 9223372036854775807; SELECT changes();
SELECT mo.all_rows IS oo.all_rows FROM mo, oo;
UPDATE OR IGNORE m SET seq = seq + 1 WHERE session = 'a-'; SELECT changes();
UPDATE OR IGNORE o SET seq = seq + 1 WHERE session = 'a-'; SELECT changes();
UPDATE m SET kind = 0 WHERE session = 'b-';
UPDATE m SET kind = kind || '' WHERE kind = 1.0; UPDATE o SET kind = kind || '' WHERE kind = 1.0;
SELECT memwal_flush('m') > 0, memwal_merge('m') > 0;
SELECT mo.all_rows IS oo.all_rows FROM mo, oo;
DELETE FROM m WHERE session LIKE 'a%' AND seq = 2; DELETE FROM o WHERE session LIKE 'a%' AND seq = 2; SELECT changes();
DELETE FROM m WHERE (session, seq) = ('nobody', 1); SELECT changes();
SELECT mo.all_rows IS oo.all_rows FROM mo, oo;
ALTER TABLE m RENAME TO n;
.open test.db
.load build/memwal
SELECT count(*), memwal_count('n'), memwal_check('n') FROM n;

-- C57: how long a key may be
CREATE VIRTUAL TABLE b USING memwal(k BLOB PRIMARY KEY, v);
INSERT INTO b VALUES (zeroblob(65534), 'fits');
INSERT INTO b VALUES (zeroblob(65535), 'does not');
INSERT OR IGNORE INTO b VALUES (zeroblob(65535), 'does not');
UPDATE b SET k = zeroblob(100000);
SELECT length(k), v FROM b WHERE k = zeroblob(65534);
SELECT count(*) FROM b WHERE k = zeroblob(100000);
SELECT count(*) FROM b WHERE k > zeroblob(65533) AND k < zeroblob(100000);
CREATE VIRTUAL TABLE t USING memwal(k TEXT PRIMARY KEY, v);
INSERT INTO t VALUES (printf('%065536d', 1), 'does not');
INSERT INTO t VALUES (x'61', 'a blob in a text key');

-- defaults of key columns, where a row is inserted
CREATE VIRTUAL TABLE d USING memwal(a DEFAULT 'x', b REAL DEFAULT 2, v, PRIMARY KEY(b, a));
INSERT INTO d(v) VALUES (1);
INSERT INTO d(v) VALUES (2);
UPDATE d SET a = NULL;
SELECT * FROM d;

-- a store is attached with the key that it has
CREATE VIRTUAL TABLE p USING memwal(a TEXT, b INT, v, PRIMARY KEY(b, a), path = 'shared');
INSERT INTO p VALUES ('x', 1, 'here');
CREATE VIRTUAL TABLE q USING memwal(path = 'shared');
SELECT * FROM q WHERE b = 1;
INSERT INTO q VALUES ('x', 1.0, 'twice');
CREATE VIRTUAL TABLE s USING memwal(a TEXT, b INT, v, PRIMARY KEY(a, b), path = 'shared');
SELECT memwal_flush('q');
SELECT quote(id_min), id_max IS id_min FROM memwal_files('p') WHERE kind = 'table';

-- a list behind so many other terms that SQLite does not tell that it is one
CREATE VIRTUAL TABLE far USING memwal(k TEXT PRIMARY KEY, v);
INSERT INTO far VALUES ('1', 1), ('01', 2), ('1.0', 3), ('2', 4);
SELECT k, v FROM far WHERE v < 1000 AND v < 1001 AND v < 1002 AND v < 1003 AND v < 1004 AND v < 1005 AND v < 1006 AND v < 1007
  AND v < 1008 AND v < 1009 AND v < 1010 AND v < 1011 AND v < 1012 AND v < 1013 AND v < 1014 AND v < 1015
  AND v < 1016 AND v < 1017 AND v < 1018 AND v < 1019 AND v < 1020 AND v < 1021 AND v < 1022 AND v < 1023
  AND v < 1024 AND v < 1025 AND v < 1026 AND v < 1027 AND v < 1028 AND v < 1029 AND v < 1030 AND v < 1031
  AND k IN (SELECT CAST(value AS INT) FROM (SELECT 1 AS value)) ORDER BY v;

-- one number for two columns, whose texts it may be equal to: sorted by the second one all the same
CREATE VIRTUAL TABLE mixed USING memwal(a, b, c, PRIMARY KEY(a, b, c));
INSERT INTO mixed VALUES (1, '1', 1), ('1', 1, 0), ('1', '01', 2), (1, 1, 3);
CREATE TABLE lone(i INT);
INSERT INTO lone VALUES (1);
SELECT quote(a), quote(b), c FROM mixed WHERE a = (SELECT i FROM lone) AND b = (SELECT i FROM lone) ORDER BY b, c;
SELECT quote(a), quote(b), c FROM mixed WHERE a = (SELECT i FROM lone) ORDER BY b, c;
SELECT quote(a), quote(b), c FROM mixed WHERE a = (SELECT i FROM lone) ORDER BY b DESC, c DESC;

-- C56: a database in UTF-16, where texts have another order
.open wide.db
PRAGMA encoding = 'UTF-16le';
.load build/memwal
CREATE TABLE o(a, b TEXT, v, PRIMARY KEY(a, b)) WITHOUT ROWID;
CREATE VIRTUAL TABLE m USING memwal(a, b TEXT, v, PRIMARY KEY(a, b));
INSERT INTO o SELECT x.c, y.c, x.c || y.c FROM (SELECT char(65535) AS c UNION ALL VALUES (char(128512)), ('a'), (''), (1), (2.0), (x'00')) x, (SELECT char(65535) AS c UNION ALL VALUES (char(128512)), ('a'), ('é€😀'), (7)) y;
INSERT INTO m SELECT * FROM o;
SELECT count(*), sum(o.v IS m.v) FROM o JOIN m ON o.a = m.a AND o.b = m.b;
SELECT count(*) FROM o WHERE a > char(65535); SELECT count(*) FROM m WHERE a > char(65535);
SELECT count(*) FROM o WHERE a <= char(65535); SELECT count(*) FROM m WHERE a <= char(65535);
SELECT count(*) FROM o WHERE a = 1 AND b >= 'b'; SELECT count(*) FROM m WHERE a = 1 AND b >= 'b';
SELECT count(*) FROM o WHERE a < 2; SELECT count(*) FROM m WHERE a < 2;
SELECT count(*) FROM o WHERE a >= 2; SELECT count(*) FROM m WHERE a >= 2;
SELECT count(*) FROM o WHERE a > '' AND a < x''; SELECT count(*) FROM m WHERE a > '' AND a < x'';
SELECT count(*) FROM o WHERE a BETWEEN 'b' AND char(65536); SELECT count(*) FROM m WHERE a BETWEEN 'b' AND char(65536);
CREATE TABLE oi(a INT PRIMARY KEY, v) WITHOUT ROWID;
CREATE VIRTUAL TABLE mi USING memwal(a INT PRIMARY KEY, v);
INSERT INTO oi SELECT DISTINCT CAST(a AS INT) + 0, 1 FROM o UNION SELECT b, 2 FROM o; INSERT INTO mi SELECT * FROM oi;
SELECT count(*) FROM oi WHERE a > 'b'; SELECT count(*) FROM mi WHERE a > 'b';
SELECT count(*) FROM oi WHERE a > 1 AND a <= char(65535); SELECT count(*) FROM mi WHERE a > 1 AND a <= char(65535);
SELECT group_concat(hex(b)) FROM (SELECT b FROM o WHERE a = 1 ORDER BY b); SELECT group_concat(hex(b)) FROM (SELECT b FROM m WHERE a = 1 ORDER BY b);
SELECT hex(b), b FROM m WHERE a = 2 AND b = 'é€😀';
EXPLAIN QUERY PLAN SELECT * FROM m WHERE a = 1 AND b > 'x' ORDER BY a, b;
