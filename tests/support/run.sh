#!/usr/bin/env bash
# run.sh TEST...: runs tests, prints one line for each and the totals of all as the last line. A test is
#   build/<variant>/tests/...   a program: cmocka's report is counted, any other is one test by its exit code
#   tests/sql/x.sql             a script for the sqlite3 shell, compared with x.out byte by byte
#   asan:tests/sql/x.sql        the same with the extension built with sanitizers
#   tiny:tests/sql/x.sql        with limits of a few rows, too; x.tiny, where it is there, has the lines that
#                               may and must differ then, as diff shows them
#   tiny:build/plain/...        a program that gets this extension by MEMWAL
#   x.sh                        a script, one test by its exit code
#   build/failed                a note that the build was not complete; passed over when it is not there
# RUN_JOBS tests run at a time; none may take more than RUN_SECONDS. RUN_ACCEPT=1 writes the .out files of
# scripts instead of comparing.
set -u

top=$(cd "$(dirname "$0")/../.." && pwd)
jobs=${RUN_JOBS:-$(nproc 2>/dev/null || echo 2)}
seconds=${RUN_SECONDS:-900}

# ---- one test: prints to $log, answers "passed failed skipped" ----

# count FILE PATTERN: the number that stands before "test(s)" in cmocka's summary line.
count() { sed -n "s/^\[ *$2 *\] \([0-9]*\) test(s).*/\1/p" "$1" | awk '{n += $1} END {print n + 0}'; }

run_program() {
    local rc
    timeout -k 5 "$seconds" "$@" >"$log" 2>&1
    rc=$?
    if ! grep -q '^\[==========\]' "$log"; then
        [ $rc -eq 0 ] && echo 1 0 0 || echo 0 1 0
        return
    fi
    local passed failed skipped
    passed=$(count "$log" PASSED) failed=$(count "$log" FAILED) skipped=$(count "$log" SKIPPED)
    # A crash, a leak or a timeout comes after or instead of the summary.
    if [ $rc -ne 0 ] && [ "$failed" -eq 0 ]; then
        [ "$passed" -gt 0 ] || passed=$(grep -c '^\[ *OK *\]' "$log")
        failed=1
        echo "exit code $rc" >>"$log"
    fi
    echo "$passed" "$failed" "$skipped"
}

# compare_tiny OUTPUT EXPECTED DIFFERENCES
compare_tiny() {
    local differences=$3
    diff "$2" "$1" | grep '^[<>]' >"$1.differences"
    if [ -n "${RUN_ACCEPT-}" ] && [ -s "$1.differences" ]; then cp "$1.differences" "$differences"; fi
    [ -e "$differences" ] || differences=/dev/null
    if diff -u "$differences" "$1.differences" >"$log" 2>&1; then echo 1 0 0; else echo 0 1 0; fi
}

# The libraries that an extension with sanitizers needs in a program without.
preload() { echo "$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"; }

# The script runs in an empty folder, FOLDER in its output, in which build/memwal is the extension.
run_sql() {
    local variant=$1 script=$2 expected=${2%.sql}.out where=${TMPDIR:-/tmp} folder preload=
    # Thousands of files, each of them synced: not on a disk where that can be helped.
    [ "$variant" = tiny ] && [ -w /dev/shm ] && where=/dev/shm
    folder=$(mktemp -d -p "$where") || return
    mkdir "$folder/build"
    cp "$top/build/$variant/memwal.so" "$folder/build/memwal.so" 2>/dev/null
    [ "$variant" != plain ] && preload=$(preload)
    # stdbuf keeps results and error messages in order.
    (cd "$folder" && ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD=$preload timeout -k 5 "$seconds" \
        stdbuf -oL sqlite3 -batch -init /dev/null test.db <"$top/$script" 2>&1) |
        sed "s|$folder|FOLDER|g" >"$folder/out"
    if [ "$variant" = tiny ]; then
        compare_tiny "$folder/out" "$top/$expected" "$top/${script%.sql}.tiny"
    else
        if [ -n "${RUN_ACCEPT-}" ]; then cp "$folder/out" "$top/$expected"; fi
        if diff -u "$top/$expected" "$folder/out" >"$log" 2>&1; then echo 1 0 0; else echo 0 1 0; fi
    fi
    rm -rf "$folder"
}

run_script() { if timeout -k 5 "$seconds" "$1" >"$log" 2>&1; then echo 1 0 0; else echo 0 1 0; fi; }

# What failed and how to see it again, also where a long report of a sanitizer follows; then the end.
show_failure() {
    local kept
    kept=build/logs/$(echo "${test#build/}" | tr '/:' '__').log
    mkdir -p build/logs && cp "$log" "$kept" && echo "all of it: $kept"
    if [ "$(wc -l <"$log")" -gt 100 ]; then
        grep -E '^\[ *(ERROR|LINE|FAILED)|REPLAY|^again:' "$log" | head -n 40
    fi
    tail -n 100 "$log"
}

run_one() {
    local test=$1 log result started=$EPOCHREALTIME
    log=$(mktemp "$results/log.XXXXXX")
    case $test in
    build/failed)
        echo "the build failed, see above" >"$log"
        result="0 1 0"
        ;;
    asan:*.sql) result=$(run_sql asan "${test#asan:}") ;;
    tiny:*.sql) result=$(run_sql tiny "${test#tiny:}") ;;
    *.sql) result=$(run_sql plain "$test") ;;
    tiny:*) result=$(MEMWAL=build/tiny/memwal ASAN_OPTIONS=detect_leaks=0 run_program env \
        LD_PRELOAD="$(preload)" "${test#tiny:}") ;;
    *.sh) result=$(run_script "$test") ;;
    *) result=$(run_program "$test") ;;
    esac
    echo "$result" >>"$results/totals"
    # shellcheck disable=SC2086
    set -- $result
    {
        printf '%-48s %5s passed %3s failed %3s skipped  %6.2f s\n' "${test#build/}" "$1" "$2" "$3" \
            "$(awk "BEGIN {print $EPOCHREALTIME - $started}")"
        [ "$2" -eq 0 ] || show_failure | sed 's/^/    | /'
    } >"$log.line"
    cat "$log.line"
}

if [ "${1-}" = --one ]; then
    results=$2
    cd "$top" && run_one "$3"
    exit
fi

# ---- all of them ----

cd "$top" || exit 1
results=$(mktemp -d) || exit 1
trap 'rm -rf "$results"' EXIT
: >"$results/totals"
for test; do
    [ "$test" = build/failed ] && [ ! -e build/failed ] && continue
    printf '%s\0' "$test"
done | xargs -0 -r -n 1 -P "$jobs" "$0" --one "$results"

totals=$(awk '{p += $1; f += $2; s += $3} END {printf "%d passed, %d failed, %d skipped", p, f, s}' \
    "$results/totals")
mkdir -p build && echo "$totals" >build/totals
echo "$totals"
case $totals in *", 0 failed, "*) exit 0 ;; *) exit 1 ;; esac
