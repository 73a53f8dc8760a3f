-- Conditions on the id with every kind of argument, against an ordinary table; plans; order.
.load build/memwal
.mode list
.nullvalue NULL
CREATE TABLE oi(id INTEGER PRIMARY KEY, v);
CREATE VIRTUAL TABLE mi USING memwal(id INTEGER PRIMARY KEY, v, background = off);
CREATE TABLE ot(id TEXT PRIMARY KEY NOT NULL, v) WITHOUT ROWID;
CREATE VIRTUAL TABLE mt USING memwal(id TEXT PRIMARY KEY, v, background = off);
-- C48: ids at the edges
INSERT INTO oi(id) VALUES (-9223372036854775808), (-9223372036854775807), (-9007199254740993), (-9007199254740992), (-9007199254740991), (-1), (0), (1), (2), (3), (7), (9007199254740991), (9007199254740992), (9007199254740993), (9223372036854775806), (9223372036854775807);
INSERT INTO ot(id) VALUES (''), ('0'), ('1'), ('01'), ('1.0'), (' 1'), ('10'), ('2'), ('A'), ('a'), ('ab'), ('abc'), ('ABC'), ('b'), ('é'), ('😀'), ('a' || char(0)), ('k1'), ('k2');
UPDATE oi SET v = 'v' || id; UPDATE ot SET v = 'v' || id;
INSERT INTO mi SELECT * FROM oi; INSERT INTO mt SELECT * FROM ot;

CREATE TABLE x(n INTEGER PRIMARY KEY, x, i INTEGER, t TEXT, r REAL);
INSERT INTO x(x) SELECT id FROM oi;
INSERT INTO x(x) SELECT id FROM ot;
INSERT INTO x(x) VALUES (NULL), (1.0), (1.5), (-0.5), (0.0), (2.5), (1e19), (-1e19), (1e999), (-1e999), (9007199254740992.0), (9007199254740994.0), (9223372036854775807.0), (x''), (x'31'), ('1e0'), ('0x1'), ('zzz'), ('7.0'), ('  7');
UPDATE x SET i = x, t = x, r = x;

