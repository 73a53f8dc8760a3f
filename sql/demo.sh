#!/usr/bin/env bash
# demo.sh: a real data set through memwal, with every claim checked as it is made: load, exact count, size,
# the same ids once more, flush, merge, and kill -9 in the middle of a load.
#
#   ROWS=n     at most n rows (default: all)
#   CSV=file   your own data: a header line, the first column is the id
#
# Leaves build/demo/demo.db for you to look at.
set -euo pipefail

cd "$(dirname "$0")/.."
folder=build/demo
slice=1000 # rows of a transaction
rm -rf "$folder"
mkdir -p "$folder"

# ---- small tools ----

sql() { sqlite3 -batch -init /dev/null -cmd '.load build/memwal' "$@"; }
now() { echo "${EPOCHREALTIME/,/.}"; }
commas() { printf '%s\n' "$1" | sed -e ':a' -e 's/^\([0-9]*[0-9]\)\([0-9]\{3\}\)/\1,\2/' -e 'ta'; }
megabytes() { awk "BEGIN {printf \"%.1f MB\", $1 / 1e6}"; }
say() { printf '  %-10s %s\n' "$1" "$2"; }
fail() { printf '\n  FAILED     %s\n' "$1"; exit 1; }

# Shows how far a load is; reads numbers of rows done.
progress() {
    local label=$1 total=$2 done
    while read -r done; do
        if [ -t 1 ]; then printf '\r  %-10s %3d %%' "$label" $((done * 100 / total)); fi
    done
    if [ -t 1 ]; then printf '\r\033[K'; fi
}

# ---- the data: id, section, size, description ----

packages() {
    apt-cache dumpavail 2>/dev/null | awk -v rows="${ROWS:-0}" '
        function quoted(text) { gsub(/"/, "\"\"", text); return "\"" text "\"" }
        function flush_record() {
            id = name " " version " " architecture
            if (name != "" && !(id in seen)) {
                seen[id] = 1
                print quoted(id) "," quoted(section) "," size + 0 "," quoted(description)
                if (rows > 0 && ++count >= rows) exit
            }
            name = version = architecture = section = size = description = ""
        }
        /^Package: / { name = substr($0, 10) }
        /^Version: / { version = substr($0, 10) }
        /^Architecture: / { architecture = substr($0, 15) }
        /^Section: / { section = substr($0, 10) }
        /^Size: / { size = substr($0, 7) }
        /^Description: / { description = substr($0, 14) }
        /^$/ { flush_record() }'
}

# Where apt has no lists: rows that look alike.
generated() {
    awk -v rows="${ROWS:-60000}" 'BEGIN {
        split("admin libs net text games science web python", sections, " ")
        split("fast small simple library tool for the of files network data shared", words, " ")
        srand(1)
        for (i = 1; i <= rows; i++) {
            line = ""
            for (n = 0; n < 8; n++) line = line " " words[int(rand() * 12) + 1]
            printf "\"made-%06d %d.%d amd64\",%s,%d,\"%s\"\n", i, rand() * 9, rand() * 99,
                sections[int(rand() * 8) + 1], rand() * 1e7, substr(line, 2)
        }
    }'
}

columns='id TEXT PRIMARY KEY, section TEXT, size INTEGER, description TEXT'
if [ -n "${CSV-}" ]; then
    what="rows of $CSV"
    cp "$CSV" "$folder/data.csv"
    sqlite3 -batch "$folder/source.db" ".import --csv $folder/data.csv source"
    columns=$(sqlite3 -batch "$folder/source.db" "SELECT group_concat('\"' || replace(name, '\"', '\"\"')
        || '\"' || iif(cid = 0, ' TEXT PRIMARY KEY', ' TEXT'), ', ') FROM pragma_table_info('source')")
else
    what="packages that apt knows on this machine"
    packages >"$folder/data.csv" || true # awk may stop reading early
    if [ ! -s "$folder/data.csv" ]; then
        what="generated rows (apt has no lists here)"
        generated >"$folder/data.csv"
    fi
    sqlite3 -batch "$folder/source.db" 'CREATE TABLE source(id, section, size, description)' \
        ".import --csv $folder/data.csv source"
fi
sqlite3 -batch "$folder/source.db" \
    "CREATE TABLE data AS SELECT * FROM source LIMIT ${ROWS:--1}; DROP TABLE source"
