#!/usr/bin/env bash
# The tour in README.md is sql/quickstart.sql, and prints what it says there.
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
diff <(block 1) <(grep -v '^--' sql/quickstart.sql) && diff <(block 2) "$work/out"