-- integer ids: each comparison with each argument, bare and from columns of each affinity. (The real -2^63 is
-- left out: an ordinary table finds it equal to that id when it scans, and not when it seeks.)
CREATE TEMP VIEW asked AS SELECT n, x FROM x UNION ALL SELECT n, i FROM x UNION ALL SELECT n, t FROM x UNION ALL SELECT n, r FROM x;
SELECT '=', count(*) FROM x JOIN oi ON id = x; SELECT '=', count(*) FROM x JOIN mi ON id = x;
SELECT '<', count(*), sum(n) FROM x JOIN oi ON id < x; SELECT '<', count(*), sum(n) FROM x JOIN mi ON id < x;
SELECT '<=', count(*), sum(n) FROM x JOIN oi ON id <= x; SELECT '<=', count(*), sum(n) FROM x JOIN mi ON id <= x;
SELECT '>', count(*), sum(n) FROM x JOIN oi ON id > x; SELECT '>', count(*), sum(n) FROM x JOIN mi ON id > x;
SELECT '>=', count(*), sum(n) FROM x JOIN oi ON id >= x; SELECT '>=', count(*), sum(n) FROM x JOIN mi ON id >= x;
SELECT 'IS', count(*), sum(n) FROM x JOIN oi ON id IS x; SELECT 'IS', count(*), sum(n) FROM x JOIN mi ON id IS x;
SELECT '<>', count(*), sum(n) FROM x JOIN oi ON id <> x; SELECT '<>', count(*), sum(n) FROM x JOIN mi ON id <> x;
SELECT '= t', count(*) FROM x JOIN oi ON id = t; SELECT '= t', count(*) FROM x JOIN mi ON id = t;
SELECT '> t', count(*), sum(n) FROM x JOIN oi ON id > t; SELECT '> t', count(*), sum(n) FROM x JOIN mi ON id > t;
SELECT '<= r', count(*), sum(n) FROM x JOIN oi ON id <= r; SELECT '<= r', count(*), sum(n) FROM x JOIN mi ON id <= r;
SELECT 'between', count(*), sum(a.n + b.n) FROM x a, x b JOIN oi ON id BETWEEN a.x AND b.x;
SELECT 'between', count(*), sum(a.n + b.n) FROM x a, x b JOIN mi ON id BETWEEN a.x AND b.x;
-- text ids
SELECT '=', count(*) FROM x JOIN ot ON id = x; SELECT '=', count(*) FROM x JOIN mt ON id = x;
SELECT '= i', count(*) FROM x JOIN ot ON id = i; SELECT '= i', count(*) FROM x JOIN mt ON id = i;
SELECT '= t', count(*) FROM x JOIN ot ON id = t; SELECT '= t', count(*) FROM x JOIN mt ON id = t;
SELECT '= r', count(*) FROM x JOIN ot ON id = r; SELECT '= r', count(*) FROM x JOIN mt ON id = r;
SELECT '<', count(*), sum(n) FROM x JOIN ot ON id < x; SELECT '<', count(*), sum(n) FROM x JOIN mt ON id < x;
SELECT '<= i', count(*), sum(n) FROM x JOIN ot ON id <= i; SELECT '<= i', count(*), sum(n) FROM x JOIN mt ON id <= i;
SELECT '< r', count(*), sum(n) FROM x JOIN ot ON id < r; SELECT '< r', count(*), sum(n) FROM x JOIN mt ON id < r;
SELECT '> i', count(*), sum(n) FROM x JOIN ot ON id > i; SELECT '> i', count(*), sum(n) FROM x JOIN mt ON id > i;
SELECT '= 1', group_concat(quote(id)) FROM ot WHERE id = 1; SELECT '= 1', group_concat(quote(id)) FROM mt WHERE id = 1;
SELECT '<= 1.0', group_concat(quote(id)) FROM ot WHERE id <= 1.0; SELECT '<= 1.0', group_concat(quote(id)) FROM mt WHERE id <= 1.0;
.parameter set ?1 10
SELECT '>= ?', group_concat(quote(id)) FROM ot WHERE id >= ?1 AND id < 'a'; SELECT '>= ?', group_concat(quote(id)) FROM mt WHERE id >= ?1 AND id < 'a';
SELECT '>', count(*), sum(n) FROM x JOIN ot ON id > x; SELECT '>', count(*), sum(n) FROM x JOIN mt ON id > x;
SELECT '>= t', count(*), sum(n) FROM x JOIN ot ON id >= t; SELECT '>= t', count(*), sum(n) FROM x JOIN mt ON id >= t;
SELECT 'between', count(*), sum(a.n + b.n) FROM x a, x b JOIN ot ON id BETWEEN a.x AND b.x;
SELECT 'between', count(*), sum(a.n + b.n) FROM x a, x b JOIN mt ON id BETWEEN a.x AND b.x;

-- C44: IN
SELECT group_concat(id) FROM oi WHERE id IN (3, 1, 1, NULL, 99, '7', 2.0, 2.5, 'x');
SELECT group_concat(id) FROM mi WHERE id IN (3, 1, 1, NULL, 99, '7', 2.0, 2.5, 'x');
SELECT group_concat(id) FROM mi WHERE id IN ();
SELECT count(*) FROM mi WHERE id NOT IN (1, 2);
SELECT group_concat(id) FROM mi WHERE id IN (SELECT x FROM x) AND id IN (1, 2, 3, -1) ;
SELECT group_concat(quote(id)) FROM ot WHERE id IN ('a', 1, 'b', NULL, x'61');
SELECT group_concat(quote(id)) FROM mt WHERE id IN ('a', 1, 'b', NULL, x'61');
SELECT count(*) FROM mi WHERE id IN (SELECT value FROM generate_series(-5000, 5000));
SELECT group_concat(id) FROM (SELECT id FROM mi WHERE id IN (3, 1, 2) ORDER BY id DESC);

