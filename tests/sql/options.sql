-- memwal_set: what may be changed, what it says, and that it lasts.
.load build/memwal
.mode list
.nullvalue NULL
CREATE VIRTUAL TABLE t USING memwal(id TEXT PRIMARY KEY, n, memtable = '3MB', background = off);

-- the old value, as one would write it; the name in any case
SELECT memwal_set('t', 'durability', 'normal'), memwal_set('t', 'DURABILITY', 'FULL'),
       memwal_set('t', 'durability', 'full');
SELECT memwal_set('t', 'memtable', 1025), memwal_set('main.t', 'memtable', '2 KB'),
       memwal_set('t', 'memtable', '1GB'), memwal_set('t', 'memtable', '8MB');
SELECT memwal_set('t', 'cache', 0), memwal_set('t', 'cache', '16MB'), memwal_set('t', 'cache', '4MB');
SELECT memwal_set('t', 'merge_generations', 3), typeof(memwal_set('t', 'merge_generations', '5'));
SELECT memwal_set('t', 'compression', 0), typeof(memwal_set('t', 'compression', 9));
SELECT memwal_set('t', 'background', 'on'), memwal_set('t', 'background', 'off');
SELECT memwal_set('t', 'snapshot', 'statement'), memwal_set('t', 'snapshot', 'TRANSACTION'), memwal_set('t', 'snapshot', 'statement');
SELECT key, value FROM t_store WHERE key LIKE 'option%' ORDER BY key;

-- what is refused changes nothing
SELECT memwal_set('t', 'cash', '1MB');
SELECT memwal_set('t', 'path', 'elsewhere');
SELECT memwal_set('t', 'group_rows', 7);
SELECT memwal_set('t', 'durability', 'none');
SELECT memwal_set('t', 'memtable', '1');
SELECT memwal_set('t', 'memtable', '17GB');
SELECT memwal_set('t', 'cache', -1);
SELECT memwal_set('t', 'merge_generations', 0);
SELECT memwal_set('t', 'compression', 20);
SELECT memwal_set('t', 'background', 'yes');
SELECT memwal_set('t', 'background', CAST(x'6f6e0066' AS TEXT));
SELECT memwal_set('t', 'snapshot', 'session');
SELECT memwal_set('t', 'cache', 1.5);
SELECT memwal_set('t', 'cache', NULL);
SELECT memwal_set('t', x'00', 1);
SELECT memwal_set('t', NULL, 1);
SELECT memwal_set('missing', 'cache', 1);
SELECT memwal_set('t_store', 'cache', 1);
SELECT key, value FROM t_store WHERE key LIKE 'option%' ORDER BY key;

-- nothing that could be rolled back
BEGIN;
SELECT memwal_set('t', 'cache', '1MB');
COMMIT;
SAVEPOINT s;
SELECT memwal_set('t', 'cache', '1MB');
RELEASE s;
CREATE TABLE copy AS SELECT memwal_set('t', 'cache', '1MB');
INSERT INTO t VALUES ('a', memwal_set('t', 'cache', '1MB'));
CREATE VIEW v AS SELECT memwal_set('t', 'cache', '1MB');
SELECT * FROM v;
SELECT count(*) FROM t;

-- and nothing that an INSERT would change
CREATE TABLE ordinary(a);
INSERT INTO ordinary VALUES (1), (2);
SELECT memwal_set('t', 'cache', '5MB'), last_insert_rowid();
SELECT last_insert_rowid();

-- it lasts: the store is closed with its last connection
.open test.db
.load build/memwal
SELECT memwal_set('t', 'memtable', '8MB'), memwal_set('t', 'cache', '5MB'),
       memwal_set('t', 'merge_generations', 5), memwal_set('t', 'compression', 9),
       memwal_set('t', 'background', 'off'), memwal_set('t', 'durability', 'full');
ALTER TABLE t RENAME TO u;
.open test.db
.load build/memwal
SELECT memwal_set('u', 'cache', '6MB'), memwal_set('u', 'cache', '5MB');

-- two connections share the store, and its options
ATTACH 'test.db' AS again;
SELECT memwal_set('again.u', 'cache', '6MB'), memwal_set('main.u', 'cache', '5MB');
DETACH again;

-- another table, another store: its own
CREATE VIRTUAL TABLE other USING memwal(id TEXT PRIMARY KEY, background = off);
SELECT memwal_set('other', 'cache', '9MB'), memwal_set('u', 'cache', '5MB');

-- in temp and in memory options last as long as the table
CREATE VIRTUAL TABLE temp.brief USING memwal(id TEXT PRIMARY KEY, background = off);
SELECT memwal_set('brief', 'cache', '9MB'), memwal_set('brief', 'cache', '10MB');
ATTACH ':memory:' AS memory;
CREATE VIRTUAL TABLE memory.brief USING memwal(id TEXT PRIMARY KEY, background = off);
SELECT memwal_set('memory.brief', 'cache', '9MB'), memwal_set('memory.brief', 'cache', '10MB');

-- where nothing may be written
ATTACH 'file:test.db?mode=ro' AS fixed;
SELECT memwal_set('fixed.u', 'cache', '1MB');
DETACH fixed;
PRAGMA query_only = 1;
SELECT memwal_set('u', 'cache', '1MB');
PRAGMA query_only = 0;
SELECT memwal_set('u', 'cache', '5MB');

-- a row that memwal_set has not written
INSERT INTO other_store VALUES ('option cache', 'much');
.open test.db
.load build/memwal
SELECT count(*) FROM other;
DELETE FROM other_store WHERE key = 'option cache';
SELECT count(*) FROM other;

-- an option that is changed works: a generation for every few rows, merged by whoever writes
SELECT memwal_set('u', 'memtable', '1KB');
INSERT INTO u SELECT 'id' || value, value FROM generate_series(1, 100);
INSERT INTO u SELECT 'id' || value, value FROM generate_series(101, 200);
INSERT INTO u SELECT 'id' || value, value FROM generate_series(201, 300);
SELECT name, value > 0 FROM memwal_stats('u') WHERE name IN ('rows', 'flushes');
