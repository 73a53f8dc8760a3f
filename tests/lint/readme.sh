#!/usr/bin/env bash
# The tour in README.md is sql/quickstart.sql, and prints what it says there; the figures that README.md lists
# are those of memwal_stats, in their order.
set -u
cd "$(dirname "$0")/../.." || exit 1
top=$PWD
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

block() {
    awk '/^## / {on = $0 == "## A tour"} on && /^```/ {inside = !inside; n += inside; next}
        on && inside && n == wanted' wanted="$1" README.md
}

ln -s "$top/build" "$work/build"
(cd "$work" && stdbuf -oL sqlite3 -batch -init /dev/null tour.db <"$top/sql/quickstart.sql" >out 2>&1)
figures() {
    printf '%s\n' '.load build/memwal' "CREATE VIRTUAL TABLE t USING memwal(a);" \
        "SELECT name FROM memwal_stats('t');" | (cd "$work" && sqlite3 -batch -init /dev/null figures.db)
}
listed() { # each name in the first column of the table below the heading
    awk '/^##/ {on = $0 == "### What memwal_stats shows"} on && /^\| `/ {split($0, cell, "|"); print cell[2]}' README.md |
        grep -o '[a-z_]*'
}

diff <(listed) <(figures) && diff <(block 1) <(grep -v '^--' sql/quickstart.sql) && diff <(block 2) "$work/out"