-- C47: other collations find more
SELECT group_concat(id) FROM mt WHERE id = 'abc' COLLATE NOCASE;
SELECT group_concat(id) FROM mt WHERE id LIKE 'ab%';
SELECT group_concat(id) FROM mt WHERE id GLOB 'ab*';
SELECT group_concat(id) FROM mt WHERE id >= 'ABC' COLLATE NOCASE AND id < 'abd' COLLATE NOCASE;
SELECT group_concat(id) FROM mt WHERE 'a  ' = id COLLATE RTRIM;
PRAGMA case_sensitive_like = on;
SELECT group_concat(id) FROM mt WHERE id LIKE 'ab%';
PRAGMA case_sensitive_like = off;

-- order, paging, ends
SELECT group_concat(id) FROM (SELECT id FROM mi ORDER BY id LIMIT 3);
SELECT group_concat(id) FROM (SELECT id FROM mi ORDER BY id DESC LIMIT 2 OFFSET 1);
SELECT group_concat(id) FROM (SELECT id FROM mi WHERE id > 1 ORDER BY rowid DESC LIMIT 2 OFFSET 1);
SELECT group_concat(id) FROM (SELECT id FROM mi WHERE id < 5 AND v <> 'v2' ORDER BY id DESC LIMIT 2 OFFSET 1);
SELECT min(id), max(id) FROM mi; SELECT min(id) FROM mi; SELECT max(id) FROM mi; SELECT max(rowid) FROM mi WHERE id < 7;
SELECT min(id), max(id) FROM mt; SELECT hex(min(id)) FROM mt; SELECT max(id) FROM mt WHERE id < 'k';
SELECT (SELECT group_concat(hex(id)) FROM (SELECT id FROM ot ORDER BY id DESC)) = (SELECT group_concat(hex(id)) FROM (SELECT id FROM mt ORDER BY id DESC));
SELECT group_concat(id) FROM mi WHERE (id, v) > (2, 'v2') AND (id, v) <= (7, 'v7');
SELECT count(*) FROM mi WHERE id IS NULL;
SELECT count(*) FROM mi WHERE id IS NOT NULL;
SELECT count(*) FROM x LEFT JOIN mi ON id = x WHERE id IS NULL;

-- plans
EXPLAIN QUERY PLAN SELECT * FROM mi WHERE id = 5;
EXPLAIN QUERY PLAN SELECT * FROM mi WHERE rowid = ?;
EXPLAIN QUERY PLAN SELECT * FROM mi WHERE id > 5 AND id <= 9 AND v = 1 ORDER BY id DESC;
EXPLAIN QUERY PLAN SELECT * FROM mi WHERE rowid < 5;
EXPLAIN QUERY PLAN SELECT count(*) FROM mi;
EXPLAIN QUERY PLAN SELECT max(id) FROM mi;
EXPLAIN QUERY PLAN SELECT * FROM mi ORDER BY id, v;
EXPLAIN QUERY PLAN SELECT * FROM mi ORDER BY v, id;
EXPLAIN QUERY PLAN SELECT * FROM mt WHERE id = 'a';
EXPLAIN QUERY PLAN SELECT * FROM mt WHERE id GLOB 'ab*';
EXPLAIN QUERY PLAN SELECT * FROM mt WHERE id = 'a' COLLATE NOCASE;
EXPLAIN QUERY PLAN SELECT * FROM mi JOIN mt ON mt.id = mi.v WHERE mi.id < 10;
EXPLAIN QUERY PLAN SELECT * FROM mt WHERE id IN ('a', 'b') ORDER BY id DESC;
EXPLAIN QUERY PLAN SELECT * FROM mt WHERE id > CAST(? AS INTEGER);
