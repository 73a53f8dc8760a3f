#!/usr/bin/env bash
# Inserts per second through the sqlite3 shell: in one transaction, and with a transaction for each row.
#   BULK=n SINGLE=n   rows of each kind
set -eu
cd "$(dirname "$0")/../.."
bulk=${BULK:-500000}
single=${SINGLE:-5000}
folder=$(mktemp -d -p build)
trap 'rm -rf "$folder"' EXIT

columns='id TEXT PRIMARY KEY, source INTEGER, reward REAL, body TEXT'
row="printf('%016x', (n * 2654435761) & 0xffffffffff), n % 7, n / 3.0, 'step ' || n || ': left, right, up'"
numbers() { echo "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < $1)"; }
now() { echo "${EPOCHREALTIME/,/.}"; }

# run LABEL ROWS: times the script on standard input, run on a fresh database.
run() {
    local started
    started=$(now)
    sqlite3 -batch -init /dev/null -cmd '.load build/memwal' "$folder/$RANDOM.db" >/dev/null
    awk "BEGIN {t = $(now) - $started; printf \"%-44s %10d rows/s\\n\", \"$1\", $2 / t}"
}

for using in memwal ordinary; do
    if [ $using = memwal ]; then
        create="CREATE VIRTUAL TABLE t USING memwal($columns);"
    else
        create="PRAGMA journal_mode = WAL; CREATE TABLE t($columns) WITHOUT ROWID;"
    fi
    echo "$create $(numbers "$bulk") INSERT INTO t SELECT $row FROM c;" |
        run "$using: one transaction, random ids" "$bulk"
    { echo "$create"; awk -v rows="$single" 'BEGIN {for (i = 1; i <= rows; i++)
        printf "INSERT INTO t VALUES(\x27id-%07d\x27, %d, 0.5, \x27body\x27);\n", i, i % 7}'; } |
        run "$using: a durable transaction for each row" "$single"
done
