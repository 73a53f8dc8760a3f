-- CREATE arguments as the shell shows them: what is honoured, and the words that refuse the rest.
.load build/memwal
.mode list
.nullvalue NULL

-- columns, key and constraints are what table_info shows
CREATE VIRTUAL TABLE a USING memwal(
  id TEXT PRIMARY KEY, -- a comment
  "odd ""name" DECIMAL(10, 2) NOT NULL DEFAULT -1.5,
  [b c] /* another */ TEXT COLLATE NOCASE,
  memtable = '1MB', compression = 0
);
SELECT name, type, "notnull", pk FROM pragma_table_info('a');
INSERT INTO a(id) VALUES ('x');
INSERT INTO a VALUES ('y', NULL, 'Text');
SELECT * FROM a WHERE "b c" IS NULL OR "b c" = 'tEXT';

CREATE VIRTUAL TABLE b USING memwal(n INTEGER, w, PRIMARY KEY(n));
INSERT INTO b(w) VALUES ('one'), ('two');
SELECT rowid, n, w FROM b;

CREATE VIRTUAL TABLE c USING memwal(x DEFAULT 'it''s', y INT DEFAULT '12', z DEFAULT (1 + 2), w DEFAULT x'00ff', v DEFAULT TRUE);
INSERT INTO c(x) VALUES (NULL);
SELECT rowid, x, typeof(y), y, z, hex(w), v FROM c;

-- a text key may have a default, an integer one is allotted all the same
CREATE VIRTUAL TABLE k USING memwal(id TEXT PRIMARY KEY DEFAULT 'some', v);
INSERT INTO k(v) VALUES (1);
INSERT INTO k(v) VALUES (2);
INSERT OR REPLACE INTO k(v) VALUES (3);
INSERT INTO k VALUES (NULL, 4);
UPDATE k SET id = NULL;
SELECT * FROM k;
CREATE VIRTUAL TABLE l USING memwal(id INTEGER PRIMARY KEY DEFAULT 7, v);
INSERT INTO l(v) VALUES (1);
SELECT * FROM l;

-- a store is attached with the columns that it has
CREATE VIRTUAL TABLE d USING memwal(id TEXT PRIMARY KEY, n REAL DEFAULT 2, path = 'shared');
INSERT INTO d(id) VALUES ('one');
CREATE VIRTUAL TABLE e USING memwal(path = 'shared');
SELECT sql FROM sqlite_schema WHERE name = 'e';
SELECT name, type, pk FROM pragma_table_info('e');
INSERT INTO e(id) VALUES ('two');
SELECT * FROM d;

-- refused
CREATE VIRTUAL TABLE t USING memwal;
CREATE VIRTUAL TABLE t USING memwal();
CREATE VIRTUAL TABLE t USING memwal(a, colour = 'red');
CREATE VIRTUAL TABLE t USING memwal(a, durability = 'often');
CREATE VIRTUAL TABLE t USING memwal(a, memtable = '64 parsecs');
CREATE VIRTUAL TABLE t USING memwal(a, snapshot = 'session');
CREATE VIRTUAL TABLE t USING memwal(a, cache = 1, cache = 2);
CREATE VIRTUAL TABLE t USING memwal(a INT CHECK (a > 0));
CREATE VIRTUAL TABLE t USING memwal(a INT UNIQUE);
CREATE VIRTUAL TABLE t USING memwal(a REFERENCES b(n));
CREATE VIRTUAL TABLE t USING memwal(a INT GENERATED ALWAYS AS (1));
CREATE VIRTUAL TABLE t USING memwal(a INTEGER PRIMARY KEY AUTOINCREMENT);
CREATE VIRTUAL TABLE t USING memwal(a TEXT COLLATE NOCASE PRIMARY KEY);
CREATE VIRTUAL TABLE t USING memwal(a TEXT COLLATE other);
CREATE VIRTUAL TABLE t USING memwal(a TEXT PRIMARY KEY ON CONFLICT IGNORE);
CREATE VIRTUAL TABLE t USING memwal(a DEFAULT (random()));
CREATE VIRTUAL TABLE t USING memwal(a DEFAULT CURRENT_TIMESTAMP);
CREATE VIRTUAL TABLE t USING memwal(a TEXT, b TEXT, PRIMARY KEY(a, a));
CREATE VIRTUAL TABLE t USING memwal(a TEXT, b TEXT COLLATE NOCASE, PRIMARY KEY(a, b));
CREATE VIRTUAL TABLE t USING memwal(a, A);
CREATE VIRTUAL TABLE t USING memwal(a HIDDEN, b TEXT HIDDEN);
SELECT count(*) FROM sqlite_schema WHERE name LIKE 't%';

-- options may stand anywhere between the columns
CREATE VIRTUAL TABLE mixed USING memwal(memtable = '1MB', id TEXT, background = off, v, PRIMARY KEY(id), cache = 0);
SELECT name, type, pk FROM pragma_table_info('mixed');
SELECT memwal_set('mixed', 'memtable', '2MB'), memwal_set('mixed', 'background', 'off'), memwal_set('mixed', 'cache', 1);
