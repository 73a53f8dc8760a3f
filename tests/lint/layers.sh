#!/usr/bin/env bash
# An include points to the same layer or down; the glue sees of the engine its contract and its leaves.
set -u
cd "$(dirname "$0")/../.." || exit 1

layers='
0 base status pledge hash coding schema prefix
1 env env_posix mem buf value key codec cover iter
2 format page page_encode filter cache log
3 arena presence memtable merge manifest levels level_iter pick table_layout table_file table_pool table_gather table_train table_write table_page table_read table_iter table_verify table_copy
4 store version run commit txn overlay flush compact background epoch replay leftovers state check report snapshot settings log_view
5 db
'
# What ext/ may include of core/.
leaves='base status pledge schema coding buf env value key db'

rc=0
fault() { echo "$1"; rc=1; }
layer() { awk -v name="$1" '{for (i = 2; i <= NF; i++) if ($i == name) print $1}' <<<"$layers"; }
# Lines "file included", for every quoted include.
includes() { grep -H -oE '^ *# *include "[^"]+"' "$@" | sed -E 's/: *# *include "/ /; s/"$//'; }

for file in core/*.[ch]; do
    name=$(basename "${file%.*}")
    [ -n "$(layer "$name")" ] || fault "$file: not in the table of layers"
done
while read -r file included; do
    # The contract is made of leaves only; L4 implements parts of it.
    [ "$included" = db.h ] && [ "$file" != core/db.c ] && included=schema.h
    own=$(layer "$(basename "${file%.*}")") other=$(layer "$(basename "${included%.*}")")
    [ -n "$other" ] || { fault "$file: includes $included, which is no file of core/"; continue; }
    [ "$other" -le "${own:-9}" ] || fault "$file (layer $own) includes $included (layer $other)"
done < <(includes core/*.[ch])

while read -r file included; do
    [ -e "ext/$included" ] && continue
    case " $leaves " in
    *" ${included%.h} "*) ;;
    *) fault "$file: includes $included of core/, not db.h or a leaf" ;;
    esac
done < <(includes ext/*.[ch])

grep -nE 'sqlite3(ext)?\.h|sqlite3_[a-z]+ *\(' core/*.[ch] && fault "core/ knows SQLite"
only() {
    local header=$1 owner=$2 found
    found=$(grep -lE "include <$header" core/*.[ch] ext/*.[ch] | grep -vE "$owner")
    [ -z "$found" ] || fault "$header is included by $found"
}
only xxhash.h '^core/hash\.c$'
only 'zstd' '^core/codec\.c$'
exit $rc
