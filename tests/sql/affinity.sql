-- What a column of each affinity keeps, against an ordinary table: prints only differences.
.load build/memwal
.mode list
.nullvalue NULL
CREATE TABLE v(n INTEGER PRIMARY KEY, x);
INSERT INTO v(x) VALUES (NULL), (0), (1), (-1), (9223372036854775807), (-9223372036854775808), (9007199254740993),
  (0.0), (-0.0), (1.0), (-1.0), (0.5), (1e15), (1e16), (1e18), (1e19), (-1e19), (1e300), (9223372036854775807.0),
  (-9223372036854775808.0), (9007199254740992.0), (123456789.125), (1e999), (-1e999), (4.9e-324), (0.1), (1.0e-5),
  (''), (' '), ('0'), ('-0'), ('+1'), ('1'), (' 1 '), ('1 x'), ('01'), ('1.'), ('.5'), ('1.0'), ('1.50'), ('1e3'),
  ('1e-3'), ('1e'), ('0x10'), ('1e999'), ('9223372036854775807'), ('9223372036854775808'), ('-9223372036854775808'),
  ('-9223372036854775809'), ('9007199254740993'), ('9007199254740993.0'), ('123456789012345678901234567890'),
  ('0.1'), ('12345678901234567890.5'), ('abc'), ('1' || char(0)), (char(0) || '1'), ('inf'), ('nan'), ('١'),
  (x''), (x'31'), (x'00'), (zeroblob(3)), ('1_000'), ('1e+05'), ('-1.0e2'), ('--1'), ('  -7'), ('3' || char(10));

CREATE TABLE o(n INTEGER PRIMARY KEY, i INTEGER, t TEXT, r REAL, u NUMERIC, b BLOB, p, c VARCHAR(10), f FLOATING POINT, d DECIMAL(10,5), y BOOLEAN, s STRING);
CREATE VIRTUAL TABLE m USING memwal(n INTEGER PRIMARY KEY, i INTEGER, t TEXT, r REAL, u NUMERIC, b BLOB, p, c VARCHAR(10), f FLOATING POINT, d DECIMAL(10,5), y BOOLEAN, s STRING, background = off);
INSERT INTO o SELECT n, x, x, x, x, x, x, x, x, x, x, x FROM v;
INSERT INTO m SELECT n, x, x, x, x, x, x, x, x, x, x, x FROM v;
CREATE TEMP VIEW o_text AS SELECT n, typeof(i)||quote(i) i, typeof(t)||hex(t) t, typeof(r)||quote(r) r, typeof(u)||quote(u) u, typeof(b)||hex(b)||quote(b) b, typeof(p)||hex(p)||quote(p) p, typeof(c)||hex(c) c, typeof(f)||quote(f) f, typeof(d)||quote(d) d, typeof(y)||quote(y) y, typeof(s)||quote(s) s FROM main.o;
CREATE TEMP VIEW m_text AS SELECT n, typeof(i)||quote(i) i, typeof(t)||hex(t) t, typeof(r)||quote(r) r, typeof(u)||quote(u) u, typeof(b)||hex(b)||quote(b) b, typeof(p)||hex(p)||quote(p) p, typeof(c)||hex(c) c, typeof(f)||quote(f) f, typeof(d)||quote(d) d, typeof(y)||quote(y) y, typeof(s)||quote(s) s FROM main.m;
SELECT count(*) FROM m;
SELECT 'ordinary only', * FROM (SELECT * FROM o_text EXCEPT SELECT * FROM m_text);
SELECT 'memwal only', * FROM (SELECT * FROM m_text EXCEPT SELECT * FROM o_text);
SELECT memwal_flush('m'), memwal_merge('m');
SELECT 'ordinary only', * FROM (SELECT * FROM o_text EXCEPT SELECT * FROM m_text);
SELECT 'memwal only', * FROM (SELECT * FROM m_text EXCEPT SELECT * FROM o_text);

-- and through UPDATE
UPDATE o SET i = b, t = i, r = t, u = r, b = u, p = t;
UPDATE m SET i = b, t = i, r = t, u = r, b = u, p = t;
SELECT 'ordinary only', * FROM (SELECT * FROM o_text EXCEPT SELECT * FROM m_text);
SELECT 'memwal only', * FROM (SELECT * FROM m_text EXCEPT SELECT * FROM o_text);

-- ids: the same are taken, the same refused
CREATE TABLE oi(id INTEGER PRIMARY KEY, n);
CREATE VIRTUAL TABLE mi USING memwal(id INTEGER PRIMARY KEY, n);
CREATE TABLE ot(id TEXT PRIMARY KEY NOT NULL, n) WITHOUT ROWID;
CREATE VIRTUAL TABLE mt USING memwal(id TEXT PRIMARY KEY, n);
INSERT OR IGNORE INTO ot SELECT x, n FROM v WHERE typeof(x) <> 'blob';
INSERT OR IGNORE INTO mt SELECT x, n FROM v WHERE typeof(x) <> 'blob';
SELECT hex(id), n FROM ot EXCEPT SELECT hex(id), n FROM mt;
SELECT hex(id), n FROM mt EXCEPT SELECT hex(id), n FROM ot;
SELECT count(*) = (SELECT count(*) FROM ot) FROM mt;
INSERT OR IGNORE INTO oi SELECT x, n FROM v WHERE x = CAST(x AS INTEGER) AND typeof(x) <> 'blob' AND x + 0 BETWEEN -9e18 AND 9e18;
INSERT OR IGNORE INTO mi SELECT x, n FROM v WHERE x = CAST(x AS INTEGER) AND typeof(x) <> 'blob' AND x + 0 BETWEEN -9e18 AND 9e18;
SELECT * FROM oi EXCEPT SELECT * FROM mi;
SELECT * FROM mi EXCEPT SELECT * FROM oi;
INSERT INTO mt VALUES (x'31', 1);
INSERT INTO mi VALUES (x'31', 1);
INSERT INTO mi VALUES ('1.5', 1);
INSERT INTO mi VALUES (9223372036854775807.0, 1);
