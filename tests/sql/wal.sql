-- memwal_wal: what the log holds.
.load build/memwal
.mode list
.nullvalue NULL
CREATE VIRTUAL TABLE t USING memwal(id TEXT PRIMARY KEY, n, background = off);
SELECT count(*) FROM memwal_wal('t');
INSERT INTO t VALUES ('a', 1), ('b', 2), ('c', 3);
DELETE FROM t WHERE id < 'c';
UPDATE t SET id = 'd' WHERE id = 'c';
UPDATE t SET n = 4;
DELETE FROM t WHERE id = 'no';
SELECT * FROM memwal_wal('t');

-- a transaction is one entry, a rolled back one none
BEGIN;
INSERT INTO t VALUES ('e', 5);
INSERT INTO t VALUES ('f', 6);
SELECT count(*) FROM memwal_wal('t');
COMMIT;
BEGIN;
INSERT INTO t VALUES ('g', 7);
ROLLBACK;
SELECT position, puts, deletes, state FROM memwal_wal('t') WHERE position > 4;

-- what is flushed is not in the log any more; positions go on
SELECT memwal_flush('t'), count(*) FROM memwal_wal('t');
SELECT count(*) FROM memwal_wal('t');
INSERT INTO t VALUES ('h', 8);
SELECT position, epoch, generation, puts, deletes, bytes > 0, state FROM memwal_wal('t');
SELECT (SELECT value FROM memwal_stats('t') WHERE name = 'wal_cursor'),
       (SELECT value FROM memwal_stats('t') WHERE name = 'wal_position'),
       (SELECT min(position) FROM memwal_wal('t')), (SELECT max(position) FROM memwal_wal('t'));

-- a large row takes several records
INSERT INTO t VALUES ('i', zeroblob(1000000));
SELECT position, puts, bytes BETWEEN 1000000 AND 1001000 FROM memwal_wal('t') ORDER BY position DESC LIMIT 1;
SELECT rowid, position FROM memwal_wal('t');
SELECT count(*) FROM memwal_wal('t') a, memwal_wal('t') b;

-- the log while writing goes on: the moment of the SELECT
CREATE TABLE seen(position);
INSERT INTO seen SELECT position FROM memwal_wal('t');
SELECT count(*) FROM seen;

-- after a reopen the same
.open test.db
.load build/memwal
SELECT position, epoch, generation, puts, deletes, state FROM memwal_wal('t');

-- wrong calls
SELECT * FROM memwal_wal;
SELECT * FROM memwal_wal('missing');
SELECT * FROM memwal_wal(7);
CREATE VIEW v AS SELECT * FROM memwal_wal('t');
SELECT * FROM v;
