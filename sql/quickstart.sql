-- The tour of README.md: sqlite3 tour.db < sql/quickstart.sql
.load build/memwal
CREATE VIRTUAL TABLE rollouts USING memwal(
  id TEXT PRIMARY KEY, source TEXT NOT NULL, reward REAL DEFAULT 0, body TEXT);
INSERT INTO rollouts VALUES ('r-1', 'maze', 0.5, 'left, left, up'), ('r-2', 'maze', NULL, 'up');
INSERT OR REPLACE INTO rollouts VALUES ('r-2', 'maze', 1, 'up, right');
SELECT id, reward, body FROM rollouts WHERE id >= 'r-2';
SELECT memwal_count('rollouts'), memwal_flush('rollouts'), memwal_merge('rollouts');
SELECT name, value FROM memwal_stats('rollouts') WHERE name IN ('rows', 'physical_rows', 'epoch');
INSERT INTO rollouts(id, source) VALUES ('r-1', 'maze');
