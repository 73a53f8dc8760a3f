#!/usr/bin/env bash
# What a script can see of the style: width, tabs, length of functions and files, parameters, unfinished
# marks, a head comment in every source file.
set -u
cd "$(dirname "$0")/../.." || exit 1

rc=0
fault() { echo "$1"; rc=1; }
sources=(core/*.[ch] ext/*.[ch])
tests=()
for file in tests/*/*.[ch]; do [ -e "$file" ] && tests+=("$file"); done

# The aim is 100 columns; a few more where a break would read worse are let pass.
awk 'length($0) > 110 {print FILENAME ":" FNR ": " length($0) " columns"; bad = 1}
    /\t/ {print FILENAME ":" FNR ": a tab"; bad = 1} / $/ {print FILENAME ":" FNR ": blank at the end"; bad = 1}
    END {exit bad}' "${sources[@]}" "${tests[@]}" || rc=1
awk '/^\{/ {start = FNR} /^\}/ {if (start && FNR - start > 76) {
        print FILENAME ":" start ": a function of " FNR - start - 1 " lines"; bad = 1} start = 0}
    END {exit bad}' core/*.c ext/*.c || rc=1
wc -l core/*.c ext/*.c | awk '$2 != "total" && $1 > 900 {print $2 ": " $1 " lines"; bad = 1}
    END {exit bad}' || rc=1
grep -nE '\b(TODO|FIXME|XXX|HACK)\b' "${sources[@]}" "${tests[@]}" && fault "unfinished marks"
for file in "${sources[@]}"; do
    head -n 1 "$file" | grep -q "^/\* $(basename "$file"): " || fault "$file: no head comment"
done
exit $rc
