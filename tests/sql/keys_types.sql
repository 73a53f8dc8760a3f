-- Keys of every type: the same statements on a memwal table m and on an ordinary WITHOUT ROWID table o. After each
-- step both say the same, and what m says is printed.
.load build/memwal
.mode list
.nullvalue NULL
CREATE TABLE step(n INTEGER PRIMARY KEY, sql);
-- @ stands for the table. A line with ! is shown for m alone.
INSERT INTO step(sql) VALUES
 ('INSERT INTO @ VALUES(1, ''one''), (2.0, ''two''), (2.5, ''half''), (''a'', ''text''), (x''61'', ''blob''), ('''', ''empty text''), (x'''', ''empty blob'')'),
 -- C52: no NULL
 ('INSERT INTO @ VALUES(NULL, ''x'')'), ('INSERT OR IGNORE INTO @ VALUES(NULL, ''x'')'), ('INSERT OR REPLACE INTO @ VALUES(NULL, ''x'')'), ('UPDATE @ SET k = NULL'),
 -- one value, two spellings; C49
 ('INSERT INTO @ VALUES(1.0, ''again'')'), ('INSERT OR IGNORE INTO @ VALUES(''1'', ''ignored'')'),
 ('INSERT OR REPLACE INTO @ VALUES(1.0, ''real'')'), ('INSERT INTO @ SELECT k, v FROM @ WHERE k = 2'), ('UPDATE @ SET k = 2 WHERE k = 2.0'), ('UPDATE @ SET k = 2.0, v = ''two'' WHERE k = 2'),
 ('flush'),
 -- C53: zeros; C54: the ends; C48: around 2^53
 ('INSERT INTO @ VALUES(0.0, ''zero'')'), ('INSERT INTO @ VALUES(-0.0, ''minus zero'')'), ('INSERT OR REPLACE INTO @ VALUES(-0.0, ''minus zero'')'), ('DELETE FROM @ WHERE k = 0'), ('INSERT INTO @ VALUES(-0.0, ''minus zero'')'), ('UPDATE @ SET k = 0 WHERE k = 0.0'), ('UPDATE @ SET k = -0.0, v = v || ''!'' WHERE k = 0'),
 ('INSERT INTO @ VALUES(-9223372036854775808, ''min''), (9223372036854775807, ''max''), (-1, ''-1''), (9007199254740992, ''2^53''), (-9007199254740992, ''-2^53''), (1e999, ''inf''), (-1e999, ''-inf''), (9223372036854775808, ''2^63''), (1e-320, ''tiny'')'),
 ('INSERT INTO @ VALUES(9007199254740993, ''2^53 + 1'')'), ('INSERT INTO @ VALUES(-9007199254740993, ''-2^53 - 1'')'), ('INSERT INTO @ VALUES(-9223372036854775808.0, ''real min'')'),
 -- C55: zeros inside
 ('INSERT INTO @ VALUES(''a'' || char(0), ''a0''), (''a'' || char(0) || ''b'', ''a0b''), (''a'' || char(1), ''a1''), (x''6100'', ''x0''), (x''610001'', ''x01''), (x''6101'', ''x1'')'),
 ('DELETE FROM @ WHERE k = ''a'' || char(0)'),
 ('INSERT INTO @ VALUES(''12abc'', NULL), ('' 12 '', ''twelve''), (''0x10'', ''''), (''1e2'', ''hundred''), (char(233), x''''), (char(128512), ''smile'')'),
 ('flush'), ('merge'),
 ('INSERT OR IGNORE INTO @ SELECT k, ''twice'' FROM @'), ('INSERT OR FAIL INTO @ VALUES(7, ''seven''), (1, ''one''), (8, ''eight'')'), ('INSERT OR ABORT INTO @ VALUES(9, ''nine''), (1, ''one'')'),
 ('BEGIN'), ('INSERT OR ROLLBACK INTO @ VALUES(10, ''ten''), (7, ''seven'')'), ('ROLLBACK'),
 -- C50: moving one
 ('UPDATE @ SET k = ''moved'' WHERE k = ''a'''), ('UPDATE @ SET k = ''moved'' WHERE k = 1'), ('UPDATE OR REPLACE @ SET k = ''moved'' WHERE k = 1'), ('UPDATE OR IGNORE @ SET k = ''moved'' WHERE k = 7'), ('UPDATE @ SET k = k || '''' WHERE v = ''seven'''),
 -- C59: what is not there
 ('UPDATE @ SET v = 1 WHERE k = 404'), ('DELETE FROM @ WHERE k = ''nowhere'''), ('DELETE FROM @ WHERE k = x''ffff'''),
 -- C43: one's own rows
 ('BEGIN'), ('INSERT INTO @ VALUES(77, ''mine'')'), ('UPDATE @ SET v = ''found'' WHERE k IN (SELECT k FROM @ WHERE v = ''mine'')'), ('SAVEPOINT s'), ('UPDATE @ SET k = 78.0 WHERE k = 77'), ('DELETE FROM @ WHERE k > ''b'''), ('ROLLBACK TO s'), ('COMMIT'),
 -- C38: moving all
 ('UPDATE @ SET k = ''p'' || hex(k)'),
 ('flush'), ('UPDATE @ SET k = substr(k, 2)'), ('UPDATE @ SET k = v WHERE v IS NOT NULL AND typeof(v) = ''text'' AND v <> ''''');
CREATE TABLE type(name);
INSERT INTO type VALUES (''), ('BLOB'), ('REAL'), ('NUMERIC'), ('INT'), ('DATETIME'), ('BIGINT UNSIGNED');
.output all.sql
SELECT printf('.print == %s' || char(10) || 'DROP TABLE IF EXISTS o; DROP TABLE IF EXISTS m;' || char(10) ||
  'CREATE TABLE o(k %s PRIMARY KEY, v) WITHOUT ROWID; CREATE VIRTUAL TABLE m USING memwal(k %s PRIMARY KEY, v, background = off, group_rows = 4, page_bytes = 64, durability = normal);', name, name, name) || char(10) ||
  (SELECT group_concat(line, char(10)) FROM (SELECT CASE
     WHEN sql = 'flush' THEN 'SELECT memwal_flush(''m'') > 0;' WHEN sql = 'merge' THEN 'SELECT memwal_merge(''m'') > 0;'
     WHEN sql LIKE 'BEGIN%' OR sql LIKE 'ROLLBACK%' OR sql LIKE 'SAVEPOINT%' OR sql LIKE 'COMMIT%' THEN sql || ';'
     ELSE replace(sql, '@', 'o') || ';' || char(10) || 'SELECT changes();' || char(10) || replace(sql, '@', 'm') || ';' || char(10) || 'SELECT changes();' || char(10) ||
     'SELECT ''DIFFERENT'', o, m FROM (SELECT group_concat(typeof(k) || quote(k) || quote(v)) AS o FROM (SELECT * FROM o ORDER BY k)), (SELECT group_concat(typeof(k) || quote(k) || quote(v)) AS m FROM (SELECT * FROM m ORDER BY k)) WHERE o IS NOT m;'
     END AS line FROM step ORDER BY n)) || char(10) ||
  'SELECT quote(k), quote(v) FROM m ORDER BY k DESC; SELECT count(*), memwal_count(''m''), memwal_check(''m'') FROM m;'
FROM type;
.output
.read all.sql