id=$(sqlite3 -batch "$folder/source.db" "SELECT '\"' || replace(name, '\"', '\"\"') || '\"'
    FROM pragma_table_info('data') LIMIT 1")
rows=$(sqlite3 -batch "$folder/source.db" 'SELECT count(*) FROM data')
ids=$(sqlite3 -batch "$folder/source.db" "SELECT count(DISTINCT $id) FROM data")
[ "$rows" -gt 0 ] || fail 'there are no rows to load'
say data "$(commas "$rows") $what, $(megabytes "$(wc -c <"$folder/data.csv")") as CSV"

# ---- load: a durable transaction for every 1,000 rows ----

# The statements of a load; a line with the rows done follows each COMMIT.
load_script() {
    local first=1
    echo ".bail on"
    echo "ATTACH '$folder/source.db' AS source;"
    while [ "$first" -le "$rows" ]; do
        local last=$((first + slice - 1))
        [ "$last" -le "$rows" ] || last=$rows
        echo 'BEGIN;'
        echo "INSERT OR REPLACE INTO packages SELECT * FROM source.data"
        echo "    WHERE rowid BETWEEN $first AND $last;"
        echo 'COMMIT;'
        echo ".print $last"
        first=$((last + 1))
    done
}

# load DATABASE LABEL: sets seconds.
load() {
    local started
    started=$(now)
    load_script | stdbuf -oL sqlite3 -batch -init /dev/null -cmd '.load build/memwal' "$1" \
        2>"$folder/load.log" | progress "$2" "$rows" || {
        cat "$folder/load.log"
        fail "the load into $1 stopped"
    }
    seconds=$(awk "BEGIN {print $(now) - $started}")
}
rate() { commas "$(awk "BEGIN {printf \"%d\", $rows / $seconds}")"; }

sql "$folder/demo.db" "CREATE VIRTUAL TABLE packages USING memwal($columns)"
load "$folder/demo.db" load
say load "memwal: $(rate) rows/s, in durable transactions of $(commas $slice) rows"
sqlite3 -batch "$folder/plain.db" \
    "PRAGMA journal_mode = WAL; CREATE TABLE packages($columns) WITHOUT ROWID" >/dev/null
load "$folder/plain.db" load
say '' "ordinary SQLite table (WAL, synchronous FULL): $(rate) rows/s"

count=$(sql "$folder/demo.db" "SELECT memwal_count('packages')")
[ "$count" = "$ids" ] || fail "memwal_count says $count, the data has $ids ids"
say count "$(commas "$count"), exactly the distinct ids of the data"

# ---- the same ids again, flush, merge ----

figure() { sql "$folder/demo.db" "SELECT value FROM memwal_stats('packages') WHERE name = '$1'"; }

sql "$folder/demo.db" "SELECT memwal_flush('packages')" >/dev/null
load "$folder/demo.db" again
count=$(sql "$folder/demo.db" "SELECT memwal_count('packages')")
[ "$count" = "$ids" ] || fail "after loading all ids again memwal_count says $count instead of $ids"
say again "all ids loaded a second time at $(rate) rows/s, the count is still $(commas "$count")"

generation=$(sql "$folder/demo.db" "SELECT memwal_flush('packages')")
before=$(figure physical_rows)
say flush "generation $generation is written; $(commas "$before") physical rows for $(commas "$count") ids"
folded=$(sql "$folder/demo.db" "SELECT memwal_merge('packages')")
after=$(figure physical_rows)
[ "$after" = "$count" ] || fail "after the merge there are $after physical rows for $count ids"
say merge "$folded generations folded: $(commas "$before") physical rows before, $(commas "$after") after"

files=$(sql "$folder/demo.db" "SELECT sum(bytes) FROM memwal_files('packages') WHERE kind = 'table'")
sqlite3 -batch "$folder/plain.db" 'PRAGMA wal_checkpoint(TRUNCATE); VACUUM' >/dev/null
say bytes "memwal $(megabytes "$files"), ordinary table $(megabytes "$(wc -c <"$folder/plain.db")")"

# ---- kill -9 in the middle of a load ----

# Every row is a transaction of its own; its id is written to acks after COMMIT has returned.
awk -v column="$id" 'BEGIN {
    print ".bail on"
    for (i = 1; i <= 1000000; i++) {
        printf "INSERT INTO packages(%s) VALUES(\x27kill-%07d\x27);\n.print kill-%07d\n", column, i, i
    }
}' >"$folder/kill.sql"
: >"$folder/acks"
stdbuf -oL sqlite3 -batch -init /dev/null -cmd '.load build/memwal' "$folder/demo.db" \
    <"$folder/kill.sql" >>"$folder/acks" 2>"$folder/kill.log" &
child=$!
waited=0
while [ "$(wc -l <"$folder/acks")" -lt 1000 ] && [ $waited -lt 300 ]; do
    kill -0 $child 2>/dev/null || { cat "$folder/kill.log"; fail 'the loading process ended by itself'; }
    sleep 0.1
    waited=$((waited + 1))
done
kill -9 $child
wait $child 2>/dev/null || true
acknowledged=$(grep -c '^kill-.......$' "$folder/acks" || true)
[ "$acknowledged" -gt 0 ] || fail 'no row was acknowledged in 30 seconds'
found=$(sql "$folder/demo.db" <<SQL
CREATE TEMP TABLE acks(id TEXT);
.import $folder/acks acks
SELECT count(*) FROM acks JOIN packages ON packages.$id = acks.id;
SQL
)
[ "$found" = "$acknowledged" ] || fail "$acknowledged rows were acknowledged, $found are there"
say 'kill -9' "$(commas "$acknowledged") rows were acknowledged one by one; after the kill \
$(commas "$found") of them are there"
[ "$(sql "$folder/demo.db" "SELECT memwal_check('packages')")" = ok ] || fail 'memwal_check found faults'
say check 'every byte read, every rule proved: ok'

rm -f "$folder/data.csv" "$folder/source.db" "$folder/kill.sql" "$folder"/*.log
printf '\nTo look around:\n\n    sqlite3 %s\n    .load build/memwal\n' "$folder/demo.db"
